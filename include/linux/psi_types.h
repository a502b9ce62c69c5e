/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PSI_TYPES_H
#define _LINUX_PSI_TYPES_H

#include <linux/atomic.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

struct psi_group;
struct psi_io_limit;
struct task_struct;

/**
 * struct psi_task - what a task contributes to pressure
 * @group: where the task is counted; %NULL for idle threads and PSI's own
 * @asleep: the attributes of io in which the task, while it sleeps, differs
 *	    from psi_iowait, see kernel/sched/psi_async.c and psi_limit.c
 * @attrs: the attributes that @group counts for this task on task_cpu()
 * @mode: the attributes in which the task, where it has them, differs from one
 *	  that does not stall on memory and that no limit holds, see %PSI_HELD
 * @worker: one of PSI's own threads: a task that it preempts counts as running
 * @io_limit: of the cgroup whose io the task waits for; %NULL: no limits lately
 * @io_link: in psi_io_limit.waiters, while there is @io_limit
 * @paced: it waits as psi_iowait_begin_paced() says
 * @cause: of its last memory stall: enum psi_cause
 * @stall_since: when that stall began, ns of rq_clock()
 * @node: in the list of psi_debug.c of tasks with attributes on a CPU
 *
 * The lock of the task's runqueue protects @group, @attrs, @mode and @node. The
 * task changes @asleep while it is awake. While it waits in a ring or has
 * @io_limit, others change it: see psi_io_recount(). psi_io_limit.lock protects
 * @io_link. @worker is written before it runs. The task alone writes others.
 */
struct psi_task {
#ifdef CONFIG_PSI
	struct psi_group	*group;
	u16			asleep;
	u16			attrs;
	u16			mode;
	bool			worker;
	struct psi_io_limit	*io_limit;
	struct list_head	io_link;
	bool			paced;
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
 * struct psi_io_limit - what limits of io hold of a cgroup
 * @held: how many bios
 * @released: when they let one go, in jiffies
 * @lock: protects @waiters
 * @waiters: tasks that wait for io of the cgroup, a list of psi_task.io_link:
 *	     the longest first, then those seen to wait for something else. All
 *	     began to wait while psi_io_limit_used()
 */
struct psi_io_limit {
#ifdef CONFIG_PSI
	atomic_t		held;
	unsigned long		released;
	raw_spinlock_t		lock;
	struct list_head	waiters;
#endif
};

/**
 * struct psi_async - requests that tasks submit and wait for together
 * @storage: how many requests to storage are in flight
 * @polled: how many others with such requests are polled in here
 * @lock: protects @waiters, @nr_waiters, their PSI_IOWAIT in psi_task.asleep
 * @polls_lock: protects @polls. Outside of @lock of any psi_async
 * @waiters: tasks that wait, a list of struct psi_async_wait: longest first
 * @nr_waiters: how many they are
 * @polls: the others in which this one is polled, of struct psi_async_poll
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
	unsigned int		nr_waiters;
	struct list_head	polls;
#endif
};

/* A task that waits for such requests, on its stack: in psi_async.waiters. */
struct psi_async_wait {
#ifdef CONFIG_PSI
	struct task_struct	*task;
	struct list_head	link;
#endif
};

#endif /* _LINUX_PSI_TYPES_H */
