// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the invariants, checked at run time
 *
 *   A hook that is missing or called twice does not crash. It leaves a count too high
 *   or too low for ever, and pressure that nobody can explain. So a debug kernel checks
 *   everything after each fold, CPU by CPU, under the runqueue lock and independently of
 *   the hooks:
 *
 *	tasks		A task is counted as what the scheduler's own fields say.
 *
 *	counts		A group's counts are the sum of what its contributors show. Its
 *			attributes and states follow from the counts, and so do the states
 *			in which a limit holds a task.
 *
 *	limits		A limit holds a task if the scheduler says so, and the group is
 *			ready for that. No group that shows it delegates.
 *
 *	delegation	A group delegates to a child that shows the same attributes. The
 *			pointers psi_group_cpu.up lead through all groups that do not
 *			delegate, from higher to lower levels.
 *
 *	home		A contributor is counted in the next cgroup above it that is
 *			switched on.
 *
 *	list		A group with a state is on the list of the fold. A group that is
 *			not on it is as new, see "The list" in psi_fold.c.
 *
 *	times		Per CPU: 0 <= full <= some <= nonidle <= time since the last check.
 *			In each state: 0 <= only <= limit <= the state.
 *
 *   The first faults since boot are reported, with evidence. All faults are mended on
 *   their CPU: the recount replaces the counts, no group delegates, impossible times go
 *   back to the last good ones, and a contributor in a wrong group moves.
 *
 *   Tasks are recounted from a list per CPU of all tasks with attributes
 *   (psi_debug_note()). The list of all tasks is no good for that: it lacks tasks that
 *   have been reaped and still run. Each task on it is only compared.
 */

/**
 * struct psi_debug - one pass over a CPU
 * @cpu: the CPU
 * @now: rq_clock() of the CPU
 * @irq: irq_time_read() of the CPU
 * @folds: a fold may run at the same time
 * @id: the cgroup at hand, 0 for the system
 * @found: number of faults
 * @says: a line for each fault
 */
struct psi_debug {
	int			cpu;
	u64			now;
	u64			irq;
	bool			folds;
	u64			id;
	unsigned int		found;
	struct seq_buf		*says;
};

/* The tasks that are counted on a CPU, protected by the lock of its runqueue. */
static DEFINE_PER_CPU(struct hlist_head, psi_debug_tasks);

static __printf(2, 3) void psi_debug_found(struct psi_debug *d, const char *format, ...)
{
	va_list args;

	d->found++;
	va_start(args, format);
	seq_buf_vprintf(d->says, format, args);
	va_end(args);
	seq_buf_putc(d->says, '\n');
}

/**
 * psi_debug_note - what a task is counted as may have changed
 * @p: the task
 * @cpu: the CPU it is counted on
 *
 * Context: The lock of that CPU's runqueue is held.
 */
void psi_debug_note(struct task_struct *p, int cpu)
{
	if (!p->psi.attrs)
		hlist_del_init(&p->psi.node);
	else if (hlist_unhashed(&p->psi.node))
		hlist_add_head(&p->psi.node, per_cpu_ptr(&psi_debug_tasks, cpu));
}

/* Call @fn for each group, children first. */
static void psi_debug_each(struct psi_debug *d,
			   void (*fn)(struct psi_group_cpu *gc, struct psi_debug *d))
{
#ifdef CONFIG_CGROUPS
	struct cgroup_subsys_state *pos;

	css_for_each_descendant_post(pos, &cgrp_dfl_root.cgrp.self) {
		d->id = cgroup_id(pos->cgroup);
		if (pos->cgroup->psi && pos->cgroup->psi->cpus[d->cpu])
			fn(pos->cgroup->psi->cpus[d->cpu], d);
	}
#endif
	d->id = 0;
	fn(psi_system.cpus[d->cpu], d);
}

/* The attributes of a task by the scheduler's own fields. */
static unsigned int psi_debug_attrs(struct task_struct *p, struct rq *rq)
{
	unsigned int state = READ_ONCE(p->__state);

	if (task_current(rq, p) || per_cpu(psi_preempted, cpu_of(rq)) == p)
		return psi_task_attrs(p, PSI_RUNS);
	if (task_on_rq_migrating(p))
		return 0;
	if (task_on_rq_queued(p) && !task_queued_asleep(p))
		return psi_task_attrs(p, PSI_QUEUED);
	/* A new task, or one that has left the CPU it slept on and is not enqueued yet. */
	if (state == TASK_NEW || (state == TASK_WAKING && !p->psi.attrs))
		return 0;
	return psi_task_attrs(p, PSI_ASLEEP);
}

