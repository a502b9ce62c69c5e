/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pressure stall information: the scheduler's entry points, and what the
 * psi*.c files share. The theory is at the top of each of those files.
 */
#ifndef _KERNEL_SCHED_PSI_H
#define _KERNEL_SCHED_PSI_H

#include <linux/blk-cgroup.h>
#include <linux/llist.h>
#include <linux/psi.h>
#include <linux/refcount.h>
#include <linux/seqlock.h>

#ifdef CONFIG_PSI

/*
 * What a contributor (a task in its group, a group in its parent) shows.
 * The first four are counted in psi_counts.sched, the next two in
 * psi_counts.stall, and the last three in psi_limit_cpu.nr: a contributor shows these in
 * place of, or besides, PSI_WAITING, PSI_IOWAIT and PSI_MEMSTALL, see psi_limit.c.
 */
enum psi_attr {
	PSI_WAITING	= 1 << 0,	/* runnable, not on the CPU */
	PSI_PRODUCTIVE	= 1 << 1,	/* runnable, outside memory-stall sections */
	PSI_ONCPU	= 1 << 2,	/* the CPU executes it */
	PSI_ONCPU_STALL	= 1 << 3,	/* the CPU executes it in such a section */
	PSI_IOWAIT	= 1 << 4,	/* asleep, waiting for io */
	PSI_MEMSTALL	= 1 << 5,	/* in a memory-stall section */
	PSI_LIMIT_WAITING = 1 << 6,	/* runnable, held by a limit */
	PSI_LIMIT_IOWAIT = 1 << 7,	/* asleep, waiting for io that a limit holds back */
	PSI_LIMIT_MEMSTALL = 1 << 8,	/* in a memory-stall section, because of a limit */
	PSI_NR_ATTR_SETS = 1 << 9,
	/* In psi_group_cpu.attrs, for any of these three: psi_limit_cpu.attrs has which. */
	PSI_LIMITED	= 1 << 6,
	PSI_NR_GROUP_SETS = 1 << 7,
};

/* The bits of psi_task.mode. */
enum psi_mode {
	PSI_IN_STALL	= 1 << 0,	/* in a memory-stall section */
	PSI_HELD	= 1 << 1,	/* a limit holds the task while it is queued */
	PSI_STALL_HELD	= 1 << 2,	/* besides PSI_IN_STALL: because of a limit */
	PSI_NR_MODES	= 1 << 3,
};

/* The resources of which a limit may hold a task, in the order of the attributes. */
enum psi_limit { PSI_LIMIT_CPU, PSI_LIMIT_IO, PSI_LIMIT_MEM, PSI_NR_LIMITS };

/* In psi_task.limits: the task is between psi_io_budget_wait() and psi_io_budget_done(). */
#define PSI_IO_BUDGET		BIT(PSI_NR_LIMITS)

/*
 * Pressure states of a group on one CPU, each a function of the attributes
 * that the group shows there. The first four, PSI_SCHED_STATES, are those which tasks change
 * that neither wait for io nor stall on memory.
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
#define PSI_SCHED_STATES	((1 << PSI_IO_SOME) - 1)
/* The state after each of these is the full one of the same resource. */
#define PSI_SOME_STATES		(BIT(PSI_CPU_SOME) | BIT(PSI_IO_SOME) | BIT(PSI_MEM_SOME))

