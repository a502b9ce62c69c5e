// SPDX-License-Identifier: GPL-2.0
/*
 * Steady averages are exact, and an idle machine has none
 *
 * Invariants:
 *  - A steady pressure p converges to a printed average within 0.02 points of p.
 *  - An idle machine has no pressure, and returns to 0.00 after any load.
 *
 * Bugs it would find: fractions that are rounded to whole percent before they
 * are averaged; a decay that stops at its last bit.
 *
 * Every load here runs on one CPU, and the others are offline. So the pressure
 * of the system is that of the CPU, and the oracle of cpu "some" is the run
 * queue wait of the loads, exact to the nanosecond.
 *
 * The values are also printed as "row: ...", for a table of several kernels.
 */
#include <math.h>
#include <sys/prctl.h>

#include "../kselftest_harness.h"
#include "psi_leak.h"

/* ---- Steady pressure ---- */

/*
 * The load must not be in step with the tick: one that hits the begin or the
 * end of one run would hit that of each.
 */
#define DUTY_PERIOD	(2 * NSEC_PER_SEC / 3)
#define MAX_PERIODS	1500

/**
 * struct duty - when two workers run
 *
 *     worker   |wakes, runs or waits  |sleeps
 *     worker   |wakes, runs or waits  |sleeps
 *     some     |######################|
 *
 * One interrupt wakes both. One of them runs and the other waits, until the
 * first that sees the end of the time goes to sleep. Each notes when it saw
 * that; the stall of a period ends with the earlier one. The sum of their waits
 * would be no oracle: while a kernel thread runs, both wait, and that is one
 * stall. Both are SCHED_IDLE, so no kernel thread waits for them. A sampling
 * window of 2 s is a whole number of periods, so all samples are equal.
 *
 * @start: when the first period begins
 * @stall: how long they run
 * @seen: by worker and period, ns from the begin of the period to the end of
 *     its run
 * @periods: by worker, how many there were so far
 */
struct duty {
	__u64 start;
	__u64 stall;
	unsigned int periods[2];
	__u32 seen[2][MAX_PERIODS];
};

struct duty_worker {
	struct duty *duty;
	int nr;
};

static void duty_work(void *arg)
{
	struct duty_worker *worker = arg;
	struct duty *duty = worker->duty;

	prctl(PR_SET_TIMERSLACK, 1);
	for (__u64 next = duty->start;; next += DUTY_PERIOD) {
		unsigned int *period = &duty->periods[worker->nr];

		sleep_until(next);
		spin_until(next + duty->stall);
		if (*period < MAX_PERIODS)
			duty->seen[worker->nr][*period] = now_ns() - next;
		++*period;
	}
}

/* Stall so far: of each period, until the first worker went to sleep. */
static __u64 duty_stall(const struct duty *duty)
{
	__u64 sum = 0;

	for (unsigned int i = 0; i < duty->periods[0] && i < duty->periods[1]; i++) {
		__u32 a = duty->seen[0][i], b = duty->seen[1][i];

		sum += a < b ? a : b;
	}
	return sum;
}

/*
 * Wait of other tasks than the workers, apart from PSI's own threads, whose
 * wait is no pressure.
 */
static __u64 duty_others(const pid_t *worker)
{
	struct cpu_clock cc;

	cpu_clock_read(0, &cc);
	return cc.wait - task_wait_ns(worker[0]) - task_wait_ns(worker[1]) - psi_threads_wait_ns();
}

FIXTURE(steady) {
	struct duty *duty;
	struct duty_worker work[2];
	pid_t worker[2];
};

FIXTURE_VARIANT(steady) {
	const char *row;
	double percent;
};

FIXTURE_VARIANT_ADD(steady, pressure_of_0_050_percent) {
	.row = "steady 0.050 % cpu some: printed avg10",
	.percent = 0.050,
};

FIXTURE_VARIANT_ADD(steady, pressure_of_0_485_percent) {
	.row = "steady 0.485 % cpu some: printed avg10",
	.percent = 0.485,
};

FIXTURE_VARIANT_ADD(steady, pressure_of_0_676_percent) {
	.row = "steady 0.676 % cpu some: printed avg10",
	.percent = 0.676,
};

FIXTURE_VARIANT_ADD(steady, pressure_of_1_849_percent) {
	.row = "steady 1.849 % cpu some: printed avg10",
	.percent = 1.849,
};

FIXTURE_VARIANT_ADD(steady, pressure_of_3_536_percent) {
	.row = "steady 3.536 % cpu some: printed avg10",
	.percent = 3.536,
};

FIXTURE_SETUP(steady)
{
	struct load load = { .policy = SCHED_IDLE, .fn = duty_work };

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	self->duty = shared_memory(sizeof(*self->duty));
	self->duty->start = now_ns() + 100 * NSEC_PER_MSEC;
	self->duty->stall = variant->percent / 100 * DUTY_PERIOD;
	for (int i = 0; i < 2; i++) {
		self->work[i].duty = self->duty;
		self->work[i].nr = i;
		load.arg = &self->work[i];
		self->worker[i] = load_start(&load);
	}
}

