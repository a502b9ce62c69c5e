// SPDX-License-Identifier: GPL-2.0
/*
 * Memory pressure: a working set that does not fit
 *
 * Invariant: memory "some" is the time in which a task is inside a memory stall
 * section, on the CPU or not: it reclaims for a limit, waits for a page of its
 * working set, or is throttled above memory.high. The task's delay accounting
 * measures the first two in the same places ("reclaim" and "thrashing"), and
 * its schedstat the third: a throttled task neither runs nor waits. "full" is
 * the part in which no other task makes progress on that CPU.
 *
 *     task         run | reclaim | read back a page | run | reclaim | ...
 *     memory some      |############################|     |#########|
 *
 * Bugs it would find: a section that is left early or twice; a nested section
 * that ends the outer one; a sleeper in a section that counts as io only; a
 * place without a section (the wait for a page, the throttle); a runnable task
 * in reclaim that counts as productive.
 *
 * Tolerance: 1 %. A section encloses the delay that it is compared with, and is
 * longer by some hundred instructions at each end. With a thousand sections a
 * second and 64 ns per instruction, that is below 1 % of the stall. The section
 * of a refault includes submitting the read, which is no delay: there, all of
 * the task's time on the CPU is allowed on top.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_swap.h"
#include "psi_trigger.h"
#include "psi_work.h"

#define GROUP		"/sys/fs/cgroup/psi_memory"
#define LIMIT		(8UL << 20)
#define LATENCY		(2 * NSEC_PER_MSEC)
#define DISK_MB		64
#define PAGE		4096UL
#define TOLERANCE	0.01

/**
 * struct worker - a child in the group, and what it measures
 * @size: its working set, in bytes
 * @node: device that it reads the working set from; NULL: anonymous memory
 * @duration: how long it uses the working set, in ns
 * @runs: how often it was started
 * @some: growth of memory some in that time
 * @full: growth of memory full in that time
 * @elapsed: the time that it really took
 * @clock: growth of its clock
 * @others: time that other tasks ran on its CPU, or waited for it
 * @least: delays between the inner two of the four readings of its clock
 *
 * Building up the working set is not measured. Reading a file charges memory,
 * which means reclaim at the limit. So the worker reads its clock before and
 * after the pressure, at both ends.
 */
struct worker {
	size_t size;
	const char *node;
	__u64 duration;
	unsigned int runs;
	__u64 some;
	__u64 full;
	__u64 elapsed;
	struct task_clock clock;
	__u64 others;
	__u64 least;
};

static __u64 own_delays(void)
{
	struct task_clock tc;

	task_clock_read(getpid(), &tc);
	return tc.reclaim + tc.thrash;
}

/*
 * The clock of a CPU has what a task ran only once that task leaves it, the clock
 * of the task has it at once. So the caller leaves first.
 */
static void read_cpu_clock(struct cpu_clock *cc)
{
	sleep_for(NSEC_PER_USEC);
	cpu_clock_read(0, cc);
}

static void worker_begin(struct worker *w)
{
	struct cpu_clock cc;

	read_cpu_clock(&cc);
	w->others = cc.run + cc.wait;
	task_clock_read(getpid(), &w->clock);
	w->elapsed = now_ns();
	w->some = psi_some_ns(PSI_MEMORY);
	w->full = psi_full_ns(PSI_MEMORY);
	w->least = own_delays();
}

static void worker_end(struct worker *w)
{
	struct task_clock now;
	struct cpu_clock cc;

	w->least = own_delays() - w->least;
	w->full = psi_full_ns(PSI_MEMORY) - w->full;
	w->some = psi_some_ns(PSI_MEMORY) - w->some;
	w->elapsed = now_ns() - w->elapsed;
	task_clock_read(getpid(), &now);
	w->clock.run = now.run + now.irq - w->clock.run - w->clock.irq;
	w->clock.wait = now.wait - w->clock.wait;
	w->clock.reclaim = now.reclaim - w->clock.reclaim;
	w->clock.thrash = now.thrash - w->clock.thrash;
	read_cpu_clock(&cc);
	w->others = cc.run + cc.wait - w->others - w->clock.run - w->clock.wait;
}

