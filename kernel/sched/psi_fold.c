// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the fold, and readers
 *
 * Windows
 *   The pressure of a group in a window is a mean over CPUs, weighted with how
 *   much the group used each in that window (psi_avgs.c). So it depends on
 *   where the window begins and ends, and a reader must not end one. The window
 *   of a group ends when the fold visits it: once in each PSI_PERIOD, a little
 *   after that has ended. A reader sees the total of all windows that ended,
 *   plus the mean of the running one so far. That may shrink as weights change:
 *   psi_account.shown keeps what is printed from going back. If the fold is
 *   late, the reader updates a copy of the averages.
 *
 *   Times of a cell grow for ever. The fold remembers in the cell what it saw,
 *   and the difference is what the window has. So it is a reader like any
 *   other: it needs no runqueue lock. Readers must find all cells in the same
 *   window. So each cell has two slots: readers use one, the fold fills the
 *   other, and psi_group.folds says which is which. A short write section of
 *   psi_group.seq changes that, the total and the averages. A window must end
 *   at the same time on all CPUs. As the fold may be preempted, it looks up to
 *   three times, until that takes less than PSI_SAMPLE_NS (1 ms).
 *
 * The list
 *   A group is folded while it is on the list, on the CPUs in its cpumask. The
 *   walk puts both there, at the first activity on a CPU. The fold takes a CPU
 *   off when the group was idle on it for a whole window, by a trylock of its
 *   runqueue: if that fails, the next fold tries again. Cost: O(cells in use),
 *   times PSI_CHAIN at most where groups delegate.
 *
 *   The invariant: on a CPU that is not in the cpumask of its group, a cell has
 *   nothing but its times. It shows nothing, and does not delegate. No cell
 *   delegates to it. Its next activity calls psi_fold_join(). So code that
 *   changes a group as a whole (whether it is asked) writes psi_group, and
 *   visits the CPUs in the cpumask only. Others read psi_group when they join.
 *
 *   When the system is idle everywhere after a fold, the fold rests: its thread
 *   sets no timer. It takes the CPUs off the list of the system at once, so
 *   that the next activity wakes the thread. To wait for an idle window would
 *   keep the machine busy: when the thread wakes up, deferrable work of others
 *   runs too. Other groups stay on the list: they can do nothing then. To
 *   averages a suspend of the machine is such a rest. It begins with a fold,
 *   and the system stays on the list.
 */

/* The list, the system first. Only the thread uses it. */
static LIST_HEAD(psi_fold_list);

/* When the system was last found idle, or suspended; ns of psi_read_clock(). */
static atomic64_t psi_fold_rested;

/* The machine is about to be suspended: fold whenever the thread wakes up. */
static bool psi_suspending;

/* A look at the CPUs takes less, unless preempted or for very many CPUs. */
#define PSI_SAMPLE_NS		NSEC_PER_MSEC

/* Read times in @states. Not in NMI or in a write section of psi_seq. */
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
		hold = d->states & states;
		if (hold)
			now = psi_read_cpu_clock(cpu);
		if (hold & BIT(PSI_IRQ_FULL))
			irq = irq_time_read(cpu);
		psi_times(gc, d, states, now, irq, times);
		if (more)
			psi_held_read(more, now, held);
	} while (read_seqcount_retry(seqcount, seq));
}

/* @fold, a constant: the window ends here. */
static __always_inline void psi_look_at(struct psi_group *group, int cpu,
					struct psi_asked *asked, bool fold,
					struct psi_look *look)
{
	unsigned int slot = psi_last_slot(group), states = look->states;
	struct psi_group_cpu *gc = group->cpus[cpu];
	struct psi_asked_cpu *more = psi_asked_cpu(asked, gc, cpu);
	u64 since[PSI_NR_STATES] __uninitialized, weight;
	const u64 *last = gc->slots[slot];
	u64 *next = gc->slots[!slot];
	u64 held[PSI_NR_HELD] __uninitialized;
	unsigned long s;

