/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine: its CPUs, how tasks are scheduled on them, what limits that
 */
#ifndef PSI_MACHINE_H
#define PSI_MACHINE_H

#include <stdbool.h>
#include <sys/types.h>

/* Binds a task, or the caller when @pid is 0. Returns 0, or the error. */
int try_pin(pid_t pid, int cpu);
/* The same for the caller; an error ends the test. */
void pin_to(int cpu);

/* @prio is a priority of SCHED_FIFO and SCHED_RR, a nice value for others. */
void set_policy(pid_t pid, int policy, int prio);

/* How many CPUs the machine has, on- and offline. */
int cpus_possible(void);

/*
 * Keeps the first @nr CPUs online and no others, silences the periodic work
 * of the kernel, and gives the threads of PREEMPT_RT that serve timers and
 * devices a higher priority than any task of a test.
 */
void cpus_use(int nr);
void cpu_online(int cpu, bool on);

/*
 * With PREEMPT_RT, threads serve timers and complete reads, and a task that
 * waits for a lock mostly sleeps.
 */
bool kernel_is_preempt_rt(void);

/**
 * struct rt_limits - the limits that keep real-time tasks from starving others
 * @rcu_silent: whether RCU keeps silent about stalls
 * @runtime: the real-time throttle
 * @fair_server: the runtime of each online CPU's fair server
 *
 * While the limits are lifted, RCU does not complain about its own thread,
 * which starves like others: after 21 s it would, if a grace period happened
 * to be due.
 */
struct rt_limits {
	char rcu_silent[32];
	char runtime[32];
	char fair_server[64][32];
};

void rt_limits_lift(struct rt_limits *limits);
void rt_limits_restore(const struct rt_limits *limits);

/* An ordinary user, without capabilities. */
#define USER		65534

/* Gives or takes CAP_SYS_RESOURCE; without @effective_only, for good. */
void set_cap_sys_resource(bool on, bool effective_only);

#endif
