/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pressure stall information: what the psi_*.c files share
 *
 * Order
 *   Each psi*.c uses functions of those that build_utility.c includes before
 *   it, and of no other. So they can be read in that order, after the theory at
 *   the top of psi.c. Two calls go the other way, from psi.c and psi_async.c to
 *   psi_limit.c, through hooks in psi.h: psi_io_wait() and psi_io_done().
 *
 * Glossary: words of ours; what kernel/sched has a word for is called by that
 *
 *	group		a domain: the system, or a cgroup with all below
 *	cell		a group on one CPU (struct psi_group_cpu)
 *	contributor	a task in its group, or a group in its parent
 *	attribute	what a contributor is: waiting, in iowait, ...
 *	show		a cell shows an attribute that a contributor has
 *	state		a pressure state of a cell, a function of what it shows
 *	walk		applies an event to the cells above a task
 *	delegate	the only child in use, which stands for its parent
 *	chain		cells that delegate to each other, and the last one
 *	streak		changes that came from one child in a row
 *	list		of the groups that the fold visits, and their CPUs there
 *	fold		turns the times of cells into totals, every period
 *	window		of a group: the time between two visits of the fold
 *	period		two seconds; averages are fed once in each
 *	rest		the fold, or a sampler, without anything to do
 *	slot		the times of a cell at the end of a window
 *	account		totals and averages of a group
 *	kind		of pressure: plain, exact, limit or shortage
 *	exact		pressure moment by moment, see psi_asked.c
 *	limit		a limit that an administrator set holds a task back
 *	shortage	a task stalls although no limit holds it
 *	only		a limit holds tasks, and there is no shortage
 *	asked		a reader or trigger wants more than plain pressure
 *	union		the time in which a group is in use on any CPU
 *	block		CPUs that share a cache, for the union
 *	sampler		slides a window over a group, for triggers
 *	mark		when a step of a sampler, or a period, ends
 *	alarm		tells a monitor that a state began
 *	monitor		the thread that serves samplers
 *	watch		the samplers of a group that one monitor serves
 *	turn		what a monitor does for one group before the next
 *	owed		an event that waits until a trigger may fire again
 *	worker		a thread of PSI: the fold, or a monitor
 *	reserve		memory for cells, for use under a runqueue lock
 *	home		the group that a contributor belongs to
 */
#ifndef _KERNEL_SCHED_PSI_INTERNAL_H
#define _KERNEL_SCHED_PSI_INTERNAL_H

#include <linux/delay.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/psi.h>
#include <linux/refcount.h>
#include <linux/seqlock.h>
#include <linux/timerqueue.h>

/*
 * What a contributor shows. Those of limits come in place of, or in a group
 * besides, the ones of the same resource: see psi_limit.c.
 */
enum {
	PSI_WAITING	= 1 << 0,	/* runnable, not on the CPU */
	PSI_PRODUCTIVE	= 1 << 1,	/* runnable, not in a memory stall */
	PSI_ONCPU	= 1 << 2,	/* the CPU executes it */
	PSI_ONCPU_STALL	= 1 << 3,	/* the CPU executes it, in a stall */
	PSI_IOWAIT	= 1 << 4,	/* asleep, waiting for io */
	PSI_MEMSTALL	= 1 << 5,	/* in a memory-stall section */
	PSI_LIMIT_WAITING = 1 << 6,	/* runnable, held by a limit */
	PSI_LIMIT_IOWAIT = 1 << 7,	/* waiting for io that a limit holds */
	PSI_LIMIT_MEMSTALL = 1 << 8,	/* in such a stall due to a limit */
	PSI_NR_ATTR_SETS = 1 << 9,
};

#define PSI_SCHED_ATTRS		(PSI_IOWAIT - 1)
#define PSI_STALL_ATTRS		(PSI_IOWAIT | PSI_MEMSTALL)
#define PSI_LIMIT_ATTRS		(PSI_NR_ATTR_SETS - PSI_LIMIT_WAITING)

/*
 * psi_task.mode has the attributes that change while a limit holds a queued
 * task, and those of a memory stall, with PSI_MEMSTALL or PSI_LIMIT_MEMSTALL.
 */
#define PSI_HELD		(PSI_WAITING | PSI_LIMIT_WAITING)
#define PSI_IN_STALL		(PSI_PRODUCTIVE | PSI_ONCPU_STALL)

/* A task without io wait or memory stall changes none from PSI_IO_SOME on. */
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
/* The state after each of these is the full one of the same resource. */
#define PSI_SOME_STATES		(BIT(PSI_CPU_SOME) | BIT(PSI_IO_SOME) | BIT(PSI_MEM_SOME))

