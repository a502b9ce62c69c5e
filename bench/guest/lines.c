// SPDX-License-Identifier: GPL-2.0
/*
 * What the plugin lines.c counts: groups in use on all CPUs.
 */
#include <unistd.h>

#include "bench.h"
#include "crowd.h"

enum {
	SECOND = 1000000000,
	TIMES = 11,
	WINDOW = 8,	/* s */
};

static void file(void)
{
	int fd = cgroup_open(cgroup_numbered(0), "cpu.pressure");

	read_file(fd);
	close(fd);
}

static void trigger(void)
{
	close(cgroup_arm(cgroup_numbered(0), "cpu.pressure", "some 900000 1000000"));
}

/* Each time with all that follows in 10 ms, after each CPU was in use; without PSI that is nothing. */
static void measure(const char *name, void (*act)(void))
{
	const struct crowd crowd = { .groups = 1, .tasks = cpus(), .spread = true };
	uint64_t time;
	int i;

	if (!wanted(name))
		return;
	crowd_start(&crowd);
	time = now() + SECOND / 10;
	for (i = 0; i < TIMES; i++) {
		sleep_until(time += SECOND);
		profile_begin();
		if (cgroup_has(cgroup_numbered(0), "cpu.pressure"))
			act();
		usleep(10000);
		profile_end(1);
	}
	result(0, "%s", name);
	crowd_end(&crowd);
}

/* A wake-up of a task a second on each CPU in each group, and what is done for it later. */
static void upkeep_on_all(const char *name, unsigned int groups)
{
	const struct crowd crowd = { .groups = groups, .tasks = cpus(), .spread = true };
	uint64_t time;

	if (!wanted(name))
		return;
	crowd_start(&crowd);
	time = now() + 4ull * SECOND;
	sleep_until(time);
	profile_begin();
	sleep_until(time + WINDOW * 1ull * SECOND);
	profile_end(WINDOW * groups * crowd.tasks);
	result(0, "%s", name);
	crowd_end(&crowd);
}

void lines(void)
{
	pin(0);
	measure("read", file);
	measure("trigger", trigger);
	upkeep_on_all("upkeep/1", 1);
	upkeep_on_all("upkeep/100", 100);
}
