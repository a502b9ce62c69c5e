// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: how much work time is lost to contention
 *
 * Contract
 *
 *   A task stalls when it cannot make progress because it waits for cpu,
 *   memory or io. "some" is the time in which at least one task of a domain
 *   stalls on a resource, "full" the time in which tasks stall and none of the
 *   domain is productive. A domain is the whole machine, or a cgroup with all
 *   its descendants; in this code both are groups. User space reads averages
 *   and totals of both, see Documentation/accounting/psi.rst.
 *
 * Contributors
 *
 *   A group is to its parent what a task is to its group: a contributor. A
 *   contributor shows a set of attributes:
 *
 *	waiting		runnable, not on the CPU
 *	productive	runnable, and not in a memory-stall section
 *	oncpu		the CPU executes it
 *	oncpu_stall	the CPU executes it, in a memory-stall section
 *	iowait		asleep, waiting for io (in_iowait; in a ring, a request to storage)
 *	memstall	in a memory-stall section, asleep or not
 *
 *   Per CPU, a group counts for each attribute how many of its contributors
 *   show it. It shows an attribute itself while that count is above zero.
 *
 * States
 *
 *   Every pressure state of a group on a CPU is a function of the attributes
 *   it shows, with "running" for waiting or oncpu:
 *
 *	nonidle		iowait, memstall or running
 *	cpu some	waiting
 *	cpu full	waiting, not oncpu
 *	irq full	oncpu, and the CPU serves interrupts
 *	io some		iowait
 *	io full		iowait, not running
 *	mem some	memstall
 *	mem full	memstall, and: not productive, or oncpu_stall
 *
 *   Attributes say "at least one", and so do the states; neither depends on
 *   how many. That is why the counts never leave their level, and it gives the
 *   rule that everything below follows from:
 *
 *	An event changes the counts of one group. Unless that changes what the
 *	group shows, nothing above it can have changed.
 *
 * The walk
 *
 *   psi_walk() applies the change of one contributor to its group, and while
 *   what the group shows changes too, goes on with that change in the next group
 *   above (psi_cpu.up). Most walks end before the top.
 *
 *   A context switch changes two tasks, whose walks meet at the latest in the
 *   system. Counts are linear, so where the walks meet their changes are
 *   added up, and what cancels is never seen above: on a switch between two
 *   tasks of one group, "oncpu" does not change.
 *
 * Delegation
 *
 *   A container is many cgroups deep, and most of these have one child in use on
 *   a CPU. What such a group shows is what its child shows, whatever happens to
 *   the child; so it need not be touched at all. It delegates: it remembers the
 *   child, and keeps of its times only what they are more than the child's,
 *
 *	the group's time - the child's
 *
 *   which stays the same from then on, as both have the same states. The child
 *   may delegate in turn. A walk goes from the group at the end of such a chain
 *   (psi_cpu.up) to the next one that does not delegate to it, in one step: what an
 *   event costs depends on how many groups have several contributors, and on the
 *   depth only once for PSI_CHAIN levels. No chain is longer, however deep the
 *   cgroups are: readers go along it, and again when anything changes on that CPU
 *   meanwhile; and with the runqueue locked who delegates, or ceases to, does, the
 *   first who is active after a fold, and the fold.
 *
 *   When a change comes to a group that delegates, from another child or a task,
 *   psi_undelegate() makes it what it would be: times are added up, its only
 *   contributor so far shows what the end of the chain shows. That is true
 *   also in the middle of psi_walk_two(), when the other walk has passed above it
 *   already: what that one changed is in what the chain shows.
 *
 *   A group delegates when PSI_STREAK changes in a row have come from one child. So
 *   what going to and fro costs is small against what it saves, also where a
 *   kernel thread wakes up every few ms. Groups that a trigger looks at do not delegate.
 *
 *   The fold takes times from one group after the other. What it takes from a
 *   delegate it gives back to the group that delegates.
 *
 *   A group that is switched off is no part of the tree: its tasks and children
 *   contribute to the next group above that is on. They are moved one by one, and
 *   each move is exact, so nobody has to wait for the others: a group that still has
 *   contributors passes on what they show, on or off.
 *
 * Time
 *
 *   A state's time is kept so that nothing needs an update while nothing
 *   changes: when a state begins or ends at t, what is stored, x, becomes t - x.
 *   After T of it so far, one that begins at b and ends at e stores
 *
 *	T,   b - T,   e - (b - T) = T + (e - b)
 *
 *   For a reader at t the time is x, or t - x if the state holds. There is no
 *   start to store, begin and end are the same three instructions, and a state
 *   that does not change costs nothing. All is exact modulo 2^64.
 *
 *   The clock is rq_clock() for all states but irq full: the time of an event
 *   is the one the scheduler itself uses for it. Irq full is "oncpu" measured on
 *   another clock, the CPU's own interrupt time, and so needs no hooks in the
 *   interrupt path.
 *
 * Tasks
 *
 *   A task remembers what it is counted as (psi_task.attrs) and where: in its
 *   group, on task_cpu(). Events do not say what happened; they say that the
 *   task has to be looked at again. psi_task_attrs() derives what it should be
 *   counted as, and the difference to what is remembered is applied. An event
 *   that changes nothing for PSI costs a comparison, and a hook that is called
 *   twice, or for a queue operation that is undone at once, does no harm.
 *
 *   Where a task is looked at:
 *
 *	enqueue		Asleep if the class left it on the queue as a delayed
 *			dequeue (se.sched_delayed), oncpu if it is current or
 *			held (see below), waiting otherwise. This covers wake-ups, the requeue of
 *			a delayed task, arrival after migration, and changes of
 *			class, priority or affinity.
 *
 *	dequeue		Current is left alone: the switch follows. Between the
 *			two the runqueue lock may be dropped, and the task may
 *			be requeued or moved to another cgroup; the switch
 *			sees the outcome. A queued task that leaves the CPU is
 *			counted nowhere until it is enqueued again. A delayed
 *			task whose dequeue completes was asleep all along.
 *
 *	switch		prev: waiting if still queued and not delayed, asleep
 *			otherwise. next: oncpu.
 *
 *	wake-up on	A sleeping task stays counted on the CPU it last ran on
 *	another CPU	(iowait, memstall). It leaves it before set_task_cpu().
 *			So does a throttled deadline task whose CPU goes offline.
 *
 *	memory-stall	The task is current, so oncpu.
 *
 *	change of	What the task is counted as moves from one group to the
 *	cgroup		other, as it is. Where they meet, it cancels.
 *
 *   PSI's own threads, which keep the averages and serve triggers, are not counted,
 *   and take the CPU from nobody who has it: a task that is preempted by one stays
 *   oncpu until another task runs (psi_held). Like an interrupt they take time,
 *   but looking at pressure makes none; otherwise a monitor would see stall
 *   for ever, its own. Who wakes up while one of them runs waits, though, as does who
 *   is held when a task runs in between.
 *
 *   The invariants: the counts of a group on a CPU that does not delegate equal a
 *   recount of its contributors there, on every level; of those of one that delegates
 *   a single one shows anything. A group in which a state holds is visited by the next
 *   fold. The model test in psi_test.c checks both, and the states and times of
 *   all groups, after each of many random events; psi_debug.c does it at run time.
 *
 * Locking
 *
 *   cgroup_mutex	which groups there are, who is whose parent (a group that is
 *			freed is nobody's by then, so it leaves without)
 *     css_set_lock	which tasks belong to a cgroup
 *       p->pi_lock	that a task stays on its runqueue
 *         rq->lock	as below
 *
 *   psi_group.lock	totals, averages, samplers and triggers of the group
 *     rq->lock		all of psi_cpu on that CPU, psi_task of its tasks, psi_held
 *       psi_seq	write section, so that readers see one moment of a CPU
 *
 *   Nothing is locked inside a write section; what an event may start there
 *   (the clock of psi_avgs.c) it starts by an irq_work.
 *
 *   Readers of times take no runqueue lock: they retry when psi_seq moved.
 *   All levels of an event change in one write section of the CPU, which is the walk's.
 *   Delegates are freed under RCU, as a reader may be about to look through one.
 */

DEFINE_STATIC_KEY_FALSE(psi_disabled);
EXPORT_SYMBOL_GPL(psi_disabled);

static bool psi_enable __initdata = !IS_ENABLED(CONFIG_PSI_DEFAULT_DISABLED);

static DEFINE_PER_CPU(struct psi_cpu, psi_system_cpus);
struct psi_group psi_system = {
	.cpus = &psi_system_cpus,
};

/* Bumped around every change of times, states or delegates of any group on that CPU. */
static DEFINE_PER_CPU(seqcount_t, psi_seq) = SEQCNT_ZERO(psi_seq);

/* The task that one of PSI's own threads keeps from the CPU, see "Tasks". */
static DEFINE_PER_CPU(struct task_struct *, psi_held);

static void psi_clock_join(struct psi_cpu *pc, int cpu, u64 now);
static void psi_raise_alarms(struct psi_group *group, unsigned int states, u64 now);
static void psi_avgs_init(struct psi_avgs *avgs, u64 now);

/*
 * Counts: the lanes
 *
 * Tasks number less than 2^30 (MAX_THREADS), groups fewer still, so 30 bits
 * hold any count, and leave a bit above it free. A CPU executes one task, so
 * one bit will do for oncpu. A lane may borrow from the next within a
 * difference; it cannot in a sum of all, as that is the sum of all contributors.
 */
#define PSI_LANE		31
#define PSI_LANE_MAX		((1ULL << (PSI_LANE - 1)) - 1)
#define PSI_LANES_MAX		(PSI_LANE_MAX | PSI_LANE_MAX << PSI_LANE)
#define PSI_STALL_ATTRS		(PSI_IOWAIT | PSI_MEMSTALL)

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
	return (attrs & PSI_IOWAIT) >> 4 | (attrs & PSI_MEMSTALL) << (PSI_LANE - 5);
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
static __always_inline unsigned int psi_sched_attrs_of(u64 counts)
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
	if (unlikely((old ^ new) & PSI_STALL_ATTRS))
		diff.stall = psi_stall_counts[new] - psi_stall_counts[old];
	return diff;
}

