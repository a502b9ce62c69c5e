// SPDX-License-Identifier: GPL-2.0
/*
 * Groups with a task each that wakes up once a second.
 *
 * The figure is everything the CPU does, for one wake-up: the wake-up itself,
 * and what it costs later to keep the averages.
 */
#include "bench.h"
#include "crowd.h"

enum { WINDOW = 10 };	/* s */

static void measure(unsigned int groups)
{
	const struct crowd crowd = { .groups = groups, .tasks = 1 };
	unsigned long wakeups;
	uint64_t time;
	double done;
	char name[32];

	snprintf(name, sizeof(name), "groups/%u", groups);
	if (!wanted(name))
		return;
	crowd_start(&crowd);
	/* All averages are kept by then. */
	time = now() + 4000000000;
	sleep_until(time);
	wakeups = crowd_wakeups();
	look_twice();
	profile_begin();
	sleep_until(time + WINDOW * 1000000000ull);
	done = look_again();
	wakeups = crowd_wakeups() - wakeups;
	profile_end(wakeups);
	if (wakeups < groups * WINDOW)
		die("%s: %lu wake-ups", name, wakeups);
	result(done / groups, "%s", name);
	crowd_end(&crowd);
}

void upkeep(void)
{
	measure(10);
	measure(100);
	measure(500);
	measure(2000);
}
