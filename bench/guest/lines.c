// SPDX-License-Identifier: GPL-2.0
/*
 * What the plugin lines.c counts: groups in use on all CPUs.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "crowd.h"

enum {
	SECOND = 1000000000,
	TIMES = 11,
	WINDOW = 8,	/* s */
	READS = 300,
	ROUNDS = 10000,
	GROUPS = 100,
};

static bool has_psi;

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

/* Each time after all CPUs were in use; nothing without PSI.  What other tasks do later is not counted. */
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
		if (has_psi)
			act();
		profile_end(1);
	}
	result(0, "%s", name);
	crowd_end(&crowd);
}

/* A wake-up of a task a second on each CPU in each group, and what is done for it later. */
static void upkeep_on_all(const char *name)
{
	const struct crowd crowd = { .groups = GROUPS, .tasks = cpus(), .spread = true };
	uint64_t time;

	if (!wanted(name))
		return;
	crowd_start(&crowd);
	time = now() + 4ull * SECOND;
	sleep_until(time);
	profile_begin();
	sleep_until(time + WINDOW * 1ull * SECOND);
	profile_end(WINDOW * GROUPS * crowd.tasks);
	result(0, "%s", name);
	crowd_end(&crowd);
}

static void read_often(unsigned int cpu, uint64_t begin)
{
	int i, fd = cgroup_open(cgroup_numbered(0), has_psi ? "cpu.pressure" : "cgroup.type");

	pin(cpu);
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
static void readers(const char *name)
{
	unsigned int i, nr = cpus() - 1;
	uint64_t begin = now() + SECOND;
	pid_t pids[64], cutter;

	if (!wanted(name))
		return;
	cgroup_make(cgroup_numbered(0));
	for (i = 0; i < nr; i++) {
		pids[i] = fork_or_die();
		if (!pids[i])
			read_often(i + 1, begin);
		cgroup_enter(cgroup_numbered(0), pids[i]);
	}
	cutter = fork_or_die();
	if (!cutter)
		sleep_often(begin);
	sleep_until(begin);
	profile_begin();
	for (i = 0; i < nr; i++)
		wait_or_die(pids[i]);
	profile_end(nr * READS);
	kill(cutter, SIGKILL);
	waitpid(cutter, NULL, 0);
	result(0, "%s", name);
	cgroup_remove(cgroup_numbered(0));
}

/* Two CPUs write to a line in turns: it moves twice in a round, and is taken away twice. */
static void known(const char *name)
{
	volatile int *turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;
	int i;

	if (!wanted(name))
		return;
	if (turn == MAP_FAILED)
		die("mmap");
	*turn = 0;
	pid = fork_or_die();
	if (pid)
		profile_begin();
	else
		pin(1);
	for (i = 0; i < ROUNDS; i++) {
		while (*turn != !pid)
			__asm__ volatile("pause");
		*turn = !*turn;
	}
	if (!pid)
		_exit(0);
	profile_end(ROUNDS);
	wait_or_die(pid);
	result(0, "%s", name);
}

void lines(void)
{
	has_psi = !access("/proc/pressure/cpu", F_OK);
	pin(0);
	known("known");
	readers("readers");
	measure("read", file);
	measure("trigger", trigger);
	upkeep_on_all("upkeep");
}
