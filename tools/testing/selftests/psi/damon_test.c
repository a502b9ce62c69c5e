// SPDX-License-Identifier: GPL-2.0
/*
 * Memory pressure as the goal of a DAMON quota
 *
 * Invariant: the current value of the goal some_mem_psi_us is the growth of the
 * memory "some" total since DAMON last read it. DAMON does not show this value,
 * but at the end of each interval it sets the quota to
 *
 *     quota * (2 - current / target)	for current < 2 * target
 *
 * So two consecutive quotas yield the current value of the interval between
 * them. The test compares it with the pressure file:
 *
 *     memory some  |     |########|    |###########|         |#####
 *     DAMON reads  ^        ^         ^         ^         ^        ^
 *     quota        x 2      x 1.7     x 1.4     x 1.1     x 1.6    x 1.5
 *
 * Bugs it would find: stalls from before the goal count; the goal restarts with
 * every commit of parameters; the unit is not microseconds.
 *
 * Tolerance: the test sees a new quota up to 0.2 s late, as a command to DAMON
 * takes 0.1 s. The total before the last reading of the old quota, and the
 * total after the first reading of the new one, bracket the total that DAMON
 * read. A score has four digits.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_util.h"

#define ADMIN		"/sys/kernel/mm/damon/admin/kdamonds/"
#define SCHEME		"contexts/0/schemes/0/"
#define GOAL		SCHEME "quotas/goals/0/"
#define RECLAIM		"/sys/module/damon_reclaim/parameters/"
#define GROUP		"/sys/fs/cgroup/psi_damon"
#define HIGH		(4UL << 20)
#define PAGE		4096UL

#define SAMPLE_US	20000
#define RESET_MS	2000
#define POLL		(5 * NSEC_PER_MSEC)
/*
 * No interval reaches twice this, which would reset the quota to its minimum.
 */
#define TARGET_US	3000000
/* From here on, a byte of the quota is finer than a digit of the score. */
#define EXACT_QUOTA	100000UL
#define DIGIT_US	(TARGET_US / 10000)
#define INTERVALS	12

static void put(const char *file, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), ADMIN "0/%s", file);
	write_file(path, text);
}

static void put_number(const char *file, unsigned long number)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", number);
	put(file, text);
}

/* A scheme without an action, for the memory of this task. */
static void scheme_create(const char *metric)
{
	write_file(ADMIN "nr_kdamonds", "1");
	put("contexts/nr_contexts", "1");
	put("contexts/0/operations", "vaddr");
	put_number("contexts/0/monitoring_attrs/intervals/sample_us", SAMPLE_US);
	put_number("contexts/0/monitoring_attrs/intervals/aggr_us", 5 * SAMPLE_US);
	put("contexts/0/targets/nr_targets", "1");
	put_number("contexts/0/targets/0/pid_target", getpid());
	put("contexts/0/schemes/nr_schemes", "1");
	put(SCHEME "action", "stat");
	put_number(SCHEME "quotas/reset_interval_ms", RESET_MS);
	put(SCHEME "quotas/goals/nr_goals", "1");
	put(GOAL "target_metric", metric);
	put_number(GOAL "target_value", TARGET_US);
}

static unsigned long quota(void)
{
	put("state", "update_schemes_effective_quotas");
	return file_number(ADMIN "0/" SCHEME "quotas/effective_bytes", "");
}

static __u64 stalled_us(void)
{
	return psi_some_ns(PSI_MEMORY) / NSEC_PER_USEC;
}

/**
 * struct adjustment - DAMON has read the pressure and set a new quota
 * @bytes: the quota
 * @least: the total that it read was at least this, in us
 * @most: and at most this
 */
struct adjustment {
	unsigned long bytes;
	__u64 least;
	__u64 most;
};

/* False if DAMON does not change the quota for too long. */
static bool next_adjustment(struct adjustment *adjustment, const char *command)
{
	__u64 give_up = now_ns() + 5 * RESET_MS * NSEC_PER_MSEC;
	unsigned long old = adjustment->bytes;
	__u64 before;

	while (now_ns() < give_up) {
		sleep_for(POLL);
		if (command)
			put("state", command);
		before = stalled_us();
		adjustment->bytes = quota();
		adjustment->most = stalled_us();
		if (adjustment->bytes != old)
			return true;
		adjustment->least = before;
	}
	return false;
}

/* memory.high throttles this load most of the time. */
static void stall_often(void *arg)
{
	size_t size = 16 * HIGH;
	char *mem;

	mem = private_memory(size);
	for (size_t pos = 0; pos < size; pos += PAGE) {
		mem[pos] = 1;
		if (pos > HIGH && pos % (64 * PAGE) == 0)
			sleep_for(700 * NSEC_PER_MSEC);
	}
	sleep_forever();
}

static pid_t stall_start(void)
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = stall_often };
	char text[32];

	cgroup_create(GROUP, "+memory");
	snprintf(text, sizeof(text), "%lu", HIGH);
	cgroup_write(GROUP, "memory.high", text);
	return load_start(&load);
}

static void stall_stop(pid_t pid)
{
	load_stop(pid);
	cgroup_remove(GROUP);
}

static void stall_for(__u64 us)
{
	__u64 until = stalled_us() + us;
	pid_t pid = stall_start();

	while (stalled_us() < until)
		sleep_for(POLL);
	stall_stop(pid);
}

