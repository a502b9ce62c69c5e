// SPDX-License-Identifier: GPL-2.0
/*
 * The pressure of a cgroup is that of its own tasks and of those below it
 *
 * Invariant: PSI looks at each cgroup by itself. A task that waits for the CPU
 * because of a stranger is a full stall of its own cgroup, and only "some" of
 * the first common ancestor of the two. A parent has the union of its
 * children's stalls, and the root has the stalls of the system.
 *
 *     task in x    | runs  | waits | runs  | waits |
 *     x, full              |#######|       |#######|
 *     task in y    | waits | runs  | waits | runs  |
 *     y, full      |#######|       |#######|
 *     a, some      |###############################|
 *     a, full      |                               |
 *
 * Bugs it would find: a walk up the tree that ends too early or starts too
 * late; a stall of two children that their parent counts twice; cgroup "full"
 * computed from what the CPU executes instead of what the cgroup executes
 * there; a new cgroup that starts with the totals of another, or from time
 * zero.
 *
 * Everything runs on one CPU by a timetable, and the test reads while nothing
 * runs. So the pressure is the wait of the tasks, by their own clocks. The
 * exception are the kernel's own threads: while one of them runs, two tasks may
 * wait at a time.
 *
 * Tolerance: clocks differ by some instructions at each context switch, about 5
 * us of virtual time: RUN_SLACK. A sleep ends with an interrupt and a wake-up,
 * 30 us for each read of 10 ms: IO_SLACK.
 */
#include <math.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_tree.h"
#include "psi_trigger.h"
#include "psi_work.h"

/* Ten seconds of context switches may add up to this, at 5 us each. */
#define RUN_SLACK	(20 * MSEC)
/* Reads of 10 ms for ten seconds may: 30 us for interrupt and wake-up. */
#define IO_SLACK	(50 * MSEC)

/* The only task of the group waited for @wait, which is some and full. */
static bool wait_is(const struct view *view, enum group g, __u64 wait)
{
	return stall_is(view, g, RES_CPU, wait, wait, RUN_SLACK);
}

/*
 * Two tasks share the CPU: while one runs the other waits, so some is @waits,
 * the sum of their waits. Full is the time in which both wait because @others,
 * tasks outside of the group, run.
 */
static bool union_is(const struct view *view, enum group g, double waits, __u64 others)
{
	const struct pressure *p = &view->p[g];
	bool right;

	right = value_is("some", g, RES_CPU, waits - RUN_SLACK - others, waits + RUN_SLACK,
			 p->some[RES_CPU]);
	return value_is("full", g, RES_CPU, 0, others + RUN_SLACK, p->full[RES_CPU]) && right;
}

FIXTURE(tree) {
	struct timetable t;
};

FIXTURE_SETUP(tree)
{
	task_delays_on();
	timetable_set_up(&self->t);
}

FIXTURE_TEARDOWN(tree)
{
	timetable_tear_down(&self->t);
}

/* ---- cpu: tasks that wait for each other ---- */

/**
 * struct worker - a task that shares the CPU, and what its clock measured
 * @group: its cgroup
 * @run: it runs for this long, by the clock
 * @sleep: then sleeps for this long; zero: it runs all the time
 * @span: when it does that
 * @pid: the task
 * @clock: growth of its clock in that time
 */
struct worker {
	enum group group;
	__u64 run;
	__u64 sleep;
	struct span span;
	pid_t pid;
	struct task_clock clock;
};

static void work(void *arg)
{
	const struct worker *worker = arg;

	sleep_until(worker->span.begin);
	while (now_ns() < worker->span.end) {
		__u64 end = now_ns() + worker->run;

		spin_until(worker->sleep && end < worker->span.end ? end : worker->span.end);
		if (worker->sleep)
			sleep_for(worker->sleep);
	}
	sleep_forever();
}

/*
 * Lets the workers run for ten seconds; the view keeps what others ran and
 * waited.
 */
