// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the fold, and readers
 *
 * Windows
 *
 *   The pressure of a group in a window is a mean over CPUs, in which a CPU weighs as much
 *   as the group used it in that window (psi_avgs.c). So it depends on where the window
 *   begins and ends. So windows must not depend on readers.
 *   They end where the fold visits a group: at every PSI_PERIOD, for all groups. A reader
 *   sees the total of all windows that ended, plus the mean of the running one so far, and
 *   ends nothing. The mean of a running window may shrink as weights change;
 *   psi_group.shown keeps what is printed from going backwards until the total catches up.
 *
 *   Times on a CPU grow for ever. Nobody takes them away: the fold remembers in
 *   psi_group.seen what it saw, and the difference is what the window has. To end a window
 *   the fold is a reader like any other, then: it needs no runqueue lock, and may be
 *   preempted anywhere but in a write section of psi_group.seq.
 *
 *   Readers must find all CPUs in the same window. So each CPU has two slots: readers use
 *   one, the fold fills the other, and psi_group.folds says which is which. To end a window
 *   is to change that number, with the total and the averages, in one short write section
 *   of psi_group.seq. If looking at the CPUs took longer than PSI_SAMPLE_NS (1 ms), as the
 *   fold was preempted, it looks again, up to three times: a window must not end at
 *   different times on different CPUs.
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
 *   When the system is idle everywhere after a fold, the fold rests: its thread sets no
 *   timer. It takes the CPUs off the list of the system without waiting for an idle window,
 *   so that the next activity wakes the thread. Waiting would keep the machine busy: each
 *   time the thread wakes up, deferrable work of others runs too, which is activity. Other
 *   groups stay on the list while the fold rests. Nothing of theirs is lost: what they did
 *   before is still in their times, and they can do nothing while the system is idle.
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

/* To look at the CPUs takes less, unless the thread is held up or they are very many. */
#define PSI_SAMPLE_NS		NSEC_PER_MSEC

/*
 * What was seen
 */

static size_t psi_seen_stride(unsigned int slots)
{
	return struct_size_t(struct psi_seen_cpu, slot, slots);
}

static struct psi_seen_cpu *psi_seen_at(struct psi_seen *seen, unsigned int i)
{
	return (void *)seen->entries + i * psi_seen_stride(seen->slots);
}