static void psi_debug_wrong(struct task_struct *p, unsigned int attrs, struct psi_debug *d)
{
	psi_debug_found(d, "%s[%d] is counted as %#x, but is %#x: state %#x, on_rq %d, delayed %d",
			p->comm, task_pid_nr(p), p->psi.attrs, attrs, READ_ONCE(p->__state),
			p->on_rq, p->se.sched_delayed);
	p->psi.group = psi_group_extend(p->psi.group, d->cpu);
	p->psi.attrs = attrs;
	psi_debug_note(p, d->cpu);
}

/* A limit holds a queued task if the scheduler says so. It may be asked a moment later. */
static void psi_debug_held(struct task_struct *p, struct rq *rq, struct psi_debug *d)
{
	bool held = p->psi.mode & PSI_HELD;

	if (!task_on_rq_queued(p))
		return;
	/* It may have woken up on another CPU since the caller looked. */
	smp_rmb();
	if (task_cpu(p) != d->cpu || held == task_held_by_bandwidth(p) ||
	    (!held && (!p->psi.group->limits || atomic_read(&p->psi.group->limits_wanted))))
		return;
	psi_debug_found(d, "%s[%d] is %sheld by a limit, class %ps", p->comm, task_pid_nr(p),
			held ? "" : "not ", p->sched_class);
	__psi_throttle(rq, p, !held);
}

static void psi_debug_task(struct task_struct *p, struct rq *rq, struct psi_debug *d)
{
	unsigned int attrs;

	if (!p->psi.group || task_cpu(p) != d->cpu)
		return;
	/*
	 * A task that migrates here was last counted under the lock of another runqueue.
	 * Pairs with __set_task_cpu().
	 */
	smp_rmb();
	psi_debug_held(p, rq, d);
	/*
	 * A new task, or one that sleeps without attributes, may wake up on another CPU
	 * right now, without this runqueue's lock. So look again under the task's pi_lock.
	 * If that is taken, leave the task to the next period.
	 */
	if (data_race(p->psi.attrs == psi_debug_attrs(p, rq)))
		return;
	if (!raw_spin_trylock(&p->pi_lock))
		return;
	attrs = psi_debug_attrs(p, rq);
	if (task_cpu(p) == d->cpu && p->psi.attrs != attrs)
		psi_debug_wrong(p, attrs, d);
	raw_spin_unlock(&p->pi_lock);
}

/* What a group has about limits on a CPU, NULL if there was never one. */
static struct psi_limit_cpu *psi_debug_limits(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_limits *limits = READ_ONCE(gc->group->limits);

	return limits ? limits->cpus[d->cpu] : NULL;
}

static void psi_debug_zero(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_limit_cpu *lc = psi_debug_limits(gc, d);

	gc->recount = (struct psi_counts){ };
	if (lc)
		memset(lc->recount, 0, sizeof(lc->recount));
}

static void psi_debug_add(struct psi_group_cpu *gc, unsigned int attrs, struct psi_debug *d)
{
	struct psi_limit_cpu *lc = psi_debug_limits(gc, d);
	int l;

	gc->recount = psi_counts_add(gc->recount, psi_counts_of(attrs & ~PSI_LIMIT_ATTRS));
	for (l = 0; l < PSI_NR_LIMITS; l++) {
		if (!(attrs & PSI_LIMIT_WAITING << l))
			continue;
		if (lc)
			lc->recount[l]++;
		else
			psi_debug_found(d, "cgroup %llu has no memory for limits", d->id);
	}
}

/* Compare all tasks, and recount those with attributes on this CPU. */
static void psi_debug_tasks_of(struct rq *rq, struct psi_debug *d)
{
	struct task_struct *g, *p;
	struct hlist_node *next;

	for_each_process_thread(g, p)
		psi_debug_task(p, rq, d);
	hlist_for_each_entry_safe(p, next, per_cpu_ptr(&psi_debug_tasks, d->cpu), psi.node) {
		if (task_cpu(p) != d->cpu) {
			psi_debug_found(d, "%s[%d] is counted here, but on CPU %d",
					p->comm, task_pid_nr(p), task_cpu(p));
			hlist_del_init(&p->psi.node);
			continue;
		}
		psi_debug_task(p, rq, d);
		if (p->psi.attrs)
			psi_debug_add(p->psi.group->cpus[d->cpu], p->psi.attrs, d);
	}
}

