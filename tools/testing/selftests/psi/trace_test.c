// SPDX-License-Identifier: GPL-2.0
/*
 * Tracepoints
 *
 * Invariants:
 *  - Each memory stall is one event psi_stall, and the histogram of tracefs by
 *    task and cause has the time that the lines of causes have.
 *  - Each event that poll() reports is one event psi_trigger. It names the
 *    cgroup, the trigger, and a stall that reached its threshold.
 *  - psi_update says what the file shows.
 *  - By the kernel's own tracepoints, no thread of PSI allocates memory between
 *    the start of a stall and the event of a trigger: memory may be short then.
 *
 * Bugs it would find: an event that is missing or comes twice; fields in the
 * wrong order or unit; a name that does not end; the id of another cgroup; a
 * monitor or a fold that allocates.
 *
 * Tolerance: files show microseconds, events of stalls nanoseconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_causes.h"
#include "psi_stat.h"

#define TRACING		"/sys/kernel/tracing"
#define EVENTS		TRACING "/events/psi"
#define KMEM		TRACING "/events/kmem"
#define STALL_TRIGGER	EVENTS "/psi_stall/trigger"
/* As in Documentation/accounting/psi.rst. */
#define HIST		"hist:keys=common_pid.execname,cause,class:vals=ns"
#define GROUP		"/sys/fs/cgroup/psi_trace"
#define LIMIT		"4194304"

FIXTURE(trace) {
	struct throttled *load;
	unsigned long long id;
	char text[1 << 16];
};

FIXTURE_SETUP(trace)
{
	struct stat st;

	mount("tracefs", TRACING, "tracefs", 0, NULL);
	if (access(EVENTS, F_OK))
		SKIP(return, "this kernel has no tracepoints of PSI");
	cpus_use(1);
	cgroup_create(GROUP, "+memory");
	cgroup_write(GROUP, "memory.high", LIMIT);
	ASSERT_EQ(0, stat(GROUP, &st));
	self->id = st.st_ino;
	self->load = shared_memory(sizeof(*self->load));
	self->load->size = 32 << 20;
	close(open_file(TRACING "/trace", O_WRONLY | O_TRUNC));
}

FIXTURE_TEARDOWN(trace)
{
	write_file(EVENTS "/enable", "0");
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

/* Runs a task in the group until memory.high holds it back for more than a second. */
static pid_t stall_in_group(FIXTURE_DATA(trace) * self)
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = take_memory,
				   .arg = self->load };
	pid_t pid = load_start(&load);

	while (!__atomic_load_n(&self->load->stall_end, __ATOMIC_ACQUIRE))
		sleep_for(10 * NSEC_PER_MSEC);
	return pid;
}

/* The next line of @at that has @what; NULL at the end. Moves @at behind it. */
static const char *next_with(const char **at, const char *what)
{
	const char *line = strstr(*at, what);

	if (line)
		*at = line + strlen(what);
	return line;
}

TEST_F_TIMEOUT(trace, histogram_by_task_and_cause_has_what_the_lines_have, 100)
{
	const struct cause_line *high;
	unsigned long long hits, ns;
	struct causes causes;
	const char *at;
	char key[64];
	pid_t pid;

	if (!causes_known())
		SKIP(return, "this kernel does not tell causes");
	write_file(STALL_TRIGGER, HIST ":sort=ns.descending");
	pid = stall_in_group(self);
	causes_read(GROUP CGROUP_STAT, &causes);
	at = self->text;
	read_text(EVENTS "/psi_stall/hist", self->text, sizeof(self->text));
	write_file(STALL_TRIGGER, "!" HIST);
	load_stop(pid);

	high = &causes.line[HIGH];
	snprintf(key, sizeof(key), "[%10d], cause: high ", pid);
	at = next_with(&at, key);
	ASSERT_NE(NULL, at);
	/* memory.high is a limit. */
	at = next_with(&at, "class: limit ");
	ASSERT_NE(NULL, at);
	at = strchr(at, '}');
	ASSERT_NE(NULL, at);
	if (sscanf(at, "} hitcount: %llu ns: %llu", &hits, &ns) != 2)
		psi_die("no values in the histogram at: %.60s", at);
	ksft_print_msg("%llu stalls, %llu ns; by the line %llu, %llu ns\n", hits, ns,
		       (unsigned long long)high->count, (unsigned long long)high->total);
	EXPECT_EQ(high->count, hits);
	EXPECT_LE(high->total, ns);
	EXPECT_GT(high->total + NSEC_PER_USEC, ns);
}

TEST_F_TIMEOUT(trace, each_event_of_a_trigger_is_traced, 100)
{
	enum { NR = 4 };
	static const char * const lines[NR] = { "some", "some", "exact.some", "limit.some" };
	static const unsigned int thresholds[NR] = { 150000, 400000, 150000, 150000 };
	unsigned long long threshold, window, stall;
	int fds[NR], events[NR] = {}, traced[NR] = {};
	const char *at = self->text;
	char want[128];
	pid_t pid;

	for (int i = 0; i < NR; i++) {
		fds[i] = trigger_arm(i > 1 ? GROUP CGROUP_STAT : GROUP "/memory.pressure",
				     "%s%s %u 1000000", i > 1 ? "memory." : "", lines[i],
				     thresholds[i]);
	}
	write_file(EVENTS "/psi_trigger/enable", "1");
	pid = stall_in_group(self);
	/* An event that is owed comes after one window. */
	sleep_for(3 * NSEC_PER_SEC);
	write_file(EVENTS "/psi_trigger/enable", "0");
	for (int i = 0; i < NR; i++) {
		events[i] = trigger_fired(fds[i], 0);
		close(fds[i]);
	}
	load_stop(pid);

	read_text(TRACING "/trace", self->text, sizeof(self->text));
	for (int i = 0; i < NR; i++) {
		at = self->text;
		snprintf(want, sizeof(want), "psi_trigger: cgroup=%llu resource=memory line='%s' ",
			 self->id, lines[i]);
		while (next_with(&at, want)) {
			if (sscanf(at, "threshold=%llu window=%llu stall=%llu",
				   &threshold, &window, &stall) != 3)
				psi_die("no values in the event at: %.60s", at);
			/* Of the other one on this line. */
			if (threshold != thresholds[i])
				continue;
			ksft_print_msg("%s: %llu us in a window\n", lines[i], stall);
			EXPECT_EQ(1000000, window);
			EXPECT_LE(threshold - 10, stall);
			EXPECT_GE(1000000, stall);
			EXPECT_NE(threshold, stall);
			traced[i]++;
		}
		EXPECT_EQ(1, events[i]);
		EXPECT_EQ(1, traced[i]);
	}
}

