// SPDX-License-Identifier: GPL-2.0
/*
 * Triggers: windows, one property at a time
 *
 * Invariants:
 *  - An event is reported, at the latest at the end of the quiet time, and at
 *    most once in a window.
 *  - A window is an interval of time: idle time counts as part of it, and
 *    stall from before it does not.
 *  - Stall from before a trigger was armed has no effect on it.
 *  - While nothing stalls, triggers cost nothing.
 *
 * Bugs it would find: a window that is stretched to the next check, or whose
 * past is guessed from the window before; a check that another trigger's check
 * delays; a timer that never stops.
 * trigger_oracle_test has all of this at random; here each has a name.
 *
 * The values are also printed as "row: ...", for a table of several kernels.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_switches.h"
#include "psi_trigger.h"

#define GROUP		CGROUP_ROOT "/psi_trigger_exact"
#define GROUP_IO	GROUP "/io.pressure"
#define UNIT		(100 * NSEC_PER_MSEC)
/* Delay of an event, on top of a tenth of a window between two checks if it is not owed. */
#define LATE(window)	(10 * NSEC_PER_MSEC + (window) / 100)

/* ---- One trigger ---- */

/*
 * @path: its file
 * @memory: the file of memory in the same group
 * @user: it belongs to an ordinary user
 * @window: in ns
 */
FIXTURE(trigger) {
	struct stalls stalls;
};

FIXTURE_VARIANT(trigger) {
	const char *path;
	const char *memory;
	bool user;
	__u64 window;
};

FIXTURE_VARIANT_ADD(trigger, of_the_system) {
	.path = PSI_IO,
	.memory = PSI_MEMORY,
	.window = 2 * NSEC_PER_SEC,
};

FIXTURE_VARIANT_ADD(trigger, of_the_system_of_a_user) {
	.path = PSI_IO,
	.memory = PSI_MEMORY,
	.user = true,
	.window = 2 * NSEC_PER_SEC,
};

FIXTURE_VARIANT_ADD(trigger, of_a_cgroup) {
	.path = GROUP_IO,
	.memory = GROUP "/memory.pressure",
	.window = 3 * NSEC_PER_SEC,
};

FIXTURE_VARIANT_ADD(trigger, of_a_cgroup_of_a_user) {
	.path = GROUP_IO,
	.memory = GROUP "/memory.pressure",
	.user = true,
	.window = 4 * NSEC_PER_SEC,
};

FIXTURE_SETUP(trigger)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	stalls_create(&self->stalls, "psi_exact", UNIT);
	group_enter(GROUP);
}

FIXTURE_TEARDOWN(trigger)
{
	group_leave();
	cgroup_remove(GROUP);
	stalls_remove(&self->stalls);
	cpus_use(cpus_possible());
}

static int arm(const char *path, bool user, __u64 threshold, __u64 window)
{
	return trigger_arm_as(user, path, "some %llu %llu", threshold / NSEC_PER_USEC,
			      window / NSEC_PER_USEC);
}

/* How long an event for earlier stall may still come, in ms. */
static int too_late(__u64 window)
{
	return (3 * window) / NSEC_PER_MSEC;
}

TEST_F(trigger, reports_stall_of_its_quiet_time_when_that_ends)
{
	__u64 window = variant->window, first, second;
	int fd = arm(variant->path, variant->user, UNIT * 8 / 10, window);

	stall(&self->stalls);
	ASSERT_TRUE(trigger_fired(fd, window / 10 / NSEC_PER_MSEC + 50));
	first = now_ns();
	sleep_for(window / 2);
	stall(&self->stalls);
	EXPECT_TRUE(trigger_fired(fd, too_late(window)));
	second = now_ns();
	/* The first event may have come before the end of its stall. */
	EXPECT_LE(first - UNIT * 2 / 10 + window - NSEC_PER_MSEC, second);
	EXPECT_GE(first + window + LATE(window), second);
	EXPECT_FALSE(trigger_fired(fd, too_late(window)));
	EXPECT_EQ(0, close(fd));
}

