// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: limit or shortage
 *
 * Contract
 *
 *   Every stalled task is in one of two classes: a limit that somebody set holds it, or there
 *   is a shortage. The class belongs to the task: it is the same for every group that the
 *   task counts in. Per group and CPU, for cpu, io and memory:
 *
 *	limit some	a limit holds at least one stalled task
 *	limit full	limit some, and the plain full of the resource holds
 *	only some	limit some, and no task stalls for a shortage
 *	only full	only some, and the plain full of the resource holds
 *
 *   Shortage is the plain state without "only". So it needs no times of its own, and there is
 *   nothing to measure until a limit holds a task for the first time.
 *
 * Invariants
 *
 *   At any moment, per group and CPU, for some and for full:
 *
 *	"only" implies limit, limit implies the plain state
 *	the plain state holds if and only if limit or shortage does
 *
 *   So it is with times, with the means of times over CPUs by the same weights, and with
 *   their sums: max(limit, shortage) <= plain <= limit + shortage.
 *
 * Attributes
 *
 *   A task that a limit holds shows another attribute than one that lacks something:
 *
 *	shortage	waiting		iowait		memstall
 *	limit		limit_waiting	limit_iowait	limit_memstall
 *
 *   A group counts the contributors that show each, and shows an attribute while its count is
 *   not zero, as in "Contributors" of psi.c. So a group may show both of a pair. Here G is
 *   throttled by cpu.max, H is not:
 *
 *		   system	limit_waiting 1, waiting 1: limit some and shortage some
 *		  /	 \
 *		 G	  H	G: limit_waiting 2.	H: oncpu 1, waiting 1
 *		t u	 v w
 *
 *   While no limit holds a task of a group, the group counts what it did without classes. The
 *   walk keeps PSI_LIMITED of a group as it is, by the instruction that keeps iowait and
 *   memstall. A change that contains an attribute of limits takes the slow variant of the
 *   walk, the one for iowait and memstall, and there psi_limit_step() applies that part of it,
 *   level by level. Limits are counted in a part of the group that is allocated when a limit
 *   holds a task first (psi_limit_cpu).
 *
 *   The states above change also when other attributes do: when a task that no limit holds
 *   begins to wait, or one gets the CPU. A group with PSI_LIMITED is nonidle, and
 *   psi_group_cpu.slow has all bits. So each change of what the group shows calls
 *   psi_walk_slow(), which calls psi_limit_states(). The walk knows nothing of limits and may
 *   end a state that a limit keeps: there it begins anew, at the same time, and no time is
 *   lost. For the same reason a group with PSI_LIMITED neither delegates, nor is delegated to.
 *
 * Limits of the cpu
 *
 *	cpu	The bandwidth of a task group (cpu.max) has run out, in its cgroup or in one
 *		above: fair tasks queued there are held. So is a deadline task without budget.
 *		The scheduler calls psi_throttle() where it throttles and unthrottles, and
 *		where a task is queued on a throttled runqueue or leaves it.
 *
 *   psi_task.mode remembers that a task is held. It selects a row of the tables that say what a
 *   task shows, so events do not test for it.
 *
 * Limits of memory
 *
 *	The class of a stall follows from its cause: see psi_cause_held(). A task that waits for
 *	a page of its working set has the class of the eviction: reclaim for a cgroup leaves a
 *	bit in the shadow entry, see folio_evicted_by_limit(). While the stall lasts,
 *	PSI_STALL_HELD in psi_task.mode and the attributes in psi_task.asleep have the class.
 *
 * Limits of io
 *
 *	A task that waits for io is held if io.max holds bios of its cgroup when the wait
 *	begins: io_schedule(), or a ring of io_uring or aio (psi_async.c). So is one that sleeps
 *	until iocost or iolatency let it submit. psi_task.asleep is what the task shows more, or
 *	less, than psi_iowait says. So it has both attributes of io: one takes PSI_IOWAIT away.
 *
 * Memory for limits
 *
 *   Once a limit has held a task of a group, the group has memory for that on each CPU that it
 *   is in use on, from the reserve of the CPU (psi_reserve.c). When a limit holds a task
 *   first, no memory can be allocated. So psi_limits_want() has a work allocate it for the
 *   CPUs so far, from the top down: all groups above one with limits have them. Then
 *   the work looks at the tasks of the group: psi_task.limits says which limits hold each.
 *   Until then such a task counts as in a shortage. That takes some hundred us, and longer
 *   while cgroup_mutex is held.
 */

