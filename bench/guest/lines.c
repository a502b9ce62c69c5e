// SPDX-License-Identifier: GPL-2.0
/*
 * What the plugin counts of cache lines: groups in use on all CPUs.
 */
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bench.h"

static void file(void)
{
	read_once(cgroup_file(cgroup_numbered(0), "cpu.pressure"));
}

static void trigger(void)
{
	close(trigger_arm(cgroup_file(cgroup_numbered(0), "cpu.pressure"), "some 900000 1000000"));
}

/* Each time after all CPUs were in use; nothing without PSI.  What other tasks do later is not counted. */
static void while_in_use(void (*act)(void))
{
	const struct crowd crowd = { .groups = 1, .tasks = cpus(), .spread = true };
	bool psi = has_psi();
	uint64_t time;
	int i;

	crowd_start(&crowd);
	time = now() + SECOND / 10;
	for (i = 0; i < 11; i++) {
		sleep_until(time += SECOND);
		profile_begin();
		if (psi)
			act();
		profile_end(1);
	}
}

/* A wake-up of a task a second on each CPU in each group, and what is done for it later. */
static void upkeep_on_all(void)
{
	enum { WINDOW = 8, GROUPS = 100 };
	const struct crowd crowd = { .groups = GROUPS, .tasks = cpus(), .spread = true };
	uint64_t time;

	crowd_start(&crowd);
	time = now() + 4 * SECOND;
	sleep_until(time);
	profile_begin();
	sleep_until(time + WINDOW * SECOND);
	profile_end(WINDOW * GROUPS * crowd.tasks);
}

enum { READS = 300 };

static void read_often(unsigned int cpu, uint64_t begin)
{
	int i, fd = open_file(cgroup_file(cgroup_numbered(0), has_psi() ? "cpu.pressure" : "cgroup.type"));

	pin(0, cpu);
	sleep_until(begin);
	for (i = 0; i < READS; i++) {
		read_file(fd);
		/* The next CPU's turn. */
		__asm__ volatile("pause");
	}
	_exit(0);
}

static void sleep_often(uint64_t time)
{
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;)
		sleep_until(time += 9973);
}

/*
 * A CPU has its turn until it sleeps, pauses, or a timer is due.  A task that
 * often sleeps cuts into reads, so that other CPUs read meanwhile.
 */
static void readers(void)
{
	unsigned int i, nr = cpus() - 1;
	uint64_t begin = now() + SECOND;
	pid_t pids[64];

	cgroup_make(cgroup_numbered(0));
	for (i = 0; i < nr; i++) {
		pids[i] = fork_or_die();
		if (!pids[i])
			read_often(i + 1, begin);
		cgroup_enter(cgroup_numbered(0), pids[i]);
	}
	if (!fork_or_die())
		sleep_often(begin);
	sleep_until(begin);
	profile_begin();
	for (i = 0; i < nr; i++)
		wait_or_die(pids[i]);
	profile_end(nr * READS);
}

/* Two CPUs write to a line in turns, by XCHG: it moves twice in a round, and is taken away twice. */
static void known(void)
{
	enum { ROUNDS = 10000 };
	int *turn = shared_memory(sizeof(*turn));
	pid_t pid = fork_or_die();
	int i;

	if (pid)
		profile_begin();
	else
		pin(0, 1);
	for (i = 0; i < ROUNDS; i++) {
		while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != !pid)
			__asm__ volatile("pause");
		__atomic_store_n(turn, !!pid, __ATOMIC_SEQ_CST);
	}
	if (!pid)
		_exit(0);
	profile_end(ROUNDS);
	wait_or_die(pid);
}

void lines(const char *kind, unsigned int number)
{
	(void)number;
	pin(0, 0);
	if (!strcmp(kind, "known"))
		known();
	else if (!strcmp(kind, "readers"))
		readers();
	else if (!strcmp(kind, "read"))
		while_in_use(file);
	else if (!strcmp(kind, "trigger"))
		while_in_use(trigger);
	else
		upkeep_on_all();
	/* The plugin has the figures. */
	result(0);
}
