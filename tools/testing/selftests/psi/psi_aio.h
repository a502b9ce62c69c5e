/* SPDX-License-Identifier: GPL-2.0 */
/*
 * aio, without a library
 */
#ifndef PSI_AIO_H
#define PSI_AIO_H

#include <linux/aio_abi.h>

#include "psi_util.h"

aio_context_t aio_create(void);
void aio_destroy(aio_context_t ctx);

void aio_submit(aio_context_t ctx, struct iocb *iocb);
/* A read of a block. */
void aio_submit_read(aio_context_t ctx, int fd, void *buf, off_t pos);
/* Sleeps until @nr requests are done, or for @ns; returns how many are. */
int aio_wait(aio_context_t ctx, int nr, __u64 ns);

#endif
