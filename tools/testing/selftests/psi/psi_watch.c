// SPDX-License-Identifier: GPL-2.0
/*
 * Wait for pressure, and print it
 *
 *	psi_watch [FILE [TRIGGER [EVENTS]]]
 *	psi_watch /sys/fs/cgroup/web/memory.pressure "full 100000 2000000"
 *
 * Returns 0 after EVENTS events, 1 on an error, 2 when the cgroup is removed or
 * its pressure is switched off. Documentation/accounting/psi.rst shows this
 * example.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/proc/pressure/memory";
	/* 150 ms of stall within 2 s: any user may arm this. */
	const char *trigger = argc > 2 ? argv[2] : "some 150000 2000000";
	int left = argc > 3 ? atoi(argv[3]) : -1;
	struct pollfd pfd = { .events = POLLPRI };
	char text[256];
	ssize_t len;

	pfd.fd = open(path, O_RDWR | O_CLOEXEC);
	if (pfd.fd < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	/* Stalls count from here on. Some kernels need the NUL. */
	if (write(pfd.fd, trigger, strlen(trigger) + 1) < 0) {
		fprintf(stderr, "%s: cannot wait for \"%s\": %s\n", path, trigger, strerror(errno));
		return 1;
	}
	printf("waiting for \"%s\" in %s\n", trigger, path);
	fflush(stdout);

	while (left) {
		if (poll(&pfd, 1, -1) < 0) {
			if (errno == EINTR)
				continue;
			perror("poll");
			return 1;
		}
		/* POLLERR comes together with POLLPRI, so check it first. */
		if (pfd.revents & POLLERR) {
			printf("%s is gone\n", path);
			return 2;
		}
		/* Reading the file does not disarm the trigger. */
		len = pread(pfd.fd, text, sizeof(text) - 1, 0);
		if (len < 0)
			continue;
		text[len] = '\0';
		printf("event\n%s", text);
		fflush(stdout);
		if (left > 0)
			left--;
	}
	/* The last close of the file, here by exiting, removes the trigger. */
	return 0;
}
