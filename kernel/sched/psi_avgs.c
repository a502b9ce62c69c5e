// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: from per-CPU times to totals and averages
 *
 * Pressure of a window
 *
 *   Tasks on one CPU can only lose work that this CPU could have done. So the
 *   pressure of a group in a window is the mean of its per-CPU times t_s[c]
 *   in a state, weighted with the time w[c] the group used or wanted the CPU:
 *
 *	T_s = sum_c(t_s[c] * w[c]) / sum_c(w[c]),	w[c] = t_nonidle[c]
 *
 *   psi_add_cpu() adds one CPU at a time, T += (t - T) * w / (W + w), in ns
 *   throughout: neither weights nor products lose bits, whatever the length of
 *   the window, and each CPU rounds by less than 2 ns.
 *
 * The fold
 *
 *   T_s depends on where a window begins and ends, so windows must not depend
 *   on who looks. They end when the fold takes the per-CPU times away, and the
 *   fold runs at every PSI_PERIOD of the clock, for all groups. A reader sees
 *   the total of all folds plus the T_s of the running window so far, and ends
 *   nothing. T_s of a running window may shrink as weights change; psi_group.shown
 *   keeps what is printed from going backwards until the total catches up.
 *
 *   A group is folded while it is on the list psi_active, on the CPUs in its
 *   cpumask. The walk puts both there, at the first activity on a CPU; the fold
 *   takes a CPU away when the group is idle on it, and the group when no CPU is
 *   left. Cost: O(groups active on a CPU, CPUs), and at most PSI_CHAIN times that where
 *   groups delegate; nothing for CPUs that a group does not use, nothing for groups
 *   that sleep.
 *
 * Averages
 *
 *   An average is fed once per PSI_PERIOD with the share of that period that
 *   was stall: avg = avg * e + share * (1 - e). Periods end at multiples of
 *   PSI_PERIOD on local_clock(); folds run a little later, and how much later
 *   varies by more than the error we allow ourselves. psi_avgs_advance() takes
 *   the stall of a window as spread evenly over it, and splits it at the end
 *   of the period. A late fold, however late, splits its window into as
 *   many periods as have ended; equal periods are fed in closed form:
 *
 *	n periods of share p:	avg = p + (avg - p) * e^n
 *
 *   What would raise a share above 1, and what a division leaves, is kept for the
 *   next period. Stall moves from the window to periods; none appears or is lost.
 *
 * The clock
 *
 *   A worker folds at the end of each period, and goes on while the list has
 *   groups. When there are none it rests, and the first group to join kicks it.
 *   Another wake-up, only to see that nothing has happened, would do worse than
 *   waste time: it would let deferrable work of others run, which is activity.
 *
 *   While a group is off the list it is idle; psi_group.joined is when it got
 *   back on. Up to it, a group that has not been folded since had no stall.
 */

#define PSI_PERIOD		(2ULL * NSEC_PER_SEC)

/*
 * Averages are fractions of 2^31: a product with a factor of 2^32 stays below
 * 2^63, and rounding in every period adds up to less than 1e-7 in the slowest.
 */
#define PSI_AVG_SHIFT		31
#define PSI_AVG_ONE		BIT(PSI_AVG_SHIFT)

/* exp(-2s/10s), exp(-2s/60s), exp(-2s/300s) in units of 2^-32 */
static const u32 psi_decay[PSI_NR_HORIZONS] = { 3516421809U, 4154161520U, 4266429413U };

static u64 psi_clock_work(struct psi_worker *worker);

/* Its inbox has the groups that the next fold visits. */
static struct psi_worker psi_clock = { .name = "psi", .work = psi_clock_work };

/*
 * Arithmetic: no clock, no locks, all inputs are arguments
 */

/* a * b / c, rounded down, for a product of up to 128 bits; 0 if a is */
static u64 psi_muldiv(u64 a, u64 b, u64 c)
{
	return a && b ? mul_u64_u64_div_u64(a, b, c) : 0;
}

/**
 * psi_add_cpu - add one CPU to the pressure of a window
 * @stall: per state, the weighted mean so far, in ns
 * @weight: sum of the weights so far, in ns
 * @times: the times of the CPU in that window, in ns
 */
static void psi_add_cpu(u64 *stall, u64 *weight, const u64 *times)
{
	u64 w = times[PSI_NONIDLE], sum = *weight + w;
	int s;

	if (!w)
		return;
	if (!*weight) {
		/* Mostly there is one. */
		memcpy(stall, times, PSI_NR_STATES * sizeof(*stall));
	} else {
		for (s = 0; s < PSI_NR_STATES; s++)
			stall[s] = psi_muldiv(stall[s], *weight, sum) +
				   psi_muldiv(times[s], w, sum);
	}
	*weight = sum;
}

