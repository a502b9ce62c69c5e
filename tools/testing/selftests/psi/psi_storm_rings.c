// SPDX-License-Identifier: GPL-2.0
/* Requests that tasks submit and wait for later, or never. See psi_storm.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/time_types.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "psi_crew.h"
#include "psi_uring.h"

#define DISK_BLOCKS	1024
#define MOST_AT_ONCE	4
/* No more requests than the ring has room for, as a thread may be late to look at them. */
#define ROUNDS		(URING_ENTRIES / MOST_AT_ONCE)

/**
 * struct ringer - a task that opens rings and closes them, with another that waits in them
 * @disk: the device
 * @direct: the device
 * @cached: the device, through the page cache
 * @pipe: nothing ever comes out of it
 * @buf: what is read, by all
 * @fd: the ring in which the other thread waits, if it likes
 */
struct ringer {
	const char *disk;
	int direct;
	int cached;
	int pipe[2];
	void *buf;
	int fd;
};

static void prepare_something(struct ringer *ringer, struct uring *ring)
{
	__u64 pos = storm_chance(DISK_BLOCKS) * BLOCK;
	struct io_uring_sqe *sqe;

	switch (storm_chance(6)) {
	case 0:
	case 1:
		sqe = uring_prepare_read(ring, ringer->direct, ringer->buf, BLOCK, pos);
		break;
	case 2:
		posix_fadvise(ringer->cached, pos, BLOCK, POSIX_FADV_DONTNEED);
		sqe = uring_prepare_read(ring, ringer->cached, ringer->buf, BLOCK, pos);
		break;
	case 3:
		/* Not aligned: fails at once. */
		sqe = uring_prepare_read(ring, ringer->direct, ringer->buf, BLOCK, pos + 1);
		break;
	case 4:
		sqe = uring_prepare_read(ring, ringer->pipe[0], ringer->buf, 1, -1);
		break;
	default:
		sqe = uring_prepare(ring, IORING_OP_ASYNC_CANCEL, -1);
		sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
		break;
	}
	if (!storm_chance(3))
		sqe->flags |= IOSQE_ASYNC;
	if (!storm_chance(4))
		sqe->flags |= IOSQE_IO_LINK;
}

static void use_a_ring(struct ringer *ringer)
{
	static const unsigned int setups[] = {
		0, 0, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_SQPOLL,
	};
	struct uring ring;

	if (!uring_create(&ring, setups[storm_chance(ARRAY_SIZE(setups))]))
		psi_die("io_uring: %s", strerror(errno));
	__atomic_store_n(&ringer->fd, ring.fd, __ATOMIC_RELAXED);
	for (int i = storm_chance(ROUNDS); i >= 0; i--) {
		for (int nr = storm_chance(MOST_AT_ONCE); nr >= 0; nr--)
			prepare_something(ringer, &ring);
		uring_submit(&ring);
		uring_wait(&ring, 1 + storm_chance(3), storm_chance(8) * NSEC_PER_MSEC);
		uring_reap(&ring);
		storm_count();
	}
	uring_destroy(&ring);
}

/* The other thread: the ring may be gone any time, and its number be that of another file. */
static void *wait_forever(void *arg)
{
	struct __kernel_timespec ts = { .tv_nsec = 7 * NSEC_PER_MSEC };
	struct io_uring_getevents_arg wait = { .ts = (unsigned long)&ts };
	struct ringer *ringer = arg;

	for (;;) {
		syscall(__NR_io_uring_enter, __atomic_load_n(&ringer->fd, __ATOMIC_RELAXED), 0, 3,
			IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &wait, sizeof(wait));
		sleep_for(NSEC_PER_MSEC);
	}
	return NULL;
}

static void use_rings_forever(void *arg)
{
	struct ringer ringer = { .disk = arg, .fd = -1 };
	pthread_t thread;

	ringer.direct = open(ringer.disk, O_RDONLY | O_DIRECT | O_CLOEXEC);
	ringer.cached = open(ringer.disk, O_RDONLY | O_CLOEXEC);
	ringer.buf = aligned_alloc(BLOCK, BLOCK);
	if (ringer.direct < 0 || ringer.cached < 0 || !ringer.buf || pipe(ringer.pipe) ||
	    pthread_create(&thread, NULL, wait_forever, &ringer))
		psi_die("%s: %s", ringer.disk, strerror(errno));
	for (;;)
		use_a_ring(&ringer);
}

void storm_rings(struct storm *storm)
{
	struct load load = { .cpu = -1, .fn = use_rings_forever, .arg = (void *)storm->disk };
	const char *groups[2];
	struct crew crew;

	groups_make(storm, "rings", "+cpu", groups, ARRAY_SIZE(groups));
	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		pid_t *pid = &crew.pid[storm_chance(CREW)];

		if (!storm_chance(8)) {
			load_stop(*pid);
			*pid = load_start(&load);
		}
		group_move(groups[storm_chance(ARRAY_SIZE(groups))], *pid);
		move_somewhere(*pid);
		sleep_for(storm_chance(3) * STEP);
	}
	crew_stop(&crew);
	groups_remove(groups, ARRAY_SIZE(groups));
}
