// SPDX-License-Identifier: GPL-2.0
/*
 * Causes of memory stalls
 *
 * Invariants:
 *  - The sum over all causes is the time that tasks spent in memory stalls. A
 *    task that is alone in its group, on one CPU, stalls as long as memory
 *    "some" of the group holds.
 *  - The line of a cause has what the task's own clock says: delay accounting
 *    for waits and reclaim, CLOCK_MONOTONIC for a sleep above memory.high.
 *  - A stall is in the lines of the group that the task is in at its end, and
 *    of all above, also after that group has been removed. It is in no other.
 *
 *     task                 run | refault | run | reclaim_limit | refault | run
 *     memory some              |#########|     |#########################|
 *     sum over the causes           =                    =
 *
 * Bugs it would find: a section with a wrong cause; a nested section that is
 * counted on its own; a stall that is counted twice, or not at all, when the
 * task moves; a longest stall that is the latest one; lines that go with a
 * cgroup.
 *
 * Method: a load in the group sleeps before and after its span. The test reads
 * all files and clocks while it does.
 *
 * Tolerance: 0.1 % for what is compared with the clocks of tasks. The disk
 * takes 20 ms for a read, and the machine 4 ns for an instruction, so some
 * hundred instructions around a wait are below that. Files show microseconds:
 * 1 us for each line, and for each file. The longest of some hundred stalls is
 * the one that a tick and its softirqs hit at its end: INTERRUPTS.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/swap.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_causes.h"
#include "psi_stat.h"
#include "psi_swap.h"
#include "psi_work.h"

#define GROUP		"/sys/fs/cgroup/psi_causes"
#define CHILD		GROUP "/child"
#define OTHER		GROUP "/other"
#define LATENCY		(20 * NSEC_PER_MSEC)
#define INTERRUPTS	(200 * NSEC_PER_USEC)
#define DISK_MB		64
#define LIMIT		"3145728"
#define WORKING_SET	(5UL << 20)
#define SPAN		(60 * NSEC_PER_SEC)
#define PAUSE		(200 * NSEC_PER_MSEC)
#define TOLERANCE	0.001
/* Requests a second. */
#define BUDGET		10
/* It takes so long, at most, to begin a sleep in a stall, and to end it. */
#define AROUND		(50 * NSEC_PER_USEC)
/* A section of reclaim is longer than the delay in it, by 5 us. */
#define SECTION		(8 * NSEC_PER_USEC)
#define ROUNDING	((NR_CAUSES + 1) * NSEC_PER_USEC)

/**
 * struct measured - what a group and its only task did
 * @causes: of the group
 * @some: memory some of the group, in ns
 * @system: causes of the system
 * @clock: of the task
 */
struct measured {
	struct causes causes;
	__u64 some;
	struct causes system;
	struct task_clock clock;
};

static void measure_begin(struct measured *m, pid_t pid)
{
	task_clock_read(pid, &m->clock);
	causes_read(GROUP CGROUP_STAT, &m->causes);
	causes_read(PSI_STAT, &m->system);
	m->some = psi_some_ns(GROUP "/memory.pressure");
}

static void measure_end(struct measured *m, pid_t pid)
{
	struct causes all;

	m->clock = task_clock_since(pid, &m->clock);
	causes_read(GROUP CGROUP_STAT, &all);
	if (causes_contradiction(&all))
		psi_die("the line of %s contradicts itself", causes_contradiction(&all));
	m->causes = causes_since(GROUP CGROUP_STAT, &m->causes);
	m->system = causes_since(PSI_STAT, &m->system);
	m->some = psi_some_ns(GROUP "/memory.pressure") - m->some;
	causes_print(&m->causes);
	ksft_print_msg("some %.6f s, the task reclaimed %.6f s, thrashed %.6f s, ran %.6f s\n",
		       m->some / 1e9, m->clock.reclaim / 1e9, m->clock.thrash / 1e9,
		       m->clock.run / 1e9);
}

/* The sum over all causes is the time in stalls, of the group and in the system. */
static void expect_sum(struct __test_metadata *_metadata, const struct measured *m)
{
	EXPECT_LE(m->some, m->causes.total + ROUNDING);
	EXPECT_LE(m->causes.total, m->some + ROUNDING);
	for (int c = 0; c < NR_CAUSES; c++)
		EXPECT_LE(m->causes.line[c].total, m->system.line[c].total + NSEC_PER_USEC);
}

