// SPDX-License-Identifier: GPL-2.0
/*
 * Switching a cgroup's accounting off and on while its tasks stall
 *
 * Invariant: while cgroup.pressure is 0, the totals of that cgroup do not grow,
 * and cgroups above and below see no change. From the moment it is 1 again, the
 * totals grow by the current states of its tasks. A task that fell asleep in
 * iowait while off is in io; a task that woke up while off is not. A task that
 * came, left, was forked or died while off is counted right.
 *
 *     task in x    |   |  sleeps in io, or waits                |
 *     x switched            ^ off            ^ on
 *     x, total         |####|                |##################|
 *     its parent       |########################################|
 *
 * Bugs it would find: counts that stop together with the times, so that a task
 * that left while off is counted for ever, or below zero; an interval that
 * began before the switch; a child that delegates its states to a parent that
 * is off, so that no ancestor sees them.
 *
 * All runs on one CPU by a timetable, as in cgroup_move_test. Tolerance: SLACK,
 * for a late wake-up and for the time that the switch takes.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_tree.h"
#include "psi_work.h"

static void switch_off(enum group g)
{
	cgroup_write(tree_path[g], "cgroup.pressure", "0");
}

static void switch_on(enum group g)
{
	cgroup_write(tree_path[g], "cgroup.pressure", "1");
}

/* How long a group was off, give or take: a switch takes some ms with KASAN. */
struct off_time {
	double length, slack;
};

static struct off_time switch_off_between(enum group g, __u64 from, __u64 to)
{
	double before, off, on, after;

	sleep_until(from);
	before = now_ns();
	switch_off(g);
	off = now_ns();
	sleep_until(to);
	on = now_ns();
	switch_on(g);
	after = now_ns();
	return (struct off_time){
		.length = (on - off + after - before) / 2,
		.slack = (after - before - (on - off)) / 2,
	};
}

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

/* ---- One switch, in every place of the chain ---- */

FIXTURE(chain) {
	struct timetable t;
};

FIXTURE_VARIANT(chain) {
	enum group off;
};

FIXTURE_VARIANT_ADD(chain, leaf) { .off = AXD };
FIXTURE_VARIANT_ADD(chain, middle) { .off = AX };
FIXTURE_VARIANT_ADD(chain, middle_with_two_children) { .off = A };
FIXTURE_VARIANT_ADD(chain, top) { .off = TOP };

FIXTURE_SETUP(chain)
{
	timetable_set_up(&self->t);
}

FIXTURE_TEARDOWN(chain)
{
	timetable_tear_down(&self->t);
}

/* From the top down to d. */
static const enum group chain[] = { TOP, A, AX, AXD };

/* A task waits for 700 ms; the group is off for 400 ms of them. */
TEST_F(chain, switched_off_while_a_task_waits_loses_that_time_and_no_other)
{
	const struct timetable *t = &self->t;
	struct span starve = { t->begin, t->begin + 700 * MSEC };
	struct off_time off_time;

	start_hog(&starve);
	load_in(AXD, spin_span, &starve);
	timetable_begin(&self->t);
	off_time = switch_off_between(variant->off, t->begin + 200 * MSEC, t->begin + 600 * MSEC);
	timetable_end(&self->t, starve.end);
	for (size_t i = 0; i < ARRAY_SIZE(chain); i++) {
		struct off_time lost = chain[i] == variant->off ? off_time : (struct off_time){ };
		double true_wait = 700 * MSEC - lost.length;

		EXPECT_TRUE(stall_is(&t->view, chain[i], RES_CPU, true_wait, true_wait,
				     SLACK + lost.slack));
	}
	EXPECT_TRUE(nothing_in(&t->view, AY));
	EXPECT_TRUE(nothing_in(&t->view, B));
	EXPECT_TRUE(tree_is_quiet());
}

/*
 * The same with a task that sleeps in io for 500 ms, beside a sibling that
 * runs.
 */
