// SPDX-License-Identifier: GPL-2.0
/*
 * A machine that is suspended, or that its host stops for a while
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
 * over it; a trigger that is armed after it, and counts the time asleep twice.
 *
 * A virtual machine that is stopped knows nothing of it: only its real-time clock
 * goes on, and all others say that no time has passed. So what PSI says has to
 * agree with these.
 *
 * Needs a real-time clock that wakes the machine up. Suspend to RAM only. For a
 * stop somebody has to do what the test asks for.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_trigger.h"

#define RTC		"/sys/class/rtc/rtc0/wakealarm"
#define EPOCH		"/sys/class/rtc/rtc0/since_epoch"
#define STATE		"/sys/power/state"
#define ASLEEP		"10"
/* What is left of a second, and what it takes to fall asleep and to wake up. */
#define AROUND		NSEC_PER_SEC
/* Twice that is over the threshold, once is not. */
#define STALL		(800 * NSEC_PER_MSEC)
#define THRESHOLD	(1500 * NSEC_PER_MSEC)
#define TRIGGER		"some 1500000 2000000"
/* The threshold of a trigger that fires once, in us. */
#define ONCE		300000
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

FIXTURE_SETUP(suspend)
{
	char states[64] = "";

	if (access(RTC, F_OK) || read_file(STATE, states, sizeof(states) - 1) < 0 ||
	    !strstr(states, "mem"))
		SKIP(return, "cannot be suspended, or nothing wakes it up");
	cpus_use(1);
	sleep_for(3 * NSEC_PER_SEC);
}

FIXTURE_TEARDOWN(suspend)
{
	cpus_use(cpus_possible());
}

/* Returns how long it was, in s. */
static double suspend_machine(void)
{
	double begin = boot_seconds();

	write_file(RTC, "0");
	write_file(RTC, "+" ASLEEP);
	write_file(STATE, "mem");
	return boot_seconds() - begin;
}

/* Returns the stall that there was, in ns. */
static __u64 stall_for(pid_t pid[2], __u64 ns)
{
	__u64 before = psi_some_ns(PSI_CPU);

	spin_pair_start(pid, NULL);
	sleep_for(ns);
	spin_pair_stop(pid);
	return psi_some_ns(PSI_CPU) - before;
}

TEST_F_TIMEOUT(suspend, nobody_stalls_in_it, 300)
{
	__u64 stalled, least, most;
	double asleep;

	spin_pair_start(self->pid, NULL);
	sleep_for(3 * NSEC_PER_SEC);
	/* On a busy host time passes between two lines. */
	most = now_ns();
	stalled = psi_some_ns(PSI_CPU);
	least = now_ns();
	asleep = suspend_machine();
	sleep_for(3 * NSEC_PER_SEC);
	least = now_ns() - least;
	stalled = psi_some_ns(PSI_CPU) - stalled;
	most = now_ns() - most;
	spin_pair_stop(self->pid);

	EXPECT_LE(atoi(ASLEEP) - 2, asleep);
	EXPECT_LE(stalled, most + NSEC_PER_MSEC);
	EXPECT_LE(least, stalled + AROUND);
	TH_LOG("%.3f s: %llu ms awake, %llu ms of stall", asleep, least / NSEC_PER_MSEC,
	       stalled / NSEC_PER_MSEC);
}

TEST_F_TIMEOUT(suspend, averages_decay_by_its_length, 300)
{
	double stalled, asleep, avg, after;
	struct psi psi;

	stalled = stall_for(self->pid, 40 * NSEC_PER_SEC) / 1e9;
	/* A busy host may stop the machine before it sleeps, and after. */
	asleep = boot_seconds();
	suspend_machine();
	psi_read(PSI_CPU, &psi);
	asleep = boot_seconds() - asleep;
	avg = psi.some.avg[AVG10] / 1e4;
	EXPECT_LE((1 - exp(-(stalled - PERIOD) / 10)) * exp(-(asleep + 1) / 10), avg);
	EXPECT_LE(avg, exp(-(asleep - PERIOD) / 10));

	stalled = stall_for(self->pid, 6 * NSEC_PER_SEC) / 1e9;
	psi_read(PSI_CPU, &psi);
	after = psi.some.avg[AVG10] / 1e4;
	/* All periods of stall but the last at least, half of one more at most. */
	EXPECT_LE(1 - (1 - avg) * exp(-(stalled - PERIOD) / 10), after + 0.02);
	EXPECT_LE(after, 1 - (1 - avg) * exp(-(stalled + PERIOD / 2) / 10));
	TH_LOG("%.3f s: avg10 is %.4f, then, after %.3f s of stall, %.4f", asleep, avg, stalled,
	       after);
}

