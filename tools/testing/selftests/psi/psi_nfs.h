/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NFS with the client and the server in this machine
 */
#ifndef PSI_NFS_H
#define PSI_NFS_H

/**
 * nfs_mount - mount a directory by NFS 4.2
 * @served: the directory, the root of a file system
 * @where: where to mount it
 *
 * The server is the kernel's. No daemon takes part: the caller tells the
 * server of its only client and its only export before anybody asks.
 */
void nfs_mount(const char *served, const char *where);
/* Unmounts it, and ends the server. */
void nfs_unmount(const char *where);

#endif