static __always_inline bool psi_counts_zero(struct psi_counts c)
{
	return !(c.sched | c.stall);
}

/* What holds for a group that shows @attrs, see "States" above. */
static __init unsigned int psi_states_of(unsigned int attrs)
{
	bool waiting = attrs & PSI_WAITING, oncpu = attrs & PSI_ONCPU;
	bool iowait = attrs & PSI_IOWAIT, memstall = attrs & PSI_MEMSTALL;
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

/* The same for every set of attributes: the walk looks it up. */
static u8 psi_states[PSI_NR_ATTR_SETS] ____cacheline_aligned __ro_after_init;

/* Whether the next fold visits a group on a CPU. */
static bool psi_listed(struct psi_cpu *pc, int cpu)
{
	return cpumask_test_cpu(cpu, pc->group->cpumask);
}

/* A child stands for a group when that many changes in a row came from it. */
#define PSI_STREAK		64
/* That many did, and when psi_tell() is called next it shall try. */
#define PSI_SETTLED		U8_MAX
/* No more than that many groups delegate in a chain. */
#define PSI_CHAIN		32

/* The group at the end of a chain of delegates. */
static struct psi_cpu *psi_delegate_of(struct psi_cpu *pc)
{
	while (pc->delegate)
		pc = pc->delegate;
	return pc;
}

/* How many groups delegate in the chain that a group is part of. */
static unsigned int psi_chain(const struct psi_cpu *pc)
{
	const struct psi_cpu *p, *child;
	unsigned int nr = 0;

	for (p = pc; p->delegate; p = p->delegate)
		nr++;
	for (child = pc, p = pc->parent; p && p->delegate == child; child = p, p = p->parent)
		nr++;
	return nr;
}

/* Add to @more what a group, and those it delegates to, have more; return the last of them. */
static struct psi_cpu *psi_add_delegated(struct psi_cpu *pc, u64 *more)
{
	struct psi_cpu *d;
	int s;

	while ((d = READ_ONCE(pc->delegate))) {
		for (s = 0; s < PSI_NR_STATES; s++)
			more[s] += pc->times[s];
		pc = d;
	}
	return pc;
}

/* Have a group stand for itself again, with all that its delegate knows. */
static noinline void psi_undelegate(struct psi_cpu *pc)
{
	u64 more[PSI_NR_STATES] = { };
	struct psi_cpu *d = psi_add_delegated(pc, more);
	unsigned int s;

	for (s = 0; s < PSI_NR_STATES; s++)
		pc->times[s] = d->times[s] + (d->states & BIT(s) ? -more[s] : more[s]);
	WRITE_ONCE(pc->delegate, NULL);
	pc->last = NULL;
	pc->attrs = d->attrs;
	pc->states = d->states;
	pc->counts = psi_counts_of(d->attrs);
	pc->streak = PSI_STREAK;
	pc->up = d->up;
	d->up = pc;
	/* Who delegates to it counts on it from now on to tell the clock. */
	pc->tell = PSI_ALL_STATES;
}

/* Have a group's only child in use stand for it, if it has but one. */
static void psi_delegate(struct psi_cpu *pc)
{
	u64 more[PSI_NR_STATES] = { };
	struct psi_cpu *child = pc->last, *d;
	struct psi_counts counts;
	unsigned int s;

	pc->streak = PSI_STREAK;
	if (!child || pc->watched)
		return;
	while (child->parent != pc)
		child = child->parent;
	if (psi_chain(pc) + 1 + psi_chain(child) > PSI_CHAIN)
		return;
	d = psi_add_delegated(child, more);
	counts = psi_counts_of(d->attrs);
	if (pc->kept != child->kept ||
	    pc->counts.sched != counts.sched || pc->counts.stall != counts.stall)
		return;

	for (s = 0; s < PSI_NR_STATES; s++) {
		u64 diff = pc->times[s] - d->times[s];

		pc->times[s] = (pc->states & BIT(s) ? -diff : diff) - more[s];
	}
	/* A reader follows it before it knows that it has to retry. */
	WRITE_ONCE(pc->delegate, child);
	/* Whoever comes now, it is another one. */
	pc->last = pc;
	d->up = pc->up;
}

/*
 * Somebody waits for what just happened on this CPU: the clock for any activity
 * after an idle window, monitors for states that their triggers watch. They are
 * told once; who was told asks again when he wants to be told again.
 */
static noinline void psi_tell(struct psi_cpu *pc, int cpu, u64 now)
{
	struct psi_cpu *child = pc, *p;
	unsigned int begun;

	if (!psi_listed(pc, cpu))
		psi_clock_join(pc, cpu, now);
	/* Who delegates to it is active with it, and not watched. */
	for (p = pc->parent; p && p->delegate == child; child = p, p = p->parent) {
		if (!psi_listed(p, cpu))
			psi_clock_join(p, cpu, now);
	}
	if (pc->tell == PSI_ALL_STATES)
		pc->tell = pc->watched;
	if (pc->streak > PSI_STREAK)
		psi_delegate(pc);
	begun = pc->states & pc->tell;
	if (begun) {
		pc->tell &= ~begun;
		psi_raise_alarms(pc->group, begun, now);
	}
}

/* A state begins or ends at @t, see "Time" above. */
static __always_inline void psi_flip(struct psi_cpu *pc, unsigned int s, u64 t)
{
	pc->times[s] = t - pc->times[s];
}

/* End the states that no longer hold and begin those that do from now on. */
static __always_inline void psi_enter_states(struct psi_cpu *pc, unsigned int states,
					     int cpu, u64 now)
{
	unsigned int flips = pc->states ^ states;

	pc->states = states;
	if (flips & BIT(PSI_NONIDLE))
		psi_flip(pc, PSI_NONIDLE, now);
	if (flips & BIT(PSI_CPU_SOME))
		psi_flip(pc, PSI_CPU_SOME, now);
	if (flips & BIT(PSI_CPU_FULL))
		psi_flip(pc, PSI_CPU_FULL, now);
	if (flips & BIT(PSI_IRQ_FULL))
		psi_flip(pc, PSI_IRQ_FULL, irq_time_read(cpu));
	/* The others follow. */
	for (flips >>= PSI_IO_SOME; unlikely(flips); flips &= flips - 1)
		psi_flip(pc, PSI_IO_SOME + __ffs(flips), now);
	if (unlikely(states & pc->tell))
		psi_tell(pc, cpu, now);
}

/*
 * A group whose changes have all come from one child for a while: have psi_tell()
 * called, which delegates. Not for a group that is watched: it wants to know when
 * its states begin.
 */
static noinline void psi_settle(struct psi_cpu *pc)
{
	pc->streak = PSI_SETTLED;
	if (!pc->watched)
		pc->tell = PSI_ALL_STATES;
}

/*
 * Apply @change of a child, or a task, to one level; return what that changes for the
 * next. Without @stall there is none in @change, nor in what that changes.
 */
static __always_inline struct psi_counts psi_step(struct psi_cpu *pc, struct psi_cpu *from,
						  struct psi_counts change, bool stall,
						  int cpu, u64 now)
{
	struct psi_counts none = { }, diff;
	unsigned int old, new;

	if (pc->last != from) {
		if (unlikely(pc->delegate))
			psi_undelegate(pc);
		pc->last = from;
		pc->streak = PSI_STREAK;
	} else if (from && unlikely(!--pc->streak)) {
		psi_settle(pc);
	}

	old = pc->attrs;
	pc->counts.sched += change.sched;
	new = psi_sched_attrs_of(pc->counts.sched);
	if (stall) {
		pc->counts.stall += change.stall;
		new |= psi_stall_attrs_of(pc->counts.stall);
	} else {
		new |= old & PSI_STALL_ATTRS;
	}
	if (new == old)
		return none;

	pc->attrs = new;
	psi_enter_states(pc, psi_states[new] & pc->kept, cpu, now);
	if (!pc->up)
		return none;
	diff = psi_counts_diff(old, new);
	if (!stall)
		diff.stall = 0;
	return diff;
}

/* Go on while something changes. @stall, a constant, is as for psi_step(). */
static __always_inline void psi_walk_up(struct psi_cpu *pc, struct psi_cpu *from,
					struct psi_counts change, bool stall, int cpu, u64 now)
{
	while (!psi_counts_zero(change)) {
		change = psi_step(pc, from, change, stall, cpu, now);
		from = pc;
		pc = pc->up;
	}
}

static __always_inline void psi_walk_up_two(struct psi_cpu *a, struct psi_counts change_a,
					    struct psi_cpu *b, struct psi_counts change_b,
					    bool stall, int cpu, u64 now)
{
	struct psi_cpu *from_a = NULL, *from_b = NULL;

	while (a != b) {
		if (a->level >= b->level) {
			change_a = psi_step(a, from_a, change_a, stall, cpu, now);
			from_a = a;
			a = a->up;
			if (psi_counts_zero(change_a)) {
				a = b;
				from_a = from_b;
			}
		} else {
			change_b = psi_step(b, from_b, change_b, stall, cpu, now);
			from_b = b;
			b = b->up;
			if (psi_counts_zero(change_b))
				break;
		}
	}
	/* Where two children meet, no child stands for the group. */
	if (a == b && from_a != from_b)
		a->streak = PSI_STREAK;
	psi_walk_up(a, from_a, psi_counts_add(change_a, change_b), stall, cpu, now);
}

static noinline void psi_walk_sched(struct psi_cpu *pc, u64 sched, int cpu, u64 now)
{
	seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);

	raw_write_seqcount_begin(seq);
	psi_walk_up(pc, NULL, (struct psi_counts){ sched }, false, cpu, now);
	raw_write_seqcount_end(seq);
}

