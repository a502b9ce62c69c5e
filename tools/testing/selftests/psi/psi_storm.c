// SPDX-License-Identifier: GPL-2.0
/* Storms: everything that can happen to a task. See psi_storm.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "psi_cgroup.h"
#include "psi_crew.h"

/* ---- Chance: the same in every run, another one in every task ---- */

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

/* ---- A crew: the tasks that a storm plays with ---- */

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

static bool moves_overlap;

void storm_moves_overlap(void)
{
	moves_overlap = true;
}

static int cpus_lock(int how)
{
	int fd;

	if (moves_overlap || !kernel_is_preempt_rt())
		return -1;
	fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || flock(fd, how))
		psi_die("/sys/devices/system/cpu/online: %s", strerror(errno));
	return fd;
}

static void cpus_unlock(int fd)
{
	if (fd >= 0)
		close(fd);
}

void move_somewhere(pid_t pid)
{
	cpu_set_t set;
	int lock;

	CPU_ZERO(&set);
	CPU_SET(storm_chance(cpus_possible()), &set);
	lock = cpus_lock(LOCK_SH);
	if (sched_setaffinity(pid, sizeof(set), &set) && errno != EINVAL)
		psi_die("sched_setaffinity: %s", strerror(errno));
	cpus_unlock(lock);
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

void storm_count(void)
{
	if (events)
		__atomic_fetch_add(events, 1, __ATOMIC_RELAXED);
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

/* ---- What the tasks of a crew do ---- */

void read_forever(void *arg)
{
	int fd = open(arg, O_RDONLY | O_DIRECT | O_CLOEXEC);
	void *buf = aligned_alloc(BLOCK, BLOCK);

	if (!buf || fd < 0)
		psi_die("%s: %s", (char *)arg, strerror(errno));
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

/* ---- Storms on single tasks ---- */

void storm_affinity(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = spin };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		move_somewhere(crew.pid[storm_chance(CREW)]);
		sleep_for(storm_chance(2) * STEP);
	}
	crew_stop(&crew);
}

/* They are asleep nearly always, so it is the wake-up that takes them along. */
void storm_iowait_affinity(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		move_somewhere(crew.pid[storm_chance(CREW)]);
		sleep_for(storm_chance(3) * NSEC_PER_MSEC);
	}
	crew_stop(&crew);
}

/*
 * Not SCHED_DEADLINE: on a host that is late, 6.12 warns "dl_rq->this_bw > old" when a task
 * leaves that class or comes to it, without PSI as well. See deadline_test.
 */
void storm_policy(struct storm *storm)
{
	static const int policies[] = {
		SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR
	};
	const struct load load = { .cpu = -1, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		pid_t pid = crew.pid[storm_chance(CREW)];

		set_policy(pid, policies[storm_chance(ARRAY_SIZE(policies))], 1 + storm_chance(10));
		sleep_for(storm_chance(2) * STEP);
	}
	crew_stop(&crew);
}

void storm_stop(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		kill(crew.pid[storm_chance(CREW)], SIGSTOP);
		sleep_for(storm_chance(2) * STEP);
		kill(crew.pid[storm_chance(CREW)], SIGCONT);
	}
	crew_stop(&crew);
}

static void ptrace_or_die(int request, pid_t pid)
{
	if (ptrace(request, pid, NULL, NULL))
		psi_die("ptrace: %s", strerror(errno));
}

void storm_ptrace(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		pid_t pid = crew.pid[storm_chance(CREW)];

		ptrace_or_die(PTRACE_SEIZE, pid);
		ptrace_or_die(PTRACE_INTERRUPT, pid);
		if (waitpid(pid, NULL, __WALL) != pid)
			psi_die("waitpid: %s", strerror(errno));
		move_somewhere(pid);
		sleep_for(storm_chance(2) * STEP);
		ptrace_or_die(PTRACE_DETACH, pid);
	}
	crew_stop(&crew);
}

void storm_kill(struct storm *storm)
{
	const struct load loads[] = {
		{ .cpu = -1, .fn = spin },
		{ .cpu = -1, .fn = nap_forever },
		{ .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk },
	};
	struct crew crew;

	crew_start(&crew, &loads[0]);
	while (!storm_over(storm)) {
		pid_t *pid = &crew.pid[storm_chance(CREW)];

		load_stop(*pid);
		*pid = load_start(&loads[storm_chance(ARRAY_SIZE(loads))]);
	}
	crew_stop(&crew);
}