static void run_workers(struct timetable *t, struct worker *workers, int nr)
{
	struct task_clock now;

	for (int i = 0; i < nr; i++) {
		workers[i].span.begin = t->begin;
		workers[i].span.end = t->begin + 10 * SEC;
		workers[i].pid = load_in(workers[i].group, work, &workers[i]);
	}
	timetable_begin(t);
	for (int i = 0; i < nr; i++)
		task_clock_read(workers[i].pid, &workers[i].clock);
	timetable_end(t, t->begin + 10 * SEC);
	for (int i = 0; i < nr; i++) {
		task_clock_read(workers[i].pid, &now);
		workers[i].clock.run = now.run + now.irq - workers[i].clock.run -
				       workers[i].clock.irq;
		workers[i].clock.wait = now.wait - workers[i].clock.wait;
		t->view.cpu.run -= workers[i].clock.run;
		t->view.cpu.wait -= workers[i].clock.wait;
	}
	ksft_print_msg("others ran %.6f s and waited %.6f s\n", t->view.cpu.run / 1e9,
		       t->view.cpu.wait / 1e9);
}

TEST_F(tree, task_that_waits_for_a_stranger_is_a_full_stall_of_its_cgroup)
{
	struct worker w[] = { { .group = AXD }, { .group = B } };
	const struct view *view = &self->t.view;

	run_workers(&self->t, w, 2);
	ASSERT_LT(4 * SEC, w[0].clock.wait);
	EXPECT_TRUE(wait_is(view, AXD, w[0].clock.wait));
	EXPECT_TRUE(wait_is(view, AX, w[0].clock.wait));
	EXPECT_TRUE(wait_is(view, A, w[0].clock.wait));
	EXPECT_TRUE(nothing_in(view, AY));
	EXPECT_TRUE(wait_is(view, B, w[1].clock.wait));
	EXPECT_TRUE(union_is(view, TOP, w[0].clock.wait + w[1].clock.wait, view->cpu.run));
	EXPECT_TRUE(root_is_system(view));
	EXPECT_TRUE(tree_is_quiet());
}

/*
 * The same load. A test of its own, because the work for a trigger adds to the
 * waits that the test above compares.
 */
TEST_F(tree, task_that_waits_for_a_stranger_fires_a_trigger_of_its_cgroup)
{
	struct worker w[] = { { .group = AXD }, { .group = B } };
	int in = trigger_arm(CGROUP_ROOT "/psi_tree/a/x/d/cpu.pressure", "full 300000 1000000");
	int above = trigger_arm(CGROUP_ROOT "/psi_tree/cpu.pressure", "full 300000 1000000");

	run_workers(&self->t, w, 2);
	/* So some second had at least 0.4 s of it. */
	ASSERT_LT(4 * SEC, w[0].clock.wait);
	EXPECT_TRUE(trigger_fired(in, 0));
	EXPECT_FALSE(trigger_fired(above, 0));
	close(in);
	close(above);
	EXPECT_TRUE(tree_is_quiet());
}

