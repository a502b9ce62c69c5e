// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the walk
 *
 *   Applies what an event changes to the groups on one CPU. The theory is at the top of
 *   psi.c: "Contributors", "States", "The walk", "Delegation" and "Time".
 */

/*
 * Counts: the lanes
 *
 * Tasks number less than 2^30 (MAX_THREADS), groups fewer still, so 30 bits
 * hold any count, and leave a bit above it free. A CPU executes one task, so
 * one bit will do for oncpu. A lane may borrow from the next within a
 * difference; it cannot in a sum of all, as that is the sum of all contributors.
 *
 *	bits		63		62		61 .. 31	30 .. 0
 *	sched		oncpu_stall	oncpu		productive	waiting
 *	stall		-		limited		memstall	iowait
 *
 * "limited" is no count: psi_limit_cpu has the counts of the attributes of limits, and this
 * says that there are any.
 */
#define PSI_LANE		31
#define PSI_LANE_MAX		((1ULL << (PSI_LANE - 1)) - 1)
#define PSI_LANES_MAX		(PSI_LANE_MAX | PSI_LANE_MAX << PSI_LANE)
#define PSI_LIMIT_ATTRS		(PSI_LIMIT_WAITING | PSI_LIMIT_IOWAIT | PSI_LIMIT_MEMSTALL)
/* What the variant of the walk without stalls leaves as it is. */
#define PSI_STALL_ATTRS		(PSI_IOWAIT | PSI_MEMSTALL | PSI_LIMITED)

/*
 * A change is small, so in lane 0 of psi_counts.stall there is room besides iowait for the
 * changes of the attributes of limits: from here, this many bits each. psi_limit_step()
 * applies and removes them before the rest is added to the counts of a group.
 */
#define PSI_LIMIT_SHIFT		8
#define PSI_LIMIT_BITS		7

/* The attribute of a shortage for each one of a limit. */
static const u8 psi_shortage[PSI_NR_LIMITS] = { PSI_WAITING, PSI_IOWAIT, PSI_MEMSTALL };

/* @attrs of a task, or psi_task.asleep, if no limit held the task. */
static unsigned int psi_shortage_attrs(unsigned int attrs)
{
	int l;

	for (l = 0; l < PSI_NR_LIMITS; l++) {
		if (attrs & PSI_LIMIT_WAITING << l)
			attrs ^= PSI_LIMIT_WAITING << l | psi_shortage[l];
	}
	return attrs;
}

/*
 * What a group that shows @attrs would show if no limit held any task. Other than a task, it
 * may show both attributes of a resource.
 */
static unsigned int psi_plain_attrs(unsigned int attrs)
{
	unsigned int held = attrs / PSI_LIMIT_WAITING;

	BUILD_BUG_ON(PSI_LIMIT_IOWAIT / PSI_IOWAIT != PSI_LIMIT_MEMSTALL / PSI_MEMSTALL);
	return (attrs & (PSI_LIMITED - 1)) | (held & PSI_WAITING) |
	       (attrs / (PSI_LIMIT_IOWAIT / PSI_IOWAIT) & (PSI_IOWAIT | PSI_MEMSTALL));
}

/* What one contributor that shows @attrs adds to psi_counts.sched of its group. */
static __init u64 psi_sched_counts_of(u64 attrs)
{
	return (attrs & PSI_WAITING) |
	       (attrs & PSI_PRODUCTIVE) << (PSI_LANE - 1) |
	       (attrs & (PSI_ONCPU | PSI_ONCPU_STALL)) << (2 * PSI_LANE - 2);
}

/* The same for psi_counts.stall. */
static __init u64 psi_stall_counts_of(u64 attrs)
{
	u64 counts = (attrs & PSI_IOWAIT) >> 4 | (attrs & PSI_MEMSTALL) << (PSI_LANE - 5);
	int l;

	for (l = 0; l < PSI_NR_LIMITS; l++) {
		if (attrs & PSI_LIMIT_WAITING << l)
			counts |= 1ULL << (PSI_LIMIT_SHIFT + l * PSI_LIMIT_BITS);
	}
	return counts;
}

/* The same for every set of attributes. */
static u64 psi_sched_counts[PSI_NR_ATTR_SETS] ____cacheline_aligned __ro_after_init;
static u64 psi_stall_counts[PSI_NR_ATTR_SETS] __ro_after_init;

static __always_inline struct psi_counts psi_counts_of(unsigned int attrs)
{
	return (struct psi_counts){ psi_sched_counts[attrs], psi_stall_counts[attrs] };
}

