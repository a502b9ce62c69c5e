// SPDX-License-Identifier: GPL-2.0
/*
 * Core scheduling: a CPU may be forced to idle, or be given a task by its sibling
 *
 * Invariant: the same as in state_test. A task that may not run beside its sibling's task
 * waits; one that is stolen from another CPU's queue takes its states along.
 *
 * What would break it: a task that one CPU picks for another, and moves between their queues
 * in the middle of a context switch; cookies that come and go with queued tasks; hooks
 * that rely on the lock of one CPU when siblings share it.
 *
 * It needs CONFIG_SCHED_CORE and CPUs with siblings: ci/storms boots those.
 */
#include <errno.h>
#include <linux/prctl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_crew.h"
#include "psi_leak.h"

#define LATENCY		(5 * NSEC_PER_MSEC)
#define ONE_THREAD	PR_SCHED_CORE_SCOPE_THREAD

static int core(unsigned int command, pid_t pid)
{
	return prctl(PR_SCHED_CORE, command, pid, ONE_THREAD, 0) ? errno : 0;
}

static void core_or_die(unsigned int command, pid_t pid)
{
	int error = core(command, pid);

	if (error)
		psi_die("PR_SCHED_CORE: %s", strerror(error));
}

/* Whoever passes a cookie on has it for that time: not the player, a child. */
static void share_cookie(pid_t from, pid_t to)
{
	pid_t pid = fork();

	if (pid < 0)
		psi_die("fork: %s", strerror(errno));
	if (!pid) {
		core_or_die(PR_SCHED_CORE_SHARE_FROM, from);
		core_or_die(PR_SCHED_CORE_SHARE_TO, to);
		_exit(KSFT_PASS);
	}
	load_wait(pid);
}

static void storm_cores(const struct storm *storm)
{
	const struct load loads[] = {
		{ .cpu = -1, .fn = spin },
		{ .cpu = -1, .fn = nap_forever },
		{ .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk },
	};
	const char *groups[2];
	struct crew crew;

	groups_make(storm, "cores", "+cpu", groups, 2);
	crew_start(&crew, &loads[1]);
	while (!storm_over(storm)) {
		pid_t *pid = &crew.pid[storm_chance(CREW)];

		switch (storm_chance(8)) {
		case 0:
			load_stop(*pid);
			*pid = load_start(&loads[storm_chance(ARRAY_SIZE(loads))]);
			break;
		case 1:
			group_move(groups[storm_chance(2)], *pid);
			break;
		case 2:
			move_somewhere(*pid);
			break;
		case 3:
			/* The player has none, so this takes the cookie away. */
			core_or_die(PR_SCHED_CORE_SHARE_TO, *pid);
			break;
		case 4:
			share_cookie(*pid, crew.pid[storm_chance(CREW)]);
			break;
		default:
			core_or_die(PR_SCHED_CORE_CREATE, *pid);
		}
		sleep_for(storm_chance(3) * NSEC_PER_MSEC);
	}
	crew_stop(&crew);
	groups_remove(groups, 2);
}

FIXTURE(cores) {
	struct slow_disk disk;
};

FIXTURE_VARIANT(cores) {
	void (*beside)(const struct storm *storm);
};

FIXTURE_VARIANT_ADD(cores, with_readers) {
	.beside = storm_readers,
};

FIXTURE_VARIANT_ADD(cores, that_come_and_go) {
	.beside = storm_hotplug,
};

FIXTURE_VARIANT_ADD(cores, with_changes_of_class) {
	.beside = storm_policy,
};

FIXTURE_SETUP(cores)
{
	char active[8] = "";

	read_file("/sys/devices/system/cpu/smt/active", active, sizeof(active));
	if (active[0] != '1')
		SKIP(return, "the CPUs have no siblings");
	if (core(PR_SCHED_CORE_SHARE_TO, getpid()) == EINVAL)
		SKIP(return, "needs CONFIG_SCHED_CORE");
	cpus_use(cpus_possible());
	task_delays_on();
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(&self->disk, "psi_cores", LATENCY, 64);
}

FIXTURE_TEARDOWN(cores)
{
	slow_disk_remove(&self->disk);
}

TEST_F_TIMEOUT(cores, leave_nothing_behind, STORM_TIMEOUT)
{
	const struct storm storm = {
		.end = now_ns() + storm_time(5 * NSEC_PER_SEC),
		.disk = self->disk.node,
	};
	const char *found;
	pid_t beside;

	storm_events_begin();
	beside = storm_start(variant->beside, &storm,
			     variant->beside == storm_readers ? SCHED_OTHER : SCHED_FIFO);
	storm_cores(&storm);
	load_wait(beside);
	ksft_print_msg("%lu events\n", storm_events());
	EXPECT_LT(0, storm_events());
	found = find_leak(self->disk.node);
	EXPECT_EQ(NULL, found) {
		TH_LOG("%s", found);
	}
}

TEST_HARNESS_MAIN
