// SPDX-License-Identifier: GPL-2.0
/*
 * Fork a child that exits at once, and wait for it.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	WARM_UP = 50,
	BATCH = 5,
	BATCHES = 101,
};

static void fork_wait(unsigned int nr)
{
	pid_t pid;

	while (nr--) {
		pid = vfork();
		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			die("fork");
	}
}

static void measure(const char *name, unsigned int depth)
{
	struct batches batches;
	char path[256];
	uint64_t begin;
	unsigned int i;

	if (!wanted(name))
		return;
	cgroup_chain("", "a", depth, path, sizeof(path));
	cgroup_enter(path, getpid());
	batches_init(&batches, BATCHES);
	fork_wait(WARM_UP);
	profile_begin();
	for (i = 0; i < BATCHES; i++) {
		begin = now();
		fork_wait(BATCH);
		batches_add(&batches, now() - begin);
	}
	profile_end(BATCH * BATCHES);
	result(batches_median(&batches) / BATCH, "%s", name);
	cgroup_enter("", getpid());
	cgroup_remove_chain("", "a", depth);
}

void forks(void)
{
	measure("leaf/0", 0);
	measure("leaf/1", 1);
	measure("leaf/8", 8);
}
