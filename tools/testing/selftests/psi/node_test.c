// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim of one memory node
 *
 * With vm.zone_reclaim_mode a task that finds its node full frees clean pages there before
 * it takes memory of another node.
 *
 * Invariants:
 *  - That is a memory stall, and its cause is node_reclaim.
 *  - It is as long as the task's own clock says, and so is memory "some" of its group.
 *
 *     node of the task     fills         |full: some pages free, some pages free, ...
 *     memory some                        |## ## ## ##
 *
 * Bugs it would find: a section that is no stall, or that has another cause; a stall that
 * goes on after the reclaim, or ends before.
 *
 * Method: a task reads from a disk that takes no time, more than its node has memory.
 * Nothing else limits it. Watermarks are not boosted: that wakes kswapd, and while kswapd is at
 * work, Linux 7.3 takes memory of another node first.
 *
 * Tolerance: PSI reads its clock outside of the task's, by less than 1,000 instructions a stall,
 * of 4 ns in the virtual machine that runs it. Files show microseconds: 1 us for each line, and for
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
#define MODE		"/proc/sys/vm/zone_reclaim_mode"
#define BOOST		"/proc/sys/vm/watermark_boost_factor"
#define NODE		"/sys/devices/system/node/node1"
/* More memory than the node has. */
#define DISK_MB		384
#define PAUSE		(200 * NSEC_PER_MSEC)
#define ROUNDING	((NR_CAUSES + 1) * NSEC_PER_USEC)
#define AROUND		(4 * NSEC_PER_USEC)

FIXTURE(node) {
	struct slow_disk disk;
	struct sleeper *reader;
	char boost[32];
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
	write_file(MODE, "1");
}

FIXTURE_TEARDOWN(node)
{
	write_file(MODE, "0");
	write_file(BOOST, self->boost);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

/* Reads all of a disk, from @begin on: @arg is a struct sleeper. */
static void read_once(void *arg)
{
	static char buf[1 << 20];
	struct sleeper *t = arg;
	int fd = open_file(t->node, O_RDONLY);

	sleep_until(t->span.begin);
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	t->ended = now_ns();
	sleep_forever();
}

TEST_F_TIMEOUT(node, freeing_pages_of_the_own_node_first_is_node_reclaim, 300)
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = read_once,
				   .arg = self->reader };
	const struct cause_line *line;
	struct task_clock clock;
	struct causes causes;
	__u64 some;
	pid_t pid;

	self->reader->span.begin = now_ns() + 2 * PAUSE;
	pid = load_start(&load);
	sleep_until(self->reader->span.begin - PAUSE);
	task_clock_read(pid, &clock);
	causes_read(GROUP CGROUP_STAT, &causes);
	some = psi_some_ns(GROUP "/memory.pressure");
	while (!self->reader->ended)
		sleep_for(PAUSE);
	sleep_for(PAUSE);
	clock = task_clock_since(pid, &clock);
	causes = causes_since(GROUP CGROUP_STAT, &causes);
	some = psi_some_ns(GROUP "/memory.pressure") - some;
	load_stop(pid);
	causes_print(&causes);
	ksft_print_msg("some %.6f s, the task reclaimed %.6f s\n", some / 1e9, clock.reclaim / 1e9);

	line = &causes.line[NODE_RECLAIM];
	ASSERT_LT(100, line->count);
	for (int c = 0; c < NR_CAUSES; c++)
		EXPECT_EQ(c == NODE_RECLAIM, !!causes.line[c].count);
	EXPECT_LE(clock.reclaim, line->total + ROUNDING);
	EXPECT_LE(line->total, clock.reclaim + line->count * AROUND + ROUNDING);
	EXPECT_LE(some, causes.total + ROUNDING);
	EXPECT_LE(causes.total, some + ROUNDING);
}

TEST_HARNESS_MAIN
