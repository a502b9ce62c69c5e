// SPDX-License-Identifier: GPL-2.0
/*
 * How the CPUs of a machine add up to its pressure
 *
 * Invariant: in a window of 2 s, each CPU's stall counts in proportion to the time in which
 * that CPU had anything to do,
 *
 *     T = sum(stalled[cpu] * busy[cpu]) / sum(busy[cpu])
 *
 * so an idle CPU has no say, and a CPU with one spinner halves the pressure of a CPU
 * with two. A blocked task belongs to the CPU it last ran on, until it is woken on
 * another one. And windows end by the clock, not when somebody reads.
 *
 * What a reader sees of a window that is still open may turn out to be too much: CPUs that
 * are used later get their say. It is not taken back, but not shown twice either.
 *
 * What would break it: an idle CPU that dilutes, a weight in units too coarse to see a short
 * activity, a reader that ends the window, a sleeper that stays behind (or is counted on
 * two CPUs) when it wakes up elsewhere.
 *
 * These tests keep two CPUs busy. They do so in real time too: in virtual time emulators
 * let CPUs take turns, not always fair ones. So every expectation is computed from what
 * the CPUs themselves say they did (schedstat).
 *
 * Tolerance: 1 point. What waits beside the loads are the kernel's own threads, whose
 * waits are in the oracle, and both ends of the measurement on a busy host.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_trigger.h"
#include "psi_util.h"

#define MAX_SPINNERS	6
#define TOLERANCE	1.0
/* How far from a threshold a busy host cannot bring what a second of real time is. */
#define TRIGGER_MARGIN	15

/* ---- Spinners ---- */

FIXTURE(spinners) {
	pid_t pid[MAX_SPINNERS];
};

/*
 * @nr: spinners on CPU 0 and on CPU 1; @percent: what they make together
 */
FIXTURE_VARIANT(spinners) {
	int nr[2];
	double percent;
};

FIXTURE_VARIANT_ADD(spinners, one_on_each_cpu_do_not_wait) { .nr = { 1, 1 }, .percent = 0 };

FIXTURE_VARIANT_ADD(spinners, two_on_one_cpu_are_not_diluted_by_an_idle_one) {
	.nr = { 2, 0 },
	.percent = 100,
};

FIXTURE_VARIANT_ADD(spinners, two_on_each_cpu_are_a_full_stall) { .nr = { 2, 2 }, .percent = 100 };

FIXTURE_VARIANT_ADD(spinners, two_here_and_one_there_are_half_a_stall) {
	.nr = { 2, 1 },
	.percent = 50,
};

