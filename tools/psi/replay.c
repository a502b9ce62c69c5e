// SPDX-License-Identifier: GPL-2.0
/* What pressure record wrote: read it, and show it as it went. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

#define SLOW		1	/* percent */
#define ROWS		20	/* of the table, unless --step says */
#define TIME_MAX	0x20000000000000ull	/* us; a double has no more bits */

struct cursor {
	const unsigned char *at, *end;
	bool bad;
};

static int by_number(const void *a, const void *b)
{
	const struct ring_head *x = *(const struct ring_head * const *)a,
			       *y = *(const struct ring_head * const *)b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static void find_segments(struct record *record)
{
	/* A record's is a multiple of 8: no other file is read where numbers are not aligned. */
	size_t size = record->size / SEGMENTS & ~(size_t)7;

	for (int i = 0; i < SEGMENTS; i++) {
		const struct ring_head *head = (const void *)(record->data + i * size);

		if (size > sizeof(*head) && head->size == size &&
		    ring_known_magic(head) &&
		    head->sum == ring_sum(0, head, offsetof(struct ring_head, sum)))
			record->segment[record->nr_segments++] = head;
	}
	qsort(record->segment, record->nr_segments, sizeof(*record->segment), by_number);
}

static void open_record(struct record *record, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	ssize_t got = 1;

	*record = (struct record){ .path = path };
	if (fd < 0 || fstat(fd, &status))
		die("%s: %s%s", path, strerror(errno), errno == EACCES ? ": run as root" :
		    errno == ENOENT ? "; 'pressure record' writes one" : "");
	if (!S_ISREG(status.st_mode) || !status.st_size)
		die("%s: this is no record", path);
	record->data = checked(malloc(status.st_size));
	while (got > 0 && record->size < (size_t)status.st_size) {
		got = read(fd, record->data + record->size, status.st_size - record->size);
		record->size += got > 0 ? got : 0;
	}
	close(fd);
	find_segments(record);
	if (!record->nr_segments)
		die("%s: this is no record, or one of another version or kind of machine", path);
}

void record_close(struct record *record)
{
	snapshot_free(&record->now);
	free(record->data);
	free(record);
}

static uint64_t take(struct cursor *cursor)
{
	uint64_t number = 0;

	for (int shift = 0; shift < 64; shift += 7) {
		if (cursor->at >= cursor->end)
			break;
		number |= (uint64_t)(*cursor->at & 0x7f) << shift;
		if (!(*cursor->at++ & 0x80))
			return number;
	}
	cursor->bad = true;
	return 0;
}

static bool any_known(const struct group *group)
{
	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		if (group->totals[resource].known[PSI_PLAIN][PSI_SOME] ||
		    group->totals[resource].known[PSI_PLAIN][PSI_FULL])
			return true;
	return false;
}

static struct group *find_group(const struct snapshot *snapshot, const struct group *key)
{
	return snapshot->count ? bsearch(key, snapshot->groups, snapshot->count, sizeof(*key),
					 by_group) : NULL;
}

/* What the look before had is there since then, unless another one took its place. */
static void go_on(const struct group *old, struct group *new)
{
	if (any_known(new) && !is_other(old, new))
		new->since = old->since;
}

static void take_new(struct cursor *cursor, struct snapshot *now, int place,
		     const struct group *gone, long look)
{
	struct group group = { .since = look };
	size_t length = take(cursor);
	uint64_t mask;

	if (length > (size_t)(cursor->end - cursor->at)) {
		cursor->bad = true;
		return;
	}
	group.name = text_of("%.*s", (int)length, cursor->at);
	cursor->at += length;
	/* Names are paths, and sorted: they are looked up. */
	cursor->bad |= (*group.name && *group.name != '/') ||
		       (place && strcmp(now->groups[place - 1].name, group.name) >= 0) ||
		       (place < now->count && strcmp(now->groups[place].name, group.name) <= 0);
	evidence_none(&group.evidence);
	mask = take(cursor);
	for (int bit = 0; bit < RING_BITS; bit++)
		if (mask & 1ull << bit)
			ring_set(group.totals, group.evidence.count, bit, take(cursor));
	if (gone->name && !strcmp(gone->name, group.name))
		go_on(gone, &group);
	now->groups = grow(now->groups, now->count, sizeof(group));
	memmove(&now->groups[place + 1], &now->groups[place],
		(now->count++ - place) * sizeof(group));
	now->groups[place] = group;
}

static void take_growth(struct cursor *cursor, struct group *group)
{
	double *count = group->evidence.count;
	uint64_t mask = take(cursor);

	for (int bit = 0; bit < RING_BITS; bit++)
		if (mask & 1ull << bit)
			ring_set(group->totals, count, bit,
				 ring_get(group->totals, count, bit) + take(cursor));
}

/* @gone takes the place of what it was; the caller frees its name. */
static void drop(struct snapshot *now, int place, struct group *gone)
{
	free(gone->name);
	*gone = now->groups[place];
	memmove(&now->groups[place], &now->groups[place + 1],
		(--now->count - place) * sizeof(*now->groups));
}

static void take_changes(struct cursor *cursor, struct snapshot *now, long look)
{
	struct group gone = { 0 };
	int place = 0;

	while (!cursor->bad) {
		enum ring_change change;

		place += take(cursor);
		change = take(cursor);
		if (change == RING_END)
			break;
		if (place < 0 || place > now->count || (change != RING_NEW && place == now->count))
			cursor->bad = true;
		else if (change == RING_GREW)
			take_growth(cursor, &now->groups[place++]);
		else if (change == RING_NEW)
			take_new(cursor, now, place++, &gone, look);
		else
			drop(now, place, &gone);
	}
	free(gone.name);
}

/* The next frame whose sum is right; at the end of a segment it stays there. */
bool record_frame(struct record *record, const struct ring_head *head)
{
	size_t begin = (const unsigned char *)head - record->data;
	bool key = record->at == begin + sizeof(*head);
	const unsigned char *at = record->data + record->at;
	struct ring_frame frame;
	struct cursor cursor;
	struct snapshot before = { 0 };
	uint64_t time;

	if (record->at + sizeof(frame) > begin + head->size)
		return false;
	memcpy(&frame, at, sizeof(frame));
	at += sizeof(frame);
	if (!frame.length || frame.length > begin + head->size - record->at - sizeof(frame))
		return false;
	cursor = (struct cursor){ at, at + frame.length, false };
	if (frame.sum != (uint32_t)ring_sum(head->number, cursor.at, frame.length))
		return false;
	record->at += sizeof(frame) + frame.length;
	if (key) {
		before = record->now;
		record->now = (struct snapshot){ 0 };
	}
	time = take(&cursor);
	cursor.bad |= time > TIME_MAX;
	record->us = time + (key ? -record->shift[record->reading] : record->us);
	cursor.bad |= record->us > (int64_t)TIME_MAX;
	take_changes(&cursor, &record->now, ++record->looks);
	if (cursor.bad)
		die("%s: this is no record of this version", record->path);
	for (int i = 0; i < before.count; i++) {
		struct group *group = find_group(&record->now, &before.groups[i]);

		if (group)
			go_on(&before.groups[i], group);
	}
	snapshot_free(&before);
	return true;
}

static bool begins_anew(const struct record *record, const struct ring_head *head)
{
	int last = record->reading - 1;

	return record->shift[last] != record->shift[last + 1] ||
	       strncmp(head->boot, record->segment[last]->boot, sizeof(head->boot));
}

/* The next look; false when there is none. */
static bool next_look(struct record *record)
{
	for (; record->reading < record->nr_segments; record->reading++, record->at = 0) {
		const struct ring_head *head = record->segment[record->reading];

		if (!record->at) {
			record->at = (const unsigned char *)head - record->data + sizeof(*head);
			if (record->reading && begins_anew(record, head))
				record->boot++;
		}
		if (record_frame(record, head))
			return true;
	}
	return false;
}

/* Copy what is known now. */
static void keep(const struct record *record, struct snapshot *snapshot)
{
	snapshot_free(snapshot);
	snapshot->groups = checked(calloc(record->now.count + 1, sizeof(struct group)));
	snapshot->count = record->now.count;
	/* Also where there is none. */
	snapshot->groups[0].time = record->us / 1e6;
	for (int i = 0; i < snapshot->count; i++) {
		snapshot->groups[i] = record->now.groups[i];
		snapshot->groups[i].name = text_of("%s", record->now.groups[i].name);
		snapshot->groups[i].time = record->us / 1e6;
		snapshot->stat |= snapshot->groups[i].totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME];
	}
}