static noinline void psi_walk_all(struct psi_cpu *pc, struct psi_counts change, int cpu, u64 now)
{
	seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);

	raw_write_seqcount_begin(seq);
	psi_walk_up(pc, NULL, change, true, cpu, now);
	raw_write_seqcount_end(seq);
}

/**
 * psi_walk - apply the change of one task
 * @pc: its group on @cpu
 * @change: what the task adds to the counts from now on
 * @cpu: the CPU
 * @now: time of the event in ns
 */
static __always_inline void psi_walk(struct psi_cpu *pc, struct psi_counts change,
				     int cpu, u64 now)
{
	if (unlikely(change.stall))
		psi_walk_all(pc, change, cpu, now);
	else
		psi_walk_sched(pc, change.sched, cpu, now);
}

static noinline void psi_walk_two_sched(struct psi_cpu *a, u64 sched_a,
					struct psi_cpu *b, u64 sched_b, int cpu, u64 now)
{
	seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);

	raw_write_seqcount_begin(seq);
	psi_walk_up_two(a, (struct psi_counts){ sched_a }, b, (struct psi_counts){ sched_b },
			false, cpu, now);
	raw_write_seqcount_end(seq);
}

static noinline void psi_walk_two_all(struct psi_cpu *a, struct psi_counts change_a,
				      struct psi_cpu *b, struct psi_counts change_b,
				      int cpu, u64 now)
{
	seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);

	raw_write_seqcount_begin(seq);
	psi_walk_up_two(a, change_a, b, change_b, true, cpu, now);
	raw_write_seqcount_end(seq);
}

