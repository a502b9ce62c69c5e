// SPDX-License-Identifier: GPL-2.0
/*
 * Run one workload and state what it cost.
 *
 *	bench WORKLOAD [PATTERN...]
 *
 * The output is TAP.  A line "# value NAME NUMBER" is a result.  With patterns,
 * only the cases that one of them matches are measured.
 */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/*
 * Cases with the same kind are together: KIND/NUMBER,NUMBER.  They come in this order.  Exact pressure
 * of the system is asked for, and limits are known, for longer than a case takes: these come last.
 */
static const struct workload {
	const char *name;
	workload_t *run;
	const char *cases;
} workloads[] = {
	{ "beside", beside, "leaf/0,8 exact/0,8" },
	{ "fork", forks, "leaf/0,1,8" },
	{ "idle", idle, "leaf/0,1,4,8 exact/0,8 forgotten/0,8" },
	{ "isolated", isolated, "" },
	{ "latency", latency, "nothing rmdir fold read trigger off-on sampler sampler/triggers" },
	{ "latency", latency, "read/triggers trigger/triggers fold/groups" },
	{ "limits", limits, "armed/8 held/1,8" },
	{ "lines", lines, "known readers read trigger upkeep" },
	{ "many", many, "leaf/0,1,8 siblings/1,8 hackbench/1/0,4,8 hackbench/2/0,4,8 hackbench/4/0,4,8" },
	{ "many", many, "hackbench/8/0,4,8 hackbench/16/0,4,8 hackbench/32/0,4,8" },
	{ "memory", memory, "" },
	{ "memstall", memstall, "leaf/1,4,8" },
	{ "million", million, "" },
	{ "pingpong", pingpong, "leaf/0,1,2,4,8,16 siblings/1,2,4,8,16 disjoint/1,2,4,8,16" },
	{ "pingpong", pingpong, "pressure=0/8 armed/8" },
	{ "pingpong", pingpong, "batch/leaf/0,1,2,4,8,16 batch/siblings/1,2,4,8,16 batch/disjoint/1,2,4,8,16" },
	{ "pingpong", pingpong, "batch/pressure=0/8 batch/armed/8" },
	{ "read", reads, "system unused used stalled/at-once stalled/10kHz stalled/1kHz stalled/100Hz" },
	{ "read", reads, "scrape/1,10,100,500,2000" },
	{ "remote", remote, "leaf/0,1,8 exact/0,8" },
	{ "threads", threads, "groups/32" },
	{ "throttle", throttle, "tasks/1,10" },
	{ "together", together, "leaf/0,8 exact/0,8" },
	{ "trigger", triggers, "arm system/0,1,10,100,500,2000 groups/1,32,500" },
	{ "upkeep", upkeep, "groups/10,100,500,2000" },
};

static char **patterns;

static int remove_group(const char *path, const struct stat *stat, int type, struct FTW *where)
{
	(void)stat;
	if (type == FTW_DP && where->level)
		directory_remove(path);
	return 0;
}

/* Runs a case, in a process group of its own, after what the last one left is gone. */
static void run(const struct workload *workload, const char *kind, unsigned int number)
{
	static pid_t last;
	char **pattern = patterns;

	while (*pattern && fnmatch(*pattern, case_name, 0))
		pattern++;
	if (*patterns && !*pattern && *case_name)
		return;
	if (last) {
		kill(-last, SIGKILL);
		while (wait(NULL) > 0)
			;
		nftw(CGROUPS, remove_group, 16, FTW_DEPTH | FTW_PHYS);
	}
	last = fork_or_die();
	if (!last) {
		setpgid(0, 0);
		workload->run(kind, number);
		exit(0);
	}
	wait_or_die(last);
}

static void run_all(const struct workload *workload)
{
	char cases[512], *kind, *numbers, *number, *rest;

	if (!*workload->cases)
		run(workload, "", 0);
	strcpy(cases, workload->cases);
	for (kind = strtok_r(cases, " ", &rest); kind; kind = strtok_r(NULL, " ", &rest)) {
		numbers = strrchr(kind, '/');
		if (!numbers || numbers[1 + strspn(numbers + 1, "0123456789,")]) {
			snprintf(case_name, sizeof(case_name), "%s", kind);
			run(workload, kind, 0);
			continue;
		}
		*numbers++ = 0;
		while ((number = strsep(&numbers, ","))) {
			snprintf(case_name, sizeof(case_name), "%s/%s", kind, number);
			run(workload, kind, atoi(number));
		}
	}
}

int main(int argc, char **argv)
{
	bool known = false;
	size_t i;

	if (argc < 2)
		die("usage: bench WORKLOAD [PATTERN...]");
	patterns = argv + 2;
	/* What a case leaves becomes ours, to wait for. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	printf("1..1\n");
	for (i = 0; i < ARRAY_SIZE(workloads); i++) {
		if (strcmp(argv[1], workloads[i].name))
			continue;
		run_all(&workloads[i]);
		known = true;
	}
	if (!known)
		die("there is no workload %s", argv[1]);
	printf("ok 1 %s\n", argv[1]);
	return 0;
}
