// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel threads for groups with a privileged trigger each.
 */
#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum {
	GROUPS = 32,
	KERNEL_THREAD = 0x00200000,	/* PF_KTHREAD */
};

/* But for those of the workqueues, which come and go. */
static bool counts(const char *pid)
{
	char path[300], line[512];
	unsigned int flags = 0;
	char *end = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fgets(line, sizeof(line), file))
		end = strrchr(line, ')');
	fclose(file);
	if (!end || sscanf(end, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		die("%s", path);
	return flags & KERNEL_THREAD && !strstr(line, "(kworker/");
}

static int kernel_threads(void)
{
	struct dirent *entry;
	int nr = 0;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		die("/proc");
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]) && counts(entry->d_name))
			nr++;
	closedir(dir);
	return nr;
}

void threads(void)
{
	char path[256];
	int i, before;

	before = kernel_threads();
	for (i = 0; i < GROUPS; i++) {
		cgroup_make(cgroup_numbered(i));
		if (!cgroup_has(cgroup_numbered(i), "cpu.pressure"))
			continue;
		snprintf(path, sizeof(path), "%s%s/cpu.pressure", CGROUPS, cgroup_numbered(i));
		trigger_arm(path, "some 500000 1000000");
	}
	result(kernel_threads() - before, "groups/%d", GROUPS);
}
