// SPDX-License-Identifier: GPL-2.0
/*
 * What other files than PSI's say of a stall: which limit was hit, and whether
 * storage was read for lack of memory.
 *
 * On a kernel without classes this is all there is to tell a limit from a
 * shortage; elsewhere it names the limit.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pressure.h"

#define NEAR		0.8	/* of io.max: so much was asked for */
#define FEW		10	/* requests a second: Linux 6.1 counts in slices of 0.1 s ... */
#define HELD_LONGER	1.8	/* ... and holds so few for up to so many times as long */
#define THRASH		0.5	/* of what was read had been in memory before */

/* A file of a directory, in EVIDENCE_TEXT bytes of room; "" when there is none. */
const char *evidence_text(char *text, const char *directory, const char *file)
{
	char *path = text_of("%s/%s", directory, file);

	if (read_text(path, text, EVIDENCE_TEXT) < 0)
		*text = 0;
	free(path);
	return text;
}

/* Of a line "key number"; NAN when there is none. */
double evidence_number(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (; text && *text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
		if (!strncmp(text, key, length) && text[length] == ' ')
			return strtod(text + length, NULL);
	return NAN;
}

/* The sum over all "key=number". */
static double sum_of(const char *text, const char *key)
{
	double sum = 0;

	for (; *text && (text = strstr(text, key)); text += strlen(key))
		sum += strtod(text + strlen(key), NULL);
	return sum;
}

static const char * const io_keys[EVIDENCE_IO] = { "rbytes=", "wbytes=", "rios=", "wios=" };

/* Bytes read and written, and requests, of a line of io.stat or of all of it. */
void evidence_io(double *io, const char *text)
{
	for (int i = 0; i < EVIDENCE_IO; i++)
		io[i] = sum_of(text, io_keys[i]);
}

void evidence_none(struct evidence *evidence)
{
	for (int i = 0; i < EVIDENCE_COUNTS; i++)
		evidence->count[i] = NAN;
	evidence->io_stat = NULL;
}

/* In bytes; of memory.stat, or of vmstat. */
static double refaults_of(const char *text)
{
	return (evidence_number(text, "workingset_refault_anon") +
		evidence_number(text, "workingset_refault_file")) * sysconf(_SC_PAGESIZE);
}

static void read_system(struct evidence *evidence, char *text)
{
	char *proc = text_of("%s/proc", psi_root());

	evidence_text(text, proc, "vmstat");
	free(proc);
	evidence->count[EVIDENCE_REFAULTS] = refaults_of(text);
	evidence->count[EVIDENCE_READ] = evidence_number(text, "pgpgin") * 1024;
}

/**
 * evidence_read() - read what is counted of a cgroup
 * @evidence: the result
 * @directory: of the cgroup, or NULL for the system
 * @kinds: bits of those that are wanted
 */
void evidence_read(struct evidence *evidence, const char *directory, unsigned int kinds)
{
	double *count = evidence->count;
	char text[EVIDENCE_TEXT];

	evidence_none(evidence);
	if (directory && kinds & 1 << EVIDENCE_CPU)
		count[EVIDENCE_THROTTLED] =
			evidence_number(evidence_text(text, directory, "cpu.stat"),
					"throttled_usec");
	if (!(kinds & 1 << EVIDENCE_MEMORY))
		return;
	if (!directory) {
		read_system(evidence, text);
		return;
	}
	evidence_text(text, directory, "memory.events.local");
	count[EVIDENCE_MAX] = evidence_number(text, "max");
	count[EVIDENCE_HIGH] = evidence_number(text, "high");
	evidence_text(text, directory, "memory.stat");
	count[EVIDENCE_REFAULTS] = refaults_of(text);
	if (*evidence_text(text, directory, "io.stat"))
		count[EVIDENCE_READ] = sum_of(text, io_keys[0]);
	evidence->io_stat = text_of("%s", text);
}

static double growth(const struct load *load, enum evidence_count count)
{
	const double *from = load->from->evidence.count, *to = load->to->evidence.count;

	/* A record counts from 0. */
	if (isnan(from[count]) && !isnan(to[EVIDENCE_STALL + evidence_kind_of(count)]))
		return to[count];
	return to[count] - from[count];
}

/*
 * The time for which evidence was counted, in s; NAN for none.  A record counts only
 * while something stalls: such a part of the stall stands for as much of the time.
 */
static double counted(const struct load *load, enum evidence_kind kind)
{
	double seconds = load->to->time - load->from->time, part, percent;

	if (isnan(load->to->evidence.count[EVIDENCE_STALL + kind]))
		return seconds;
	percent = kind == EVIDENCE_CPU ? main_percent(load, PSI_CPU) :
		  fmax(main_percent(load, PSI_MEMORY), main_percent(load, PSI_IO));
	part = growth(load, EVIDENCE_STALL + kind) / (percent * 1e4 * seconds);
	return part > 0 ? fmin(1, part) * seconds : NAN;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct load *)a)->name, ((const struct load *)b)->name);
}