/* factor^n in units of 2^-32, for a factor below 1 */
static u64 psi_pow(u32 factor, u64 n)
{
	u64 square = factor, result = 1ULL << 32;

	for (; n && result; n >>= 1) {
		if (n & 1)
			result = (result * square) >> 32;
		square = (square * square) >> 32;
	}
	return result;
}

/*
 * Feed @share to an average, of which @keep stays: both in 1 / PSI_AVG_ONE, and 2^-32.
 * Rounded to the nearest, but without any share down: so it comes to an end.
 */
static u32 psi_feed(u32 avg, u32 share, u64 keep)
{
	u64 one = 1ULL << 32;

	return (avg * keep + share * (one - keep) + (share ? one / 2 : 0)) >> 32;
}

/* End @n periods of a state with the same share, after @stall ns in all of them. */
static void psi_avgs_end(struct psi_avgs *avgs, int s, u64 stall, u64 n, const u64 *keep)
{
	u64 sum = avgs->pending[s] + stall;
	u64 each = min_t(u64, div64_u64(sum, n), PSI_PERIOD);
	u32 share = div64_u64(each << PSI_AVG_SHIFT, PSI_PERIOD);
	int h;

	avgs->pending[s] = sum - each * n;
	for (h = 0; h < PSI_NR_HORIZONS; h++)
		avgs->avg[s][h] = psi_feed(avgs->avg[s][h], share, keep[h]);
}

/* Nothing to average in this state for long, and nothing now: the common case. */
static bool psi_avgs_zero(const struct psi_avgs *avgs, int s, u64 stall)
{
	const u32 *avg = avgs->avg[s];

	return !(stall | avgs->pending[s] | avg[PSI_10S] | avg[PSI_60S] | avg[PSI_300S]);
}

/**
 * psi_avgs_init - averages of a group that begins now
 * @avgs: the averages, zeroed
 * @now: ns of local_clock()
 */
static void psi_avgs_init(struct psi_avgs *avgs, u64 now)
{
	avgs->at = now;
	avgs->mark = (div64_u64(now, PSI_PERIOD) + 1) * PSI_PERIOD;
}

/**
 * psi_avgs_advance - add the stall of a window, end the periods it reaches
 * @avgs: the averages, as of the end of the window before
 * @to: end of the window, ns of local_clock()
 * @window: per state, stall since @avgs->at, in ns; NULL for none
 */
static void psi_avgs_advance(struct psi_avgs *avgs, u64 to, const u64 *window)
{
	u64 stall[PSI_NR_STATES] = { };
	int s, h;

	/* Nobody averages PSI_NONIDLE. */
	if (window)
		memcpy(stall + 1, window + 1, sizeof(stall) - sizeof(*stall));

	while (to >= avgs->mark) {
		/* A period that has begun ends alone, whole ones go together. */
		bool whole = avgs->at + PSI_PERIOD == avgs->mark;
		u64 n = whole ? div64_u64(to - avgs->at, PSI_PERIOD) : 1;
		u64 end = avgs->mark + (n - 1) * PSI_PERIOD;
		u64 keep[PSI_NR_HORIZONS];

		for (h = 0; h < PSI_NR_HORIZONS; h++)
			keep[h] = psi_pow(psi_decay[h], n);
		for (s = 0; s < PSI_NR_STATES; s++) {
			u64 part;

			if (psi_avgs_zero(avgs, s, stall[s]))
				continue;
			part = psi_muldiv(stall[s], end - avgs->at, to - avgs->at);
			psi_avgs_end(avgs, s, part, n, keep);
			stall[s] -= part;
		}
		avgs->at = end;
		avgs->mark = end + PSI_PERIOD;
	}

	for (s = 0; s < PSI_NR_STATES; s++)
		avgs->pending[s] += stall[s];
	avgs->at = max(avgs->at, to);
}

/* An average in hundredths of a percent. */
static unsigned int psi_avg_basis_points(u32 avg)
{
	return ((u64)avg * 10000 + PSI_AVG_ONE / 2) >> PSI_AVG_SHIFT;
}

/*
 * Fold and read
 */

/*
 * Bring averages to @now, given the stall of the running window. Up to @joined
 * a group that was not folded had none.
 */
static void psi_avgs_update(struct psi_avgs *avgs, u64 joined, u64 now, const u64 *stall)
{
	if (avgs->at < joined)
		psi_avgs_advance(avgs, joined, NULL);
	psi_avgs_advance(avgs, now, stall);
}

