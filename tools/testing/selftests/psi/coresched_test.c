// SPDX-License-Identifier: GPL-2.0
/*
 * Core scheduling: a CPU may be forced idle, or get a task from its sibling
 *
 * Invariant: as in state_test. A task that may not run beside the task of its
 * CPU's sibling waits. A task that another CPU steals takes its states along.
 *
 * Bugs it would find: a task that one CPU picks for another and moves between
 * their queues in the middle of a context switch; cookies that change while a
 * task is queued; hooks that rely on one CPU's lock while siblings share it.
 *
 * It needs CONFIG_SCHED_CORE and CPUs with siblings.
 */
#include <errno.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_crew.h"
#include "psi_leak.h"

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

/*
 * A task that passes on a cookie has it for that time. So a child does, not the
 * storm.
 */
static void share_cookie(pid_t from, pid_t to)
{
	pid_t pid = fork_or_die();

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
			/*
			 * The storm has no cookie, so sharing its own removes
			 * the task's.
			 */
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
 * The fair server runs fair tasks that real-time tasks starve. A CPU that goes
 * offline stops its server, even one that has stopped before; then 6.12 warns
 * "dl_rq->running_bw > old", with PSI or without. Core scheduling often stops a
 * server: it looks for one whenever a CPU goes idle. So where CPUs come and go,
 * the test sets the servers' runtime to zero.
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

/*
 * Setting the runtime stops the server, too. The load runs on that CPU, so that
 * its server has not stopped before.
 */
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

FIXTURE_VARIANT_ADD(cores, with_readers) { .beside = storm_readers };
FIXTURE_VARIANT_ADD(cores, that_come_and_go) { .beside = storm_hotplug };
FIXTURE_VARIANT_ADD(cores, with_changes_of_class) { .beside = storm_policy };

FIXTURE_SETUP(cores)
{
	char active[8] = "";

	read_file("/sys/devices/system/cpu/smt/active", active, sizeof(active));
	if (active[0] != '1')
		SKIP(return, "the CPUs have no siblings");
	if (core(PR_SCHED_CORE_SHARE_TO, getpid()) == EINVAL)
		SKIP(return, "needs CONFIG_SCHED_CORE");
	storm_set_up(&self->disk, "psi_cores");
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

	pid = storm_start(beside, &storm, beside == storm_readers ? SCHED_OTHER : SCHED_FIFO);
	storm_cores(&storm);
	load_wait(pid);
	ksft_print_msg("%lu events\n", storm_events());
}

TEST_F_TIMEOUT(cores, leave_nothing_behind, STORM_TIMEOUT)
{
	char path[64], runtime[24] = "";

	snprintf(path, sizeof(path), SERVER, 0);
	if (variant->beside == storm_hotplug && read_file(path, runtime, sizeof(runtime)) > 0)
		servers_set("0");
	storm_both(variant->beside, &self->disk);
	if (runtime[0])
		servers_set(runtime);
	EXPECT_LT(0, storm_events());
	EXPECT_NO_LEAK(find_leak(self->disk.node));
}

/*
 * Without PSI, 6.12 fails the variant with hotplug after minutes, with the
 * warning above.
 */
TEST_F_TIMEOUT(cores, make_no_kernel_warn_without_psi, STORM_TIMEOUT)
{
	if (!access(PSI_CPU, F_OK))
		SKIP(return, "tests a kernel without PSI");
	storm_both(variant->beside, &self->disk);
	EXPECT_LT(0, storm_events());
}

TEST_HARNESS_MAIN
