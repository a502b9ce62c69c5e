// SPDX-License-Identifier: GPL-2.0
/*
 * The averages follow the exact exponential response
 *
 * Every 2 s the share p of the time that was stalled updates three averages:
 *
 *     avg' = avg * e + p * (1 - e),    e = exp(-2 s / tau),    tau = 10, 60, 300 s
 *
 * So n samples of 100 % lead to 100 - (100 - start) * e^n, and n samples of 0 %
 * to start * e^n. The test recomputes the averages in double precision from the
 * samples that its own load makes, and compares the printed values:
 *
 *     load     | 100 % for ten samples        |half| idle ...
 *     avg10    | rises to 86 %                |    | decays
 *
 * Bugs it would find: a rounded constant e; fixed point that loses its tail;
 * idle periods that do not decay; a sample that counts in two periods; a grid
 * of periods that drifts or restarts.
 *
 * The test finds the end of a period by reading: averages change there and nowhere else.
 *
 * Tolerance: 0.02 points while the load is steady. 0.01 of that is the rounding of the start value
 * and of the printed value. Where the load changes, two samples depend on when the kernel collects
 * them. Its timer may be 8 ticks late, and the thread that the timer wakes waits for its turn: up
 * to 50 ms of 2 s, or 2.5 points. In an average this decays like any sample, and so does the
 * tolerance.
 */
#include <math.h>

#include "../kselftest_harness.h"
#include "psi_util.h"

#define PERIOD		(2 * NSEC_PER_SEC)
/* This far into a period, the last one has been collected. */
#define SETTLED		(100 * NSEC_PER_MSEC)

#define TOLERANCE	0.02

static const double tau[NR_AVGS] = { 10, 60, 300 };

/* ---- The model ---- */

struct model {
	double avg[NR_AVGS];
	double doubt[NR_AVGS];
};

static void model_start(struct model *model)
{
	struct psi psi;

	psi_read(PSI_CPU, &psi);
	for (int i = 0; i < NR_AVGS; i++) {
		model->avg[i] = psi.some.avg[i] / 100.0;
		model->doubt[i] = 0;
	}
}

static void model_sample(struct model *model, double percent, int times)
{
	for (int i = 0; i < NR_AVGS; i++) {
		double e = exp(-2.0 * times / tau[i]);

		model->avg[i] = model->avg[i] * e + percent * (1 - e);
		model->doubt[i] *= e;
	}
}

/* A sample of a period in which the load changed, or before which it did. */
static void model_doubtful_sample(struct model *model, double percent)
{
	model_sample(model, percent, 1);
	for (int i = 0; i < NR_AVGS; i++)
		model->doubt[i] += 2.5 * (1 - exp(-2.0 / tau[i]));
}

/* Wait of all tasks so far; kernel threads wait now and then. */
static __u64 waited(void)
{
	struct cpu_clock cc;

	cpu_clock_read(-1, &cc);
	return cc.wait - psi_threads_wait_ns();
}

/* The stall of this period may be as long as tasks waited since @before. */
static void model_doubt_waits(struct model *model, __u64 *before)
{
	__u64 now = waited();

	for (int i = 0; i < NR_AVGS; i++)
		model->doubt[i] += 100.0 * (now - *before) / PERIOD * (1 - exp(-2.0 / tau[i]));
	*before = now;
}

/* ---- The real thing ---- */

/*
 * Reads every half millisecond until an average changes: a period has ended.
 * Begins shortly before that is due: reading disturbs the load little.
 */
static void wait_for_period(__u64 *period_start)
{
	__u64 last = now_ns() + 3 * PERIOD;
	struct psi before, psi;

	if (*period_start)
		sleep_until(*period_start + PERIOD - 20 * NSEC_PER_MSEC);
	psi_read(PSI_CPU, &before);
	do {
		if (now_ns() > last)
			psi_die("no average changes in three periods");
		sleep_for(500 * NSEC_PER_USEC);
		psi_read(PSI_CPU, &psi);
	} while (!memcmp(psi.some.avg, before.some.avg, sizeof(psi.some.avg)));
	*period_start = now_ns();
	sleep_for(SETTLED);
}

