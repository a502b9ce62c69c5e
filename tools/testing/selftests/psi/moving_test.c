// SPDX-License-Identifier: GPL-2.0
/*
 * Stalls that move between CPUs, and exact pressure
 *
 * Invariant: the total of io.exact.some grows by the integral of s(t) / n(t), where s CPUs
 * of the n in use have a stalled task. While one task at a time is there, s / n is 1 while
 * it is stalled and 0 while it works, however many CPUs it visits:
 *
 *     CPU 0        |-####-|
 *     CPU 1                |-####-|
 *     CPU 2                        |-####-|
 *     exact some     ####    ####    ####       two thirds, as on one CPU
 *     some                                      a third of that
 *
 * Two tasks on two CPUs that stall half of the time, at the same moments, are stalled for
 * half of the time; the plain file has that right, and both must agree.
 *
 * Bugs it would find: a time in use that is counted for each CPU; one that ends when any
 * CPU goes idle, or goes on when the last one does; a CPU that is missing because it joined
 * later, or because a group delegates there; stall from before the first read.
 *
 * The oracle is what the tasks were asleep, by their own clocks: they sleep for the disk
 * and nothing else. The disk (null_blk) answers by a timer of the guest.
 *
 * Tolerance: 1 point, for begin and end, and for what the test itself reads.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_stat.h"

#define LATENCY		(5 * NSEC_PER_MSEC)
#define WORK		(700 * NSEC_PER_USEC)
#define TIME		(12 * NSEC_PER_SEC)
#define MAX_MOVERS	2
#define TOLERANCE	1.0
#define GROUP		CGROUP_ROOT "/psi_moving"
/* The system, and a chain of cgroups. */
#define MAX_GROUPS	16

/**
 * struct mover - a load that reads and works in turn, and goes to another CPU now and then
 * @disk: what it reads
 * @cpus: it uses the CPUs below this
 * @first: the CPU it begins on
 * @period: how long it stays on one, in ns
 * @programs: on each CPU another program does it
 * @beat: it begins each round at a multiple of this, and works on until then; or 0
 * @nap: the end of that, in which it sleeps, in ns
 * @end: it stops
 * @asleep: how long it slept for the disk, in ns
 */
struct mover {
	const char *disk;
	int cpus;
	int first;
	__u64 period;
	bool programs;
	__u64 beat;
	__u64 nap;
	__u64 end;
	__u64 asleep;
};

/* Time in which the caller was not on a CPU. It has each CPU to itself: so it slept. */
static __u64 off_cpu_ns(void)
{
	struct timespec run;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &run);
	return now_ns() - (run.tv_sec * NSEC_PER_SEC + run.tv_nsec);
}

static void move_round(struct mover *mover, int fd, void *buf)
{
	__u64 asleep = off_cpu_ns(), next;

	if (pread(fd, buf, BLOCK, 0) != BLOCK)
		psi_die("the disk does not answer");
	mover->asleep += off_cpu_ns() - asleep;
	if (!mover->beat) {
		spin_until(now_ns() + WORK);
		return;
	}
	next = (now_ns() / mover->beat + 1) * mover->beat;
	spin_until(next - mover->nap);
	if (mover->nap)
		sleep_until(next);
}

/* Stay on a CPU for a period. */
static void move_stay(struct mover *mover, int cpu, int fd, void *buf)
{
	__u64 end = now_ns() + mover->period;

	pin_to(cpu);
	do {
		move_round(mover, fd, buf);
	} while (now_ns() < end && now_ns() < mover->end);
}

static void move_on(void *arg)
{
	struct mover *mover = arg;
	int cpu = mover->first, fd;
	pid_t pid;
	void *buf;

	fd = open_blocks(mover->disk, O_DIRECT, &buf);
	for (; now_ns() < mover->end; cpu = (cpu + 1) % mover->cpus) {
		pid = mover->programs ? fork_or_die() : 0;
		if (!pid)
			move_stay(mover, cpu, fd, buf);
		if (!pid && mover->programs)
			_exit(0);
		if (pid)
			reap_exit(pid);
	}
}

/* @file: of the groups whose exact pressure is asked for, the system first; @leaf: of the movers */
FIXTURE(moving) {
	struct slow_disk disk;
	struct mover *mover;
	char file[MAX_GROUPS][160];
	char leaf[128];
};

