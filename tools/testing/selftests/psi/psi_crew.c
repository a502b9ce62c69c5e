// SPDX-License-Identifier: GPL-2.0
/* What storms share: see psi_crew.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "psi_crew.h"
#include "psi_delays.h"

unsigned int storm_chance(unsigned int limit)
{
	static __u32 state;
	static pid_t owner;

	if (owner != getpid()) {
		owner = getpid();
		state = 2463534242U + 2654435761U * owner;
	}
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % limit;
}

/* ---- Events ---- */

/* Of all storms, and of the one that this process belongs to. */
static unsigned long *events, *own_events;

void storm_set_up(struct slow_disk *disk, const char *name)
{
	cpus_use(cpus_possible());
	task_delays_on();
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(disk, name, 5 * NSEC_PER_MSEC, 64);
	events = shared_memory(sizeof(*events));
}

unsigned long storm_events(void)
{
	return __atomic_load_n(events, __ATOMIC_RELAXED);
}

void storm_count(void)
{
	if (events)
		__atomic_fetch_add(events, 1, __ATOMIC_RELAXED);
	if (own_events)
		__atomic_fetch_add(own_events, 1, __ATOMIC_RELAXED);
}

void storm_count_in(unsigned long *own)
{
	own_events = own;
}

bool storm_over(struct storm *storm)
{
	if (!storm->end)
		storm->end = now_ns() + storm->time;
	else if (now_ns() >= storm->end)
		return true;
	storm_count();
	return false;
}

/* ---- A crew ---- */

void crew_start(struct crew *crew, const struct load *load)
{
	for (int i = 0; i < CREW; i++)
		crew->pid[i] = load_start(load);
}

void crew_stop(struct crew *crew)
{
	for (int i = 0; i < CREW; i++)
		load_stop(crew->pid[i]);
}

pid_t crew_any(const struct crew *crew)
{
	return crew->pid[storm_chance(CREW)];
}

void crew_replace(struct crew *crew, int nr, const struct load *load)
{
	load_stop(crew->pid[nr]);
	crew->pid[nr] = load_start(load);
}

/* ---- CPUs ---- */

static bool moves_overlap;

void storm_moves_overlap(void)
{
	moves_overlap = true;
}

/* Returns a descriptor that holds the lock, or -1 where none is needed. */
static int cpus_lock(int how)
{
	static const char path[] = "/sys/devices/system/cpu/online";
	int fd;

	if (moves_overlap || !kernel_is_preempt_rt())
		return -1;
	fd = open_file(path, O_RDONLY);
	if (flock(fd, how))
		psi_die("%s: %s", path, strerror(errno));
	return fd;
}

static void cpus_unlock(int fd)
{
	if (fd >= 0)
		close(fd);
}

void move_somewhere(pid_t pid)
{
	int cpu = storm_chance(cpus_possible()), lock, error;

	lock = cpus_lock(LOCK_SH);
	error = try_pin(pid, cpu);
	if (error && error != EINVAL)
		psi_die("sched_setaffinity: %s", strerror(error));
	cpus_unlock(lock);
}

void cpu_switch(int cpu, bool on)
{
	int lock = cpus_lock(LOCK_EX);

	cpu_online(cpu, on);
	cpus_unlock(lock);
}

/* ---- Cgroups ---- */

bool storm_is_gone(int error)
{
	return error == ENOENT || error == ENODEV || error == ESRCH;
}

const char *group_make(const struct storm *storm, const char *name, const char *controllers)
{
	char *path;

	if (asprintf(&path, "%s/psi_%s", storm->top ?: CGROUP_ROOT, name) < 0)
		psi_die("no memory");
	cgroup_create(path, controllers);
	return path;
}

void groups_make(const struct storm *storm, const char *name, const char *controllers,
		 const char **groups, int nr)
{
	char text[32];

	for (int i = 0; i < nr; i++) {
		snprintf(text, sizeof(text), "%s_%c", name, 'a' + i);
		groups[i] = group_make(storm, text, controllers);
	}
}

void groups_remove(const char * const *groups, int nr)
{
	for (int i = 0; i < nr; i++)
		cgroup_remove(groups[i]);
}

bool group_try(const char *group, const char *file, const char *text)
{
	int error = cgroup_try_write(group, file, text);

	if (error && !storm_is_gone(error))
		psi_die("%s/%s: \"%s\": %s", group, file, text, strerror(error));
	return !error;
}

bool group_move(const char *group, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return group_try(group, "cgroup.procs", text);
}

/* ---- What tasks do ---- */

void read_forever(void *arg)
{
	void *buf;
	int fd = open_blocks(arg, O_DIRECT, &buf);

	while (pread(fd, buf, BLOCK, 0) == BLOCK)
		;
	psi_die("%s: %s", (char *)arg, strerror(errno));
}

pid_t storm_reader(const char *disk)
{
	const struct load load = { .cpu = -1, .fn = read_forever, .arg = (void *)disk };

	return load_start(&load);
}

void nap_forever(void *arg)
{
	for (;;) {
		spin_until(now_ns() + storm_chance(6) * NSEC_PER_MSEC);
		sleep_for(storm_chance(4) * NSEC_PER_MSEC);
	}
}

void fork_forever(void *arg)
{
	for (;;) {
		pid_t pid = storm_chance(2) ? fork() : vfork();

		if (pid < 0)
			psi_die("fork: %s", strerror(errno));
		if (!pid)
			_exit(0);
		reap(pid);
		storm_count();
	}
}

static void *thread_main(void *arg)
{
	spin_until(now_ns() + storm_chance(2) * NSEC_PER_MSEC);
	return arg;
}

static pthread_t thread_start(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_main, NULL))
		psi_die("pthread_create failed");
	return thread;
}

/* It joins every other thread; the rest die with the process. */
void thread_forever(void *arg)
{
	for (;;) {
		pthread_join(thread_start(), NULL);
		pthread_detach(thread_start());
	}
}

/*
 * Reads twice the limit of its cgroup, over and over. With swap, the task
 * would stall and never finish.
 */
void thrash_forever(void *arg)
{
	size_t size = 8 << 20;
	int fd = open_file(arg, O_RDONLY);
	char *mem = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	if (mem == MAP_FAILED)
		psi_die("%s: %s", (char *)arg, strerror(errno));
	for (size_t pos = 0;; pos = (pos + BLOCK) % size)
		asm volatile("" : : "r" (mem[pos]));
}

pid_t storm_task(const char *cgroup, const char *disk)
{
	static void (* const what[])(void *arg) = {
		spin, nap_forever, read_forever, fork_forever, thread_forever, thrash_forever,
	};
	const struct load load = {
		.cpu = -1,
		.cgroup = cgroup,
		.fn = what[storm_chance(ARRAY_SIZE(what))],
		.arg = (void *)disk,
	};

	return load_start(&load);
}
