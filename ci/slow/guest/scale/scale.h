/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of ci/slow/scale have in common
 */
#ifndef SCALE_H
#define SCALE_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "psi_leak.h"
#include "psi_trigger.h"

#define TOP		CGROUP_ROOT "/scale"
#define PERIOD		(2 * NSEC_PER_SEC)

/* Begins a test, with the number that it is called with. */
static inline int scale_begin(int argc, char **argv, int tests, int least, int most)
{
	int nr = argc > 1 ? atoi(argv[1]) : 0;

	if (nr < least || nr > most)
		psi_die("usage: %s NUMBER, from %d to %d", argv[0], least, most);
	ksft_print_header();
	ksft_set_plan(tests);
	return nr;
}

/* A cgroup by its number, or a file of it; of eight calls each has a text of its own. */
static inline const char *path_of(int nr, const char *file)
{
	static char path[8][96];
	static int at;

	at = (at + 1) % ARRAY_SIZE(path);
	snprintf(path[at], sizeof(path[at]), TOP "/%d%s%s", nr, *file ? "/" : "", file);
	return path[at];
}

static inline void group_make(int nr)
{
	if (mkdir(path_of(nr, ""), 0755))
		psi_die("%s: %s", path_of(nr, ""), strerror(errno));
}

/* fork() with the child in this cgroup. */
static inline pid_t group_fork(int nr)
{
	pid_t pid;

	fflush(stdout);
	pid = cgroup_fork(path_of(nr, ""));
	if (pid < 0)
		psi_die("%s: clone3: %s", path_of(nr, ""), strerror(errno));
	return pid;
}

/* How often an expectation failed: the first few say why. */
static int wrong;

static inline void __printf(2, 3) expect(bool right, const char *fmt, ...)
{
	va_list args;

	if (right || wrong++ >= 10)
		return;
	printf("# ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
}

/* The same of a check of psi_leak.h. */
static inline void expect_none(const char *found)
{
	expect(!found, "%s", found);
}

/* A test passes if all was right since the last one. */
static inline void test_result(const char *sentence)
{
	if (wrong > 10)
		ksft_print_msg("and so on: %d\n", wrong);
	ksft_test_result(!wrong, "%s\n", sentence);
	wrong = 0;
}

/*
 * No total of the first @nr cgroups grows in @ns, nor any of the system, but for a little wait
 * of the kernel's threads.
 */
static inline void expect_idle(int nr, __u64 ns, __u64 most)
{
	struct pressure *before = private_memory(nr * sizeof(*before));
	struct idle_growth g;

	for (int i = 0; i < nr; i++)
		pressure_read(path_of(i, ""), &before[i]);
	idle_growth_measure(&g, ns);
	for (int i = 0; i < nr; i++) {
		struct pressure p = pressure_since(path_of(i, ""), &before[i]);

		for (int r = 0; r < NR_RESOURCES; r++)
			expect(!p.some[r] && !p.full[r], "%d: some grew by %llu ns", i, p.some[r]);
	}
	ksft_print_msg("idle for %llu s: the system's cpu some grew by %.6f s, io by %.6f s, memory by %.6f s\n",
		       ns / NSEC_PER_SEC, g.cpu / 1e9, g.io / 1e9, g.memory / 1e9);
	expect(!g.io && !g.memory && g.cpu < most, "the system's totals grow");
}

static inline void test_no_trigger(void)
{
	expect_none(find_trigger());
	test_result("no trigger is left");
}

/* When all is over. */
static inline void test_no_leak(void)
{
	struct slow_disk disk;

	slow_disk_create(&disk, "psi_scale", 5 * NSEC_PER_MSEC, 64);
	expect_none(find_leak(disk.node));
	test_result("a load with a known answer is seen, nothing else");
	slow_disk_remove(&disk);
}

#endif