/**
 * psi_walk_two - apply the changes of two tasks at once
 * @a: group of the first on @cpu
 * @change_a: what the first adds to the counts from now on
 * @b: group of the second, in the same tree
 * @change_b: what the second adds
 * @cpu: the CPU
 * @now: time of the event in ns
 *
 * Each walks up to the first group they share; from there they are one. Where one of
 * them ends earlier, the other goes on alone. Nothing changes above the top, so
 * neither gets there. Neither passes the group they share: a group has a higher level
 * than those above it, and the higher one goes first.
 */
static __always_inline void psi_walk_two(struct psi_cpu *a, struct psi_counts change_a,
					 struct psi_cpu *b, struct psi_counts change_b,
					 int cpu, u64 now)
{
	if (unlikely(change_a.stall | change_b.stall))
		psi_walk_two_all(a, change_a, b, change_b, cpu, now);
	else
		psi_walk_two_sched(a, change_a.sched, b, change_b.sched, cpu, now);
}

/*
 * Tasks, see "Tasks" above
 */

enum psi_where { PSI_ASLEEP, PSI_QUEUED, PSI_RUNS };

/* What a task is to be counted as. @asleep: its attributes when it sleeps. */
static __always_inline unsigned int psi_attrs_for(enum psi_where where, unsigned int asleep,
						  bool stall)
{
	static const u8 runs[] = { PSI_ONCPU | PSI_PRODUCTIVE,
				   PSI_ONCPU | PSI_ONCPU_STALL | PSI_MEMSTALL };
	static const u8 queued[] = { PSI_WAITING | PSI_PRODUCTIVE, PSI_WAITING | PSI_MEMSTALL };

	switch (where) {
	case PSI_RUNS:
		return runs[stall];
	case PSI_QUEUED:
		return queued[stall];
	default:
		return asleep;
	}
}

