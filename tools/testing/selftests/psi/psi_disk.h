/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slow disks (null_blk), and stalls of known length on them
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
/* Changes one of its attributes in configfs. */
void slow_disk_set(const struct slow_disk *disk, const char *key, unsigned long long value);

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