/* What the lines of a pressure file are about: the lines of a plain file have no word for it. */
enum psi_kind { PSI_PLAIN, PSI_EXACT, PSI_LIMIT, PSI_SHORTAGE, PSI_NR_KINDS };

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
 * struct psi_group_cpu - a group on one CPU
 * @sched: contributors by attribute: what &struct psi_counts has of that name
 * @up: where a change of what the group shows has to be applied, %NULL for nowhere
 * @last: where the last change came from: a child, the end of the chain below a child,
 *	  or %NULL for a task; the group itself while it delegates. What it points to may be
 *	  gone, unless it is the child whose change is being applied
 * @attrs: attributes with a count above zero: what the group shows
 * @states: pressure states that hold now, a function of @attrs
 * @enabled: the states whose time is measured: all, or none where a group is in use that is
 *	     switched off
 * @slow: psi_walk_slow() is called when one of these states holds after a change
 * @streak: changes that still have to come from @last until it may stand for the group
 * @use: %PSI_USE_TELL, %PSI_USE_COUNTED, %PSI_USE_JOINED: see psi_union.c
 * @level: depth of the cgroup, of which the system is the root: higher than that of
 *	   any group above it
 * @times: per state, the time in it so far in ns; while the state holds, the clock at
 *	   which it began less that, see "Time" in psi.c. While there is a @delegate,
 *	   what the group has more than that
 * @stall: as @sched, but the other word
 * @delegate: the child that stands for the group, see "Delegation" in psi.c
 * @parent: psi_group.parent on the same CPU, %NULL for the system
 * @group: the group this is a part of
 * @recount: contributors by attribute, counted by psi_debug.c
 * @shows: attributes by that count
 * @checked: times when psi_debug.c last checked them, ns
 * @checked_at: when that was, ns of rq_clock()
 *
 * While there is a @delegate, @sched, @stall, @attrs, @states and @up are out of date. Where
 * the group is not on the list of the fold, @parent and @up are, see "The list" in
 * psi_fold.c.
 *
 * Written under the lock of the CPU's runqueue. @times, @states and @delegate change
 * inside a write section of the CPU's psi_seq: readers look at them without the lock.
 * psi_watch() reads @slow, @states and @delegate without either; its comment says why
 * that is enough.
 */
struct psi_group_cpu {
	/* All that a switch touches, up to the times of cpu and irq */
	u64			sched;
	struct psi_group_cpu	*up;
	struct psi_group_cpu	*last;
	u8			attrs;
	u8			states;
	u8			enabled;
	u8			slow;
	u8			streak;
	u8			use;
	u16			level;
	u64			times[PSI_NR_STATES];
	/* The rest */
	u64			stall;
	struct psi_group_cpu	*delegate;
	struct psi_group_cpu	*parent;
	struct psi_group	*group;
#ifdef CONFIG_PSI_DEBUG
	struct psi_counts	recount;
	u8			shows;
	u64			checked[PSI_NR_STATES];
	u64			checked_at;
#endif
} ____cacheline_aligned;

/* psi_union_tell() is to be called when the group begins or ends to be in use on the CPU. */
#define PSI_USE_TELL		BIT(0)
/* The CPU is counted in the union of the group: after an event, if the group is in use there. */
#define PSI_USE_COUNTED		BIT(1)
/* psi_union_join() was here, for the group itself. */
#define PSI_USE_JOINED		BIT(2)

/* Limits are never about PSI_NONIDLE, which comes first, so their times go without it. */
#define PSI_HELD_AT(s)		((s) - PSI_NONIDLE - 1)
#define PSI_NR_HELD		PSI_HELD_AT(PSI_NR_STATES)

/**
 * struct psi_limit_cpu - the part of a group on one CPU that is about limits
 * @nr: per resource, how many contributors show the attribute that says a limit holds them
 * @attrs: these attributes, where there are any
 * @limit: states in which a limit holds a task, a subset of psi_group_cpu.states
 * @only: those of @limit in which no task stalls for a shortage
 * @limit_times: as psi_group_cpu.times, for @limit; each state has its place by PSI_HELD_AT()
 * @only_times: the same for @only
 * @recount: as @nr, counted by psi_debug.c
 * @checked_limit: time in @limit when psi_debug.c last checked it, ns
 * @checked_only: the same of @only
 *
 * Written under the lock of the CPU's runqueue, inside a write section of psi_seq.
 */
