// SPDX-License-Identifier: GPL-2.0
/* Storms on tasks: see psi_storm.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "psi_crew.h"
#include "psi_swap.h"
#include "psi_work.h"

static const struct load spinner = { .cpu = -1, .fn = spin };
static const struct load napper = { .cpu = -1, .fn = nap_forever };

static struct load reader_of(const struct storm *storm)
{
	return (struct load){ .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk };
}

/* ---- Moves, policies, signals ---- */

void storm_affinity(struct storm *storm)
{
	struct crew crew;

	crew_start(&crew, &spinner);
	while (!storm_over(storm)) {
		move_somewhere(crew_any(&crew));
		sleep_for(storm_chance(2) * STEP);
	}
	crew_stop(&crew);
}

/* The tasks sleep nearly all the time, so their wake-up migrates them. */
void storm_iowait_affinity(struct storm *storm)
{
	const struct load reader = reader_of(storm);
	struct crew crew;

	crew_start(&crew, &reader);
	while (!storm_over(storm)) {
		move_somewhere(crew_any(&crew));
		sleep_for(storm_chance(3) * NSEC_PER_MSEC);
	}
	crew_stop(&crew);
}

/*
 * Without SCHED_DEADLINE: on a host that is late, 6.12 warns
 * "dl_rq->this_bw > old" when a task enters or leaves that class, without PSI
 * as well. deadline_test covers the class.
 */
void storm_policy(struct storm *storm)
{
	static const int policies[] = {
		SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR
	};
	struct crew crew;

	crew_start(&crew, &napper);
	while (!storm_over(storm)) {
		pid_t pid = crew_any(&crew);

		set_policy(pid, policies[storm_chance(ARRAY_SIZE(policies))], 1 + storm_chance(10));
		sleep_for(storm_chance(2) * STEP);
	}
	crew_stop(&crew);
}

void storm_stop(struct storm *storm)
{
	struct crew crew;

	crew_start(&crew, &napper);
	while (!storm_over(storm)) {
		kill(crew_any(&crew), SIGSTOP);
		sleep_for(storm_chance(2) * STEP);
		kill(crew_any(&crew), SIGCONT);
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
	struct crew crew;

	crew_start(&crew, &napper);
	while (!storm_over(storm)) {
		pid_t pid = crew_any(&crew);

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
	const struct load loads[] = { spinner, napper, reader_of(storm) };
	struct crew crew;

	crew_start(&crew, &loads[0]);
	while (!storm_over(storm))
		crew_replace(&crew, storm_chance(CREW),
			     &loads[storm_chance(ARRAY_SIZE(loads))]);
	crew_stop(&crew);
}

/* ---- Birth and death ---- */

void storm_fork(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = fork_forever };
	struct crew crew;

	crew_start(&crew, &load);
	sleep_for(storm->time);
	crew_stop(&crew);
}

void storm_threads(struct storm *storm)
{
	const struct load load = { .cpu = -1, .fn = thread_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		sleep_for(STEP);
		crew_replace(&crew, storm_chance(CREW), &load);
	}
	crew_stop(&crew);
}

/* ---- Cgroups ---- */

void storm_freeze(struct storm *storm)
{
	const char *group = group_make(storm, "freeze", "+cpu");
	const struct load load = { .cpu = -1, .cgroup = group, .fn = nap_forever };
	struct crew crew;

	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		cgroup_write(group, "cgroup.freeze", "1");
		sleep_for(storm_chance(2) * STEP);
		move_somewhere(crew_any(&crew));
		cgroup_write(group, "cgroup.freeze", "0");
		sleep_for(storm_chance(2) * STEP);
	}
	crew_stop(&crew);
	cgroup_remove(group);
}

void storm_cgroup_move(struct storm *storm)
{
	const struct load reader = reader_of(storm);
	struct crew nappers, readers;
	const char *groups[3];

	groups_make(storm, "move", "+cpu", groups, 2);
	groups[2] = CGROUP_ROOT;
	crew_start(&nappers, &napper);
	crew_start(&readers, &reader);
	while (!storm_over(storm)) {
		pid_t pid = crew_any(storm_chance(2) ? &nappers : &readers);

		cgroup_move(groups[storm_chance(ARRAY_SIZE(groups))], pid);
		sleep_for(storm_chance(2) * NSEC_PER_MSEC);
	}
	crew_stop(&nappers);
	crew_stop(&readers);
	groups_remove(groups, 2);
}

