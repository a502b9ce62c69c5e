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
 * A profile is of what happens between these, a number of times: see plugin.c
 * and lines.c.  Elsewhere they cost some instructions.
 */
extern struct profile {
	unsigned long parts, times;	/* since the last result */
} profile;

static inline void profile_begin(void)
{
	__asm__ volatile("nopl 0x50530001(%%rax)" ::: "memory");
}

static inline void profile_end(unsigned long times)
{
	__asm__ volatile("nopl 0x50530002(%%rax)" ::: "memory");
	profile.parts++;
	profile.times += times;
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
/* What a quarter is longer than; frees them, too. */
double batches_upper(struct batches *batches);

/* Paths of cgroups are relative to the root of the hierarchy, which is "". */
void cgroup_make(const char *cgroup);
void cgroup_remove(const char *cgroup);
void cgroup_enter(const char *cgroup, pid_t pid);
bool cgroup_has(const char *cgroup, const char *file);
void cgroup_write(const char *cgroup, const char *file, const char *text);
/* For reading; the file descriptor. */
int cgroup_open(const char *cgroup, const char *file);
/* A chain of DEPTH groups below PARENT, each the child of the one before; the path of the last. */
const char *cgroup_chain(const char *parent, const char *name, unsigned int depth, char *path, size_t size);
/* Have the group, and those above it, use a controller. */
void cgroup_controller(const char *cgroup, const char *controller);
void cgroup_remove_chain(const char *parent, const char *name, unsigned int depth);
/* Ask for exact pressure of the system and of all groups on a path, if there is any. */
void cgroup_ask_exact(const char *path);
/* Directly below the root: the group of this number. */
const char *cgroup_numbered(unsigned int number);

/* CPUs that are online; the numbers of the others are higher. */
unsigned int cpus(void);
/* The caller runs on this CPU only. */
void pin(unsigned int cpu);
/*
 * A task of the cgroup that reads from a disk, which needs no CPU: the CPU, if not negative,
 * idles, and the group is in use there. To be killed.
 */
pid_t disk_reader(const char *cgroup, int cpu);
/* The caller runs in the cgroup on each CPU, one after the other; in the root and on CPU 0 in the end. */
void cgroup_visit_cpus(const char *cgroup);

/*
 * How much the first CPU does but idle.  A look costs as much as
 * there are timers, up to some tenths of a second, and itself is part of the
 * interval that follows.  So it takes two intervals: look_twice() begins with
 * one in which there is little more than the look.
 */
void look_twice(void);
/* Instructions in each second since then, without the look. */
double look_again(void);

pid_t fork_or_die(void);
void wait_or_die(pid_t pid);
void pipe_or_die(int fds[2]);
void sleep_until(uint64_t time);
void write_file(const char *path, const char *text);
/* All of it. */
void read_file(int fd);
/* The number after WORD in a file; fatal if there is none. */
uint64_t number_in(const char *path, const char *word);
/* A trigger of this kernel; the file descriptor. */
int trigger_arm(const char *path, const char *text);
int cgroup_arm(const char *cgroup, const char *file, const char *text);

/* The workloads. */
void forks(void);
void beside(void);
void idle(void);
void isolated(void);
void latency(void);
void limits(void);
void lines(void);
void many(void);
void memory(void);
void memstall(void);
void million(void);
void pingpong(void);
void reads(void);
void remote(void);
void threads(void);
void throttle(void);
void together(void);
void triggers(void);
void upkeep(void);

#endif /* BENCH_H */
