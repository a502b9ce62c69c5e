/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loads that measure themselves, wake each other, or lack memory
 */
#ifndef PSI_WORK_H
#define PSI_WORK_H

#include "psi_delays.h"
#include "psi_util.h"

/* The total of the line "full", in ns. */
__u64 psi_full_ns(const char *path);

/* A spinner of SCHED_IDLE: no kernel thread has to wait for it. */
pid_t spin_idle_on(int cpu);

/**
 * struct ping_pong - two loads that wake each other through pipes
 * @pipes: from one to the other, and back
 * @ends: of each load
 */
struct ping_pong {
	int pipes[2][2];
	int ends[2][2];
};

void ping_pong_create(struct ping_pong *pp);
/* The @fn of each load: @arg is its ends. */
void ping_pong_forever(void *arg);
/* Sends @nr bytes round. */
void ping_pong_begin(const struct ping_pong *pp, int nr);
void ping_pong_remove(const struct ping_pong *pp);

/* Wait until a task sleeps, or all threads of the caller but itself. */
void await_sleep(pid_t pid);
void await_sleep_of_threads(void);

/* fork() with the child in this cgroup from the start. */
pid_t cgroup_fork(const char *path);

/* ---- A reader that measures itself ---- */

/**
 * struct reader - a load that reads a device, and what it measured
 * @node: the device
 * @flags: of open(): O_DIRECT or 0
 * @nap: it sleeps so long after each block; then @asleep has that, too
 * @begin: it measures from here on, by default at once
 * @end: it stops
 * @elapsed: from @begin to @end; this and the following are in ns
 * @asleep: time that it was asleep
 * @some: growth of io some
 * @full: growth of io full
 *
 * The reader does nothing else, so all its sleep is in iowait. The oracle is
 * what remains of its time after it ran, was interrupted, or waited for the
 * CPU. The blkio delay of taskstats is no oracle: when a delayed dequeue is
 * completed, the kernel charges that delay to whichever task is current.
 */
struct reader {
	const char *node;
	int flags;
	__u64 nap;
	__u64 begin;
	__u64 end;
	__u64 elapsed;
	__u64 asleep;
	__u64 some;
	__u64 full;
};

/* The @fn of such a load: @arg is a struct reader in shared memory. */
void read_blocks(void *arg);
pid_t reader_start(struct reader *reader, int cpu);

/*
 * Time that a sleeper was asleep, which is all in iowait. @awake_before is its
 * task_awake_ns() before its span.
 */
__u64 sleeper_asleep_ns(const struct sleeper *sleeper, pid_t pid, __u64 awake_before);

/* A load on CPU 0 that keeps all memory of the machine but @room bytes, once this returns. */
pid_t memory_take(unsigned long room);

/**
 * struct thrasher - a load that reads a working set of 5 MB in random order
 * @node: the device
 * @span: when it reads
 */
struct thrasher {
	const char *node;
	struct span span;
};

/* @arg is a struct thrasher. */
void thrash(void *arg);

#endif