/* Remember what @t is counted as from now on; return the change. */
static __always_inline struct psi_counts psi_task_change(struct psi_task *t, unsigned int attrs)
{
	unsigned int old = t->attrs;

	t->attrs = attrs;
	return psi_counts_diff(old, attrs);
}

/* Count a task as @attrs. */
static __always_inline void psi_change(struct psi_task *t, unsigned int attrs, int cpu, u64 now)
{
	struct psi_cpu *pc = per_cpu_ptr(t->group->cpus, cpu);

	psi_walk(pc, psi_task_change(t, attrs), cpu, now);
}

/* The same for two tasks at once. */
static __always_inline void psi_change_two(struct psi_task *prev, unsigned int prev_attrs,
					   struct psi_task *next, unsigned int next_attrs,
					   int cpu, u64 now)
{
	struct psi_counts change, more;
	struct psi_cpu *from, *to;

	from = per_cpu_ptr(prev->group->cpus, cpu);
	to = per_cpu_ptr(next->group->cpus, cpu);
	change = psi_task_change(prev, prev_attrs);
	more = psi_task_change(next, next_attrs);
	if (from == to)
		psi_walk(from, psi_counts_add(change, more), cpu, now);
	else
		psi_walk_two(from, change, to, more, cpu, now);
}

static __always_inline unsigned int psi_task_attrs(struct task_struct *p, enum psi_where where)
{
	/*
	 * Only the task itself writes in_iowait, but other bits of that word are
	 * not its own: who wakes it up may write sched_remote_wakeup while it is
	 * switched from. That leaves our bit as it is, whatever is read of others.
	 */
	unsigned int iowait = data_race(!!p->in_iowait) * PSI_IOWAIT;

	/* While the task is awake, it may change this without the lock: then it is not used. */
	return psi_attrs_for(where, iowait ^ data_race(p->psi.asleep), p->psi.in_stall);
}