FIXTURE(damon) {
};

FIXTURE_SETUP(damon)
{
	if (access(ADMIN, F_OK))
		SKIP(return, "no DAMON_SYSFS in this kernel");
}

FIXTURE_TEARDOWN(damon)
{
	if (access(ADMIN "0", F_OK))
		return;
	/* The write would fail if DAMON were off. */
	if (file_number(ADMIN "0/pid", "") != -1ULL)
		put("state", "off");
	write_file(ADMIN "nr_kdamonds", "0");
}

FIXTURE_VARIANT(damon) {
	const char *command;
};

FIXTURE_VARIANT_ADD(damon, without_commits) { };
FIXTURE_VARIANT_ADD(damon, with_permanent_commits) { .command = "commit_schemes_quota_goals" };

TEST_F_TIMEOUT(damon, quota_follows_the_memory_pressure_of_each_interval, 200)
{
	struct adjustment first, before, now = { };
	double value, sum = 0;
	pid_t pid;

	scheme_create("some_mem_psi_us");
	put("state", "on");
	/* Without pressure the quota doubles. */
	do {
		before = now;
		ASSERT_TRUE(next_adjustment(&now, variant->command));
		EXPECT_EQ(before.bytes ? 2 * before.bytes : 2, now.bytes);
	} while (now.bytes < EXACT_QUOTA);

	pid = stall_start();
	first = now;
	for (int i = 0; i < INTERVALS; i++) {
		before = now;
		ASSERT_TRUE(next_adjustment(&now, variant->command));
		value = (2 - (double)now.bytes / before.bytes) * TARGET_US;
		ksft_print_msg("DAMON saw %.0f us, the file grew by %llu to %llu us\n", value,
			       now.least - before.most, now.most - before.least);
		EXPECT_GE(value + DIGIT_US, now.least - before.most);
		EXPECT_LE(value - DIGIT_US, now.most - before.least);
		sum += value;
	}
	stall_stop(pid);
	ASSERT_LT(INTERVALS * RESET_MS * 1000 / 4, now.least - first.most);
	EXPECT_GE(sum + INTERVALS * DIGIT_US, now.least - first.most);
	EXPECT_LE(sum - INTERVALS * DIGIT_US, now.most - first.least);
}

/*
 * The first quota is 2 without pressure, and 1 if the value reaches twice the
 * target.
 */
TEST_F_TIMEOUT(damon, stalls_before_the_goal_do_not_count, 200)
{
	struct adjustment adjustment = { };

	stall_for(3 * TARGET_US);
	scheme_create("some_mem_psi_us");
	put("state", "on");
	ASSERT_TRUE(next_adjustment(&adjustment, variant->command));
	EXPECT_EQ(2, adjustment.bytes);
}

/*
 * While the value is at its target, the quota does not change until the metric
 * does.
 */
TEST_F_TIMEOUT(damon, stalls_before_a_change_of_metric_do_not_count, 200)
{
	struct adjustment adjustment = { };
	unsigned long bytes;

	scheme_create("user_input");
	put("state", "on");
	while (adjustment.bytes < 8)
		ASSERT_TRUE(next_adjustment(&adjustment, NULL));
	put_number(GOAL "current_value", TARGET_US);
	put("state", "commit_schemes_quota_goals");
	bytes = quota();
	stall_for(3 * TARGET_US);
	ASSERT_EQ(bytes, quota());
	put(GOAL "target_metric", "some_mem_psi_us");
	put("state", "commit_schemes_quota_goals");
	ASSERT_TRUE(next_adjustment(&adjustment, variant->command));
	EXPECT_EQ(2 * bytes, adjustment.bytes);
}

TEST_F(damon, metric_is_read_back_and_a_wrong_one_refused)
{
	char text[32];
	FILE *file;

	scheme_create("some_mem_psi_us");
	ASSERT_LT(0, read_file(ADMIN "0/" GOAL "target_metric", text, sizeof(text)));
	EXPECT_STREQ("some_mem_psi_us\n", text);

	file = fopen(ADMIN "0/" GOAL "target_metric", "we");
	ASSERT_NE(NULL, file);
	fputs("some_mem_psi", file);
	EXPECT_EQ(EOF, fclose(file));
	EXPECT_EQ(EINVAL, errno);
}

TEST(reclaim_module_takes_a_goal)
{
	struct stat st;

	if (access(RECLAIM, F_OK))
		SKIP(return, "no DAMON_RECLAIM in this kernel");
	ASSERT_EQ(0, stat(RECLAIM "quota_mem_pressure_us", &st));
	EXPECT_EQ(0600, st.st_mode & 07777);
	EXPECT_EQ(0, file_number(RECLAIM "quota_mem_pressure_us", ""));
	write_file(RECLAIM "quota_mem_pressure_us", "10000");
	EXPECT_EQ(10000, file_number(RECLAIM "quota_mem_pressure_us", ""));
	write_file(RECLAIM "enabled", "Y");
	EXPECT_NE(-1ULL, file_number(RECLAIM "kdamond_pid", ""));
	sleep_for(3 * NSEC_PER_SEC);
	EXPECT_NE(-1ULL, file_number(RECLAIM "kdamond_pid", ""));
	write_file(RECLAIM "enabled", "N");
	write_file(RECLAIM "quota_mem_pressure_us", "0");
}

TEST_HARNESS_MAIN