/*
 * The walk
 */

/**
 * psi_shown - all attributes that a group shows
 * @gc: the group on a CPU
 * @cpu: the CPU
 *
 * Context: The runqueue lock of the CPU is held.
 * Return: those in &psi_group_cpu.attrs, and those of limits
 */
unsigned int psi_shown(const struct psi_group_cpu *gc, int cpu)
{
	unsigned int attrs = gc->attrs & ~PSI_LIMITED;

	if (gc->attrs & PSI_LIMITED)
		attrs |= gc->group->limits->cpus[cpu]->attrs;
	return attrs;
}

/* The resource of the first attribute of limits in @attrs. */
static unsigned int psi_limit_of(unsigned int attrs)
{
	return __ffs(attrs / PSI_LIMIT_WAITING);
}

/*
 * Those of @states in which a limit holds a task of a group that shows @attrs. @only: and no
 * task stalls for a shortage.
 */
static unsigned int psi_limit_states_of(unsigned int attrs, unsigned int states,
					unsigned int *only)
{
	static const u8 states_of[PSI_NR_LIMITS] = {
		[PSI_LIMIT_CPU] = BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL),
		[PSI_LIMIT_IO]	= BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL),
		[PSI_LIMIT_MEM]	= BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL),
	};
	unsigned int limit = 0, held, l;

	*only = 0;
	for (held = attrs & PSI_LIMIT_ATTRS; held; held &= held - 1) {
		l = psi_limit_of(held);
		limit |= states & states_of[l];
		if (!(attrs & psi_shortage[l]))
			*only |= states & states_of[l];
	}
	return limit;
}

/* Begin and end states at @now, see "Time" in psi.c. @first: the one that @times begins with. */
static inline void psi_limit_flip(u8 *states, u64 *times, unsigned int first, unsigned int to,
				  u64 now)
{
	unsigned int flips, s;

	for (flips = *states ^ to; flips; flips &= flips - 1) {
		s = __ffs(flips) - first;
		times[s] = now - times[s];
	}
	*states = to;
}

/**
 * psi_limit_states - have the states of limits follow what a group shows
 * @gc: the group on a CPU, which has &psi_group.limits
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * Context: The runqueue lock of the CPU is held, inside a write section of psi_seq.
 */
void psi_limit_states(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_limit_cpu *lc = gc->group->limits->cpus[cpu];
	unsigned int attrs = psi_shown(gc, cpu);
	unsigned int states = psi_states[psi_plain_attrs(attrs)] & gc->enabled;
	unsigned int only, limit = psi_limit_states_of(attrs, states, &only);

	psi_limit_flip(&gc->states, gc->times, PSI_NONIDLE, states, now);
	psi_limit_flip(&lc->limit, lc->limit_times, PSI_NONIDLE + 1, limit, now);
	psi_limit_flip(&lc->only, lc->only_times, PSI_NONIDLE + 1, only, now);
}

/* What a group shows of limits, by what it counts. */
static unsigned int psi_limit_attrs_of(const u32 *nr)
{
	unsigned int attrs = 0;
	int l;

	for (l = 0; l < PSI_NR_LIMITS; l++)
		attrs |= nr[l] ? PSI_LIMIT_WAITING << l : 0;
	return attrs;
}

