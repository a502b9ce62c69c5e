// SPDX-License-Identifier: GPL-2.0
/*
 * Two tasks on one CPU pass a byte to and fro through pipes.
 *
 * One of them can always run, so the CPU never idles.  A round trip is two
 * switches and two wake-ups, if the tasks are SCHED_BATCH, which do not preempt
 * on a wake-up.  If they are not, the woken one preempts at times before the
 * other begins to wait, which saves a wake-up: two of five round trips have one.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	WARM_UP = 500,		/* round trips */
	BATCH = 100,		/* round trips; a tick comes every 300 or so */
	BATCHES = 51,
};

static const struct policy {
	const char *prefix;
	int number;
} policies[] = {
	{ "", SCHED_OTHER },
	{ "batch/", SCHED_BATCH },
};

static void echo(int from, int to)
{
	char byte;

	while (read(from, &byte, 1) == 1)
		if (write(to, &byte, 1) != 1)
			_exit(1);
	_exit(0);
}

static void round_trips(int to, int from, unsigned int nr)
{
	char byte = 0;

	while (nr--)
		if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
			die("a pipe broke");
}

static long waits_so_far(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

static void policy_set(pid_t pid, int policy)
{
	const struct sched_param param = {};

	if (sched_setscheduler(pid, policy, &param))
		die("sched_setscheduler");
}

/* With one task in MINE and one in OTHER. */
static void measure(const char *name, int policy, const char *mine, const char *other)
{
	int ping[2], pong[2];
	struct batches batches;
	unsigned int i;
	uint64_t begin;
	long waits;
	pid_t pid;

	pipe_or_die(ping);
	pipe_or_die(pong);
	pid = fork_or_die();
	if (!pid) {
		close(ping[1]);
		close(pong[0]);
		echo(ping[0], pong[1]);
	}
	cgroup_enter(mine, getpid());
	cgroup_enter(other, pid);
	policy_set(getpid(), policy);
	policy_set(pid, policy);
	batches_init(&batches, BATCHES);
	/* What adapts to a load does so every few seconds. Sleeping takes no time of the host. */
	for (i = 0; i < 4; i++) {
		round_trips(ping[1], pong[0], 20);
		usleep(2100000);
	}
	round_trips(ping[1], pong[0], WARM_UP);
	waits = waits_so_far();
	for (i = 0; i < BATCHES; i++) {
		begin = now();
		profile_begin();
		round_trips(ping[1], pong[0], BATCH);
		profile_end(BATCH);
		batches_add(&batches, now() - begin);
	}
	waits = waits_so_far() - waits;
	if (policy == SCHED_BATCH && labs(waits - BATCH * BATCHES) > BATCH * BATCHES / 100)
		die("%s: %ld waits in %d round trips", name, waits, BATCH * BATCHES);
	result(batches_median(&batches) / BATCH, "%s", name);

	close(ping[1]);
	close(pong[1]);
	wait_or_die(pid);
	close(ping[0]);
	close(pong[0]);
	policy_set(getpid(), SCHED_OTHER);
	cgroup_enter("", getpid());
}

/* Both in the last group of a chain. */
static void one_leaf(const char *name, int policy, unsigned int depth)
{
	char path[256];

	cgroup_chain("", "a", depth, path, sizeof(path));
	measure(name, policy, path, path);
	cgroup_remove_chain("", "a", depth);
}

/* The same, with accounting off in all groups of the chain; without PSI there is nothing to switch. */
static void switched_off(const char *name, int policy, unsigned int depth)
{
	char path[256], up[256];

	cgroup_chain("", "a", depth, path, sizeof(path));
	for (strcpy(up, path); *up; *strrchr(up, '/') = 0)
		if (cgroup_has(up, "cgroup.pressure"))
			cgroup_write(up, "cgroup.pressure", "0");
	measure(name, policy, path, path);
	cgroup_remove_chain("", "a", depth);
}

/* In one leaf, which has a trigger that is not reached. */
static void armed(const char *name, int policy, unsigned int depth)
{
	char path[256], file[512];
	int fd = -1;

	cgroup_chain("", "a", depth, path, sizeof(path));
	snprintf(file, sizeof(file), "%s%s/cpu.pressure", CGROUPS, path);
	if (cgroup_has(path, "cpu.pressure"))
		fd = trigger_arm(file, "full 1000000 1000000");
	measure(name, policy, path, path);
	if (fd >= 0)
		close(fd);
	cgroup_remove_chain("", "a", depth);
}

/* Each in a child of its own of the last group of a chain. */
static void siblings(const char *name, int policy, unsigned int depth)
{
	char path[256], left[300], right[300];

	cgroup_chain("", "a", depth, path, sizeof(path));
	cgroup_chain(path, "left", 1, left, sizeof(left));
	cgroup_chain(path, "right", 1, right, sizeof(right));
	measure(name, policy, left, right);
	cgroup_remove(left);
	cgroup_remove(right);
	cgroup_remove_chain("", "a", depth);
}

/* Each at the end of a chain of its own. */
static void disjoint(const char *name, int policy, unsigned int depth)
{
	char left[256], right[256];

	cgroup_chain("", "a", depth, left, sizeof(left));
	cgroup_chain("", "b", depth, right, sizeof(right));
	measure(name, policy, left, right);
	cgroup_remove_chain("", "a", depth);
	cgroup_remove_chain("", "b", depth);
}

/* In one leaf, with a trigger on limits, of which there are none. */
static void armed_class(const char *name, int policy, unsigned int depth)
{
	char path[256];
	int fd = -1;

	cgroup_chain("", "a", depth, path, sizeof(path));
	if (cgroup_has(path, "cgroup.pressure.stat"))
		fd = cgroup_arm(path, "cgroup.pressure.stat", "cpu.limit.some 1000000 1000000");
	measure(name, policy, path, path);
	if (fd >= 0)
		close(fd);
	cgroup_remove_chain("", "a", depth);
}

/* In one leaf that was throttled before. */
static void held(const char *name, int policy, unsigned int depth)
{
	char path[256], stat[512];
	pid_t pid;

	cgroup_chain("", "a", depth, path, sizeof(path));
	cgroup_controller(path, "+cpu");
	snprintf(stat, sizeof(stat), "%s%s/cpu.stat", CGROUPS, path);
	cgroup_write(path, "cpu.max", "1000 100000");
	pid = fork_or_die();
	while (!pid)
		;
	cgroup_enter(path, pid);
	sleep_until(now() + 3000000000);
	if (number_in(stat, "nr_throttled") < 10)
		die("%s: it is not throttled", name);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cgroup_write(path, "cpu.max", "max");
	measure(name, policy, path, path);
	cgroup_remove_chain("", "a", depth);
}

static const struct shape {
	const char *name;
	void (*run)(const char *name, int policy, unsigned int depth);
	int depths[7];
} shapes[] = {
	{ "leaf", one_leaf, { 0, 1, 2, 4, 8, 16, -1 } },
	{ "siblings", siblings, { 1, 2, 4, 8, 16, -1 } },
	{ "disjoint", disjoint, { 1, 2, 4, 8, 16, -1 } },
	{ "pressure=0", switched_off, { 8, -1 } },
	{ "armed", armed, { 8, -1 } },
};

/* In this order: once a limit held a task, it is for ever. */
static const struct shape limits_shapes[] = {
	{ "armed", armed_class, { 8, -1 } },
	{ "held", held, { 1, 8, -1 } },
};

static void shape_run(const struct shape *shape, const struct policy *policy)
{
	const int *depth;
	char name[64];

	for (depth = shape->depths; *depth >= 0; depth++) {
		snprintf(name, sizeof(name), "%s%s/%d", policy->prefix, shape->name, *depth);
		if (wanted(name))
			shape->run(name, policy->number, *depth);
	}
}

void pingpong(void)
{
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(policies); i++)
		for (j = 0; j < ARRAY_SIZE(shapes); j++)
			shape_run(&shapes[j], &policies[i]);
}

void limits(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(limits_shapes); i++)
		shape_run(&limits_shapes[i], &policies[0]);
}
