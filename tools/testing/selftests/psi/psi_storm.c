// SPDX-License-Identifier: GPL-2.0
/* Storms: everything that can happen to a task. See psi_storm.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "psi_storm.h"

#define STEP	(3 * NSEC_PER_MSEC)
#define CREW	6
#define BLOCK	4096

/* ---- Chance: the same in every run, another one in every task ---- */

static unsigned int chance(unsigned int limit)
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

/* ---- A crew: the tasks that a storm plays with ---- */

struct crew {
	pid_t pid[CREW];
};

static void crew_start(struct crew *crew, const struct load *load)
{
	for (int i = 0; i < CREW; i++)
		crew->pid[i] = load_start(load);
}

static void crew_stop(struct crew *crew)
{
	for (int i = 0; i < CREW; i++)
		load_stop(crew->pid[i]);
}

/*
 * Moves a task to some CPU. A CPU that goes offline at that moment is no error: the task
 * stays where it is.
 */
static void move_somewhere(pid_t pid)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(chance(cpus_possible()), &set);
	if (sched_setaffinity(pid, sizeof(set), &set) && errno != EINVAL)
		psi_die("sched_setaffinity: %s", strerror(errno));
}

static unsigned long *events;

void storm_events_begin(void)
{
	events = shared_memory(sizeof(*events));
}

unsigned long storm_events(void)
{
	return __atomic_load_n(events, __ATOMIC_RELAXED);
}

static void count_event(void)
{
	if (events)
		__atomic_fetch_add(events, 1, __ATOMIC_RELAXED);
}

/* Asked before each thing that is done. */
static bool over(const struct storm *storm)
{
	if (now_ns() >= storm->end)
		return true;
	count_event();
	return false;
}

/* ---- What the tasks of a crew do ---- */

static void read_forever(void *arg)
{
	struct reader reader = { .node = arg, .flags = O_DIRECT, .end = ULLONG_MAX };

	read_blocks(&reader);
}

pid_t storm_reader(const char *disk)
{
	const struct load load = { .cpu = -1, .fn = read_forever, .arg = (void *)disk };

	return load_start(&load);
}

/*
 * Runs long enough to owe time to the others, then sleeps: its dequeue is delayed when
 * there is somebody to owe it to.
 */
static void nap_forever(void *arg)
{
	for (;;) {
		spin_until(now_ns() + chance(6) * NSEC_PER_MSEC);
		sleep_for(chance(4) * NSEC_PER_MSEC);
	}
}

/* ---- Storms on single tasks ---- */

void storm_affinity(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = spin };
	struct crew crew;

	crew_start(&crew, &load);
	while (!over(storm)) {
		move_somewhere(crew.pid[chance(CREW)]);
		sleep_for(chance(2) * STEP);
	}
	crew_stop(&crew);
}

/* They are asleep nearly always, so it is the wake-up that takes them along. */
void storm_iowait_affinity(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk };
	struct crew crew;

	crew_start(&crew, &load);
	while (!over(storm)) {
		move_somewhere(crew.pid[chance(CREW)]);
		sleep_for(chance(3) * NSEC_PER_MSEC);
	}
	crew_stop(&crew);
}

/*
 * Not SCHED_DEADLINE: on a host that is late, a throttled deadline task of 6.12 can lose its
 * replenishment timer and is never seen again ("DL replenish lagged too much").
 */
void storm_policy(const struct storm *storm)
{
	static const int policies[] = {
		SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR
	};
	const struct load load = { .cpu = -1, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!over(storm)) {
		pid_t pid = crew.pid[chance(CREW)];

		set_policy(pid, policies[chance(ARRAY_SIZE(policies))], 1 + chance(10));
		sleep_for(chance(2) * STEP);
	}
	crew_stop(&crew);
}

void storm_stop(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!over(storm)) {
		kill(crew.pid[chance(CREW)], SIGSTOP);
		sleep_for(chance(2) * STEP);
		kill(crew.pid[chance(CREW)], SIGCONT);
	}
	crew_stop(&crew);
}

static void ptrace_or_die(int request, pid_t pid)
{
	if (ptrace(request, pid, NULL, NULL))
		psi_die("ptrace: %s", strerror(errno));
}

void storm_ptrace(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!over(storm)) {
		pid_t pid = crew.pid[chance(CREW)];

		ptrace_or_die(PTRACE_SEIZE, pid);
		ptrace_or_die(PTRACE_INTERRUPT, pid);
		if (waitpid(pid, NULL, __WALL) != pid)
			psi_die("waitpid: %s", strerror(errno));
		move_somewhere(pid);
		sleep_for(chance(2) * STEP);
		ptrace_or_die(PTRACE_DETACH, pid);
	}
	crew_stop(&crew);
}

