// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: how much work time is lost to contention
 *
 * Contract
 *   A task stalls when it waits for cpu, memory or io and so makes no progress.
 *   "some" is the time in which a task of a domain stalls on a resource, "full"
 *   the time in which tasks stall and none makes progress. User space reads
 *   averages and totals, and arms triggers: Documentation/accounting/psi.rst.
 *
 * Contributors
 *   A group is to its parent what a task is to its group: a contributor. A
 *   contributor shows a set of attributes:
 *	waiting		runnable, not on the CPU
 *	productive	runnable, and not in a memory-stall section: it makes
 *			progress when it has the CPU
 *	oncpu		the CPU executes it
 *	oncpu_stall	the CPU executes it, in a memory-stall section
 *	iowait		asleep, waiting for io (psi_iowait, psi_async.c)
 *	memstall	in a memory-stall section, asleep or not
 *
 *   A task that reclaims memory shows oncpu, oncpu_stall and memstall. While a
 *   limit holds a task, it shows an attribute of limits in place of waiting,
 *   iowait or memstall (psi_limit.c). Per CPU, a group counts how many of its
 *   contributors show each attribute. It shows those with a count above zero.
 *
 * States
 *   Each state of a group on a CPU is a function of the attributes it shows
 *   (irq full also of interrupts, see "Time"). "Running" is waiting or oncpu:
 *	nonidle		iowait, memstall or running
 *	cpu some	waiting
 *	cpu full	waiting, not oncpu
 *	irq full	oncpu, and the CPU serves interrupts
 *	io some		iowait
 *	io full		iowait, not running
 *	mem some	memstall
 *	mem full	memstall, and: not productive, or oncpu_stall
 *
 *   Attributes say "at least one", and so do the states. So no group has to
 *   know the counts of another one, and the rest follows from one rule:
 *	When a contributor changes, the counts of its group change. Unless that
 *	changes what the group shows, nothing above the group can have changed.
 *
 * The walk
 *   psi_walk() applies the change of a contributor to its group. If that
 *   changes what the group shows, this change goes on to the next above
 *   (psi_group_cpu.up), and so on. Most end early. Three events, where b1 runs:
 *	       system
 *		 |	    event		B waiting   A waiting   system
 *		 A	    --------------------------------------------------
 *	       /   \	    b2 wakes up		0 -> 1	    0 -> 1	0 -> 1
 *	      B     C	    switch b1 to b2	1 -> 1	    -		-
 *	    b1 b2   c1	    c1 wakes up		-	    1 -> 2	-
 *
 *   The switch takes b2 off "waiting" and puts b1 on it: nothing that B shows
 *   changes, so the walk ends there. The wake-up of c1 changes C; A has a
 *   waiting contributor already, so the walk ends in A.
 *
 *   A context switch changes two tasks, a move between cgroups two groups.
 *   psi_walk() walks up from both at once, the deeper group first, until they
 *   meet, and adds the two changes up there: what cancels is never seen above.
 *   On a switch from b1 to c1, C takes "oncpu" from B: in A the sum is zero.
 *
 * Delegation
 *   Most cgroups of a container have one child in use on a CPU, and so show
 *   what that child shows. Such a group delegates: it remembers the child, and
 *   in place of its times it stores how much longer they are than the child's.
 *   Both have the same states from then on, so that is constant.
 *
 *	system	counts its contributors			up: -
 *	  |
 *	  X	delegates to Y, stores X - Y		up: not used
 *	  |
 *	  Y	delegates to Z, stores Y - Z		up: not used
 *	  |
 *	  Z	counts its tasks, stores its times	up: system
 *
 *   Z is the end of the chain. A walk goes from Z to the system in one step,
 *   and a reader of X adds up (X - Y) + (Y - Z) + Z. So cost depends on how
 *   many groups have several contributors, not on depth. Chains have at most
 *   PSI_CHAIN (32) groups: delegating, undelegating and joining the list walk
 *   them with the runqueue locked.
 *
 *   When a change comes to X from a task or from another child W,
 *   psi_undelegate() has X stand for itself again:
 *	  X	delegates to Y		X	stores X - Y + Y - Z + Z
 *	  |			 --->	| \	counts one: what Z shows
 *	  Y				Y  W
 *	  |				|	up of X: system, up of Z: X
 *	  Z				Z
 *
 *   This is right also where two walks are under way and the one from Z has
 *   passed above X already: what Z shows includes what that walk changed.
 *
 *   A group delegates when PSI_STREAK (64) changes in a row came from one
 *   child, and its counts are that child's alone. So delegating and
 *   undelegating cost little, also where a kernel thread wakes up every few ms.
 *   No group delegates that a trigger watches, that is off the list
 *   (psi_fold.c), or that is asked while it shows a limit (psi_asked.c).
 *
 * Time
 *   When a state begins or ends at t, what is stored, x, becomes t - x. A
 *   reader at t computes x, or t - x while the state holds. So nothing needs an
 *   update while nothing changes. For a state with 30 ms so far:
 *	at 1000 ms it begins	stored: 1000 - 30 = 970
 *	at 1005 ms a reader	sees:	1005 - 970 = 35
 *	at 1010 ms it ends	stored: 1010 - 970 = 40
 *
 *   Times grow as long as the group exists, exact modulo 2^64. The clock is the
 *   rq_clock() of the event for all states but irq full. A reader on another
 *   CPU takes sched_clock_cpu(), which may be ahead of the rq_clock() of an
 *   event that is under way. So a time that is read twice may shrink, by no
 *   more than the event takes: psi_since() takes that for no growth. Irq full
 *   is "oncpu" on the CPU's own interrupt time, without hooks in interrupts.
 *
 * Tasks
 *   A task remembers what it is counted as (psi_task.attrs) and where: in
 *   psi_task.group, on task_cpu(). That is the group of its cgroup, or the next
 *   above that has a cell on the CPU (psi_group.c). Events do not say what
 *   happened: psi_task_attrs() derives what the task counts as, and the
 *   difference is applied. So a hook called twice, or for a queue operation
 *   that is undone at once, does no harm.
 *
 *	enqueue		Asleep if the class left it on the queue as a delayed
 *			dequeue (se.sched_delayed), oncpu if it is current or
 *			preempted by PSI (see below), waiting otherwise. Covers
 *			wake-up, requeue, migration and change of class.
 *	dequeue		Current is left to the switch: in between the lock may
 *			be dropped, and the task may be requeued or moved. A
 *			task that will be put back at once (DEQUEUE_SAVE) stays
 *			as it is. Another queued task is counted nowhere until
 *			it is enqueued again. A delayed task was asleep all
 *			along.
 *	switch		prev: waiting if still queued and not delayed, asleep
 *			otherwise. next: oncpu.
 *	wake-up on	A sleeper is counted on the CPU it last ran on. It
 *	another CPU	leaves that before set_task_cpu(). Most sleepers have no
 *			attributes, and take no lock. A throttled deadline task
 *			that leaves an offline CPU is dequeued and enqueued.
 *
 *   PSI's own threads are not counted, and a task that one of them preempts
 *   stays oncpu (psi_preempted): a monitor would see its own stall for ever. A
 *   task that wakes up while one of them runs counts as waiting. So does the
 *   preempted task once another task runs, or after PSI_BURST_NS (2 ms): work
 *   of PSI that saturates a CPU is pressure.
 *
 *   The invariants: on a CPU, the counts of a group that does not delegate
 *   equal a recount of its contributors. In a delegating group at most one
 *   contributor shows attributes. The next fold visits every group in which a
 *   state holds. psi_test_model.c and psi_debug.c check these.
 *
 * Locking
 *   cgroup_mutex	which groups there are, with their parents. Freeing
 *			needs none: the group is nobody's parent by then
 *     css_set_lock	which tasks belong to a cgroup
 *       p->pi_lock	that a task stays on its CPU, asleep or queued
 *         rq->lock	all cells on that CPU but their slots, which groups have
 *			one there, psi_task of its tasks, psi_preempted
 *	     psi_seq	write section, so that readers see one moment of a CPU
 *   psi_watch.lock	a mutex: samplers and triggers of a group
 *     rq->lock		to watch a CPU
 *   psi_group.seq	write sections of the fold, its only writer: totals and
 *			averages of all kinds, and which slot readers use
 *
 *   No lock is taken inside a write section of psi_seq. An event that has to
 *   wake the fold or a monitor does so by an irq_work. Readers take no lock:
 *   they retry when psi_seq or psi_group.seq moved, or the group was switched.
 *   psi_ask() takes runqueue locks, one by one, until all cells know. RCU frees
 *   groups and psi_asked: readers follow pointers to them.
 */

