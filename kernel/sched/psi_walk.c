// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the walk
 *
 *   Applies what an event changes to the cells on one CPU. The theory is at the
 *   top of psi.c: "Contributors", "States", "The walk", "Delegation", "Time".
 *
 * Counts
 *
 *   A cell counts its contributors by attribute, packed in three words:
 *
 *	bits		63		62		61 .. 31	30 .. 0
 *	sched		oncpu_stall	oncpu		productive	waiting
 *	stall		-		-		memstall	iowait
 *
 *	bits		63 .. 43	42 .. 22	21 .. 0
 *	limit		limit_memstall	limit_iowait	limit_waiting
 *
 *   Each contributor that shows an attribute has a task below that shows it. So
 *   no count is larger than the number of tasks, which pid_max keeps below
 *   2^22. A CPU executes one task, so one bit will do for oncpu. (2^21 tasks
 *   that a limit keeps asleep, counted on one CPU, would carry into the next
 *   lane. Sums are linear: that ends when they wake up.)
 *
 *   A lane may borrow from the next within a difference; it cannot in a sum of
 *   all, as that is the sum of all contributors.
 */
#define PSI_LANE		31
#define PSI_LANE_MAX		((1ULL << (PSI_LANE - 1)) - 1)
#define PSI_LANES_MAX		(PSI_LANE_MAX | PSI_LANE_MAX << PSI_LANE)
/* Where the lanes of psi_counts.limit begin; the first one is at 0. */
#define PSI_LANE_LIMIT_IO	22
#define PSI_LANE_LIMIT_MEM	43

static_assert(PID_MAX_LIMIT <= 1 << 22);

/* What a contributor adds to psi_counts.sched, for every set of attributes. */
static u64 psi_sched_counts[PSI_NR_ATTR_SETS] ____cacheline_aligned __ro_after_init;

static __init u64 psi_sched_counts_of(u64 attrs)
{
	return (attrs & PSI_WAITING) |
	       (attrs & PSI_PRODUCTIVE) << (PSI_LANE - 1) |
	       (attrs & (PSI_ONCPU | PSI_ONCPU_STALL)) << (2 * PSI_LANE - 2);
}

/* What it adds to psi_counts.stall. */
static __always_inline u64 psi_stall_counts_of(u64 attrs)
{
	return (attrs & PSI_IOWAIT) >> 4 | (attrs & PSI_MEMSTALL) << (PSI_LANE - 5);
}

/* What it adds to psi_counts.limit. */
static __always_inline u64 psi_limit_counts_of(u64 attrs)
{
	return (attrs & PSI_LIMIT_WAITING) >> 6 |
	       (attrs & PSI_LIMIT_IOWAIT) << (PSI_LANE_LIMIT_IO - 7) |
	       (attrs & PSI_LIMIT_MEMSTALL) << (PSI_LANE_LIMIT_MEM - 8);
}

static __always_inline struct psi_counts psi_counts_of(unsigned int attrs)
{
	return (struct psi_counts){ psi_sched_counts[attrs],
				    psi_stall_counts_of(attrs), psi_limit_counts_of(attrs) };
}

/*
 * The attributes with a count above zero. A count carries into the bit above it
 * when PSI_LANE_MAX is added, unless it is zero.
 */
static __always_inline unsigned long psi_sched_attrs_of(u64 sched)
{
	u64 carry = sched + PSI_LANES_MAX;

	return (carry >> (PSI_LANE - 1) & 1) + 2 * (carry >> (2 * PSI_LANE - 1));
}

static __always_inline unsigned int psi_stall_attrs_of(u64 stall)
{
	return psi_sched_attrs_of(stall) << 4 & PSI_STALL_ATTRS;
}

static __always_inline unsigned int psi_limit_attrs_of(u64 limit)
{
	if (likely(!limit))
		return 0;
	return (limit << 42 ? PSI_LIMIT_WAITING : 0) |
	       (limit >> PSI_LANE_LIMIT_IO << 43 ? PSI_LIMIT_IOWAIT : 0) |
	       (limit >> PSI_LANE_LIMIT_MEM ? PSI_LIMIT_MEMSTALL : 0);
}

