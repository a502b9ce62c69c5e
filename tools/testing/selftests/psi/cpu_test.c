// SPDX-License-Identifier: GPL-2.0
/*
 * CPU pressure on one CPU: loads with a known answer
 *
 * Invariant: "some" is the share of time in which a runnable task is not
 * executed. One spinner makes 0 %, two or more make 100 %, and pressures never
 * add up. With two tasks on a CPU, one waits whenever both are runnable, so the
 * pressure is the sum of their waits, which schedstat has. A sleeping task does
 * not wait, even if its dequeue is delayed and the run queue still holds it.
 *
 * Bugs it would find: a task that is counted twice; a running task that counts
 * as waiting, also after a change that dequeues and enqueues it; a delayed
 * dequeue that leaves the task runnable, or dequeues it twice.
 *
 * Tolerance: beside the load, the kernel's own threads wait. Where no two tasks
 * wait at a time, the oracle includes their waits: it is the CPU's sum of all
 * waits. Where many tasks wait, the pressure is 100 % and nothing can be added.
 * 0.5 points remain for begin and end of the measurement.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "../kselftest_harness.h"
#include "psi_work.h"

#define MAX_SPINNERS	6
#define TOLERANCE	0.5

/**
 * struct share - parts of an interval, in percent
 * @some: growth of cpu some
 * @waits: waits of all tasks on CPU 0, by their clocks
 */
struct share {
	double some, waits;
};

static struct share measure(__u64 ns)
{
	struct cpu_clock before, after;
	__u64 start = now_ns(), total;

	cpu_clock_read(0, &before);
	total = psi_some_ns(PSI_CPU);
	sleep_for(ns);
	total = psi_some_ns(PSI_CPU) - total;
	cpu_clock_read(0, &after);
	ns = now_ns() - start;
	return (struct share){ 100.0 * total / ns, 100.0 * (after.wait - before.wait) / ns };
}

FIXTURE(spinners) {
	pid_t pid[MAX_SPINNERS];
};

FIXTURE_VARIANT(spinners) {
	int nr;
	double percent;
};

FIXTURE_VARIANT_ADD(spinners, none_make_no_pressure) { .nr = 0, .percent = 0 };
FIXTURE_VARIANT_ADD(spinners, one_alone_makes_no_pressure) { .nr = 1, .percent = 0 };
FIXTURE_VARIANT_ADD(spinners, two_make_100_percent) { .nr = 2, .percent = 100 };
FIXTURE_VARIANT_ADD(spinners, five_make_no_more_than_two) { .nr = 5, .percent = 100 };

FIXTURE_SETUP(spinners)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	for (int i = 0; i < variant->nr; i++)
		self->pid[i] = spin_idle_on(0);
}

FIXTURE_TEARDOWN(spinners)
{
	for (int i = 0; i < variant->nr; i++)
		load_stop(self->pid[i]);
	cpus_use(cpus_possible());
}

/*
 * A lone spinner waits whenever a kernel thread runs. So its own wait is how
 * far the pressure may be above zero.
 */
TEST_F(spinners, have_the_known_pressure)
{
	struct share share = measure(10 * NSEC_PER_SEC);
	double waits = variant->nr < 2 ? share.waits : 0;

	EXPECT_GE(TOLERANCE, fabs(share.some - variant->percent - waits)) {
		TH_LOG("cpu some %.3f %%, must be %.0f %%, and %.3f %% of kernel threads",
		       share.some, variant->percent, waits);
	}
	EXPECT_GE(5, waits);
}

/* ---- Two tasks that run and sleep ---- */

/**
 * struct cycle - a load that runs, then sleeps, again and again
 * @run: how long it runs, by the clock, in ns
 * @sleep: how long it sleeps, in ns
 */
struct cycle {
	__u64 run;
	__u64 sleep;
};

static void run_and_sleep(void *arg)
{
	struct cycle *cycle = arg;

	for (;;) {
		spin_until(now_ns() + cycle->run);
		sleep_for(cycle->sleep);
	}
}

/* Changes the nice value of another task, every 2 ms. */
static void renice_other(void *arg)
{
	pid_t *pid = arg;

	for (int i = 0;; i++) {
		if (setpriority(PRIO_PROCESS, *pid, i % 2))
			psi_die("setpriority: %s", strerror(errno));
		spin_until(now_ns() + 2 * NSEC_PER_MSEC);
	}
}

FIXTURE(pair) {
	struct cycle cycle[2];
	pid_t pid[2];
};

FIXTURE_VARIANT(pair) {
	struct cycle cycle[2];
	bool renice_other;
};

/*
 * The task has run for longer than its share when it sleeps: the scheduler
 * delays its dequeue.
 */
