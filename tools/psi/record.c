// SPDX-License-Identifier: GPL-2.0
/*
 * pressure record: a flight recorder.
 *
 * Its cost is that of reading totals, so it keeps files open, and does not read
 * all of them at each look.  Of a text it reads only the totals, once libpsi has
 * parsed one with the same lines.  What other files count is read where so much
 * stalls that somebody may ask why.
 *
 * It looks each second, or, unless somebody says how often, as often as SHARE of a
 * CPU allows.  Time is what it saves there, so each look is right.
 *
 * What a look may leave out
 *
 *   After a look, the stall that the record lacks in a total of cpu, memory or io
 *   is at most 1 % (UNSEEN) of the time since its cgroup was read last, which was
 *   at most 10 s (STALE) ago.  So a cgroup that stalled for 10 % (LOCAL) of a
 *   second is read at once.  The last look leaves out nothing.
 *
 *   A task that stalls in a cgroup stalls in all that contain it.  Let t[c] be
 *   the stall of the task's cgroup on CPU c.  Each of its totals grows by
 *   sum(t[c]) at most.  The exact line of what contains it grows by (psi.rst)
 *
 *	U * sum(t[c]) / sum(w[c]) at least, where sum(w[c]) <= CPUs * U
 *
 *   So sum(t[c]) is at most that growth times CPUs.  @sum of the parent adds this
 *   up.  What a parent may lack that is left out, a cgroup in it may lack, too.
 *
 *   A total may be ahead of the mean that its window ends with (psi_fold.c): it
 *   hides what stalls next.  irq has no exact line, and that of others begins up
 *   to 4 s after the first read.  There only time counts: 10 s, or 60 s (RESCAN)
 *   where the parent's totals stand still.
 *
 *   Plain files have no exact line either, and a mean over CPUs hides nearly all
 *   of a task that sleeps most of the time.  So a plain file is read wherever the
 *   same file of the parent grew at all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

#define FILES_MAX	1048576	/* as many as fs.nr_open allows, unless somebody set it */
#define SIZE_LIMIT	(LONG_MAX >> 20)	/* MB; bytes have to fit */
#define LATE		2.5	/* s; so late a child may be added up */
/* s; in which a cgroup in place of another one is seen, and all are read for classes to go on */
#define RESCAN		60
#define HOLD		10	/* s; so long evidence is read after a stall */
#define UNSEEN		10000	/* us in a second; so much is left out at most */
#define STALE		9.5	/* s; for so long, and a look may be late */
#define SHARE		0.009	/* of a CPU; unless --every says how often to look */
#define SAVED		10	/* s; a look may use what the share was in so long before it */

/**
 * struct source - a cgroup, or the system, whose totals are recorded
 * @name: as in struct group
 * @fd: of the statistics file, or of the plain files by resource; -1 for none
 * @stat: @fd[0] is the statistics file
 * @parent: the source that contains it; -1 for none
 * @grown: when totals grew last, by resource
 * @seen: when its files were read last
 * @sum: what has stalled in it on all CPUs by what was read, in us, at most
 * @above: @sum of the parent when it was read last
 * @lacks: what may have stalled in it since it was read last, in us
 * @totals: as read last
 * @stall: what this look found, in us, by kind of evidence
 * @asked: when so much stalled last that evidence was worth a look
 * @blind: until when not to look, as there is none
 * @read: when it was read last
 * @raw: what it was then
 * @io_stat: the text of that file then; NULL for none
 * @count: evidence of stalls, from 0 on
 */
struct source {
	char *name;
	int fd[PSI_RESOURCES];
	bool stat;
	int parent;
	double grown[PSI_RESOURCES];
	double seen[PSI_RESOURCES];
	double sum;
	double above;
	double lacks;
	struct totals totals[PSI_RESOURCES];
	double stall[EVIDENCE_KINDS];
	double asked[EVIDENCE_KINDS];
	double blind[EVIDENCE_KINDS];
	double read[EVIDENCE_KINDS];
	double raw[EVIDENCE_COUNTS];
	char *io_stat;
	double count[EVIDENCE_COUNTS];
};

struct bytes {
	unsigned char *data;
	size_t count;
	size_t room;
};

#define TEXT_MAX	16384	/* of a file */
#define LINES_MAX	64
#define KEY_MAX		32

/**
 * struct layout - the lines of a file, which those of other cgroups have, too
 * @count: how many there are; 0 as long as that is not known
 * @key: of each, with the space that follows
 * @length: of the key
 * @bit: which total it has, as ring_total() counts them; -1 for none
 */