/* An event uses up the stall that it reports. */
TEST_F(trigger, counts_a_stall_once)
{
	int fd = arm(variant->path, variant->user, UNIT * 15 / 10, variant->window);

	stall_times(&self->stalls, 2);
	EXPECT_TRUE(trigger_fired(fd, too_late(variant->window)));
	stall(&self->stalls);
	EXPECT_FALSE(trigger_fired(fd, too_late(variant->window)));
	EXPECT_EQ(0, close(fd));
}

TEST_F(trigger, does_not_count_stall_before_it_was_armed)
{
	int fd;

	stall_times(&self->stalls, 50);
	fd = arm(variant->path, variant->user, UNIT * 15 / 10, variant->window);
	stall(&self->stalls);
	EXPECT_FALSE(trigger_fired(fd, too_late(variant->window)));
	EXPECT_EQ(0, close(fd));
}

/*
 *      memory   armed ........................................
 *      io             ##################  armed  ##
 *
 * The two triggers have the same window, so they share checks. But there are no
 * checks while no resource that a trigger waits for stalls.
 */
TEST_F_TIMEOUT(trigger, does_not_count_earlier_stall_beside_a_trigger_on_another_resource, 120)
{
	const char *path = strcmp(variant->path, PSI_IO) ? GROUP "/memory.pressure" : PSI_MEMORY;
	int other = arm(path, variant->user, UNIT * 15 / 10, variant->window), fd;

	stall_times(&self->stalls, 50);
	fd = arm(variant->path, variant->user, UNIT * 15 / 10, variant->window);
	stall(&self->stalls);
	EXPECT_FALSE(trigger_fired(fd, too_late(variant->window)));
	EXPECT_EQ(0, close(fd));

	/* Stall while the trigger was closed does not count either. */
	stall_times(&self->stalls, 50);
	fd = arm(variant->path, variant->user, UNIT * 15 / 10, variant->window);
	stall(&self->stalls);
	EXPECT_FALSE(trigger_fired(fd, too_late(variant->window)));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, close(other));
}

static void read_once(void *arg)
{
	stall(arg);
}

TEST_F_TIMEOUT(trigger, that_is_armed_during_a_stall_counts_the_rest_of_it, 120)
{
	__u64 latency = variant->window * 9 / 10;
	struct stalls slow;
	struct load load = { .policy = SCHED_FIFO, .prio = 60, .fn = read_once, .arg = &slow };
	int all, more, less;
	pid_t pid;

	stalls_create(&slow, "psi_exact_slow", latency);
	all = arm(variant->path, variant->user, latency * 97 / 100, variant->window);
	pid = load_start(&load);
	sleep_for(latency * 6 / 10);
	more = arm(variant->path, variant->user, latency * 45 / 100, variant->window);
	less = arm(variant->path, variant->user, latency * 35 / 100, variant->window);
	load_wait(pid);
	EXPECT_TRUE(trigger_fired(less, too_late(variant->window)));
	EXPECT_FALSE(trigger_fired(more, too_late(variant->window)));
	/* This trigger existed before the stall. */
	EXPECT_TRUE(trigger_fired(all, 0));
	EXPECT_EQ(0, close(all));
	EXPECT_EQ(0, close(more));
	EXPECT_EQ(0, close(less));
	stalls_remove(&slow);
}

/*
 * Two triggers on different resources with the same window share a sampler. The
 * second is armed while only the first has stall. It must get checks when its
 * own resource begins to stall, long after the first has come to rest.
 */
TEST_F_TIMEOUT(trigger, that_is_armed_while_another_is_checked_fires, 120)
{
	const char *path = strcmp(variant->path, PSI_IO) ? GROUP "/cpu.pressure" : PSI_CPU;
	__u64 latency = variant->window / 2;
	struct stalls slow;
	struct load load = { .policy = SCHED_FIFO, .prio = 60, .fn = read_once, .arg = &slow };
	pid_t pid, spinner[2];
	int io, cpu;

	stalls_create(&slow, "psi_exact_slow", latency);
	io = arm(variant->path, variant->user, variant->window * 9 / 10, variant->window);
	pid = load_start(&load);
	sleep_for(latency / 2);
	cpu = arm(path, variant->user, variant->window / 4, variant->window);
	load_wait(pid);
	sleep_for(2 * variant->window);
	EXPECT_FALSE(trigger_fired(cpu, 0));

	spin_pair_start(spinner, NULL);
	EXPECT_TRUE(trigger_fired(cpu, too_late(variant->window)));
	spin_pair_stop(spinner);
	EXPECT_FALSE(trigger_fired(io, 0));
	EXPECT_EQ(0, close(io));
	EXPECT_EQ(0, close(cpu));
	stalls_remove(&slow);
}

