/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of triggers share
 *
 * A stall is a direct read from a slow disk: the reader is asleep in iowait for as long
 * as the disk's timer runs, and nothing else on the machine makes io pressure. So the
 * schedule of a test is the schedule of its own reads, and an idle machine between them
 * costs no time.
 */
#ifndef PSI_TRIGGER_H
#define PSI_TRIGGER_H

#include "psi_util.h"

#define CGROUP_ROOT	"/sys/fs/cgroup"

/* An ordinary user: no capability at all. */
#define USER		65534

/* ---- Triggers ---- */

/* Opens for reading and writing, by this process as it is, or by an ordinary user. */
int trigger_open(const char *path);
int trigger_open_user(const char *path);

/* Writes @len bytes. Returns 0, or the error; anything but the full count ends the test. */
int trigger_write(int fd, const void *text, size_t len);
/* The same with a string, without its NUL. */
int trigger_set(int fd, const char *text);

/* A new descriptor that is armed with @text; ends the test when that fails. */
int trigger_arm(const char *path, const char *text);
int trigger_arm_user(const char *path, const char *text);

/* What poll() reports for @events within @ms. */
short poll_fd(int fd, short events, int ms);
/* Collects the event that is pending, or comes within @ms. */
bool trigger_fired(int fd, int ms);
/* Collects events until @end: how many came. */
int trigger_count(int fd, __u64 end);

/* ---- Stalls ---- */

/**
 * struct stalls - a disk whose reads take @latency
 * @disk: the device
 * @latency: of each read, in ns
 * @fd: it is open
 * @buf: where the blocks go
 */
struct stalls {
	struct slow_disk disk;
	__u64 latency;
	int fd;
	void *buf;
};

void stalls_create(struct stalls *stalls, const char *name, __u64 latency);
void stalls_remove(struct stalls *stalls);
/* The caller stalls on io, for @latency each time. */
void stall(const struct stalls *stalls);
void stall_times(const struct stalls *stalls, int times);

/* ---- Where it happens: the system, or one cgroup ---- */

/* A cgroup that the calling process joins, and leaves before it is removed. */
void group_enter(const char *path);
void group_leave(void);

/* ---- Threads of the kernel ---- */

/* How often kernel threads were switched to so far. */
__u64 kthread_switches(void);
/* The same of the threads that serve triggers. */
__u64 monitor_switches(void);
/* Of the one for triggers of who may have a privileged one. */
__u64 rt_monitor_switches(void);

#endif
