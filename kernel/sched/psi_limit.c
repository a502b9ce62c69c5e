// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: limit or shortage
 *
 * Contract
 *
 *   Every stalled task is in one of two classes: a limit that somebody set
 *   holds it, or there is a shortage. The class belongs to the task: it is the
 *   same for every group that the task counts in.
 *
 * Attributes
 *
 *   A task that a limit holds shows another attribute than one that lacks
 *   something:
 *
 *	shortage	waiting		iowait		memstall
 *	limit		limit_waiting	limit_iowait	limit_memstall
 *
 *   Cells count the contributors that show each, as in "Contributors" of psi.c.
 *   A cell may show both of a pair. Here G is throttled by cpu.max, H is not:
 *
 *		   system	limit_waiting 1, waiting 1: limit and shortage
 *		  /	 \
 *		 G	  H	G: limit_waiting 2.	H: oncpu 1, waiting 1
 *		t u	 v w
 *
 *   Counts of limits are always kept, and only events of limits touch them. The
 *   plain states do not ask which of a pair there is. psi_asked.c measures the
 *   times of limits, while somebody asks.
 *
 * Limits
 *
 *	cpu	The bandwidth of a task group (cpu.max) has run out, in its
 *		cgroup or in one above: fair tasks queued there are held. So is
 *		a deadline task without budget. The scheduler calls
 *		psi_throttle() where it throttles and unthrottles, and where a
 *		task is queued on a throttled runqueue or leaves it. PSI_HELD in
 *		psi_task.mode selects a row of the tables that say what a task
 *		shows, so events do not test for it.
 *
 *	memory	The class of a stall follows from its cause: psi_cause_held(). A
 *		task that waits for a page of its working set has the class of
 *		the eviction: reclaim for a cgroup leaves a bit in the shadow
 *		entry, see folio_evicted_by_limit().
 *
 *	io	A task that waits for io is held if io.max holds bios of its
 *		cgroup when the wait begins: io_schedule(), or a ring of
 *		io_uring or aio (psi_async.c). So is one that sleeps until
 *		iocost or iolatency let it submit.
 */

#include <linux/blk-cgroup.h>

/* See psi_throttle(). */
void __psi_throttle(struct rq *rq, struct task_struct *p, bool on)
{
	lockdep_assert_rq_held(rq);
	p->psi.mode &= ~PSI_HELD;
	p->psi.mode |= on * PSI_HELD;
	if (p->psi.attrs & (PSI_WAITING | PSI_LIMIT_WAITING))
		psi_task_set(rq, p, psi_task_attrs(p, PSI_QUEUED));
}

/*
 * See psi_throttle_add(). A user may have made any number of tasks, so this
 * does little for each: one walk serves all in a row that are of one group.
 */
void __psi_throttle_add(struct psi_throttle *batch, struct rq *rq, struct psi_task *t)
{
	if (batch->on == !!(t->mode & PSI_HELD))
		return;
	t->mode ^= PSI_HELD;
	if (!(t->attrs & (PSI_WAITING | PSI_LIMIT_WAITING)))
		return;
	/* That is all in which the two rows of psi_attrs_for() differ. */
	t->attrs ^= PSI_WAITING | PSI_LIMIT_WAITING;
	if (unlikely(batch->group != t->group)) {
		psi_throttle_flush(batch, rq);
		batch->group = t->group;
	}
	batch->nr++;
}

/* See psi_throttle_flush(). */
void __psi_throttle_flush(struct psi_throttle *batch, struct rq *rq)
{
	struct psi_counts change = psi_counts_diff(PSI_WAITING, PSI_LIMIT_WAITING);
	u64 nr = batch->on ? batch->nr : -(u64)batch->nr;

	lockdep_assert_rq_held(rq);
	change.sched *= nr;
	change.limit *= nr;
	psi_walk(batch->group->cpus[cpu_of(rq)], change, NULL, (struct psi_counts){ }, rq,
		 psi_clock(rq));
	batch->nr = 0;
}

/* See psi_throttle_again(). */
void __psi_throttle_again(struct rq *rq, struct task_struct *p)
{
	__psi_throttle(rq, p, task_held_by_bandwidth(p));
}

/* Whether a limit holds io of the current task. */
static bool psi_io_held(void)
{
	return current->psi.io_budget || blkcg_current_throttled();
}

/* See psi_iowait_set(). */
void __psi_io_wait(void)
{
	if (likely(!psi_io_held()) || current->psi.io_limit)
		return;
	current->psi.io_limit = true;
	atomic_xor(PSI_IOWAIT | PSI_LIMIT_IOWAIT, &current->psi.asleep);
}

/* See psi_iowait_restore(). */
void __psi_io_done(void)
{
	current->psi.io_limit = false;
	atomic_xor(PSI_IOWAIT | PSI_LIMIT_IOWAIT, &current->psi.asleep);
}

bool __psi_io_budget_wait(void)
{
	if (current->psi.io_budget)
		return false;
	current->psi.io_budget = true;
	return true;
}

void __psi_io_budget_done(void)
{
	current->psi.io_budget = false;
}