/*
 * Touches random pages, long enough for the kernel to learn the working set,
 * then for @duration. In random order, some pages come back soon after their
 * eviction. In cyclic order none would, and none would count as working set.
 */
static void touch_at_random(struct worker *w, void (*touch)(void *mem, size_t pos), void *mem)
{
	size_t pages = w->size / PAGE;
	/* In another order each time. */
	__u32 state = 2463534242U + w->runs++;
	__u64 end;

	for (size_t i = 0; i < 4 * pages; i++) {
		state = state * 1664525 + 1013904223;
		touch(mem, (state >> 8) % pages * PAGE);
	}
	worker_begin(w);
	end = now_ns() + w->duration;
	while (now_ns() < end) {
		state = state * 1664525 + 1013904223;
		touch(mem, (state >> 8) % pages * PAGE);
	}
	worker_end(w);
}

static void touch_anon(void *mem, size_t pos)
{
	char *page = (char *)mem + pos;

	*page += 1;
	asm volatile("" ::: "memory");
}

static void touch_file(void *mem, size_t pos)
{
	char byte;

	if (pread(*(int *)mem, &byte, 1, pos) != 1)
		psi_die("read: %s", strerror(errno));
}

static void touch_mapped(void *mem, size_t pos)
{
	char byte = ((const char *)mem)[pos];

	asm volatile("" : : "r" (byte));
}

static void use_anon(void *arg)
{
	struct worker *w = arg;
	void *mem;

	mem = private_memory(w->size);
	touch_at_random(w, touch_anon, mem);
}

/* One page at a time, without readahead. */
static void use_file(void *arg)
{
	struct worker *w = arg;
	int fd;

	fd = open_file(w->node, O_RDONLY);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	touch_at_random(w, touch_file, &fd);
}

/*
 * By page faults. The device has its readahead switched off, as the kernel
 * counts no page that is mapped with MADV_RANDOM as working set.
 */
static void use_mapped(void *arg)
{
	struct worker *w = arg;
	void *mem;
	int fd;

	fd = open(w->node, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKRASET, 0) || posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL))
		psi_die("%s: %s", w->node, strerror(errno));
	mem = mmap(NULL, w->size, PROT_READ, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
	touch_at_random(w, touch_mapped, mem);
}

/* Reads the rest of the device once. */
static void read_once(void *arg)
{
	static char buffer[64 * PAGE];
	struct worker *w = arg;
	size_t pos = 0;
	int fd;

	fd = open_file(w->node, O_RDONLY);
	for (; pos < w->size; pos += sizeof(buffer)) {
		if (pread(fd, buffer, sizeof(buffer), pos) != sizeof(buffer))
			psi_die("read: %s", strerror(errno));
	}
	worker_begin(w);
	for (; pos < DISK_MB << 20; pos += sizeof(buffer)) {
		if (pread(fd, buffer, sizeof(buffer), pos) != sizeof(buffer))
			psi_die("read: %s", strerror(errno));
	}
	worker_end(w);
}

/*
 * Touches all of it once, above the limit that throttles it. Then it leaves the
 * limit: to read a file takes memory, so it would be throttled between two reads.
 */
static void build_up(void *arg)
{
	struct worker *w = arg;
	size_t size = w->size;
	void *mem;

	mem = private_memory(size);
	worker_begin(w);
	for (size_t pos = 0; pos < size; pos += PAGE)
		touch_anon(mem, pos);
	group_leave();
	worker_end(w);
}

static void set_limit(const char *file, unsigned long bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", bytes);
	cgroup_write(GROUP, file, text);
}

/*
 * One CPU, a group with a limit of 8 MB, and a device that takes 2 ms for a page.
 */
FIXTURE(limit) {
	struct slow_disk disk;
	struct worker *worker;
};

FIXTURE_SETUP(limit)
{
	cpus_use(1);
	task_delays_on();
	slow_disk_create(&self->disk, "psi_memory", LATENCY, DISK_MB);
	cgroup_create(GROUP, "+memory");
	set_limit("memory.max", LIMIT);
	self->worker = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	ASSERT_NE(MAP_FAILED, self->worker);
	self->worker->node = self->disk.node;
	self->worker->duration = 5 * NSEC_PER_SEC;
}

