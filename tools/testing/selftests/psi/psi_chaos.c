// SPDX-License-Identifier: GPL-2.0
/* Storms on pressure files, and all storms at once: see psi_storm.h. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "psi_crew.h"
#include "psi_leak.h"
#include "psi_stat.h"

#define PATH_SIZE	256

/* The files of a pattern in the cgroups of storms, which come and go meanwhile. */
static void find_files(const char *names, glob_t *found)
{
	static const char * const depths[] = {
		CGROUP_ROOT "/psi_*", CGROUP_ROOT "/psi_*/psi_*", CGROUP_ROOT "/psi_*/psi_*/psi_*",
	};
	char pattern[PATH_SIZE];
	int error = GLOB_NOMATCH;

	memset(found, 0, sizeof(*found));
	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		snprintf(pattern, sizeof(pattern), "%s/%s", depths[i], names);
		error = glob(pattern, i ? GLOB_APPEND : 0, NULL, found);
		if (error && error != GLOB_NOMATCH)
			psi_die("%s: glob failed", pattern);
	}
}

/* ---- Readers ---- */

#define READS	20

/* Opens a pressure file; returns -1 if its cgroup is gone. */
static int open_pressure(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && !storm_is_gone(errno))
		psi_die("%s: %s", path, strerror(errno));
	return fd;
}

/* Reads it from the beginning; returns -1 if its cgroup is gone, or switched off. */
static ssize_t read_pressure(const char *path, int fd, char *buf, size_t size)
{
	ssize_t len = pread(fd, buf, size, 0);

	if (len < 0 && errno != ENODEV && errno != EOPNOTSUPP)
		psi_die("%s: %s", path, strerror(errno));
	if (len >= 0)
		storm_count();
	return len;
}

void storm_read_file(const char *path)
{
	struct psi psi, last = {};
	const char *error;
	char buf[512];
	ssize_t len;
	int fd;

	fd = open_pressure(path);
	if (fd < 0)
		return;
	for (int i = 0; i < READS; i++) {
		len = read_pressure(path, fd, buf, sizeof(buf));
		if (len < 0)
			break;
		error = psi_parse(buf, len, &psi);
		if (error)
			psi_die("%s: %s", path, error);
		error = find_excess_in(path, &psi);
		if (error)
			psi_die("%s", error);
		if (psi.some.total < last.some.total || psi.full.total < last.full.total)
			psi_die("%s went backwards", path);
		last = psi;
		if (storm_chance(2))
			sleep_for(storm_chance(300) * NSEC_PER_USEC);
	}
	close(fd);
}

/* The first reader of a group has its exact pressure, limit and shortage be measured. */
static void read_stat_file(const char *path)
{
	struct psi_stat stat;
	const char *error;
	char buf[PSI_STAT_MAX];
	ssize_t len;
	int fd;

	fd = open_pressure(path);
	if (fd < 0)
		return;
	for (int i = 0; i < READS; i++) {
		len = read_pressure(path, fd, buf, sizeof(buf));
		if (len < 0)
			break;
		error = psi_stat_parse(buf, len, &stat) ?: psi_stat_contradiction(&stat);
		if (error)
			psi_die("%s: %s", path, error);
	}
	close(fd);
}

void storm_readers(struct storm *storm)
{
	static const char * const system[] = { PSI_CPU, PSI_MEMORY, PSI_IO, PSI_IRQ };
	glob_t found;

	storm->end = now_ns() + storm->time;
	while (now_ns() < storm->end) {
		for (size_t i = 0; i < ARRAY_SIZE(system); i++)
			storm_read_file(system[i]);
		find_files("[cim][pero]*.pressure", &found);
		for (size_t i = 0; i < found.gl_pathc && now_ns() < storm->end; i++)
			storm_read_file(found.gl_pathv[i]);
		globfree(&found);
		if (psi_has_stat())
			read_stat_file(PSI_STAT);
		find_files("cgroup.pressure.stat", &found);
		for (size_t i = 0; i < found.gl_pathc && now_ns() < storm->end; i++)
			read_stat_file(found.gl_pathv[i]);
		globfree(&found);
	}
}

/* ---- Switches ---- */

