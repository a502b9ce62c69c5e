// SPDX-License-Identifier: GPL-2.0
/*
 * A million reads of all pressure files, while two tasks play ping-pong on the
 * same CPU: what a read costs its reader, and a round trip those who are watched.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum {
	READS = 1000000,
	GROUPS = 20,
	RESOURCES = 3,
	DEPTH = 4,
};

static const char *const resources[RESOURCES] = { "cpu", "memory", "io" };

/* Round trips so far. */
static volatile uint64_t *trips;

static uint64_t cpu_time(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
		die("no CPU time of %d", pid);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* A task that passes on what it gets. */
static pid_t player(const char *group, int from, int to, bool first)
{
	pid_t pid = fork_or_die();
	char byte = 0;

	if (pid) {
		cgroup_enter(group, pid);
		return pid;
	}
	if (first && write(to, &byte, 1) != 1)
		_exit(1);
	while (read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1)
		*trips += first;
	_exit(1);
}

static void read_all(void)
{
	int fds[GROUPS + 1][RESOURCES], i, j, n;
	char path[64], file[32];
	uint64_t begin;

	for (j = 0; j < RESOURCES; j++) {
		snprintf(path, sizeof(path), "/proc/pressure/%s", resources[j]);
		snprintf(file, sizeof(file), "%s.pressure", resources[j]);
		fds[GROUPS][j] = open(path, O_RDONLY | O_CLOEXEC);
		if (fds[GROUPS][j] < 0)
			die("%s", path);
		for (i = 0; i < GROUPS; i++)
			fds[i][j] = cgroup_open(cgroup_numbered(i), file);
	}
	begin = cpu_time(getpid());
	for (n = 0; n < READS; n++)
		read_file(fds[n / RESOURCES % (GROUPS + 1)][n % RESOURCES]);
	result((double)(cpu_time(getpid()) - begin) / READS, "read");
	for (j = 0; j < RESOURCES; j++)
		for (i = 0; i <= GROUPS; i++)
			close(fds[i][j]);
}

void million(void)
{
	int ping[2], pong[2], i;
	uint64_t before, spent;
	char path[256];
	pid_t pids[2];

	trips = mmap(NULL, sizeof(*trips), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (trips == MAP_FAILED)
		die("mmap");
	for (i = 0; i < GROUPS; i++) {
		cgroup_make(cgroup_numbered(i));
		cgroup_visit_cpus(cgroup_numbered(i));
	}
	cgroup_chain(cgroup_numbered(0), "a", DEPTH, path, sizeof(path));
	pipe_or_die(ping);
	pipe_or_die(pong);
	pids[0] = player(path, ping[0], pong[1], true);
	pids[1] = player(path, pong[0], ping[1], false);
	sleep_until(now() + 2000000000);

	before = *trips;
	spent = cpu_time(pids[0]) + cpu_time(pids[1]);
	/* Without PSI there is nothing to read. */
	if (access("/proc/pressure/cpu", F_OK))
		sleep_until(now() + 2000000000);
	else
		read_all();
	spent = cpu_time(pids[0]) + cpu_time(pids[1]) - spent;
	result((double)spent / (*trips - before), "load");

	for (i = 0; i < 2; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		close(ping[i]);
		close(pong[i]);
	}
	cgroup_remove_chain(cgroup_numbered(0), "a", DEPTH);
	for (i = 0; i < GROUPS; i++)
		cgroup_remove(cgroup_numbered(i));
}
