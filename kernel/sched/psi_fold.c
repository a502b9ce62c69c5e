// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the fold, and readers
 *
 * Windows
 *
 *   The pressure of a group in a window is a mean over CPUs, in which a CPU
 *   weighs as much as the group used it in that window (psi_avgs.c). So it
 *   depends on where the window begins and ends, and a reader must not end one.
 *   The window of a group ends when the fold visits the group: once in each
 *   PSI_PERIOD, a little after a period has ended. psi_avgs.c splits windows
 *   into periods. A reader sees the total of all windows that ended, plus the
 *   mean of the running one so far. The mean of a running window may shrink as
 *   weights change; psi_account.shown keeps what is printed from going
 *   backwards until the total catches up. If a period has ended and the fold is
 *   late, the reader brings a copy of the averages up to date for itself.
 *
 *   Times of a cell grow for ever. The fold does not reset them: it remembers
 *   in the cell what it saw, and the difference is what the window has. So to
 *   end a window the fold is a reader like any other: it needs no runqueue
 *   lock, and may be preempted anywhere but in a write section of
 *   psi_group.seq.
 *
 *   Readers must find all cells in the same window. So each cell has two slots:
 *   readers use one, the fold fills the other, and psi_group.folds says which
 *   is which. To end a window is to change that number, with the total and the
 *   averages, in one short write section of psi_group.seq. A window must not
 *   end at different times on different CPUs. So the fold looks again if its
 *   look at the cells took longer than PSI_SAMPLE_NS (1 ms), as when it was
 *   preempted. It takes what the third look found, however long that look took.
 *
 *		   window 7		   window 8
 *	CPU 0	 |______________________|_____________________ times
 *	CPU 1	 |______________________|_____________________
 *		slot 0		      slot 1	    ^
 *					       a reader: total + (times - slot
 *					       1)
 *
 * The list
 *
 *   A group is folded while it is on the list, on the CPUs in its cpumask. The
 *   walk puts both there, at the first activity on a CPU. The fold takes a CPU
 *   off when the group was idle on it for a whole window, by a trylock of its
 *   runqueue: if that fails, the next fold tries again. Cost: O(cells in use),
 *   and at most PSI_CHAIN times that where groups delegate; nothing for CPUs
 *   that a group does not use, nothing for groups that sleep.
 *
 *   The invariant: a group is as new on each CPU that its cpumask lacks. Only
 *   its times stay. It shows nothing there, neither delegates nor is delegated
 *   to, and its next activity calls psi_fold_join(). So code that changes a
 *   group as a whole (whether it is asked) writes psi_group, and then visits
 *   the CPUs in the cpumask only. Another CPU reads psi_group when it joins.
 *   Nobody takes the runqueue lock of a CPU for a group that does not use it.
 *
 *   When the system is idle everywhere after a fold, the fold rests: its thread
 *   sets no timer. It takes the CPUs off the list of the system without waiting
 *   for an idle window, so that the next activity wakes the thread. Waiting
 *   would keep the machine busy: each time the thread wakes up, deferrable work
 *   of others runs too, which is activity. Other groups stay on the list while
 *   the fold rests. Nothing of theirs is lost: what they did before is still in
 *   their times, and they can do nothing while the system is idle.
 */

/**
 * struct psi_folder - the thread that folds
 * @worker: its thread; the inbox has groups that join the list
 * @groups: the list of groups that the next fold visits, the system first
 * @mark: end of the running period, 0 while the fold rests
 * @rested: when the fold last found the system idle, ns of local_clock()
 */
struct psi_folder {
	struct psi_worker	worker;
	struct list_head	groups;
	u64			mark;
	atomic64_t		rested;
};

static u64 psi_fold_work(struct psi_worker *worker);

static struct psi_folder psi_folder = {
	.worker = { .name = "psi", .work = psi_fold_work },
	.groups = LIST_HEAD_INIT(psi_folder.groups),
};

/*
 * To look at the CPUs takes less, unless the thread is held up or they are very
 * many.
 */
#define PSI_SAMPLE_NS		NSEC_PER_MSEC

/*
 * Looking at a window
 */

/**
 * struct psi_look - what a group did in the running window
 * @now: when the look began, ns of local_clock()
 * @plain: the mean of the CPUs by the formula of the plain files
 * @sums: for exact pressure, limit and shortage
 * @idle: the group was idle on a CPU
 */
struct psi_look {
	u64			now;
	struct psi_mean		plain;
	struct psi_sums		sums;
	bool			idle;
};

/*
 * Add what a cell did in the running window. @fold, a constant: the window ends
 * here.
 */