/* ---- Birth and death ---- */

static void fork_forever(void *arg)
{
	for (;;) {
		pid_t pid = storm_chance(2) ? fork() : vfork();

		if (pid < 0)
			psi_die("fork: %s", strerror(errno));
		if (!pid)
			_exit(0);
		if (waitpid(pid, NULL, 0) != pid)
			psi_die("waitpid: %s", strerror(errno));
		storm_count();
	}
}

void storm_fork(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = fork_forever };
	struct crew crew;

	crew_start(&crew, &load);
	sleep_for(storm->time);
	crew_stop(&crew);
}

static void *thread_main(void *arg)
{
	spin_until(now_ns() + storm_chance(2) * NSEC_PER_MSEC);
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

void storm_threads(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = thread_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		pid_t *pid = &crew.pid[storm_chance(CREW)];

		sleep_for(STEP);
		load_stop(*pid);
		*pid = load_start(&load);
	}
	crew_stop(&crew);
}

/* ---- Control groups ---- */

#define PATH_SIZE	256

bool storm_is_gone(int error)
{
	return error == ENOENT || error == ENODEV || error == ESRCH;
}

/* The controllers of everything above a cgroup. */
static void control(const char *path, size_t len, const char *controllers)
{
	char parent[PATH_SIZE];

	snprintf(parent, sizeof(parent), "%.*s", (int)len, path);
	cgroup_write(parent, "cgroup.subtree_control", controllers);
	for (len++; path[len] && path[len] != '/';)
		len++;
	if (path[len])
		control(path, len, controllers);
}

const char *group_make(const struct storm *storm, const char *name, const char *controllers)
{
	char *path;

	if (asprintf(&path, "%s/psi_%s", storm->top ?: CGROUP_ROOT, name) < 0)
		psi_die("no memory");
	control(path, strlen(CGROUP_ROOT), controllers);
	if (mkdir(path, 0755) && errno != EEXIST)
		psi_die("%s: %s", path, strerror(errno));
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

void storm_freeze(struct storm *storm)
{
	const char *group = group_make(storm, "freeze", "+cpu");
	const struct load load = { .cpu = -1, .cgroup = group, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		cgroup_write(group, "cgroup.freeze", "1");
		sleep_for(storm_chance(2) * STEP);
		move_somewhere(crew.pid[storm_chance(CREW)]);
		cgroup_write(group, "cgroup.freeze", "0");
		sleep_for(storm_chance(2) * STEP);
	}
	crew_stop(&crew);
	cgroup_remove(group);
}

void storm_cgroup_move(struct storm *storm)
{
	const char *groups[3];
	const struct load spinner = { .cpu = -1, .fn = nap_forever };
	const struct load reader = { .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk };
	struct crew spinners, readers;

	groups_make(storm, "move", "+cpu", groups, 2);
	groups[2] = CGROUP_ROOT;
	crew_start(&spinners, &spinner);
	crew_start(&readers, &reader);
	while (!storm_over(storm)) {
		struct crew *crew = storm_chance(2) ? &spinners : &readers;

		cgroup_move(groups[storm_chance(ARRAY_SIZE(groups))],
			    crew->pid[storm_chance(CREW)]);
		sleep_for(storm_chance(2) * NSEC_PER_MSEC);
	}
	crew_stop(&spinners);
	crew_stop(&readers);
	groups_remove(groups, 2);
}

/* Tasks that are taken off the queue with their group, and killed there. */
void storm_cpu_limit(struct storm *storm)
{
	const char *group = group_make(storm, "cpu_limit", "+cpu");
	const struct load load = { .cpu = -1, .cgroup = group, .fn = nap_forever };
	struct crew crew;

	cgroup_write(group, "cpu.max", "2000 10000");
	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		pid_t *pid = &crew.pid[storm_chance(CREW)];

		move_somewhere(*pid);
		sleep_for(storm_chance(2) * STEP);
		load_stop(*pid);
		*pid = load_start(&load);
	}
	crew_stop(&crew);
	cgroup_remove(group);
}

