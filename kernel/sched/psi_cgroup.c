// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: a group for each cgroup, and its tasks in it
 *
 *   Cgroups are made, removed and switched off and on, and tasks change their cgroup, while
 *   the tasks run. Each step is exact by itself: a walk under the lock of one runqueue.
 *   "Delegation" in psi.c says where the contributors of a switched-off group are counted.
 */

/**
 * psi_move_task - count a task in another group
 * @p: the task
 * @to: the group
 *
 * The attributes of the task leave the old group and enter the new one in one write
 * section.
 *
 * Context: Takes the lock of the task's runqueue. The caller prevents other moves of @p.
 */
static void psi_move_task(struct task_struct *p, struct psi_group *to)
{
	struct rq_flags rf;
	struct rq *rq;

	rq = task_rq_lock(p, &rf);
	update_rq_clock(rq);
	if (p->psi.group && p->psi.group != to) {
		psi_regroup(&p->psi, to, cpu_of(rq), rq_clock(rq));
		psi_limits_apply(rq, p);
	}
	task_rq_unlock(rq, p, &rf);
}

/* Where tasks and children of a cgroup are counted: the next group that is on, from @cgrp up. */
static struct psi_group *psi_home(struct cgroup *cgrp)
{
	while (test_bit(CGRP_NO_PRESSURE, &cgrp->flags) && cgroup_parent(cgrp))
		cgrp = cgroup_parent(cgrp);
	return cgroup_psi(cgrp);
}

/**
 * psi_cgroup_alloc - give a new cgroup a group of its own
 * @cgrp: the cgroup, linked to its parent, without tasks
 *
 * Context: Process context, may sleep.
 * Return: 0 or -ENOMEM.
 */
int psi_cgroup_alloc(struct cgroup *cgrp)
{
	struct psi_group *group;

	if (static_branch_likely(&psi_disabled) || !cgroup_psi_enabled())
		return 0;

	group = kzalloc(sizeof(*group), GFP_KERNEL);
	if (!group)
		return -ENOMEM;
	group->cpus = alloc_percpu(struct psi_group_cpu);
	if (!group->cpus || !zalloc_cpumask_var(&group->cpumask, GFP_KERNEL)) {
		free_percpu(group->cpus);
		kfree(group);
		return -ENOMEM;
	}
	psi_group_init(group, psi_home(cgroup_parent(cgrp)), cgrp->level);
	group->id = cgroup_id(cgrp);
	cgrp->psi = group;
	return 0;
}

/* Whether a group above still points to the empty group of @cgrp on a CPU. */
static bool psi_remembered(struct cgroup *cgrp, int cpu)
{
	struct psi_group_cpu *gc = per_cpu_ptr(cgrp->psi->cpus, cpu);

	for (cgrp = cgroup_parent(cgrp); cgrp; cgrp = cgroup_parent(cgrp)) {
		struct psi_group_cpu *above = per_cpu_ptr(cgroup_psi(cgrp)->cpus, cpu);

		if (READ_ONCE(above->last) == gc || READ_ONCE(above->delegate) == gc)
			return true;
	}
	return false;
}

/* Clear the pointers of the groups above to the group of @cgrp on a CPU. */
static void psi_forget(struct cgroup *cgrp, int cpu)
{
	struct psi_group_cpu *gc = per_cpu_ptr(cgrp->psi->cpus, cpu);
	seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);
	struct rq_flags rf;

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	raw_write_seqcount_begin(seq);
	for (cgrp = cgroup_parent(cgrp); cgrp; cgrp = cgroup_parent(cgrp)) {
		struct psi_group_cpu *above = per_cpu_ptr(cgroup_psi(cgrp)->cpus, cpu);

		if (above->delegate == gc)
			psi_undelegate(above);
		if (above->last == gc)
			above->last = NULL;
	}
	raw_write_seqcount_end(seq);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
}

/**
 * psi_cgroup_free - drop the group of a cgroup
 * @cgrp: the cgroup; no task is counted in it any more, and it still has its parent
 *
 * The fold or a monitor may hold a reference for a moment longer. They find the group
 * without a parent. The group passes on no change any more, so a group above that does not
 * point to it now never will: only CPUs with such a pointer need their runqueue lock.
 *
 * Context: Process context, may sleep.
 */
