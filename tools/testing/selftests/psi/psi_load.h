/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loads: child processes that make pressure, and die with the test
 */
#ifndef PSI_LOAD_H
#define PSI_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <sched.h>
#include <sys/types.h>

/**
 * struct load - how a child runs
 * @cpu: CPU that it is bound to, or -1
 * @policy: scheduling policy, SCHED_OTHER by default
 * @prio: its real-time priority, or its nice value
 * @cgroup: directory of the cgroup that it joins first, or NULL
 * @fn: its work; the child exits when this returns
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
/* Reaps a child that ends by itself; ends the test if the child failed. */
void load_wait(pid_t pid);

/* fork() that ends the test on an error, after it flushed stdout. */
pid_t fork_or_die(void);
/* Reaps a child, however it ended; returns its wait status. */
int reap(pid_t pid);
/* Reaps a child that must exit; returns its exit status. */
int reap_exit(pid_t pid);

/* ---- Spinners ---- */

void spin(void *arg);
pid_t spin_on(int cpu);
/* Two spinners that share CPU 0, in @cgroup or in the one of the test. */
void spin_pair_start(pid_t pid[2], const char *cgroup);
void spin_pair_stop(const pid_t pid[2]);

/* Spins for *@ns, then exits: @ns is a __u64. */
void spin_for(void *ns);

/**
 * struct poller - a load that reads a file again and again
 * @path: the file
 * @period: time between two reads, in ns
 * @end: when it stops; 0: never
 * @reads: number of its reads
 */
struct poller {
	const char *path;
	__u64 period;
	__u64 end;
	__u64 reads;
};

/* @arg is a struct poller, in shared memory if the test wants @reads. */
void poll_file(void *arg);

/*
 * ---- Loads with a timetable ----
 *
 * These loads begin and end at times that are fixed beforehand, and sleep
 * before and after. So a test reads all clocks and files while nothing runs:
 * neither pressure nor task clocks move between two readings it compares.
 */

/**
 * struct span - when a load runs
 * @begin: it wakes up, by CLOCK_MONOTONIC
 * @end: it goes to sleep for good
 */
struct span {
	__u64 begin;
	__u64 end;
};

/* A load that spins: @arg is a struct span. */
void spin_span(void *arg);

/**
 * struct sleeper - a load that reads one block again and again
 * @node: the device
 * @span: when it reads
 * @ended: when its last read returned
 */
struct sleeper {
	const char *node;
	struct span span;
	__u64 ended;
};

/* @arg is a struct sleeper in shared memory. */
void read_span(void *arg);

/**
 * struct throttled - a load that memory.high of its cgroup puts to sleep
 * @size: memory that it asks for, in bytes
 * @begin: when it wakes up
 * @stall_begin: when the latest page was asked for
 * @stall_end: when a page was got that took more than a second
 *
 * It touches page by page until the kernel holds it back for more than a
 * second, then sleeps for good.
 */
struct throttled {
	size_t size;
	__u64 begin;
	__u64 stall_begin;
	__u64 stall_end;
};

/* @arg is a struct throttled in shared memory. */
void take_memory(void *arg);

#endif
