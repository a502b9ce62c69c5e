// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "psi_aio.h"

aio_context_t aio_create(void)
{
	aio_context_t ctx = 0;

	if (syscall(__NR_io_setup, 4, &ctx))
		psi_die("io_setup: %s", strerror(errno));
	return ctx;
}

void aio_destroy(aio_context_t ctx)
{
	if (syscall(__NR_io_destroy, ctx))
		psi_die("io_destroy: %s", strerror(errno));
}

void aio_submit(aio_context_t ctx, struct iocb *iocb)
{
	if (syscall(__NR_io_submit, ctx, 1, &iocb) != 1)
		psi_die("io_submit: %s", strerror(errno));
}

void aio_submit_read(aio_context_t ctx, int fd, void *buf, off_t pos)
{
	struct iocb iocb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = fd,
		.aio_buf = (unsigned long)buf,
		.aio_nbytes = BLOCK,
		.aio_offset = pos,
	};

	aio_submit(ctx, &iocb);
}

int aio_wait(aio_context_t ctx, int nr, __u64 ns)
{
	struct timespec ts = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };
	struct io_event events[4];
	int done = syscall(__NR_io_getevents, ctx, nr, 4, events, &ts);

	if (done < 0)
		psi_die("io_getevents: %s", strerror(errno));
	return done;
}
