// SPDX-License-Identifier: GPL-2.0
/* Errors, time, memory and files: see psi_util.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "psi_util.h"

void psi_die(const char *fmt, ...)
{
	va_list args;

	fputs("# ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	_exit(KSFT_FAIL);
}

void report_row(const char *row, const char *fmt, ...)
{
	va_list args;

	printf("# row: %s: ", row);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

/* ---- Time ---- */

__u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

void sleep_until(__u64 ns)
{
	struct timespec ts = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

void sleep_for(__u64 ns)
{
	sleep_until(now_ns() + ns);
}

void spin_until(__u64 ns)
{
	while (now_ns() < ns)
		;
}

void sleep_forever(void)
{
	for (;;)
		pause();
}

/* ---- Memory ---- */

static void *map_memory(size_t size, int flags)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
	return mem;
}

void *shared_memory(size_t size)
{
	return map_memory(size, MAP_SHARED);
}

void *private_memory(size_t size)
{
	return map_memory(size, MAP_PRIVATE);
}

__u64 random_u64(__u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* ---- Files ---- */

int open_file(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		psi_die("%s: %s", path, strerror(errno));
	return fd;
}

int open_blocks(const char *path, int flags, void **buf)
{
	*buf = aligned_alloc(BLOCK, BLOCK);
	if (!*buf)
		psi_die("no memory");
	return open_file(path, O_RDONLY | flags);
}

void write_file(const char *path, const char *text)
{
	int fd = open_file(path, O_WRONLY);
	ssize_t len = strlen(text);

	if (write(fd, text, len) != len)
		psi_die("%s: cannot write \"%s\": %s", path, text, strerror(errno));
	close(fd);
}

ssize_t read_file(const char *path, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t got;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while ((got = read(fd, buf + len, size - 1 - len)) > 0)
		len += got;
	close(fd);
	if (got < 0)
		return -1;
	buf[len] = '\0';
	return len;
}

size_t read_text(const char *path, char *buf, size_t size)
{
	ssize_t len = read_file(path, buf, size);

	if (len <= 0)
		psi_die("%s: %s", path, len ? strerror(errno) : "it is empty");
	return len;
}

unsigned long long file_number(const char *path, const char *key)
{
	unsigned long long value;
	char buf[16384], *at;

	read_text(path, buf, sizeof(buf));
	at = strstr(buf, key);
	if (!at || sscanf(at + strlen(key), " %llu", &value) != 1)
		psi_die("%s: no number after \"%s\"", path, key);
	return value;
}
