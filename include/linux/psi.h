/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PSI_H
#define _LINUX_PSI_H

#include <linux/jump_label.h>
#include <linux/poll.h>
#include <linux/psi_types.h>
#include <linux/types.h>

struct file;
struct kernfs_node;
struct psi_trigger;
struct seq_file;
struct task_struct;

/*
 * Pressure stall information: functions for the rest of the kernel. The
 * scheduler's own entry points are in kernel/sched/psi.h.
 */

/**
 * enum psi_cause - why a task stalls on memory
 * @PSI_CAUSE_RECLAIM: it frees memory for an allocation, as the machine has too
 *		       little
 * @PSI_CAUSE_RECLAIM_LIMIT: it frees memory of a cgroup that is at its
 *			     memory.max
 * @PSI_CAUSE_HIGH: its cgroup is above memory.high: it frees memory of it, or
 *		    is put to sleep
 * @PSI_CAUSE_COMPACT: it moves pages together for an allocation of several
 *		       adjacent ones
 * @PSI_CAUSE_REFAULT: it waits for, or submits the read of, a page of a file
 *			that was evicted although it was in use
 * @PSI_CAUSE_SWAPIN: the same for anonymous memory, which was swapped out
 * @PSI_CAUSE_READAHEAD: it submits reads of a range of a file with such pages
 * @PSI_CAUSE_NODE_RECLAIM: it frees memory of a node before it takes some of
 *			     another (vm.zone_reclaim_mode)
 * @PSI_CAUSE_KSWAPD: kswapd frees memory
 * @PSI_CAUSE_KCOMPACTD: kcompactd moves pages together
 * @PSI_CAUSE_THROTTLE: it pays for swap-out that it caused in a cgroup with
 *			limited io
 * @PSI_NR_CAUSES: how many there are
 * @PSI_BY_LIMIT: added to one of them: a limit of a cgroup is the reason. That
 *		  is so without saying for memory.max, memory.high and limited
 *		  io
 */
enum psi_cause {
	PSI_CAUSE_RECLAIM,
	PSI_CAUSE_RECLAIM_LIMIT,
	PSI_CAUSE_HIGH,
	PSI_CAUSE_COMPACT,
	PSI_CAUSE_REFAULT,
	PSI_CAUSE_SWAPIN,
	PSI_CAUSE_READAHEAD,
	PSI_CAUSE_NODE_RECLAIM,
	PSI_CAUSE_KSWAPD,
	PSI_CAUSE_KCOMPACTD,
	PSI_CAUSE_THROTTLE,
	PSI_NR_CAUSES,
	PSI_BY_LIMIT = 1 << 7
};

#ifdef CONFIG_PSI

DECLARE_STATIC_KEY_FALSE(psi_disabled);

extern struct psi_group psi_system;

void __init psi_init(void);
void __psi_memstall_enter(unsigned long *flags, unsigned int cause);
void __psi_memstall_leave(unsigned long *flags);
u64 psi_some_memory_us(void);

/**
 * psi_enabled - whether pressure is measured
 *
 * For callers that have to do work to find out whether they stall. Constant
 * without CONFIG_PSI, a patched branch with it.
 *
 * Return: false where psi_memstall_enter() would do nothing.
 */
static inline bool psi_enabled(void)
{
	return !static_branch_likely(&psi_disabled);
}

/**
 * psi_memstall_enter - start a section in which the task waits for memory
 * @flags: filled in; tells psi_memstall_leave() whether an outer section goes
 *	   on
 * @cause: why it waits: enum psi_cause, with PSI_BY_LIMIT or without
 *
 * From here on the task counts as stalled on memory, whether it sleeps or
 * runs, until psi_memstall_leave() with the same @flags. Sections nest: the
 * cause of the outermost one counts.
 *
 * Context: Process context with interrupts enabled; takes the runqueue lock.
 */
static inline void psi_memstall_enter(unsigned long *flags, unsigned int cause)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_memstall_enter(flags, cause);
}

/**
 * psi_memstall_leave - end a section begun by psi_memstall_enter()
 * @flags: the variable that psi_memstall_enter() filled in
 *
 * Context: Process context with interrupts enabled; takes the runqueue lock.
 */
static inline void psi_memstall_leave(unsigned long *flags)
{
	if (!static_branch_likely(&psi_disabled))
		__psi_memstall_leave(flags);
}

bool __psi_io_budget_wait(void);
void __psi_io_budget_done(void);

/**
 * psi_io_budget_wait - the current task is about to sleep until its cgroup may
 * do more io
 *
 * A limit of io (iocost, iolatency) makes the submitter itself wait. Until
 * psi_io_budget_done(), io_schedule() counts as stalled on io by a limit.
 * io.max does not need it: it holds requests, see blkcg_current_throttled().
 *
 * Context: Process context.
 * Return: to be passed to psi_io_budget_done()
 */
static inline bool psi_io_budget_wait(void)
{
	return IS_ENABLED(CONFIG_PSI_STAT) && !static_branch_likely(&psi_disabled) &&
	       __psi_io_budget_wait();
}

/**
 * psi_io_budget_done - the current task does not wait for that any more
 * @waited: what psi_io_budget_wait() returned
 *
 * Context: Process context.
 */
static inline void psi_io_budget_done(bool waited)
{
	if (IS_ENABLED(CONFIG_PSI_STAT) && waited)
		__psi_io_budget_done();
}

