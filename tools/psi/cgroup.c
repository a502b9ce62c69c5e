// SPDX-License-Identifier: GPL-2.0
/* Cgroups by name, and cgroups of our own. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pressure.h"

#define REMOVE_TRIES	200	/* of 10 ms: killed processes leave soon */

static int checked_path(char *path, size_t size, int length)
{
	struct stat status;

	if (length < 0 || (size_t)length >= size)
		return -ENAMETOOLONG;
	if (stat(path, &status))
		return -errno;
	return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

/**
 * cgroup_find() - directory of a cgroup
 * @path: where it is written
 * @size: bytes there
 * @name: "/a/b" or "a/b" below the mount, its directory, or "." for the own one
 *
 * Return: 0, or a negative errno
 */
int cgroup_find(char *path, size_t size, const char *name)
{
	char mount[PATH_MAX];
	int error;

	if (!strcmp(name, "."))
		return psi_cgroup_own(path, size);
	error = psi_cgroup_mount(mount, sizeof(mount));
	if (error)
		return error;
	if (!strncmp(name, mount, strlen(mount)) && strchr("/", name[strlen(mount)]))
		return checked_path(path, size, snprintf(path, size, "%s", name));
	while (*name == '/')
		name++;
	return checked_path(path, size,
			    snprintf(path, size, "%s%s%s", mount, *name ? "/" : "", name));
}

/* The same, or the end of the program; @path has room for PATH_MAX bytes. */
void cgroup_find_or_die(char *path, const char *name)
{
	int error = cgroup_find(path, PATH_MAX, name);

	if (error)
		die("there is no cgroup '%s' (%s); systemd-cgls lists them", name, explain(error));
}

/**
 * cgroup_make() - make a cgroup below that of this process
 * @path: where its directory is written
 * @size: bytes there
 * @name: what its name begins with
 *
 * Return: 0, or a negative errno
 */
int cgroup_make(char *path, size_t size, const char *name)
{
	char own[PATH_MAX];
	int error = psi_cgroup_own(own, sizeof(own));

	if (error)
		return error;
	if (snprintf(path, size, "%s/%s-%d", own, name, getpid()) >= (int)size)
		return -ENAMETOOLONG;
	return mkdir(path, 0755) ? -errno : 0;
}

int cgroup_write(const char *path, const char *file, const char *text)
{
	char *name = text_of("%s/%s", path, file);
	int error = write_file(name, text);

	free(name);
	return error;
}

int cgroup_enter(const char *path)
{
	return cgroup_write(path, "cgroup.procs", "0");
}

/* Signal what runs in a cgroup, not below it; how many processes. */
int cgroup_signal(const char *path, int signal)
{
	char *name = text_of("%s/cgroup.procs", path);
	FILE *file = fopen(name, "re");
	int pid, count = 0;

	while (file && fscanf(file, "%d", &pid) == 1)
		count += !kill(pid, signal);
	if (file)
		fclose(file);
	free(name);
	return count;
}

/* Also cgroups that the program made; 0 or -1 with errno. */
static int remove_tree(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *below;

		if (entry->d_type != DT_DIR || !strcmp(entry->d_name, ".") ||
		    !strcmp(entry->d_name, ".."))
			continue;
		below = text_of("%s/%s", path, entry->d_name);
		remove_tree(below);
		free(below);
	}
	if (dir)
		closedir(dir);
	return rmdir(path);
}

/* Remove a cgroup of ours; with @kill, end what still runs there. */
void cgroup_remove(const char *path, bool kill)
{
	for (int i = 0; i < (kill ? REMOVE_TRIES : 1); i++) {
		if (!remove_tree(path) || errno != EBUSY)
			return;
		if (kill)
			cgroup_write(path, "cgroup.kill", "1");
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	complain("processes still run in %s: remove it with rmdir when they are gone", path);
}
