// SPDX-License-Identifier: GPL-2.0
/*
 * All operations on cgroups at once, on CPUs that really run in parallel
 *
 * Invariant: after the storm, every count of every cgroup is zero, as no cgroup
 * has a task. A load with a known answer shows in all its cgroups. No total
 * ever exceeds the elapsed time or goes backwards.
 *
 * Bugs it would find: a task that changes its cgroup between PSI's last look at
 * the old one and its context switch, or while it exits; a fork into a cgroup
 * that is being switched off; a switch that reads the states of a CPU without
 * waiting for that CPU; a read of a file whose cgroup is being removed; a task that
 * stays counted in the cgroup above, where it was while its own had no memory.
 *
 * Only real time makes this a test: in virtual time the CPUs take turns.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_leak.h"
#include "psi_stat.h"
#include "psi_storm.h"

#define TOP		CGROUP_ROOT "/psi_cgroups"
/* Seconds that a storm may add until it has done enough. */
#define PATIENCE	60
#define NR_TASKS	16
#define NR_THREADS	4
/* More than a CPU has memory in reserve for. */
#define NR_CROWD	100

/* The workers create and remove these; a parent stands before its children. */
static const char * const slots[] = {
	TOP "/a", TOP "/b", TOP "/c",
	TOP "/a/x", TOP "/a/y", TOP "/b/x",
	TOP "/a/x/1", TOP "/a/x/2", TOP "/b/x/1",
	TOP "/a/x/1/deep", TOP "/b/x/1/deep",
};

/* Threads move between these, one by one. They stay until the end. */
static const char * const threaded[] = {
	TOP "/threads", TOP "/threads/1", TOP "/threads/2", TOP "/threads/2/deep",
};

static const char * const files[] = { "cpu.pressure", "memory.pressure", "io.pressure" };

/**
 * struct common - what all workers share
 * @begin: of the storm
 * @end: of the storm
 * @disk: for tasks that wait for io
 * @task: tasks that workers move and kill
 * @thread: threads that workers move
 * @moves: number of moves, about, as no lock protects the counters
 * @forks: number of forks into another cgroup
 * @switches: number of writes to cgroup.pressure
 * @removals: number of removed cgroups
 * @crowds: how often many cgroups began to use a CPU at once
 * @limits: how often a limit changed
 * @asks: how often a trigger on a statistics file was armed
 */
struct common {
	__u64 begin;
	__u64 end;
	char disk[32];
	pid_t task[NR_TASKS];
	pid_t thread[NR_THREADS];
	unsigned long moves;
	unsigned long forks;
	unsigned long switches;
	unsigned long removals;
	unsigned long crowds;
	unsigned long limits;
	unsigned long asks;
};

static struct common *common;

static bool storm_ended(void)
{
	return now_ns() >= common->end;
}

static const char *random_slot(void)
{
	return slots[storm_chance(ARRAY_SIZE(slots))];
}

static bool group_try_write(const char *cgroup, const char *file, const char *text)
{
	int error = cgroup_try_write(cgroup, file, text);

	if (error && !storm_is_gone(error))
		psi_die("%s/%s: \"%s\": %s", cgroup, file, text, strerror(error));
	return !error;
}

/* ---- Players ---- */

/* Moves all tasks of a cgroup to random ones, so that it can be removed. */
static void empty(const char *path)
{
	char name[256], list[4096];

	snprintf(name, sizeof(name), "%s/cgroup.procs", path);
	if (read_file(name, list, sizeof(list)) < 0)
		return;
	for (char *pid = strtok(list, "\n"); pid; pid = strtok(NULL, "\n"))
		common->moves += group_try_write(random_slot(), "cgroup.procs", pid);
}

static void make_and_remove(void *arg)
{
	while (!storm_ended()) {
		const char *path = random_slot();

		if (storm_chance(2)) {
			if (mkdir(path, 0755) && errno != EEXIST && !storm_is_gone(errno))
				psi_die("%s: %s", path, strerror(errno));
			sleep_for(storm_chance(3) * NSEC_PER_MSEC);
			continue;
		}
		empty(path);
		if (!rmdir(path))
			common->removals++;
		else if (errno != EBUSY && !storm_is_gone(errno))
			psi_die("%s: %s", path, strerror(errno));
		sleep_for(storm_chance(3) * NSEC_PER_MSEC);
	}
}

