// SPDX-License-Identifier: GPL-2.0
/* Loads: see psi_load.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "psi_util.h"

/* ---- Children ---- */

pid_t fork_or_die(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		psi_die("fork: %s", strerror(errno));
	return pid;
}

int reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		psi_die("waitpid %d: %s", pid, strerror(errno));
	return status;
}

int reap_exit(pid_t pid)
{
	int status = reap(pid);

	if (!WIFEXITED(status))
		psi_die("a child died: wait status %#x", status);
	return WEXITSTATUS(status);
}

static void load_child(const struct load *load, int ready)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		psi_die("prctl: %s", strerror(errno));
	if (getppid() == 1)
		_exit(KSFT_FAIL);
	if (load->cgroup)
		cgroup_write(load->cgroup, "cgroup.procs", "0");
	if (load->cpu >= 0)
		pin_to(load->cpu);
	set_policy(0, load->policy, load->prio);
	if (write(ready, "", 1) != 1)
		psi_die("load: %s", strerror(errno));
	close(ready);
	load->fn(load->arg);
	_exit(KSFT_PASS);
}

pid_t load_start(const struct load *load)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe2(ready, O_CLOEXEC))
		psi_die("pipe: %s", strerror(errno));
	pid = fork_or_die();
	if (!pid) {
		close(ready[0]);
		load_child(load, ready[1]);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		psi_die("a load failed to start");
	close(ready[0]);
	return pid;
}

void load_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	reap(pid);
}

void load_wait(pid_t pid)
{
	int status = reap(pid);

	if (status)
		psi_die("a load failed: wait status %#x", status);
}

/* ---- Spinners ---- */

void spin(void *arg)
{
	for (;;)
		asm volatile("" ::: "memory");
}

pid_t spin_on(int cpu)
{
	const struct load load = { .cpu = cpu, .fn = spin };

	return load_start(&load);
}

pid_t spin_idle_on(int cpu)
{
	const struct load load = { .cpu = cpu, .policy = SCHED_IDLE, .fn = spin };

	return load_start(&load);
}

void spin_pair_start(pid_t pid[2], const char *cgroup)
{
	const struct load load = { .cgroup = cgroup, .fn = spin };

	for (int i = 0; i < 2; i++)
		pid[i] = load_start(&load);
}

void spin_pair_stop(const pid_t pid[2])
{
	for (int i = 0; i < 2; i++)
		load_stop(pid[i]);
}

void spin_for(void *ns)
{
	spin_until(now_ns() + *(__u64 *)ns);
}

/* ---- Loads that read a file, or wake each other ---- */

void poll_file(void *arg)
{
	struct poller *poller = arg;
	int fd = open_file(poller->path, O_RDONLY);
	__u64 next = now_ns();
	char buf[512];

	while (!poller->end || now_ns() < poller->end) {
		if (pread(fd, buf, sizeof(buf), 0) <= 0)
			psi_die("%s: %s", poller->path, strerror(errno));
		poller->reads++;
		next += poller->period;
		if (next < now_ns())
			next = now_ns();
		sleep_until(next);
	}
}

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

/* ---- A reader that measures itself ---- */

#define READ_SPAN	(32 << 20)

/* Each block is far from the last one, so nothing is read ahead. The test may change @end. */
static void read_until(const struct reader *reader, int fd, void *buf, const __u64 *end)
{
	static off_t pos;

	while (now_ns() < __atomic_load_n(end, __ATOMIC_RELAXED)) {
		if (pread(fd, buf, BLOCK, pos) != BLOCK)
			psi_die("%s: %s", reader->node, strerror(errno));
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

/* ---- Loads with a timetable ---- */

void spin_span(void *arg)
{
	const struct span *span = arg;

	sleep_until(span->begin);
	spin_until(span->end);
	sleep_forever();
}

void read_span(void *arg)
{
	struct sleeper *sleeper = arg;
	void *buf;
	int fd = open_blocks(sleeper->node, O_DIRECT, &buf);

	sleep_until(sleeper->span.begin);
	/* At least once: its wait for the CPU may outlast its span. */
	do {
		if (pread(fd, buf, BLOCK, 0) != BLOCK)
			psi_die("%s: %s", sleeper->node, strerror(errno));
		sleeper->ended = now_ns();
	} while (now_ns() < sleeper->span.end);
	sleep_forever();
}

__u64 sleeper_asleep_ns(const struct sleeper *sleeper, pid_t pid, __u64 awake_before)
{
	return sleeper->ended - sleeper->span.begin - (task_awake_ns(pid) - awake_before);
}

void take_memory(void *arg)
{
	struct throttled *task = arg;
	char *mem = private_memory(task->size);

	sleep_until(task->begin);
	for (size_t pos = 0; pos < task->size && !task->stall_end; pos += BLOCK) {
		__u64 start = now_ns();

		task->stall_begin = start;
		mem[pos] = 1;
		asm volatile("" ::: "memory");
		if (now_ns() - start > NSEC_PER_SEC)
			task->stall_end = now_ns();
	}
	sleep_forever();
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
