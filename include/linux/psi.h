/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PSI_H
#define _LINUX_PSI_H

#include <linux/jump_label.h>
#include <linux/poll.h>
#include <linux/psi_types.h>
#include <linux/types.h>

struct file;
struct folio;
struct psi_trigger;
struct seq_file;

/* Pressure stall information, for all but the scheduler: kernel/sched/psi.h. */

/**
 * enum psi_cause - why a task stalls on memory
 * @PSI_CAUSE_RECLAIM: frees memory, as the machine has too little
 * @PSI_CAUSE_RECLAIM_LIMIT: frees memory of a cgroup at its memory.max
 * @PSI_CAUSE_HIGH: frees memory, or sleeps: its cgroup is above memory.high
 * @PSI_CAUSE_COMPACT: moves pages together for an allocation of adjacent ones
 * @PSI_CAUSE_REFAULT: waits for or reads a page of a file evicted while in use
 * @PSI_CAUSE_SWAPIN: the same for anonymous memory, which was swapped out
 * @PSI_CAUSE_READAHEAD: submits reads of a range of a file with such pages
 * @PSI_CAUSE_NODE_RECLAIM: frees memory of a node, by vm.zone_reclaim_mode
 * @PSI_CAUSE_KSWAPD: kswapd frees memory
 * @PSI_CAUSE_KCOMPACTD: kcompactd moves pages together
 * @PSI_CAUSE_THROTTLE: pays for swap-out, in a cgroup with limited io
 * @PSI_NR_CAUSES: how many there are
 * @PSI_BY_LIMIT: added to one of them: because of a limit of a cgroup. Implied
 *		  by memory.max, memory.high and limited io
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

DECLARE_STATIC_KEY_FALSE(psi_disabled);

void __psi_memstall_enter(unsigned long *flags, unsigned int cause);
void __psi_memstall_leave(unsigned long *flags);
void __psi_io_hold(struct psi_io_limit *limit, bool hold);

/**
 * psi_enabled - whether pressure is measured
 *
 * Return: false where psi_memstall_enter() would do nothing. Without CONFIG_PSI
 *	   the compiler drops what depends on it.
 */
static inline bool psi_enabled(void)
{
	return IS_ENABLED(CONFIG_PSI) && !static_branch_likely(&psi_disabled);
}

/**
 * psi_memstall_enter - start a section in which the task waits for memory
 * @flags: filled in, for psi_memstall_leave(): whether an outer section goes on
 * @cause: why it waits: enum psi_cause, with PSI_BY_LIMIT or without
 *
 * The task counts as stalled on memory, asleep or not. Sections nest: the cause
 * of the outermost one counts.
 *
 * Context: Process context with interrupts enabled; takes the runqueue lock.
 */
static inline void psi_memstall_enter(unsigned long *flags, unsigned int cause)
{
	if (psi_enabled())
		__psi_memstall_enter(flags, cause);
}

/**
 * psi_memstall_leave - end a section begun by psi_memstall_enter()
 * @flags: the variable that psi_memstall_enter() filled in
 * Context: Process context with interrupts enabled; takes the runqueue lock.
 */
static inline void psi_memstall_leave(unsigned long *flags)
{
	if (psi_enabled())
		__psi_memstall_leave(flags);
}

/**
 * psi_io_hold - a limit begins to hold a bio, or lets it go
 * @limit: of the cgroup whose bio it is, even if one above sets the limit
 * @hold: it begins
 *
 * While limits hold any, they hold all tasks that wait for io of the cgroup.
 * io.max holds bios in a queue; iocost and iolatency let the submitter sleep.
 *
 * Context: Any but NMI; takes the runqueue locks of these tasks.
 */
static inline void psi_io_hold(struct psi_io_limit *limit, bool hold)
{
	if (IS_ENABLED(CONFIG_PSI_STAT) && psi_enabled())
		__psi_io_hold(limit, hold);
}

#ifdef CONFIG_PSI

extern struct psi_group psi_system;

u64 psi_some_memory_us(void);
int psi_iowait_begin_folio(struct folio *folio);

/* What psi_io_limit_used() calls lately, in jiffies. */
#define PSI_IO_LIMIT_USED	(5 * 60 * HZ)

/**
 * psi_io_limit_used - whether limits hold a bio, or did lately
 * @limit: of the cgroup whose bio it is
 *
 * Nobody pays for a limit that is gone. If limits held nothing lately, a wait
 * for a bio that is held later counts as shortage.
 *
 * Context: Any.
 * Return: whether a wait for io of the cgroup has to be looked at
 */
static inline bool psi_io_limit_used(const struct psi_io_limit *limit)
{
	return atomic_read(&limit->held) ||
	       jiffies - READ_ONCE(limit->released) < PSI_IO_LIMIT_USED;
}

/**
 * psi_io_limit_init - limits hold nothing and no task waits
 * @limit: of a new cgroup
 */
static inline void psi_io_limit_init(struct psi_io_limit *limit)
{
	raw_spin_lock_init(&limit->lock);
	INIT_LIST_HEAD(&limit->waiters);
	limit->released = jiffies - PSI_IO_LIMIT_USED;
}

/* Pressure files: cpu.pressure or /proc/pressure/cpu, and so on. */
enum psi_file_id { PSI_CPU, PSI_MEMORY, PSI_IO, PSI_IRQ, PSI_STAT, PSI_NR_FILES };

int psi_show(struct seq_file *m, struct psi_group *group, enum psi_file_id id);
void psi_switch(struct psi_group *group, bool on);
bool psi_is_off(const struct psi_group *group);

int psi_arm(struct psi_trigger **slot, struct psi_group *group, enum psi_file_id id,
	    const char *text, struct file *file, wait_queue_head_t *wait);
void psi_disarm(struct psi_trigger *trigger);
__poll_t psi_poll(struct psi_trigger **slot, struct file *file, wait_queue_head_t *pollers,
		  poll_table *table);

#else /* CONFIG_PSI */

static inline u64 psi_some_memory_us(void) { return 0; }
static inline int psi_iowait_begin_folio(struct folio *folio) { return 0; }
static inline void psi_io_limit_init(struct psi_io_limit *limit) { }

#endif /* CONFIG_PSI */

#endif /* _LINUX_PSI_H */