struct layout {
	int count;
	struct {
		char key[KEY_MAX];
		size_t length;
		int bit;
	} line[LINES_MAX];
};

/**
 * struct recorder - what pressure record has
 * @source: sorted by name
 * @count: how many
 * @descendants: of the root, when these were found
 * @scanned: when that was
 * @changed: since the last frame was written
 * @cpus: how many are online
 * @looked: when the last look was
 * @written: what the file has, for the next frame: totals by cgroup
 * @nr_written: how many
 * @fd: of the file
 * @number: of the segment
 * @size: bytes of a segment
 * @at: where the next frame begins in the segment
 * @frame: the frame that is made
 * @time: of the last frame, in us
 * @plain: leave the statistics files alone
 */
struct recorder {
	struct source *source;
	int count;
	long descendants;
	double scanned;
	bool changed;
	long cpus;
	double looked;
	struct source *written;
	int nr_written;
	int fd;
	uint64_t number;
	uint64_t size;
	uint64_t at;
	struct bytes frame;
	uint64_t time;
	bool plain;
};

static volatile sig_atomic_t over;

/* A signal that comes just before a sleep would be seen after it: this one comes again. */
static void end(int unused)
{
	(void)unused;
	over = 1;
	alarm(1);
}

/* FNV-1a: against what was cut, not against an enemy. */
uint64_t ring_sum(uint64_t sum, const void *data, size_t length)
{
	const unsigned char *byte = data;

	sum ^= 0xcbf29ce484222325;
	while (length--)
		sum = (sum ^ *byte++) * 0x100000001b3;
	return sum;
}

static void put_bytes(struct bytes *bytes, const void *data, size_t length)
{
	if (bytes->count + length > bytes->room) {
		bytes->room = 2 * (bytes->count + length);
		bytes->data = checked(realloc(bytes->data, bytes->room));
	}
	memcpy(bytes->data + bytes->count, data, length);
	bytes->count += length;
}

/* Seven bits a byte; the last one has the eighth clear. */
static void put(struct bytes *bytes, uint64_t number)
{
	unsigned char byte[10];
	size_t length = 0;

	for (; number > 0x7f; number >>= 7)
		byte[length++] = number | 0x80;
	byte[length++] = number;
	put_bytes(bytes, byte, length);
}

/* Files */

static int open_at(const char *directory, const char *file)
{
	char *path = text_of("%s/%s", directory, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		die("%s: %s; raise the limit of open files", path, strerror(errno));
	free(path);
	return fd;
}

static bool is_open(const struct source *source)
{
	bool any = false;

	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		any |= source->fd[resource] >= 0;
	return any;
}

static bool open_files(struct source *source, const char *directory, bool system, bool plain)
{
	for (int kind = 0; kind < EVIDENCE_KINDS; kind++) {
		source->asked[kind] = -INFINITY;
		source->blind[kind] = -INFINITY;
		source->read[kind] = -INFINITY;
	}
	for (int i = 0; i < EVIDENCE_COUNTS; i++)
		source->count[i] = NAN;
	for (int resource = 0; resource < PSI_RESOURCES; resource++) {
		source->fd[resource] = -1;
		source->seen[resource] = -INFINITY;
	}
	if (!plain)
		source->fd[0] = open_at(directory, system ? "stat" : "cgroup.pressure.stat");
	source->stat = source->fd[0] >= 0;
	for (int resource = 0; !source->stat && resource < PSI_RESOURCES; resource++) {
		char *file = text_of("%s%s", psi_resource_name(resource),
				     system ? "" : ".pressure");

		source->fd[resource] = open_at(directory, file);
		free(file);
	}
	return is_open(source);
}

static void close_files(struct source *source)
{
	for (int resource = 0; resource < PSI_RESOURCES; resource++) {
		if (source->fd[resource] >= 0)
			close(source->fd[resource]);
		source->fd[resource] = -1;
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct source *)a)->name, ((const struct source *)b)->name);
}

/**
 * struct scan - looking for cgroups anew
 * @recorder: has those that were found
 * @old: what it had before, sorted
 * @nr_old: how many
 */
struct scan {
	struct recorder *recorder;
	struct source *old;
	int nr_old;
};

