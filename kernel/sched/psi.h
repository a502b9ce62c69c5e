/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pressure stall information: the scheduler's entry points, and what the
 * psi*.c files share. The theory is at the top of each of those files.
 */
#ifndef _KERNEL_SCHED_PSI_H
#define _KERNEL_SCHED_PSI_H

#include <linux/llist.h>
#include <linux/psi.h>
#include <linux/refcount.h>

#ifdef CONFIG_PSI

/*
 * What a contributor (a task in its group, a group in its parent) shows.
 * The first four are counted in psi_counts.sched, the others in
 * psi_counts.stall.
 */
enum psi_attr {
	PSI_WAITING	= 1 << 0,	/* runnable, not on the CPU */
	PSI_PRODUCTIVE	= 1 << 1,	/* runnable, outside memory-stall sections */
	PSI_ONCPU	= 1 << 2,	/* the CPU executes it */
	PSI_ONCPU_STALL	= 1 << 3,	/* the CPU executes it in such a section */
	PSI_IOWAIT	= 1 << 4,	/* asleep, waiting for io */
	PSI_MEMSTALL	= 1 << 5,	/* in a memory-stall section */
	PSI_NR_ATTR_SETS = 1 << 6,
};

/*
 * Pressure states of a group on one CPU, each a function of the attributes
 * that the group shows there. The first four are those which tasks change that neither
 * wait for io nor stall on memory.
 */
enum psi_state {
	PSI_NONIDLE,
	PSI_CPU_SOME,
	PSI_CPU_FULL,
	PSI_IRQ_FULL,
	PSI_IO_SOME,
	PSI_IO_FULL,
	PSI_MEM_SOME,
	PSI_MEM_FULL,
	PSI_NR_STATES,
};

#define PSI_ALL_STATES		((1 << PSI_NR_STATES) - 1)

enum psi_horizon { PSI_10S, PSI_60S, PSI_300S, PSI_NR_HORIZONS };

/**
 * struct psi_counts - how many contributors show each attribute
 * @sched: waiting, productive, oncpu and oncpu_stall, packed
 * @stall: iowait and memstall, packed
 *
 * See psi_sched_counts_of() for the lanes. Also used for differences: the packing
 * is linear, so one addition moves all lanes of a word at once.
 */
struct psi_counts {
	u64			sched;
	u64			stall;
};

/**
 * struct psi_cpu - a group on one CPU
 * @counts: contributors by attribute
 * @up: where a change of what the group shows has to be applied, %NULL for nowhere
 * @delegate: the child that stands for the group, see "Delegation" in psi.c
 * @last: where the last change came from: a child, what stands for one, or %NULL
 *	  for a task; the group itself while it delegates
 * @attrs: attributes with a count above zero: what the group shows
 * @states: pressure states that hold now, a function of @attrs
 * @kept: the states whose time is kept: all, or none in a group switched off
 * @tell: psi_tell() is called when one of these states holds after a change
 * @watched: the states that a trigger waits for
 * @streak: changes that still have to come from @last until it may stand for the group
 * @level: depth of the cgroup, of which the system is the root: higher than that of
 *	   any group above it
 * @times: per state, the time in it since the last fold in ns; while the state
 *	   holds, the clock at which it began less that, see "Time" in psi.c. While
 *	   there is a @delegate, what the group has more than that
 * @parent: the parent group on the same CPU, %NULL for the system
 * @group: the group this is a part of
 * @recount: contributors by attribute, counted by psi_debug.c
 * @shows: attributes by that count
 * @taken: when the fold last took the times, ns of rq_clock()
 *
 * While there is a @delegate, @counts, @attrs, @states and @up are out of date.
 *
 * Written under the lock of the CPU's runqueue. @times, @states and @delegate, which
 * readers look at without, change inside a write section of the CPU's psi_seq.
 * psi_watch() peeks at @tell and @watched as well: what is out of date there costs it
 * the lock, or somebody an alarm for nothing.
 */
