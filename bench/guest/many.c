// SPDX-License-Identifier: GPL-2.0
/*
 * Many runnable tasks on a CPU, as hackbench does it: each of ten senders writes
 * messages to each of ten receivers, whose inboxes hold four.  Up to 32 such crews
 * do so at the same time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum {
	SENDERS = 10,
	RECEIVERS = 10,
	LOOPS = 50,		/* messages of each sender to each receiver */
	MESSAGES = SENDERS * RECEIVERS * LOOPS,
	LENGTH = 1024,
};

static int inbox[RECEIVERS][2], done[2], gate[2];

static void put(int fd, const char *message, ssize_t length)
{
	if (write(fd, message, length) != length)
		die("a message is cut");
}

static void get(int fd, char *message, ssize_t length)
{
	if (read(fd, message, length) != length)
		die("a message is cut");
}

static void receive(int from)
{
	char message[LENGTH];
	int i;

	for (i = 0; i < SENDERS * LOOPS; i++)
		get(from, message, LENGTH);
	put(done[1], message, 1);
}

static void send_all(void)
{
	char message[LENGTH] = "";
	int i, j;

	for (i = 0; i < LOOPS; i++)
		for (j = 0; j < RECEIVERS; j++)
			put(inbox[j][1], message, LENGTH);
}

/* A member of the crew that was set up last; it works when told to, once a round. */
static pid_t start(int number)
{
	pid_t pid = fork_or_die();
	char byte;

	while (!pid) {
		if (number < RECEIVERS) {
			receive(inbox[number][0]);
			continue;
		}
		get(gate[0], &byte, 1);
		send_all();
	}
	return pid;
}

/* So many messages of all crews. */
static void one_round(unsigned int messages)
{
	int i, tasks = SENDERS * (messages / MESSAGES);
	char byte;

	for (i = 0; i < tasks; i++)
		put(gate[1], "", 1);
	for (i = 0; i < tasks; i++)
		get(done[0], &byte, 1);
}

/* All in one group, or each in one of its own. */
void many(const char *kind, unsigned int depth)
{
	int crews = strchr(kind, '/') ? atoi(strchr(kind, '/') + 1) : 1;
	const char *leaf = cgroup_chain("", "a", depth);
	int crew, i;
	pid_t pid;

	pipe_or_die(done);
	pipe_or_die(gate);
	for (crew = 0; crew < crews; crew++) {
		for (i = 0; i < RECEIVERS; i++) {
			pipe_or_die(inbox[i]);
			if (fcntl(inbox[i][1], F_SETPIPE_SZ, 4 * LENGTH) != 4 * LENGTH)
				die("a pipe is too large");
		}
		for (i = 0; i < RECEIVERS + SENDERS; i++) {
			char own[16];

			snprintf(own, sizeof(own), "%d", i);
			pid = start(i);
			cgroup_enter(strcmp(kind, "siblings") ? leaf : cgroup_chain(leaf, own, 1), pid);
		}
	}
	result(measure(NULL, one_round, crews * MESSAGES, crews > 2 ? 1 : 11));
}