FIXTURE_VARIANT_ADD(pair, of_a_spinner_and_a_task_that_sleeps_now_and_then) {
	.cycle = { { 1000 * NSEC_PER_MSEC, 0 }, { 20 * NSEC_PER_MSEC, 30 * NSEC_PER_MSEC } },
};

/*
 * The same. The spinner changes the task's nice value, which dequeues and
 * enqueues the task while its dequeue is delayed.
 */
FIXTURE_VARIANT_ADD(pair, of_a_spinner_and_a_task_that_it_renices_while_that_sleeps) {
	.cycle = { { }, { 20 * NSEC_PER_MSEC, 30 * NSEC_PER_MSEC } },
	.renice_other = true,
};

FIXTURE_VARIANT_ADD(pair, of_a_spinner_and_a_task_that_runs_in_short_bursts) {
	.cycle = { { 1000 * NSEC_PER_MSEC, 0 }, { NSEC_PER_MSEC, 9 * NSEC_PER_MSEC } },
};

FIXTURE_VARIANT_ADD(pair, of_tasks_that_sometimes_compete) {
	.cycle = { { 7 * NSEC_PER_MSEC, 23 * NSEC_PER_MSEC },
		    { 11 * NSEC_PER_MSEC, 37 * NSEC_PER_MSEC } },
};

FIXTURE_VARIANT_ADD(pair, of_tasks_that_mostly_compete) {
	.cycle = { { 30 * NSEC_PER_MSEC, 7 * NSEC_PER_MSEC },
		    { 50 * NSEC_PER_MSEC, 3 * NSEC_PER_MSEC } },
};

FIXTURE_SETUP(pair)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	for (int i = 1; i >= 0; i--) {
		struct load load = { .fn = run_and_sleep, .arg = &self->cycle[i] };

		if (!i && variant->renice_other) {
			load.fn = renice_other;
			load.arg = &self->pid[1];
		}
		self->cycle[i] = variant->cycle[i];
		self->pid[i] = load_start(&load);
	}
}

FIXTURE_TEARDOWN(pair)
{
	load_stop(self->pid[0]);
	load_stop(self->pid[1]);
	cpus_use(cpus_possible());
}

/*
 * The waits of the two tasks are the lower bound. The waits of all tasks are
 * the upper bound: some kernel threads wait beside one of the two.
 */
TEST_F(pair, waits_for_as_long_as_both_are_runnable)
{
	struct cpu_clock before, after;
	__u64 start, total, wait;
	double percent, least, most;

	start = now_ns();
	wait = task_wait_ns(self->pid[0]) + task_wait_ns(self->pid[1]);
	cpu_clock_read(0, &before);
	total = psi_some_ns(PSI_CPU);
	sleep_for(20 * NSEC_PER_SEC);
	total = psi_some_ns(PSI_CPU) - total;
	cpu_clock_read(0, &after);
	wait = task_wait_ns(self->pid[0]) + task_wait_ns(self->pid[1]) - wait;
	percent = 100.0 * total / (now_ns() - start);
	least = 100.0 * wait / (now_ns() - start);
	most = 100.0 * (after.wait - before.wait) / (now_ns() - start);
	/* While both wait for a thread of PREEMPT_RT, both clocks count. */
	if (kernel_is_preempt_rt())
		least -= 1;
	ksft_print_msg("cpu some %.3f %%, by the tasks' clocks %.3f to %.3f %%\n", percent, least,
		       most);
	EXPECT_LE(least - TOLERANCE, percent);
	EXPECT_GE(most + TOLERANCE, percent);
}

/* ---- A task that is taken off the queue and put back while it runs ---- */

FIXTURE(requeued) {
	pid_t pid;
};

/* Changes its own nice value every 20 ms. */
static void renice_self(void *arg)
{
	for (int i = 0;; i++) {
		if (setpriority(PRIO_PROCESS, 0, i % 2))
			psi_die("setpriority: %s", strerror(errno));
		spin_until(now_ns() + 20 * NSEC_PER_MSEC);
	}
}

FIXTURE_SETUP(requeued)
{
	struct load load = { .cpu = 0, .fn = renice_self };

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	self->pid = load_start(&load);
}

FIXTURE_TEARDOWN(requeued)
{
	load_stop(self->pid);
	cpus_use(cpus_possible());
}

TEST_F(requeued, task_does_not_wait)
{
	struct share share = measure(10 * NSEC_PER_SEC);

	EXPECT_GE(TOLERANCE, fabs(share.some - share.waits)) {
		TH_LOG("cpu some %.3f %%, must be %.3f %%", share.some, share.waits);
	}
	EXPECT_GE(5, share.waits);
}

TEST_HARNESS_MAIN
