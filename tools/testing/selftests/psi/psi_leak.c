// SPDX-License-Identifier: GPL-2.0
/* No count was left wrong: see psi_leak.h. */
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "psi_leak.h"
#include "psi_switches.h"
#include "psi_work.h"

/* A sampling window of 2 s, and time to fold it. */
#define WINDOW		(2 * NSEC_PER_SEC + 200 * NSEC_PER_MSEC)
#define STANDSTILL	(800 * NSEC_PER_MSEC)
#define PROBE		NSEC_PER_SEC
#define MAX_FILES	256
#define DEPTH		6

/* The text that a check returned last. */
static char leak[512];

/* ---- All files of all cgroups but the root, which is the system ---- */

struct file {
	char path[128];
	struct psi psi;
};

struct files {
	int nr;
	struct file file[MAX_FILES];
};

static void add_file(struct files *files, const char *path)
{
	struct file *file = &files->file[files->nr++];

	if (files->nr > MAX_FILES)
		psi_die("there are more than %d files", MAX_FILES);
	snprintf(file->path, sizeof(file->path), "%s", path);
	psi_read(path, &file->psi);
}

/* The patterns leave out cgroup.pressure, and irq.pressure if it has no text. */
static void read_cgroups(struct files *files)
{
	const char *names = psi_irq_accounted() ? "*/[cim][pero]*.pressure" :
						  "*/[cim][peo]*.pressure";
	size_t begin = strlen(CGROUP_ROOT "/");
	char pattern[128] = CGROUP_ROOT "/";
	glob_t found;

	files->nr = 0;
	for (int depth = 0; depth < DEPTH; depth++) {
		size_t len = begin + 2 * depth;

		snprintf(pattern + len, sizeof(pattern) - len, "%s", names);
		if (!glob(pattern, 0, NULL, &found)) {
			for (size_t i = 0; i < found.gl_pathc; i++)
				add_file(files, found.gl_pathv[i]);
			globfree(&found);
		}
		snprintf(pattern + len, sizeof(pattern) - len, "*/");
	}
}

/* ---- Totals ---- */

const char *find_excess_in(const char *path, const struct psi *psi)
{
	__u64 elapsed = now_ns() / NSEC_PER_USEC;
	const struct psi_line *some = psi->some.present ? &psi->some : &psi->full;

	/* Each total is rounded down on its own. */
	if (some->total <= elapsed && psi->full.total <= some->total + 1)
		return NULL;
	snprintf(leak, sizeof(leak), "%s: full %llu us, some %llu us, in %llu us", path,
		 psi->full.total, some->total, elapsed);
	return leak;
}

const char *find_excess(void)
{
	static const char * const paths[] = { PSI_CPU, PSI_MEMORY, PSI_IO, PSI_IRQ };
	static struct files files;

	read_cgroups(&files);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (i < 3 || psi_irq_accounted())
			add_file(&files, paths[i]);
	for (int i = 0; i < files.nr; i++)
		if (find_excess_in(files.file[i].path, &files.file[i].psi))
			return leak;
	return NULL;
}

/* ---- Triggers ---- */

static const char *judge_trigger(__u64 switches)
{
	if (!switches)
		return NULL;
	snprintf(leak, sizeof(leak),
		 "no trigger is left, but the threads that serve triggers woke up %llu times",
		 switches);
	return leak;
}

const char *find_trigger(void)
{
	__u64 before;

	sleep_for(PROBE);
	before = monitor_switches();
	sleep_for(PROBE);
	return judge_trigger(monitor_switches() - before);
}

/* ---- Counts that are too high ---- */

static bool stands_still(const struct file *before)
{
	struct psi psi;

	psi_read(before->path, &psi);
	if (psi.some.total == before->psi.some.total && psi.full.total == before->psi.full.total)
		return true;
	snprintf(leak, sizeof(leak), "%s has no task, but some grew by %llu us, full by %llu us",
		 before->path, psi.some.total - before->psi.some.total,
		 psi.full.total - before->psi.full.total);
	return false;
}

/*
 * A leak makes a total grow by the whole time. On an idle machine kernel
 * threads wait for a CPU: up to 2 % of the time after a storm, in virtual
 * machines that compete for CPUs. The check allows them 10 %, in the root;
 * other cgroups have no task that could wait.
 *
 * The sampling window in which the storm ended must end first. The stalls in
 * it are weighted by how busy each CPU is, and that changes until its end.
 */
static const char *find_growth(void)
{
	static struct files files;
	struct idle_growth g;

	sleep_for(WINDOW);
	read_cgroups(&files);
	idle_growth_measure(&g, STANDSTILL);
	for (int i = 0; i < files.nr; i++)
		if (!stands_still(&files.file[i]))
			return leak;
	if (!g.io && !g.memory && g.cpu < STANDSTILL / 10)
		return NULL;
	snprintf(leak, sizeof(leak),
		 "idle for 0.8 s: cpu grew by %.6f s (run queues waited %.6f s), io by %.6f s, memory by %.6f s",
		 g.cpu / 1e9, g.cpu_wait / 1e9, g.io / 1e9, g.memory / 1e9);
	return leak;
}

/* ---- Counts that are too low ---- */

/*
 * The load runs on all CPUs. They weigh the same, so a CPU whose load is not
 * counted takes its share from the result: 25 % with four CPUs. 10 % are
 * allowed, for the begin and end of the measurement on a busy machine.
 */
