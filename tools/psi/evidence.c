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
	*evidence = (struct evidence){ NAN, NAN, NAN, NAN, { NAN, NAN, NAN, NAN }, NULL };
}

static void read_system(struct evidence *evidence, char *text)
{
	char *proc = text_of("%s/proc", psi_root());

	evidence_text(text, proc, "vmstat");
	free(proc);
	evidence->refaults = evidence_number(text, "workingset_refault_anon") +
			     evidence_number(text, "workingset_refault_file");
	evidence->io[0] = evidence_number(text, "pgpgin") * 1024;
}

/**
 * evidence_read() - read what is counted of a cgroup
 * @evidence: the result; NAN for what is not known
 * @directory: of the cgroup, or NULL for the system
 */
void evidence_read(struct evidence *evidence, const char *directory)
{
	char text[EVIDENCE_TEXT];

	evidence_none(evidence);
	if (!directory) {
		read_system(evidence, text);
		return;
	}
	evidence_text(text, directory, "cpu.stat");
	evidence->throttled = evidence_number(text, "throttled_usec") / 1e6;
	evidence_text(text, directory, "memory.events.local");
	evidence->max = evidence_number(text, "max");
	evidence->high = evidence_number(text, "high");
	evidence_text(text, directory, "memory.stat");
	evidence->refaults = evidence_number(text, "workingset_refault_anon") +
			     evidence_number(text, "workingset_refault_file");
	if (*evidence_text(text, directory, "io.stat")) {
		evidence_io(evidence->io, text);
		evidence->io_stat = text_of("%s", text);
	}
}

/**
 * is_thrashing() - whether storage is read for lack of memory
 * @load: of a cgroup, or of the system
 * @system: load of the system, or NULL
 *
 * What was read in this time had been in memory before: it was pushed out.
 */
bool is_thrashing(const struct load *load, const struct load *system)
{
	double back = (load->to->evidence.refaults - load->from->evidence.refaults) *
		      sysconf(_SC_PAGESIZE);
	double bytes = load->to->evidence.io[0] - load->from->evidence.io[0];

	if (isnan(bytes) && system)
		bytes = system->to->evidence.io[0] - system->from->evidence.io[0];
	return back > 0 && bytes > 0 && back >= THRASH * bytes &&
	       main_percent(load, PSI_MEMORY) > 0;
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

/* Whether as much was read or written of some device as its io.max lets through. */
static bool at_io_max(const char *directory, const struct load *load)
{
	static const char * const keys[EVIDENCE_IO] = { "rbps=", "wbps=", "riops=", "wiops=" };
	double from[EVIDENCE_IO], to[EVIDENCE_IO], seconds = load->to->time - load->from->time;
	char text[EVIDENCE_TEXT], *line, *rest = text;

	evidence_text(text, directory, "io.max");
	while ((line = strsep(&rest, "\n")) && *line) {
		io_of(from, load->from->evidence.io_stat, line);
		io_of(to, load->to->evidence.io_stat, line);
		for (int i = 0; i < EVIDENCE_IO; i++) {
			double limit = sum_of(line, keys[i]);

			if (limit > 0 && (to[i] - from[i]) / seconds >= NEAR * limit)
				return true;
		}
	}
	return false;
}

static bool grew(double from, double to)
{
	return to > from;
}

/* What a limit of one cgroup holds back, as a share of the time; NAN when nothing tells. */
static double held(const struct load *load, const char *directory, int resource, const char **file)
{
	const struct evidence *from = &load->from->evidence, *to = &load->to->evidence;
	double share = 0;

	switch (resource) {
	case PSI_CPU:
		*file = "cpu.max";
		share = (to->throttled - from->throttled) / (load->to->time - load->from->time);
		break;
	case PSI_MEMORY:
		*file = grew(from->max, to->max) ? "memory.max" : "memory.high";
		share = isnan(to->max) ? NAN :
			grew(from->max, to->max) || grew(from->high, to->high);
		break;
	case PSI_IO:
		*file = "io.max";
		share = isnan(to->io[0]) ? NAN : at_io_max(directory, load);
		break;
	}
	return share > 1 ? 1 : share;
}

static const struct load *find_load(const struct loads *loads, const char *name)
{
	for (int i = 0; i < loads->count; i++)
		if (!strcmp(loads->load[i].name, name))
			return &loads->load[i];
	return NULL;
}

/**
 * find_limit() - the limit that holds a cgroup, its own or one above
 * @loads: of all cgroups
 * @load: of the cgroup
 * @resource: the resource
 * @share: of the time in which it held, as far as it can be inferred; NAN when
 *	nothing tells
 *
 * Return: such as "cpu.max of /a is 50000 100000", allocated; NULL for none
 */
char *find_limit(const struct loads *loads, const struct load *load, int resource, double *share)
{
	char mount[PATH_MAX], *name = text_of("%s", load->name), *text = NULL, value[128];
	bool more = *name && !psi_cgroup_mount(mount, sizeof(mount));

	*share = NAN;
	while (more) {
		const struct load *one = find_load(loads, name);
		char *directory = text_of("%s%s", mount, name), *cut = strrchr(name, '/');
		const char *file = "";
		double now = one ? held(one, directory, resource, &file) : NAN;
		char *path = text_of("%s/%s", directory, file);

		if (isnan(*share))
			*share = now <= 0 ? 0 : NAN;
		if (now > 0 && !(now <= *share) && read_text(path, value, sizeof(value)) > 0) {
			*share = now;
			free(text);
			value[strcspn(value, "\n")] = 0;
			text = text_of("%s of %s is %s", file, name, value);
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
 * find_cpuset() - whether a cgroup may use only some CPUs
 * @load: of the cgroup
 *
 * Return: such as "cpuset.cpus of /a is 0-1", allocated; NULL when it has all
 */
char *find_cpuset(const struct load *load)
{
	char mount[PATH_MAX], own[EVIDENCE_TEXT], all[256], *path, *text = NULL;

	if (!*load->name || psi_cgroup_mount(mount, sizeof(mount)))
		return NULL;
	path = text_of("%s%s", mount, load->name);
	evidence_text(own, path, "cpuset.cpus.effective");
	free(path);
	path = text_of("%s/sys/devices/system/cpu/online", psi_root());
	own[strcspn(own, "\n")] = 0;
	if (read_text(path, all, sizeof(all)) > 0) {
		all[strcspn(all, "\n")] = 0;
		if (*own && strcmp(own, all))
			text = text_of("cpuset.cpus.effective of %s is %s", load->name, own);
	}
	free(path);
	return text;
}
