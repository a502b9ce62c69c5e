// SPDX-License-Identifier: GPL-2.0
/*
 * The statistics file: its keys, who asks for it, and that it is of one moment
 *
 * Invariant: exact pressure, limit and shortage are measured while a program
 * asks: a trigger on such a line is armed, or the file was read in the last five
 * minutes. Otherwise their totals stand still. The first read says zero. All
 * lines of one read are of one moment, so
 *
 *     max(limit, shortage) <= exact <= limit + shortage,  full <= some
 *
 * and the lines without a kind have what the plain files have.
 *
 *     read     |                                        |
 *     asked    |################################________|####...
 *     total    0                      5 minutes ========         stands still
 *
 * Oracle: on a machine with one CPU, exact pressure is plain pressure, which other
 * tests cover. The load reads from a slow disk, one block after the other.
 *
 * Bugs it would find: what is asked for is measured forever, or is forgotten too
 * early; a trigger that does not ask; a total that begins anew, or that has what
 * happened while nobody asked; a window that is counted twice, or not; lines that
 * are read one after the other; a key that means what it does not say.
 *
 * Tolerance: the kernel looks every 20 s who still asks. A window of 2 s is under
 * way when somebody begins to ask.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_causes.h"
#include "psi_stat.h"
#include "psi_work.h"

#define GROUP		CGROUP_ROOT "/psi_stat"
#define STAT		(GROUP CGROUP_STAT)
#define LATENCY		(100 * NSEC_PER_MSEC)
/* So long after the last read it is still asked for, and so long after it not any more. */
#define ASKED		(300 * NSEC_PER_SEC)
#define FORGOTTEN	(320 * NSEC_PER_SEC)
/* The same after the last trigger was closed, with the window that is under way then. */
#define LEAVES		(22 * NSEC_PER_SEC)
/* Totals are rounded down; clocks are read one after the other. */
#define NEAR		1000

/* ---- Keys ---- */

FIXTURE(key) {
};

FIXTURE_VARIANT(key) {
	const char *key;
	int error;
};

FIXTURE_VARIANT_ADD(key, cpu_some) { "cpu.some" };
FIXTURE_VARIANT_ADD(key, cpu_exact_full) { "cpu.exact.full" };
FIXTURE_VARIANT_ADD(key, memory_limit_some) { "memory.limit.some" };
FIXTURE_VARIANT_ADD(key, io_shortage_full) { "io.shortage.full" };
FIXTURE_VARIANT_ADD(key, of_a_plain_file) { "some", EINVAL };
FIXTURE_VARIANT_ADD(key, without_a_resource) { "exact.some", EINVAL };
FIXTURE_VARIANT_ADD(key, without_a_line) { "io.exact", EINVAL };
FIXTURE_VARIANT_ADD(key, of_no_line) { "io.exact.", EINVAL };
FIXTURE_VARIANT_ADD(key, of_an_unknown_resource) { "net.some", EINVAL };
FIXTURE_VARIANT_ADD(key, of_an_unknown_kind) { "io.plain.some", EINVAL };
FIXTURE_VARIANT_ADD(key, of_an_unknown_line) { "io.exact.most", EINVAL };
FIXTURE_VARIANT_ADD(key, of_two_kinds) { "io.exact.limit.some", EINVAL };
FIXTURE_VARIANT_ADD(key, of_two_kinds_the_other_way) { "io.limit.exact.some", EINVAL };
FIXTURE_VARIANT_ADD(key, in_another_order) { "io.some.exact", EINVAL };
FIXTURE_VARIANT_ADD(key, with_a_blank) { "io.exact some", EINVAL };
FIXTURE_VARIANT_ADD(key, in_capitals) { "IO.some", EINVAL };
FIXTURE_VARIANT_ADD(key, irq_some) { "irq.some", EINVAL };
FIXTURE_VARIANT_ADD(key, irq_exact_full) { "irq.exact.full", EINVAL };
FIXTURE_VARIANT_ADD(key, memory_cause) { "memory.cause.refault", EINVAL };
FIXTURE_VARIANT_ADD(key, memory_cause_some) { "memory.cause.some", EINVAL };

FIXTURE_SETUP(key)
{
	cgroup_create(GROUP, "");
}

FIXTURE_TEARDOWN(key)
{
	cgroup_remove(GROUP);
}

static int arm(const char *path, const char *key)
{
	int fd = trigger_open(path), error;
	char text[64];

	snprintf(text, sizeof(text), "%s 150000 2000000", key);
	error = trigger_set(fd, text);
	close(fd);
	return error;
}