/*
 * One stall, a little longer than the threshold: PSI may lose nothing of it, at
 * its begin or its end.
 */
static void check_single_stall(struct __test_metadata *_metadata, int fd, __u64 window,
			       const struct stalls *stalls)
{
	stall(stalls);
	EXPECT_TRUE(trigger_fired(fd, (window / 10 + LATE(window)) / NSEC_PER_MSEC));
	EXPECT_FALSE(trigger_fired(fd, too_late(window)));
}

TEST_F_TIMEOUT(trigger, counts_all_of_its_first_stall, 120)
{
	__u64 window = variant->window, latency = window * 37 / 100;
	struct stalls slow;
	int fd;

	stalls_create(&slow, "psi_exact_slow", latency);
	sleep_for(30 * NSEC_PER_SEC);
	fd = arm(variant->path, variant->user, latency * 97 / 100, window);
	check_single_stall(_metadata, fd, window, &slow);
	EXPECT_EQ(0, close(fd));
	stalls_remove(&slow);
}

/* The stall begins at several times after the trigger was armed. */
TEST_F_TIMEOUT(trigger, counts_all_of_its_first_stall_when_another_is_being_checked, 300)
{
	__u64 window = variant->window, latency = window * 37 / 100;
	int other = arm(variant->path, variant->user, 5 * NSEC_PER_SEC, 10 * NSEC_PER_SEC);
	struct stalls slow;
	int fd;

	stalls_create(&slow, "psi_exact_slow", latency);
	for (int i = 0; i < 8; i++) {
		stall(&self->stalls);
		sleep_for(1500 * NSEC_PER_MSEC);
		fd = arm(variant->path, variant->user, latency * 97 / 100, window);
		sleep_for(window * i / 50);
		check_single_stall(_metadata, fd, window, &slow);
		EXPECT_EQ(0, close(fd));
	}
	EXPECT_EQ(0, close(other));
	stalls_remove(&slow);
}

TEST_F_TIMEOUT(trigger, counts_all_of_a_stall_after_idle_time, 120)
{
	__u64 window = variant->window, latency = window * 37 / 100;
	struct stalls slow;
	int fd;

	stalls_create(&slow, "psi_exact_slow", latency);
	fd = arm(variant->path, variant->user, latency * 97 / 100, window);
	for (int i = 1; i < 4; i++) {
		check_single_stall(_metadata, fd, window, &slow);
		sleep_for(i * window * 9 / 10);
	}
	EXPECT_EQ(0, close(fd));
	stalls_remove(&slow);
}

/* The idle time is longer than one window, and shorter than the other. */
TEST_F_TIMEOUT(trigger, counts_all_of_a_stall_after_idle_time_in_which_another_is_checked, 300)
{
	__u64 window = variant->window, latency = window * 37 / 100;
	int other = arm(variant->path, variant->user, 5 * NSEC_PER_SEC, 10 * NSEC_PER_SEC);
	struct stalls slow;
	int fd;

	fd = arm(variant->path, variant->user, latency * 97 / 100, window);
	stalls_create(&slow, "psi_exact_slow", latency);
	trigger_fired(fd, too_late(window));
	for (int i = 10; i < 25; i++) {
		stall(&self->stalls);
		sleep_for(window * i / 10);
		stall(&slow);
		EXPECT_TRUE(trigger_fired(fd, (window / 10 + LATE(window)) / NSEC_PER_MSEC)) {
			TH_LOG("after a silence of %d tenths of a window: %s", i,
			       trigger_fired(fd, window / NSEC_PER_MSEC) ? "late" : "never");
		}
		sleep_for(window * 11 / 10);
	}
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, close(other));
	stalls_remove(&slow);
}

