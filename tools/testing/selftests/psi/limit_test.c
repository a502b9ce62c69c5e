// SPDX-License-Identifier: GPL-2.0
/*
 * Limit or shortage: what keeps tasks from the cpu
 *
 * Invariant: a task that waits for the cpu is held by a limit, or there is a
 * shortage of CPUs; which of the two is the same for each cgroup that contains
 * the task, and for the system. At any moment "some" holds if and only if one of
 * the two does, so max(limit, shortage) <= exact pressure <= limit + shortage.
 *
 * Oracle: cpu.stat.local of the cgroup has throttled_usec, the time in which its
 * bandwidth kept runnable tasks of it from the cpu. For deadline tasks it is
 * what is left of their period.
 *
 *     spinner at 10 %    |#|.........|#|.........|#|.........|
 *     limit some           |---------| |---------| |---------|
 *     shortage some
 *
 * Bugs it would find: a throttled task that counts as shortage, in its cgroup or
 * only above it; a class that is left over when the limit is lifted; a task that
 * waits for a neighbour and counts as limited; cgroups between the limit and the
 * task, without the cpu controller, that are forgotten; a class that stays behind when
 * its task moves, or is forgotten where its cgroup is switched on again; a trigger or an
 * average of one class that has what belongs to the other.
 *
 * Tolerance: a throttle that is under way is missing in throttled_usec, at the
 * begin and at the end: one of the 100 periods, TOLERANCE. Kernel threads that
 * run make a spinner wait, SHORTAGE percent at most; what they wait themselves is
 * pressure of the system, and the run queues' own clocks tell how much it is.
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"
#include "psi_delays.h"
#include "psi_stat.h"
#include "psi_uring.h"

#define GROUP		CGROUP_ROOT "/psi_limit"
#define CHILD		GROUP "/child"
#define LEAF		CHILD "/leaf"
#define OTHER		GROUP "/other"
#define STAT		(GROUP CGROUP_STAT)
#define TIME		(10 * NSEC_PER_SEC)
#define SHORTAGE	0.1
#define TOLERANCE	1.0

/* ---- Policies and clocks ---- */

static void set_deadline(pid_t pid, __u64 runtime, __u64 period)
{
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_DEADLINE,
		.sched_runtime = runtime,
		.sched_deadline = period,
		.sched_period = period,
	};

	if (syscall(SYS_sched_setattr, pid, &attr, 0))
		psi_die("sched_setattr: %m");
}

/* Time in ns in which the bandwidth of a cgroup kept its tasks from the cpu. */
static __u64 throttled_ns(const char *cgroup)
{
	char path[128], text[256];
	const char *field;
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/cpu.stat.local", cgroup);
	file = fopen(path, "r");
	if (!file)
		psi_die("%s: %m", path);
	len = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[len] = 0;
	field = strstr(text, "throttled_usec ");
	if (!field)
		psi_die("%s has no throttled_usec", path);
	return strtoull(field + strlen("throttled_usec "), NULL, 10) * NSEC_PER_USEC;
}

/* ---- First, while no cgroup was removed with a limit: then there is none ---- */

#define STEP		(500 * NSEC_PER_MSEC)
#define HARD		"1000 1000000"
#define LIFTED		"max 1000000"

/* A task on the only CPU, whose cgroup may use a thousandth of that; classes are asked. */
static pid_t held_start(void (*fn)(void *arg))
{
	static const char * const asked = GROUP;
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = fn };
	pid_t pid;

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	cgroup_create(GROUP, "+cpu");
	cgroup_write(GROUP, "cpu.max", HARD);
	pid = load_start(&load);
	classes_ask(&asked, 1);
	return pid;
}