/* @row: in a table of several kernels; @nr: movers */
FIXTURE_VARIANT(moving) {
	const char *row;
	int cpus;
	int nr;
	__u64 period;
	bool programs;
	__u64 beat;
	__u64 nap;
};

FIXTURE_VARIANT_ADD(moving, reader_on_1_cpu) {
	.row = "a reader on 1 CPU",
	.cpus = 1,
	.nr = 1,
	.period = NSEC_PER_SEC,
};

FIXTURE_VARIANT_ADD(moving, reader_on_2_cpus_each_second) {
	.row = "a reader on 2 CPUs, another each second",
	.cpus = 2,
	.nr = 1,
	.period = NSEC_PER_SEC,
};

FIXTURE_VARIANT_ADD(moving, reader_on_8_cpus_each_second) {
	.row = "a reader on 8 CPUs, another each second",
	.cpus = 8,
	.nr = 1,
	.period = NSEC_PER_SEC,
};

FIXTURE_VARIANT_ADD(moving, reader_on_2_cpus_each_50_ms) {
	.row = "a reader on 2 CPUs, another each 50 ms",
	.cpus = 2,
	.nr = 1,
	.period = 50 * NSEC_PER_MSEC,
};

FIXTURE_VARIANT_ADD(moving, reader_on_8_cpus_each_50_ms) {
	.row = "a reader on 8 CPUs, another each 50 ms",
	.cpus = 8,
	.nr = 1,
	.period = 50 * NSEC_PER_MSEC,
};

FIXTURE_VARIANT_ADD(moving, reader_on_8_cpus_each_read) {
	.row = "a reader on 8 CPUs, another for each read",
	.cpus = 8,
	.nr = 1,
	.period = 1,
};

FIXTURE_VARIANT_ADD(moving, programs_on_2_cpus) {
	.row = "programs of 0.1 s on 2 CPUs",
	.cpus = 2,
	.nr = 1,
	.period = 100 * NSEC_PER_MSEC,
	.programs = true,
};

FIXTURE_VARIANT_ADD(moving, programs_on_8_cpus) {
	.row = "programs of 0.1 s on 8 CPUs",
	.cpus = 8,
	.nr = 1,
	.period = 100 * NSEC_PER_MSEC,
	.programs = true,
};

FIXTURE_VARIANT_ADD(moving, two_readers_at_the_same_moments) {
	.row = "two readers on 2 CPUs, at the same moments",
	.cpus = 2,
	.nr = 2,
	.period = TIME,
	.beat = 2 * LATENCY,
};

/*
 * They read for a quarter of the time, work for another, and sleep: then no CPU is in use. One
 * alone would not show it: it is in use for no longer than all CPUs together.
 */
FIXTURE_VARIANT_ADD(moving, two_readers_that_nap) {
	.row = "two readers on 2 CPUs that nap, at the same moments",
	.cpus = 2,
	.nr = 2,
	.period = TIME,
	.beat = 4 * LATENCY,
	.nap = 2 * LATENCY,
};

FIXTURE_SETUP(moving)
{
	cpus_use(variant->cpus);
	slow_disk_create(&self->disk, "psi_moving", LATENCY, 64);
	self->mover = shared_memory(MAX_MOVERS * sizeof(*self->mover));
	for (int i = 0; i < variant->nr; i++) {
		self->mover[i] = (struct mover){
			.disk = self->disk.node,
			.cpus = variant->cpus,
			.first = i,
			.period = variant->period,
			.programs = variant->programs,
			.beat = variant->beat,
			.nap = variant->nap,
		};
	}
	snprintf(self->file[0], sizeof(self->file[0]), "%s", PSI_STAT);
	snprintf(self->leaf, sizeof(self->leaf), "%s", GROUP);
	for (int i = 1; i < MAX_GROUPS; i++) {
		if (i > 1)
			strcat(self->leaf, "/a");
		cgroup_create(self->leaf, "");
		snprintf(self->file[i], sizeof(self->file[i]), "%s" CGROUP_STAT, self->leaf);
	}
}