/* Take over the files of a source that is known already. */
static void add_source(void *arg, const char *directory, const char *name)
{
	struct source source = { .name = (char *)name }, *known;
	const struct scan *scan = arg;
	struct recorder *recorder = scan->recorder;

	known = scan->nr_old ? bsearch(&source, scan->old, scan->nr_old, sizeof(source), by_name) :
			       NULL;
	if (known && is_open(known)) {
		source = *known;
		known->io_stat = NULL;
		for (int resource = 0; resource < PSI_RESOURCES; resource++)
			known->fd[resource] = -1;
	} else if (!open_files(&source, directory, !*name, recorder->plain)) {
		return;
	}
	source.name = text_of("%s", name);
	recorder->source = grow(recorder->source, recorder->count, sizeof(source));
	recorder->source[recorder->count++] = source;
}

/* The next one that contains it, in what is sorted: "/" is above "/a", and "" above that. */
static int parent_of(const struct recorder *recorder, int child)
{
	char *name = text_of("%s", recorder->source[child].name);
	struct source key = { .name = name }, *found = NULL;

	while (!found && *name) {
		char *cut = strrchr(name, '/');

		cut[cut == name && cut[1]] = 0;
		found = bsearch(&key, recorder->source, child, sizeof(key), by_name);
	}
	free(name);
	return found ? found - recorder->source : -1;
}

static long count_descendants(void)
{
	char mount[PATH_MAX], text[512];
	long count = 0;

	if (psi_cgroup_mount(mount, sizeof(mount)))
		return 0;
	strncat(mount, "/cgroup.stat", sizeof(mount) - strlen(mount) - 1);
	if (read_text(mount, text, sizeof(text)) > 0)
		sscanf(text, "nr_descendants %ld", &count);
	return count;
}

static void find_sources(struct recorder *recorder)
{
	struct scan scan = { recorder, recorder->source, recorder->count };
	char path[PATH_MAX], *proc = text_of("%s/proc/pressure", psi_root());

	recorder->source = NULL;
	recorder->count = 0;
	recorder->descendants = count_descendants();
	recorder->scanned = now();
	recorder->changed = true;
	add_source(&scan, proc, "");
	if (!psi_cgroup_mount(path, sizeof(path)))
		visit_cgroups(path, strlen(path), add_source, &scan);
	for (int i = 0; i < scan.nr_old; i++) {
		close_files(&scan.old[i]);
		free(scan.old[i].name);
		free(scan.old[i].io_stat);
	}
	free(scan.old);
	free(proc);
	if (recorder->count)
		qsort(recorder->source, recorder->count, sizeof(*recorder->source), by_name);
	for (int i = 0; i < recorder->count; i++)
		recorder->source[i].parent = parent_of(recorder, i);
}

/* Totals */

/* Of the plain files by resource, and of the statistics file. */
#define STAT	PSI_RESOURCES
static struct layout layouts[PSI_RESOURCES + 1];

/* "total=" and a number end the line; false where they do not. */
static bool take_total(const char *begin, const char *end, unsigned long long *total)
{
	static const char word[] = "total=";
	unsigned long long place = 1;

	for (*total = 0; end > begin && end[-1] >= '0' && end[-1] <= '9'; place *= 10)
		*total += (*--end - '0') * place;
	return end - begin > (ptrdiff_t)strlen(word) &&
	       !memcmp(end - strlen(word), word, strlen(word));
}

/* The totals of a text; false where its lines are others. */
static bool take_text(const struct layout *layout, const char *text, const char *end,
		      struct totals *totals)
{
	bool *known;

	for (int i = 0; i < layout->count; i++) {
		const char *next = memchr(text, '\n', end - text);
		size_t length = layout->line[i].length;
		int bit = layout->line[i].bit;

		if (!next || next - text < (ptrdiff_t)length ||
		    memcmp(text, layout->line[i].key, length) ||
		    (bit >= 0 && !take_total(text, next, ring_total(totals, bit, &known))))
			return false;
		if (bit >= 0)
			*known = true;
		text = next + 1;
	}
	return layout->count && text == end;
}

static int bit_of(const struct psi_pressure *pressure)
{
	for (int bit = 0; bit < RING_TOTALS; bit++) {
		int class = bit / PSI_KINDS;

		if (psi_line(pressure, class / PSI_CLASSES, class % PSI_CLASSES, bit % PSI_KINDS))
			return bit;
	}
	return -1;
}

/* From a text that libpsi has parsed. */
static void learn(struct layout *layout, const char *text, const char *end, int resource)
{
	struct psi_pressure *pressure = checked(psi_new());
	const char *next;
	int i = 0;

	layout->count = 0;
	for (; text < end && i < LINES_MAX; text = next, i++) {
		size_t length = strcspn(text, " ") + 1;

		next = memchr(text, '\n', end - text);
		if (!next++ || length > KEY_MAX)
			break;
		memcpy(layout->line[i].key, text, length);
		layout->line[i].length = length;
		psi_clear(pressure);
		psi_parse(text, next - text, resource, pressure);
		layout->line[i].bit = bit_of(pressure);
	}
	if (text == end)
		layout->count = i;
	psi_free(pressure);
}

