// SPDX-License-Identifier: GPL-2.0
/*
 * How the CPUs of a machine add up to its pressure
 *
 * Invariant: in a window of 2 s, each CPU's stall counts in proportion to the time in which
 * that CPU had anything to do,
 *
 *     T = sum(stalled[cpu] * busy[cpu]) / sum(busy[cpu])
 *
 * so an idle CPU has no say, and a CPU with one spinner halves the pressure of a CPU
 * with two. A blocked task belongs to the CPU it last ran on, until it is woken on
 * another one. And windows end by the clock, not when somebody reads.
 *
 * What would break it: an idle CPU that dilutes, a weight in units too coarse to see a short
 * activity, a reader that ends the window, a sleeper that stays behind (or is counted on
 * two CPUs) when it wakes up elsewhere.
 *
 * These tests keep two CPUs busy. They do so in real time too: in virtual time emulators
 * let CPUs take turns, not always fair ones. So every expectation is computed from what
 * the CPUs themselves say they did (schedstat).
 *
 * Tolerance: 1 point. What waits beside the loads are the kernel's own threads, whose
 * waits are in the oracle, and both ends of the measurement on a busy host.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_util.h"

#define MAX_SPINNERS	6
#define TOLERANCE	1.0
#define BLOCK		4096

static void *shared_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
	return page;
}

/* ---- Spinners ---- */

FIXTURE(spinners) {
	pid_t pid[MAX_SPINNERS];
};

/*
 * @nr: spinners on CPU 0 and on CPU 1; @percent: what they make together
 */
FIXTURE_VARIANT(spinners) {
	int nr[2];
	double percent;
};

FIXTURE_VARIANT_ADD(spinners, one_on_each_cpu_do_not_wait) {
	.nr = { 1, 1 },
	.percent = 0,
};

FIXTURE_VARIANT_ADD(spinners, two_on_one_cpu_are_not_diluted_by_an_idle_one) {
	.nr = { 2, 0 },
	.percent = 100,
};

FIXTURE_VARIANT_ADD(spinners, two_on_each_cpu_are_a_full_stall) {
	.nr = { 2, 2 },
	.percent = 100,
};

FIXTURE_VARIANT_ADD(spinners, two_here_and_one_there_are_half_a_stall) {
	.nr = { 2, 1 },
	.percent = 50,
};

FIXTURE_VARIANT_ADD(spinners, one_here_and_three_there_are_half_a_stall) {
	.nr = { 1, 3 },
	.percent = 50,
};

FIXTURE_SETUP(spinners)
{
	int nr = 0;

	cpus_use(2);
	set_policy(0, SCHED_FIFO, 50);
	for (int cpu = 0; cpu < 2; cpu++)
		for (int i = 0; i < variant->nr[cpu]; i++)
			self->pid[nr++] = spin_idle_on(cpu);
}

FIXTURE_TEARDOWN(spinners)
{
	for (int i = 0; i < variant->nr[0] + variant->nr[1]; i++)
		load_stop(self->pid[i]);
	cpus_use(cpus_possible());
}

/*
 * What a CPU did between two readings of its clock, as shares of the time. With two
 * spinners somebody waits all the time, with one as long as tasks say they waited.
 */
static void account(const struct cpu_clock *before, const struct cpu_clock *after, __u64 time,
		    int spinners, double *stalled, double *busy)
{
	*busy = spinners ? 1 : (double)(after->run - before->run) / time;
	*stalled = spinners > 1 ? 1 : (double)(after->wait - before->wait) / time;
}

/* The first window is one in which the load began: what it says is not looked at. */
TEST_F(spinners, add_up_by_the_weights_of_their_cpus)
{
	struct cpu_clock before[2], after[2];
	double stalled[2], busy[2], oracle;
	__u64 start, total;
	double some;

	sleep_for(5 * NSEC_PER_SEC / 2);
	start = now_ns();
	total = psi_some_ns(PSI_CPU);
	for (int cpu = 0; cpu < 2; cpu++)
		cpu_clock_read(cpu, &before[cpu]);
	sleep_for(4 * NSEC_PER_SEC);
	for (int cpu = 0; cpu < 2; cpu++)
		cpu_clock_read(cpu, &after[cpu]);
	total = psi_some_ns(PSI_CPU) - total;
	start = now_ns() - start;
	for (int cpu = 0; cpu < 2; cpu++)
		account(&before[cpu], &after[cpu], start, variant->nr[cpu], &stalled[cpu],
			&busy[cpu]);
	oracle = 100 * (stalled[0] * busy[0] + stalled[1] * busy[1]) / (busy[0] + busy[1]);
	some = 100.0 * total / start;
	ksft_print_msg("cpu some %.3f %%, by the CPUs' clocks %.3f %%\n", some, oracle);
	EXPECT_GE(5, fabs(oracle - variant->percent));
	EXPECT_GE(TOLERANCE, fabs(some - oracle)) {
		TH_LOG("cpu some %.3f %%, must be %.3f %%", some, oracle);
	}
}

/* ---- Bursts ---- */

/* Busy in every other second, from @arg on. */
static void burst(void *arg)
{
	__u64 next = *(__u64 *)arg;

	for (;; next += 2 * NSEC_PER_SEC) {
		sleep_until(next);
		spin_until(next + NSEC_PER_SEC);
	}
}

static void read_at_50_hz(void *arg)
{
	__u64 *end = arg;
	struct psi psi;

	for (__u64 next = now_ns(); next < *end; next += 20 * NSEC_PER_MSEC) {
		sleep_until(next);
		psi_read(PSI_CPU, &psi);
	}
}

