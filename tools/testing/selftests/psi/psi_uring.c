// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <linux/time_types.h>

#include "psi_uring.h"

#ifndef IORING_FEAT_NO_IOWAIT
#define IORING_FEAT_NO_IOWAIT	0x20000
#define IORING_ENTER_NO_IOWAIT	0x80
#endif

/* @idle: after so many ms without a request, a thread that looks for them sleeps. */
static bool create(struct uring *uring, unsigned int flags, unsigned int idle)
{
	struct io_uring_params *p = &uring->params;

	memset(uring, 0, sizeof(*uring));
	p->flags = flags;
	p->sq_thread_idle = idle;
	uring->fd = syscall(__NR_io_uring_setup, URING_ENTRIES, p);
	if (uring->fd < 0)
		return false;
	/* Both in one mapping, since 5.4; that of completions is the second, and the larger. */
	uring->rings = mmap(NULL, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe),
			    PROT_READ | PROT_WRITE, MAP_SHARED, uring->fd, IORING_OFF_SQ_RING);
	uring->sqes = mmap(NULL, p->sq_entries * sizeof(*uring->sqes), PROT_READ | PROT_WRITE,
			   MAP_SHARED, uring->fd, IORING_OFF_SQES);
	if (uring->rings == MAP_FAILED || uring->sqes == MAP_FAILED)
		psi_die("mmap of an io_uring: %s", strerror(errno));
	return true;
}

bool uring_create(struct uring *uring, unsigned int flags)
{
	return create(uring, flags, 1);
}

bool uring_create_restless(struct uring *uring, unsigned int flags)
{
	return create(uring, flags, 1000 * 1000);
}

void uring_destroy(struct uring *uring)
{
	const struct io_uring_params *p = &uring->params;

	if (munmap(uring->sqes, p->sq_entries * sizeof(*uring->sqes)) ||
	    munmap(uring->rings, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe)) ||
	    close(uring->fd))
		psi_die("close of an io_uring: %s", strerror(errno));
}

bool uring_has(struct uring *uring, __u8 opcode)
{
	union {
		struct io_uring_probe probe;
		char room[sizeof(struct io_uring_probe) + 256 * sizeof(struct io_uring_probe_op)];
	} u = { };

	if (syscall(__NR_io_uring_register, uring->fd, IORING_REGISTER_PROBE, &u, 256))
		psi_die("io_uring_register: %s", strerror(errno));
	return opcode <= u.probe.last_op && u.probe.ops[opcode].flags & IO_URING_OP_SUPPORTED;
}

bool uring_refuse_iowait(struct uring *uring)
{
	if (!(uring->params.features & IORING_FEAT_NO_IOWAIT))
		return false;
	uring->wait_flags |= IORING_ENTER_NO_IOWAIT;
	return true;
}

void uring_register(struct uring *uring, void *buf, size_t size)
{
	struct iovec vector = { .iov_base = buf, .iov_len = size };

	if (syscall(__NR_io_uring_register, uring->fd, IORING_REGISTER_BUFFERS, &vector, 1))
		psi_die("io_uring_register: %s", strerror(errno));
}

static unsigned int *uring_word(struct uring *uring, __u32 offset)
{
	return (unsigned int *)(uring->rings + offset);
}

struct io_uring_sqe *uring_prepare(struct uring *uring, __u8 opcode, int fd)
{
	const struct io_sqring_offsets *sq = &uring->params.sq_off;
	unsigned int at = *uring_word(uring, sq->tail) + uring->prepared++;
	struct io_uring_sqe *sqe;

	at &= *uring_word(uring, sq->ring_mask);
	uring_word(uring, sq->array)[at] = at;
	sqe = &uring->sqes[at];
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->fd = fd;
	return sqe;
}

struct io_uring_sqe *uring_prepare_read(struct uring *uring, int fd, void *buf, unsigned int size,
					__u64 pos)
{
	struct io_uring_sqe *sqe = uring_prepare(uring, IORING_OP_READ, fd);

	sqe->addr = (unsigned long)buf;
	sqe->len = size;
	sqe->off = pos;
	return sqe;
}

void uring_submit(struct uring *uring)
{
	const struct io_sqring_offsets *sq = &uring->params.sq_off;
	unsigned int *tail = uring_word(uring, sq->tail), nr = uring->prepared;
	bool thread = uring->params.flags & IORING_SETUP_SQPOLL;

	__atomic_store_n(tail, *tail + nr, __ATOMIC_RELEASE);
	uring->prepared = 0;
	if (syscall(__NR_io_uring_enter, uring->fd, nr, 0,
		    thread ? IORING_ENTER_SQ_WAKEUP : 0, NULL, 0) != nr)
		psi_die("io_uring_enter: %s", strerror(errno));
}

static unsigned int completions(struct uring *uring)
{
	const struct io_cqring_offsets *cq = &uring->params.cq_off;

	return __atomic_load_n(uring_word(uring, cq->tail), __ATOMIC_ACQUIRE) -
	       *uring_word(uring, cq->head);
}

bool uring_wait(struct uring *uring, unsigned int nr, __u64 ns)
{
	struct __kernel_timespec ts = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };
	struct io_uring_getevents_arg arg = { .ts = (unsigned long)&ts };

	if (syscall(__NR_io_uring_enter, uring->fd, 0, nr,
		    IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | uring->wait_flags, &arg,
		    sizeof(arg)) < 0 && errno != ETIME)
		psi_die("io_uring_enter: %s", strerror(errno));
	/* It is also no error that some are there when the time is over. */
	return completions(uring) >= nr;
}

unsigned int uring_reap(struct uring *uring)
{
	const struct io_cqring_offsets *cq = &uring->params.cq_off;
	struct io_uring_cqe *cqes = (void *)(uring->rings + cq->cqes);
	unsigned int *head = uring_word(uring, cq->head), nr = completions(uring);
	unsigned int last = *head + nr - 1;

	if (nr)
		uring->last = cqes[last & *uring_word(uring, cq->ring_mask)];
	__atomic_store_n(head, last + 1, __ATOMIC_RELEASE);
	return nr;
}
