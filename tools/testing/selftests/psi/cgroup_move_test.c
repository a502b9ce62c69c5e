// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that move between cgroups
 *
 * Invariant: a task that moves takes all its states along at that moment. Stall
 * from before the move belongs to the old cgroup and its ancestors, stall from
 * after it to the new ones. A common ancestor sees no change.
 *
 *     task in x    |  waits, or sleeps in io or a memory stall  |
 *     moved to b                  ^
 *     x            |##############|
 *     b                           |#############################|
 *     their parent |############################################|
 *
 * Bugs it would find: a move that forgets a state (asleep in iowait, in a
 * memory stall, on the CPU), or counts it in both cgroups; a count that stays
 * behind, or goes below zero.
 *
 * Everything runs on one CPU by a timetable, which fixes when each stall begins
 * and ends.
 *
 * Tolerance: SLACK, for a wake-up that is late.
 */
#include "../kselftest_harness.h"
#include "psi_tree.h"

FIXTURE(tree) {
	struct timetable t;
};

FIXTURE_SETUP(tree)
{
	timetable_set_up(&self->t);
}

FIXTURE_TEARDOWN(tree)
{
	timetable_tear_down(&self->t);
}

/* ---- Tasks that move ---- */

/*
 *     victim in x   |runs|waits for the hog        |
 *     moved to b                  ^
 */
TEST_F(tree, waiting_task_that_moves_takes_its_wait_along)
{
	struct span victim = { self->t.begin, self->t.begin + 901 * MSEC };
	struct span starve = { self->t.begin + 100 * MSEC, self->t.begin + 900 * MSEC };
	const struct view *view = &self->t.view;
	double moved;
	pid_t pid;

	start_hog(&starve);
	pid = load_in(AXD, spin_span, &victim);
	timetable_begin(&self->t);
	sleep_until(self->t.begin + 400 * MSEC);
	cgroup_move(tree_path[B], pid);
	moved = now_ns();
	timetable_end(&self->t, victim.end);
	for (enum group g = A; g <= AXD; g++)
		EXPECT_TRUE(stall_is(view, g, RES_CPU, moved - starve.begin, moved - starve.begin,
				     SLACK));
	EXPECT_TRUE(stall_is(view, B, RES_CPU, starve.end - moved, starve.end - moved, SLACK));
	EXPECT_TRUE(stall_is(view, TOP, RES_CPU, 800 * MSEC, 800 * MSEC, SLACK));
	EXPECT_TRUE(nothing_in(view, AY));
	EXPECT_TRUE(tree_is_quiet());
}

/* A task that moves to its parent and back waits in the parent all the time. */
TEST_F(tree, waiting_task_that_moves_up_and_down_stays_in_its_ancestor)
{
	struct span victim = { self->t.begin, self->t.begin + 901 * MSEC };
	struct span starve = { self->t.begin + 100 * MSEC, self->t.begin + 900 * MSEC };
	const struct view *view = &self->t.view;
	double up, down;
	pid_t pid;

	start_hog(&starve);
	pid = load_in(AXD, spin_span, &victim);
	timetable_begin(&self->t);
	sleep_until(self->t.begin + 300 * MSEC);
	cgroup_move(tree_path[A], pid);
	up = now_ns();
	sleep_until(self->t.begin + 500 * MSEC);
	cgroup_move(tree_path[AX], pid);
	down = now_ns();
	timetable_end(&self->t, victim.end);
	EXPECT_TRUE(stall_is(view, AXD, RES_CPU, up - starve.begin, up - starve.begin, SLACK));
	EXPECT_TRUE(stall_is(view, AX, RES_CPU, 800 * MSEC - (down - up), 800 * MSEC - (down - up),
			     SLACK));
	EXPECT_TRUE(stall_is(view, A, RES_CPU, 800 * MSEC, 800 * MSEC, SLACK));
	EXPECT_TRUE(nothing_in(view, AY));
	EXPECT_TRUE(nothing_in(view, B));
	EXPECT_TRUE(tree_is_quiet());
}

/**
 * struct mover - a load that moves itself while it is on the CPU
 * @span: when it runs
 * @at: when it moves; the time at which it has moved replaces this
 * @to: the cgroup that it moves to
 */
struct mover {
	struct span span;
	__u64 at;
	const char *to;
};

static void move_self(void *arg)
{
	struct mover *mover = arg;

	sleep_until(mover->span.begin);
	spin_until(mover->at);
	cgroup_write(mover->to, "cgroup.procs", "0");
	mover->at = now_ns();
	spin_until(mover->span.end);
	sleep_forever();
}

/*
 * A second task in x waits for the mover. While both are in x, x has a task on
 * the CPU. After the move it has none.
 */
