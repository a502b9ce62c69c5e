/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of pressure stall information share.
 *
 * The method: every test compares a pressure file with an oracle, what the
 * tasks themselves did by their own clocks. The clocks are CLOCK_MONOTONIC, the
 * run queue wait of schedstat, the delays of taskstats; all of them count in
 * nanoseconds and none of them knows about PSI.
 *
 * The tests own the machine: they pin, take CPUs offline and count every stall
 * there is, so anything else that runs shows up in the numbers. Run them in a
 * virtual machine with nothing else in it.
 *
 * A helper that fails ends the test with one line that says why: a test never
 * goes on with half of its set-up.
 */
#ifndef PSI_UTIL_H
#define PSI_UTIL_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <sys/types.h>

#include "../kselftest.h"

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_USEC	1000ULL

/* Ends the test as failed. */
void __noreturn __printf(1, 2) psi_die(const char *fmt, ...);

/* ---- Pressure files ---- */

#define PSI_DIR		"/proc/pressure"
#define PSI_CPU		PSI_DIR "/cpu"
#define PSI_MEMORY	PSI_DIR "/memory"
#define PSI_IO		PSI_DIR "/io"
#define PSI_IRQ		PSI_DIR "/irq"

enum psi_avg { AVG10, AVG60, AVG300, NR_AVGS };

/**
 * struct psi_line - one line of a pressure file
 * @present: the file has this line
 * @avg: the three averages in hundredths of a percent
 * @total: stall time since boot in microseconds
 */
struct psi_line {
	bool present;
	unsigned int avg[NR_AVGS];
	__u64 total;
};

struct psi {
	struct psi_line some;
	struct psi_line full;
};

/* Returns NULL, or what is wrong with @text: nothing but the format is accepted. */
const char *psi_parse(const char *text, size_t len, struct psi *psi);

void psi_read(const char *path, struct psi *psi);
__u64 psi_some_ns(const char *path);
__u64 psi_full_ns(const char *path);
double psi_avg(const char *path, enum psi_avg avg);
bool psi_irq_accounted(void);

/* ---- Time ---- */

__u64 now_ns(void);
void sleep_until(__u64 ns);
void sleep_for(__u64 ns);
/* How long a test goes on that could do so for ever: @ns, or PSI_STORM_SECONDS if that is set. */
__u64 storm_time(__u64 ns);
/* The timeout of such a test: whoever runs it knows how long it may take. */
#define STORM_TIMEOUT	86400

/* ---- What a task did, by its own clocks ---- */

/**
 * struct task_clock - where the time of one task went, in ns
 * @run: on a CPU
 * @wait: runnable, but not on a CPU
 * @io: asleep in iowait
 * @reclaim: in direct reclaim, also that of a memcg limit
 * @thrash: waiting for a page of the working set to be read back
 * @compact: in direct compaction
 * @irq: interrupts that hit while the task was on the CPU
 */
struct task_clock {
	__u64 run;
	__u64 wait;
	__u64 io;
	__u64 reclaim;
	__u64 thrash;
	__u64 compact;
	__u64 irq;
};

void task_clock_read(pid_t pid, struct task_clock *tc);
__u64 task_wait_ns(pid_t pid);
/* Finds up to @most threads of the kernel by their names, says how many. */
int kernel_threads(const char *pattern, pid_t *pids, int most);
/* The threads that PSI has for itself: the kernel does not count them. */
__u64 psi_threads_wait_ns(void);
void task_delays_on(void);

/**
 * struct cpu_clock - what all tasks of a CPU did so far, in ns
 * @run: the CPU executed a task
 * @wait: sum of what tasks waited to be executed, counted when the wait ends
 */
struct cpu_clock {
	__u64 run;
	__u64 wait;
};

/* Of one CPU, or of all when @cpu is -1. */
void cpu_clock_read(int cpu, struct cpu_clock *cc);

/* ---- Loads: child processes that die with the test ---- */

/**
 * struct load - how a child runs
 * @cpu: CPU it is bound to, or -1
 * @policy: scheduling policy, SCHED_OTHER by default
 * @prio: its real-time priority, or its nice value
 * @cgroup: directory of the cgroup it joins first, or NULL
 * @fn: what it does; the child exits when it returns
 * @arg: passed to @fn
 */
struct load {
	int cpu;
	int policy;
	int prio;
	const char *cgroup;
	void (*fn)(void *arg);
	void *arg;
};