static void move_tasks(void *arg)
{
	char text[16];

	while (!storm_ended()) {
		snprintf(text, sizeof(text), "%d", common->task[storm_chance(NR_TASKS)]);
		common->moves += group_try_write(random_slot(), "cgroup.procs", text);
		sleep_for(storm_chance(1000) * NSEC_PER_USEC);
	}
}

static void move_threads(void *arg)
{
	char text[16];

	while (!storm_ended()) {
		snprintf(text, sizeof(text), "%d", common->thread[storm_chance(NR_THREADS)]);
		common->moves += group_try_write(threaded[storm_chance(ARRAY_SIZE(threaded))],
					   "cgroup.threads", text);
		sleep_for(storm_chance(1000) * NSEC_PER_USEC);
	}
}

/* Moves itself while it is on the CPU, then sleeps or not. */
static void move_self(void *arg)
{
	while (!storm_ended()) {
		common->moves += group_try_write(random_slot(), "cgroup.procs", "0");
		if (storm_chance(4))
			sleep_for(storm_chance(5) * NSEC_PER_MSEC);
	}
}

/* Moves children while they exit. */
static void move_exiting(void *arg)
{
	char text[16];

	while (!storm_ended()) {
		pid_t pid = fork_or_die();

		if (!pid) {
			spin_until(now_ns() + storm_chance(300) * NSEC_PER_USEC);
			_exit(0);
		}
		snprintf(text, sizeof(text), "%d", pid);
		common->moves += group_try_write(random_slot(), "cgroup.procs", text);
		reap(pid);
		sleep_for(storm_chance(5) * NSEC_PER_MSEC);
	}
}

/* Forks into a cgroup that may be off, or being removed. */
static void fork_into_slots(void *arg)
{
	while (!storm_ended()) {
		pid_t pid = cgroup_fork(random_slot());

		if (!pid) {
			spin_until(now_ns() + storm_chance(300) * NSEC_PER_USEC);
			_exit(0);
		}
		if (pid > 0 && waitpid(pid, NULL, 0) != pid)
			psi_die("waitpid: %s", strerror(errno));
		if (pid < 0 && errno != EBUSY && !storm_is_gone(errno))
			psi_die("clone3: %s", strerror(errno));
		common->forks += pid > 0;
		sleep_for(storm_chance(5) * NSEC_PER_MSEC);
	}
}

static void keep_tasks(void *arg)
{
	for (int i = 0; i < NR_TASKS; i++)
		common->task[i] = storm_task(NULL, common->disk);
	while (!storm_ended()) {
		pid_t *pid = &common->task[storm_chance(NR_TASKS)];

		load_stop(*pid);
		*pid = storm_task(NULL, common->disk);
		sleep_for(storm_chance(10) * NSEC_PER_MSEC);
	}
	for (int i = 0; i < NR_TASKS; i++)
		load_stop(common->task[i]);
}

/* One of a crowd: sleeps until the other end of the pipe is closed. */
static pid_t crowd_member(int cpu, const int end[2])
{
	pid_t pid = fork_or_die();
	char byte;

	if (pid)
		return pid;
	close(end[1]);
	pin_to(cpu);
	if (read(end[0], &byte, 1))
		psi_die("a pipe that nobody writes to has data");
	spin_until(now_ns() + storm_chance(300) * NSEC_PER_USEC);
	_exit(0);
}

/*
 * Many cgroups begin to use a CPU at once: their tasks are moved there while they
 * sleep, and all wake up together. Some then go on to another cgroup.
 */
