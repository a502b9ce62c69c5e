// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: waits for requests that are carried out meanwhile
 *
 *   A task that calls read() sleeps with psi_iowait set. With io_uring or aio
 *   it sleeps until some of its requests complete: reads from a disk, but also
 *   from sockets, timeouts and polls. So each ring, and each context of aio,
 *   has a struct psi_async. It counts the requests to storage in flight, and
 *   lists the tasks that wait. These wait for io while the count is above zero:
 *	requests to storage	0     1     2     1     0
 *	another request		------------------------------------------ done
 *	waiter			  asleep                                   runs
 *	iowait			      |#################|
 *
 *   The count may leave zero or come back to it while tasks sleep: others
 *   submit requests, or a task waits for several. Then psi_io_recount() looks
 *   at them again. That takes the lock of each sleeper's runqueue, with
 *   interrupts off: so only the PSI_WAITERS_MAX (32) tasks of a ring that wait
 *   longest count. In a ring that polls others, only PSI_POLL_WAITERS (4) count
 *   for requests of these: eight rings may poll one, which makes 32, too.
 *   proc, tracefs and tmpfs have no storage (noop_backing_dev_info): a read
 *   that waits there waits for an event.
 *
 *   A task may poll one ring in another, or an eventfd that aio signals. While
 *   requests to storage are in flight there, it waits for io as well. So the
 *   psi_async of a ring or eventfd lists those in which it is polled:
 *	ring A		storage 0, polled 1	<-- a task waits in here
 *	  ^ polls
 *	ring B		storage 1		<-- a read is in flight
 *
 *   B tells A whether its own @storage is zero. It does not pass on what others
 *   tell it, so rings that poll each other do not keep each other's count up.
 *   PSI_IOWAIT in psi_task.asleep inverts psi_iowait when a task goes to sleep.
 *   So waits of all other kinds cost what they did. A task that polls for
 *   completions (IORING_SETUP_IOPOLL) runs: it does not stall.
 *
 * Locking
 *   psi_async.polls_lock	where it is polled, and what was said there
 *     psi_async.lock	the waiters. Of another psi_async than polls_lock
 *       p->pi_lock	that a waiter stays on its runqueue; psi_task.asleep of
 *			a waiter that others may look at
 *         rq->lock	what it is counted as
 *
 *   A request that begins or ends takes a lock only if the count leaves zero or
 *   comes back to it, and its list is not empty. The count changes before the
 *   list is looked at, and a task is on the list before it looks at the count:
 *   one of the two sees the other.
 */

#include <linux/psi_async.h>

/*
 * In how many others a ring or eventfd may be polled with effect. A request
 * walks over all of them with interrupts off; event loops have one or two.
 */
#define PSI_POLLS_MAX	8

/* So many waiters of a ring count while one that it polls has requests. */
#define PSI_POLL_WAITERS	(PSI_WAITERS_MAX / PSI_POLLS_MAX)

/*
 * So long after a limit let a bio go, it paces writers, in jiffies: the time
 * that wb_update_write_bandwidth() takes the mean of.
 */
#define PSI_PACED	(3 * HZ)

/*
 * Tasks poll one psi_async, which has @link in its polls, in @by, @nr times.
 * @storage: counted in @by->polled
 */
struct psi_async_poll {
	struct list_head	link;
	struct psi_async	*by;
	unsigned int		nr;
	bool			storage;
};

/**
 * psi_async_init - nothing is in flight and no task waits
 * @async: the struct to initialise
 */
void psi_async_init(struct psi_async *async)
{
	atomic_set(&async->storage, 0);
	atomic_set(&async->polled, 0);
	raw_spin_lock_init(&async->lock);
	raw_spin_lock_init(&async->polls_lock);
	INIT_LIST_HEAD(&async->waiters);
	async->nr_waiters = 0;
	INIT_LIST_HEAD(&async->polls);
}

/**
 * psi_async_exit - it is about to be freed
 * @async: a struct that is not in use any more
 */
void psi_async_exit(struct psi_async *async)
{
	WARN_ON_ONCE(atomic_read(&async->storage) || atomic_read(&async->polled));
	WARN_ON_ONCE(!list_empty(&async->waiters) || !list_empty(&async->polls));
}