	psi_peek_more(gc, cpu, states, since, more, held);
	/* No task is outside of the system: none goes on there meanwhile. */
	if (group == &psi_system)
		since[PSI_CPU_FULL] = last[PSI_CPU_FULL];
	weight = psi_since(since[PSI_NONIDLE], last[PSI_NONIDLE]);
	if (fold) {
		look->idle |= !weight;
		/* Without weight it would be lost; the next window has it. */
		for (s = 0; s < PSI_NR_STATES; s++) {
			since[s] = psi_since(since[s], last[s]);
			next[s] = last[s] + (weight ? since[s] : 0);
		}
	} else {
		/* Nobody looks at the others. */
		psi_for_each_state(s, states)
			since[s] = psi_since(since[s], last[s]);
	}
	psi_mean_add(look, since, states & ~BIT(PSI_NONIDLE));
	if (more)
		psi_sums_add(look, more, since, held);
}

static __always_inline void psi_look_begin(struct psi_look *look, struct psi_asked *asked,
					   unsigned int states, u64 now)
{
	memset(look, 0, offsetof(struct psi_look, sum));
	look->asked = asked;
	look->states = states;
	look->now = now;
	if (!asked)
		return;
	memset_startat(look, 0, sum);
	look->used = psi_union_read(asked, now);
}

/*
 * Up to this time a group had no stall since it was last @folded: when it
 * joined the list, or when the machine woke up that had rested since.
 */
static u64 psi_idle_until(const struct psi_group *group, u64 folded)
{
	u64 joined = atomic64_read(&group->joined), woke = atomic64_read(&psi_system.joined);

	if (folded >= atomic64_read(&psi_fold_rested))
		joined = max(joined, woke);
	return max(joined, folded);
}

static struct psi_account *psi_account_of(struct psi_group *group,
					  enum psi_kind kind)
{
	return kind == PSI_PLAIN ? &group->plain : &group->accounts[kind];
}

/* Bring a reading up to a look. Plain last: it says when the last fold was. */
static __always_inline void psi_read_on(struct psi_group *group,
					enum psi_kind kind,
					const struct psi_look *look,
					const u64 *stall,
					struct psi_account *readings)
{
	struct psi_account *account = psi_account_of(group, kind);
	struct psi_account *reading = &readings[kind];
	unsigned int states = look->states;
	int s;

	/* Full before some: another reader may have shown more of it. */
	for (s = PSI_NR_STATES - 1; s > PSI_NONIDLE; s--) {
		/* When it was switched, the window may have been ahead. */
		u64 total = max_t(s64, reading->total[s] + stall[s], 0), least = 0;

		if (!(states & BIT(s)))
			continue;
		if (PSI_SOME_STATES & BIT(s) && states & BIT(s + 1))
			least = reading->total[s + 1];
		total = max(total, least);
		if (unlikely(look->off)) {
			atomic64_set(&reading->shown[s], total);
			reading->total[s] = max_t(u64, atomic64_read(&account->shown[s]), least);
		} else {
			reading->total[s] = psi_raise(&account->shown[s], total);
		}
	}
	if (look->now >= psi_next_mark(reading->avgs.at, PSI_PERIOD))
		psi_avgs_update(&reading->avgs, states,
				psi_idle_until(group, readings[PSI_PLAIN].avgs.at),
				look->now, stall);
}

/*
 * Read @nr kinds of pressure, a constant: 1 for plain, or PSI_NR_KINDS, all of
 * one moment, in @states. Kinds that were never asked stay as they are in
 * @readings. Takes no lock, and ends no window. Others see only ->shown change.
 */
static __always_inline void psi_read(struct psi_group *group, int nr, unsigned int states,
				     struct psi_account *readings)
{
	u64 stall[PSI_NR_KINDS][PSI_NR_STATES] __uninitialized;
	struct psi_look look __uninitialized;
	unsigned int seq, switches;
	struct psi_asked *asked;
	int kind, cpu, s;

	guard(rcu)();
	if (nr > 1 && !READ_ONCE(group->accounts))
		nr = 1;
	asked = nr > 1 ? psi_asked_get(group) : NULL;
	do {
		switches = psi_switches(group);
		seq = read_seqcount_begin(&group->seq);
		for (kind = PSI_PLAIN; kind < nr; kind++) {
			const struct psi_account *account = psi_account_of(group, kind);

			psi_for_each_state(s, states)
				readings[kind].total[s] = account->total[s] - account->skip[s];
			readings[kind].avgs = account->avgs;
		}
		psi_look_begin(&look, asked, states | BIT(PSI_NONIDLE), psi_read_clock());
		psi_for_each_cpu(cpu, group)
			psi_look_at(group, cpu, asked, false, &look);
		if (nr > 1)
			psi_sums_pressure(&look, stall);
	} while (read_seqcount_retry(&group->seq, seq) ||
		 switches != READ_ONCE(group->switches));
	look.off = switches & 1;
	for (kind = PSI_EXACT; kind < nr; kind++)
		psi_read_on(group, kind, &look, stall[kind], readings);
	psi_read_on(group, PSI_PLAIN, &look, look.stall, readings);
}

