// SPDX-License-Identifier: GPL-2.0
/*
 * A thousand possible CPUs, of which the first is online and the last can be
 *
 * Groups have memory for each possible CPU, and masks with a bit for each. Here they are
 * as long as they get, and the last bit is used: its CPU comes online, has tasks of
 * cgroups that wait and stall there, and goes offline under them.
 *
 * Loads with a known answer: two spinners on a CPU are 100 % cpu some of their cgroup and
 * of all above; a reader of a slow disk is asleep for what is left of its time. Tolerance:
 * 2 %, for begin and end of the measurement, while the other CPU takes its turns.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "psi_leak.h"
#include "psi_trigger.h"

#define TOP		CGROUP_ROOT "/scale"
#define GROUPS		100
#define TIME		(4 * NSEC_PER_SEC)
#define TOGGLES		10

static int cpus;

static const char *path_of(int nr)
{
	static char path[2][64];
	static int last;

	last = !last;
	snprintf(path[last], sizeof(path[last]), TOP "/%d", nr);
	return path[last];
}

static bool says(const char *found)
{
	if (found)
		ksft_print_msg("%s\n", found);
	return !found;
}

/* Two spinners on a CPU, in a cgroup. */
static void pair_start(pid_t pid[2], int cpu, const char *cgroup)
{
	const struct load load = { .cpu = cpu, .cgroup = cgroup, .fn = spin };

	for (int i = 0; i < 2; i++)
		pid[i] = load_start(&load);
}

/* Whether cpu some of these grows by all of the time. */
static bool stalled_all_the_time(const char * const *paths, int nr)
{
	struct pressure before[4];
	__u64 begin[4];
	bool right = true;

	/* The window in which the load began must end. */
	sleep_for(2200 * NSEC_PER_MSEC);
	for (int i = 0; i < nr; i++) {
		begin[i] = now_ns();
		pressure_read(paths[i], &before[i]);
	}
	sleep_for(TIME);
	for (int i = 0; i < nr; i++) {
		double took = now_ns() - begin[i];
		double some = pressure_since(paths[i], &before[i]).some[RES_CPU];

		ksft_print_msg("%s: some grew by %.4f s in %.4f s\n", paths[i] ?: "system",
			       some / 1e9, took / 1e9);
		right = right && fabs(some - took) < took * 0.02;
	}
	return right;
}

/* Beside them another pair on the first CPU: else the system would be what both CPUs have. */
static bool pair_is_seen(int cpu, const char *cgroup)
{
	const char * const paths[] = { cgroup, TOP, CGROUP_ROOT, NULL };
	pid_t pid[2], first[2];
	bool right;

	pair_start(pid, cpu, cgroup);
	if (cpu)
		pair_start(first, 0, path_of(GROUPS - 1));
	right = stalled_all_the_time(paths, 4);
	spin_pair_stop(pid);
	if (cpu)
		spin_pair_stop(first);
	return right;
}

static bool reader_is_seen(int cpu, const struct slow_disk *disk)
{
	struct reader *reader = shared_memory(sizeof(*reader));

	*reader = (struct reader){
		.node = disk->node,
		.flags = O_DIRECT,
		.begin = now_ns() + 2200 * NSEC_PER_MSEC,
		.end = now_ns() + 2200 * NSEC_PER_MSEC + TIME,
	};
	load_wait(reader_start(reader, cpu));
	ksft_print_msg("io some grew by %.4f s, the reader slept for %.4f s\n", reader->some / 1e9,
		       reader->asleep / 1e9);
	return reader->asleep &&
	       fabs((double)reader->some - reader->asleep) < reader->asleep * 0.02;
}

static bool files_are_right(const char *directory, const char *separator)
{
	static const char * const names[] = { "cpu", "memory", "io" };
	char path[96], text[4096];
	bool right = true;
	struct psi psi;

	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s%s", directory, names[i], separator);
		psi_read(path, &psi);
		right = right && says(find_excess_in(path, &psi));
		strcat(path, ".stat");
		read_text(path, text, sizeof(text));
		right = right && says(psi_stat_parse(text, strlen(text), i == RES_MEMORY));
	}
	return right;
}

/* One that must fire on this CPU, beside one that must not. */
static bool trigger_fires(int cpu, const char *cgroup, const char *other)
{
	char path[96];
	pid_t pid[2];
	bool right;
	int fd[2];

	snprintf(path, sizeof(path), "%s/cpu.pressure", cgroup);
	fd[0] = trigger_arm(path, "some 500000 1000000");
	snprintf(path, sizeof(path), "%s/cpu.pressure", other);
	fd[1] = trigger_arm(path, "some 500000 1000000");
	pair_start(pid, cpu, cgroup);
	right = trigger_fired(fd[0], 2000) && !trigger_fired(fd[1], 0);
	spin_pair_stop(pid);
	close(fd[0]);
	close(fd[1]);
	return right;
}

