// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the fold, and readers
 *
 * Windows
 *
 *   The pressure of a group in a window is a mean over CPUs, in which a CPU weighs as much
 *   as the group used it in that window (psi_avgs.c). So it depends on where the window
 *   begins and ends, and a reader must not end one. The window of a group ends when the fold
 *   visits the group: once in each PSI_PERIOD, a little after a period has ended. psi_avgs.c
 *   splits windows into periods. A reader sees the total of all windows that ended, plus the
 *   mean of the running one so far. The mean of a running window may shrink as weights
 *   change; psi_account.shown keeps what is printed from going backwards until the total
 *   catches up. If a period has ended and the fold is late, the reader brings a copy of the
 *   averages up to date for itself.
 *
 *   Times on a CPU grow for ever. The fold does not reset them: it remembers in
 *   psi_group.seen what it saw, and the difference is what the window has. So to end a
 *   window the fold is a reader like any other: it needs no runqueue lock, and may be
 *   preempted anywhere but in a write section of psi_group.seq.
 *
 *   Readers must find all CPUs in the same window. So each CPU has two slots: readers use
 *   one, the fold fills the other, and psi_group.folds says which is which. To end a window
 *   is to change that number, with the total and the averages, in one short write section
 *   of psi_group.seq. A window must not end at different times on different CPUs. So the fold
 *   looks again if its look at the CPUs took longer than PSI_SAMPLE_NS (1 ms), as when it was
 *   preempted. It also looks again after it made room in its table for a new CPU or state. It
 *   takes what the third look found, however long that look took.
 *
 *		   window 7		   window 8
 *	CPU 0	 |______________________|_____________________ times
 *	CPU 1	 |______________________|_____________________
 *		slot 0		      slot 1	    ^
 *					       a reader: total + (times - slot 1)
 *
 * The list
 *
 *   A group is folded while it is on the list of the fold, on the CPUs in its cpumask.
 *   The walk puts both there, at the first activity on a CPU. The fold takes a CPU off
 *   when the group was idle on it for a whole window, by a trylock of its runqueue: if
 *   that fails, the next fold tries again. Cost: O(groups in use on a CPU, CPUs), and at
 *   most PSI_CHAIN times that where groups delegate; nothing for CPUs that a group does
 *   not use, nothing for groups that sleep.
 *
 *   The invariant: a group is as new on each CPU that its cpumask lacks. Only its times stay.
 *   It shows nothing there, neither delegates nor is delegated to, measures all states, and
 *   its next activity calls psi_walk_slow(). So code that changes a group as a whole (its parent,
 *   whether it is switched off) writes psi_group, and then visits the CPUs in the cpumask
 *   only. Another CPU reads psi_group when it joins. Nobody takes the runqueue lock of a CPU
 *   for a group that does not use it.
 *
 *   When the system is idle everywhere after a fold, the fold rests: its thread sets no
 *   timer. It takes the CPUs off the list of the system without waiting for an idle window,
 *   so that the next activity wakes the thread. Waiting would keep the machine busy: each
 *   time the thread wakes up, deferrable work of others runs too, which is activity. Other
 *   groups stay on the list while the fold rests. Nothing of theirs is lost: what they did
 *   before is still in their times, and they can do nothing while the system is idle.
 *
 * Helpers
 *
 *   One thread folds for the whole machine, as long as that takes it less than an eighth of
 *   a period (PSI_FOLD_NS) of CPU time. If the last fold took n times that, n helpers share
 *   the next one. They are made when they are wanted first, and sleep while they are not:
 *
 *	psi		 system | chunk | chunk | chunk | waits | the list
 *	psi_fold:1		| chunk | chunk | chunk |
 *	psi_fold:2			| chunk | chunk |  (the CPU was not free at once)
 *	the list	 system, 64 groups, 64 groups, ...: no change while it is shared
 *
 *   The thread psi folds the system first and, if the system is idle, has the fold rest. The
 *   averages of groups that are folded later depend on that (psi_idle_until()). Then each
 *   thread takes the next PSI_FOLD_CHUNK groups, until none is left, so groups are taken in
 *   the order of the list. One thread folds a group, so psi_group.seq has a single writer.
 *   The thread psi waits for helpers in the middle of a chunk, not for those that have not
 *   begun. It alone adds groups to the list and takes groups off it: before the threads share
 *   the list, and after they are done.
 */

