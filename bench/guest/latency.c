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
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"

#define TRACING		"/sys/kernel/debug/tracing/"
#define GROUP		"/g0000"	/* the first of the crowd */

enum { TRIGGERS = 500 };

static int on, max;
static uint64_t start;	/* a moment at which no task of the crowd wakes up */
static unsigned int groups;

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

/* From now on the tracer is on only while such a thread runs, and until it, or the main task, stops. */
static void trace_only(const char *thread)
{
	char text[128];

	snprintf(text, sizeof(text), "traceon if next_comm ~ \"%s\"", thread);
	write_file(TRACING "events/sched/sched_switch/trigger", text);
	snprintf(text, sizeof(text), "traceoff if comm ~ \"%s\" || common_pid == %d", thread, getpid());
	write_file(TRACING "events/rcu/rcu_utilization/trigger", text);
}

static void trace_all(void)
{
	write_file(TRACING "events/sched/sched_switch/trigger", "!traceon");
	write_file(TRACING "events/rcu/rcu_utilization/trigger", "!traceoff");
}

static void nothing(void)
{
}

/* A group that was in use everywhere. */
static void group_used(void)
{
	cgroup_make("/a");
	cgroup_visit_cpus("/a");
	pin(0, 0);
}

static void group_removed(void)
{
	cgroup_remove("/a");
}

static void file(void)
{
	read_once(cgroup_file(GROUP, "cpu.pressure"));
}

static int arm(unsigned int number)
{
	return trigger_arm_one(cgroup_file(GROUP, "io.pressure"), number);
}

static void trigger(void)
{
	close(arm(TRIGGERS));
}

static void off_and_on(void)
{
	cgroup_write(GROUP, "cgroup.pressure", "0");
	cgroup_write(GROUP, "cgroup.pressure", "1");
}

static void period(void)
{
	usleep(2100000);
}

static void crowd_freeze(const char *frozen)
{
	unsigned int i;

	for (i = 0; i < groups; i++)
		cgroup_write(cgroup_numbered(i), "cgroup.freeze", frozen);
}

static void crowd_works(void)
{
	crowd_freeze("0");
	usleep(1100000);
}

/* In this period the groups were in use, and are not any more: nobody else runs meanwhile. */
static void frozen_period(void)
{
	crowd_freeze("1");
	period();
}

static const struct action {
	const char *name;
	void (*prepare)(void), (*act)(void);
	unsigned int groups;	/* in use on all CPUs; where PSI acts at all */
	unsigned int triggers;	/* of the first one */
	const char *thread;	/* the one to trace: of samplers, or what keeps averages */
} actions[] = {
	{ "nothing", NULL, nothing, 0, 0, NULL },
	{ "rmdir", group_used, group_removed, 0, 0, NULL },
	{ "fold", crowd_works, frozen_period, 1, 0, "psi*" },
	{ "read", NULL, file, 1, 0, NULL },
	{ "trigger", NULL, trigger, 1, 0, NULL },
	{ "off-on", NULL, off_and_on, 1, 0, NULL },
	{ "sampler", NULL, period, 1, 1, "psi?*" },
	{ "sampler/triggers", NULL, period, 1, TRIGGERS, "psi?*" },
	{ "read/triggers", NULL, file, 1, TRIGGERS, NULL },
	{ "trigger/triggers", NULL, trigger, 1, TRIGGERS, NULL },
	{ "fold/groups", crowd_works, frozen_period, 30, 0, "psi*" },
};

/* The longest stretch while something is done; without the chance that comes once in a while. */
static uint64_t longest(const struct action *action)
{
	enum { TIMES = 6 };
	uint64_t lengths[TIMES];
	int i;

	for (i = 0; i < TIMES; i++) {
		if (action->prepare)
			action->prepare();
		while (start <= now())
			start += SECOND;
		sleep_until(start);
		if (action->thread) {
			/* An event cannot start the tracer. This does, and the nap switches it off. */
			tracer_set(on, "1");
			usleep(1000);
		}
		tracer_set(max, "0");
		close(open(TRACING "trace", O_WRONLY | O_TRUNC | O_CLOEXEC));
		if (!action->thread)
			tracer_set(on, "1");
		action->act();
		tracer_set(on, "0");
		lengths[i] = tracer_longest(action->name);
	}
	return quartile(lengths, TIMES, 3);
}

void latency(const char *kind, unsigned int number)
{
	const struct sched_param param = { .sched_priority = 1 };
	const struct action *action = actions;
	struct crowd crowd = { .tasks = cpus(), .spread = true };
	const char *thread;
	struct utsname names;

	while (strcmp(action->name, kind))
		action++;
	if (action->groups && !has_psi())
		return;
	/* Works that have nothing to do with PSI. */
	write_file("/proc/sys/vm/stat_interval", "3600");
	pin(0, 0);
	/* Whoever else wakes up runs later. */
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param))
		die("sched_setscheduler");
	tracer_start();
	start = now();
	crowd.groups = groups = action->groups;
	if (groups) {
		crowd_start(&crowd);
		start = now() + SECOND / crowd.tasks / 2;
	}
	for (number = 0; number < action->triggers; number++)
		arm(number);
	thread = action->thread;
	if (thread) {
		uname(&names);
		if (action->prepare && !strstr(names.release, "-psi"))
			thread = "kworker*";
		else if (!action->prepare)
			disk_reader(GROUP, -1);	/* a stall, in a group with triggers */
		trace_only(thread);
	}
	result(longest(action));
	if (thread)
		trace_all();
}
