// SPDX-License-Identifier: GPL-2.0
/*
 * Storms of tasks that want more memory than their cgroup allows: see psi_storm.h
 *
 * Each goes on until it had an effect: the kernel throttled a task, swapped a
 * page in, or killed a task.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/wait.h>

#include "psi_crew.h"
#include "psi_swap.h"

#define SWAP_MB		64

/* Memory that each task wants. */
#define APPETITE	(2UL << 20)

/*
 * The kernel charges pages to the cgroup in which they are touched. So the
 * task now and then frees all its memory, and takes it again where it is then.
 */
static void eat_forever(void *arg)
{
	char *mem = private_memory(APPETITE);

	for (;;) {
		for (size_t pos = 0; pos < APPETITE; pos += BLOCK) {
			mem[pos]++;
			asm volatile("" ::: "memory");
		}
		if (!storm_chance(4) && madvise(mem, APPETITE, MADV_DONTNEED))
			psi_die("madvise: %s", strerror(errno));
	}
}

static const struct load eater = { .cpu = -1, .fn = eat_forever };

/*
 * The task starts outside of the group: inside, it would not get the memory
 * for its own start, and load_start() would wait for it.
 */
static pid_t eater_start(const char *group)
{
	pid_t pid = load_start(&eater);

	group_move(group, pid);
	return pid;
}

/* Starts a task for each one that has died. */
static void replace_dead(struct crew *crew, const char * const groups[2])
{
	for (int i = 0; i < CREW; i++) {
		pid_t pid = waitpid(crew->pid[i], NULL, WNOHANG);

		if (pid < 0)
			psi_die("waitpid: %s", strerror(errno));
		if (pid)
			crew->pid[i] = eater_start(groups[storm_chance(2)]);
	}
}

/*
 * Moves a random task to another CPU or cgroup, or kills it. Its death may take
 * a while: replace_dead() reaps it later.
 */
static void disturb(struct crew *crew, const char * const groups[2])
{
	pid_t pid;

	replace_dead(crew, groups);
	pid = crew->pid[storm_chance(CREW)];
	switch (storm_chance(4)) {
	case 0:
		kill(pid, SIGKILL);
		break;
	case 1:
		group_move(groups[storm_chance(2)], pid);
		break;
	default:
		move_somewhere(pid);
	}
}

/* Sum of one event in memory.events of both groups. */
static unsigned long memory_events(const char * const groups[2], const char *what)
{
	unsigned long sum = 0;
	char name[256], key[32];

	snprintf(key, sizeof(key), "\n%s ", what);
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s/memory.events", groups[i]);
		sum += file_number(name, key);
	}
	return sum;
}

static void print_events(const char * const groups[2], const char *what)
{
	ksft_print_msg("memory.events: %s %lu\n", what, memory_events(groups, what));
}

#define SWAP_NAME	"psi_swap"

/* Number of reads from the swap device so far. */
static unsigned long swap_ins(void)
{
	return file_number("/sys/block/" SWAP_NAME "/stat", "");
}

static void crew_start_in(struct crew *crew, const char *group)
{
	for (int i = 0; i < CREW; i++)
		crew->pid[i] = eater_start(group);
}

static void set_both(const char * const groups[2], const char *file, const char *text)
{
	cgroup_write(groups[0], file, text);
	cgroup_write(groups[1], file, text);
}

/* Reclaim, swap-out and swap-in while the limit changes. */
void storm_swap(struct storm *storm)
{
	static const char * const high[] = { "1048576", "3145728", "max" };
	unsigned long reads;
	struct slow_disk swap;
	const char *groups[2];
	struct crew crew;

	slow_disk_create(&swap, SWAP_NAME, NSEC_PER_MSEC, SWAP_MB);
	swap_on(swap.node, SWAP_MB);
	reads = swap_ins();
	groups_make(storm, "swap", "+memory", groups, 2);
	set_both(groups, "memory.max", "4194304");
	crew_start_in(&crew, groups[0]);
	while (!storm_over(storm) || swap_ins() == reads) {
		disturb(&crew, groups);
		if (!storm_chance(8))
			cgroup_write(groups[storm_chance(2)], "memory.high", high[storm_chance(3)]);
		sleep_for(storm_chance(3) * STEP);
	}
	crew_stop(&crew);
	ksft_print_msg("swapped in %lu times\n", swap_ins() - reads);
	groups_remove(groups, 2);
	if (swapoff(swap.node))
		psi_die("swapoff: %s", strerror(errno));
	slow_disk_remove(&swap);
}

/*
 * Without swap there is nothing to reclaim, so memory.high puts the tasks to
 * sleep, which is a memory stall.
 */
void storm_high(struct storm *storm)
{
	static const char * const high[] = { "1048576", "4194304", "max" };
	const char *groups[2];
	struct crew crew;

	groups_make(storm, "high", "+memory", groups, 2);
	set_both(groups, "memory.swap.max", "0");
	set_both(groups, "memory.high", high[0]);
	crew_start_in(&crew, groups[0]);
	while (!storm_over(storm) || !memory_events(groups, "high")) {
		disturb(&crew, groups);
		if (!storm_chance(8))
			cgroup_write(groups[storm_chance(2)], "memory.high", high[storm_chance(3)]);
		sleep_for(storm_chance(3) * STEP);
	}
	crew_stop(&crew);
	print_events(groups, "high");
	groups_remove(groups, 2);
}

/* The OOM killer takes tasks during reclaim, one by one or a cgroup at once. */
void storm_oom(struct storm *storm)
{
	const char *groups[2];
	struct crew crew;

	/* A list of tasks for each kill would fill the log. */
	write_file("/proc/sys/vm/oom_dump_tasks", "0");
	groups_make(storm, "oom", "+memory", groups, 2);
	set_both(groups, "memory.swap.max", "0");
	set_both(groups, "memory.max", "4194304");
	crew_start_in(&crew, groups[0]);
	while (!storm_over(storm) || !memory_events(groups, "oom_kill")) {
		disturb(&crew, groups);
		if (!storm_chance(8))
			cgroup_write(groups[storm_chance(2)], "memory.oom.group",
				     storm_chance(2) ? "1" : "0");
		sleep_for(storm_chance(3) * STEP);
	}
	crew_stop(&crew);
	print_events(groups, "oom_kill");
	groups_remove(groups, 2);
}