static const struct load *find_load(const struct loads *loads, const char *name)
{
	struct load key = { .name = name };

	return loads->count ? bsearch(&key, loads->load, loads->count, sizeof(key), by_name) :
	       NULL;
}

/* What the next cgroup above that counts it has read, or the system; NAN for none. */
static double read_above(const struct loads *loads, const struct load *load)
{
	char *name = text_of("%s", load->name);
	double bytes = NAN;

	while (isnan(bytes) && *name) {
		const struct load *above;
		char *cut = strrchr(name, '/');

		cut[cut == name && cut[1]] = 0;
		above = find_load(loads, name);
		bytes = above ? growth(above, EVIDENCE_READ) : NAN;
	}
	free(name);
	return bytes;
}

/**
 * is_thrashing() - whether storage is read for lack of memory
 * @loads: of the cgroups above it, and of the system, as far as they are known
 * @load: of a cgroup, or of the system
 *
 * What was read in this time had been in memory before: it was pushed out.  What a
 * cgroup above has read is at least as much: where that is too much, nothing tells.
 *
 * Return: 1, or 0; -1 where nothing tells
 */
static int is_thrashing(const struct loads *loads, const struct load *load)
{
	double back = growth(load, EVIDENCE_REFAULTS), own = growth(load, EVIDENCE_READ);
	double bytes = isnan(own) ? read_above(loads, load) : own;

	if (isnan(counted(load, EVIDENCE_MEMORY)) || isnan(back) || isnan(bytes))
		return -1;
	if (back > 0 && bytes > 0 && back >= THRASH * bytes)
		return main_percent(load, PSI_MEMORY) > 0;
	return isnan(own) && back > 0 ? -1 : 0;
}

static struct judgement judge_by(const struct load *load, int thrashing)
{
	struct judgement judgement = { .seen = worst_resource(load), .sure = true };

	judgement.resource = judgement.seen;
	if (judgement.seen == PSI_IO && thrashing > 0)
		judgement.resource = PSI_MEMORY;
	if (judgement.seen == PSI_IO && thrashing < 0)
		judgement.sure = main_percent(load, PSI_MEMORY) < LOCAL;
	return judgement;
}

/**
 * judge() - what the stall of a cgroup, or of the system, is a matter of
 * @loads: of the cgroups above it, and of the system, as far as they are known
 * @load: its load
 *
 * Return: the judgement
 */
struct judgement judge(const struct loads *loads, const struct load *load)
{
	return judge_by(load, is_thrashing(loads, load));
}

/**
 * judge_all() - what the stall of the machine is a matter of
 * @loads: of all cgroups
 * @load: what is slow: the system, or a cgroup
 * @culprit: the cgroup with most of it
 *
 * Return: the judgement
 */
struct judgement judge_all(const struct loads *loads, const struct load *load,
			   const struct load *culprit)
{
	int one = is_thrashing(loads, culprit);
	int all = *load->name ? one : is_thrashing(loads, load);

	return judge_by(load, one > 0 || all > 0 ? 1 : one ? all : 0);
}

/* For people, and for JSON. */
const char *judged_name(const struct judgement *judgement)
{
	return judgement->sure ? psi_resource_name(judgement->resource) : "io/memory";
}

/* What io.stat has of the device that @line begins with. */
static void io_of(double *io, const char *text, const char *line)
{
	size_t device = strcspn(line, " ") + 1;
	char *one;

	while (text && strncmp(text, line, device)) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	one = text_of("%.*s", text ? (int)strcspn(text, "\n") : 0, text ?: "");
	evidence_io(io, one);
	free(one);
}

/**
 * io_max_asks() - how long the io of a cgroup takes at its io.max
 * @directory: of the cgroup
 * @from: its io.stat
 * @to: the same later
 *
 * Return: in s, at the most; 0 for no limit
 */
double io_max_asks(const char *directory, const char *from, const char *to)
{
	static const char * const keys[EVIDENCE_IO] = { "rbps=", "wbps=", "riops=", "wiops=" };
	double old[EVIDENCE_IO], new[EVIDENCE_IO], seconds = 0;
	char text[EVIDENCE_TEXT], *line, *rest = text;

	evidence_text(text, directory, "io.max");
	while ((line = strsep(&rest, "\n")) && *line) {
		io_of(old, from, line);
		io_of(new, to, line);
		for (int i = 0; i < EVIDENCE_IO; i++) {
			double limit = sum_of(line, keys[i]);
			bool few = limit < FEW && strstr(keys[i], "iops=");

			if (limit > 0)
				seconds = fmax(seconds, (new[i] - old[i]) / limit *
					       (few ? HELD_LONGER : 1));
		}
	}
	return seconds;
}

