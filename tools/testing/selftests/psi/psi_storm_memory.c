// SPDX-License-Identifier: GPL-2.0
/*
 * Storms of tasks that want more memory than their cgroup lets them have. See psi_storm.h.
 *
 * None is over before it was one: before somebody was held back, swapped in or killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/wait.h>

#include "psi_cgroup.h"
#include "psi_crew.h"

#define SWAP_MB		64

/* Each of the crew wants that much. */
#define APPETITE	(2UL << 20)

/*
 * Its memory is charged to the cgroup it is in by then: now and then it gives all of it
 * back, and takes it again.
 */
static void eat_forever(void *arg)
{
	char *mem = mmap(NULL, APPETITE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	if (mem == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
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
 * It is born outside: what a task that starts needs itself is not to be had inside. Nobody
 * waits for it in there either.
 */
static pid_t eater_start(const char *group)
{
	pid_t pid = load_start(&eater);

	group_move(group, pid);
	return pid;
}

/* Those who died, by whatever hand, make room for others. */
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
 * One of them is moved to another CPU or cgroup, or killed. It may take its time to die, but
 * nobody waits for that.
 */
static void trouble(struct crew *crew, const char * const groups[2])
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

/* What the file memory.events of both says about @what. */
static unsigned long memory_events(const char * const groups[2], const char *what)
{
	char name[256], buf[512], line[32];
	unsigned long sum = 0;

	snprintf(line, sizeof(line), "\n%s ", what);
	for (int i = 0; i < 2; i++) {
		const char *at;

		snprintf(name, sizeof(name), "%s/memory.events", groups[i]);
		if (read_file(name, buf, sizeof(buf)) < 0)
			psi_die("%s: %s", name, strerror(errno));
		at = strstr(buf, line);
		if (!at)
			psi_die("%s has no %s", name, what);
		sum += atol(at + strlen(line));
	}
	return sum;
}

static void say_events(const char * const groups[2], const char *what)
{
	ksft_print_msg("memory.events: %s %lu\n", what, memory_events(groups, what));
}

#define SWAP_NAME	"psi_swap"

/* How many reads there have been of the device that is swapped on. */
static unsigned long swap_ins(void)
{
	static const char path[] = "/sys/block/" SWAP_NAME "/stat";
	char buf[256];

	if (read_file(path, buf, sizeof(buf)) < 0)
		psi_die("%s: %s", path, strerror(errno));
	return atol(buf);
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

/* Reclaim, swap-out and swap-in, with a limit that changes below them. */
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
		trouble(&crew, groups);
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

/* Without swap there is nothing to reclaim: they are held back, asleep in a memory stall. */
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
		trouble(&crew, groups);
		if (!storm_chance(8))
			cgroup_write(groups[storm_chance(2)], "memory.high", high[storm_chance(3)]);
		sleep_for(storm_chance(3) * STEP);
	}
	crew_stop(&crew);
	say_events(groups, "high");
	groups_remove(groups, 2);
}

/* Killed in the middle of reclaim, one by one or the whole cgroup at once. */
void storm_oom(struct storm *storm)
{
	const char *groups[2];
	struct crew crew;

	/* Each death is a page of text as it is. */
	write_file("/proc/sys/vm/oom_dump_tasks", "0");
	groups_make(storm, "oom", "+memory", groups, 2);
	set_both(groups, "memory.swap.max", "0");
	set_both(groups, "memory.max", "4194304");
	crew_start_in(&crew, groups[0]);
	while (!storm_over(storm) || !memory_events(groups, "oom_kill")) {
		trouble(&crew, groups);
		if (!storm_chance(8))
			cgroup_write(groups[storm_chance(2)], "memory.oom.group",
				     storm_chance(2) ? "1" : "0");
		sleep_for(storm_chance(3) * STEP);
	}
	crew_stop(&crew);
	say_events(groups, "oom_kill");
	groups_remove(groups, 2);
}
