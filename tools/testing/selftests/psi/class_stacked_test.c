// SPDX-License-Identifier: GPL-2.0
/*
 * Limit or shortage: io of a device on top of another
 *
 * Invariant: a task that waits for a stacked device is held by a limit while
 * io.max holds what the device asks of the disks below, whoever submits that: the
 * task itself, a worker of the loop device or of the device mapper.
 *
 *     task in psi_stacked	|  waits for /dev/loop0 or /dev/dm-0	|
 *     worker		|  reads the file, decrypts		|
 *     io.max of the disk	|  holds the worker's bio	   | disk	|
 *     limit some		|##########################|
 *
 * Oracle: the disk would be idle for most of the time, so the task waits for
 * the limit; without the limit it waits for the disk alone.
 *
 * Bugs it would find: a bio of a worker that belongs to the system; a wait that
 * began before a limit held anything, and that stays a shortage; a class that
 * is left over when the limit is gone.
 *
 * Tolerance: 1 % of the time. What a limit lets through waits for the disk then.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_fs.h"
#include "psi_stack.h"
#include "psi_stat.h"
#include "psi_swap.h"
#include "psi_util.h"
#include "psi_work.h"

#define GROUP		CGROUP_ROOT "/psi_stacked"
#define LEAF		GROUP "/leaf"
#define DISK_FS		"/tmp/psi_stacked"
#define LOOP		"/dev/loop0"
#define LATENCY		(200 * NSEC_PER_USEC)
#define SIZE_MB		40
#define STRIDE		(256UL << 10)
#define CHUNK		(4UL * BLOCK)
/* Blocks in a second. */
#define RATE		10
#define WARM		(3 * NSEC_PER_SEC)
#define TIME		(5 * NSEC_PER_SEC)
#define TOLERANCE	1.0
#define LEAST		90.0
/* Between two waits the task and the worker have something to do, too. */
#define LEAST_OF_DISK	10.0

static const char * const groups[] = { NULL, GROUP, LEAF };

FIXTURE(stacked) {
	struct stacked_disk disk;
	char node[32];
	pid_t pid;
};

enum above { ABOVE_NONE, ABOVE_LOOP, ABOVE_LOOP_DIRECT };

FIXTURE_VARIANT(stacked) {
	enum stack stack;
	enum above above;
};

FIXTURE_VARIANT_ADD(stacked, linear) { .stack = STACK_LINEAR };
FIXTURE_VARIANT_ADD(stacked, crypt) { .stack = STACK_CRYPT };
FIXTURE_VARIANT_ADD(stacked, raid1) { .stack = STACK_RAID1 };
FIXTURE_VARIANT_ADD(stacked, loop) { .above = ABOVE_LOOP };
FIXTURE_VARIANT_ADD(stacked, loop_direct) { .above = ABOVE_LOOP_DIRECT };

/* A file without holes, and a loop device for it. */
static void put_loop_above(const char *disk, bool direct)
{
	static char zeros[1 << 20];
	int fd;

	if (!fs_make(disk, "ext4"))
		psi_die("no ext4");
	fs_mount(disk, DISK_FS, "ext4", NULL);
	loop_create(LOOP, DISK_FS "/image", SIZE_MB, direct);
	fd = open_file(LOOP, O_WRONLY);
	for (int i = 0; i < SIZE_MB; i++) {
		if (write(fd, zeros, sizeof(zeros)) != sizeof(zeros))
			psi_die(LOOP ": %s", strerror(errno));
	}
	if (fsync(fd))
		psi_die(LOOP ": %s", strerror(errno));
	close(fd);
	fs_drop_caches();
}

FIXTURE_SETUP(stacked)
{
	int size = variant->above == ABOVE_NONE ? SIZE_MB : fs_size_mb("ext4");

	if (!psi_has_stat())
		SKIP(return, NO_STAT);
	cpus_use(1);
	stacked_disk_create(&self->disk, variant->stack, LATENCY, size);
	snprintf(self->node, sizeof(self->node), "%s", self->disk.node);
	if (variant->above != ABOVE_NONE) {
		put_loop_above(self->node, variant->above == ABOVE_LOOP_DIRECT);
		snprintf(self->node, sizeof(self->node), LOOP);
	}
	cgroup_create(GROUP, "+io +memory");
	cgroup_create(LEAF, "");
	classes_ask(groups, ARRAY_SIZE(groups));
}