/* Shorter: work of PSI would be pressure. Longer: it could hide some. */
#define PSI_BURST_NS		(2 * NSEC_PER_MSEC)
/*
 * A worker that ran so long takes a break as soon as it holds no lock: the task
 * that it preempted may hold a mutex. So long is the break, too.
 */
#define PSI_BREAK_NS		(250 * NSEC_PER_USEC)

DEFINE_STATIC_KEY_FALSE(psi_disabled);
EXPORT_SYMBOL_GPL(psi_disabled);

static bool psi_enable __initdata = !IS_ENABLED(CONFIG_PSI_DEFAULT_DISABLED);

static DEFINE_PER_CPU(struct task_struct *, psi_preempted);

enum psi_where { PSI_ASLEEP, PSI_QUEUED, PSI_RUNS };

/* @io: the attributes of io while it sleeps. */
static __always_inline unsigned int psi_attrs_for(enum psi_where where, unsigned int io,
						  unsigned int mode)
{
	switch (where) {
	case PSI_RUNS:
		return (PSI_ONCPU | PSI_PRODUCTIVE) ^ (mode & ~PSI_HELD);
	case PSI_QUEUED:
		return (PSI_WAITING | PSI_PRODUCTIVE) ^ (mode & ~PSI_ONCPU_STALL);
	default:
		return io | (mode & (PSI_MEMSTALL | PSI_LIMIT_MEMSTALL));
	}
}