static __always_inline struct psi_counts psi_counts_add(struct psi_counts a, struct psi_counts b)
{
	return (struct psi_counts){ a.sched + b.sched, a.stall + b.stall, a.limit + b.limit };
}

/* The change of a contributor that showed @old and now shows @new. */
static __always_inline struct psi_counts psi_counts_diff(unsigned int old, unsigned int new)
{
	struct psi_counts diff = {
		psi_sched_counts[new] - psi_sched_counts[old]
	};

	/* Most of what happens is scheduling. */
	if (unlikely((old ^ new) & ~PSI_SCHED_ATTRS)) {
		diff.stall = psi_stall_counts_of(new) - psi_stall_counts_of(old);
		diff.limit = psi_limit_counts_of(new) - psi_limit_counts_of(old);
	}
	return diff;
}

static __always_inline bool psi_counts_zero(struct psi_counts c)
{
	return !(c.sched | c.stall | c.limit);
}

/* What holds for a cell that shows @attrs, see "States" in psi.c. */
static unsigned int psi_states_of(unsigned int attrs)
{
	bool waiting = attrs & (PSI_WAITING | PSI_LIMIT_WAITING), oncpu = attrs & PSI_ONCPU;
	bool iowait = attrs & (PSI_IOWAIT | PSI_LIMIT_IOWAIT);
	bool memstall = attrs & (PSI_MEMSTALL | PSI_LIMIT_MEMSTALL);
	bool productive = attrs & PSI_PRODUCTIVE, oncpu_stall = attrs & PSI_ONCPU_STALL;
	bool irqtime = IS_ENABLED(CONFIG_IRQ_TIME_ACCOUNTING);
	bool running = waiting || oncpu;

	return (iowait || memstall || running) << PSI_NONIDLE |
	       waiting << PSI_CPU_SOME |
	       (waiting && !oncpu) << PSI_CPU_FULL |
	       (oncpu && irqtime) << PSI_IRQ_FULL |
	       iowait << PSI_IO_SOME |
	       (iowait && !running) << PSI_IO_FULL |
	       memstall << PSI_MEM_SOME |
	       (memstall && (!productive || oncpu_stall)) << PSI_MEM_FULL;
}

/* The states for every set of attributes: the walk looks them up. */
static u8 psi_states[PSI_NR_ATTR_SETS] ____cacheline_aligned __ro_after_init;

/* Whether the next fold visits a cell. */
static bool psi_listed(struct psi_group_cpu *gc, int cpu)
{
	return cpumask_test_cpu(cpu, gc->group->cpumask);
}

/*
 * Delegation
 */

/* A child stands for a cell when that many changes in a row came from it. */
#define PSI_STREAK		64
/* No more than that many cells delegate in a chain. */
#define PSI_CHAIN		32

/*
 * The child that stands for a cell, NULL for none. A reader may be late, and
 * find in ->last a child that came after the end of the delegation: a group is
 * freed a grace period after it was there.
 */
static __always_inline struct psi_group_cpu *psi_delegate_of(const struct psi_group_cpu *gc)
{
	/* Pairs with psi_delegate(). */
	if (smp_load_acquire(&gc->streak) != PSI_DELEGATES)
		return NULL;
	return READ_ONCE(gc->last);
}

/* The cell that delegates to this one, NULL for none. */
static struct psi_group_cpu *psi_delegator(const struct psi_group_cpu *gc)
{
	return gc->parent && psi_delegate_of(gc->parent) == gc ? gc->parent : NULL;
}

/* The last cell of a chain: the one that stands for all others. */
static struct psi_group_cpu *psi_chain_end(struct psi_group_cpu *gc)
{
	struct psi_group_cpu *d;

	while ((d = psi_delegate_of(gc)))
		gc = d;
	return gc;
}

/* How many cells delegate in the chain that a cell is part of. */
static unsigned int psi_chain(const struct psi_group_cpu *gc)
{
	const struct psi_group_cpu *p;
	unsigned int nr = 0;

	for (p = psi_delegate_of(gc); p; p = psi_delegate_of(p))
		nr++;
	for (p = psi_delegator(gc); p; p = psi_delegator(p))
		nr++;
	return nr;
}

