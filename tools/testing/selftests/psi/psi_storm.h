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
 * struct storm - how long a storm lasts, and what it may use
 * @time: from when its tasks are there, which may take a while where CPUs are scarce
 * @end: when it ends: 0 until its tasks are there
 * @disk: a device that takes some milliseconds, for tasks asleep in iowait
 * @top: its cgroups are below this one, or below the root when it is NULL
 */
struct storm {
	__u64 time;
	__u64 end;
	const char *disk;
	const char *top;
};

void storm_affinity(struct storm *storm);
void storm_iowait_affinity(struct storm *storm);
void storm_policy(struct storm *storm);
void storm_stop(struct storm *storm);
void storm_ptrace(struct storm *storm);
void storm_freeze(struct storm *storm);
void storm_kill(struct storm *storm);
void storm_fork(struct storm *storm);
void storm_threads(struct storm *storm);
void storm_cgroup_move(struct storm *storm);
void storm_cpu_limit(struct storm *storm);
void storm_naps(struct storm *storm);
void storm_ping_pong(struct storm *storm);
void storm_boost(struct storm *storm);
void storm_reclaim(struct storm *storm);
void storm_pipes(struct storm *storm);
void storm_errors(struct storm *storm);
void storm_rings(struct storm *storm);
void storm_swap(struct storm *storm);
void storm_high(struct storm *storm);
void storm_oom(struct storm *storm);
void storm_hotplug(struct storm *storm);

/*
 * Companions: these play with the pressure files of all cgroups that a storm has, and end
 * badly when they see what must not be.
 */
void storm_readers(struct storm *storm);
void storm_toggles(struct storm *storm);
void storm_triggers(struct storm *storm);

/*
 * Lets tasks move while CPUs come and go on PREEMPT_RT too. A task that 6.12 is to move to a CPU
 * that is coming or going may stay where it must not be. With PREEMPT_RT that ends in a warning
 * of affine_move_task(), without PSI as well, once it is preempted under a lock. So there, and
 * only there, moves and changes of CPUs wait for each other.
 */
void storm_moves_overlap(void);

/* A process that is this storm; whoever plays with tasks is SCHED_FIFO and comes before them. */
pid_t storm_start(void (*fn)(struct storm *storm), const struct storm *storm, int policy);

/* Some of all the storms at a time, chosen by chance; and others after a while. */
void storm_chaos(struct storm *storm);

/* A task that reads from the device for ever, asleep in iowait most of the time. */
pid_t storm_reader(const char *disk);

/* A task in a cgroup that does one of all those things, by chance. */
pid_t storm_task(const char *cgroup, const char *disk);
/* A number below @limit: the same in every run, another one in every task. */
unsigned int storm_chance(unsigned int limit);

/*
 * Reads one descriptor again and again, until its cgroup is gone, or some times. It ends badly
 * if a total goes backwards, or is more than can be.
 */
void storm_read_file(const char *path);
/* What happens all the time to files of cgroups and to tasks: they are gone. */
bool storm_is_gone(int error);

#endif