static __always_inline struct psi_counts psi_task_change(struct psi_task *t, unsigned int attrs)
{
	unsigned int old = t->attrs;

	t->attrs = attrs;
	return psi_counts_diff(old, attrs);
}

/* Any change, maybe the first of the group there. @more: another, or NULL. */
static noinline void psi_change_all(struct psi_task *t, unsigned int attrs,
				    struct psi_task *more, unsigned int more_attrs,
				    struct rq *rq, u64 now)
{
	struct psi_counts change = { };

	t->group = psi_group_extend(t->group, cpu_of(rq), NULL);
	if (more)
		change = psi_task_change(more, more_attrs);
	psi_walk(t->group->cpus[cpu_of(rq)], psi_task_change(t, attrs),
		 more ? more->group->cpus[cpu_of(rq)] : NULL, change, rq, now);
}

static __always_inline void psi_change(struct psi_task *t, unsigned int attrs,
				       struct rq *rq, u64 now)
{
	struct psi_group_cpu *gc = t->group->cpus[cpu_of(rq)];

	if (likely(gc && !((t->attrs ^ attrs) & ~PSI_SCHED_ATTRS)))
		psi_walk_sched(gc, psi_task_change(t, attrs).sched, rq, now);
	else
		psi_change_all(t, attrs, NULL, 0, rq, now);
}

/* For two tasks that are counted on the CPU already. */
static __always_inline void psi_change_two(struct psi_task *prev, unsigned int prev_attrs,
					   struct psi_task *next, unsigned int next_attrs,
					   struct rq *rq, u64 now)
{
	unsigned int changes = (prev->attrs ^ prev_attrs) | (next->attrs ^ next_attrs);
	struct psi_group_cpu *gc;
	u64 change, more;

	if (unlikely(changes & ~PSI_SCHED_ATTRS))
		return psi_change_all(prev, prev_attrs, next, next_attrs, rq, now);

	change = psi_task_change(prev, prev_attrs).sched;
	more = psi_task_change(next, next_attrs).sched;
	gc = prev->group->cpus[cpu_of(rq)];
	if (prev->group == next->group)
		psi_walk_sched(gc, change + more, rq, now);
	else
		psi_walk_two_sched(gc, change, next->group->cpus[cpu_of(rq)], more, rq, now);
}

static __always_inline unsigned int psi_task_attrs(struct task_struct *p, enum psi_where where)
{
	/* Only the task writes this bit; others write bits beside it. */
	unsigned int iowait = data_race(!!p->psi_iowait) * PSI_IOWAIT;

	return psi_attrs_for(where, where == PSI_ASLEEP ? iowait ^ READ_ONCE(p->psi.asleep) : 0,
			     p->psi.mode);
}

