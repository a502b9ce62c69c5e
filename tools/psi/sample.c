// SPDX-License-Identifier: GPL-2.0
/*
 * Totals of all cgroups at one time.
 *
 * Totals are what pressure is made of: unlike averages, their difference is
 * exact for any two times.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

/* Cgroups nest no deeper than the kernel allows by far. */
#define DEPTH_MAX	256

void take_totals(struct totals *totals, const struct psi_pressure *pressure, int resource)
{
	for (int class = 0; class < PSI_CLASSES; class++) {
		for (int kind = 0; kind < PSI_KINDS; kind++) {
			const struct psi_line *line = psi_line(pressure, resource, class, kind);

			totals->known[class][kind] = line;
			totals->us[class][kind] = line ? line->total : 0;
		}
	}
}

/**
 * read_group() - read the totals of a cgroup
 * @group: the result, but for its name
 * @directory: of the cgroup, or NULL for the system
 *
 * Return: whether some file could be read
 */
bool read_group(struct group *group, const char *directory)
{
	static struct psi_pressure *pressure;

	if (!pressure)
		pressure = psi_new();
	if (!pressure)
		die("out of memory");
	group->time = now();
	if (psi_read_all(directory, pressure))
		return false;
	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		take_totals(&group->totals[resource], pressure, resource);
	return true;
}

static bool has_classes(const struct group *group)
{
	return group->totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME] ||
	       group->totals[PSI_MEMORY].known[PSI_LIMIT][PSI_SOME];
}

/* How often totals are worth a look, in s: some other kernels add them up every 2 s. */
double look_every(const struct group *group)
{
	return has_classes(group) ? LOOK : 2;
}

/* Whether a group stalled since an older snapshot: only then it is judged. */
static bool stalled(const struct snapshot *before, const struct group *group)
{
	const struct group *old = bsearch(group, before->groups, before->count, sizeof(*old),
					  by_group);
	struct load load;

	if (!old)
		return false;
	load_make(&load, old, group);
	return worst_percent(&load) >= NOTHING;
}

static void add_group(void *arg, const char *directory, const char *name)
{
	struct snapshot *snapshot = arg;
	struct group group;

	if (!read_group(&group, directory))
		return;
	group.name = text_of("%s", name);
	evidence_none(&group.evidence);
	if (snapshot->evidence && (!snapshot->before || stalled(snapshot->before, &group)))
		evidence_read(&group.evidence, directory, EVIDENCE_ALL);
	snapshot->stat |= has_classes(&group);
	snapshot->groups = grow(snapshot->groups, snapshot->count, sizeof(group));
	snapshot->groups[snapshot->count++] = group;
}

/* A directory that vanishes meanwhile is left out. */
static void walk(char *path, size_t top, int depth,
		 void (*visit)(void *arg, const char *directory, const char *name), void *arg)
{
	size_t end = strlen(path);
	struct dirent *entry;
	DIR *dir;

	/* The real root shows the system, which is there already. */
	if (end > top || exists("%s/cgroup.type", path))
		visit(arg, path, end > top ? path + top : "/");
	dir = depth < DEPTH_MAX ? opendir(path) : NULL;
	while (dir && (entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || !strcmp(entry->d_name, ".") ||
		    !strcmp(entry->d_name, "..") || end + 1 + strlen(entry->d_name) >= PATH_MAX)
			continue;
		sprintf(path + end, "/%s", entry->d_name);
		walk(path, top, depth + 1, visit, arg);
	}
	path[end] = 0;
	if (dir)
		closedir(dir);
}

/**
 * visit_cgroups() - visit a cgroup and all below it
 * @path: its directory, in PATH_MAX bytes of room; changes meanwhile
 * @top: length of the directory of the root, which names leave out
 * @visit: what to call for each of them
 * @arg: handed on to @visit
 */
void visit_cgroups(char *path, size_t top,
		   void (*visit)(void *arg, const char *directory, const char *name), void *arg)
{
	walk(path, top, 0, visit, arg);
}

/* Why the pressure of the system cannot be read, or 0. */
static int system_error(void)
{
	struct psi_pressure *pressure = psi_new();
	char path[PATH_MAX];
	int error = psi_path(path, sizeof(path), NULL, PSI_CPU);

	if (pressure && !error)
		error = psi_read(path, PSI_CPU, pressure);
	psi_free(pressure);
	return error;
}

/**
 * snapshot_take() - read all totals
 * @snapshot: the result
 * @top: directory of the cgroup to begin with, or NULL for all
 * @system: read those of the system, too
 * @evidence: read what other files count, too
 * @before: an older snapshot: only of what stalled since; or NULL
 */
