// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the invariants, checked at run time
 *
 *   A hook that is missing does not crash: it leaves a count too high or too
 *   low for ever. So a debug kernel checks everything after each fold, CPU by
 *   CPU, under the runqueue lock and independently of the hooks:
 *	tasks		A task is counted as what the scheduler's own fields
 *			say. A limit holds it if the scheduler says so.
 *	counts		The counts of a cell, those of limits too, are the sum
 *			of what its contributors show. Its attributes and states
 *			follow from the counts.
 *	delegation	A cell delegates to a child that shows the same. The
 *			pointers psi_group_cpu.up lead through all cells that do
 *			not delegate, from higher to lower levels.
 *	home		A task is counted in its cgroup, and a group in its
 *			parent, except strays ("Reserve" in psi_group.c).
 *	list		A cell that shows something is on the list of the fold.
 *			Others are as new, see "The list" in psi_fold.c.
 *	asked		The union of a group counts the CPUs that it is in use
 *			on. The states of limits follow from what a cell shows.
 *			A cell that is asked does not delegate while it shows a
 *			limit. A cell has PSI_ASKED_ABOVE exactly if one that is
 *			asked delegates to it.
 *	times		Since the last check, on each CPU:
 *			0 <= full <= some <= nonidle <= time that passed, and in
 *			each state 0 <= only <= limit <= the state.
 *
 *   The first faults since boot are reported. Nothing is mended. Tasks are
 *   recounted from a list per CPU of tasks with attributes (psi_debug_note()):
 *   the list of all tasks lacks those that were reaped and still run.
 */

/*
 * One pass over a CPU: @now is its rq_clock(), @irq its irq_time_read()
 * @folds: a fold may run at the same time
 * @homes: check homes, too
 * @says: a line for each of @found faults
 */
struct psi_debug {
	int			cpu;
	u64			now;
	u64			irq;
	bool			folds;
	bool			homes;
	unsigned int		found;
	struct seq_buf		*says;
};

#define psi_debug_found(d, format, ...) do { \
	struct psi_debug *_d = (d); \
	_d->found++; \
	seq_buf_printf(_d->says, format "\n", ##__VA_ARGS__); \
} while (0)

