// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs that an isolated partition of cpusets takes at run time
 *
 * Invariant: nothing of PSI runs on an isolated CPU apart from the hooks of the
 * scheduler, neither its threads nor the interrupts that wake them, and its
 * triggers work all the same. This holds whether isolcpus= isolates the CPU or a
 * partition does, while there is one and after it is gone.
 *
 * Bugs it would find: a mask of CPUs that is made at boot; threads that go where
 * a partition that ends lets them go.
 *
 * Two tasks share the isolated CPU for some time out of every 300 ms, so that
 * samplers rest in between, and each burst wakes the monitor.
 *
 * Needs four CPUs, of which isolcpus= isolates the second.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kselftest_harness.h"
#include "psi_trigger.h"

#define GROUP		CGROUP_ROOT "/psi_isolation"
#define CPUS		4
/*
 * That of isolcpus=. A thread that has to leave the first CPU goes to the first
 * of the others.
 */
#define ISOLCPU		1
#define BURST		(20 * NSEC_PER_MSEC)
#define PERIOD		(300 * NSEC_PER_MSEC)
#define MEASURE		(20 * NSEC_PER_SEC)
/* The threads wake up once, and leave. */
#define SETTLE		(5 * NSEC_PER_SEC)

/* How many irq_works have run on a CPU. */
static unsigned long works_on(int cpu)
{
	char text[16384], *p;
	unsigned long works[CPUS];

	read_text("/proc/interrupts", text, sizeof(text));
	p = strstr(text, "IWI:");
	if (!p || sscanf(p, "IWI: %lu %lu %lu %lu", works, works + 1, works + 2, works + 3) != CPUS)
		psi_die("/proc/interrupts: no irq_works of %d CPUs", CPUS);
	return works[cpu];
}

/* Where a task ran last. */
static int last_cpu(pid_t pid)
{
	char path[64], text[1024], *p;
	int field;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	read_text(path, text, sizeof(text));
	p = strrchr(text, ')');
	for (field = 2; p && field < 39; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		psi_die("%s: unknown format", path);
	return atoi(p + 1);
}

static void burst_forever(void *arg)
{
	/* Both tasks at the same time. */
	__u64 begin = (now_ns() / PERIOD + 1) * PERIOD;

	sleep_until(begin);
	for (;; begin += PERIOD) {
		spin_until(begin + BURST);
		sleep_until(begin + PERIOD);
	}
}

FIXTURE(isolated) {
	pid_t pid[2];
	pid_t threads[16];
	int nr_threads;
	int fd;
};

FIXTURE_SETUP(isolated)
{
	if (cpus_possible() != CPUS || try_pin(0, ISOLCPU))
		SKIP(return, "needs %d CPUs, and isolcpus=%d", CPUS, ISOLCPU);
	pin_to(0);
	cgroup_create(GROUP, "+cpu +cpuset");
	self->nr_threads = kernel_threads("psi*", self->threads, ARRAY_SIZE(self->threads));
	ASSERT_LT(0, self->nr_threads);
}

FIXTURE_TEARDOWN(isolated)
{
	cgroup_remove(GROUP);
}

/* Has two tasks share a CPU, and a trigger wait for them. */
static void load_begin(FIXTURE_DATA(isolated) * self, int cpu)
{
	const struct load load = { .cpu = cpu, .cgroup = GROUP, .fn = burst_forever };

	for (int i = 0; i < 2; i++)
		self->pid[i] = load_start(&load);
	self->fd = trigger_arm(GROUP "/cpu.pressure", "some 20000 1000000");
	sleep_for(SETTLE);
}

static void load_end(FIXTURE_DATA(isolated) * self)
{
	close(self->fd);
	for (int i = 0; i < 2; i++)
		load_stop(self->pid[i]);
}

/* Whether a CPU has nothing of PSI, while events come. */
static bool is_left_alone(FIXTURE_DATA(isolated) * self, int cpu)
{
	__u64 stalled = psi_some_ns(GROUP "/cpu.pressure");
	unsigned long works = works_on(cpu);
	__u64 ran[ARRAY_SIZE(self->threads)];
	bool alone = true;
	int events, i;

	for (i = 0; i < self->nr_threads; i++)
		ran[i] = task_busy_ns(self->threads[i]);
	events = trigger_count(self->fd, now_ns() + MEASURE);
	works = works_on(cpu) - works;
	stalled = psi_some_ns(GROUP "/cpu.pressure") - stalled;
	for (i = 0; i < self->nr_threads; i++)
		alone &= task_busy_ns(self->threads[i]) == ran[i] ||
			 last_cpu(self->threads[i]) != cpu;
	ksft_print_msg("CPU %d: %lu irq_works, %llu ms of stall, %d events%s\n", cpu, works,
		       stalled / NSEC_PER_MSEC, events, alone ? "" : ", a thread of PSI");
	return alone && !works && events >= 15;
}

TEST_F_TIMEOUT(isolated, cpu_of_a_partition_is_left_alone, 120)
{
	cgroup_write(GROUP, "cpuset.cpus", "2");
	cgroup_write(GROUP, "cpuset.cpus.partition", "isolated");
	load_begin(self, 2);
	EXPECT_TRUE(is_left_alone(self, 2));
	load_end(self);
}

/* The first CPU is the one that an interrupt goes to which may go anywhere. */
TEST_F_TIMEOUT(isolated, first_cpu_is_left_alone, 120)
{
	cgroup_write(GROUP, "cpuset.cpus", "0,2");
	pin_to(3);
	cgroup_write(GROUP, "cpuset.cpus.partition", "isolated");
	load_begin(self, 2);
	EXPECT_TRUE(is_left_alone(self, 2));
	EXPECT_TRUE(is_left_alone(self, 0));
	load_end(self);
}

TEST_F_TIMEOUT(isolated, cpu_of_isolcpus_is_left_by_threads_that_got_there, 120)
{
	for (int i = 0; i < self->nr_threads; i++)
		ASSERT_EQ(0, try_pin(self->threads[i], ISOLCPU));
	load_begin(self, ISOLCPU);
	EXPECT_TRUE(is_left_alone(self, ISOLCPU));
	load_end(self);
}

/*
 *     the partition              |0, isolated|
 *     cpusets let threads use    |1-3        |0-3
 *     where the threads are     0|1 or 2, 2  |2
 *
 * (Linux 7.3 lets its threads use no CPU of isolcpus=.) A thread that wakes up
 * there leaves before it does anything.
 */
TEST_F_TIMEOUT(isolated, cpu_of_isolcpus_is_left_when_a_partition_has_gone, 180)
{
	for (int i = 0; i < self->nr_threads; i++)
		ASSERT_EQ(0, try_pin(self->threads[i], 0));
	load_begin(self, 0);
	load_end(self);
	pin_to(3);
	cgroup_write(GROUP, "cpuset.cpus", "0");
	cgroup_write(GROUP, "cpuset.cpus.partition", "isolated");
	load_begin(self, 0);
	EXPECT_TRUE(is_left_alone(self, ISOLCPU));
	load_end(self);
	cgroup_write(GROUP, "cpuset.cpus.partition", "member");
	cgroup_write(GROUP, "cpuset.cpus", "0-3");
	load_begin(self, ISOLCPU);
	EXPECT_TRUE(is_left_alone(self, ISOLCPU));
	load_end(self);
}

TEST_HARNESS_MAIN
