/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The delays of tasks, from taskstats
 *
 * No other clock says in nanoseconds how long a task reclaimed or thrashed.
 */
#ifndef PSI_DELAYS_H
#define PSI_DELAYS_H

#include <linux/types.h>
#include <sys/types.h>

/**
 * struct task_clock - where the time of one task went, in ns
 * @run: on a CPU
 * @wait: runnable, not on a CPU
 * @io: asleep in iowait
 * @reclaim: in direct reclaim, also that of a memcg limit
 * @thrash: waiting until a page of the working set is read back
 * @compact: in direct compaction
 * @irq: in interrupts that hit while the task was on the CPU
 */
struct task_clock {
	__u64 run;
	__u64 wait;
	__u64 io;
	__u64 reclaim;
	__u64 thrash;
	__u64 compact;
	__u64 irq;
};

/* From here on the kernel accounts delays of tasks that it creates. */
void task_delays_on(void);

void task_clock_read(pid_t pid, struct task_clock *tc);
/* Growth of each field since @before. */
struct task_clock task_clock_since(pid_t pid, const struct task_clock *before);

/* Time that a task was not asleep: it ran, was interrupted, or waited. */
__u64 task_awake_ns(pid_t pid);

#endif
