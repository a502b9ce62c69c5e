// SPDX-License-Identifier: GPL-2.0
/*
 * Task states: the counts are right after every operation on a task
 *
 * Invariant: at every moment, the counts of a CPU are those of its tasks. A
 * task that migrates, asleep or runnable, takes all its states along. A change
 * of class, policy, nice value or cgroup dequeues and enqueues a task in the
 * same state. A task that stops, freezes or dies leaves no count behind, on
 * whatever CPU and in whatever state it was.
 *
 * Bugs it would find: a sleeper in iowait that is dequeued on one CPU and wakes
 * up on another; a delayed dequeue that a wake-up completes; a queued task
 * whose dequeue for a change of policy counts as going to sleep; a new task
 * that counts at its fork and again at its first wake-up; a CPU that goes
 * offline with counted sleepers.
 *
 * Each storm repeats one of these operations for a second. Then find_leak()
 * checks the counts from outside: see psi_leak.h. storm_test runs several
 * storms at once.
 */
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_leak.h"
#include "psi_storm.h"
#include "psi_trigger.h"

#define STORM_TIME	NSEC_PER_SEC
/* ---- The check can fail ---- */

FIXTURE(leak) {
	struct slow_disk disk;
};

FIXTURE_VARIANT(leak) {
	enum { WAITING, IOWAIT, TRIGGER } what;
};

FIXTURE_VARIANT_ADD(leak, of_a_waiting_task) { .what = WAITING };
FIXTURE_VARIANT_ADD(leak, of_a_task_in_iowait) { .what = IOWAIT };
FIXTURE_VARIANT_ADD(leak, of_a_trigger) { .what = TRIGGER };

FIXTURE_SETUP(leak)
{
	storm_set_up(&self->disk, "psi_state");
}

FIXTURE_TEARDOWN(leak)
{
	slow_disk_remove(&self->disk);
}

/*
 * A task or trigger that still exists looks like a leak. Once it is gone, the
 * check passes.
 */
TEST_F_TIMEOUT(leak, is_found, STORM_TIMEOUT)
{
	pid_t pid[2] = { };
	int fd = -1;

	if (variant->what == TRIGGER)
		fd = trigger_arm(PSI_IO, "some 900000 1000000");
	for (int i = 0; i < 2; i++) {
		if (variant->what == IOWAIT)
			pid[i] = storm_reader(self->disk.node);
		if (variant->what == WAITING)
			pid[i] = spin_on(0);
	}
	EXPECT_NE(NULL, find_leak(self->disk.node));
	for (int i = 0; i < 2; i++)
		if (pid[i])
			load_stop(pid[i]);
	if (fd >= 0)
		close(fd);
	EXPECT_EQ(NULL, find_leak(self->disk.node));
}

/* ---- The storms ---- */

FIXTURE(tasks) {
	struct slow_disk disk;
};

FIXTURE_VARIANT(tasks) {
	void (*storm)(struct storm *storm);
};

FIXTURE_VARIANT_ADD(tasks, moved_between_cpus_while_queued) { .storm = storm_affinity };

FIXTURE_VARIANT_ADD(tasks, moved_between_cpus_while_asleep_in_iowait) {
	.storm = storm_iowait_affinity,
};

FIXTURE_VARIANT_ADD(tasks, changing_class_policy_and_nice_value) { .storm = storm_policy };
FIXTURE_VARIANT_ADD(tasks, stopped_and_continued) { .storm = storm_stop };
FIXTURE_VARIANT_ADD(tasks, moved_while_traced) { .storm = storm_ptrace };
FIXTURE_VARIANT_ADD(tasks, frozen_and_thawed) { .storm = storm_freeze };
FIXTURE_VARIANT_ADD(tasks, killed_while_running_waiting_and_in_iowait) { .storm = storm_kill };
FIXTURE_VARIANT_ADD(tasks, that_fork_and_vfork) { .storm = storm_fork };
FIXTURE_VARIANT_ADD(tasks, that_make_threads_and_die_with_them) { .storm = storm_threads };
FIXTURE_VARIANT_ADD(tasks, moved_between_cgroups) { .storm = storm_cgroup_move };
FIXTURE_VARIANT_ADD(tasks, over_the_cpu_limit_of_their_cgroup) { .storm = storm_cpu_limit };
FIXTURE_VARIANT_ADD(tasks, whose_dequeue_is_delayed) { .storm = storm_naps };
FIXTURE_VARIANT_ADD(tasks, that_wake_each_other_across_cpus) { .storm = storm_ping_pong };
FIXTURE_VARIANT_ADD(tasks, boosted_by_priority_inheritance) { .storm = storm_boost };
FIXTURE_VARIANT_ADD(tasks, moved_and_killed_in_memory_stalls) { .storm = storm_reclaim };
FIXTURE_VARIANT_ADD(tasks, that_pass_on_bytes_between_cgroups) { .storm = storm_pipes };
FIXTURE_VARIANT_ADD(tasks, moved_and_killed_while_their_io_fails) { .storm = storm_errors };
FIXTURE_VARIANT_ADD(tasks, that_swap_at_the_limit_of_their_cgroup) { .storm = storm_swap };
FIXTURE_VARIANT_ADD(tasks, throttled_above_memory_high) { .storm = storm_high };
FIXTURE_VARIANT_ADD(tasks, killed_for_the_memory_of_their_cgroup) { .storm = storm_oom };
FIXTURE_VARIANT_ADD(tasks, on_cpus_that_come_and_go) { .storm = storm_hotplug };

FIXTURE_SETUP(tasks)
{
	cgroup_moves_are_fast();
	storm_set_up(&self->disk, "psi_state");
}

FIXTURE_TEARDOWN(tasks)
{
	slow_disk_remove(&self->disk);
}

TEST_F_TIMEOUT(tasks, leave_nothing_behind, STORM_TIMEOUT)
{
	struct storm storm = {
		.time = storm_time(STORM_TIME),
		.disk = self->disk.node,
	};

	variant->storm(&storm);
	ksft_print_msg("%lu events\n", storm_events());
	EXPECT_LT(0, storm_events());
	EXPECT_NO_LEAK(find_leak(self->disk.node));
}

TEST_HARNESS_MAIN