static bool psi_io_held(struct psi_io_limit *limit, bool paced)
{
	return atomic_read(&limit->held) ||
	       (paced && jiffies - READ_ONCE(limit->released) < PSI_PACED);
}

/*
 * Set what a task shows asleep: whether it waits for io, and whether a limit
 * holds that. @async: where it waits; NULL: none, or nothing changed there.
 * @nr: so many tasks, of those that count, wait longer there.
 */
static void psi_io_judge(struct task_struct *p, struct psi_async *async, unsigned int nr)
{
	bool waits = async ? atomic_read(&async->storage) ||
			     (nr < PSI_POLL_WAITERS && atomic_read(&async->polled)) :
			     psi_task_attrs(p, PSI_ASLEEP) & (PSI_IOWAIT | PSI_LIMIT_IOWAIT);
	struct psi_io_limit *limit = READ_ONCE(p->psi.io_limit);
	/* Other bits of the word of psi_iowait may change meanwhile. */
	unsigned int asleep = (data_race(!!p->psi_iowait) != waits) * PSI_IOWAIT;

	if (waits && limit && psi_io_held(limit, READ_ONCE(p->psi.paced)))
		asleep ^= PSI_IOWAIT | PSI_LIMIT_IOWAIT;
	WRITE_ONCE(p->psi.asleep, asleep);
}

static bool psi_counts_asleep(struct rq *rq, struct task_struct *p)
{
	/* The scheduler looks at it where it leaves this CPU or arrives. */
	if (task_current(rq, p) || (READ_ONCE(p->__state) == TASK_WAKING && !p->psi.attrs))
		return false;
	return !task_on_rq_queued(p) || task_queued_asleep(p);
}

/*
 * Look again at a task; return whether it waits for io. If it is awake, the
 * scheduler will look when it goes to sleep.
 */
static bool psi_io_recount(struct task_struct *p, struct psi_async *async, unsigned int nr)
{
	CLASS(task_rq_lock, locked)(p);
	unsigned int attrs;

	update_rq_clock(locked.rq);
	psi_io_judge(p, async, nr);
	attrs = psi_task_attrs(p, PSI_ASLEEP);
	if (psi_counts_asleep(locked.rq, p))
		psi_task_set(locked.rq, p, attrs);
	return attrs & (PSI_IOWAIT | PSI_LIMIT_IOWAIT);
}

/* Look at those that wait longest, @max at most. */
static void psi_async_recount_all(struct psi_async *async, unsigned int max)
{
	struct psi_async_wait *wait;
	unsigned int nr = 0;

	/* A full barrier changed the count. Pairs with __psi_async_wait(). */
	if (list_empty(&async->waiters))
		return;
	guard(raw_spinlock_irqsave)(&async->lock);
	list_for_each_entry(wait, &async->waiters, link) {
		if (nr == max)
			break;
		psi_io_recount(wait->task, async, nr++);
	}
}

/* Tell one that polls @async whether requests to storage are in flight. */
static void psi_async_tell(struct psi_async *async, struct psi_async_poll *poll, bool storage)
{
	struct psi_async *by = poll->by;

	lockdep_assert_held(&async->polls_lock);
	if (poll->storage == storage)
		return;
	poll->storage = storage;
	if (storage ? atomic_inc_return(&by->polled) == 1 : atomic_dec_and_test(&by->polled))
		psi_async_recount_all(by, PSI_POLL_WAITERS);
}

/* The count has left zero, or come back to it. */
static void psi_async_changed(struct psi_async *async)
{
	struct psi_async_poll *poll;

	psi_async_recount_all(async, PSI_WAITERS_MAX);
	/* Likewise. Pairs with __psi_async_poll(). */
	if (list_empty(&async->polls))
		return;
	guard(raw_spinlock_irqsave)(&async->polls_lock);
	list_for_each_entry(poll, &async->polls, link)
		psi_async_tell(async, poll, atomic_read(&async->storage));
}