static void rewind_record(struct record *record)
{
	snapshot_free(&record->now);
	record->reading = 0;
	record->at = 0;
	record->boot = 0;
}

/* When the last look was; and where a clock was set back, a second is between the looks. */
static double find_times(struct record *record)
{
	int64_t last = INT64_MIN;

	for (; next_look(record); last = record->us)
		for (int i = 0; record->us < last && i < record->reading; i++)
			record->shift[i] += last - record->us + 1000000;
	if (last == INT64_MIN)
		die("%s: no look at the cgroups is in it", record->path);
	rewind_record(record);
	/* Only now it is known by how much times are shifted. */
	while (next_look(record))
		record->boot_end[record->boot] = record->us / 1e6;
	rewind_record(record);
	return last / 1e6;
}

bool span_given(const struct span *span)
{
	return span->path || span->since >= 0 || span->until >= 0;
}

/* A time since 1970 as people write it, allocated. */
char *time_text(double seconds, bool ms)
{
	time_t time = floor(seconds);
	char text[32];

	strftime(text, sizeof(text), "%F %T", localtime(&time));
	return ms ? text_of("%s.%03d", text, (int)((seconds - time) * 1000)) : text_of("%s", text);
}

/* When the last look was that is not after @time. */
static double last_before(struct record *record, double time)
{
	double last = 0;

	while (next_look(record) && record->us / 1e6 <= time + 0.001)
		last = record->us / 1e6;
	if (!last)
		die("%s begins at %s, after that time", record->path,
		    time_text(record->us / 1e6, false));
	rewind_record(record);
	return last;
}

