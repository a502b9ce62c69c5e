// SPDX-License-Identifier: GPL-2.0
/*
 * The scheduler's clock.
 *
 * User-Mode Linux has none of its own: sched_clock() is the weak one, which
 * counts jiffies.  That costs nothing, and stands still through thousands of
 * context switches.  On real hardware the clock moves, and a read of it is one
 * of the dearer things a switch does.  So this one reads the TSC, the way x86
 * does.  Calls are counted.
 *
 * With clock_twice a call does its work twice, to the same effect: how much slower
 * all the rest gets is what the calls cost where they are.
 */
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sched/clock.h>
#include <os.h>

#include "clock.h"

#define CALIBRATION	(50 * NSEC_PER_MSEC)
#define SHIFT		31		/* the TSC does more than 0.5 GHz */
#define READS		100000

unsigned long clock_reads;
unsigned int clock_cost;
bool clock_twice;

static u32 mult;			/* 0: still jiffies */
static u64 first_cycles, first_ns;

static __always_inline u64 jiffies_clock(void)
{
	return (u64)(jiffies - INITIAL_JIFFIES) * (NSEC_PER_SEC / HZ);
}

static __always_inline u64 tsc_clock(void)
{
	return first_ns + mul_u64_u32_shr(__builtin_ia32_rdtsc() - first_cycles, mult, SHIFT);
}

notrace unsigned long long sched_clock(void)
{
	clock_reads++;
	if (unlikely(!mult))
		return jiffies_clock();
	if (unlikely(clock_twice)) {
		u64 now = tsc_clock();

		/* The compiler must not think that nobody wants it. */
		OPTIMIZER_HIDE_VAR(now);
	}
	return tsc_clock();
}

static void __init clock_calibrate(void)
{
	long long begin = os_nsecs(), ns;
	u64 cycles = __builtin_ia32_rdtsc();
	unsigned long flags;

	do
		ns = os_nsecs() - begin;
	while (ns < CALIBRATION);
	cycles = __builtin_ia32_rdtsc() - cycles;

	/* The new clock goes on where the old one is. */
	local_irq_save(flags);
	first_ns = jiffies_clock();
	first_cycles = __builtin_ia32_rdtsc();
	mult = div64_u64((u64)ns << SHIFT, cycles);
	local_irq_restore(flags);
}

/* The fastest of some, as any could be disturbed. */
static unsigned int __init clock_measure(void)
{
	long long ns, best = LLONG_MAX;
	unsigned int i, j;

	for (i = 0; i < 10; i++) {
		ns = os_nsecs();
		for (j = 0; j < READS; j++)
			sched_clock();
		best = min(best, os_nsecs() - ns);
	}
	return div_u64(best * 1000, READS);
}

static int __init clock_init(void)
{
	clock_calibrate();
	clock_cost = clock_measure();
	return 0;
}
device_initcall(clock_init);
