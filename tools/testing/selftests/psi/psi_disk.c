// SPDX-License-Identifier: GPL-2.0
/* Slow disks and stalls on them: see psi_disk.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "psi_util.h"

#define CONFIGFS	"/sys/kernel/config"
#define STALLS_MB	4

void slow_disk_set(const struct slow_disk *disk, const char *key, unsigned long long value)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "%s/%s", disk->config, key);
	snprintf(text, sizeof(text), "%llu", value);
	write_file(path, text);
}

void slow_disk_remove(const struct slow_disk *disk)
{
	slow_disk_set(disk, "power", 0);
	if (rmdir(disk->config))
		psi_die("%s: %s", disk->config, strerror(errno));
}

void slow_disk_create(struct slow_disk *disk, const char *name, __u64 latency, int size_mb)
{
	if (access(CONFIGFS "/nullb", F_OK) && mount("none", CONFIGFS, "configfs", 0, NULL))
		psi_die(CONFIGFS ": %s", strerror(errno));
	snprintf(disk->config, sizeof(disk->config), CONFIGFS "/nullb/%s", name);
	snprintf(disk->node, sizeof(disk->node), "/dev/%s", name);
	/* A test that was killed may have left its device. */
	if (!access(disk->config, F_OK))
		slow_disk_remove(disk);
	if (mkdir(disk->config, 0755))
		psi_die("%s: %s (needs CONFIG_BLK_DEV_NULL_BLK)", disk->config, strerror(errno));
	slow_disk_set(disk, "size", size_mb);
	slow_disk_set(disk, "memory_backed", 1);
	slow_disk_set(disk, "irqmode", 2);
	slow_disk_set(disk, "completion_nsec", latency);
	slow_disk_set(disk, "power", 1);
	if (access(disk->node, R_OK | W_OK))
		psi_die("%s: %s (needs devtmpfs)", disk->node, strerror(errno));
}

/* ---- Stalls ---- */

void stalls_create(struct stalls *stalls, const char *name, __u64 latency)
{
	slow_disk_create(&stalls->disk, name, latency, STALLS_MB);
	stalls->latency = latency;
	stalls->fd = open_blocks(stalls->disk.node, O_DIRECT, &stalls->buf);
	/* The first open of the device makes the kernel read from it. */
	stall(stalls);
}

void stalls_remove(struct stalls *stalls)
{
	close(stalls->fd);
	free(stalls->buf);
	slow_disk_remove(&stalls->disk);
}

void stall(const struct stalls *stalls)
{
	if (pread(stalls->fd, stalls->buf, BLOCK, 0) != BLOCK)
		psi_die("%s: %s", stalls->disk.node, strerror(errno));
}

void stall_times(const struct stalls *stalls, int times)
{
	while (times--)
		stall(stalls);
}
