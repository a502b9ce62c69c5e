// SPDX-License-Identifier: GPL-2.0
/*
 * Ping-pong of two tasks with a CPU each: wake-ups onto an idle CPU.
 *
 * The CPUs take turns, so the clock counts the instructions of both.  One of
 * them always has work, so that it counts nothing else.
 */
#include <unistd.h>

#include "bench.h"

enum {
	WARM_UP = 200,		/* round trips */
	BATCH = 20,
	BATCHES = 101,
};

static void round_trips(int to, int from, unsigned int nr)
{
	char byte = 0;

	while (nr--)
		if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
			die("a pipe broke");
}

static void measure(const char *name, unsigned int depth, bool exact)
{
	struct batches batches;
	int ping[2], pong[2];
	char path[256], byte;
	unsigned int i;
	uint64_t begin;
	pid_t pid;

	if (!wanted(name))
		return;
	cgroup_chain("", "a", depth, path, sizeof(path));
	if (exact)
		cgroup_ask_exact(path);
	pipe_or_die(ping);
	pipe_or_die(pong);
	pin(0);
	pid = fork_or_die();
	if (!pid) {
		pin(1);
		close(ping[1]);
		close(pong[0]);
		while (read(ping[0], &byte, 1) == 1)
			if (write(pong[1], &byte, 1) != 1)
				_exit(1);
		_exit(0);
	}
	cgroup_enter(path, getpid());
	cgroup_enter(path, pid);
	batches_init(&batches, BATCHES);
	round_trips(ping[1], pong[0], WARM_UP);
	for (i = 0; i < BATCHES; i++) {
		begin = now();
		profile_begin();
		round_trips(ping[1], pong[0], BATCH);
		profile_end(BATCH);
		batches_add(&batches, now() - begin);
	}
	result(batches_median(&batches) / BATCH, "%s", name);
	close(ping[1]);
	close(pong[1]);
	wait_or_die(pid);
	close(ping[0]);
	close(pong[0]);
	cgroup_enter("", getpid());
	cgroup_remove_chain("", "a", depth);
}

void remote(void)
{
	measure("leaf/0", 0, false);
	measure("leaf/1", 1, false);
	measure("leaf/8", 8, false);
	/* The system is asked for good: these come last. */
	measure("exact/0", 0, true);
	measure("exact/8", 8, true);
}