/* The CPU limit dequeues tasks with their group, and they are killed there. */
void storm_cpu_limit(struct storm *storm)
{
	const char *group = group_make(storm, "cpu_limit", "+cpu");
	const struct load load = { .cpu = -1, .cgroup = group, .fn = nap_forever };
	struct crew crew;

	cgroup_write(group, "cpu.max", "2000 10000");
	crew_start(&crew, &load);
	while (!storm_over(storm)) {
		int nr = storm_chance(CREW);

		move_somewhere(crew.pid[nr]);
		sleep_for(storm_chance(2) * STEP);
		crew_replace(&crew, nr, &load);
	}
	crew_stop(&crew);
	cgroup_remove(group);
}

/* ---- Wake-ups ---- */

void storm_naps(struct storm *storm)
{
	struct crew crew;

	crew_start(&crew, &napper);
	while (!storm_over(storm)) {
		move_somewhere(crew_any(&crew));
		sleep_for(STEP);
	}
	crew_stop(&crew);
}

void storm_ping_pong(struct storm *storm)
{
	struct ping_pong pp;
	pid_t pid[2];

	ping_pong_create(&pp);
	for (int i = 0; i < 2; i++) {
		const struct load load = { .cpu = -1, .fn = ping_pong_forever, .arg = pp.ends[i] };

		pid[i] = load_start(&load);
	}
	ping_pong_begin(&pp, 4);
	while (!storm_over(storm)) {
		move_somewhere(pid[storm_chance(2)]);
		sleep_for(storm_chance(2) * NSEC_PER_MSEC);
	}
	for (int i = 0; i < 2; i++)
		load_stop(pid[i]);
	ping_pong_remove(&pp);
}

/* ---- Pipes between many tasks of several cgroups ---- */

#define NR_PIPES	3
#define NR_PASSERS	(2 * CREW)

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

static void pipes_begin(int pipes[NR_PIPES][2], pid_t pid[NR_PASSERS])
{
	for (int i = 0; i < NR_PIPES; i++)
		if (pipe2(pipes[i], O_CLOEXEC))
			psi_die("pipe: %s", strerror(errno));
	for (int i = 0; i < NR_PASSERS; i++)
		pid[i] = start_passer(pipes, i);
}