/* Returns once the child is set up and about to call @fn. */
pid_t load_start(const struct load *load);
/* Kills and reaps. */
void load_stop(pid_t pid);
/* Reaps a child that ends by itself; ends the test when it failed. */
void load_wait(pid_t pid);

void spin(void *arg);
pid_t spin_on(int cpu);
/* A spinner that lets anything else run at once: no kernel thread has to wait for it. */
pid_t spin_idle_on(int cpu);
void spin_until(__u64 ns);

/* Zeroed memory that a test has in common with its loads. */
void *shared_memory(size_t size);

/* ---- The machine ---- */

void write_file(const char *path, const char *text);
/* Returns the length, or -1 with errno. The text gets a terminating NUL. */
ssize_t read_file(const char *path, char *buf, size_t size);

void pin_to(int cpu);
void set_policy(pid_t pid, int policy, int prio);

/* How many CPUs there are, on and offline. */
int cpus_possible(void);
/* Keeps the first @nr CPUs online and no others, and the kernel's housekeepers quiet. */
void cpus_use(int nr);
/* Then threads serve timers and complete reads, and who waits for most locks sleeps. */
bool kernel_is_preempt_rt(void);
void cpu_online(int cpu, bool on);

/* A cgroup below the root with the named controllers, e.g. "+memory +io". */
void cgroup_create(const char *path, const char *controllers);
void cgroup_write(const char *path, const char *file, const char *text);
/* Kills what is in it, waits until it is empty, removes it. */
void cgroup_remove(const char *path);

/**
 * struct rt_free - real-time tasks may starve the others
 *
 * Saves the limits that protect ordinary tasks (the real-time throttle and the
 * fair server) on the CPUs in use, and puts them back. In between RCU does not complain
 * of its thread, which starves as others do: it would after 21 s, if at that time somebody
 * happened to wait for it.
 */
struct rt_free {
	char rcu_silent[32];
	char runtime[32];
	char fair_server[64][32];
};

void rt_free_begin(struct rt_free *rt);
void rt_free_end(const struct rt_free *rt);

/**
 * struct slow_disk - a block device that answers after @latency ns
 *
 * The delay is one of the guest's own timers, so it is exact in virtual time.
 */
struct slow_disk {
	char node[32];
	char config[64];
};

void slow_disk_create(struct slow_disk *disk, const char *name, __u64 latency, int size_mb);
void slow_disk_remove(const struct slow_disk *disk);
/* How many requests it has at most at a time; others wait. */
void slow_disk_queue(const struct slow_disk *disk, int depth);
/* Whether what touches sectors @first to @last fails, after the same time. */
void slow_disk_fail(const struct slow_disk *disk, unsigned long first, unsigned long last, bool on);
/* Writes what mkswap would to a device of @size_mb, and swaps on it. */
void swap_on(const char *node, int size_mb);

/**
 * struct reader - a load that reads from a device, and what it says about itself
 * @node: the device
 * @flags: how it is opened, O_DIRECT or nothing
 * @begin: when it begins to measure, by default at once
 * @end: when it stops
 * @elapsed: from begin to end; what is below is of that time, in ns
 * @asleep: the reader was asleep
 * @some: growth of io some
 * @full: growth of io full
 *
 * It does nothing else, so whenever it is asleep it is in iowait. The oracle is what is
 * left of its life after the time it ran, was interrupted, or waited for the CPU. (The
 * blkio delay of taskstats is none: it is taken from whichever task is current when a
 * delayed dequeue is completed.)
 */
struct reader {
	const char *node;
	int flags;
	__u64 begin;
	__u64 end;
	__u64 elapsed;
	__u64 asleep;
	__u64 some;
	__u64 full;
};

/* What a load does: @arg is a struct reader in shared memory. */
void read_blocks(void *arg);

/* ---- Nothing leaked ---- */

/**
 * struct quiet - growth of the totals while only this task sleeps
 *
 * A count that a lost event left above zero keeps its total growing by the whole time. Of
 * cpu, what the wake-ups of this task and of kernel threads waited is allowed:
 * @cpu_wait, by the run queues' own clocks.
 */
struct quiet {
	__u64 cpu;
	__u64 io;
	__u64 memory;
	__u64 cpu_wait;
};

void quiet_measure(struct quiet *quiet, __u64 ns);

/* A line that ci/exactness picks up: the measured value of one row of a table. */
void __printf(2, 3) report_row(const char *row, const char *fmt, ...);

#endif