/* The next group above that does not delegate to this one. */
static struct psi_group_cpu *psi_debug_up(struct psi_group_cpu *gc)
{
	struct psi_group_cpu *child = gc;

	for (gc = gc->parent; gc && gc->delegate == child; gc = gc->parent)
		child = gc;
	return gc;
}

/* Whether the next fold visits a group, and the groups that delegate to it. */
static bool psi_debug_listed(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_group_cpu *up = psi_debug_up(gc);

	for (; gc != up; gc = gc->parent) {
		if (!psi_listed(gc, d->cpu))
			return false;
		/* A running fold takes each group off the list and puts it back. */
		if (!d->folds && !atomic_read(&gc->group->listed))
			return false;
	}
	return true;
}

static void psi_debug_delegation(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_counts one = psi_counts_of(gc->shows);
	struct psi_group_cpu *end = psi_delegate_of(gc);

	if (gc->delegate->parent != gc || gc->last != gc ||
	    gc->enabled != gc->delegate->enabled || !psi_listed(gc, d->cpu))
		psi_debug_found(d, "cgroup %llu must not delegate: measures %#x and %#x, listed %d",
				d->id, gc->enabled, gc->delegate->enabled, psi_listed(gc, d->cpu));
	if (psi_chain(gc) > PSI_CHAIN)
		psi_debug_found(d, "cgroup %llu is one of %u that delegate in a chain", d->id,
				psi_chain(gc));
	if (end->attrs != gc->shows || gc->recount.sched != one.sched ||
	    gc->recount.stall != one.stall)
		psi_debug_found(d, "cgroup %llu delegates to what shows %#x, there are %#llx %#llx",
				d->id, end->attrs, gc->recount.sched, gc->recount.stall);
}

static void psi_debug_limit_counts(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_limit_cpu *lc = psi_debug_limits(gc, d);
	unsigned int attrs, limit, only;

	if (!lc)
		return;
	attrs = psi_limit_attrs_of(lc->recount);
	limit = psi_limit_states_of((gc->attrs & ~PSI_LIMITED) | attrs, gc->states, &only);
	if (memcmp(lc->nr, lc->recount, sizeof(lc->nr)) || lc->attrs != attrs ||
	    lc->limit != limit || lc->only != only)
		psi_debug_found(d, "cgroup %llu counts %u %u %u by limits, states %#x and %#x",
				d->id, lc->nr[0], lc->nr[1], lc->nr[2], lc->limit, lc->only);
}

static void psi_debug_unlisted(struct psi_group_cpu *gc, struct psi_debug *d)
{
	bool delegated = gc->parent && gc->parent->delegate == gc;

	if (!psi_listed(gc, d->cpu) &&
	    (gc->attrs || delegated || gc->enabled != PSI_ALL_STATES))
		psi_debug_found(d, "cgroup %llu is not listed: shows %#x, measures %#x%s", d->id,
				gc->attrs, gc->enabled, delegated ? ", delegated to" : "");
}

static void psi_debug_counts(struct psi_group_cpu *gc, struct psi_debug *d)
{
	if (gc->sched != gc->recount.sched || gc->stall != gc->recount.stall)
		psi_debug_found(d, "cgroup %llu counts %#llx %#llx, there are %#llx %#llx", d->id,
				gc->sched, gc->stall,
				gc->recount.sched, gc->recount.stall);
	psi_debug_limit_counts(gc, d);
	if (gc->attrs != gc->shows ||
	    gc->states != (psi_states_of(psi_shown(gc, d->cpu)) & gc->enabled))
		psi_debug_found(d, "cgroup %llu shows %#x in states %#x of %#x, must show %#x",
				d->id, gc->attrs, gc->states, gc->enabled, gc->shows);
	if (gc->up != psi_debug_up(gc) || (gc->up && gc->up->level >= gc->level))
		psi_debug_found(d, "cgroup %llu of level %u goes on to a wrong group, level %d",
				d->id, gc->level, gc->up ? gc->up->level : -1);
	psi_debug_unlisted(gc, d);
	if (gc->slow != PSI_ALL_STATES && !psi_debug_listed(gc, d))
		psi_debug_found(d, "cgroup %llu, states %#x of %#x: not on the list of the fold",
				d->id, gc->states, gc->slow);
}