/*
 * The attributes with a count above zero. A count carries into the bit above it
 * when PSI_LANE_MAX is added, unless it is zero.
 */
static __always_inline unsigned long psi_sched_attrs_of(u64 counts)
{
	u64 carry = counts + PSI_LANES_MAX;

	return (carry >> (PSI_LANE - 1) & 1) + 2 * (carry >> (2 * PSI_LANE - 1));
}

static __always_inline unsigned int psi_stall_attrs_of(u64 counts)
{
	/* Whatever a bug makes of the counts, this is an index of tables. */
	return psi_sched_attrs_of(counts) << 4 & PSI_STALL_ATTRS;
}

static __always_inline struct psi_counts psi_counts_add(struct psi_counts a, struct psi_counts b)
{
	return (struct psi_counts){ a.sched + b.sched, a.stall + b.stall };
}

/* The change of a contributor that showed @old and now shows @new. */
static __always_inline struct psi_counts psi_counts_diff(unsigned int old, unsigned int new)
{
	struct psi_counts diff = { psi_sched_counts[new] - psi_sched_counts[old] };

	/* Most of what happens is scheduling. */
	if (unlikely((old ^ new) & (PSI_STALL_ATTRS | PSI_LIMIT_ATTRS)))
		diff.stall = psi_stall_counts[new] - psi_stall_counts[old];
	return diff;
}

static __always_inline bool psi_counts_zero(struct psi_counts c)
{
	return !(c.sched | c.stall);
}

/* What holds for a group that shows @attrs, see "States" above. */
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

/*
 * The same for every set of attributes in psi_group_cpu.attrs: the walk looks it up. A set
 * with PSI_LIMITED does not say which attributes of limits the group shows, so the entry has
 * nonidle, and no other state that limits add. psi_walk_slow() has psi_limit_states() add
 * these.
 */
static u8 psi_states[PSI_NR_GROUP_SETS] ____cacheline_aligned __ro_after_init;

/* Whether the next fold visits a group on a CPU. */
static bool psi_listed(struct psi_group_cpu *gc, int cpu)
{
	return cpumask_test_cpu(cpu, gc->group->cpumask);
}

/* A child stands for a group when that many changes in a row came from it. */
#define PSI_STREAK		64
/* That many did, and when psi_walk_slow() is called next it shall try. */
#define PSI_SETTLED		U8_MAX
/* No more than that many groups delegate in a chain. */
#define PSI_CHAIN		32

/* The group at the end of a chain of delegates. */
static struct psi_group_cpu *psi_delegate_of(struct psi_group_cpu *gc)
{
	struct psi_group_cpu *d;

	while ((d = READ_ONCE(gc->delegate)))
		gc = d;
	return gc;
}

/* How many groups delegate in the chain that a group is part of. */
static unsigned int psi_chain(const struct psi_group_cpu *gc)
{
	const struct psi_group_cpu *p, *child;
	unsigned int nr = 0;

	for (p = gc; p->delegate; p = p->delegate)
		nr++;
	for (child = gc, p = gc->parent; p && p->delegate == child; child = p, p = p->parent)
		nr++;
	return nr;
}

/*
 * Add to @more what a group, and those it delegates to, have more in @states; return the
 * last of them.
 */
static struct psi_group_cpu *psi_add_delegated(struct psi_group_cpu *gc, unsigned int states,
					       u64 *more)
{
	struct psi_group_cpu *d;
	int s;

	while ((d = READ_ONCE(gc->delegate))) {
		psi_for_each_state(s, states)
			more[s] += gc->times[s];
		gc = d;
	}
	return gc;
}

/* Have a group stand for itself again, with all that its delegate knows. */
static noinline void psi_undelegate(struct psi_group_cpu *gc)
{
	u64 more[PSI_NR_STATES] = { };
	struct psi_group_cpu *d = psi_add_delegated(gc, PSI_ALL_STATES, more);
	unsigned int s;

	for (s = 0; s < PSI_NR_STATES; s++)
		gc->times[s] = d->times[s] + (d->states & BIT(s) ? -more[s] : more[s]);
	WRITE_ONCE(gc->delegate, NULL);
	gc->last = NULL;
	gc->attrs = d->attrs;
	gc->states = d->states;
	gc->sched = psi_sched_counts[d->attrs];
	gc->stall = psi_stall_counts[d->attrs];
	gc->streak = PSI_STREAK;
	gc->use |= d->use & PSI_USE_TELL;
	gc->up = d->up;
	d->up = gc;
}

