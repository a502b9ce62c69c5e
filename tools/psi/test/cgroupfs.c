// SPDX-License-Identifier: GPL-2.0
/*
 * Cgroups for tests, by LD_PRELOAD: in a recorded tree, a cgroup that pressure
 * makes has the files of the one above it, and goes away with them.
 *
 * Of cgroup.procs the library knows what enters and not what ends. It reads no
 * other file. What is open of a cgroup that was removed cannot be read. A
 * tracing instance is a link to the directory "template" beside "instances".
 * With NO_FORK no process can be started, with NO_ROOM a file gets half of the
 * room that it asks for. With INTERRUPT that signal comes as soon as a cgroup
 * or a FIFO was made.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char * const own[] = { "cgroup.procs", "cgroup.kill", "memory.high" };

static void copy(int from, int to, const char *name)
{
	int in = openat(from, name, O_RDONLY), out = openat(to, name, O_WRONLY | O_CREAT, 0644);
	char text[16384];
	ssize_t got;

	while ((got = read(in, text, sizeof(text))) > 0)
		syscall(SYS_write, out, text, got);
	close(in);
	close(out);
}

/* Call for the files of a directory. */
static void for_files(const char *path, void (*call)(int at, int to, const char *name), int to)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_type == DT_REG)
			call(dirfd(dir), to, entry->d_name);
	if (dir)
		closedir(dir);
}

static void drop(int at, int unused, const char *name)
{
	(void)unused;
	unlinkat(at, name, 0);
}

static int is_cgroup(const char *path)
{
	return strstr(path, "/sys/fs/cgroup/") && strstr(path, "/pressure-");
}

static int is_instance(const char *path)
{
	return !!strstr(path, "/tracing/instances/");
}

static void interrupt(void)
{
	const char *number = getenv("INTERRUPT");

	if (number)
		raise(atoi(number));
}

int mkfifo(const char *path, mode_t mode)
{
	int error = syscall(SYS_mknodat, AT_FDCWD, path, S_IFIFO | mode, 0);

	interrupt();
	return error;
}

int mkdir(const char *path, mode_t mode)
{
	char above[PATH_MAX];
	int error, fd;

	error = is_instance(path) ? symlink("../template", path) :
		syscall(SYS_mkdirat, AT_FDCWD, path, mode);
	if (error || !is_cgroup(path))
		return error;
	fd = open(path, O_RDONLY | O_DIRECTORY);
	snprintf(above, sizeof(above), "%.*s", (int)(strrchr(path, '/') - path), path);
	for_files(above, copy, fd);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		close(openat(fd, own[i], O_WRONLY | O_CREAT, 0644));
	/* A new one has done no io. */
	close(openat(fd, "io.stat", O_WRONLY | O_TRUNC));
	close(fd);
	interrupt();
	return 0;
}

int rmdir(const char *path)
{
	if (is_cgroup(path))
		for_files(path, drop, 0);
	return is_instance(path) ? unlink(path) : syscall(SYS_rmdir, path);
}

ssize_t pread(int fd, void *data, size_t size, off_t at)
{
	char link[64], path[PATH_MAX] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "/sys/fs/cgroup/") &&
	    strstr(path, " (deleted)")) {
		errno = ENODEV;
		return -1;
	}
	return syscall(SYS_pread64, fd, data, size, at);
}

pid_t fork(void)
{
	__typeof__(fork) *real = dlsym(RTLD_NEXT, "fork");

	errno = EAGAIN;
	return getenv("NO_FORK") ? -1 : real();
}

/* As ext4 does it on a disk that gets full. */
int posix_fallocate(int fd, off_t at, off_t length)
{
	if (!getenv("NO_ROOM"))
		return syscall(SYS_fallocate, fd, 0, at, length) ? errno : 0;
	return ftruncate(fd, at + length / 2) ? errno : ENOSPC;
}

/* A 0 in cgroup.procs is the process that writes it. */
ssize_t write(int fd, const void *data, size_t size)
{
	char link[64], path[PATH_MAX], pid[16];
	ssize_t length = 0;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (size == 1 && *(const char *)data == '0')
		length = readlink(link, path, sizeof(path) - 1);
	if (length > 0) {
		path[length] = 0;
		if (strstr(path, "/cgroup.procs")) {
			length = snprintf(pid, sizeof(pid), "%d\n", getpid());
			/* Others may enter at the same moment. */
			fcntl(fd, F_SETFL, O_APPEND);
			return syscall(SYS_write, fd, pid, length) == length ? 1 : -1;
		}
	}
	return syscall(SYS_write, fd, data, size);
}