/**
 * struct psi_folder - the thread that folds, and its helpers
 * @worker: its thread; the inbox has groups that join the list
 * @groups: the list of groups that the next fold visits, the system first
 * @mark: end of the running period, 0 while the fold rests
 * @rested: when the fold last found the system idle, ns of local_clock()
 * @helpers: how many there are
 * @make: makes one more
 * @lock: protects the following, while a fold is shared
 * @next: the first group in @groups that no thread has taken, or @groups
 * @busy: how many threads are folding
 * @took: CPU time of the last fold, of all threads, in ns
 * @ask: helpers wait here for groups that they can take
 * @done: the thread waits here for helpers that are folding
 */
struct psi_folder {
	struct psi_worker	worker;
	struct list_head	groups;
	u64			mark;
	atomic64_t		rested;
	unsigned int		helpers;
	struct work_struct	make;
	spinlock_t		lock;	/* of what threads share */
	struct list_head	*next;
	unsigned int		busy;
	u64			took;
	wait_queue_head_t	ask;
	wait_queue_head_t	done;
};

static u64 psi_fold_work(struct psi_worker *worker);
static void psi_helper_make(struct work_struct *work);

static struct psi_folder psi_folder = {
	.worker = { .name = "psi", .work = psi_fold_work },
	.groups = LIST_HEAD_INIT(psi_folder.groups),
	.make = __WORK_INITIALIZER(psi_folder.make, psi_helper_make),
	.lock = __SPIN_LOCK_UNLOCKED(psi_folder.lock),
	.next = &psi_folder.groups,
	.ask = __WAIT_QUEUE_HEAD_INITIALIZER(psi_folder.ask),
	.done = __WAIT_QUEUE_HEAD_INITIALIZER(psi_folder.done),
};

/*
 * The fold gets a helper for each time that it takes that long. If this were longer, the last
 * group would be folded late in the period; if it were shorter, machines would have threads
 * that they do not need. A kernel that checks itself shares each fold.
 */
#define PSI_FOLD_NS		(IS_ENABLED(CONFIG_PSI_DEBUG) ? 0 : PSI_PERIOD / 8)

/* With so many, a fold of 4 s of CPU time ends in 250 ms. */
#define PSI_HELPERS		15

/*
 * A thread takes so many groups at once: the lock then costs little against folding them, and
 * the thread psi waits for a part of the work that is small.
 */
#define PSI_FOLD_CHUNK		(IS_ENABLED(CONFIG_PSI_DEBUG) ? 2 : 64)

/* To look at the CPUs takes less, unless the thread is held up or they are very many. */
#define PSI_SAMPLE_NS		NSEC_PER_MSEC

/*
 * Readers
 */

/*
 * Since the last fold a group had no stall up to this time: when it joined the list, or
 * when the machine woke up that had rested since.
 */
static u64 psi_idle_until(const struct psi_group *group, u64 folded)
{
	u64 joined = atomic64_read(&group->joined), woke = atomic64_read(&psi_system.joined);

	return folded >= atomic64_read(&psi_folder.rested) ? max(joined, woke) : joined;
}

/**
 * struct psi_reading - what a group's files show
 * @total: per state, pressure since the group began, in ns
 * @avgs: the averages as of the last period that ended
 */
struct psi_reading {
	u64			total[PSI_NR_STATES];
	struct psi_avgs		avgs;
};

static struct psi_account *psi_account(struct psi_group *group, enum psi_kind kind)
{
	switch (kind) {
	case PSI_EXACT:
		return &group->exact->account;
	case PSI_LIMIT:
		return &group->limits->limit;
	case PSI_SHORTAGE:
		return &group->limits->shortage;
	default:
		return &group->plain;
	}
}

/* The total and the averages of the windows that ended. */
static void psi_read_account(struct psi_group *group, enum psi_kind kind, unsigned int states,
			     struct psi_reading *reading)
{
	const struct psi_account *account = psi_account(group, kind);
	bool begun = kind < PSI_LIMIT || READ_ONCE(group->limits->begun);
	int s;

	/* As psi_class_begin() will have it. */
	if (!begun && kind == PSI_LIMIT) {
		memset(reading, 0, sizeof(*reading));
		reading->avgs.at = group->plain.avgs.at;
		reading->avgs.mark = group->plain.avgs.mark;
		return;
	}
	if (!begun)
		account = &group->plain;
	psi_for_each_state(s, states)
		reading->total[s] = account->total[s];
	reading->avgs = account->avgs;
}

