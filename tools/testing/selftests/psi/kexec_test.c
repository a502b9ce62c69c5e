// SPDX-License-Identifier: GPL-2.0
/*
 * A kernel that kexec starts while the machine is under pressure
 *
 *	kexec_test IMAGE INITRD		make pressure, and start this kernel
 *	kexec_test			test the kernel that was started so
 *
 * Invariant: the second kernel measures from its own start. No total and no
 * average holds time of the first kernel, nobody asks for anything yet, and a
 * stall counts and fires triggers as on any other machine.
 *
 *	          |first kernel            |second kernel
 *	load      |    ####################|           ######
 *	triggers  |armed, with events      |           armed, with events
 *	cpu total |0   ... 10 s            |0  ...
 *	TSC       |0   ... 10 s ... 20 s ... 30 s ...
 *
 * The time stamp counter goes on, and the first kernel stops all CPUs but one
 * in the middle of whatever they do.
 *
 * Bugs it would find: a time that begins at zero and ends at what the counter
 * says; a CPU that counts only if it starts as one of a new machine; a thread
 * or a timer of PSI that lets a kernel under pressure not end.
 *
 * The second kernel has the command line of the first, and a word more that
 * tells the two apart. INITRD has to run this program in both.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_stat.h"

/* i386 has no such call, and no call has this number. */
#ifndef __NR_kexec_file_load
#define __NR_kexec_file_load	-1
#endif

#define WORD		" psi_kexec=1"
#define GROUP		CGROUP_ROOT "/psi_kexec"
#define CMDLINE_MAX	4096

static bool is_second_kernel(void)
{
	char cmdline[CMDLINE_MAX];

	read_text("/proc/cmdline", cmdline, sizeof(cmdline));
	return strstr(cmdline, WORD);
}

/* ---- The first kernel ---- */

#define BUSY		GROUP "/busy"
#define HELD_BACK	GROUP "/held_back"
#define LATENCY		(10 * NSEC_PER_MSEC)
/* Far more than memory.high, so the task that asks for it never gets it all. */
#define MEMORY_HIGH	"4194304"
#define MEMORY		(128UL << 20)
/* For so long there is pressure; and how long an event may take, in ms. */
#define PRESSURE	(10 * NSEC_PER_SEC)
#define PATIENCE	30000

static const struct {
	bool user;
	const char *path;
	const char *text;
} first_triggers[] = {
	{ false, PSI_CPU, "some 500000 1000000" },
	{ true, PSI_CPU, "some 500000 2000000" },
	{ false, PSI_STAT, "cpu.exact.some 500000 2000000" },
	{ false, PSI_IO, "some 50000 1000000" },
	{ false, PSI_MEMORY, "some 50000 1000000" },
	{ false, BUSY "/cpu.pressure", "some 500000 1000000" },
};

static void load_kernel(const char *image, const char *initrd)
{
	int image_fd = open_file(image, O_RDONLY), initrd_fd = open_file(initrd, O_RDONLY);
	char cmdline[CMDLINE_MAX + sizeof(WORD)];
	size_t len = read_text("/proc/cmdline", cmdline, CMDLINE_MAX);

	/* In place of the newline. */
	memcpy(cmdline + len - 1, WORD, sizeof(WORD));
	if (syscall(__NR_kexec_file_load, image_fd, initrd_fd, strlen(cmdline) + 1, cmdline, 0UL))
		psi_die("cannot load %s: %s (needs CONFIG_KEXEC_FILE)", image, strerror(errno));
	close(image_fd);
	close(initrd_fd);
}

static void stall_forever(void *arg)
{
	for (;;)
		stall(arg);
}

static void take_more_memory(void *arg)
{
	char *mem = private_memory(MEMORY);

	for (size_t pos = 0; pos < MEMORY; pos += BLOCK) {
		mem[pos] = 1;
		asm volatile("" ::: "memory");
	}
	psi_die("memory.high holds nobody back");
}

/* @arg is the descriptor of a trigger. */
static void collect_events(void *arg)
{
	for (;;)
		trigger_fired(*(int *)arg, -1);
}

static void start_loads(struct stalls *stalls)
{
	static struct poller pollers[] = {
		{ .path = PSI_CPU, .period = NSEC_PER_MSEC },
		{ .path = PSI_STAT, .period = NSEC_PER_MSEC },
		{ .path = BUSY "/cgroup.pressure.stat", .period = NSEC_PER_MSEC },
	};
	struct load load = { .cgroup = BUSY, .fn = spin };

	for (load.cpu = 0; load.cpu < cpus_possible(); load.cpu++)
		for (int i = 0; i < 2; i++)
			load_start(&load);
	load_start(&(struct load){ .cpu = -1, .cgroup = BUSY, .fn = stall_forever, .arg = stalls });
	load_start(&(struct load){ .cpu = -1, .cgroup = HELD_BACK, .fn = take_more_memory });
	for (size_t i = 0; i < ARRAY_SIZE(pollers); i++)
		load_start(&(struct load){ .cpu = -1, .fn = poll_file, .arg = &pollers[i] });
}

