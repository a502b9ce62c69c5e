// SPDX-License-Identifier: GPL-2.0
/*
 * What a stall on an isolated CPU makes that CPU do for others.
 *
 * Two tasks are on CPU 1 all the time, in a group with a privileged trigger.
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

enum { CPU = 1, WINDOW = 20 /* s */ };

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

static pid_t spinner(void)
{
	cpu_set_t set;
	pid_t pid;

	pid = fork_or_die();
	if (!pid)
		for (;;)
			;
	CPU_ZERO(&set);
	CPU_SET(CPU, &set);
	if (sched_setaffinity(pid, sizeof(set), &set))
		die("cannot run on CPU %d", CPU);
	cgroup_enter("/a", pid);
	return pid;
}

void isolated(void)
{
	uint64_t works_before, timers_before;
	pid_t one, two;

	if (!is_isolated()) {
		printf("# this kernel cannot isolate CPUs\n");
		return;
	}
	cgroup_make("/a");
	if (cgroup_has("/a", "cpu.pressure"))
		trigger_arm(CGROUPS "/a/cpu.pressure", "some 1000000 1000000");
	one = spinner();
	two = spinner();
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
