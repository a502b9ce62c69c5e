// SPDX-License-Identifier: GPL-2.0
/* Loads that measure themselves, wake each other, or lack memory: see psi_work.h. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "psi_work.h"

__u64 psi_full_ns(const char *path)
{
	struct psi psi;

	psi_read(path, &psi);
	return psi.full.total * NSEC_PER_USEC;
}

pid_t spin_idle_on(int cpu)
{
	const struct load load = { .cpu = cpu, .policy = SCHED_IDLE, .fn = spin };

	return load_start(&load);
}

/* ---- Tasks that sleep ---- */

#define PATIENCE	(20 * NSEC_PER_SEC)

/* Of a task by its directory in /proc. Who is gone has slept. */
static void await_sleep_at(const char *dir)
{
	__u64 end = now_ns() + PATIENCE;
	char path[64], buf[1024], *at;

	snprintf(path, sizeof(path), "%s/stat", dir);
	while (read_file(path, buf, sizeof(buf)) > 0) {
		at = strrchr(buf, ')');
		if (at && (at[2] == 'S' || at[2] == 'D'))
			break;
		if (now_ns() > end)
			psi_die("it does not sleep: %s", buf);
		sleep_for(NSEC_PER_MSEC);
	}
}

void await_sleep(pid_t pid)
{
	char dir[32];

	snprintf(dir, sizeof(dir), "/proc/%d", pid);
	await_sleep_at(dir);
}

void await_sleep_of_threads(void)
{
	glob_t found;

	if (glob("/proc/self/task/*", GLOB_NOSORT, NULL, &found))
		psi_die("/proc: no threads");
	for (size_t i = 0; i < found.gl_pathc; i++)
		if (atoi(found.gl_pathv[i] + strlen("/proc/self/task/")) != gettid())
			await_sleep_at(found.gl_pathv[i]);
	globfree(&found);
}

/* ---- Loads that wake each other ---- */

void ping_pong_create(struct ping_pong *pp)
{
	for (int i = 0; i < 2; i++)
		if (pipe2(pp->pipes[i], O_CLOEXEC))
			psi_die("pipe: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		pp->ends[i][0] = pp->pipes[i][0];
		pp->ends[i][1] = pp->pipes[!i][1];
	}
}

void ping_pong_forever(void *arg)
{
	int *fd = arg;
	char byte;

	while (read(fd[0], &byte, 1) == 1)
		if (write(fd[1], &byte, 1) != 1)
			break;
}

void ping_pong_begin(const struct ping_pong *pp, int nr)
{
	while (nr--)
		if (write(pp->pipes[0][1], "", 1) != 1)
			psi_die("pipe: %s", strerror(errno));
}

void ping_pong_remove(const struct ping_pong *pp)
{
	for (int i = 0; i < 2; i++) {
		close(pp->pipes[i][0]);
		close(pp->pipes[i][1]);
	}
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

/* ---- A reader that measures itself ---- */

#define READ_SPAN	(32 << 20)

/* Each block is far from the last one, so nothing is read ahead. The test may change @end. */
static void read_until(const struct reader *reader, int fd, void *buf, const __u64 *end)
{
	static off_t pos;

	while (now_ns() < __atomic_load_n(end, __ATOMIC_RELAXED)) {
		if (pread(fd, buf, BLOCK, pos) != BLOCK)
			psi_die("%s: %s", reader->node, strerror(errno));
		if (reader->nap)
			sleep_for(reader->nap);
		pos = (pos + 16 * BLOCK) % READ_SPAN;
	}
}

void read_blocks(void *arg)
{
	struct reader *reader = arg;
	struct psi before, after;
	__u64 start, awake;
	void *buf;
	int fd;

	fd = open_blocks(reader->node, reader->flags, &buf);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	read_until(reader, fd, buf, &reader->begin);
	/* taskstats may sleep for a mutex: keep that out of the interval. */
	awake = task_awake_ns(getpid());
	start = now_ns();
	psi_read(PSI_IO, &before);
	read_until(reader, fd, buf, &reader->end);
	psi_read(PSI_IO, &after);
	reader->elapsed = now_ns() - start;
	reader->asleep = reader->elapsed - (task_awake_ns(getpid()) - awake);
	reader->some = (after.some.total - before.some.total) * NSEC_PER_USEC;
	reader->full = (after.full.total - before.full.total) * NSEC_PER_USEC;
}

pid_t reader_start(struct reader *reader, int cpu)
{
	const struct load load = { .cpu = cpu, .fn = read_blocks, .arg = reader };

	return load_start(&load);
}

__u64 sleeper_asleep_ns(const struct sleeper *sleeper, pid_t pid, __u64 awake_before)
{
	return sleeper->ended - sleeper->span.begin - (task_awake_ns(pid) - awake_before);
}

#define WORKING_SET	(5UL << 20)

/**
 * struct locker - a load that locks memory
 * @room: what it leaves, in bytes
 * @locked: it is done
 */
struct locker {
	unsigned long room;
	bool locked;
};

static void lock_memory(void *arg)
{
	unsigned long available = file_number("/proc/meminfo", "MemAvailable:") << 10;
	struct locker *locker = arg;

	if (available > locker->room &&
	    mlock(private_memory(available - locker->room), available - locker->room))
		psi_die("mlock: %s", strerror(errno));
	__atomic_store_n(&locker->locked, true, __ATOMIC_RELEASE);
	sleep_forever();
}

pid_t memory_take(unsigned long room)
{
	struct locker *locker = shared_memory(sizeof(*locker));
	const struct load load = { .cpu = 0, .fn = lock_memory, .arg = locker };
	pid_t pid;

	locker->room = room;
	pid = load_start(&load);
	while (!__atomic_load_n(&locker->locked, __ATOMIC_ACQUIRE)) {
		if (waitpid(pid, NULL, WNOHANG))
			psi_die("memory cannot be locked");
		sleep_for(10 * NSEC_PER_MSEC);
	}
	munmap(locker, sizeof(*locker));
	return pid;
}

/* In random order, some pages come back soon after the kernel evicted them. */
void thrash(void *arg)
{
	const struct thrasher *t = arg;
	__u32 state = 2463534242U;
	char byte;
	int fd;

	fd = open_file(t->node, O_RDONLY);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	sleep_until(t->span.begin);
	while (now_ns() < t->span.end) {
		state = state * 1664525 + 1013904223;
		if (pread(fd, &byte, 1, (state >> 8) % (WORKING_SET / BLOCK) * BLOCK) != 1)
			psi_die("%s: %s", t->node, strerror(errno));
	}
	sleep_forever();
}
