// SPDX-License-Identifier: GPL-2.0
/*
 * Threads, and tasks that move between cgroups again and again
 *
 * Invariant: a task that moves takes all its states along at that moment, and
 * so does each thread of a process. A task is born where it is forked into.
 *
 * Bugs it would find: a thread that stays behind when its process moves; a task
 * forked into a cgroup that is not its parent's; a move that loses time.
 *
 * Everything runs on one CPU by a timetable, as in cgroup_move_test.
 *
 * Tolerance: SLACK, for a wake-up that is late. Where a task moves hundreds of
 * times, its own clocks say how long it stalled: MOVE_SLACK for each move.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_tree.h"
#include "psi_work.h"

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

/* What PSI's own threads ran so far: nobody counts as waiting for them. */
static __u64 psi_threads_busy_ns(void)
{
	pid_t pids[16];
	__u64 sum = 0;

	for (int nr = kernel_threads("psi*", pids, 16); nr; nr--)
		sum += task_busy_ns(pids[nr - 1]);
	return sum;
}

/* Readings are rounded to 1 us, and waits are counted by two clocks. */
#define FORK_SLACK	(20 * NSEC_PER_USEC)

/**
 * struct forker - a load that forks into another cgroup
 * @at: when
 * @into: the cgroup of the child
 * @span: when the child runs
 * @child: the child
 */
struct forker {
	__u64 at;
	const char *into;
	struct span span;
	pid_t child;
};

static void fork_into(void *arg)
{
	struct forker *forker = arg;
	pid_t pid;

	sleep_until(forker->at);
	pid = cgroup_fork(forker->into);
	if (pid < 0)
		psi_die("clone3: %s", strerror(errno));
	if (!pid)
		spin_span(&forker->span);
	forker->child = pid;
	sleep_forever();
}

/*
 * Besides the hog, the child waits until its parent is done with the fork, or
 * the parent until the child sleeps: a fork takes milliseconds in virtual time.
 */
TEST_F(tree, task_forked_into_another_cgroup_counts_there_only)
{
	struct span starve = { self->t.begin + 100 * MSEC, self->t.begin + 900 * MSEC };
	struct forker *forker = shared_memory(sizeof(*forker));
	const struct view *view = &self->t.view;
	double child, parent, own;
	pid_t pid;

	forker->at = self->t.begin;
	forker->into = tree_path[B];
	forker->span = (struct span){ self->t.begin + 50 * MSEC, self->t.begin + 901 * MSEC };
	start_hog(&starve);
	pid = load_in(AXD, fork_into, forker);
	timetable_begin(&self->t);
	own = psi_threads_busy_ns();
	parent = task_wait_ns(pid);
	timetable_end(&self->t, starve.end);
	parent = task_wait_ns(pid) - parent;
	child = task_wait_ns(forker->child);
	own = psi_threads_busy_ns() - own + FORK_SLACK;
	ksft_print_msg("the child waited %.6f s, its parent %.6f s\n", child / 1e9, parent / 1e9);
	EXPECT_LE(800 * MSEC - SLACK, child);
	EXPECT_TRUE(value_is("some", B, RES_CPU, child - own, child + FORK_SLACK,
			     view->p[B].some[RES_CPU]));
	EXPECT_TRUE(value_is("full", B, RES_CPU, child - own, child + FORK_SLACK,
			     view->p[B].full[RES_CPU]));
	EXPECT_TRUE(value_is("some", A, RES_CPU, parent - own, parent + FORK_SLACK,
			     view->p[A].some[RES_CPU]));
	EXPECT_TRUE(value_is("some", TOP, RES_CPU, child - own, child + parent + FORK_SLACK,
			     view->p[TOP].some[RES_CPU]));
	/* One of both runs while the other waits for it. */
	EXPECT_TRUE(value_is("full", TOP, RES_CPU, 800 * MSEC - SLACK, 800 * MSEC + SLACK,
			     view->p[TOP].full[RES_CPU]));
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- Many moves of one task ---- */

/*
 * Leaf and ancestor are read one after the other, and rounded to 1 us. In the
 * ancestor a move changes nothing, but it takes the time of the task.
 */
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

/*
 * A task that is preempted while it falls asleep waits for the CPU, but its
 * clock does not say so. From clock_nanosleep() this happens now and then: the
 * task is as good as asleep when it starts the timer.
 */
static void run_and_nap(void *arg)
{
	const struct itimerspec nap = { .it_value.tv_nsec = 3 * MSEC };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	const struct span *span = arg;
	__u64 expired;

	if (fd < 0)
		psi_die("timerfd_create");
	sleep_until(span->begin);
	while (now_ns() < span->end) {
		spin_until(now_ns() + 7 * MSEC);
		if (timerfd_settime(fd, 0, &nap, NULL) ||
		    read(fd, &expired, sizeof(expired)) != sizeof(expired))
			psi_die("timerfd");
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
	slack = moves * MOVE_SLACK;
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