/* psi_group_cpu.stall with the bit that says whether any attribute of limits is shown. */
static u64 psi_stall_showing(u64 stall, bool limited)
{
	return (stall & ((1ULL << 2 * PSI_LANE) - 1)) | (u64)limited << 2 * PSI_LANE;
}

/* @nr in the field of each resource. */
#define PSI_LIMIT_FIELDS(nr)						\
	((1U | 1U << PSI_LIMIT_BITS | 1U << 2 * PSI_LIMIT_BITS) * (nr) << PSI_LIMIT_SHIFT)
/* What is added to fields, and to iowait: from -2 to 2, each is made positive. */
#define PSI_LIMIT_BIAS		(PSI_LIMIT_FIELDS(4) | 4)

/*
 * Split the part of a change off that is about limits: its fields with PSI_LIMIT_BIAS, or 0 if
 * there are none. @stall keeps the rest.
 */
static u32 psi_limit_split(u64 *stall)
{
	u32 fields = ((u32)*stall + PSI_LIMIT_BIAS) & PSI_LIMIT_FIELDS(BIT(PSI_LIMIT_BITS) - 1);

	if (fields == PSI_LIMIT_FIELDS(4))
		return 0;
	*stall -= (s32)(fields - PSI_LIMIT_FIELDS(4));
	return fields;
}

/* Add what psi_limit_split() returned to the counts. Return what these show. */
static unsigned int psi_limit_count(struct psi_limit_cpu *lc, u32 fields)
{
	int l;

	fields >>= PSI_LIMIT_SHIFT;
	for (l = 0; l < PSI_NR_LIMITS; l++, fields >>= PSI_LIMIT_BITS)
		lc->nr[l] += (fields & (BIT(PSI_LIMIT_BITS) - 1)) - 4;
	return psi_limit_attrs_of(lc->nr);
}

/**
 * psi_limit_step - apply to one level the part of a change that is about limits
 * @gc: the group on @cpu
 * @stall: psi_counts.stall of the change; that part is taken away
 * @cpu: the CPU
 *
 * The caller calls psi_limit_states() when the rest is applied, too.
 *
 * Context: The runqueue lock of the CPU is held, inside a write section of psi_seq.
 * Return: what that changes for the next level, for its psi_counts.stall
 */
u64 psi_limit_step(struct psi_group_cpu *gc, u64 *stall, int cpu)
{
	u32 fields = psi_limit_split(stall);
	struct psi_limit_cpu *lc;
	unsigned int old, new;

	/* Most are about something else. */
	if (!fields)
		return 0;
	lc = gc->group->limits->cpus[cpu];
	old = lc->attrs;
	new = psi_limit_count(lc, fields);
	if (new == old)
		return 0;

	/* A group that shows one neither delegates nor is delegated to. */
	if (gc->delegate)
		psi_undelegate(gc);
	if (gc->parent && gc->parent->delegate)
		psi_undelegate(gc->parent);
	lc->attrs = new;
	gc->stall = psi_stall_showing(gc->stall, new);
	/* Before: psi_walk_slow() is to see the states that begin. */
	if (new)
		WRITE_ONCE(gc->slow, PSI_ALL_STATES);
	return psi_stall_counts[new] - psi_stall_counts[old];
}

/*
 * Memory for limits
 */

static void psi_limits_work(struct work_struct *work);
static DECLARE_WORK(psi_limits_worker, psi_limits_work);
static LLIST_HEAD(psi_limits_inbox);

static void psi_limits_kick(struct irq_work *work)
{
	queue_work(system_unbound_wq, &psi_limits_worker);
}

static struct irq_work psi_limits_kicker = IRQ_WORK_INIT_HARD(psi_limits_kick);

/* A limit holds a task of a group that has no memory for it. Under a runqueue lock. */
static void psi_limits_want(struct psi_group *group)
{
	if (atomic_xchg(&group->limits_wanted, 1))
		return;
	refcount_inc(&group->refs);
	llist_add(&group->limits_inbox, &psi_limits_inbox);
	psi_kick_by(&psi_limits_kicker);
}

