// SPDX-License-Identifier: GPL-2.0
/* Triggers: see psi_trigger.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "psi_trigger.h"

static void become(uid_t user)
{
	if (seteuid(user))
		psi_die("seteuid: %s", strerror(errno));
}

int trigger_open_as(bool user, const char *path)
{
	int fd;

	/* Everyone may open /proc/pressure, only its owner a cgroup's file. */
	if (user && !strncmp(path, CGROUP_ROOT, strlen(CGROUP_ROOT)) && chown(path, USER, USER))
		psi_die("%s: %s", path, strerror(errno));
	if (user)
		become(USER);
	fd = open_file(path, O_RDWR | O_NONBLOCK);
	if (user)
		become(0);
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

/* With the NUL: every kernel that has triggers accepts a text with one. */
int trigger_arm_as(bool user, const char *path, const char *fmt, ...)
{
	int fd = trigger_open_as(user, path), error;
	char text[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	error = trigger_write(fd, text, strlen(text) + 1);
	if (error)
		psi_die("%s: cannot arm \"%s\": %s", path, text, strerror(error));
	return fd;
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