/* Whether times are possible, one pair of states a line. */
static bool psi_debug_times_possible(const u64 *times, u64 elapsed)
{
	return times[PSI_NONIDLE] <= elapsed &&
	       times[PSI_CPU_SOME] <= times[PSI_NONIDLE] &&
	       times[PSI_CPU_FULL] <= times[PSI_CPU_SOME] &&
	       times[PSI_IO_SOME] <= times[PSI_NONIDLE] &&
	       times[PSI_IO_FULL] <= times[PSI_IO_SOME] &&
	       times[PSI_MEM_SOME] <= times[PSI_NONIDLE] &&
	       times[PSI_MEM_FULL] <= times[PSI_MEM_SOME] &&
	       /* irq time is another clock: no relation to the rest */
	       (s64)times[PSI_IRQ_FULL] >= 0;
}

/* 0 <= only <= limit <= the state, since the last check. @since: the times in the states */
static bool psi_debug_limits_possible(struct psi_group_cpu *gc, struct psi_debug *d,
				      const u64 *since)
{
	struct psi_limit_cpu *lc = psi_debug_limits(gc, d);
	struct psi_limit_times t;
	s64 limit, only;
	int s;

	if (!lc)
		return true;
	psi_limit_times(gc, d->cpu, d->now, &t);
	psi_for_each_state(s, PSI_ALL_STATES & ~(BIT(PSI_NONIDLE) | BIT(PSI_IRQ_FULL))) {
		limit = t.limit[s] - lc->checked_limit[PSI_HELD_AT(s)];
		only = t.only[s] - lc->checked_only[PSI_HELD_AT(s)];
		if (only < 0 || only > limit || limit > (s64)since[s])
			return false;
	}
	return true;
}

/* The same for the times since the last check, with which @since is filled in. */
static bool psi_debug_times_ok(struct psi_group_cpu *gc, struct psi_debug *d, u64 *since)
{
	int s;

	psi_times(gc, PSI_ALL_STATES, d->now, d->irq, since);
	for (s = 0; s < PSI_NR_STATES; s++)
		since[s] -= gc->checked[s];
	return psi_debug_times_possible(since, d->now - gc->checked_at) &&
	       psi_debug_limits_possible(gc, d, since);
}

static void psi_debug_times(struct psi_group_cpu *gc, struct psi_debug *d)
{
	u64 since[PSI_NR_STATES];
	unsigned int s;

	if (psi_debug_times_ok(gc, d, since))
		return;
	psi_debug_found(d, "cgroup %llu has times that cannot be, in %llu ns:", d->id,
			d->now - gc->checked_at);
	for (s = 0; s < PSI_NR_STATES; s++)
		seq_buf_printf(d->says, " %lld", since[s]);
	seq_buf_putc(d->says, '\n');
}

/* See the invariant in psi_union.c, which holds from psi_union_join() on. */
static void psi_debug_union(struct psi_group_cpu *gc, struct psi_debug *d)
{
	bool in_use = psi_delegate_of(gc)->states & BIT(PSI_NONIDLE);

	if (gc->use & PSI_USE_JOINED && in_use != !!(gc->use & PSI_USE_COUNTED))
		psi_debug_found(d, "cgroup %llu is %sin use, its union has it the other way",
				d->id, in_use ? "" : "not ");
}

/* All contributors of a group have been recounted: check it, and add it to its parent. */
static void psi_debug_group(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_limit_cpu *lc = psi_debug_limits(gc, d);
	unsigned int limits = lc ? psi_limit_attrs_of(lc->recount) : 0;

	gc->recount.stall = psi_stall_showing(gc->recount.stall, limits);
	gc->shows = psi_sched_attrs_of(gc->recount.sched) | psi_stall_attrs_of(gc->recount.stall);
	if (gc->delegate)
		psi_debug_delegation(gc, d);
	else
		psi_debug_counts(gc, d);
	psi_debug_times(gc, d);
	psi_debug_union(gc, d);
	if (gc->parent)
		psi_debug_add(gc->parent, (gc->shows & ~PSI_LIMITED) | limits, d);
}

