/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rings of io_uring, without a library
 *
 * Requests are prepared one by one, submitted together, and reaped without being looked at
 * but for the last of them.
 */
#ifndef PSI_URING_H
#define PSI_URING_H

#include <linux/io_uring.h>

#include "psi_util.h"

/* Requests that newer kernels have: see uring_has(). */
#define OP_READV_FIXED	60
#define OP_WRITEV_FIXED	61

/**
 * struct uring - an io_uring for a few requests
 * @fd: its descriptor
 * @rings: both rings
 * @sqes: the requests that the first ring points to
 * @prepared: requests that uring_submit() has not seen yet
 * @wait_flags: IORING_ENTER_* of each wait
 * @last: the latest completion that was reaped
 * @params: where the kernel put the parts of the rings
 */
struct uring {
	int fd;
	char *rings;
	struct io_uring_sqe *sqes;
	unsigned int prepared;
	unsigned int wait_flags;
	struct io_uring_cqe last;
	struct io_uring_params params;
};

#define URING_ENTRIES	32

/* @flags: IORING_SETUP_*. False if this kernel has none, or none for us. */
bool uring_create(struct uring *uring, unsigned int flags);
/* The same; a thread that looks for requests (SQPOLL) never goes to sleep. */
bool uring_create_restless(struct uring *uring, unsigned int flags);
void uring_destroy(struct uring *uring);

bool uring_has(struct uring *uring, __u8 opcode);
/* To /proc/stat its waits are no iowait from now on; false where they always are. */
bool uring_refuse_iowait(struct uring *uring);
/* Requests with buf_index 0 are about this memory. */
void uring_register(struct uring *uring, void *buf, size_t size);

/* The next request, which is about @fd; the caller fills in the rest. */
struct io_uring_sqe *uring_prepare(struct uring *uring, __u8 opcode, int fd);
/* A read of @size bytes at @pos: -1 where files have no position. */
struct io_uring_sqe *uring_prepare_read(struct uring *uring, int fd, void *buf, unsigned int size,
					__u64 pos);
void uring_submit(struct uring *uring);

/* Sleeps in the ring until @nr completions are there, or for @ns; false for the latter. */
bool uring_wait(struct uring *uring, unsigned int nr, __u64 ns);
/* Takes what is there out of the ring; returns how many completions that were. */
unsigned int uring_reap(struct uring *uring);

#endif