static void pipes_end(int pipes[NR_PIPES][2], pid_t pid[NR_PASSERS])
{
	for (int i = 0; i < NR_PASSERS; i++)
		load_stop(pid[i]);
	for (int i = 0; i < NR_PIPES; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
}

void storm_pipes(struct storm *storm)
{
	int pipes[NR_PIPES][2];
	const char *groups[3];
	pid_t pid[NR_PASSERS];

	groups_make(storm, "pipe", "+cpu", groups, ARRAY_SIZE(groups));
	pipes_begin(pipes, pid);
	while (!storm_over(storm)) {
		int nr = storm_chance(NR_PASSERS);

		if (!storm_chance(8)) {
			load_stop(pid[nr]);
			pid[nr] = start_passer(pipes, nr);
		}
		group_move(groups[storm_chance(ARRAY_SIZE(groups))], pid[nr]);
		if (storm_chance(2))
			move_somewhere(pid[nr]);
		/* A passer that was killed may have had the last byte. */
		if (!bytes_waiting(pipes) && write(pipes[nr % NR_PIPES][1], "", 1) != 1)
			psi_die("pipe: %s", strerror(errno));
		sleep_for(storm_chance(2) * NSEC_PER_MSEC);
	}
	pipes_end(pipes, pid);
	groups_remove(groups, ARRAY_SIZE(groups));
}

/* ---- Priority inheritance: the waiter changes the class of the owner ---- */

static void lock_forever(void *arg)
{
	pthread_mutex_t *mutex = arg;

	for (;;) {
		int error = pthread_mutex_lock(mutex);

		/* At the end of the storm, the owner may have been killed. */
		if (error == EOWNERDEAD)
			error = pthread_mutex_consistent(mutex);
		if (error)
			psi_die("pthread_mutex_lock: %s", strerror(error));
		spin_until(now_ns() + storm_chance(3) * NSEC_PER_MSEC);
		pthread_mutex_unlock(mutex);
		sleep_for(storm_chance(3) * NSEC_PER_MSEC);
	}
}

static pthread_mutex_t *boosting_mutex(void)
{
	pthread_mutex_t *mutex = shared_memory(sizeof(*mutex));
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(mutex, &attr);
	return mutex;
}

void storm_boost(struct storm *storm)
{
	pthread_mutex_t *mutex = boosting_mutex();
	struct load load = { .cpu = -1, .fn = lock_forever, .arg = mutex };
	struct crew crew;

	for (int i = 0; i < CREW; i++) {
		load.policy = i & 1 ? SCHED_FIFO : SCHED_OTHER;
		load.prio = i & 1 ? 1 + i : 0;
		crew.pid[i] = load_start(&load);
	}
	while (!storm_over(storm)) {
		move_somewhere(crew_any(&crew));
		sleep_for(STEP);
	}
	crew_stop(&crew);
	munmap(mutex, sizeof(*mutex));
}

/* ---- Reads and writes that fail ---- */

#define BAD_MB		16

static unsigned long *failures;

/* Counts an I/O error; any other failure ends the test. */
static void count_failure(ssize_t done)
{
	if (done == BLOCK || !done)
		return;
	if (done >= 0 || errno != EIO)
		psi_die("a block: %zd, %s", done, strerror(errno));
	__atomic_fetch_add(failures, 1, __ATOMIC_RELAXED);
}

static void fail_forever(void *arg)
{
	int direct = open_file(arg, O_RDWR | O_DIRECT), cached = open_file(arg, O_RDWR);
	void *buf = aligned_alloc(BLOCK, BLOCK);

	if (!buf)
		psi_die("no memory");
	memset(buf, 0, BLOCK);
	for (;;) {
		off_t pos = storm_chance((BAD_MB << 20) / BLOCK) * BLOCK;

		switch (storm_chance(5)) {
		case 0:
			count_failure(pread(direct, buf, BLOCK, pos));
			break;
		case 1:
			count_failure(pwrite(direct, buf, BLOCK, pos));
			break;
		case 2:
			posix_fadvise(cached, pos, BLOCK, POSIX_FADV_DONTNEED);
			count_failure(pread(cached, buf, BLOCK, pos));
			break;
		case 3:
			count_failure(pwrite(cached, buf, BLOCK, pos));
			break;
		default:
			count_failure(fdatasync(cached));
		}
	}
}

/* Sectors of one half of the device fail, or no longer do. */
static void half_fails(const struct slow_disk *disk, bool upper, bool on)
{
	unsigned long half = BAD_MB << 20 >> 10;

	slow_disk_fail(disk, upper * half, upper * half + half - 1, on);
}

/* Half of the device fails, now one, now the other. Ends after a failure. */
void storm_errors(struct storm *storm)
{
	struct load load = { .cpu = -1, .fn = fail_forever };
	const char *groups[2];
	struct slow_disk disk;
	struct crew crew;
	bool upper = false;

	groups_make(storm, "errors", "+cpu", groups, 2);
	failures = shared_memory(sizeof(*failures));
	slow_disk_create(&disk, "psi_bad", 2 * NSEC_PER_MSEC, BAD_MB);
	half_fails(&disk, upper, true);
	load.arg = disk.node;
	crew_start(&crew, &load);
	while (!storm_over(storm) || !__atomic_load_n(failures, __ATOMIC_RELAXED)) {
		int nr = storm_chance(CREW);

		if (!storm_chance(4))
			crew_replace(&crew, nr, &load);
		group_move(groups[storm_chance(ARRAY_SIZE(groups))], crew.pid[nr]);
		move_somewhere(crew.pid[nr]);
		if (!storm_chance(16)) {
			half_fails(&disk, upper, false);
			upper = !upper;
			half_fails(&disk, upper, true);
		}
		sleep_for(storm_chance(3) * STEP);
	}
	crew_stop(&crew);
	half_fails(&disk, upper, false);
	slow_disk_remove(&disk);
	groups_remove(groups, 2);
	ksft_print_msg("%lu reads and writes failed\n", *failures);
	munmap(failures, sizeof(*failures));
}

/* ---- Reclaim ---- */

/* Tasks are moved and killed while they stall on memory. */
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
		int nr = storm_chance(CREW);

		move_somewhere(crew.pid[nr]);
		sleep_for(storm_chance(2) * STEP);
		if (!storm_chance(4))
			crew_replace(&crew, nr, &load);
	}
	crew_stop(&crew);
	cgroup_remove(group);
}

/* ---- CPUs that come and go ---- */

void storm_hotplug(struct storm *storm)
{
	const struct load reader = reader_of(storm);
	struct crew nappers, readers;
	int cpus = cpus_possible();

	crew_start(&nappers, &napper);
	crew_start(&readers, &reader);
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

__u64 storm_time(__u64 ns)
{
	const char *seconds = getenv("PSI_STORM_SECONDS");

	return seconds ? atoi(seconds) * NSEC_PER_SEC : ns;
}