/* What the running window of a group has so far. */
static void psi_peek_window(struct psi_group *group, enum psi_kind kind, unsigned int states,
			    u64 now, struct psi_mean *mean)
{
	const struct psi_exact *exact = kind == PSI_EXACT ? group->exact : NULL;
	struct psi_limits *limits = kind >= PSI_LIMIT ? group->limits : NULL;
	struct psi_class_window classes __uninitialized;
	u64 since[PSI_NR_STATES] __uninitialized, used = 0;
	unsigned int at = 0, skip_at = 0;
	struct psi_seen_cpu *entry;
	struct psi_seen *seen;
	int cpu;

	memset(mean, 0, sizeof(*mean));
	/* First: psi_peek_cpu() ends what KCSAN takes for the reader's section. */
	if (exact)
		used = psi_union_since(psi_union_read(&exact->use, now), exact->used);
	if (limits)
		memset(&classes, 0, sizeof(classes));
	rcu_read_lock();
	seen = rcu_dereference(group->seen);
	psi_for_each_cpu(cpu, group) {
		entry = psi_seen_find(seen, &at, cpu);
		psi_peek_cpu(group->cpus[cpu], cpu, states, since);
		psi_window_since(group, seen, entry, states, since);
		if (exact) {
			psi_exact_skip(group, exact, &skip_at, cpu, states, since);
			psi_sum_add(mean, since, states);
		} else {
			psi_mean_add(mean, since, states & ~BIT(PSI_NONIDLE));
		}
		if (limits)
			psi_class_peek(group, limits, cpu, states, since, &classes);
	}
	rcu_read_unlock();
	if (exact)
		psi_sum_share(mean, states, used);
	if (kind == PSI_LIMIT)
		*mean = classes.limit;
	if (kind == PSI_SHORTAGE)
		psi_class_shortage(mean, &classes, states);
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

/**
 * psi_read - read what a group's files show
 * @group: the group
 * @kind: of which pressure: for %PSI_EXACT after psi_exact_enable()
 * @states: the states to read, a bit mask
 * @reading: filled in for @states
 *
 * Takes no lock, and ends no window. The only write that others see is the one that keeps
 * totals from going backwards.
 *
 * Context: Process context.
 */
static void psi_read(struct psi_group *group, enum psi_kind kind, unsigned int states,
		     struct psi_reading *reading)
{
	struct psi_mean window __uninitialized;
	struct psi_account *account;
	unsigned int seq;
	u64 now;
	int s;

	if (kind >= PSI_LIMIT && !psi_group_limits(group)) {
		memset(reading, 0, sizeof(*reading));
		if (kind == PSI_LIMIT)
			return;
		kind = PSI_PLAIN;
	}
	account = psi_account(group, kind);
	do {
		seq = read_seqcount_begin(&group->seq);
		now = psi_read_clock();
		psi_read_account(group, kind, states, reading);
		psi_peek_window(group, kind, states | BIT(PSI_NONIDLE), now, &window);
	} while (read_seqcount_retry(&group->seq, seq));

	/* Full comes before some: another reader may have shown more of it meanwhile. */
	for (s = PSI_NR_STATES - 1; s > PSI_NONIDLE; s--) {
		u64 total = reading->total[s] + window.stall[s];

		if (!(states & BIT(s)))
			continue;
		if (PSI_SOME_STATES & BIT(s) && states & BIT(s + 1))
			total = max(total, reading->total[s + 1]);
		reading->total[s] = psi_show_total(&account->shown[s], total);
	}
	/* Averages change when a period ends. */
	if (now >= reading->avgs.mark)
		psi_avgs_update(&reading->avgs, states, psi_idle_until(group, reading->avgs.at),
				now, window.stall);
}

/*
 * The fold
 */

/* Write what readers see of a fold: constant work, then psi_fold_publish_end(). */
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

/* Whether a group shows nothing on a CPU, and was idle since it had the time @nonidle. */
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
	if (gc->delegate)
		psi_undelegate(gc);
	if (gc->parent && gc->parent->delegate == gc)
		psi_undelegate(gc->parent);
	gc->enabled = PSI_ALL_STATES;
	WRITE_ONCE(gc->slow, PSI_ALL_STATES);
}

