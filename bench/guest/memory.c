// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a group, from the kernel's own allocators.
 */
#include <unistd.h>

#include "bench.h"

enum {
	TWO_FOLDS = 5,		/* seconds in which stock and ours look at each group in use */
	WARM_UP = 200,		/* groups that fill what is partly free */
	GROUPS = 12000,
	STEP = 500,
};

static double bytes(void)
{
	return 1024.0 * (number_in("/proc/meminfo", "Slab:") + number_in("/proc/meminfo", "Percpu:") +
			 number_in("/proc/meminfo", "VmallocUsed:"));
}

/*
 * Bytes for each group that ACT is applied to: the slope of a straight line through what there is
 * after each STEP groups. Per-CPU memory comes in pages for all CPUs, and when the last one came
 * is chance; the line does not depend on that as the last figure does.
 */
static double each(void (*act)(const char *cgroup))
{
	double n = 0, x = 0, y = 0, xx = 0, xy = 0, now;
	int i;

	for (i = 0; i <= WARM_UP + GROUPS; i++) {
		if (i >= WARM_UP && (i - WARM_UP) % STEP == 0) {
			sleep(TWO_FOLDS);
			now = bytes();
			n++;
			x += i;
			y += now;
			xx += (double)i * i;
			xy += i * now;
		}
		if (i < WARM_UP + GROUPS)
			act(cgroup_numbered(i));
	}
	return (n * xy - x * y) / (n * xx - x * x);
}

void memory(void)
{
	double unused = each(cgroup_make);

	result(unused, "unused");
	result(unused + each(cgroup_visit_cpus), "used");
}
