// SPDX-License-Identifier: GPL-2.0
/*
 * Many cgroups that begin to use a CPU at the same moment
 *
 * Invariant: a cgroup gets memory on a CPU when it first uses it, from what the CPU has in
 * reserve. If that is empty, its tasks are counted in the next cgroup above that has memory,
 * until there is more. For that one and all above, nothing is lost.
 *
 *     above         |waits                                                          |
 *     one of many          |waits                                                   |
 *                   ^      ^
 *          all wake up     memory came
 *
 * Bugs it would find: a task that is counted nowhere, or stays with the cgroup above for good;
 * a cgroup between the two that gets memory later and does not see what is below it; a CPU
 * whose reserve is not filled up again, as it is offline.
 *
 * All tasks are woken by one interrupt, so nothing else runs in between.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../kselftest_harness.h"
#include "psi_disk.h"
#include "psi_work.h"

#define ABOVE		CGROUP_ROOT "/psi_above"
/* More than a CPU has in reserve, for cgroups side by side and for one below the other. */
#define MANY		200
#define DEEP		100
/* For how long tasks spin. */
#define SPIN		(4 * NSEC_PER_SEC)
/*
 * Until memory has come and the tasks are moved, the cgroups without it see nothing of them. A
 * work of ordinary priority moves them: it may have to wait for a turn of each.
 */
#define LATE		(100 * NSEC_PER_MSEC)
#define TURN		(4 * NSEC_PER_MSEC)
/* PSI and the clock of a task go by the same clock of the CPU. */
#define SLACK		(100 * NSEC_PER_USEC)
/* A task that PSI's own threads preempt waits, and counts as running: 2 ms of each of 3 folds. */
#define FOLDS		(6 * NSEC_PER_MSEC)
/* It is not the task's turn when its time to spin ends. */
#define END		NSEC_PER_SEC

/* The path of a cgroup below the one above. */
static void child_path(char *path, size_t size, int i)
{
	snprintf(path, size, ABOVE "/c%d", i);
}

static __u64 some_ns(const char *path, enum psi_resource res)
{
	struct pressure p;

	pressure_read(path, &p);
	return p.some[res];
}

/* A task that sleeps by now. */
static pid_t sleep_until_span(struct span *span)
{
	const struct load load = { .cpu = 0, .fn = spin_span, .arg = span };
	pid_t pid = load_start(&load);

	await_sleep(pid);
	return pid;
}

FIXTURE(reserve) {
	struct span span;
};

FIXTURE_SETUP(reserve)
{
	cpus_use(1);
	cgroup_moves_are_fast();
	cgroup_create(ABOVE, "");
	/* It has used the CPU before. */
	load_stop(load_start(&(struct load){ .cpu = 0, .cgroup = ABOVE, .fn = spin }));
	self->span.begin = now_ns() + 20 * NSEC_PER_SEC;
	self->span.end = self->span.begin + SPIN;
}

FIXTURE_TEARDOWN(reserve)
{
	cgroup_remove(ABOVE);
}

TEST_F(reserve, cgroups_side_by_side_are_seen_once_there_is_memory_and_the_one_above_at_once)
{
	__u64 waited[MANY];
	pid_t pid[MANY];
	char path[256];
	int i, late = 0;
	__u64 before, most = 0;

	for (i = 0; i < MANY; i++) {
		child_path(path, sizeof(path), i);
		cgroup_create(path, "");
		/* Moved while it sleeps: so the cgroup does not use the CPU yet. */
		pid[i] = sleep_until_span(&self->span);
		cgroup_move(path, pid[i]);
		waited[i] = task_wait_ns(pid[i]);
	}
	ASSERT_LT(now_ns(), self->span.begin);
	before = some_ns(ABOVE, RES_CPU);
	sleep_until(self->span.end + END);
	/* All wait but the one that runs. */
	EXPECT_GE(some_ns(ABOVE, RES_CPU) - before, SPIN - SLACK);
	EXPECT_LE(some_ns(ABOVE, RES_CPU) - before, SPIN + END);
	for (i = 0; i < MANY; i++) {
		__u64 wait = task_wait_ns(pid[i]) - waited[i], seen;

		child_path(path, sizeof(path), i);
		seen = some_ns(path, RES_CPU);
		if (wait > seen + most)
			most = wait - seen;
		EXPECT_GE(seen, wait - LATE - MANY * TURN);
		EXPECT_LE(seen, wait + SLACK);
		late += seen < wait - SLACK;
	}
	TH_LOG("%d of %d cgroups were seen late, by up to %llu us", late, MANY, most / 1000);
	/* Otherwise there was memory for all, and this has shown nothing. */
	EXPECT_GE(late, MANY / 4);
}