FIXTURE_TEARDOWN(steady)
{
	load_stop(self->worker[0]);
	load_stop(self->worker[1]);
	cpus_use(cpus_possible());
}

static void expect_between(struct __test_metadata *_metadata, const char *what, double least,
			   double most, double value)
{
	EXPECT_LE(least - 0.02, value) {
		TH_LOG("%s is %.4f %%, must be at least %.4f %%", what, value, least);
	}
	EXPECT_GE(most + 0.02, value) {
		TH_LOG("%s is %.4f %%, must be at most %.4f %%", what, value, most);
	}
}

/*
 * After 600 s, the averages of 10 and 60 s have converged: exp(-10) of the
 * distance is left, at most 0.0002 points. That of 300 s has come 1 - exp(-2)
 * of the way from @start.
 *
 * Threads of the kernel count like any task. A wait of theirs adds to the
 * pressure if it was beside the workers' stall, and adds nothing if it was
 * during that stall: hence two bounds.
 */
TEST_F_TIMEOUT(steady, converges_to_averages_within_0_02_points, 1000)
{
	__u64 start, elapsed, total;
	double p, others, some, start300, left = exp(-2);
	struct psi before, psi;
	__u64 stall, wait;

	sleep_until(self->duty->start + DUTY_PERIOD / 2);
	start = now_ns();
	stall = duty_stall(self->duty);
	wait = duty_others(self->worker);
	psi_read(PSI_CPU, &before);
	sleep_until(start + 600 * NSEC_PER_SEC);
	psi_read(PSI_CPU, &psi);
	elapsed = now_ns() - start;
	stall = duty_stall(self->duty) - stall;
	wait = duty_others(self->worker) - wait;

	p = 100.0 * stall / elapsed;
	/* No more is allowed for, however long others waited beside a worker that waits as well. */
	others = fmin(100.0 * wait / elapsed, 0.05);
	total = psi.some.total - before.some.total;
	some = 100.0 * total * NSEC_PER_USEC / elapsed;
	ksft_print_msg("true %.4f to %.4f %%, total %.4f %%, avg10 %.2f avg60 %.2f avg300 %.2f\n",
		       p, p + others, some, psi.some.avg[AVG10] / 100.0,
		       psi.some.avg[AVG60] / 100.0, psi.some.avg[AVG300] / 100.0);
	report_row(variant->row, "%.2f", psi.some.avg[AVG10] / 100.0);
	expect_between(_metadata, "total", p, p + others, some);
	expect_between(_metadata, "avg10", p, p + others, psi.some.avg[AVG10] / 100.0);
	expect_between(_metadata, "avg60", p, p + others, psi.some.avg[AVG60] / 100.0);
	start300 = before.some.avg[AVG300] / 100.0 * left;
	expect_between(_metadata, "avg300", start300 + p * (1 - left),
		       start300 + (p + others) * (1 - left), psi.some.avg[AVG300] / 100.0);
}

/* ---- Idle ---- */

FIXTURE(idle_machine) {
};

FIXTURE_SETUP(idle_machine)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	/* Periodic work of the kernel runs a last time. */
	sleep_for(5 * NSEC_PER_SEC);
}

FIXTURE_TEARDOWN(idle_machine)
{
	cpus_use(cpus_possible());
}

/*
 * On an idle machine, tasks wake up now and then. Each waits until the CPU has
 * switched to it, and the run queues count that wait.
 */
TEST_F_TIMEOUT(idle_machine, has_totals_that_stand_still_for_60_s, 120)
{
	struct idle_growth idle;

	idle_growth_measure(&idle, 60 * NSEC_PER_SEC);
	report_row("idle for 60 s: cpu, io, memory totals grow by", "%.6f %.6f %.6f",
		   idle.cpu / 1e9, idle.io / 1e9, idle.memory / 1e9);
	EXPECT_EQ(0, idle.io);
	EXPECT_EQ(0, idle.memory);
	EXPECT_GE(idle.cpu_wait + NSEC_PER_MSEC, idle.cpu);
	EXPECT_GE(60 * NSEC_PER_SEC / 1000, idle.cpu);
}

/*
 * Four seconds of full stall leave 1.3 in the slowest average, and the tests
 * before this one may have left 10. After 2400 s of decay that is 0.004, which
 * prints as 0.00.
 */
TEST_F_TIMEOUT(idle_machine, comes_back_to_zero_after_a_load, 3000)
{
	struct idle_growth idle;
	pid_t spinner[2];
	struct psi psi;

	spin_pair_start(spinner, NULL);
	sleep_for(4 * NSEC_PER_SEC);
	spin_pair_stop(spinner);
	sleep_for(2400 * NSEC_PER_SEC);
	psi_read(PSI_CPU, &psi);
	for (int i = 0; i < NR_AVGS; i++)
		EXPECT_EQ(0, psi.some.avg[i]);
	idle_growth_measure(&idle, 5 * NSEC_PER_SEC);
	EXPECT_GE(idle.cpu_wait + NSEC_PER_MSEC, idle.cpu);
}

TEST_HARNESS_MAIN
