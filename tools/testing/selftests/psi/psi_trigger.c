// SPDX-License-Identifier: GPL-2.0
/* What the tests of triggers share: see psi_trigger.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "psi_trigger.h"

#define BLOCK		4096
#define DISK_MB		4

int trigger_open(const char *path)
{
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		psi_die("%s: %s", path, strerror(errno));
	return fd;
}

int trigger_open_user(const char *path)
{
	int fd;

	/* /proc/pressure is open to everyone, a cgroup's files are its owner's. */
	if (!strncmp(path, CGROUP_ROOT, strlen(CGROUP_ROOT)) && chown(path, USER, USER))
		psi_die("%s: %s", path, strerror(errno));
	if (seteuid(USER))
		psi_die("seteuid: %s", strerror(errno));
	fd = trigger_open(path);
	if (seteuid(0))
		psi_die("seteuid: %s", strerror(errno));
	return fd;
}

int trigger_write(int fd, const void *text, size_t len)
{
	ssize_t done = write(fd, text, len);

	if (done < 0)
		return errno;
	if ((size_t)done != len)
		psi_die("a write of %zu bytes returned %zd", len, done);
	return 0;
}

int trigger_set(int fd, const char *text)
{
	return trigger_write(fd, text, strlen(text));
}

/* With a NUL, which every kernel that has triggers takes. */
static int armed(int fd, const char *path, const char *text)
{
	int error = trigger_write(fd, text, strlen(text) + 1);

	if (error)
		psi_die("%s: cannot arm \"%s\": %s", path, text, strerror(error));
	return fd;
}

int trigger_arm(const char *path, const char *text)
{
	return armed(trigger_open(path), path, text);
}

int trigger_arm_user(const char *path, const char *text)
{
	return armed(trigger_open_user(path), path, text);
}

short poll_fd(int fd, short events, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	if (poll(&pfd, 1, ms) < 0)
		psi_die("poll: %s", strerror(errno));
	return pfd.revents;
}

bool trigger_fired(int fd, int ms)
{
	short revents = poll_fd(fd, POLLPRI, ms);

	if (revents & POLLERR)
		psi_die("the descriptor has no trigger");
	return revents & POLLPRI;
}

int trigger_count(int fd, __u64 end)
{
	int events = 0;
	__u64 now;

	while ((now = now_ns()) < end)
		events += trigger_fired(fd, (end - now) / NSEC_PER_MSEC + 1);
	return events;
}

void stalls_create(struct stalls *stalls, const char *name, __u64 latency)
{
	slow_disk_create(&stalls->disk, name, latency, DISK_MB);
	stalls->latency = latency;
	stalls->buf = aligned_alloc(BLOCK, BLOCK);
	stalls->fd = open(stalls->disk.node, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (!stalls->buf || stalls->fd < 0)
		psi_die("%s: %s", stalls->disk.node, strerror(errno));
	/* What opening the device for the first time reads is over. */
	stall(stalls);
}

void stalls_remove(struct stalls *stalls)
{
	close(stalls->fd);
	free(stalls->buf);
	slow_disk_remove(&stalls->disk);
}

void stall(const struct stalls *stalls)
{
	if (pread(stalls->fd, stalls->buf, BLOCK, 0) != BLOCK)
		psi_die("%s: %s", stalls->disk.node, strerror(errno));
}

void stall_times(const struct stalls *stalls, int times)
{
	while (times--)
		stall(stalls);
}

void group_leave(void)
{
	cgroup_write(CGROUP_ROOT, "cgroup.procs", "0");
}

void group_enter(const char *path)
{
	cgroup_create(path, "+io");
	cgroup_write(path, "cgroup.procs", "0");
}

#define PF_KTHREAD	0x00200000

/* Switches of one thread, 0 if it is none of the kernel, not called so, or gone. */
static __u64 switches_of(const char *pid, const char *name)
{
	unsigned long long voluntary, other;
	unsigned int flags;
	char path[64], buf[4096];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	if (read_file(path, buf, sizeof(buf)) < 0)
		return 0;
	at = strchr(buf, '(');
	if (!at || strncmp(at + 1, name, strlen(name)))
		return 0;
	at = strrchr(buf, ')');
	if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		psi_die("%s: cannot parse \"%s\"", path, buf);
	if (!(flags & PF_KTHREAD))
		return 0;
	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	if (read_file(path, buf, sizeof(buf)) < 0)
		return 0;
	at = strstr(buf, "\nvoluntary_ctxt_switches:");
	if (!at || sscanf(at, "\nvoluntary_ctxt_switches: %llu nonvoluntary_ctxt_switches: %llu",
			  &voluntary, &other) != 2)
		psi_die("%s: cannot parse it", path);
	return voluntary + other;
}

/**
 * struct switches - of some threads, so far
 * @sum: of all, also of who ended meanwhile
 * @last: by pid, what each had when it was last seen
 */
struct switches {
	__u64 sum;
	__u64 last[1 << 18];
};

/* Of all whose name begins so. */
static __u64 switches_of_threads(struct switches *switches, const char *name)
{
	struct dirent *entry;
	DIR *proc;

	proc = opendir("/proc");
	if (!proc)
		psi_die("/proc: %s", strerror(errno));
	while ((entry = readdir(proc))) {
		unsigned long pid = strtoul(entry->d_name, NULL, 10);
		__u64 now, *last;

		if (!pid)
			continue;
		if (pid >= ARRAY_SIZE(switches->last))
			psi_die("pid %lu: there is no room for so many", pid);
		now = switches_of(entry->d_name, name);
		last = &switches->last[pid];
		/* Fewer than before: it ended, and perhaps another one has its pid. */
		switches->sum += now < *last ? now : now - *last;
		*last = now;
	}
	closedir(proc);
	return switches->sum;
}

__u64 kthread_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "");
}

__u64 monitor_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "psi_watch");
}

__u64 rt_monitor_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "psi_watch_rt");
}
