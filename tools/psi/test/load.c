// SPDX-License-Identifier: GPL-2.0
/*
 * Loads whose stall is known, for test/live.
 *
 *	load spin SECONDS		keep a CPU busy until so much time has passed
 *	load fifo SECONDS		the same, as a real-time task
 *	load total FILE			print the first total of a pressure file in us, just after
 *					it grew, and the time in s; no load keeps that up
 *	load read DEVICE COUNT		read blocks, one after the other; print how long that took
 *	load touch MB SECONDS		write to all pages of so much memory, again and again
 *	load beat MB			work for 2 ms each 20 ms on so much memory, until SIGTERM;
 *					print how many turns there were, how many of them were
 *					over 10 ms late, and the worst one in ms
 *	load job MB ROUNDS		a job of a build: so much work, with memory that grows
 *	load tick [MS]			work for 50 us so many ms (0) after the begin of each second
 *	load mix WORKERS ROUNDS STEP...	so many processes go together so often through steps:
 *					cpu=MS of CPU time, loop=COUNT (3 instructions each),
 *					read=DEVICE:COUNT blocks, touch=MB, sleep=MS
 *	load namespace COMMAND...	run it in a cgroup namespace of its own
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
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

static void become_fifo(int priority)
{
	const struct sched_param first = { .sched_priority = priority };

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		err(1, "sched_setscheduler");
}

static void fifo(double end)
{
	become_fifo(1);
	spin(end);
}

static unsigned long long read_total(const char *path)
{
	char text[256];
	int fd = open(path, O_RDONLY);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	const char *total;

	if (length < 0)
		err(1, "%s", path);
	close(fd);
	text[length] = 0;
	total = strstr(text, "total=");
	if (!total)
		errx(1, "%s: no total", path);
	return strtoull(total + strlen("total="), NULL, 10);
}

/* Some kernels add up every two seconds.  The total and the time belong together. */
static void print_total(const char *path)
{
	unsigned long long was, total;

	become_fifo(2);
	was = read_total(path);
	do {
		usleep(10000);
		total = read_total(path);
	} while (total == was);
	printf("%llu %.6f\n", total, now());
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

static volatile sig_atomic_t over;

static void end(int unused)
{
	(void)unused;
	over = 1;
}

static void beat(size_t size)
{
	const double period = 0.02, work = 0.002, bound = 0.01;
	char *memory = calloc(1, size);
	double due = now(), worst = 0;
	int count = 0, late = 0;

	if (!memory)
		err(1, "calloc");
	signal(SIGTERM, end);
	for (; !over; count++) {
		struct timespec time;
		double delay;

		due += period;
		time = (struct timespec){ due, (due - (time_t)due) * 1e9 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
		/* A part of the memory in each turn, so that all of it is in use. */
		for (size_t i = 0; i < size / 8; i += BLOCK)
			memory[(count % 8) * (size / 8) + i]++;
		spin(now() + work);
		delay = now() - due - work;
		late += delay > bound;
		worst = delay > worst ? delay : worst;
		if (delay > period)
			due = now();
	}
	printf("%d %d %.0f\n", count, late, worst * 1e3);
}

/* As a compiler: memory grows until half of the work is done, and all of it is in use. */
static void job(size_t size, unsigned int rounds)
{
	size_t pages = size / BLOCK, next = 0;
	/* Nobody reads it: a compiler would leave out what is not volatile. */
	volatile char *memory = malloc(size);
	volatile unsigned int work;

	if (!memory)
		err(1, "malloc");
	for (unsigned int round = 0; round < rounds; round++) {
		size_t in_use = round < rounds / 2 ? 2 * pages * (round + 1) / rounds : pages;

		for (unsigned int i = 0; i <= 2 * pages / rounds + 64; i++)
			memory[next++ % (in_use ? in_use : 1) * BLOCK]++;
		for (work = 0; work < 20000; work++)
			;
	}
}

static void tick(long ms)
{
	for (;;) {
		struct timespec time = { (time_t)now() + 1, ms * 1000000 };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
		spin(now() + 0.00005);
	}
}

static double cpu_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void read_some(char *where)
{
	int count = atoi(strchr(where, ':') + 1), fd;
	char *path = strndup(where, strcspn(where, ":"));
	static void *block;

	fd = open(path, O_RDONLY | O_DIRECT);
	if (fd < 0 || (!block && posix_memalign(&block, BLOCK, BLOCK)))
		err(1, "%s", path);
	for (int i = 0; i < count; i++)
		if (pread(fd, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
			err(1, "%s: block %d", path, i);
	close(fd);
	free(path);
}

static void touch_once(size_t size)
{
	static char *memory;

	memory = memory ?: malloc(size);
	for (size_t i = 0; i < size; i += BLOCK)
		((volatile char *)memory)[i]++;
}

/*
 * Virtual CPUs that take turns hand theirs over in a pause.  What one round of
 * steps was late, the next one is not.
 */
static void use_cpu(double seconds)
{
	static double end;

	for (end += seconds; cpu_time() < end;)
#if defined(__i386__) || defined(__x86_64__)
		__builtin_ia32_pause();
#else
		;
#endif
}

static void step(const char *name, char *value)
{
	double amount = atof(value);

	if (!strcmp(name, "cpu"))
		use_cpu(amount / 1e3);
	else if (!strcmp(name, "loop"))
		for (long i = amount; i; i--)
			asm volatile("");
	else if (!strcmp(name, "read"))
		read_some(value);
	else if (!strcmp(name, "touch"))
		touch_once(atoi(value) << 20);
	else if (!strcmp(name, "sleep"))
		usleep(amount * 1e3);
	else
		errx(2, "%s?", name);
}

static void mix(int workers, long rounds, char **steps)
{
	long *left = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (left == MAP_FAILED)
		err(1, "mmap");
	*left = rounds;
	for (int i = 0; i < workers; i++) {
		if (fork())
			continue;
		while (__atomic_fetch_sub(left, 1, __ATOMIC_RELAXED) > 0)
			for (char **word = steps; *word; word++) {
				size_t length = strcspn(*word, "=");
				char *name = strndup(*word, length);

				step(name, *word + length + 1);
				free(name);
			}
		exit(0);
	}
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "spin"))
		spin(now() + atof(argv[2]));
	else if (argc == 3 && !strcmp(argv[1], "fifo"))
		fifo(now() + atof(argv[2]));
	else if (argc == 3 && !strcmp(argv[1], "total"))
		print_total(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "read"))
		read_blocks(argv[2], atoi(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "touch"))
		touch(strtoul(argv[2], NULL, 10) << 20, now() + atof(argv[3]));
	else if (argc == 3 && !strcmp(argv[1], "beat"))
		beat(strtoul(argv[2], NULL, 10) << 20);
	else if (argc == 4 && !strcmp(argv[1], "job"))
		job(strtoul(argv[2], NULL, 10) << 20, atoi(argv[3]));
	else if ((argc == 2 || argc == 3) && !strcmp(argv[1], "tick"))
		tick(argc > 2 ? atol(argv[2]) : 0);
	else if (argc > 4 && !strcmp(argv[1], "mix"))
		mix(atoi(argv[2]), atol(argv[3]), argv + 4);
	else if (argc > 2 && !strcmp(argv[1], "namespace"))
		err(1, "%s", unshare(CLONE_NEWCGROUP) || execvp(argv[2], argv + 2) ? argv[2] : "");
	else
		errx(2, "usage: load spin SECONDS | fifo SECONDS | total FILE | "
			"read DEVICE COUNT | touch MB SECONDS | beat MB | job MB ROUNDS | tick [MS] | "
			"mix WORKERS ROUNDS STEP... | namespace COMMAND...");
	return 0;
}
