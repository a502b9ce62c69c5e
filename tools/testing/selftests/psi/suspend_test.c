// SPDX-License-Identifier: GPL-2.0
/*
 * A machine that is suspended
 *
 * Invariant: the time asleep is a pause like any other. Nobody stalls in it,
 * stall before it and after it are not one window of a trigger, and averages
 * decay by its length.
 *
 *	cpu some |#####		#####
 *	machine	 |awake | asleep |awake
 *
 * Bugs it would find: windows and averages that go by a clock that stands still
 * while the machine is asleep; a stall that goes on meanwhile; the same time
 * counted twice, where the clock goes on; stall after the sleep that is spread
 * over it.
 *
 * Needs a real-time clock that wakes the machine up.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../kselftest_harness.h"
#include "psi_trigger.h"

#define RTC		"/sys/class/rtc/rtc0/wakealarm"
#define STATE		"/sys/power/state"
#define MEM_SLEEP	"/sys/power/mem_sleep"
#define ASLEEP		20
/* What is left of a second, and what it takes to fall asleep and to wake up. */
#define AROUND		2
#define STALL		NSEC_PER_SEC
/* An average is as of the last period of 2 s that ended. */
#define PERIOD		2

static double boot_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

FIXTURE(suspend) {
	pid_t pid[2];
};

FIXTURE_VARIANT(suspend) {
	const char *state;
	const char *mem_sleep;
};

FIXTURE_VARIANT_ADD(suspend, to_idle) { .state = "freeze" };
FIXTURE_VARIANT_ADD(suspend, to_ram) { .state = "mem", .mem_sleep = "deep" };
/* As a comparison the machine stays awake, and tasks sleep. */
FIXTURE_VARIANT_ADD(suspend, not_at_all) { };

FIXTURE_SETUP(suspend)
{
	char states[64] = "";

	if (read_file(STATE, states, sizeof(states) - 1) < 0 || access(RTC, F_OK))
		SKIP(return, "cannot be suspended, or nothing wakes it up");
	if (variant->state && !strstr(states, variant->state))
		SKIP(return, "knows no %s", variant->state);
	if (variant->mem_sleep)
		write_file(MEM_SLEEP, variant->mem_sleep);
	sleep_for(10 * NSEC_PER_SEC);
}

FIXTURE_TEARDOWN(suspend)
{
}

/* Returns how long the pause was, in s. */
static double pause_for_long(const FIXTURE_VARIANT(suspend) * variant)
{
	double begin = boot_seconds();

	if (variant->state) {
		write_file(RTC, "0");
		write_file(RTC, "+20");
		write_file(STATE, variant->state);
	} else {
		sleep_for(ASLEEP * NSEC_PER_SEC);
	}
	return boot_seconds() - begin;
}

static void stall_for(FIXTURE_DATA(suspend) * self, __u64 ns)
{
	spin_pair_start(self->pid, NULL);
	sleep_for(ns);
	spin_pair_stop(self->pid);
}

TEST_F_TIMEOUT(suspend, nobody_stalls_in_it, 300)
{
	__u64 stalled, awake;
	double pause;

	spin_pair_start(self->pid, NULL);
	sleep_for(5 * NSEC_PER_SEC);
	stalled = psi_some_ns(PSI_CPU);
	awake = now_ns();
	pause = pause_for_long(variant);
	sleep_for(5 * NSEC_PER_SEC);
	stalled = psi_some_ns(PSI_CPU) - stalled;
	awake = now_ns() - awake;
	spin_pair_stop(self->pid);

	EXPECT_LE(ASLEEP - 1, pause);
	EXPECT_LE(stalled, awake);
	EXPECT_LE(awake, stalled + AROUND * NSEC_PER_SEC);
	TH_LOG("%.3f s: %llu ms awake, %llu ms of stall", pause, awake / 1000000,
	       stalled / 1000000);
}

TEST_F_TIMEOUT(suspend, averages_decay_by_its_length, 300)
{
	double pause, avg, after;
	struct psi psi;

	stall_for(self, 60 * NSEC_PER_SEC);
	pause = pause_for_long(variant);
	psi_read(PSI_CPU, &psi);
	avg = psi.some.avg[AVG10] / 1e4;
	EXPECT_LE(exp(-(pause + 1) / 10), avg);
	EXPECT_LE(avg, exp(-(pause - PERIOD) / 10));

	stall_for(self, 6 * NSEC_PER_SEC);
	psi_read(PSI_CPU, &psi);
	after = psi.some.avg[AVG10] / 1e4;
	/* Two periods of stall at least, three at most. */
	EXPECT_LE(1 - (1 - avg) * exp(-4.2 / 10), after + 0.02);
	EXPECT_LE(after, 1 - (1 - avg) * exp(-6.2 / 10));
	TH_LOG("%.3f s: avg10 is %.4f, then %.4f", pause, avg, after);
}

TEST_F_TIMEOUT(suspend, no_window_contains_it, 300)
{
	int root = trigger_arm(PSI_CPU, "some 1500000 2000000");
	int user = trigger_arm_user(PSI_CPU, "some 1500000 2000000");

	stall_for(self, STALL);
	pause_for_long(variant);
	stall_for(self, STALL);
	EXPECT_EQ(0, trigger_count(root, now_ns() + 3 * NSEC_PER_SEC));
	EXPECT_FALSE(trigger_fired(user, 0));

	/* Without a pause they are one window. */
	stall_for(self, STALL);
	stall_for(self, STALL);
	EXPECT_EQ(1, trigger_count(root, now_ns() + 3 * NSEC_PER_SEC));
	EXPECT_TRUE(trigger_fired(user, 0));
	close(root);
	close(user);
}

TEST_HARNESS_MAIN