struct record *record_open(const struct span *span)
{
	struct record *record = grow(NULL, 0, sizeof(*record));
	double last;

	open_record(record, span->path ? span->path : RECORD);
	last = find_times(record);
	record->begin = span->since >= 0 ? last - span->since : -INFINITY;
	record->end = span->until >= 0 ? last - span->until : last;
	if (span->since >= 0 && record->end <= record->begin)
		die("--since must be longer ago than --until");
	if (span->until >= 0)
		record->end = last_before(record, record->end);
	if (record->end < record->begin - 0.001)
		die("%s: no look is in that time", record->path);
	/* What the files of this machine say now is another matter. */
	psi_set_root("/dev/null");
	return record;
}

/* The next look in the part that is asked for; false when there is none. */
bool record_next(struct record *record)
{
	while (next_look(record) && record->us / 1e6 <= record->end + 0.001)
		if (record->us / 1e6 >= record->begin - 0.001)
			return true;
	return false;
}

/* What was not there all the time up to a later look, or is another one with that name. */
static void leave_out(struct snapshot *from, const struct snapshot *to)
{
	struct group gone = { 0 };

	for (int i = from->count; i-- > 0;) {
		const struct group *group = find_group(to, &from->groups[i]);

		if (*from->groups[i].name && (!group || !any_known(group) ||
					      group->since != from->groups[i].since))
			drop(from, i, &gone);
	}
	free(gone.name);
}

/**
 * span_try() - totals at both ends of a part of a record
 * @span: the part
 * @from: the result; of its begin, or of the last boot in it; NULL if not wanted
 * @to: the result; of its end
 *
 * Return: false when both are the same look
 */
bool span_try(const struct span *span, struct snapshot *from, struct snapshot *to)
{
	struct record *record = record_open(span);
	int boot = -1;

	if (from)
		*from = (struct snapshot){ 0 };
	*to = (struct snapshot){ 0 };
	while (record_next(record)) {
		if (from && record->boot != boot)
			keep(record, from);
		boot = record->boot;
		if (record->us / 1e6 >= record->end - 0.001)
			keep(record, to);
	}
	if (from)
		leave_out(from, to);
	record_close(record);
	return !from || from->groups[0].time < to->groups[0].time;
}

