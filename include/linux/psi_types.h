/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PSI_TYPES_H
#define _LINUX_PSI_TYPES_H

#include <linux/atomic.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

struct psi_group;
struct task_struct;

/**
 * struct psi_task - what a task contributes to pressure
 * @group: the group the task is counted in, %NULL for tasks that are not
 *	   counted (idle threads, PSI's own threads)
 * @attrs: the attributes that the counts of @group hold for this task on
 *	   task_cpu(), see "Contributors" in kernel/sched/psi.c
 * @mode: bits of enum psi_mode: what selects the attributes of the task while it is queued or
 *	  runs
 * @worker: one of PSI's own threads: a task that it preempts counts as running
 * @asleep: the attributes of the task while it sleeps: those of its memory stall as in
 *	   @mode. Where psi_iowait does not say what is true of io, the attributes that are
 *	   different, see kernel/sched/psi_async.c and psi_limit.c
 * @limits: limits that hold the task while it stalls, enum psi_limit, and PSI_IO_BUDGET. What
 *	   it counts as follows when its group is ready, see kernel/sched/psi_limit.c
 * @cause: why the task stalls, or last stalled, on memory: enum psi_cause
 * @stall_since: when that stall began, ns of rq_clock()
 * @node: in the list of tasks with attributes on a CPU, for kernel/sched/psi_debug.c
 *
 * @group, @attrs and @mode are protected by the lock of the task's runqueue. Only
 * the task itself writes PSI_IN_STALL and @worker, with that lock held. In @asleep the
 * attributes of memory change with that lock held, those of io too once a limit holds the
 * task; before, the task itself changes them, or a holder of psi_async.lock and of the runqueue
 * lock. @limits, @cause and @stall_since are written by the task alone.
 */
struct psi_task {
#ifdef CONFIG_PSI
	struct psi_group	*group;
	u16			attrs;
	u8			mode;
	bool			worker;
	atomic_t		asleep;
	u8			limits;
#ifdef CONFIG_PSI_CAUSES
	u8			cause;
	u64			stall_since;
#endif
#ifdef CONFIG_PSI_DEBUG
	struct hlist_node	node;
#endif
#endif
};

/**
 * struct psi_async - requests that tasks submit and wait for together
 * @storage: how many requests to storage are in flight
 * @polled: how many of the others that tasks poll in here have such requests
 * @lock: protects @waiters, and PSI_IOWAIT in psi_task.asleep of these tasks
 * @polls_lock: protects @polls. Outside of @lock of any psi_async
 * @waiters: the tasks that wait, a list of struct psi_async_wait
 * @polls: the others in which this one is polled, a list of struct psi_async_poll
 *
 * One for each ring of io_uring, each context of aio and each eventfd.
 */
struct psi_async {
#ifdef CONFIG_PSI
	atomic_t		storage;
	atomic_t		polled;
	raw_spinlock_t		lock;
	raw_spinlock_t		polls_lock;
	struct list_head	waiters;
	struct list_head	polls;
#endif
};

/**
 * struct psi_async_wait - a task that waits for such requests, on its stack
 * @task: the task, %NULL if PSI was off when it began to wait
 * @link: in psi_async.waiters
 */
struct psi_async_wait {
#ifdef CONFIG_PSI
	struct task_struct	*task;
	struct list_head	link;
#endif
};

#endif /* _LINUX_PSI_TYPES_H */