/*
 *     CPU 0   spinner, spinner   |stall|stall|stall|stall|
 *     CPU 1   bursts of 1 s      |busy |     |busy |     |
 *
 * The value depends on how the seconds fall into windows, so it must not depend on
 * who reads. Measured over 12 s, an even number of windows and of bursts.
 */
static double some_next_to_bursts(bool read)
{
	__u64 *end = shared_page();
	const struct load reader = {
		.cpu = 1,
		.policy = SCHED_FIFO,
		.prio = 40,
		.fn = read_at_50_hz,
		.arg = end,
	};
	__u64 phase, start, total;
	const struct load bursts = { .cpu = 1, .fn = burst, .arg = &phase };
	pid_t pid[3];
	double some;

	pid[0] = spin_on(0);
	pid[1] = spin_on(0);
	phase = now_ns() + 10 * NSEC_PER_MSEC;
	pid[2] = load_start(&bursts);
	sleep_until(phase + 4 * NSEC_PER_SEC);

	start = now_ns();
	total = psi_some_ns(PSI_CPU);
	*end = start + 12 * NSEC_PER_SEC;
	if (read)
		load_wait(load_start(&reader));
	else
		sleep_until(*end);
	some = 100.0 * (psi_some_ns(PSI_CPU) - total) / (now_ns() - start);

	for (int i = 0; i < 3; i++)
		load_stop(pid[i]);
	munmap(end, 4096);
	return some;
}

FIXTURE(two_cpus) {
	struct slow_disk disk;
};

FIXTURE_SETUP(two_cpus)
{
	cpus_use(2);
	task_delays_on();
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(&self->disk, "psi_weight", 10 * NSEC_PER_MSEC, 64);
}

FIXTURE_TEARDOWN(two_cpus)
{
	slow_disk_remove(&self->disk);
	cpus_use(cpus_possible());
}

TEST_F_TIMEOUT(two_cpus, show_the_same_when_read_at_50_hz_and_unread, 100)
{
	double unread, read;

	unread = some_next_to_bursts(false);
	read = some_next_to_bursts(true);
	report_row("CPU 0 stalled, CPU 1 in bursts: some, unread", "%.2f", unread);
	report_row("CPU 0 stalled, CPU 1 in bursts: some, read at 50 Hz", "%.2f", read);
	EXPECT_GE(1.0, fabs(unread - read)) {
		TH_LOG("unread %.2f %%, read at 50 Hz %.2f %%", unread, read);
	}
}

/* ---- A sleeper in iowait ---- */

static void read_blocks(void *arg)
{
	void *buf = aligned_alloc(BLOCK, BLOCK);
	int fd;

	fd = open(arg, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (!buf || fd < 0)
		psi_die("%s: %s", (char *)arg, strerror(errno));
	for (;;)
		if (pread(fd, buf, BLOCK, 0) != BLOCK)
			psi_die("%s: %s", (char *)arg, strerror(errno));
}

/* Shares of the time: io some, io full, and what the reader was asleep, in percent. */
struct io_shares {
	double some;
	double full;
	double asleep;
};

static void measure_io(pid_t reader, struct io_shares *shares)
{
	struct task_clock before, after;
	__u64 start, awake;
	struct psi psi, end;

	sleep_for(5 * NSEC_PER_SEC / 2);
	start = now_ns();
	task_clock_read(reader, &before);
	psi_read(PSI_IO, &psi);
	sleep_for(4 * NSEC_PER_SEC);
	psi_read(PSI_IO, &end);
	task_clock_read(reader, &after);
	start = now_ns() - start;
	awake = after.run - before.run + after.irq - before.irq + after.wait - before.wait;
	shares->some = 100.0 * (end.some.total - psi.some.total) * NSEC_PER_USEC / start;
	shares->full = 100.0 * (end.full.total - psi.full.total) * NSEC_PER_USEC / start;
	shares->asleep = 100.0 * (start - awake) / start;
	ksft_print_msg("io some %.3f %%, full %.3f %%, the reader is asleep for %.3f %%\n",
		       shares->some, shares->full, shares->asleep);
}

/*
 *     CPU 0   reader asleep   some 100 %   full 100 %
 *     CPU 1   spinner         some   0 %   full   0 %
 *
 * and then the reader is moved to the spinner:
 *
 *     CPU 0   idle
 *     CPU 1   reader asleep, spinner   some 100 %   full 0 %
 */
TEST_F_TIMEOUT(two_cpus, see_a_sleeper_in_iowait_where_it_was_woken_last, 60)
{
	const struct load load = { .cpu = 0, .fn = read_blocks, .arg = self->disk.node };
	pid_t reader = load_start(&load);
	pid_t spinner = spin_idle_on(1);
	struct io_shares shares;
	cpu_set_t set;

	measure_io(reader, &shares);
	EXPECT_GE(TOLERANCE, fabs(shares.some - shares.asleep / 2));
	EXPECT_GE(TOLERANCE, fabs(shares.full - shares.asleep / 2));

	CPU_ZERO(&set);
	CPU_SET(1, &set);
	ASSERT_EQ(0, sched_setaffinity(reader, sizeof(set), &set));
	measure_io(reader, &shares);
	EXPECT_GE(TOLERANCE, fabs(shares.some - shares.asleep));
	EXPECT_GE(TOLERANCE, shares.full);

	load_stop(reader);
	load_stop(spinner);
}

TEST_HARNESS_MAIN