/* Tasks of a cgroup run, wait and stall on a CPU that goes offline and comes back. */
static void toggle_under_load(int cpu, const char *cgroup, const struct slow_disk *disk)
{
	struct reader *reader = shared_memory(sizeof(*reader));
	struct load load = { .cpu = cpu, .cgroup = cgroup, .fn = read_blocks, .arg = reader };
	pid_t pid[3];

	*reader = (struct reader){ .node = disk->node, .flags = O_DIRECT, .end = ~0ULL >> 1 };
	for (int i = 0; i < TOGGLES; i++) {
		pair_start(pid, cpu, cgroup);
		pid[2] = load_start(&load);
		sleep_for(33 * NSEC_PER_MSEC);
		cpu_online(cpu, false);
		sleep_for(33 * NSEC_PER_MSEC);
		cpu_online(cpu, true);
		sleep_for(33 * NSEC_PER_MSEC);
		spin_pair_stop(pid);
		load_stop(pid[2]);
	}
}

static bool nothing_grows(void)
{
	struct pressure before[GROUPS], p;
	struct idle_growth g;
	bool right;

	sleep_for(2200 * NSEC_PER_MSEC);
	for (int i = 0; i < GROUPS; i++)
		pressure_read(path_of(i), &before[i]);
	idle_growth_measure(&g, TIME);
	right = !g.io && !g.memory && g.cpu < TIME / 100;
	for (int i = 0; i < GROUPS; i++) {
		p = pressure_since(path_of(i), &before[i]);
		for (int r = 0; r < NR_RESOURCES; r++)
			right = right && !p.some[r] && !p.full[r];
	}
	ksft_print_msg("idle for 4 s: the system's cpu some grew by %.6f s\n", g.cpu / 1e9);
	return right;
}

static unsigned long memory_used(void)
{
	return file_number("/proc/meminfo", "Percpu:") + file_number("/proc/meminfo", "Slab:");
}

int main(int argc, char **argv)
{
	char possible[32], expected[32];
	struct slow_disk disk;
	unsigned long before;
	bool right = true;
	int last;

	ksft_print_header();
	ksft_set_plan(13);
	cpus = argc > 1 ? atoi(argv[1]) : 0;
	last = cpus - 1;
	snprintf(expected, sizeof(expected), "0-%d\n", last);
	read_text("/sys/devices/system/cpu/possible", possible, sizeof(possible));
	ksft_test_result(!strcmp(possible, expected), "the machine has %d possible CPUs\n", cpus);
	set_policy(0, SCHED_FIFO, 50);
	pin_to(0);
	task_delays_on();
	slow_disk_create(&disk, "psi_scale", 5 * NSEC_PER_MSEC, 64);
	ksft_test_result(files_are_right(PSI_DIR, ""), "the files of the system have the format\n");

	cgroup_create(TOP, "");
	before = memory_used();
	for (int i = 0; i < GROUPS; i++)
		if (mkdir(path_of(i), 0755))
			psi_die("%s: %s", path_of(i), strerror(errno));
	ksft_print_msg("figures: a cgroup takes %lu kB\n", (memory_used() - before) / GROUPS);
	for (int i = 0; i < GROUPS; i++)
		right = right && files_are_right(path_of(i), ".pressure");
	ksft_test_result(right, "cgroups are created, and their files have the format\n");
	ksft_test_result(pair_is_seen(0, path_of(0)), "two spinners on the first CPU are 100 %%\n");
	ksft_test_result(reader_is_seen(0, &disk),
			 "a reader there is in io for as long as it sleeps\n");
	ksft_test_result(trigger_fires(0, path_of(1), path_of(2)),
			 "a trigger fires, its neighbour does not\n");

	cpu_online(last, true);
	ksft_print_msg("CPU %d is online\n", last);
	ksft_test_result(pair_is_seen(last, path_of(0)),
			 "two spinners on the last CPU are 100 %%\n");
	ksft_test_result(reader_is_seen(last, &disk),
			 "a reader there is in io for as long as it sleeps\n");
	ksft_test_result(trigger_fires(last, path_of(1), path_of(2)),
			 "a trigger fires, its neighbour does not\n");
	toggle_under_load(last, path_of(3), &disk);
	ksft_print_msg("CPU %d went offline and came back %d times\n", last, TOGGLES);
	ksft_test_result(nothing_grows(), "after a CPU went offline under tasks nothing grows\n");
	ksft_test_result(pair_is_seen(last, path_of(3)), "and two spinners are 100 %% there\n");
	ksft_test_result(says(find_trigger()), "no trigger is left\n");
	cpu_online(last, false);
	cgroup_remove(TOP);
	ksft_test_result(access(TOP, F_OK), "cgroups are removed\n");
	slow_disk_remove(&disk);
	ksft_finished();
}
