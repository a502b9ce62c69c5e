// SPDX-License-Identifier: GPL-2.0
/* Cgroups by name, and cgroups of our own. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pressure.h"

#define TRIES	1000	/* to find a name that is not taken */
#define LEAVE	5	/* s; so long it may take processes to end, once they are killed */

static int checked_path(char *path, size_t size, int length)
{
	struct stat status;

	if (length < 0 || (size_t)length >= size)
		return -ENAMETOOLONG;
	if (stat(path, &status))
		return -errno;
	return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

/*
 * Make a path, which begins with a slash, that of a cgroup: no slash is doubled
 * or the last one.  Below . and .. a cgroup would have another name.
 */
static int normalise(char *path)
{
	const char *from = path + strspn(path, "/");
	char *to = path;

	while (*from) {
		size_t length = strcspn(from, "/");

		if (*from == '.' && (length == 1 || (length == 2 && from[1] == '.')))
			return -EINVAL;
		*to++ = '/';
		memmove(to, from, length);
		to += length;
		from += length;
		from += strspn(from, "/");
	}
	*to = 0;
	return 0;
}

/* The path of a cgroup below the mount, where that is known, allocated; or NULL. */
static char *name_of(const char *name, const char *mount)
{
	char *path;

	if (*mount && !strncmp(name, mount, strlen(mount)) && strchr("/", name[strlen(mount)]))
		name += strlen(mount);
	path = text_of("/%s", name);
	if (!normalise(path))
		return path;
	free(path);
	return NULL;
}

/**
 * cgroup_find() - directory of a cgroup
 * @path: where it is written
 * @size: bytes there
 * @name: "/a/b" or "a/b" below the mount, its directory, or "." for the own one
 *
 * Return: 0, or a negative errno; -EINVAL for . or .. in a path
 */
static int cgroup_find(char *path, size_t size, const char *name)
{
	char mount[PATH_MAX], *below;
	int error;

	if (!strcmp(name, "."))
		return psi_cgroup_own(path, size);
	error = psi_cgroup_mount(mount, sizeof(mount));
	if (error)
		return error;
	below = name_of(name, mount);
	if (!below)
		return -EINVAL;
	error = checked_path(path, size, snprintf(path, size, "%s%s", mount, below));
	free(below);
	return error;
}

/* The same, or the end of the program; @path has room for PATH_MAX bytes. */
void cgroup_find_or_die(char *path, const char *name)
{
	int error = cgroup_find(path, PATH_MAX, name);

	if (error == -EINVAL)
		die("'%s': a path of a cgroup has no . and no ..; . alone is the own cgroup", name);
	if (error)
		die("there is no cgroup '%s' (%s); systemd-cgls lists them", name, explain(error));
}

/* How a record calls a cgroup, allocated. */
char *cgroup_name_or_die(const char *name)
{
	char mount[PATH_MAX] = "", *path;

	psi_cgroup_mount(mount, sizeof(mount));
	path = name_of(name, mount);
	if (!path)
		die("'%s': of a record, write the path of a cgroup, without . and ..", name);
	return *path ? path : text_of("/");
}

/**
 * cgroup_of() - the cgroup of a task
 * @directory: of the task, in /proc
 *
 * Return: its path in cgroup v2, allocated; NULL when it is gone
 */
char *cgroup_of(const char *directory)
{
	char *path = text_of("%s/cgroup", directory), text[PATH_MAX + 4096];
	const char *line = NULL;

	if (read_text(path, text, sizeof(text)) > 0)
		line = strncmp(text, "0::", 3) ? strstr(text, "\n0::") : text - 1;
	free(path);
	return line ? text_of("%.*s", (int)strcspn(line + 4, "\n"), line + 4) : NULL;
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
	char own[PATH_MAX], number[16] = "";
	int error = psi_cgroup_own(own, sizeof(own));

	/* Another PID namespace may have a process of that number, in the same cgroup. */
	for (int i = 1; !error; i++) {
		if (snprintf(path, size, "%s/%s-%d%s", own, name, getpid(), number) >= (int)size)
			return -ENAMETOOLONG;
		if (!mkdir(path, 0755))
			return 0;
		if (errno != EEXIST || i == TRIES)
			return -errno;
		snprintf(number, sizeof(number), ".%d", i);
	}
	return error;
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

/* Whether processes are in a cgroup, or below it. */
bool cgroup_populated(const char *path)
{
	char *name = text_of("%s/cgroup.events", path), text[128];

	read_text(name, text, sizeof(text));
	free(name);
	return strstr(text, "populated 1");
}

/* Call for a cgroup and all below it, which come first; the sum of results. */
int cgroup_for_tree(const char *path, int (*call)(const char *path, void *arg), void *arg)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int sum = 0;

	while (dir && (entry = readdir(dir))) {
		char *below;

		if (entry->d_type != DT_DIR || !strcmp(entry->d_name, ".") ||
		    !strcmp(entry->d_name, ".."))
			continue;
		below = text_of("%s/%s", path, entry->d_name);
		sum += cgroup_for_tree(below, call, arg);
		free(below);
	}
	if (dir)
		closedir(dir);
	return sum + call(path, arg);
}

static int signal_one(const char *path, void *signal)
{
	char *name = text_of("%s/cgroup.procs", path);
	FILE *file = fopen(name, "re");
	int pid, count = 0;

	while (file && fscanf(file, "%d", &pid) == 1)
		count += !kill(pid, *(int *)signal);
	if (file)
		fclose(file);
	free(name);
	return count;
}

/* Signal what runs in a cgroup and below it; how many processes. */
int cgroup_signal(const char *path, int signal)
{
	return cgroup_for_tree(path, signal_one, &signal);
}

static int remove_one(const char *path, void *unused)
{
	(void)unused;
	return rmdir(path);
}

/*
 * A process that was killed, or whose parent does not wait for it, still has
 * memory to free: until then its cgroup is populated, and rmdir says EBUSY.
 */
static void wait_until_empty(const char *path)
{
	char *name = text_of("%s/cgroup.events", path), text[128] = "";
	struct pollfd file = { .fd = open(name, O_RDONLY | O_CLOEXEC), .events = POLLPRI };
	double end = now() + LEAVE;

	/* Only what changed since the file was read wakes a poll. */
	while (pread(file.fd, text, sizeof(text) - 1, 0) > 0 && strstr(text, "populated 1") &&
	       now() < end) {
		progress("waiting for processes of the command to end");
		poll(&file, 1, poll_ms(end - now()));
	}
	progress_end();
	close(file.fd);
	free(name);
}

/*
 * Remove a cgroup of ours and those that the program made below it, once their
 * processes ended; with @kill, end them.
 */
void cgroup_remove(const char *path, bool kill)
{
	if (kill)
		cgroup_write(path, "cgroup.kill", "1");
	wait_until_empty(path);
	if (cgroup_for_tree(path, remove_one, NULL) && errno == EBUSY)
		complain("processes still run in %s: remove it with rmdir when they are gone",
			 path);
}