/* ---- Wake-ups ---- */

void storm_naps(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		move_somewhere(crew.pid[storm_chance(CREW)]);
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

void storm_ping_pong(struct storm *storm)
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
	while (!storm_over(storm)) {
		move_somewhere(pid[storm_chance(2)]);
		sleep_for(storm_chance(2) * NSEC_PER_MSEC);
	}
	for (int i = 0; i < 2; i++) {
		load_stop(pid[i]);
		close(there[i]);
		close(back[i]);
	}
}

/* ---- Pipes between many tasks of several cgroups ---- */

#define NR_PIPES	3

/* Takes a byte from one pipe, works on it, and passes it on. */
static void pass_forever(void *arg)
{
	int *fd = arg;
	char byte;

	while (read(fd[0], &byte, 1) == 1) {
		spin_until(now_ns() + storm_chance(200) * NSEC_PER_USEC);
		if (write(fd[1], &byte, 1) != 1)
			break;
	}
}

/* How many bytes wait in the pipes. */
static int bytes_waiting(int pipes[NR_PIPES][2])
{
	int sum = 0, bytes;

	for (int i = 0; i < NR_PIPES; i++) {
		if (ioctl(pipes[i][0], FIONREAD, &bytes))
			psi_die("FIONREAD: %s", strerror(errno));
		sum += bytes;
	}
	return sum;
}

static pid_t start_passer(int pipes[NR_PIPES][2], int nr)
{
	int ends[2] = { pipes[nr % NR_PIPES][0], pipes[(nr + 1) % NR_PIPES][1] };
	const struct load load = { .cpu = -1, .fn = pass_forever, .arg = ends };

	return load_start(&load);
}

void storm_pipes(struct storm *storm)
{
	int pipes[NR_PIPES][2];
	const char *groups[3];
	pid_t pid[2 * CREW];

	groups_make(storm, "pipe", "+cpu", groups, ARRAY_SIZE(groups));
	for (int i = 0; i < NR_PIPES; i++)
		if (pipe2(pipes[i], O_CLOEXEC))
			psi_die("pipe: %s", strerror(errno));
	for (int i = 0; i < 2 * CREW; i++)
		pid[i] = start_passer(pipes, i);
	while (!storm_over(storm)) {
		int nr = storm_chance(2 * CREW);

		if (!storm_chance(8)) {
			load_stop(pid[nr]);
			pid[nr] = start_passer(pipes, nr);
		}
		group_move(groups[storm_chance(ARRAY_SIZE(groups))], pid[nr]);
		if (storm_chance(2))
			move_somewhere(pid[nr]);
		/* Whoever was killed may have taken one along. */
		if (!bytes_waiting(pipes) && write(pipes[nr % NR_PIPES][1], "", 1) != 1)
			psi_die("pipe: %s", strerror(errno));
		sleep_for(storm_chance(2) * NSEC_PER_MSEC);
	}
	for (int i = 0; i < 2 * CREW; i++)
		load_stop(pid[i]);
	for (int i = 0; i < NR_PIPES; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	groups_remove(groups, ARRAY_SIZE(groups));
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
		spin_until(now_ns() + storm_chance(3) * NSEC_PER_MSEC);
		pthread_mutex_unlock(mutex);
		sleep_for(storm_chance(3) * NSEC_PER_MSEC);
	}
}

void storm_boost(struct storm *storm)
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
	while (!storm_over(storm)) {
		move_somewhere(crew.pid[storm_chance(CREW)]);
		sleep_for(STEP);
	}
	crew_stop(&crew);
	munmap(mutex, BLOCK);
}

/* ---- Reads and writes that fail ---- */

#define BAD_MB		16

static unsigned long *failures;

static void expect(ssize_t done)
{
	if (done == BLOCK || !done)
		return;
	if (done >= 0 || errno != EIO)
		psi_die("a block: %zd, %s", done, strerror(errno));
	__atomic_fetch_add(failures, 1, __ATOMIC_RELAXED);
}