static void set_switch(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if ((fd < 0 || write(fd, text, 1) != 1) && !storm_is_gone(errno))
		psi_die("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

void storm_toggles(struct storm *storm)
{
	glob_t found;

	while (!storm_over(storm)) {
		find_files("cgroup.pressure", &found);
		if (found.gl_pathc)
			set_switch(found.gl_pathv[storm_chance(found.gl_pathc)],
				   storm_chance(2) ? "1" : "0");
		globfree(&found);
		sleep_for(storm_chance(5) * NSEC_PER_MSEC);
	}
	find_files("cgroup.pressure", &found);
	for (size_t i = 0; i < found.gl_pathc; i++)
		set_switch(found.gl_pathv[i], "1");
	globfree(&found);
}

/* ---- Triggers ---- */

#define NR_TRIGGERS	32

/* Opens a random file and arms it; -1 if the file is gone. */
static int arm_random_file(void)
{
	static const char * const system[] = { PSI_CPU, PSI_MEMORY, PSI_IO, PSI_STAT };
	static const char * const keys[] = {
		"cpu.", "io.exact.", "memory.exact.", "cpu.limit.", "memory.limit.", "io.shortage.",
	};
	int windows = 500 + storm_chance(1500), fd, error;
	const char *path = system[storm_chance(ARRAY_SIZE(system) - !psi_has_stat())];
	char text[64];
	glob_t found;

	find_files(storm_chance(2) ? "[cim][peo]*.pressure" : "cgroup.pressure.stat", &found);
	if (found.gl_pathc && storm_chance(4))
		path = found.gl_pathv[storm_chance(found.gl_pathc)];
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && !storm_is_gone(errno))
		psi_die("%s: %s", path, strerror(errno));
	if (fd >= 0) {
		snprintf(text, sizeof(text), "%s%s %u %u",
			 strstr(path, "stat") ? keys[storm_chance(ARRAY_SIZE(keys))] : "",
			 storm_chance(2) ? "some" : "full", 1 + storm_chance(windows * 1000),
			 windows * 1000);
		error = trigger_set(fd, text);
		if (error && error != ENODEV)
			psi_die("%s: \"%s\": %s", path, text, strerror(error));
	}
	globfree(&found);
	return fd;
}

void storm_triggers(struct storm *storm)
{
	struct pollfd pfd[NR_TRIGGERS];

	for (int i = 0; i < NR_TRIGGERS; i++)
		pfd[i] = (struct pollfd){ .fd = -1, .events = POLLPRI };
	while (!storm_over(storm)) {
		int i = storm_chance(NR_TRIGGERS);

		if (poll(pfd, NR_TRIGGERS, 0) < 0)
			psi_die("poll: %s", strerror(errno));
		if (pfd[i].fd >= 0)
			close(pfd[i].fd);
		pfd[i].fd = storm_chance(4) ? arm_random_file() : -1;
		sleep_for(storm_chance(3) * NSEC_PER_MSEC);
	}
	for (int i = 0; i < NR_TRIGGERS; i++)
		if (pfd[i].fd >= 0)
			close(pfd[i].fd);
}

/* ---- Everything at once ---- */

struct job {
	void (*fn)(struct storm *storm);
	struct storm storm;
};

static void run_job(void *arg)
{
	struct job *job = arg;

	if (job->storm.events)
		storm_count_in(job->storm.events);
	job->fn(&job->storm);
}

pid_t storm_start(void (*fn)(struct storm *storm), const struct storm *storm, int policy)
{
	struct job job = { .fn = fn, .storm = *storm };
	const struct load load = {
		.cpu = -1,
		.policy = policy,
		.prio = policy == SCHED_FIFO ? 40 : 0,
		.fn = run_job,
		.arg = &job,
	};

	return load_start(&load);
}

#define AT_ONCE	3

void storm_chaos(struct storm *storm)
{
	static void (* const all[])(struct storm *storm) = {
		storm_affinity, storm_iowait_affinity, storm_policy, storm_stop, storm_ptrace,
		storm_freeze, storm_kill, storm_fork, storm_threads, storm_cgroup_move,
		storm_cpu_limit, storm_naps, storm_ping_pong, storm_boost, storm_reclaim,
		storm_hotplug, storm_pipes, storm_errors, storm_rings, storm_swap, storm_high,
		storm_oom,
	};
	const int nr = ARRAY_SIZE(all);

	while (!storm_over(storm)) {
		int first = storm_chance(nr), step = 1 + storm_chance((nr - 1) / AT_ONCE);
		__u64 time = (1 + storm_chance(4)) * NSEC_PER_SEC, left = storm->end - now_ns();
		const struct storm part = {
			.time = time < left ? time : left,
			.disk = storm->disk,
			.top = storm->top,
		};
		pid_t pid[AT_ONCE];

		for (int i = 0; i < AT_ONCE; i++)
			pid[i] = storm_start(all[(first + i * step) % nr], &part, SCHED_FIFO);
		for (int i = 0; i < AT_ONCE; i++)
			load_wait(pid[i]);
	}
}