static void psi_task_set(struct rq *rq, struct task_struct *p, unsigned int attrs)
{
	lockdep_assert_rq_held(rq);
	if (p->psi.attrs != attrs && p->psi.group) {
		psi_change(&p->psi, attrs, cpu_of(rq), rq_clock(rq));
		psi_debug_note(p, cpu_of(rq));
	}
}

void __psi_enqueue(struct rq *rq, struct task_struct *p)
{
	bool runs = task_current(rq, p) || unlikely(per_cpu(psi_held, cpu_of(rq)) == p);
	enum psi_where where = runs ? PSI_RUNS : p->se.sched_delayed ? PSI_ASLEEP : PSI_QUEUED;

	psi_task_set(rq, p, psi_task_attrs(p, where));
}

void __psi_dequeue(struct rq *rq, struct task_struct *p, int flags)
{
	if (flags & DEQUEUE_SAVE)
		return;
	if ((flags & DEQUEUE_SLEEP) && task_current(rq, p))
		return;

	if (unlikely(per_cpu(psi_held, cpu_of(rq)) == p))
		per_cpu(psi_held, cpu_of(rq)) = NULL;
	psi_task_set(rq, p, flags & DEQUEUE_SLEEP ? psi_task_attrs(p, PSI_ASLEEP) : 0);
}

/* What a task is counted as that has just left the CPU. */
static __always_inline unsigned int psi_switched_attrs(struct task_struct *p)
{
	bool queued = task_on_rq_queued(p) && !p->se.sched_delayed;

	return psi_task_attrs(p, queued ? PSI_QUEUED : PSI_ASLEEP);
}

/* A switch with a task that is not counted: the idle task, or one of PSI's own. */
static noinline void psi_switch_uncounted(struct task_struct *prev, struct task_struct *next,
					  int cpu, u64 now)
{
	unsigned int attrs;

	/* As far as counting goes, who stops now is the task held so far. */
	if (prev->psi.own)
		prev = xchg(per_cpu_ptr(&psi_held, cpu), NULL);
	if (prev && prev != next && prev->psi.group) {
		attrs = psi_switched_attrs(prev);
		if (next->psi.own && attrs & PSI_WAITING)
			per_cpu(psi_held, cpu) = prev;
		else if (next->psi.group)
			psi_change_two(&prev->psi, attrs, &next->psi,
				       psi_task_attrs(next, PSI_RUNS), cpu, now);
		else
			psi_change(&prev->psi, attrs, cpu, now);
	} else if (next->psi.group) {
		psi_change(&next->psi, psi_task_attrs(next, PSI_RUNS), cpu, now);
	}
}

void __psi_sched_switch(struct rq *rq, struct task_struct *prev, struct task_struct *next)
{
	int cpu = cpu_of(rq);

	lockdep_assert_rq_held(rq);

	if (likely(prev->psi.group && next->psi.group))
		psi_change_two(&prev->psi, psi_switched_attrs(prev),
			       &next->psi, psi_task_attrs(next, PSI_RUNS), cpu, rq_clock(rq));
	else
		psi_switch_uncounted(prev, next, cpu, rq_clock(rq));
	psi_debug_note(prev, cpu);
	psi_debug_note(next, cpu);
}

/* Count a task in another group from now on, as what it is counted as. */
static __maybe_unused void psi_regroup(struct psi_task *t, struct psi_group *to, int cpu,
				       u64 now)
{
	struct psi_counts all = psi_counts_of(t->attrs);

	if (t->attrs)
		psi_walk_two(per_cpu_ptr(t->group->cpus, cpu), psi_counts_diff(t->attrs, 0),
			     per_cpu_ptr(to->cpus, cpu), all, cpu, now);
	t->group = to;
}

/* See psi_wake_migrate(). Between sleep and wake-up attrs change under pi_lock only. */
void __psi_leave_cpu(struct task_struct *p)
{
	struct rq_flags rf;
	struct rq *rq;

	rq = __task_rq_lock(p, &rf);
	update_rq_clock(rq);
	psi_task_set(rq, p, 0);
	__task_rq_unlock(rq, &rf);
}

