// SPDX-License-Identifier: GPL-2.0
/*
 * Limit or shortage: memory and io
 *
 * Invariant: a task that stalls on memory, or waits for io, is held by a limit or
 * there is a shortage; which of the two is the same for its cgroup, for those
 * above, and for the system. A cgroup at memory.max or memory.high of a machine
 * with free memory has limits only, also where it waits for a page that a limit
 * had evicted. A machine without free memory and without limits has shortage only.
 * Io that io.max holds back is a limit, and so is waiting for a budget of iocost, or
 * for a slot of the disk that io.latency leaves to others; also where a worker
 * submits it, and for a task of another cgroup that waits for it.
 *
 *     task at memory.max   run | reclaim | page back in | run | reclaim | ...
 *     limit some               |########################|     |#########|
 *     shortage some
 *
 * Oracle: each load stalls for one reason, so one class is the plain pressure, and
 * the other is nothing. The plain pressure is tested elsewhere. Under io.latency each
 * read waits for a slot, then for the disk: a task's own clock tells how long it
 * slept, and SLOW of that for each read was the disk.
 *
 * Bugs it would find: a refault that forgets why its page was evicted; a class that
 * the task has and a cgroup above does not show; a wait for writeback, or for a
 * request of io_uring, that forgets the limit; a class that is left over when the
 * limit is gone; a task that stays without class after it moved.
 *
 * Tolerance: CLASS percent of the time. What a limit lets through at
 * once waits for the disk: reads at a limit of RATE a second do so for DISK percent.
 * For io of another cgroup IDLE_DISK percent: the disk is the faster the higher the limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_stat.h"
#include "psi_swap.h"
#include "psi_uring.h"
#include "psi_work.h"

#define GROUP		CGROUP_ROOT "/psi_class"
#define LEAF		GROUP "/leaf"
#define OTHER		GROUP "/other"
#define LIMIT		"3145728"
#define DISK_MB		96
#define LATENCY		(200 * NSEC_PER_USEC)
#define WARM		(3 * NSEC_PER_SEC)
#define TIME		(5 * NSEC_PER_SEC)
#define CLASS		0.1
#define RATE		10
#define DISK		(100.0 * RATE * LATENCY / NSEC_PER_SEC)
/* What a machine that is short of memory has left, and what its task reads again and again. */
#define ROOM		(32UL << 20)
#define WORKING_SET	(64UL << 20)

enum class { BY_LIMIT, BY_SHORTAGE };

static const char * const groups[] = { NULL, GROUP, LEAF };

/* All groups show at least @least percent, of this class alone. */
static void expect_class(struct __test_metadata *_metadata, const char *resource,
			 enum class class, double least)
{
	double most = CLASS + (!strcmp(resource, "io") && class == BY_LIMIT ? DISK : 0);
	struct classes c[3];

	classes_measure(groups, resource, TIME, c);
	for (int i = 0; i < 3; i++) {
		const char *group = groups[i] ?: "the system";
		double limit = c[i].limit[0], shortage = c[i].shortage[0];

		ksft_print_msg("%s: %s some %.3f %%: limit %.3f, shortage %.3f\n", group, resource,
			       c[i].plain[0], limit, shortage);
		EXPECT_EQ(NULL, classes_contradiction(&c[i], TIME))
			TH_LOG("%s: %s", group, classes_contradiction(&c[i], TIME));
		EXPECT_LE(least, c[i].plain[0]);
		EXPECT_GE(most, class == BY_LIMIT ? shortage : limit)
			TH_LOG("%s: limit %.3f %%, shortage %.3f %%", group, limit, shortage);
		EXPECT_GE(most, fabs((class == BY_LIMIT ? limit : shortage) - c[i].plain[0]))
			TH_LOG("%s: limit %.3f %%, shortage %.3f %%", group, limit, shortage);
	}
}

/* ---- Memory ---- */

FIXTURE(memory) {
	struct slow_disk disk;
	struct thrasher thrasher;
	struct throttled *throttled;
	pid_t pid[2];
};

FIXTURE_SETUP(memory)
{
	cpus_use(1);
	slow_disk_create(&self->disk, "psi_class", LATENCY, DISK_MB);
	cgroup_create(GROUP, "+memory");
	cgroup_create(LEAF, "");
	classes_ask(groups, ARRAY_SIZE(groups));
	self->thrasher = (struct thrasher){ self->disk.node, { 0, ~0ULL } };
	self->throttled = shared_memory(sizeof(*self->throttled));
	self->throttled->size = 64 << 20;
}

