// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the walk
 *
 *   Applies an event to cells: see "The walk" and "Delegation" in psi.c. How a
 *   group gets a cell: psi_group.c; how it is listed: psi_fold.c.
 */

/* Install a cell, zeroed memory. */
static void psi_group_install(struct psi_group *group, int cpu, struct psi_group_cpu *gc)
{
	gc->group = group;
	gc->slow = PSI_ALL_STATES;
	gc->streak = PSI_STREAK;
	/* Memory first: some readers skip the bit that psi_fold_join() sets. */
	smp_store_release(&group->cpus[cpu], gc);
}

/* Take a cell from the reserve; false if that is empty. */
static bool psi_group_begin(struct psi_group *group, int cpu)
{
	struct psi_reserve *reserve = per_cpu_ptr(&psi_reserves, cpu);
	struct psi_group_cpu *gc = reserve->free;

	if (gc) {
		reserve->free = gc->up;
		gc->up = NULL;
		WRITE_ONCE(reserve->nr, reserve->nr - 1);
		psi_group_install(group, cpu, gc);
		/* Pairs with psi_cgroup_charge(), which sees cell or ->owes. */
		smp_mb();
		WRITE_ONCE(group->owes, true);
	}
	if (reserve->nr <= PSI_RESERVE / 2) {
		WRITE_ONCE(reserve->wanted, true);
		psi_kick_by(&psi_reserve_kicker);
	}
	return gc;
}

/* The group from @group up that counts on @cpu now. @child: NULL for a task. */
static struct psi_group *psi_group_extend(struct psi_group *group, int cpu,
					  struct psi_group *child)
{
	struct psi_group *to = group, *stray = child ?: group;

	while (!to->cpus[cpu] && !psi_group_begin(to, cpu))
		to = READ_ONCE(to->parent) ?: &psi_system;
	if (unlikely(to != group) && !atomic_xchg(&stray->stray, 1)) {
		refcount_inc(&stray->refs);
		llist_add(&stray->strays, &psi_strays);
	}
	return to;
}

/* Have the fold visit a cell; its states begin afterwards. */
static void psi_fold_join(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_group *group = gc->group, *parent;

	/* Pairs with psi_next_cpu(): the memory is there before the bit. */
	smp_wmb();
	cpumask_set_cpu(cpu, group->cpumask);
	/*
	 * Pairs with psi_leaves(), psi_watch_cells(), psi_asked_begin() and
	 * psi_asked_visit().
	 */
	smp_mb__after_atomic();
	parent = READ_ONCE(group->parent);
	if (parent) {
		gc->parent = psi_group_extend(parent, cpu, group)->cpus[cpu];
		gc->up = gc->parent;
	}
	if (unlikely(gc->asked || rcu_access_pointer(group->asked)))
		psi_asked_listed(gc, cpu, now);
	if (atomic_read(&group->listed) || atomic_xchg(&group->listed, 1))
		return;
	refcount_inc(&group->refs);
	atomic64_set(&group->joined, psi_with_sleep(now));
	llist_add(&group->inbox, &psi_folder.inbox);
	psi_kick(&psi_folder);
}

/* A state of gc->slow began: one alarm. psi_watch_cells() asks for another. */
static noinline void psi_take_watched(struct psi_group_cpu *gc, u64 now)
{
	unsigned int asked = gc->slow, watched, begun;

	do {
		watched = psi_watched(gc->group);
		begun = gc->states & asked & watched;
		WRITE_ONCE(gc->slow, asked & watched & ~begun);
		/*
		 * psi_watch_cells() comes after ->watched was written, and
		 * looks at ->slow. Here it is the other way round.
		 */
		smp_mb();
	} while (psi_watched(gc->group) != watched);
	if (begun)
		psi_raise_alarms(gc->group, begun, psi_with_sleep(now));
}

/* A state begins or ends at @t, see "Time" in psi.c. */
static __always_inline void psi_flip(struct psi_group_cpu *gc, unsigned int s, u64 t)
{
	gc->times[s] = t - gc->times[s];
}

/*
 * End and begin states. The frequent cases need no loop: a task waits beside
 * one that runs; one that is alone in its group wakes up, runs, sleeps.
 */
static __always_inline void psi_flip_states(struct psi_group_cpu *gc, u8 states,
					    struct rq *rq, u64 now)
{
	u8 flips = gc->states ^ states;
	unsigned long s;

	gc->states = states;
	if (likely(flips == BIT(PSI_CPU_SOME))) {
		psi_flip(gc, PSI_CPU_SOME, now);
		return;
	}
	switch (flips) {
	case BIT(PSI_NONIDLE) | BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL):
		psi_flip(gc, PSI_NONIDLE, now);
		psi_flip(gc, PSI_CPU_SOME, now);
		psi_flip(gc, PSI_CPU_FULL, now);
		return;
	case BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL) | BIT(PSI_IRQ_FULL):
		psi_flip(gc, PSI_CPU_SOME, now);
		psi_flip(gc, PSI_CPU_FULL, now);
		psi_flip(gc, PSI_IRQ_FULL, irq_time_read(cpu_of(rq)));
		return;
	case BIT(PSI_NONIDLE) | BIT(PSI_IRQ_FULL):
		psi_flip(gc, PSI_NONIDLE, now);
		psi_flip(gc, PSI_IRQ_FULL, irq_time_read(cpu_of(rq)));
		return;
	}
	psi_for_each_state(s, flips)
		psi_flip(gc, s, s == PSI_IRQ_FULL ? irq_time_read(cpu_of(rq)) : now);
}