struct psi_limit_cpu {
	u32			nr[PSI_NR_LIMITS];
	u16			attrs;
	u8			limit;
	u8			only;
	u64			limit_times[PSI_NR_HELD];
	u64			only_times[PSI_NR_HELD];
#ifdef CONFIG_PSI_DEBUG
	u32			recount[PSI_NR_LIMITS];
	u64			checked_limit[PSI_NR_HELD];
	u64			checked_only[PSI_NR_HELD];
#endif
};

/* A piece of what a CPU has in reserve, see psi_reserve.c. */
union psi_memory {
	struct psi_group_cpu	group_cpu;
	struct psi_limit_cpu	limit_cpu;
	union psi_memory	*next;
};

/**
 * struct psi_mean - the times of some CPUs in a window
 * @stall: per state, in ns: their weighted mean, or their sum if it is for exact pressure
 * @weight: sum of the weights, which are the times in use, in ns
 * @most: for exact pressure, the largest weight
 */
struct psi_mean {
	u64			stall[PSI_NR_STATES];
	u64			weight;
	u64			most;
};

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

/**
 * struct psi_account - the pressure of one kind, of one group
 * @total: per state, pressure folded so far, in ns
 * @avgs: the averages
 * @shown: per state, the largest total a reader has seen, in ns
 *
 * Readers write @shown, the fold the others.
 */
struct psi_account {
	u64			total[PSI_NR_STATES];
	struct psi_avgs		avgs;
	atomic64_t		shown[PSI_NR_STATES];
};

/**
 * struct psi_block - CPUs that share a cache
 * @cpus: how many of them are in use by the group
 */
struct psi_block {
	atomic_t		cpus;
} ____cacheline_aligned;

/**
 * struct psi_union - the time in which a group is in use on any CPU
 * @word: how many blocks (CPUs, where there are no blocks) are in use in the low bits, and
 *	  the time in ns above them
 * @blocks: per block
 */
struct psi_union {
	atomic64_t		word;
	struct psi_block	blocks[];
} ____cacheline_aligned;

/**
 * struct psi_exact - what exact pressure of a group needs
 * @account: the pressure
 * @used: the time in use on any CPU when the last window ended
 * @born: the window in which this began, a number as in psi_group.folds
 * @before: for CPUs that the group used in that window, the time up to then. %NULL later
 * @use: the time in which the group is in use on any CPU
 *
 * Readers write in @account, the fold @used and @before.
 */
struct psi_exact {
	struct psi_account	account;
	u64			used;
	unsigned int		born;
	struct psi_seen __rcu	*before;
	struct psi_union	use;
};

/**
 * struct psi_limits - what limits did to a group
 * @cpus: on each CPU that psi_group.cpus has the group on, %NULL for others
 * @limit: the pressure of limits
 * @shortage: the pressure of shortages
 * @begun: these two are true; before, all pressure was shortage
 * @seen: the times that the fold saw last, as psi_group.seen
 *
 * Allocated when a limit holds a task of the group, or of one below, first; freed with it.
 */
struct psi_limits {
	struct psi_limit_cpu	**cpus;
	struct psi_account	limit;
	struct psi_account	shortage;
	bool			begun;
	struct psi_seen __rcu	*seen;
};

/**
 * struct psi_slot - the times of a group on a CPU, as the fold or a sampler saw them
 * @times: per state, ns
 * @weight: the weight of the CPU in the window of the fold that ended then, in ns
 */
struct psi_slot {
	u64			times[PSI_NR_STATES];
	u64			weight;
};

/**
 * struct psi_seen_cpu - a CPU in a table of what was seen
 * @cpu: the CPU
 */
struct psi_seen_cpu {
	int			cpu;
};

/**
 * struct psi_seen - what was seen of the CPUs that a group was ever in use on
 * @nr: how many
 * @room: for how many there is room
 * @states: those that a slot has a time for. Any other was seen with no time, or does not matter
 * @weighed: a slot has the weight too
 * @words: how many u64 a slot is
 * @slots: for each CPU
 * @cpus: by ascending number. A CPU that is missing was seen with no time at all. Behind them are
 *	  the first slots of all CPUs, then the second ones: see psi_seen_slot()
 */