/*
 * The fold does not visit an idle group on a CPU any more.
 *
 * Return: false if the CPU is at something, or the group was not idle since it had the
 * time @nonidle.
 */
static bool psi_unlist(struct psi_group *group, int cpu, u64 nonidle)
{
	struct psi_group_cpu *gc = group->cpus[cpu];
	seqcount_t *seq = &cpu_rq(cpu)->psi_seq;
	unsigned long flags;
	bool idle = false;

	local_irq_save(flags);
	if (!raw_spin_rq_trylock(cpu_rq(cpu)))
		goto out;
	idle = psi_idle_since(gc, nonidle);
	if (idle) {
		raw_write_seqcount_begin(seq);
		psi_renew(gc);
		raw_write_seqcount_end(seq);
		cpumask_clear_cpu(cpu, group->cpumask);
	}
	raw_spin_rq_unlock(cpu_rq(cpu));
out:
	local_irq_restore(flags);
	return idle;
}

/* Take a CPU off the list if a group is idle on it since it was folded. */
static void psi_unlist_entry(struct psi_group *group, struct psi_seen *seen,
			     struct psi_seen_cpu *entry)
{
	u64 *last = psi_seen_slot(seen, entry, psi_last_slot(group));
	u64 *other = psi_seen_slot(seen, entry, !psi_last_slot(group));

	if (!psi_unlist(group, entry->cpu, *psi_seen_time(seen, last, PSI_NONIDLE)))
		return;
	/* The fold leaves both slots alone from now on. */
	psi_fold_publish(group);
	*psi_seen_weight(seen, last) = 0;
	memcpy(other, last, seen->words * sizeof(*last));
	psi_class_unlist(group, entry->cpu);
	psi_fold_publish_end(group);
}

/* Take the CPUs off the list that were idle in the last window, or just @now. */
static void psi_unlist_idle(struct psi_group *group, bool now)
{
	struct psi_seen *seen = rcu_dereference_protected(group->seen, true);
	unsigned int at = 0;
	int cpu;

	psi_for_each_cpu(cpu, group) {
		struct psi_seen_cpu *entry = psi_seen_find(seen, &at, cpu);
		u64 *last;

		if (!entry)
			continue;
		last = psi_seen_slot(seen, entry, psi_last_slot(group));
		if (now || !*psi_seen_weight(seen, last))
			psi_unlist_entry(group, seen, entry);
	}
}

/**
 * struct psi_window - what the fold finds in the window that it ends
 * @now: when it began to look, ns of local_clock()
 * @mean: by the formula of the plain files
 * @sum: for exact pressure
 * @classes: for limits and shortages
 * @used: psi_union_read() at @now
 * @skip_at: for psi_exact_skip()
 * @states: those that psi_group.seen has room for
 * @begun: others that a CPU was ever in
 * @idle: the group was idle on a CPU
 * @missing: psi_group.seen or psi_limits.seen has no room for a CPU or a state
 */
struct psi_window {
	u64			now;
	struct psi_mean		mean;
	struct psi_mean		sum;
	struct psi_class_window	classes;
	u64			used;
	unsigned int		skip_at;
	unsigned int		states;
	unsigned int		begun;
	bool			idle;
	bool			missing;
};

/* Note in the other slot what a CPU has by now, and add what is new to @window. */
static void psi_fold_cpu(struct psi_group *group, struct psi_seen *seen,
			 struct psi_seen_cpu *entry, const struct psi_exact *exact,
			 struct psi_limits *limits, struct psi_window *window)
{
	const u64 *last = psi_seen_slot(seen, entry, psi_last_slot(group));
	u64 *next = psi_seen_slot(seen, entry, !psi_last_slot(group));
	u64 since[PSI_NR_STATES] __uninitialized, weight;
	struct psi_mean *mean = &window->mean;
	unsigned int more;
	unsigned long s;

	psi_peek_more(group->cpus[entry->cpu], entry->cpu, window->states, since, &more);
	window->begun |= more;
	/* PSI_NONIDLE comes first. */
	weight = psi_since(since[PSI_NONIDLE], *last);
	if (!weight)
		window->idle = true;
	psi_for_each_state(s, window->states) {
		/* Without weight it would be lost; the next window has it. */
		since[s] = weight ? psi_since(since[s], *last) : 0;
		*next++ = *last++ + since[s];
		if (weight)
			mean->stall[s] = psi_mean_with(mean, s, since[s], weight);
	}
	*next = weight;
	mean->weight += weight;
	if (limits && !psi_class_fold(group, limits, entry->cpu, window->states, since,
				      &window->classes))
		window->missing = true;
	if (exact) {
		psi_exact_skip(group, exact, &window->skip_at, entry->cpu, window->states,
			       since);
		psi_sum_add(&window->sum, since, window->states);
	}
}