void psi_cgroup_free(struct cgroup *cgrp)
{
	int cpu;

	if (!cgrp->psi)
		return;
	for_each_possible_cpu(cpu) {
		struct psi_group_cpu *gc = per_cpu_ptr(cgrp->psi->cpus, cpu);

		if (psi_remembered(cgrp, cpu))
			psi_forget(cgrp, cpu);
		gc->parent = NULL;
		gc->up = NULL;
		cond_resched();
	}
	WRITE_ONCE(cgrp->psi->removed, true);
	psi_group_put(cgrp->psi);
}

/* Move the group of a cgroup to the parent where it is counted now. */
static void psi_cgroup_rehome(struct cgroup *cgrp)
{
	struct psi_group *to = psi_home(cgroup_parent(cgrp));
	int cpu;

	for_each_possible_cpu(cpu) {
		struct psi_group_cpu *gc = per_cpu_ptr(cgrp->psi->cpus, cpu);
		struct rq *rq = cpu_rq(cpu);
		struct rq_flags rf;

		if (gc->parent == per_cpu_ptr(to->cpus, cpu))
			continue;
		rq_lock_irqsave(rq, &rf);
		update_rq_clock(rq);
		psi_adopt(gc, per_cpu_ptr(to->cpus, cpu), cpu, rq_clock(rq));
		rq_unlock_irqrestore(rq, &rf);
	}
}

/* The same for the tasks of a cgroup. */
static void psi_cgroup_rehome_tasks(struct cgroup *cgrp)
{
	struct psi_group *to = psi_home(cgrp);
	struct css_task_iter it;
	struct task_struct *p;

	css_task_iter_start(&cgrp->self, 0, &it);
	while ((p = css_task_iter_next(&it)))
		psi_move_task(p, to);
	css_task_iter_end(&it);
}

/**
 * psi_cgroup_enable - switch the accounting of a cgroup on or off
 * @cgrp: the cgroup; a root stands for the system
 * @on: whether to account; CGRP_NO_PRESSURE is set or clear accordingly
 *
 * While a cgroup is off, its tasks and children are counted in the next cgroup above that
 * is on, so that events cost nothing for it. Contributors that stay behind, such as dying
 * tasks, are counted in the group as before: it takes part as long as it has any.
 *
 * Context: Process context, may sleep. cgroup_mutex held: cgroups and members do not
 *	    change, except that tasks fork and exit. A fork either sees the flag, or its
 *	    child is on the list of tasks that is walked after the flag was set:
 *	    css_set_lock, which both take, orders the two.
 * Return: 0, or -ENOMEM, which cannot happen when it is switched off.
 */
int psi_cgroup_enable(struct cgroup *cgrp, bool on)
{
	struct cgroup_subsys_state *pos;
	int cpu;

	/* Limits may hold what it will count. */
	if (on && cgroup_parent(cgrp) && psi_home(cgroup_parent(cgrp))->limits &&
	    !psi_limits_alloc(cgroup_psi(cgrp)))
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct psi_group_cpu *gc = per_cpu_ptr(cgroup_psi(cgrp)->cpus, cpu);
		seqcount_t *seq = per_cpu_ptr(&psi_seq, cpu);
		struct rq *rq = cpu_rq(cpu);
		struct rq_flags rf;

		rq_lock_irqsave(rq, &rf);
		update_rq_clock(rq);
		raw_write_seqcount_begin(seq);
		psi_measure(gc, on, cpu, rq_clock(rq));
		raw_write_seqcount_end(seq);
		rq_unlock_irqrestore(rq, &rf);
	}

	if (!cgroup_parent(cgrp))
		return 0;
	css_for_each_descendant_pre(pos, &cgrp->self) {
		psi_cgroup_rehome(pos->cgroup);
		/* A cgroup that is on keeps its tasks and children: skip what is below. */
		if (pos->cgroup != cgrp && !test_bit(CGRP_NO_PRESSURE, &pos->cgroup->flags))
			pos = css_rightmost_descendant(pos);
		else
			psi_cgroup_rehome_tasks(pos->cgroup);
		cond_resched();
	}
	return 0;
}

/**
 * cgroup_move_task - make a task a member of a css_set
 * @p: the task
 * @to: the css_set
 *
 * Context: css_set_lock held.
 */
void cgroup_move_task(struct task_struct *p, struct css_set *to)
{
	if (!static_branch_likely(&psi_disabled))
		psi_move_task(p, psi_home(to->dfl_cgrp));
	rcu_assign_pointer(p->cgroups, to);
}
