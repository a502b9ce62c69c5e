// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupt pressure: time that interrupts take from a task
 *
 * Invariant: irq "full" is the time that a CPU spends in hard and soft
 * interrupts while it executes a task. The kernel accounts the same time to the
 * interrupted task (taskstats, irq delay) and to the machine (/proc/stat, irq
 * and softirq). An interrupt that hits an idle CPU delays no task.
 *
 *     CPU        | spinner |irq| spinner |irq|  idle  |irq|  idle
 *     irq full             |###|         |###|        |   |
 *
 * Bugs it would find: interrupts of the idle task that count; time that counts
 * twice, at a tick and at a context switch; time between the last tick and a
 * switch that is lost, or charged to the next task.
 *
 * The load is a task that sleeps until each next multiple of 487 us: a timer
 * interrupt each, besides the tick. The tick must not be in step with the load,
 * as it would be with 500 us: depending on the offset, every tick or no tick
 * would hit the task while it is awake.
 *
 * Tolerance: 1 % against the tasks' own delays, for interrupts of kernel
 * threads. The delays are read between two readings of the file, before and
 * after: the readings take milliseconds, and a fifth of the time is interrupts.
 * /proc/stat counts ticks, in units of 10 ms: 2 %, and a tick at both
 * ends. On an idle CPU, interrupt pressure may be the share of time in which
 * the task is awake, by its own clock.
 */
#include <math.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_delays.h"
#include "psi_trigger.h"
#include "psi_work.h"

#define TICK		(10 * NSEC_PER_MSEC)

/* Interrupt time of all CPUs so far, by /proc/stat. */
static __u64 stat_irq_ns(void)
{
	unsigned long long irq, softirq;
	char buf[8192];

	read_text("/proc/stat", buf, sizeof(buf));
	if (sscanf(buf, "cpu %*u %*u %*u %*u %*u %llu %llu", &irq, &softirq) != 2)
		psi_die("/proc/stat has an unknown format");
	return (irq + softirq) * (NSEC_PER_SEC / sysconf(_SC_CLK_TCK));
}

static void nap(void *arg)
{
	__u64 next = now_ns();

	for (;;) {
		next += 487 * NSEC_PER_USEC;
		sleep_until(next);
	}
}

static struct task_clock clock_of(pid_t pid)
{
	struct task_clock tc;

	task_clock_read(pid, &tc);
	return tc;
}

FIXTURE(interrupts) {
	pid_t napper;
};

FIXTURE_SETUP(interrupts)
{
	const struct load load = { .cpu = 0, .policy = SCHED_FIFO, .prio = 10, .fn = nap };

	if (!psi_irq_accounted())
		SKIP(return, "interrupt time is not accounted on this machine");
	cpus_use(1);
	task_delays_on();
	/* Only the napper delays a reading, not the spinner. */
	set_policy(0, SCHED_FIFO, 5);
	self->napper = load_start(&load);
}

FIXTURE_TEARDOWN(interrupts)
{
	load_stop(self->napper);
	cpus_use(cpus_possible());
}

TEST_F(interrupts, that_hit_a_task_are_pressure)
{
	__u64 least, most, stat, tasks;
	pid_t spinner;

	spinner = spin_on(0);
	most = psi_full_ns(PSI_IRQ);
	stat = stat_irq_ns();
	tasks = clock_of(spinner).irq + clock_of(self->napper).irq;
	least = psi_full_ns(PSI_IRQ);
	sleep_for(10 * NSEC_PER_SEC);
	least = psi_full_ns(PSI_IRQ) - least;
	tasks = clock_of(spinner).irq + clock_of(self->napper).irq - tasks;
	stat = stat_irq_ns() - stat;
	most = psi_full_ns(PSI_IRQ) - most;
	load_stop(spinner);

	ksft_print_msg("irq full %.6f to %.6f s, the tasks' delay %.6f s, /proc/stat %.2f s\n",
		       least / 1e9, most / 1e9, tasks / 1e9, stat / 1e9);
	ASSERT_LT(NSEC_PER_SEC / 10, stat);
	EXPECT_GE(tasks * 1.01, least);
	EXPECT_LE(tasks * 0.99, most);
	EXPECT_GE(tasks * 0.01, most - least);
	EXPECT_GE(stat * 0.02 + 2 * TICK, fabs((double)most - stat));
}

/*
 * The threshold is a twenty-fifth of the window. The ticks alone are less than
 * a hundredth. The load is twenty times that, or a third of it where the guest
 * executes more instructions per second.
 */
TEST_F(interrupts, that_hit_a_task_fire_a_trigger)
{
	int fd = trigger_arm(PSI_IRQ, "full 20000 500000");
	pid_t spinner = spin_on(0);

	EXPECT_TRUE(trigger_fired(fd, 1000));
	load_stop(spinner);
	close(fd);
}

TEST_F(interrupts, that_hit_an_idle_cpu_are_not)
{
	const __u64 time = 10 * NSEC_PER_SEC;
	int fd = trigger_arm(PSI_IRQ, "full 20000 500000");
	struct task_clock before, after;
	__u64 full, stat, tasks, awake;

	full = psi_full_ns(PSI_IRQ);
	stat = stat_irq_ns();
	before = clock_of(self->napper);
	sleep_for(time);
	after = clock_of(self->napper);
	stat = stat_irq_ns() - stat;
	full = psi_full_ns(PSI_IRQ) - full;
	tasks = after.irq - before.irq;
	awake = after.run - before.run;

	ksft_print_msg("irq full %.6f s, the delay %.6f s, awake %.6f s, /proc/stat %.2f s\n",
		       full / 1e9, tasks / 1e9, awake / 1e9, stat / 1e9);
	EXPECT_GE(tasks * 1.01 + NSEC_PER_MSEC, full);
	/*
	 * The delay of the napper includes interrupts while it sleeps. While it
	 * is awake its own timer does not fire, but its share of the ticks
	 * does.
	 */
	ASSERT_LT(NSEC_PER_SEC / 10, stat);
	EXPECT_GE((double)stat * awake / time, full);
	EXPECT_FALSE(trigger_fired(fd, 0));
	close(fd);
}

TEST_HARNESS_MAIN