#define psi_debug_cell(d, gc, format, ...) \
	psi_debug_found(d, "cgroup %llu " format, (gc)->group->id, ##__VA_ARGS__)

#ifdef CONFIG_CGROUPS

/*
 * Cgroups, their switches and members do not change until the unlock. Return
 * false if cgroup_mutex is taken: the next period checks homes.
 */
static bool psi_debug_lock_homes(void)
{
	if (!mutex_trylock(&cgroup_mutex))
		return false;
	spin_lock_irq(&css_set_lock);
	return true;
}

static void psi_debug_unlock_homes(void)
{
	spin_unlock_irq(&css_set_lock);
	mutex_unlock(&cgroup_mutex);
}

static bool psi_debug_all_home(void)
{
	lockdep_assert_held(&cgroup_mutex);
	lockdep_assert_held(&css_set_lock);
	if (!llist_empty(&psi_strays))
		return false;
	smp_rmb(); /* Pairs with psi_strays_work(). */
	return !atomic_read(&psi_moves);
}

static void psi_debug_group_home(struct cgroup *cgrp, struct psi_debug *d)
{
	struct psi_group *group = cgrp->psi, *home = cgroup_psi(cgroup_parent(cgrp));
	struct psi_group_cpu *gc = group->cpus[d->cpu];

	if (group->parent == home &&
	    (!gc || !psi_listed(gc, d->cpu) || (gc->parent && gc->parent->group == home)))
		return;
	psi_debug_found(d, "cgroup %llu belongs to level %u, but is counted in level %d",
			group->id, home->level, gc && gc->parent ? gc->parent->group->level : -1);
}

/* A task with attributes takes this runqueue's lock before it leaves. */
static void psi_debug_task_home(struct task_struct *p, struct psi_debug *d)
{
	struct psi_group *home;

	/*
	 * A dying task stays in its last group. It sets PF_EXITING before it
	 * leaves its cgroup under css_set_lock; other flags may change.
	 */
	if (data_race(p->flags & PF_EXITING))
		return;
	home = cgroup_psi(task_dfl_cgroup(p));
	if (p->psi.group != home)
		psi_debug_found(d, "%s[%d] belongs to level %u, but is counted in level %u",
				p->comm, task_pid_nr(p), home->level, p->psi.group->level);
}

#else
static bool psi_debug_lock_homes(void) { return false; }
static void psi_debug_unlock_homes(void) { }
static bool psi_debug_all_home(void) { return false; }
static void psi_debug_task_home(struct task_struct *p, struct psi_debug *d) { }
#endif

static unsigned int psi_debug_attrs(struct task_struct *p, struct rq *rq)
{
	unsigned int state = READ_ONCE(p->__state);

	if (task_current(rq, p) || per_cpu(psi_preempted, cpu_of(rq)) == p)
		return psi_task_attrs(p, PSI_RUNS);
	if (task_on_rq_migrating(p))
		return 0;
	if (task_on_rq_queued(p) && !task_queued_asleep(p))
		return psi_task_attrs(p, PSI_QUEUED);
	/* New, or gone from the CPU it slept on and not enqueued yet. */
	if (state == TASK_NEW || (state == TASK_WAKING && !p->psi.attrs))
		return 0;
	return psi_task_attrs(p, PSI_ASLEEP);
}

static void psi_debug_held(struct task_struct *p, struct psi_debug *d)
{
	bool held = p->psi.mode & PSI_HELD;

	/* Without these hooks nothing says so. */
	if (!IS_ENABLED(CONFIG_PSI_STAT) || !task_on_rq_queued(p))
		return;
	/* It may have woken up elsewhere since. Pairs with __set_task_cpu(). */
	smp_rmb();
	if (task_cpu(p) != d->cpu || held == task_held_by_bandwidth(p))
		return;
	psi_debug_found(d, "%s[%d] is %sheld by a limit, class %ps", p->comm, task_pid_nr(p),
			held ? "" : "not ", p->sched_class);
}

static void psi_debug_task(struct task_struct *p, struct rq *rq, struct psi_debug *d)
{
	unsigned int attrs;

	/* It is NULL for good, or never. */
	if (data_race(!p->psi.group) || task_cpu(p) != d->cpu)
		return;
	/*
	 * A task that migrates here was last counted under the lock of another
	 * runqueue. Pairs with __set_task_cpu().
	 */
	smp_rmb();
	psi_debug_held(p, d);
	/*
	 * A task without attributes may wake up elsewhere right now, without
	 * this lock. So look again under pi_lock, or in the next period.
	 */
	if (data_race(p->psi.attrs == psi_debug_attrs(p, rq)))
		return;
	if (!raw_spin_trylock(&p->pi_lock))
		return;
	attrs = psi_debug_attrs(p, rq);
	if (task_cpu(p) == d->cpu && p->psi.attrs != attrs)
		psi_debug_found(d, "%s[%d] counts as %#x, is %#x: state %#x, on_rq %d, delayed %d",
				p->comm, task_pid_nr(p), p->psi.attrs, attrs,
				READ_ONCE(p->__state), p->on_rq, p->se.sched_delayed);
	raw_spin_unlock(&p->pi_lock);
}

static void psi_debug_add(struct psi_group_cpu *gc, unsigned int attrs)
{
	gc->recount = psi_counts_add(gc->recount, psi_counts_of(attrs));
}

static void psi_debug_tasks_of(struct rq *rq, struct psi_debug *d)
{
	struct task_struct *g, *p;

	for_each_process_thread(g, p)
		psi_debug_task(p, rq, d);
	hlist_for_each_entry(p, per_cpu_ptr(&psi_debug_tasks, d->cpu), psi.node) {
		if (task_cpu(p) != d->cpu) {
			psi_debug_found(d, "%s[%d] is counted here, but on CPU %d",
					p->comm, task_pid_nr(p), task_cpu(p));
			continue;
		}
		psi_debug_task(p, rq, d);
		if (!p->psi.attrs)
			continue;
		psi_debug_add(p->psi.group->cpus[d->cpu], p->psi.attrs);
		if (d->homes)
			psi_debug_task_home(p, d);
	}
}

static void psi_debug_delegation(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_group_cpu *child = psi_delegate_of(gc), *end = psi_chain_end(gc);
	struct psi_counts one = psi_counts_of(gc->shows);

	if (child->parent != gc || !psi_listed(gc, d->cpu))
		psi_debug_cell(d, gc, "must not delegate: listed %d", psi_listed(gc, d->cpu));
	if (gc->asked & PSI_ASKED && end->attrs & PSI_LIMIT_ATTRS)
		psi_debug_cell(d, gc, "must not delegate: it is asked, shows %#x", end->attrs);
	if (psi_chain(gc) > PSI_CHAIN)
		psi_debug_cell(d, gc, "is one of %u that delegate in a chain", psi_chain(gc));
	if (end->attrs != gc->shows || memcmp(&gc->recount, &one, sizeof(one)))
		psi_debug_cell(d, gc, "delegates to what shows %#x, its contributors show %#x",
			       end->attrs, gc->shows);
}

static void psi_debug_counts(struct psi_group_cpu *gc, struct psi_debug *d)
{
	bool listed = psi_listed(gc, d->cpu), visited = true;
	struct psi_group_cpu *p, *top;

	for (p = gc; p; p = psi_delegator(p)) {
		/* A running fold takes each group off the list for a while. */
		visited &= psi_listed(p, d->cpu) && (d->folds || atomic_read(&p->group->listed));
		top = p;
	}
	if (gc->sched != gc->recount.sched || gc->stall != gc->recount.stall ||
	    gc->limit != gc->recount.limit)
		psi_debug_cell(d, gc, "counts %#llx %#llx %#llx, there are %#llx %#llx %#llx",
			       gc->sched, gc->stall, gc->limit, gc->recount.sched,
			       gc->recount.stall, gc->recount.limit);
	if (gc->attrs != gc->shows || gc->states != psi_states_of(gc->shows))
		psi_debug_cell(d, gc, "shows %#x in states %#x, must show %#x", gc->attrs,
			       gc->states, gc->shows);
	if (listed && (gc->up != top->parent ||
		       (gc->up && gc->up->group->level >= gc->group->level)))
		psi_debug_cell(d, gc, "of level %u goes on to a wrong group, level %d",
			       gc->group->level, gc->up ? gc->up->group->level : -1);
	if (!listed && (gc->attrs || gc->slow != PSI_ALL_STATES || top != gc ||
			memcmp(gc->slots[0], gc->slots[1], sizeof(gc->slots[0]))))
		psi_debug_cell(d, gc, "is not on the list of the fold, nor as new: shows %#x",
			       gc->attrs);
	if (listed && !visited)
		psi_debug_cell(d, gc, "delegated to, or in use: not on the list of the fold");
}

#ifdef CONFIG_PSI_STAT

static void psi_debug_asked(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_asked_cpu *more = psi_asked_cpu(psi_asked_of(gc), gc, d->cpu);
	struct psi_group_cpu *end = psi_chain_end(gc);
	unsigned int in_use = end->states >> PSI_NONIDLE & 1;
	unsigned int held = gc == end ? psi_held_of(gc) : 0;

	if (gc == end && psi_listed(gc, d->cpu) && gc->asked != psi_asked_above(gc))
		psi_debug_cell(d, gc, "has asked %#x, which is wrong of those above", gc->asked);
	if (gc->asked & PSI_ASKED && psi_listed(gc, d->cpu) && !more)
		psi_debug_cell(d, gc, "is not asked, its cell has %#x", gc->asked);
	if (!more)
		return;
	if (more->counted != in_use)
		psi_debug_cell(d, gc, "counts %d times in its union, not %u", more->counted,
			       in_use);
	if (more->held != held)
		psi_debug_cell(d, gc, "has states of limits %#x, not %#x", more->held, held);
}

/* 0 <= only <= limit <= the state. @since: the times in the states. */
static void psi_debug_limits(struct psi_group_cpu *gc, struct psi_debug *d, const u64 *since)
{
	struct psi_asked_cpu *more = psi_asked_cpu(psi_asked_of(gc), gc, d->cpu);
	u64 times[PSI_NR_HELD];
	int s;

	if (!more)
		return;
	psi_held_read(more, d->now, times);
	psi_for_each_state(s, PSI_ALL_STATES & ~(BIT(PSI_NONIDLE) | BIT(PSI_IRQ_FULL))) {
		u64 limit = times[PSI_LIMIT_AT(s)] - more->checked[PSI_LIMIT_AT(s)];
		u64 only = times[PSI_ONLY_AT(s)] - more->checked[PSI_ONLY_AT(s)];

		if (only > limit || limit > since[s])
			psi_debug_cell(d, gc, "has %lld ns of limits, only %lld, of %lld in %d",
				       limit, only, since[s], s);
	}
	memcpy(more->checked, times, sizeof(more->checked));
}

#else
static void psi_debug_asked(struct psi_group_cpu *gc, struct psi_debug *d) { }
static void psi_debug_limits(struct psi_group_cpu *gc, struct psi_debug *d, const u64 *since) { }
#endif

static void psi_debug_times(struct psi_group_cpu *gc, struct psi_debug *d)
{
	u64 times[PSI_NR_STATES], since[PSI_NR_STATES];
	u64 passed = d->now - gc->checked_at;
	int s;

	psi_times(gc, psi_chain_end(gc), PSI_ALL_STATES, d->now, d->irq, times);
	for (s = 0; s < PSI_NR_STATES; s++)
		since[s] = times[s] - gc->checked[s];
	/* Interrupts have another clock: no relation to the rest. */
	if (since[PSI_NONIDLE] > passed || (s64)since[PSI_IRQ_FULL] < 0)
		psi_debug_cell(d, gc, "has times of %lld ns: in use %lld, irq %lld",
			       passed, since[PSI_NONIDLE], since[PSI_IRQ_FULL]);
	psi_for_each_state(s, PSI_SOME_STATES) {
		if (since[s] > since[PSI_NONIDLE] || since[s + 1] > since[s])
			psi_debug_cell(d, gc, "has times %lld in state %d, %lld full, in use %lld",
				       since[s], s, since[s + 1], since[PSI_NONIDLE]);
	}
	psi_debug_limits(gc, d, since);
	memcpy(gc->checked, times, sizeof(gc->checked));
	gc->checked_at = d->now;
}

/* All contributors were recounted: check a cell, and add it to its parent. */
static void psi_debug_group(struct psi_group_cpu *gc, struct psi_debug *d)
{
	gc->shows = psi_sched_attrs_of(gc->recount.sched) |
		    psi_stall_attrs_of(gc->recount.stall) | psi_limit_attrs_of(gc->recount.limit);
	if (psi_delegate_of(gc))
		psi_debug_delegation(gc, d);
	else
		psi_debug_counts(gc, d);
	psi_debug_asked(gc, d);
	psi_debug_times(gc, d);
	/* Where it is not on the list, its parent is out of date. */
	if (gc->shows && gc->parent)
		psi_debug_add(gc->parent, gc->shows);
	gc->recount = (struct psi_counts){ };
}

/* Check the cell of each group, children first. */
static void psi_debug_groups(struct psi_debug *d)
{
#ifdef CONFIG_CGROUPS
	struct cgroup_subsys_state *pos;

	css_for_each_descendant_post(pos, &cgrp_dfl_root.cgrp.self) {
		if (d->homes && pos->cgroup->psi)
			psi_debug_group_home(pos->cgroup, d);
		if (pos->cgroup->psi && pos->cgroup->psi->cpus[d->cpu])
			psi_debug_group(pos->cgroup->psi->cpus[d->cpu], d);
	}
#endif
	psi_debug_group(psi_system.cpus[d->cpu], d);
}

/*
 * Check a locked CPU, under RCU. @homes: no cgroup, switch or member changes.
 */
static unsigned int psi_debug_cpu(struct rq *rq, bool folds, bool homes, struct seq_buf *says)
{
	struct psi_debug d = {
		.cpu = cpu_of(rq),
		.now = rq_clock(rq),
		/* The CPU adds to it without its runqueue lock. */
		.irq = data_race(irq_time_read(cpu_of(rq))),
		.folds = folds,
		.homes = homes && psi_debug_all_home(),
		.says = says,
	};

	psi_debug_tasks_of(rq, &d);
	psi_debug_groups(&d);
	return d.found;
}

static void psi_debug_check(void)
{
	static char text[2048];
	static bool reported;
	unsigned int found;
	struct seq_buf says;
	bool homes;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);

		seq_buf_init(&says, text, sizeof(text));
		homes = psi_debug_lock_homes();
		scoped_guard(rcu) {
			guard(rq_lock_irqsave)(rq);
			update_rq_clock(rq);
			found = psi_debug_cpu(rq, false, homes, &says);
		}
		if (homes)
			psi_debug_unlock_homes();
		if (!found || reported)
			continue;
		reported = true;
		pr_err("psi: %u faults on CPU %d; no more will be reported\n", found, cpu);
		seq_buf_do_printk(&says, KERN_ERR);
	}
}