struct psi_seen {
	u16			nr;
	u16			room;
	u8			states;
	bool			weighed;
	u8			words;
	u8			slots;
	struct psi_seen_cpu	cpus[] __aligned(8);
};

static_assert(CONFIG_NR_CPUS <= U16_MAX);

/* The thread that serves a trigger: an ordinary one, or one of real-time priority. */
enum psi_prio { PSI_NORMAL, PSI_REALTIME, PSI_NR_PRIOS };

/**
 * struct psi_group - a pressure domain: the system, or a cgroup and all below
 * @cpus: per CPU, the group there, %NULL before it is in use there: see psi_reserve.c
 * @lock: nests in the lock of a runqueue. Taken to set a pointer in @cpus, and to set @limits
 * @nr_cpus: how many pointers in @cpus are set
 * @cpumask: CPUs that the next fold visits. Bits are set and cleared under the lock of
 *	     that CPU's runqueue
 * @limits: what limits did, %NULL before a limit holds a task of the group. Each group
 *	    above that is switched on has it too
 * @exact: what exact pressure needs, %NULL before somebody asks for it
 * @watch: the samplers of each priority, %NULL before the first trigger
 * @watched: per priority, the states that triggers wait for
 * @removed: the cgroup is gone
 * @off: it is switched off
 * @parent: where it is counted: the next group above that is on; %NULL for the system, and
 *	    once the cgroup is gone
 * @level: depth of the cgroup, see &struct psi_group_cpu
 * @id: what cgroup_id() says of it; the system is the root
 * @causes: its memory stalls by cause, %NULL before the first one
 * @seen: the times that the fold saw last
 * @rcu: frees the group when nobody looks through a delegation any more
 * @limits_wanted: the group is in the inbox of those that are to get @limits
 * @limits_inbox: link in that inbox
 * @refs: the cgroup has a reference, and so has each list that the group is in
 * @listed: the group is on the list of the fold, or in its inbox
 * @inbox: link in the inbox of the fold
 * @active: link in the list of groups that the next fold visits
 * @joined: when the group last got on that list with nothing stalled before,
 *	    ns of local_clock()
 * @seq: write sections are those of the fold, which is the only writer of what follows
 * @folds: how many windows ended; the slot of @seen that has the end of the last one is
 *	   psi_last_slot()
 * @plain: what the plain files show
 */
struct psi_group {
	/* read often, written hardly ever */
	struct psi_group_cpu	**cpus;
	raw_spinlock_t		lock;	/* of cpus and limits */
	unsigned int		nr_cpus;
	cpumask_var_t		cpumask;
	struct psi_limits	*limits;
	struct psi_exact	*exact;
	struct psi_watch	*watch[PSI_NR_PRIOS];
	u8			watched[PSI_NR_PRIOS];
	bool			removed;
	bool			off;
	u16			level;
	struct psi_group	*parent;
	u64			id;
#ifdef CONFIG_PSI_CAUSES
	struct psi_causes	*causes;
#endif
	struct psi_seen __rcu	*seen;
	struct rcu_head		rcu;
	atomic_t		limits_wanted;
	struct llist_node	limits_inbox;

	refcount_t		refs;
	atomic_t		listed;
	union {
		struct llist_node inbox;
		struct list_head active;
	};
	atomic64_t		joined;
	/* written by the fold */
	seqcount_t		seq;
	unsigned int		folds;
	struct psi_account	plain;
};

/* The states that triggers of a group wait for, of whatever priority. */
static inline unsigned int psi_watched(const struct psi_group *group)
{
	return READ_ONCE(group->watched[PSI_NORMAL]) | READ_ONCE(group->watched[PSI_REALTIME]);
}