/* All stalls have one of these causes: a bit mask. */
static void expect_only(struct __test_metadata *_metadata, const struct measured *m,
			unsigned int causes)
{
	for (int c = 0; c < NR_CAUSES; c++)
		EXPECT_EQ(!!(causes & 1 << c), !!m->causes.line[c].count);
}

static void expect_near(struct __test_metadata *_metadata, double want, double got)
{
	EXPECT_LE(want * (1 - TOLERANCE), got);
	EXPECT_GE(want * (1 + TOLERANCE), got);
}

/* Uses anonymous memory in random order: @arg is a struct span. */
static void use_anon(void *arg)
{
	const struct span *span = arg;
	char *mem = private_memory(WORKING_SET);
	__u32 state = 2463534242U;

	sleep_until(span->begin);
	while (now_ns() < span->end) {
		state = state * 1664525 + 1013904223;
		mem[(state >> 8) % WORKING_SET] += 1;
	}
	sleep_forever();
}

/* Writes anonymous memory once, and never reads it: @arg is a struct sleeper in shared memory. */
static void fill_anon(void *arg)
{
	struct sleeper *task = arg;
	char *mem = private_memory(DISK_MB << 20);

	sleep_until(task->span.begin);
	for (size_t pos = 0; pos < (DISK_MB - 1) << 20 && now_ns() < task->span.end; pos += BLOCK)
		mem[pos] = 1;
	task->ended = now_ns();
	sleep_forever();
}

/* Reads blocks of 64 kB in random order: @arg is a struct thrasher. */
static void read_ahead(void *arg)
{
	static char buf[64 << 10];
	const struct thrasher *t = arg;
	__u32 state = 2463534242U;
	int fd = open_file(t->node, O_RDONLY);

	sleep_until(t->span.begin);
	while (now_ns() < t->span.end) {
		state = state * 1664525 + 1013904223;
		if (pread(fd, buf, sizeof(buf), (state >> 8) % (WORKING_SET / sizeof(buf)) *
			  sizeof(buf)) != sizeof(buf))
			psi_die("%s: %s", t->node, strerror(errno));
	}
	sleep_forever();
}

FIXTURE(causes) {
	struct slow_disk disk;
	struct span span;
	struct thrasher thrasher;
	struct sleeper *swapper;
	struct throttled *throttled;
};

FIXTURE_SETUP(causes)
{
	if (!causes_known())
		SKIP(return, "this kernel does not tell causes");
	cpus_use(1);
	task_delays_on();
	slow_disk_create(&self->disk, "psi_causes", LATENCY, DISK_MB);
	cgroup_create(GROUP, "+memory");
	self->span.begin = now_ns() + 2 * PAUSE;
	self->span.end = self->span.begin + SPAN;
	self->thrasher = (struct thrasher){ self->disk.node, self->span };
	self->swapper = shared_memory(sizeof(*self->swapper));
	self->swapper->span = self->span;
	self->throttled = shared_memory(sizeof(*self->throttled));
	self->throttled->size = 32 << 20;
	self->throttled->begin = self->span.begin;
}