static bool read_totals(int fd, struct layout *layout, int resource, struct totals *totals)
{
	static struct psi_pressure *pressure;
	char text[TEXT_MAX + 1];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);

	if (length > 0 && take_text(layout, text, text + length, totals))
		return true;
	if (!pressure)
		pressure = checked(psi_new());
	psi_clear(pressure);
	if (length <= 0 || psi_read_fd(fd, resource, pressure))
		return false;
	for (int i = 0; i < PSI_RESOURCES; i++)
		if (layout == &layouts[STAT] || i == resource)
			take_totals(&totals[i], pressure, i);
	text[length] = 0;
	learn(layout, text, text + length, resource);
	return true;
}

static double grew(const struct totals *from, const struct totals *to, int class)
{
	if (!from->known[class][PSI_SOME] || !to->known[class][PSI_SOME])
		return 0;
	return (double)to->us[class][PSI_SOME] - (double)from->us[class][PSI_SOME];
}

/* How much stalled since it was read last, and whether that is worth evidence. */
static double weigh(struct source *source, const struct totals *totals, double time, double looked)
{
	double most = 0;

	for (int resource = 0; resource < PSI_IRQ; resource++) {
		const struct totals *from = &source->totals[resource], *to = &totals[resource];
		double some = fmax(grew(from, to, PSI_PLAIN), grew(from, to, PSI_EXACT));
		enum evidence_kind kind = resource == PSI_CPU ? EVIDENCE_CPU : EVIDENCE_MEMORY;

		source->stall[kind] = fmax(source->stall[kind], some);
		most = fmax(most, some);
		/* That no limit holds them, the kernel tells. */
		if (resource == PSI_CPU && to->known[PSI_LIMIT][PSI_SOME])
			some = grew(from, to, PSI_LIMIT);
		if (some >= LOCAL * 1e4 * (time - looked))
			source->asked[kind] = time;
	}
	return most;
}

/* The one that contains it; NULL for the first one. */
static struct source *above_of(const struct recorder *recorder, const struct source *source)
{
	return source->parent < 0 ? NULL : &recorder->source[source->parent];
}

/* Whether a file has to be read: see "What a look may leave out". */
static bool is_due(const struct recorder *recorder, const struct source *source, int resource,
		   double time)
{
	const struct source *above = above_of(recorder, source);
	double unseen = above ? above->sum - source->above : 0;
	double age = time - source->seen[resource], late = fmin(recorder->looked, time - LATE);

	/* Below 0 it had another parent. */
	if (!above || unseen < 0 || age >= (source->stat && unseen > 0 ? STALE : RESCAN))
		return true;
	return source->stat ? unseen + above->lacks > UNSEEN * age :
			      above->grown[resource] >= late;
}

/* False when the cgroup is gone. */
static bool read_source(struct recorder *recorder, struct source *source, double time, bool all)
{
	struct source *above = above_of(recorder, source);
	struct totals totals[PSI_RESOURCES];
	int due = 0, got = 0;

	memset(totals, 0, sizeof(totals));
	for (int resource = 0; resource < PSI_RESOURCES; resource++) {
		if (source->fd[resource] < 0)
			continue;
		if (!all && !is_due(recorder, source, resource, time)) {
			totals[resource] = source->totals[resource];
			continue;
		}
		due++;
		source->seen[resource] = time;
		got += read_totals(source->fd[resource], &layouts[source->stat ? STAT : resource],
				   resource, totals);
	}
	/* What cannot be read may be irq alone: others tell whether the cgroup is gone. */
	if (due && !got && !all)
		return read_source(recorder, source, time, true);
	if (!due) {
		source->lacks = above->sum - source->above + above->lacks;
		return true;
	}
	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		if (memcmp(&totals[resource], &source->totals[resource], sizeof(*totals)))
			source->grown[resource] = time;
	source->sum += recorder->cpus * weigh(source, totals, time, recorder->looked);
	source->above = above ? above->sum : 0;
	source->lacks = 0;
	memcpy(source->totals, totals, sizeof(totals));
	return got;
}

