// SPDX-License-Identifier: GPL-2.0
/* For LD_PRELOAD: a kernel, or a filter of system calls, without pidfd_open(). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

long syscall(long number, ...)
{
	long (*real)(long number, ...) = dlsym(RTLD_NEXT, "syscall");
	long arg[6];
	va_list args;

	if (number == SYS_pidfd_open) {
		errno = EPERM;
		return -1;
	}
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
