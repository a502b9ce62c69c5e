// SPDX-License-Identifier: GPL-2.0
/*
 * IO pressure: a task that waits for a block device
 *
 * Invariant: io "some" is the time in which a task is asleep in iowait. A reader that
 * does nothing but read sleeps in no other way, so its oracle is what is left of its
 * life after the time it ran, was interrupted, or waited for the CPU. "full" is the part
 * of it in which the CPU has nothing to run. Other ways to sleep are no io.
 *
 *     reader    run|  asleep in iowait  |run|  asleep in iowait  |run
 *     io some      |####################|   |####################|
 *     io full      |####################|   |####################|    alone on the CPU
 *     io full      |                    |   |                    |    next to a spinner
 *
 * What would break it: iowait that is looked up after the wake-up cleared it, a stall that
 * ends when the task runs instead of when it is woken, a sleeper that is taken to
 * the CPU on which it wakes up, two sleepers counted twice.
 *
 * The device (null_blk) answers after 10 ms of the guest's own timer.
 *
 * The blkio delay of taskstats is no oracle: it is taken from whichever task is current
 * when a delayed dequeue is completed.
 *
 * Tolerance: 0.5 %. The switch to and from the reader is in neither of its clocks, and is
 * some 10 us of virtual time for each sleep of 10 ms.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_util.h"

#define LATENCY		(10 * NSEC_PER_MSEC)
#define DISK_MB		64
#define BLOCK		4096
#define TOLERANCE	0.005

/**
 * struct reader - one child that reads from the device, and what it says about itself
 * @node: the device
 * @flags: how it is opened
 * @end: when it stops reading
 * @asleep: how much of its time it was asleep, in ns, filled in when it stops
 */
struct reader {
	const char *node;
	int flags;
	__u64 end;
	__u64 asleep;
};

/* What a task spent awake so far: running, hit by interrupts, waiting for the CPU. */
static __u64 awake_ns(void)
{
	struct task_clock tc;

	task_clock_read(getpid(), &tc);
	return tc.run + tc.irq + tc.wait;
}