void psi_async_init(struct psi_async *async);
void psi_async_exit(struct psi_async *async);
bool __psi_async_begin(struct psi_async *async, struct file *file);
void __psi_async_end(struct psi_async *async);
bool __psi_async_poll(struct psi_async *async, struct psi_async *by);
void __psi_async_unpoll(struct psi_async *async, struct psi_async *by);
void __psi_async_wait(struct psi_async *async, struct psi_async_wait *wait);
void __psi_async_done(struct psi_async *async, struct psi_async_wait *wait);

/**
 * psi_async_begin - a request is about to be issued
 * @async: what it is waited for together with
 * @file: the file it is about
 *
 * A request is to storage if @file is a block device, or a regular file of a
 * file system that has a backing device or a server: not of proc, tracefs or
 * tmpfs.
 *
 * Context: Any but NMI; takes the runqueue locks of tasks that sleep in @async.
 * Return: true if the request was counted. psi_async_end() is due then, once,
 *	   even if PSI is off by then.
 */
static inline bool psi_async_begin(struct psi_async *async, struct file *file)
{
	return !static_branch_likely(&psi_disabled) && __psi_async_begin(async, file);
}

/**
 * psi_async_end - storage is done with a request that psi_async_begin() counted
 * @async: what psi_async_begin() was given
 *
 * To be called before the request wakes anybody, and while @async is there for
 * sure.
 *
 * Context: Any but NMI; takes the runqueue locks of tasks that sleep in @async.
 */
static inline void psi_async_end(struct psi_async *async)
{
	__psi_async_end(async);
}

/**
 * psi_async_poll - a poll waits in one psi_async for another
 * @async: what is polled
 * @by: where it is polled
 *
 * From now on tasks that wait in @by wait for io while requests to storage are
 * in flight in @async.
 *
 * Context: Process context, may sleep.
 * Return: true if so. psi_async_unpoll() is due then, once, while both are
 *	   there. False: PSI is off, @async is polled in too many others, or
 *	   there is no memory.
 */
static inline bool psi_async_poll(struct psi_async *async, struct psi_async *by)
{
	return !static_branch_likely(&psi_disabled) && __psi_async_poll(async, by);
}

/**
 * psi_async_unpoll - that poll is over
 * @async: what was polled
 * @by: where it was polled
 *
 * Context: Process context.
 */
static inline void psi_async_unpoll(struct psi_async *async, struct psi_async *by)
{
	__psi_async_unpoll(async, by);
}

/**
 * psi_async_wait - the current task is about to sleep until requests complete
 * @async: the requests
 * @wait: room on the stack, to be passed to psi_async_done()
 *
 * Asleep, the task counts as waiting for io while a request to storage is in
 * flight, and only then, whenever such a request begins or ends.
 *
 * Context: Process context, in any task state; no locks may be held that are
 *	    taken where requests begin or end.
 */
static inline void psi_async_wait(struct psi_async *async, struct psi_async_wait *wait)
{
	wait->task = NULL;
	if (!static_branch_likely(&psi_disabled))
		__psi_async_wait(async, wait);
}

/**
 * psi_async_done - the current task sleeps no more
 * @async: what psi_async_wait() was given
 * @wait: what psi_async_wait() was given
 *
 * Context: As psi_async_wait().
 */
static inline void psi_async_done(struct psi_async *async, struct psi_async_wait *wait)
{
	if (wait->task)
		__psi_async_done(async, wait);
}

/**
 * enum psi_file_id - which pressure file
 * @PSI_CPU: cpu.pressure, /proc/pressure/cpu
 * @PSI_MEMORY: memory.pressure, /proc/pressure/memory
 * @PSI_IO: io.pressure, /proc/pressure/io
 * @PSI_IRQ: irq.pressure, /proc/pressure/irq
 * @PSI_STAT: cgroup.pressure.stat, /proc/pressure/stat
 * @PSI_NR_FILES: how many there are
 */
enum psi_file_id { PSI_CPU, PSI_MEMORY, PSI_IO, PSI_IRQ, PSI_STAT, PSI_NR_FILES };

int psi_show(struct seq_file *m, struct psi_group *group, enum psi_file_id id);

int psi_arm(struct psi_trigger **slot, struct psi_group *group, enum psi_file_id id,
	    const char *text, struct file *file, struct kernfs_node *kn,
	    wait_queue_head_t *wait);
void psi_disarm(struct psi_trigger *trigger);
bool psi_collect(struct psi_trigger *trigger);

#else /* CONFIG_PSI */

static inline bool psi_enabled(void) { return false; }
static inline u64 psi_some_memory_us(void) { return 0; }
static inline void psi_memstall_enter(unsigned long *flags, unsigned int cause) { }
static inline void psi_memstall_leave(unsigned long *flags) { }
static inline void psi_init(void) { }
static inline bool psi_io_budget_wait(void) { return false; }
static inline void psi_io_budget_done(bool waited) { }
static inline void psi_async_init(struct psi_async *async) { }
static inline void psi_async_exit(struct psi_async *async) { }
static inline void psi_async_end(struct psi_async *async) { }
static inline void psi_async_wait(struct psi_async *async, struct psi_async_wait *wait) { }
static inline void psi_async_done(struct psi_async *async, struct psi_async_wait *wait) { }

static inline void psi_async_unpoll(struct psi_async *async, struct psi_async *by) { }

static inline bool psi_async_begin(struct psi_async *async, struct file *file)
{
	return false;
}

static inline bool psi_async_poll(struct psi_async *async, struct psi_async *by)
{
	return false;
}

#endif /* CONFIG_PSI */

#endif /* _LINUX_PSI_H */