/*
 *      stall    ##########################
 *      event      |<- window ->|<- window ->|<- window ->
 *
 * The last event comes at the end of the quiet time in which the stall ended.
 */
TEST_F_TIMEOUT(trigger, has_one_event_after_the_stall_at_most, 120)
{
	int fd = arm(variant->path, variant->user, UNIT * 15 / 10, variant->window);

	stall_times(&self->stalls, 5 * variant->window / UNIT / 2);
	trigger_fired(fd, 0);
	EXPECT_TRUE(trigger_fired(fd, too_late(variant->window)));
	EXPECT_FALSE(trigger_fired(fd, 2 * too_late(variant->window)));
	EXPECT_EQ(0, close(fd));
}

/*
 *      stall    ##   ...   idle for some time   ...   ##
 *      window                                     |------->|
 */
TEST_F_TIMEOUT(trigger, counts_idle_time_as_part_of_its_window, 12000)
{
	/* In windows: the last one is an hour or more. */
	static const __u64 silences[] = { 1, 2, 3, 5, 9, 15, 60, 300, 1800 };
	int fd = arm(variant->path, variant->user, UNIT * 15 / 10, variant->window);

	for (size_t i = 0; i < ARRAY_SIZE(silences); i++) {
		stall(&self->stalls);
		sleep_for(silences[i] * variant->window);
		EXPECT_FALSE(trigger_fired(fd, 0)) {
			TH_LOG("after %llu windows", silences[i]);
		}
	}
	stall(&self->stalls);
	EXPECT_FALSE(trigger_fired(fd, too_late(variant->window)));
	EXPECT_EQ(0, close(fd));
}

TEST_F_TIMEOUT(trigger, does_not_extrapolate_past_stall, 300)
{
	int fd;

	stall_times(&self->stalls, 300);
	sleep_for(60 * NSEC_PER_SEC);
	fd = arm(variant->path, variant->user, variant->window * 95 / 100, variant->window);
	stall(&self->stalls);
	EXPECT_FALSE(trigger_fired(fd, 4 * too_late(variant->window)));
	EXPECT_EQ(0, close(fd));
}

TEST_F_TIMEOUT(trigger, fires_once_a_window_while_the_stall_lasts, 120)
{
	int fd = arm(variant->path, variant->user, UNIT, variant->window);
	int events = 0, most = 20 * NSEC_PER_SEC / variant->window + 1;

	for (__u64 end = now_ns() + 20 * NSEC_PER_SEC; now_ns() < end; ) {
		stall(&self->stalls);
		events += trigger_fired(fd, 0);
	}
	/* It takes a stall before the first one. */
	EXPECT_LE(most - 1, events);
	EXPECT_GE(most, events);
	EXPECT_EQ(0, close(fd));
}

TEST_F_TIMEOUT(trigger, of_nine_tenths_of_the_window_fires_when_all_is_stalled, 120)
{
	int fd = arm(variant->path, variant->user, variant->window * 89 / 100, variant->window);

	for (__u64 end = now_ns() + 3 * variant->window; now_ns() < end; )
		stall(&self->stalls);
	EXPECT_TRUE(trigger_fired(fd, 0));
	EXPECT_EQ(0, close(fd));
}

TEST_F(trigger, of_one_microsecond_fires)
{
	int fd = arm(variant->path, variant->user, NSEC_PER_USEC, variant->window);

	EXPECT_FALSE(trigger_fired(fd, too_late(variant->window)));
	stall(&self->stalls);
	EXPECT_TRUE(trigger_fired(fd, too_late(variant->window)));
	EXPECT_EQ(0, close(fd));
}

/* The sampler checks it together with the other trigger. */
TEST_F(trigger, of_one_microsecond_does_not_fire_for_another_resource)
{
	int fd = arm(variant->path, variant->user, UNIT, variant->window);
	int least = arm(variant->memory, variant->user, NSEC_PER_USEC, variant->window);

	stall_times(&self->stalls, 2);
	EXPECT_TRUE(trigger_fired(fd, too_late(variant->window)));
	EXPECT_FALSE(trigger_fired(least, too_late(variant->window)));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, close(least));
}