TEST_F(key, takes_a_trigger_if_it_names_a_line)
{
	EXPECT_EQ(variant->error, arm(PSI_STAT, variant->key));
	EXPECT_EQ(variant->error, arm(STAT, variant->key));
}

TEST(key_of_interrupts_takes_a_trigger_if_their_time_is_accounted)
{
	EXPECT_EQ(psi_irq_accounted() ? 0 : EINVAL, arm(PSI_STAT, "irq.full"));
}

/* ---- Who asks ---- */

FIXTURE(asked) {
	struct slow_disk disk;
	struct reader *reader;
	pid_t pid;
};

FIXTURE_SETUP(asked)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(&self->disk, "psi_stat", LATENCY, 64);
	cgroup_create(GROUP, "+cpu +io");
	self->reader = shared_memory(sizeof(*self->reader));
	*self->reader = (struct reader){ .node = self->disk.node, .flags = O_DIRECT, .end = ~0ULL };
}

FIXTURE_TEARDOWN(asked)
{
	load_stop(self->pid);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	set_policy(0, SCHED_OTHER, 0);
	cpus_use(cpus_possible());
}

static void start(FIXTURE_DATA(asked) * self)
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = read_blocks,
				   .arg = self->reader };

	self->pid = load_start(&load);
}

/**
 * struct totals - of io some of the group, in us
 * @plain: as the plain file has it
 * @exact: as measured while somebody asks
 * @shortage: all of it: nothing limits the load
 * @avg10: of @exact, in hundredths of a percent
 */
struct totals {
	__u64 plain, exact, shortage;
	unsigned int avg10;
};

static struct totals totals_read(struct __test_metadata *_metadata)
{
	const struct psi *of;
	struct psi_stat stat;

	psi_stat_read(STAT, &stat);
	EXPECT_EQ(NULL, psi_stat_contradiction(&stat))
		TH_LOG("%s", psi_stat_contradiction(&stat));
	of = stat.of[RES_IO];
	EXPECT_EQ(0, of[KIND_LIMIT].some.total);
	return (struct totals){ of[KIND_PLAIN].some.total, of[KIND_EXACT].some.total,
				of[KIND_SHORTAGE].some.total, of[KIND_EXACT].some.avg[AVG10] };
}

static void expect_near(struct __test_metadata *_metadata, __u64 want, __u64 value)
{
	EXPECT_LE(want, value + NEAR)
		TH_LOG("%llu us, must be %llu us", value, want);
	EXPECT_LE(value, want + NEAR)
		TH_LOG("%llu us, must be %llu us", value, want);
}

TEST_F(asked, first_read_of_a_busy_group_says_zero_and_starts_what_it_reads)
{
	struct totals first, begun, last;

	start(self);
	sleep_for(5 * NSEC_PER_SEC);
	first = totals_read(_metadata);
	EXPECT_LT(4000000, first.plain);
	EXPECT_EQ(0, first.exact);
	EXPECT_EQ(0, first.shortage);
	sleep_for(ASKED_SOON);
	begun = totals_read(_metadata);
	sleep_for(5 * NSEC_PER_SEC);
	last = totals_read(_metadata);
	expect_near(_metadata, last.plain - begun.plain, last.exact - begun.exact);
	expect_near(_metadata, last.plain - begun.plain, last.shortage - begun.shortage);
	/* The window that was under way does not count. */
	EXPECT_GE(last.plain - first.plain, last.exact);
	EXPECT_LE(last.plain - first.plain, last.exact + ASKED_SOON / NSEC_PER_USEC);
}

TEST_F(asked, first_read_of_an_idle_group_starts_it_at_once)
{
	struct totals first, last;

	first = totals_read(_metadata);
	EXPECT_EQ(0, first.exact);
	start(self);
	sleep_for(NSEC_PER_SEC);
	last = totals_read(_metadata);
	EXPECT_LT(900000, last.exact);
	expect_near(_metadata, last.plain, last.exact);
	expect_near(_metadata, last.plain, last.shortage);
}

