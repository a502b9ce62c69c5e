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
 * behind, or goes below zero; a task forked into a cgroup that is not its
 * parent's.
 *
 * Everything runs on one CPU by a timetable, which fixes when each stall begins
 * and ends.
 *
 * Tolerance: SLACK, for a wake-up that is late. Where a task moves hundreds of
 * times, its own clocks say how long it stalled: MOVE for each move.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

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
	awake = task_awake_ns(pid);
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

/* ---- Threads ---- */

/**
 * struct threads - a process with a thread that reads and one that runs
 * @sleeper: the work of the reader
 * @victim: the work of the runner
 * @reader: id of the reader
 */
struct threads {
	struct sleeper sleeper;
	struct span victim;
	pid_t reader;
};

static void *reader_thread(void *arg)
{
	struct threads *threads = arg;

	threads->reader = gettid();
	read_span(&threads->sleeper);
	return NULL;
}

static void *runner_thread(void *arg)
{
	struct threads *threads = arg;

	spin_span(&threads->victim);
	return NULL;
}

static void run_threads(void *arg)
{
	pthread_t thread[2];

	if (pthread_create(&thread[0], NULL, reader_thread, arg) ||
	    pthread_create(&thread[1], NULL, runner_thread, arg))
		psi_die("pthread_create failed");
	sleep_forever();
}

/*
 * The reader sleeps in io for 500 ms and the runner waits for the hog for 800
 * ms. Returns 200 ms after the sleep began.
 */
static struct threads *make_threads(struct timetable *t, struct span *starve, pid_t *pid)
{
	struct threads *threads = shared_memory(sizeof(*threads));

	timetable_disk(t, 500 * MSEC);
	threads->sleeper.node = t->disk.node;
	threads->sleeper.span = (struct span){ t->begin, t->begin + MSEC };
	threads->victim = (struct span){ t->begin + 20 * MSEC, t->begin + 851 * MSEC };
	*starve = (struct span){ t->begin + 50 * MSEC, t->begin + 850 * MSEC };
	start_hog(starve);
	*pid = load_in(AX, run_threads, threads);
	timetable_begin(t);
	sleep_until(t->begin + 200 * MSEC);
	return threads;
}

