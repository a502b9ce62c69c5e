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

/* ---- Limit or shortage ---- */

#define CLASS_WINDOW	(2 * NSEC_PER_SEC)
#define CLASS_THRESHOLD	(CLASS_WINDOW / 20)

static void class_triggers_arm(const char *cgroup, const char *resource, int fd[2])
{
	static const char * const lines[] = { "limit.some", "shortage.some" };
	char path[128];

	snprintf(path, sizeof(path), cgroup ? "%s" CGROUP_STAT : "%s/stat", cgroup ?: PSI_DIR);
	for (int i = 0; i < 2; i++)
		fd[i] = trigger_arm(path, "%s.%s %llu %llu", resource, lines[i],
				    CLASS_THRESHOLD / NSEC_PER_USEC, CLASS_WINDOW / NSEC_PER_USEC);
}

void classes_measure(const char * const groups[NR_CLASS_GROUPS], const char *resource, __u64 ns,
		     struct classes c[NR_CLASS_GROUPS])
{
	int fd[NR_CLASS_GROUPS][2];
	__u64 begin;

	for (int i = 0; i < NR_CLASS_GROUPS; i++) {
		classes_read(groups[i], resource, &c[i]);
		class_triggers_arm(groups[i], resource, fd[i]);
	}
	begin = now_ns();
	sleep_for(ns);
	for (int i = 0; i < NR_CLASS_GROUPS; i++) {
		classes_since(groups[i], resource, now_ns() - begin, &c[i]);
		for (int j = 0; j < 2; j++) {
			c[i].fired[j] = trigger_fired(fd[i][j], 0);
			close(fd[i][j]);
		}
	}
}

/* In us: totals are rounded, at the begin and at the end. */
#define CLASS_ROUNDING	4

const char *classes_contradiction(const struct classes *c, __u64 ns)
{
	static const char * const silent[] = {
		"a trigger on limits is silent", "a trigger on shortages is silent"
	};
	static const char * const fired[] = {
		"a trigger on limits fired", "a trigger on shortages fired"
	};
	const double least = 100.0 * CLASS_THRESHOLD / ns, enough = 10;
	const double grown[2] = { c->limit[0], c->shortage[0] };
	const double rounding = 1e5 * CLASS_ROUNDING / ns;

	for (int i = 0; i < 2; i++) {
		double more = c->limit[i] > c->shortage[i] ? c->limit[i] : c->shortage[i];

		if (more > c->exact[i] + rounding)
			return "a class has more than the exact pressure";
		if (c->exact[i] > c->limit[i] + c->shortage[i] + rounding)
			return "the classes have less than the exact pressure";
		if (!c->fired[i] && grown[i] >= enough)
			return silent[i];
		if (c->fired[i] && grown[i] < least)
			return fired[i];
	}
	return NULL;
}