/* Replace a group by its recount, impossible times by those of the last check. */
static void psi_debug_mend(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_limit_cpu *lc = psi_debug_limits(gc, d);
	u64 since[PSI_NR_STATES];
	bool ok = psi_debug_times_ok(gc, d, since);

	if (gc->delegate)
		psi_undelegate(gc);
	gc->last = NULL;
	gc->streak = PSI_STREAK;
	gc->up = gc->parent;
	gc->sched = gc->recount.sched;
	gc->stall = gc->recount.stall;
	gc->attrs = gc->shows;
	if (!ok) {
		gc->states = 0;
		memcpy(gc->times, gc->checked, sizeof(gc->times));
	}
	if (!ok && lc) {
		lc->limit = 0;
		lc->only = 0;
		memcpy(lc->limit_times, lc->checked_limit, sizeof(lc->limit_times));
		memcpy(lc->only_times, lc->checked_only, sizeof(lc->only_times));
	}
	gc->slow = PSI_ALL_STATES;
	gc->enabled = psi_listed(gc, d->cpu) ? psi_measured(gc->group) : PSI_ALL_STATES;
	if (lc) {
		memcpy(lc->nr, lc->recount, sizeof(lc->nr));
		lc->attrs = psi_limit_attrs_of(lc->nr);
	}
	psi_enter_states(gc, psi_states[gc->attrs] & gc->enabled, d->cpu, d->now);
	psi_union_join(gc, psi_delegate_of(gc), d->cpu, d->now);
	if (lc)
		psi_limit_states(gc, d->cpu, d->now);
}

static void psi_debug_checked(struct psi_group_cpu *gc, struct psi_debug *d)
{
	struct psi_limit_cpu *lc = psi_debug_limits(gc, d);
	struct psi_limit_times t;

	psi_times(gc, PSI_ALL_STATES, d->now, d->irq, gc->checked);
	gc->checked_at = d->now;
	if (!lc)
		return;
	psi_limit_times(gc, d->cpu, d->now, &t);
	memcpy(lc->checked_limit, &t.limit[PSI_NONIDLE + 1], sizeof(lc->checked_limit));
	memcpy(lc->checked_only, &t.only[PSI_NONIDLE + 1], sizeof(lc->checked_only));
}

/**
 * psi_debug_cpu - check and mend tasks and groups on a CPU
 * @rq: the runqueue of the CPU, locked, its clock up to date
 * @folds: a fold may run at the same time
 * @says: a line for each fault is added here
 *
 * Context: RCU read section.
 * Return: number of faults
 */
static unsigned int psi_debug_cpu(struct rq *rq, bool folds, struct seq_buf *says)
{
	int cpu = cpu_of(rq);
	seqcount_t *seq = &cpu_rq(cpu)->psi_seq;
	struct psi_debug d = {
		.cpu = cpu,
		.now = rq_clock(rq),
		/* The CPU adds to it without its runqueue lock. */
		.irq = data_race(irq_time_read(cpu)),
		.folds = folds,
		.says = says,
	};

	psi_debug_each(&d, psi_debug_zero);
	psi_debug_tasks_of(rq, &d);
	psi_debug_each(&d, psi_debug_group);
	if (d.found) {
		raw_write_seqcount_begin(seq);
		psi_debug_each(&d, psi_debug_mend);
		raw_write_seqcount_end(seq);
	}
	psi_debug_each(&d, psi_debug_checked);
	return d.found;
}

#ifdef CONFIG_CGROUPS
/* As psi_home() has it, by a search. */
static struct psi_group *psi_debug_home(struct cgroup *cgrp)
{
	while (test_bit(CGRP_NO_PRESSURE, &cgrp->flags) && cgroup_parent(cgrp))
		cgrp = cgroup_parent(cgrp);
	return cgroup_psi(cgrp);
}

/* Whether a contributor is counted in its home, or above it and psi_cgroup_rehome_all() is due. */
static bool psi_debug_at_home(struct psi_group *group, struct psi_group *home)
{
	return group == home || (atomic_read(&psi_reserve_short) && group->level < home->level);
}

