// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of cpu.pressure.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	READS = 51,
	ROUNDS = 5,
};

/* PAUSE is the time between two reads. */
static void measure(const char *name, int fd, uint64_t pause)
{
	struct batches batches;
	uint64_t begin, next;
	int i;

	if (!wanted(name))
		return;
	batches_init(&batches, READS);
	read_file(fd);
	next = now();
	profile_begin();
	for (i = 0; i < READS; i++) {
		if (pause)
			sleep_until(next += pause);
		begin = now();
		read_file(fd);
		batches_add(&batches, now() - begin);
	}
	profile_end(READS);
	result(batches_median(&batches), "%s", name);
}

/* A task that works all the time, in the group. */
static pid_t spinner(const char *cgroup)
{
	pid_t pid;

	pid = fork_or_die();
	if (!pid)
		for (;;)
			;
	cgroup_enter(cgroup, pid);
	return pid;
}

static void states_of_a_group(void)
{
	int fd;

	fd = open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("/proc/pressure/cpu");
	measure("system", fd, 0);
	close(fd);

	cgroup_make("/a");
	fd = cgroup_open("/a", "cpu.pressure");
	measure("unused", fd, 0);
	cgroup_visit_cpus("/a");
	measure("used", fd, 0);
	close(fd);
	cgroup_remove("/a");
}

static void rates(void)
{
	pid_t pid;
	int fd;

	cgroup_make("/a");
	fd = cgroup_open("/a", "cpu.pressure");
	pid = spinner("/a");
	measure("stalled/at-once", fd, 0);
	measure("stalled/10kHz", fd, 100000);
	measure("stalled/1kHz", fd, 1000000);
	measure("stalled/100Hz", fd, 10000000);
	close(fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cgroup_remove("/a");
}

/* As a monitor does it: open, read and close the file of each of many groups. */
static void scrape(unsigned int groups)
{
	struct batches batches;
	unsigned int i, j;
	uint64_t begin;
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "scrape/%u", groups);
	if (!wanted(name))
		return;
	for (i = 0; i < groups; i++)
		cgroup_make(cgroup_numbered(i));
	batches_init(&batches, ROUNDS);
	for (j = 0; j < ROUNDS; j++) {
		begin = now();
		for (i = 0; i < groups; i++) {
			fd = cgroup_open(cgroup_numbered(i), "cpu.pressure");
			read_file(fd);
			close(fd);
		}
		batches_add(&batches, now() - begin);
	}
	result(batches_median(&batches) / groups, "%s", name);
	for (i = 0; i < groups; i++)
		cgroup_remove(cgroup_numbered(i));
}

void reads(void)
{
	/* Without PSI there is nothing to read. */
	if (access("/proc/pressure/cpu", F_OK))
		return;
	states_of_a_group();
	rates();
	scrape(1);
	scrape(10);
	scrape(100);
	scrape(500);
	scrape(2000);
}
