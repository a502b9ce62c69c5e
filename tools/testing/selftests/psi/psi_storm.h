/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Storms: operations on tasks, each of them as often as possible
 *
 * A storm starts tasks, repeats one kind of operation on them until its time
 * is over, and ends them. It has no verdict of its own: the test checks the
 * accounting afterwards, with psi_leak.h.
 */
#ifndef PSI_STORM_H
#define PSI_STORM_H

#include "psi_util.h"

/*
 * Sets up a test of storms: all CPUs, a real-time priority before the tasks, a
 * disk with a latency of 5 ms, and the count of operations.
 */
void storm_set_up(struct slow_disk *disk, const char *name);

/*
 * Operations since storm_set_up(), of this process and of the processes that
 * it started later.
 */
unsigned long storm_events(void);

/**
 * struct storm - how long a storm lasts, and what it may use
 * @time: from when its tasks exist, which takes a while if CPUs are scarce
 * @end: 0 until its tasks exist
 * @disk: a device that takes some milliseconds, for sleep in iowait
 * @top: parent of its cgroups; NULL for the root
 * @events: counts its operations alone, in shared memory; or NULL
 */
struct storm {
	__u64 time;
	__u64 end;
	const char *disk;
	const char *top;
	unsigned long *events;
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
 * These use the pressure files of all cgroups of the storms beside them, and
 * end the test when they see a wrong value.
 */
void storm_readers(struct storm *storm);
void storm_toggles(struct storm *storm);
void storm_triggers(struct storm *storm);

/*
 * Lets moves of tasks overlap with CPUs that come and go on PREEMPT_RT, too.
 * Without PSI as well, 6.12 may leave a task on a CPU that it is not allowed
 * to use when that CPU comes or goes during the move. With PREEMPT_RT, such a
 * task makes affine_move_task() warn once it is preempted under a lock. So on
 * PREEMPT_RT, and only there, moves and CPU changes exclude each other.
 */
void storm_moves_overlap(void);

/* A process that runs this storm; SCHED_FIFO puts it before its tasks. */
pid_t storm_start(void (*fn)(struct storm *storm), const struct storm *storm, int policy);

/* Runs some of all storms at a time, chosen at random, then others. */
void storm_chaos(struct storm *storm);

/* A task that reads a device for ever, asleep in iowait most of the time. */
pid_t storm_reader(const char *disk);

/* A task in a cgroup that does one of those things, chosen at random. */
pid_t storm_task(const char *cgroup, const char *disk);
/* A number below @limit: the same in every run, different in each task. */
unsigned int storm_chance(unsigned int limit);

/*
 * Reads one descriptor several times, or until its cgroup is gone. A total
 * that goes backwards, or exceeds the time since boot, ends the test.
 */
void storm_read_file(const char *path);
/* Errors that mean that a cgroup or a task is gone, as storms remove them. */
bool storm_is_gone(int error);

/*
 * How long a test runs that has no end of its own: @ns, or the seconds that
 * PSI_STORM_SECONDS in the environment asks for.
 */
__u64 storm_time(__u64 ns);

/* The harness must not end such a test: PSI_STORM_SECONDS limits it. */
#define STORM_TIMEOUT	86400

#endif