TEST_F(tree, siblings_that_wait_for_each_other_are_a_some_stall_of_their_parent)
{
	struct worker w[] = { { .group = AX }, { .group = AY } };
	const struct view *view = &self->t.view;

	run_workers(&self->t, w, 2);
	EXPECT_TRUE(wait_is(view, AX, w[0].clock.wait));
	EXPECT_TRUE(wait_is(view, AY, w[1].clock.wait));
	EXPECT_TRUE(nothing_in(view, AXD));
	EXPECT_TRUE(union_is(view, A, w[0].clock.wait + w[1].clock.wait, view->cpu.run));
	EXPECT_TRUE(union_is(view, TOP, w[0].clock.wait + w[1].clock.wait, view->cpu.run));
	EXPECT_TRUE(root_is_system(view));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_F(tree, waits_of_a_cgroup_and_of_one_below_add_up_in_the_upper)
{
	struct worker w[] = { { .group = A }, { .group = AXD } };
	const struct view *view = &self->t.view;

	run_workers(&self->t, w, 2);
	EXPECT_TRUE(wait_is(view, AXD, w[1].clock.wait));
	EXPECT_TRUE(wait_is(view, AX, w[1].clock.wait));
	EXPECT_TRUE(union_is(view, A, w[0].clock.wait + w[1].clock.wait, view->cpu.run));
	EXPECT_TRUE(tree_is_quiet());
}

/*
 * Of the two tasks in x one always waits; both wait while the task in y runs.
 */
TEST_F(tree, two_tasks_beside_a_stranger_are_a_full_stall_while_it_runs)
{
	struct worker w[] = { { .group = AX }, { .group = AX }, { .group = AY } };
	const struct view *view = &self->t.view;

	run_workers(&self->t, w, 3);
	ASSERT_LT(2 * SEC, w[2].clock.run);
	EXPECT_TRUE(stall_is(view, AX, RES_CPU, 10 * SEC,
			     10 * SEC - w[0].clock.run - w[1].clock.run, RUN_SLACK));
	EXPECT_TRUE(wait_is(view, AY, w[2].clock.wait));
	EXPECT_TRUE(stall_is(view, A, RES_CPU, 10 * SEC, 0, RUN_SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_F(tree, waits_of_siblings_that_sometimes_compete_add_up_in_their_parent)
{
	struct worker w[] = {
		{ .group = AX, .run = 85 * MSEC, .sleep = 65 * MSEC },
		{ .group = AY, .run = 55 * MSEC, .sleep = 35 * MSEC },
	};
	const struct view *view = &self->t.view;

	run_workers(&self->t, w, 2);
	ASSERT_LT(SEC, w[0].clock.wait);
	EXPECT_TRUE(wait_is(view, AX, w[0].clock.wait));
	EXPECT_TRUE(wait_is(view, AY, w[1].clock.wait));
	EXPECT_TRUE(union_is(view, A, w[0].clock.wait + w[1].clock.wait, view->cpu.run));
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- io ---- */

TEST_F(tree, io_beside_a_sibling_that_runs_is_full_of_its_own_cgroup_only)
{
	struct sleeper *sleeper = shared_memory(sizeof(*sleeper));
	struct span *span = &sleeper->span;
	const struct view *view = &self->t.view;
	__u64 awake, asleep;
	double slack;
	pid_t pid;

	timetable_disk(&self->t, 10 * MSEC);
	*span = (struct span){ self->t.begin, self->t.begin + 10 * SEC };
	sleeper->node = self->t.disk.node;
	pid = load_in(AXD, read_span, sleeper);
	load_in(AY, spin_span, span);
	timetable_begin(&self->t);
	awake = task_awake_ns(pid);
	timetable_end(&self->t, span->end);
	asleep = sleeper_asleep_ns(sleeper, pid, awake);
	ASSERT_LT(SEC, asleep);
	slack = IO_SLACK;
	for (enum group g = AX; g <= AXD; g++)
		EXPECT_TRUE(stall_is(view, g, RES_IO, asleep, asleep, slack));
	EXPECT_TRUE(stall_is(view, A, RES_IO, asleep, 0, slack));
	EXPECT_TRUE(stall_is(view, TOP, RES_IO, asleep, 0, slack));
	EXPECT_TRUE(stall_is(view, SYSTEM, RES_IO, asleep, 0, slack));
	EXPECT_TRUE(stall_is(view, AY, RES_IO, 0, 0, 0));
	EXPECT_TRUE(stall_is(view, B, RES_IO, 0, 0, 0));
	EXPECT_TRUE(root_is_system(view));
	EXPECT_TRUE(tree_is_quiet());
}

/*
 *     x   |reads for 6 s            |
 *     y                  |reads for 6 s            |
 *     a   |########################################|
 */
TEST_F(tree, io_of_siblings_is_counted_once_by_their_parent)
{
	struct sleeper *s = shared_memory(2 * sizeof(*s));
	const struct view *view = &self->t.view;
	double slack = IO_SLACK;
	__u64 awake[2], asleep[2];
	pid_t pid[2];

	timetable_disk(&self->t, 10 * MSEC);
	for (int i = 0; i < 2; i++) {
		s[i].node = self->t.disk.node;
		s[i].span.begin = self->t.begin + i * 4 * SEC;
		s[i].span.end = s[i].span.begin + 6 * SEC;
		pid[i] = load_in(i ? AY : AX, read_span, &s[i]);
	}
	timetable_begin(&self->t);
	for (int i = 0; i < 2; i++)
		awake[i] = task_awake_ns(pid[i]);
	timetable_end(&self->t, s[1].span.end);
	for (int i = 0; i < 2; i++)
		asleep[i] = sleeper_asleep_ns(&s[i], pid[i], awake[i]);
	EXPECT_TRUE(stall_is(view, AX, RES_IO, asleep[0], asleep[0], slack));
	EXPECT_TRUE(stall_is(view, AY, RES_IO, asleep[1], asleep[1], slack));
	EXPECT_TRUE(value_is("some", A, RES_IO, asleep[0] + asleep[1] - 2 * SEC - slack,
			     10 * SEC + slack, view->p[A].some[RES_IO]));
	EXPECT_LE(view->p[A].full[RES_IO], view->p[A].some[RES_IO]);
	EXPECT_TRUE(stall_is(view, TOP, RES_IO, view->p[A].some[RES_IO], view->p[A].full[RES_IO],
			     NSEC_PER_USEC));
	EXPECT_TRUE(root_is_system(view));
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- memory ---- */

TEST_F(tree, task_throttled_beside_a_sibling_that_runs_is_full_of_its_own_cgroup_only)
{
	const struct view *view = &self->t.view;
	struct span span = { self->t.begin, self->t.begin + 8 * SEC };
	struct throttled *task;
	__u64 elapsed, awake;
	pid_t pid;

	task = start_throttled(&self->t, AX, &pid);
	load_in(AY, spin_span, &span);
	timetable_begin(&self->t);
	timetable_end(&self->t, span.end);
	ASSERT_LT(0, task->stall_end);
	elapsed = task->stall_end - self->t.begin;
	awake = task_awake_ns(pid);
	ksft_print_msg("throttled for %.6f s, of which awake %.6f s\n", elapsed / 1e9, awake / 1e9);
	EXPECT_TRUE(throttled_is(view, AX, elapsed, awake));
	for (enum group g = TOP; g <= A; g++) {
		EXPECT_TRUE(value_is("some", g, RES_MEMORY, elapsed - awake - SLACK,
				     elapsed + SLACK, view->p[g].some[RES_MEMORY]));
		EXPECT_TRUE(value_is("full", g, RES_MEMORY, 0, awake, view->p[g].full[RES_MEMORY]));
	}
	EXPECT_TRUE(stall_is(view, AY, RES_MEMORY, 0, 0, 0));
	EXPECT_TRUE(root_is_system(view));
	EXPECT_TRUE(tree_is_quiet());
}

static __u64 memory_delays(pid_t pid)
{
	struct task_clock tc;

	task_clock_read(pid, &tc);
	return tc.reclaim + tc.thrash;
}

TEST_F_TIMEOUT(tree, working_set_that_does_not_fit_is_pressure_of_its_cgroup, 120)
{
	const struct view *view = &self->t.view;
	struct thrasher t;
	double delays, run;
	pid_t pid;

	timetable_disk(&self->t, 2 * MSEC);
	tree_controllers("+memory");
	cgroup_write(tree_path[AX], "memory.max", "4194304");
	t = (struct thrasher){ self->t.disk.node, { self->t.begin, self->t.begin + 20 * SEC } };
	pid = load_in(AX, thrash, &t);
	timetable_begin(&self->t);
	timetable_end(&self->t, t.span.end);
	delays = memory_delays(pid);
	run = task_awake_ns(pid);
	ASSERT_LT(SEC, delays);
	/* The stall section includes submitting the read, which is no delay. */
	for (enum group g = TOP; g <= AX; g++) {
		EXPECT_TRUE(value_is("some", g, RES_MEMORY, delays * 0.99, delays * 1.01 + run,
				     view->p[g].some[RES_MEMORY]));
		EXPECT_TRUE(value_is("full", g, RES_MEMORY, delays * 0.98, delays * 1.01 + run,
				     view->p[g].full[RES_MEMORY]));
	}
	EXPECT_TRUE(nothing_in(view, AY));
	EXPECT_TRUE(nothing_in(view, B));
	EXPECT_TRUE(root_is_system(view));
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- irq ---- */

static __u64 irq_full(enum group g)
{
	struct psi psi;

	cgroup_psi_read(tree_path[g], "irq.pressure", &psi);
	return psi.full.total * NSEC_PER_USEC;
}

static __u64 task_irq_ns(pid_t pid)
{
	struct task_clock tc;

	task_clock_read(pid, &tc);
	return tc.irq;
}

/* The tick takes 5 % of virtual time and hits the task that runs. */
TEST_F(tree, interrupts_are_pressure_of_the_cgroup_whose_task_they_hit)
{
	static const enum group where[] = { AX, AY };
	__u64 irq[NR_MADE], task[2];
	struct span span[2];
	pid_t pid[2];

	if (!psi_irq_accounted())
		SKIP(return, "interrupt time is not accounted on this machine");
	for (int i = 0; i < 2; i++) {
		span[i].begin = self->t.begin + i * 5 * SEC;
		span[i].end = span[i].begin + 3 * SEC + i * SEC;
		pid[i] = load_in(where[i], spin_span, &span[i]);
	}
	timetable_begin(&self->t);
	for (int i = 0; i < NR_MADE; i++)
		irq[i] = irq_full(i);
	for (int i = 0; i < 2; i++)
		task[i] = task_irq_ns(pid[i]);
	timetable_end(&self->t, span[1].end);
	for (int i = 0; i < 2; i++)
		task[i] = task_irq_ns(pid[i]) - task[i];
	for (int i = 0; i < NR_MADE; i++)
		irq[i] = irq_full(i) - irq[i];
	ksft_print_msg("irq full: x %.6f y %.6f a %.6f s, by the tasks %.6f %.6f s\n",
		       irq[AX] / 1e9, irq[AY] / 1e9, irq[A] / 1e9, task[0] / 1e9, task[1] / 1e9);
	ASSERT_LT(10 * MSEC, task[0]);
	EXPECT_GE(task[0] * 0.01 + 2 * MSEC, fabs((double)irq[AX] - task[0]));
	EXPECT_GE(task[1] * 0.01 + 2 * MSEC, fabs((double)irq[AY] - task[1]));
	EXPECT_GE(4 * NSEC_PER_USEC, fabs((double)irq[A] - irq[AX] - irq[AY]));
	EXPECT_GE(4 * NSEC_PER_USEC, fabs((double)irq[TOP] - irq[A]));
	EXPECT_EQ(0, irq[AXD]);
	EXPECT_EQ(0, irq[B]);
}

/* ---- New cgroups, idle ones, removed ones ---- */

static const char * const three_files[] = { "cpu.pressure", "memory.pressure", "io.pressure" };

static void expect_fresh(struct __test_metadata *_metadata, const char *path)
{
	static const struct psi_line zero = { .present = true };

	for (size_t i = 0; i < ARRAY_SIZE(three_files); i++) {
		struct psi psi;

		cgroup_psi_read(path, three_files[i], &psi);
		EXPECT_EQ(0, memcmp(&psi.some, &zero, sizeof(zero)));
		EXPECT_EQ(0, memcmp(&psi.full, &zero, sizeof(zero)));
	}
}

TEST_F(tree, new_cgroup_starts_from_zero_beside_a_load)
{
	struct span span = { self->t.begin, self->t.begin + 6 * SEC };
	char path[64];

	load_in(AX, spin_span, &span);
	load_in(AX, spin_span, &span);
	load_in(AY, spin_span, &span);
	timetable_begin(&self->t);
	for (int i = 0; i < 20; i++) {
		sleep_until(span.begin + (i + 1) * 250 * MSEC);
		snprintf(path, sizeof(path), "%s/new%d", tree_path[i % 2 ? A : B], i);
		cgroup_create(path, "");
		expect_fresh(_metadata, path);
	}
	timetable_end(&self->t, span.end);
	expect_fresh(_metadata, path);
	expect_fresh(_metadata, tree_path[B]);
}

/*
 * A stall after a minute of idleness: at no moment does the total exceed the
 * stall so far, and no average contains more than one sample of it.
 */
TEST_F_TIMEOUT(tree, total_of_an_idle_cgroup_starts_to_grow_with_its_first_stall, 120)
{
	struct span starve, victim;
	double sample, total;
	struct psi psi;

	self->t.begin += 60 * SEC;
	starve = (struct span){ self->t.begin, self->t.begin + 500 * MSEC };
	victim = (struct span){ self->t.begin + MSEC, self->t.begin + 501 * MSEC };
	start_hog(&starve);
	load_in(AXD, spin_span, &victim);
	timetable_begin(&self->t);
	for (int i = 0; i < 60; i++) {
		sleep_until(self->t.begin + i * 10 * MSEC);
		cgroup_psi_read(tree_path[AXD], "cpu.pressure", &psi);
		total = psi.some.total * 1e3 - self->t.view.p[AXD].some[RES_CPU];
		EXPECT_GE(now_ns() - self->t.begin, total);
		EXPECT_LE(i < 50 ? i * 10 * MSEC : 500 * MSEC, total + SLACK);
	}
	timetable_end(&self->t, victim.end);
	EXPECT_TRUE(stall_is(&self->t.view, AXD, RES_CPU, 500 * MSEC, 500 * MSEC, SLACK));
	sleep_for(2 * SEC);
	cgroup_psi_read(tree_path[AXD], "cpu.pressure", &psi);
	sample = 100 * 0.5 / 2;
	EXPECT_GE(sample * (1 - exp(-2.0 / 10)) + 0.1, psi.some.avg[AVG10] / 100.0);
	EXPECT_GE(sample * (1 - exp(-2.0 / 60)) + 0.1, psi.some.avg[AVG60] / 100.0);
	EXPECT_TRUE(tree_is_quiet());
}

TEST_F(tree, stall_of_a_cgroup_that_is_removed_stays_in_its_parent)
{
	struct span starve = { self->t.begin, self->t.begin + 500 * MSEC };
	struct view *view = &self->t.view;
	struct pressure before;
	__u64 asked, most;

	start_hog(&starve);
	load_in(AXD, spin_span, &starve);
	timetable_begin(&self->t);
	timetable_end(&self->t, starve.end);
	EXPECT_TRUE(stall_is(view, AXD, RES_CPU, 500 * MSEC, 500 * MSEC, SLACK));
	EXPECT_TRUE(stall_is(view, AX, RES_CPU, 500 * MSEC, 500 * MSEC, SLACK));
	pressure_read(tree_path[AX], &before);
	asked = now_ns();
	cgroup_remove(tree_path[AXD]);
	most = now_ns() - asked;
	EXPECT_GE(250 * MSEC, most);
	cgroup_create(tree_path[AXD], "");
	expect_fresh(_metadata, tree_path[AXD]);
	/* A task that is killed waits for the CPU again, until it has died. */
	view->p[AX] = pressure_since(tree_path[AX], &before);
	EXPECT_TRUE(stall_is(view, AX, RES_CPU, most / 2, most / 2, most / 2));
}

/*
 * 10 ms every 2.8 s are nearly 0.357 %. Seven samples of 2 s hold five such
 * stalls, so the mean of seven readings is the pressure. After 480 s, 0.0003 of
 * the distance from the start value are left.
 */
#define STALL_PERIOD		(2800 * MSEC)
#define STALL		(10 * MSEC)

static void stall_periodically(void *arg)
{
	prctl(PR_SET_TIMERSLACK, 1);
	for (__u64 next = *(__u64 *)arg;; next += STALL_PERIOD) {
		sleep_until(next);
		spin_until(next + STALL);
	}
}

TEST_F_TIMEOUT(tree, mostly_idle_cgroup_has_an_exact_average, 1000)
{
	__u64 begin = self->t.begin + SEC;
	const struct load stranger = { .policy = SCHED_FIFO, .prio = 20, .cgroup = STRANGER,
				       .fn = stall_periodically, .arg = &begin };
	const struct view *view = &self->t.view;
	double mean = 0, total, oracle;
	struct psi psi;
	pid_t pid;

	pid = load_in(AXD, stall_periodically, &begin);
	load_start(&stranger);
	timetable_begin(&self->t);
	oracle = task_wait_ns(pid);
	sleep_until(begin + 46 * SEC);
	cgroup_psi_read(tree_path[AXD], "cpu.pressure", &psi);
	report_row("mostly idle cgroup, true 0.357 %: avg60 after 46 s (ideal 0.19)", "%.2f",
		   psi.some.avg[AVG60] / 100.0);
	/*
	 * Whether a sample has the last stall changes the average by 0.5 % of a
	 * sample.
	 */
	EXPECT_GE(0.02 + 0.017, fabs(psi.some.avg[AVG60] / 100.0 - 0.19));
	sleep_until(begin + 480 * SEC);
	for (int i = 0; i < 7; i++) {
		cgroup_psi_read(tree_path[AXD], "cpu.pressure", &psi);
		mean += psi.some.avg[AVG60] / 700.0;
		sleep_for(2 * SEC);
	}
	timetable_end(&self->t, now_ns());
	total = 100.0 * view->p[AXD].some[RES_CPU] / (now_ns() - begin);
	oracle = 100.0 * (task_wait_ns(pid) - oracle) / (now_ns() - begin);
	ksft_print_msg("true %.4f %%, total %.4f %%\n", oracle, total);
	report_row("mostly idle cgroup, true 0.357 %: avg60", "%.2f", mean);
	EXPECT_GE(0.03, fabs(oracle - 0.357));
	EXPECT_GE(0.005, fabs(total - oracle));
	EXPECT_GE(0.02, fabs(mean - oracle));
}

/*
 * Twenty cgroups had a stall, and each has a task that sleeps. Updating their
 * averages all the time would cost 600 wake-ups a minute. While nothing stalls,
 * there are none.
 */
TEST_F_TIMEOUT(tree, averages_of_idle_cgroups_cost_nothing_and_go_on, 4000)
{
	struct span span = { self->t.begin, self->t.begin + 3 * SEC };
	struct load load = { .fn = spin_span, .arg = &span };
	char path[20][64];
	__u64 switches;
	struct psi psi;

	for (int i = 0; i < 20; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/idle%d", tree_path[i % 2 ? AX : B], i);
		cgroup_create(path[i], "");
		load.cgroup = path[i];
		load_start(&load);
	}
	timetable_begin(&self->t);
	timetable_end(&self->t, span.end + 12 * SEC);
	switches = file_number("/proc/stat", "\nctxt");
	sleep_for(60 * SEC);
	switches = file_number("/proc/stat", "\nctxt") - switches;
	report_row("20 idle cgroups: context switches in 60 s", "%llu",
		   (unsigned long long)switches);
	EXPECT_GE(60, switches);
	for (int i = 0; i < 20; i++) {
		cgroup_psi_read(path[i], "cpu.pressure", &psi);
		EXPECT_GE(15, psi.some.avg[AVG10]);
		EXPECT_LE(20, psi.some.avg[AVG60]);
		EXPECT_GE(200, psi.some.avg[AVG60]);
	}
	sleep_for(2400 * SEC);
	for (int i = 0; i < 20; i++) {
		cgroup_psi_read(path[i], "cpu.pressure", &psi);
		for (int j = 0; j < NR_AVGS; j++)
			EXPECT_EQ(0, psi.some.avg[j]);
	}
	/* The next stall starts the updates again. */
	span = (struct span){ now_ns() + SEC, now_ns() + 6 * SEC };
	load.cgroup = path[0];
	load_start(&load);
	load.cgroup = path[1];
	load_start(&load);
	sleep_until(span.end);
	cgroup_psi_read(path[0], "cpu.pressure", &psi);
	EXPECT_LE(900, psi.some.avg[AVG10]);
	EXPECT_GE(3000, psi.some.avg[AVG10]);
}

TEST_HARNESS_MAIN
