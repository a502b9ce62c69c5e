/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tasks and CPUs did, by clocks that know nothing of PSI
 *
 * Schedstat has the time that a task ran and waited.
 */
#ifndef PSI_TASK_H
#define PSI_TASK_H

#include <linux/types.h>
#include <sys/types.h>

/* Time that a task waited for a CPU; the same and what it ran, without interrupts. */
__u64 task_wait_ns(pid_t pid);
__u64 task_busy_ns(pid_t pid);

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

#endif