void snapshot_take(struct snapshot *snapshot, const char *top, bool system, bool evidence,
		   const struct snapshot *before)
{
	char path[PATH_MAX], mount[PATH_MAX];

	*snapshot = (struct snapshot){ .evidence = evidence, .before = before };
	if (system) {
		snapshot->error = system_error();
		add_group(snapshot, NULL, "");
	}
	if (!psi_cgroup_mount(mount, sizeof(mount)) &&
	    snprintf(path, sizeof(path), "%s", top ? top : mount) < (int)sizeof(path))
		visit_cgroups(path, strlen(mount), add_group, snapshot);
	if (snapshot->count)
		qsort(snapshot->groups, snapshot->count, sizeof(*snapshot->groups), by_group);
	snapshot->before = NULL;
}

/**
 * snapshot_climb() - read totals and evidence of a cgroup and of all that contain it
 * @snapshot: the result, the system among them
 * @directory: of the cgroup, or NULL for the system
 */
void snapshot_climb(struct snapshot *snapshot, const char *directory)
{
	char mount[PATH_MAX], *path = text_of("%s", directory ?: "");

	*snapshot = (struct snapshot){ .evidence = true };
	add_group(snapshot, NULL, "");
	if (!psi_cgroup_mount(mount, sizeof(mount))) {
		for (; strlen(path) > strlen(mount); *strrchr(path, '/') = 0)
			add_group(snapshot, path, path + strlen(mount));
		/* The root of a container is a cgroup with limits, too. */
		if (exists("%s/cgroup.type", mount))
			add_group(snapshot, mount, "/");
	}
	free(path);
	if (snapshot->count)
		qsort(snapshot->groups, snapshot->count, sizeof(*snapshot->groups), by_group);
}

void snapshot_free(struct snapshot *snapshot)
{
	for (int i = 0; i < snapshot->count; i++) {
		free(snapshot->groups[i].name);
		free(snapshot->groups[i].evidence.io_stat);
	}
	free(snapshot->groups);
	*snapshot = (struct snapshot){ 0 };
}

/**
 * measurable() - how long to measure
 * @seconds: what was asked for
 * @stat: the kernel has the statistics file, whose totals are those of now
 *
 * Some other kernels add totals up every two seconds: another time would count a
 * part of it twice, or not at all.
 *
 * Return: the time in s
 */
double measurable(double seconds, bool stat)
{
	return stat ? seconds : 2 * ceil(seconds / 2);
}

/* A file of lxcfs hides that of the kernel; pressure=cgroup shows one's own. */
enum whose whose_pressure(void)
{
	char *path = text_of("%s/proc/self/mountinfo", psi_root()), *line = NULL, mount[PATH_MAX];
	FILE *file = fopen(path, "re");
	enum whose whose = WHOSE_MACHINE;
	size_t room = 0;

	/* The real root has no type. */
	if (!psi_cgroup_mount(mount, sizeof(mount)) && exists("%s/cgroup.type", mount))
		whose = WHOSE_HOST;
	while (file && getline(&line, &room, file) > 0) {
		if (strstr(line, " /proc/pressure"))
			whose = WHOSE_OTHER;
		else if (strstr(line, " /proc ") && strstr(line, "pressure=cgroup"))
			whose = WHOSE_CONTAINER;
	}
	if (file)
		fclose(file);
	free(line);
	free(path);
	return whose;
}

/**
 * is_undefined() - whether a figure is full of cpu of the machine
 * @figure: which
 * @directory: of its cgroup, or NULL for the system
 * @whose: pressure the system's is
 *
 * While tasks of the machine wait for a CPU, others get on.  Kernels say 0, or
 * what they happen to count.
 */
bool is_undefined(const struct psi_trigger *figure, const char *directory, enum whose whose)
{
	return figure->resource == PSI_CPU && figure->kind == PSI_FULL &&
	       (directory ? !exists("%s/cgroup.type", directory) :
		whose == WHOSE_MACHINE || whose == WHOSE_HOST);
}

/* What this kernel does not tell. */
void note_missing(struct report *report, bool stat)
{
	char mount[PATH_MAX];

	if (!stat)
		report_note(report,
			    "this kernel has no cgroup.pressure.stat: it does not tell limit from "
			    "shortage, exact pressure and causes, and totals may be up to 2 s old");
	if (psi_cgroup_mount(mount, sizeof(mount)))
		report_note(report,
			    "cgroup v2 is not mounted: no cgroups are shown (mount -t cgroup2 "
			    "none /sys/fs/cgroup)");
}
