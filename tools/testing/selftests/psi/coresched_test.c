// SPDX-License-Identifier: GPL-2.0
/*
 * Core scheduling: a CPU may be forced to idle, or be given a task by its sibling
 *
 * Invariant: the same as in state_test. A task that may not run beside its sibling's task
 * waits; one that is stolen from another CPU's queue takes its states along.
 *
 * What would break it: a task that one CPU picks for another, and moves between their queues
 * in the middle of a context switch; cookies that come and go with queued tasks; hooks
 * that rely on the lock of one CPU when siblings share it.
 *
 * It needs CONFIG_SCHED_CORE and CPUs with siblings: ci/storms boots those.
 */
#include <errno.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_crew.h"
#include "psi_leak.h"

#define LATENCY		(5 * NSEC_PER_MSEC)
#define ONE_THREAD	PR_SCHED_CORE_SCOPE_THREAD

static int core(unsigned int command, pid_t pid)
{
	return prctl(PR_SCHED_CORE, command, pid, ONE_THREAD, 0) ? errno : 0;
}

static void core_or_die(unsigned int command, pid_t pid)
{
	int error = core(command, pid);

	if (error)
		psi_die("PR_SCHED_CORE: %s", strerror(error));
}

/* Whoever passes a cookie on has it for that time: not the player, a child. */
static void share_cookie(pid_t from, pid_t to)
{
	pid_t pid = fork();

	if (pid < 0)
		psi_die("fork: %s", strerror(errno));
	if (!pid) {
		core_or_die(PR_SCHED_CORE_SHARE_FROM, from);
		core_or_die(PR_SCHED_CORE_SHARE_TO, to);
		_exit(KSFT_PASS);
	}
	load_wait(pid);
}

static void storm_cores(struct storm *storm)
{
	const struct load loads[] = {
		{ .cpu = -1, .fn = spin },
		{ .cpu = -1, .fn = nap_forever },
		{ .cpu = -1, .fn = read_forever, .arg = (void *)storm->disk },
	};
	const char *groups[2];
	struct crew crew;

	groups_make(storm, "cores", "+cpu", groups, 2);
	crew_start(&crew, &loads[1]);
	while (!storm_over(storm)) {
		pid_t *pid = &crew.pid[storm_chance(CREW)];

		switch (storm_chance(8)) {
		case 0:
			load_stop(*pid);
			*pid = load_start(&loads[storm_chance(ARRAY_SIZE(loads))]);
			break;
		case 1:
			group_move(groups[storm_chance(2)], *pid);
			break;
		case 2:
			move_somewhere(*pid);
			break;
		case 3:
			/* The player has none, so this takes the cookie away. */
			core_or_die(PR_SCHED_CORE_SHARE_TO, *pid);
			break;
		case 4:
			share_cookie(*pid, crew.pid[storm_chance(CREW)]);
			break;
		default:
			core_or_die(PR_SCHED_CORE_CREATE, *pid);
		}
		sleep_for(storm_chance(3) * NSEC_PER_MSEC);
	}
	crew_stop(&crew);
	groups_remove(groups, 2);
}

/* ---- The server of fair tasks ---- */

/*
 * It runs them when others leave them nothing. A CPU that goes offline stops its server even
 * if that has stopped before, and then 6.12 warns "dl_rq->running_bw > old", with PSI or without.
 * It is core scheduling that looks for the server, and stops it, when a CPU goes idle. So
 * where CPUs come and go there is none.
 */
#define SERVER	"/sys/kernel/debug/sched/fair_server/cpu%d/runtime"

struct server {
	char path[64];
	char runtime[24];
};

static void server_set(void *arg)
{
	const struct server *server = arg;

	write_file(server->path, server->runtime);
}

/* To change a server stops it, too: whoever does that needs it, or it might have stopped before. */
static void servers_set(const char *runtime)
{
	for (int cpu = 0; cpu < cpus_possible(); cpu++) {
		struct server server;
		const struct load load = { .cpu = cpu, .fn = server_set, .arg = &server };

		snprintf(server.path, sizeof(server.path), SERVER, cpu);
		snprintf(server.runtime, sizeof(server.runtime), "%s", runtime);
		load_wait(load_start(&load));
	}
}

/* ---- The storms ---- */

FIXTURE(cores) {
	struct slow_disk disk;
};

FIXTURE_VARIANT(cores) {
	void (*beside)(struct storm *storm);
};

FIXTURE_VARIANT_ADD(cores, with_readers) {
	.beside = storm_readers,
};

FIXTURE_VARIANT_ADD(cores, that_come_and_go) {
	.beside = storm_hotplug,
};

FIXTURE_VARIANT_ADD(cores, with_changes_of_class) {
	.beside = storm_policy,
};

FIXTURE_SETUP(cores)
{
	char active[8] = "";

	read_file("/sys/devices/system/cpu/smt/active", active, sizeof(active));
	if (active[0] != '1')
		SKIP(return, "the CPUs have no siblings");
	if (core(PR_SCHED_CORE_SHARE_TO, getpid()) == EINVAL)
		SKIP(return, "needs CONFIG_SCHED_CORE");
	cpus_use(cpus_possible());
	task_delays_on();
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(&self->disk, "psi_cores", LATENCY, 64);
}

FIXTURE_TEARDOWN(cores)
{
	slow_disk_remove(&self->disk);
}

static void storm_both(void (*beside)(struct storm *storm), const struct slow_disk *disk)
{
	struct storm storm = {
		.time = storm_time(5 * NSEC_PER_SEC),
		.disk = disk->node,
	};
	pid_t pid;

	storm_events_begin();
	pid = storm_start(beside, &storm, beside == storm_readers ? SCHED_OTHER : SCHED_FIFO);
	storm_cores(&storm);
	load_wait(pid);
	ksft_print_msg("%lu events\n", storm_events());
}

TEST_F_TIMEOUT(cores, leave_nothing_behind, STORM_TIMEOUT)
{
	char path[64], runtime[24] = "";
	const char *found;

	snprintf(path, sizeof(path), SERVER, 0);
	if (variant->beside == storm_hotplug && read_file(path, runtime, sizeof(runtime)) > 0)
		servers_set("0");
	storm_both(variant->beside, &self->disk);
	if (runtime[0])
		servers_set(runtime);
	EXPECT_LT(0, storm_events());
	found = find_leak(self->disk.node);
	EXPECT_EQ(NULL, found) {
		TH_LOG("%s", found);
	}
}

/* Where CPUs come and go 6.12 fails it after minutes, with that warning. */
TEST_F_TIMEOUT(cores, make_no_kernel_warn, STORM_TIMEOUT)
{
	if (!access(PSI_CPU, F_OK))
		SKIP(return, "this is about kernels without PSI");
	storm_both(variant->beside, &self->disk);
	EXPECT_LT(0, storm_events());
}

TEST_HARNESS_MAIN
