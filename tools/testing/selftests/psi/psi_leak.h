/* SPDX-License-Identifier: GPL-2.0 */
/*
 * No count was left wrong: the checks after every storm
 *
 * PSI counts the tasks in each state, per CPU. An event that PSI loses, or
 * counts twice, leaves a count wrong for good. A wrong count shows in one of
 * two ways:
 *
 *  - It is too high: the total grows by the whole time on a machine on which
 *    only the test sleeps.
 *  - It is too low: the next load with a known answer is missing on that CPU.
 *
 * So the checks first let the machine idle: no total may grow, of the system
 * or of any cgroup. Then each CPU gets two spinners (100 % cpu some) and a
 * reader of a disk (io some while it sleeps). During those stalls no thread
 * that serves triggers may wake up, as no trigger is left. No total may exceed
 * the time since boot.
 *
 * Each check returns NULL, or a text that says what is wrong.
 */
#ifndef PSI_LEAK_H
#define PSI_LEAK_H

#include "psi_work.h"

#define MAX_CPUS	64

/**
 * struct probe - a load with a known answer: on each CPU two spinners, a reader
 * @cgroup: of all its tasks; %NULL for the cgroup of the test
 * @disk: that the readers read
 * @cpus: number of CPUs
 * @spinner: by CPU
 * @reader: by CPU
 * @result: by CPU, what its reader measured
 */
struct probe {
	const char *cgroup;
	const char *disk;
	int cpus;
	pid_t spinner[MAX_CPUS][2];
	pid_t reader[MAX_CPUS];
	struct reader *result;
};

/* Starts the spinners, and lets the sampling window end in which they began. */
void probe_start(struct probe *probe, const char *cgroup, const char *disk);
void probe_stop(struct probe *probe);
/* The readers read for @ns. Returns the mean of their sleep, in ns. */
__u64 probe_read(struct probe *probe, __u64 ns);
/*
 * Lets the readers read until the totals of @nr cgroups grow, for two windows
 * at most. A total that was read in an open window may exceed the stall of
 * that window. Totals never go backwards, so such a total stands still until
 * the stall has caught up, which takes no longer than that.
 */
void probe_catch_up(struct probe *probe, const char *const *path, int nr);

/* Runs all checks; the load is in @cgroup, or where the test is if NULL. */
const char *find_leak_in(const char *cgroup, const char *disk);
const char *find_leak(const char *disk);

#define EXPECT_NO_LEAK(found) do {					\
	const char *__found = (found);					\
									\
	EXPECT_EQ(NULL, __found) {					\
		TH_LOG("%s", __found);					\
	}								\
} while (0)

/* A file, of the system or a cgroup, with full > some or some > uptime. */
const char *find_excess(void);
/* The same for one file that was read from @path. */
const char *find_excess_in(const char *path, const struct psi *psi);

/* A trigger that is left, while some task stalls on its resource. */
const char *find_trigger(void);

/**
 * struct idle_growth - growth of the system's totals while the test sleeps
 * @cpu: of cpu some, in ns, like all of these
 * @io: of io some
 * @memory: of memory some
 * @cpu_wait: by the run queues' own clocks, tasks waited this long for a CPU
 *
 * A lost event that left a count above zero makes its total grow by the whole
 * time. The test and kernel threads wait a little for a CPU when they wake up,
 * so @cpu may reach @cpu_wait.
 */
struct idle_growth {
	__u64 cpu;
	__u64 io;
	__u64 memory;
	__u64 cpu_wait;
};

void idle_growth_measure(struct idle_growth *growth, __u64 ns);

#endif
