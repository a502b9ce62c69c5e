// SPDX-License-Identifier: GPL-2.0
/*
 * The longest stretch with preemption or interrupts off, in instructions.
 *
 * The kernel's own tracer (preemptirqsoff) measures it, on all CPUs.  What it
 * says of the longest stretch is printed as evidence.
 *
 * CPUs take turns within what one of them measures, so they are idle, but for
 * what is measured and a task on each that wakes up once a second: a group is
 * in use on all CPUs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "crowd.h"

#define TRACING		"/sys/kernel/debug/tracing/"

enum {
	TIMES = 6,
	SECOND = 1000000000,
	PERIOD = SECOND,	/* of the crowd */
	TRIGGERS = 500,
	GROUPS = 30,
};

static const char *group;
static const char *folder;	/* the name of what keeps averages */
static int on, max;
static bool by_events;	/* the tracer is on only when events switch it on */
static uint64_t start;	/* a moment at which no task of the crowd wakes up */

static void tracer_start(void)
{
	write_file(TRACING "buffer_size_kb", "16");
	/* Not rounded to microseconds when it is printed. */
	write_file(TRACING "trace_clock", "x86-tsc");
	write_file(TRACING "tracing_on", "0");
	write_file(TRACING "current_tracer", "preemptirqsoff");
	on = open(TRACING "tracing_on", O_WRONLY | O_CLOEXEC);
	max = open(TRACING "tracing_max_latency", O_WRONLY | O_CLOEXEC);
	if (on < 0 || max < 0)
		die("no tracer: it takes the configuration latency");
}

static void tracer_set(int fd, const char *text)
{
	if (pwrite(fd, text, 1, 0) != 1)
		die("the tracer refuses %s", text);
}

/* Its length.  The trace begins with its first and its last moment. */
static uint64_t tracer_longest(const char *name)
{
	uint64_t moments[2] = { 0, 0 };
	char line[512], *entry;
	unsigned int nr = 0;
	FILE *file;

	file = fopen(TRACING "trace", "re");
	if (!file)
		die("no trace");
	while (fgets(line, sizeof(line), file)) {
		if (*line == '#')
			continue;
		printf("# %s:%s", name, line);
		entry = strchr(line, ':');
		while (entry && entry > line && entry[-1] != ' ')
			entry--;
		if (entry && nr < 2 && sscanf(entry, "%" SCNu64 ":", &moments[nr]) == 1)
			nr++;
	}
	fclose(file);
	if (nr == 1)
		die("%s: a stretch without an end", name);
	return moments[1] - moments[0];
}

/* The longest stretch while something is done; without the chance that comes once in a while. */
static void measure(const char *name, void (*prepare)(void), void (*act)(void))
{
	struct batches batches;
	int i;

	if (!wanted(name))
		return;
	batches_init(&batches, TIMES);
	for (i = 0; i < TIMES; i++) {
		if (prepare)
			prepare();
		while (start <= now())
			start += PERIOD;
		sleep_until(start);
		if (by_events) {
			/* An event cannot start the tracer. This does, and the nap switches it off. */
			tracer_set(on, "1");
			usleep(1000);
		}
		tracer_set(max, "0");
		close(open(TRACING "trace", O_WRONLY | O_TRUNC | O_CLOEXEC));
		if (!by_events)
			tracer_set(on, "1");
		act();
		tracer_set(on, "0");
		batches_add(&batches, tracer_longest(name));
	}
	result(batches_upper(&batches), "%s", name);
}

static void period(void)
{
	usleep(2100000);
}

/* The crowd at work, for what comes next. */
static const struct crowd *crowd;

static void crowd_works(void)
{
	crowd_freeze(crowd, false);
	usleep(1100000);
}

/* In this period the groups were in use, and are not any more: nobody else runs meanwhile. */
static void frozen_period(void)
{
	crowd_freeze(crowd, true);
	period();
}

/* What to do at an event. */
__attribute__((format(printf, 2, 3)))
static void tracer_when(const char *event, const char *format, ...)
{
	char path[256], text[128];
	va_list args;

	snprintf(path, sizeof(path), TRACING "events/%s/trigger", event);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	write_file(path, text);
}