/* Times of limits per state but PSI_NONIDLE: "limit", "only" (psi_asked.c). */
#define PSI_NR_HELD		(2 * (PSI_NR_STATES - PSI_NONIDLE - 1))
#define PSI_LIMIT_AT(s)		((s) - PSI_NONIDLE - 1)
#define PSI_ONLY_AT(s)		((s) + PSI_NR_HELD / 2 - PSI_NONIDLE - 1)

enum psi_kind { PSI_PLAIN, PSI_EXACT, PSI_LIMIT, PSI_SHORTAGE, PSI_NR_KINDS };

enum { PSI_10S, PSI_60S, PSI_300S, PSI_NR_HORIZONS };

/* Contributors by attribute, or a difference: see "Counts" in psi_cell.c. */
struct psi_counts {
	u64			sched;
	u64			stall;
	u64			limit;
};

/*
 * A cell: a group on one CPU
 * @sched: and the other fields of psi_counts: contributors by attribute
 * @up: where a change of what the cell shows is applied next, or %NULL
 * @last: where the last change came from: a child, the end of the chain below a
 *	  child, or %NULL for a task. While @streak is %PSI_DELEGATES, the child
 *	  that stands for the cell. Otherwise what it points to may be gone,
 *	  unless it is the child whose change is being applied
 * @attrs: attributes with a count above zero: what the cell shows
 * @states: pressure states that hold now, a function of @attrs
 * @slow: states to report when they hold after a change: all while the cell is
 *	  off the list; else those that triggers wait for, until reported
 * @streak: changes still to come from @last until it may stand for the cell
 * @times: per state, the time in it so far in ns; while the state holds, the
 *	   clock at which it began less that, see "Time" in psi.c. While the
 *	   cell delegates, what it has more than its delegate
 * @parent: the cell of psi_group.parent, %NULL for the system
 * @slots: @times at the end of two windows, see "Windows" in psi_fold.c
 * @recount, @shows: contributors, and attributes by that, for psi_debug.c
 * @checked, @checked_at: @times when it last looked, and rq_clock() then, in ns
 *
 * While the cell delegates, @sched, @stall, @limit, @attrs, @states and @up are
 * out of date. Where the group is not on the list, @parent and @up are.
 *
 * Written under the lock of the CPU's runqueue, apart from @slots: these belong
 * to the fold. @times, @states, @streak and @last change inside a write section
 * of the CPU's psi_seq: readers look at them without the lock.
 * psi_watch_cells() reads @slow, @states and @streak without either.
 */
struct psi_group_cpu {
	/* All that a switch touches, up to the times of cpu and irq */
	u64			sched;
	struct psi_group_cpu	*up;
	struct psi_group_cpu	*last;
	u16			attrs;
	u8			states;
	u8			slow;
	u8			streak;
	u8			asked;
	u64			times[PSI_NR_STATES];
	/* The rest */
	u64			stall;
	u64			limit;
	struct psi_group_cpu	*parent;
	struct psi_group	*group;
	u64			slots[2][PSI_NR_STATES];
#ifdef CONFIG_PSI_DEBUG
	struct psi_counts	recount;
	u16			shows;
	u64			checked[PSI_NR_STATES];
	u64			checked_at;
#endif
} ____cacheline_aligned;

/* psi_group_cpu.streak of a cell that delegates. */
#define PSI_DELEGATES		0

/* The group is asked, and the cell uses its place in psi_asked.cpus. */
#define PSI_ASKED		BIT(0)
/* So is a group that delegates to the cell, maybe through others. */
#define PSI_ASKED_ABOVE		BIT(1)

/*
 * The part of a cell that exists while it is asked. Written under the CPU's
 * runqueue lock, in a write section of its psi_seq.
 * @held: which limit and only states hold, by PSI_LIMIT_AT() and PSI_ONLY_AT()
 * @times: in these, stored as psi_group_cpu.times
 * @base: @times when the CPU joined the list; sums have what came since
 * @counted: how often the CPU is counted in the union, for psi_debug.c
 */
struct psi_asked_cpu {
	u16			held;
	u64			times[PSI_NR_HELD];
	u64			base[PSI_NR_HELD];
#ifdef CONFIG_PSI_DEBUG
	int			counted;
	u64			checked[PSI_NR_HELD];
#endif
};

/*
 * What a group did in the running window; for a sampler, in a step: @weight,
 * @most, and of its state @stall and @sum
 * @asked: what the group has while it is asked, %NULL for plain pressure only
 * @now: when the look began, ns of psi_read_clock()
 * @stall: per state, the mean of the CPUs by the formula of psi_avgs.c, in ns
 * @weight: sum of the weights of the CPUs, which are the times in use, in ns
 * @idle: the group was idle on a CPU
 * @off: of a reader: the group is off
 * @sum: per state, the sum over CPUs; with @asked, as all that follows
 * @most: the largest weight
 * @used: psi_union_read() at the end
 * @held: sums over CPUs of what limits held, all of it
 */
