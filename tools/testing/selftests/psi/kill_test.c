// SPDX-License-Identifier: GPL-2.0
/*
 * A task is killed at every step of arming a trigger, and of its cgroup's life
 *
 * Invariant: a task that dies leaves no trigger, no cgroup that cannot be
 * removed, and no memory, at whatever step the kill hits it.
 *
 *      victim   |go   mkdir   open   write   poll   close   rmdir|
 *      killer   |.....|..k steps later: SIGKILL
 *
 * Bugs it would find: a trigger that belongs to the task instead of the file; a
 * reference that only the return of the system call drops; a wait that a kill
 * does not end.
 *
 * The killer has priority over the victim and goes by the clock: in virtual
 * time, kill number k hits the same instruction in every run. The test first
 * measures how long each step of a victim takes, and divides that time by the
 * number of kills.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_switches.h"
#include "psi_trigger.h"

#define GROUP		CGROUP_ROOT "/psi_kill"
#define CHILD		GROUP "/child"
#define TEXT		"some 1000 500000"
#define KILLS		400	/* in a round, the same number for each step */
#define STEPS		7
/* The kernel allocates much in the first ones. */
#define WARM_ROUNDS	2
#define ROUNDS		4
#define LATENCY		(100 * NSEC_PER_MSEC)
/* Less than anything that could leak, in bytes for each kill. */
#define LEAK		64

/* ---- Victims ---- */

/**
 * struct victim - a task that is killed sooner or later
 * @go: when it begins
 * @end: when it had finished, or 0
 * @step: its current step
 * @begin: when each step began
 */
struct victim {
	__u64 go;
	__u64 end;
	int step;
	__u64 begin[STEPS + 1];
};

static struct victim *victim;

static void step_done(bool well, const char *what)
{
	if (!well)
		psi_die("%s: %s", what, strerror(errno));
	victim->begin[++victim->step] = now_ns();
}

static void arm_and_close(const char *path, int ms)
{
	struct pollfd pfd = { .events = POLLPRI };
	char buf[512];

	pfd.fd = open(path, O_RDWR | O_CLOEXEC);
	step_done(pfd.fd >= 0, "open");
	step_done(write(pfd.fd, TEXT, strlen(TEXT)) == (ssize_t)strlen(TEXT), "write");
	step_done(!poll(&pfd, 1, ms), "poll");
	step_done(read(pfd.fd, buf, sizeof(buf)) > 0, "read");
	step_done(!close(pfd.fd), "close");
}

static void arm_the_system(void)
{
	arm_and_close(PSI_IO, 0);
}

static void wait_for_the_system(void)
{
	arm_and_close(PSI_IO, 5);
}

static void arm_a_cgroup(void)
{
	arm_and_close(GROUP "/io.pressure", 0);
}

static void make_arm_and_remove(void)
{
	step_done(!mkdir(CHILD, 0755), "mkdir");
	arm_and_close(CHILD "/io.pressure", 0);
	step_done(!rmdir(CHILD), "rmdir");
}

static void wait_in_a_new_cgroup(void)
{
	step_done(!mkdir(CHILD, 0755), "mkdir");
	arm_and_close(CHILD "/io.pressure", 5);
	step_done(!rmdir(CHILD), "rmdir");
}

static void make_and_remove_armed(void)
{
	int fd;

	step_done(!mkdir(CHILD, 0755), "mkdir");
	fd = open(CHILD "/io.pressure", O_RDWR | O_CLOEXEC);
	step_done(fd >= 0, "open");
	step_done(write(fd, TEXT, strlen(TEXT)) > 0, "write");
	step_done(!rmdir(CHILD), "rmdir");
	step_done(!close(fd), "close");
}

static void switch_armed(void)
{
	int fd = open(GROUP "/io.pressure", O_RDWR | O_CLOEXEC);
	int control = open(GROUP "/cgroup.pressure", O_WRONLY | O_CLOEXEC);

	step_done(fd >= 0 && control >= 0, "open");
	step_done(write(fd, TEXT, strlen(TEXT)) > 0, "write");
	step_done(write(control, "0", 1) == 1, "off");
	step_done(write(control, "1", 1) == 1, "on");
	step_done(!close(fd) && !close(control), "close");
}

/* ---- The killer ---- */

/* Kills a victim after @ns. Returns whether the kill came before its end. */
static bool kill_after(void (*fn)(void), __u64 ns)
{
	int status;
	pid_t pid;

	memset(victim, 0, sizeof(*victim));
	victim->go = now_ns() + 2 * NSEC_PER_MSEC;
	pid = fork_or_die();
	if (!pid) {
		set_policy(0, SCHED_FIFO, 10);
		sleep_until(victim->go);
		victim->begin[0] = now_ns();
		fn();
		victim->end = now_ns();
		_exit(0);
	}
	sleep_until(victim->go + ns);
	kill(pid, SIGKILL);
	status = reap(pid);
	if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : status)
		psi_die("the victim ended with %#x at step %d", status, victim->step);
	return WIFSIGNALED(status);
}

