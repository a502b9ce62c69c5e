/* SPDX-License-Identifier: GPL-2.0 */
/*
 * File systems on slow disks, and a file system and a device whose server is slow
 */
#ifndef PSI_FS_H
#define PSI_FS_H

#include <stdbool.h>
#include <linux/types.h>
#include <sys/types.h>

/**
 * fs_make - put an empty file system on a disk
 * @node: the disk
 * @type: ext4, xfs, btrfs or f2fs
 *
 * Copies TYPE.blocks from the directory of the program, a header of one block
 * (the size of the file system in MB, as text) and then blocks with 8 bytes of
 * their position in front. Where there is no such file, mkfs.TYPE is called.
 *
 * Returns false if neither is there.
 */
bool fs_make(const char *node, const char *type);

/* How large a disk fs_make() wants for this type, in MB. */
int fs_size_mb(const char *type);

void fs_mount(const char *what, const char *where, const char *type, const char *options);
void fs_unmount(const char *where);

/* Forgets what is cached and clean: data, inodes and names. */
void fs_drop_caches(void);

/* For so long another program has the lock that a task waits for, in ns. */
#define SLOW_LOCK	500000000ULL

/**
 * struct slow_server - a file system of FUSE or 9p whose server takes its time
 * @pid: the server
 * @fd: the connection
 *
 * It has files f0, f1, ... of 1 TB, which hold zeros.
 */
struct slow_server {
	pid_t pid;
	int fd;
};

/*
 * @latency: how long each request takes, in ns. @direct: not through the page
 * cache.
 */
void slow_server_start(struct slow_server *server, const char *where, __u64 latency, bool direct);
/* The same by 9p. @cache: a value of the mount option of that name. */
void slow_server_start_9p(struct slow_server *server, const char *where, __u64 latency,
			  const char *cache);
/* A character device in place of a file system, by CUSE. It holds zeros, too. */
#define CUSE_NAME	"psi_cuse"
void slow_server_start_cuse(struct slow_server *server, __u64 latency);
/* @where: %NULL for a device. */
void slow_server_stop(const struct slow_server *server, const char *where);

#endif