static void psi_samplers_fold_cpu(struct psi_group *group, int cpu, const u64 *times);
static void psi_samplers_fold(struct psi_group *group);

/* End the running window of a group. */
static void psi_fold_group(struct psi_group *group)
{
	u64 times[PSI_NR_STATES], stall[PSI_NR_STATES] = { }, weight = 0, now;
	int cpu, s;

	spin_lock(&group->lock);
	now = local_clock();
	psi_for_each_cpu(cpu, group) {
		psi_take_cpu(group, cpu, times);
		psi_add_cpu(stall, &weight, times);
		psi_samplers_fold_cpu(group, cpu, times);
	}
	psi_samplers_fold(group);
	for (s = 0; s < PSI_NR_STATES; s++)
		group->total[s] += stall[s];
	psi_avgs_update(&group->avgs, atomic64_read(&group->joined), now, stall);
	spin_unlock(&group->lock);
}

/**
 * psi_read - what a group's files show
 * @group: the group
 * @total: filled in, per state, pressure since the group began, in ns
 * @avgs: filled in, the averages as of the last period that ended
 *
 * Context: Process context. Ends no window, so it changes nothing that others
 *	    will read, but for keeping their totals from going backwards.
 */
static void psi_read(struct psi_group *group, u64 *total, struct psi_avgs *avgs)
{
	u64 times[PSI_NR_STATES], stall[PSI_NR_STATES] = { }, weight = 0, now;
	int cpu, s;

	spin_lock(&group->lock);
	now = local_clock();
	psi_for_each_cpu(cpu, group) {
		psi_peek_cpu(per_cpu_ptr(group->cpus, cpu), cpu, times);
		psi_add_cpu(stall, &weight, times);
	}
	for (s = 0; s < PSI_NR_STATES; s++) {
		group->shown[s] = max(group->shown[s], group->total[s] + stall[s]);
		total[s] = group->shown[s];
	}
	*avgs = group->avgs;
	psi_avgs_update(avgs, atomic64_read(&group->joined), now, stall);
	spin_unlock(&group->lock);
}

/*
 * The clock
 */

/*
 * The group of @pc becomes active on a CPU that the last fold found it idle on.
 * Called from psi_tell(), under the lock of that CPU's runqueue.
 */
static void psi_clock_join(struct psi_cpu *pc, int cpu, u64 now)
{
	struct psi_group *group = pc->group;

	cpumask_set_cpu(cpu, group->cpumask);
	/* A full barrier, which pairs with the one in psi_leaves_clock(). */
	if (atomic_xchg(&group->listed, 1))
		return;
	refcount_inc(&group->refs);
	atomic64_set(&group->joined, now);
	llist_add(&group->active, &psi_clock.inbox);
	psi_kick(&psi_clock);
}

/*
 * After a fold: a group without CPUs leaves the list, unless one joins now. It must have
 * none when it leaves: ->joined, of who comes next, says that there was no stall before.
 */
static bool psi_leaves_clock(struct psi_group *group)
{
	if (psi_next_cpu(group, -1) < nr_cpu_ids)
		return false;
	/*
	 * A CPU that joins sets its bit, then looks at ->listed; here it is the
	 * other way round. One of the two sees the other, and puts the group back.
	 */
	atomic_xchg(&group->listed, 0);
	return psi_next_cpu(group, -1) >= nr_cpu_ids || atomic_xchg(&group->listed, 1);
}

static void psi_fold(void)
{
	struct llist_node *list = llist_del_all(&psi_clock.inbox);
	struct psi_group *group, *next;

	llist_for_each_entry_safe(group, next, list, active) {
		psi_fold_group(group);
		if (psi_leaves_clock(group))
			psi_group_put(group);
		else
			llist_add(&group->active, &psi_clock.inbox);
		cond_resched();
	}
}

static u64 psi_clock_work(struct psi_worker *worker)
{
	static u64 mark;	/* end of the running period, 0 while at rest */
	u64 now = local_clock();

	if (mark && now >= mark) {
		psi_fold();
		psi_debug_check();
	}
	if (llist_empty(&worker->inbox))
		mark = 0;
	else if (now >= mark)
		mark = (div64_u64(now, PSI_PERIOD) + 1) * PSI_PERIOD;
	return mark ?: PSI_NEVER;
}

static int __init psi_clock_start(void)
{
	if (!static_branch_likely(&psi_disabled))
		psi_worker_start(&psi_clock);
	return 0;
}
subsys_initcall(psi_clock_start);
