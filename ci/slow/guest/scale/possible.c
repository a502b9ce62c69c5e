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

#include "psi_stat.h"
#include "scale.h"

#define GROUPS		100
#define TIME		(4 * NSEC_PER_SEC)
#define TOGGLES		10

/* Two spinners on a CPU, in a cgroup. */
static void pair_start(pid_t pid[2], int cpu, int nr)
{
	const struct load load = { .cpu = cpu, .cgroup = path_of(nr, ""), .fn = spin };

	for (int i = 0; i < 2; i++)
		pid[i] = load_start(&load);
}

static void expect_near(const char *what, double ns, double oracle)
{
	ksft_print_msg("%s: some grew by %.4f s, must be %.4f s\n", what, ns / 1e9, oracle / 1e9);
	expect(oracle && fabs(ns - oracle) < oracle * 0.02, "%s: over 2 %% off", what);
}

/* Beside them another pair on the first CPU: else the system would be what both CPUs have. */
static void test_pair(int cpu, int nr, const char *sentence)
{
	const char * const paths[] = { strdup(path_of(nr, "")), TOP, CGROUP_ROOT, NULL };
	struct pressure before[ARRAY_SIZE(paths)];
	__u64 begin[ARRAY_SIZE(paths)];
	pid_t pid[2], first[2];

	pair_start(pid, cpu, nr);
	if (cpu)
		pair_start(first, 0, GROUPS - 1);
	sleep_for(ASKED_SOON);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		begin[i] = now_ns();
		pressure_read(paths[i], &before[i]);
	}
	sleep_for(TIME);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		double took = now_ns() - begin[i];
		struct pressure p = pressure_since(paths[i], &before[i]);

		expect_near(paths[i] ?: "system", p.some[RES_CPU], took);
	}
	spin_pair_stop(pid);
	if (cpu)
		spin_pair_stop(first);
	test_result(sentence);
}

static void test_reader(int cpu, const struct slow_disk *disk)
{
	struct reader *reader = shared_memory(sizeof(*reader));

	*reader = (struct reader){
		.node = disk->node,
		.flags = O_DIRECT,
		.begin = now_ns() + ASKED_SOON,
		.end = now_ns() + ASKED_SOON + TIME,
	};
	load_wait(reader_start(reader, cpu));
	expect_near("io", reader->some, reader->asleep);
	test_result("a reader there is in io for as long as it sleeps");
}

/* A trigger of the cgroup of two spinners fires, that of its neighbour does not. */
static void test_trigger(int cpu)
{
	pid_t pid[2];
	int fd[2];

	for (int i = 0; i < 2; i++)
		fd[i] = trigger_arm(path_of(1 + i, "cpu.pressure"), "some 500000 1000000");
	pair_start(pid, cpu, 1);
	expect(trigger_fired(fd[0], 2000), "it does not fire");
	expect(!trigger_fired(fd[1], 0), "the neighbour fires");
	spin_pair_stop(pid);
	close(fd[0]);
	close(fd[1]);
	test_result("a trigger fires, its neighbour does not");
}

/* Tasks of a cgroup run, wait and stall on a CPU that goes offline and comes back. */
static void toggle_under_load(int cpu, int nr, const struct slow_disk *disk)
{
	struct reader *reader = shared_memory(sizeof(*reader));
	struct load load = { .cpu = cpu, .fn = read_blocks, .arg = reader };
	pid_t pid[3];

	*reader = (struct reader){ .node = disk->node, .flags = O_DIRECT, .end = ~0ULL >> 1 };
	for (int i = 0; i < TOGGLES; i++) {
		pair_start(pid, cpu, nr);
		load.cgroup = path_of(nr, "");
		pid[2] = load_start(&load);
		sleep_for(33 * NSEC_PER_MSEC);
		cpu_online(cpu, false);
		sleep_for(33 * NSEC_PER_MSEC);
		cpu_online(cpu, true);
		sleep_for(33 * NSEC_PER_MSEC);
		spin_pair_stop(pid);
		load_stop(pid[2]);
	}
	ksft_print_msg("CPU %d went offline and came back %d times\n", cpu, TOGGLES);
}

static void expect_file(const char *path)
{
	struct psi psi;

	psi_read(path, &psi);
	expect_none(find_excess_in(path, &psi));
}

static unsigned long memory_used(void)
{
	return file_number("/proc/meminfo", "Percpu:") + file_number("/proc/meminfo", "Slab:");
}

static void make_groups(void)
{
	unsigned long before = memory_used();
	struct psi_stat stat;

	cgroup_create(TOP, "");
	for (int i = 0; i < GROUPS; i++)
		group_make(i);
	ksft_print_msg("figures: a cgroup takes %lu kB\n", (memory_used() - before) / GROUPS);
	for (int i = 0; i < GROUPS; i++) {
		expect_file(path_of(i, "cpu.pressure"));
		expect_file(path_of(i, "memory.pressure"));
		expect_file(path_of(i, "io.pressure"));
		psi_stat_read(path_of(i, "cgroup.pressure.stat"), &stat);
	}
	test_result("cgroups are created, and their files have the format");
}

int main(int argc, char **argv)
{
	int last = scale_begin(argc, argv, 13, 2, 8192) - 1;
	char possible[32], expected[32];
	struct slow_disk disk;
	struct psi_stat stat;

	snprintf(expected, sizeof(expected), "0-%d\n", last);
	read_text("/sys/devices/system/cpu/possible", possible, sizeof(possible));
	expect(!strcmp(possible, expected), "possible are %s", possible);
	test_result("the machine has all these possible CPUs");
	set_policy(0, SCHED_FIFO, 50);
	pin_to(0);
	task_delays_on();
	slow_disk_create(&disk, "psi_scale", 5 * NSEC_PER_MSEC, 64);
	expect_file(PSI_CPU);
	expect_file(PSI_MEMORY);
	expect_file(PSI_IO);
	psi_stat_read(PSI_STAT, &stat);
	test_result("the files of the system have the format");
	make_groups();
	for (int cpu = 0; cpu <= last; cpu += last) {
		if (cpu)
			cpu_online(cpu, true);
		ksft_print_msg("CPU %d is online\n", cpu);
		test_pair(cpu, 0, cpu ? "two spinners on the last CPU are 100 %" :
				 "two spinners on the first CPU are 100 %");
		test_reader(cpu, &disk);
		test_trigger(cpu);
	}
	toggle_under_load(last, 3, &disk);
	sleep_for(ASKED_SOON);
	expect_idle(GROUPS, TIME, TIME / 100);
	test_result("after a CPU went offline under tasks nothing grows");
	test_pair(last, 3, "and two spinners are 100 % there");
	test_no_trigger();
	cpu_online(last, false);
	cgroup_remove(TOP);
	test_result("cgroups are removed");
	slow_disk_remove(&disk);
	ksft_finished();
}