static void fail_forever(void *arg)
{
	int direct = open(arg, O_RDWR | O_DIRECT | O_CLOEXEC);
	int cached = open(arg, O_RDWR | O_CLOEXEC);
	void *buf = aligned_alloc(BLOCK, BLOCK);

	if (!buf || direct < 0 || cached < 0)
		psi_die("%s: %s", (char *)arg, strerror(errno));
	memset(buf, 0, BLOCK);
	for (;;) {
		off_t pos = storm_chance((BAD_MB << 20) / BLOCK) * BLOCK;

		switch (storm_chance(5)) {
		case 0:
			expect(pread(direct, buf, BLOCK, pos));
			break;
		case 1:
			expect(pwrite(direct, buf, BLOCK, pos));
			break;
		case 2:
			posix_fadvise(cached, pos, BLOCK, POSIX_FADV_DONTNEED);
			expect(pread(cached, buf, BLOCK, pos));
			break;
		case 3:
			expect(pwrite(cached, buf, BLOCK, pos));
			break;
		default:
			expect(fdatasync(cached));
		}
	}
}

/* Half of the device fails, and which half changes. It is not over before something failed. */
void storm_errors(struct storm *storm)
{
	struct load load = { .cpu = -1, .fn = fail_forever };
	const char *groups[2];
	unsigned long half = BAD_MB << 20 >> 10;
	struct slow_disk disk;
	struct crew crew;
	bool upper = false;

	groups_make(storm, "errors", "+cpu", groups, 2);
	failures = shared_memory(sizeof(*failures));
	slow_disk_create(&disk, "psi_bad", 2 * NSEC_PER_MSEC, BAD_MB);
	slow_disk_fail(&disk, 0, half - 1, true);
	load.arg = disk.node;
	crew_start(&crew, &load);
	while (!storm_over(storm) || !__atomic_load_n(failures, __ATOMIC_RELAXED)) {
		pid_t *pid = &crew.pid[storm_chance(CREW)];

		if (!storm_chance(4)) {
			load_stop(*pid);
			*pid = load_start(&load);
		}
		group_move(groups[storm_chance(ARRAY_SIZE(groups))], *pid);
		move_somewhere(*pid);
		if (!storm_chance(16)) {
			slow_disk_fail(&disk, upper * half, upper * half + half - 1, false);
			upper = !upper;
			slow_disk_fail(&disk, upper * half, upper * half + half - 1, true);
		}
		sleep_for(storm_chance(3) * STEP);
	}
	crew_stop(&crew);
	slow_disk_fail(&disk, 0, 2 * half - 1, false);
	slow_disk_remove(&disk);
	groups_remove(groups, 2);
	ksft_print_msg("%lu reads and writes failed\n", *failures);
	munmap(failures, sizeof(*failures));
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
void storm_reclaim(struct storm *storm)
{
	const char *group = group_make(storm, "reclaim", "+memory");
	const struct load load = {
		.cpu = -1,
		.cgroup = group,
		.fn = thrash_forever,
		.arg = (void *)storm->disk,
	};
	struct crew crew;

	cgroup_write(group, "memory.max", "4194304");
	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		pid_t *pid = &crew.pid[storm_chance(CREW)];

		move_somewhere(*pid);
		sleep_for(storm_chance(2) * STEP);
		if (storm_chance(4))
			continue;
		load_stop(*pid);
		*pid = load_start(&load);
	}
	crew_stop(&crew);
	cgroup_remove(group);
}

/* ---- For storms of other programs ---- */

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

/* ---- CPUs that come and go ---- */

static void cpu_switch(int cpu, bool on)
{
	int lock = cpus_lock(LOCK_EX);

	cpu_online(cpu, on);
	cpus_unlock(lock);
}

void storm_hotplug(struct storm *storm)
{
	const struct load naps = { .cpu = -1, .fn = nap_forever };
	const struct load reads = { .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk };
	struct crew nappers, readers;
	int cpus = cpus_possible();

	crew_start(&nappers, &naps);
	crew_start(&readers, &reads);
	while (!storm_over(storm)) {
		int cpu = 1 + storm_chance(cpus - 1);

		cpu_switch(cpu, false);
		sleep_for(storm_chance(4) * STEP);
		cpu_switch(cpu, true);
		sleep_for(storm_chance(4) * STEP);
	}
	crew_stop(&nappers);
	crew_stop(&readers);
}