static void wake_crowds(void *arg)
{
	pid_t pid[NR_CROWD];
	char path[64], text[16];
	int end[2], i;

	while (!storm_ended()) {
		int cpu = storm_chance(cpus_possible());

		if (pipe(end))
			psi_die("pipe: %s", strerror(errno));
		for (i = 0; i < NR_CROWD; i++) {
			snprintf(path, sizeof(path), TOP "/crowd/%d", i);
			cgroup_create(path, "");
			pid[i] = crowd_member(cpu, end);
			cgroup_move(path, pid[i]);
		}
		close(end[0]);
		close(end[1]);
		for (i = 0; i < NR_CROWD; i += 10) {
			snprintf(text, sizeof(text), "%d", pid[i]);
			common->moves += group_try_write(random_slot(), "cgroup.procs", text);
		}
		for (i = 0; i < NR_CROWD; i++) {
			reap(pid[i]);
			snprintf(path, sizeof(path), TOP "/crowd/%d", i);
			if (rmdir(path))
				psi_die("%s: %s", path, strerror(errno));
		}
		common->crowds++;
		sleep_for(storm_chance(200) * NSEC_PER_MSEC);
	}
}

static bool group_switch(const char *path)
{
	return group_try_write(path, "cgroup.pressure", storm_chance(2) ? "1" : "0");
}

static void toggle(void *arg)
{
	while (!storm_ended()) {
		const char *path = storm_chance(4) ? random_slot() : TOP;

		common->switches += group_switch(path);
		if (!storm_chance(20))
			group_switch(TOP "/crowd");
		if (!storm_chance(20))
			group_switch(threaded[storm_chance(ARRAY_SIZE(threaded))]);
		sleep_for(storm_chance(500) * NSEC_PER_USEC);
	}
}

/* Makes tasks reclaim, be throttled, or neither. */
static void limit(void *arg)
{
	static const char * const high[] = { "1048576", "4194304", "max" };

	while (!storm_ended()) {
		/* Only the children of the top have the controller. */
		common->limits += group_try_write(slots[storm_chance(3)], "memory.high",
						  high[storm_chance(3)]);
		sleep_for(storm_chance(20) * NSEC_PER_MSEC);
	}
}

static void read_all(void *arg)
{
	while (!storm_ended()) {
		char path[256];

		snprintf(path, sizeof(path), "%s/%s", storm_chance(8) ? random_slot() : CGROUP_ROOT,
			 files[storm_chance(ARRAY_SIZE(files))]);
		storm_read_file(path);
	}
}

/* Somebody begins to ask for exact pressure, and nobody does any more. */
static void ask(void *arg)
{
	static const char text[] = "cpu.exact.some 1999999 2000000";

	if (!psi_has_stat())
		return;
	while (!storm_ended()) {
		char path[256];
		int fd;

		snprintf(path, sizeof(path), "%s" CGROUP_STAT, storm_chance(2) ? random_slot() :
			 threaded[storm_chance(ARRAY_SIZE(threaded))]);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		/* Its cgroup may be gone, or switched off. */
		if (write(fd, text, sizeof(text)) > 0)
			common->asks++;
		else if (errno != ENODEV)
			psi_die("%s: %s", path, strerror(errno));
		close(fd);
	}
}

/* ---- Threads that move one by one ---- */