FIXTURE_TEARDOWN(limit)
{
	cgroup_remove(GROUP);
	swapoff(self->disk.node);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

static void run_worker(struct worker *worker, void (*fn)(void *arg))
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = fn, .arg = worker };

	load_wait(load_start(&load));
}

static double delays(const struct worker *w)
{
	return w->clock.reclaim + w->clock.thrash;
}

static void print_worker(const struct worker *w)
{
	ksft_print_msg("some %.3f s, full %.3f s of %.3f s, others runnable %.3f s\n",
		       w->some / 1e9, w->full / 1e9, w->elapsed / 1e9, w->others / 1e9);
	ksft_print_msg("reclaimed %.3f s, thrashed %.3f s, ran %.3f s, waited %.3f s\n",
		       w->clock.reclaim / 1e9, w->clock.thrash / 1e9, w->clock.run / 1e9,
		       w->clock.wait / 1e9);
}

/* Some equals the delays of the task, or up to @extra more. */
static void expect_some(struct __test_metadata *_metadata, const struct worker *w, double extra)
{
	EXPECT_LE(w->least * (1 - TOLERANCE), w->some);
	EXPECT_GE(delays(w) * (1 + TOLERANCE) + extra, w->some);
}

/*
 * Full equals some, apart from the time in which another task is runnable: from
 * its wake-up on, that task is productive.
 */
static void expect_full(struct __test_metadata *_metadata, const struct worker *w)
{
	EXPECT_GE(w->some, w->full);
	EXPECT_LE(w->some * (1 - TOLERANCE), w->full + w->others);
}

TEST_F_TIMEOUT(limit, working_set_that_fits_makes_no_pressure, 200)
{
	struct worker *w = self->worker;

	w->size = LIMIT / 2;
	run_worker(w, use_anon);
	EXPECT_EQ(0, w->some);
	EXPECT_EQ(0, w->full);
}

TEST_F_TIMEOUT(limit, anonymous_memory_that_does_not_fit_stalls_in_reclaim_and_swap_in, 200)
{
	struct worker *w = self->worker;

	swap_on(self->disk.node, DISK_MB);
	w->size = LIMIT * 5 / 4;
	/* After some time no page that comes back counts as working set. */
	for (int tries = 5; tries && w->clock.thrash <= NSEC_PER_SEC / 10; tries--) {
		run_worker(w, use_anon);
		print_worker(w);
	}
	ASSERT_LT(NSEC_PER_SEC / 10, w->clock.thrash);
	ASSERT_LT(NSEC_PER_SEC / 10, w->clock.reclaim);
	expect_some(_metadata, w, 0);
	expect_full(_metadata, w);
}

/* Daemons that kill tasks to free memory use such triggers. */
TEST_F_TIMEOUT(limit, stall_fires_the_triggers_that_wait_for_it, 200)
{
	static const char * const files[] = { PSI_MEMORY, GROUP "/memory.pressure" };
	static const char * const lines[] = { "some", "full" };
	struct worker *w = self->worker;
	int fds[2][2], never = trigger_arm(GROUP "/cpu.pressure", "some 1990000 2000000");
	char text[64];

	swap_on(self->disk.node, DISK_MB);
	w->size = LIMIT * 5 / 4;
	for (int i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "%s 200000 1000000", lines[i & 1]);
		fds[i / 2][i & 1] = trigger_arm(files[i / 2], text);
		EXPECT_FALSE(trigger_fired(fds[i / 2][i & 1], 0));
	}
	run_worker(w, use_anon);
	print_worker(w);
	/* So in some second a fifth was stalled. */
	ASSERT_LT(w->elapsed / 5, w->full);
	for (int i = 0; i < 4; i++) {
		EXPECT_TRUE(trigger_fired(fds[i / 2][i & 1], 0));
		close(fds[i / 2][i & 1]);
	}
	EXPECT_FALSE(trigger_fired(never, 0));
	close(never);
}

TEST_F_TIMEOUT(limit, file_pages_that_do_not_fit_stall_in_refault, 200)
{
	struct worker *w = self->worker;

	w->size = LIMIT * 5 / 4;
	run_worker(w, use_file);
	print_worker(w);
	ASSERT_LT(NSEC_PER_SEC / 10, w->clock.thrash);
	expect_some(_metadata, w, w->clock.run);
	expect_full(_metadata, w);
}

