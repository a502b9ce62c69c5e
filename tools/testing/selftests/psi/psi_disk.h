/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slow disks (null_blk), stalls of known length on them, and swap
 */
#ifndef PSI_DISK_H
#define PSI_DISK_H

#include <stdbool.h>
#include <linux/types.h>

/**
 * struct slow_disk - a block device that answers after a fixed time
 * @node: its device file
 * @config: its directory in configfs
 *
 * A timer of the guest makes the delay, so it is exact in virtual time.
 */
struct slow_disk {
	char node[32];
	char config[64];
};

void slow_disk_create(struct slow_disk *disk, const char *name, __u64 latency, int size_mb);
void slow_disk_remove(const struct slow_disk *disk);
/* The disk takes @depth requests at a time; further ones wait. */
void slow_disk_queue(const struct slow_disk *disk, int depth);
/*
 * The disk is said to take @iops requests of a block a second, and 1 MB; iocost lets cgroups have
 * no more. 0: it does not.
 */
void slow_disk_budget(const struct slow_disk *disk, int iops);
/* The number of its device, as MAJOR:MINOR. */
void slow_disk_number(const struct slow_disk *disk, char *number, size_t size);
/* Requests for the sectors from @first to @last fail, after the same delay. */
void slow_disk_fail(const struct slow_disk *disk, unsigned long first, unsigned long last, bool on);
/* Writes a swap header to a device of @size_mb and swaps on it. */
void swap_on(const char *node, int size_mb);

/**
 * struct stalls - a disk for stalls of the caller
 * @disk: the device
 * @latency: of each read, in ns
 * @fd: the device, open
 * @buf: a block
 *
 * A stall is a direct read: the reader sleeps in iowait while the timer of the
 * disk runs. Nothing else on the machine makes io pressure, so the schedule of
 * a test is the schedule of its reads.
 */
struct stalls {
	struct slow_disk disk;
	__u64 latency;
	int fd;
	void *buf;
};

void stalls_create(struct stalls *stalls, const char *name, __u64 latency);
void stalls_remove(struct stalls *stalls);
/* The caller stalls on io for one latency. */
void stall(const struct stalls *stalls);
void stall_times(const struct stalls *stalls, int times);

#endif