/* The same, or the end of the program. */
void span_read(const struct span *span, struct snapshot *from, struct snapshot *to)
{
	if (!span_try(span, from, to))
		die("%s: only one look is in that time", span->path ? span->path : RECORD);
}

/* Nothing is in both looks, or in the place of it came something else. */
void die_of_span(const struct span *span)
{
	die("%s: nothing was there from its begin to its end; --since and --until choose another "
	    "time", span->path ? span->path : RECORD);
}

/**
 * samples_open() - begin to look at a group again and again
 * @samples: to be initialised
 * @span: a part of a record, or none: then it is looked at now
 * @cgroup: as the user wrote it; NULL for the machine
 */
void samples_open(struct samples *samples, const struct span *span, const char *cgroup)
{
	*samples = (struct samples){ 0 };
	if (span_given(span)) {
		samples->name = cgroup ? cgroup_name_or_die(cgroup) : text_of("%s", "");
		samples->record = record_open(span);
	} else if (cgroup) {
		samples->directory = checked(malloc(PATH_MAX));
		cgroup_find_or_die(samples->directory, cgroup);
	}
	/* Of a record, the files of this machine do not tell. */
	samples->whose = whose_pressure();
}

static bool next_live(struct samples *samples, struct group *group, double until)
{
	double step = samples->step, left = until - now();

	samples->anew = !step;
	/* The last look is not about next to no time. */
	if (left < 1.5 * step)
		step = fmax(left, step / 2);
	if (!samples->anew && sleep_with_progress(step, "waiting"))
		die("interrupted");
	*group = (struct group){ 0 };
	if (!read_group(group, samples->directory))
		die(samples->anew ? "no pressure can be read here; 'pressure doctor' tells why" :
		    "the pressure files vanished; was the cgroup removed or PSI switched off?");
	samples->step = look_every(group);
	return true;
}

static bool next_recorded(struct samples *samples, struct group *group)
{
	const struct group key = { .name = samples->name }, root = { .name = (char *)"/" };
	const struct group *found = NULL;
	struct record *record = samples->record;

	samples->anew = !samples->last.name;
	while (!found && record_next(record)) {
		found = find_group(&record->now, &key);
		/* Its files had gone when they were read. */
		if (found && !any_known(found))
			found = NULL;
		samples->anew |= !found || record->boot != samples->boot ||
				 is_other(&samples->last, found);
		samples->boot = record->boot;
	}
	if (find_group(&record->now, &root))
		samples->whose = WHOSE_HOST;
	if (!found && !samples->last.name)
		die("%s: %s is not in that time of it", record->path,
		    *samples->name ? samples->name : "the machine");
	if (!found)
		return false;
	*group = *found;
	group->name = samples->name;
	group->time = record->us / 1e6;
	samples->last = *group;
	return true;
}

/**
 * samples_next() - look at a group once more
 * @samples: says whether totals began anew before this look
 * @group: the result
 * @until: when to look at the latest; a record has its own times
 *
 * Ends the program where nothing can be read.
 *
 * Return: false at the end of the record
 */
bool samples_next(struct samples *samples, struct group *group, double until)
{
	return samples->record ? next_recorded(samples, group) :
	       next_live(samples, group, until);
}

void samples_close(struct samples *samples)
{
	if (samples->record)
		record_close(samples->record);
	free(samples->name);
	free(samples->directory);
}

void note_record(struct report *report, double until)
{
	char *time = time_text(until, false);

	report_note(report, "this is what was recorded until %s", time);
	free(time);
}

static const struct column columns[] = {
	{ "until", "until", FMT_TEXT, 0 },
	{ "cpu_some_pct", "cpu %", FMT_PERCENT, 0 },
	{ "memory_some_pct", "memory %", FMT_PERCENT, 0 },
	{ "io_some_pct", "io %", FMT_PERCENT, 0 },
	{ "worst", "worst", FMT_TEXT, 2 },
	{ "worst_pct", "%", FMT_PERCENT, 2 },
	{ "cgroup", "in", FMT_NAME, 0 },
};