static void psi_set_stall(bool stall)
{
	struct rq_flags rf;
	struct rq *rq;

	lockdep_assert_irqs_enabled();

	rq = this_rq_lock_irq(&rf);
	update_rq_clock(rq);
	current->psi.in_stall = stall;
	current->psi.asleep &= ~PSI_MEMSTALL;
	current->psi.asleep |= stall * PSI_MEMSTALL;
	psi_task_set(rq, current, psi_task_attrs(current, PSI_RUNS));
	rq_unlock_irq(rq, &rf);
}

/* Stop counting the current task for good: it serves PSI itself. */
static void psi_ignore_current(void)
{
	struct rq_flags rf;
	struct rq *rq;

	rq = this_rq_lock_irq(&rf);
	update_rq_clock(rq);
	psi_task_set(rq, current, 0);
	psi_ignore(current);
	current->psi.own = true;
	rq_unlock_irq(rq, &rf);
}

void __psi_memstall_enter(unsigned long *flags)
{
	*flags = current->psi.in_stall;
	if (!*flags)
		psi_set_stall(true);
}
EXPORT_SYMBOL_GPL(__psi_memstall_enter);

void __psi_memstall_leave(unsigned long *flags)
{
	if (!*flags)
		psi_set_stall(false);
}
EXPORT_SYMBOL_GPL(__psi_memstall_leave);

/* See psi_exit(). */
void __psi_exit(void)
{
	current->psi.asleep &= ~PSI_IOWAIT;
	current->in_iowait = 0;
	if (current->psi.in_stall)
		psi_set_stall(false);
}

/*
 * Reading times
 */

/*
 * The times of a group on a CPU at @now, with @irq as its interrupt time. Return
 * who stands for it.
 */
static struct psi_cpu *psi_times(struct psi_cpu *pc, u64 now, u64 irq, u64 *times)
{
	struct psi_cpu *d;
	unsigned int s;

	memset(times, 0, sizeof(pc->times));
	d = psi_add_delegated(pc, times);
	for (s = 0; s < PSI_NR_STATES; s++) {
		u64 t = s == PSI_IRQ_FULL ? irq : now;

		times[s] += d->states & BIT(s) ? t - d->times[s] : d->times[s];
	}
	return d;
}

/**
 * psi_peek_cpu - read the times of a group on a CPU since the last fold
 * @pc: the group on that CPU
 * @cpu: the CPU
 * @times: filled in, per state, ns
 *
 * A clock that we read here may be a little behind the one the CPU read: times
 * are never negative for that.
 *
 * Context: Any but NMI, and not inside a write section of psi_seq. @pc's group is locked,
 *	    so that no fold takes the times meanwhile.
 */
static void psi_peek_cpu(struct psi_cpu *pc, int cpu, u64 *times)
{
	seqcount_t *seqcount = per_cpu_ptr(&psi_seq, cpu);
	unsigned int seq, s;

	rcu_read_lock();
	do {
		seq = read_seqcount_begin(seqcount);
		psi_times(pc, sched_clock_cpu(cpu), irq_time_read(cpu), times);
	} while (read_seqcount_retry(seqcount, seq));
	rcu_read_unlock();

	for (s = 0; s < PSI_NR_STATES; s++) {
		if ((s64)times[s] < 0)
			times[s] = 0;
	}
}

/* What psi_take_cpu() does inside a write section. */
static void psi_take(struct psi_cpu *pc, int cpu, u64 now, u64 irq, u64 *times)
{
	struct psi_cpu *d = psi_times(pc, now, irq, times);
	unsigned int s;

	for (s = 0; s < PSI_NR_STATES; s++) {
		if (pc->delegate || !(pc->states & BIT(s)))
			pc->times[s] -= times[s];
		else
			pc->times[s] += times[s];
		/* What a parent that delegates has through this group stays. */
		if (pc->parent && pc->parent->delegate == pc)
			pc->parent->times[s] += times[s];
	}
	if (!d->states) {
		d->tell = PSI_ALL_STATES;
		cpumask_clear_cpu(cpu, pc->group->cpumask);
	}
	psi_debug_taken(pc, now);
}

/**
 * psi_take_cpu - take the times of a group on a CPU, so that they start anew
 * @group: the group, locked
 * @cpu: the CPU
 * @times: filled in, per state, ns
 *
 * A CPU on which the group does nothing now is not visited again until the group
 * is active there.
 *
 * Context: Takes the runqueue lock.
 */
static void psi_take_cpu(struct psi_group *group, int cpu, u64 *times)
{
	seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);
	struct rq *rq = cpu_rq(cpu);
	struct rq_flags rf;

	lockdep_assert_held(&group->lock);

	rq_lock_irqsave(rq, &rf);
	update_rq_clock(rq);
	raw_write_seqcount_begin(seq);
	psi_take(per_cpu_ptr(group->cpus, cpu), cpu, rq_clock(rq), irq_time_read(cpu), times);
	raw_write_seqcount_end(seq);
	rq_unlock_irqrestore(rq, &rf);
}

