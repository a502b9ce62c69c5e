/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the workloads share: exact times, results, tasks, cgroups.
 *
 * The clock is the count of executed instructions: vm/run --shift 0.
 *
 * Each case of a workload is a process of its own.  When it has ended, the tasks
 * that it left are killed and the cgroups removed.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define SECOND		1000000000ull
#define CGROUPS		"/sys/fs/cgroup"

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Instructions so far. */
uint64_t now(void);
void sleep_until(uint64_t time);

/*
 * A profile is of what happens between these, a number of times: see plugin.c.
 * Elsewhere they cost some instructions.
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

extern char case_name[64];
/* The result of this case; of a workload without cases, the one of this name. */
void result(double value);
void result_named(const char *name, double value);

/* The value that so many quarters of them are below; sorts them. */
double quartile(uint64_t *values, unsigned int nr, unsigned int quarters);
/*
 * Instructions of each of BATCH: the median of BATCHES, which no tick and no other task disturbed if
 * these are the majority.  PREPARE, if any, comes before each batch and does not count.
 */
double measure(void (*prepare)(void), void (*work)(unsigned int nr), unsigned int batch, unsigned int batches);

/* Paths of cgroups are relative to the root of the hierarchy, which is "". */
void cgroup_make(const char *cgroup);
void cgroup_remove(const char *cgroup);
void directory_remove(const char *path);
void cgroup_enter(const char *cgroup, pid_t pid);
void cgroup_write(const char *cgroup, const char *file, const char *text);
/* The path of a file, until the next call. */
const char *cgroup_file(const char *cgroup, const char *file);
bool cgroup_has(const char *cgroup, const char *file);
/* A chain of DEPTH groups below PARENT, each the child of the one before; the path of the last. */
const char *cgroup_chain(const char *parent, const char *name, unsigned int depth);
/* The same below the root. "exact": exact pressure of them and of the system is asked for. "forgotten": it was, minutes ago. */
const char *cgroup_leaf(const char *kind, unsigned int depth);
/* Have the group, and those above it, use a controller. */
void cgroup_controller(const char *cgroup, const char *controller);
/* Directly below the root: the group of this number; until the next call. */
const char *cgroup_numbered(unsigned int number);
/* The caller runs in the cgroup on each CPU, one after the other; in the root and on CPU 0 in the end. */
void cgroup_visit_cpus(const char *cgroup);

/* CPUs that are online; the numbers of the others are higher. */
unsigned int cpus(void);
/* The task, 0 is the caller, runs on this CPU only. */
void pin(pid_t pid, unsigned int cpu);
pid_t fork_or_die(void);
/* The end of a task, which has to be a good one. */
void wait_or_die(pid_t pid);
/* A task of the cgroup that works all the time. */
pid_t spinner(const char *cgroup);
/*
 * A task of the cgroup that reads from a disk, which needs no CPU: the CPU, if not negative,
 * idles, and the group is in use there.
 */
void disk_reader(const char *cgroup, int cpu);
/* Zeroed memory for the caller and its children. */
void *shared_memory(size_t size);
void pipe_or_die(int fds[2]);

int open_file(const char *path);
/* All of it. */
void read_file(int fd);
void read_once(const char *path);
void write_file(const char *path, const char *text);
/* The number after WORD in a file; fatal if there is none. */
uint64_t number_in(const char *path, const char *word);
/* What a program reads of /proc/pressure. */
bool has_psi(void);
/* A trigger; the file descriptor. */
int trigger_arm(const char *path, const char *text);
/* One that is not reached, with a threshold of its own for each number: those that are the same PSI could share. */
int trigger_arm_one(const char *path, unsigned int number);

/* The value of all tasks, of their names and their files "status". */
typedef uint64_t task_value_t(const char *name, const char *status);
uint64_t sum_of_tasks(task_value_t *value);

/*
 * How much the first CPU does but idle.  A look costs as much as
 * there are timers, up to some tenths of a second, and itself is part of the
 * interval that follows.  So it takes two intervals: look_twice() begins with
 * one in which there is little more than the look.
 */
void look_twice(void);
/* Instructions in each second since then, without the look. */
double look_again(void);
/* The same of so many seconds, 4 s from now: all averages are kept by then. */
double busy_for(unsigned int seconds);

/* Many groups, numbered from 0, with tasks that wake up once a second. */
struct crowd {
	unsigned int groups;
	unsigned int tasks;	/* in each group, which wake up at the same time */
	uint64_t work;		/* instructions of each, each time */
	bool spread;		/* those of a group wake up one after the other, each on its CPU */
};

void crowd_start(const struct crowd *crowd);
/* Wake-ups so far. */
extern volatile unsigned long crowd_wakeups;

/* The workloads. A case is called KIND/NUMBER, or has no number. */
typedef void workload_t(const char *kind, unsigned int number);

workload_t beside, forks, idle, isolated, latency, limits, lines, many, memory, memstall, million, pingpong, reads,
	   remote, threads, throttle, together, triggers, upkeep;

#endif /* BENCH_H */
