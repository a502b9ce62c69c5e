// SPDX-License-Identifier: GPL-2.0
/* Cgroups: see psi_cgroup.h. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "psi_util.h"

#define PATH_SIZE	512

/* ---- Creating and removing ---- */

static int remove_directory(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (type == FTW_DP && rmdir(path) && errno != ENOENT)
		psi_die("%s: %s", path, strerror(errno));
	return 0;
}

static bool has_tasks(const char *path)
{
	char name[PATH_SIZE];

	snprintf(name, sizeof(name), "%s/cgroup.events", path);
	return file_number(name, "populated");
}

void cgroup_remove(const char *path)
{
	cgroup_write(path, "cgroup.kill", "1");
	while (has_tasks(path))
		sleep_for(NSEC_PER_MSEC);
	nftw(path, remove_directory, 16, FTW_DEPTH | FTW_PHYS);
	if (!access(path, F_OK))
		psi_die("%s: cannot be removed", path);
}

/* Enables controllers in every cgroup above @path. */
static void enable_above(const char *path, const char *controllers)
{
	char ancestor[PATH_SIZE / 2];

	for (size_t len = strlen(CGROUP_ROOT); path[len]; len += 1 + strcspn(path + len + 1, "/")) {
		snprintf(ancestor, sizeof(ancestor), "%.*s", (int)len, path);
		cgroup_write(ancestor, "cgroup.subtree_control", controllers);
	}
}

void cgroup_create(const char *path, const char *controllers)
{
	if (*controllers)
		enable_above(path, controllers);
	if (!access(path, F_OK))
		cgroup_remove(path);
	if (mkdir(path, 0755))
		psi_die("%s: %s", path, strerror(errno));
}

/* ---- Tasks ---- */

void cgroup_moves_are_fast(void)
{
	if (mount(NULL, CGROUP_ROOT, NULL, MS_REMOUNT, "favordynmods"))
		psi_die("favordynmods: %s", strerror(errno));
}

void cgroup_move(const char *path, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	cgroup_write(path, "cgroup.procs", text);
}

void group_enter(const char *path)
{
	cgroup_create(path, "+io");
	cgroup_write(path, "cgroup.procs", "0");
}

void group_leave(void)
{
	cgroup_write(CGROUP_ROOT, "cgroup.procs", "0");
}

/* ---- Files ---- */

void cgroup_write(const char *path, const char *file, const char *text)
{
	char name[PATH_SIZE];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	write_file(name, text);
}

int cgroup_try_write(const char *path, const char *file, const char *text)
{
	ssize_t len = strlen(text);
	char name[PATH_SIZE];
	int fd, error = 0;

	snprintf(name, sizeof(name), "%s/%s", path, file);
	fd = open(name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (write(fd, text, len) != len)
		error = errno;
	close(fd);
	return error;
}

bool cgroup_has(const char *path, const char *file)
{
	char name[PATH_SIZE];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	return !access(name, F_OK);
}

void cgroup_psi_read(const char *path, const char *file, struct psi *psi)
{
	char name[PATH_SIZE];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	psi_read(name, psi);
}
