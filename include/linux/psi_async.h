/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PSI_ASYNC_H
#define _LINUX_PSI_ASYNC_H

#include <linux/psi.h>

/* Requests that tasks submit first and wait for later: sched/psi_async.c */

bool __psi_async_begin(struct psi_async *async, struct file *file);
bool __psi_async_poll(struct psi_async *async, struct psi_async *by);
void __psi_async_wait(struct psi_async *async, struct psi_async_wait *wait);
void __psi_async_done(struct psi_async *async, struct psi_async_wait *wait);

/**
 * psi_async_begin - a request is about to be issued
 * @async: what it is waited for together with
 * @file: the file it is about
 *
 * A request is to storage if @file is a block device, or a regular file of a
 * file system with a backing device or a server: not of proc, tracefs or tmpfs.
 *
 * Context: Any but NMI; takes the runqueue locks of tasks that sleep in @async.
 * Return: true if the request was counted: then psi_async_end() is due, once.
 */
static inline bool psi_async_begin(struct psi_async *async, struct file *file)
{
	return psi_enabled() && __psi_async_begin(async, file);
}

/**
 * psi_async_poll - a poll waits in one psi_async for another
 * @async: what is polled
 * @by: where it is polled
 *
 * While requests to storage are in flight in @async, tasks in @by wait for io.
 *
 * Context: Process context, may sleep.
 * Return: true: psi_async_unpoll() is due, once, while both are there. False:
 *	   PSI is off, too many others poll @async, or there is no memory.
 */
static inline bool psi_async_poll(struct psi_async *async, struct psi_async *by)
{
	return psi_enabled() && __psi_async_poll(async, by);
}

/**
 * psi_async_wait - the current task is about to sleep until requests complete
 * @async: the requests
 * @wait: room on the stack, to be passed to psi_async_done()
 *
 * Asleep, the task waits for io while a request to storage is in flight.
 *
 * Context: Process context, in any task state; no locks may be held that are
 *	    taken where requests begin or end.
 */
static inline void psi_async_wait(struct psi_async *async, struct psi_async_wait *wait)
{
	if (psi_enabled())
		__psi_async_wait(async, wait);
}

/**
 * psi_async_done - the current task sleeps no more
 * @async: what psi_async_wait() was given
 * @wait: what psi_async_wait() was given
 * Context: As psi_async_wait().
 */
static inline void psi_async_done(struct psi_async *async, struct psi_async_wait *wait)
{
	if (psi_enabled())
		__psi_async_done(async, wait);
}

#ifdef CONFIG_PSI

void psi_async_init(struct psi_async *async);
void psi_async_exit(struct psi_async *async);
void psi_async_end(struct psi_async *async);
void psi_async_unpoll(struct psi_async *async, struct psi_async *by);

#else /* CONFIG_PSI */

static inline void psi_async_init(struct psi_async *async) { }
static inline void psi_async_exit(struct psi_async *async) { }
static inline void psi_async_end(struct psi_async *async) { }
static inline void psi_async_unpoll(struct psi_async *async, struct psi_async *by) { }

#endif /* CONFIG_PSI */

#endif /* _LINUX_PSI_ASYNC_H */