FIXTURE_TEARDOWN(stacked)
{
	if (!self->pid)
		return;
	load_stop(self->pid);
	cgroup_remove(GROUP);
	if (variant->above != ABOVE_NONE) {
		loop_remove(LOOP);
		fs_unmount(DISK_FS);
	}
	stacked_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

static off_t position(long n)
{
	return n * STRIDE % ((off_t)SIZE_MB << 20);
}

/* Reads blocks that nobody has in a cache. */
static void read_far(void *arg)
{
	void *buf;
	int fd = open_blocks(arg, O_DIRECT, &buf);

	for (long n = 0;; n++) {
		if (!position(n))
			fs_drop_caches();
		if (pread(fd, buf, BLOCK, position(n)) != BLOCK)
			psi_die("%s: %s", (char *)arg, strerror(errno));
	}
}

static void write_and_wait(void *arg)
{
	static char buf[CHUNK];
	int fd = open_file(arg, O_WRONLY);

	for (long n = 0;; n++) {
		if (pwrite(fd, buf, CHUNK, position(n)) != CHUNK || fdatasync(fd))
			psi_die("%s: %s", (char *)arg, strerror(errno));
	}
}

/* One class is all that the groups show, at least @least percent of the time. */
static void expect_class(struct __test_metadata *_metadata, bool limit, double least)
{
	struct classes c[ARRAY_SIZE(groups)];

	classes_measure(groups, "io", TIME, c);
	for (int i = 0; i < ARRAY_SIZE(groups); i++) {
		const char *group = groups[i] ?: "the system";
		double other = limit ? c[i].shortage[0] : c[i].limit[0];

		ksft_print_msg("%s: io some %.3f %%: limit %.3f, shortage %.3f\n", group,
			       c[i].plain[0], c[i].limit[0], c[i].shortage[0]);
		EXPECT_LE(least, c[i].plain[0])
			TH_LOG("%s: io some %.3f %%", group, c[i].plain[0]);
		EXPECT_GE(limit ? TOLERANCE : 0.001, other)
			TH_LOG("%s: %.3f %% of the other class", group, other);
		EXPECT_EQ(NULL, classes_contradiction(&c[i], TIME))
			TH_LOG("%s: %s", group, classes_contradiction(&c[i], TIME));
	}
}

static void limit_disks(const struct stacked_disk *disk, bool limit)
{
	char dev[32], rate[16] = "max", text[64];

	if (limit)
		snprintf(rate, sizeof(rate), "%d", RATE * BLOCK);
	for (int i = 0; i <= (disk->kind == STACK_RAID1); i++) {
		slow_disk_number(&disk->disks[i], dev, sizeof(dev));
		snprintf(text, sizeof(text), "%s rbps=%s wbps=%s", dev, rate, rate);
		cgroup_write(GROUP, "io.max", text);
	}
}

static void run_at_limit(struct __test_metadata *_metadata, FIXTURE_DATA(stacked) * self,
			 void (*fn)(void *arg))
{
	const struct load load = { .cpu = 0, .cgroup = LEAF, .fn = fn, .arg = self->node };

	limit_disks(&self->disk, true);
	self->pid = load_start(&load);
	sleep_for(WARM);
	expect_class(_metadata, true, LEAST);
	limit_disks(&self->disk, false);
	sleep_for(WARM);
	expect_class(_metadata, false, LEAST_OF_DISK);
}

TEST_F_TIMEOUT(stacked, a_read_is_a_limit_at_io_max_of_the_disk, 200)
{
	run_at_limit(_metadata, self, read_far);
}

TEST_F_TIMEOUT(stacked, a_write_is_a_limit_at_io_max_of_the_disk, 200)
{
	run_at_limit(_metadata, self, write_and_wait);
}

TEST_HARNESS_MAIN
