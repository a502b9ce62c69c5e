// SPDX-License-Identifier: GPL-2.0
/* Slow disks with a limit, with errors, and for swap: see psi_swap.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/swap.h>
#include <unistd.h>

#include "psi_swap.h"

void slow_disk_number(const struct slow_disk *disk, char *number, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/block%s/dev", strrchr(disk->node, '/'));
	read_text(path, number, size);
	number[strcspn(number, "\n")] = '\0';
}

void slow_disk_budget(const struct slow_disk *disk, int iops)
{
	char number[16], text[160];

	slow_disk_number(disk, number, sizeof(number));
	snprintf(text, sizeof(text),
		 "%s ctrl=user model=linear rbps=1000000 rseqiops=%d rrandiops=%d wbps=1000000 wseqiops=%d wrandiops=%d",
		 number, iops, iops, iops, iops);
	if (iops)
		cgroup_write(CGROUP_ROOT, "io.cost.model", text);
	snprintf(text, sizeof(text), iops ? "%s enable=1 ctrl=user min=100.00 max=100.00" :
		 "%s enable=0", number);
	cgroup_write(CGROUP_ROOT, "io.cost.qos", text);
}

void slow_disk_queue(const struct slow_disk *disk, int depth)
{
	slow_disk_set(disk, "power", 0);
	/* An I/O scheduler would have more requests than the queue. */
	slow_disk_set(disk, "no_sched", 1);
	slow_disk_set(disk, "hw_queue_depth", depth);
	slow_disk_set(disk, "power", 1);
}

void slow_disk_fail(const struct slow_disk *disk, unsigned long first, unsigned long last, bool on)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), "%s/badblocks", disk->config);
	snprintf(text, sizeof(text), "%c%lu-%lu", on ? '+' : '-', first, last);
	write_file(path, text);
}

void swap_on(const char *node, int size_mb)
{
	static char page[BLOCK];
	__u32 *header = (__u32 *)(page + 1024);
	int fd = open_file(node, O_WRONLY);

	header[0] = 1;
	header[1] = (size_mb << 20) / BLOCK - 1;
	memcpy(page + sizeof(page) - 10, "SWAPSPACE2", 10);
	if (pwrite(fd, page, sizeof(page), 0) != sizeof(page) || fsync(fd))
		psi_die("%s: %s", node, strerror(errno));
	close(fd);
	if (swapon(node, 0))
		psi_die("swapon %s: %s", node, strerror(errno));
}
