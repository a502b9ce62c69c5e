// SPDX-License-Identifier: GPL-2.0
/*
 * Loads whose stall is known, for test/live.
 *
 *	load spin SECONDS		keep a CPU busy until so much time has passed
 *	load read DEVICE COUNT		read blocks, one after the other; print how long that took
 *	load touch MB SECONDS		write to all pages of so much memory, again and again
 *	load namespace COMMAND...	run it in a cgroup namespace of its own
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BLOCK	4096

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void spin(double end)
{
	while (now() < end)
		;
}

static void read_blocks(const char *path, int count)
{
	int fd = open(path, O_RDONLY | O_DIRECT);
	double begin = now();
	void *block;

	if (fd < 0 || posix_memalign(&block, BLOCK, BLOCK))
		err(1, "%s", path);
	for (int i = 0; i < count; i++)
		if (pread(fd, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
			err(1, "%s: block %d", path, i);
	printf("%.6f\n", now() - begin);
}

static void touch(size_t size, double end)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		err(1, "mmap");
	while (now() < end)
		for (size_t i = 0; i < size && now() < end; i += BLOCK)
			memory[i]++;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "spin"))
		spin(now() + atof(argv[2]));
	else if (argc == 4 && !strcmp(argv[1], "read"))
		read_blocks(argv[2], atoi(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "touch"))
		touch(strtoul(argv[2], NULL, 10) << 20, now() + atof(argv[3]));
	else if (argc > 2 && !strcmp(argv[1], "namespace"))
		err(1, "%s", unshare(CLONE_NEWCGROUP) || execvp(argv[2], argv + 2) ? argv[2] : "");
	else
		errx(2, "usage: load spin SECONDS | read DEVICE COUNT | touch MB SECONDS | "
			"namespace COMMAND...");
	return 0;
}
