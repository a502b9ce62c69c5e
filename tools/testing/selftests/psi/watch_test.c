// SPDX-License-Identifier: GPL-2.0
/*
 * The example in Documentation/accounting/psi.rst does what the text says
 *
 * Invariant: psi_watch prints nothing without pressure. Under pressure it
 * prints an event and the text of the file. When the cgroup is gone, it says
 * so.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_util.h"

#define GROUP	"/sys/fs/cgroup/psi_watch"

/**
 * struct watch - the running program
 * @pid: its process
 * @out: its output
 */
struct watch {
	pid_t pid;
	FILE *out;
};

static void watch_start(struct watch *watch, const char *path, const char *trigger,
			const char *events)
{
	int out[2];

	if (pipe(out))
		psi_die("pipe: %s", strerror(errno));
	watch->pid = fork_or_die();
	if (!watch->pid) {
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		close(out[0]);
		close(out[1]);
		execl("./psi_watch", "psi_watch", path, trigger, events, NULL);
		psi_die("./psi_watch: %s", strerror(errno));
	}
	close(out[1]);
	watch->out = fdopen(out[0], "r");
	if (!watch->out)
		psi_die("fdopen: %s", strerror(errno));
	/* The test polls the pipe, so no output may stay in a buffer. */
	setvbuf(watch->out, NULL, _IONBF, 0);
}

static const char *next_line(struct watch *watch)
{
	static char line[256];

	return fgets(line, sizeof(line), watch->out) ?: "";
}

static bool has_output(struct watch *watch)
{
	struct pollfd pfd = { .fd = fileno(watch->out), .events = POLLIN };

	return poll(&pfd, 1, 0) > 0;
}

/* Returns the exit status. */
static int watch_end(struct watch *watch)
{
	fclose(watch->out);
	return reap_exit(watch->pid);
}

TEST(prints_nothing_without_pressure_and_events_under_pressure)
{
	struct watch watch;
	struct psi psi;
	pid_t spinner[2];

	cpus_use(1);
	watch_start(&watch, PSI_CPU, "some 500000 2000000", "2");
	EXPECT_STREQ("waiting for \"some 500000 2000000\" in /proc/pressure/cpu\n",
		     next_line(&watch));
	sleep_for(10 * NSEC_PER_SEC);
	EXPECT_FALSE(has_output(&watch));

	spin_pair_start(spinner, NULL);
	for (int i = 0; i < 2; i++) {
		char text[512];
		size_t len;

		EXPECT_STREQ("event\n", next_line(&watch));
		len = snprintf(text, 256, "%s", next_line(&watch));
		len += snprintf(text + len, 256, "%s", next_line(&watch));
		EXPECT_EQ(NULL, psi_parse(text, len, &psi));
	}
	spin_pair_stop(spinner);
	EXPECT_EQ(0, watch_end(&watch));
	cpus_use(cpus_possible());
}

TEST(ends_when_its_cgroup_is_removed)
{
	struct watch watch;

	cgroup_create(GROUP, "");
	watch_start(&watch, GROUP "/memory.pressure", "full 100000 2000000", NULL);
	next_line(&watch);
	cgroup_remove(GROUP);
	EXPECT_STREQ(GROUP "/memory.pressure is gone\n", next_line(&watch));
	EXPECT_EQ(2, watch_end(&watch));
}

TEST(prints_why_it_cannot_wait)
{
	struct watch watch;

	watch_start(&watch, PSI_MEMORY, "some 3 2", NULL);
	EXPECT_STREQ("/proc/pressure/memory: cannot wait for \"some 3 2\": Invalid argument\n",
		     next_line(&watch));
	EXPECT_EQ(1, watch_end(&watch));
}

TEST_HARNESS_MAIN
