// SPDX-License-Identifier: GPL-2.0
/* Block devices on top of slow disks: see psi_stack.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <linux/dm-ioctl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <linux/raid/md_p.h>
#include <linux/raid/md_u.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "psi_stack.h"

#define NAME		"psi_stack"
#define MD_NODE		"/dev/psi_md"
#define SECTORS_PER_MB	2048

/* ---- Device mapper ---- */

/**
 * struct dm_call - an ioctl of the device mapper
 * @head: what each has
 * @target: of a table, which has one
 * @parameters: of the target
 */
struct dm_call {
	struct dm_ioctl head;
	struct dm_target_spec target;
	char parameters[128];
};

static void dm_control(struct dm_call *call, unsigned int request)
{
	int fd = open_file("/dev/mapper/control", O_RDWR);
	struct dm_ioctl *head = &call->head;

	head->version[0] = DM_VERSION_MAJOR;
	head->data_size = sizeof(*call);
	head->data_start = offsetof(struct dm_call, target);
	snprintf(head->name, sizeof(head->name), NAME);
	if (ioctl(fd, request, call))
		psi_die("device mapper, request %#x: %s", request, strerror(errno));
	close(fd);
}

static void dm_create(struct stacked_disk *disk, int size_mb)
{
	struct dm_call call = {};

	dm_control(&call, DM_DEV_CREATE);
	snprintf(disk->node, sizeof(disk->node), "/dev/dm-%u", minor(call.head.dev));

	memset(&call, 0, sizeof(call));
	call.head.target_count = 1;
	call.target.length = (__u64)size_mb * SECTORS_PER_MB;
	snprintf(call.target.target_type, sizeof(call.target.target_type),
		 disk->kind == STACK_CRYPT ? "crypt" : "linear");
	snprintf(call.parameters, sizeof(call.parameters),
		 disk->kind == STACK_CRYPT ? "cipher_null-ecb - 0 %s 0" : "%s 0",
		 disk->disks[0].node);
	dm_control(&call, DM_TABLE_LOAD);

	/* With no flag it resumes: the table is in use from here on. */
	memset(&call, 0, sizeof(call));
	dm_control(&call, DM_DEV_SUSPEND);
}

static void dm_remove(void)
{
	struct dm_call call = {};

	dm_control(&call, DM_DEV_REMOVE);
}

/* ---- md ---- */

static void md_control(unsigned int request, void *arg)
{
	int fd = open_file(MD_NODE, O_RDWR);

	if (ioctl(fd, request, arg))
		psi_die(MD_NODE ", request %#x: %s", request, strerror(errno));
	close(fd);
}

static void md_create(struct stacked_disk *disk, int size_mb)
{
	mdu_array_info_t array = {
		.level = 1, .size = size_mb << 10, .nr_disks = 2, .raid_disks = 2,
		/* Both are equal: they hold zeros. */
		.state = 1 << MD_SB_CLEAN, .active_disks = 2, .working_disks = 2,
	};
	struct stat st;

	snprintf(disk->node, sizeof(disk->node), MD_NODE);
	if (mknod(MD_NODE, S_IFBLK | 0600, makedev(MD_MAJOR, 0)) && errno != EEXIST)
		psi_die(MD_NODE ": %s", strerror(errno));
	md_control(SET_ARRAY_INFO, &array);
	for (int i = 0; i < 2; i++) {
		mdu_disk_info_t member = {
			.number = i, .raid_disk = i,
			.state = 1 << MD_DISK_ACTIVE | 1 << MD_DISK_SYNC,
		};

		if (stat(disk->disks[i].node, &st))
			psi_die("%s: %s", disk->disks[i].node, strerror(errno));
		member.major = major(st.st_rdev);
		member.minor = minor(st.st_rdev);
		md_control(ADD_NEW_DISK, &member);
	}
	md_control(RUN_ARRAY, NULL);
}

/* ---- Either ---- */

void stacked_disk_create(struct stacked_disk *disk, enum stack kind, __u64 latency, int size_mb)
{
	/* The superblock of md is at the end of each disk. */
	slow_disk_create(&disk->disks[0], NAME "0", latency, size_mb + 1);
	disk->kind = kind;
	switch (kind) {
	case STACK_NONE:
		snprintf(disk->node, sizeof(disk->node), "%s", disk->disks[0].node);
		break;
	case STACK_LINEAR:
	case STACK_CRYPT:
		dm_create(disk, size_mb);
		break;
	case STACK_RAID1:
		slow_disk_create(&disk->disks[1], NAME "1", latency, size_mb + 1);
		md_create(disk, size_mb);
		break;
	}
}

void stacked_disk_remove(const struct stacked_disk *disk)
{
	if (disk->kind == STACK_LINEAR || disk->kind == STACK_CRYPT)
		dm_remove();
	if (disk->kind == STACK_RAID1) {
		md_control(STOP_ARRAY, NULL);
		slow_disk_remove(&disk->disks[1]);
	}
	slow_disk_remove(&disk->disks[0]);
}

void stacked_disk_clean_early(const struct stacked_disk *disk)
{
	if (disk->kind != STACK_RAID1)
		psi_die("%s: not an array", disk->node);
	write_file("/sys/block/md0/md/safe_mode_delay", "0.005");
}

/* ---- In a file, in memory ---- */

void loop_create(const char *node, const char *file, int size_mb, bool direct)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	int loop = open_file(node, O_RDWR);

	if (fd < 0 || ftruncate(fd, (off_t)size_mb << 20) || ioctl(loop, LOOP_SET_FD, fd) ||
	    ioctl(loop, LOOP_SET_DIRECT_IO, direct))
		psi_die("%s on %s: %s", node, file, strerror(errno));
	close(loop);
	close(fd);
}

void loop_remove(const char *node)
{
	int loop = open_file(node, O_RDWR);

	if (ioctl(loop, LOOP_CLR_FD))
		psi_die("%s: %s", node, strerror(errno));
	close(loop);
}

#define ZRAM		"/sys/block/zram0/"

void zram_create(int size_mb)
{
	char text[16];

	snprintf(text, sizeof(text), "%dM", size_mb);
	write_file(ZRAM "disksize", text);
}

void zram_remove(void)
{
	write_file(ZRAM "reset", "1");
}