/* Have a group's only child in use stand for it, if it has but one. */
static void psi_delegate(struct psi_group_cpu *gc)
{
	u64 more[PSI_NR_STATES] = { };
	struct psi_group_cpu *child = gc->last, *d;
	struct psi_counts counts;
	unsigned int s;

	gc->streak = PSI_STREAK;
	if (!child || psi_watched(gc->group))
		return;
	while (child->parent != gc)
		child = child->parent;
	if (psi_chain(gc) + 1 + psi_chain(child) > PSI_CHAIN)
		return;
	/* Its walk would not see what changes for @child, see psi_limit_states(). */
	if (gc->attrs & PSI_LIMITED)
		return;
	d = psi_add_delegated(child, PSI_ALL_STATES, more);
	counts = psi_counts_of(d->attrs);
	if (gc->enabled != child->enabled ||
	    gc->sched != counts.sched || gc->stall != counts.stall)
		return;

	for (s = 0; s < PSI_NR_STATES; s++) {
		u64 diff = gc->times[s] - d->times[s];

		gc->times[s] = (gc->states & BIT(s) ? -diff : diff) - more[s];
	}
	/* A reader follows it before it knows that it has to retry. */
	WRITE_ONCE(gc->delegate, child);
	d->use |= gc->use & PSI_USE_TELL;
	/* No contributor equals it, so the next change that arrives undelegates. */
	gc->last = gc;
	d->up = gc->up;
	/* As in psi_take_watched(): psi_watch() undelegates, unless it came too early. */
	smp_mb();
	if (psi_watched(gc->group))
		psi_undelegate(gc);
}

/*
 * Return the states that hold and that a trigger waits for. Each is reported once: the
 * sampler that takes the report asks for the next one by psi_watch().
 */
static unsigned int psi_take_watched(struct psi_group_cpu *gc)
{
	unsigned int asked = gc->slow, watched, begun;

	do {
		watched = psi_watched(gc->group);
		begun = gc->states & asked & watched;
		WRITE_ONCE(gc->slow, asked & watched & ~begun);
		/*
		 * psi_watch() writes what is watched, then looks at ->slow; here it is
		 * the other way round. One of the two sees the other.
		 */
		smp_mb();
	} while (psi_watched(gc->group) != watched);
	return begun;
}

/*
 * A state of gc->slow holds after a change. Do what the walk does not do each time: join
 * the list of the fold, wake samplers, try to delegate, tell limit from shortage.
 */
static noinline void psi_walk_slow(struct psi_group_cpu *gc, int cpu, u64 now)
{
	bool limited = gc->attrs & PSI_LIMITED;
	unsigned int begun;

	if (limited)
		psi_limit_states(gc, cpu, now);
	if (!psi_listed(gc, cpu))
		psi_fold_join(gc, cpu, now);
	begun = psi_take_watched(gc);
	if (limited)
		WRITE_ONCE(gc->slow, PSI_ALL_STATES);
	if (gc->streak > PSI_STREAK)
		psi_delegate(gc);
	if (begun)
		psi_raise_alarms(gc->group, begun, now);
}

/* A state begins or ends at @t, see "Time" above. */
static __always_inline void psi_flip(struct psi_group_cpu *gc, unsigned int s, u64 t)
{
	gc->times[s] = t - gc->times[s];
}

/*
 * A task comes to wait beside one that runs, or goes on while that sleeps. Or it is alone in its
 * group and wakes up.
 */
static __always_inline bool psi_flip_woken(struct psi_group_cpu *gc, u8 flips, u64 now)
{
	if (likely(flips == BIT(PSI_CPU_SOME))) {
		psi_flip(gc, PSI_CPU_SOME, now);
		return true;
	}
	if (flips == (BIT(PSI_NONIDLE) | BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL))) {
		psi_flip(gc, PSI_NONIDLE, now);
		psi_flip(gc, PSI_CPU_SOME, now);
		psi_flip(gc, PSI_CPU_FULL, now);
		return true;
	}
	return false;
}