FIXTURE_TEARDOWN(causes)
{
	cgroup_remove(GROUP);
	swapoff(self->disk.node);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

static pid_t start_in(const char *cgroup, void (*fn)(void *arg), void *arg)
{
	const struct load load = { .cpu = 0, .cgroup = cgroup, .fn = fn, .arg = arg };

	return load_start(&load);
}

/* Runs a load in the group and measures what it does in its span. */
static void run_load(FIXTURE_DATA(causes) * self, struct measured *m, void (*fn)(void *arg),
		     void *arg)
{
	pid_t pid = start_in(GROUP, fn, arg);

	sleep_until(self->span.begin - PAUSE);
	measure_begin(m, pid);
	/* The last read or fault may begin at the end of the span. */
	sleep_until(self->span.end + PAUSE + 20 * LATENCY);
	measure_end(m, pid);
	load_stop(pid);
}

TEST_F_TIMEOUT(causes, wait_for_evicted_pages_of_a_file_is_refault, 300)
{
	struct measured m;

	cgroup_write(GROUP, "memory.max", LIMIT);
	run_load(self, &m, thrash, &self->thrasher);
	ASSERT_LT(NSEC_PER_SEC, m.clock.thrash);
	expect_sum(_metadata, &m);
	/* It takes no time to submit a read to this disk. */
	expect_only(_metadata, &m, 1 << REFAULT | 1 << RECLAIM_LIMIT | 1 << READAHEAD);
	expect_near(_metadata, m.clock.thrash, m.causes.line[REFAULT].total);
	EXPECT_LE(m.clock.reclaim, m.causes.line[RECLAIM_LIMIT].total);
	/* The longest is a wait for the disk. */
	EXPECT_LE(LATENCY, m.causes.line[REFAULT].max);
	EXPECT_GE(LATENCY + INTERRUPTS, m.causes.line[REFAULT].max);
}

TEST_F_TIMEOUT(causes, wait_for_swapped_memory_is_swapin, 300)
{
	const struct cause_line *reclaim;
	struct measured m;

	swap_on(self->disk.node, DISK_MB);
	cgroup_write(GROUP, "memory.max", LIMIT);
	run_load(self, &m, use_anon, &self->span);
	ASSERT_LT(NSEC_PER_SEC, m.clock.thrash);
	expect_sum(_metadata, &m);
	expect_only(_metadata, &m, 1 << SWAPIN | 1 << RECLAIM_LIMIT);
	reclaim = &m.causes.line[RECLAIM_LIMIT];
	expect_near(_metadata, m.clock.thrash, m.causes.line[SWAPIN].total);
	/* The kernel decides how many of these are long and wait for the disk. */
	EXPECT_LE(m.clock.reclaim * (1 - TOLERANCE), reclaim->total);
	EXPECT_GE(m.clock.reclaim * (1 + TOLERANCE) + reclaim->count * SECTION, reclaim->total);
}

/* The disk takes one request at a time, so submitting several means waiting for it. */
TEST_F_TIMEOUT(causes, submission_of_evicted_ranges_is_readahead, 300)
{
	struct measured m;

	slow_disk_queue(&self->disk, 1);
	cgroup_write(GROUP, "memory.max", LIMIT);
	run_load(self, &m, read_ahead, &self->thrasher);
	expect_sum(_metadata, &m);
	expect_only(_metadata, &m, 1 << REFAULT | 1 << RECLAIM_LIMIT | 1 << READAHEAD);
}

/*
 * Reclaim swaps out more than the disk may take, so its task is in debt to iocost, and sleeps for
 * that on its way back to user space. Apart from that it may sleep in reclaim, and nowhere else.
 */
TEST_F_TIMEOUT(causes, debt_for_swapping_out_is_throttle, 300)
{
	struct sleeper *task = self->swapper;
	const struct cause_line *throttle;
	struct measured m;
	__u64 asleep, limit;

	cgroup_create(GROUP, "+memory +io");
	swap_on(self->disk.node, DISK_MB);
	slow_disk_budget(&self->disk, BUDGET);
	cgroup_write(GROUP, "memory.max", LIMIT);
	limit = psi_stat_total(GROUP CGROUP_STAT, "io.limit.some");
	run_load(self, &m, fill_anon, task);
	limit = psi_stat_total(GROUP CGROUP_STAT, "io.limit.some") - limit;
	slow_disk_budget(&self->disk, 0);
	ASSERT_NE(0, task->ended);
	throttle = &m.causes.line[THROTTLE];
	ASSERT_LT(NSEC_PER_SEC, throttle->total);
	expect_sum(_metadata, &m);
	expect_only(_metadata, &m, 1 << RECLAIM_LIMIT | 1 << THROTTLE);
	asleep = task->ended - task->span.begin - m.clock.run - m.clock.irq - m.clock.wait;
	EXPECT_LE(throttle->total, asleep + throttle->count * AROUND);
	EXPECT_LE(asleep * (1 - TOLERANCE), throttle->total + m.causes.line[RECLAIM_LIMIT].total);
	/* The budget is a limit of io, too. That ends as the task wakes up, and the stall later. */
	EXPECT_LE(throttle->total * 0.9, limit * NSEC_PER_USEC);
}

/*
 * The kernel puts the task to sleep when it cannot free what is above the
 * limit. It sleeps nowhere else.
 */
TEST_F_TIMEOUT(causes, time_above_memory_high_is_high, 300)
{
	const struct throttled *task = self->throttled;
	struct measured m;
	__u64 asleep;

	cgroup_write(GROUP, "memory.high", LIMIT);
	run_load(self, &m, take_memory, self->throttled);
	ASSERT_NE(0, task->stall_end);
	expect_sum(_metadata, &m);
	expect_only(_metadata, &m, 1 << HIGH);
	asleep = task->stall_end - task->begin - m.clock.run - m.clock.irq - m.clock.wait;
	expect_near(_metadata, asleep + m.clock.reclaim, m.causes.line[HIGH].total);
}

/* The stalls of a removed cgroup stay in the lines of those above. */
TEST_F_TIMEOUT(causes, lines_have_descendants_also_removed_ones, 300)
{
	struct causes child, before, after, other;
	pid_t pid;

	cgroup_write(GROUP, "memory.max", LIMIT);
	cgroup_create(CHILD, "");
	cgroup_create(OTHER, "");
	pid = start_in(CHILD, thrash, &self->thrasher);
	sleep_until(self->span.end + PAUSE);
	causes_read(CHILD CGROUP_STAT, &child);
	causes_read(OTHER CGROUP_STAT, &other);
	load_stop(pid);
	causes_read(GROUP CGROUP_STAT, &before);
	cgroup_remove(CHILD);
	sleep_for(NSEC_PER_SEC);
	causes_read(GROUP CGROUP_STAT, &after);
	causes_print(&child);
	ASSERT_LT(NSEC_PER_SEC, child.line[REFAULT].total);
	EXPECT_EQ(0, memcmp(&child, &before, sizeof(child)));
	EXPECT_EQ(0, memcmp(&child, &after, sizeof(child)));
	EXPECT_EQ(0, other.total);
}

/* A stall belongs to the cgroup in which it ends, all of it. */
TEST_F_TIMEOUT(causes, stall_of_a_task_that_moves_belongs_to_where_it_ends, 300)
{
	struct throttled *task = self->throttled;
	struct causes from, to;
	__u64 moved;
	pid_t pid;

	cgroup_create(CHILD, "");
	cgroup_create(OTHER, "");
	cgroup_write(GROUP, "memory.high", LIMIT);
	pid = start_in(CHILD, take_memory, task);
	/* Sleeps above the limit get longer. With the first of over a second the load ends. */
	do {
		sleep_for(10 * NSEC_PER_MSEC);
	} while (!task->stall_begin || now_ns() < task->stall_begin + NSEC_PER_SEC);
	moved = now_ns();
	cgroup_move(OTHER, pid);
	do {
		sleep_for(10 * NSEC_PER_MSEC);
	} while (!task->stall_end);
	causes_read(CHILD CGROUP_STAT, &from);
	causes_read(OTHER CGROUP_STAT, &to);
	load_stop(pid);
	causes_print(&from);
	causes_print(&to);
	EXPECT_GT(NSEC_PER_SEC, from.line[HIGH].max);
	EXPECT_EQ(1, to.line[HIGH].count);
	EXPECT_LT(task->stall_end - moved + 2 * NSEC_PER_SEC / 3, to.line[HIGH].max);
	EXPECT_GE(task->stall_end - task->stall_begin, to.line[HIGH].max);
}

/* Whatever the moment of each move: nothing is lost, nothing counts twice. */
TEST_F_TIMEOUT(causes, moves_lose_no_stall, 300)
{
	static const char * const where[] = { CHILD, OTHER };
	struct causes sum[2];
	struct measured m;
	int moves = 0;
	pid_t pid;

	cgroup_write(GROUP, "memory.max", LIMIT);
	cgroup_create(CHILD, "");
	cgroup_create(OTHER, "");
	cgroup_moves_are_fast();
	pid = start_in(CHILD, thrash, &self->thrasher);
	sleep_until(self->span.begin - PAUSE);
	measure_begin(&m, pid);
	for (; now_ns() < self->span.end - PAUSE; moves++) {
		sleep_for((moves * 7919 % 47 + 1) * NSEC_PER_MSEC);
		cgroup_move(where[moves % 2], pid);
	}
	sleep_until(self->span.end + PAUSE + 20 * LATENCY);
	measure_end(&m, pid);
	for (int i = 0; i < 2; i++)
		causes_read(i ? OTHER CGROUP_STAT : CHILD CGROUP_STAT, &sum[i]);
	load_stop(pid);
	ksft_print_msg("%d moves\n", moves);
	for (int c = 0; c < NR_CAUSES; c++) {
		const struct cause_line *all = &m.causes.line[c];

		EXPECT_EQ(all->count, sum[0].line[c].count + sum[1].line[c].count);
		EXPECT_LE(all->total, sum[0].line[c].total + sum[1].line[c].total +
				      2 * NSEC_PER_USEC);
		EXPECT_GE(all->total + 2 * NSEC_PER_USEC,
			  sum[0].line[c].total + sum[1].line[c].total);
	}
	ASSERT_NE(0, sum[0].line[REFAULT].count);
	ASSERT_NE(0, sum[1].line[REFAULT].count);
	expect_near(_metadata, m.clock.thrash, m.causes.line[REFAULT].total);
}

TEST_HARNESS_MAIN
