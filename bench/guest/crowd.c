// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "crowd.h"

enum {
	SECOND = 1000000000,
	STACK = 4096,
};

struct member {
	const struct crowd *crowd;
	uint64_t first;		/* when it wakes up first */
	unsigned int cpu;	/* if they are spread */
	pid_t pid;
	char *stack;
};

static struct member *members;
static volatile unsigned long wakeups;

static int live(void *arg)
{
	const struct member *member = arg;
	uint64_t i, time;

	if (member->crowd->spread)
		pin(member->cpu);
	for (time = member->first; ; time += SECOND) {
		sleep_until(time);
		wakeups++;
		for (i = member->crowd->work / 2; i; i--)
			__asm__ volatile("");
	}
	return 0;
}

/* The members share the memory, for there are too many of them. */
void crowd_start(const struct crowd *crowd)
{
	unsigned int i, nr = crowd->groups * crowd->tasks;
	const char *group;
	uint64_t start;

	/*
	 * Every second or so the kernel folds its counters of memory, and some
	 * time gives back lists of free pages.  Whether that comes while we
	 * measure is chance, and as dear as hundreds of wake-ups: not now.
	 */
	write_file("/proc/sys/vm/stat_interval", "3600");
	wakeups = 0;
	members = calloc(nr, sizeof(*members));
	if (!members)
		die("no memory");
	start = now() + 5ull * SECOND;
	for (i = 0; i < nr; i++) {
		struct member *member = &members[i];

		group = cgroup_numbered(i / crowd->tasks);
		if (!(i % crowd->tasks))
			cgroup_make(group);
		member->crowd = crowd;
		member->first = start + (uint64_t)SECOND / crowd->groups * (i / crowd->tasks);
		member->cpu = i % crowd->tasks;
		if (crowd->spread)
			member->first += (uint64_t)SECOND / nr * member->cpu;
		member->stack = malloc(STACK);
		if (!member->stack)
			die("no memory");
		member->pid = clone(live, member->stack + STACK, CLONE_VM | SIGCHLD, member);
		if (member->pid < 0)
			die("clone");
		cgroup_enter(group, member->pid);
	}
	if (now() > start)
		die("5 seconds are not enough to start");
	sleep_until(start);
}

unsigned long crowd_wakeups(void)
{
	return wakeups;
}

void crowd_freeze(const struct crowd *crowd, bool frozen)
{
	unsigned int i;

	for (i = 0; i < crowd->groups; i++)
		cgroup_write(cgroup_numbered(i), "cgroup.freeze", frozen ? "1" : "0");
}

void crowd_end(const struct crowd *crowd)
{
	unsigned int i, nr = crowd->groups * crowd->tasks;

	for (i = 0; i < nr; i++)
		kill(members[i].pid, SIGKILL);
	for (i = 0; i < nr; i++) {
		waitpid(members[i].pid, NULL, 0);
		free(members[i].stack);
	}
	for (i = 0; i < crowd->groups; i++)
		cgroup_remove(cgroup_numbered(i));
	free(members);
}
