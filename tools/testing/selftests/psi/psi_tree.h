/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A tree of cgroups on one CPU, a timetable, and checks of what each cgroup has
 *
 *     psi_tree         TOP             none of these has controllers before
 *     |-- a            A               tree_controllers()
 *     |   |-- x        AX
 *     |   |   `-- d    AXD
 *     |   `-- y        AY
 *     `-- b            B
 *     psi_stranger     STRANGER
 *
 * A check that fails prints what is wrong and returns false.
 */
#ifndef PSI_TREE_H
#define PSI_TREE_H

#include "psi_util.h"

#define MSEC		NSEC_PER_MSEC
#define SEC		NSEC_PER_SEC

enum group { TOP, A, AX, AXD, AY, B, ROOT, SYSTEM, NR_GROUPS };

/* The groups up to B belong to the test. ROOT and SYSTEM are only read. */
#define NR_MADE		(B + 1)

#define STRANGER	CGROUP_ROOT "/psi_stranger"

extern const char * const tree_path[NR_GROUPS];

void tree_make(void);
/* Kills and reaps all its tasks, too. */
void tree_remove(void);
/* Enables controllers in the root, TOP and A; TOP and A may have no tasks. */
void tree_controllers(const char *which);

pid_t load_in(enum group g, void (*fn)(void *arg), void *arg);
/* A real-time task of the stranger: only the test comes before it. */
void start_hog(const struct span *span);

/**
 * struct view - what all groups and CPU 0 did in an interval
 * @p: growth of the totals
 * @cpu: of the CPU's clock
 */
struct view {
	struct pressure p[NR_GROUPS];
	struct cpu_clock cpu;
};

void view_begin(struct view *view);
/* Replaces the readings in the view by their growth. */
void view_end(struct view *view);

/* ---- A timetable ---- */

/**
 * struct timetable - a test on one CPU whose loads have fixed times
 * @view: from timetable_begin() to timetable_end()
 * @disk: made by timetable_disk()
 * @limits: lifted, so that a hog has the CPU for as long as it runs
 * @begin: the earliest time for a load; loads are started before it
 */
struct timetable {
	struct view view;
	struct slow_disk disk;
	struct rt_limits limits;
	__u64 begin;
};

void timetable_set_up(struct timetable *t);
void timetable_tear_down(struct timetable *t);
void timetable_disk(struct timetable *t, __u64 latency);
/* Returns shortly before @begin, when all loads sleep. */
void timetable_begin(struct timetable *t);
/* Returns some time after @end, when all loads sleep for good. */
void timetable_end(struct timetable *t, __u64 end);

/* Starts take_memory() in a group whose memory.high is 4 MB. */
struct throttled *start_throttled(const struct timetable *t, enum group g, pid_t *pid);

/* ---- Checks ---- */

/* A timetable is as exact as a wake-up is on time. */
#define SLACK		(4 * MSEC)

bool value_is(const char *what, enum group g, enum psi_resource r, double least, double most,
	      __u64 value);
/* Some and full of one resource; each may be off by @slack. */
bool stall_is(const struct view *view, enum group g, enum psi_resource r, double some, double full,
	      double slack);
bool nothing_in(const struct view *view, enum group g);
/*
 * A task was throttled by memory.high for @elapsed, and awake for @awake of
 * it. It sleeps for nothing else, and runs mostly to reclaim.
 */
bool throttled_is(const struct view *view, enum group g, __u64 elapsed, __u64 awake);
/*
 * The root has what the system has. Other tasks may add to it, also between
 * the two readings.
 */
bool root_is_system(const struct view *view);
/* No total of the tree moves while its tasks sleep. */
bool tree_is_quiet(void);

#endif