/* The last event of the group's memory: the line some. */
static bool last_update(FIXTURE_DATA(trace) * self, unsigned long long *total, unsigned int *avg)
{
	unsigned long long some, full;
	const char *at = self->text;
	bool found = false;
	char want[64];

	read_text(TRACING "/trace", self->text, sizeof(self->text));
	snprintf(want, sizeof(want), "psi_update: cgroup=%llu resource=memory ", self->id);
	while (next_with(&at, want))
		found = sscanf(at, "some_total=%llu full_total=%llu some_avg10=%u", &some, &full,
			       avg) == 3;
	*total = some;
	return found;
}

TEST_F_TIMEOUT(trace, update_says_what_the_file_shows, 100)
{
	unsigned long long total = 0;
	unsigned int avg = 0;
	struct psi psi;
	int tries;
	pid_t pid;

	write_file(EVENTS "/psi_update/enable", "1");
	pid = stall_in_group(self);
	/* A period may end between the two, so try again. */
	for (tries = 0; tries < 100; tries++) {
		sleep_for(300 * NSEC_PER_MSEC);
		psi_read(GROUP "/memory.pressure", &psi);
		if (last_update(self, &total, &avg) && avg == psi.some.avg[AVG10])
			break;
	}
	ASSERT_GT(100, tries);
	EXPECT_LT(0, avg);
	EXPECT_EQ(psi.some.avg[AVG10], avg);
	/* The event has the total of the windows that ended: wait until all of them have. */
	load_stop(pid);
	sleep_for(5 * NSEC_PER_SEC);
	psi_read(GROUP "/memory.pressure", &psi);
	EXPECT_TRUE(last_update(self, &total, &avg));
	write_file(EVENTS "/psi_update/enable", "0");
	ksft_print_msg("total %llu us; by the file %llu us\n", total,
		       (unsigned long long)psi.some.total);
	EXPECT_LT(0, total);
	EXPECT_EQ(psi.some.total, total);
}

/*
 * The first event of a thread whose name begins so, but for those of interrupts
 * that came while it ran: "psi_watch-23      [000] ..s..   144.206600: ...".
 */
static const char *event_of(const char *text, const char *name)
{
	const char *line, *flags;

	for (line = strstr(text, name); line; line = strstr(line + 1, name)) {
		flags = strstr(line, "] ");
		if (flags && flags[4] == '.')
			return line;
	}
	return NULL;
}

/* Threads of PSI are named psi, psi_watch and psi_watch_rt. */
TEST_F_TIMEOUT(trace, threads_of_psi_allocate_nothing_from_a_stall_to_its_event, 100)
{
	static const char * const events[] = { "kmalloc", "kmem_cache_alloc", "mm_page_alloc" };
	int fds[] = { trigger_arm(GROUP "/memory.pressure", "some 150000 1000000"),
		      trigger_arm(GROUP CGROUP_STAT, "memory.exact.some 150000 1000000"), -1 };
	char path[128], name[16], here[16];
	pid_t pid;

	/* Without the privilege: by the other monitor. */
	set_cap_sys_resource(false, true);
	fds[2] = trigger_arm(GROUP "/memory.pressure", "some 150000 2000000");
	set_cap_sys_resource(true, true);
	for (unsigned int i = 0; i < ARRAY_SIZE(events); i++) {
		snprintf(path, sizeof(path), KMEM "/%s/filter", events[i]);
		write_file(path, "comm ~ \"psi*\"");
		snprintf(path, sizeof(path), KMEM "/%s/enable", events[i]);
		write_file(path, "1");
	}
	pid = stall_in_group(self);
	/* Long enough for a fold. */
	sleep_for(3 * NSEC_PER_SEC);
	/* What a task of such a name allocates is traced. */
	prctl(PR_GET_NAME, name);
	prctl(PR_SET_NAME, "psi_control");
	close(open_file(GROUP "/memory.pressure", O_RDONLY));
	prctl(PR_SET_NAME, name);
	write_file(KMEM "/enable", "0");
	for (unsigned int i = 0; i < ARRAY_SIZE(fds); i++) {
		EXPECT_TRUE(trigger_fired(fds[i], 0));
		close(fds[i]);
	}
	load_stop(pid);

	read_text(TRACING "/trace", self->text, sizeof(self->text));
	snprintf(here, sizeof(here), "-%d ", getpid());
	EXPECT_NE(NULL, event_of(self->text, here));
	EXPECT_EQ(NULL, event_of(self->text, " psi-"));
	EXPECT_EQ(NULL, event_of(self->text, " psi_watch"))
		TH_LOG("%.300s", event_of(self->text, " psi_watch"));
}

TEST_HARNESS_MAIN
