// SPDX-License-Identifier: GPL-2.0
/*
 * Memory pressure of a machine that is short of memory, without a limit
 *
 * Invariant: memory "some" is the time in which a task is inside a memory stall
 * section. The kernel threads that free memory are in such a section while they
 * work. A group has the stalls of its tasks, the system those of all tasks:
 *
 *      task        | frees pages | compacts memory     |  (nap)
 *      kswapd, kcompactd                               |######| at work
 *      some, group |###################################|
 *      some, system|##########################################|
 *
 * The task's own clock counts both of its sections as delays. The threads do
 * nothing else, so all their time on the CPU is in the section.
 *
 * Bugs it would find: a section that is missing; stall of the threads that is
 * charged to the group whose allocations woke them.
 *
 * Method: a load locks memory until ROOM is left, so the kernel must free
 * memory for each allocation of the worker. The worker is a real-time task, so
 * the threads run while it sleeps and at no other time. Their stalls and the
 * worker's do not overlap, apart from its sleep outside of naps. Pages in the
 * per-CPU lists are free, but do not count for the watermarks: the test keeps
 * these lists short. Before each reading the threads have come to rest.
 *
 * Tolerance: 1 % for the worker, whose sections enclose the delays. 5 % for the
 * threads, which check for work and fall asleep outside of the section, and
 * where their passes are counted, some time for each.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_causes.h"
#include "psi_stat.h"
#include "psi_work.h"

#define GROUP		"/sys/fs/cgroup/psi_reclaim"
#define PRESSURE	GROUP "/memory.pressure"
#define LIST_FRACTION	"/proc/sys/vm/percpu_pagelist_high_fraction"
#define ROOM		(64UL << 20)
#define LATENCY		(200 * NSEC_PER_USEC)
#define DISK_MB		128
#define PAGE		4096UL
#define TOLERANCE	0.01
#define THREAD_TOLERANCE 0.05
/*
 * After a pass a thread falls asleep, and resets what compaction noted of each
 * block of pages. That is no stall. It takes up to 213 us in virtual time, where
 * an instruction takes 64 ns.
 */
#define THREAD_PASS	(250 * NSEC_PER_USEC)

/**
 * struct worker - a child in the group, and what it measures
 * @node: a device to read
 * @naps: it sleeps after each step
 * @some: growth of the group's memory some, in ns
 * @least: its memory delays meanwhile, by its own clock
 * @most: the same, between two readings further apart
 * @begin: when it began
 * @asleep: time that it slept or waited, apart from naps and io
 * @napped: time in naps
 * @io: growth of the group's io some
 * @clock: growth of its clock
 */
struct worker {
	const char *node;
	bool naps;
	__u64 some;
	__u64 least;
	__u64 most;
	__u64 begin;
	__u64 asleep;
	__u64 napped;
	__u64 io;
	struct task_clock clock;
};

/**
 * struct machine_clock - the work of the threads that free memory
 * @some: memory some of the system, in ns
 * @group: that of the group
 * @run: time that kswapd and kcompactd ran
 * @wait: time that they waited for the CPU
 * @irq: interrupt time of the system. Their clocks do not have theirs, as these
 *     threads are older than task_delays_on()
 */
struct machine_clock {
	__u64 some;
	__u64 group;
	__u64 run[2];
	__u64 wait[2];
	__u64 irq;
};

static __u64 delays(const struct task_clock *tc)
{
	return tc->reclaim + tc->thrash + tc->compact;
}

static void worker_begin(struct worker *w)
{
	struct task_clock tc;

	w->napped = 0;
	w->begin = now_ns();
	task_clock_read(getpid(), &w->clock);
	w->io = psi_some_ns(GROUP "/io.pressure");
	w->some = psi_some_ns(PRESSURE);
	task_clock_read(getpid(), &tc);
	w->least = delays(&tc);
}