/* A task that is alone in its group gets the CPU, or sleeps. */
static __always_inline bool psi_flip_switched(struct psi_group_cpu *gc, u8 flips, struct rq *rq,
					      u64 now)
{
	if (flips == (BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL) | BIT(PSI_IRQ_FULL))) {
		psi_flip(gc, PSI_CPU_SOME, now);
		psi_flip(gc, PSI_CPU_FULL, now);
		psi_flip(gc, PSI_IRQ_FULL, irq_time_read(cpu_of(rq)));
		return true;
	}
	if (flips == (BIT(PSI_NONIDLE) | BIT(PSI_IRQ_FULL))) {
		psi_flip(gc, PSI_NONIDLE, now);
		psi_flip(gc, PSI_IRQ_FULL, irq_time_read(cpu_of(rq)));
		return true;
	}
	return false;
}

/*
 * End the states that no longer hold and begin those that do from now on. First comes what is
 * most frequent. @switched, a constant: that is a switch in a group of one task.
 */
static __always_inline void psi_flip_states(struct psi_group_cpu *gc, u8 states, bool switched,
					    struct rq *rq, u64 now)
{
	u8 flips = gc->states ^ states;

	gc->states = states;
	if (switched && psi_flip_switched(gc, flips, rq, now))
		return;
	if (psi_flip_woken(gc, flips, now))
		return;
	if (!switched && psi_flip_switched(gc, flips, rq, now))
		return;
	for (; flips; flips &= flips - 1) {
		unsigned int s = __ffs(flips);

		psi_flip(gc, s, s == PSI_IRQ_FULL ? irq_time_read(cpu_of(rq)) : now);
	}
}

/* Whether psi_union_update() has to be called where a group gets into @states. */
static __always_inline bool psi_tells_use(const struct psi_group_cpu *gc, unsigned int states)
{
	return unlikely(gc->use) && (gc->states ^ states) & BIT(PSI_NONIDLE);
}

/* Change the states, and do all that follows from that. */
static __always_inline void psi_enter_states(struct psi_group_cpu *gc, unsigned int states,
					     int cpu, u64 now)
{
	bool tells_use = psi_tells_use(gc, states);

	psi_flip_states(gc, states, false, cpu_rq(cpu), now);
	if (tells_use)
		psi_union_update(gc, cpu, now);
	if (unlikely(states & gc->slow))
		psi_walk_slow(gc, cpu, now);
}

/*
 * A group whose changes have all come from one child for a while: have psi_walk_slow()
 * called, which delegates. Not for a group that is watched: it wants to know when
 * its states begin.
 */
static noinline void psi_settle(struct psi_group_cpu *gc)
{
	gc->streak = PSI_SETTLED;
	if (!psi_watched(gc->group))
		gc->slow = PSI_ALL_STATES;
}

/* What a change may contain. Each walk is compiled for one of these. */
enum psi_extent {
	PSI_SCHED,		/* no psi_counts.stall, nor in what that changes */
	PSI_STALLS,		/* no attribute of limits */
	PSI_CLASSES,		/* anything */
};

/*
 * Apply the counts in @change of a child, or a task, to one level; return what that changes
 * for the next.
 */
static __always_inline struct psi_counts psi_step_counts(struct psi_group_cpu *gc,
							 struct psi_group_cpu *from,
							 struct psi_counts change, bool stall,
							 int cpu, u64 now)
{
	struct psi_counts none = { }, diff;
	unsigned int old, new;

	if (gc->last != from) {
		if (unlikely(gc->delegate))
			psi_undelegate(gc);
		gc->last = from;
		gc->streak = PSI_STREAK;
	} else if (from && unlikely(!--gc->streak)) {
		psi_settle(gc);
	}

	old = gc->attrs;
	gc->sched += change.sched;
	new = psi_sched_attrs_of(gc->sched);
	if (stall) {
		gc->stall += change.stall;
		new |= psi_stall_attrs_of(gc->stall);
	} else {
		new |= old & PSI_STALL_ATTRS;
	}
	if (new == old)
		return none;

	gc->attrs = new;
	psi_enter_states(gc, psi_states[new] & gc->enabled, cpu, now);
	if (!gc->up)
		return none;
	diff = psi_counts_diff(old & ~PSI_LIMITED, new & ~PSI_LIMITED);
	if (!stall)
		diff.stall = 0;
	return diff;
}

/* The same for all that is in @change. */
static noinline struct psi_counts psi_step_classes(struct psi_group_cpu *gc,
						   struct psi_group_cpu *from,
						   struct psi_counts change, int cpu, u64 now)
{
	u64 limits = psi_limit_step(gc, &change.stall, cpu);
	unsigned int old = gc->attrs;