static void *thread_main(void *arg)
{
	bool reads = ((pid_t *)arg - common->thread) % 2;
	void *buf = aligned_alloc(BLOCK, BLOCK);
	int fd;

	fd = open(common->disk, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (!buf || fd < 0)
		psi_die("%s: %s", common->disk, strerror(errno));
	*(pid_t *)arg = gettid();
	for (;;) {
		if (reads && pread(fd, buf, BLOCK, 0) != BLOCK)
			psi_die("%s: %s", common->disk, strerror(errno));
		if (!reads) {
			spin_until(now_ns() + storm_chance(3) * NSEC_PER_MSEC);
			sleep_for(storm_chance(3) * NSEC_PER_MSEC);
		}
	}
	return NULL;
}

static void run_threads(void *arg)
{
	pthread_t thread;

	for (int i = 0; i < NR_THREADS; i++)
		if (pthread_create(&thread, NULL, thread_main, &common->thread[i]))
			psi_die("pthread_create failed");
	sleep_forever();
}

static pid_t start_threads(void)
{
	const struct load load = { .cpu = -1, .cgroup = threaded[0], .fn = run_threads };
	pid_t pid;

	for (size_t i = 0; i < ARRAY_SIZE(threaded); i++)
		cgroup_create(threaded[i], "");
	for (size_t i = 1; i < ARRAY_SIZE(threaded); i++)
		cgroup_write(threaded[i], "cgroup.type", "threaded");
	pid = load_start(&load);
	for (int i = 0; i < NR_THREADS; i++)
		while (!common->thread[i])
			sleep_for(NSEC_PER_MSEC);
	return pid;
}

/* ---- The end ---- */

#define NR_GROUPS	(1 + ARRAY_SIZE(slots) + ARRAY_SIZE(threaded))

static const char *group(size_t i)
{
	if (!i)
		return TOP;
	i--;
	return i < ARRAY_SIZE(slots) ? slots[i] : threaded[i - ARRAY_SIZE(slots)];
}

static bool is_below(const char *path, const char *ancestor)
{
	size_t len = strlen(ancestor);

	return !strncmp(path, ancestor, len) && (!path[len] || path[len] == '/');
}

/* Brings back all cgroups, switched on and without limits. */
static void restore_all(void)
{
	for (size_t i = 0; i < NR_GROUPS; i++) {
		if (mkdir(group(i), 0755) && errno != EEXIST)
			psi_die("%s: %s", group(i), strerror(errno));
		cgroup_write(group(i), "cgroup.pressure", "1");
	}
	for (int i = 0; i < 3; i++)
		cgroup_write(slots[i], "memory.high", "max");
}

/* The sampling window in which the storm ended must end first. */
static bool all_stand_still(void)
{
	struct pressure before[NR_GROUPS], p;
	bool right = true;

	sleep_for(2200 * NSEC_PER_MSEC);
	for (size_t i = 0; i < NR_GROUPS; i++)
		pressure_read(group(i), &before[i]);
	sleep_for(800 * NSEC_PER_MSEC);
	for (size_t i = 0; i < NR_GROUPS; i++) {
		p = pressure_since(group(i), &before[i]);
		for (int r = 0; r < NR_RESOURCES; r++) {
			if (!p.some[r] && !p.full[r])
				continue;
			ksft_print_msg("%s, %s: some grew by %llu us, full by %llu us\n", group(i),
				       files[r], p.some[r] / 1000, p.full[r] / 1000);
			right = false;
		}
	}
	return right;
}

static bool total_is_true(const char *path, const char *file, double oracle, __u64 total)
{
	if (total > oracle * 0.9 && total < oracle * 1.1)
		return true;
	ksft_print_msg("%s, %s: total grew by %.6f s, must be %.6f s\n", path, file, total / 1e9,
		       oracle / 1e9);
	return false;
}

/*
 * Two spinners and a reader on every CPU, all in @leaf, are 100 % cpu some, and
 * io some while a reader sleeps. The leaf and its ancestors must show both,
 * other groups neither.
 */
static bool load_is_seen(const char *leaf)
{
	struct pressure before[NR_GROUPS], p[NR_GROUPS];
	const char *above[NR_GROUPS];
	__u64 elapsed[NR_GROUPS], asleep;
	struct probe probe;
	bool right = true;
	int nr = 0;

	for (size_t i = 0; i < NR_GROUPS; i++)
		if (is_below(leaf, group(i)))
			above[nr++] = group(i);
	probe_start(&probe, leaf, common->disk);
	probe_catch_up(&probe, above, nr);
	/* Reading all groups takes a while, so each has its own interval. */
	for (size_t i = 0; i < NR_GROUPS; i++) {
		elapsed[i] = now_ns();
		pressure_read(group(i), &before[i]);
	}
	asleep = probe_read(&probe, NSEC_PER_SEC);
	for (size_t i = 0; i < NR_GROUPS; i++) {
		elapsed[i] = now_ns() - elapsed[i];
		p[i] = pressure_since(group(i), &before[i]);
	}
	probe_stop(&probe);
	for (size_t i = 0; i < NR_GROUPS; i++) {
		if (is_below(leaf, group(i))) {
			right = total_is_true(group(i), files[RES_CPU], elapsed[i],
					      p[i].some[RES_CPU]) && right;
			right = total_is_true(group(i), files[RES_IO], asleep,
					      p[i].some[RES_IO]) && right;
		} else if (p[i].some[RES_CPU] || p[i].some[RES_IO]) {
			ksft_print_msg("%s has a stall of %s\n", group(i), leaf);
			right = false;
		}
	}
	return right;
}

/* ---- The storm ---- */

FIXTURE(storm) {
	struct slow_disk disk;
};

FIXTURE_SETUP(storm)
{
	storm_set_up(&self->disk, "psi_cgroups");
	common = shared_memory(sizeof(*common));
	snprintf(common->disk, sizeof(common->disk), "%s", self->disk.node);
	cgroup_moves_are_fast();
	cgroup_create(TOP, "");
	cgroup_write(CGROUP_ROOT, "cgroup.subtree_control", "+memory");
	cgroup_write(TOP, "cgroup.subtree_control", "+memory");
}

FIXTURE_TEARDOWN(storm)
{
	cgroup_remove(TOP);
	slow_disk_remove(&self->disk);
}

/* An idle host does several times as much. */
static bool did_enough(__u64 seconds)
{
	return common->moves > 5 * seconds && common->forks > 0 &&
	       common->switches > seconds && common->removals > 0 && common->crowds > 0 &&
	       common->limits > seconds && (common->asks > seconds || !psi_has_stat());
}

TEST_F_TIMEOUT(storm, on_cgroups_leaves_nothing_behind, STORM_TIMEOUT)
{
	static void (* const workers[])(void *arg) = {
		keep_tasks, make_and_remove, move_tasks, move_tasks, move_threads, move_self,
		move_exiting, fork_into_slots, wake_crowds, toggle, limit, read_all, read_all,
		ask,
	};
	pid_t pid[ARRAY_SIZE(workers)], threads;
	__u64 seconds = storm_time(5 * NSEC_PER_SEC) / NSEC_PER_SEC, last;

	common->begin = now_ns();
	common->end = common->begin + seconds * NSEC_PER_SEC;
	threads = start_threads();
	cgroup_create(TOP "/crowd", "");
	for (size_t i = 0; i < ARRAY_SIZE(workers); i++) {
		/*
		 * Nice -15 puts the workers before the tasks, but lets the
		 * tasks run: a move waits for tasks that fork or exit at that
		 * moment.
		 */
		const struct load load = { .cpu = -1, .prio = -15, .fn = workers[i] };

		pid[i] = load_start(&load);
	}
	sleep_until(common->end - NSEC_PER_SEC);
	/* A busy host needs more time for as many operations. */
	last = common->end + PATIENCE * NSEC_PER_SEC;
	while (!did_enough(seconds) && now_ns() < last) {
		common->end += NSEC_PER_SEC;
		sleep_for(NSEC_PER_SEC);
	}
	for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
		load_wait(pid[i]);
	load_stop(threads);
	ksft_print_msg("%lu moves, %lu forks, %lu switches, %lu cgroups removed, %lu crowds\n",
		       common->moves, common->forks, common->switches, common->removals,
		       common->crowds);
	ksft_print_msg("%lu limits, %lu triggers\n", common->limits, common->asks);
	EXPECT_TRUE(did_enough(seconds));
	restore_all();

	EXPECT_TRUE(all_stand_still());
	EXPECT_TRUE(load_is_seen(TOP "/a/x/1/deep"));
	EXPECT_TRUE(load_is_seen(TOP "/b/x/1/deep"));
	EXPECT_TRUE(load_is_seen(TOP "/threads"));
	EXPECT_TRUE(all_stand_still());
	EXPECT_NO_LEAK(find_leak(self->disk.node));
}

/* The checks can fail: a task that still exists looks like a wrong count. */
TEST_F_TIMEOUT(storm, check_finds_a_task_that_is_left, STORM_TIMEOUT)
{
	const struct load load = { .cpu = -1, .cgroup = slots[0], .fn = run_threads };

	restore_all();
	EXPECT_TRUE(all_stand_still());
	load_start(&load);
	EXPECT_FALSE(all_stand_still());
}

TEST_HARNESS_MAIN
