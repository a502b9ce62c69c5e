// SPDX-License-Identifier: GPL-2.0
/*
 * Deadline tasks that are out of budget: runnable, but on no queue
 *
 * Invariant: a throttled deadline task waits for a CPU, on the CPU where it ran
 * last. If that CPU goes offline, the task moves without being dequeued or
 * enqueued: when its budget is full again, a timer takes it to another CPU.
 *
 * Bugs it would find: a move that leaves the task's counts on the old CPU,
 * where no event will ever correct them. The system then has cpu pressure for
 * good.
 */
#include <errno.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_crew.h"
#include "psi_leak.h"

/* Returns 0, or the error: EBUSY if all CPU time has been promised. */
static int set_deadline(pid_t pid, __u64 runtime, __u64 period)
{
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_DEADLINE,
		.sched_runtime = runtime,
		.sched_deadline = period,
		.sched_period = period,
	};

	return syscall(SYS_sched_setattr, pid, &attr, 0) ? errno : 0;
}

/* ---- A CPU that goes offline ---- */

#define RUNTIME		(50 * NSEC_PER_MSEC)
#define PERIOD		(4 * NSEC_PER_SEC)

static void run_everywhere(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int cpu = 0; cpu < cpus_possible(); cpu++)
		CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		psi_die("sched_setaffinity: %s", strerror(errno));
}

/*
 * Publishes the CPU it runs on. A deadline task must be allowed on all CPUs,
 * but does not migrate by itself.
 */
static void publish_cpu(void *arg)
{
	int *cpu = arg, error;

	run_everywhere();
	error = set_deadline(0, RUNTIME, PERIOD);
	if (error)
		psi_die("sched_setattr: %s", strerror(error));
	for (;;)
		__atomic_store_n(cpu, sched_getcpu(), __ATOMIC_RELAXED);
}

FIXTURE(offline) {
	int *cpu;
	pid_t pid;
};

FIXTURE_VARIANT(offline) {
	__u64 lives;
};

/* The budget lasts for 50 ms, and is full again 4 s after it began. */
FIXTURE_VARIANT_ADD(offline, killed_after_its_move) { .lives = 5 * NSEC_PER_SEC };
FIXTURE_VARIANT_ADD(offline, killed_before_its_move) { .lives = NSEC_PER_SEC };

FIXTURE_SETUP(offline)
{
	const struct load load = {
		.cpu = 1,
		.fn = publish_cpu,
		.arg = self->cpu = shared_memory(sizeof(*self->cpu)),
	};

	cpus_use(2);
	pin_to(0);
	self->pid = load_start(&load);
}

FIXTURE_TEARDOWN(offline)
{
	if (self->pid)
		load_stop(self->pid);
	cpus_use(cpus_possible());
}

/* A wrong count would make the total grow by the whole time. */
static bool cpu_stands_still(void)
{
	struct idle_growth q;

	/* Let the sampling window end in which the task existed. */
	sleep_for(3 * NSEC_PER_SEC);
	idle_growth_measure(&q, 5 * NSEC_PER_SEC);
	ksft_print_msg("idle for 5 s: cpu grew by %.6f s\n", q.cpu / 1e9);
	return q.cpu < 50 * NSEC_PER_MSEC;
}

TEST_F_TIMEOUT(offline, throttled_task_leaves_nothing_behind, 120)
{
	__u64 some;

	sleep_for(NSEC_PER_SEC);
	ASSERT_EQ(1, __atomic_load_n(self->cpu, __ATOMIC_RELAXED));
	/* A throttled task waits. Without that, this test could not fail. */
	some = psi_some_ns(PSI_CPU);
	sleep_for(NSEC_PER_SEC);
	EXPECT_LT(900 * NSEC_PER_MSEC, psi_some_ns(PSI_CPU) - some);

	cpu_online(1, false);
	sleep_for(variant->lives);
	/* A killed task, too, moves first: it dies where it runs. */
	load_stop(self->pid);
	self->pid = 0;
	if (variant->lives > PERIOD)
		EXPECT_EQ(0, __atomic_load_n(self->cpu, __ATOMIC_RELAXED));
	EXPECT_TRUE(cpu_stands_still());
	cpu_online(1, true);
	EXPECT_TRUE(cpu_stands_still());
}

/* ---- A storm: on CPUs that run in parallel ---- */

#define PATIENCE	(5 * NSEC_PER_SEC)

/**
 * struct pack - deadline tasks, and whether they still run
 * @pid: of each task
 * @progress: of each task; grows while it runs
 * @lost: number of tasks that were throttled and never ran again
 *
 * On a host that is late, 6.12 prints "DL replenish lagged too much", with or
 * without PSI. A task that is then throttled for ever runs again once it gets
 * another policy.
 *
 * If tasks change their class as well, 6.12 without PSI warns "dl_rq->this_bw >
 * old" after a while. So the storm that PSI must survive leaves the class
 * alone.
 */
struct pack {
	pid_t pid[CREW];
	unsigned long progress[CREW];
	unsigned long lost;
};

