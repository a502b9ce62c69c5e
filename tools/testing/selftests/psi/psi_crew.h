/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the storms are made of: tasks to play with, and cgroups for them
 */
#ifndef PSI_CREW_H
#define PSI_CREW_H

#include "psi_storm.h"

#define STEP	(3 * NSEC_PER_MSEC)
#define CREW	6
#define BLOCK	4096

/*
 * Asked before each thing that is done, which it counts as an event. The first one to ask has
 * its tasks: from then on the time of the storm runs, and that one thing is always done.
 */
bool storm_over(struct storm *storm);
void storm_count(void);

/* The tasks that a storm plays with. */
struct crew {
	pid_t pid[CREW];
};

void crew_start(struct crew *crew, const struct load *load);
void crew_stop(struct crew *crew);

/*
 * Moves a task to some CPU. A CPU that goes offline at that moment is no error: the task
 * stays where it is.
 */
void move_somewhere(pid_t pid);

/* A cgroup of a storm, which must be the only one that uses this name. */
const char *group_make(const struct storm *storm, const char *name, const char *controllers);
/* Several: a, b, and so on. */
void groups_make(const struct storm *storm, const char *name, const char *controllers,
		 const char **groups, int nr);
void groups_remove(const char * const *groups, int nr);
/* False when the cgroup or the task is gone; other errors end the test. */
bool group_try(const char *group, const char *file, const char *text);
bool group_move(const char *group, pid_t pid);

/* Reads @arg, a device: asleep in iowait nearly always. */
void read_forever(void *arg);
/*
 * Runs long enough to owe time to the others, then sleeps: its dequeue is delayed when
 * there is somebody to owe it to.
 */
void nap_forever(void *arg);

#endif
