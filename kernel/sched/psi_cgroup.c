// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: a group for each cgroup, and its tasks in it
 *
 *   Cgroups come and go, and tasks change their cgroup, while the tasks run.
 *   Each step is exact by itself: a walk under one runqueue lock.
 */

#include <linux/memcontrol.h>

/*
 * After so many tasks of a cgroup with a stray others get cgroup_mutex: some 50
 * us, if all have to move.
 */
#define PSI_STRAYS_BATCH	64

/* Strays move right now: they are on no list meanwhile. */
static atomic_t psi_moves;

/* In one write section. The caller prevents other moves of @p. */
static void psi_move_task(struct task_struct *p, struct psi_group *to)
{
	CLASS(task_rq_lock, locked)(p);

	update_rq_clock(locked.rq);
	if (p->psi.group && p->psi.group != to) {
		psi_regroup(&p->psi, to, locked.rq, rq_clock(locked.rq));
		psi_throttle_again(locked.rq, p);
	}
}

/**
 * psi_cgroup_alloc - give a new cgroup a group of its own
 * @cgrp: the cgroup, linked to its parent, without tasks
 * Context: Process context, may sleep.
 * Return: 0 or -ENOMEM.
 */
int psi_cgroup_alloc(struct cgroup *cgrp)
{
	struct psi_group *group;

	if (!cgroup_psi_enabled())
		return 0;

	group = kmem_cache_zalloc(psi_group_cache, GFP_KERNEL);
	if (!group)
		return -ENOMEM;
	group->cpus = kvcalloc(nr_cpu_ids, sizeof(*group->cpus), GFP_KERNEL);
	if (!group->cpus || !zalloc_cpumask_var(&group->cpumask, GFP_KERNEL)) {
		psi_group_free(&group->rcu);
		return -ENOMEM;
	}
	psi_group_init(group, cgroup_psi(cgroup_parent(cgrp)), cgrp->level);
	group->id = cgroup_id(cgrp);
	cgrp->psi = group;
	return 0;
}

#ifdef CONFIG_MEMCG
/* Have the memory cgroup of a group pay for new cells; at its limit, later. */
static void psi_cgroup_charge(struct psi_group *group)
{
	struct cgroup *cgrp = cgroup_get_from_id(group->id);
	struct cgroup_subsys_state *css;
	struct mem_cgroup *old;
	int cpu;

	WRITE_ONCE(group->owes, false);
	/* Pairs with psi_group_begin(). */
	smp_mb();
	if (IS_ERR(cgrp))
		return;
	css = cgroup_get_e_css(cgrp, &memory_cgrp_subsys);
	old = set_active_memcg(mem_cgroup_from_css(css));
	for_each_possible_cpu(cpu) {
		struct psi_group_cpu *gc = READ_ONCE(group->cpus[cpu]);

		if (gc && !kmem_cache_charge(gc, GFP_NOWAIT | __GFP_NOWARN)) {
			WRITE_ONCE(group->owes, true);
			break;
		}
	}
	set_active_memcg(old);
	css_put(css);
	cgroup_put(cgrp);
}
#endif

/**
 * psi_cgroup_free - drop the group of a cgroup
 * @cgrp: the cgroup, with its parent, and no task counted in it any more
 *
 * The fold or a monitor may still hold a reference to the group, without
 * parent. It passes on no change any more, so no CPU joins the list of the
 * fold; and where a CPU is off the list, no group delegates to it.
 *
 * Context: Process context, may sleep.
 */
void psi_cgroup_free(struct cgroup *cgrp)
{
	struct psi_group *group = cgrp->psi;
	int cpu;

	if (!group)
		return;
	psi_for_each_cpu(cpu, group) {
		struct psi_group_cpu *gc = group->cpus[cpu];

		scoped_guard(rq_lock_irqsave, cpu_rq(cpu)) {
			psi_undelegate_parent(gc, cpu);
			gc->parent = NULL;
			gc->up = NULL;
		}
		cond_resched();
	}
	WRITE_ONCE(group->parent, NULL);
	WRITE_ONCE(group->removed, true);
	psi_group_put(group);
}

static void psi_cgroup_adopt(struct psi_group *group)
{
	int cpu;

	psi_for_each_cpu(cpu, group) {
		struct rq *rq = cpu_rq(cpu);

		guard(rq_lock_irqsave)(rq);
		update_rq_clock(rq);
		psi_adopt(group->cpus[cpu], cpu, rq_clock(rq));
	}
}

/* Count a group in its parent and tasks in the group, if there is memory. */
static void psi_stray_home(struct psi_group *group)
{
	struct cgroup *cgrp = cgroup_get_from_id(group->id);
	struct css_task_iter it;
	struct task_struct *p;
	unsigned int nr = 0;

	if (IS_ERR(cgrp))
		return;
	cgroup_lock();
	psi_cgroup_adopt(group);
	css_task_iter_start(&cgrp->self, 0, &it);
	while ((p = css_task_iter_next(&it))) {
		/* No task changes its cgroup meanwhile. */
		if (READ_ONCE(p->psi.group) != group)
			psi_move_task(p, group);
		if (++nr % PSI_STRAYS_BATCH)
			continue;
		cgroup_unlock();
		cond_resched();
		cgroup_lock();
	}
	css_task_iter_end(&it);
	cgroup_unlock();
	cgroup_put(cgrp);
}

static struct llist_node *psi_strays_take(void)
{
	KUNIT_STATIC_STUB_REDIRECT(psi_strays_take);
	return llist_del_all(&psi_strays);
}

static void psi_strays_work(struct work_struct *work)
{
	struct psi_group *group, *next;
	struct llist_node *list;

	atomic_inc(&psi_moves);
	/* Before the list is taken. Pairs with psi_debug_all_home(). */
	smp_mb__after_atomic();
	list = psi_strays_take();
	llist_for_each_entry_safe(group, next, list, strays) {
		/* Before the visit of CPUs: what strays again adds it again. */
		atomic_xchg(&group->stray, 0);
		psi_reserve_refill();
		psi_stray_home(group);
		psi_group_put(group);
		cond_resched();
	}
	atomic_dec(&psi_moves);
}

static DECLARE_WORK(psi_strays_worker, psi_strays_work);

/**
 * cgroup_move_task - make a task a member of a css_set
 * @p: the task
 * @to: the css_set
 * Context: css_set_lock held.
 */
void cgroup_move_task(struct task_struct *p, struct css_set *to)
{
	struct psi_group *group = cgroup_psi(to->dfl_cgrp);

	/* A new task is in the group of its parent already. */
	if (psi_enabled() && READ_ONCE(p->psi.group) != group)
		psi_move_task(p, group);
	rcu_assign_pointer(p->cgroups, to);
}
