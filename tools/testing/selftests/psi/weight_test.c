// SPDX-License-Identifier: GPL-2.0
/*
 * How the stalls of CPUs combine to the pressure of the machine
 *
 * Invariant: in a window of 2 s, the stall of each CPU counts in proportion to
 * the time in which that CPU had a task,
 *
 *     T = sum(stalled[cpu] * busy[cpu]) / sum(busy[cpu])
 *
 * So an idle CPU has no weight, and a CPU with one spinner halves the pressure
 * of a CPU with two. A blocked task belongs to the CPU on which it ran last,
 * until it wakes up on another one. Windows end by the clock, not when a file
 * is read.
 *
 * A reading in an open window may exceed the result of the window, as CPUs that
 * become busy later get their weight. The total does not go backwards then; it
 * stands still until stall has caught up with it.
 *
 * Bugs it would find: an idle CPU that dilutes; a weight in a unit too coarse
 * for short activity; a reader that ends the window; a sleeper that stays
 * behind, or counts on two CPUs, when it wakes up elsewhere.
 *
 * These tests keep two CPUs busy and run in real time: in virtual time,
 * emulators let CPUs take turns, not always fair ones. So every expectation is
 * computed from the CPUs' own clocks (schedstat).
 *
 * Tolerance: 1 point. Kernel threads wait beside the loads, and the oracle
 * includes their waits. The rest is for begin and end of the measurement on a
 * busy host.
 */
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_trigger.h"
#include "psi_work.h"

#define MAX_SPINNERS	6
#define TOLERANCE	1.0
/*
 * A busy host stops CPUs, which changes what the load is. By the CPUs' own
 * clocks it may differ by so many points over four seconds: in a second that is
 * less than the margin of the triggers.
 */
#define DISTURBED	2
/* A host that disturbs so many rounds one after the other is too busy for this test. */
#define MOST_ROUNDS	20
#define TRIGGER_MARGIN	15

/* ---- Spinners ---- */

FIXTURE(spinners) {
	pid_t pid[MAX_SPINNERS];
};

/* @nr: spinners on CPU 0 and on CPU 1; @percent: their pressure */
FIXTURE_VARIANT(spinners) {
	int nr[2];
	double percent;
};

FIXTURE_VARIANT_ADD(spinners, one_on_each_cpu_make_no_pressure) { .nr = { 1, 1 }, .percent = 0 };

FIXTURE_VARIANT_ADD(spinners, two_on_one_cpu_are_not_diluted_by_an_idle_one) {
	.nr = { 2, 0 },
	.percent = 100,
};

FIXTURE_VARIANT_ADD(spinners, two_on_each_cpu_make_100_percent) { .nr = { 2, 2 }, .percent = 100 };

FIXTURE_VARIANT_ADD(spinners, two_and_one_make_50_percent) {
	.nr = { 2, 1 },
	.percent = 50,
};

FIXTURE_VARIANT_ADD(spinners, one_and_three_make_50_percent) {
	.nr = { 1, 3 },
	.percent = 50,
};

FIXTURE_SETUP(spinners)
{
	int nr = 0;

	cpus_use(2);
	set_policy(0, SCHED_FIFO, 50);
	for (int cpu = 0; cpu < 2; cpu++)
		for (int i = 0; i < variant->nr[cpu]; i++)
			self->pid[nr++] = spin_idle_on(cpu);
}

FIXTURE_TEARDOWN(spinners)
{
	for (int i = 0; i < variant->nr[0] + variant->nr[1]; i++)
		load_stop(self->pid[i]);
	cpus_use(cpus_possible());
}

/**
 * struct cpu_shares - what a CPU did between two readings of its clock
 * @busy: share of the time in which it had a task
 * @least: lower bound of the share in which a task waited
 * @most: upper bound
 *
 * With two spinners one always waits. A lone spinner knows its wait. Kernel
 * threads wait for it, or beside it while another thread runs.
 */