static void psi_enter_states(struct psi_group_cpu *gc, struct rq *rq, u64 now)
{
	u8 before = gc->states;

	/* First: a cell that is asked begins with no state. */
	if (unlikely(psi_states[gc->attrs] & gc->slow) && !psi_listed(gc, cpu_of(rq)))
		psi_fold_join(gc, cpu_of(rq), now);
	psi_flip_states(gc, psi_states[gc->attrs], rq, now);
	if (unlikely(gc->states & gc->slow))
		psi_take_watched(gc, now);
	if (unlikely(gc->asked))
		psi_asked_event(gc, before, cpu_of(rq), now);
}

/* Note whence a change comes; return whether @from may stand for the cell. */
static bool psi_step_from(struct psi_group_cpu *gc, struct psi_group_cpu *from)
{
	bool streak = gc->last == from && from;

	if (unlikely(gc->streak == PSI_DELEGATES)) {
		psi_undelegate(gc);
		streak = false;
	}
	if (streak && gc->streak == 1)
		return true;
	gc->last = from;
	gc->streak = streak ? gc->streak - 1 : PSI_STREAK;
	return false;
}

/*
 * KCSAN takes accesses in a write section of psi_seq for atomic. Have it check
 * that the runqueue lock protects these, which no reader looks at.
 */
static __always_inline void psi_assert_locked(const struct psi_group_cpu *gc)
{
	ASSERT_EXCLUSIVE_ACCESS(gc->sched);
	ASSERT_EXCLUSIVE_ACCESS(gc->stall);
	ASSERT_EXCLUSIVE_ACCESS(gc->limit);
	ASSERT_EXCLUSIVE_ACCESS(gc->attrs);
	ASSERT_EXCLUSIVE_ACCESS(gc->up);
	ASSERT_EXCLUSIVE_ACCESS(gc->parent);
}

/* A change on its way up to @gc, from @from: a cell, or NULL for a task. */
struct psi_climb {
	struct psi_group_cpu	*gc;
	struct psi_group_cpu	*from;
	struct psi_counts	change;
};

/* Apply a change to one cell; it becomes the change for the next. */
static void psi_step(struct psi_climb *c, struct rq *rq, u64 now)
{
	struct psi_group_cpu *gc = c->gc;
	struct psi_counts change = c->change;
	unsigned int old, new;
	bool settled;

	psi_assert_locked(gc);
	settled = psi_step_from(gc, c->from);
	/*
	 * Before the change, which the delegators must count too. A cell that
	 * delegated itself knows only now what is asked above.
	 */
	if (unlikely(change.limit && gc->asked))
		psi_asked_undelegate(gc);
	old = gc->attrs;
	gc->sched += change.sched;
	new = psi_sched_attrs_of(gc->sched);
	if (change.stall | change.limit) {
		gc->stall += change.stall;
		gc->limit += change.limit;
		new |= psi_stall_attrs_of(gc->stall) | psi_limit_attrs_of(gc->limit);
	} else {
		new |= old & ~PSI_SCHED_ATTRS;
	}
	c->change = psi_counts_diff(old, new);
	if (new != old) {
		gc->attrs = new;
		psi_enter_states(gc, rq, now);
	}
	if (settled)
		psi_delegate(gc, cpu_of(rq));
	c->from = gc;
	c->gc = gc->up;
	if (!gc->up)
		c->change = (struct psi_counts){ };
}

/* The walk of two. Neither passes the shared cell: levels grow downwards. */
static noinline void psi_walk_general(struct psi_climb a, struct psi_climb b,
				      struct rq *rq, u64 now)
{
	while (!psi_counts_zero(a.change) && !psi_counts_zero(b.change) && a.gc != b.gc)
		psi_step(a.gc->group->level >= b.gc->group->level ? &a : &b, rq, now);
	if (psi_counts_zero(a.change))
		a = b;
	else
		a.change = psi_counts_add(a.change, b.change);
	while (!psi_counts_zero(a.change))
		psi_step(&a, rq, now);
	raw_write_seqcount_end(&rq->psi_seq);
}

/*
 * The light walk
 *   Nearly all events are about scheduling, and most steps need only counts and
 *   times. A walk of such steps calls nothing, so it saves hardly a register:
 *   that is a third of its instructions. A step that needs more does nothing,
 *   and psi_walk_rest() goes on: it calls psi_asked_event() for cells that are
 *   asked, and leaves others to the general walk.
 */

