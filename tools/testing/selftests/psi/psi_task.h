/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tasks and CPUs did, by clocks that know nothing of PSI
 *
 * Schedstat has the time that a task ran and waited, taskstats its delays: no
 * other clock says in nanoseconds how long a task reclaimed or thrashed.
 */
#ifndef PSI_TASK_H
#define PSI_TASK_H

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
__u64 task_wait_ns(pid_t pid);
/* Time that a task was not asleep: it ran, was interrupted, or waited. */
__u64 task_awake_ns(pid_t pid);

/**
 * struct cpu_clock - what all tasks of a CPU did so far, in ns
 * @run: the CPU executed a task
 * @wait: sum of the waits of its tasks; a wait counts once it ends
 */
struct cpu_clock {
	__u64 run;
	__u64 wait;
};

/* Of one CPU, or of all when @cpu is -1. */
void cpu_clock_read(int cpu, struct cpu_clock *cc);

/* ---- Threads of the kernel ---- */

/* Finds up to @most kernel threads by a pattern of their names; how many. */
int kernel_threads(const char *pattern, pid_t *pids, int most);

/* Wait of PSI's own threads, which is no pressure. */
__u64 psi_threads_wait_ns(void);

/*
 * How often kernel threads were switched to so far: all of them, those that
 * serve triggers, and the real-time one of the latter.
 */
__u64 kthread_switches(void);
__u64 monitor_switches(void);
__u64 rt_monitor_switches(void);
/* CPU time of the real-time one so far, in ns. */
__u64 rt_monitor_ran_ns(void);

#endif