FIXTURE_TEARDOWN(memory)
{
	for (int i = 0; i < 2; i++)
		if (self->pid[i])
			load_stop(self->pid[i]);
	cgroup_remove(GROUP);
	swapoff(self->disk.node);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

static pid_t start(void (*fn)(void *arg), void *arg)
{
	const struct load load = { .cpu = 0, .cgroup = LEAF, .fn = fn, .arg = arg };
	pid_t pid = load_start(&load);

	sleep_for(WARM);
	return pid;
}

/* Touches as much memory as @arg says, in random order. */
static void touch_memory(void *arg)
{
	size_t size = *(size_t *)arg;
	char *mem = private_memory(size);
	__u32 state = 2463534242U;

	for (;;) {
		state = state * 1664525 + 1013904223;
		mem[(state >> 8) % size] += 1;
	}
}

TEST_F_TIMEOUT(memory, at_memory_max_is_a_limit, 200)
{
	cgroup_write(GROUP, "memory.max", LIMIT);
	self->pid[0] = start(thrash, &self->thrasher);
	expect_class(_metadata, "memory", BY_LIMIT, 10);
}

TEST_F_TIMEOUT(memory, at_memory_max_with_swap_is_a_limit, 200)
{
	size_t size = 5 << 20;

	swap_on(self->disk.node, DISK_MB);
	cgroup_write(GROUP, "memory.max", LIMIT);
	self->pid[0] = start(touch_memory, &size);
	expect_class(_metadata, "memory", BY_LIMIT, 10);
}

TEST_F_TIMEOUT(memory, above_memory_high_is_a_limit, 200)
{
	size_t size = 32 << 20;

	cgroup_write(GROUP, "memory.high", LIMIT);
	self->pid[0] = start(touch_memory, &size);
	expect_class(_metadata, "memory", BY_LIMIT, 10);
}

static void reclaim_forever(void *arg)
{
	for (;;) {
		/* So little that pages are in use again before they go. */
		cgroup_try_write(GROUP, "memory.reclaim", "128K");
		sleep_for(50 * NSEC_PER_MSEC);
	}
}

/* Who writes to memory.reclaim takes the pages, not the machine. */
TEST_F_TIMEOUT(memory, evicted_by_memory_reclaim_is_a_limit, 200)
{
	const struct load load = { .cpu = 0, .fn = reclaim_forever };

	self->pid[0] = start(thrash, &self->thrasher);
	self->pid[1] = load_start(&load);
	sleep_for(WARM);
	expect_class(_metadata, "memory", BY_LIMIT, 5);
}

/* It sleeps above memory.high of the one, and goes on to sleep in the other. */
TEST_F_TIMEOUT(memory, class_moves_with_its_task, 200)
{
	struct throttled *task = self->throttled;
	const struct load load = { .cpu = 0, .cgroup = LEAF, .fn = take_memory, .arg = task };
	struct classes c;
	__u64 begin;

	cgroup_create(OTHER, "");
	/* A cgroup without tasks is measured from that moment on. */
	classes_read(OTHER, "memory", &c);
	cgroup_write(GROUP, "memory.high", LIMIT);
	self->pid[0] = load_start(&load);
	/* Sleeps above the limit get longer, up to 2 s. */
	while (!task->stall_begin || now_ns() < task->stall_begin + NSEC_PER_SEC)
		sleep_for(10 * NSEC_PER_MSEC);
	cgroup_move(OTHER, self->pid[0]);
	classes_read(OTHER, "memory", &c);
	begin = now_ns();
	sleep_for(200 * NSEC_PER_MSEC);
	classes_since(OTHER, "memory", now_ns() - begin, &c);
	ASSERT_LE(99, c.plain[0]);
	EXPECT_LE(99, c.limit[0]);
	EXPECT_GE(CLASS, c.shortage[0]);
}

/* What a limit evicted is read back in without a limit, then it stays. */
TEST_F_TIMEOUT(memory, limit_that_is_lifted_holds_nobody, 200)
{
	struct classes c[3];
	__u64 ran;

	cgroup_write(GROUP, "memory.max", LIMIT);
	self->pid[0] = start(thrash, &self->thrasher);
	expect_class(_metadata, "memory", BY_LIMIT, 10);
	cgroup_write(GROUP, "memory.max", "max");
	sleep_for(WARM);
	ran = task_busy_ns(self->pid[0]);
	classes_measure(groups, "memory", TIME, c);
	/* It goes on all the time. */
	EXPECT_LE(0.95 * TIME, task_busy_ns(self->pid[0]) - ran);
	for (int i = 0; i < 3; i++) {
		EXPECT_GE(0.001, c[i].limit[0]);
		EXPECT_GE(0.001, c[i].plain[0]);
	}
}

/* Reads pages of a disk in random order, more than the machine has room for. */
static void read_much(void *arg)
{
	__u32 state = 2463534242U;
	int fd = open_file(arg, O_RDONLY);
	char byte;

	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (;;) {
		state = state * 1664525 + 1013904223;
		if (pread(fd, &byte, 1, (state >> 8) % (WORKING_SET / BLOCK) * BLOCK) != 1)
			psi_die("%s: %s", (char *)arg, strerror(errno));
	}
}

TEST_F_TIMEOUT(memory, of_a_machine_without_room_is_a_shortage, 300)
{
	self->pid[0] = memory_take(ROOM);
	self->pid[1] = start(read_much, self->disk.node);
	/* Until all of it was read, nothing comes back in. */
	sleep_for(4 * WARM);
	expect_class(_metadata, "memory", BY_SHORTAGE, 10);
}

/* ---- Io ---- */

static void read_direct(void *arg)
{
	struct reader reader = { .node = arg, .flags = O_DIRECT, .end = ~0ULL };

	read_blocks(&reader);
}

/* By io_uring, several at a time. @flags: IOSQE_*, @setup: IORING_SETUP_* */
static void read_by_uring(const char *node, unsigned int flags, unsigned int setup)
{
	struct uring uring;
	void *buf[4];
	int fd;

	for (int i = 0; i < 4; i++)
		fd = open_blocks(node, O_DIRECT, &buf[i]);
	if (!uring_create(&uring, setup))
		psi_die("io_uring: %s", strerror(errno));
	for (__u64 pos = 0;; pos = (pos + 64 * BLOCK) % (DISK_MB << 20)) {
		for (int i = 0; i < 4; i++)
			uring_prepare_read(&uring, fd, buf[i], BLOCK,
					   pos + i * BLOCK)->flags |= flags;
		uring_submit(&uring);
		uring_wait(&uring, 4, ~0ULL);
		uring_reap(&uring);
	}
}

static void read_by_a_ring(void *arg)
{
	read_by_uring(arg, 0, 0);
}

/* The task waits before its workers submit what it waits for. */
static void read_by_workers(void *arg)
{
	read_by_uring(arg, IOSQE_ASYNC, 0);
}

/* A thread of the kernel submits it. */
static void read_by_a_thread(void *arg)
{
	read_by_uring(arg, 0, IORING_SETUP_SQPOLL);
}

/* Writes to the page cache of the disk, and waits until it is on the disk. */
static void write_and_wait(void *arg)
{
	static char buf[16 * BLOCK];
	int fd = open_file(arg, O_WRONLY);

	for (int i = 0;; i = (i + 1) % 64) {
		if (pwrite(fd, buf, sizeof(buf), i * sizeof(buf)) != sizeof(buf) || fdatasync(fd))
			psi_die("%s: %s", (char *)arg, strerror(errno));
	}
}

FIXTURE(io) {
	struct slow_disk disk;
	char limit[64];
	pid_t pid;
};

FIXTURE_VARIANT(io) {
	void (*load)(void *arg);
	/* How much of its time it waits for the disk, in percent at least. */
	double waits;
};

FIXTURE_VARIANT_ADD(io, read) { .load = read_direct, .waits = 80 };
FIXTURE_VARIANT_ADD(io, by_a_ring) { .load = read_by_a_ring, .waits = 60 };
FIXTURE_VARIANT_ADD(io, by_workers) { .load = read_by_workers, .waits = 60 };
/* The thread polls on that CPU, and may go on when the task wakes up. */
FIXTURE_VARIANT_ADD(io, by_a_thread) { .load = read_by_a_thread, .waits = 30 };
FIXTURE_VARIANT_ADD(io, written_back) { .load = write_and_wait, .waits = 10 };

FIXTURE_SETUP(io)
{
	char dev[32];

	cpus_use(1);
	slow_disk_create(&self->disk, "psi_class", LATENCY, DISK_MB);
	slow_disk_number(&self->disk, dev, sizeof(dev));
	snprintf(self->limit, sizeof(self->limit), "%s rbps=%d wbps=%d", dev,
		 RATE * BLOCK, RATE * BLOCK);
	cgroup_create(GROUP, "+io +memory");
	cgroup_create(LEAF, "");
	classes_ask(groups, ARRAY_SIZE(groups));
}

FIXTURE_TEARDOWN(io)
{
	load_stop(self->pid);
	slow_disk_budget(&self->disk, 0);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

/* Lifts io.max again, which was @limit. */
static void lift(const char *limit)
{
	char lifted[64];

	snprintf(lifted, sizeof(lifted), "%.*s rbps=max wbps=max", (int)strcspn(limit, " "), limit);
	cgroup_write(GROUP, "io.max", lifted);
}

TEST_F_TIMEOUT(io, is_a_limit_at_io_max_and_a_shortage_without, 200)
{
	cgroup_write(GROUP, "io.max", self->limit);
	self->pid = start(variant->load, self->disk.node);
	expect_class(_metadata, "io", BY_LIMIT, 90);
	lift(self->limit);
	sleep_for(NSEC_PER_SEC);
	expect_class(_metadata, "io", BY_SHORTAGE, variant->waits);
}

/* The disk is said to read RATE blocks a second, and its time is what a cgroup may use. */
TEST_F_TIMEOUT(io, is_a_limit_beyond_a_budget_of_iocost, 100)
{
	slow_disk_budget(&self->disk, RATE);
	self->pid = start(variant->load, self->disk.node);
	expect_class(_metadata, "io", BY_LIMIT, 80);
}

/* ---- Io of another cgroup ---- */

/* How much the disk may be to blame for a wait of which a limit is the reason, in percent. */
#define IDLE_DISK	3.0
#define CHUNK		(16 * BLOCK)

/**
 * struct turns - two tasks read the same chunks of a disk, one after the other
 * @node: the disk
 * @begun: chunks that the first one has begun to read
 */
struct turns {
	const char *node;
	long begun;
};

static void read_chunk(int fd, long n)
{
	static char buf[CHUNK];

	if (pread(fd, buf, CHUNK, n % ((DISK_MB << 20) / CHUNK) * CHUNK) != CHUNK)
		psi_die("chunk %ld: %s", n, strerror(errno));
}

/* Reads into the page cache, and nothing but what it is told to. */
static int open_to_share(const char *node)
{
	int fd = open_file(node, O_RDONLY);

	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	return fd;
}

static void read_first(void *arg)
{
	struct turns *turns = arg;
	int fd = open_to_share(turns->node);

	for (;;)
		read_chunk(fd, __atomic_fetch_add(&turns->begun, 1, __ATOMIC_SEQ_CST));
}

/* Waits for the pages that the other task reads. */
static void read_behind(void *arg)
{
	const struct turns *turns = arg;
	int fd = open_to_share(turns->node);

	for (long n = 0;;) {
		while (__atomic_load_n(&turns->begun, __ATOMIC_SEQ_CST) == n)
			sleep_for(NSEC_PER_MSEC);
		n = turns->begun;
		sleep_for(NSEC_PER_MSEC);
		read_chunk(fd, n - 1);
	}
}

FIXTURE(io_of_another) {
	struct slow_disk disk;
	struct turns *turns;
	char dev[32];
	pid_t pid[2];
};

FIXTURE_SETUP(io_of_another)
{
	cpus_use(1);
	slow_disk_create(&self->disk, "psi_class", LATENCY, DISK_MB);
	slow_disk_number(&self->disk, self->dev, sizeof(self->dev));
	self->turns = shared_memory(sizeof(*self->turns));
	self->turns->node = self->disk.node;
	cgroup_create(GROUP, "+io +memory");
	cgroup_create(LEAF, "+io +memory");
	cgroup_create(OTHER, "");
}

FIXTURE_TEARDOWN(io_of_another)
{
	for (int i = 0; i < 2; i++)
		if (self->pid[i])
			load_stop(self->pid[i]);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

static void limit_leaf(const char *dev, const char *key, unsigned int rate)
{
	char limit[64];

	snprintf(limit, sizeof(limit), "%s %s=%u", dev, key, rate);
	cgroup_write(LEAF, "io.max", limit);
}

/* In each of these groups, tasks wait for a limit for @least percent of the time at least. */
static void expect_limit(struct __test_metadata *_metadata, const char * const *asked,
			 double least)
{
	struct classes c[3];

	classes_measure(asked, "io", 2 * TIME, c);
	for (int i = 0; i < 3; i++) {
		const char *group = asked[i] ?: "the system";

		ksft_print_msg("%s: io some %.3f %%: limit %.3f, shortage %.3f\n", group,
			       c[i].plain[0], c[i].limit[0], c[i].shortage[0]);
		EXPECT_LE(least, c[i].limit[0])
			TH_LOG("%s: limit %.3f %%", group, c[i].limit[0]);
		EXPECT_GE(IDLE_DISK, c[i].shortage[0])
			TH_LOG("%s: shortage %.3f %%", group, c[i].shortage[0]);
		EXPECT_GE(IDLE_DISK, fabs(c[i].limit[0] - c[i].plain[0]))
			TH_LOG("%s: limit %.3f of %.3f %%", group, c[i].limit[0], c[i].plain[0]);
		EXPECT_EQ(NULL, classes_contradiction(&c[i], 2 * TIME))
			TH_LOG("%s: %s", group, classes_contradiction(&c[i], 2 * TIME));
	}
}

TEST_F_TIMEOUT(io_of_another, that_io_max_holds_is_a_limit, 100)
{
	static const char * const asked[] = { NULL, LEAF, OTHER };
	struct load load = { .cpu = 0, .cgroup = LEAF, .fn = read_first, .arg = self->turns };

	limit_leaf(self->dev, "rbps", 8 * CHUNK);
	classes_ask(asked, ARRAY_SIZE(asked));
	self->pid[0] = load_start(&load);
	load.cgroup = OTHER;
	load.fn = read_behind;
	self->pid[1] = load_start(&load);
	sleep_for(WARM);
	expect_limit(_metadata, asked, 80);
}

/* ---- Io of a disk that goes ---- */

#define NR_HELD		3

/* Reads until the disk is gone. */
static void read_to_the_end(void *arg)
{
	void *buf;
	int fd = open_blocks(arg, O_DIRECT, &buf);

	while (pread(fd, buf, BLOCK, 0) == BLOCK)
		;
	sleep_forever();
}

FIXTURE(dying_disk) {
	struct slow_disk disk[2];
	pid_t pid[NR_HELD];
};

FIXTURE_SETUP(dying_disk)
{
	char dev[32], limit[64];

	cpus_use(1);
	slow_disk_create(&self->disk[0], "psi_class", LATENCY, DISK_MB);
	slow_disk_create(&self->disk[1], "psi_dying", LATENCY, DISK_MB);
	cgroup_create(GROUP, "+io");
	cgroup_create(LEAF, "");
	slow_disk_number(&self->disk[1], dev, sizeof(dev));
	snprintf(limit, sizeof(limit), "%s rbps=%d", dev, BLOCK);
	cgroup_write(GROUP, "io.max", limit);
	/* What is asked about is measured from the next window on. */
	classes_ask(groups, ARRAY_SIZE(groups));
}

FIXTURE_TEARDOWN(dying_disk)
{
	for (int i = 0; i < NR_HELD; i++)
		load_stop(self->pid[i]);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk[0]);
	cpus_use(cpus_possible());
}

/*
 * When a disk goes, what io.max held of it is sent or fails. Either way the limit holds nothing
 * of the cgroup any more.
 */
TEST_F_TIMEOUT(dying_disk, leaves_no_limit_behind, 100)
{
	struct classes c[3];

	for (int i = 0; i < NR_HELD; i++)
		self->pid[i] = start(read_to_the_end, self->disk[1].node);
	classes_measure(groups, "io", TIME, c);
	EXPECT_LE(90, c[1].limit[0])
		TH_LOG("limit %.3f %%", c[1].limit[0]);
	slow_disk_remove(&self->disk[1]);
	load_stop(self->pid[0]);
	self->pid[0] = start(read_direct, self->disk[0].node);
	expect_class(_metadata, "io", BY_SHORTAGE, 80);
}

/* ---- Io behind a cgroup with io.latency ---- */

#define PROTECTED	GROUP "/protected"
#define NR_BEHIND	2
/* Of the disk, in ns: long beside what a task does from one read to the next. */
#define SLOW		(2 * NSEC_PER_MSEC)

/**
 * struct counted - a load that reads one block again and again
 * @node: the device
 * @reads: number of its reads
 */
struct counted {
	const char *node;
	__u64 reads;
};

/* @arg is a struct counted in shared memory. */
static void read_and_count(void *arg)
{
	struct counted *counted = arg;
	void *buf;
	int fd = open_blocks(counted->node, O_DIRECT, &buf);

	for (;;) {
		if (pread(fd, buf, BLOCK, 0) != BLOCK)
			psi_die("%s: %s", counted->node, strerror(errno));
		counted->reads++;
	}
}

/*
 * Two tasks with a cgroup each, below one that has to stand back. The disk cannot be as fast as
 * the third task's cgroup wants it. So the kernel leaves the two one slot in the end:
 *
 *	a	| slot  |  disk | slot  |  disk |
 *	b	|  disk | slot  |  disk | slot  |
 */
FIXTURE(io_latency) {
	struct slow_disk disk;
	struct counted *counted;
	pid_t pid[NR_BEHIND], first;
};

static const char * const behind[NR_BEHIND] = { LEAF "/a", LEAF "/b" };

FIXTURE_SETUP(io_latency)
{
	struct load first = { .cpu = 0, .cgroup = PROTECTED, .fn = read_and_count };

	cpus_use(1);
	/* Before the tasks: their interrupts are part of the time that they do not sleep. */
	task_delays_on();
	slow_disk_create(&self->disk, "psi_class", SLOW, DISK_MB);
	cgroup_create(GROUP, "+io");
	cgroup_create(PROTECTED, "+io");
	cgroup_create(LEAF, "+io");
	self->counted = shared_memory((NR_BEHIND + 1) * sizeof(*self->counted));
	for (int i = 0; i <= NR_BEHIND; i++)
		self->counted[i].node = self->disk.node;
	for (int i = 0; i < NR_BEHIND; i++) {
		struct load load = { .cpu = 0, .cgroup = behind[i], .fn = read_and_count,
				     .arg = &self->counted[i] };

		cgroup_create(behind[i], "+io");
		self->pid[i] = load_start(&load);
	}
	first.arg = &self->counted[NR_BEHIND];
	self->first = load_start(&first);
	classes_ask(behind, 1);
}

FIXTURE_TEARDOWN(io_latency)
{
	for (int i = 0; i < NR_BEHIND; i++)
		load_stop(self->pid[i]);
	load_stop(self->first);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

/**
 * struct waited - what a task waited for, in percent of the time
 * @disk: the disk
 * @slot: that it may use it
 */
struct waited {
	double disk, slot;
};

/* Measure the first of the tasks for TIME, and the classes of its cgroup. */
static void wait_measure(pid_t pid, const struct counted *counted, struct waited *waited,
			 struct classes *c)
{
	__u64 begin = now_ns(), awake = task_awake_ns(pid), reads = counted->reads, time;

	classes_read(behind[0], "io", c);
	sleep_for(TIME);
	time = now_ns() - begin;
	classes_since(behind[0], "io", time, c);
	waited->disk = 100.0 * SLOW * (counted->reads - reads) / time;
	waited->slot = 100.0 - 100.0 * (task_awake_ns(pid) - awake) / time - waited->disk;
	ksft_print_msg("%.2f %% disk, %.2f %% slot; some %.2f, limit %.2f, shortage %.2f\n",
		       waited->disk, waited->slot, c->plain[0], c->limit[0], c->shortage[0]);
}

TEST_F_TIMEOUT(io_latency, is_a_limit_for_those_behind, 100)
{
	char dev[32], text[64];
	struct waited waited;
	struct classes c;

	slow_disk_number(&self->disk, dev, sizeof(dev));
	wait_measure(self->pid[0], self->counted, &waited, &c);
	EXPECT_EQ(0, c.limit[0]);
	EXPECT_GE(1, fabs(c.shortage[0] - waited.disk - waited.slot));

	snprintf(text, sizeof(text), "%s target=10", dev);
	cgroup_write(PROTECTED, "io.latency", text);
	/* The kernel halves the slots each 500 ms at most. */
	sleep_for(4 * WARM);
	wait_measure(self->pid[0], self->counted, &waited, &c);
	ASSERT_LE(30, waited.slot);
	EXPECT_GE(1, fabs(c.limit[0] - waited.slot));
	EXPECT_GE(1, fabs(c.shortage[0] - waited.disk));

	/* It is lifted. */
	snprintf(text, sizeof(text), "%s target=0", dev);
	cgroup_write(PROTECTED, "io.latency", text);
	sleep_for(WARM);
	wait_measure(self->pid[0], self->counted, &waited, &c);
	EXPECT_EQ(0, c.limit[0]);
}

TEST_HARNESS_MAIN