static void psi_debug_group_home(struct cgroup *cgrp, struct psi_debug *d)
{
	struct psi_group *group = cgrp->psi, *home;
	struct psi_group_cpu *gc;

	if (!group)
		return;
	gc = group->cpus[d->cpu];
	home = psi_debug_home(cgroup_parent(cgrp));
	if (group->parent == home &&
	    (!gc || !psi_listed(gc, d->cpu) ||
	     (gc->parent && psi_debug_at_home(gc->parent->group, home))))
		return;
	psi_debug_found(d, "cgroup %llu belongs to level %u, but is counted in level %d",
			cgroup_id(cgrp), home->level,
			gc && gc->parent ? gc->parent->level : -1);
	WRITE_ONCE(group->parent, home);
	if (gc && gc->parent)
		psi_adopt(gc, d->cpu, d->now);
}

static void psi_debug_task_home(struct task_struct *p, struct psi_debug *d)
{
	struct psi_group *home;

	if (!p->psi.group || task_cpu(p) != d->cpu)
		return;
	/* Pairs with __set_task_cpu(), as in psi_debug_task(). */
	smp_rmb();
	/*
	 * A task that sleeps without attributes may be on its way to another CPU. A task
	 * with attributes takes this runqueue's lock before it leaves.
	 */
	if (!p->psi.attrs)
		return;
	/*
	 * A dying task stays in its last group. Its other flags change without a lock,
	 * but it needs css_set_lock to leave its cgroup once PF_EXITING is set.
	 */
	if (data_race(p->flags & PF_EXITING))
		return;
	home = psi_debug_home(task_dfl_cgroup(p));
	if (psi_debug_at_home(p->psi.group, home))
		return;
	psi_debug_found(d, "%s[%d] belongs to level %u, but is counted in level %u",
			p->comm, task_pid_nr(p), home->level, p->psi.group->level);
	psi_regroup(&p->psi, home, cpu_rq(d->cpu), d->now);
}

/**
 * psi_debug_homes - move contributors on a CPU to the group they belong to
 * @rq: the runqueue of the CPU, locked, its clock up to date
 * @says: a line for each fault is added here
 *
 * Context: RCU read section. cgroup_mutex and css_set_lock held: cgroups, their
 *	    switches and their members do not change.
 * Return: number of faults
 */
static unsigned int psi_debug_homes(struct rq *rq, struct seq_buf *says)
{
	struct psi_debug d = { .cpu = cpu_of(rq), .now = rq_clock(rq), .says = says };
	struct cgroup_subsys_state *pos;
	struct task_struct *g, *p;

	lockdep_assert_held(&cgroup_mutex);
	lockdep_assert_held(&css_set_lock);
	lockdep_assert_rq_held(rq);
	css_for_each_descendant_pre(pos, &cgrp_dfl_root.cgrp.self)
		psi_debug_group_home(pos->cgroup, &d);
	for_each_process_thread(g, p)
		psi_debug_task_home(p, &d);
	return d.found;
}

/* Take the locks and check. If cgroup_mutex is taken, leave it to the next period. */
static unsigned int psi_debug_check_homes(struct rq *rq, struct seq_buf *says)
{
	unsigned int found;
	struct rq_flags rf;

	if (!mutex_trylock(&cgroup_mutex))
		return 0;
	rcu_read_lock();
	spin_lock_irq(&css_set_lock);
	rq_lock_irqsave(rq, &rf);
	update_rq_clock(rq);
	found = psi_debug_homes(rq, says);
	rq_unlock_irqrestore(rq, &rf);
	spin_unlock_irq(&css_set_lock);
	rcu_read_unlock();
	cgroup_unlock();
	return found;
}
#else
static unsigned int psi_debug_check_homes(struct rq *rq, struct seq_buf *says)
{
	return 0;
}
#endif

/**
 * psi_debug_check - check everything
 *
 * Context: The thread of the fold, after a fold.
 */
void psi_debug_check(void)
{
	static char text[2048];
	static bool reported;
	unsigned int found;
	struct rq_flags rf;
	struct seq_buf says;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);

		seq_buf_init(&says, text, sizeof(text));
		rcu_read_lock();
		rq_lock_irqsave(rq, &rf);
		update_rq_clock(rq);
		found = psi_debug_cpu(rq, false, &says);
		rq_unlock_irqrestore(rq, &rf);
		rcu_read_unlock();
		found += psi_debug_check_homes(rq, &says);
		if (!found || reported)
			continue;
		reported = true;
		pr_err("psi: %u faults on CPU %d, mended; no more will be reported\n", found, cpu);
		seq_buf_do_printk(&says, KERN_ERR);
	}
}