/* Every trigger fires, and from then on a task waits for the next event. */
static void expect_events(int fd[ARRAY_SIZE(first_triggers)])
{
	for (size_t i = 0; i < ARRAY_SIZE(first_triggers); i++) {
		if (!trigger_fired(fd[i], PATIENCE))
			psi_die("first kernel: no event of \"%s\" on %s", first_triggers[i].text,
				first_triggers[i].path);
		load_start(&(struct load){ .cpu = -1, .fn = collect_events, .arg = &fd[i] });
	}
}

static void expect_pressure(void)
{
	struct psi_stat stat;

	psi_stat_read(PSI_STAT, &stat);
	for (int r = 0; r < NR_RESOURCES; r++)
		if (!stat.of[r][KIND_PLAIN].some.total || !stat.of[r][KIND_EXACT].some.total)
			psi_die("first kernel: no pressure of resource %d", r);
	ksft_print_msg("first kernel: up %llu ms, some: cpu %llu ms, memory %llu ms, io %llu ms\n",
		       now_ns() / NSEC_PER_MSEC, stat.of[RES_CPU][KIND_PLAIN].some.total / 1000,
		       stat.of[RES_MEMORY][KIND_PLAIN].some.total / 1000,
		       stat.of[RES_IO][KIND_PLAIN].some.total / 1000);
}

/* It prints no result: without the second kernel there is none. */
static void __noreturn start_second_kernel(const char *image, const char *initrd)
{
	int fd[ARRAY_SIZE(first_triggers)];
	struct stalls stalls;
	__u64 end;

	load_kernel(image, initrd);
	cgroup_create(GROUP, "");
	cgroup_create(BUSY, "+memory");
	cgroup_create(HELD_BACK, "+memory");
	cgroup_write(HELD_BACK, "memory.high", MEMORY_HIGH);
	stalls_create(&stalls, "psi_kexec", LATENCY);
	for (size_t i = 0; i < ARRAY_SIZE(first_triggers); i++)
		fd[i] = trigger_arm_as(first_triggers[i].user, first_triggers[i].path, "%s",
				       first_triggers[i].text);
	/* Before the loads. */
	set_policy(0, SCHED_FIFO, 50);
	end = now_ns() + PRESSURE;
	start_loads(&stalls);
	expect_events(fd);
	sleep_until(end);
	expect_pressure();
	fflush(stdout);
	reboot(RB_KEXEC);
	psi_die("kexec: %s", strerror(errno));
}

/* ---- The second kernel ---- */

/* Threshold of all triggers, in ns. */
#define THRESHOLD	(500 * NSEC_PER_MSEC)
/* A part of a stall that may be missing in a total, in percent. */
#define MISSING		1
/* An average may be as of the end of a period that is under way, in s. */
#define PERIOD		2

FIXTURE(second_kernel) {
	pid_t pid[2];
};

FIXTURE_SETUP(second_kernel)
{
	if (!is_second_kernel())
		SKIP(return, "kexec started no kernel: kexec_test IMAGE INITRD does");
	set_policy(0, SCHED_FIFO, 50);
}

