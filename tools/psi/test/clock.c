// SPDX-License-Identifier: GPL-2.0
/*
 * A clock for tests, by LD_PRELOAD: time passes only while the program sleeps,
 * and then all at once.
 *
 * At its first sleep, or its first STOPS ones, the program stops itself. The test
 * changes the files that the program reads and lets it go on. With REALTIME it began
 * at that time of the day, in seconds since 1970, and the machine had just been booted.
 * With CPUS so many are online. With COST, each time when the program asks for its CPU
 * time, it has used so many ms since the time before; else it uses none. With SYNCS, the
 * second of each fdatasync() goes to that file; if that is a directory, the first one fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BEGIN	1000

static struct timespec monotonic = { .tv_sec = BEGIN };

long sysconf(int name)
{
	__typeof__(sysconf) *real = dlsym(RTLD_NEXT, "sysconf");
	const char *cpus = getenv("CPUS");

	return name == _SC_NPROCESSORS_ONLN && cpus ? atol(cpus) : real(name);
}

int clock_gettime(clockid_t id, struct timespec *time)
{
	const char *fixed = id == CLOCK_MONOTONIC ? NULL : getenv("REALTIME");
	const char *cost = getenv("COST");
	static long used;

	if (id == CLOCK_PROCESS_CPUTIME_ID) {
		used += cost ? atol(cost) : 0;
		*time = (struct timespec){ used / 1000, used % 1000 * 1000000 };
		return 0;
	}
	if (id != CLOCK_MONOTONIC && !fixed)
		return syscall(SYS_clock_gettime, id, time);
	*time = monotonic;
	if (fixed)
		time->tv_sec += (id == CLOCK_REALTIME ? atol(fixed) : 0) - BEGIN;
	return 0;
}

int fdatasync(int fd)
{
	const char *syncs = getenv("SYNCS");
	FILE *file = fopen(syncs ? syncs : "/dev/null", "ae");
	static int failed;

	(void)fd;
	if (!file)
		return failed++ ? 0 : -1;
	fprintf(file, "%ld\n", (long)monotonic.tv_sec - BEGIN);
	return fclose(file);
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *end, struct timespec *left)
{
	const char *stops = getenv("STOPS");
	static int slept;

	(void)left;
	if (id != CLOCK_MONOTONIC || flags != TIMER_ABSTIME)
		abort();
	if (slept++ < (stops ? atoi(stops) : 1))
		raise(SIGSTOP);
	if (end->tv_sec > monotonic.tv_sec ||
	    (end->tv_sec == monotonic.tv_sec && end->tv_nsec > monotonic.tv_nsec))
		monotonic = *end;
	/* A sleep ends after its time, never before. */
	if (++monotonic.tv_nsec >= 1000000000) {
		monotonic.tv_nsec -= 1000000000;
		monotonic.tv_sec++;
	}
	return 0;
}
