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

static bool over(const struct storm *storm)
{
	return now_ns() >= storm->end;
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

/* ---- Nothing leaked ---- */

#define WINDOW		(2 * NSEC_PER_SEC + 200 * NSEC_PER_MSEC)
#define STANDSTILL	(800 * NSEC_PER_MSEC)
#define PROBE		NSEC_PER_SEC
#define MAX_CPUS	64

static char leak[256];

/*
 * A leak grows by the whole time, not by some of it. What an idle machine's kernel threads
 * wait for a CPU is up to 2 % after a storm, in virtual machines that wait for each other;
 * 10 % is allowed for them.
 *
 * The window in which the storm ended has to end first: what its stalls amount to depends
 * on the weights of the CPUs, and those still change with the least activity.
 */
static const char *find_growth(void)
{
	struct quiet q;

	sleep_for(WINDOW);
	quiet_measure(&q, STANDSTILL);
	if (!q.io && !q.memory && q.cpu < STANDSTILL / 10)
		return NULL;
	snprintf(leak, sizeof(leak),
		 "idle for 0.8 s: cpu grew by %.6f s (run queues waited %.6f s), io by %.6f s, memory by %.6f s",
		 q.cpu / 1e9, q.cpu_wait / 1e9, q.io / 1e9, q.memory / 1e9);
	return leak;
}

/*
 * All CPUs at once: they weigh the same, so one on which the load is not seen takes
 * its share of the result away; of four, that is 25 %. 10 % are allowed for start and end of
 * the measurement, which takes its time on a busy machine.
 */
static bool judge(const char *what, __u64 oracle, __u64 some)
{
	ksft_print_msg("%s on every CPU: total grew by %.6f s, by the tasks' clocks %.6f s\n",
		       what, some / 1e9, oracle / 1e9);
	if (some > oracle * 0.9 && some < oracle * 1.1)
		return true;
	snprintf(leak, sizeof(leak), "%s on every CPU: total grew by %.6f s, must be %.6f s", what,
		 some / 1e9, oracle / 1e9);
	return false;
}

/*
 * What each CPU gets: two spinners, and a reader that is asleep most of the time. The
 * spinners are of the idle class, so that the reader hardly waits for them.
 */
struct probe {
	pid_t spinner[MAX_CPUS][2];
	pid_t reader[MAX_CPUS];
	struct reader *says;
};

static void probe_start(struct probe *probe, int cpus)
{
	for (int cpu = 0; cpu < cpus; cpu++)
		for (int i = 0; i < 2; i++)
			probe->spinner[cpu][i] = spin_idle_on(cpu);
}

static void probe_stop(struct probe *probe, int cpus)
{
	for (int cpu = 0; cpu < cpus; cpu++)
		for (int i = 0; i < 2; i++)
			load_stop(probe->spinner[cpu][i]);
}

/* Lets the readers read for @ns; returns what one of them slept, on average. */
static __u64 probe_read(struct probe *probe, int cpus, const char *disk, __u64 ns)
{
	struct load load = { .fn = read_blocks };
	__u64 asleep = 0, end = now_ns() + ns;

	for (load.cpu = 0; load.cpu < cpus; load.cpu++) {
		load.arg = &probe->says[load.cpu];
		probe->says[load.cpu] = (struct reader){
			.node = disk,
			.flags = O_DIRECT,
			.end = end,
		};
		probe->reader[load.cpu] = load_start(&load);
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		load_wait(probe->reader[cpu]);
		asleep += probe->says[cpu].asleep;
	}
	return asleep / cpus;
}

static const char *find_blindness(const char *disk)
{
	int cpus = cpus_possible();
	struct probe probe = { .says = shared_memory(sizeof(*probe.says) * MAX_CPUS) };
	__u64 start, cpu, io, asleep;

	probe_start(&probe, cpus);
	start = now_ns();
	cpu = psi_some_ns(PSI_CPU);
	io = psi_some_ns(PSI_IO);
	asleep = probe_read(&probe, cpus, disk, PROBE);
	io = psi_some_ns(PSI_IO) - io;
	cpu = psi_some_ns(PSI_CPU) - cpu;
	start = now_ns() - start;
	probe_stop(&probe, cpus);
	munmap(probe.says, sizeof(*probe.says) * MAX_CPUS);
	if (judge("two spinners", start, cpu) && judge("a reader's sleep", asleep, io))
		return NULL;
	return leak;
}

const char *find_leak(const char *disk)
{
	const char *found = find_growth();

	return found ?: find_blindness(disk);
}