/* Make room in a table for what the fold sees of CPUs. Return whether there is more now. */
static bool psi_fold_seen(struct psi_group *group, struct psi_seen __rcu **table,
			  struct psi_seen *none, unsigned int states)
{
	struct psi_seen *seen = rcu_dereference_protected(*table, true), *grown;

	grown = psi_seen_grow(seen ?: none, group->cpumask, states);
	if (!grown || grown == none || grown == seen)
		return false;
	rcu_assign_pointer(*table, grown);
	if (seen)
		kvfree_rcu_mightsleep(seen);
	return true;
}

/* The same in both tables: for stalls, and for what limits held of them. */
static bool psi_fold_grow(struct psi_group *group, struct psi_limits *limits,
			  unsigned int states)
{
	struct psi_seen plain = { .slots = 2, .weighed = true };
	struct psi_seen classes = { .slots = 2 * PSI_CLASS_SLOTS };
	bool grown = psi_fold_seen(group, &group->seen, &plain, states);

	if (limits)
		grown |= psi_fold_seen(group, &limits->seen, &classes,
				       states & ~BIT(PSI_NONIDLE));
	return grown;
}

/* Look at the CPUs of a group; the clock says @now, or said it a moment ago. */
static void psi_fold_look(struct psi_group *group, const struct psi_exact *exact,
			  struct psi_limits *limits, u64 now, struct psi_window *window)
{
	struct psi_seen *seen = rcu_dereference_protected(group->seen, true);
	unsigned int at = 0, more;
	int cpu;

	memset(&window->mean, 0, sizeof(window->mean));
	if (limits)
		memset(&window->classes, 0, sizeof(window->classes));
	window->now = now;
	if (exact) {
		memset(&window->sum, 0, sizeof(window->sum));
		window->used = psi_union_read(&exact->use, window->now);
		window->skip_at = 0;
	}
	window->states = seen ? seen->states : 0;
	window->begun = 0;
	window->idle = false;
	window->missing = false;
	psi_for_each_cpu(cpu, group) {
		struct psi_seen_cpu *entry = psi_seen_find(seen, &at, cpu);

		if (entry) {
			psi_fold_cpu(group, seen, entry, exact, limits, window);
			continue;
		}
		psi_peek_more(group->cpus[cpu], cpu, 0, NULL, &more);
		window->begun |= more | PSI_SCHED_STATES;
		window->missing = true;
	}
}

/* Add to an account the window that ends. */
static void psi_fold_account(struct psi_group *group, struct psi_account *account,
			     const struct psi_window *window, const struct psi_mean *mean)
{
	struct psi_avgs *avgs = &account->avgs;
	unsigned long s;

	psi_for_each_state(s, window->states)
		account->total[s] += mean->stall[s];
	psi_avgs_update(avgs, window->states, psi_idle_until(group, avgs->at), window->now,
			mean->stall);
}

/*
 * End the running window of a group. The clock said @now a moment ago: if that is over
 * PSI_SAMPLE_NS ago, one look is for nothing. Return what it says after the last look.
 */
