/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the workloads share: exact times, results, cgroups.
 *
 * The clock is the count of executed instructions: vm/run --shift 0.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define CGROUPS		"/sys/fs/cgroup"

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Instructions so far. */
uint64_t now(void);

/*
 * A profile is of what happens between these, a number of times: see plugin.c.
 * Elsewhere they cost two instructions.
 */
static inline void profile_begin(void)
{
	__asm__ volatile("nopl 0x50530001(%%rax)" ::: "memory");
}

static inline void profile_end(unsigned long times)
{
	__asm__ volatile("nopl 0x50530002(%%rax)" ::: "memory");
	printf("# times %lu\n", times);
}

/* Whether to measure this. */
bool wanted(const char *name);
/* The one way to state a result. */
void result(double value, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Times of equal pieces of work.  The median is of those which no tick and no
 * other task disturbed, if these are the majority.
 */
struct batches {
	unsigned int nr, room;
	uint64_t *times;
};

void batches_init(struct batches *batches, unsigned int room);
void batches_add(struct batches *batches, uint64_t time);
/* Frees them, too. */
double batches_median(struct batches *batches);

/* Paths of cgroups are relative to the root of the hierarchy, which is "". */
void cgroup_make(const char *cgroup);
void cgroup_remove(const char *cgroup);
void cgroup_enter(const char *cgroup, pid_t pid);
bool cgroup_has(const char *cgroup, const char *file);
void cgroup_write(const char *cgroup, const char *file, const char *text);
/* A chain of DEPTH groups below PARENT, each the child of the one before; the path of the last. */
const char *cgroup_chain(const char *parent, const char *name, unsigned int depth, char *path, size_t size);
void cgroup_remove_chain(const char *parent, const char *name, unsigned int depth);

pid_t fork_or_die(void);
void pipe_or_die(int fds[2]);
void write_file(const char *path, const char *text);

/* The workloads. */
void pingpong(void);

#endif /* BENCH_H */