static __always_inline void psi_look_at(struct psi_group *group, int cpu, unsigned int states,
					struct psi_asked *asked, bool fold,
					struct psi_look *look)
{
	struct psi_asked_cpu *more = psi_asked_cpu(asked, cpu);
	unsigned int slot = psi_last_slot(group);
	struct psi_group_cpu *gc = group->cpus[cpu];
	u64 since[PSI_NR_STATES] __uninitialized, weight;
	const u64 *last = gc->slots[slot];
	u64 *next = gc->slots[!slot];
	struct psi_held held;
	unsigned long s;

	psi_peek_more(gc, cpu, states, since, more, &held);
	/* All of them in a fold: it needs no bits. */
	for (s = 0; fold && s < PSI_NR_STATES; s++)
		since[s] = psi_since(since[s], last[s]);
	psi_for_each_state(s, fold ? 0 : states)
		since[s] = psi_since(since[s], last[s]);
	weight = since[PSI_NONIDLE];
	if (!weight)
		look->idle = true;
	if (fold) {
		/* Without weight it would be lost; the next window has it. */
		for (s = 0; s < PSI_NR_STATES; s++)
			next[s] = last[s] + (weight ? since[s] : 0);
	}
	if (weight)
		psi_mean_add(&look->plain, since, states & ~BIT(PSI_NONIDLE));
	if (more)
		psi_sums_add(&look->sums, since, states, &held);
}

/* Look at all CPUs that a group is in use on, in @states. */
static __always_inline void psi_look_around(struct psi_group *group, unsigned int states,
					    struct psi_asked *asked, bool fold, u64 now,
					    struct psi_look *look)
{
	int cpu;

	memset(&look->plain, 0, sizeof(look->plain));
	look->idle = false;
	look->now = now;
	if (asked)
		psi_sums_begin(&look->sums, asked, now);
	psi_for_each_cpu(cpu, group)
		psi_look_at(group, cpu, states, asked, fold, look);
}

/*
 * Readers
 */

/*
 * Since the last fold a group had no stall up to this time: when it joined the
 * list, or when the machine woke up that had rested since.
 */
static u64 psi_idle_until(const struct psi_group *group, u64 folded)
{
	u64 joined = atomic64_read(&group->joined), woke = atomic64_read(&psi_system.joined);

	return folded >= atomic64_read(&psi_folder.rested) ? max(joined, woke) : joined;
}

/* The largest total that was shown, at least @total. */
static u64 psi_show_total(atomic64_t *shown, u64 total)
{
	s64 old = atomic64_read(shown);

	do {
		if (total <= (u64)old)
			return old;
	} while (!atomic64_try_cmpxchg(shown, &old, total));
	return total;
}

/*
 * Bring what was read of an account to @now, with @stall in the running window.
 */
static __always_inline void psi_read_on(struct psi_group *group, struct psi_account *account,
					unsigned int states, u64 now, const u64 *stall,
					struct psi_reading *reading)
{
	int s;

	/*
	 * Full comes before some: another reader may have shown more of it
	 * meanwhile.
	 */
	for (s = PSI_NR_STATES - 1; s > PSI_NONIDLE; s--) {
		u64 total = reading->total[s] + stall[s];

		if (!(states & BIT(s)))
			continue;
		if (PSI_SOME_STATES & BIT(s) && states & BIT(s + 1))
			total = max(total, reading->total[s + 1]);
		reading->total[s] = psi_show_total(&account->shown[s], total);
	}
	/* Averages change when a period ends. */
	if (now >= reading->avgs.mark)
		psi_avgs_update(&reading->avgs, states, psi_idle_until(group, reading->avgs.at),
				now, stall);
}

/* The total and the averages of the windows that ended. */
static __always_inline void psi_read_account(const struct psi_account *account,
					     unsigned int states, struct psi_reading *reading)
{
	int s;

	psi_for_each_state(s, states)
		reading->total[s] = account->total[s];
	reading->avgs = account->avgs;
}

/**
 * psi_read - read what the plain files of a group show
 * @group: the group
 * @states: the states to read, a bit mask
 * @reading: filled in for @states
 *
 * Takes no lock, and ends no window. The only write that others see is the one
 * that keeps totals from going backwards.
 *
 * Context: Process context.
 */
static void psi_read(struct psi_group *group, unsigned int states, struct psi_reading *reading)
{
	struct psi_look look __uninitialized;
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&group->seq);
		psi_read_account(&group->plain, states, reading);
		psi_look_around(group, states | BIT(PSI_NONIDLE), NULL, false, psi_read_clock(),
				&look);
	} while (read_seqcount_retry(&group->seq, seq));
	psi_read_on(group, &group->plain, states, look.now, look.plain.stall, reading);
}