/* Whether a group is ready for limits; if not, have it made so. Under a runqueue lock. */
static bool psi_limits_ready(struct psi_group *group)
{
	/* Pairs with psi_limits_set(). */
	if (smp_load_acquire(&group->limits))
		return true;
	psi_limits_want(group);
	return false;
}

void psi_limits_free(struct psi_limits *limits)
{
	int cpu;

	if (!limits)
		return;
	if (limits->cpus) {
		for_each_possible_cpu(cpu)
			psi_memory_free(limits->cpus[cpu]);
	}
	kvfree(limits->cpus);
	kvfree(rcu_access_pointer(limits->seen));
	kfree(limits);
}

/* Allocate what is about limits on the CPUs that the group was ever in use on. */
static bool psi_limits_fill(const struct psi_group *group, struct psi_limits *limits)
{
	union psi_memory *memory;
	int cpu;

	for_each_possible_cpu(cpu) {
		if (limits->cpus[cpu] || !READ_ONCE(group->cpus[cpu]))
			continue;
		memory = psi_memory_alloc(cpu);
		if (!memory)
			return false;
		limits->cpus[cpu] = &memory->limit_cpu;
		cond_resched();
	}
	return true;
}

/* Give the group what it needs on @nr_cpus CPUs, unless it has come to be in use on more. */
static bool psi_limits_set(struct psi_group *group, struct psi_limits *limits,
			   unsigned int nr_cpus)
{
	bool set;
	int s;

	raw_spin_lock_irq(&group->lock);
	set = group->nr_cpus == nr_cpus;
	if (set) {
		/* Up to now, readers of shortages were shown these. */
		for (s = 0; s < PSI_NR_STATES; s++)
			atomic64_set(&limits->shortage.shown[s],
				     atomic64_read(&group->plain.shown[s]));
		/* Pairs with psi_limits_ready(), psi_group_limits() and others. */
		smp_store_release(&group->limits, limits);
	}
	raw_spin_unlock_irq(&group->lock);
	return set;
}

/**
 * psi_limits_alloc - allocate the part of a group that is about limits
 * @group: a group; those above that are on have that part
 *
 * Context: Process context, may sleep. cgroup_mutex held.
 * Return: false without memory.
 */
bool psi_limits_alloc(struct psi_group *group)
{
	struct psi_limits *limits;
	unsigned int nr_cpus;

	if (group->limits)
		return true;
	limits = kzalloc(sizeof(*limits), GFP_KERNEL);
	if (!limits)
		return false;
	limits->cpus = kvcalloc(nr_cpu_ids, sizeof(*limits->cpus), GFP_KERNEL);
	if (!limits->cpus)
		goto fail;
	static_branch_enable(&psi_limits_used);
	do {
		/* Pairs with psi_group_install(): these CPUs are found below. */
		nr_cpus = smp_load_acquire(&group->nr_cpus);
		if (!psi_limits_fill(group, limits))
			goto fail;
	} while (!psi_limits_set(group, limits, nr_cpus));
	return true;

fail:
	psi_limits_free(limits);
	return false;
}

/* The highest group from @group up that has none, with a reference; NULL if all have. */
static struct psi_group *psi_limits_missing(struct psi_group *group)
{
	struct psi_group *missing = NULL;

	rcu_read_lock();
	for (; group; group = READ_ONCE(group->parent)) {
		if (!group->limits)
			missing = group;
	}
	/* A parent is freed after its last child and a grace period: not now. */
	if (missing && !refcount_inc_not_zero(&missing->refs))
		missing = NULL;
	rcu_read_unlock();
	return missing;
}

static void psi_limits_give(struct psi_group *group)
{
	struct psi_group *missing;
	bool given = true;

	while (given && (missing = psi_limits_missing(group))) {
		given = psi_limits_alloc(missing);
		psi_group_put(missing);
	}
}