/* Take a CPU off the list if idle since the last window, by a trylock. */
static void psi_unlist(struct psi_group *group, struct psi_asked *asked, int cpu)
{
	struct psi_group_cpu *gc = group->cpus[cpu];
	unsigned int slot = psi_last_slot(group);
	u64 times[PSI_NR_STATES];
	struct psi_group_cpu *d;

	guard(irqsave)();
	if (!raw_spin_rq_trylock(cpu_rq(cpu)))
		return;
	d = psi_chain_end(gc);
	psi_times(gc, d, BIT(PSI_NONIDLE), 0, 0, times);
	if (!d->attrs && !psi_since(times[PSI_NONIDLE], gc->slots[slot][PSI_NONIDLE])) {
		raw_write_seqcount_begin(&group->seq);
		/* For the invariant in "The list". */
		psi_stop_delegating(gc, cpu);
		psi_undelegate_parent(gc, cpu);
		WRITE_ONCE(gc->slow, PSI_ALL_STATES);
		cpumask_clear_cpu(cpu, group->cpumask);
		/* Both slots stay as they are from now on. */
		memcpy(gc->slots[!slot], gc->slots[slot], sizeof(gc->slots[slot]));
		psi_asked_unlisted(asked, gc, cpu);
		raw_write_seqcount_end(&group->seq);
	}
	raw_spin_rq_unlock(cpu_rq(cpu));
}

/* @now: those that are idle now, not in the last window. */
static void psi_unlist_idle(struct psi_group *group, struct psi_asked *asked, bool now)
{
	int cpu;

	psi_for_each_cpu(cpu, group) {
		u64 (*slots)[PSI_NR_STATES] = group->cpus[cpu]->slots;

		if (now || slots[0][PSI_NONIDLE] == slots[1][PSI_NONIDLE])
			psi_unlist(group, asked, cpu);
	}
}

/*
 * End the window of a group; return the clock after the last look. @now: what
 * it said a moment ago. Over PSI_SAMPLE_NS ago, the first look is wasted.
 */
static u64 psi_fold_group(struct psi_group *group, u64 now)
{
	struct psi_look look __uninitialized;
	struct psi_avgs before __uninitialized;
	bool trace = trace_psi_update_enabled();
	struct psi_asked *asked;
	int tries = 3, cpu;
	u64 idle;

	guard(rcu)();
	asked = psi_asked_get(group);
	do {
		psi_look_begin(&look, asked, PSI_ALL_STATES, now);
		psi_for_each_cpu(cpu, group)
			psi_look_at(group, cpu, asked, true, &look);
		now = psi_read_clock();
	} while (psi_since(now, look.now) > PSI_SAMPLE_NS && --tries);
	if (trace)
		before = group->plain.avgs;

	/* What readers see of a fold is constant work. */
	preempt_disable();
	raw_write_seqcount_begin(&group->seq);
	idle = psi_idle_until(group, group->plain.avgs.at);
	psi_account_add(&group->plain, idle, look.now, look.stall);
	if (asked)
		psi_asked_fold(idle, &look);
	WRITE_ONCE(group->folds, group->folds + 1);
	raw_write_seqcount_end(&group->seq);
	preempt_enable();

	if (trace && !(psi_switches(group) & 1))
		psi_trace_update(group, &before);
	/* Samplers at work look at the CPUs on the list. */
	if (look.idle && !psi_sampling(group))
		psi_unlist_idle(group, asked, false);
	return now;
}

static void psi_fold_collect(void)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(&psi_folder.inbox));
	struct psi_group *group, *next;

	llist_for_each_entry_safe(group, next, list, inbox) {
		if (group == &psi_system)
			list_add(&group->active, &psi_fold_list);
		else
			list_add_tail(&group->active, &psi_fold_list);
	}
}

/*
 * Whether a group, which is off the list, stays so. It must have no CPU then:
 * the ->joined of its next CPU says that there was no stall before.
 */
