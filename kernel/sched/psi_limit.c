// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: limit or shortage
 *
 * Contract
 *   A limit that somebody set holds a stalled task, or there is a shortage.
 *   This class belongs to the task: it is the same for all its groups.
 *
 * Attributes
 *   A task that a limit holds shows another attribute:
 *	shortage	waiting		iowait		memstall
 *	limit		limit_waiting	limit_iowait	limit_memstall
 *
 *   Cells count the contributors that show each, as in "Contributors" of psi.c.
 *   A cell may show both of a pair. Here G is throttled by cpu.max, H is not:
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
 *		psi_task.mode swaps what a queued task shows, so events do not
 *		test for it.
 *	memory	The class of a stall follows from its cause: psi_cause_held(). A
 *		task that waits for a page of its working set has the class of
 *		the eviction: reclaim for a cgroup leaves a bit in the shadow
 *		entry, see folio_evicted_by_limit().
 *	io	A task that waits for io is held while limits hold bios of its
 *		cgroup; or, if it waits for a folio of a cgroup of which limits
 *		held a bio lately, of that one. See also psi_io_hold().
 *
 *		A limit may hold the bio long after the wait began: a worker
 *		submits it. So such tasks are in psi_io_limit.waiters. Where a
 *		limit begins to hold the first bio, or lets the last one go,
 *		psi_io_changed() looks at the PSI_WAITERS_MAX that wait longest:
 *		each takes the lock of a runqueue. psi_io_limit.lock is outside
 *		of p->pi_lock, and never held together with one of psi_async.c.
 *
 *		A writer that pauses waits for a time, not for a bio: it is held
 *		if a limit held one within the last PSI_PACED.
 */

#include <linux/blk-cgroup.h>

/**
 * psi_throttle_add - psi_throttle() for one of many tasks, to be flushed
 * @batch: the tasks, with nothing but @on set before the first
 * @rq: the runqueue, locked, its clock up to date
 * @p: the task, queued on @rq
 *
 * A user may have made any number of tasks, so this does little for each: one
 * walk serves all in a row that are of one group.
 *
 * Context: PSI is on.
 */
void psi_throttle_add(struct psi_throttle *batch, struct rq *rq, struct task_struct *p)
{
	struct psi_task *t = &p->psi;

	if (batch->on == !!(t->mode & PSI_HELD))
		return;
	t->mode ^= PSI_HELD;
	if (!(t->attrs & PSI_HELD))
		return;
	t->attrs ^= PSI_HELD;
	if (unlikely(batch->group != t->group)) {
		psi_throttle_flush(batch, rq);
		batch->group = t->group;
	}
	batch->nr++;
}

/**
 * psi_throttle_flush - the last of many tasks was added
 * @batch: the tasks
 * @rq: the runqueue, locked, its clock up to date
 */
void psi_throttle_flush(struct psi_throttle *batch, struct rq *rq)
{
	struct psi_counts change = psi_counts_diff(PSI_WAITING, PSI_LIMIT_WAITING);
	u64 nr = batch->on ? batch->nr : -(u64)batch->nr;

	lockdep_assert_rq_held(rq);
	if (!nr)
		return;
	change.sched *= nr;
	change.limit *= nr;
	psi_walk(batch->group->cpus[cpu_of(rq)], change, NULL, (struct psi_counts){ }, rq,
		 psi_clock(rq));
	batch->nr = 0;
}

void __psi_throttle(struct rq *rq, struct task_struct *p, bool on)
{
	struct psi_throttle one = { .on = on };

	psi_throttle_add(&one, rq, p);
	psi_throttle_flush(&one, rq);
}

static void psi_io_changed(struct psi_io_limit *limit)
{
	struct psi_task *t, *next, *moved = NULL;
	unsigned int nr = 0;

	/*
	 * A full barrier changed the count. Pairs with __psi_io_wait(). Nobody
	 * empties a list but the last task that waits.
	 */
	if (list_empty(&limit->waiters))
		return;
	guard(raw_spinlock_irqsave)(&limit->lock);
	list_for_each_entry_safe(t, next, &limit->waiters, io_link) {
		if (t == moved || nr++ == PSI_WAITERS_MAX)
			break;
		/* In a ring it may wait for no io: it makes room for others. */
		if (!psi_io_recount(container_of(t, struct task_struct, psi), NULL, 0) &&
		    !list_is_last(&t->io_link, &limit->waiters)) {
			list_move_tail(&t->io_link, &limit->waiters);
			moved = moved ?: t;
		}
	}
}

/* Limits have held a bio; until then no task is listed. */
static bool psi_io_used __read_mostly;

void __psi_io_hold(struct psi_io_limit *limit, bool hold)
{
	if (unlikely(!READ_ONCE(psi_io_used)))
		WRITE_ONCE(psi_io_used, true);
	if (!hold)
		WRITE_ONCE(limit->released, jiffies);
	if (hold ? atomic_inc_return(&limit->held) == 1 : atomic_dec_and_test(&limit->held))
		psi_io_changed(limit);
}

void __psi_io_wait(struct folio *folio)
{
	struct psi_io_limit *limit;

	if (likely(!READ_ONCE(psi_io_used)) || current->psi.io_limit)
		return;
	limit = blkcg_io_limit_get(folio);
	if (!limit)
		return;
	scoped_guard(raw_spinlock_irqsave, &limit->lock)
		list_add_tail(&current->psi.io_link, &limit->waiters);
	WRITE_ONCE(current->psi.io_limit, limit);
	/* On the list before the count is read. Pairs with psi_io_changed(). */
	smp_mb();
	psi_io_recount(current, NULL, 0);
}

void __psi_io_done(void)
{
	struct psi_io_limit *limit = current->psi.io_limit;

	scoped_guard(raw_spinlock_irqsave, &limit->lock)
		list_del(&current->psi.io_link);
	WRITE_ONCE(current->psi.io_limit, NULL);
	WRITE_ONCE(current->psi.asleep, 0);
	blkcg_io_limit_put(limit);
}