/* rq_clock() without its assertions, which the caller has made. */
static __always_inline u64 psi_clock(struct rq *rq)
{
	return IS_ENABLED(CONFIG_PSI_DEBUG) ? rq_clock(rq) : rq->clock;
}

static __always_inline void psi_task_set(struct rq *rq, struct task_struct *p, unsigned int attrs)
{
	lockdep_assert_rq_held(rq);
	if (p->psi.attrs != attrs && p->psi.group) {
		psi_change(&p->psi, attrs, rq, psi_clock(rq));
		psi_debug_note(p, cpu_of(rq));
	}
}

void __psi_enqueue(struct rq *rq, struct task_struct *p, int flags)
{
	bool restored = flags & ENQUEUE_RESTORE && per_cpu(psi_preempted, cpu_of(rq)) == p;
	bool runs = task_current(rq, p) || unlikely(restored);
	enum psi_where where = runs ? PSI_RUNS : task_queued_asleep(p) ? PSI_ASLEEP : PSI_QUEUED;

	psi_task_set(rq, p, psi_task_attrs(p, where));
}

void __psi_dequeue(struct rq *rq, struct task_struct *p, int flags)
{
	if (flags & DEQUEUE_SAVE)
		return;
	if ((flags & DEQUEUE_SLEEP) && task_current(rq, p))
		return;

	if (unlikely(per_cpu(psi_preempted, cpu_of(rq)) == p))
		per_cpu(psi_preempted, cpu_of(rq)) = NULL;
	psi_task_set(rq, p, flags & DEQUEUE_SLEEP ? psi_task_attrs(p, PSI_ASLEEP) : 0);
}

static __always_inline unsigned int psi_switched_attrs(struct task_struct *p)
{
	bool queued = task_on_rq_queued(p) && !task_queued_asleep(p);

	return psi_task_attrs(p, queued ? PSI_QUEUED : PSI_ASLEEP);
}

static noinline void psi_switch_uncounted(struct task_struct *prev, struct task_struct *next,
					  struct rq *rq, u64 now)
{
	unsigned int attrs;

	/* For counting, the task that the thread preempted stops now. */
	if (prev->psi.worker)
		prev = xchg(per_cpu_ptr(&psi_preempted, cpu_of(rq)), NULL);
	if (prev && prev != next && prev->psi.group) {
		attrs = psi_switched_attrs(prev);
		if (next->psi.worker && attrs & PSI_WAITING)
			per_cpu(psi_preempted, cpu_of(rq)) = prev;
		else if (next->psi.group)
			psi_change_two(&prev->psi, attrs, &next->psi,
				       psi_task_attrs(next, PSI_RUNS), rq, now);
		else
			psi_change(&prev->psi, attrs, rq, now);
	} else if (next->psi.group) {
		psi_change(&next->psi, psi_task_attrs(next, PSI_RUNS), rq, now);
	}
}

void __psi_sched_switch(struct rq *rq, struct task_struct *prev, struct task_struct *next)
{
	int cpu = cpu_of(rq);

	lockdep_assert_rq_held(rq);

	if (likely(prev->psi.group && next->psi.group))
		psi_change_two(&prev->psi, psi_switched_attrs(prev),
			       &next->psi, psi_task_attrs(next, PSI_RUNS), rq, psi_clock(rq));
	else
		psi_switch_uncounted(prev, next, rq, psi_clock(rq));
	psi_debug_note(prev, cpu);
	psi_debug_note(next, cpu);
}

static __maybe_unused void psi_regroup(struct psi_task *t, struct psi_group *to,
				       struct rq *rq, u64 now)
{
	int cpu = cpu_of(rq);

	if (t->attrs)
		to = psi_group_extend(to, cpu, NULL);
	if (t->attrs && to != t->group)
		psi_walk(t->group->cpus[cpu], psi_counts_diff(t->attrs, 0),
			 to->cpus[cpu], psi_counts_of(t->attrs), rq, now);
	t->group = to;
}

