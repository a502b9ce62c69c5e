// SPDX-License-Identifier: GPL-2.0
/*
 * A task sleeps on a CPU that has nothing else to do, and is woken by its timer.
 *
 * A cycle is a wake-up, a switch from the idle task and a switch back.  The
 * idling itself is not counted.  "beside" is the same while another CPU, which
 * idles too, is in use by the group: a task that ran there waits for a disk.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	CYCLES = 10000,
	/*
	 * ns: many times what a cycle takes, and out of step with the tick. One of 1 ms, whose
	 * wake-ups happen to meet the tick, counts a tick with each fourth of them.
	 */
	PERIOD = 1001000,
};

static void cycles(unsigned int nr)
{
	uint64_t time = now();

	while (nr--)
		sleep_until(time += PERIOD);
}

static void measure(const char *name, unsigned int depth, bool exact, bool other)
{
	char path[256];
	pid_t pid = 0;

	if (!wanted(name))
		return;
	cgroup_chain("", "a", depth, path, sizeof(path));
	if (exact)
		cgroup_ask_exact(path);
	pin(0);
	if (other)
		pid = disk_reader(path, 1);
	cgroup_enter(path, getpid());
	cycles(100);
	look_twice();
	profile_begin();
	cycles(CYCLES);
	profile_end(CYCLES);
	result(look_again() * PERIOD / 1e9, "%s", name);
	if (other) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	cgroup_enter("", getpid());
	cgroup_remove_chain("", "a", depth);
}

void idle(void)
{
	measure("leaf/0", 0, false, false);
	measure("leaf/1", 1, false, false);
	measure("leaf/4", 4, false, false);
	measure("leaf/8", 8, false, false);
	/* The system is asked for good: these come last. */
	measure("exact/0", 0, true, false);
	measure("exact/8", 8, true, false);
}

void beside(void)
{
	measure("leaf/0", 0, false, true);
	measure("leaf/8", 8, false, true);
	/* The system is asked for good: these come last. */
	measure("exact/0", 0, true, true);
	measure("exact/8", 8, true, true);
}
