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

/*
 * Nothing leaked: what every storm must leave behind
 *
 * PSI counts the tasks in each state, per CPU. An event that is lost or taken twice leaves
 * a count wrong for good, and a wrong count shows in one of two ways:
 *
 *  - above the truth: a machine on which only this test sleeps has pressure, and the
 *    total grows by the whole time;
 *  - below the truth: the next load with a known answer is not seen on that CPU.
 *
 * So first nothing may grow while the machine is idle. Then every CPU gets two spinners,
 * which are 100 % cpu some, and a reader of @disk, which is io some as long as it sleeps.
 *
 * Returns NULL, or what is wrong.
 */
const char *find_leak(const char *disk);

#endif