/* The slot of psi_group.seen that readers use; the fold fills the other one. */
static inline unsigned int psi_last_slot(const struct psi_group *group)
{
	return READ_ONCE(group->folds) % 2;
}

/* The first CPU after @cpu that the next fold visits. */
static inline int psi_next_cpu(const struct psi_group *group, int cpu)
{
	/* A CPU that joins meanwhile may be seen or not: what it has to add has only begun. */
	cpu = data_race(cpumask_next(cpu, group->cpumask));
	/* Pairs with psi_fold_join(): then there is psi_group.cpus of that CPU. */
	smp_rmb();
	return cpu;
}

/* Each state of a set, by ascending number. */
#define psi_for_each_state(s, states) \
	for (unsigned int left = (states); left && ((s) = __ffs(left), true); left &= left - 1)

#define psi_for_each_cpu(cpu, group) \
	for ((cpu) = -1; ((cpu) = psi_next_cpu(group, cpu)) < nr_cpu_ids;)

/* Between the files */

void psi_ignore_current(void);
void psi_count_preempted(void);
void psi_regroup(struct psi_task *t, struct psi_group *to, struct rq *rq, u64 now);

u64 psi_limit_step(struct psi_group_cpu *gc, u64 *stall, int cpu);
void psi_limits_show(struct psi_task *t, unsigned int limits);
void psi_limits_apply(struct rq *rq, struct task_struct *p);
void psi_limit_states(struct psi_group_cpu *gc, int cpu, u64 now);
unsigned int psi_shown(const struct psi_group_cpu *gc, int cpu);
bool psi_limits_alloc(struct psi_group *group);
void psi_limits_free(struct psi_limits *limits);

bool psi_group_alloc_cpus(struct psi_group *group, gfp_t gfp);
void psi_group_free_cpus(struct psi_group *group);
void psi_group_init(struct psi_group *group, struct psi_group *parent, int level);
void psi_group_put(struct psi_group *group);
void psi_measure(struct psi_group_cpu *gc, int cpu, u64 now);
void psi_adopt(struct psi_group_cpu *gc, int cpu, u64 now);
#ifdef CONFIG_CGROUPS
void psi_cgroup_rehome_all(void);
#else
/* There is one group, which has memory on each CPU. */
static inline void psi_cgroup_rehome_all(void) { }
#endif

void psi_exact_free(struct psi_exact *exact);

void psi_fold_join(struct psi_group_cpu *gc, int cpu, u64 now);
void psi_avgs_init(struct psi_avgs *avgs, u64 now);
void psi_raise_alarms(struct psi_group *group, unsigned int states, u64 now);
bool psi_sampling(const struct psi_group *group);

void psi_trace_update(const struct psi_group *group, const struct psi_avgs *before);

#ifdef CONFIG_PSI_CAUSES
void psi_cause_end(u64 now, bool held);
void psi_show_causes(struct seq_file *m, struct psi_group *group);
void psi_causes_free(struct psi_group *group);

/* The current task begins a memory stall: remember why, and when. */
static inline void psi_cause_begin(enum psi_cause cause, u64 now)
{
	current->psi.cause = cause;
	current->psi.stall_since = now;
}
#else
static inline void psi_cause_begin(enum psi_cause cause, u64 now) { }
static inline void psi_cause_end(u64 now, bool held) { }
static inline void psi_show_causes(struct seq_file *m, struct psi_group *group) { }
static inline void psi_causes_free(struct psi_group *group) { }
#endif

#ifdef CONFIG_PSI_DEBUG
void psi_debug_note(struct task_struct *p, int cpu);
void psi_debug_check(void);
#else
static inline void psi_debug_note(struct task_struct *p, int cpu) { }
static inline void psi_debug_check(void) { }
#endif

void __psi_enqueue(struct rq *rq, struct task_struct *p, int flags);
void __psi_dequeue(struct rq *rq, struct task_struct *p, int flags);
void __psi_sched_switch(struct rq *rq, struct task_struct *prev, struct task_struct *next);
void __psi_leave_cpu(struct task_struct *p);
void __psi_exit(void);

