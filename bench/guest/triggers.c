// SPDX-License-Identifier: GPL-2.0
/*
 * Triggers that never fire, while tasks stall.
 *
 * The figure is everything the CPU does in a second.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "crowd.h"

enum {
	WINDOW = 10,	/* s */
	ARMED = 51,
};

/* Triggers of one group, or of one group each; none without PSI. */
static int *arm(unsigned int nr, bool apart)
{
	char path[256], text[64];
	unsigned int i;
	int *fds;

	fds = calloc(nr + 1, sizeof(*fds));
	if (!fds)
		die("no memory");
	for (i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "/proc/pressure/cpu");
		if (apart)
			snprintf(path, sizeof(path), "%s%s/cpu.pressure", CGROUPS, cgroup_numbered(i));
		/* No two are the same, which nobody should rely on. */
		snprintf(text, sizeof(text), "some %u 1000000", 900000 + i);
		fds[i] = access(path, F_OK) ? dup(0) : trigger_arm(path, text);
	}
	return fds;
}

static void measure(const char *name, unsigned int nr, bool apart)
{
	const struct crowd crowd = {
		.groups = apart ? nr : 20,
		.tasks = 2,
		.work = apart ? 50000 : 1000000,
	};
	uint64_t time;
	double done;
	unsigned int i;
	int *fds;

	if (!wanted(name))
		return;
	crowd_start(&crowd);
	fds = arm(nr, apart);
	time = now() + 4000000000;
	sleep_until(time);
	look_twice();
	profile_begin();
	sleep_until(time + WINDOW * 1000000000ull);
	done = look_again();
	profile_end(WINDOW);
	result(done, "%s", name);
	for (i = 0; i < nr; i++)
		close(fds[i]);
	free(fds);
	crowd_end(&crowd);
}

/* Open, arm and close one of an idle group; without PSI there is none. */
static void arm_and_close(const char *name)
{
	struct batches batches;
	uint64_t begin;
	int i;

	if (!wanted(name) || access("/proc/pressure/cpu", F_OK))
		return;
	cgroup_make("/a");
	batches_init(&batches, ARMED);
	for (i = 0; i < ARMED; i++) {
		begin = now();
		profile_begin();
		close(cgroup_arm("/a", "cpu.pressure", "some 900000 1000000"));
		profile_end(1);
		batches_add(&batches, now() - begin);
	}
	result(batches_median(&batches), "%s", name);
	cgroup_remove("/a");
}

void triggers(void)
{
	static const unsigned int system[] = { 0, 1, 10, 100, 500, 2000 }, groups[] = { 1, 32, 500 };
	const struct rlimit files = { .rlim_cur = 4096, .rlim_max = 4096 };
	char name[32];
	size_t i;

	if (setrlimit(RLIMIT_NOFILE, &files))
		die("setrlimit");
	arm_and_close("arm");
	for (i = 0; i < ARRAY_SIZE(system); i++) {
		snprintf(name, sizeof(name), "system/%u", system[i]);
		measure(name, system[i], false);
	}
	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		snprintf(name, sizeof(name), "groups/%u", groups[i]);
		measure(name, groups[i], true);
	}
}