/*
 * Add to @more what a cell, and those it delegates to, have more in @states;
 * return the last of them.
 */
static struct psi_group_cpu *psi_add_delegated(struct psi_group_cpu *gc, unsigned int states,
					       u64 *more)
{
	struct psi_group_cpu *d;
	int s;

	while ((d = psi_delegate_of(gc))) {
		psi_for_each_state(s, states)
			more[s] += gc->times[s];
		gc = d;
	}
	return gc;
}

/**
 * psi_undelegate - have a cell stand for itself again
 * @gc: the cell; nothing is done unless it delegates
 *
 * Context: The runqueue lock of the CPU is held, inside a write section of
 *	    psi_seq.
 */
static noinline void psi_undelegate(struct psi_group_cpu *gc)
{
	u64 more[PSI_NR_STATES] = { };
	struct psi_group_cpu *d = psi_add_delegated(gc, PSI_ALL_STATES, more);
	struct psi_counts counts = psi_counts_of(d->attrs);
	unsigned int s;

	if (d == gc)
		return;
	for (s = 0; s < PSI_NR_STATES; s++)
		gc->times[s] = d->times[s] + (d->states & BIT(s) ? -more[s] : more[s]);
	WRITE_ONCE(gc->streak, PSI_STREAK);
	gc->last = NULL;
	gc->attrs = d->attrs;
	gc->states = d->states;
	gc->sched = counts.sched;
	gc->stall = counts.stall;
	gc->limit = counts.limit;
	gc->up = d->up;
	d->up = gc;
	if (unlikely(d->asked | gc->asked)) {
		psi_asked_above(d);
		psi_asked_above(gc);
	}
}

/* The parent does not delegate to this cell any more, if it did. */
static void psi_undelegate_parent(struct psi_group_cpu *gc)
{
	if (psi_delegator(gc))
		psi_undelegate(gc->parent);
}

/* Whether @child, which @d stands for, may stand for a cell. */
static bool psi_may_delegate(struct psi_group_cpu *gc, struct psi_group_cpu *child,
			     struct psi_group_cpu *d, int cpu)
{
	struct psi_counts counts = psi_counts_of(d->attrs);

	/* A watched group wants to know when its states begin. */
	if (!psi_listed(gc, cpu) || psi_watched(gc->group))
		return false;
	/* So does a group that is asked, while it shows a limit. */
	if (gc->asked & PSI_ASKED && gc->attrs & PSI_LIMIT_ATTRS)
		return false;
	return gc->sched == counts.sched && gc->stall == counts.stall &&
	       gc->limit == counts.limit && psi_chain(gc) + 1 + psi_chain(child) <= PSI_CHAIN;
}

/*
 * The last PSI_STREAK changes came from one child: have it stand for the cell.
 */
static noinline void psi_delegate(struct psi_group_cpu *gc, int cpu)
{
	u64 more[PSI_NR_STATES] = { };
	struct psi_group_cpu *child = gc->last, *d;
	unsigned int s;

	gc->streak = PSI_STREAK;
	while (child->parent != gc)
		child = child->parent;
	d = psi_add_delegated(child, PSI_ALL_STATES, more);
	if (!psi_may_delegate(gc, child, d, cpu))
		return;

	for (s = 0; s < PSI_NR_STATES; s++) {
		u64 diff = gc->times[s] - d->times[s];

		gc->times[s] = (gc->states & BIT(s) ? -diff : diff) - more[s];
	}
	WRITE_ONCE(gc->last, child);
	/* A reader follows ->last before it knows that it has to retry. */
	smp_store_release(&gc->streak, PSI_DELEGATES);
	d->up = gc->up;
	if (unlikely(gc->asked))
		d->asked |= PSI_ASKED_ABOVE;
	/*
	 * As in psi_take_watched(): psi_watch() undelegates, unless it came too
	 * early.
	 */
	smp_mb();
	if (psi_watched(gc->group))
		psi_undelegate(gc);
}

/*
 * Clocks
 *
 *   States of a CPU go by rq_clock(). It may stand still while the machine is
 *   suspended, and nothing stalls then. To windows and averages that time is a
 *   pause like any other: psi_read_clock() goes on.
 *
 *   Unit tests have clocks of their own.
 */