FIXTURE_VARIANT_ADD(spinners, one_here_and_three_there_are_half_a_stall) {
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
 * @busy: share of the time in which it had anything to do
 * @least: share in which a task waited, at least
 * @most: the same, at most
 *
 * With two spinners somebody waits all the time. A lone one waits as long as it says, and
 * kernel threads wait for it, or next to it while another one runs.
 */
struct cpu_shares {
	double busy;
	double least;
	double most;
};

/* A reading of a CPU's clock, and of its spinner's if it has just one. */
struct reading {
	struct cpu_clock cpu;
	__u64 spinner_wait;
};

static void take_reading(struct reading *reading, int cpu, int spinners, pid_t first)
{
	cpu_clock_read(cpu, &reading->cpu);
	reading->spinner_wait = spinners == 1 ? task_wait_ns(first) : 0;
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

/* A trigger for @percent of a second, or for an ordinary user of 2 s; -1 where there is none. */
static int arm_for(double percent, bool user)
{
	int seconds = user ? 2 : 1;
	char text[64];

	if (percent <= 0 || percent >= 100)
		return -1;
	snprintf(text, sizeof(text), "some %d %d", (int)(percent * 10000 * seconds),
		 1000000 * seconds);
	return user ? trigger_arm_user(PSI_CPU, text) : trigger_arm(PSI_CPU, text);
}

/* Whether it is not there, or as it should be; disarms it. */
static bool fired_as(int fd, bool fired)
{
	bool right = fd < 0 || trigger_fired(fd, 0) == fired;

	if (fd >= 0)
		close(fd);
	return right;
}

/*
 * The first window is one in which the load began: what it says is not looked at. Who
 * waits for less than there is gets events, who waits for more does not.
 */
TEST_F(spinners, add_up_and_fire_triggers_by_the_weights_of_their_cpus)
{
	const pid_t first[2] = { self->pid[0], self->pid[variant->nr[0]] };
	struct reading before[2], after[2];
	struct cpu_shares shares[2];
	double some, least, most;
	int less[2], more[2];
	__u64 start, total;

	sleep_for(5 * NSEC_PER_SEC / 2);
	for (int user = 0; user < 2; user++) {
		less[user] = arm_for(variant->percent - TRIGGER_MARGIN, user);
		more[user] = arm_for(variant->percent + TRIGGER_MARGIN, user);
	}
	start = now_ns();
	total = psi_some_ns(PSI_CPU);
	for (int cpu = 0; cpu < 2; cpu++)
		take_reading(&before[cpu], cpu, variant->nr[cpu], first[cpu]);
	sleep_for(4 * NSEC_PER_SEC);
	for (int cpu = 0; cpu < 2; cpu++)
		take_reading(&after[cpu], cpu, variant->nr[cpu], first[cpu]);
	total = psi_some_ns(PSI_CPU) - total;
	start = now_ns() - start;

	for (int cpu = 0; cpu < 2; cpu++)
		shares[cpu] = shares_between(&before[cpu], &after[cpu], start, variant->nr[cpu]);
	least = weigh(shares, shares[0].least, shares[1].least);
	most = weigh(shares, shares[0].most, shares[1].most);
	some = 100.0 * total / start;
	ksft_print_msg("cpu some %.3f %%, by the CPUs' clocks %.3f to %.3f %%\n", some, least,
		       most);
	/* The load is what it is meant to be, whatever else waited. */
	EXPECT_GE(5, fabs(least - variant->percent));
	EXPECT_GE(5, fabs(some - variant->percent));
	EXPECT_LE(least - TOLERANCE, some);
	EXPECT_GE(most + TOLERANCE, some);
	for (int user = 0; user < 2; user++) {
		EXPECT_TRUE(fired_as(less[user], true));
		EXPECT_TRUE(fired_as(more[user], false));
	}
}

/* ---- Bursts ---- */

/* Busy in every other second, from @arg on. */
static void burst(void *arg)
{
	__u64 next = *(__u64 *)arg;

	for (;; next += 2 * NSEC_PER_SEC) {
		sleep_until(next);
		spin_until(next + NSEC_PER_SEC);
	}
}

static void read_at_50_hz(void *arg)
{
	struct psi psi;

	for (__u64 next = now_ns();; next += 20 * NSEC_PER_MSEC) {
		sleep_until(next);
		psi_read(PSI_CPU, &psi);
	}
}

#define WINDOW		(2 * NSEC_PER_SEC + 200 * NSEC_PER_MSEC)
#define PERIODS		8

/**
 * struct bursts - what a stall next to bursts comes to, in percent of the time
 * @some: what the system says, at least and at most, as the stall begins and ends while its tasks
 *	are started and killed
 * @least: what it is when every window has a whole burst in it, and nobody else waits
 * @most: what it is when windows begin in the middle of a period, and all who wait do so one by one
 */
struct bursts {
	double some[2];
	double least;
	double most;
};

/*
 *     CPU 0   spinner, spinner   |stall|stall|stall|stall|
 *     CPU 1   bursts of 1 s      |busy |     |busy |     |
 *
 * A window of 2 s has a whole burst in it, so the weights are 1 and what CPU 1 was busy,
 * reader included, and the value must not depend on who reads. Windows that end at each
 * reading would see 100 and 50 % in turn, 75 % in the mean.
 *
 * What is read while a window is open is an estimate. It would be another one at the end than at
 * the beginning when a fold was late meanwhile, as on a busy host. So no window is open at either.
 * But the first one and the last one may have a part of a period each: for a second with the
 * burst and one without it that makes 1/6 s more, for other parts less.
 */
static void stall_next_to_bursts(bool read, struct bursts *result)
{
	const struct load reader = {
		.cpu = 1,
		.policy = SCHED_FIFO,
		.prio = 40,
		.fn = read_at_50_hz,
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

TEST_F_TIMEOUT(two_cpus, show_the_same_when_read_at_50_hz_and_unread, 100)
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
 *     CPU 0   spinner, spinner   |stall|     |           |
 *     CPU 1   spinner            |     |busy |           |
 *
 * When the window ends in the second after that, there were 250 ms of stall in it. Who
 * reads the leaf between the two saw 500 ms. The cgroup above it has the same stall, and is
 * read when all windows are over. Returns how much the leaf is ahead then.
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
 * Windows are 2 s long: of two rounds 5 s apart, one has its window end in the second
 * after the load. Folds of two cgroups are some us apart, hence the slack.
 */
TEST_F_TIMEOUT(two_cpus, catch_up_with_what_a_reader_saw_too_much_of, 60)
{
	__u64 begin, ahead, top, slack = NSEC_PER_MSEC;
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

	/* More stall than that: both show all there was. */
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

/* Shares of the time: io some, io full, and what the reader was asleep, in percent. */
struct io_shares {
	double some;
	double full;
	double asleep;
};

/*
 * A reader that starts on CPU 0 and is moved to @cpu at once, while it is asleep. It
 * measures when the window in which that happened is over.
 */
static void measure_io(const char *node, int cpu, struct io_shares *shares)
{
	struct reader *reader = shared_memory(sizeof(*reader));
	const struct load load = { .cpu = 0, .fn = read_blocks, .arg = reader };
	cpu_set_t set;
	pid_t pid;

	*reader = (struct reader){
		.node = node,
		.flags = O_DIRECT,
		.begin = now_ns() + 5 * NSEC_PER_SEC / 2,
		.end = now_ns() + 7 * NSEC_PER_SEC,
	};
	pid = load_start(&load);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pid, sizeof(set), &set))
		psi_die("sched_setaffinity: %s", strerror(errno));
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
TEST_F_TIMEOUT(two_cpus, share_the_pressure_of_a_reader_here_and_a_spinner_there, 60)
{
	pid_t spinner = spin_idle_on(1);
	struct io_shares shares;

	measure_io(self->disk.node, 0, &shares);
	EXPECT_GE(TOLERANCE, fabs(shares.some - shares.asleep / 2));
	EXPECT_GE(TOLERANCE, fabs(shares.full - shares.asleep / 2));
	load_stop(spinner);
}

/*
 *     CPU 0   idle
 *     CPU 1   spinner, reader that came asleep   some 100 %   full 0 %
 *
 * A sleeper left behind on CPU 0 would be 50 % full.
 */
TEST_F_TIMEOUT(two_cpus, see_a_sleeper_in_iowait_where_it_was_woken_last, 60)
{
	pid_t spinner = spin_idle_on(1);
	struct io_shares shares;

	measure_io(self->disk.node, 1, &shares);
	EXPECT_GE(TOLERANCE, fabs(shares.some - shares.asleep));
	EXPECT_GE(TOLERANCE, shares.full);
	load_stop(spinner);
}

TEST_HARNESS_MAIN