/* The cgroup with most of it, as far down as that is; NULL where none has any. */
static const struct load *most_of(const struct loads *loads, enum psi_resource resource)
{
	const struct load *most = NULL;

	for (int i = 0; i < loads->count; i++) {
		const struct load *load = &loads->load[i];

		if (*load->name && (!most || main_percent(load, resource) >=
				    0.95 * main_percent(most, resource)))
			most = load;
	}
	return most && main_percent(most, resource) >= SLOW ? most : NULL;
}

/* Whether something is in both. */
static bool add_row(struct table *table, const struct snapshot *from, const struct snapshot *to,
		    bool ms)
{
	struct cell *cell = table_row(table);
	const struct load *most, *system, *worst;
	struct finding finding;
	struct loads loads;

	loads_make(&loads, from, to);
	system = loads.load;
	cell[0].text = time_text(to->groups[0].time, ms);
	if (!loads.count)
		return false;
	/* Where nothing is known of the machine, a cgroup is the first one. */
	for (int resource = 0; resource < PSI_IRQ && !*system->name; resource++)
		cell[1 + resource].number = percent_of(system, resource, PSI_SOME);
	finding = find_worst(&loads);
	worst = finding.load;
	if (worst_percent(worst) >= SLOW) {
		most = most_of(&loads, finding.judgement.seen);
		cell[4].text = text_of("%s", judged_name(&finding.judgement));
		cell[5].number = worst_percent(worst);
		cell[6].text = text_of("%s", most ? most->name : "system");
	}
	free(loads.load);
	return true;
}

static void fill(struct report *report, struct record *record, const struct span *span,
		 double step)
{
	struct table *table = report_table(report, "steps", NULL, columns, ARRAY_SIZE(columns));
	struct snapshot from = { 0 }, to = { 0 };
	double begin = 0, next = 0, time;
	const struct cell *worst = NULL;
	char *first, *last;
	bool ms = false, any = false;
	int boot = 0;

	while (record_next(record)) {
		time = record->us / 1e6;
		if (!from.groups) {
			begin = time;
			next = time;
			step = step ?: fmax(1, ceil((record->end - begin) / ROWS));
			/* Several rows are in a second. */
			ms = step < 1;
		} else if (record->boot == boot &&
			   time < fmin(next, fmin(record->end, record->boot_end[boot])) - 0.001) {
			continue;
		} else if (record->boot == boot) {
			keep(record, &to);
			leave_out(&from, &to);
			any |= add_row(table, &from, &to, ms);
		}
		/* Where totals began anew, so does this. */
		boot = record->boot;
		keep(record, &from);
		next = fmax(next + step, time);
	}
	if (!table->nr_rows)
		die("%s: only one look is in that time", record->path);
	if (!any)
		die_of_span(span);
	for (int row = 0; row < table->nr_rows; row++) {
		const struct cell *cell = &table->cells[row * ARRAY_SIZE(columns)];

		if (cell[5].number > (worst ? worst[5].number : 0))
			worst = cell;
	}
	first = time_text(begin, ms);
	last = time_text(record->end, ms);
	if (worst)
		report_say(report, "%s: worst until %s, %.0f %%, %s%s.", worst[4].text,
			   worst[0].text, worst[5].number,
			   *worst[6].text == '/' ? "in " : "on the ",
			   *worst[6].text == '/' ? worst[6].text : "machine");
	else
		report_say(report, "Nothing was slow.");
	report_say(report, "From %s to %s.", first, last);
	report_fact_text(report, "from", first);
	report_fact_text(report, "to", last);
	free(first);
	free(last);
	snapshot_free(&from);
	snapshot_free(&to);
}

int verb_replay(int argc, char **argv)
{
	struct span span = SPAN_NONE;
	double step = 0;
	const struct opt opts[] = {
		SPAN_OPTS(span),
		{ "step", OPT_DURATION, &step, "TIME",
		  "one row for each TIME (a twentieth of all)" },
		{ 0 }
	};
	struct report report = { 0 };
	struct record *record;

	if (*parse_options(argc, argv, opts, "replay [OPTIONS]"))
		die("replay takes no arguments; 'pressure replay --help' shows how to use it");
	record = record_open(&span);
	fill(&report, record, &span, step);
	report_print(stdout, &report);
	report_free(&report);
	record_close(record);
	return STATUS_OK;
}