/* Count a group in its parent, no longer above. The runqueue is locked. */
static __maybe_unused void psi_adopt(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_group_cpu *from = gc->parent, *d = psi_chain_end(gc), *to;
	unsigned int attrs = d->attrs;

	/* A CPU that is not on the list learns it when it joins. */
	if (!psi_listed(gc, cpu))
		return;
	to = psi_group_extend(gc->group->parent, cpu, gc->group)->cpus[cpu];
	if (from == to)
		return;
	psi_undelegate_parent(gc, cpu);
	psi_walk(from, psi_counts_diff(attrs, 0), to, psi_counts_of(attrs), cpu_rq(cpu), now);
	gc->parent = to;
	d->up = to;
}

/* Between sleep and wake-up attrs change under pi_lock only. */
void __psi_leave_cpu(struct task_struct *p)
{
	/* The waker's pi_lock keeps the task from being moved. */
	struct rq *rq = task_rq(p);

	guard(rq_lock)(rq);
	update_rq_clock(rq);
	psi_task_set(rq, p, 0);
}

/* Begin or end a stall of current; @held: by a limit. Return rq_clock(). */
static u64 psi_set_stall(bool stall, bool held)
{
	struct psi_task *t = &current->psi;
	struct rq *rq;

	lockdep_assert_irqs_enabled();

	guard(irq)();
	rq = this_rq();
	guard(rq_lock)(rq);
	update_rq_clock(rq);
	t->mode &= PSI_HELD;
	if (stall)
		t->mode |= PSI_IN_STALL | (held ? PSI_LIMIT_MEMSTALL : PSI_MEMSTALL);
	psi_task_set(rq, current, psi_task_attrs(current, PSI_RUNS));
	return rq_clock(rq);
}

/* PSI's thread had the CPU for long: the task that it preempted waits now. */
static void psi_count_preempted(void)
{
	struct task_struct *p;
	struct rq *rq;

	guard(irq)();
	/* Other CPUs only clear it. */
	if (!data_race(__this_cpu_read(psi_preempted)))
		return;
	rq = this_rq();
	guard(rq_lock)(rq);
	p = __this_cpu_xchg(psi_preempted, NULL);
	if (p) {
		update_rq_clock(rq);
		psi_task_set(rq, p, psi_task_attrs(p, PSI_QUEUED));
	}
}

/* Give way to others, between two steps of work that goes on since @began. */
static void psi_worker_relax(u64 began, u64 now)
{
	if (psi_since(now, began) > PSI_BURST_NS)
		psi_count_preempted();
	cond_resched();
}

/*
 * Give way to others, at @now, where the worker holds no lock. Return what the
 * clock says then. Where a sleep ends at a tick, a break would take too long.
 */
static u64 psi_worker_break(struct psi_worker *worker, u64 now)
{
	ktime_t timeout = ns_to_ktime(PSI_BREAK_NS);

	psi_worker_relax(worker->began, now);
	if (psi_since(now, worker->rested) < PSI_BREAK_NS || hrtimer_resolution > PSI_BREAK_NS)
		return now;
	set_current_state(TASK_IDLE);
	schedule_hrtimeout(&timeout, HRTIMER_MODE_REL_PINNED_HARD);
	worker->rested = psi_read_clock();
	worker->began += worker->rested - now;
	return worker->rested;
}

static bool psi_cause_held(unsigned int cause)
{
	return cause & PSI_BY_LIMIT || cause == PSI_CAUSE_RECLAIM_LIMIT ||
	       cause == PSI_CAUSE_HIGH || cause == PSI_CAUSE_THROTTLE;
}

void __psi_memstall_enter(unsigned long *flags, unsigned int cause)
{
	/* The other bits may change meanwhile. */
	*flags = data_race(current->psi.mode) & PSI_IN_STALL;
	if (!*flags)
		psi_cause_begin(cause & ~PSI_BY_LIMIT, psi_set_stall(true, psi_cause_held(cause)));
}
EXPORT_SYMBOL_GPL(__psi_memstall_enter);

void __psi_memstall_leave(unsigned long *flags)
{
	/* Other bits of the mode may change meanwhile. */
	bool held = data_race(current->psi.mode) & PSI_LIMIT_MEMSTALL;

	if (!*flags)
		psi_cause_end(psi_set_stall(false, false), held);
}
EXPORT_SYMBOL_GPL(__psi_memstall_leave);