/*
 * The fold
 */

/*
 * Write what readers see of a fold: constant work, then psi_fold_publish_end().
 */
static void psi_fold_publish(struct psi_group *group)
{
	preempt_disable();
	raw_write_seqcount_begin(&group->seq);
}

static void psi_fold_publish_end(struct psi_group *group)
{
	raw_write_seqcount_end(&group->seq);
	preempt_enable();
}

/*
 * Whether a group shows nothing on a CPU, and was idle since it had the time
 * @nonidle.
 */
static bool psi_idle_since(struct psi_group_cpu *gc, u64 nonidle)
{
	u64 times[PSI_NR_STATES];

	if (psi_times(gc, BIT(PSI_NONIDLE), 0, 0, times)->attrs)
		return false;
	return !psi_since(times[PSI_NONIDLE], nonidle);
}

/* Make an idle group on a CPU as new, for the invariant in "The list". */
static void psi_renew(struct psi_group_cpu *gc)
{
	psi_undelegate(gc);
	psi_undelegate_parent(gc);
	WRITE_ONCE(gc->slow, PSI_ALL_STATES);
}

/*
 * The fold does not visit a CPU any more, if the group was idle on it since the
 * last window ended and the CPU is not at something.
 */
static void psi_unlist(struct psi_group *group, struct psi_asked *asked, int cpu)
{
	struct psi_group_cpu *gc = group->cpus[cpu];
	unsigned int slot = psi_last_slot(group);
	seqcount_t *seq = &cpu_rq(cpu)->psi_seq;
	unsigned long flags;

	local_irq_save(flags);
	if (!raw_spin_rq_trylock(cpu_rq(cpu)))
		goto out;
	if (psi_idle_since(gc, gc->slots[slot][PSI_NONIDLE])) {
		psi_fold_publish(group);
		raw_write_seqcount_begin(seq);
		psi_renew(gc);
		raw_write_seqcount_end(seq);
		cpumask_clear_cpu(cpu, group->cpumask);
		/* Both slots stay as they are from now on. */
		memcpy(gc->slots[!slot], gc->slots[slot], sizeof(gc->slots[slot]));
		if (asked)
			psi_asked_unlisted(asked, cpu);
		psi_fold_publish_end(group);
	}
	raw_spin_rq_unlock(cpu_rq(cpu));
out:
	local_irq_restore(flags);
}

/*
 * Take the CPUs off the list that were idle in the last window, or just @now.
 */
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
 * End the running window of a group. The clock said @now a moment ago: if that
 * is over PSI_SAMPLE_NS ago, one look is for nothing. Return what it says after
 * the last look.
 */
static u64 psi_fold_group(struct psi_group *group, u64 now)
{
	struct psi_asked *asked = psi_asked_get(group);
	struct psi_look look __uninitialized;
	struct psi_avgs before __uninitialized;
	bool trace = trace_psi_update_enabled() && !psi_is_off(group);
	int tries = 3;
	u64 idle;

	do {
		psi_look_around(group, PSI_ALL_STATES, asked, true, now, &look);
		now = psi_read_clock();
	} while (now - look.now > PSI_SAMPLE_NS && --tries);
	if (trace)
		before = group->plain.avgs;

	psi_fold_publish(group);
	idle = psi_idle_until(group, group->plain.avgs.at);
	psi_account_add(&group->plain, idle, look.now, look.plain.stall);
	if (asked)
		psi_asked_fold(group, asked, idle, look.now, &look.sums);
	WRITE_ONCE(group->folds, group->folds + 1);
	psi_fold_publish_end(group);

	if (trace)
		psi_trace_update(group, &before);
	/* Samplers at work look at the CPUs on the list. */
	if (look.idle && !psi_sampling(group))
		psi_unlist_idle(group, asked, false);
	psi_asked_put(asked);
	return now;
}

/*
 * The list
 */

/**
 * psi_fold_join - have the fold visit a group on a CPU
 * @gc: the group on the CPU
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * Its states begin afterwards.
 *
 * Context: The runqueue lock of the CPU is held, inside a write section of
 *	    psi_seq.
 */