	change = psi_step_counts(gc, from, change, true, cpu, now);
	if (!limits)
		return change;
	/* Else psi_walk_slow() did. */
	if (gc->attrs == old || !(gc->attrs & PSI_LIMITED) || !(gc->enabled & BIT(PSI_NONIDLE)))
		psi_limit_states(gc, cpu, now);
	if (gc->up)
		change.stall += limits;
	return change;
}

/* Apply @change to one level; return what that changes for the next. @extent is a constant. */
static __always_inline struct psi_counts psi_step(struct psi_group_cpu *gc,
						  struct psi_group_cpu *from,
						  struct psi_counts change,
						  enum psi_extent extent, int cpu, u64 now)
{
	if (extent == PSI_CLASSES)
		return psi_step_classes(gc, from, change, cpu, now);
	return psi_step_counts(gc, from, change, extent == PSI_STALLS, cpu, now);
}

/* Go on while something changes. */
static __always_inline void psi_walk_up(struct psi_group_cpu *gc, struct psi_group_cpu *from,
					struct psi_counts change, enum psi_extent extent,
					int cpu, u64 now)
{
	while (!psi_counts_zero(change)) {
		change = psi_step(gc, from, change, extent, cpu, now);
		from = gc;
		gc = gc->up;
	}
}

/* The first of the two has come as far as @a, from @from_a, where @change_a is to be applied. */
static __always_inline void psi_walk_up_two(struct psi_group_cpu *a, struct psi_group_cpu *from_a,
					    struct psi_counts change_a,
					    struct psi_group_cpu *b, struct psi_counts change_b,
					    enum psi_extent extent, int cpu, u64 now)
{
	struct psi_group_cpu *from_b = NULL;

	while (a != b) {
		if (a->level >= b->level) {
			change_a = psi_step(a, from_a, change_a, extent, cpu, now);
			from_a = a;
			a = a->up;
			if (psi_counts_zero(change_a)) {
				a = b;
				from_a = from_b;
			}
		} else {
			change_b = psi_step(b, from_b, change_b, extent, cpu, now);
			from_b = b;
			b = b->up;
			if (psi_counts_zero(change_b))
				break;
		}
	}
	/* Where two children meet, no child stands for the group. */
	if (a == b && from_a != from_b)
		a->streak = PSI_STREAK;
	psi_walk_up(a, from_a, psi_counts_add(change_a, change_b), extent, cpu, now);
}

/*
 * The light walk
 *
 *   Most steps need nobody: the group neither delegates nor is about to, joins no list and
 *   wakes no sampler. psi_step_light() does what psi_step_counts() does then. A walk of such
 *   steps calls nothing, so it saves few registers or none. That would be a quarter of its
 *   instructions. Where a step needs more, psi_step_light() does nothing and says so, and
 *   psi_walk_rest() or psi_walk_two_rest() goes on from there.
 */

enum psi_light {
	PSI_HEAVY,		/* nothing was done: that takes more than a light walk does */
	PSI_LIGHT,		/* it was done */
	PSI_TELL,		/* it was done, but psi_union_tell() has to be called */
};

/*
 * Apply @sched, of the child @from or of a task, to one level, and put what that changes for
 * the next in its place. Constants are @child: it is of a child; and @two: it is that of one of
 * two tasks, whose caller does not know what to do with %PSI_TELL.
 */
static __always_inline enum psi_light psi_step_light(struct psi_group_cpu *gc, bool child,
						     struct psi_group_cpu *from, u64 *sched,
						     bool two, struct rq *rq, u64 now)
{
	unsigned long old = gc->attrs, new;
	u8 states;

	/* A group that delegates is its own ->last. */
	if (unlikely(child ? gc->last == gc || gc->streak == 1 : !!gc->last))
		return PSI_HEAVY;
	new = psi_sched_attrs_of(gc->sched + *sched) | (old & PSI_STALL_ATTRS);
	states = psi_states[new] & gc->enabled;
	if (unlikely(states & gc->slow))
		return PSI_HEAVY;
	/* Nothing shown is idle: this is psi_tells_use() without its registers. */
	if (two && unlikely(gc->use) && (!old || !new))
		return PSI_HEAVY;
	if (child && gc->last != from) {
		gc->last = from;
		gc->streak = PSI_STREAK;
	} else if (child) {
		gc->streak--;
	}
	gc->sched += *sched;
	if (new == old) {
		*sched = 0;
		return PSI_LIGHT;
	}
	gc->attrs = new;
	*sched = psi_sched_counts[new] - psi_sched_counts[old];
	psi_flip_states(gc, states, two, rq, now);
	return !two && unlikely(gc->use) && (!old || !new) ? PSI_TELL : PSI_LIGHT;
}