/*
 * Apply @sched to a cell; it becomes the change for the next. False: not done.
 * @from: the child that changed, NULL for a task. @asked: the caller calls
 * psi_asked_event().
 */
static __always_inline bool psi_step_light(struct psi_group_cpu *gc, struct psi_group_cpu *from,
					   bool task, u64 *sched, struct rq *rq, u64 now,
					   bool asked)
{
	unsigned long old = gc->attrs, new;
	u8 states;

	psi_assert_locked(gc);
	/* It delegates, or is about to. */
	if (unlikely(task ? !!gc->last : gc->streak <= 1))
		return false;
	new = psi_sched_attrs_of(gc->sched + *sched) | (old & ~PSI_SCHED_ATTRS);
	states = psi_states[new];
	if (unlikely(states & gc->slow))
		return false;
	/* psi_asked_event() has something to do. */
	if (!asked && unlikely(gc->asked) && (!old || !new || old & PSI_LIMIT_ATTRS))
		return false;
	if (!task && gc->last == from) {
		gc->streak--;
	} else if (!task) {
		gc->last = from;
		gc->streak = PSI_STREAK;
	}
	gc->sched += *sched;
	if (new == old) {
		*sched = 0;
		return true;
	}
	gc->attrs = new;
	*sched = psi_sched_counts[new] - psi_sched_counts[old];
	psi_flip_states(gc, states, rq, now);
	return true;
}

static noinline void psi_walk_rest(struct psi_group_cpu *gc, struct psi_group_cpu *from,
				   u64 sched, struct rq *rq, u64 now)
{
	for (; sched && gc; from = gc, gc = gc->up) {
		u8 before = gc->states;

		if (!psi_step_light(gc, from, !from, &sched, rq, now, true))
			return psi_walk_general((struct psi_climb){ gc, from, { sched } },
						(struct psi_climb){ }, rq, now);
		if (gc->asked)
			psi_asked_event(gc, before, cpu_of(rq), now);
	}
	raw_write_seqcount_end(&rq->psi_seq);
}

/* The light walk from the third cell on. */
static noinline void psi_walk_on(struct psi_group_cpu *gc, struct psi_group_cpu *from, u64 sched,
				 struct rq *rq, u64 now)
{
	for (; sched && gc; from = gc, gc = gc->up) {
		if (unlikely(!psi_step_light(gc, from, false, &sched, rq, now, false)))
			return psi_walk_rest(gc, from, sched, rq, now);
	}
	raw_write_seqcount_end(&rq->psi_seq);
}

/* The light walk from a child on; mostly it ends here, without a loop. */
static __always_inline void psi_walk_up(struct psi_group_cpu *gc, struct psi_group_cpu *from,
					u64 sched, struct rq *rq, u64 now)
{
	if (sched && gc) {
		if (unlikely(!psi_step_light(gc, from, false, &sched, rq, now, false)))
			return psi_walk_rest(gc, from, sched, rq, now);
		if (sched && gc->up)
			return psi_walk_on(gc->up, gc, sched, rq, now);
	}
	raw_write_seqcount_end(&rq->psi_seq);
}

static noinline void psi_walk_sched(struct psi_group_cpu *gc, u64 sched, struct rq *rq, u64 now)
{
	raw_write_seqcount_begin(&rq->psi_seq);
	if (unlikely(!psi_step_light(gc, NULL, true, &sched, rq, now, false)))
		return psi_walk_rest(gc, NULL, sched, rq, now);
	psi_walk_up(gc->up, gc, sched, rq, now);
}

/* Cells below the first shared one mostly delegate: both reach it in a step. */
static noinline void psi_walk_two_sched(struct psi_group_cpu *a, u64 sched_a,
					struct psi_group_cpu *b, u64 sched_b,
					struct rq *rq, u64 now)
{
	struct psi_group_cpu *up = a->up, *from_a = NULL;

	raw_write_seqcount_begin(&rq->psi_seq);
	if (unlikely(!up || b->up != up))
		goto general;
	if (unlikely(!psi_step_light(a, NULL, true, &sched_a, rq, now, false)))
		goto general;
	from_a = a;
	a = up;
	if (unlikely(!psi_step_light(b, NULL, true, &sched_b, rq, now, false)))
		goto general;
	psi_walk_up(up, sched_a ? from_a : b, sched_a + sched_b, rq, now);
	return;

general:
	psi_walk_general((struct psi_climb){ a, from_a, { sched_a } },
			 (struct psi_climb){ b, NULL, { sched_b } }, rq, now);
}

/* Apply any change of one or two contributors; @b: NULL for none. */
static void psi_walk(struct psi_group_cpu *a, struct psi_counts change_a,
		     struct psi_group_cpu *b, struct psi_counts change_b,
		     struct rq *rq, u64 now)
{
	raw_write_seqcount_begin(&rq->psi_seq);
	psi_walk_general((struct psi_climb){ a, NULL, change_a },
			 (struct psi_climb){ b, NULL, change_b }, rq, now);
}