void storm_kill(const struct storm *storm)
{
	const struct load loads[] = {
		{ .cpu = -1, .fn = spin },
		{ .cpu = -1, .fn = nap_forever },
		{ .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk },
	};
	struct crew crew;

	crew_start(&crew, &loads[0]);
	while (!over(storm)) {
		pid_t *pid = &crew.pid[chance(CREW)];

		load_stop(*pid);
		*pid = load_start(&loads[chance(ARRAY_SIZE(loads))]);
	}
	crew_stop(&crew);
}

/* ---- Birth and death ---- */

static void fork_forever(void *arg)
{
	for (;;) {
		pid_t pid = chance(2) ? fork() : vfork();

		if (pid < 0)
			psi_die("fork: %s", strerror(errno));
		if (!pid)
			_exit(0);
		if (waitpid(pid, NULL, 0) != pid)
			psi_die("waitpid: %s", strerror(errno));
		count_event();
	}
}

void storm_fork(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = fork_forever };
	struct crew crew;

	crew_start(&crew, &load);
	sleep_until(storm->end);
	crew_stop(&crew);
}

static void *thread_main(void *arg)
{
	spin_until(now_ns() + chance(2) * NSEC_PER_MSEC);
	return arg;
}

/* Some of the threads are joined, the last ones die with their group. */
static void thread_forever(void *arg)
{
	pthread_t thread;

	for (;;) {
		if (pthread_create(&thread, NULL, thread_main, NULL))
			psi_die("pthread_create failed");
		pthread_join(thread, NULL);
		if (pthread_create(&thread, NULL, thread_main, NULL))
			psi_die("pthread_create failed");
		pthread_detach(thread);
	}
}

void storm_threads(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = thread_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!over(storm)) {
		pid_t *pid = &crew.pid[chance(CREW)];

		sleep_for(STEP);
		load_stop(*pid);
		*pid = load_start(&load);
	}
	crew_stop(&crew);
}

/* ---- Control groups ---- */

#define GROUP_A	"/sys/fs/cgroup/psi_storm_a"
#define GROUP_B	"/sys/fs/cgroup/psi_storm_b"

void storm_freeze(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .cgroup = GROUP_A, .fn = nap_forever };
	struct crew crew;

	cgroup_create(GROUP_A, "+cpu");
	crew_start(&crew, &load);
	while (!over(storm)) {
		cgroup_write(GROUP_A, "cgroup.freeze", "1");
		sleep_for(chance(2) * STEP);
		move_somewhere(crew.pid[chance(CREW)]);
		cgroup_write(GROUP_A, "cgroup.freeze", "0");
		sleep_for(chance(2) * STEP);
	}
	crew_stop(&crew);
	cgroup_remove(GROUP_A);
}

void storm_cgroup_move(const struct storm *storm)
{
	static const char * const groups[] = { GROUP_A, GROUP_B, "/sys/fs/cgroup" };
	const struct load spinner = { .cpu = -1, .fn = nap_forever };
	const struct load reader = { .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk };
	struct crew spinners, readers;
	char text[16];

	cgroup_create(GROUP_A, "+cpu");
	cgroup_create(GROUP_B, "+cpu");
	crew_start(&spinners, &spinner);
	crew_start(&readers, &reader);
	while (!over(storm)) {
		struct crew *crew = chance(2) ? &spinners : &readers;

		snprintf(text, sizeof(text), "%d", crew->pid[chance(CREW)]);
		cgroup_write(groups[chance(ARRAY_SIZE(groups))], "cgroup.procs", text);
		sleep_for(chance(2) * NSEC_PER_MSEC);
	}
	crew_stop(&spinners);
	crew_stop(&readers);
	cgroup_remove(GROUP_A);
	cgroup_remove(GROUP_B);
}

/* Tasks that are taken off the queue with their group, and killed there. */
void storm_cpu_limit(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .cgroup = GROUP_A, .fn = nap_forever };
	struct crew crew;

	cgroup_create(GROUP_A, "+cpu");
	cgroup_write(GROUP_A, "cpu.max", "2000 10000");
	crew_start(&crew, &load);
	while (!over(storm)) {
		pid_t *pid = &crew.pid[chance(CREW)];

		move_somewhere(*pid);
		sleep_for(chance(2) * STEP);
		load_stop(*pid);
		*pid = load_start(&load);
	}
	crew_stop(&crew);
	cgroup_remove(GROUP_A);
}

/* ---- Wake-ups ---- */

void storm_naps(const struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!over(storm)) {
		move_somewhere(crew.pid[chance(CREW)]);
		sleep_for(STEP);
	}
	crew_stop(&crew);
}

/* Each task wakes the other one, on whatever CPU it is. */
static void echo_forever(void *arg)
{
	int *fd = arg;
	char byte;

	while (read(fd[0], &byte, 1) == 1)
		if (write(fd[1], &byte, 1) != 1)
			break;
}

