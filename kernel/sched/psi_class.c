// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the pressure of limits and of shortages
 *
 *   psi_limit.c measures, per CPU, the time in which a limit holds a task of a group, and
 *   the part of it without any shortage ("only"). From these and the plain times follows the
 *   pressure of both classes, in each window and with the weights of the plain files:
 *
 *	limit	   = mean of limit
 *	shortage   = mean of plain - mean of only
 *
 *   On each CPU only <= limit <= plain. The mean keeps that order, as rounding does. So
 *   max(limit, shortage) <= plain <= limit + shortage in each window, to the nanosecond, and
 *   in totals, which are sums of windows.
 *
 *   A group in which no limit ever held a task has nothing of this: limit reads as zero, and
 *   shortage is plain. When a limit holds a task first, the fold copies the plain account
 *   to the one of shortages, and goes on from there.
 */

/* Per window of the fold, the slots of a CPU in psi_limits.seen. */
enum { PSI_SLOT_LIMIT, PSI_SLOT_ONLY, PSI_CLASS_SLOTS };

/**
 * struct psi_class_window - what limits did to a group in a window, means of CPUs
 * @limit: a limit held a task
 * @only: and there was no shortage
 * @at: for psi_seen_find()
 */
struct psi_class_window {
	struct psi_mean		limit;
	struct psi_mean		only;
	unsigned int		at;
};

static struct psi_limits *psi_group_limits(const struct psi_group *group)
{
	/* Pairs with psi_limits_set(). */
	return smp_load_acquire(&group->limits);
}

/* A slot that the fold filled last, or fills now: the one of limit, or that of only. */
static u64 *psi_class_slot(const struct psi_seen *seen, struct psi_seen_cpu *entry,
			   unsigned int window, unsigned int class)
{
	return psi_seen_slot(seen, entry, window * PSI_CLASS_SLOTS + class);
}

/* The times of a group on a CPU, and those of limits, at the same moment. */
static void psi_peek_classes(struct psi_group_cpu *gc, int cpu, unsigned int states, u64 *times,
			     struct psi_limit_times *limits)
{
	seqcount_t *seqcount = &cpu_rq(cpu)->psi_seq;
	unsigned int seq;
	u64 now;

	rcu_read_lock();
	do {
		seq = read_seqcount_begin(seqcount);
		now = psi_read_cpu_clock(cpu);
		psi_times(gc, states, now, irq_time_read(cpu), times);
		psi_limit_times(gc, cpu, now, limits);
	} while (read_seqcount_retry(seqcount, seq));
	rcu_read_unlock();
}

/* The times of one kind of pressure, and the time in use, which is the same for all. */
static void psi_peek_kind(struct psi_group *group, int cpu, enum psi_kind kind,
			  unsigned int states, u64 *times)
{
	struct psi_group_cpu *gc = group->cpus[cpu];
	struct psi_limit_times limits;
	int s;

	if (kind < PSI_LIMIT) {
		psi_peek_cpu(gc, cpu, states, times);
		return;
	}
	psi_peek_classes(gc, cpu, states, times, &limits);
	psi_for_each_state(s, states & ~BIT(PSI_NONIDLE))
		times[s] = kind == PSI_LIMIT ? limits.limit[s] : times[s] - limits.only[s];
}

/*
 * What limits did on a CPU in the running window, in which the plain times grew by @since.
 * Clocks differ a little: what is more than @since counts in the next window.
 */
static void psi_class_since(struct psi_group *group, const struct psi_seen *seen,
			    struct psi_seen_cpu *entry, int cpu, unsigned int states,
			    const u64 *since, struct psi_limit_times *t)
{
	struct psi_slot limit = { }, only = { };
	unsigned int window = psi_last_slot(group);
	u64 times[PSI_NR_STATES];
	int s;

	if (entry) {
		limit = psi_seen_get(seen, psi_class_slot(seen, entry, window, PSI_SLOT_LIMIT));
		only = psi_seen_get(seen, psi_class_slot(seen, entry, window, PSI_SLOT_ONLY));
	}
	psi_peek_classes(group->cpus[cpu], cpu, states, times, t);
	psi_for_each_state(s, states) {
		t->limit[s] = min(psi_since(t->limit[s], limit.times[s]), since[s]);
		t->only[s] = min(psi_since(t->only[s], only.times[s]), t->limit[s]);
	}
	t->limit[PSI_NONIDLE] = since[PSI_NONIDLE];
	t->only[PSI_NONIDLE] = since[PSI_NONIDLE];
}

