// SPDX-License-Identifier: GPL-2.0
/*
 * Two tasks pass a byte to and fro through pipes.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

static int to, from;

/* The other task, which sends back what it gets. */
static pid_t echo(void)
{
	int ping[2], pong[2];
	char byte;
	pid_t pid;

	pipe_or_die(ping);
	pipe_or_die(pong);
	to = ping[1];
	from = pong[0];
	pid = fork_or_die();
	while (!pid)
		if (read(ping[0], &byte, 1) != 1 || write(pong[1], &byte, 1) != 1)
			_exit(1);
	return pid;
}

static void round_trips(unsigned int nr)
{
	char byte = 0;

	while (nr--)
		if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
			die("a pipe broke");
}

static long waits_so_far(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

/*
 * On one CPU, with one task in MINE and one in OTHER.
 *
 * One of them can always run, so the CPU never idles.  A round trip is two
 * switches and two wake-ups, if the tasks are SCHED_BATCH, which do not preempt
 * on a wake-up.  If they are not, the woken one preempts at times before the
 * other begins to wait, which saves a wake-up: two of five round trips have one.
 */
static void play(bool batch, const char *mine, const char *other)
{
	enum {
		WARM_UP = 500,		/* round trips */
		BATCH = 100,		/* round trips; a tick comes every 300 or so */
		BATCHES = 51,
	};
	const struct sched_param param = {};
	pid_t pid = echo();
	double trip;
	long waits;
	int i;

	cgroup_enter(mine, getpid());
	cgroup_enter(other, pid);
	if (batch && (sched_setscheduler(0, SCHED_BATCH, &param) || sched_setscheduler(pid, SCHED_BATCH, &param)))
		die("sched_setscheduler");
	/* What adapts to a load does so every few seconds. Sleeping takes no time of the host. */
	for (i = 0; i < 4; i++) {
		round_trips(20);
		usleep(2100000);
	}
	round_trips(WARM_UP);
	waits = waits_so_far();
	trip = measure(NULL, round_trips, BATCH, BATCHES);
	waits = waits_so_far() - waits;
	if (batch && labs(waits - BATCH * BATCHES) > BATCH * BATCHES / 100)
		die("%ld waits in %d round trips", waits, BATCH * BATCHES);
	result(trip);
}

/* In the last group of a chain; in children of its own; at the ends of two chains. */
void pingpong(const char *kind, unsigned int depth)
{
	static const char policy[] = "batch/";
	bool batch = !strncmp(kind, policy, strlen(policy));
	const char *mine = cgroup_chain("", "a", depth), *other = mine;
	char up[256];

	if (batch)
		kind += strlen(policy);
	if (!strcmp(kind, "siblings")) {
		other = cgroup_chain(mine, "right", 1);
		mine = cgroup_chain(mine, "left", 1);
	} else if (!strcmp(kind, "disjoint")) {
		other = cgroup_chain("", "b", depth);
	} else if (!strcmp(kind, "pressure=0") && has_psi()) {
		for (strcpy(up, mine); *up; *strrchr(up, '/') = 0)
			cgroup_write(up, "cgroup.pressure", "0");
	} else if (!strcmp(kind, "armed") && has_psi()) {
		/* It is not reached. */
		trigger_arm(cgroup_file(mine, "cpu.pressure"), "full 1000000 1000000");
	}
	play(batch, mine, other);
}

/* In one leaf, with a trigger on limits, of which there are none; or one that was throttled before. */
void limits(const char *kind, unsigned int depth)
{
	const char *leaf = cgroup_chain("", "a", depth);
	pid_t pid;

	if (!strcmp(kind, "held")) {
		cgroup_controller(leaf, "+cpu");
		cgroup_write(leaf, "cpu.max", "1000 100000");
		pid = spinner(leaf);
		sleep_until(now() + 3 * SECOND);
		if (number_in(cgroup_file(leaf, "cpu.stat"), "nr_throttled") < 10)
			die("it is not throttled");
		kill(pid, SIGKILL);
		cgroup_write(leaf, "cpu.max", "max");
	} else if (cgroup_has(leaf, "cgroup.pressure.stat")) {
		trigger_arm(cgroup_file(leaf, "cgroup.pressure.stat"), "cpu.limit.some 1000000 1000000");
	}
	play(false, leaf, leaf);
}

/*
 * With a CPU each: wake-ups onto an idle CPU.
 *
 * The CPUs take turns, so the clock counts the instructions of both.  One of
 * them always has work, so that it counts nothing else.
 */
void remote(const char *kind, unsigned int depth)
{
	const char *leaf = cgroup_leaf(kind, depth);
	pid_t pid = echo();

	pin(0, 0);
	pin(pid, 1);
	cgroup_enter(leaf, getpid());
	cgroup_enter(leaf, pid);
	round_trips(200);
	result(measure(NULL, round_trips, 20, 101));
}

static uint64_t cpu_time(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
		die("no CPU time of %d", pid);
	return time.tv_sec * SECOND + time.tv_nsec;
}

enum { READS = 1000000, GROUPS = 20, RESOURCES = 3 };

static void read_all(void)
{
	static const char *const resources[RESOURCES] = { "cpu", "memory", "io" };
	int fds[GROUPS + 1][RESOURCES], i, j, n;
	char path[64], file[32];
	uint64_t begin;

	for (j = 0; j < RESOURCES; j++) {
		snprintf(path, sizeof(path), "/proc/pressure/%s", resources[j]);
		snprintf(file, sizeof(file), "%s.pressure", resources[j]);
		fds[GROUPS][j] = open_file(path);
		for (i = 0; i < GROUPS; i++)
			fds[i][j] = open_file(cgroup_file(cgroup_numbered(i), file));
	}
	begin = cpu_time(getpid());
	for (n = 0; n < READS; n++)
		read_file(fds[n / RESOURCES % (GROUPS + 1)][n % RESOURCES]);
	result_named("read", (double)(cpu_time(getpid()) - begin) / READS);
}

/*
 * A million reads of all pressure files, while two tasks play on the same CPU:
 * what a read costs its reader, and a round trip those who are watched.
 */
void million(const char *kind, unsigned int number)
{
	volatile uint64_t *trips = shared_memory(sizeof(*trips));
	uint64_t before, spent;
	const char *leaf;
	pid_t one, other;
	int i;

	(void)kind;
	(void)number;
	for (i = 0; i < GROUPS; i++) {
		cgroup_make(cgroup_numbered(i));
		cgroup_visit_cpus(cgroup_numbered(i));
	}
	leaf = cgroup_chain(cgroup_numbered(0), "a", 4);
	other = echo();
	one = fork_or_die();
	for (; !one; ++*trips)
		round_trips(1);
	cgroup_enter(leaf, one);
	cgroup_enter(leaf, other);
	sleep_until(now() + 2 * SECOND);

	before = *trips;
	spent = cpu_time(one) + cpu_time(other);
	/* Without PSI there is nothing to read. */
	if (has_psi())
		read_all();
	else
		sleep_until(now() + 2 * SECOND);
	spent = cpu_time(one) + cpu_time(other) - spent;
	result_named("load", (double)spent / (*trips - before));
}
