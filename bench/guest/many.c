// SPDX-License-Identifier: GPL-2.0
/*
 * Many runnable tasks on a CPU, as hackbench does it: each of ten senders writes
 * messages to each of ten receivers, whose inboxes hold four.  Up to 32 such crews
 * do so at the same time.
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
	CREWS = 32,
	LENGTH = 1024,
};

static int inbox[CREWS][RECEIVERS][2], done[2], gate[2];

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

static void send(int crew)
{
	char message[LENGTH] = "";
	int i, j;

	for (i = 0; i < LOOPS; i++)
		for (j = 0; j < RECEIVERS; j++)
			if (write(inbox[crew][j][1], message, sizeof(message)) != sizeof(message))
				die("a message is cut");
}

/* A task that works when told to, once a round. */
static pid_t start(int crew, int number, int rounds, const char *group)
{
	int round;
	char byte;
	pid_t pid;

	pid = fork_or_die();
	if (!pid) {
		for (round = 0; round < rounds; round++) {
			if (number < RECEIVERS) {
				receive(inbox[crew][number][0]);
				continue;
			}
			if (read(gate[0], &byte, 1) != 1)
				die("a pipe broke");
			send(crew);
		}
		_exit(0);
	}
	cgroup_enter(group, pid);
	return pid;
}

/* How long all messages of a round take. */
static uint64_t one_round(int crews)
{
	uint64_t begin = now();
	int i;

	for (i = 0; i < crews * SENDERS; i++)
		if (write(gate[1], "", 1) != 1)
			die("a pipe broke");
	for (i = 0; i < crews * RECEIVERS; i++) {
		char byte;

		if (read(done[0], &byte, 1) != 1)
			die("a pipe broke");
	}
	return now() - begin;
}

/* Those of an own group of each, or all in one. */
static void measure(int crews, unsigned int depth, bool apart, const char *name)
{
	int crew, i, rounds = crews > 2 ? 1 : 11;
	pid_t pids[CREWS][RECEIVERS + SENDERS];
	char path[256], own[300];
	struct batches batches;

	if (!wanted(name))
		return;
	cgroup_chain("", "a", depth, path, sizeof(path));
	pipe_or_die(done);
	pipe_or_die(gate);
	for (crew = 0; crew < crews; crew++) {
		for (i = 0; i < RECEIVERS; i++) {
			pipe_or_die(inbox[crew][i]);
			if (fcntl(inbox[crew][i][1], F_SETPIPE_SZ, 4 * LENGTH) != 4 * LENGTH)
				die("a pipe is too large");
		}
	}
	for (crew = 0; crew < crews; crew++) {
		for (i = 0; i < RECEIVERS + SENDERS; i++) {
			snprintf(own, sizeof(own), "%s/%d", path, i);
			if (apart)
				cgroup_make(own);
			pids[crew][i] = start(crew, i, rounds, apart ? own : path);
		}
	}
	batches_init(&batches, rounds);
	profile_begin();
	for (i = 0; i < rounds; i++)
		batches_add(&batches, one_round(crews));
	profile_end(rounds * crews * MESSAGES);
	result(batches_median(&batches) / crews / MESSAGES, "%s", name);

	for (crew = 0; crew < crews; crew++) {
		for (i = 0; i < RECEIVERS + SENDERS; i++) {
			wait_or_die(pids[crew][i]);
			snprintf(own, sizeof(own), "%s/%d", path, i);
			if (apart)
				cgroup_remove(own);
		}
		for (i = 0; i < RECEIVERS; i++) {
			close(inbox[crew][i][0]);
			close(inbox[crew][i][1]);
		}
	}
	close(done[0]);
	close(done[1]);
	close(gate[0]);
	close(gate[1]);
	cgroup_remove_chain("", "a", depth);
}

void many(void)
{
	char name[32];
	int crews, depth;

	measure(1, 0, false, "leaf/0");
	measure(1, 1, false, "leaf/1");
	measure(1, 8, false, "leaf/8");
	measure(1, 1, true, "siblings/1");
	measure(1, 8, true, "siblings/8");
	for (depth = 0; depth <= 8; depth += 4) {
		for (crews = 1; crews <= CREWS; crews *= 2) {
			snprintf(name, sizeof(name), "hackbench/%d/%d", crews, depth);
			measure(crews, depth, false, name);
		}
	}
}
