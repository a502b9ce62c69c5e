// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a group, from the kernel's own allocators.
 */
#include <unistd.h>

#include "bench.h"

enum {
	WARM_UP = 200,		/* groups that fill what is partly free */
	GROUPS = 12000,		/* so one slab of 32 kB more is 0.04 bytes for each of 64 CPUs */
};

static double bytes(void)
{
	return 1024.0 * (number_in("/proc/meminfo", "Slab:") + number_in("/proc/meminfo", "Percpu:") +
			 number_in("/proc/meminfo", "VmallocUsed:"));
}

static void use(const char *cgroup)
{
	cgroup_enter(cgroup, getpid());
	usleep(100);
}

void memory(void)
{
	double before = 0;
	int i;

	for (i = 0; i < WARM_UP + GROUPS; i++) {
		if (i == WARM_UP)
			before = bytes();
		cgroup_make(cgroup_numbered(i));
	}
	result((bytes() - before) / GROUPS, "unused");
	for (i = 0; i < WARM_UP + GROUPS; i++)
		use(cgroup_numbered(i));
	cgroup_enter("", getpid());
	result((bytes() - before) / GROUPS, "used");
}