TEST_F(chain, switched_off_while_a_task_sleeps_in_io_loses_that_time_and_no_other)
{
	struct sleeper *sleeper = shared_memory(sizeof(*sleeper));
	const struct timetable *t = &self->t;
	struct off_time off_time;
	struct span span;

	timetable_disk(&self->t, 500 * MSEC);
	sleeper->node = t->disk.node;
	sleeper->span = (struct span){ t->begin - 10 * MSEC, t->begin };
	span = (struct span){ t->begin, t->begin + 700 * MSEC };
	load_in(AXD, read_span, sleeper);
	load_in(AY, spin_span, &span);
	timetable_begin(&self->t);
	off_time = switch_off_between(variant->off, t->begin + 100 * MSEC, t->begin + 300 * MSEC);
	timetable_end(&self->t, span.end);
	for (size_t i = 0; i < ARRAY_SIZE(chain); i++) {
		struct off_time lost = chain[i] == variant->off ? off_time : (struct off_time){ };
		double io = 500 * MSEC - lost.length;
		bool alone = chain[i] == AX || chain[i] == AXD;

		EXPECT_TRUE(stall_is(&t->view, chain[i], RES_IO, io, alone ? io : 10 * MSEC,
				     2 * SLACK + lost.slack));
	}
	EXPECT_TRUE(stall_is(&t->view, AY, RES_IO, 0, 0, 0));
	EXPECT_TRUE(root_is_system(&t->view));
	EXPECT_TRUE(tree_is_quiet());
}

/*
 * Two spinners in d. After the switch on, the total grows by 100 % from the
 * first of several steps of 100 ms.
 */