static void worker_end(struct worker *w)
{
	struct task_clock now;
	__s64 asleep;

	task_clock_read(getpid(), &now);
	w->least = delays(&now) - w->least;
	w->some = psi_some_ns(PRESSURE) - w->some;
	w->io = psi_some_ns(GROUP "/io.pressure") - w->io;
	task_clock_read(getpid(), &now);
	w->most = delays(&now) - delays(&w->clock);
	w->clock.run = now.run + now.irq - w->clock.run - w->clock.irq;
	w->clock.reclaim = now.reclaim - w->clock.reclaim;
	w->clock.compact = now.compact - w->clock.compact;
	asleep = now_ns() - w->begin - w->napped - w->io - w->clock.run;
	w->asleep = asleep > 0 ? asleep : 0;
}

/* Sleeps, so that the threads work. */
static void nap(struct worker *w)
{
	__u64 begin = now_ns();

	if (!w->naps)
		return;
	sleep_for(20 * NSEC_PER_MSEC);
	w->napped += now_ns() - begin;
}

/* Reads the whole disk once, so no page becomes part of a working set. */
static void read_once(void *arg)
{
	static char buf[64 << 10];
	struct worker *w = arg;
	int fd;

	fd = open_file(w->node, O_RDONLY);
	worker_begin(w);
	while (read(fd, buf, sizeof(buf)) > 0)
		nap(w);
	worker_end(w);
}

/*
 * Frees every other page of most of the room, then asks for blocks of eight
 * pages: as many as fit if the kernel compacts all of it.
 */
static void ask_for_blocks(void *arg)
{
	const struct rlimit files = { 4096, 4096 };
	const size_t size = ROOM * 3 / 4;
	struct worker *w = arg;
	int pipes[2];
	char *mem;

	if (setrlimit(RLIMIT_NOFILE, &files))
		psi_die("setrlimit: %s", strerror(errno));
	mem = private_memory(size);
	/* No huge pages. A kernel without them returns EINVAL. */
	if (madvise(mem, size, MADV_NOHUGEPAGE) && errno != EINVAL)
		psi_die("madvise: %s", strerror(errno));
	for (size_t pos = 0; pos < size; pos += PAGE)
		mem[pos] = 1;
	for (size_t pos = 0; pos < size; pos += 2 * PAGE)
		if (madvise(mem + pos, PAGE, MADV_DONTNEED))
			psi_die("madvise: %s", strerror(errno));
	worker_begin(w);
	/* An entry for a page takes 40 bytes. */
	for (size_t i = 0; i < size / 2 / (8 * PAGE); i++) {
		if (pipe(pipes) || fcntl(pipes[0], F_SETPIPE_SZ, 512 * PAGE) < 0)
			psi_die("pipe %zu: %s", i, strerror(errno));
		nap(w);
	}
	worker_end(w);
}

static void threads_read(struct machine_clock *mc)
{
	static const char * const names[] = { "kswapd0", "kcompactd0" };
	struct task_clock tc;
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		if (kernel_threads(names[i], &pid, 1) != 1)
			psi_die("there is no %s", names[i]);
		task_clock_read(pid, &tc);
		mc->run[i] = tc.run;
		mc->wait[i] = tc.wait;
	}
}

/* Waits until the threads rest, then reads. */
static void machine_read(struct machine_clock *mc)
{
	__u64 before;

	threads_read(mc);
	do {
		before = mc->run[0] + mc->run[1];
		sleep_for(100 * NSEC_PER_MSEC);
		threads_read(mc);
	} while (mc->run[0] + mc->run[1] != before);
	mc->some = psi_some_ns(PSI_MEMORY);
	mc->group = psi_some_ns(PRESSURE);
	mc->irq = psi_irq_accounted() ? psi_full_ns(PSI_IRQ) : 0;
}

/**
 * struct told - the causes of what happened, on a kernel that tells them
 * @known: it does
 * @group: of the group's stalls
 * @system: of those of the system
 */