/* Without a NUL, the last digit still counts. */
TEST_F(trigger, has_the_window_that_was_written_without_a_nul)
{
	int fd = trigger_open(variant->path);

	/*
	 * Opened as root: a user may not have a window of 500 ms, which a
	 * parser that drops the digit would see.
	 */
	ASSERT_EQ(0, trigger_set(fd, "some 150000 5000000"));
	stall(&self->stalls);
	sleep_for(2 * NSEC_PER_SEC);
	stall(&self->stalls);
	EXPECT_TRUE(trigger_fired(fd, 1000));
	EXPECT_EQ(0, close(fd));
}

/* ---- Next to others ---- */

#define CROWD		24
#define CROWD_STALL	(450 * NSEC_PER_MSEC)

/*
 * Triggers of many windows, armed one after the other while nothing stalls.
 * Then one stall must make each of them fire.
 */
TEST_F_TIMEOUT(trigger, in_a_crowd_counts_all_of_the_first_stall, 120)
{
	__u64 step = variant->user ? 2 * NSEC_PER_SEC : 397 * NSEC_PER_MSEC;
	struct stalls slow;
	int fd[CROWD];

	stalls_create(&slow, "psi_exact_slow", CROWD_STALL);
	sleep_for(30 * NSEC_PER_SEC);
	for (int i = 0; i < CROWD; i++) {
		__u64 window = variant->user ? (1 + i % 5) * step : 600 * NSEC_PER_MSEC + i * step;

		fd[i] = arm(i % 3 ? variant->path : PSI_IO, variant->user, CROWD_STALL * 97 / 100,
			    window);
		sleep_for(97 * NSEC_PER_MSEC);
	}
	stall(&slow);
	sleep_for(1500 * NSEC_PER_MSEC);
	for (int i = 0; i < CROWD; i++) {
		EXPECT_TRUE(trigger_fired(fd[i], 0)) {
			TH_LOG("trigger %d", i);
		}
		EXPECT_EQ(0, close(fd[i]));
	}
	stalls_remove(&slow);
}

/* ---- A monitor that is starved ---- */

FIXTURE(hog) {
	struct rt_limits limits;
	pid_t starved;
};

FIXTURE_VARIANT(hog) {
	bool user;
	__u64 duration;
};

FIXTURE_VARIANT_ADD(hog, of_3_seconds) { .duration = 3 * NSEC_PER_SEC };
FIXTURE_VARIANT_ADD(hog, of_30_seconds) { .duration = 30 * NSEC_PER_SEC };
FIXTURE_VARIANT_ADD(hog, of_3_seconds_for_a_user) { .user = true, .duration = 3 * NSEC_PER_SEC };
FIXTURE_VARIANT_ADD(hog, of_30_seconds_for_a_user) { .user = true, .duration = 30 * NSEC_PER_SEC };

FIXTURE_SETUP(hog)
{
	cpus_use(1);
	rt_limits_lift(&self->limits);
	set_policy(0, SCHED_FIFO, 50);
	self->starved = spin_on(0);
}

FIXTURE_TEARDOWN(hog)
{
	load_stop(self->starved);
	rt_limits_restore(&self->limits);
	cpus_use(cpus_possible());
}

/*
 *      hog       FIFO   |runs for N seconds                |ends
 *      starved   OTHER  |waits                             |runs
 *
 * No thread of the kernel runs meanwhile. Whichever windows the monitor checks
 * afterwards, some were stalled from begin to end.
 */
TEST_F_TIMEOUT(hog, does_not_hide_its_own_stall, 120)
{
	__u64 duration = variant->duration;
	const struct load load = { .policy = SCHED_FIFO, .prio = 98, .fn = spin_for,
				   .arg = &duration };
	int fd = arm(PSI_CPU, variant->user, 1500 * NSEC_PER_MSEC, 2 * NSEC_PER_SEC);
	int calm = arm(PSI_CPU, variant->user, 1500 * NSEC_PER_MSEC, 2 * NSEC_PER_SEC);

	EXPECT_FALSE(trigger_fired(calm, 5000));
	load_wait(load_start(&load));
	EXPECT_TRUE(trigger_fired(fd, 500));
	/* There is one event. */
	EXPECT_FALSE(trigger_fired(fd, 5000));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, close(calm));
}

