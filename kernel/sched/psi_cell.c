// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: cells, what they show, and what stands for them
 *
 *   The theory is in psi.c: "Contributors", "States", "Delegation", "Time".
 *
 * Counts
 *   A cell counts its contributors by attribute, packed in three words:
 *	bits		63		62		61 .. 31	30 .. 0
 *	sched		oncpu_stall	oncpu		productive	waiting
 *	stall		-		-		memstall	iowait
 *
 *	bits		63 .. 43	42 .. 22	21 .. 0
 *	limit		limit_memstall	limit_iowait	limit_waiting
 *
 *   No count is larger than the number of tasks, which pid_max keeps below
 *   2^22: each contributor that shows an attribute has a task below that does.
 *   A CPU executes one task, so one bit will do for oncpu. (2^21 tasks that a
 *   limit keeps asleep on one CPU would carry into the next lane until they
 *   wake up: sums are linear.) In a difference a lane may borrow from the next;
 *   in a sum of all contributors it cannot.
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

static __always_inline u64 psi_stall_counts_of(u64 attrs)
{
	return (attrs & PSI_IOWAIT) >> 4 | (attrs & PSI_MEMSTALL) << (PSI_LANE - 5);
}

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

/* Attributes with a count above zero: it carries when PSI_LANE_MAX is added. */
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

static __always_inline struct psi_counts psi_counts_diff(unsigned int old, unsigned int new)
{
	struct psi_counts diff = {
		psi_sched_counts[new] - psi_sched_counts[old]
	};

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

static bool psi_listed(struct psi_group_cpu *gc, int cpu)
{
	return cpumask_test_cpu(cpu, gc->group->cpumask);
}

/*
 * Clocks
 *   States of a CPU go by rq_clock(). It may stand still while the machine is
 *   suspended, and nothing stalls then. To windows and averages that time is a
 *   pause like any other: psi_read_clock() goes on. Unit tests have their own.
 */

/* How long rq_clock() stood still in suspends, in ns. */
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

/* A child stands for a cell when that many changes in a row came from it. */
#define PSI_STREAK		64
/* No more than that many cells delegate in a chain. */
#define PSI_CHAIN		32

/*
 * The child that stands for a cell, NULL for none. A late reader may find a
 * child of after the delegation in ->last: RCU keeps it.
 */
static __always_inline struct psi_group_cpu *psi_delegate_of(const struct psi_group_cpu *gc)
{
	/* Pairs with psi_delegate(). */
	if (smp_load_acquire(&gc->streak) != PSI_DELEGATES)
		return NULL;
	return READ_ONCE(gc->last);
}

static struct psi_group_cpu *psi_delegator(const struct psi_group_cpu *gc)
{
	return gc->parent && psi_delegate_of(gc->parent) == gc ? gc->parent : NULL;
}

/* The last cell of a chain: it stands for all others. */
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

/* Add what a chain from @gc on has more than its end; return the end. */
static struct psi_group_cpu *psi_add_delegated(struct psi_group_cpu *gc,
					       unsigned int states, u64 *more)
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

/* What psi_group_cpu.asked of a cell has to be, if it is the end of a chain. */
static u8 psi_asked_above(const struct psi_group_cpu *gc)
{
	const struct psi_group_cpu *p = gc;

	while ((p = psi_delegator(p))) {
		if (p->asked & PSI_ASKED)
			return gc->asked | PSI_ASKED_ABOVE;
	}
	return gc->asked & PSI_ASKED;
}

/* Have a cell stand for itself again, in a write section of psi_seq. */
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
		d->asked = psi_asked_above(d);
		gc->asked = psi_asked_above(gc);
	}
}

/* Outside of the walk: have a cell take over. The runqueue is locked. */
static void psi_stop_delegating(struct psi_group_cpu *gc, int cpu)
{
	raw_write_seqcount_begin(&cpu_rq(cpu)->psi_seq);
	psi_undelegate(gc);
	raw_write_seqcount_end(&cpu_rq(cpu)->psi_seq);
}

static void psi_undelegate_parent(struct psi_group_cpu *gc, int cpu)
{
	if (psi_delegator(gc))
		psi_stop_delegating(gc->parent, cpu);
}

/* A cell begins to show limits: cells that are asked stop delegating to it. */
static void psi_asked_undelegate(struct psi_group_cpu *gc)
{
	struct psi_group_cpu *p = gc->asked & PSI_ASKED_ABOVE ? psi_delegator(gc) : NULL;

	for (; p; p = psi_delegator(p)) {
		if (p->asked & PSI_ASKED)
			psi_undelegate(p);
	}
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

/* PSI_STREAK changes in a row came from a child: it may stand for the cell. */
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
	 * As in psi_take_watched(). Pairs with psi_watch_cells(), which
	 * undelegates unless it came too early.
	 */
	smp_mb();
	if (psi_watched(gc->group))
		psi_undelegate(gc);
}

/* The times of a cell at @now, with @d its end, @irq its interrupt time. */
static __always_inline void psi_times(struct psi_group_cpu *gc,
				      struct psi_group_cpu *d, unsigned int states,
				      u64 now, u64 irq, u64 *times)
{
	unsigned long s;

	memcpy(times, d->times, sizeof(d->times));
	psi_for_each_state(s, states & d->states)
		times[s] = (s == PSI_IRQ_FULL ? irq : now) - times[s];
	if (d != gc)
		psi_add_delegated(gc, states, times);
}

/* Times of limits, in a read section of psi_seq, see "Time" in psi.c. */
static void psi_held_read(const struct psi_asked_cpu *more, u64 now, u64 *held)
{
	int i;

	for (i = 0; i < PSI_NR_HELD; i++)
		held[i] = more->held & BIT(i) ? now - more->times[i] : more->times[i];
}

/* How much a time grew. One that shrank did not grow, see "Time" in psi.c. */
static u64 psi_since(u64 now, u64 then)
{
	return (s64)(now - then) > 0 ? now - then : 0;
}

/* Raise a number to @least, while others may raise it too; return it. */
static u64 psi_raise(atomic64_t *number, u64 least)
{
	s64 old = atomic64_read(number);

	while ((u64)old < least && !atomic64_try_cmpxchg(number, &old, least))
		;
	return max_t(u64, old, least);
}
