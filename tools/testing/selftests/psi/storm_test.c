// SPDX-License-Identifier: GPL-2.0
/*
 * All storms at once, on CPUs that really run in parallel
 *
 * Invariant: the same as in state_test, under races: a wake-up on one CPU while the task is
 * still going to sleep on another, a kill against a migration, a CPU that goes
 * offline under a wake-up, a reader of the pressure files against all of them.
 *
 * What would break it: state that is read without the lock of the run queue it belongs to; a
 * reader that believes half of an update (a total that goes backwards is caught here,
 * a count that is off is caught by find_leak()).
 *
 * This makes sense in real time only: in virtual time the CPUs take turns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_leak.h"
#include "psi_storm.h"
#include "psi_util.h"

#define LATENCY		(5 * NSEC_PER_MSEC)

struct job {
	void (*fn)(const struct storm *storm);
	struct storm storm;
};

static void run_job(void *arg)
{
	struct job *job = arg;

	job->fn(&job->storm);
}

/* Reads all files as fast as it can; ends badly when a total goes backwards. */
static void watch_totals(const struct storm *storm)
{
	static const char * const paths[] = { PSI_CPU, PSI_MEMORY, PSI_IO };
	struct psi last[ARRAY_SIZE(paths)], psi;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		psi_read(paths[i], &last[i]);
	while (now_ns() < storm->end) {
		for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
			psi_read(paths[i], &psi);
			if (psi.some.total < last[i].some.total ||
			    psi.full.total < last[i].full.total)
				psi_die("%s went backwards", paths[i]);
			last[i] = psi;
		}
	}
}

FIXTURE(storms) {
	struct slow_disk disk;
};

#define MAX_JOBS 8

/*
 * Storms that use the same cgroups are in different variants.
 */
FIXTURE_VARIANT(storms) {
	void (*fn[MAX_JOBS])(const struct storm *storm);
};

FIXTURE_VARIANT_ADD(storms, of_wake_ups_and_migrations) {
	.fn = { watch_totals, storm_affinity, storm_iowait_affinity, storm_naps,
		storm_ping_pong },
};

FIXTURE_VARIANT_ADD(storms, of_births_deaths_and_signals) {
	.fn = { watch_totals, storm_fork, storm_threads, storm_kill, storm_stop, storm_ptrace },
};

FIXTURE_VARIANT_ADD(storms, of_classes_and_cgroups) {
	.fn = { watch_totals, storm_policy, storm_boost, storm_cgroup_move },
};

FIXTURE_VARIANT_ADD(storms, of_freezing_while_cpus_come_and_go) {
	.fn = { watch_totals, storm_hotplug, storm_ping_pong, storm_freeze },
};

FIXTURE_VARIANT_ADD(storms, of_limits_while_cpus_come_and_go) {
	.fn = { watch_totals, storm_hotplug, storm_cpu_limit },
};

FIXTURE_VARIANT_ADD(storms, of_reclaim) {
	.fn = { watch_totals, storm_reclaim, storm_iowait_affinity },
};

FIXTURE_SETUP(storms)
{
	cpus_use(cpus_possible());
	task_delays_on();
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(&self->disk, "psi_storm", LATENCY, 64);
}

FIXTURE_TEARDOWN(storms)
{
	slow_disk_remove(&self->disk);
}

TEST_F_TIMEOUT(storms, leave_nothing_behind, STORM_TIMEOUT)
{
	struct job job = {
		.storm.end = now_ns() + storm_time(2 * NSEC_PER_SEC),
		.storm.disk = self->disk.node,
	};
	struct load load = { .cpu = -1, .fn = run_job, .arg = &job };
	pid_t pid[MAX_JOBS];
	const char *found;
	int nr = 0;

	storm_events_begin();
	for (; nr < MAX_JOBS && variant->fn[nr]; nr++) {
		job.fn = variant->fn[nr];
		/* Whoever plays with the tasks comes before them. */
		load.policy = job.fn == watch_totals ? SCHED_OTHER : SCHED_FIFO;
		load.prio = job.fn == watch_totals ? 0 : 40;
		pid[nr] = load_start(&load);
	}
	for (int i = 0; i < nr; i++)
		load_wait(pid[i]);
	ksft_print_msg("%lu events\n", storm_events());
	EXPECT_LT(0, storm_events());
	found = find_leak(self->disk.node);
	EXPECT_EQ(NULL, found) {
		TH_LOG("%s", found);
	}
}

TEST_HARNESS_MAIN