TEST_F(chain, switched_on_under_load_counts_from_the_first_moment)
{
	const struct timetable *t = &self->t;
	struct span span = { t->begin, t->begin + 12 * SEC };
	__u64 before, some;
	struct psi psi;
	char file[128];

	snprintf(file, sizeof(file), "%s/cpu.pressure", tree_path[variant->off]);
	load_in(AXD, spin_span, &span);
	load_in(AXD, spin_span, &span);
	timetable_begin(&self->t);
	sleep_until(t->begin + 2 * SEC);
	before = psi_some_ns(file);
	switch_off(variant->off);
	sleep_until(t->begin + 5 * SEC);
	switch_on(variant->off);
	some = psi_some_ns(file);
	EXPECT_TRUE(value_is("some while off", variant->off, RES_CPU, 0, 2 * SLACK, some - before));
	for (int i = 1; i <= 20; i++) {
		sleep_until(t->begin + 5 * SEC + i * 100 * MSEC);
		EXPECT_TRUE(value_is("some", variant->off, RES_CPU, i * 100 * MSEC - 2 * SLACK,
				     i * 100 * MSEC + SLACK, psi_some_ns(file) - some));
	}
	sleep_until(t->begin + 9 * SEC);
	/* No average may exceed its value without the pause. */
	psi_read(file, &psi);
	EXPECT_GE(100 * (1 - exp(-9.0 / 10)) + 1, psi.some.avg[AVG10] / 100.0);
	EXPECT_LE(100 * (1 - exp(-2.0 / 10)) - 1, psi.some.avg[AVG10] / 100.0);
	EXPECT_GE(200, psi.full.avg[AVG10]);
	timetable_end(&self->t, span.end);
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- States that change while nobody looks ---- */

/*
 *     sleeper   |  in io for 500 ms    |
 *     x            ^ off                  ^ on
 */
TEST_F(tree, sleeper_in_io_that_woke_up_while_off_does_not_count)
{
	struct sleeper *sleeper = shared_memory(sizeof(*sleeper));
	struct timetable *t = &self->t;
	double off;

	timetable_disk(t, 500 * MSEC);
	sleeper->node = t->disk.node;
	sleeper->span = (struct span){ t->begin, t->begin + MSEC };
	load_in(AX, read_span, sleeper);
	timetable_begin(t);
	sleep_until(t->begin + 100 * MSEC);
	off = now_ns();
	switch_off(AX);
	sleep_until(t->begin + 700 * MSEC);
	switch_on(AX);
	timetable_end(t, t->begin + SEC);
	EXPECT_TRUE(stall_is(&t->view, AX, RES_IO, off - t->begin, off - t->begin, SLACK));
	EXPECT_TRUE(stall_is(&t->view, A, RES_IO, 500 * MSEC, 500 * MSEC, SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_F(tree, sleeper_in_io_that_began_while_off_counts)
{
	struct sleeper *sleeper = shared_memory(sizeof(*sleeper));
	struct timetable *t = &self->t;
	double on;

	timetable_disk(t, 500 * MSEC);
	sleeper->node = t->disk.node;
	sleeper->span = (struct span){ t->begin + 200 * MSEC, t->begin + 201 * MSEC };
	load_in(AX, read_span, sleeper);
	timetable_begin(t);
	sleep_until(t->begin + 100 * MSEC);
	switch_off(AX);
	sleep_until(t->begin + 400 * MSEC);
	switch_on(AX);
	on = now_ns();
	timetable_end(t, t->begin + SEC);
	on = sleeper->ended - on;
	EXPECT_TRUE(stall_is(&t->view, AX, RES_IO, on, on, SLACK));
	EXPECT_TRUE(stall_is(&t->view, A, RES_IO, 500 * MSEC, 500 * MSEC, SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

/* The group is off and on again while memory.high throttles its task. */
TEST_F(tree, task_in_a_memory_stall_at_the_switch_counts)
{
	struct timetable *t = &self->t;
	struct throttled *task;
	struct pressure x, a;
	__u64 on, awake;
	double rest;
	pid_t pid;

	task = start_throttled(t, AX, &pid);
	timetable_begin(t);
	do {
		sleep_for(10 * MSEC);
	} while (!task->stall_begin || now_ns() < task->stall_begin + 300 * MSEC);
	awake = task_busy_ns(pid);
	pressure_read(tree_path[A], &a);
	pressure_read(tree_path[AX], &x);
	switch_off(AX);
	sleep_for(300 * MSEC);
	switch_on(AX);
	on = now_ns();
	ASSERT_EQ(0, task->stall_end);
	sleep_until(task->stall_begin + 4 * SEC);
	ASSERT_LT(on, task->stall_end);
	rest = task->stall_end - on;
	x = pressure_since(tree_path[AX], &x);
	a = pressure_since(tree_path[A], &a);
	/* While it runs it is not throttled: on a slow kernel that shows. */
	awake = task_busy_ns(pid) - awake;
	ksft_print_msg("throttled for %.6f s, in which it ran for %.6f s\n",
		       (rest + 300 * MSEC) / 1e9, awake / 1e9);
	/* Some milliseconds pass between the reading and the switch. */
	EXPECT_TRUE(value_is("some", AX, RES_MEMORY, rest - awake - SLACK, rest + 30 * MSEC,
			     x.some[RES_MEMORY]));
	EXPECT_TRUE(value_is("full", AX, RES_MEMORY, rest - awake - SLACK, rest + 30 * MSEC,
			     x.full[RES_MEMORY]));
	rest += 300 * MSEC;
	EXPECT_TRUE(value_is("some", A, RES_MEMORY, rest - awake - 30 * MSEC, rest + 30 * MSEC,
			     a.some[RES_MEMORY]));
	EXPECT_TRUE(tree_is_quiet());
}

/*
 * All tasks leave x while it is off: by a move, by death, by sleep. Counts that
 * stopped with the switch would stay.
 */
TEST_F(tree, tasks_that_left_while_off_do_not_count)
{
	struct sleeper *sleeper = shared_memory(sizeof(*sleeper));
	struct timetable *t = &self->t;
	struct span starve, victim;
	pid_t moved, killed, reader;

	timetable_disk(t, 500 * MSEC);
	starve = (struct span){ t->begin, t->begin + 600 * MSEC };
	victim = (struct span){ t->begin, t->begin + 601 * MSEC };
	sleeper->node = t->disk.node;
	sleeper->span = (struct span){ t->begin - 10 * MSEC, t->begin };
	start_hog(&starve);
	moved = load_in(AX, spin_span, &victim);
	killed = load_in(AX, spin_span, &victim);
	reader = load_in(AX, read_span, sleeper);
	timetable_begin(t);
	sleep_until(t->begin + 100 * MSEC);
	switch_off(AX);
	cgroup_move(tree_path[B], moved);
	cgroup_move(tree_path[B], reader);
	kill(killed, SIGKILL);
	sleep_until(t->begin + 800 * MSEC);
	switch_on(AX);
	timetable_end(t, t->begin + 900 * MSEC);
	EXPECT_TRUE(stall_is(&t->view, AX, RES_CPU, 100 * MSEC, 100 * MSEC, 2 * SLACK));
	EXPECT_TRUE(stall_is(&t->view, B, RES_CPU, 500 * MSEC, 500 * MSEC, 2 * SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

/* The reverse: all tasks come to x while it is off. */
TEST_F(tree, tasks_that_came_while_off_count)
{
	struct sleeper *sleeper = shared_memory(sizeof(*sleeper));
	struct timetable *t = &self->t;
	struct span starve, victim;
	pid_t moved, reader;
	double on;

	timetable_disk(t, 700 * MSEC);
	starve = (struct span){ t->begin, t->begin + 600 * MSEC };
	victim = (struct span){ t->begin, t->begin + 601 * MSEC };
	sleeper->node = t->disk.node;
	sleeper->span = (struct span){ t->begin - 10 * MSEC, t->begin };
	start_hog(&starve);
	moved = load_in(B, spin_span, &victim);
	reader = load_in(B, read_span, sleeper);
	timetable_begin(t);
	switch_off(AX);
	sleep_until(t->begin + 100 * MSEC);
	cgroup_move(tree_path[AX], moved);
	cgroup_move(tree_path[AX], reader);
	sleep_until(t->begin + 300 * MSEC);
	switch_on(AX);
	on = now_ns();
	timetable_end(t, t->begin + 800 * MSEC);
	EXPECT_TRUE(stall_is(&t->view, AX, RES_CPU, starve.end - on, starve.end - on, SLACK));
	EXPECT_TRUE(value_is("some", AX, RES_IO, sleeper->ended - on - SLACK,
			     sleeper->ended - on + SLACK, t->view.p[AX].some[RES_IO]));
	EXPECT_TRUE(stall_is(&t->view, A, RES_CPU, 500 * MSEC, 500 * MSEC, 2 * SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

/* A cgroup created below one that is off, whose ancestors may all be off. */
TEST_F(tree, cgroup_below_ones_that_are_off_counts)
{
	struct timetable *t = &self->t;
	struct span starve = { t->begin, t->begin + 500 * MSEC };
	char path[64];
	struct load load = { .cgroup = path, .fn = spin_span, .arg = &starve };
	struct pressure p;
	struct psi psi;

	switch_off(TOP);
	switch_off(A);
	switch_off(AX);
	snprintf(path, sizeof(path), "%s/new", tree_path[AX]);
	cgroup_create(path, "");
	start_hog(&starve);
	load_start(&load);
	sleep_until(starve.end + 100 * MSEC);
	pressure_read(path, &p);
	EXPECT_TRUE(value_is("some of a new child", AX, RES_CPU, 500 * MSEC - SLACK,
			     500 * MSEC + SLACK, p.some[RES_CPU]));
	EXPECT_TRUE(value_is("full of a new child", AX, RES_CPU, 500 * MSEC - SLACK,
			     500 * MSEC + SLACK, p.full[RES_CPU]));
	switch_on(AX);
	switch_on(TOP);
	switch_on(A);
	cgroup_psi_read(tree_path[TOP], "cpu.pressure", &psi);
	EXPECT_EQ(0, psi.some.total);
	cgroup_psi_read(tree_path[A], "cpu.pressure", &psi);
	EXPECT_EQ(0, psi.some.total);
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- What a switch costs ---- */

#define NR_SLEEPERS	1000

static void sleep_as_many(void *arg)
{
	atomic_int *nr = arg;

	for (int i = 1; i < NR_SLEEPERS; i++)
		if (!fork_or_die())
			break;
	atomic_fetch_add(nr, 1);
	for (;;)
		pause();
}

/* The mean of some switches off and on, in ns. */
static double switch_cost(void)
{
	__u64 begin = now_ns();

	for (int i = 0; i < 20; i++) {
		switch_off(AX);
		switch_on(AX);
	}
	return (now_ns() - begin) / 20.0;
}

/*
 * The writer holds cgroup_mutex meanwhile, which everybody needs who makes or
 * removes a cgroup.
 */
TEST_F_TIMEOUT(tree, costs_the_same_however_many_tasks_the_cgroup_has, 300)
{
	atomic_int *nr = shared_memory(sizeof(*nr));
	double without, with;

	switch_cost();
	without = switch_cost();
	load_in(AX, sleep_as_many, nr);
	while (atomic_load(nr) < NR_SLEEPERS)
		sleep_for(MSEC);
	/* The last ones fall asleep. */
	sleep_for(100 * MSEC);
	with = switch_cost();
	report_row("cgroup.pressure off and on, us", "%.1f", without / 1e3);
	report_row("cgroup.pressure off and on, 1,000 tasks, us", "%.1f", with / 1e3);
	EXPECT_LT(with, 1.2 * without);
}

/* ---- A thousand times ---- */

static void fork_forever(void *arg)
{
	for (;;) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			psi_die("fork: %s", strerror(errno));
	}
}

static void switch_at(unsigned long i)
{
	static const enum group groups[] = { AXD, AX, A, TOP };
	enum group g = groups[i * 7919 % 4];

	switch_off(g);
	sleep_for((i * 104729 % 13) * 100 * NSEC_PER_USEC);
	switch_on(g);
	sleep_for((i * 15485863 % 11) * 100 * NSEC_PER_USEC);
}

/*
 * After the storm no count is left, and a load with a known answer shows in
 * every group. A count that is too low would hide that load.
 */
TEST_F_TIMEOUT(tree, thousand_switches_under_load_leave_the_counts_right, 300)
{
	struct sleeper *sleeper = shared_memory(sizeof(*sleeper));
	struct timetable *t = &self->t;
	struct span starve;
	struct ping_pong pp;
	struct pressure p;
	pid_t pid[5];
	__u64 begin;

	timetable_disk(t, 3 * MSEC);
	ping_pong_create(&pp);
	*sleeper = (struct sleeper){ .node = t->disk.node, .span.end = t->begin + 3600 * SEC };
	begin = now_ns();
	pid[0] = load_in(AXD, ping_pong_forever, pp.ends[0]);
	pid[1] = load_in(AX, ping_pong_forever, pp.ends[1]);
	pid[2] = load_in(AXD, read_span, sleeper);
	pid[3] = load_in(AX, fork_forever, NULL);
	pid[4] = load_in(AY, fork_forever, NULL);
	ping_pong_begin(&pp, 1);
	for (int i = 0; i < 1000; i++)
		switch_at(i);
	ksft_print_msg("1000 switches took %.3f s\n", (now_ns() - begin) / 1e9);
	for (int i = 0; i < 5; i++)
		load_stop(pid[i]);
	begin = now_ns() - begin;
	for (enum group g = TOP; g < NR_MADE; g++) {
		pressure_read(tree_path[g], &p);
		for (int r = 0; r < NR_RESOURCES; r++) {
			EXPECT_LE(p.some[r], begin);
			EXPECT_LE(p.full[r], p.some[r]);
		}
	}
	EXPECT_TRUE(tree_is_quiet());

	t->begin = now_ns() + SEC;
	starve = (struct span){ t->begin, t->begin + 800 * MSEC };
	start_hog(&starve);
	load_in(AXD, spin_span, &starve);
	timetable_begin(t);
	timetable_end(t, starve.end);
	for (size_t i = 0; i < ARRAY_SIZE(chain); i++)
		EXPECT_TRUE(stall_is(&t->view, chain[i], RES_CPU, 800 * MSEC, 800 * MSEC, SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_HARNESS_MAIN
