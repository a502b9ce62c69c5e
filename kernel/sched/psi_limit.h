/* SPDX-License-Identifier: GPL-2.0 */
/* Pressure stall information: limit or shortage, see psi_limit.c */
#ifndef _KERNEL_SCHED_PSI_LIMIT_H
#define _KERNEL_SCHED_PSI_LIMIT_H

#include "psi.h"

/**
 * struct psi_throttle - tasks that a limit begins or ceases to hold together
 * @on: whether it holds them
 * @nr: how many of them wait that are counted in @group, not yet as @on says
 * @group: of the tasks that psi_throttle_add() saw last
 */
struct psi_throttle {
	bool			on;
	unsigned int		nr;
	struct psi_group	*group;
};

void __psi_throttle(struct rq *rq, struct task_struct *p, bool on);
void psi_throttle_add(struct psi_throttle *batch, struct rq *rq, struct task_struct *p);
void psi_throttle_flush(struct psi_throttle *batch, struct rq *rq);

/**
 * psi_throttle - a limit holds a task that is queued, or does not any more
 * @rq: the runqueue, locked, its clock up to date
 * @p: the task, on @rq or about to get there or to leave. It may be current
 * @on: whether a limit holds it
 *
 * A queued task counts so at once, others from the hook that follows on.
 */
static inline void psi_throttle(struct rq *rq, struct task_struct *p, bool on)
{
	if (IS_ENABLED(CONFIG_PSI_STAT) && psi_enabled())
		__psi_throttle(rq, p, on);
}

/**
 * psi_throttle_again - look again whether a limit holds a task
 * @rq: the runqueue of the task, locked, its clock up to date
 * @p: the task, which changed its class or its group
 */
static inline void psi_throttle_again(struct rq *rq, struct task_struct *p)
{
	psi_throttle(rq, p, task_held_by_bandwidth(p));
}

#endif /* _KERNEL_SCHED_PSI_LIMIT_H */
