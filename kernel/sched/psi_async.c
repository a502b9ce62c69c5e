// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: waits for requests that are carried out meanwhile
 *
 *   A task that calls read() sleeps with in_iowait set until its read is done.
 *   With io_uring or aio, a task submits requests, and sleeps until some of
 *   them complete: reads from a disk, but also from sockets, timeouts and
 *   polls. There in_iowait does not say what the task waits for: io_uring sets
 *   it while anything is in flight, for the sake of cpufreq, and aio never
 *   does.
 *
 *   So each ring, and each context of aio, has a struct psi_async. It counts
 *   the requests to storage that are in flight, and lists the tasks that wait.
 *   A task that waits in it waits for io while that count is above zero:
 *
 *	requests to storage	0     1     2     1     0
 *	another request		------------------------------------------ done
 *	waiter			  asleep                                   runs
 *	iowait			      |#################|
 *
 *   The count may leave zero or come back to it while a task sleeps: a thread
 *   submits for another one that waits, a worker or the thread of SQPOLL issues
 *   what was submitted, or a task waits for more requests than one. So
 *   psi_async_recount() looks at the sleepers again.
 *
 *   When a task goes to sleep, the scheduler looks at in_iowait, and inverts it
 *   if psi_task.asleep has PSI_IOWAIT. So waits of all other kinds cost what
 *   they did.
 *
 *   A task that polls for completions (IORING_SETUP_IOPOLL) runs: it does not
 *   stall.
 *
 * Locking
 *
 *   psi_async.lock	the list, and PSI_IOWAIT in psi_task.asleep of its tasks
 *     p->pi_lock	that a waiter stays on its runqueue
 *       rq->lock	what it is counted as
 *
 *   A request that begins or ends takes the lock only if the count leaves zero
 *   or comes back to it, and the list is not empty. The count changes before
 *   the list is looked at, and a task is on the list before it looks at the
 *   count: one of the two sees the other.
 */

/**
 * psi_async_init - nothing is in flight and no task waits
 * @async: the struct to initialise
 */
void psi_async_init(struct psi_async *async)
{
	atomic_set(&async->storage, 0);
	raw_spin_lock_init(&async->lock);
	INIT_LIST_HEAD(&async->waiters);
}

/**
 * psi_async_exit - it is about to be freed
 * @async: a struct that is not in use any more
 */
void psi_async_exit(struct psi_async *async)
{
	WARN_ON_ONCE(atomic_read(&async->storage));
	WARN_ON_ONCE(!list_empty(&async->waiters));
}

/*
 * Have a waiter count as waiting for io while a request to storage is in
 * flight.
 */
static void psi_async_judge(struct psi_async *async, struct task_struct *p)
{
	bool storage = atomic_read(&async->storage);

	lockdep_assert_held(&async->lock);
	atomic_andnot(PSI_IOWAIT | PSI_LIMIT_IOWAIT, &p->psi.asleep);
	/* Other bits of the word of in_iowait may change meanwhile. */
	if (data_race(!!p->in_iowait) != storage)
		atomic_or(PSI_IOWAIT, &p->psi.asleep);
	if (storage && p->psi.io_limit)
		atomic_xor(PSI_IOWAIT | PSI_LIMIT_IOWAIT, &p->psi.asleep);
}

/* Whether a task counts as asleep. */
static bool psi_async_asleep(struct rq *rq, struct task_struct *p)
{
	/*
	 * The scheduler looks at it when it leaves the CPU, or arrives at
	 * another one.
	 */
	if (task_current(rq, p) || (READ_ONCE(p->__state) == TASK_WAKING && !p->psi.attrs))
		return false;
	return !task_on_rq_queued(p) || task_queued_asleep(p);
}

/*
 * Look at a waiter again. If it is awake, the scheduler will when it goes to
 * sleep.
 */
static void psi_async_recount(struct psi_async *async, struct task_struct *p)
{
	struct rq_flags rf;
	struct rq *rq;

	rq = task_rq_lock(p, &rf);
	update_rq_clock(rq);
	psi_async_judge(async, p);
	if (psi_async_asleep(rq, p))
		psi_task_set(rq, p, psi_task_attrs(p, PSI_ASLEEP));
	task_rq_unlock(rq, p, &rf);
}

/* The count has left zero, or come back to it. */
static void psi_async_changed(struct psi_async *async)
{
	struct psi_async_wait *wait;
	unsigned long flags;

	/*
	 * After the count was changed by a full barrier. Pairs with
	 * __psi_async_wait().
	 */
	if (list_empty(&async->waiters))
		return;
	raw_spin_lock_irqsave(&async->lock, flags);
	list_for_each_entry(wait, &async->waiters, link)
		psi_async_recount(async, wait->task);
	raw_spin_unlock_irqrestore(&async->lock, flags);
}

bool __psi_async_begin(struct psi_async *async, struct file *file)
{
	umode_t mode = file_inode(file)->i_mode;

	if (!S_ISREG(mode) && !S_ISBLK(mode))
		return false;
	if (atomic_inc_return(&async->storage) == 1)
		psi_async_changed(async);
	return true;
}

void __psi_async_end(struct psi_async *async)
{
	if (atomic_dec_and_test(&async->storage))
		psi_async_changed(async);
}

void __psi_async_wait(struct psi_async *async, struct psi_async_wait *wait)
{
	unsigned long flags;

	wait->task = current;
	raw_spin_lock_irqsave(&async->lock, flags);
	list_add(&wait->link, &async->waiters);
	/*
	 * On the list before the count is read. Pairs with psi_async_changed().
	 */
	smp_mb();
	current->psi.io_limit = psi_io_held();
	psi_async_judge(async, current);
	raw_spin_unlock_irqrestore(&async->lock, flags);
}

void __psi_async_done(struct psi_async *async, struct psi_async_wait *wait)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&async->lock, flags);
	list_del(&wait->link);
	current->psi.io_limit = false;
	atomic_andnot(PSI_IOWAIT | PSI_LIMIT_IOWAIT, &current->psi.asleep);
	raw_spin_unlock_irqrestore(&async->lock, flags);
}