/* What is gone is in no frame; a scan may find another cgroup with its name. */
static void drop_gone(struct recorder *recorder)
{
	int kept = 0;

	for (int i = 0; i < recorder->count; i++)
		if (is_open(&recorder->source[i])) {
			recorder->source[kept++] = recorder->source[i];
		} else {
			free(recorder->source[i].name);
			free(recorder->source[i].io_stat);
		}
	recorder->count = kept;
	for (int i = 0; i < kept; i++)
		recorder->source[i].parent = parent_of(recorder, i);
	recorder->changed = true;
	recorder->scanned = 0;
}

/* What grew since evidence was read in the look before. */
static void read_evidence(struct source *source, const char *mount, unsigned int kinds, double time,
			  double looked)
{
	char *directory = *source->name ? text_of("%s%s", mount, source->name) : NULL;
	bool any[EVIDENCE_KINDS] = { 0 };
	struct evidence evidence;

	evidence_read(&evidence, directory, kinds);
	if (evidence.io_stat && *evidence.io_stat)
		evidence.count[EVIDENCE_IO_MAX] = fmax(0, source->raw[EVIDENCE_IO_MAX]) +
			(source->io_stat ? 1e6 * io_max_asks(directory, source->io_stat,
							     evidence.io_stat) : 0);
	/* The stall of a kind comes after all else of it. */
	for (int i = EVIDENCE_COUNTS; i-- > 0;) {
		enum evidence_kind kind = evidence_kind_of(i);
		double more = i < EVIDENCE_KINDS ? source->stall[kind] :
						   evidence.count[i] - source->raw[i];

		if (!(kinds & 1u << kind))
			continue;
		any[kind] |= !isnan(evidence.count[i]);
		if (more >= 0 && any[kind] && source->read[kind] >= looked)
			source->count[i] = (isnan(source->count[i]) ? 0 : source->count[i]) + more;
		source->raw[i] = evidence.count[i];
	}
	for (int kind = 0; kind < EVIDENCE_KINDS; kind++) {
		if (any[kind])
			source->read[kind] = time;
		else if (kinds & 1u << kind)
			source->blind[kind] = time + RESCAN;
	}
	if (kinds & 1u << EVIDENCE_MEMORY) {
		free(source->io_stat);
		source->io_stat = evidence.io_stat;
	}
	free(directory);
}

/* Where a cgroup is worth evidence, those above it are, too: one of them may have the limit. */
static void read_all_evidence(struct recorder *recorder, double time)
{
	char mount[PATH_MAX] = "";

	psi_cgroup_mount(mount, sizeof(mount));
	for (int i = recorder->count; i-- > 0;) {
		struct source *source = &recorder->source[i];
		struct source *above = above_of(recorder, source) ?: source;
		unsigned int kinds = 0;

		for (int kind = 0; kind < EVIDENCE_KINDS; kind++) {
			if (source->asked[kind] < time - HOLD)
				continue;
			above->asked[kind] = fmax(above->asked[kind], source->asked[kind]);
			if (time >= source->blind[kind])
				kinds |= 1u << kind;
		}
		if (kinds)
			read_evidence(source, mount, kinds, time, recorder->looked);
	}
	recorder->looked = time;
}

static void look(struct recorder *recorder, bool all)
{
	double time = now();
	bool gone = false;

	recorder->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (time >= recorder->scanned + RESCAN || recorder->descendants != count_descendants())
		find_sources(recorder);
	for (int i = 0; i < recorder->count; i++) {
		struct source *source = &recorder->source[i];

		memset(source->stall, 0, sizeof(source->stall));
		if (!read_source(recorder, source, time, all)) {
			close_files(source);
			gone = true;
		}
	}
	if (gone)
		drop_gone(recorder);
	read_all_evidence(recorder, time);
}

/* Frames */

static uint64_t known_mask(struct source *source)
{
	uint64_t mask = 0;
	bool *known;

	for (int bit = 0; bit < RING_TOTALS; bit++) {
		ring_total(source->totals, bit, &known);
		mask |= (uint64_t)*known << bit;
	}
	for (int i = 0; i < EVIDENCE_COUNTS; i++)
		mask |= (uint64_t)!isnan(source->count[i]) << (RING_TOTALS + i);
	return mask;
}

static bool is_same(const struct source *a, const struct source *b)
{
	return !memcmp(a->totals, b->totals, sizeof(a->totals)) &&
	       !memcmp(a->count, b->count, sizeof(a->count));
}

static void put_new(struct bytes *frame, struct source *source)
{
	uint64_t mask = known_mask(source);

	put(frame, RING_NEW);
	put(frame, strlen(source->name));
	put_bytes(frame, source->name, strlen(source->name));
	put(frame, mask);
	for (int bit = 0; bit < RING_BITS; bit++)
		if (mask & 1ull << bit)
			put(frame, ring_get(source->totals, source->count, bit));
}