struct psi_look {
	struct psi_asked	*asked;
	unsigned int		states;
	u64			now;
	u64			stall[PSI_NR_STATES];
	u64			weight;
	bool			idle;
	bool			off;
	u64			sum[PSI_NR_STATES];
	u64			most;
	u64			used;
	u64			held[PSI_NR_HELD];
};

/*
 * Averages in units of 1 / PSI_AVG_ONE. Stall was added up to @at, in ns of
 * psi_read_clock(); @pending, in ns, belongs to the period that runs then.
 */
struct psi_avgs {
	u64			at;
	u64			pending[PSI_NR_STATES];
	u32			avg[PSI_NR_STATES][PSI_NR_HORIZONS];
};

/*
 * The pressure of one kind, of one group: times per state, in ns
 * @total: folded so far
 * @skip: what readers leave out of the total
 * @shown: the largest total that a reader has seen; in the copy of a reader,
 *	   what it would have seen of a group that is off
 *
 * Readers write @shown, psi_switch() @skip, the fold the others.
 */
struct psi_account {
	u64			total[PSI_NR_STATES];
	struct psi_avgs		avgs;
	u64			skip[PSI_NR_STATES];
	atomic64_t		shown[PSI_NR_STATES];
};

enum { PSI_NORMAL, PSI_REALTIME, PSI_NR_PRIOS };

/*
 * A pressure domain: the system, or a cgroup and all below
 * @cpus: per CPU, the cell, %NULL before it is used: "Reserve" in psi_group.c
 * @cpumask: CPUs that the next fold visits. Bits change under the runqueue lock
 * @asked: what more than plain pressure needs, %NULL while nobody asks
 * @accounts: by enum psi_kind, but the plain one; %NULL before somebody asks
 * @owes: it has a cell that its memory cgroup does not pay for yet
 * @level: depth of the cgroup, 0 for the system
 * @parent: where it is counted; %NULL for the system, and once @removed
 * @id: what cgroup_id() says of it; the system is the root
 * @causes: its memory stalls by cause, %NULL before the first one
 * @stray: the group is in psi_strays, linked by @strays
 * @refs: the cgroup has a reference, and so has each list that the group is in
 * @listed: the group is on the list of the fold, or in its inbox
 * @switches: how often cgroup.pressure switched it: odd while it is off
 * @active: link in the list of groups that the next fold visits
 * @rcu: frees the group, in no list any more, when nobody looks through a
 *	 delegation
 * @joined: when it got on that list, ns of psi_read_clock(); no stall before
 * @seq: the fold opens its write sections, for @folds and its part of @plain
 * @folds: how many windows ended; psi_last_slot() follows from it
 */
struct psi_group {
	/* read often, written hardly ever */
	struct psi_group_cpu	**cpus;
	cpumask_var_t		cpumask;
	struct psi_asked __rcu	*asked;
	struct psi_account	*accounts;
	struct psi_watch	*watch[PSI_NR_PRIOS];
	u8			watched[PSI_NR_PRIOS];
	bool			removed;
	bool			owes;
	u16			level;
	struct psi_group	*parent;
	u64			id;
	struct psi_stalls	*causes;
	struct llist_node	strays;
	atomic_t		stray;
	refcount_t		refs;
	atomic_t		listed;
	unsigned int		switches;
	union {
		struct llist_node inbox;
		struct list_head active;
		struct rcu_head	rcu;
	};
	atomic64_t		joined;
	/* written by the fold, but see psi_account */
	seqcount_t		seq;
	unsigned int		folds;
	struct psi_account	plain;
};

/*
 * The samplers of a group that one monitor serves, from the first trigger on
 * @lock: protects @samplers to @due, @alarm_states, samplers and their triggers
 * @waiting: per state, how many samplers there are for it
 * @due: those at work, by the time they are due
 * @at_work: whether there are any, or may be in a moment
 * @alarm_states: states whose begin raises the alarm, for resting samplers
 * @alarm: in the inbox of the monitor, while the alarm is raised
 * @alarm_begun: states that began since the monitor answered
 * @alarm_since: when the first of these did, ns of psi_read_clock()
 * @queued: in the queue of the monitor, with a reference to @group, by when it
 *	    is due and the pause is over
 * @pause: not due before, ns of psi_read_clock(); for the monitor
 * @alarmed: the monitor took the alarm from its inbox; for the monitor
 *
 * The side that finds @alarm_begun zero writes @alarm_since, then adds @alarm,
 * with interrupts disabled. The monitor reads both before it clears
 * @alarm_begun.
 */
