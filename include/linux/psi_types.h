/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PSI_TYPES_H
#define _LINUX_PSI_TYPES_H

#include <linux/types.h>

struct psi_group;

/**
 * struct psi_task - what a task contributes to pressure
 * @group: the group the task is counted in, %NULL for tasks that are not
 *	   counted (idle threads, PSI's own threads)
 * @attrs: the attributes that the counts of @group hold for this task on
 *	   task_cpu(), see "Contributors" in kernel/sched/psi.c
 * @in_stall: the task is inside a memory-stall section
 * @worker: one of PSI's own threads: a task that it preempts counts as running
 * @node: in the list of tasks with attributes on a CPU, for kernel/sched/psi_debug.c
 *
 * @group and @attrs are protected by the lock of the task's runqueue. Only
 * the task itself writes @in_stall and @worker, with that lock held.
 */
struct psi_task {
#ifdef CONFIG_PSI
	struct psi_group	*group;
	u8			attrs;
	bool			in_stall;
	bool			worker;
#ifdef CONFIG_PSI_DEBUG
	struct hlist_node	node;
#endif
#endif
};

#endif /* _LINUX_PSI_TYPES_H */