static bool psi_leaves(struct psi_group *group)
{
	if (READ_ONCE(group->removed))
		return true;
	if (psi_next_cpu(group, -1) < nr_cpu_ids)
		return false;
	/*
	 * psi_fold_join() sets a bit, then looks at ->listed; here it is the
	 * other way round. One of the two puts the group back.
	 */
	atomic_xchg(&group->listed, 0);
	return psi_next_cpu(group, -1) >= nr_cpu_ids || atomic_xchg(&group->listed, 1);
}

static bool psi_system_idle(void)
{
	int cpu;

	guard(rcu)();
	psi_for_each_cpu(cpu, &psi_system) {
		/* If one begins now, its CPU stays on the list, or joins it. */
		if (data_race(psi_chain_end(psi_system.cpus[cpu])->states))
			return false;
	}
	return !psi_sampling(&psi_system);
}

/*
 * Have the system leave the list if it is idle. If nothing happens from now on
 * (idle, suspend), the result is not before psi_fold_rested: psi_idle_until().
 */
static u64 psi_rest_when_idle(u64 now)
{
	bool idle = psi_system_idle();

	if (!idle && !READ_ONCE(psi_suspending))
		return now;
	now = psi_read_clock();
	atomic64_set(&psi_fold_rested, now);
	guard(rcu)();
	if (idle)
		psi_unlist_idle(&psi_system, psi_asked_get(&psi_system), true);
	return now;
}

static void psi_fold(void)
{
	struct llist_node *asked = psi_asked_all();
	struct psi_group *group;
	LIST_HEAD(list);
	u64 now;

	while (asked) {
		asked = psi_asked_expire(asked);
		psi_worker_break(&psi_folder, psi_read_clock());
	}
	psi_fold_collect();
	now = psi_read_clock();
	list_splice_init(&psi_fold_list, &list);
	while ((group = list_first_entry_or_null(&list, struct psi_group, active))) {
		if (READ_ONCE(group->owes))
			psi_cgroup_charge(group);
		now = psi_fold_group(group, now);
		if (group == &psi_system)
			now = psi_rest_when_idle(now);
		/* For psi_idle_until(): the next window begins later. */
		WARN_ON_ONCE(IS_ENABLED(CONFIG_PSI_DEBUG) && group != &psi_system &&
			     group->plain.avgs.at < atomic64_read(&psi_fold_rested));
		/* First: when it leaves, it may be in the inbox at once. */
		__list_del_entry(&group->active);
		if (psi_leaves(group))
			psi_group_put(group);
		else
			list_add_tail(&group->active, &psi_fold_list);
		now = psi_worker_break(&psi_folder, now);
	}
}

/*
 * Fold at the end of each period, while the system is on the list or a group in
 * the inbox. Else rest: the first to join kicks the thread.
 */
static u64 psi_fold_work(struct psi_worker *worker)
{
	/* End of the running period, 0 while the fold rests. */
	static u64 mark;
	u64 now = psi_read_clock();

	if (mark && (now >= mark || READ_ONCE(psi_suspending))) {
		psi_fold();
		psi_debug_check();
	}
	if (llist_empty(&worker->inbox) && !atomic_read(&psi_system.listed))
		mark = 0;
	else if (now >= mark)
		mark = psi_next_mark(now, PSI_PERIOD);
	return mark ?: PSI_NEVER;
}

/*
 * Tasks run a little longer after the fold, and again a moment before the
 * second call. What they do then counts as after the suspend.
 */
static int psi_suspend(struct notifier_block *nb, unsigned long event, void *unused)
{
	/* By how much CLOCK_BOOTTIME was ahead before. */
	static u64 before;
	u64 ahead = ktime_get_boottime_ns() - local_clock();

	if (event == PM_SUSPEND_PREPARE || event == PM_HIBERNATION_PREPARE) {
		before = ahead;
		WRITE_ONCE(psi_suspending, true);
		psi_worker_again(&psi_folder);
	} else if (event == PM_POST_SUSPEND || event == PM_POST_HIBERNATION) {
		/* Where local_clock() goes on, the two may differ in speed. */
		atomic64_add(psi_since(ahead, before), &psi_slept);
		atomic64_set(&psi_system.joined, psi_read_clock());
		WRITE_ONCE(psi_suspending, false);
	}
	return NOTIFY_OK;
}

static int __init psi_folder_start(void)
{
	if (!psi_enabled())
		return 0;
	psi_worker_start(&psi_folder, psi_fold_work);
	pm_notifier(psi_suspend, 0);
	return 0;
}
subsys_initcall(psi_folder_start);