TEST_F(tree, process_that_moves_takes_the_states_of_all_its_threads_along)
{
	const struct view *view = &self->t.view;
	struct threads *threads;
	struct span starve;
	double begin, moved;
	pid_t pid;

	threads = make_threads(&self->t, &starve, &pid);
	cgroup_move(tree_path[B], pid);
	moved = now_ns();
	timetable_end(&self->t, starve.end);
	begin = threads->sleeper.span.begin;
	EXPECT_TRUE(stall_is(view, AX, RES_CPU, moved - starve.begin, moved - starve.begin, SLACK));
	EXPECT_TRUE(stall_is(view, B, RES_CPU, starve.end - moved, starve.end - moved, SLACK));
	/* After the first 20 ms, the runner is always runnable. */
	EXPECT_TRUE(stall_is(view, AX, RES_IO, moved - begin, 20 * MSEC, SLACK));
	EXPECT_TRUE(stall_is(view, B, RES_IO, begin + 500 * MSEC - moved, 0, SLACK));
	EXPECT_TRUE(stall_is(view, TOP, RES_IO, 500 * MSEC, 20 * MSEC, SLACK));
	EXPECT_TRUE(stall_is(view, TOP, RES_CPU, 800 * MSEC, 800 * MSEC, SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_F(tree, thread_that_moves_takes_its_own_states_along)
{
	const struct view *view = &self->t.view;
	struct threads *threads;
	struct span starve;
	double begin, moved;
	char text[16];
	pid_t pid;

	ASSERT_EQ(0, rmdir(tree_path[AXD]));
	cgroup_write(tree_path[AX], "cgroup.type", "threaded");
	cgroup_write(tree_path[AY], "cgroup.type", "threaded");
	cgroup_create(tree_path[AXD], "");
	threads = make_threads(&self->t, &starve, &pid);
	snprintf(text, sizeof(text), "%d", threads->reader);
	cgroup_write(tree_path[AY], "cgroup.threads", text);
	moved = now_ns();
	timetable_end(&self->t, starve.end);
	begin = threads->sleeper.span.begin;
	EXPECT_TRUE(stall_is(view, AX, RES_CPU, 800 * MSEC, 800 * MSEC, SLACK));
	EXPECT_TRUE(stall_is(view, AX, RES_IO, moved - begin, 20 * MSEC, SLACK));
	EXPECT_TRUE(stall_is(view, AY, RES_IO, begin + 500 * MSEC - moved,
			     begin + 500 * MSEC - moved, SLACK));
	EXPECT_TRUE(stall_is(view, A, RES_IO, 500 * MSEC, 20 * MSEC, SLACK));
	EXPECT_TRUE(stall_is(view, A, RES_CPU, 800 * MSEC, 800 * MSEC, SLACK));
	/* When its read is complete, the reader waits for the hog. */
	EXPECT_TRUE(stall_is(view, AY, RES_CPU, starve.end - begin - 500 * MSEC,
			     starve.end - begin - 500 * MSEC, SLACK));
	EXPECT_TRUE(nothing_in(view, B));
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- Birth and death ---- */

/**
 * struct forker - a load that forks into another cgroup
 * @at: when
 * @into: the cgroup of the child
 * @span: when the child runs
 */
struct forker {
	__u64 at;
	const char *into;
	struct span span;
};

static void fork_into(void *arg)
{
	const struct forker *forker = arg;

	pid_t pid;

	sleep_until(forker->at);
	pid = cgroup_fork(forker->into);
	if (pid < 0)
		psi_die("clone3: %s", strerror(errno));
	if (!pid)
		spin_span((void *)&forker->span);
	sleep_forever();
}

TEST_F(tree, task_forked_into_another_cgroup_counts_there_only)
{
	struct span starve = { self->t.begin + 100 * MSEC, self->t.begin + 900 * MSEC };
	const struct view *view = &self->t.view;
	struct forker forker = {
		.at = self->t.begin,
		.into = tree_path[B],
		.span = { self->t.begin + 50 * MSEC, self->t.begin + 901 * MSEC },
	};

	start_hog(&starve);
	load_in(AXD, fork_into, &forker);
	timetable_begin(&self->t);
	timetable_end(&self->t, starve.end);
	EXPECT_TRUE(stall_is(view, B, RES_CPU, 800 * MSEC, 800 * MSEC, SLACK));
	EXPECT_TRUE(stall_is(view, TOP, RES_CPU, 800 * MSEC, 800 * MSEC, SLACK));
	EXPECT_TRUE(stall_is(view, A, RES_CPU, 0, 0, SLACK));
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- Many moves of one task ---- */

/*
 * A move takes 4,000 instructions, in which the stall may be in neither cgroup.
 */
#define MOVE		(250 * NSEC_PER_USEC)
/* Leaf and ancestor are read one after the other, and rounded to 1 us. */
#define MOVE_SLACK	(20 * NSEC_PER_USEC)

FIXTURE(wanderer) {
	struct view view;
	struct slow_disk disk;
	struct sleeper *sleeper;
	struct thrasher thrasher;
	struct span span;
};

FIXTURE_VARIANT(wanderer) {
	enum psi_resource resource;
	bool naps;
};

FIXTURE_VARIANT_ADD(wanderer, that_waits_for_the_cpu) { .resource = RES_CPU };

/*
 * It has run for longer than its share when it sleeps: its dequeue is delayed.
 */
FIXTURE_VARIANT_ADD(wanderer, that_waits_for_the_cpu_and_sleeps) {
	.resource = RES_CPU,
	.naps = true,
};

FIXTURE_VARIANT_ADD(wanderer, that_reads) { .resource = RES_IO };
FIXTURE_VARIANT_ADD(wanderer, that_thrashes) { .resource = RES_MEMORY };

FIXTURE_SETUP(wanderer)
{
	cpus_use(1);
	task_delays_on();
	set_policy(0, SCHED_FIFO, 50);
	tree_make();
	tree_controllers("+memory");
	cgroup_write(tree_path[TOP], "memory.max", "4194304");
	slow_disk_create(&self->disk, "psi_state",
			 variant->resource == RES_MEMORY ? MSEC : 10 * MSEC, 64);
	self->span = (struct span){ now_ns() + SEC, now_ns() + 11 * SEC };
	self->sleeper = shared_memory(sizeof(*self->sleeper));
	*self->sleeper = (struct sleeper){ .node = self->disk.node, .span = self->span };
	self->thrasher = (struct thrasher){ .node = self->disk.node, .span = self->span };
}

FIXTURE_TEARDOWN(wanderer)
{
	tree_remove();
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

static void run_and_nap(void *arg)
{
	const struct span *span = arg;

	sleep_until(span->begin);
	while (now_ns() < span->end) {
		spin_until(now_ns() + 7 * MSEC);
		sleep_for(3 * MSEC);
	}
	sleep_forever();
}

static pid_t start_wanderer(FIXTURE_DATA(wanderer) * self, enum psi_resource r, bool naps)
{
	const struct load stranger = { .cgroup = STRANGER, .fn = spin_span,
				       .arg = &self->span };

	if (r == RES_IO)
		return load_in(AX, read_span, self->sleeper);
	if (r == RES_MEMORY)
		return load_in(AX, thrash, &self->thrasher);
	load_start(&stranger);
	return load_in(AX, naps ? run_and_nap : spin_span, &self->span);
}

/*
 * There is one task in the tree. So each of its stalls is in exactly one of the
 * leaves at a time, and all of them are in the common ancestor. The test moves
 * the task at odd intervals, whatever its state.
 */
TEST_F_TIMEOUT(wanderer, leaves_each_stall_in_one_place, 120)
{
	static const char * const resource[NR_RESOURCES] = { "cpu", "memory", "io" };
	static const enum group where[] = { AX, B, AXD, AY };
	const struct view *view = &self->view;
	struct pressure sum = {};
	struct task_clock tc, before;
	double oracle, slack;
	int moves = 0;
	pid_t pid;

	pid = start_wanderer(self, variant->resource, variant->naps);
	sleep_until(self->span.begin - 200 * MSEC);
	task_clock_read(pid, &before);
	view_begin(&self->view);
	for (; now_ns() < self->span.end - 50 * MSEC; moves++) {
		sleep_for((moves * 7919 % 47 + 1) * MSEC);
		cgroup_move(tree_path[where[moves % 4]], pid);
	}
	sleep_until(self->span.end + 200 * MSEC);
	task_clock_read(pid, &tc);
	view_end(&self->view);

	for (int r = 0; r < NR_RESOURCES; r++) {
		sum.some[r] = view->p[A].some[r] + view->p[B].some[r];
		sum.full[r] = view->p[A].full[r] + view->p[B].full[r];
		EXPECT_TRUE(stall_is(view, TOP, r, sum.some[r], sum.full[r], moves * MOVE_SLACK));
		sum.some[r] = view->p[AX].some[r] + view->p[AY].some[r];
		sum.full[r] = view->p[AX].full[r] + view->p[AY].full[r];
		EXPECT_TRUE(stall_is(view, A, r, sum.some[r], sum.full[r], moves * MOVE_SLACK));
	}
	slack = IO_SLACK + moves * MOVE;
	if (variant->resource == RES_CPU)
		oracle = tc.wait - before.wait;
	else if (variant->resource == RES_MEMORY)
		oracle = tc.reclaim + tc.thrash - before.reclaim - before.thrash;
	else
		oracle = sleeper_asleep_ns(self->sleeper, pid,
					   before.run + before.irq + before.wait);
	if (variant->resource == RES_MEMORY)
		slack = oracle * 0.01 + tc.run;
	ksft_print_msg("%d moves, %s some %.6f s, by the task's clocks %.6f s\n", moves,
		       resource[variant->resource],
		       view->p[TOP].some[variant->resource] / 1e9, oracle / 1e9);
	ASSERT_LT(SEC / 2, oracle);
	EXPECT_TRUE(value_is("some", TOP, variant->resource, oracle - slack, oracle + slack,
			     view->p[TOP].some[variant->resource]));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_HARNESS_MAIN