void psi_fold_join(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_group *group = gc->group, *parent;

	/* Pairs with psi_next_cpu(): the memory is there before the bit. */
	smp_wmb();
	cpumask_set_cpu(cpu, group->cpumask);
	/* Pairs with psi_leaves() and psi_asked_visit(). */
	smp_mb__after_atomic();
	parent = READ_ONCE(group->parent);
	if (parent) {
		gc->parent = psi_group_extend(parent, cpu, group)->cpus[cpu];
		gc->up = gc->parent;
	}
	if (unlikely(gc->asked || rcu_access_pointer(group->asked)))
		psi_asked_listed(gc, cpu, now);
	/* Others may write that line: look before. */
	if (atomic_read(&group->listed) || atomic_xchg(&group->listed, 1))
		return;
	refcount_inc(&group->refs);
	atomic64_set(&group->joined, now);
	llist_add(&group->inbox, &psi_folder.worker.inbox);
	psi_kick(&psi_folder.worker);
}

static void psi_fold_collect(struct psi_folder *folder)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(&folder->worker.inbox));
	struct psi_group *group, *next;

	llist_for_each_entry_safe(group, next, list, inbox) {
		if (group == &psi_system)
			list_add(&group->active, &folder->groups);
		else
			list_add_tail(&group->active, &folder->groups);
	}
}

/*
 * After a fold: a group with CPUs stays on the list, unless its cgroup is gone.
 */
static bool psi_stays(struct psi_group *group)
{
	return !READ_ONCE(group->removed) && psi_next_cpu(group, -1) < nr_cpu_ids;
}

/*
 * A group without CPUs leaves the list, unless one joins now. It must have none
 * when it leaves: the ->joined of its next CPU says that there was no stall
 * before.
 */
static bool psi_leaves(struct psi_group *group)
{
	if (READ_ONCE(group->removed))
		return true;
	/*
	 * A CPU that joins sets its bit, then looks at ->listed; here it is the
	 * other way round. One of the two sees the other, and puts the group
	 * back.
	 */
	atomic_xchg(&group->listed, 0);
	return psi_next_cpu(group, -1) >= nr_cpu_ids || atomic_xchg(&group->listed, 1);
}

static bool psi_system_idle(void)
{
	bool idle = true;
	int cpu;

	rcu_read_lock();
	psi_for_each_cpu(cpu, &psi_system) {
		/* A state that begins now: its CPU joins the list again. */
		if (data_race(psi_chain_end(psi_system.cpus[cpu])->states)) {
			idle = false;
			break;
		}
	}
	rcu_read_unlock();
	return idle && !psi_sampling(&psi_system);
}

/*
 * The system has been folded: have it leave the list if it is idle. Return the
 * time for the groups that are folded next: not before ->rested, see
 * psi_idle_until().
 */
static u64 psi_rest_when_idle(struct psi_folder *folder, u64 now)
{
	struct psi_asked *asked;

	if (!psi_system_idle())
		return now;
	now = psi_read_clock();
	atomic64_set(&folder->rested, now);
	asked = psi_asked_get(&psi_system);
	psi_unlist_idle(&psi_system, asked, true);
	psi_asked_put(asked);
	return now;
}

static void psi_fold(struct psi_folder *folder)
{
	struct psi_group *group, *next;
	u64 now = psi_read_clock();

	psi_fold_collect(folder);
	list_for_each_entry_safe(group, next, &folder->groups, active) {
		now = psi_fold_group(group, now);
		if (group == &psi_system)
			now = psi_rest_when_idle(folder, now);
		/*
		 * Its next window begins after the rest: psi_idle_until()
		 * relies on that.
		 */
		WARN_ON_ONCE(IS_ENABLED(CONFIG_PSI_DEBUG) && group != &psi_system &&
			     group->plain.avgs.at < atomic64_read(&folder->rested));
		if (!psi_stays(group)) {
			/* When it leaves, it may be in the inbox at once. */
			list_del(&group->active);
			if (psi_leaves(group))
				psi_group_put(group);
			else
				list_add_tail(&group->active, &next->active);
		}
		psi_worker_relax(folder->worker.began, now);
	}
}

/*
 * The thread folds at the end of each period, and goes on while the system is
 * on the list, or a group in its inbox. Without any it rests, and the first to
 * join kicks it.
 */
static u64 psi_fold_work(struct psi_worker *worker)
{
	struct psi_folder *folder = container_of(worker, struct psi_folder, worker);
	u64 now = psi_read_clock();

	if (folder->mark && now >= folder->mark) {
		psi_fold(folder);
		psi_debug_check();
	}
	if (llist_empty(&worker->inbox) && !atomic_read(&psi_system.listed))
		folder->mark = 0;
	else if (now >= folder->mark)
		folder->mark = (div64_u64(now, PSI_PERIOD) + 1) * PSI_PERIOD;
	return folder->mark ?: PSI_NEVER;
}

static int __init psi_folder_start(void)
{
	if (!static_branch_likely(&psi_disabled))
		psi_worker_start(&psi_folder.worker);
	return 0;
}
subsys_initcall(psi_folder_start);