void __psi_throttle(struct rq *rq, struct task_struct *p, bool on);
void __psi_throttle_again(struct rq *rq, struct task_struct *p);
void __psi_io_wait(void);
void __psi_io_done(void);

/**
 * psi_throttle - a limit holds a task that is queued, or does not any more
 * @rq: the runqueue, locked, its clock up to date
 * @p: the task, on @rq or about to get there or to leave. It may be current
 * @on: whether a limit holds it
 *
 * Where a task is queued it counts at once as stalled for that reason. Otherwise the hook that
 * follows (enqueue, dequeue or switch) has it count so.
 */
static inline void psi_throttle(struct rq *rq, struct task_struct *p, bool on)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_throttle(rq, p, on);
}

/**
 * psi_throttle_again - look again whether a limit holds a task
 * @rq: the runqueue of the task, locked, its clock up to date
 * @p: the task, which changed its class or its group
 */
static inline void psi_throttle_again(struct rq *rq, struct task_struct *p)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_throttle_again(rq, p);
}

/* Whether a limit holds io of the current task. */
static inline bool psi_io_held(void)
{
	return current->psi.limits & PSI_IO_BUDGET || blkcg_current_throttled();
}

/**
 * psi_io_wait - the current task is about to sleep until io is complete
 *
 * It has psi_iowait set. Finds out whether a limit holds that io. A limit that holds it later,
 * while the task sleeps already, does not count.
 */
static inline void psi_io_wait(void)
{
	if (!static_branch_likely(&psi_disabled) && unlikely(psi_io_held()))
		__psi_io_wait();
}

/**
 * psi_io_done - the current task sleeps no more
 */
static inline void psi_io_done(void)
{
	if (unlikely(current->psi.limits & BIT(PSI_LIMIT_IO)))
		__psi_io_done();
}

/**
 * psi_iowait_set - from now on the current task waits for storage when it sleeps
 *
 * psi_iowait_begin() for the scheduler itself.
 *
 * Return: to be passed to psi_iowait_restore()
 */
static inline int psi_iowait_set(void)
{
	int token = current->psi_iowait;

	current->psi_iowait = 1;
	psi_io_wait();
	return token;
}

/**
 * psi_iowait_restore - back to what was true before
 * @token: what psi_iowait_set() returned
 */
static inline void psi_iowait_restore(int token)
{
	if (!token)
		psi_io_done();
	current->psi_iowait = token;
}

/**
 * psi_enqueue - a task has been put on a runqueue
 * @rq: the runqueue, locked, its clock up to date
 * @p: the task, as its class left it
 * @flags: ENQUEUE_* flags
 *
 * A wake-up, a new task, a migration or the second half of a change to a
 * queued task: which one does not matter, the task's state is looked up anew.
 */
static inline void psi_enqueue(struct rq *rq, struct task_struct *p, int flags)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_enqueue(rq, p, flags);
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

static inline void psi_throttle(struct rq *rq, struct task_struct *p, bool on) { }
static inline void psi_throttle_again(struct rq *rq, struct task_struct *p) { }
static inline int psi_iowait_set(void) { return 0; }
static inline void psi_iowait_restore(int token) { }
static inline void psi_enqueue(struct rq *rq, struct task_struct *p, int flags) { }
static inline void psi_dequeue(struct rq *rq, struct task_struct *p, int flags) { }
static inline void psi_sched_switch(struct rq *rq, struct task_struct *prev,
				    struct task_struct *next) { }
static inline void psi_wake_migrate(struct task_struct *p) { }
static inline void psi_fork(struct task_struct *p) { }
static inline void psi_ignore(struct task_struct *p) { }
static inline void psi_exit(void) { }

#endif /* CONFIG_PSI */

#endif /* _KERNEL_SCHED_PSI_H */