/* Whether a limit holds a task of fair_sched_class or of dl_sched_class while it is queued. */
static bool psi_task_throttled(struct task_struct *p)
{
#ifdef CONFIG_CFS_BANDWIDTH
	if (p->sched_class == &fair_sched_class && p->se.on_rq)
		return cfs_rq_of(&p->se)->throttle_count;
#endif
	return p->sched_class == &dl_sched_class && p->dl.dl_throttled;
}

/* See psi_throttle_again(). */
void __psi_throttle_again(struct rq *rq, struct task_struct *p)
{
	__psi_throttle(rq, p, psi_task_throttled(p));
}

/**
 * psi_limits_show - have a task count as held by limits from its next event on
 * @t: the task
 * @limits: which limits, bits of enum psi_limit for memory and io: it stalls because of these
 *
 * If its group is not ready, psi_limits_apply() will do that.
 *
 * Context: The lock of the task's runqueue is held.
 */
void psi_limits_show(struct psi_task *t, unsigned int limits)
{
	if (!limits || !t->group || !psi_limits_ready(t->group))
		return;
	if (limits & BIT(PSI_LIMIT_MEM) && !(t->mode & PSI_STALL_HELD)) {
		t->mode |= PSI_STALL_HELD;
		atomic_xor(PSI_MEMSTALL | PSI_LIMIT_MEMSTALL, &t->asleep);
	}
	if (limits & BIT(PSI_LIMIT_IO) && !(atomic_read(&t->asleep) & PSI_LIMIT_IOWAIT))
		atomic_xor(PSI_IOWAIT | PSI_LIMIT_IOWAIT, &t->asleep);
}

/* Where a task is that is counted as @attrs. */
static enum psi_where psi_where_of(unsigned int attrs)
{
	if (attrs & PSI_ONCPU)
		return PSI_RUNS;
	return attrs & (PSI_WAITING | PSI_LIMIT_WAITING) ? PSI_QUEUED : PSI_ASLEEP;
}

/**
 * psi_limits_apply - count a task as held by the limits that hold it
 * @rq: the runqueue of the task, locked, its clock up to date
 * @p: the task, in a group that was not ready for limits when it began to stall, or is not yet
 *
 * Context: The pi_lock of the task is held, too.
 */
void psi_limits_apply(struct rq *rq, struct task_struct *p)
{
	struct psi_task *t = &p->psi;
	unsigned int limits = READ_ONCE(t->limits) & BIT(PSI_LIMIT_MEM);

	/* While it is awake, the task itself changes what it will show of io. */
	if (t->attrs & PSI_IOWAIT)
		limits |= READ_ONCE(t->limits) & BIT(PSI_LIMIT_IO);
	__psi_throttle_again(rq, p);
	psi_limits_show(t, limits);
	/* If it is counted as nothing, it may be on its way to another CPU. */
	if (t->attrs)
		psi_task_set(rq, p, psi_task_attrs(p, psi_where_of(t->attrs)));
}

static void psi_limits_look_at(struct task_struct *p)
{
	struct rq_flags rf;
	struct rq *rq;

	rq = task_rq_lock(p, &rf);
	update_rq_clock(rq);
	psi_limits_apply(rq, p);
	task_rq_unlock(rq, p, &rf);
}

/* Look at the tasks of a group that limits may hold already. */
static void psi_limits_look(struct psi_group *group)
{
	struct task_struct *g, *p;

	rcu_read_lock();
	for_each_process_thread(g, p) {
		/* A task that joins the group now is looked at there. */
		if (data_race(p->psi.group) == group)
			psi_limits_look_at(p);
	}
	rcu_read_unlock();
}

#ifdef CONFIG_CGROUPS
/* Which groups are above another does not change meanwhile. */
static void psi_limits_lock(void)
{
	cgroup_lock();
}

