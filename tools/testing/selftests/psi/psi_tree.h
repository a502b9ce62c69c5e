/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A tree of cgroups on one CPU, and what each of them must have
 *
 *     psi_tree         TOP             all of these have no controllers, until
 *     |-- a            A               tree_controllers()
 *     |   |-- x        AX
 *     |   |   `-- d    AXD
 *     |   `-- y        AY
 *     `-- b            B
 *     psi_stranger     STRANGER
 *
 * The checks say what is wrong and return false.
 */
#ifndef PSI_TREE_H
#define PSI_TREE_H

#include "psi_cgroup.h"

#define MSEC		NSEC_PER_MSEC
#define SEC		NSEC_PER_SEC

enum group { TOP, A, AX, AXD, AY, B, ROOT, SYSTEM, NR_GROUPS };

/* Those that are made: up to here. */
#define NR_MADE		(B + 1)

#define STRANGER	CGROUP_ROOT "/psi_stranger"

extern const char * const tree_path[NR_GROUPS];

void tree_make(void);
/* Kills all tasks in it, and reaps them. */
void tree_remove(void);
/* For the children of the root, of TOP and of A; those two may then have no tasks. */
void tree_controllers(const char *which);

pid_t load_in(enum group g, void (*fn)(void *arg), void *arg);
/* A stranger that runs ahead of all but the test. */
void start_hog(const struct span *span);

/**
 * struct view - what all groups did in an interval, and what the CPU did
 * @p: growth of the totals
 * @cpu: of CPU 0
 */
struct view {
	struct pressure p[NR_GROUPS];
	struct cpu_clock cpu;
};

void view_begin(struct view *view);
/* From here on the view has the growth since its begin. */
void view_end(struct view *view);

/* ---- A timetable ---- */

/**
 * struct timetable - what a test needs that runs its loads by the clock, on one CPU
 * @view: of the time from its begin to its end
 * @disk: if timetable_disk() made one
 * @rt: a hog shall have the CPU for as long as it wants
 * @begin: before it, loads are started and set themselves up
 */
struct timetable {
	struct view view;
	struct rt_free rt;
	struct slow_disk disk;
	__u64 begin;
};

void timetable_set_up(struct timetable *t);
void timetable_tear_down(struct timetable *t);
void timetable_disk(struct timetable *t, __u64 latency);
/* Returns when all loads are asleep, just before they begin. */
void timetable_begin(struct timetable *t);
/* Returns when all loads are asleep for good, some time after @end. */
void timetable_end(struct timetable *t, __u64 end);

/* Starts take_memory() in a group with a memory.high of 4 MB. */
struct held_back *hold_back(const struct timetable *t, enum group g, pid_t *pid);

/* ---- Checks ---- */

/* Moments that a timetable knows only as well as a wake-up can be on time. */
#define SLACK		(4 * MSEC)
/* What ten seconds of switches may add up to, at 5 us each. */
#define RUN_SLACK	(20 * MSEC)

bool value_is(const char *what, enum group g, enum psi_resource r, double least, double most,
	      __u64 value);
/* Some and full of one resource; each may be off by @slack. */
bool stall_is(const struct view *view, enum group g, enum psi_resource r, double some, double full,
	      double slack);
bool nothing_in(const struct view *view, enum group g);
/* The only task of the group waited for @wait: some and full. */
bool wait_is(const struct view *view, enum group g, __u64 wait);
/*
 * Two tasks that share the CPU: somebody waits all the time, both wait when @others, who are
 * not of this group, run.
 */
bool union_is(const struct view *view, enum group g, double waits, __u64 others);
/*
 * Held back for the memory for @elapsed, of which it was awake for some time. It sleeps for
 * nothing but the limit, and what it runs is mostly to reclaim.
 */
bool held_back_is(const struct view *view, enum group g, __u64 elapsed, __u64 awake);
/* The root has what the system has; other tasks may have added to it, and in between. */
bool root_is_system(const struct view *view);
/* Nothing remains behind: no group's total moves while its tasks sleep. */
bool tree_is_quiet(void);

#endif