struct cpu_shares {
	double busy;
	double least;
	double most;
};

/* A reading of a CPU's clock, and that of its only spinner. */
struct reading {
	struct cpu_clock cpu;
	__u64 spinner_wait;
};

static void take_reading(struct reading *reading, int cpu, int spinners, pid_t first)
{
	cpu_clock_read(cpu, &reading->cpu);
	reading->spinner_wait = spinners == 1 ? task_wait_ns(first) : 0;
}

/* What a busy host may take away while all is read. */
#define UNDISTURBED	(10 * NSEC_PER_MSEC)

/**
 * struct readings - all that is read at one time
 * @time: when
 * @total: of cpu some
 * @cpu: the clocks of both CPUs
 */
struct readings {
	__u64 time;
	__u64 total;
	struct reading cpu[2];
};

/*
 * A host that is busy may stop a CPU in the middle, with a kernel thread on it
 * that its clock counts later: this task goes there and has that thread leave.
 */
static void take_readings(struct readings *all, const int *nr, const pid_t *first)
{
	do {
		all->time = now_ns();
		for (int cpu = 1; cpu >= 0; cpu--)
			pin_to(cpu);
		all->total = psi_some_ns(PSI_CPU);
		for (int cpu = 0; cpu < 2; cpu++)
			take_reading(&all->cpu[cpu], cpu, nr[cpu], first[cpu]);
	} while (now_ns() - all->time > UNDISTURBED);
}

static struct cpu_shares shares_between(const struct reading *a, const struct reading *b,
					double time, int spinners)
{
	struct cpu_shares shares = { .busy = 1, .least = 1, .most = 1 };

	if (!spinners)
		shares.busy = (b->cpu.run - a->cpu.run) / time;
	if (spinners < 2) {
		shares.least = (b->spinner_wait - a->spinner_wait) / time;
		shares.most = (b->cpu.wait - a->cpu.wait) / time;
	}
	return shares;
}

/* In percent. */
static double weigh(const struct cpu_shares *shares, double stalled0, double stalled1)
{
	return 100 * (stalled0 * shares[0].busy + stalled1 * shares[1].busy) /
	       (shares[0].busy + shares[1].busy);
}

/*
 * Arms a trigger for @percent of 1 s, or of 2 s for an ordinary user. Returns
 * -1 if there is no such trigger.
 */
static int arm_for(double percent, bool user)
{
	int seconds = user ? 2 : 1;

	if (percent <= 0 || percent >= 100)
		return -1;
	return trigger_arm_as(user, PSI_CPU, "some %d %d", (int)(percent * 10000 * seconds),
			      1000000 * seconds);
}

/* Whether there is no trigger, or it fired as it should; closes it. */
static bool fired_as(int fd, bool fired)
{
	bool right = fd < 0 || trigger_fired(fd, 0) == fired;

	if (fd >= 0)
		close(fd);
	return right;
}

/*
 * The test skips the window in which the load began. Triggers below the
 * pressure must fire, triggers above it must not.
 */