TEST_F(reserve, cgroups_one_below_the_other_are_seen_once_there_is_memory_and_the_one_above_at_once)
{
	struct span other = self->span;
	char path[4096] = ABOVE;
	__u64 above, wait, seen;
	pid_t pid, rival;
	int i, late = 0;

	for (i = 0; i < DEEP; i++) {
		strcat(path, "/d");
		cgroup_create(path, "");
	}
	pid = sleep_until_span(&self->span);
	cgroup_move(path, pid);
	/* It waits for this one, of the root. */
	rival = sleep_until_span(&other);
	ASSERT_LT(now_ns(), self->span.begin);
	above = some_ns(ABOVE, RES_CPU);
	wait = task_wait_ns(pid);
	sleep_until(self->span.end + END);
	wait = task_wait_ns(pid) - wait;
	EXPECT_GE(wait, SPIN / 4);
	above = some_ns(ABOVE, RES_CPU) - above;
	EXPECT_GE(above, wait - FOLDS);
	EXPECT_LE(above, wait + SLACK);
	for (i = 0; i < DEEP; i++) {
		seen = some_ns(path, RES_CPU);
		EXPECT_GE(seen, above - LATE);
		EXPECT_LE(seen, above + SLACK);
		late += seen < above - SLACK;
		*strrchr(path, '/') = 0;
	}
	TH_LOG("%d of %d cgroups were seen late", late, DEEP);
	EXPECT_GE(late, DEEP / 10);
	load_stop(rival);
}

/* ---- A CPU that is offline ---- */

/* For how long the reader sleeps: less than the 5 s after which the request has failed. */
#define STALL		(4 * NSEC_PER_SEC)
#define MEASURE		NSEC_PER_SEC

static void read_once(void *stalls)
{
	stall(stalls);
}

FIXTURE(offline) {
	struct stalls stalls;
	pid_t reader;
};

FIXTURE_SETUP(offline)
{
	const struct load load = { .cpu = 1, .fn = read_once, .arg = &self->stalls };

	cpus_use(2);
	pin_to(0);
	cgroup_moves_are_fast();
	cgroup_create(ABOVE, "");
	stalls_create(&self->stalls, "psi_reserve", STALL);
	self->reader = load_start(&load);
	await_sleep(self->reader);
	cpu_online(1, false);
}

FIXTURE_TEARDOWN(offline)
{
	cpu_online(1, true);
	stalls_remove(&self->stalls);
	cgroup_remove(ABOVE);
}

TEST_F(offline, reserve_is_filled_up_for_a_reader_that_moves_in_its_sleep)
{
	__u64 begin, seen;
	char path[256];

	for (int i = 0; i < MANY; i++) {
		child_path(path, sizeof(path), i);
		cgroup_create(path, "");
		cgroup_move(path, self->reader);
	}
	sleep_for(LATE);
	begin = now_ns();
	seen = some_ns(path, RES_IO);
	sleep_for(MEASURE);
	seen = some_ns(path, RES_IO) - seen;
	/* At least the sleep between the two reads, at most both reads with it. */
	EXPECT_GE(seen, MEASURE);
	EXPECT_LE(seen, now_ns() - begin);
	load_wait(self->reader);
}

TEST_HARNESS_MAIN
