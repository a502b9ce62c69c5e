// SPDX-License-Identifier: GPL-2.0
/* What tasks and CPUs did: see psi_task.h. */
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "psi_util.h"

/* ---- Run and wait, from schedstat ---- */

static void read_schedstat(pid_t pid, unsigned long long *run, unsigned long long *wait)
{
	char path[64], buf[128];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	if (read_file(path, buf, sizeof(buf)) < 0)
		psi_die("%s: %s (needs CONFIG_SCHEDSTATS)", path, strerror(errno));
	if (sscanf(buf, "%llu %llu", run, wait) != 2)
		psi_die("%s: cannot parse \"%s\"", path, buf);
}

__u64 task_wait_ns(pid_t pid)
{
	unsigned long long run, wait;

	read_schedstat(pid, &run, &wait);
	return wait;
}

__u64 task_busy_ns(pid_t pid)
{
	unsigned long long run, wait;

	read_schedstat(pid, &run, &wait);
	return run + wait;
}

void cpu_clock_read(int cpu, struct cpu_clock *cc)
{
	unsigned long long run, wait;
	char line[512];
	FILE *file;
	int nr;

	cc->run = 0;
	cc->wait = 0;
	file = fopen("/proc/schedstat", "re");
	if (!file)
		psi_die("/proc/schedstat: %s (needs CONFIG_SCHEDSTATS)", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "cpu%d %*u %*u %*u %*u %*u %*u %llu %llu", &nr, &run, &wait) != 3)
			continue;
		if (cpu >= 0 && cpu != nr)
			continue;
		cc->run += run;
		cc->wait += wait;
	}
	fclose(file);
}

/* ---- Threads of the kernel ---- */

#define PF_KTHREAD	0x00200000

/* Whether a task, by its directory in /proc, is a thread of the kernel. */
static bool is_kthread(const char *dir)
{
	char path[64], buf[1024], *at;
	unsigned int flags;

	snprintf(path, sizeof(path), "%s/stat", dir);
	if (read_file(path, buf, sizeof(buf)) < 0)
		return false;
	at = strrchr(buf, ')');
	if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		psi_die("%s: cannot parse \"%s\"", path, buf);
	return flags & PF_KTHREAD;
}

int kernel_threads(const char *pattern, pid_t *pids, int most)
{
	char comm[64], *dir;
	glob_t found;
	int nr = 0;

	if (glob("/proc/[0-9]*/comm", 0, NULL, &found))
		psi_die("/proc: no tasks");
	for (size_t i = 0; i < found.gl_pathc && nr < most; i++) {
		dir = found.gl_pathv[i];
		if (read_file(dir, comm, sizeof(comm)) <= 0)
			continue;
		comm[strcspn(comm, "\n")] = '\0';
		*strrchr(dir, '/') = '\0';
		if (!fnmatch(pattern, comm, 0) && is_kthread(dir))
			pids[nr++] = atoi(dir + strlen("/proc/"));
	}
	globfree(&found);
	return nr;
}

__u64 psi_threads_wait_ns(void)
{
	static const char * const patterns[] = { "psi", "psi_watch*", "psi_fold*" };
	pid_t pids[16];
	__u64 sum = 0;

	for (int p = 0; p < 3; p++)
		for (int nr = kernel_threads(patterns[p], pids, 16); nr; nr--)
			sum += task_wait_ns(pids[nr - 1]);
	return sum;
}