/* A request to a server counts as one to storage. */
static bool psi_file_on_storage(struct file *file)
{
	struct inode *inode = file_inode(file);

	if (S_ISBLK(inode->i_mode))
		return true;
	/* overlayfs has no device of its own. */
	return S_ISREG(inode->i_mode) &&
	       d_real_inode(file_dentry(file))->i_sb->s_bdi != &noop_backing_dev_info;
}

bool __psi_async_begin(struct psi_async *async, struct file *file)
{
	if (!psi_file_on_storage(file))
		return false;
	if (atomic_inc_return(&async->storage) == 1)
		psi_async_changed(async);
	return true;
}

/**
 * psi_async_end - storage is done with a request that psi_async_begin() counted
 * @async: what psi_async_begin() was given, still there for sure
 *
 * Called before the request wakes anybody.
 *
 * Context: Any but NMI; takes the runqueue locks of tasks that sleep in @async.
 */
void psi_async_end(struct psi_async *async)
{
	if (atomic_dec_and_test(&async->storage))
		psi_async_changed(async);
}

void __psi_async_wait(struct psi_async *async, struct psi_async_wait *wait)
{
	wait->task = current;
	WRITE_ONCE(current->psi.paced, false);
	scoped_guard(raw_spinlock_irqsave, &async->lock) {
		list_add_tail(&wait->link, &async->waiters);
		/* On the list first. Pairs with psi_async_changed(). */
		smp_mb();
		if (async->nr_waiters++ < PSI_WAITERS_MAX)
			psi_io_judge(current, async, async->nr_waiters - 1);
	}
	psi_io_wait(NULL);
}

/* A waiter has left; if it counted, the next one does from now on. */
static void psi_async_promote(struct psi_async *async)
{
	unsigned int nr = 0, polled = atomic_read(&async->polled) ? PSI_POLL_WAITERS : 0;
	struct psi_async_wait *wait;

	if (--async->nr_waiters < (polled ?: PSI_WAITERS_MAX))
		return;
	list_for_each_entry(wait, &async->waiters, link) {
		if (++nr == polled || nr == PSI_WAITERS_MAX)
			psi_io_recount(wait->task, async, nr - 1);
		if (nr == PSI_WAITERS_MAX)
			return;
	}
}

void __psi_async_done(struct psi_async *async, struct psi_async_wait *wait)
{
	scoped_guard(raw_spinlock_irqsave, &async->lock) {
		list_del(&wait->link);
		psi_async_promote(async);
		WRITE_ONCE(current->psi.asleep, 0);
	}
	psi_io_done();
}

static struct psi_async_poll *psi_async_find(struct psi_async *async, struct psi_async *by)
{
	struct psi_async_poll *poll;

	lockdep_assert_held(&async->polls_lock);
	list_for_each_entry(poll, &async->polls, link)
		if (poll->by == by)
			return poll;
	return NULL;
}

bool __psi_async_poll(struct psi_async *async, struct psi_async *by)
{
	/* For the first poll; without memory others still count. */
	struct psi_async_poll *fresh = kzalloc(sizeof(*fresh),
					       GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	struct psi_async_poll *poll;

	scoped_guard(raw_spinlock_irqsave, &async->polls_lock) {
		poll = psi_async_find(async, by);
		if (!poll && fresh && list_count_nodes(&async->polls) < PSI_POLLS_MAX) {
			poll = fresh;
			poll->by = by;
			list_add(&poll->link, &async->polls);
			/* On the list first. Pairs with psi_async_changed(). */
			smp_mb();
			psi_async_tell(async, poll, atomic_read(&async->storage));
		}
		if (poll)
			poll->nr++;
	}
	if (poll != fresh)
		kfree(fresh);
	return poll;
}

/**
 * psi_async_unpoll - that poll is over
 * @async: what was polled
 * @by: where it was polled
 * Context: Process context.
 */
void psi_async_unpoll(struct psi_async *async, struct psi_async *by)
{
	struct psi_async_poll *poll;

	scoped_guard(raw_spinlock_irqsave, &async->polls_lock) {
		poll = psi_async_find(async, by);
		if (--poll->nr)
			return;
		psi_async_tell(async, poll, false);
		list_del(&poll->link);
	}
	kfree(poll);
}