/*
 * Groups and setup
 */

/*
 * Have psi_tell() called when one of @states begins on a CPU. Return those that
 * hold somewhere: nobody will tell of these.
 */
static unsigned int psi_watch(struct psi_group *group, unsigned int states)
{
	unsigned int hold = 0;
	int cpu;

	lockdep_assert_held(&group->lock);

	for_each_possible_cpu(cpu) {
		struct psi_cpu *pc = per_cpu_ptr(group->cpus, cpu);
		seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);
		struct rq_flags rf;

		/* Watched, and nothing began since: what begins now will be told. */
		if (READ_ONCE(pc->watched) == states && !(states & ~READ_ONCE(pc->tell)) &&
		    !(READ_ONCE(pc->states) & states))
			continue;

		rq_lock_irqsave(cpu_rq(cpu), &rf);
		if (pc->delegate) {
			raw_write_seqcount_begin(seq);
			psi_undelegate(pc);
			raw_write_seqcount_end(seq);
		}
		pc->watched = states;
		if (pc->tell != PSI_ALL_STATES)
			pc->tell = states;
		hold |= pc->states & states;
		rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	}
	return hold;
}

static void psi_group_init(struct psi_group *group, struct psi_group *parent, int level)
{
	int cpu;

	refcount_set(&group->refs, 1);
	spin_lock_init(&group->lock);
	INIT_LIST_HEAD(&group->samplers);
	psi_avgs_init(&group->avgs, local_clock());
	for_each_possible_cpu(cpu) {
		struct psi_cpu *pc = per_cpu_ptr(group->cpus, cpu);

		pc->group = group;
		pc->kept = PSI_ALL_STATES;
		pc->tell = PSI_ALL_STATES;
		pc->level = level;
		if (parent) {
			pc->parent = per_cpu_ptr(parent->cpus, cpu);
			pc->up = pc->parent;
		}
	}
}

static void psi_group_free(struct rcu_head *rcu)
{
	struct psi_group *group = container_of(rcu, struct psi_group, rcu);

	free_percpu(group->cpus);
	free_cpumask_var(group->cpumask);
	kfree(group);
}

/* Readers may still be looking through the delegation of a parent. */
static void psi_group_put(struct psi_group *group)
{
	if (refcount_dec_and_test(&group->refs))
		call_rcu(&group->rcu, psi_group_free);
}

/* Keep the times of a group on a CPU, or do not. */
static __maybe_unused void psi_keep(struct psi_cpu *pc, bool on, int cpu, u64 now)
{
	if (pc->delegate)
		psi_undelegate(pc);
	if (pc->parent && pc->parent->delegate == pc)
		psi_undelegate(pc->parent);
	pc->kept = on ? PSI_ALL_STATES : 0;
	psi_enter_states(pc, psi_states[pc->attrs] & pc->kept, cpu, now);
}

/* From now on a group is a contributor to @to. Both have an ancestor in common. */
static __maybe_unused void psi_adopt(struct psi_cpu *pc, struct psi_cpu *to, int cpu, u64 now)
{
	struct psi_cpu *from = pc->parent, *d = psi_delegate_of(pc);
	struct psi_counts all = psi_counts_of(d->attrs);

	if (from->delegate == pc) {
		raw_write_seqcount_begin(per_cpu_ptr(&psi_seq, cpu));
		psi_undelegate(from);
		raw_write_seqcount_end(per_cpu_ptr(&psi_seq, cpu));
	}
	if (!from->delegate)
		from->last = NULL;
	psi_walk_two(from, psi_counts_diff(d->attrs, 0), to, all, cpu, now);
	pc->parent = to;
	d->up = to;
}

/* No ancestor remembers a group any more that is about to go. */
static __maybe_unused void psi_forget(struct psi_cpu *pc)
{
	struct psi_cpu *p;

	if (pc->parent->delegate == pc)
		psi_undelegate(pc->parent);
	for (p = pc->parent; p; p = p->parent) {
		if (p->last == pc)
			p->last = NULL;
	}
	/* The clock may come by once more, when the parent is gone. */
	pc->parent = NULL;
	pc->up = NULL;
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

	for (attrs = 0; attrs < PSI_NR_ATTR_SETS; attrs++) {
		psi_states[attrs] = psi_states_of(attrs);
		psi_sched_counts[attrs] = psi_sched_counts_of(attrs);
		psi_stall_counts[attrs] = psi_stall_counts_of(attrs);
	}

	if (!psi_enable) {
		static_branch_enable(&psi_disabled);
		return;
	}
	if (!zalloc_cpumask_var(&psi_system.cpumask, GFP_NOWAIT))
		panic("psi: no memory for a cpumask");
	psi_group_init(&psi_system, NULL, 0);
}