/* ---- What it costs ---- */

struct armed {
	const char *path;
	const char *text;
	bool user;
};

static const struct armed on_io_and_memory[] = {
	{ PSI_IO, "some 50000 500000" },
	{ PSI_IO, "full 50000 1000000" },
	{ PSI_IO, "some 100000 2000000", true },
	{ PSI_MEMORY, "some 50000 500000" },
	{ PSI_MEMORY, "full 50000 3000000" },
	{ PSI_MEMORY, "some 100000 10000000", true },
	{ GROUP_IO, "some 50000 500000" },
	{ GROUP_IO, "full 50000 10000000" },
	{ GROUP "/memory.pressure", "some 50000 500000" },
};

/*
 * Waking up means waiting until the CPU has switched to the task, so every
 * machine has some cpu stall.
 */
static const struct armed on_cpu[] = {
	{ PSI_CPU, "some 50000 500000" },
	{ PSI_CPU, "full 50000 500000" },
	{ PSI_CPU, "some 100000 4000000", true },
	{ GROUP "/cpu.pressure", "some 50000 500000" },
	{ GROUP "/cpu.pressure", "full 50000 2000000", true },
};

/**
 * struct cost - work of the kernel
 * @switches: to its threads
 * @interrupts: of the local timers
 */
struct cost {
	__u64 switches;
	__u64 interrupts;
};

/*
 * How long it is measured. The kernel does other things now and then: without
 * any trigger, a minute has 10 to 33 timer interrupts.
 */
#define MINUTES		20

static struct cost cost_of_idling(void)
{
	struct cost cost;

	cost.switches = kthread_switches();
	cost.interrupts = file_number("/proc/interrupts", "LOC:");
	sleep_for(MINUTES * 60 * NSEC_PER_SEC);
	cost.interrupts = file_number("/proc/interrupts", "LOC:") - cost.interrupts;
	cost.switches = kthread_switches() - cost.switches;
	return cost;
}

#define MAX_ARMED	16

FIXTURE(cost) {
	struct stalls stalls;
	struct cost before;
	int fd[MAX_ARMED];
};

FIXTURE_SETUP(cost)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	stalls_create(&self->stalls, "psi_exact", UNIT);
	group_enter(GROUP);
	for (int i = 0; i < MAX_ARMED; i++)
		self->fd[i] = -1;
	/* Let the work for the set-up end. */
	sleep_for(30 * NSEC_PER_SEC);
	self->before = cost_of_idling();
}

FIXTURE_TEARDOWN(cost)
{
	for (int i = 0; i < MAX_ARMED; i++)
		close(self->fd[i]);
	group_leave();
	cgroup_remove(GROUP);
	stalls_remove(&self->stalls);
	cpus_use(cpus_possible());
}

static void arm_all(int *fd, const struct armed *armed, int nr)
{
	for (int i = 0; i < nr; i++)
		fd[i] = trigger_arm_as(armed[i].user, armed[i].path, "%s", armed[i].text);
}

static void expect_cost(struct __test_metadata *_metadata, const char *when,
			const struct cost *before, int times, const struct cost *cost)
{
	ksft_print_msg("%s: %llu switches, %llu timer interrupts in %d min; before: %llu, %llu\n",
		       when, cost->switches, cost->interrupts, MINUTES, before->switches,
		       before->interrupts);
	EXPECT_GE(times * before->switches + 4 * MINUTES, cost->switches);
	EXPECT_GE(times * before->interrupts + 10 * MINUTES, cost->interrupts);
}

