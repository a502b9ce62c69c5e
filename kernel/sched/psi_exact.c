// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: exact pressure
 *
 *   The plain files follow a formula (psi_avgs.c) that is right while each CPU is in use
 *   throughout the window. A stall that moves between N CPUs within a window comes out N
 *   times too small: each CPU has an N-th of it, and a mean of these is an N-th. Exact
 *   pressure is defined moment by moment, with n(t) CPUs in use, s(t) of them in the state:
 *
 *	exact T_s = integral of s(t) / n(t)
 *
 *   A window is computed as the share of the CPU time in use that was in the state, times
 *   the time in which any CPU was in use, which psi_union.c keeps:
 *
 *	exact T_s = U * sum_c(t_s[c]) / sum_c(w[c])
 *
 *	CPU 0	 ===-------		=== stalled, --- at work, U 20, w 10 + 10, t 3 + 3:
 *	CPU 1		   ===-------	exact 20 * 6 / 20 = 6, the plain formula says 3
 *
 *   The formula equals the integral if s / n stays the same throughout the window. If 64
 *   CPUs are at work first in a window, and then one alone stalls, the sums do not tell
 *   that these were different times: the busy CPUs outweigh the one. Shorter windows would
 *   tell.
 *
 * Begin
 *
 *   A union costs something whenever the group begins or ends to be in use on a CPU. So
 *   exact pressure begins when a program reads its lines, or arms a trigger on them, for the
 *   first time; totals count from then. A window of the fold is under way at that moment.
 *   psi_exact.before has what that window had before, which does not count.
 */

/* Add one CPU. What is stalled there was in use there. */
static void psi_sum_add(struct psi_mean *sum, const u64 *times, unsigned int states)
{
	u64 w = times[PSI_NONIDLE];
	int s;

	psi_for_each_state(s, states)
		sum->stall[s] += min(times[s], w);
	sum->weight += w;
	sum->most = max(sum->most, w);
}

/* Make a sum exact pressure. Up to what clocks differ, @used is between the limits here. */
static void psi_sum_share(struct psi_mean *sum, unsigned int states, u64 used)
{
	int s;

	used = clamp(used, sum->most, sum->weight);
	psi_for_each_state(s, states)
		sum->stall[s] = psi_muldiv(sum->stall[s], used, sum->weight);
}

/**
 * psi_exact_skip - leave out what a window had before exact pressure was asked for
 * @group: the group
 * @exact: its exact pressure
 * @at: as for psi_seen_find()
 * @cpu: a CPU
 * @states: the states that matter
 * @since: the time on the CPU in that window
 *
 * Context: RCU read-side critical section, or the fold.
 */
static void psi_exact_skip(const struct psi_group *group, const struct psi_exact *exact,
			   unsigned int *at, int cpu, unsigned int states, u64 *since)
{
	struct psi_seen_cpu *entry;
	struct psi_seen *before;
	struct psi_slot had;
	int s;

	if (READ_ONCE(group->folds) != exact->born)
		return;
	before = rcu_dereference_check(exact->before, current->psi.worker);
	entry = psi_seen_find(before, at, cpu);
	if (!entry)
		return;
	had = psi_seen_get(before, psi_seen_slot(before, entry, 0));
	psi_for_each_state(s, states)
		since[s] = psi_since(since[s], had.times[s]);
}

/* A window has ended: the first is never looked at again. */
static void psi_exact_forget(struct psi_exact *exact)
{
	struct psi_seen *before = rcu_dereference_protected(exact->before, true);

	if (!before)
		return;
	RCU_INIT_POINTER(exact->before, NULL);
	kvfree_rcu_mightsleep(before);
}

void psi_exact_free(struct psi_exact *exact)
{
	if (!exact)
		return;
	kvfree(rcu_access_pointer(exact->before));
	kvfree(exact);
}

/* Note what the CPUs of @before have in the running window so far. */
static void psi_exact_note(struct psi_group *group, struct psi_seen *before)
{
	unsigned int i, at = 0;
	struct psi_seen *seen;

	rcu_read_lock();
	seen = rcu_dereference(group->seen);
	for (i = 0; i < before->nr; i++) {
		struct psi_seen_cpu *entry = psi_seen_at(before, i);
		int cpu = entry->cpu;
		struct psi_slot had;

		psi_peek_cpu(group->cpus[cpu], cpu, PSI_ALL_STATES, had.times);
		psi_window_since(group, seen, psi_seen_find(seen, &at, cpu), PSI_ALL_STATES,
				 had.times);
		psi_seen_put(before, psi_seen_slot(before, entry, 0), &had);
	}
	rcu_read_unlock();
}

/* Exact pressure that begins now, NULL without memory. */
static struct psi_exact *psi_exact_alloc(struct psi_group *group)
{
	struct psi_seen none = { .slots = 1 }, *before;
	struct psi_exact *exact;
	unsigned int seq;

	exact = kvzalloc(struct_size(exact, use.blocks, psi_nr_blocks), GFP_KERNEL_ACCOUNT);
	before = psi_seen_grow(&none, group->cpumask, PSI_ALL_STATES);
	if (!exact || !before) {
		kvfree(before);
		psi_exact_free(exact);
		return NULL;
	}
	do {
		seq = read_seqcount_begin(&group->seq);
		exact->born = group->folds;
		psi_exact_note(group, before);
	} while (read_seqcount_retry(&group->seq, seq));
	RCU_INIT_POINTER(exact->before, before);
	psi_avgs_init(&exact->account.avgs, psi_read_clock());
	return exact;
}

/**
 * psi_exact_enable - measure the exact pressure of a group from now on
 * @group: the group
 *
 * Takes the runqueue locks of the CPUs that the group is in use on, once in its life.
 *
 * Context: Process context, may sleep.
 * Return: 0, or -ENOMEM.
 */
static int psi_exact_enable(struct psi_group *group)
{
	struct psi_group_cpu *gc;
	struct psi_exact *exact;
	struct rq_flags rf;
	int cpu;

	if (READ_ONCE(group->exact))
		return 0;
	exact = psi_exact_alloc(group);
	if (!exact)
		return -ENOMEM;
	/* A full barrier: a CPU that joins later sees it, see psi_fold_join(). */
	if (cmpxchg(&group->exact, NULL, exact)) {
		psi_exact_free(exact);
		return 0;
	}
	psi_for_each_cpu(cpu, group) {
		gc = group->cpus[cpu];
		rq_lock_irqsave(cpu_rq(cpu), &rf);
		update_rq_clock(cpu_rq(cpu));
		psi_union_join(gc, psi_delegate_of(gc), cpu, rq_clock(cpu_rq(cpu)));
		rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	}
	return 0;
}
