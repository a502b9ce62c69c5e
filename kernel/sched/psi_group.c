// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: groups
 *
 *   A group comes with its cgroup and is freed when the last list, sampler or reader
 *   lets go of it. While it exists, it may change its parent, be switched off and on, and
 *   be watched. Each of these visits the group CPU by CPU, under the runqueue lock where
 *   the group is in use.
 */

void psi_group_init(struct psi_group *group, struct psi_group *parent, int level)
{
	refcount_set(&group->refs, 1);
	group->parent = parent;
	group->level = level;
	raw_spin_lock_init(&group->lock);
	seqcount_init(&group->seq);
	psi_avgs_init(&group->plain.avgs, local_clock());
}

static void psi_group_free(struct rcu_head *rcu)
{
	struct psi_group *group = container_of(rcu, struct psi_group, rcu);
	int prio;

	psi_limits_free(group->limits);
	psi_group_free_cpus(group);
	free_cpumask_var(group->cpumask);
	kvfree(rcu_access_pointer(group->seen));
	psi_exact_free(group->exact);
	psi_causes_free(group);
	for (prio = 0; prio < PSI_NR_PRIOS; prio++)
		kfree(group->watch[prio]);
	kfree(group);
}

/* Readers may still be looking through the delegation of a parent. */
void psi_group_put(struct psi_group *group)
{
	if (refcount_dec_and_test(&group->refs))
		call_rcu(&group->rcu, psi_group_free);
}

/**
 * psi_watch - have psi_walk_slow() called when a state begins
 * @group: the group, with the states in its ->watched
 * @states: the states
 *
 * A CPU that is not on the list of the fold calls it at its next activity in any case, so
 * only the others are visited. Of these, a CPU needs its runqueue lock when it would not
 * call it, or delegates. The others are safe without: psi_take_watched() and
 * psi_delegate() write what is read here, and then read ->watched.
 *
 * Context: Process context.
 * Return: the states that hold somewhere: nothing will be reported of these.
 */
static unsigned int psi_watch(struct psi_group *group, unsigned int states)
{
	unsigned int hold = 0;
	struct rq_flags rf;
	int cpu;

	/* Pairs with psi_take_watched() and psi_delegate(). */
	smp_mb();
	psi_for_each_cpu(cpu, group) {
		struct psi_group_cpu *gc = group->cpus[cpu];
		seqcount_t *seq = &cpu_rq(cpu)->psi_seq;

		/* Before ->states: a state that is asked for here has not begun yet. */
		if (!READ_ONCE(gc->delegate) && !(states & ~smp_load_acquire(&gc->slow))) {
			hold |= READ_ONCE(gc->states) & states;
			continue;
		}
		rq_lock_irqsave(cpu_rq(cpu), &rf);
		if (gc->delegate) {
			raw_write_seqcount_begin(seq);
			psi_undelegate(gc);
			raw_write_seqcount_end(seq);
		}
		gc->slow |= states;
		hold |= gc->states & states;
		rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	}
	return hold;
}

/* The states of a group to measure. The fold asks the system whether it is idle. */
static unsigned int psi_measured(const struct psi_group *group)
{
	if (!READ_ONCE(group->off))
		return PSI_ALL_STATES;
	return READ_ONCE(group->parent) ? 0 : BIT(PSI_NONIDLE);
}

/**
 * psi_measure - measure the times of a group on a CPU, or stop, by psi_group.off
 * @gc: the group on that CPU
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * Context: The runqueue lock of the CPU is held, inside a write section of psi_seq.
 */
void psi_measure(struct psi_group_cpu *gc, int cpu, u64 now)
{
	/* It learns that when it joins. */
	if (!psi_listed(gc, cpu))
		return;
	if (gc->delegate)
		psi_undelegate(gc);
	if (gc->parent && gc->parent->delegate == gc)
		psi_undelegate(gc->parent);
	gc->enabled = psi_measured(gc->group);
	/* psi_walk_slow() must not look at a child that may be gone. */
	gc->last = NULL;
	psi_enter_states(gc, psi_states[gc->attrs] & gc->enabled, cpu, now);
	if (READ_ONCE(gc->group->limits))
		psi_limit_states(gc, cpu, now);
}

/**
 * psi_adopt - make a group a contributor to psi_group.parent
 * @gc: the group on a CPU
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * The new parent has an ancestor in common with the old one.
 *
 * Context: The runqueue lock of the CPU is held.
 */
void psi_adopt(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_group_cpu *from = gc->parent, *d = psi_delegate_of(gc), *to;
	unsigned int attrs = psi_shown(d, cpu);

	/* A CPU that is not on the list learns it when it joins. */
	if (!psi_listed(gc, cpu))
		return;
	to = psi_group_extend(gc->group->parent, cpu)->cpus[cpu];
	if (from == to)
		return;
	if (from->delegate == gc) {
		raw_write_seqcount_begin(&cpu_rq(cpu)->psi_seq);
		psi_undelegate(from);
		raw_write_seqcount_end(&cpu_rq(cpu)->psi_seq);
	}
	psi_walk_two(from, psi_counts_diff(attrs, 0), to, psi_counts_of(attrs), cpu_rq(cpu),
		     now);
	gc->parent = to;
	d->up = to;
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
	int cpu;

	/* A switch stays within the first line of a group on a CPU. */
	BUILD_BUG_ON(offsetof(struct psi_group_cpu, times[PSI_IO_SOME]) > 64);

	for (attrs = 0; attrs < PSI_NR_ATTR_SETS; attrs++) {
		psi_sched_counts[attrs] = psi_sched_counts_of(attrs);
		psi_stall_counts[attrs] = psi_stall_counts_of(attrs);
	}

	for (attrs = 0; attrs < PSI_LIMITED; attrs++) {
		psi_states[attrs] = psi_states_of(attrs);
		psi_states[attrs | PSI_LIMITED] = psi_states_of(attrs) | BIT(PSI_NONIDLE);
	}

	for_each_possible_cpu(cpu)
		seqcount_init(&cpu_rq(cpu)->psi_seq);

	if (!psi_enable) {
		static_branch_enable(&psi_disabled);
		return;
	}
	if (!zalloc_cpumask_var(&psi_system.cpumask, GFP_NOWAIT) ||
	    !psi_group_alloc_cpus(&psi_system, GFP_NOWAIT))
		panic("psi: no memory for the system");
	psi_group_init(&psi_system, NULL, 0);
	for_each_possible_cpu(cpu)
		psi_group_install(&psi_system, cpu, per_cpu_ptr(&psi_system_cpus, cpu));
}
