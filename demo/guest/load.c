// SPDX-License-Identifier: GPL-2.0
/*
 * Spinning, reading, and how a load knows its answer.
 *
 * Two clocks are enough: the wall clock, and the time this process spent on a
 * CPU. Around an operation that may stall, wall time is the most that the
 * stall can have lasted; wall time minus CPU time, the time asleep, is the
 * least. The truth lies between: a reclaiming process stalls while it runs, a
 * reading one runs for a moment before it sleeps.
 *
 * Of the pages of a working set the kernel's own count is needed besides: a wait
 * for one that it did not know is no stall (set.c).
 *
 * The pressure files are not consulted here.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

uint64_t now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void sleep_until(uint64_t t)
{
	struct timespec ts = { t / SEC, t % SEC };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

uint64_t cpu_time(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* xorshift64: the same addresses in every run. */
static uint64_t draw(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/*
 * In virtual time the CPUs of the machine take turns, and a pause ends a turn.
 * Without it one CPU would stand still while the other calculates for a whole
 * tick; on real hardware it costs nothing.
 */
void calculate(unsigned long rounds)
{
	volatile unsigned long sink = 0;

	for (; rounds; rounds--) {
		sink += rounds;
		if (rounds % 256 == 0)
			__builtin_ia32_pause();
	}
}

void spin(struct account *own, uint64_t until)
{
	do
		calculate(256);
	while ((own->end = now()) < until);
}

/*
 * O_DIRECT: each read goes to the disk. Until `company` the readers have the
 * machine for themselves; the director then starts background work beside them.
 */
void read_disk(struct account *own, const char *device, uint64_t company,
	       uint64_t until)
{
	uint64_t seed = 88172645463325252ull + own->cpu;
	uint64_t size, begun, run;
	void *buffer;
	int fd;

	fd = open(device, O_RDONLY | O_DIRECT);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) || size < PAGE)
		err(1, "%s", device);
	if (posix_memalign(&buffer, PAGE, PAGE))
		errx(1, "no memory for a buffer");

	do {
		begun = now();
		run = cpu_time();
		if (pread(fd, buffer, PAGE, draw(&seed) % (size / PAGE) * PAGE) != (ssize_t)PAGE)
			err(1, "read %s", device);
		run = cpu_time() - run;
		own->end = now();

		own->inside += own->end - begun;
		own->inside_run += run;
		if (begun < company) {
			own->alone += (own->end < company ? own->end : company) - begun;
			own->alone_run += run;
		}
	} while (own->end < until);
}