TEST_F_TIMEOUT(spinners, add_up_and_fire_triggers_by_the_weights_of_their_cpus, 600)
{
	const pid_t first[2] = { self->pid[0], self->pid[variant->nr[0]] };
	struct readings before, after;
	struct cpu_shares shares[2];
	double some, least, most;
	int less[2], more[2], rounds = 0;
	__u64 length;

	sleep_for(5 * NSEC_PER_SEC / 2);
again:
	/* First: what triggers see is to be in between, all of it. */
	take_readings(&before, variant->nr, first);
	for (int user = 0; user < 2; user++) {
		less[user] = arm_for(variant->percent - TRIGGER_MARGIN, user);
		more[user] = arm_for(variant->percent + TRIGGER_MARGIN, user);
	}
	sleep_for(4 * NSEC_PER_SEC);
	take_readings(&after, variant->nr, first);
	length = after.time - before.time;

	for (int cpu = 0; cpu < 2; cpu++)
		shares[cpu] = shares_between(&before.cpu[cpu], &after.cpu[cpu], length,
					     variant->nr[cpu]);
	least = weigh(shares, shares[0].least, shares[1].least);
	most = weigh(shares, shares[0].most, shares[1].most);
	some = 100.0 * (after.total - before.total) / length;
	ksft_print_msg("cpu some %.3f %%, by the CPUs' clocks %.3f to %.3f %%\n", some, least,
		       most);
	if (fabs(least - variant->percent) > DISTURBED ||
	    fabs(most - variant->percent) > DISTURBED) {
		for (int user = 0; user < 2; user++) {
			fired_as(less[user], true);
			fired_as(more[user], false);
		}
		ASSERT_GT(MOST_ROUNDS, ++rounds)
			TH_LOG("the host disturbs each round");
		goto again;
	}
	EXPECT_LE(least - TOLERANCE, some);
	EXPECT_GE(most + TOLERANCE, some);
	for (int user = 0; user < 2; user++) {
		EXPECT_TRUE(fired_as(less[user], true));
		EXPECT_TRUE(fired_as(more[user], false));
	}
}

/* ---- Bursts ---- */

/* Busy every other second, from @arg on. */
static void burst(void *arg)
{
	__u64 next = *(__u64 *)arg;

	for (;; next += 2 * NSEC_PER_SEC) {
		sleep_until(next);
		spin_until(next + NSEC_PER_SEC);
	}
}

#define WINDOW		(2 * NSEC_PER_SEC + 200 * NSEC_PER_MSEC)
#define PERIODS		8

/**
 * struct bursts - pressure of a stall beside bursts, in percent of the time
 * @some: growth of the total, as a range: the stall begins and ends while its
 *     tasks are started and killed
 * @least: the pressure if every window has a whole burst, and no other task
 *     waits
 * @most: the pressure if windows begin in the middle of a period, and all waits
 *     of others are one after the other
 */
struct bursts {
	double some[2];
	double least;
	double most;
};

/*
 *      CPU 0   spinner, spinner   |stall|stall|stall|stall|
 *      CPU 1   bursts of 1 s      |busy |     |busy |     |
 *
 * A window of 2 s has a whole burst. So the weights are 1 and the share of time
 * in which CPU 1 was busy, reader included, and the result must not depend on
 * readers. If each reading ended a window, 100 and 50 % would alternate: 75 %
 * on average.
 *
 * A reading in an open window is an estimate. On a busy host a fold may be
 * late, which makes the estimates at begin and end differ. So no window is open
 * at either. But the first and the last window may have part of a period each:
 * a second with the burst and one without make 1/6 s more, other parts less.
 */
static void stall_next_to_bursts(bool read, struct bursts *result)
{
	struct poller poller = { .path = PSI_CPU, .period = 20 * NSEC_PER_MSEC };
	const struct load reader = {
		.cpu = 1,
		.policy = SCHED_FIFO,
		.prio = 40,
		.fn = poll_file,
		.arg = &poller,
	};
	__u64 phase, total, start[2], end[2];
	const struct load bursts = { .cpu = 1, .fn = burst, .arg = &phase };
	struct cpu_clock before, after;
	double busy, waits;
	int nr = 0;
	pid_t pid[4];

	sleep_for(WINDOW);
	total = psi_some_ns(PSI_CPU);
	pid[nr++] = spin_on(0);
	cpu_clock_read(1, &before);
	start[0] = now_ns();
	pid[nr++] = spin_on(0);
	start[1] = now_ns();
	phase = start[1] + 10 * NSEC_PER_MSEC;
	pid[nr++] = load_start(&bursts);
	if (read)
		pid[nr++] = load_start(&reader);
	sleep_until(phase + PERIODS * 2 * NSEC_PER_SEC);
	cpu_clock_read(1, &after);
	end[0] = now_ns();
	load_stop(pid[0]);
	end[1] = now_ns();
	while (--nr)
		load_stop(pid[nr]);
	sleep_for(WINDOW);
	total = psi_some_ns(PSI_CPU) - total;

	busy = (double)(after.run - before.run) / (end[0] - start[0]);
	waits = (double)(after.wait - before.wait) / (end[0] - start[0]);
	result->some[0] = 100.0 * total / (end[1] - start[0]);
	result->some[1] = 100.0 * total / (end[0] - start[1]);
	result->least = 100 / (1 + busy);
	result->most = 100 * (1 + waits * busy) / (1 + busy) +
		       100.0 * NSEC_PER_SEC / 6 / (end[0] - start[1]);
}