/* Go on with a light walk in any way, and end the write section. */
static noinline void psi_walk_rest(struct psi_group_cpu *gc, struct psi_group_cpu *from,
				   u64 sched, struct rq *rq, u64 now)
{
	psi_walk_up(gc, from, (struct psi_counts){ sched }, PSI_SCHED, cpu_of(rq), now);
	raw_write_seqcount_end(&rq->psi_seq);
}

/* The same where groups that are told of have begun or ended to be in use. */
static noinline void psi_walk_told(struct psi_group_cpu *gc, struct psi_group_cpu *from,
				   u64 sched, struct rq *rq, u64 now)
{
	enum psi_light step;

	do {
		step = psi_step_light(gc, true, from, &sched, false, rq, now);
		if (unlikely(step == PSI_HEAVY))
			return psi_walk_rest(gc, from, sched, rq, now);
		if (step == PSI_TELL)
			psi_union_update(gc, cpu_of(rq), now);
		from = gc;
		gc = gc->up;
	} while (gc && sched);
	raw_write_seqcount_end(&rq->psi_seq);
}

/* The same above @gc, the first of these. */
static noinline void psi_walk_tell(struct psi_group_cpu *gc, u64 sched, struct rq *rq, u64 now)
{
	psi_union_tell(gc, cpu_of(rq), now);
	if (gc->up && sched)
		psi_walk_told(gc->up, gc, sched, rq, now);
	else
		raw_write_seqcount_end(&rq->psi_seq);
}

/*
 * The part of a light walk that begins at the group above @from. Return whether it ended the
 * write section. Otherwise there is more to do above @gc, for which @sched is.
 */
static __always_inline bool psi_walk_one(struct psi_group_cpu *gc, struct psi_group_cpu *from,
					 u64 *sched, struct rq *rq, u64 now)
{
	enum psi_light step = psi_step_light(gc, true, from, sched, false, rq, now);

	if (unlikely(step == PSI_HEAVY)) {
		psi_walk_rest(gc, from, *sched, rq, now);
		return true;
	}
	if (unlikely(step == PSI_TELL)) {
		psi_walk_tell(gc, *sched, rq, now);
		return true;
	}
	if (gc->up && *sched)
		return false;
	raw_write_seqcount_end(&rq->psi_seq);
	return true;
}

/* Go on with a light walk, and end the write section. */
static noinline void psi_walk_on(struct psi_group_cpu *gc, struct psi_group_cpu *from,
				 u64 sched, struct rq *rq, u64 now)
{
	while (!psi_walk_one(gc, from, &sched, rq, now)) {
		from = gc;
		gc = gc->up;
	}
}

static noinline void psi_walk_sched(struct psi_group_cpu *gc, u64 sched, struct rq *rq, u64 now)
{
	enum psi_light step;

	raw_write_seqcount_begin(&rq->psi_seq);
	step = psi_step_light(gc, false, NULL, &sched, false, rq, now);
	if (unlikely(step == PSI_HEAVY))
		return psi_walk_rest(gc, NULL, sched, rq, now);
	if (unlikely(step == PSI_TELL))
		return psi_walk_tell(gc, sched, rq, now);
	if (!gc->up || !sched)
		raw_write_seqcount_end(&rq->psi_seq);
	else if (!psi_walk_one(gc->up, gc, &sched, rq, now))
		psi_walk_on(gc->up->up, gc->up, sched, rq, now);
}

/* A limit held a task of some group at some time since boot. */
static DEFINE_STATIC_KEY_FALSE(psi_limits_used);

/* psi_walk_all() with changes that may be about limits. */
static noinline void psi_walk_classes(struct psi_group_cpu *gc, struct psi_counts change,
				      struct rq *rq, u64 now)
{
	raw_write_seqcount_begin(&rq->psi_seq);
	psi_walk_up(gc, NULL, change, PSI_CLASSES, cpu_of(rq), now);
	raw_write_seqcount_end(&rq->psi_seq);
}

static noinline void psi_walk_all(struct psi_group_cpu *gc, struct psi_counts change,
				  struct rq *rq, u64 now)
{
	if (static_branch_unlikely(&psi_limits_used)) {
		psi_walk_classes(gc, change, rq, now);
		return;
	}
	raw_write_seqcount_begin(&rq->psi_seq);
	psi_walk_up(gc, NULL, change, PSI_STALLS, cpu_of(rq), now);
	raw_write_seqcount_end(&rq->psi_seq);
}