static void psi_limits_unlock(void)
{
	cgroup_unlock();
}
#else
static void psi_limits_lock(void) { }
static void psi_limits_unlock(void) { }
#endif

static void psi_limits_work(struct work_struct *work)
{
	struct llist_node *list = llist_del_all(&psi_limits_inbox);
	struct psi_group *group, *next;

	llist_for_each_entry_safe(group, next, list, limits_inbox) {
		psi_limits_lock();
		psi_limits_give(group);
		psi_limits_unlock();
		/* A task that joins finds limits, or is found here. Pairs with psi_regroup(). */
		smp_mb();
		if (group->limits)
			psi_limits_look(group);
		/* If there was no memory, the next task that is held asks again. */
		atomic_set(&group->limits_wanted, 0);
		psi_group_put(group);
	}
}

/*
 * Hooks
 */

/* See psi_throttle(). */
void __psi_throttle(struct rq *rq, struct task_struct *p, bool on)
{
	struct psi_group *group = p->psi.group;

	lockdep_assert_rq_held(rq);
	if (!group)
		return;
	on = on && psi_limits_ready(group);
	p->psi.mode &= ~PSI_HELD;
	p->psi.mode |= on * PSI_HELD;
	if (p->psi.attrs & (PSI_WAITING | PSI_LIMIT_WAITING))
		psi_task_set(rq, p, psi_task_attrs(p, PSI_QUEUED));
}

/* See psi_io_wait(). */
void __psi_io_wait(void)
{
	struct rq_flags rf;
	struct rq *rq;

	rq = task_rq_lock(current, &rf);
	current->psi.limits |= BIT(PSI_LIMIT_IO);
	psi_limits_show(&current->psi, BIT(PSI_LIMIT_IO));
	task_rq_unlock(rq, current, &rf);
}

/* See psi_io_done(). */
void __psi_io_done(void)
{
	struct rq_flags rf;
	struct rq *rq;

	rq = task_rq_lock(current, &rf);
	current->psi.limits &= ~BIT(PSI_LIMIT_IO);
	if (atomic_read(&current->psi.asleep) & PSI_LIMIT_IOWAIT)
		atomic_xor(PSI_IOWAIT | PSI_LIMIT_IOWAIT, &current->psi.asleep);
	task_rq_unlock(rq, current, &rf);
}

bool __psi_io_budget_wait(void)
{
	if (current->psi.limits & PSI_IO_BUDGET)
		return false;
	current->psi.limits |= PSI_IO_BUDGET;
	return true;
}

void __psi_io_budget_done(void)
{
	current->psi.limits &= ~PSI_IO_BUDGET;
}

/*
 * Reading
 */

/**
 * struct psi_limit_times - how long limits held tasks of a group on a CPU
 * @limit: per state, ns
 * @only: per state, while there was no shortage besides, ns
 */
struct psi_limit_times {
	u64			limit[PSI_NR_STATES];
	u64			only[PSI_NR_STATES];
};

/* These times at @now. A group with limits that hold tasks does not delegate: they are its own. */
static void psi_limit_times(struct psi_group_cpu *gc, int cpu, u64 now, struct psi_limit_times *t)
{
	/* Pairs with psi_limits_set(). */
	struct psi_limits *limits = smp_load_acquire(&gc->group->limits);
	struct psi_limit_cpu *lc;
	unsigned int s;

	memset(t, 0, sizeof(*t));
	if (!limits)
		return;
	lc = limits->cpus[cpu];
	for (s = PSI_NONIDLE + 1; s < PSI_NR_STATES; s++) {
		u64 limit = lc->limit_times[PSI_HELD_AT(s)], only = lc->only_times[PSI_HELD_AT(s)];

		t->limit[s] = lc->limit & BIT(s) ? now - limit : limit;
		t->only[s] = lc->only & BIT(s) ? now - only : only;
	}
}