struct psi_cpu {
	struct psi_counts	counts;
	struct psi_cpu		*up;
	struct psi_cpu		*delegate;
	struct psi_cpu		*last;
	u8			attrs;
	u8			states;
	u8			kept;
	u8			tell;
	u8			watched;
	u8			streak;
	u16			level;
	u64			times[PSI_NR_STATES];
	struct psi_cpu		*parent;
	struct psi_group	*group;
#ifdef CONFIG_PSI_DEBUG
	struct psi_counts	recount;
	u8			shows;
	u64			taken;
#endif
} ____cacheline_aligned;

/**
 * struct psi_avgs - running averages of one group
 * @at: time up to which stall has been added, ns of local_clock()
 * @mark: end of the running period
 * @pending: per state, stall that belongs to the running period, in ns
 * @avg: per state and horizon, the average in units of 1 / PSI_AVG_ONE
 */
struct psi_avgs {
	u64			at;
	u64			mark;
	u64			pending[PSI_NR_STATES];
	u32			avg[PSI_NR_STATES][PSI_NR_HORIZONS];
};

/* Who serves a trigger: an ordinary thread, or one of real-time priority. */
enum psi_class { PSI_ORDINARY, PSI_REALTIME, PSI_NR_CLASSES };

/**
 * struct psi_alarm - tells a monitor that a watched state began in a group
 * @link: in the list of the monitor's worker
 * @queued: the alarm is on that list, and holds a reference to the group
 * @since: time of the state that set @queued
 * @begun: states that began, a bit mask
 * @states: states that the monitor is to be told of, a bit mask
 *
 * Raised under the lock of a CPU's runqueue, or that of the group with interrupts
 * disabled. Who sets @queued writes @since, then adds @link; the monitor reads both
 * before it clears @queued. @states changes under the lock of the group.
 */
struct psi_alarm {
	struct llist_node	link;
	atomic_t		queued;
	atomic_t		begun;
	u64			since;
	u8			states;
};

/**
 * struct psi_group - a pressure domain: the system, or a cgroup and all below
 * @cpus: the group on each possible CPU
 * @refs: the cgroup has a reference, and so has each list or sampler it is in
 * @listed: the group is on the list of the clock
 * @active: link in the list of groups that the next fold visits
 * @joined: when the group last got on that list with nothing stalled before,
 *	    ns of local_clock()
 * @lock: serialises folds, readers and triggers, protects what follows up to @alarms
 * @total: per state, pressure folded so far, in ns
 * @shown: per state, the largest total a reader has seen, in ns
 * @avgs: the averages
 * @samplers: what the triggers of the group look at
 * @alarms: how monitors are told
 * @rcu: frees it when nobody looks through a delegation any more
 * @cpumask: CPUs that the next fold visits, as they had activity since the last;
 *	     bits are set under the lock of that CPU's runqueue and cleared with @lock
 *	     held as well
 */
struct psi_group {
	struct psi_cpu __percpu	*cpus;
	refcount_t		refs;
	atomic_t		listed;
	struct llist_node	active;
	atomic64_t		joined;
	/* between folds, readers and triggers */
	spinlock_t		lock;
	u64			total[PSI_NR_STATES];
	u64			shown[PSI_NR_STATES];
	struct psi_avgs		avgs;
	struct list_head	samplers;
	struct psi_alarm	alarms[PSI_NR_CLASSES];
	struct rcu_head		rcu;
	cpumask_var_t		cpumask;
};

/* The first CPU after @cpu that the next fold visits. */
static inline int psi_next_cpu(const struct psi_group *group, int cpu)
{
	/* Who joins while we look may be seen or not: what it has to add has only begun. */
	return data_race(cpumask_next(cpu, group->cpumask));
}