FIXTURE_TEARDOWN(second_kernel)
{
	if (!access(GROUP, F_OK))
		cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

static void expect_young(struct __test_metadata *_metadata, const struct psi_line *line,
			 const char *name, double up)
{
	static const int tau[NR_AVGS] = { 10, 60, 300 };

	TH_LOG("%s: total %llu us, avg10 %.2f, %.3f s after the start", name, line->total,
	       line->avg[AVG10] / 100.0, up);
	EXPECT_LT(line->total, up * 1e6);
	for (int i = 0; i < NR_AVGS; i++)
		EXPECT_LE(line->avg[i] / 1e4, 1 - exp(-(up + PERIOD) / tau[i]));
}

/* The first test: it finds the files as nobody has read them. */
TEST_F(second_kernel, counts_nothing_of_the_first_one)
{
	static const char * const name[NR_RESOURCES] = { "cpu", "memory", "io" };
	struct psi_stat stat;
	double up;

	psi_stat_read(PSI_STAT, &stat);
	up = now_ns() / 1e9;
	EXPECT_EQ(NULL, psi_stat_contradiction(&stat));
	for (int r = 0; r < NR_RESOURCES; r++) {
		expect_young(_metadata, &stat.of[r][KIND_PLAIN].some, name[r], up);
		expect_young(_metadata, &stat.of[r][KIND_PLAIN].full, name[r], up);
		/* The programs that asked for these are gone. */
		for (int k = KIND_EXACT; k < NR_KINDS; k++)
			EXPECT_EQ(0, stat.of[r][k].some.total);
	}
	expect_young(_metadata, &stat.irq, "irq", up);
}

TEST_F(second_kernel, has_all_cpus_and_threads_and_no_complaint)
{
	static const char * const complaints[] = {
		"] WARNING: ", "] BUG: ", "] Oops: ", "] psi: ",
	};
	static char log[1 << 20];
	pid_t threads[16];

	EXPECT_EQ(cpus_possible(), sysconf(_SC_NPROCESSORS_ONLN));
	EXPECT_EQ(3, kernel_threads("psi*", threads, ARRAY_SIZE(threads)));
	/* Of a read of the whole log. */
	ASSERT_LT(0, klogctl(3, log, sizeof(log) - 1));
	EXPECT_NE(NULL, strstr(log, "Linux version"));
	for (size_t i = 0; i < ARRAY_SIZE(complaints); i++) {
		EXPECT_EQ(NULL, strstr(log, complaints[i]))
			TH_LOG("the log has \"%s\"", complaints[i]);
	}
	/* A warning, and an oops. */
	EXPECT_EQ(0, file_number("/proc/sys/kernel/tainted", "") & (1 << 9 | 1 << 7));
}

/**
 * struct reading - totals of cpu some, in ns
 * @begin: before the first of them was read
 * @end: after the last one
 * @system: plain pressure
 * @exact: the same, moment by moment
 * @group: plain pressure of the cgroup
 */
struct reading {
	__u64 begin, end;
	__u64 system, exact, group;
};

static void take_reading(struct reading *r)
{
	struct psi psi;

	r->begin = now_ns();
	r->system = psi_some_ns(PSI_CPU);
	r->exact = psi_stat_total(PSI_STAT, "cpu.exact.some") * NSEC_PER_USEC;
	cgroup_psi_read(GROUP, "cpu.pressure", &psi);
	r->group = psi.some.total * NSEC_PER_USEC;
	r->end = now_ns();
}

/* A @stall that holds from the @first reading to the @last one. */
static void expect_total(struct __test_metadata *_metadata, const char *name,
			 const struct reading *first, const struct reading *last, __u64 stall)
{
	__u64 most = last->end - first->begin, least = last->begin - first->end;

	TH_LOG("%s: %llu us of stall in %llu to %llu us", name, stall / NSEC_PER_USEC,
	       least / NSEC_PER_USEC, most / NSEC_PER_USEC);
	EXPECT_LE(least - least * MISSING / 100, stall);
	EXPECT_LE(stall, most + NSEC_PER_MSEC);
}

/* Two spinners in a cgroup share each of the first @cpus CPUs. */
static void expect_stall_of_pairs(struct __test_metadata *_metadata, int cpus)
{
	struct load load = { .cgroup = GROUP, .fn = spin };
	struct reading first, last;

	cpus_use(cpus);
	cgroup_create(GROUP, "");
	for (load.cpu = 0; load.cpu < cpus; load.cpu++)
		for (int i = 0; i < 2; i++)
			load_start(&load);
	psi_stat_ask(PSI_STAT);
	take_reading(&first);
	sleep_for(5 * NSEC_PER_SEC);
	take_reading(&last);
	expect_total(_metadata, "system", &first, &last, last.system - first.system);
	expect_total(_metadata, "system, exact", &first, &last, last.exact - first.exact);
	expect_total(_metadata, "cgroup", &first, &last, last.group - first.group);
}

TEST_F_TIMEOUT(second_kernel, counts_a_stall_on_the_first_cpu, 120)
{
	expect_stall_of_pairs(_metadata, 1);
}

TEST_F_TIMEOUT(second_kernel, counts_a_stall_on_all_cpus, 120)
{
	expect_stall_of_pairs(_metadata, cpus_possible());
}

TEST_F_TIMEOUT(second_kernel, fires_triggers_for_a_stall_and_for_nothing_else, 120)
{
	__u64 quiet;
	int fd[3];

	cpus_use(1);
	/* What other tests have left ends. */
	sleep_for(3 * NSEC_PER_SEC);
	quiet = psi_some_ns(PSI_CPU);
	fd[0] = trigger_arm(PSI_CPU, "some 500000 1000000");
	fd[1] = trigger_arm_user(PSI_CPU, "some 500000 2000000");
	fd[2] = trigger_arm(PSI_STAT, "cpu.exact.some 500000 2000000");
	sleep_for(4 * NSEC_PER_SEC);
	for (int i = 0; i < 3; i++) {
		bool fired = trigger_fired(fd[i], 0);

		/* A busy host may stretch what the kernel does now and then. */
		EXPECT_TRUE(!fired || psi_some_ns(PSI_CPU) - quiet >= THRESHOLD);
	}
	spin_pair_start(self->pid, NULL);
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(trigger_fired(fd[i], 5000));
	spin_pair_stop(self->pid);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
}

int main(int argc, char **argv)
{
	if (argc == 3 && *argv[1] != '-') {
		if (!is_second_kernel())
			start_second_kernel(argv[1], argv[2]);
		argc = 1;
	}
	return test_harness_run(argc, argv);
}
