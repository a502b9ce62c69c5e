/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pressure stall information: what the scheduler calls. The theory is at the
 * top of psi.c, the glossary in psi_internal.h.
 */
#ifndef _KERNEL_SCHED_PSI_H
#define _KERNEL_SCHED_PSI_H

#include <linux/psi.h>

void __psi_enqueue(struct rq *rq, struct task_struct *p, int flags);
void __psi_dequeue(struct rq *rq, struct task_struct *p, int flags);
void __psi_sched_switch(struct rq *rq, struct task_struct *prev, struct task_struct *next);
void __psi_leave_cpu(struct task_struct *p);
void __psi_exit(void);
void __psi_io_wait(struct folio *folio);
void __psi_io_done(void);

/**
 * psi_enqueue - a task has been put on a runqueue
 * @rq: the runqueue, locked, its clock up to date
 * @p: the task, as its class left it
 * @flags: ENQUEUE_* flags
 */
static inline void psi_enqueue(struct rq *rq, struct task_struct *p, int flags)
{
	if (psi_enabled())
		__psi_enqueue(rq, p, flags);
}

/**
 * psi_dequeue - a task is about to be taken off its runqueue
 * @rq: the runqueue, locked, its clock up to date
 * @p: the task
 * @flags: DEQUEUE_* flags
 */
static inline void psi_dequeue(struct rq *rq, struct task_struct *p, int flags)
{
	if (psi_enabled())
		__psi_dequeue(rq, p, flags);
}

/**
 * psi_sched_switch - the CPU goes on to another task
 * @rq: the runqueue, locked, its clock up to date
 * @prev: the task that stops: preempted, or asleep by now
 * @next: the task that starts
 */
static inline void psi_sched_switch(struct rq *rq, struct task_struct *prev,
				    struct task_struct *next)
{
	if (psi_enabled())
		__psi_sched_switch(rq, prev, next);
}

/**
 * psi_exit - current exits: a stall or wait for io that it dies in ends here
 */
static inline void psi_exit(void)
{
	if (psi_enabled())
		__psi_exit();
}

#ifdef CONFIG_PSI

void __init psi_init(void);

/**
 * psi_io_wait - from now on a limit may hold io that the current task waits for
 * @folio: the folio that is read or written; %NULL: not known
 */
static inline void psi_io_wait(struct folio *folio)
{
	if (IS_ENABLED(CONFIG_PSI_STAT) && psi_enabled())
		__psi_io_wait(folio);
}

/* The end of what psi_io_wait() began. */
static inline void psi_io_done(void)
{
	if (IS_ENABLED(CONFIG_PSI_STAT) && unlikely(current->psi.io_limit))
		__psi_io_done();
}

/**
 * psi_wake_migrate - a task will wake up on another CPU; before set_task_cpu()
 * @p: the task, off every runqueue, its pi_lock held
 */
static inline void psi_wake_migrate(struct task_struct *p)
{
	if (psi_enabled() && p->psi.attrs)
		__psi_leave_cpu(p);
}

/**
 * psi_fork - a new task starts in the group of its parent, counted nowhere
 * @p: the task, not yet visible to anybody
 *
 * The parent may move meanwhile, and its old group may go. Until
 * cgroup_move_task() gives the new task its own group, psi only compares it.
 */
static inline void psi_fork(struct task_struct *p)
{
	p->psi = (struct psi_task){
		.group = READ_ONCE(current->psi.group) ?: &psi_system,
	};
}

/**
 * psi_ignore - do not count a task, now or ever
 * @p: a task that is counted as nothing: never queued, or asleep
 */
static inline void psi_ignore(struct task_struct *p)
{
	p->psi.group = NULL;
}

#else /* CONFIG_PSI */

static inline void psi_init(void) { }
static inline void psi_wake_migrate(struct task_struct *p) { }
static inline void psi_fork(struct task_struct *p) { }
static inline void psi_ignore(struct task_struct *p) { }

#endif /* CONFIG_PSI */

#endif /* _KERNEL_SCHED_PSI_H */