TEST_F_TIMEOUT(cost, of_triggers_is_nothing_while_nothing_stalls, 8000)
{
	struct cost cost;

	arm_all(self->fd, on_io_and_memory, ARRAY_SIZE(on_io_and_memory));
	sleep_for(30 * NSEC_PER_SEC);
	cost = cost_of_idling();
	expect_cost(_metadata, "armed", &self->before, 1, &cost);
	report_row("io and memory triggers, 60 s idle: more wake-ups of kernel threads", "%lld",
		   (long long)(cost.switches - self->before.switches) / MINUTES);
	stall_times(&self->stalls, 3);
	/* The checks stop after the longest window without a stall. */
	sleep_for(12 * NSEC_PER_SEC);
	cost = cost_of_idling();
	expect_cost(_metadata, "after a stall", &self->before, 1, &cost);
}

/*
 * Each wake-up stalls, so a window of checks may follow it. These checks must
 * not cause further ones.
 */
TEST_F_TIMEOUT(cost, of_cpu_triggers_does_not_cause_more_checks, 8000)
{
	struct cost cost;

	arm_all(self->fd, on_cpu, ARRAY_SIZE(on_cpu));
	sleep_for(30 * NSEC_PER_SEC);
	cost = cost_of_idling();
	expect_cost(_metadata, "armed", &self->before, 12, &cost);
	report_row("cpu triggers, 60 s idle: more wake-ups of kernel threads", "%lld",
		   (long long)(cost.switches - self->before.switches) / MINUTES);
}

static long long switches_while_stalled(const struct stalls *stalls, int times)
{
	long long switches = kthread_switches();

	stall_times(stalls, times);
	return kthread_switches() - switches;
}

TEST_F_TIMEOUT(cost, of_a_stall_is_ten_checks_per_window, 8000)
{
	long long none, some;
	int fd;

	none = switches_while_stalled(&self->stalls, 100);
	sleep_for(30 * NSEC_PER_SEC);
	fd = trigger_arm(GROUP_IO, "some 1900000 2000000");
	some = switches_while_stalled(&self->stalls, 100);
	ksft_print_msg("10 s of stall: %lld switches, with a trigger %lld\n", none, some);
	/*
	 * 5 windows with 10 checks each, and half as many for how a check is
	 * made.
	 */
	EXPECT_GE(none + 5 * 10 * 3 / 2, some);
	EXPECT_EQ(0, close(fd));
	some = switches_while_stalled(&self->stalls, 100);
	ksft_print_msg("closed: %lld\n", some);
	EXPECT_GE(none + 15, some);
}

/* ---- A cgroup created below one that is switched off ---- */

#define UPPER		CGROUP_ROOT "/psi_upper"
#define LOWER		UPPER "/lower"

FIXTURE(below) {
	pid_t upper, lower;
};

FIXTURE_SETUP(below)
{
	struct load load = { .cpu = 0, .cgroup = UPPER, .fn = spin };

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	ASSERT_EQ(0, mkdir(UPPER, 0755));
	cgroup_write(UPPER, "cgroup.pressure", "0");
	ASSERT_EQ(0, mkdir(LOWER, 0755));
	cgroup_write(UPPER, "cgroup.pressure", "1");
	self->upper = load_start(&load);
	load.cgroup = LOWER;
	self->lower = load_start(&load);
}

FIXTURE_TEARDOWN(below)
{
	load_stop(self->lower);
	load_stop(self->upper);
	EXPECT_EQ(0, rmdir(LOWER));
	EXPECT_EQ(0, rmdir(UPPER));
	cpus_use(cpus_possible());
}

/*
 * Whichever of the two tasks runs, the upper group has the CPU. So a context
 * switch between them begins no cpu full there, and the monitor has nothing to
 * check. The checks that remain are due to other tasks.
 */
TEST_F(below, switches_between_child_and_parent_are_no_stall)
{
	long long none, some;
	int fd;

	none = kthread_switches();
	sleep_for(10 * NSEC_PER_SEC);
	none = kthread_switches() - none;
	fd = trigger_arm(UPPER "/cpu.pressure", "full 400000 500000");
	some = kthread_switches();
	sleep_for(10 * NSEC_PER_SEC);
	some = kthread_switches() - some;
	ksft_print_msg("10 s: %lld switches, with a trigger %lld\n", none, some);
	/* Permanent checks would be 200. */
	EXPECT_GE(none + 100, some);
	EXPECT_EQ(0, close(fd));
}

TEST_HARNESS_MAIN