void storm_ping_pong(const struct storm *storm)
{
	int there[2], back[2];
	int ends[2][2];
	pid_t pid[2];

	if (pipe(there) || pipe(back))
		psi_die("pipe: %s", strerror(errno));
	ends[0][0] = there[0];
	ends[0][1] = back[1];
	ends[1][0] = back[0];
	ends[1][1] = there[1];
	for (int i = 0; i < 2; i++) {
		const struct load load = { .cpu = -1, .fn = echo_forever, .arg = ends[i] };

		pid[i] = load_start(&load);
	}
	for (int i = 0; i < 4; i++)
		if (write(there[1], "", 1) != 1)
			psi_die("pipe: %s", strerror(errno));
	while (!over(storm)) {
		move_somewhere(pid[chance(2)]);
		sleep_for(chance(2) * NSEC_PER_MSEC);
	}
	for (int i = 0; i < 2; i++) {
		load_stop(pid[i]);
		close(there[i]);
		close(back[i]);
	}
}

/* ---- Priority inheritance: a task changes class because of what another one does ---- */

static void lock_forever(void *arg)
{
	pthread_mutex_t *mutex = arg;

	for (;;) {
		int error = pthread_mutex_lock(mutex);

		/* At the end of the storm the owner may have been killed. */
		if (error == EOWNERDEAD)
			error = pthread_mutex_consistent(mutex);
		if (error)
			psi_die("pthread_mutex_lock: %s", strerror(error));
		spin_until(now_ns() + chance(3) * NSEC_PER_MSEC);
		pthread_mutex_unlock(mutex);
		sleep_for(chance(3) * NSEC_PER_MSEC);
	}
}

void storm_boost(const struct storm *storm)
{
	pthread_mutex_t *mutex = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct load load = { .cpu = -1, .fn = lock_forever, .arg = mutex };
	pthread_mutexattr_t attr;
	struct crew crew;

	if (mutex == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(mutex, &attr);
	for (int i = 0; i < CREW; i++) {
		load.policy = i & 1 ? SCHED_FIFO : SCHED_OTHER;
		load.prio = i & 1 ? 1 + i : 0;
		crew.pid[i] = load_start(&load);
	}
	while (!over(storm)) {
		move_somewhere(crew.pid[chance(CREW)]);
		sleep_for(STEP);
	}
	crew_stop(&crew);
	munmap(mutex, BLOCK);
}

/* ---- Reclaim ---- */

/* Goes round over twice its limit: with swap it stalls, and it never gets done. */
static void thrash_forever(void *arg)
{
	size_t size = 8 << 20;
	char *mem;
	int fd;

	fd = open(arg, O_RDONLY | O_CLOEXEC);
	mem = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (fd < 0 || mem == MAP_FAILED)
		psi_die("%s: %s", (char *)arg, strerror(errno));
	for (size_t pos = 0;; pos = (pos + BLOCK) % size)
		asm volatile("" : : "r" (mem[pos]));
}

/* Tasks in memory-stall sections that are moved, stopped and killed there. */
void storm_reclaim(const struct storm *storm)
{
	const struct load load = {
		.cpu = -1,
		.cgroup = GROUP_A,
		.fn = thrash_forever,
		.arg = (void *)storm->disk,
	};
	struct crew crew;

	cgroup_create(GROUP_A, "+memory");
	cgroup_write(GROUP_A, "memory.max", "4194304");
	crew_start(&crew, &load);
	while (!over(storm)) {
		pid_t *pid = &crew.pid[chance(CREW)];

		move_somewhere(*pid);
		sleep_for(chance(2) * STEP);
		if (chance(4))
			continue;
		load_stop(*pid);
		*pid = load_start(&load);
	}
	crew_stop(&crew);
	cgroup_remove(GROUP_A);
}

/* ---- For storms of other programs ---- */

unsigned int storm_chance(unsigned int limit)
{
	return chance(limit);
}

pid_t storm_task(const char *cgroup, const char *disk)
{
	static void (* const what[])(void *arg) = {
		spin, nap_forever, read_forever, fork_forever, thread_forever, thrash_forever,
	};
	const struct load load = {
		.cpu = -1,
		.cgroup = cgroup,
		.fn = what[chance(ARRAY_SIZE(what))],
		.arg = (void *)disk,
	};

	return load_start(&load);
}

/* ---- CPUs that come and go ---- */

void storm_hotplug(const struct storm *storm)
{
	const struct load naps = { .cpu = -1, .fn = nap_forever };
	const struct load reads = { .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk };
	struct crew nappers, readers;
	int cpus = cpus_possible();

	crew_start(&nappers, &naps);
	crew_start(&readers, &reads);
	while (!over(storm)) {
		int cpu = 1 + chance(cpus - 1);

		cpu_online(cpu, false);
		sleep_for(chance(4) * STEP);
		cpu_online(cpu, true);
		sleep_for(chance(4) * STEP);
	}
	crew_stop(&nappers);
	crew_stop(&readers);
}