/* The child cgroup is gone, or can be removed. */
static void clean_up(struct __test_metadata *_metadata, __u64 ns)
{
	char buf[8];

	if (rmdir(CHILD)) {
		EXPECT_EQ(ENOENT, errno) {
			TH_LOG("killed after %llu ns, at step %d", ns, victim->step);
		}
	}
	ASSERT_EQ(2, read_file(GROUP "/cgroup.pressure", buf, sizeof(buf)));
	EXPECT_EQ(buf[0] == '0', access(GROUP "/io.pressure", F_OK) != 0);
	cgroup_write(GROUP, "cgroup.pressure", "1");
}

/* How often PSI's threads check a trigger during a few stalls. */
static __u64 stalls_served(const struct stalls *stalls)
{
	__u64 switches = monitor_switches();

	stall_times(stalls, 5);
	return monitor_switches() - switches;
}

FIXTURE(killed) {
	struct stalls stalls;
};

FIXTURE_VARIANT(killed) {
	void (*fn)(void);
	int steps;
};

FIXTURE_VARIANT_ADD(killed, arm_the_system) { .fn = arm_the_system, .steps = 5 };
FIXTURE_VARIANT_ADD(killed, wait_for_the_system) { .fn = wait_for_the_system, .steps = 5 };
FIXTURE_VARIANT_ADD(killed, arm_a_cgroup) { .fn = arm_a_cgroup, .steps = 5 };
FIXTURE_VARIANT_ADD(killed, make_arm_and_remove) { .fn = make_arm_and_remove, .steps = 7 };
FIXTURE_VARIANT_ADD(killed, wait_in_a_new_cgroup) { .fn = wait_in_a_new_cgroup, .steps = 7 };
FIXTURE_VARIANT_ADD(killed, make_and_remove_armed) { .fn = make_and_remove_armed, .steps = 5 };
FIXTURE_VARIANT_ADD(killed, switch_armed) { .fn = switch_armed, .steps = 5 };

FIXTURE_SETUP(killed)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	victim = shared_memory(sizeof(*victim));
	stalls_create(&self->stalls, "psi_kill", LATENCY);
	group_enter(GROUP);
}

FIXTURE_TEARDOWN(killed)
{
	group_leave();
	cgroup_remove(GROUP);
	stalls_remove(&self->stalls);
	munmap(victim, sizeof(*victim));
}

/*
 * One round with the same number of kills for each step, however short. @alive
 * has the times of a victim that finished. @hits counts the kills by the step
 * at which they hit.
 */
static int kill_all(struct __test_metadata *_metadata, void (*fn)(void), int steps,
		    const struct victim *alive, int *hits)
{
	int killed = 0, each = KILLS / steps;

	for (int step = 0; step < steps; step++) {
		__u64 begin = alive->begin[step], length = alive->begin[step + 1] - begin;

		for (int k = 0; k < each; k++) {
			__u64 after = begin - alive->go + k * length / each;
			bool hit = kill_after(fn, after);

			killed += hit;
			if (hit && !victim->end)
				hits[victim->step]++;
			clean_up(_metadata, after);
		}
	}
	return killed;
}

/*
 * What the kernel has, in KiB, once it freed what it frees later, and gave back its slabs. What
 * the caches held until then is freed later, too.
 */
static void memory_read(long *slab, long *percpu)
{
	for (int i = 0; i < 2; i++) {
		sleep_for(30 * NSEC_PER_SEC);
		write_file("/proc/sys/vm/drop_caches", "2");
	}
	sleep_for(NSEC_PER_SEC);
	*slab = file_number("/proc/meminfo", "SUnreclaim:");
	*percpu = file_number("/proc/meminfo", "Percpu:");
}

TEST_F_TIMEOUT(killed, leaves_nothing, 600)
{
	long slab = 0, percpu = 0, slab_after, percpu_after;
	int hits[STEPS + 1] = {}, killed = 0;
	struct victim alive;
	int fd;

	/* The kernel allocates much on the first runs. */
	for (int i = 0; i < 3; i++) {
		EXPECT_FALSE(kill_after(variant->fn, NSEC_PER_SEC));
		ASSERT_NE(0, victim->end);
	}
	alive = *victim;
	for (int round = 0; round < ROUNDS; round++) {
		if (round == WARM_ROUNDS) {
			killed = 0;
			memory_read(&slab, &percpu);
		}
		killed += kill_all(_metadata, variant->fn, variant->steps, &alive, hits);
	}
	memory_read(&slab_after, &percpu_after);
	slab = slab_after - slab;
	percpu = percpu_after - percpu;
	ksft_print_msg("%d kills; slabs grew by %ld KiB, percpu by %ld KiB\n", killed, slab,
		       percpu);
	for (int i = 0; i < variant->steps; i++) {
		ksft_print_msg("step %d: %d kills in %llu ns\n", i, hits[i],
			       alive.begin[i + 1] - alive.begin[i]);
		EXPECT_LT(0, hits[i]) {
			TH_LOG("none in step %d", i);
		}
	}
	/*
	 * A trigger that leaks takes 96 bytes each time, its sampler and a group
	 * several hundred of each kind.
	 */
	EXPECT_GE(LEAK * killed / 1024, slab);
	EXPECT_GE(LEAK * killed / 1024, percpu);
	EXPECT_EQ(0, stalls_served(&self->stalls));
	/* This check can fail: the threads do serve a trigger that exists. */
	fd = trigger_arm(PSI_IO, TEXT);
	EXPECT_LT(0, stalls_served(&self->stalls));
	EXPECT_EQ(0, close(fd));
}

TEST_HARNESS_MAIN
