// SPDX-License-Identifier: GPL-2.0
/*
 * Many runnable tasks on a CPU, as hackbench does it: each of ten senders writes
 * messages to each of ten receivers, whose inboxes hold four.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"

enum {
	SENDERS = 10,
	RECEIVERS = 10,
	LOOPS = 50,		/* messages of each sender to each receiver */
	MESSAGES = SENDERS * RECEIVERS * LOOPS,
	ROUNDS = 11,
	LENGTH = 1024,
};

static int inbox[RECEIVERS][2], done[2], gate[2];

static void receive(int from)
{
	char message[LENGTH];
	int i;

	for (i = 0; i < SENDERS * LOOPS; i++)
		if (read(from, message, sizeof(message)) != sizeof(message))
			die("a message is cut");
	if (write(done[1], message, 1) != 1)
		die("a pipe broke");
}

static void send(void)
{
	char message[LENGTH] = "";
	int i, j;

	for (i = 0; i < LOOPS; i++)
		for (j = 0; j < RECEIVERS; j++)
			if (write(inbox[j][1], message, sizeof(message)) != sizeof(message))
				die("a message is cut");
}

/* A task that works when told to, once a round. */
static pid_t start(int number, const char *group)
{
	int round;
	char byte;
	pid_t pid;

	pid = fork_or_die();
	if (!pid) {
		for (round = 0; round < ROUNDS; round++) {
			if (number < RECEIVERS) {
				receive(inbox[number][0]);
				continue;
			}
			if (read(gate[0], &byte, 1) != 1)
				die("a pipe broke");
			send();
		}
		_exit(0);
	}
	cgroup_enter(group, pid);
	return pid;
}

/* Those of an own group of each, or all in one. */
static void measure(const char *name, unsigned int depth, bool apart)
{
	pid_t pids[RECEIVERS + SENDERS];
	char path[256], own[300], byte[SENDERS] = "";
	struct batches batches;
	uint64_t begin;
	size_t i, j;

	if (!wanted(name))
		return;
	cgroup_chain("", "a", depth, path, sizeof(path));
	pipe_or_die(done);
	pipe_or_die(gate);
	for (i = 0; i < RECEIVERS; i++)
		pipe_or_die(inbox[i]);
	for (i = 0; i < RECEIVERS; i++)
		if (fcntl(inbox[i][1], F_SETPIPE_SZ, 4 * LENGTH) != 4 * LENGTH)
			die("a pipe is too large");
	for (i = 0; i < ARRAY_SIZE(pids); i++) {
		snprintf(own, sizeof(own), "%s/%zu", path, i);
		if (apart)
			cgroup_make(own);
		pids[i] = start(i, apart ? own : path);
	}
	batches_init(&batches, ROUNDS);
	profile_begin();
	for (i = 0; i < ROUNDS; i++) {
		begin = now();
		if (write(gate[1], byte, SENDERS) != SENDERS)
			die("a pipe broke");
		for (j = 0; j < RECEIVERS; j++)
			if (read(done[0], byte, 1) != 1)
				die("a pipe broke");
		batches_add(&batches, now() - begin);
	}
	profile_end(ROUNDS * MESSAGES);
	result(batches_median(&batches) / MESSAGES, "%s", name);

	for (i = 0; i < ARRAY_SIZE(pids); i++) {
		wait_or_die(pids[i]);
		snprintf(own, sizeof(own), "%s/%zu", path, i);
		if (apart)
			cgroup_remove(own);
	}
	for (i = 0; i < RECEIVERS; i++) {
		close(inbox[i][0]);
		close(inbox[i][1]);
	}
	close(done[0]);
	close(done[1]);
	close(gate[0]);
	close(gate[1]);
	cgroup_remove_chain("", "a", depth);
}

void many(void)
{
	measure("leaf/0", 0, false);
	measure("leaf/1", 1, false);
	measure("leaf/8", 8, false);
	measure("siblings/1", 1, true);
	measure("siblings/8", 8, true);
}