TEST_F(tree, running_task_that_moves_takes_the_cpu_along)
{
	struct mover *mover = shared_memory(sizeof(*mover));
	const struct load load = { .policy = SCHED_FIFO, .prio = 20, .cgroup = tree_path[AX],
				   .fn = move_self, .arg = mover };
	const struct view *view = &self->t.view;
	struct span victim = { self->t.begin, self->t.begin + 850 * MSEC };
	double full;

	mover->span = (struct span){ self->t.begin + 5 * MSEC, self->t.begin + 800 * MSEC };
	mover->at = self->t.begin + 300 * MSEC;
	mover->to = tree_path[B];
	load_start(&load);
	load_in(AX, spin_span, &victim);
	timetable_begin(&self->t);
	timetable_end(&self->t, victim.end);
	full = mover->span.end - mover->at;
	ASSERT_LT(300 * MSEC, full);
	for (enum group g = A; g <= AX; g++)
		EXPECT_TRUE(stall_is(view, g, RES_CPU, 795 * MSEC, full, SLACK));
	EXPECT_TRUE(stall_is(view, B, RES_CPU, 0, 0, SLACK));
	EXPECT_TRUE(stall_is(view, TOP, RES_CPU, 795 * MSEC, 0, SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_F(tree, task_that_moves_asleep_in_iowait_takes_it_along)
{
	struct sleeper *sleeper = shared_memory(sizeof(*sleeper));
	const struct view *view = &self->t.view;
	double first, second;
	__u64 moved;
	pid_t pid;

	timetable_disk(&self->t, 500 * MSEC);
	sleeper->node = self->t.disk.node;
	sleeper->span = (struct span){ self->t.begin, self->t.begin + MSEC };
	pid = load_in(AXD, read_span, sleeper);
	timetable_begin(&self->t);
	sleep_until(self->t.begin + 200 * MSEC);
	cgroup_move(tree_path[B], pid);
	moved = now_ns();
	timetable_end(&self->t, self->t.begin + 600 * MSEC);
	first = moved - self->t.begin;
	second = sleeper->ended - moved;
	ASSERT_LT(200 * MSEC, second);
	for (enum group g = A; g <= AXD; g++)
		EXPECT_TRUE(stall_is(view, g, RES_IO, first, first, SLACK));
	EXPECT_TRUE(stall_is(view, B, RES_IO, second, second, SLACK));
	EXPECT_TRUE(stall_is(view, TOP, RES_IO, first + second, first + second, SLACK));
	EXPECT_TRUE(nothing_in(view, AY));
	EXPECT_TRUE(root_is_system(view));
	EXPECT_TRUE(tree_is_quiet());
}

/* A task that sleeps without a stall leaves no state where it began. */
TEST_F(tree, task_that_moves_asleep_waits_where_it_wakes_up)
{
	struct span victim = { self->t.begin + 300 * MSEC, self->t.begin + 801 * MSEC };
	struct span starve = { self->t.begin + 250 * MSEC, self->t.begin + 800 * MSEC };
	const struct view *view = &self->t.view;
	pid_t pid;

	start_hog(&starve);
	pid = load_in(AXD, spin_span, &victim);
	timetable_begin(&self->t);
	sleep_until(self->t.begin + 100 * MSEC);
	cgroup_move(tree_path[B], pid);
	timetable_end(&self->t, victim.end);
	EXPECT_TRUE(nothing_in(view, A));
	EXPECT_TRUE(nothing_in(view, AX));
	EXPECT_TRUE(nothing_in(view, AXD));
	EXPECT_TRUE(stall_is(view, B, RES_CPU, 500 * MSEC, 500 * MSEC, SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_F(tree, task_that_moves_in_a_memory_stall_takes_it_along)
{
	const struct view *view = &self->t.view;
	__u64 moved, awake, second;
	struct throttled *task;
	pid_t pid;

	task = start_throttled(&self->t, AX, &pid);
	timetable_begin(&self->t);
	do {
		sleep_for(10 * MSEC);
	} while (!task->stall_begin || now_ns() < task->stall_begin + 600 * MSEC);
	ASSERT_EQ(0, task->stall_end);
	cgroup_move(tree_path[B], pid);
	moved = now_ns();
	awake = task_busy_ns(pid);
	timetable_end(&self->t, task->stall_begin + 4 * SEC);
	ASSERT_LT(moved, task->stall_end);
	second = task->stall_end - moved;
	ksft_print_msg("moved after %.6f s, throttled for another %.6f s\n",
		       (moved - self->t.begin) / 1e9, second / 1e9);
	EXPECT_TRUE(throttled_is(view, AX, moved - self->t.begin, awake));
	EXPECT_TRUE(stall_is(view, B, RES_MEMORY, second, second, SLACK));
	EXPECT_TRUE(stall_is(view, TOP, RES_MEMORY,
			     view->p[AX].some[RES_MEMORY] + view->p[B].some[RES_MEMORY],
			     view->p[AX].full[RES_MEMORY] + view->p[B].full[RES_MEMORY], MSEC));
	EXPECT_TRUE(root_is_system(view));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_HARNESS_MAIN
