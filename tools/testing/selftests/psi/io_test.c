// SPDX-License-Identifier: GPL-2.0
/*
 * IO pressure: a task that waits for a block device
 *
 * Invariant: io "some" is the time in which a task is asleep in iowait. A task
 * that only reads has no other sleep (struct reader). "full" is the part in
 * which the CPU has no task to run. Other sleep is no io.
 *
 *     reader    run|  asleep in iowait  |run|  asleep in iowait  |run
 *     io some      |####################|   |####################|
 *     io full      |####################|   |####################|    alone on the CPU
 *     io full      |                    |   |                    |    beside a spinner
 *
 * Bugs it would find: iowait that PSI reads after the wake-up has cleared it; a
 * stall that ends when the task runs instead of when it wakes up; a sleeper
 * that is counted on the CPU on which it wakes up; two sleepers that count
 * twice.
 *
 * The device (null_blk) answers after 10 ms of a timer of the guest.
 *
 * Tolerance: 0.5 %. The context switch to and from the reader is in neither of
 * its clocks, and takes about 10 us of virtual time for each sleep of 10 ms.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_work.h"

#define LATENCY		(10 * NSEC_PER_MSEC)
#define DISK_MB		64
#define TOLERANCE	0.005

FIXTURE(device) {
	struct slow_disk disk;
	struct reader *reader;
};

FIXTURE_SETUP(device)
{
	cpus_use(1);
	task_delays_on();
	slow_disk_create(&self->disk, "psi_io", LATENCY, DISK_MB);
	self->reader = shared_memory(4 * sizeof(*self->reader));
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

static void expect_some(struct __test_metadata *_metadata, const struct reader *reader)
{
	expect_close(_metadata, "io some", reader->asleep, reader->some);
}

/*
 * The CPU is idle while the reader sleeps. But with PREEMPT_RT, threads
 * complete its reads. That is no full stall, up to a tenth of the time.
 */
static void expect_full(struct __test_metadata *_metadata, const struct reader *reader)
{
	if (!kernel_is_preempt_rt()) {
		expect_close(_metadata, "io full", reader->asleep, reader->full);
		return;
	}
	EXPECT_GE(reader->asleep * (1 + TOLERANCE), reader->full);
	EXPECT_LE(reader->asleep * 0.9, reader->full);
}

TEST_F(device, direct_read_is_io_for_as_long_as_the_task_sleeps)
{
	struct reader *reader = self->reader;

	load_wait(reader_start(reader, 0));
	ASSERT_LT(9 * NSEC_PER_SEC, reader->asleep);
	expect_some(_metadata, reader);
	expect_full(_metadata, reader);
}

TEST_F(device, read_through_the_page_cache_is_io)
{
	struct reader *reader = self->reader;

	reader->flags = 0;
	load_wait(reader_start(reader, 0));
	ASSERT_LT(NSEC_PER_SEC, reader->asleep);
	expect_some(_metadata, reader);
	expect_full(_metadata, reader);
}

TEST_F(device, cpu_with_a_task_to_run_is_not_full)
{
	struct reader *reader = self->reader;
	pid_t spinner = spin_on(0);

	load_wait(reader_start(reader, 0));
	load_stop(spinner);
	ASSERT_LT(NSEC_PER_SEC, reader->asleep);
	expect_some(_metadata, reader);
	EXPECT_GT(reader->some * TOLERANCE, reader->full);
}

/*
 * Four readers sleep at the same time. Their delays add up to four times the
 * elapsed time; the pressure must not.
 */
TEST_F(device, four_sleepers_are_one_stall)
{
	struct reader *reader = self->reader;
	double awake = 0;
	pid_t pid[4];

	for (int i = 0; i < 4; i++)
		pid[i] = reader_start(&reader[i], 0);
	for (int i = 0; i < 4; i++) {
		load_wait(pid[i]);
		awake += reader[i].elapsed - reader[i].asleep;
	}
	EXPECT_GE(reader->elapsed, reader->some);
	EXPECT_LE(reader->asleep * (1 - TOLERANCE), reader->some);
	EXPECT_GE(reader->some, reader->full);
	/* Not while this one is awake; and while none is. */
	EXPECT_GE(reader->asleep * (1 + TOLERANCE), reader->full);
	if (!kernel_is_preempt_rt())
		EXPECT_LE(reader->elapsed * (1 - TOLERANCE) - awake, reader->full);
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
	__u64 some;
	pid_t pid;

	ASSERT_EQ(0, pipe(pipefd));
	pid = load_start(&load);
	some = psi_some_ns(PSI_IO);
	sleep_for(10 * NSEC_PER_SEC);
	EXPECT_EQ(some, psi_some_ns(PSI_IO));
	load_stop(pid);
}

/*
 * A task that waits for its cgroup's limit waits for io, like one that waits
 * for the device.
 */
TEST_F(device, read_that_a_cgroup_throttles_is_io)
{
	static const char group[] = "/sys/fs/cgroup/psi_io";
	struct reader *reader = self->reader;
	struct load load = { .cpu = 0, .cgroup = group, .fn = read_blocks, .arg = reader };
	char limit[64], dev[32];

	ASSERT_LT(0, read_file("/sys/block/psi_io/dev", dev, sizeof(dev)));
	dev[strcspn(dev, "\n")] = '\0';
	snprintf(limit, sizeof(limit), "%s riops=5", dev);
	cgroup_create(group, "+io");
	cgroup_write(group, "io.max", limit);
	load_wait(load_start(&load));
	cgroup_remove(group);
	ASSERT_LT(8 * NSEC_PER_SEC, reader->asleep);
	expect_some(_metadata, reader);
	expect_full(_metadata, reader);
}

TEST_HARNESS_MAIN
