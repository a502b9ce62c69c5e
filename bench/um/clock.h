/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CLOCK_H
#define CLOCK_H

#include <linux/types.h>

/* How often sched_clock() was called. */
extern unsigned long clock_reads;

/* What a call takes, in ps, when nothing comes in between. */
extern unsigned int clock_cost;

/* Calls do their work twice. */
extern bool clock_twice;

#endif /* CLOCK_H */