TEST_F_TIMEOUT(suspend, no_window_contains_it, 300)
{
	__u64 before, after, other;
	bool one_window;
	int root, user;

	/*
	 * A busy host may stretch a stall, and the tasks that suspend and resume
	 * devices stall, too, on either side of the sleep: with enough of that,
	 * this shows nothing.
	 */
	do {
		root = trigger_arm(PSI_CPU, TRIGGER);
		user = trigger_arm_user(PSI_CPU, TRIGGER);
		other = psi_some_ns(PSI_CPU);
		before = stall_for(self->pid, STALL);
		suspend_machine();
		after = stall_for(self->pid, STALL);
		sleep_for(NSEC_PER_SEC);
		other = psi_some_ns(PSI_CPU) - other - before - after;
		one_window = before + other >= THRESHOLD || after + other >= THRESHOLD;
		TH_LOG("stall before %llu ms, after %llu ms, besides %llu ms",
		       before / NSEC_PER_MSEC, after / NSEC_PER_MSEC, other / NSEC_PER_MSEC);
		if (!one_window) {
			EXPECT_EQ(0, trigger_count(root, now_ns() + 3 * NSEC_PER_SEC));
			EXPECT_FALSE(trigger_fired(user, 0));
		}
		stall_for(self->pid, STALL);
		stall_for(self->pid, STALL);
		EXPECT_LE(1, trigger_count(root, now_ns() + 3 * NSEC_PER_SEC));
		EXPECT_TRUE(trigger_fired(user, 0));
		close(root);
		close(user);
	} while (one_window);
}

/*
 * A machine that has slept, and a state that holds when a trigger is armed: one
 * event, and no second one of the same stall.
 */
TEST_F_TIMEOUT(suspend, stall_counts_once_after_it, 300)
{
	int user = 0;

	suspend_machine();
	while (user < 2) {
		__u64 stalled;
		int fd, events;

		spin_pair_start(self->pid, NULL);
		sleep_for(200 * NSEC_PER_MSEC);
		stalled = psi_some_ns(PSI_CPU);
		fd = trigger_arm_as(user, PSI_CPU, "some %d 2000000", ONCE);
		sleep_for((ONCE + 100000) * NSEC_PER_USEC);
		spin_pair_stop(self->pid);
		events = trigger_count(fd, now_ns() + 5 * NSEC_PER_SEC);
		stalled = psi_some_ns(PSI_CPU) - stalled;
		close(fd);
		/* A busy host may make stall for a second event. */
		if (stalled >= 2 * ONCE * NSEC_PER_USEC)
			continue;
		EXPECT_EQ(1, events);
		user++;
	}
}

/* ---- Stopped ---- */

/* For so long at least, in s; and how long to wait for it. */
#define STOPPED		5
#define PATIENCE	(60 * NSEC_PER_SEC)

FIXTURE(stopped) {
	pid_t pid[2];
};

FIXTURE_SETUP(stopped)
{
	if (access(EPOCH, F_OK))
		SKIP(return, "no clock tells of a stop");
	cpus_use(1);
	sleep_for(3 * NSEC_PER_SEC);
}

FIXTURE_TEARDOWN(stopped)
{
	cpus_use(cpus_possible());
}

/* How long the machine was stopped so far, since some moment, in s. */
static double stopped_seconds(void)
{
	return file_number(EPOCH, "") - now_ns() / 1e9;
}

/* Returns whether it was stopped. */
static bool machine_stopped(void)
{
	double before = stopped_seconds();
	__u64 end = now_ns() + PATIENCE;

	ksft_print_msg("now stop the machine for %d s or more\n", 2 * STOPPED);
	fflush(stdout);
	while (now_ns() < end) {
		if (stopped_seconds() > before + STOPPED)
			return true;
		sleep_for(100 * NSEC_PER_MSEC);
	}
	return false;
}

TEST_F_TIMEOUT(stopped, nobody_stalls_in_it, 300)
{
	int root = trigger_arm(PSI_CPU, TRIGGER);
	__u64 stalled, awake;
	bool stopped;

	spin_pair_start(self->pid, NULL);
	awake = now_ns();
	stalled = psi_some_ns(PSI_CPU);
	/* Over the threshold without the stop. */
	sleep_for(2 * NSEC_PER_SEC);
	EXPECT_TRUE(trigger_fired(root, 1000));
	stopped = machine_stopped();
	stalled = psi_some_ns(PSI_CPU) - stalled;
	awake = now_ns() - awake;
	spin_pair_stop(self->pid);
	close(root);
	if (!stopped)
		SKIP(return, "nobody stopped the machine");
	TH_LOG("%llu ms awake, %llu ms of stall", awake / NSEC_PER_MSEC, stalled / NSEC_PER_MSEC);
	EXPECT_LE(stalled, awake);
	EXPECT_LE(awake, stalled + AROUND / 5);
}

TEST_F_TIMEOUT(stopped, averages_do_not_see_it, 300)
{
	double stalled, avg;
	struct psi psi;
	__u64 begin;

	stalled = stall_for(self->pid, 40 * NSEC_PER_SEC) / 1e9;
	begin = now_ns();
	if (!machine_stopped())
		SKIP(return, "nobody stopped the machine");
	psi_read(PSI_CPU, &psi);
	avg = psi.some.avg[AVG10] / 1e4;
	TH_LOG("avg10 is %.4f", avg);
	EXPECT_LE((1 - exp(-(stalled - PERIOD) / 10)) * exp(-((now_ns() - begin) / 1e9 + 1) / 10),
		  avg);
}

TEST_HARNESS_MAIN