/* Skips the period in which the load began, and the one that has the rest. */
static void start_at_full_load(struct model *model, __u64 *period_start)
{
	*period_start = 0;
	wait_for_period(period_start);
	wait_for_period(period_start);
	model_start(model);
}

/* A known defect makes an average wrong, by less than that. */
#define DEFECT		3

static void check_model(struct __test_metadata *_metadata, const struct model *model)
{
	struct psi psi;

	psi_read(PSI_CPU, &psi);
	for (int i = 0; i < NR_AVGS; i++) {
		double avg = psi.some.avg[i] / 100.0, error = fabs(avg - model->avg[i]);

		error -= model->doubt[i];
		XFAIL_UNLESS(error <= TOLERANCE || error > DEFECT, "avg%.0f is %.2f, must be %.2f",
			     tau[i], avg, model->avg[i]);
		ASSERT_GE(TOLERANCE, error) {
			TH_LOG("avg%.0f is %.2f, must be %.4f", tau[i], avg, model->avg[i]);
		}
	}
}

FIXTURE(response) {
	struct model model;
	pid_t spinner[2];
	__u64 period_start;
};

FIXTURE_SETUP(response)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	spin_pair_start(self->spinner, NULL);
	start_at_full_load(&self->model, &self->period_start);
}

FIXTURE_TEARDOWN(response)
{
	cpus_use(cpus_possible());
}

/* Returns the load's share of the current period, in percent. */
static double stop_load(FIXTURE_DATA(response) * self)
{
	__u64 now = now_ns();

	spin_pair_stop(self->spinner);
	return 100.0 * (now - self->period_start) / PERIOD;
}

TEST_F_TIMEOUT(response, to_a_step_rises_and_decays_exponentially, 400)
{
	__u64 wait;
	double half;

	for (int i = 0; i < 10; i++) {
		wait_for_period(&self->period_start);
		model_sample(&self->model, 100, 1);
		check_model(_metadata, &self->model);
	}

	sleep_until(self->period_start + PERIOD / 2);
	half = stop_load(self);
	wait_for_period(&self->period_start);
	model_doubtful_sample(&self->model, half);
	check_model(_metadata, &self->model);

	wait = waited();
	for (int i = 0; i < 60; i++) {
		self->period_start += PERIOD;
		sleep_until(self->period_start + SETTLED);
		if (i)
			model_sample(&self->model, 0, 1);
		else
			model_doubtful_sample(&self->model, 0);
		model_doubt_waits(&self->model, &wait);
		check_model(_metadata, &self->model);
	}
}

/*
 * No task reads for two minutes, and the missed periods decay all the same. The
 * end of the load is in the first of them.
 */
TEST_F_TIMEOUT(response, to_idleness_is_the_same_without_readers, 400)
{
	double rest;

	for (int i = 0; i < 3; i++) {
		wait_for_period(&self->period_start);
		model_sample(&self->model, 100, 1);
	}
	rest = stop_load(self);
	sleep_until(self->period_start + 60 * PERIOD + SETTLED);
	model_doubtful_sample(&self->model, rest);
	model_doubtful_sample(&self->model, 0);
	model_sample(&self->model, 0, 58);
	check_model(_metadata, &self->model);
}

/* The second stall is sampled on the same grid of periods as the first. */
TEST_F_TIMEOUT(response, to_a_second_step_starts_from_the_decayed_average, 400)
{
	double rest;

	for (int i = 0; i < 3; i++) {
		wait_for_period(&self->period_start);
		model_sample(&self->model, 100, 1);
	}
	rest = stop_load(self);
	sleep_until(self->period_start + 5 * PERIOD + SETTLED);
	model_doubtful_sample(&self->model, rest);
	model_doubtful_sample(&self->model, 0);
	model_sample(&self->model, 0, 3);
	check_model(_metadata, &self->model);
	spin_pair_start(self->spinner, NULL);
	start_at_full_load(&self->model, &self->period_start);
	for (int i = 0; i < 5; i++) {
		wait_for_period(&self->period_start);
		model_sample(&self->model, 100, 1);
		check_model(_metadata, &self->model);
	}
	spin_pair_stop(self->spinner);
}

TEST_HARNESS_MAIN
