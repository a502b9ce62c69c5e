// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim of one memory node
 *
 * With vm.zone_reclaim_mode a task that finds its node full frees clean pages there before
 * it takes memory of another node. Newer kernels have a file for each node as well, which has
 * the task that writes to it free pages there.
 *
 * Invariants:
 *  - That is a memory stall, its cause is node_reclaim, and no limit holds the task.
 *  - It is as long as the task's own clock says, and so is memory "some" of its group.
 *
 *     node of the task     fills         |full: some pages free, some pages free, ...
 *     memory some                        |## ## ## ##
 *
 * Bugs it would find: a section that is no stall, or that has another cause; a stall that
 * goes on after the reclaim, or ends before.
 *
 * Method: a task reads from a disk that takes no time, more than its node has memory; or pages
 * that it read before go as it writes to the file of the node.
 * Nothing else limits it. Watermarks are not boosted: that wakes kswapd, and while kswapd is at
 * work, Linux 7.3 takes memory of another node first.
 *
 * Tolerance: PSI reads its clock outside of the task's, by less than 1,250 instructions a stall,
 * of 4 ns in the virtual machine that runs it: 1,003 in a group that is asked for limits and
 * shortages, on a kernel that checks itself. Files show microseconds: 1 us for each line, and for
 * each file.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_causes.h"
#include "psi_delays.h"
#include "psi_stat.h"

#define GROUP		"/sys/fs/cgroup/psi_node"
#define STAT		(GROUP CGROUP_STAT)
#define MODE		"/proc/sys/vm/zone_reclaim_mode"
#define BOOST		"/proc/sys/vm/watermark_boost_factor"
#define NODE		"/sys/devices/system/node/node1"
#define RECLAIM		"/sys/devices/system/node/node0/reclaim"
/* More memory than the node has. */
#define DISK_MB		384
/* It reads so much first; the kernel then frees less, in turns of a quarter of what is left. */
#define CACHED_MB	64
#define FREED		"32M"
/* So many stalls, and more. */
#define READ_STALLS	100
#define FREED_STALLS	10
#define PAUSE		(200 * NSEC_PER_MSEC)
#define ROUNDING	((NR_CAUSES + 1) * NSEC_PER_USEC)
#define AROUND		(5 * NSEC_PER_USEC)

FIXTURE(node) {
	struct slow_disk disk;
	struct sleeper *reader;
	char boost[32];
};

FIXTURE_VARIANT(node) {
	bool orders;
};

FIXTURE_VARIANT_ADD(node, that_is_full) {
};

FIXTURE_VARIANT_ADD(node, from_which_a_program_takes) {
	.orders = true,
};

FIXTURE_SETUP(node)
{
	if (!causes_known())
		SKIP(return, "this kernel does not tell causes");
	if (access(NODE, F_OK))
		SKIP(return, "this machine has one node");
	cpus_use(1);
	task_delays_on();
	slow_disk_create(&self->disk, "psi_node", 0, DISK_MB);
	cgroup_create(GROUP, "+memory");
	self->reader = shared_memory(sizeof(*self->reader));
	self->reader->node = self->disk.node;
	if (read_file(BOOST, self->boost, sizeof(self->boost)) < 0)
		psi_die("%s cannot be read", BOOST);
	write_file(BOOST, "0");
	write_file(MODE, variant->orders ? "0" : "1");
	psi_stat_ask(STAT);
}

FIXTURE_TEARDOWN(node)
{
	write_file(MODE, "0");
	write_file(BOOST, self->boost);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

/* The test reads the clock of the task before it begins. */
static void begin_soon(struct sleeper *t)
{
	t->span.begin = now_ns() + 2 * PAUSE;
	sleep_until(t->span.begin);
}

static int read_blocks(int fd, int mb)
{
	static char buf[1 << 20];

	while (mb && read(fd, buf, sizeof(buf)) > 0)
		mb--;
	return mb;
}

/* Reads all of a disk: @arg is a struct sleeper. */
static void read_once(void *arg)
{
	struct sleeper *t = arg;
	int fd = open_file(t->node, O_RDONLY);

	begin_soon(t);
	read_blocks(fd, DISK_MB);
	t->ended = now_ns();
	sleep_forever();
}

/* Reads the begin of a disk, then has the kernel free a part of that. */
static void free_once(void *arg)
{
	struct sleeper *t = arg;
	int fd = open_file(t->node, O_RDONLY);

	if (read_blocks(fd, CACHED_MB))
		psi_die("%s: %s", t->node, strerror(errno));
	begin_soon(t);
	write_file(RECLAIM, FREED);
	t->ended = now_ns();
	sleep_forever();
}

TEST_F_TIMEOUT(node, has_a_stall_with_the_cause_node_reclaim, 300)
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .arg = self->reader,
				   .fn = variant->orders ? free_once : read_once };
	__u64 some, shortage, limit;
	const struct cause_line *line;
	struct task_clock clock;
	struct causes causes;
	pid_t pid;

	if (variant->orders && access(RECLAIM, F_OK)) {
		ksft_print_msg("this kernel has no %s\n", RECLAIM);
		return;
	}
	pid = load_start(&load);
	while (!self->reader->span.begin)
		sleep_for(PAUSE / 4);
	sleep_until(self->reader->span.begin - PAUSE);
	task_clock_read(pid, &clock);
	causes_read(STAT, &causes);
	shortage = psi_stat_total(STAT, "memory.shortage.some");
	limit = psi_stat_total(STAT, "memory.limit.some");
	some = psi_some_ns(GROUP "/memory.pressure");
	while (!self->reader->ended)
		sleep_for(PAUSE);
	sleep_for(PAUSE);
	clock = task_clock_since(pid, &clock);
	causes = causes_since(STAT, &causes);
	shortage = (psi_stat_total(STAT, "memory.shortage.some") - shortage) * NSEC_PER_USEC;
	limit = psi_stat_total(STAT, "memory.limit.some") - limit;
	some = psi_some_ns(GROUP "/memory.pressure") - some;
	load_stop(pid);
	causes_print(&causes);
	ksft_print_msg("some %.6f s, of which %.6f s shortage; the task reclaimed %.6f s\n",
		       some / 1e9, shortage / 1e9, clock.reclaim / 1e9);

	line = &causes.line[NODE_RECLAIM];
	ASSERT_LT(variant->orders ? FREED_STALLS : READ_STALLS, line->count);
	for (int c = 0; c < NR_CAUSES; c++)
		EXPECT_EQ(c == NODE_RECLAIM, !!causes.line[c].count);
	EXPECT_LE(clock.reclaim, line->total + ROUNDING);
	EXPECT_LE(line->total, clock.reclaim + line->count * AROUND + ROUNDING);
	EXPECT_LE(some, causes.total + ROUNDING);
	EXPECT_LE(causes.total, some + ROUNDING);
	EXPECT_LE(some, shortage + ROUNDING);
	EXPECT_LE(shortage, some + ROUNDING);
	EXPECT_EQ(0, limit);
}

TEST_HARNESS_MAIN