TEST_F_TIMEOUT(asked, totals_stand_still_when_nobody_asks_any_more, 900)
{
	struct totals before, after, begun, last;
	const __u64 us = 100 * NSEC_PER_SEC / NSEC_PER_USEC;
	struct psi_stat stat;
	__u64 begin;

	start(self);
	psi_stat_ask(STAT);
	begin = now_ns();
	before = totals_read(_metadata);
	sleep_until(begin + FORGOTTEN + 100 * NSEC_PER_SEC);
	after = totals_read(_metadata);
	/* Averages went on, to nothing. */
	psi_stat_read(STAT, &stat);
	EXPECT_GE(1, stat.of[RES_IO][KIND_EXACT].some.avg[AVG10]);
	EXPECT_LE(9000, stat.of[RES_IO][KIND_PLAIN].some.avg[AVG10]);
	/* It stalls nearly all the time. */
	ASSERT_LT(4 * us, after.plain - before.plain);
	ksft_print_msg("plain grew by %llu us, exact by %llu us, shortage by %llu us\n",
		       after.plain - before.plain, after.exact - before.exact,
		       after.shortage - before.shortage);
	EXPECT_LE(before.exact, after.exact);
	EXPECT_LE(before.shortage, after.shortage);
	EXPECT_LE(ASKED / NSEC_PER_USEC * 97 / 100, after.exact - before.exact);
	EXPECT_GE(FORGOTTEN / NSEC_PER_USEC, after.exact - before.exact);
	expect_near(_metadata, after.exact, after.shortage);
	/* That read asks again. */
	sleep_for(ASKED_SOON);
	begun = totals_read(_metadata);
	sleep_for(5 * NSEC_PER_SEC);
	last = totals_read(_metadata);
	expect_near(_metadata, last.plain - begun.plain, last.exact - begun.exact);
	EXPECT_GE(last.plain - after.plain, last.exact - after.exact);
	/* Averages have one period at most then, and two or three more. */
	ksft_print_msg("avg10 is %u, then %u\n", begun.avg10, last.avg10);
	EXPECT_GE(1813, begun.avg10);
	EXPECT_LE(3200, last.avg10);
	EXPECT_GE(5507, last.avg10);
}

TEST_F_TIMEOUT(asked, trigger_keeps_them_alive, 900)
{
	struct totals before, after;
	int fd;

	start(self);
	psi_stat_ask(STAT);
	before = totals_read(_metadata);
	fd = trigger_arm(STAT, "io.limit.some 1000000 2000000");
	sleep_for(FORGOTTEN + 100 * NSEC_PER_SEC);
	after = totals_read(_metadata);
	EXPECT_LT(400000000, after.plain - before.plain);
	expect_near(_metadata, after.plain - before.plain, after.exact - before.exact);
	expect_near(_metadata, after.plain - before.plain, after.shortage - before.shortage);
	close(fd);
}

TEST_F_TIMEOUT(asked, totals_stand_still_after_the_last_trigger_was_closed, 900)
{
	struct totals first;
	__u64 begin;
	int fd;

	/* First: a child would have the trigger, too. */
	start(self);
	begin = now_ns();
	fd = trigger_arm(STAT, "io.limit.some 1000000 2000000");
	sleep_for(10 * NSEC_PER_SEC);
	close(fd);
	begin = now_ns() - begin;
	sleep_for(100 * NSEC_PER_SEC);
	first = totals_read(_metadata);
	ksft_print_msg("exact grew by %llu us, %llu us of them armed at most\n", first.exact,
		       begin / NSEC_PER_USEC);
	EXPECT_LE(7500000, first.exact);
	EXPECT_GE((begin + LEAVES) / NSEC_PER_USEC, first.exact);
	expect_near(_metadata, first.exact, first.shortage);
}

/* A plain line asks for nothing. */
TEST_F_TIMEOUT(asked, trigger_on_a_plain_line_does_not, 900)
{
	struct totals first;
	int fd;

	start(self);
	fd = trigger_arm(STAT, "io.some 1000000 2000000");
	sleep_for(5 * NSEC_PER_SEC);
	first = totals_read(_metadata);
	EXPECT_LT(4000000, first.plain);
	EXPECT_EQ(0, first.exact);
	close(fd);
}

/* ---- One moment ---- */

FIXTURE(moment) {
	struct slow_disk disk;
	struct reader *reader;
	pid_t pid[3];
};

/* Two tasks share a bandwidth and a CPU, and one of the same cgroup reads on another CPU. */
FIXTURE_SETUP(moment)
{
	struct load load = { .cpu = 0, .cgroup = GROUP, .fn = spin };

	cpus_use(2);
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(&self->disk, "psi_stat", NSEC_PER_MSEC, 64);
	cgroup_create(GROUP, "+cpu +io");
	cgroup_write(GROUP, "cpu.max", "40000 100000");
	self->reader = shared_memory(sizeof(*self->reader));
	*self->reader = (struct reader){ .node = self->disk.node, .flags = O_DIRECT, .end = ~0ULL };
	for (int i = 0; i < 2; i++)
		self->pid[i] = load_start(&load);
	load.cpu = 1;
	load.fn = read_blocks;
	load.arg = self->reader;
	self->pid[2] = load_start(&load);
	psi_stat_ask(PSI_STAT);
	psi_stat_ask(STAT);
}