static void read_blocks(void *arg)
{
	struct reader *reader = arg;
	__u64 start, awake;
	off_t pos = 0;
	void *buf;
	int fd;

	buf = aligned_alloc(BLOCK, BLOCK);
	fd = open(reader->node, O_RDONLY | O_CLOEXEC | reader->flags);
	if (!buf || fd < 0)
		psi_die("%s: %s", reader->node, strerror(errno));
	/* Each block is far from the last one: no readahead. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	start = now_ns();
	awake = awake_ns();
	while (now_ns() < reader->end) {
		if (pread(fd, buf, BLOCK, pos) != BLOCK)
			psi_die("%s: %s", reader->node, strerror(errno));
		pos = (pos + 16 * BLOCK) % (DISK_MB << 20);
	}
	reader->asleep = (now_ns() - start) - (awake_ns() - awake);
}

static pid_t reader_start(struct reader *reader, int cpu)
{
	const struct load load = { .cpu = cpu, .fn = read_blocks, .arg = reader };

	return load_start(&load);
}

/* How much of the time from begin() to end() was pressure, in ns. */
struct measure {
	__u64 some;
	__u64 full;
	__u64 time;
};

static void begin(struct measure *m)
{
	m->time = now_ns();
	m->some = psi_some_ns(PSI_IO);
	m->full = psi_full_ns(PSI_IO);
}

static void end(struct measure *m)
{
	m->some = psi_some_ns(PSI_IO) - m->some;
	m->full = psi_full_ns(PSI_IO) - m->full;
	m->time = now_ns() - m->time;
}

FIXTURE(device) {
	struct slow_disk disk;
	struct reader *reader;
};

FIXTURE_SETUP(device)
{
	cpus_use(1);
	task_delays_on();
	slow_disk_create(&self->disk, "psi_io", LATENCY, DISK_MB);
	self->reader = mmap(NULL, 4 * sizeof(*self->reader), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->reader);
	for (int i = 0; i < 4; i++) {
		self->reader[i].node = self->disk.node;
		self->reader[i].flags = O_DIRECT;
		self->reader[i].end = now_ns() + 10 * NSEC_PER_SEC;
	}
}

FIXTURE_TEARDOWN(device)
{
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

static void expect_close(struct __test_metadata *_metadata, const char *what, double oracle,
			 double value)
{
	EXPECT_GE(oracle * TOLERANCE, fabs(value - oracle)) {
		TH_LOG("%s is %.6f s, must be %.6f s", what, value / 1e9, oracle / 1e9);
	}
}

TEST_F(device, direct_read_is_io_for_as_long_as_the_task_sleeps)
{
	struct measure m;

	begin(&m);
	load_wait(reader_start(&self->reader[0], 0));
	end(&m);
	ASSERT_LT(9 * NSEC_PER_SEC, self->reader[0].asleep);
	expect_close(_metadata, "io some", self->reader[0].asleep, m.some);
	expect_close(_metadata, "io full", self->reader[0].asleep, m.full);
}

TEST_F(device, read_through_the_page_cache_is_io)
{
	struct measure m;

	self->reader[0].flags = 0;
	begin(&m);
	load_wait(reader_start(&self->reader[0], 0));
	end(&m);
	ASSERT_LT(NSEC_PER_SEC, self->reader[0].asleep);
	expect_close(_metadata, "io some", self->reader[0].asleep, m.some);
}

TEST_F(device, cpu_with_something_to_run_is_not_full)
{
	struct measure m;
	pid_t spinner;

	spinner = spin_on(0);
	begin(&m);
	load_wait(reader_start(&self->reader[0], 0));
	end(&m);
	load_stop(spinner);
	expect_close(_metadata, "io some", self->reader[0].asleep, m.some);
	EXPECT_GT(m.some * TOLERANCE, m.full);
}

/*
 * Four readers sleep side by side: their delays add up to four times the wall clock,
 * the pressure must not.
 */
TEST_F(device, four_sleepers_are_one_stall)
{
	struct measure m;
	pid_t pid[4];

	begin(&m);
	for (int i = 0; i < 4; i++)
		pid[i] = reader_start(&self->reader[i], 0);
	for (int i = 0; i < 4; i++)
		load_wait(pid[i]);
	end(&m);
	EXPECT_GE(m.time, m.some);
	EXPECT_LE(self->reader[0].asleep * (1 - TOLERANCE), m.some);
	EXPECT_GE(m.some, m.full);
}

static void sleep_in_a_read(void *arg)
{
	char byte;

	if (read(*(int *)arg, &byte, 1) < 0)
		psi_die("read: %s", strerror(errno));
}

TEST_F(device, sleep_that_is_no_io_makes_no_pressure)
{
	int pipefd[2];
	struct load load = { .cpu = 0, .fn = sleep_in_a_read, .arg = &pipefd[0] };
	struct measure m;
	pid_t pid;

	ASSERT_EQ(0, pipe(pipefd));
	pid = load_start(&load);
	begin(&m);
	sleep_for(10 * NSEC_PER_SEC);
	end(&m);
	load_stop(pid);
	EXPECT_EQ(0, m.some);
	EXPECT_EQ(0, m.full);
}

/* The limit of a cgroup is a wait for io like that for the device. */
TEST_F(device, read_that_a_cgroup_throttles_is_io)
{
	static const char group[] = "/sys/fs/cgroup/psi_io";
	struct load load = { .cpu = 0, .cgroup = group, .fn = read_blocks };
	char limit[64], dev[32];
	struct measure m;

	ASSERT_LT(0, read_file("/sys/block/psi_io/dev", dev, sizeof(dev)));
	dev[strcspn(dev, "\n")] = '\0';
	snprintf(limit, sizeof(limit), "%s riops=5", dev);
	cgroup_create(group, "+io");
	cgroup_write(group, "io.max", limit);
	load.arg = &self->reader[0];
	begin(&m);
	load_wait(load_start(&load));
	end(&m);
	cgroup_remove(group);
	ASSERT_LT(8 * NSEC_PER_SEC, self->reader[0].asleep);
	expect_close(_metadata, "io some", self->reader[0].asleep, m.some);
	expect_close(_metadata, "io full", self->reader[0].asleep, m.full);
}

TEST_HARNESS_MAIN