/* @folio and @paced: why, for the class. The outermost section says that. */
static int psi_iowait_set(struct folio *folio, bool paced)
{
	int token = current->psi_iowait;

	if (!psi_enabled())
		return 0;
	current->psi_iowait = 1;
	if (!token)
		WRITE_ONCE(current->psi.paced, paced);
	psi_io_wait(folio);
	return token;
}

/**
 * psi_iowait_begin - from now on the current task sleeps for storage only
 *
 * io_schedule() says so by itself, and so do mutex_lock_io() and others. A
 * section is for other waits: where another task waits for the disk (a
 * journal), or a server does the work (NFS), and around io_schedule_timeout(),
 * in which drivers wait for all kinds of devices. Sections nest.
 *
 *	sleeps in			in_iowait  psi_iowait  for example
 *	schedule()			0	   0	       a socket
 *	io_schedule_timeout()		1	   0	       a GPU
 *	io_schedule()			1	   1	       a disk
 *	schedule() in a section		0	   1	       a journal
 *
 * /proc/stat and cpufreq go by in_iowait, psi goes by psi_iowait.
 *
 * Context: Process context.
 * Return: to be passed to psi_iowait_end()
 */
int psi_iowait_begin(void)
{
	return psi_iowait_set(NULL, false);
}
EXPORT_SYMBOL_GPL(psi_iowait_begin);

/**
 * psi_iowait_begin_folio - psi_iowait_begin() for a task that waits for a folio
 * @folio: the folio, which may be charged to a cgroup whose io a limit holds
 * Context: Process context.
 * Return: to be passed to psi_iowait_end()
 */
int psi_iowait_begin_folio(struct folio *folio)
{
	return psi_iowait_set(folio, false);
}

/**
 * psi_iowait_begin_paced - psi_iowait_begin() for a task that waits for a time
 *
 * For a writer that pauses so that it is no faster than the storage, or than a
 * limit that held io of its cgroup a moment ago lets it be.
 *
 * Context: Process context.
 * Return: to be passed to psi_iowait_end()
 */
int psi_iowait_begin_paced(void)
{
	return psi_iowait_set(NULL, true);
}

/**
 * psi_iowait_end - a section begun by psi_iowait_begin() is over
 * @token: what psi_iowait_begin() returned
 * Context: Process context.
 */
void psi_iowait_end(int token)
{
	if (!psi_enabled())
		return;
	if (!token)
		psi_io_done();
	current->psi_iowait = token;
}
EXPORT_SYMBOL_GPL(psi_iowait_end);

void __psi_exit(void)
{
	unsigned long outermost = 0;

	psi_iowait_end(0);
	WRITE_ONCE(current->psi.asleep, 0);
	/* The other bits may change meanwhile. */
	if (data_race(current->psi.mode) & PSI_IN_STALL)
		__psi_memstall_leave(&outermost);
}

static int __init psi_setup(char *str)
{
	return kstrtobool(str, &psi_enable) == 0;
}
__setup("psi=", psi_setup);

/* Before the first task is queued. */
void __init psi_init(void)
{
	unsigned int attrs;
	int cpu;

	/* A switch stays within the first line of a group on a CPU. */
	BUILD_BUG_ON(offsetof(struct psi_group_cpu, times[PSI_IO_SOME]) > 64);

	for (attrs = 0; attrs < PSI_NR_ATTR_SETS; attrs++) {
		psi_sched_counts[attrs] = psi_sched_counts_of(attrs);
		psi_states[attrs] = psi_states_of(attrs);
	}

	for_each_possible_cpu(cpu)
		seqcount_init(&cpu_rq(cpu)->psi_seq);

	if (!psi_enable) {
		static_branch_enable(&psi_disabled);
		return;
	}
	psi_system.cpus = kcalloc(nr_cpu_ids, sizeof(*psi_system.cpus), GFP_NOWAIT);
	if (!zalloc_cpumask_var(&psi_system.cpumask, GFP_NOWAIT) || !psi_system.cpus)
		panic("psi: no memory for the system");
	psi_group_init(&psi_system, NULL, 0);
	for_each_possible_cpu(cpu)
		psi_group_install(&psi_system, cpu, per_cpu_ptr(&psi_system_cpus, cpu));
}
