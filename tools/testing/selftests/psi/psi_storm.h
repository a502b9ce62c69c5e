/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Storms: everything that can happen to a task, as often as possible
 *
 * A storm starts tasks, does one kind of thing to them until its time is over, and
 * leaves nothing behind. It has no result of its own: what counts is the state of
 * the accounting afterwards.
 */
#ifndef PSI_STORM_H
#define PSI_STORM_H

#include "psi_util.h"

/*
 * How many things were done to tasks since storm_events_begin(), by this process and by
 * those that it started since.
 */
void storm_events_begin(void);
unsigned long storm_events(void);

/**
 * struct storm - what a storm may use
 * @end: when it ends
 * @disk: a device that takes some milliseconds, for tasks asleep in iowait
 */
struct storm {
	__u64 end;
	const char *disk;
};

void storm_affinity(const struct storm *storm);
void storm_iowait_affinity(const struct storm *storm);
void storm_policy(const struct storm *storm);
void storm_stop(const struct storm *storm);
void storm_ptrace(const struct storm *storm);
void storm_freeze(const struct storm *storm);
void storm_kill(const struct storm *storm);
void storm_fork(const struct storm *storm);
void storm_threads(const struct storm *storm);
void storm_cgroup_move(const struct storm *storm);
void storm_cpu_limit(const struct storm *storm);
void storm_naps(const struct storm *storm);
void storm_ping_pong(const struct storm *storm);
void storm_boost(const struct storm *storm);
void storm_reclaim(const struct storm *storm);
void storm_hotplug(const struct storm *storm);

/* A task that reads from the device for ever, asleep in iowait most of the time. */
pid_t storm_reader(const char *disk);

/* A task in a cgroup that does one of all those things, by chance. */
pid_t storm_task(const char *cgroup, const char *disk);
/* A number below @limit: the same in every run, another one in every task. */
unsigned int storm_chance(unsigned int limit);

#endif