static void held_stop(pid_t pid)
{
	load_stop(pid);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

/*
 *     the task	| held    | real-time |  waits for its neighbour, and runs
 *     cpu.max	| 0.1 %             | none
 */
TEST(a_limit_that_goes_while_its_task_is_real_time_is_gone)
{
	pid_t pid = held_start(spin), neighbour;
	struct classes c;

	sleep_for(STEP);
	set_policy(pid, SCHED_FIFO, 1);
	cgroup_write(GROUP, "cpu.max", LIFTED);
	set_policy(pid, SCHED_OTHER, 0);
	neighbour = spin_on(0);
	classes_read(GROUP, "cpu", &c);
	sleep_for(STEP);
	classes_since(GROUP, "cpu", STEP, &c);
	EXPECT_GE(SHORTAGE, c.limit[0])
		TH_LOG("limit %.3f %%, there is none", c.limit[0]);
	EXPECT_LE(40, c.shortage[0]);
	load_stop(neighbour);
	held_stop(pid);
}

/* ---- Tasks at cpu.max ---- */

FIXTURE(cpu_max) {
	pid_t pid[3];
};

/**
 * struct worker - a spinner
 * @cgroup: its cgroup; NULL: no spinner
 * @cpu: its CPU
 */
struct worker {
	const char *cgroup;
	int cpu;
};

FIXTURE_VARIANT(cpu_max) {
	int cpus;
	const char *max, *child_max;
	bool child_has_controller;
	struct worker worker[3];
	/* In percent; of the system, and of the cgroup alone. Negative: not known beforehand. */
	double limit, shortage, own_shortage;
};

FIXTURE_VARIANT_ADD(cpu_max, none) {
	.cpus = 1, .max = "max 100000",
	.worker = { { GROUP, 0 } },
};

FIXTURE_VARIANT_ADD(cpu_max, of_10_percent_is_limit_only) {
	.cpus = 1, .max = "10000 100000",
	.worker = { { GROUP, 0 } },
	.limit = 90,
};

FIXTURE_VARIANT_ADD(cpu_max, of_10_percent_on_the_second_cpu_of_two) {
	.cpus = 2, .max = "10000 100000",
	.worker = { { GROUP, 1 } },
	.limit = -1,
};

FIXTURE_VARIANT_ADD(cpu_max, of_a_parent_holds_tasks_of_its_children) {
	.cpus = 1, .max = "30000 100000", .child_max = "max 100000",
	.child_has_controller = true,
	.worker = { { LEAF, 0 } },
	.limit = 70,
};

FIXTURE_VARIANT_ADD(cpu_max, of_a_parent_holds_tasks_of_children_without_controller) {
	.cpus = 1, .max = "30000 100000",
	.worker = { { LEAF, 0 } },
	.limit = 70,
};

FIXTURE_VARIANT_ADD(cpu_max, of_a_child_is_lower_than_that_of_its_parent) {
	.cpus = 1, .max = "50000 100000", .child_max = "20000 100000",
	.child_has_controller = true,
	.worker = { { LEAF, 0 } },
	.limit = 80,
};

/* Either one of the two runs and the other lacks a CPU, or both are held. */
FIXTURE_VARIANT_ADD(cpu_max, of_two_tasks_is_shortage_while_one_runs) {
	.cpus = 1, .max = "40000 100000",
	.worker = { { GROUP, 0 }, { GROUP, 0 } },
	.limit = 60, .shortage = 40, .own_shortage = 40,
};

/* Shortage while both want to run. How long the neighbour has the CPU then is not known. */
FIXTURE_VARIANT_ADD(cpu_max, of_a_task_with_a_neighbour) {
	.cpus = 1, .max = "20000 100000",
	.worker = { { GROUP, 0 }, { CGROUP_ROOT, 0 } },
	.limit = -1, .shortage = -1, .own_shortage = -1,
};

/*
 * A limited task on CPU 0, two on CPU 1 that share it. Each CPU is half of the system. An
 * emulator has the CPUs take turns. So the limit does not hold for 90 % of the time, and a
 * task that it lets go waits until it is the turn of its CPU.
 */
FIXTURE_VARIANT_ADD(cpu_max, and_a_shortage_on_two_cpus) {
	.cpus = 2, .max = "10000 100000",
	.worker = { { GROUP, 0 }, { CGROUP_ROOT, 1 }, { CGROUP_ROOT, 1 } },
	.limit = -1, .shortage = -1, .own_shortage = -1,
};

FIXTURE_SETUP(cpu_max)
{
	cpus_use(variant->cpus);
	set_policy(0, SCHED_FIFO, 50);
	cgroup_create(GROUP, "+cpu");
	cgroup_create(CHILD, "");
	if (variant->child_has_controller)
		cgroup_write(GROUP, "cgroup.subtree_control", "+cpu");
	cgroup_create(LEAF, "");
	cgroup_write(GROUP, "cpu.max", variant->max);
	if (variant->child_max)
		cgroup_write(CHILD, "cpu.max", variant->child_max);
}

FIXTURE_TEARDOWN(cpu_max)
{
	for (int i = 0; i < 3; i++)
		if (self->pid[i])
			load_stop(self->pid[i]);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

/* @others: what kernel threads waited for a CPU, in percent */
static void check_shortage(struct __test_metadata *_metadata, const char *group, double shortage,
			   double want, double others)
{
	EXPECT_GE(want + (want ? TOLERANCE : SHORTAGE) + others, shortage)
		TH_LOG("%s: shortage %.3f %%, must be %.3f %%, others wait for %.3f %%", group,
		       shortage, want, others);
	EXPECT_LE(want - TOLERANCE, shortage)
		TH_LOG("%s: shortage %.3f %%, must be %.3f %%", group, shortage, want);
}

/* What all tasks but the spinners waited for a CPU so far, in ns. A wait counts once it ends. */
static __u64 others_wait(const pid_t *pid)
{
	struct cpu_clock clock;
	__u64 spinners = 0;

	cpu_clock_read(-1, &clock);
	for (int i = 0; i < 3; i++)
		spinners += pid[i] ? task_wait_ns(pid[i]) : 0;
	return clock.wait - spinners;
}

TEST_F_TIMEOUT(cpu_max, tells_limit_from_shortage, 120)
{
	const char * const groups[] = { NULL, GROUP, variant->worker[0].cgroup };
	const char *limited = variant->child_max && variant->child_max[0] != 'm' ? CHILD : GROUP;
	double throttled, limit, others;
	struct classes c[3];
	__u64 begin, held, wait;

	for (int i = 0; i < 3 && variant->worker[i].cgroup; i++) {
		struct load load = {
			.cpu = variant->worker[i].cpu,
			.cgroup = variant->worker[i].cgroup,
			.fn = spin,
		};

		self->pid[i] = load_start(&load);
	}
	/* Windows in which these CPUs were not in use all the time, or another one was. */
	classes_ask(groups, 3);
	sleep_for(2 * NSEC_PER_SEC);
	held = throttled_ns(limited);
	wait = others_wait(self->pid);
	begin = now_ns();
	classes_measure(groups, "cpu", TIME, c);
	throttled = 100.0 * (throttled_ns(limited) - held) / (now_ns() - begin);
	/* Threads of the kernel are in the system only. */
	others = 100.0 * (others_wait(self->pid) - wait) / (now_ns() - begin);
	for (int i = 0; i < 3; i++) {
		const char *group = groups[i] ?: "the system";
		double want = i ? variant->own_shortage : variant->shortage;

		ksft_print_msg("%s: limit %.3f, shortage %.3f, plain %.3f, throttled %.3f\n",
			       group, c[i].limit[0], c[i].shortage[0], c[i].plain[0], throttled);
		EXPECT_EQ(NULL, classes_contradiction(&c[i], TIME))
			TH_LOG("%s: %s", group, classes_contradiction(&c[i], TIME));
		limit = i ? throttled : variant->limit;
		if (limit >= 0)
			EXPECT_GE(TOLERANCE, fabs(c[i].limit[0] - limit))
				TH_LOG("%s: limit %.3f %%, must be %.3f %%", group, c[i].limit[0],
				       limit);
		if (want >= 0)
			check_shortage(_metadata, group, c[i].shortage[0], want, i ? 0 : others);
	}
	if (variant->worker[2].cgroup) {
		/* Of two CPUs that are always in use. */
		EXPECT_GE(TOLERANCE, fabs(c[0].limit[0] - throttled / 2))
			TH_LOG("limit %.3f %%, must be %.3f %%", c[0].limit[0], throttled / 2);
		EXPECT_LE(45, c[0].shortage[0]);
	}
	if (variant->limit == 90 && variant->cpus == 1)
		report_row("one task at cpu.max 10 % on an idle machine: share of time",
			   "limit some %.2f, shortage some %.3f", c[0].limit[0], c[0].shortage[0]);
}

/* ---- What holds a task changes while it is held ---- */

/* A task waits for its neighbour and runs, until a tick says that it has run enough. */
#define STEP_DOUBT	(20 * NSEC_PER_MSEC)
#define STEPS		8

/**
 * struct step - a change, and whether a limit holds the task after it
 * @cgroup: where; NULL: there is no further step
 * @file: which file is written; NULL: the task moves there
 * @text: what is written
 * @held: whether a limit holds the task then
 */
struct step {
	const char *cgroup, *file, *text;
	bool held;
};

FIXTURE(held_task) {
	pid_t pid[2];
};

FIXTURE_VARIANT(held_task) {
	struct step step[STEPS];
};

FIXTURE_VARIANT_ADD(held_task, whose_limit_is_lifted) {
	.step = {
		{ GROUP, "cpu.max", HARD, true },
		{ GROUP, "cpu.max", LIFTED, false },
		{ GROUP, "cpu.max", HARD, true },
	},
};

FIXTURE_VARIANT_ADD(held_task, whose_outer_limit_is_lifted_first) {
	.step = {
		{ GROUP, "cpu.max", HARD, true },
		{ CHILD, "cpu.max", HARD, true },
		{ GROUP, "cpu.max", LIFTED, true },
		{ CHILD, "cpu.max", LIFTED, false },
	},
};

FIXTURE_VARIANT_ADD(held_task, whose_inner_limit_is_lifted_first) {
	.step = {
		{ GROUP, "cpu.max", HARD, true },
		{ CHILD, "cpu.max", HARD, true },
		{ CHILD, "cpu.max", LIFTED, true },
		{ GROUP, "cpu.max", LIFTED, false },
	},
};

FIXTURE_VARIANT_ADD(held_task, that_moves_out_of_its_limit_and_back) {
	.step = {
		{ CHILD, "cpu.max", HARD, true },
		{ OTHER, NULL, NULL, false },
		{ LEAF, NULL, NULL, true },
		{ CGROUP_ROOT, NULL, NULL, false },
		{ LEAF, NULL, NULL, true },
	},
};

FIXTURE_VARIANT_ADD(held_task, that_moves_to_another_limit_and_back) {
	.step = {
		{ CHILD, "cpu.max", HARD, true },
		{ OTHER, "cpu.max", HARD, true },
		{ OTHER, NULL, NULL, true },
		{ LEAF, NULL, NULL, true },
		{ CHILD, "cpu.max", LIFTED, false },
		{ OTHER, NULL, NULL, true },
	},
};

FIXTURE_VARIANT_ADD(held_task, whose_cgroups_are_switched_off_and_on) {
	.step = {
		{ CHILD, "cpu.max", HARD, true },
		{ LEAF, "cgroup.pressure", "0", true },
		{ LEAF, "cgroup.pressure", "1", true },
		{ GROUP, "cgroup.pressure", "0", true },
		{ GROUP, "cgroup.pressure", "1", true },
		{ CHILD, "cpu.max", LIFTED, false },
	},
};

FIXTURE_VARIANT_ADD(held_task, whose_limit_changes_while_its_cgroup_is_off) {
	.step = {
		{ CHILD, "cpu.max", HARD, true },
		{ CHILD, "cgroup.pressure", "0", true },
		{ CHILD, "cpu.max", LIFTED, false },
		{ CHILD, "cgroup.pressure", "1", false },
		{ CHILD, "cgroup.pressure", "0", false },
		{ CHILD, "cpu.max", HARD, true },
		{ CHILD, "cgroup.pressure", "1", true },
	},
};

FIXTURE_SETUP(held_task)
{
	static const char * const asked[] = { NULL, GROUP, CHILD, LEAF, OTHER };
	const struct load load = { .cpu = 0, .cgroup = LEAF, .fn = spin };

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	cgroup_moves_are_fast();
	cgroup_create(GROUP, "+cpu");
	cgroup_create(CHILD, "");
	cgroup_create(OTHER, "");
	cgroup_write(GROUP, "cgroup.subtree_control", "+cpu");
	cgroup_create(LEAF, "");
	/* Windows of the system in which other CPUs were in use. */
	classes_ask(asked, ARRAY_SIZE(asked));
	sleep_for(2 * NSEC_PER_SEC);
	self->pid[0] = load_start(&load);
	self->pid[1] = spin_on(0);
}

FIXTURE_TEARDOWN(held_task)
{
	for (int i = 0; i < 2; i++)
		load_stop(self->pid[i]);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

/**
 * struct shown - what a group has to show
 * @cgroup: the group; NULL: the system
 * @start: its totals at the begin
 * @steps: while it had the task: those in which a limit held it not, and in which it did
 */
struct shown {
	const char *cgroup;
	struct classes start;
	int steps[2];
};

/* Where the task is after a step, which was at @cgroup before. */
static const char *take_step(const struct step *step, const char *cgroup, pid_t pid)
{
	if (step->file) {
		cgroup_write(step->cgroup, step->file, step->text);
		return cgroup;
	}
	cgroup_move(step->cgroup, pid);
	return step->cgroup;
}

/*
 * Totals grew by what the steps so far say, and by nothing else. If no limit holds the task, it
 * shares the CPU.
 */
static void check_step(struct __test_metadata *_metadata, const struct shown *shown, int step)
{
	struct classes grown = shown->start;
	double doubt = 0.5 * STEP_DOUBT / STEP * (step + 2), limit, shortage;
	/* The other task waits then, too, but not in a cgroup. */
	double shared = shown->cgroup ? 0.5 * shown->steps[0] : shown->steps[0];
	const char *group = shown->cgroup ?: "the system";

	classes_since(shown->cgroup, "cpu", STEP, &grown);
	limit = grown.limit[0] / 100;
	shortage = grown.shortage[0] / 100;
	ksft_print_msg("step %d: %s: limit %.3f of %d, shortage %.3f of %.1f\n", step, group,
		       limit, shown->steps[1], shortage, shared);
	EXPECT_GE(doubt, fabs(limit - shown->steps[1]))
		TH_LOG("step %d: %s: limit %.3f, must be %d", step, group, limit, shown->steps[1]);
	EXPECT_GE(doubt, fabs(shortage - shared))
		TH_LOG("step %d: %s: shortage %.3f, must be %.1f", step, group, shortage, shared);
}

/* The task is held, or it shares the CPU with a neighbour. */
TEST_F_TIMEOUT(held_task, counts_while_a_limit_holds_it, 60)
{
	struct shown shown[] = { { NULL }, { GROUP }, { CHILD }, { LEAF }, { OTHER } };
	const char *at = LEAF;

	for (int i = 0; i < (int)ARRAY_SIZE(shown); i++)
		classes_read(shown[i].cgroup, "cpu", &shown[i].start);
	for (int s = 0; s < STEPS && variant->step[s].cgroup; s++) {
		const struct step *step = &variant->step[s];

		at = take_step(step, at, self->pid[0]);
		sleep_for(STEP);
		for (int i = 0; i < (int)ARRAY_SIZE(shown); i++) {
			const char *cgroup = shown[i].cgroup ?: CGROUP_ROOT;

			if (!cgroup_has(cgroup, "cpu.pressure"))
				continue;
			shown[i].steps[step->held] += !shown[i].cgroup ||
						      !strncmp(at, cgroup, strlen(cgroup));
			check_step(_metadata, &shown[i], s);
		}
	}
}

/* ---- A task that changes its class ---- */

/**
 * struct turn - a policy, and how long a limit holds a spinner with it
 * @policy: of the task
 * @held: in percent of the time: by cpu.max, or by the runtime of a deadline task
 */
struct turn {
	int policy;
	double held;
};

/*
 * What cpu.max holds stays on the runqueue, or leaves it until the limit lets it go. Either way
 * the scheduler takes it off and puts it on again when its class changes.
 */
static const struct turn turns[] = {
	{ SCHED_OTHER, 100 },
	{ SCHED_FIFO, 0 },
	{ SCHED_OTHER, 100 },
	{ SCHED_RR, 0 },
	{ SCHED_BATCH, 100 },
	{ SCHED_IDLE, 100 },
	{ SCHED_FIFO, 0 },
	{ SCHED_RR, 0 },
	{ SCHED_IDLE, 100 },
	{ SCHED_OTHER, 100 },
	{ SCHED_DEADLINE, 50 },
	{ SCHED_OTHER, 100 },
	{ SCHED_DEADLINE, 50 },
	{ SCHED_RR, 0 },
	{ SCHED_DEADLINE, 50 },
	{ SCHED_IDLE, 100 },
};

/* The test runs while a deadline task is held, so that is when such a task changes its class. */
static void take_turn(pid_t pid, int policy)
{
	if (policy == SCHED_DEADLINE)
		set_deadline(pid, 5 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC);
	else
		set_policy(pid, policy, policy == SCHED_FIFO || policy == SCHED_RR);
}

FIXTURE(class_change) {
	pid_t pid;
};

FIXTURE_SETUP(class_change)
{
	self->pid = held_start(spin);
}

FIXTURE_TEARDOWN(class_change)
{
	held_stop(self->pid);
}

TEST_F_TIMEOUT(class_change, counts_while_a_limit_holds_it, 60)
{
	struct classes c;

	for (int i = 0; i < (int)ARRAY_SIZE(turns); i++) {
		double doubt = 100.0 * STEP_DOUBT / STEP;

		take_turn(self->pid, turns[i].policy);
		classes_read(GROUP, "cpu", &c);
		sleep_for(STEP);
		classes_since(GROUP, "cpu", STEP, &c);
		ksft_print_msg("policy %d: limit %.3f, shortage %.3f\n", turns[i].policy,
			       c.limit[0], c.shortage[0]);
		EXPECT_GE(doubt, fabs(c.limit[0] - turns[i].held))
			TH_LOG("turn %d, policy %d: limit %.3f", i, turns[i].policy, c.limit[0]);
		EXPECT_GE(doubt, c.shortage[0])
			TH_LOG("turn %d, policy %d: shortage %.3f", i, turns[i].policy,
			       c.shortage[0]);
	}
}

/* Without cpu.max, a task that was held for its runtime shares the CPU with a neighbour. */
TEST_F_TIMEOUT(class_change, leaves_no_limit_behind, 60)
{
	pid_t neighbour = spin_on(0);
	struct classes c;

	cgroup_write(GROUP, "cpu.max", LIFTED);
	for (int i = 0; i < 4; i++) {
		set_deadline(self->pid, 4 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC);
		sleep_for(STEP);
		set_policy(self->pid, SCHED_OTHER, 0);
		classes_read(GROUP, "cpu", &c);
		sleep_for(STEP);
		classes_since(GROUP, "cpu", STEP, &c);
		EXPECT_GE(SHORTAGE, c.limit[0])
			TH_LOG("round %d: limit %.3f %%, there is none", i, c.limit[0]);
		EXPECT_LE(40, c.shortage[0]);
	}
	load_stop(neighbour);
}

/* Becomes real-time, so that no limit holds it, and has a child that is not. */
static void fork_when_real_time(void *arg)
{
	while (sched_getscheduler(0) == SCHED_OTHER)
		;
	if (!fork_or_die())
		spin(arg);
	for (;;)
		pause();
}

TEST(child_of_a_task_that_was_held_is_held_from_its_first_moment)
{
	const struct sched_param lowest = { .sched_priority = 1 };
	pid_t pid = held_start(fork_when_real_time);
	struct classes c;

	/* Once the parent used up its 1 ms of the period of a second. */
	for (__u64 before = throttled_ns(GROUP); throttled_ns(GROUP) == before;)
		sleep_for(NSEC_PER_MSEC);
	sleep_for(50 * NSEC_PER_MSEC);
	classes_read(GROUP, "cpu", &c);
	ASSERT_EQ(0, sched_setscheduler(pid, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest));
	sleep_for(STEP);
	classes_since(GROUP, "cpu", STEP, &c);
	EXPECT_LE(90, c.limit[0])
		TH_LOG("limit %.3f %%", c.limit[0]);
	EXPECT_GE(1, c.shortage[0])
		TH_LOG("shortage %.3f %%", c.shortage[0]);
	cgroup_write(GROUP, "cgroup.kill", "1");
	held_stop(pid);
}

/* ---- Long system calls, and threads that never return from the kernel ---- */

/* Reads zeros: each call takes many times the bandwidth of a period. */
static void read_zeros(void *arg)
{
	size_t size = 16 << 20;
	char *buffer = shared_memory(size);
	int fd = open("/dev/zero", O_RDONLY);

	for (;;) {
		if (read(fd, buffer, size) != (ssize_t)size)
			psi_die("/dev/zero: %m");
	}
}

/* After the first request, a thread of the kernel looks for others all the time. */
static void spin_in_a_ring(void *arg)
{
	struct uring ring;

	if (!uring_create_restless(&ring, IORING_SETUP_SQPOLL))
		psi_die("io_uring: %m");
	uring_prepare(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	sleep_forever();
}

FIXTURE(system_call) {
	pid_t pid;
};

FIXTURE_VARIANT(system_call) {
	void (*fn)(void *arg);
};

FIXTURE_VARIANT_ADD(system_call, of_a_task) {
	.fn = read_zeros,
};

FIXTURE_VARIANT_ADD(system_call, of_the_thread_of_a_ring) {
	.fn = spin_in_a_ring,
};

FIXTURE_SETUP(system_call)
{
	static const char * const asked = GROUP;
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = variant->fn };

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	cgroup_create(GROUP, "+cpu");
	cgroup_write(GROUP, "cpu.max", "10000 100000");
	self->pid = load_start(&load);
	classes_ask(&asked, 1);
}

FIXTURE_TEARDOWN(system_call)
{
	load_stop(self->pid);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

/* The last thread of a process. */
static pid_t last_thread(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	pid_t tid = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		psi_die("%s: %m", path);
	while ((entry = readdir(dir)))
		if (atoi(entry->d_name) > tid)
			tid = atoi(entry->d_name);
	closedir(dir);
	return tid;
}

/*
 * A kernel may hold a task in the middle of a system call, or wait until it returns to user
 * space, or until a thread of a ring looks for work. The task is held or runs: what its own clock
 * does not have is limit.
 */
TEST_F_TIMEOUT(system_call, that_goes_on_is_no_stall, 60)
{
	pid_t tid = last_thread(self->pid);
	struct task_clock tc;
	struct classes c;
	double held;
	__u64 begin;

	classes_read(GROUP, "cpu", &c);
	task_clock_read(tid, &tc);
	begin = now_ns();
	sleep_for(TIME);
	tc = task_clock_since(tid, &tc);
	begin = now_ns() - begin;
	classes_since(GROUP, "cpu", begin, &c);
	held = 100 - 100.0 * tc.run / begin;
	ksft_print_msg("held %.3f, limit %.3f, shortage %.3f\n", held, c.limit[0], c.shortage[0]);
	EXPECT_LE(50, held);
	EXPECT_GE(95, held);
	EXPECT_GE(TOLERANCE, fabs(c.limit[0] - held))
		TH_LOG("limit %.3f, the task says %.3f", c.limit[0], held);
	EXPECT_GE(SHORTAGE, c.shortage[0]);
}

/* ---- Averages ---- */

#define PERIOD		(2 * NSEC_PER_SEC)
/* This far into a period, the last one has been collected. */
#define SETTLED		(100 * NSEC_PER_MSEC)
/*
 * Of an average, in points. The kernel collects a period some ticks late, and takes what stalled
 * since as spread evenly. So a period has up to one cycle of the bandwidth too much or too little,
 * 10 ms of 2 s. An average of 10 s takes 18 % of it.
 */
#define AVERAGE		0.1

static const char * const lines[] = {
	"cpu.limit.some", "cpu.limit.full", "cpu.shortage.some", "cpu.shortage.full"
};

#define NR_LINES	((int)ARRAY_SIZE(lines))

/**
 * struct response - what the averages of a line have to be
 * @total: of the line when the latest period ended, in us
 * @carry: what that period had above 100 %
 * @avg: in percent
 */
struct response {
	__u64 total;
	double carry, avg[NR_AVGS];
};

FIXTURE(averages) {
	pid_t pid[2];
	struct response response[NR_LINES];
};

FIXTURE_SETUP(averages)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	cgroup_create(GROUP, "+cpu");
	psi_stat_ask(STAT);
}

FIXTURE_TEARDOWN(averages)
{
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

static void lines_read(struct psi_line *line)
{
	const struct psi *cpu;
	struct psi_stat stat;

	psi_stat_read(STAT, &stat);
	cpu = stat.of[RES_CPU];
	line[0] = cpu[KIND_LIMIT].some;
	line[1] = cpu[KIND_LIMIT].full;
	line[2] = cpu[KIND_SHORTAGE].some;
	line[3] = cpu[KIND_SHORTAGE].full;
}

/*
 * The totals when a period ends, and then the averages. Averages change there and nowhere else.
 * To read the file takes a CPU for a while: the tasks must get what their limit lets them have.
 */
static void period_end(struct psi_line *line)
{
	struct psi_line before[NR_LINES], settled[NR_LINES];
	__u64 last = now_ns() + 3 * PERIOD;
	bool changed = false;

	lines_read(before);
	while (!changed) {
		if (now_ns() > last)
			psi_die("no average changes in three periods");
		sleep_for(2 * NSEC_PER_MSEC);
		lines_read(line);
		for (int i = 0; i < NR_LINES; i++)
			changed |= !!memcmp(before[i].avg, line[i].avg, sizeof(line->avg));
	}
	sleep_for(SETTLED);
	lines_read(settled);
	for (int i = 0; i < NR_LINES; i++)
		memcpy(line[i].avg, settled[i].avg, sizeof(line->avg));
}

/* One sample more: avg' = avg * e + sample * (1 - e), as averages_test says. */
static void respond(struct response *r, __u64 total)
{
	static const double tau[NR_AVGS] = { 10, 60, 300 };
	double sample = 1e5 * (total - r->total) / PERIOD + r->carry;

	r->carry = fmax(sample - 100, 0);
	r->total = total;
	for (int i = 0; i < NR_AVGS; i++) {
		double e = exp(-2 / tau[i]);

		r->avg[i] = r->avg[i] * e + (sample - r->carry) * (1 - e);
	}
}

/* Periods in which something stalls, each with a sample of its own. */
static void follow(struct __test_metadata *_metadata, FIXTURE_DATA(averages) * self, int periods)
{
	struct psi_line line[NR_LINES];

	for (int p = 0; p < periods; p++) {
		period_end(line);
		for (int i = 0; i < NR_LINES; i++) {
			struct response *r = &self->response[i];

			respond(r, line[i].total);
			for (int a = 0; a < NR_AVGS; a++) {
				double avg = line[i].avg[a] / 100.0;

				EXPECT_GE(AVERAGE, fabs(r->avg[a] - avg))
					TH_LOG("period %d: \"%s\" has %.2f, must be %.4f", p,
					       lines[i], avg, r->avg[a]);
			}
		}
	}
	for (int i = 0; i < NR_LINES; i++)
		ksft_print_msg("%s: avg10 %.4f\n", lines[i], self->response[i].avg[AVG10]);
}

/*
 * The lines of a group answer to their own totals: two tasks that are limited to 40 %, then the
 * same without a limit, then none.
 */
TEST_F_TIMEOUT(averages, of_classes_follow_their_totals, 200)
{
	struct psi_line line[NR_LINES];

	cgroup_write(GROUP, "cpu.max", "4000 10000");
	spin_pair_start(self->pid, GROUP);
	/* The period in which the load began, and the one that has what that was late by. */
	period_end(line);
	period_end(line);
	for (int i = 0; i < NR_LINES; i++) {
		self->response[i].total = line[i].total;
		for (int a = 0; a < NR_AVGS; a++)
			self->response[i].avg[a] = line[i].avg[a] / 100.0;
	}
	follow(_metadata, self, 10);
	EXPECT_LE(30, self->response[0].avg[AVG10]);
	cgroup_write(GROUP, "cpu.max", "max 10000");
	follow(_metadata, self, 10);
	EXPECT_LE(80, self->response[2].avg[AVG10]);
	spin_pair_stop(self->pid);
	follow(_metadata, self, 5);
}

/* ---- A limit that is reached in the moment in which a task goes to sleep ---- */

#define ROUND		(2 * NSEC_PER_SEC)
#define ROUNDS		6

/* Works in bursts, sleeps, then works for longer: each round begins later in its tick. */
static void work_and_sleep(void *arg)
{
	const __u64 *begin = arg;

	for (int i = 0; i < ROUNDS; i++) {
		__u64 burst = 1500 * NSEC_PER_USEC, work = 300 * NSEC_PER_MSEC;

		sleep_until(*begin + i * (ROUND + 700 * NSEC_PER_USEC));
		spin_for(&burst);
		sleep_until(*begin + i * ROUND + 1500 * NSEC_PER_MSEC);
		spin_for(&work);
	}
	sleep_forever();
}

/*
 * A burst of 1.5 ms uses up the bandwidth of 1 ms a second, and ends before the next tick, or
 * not. So the cgroup is throttled while nothing of it is queued, and its task wakes up without
 * a limit.
 */
FIXTURE(throttle) {
	pid_t pid[2];
};

FIXTURE_SETUP(throttle)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	cgroup_create(GROUP, "+cpu");
	psi_stat_ask(STAT);
}

FIXTURE_TEARDOWN(throttle)
{
	for (int i = 0; i < 2; i++)
		load_stop(self->pid[i]);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

TEST_F_TIMEOUT(throttle, of_a_task_asleep_does_not_hold_it_later, 60)
{
	__u64 *begin = shared_memory(sizeof(*begin));
	struct load load = { .cpu = 0, .cgroup = GROUP, .fn = work_and_sleep, .arg = begin };
	struct classes c;

	*begin = now_ns() + NSEC_PER_SEC;
	self->pid[0] = load_start(&load);
	self->pid[1] = spin_on(0);
	for (int i = 0; i < ROUNDS; i++) {
		sleep_until(*begin + i * ROUND - 300 * NSEC_PER_MSEC);
		cgroup_write(GROUP, "cpu.max", "1000 1000000");
		sleep_until(*begin + i * ROUND + 1300 * NSEC_PER_MSEC);
		cgroup_write(GROUP, "cpu.max", "max 1000000");
		classes_read(GROUP, "cpu", &c);
		sleep_until(*begin + i * ROUND + 1900 * NSEC_PER_MSEC);
		/* Of 300 ms, in which two tasks share the CPU. */
		classes_since(GROUP, "cpu", 300 * NSEC_PER_MSEC, &c);
		EXPECT_GE(SHORTAGE, c.limit[0])
			TH_LOG("round %d: limit %.3f %%, there is none", i, c.limit[0]);
		EXPECT_LE(40, c.shortage[0]);
	}
	munmap(begin, sizeof(*begin));
}

/* ---- Deadline tasks ---- */

/* 2 ms of runtime in each 20 ms, for a task that would spin all the time. */
static void deadline_spin(void *arg)
{
	set_deadline(0, 2 * NSEC_PER_MSEC, 20 * NSEC_PER_MSEC);
	spin(arg);
}

FIXTURE(deadline) {
	pid_t pid;
};

FIXTURE_SETUP(deadline)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
}

FIXTURE_TEARDOWN(deadline)
{
	load_stop(self->pid);
	cpus_use(cpus_possible());
}

TEST_F(deadline, task_without_runtime_is_held_by_its_limit)
{
	struct load load = { .cpu = -1, .fn = deadline_spin };
	pid_t pid[3] = { load_start(&load) };
	const char *asked = NULL;
	struct classes c;
	__u64 begin, wait;
	double others;

	self->pid = pid[0];
	classes_ask(&asked, 1);
	wait = others_wait(pid);
	classes_read(NULL, "cpu", &c);
	begin = now_ns();
	sleep_for(TIME);
	classes_since(NULL, "cpu", now_ns() - begin, &c);
	others = 100.0 * (others_wait(pid) - wait) / (now_ns() - begin);
	ksft_print_msg("limit %.3f, shortage %.3f\n", c.limit[0], c.shortage[0]);
	EXPECT_GE(1, fabs(c.limit[0] - 90));
	/* Threads of the kernel wait for it while it runs. */
	check_shortage(_metadata, "the system", c.shortage[0], 0, others);
}

TEST_HARNESS_MAIN