/* Whether the totals of @new are those of @old or more: of the same cgroup. */
static bool put_growth(struct bytes *frame, struct source *old, struct source *new)
{
	uint64_t from[RING_BITS], to[RING_BITS], mask = 0;

	if (known_mask(old) != known_mask(new))
		return false;
	for (int bit = 0; bit < RING_BITS; bit++) {
		from[bit] = ring_get(old->totals, old->count, bit);
		to[bit] = ring_get(new->totals, new->count, bit);
		if (to[bit] < from[bit])
			return false;
		mask |= (uint64_t)(to[bit] > from[bit]) << bit;
	}
	put(frame, RING_GREW);
	put(frame, mask);
	for (int bit = 0; bit < RING_BITS; bit++)
		if (mask & 1ull << bit)
			put(frame, to[bit] - from[bit]);
	return true;
}

/* A list of changes: how many cgroups stay as they are, and what comes then. */
static void put_changes(struct recorder *recorder, struct source *old, int nr_old)
{
	struct bytes *frame = &recorder->frame;
	int i = 0, j = 0, same = 0;

	while (i < nr_old || j < recorder->count) {
		struct source *new = &recorder->source[j];
		int order = i == nr_old ? 1 : j == recorder->count ? -1 :
			    strcmp(old[i].name, new->name);

		if (!order && is_same(&old[i], new)) {
			same++, i++, j++;
			continue;
		}
		put(frame, same);
		same = 0;
		if (order > 0) {
			put_new(frame, new);
			j++;
		} else if (!order && put_growth(frame, &old[i], new)) {
			i++, j++;
		} else {
			put(frame, RING_GONE);
			i++;
		}
	}
	put(frame, same);
	put(frame, RING_END);
}

static void make_frame(struct recorder *recorder, uint64_t time, struct source *old, int nr_old)
{
	struct ring_frame head = { 0 };

	recorder->frame.count = 0;
	put_bytes(&recorder->frame, &head, sizeof(head));
	put(&recorder->frame, old ? time - recorder->time : time);
	put_changes(recorder, old, nr_old);
}

/* The head of the frame, once all else and the segment are known. */
static void seal_frame(struct recorder *recorder)
{
	struct ring_frame head = { .length = recorder->frame.count - sizeof(head) };

	head.sum = ring_sum(recorder->number, recorder->frame.data + sizeof(head), head.length);
	memcpy(recorder->frame.data, &head, sizeof(head));
}

static void write_at(struct recorder *recorder, uint64_t at, const void *data, size_t length)
{
	off_t offset = recorder->number % SEGMENTS * recorder->size + at;

	if (pwrite(recorder->fd, data, length, offset) != (ssize_t)length)
		die("cannot write the record: %s", strerror(errno));
}

/* The old head goes first: of what comes after it, some may be on disk and some not. */
static void begin_segment(struct recorder *recorder)
{
	struct ring_head head = { .magic = RING_MAGIC, .number = ++recorder->number,
				  .size = recorder->size };

	if (sizeof(head) + recorder->frame.count > recorder->size)
		die("--size: a look at %d cgroups takes %zu bytes; the file must have %zu at least",
		    recorder->count, recorder->frame.count,
		    2 * SEGMENTS * (sizeof(head) + recorder->frame.count));
	read_line("/proc/sys/kernel/random/boot_id", head.boot, sizeof(head.boot));
	read_line("/proc/sys/kernel/osrelease", head.kernel, sizeof(head.kernel));
	read_line("/proc/sys/kernel/hostname", head.host, sizeof(head.host));
	head.sum = ring_sum(0, &head, offsetof(struct ring_head, sum));
	write_at(recorder, 0, &head, sizeof(head));
	recorder->at = sizeof(head);
}

static void remember(struct recorder *recorder)
{
	for (int i = 0; !recorder->changed && i < recorder->count; i++) {
		memcpy(recorder->written[i].totals, recorder->source[i].totals,
		       sizeof(recorder->source[i].totals));
		memcpy(recorder->written[i].count, recorder->source[i].count,
		       sizeof(recorder->source[i].count));
	}
	if (!recorder->changed)
		return;
	recorder->changed = false;
	for (int i = 0; i < recorder->nr_written; i++)
		free(recorder->written[i].name);
	free(recorder->written);
	recorder->written = checked(malloc((recorder->count + 1) * sizeof(struct source)));
	recorder->nr_written = recorder->count;
	for (int i = 0; i < recorder->count; i++) {
		recorder->written[i] = recorder->source[i];
		recorder->written[i].name = text_of("%s", recorder->source[i].name);
	}
}

