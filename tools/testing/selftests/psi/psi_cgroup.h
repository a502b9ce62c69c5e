/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trees of cgroups, their pressure files, and loads that run by the clock
 *
 * The loads begin and end at times that are fixed beforehand, and sleep before and after
 * that. So everything can be read while nothing runs: neither the pressure nor the
 * clocks of the tasks move between the two readings that are compared.
 */
#ifndef PSI_CGROUP_H
#define PSI_CGROUP_H

#include "psi_util.h"

#define CGROUP_ROOT	"/sys/fs/cgroup"

/* ---- Trees ---- */

/* A cgroup without controllers of its own; what an earlier test left there is removed. */
void cgroup_make(const char *path);
/* Kills what is in the cgroup and below, and removes all of it. */
void cgroup_tree_remove(const char *path);
/* To move a task is to wait for a grace period of RCU, unless cgroups are told not to. */
void cgroup_moves_are_fast(void);
/* Moves a process with all of its threads. */
void cgroup_move(const char *path, pid_t pid);
/* As fork(), but the child is born in the cgroup. */
pid_t cgroup_fork(const char *path);
/* Writes to a file of a cgroup; returns 0, or what errno was. */
int cgroup_try_write(const char *path, const char *file, const char *text);
bool cgroup_has(const char *path, const char *file);

/* ---- Pressure of a cgroup ---- */

enum psi_resource { RES_CPU, RES_MEMORY, RES_IO, NR_RESOURCES };

/**
 * struct pressure - stall time so far, in ns
 * @some: by resource
 * @full: by resource
 */
struct pressure {
	__u64 some[NR_RESOURCES];
	__u64 full[NR_RESOURCES];
};

/* Of the system, from /proc/pressure, when @path is NULL. */
void pressure_read(const char *path, struct pressure *p);
/* What was added since @before. */
struct pressure pressure_since(const char *path, const struct pressure *before);
/* One file of a cgroup, e.g. "cpu.pressure". */
void cgroup_psi_read(const char *path, const char *file, struct psi *psi);

/* ---- Loads that run by the clock ---- */

/**
 * struct span - when a load runs
 * @begin: it wakes up, by CLOCK_MONOTONIC
 * @end: it goes to sleep for good
 */
struct span {
	__u64 begin;
	__u64 end;
};

/* What a load does: @arg is a struct span. */
void spin_span(void *arg);

/**
 * struct sleeper - a load that reads one block again and again, and when
 * @node: the device
 * @span: when it reads; it sleeps before and after
 * @ended: when the last read returned
 */
struct sleeper {
	const char *node;
	struct span span;
	__u64 ended;
};

/* What a load does: @arg is a struct sleeper in shared memory. */
void read_span(void *arg);

/**
 * struct held_back - a load that takes more memory than memory.high of its cgroup lets it
 * @size: how much, in bytes
 * @begin: when it wakes up
 * @stall_begin: when its latest step began
 * @stall_end: when the last one ended
 *
 * Touches page by page until one takes more than a second, then sleeps for good.
 */
struct held_back {
	size_t size;
	__u64 begin;
	__u64 stall_begin;
	__u64 stall_end;
};

/* What a load does: @arg is a struct held_back in shared memory. */
void take_memory(void *arg);

/**
 * struct thrasher - a load that reads a working set of 5 MB in random order
 * @node: from this device
 * @span: when it does
 */
struct thrasher {
	const char *node;
	struct span span;
};

/* What a load does: @arg is a struct thrasher. */
void thrash(void *arg);

/* What a task was not asleep so far. */
__u64 task_awake_ns(pid_t pid);
/*
 * What a sleeper was asleep: it does nothing else, so that is in iowait. @awake_before: what it
 * was awake before its span.
 */
__u64 sleeper_asleep_ns(const struct sleeper *sleeper, pid_t pid, __u64 awake_before);

#endif