/*
 * The disk takes one request at a time, and another task reads, too. When a
 * request of the worker is done, both wake up: the other one is a real-time
 * task, so its request is the next. After each it sleeps for a moment, so the
 * one after that is the worker's.
 */
static void expect_queue(struct __test_metadata *_metadata, struct slow_disk *disk,
			 struct worker *w, void (*use)(void *arg))
{
	struct reader *other = shared_memory(sizeof(*other));
	const struct load load = { .cpu = 0, .policy = SCHED_FIFO, .prio = 1, .fn = read_blocks,
				   .arg = other };
	pid_t pid;

	slow_disk_queue(disk, 1);
	other->node = disk->node;
	other->flags = O_DIRECT;
	other->nap = LATENCY / 2;
	other->end = now_ns() + 1000 * NSEC_PER_SEC;
	pid = load_start(&load);
	w->size = LIMIT * 5 / 4;
	run_worker(w, use);
	load_stop(pid);
	print_worker(w);
	ASSERT_LT(NSEC_PER_SEC / 10, w->clock.thrash);
	/*
	 * A latency for its own request and then the CPU, and three quarters of
	 * that for the other's, as it ran meanwhile.
	 */
	EXPECT_LE(w->clock.reclaim + 1.6 * w->clock.thrash, w->some);
	EXPECT_GE(w->clock.reclaim + 1.9 * w->clock.thrash, w->some);
}

TEST_F_TIMEOUT(limit, wait_for_the_queue_of_the_disk_is_part_of_a_refault, 200)
{
	expect_queue(_metadata, &self->disk, self->worker, use_file);
}

TEST_F_TIMEOUT(limit, wait_for_the_queue_of_the_disk_is_part_of_a_page_fault, 200)
{
	expect_queue(_metadata, &self->disk, self->worker, use_mapped);
}

/*
 * The spinner is productive while the worker sleeps in its stall. It is not
 * while the worker reclaims on the CPU.
 */
TEST_F_TIMEOUT(limit, stall_beside_a_productive_task_is_not_full, 200)
{
	struct worker *w = self->worker;
	pid_t spinner;

	swap_on(self->disk.node, DISK_MB);
	w->size = LIMIT * 5 / 4;
	spinner = spin_on(0);
	run_worker(w, use_anon);
	load_stop(spinner);
	print_worker(w);
	expect_some(_metadata, w, 0);
	EXPECT_GE(w->clock.run * (1 + TOLERANCE), w->full);
	/* It reclaims on the CPU when it does not wait for it. */
	EXPECT_LE(w->clock.reclaim * (1 - TOLERANCE), w->full + w->clock.wait);
	EXPECT_LT(w->full, w->some);
}

/*
 * With much to reclaim, a task above memory.high reclaims and need not sleep.
 */
TEST_F_TIMEOUT(limit, reclaim_above_memory_high_is_a_stall, 200)
{
	struct worker *w = self->worker;

	set_limit("memory.high", LIMIT / 2);
	w->size = LIMIT;
	run_worker(w, read_once);
	print_worker(w);
	ASSERT_LT(NSEC_PER_MSEC, w->least);
	EXPECT_EQ(0, w->clock.thrash);
	expect_some(_metadata, w, w->clock.run);
	expect_full(_metadata, w);
}

/*
 * With nothing to reclaim, the kernel puts a task above memory.high to sleep
 * for up to 2 s at each step.
 */
TEST_F_TIMEOUT(limit, task_throttled_above_memory_high_is_stalled, 200)
{
	struct worker *w = self->worker;
	double asleep;

	set_limit("memory.high", LIMIT / 2);
	w->size = LIMIT / 2 + LIMIT / 32;
	run_worker(w, build_up);
	print_worker(w);
	asleep = w->elapsed - w->clock.run - w->clock.wait;
	ASSERT_LT(NSEC_PER_SEC, asleep);
	EXPECT_LE(asleep * (1 - TOLERANCE), w->some);
	EXPECT_GE(w->elapsed * (1 + TOLERANCE), w->some);
	EXPECT_LE(asleep * (1 - TOLERANCE), w->full);
	EXPECT_GE(w->some, w->full);
}

TEST_HARNESS_MAIN