struct told {
	bool known;
	struct causes group;
	struct causes system;
};

FIXTURE(machine) {
	struct slow_disk disk;
	struct told told;
	struct worker *worker;
	struct machine_clock made;
	char list_fraction[32];
	pid_t locker;
};

FIXTURE_SETUP(machine)
{
	cpus_use(1);
	task_delays_on();
	if (read_file(LIST_FRACTION, self->list_fraction, sizeof(self->list_fraction)) < 0)
		psi_die("%s cannot be read", LIST_FRACTION);
	write_file(LIST_FRACTION, "512");
	slow_disk_create(&self->disk, "psi_reclaim", LATENCY, DISK_MB);
	cgroup_create(GROUP, "");
	self->worker = shared_memory(sizeof(*self->worker));
	self->worker->node = self->disk.node;
	self->locker = memory_take(ROOM);
}

FIXTURE_TEARDOWN(machine)
{
	load_stop(self->locker);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	write_file(LIST_FRACTION, self->list_fraction);
	cpus_use(cpus_possible());
}

static void told_begin(struct told *told)
{
	told->known = causes_known();
	if (!told->known)
		return;
	causes_read(GROUP CGROUP_STAT, &told->group);
	causes_read(PSI_STAT, &told->system);
}

static void told_end(struct told *told)
{
	if (!told->known)
		return;
	told->group = causes_since(GROUP CGROUP_STAT, &told->group);
	told->system = causes_since(PSI_STAT, &told->system);
	causes_print(&told->system);
}

static void run_worker(FIXTURE_DATA(machine) * self, void (*fn)(void *arg))
{
	struct worker *worker = self->worker;
	struct machine_clock *made = &self->made;
	const struct load load = { .cpu = 0, .policy = SCHED_FIFO, .prio = 1, .cgroup = GROUP,
				   .fn = fn, .arg = worker };
	struct machine_clock before;

	machine_read(&before);
	told_begin(&self->told);
	load_wait(load_start(&load));
	machine_read(made);
	told_end(&self->told);
	made->some -= before.some;
	made->group -= before.group;
	made->irq -= before.irq;
	for (int i = 0; i < 2; i++) {
		made->run[i] -= before.run[i];
		made->wait[i] -= before.wait[i];
	}
	ksft_print_msg("group %.4f s: reclaimed %.4f, compacted %.4f; asleep %.4f, in io %.4f s\n",
		       worker->some / 1e9, worker->clock.reclaim / 1e9,
		       worker->clock.compact / 1e9, worker->asleep / 1e9, worker->io / 1e9);
	ksft_print_msg("system %.4f s: kswapd ran %.4f s, kcompactd %.4f s; waited %.4f, %.4f s\n",
		       made->some / 1e9, made->run[0] / 1e9, made->run[1] / 1e9,
		       made->wait[0] / 1e9, made->wait[1] / 1e9);
}

/* The system has the group's stall, plus that of the threads, and no more. */
static void expect_no_more(struct __test_metadata *_metadata, const struct machine_clock *made)
{
	EXPECT_LE(made->group, made->some);
	EXPECT_GE(made->group + made->run[0] + made->run[1] + made->wait[0] + made->wait[1] +
		  made->irq, made->some);
}

/* The threads work in the naps of @w, and while it sleeps in a stall. */
static void expect_threads(struct __test_metadata *_metadata, const struct worker *w,
			   const struct machine_clock *made)
{
	double run = made->run[0] + made->run[1];
	__u64 both = w->asleep < w->some ? w->asleep : w->some;

	EXPECT_LE((double)made->group - both + run * (1 - THREAD_TOLERANCE), made->some);
	expect_no_more(_metadata, made);
}

/*
 * The lines of causes have the same: the group is alone on the CPU, and the
 * threads belong to the system. A thread at work may wait for the CPU.
 */