/* Only while such a thread runs, and until it, or the main task, stops. */
static void measure_thread(const char *name, const char *thread, void (*prepare)(void),
			   void (*act)(void))
{
	static const char to[] = "sched/sched_switch", from[] = "rcu/rcu_utilization";

	tracer_when(to, "traceon if next_comm ~ \"%s\"", thread);
	tracer_when(from, "traceoff if comm ~ \"%s\" || common_pid == %d", thread, getpid());
	by_events = true;
	measure(name, prepare, act);
	by_events = false;
	tracer_when(to, "!traceon");
	tracer_when(from, "!traceoff");
}

static void nothing(void)
{
}

static void file(void)
{
	int fd = cgroup_open(group, "cpu.pressure");

	read_file(fd);
	close(fd);
}

/* No two are the same, which PSI could share. */
static int arm(unsigned int nr)
{
	char text[64];

	snprintf(text, sizeof(text), "some %u 1000000", 900000 + nr);
	return cgroup_arm(group, "io.pressure", text);
}

static void trigger(void)
{
	close(arm(TRIGGERS));
}

static void off_and_on(void)
{
	cgroup_write(group, "cgroup.pressure", "0");
	cgroup_write(group, "cgroup.pressure", "1");
}

/* A group that was in use everywhere. */
static void group_used(void)
{
	cgroup_make("/a");
	cgroup_visit_cpus("/a");
	pin(0);
}

static void group_removed(void)
{
	cgroup_remove("/a");
}

/* A stall in a group with triggers. */
static void sampling(const char *name, unsigned int nr)
{
	int fds[TRIGGERS];
	unsigned int i;
	pid_t pid;

	if (!wanted(name))
		return;
	for (i = 0; i < nr; i++)
		fds[i] = arm(i);
	pid = disk_reader(group, -1);
	measure_thread(name, "psi?*", NULL, period);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (nr--)
		close(fds[nr]);
}

static void fold(const char *name)
{
	measure_thread(name, folder, crowd_works, frozen_period);
	crowd_freeze(crowd, false);
}

/* With so many triggers of the group. */
static void armed(unsigned int nr)
{
	int fds[TRIGGERS];
	unsigned int i;

	for (i = 0; i < nr; i++)
		fds[i] = arm(i);
	measure("read/triggers", NULL, file);
	measure("trigger/triggers", NULL, trigger);
	while (nr--)
		close(fds[nr]);
}

static void one_group(void)
{
	const struct crowd one = { .groups = 1, .tasks = cpus(), .spread = true };

	crowd = &one;
	crowd_start(crowd);
	start = now() + SECOND / one.tasks / 2;
	fold("fold");
	measure("read", NULL, file);
	measure("trigger", NULL, trigger);
	measure("off-on", NULL, off_and_on);
	sampling("sampler", 1);
	sampling("sampler/triggers", TRIGGERS);
	armed(TRIGGERS);
	crowd_end(crowd);
}

static void many_groups(void)
{
	const struct crowd many = { .groups = GROUPS, .tasks = cpus(), .spread = true };

	if (!wanted("fold/groups"))
		return;
	crowd = &many;
	crowd_start(crowd);
	fold("fold/groups");
	crowd_end(crowd);
}

void latency(void)
{
	const struct sched_param param = { .sched_priority = 1 };
	struct utsname names;

	/* Works that have nothing to do with PSI. */
	write_file("/proc/sys/vm/stat_interval", "3600");
	pin(0);
	uname(&names);
	folder = strstr(names.release, "-psi") ? "psi*" : "kworker*";
	group = cgroup_numbered(0);
	/* Whoever else wakes up runs later. */
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param))
		die("sched_setscheduler");
	tracer_start();
	start = now();
	measure("nothing", NULL, nothing);
	measure("rmdir", group_used, group_removed);
	if (access("/proc/pressure", F_OK))
		return;
	one_group();
	many_groups();
}