static void write_frame(struct recorder *recorder, uint64_t time)
{
	make_frame(recorder, time, recorder->written, recorder->nr_written);
	/* Within a segment, time only goes forward. */
	if (!recorder->at || time < recorder->time ||
	    recorder->at + recorder->frame.count > recorder->size) {
		make_frame(recorder, time, NULL, 0);
		begin_segment(recorder);
	}
	seal_frame(recorder);
	write_at(recorder, recorder->at, recorder->frame.data, recorder->frame.count);
	recorder->at += recorder->frame.count;
	recorder->time = time;
	remember(recorder);
}

/* The file */

/* What a power loss left of a file before anything was written to it. */
static bool is_empty(int fd)
{
	char bytes[65536];
	ssize_t got;
	off_t at;

	for (at = 0; (got = pread(fd, bytes, sizeof(bytes), at)) > 0; at += got)
		for (ssize_t i = 0; i < got; i++)
			if (bytes[i])
				return false;
	return !got;
}

/* The number of the newest segment. */
static void find_end(struct recorder *recorder, const char *path)
{
	struct ring_head head;

	for (int i = 0; i < SEGMENTS; i++) {
		if (pread(recorder->fd, &head, sizeof(head), i * recorder->size) != sizeof(head) ||
		    !ring_known_magic(&head) ||
		    head.sum != ring_sum(0, &head, offsetof(struct ring_head, sum)))
			continue;
		if (head.size != recorder->size)
			die("%s was made with another --size: remove it", path);
		if (head.number > recorder->number)
			recorder->number = head.number;
	}
	if (!recorder->number && !is_empty(recorder->fd))
		die("%s is no record, or one of another version: remove it", path);
}

/*
 * Go on where the newest segment ends, if it is of this boot.  In one of
 * another boot there may be what a power loss kept after a frame that it lost.
 */
static void resume(struct recorder *recorder, const char *path)
{
	struct record record = { .path = path, .data = checked(malloc(recorder->size)) };
	off_t offset = recorder->number % SEGMENTS * recorder->size;
	const struct ring_head *head = (const void *)record.data;
	char boot[sizeof(head->boot)];

	record.at = sizeof(*head);
	if (pread(recorder->fd, record.data, recorder->size, offset) == (ssize_t)recorder->size &&
	    head->number == recorder->number &&
	    !memcmp(head->magic, RING_MAGIC, sizeof(head->magic)) &&
	    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) &&
	    !strcmp(boot, head->boot))
		while (record_frame(&record, head))
			recorder->at = record.at;
	recorder->time = record.us;
	recorder->nr_written = record.now.count;
	recorder->written = checked(calloc(record.now.count + 1, sizeof(struct source)));
	for (int i = 0; i < record.now.count; i++) {
		recorder->written[i].name = text_of("%s", record.now.groups[i].name);
		memcpy(recorder->written[i].totals, record.now.groups[i].totals,
		       sizeof(recorder->written[i].totals));
		memcpy(recorder->written[i].count, record.now.groups[i].evidence.count,
		       sizeof(recorder->written[i].count));
	}
	/* Evidence goes on from there. */
	for (int i = 0; i < recorder->count; i++) {
		struct source *source = &recorder->source[i], *old =
			bsearch(source, recorder->written, recorder->nr_written, sizeof(*old),
				by_name);

		if (old)
			memcpy(source->count, old->count, sizeof(source->count));
	}
	snapshot_free(&record.now);
	free(record.data);
}

