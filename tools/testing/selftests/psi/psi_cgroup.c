// SPDX-License-Identifier: GPL-2.0
/* Trees of cgroups, and loads that run by the clock: see psi_cgroup.h. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "psi_cgroup.h"

#define BLOCK		4096
#define PATH_SIZE	512

/* ---- Trees ---- */

static int remove_directory(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (type == FTW_DP && rmdir(path) && errno != ENOENT)
		psi_die("%s: %s", path, strerror(errno));
	return 0;
}

static bool has_tasks(const char *path)
{
	char name[PATH_SIZE], buf[256];

	snprintf(name, sizeof(name), "%s/cgroup.events", path);
	if (read_file(name, buf, sizeof(buf)) < 0)
		psi_die("%s: %s", name, strerror(errno));
	return strstr(buf, "populated 1");
}

void cgroup_tree_remove(const char *path)
{
	cgroup_write(path, "cgroup.kill", "1");
	while (has_tasks(path))
		sleep_for(NSEC_PER_MSEC);
	nftw(path, remove_directory, 16, FTW_DEPTH | FTW_PHYS);
}

void cgroup_make(const char *path)
{
	if (!access(path, F_OK))
		cgroup_tree_remove(path);
	if (mkdir(path, 0755))
		psi_die("%s: %s", path, strerror(errno));
}

void cgroup_moves_are_fast(void)
{
	if (mount(NULL, CGROUP_ROOT, NULL, MS_REMOUNT, "favordynmods"))
		psi_die("favordynmods: %s", strerror(errno));
}

void cgroup_move(const char *path, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	cgroup_write(path, "cgroup.procs", text);
}

pid_t cgroup_fork(const char *path)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;

	if (dir < 0)
		return -1;
	args.cgroup = dir;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	close(dir);
	return pid;
}

int cgroup_try_write(const char *path, const char *file, const char *text)
{
	ssize_t len = strlen(text);
	char name[PATH_SIZE];
	int fd, error = 0;

	snprintf(name, sizeof(name), "%s/%s", path, file);
	fd = open(name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (write(fd, text, len) != len)
		error = errno;
	close(fd);
	return error;
}

bool cgroup_has(const char *path, const char *file)
{
	char name[PATH_SIZE];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	return !access(name, F_OK);
}

/* ---- Pressure of a cgroup ---- */

void cgroup_psi_read(const char *path, const char *file, struct psi *psi)
{
	char name[PATH_SIZE];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	psi_read(name, psi);
}

void pressure_read(const char *path, struct pressure *p)
{
	static const char * const names[NR_RESOURCES] = { "cpu", "memory", "io" };
	char name[PATH_SIZE];
	struct psi psi;

	for (int i = 0; i < NR_RESOURCES; i++) {
		if (path)
			snprintf(name, sizeof(name), "%s/%s.pressure", path, names[i]);
		else
			snprintf(name, sizeof(name), PSI_DIR "/%s", names[i]);
		psi_read(name, &psi);
		p->some[i] = psi.some.total * NSEC_PER_USEC;
		p->full[i] = psi.full.total * NSEC_PER_USEC;
	}
}

struct pressure pressure_since(const char *path, const struct pressure *before)
{
	struct pressure p;

	pressure_read(path, &p);
	for (int i = 0; i < NR_RESOURCES; i++) {
		p.some[i] -= before->some[i];
		p.full[i] -= before->full[i];
	}
	return p;
}

/* ---- Loads that run by the clock ---- */

static void __noreturn sleep_for_good(void)
{
	for (;;)
		pause();
}

void spin_span(void *arg)
{
	const struct span *span = arg;

	sleep_until(span->begin);
	spin_until(span->end);
	sleep_for_good();
}

void read_span(void *arg)
{
	struct sleeper *sleeper = arg;
	void *buf = aligned_alloc(BLOCK, BLOCK);
	int fd;

	fd = open(sleeper->node, O_RDONLY | O_CLOEXEC | O_DIRECT);
	if (!buf || fd < 0)
		psi_die("%s: %s", sleeper->node, strerror(errno));
	sleep_until(sleeper->span.begin);
	/* At least once: it may have to wait for the CPU longer than for the end of its span. */
	do {
		if (pread(fd, buf, BLOCK, 0) != BLOCK)
			psi_die("%s: %s", sleeper->node, strerror(errno));
		sleeper->ended = now_ns();
	} while (now_ns() < sleeper->span.end);
	sleep_for_good();
}

void take_memory(void *arg)
{
	struct held_back *held = arg;
	char *mem;

	mem = mmap(NULL, held->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
	sleep_until(held->begin);
	for (size_t pos = 0; pos < held->size && !held->stall_end; pos += BLOCK) {
		__u64 start = now_ns();

		held->stall_begin = start;
		mem[pos] = 1;
		asm volatile("" ::: "memory");
		if (now_ns() - start > NSEC_PER_SEC)
			held->stall_end = now_ns();
	}
	sleep_for_good();
}

#define WORKING_SET	(5UL << 20)

/* In random order some pages come back soon after they were evicted. */
void thrash(void *arg)
{
	const struct thrasher *t = arg;
	__u32 state = 2463534242U;
	char byte;
	int fd;

	fd = open(t->node, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		psi_die("%s: %s", t->node, strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	sleep_until(t->span.begin);
	while (now_ns() < t->span.end) {
		state = state * 1664525 + 1013904223;
		if (pread(fd, &byte, 1, (state >> 8) % (WORKING_SET / BLOCK) * BLOCK) != 1)
			psi_die("%s: %s", t->node, strerror(errno));
	}
	sleep_for_good();
}

__u64 task_awake_ns(pid_t pid)
{
	struct task_clock tc;

	task_clock_read(pid, &tc);
	return tc.run + tc.irq + tc.wait;
}

__u64 sleeper_asleep_ns(const struct sleeper *sleeper, pid_t pid, __u64 awake_before)
{
	return sleeper->ended - sleeper->span.begin - (task_awake_ns(pid) - awake_before);
}