FIXTURE_TEARDOWN(moment)
{
	for (int i = 0; i < 3; i++)
		load_stop(self->pid[i]);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	set_policy(0, SCHED_OTHER, 0);
	cpus_use(cpus_possible());
}

/* The plain lines of the statistics file are between what the plain files said before and after. */
static bool between(const struct pressure *before, const struct psi_stat *stat,
		    const struct pressure *after)
{
	for (int r = 0; r < NR_RESOURCES; r++) {
		const struct psi *plain = &stat->of[r][KIND_PLAIN];
		__u64 some = plain->some.total * NSEC_PER_USEC;
		__u64 full = plain->full.total * NSEC_PER_USEC;

		if (some < before->some[r] || some > after->some[r] || full < before->full[r] ||
		    full > after->full[r])
			return false;
	}
	return true;
}

static void expect_one_moment(struct __test_metadata *_metadata, const char *cgroup)
{
	const char *path = cgroup ? STAT : PSI_STAT;
	struct psi_stat first, stat;
	struct pressure before, after;
	const char *error;

	psi_stat_read(path, &first);
	for (int i = 0; i < 1000; i++) {
		pressure_read(cgroup, &before);
		psi_stat_read(path, &stat);
		pressure_read(cgroup, &after);
		error = psi_stat_contradiction(&stat);
		ASSERT_EQ(NULL, error)
			TH_LOG("%s, reading %d: %s", path, i, error);
		ASSERT_TRUE(between(&before, &stat, &after))
			TH_LOG("%s, reading %d: a plain line is not what the file says", path, i);
		sleep_for(3 * NSEC_PER_MSEC + i * NSEC_PER_USEC);
	}
	/* There was something to be read. */
	for (int k = 0; k < NR_KINDS; k++)
		EXPECT_LT(first.of[RES_CPU][k].some.total + 100000, stat.of[RES_CPU][k].some.total);
	EXPECT_LT(first.of[RES_IO][KIND_EXACT].some.total + 100000,
		  stat.of[RES_IO][KIND_EXACT].some.total);
}

TEST_F_TIMEOUT(moment, of_all_lines_of_the_system_is_the_same, 120)
{
	expect_one_moment(_metadata, NULL);
}

TEST_F_TIMEOUT(moment, of_all_lines_of_a_cgroup_is_the_same, 120)
{
	expect_one_moment(_metadata, GROUP);
}

/* ---- The directory ---- */

TEST(directory_holds_the_pressure_files_and_nothing_else)
{
	static const char * const names[] = {
		"cpu", "memory", "io", "irq", "stat",
	};
	struct dirent *entry;
	size_t known;
	int files = 0;
	DIR *dir;

	dir = opendir(PSI_DIR);
	ASSERT_NE(NULL, dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		for (known = 0; known < ARRAY_SIZE(names); known++) {
			if (!strcmp(entry->d_name, names[known]))
				break;
		}
		EXPECT_LT(known, ARRAY_SIZE(names))
			TH_LOG("unknown file %s", entry->d_name);
		files++;
	}
	EXPECT_EQ(0, closedir(dir));
	EXPECT_EQ(access(PSI_IRQ, F_OK) ? 4 : 5, files);
}

TEST(statistics_file_has_all_lines_in_their_order)
{
	struct psi_stat stat;
	char buf[PSI_STAT_MAX], *next;
	size_t len = read_text(PSI_STAT, buf, sizeof(buf));

	EXPECT_EQ(NULL, psi_stat_parse(buf, len, &stat))
		TH_LOG("%s", buf);
	EXPECT_EQ(psi_irq_accounted(), stat.irq.present);
	/* A line less, and one more, are seen. */
	EXPECT_NE(NULL, psi_stat_parse(buf, len - 1, &stat));
	if (causes_known()) {
		next = memrchr(buf, '\n', len - 1);
		EXPECT_NE(NULL, psi_stat_parse(buf, next + 1 - buf, &stat));
	}
	next = strchr(buf, '\n') + 1;
	EXPECT_NE(NULL, psi_stat_parse(next, buf + len - next, &stat));
	ASSERT_LT(len + 2, sizeof(buf));
	memcpy(buf + len, "x\n", 3);
	EXPECT_NE(NULL, psi_stat_parse(buf, len + 2, &stat));
}

TEST_HARNESS_MAIN