/* With the group locked, so that none leaves. */
#define psi_for_each_cpu(cpu, group) \
	for ((cpu) = -1; ((cpu) = psi_next_cpu(group, cpu)) < nr_cpu_ids;)

#ifdef CONFIG_PSI_DEBUG
void psi_debug_note(struct task_struct *p, int cpu);
void psi_debug_check(void);

static inline void psi_debug_taken(struct psi_cpu *pc, u64 now)
{
	pc->taken = now;
}
#else
static inline void psi_debug_note(struct task_struct *p, int cpu) { }
static inline void psi_debug_check(void) { }
static inline void psi_debug_taken(struct psi_cpu *pc, u64 now) { }
#endif

void __psi_enqueue(struct rq *rq, struct task_struct *p);
void __psi_dequeue(struct rq *rq, struct task_struct *p, int flags);
void __psi_sched_switch(struct rq *rq, struct task_struct *prev, struct task_struct *next);
void __psi_leave_cpu(struct task_struct *p);
void __psi_exit(void);

/**
 * psi_enqueue - a task has been put on a runqueue
 * @rq: the runqueue, locked, its clock up to date
 * @p: the task, as its class left it
 *
 * A wake-up, a new task, a migration or the second half of a change to a
 * queued task: which one does not matter, the task's state is looked up anew.
 */
static inline void psi_enqueue(struct rq *rq, struct task_struct *p)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_enqueue(rq, p);
}

/**
 * psi_dequeue - a task is about to be taken off its runqueue
 * @rq: the runqueue, locked, its clock up to date
 * @p: the task
 * @flags: DEQUEUE_* flags
 */
static inline void psi_dequeue(struct rq *rq, struct task_struct *p, int flags)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_dequeue(rq, p, flags);
}

/**
 * psi_sched_switch - the CPU goes on to another task
 * @rq: the runqueue, locked, its clock up to date
 * @prev: the task that stops: preempted, or asleep by now
 * @next: the task that starts
 */
static inline void psi_sched_switch(struct rq *rq, struct task_struct *prev,
				    struct task_struct *next)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_sched_switch(rq, prev, next);
}

/**
 * psi_wake_migrate - a task will wake up on another CPU than it slept on
 * @p: the task, off every runqueue, its pi_lock held
 *
 * What a sleeping task is counted as (waiting for io, in a memory stall)
 * leaves the old CPU here, before set_task_cpu(); the enqueue counts it on
 * the new one.
 */
static inline void psi_wake_migrate(struct task_struct *p)
{
	if (!static_branch_likely(&psi_disabled) && p->psi.attrs)
		__psi_leave_cpu(p);
}

/**
 * psi_fork - a new task starts as a member of the system, counted nowhere
 * @p: the task, not yet visible to anybody
 */
static inline void psi_fork(struct task_struct *p)
{
	p->psi = (struct psi_task){ .group = &psi_system };
}

/**
 * psi_ignore - do not count a task, now or ever
 * @p: a task that is counted as nothing: never queued, or psi_ignore_current()
 */
static inline void psi_ignore(struct task_struct *p)
{
	p->psi.group = NULL;
}

/**
 * psi_exit - the current task is about to be switched out for the last time
 *
 * One that dies where it stands (an oops in reclaim) takes its memory stall
 * and its wait for io with it.
 */
static inline void psi_exit(void)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_exit();
}

#else /* CONFIG_PSI */

static inline void psi_enqueue(struct rq *rq, struct task_struct *p) { }
static inline void psi_dequeue(struct rq *rq, struct task_struct *p, int flags) { }
static inline void psi_sched_switch(struct rq *rq, struct task_struct *prev,
				    struct task_struct *next) { }
static inline void psi_wake_migrate(struct task_struct *p) { }
static inline void psi_fork(struct task_struct *p) { }
static inline void psi_ignore(struct task_struct *p) { }
static inline void psi_exit(void) { }

#endif /* CONFIG_PSI */

#endif /* _KERNEL_SCHED_PSI_H */