FIXTURE_TEARDOWN(moving)
{
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

/* The movers do all they have to do. Returns the share in which they were stalled, in percent. */
static double move_all(struct mover *mover, int nr, const char *cgroup, __u64 *took)
{
	const struct load load = { .cpu = -1, .cgroup = cgroup, .fn = move_on };
	__u64 begin = now_ns(), asleep = 0;
	pid_t pid[MAX_MOVERS];

	for (int i = 0; i < nr; i++) {
		struct load each = load;

		mover[i].end = begin + TIME;
		mover[i].asleep = 0;
		each.arg = &mover[i];
		pid[i] = load_start(&each);
	}
	for (int i = 0; i < nr; i++) {
		load_wait(pid[i]);
		asleep += mover[i].asleep;
	}
	*took = now_ns() - begin;
	return 100.0 * asleep / nr / *took;
}

static double percent(__u64 before, __u64 after, __u64 ns)
{
	return 100.0 * (after - before) * NSEC_PER_USEC / ns;
}

/* A kernel without the statistics file has the plain ones to show. */
static void report_moving(const char *what, double stalled, double plain, double exact)
{
	char row[128];

	snprintf(row, sizeof(row), "a stall that moves: %s: share of time", what);
	if (exact < 0)
		report_row(row, "some %.1f, the tasks say %.1f", plain, stalled);
	else
		report_row(row, "exact some %.1f, some %.1f, the tasks say %.1f", exact, plain,
			   stalled);
}

/* What io.exact had so far, or grew by since @before, in us. */
static struct psi exact_since(const char *path, const struct psi *before)
{
	struct psi_stat stat;
	struct psi now;

	psi_stat_read(path, &stat);
	now = stat.of[RES_IO][KIND_EXACT];
	if (before) {
		now.some.total -= before->some.total;
		now.full.total -= before->full.total;
	}
	return now;
}

/* Exact pressure of the first @nr groups, asked for, against the tasks' own clocks. */
static void moving_check(struct __test_metadata *_metadata, FIXTURE_DATA(moving) * self,
			 const FIXTURE_VARIANT(moving) * variant, int nr)
{
	double stalled, plain, exact[MAX_GROUPS] = { -1 }, all;
	struct psi grown[MAX_GROUPS];
	__u64 before, took;

	for (int i = 0; i < nr; i++)
		exact_since(self->file[i], NULL);
	/*
	 * CPUs that went offline are in use no more; the window of the plain file has ended, and
	 * so has the one in which exact pressure was asked for.
	 */
	sleep_for(3 * NSEC_PER_SEC);
	for (int i = 0; i < nr; i++)
		grown[i] = exact_since(self->file[i], NULL);
	before = psi_some_ns(PSI_IO) / NSEC_PER_USEC;
	stalled = move_all(self->mover, variant->nr, self->leaf, &took);
	plain = percent(before, psi_some_ns(PSI_IO) / NSEC_PER_USEC, took);
	for (int i = 0; i < nr; i++) {
		grown[i] = exact_since(self->file[i], &grown[i]);
		exact[i] = percent(0, grown[i].some.total, took);
	}
	/* An emulator lets CPUs that work at the same time take turns: no clock of a task tells. */
	if (variant->nr > 1)
		stalled = plain;
	if (nr <= 1)
		report_moving(variant->row, stalled, plain, exact[0]);
	ASSERT_NE(0, nr);
	for (int i = 0; i < nr; i++) {
		all = percent(0, grown[i].full.total, took);
		EXPECT_LE(stalled - TOLERANCE, exact[i])
			TH_LOG("%d asked, %s: %.2f %%, tasks %.2f %%", nr, self->file[i], exact[i],
			       stalled);
		EXPECT_GE(stalled + TOLERANCE, exact[i])
			TH_LOG("%d asked, %s: %.2f %%, tasks %.2f %%", nr, self->file[i], exact[i],
			       stalled);
		/* Nothing else runs on a CPU whose only task sleeps. */
		EXPECT_LE(exact[i] - TOLERANCE, all)
			TH_LOG("%d asked, %s: full %.2f %%, some %.2f %%", nr, self->file[i], all,
			       exact[i]);
		/* Each of the two totals is rounded down, before and after. */
		EXPECT_GE(grown[i].some.total + 1, grown[i].full.total);
	}
}

/* Of the system alone, then of more and more groups: what is asked stays so for five minutes. */
TEST_F_TIMEOUT(moving, exact_some_is_what_the_tasks_say, 240)
{
	moving_check(_metadata, self, variant, access(PSI_STAT, F_OK) ? 0 : 1);
	moving_check(_metadata, self, variant, 4);
	moving_check(_metadata, self, variant, MAX_GROUPS);
}

/* ---- Triggers ---- */

FIXTURE(moving_trigger) {
	struct slow_disk disk;
	struct mover *mover;
};

FIXTURE_SETUP(moving_trigger)
{
	cpus_use(8);
	slow_disk_create(&self->disk, "psi_moving", LATENCY, 64);
	self->mover = shared_memory(sizeof(*self->mover));
	*self->mover = (struct mover){
		.disk = self->disk.node,
		.cpus = 8,
		.period = 50 * NSEC_PER_MSEC,
	};
	cgroup_create(GROUP, "");
	cgroup_create(GROUP "/a", "");
	cgroup_create(GROUP "/a/b", "");
}

FIXTURE_TEARDOWN(moving_trigger)
{
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

/* The reader is stalled for 860 ms of each second. */
TEST_F_TIMEOUT(moving_trigger, of_exact_some_fires_once_in_a_window, 240)
{
	static const char * const files[] = {
		PSI_DIR "/io", GROUP "/a/io.pressure", PSI_STAT, GROUP "/a" CGROUP_STAT,
		PSI_STAT, GROUP "/a/b" CGROUP_STAT,
	};
	const int nr = ARRAY_SIZE(files), exact = 2, high = 4;
	int fd[6], events[6] = { };
	__u64 took;
	pid_t pid;

	for (int i = 0; i < nr; i++)
		fd[i] = trigger_arm(files[i], "%s %d 1000000", i < exact ? "some" : "io.exact.some",
				    i < high ? 700000 : 930000);
	pid = fork_or_die();
	if (!pid) {
		move_all(self->mover, 1, GROUP "/a/b", &took);
		_exit(0);
	}
	for (__u64 end = now_ns() + TIME; now_ns() < end; sleep_for(100 * NSEC_PER_MSEC))
		for (int i = 0; i < nr; i++)
			events[i] += trigger_fired(fd[i], 0);
	for (int i = 0; i < nr; i++) {
		bool fires = i >= exact && i < high;

		EXPECT_LE(fires ? 10 : 0, events[i])
			TH_LOG("%s: %d events", files[i], events[i]);
		EXPECT_GE(fires ? 12 : 0, events[i])
			TH_LOG("%s: %d events", files[i], events[i]);
		close(fd[i]);
	}
	EXPECT_EQ(0, reap_exit(pid));
}

/* What stalled before it was armed is none of its business. */
TEST_F_TIMEOUT(moving_trigger, of_exact_some_ignores_the_past, 120)
{
	__u64 took;
	int fd;

	psi_stat_ask(PSI_STAT);
	move_all(self->mover, 1, GROUP "/a/b", &took);
	fd = trigger_arm(PSI_STAT, "io.exact.some 100000 10000000");
	EXPECT_FALSE(trigger_fired(fd, 3000));
	close(fd);
}

TEST_F(moving_trigger, names_resource_and_kind_in_the_statistics_file_and_only_there)
{
	int stat = trigger_open(PSI_STAT), plain = trigger_open(PSI_DIR "/io");

	EXPECT_EQ(EINVAL, trigger_set(stat, "some 150000 1000000"));
	EXPECT_EQ(EINVAL, trigger_set(stat, "exact.some 150000 1000000"));
	EXPECT_EQ(EINVAL, trigger_set(plain, "exact.some 150000 1000000"));
	EXPECT_EQ(EINVAL, trigger_set(plain, "io.exact.some 150000 1000000"));
	EXPECT_EQ(EINVAL, trigger_set(plain, "io.some 150000 1000000"));
	EXPECT_EQ(0, trigger_set(stat, "io.exact.full 150000 1000000"));
	EXPECT_EQ(EBUSY, trigger_set(stat, "io.exact.some 150000 1000000"));
	close(stat);
	close(plain);
}

TEST_HARNESS_MAIN