struct psi_watch {
	struct psi_group	*group;
	int			prio;
	struct mutex		lock;	/* of samplers and triggers */
	struct list_head	samplers;
	unsigned int		waiting[PSI_NR_STATES];
	struct timerqueue_head	due;
	bool			at_work;
	u8			alarm_states;
	struct llist_node	alarm;
	atomic_t		alarm_begun;
	u64			alarm_since;
	struct timerqueue_node	queued;
	u64			pause;
	bool			alarmed;
};

static inline unsigned int psi_switches(const struct psi_group *group)
{
	/* Pairs with psi_switch(). */
	return smp_load_acquire(&group->switches);
}

/* The states that triggers of a group wait for, of whatever priority. */
static inline unsigned int psi_watched(const struct psi_group *group)
{
	return READ_ONCE(group->watched[PSI_NORMAL]) | READ_ONCE(group->watched[PSI_REALTIME]);
}

/* The slot of a cell that readers use; the fold fills the other one. */
static inline unsigned int psi_last_slot(const struct psi_group *group)
{
	return READ_ONCE(group->folds) % 2;
}

/* The first CPU after @cpu that the next fold visits. */
static inline int psi_next_cpu(const struct psi_group *group, int cpu)
{
	/* A CPU that joins now may be seen or not: what it adds only begins. */
	cpu = data_race(cpumask_next(cpu, group->cpumask));
	/* Pairs with psi_fold_join(): then there is the cell of that CPU. */
	smp_rmb();
	return cpu;
}

#define psi_for_each_cpu(cpu, group) \
	for ((cpu) = -1; ((cpu) = psi_next_cpu(group, cpu)) < nr_cpu_ids;)

#define psi_for_each_state(s, states) \
	for (unsigned int left = (states); left && ((s) = __ffs(left), true); left &= left - 1)

/*
 * How many tasks that wait in a ring, or for io of a cgroup, are looked at when
 * the reason of their wait changes: with interrupts off, each under a runqueue
 * lock. Rings of thread pools have some tens.
 */
#define PSI_WAITERS_MAX	32

/* What is not there in some configurations */

#ifndef CONFIG_MEMCG
static inline void psi_cgroup_charge(struct psi_group *group) { }
#endif

#ifndef CONFIG_PSI_STAT
/* No group is ever asked. These are in psi_asked.c and psi_stat.c. */
static inline void psi_asked_event(struct psi_group_cpu *gc, u8 before, int cpu, u64 now) { }
static inline void psi_asked_listed(struct psi_group_cpu *gc, int cpu, u64 now) { }

static inline int psi_show_stat(struct seq_file *m, struct psi_group *group)
{
	return -EOPNOTSUPP;
}

static inline struct psi_asked *psi_ask(struct psi_group *group) { return NULL; }
static inline void psi_unask(struct psi_asked *asked) { }
static inline struct psi_asked *psi_asked_get(struct psi_group *group) { return NULL; }
static inline u64 psi_union_read(struct psi_asked *asked, u64 now) { return 0; }
static inline u64 psi_union_since(u64 now, u64 then) { return 0; }
static inline u64 psi_union_before(u64 now, u64 then, u64 ago) { return 0; }
static inline void psi_asked_unlisted(struct psi_asked *asked,
				      struct psi_group_cpu *gc, int cpu) { }
static inline void psi_sums_pressure(const struct psi_look *look,
				     u64 stall[][PSI_NR_STATES]) { }
static inline void psi_asked_fold(u64 idle, const struct psi_look *look) { }
static inline struct llist_node *psi_asked_all(void) { return NULL; }
static inline struct llist_node *psi_asked_expire(struct llist_node *list) { return NULL; }

static inline struct psi_asked_cpu *psi_asked_cpu(struct psi_asked *asked,
						  struct psi_group_cpu *gc, int cpu)
{
	return NULL;
}
#endif

#ifndef CONFIG_PSI_CAUSES
static inline void psi_cause_begin(enum psi_cause cause, u64 now) { }
static inline void psi_cause_end(u64 now, bool held) { }
static inline void psi_show_causes(struct seq_file *m, struct psi_group *group) { }
#endif

#ifdef CONFIG_PSI_DEBUG
/* Tasks counted on a CPU, under its runqueue lock. */
static DEFINE_PER_CPU(struct hlist_head, psi_debug_tasks);

/* What a task is counted as may have changed. The runqueue is locked. */
static inline void psi_debug_note(struct task_struct *p, int cpu)
{
	if (!p->psi.attrs)
		hlist_del_init(&p->psi.node);
	else if (hlist_unhashed(&p->psi.node))
		hlist_add_head(&p->psi.node, per_cpu_ptr(&psi_debug_tasks, cpu));
}
#else
static inline void psi_debug_note(struct task_struct *p, int cpu) { }
static inline void psi_debug_check(void) { }
#endif

#endif /* _KERNEL_SCHED_PSI_INTERNAL_H */
