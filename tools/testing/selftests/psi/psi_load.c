// SPDX-License-Identifier: GPL-2.0
/* Loads: see psi_load.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "psi_util.h"

/* ---- Children ---- */

pid_t fork_or_die(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		psi_die("fork: %s", strerror(errno));
	return pid;
}

int reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		psi_die("waitpid %d: %s", pid, strerror(errno));
	return status;
}

int reap_exit(pid_t pid)
{
	int status = reap(pid);

	if (!WIFEXITED(status))
		psi_die("a child died: wait status %#x", status);
	return WEXITSTATUS(status);
}

static void load_child(const struct load *load, int ready)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		psi_die("prctl: %s", strerror(errno));
	if (getppid() == 1)
		_exit(KSFT_FAIL);
	if (load->cgroup)
		cgroup_write(load->cgroup, "cgroup.procs", "0");
	if (load->cpu >= 0)
		pin_to(load->cpu);
	set_policy(0, load->policy, load->prio);
	if (write(ready, "", 1) != 1)
		psi_die("load: %s", strerror(errno));
	close(ready);
	load->fn(load->arg);
	_exit(KSFT_PASS);
}

pid_t load_start(const struct load *load)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe2(ready, O_CLOEXEC))
		psi_die("pipe: %s", strerror(errno));
	pid = fork_or_die();
	if (!pid) {
		close(ready[0]);
		load_child(load, ready[1]);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		psi_die("a load failed to start");
	close(ready[0]);
	return pid;
}

void load_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	reap(pid);
}

void load_wait(pid_t pid)
{
	int status = reap(pid);

	if (status)
		psi_die("a load failed: wait status %#x", status);
}

/* ---- Spinners ---- */

void spin(void *arg)
{
	for (;;)
		asm volatile("" ::: "memory");
}

pid_t spin_on(int cpu)
{
	const struct load load = { .cpu = cpu, .fn = spin };

	return load_start(&load);
}

void spin_pair_start(pid_t pid[2], const char *cgroup)
{
	const struct load load = { .cgroup = cgroup, .fn = spin };

	for (int i = 0; i < 2; i++)
		pid[i] = load_start(&load);
}

void spin_pair_stop(const pid_t pid[2])
{
	for (int i = 0; i < 2; i++)
		load_stop(pid[i]);
}

void spin_for(void *ns)
{
	spin_until(now_ns() + *(__u64 *)ns);
}

/* ---- A load that reads a file ---- */

void poll_file(void *arg)
{
	struct poller *poller = arg;
	int fd = open_file(poller->path, O_RDONLY);
	__u64 next = now_ns();
	char buf[512];

	while (!poller->end || now_ns() < poller->end) {
		if (pread(fd, buf, sizeof(buf), 0) <= 0)
			psi_die("%s: %s", poller->path, strerror(errno));
		poller->reads++;
		next += poller->period;
		if (next < now_ns())
			next = now_ns();
		sleep_until(next);
	}
}

/* ---- Loads with a timetable ---- */

void spin_span(void *arg)
{
	const struct span *span = arg;

	sleep_until(span->begin);
	spin_until(span->end);
	sleep_forever();
}

void read_span(void *arg)
{
	struct sleeper *sleeper = arg;
	void *buf;
	int fd = open_blocks(sleeper->node, O_DIRECT, &buf);

	sleep_until(sleeper->span.begin);
	/* At least once: its wait for the CPU may outlast its span. */
	do {
		if (pread(fd, buf, BLOCK, 0) != BLOCK)
			psi_die("%s: %s", sleeper->node, strerror(errno));
		sleeper->ended = now_ns();
	} while (now_ns() < sleeper->span.end);
	sleep_forever();
}

void take_memory(void *arg)
{
	struct throttled *task = arg;
	char *mem = private_memory(task->size);

	sleep_until(task->begin);
	for (size_t pos = 0; pos < task->size && !task->stall_end; pos += BLOCK) {
		__u64 start = now_ns();

		task->stall_begin = start;
		mem[pos] = 1;
		asm volatile("" ::: "memory");
		if (now_ns() - start > NSEC_PER_SEC)
			task->stall_end = now_ns();
	}
	sleep_forever();
}