/* Add one CPU, which has @since in the window. */
static void psi_class_peek(struct psi_group *group, struct psi_limits *limits, int cpu,
			   unsigned int states, const u64 *since, struct psi_class_window *window)
{
	struct psi_seen *seen = rcu_dereference(limits->seen);
	struct psi_seen_cpu *entry = psi_seen_find(seen, &window->at, cpu);
	struct psi_limit_times t;

	psi_class_since(group, seen, entry, cpu, states, since, &t);
	psi_mean_add(&window->limit, t.limit, states);
	psi_mean_add(&window->only, t.only, states);
}

/* Note in the other slot of a CPU that it has @times in the window. */
static void psi_class_note(struct psi_group *group, const struct psi_seen *seen,
			   struct psi_seen_cpu *entry, unsigned int class, const u64 *times)
{
	const u64 *last = psi_class_slot(seen, entry, psi_last_slot(group), class);
	u64 *next = psi_class_slot(seen, entry, !psi_last_slot(group), class);
	unsigned int i = 0;
	int s;

	psi_for_each_state(s, seen->states) {
		next[i] = last[i] + times[s];
		i++;
	}
}

/*
 * The same by the fold, which has @since for @states. Return whether there is room to note
 * what was seen.
 */
static bool psi_class_fold(struct psi_group *group, struct psi_limits *limits, int cpu,
			   unsigned int states, const u64 *since, struct psi_class_window *window)
{
	struct psi_seen *seen = rcu_dereference_protected(limits->seen, true);
	struct psi_seen_cpu *entry = psi_seen_find(seen, &window->at, cpu);
	unsigned int room = entry ? seen->states & states : 0;
	struct psi_limit_times t __uninitialized;
	int s;

	psi_class_since(group, seen, entry, cpu, room, since, &t);
	/* The CPU has joined just now, or the state begun, or there was no memory: wait. */
	psi_for_each_state(s, PSI_ALL_STATES & ~(room | BIT(PSI_NONIDLE))) {
		t.limit[s] = 0;
		t.only[s] = 0;
	}
	if (entry) {
		psi_class_note(group, seen, entry, PSI_SLOT_LIMIT, t.limit);
		psi_class_note(group, seen, entry, PSI_SLOT_ONLY, t.only);
	}
	psi_mean_add(&window->limit, t.limit, states);
	psi_mean_add(&window->only, t.only, states);
	return !(states & ~(room | BIT(PSI_NONIDLE)));
}

/* Take from the stall of a window the part in which only limits held tasks. */
static void psi_class_shortage(struct psi_mean *mean, const struct psi_class_window *window,
			       unsigned int states)
{
	int s;

	psi_for_each_state(s, states)
		mean->stall[s] -= window->only.stall[s];
}

/* The fold leaves a CPU alone from now on. */
static void psi_class_unlist(struct psi_group *group, int cpu)
{
	struct psi_limits *limits = psi_group_limits(group);
	struct psi_seen_cpu *entry;
	struct psi_seen *seen;
	unsigned int at = 0, class;

	if (!limits)
		return;
	seen = rcu_dereference_protected(limits->seen, true);
	entry = psi_seen_find(seen, &at, cpu);
	for (class = 0; entry && class < PSI_CLASS_SLOTS; class++)
		memcpy(psi_class_slot(seen, entry, !psi_last_slot(group), class),
		       psi_class_slot(seen, entry, psi_last_slot(group), class),
		       seen->words * sizeof(u64));
}

/* Turn the plain slot @folded of a CPU into one of limits or of shortages. */
static void psi_class_folded(struct psi_group *group, enum psi_kind kind, unsigned int window,
			     int cpu, struct psi_slot *folded)
{
	unsigned int class = kind == PSI_LIMIT ? PSI_SLOT_LIMIT : PSI_SLOT_ONLY;
	struct psi_limits *limits = psi_group_limits(group);
	struct psi_seen_cpu *entry;
	struct psi_slot slot = { };
	struct psi_seen *seen;
	unsigned int at = 0;
	int s;

	rcu_read_lock();
	seen = limits ? rcu_dereference(limits->seen) : NULL;
	entry = psi_seen_find(seen, &at, cpu);
	if (entry)
		/* As psi_folded() says, the fold may write it. */
		slot = data_race(psi_seen_get(seen, psi_class_slot(seen, entry, window, class)));
	rcu_read_unlock();
	for (s = PSI_NONIDLE + 1; s < PSI_NR_STATES; s++) {
		if (kind == PSI_LIMIT)
			folded->times[s] = slot.times[s];
		else
			folded->times[s] -= slot.times[s];
	}
}

/* The first fold since the group has limits: all stall so far was shortage. */
static void psi_class_begin(struct psi_group *group, struct psi_limits *limits)
{
	memcpy(limits->shortage.total, group->plain.total, sizeof(limits->shortage.total));
	limits->shortage.avgs = group->plain.avgs;
	limits->limit.avgs.at = group->plain.avgs.at;
	limits->limit.avgs.mark = group->plain.avgs.mark;
}