/* How long rq_clock() stood still for that, in ns. */
static atomic64_t psi_slept;

/* The time on psi_read_clock() when rq_clock() says @now. */
static u64 psi_with_sleep(u64 now)
{
	return now + atomic64_read(&psi_slept);
}

static u64 psi_read_clock(void)
{
	KUNIT_STATIC_STUB_REDIRECT(psi_read_clock);
	return psi_with_sleep(local_clock());
}

static u64 psi_read_cpu_clock(int cpu)
{
	KUNIT_STATIC_STUB_REDIRECT(psi_read_cpu_clock, cpu);
	return sched_clock_cpu(cpu);
}

/*
 * One step
 */

/*
 * A state of gc->slow holds after a change: wake the samplers that wait for it.
 * Each state is reported once. The sampler that takes the report asks for the
 * next one by psi_watch().
 */
static noinline void psi_take_watched(struct psi_group_cpu *gc, u64 now)
{
	unsigned int asked = gc->slow, watched, begun;

	do {
		watched = psi_watched(gc->group);
		begun = gc->states & asked & watched;
		WRITE_ONCE(gc->slow, asked & watched & ~begun);
		/*
		 * psi_watch() writes what is watched, then looks at ->slow;
		 * here it is the other way round. One of the two sees the
		 * other.
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
 * End the states that no longer hold and begin those that do from now on. What
 * is most frequent needs no loop: a task comes to wait beside one that runs;
 * one that is alone in its group wakes up, gets the CPU, goes to sleep.
 */
static __always_inline void psi_flip_states(struct psi_group_cpu *gc, u8 states, struct rq *rq,
					    u64 now)
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

/*
 * Have the states of a cell follow what it shows, and do all that follows from
 * that.
 */
static void psi_enter_states(struct psi_group_cpu *gc, struct rq *rq, u64 now)
{
	u8 before = gc->states;

	/* First: it may be asked, and then begins with no state. */
	if (unlikely(psi_states[gc->attrs] & gc->slow) && !psi_listed(gc, cpu_of(rq)))
		psi_fold_join(gc, cpu_of(rq), now);
	psi_flip_states(gc, psi_states[gc->attrs], rq, now);
	if (unlikely(gc->states & gc->slow))
		psi_take_watched(gc, now);
	if (unlikely(gc->asked))
		psi_asked_event(gc, before, cpu_of(rq), now);
}

/*
 * Note that a change comes from @from. Return whether that may stand for the
 * cell now.
 */
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
 * Have KCSAN see whether the runqueue lock protects what no reader looks at. In
 * a write section of psi_seq it takes all accesses for atomic, but these.
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

/**
 * struct psi_climb - a change on its way up
 * @gc: the cell that it is applied to next
 * @from: the cell that it comes from, %NULL for a task
 * @change: the change
 */
struct psi_climb {
	struct psi_group_cpu	*gc;
	struct psi_group_cpu	*from;
	struct psi_counts	change;
};

/* Apply a change to one cell; it becomes what that changes for the next. */
static void psi_step(struct psi_climb *c, struct rq *rq, u64 now)
{
	struct psi_group_cpu *gc = c->gc;
	struct psi_counts change = c->change;
	unsigned int old, new;
	bool settled;

	psi_assert_locked(gc);
	settled = psi_step_from(gc, c->from);
	/*
	 * Before the change: what delegates is to count it, too. A cell that
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

/*
 * Take two changes up to the first cell that they share, the deeper one first.
 * From there they are one. None passes that cell: a group has a higher level
 * than those above it. With a second change of zero this is the walk of one.
 */
static noinline void psi_walk_general(struct psi_climb a, struct psi_climb b, struct rq *rq,
				      u64 now)
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
 *
 *   Nearly all events are about attributes of scheduling, and most steps need
 *   nothing but counts and times. psi_step_light() does what psi_step() does
 *   then. A walk of such steps calls nothing, so it saves hardly a register:
 *   that is a third of its instructions. Where a step needs more, it does
 *   nothing, and psi_walk_rest() goes on from there. A cell that is asked needs
 *   one call more, which that makes. All others it leaves to the general walk.
 */

/*
 * Apply @sched, of the cell @from or of a task, to one cell, and put what that
 * changes for the next in its place. Return false if nothing was done. @asked:
 * the caller calls psi_asked_event().
 */
static __always_inline bool psi_step_light(struct psi_group_cpu *gc, struct psi_group_cpu *from,
					   u64 *sched, struct rq *rq, u64 now, bool asked)
{
	unsigned long old = gc->attrs, new;
	u8 states;

	psi_assert_locked(gc);
	/* It delegates, or is about to. */
	if (unlikely(from ? gc->streak <= 1 : !!gc->last))
		return false;
	new = psi_sched_attrs_of(gc->sched + *sched) | (old & ~PSI_SCHED_ATTRS);
	states = psi_states[new];
	if (unlikely(states & gc->slow))
		return false;
	/* psi_asked_event() has something to do. */
	if (!asked && unlikely(gc->asked) && (!old || !new || old & PSI_LIMIT_ATTRS))
		return false;
	if (from && gc->last == from) {
		gc->streak--;
	} else if (from) {
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

/* Go on with one change in any way, and end the write section. */
static noinline void psi_walk_rest(struct psi_group_cpu *gc, struct psi_group_cpu *from,
				   u64 sched, struct rq *rq, u64 now)
{
	for (; sched && gc; from = gc, gc = gc->up) {
		u8 before = gc->states;

		if (!psi_step_light(gc, from, &sched, rq, now, true))
			goto general;
		if (gc->asked)
			psi_asked_event(gc, before, cpu_of(rq), now);
	}
	raw_write_seqcount_end(&rq->psi_seq);
	return;

general:
	psi_walk_general((struct psi_climb){ gc, from, { sched } }, (struct psi_climb){ }, rq,
			 now);
}

/* The light walk from the third cell on. */
static noinline void psi_walk_on(struct psi_group_cpu *gc, struct psi_group_cpu *from, u64 sched,
				 struct rq *rq, u64 now)
{
	for (; sched && gc; from = gc, gc = gc->up) {
		/* As in psi_walk_up(). */
		if (!from)
			__builtin_unreachable();
		if (unlikely(!psi_step_light(gc, from, &sched, rq, now, false)))
			return psi_walk_rest(gc, from, sched, rq, now);
	}
	raw_write_seqcount_end(&rq->psi_seq);
}

/* The light walk from a child on. Mostly it ends here, without a loop. */
static __always_inline void psi_walk_up(struct psi_group_cpu *gc, struct psi_group_cpu *from,
					u64 sched, struct rq *rq, u64 now)
{
	/* So that a step does not ask whether it is for a task. */
	if (!from)
		__builtin_unreachable();
	if (sched && gc) {
		if (unlikely(!psi_step_light(gc, from, &sched, rq, now, false)))
			return psi_walk_rest(gc, from, sched, rq, now);
		if (sched && gc->up)
			return psi_walk_on(gc->up, gc, sched, rq, now);
	}
	raw_write_seqcount_end(&rq->psi_seq);
}

/* The light walk of one task. */
static noinline void psi_walk_sched(struct psi_group_cpu *gc, u64 sched, struct rq *rq, u64 now)
{
	raw_write_seqcount_begin(&rq->psi_seq);
	if (unlikely(!psi_step_light(gc, NULL, &sched, rq, now, false)))
		return psi_walk_rest(gc, NULL, sched, rq, now);
	psi_walk_up(gc->up, gc, sched, rq, now);
}

/*
 * The light walk of two tasks. Mostly, all cells between two tasks and the
 * first that they share delegate, so both come to that one in a step.
 */
static noinline void psi_walk_two_sched(struct psi_group_cpu *a, u64 sched_a,
					struct psi_group_cpu *b, u64 sched_b,
					struct rq *rq, u64 now)
{
	struct psi_group_cpu *up = a->up, *from_a = NULL;

	raw_write_seqcount_begin(&rq->psi_seq);
	if (unlikely(!up || b->up != up))
		goto general;
	if (unlikely(!psi_step_light(a, NULL, &sched_a, rq, now, false)))
		goto general;
	from_a = a;
	a = up;
	if (unlikely(!psi_step_light(b, NULL, &sched_b, rq, now, false)))
		goto general;
	psi_walk_up(up, sched_a ? from_a : b, sched_a + sched_b, rq, now);
	return;

general:
	psi_walk_general((struct psi_climb){ a, from_a, { sched_a } },
			 (struct psi_climb){ b, NULL, { sched_b } }, rq, now);
}

/**
 * psi_walk - apply any changes of two contributors at once, or of one
 * @a: group of the first on the CPU
 * @change_a: what the first adds to the counts from now on
 * @b: group of the second, in the same tree; %NULL for no second one
 * @change_b: what the second adds
 * @rq: the runqueue of the CPU
 * @now: time of the event in ns
 */
static void psi_walk(struct psi_group_cpu *a, struct psi_counts change_a,
		     struct psi_group_cpu *b, struct psi_counts change_b,
		     struct rq *rq, u64 now)
{
	raw_write_seqcount_begin(&rq->psi_seq);
	psi_walk_general((struct psi_climb){ a, NULL, change_a },
			 (struct psi_climb){ b, NULL, change_b }, rq, now);
}

/*
 * Reading times
 */

/*
 * The times of a cell at @now, with @irq as its interrupt time, in @states. @d
 * stands for it.
 */
static __always_inline void psi_times_by(struct psi_group_cpu *gc, struct psi_group_cpu *d,
					 unsigned int states, u64 now, u64 irq, u64 *times)
{
	unsigned long s;

	memcpy(times, d->times, sizeof(d->times));
	/* Mostly none. */
	psi_for_each_state(s, states & d->states)
		times[s] = (s == PSI_IRQ_FULL ? irq : now) - times[s];
	if (d != gc)
		psi_add_delegated(gc, states, times);
}

/* Read the times of a cell at @now; return which cell stands for it. */
static struct psi_group_cpu *psi_times(struct psi_group_cpu *gc, unsigned int states, u64 now,
				       u64 irq, u64 *times)
{
	struct psi_group_cpu *d = psi_chain_end(gc);

	psi_times_by(gc, d, states, now, irq, times);
	return d;
}

/**
 * psi_peek_more - read the times of a cell, and what it has more while asked
 * @gc: the cell
 * @cpu: its CPU
 * @states: the states to read, a bit mask
 * @times: filled in for @states, ns
 * @more: what the cell has while it is asked, %NULL for nothing
 * @held: filled in with what limits held then, if @more is not %NULL
 *
 * Times grow for as long as the group exists. A clock read here may be ahead of
 * the one that the CPU uses for its next event, by no more than that event
 * takes. So a time may be that much less when it is read again; psi_since()
 * makes this no growth.
 *
 * Context: Any but NMI, and not inside a write section of psi_seq.
 */
static __always_inline void psi_peek_more(struct psi_group_cpu *gc, int cpu, unsigned int states,
					  u64 *times, const struct psi_asked_cpu *more,
					  u64 *held)
{
	seqcount_t *seqcount = &cpu_rq(cpu)->psi_seq;
	struct psi_group_cpu *d;
	unsigned int seq, hold;
	u64 now = 0, irq = 0;

	guard(rcu)();
	do {
		seq = read_seqcount_begin(seqcount);
		d = psi_chain_end(gc);
		/* Where no state holds, the times need no clock. */
		hold = d->states & states;
		if (hold)
			now = psi_read_cpu_clock(cpu);
		if (hold & BIT(PSI_IRQ_FULL))
			irq = irq_time_read(cpu);
		psi_times_by(gc, d, states, now, irq, times);
		if (more)
			psi_held_read(more, now, held);
	} while (read_seqcount_retry(seqcount, seq));
}

/* How much @now is above @then, times of a state that psi_peek_more() read. */
static u64 psi_since(u64 now, u64 then)
{
	return (s64)(now - then) > 0 ? now - then : 0;
}

static DEFINE_PER_CPU(struct psi_group_cpu, psi_system_cpus);
struct psi_group psi_system = {
	.id = 1,
};
