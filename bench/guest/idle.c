// SPDX-License-Identifier: GPL-2.0
/*
 * A task sleeps on a CPU that has nothing else to do, and is woken by its timer.
 *
 * A cycle is a wake-up, a switch from the idle task and a switch back.  The
 * idling itself is not counted.
 */
#include <unistd.h>

#include "bench.h"

enum {
	CYCLES = 5000,
	PERIOD = 1000000,	/* ns: many times what a cycle takes */
};

static void cycles(unsigned int nr)
{
	uint64_t time = now();

	while (nr--)
		sleep_until(time += PERIOD);
}

static void measure(const char *name, unsigned int depth, bool exact)
{
	char path[256];

	if (!wanted(name))
		return;
	cgroup_chain("", "a", depth, path, sizeof(path));
	if (exact)
		cgroup_ask_exact(path);
	cgroup_enter(path, getpid());
	cycles(100);
	look_twice();
	profile_begin();
	cycles(CYCLES);
	profile_end(CYCLES);
	result(look_again() / (1000000000 / PERIOD), "%s", name);
	cgroup_enter("", getpid());
	cgroup_remove_chain("", "a", depth);
}

void idle(void)
{
	measure("leaf/0", 0, false);
	measure("leaf/1", 1, false);
	measure("leaf/4", 4, false);
	measure("leaf/8", 8, false);
	/* The system is asked for good: these come last. */
	measure("exact/0", 0, true);
	measure("exact/8", 8, true);
}