FIXTURE(two_cpus) {
	struct slow_disk disk;
};

FIXTURE_SETUP(two_cpus)
{
	cpus_use(2);
	task_delays_on();
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(&self->disk, "psi_weight", 10 * NSEC_PER_MSEC, 64);
}

FIXTURE_TEARDOWN(two_cpus)
{
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

TEST_F_TIMEOUT(two_cpus, show_the_same_when_read_at_50_hz_and_unread, 600)
{
	static const char * const how[] = { "unread", "read at 50 Hz" };

	for (int read = 0; read < 2; read++) {
		struct bursts result;
		char row[64];

		stall_next_to_bursts(read, &result);
		snprintf(row, sizeof(row), "CPU 0 stalled, CPU 1 in bursts: some, %s", how[read]);
		report_row(row, "%.2f", result.some[0]);
		ksft_print_msg("up to %.2f %%, must be %.2f to %.2f %%\n", result.some[1],
			       result.least, result.most);
		EXPECT_LE(result.least - TOLERANCE, result.some[1]);
		EXPECT_GE(result.most + TOLERANCE, result.some[0]);
	}
}

/* ---- A reader of open windows ---- */

#define TOP		CGROUP_ROOT "/psi_weight"
#define LEAF		TOP "/leaf"
#define STALL		(500 * NSEC_PER_MSEC)

static __u64 cpu_some(const char *path)
{
	struct pressure p;

	pressure_read(path, &p);
	return p.some[RES_CPU];
}

/*
 *      CPU 0   spinner, spinner   |stall|     |           |
 *      CPU 1   spinner            |     |busy |           |
 *
 * If the window ends in the second after that, it has 250 ms of stall. A read
 * of the leaf between the two sees 500 ms. The cgroup above the leaf has the
 * same stall, and is read when all windows have ended. Returns how far the leaf
 * is ahead then.
 */
static __u64 stall_then_be_busy(__u64 begin)
{
	struct span stall = { begin, begin + STALL }, busy = { stall.end, stall.end + STALL };
	const struct load loads[] = {
		{ .cpu = 0, .cgroup = LEAF, .fn = spin_span, .arg = &stall },
		{ .cpu = 0, .cgroup = LEAF, .fn = spin_span, .arg = &stall },
		{ .cpu = 1, .cgroup = LEAF, .fn = spin_span, .arg = &busy },
	};
	pid_t pid[ARRAY_SIZE(loads)];
	__u64 seen;

	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		pid[i] = load_start(&loads[i]);
	sleep_until(stall.end);
	seen = cpu_some(LEAF);
	sleep_until(busy.end + WINDOW);
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		load_stop(pid[i]);
	if (cpu_some(LEAF) < seen)
		psi_die("the total went backwards");
	return cpu_some(LEAF) - cpu_some(TOP);
}

/*
 * Windows are 2 s long. So of two rounds 5 s apart, one has its window end in
 * the second after the load.
 */
TEST_F_TIMEOUT(two_cpus, catch_up_after_a_reader_saw_too_much, 600)
{
	/* The window of one cgroup may end later: the host takes CPUs away. */
	const __u64 slack = STALL / 10;
	__u64 begin, ahead, top;
	struct span stall;
	const struct load load = { .cpu = 0, .cgroup = LEAF, .fn = spin_span, .arg = &stall };
	pid_t pid[2];

	cgroup_create(TOP, "");
	cgroup_create(LEAF, "");
	begin = now_ns() + 100 * NSEC_PER_MSEC;
	ahead = stall_then_be_busy(begin);
	if (ahead < STALL / 3)
		ahead = stall_then_be_busy(begin + 5 * NSEC_PER_SEC);
	ksft_print_msg("a reader saw %llu ms too much\n", ahead / NSEC_PER_MSEC);
	EXPECT_LE(STALL / 3, ahead);
	EXPECT_GE(STALL / 2 + STALL / 10, ahead);

	/* After more stall than that, both show the same total. */
	top = cpu_some(TOP);
	stall.begin = now_ns() + 100 * NSEC_PER_MSEC;
	stall.end = stall.begin + STALL;
	for (int i = 0; i < 2; i++)
		pid[i] = load_start(&load);
	sleep_until(stall.end + WINDOW);
	for (int i = 0; i < 2; i++)
		load_stop(pid[i]);
	EXPECT_LE(cpu_some(TOP), cpu_some(LEAF) + slack);
	EXPECT_GE(cpu_some(TOP), cpu_some(LEAF) - slack);
	EXPECT_LT(top + ahead, cpu_some(TOP));
	cgroup_remove(TOP);
}

/* ---- A sleeper in iowait ---- */

/* Shares of the time, in percent: io some, io full, and the reader's sleep. */
struct io_shares {
	double some;
	double full;
	double asleep;
};

/*
 * Measures a reader that starts on CPU 0 and moves to @cpu at once, while it
 * sleeps. The measurement begins after the window of the move.
 */
static void measure_io(const char *node, int cpu, struct io_shares *shares)
{
	struct reader *reader = shared_memory(sizeof(*reader));
	pid_t pid;

	*reader = (struct reader){
		.node = node,
		.flags = O_DIRECT,
		.begin = now_ns() + 5 * NSEC_PER_SEC / 2,
		.end = now_ns() + 7 * NSEC_PER_SEC,
	};
	pid = reader_start(reader, 0);
	if (try_pin(pid, cpu))
		psi_die("CPU %d takes no task", cpu);
	load_wait(pid);
	shares->some = 100.0 * reader->some / reader->elapsed;
	shares->full = 100.0 * reader->full / reader->elapsed;
	shares->asleep = 100.0 * reader->asleep / reader->elapsed;
	ksft_print_msg("io some %.3f %%, full %.3f %%, the reader is asleep for %.3f %%\n",
		       shares->some, shares->full, shares->asleep);
	munmap(reader, sizeof(*reader));
}

/*
 *     CPU 0   reader asleep   some 100 %   full 100 %
 *     CPU 1   spinner         some   0 %   full   0 %
 */
TEST_F_TIMEOUT(two_cpus, share_the_pressure_of_a_reader_beside_a_spinner, 600)
{
	pid_t spinner = spin_idle_on(1);
	struct io_shares shares;

	measure_io(self->disk.node, 0, &shares);
	EXPECT_GE(TOLERANCE, fabs(shares.some - shares.asleep / 2));
	EXPECT_GE(TOLERANCE, fabs(shares.full - shares.asleep / 2));
	load_stop(spinner);
}

/*
 *      CPU 0   idle
 *      CPU 1   spinner, reader that came asleep   some 100 %   full 0 %
 *
 * If the sleeper had stayed behind on CPU 0, full would be 50 %.
 */
TEST_F_TIMEOUT(two_cpus, count_a_sleeper_where_it_woke_up_last, 600)
{
	pid_t spinner = spin_idle_on(1);
	struct io_shares shares;

	measure_io(self->disk.node, 1, &shares);
	EXPECT_GE(TOLERANCE, fabs(shares.some - shares.asleep));
	EXPECT_GE(TOLERANCE, shares.full);
	load_stop(spinner);
}

TEST_HARNESS_MAIN
