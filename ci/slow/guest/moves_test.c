// SPDX-License-Identifier: GPL-2.0
/*
 * Moves of tasks to CPUs that come and go, on a kernel without PSI
 *
 * With PREEMPT_RT, 6.12 warns here. So the storms on PSI do not let moves and
 * CPU changes overlap on such a kernel: see storm_moves_overlap(). ci/slow/storms
 * runs this with FLAVOUR=none.
 */
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_storm.h"

FIXTURE(moves) {
	struct slow_disk disk;
};

FIXTURE_SETUP(moves)
{
	if (!access(PSI_CPU, F_OK))
		SKIP(return, "tests a kernel without PSI");
	storm_set_up(&self->disk, "psi_moves");
}

FIXTURE_TEARDOWN(moves)
{
	slow_disk_remove(&self->disk);
}

TEST_F_TIMEOUT(moves, while_cpus_come_and_go_cause_no_warning, STORM_TIMEOUT)
{
	struct storm storm = {
		.time = storm_time(5 * NSEC_PER_SEC),
		.disk = self->disk.node,
	};
	pid_t pid[2];

	storm_moves_overlap();
	pid[0] = storm_start(storm_hotplug, &storm, SCHED_FIFO);
	pid[1] = storm_start(storm_ping_pong, &storm, SCHED_FIFO);
	storm_ping_pong(&storm);
	for (int i = 0; i < 2; i++)
		load_wait(pid[i]);
	ksft_print_msg("%lu events\n", storm_events());
	EXPECT_LT(0, storm_events());
}

TEST_HARNESS_MAIN
