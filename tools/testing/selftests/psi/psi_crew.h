/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For the files that implement storms: their tasks and cgroups
 */
#ifndef PSI_CREW_H
#define PSI_CREW_H

#include "psi_storm.h"

#define STEP	(3 * NSEC_PER_MSEC)
#define CREW	6

/*
 * A storm asks this before each of its operations, which counts as an event.
 * Its time starts with the first question, when its tasks exist, so every
 * storm makes at least one operation.
 */
bool storm_over(struct storm *storm);
void storm_count(void);
/* From now on, this process and those that it starts count here, too. */
void storm_count_in(unsigned long *own);

/* The tasks on which a storm operates. */
struct crew {
	pid_t pid[CREW];
};

void crew_start(struct crew *crew, const struct load *load);
void crew_stop(struct crew *crew);
pid_t crew_any(const struct crew *crew);
/* Kills one of its tasks and starts another in its place. */
void crew_replace(struct crew *crew, int nr, const struct load *load);

/*
 * Moves a task to a random CPU. If that CPU goes offline at the same time, the
 * task stays where it is.
 */
void move_somewhere(pid_t pid);

/* Changes a CPU's state, with no move_somewhere() at the same time on RT. */
void cpu_switch(int cpu, bool on);

/*
 * A cgroup of a storm. No other storm that runs at the same time below the
 * same cgroup uses this name.
 */
const char *group_make(const struct storm *storm, const char *name, const char *controllers);
/* @nr of them, named @name_a, @name_b and so on. */
void groups_make(const struct storm *storm, const char *name, const char *controllers,
		 const char **groups, int nr);
void groups_remove(const char * const *groups, int nr);
/* False if the cgroup or the task is gone; other errors end the test. */
bool group_try(const char *group, const char *file, const char *text);
bool group_move(const char *group, pid_t pid);

/* Reads the device @arg, asleep in iowait nearly all the time. */
void read_forever(void *arg);
/*
 * Runs for longer than its share, then sleeps. While it has a competitor, the
 * scheduler delays its dequeue.
 */
void nap_forever(void *arg);
void fork_forever(void *arg);
void thread_forever(void *arg);
void thrash_forever(void *arg);

#endif