static void expect_told(struct __test_metadata *_metadata, const struct told *told,
			const struct machine_clock *made)
{
	static const enum cause of[] = { KSWAPD, KCOMPACTD };
	const __u64 rounding = (NR_CAUSES + 1) * NSEC_PER_USEC;
	__u64 threads = 0, passes = 0;

	if (!told->known)
		return;
	EXPECT_LE(made->group, told->group.total + rounding);
	EXPECT_LE(told->group.total, made->group + rounding);
	EXPECT_EQ(told->group.line[RECLAIM].count, told->system.line[RECLAIM].count);
	EXPECT_EQ(told->group.line[COMPACT].count, told->system.line[COMPACT].count);
	EXPECT_EQ(told->group.total,
		  told->group.line[RECLAIM].total + told->group.line[COMPACT].total);
	for (int i = 0; i < 2; i++) {
		__u64 total = told->system.line[of[i]].total;

		EXPECT_EQ(0, told->group.line[of[i]].count);
		EXPECT_GE(made->run[i] + made->wait[i] + made->irq, total);
		threads += total;
		passes += told->system.line[of[i]].count;
	}
	EXPECT_LE((made->run[0] + made->run[1]) * (1 - THREAD_TOLERANCE),
		  threads + passes * THREAD_PASS);
}

TEST_F_TIMEOUT(machine, kswapd_is_stalled_and_the_allocating_task_is_not, 200)
{
	struct worker *w = self->worker;

	w->naps = true;
	run_worker(self, read_once);
	/* kswapd kept up with the reader. */
	ASSERT_EQ(0, w->most);
	ASSERT_LT(NSEC_PER_SEC / 10, self->made.run[0]);
	EXPECT_EQ(0, w->some);
	expect_threads(_metadata, w, &self->made);
	expect_told(_metadata, &self->told, &self->made);
}

/*
 * Sometimes no block is free yet, and the worker compacts as well. Rarely it
 * leaves next to nothing to the thread: then it asks again.
 */
TEST_F_TIMEOUT(machine, kcompactd_is_stalled, 200)
{
	struct worker *w = self->worker;

	w->naps = true;
	for (int tries = 3; tries && self->made.run[1] <= NSEC_PER_SEC / 10; tries--)
		run_worker(self, ask_for_blocks);
	ASSERT_LT(NSEC_PER_SEC / 10, self->made.run[1]);
	expect_threads(_metadata, w, &self->made);
	expect_told(_metadata, &self->told, &self->made);
}

/*
 * In direct reclaim the task sometimes sleeps until kswapd has made progress.
 */
TEST_F_TIMEOUT(machine, task_that_reclaims_is_stalled, 200)
{
	struct worker *w = self->worker;

	run_worker(self, read_once);
	ASSERT_LT(NSEC_PER_SEC / 100, w->clock.reclaim);
	EXPECT_LE(w->least * (1 - TOLERANCE), w->some);
	EXPECT_GE(w->most * (1 + TOLERANCE) + w->asleep, w->some);
	expect_no_more(_metadata, &self->made);
	expect_told(_metadata, &self->told, &self->made);
}

TEST_F_TIMEOUT(machine, task_that_compacts_is_stalled, 200)
{
	struct worker *w = self->worker;

	/* The thread may do nearly all of it: then it asks again, as above. */
	for (int tries = 3; tries && w->clock.compact <= NSEC_PER_SEC / 10; tries--)
		run_worker(self, ask_for_blocks);
	ASSERT_LT(NSEC_PER_SEC / 10, w->clock.compact);
	EXPECT_LE(w->least * (1 - TOLERANCE), w->some);
	/* It reclaims as well, and so sometimes sleeps for kswapd. */
	EXPECT_GE(w->most * (1 + TOLERANCE) + w->asleep, w->some);
	expect_no_more(_metadata, &self->made);
	expect_told(_metadata, &self->told, &self->made);
}

TEST_HARNESS_MAIN