/* The first entry at @from or later whose CPU is @cpu or a higher one. */
static unsigned int psi_seen_search(struct psi_seen *seen, unsigned int from, int cpu)
{
	unsigned int to = seen->nr;

	/* Mostly it is the next one. */
	if (from < to && psi_seen_at(seen, from)->cpu >= cpu)
		return from;
	while (from < to) {
		unsigned int mid = from + (to - from) / 2;

		if (psi_seen_at(seen, mid)->cpu < cpu)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/*
 * The entry of a CPU, NULL without one. @at, where the search for a lower CPU ended, is
 * where this one begins.
 */
static struct psi_seen_cpu *psi_seen_find(struct psi_seen *seen, unsigned int *at, int cpu)
{
	struct psi_seen_cpu *entry;

	if (!seen)
		return NULL;
	*at = psi_seen_search(seen, *at, cpu);
	if (*at == seen->nr)
		return NULL;
	entry = psi_seen_at(seen, *at);
	if (entry->cpu != cpu)
		return NULL;
	++*at;
	return entry;
}

static int psi_mask_next(const struct cpumask *mask, int cpu)
{
	/* A CPU that joins meanwhile may be seen or not. */
	return data_race(cpumask_next(cpu, mask));
}

/* How many CPUs have no entry. */
static unsigned int psi_seen_missing(struct psi_seen *seen, const struct cpumask *cpus)
{
	unsigned int at = 0, nr = 0;
	int cpu;

	for (cpu = psi_mask_next(cpus, -1); cpu < nr_cpu_ids; cpu = psi_mask_next(cpus, cpu))
		nr += !psi_seen_find(seen, &at, cpu);
	return nr;
}

static struct psi_seen *psi_seen_alloc(unsigned int slots, unsigned int nr)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
	struct psi_seen *seen = kvzalloc(sizeof(*seen) + nr * psi_seen_stride(slots), gfp);

	if (seen)
		seen->slots = slots;
	return seen;
}

/**
 * psi_seen_grow - make room for more CPUs
 * @seen: what was seen so far
 * @cpus: the CPUs, more of which may come meanwhile
 *
 * Context: Process context, may sleep, but not for long: under pressure it fails.
 * Return: @seen when nothing is missing, or a larger copy, or NULL without memory.
 */
static struct psi_seen *psi_seen_grow(struct psi_seen *seen, const struct cpumask *cpus)
{
	unsigned int room = psi_seen_missing(seen, cpus), old = 0;
	struct psi_seen_cpu *from, *to;
	struct psi_seen *grown;
	int cpu;

	if (!room)
		return seen;
	grown = psi_seen_alloc(seen->slots, seen->nr + room);
	if (!grown)
		return NULL;
	/* Merge. A CPU that joins meanwhile may be left for the next time. */
	cpu = psi_mask_next(cpus, -1);
	while (old < seen->nr || (cpu < nr_cpu_ids && room)) {
		from = psi_seen_at(seen, old);
		to = psi_seen_at(grown, grown->nr++);
		if (old < seen->nr && (cpu >= nr_cpu_ids || !room || from->cpu <= cpu)) {
			if (cpu == from->cpu)
				cpu = psi_mask_next(cpus, cpu);
			memcpy(to, from, psi_seen_stride(seen->slots));
			old++;
		} else {
			to->cpu = cpu;
			cpu = psi_mask_next(cpus, cpu);
			room--;
		}
	}
	return grown;
}

/* The time on a CPU since it was seen: all of it if it never was. */
static void psi_times_since(const u64 *times, const u64 *seen, u64 *since)
{
	int s;

	for (s = 0; s < PSI_NR_STATES; s++)
		since[s] = psi_since(times[s], seen ? seen[s] : 0);
}

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

/* What the running window of a group has so far. */
static void psi_peek_window(struct psi_group *group, unsigned int states, struct psi_mean *mean)
{
	u64 times[PSI_NR_STATES], since[PSI_NR_STATES];
	unsigned int at = 0, slot = psi_last_slot(group);
	struct psi_seen_cpu *entry;
	struct psi_seen *seen;
	int cpu;

	memset(mean, 0, sizeof(*mean));
	rcu_read_lock();
	seen = rcu_dereference(group->seen);
	psi_for_each_cpu(cpu, group) {
		entry = psi_seen_find(seen, &at, cpu);
		psi_peek_cpu(per_cpu_ptr(group->cpus, cpu), cpu, times);
		psi_times_since(times, entry ? entry->slot[slot].times : NULL, since);
		psi_mean_add(mean, since, states);
	}
	rcu_read_unlock();
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
 * struct psi_reading - what a group's files show
 * @total: per state, pressure since the group began, in ns
 * @avgs: the averages as of the last period that ended
 */
struct psi_reading {
	u64			total[PSI_NR_STATES];
	struct psi_avgs		avgs;
};

/**
 * psi_read - read what a group's files show
 * @group: the group
 * @states: the states to read, a bit mask
 * @reading: filled in for @states
 *
 * Takes no lock, and ends no window. The only write that others see is the one that keeps
 * totals from going backwards.
 *
 * Context: Process context.
 */
static void psi_read(struct psi_group *group, unsigned int states, struct psi_reading *reading)
{
	struct psi_mean window;
	unsigned int seq;
	u64 now;
	int s;

	do {
		seq = read_seqcount_begin(&group->seq);
		now = local_clock();
		memcpy(reading->total, group->total, sizeof(reading->total));
		reading->avgs = group->avgs;
		psi_peek_window(group, states, &window);
	} while (read_seqcount_retry(&group->seq, seq));

	/* Full comes before some: another reader may have shown more of it meanwhile. */
	for (s = PSI_NR_STATES - 1; s > PSI_NONIDLE; s--) {
		u64 total = reading->total[s] + window.stall[s];

		if (!(states & BIT(s)))
			continue;
		if (PSI_SOME_STATES & BIT(s))
			total = max(total, reading->total[s + 1]);
		reading->total[s] = psi_show_total(&group->shown[s], total);
	}
	psi_avgs_update(&reading->avgs, psi_idle_until(group, reading->avgs.at), now,
			window.stall);
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

/* A sampler is at work, or will be as soon as its monitor comes by. */
static bool psi_sampling(const struct psi_group *group)
{
	int prio;

	for (prio = 0; prio < PSI_NR_PRIOS; prio++) {
		struct psi_watch *watch = READ_ONCE(group->watch[prio]);

		/* In this order: psi_watch_answer() writes them the other way round. */
		if (watch && (atomic_read_acquire(&watch->alarm.queued) ||
			      READ_ONCE(watch->at_work)))
			return true;
	}
	return false;
}

/* Whether a group is idle on a CPU, and was since it had the time @nonidle. */
static bool psi_idle_since(struct psi_group_cpu *gc, u64 nonidle)
{
	u64 times[PSI_NR_STATES];

	return !psi_times(gc, 0, 0, times)->states && !psi_since(times[PSI_NONIDLE], nonidle);
}

/*
 * The fold does not visit an idle group on a CPU any more. Its next activity there calls
 * psi_walk_slow(). It need not delegate either, so that only CPUs on the list do.
 *
 * Return: false if the CPU is at something, or the group was not idle since it had the
 * time @nonidle.
 */
static bool psi_unlist(struct psi_group *group, int cpu, u64 nonidle)
{
	struct psi_group_cpu *gc = per_cpu_ptr(group->cpus, cpu);
	seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);
	unsigned long flags;
	bool idle = false;

	local_irq_save(flags);
	if (!raw_spin_rq_trylock(cpu_rq(cpu)))
		goto out;
	idle = psi_idle_since(gc, nonidle);
	if (idle) {
		if (gc->delegate) {
			raw_write_seqcount_begin(seq);
			psi_undelegate(gc);
			raw_write_seqcount_end(seq);
		}
		WRITE_ONCE(gc->slow, PSI_ALL_STATES);
		cpumask_clear_cpu(cpu, group->cpumask);
	}
	raw_spin_rq_unlock(cpu_rq(cpu));
out:
	local_irq_restore(flags);
	return idle;
}

/* Take a CPU off the list if a group is idle on it since it was folded. */
static void psi_unlist_entry(struct psi_group *group, struct psi_seen_cpu *entry)
{
	const struct psi_slot *slot = &entry->slot[psi_last_slot(group)];

	if (!psi_unlist(group, entry->cpu, slot->times[PSI_NONIDLE]))
		return;
	/* The fold leaves both slots alone from now on. */
	psi_fold_publish(group);
	entry->slot[!psi_last_slot(group)] = *slot;
	entry->slot[0].weight = 0;
	entry->slot[1].weight = 0;
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

		if (entry && (now || !entry->slot[psi_last_slot(group)].weight))
			psi_unlist_entry(group, entry);
	}
}

/* Note in the other slot what a CPU has by now, and add what is new to @mean. */
static void psi_fold_cpu(struct psi_group *group, struct psi_seen_cpu *entry,
			 struct psi_mean *mean)
{
	const struct psi_slot *last = &entry->slot[psi_last_slot(group)];
	struct psi_slot *slot = &entry->slot[!psi_last_slot(group)];
	u64 times[PSI_NR_STATES], since[PSI_NR_STATES];
	int s;

	psi_peek_cpu(per_cpu_ptr(group->cpus, entry->cpu), entry->cpu, times);
	psi_times_since(times, last->times, since);
	/* Without weight it would be lost; the next window has it. */
	if (!since[PSI_NONIDLE])
		memset(since, 0, sizeof(since));
	for (s = 0; s < PSI_NR_STATES; s++)
		slot->times[s] = last->times[s] + since[s];
	slot->weight = since[PSI_NONIDLE];
	psi_mean_add(mean, since, PSI_ALL_STATES);
}

/* What the fold saw of a group; a CPU that is missing now comes with the next fold. */
static struct psi_seen *psi_fold_seen(struct psi_group *group)
{
	struct psi_seen *seen = rcu_dereference_protected(group->seen, true), *grown;
	struct psi_seen none = { .slots = 2 };

	grown = psi_seen_grow(seen ?: &none, group->cpumask);
	if (!grown || grown == &none || grown == seen)
		return seen;
	rcu_assign_pointer(group->seen, grown);
	if (seen)
		kvfree_rcu_mightsleep(seen);
	return grown;
}

/* Look at the CPUs of a group. Return when that began. */
static u64 psi_fold_look(struct psi_group *group, struct psi_seen *seen, struct psi_mean *mean)
{
	u64 now = local_clock();
	unsigned int at = 0;
	int cpu;

	memset(mean, 0, sizeof(*mean));
	psi_for_each_cpu(cpu, group) {
		struct psi_seen_cpu *entry = psi_seen_find(seen, &at, cpu);

		if (entry)
			psi_fold_cpu(group, entry, mean);
	}
	return now;
}

/* End the running window of a group. */
static void psi_fold_group(struct psi_group *group)
{
	struct psi_seen *seen = psi_fold_seen(group);
	struct psi_avgs avgs = group->avgs;
	struct psi_mean mean;
	int s, tries = 3;
	u64 now;

	do {
		now = psi_fold_look(group, seen, &mean);
	} while (local_clock() - now > PSI_SAMPLE_NS && --tries);
	psi_avgs_update(&avgs, psi_idle_until(group, avgs.at), now, mean.stall);

	psi_fold_publish(group);
	for (s = 0; s < PSI_NR_STATES; s++)
		group->total[s] += mean.stall[s];
	group->avgs = avgs;
	/* After what is in the slot: samplers look without ->seq. */
	smp_store_release(&group->folds, group->folds + 1);
	psi_fold_publish_end(group);

	/* Samplers at work look at the CPUs on the list. */
	if (!psi_sampling(group))
		psi_unlist_idle(group, false);
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
	struct psi_group *group = gc->group;

	cpumask_set_cpu(cpu, group->cpumask);
	/* Pairs with psi_leaves(). Others may write that line: look before. */
	smp_mb__after_atomic();
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
 * After a fold: a group without CPUs leaves the list, unless one joins now. It must have
 * none when it leaves: the ->joined of its next CPU says that there was no stall before.
 */
static bool psi_leaves(struct psi_group *group)
{
	if (READ_ONCE(group->removed))
		return true;
	if (psi_next_cpu(group, -1) < nr_cpu_ids)
		return false;
	/*
	 * A CPU that joins sets its bit, then looks at ->listed; here it is the other way
	 * round. One of the two sees the other, and puts the group back.
	 */
	atomic_xchg(&group->listed, 0);
	return psi_next_cpu(group, -1) >= nr_cpu_ids || atomic_xchg(&group->listed, 1);
}

static bool psi_system_idle(void)
{
	u64 times[PSI_NR_STATES];
	bool idle = true;
	int cpu;

	rcu_read_lock();
	psi_for_each_cpu(cpu, &psi_system) {
		struct psi_group_cpu *gc = per_cpu_ptr(psi_system.cpus, cpu);

		/* A state that begins now: its CPU joins the list again. */
		if (data_race(psi_times(gc, 0, 0, times)->states)) {
			idle = false;
			break;
		}
	}
	rcu_read_unlock();
	return idle && !psi_sampling(&psi_system);
}

/* The system has been folded: have it leave the list if it is idle. */
static void psi_rest_when_idle(struct psi_folder *folder)
{
	if (!psi_system_idle())
		return;
	atomic64_set(&folder->rested, local_clock());
	psi_unlist_idle(&psi_system, true);
}

static void psi_fold(struct psi_folder *folder)
{
	struct psi_group *group, *next;

	psi_fold_collect(folder);
	list_for_each_entry_safe(group, next, &folder->groups, active) {
		psi_fold_group(group);
		if (group == &psi_system)
			psi_rest_when_idle(folder);
		/* When it leaves, it may be in the inbox at once. */
		list_del(&group->active);
		if (psi_leaves(group))
			psi_group_put(group);
		else
			list_add_tail(&group->active, &next->active);
		psi_worker_relax(&folder->worker);
	}
}

/*
 * The thread folds at the end of each period, and goes on while the system is on the list,
 * or a group in its inbox. Without any it rests, and the first to join kicks it.
 */
static u64 psi_fold_work(struct psi_worker *worker)
{
	struct psi_folder *folder = container_of(worker, struct psi_folder, worker);
	u64 now = local_clock();

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