/* A budget that is shorter than the task's runs, so it is often throttled. */
static int set_some_deadline(pid_t pid)
{
	__u64 period = (5 + storm_chance(50)) * NSEC_PER_MSEC;
	int error = set_deadline(pid, period / (2 + storm_chance(8)), period);

	if (error && error != EBUSY)
		psi_die("sched_setattr: %s", strerror(error));
	return error;
}

static void progress_forever(void *arg)
{
	unsigned long *progress = arg;

	/* Other tasks may have been promised all the time; some die soon. */
	while (set_some_deadline(0))
		sleep_for(NSEC_PER_MSEC);
	for (;;) {
		__u64 end = now_ns() + storm_chance(6) * NSEC_PER_MSEC;

		while (now_ns() < end)
			__atomic_fetch_add(progress, 1, __ATOMIC_RELAXED);
		sleep_for(storm_chance(4) * NSEC_PER_MSEC);
		__atomic_fetch_add(progress, 1, __ATOMIC_RELAXED);
	}
}

static void pack_start(struct pack *pack, int nr)
{
	const struct load load = { .cpu = -1, .fn = progress_forever, .arg = &pack->progress[nr] };

	pack->pid[nr] = load_start(&load);
}

static void rescue(struct pack *pack, int nr)
{
	pack->lost++;
	set_policy(pack->pid[nr], SCHED_OTHER, 0);
}

static bool makes_progress(const struct pack *pack, int nr)
{
	unsigned long before = __atomic_load_n(&pack->progress[nr], __ATOMIC_RELAXED);
	__u64 end = now_ns() + PATIENCE;

	while (now_ns() < end) {
		sleep_for(10 * NSEC_PER_MSEC);
		if (__atomic_load_n(&pack->progress[nr], __ATOMIC_RELAXED) != before)
			return true;
	}
	return false;
}

static void pack_stop(struct pack *pack, int nr)
{
	__u64 end = now_ns() + PATIENCE;
	pid_t pid;

	kill(pack->pid[nr], SIGKILL);
	while (!(pid = waitpid(pack->pid[nr], NULL, WNOHANG)) && now_ns() < end)
		sleep_for(NSEC_PER_MSEC);
	if (!pid) {
		rescue(pack, nr);
		pid = waitpid(pack->pid[nr], NULL, 0);
	}
	if (pid != pack->pid[nr])
		psi_die("waitpid: %s", strerror(errno));
}

static void change_class(pid_t pid)
{
	if (storm_chance(4))
		set_some_deadline(pid);
	else
		set_policy(pid, SCHED_OTHER, storm_chance(10));
}

static void pack_storm(struct pack *pack, struct storm *storm, bool change)
{
	for (int i = 0; i < CREW; i++)
		pack_start(pack, i);
	while (!storm_over(storm)) {
		int nr = storm_chance(CREW);

		if (change && storm_chance(8)) {
			change_class(pack->pid[nr]);
		} else {
			pack_stop(pack, nr);
			pack_start(pack, nr);
		}
		sleep_for(storm_chance(4) * STEP);
	}
	for (int i = 0; i < CREW; i++) {
		if (!makes_progress(pack, i))
			rescue(pack, i);
		/* A task is lost to throttling, or the test is wrong. */
		if (!makes_progress(pack, i))
			psi_die("a task does not run, whatever its policy");
		pack_stop(pack, i);
	}
	ksft_print_msg("%lu events, %lu tasks were lost\n", storm_events(), pack->lost);
}

FIXTURE(deadline) {
	struct slow_disk disk;
	struct pack *pack;
};

FIXTURE_SETUP(deadline)
{
	storm_set_up(&self->disk, "psi_deadline");
	self->pack = shared_memory(sizeof(*self->pack));
}

FIXTURE_TEARDOWN(deadline)
{
	slow_disk_remove(&self->disk);
}

TEST_F_TIMEOUT(deadline, tasks_leave_nothing_behind, STORM_TIMEOUT)
{
	struct storm storm = { .time = storm_time(5 * NSEC_PER_SEC) };

	pack_storm(self->pack, &storm, false);
	EXPECT_LT(0, storm_events());
	EXPECT_EQ(0, self->pack->lost);
	EXPECT_NO_LEAK(find_leak(self->disk.node));
}

/*
 * The following need no PSI. On a late host 6.12 fails the second one with a
 * warning.
 */
TEST_F_TIMEOUT(deadline, no_task_is_lost, STORM_TIMEOUT)
{
	struct storm storm = { .time = storm_time(5 * NSEC_PER_SEC) };

	pack_storm(self->pack, &storm, false);
	EXPECT_EQ(0, self->pack->lost);
}

TEST_F_TIMEOUT(deadline, no_task_is_lost_when_it_changes_its_class, STORM_TIMEOUT)
{
	struct storm storm = { .time = storm_time(5 * NSEC_PER_SEC) };

	pack_storm(self->pack, &storm, true);
	EXPECT_EQ(0, self->pack->lost);
}

TEST_HARNESS_MAIN
