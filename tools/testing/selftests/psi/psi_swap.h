/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slow disks with a limit, with errors, and for swap
 */
#ifndef PSI_SWAP_H
#define PSI_SWAP_H

#include "psi_util.h"

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

#endif
