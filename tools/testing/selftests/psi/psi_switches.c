// SPDX-License-Identifier: GPL-2.0
/* How often threads of the kernel run: see psi_switches.h. */
#include <stdio.h>
#include <string.h>

#include "psi_switches.h"

#define MAX_PID		262144
#define MAX_KTHREADS	4096

/* Switches to one task so far, 0 if it is gone. */
static __u64 switches_of(pid_t pid)
{
	unsigned long long voluntary, other;
	char path[64], buf[4096], *at;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (read_file(path, buf, sizeof(buf)) < 0)
		return 0;
	at = strstr(buf, "\nvoluntary_ctxt_switches:");
	if (!at || sscanf(at, "\nvoluntary_ctxt_switches: %llu nonvoluntary_ctxt_switches: %llu",
			  &voluntary, &other) != 2)
		psi_die("%s: cannot parse it", path);
	return voluntary + other;
}

/**
 * struct switches - switches to some threads so far
 * @sum: of all of them, also of those that have ended
 * @last: by pid, the count when the thread was last seen
 */
struct switches {
	__u64 sum;
	__u64 last[MAX_PID];
};

static __u64 switches_of_threads(struct switches *switches, const char *pattern)
{
	static pid_t pids[MAX_KTHREADS];
	int nr = kernel_threads(pattern, pids, MAX_KTHREADS);

	for (int i = 0; i < nr; i++) {
		__u64 now = switches_of(pids[i]), *last = &switches->last[pids[i]];

		if (pids[i] >= MAX_PID)
			psi_die("pid %d: there is no room for it", pids[i]);
		/* Fewer than before: the thread ended, and a new one has its pid. */
		switches->sum += now < *last ? now : now - *last;
		*last = now;
	}
	return switches->sum;
}

__u64 kthread_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "*");
}

__u64 monitor_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "psi_watch*");
}

__u64 rt_monitor_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "psi_watch_rt");
}

__u64 rt_monitor_ran_ns(void)
{
	char path[64];
	pid_t pid;

	if (kernel_threads("psi_watch_rt", &pid, 1) != 1)
		psi_die("there is no psi_watch_rt");
	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	return file_number(path, "");
}
