// SPDX-License-Identifier: GPL-2.0
/*
 * A task on each CPU: one wakes all others at once, the last of them wakes it.
 *
 * The CPUs take turns, so the clock counts the instructions of all. It also counts moments in
 * which all of them idle, until one is told of work: so a plugin counts for the table.
 */
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	WARM_UP = 100,		/* rounds: until groups delegate */
	BATCH = 5,
	BATCHES = 9,
	PAUSE = 1000000,	/* ns */
	MOST = 64,		/* CPUs */
};

struct shared {
	int round;
	int done;		/* the last round that is over */
	int left;		/* tasks that are not done with the round */
};

static void futex(int *word, int op, int value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void wait_until(int *word, int value)
{
	int found;

	while ((found = __atomic_load_n(word, __ATOMIC_SEQ_CST)) < value)
		futex(word, FUTEX_WAIT, found);
}

static void set(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	futex(word, FUTEX_WAKE, MOST);
}

static void follow(struct shared *shared, unsigned int cpu)
{
	int round;

	pin(cpu);
	for (round = 1; ; round++) {
		wait_until(&shared->round, round);
		if (!__atomic_sub_fetch(&shared->left, 1, __ATOMIC_SEQ_CST))
			set(&shared->done, round);
	}
}

static void rounds(struct shared *shared, unsigned int nr)
{
	while (nr--) {
		shared->left = cpus() - 1;
		set(&shared->round, shared->round + 1);
		wait_until(&shared->done, shared->round);
	}
}

static void measure(const char *name, unsigned int depth, bool exact)
{
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int i, nr = cpus() - 1;
	struct batches batches;
	char path[256];
	pid_t pids[MOST];
	uint64_t begin;

	if (!wanted(name))
		return;
	if (shared == MAP_FAILED || nr >= MOST)
		die("no memory for so many tasks");
	cgroup_chain("", "a", depth, path, sizeof(path));
	if (exact)
		cgroup_ask_exact(path);
	pin(0);
	cgroup_enter(path, getpid());
	for (i = 0; i < nr; i++) {
		pids[i] = fork_or_die();
		if (!pids[i])
			follow(shared, i + 1);
	}
	batches_init(&batches, BATCHES);
	rounds(shared, WARM_UP);
	for (i = 0; i < BATCHES; i++) {
		/*
		 * All CPUs idle. When the scheduler finds no idle core once, each CPU that begins
		 * to idle looks at all others, 200 instructions on 16, until all of them idle.
		 */
		sleep_until(now() + PAUSE);
		begin = now();
		profile_begin();
		rounds(shared, BATCH);
		profile_end(BATCH * nr);
		batches_add(&batches, now() - begin);
	}
	result(batches_median(&batches) / (BATCH * nr), "%s", name);
	for (i = 0; i < nr; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	munmap(shared, 4096);
	cgroup_enter("", getpid());
	cgroup_remove_chain("", "a", depth);
}

void together(void)
{
	measure("leaf/0", 0, false);
	measure("leaf/8", 8, false);
	/* The system is asked for good: these come last. */
	measure("exact/0", 0, true);
	measure("exact/8", 8, true);
}