/* The same between two looks; NAN when nothing tells. */
static double asked_by_io_max(const struct load *load, const char *directory)
{
	const char *from = load->from->evidence.io_stat, *to = load->to->evidence.io_stat;

	/* A record has no directory; nor is there a text before the first look at it. */
	if (!*directory)
		return growth(load, EVIDENCE_IO_MAX) / 1e6;
	return from && to && *to ? io_max_asks(directory, from, to) : NAN;
}

/* What a limit of one cgroup holds back, as a share of the time; NAN when nothing tells. */
static double held(const struct load *load, const char *directory, int resource, const char **file)
{
	double max = growth(load, EVIDENCE_MAX), share = NAN;

	switch (resource) {
	case PSI_CPU:
		*file = "cpu.max";
		share = growth(load, EVIDENCE_THROTTLED) / 1e6 / counted(load, EVIDENCE_CPU);
		break;
	case PSI_MEMORY:
		*file = max > 0 ? "memory.max" : "memory.high";
		share = isnan(max) || isnan(counted(load, EVIDENCE_MEMORY)) ? NAN :
			max > 0 || growth(load, EVIDENCE_HIGH) > 0;
		break;
	case PSI_IO:
		*file = "io.max";
		/* As much as it lets through, or nearly so. */
		share = asked_by_io_max(load, directory) / counted(load, EVIDENCE_MEMORY);
		share = isnan(share) ? NAN : share >= NEAR;
		break;
	}
	return share > 1 ? 1 : share;
}

/**
 * find_limit() - the limit that holds a cgroup, its own or one above
 * @loads: of all cgroups
 * @load: of the cgroup
 * @resource: the resource
 * @share: of the time in which it held, as far as it can be inferred; NAN when
 *	nothing tells
 *
 * Return: such as "cpu.max of /a is 50000 100000", without the value for a record,
 * allocated; NULL for none
 */
char *find_limit(const struct loads *loads, const struct load *load, int resource, double *share)
{
	char mount[PATH_MAX], *name = text_of("%s", load->name), *text = NULL, value[128] = "";
	bool more = *name, live = !psi_cgroup_mount(mount, sizeof(mount));

	*share = NAN;
	while (more) {
		const struct load *one = find_load(loads, name);
		char *directory = text_of("%s%s", live ? mount : "", live ? name : "");
		char *cut = strrchr(name, '/');
		const char *file = "";
		double now = one ? held(one, directory, resource, &file) : NAN;
		char *path = text_of("%s/%s", directory, file);

		if (isnan(*share))
			*share = now <= 0 ? 0 : NAN;
		if (now > 0 && !(now <= *share) &&
		    (!live || read_text(path, value, sizeof(value)) > 0)) {
			*share = now;
			free(text);
			value[strcspn(value, "\n")] = 0;
			text = live ? text_of("%s of %s is %s", file, name, value) :
				      text_of("%s of %s", file, name);
		}
		free(path);
		free(directory);
		/* Above "/a" is "/", the root of a container. */
		more = name[1];
		cut[cut == name] = 0;
	}
	free(name);
	return text;
}

/**
 * find_cpuset() - whether a cgroup may use only some CPUs, or memory of some nodes
 * @load: of the cgroup
 * @resource: PSI_CPU or PSI_MEMORY
 *
 * Return: such as "cpuset.cpus.effective of /a is 0-1", allocated; NULL when it has all
 */
char *find_cpuset(const struct load *load, int resource)
{
	const char *file = resource == PSI_CPU ? "cpuset.cpus.effective" : "cpuset.mems.effective";
	char mount[PATH_MAX], own[EVIDENCE_TEXT], all[256], *path, *text = NULL;

	if ((resource != PSI_CPU && resource != PSI_MEMORY) || !*load->name ||
	    psi_cgroup_mount(mount, sizeof(mount)))
		return NULL;
	path = text_of("%s%s", mount, load->name);
	evidence_text(own, path, file);
	free(path);
	path = text_of("%s/sys/devices/system/%s", psi_root(),
		       resource == PSI_CPU ? "cpu/online" : "node/has_memory");
	own[strcspn(own, "\n")] = 0;
	if (read_text(path, all, sizeof(all)) > 0) {
		all[strcspn(all, "\n")] = 0;
		if (*own && strcmp(own, all))
			text = text_of("%s of %s is %s", file, load->name, own);
	}
	free(path);
	return text;
}
