// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that work all the time in a group that may use a tenth of the CPU.
 *
 * The figure is what the CPU does for each time that the group is throttled, and
 * unthrottled again, but the work: they count that themselves.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	MOST = 10,		/* tasks */
	WINDOW = 5,		/* s */
	LOOP = 2,		/* instructions */
};

static uint64_t throttled(const char *cgroup)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s/cpu.stat", CGROUPS, cgroup);
	return number_in(path, "nr_throttled");
}

static uint64_t work(volatile const uint64_t *counts)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < MOST; i++)
		sum += counts[i];
	return sum * LOOP;
}

static pid_t start(const char *cgroup, uint64_t *count)
{
	pid_t pid = fork_or_die();

	if (!pid)
		for (;;)
			__asm__ volatile("1: incq %0; jmp 1b" : "+m"(*count));
	cgroup_enter(cgroup, pid);
	return pid;
}

static void measure(const char *name, int tasks, uint64_t *counts)
{
	double done, begun, held, busy, seconds;
	pid_t pids[MOST];
	uint64_t begin;
	int i;

	if (!wanted(name))
		return;
	cgroup_make("/a");
	/* No multiple of a tick, so that ticks come at all phases. */
	cgroup_write("/a", "cpu.max", "1000 10300");
	for (i = 0; i < tasks; i++)
		pids[i] = start("/a", &counts[i]);
	sleep_until(now() + 3000000000);
	look_twice();
	begin = now();
	begun = work(counts);
	held = throttled("/a");
	profile_begin();
	sleep_until(begin + WINDOW * 1000000000ull);
	profile_end(WINDOW);
	seconds = (now() - begin) / 1e9;
	done = (work(counts) - begun) / seconds;
	held = (throttled("/a") - held) / seconds;
	busy = look_again();
	if (held < 50)
		die("%s: throttled %.0f times a second", name, held);
	result((busy - done) / held, "%s", name);
	for (i = 0; i < tasks; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	cgroup_remove("/a");
}

void throttle(void)
{
	uint64_t *counts;

	counts = mmap(NULL, MOST * sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		die("mmap");
	cgroup_write("", "cgroup.subtree_control", "+cpu");
	measure("tasks/1", 1, counts);
	measure("tasks/10", MOST, counts);
}
