// SPDX-License-Identifier: GPL-2.0
/*
 * What a stall on an isolated CPU makes that CPU do for others.
 *
 * Two tasks work on CPU 1 all the time, in a group of depth 4 with a trigger.
 * Counted are the runs of the CPU's workqueue threads, and how often it had
 * timers to run.  Some are there without PSI, too.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	CPU = 1,
	DEPTH = 4,
	WINDOW = 20,		/* s */
};

static bool is_isolated(void)
{
	char text[16] = "";
	FILE *file;

	file = fopen("/sys/devices/system/cpu/isolated", "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		*text = 0;
	fclose(file);
	return atoi(text) == CPU;
}

/* Times that a thread of the workqueues of this CPU slept, so far. */
static uint64_t works(void)
{
	char path[300], name[32];
	struct dirent *entry;
	uint64_t sum = 0;
	FILE *file;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		die("/proc");
	while ((entry = readdir(dir))) {
		if (!strtol(entry->d_name, NULL, 10))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (!fgets(name, sizeof(name), file))
			*name = 0;
		fclose(file);
		if (strncmp(name, "kworker/1:", 10))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/status", entry->d_name);
		sum += number_in(path, "voluntary_ctxt_switches:");
	}
	closedir(dir);
	return sum;
}

static uint64_t timers(void)
{
	unsigned long first, second;
	char line[256];
	FILE *file;

	file = fopen("/proc/softirqs", "re");
	if (!file)
		die("/proc/softirqs");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " TIMER: %lu %lu", &first, &second) == 2) {
			fclose(file);
			return second;
		}
	}
	die("/proc/softirqs has no timers");
}

/* All it does to its group happens on the isolated CPU, which never idles: others would run its timers. */
static pid_t worker(const char *cgroup)
{
	cpu_set_t set;
	pid_t pid;

	pid = fork_or_die();
	if (pid)
		return pid;
	CPU_ZERO(&set);
	CPU_SET(CPU, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("cannot run on CPU %d", CPU);
	cgroup_enter(cgroup, getpid());
	for (;;)
		;
}

void isolated(void)
{
	uint64_t works_before, timers_before;
	char path[256], file[512];
	pid_t one, two;

	if (!is_isolated()) {
		printf("# this kernel cannot isolate CPUs\n");
		return;
	}
	cgroup_chain("", "a", DEPTH, path, sizeof(path));
	snprintf(file, sizeof(file), "%s%s/cpu.pressure", CGROUPS, path);
	if (!access(file, F_OK))
		trigger_arm(file, "some 500000 1000000");
	one = worker(path);
	two = worker(path);
	sleep(4);
	works_before = works();
	timers_before = timers();
	sleep(WINDOW);
	result(timers() - timers_before, "timers");
	result(works() - works_before, "works");
	kill(one, SIGKILL);
	kill(two, SIGKILL);
	waitpid(one, NULL, 0);
	waitpid(two, NULL, 0);
}
