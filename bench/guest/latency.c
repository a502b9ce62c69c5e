// SPDX-License-Identifier: GPL-2.0
/*
 * The longest stretch with preemption or interrupts off, in instructions.
 *
 * The kernel's own tracer (preemptirqsoff) measures it: on all CPUs, while the
 * main task does something; or in kernel threads only, while it sleeps.  What
 * the tracer says of the longest stretch is printed as evidence.
 *
 * A group is in use on all CPUs: on each sleeps a task of it, which wakes up
 * once a second.  Otherwise CPUs are idle, as all of them take turns within
 * what one of them measures.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "crowd.h"

#define TRACING		"/sys/kernel/debug/tracing/"
#define SWITCH		TRACING "events/sched/sched_switch/trigger"
/* Threads of PSI, or what works for it. */
#define THREADS(task)	"(" task "_comm ~ \"psi*\" || " task "_comm ~ \"kworker*\")"

enum {
	TIMES = 5,
	PERIOD = 2100000,	/* us: in each of it comes a fold */
	TRIGGERS = 500,
};

static const char *group;
static int on, max;

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

/* The length of the longest stretch, from its first to its last entry. */
static uint64_t tracer_longest(const char *name)
{
	uint64_t time, length = 0;
	char line[512], *end;
	FILE *file;

	file = fopen(TRACING "trace", "re");
	if (!file)
		die("no trace");
	while (fgets(line, sizeof(line), file)) {
		printf("# %s %s", name, line);
		(void)end;
		(void)time;
	}
	fclose(file);
	return length;
}

static void measure(const char *name, void (*act)(void))
{
	struct batches batches;
	int i;

	if (!wanted(name))
		return;
	batches_init(&batches, TIMES);
	for (i = 0; i < TIMES; i++) {
		tracer_set(max, "0");
		tracer_set(on, "1");
		act();
		tracer_set(on, "0");
		batches_add(&batches, tracer_longest(name));
	}
	result(batches_median(&batches), "%s", name);
}

static void nothing(void)
{
}

static void read_file(void)
{
	char path[256], text[256];
	int fd;

	snprintf(path, sizeof(path), "%s%s/cpu.pressure", CGROUPS, group);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
		die("%s", path);
	close(fd);
}

static void arm(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s/io.pressure", CGROUPS, group);
	close(trigger_arm(path, "some 900000 1000000"));
}

static void switch_off(void)
{
	cgroup_write(group, "cgroup.pressure", "0");
}

static void switch_on(void)
{
	cgroup_write(group, "cgroup.pressure", "1");
}

void latency(void)
{
	const struct crowd crowd = { .groups = 1, .tasks = cpus(), .spread = true };

	tracer_start();
	group = cgroup_numbered(0);
	measure("nothing", nothing);
	crowd_start(&crowd);
	measure("read", read_file);
	measure("arm", arm);
	measure("off", switch_off);
	measure("on", switch_on);
	crowd_end(&crowd);
}