static bool judge(const char *cgroup, const char *what, __u64 oracle, __u64 some)
{
	ksft_print_msg("%s: %s on every CPU: total grew by %.6f s, by the tasks' clocks %.6f s\n",
		       cgroup ?: "system", what, some / 1e9, oracle / 1e9);
	if (some > oracle * 0.9 && some < oracle * 1.1)
		return true;
	snprintf(leak, sizeof(leak), "%s: %s on every CPU: total grew by %.6f s, must be %.6f s",
		 cgroup ?: "system", what, some / 1e9, oracle / 1e9);
	return false;
}

/* The spinners are SCHED_IDLE, so that the readers hardly wait for them. */
void probe_start(struct probe *probe, const char *cgroup, const char *disk)
{
	struct load load = { .policy = SCHED_IDLE, .cgroup = cgroup, .fn = spin };

	/* Without it, interrupts that hit a reader would look like its sleep. */
	task_delays_on();
	probe->cgroup = cgroup;
	probe->disk = disk;
	probe->cpus = cpus_possible();
	probe->result = shared_memory(sizeof(*probe->result) * MAX_CPUS);
	for (load.cpu = 0; load.cpu < probe->cpus; load.cpu++)
		for (int i = 0; i < 2; i++)
			probe->spinner[load.cpu][i] = load_start(&load);
	/* In this window, CPUs also weigh what kept them busy before. */
	sleep_for(WINDOW);
}

void probe_stop(struct probe *probe)
{
	for (int cpu = 0; cpu < probe->cpus; cpu++)
		spin_pair_stop(probe->spinner[cpu]);
	munmap(probe->result, sizeof(*probe->result) * MAX_CPUS);
}

__u64 probe_read(struct probe *probe, __u64 ns)
{
	struct load load = { .cgroup = probe->cgroup, .fn = read_blocks };
	__u64 asleep = 0, end;

	for (load.cpu = 0; load.cpu < probe->cpus; load.cpu++) {
		load.arg = &probe->result[load.cpu];
		probe->result[load.cpu] = (struct reader){
			.node = probe->disk,
			.flags = O_DIRECT,
			.end = ULLONG_MAX,
		};
		probe->reader[load.cpu] = load_start(&load);
	}
	/* On a busy machine it may take longer than @ns until all of them have begun. */
	end = now_ns() + ns;
	for (int cpu = 0; cpu < probe->cpus; cpu++)
		__atomic_store_n(&probe->result[cpu].end, end, __ATOMIC_RELAXED);
	for (int cpu = 0; cpu < probe->cpus; cpu++) {
		load_wait(probe->reader[cpu]);
		asleep += probe->result[cpu].asleep;
	}
	return asleep / probe->cpus;
}

void probe_catch_up(struct probe *probe, const char *const *path, int nr)
{
	__u64 end = now_ns() + 2 * WINDOW;
	struct pressure before, p;

	for (int i = 0; i < nr; i++) {
		int tries = 0;

		do {
			pressure_read(path[i], &before);
			probe_read(probe, WINDOW / 10);
			p = pressure_since(path[i], &before);
			tries++;
		} while ((!p.some[RES_CPU] || !p.some[RES_IO]) && now_ns() < end);
		if (tries > 1)
			ksft_print_msg("%s: the total stood still until stall caught up with it\n",
				       path[i] ?: "system");
	}
}

/* Fills @path with the cgroup and all above it, and NULL for the system. */
static int ancestry(const char *cgroup, const char **path)
{
	char *up = cgroup ? strdup(cgroup) : NULL;
	int nr = 0;

	while (up && strcmp(up, CGROUP_ROOT)) {
		path[nr++] = up;
		up = strndup(up, strrchr(up, '/') - up);
		if (!up || nr >= DEPTH)
			psi_die("%s is too deep", cgroup);
	}
	path[nr++] = NULL;
	return nr;
}

static const char *find_blindness(const char *cgroup, const char *disk)
{
	const char *path[DEPTH + 1];
	struct pressure p[DEPTH + 1];
	__u64 elapsed[DEPTH + 1], asleep, switches;
	int levels = ancestry(cgroup, path);
	struct probe probe;
	bool right = true;

	probe_start(&probe, cgroup, disk);
	probe_catch_up(&probe, path, levels);
	switches = monitor_switches();
	for (int i = 0; i < levels; i++) {
		elapsed[i] = now_ns();
		pressure_read(path[i], &p[i]);
	}
	asleep = probe_read(&probe, PROBE);
	for (int i = 0; i < levels; i++) {
		elapsed[i] = now_ns() - elapsed[i];
		p[i] = pressure_since(path[i], &p[i]);
	}
	switches = monitor_switches() - switches;
	probe_stop(&probe);
	for (int i = 0; i < levels && right; i++)
		right = judge(path[i], "two spinners", elapsed[i], p[i].some[RES_CPU]) &&
			judge(path[i], "a reader's sleep", asleep, p[i].some[RES_IO]);
	return right ? judge_trigger(switches) : leak;
}

const char *find_leak_in(const char *cgroup, const char *disk)
{
	const char *found = find_growth();

	found = found ?: find_blindness(cgroup, disk);
	return found ?: find_excess();
}

const char *find_leak(const char *disk)
{
	return find_leak_in(NULL, disk);
}

void idle_growth_measure(struct idle_growth *growth, __u64 ns)
{
	struct pressure before, grown;
	struct cpu_clock begin, end;

	pressure_read(NULL, &before);
	cpu_clock_read(-1, &begin);
	sleep_for(ns);
	cpu_clock_read(-1, &end);
	grown = pressure_since(NULL, &before);
	growth->cpu_wait = end.wait - begin.wait;
	growth->memory = grown.some[RES_MEMORY];
	growth->io = grown.some[RES_IO];
	growth->cpu = grown.some[RES_CPU];
}