/**
 * psi_walk - apply the change of one task
 * @gc: its group on the CPU
 * @change: what the task adds to the counts from now on
 * @rq: the runqueue of the CPU
 * @now: time of the event in ns
 */
static __always_inline void psi_walk(struct psi_group_cpu *gc, struct psi_counts change,
				     struct rq *rq, u64 now)
{
	if (unlikely(change.stall))
		psi_walk_all(gc, change, rq, now);
	else
		psi_walk_sched(gc, change.sched, rq, now);
}

/* Go on with a light walk of two in any way, and end the write section. */
static noinline void psi_walk_two_rest(struct psi_group_cpu *a, struct psi_group_cpu *from_a,
				       u64 sched_a, struct psi_group_cpu *b, u64 sched_b,
				       struct rq *rq, u64 now)
{
	psi_walk_up_two(a, from_a, (struct psi_counts){ sched_a }, b,
			(struct psi_counts){ sched_b }, PSI_SCHED, cpu_of(rq), now);
	raw_write_seqcount_end(&rq->psi_seq);
}

/*
 * Mostly, all groups between two and the first that they share delegate, so both come to that
 * one in a step. If only the first step is light, the second begins after it.
 */
static noinline void psi_walk_two_sched(struct psi_group_cpu *a, u64 sched_a,
					struct psi_group_cpu *b, u64 sched_b,
					struct rq *rq, u64 now)
{
	struct psi_group_cpu *up = a->up;
	u64 sched;

	raw_write_seqcount_begin(&rq->psi_seq);
	if (unlikely(!up || b->up != up ||
		     psi_step_light(a, false, NULL, &sched_a, true, rq, now) == PSI_HEAVY))
		return psi_walk_two_rest(a, NULL, sched_a, b, sched_b, rq, now);
	if (unlikely(psi_step_light(b, false, NULL, &sched_b, true, rq, now) == PSI_HEAVY)) {
		if (sched_a)
			return psi_walk_two_rest(up, a, sched_a, b, sched_b, rq, now);
		return psi_walk_rest(b, NULL, sched_b, rq, now);
	}
	/* Where two children meet, no child stands for the group. */
	if (sched_a && sched_b)
		up->streak = PSI_STREAK;
	sched = sched_a + sched_b;
	if (!sched)
		raw_write_seqcount_end(&rq->psi_seq);
	else if (!psi_walk_one(up, sched_a ? a : b, &sched, rq, now))
		psi_walk_on(up->up, up, sched, rq, now);
}

/* psi_walk_two_all() with changes that may be about limits. */
static noinline void psi_walk_two_classes(struct psi_group_cpu *a, struct psi_counts change_a,
					  struct psi_group_cpu *b, struct psi_counts change_b,
					  struct rq *rq, u64 now)
{
	raw_write_seqcount_begin(&rq->psi_seq);
	psi_walk_up_two(a, NULL, change_a, b, change_b, PSI_CLASSES, cpu_of(rq), now);
	raw_write_seqcount_end(&rq->psi_seq);
}

static noinline void psi_walk_two_all(struct psi_group_cpu *a, struct psi_counts change_a,
				      struct psi_group_cpu *b, struct psi_counts change_b,
				      struct rq *rq, u64 now)
{
	if (static_branch_unlikely(&psi_limits_used)) {
		psi_walk_two_classes(a, change_a, b, change_b, rq, now);
		return;
	}
	raw_write_seqcount_begin(&rq->psi_seq);
	psi_walk_up_two(a, NULL, change_a, b, change_b, PSI_STALLS, cpu_of(rq), now);
	raw_write_seqcount_end(&rq->psi_seq);
}

/**
 * psi_walk_two - apply the changes of two tasks at once
 * @a: group of the first on the CPU
 * @change_a: what the first adds to the counts from now on
 * @b: group of the second, in the same tree
 * @change_b: what the second adds
 * @rq: the runqueue of the CPU
 * @now: time of the event in ns
 *
 * Each walks up to the first group they share; from there they are one. Where one of
 * them ends earlier, the other goes on alone. Nothing changes above the top, so
 * neither gets there. Neither passes the group they share: a group has a higher level
 * than those above it, and the higher one goes first.
 */
static __always_inline void psi_walk_two(struct psi_group_cpu *a, struct psi_counts change_a,
					 struct psi_group_cpu *b, struct psi_counts change_b,
					 struct rq *rq, u64 now)
{
	if (unlikely(change_a.stall | change_b.stall))
		psi_walk_two_all(a, change_a, b, change_b, rq, now);
	else
		psi_walk_two_sched(a, change_a.sched, b, change_b.sched, rq, now);
}

