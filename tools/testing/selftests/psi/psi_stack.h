/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Block devices on top of slow disks
 */
#ifndef PSI_STACK_H
#define PSI_STACK_H

#include "psi_util.h"

enum stack {
	STACK_NONE,
	STACK_LINEAR,	/* device mapper, no change */
	STACK_CRYPT,	/* device mapper, by a cipher that changes nothing */
	STACK_RAID1,	/* md, two disks */
};

/**
 * struct stacked_disk - a block device, and the slow disks below it
 * @node: its device file, that of the disk for %STACK_NONE
 * @kind: what it is
 * @disks: the disks below
 */
struct stacked_disk {
	char node[32];
	enum stack kind;
	struct slow_disk disks[2];
};

void stacked_disk_create(struct stacked_disk *disk, enum stack kind, __u64 latency, int size_mb);
void stacked_disk_remove(const struct stacked_disk *disk);
/* An array is clean, and says so on its disks, 5 ms after a write, not 200. */
void stacked_disk_clean_early(const struct stacked_disk *disk);

/*
 * loop_create - a block device whose blocks are in a file
 * @node: the device, free so far
 * @file: the file, which is made
 * @size_mb: how large both are
 * @direct: it reads and writes the file past the page cache
 */
void loop_create(const char *node, const char *file, int size_mb, bool direct);
void loop_remove(const char *node);

/* A block device that compresses into memory. */
#define ZRAM_NODE	"/dev/zram0"
void zram_create(int size_mb);
void zram_remove(void);

#endif