static void open_ring(struct recorder *recorder, const char *path, long megabytes)
{
	struct stat status;
	int error;

	recorder->size = ((uint64_t)megabytes << 20) / SEGMENTS;
	/* The service has it made by systemd. */
	if (!strcmp(path, RECORD) && mkdir(RECORD_DIRECTORY, 0750) && errno != EEXIST)
		die("cannot make " RECORD_DIRECTORY ": %s: %swrite another file with --record",
		    strerror(errno), errno == EACCES ? "run as root, or " : "");
	recorder->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (recorder->fd < 0 && errno == EACCES)
		die("%s: %s: run as root, or write another file with --record", path,
		    strerror(errno));
	if (recorder->fd < 0 || fstat(recorder->fd, &status))
		die("%s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		die("%s: this is no file that can be a record", path);
	if (flock(recorder->fd, LOCK_EX | LOCK_NB))
		die("%s: another 'pressure record' writes to it", path);
	if (status.st_size && (uint64_t)status.st_size != recorder->size * SEGMENTS)
		die("%s has another size than --size says: remove it", path);
	find_end(recorder, path);
	/* All of the room that it will ever need. */
	error = posix_fallocate(recorder->fd, 0, recorder->size * SEGMENTS);
	/* What it got of a disk that is full would keep it so. */
	if (error && !status.st_size && ftruncate(recorder->fd, 0))
		complain("%s: %s", path, strerror(errno));
	if (error)
		die("%s: %s", path, strerror(error));
	resume(recorder, path);
}

/* Of a cgroup each file is open; only root may have more than the limit's limit. */
static void raise_limit(void)
{
	struct rlimit limit = { FILES_MAX, FILES_MAX };

	if (!setrlimit(RLIMIT_NOFILE, &limit) || getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static uint64_t time_us(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000ull + time.tv_nsec / 1000;
}

/* Of an error the kernel tells only once. */
static void write_to_disk(const struct recorder *recorder)
{
	if (fdatasync(recorder->fd))
		die("cannot write the record: %s", strerror(errno));
}

/* How many looks there were; EVERY is 0 for each second, if that costs no more than SHARE. */
static long keep_looking(struct recorder *recorder, double every, double sync, long count)
{
	/* A clock that somebody sets goes on as it began; while the machine sleeps, too. */
	const uint64_t begin = time_us(CLOCK_REALTIME) - time_us(CLOCK_BOOTTIME);
	/* @paid: when all that was used is its share of the time. */
	double next = now(), synced = next, paid = next - SAVED;
	uint64_t used = time_us(CLOCK_PROCESS_CPUTIME_ID), before;
	bool last = false;
	long i;

	for (i = 0; !last; i++) {
		last = over || i + 1 == count;
		look(recorder, last);
		write_frame(recorder, begin + time_us(CLOCK_BOOTTIME));
		before = used;
		used = time_us(CLOCK_PROCESS_CPUTIME_ID);
		paid = fmax(paid, now() - SAVED) + (used - before) / 1e6 / SHARE;
		next = fmax(next + (every ?: 1), every ? now() : fmax(now(), paid));
		if (next > synced + sync) {
			write_to_disk(recorder);
			synced = now();
		}
		if (!last && !over)
			sleep_until(next);
	}
	write_to_disk(recorder);
	return i;
}

static void report_record(const struct recorder *recorder, const char *path, long looks,
			  double seconds)
{
	int cgroups = recorder->count - (recorder->count && !*recorder->source[0].name);
	struct report report = { 0 };

	report_say(&report, "In %.1f s, %ld looks at the machine and %d cgroups went to %s.",
		   seconds, looks, cgroups, path);
	report_fact_text(&report, "record", path);
	report_fact(&report, "seconds", FMT_SECONDS, seconds);
	report_fact(&report, "looks", FMT_COUNT, looks);
	report_fact(&report, "cgroups", FMT_COUNT, cgroups);
	report_print(stdout, &report);
	report_free(&report);
}

int verb_record(int argc, char **argv)
{
	const char *path = RECORD;
	double every = 0, sync = 5, begin = now();
	long size = 64, count = 0, looks;
	struct recorder recorder = { 0 };
	const struct opt opts[] = {
		{ "record", OPT_TEXT, &path, "FILE", "write it there (" RECORD ")" },
		{ "every", OPT_DURATION, &every, "TIME",
		  "from one look to the next (1s, if that is cheap)" },
		{ "size", OPT_NUMBER, &size, "MB", "the file has at most so many (64)" },
		{ "sync", OPT_TIME, &sync, "TIME", "write to the disk so often (5s)" },
		{ "count", OPT_NUMBER, &count, "N", "end after N looks" },
		{ "plain", OPT_FLAG, &recorder.plain, NULL,
		  "without limit and shortage, which is cheaper" },
		{ 0 }
	};

	if (*parse_options(argc, argv, opts, "record [OPTIONS]"))
		die("record takes no arguments; 'pressure record --help' shows how to use it");
	if (size > SIZE_LIMIT)
		die("--size: '%ld' is too large", size);
	raise_limit();
	find_sources(&recorder);
	if (!recorder.count)
		die("no pressure can be read here; 'pressure doctor' tells why");
	open_ring(&recorder, path, size);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = end }, NULL);
	sigaction(SIGINT, &(struct sigaction){ .sa_handler = end }, NULL);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = end }, NULL);
	looks = keep_looking(&recorder, every, sync, count);
	if (opt_json)
		report_record(&recorder, path, looks, now() - begin);
	return STATUS_OK;
}