/*
 * Reading times
 */

/*
 * The times of a group on a CPU at @now, with @irq as its interrupt time, in @states. @d
 * stands for it.
 */
static __always_inline void psi_times_by(struct psi_group_cpu *gc, struct psi_group_cpu *d,
					 unsigned int states, u64 now, u64 irq, u64 *times)
{
	unsigned long s;

	psi_for_each_state(s, states)
		times[s] = d->times[s];
	/* Mostly none. */
	psi_for_each_state(s, states & d->states)
		times[s] = (s == PSI_IRQ_FULL ? irq : now) - times[s];
	if (d != gc)
		psi_add_delegated(gc, states, times);
}

/* The same; return which group stands for it. */
static struct psi_group_cpu *psi_times(struct psi_group_cpu *gc, unsigned int states, u64 now,
				       u64 irq, u64 *times)
{
	struct psi_group_cpu *d = psi_delegate_of(gc);

	psi_times_by(gc, d, states, now, irq, times);
	return d;
}

/* The clocks of readers, samplers and the fold. Unit tests have their own. */
static u64 psi_read_cpu_clock(int cpu)
{
	KUNIT_STATIC_STUB_REDIRECT(psi_read_cpu_clock, cpu);
	return sched_clock_cpu(cpu);
}

static u64 psi_read_clock(void)
{
	KUNIT_STATIC_STUB_REDIRECT(psi_read_clock);
	return local_clock();
}

/*
 * Return the states of io and memory, except @known, that a group or its delegates were ever in
 * on a CPU.
 */
static __always_inline unsigned int psi_states_ever(struct psi_group_cpu *gc, unsigned int known)
{
	unsigned int ever = 0, s;

	do {
		const u64 *times = gc->times;

		/* Mostly none. */
		if (!(times[PSI_IO_SOME] | times[PSI_IO_FULL] |
		      times[PSI_MEM_SOME] | times[PSI_MEM_FULL]))
			continue;
		psi_for_each_state(s, PSI_ALL_STATES & ~(PSI_SCHED_STATES | known))
			ever |= times[s] ? BIT(s) : 0;
	} while ((gc = READ_ONCE(gc->delegate)));
	return ever;
}

/**
 * psi_peek_more - read the times of a group on a CPU
 * @gc: the group on that CPU
 * @cpu: the CPU
 * @states: the states to read, a bit mask
 * @times: filled in for @states, ns
 * @more: filled in, if not %NULL: other states of io and memory that the group ever was in
 *
 * Times grow for as long as the group exists. A clock read here may be ahead of the one
 * that the CPU uses for its next event, by no more than that event takes. So a time may
 * be that much less when it is read again; psi_since() makes this no growth.
 *
 * Context: Any but NMI, and not inside a write section of psi_seq.
 */
static __always_inline void psi_peek_more(struct psi_group_cpu *gc, int cpu, unsigned int states,
					  u64 *times, unsigned int *more)
{
	seqcount_t *seqcount = &cpu_rq(cpu)->psi_seq;
	struct psi_group_cpu *d;
	unsigned int seq, hold;
	u64 now = 0, irq = 0;

	rcu_read_lock();
	do {
		seq = read_seqcount_begin(seqcount);
		d = psi_delegate_of(gc);
		/* Where no state holds, the times need no clock. */
		hold = d->states & states;
		if (hold)
			now = psi_read_cpu_clock(cpu);
		if (hold & BIT(PSI_IRQ_FULL))
			irq = irq_time_read(cpu);
		psi_times_by(gc, d, states, now, irq, times);
		if (more)
			*more = psi_states_ever(gc, states);
	} while (read_seqcount_retry(seqcount, seq));
	rcu_read_unlock();
}

/* The same without the other states. */
static __always_inline void psi_peek_cpu(struct psi_group_cpu *gc, int cpu, unsigned int states,
					 u64 *times)
{
	psi_peek_more(gc, cpu, states, times, NULL);
}

/* How much @now is above @then, times of a state that psi_peek_cpu() read. */
static u64 psi_since(u64 now, u64 then)
{
	return (s64)(now - then) > 0 ? now - then : 0;
}

static DEFINE_PER_CPU(struct psi_group_cpu, psi_system_cpus);
struct psi_group psi_system = {
	.id = 1,
};