static u64 psi_fold_group(struct psi_group *group, u64 now)
{
	/* Pairs with psi_exact_enable(). One that comes meanwhile is for the next fold. */
	struct psi_exact *exact = smp_load_acquire(&group->exact);
	struct psi_limits *limits = psi_group_limits(group);
	struct psi_window window __uninitialized;
	struct psi_avgs before __uninitialized;
	bool trace = trace_psi_update_enabled();
	struct psi_mean rest __uninitialized;
	int tries = 3;
	bool again;

	if (limits && !limits->begun)
		psi_class_begin(group, limits);
	do {
		psi_fold_look(group, exact, limits, now, &window);
		now = psi_read_clock();
		again = now - window.now > PSI_SAMPLE_NS;
		if (unlikely(window.missing || window.begun) &&
		    psi_fold_grow(group, limits, window.states | window.begun)) {
			/* That may have slept. */
			now = psi_read_clock();
			again = true;
		}
	} while (again && --tries);
	if (exact)
		psi_sum_share(&window.sum, window.states,
			      psi_union_since(window.used, exact->used));
	if (limits) {
		rest = window.mean;
		psi_class_shortage(&rest, &window.classes, window.states);
	}
	if (trace)
		before = group->plain.avgs;

	psi_fold_publish(group);
	psi_fold_account(group, &group->plain, &window, &window.mean);
	if (exact) {
		psi_fold_account(group, &exact->account, &window, &window.sum);
		exact->used = window.used;
	}
	if (limits) {
		psi_fold_account(group, &limits->limit, &window, &window.classes.limit);
		psi_fold_account(group, &limits->shortage, &window, &rest);
		WRITE_ONCE(limits->begun, true);
	}
	/* After what is in the slot: samplers look without ->seq. */
	smp_store_release(&group->folds, group->folds + 1);
	psi_fold_publish_end(group);

	if (trace)
		psi_trace_update(group, &before);
	if (exact)
		psi_exact_forget(exact);
	/* Samplers at work look at the CPUs on the list. */
	if (window.idle && !psi_sampling(group))
		psi_unlist_idle(group, false);
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
 * Context: The runqueue lock of the CPU is held, inside a write section of psi_seq.
 */
void psi_fold_join(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_group *group = gc->group, *parent;

	/* Pairs with psi_next_cpu(): the memory is there before the bit. */
	smp_wmb();
	cpumask_set_cpu(cpu, group->cpumask);
	/*
	 * Pairs with psi_leaves(), psi_exact_enable(), psi_switch_group() and
	 * psi_cgroup_rehome().
	 */
	smp_mb__after_atomic();
	parent = READ_ONCE(group->parent);
	if (parent) {
		gc->parent = psi_group_extend(parent, cpu)->cpus[cpu];
		gc->up = gc->parent;
	}
	if (unlikely(READ_ONCE(group->off)))
		psi_measure(gc, cpu, now);
	/* It does not delegate, see "The list". */
	psi_union_join(gc, gc, cpu, now);
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

/* After a fold: a group with CPUs stays on the list, unless its cgroup is gone. */
static bool psi_stays(struct psi_group *group)
{
	return !READ_ONCE(group->removed) && psi_next_cpu(group, -1) < nr_cpu_ids;
}

/*
 * A group without CPUs leaves the list, unless one joins now. It must have none when it
 * leaves: the ->joined of its next CPU says that there was no stall before.
 */
static bool psi_leaves(struct psi_group *group)
{
	if (READ_ONCE(group->removed))
		return true;
	/*
	 * A CPU that joins sets its bit, then looks at ->listed; here it is the other way
	 * round. One of the two sees the other, and puts the group back.
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
		struct psi_group_cpu *gc = psi_system.cpus[cpu];

		/* A state that begins now: its CPU joins the list again. */
		if (data_race(psi_add_delegated(gc, 0, NULL)->states)) {
			idle = false;
			break;
		}
	}
	rcu_read_unlock();
	return idle && !psi_sampling(&psi_system);
}

/*
 * The system has been folded: have it leave the list if it is idle. Return the time for the
 * groups that are folded next: not before ->rested, see psi_idle_until().
 */
static u64 psi_rest_when_idle(struct psi_folder *folder, u64 now)
{
	if (!psi_system_idle())
		return now;
	now = psi_read_clock();
	atomic64_set(&folder->rested, now);
	psi_unlist_idle(&psi_system, true);
	return now;
}

/*
 * Sharing the list
 */

/* Take groups of the list, from the one returned up to @end, which is not among them. */
static struct list_head *psi_fold_take(struct psi_folder *folder, struct list_head **end)
{
	struct list_head *first = folder->next, *pos = first;
	int i;

	for (i = 0; i < PSI_FOLD_CHUNK && pos != &folder->groups; i++)
		pos = pos->next;
	WRITE_ONCE(folder->next, pos);
	*end = pos;
	return first;
}

/* Whether groups are left that no thread has taken. */
static bool psi_fold_left(const struct psi_folder *folder)
{
	return READ_ONCE(folder->next) != &folder->groups;
}

/* Fold groups until none is left to take. The work goes on since @began. */
static void psi_fold_share(struct psi_folder *folder, u64 began)
{
	u64 ran = task_sched_runtime(current), now;
	struct list_head *pos, *end;

	spin_lock(&folder->lock);
	/* A helper that comes too late changes nothing: the next fold may be about to begin. */
	if (!psi_fold_left(folder))
		goto out;
	folder->busy++;
	do {
		pos = psi_fold_take(folder, &end);
		spin_unlock(&folder->lock);
		now = psi_read_clock();
		for (; pos != end; pos = pos->next) {
			now = psi_fold_group(list_entry(pos, struct psi_group, active), now);
			psi_worker_relax(began, now);
		}
		spin_lock(&folder->lock);
	} while (psi_fold_left(folder));
	folder->took += task_sched_runtime(current) - ran;
	if (!--folder->busy)
		wake_up(&folder->done);
out:
	spin_unlock(&folder->lock);
}

/* The lock makes what helpers wrote visible, when none is at it any more. */
static bool psi_fold_busy(struct psi_folder *folder)
{
	bool busy;

	spin_lock(&folder->lock);
	busy = folder->busy;
	spin_unlock(&folder->lock);
	return busy;
}

/* Fold all groups of the list, from @first on, together with up to @helpers helpers. */
static void psi_fold_together(struct psi_folder *folder, struct list_head *first,
			      unsigned int helpers)
{
	spin_lock(&folder->lock);
	WRITE_ONCE(folder->next, first);
	spin_unlock(&folder->lock);
	wake_up_nr(&folder->ask, helpers);
	psi_fold_share(folder, folder->worker.began);
	wait_event_idle(folder->done, !psi_fold_busy(folder));
}

static int psi_helper_run(void *arg)
{
	struct psi_folder *folder = arg;

	psi_ignore_current();
	while (!kthread_should_stop()) {
		wait_event_idle_exclusive(folder->ask,
					  psi_fold_left(folder) || kthread_should_stop());
		psi_fold_share(folder, local_clock());
	}
	return 0;
}

/* Without memory for a thread the next long fold tries again. */
static void psi_helper_make(struct work_struct *work)
{
	struct psi_folder *folder = container_of(work, struct psi_folder, make);
	struct task_struct *thread;
	char name[TASK_COMM_LEN];

	snprintf(name, sizeof(name), "psi_fold:%u", folder->helpers + 1);
	thread = psi_thread_create(psi_helper_run, folder, name);
	if (IS_ERR(thread))
		return;
	wake_up_process(thread);
	WRITE_ONCE(folder->helpers, folder->helpers + 1);
}

/* How many helpers are to share a fold, by how long the last one took. */
static unsigned int psi_helpers_wanted(const struct psi_folder *folder)
{
	unsigned int cpus, most = PSI_HELPERS;

	if (likely(folder->took < PSI_FOLD_NS))
		return 0;
	cpus = cpumask_weight_and(&psi_worker_cpus, cpu_online_mask);
	if (PSI_FOLD_NS)
		most = min_t(u64, div64_u64(folder->took, PSI_FOLD_NS), most);
	return cpus ? min(cpus - 1, most) : 0;
}

/* The same, of those that there are. Have one more made, if there are too few. */
static unsigned int psi_helpers(struct psi_folder *folder)
{
	unsigned int wanted = psi_helpers_wanted(folder), helpers = READ_ONCE(folder->helpers);

	if (wanted > helpers)
		queue_work(psi_wq, &folder->make);
	return min(wanted, helpers);
}

static void psi_fold(struct psi_folder *folder)
{
	unsigned int helpers = psi_helpers(folder);
	u64 ran = task_sched_runtime(current), now = psi_read_clock();
	struct psi_group *group, *next;
	struct list_head *first;

	psi_fold_collect(folder);
	first = folder->groups.next;
	if (first == &psi_system.active) {
		first = first->next;
		now = psi_fold_group(&psi_system, now);
		now = psi_rest_when_idle(folder, now);
	}
	folder->took = 0;
	if (helpers)
		psi_fold_together(folder, first, helpers);
	list_for_each_entry_safe(group, next, &folder->groups, active) {
		if (helpers)
			now = psi_read_clock();
		else if (group != &psi_system)
			now = psi_fold_group(group, now);
		/* Its next window begins after the rest: psi_idle_until() relies on that. */
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
	if (!helpers)
		folder->took = task_sched_runtime(current) - ran;
}

/*
 * The thread folds at the end of each period, and goes on while the system is on the list,
 * or a group in its inbox. Without any it rests, and the first to join kicks it.
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
