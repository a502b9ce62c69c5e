// SPDX-License-Identifier: GPL-2.0
/*
 * Totals are exact, however often or seldom they are collected
 *
 * Invariants:
 *  - Reading does not change the measured value, at any rate.
 *  - No stall is lost, however late it is collected.
 *
 * Bugs it would find: a reader that ends a sampling window, so that windows get
 * too short for the unit of the weights; a 32-bit counter that wraps after 4.29
 * s without a collection.
 *
 * Every load here runs on one CPU, and the others are offline. So the pressure
 * of the system is that of the CPU, and the oracle of cpu "some" is the run
 * queue wait of the loads, exact to the nanosecond.
 *
 * The values are also printed as "row: ...", for a table of several kernels.
 */
#include <math.h>

#include "../kselftest_harness.h"
#include "psi_util.h"

/* ---- Readers ---- */

/*
 *     CPU 0   spinner, spinner: stalled all the time
 *             reader: has priority over both, so it keeps its rate
 *
 * The recorded share of stall is 100 %, whatever the reader does.
 */
FIXTURE(permanent_stall) {
	struct poller *poller;
	pid_t spinner[2];
};

FIXTURE_VARIANT(permanent_stall) {
	const char *row;
	__u64 period;
};

FIXTURE_VARIANT_ADD(permanent_stall, that_is_not_read) {
	.row = "100 % cpu stall, not read: recorded share",
};

FIXTURE_VARIANT_ADD(permanent_stall, that_is_read_every_2_ms) {
	.row = "100 % cpu stall, read every 2 ms: recorded share",
	.period = 2 * NSEC_PER_MSEC,
};

FIXTURE_VARIANT_ADD(permanent_stall, that_is_read_every_1_ms) {
	.row = "100 % cpu stall, read every 1 ms: recorded share",
	.period = NSEC_PER_MSEC,
};

FIXTURE_VARIANT_ADD(permanent_stall, that_is_read_every_200_us) {
	.row = "100 % cpu stall, read every 0.2 ms: recorded share",
	.period = 200 * NSEC_PER_USEC,
};

FIXTURE_VARIANT_ADD(permanent_stall, that_is_read_every_100_us) {
	.row = "100 % cpu stall, read every 0.1 ms: recorded share",
	.period = 100 * NSEC_PER_USEC,
};

FIXTURE_SETUP(permanent_stall)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	self->poller = shared_memory(sizeof(*self->poller));
	spin_pair_start(self->spinner, NULL);
}

FIXTURE_TEARDOWN(permanent_stall)
{
	spin_pair_stop(self->spinner);
	cpus_use(cpus_possible());
}

TEST_F(permanent_stall, is_recorded_in_full)
{
	const struct load reader = {
		.policy = SCHED_FIFO,
		.prio = 40,
		.fn = poll_file,
		.arg = self->poller,
	};
	__u64 start, total;
	double share;

	start = now_ns();
	total = psi_some_ns(PSI_CPU);
	self->poller->path = PSI_CPU;
	self->poller->period = variant->period;
	self->poller->end = start + 3 * NSEC_PER_SEC;
	if (variant->period)
		load_wait(load_start(&reader));
	else
		sleep_until(self->poller->end);
	share = 100.0 * (psi_some_ns(PSI_CPU) - total) / (now_ns() - start);
	ksft_print_msg("%llu reads in 3 s\n", (unsigned long long)self->poller->reads);
	report_row(variant->row, "%.2f", share);
	EXPECT_GE(100.1, share);
	XFAIL_UNLESS(!variant->period || share > 99.7, "%.2f %% of a stall of 100 %% are recorded",
		     share);
	EXPECT_LT(99.7, share);
}

/* ---- Starvation ---- */

/*
 *     hog       FIFO   |runs for N seconds                |ends
 *     starved   OTHER  |waits                             |runs
 *
 * The hog starves the thread that collects, too.
 */
FIXTURE(starvation) {
	struct rt_limits limits;
	pid_t starved;
};

FIXTURE_VARIANT(starvation) {
	const char *row;
	__u64 duration;
};

FIXTURE_VARIANT_ADD(starvation, of_3_seconds) {
	.row = "starved by a FIFO hog for 3 s: total grows by, s",
	.duration = 3 * NSEC_PER_SEC,
};

FIXTURE_VARIANT_ADD(starvation, of_6_seconds) {
	.row = "starved by a FIFO hog for 6 s: total grows by, s",
	.duration = 6 * NSEC_PER_SEC,
};

FIXTURE_VARIANT_ADD(starvation, of_60_seconds) {
	.row = "starved by a FIFO hog for 60 s: total grows by, s",
	.duration = 60 * NSEC_PER_SEC,
};

FIXTURE_SETUP(starvation)
{
	cpus_use(1);
	rt_limits_lift(&self->limits);
	set_policy(0, SCHED_FIFO, 50);
	self->starved = spin_on(0);
}

FIXTURE_TEARDOWN(starvation)
{
	load_stop(self->starved);
	rt_limits_restore(&self->limits);
	cpus_use(cpus_possible());
}

TEST_F_TIMEOUT(starvation, is_counted_to_the_end, 120)
{
	__u64 duration = variant->duration;
	const struct load load = { .policy = SCHED_FIFO, .prio = 20, .fn = spin_for,
				   .arg = &duration };
	__u64 wait, total;

	sleep_for(100 * NSEC_PER_MSEC);
	wait = task_wait_ns(self->starved);
	total = psi_some_ns(PSI_CPU);
	load_wait(load_start(&load));
	/* Schedstat counts the wait of the starved task once it runs again. */
	sleep_for(100 * NSEC_PER_MSEC);
	total = psi_some_ns(PSI_CPU) - total;
	wait = task_wait_ns(self->starved) - wait;
	report_row(variant->row, "%.3f", total / 1e9);
	EXPECT_LE(duration * 0.99, wait);
	XFAIL_UNLESS(total >= wait * 0.99, "waited %.3f s, total grew by %.3f s", wait / 1e9,
		     total / 1e9);
	EXPECT_GE(20 * NSEC_PER_MSEC, fabs((double)total - wait)) {
		TH_LOG("waited %.3f s, total grew by %.3f s", wait / 1e9, total / 1e9);
	}
}

TEST_HARNESS_MAIN
