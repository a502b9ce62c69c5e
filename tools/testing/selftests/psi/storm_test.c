// SPDX-License-Identifier: GPL-2.0
/*
 * Several storms at once, on CPUs that really run in parallel
 *
 * Invariant: as in state_test, with races: a wake-up on one CPU while the task
 * is still going to sleep on another; a kill during a migration; a CPU that
 * goes offline during a wake-up; readers of the pressure files during all of
 * them.
 *
 * Bugs it would find: state that PSI reads without the lock of its run queue; a
 * reader that sees half of an update. The readers of this test catch a total
 * that goes backwards, and find_leak() catches a wrong count.
 *
 * Only real time makes this a test: in virtual time the CPUs take turns.
 */

#include "../kselftest_harness.h"
#include "psi_leak.h"
#include "psi_storm.h"

/* The storms create their cgroups in DEEP; the probe is beside them. */
#define TOP		CGROUP_ROOT "/psi_storms"
#define DEEP		TOP "/psi_deep"
#define PROBE		DEEP "/psi_probe"

FIXTURE(storms) {
	struct slow_disk disk;
};

#define MAX_JOBS 8

FIXTURE_VARIANT(storms) {
	void (*fn[MAX_JOBS])(struct storm *storm);
};

FIXTURE_VARIANT_ADD(storms, of_wake_ups_and_migrations) {
	.fn = { storm_readers, storm_affinity, storm_iowait_affinity, storm_naps,
		storm_ping_pong },
};

FIXTURE_VARIANT_ADD(storms, of_births_deaths_and_signals) {
	.fn = { storm_readers, storm_fork, storm_threads, storm_kill, storm_stop, storm_ptrace },
};

FIXTURE_VARIANT_ADD(storms, of_classes_and_cgroups) {
	.fn = { storm_readers, storm_policy, storm_boost, storm_cgroup_move },
};

FIXTURE_VARIANT_ADD(storms, of_freezing_while_cpus_come_and_go) {
	.fn = { storm_readers, storm_hotplug, storm_ping_pong, storm_freeze },
};

FIXTURE_VARIANT_ADD(storms, of_limits_while_cpus_come_and_go) {
	.fn = { storm_readers, storm_hotplug, storm_cpu_limit },
};

FIXTURE_VARIANT_ADD(storms, of_reclaim) {
	.fn = { storm_readers, storm_reclaim, storm_iowait_affinity },
};

FIXTURE_VARIANT_ADD(storms, of_limits_swap_and_errors) {
	.fn = { storm_readers, storm_swap, storm_oom, storm_errors, storm_pipes },
};

FIXTURE_VARIANT_ADD(storms, of_rings_that_come_and_go) {
	.fn = { storm_readers, storm_rings, storm_iowait_affinity },
};

FIXTURE_VARIANT_ADD(storms, chosen_at_random) {
	.fn = { storm_readers, storm_readers, storm_toggles, storm_triggers, storm_chaos },
};

FIXTURE_SETUP(storms)
{
	storm_set_up(&self->disk, "psi_storm");
	cgroup_moves_are_fast();
	cgroup_create(TOP, "");
	cgroup_create(DEEP, "");
}

FIXTURE_TEARDOWN(storms)
{
	cgroup_remove(TOP);
	slow_disk_remove(&self->disk);
}

TEST_F_TIMEOUT(storms, leave_nothing_behind, STORM_TIMEOUT)
{
	unsigned long *events = shared_memory(MAX_JOBS * sizeof(*events));
	struct storm storm = {
		.time = storm_time(2 * NSEC_PER_SEC),
		.disk = self->disk.node,
		.top = DEEP,
	};
	pid_t pid[MAX_JOBS];
	int nr = 0;

	for (; nr < MAX_JOBS && variant->fn[nr]; nr++) {
		storm.events = &events[nr];
		pid[nr] = storm_start(variant->fn[nr], &storm,
				      variant->fn[nr] == storm_readers ? SCHED_OTHER : SCHED_FIFO);
	}
	for (int i = 0; i < nr; i++)
		load_wait(pid[i]);
	ksft_print_msg("%lu events\n", storm_events());
	for (int i = 0; i < nr; i++) {
		ksft_print_msg("job %d: %lu events\n", i, events[i]);
		/* One is the beginning of a first operation. */
		EXPECT_LT(1, events[i]);
	}
	cgroup_write(DEEP, "cgroup.subtree_control", "-cpu -memory");
	cgroup_create(PROBE, "");
	EXPECT_NO_LEAK(find_leak_in(PROBE, self->disk.node));
}

TEST_HARNESS_MAIN
