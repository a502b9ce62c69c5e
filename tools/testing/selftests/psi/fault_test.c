// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation fails once
 *
 * Invariant: an operation that gets no memory fails with ENOMEM, or works
 * without it. It leaves nothing behind, and works when it is tried again.
 *
 * Bugs it would find: an error path that was never taken; a cgroup's group that
 * is half made; a trigger that stays in its file's slot or in a list; a sampler
 * that is never freed; a switch that is off while the files exist.
 *
 * Method: /proc/thread-self/fail-nth makes the n-th allocation of this thread
 * fail, in the slab and in the page allocator. Each operation is tried with n =
 * 1, 2, 3, ... until it has no n-th allocation; see
 * Documentation/fault-injection. At the end kmemleak says what leaked.
 *
 * Then every allocation fails, of every task, while two tasks stall and triggers
 * wait for that: each event has to come before there is memory again.
 *
 * It needs CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC and kmemleak.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_stat.h"

#define GROUP		CGROUP_ROOT "/psi_fault"
#define CHILD		GROUP "/child"
#define DEBUG		"/sys/kernel/debug/"
#define TEXT		"full 100000 2000000\n"
#define BROKEN		(POLLERR | POLLPRI)
#define MOST		2000

/* ---- Faults ---- */

static int fail_nth_fd = -1;

static void fail_nth(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(fail_nth_fd, text, len, 0) != len)
		psi_die("fail-nth: %s", strerror(errno));
}

/*
 * Ends the injection. Returns how many allocations were left before the fault.
 */
static unsigned int fail_nth_end(void)
{
	char text[16] = "";

	if (pread(fail_nth_fd, text, sizeof(text) - 1, 0) <= 0)
		psi_die("fail-nth: %s", strerror(errno));
	fail_nth(0);
	return atoi(text);
}

static void faults_begin(void)
{
	write_file(DEBUG "failslab/ignore-gfp-wait", "N");
	write_file(DEBUG "failslab/verbose", "0");
	write_file(DEBUG "fail_page_alloc/ignore-gfp-wait", "N");
	write_file(DEBUG "fail_page_alloc/ignore-gfp-highmem", "N");
	write_file(DEBUG "fail_page_alloc/min-order", "0");
	write_file(DEBUG "fail_page_alloc/verbose", "0");
	fail_nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth_fd < 0)
		psi_die("fail-nth: %s (needs CONFIG_FAULT_INJECTION)", strerror(errno));
}

/* ---- Operations ---- */

/*
 * An operation has three parts. @begin prepares it; it gets the path, and
 * returns a descriptor or -1. @run does it, and returns 0 or an error. @end
 * checks the state after a success (@done) or failure, and undoes the
 * operation.
 */
struct operation {
	int (*begin)(const char *path);
	int (*run)(const char *path, int fd);
	bool (*end)(const char *path, int fd, bool done);
};

static int begin_nothing(const char *path)
{
	return -1;
}

static int begin_open(const char *path)
{
	return trigger_open(path);
}

static int begin_open_user(const char *path)
{
	return trigger_open_user(path);
}

static int begin_armed(const char *path)
{
	return trigger_arm(path, TEXT);
}

static int run_mkdir(const char *path, int fd)
{
	return mkdir(path, 0755) ? errno : 0;
}

static bool end_mkdir(const char *path, int fd, bool done)
{
	if (done)
		return !access(CHILD "/cpu.pressure", F_OK) && !rmdir(path);
	return access(path, F_OK) && errno == ENOENT;
}

static int run_open(const char *path, int fd)
{
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static bool end_open(const char *path, int fd, bool done)
{
	return true;
}

/* A trigger for a plain file, and one for the statistics file. */
static const char *text_for(const char *path)
{
	return strstr(path, ".stat") ? "io.exact." TEXT : TEXT;
}

static int run_arm(const char *path, int fd)
{
	return trigger_set(fd, text_for(path));
}

static bool end_arm(const char *path, int fd, bool done)
{
	bool right;

	if (!done)
		return poll_fd(fd, POLLPRI, 0) == BROKEN && !close(fd);
	right = !poll_fd(fd, POLLPRI, 0) && trigger_set(fd, text_for(path)) == EBUSY;
	return !close(fd) && right;
}

/* The same beside a trigger that exists already, and has made the sampler. */
static int beside;

static int begin_open_beside(const char *path)
{
	beside = trigger_arm(path, TEXT);
	return trigger_open(path);
}

static bool end_arm_beside(const char *path, int fd, bool done)
{
	bool right = end_arm(path, fd, done);

	right = !poll_fd(beside, POLLPRI, 0) && right;
	return !close(beside) && right;
}

/* A second write fails with EBUSY, unless an allocation fails before. */
static int run_arm_again(const char *path, int fd)
{
	int error = trigger_set(fd, TEXT);

	return error == EBUSY ? 0 : error ?: EINVAL;
}

static bool end_arm_again(const char *path, int fd, bool done)
{
	return end_arm(path, fd, true);
}

static int run_read(const char *path, int fd)
{
	char buf[512];
	struct psi psi;
	ssize_t len = pread(fd, buf, sizeof(buf), 0);

	if (len < 0)
		return errno;
	return psi_parse(buf, len, &psi) ? EINVAL : 0;
}

static int run_read_stat(const char *path, int fd)
{
	char buf[PSI_STAT_MAX];
	struct psi_stat stat;
	ssize_t len = pread(fd, buf, sizeof(buf), 0);

	if (len < 0)
		return errno;
	return psi_stat_parse(buf, len, &stat) ? EINVAL : 0;
}

/* Exact pressure of the cgroup begins with the first reader: each attempt has a new cgroup. */
static int begin_stat(const char *path)
{
	cgroup_create(GROUP, "+io");
	return open_file(path, O_RDWR);
}

/* A cgroup that has been in use on a CPU needs memory for what it has there, too. */
static int begin_stat_used(const char *path)
{
	group_enter(GROUP);
	sleep_for(NSEC_PER_MSEC);
	group_leave();
	return open_file(path, O_RDWR);
}

static bool end_close(const char *path, int fd, bool done)
{
	return !close(fd);
}

static int run_epoll(const char *path, int fd)
{
	struct epoll_event event = { .events = EPOLLPRI };
	int epoll = epoll_create1(EPOLL_CLOEXEC), error = 0;

	if (epoll < 0)
		return errno;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		error = errno;
	close(epoll);
	return error;
}

static bool switched(bool on)
{
	char buf[8];

	return read_file(GROUP "/cgroup.pressure", buf, sizeof(buf)) == 2 &&
	       buf[0] == '0' + on && !access(GROUP "/io.pressure", F_OK) == on;
}

static int write_switch(char digit)
{
	int fd = open(GROUP "/cgroup.pressure", O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, &digit, 1) != 1)
		error = errno;
	close(fd);
	return error;
}

static int run_switch_off(const char *path, int fd)
{
	return write_switch('0');
}

static bool end_switch_off(const char *path, int fd, bool done)
{
	return switched(!done) && poll_fd(fd, POLLPRI, 0) == (done ? BROKEN : 0) && !close(fd) &&
	       !write_switch('1');
}

static int begin_switched_off(const char *path)
{
	if (write_switch('0'))
		psi_die("cannot switch it off");
	return -1;
}

static int run_switch_on(const char *path, int fd)
{
	return write_switch('1');
}

static bool end_switch_on(const char *path, int fd, bool done)
{
	return switched(done) && !write_switch('1') && switched(true);
}

static int run_rmdir(const char *path, int fd)
{
	return rmdir(path) ? errno : 0;
}

static int begin_rmdir(const char *path)
{
	if (mkdir(path, 0755))
		psi_die("%s: %s", path, strerror(errno));
	return trigger_arm(CHILD "/io.pressure", TEXT);
}

static bool end_rmdir(const char *path, int fd, bool done)
{
	if (!done)
		rmdir(path);
	return poll_fd(fd, POLLPRI, 0) == BROKEN && !close(fd);
}

FIXTURE(fault) {
	struct operation op;
};

/*
 * @least: number of its allocations that are PSI's own and must be refused. If
 *     none is, the test has tried nothing.
 */
FIXTURE_VARIANT(fault) {
	const char *path;
	struct operation op;
	unsigned int least;
};

#define OPERATION(name, file, begin_fn, run_fn, end_fn, refusals)	\
	FIXTURE_VARIANT_ADD(fault, name) {				\
		.path = file,						\
		.op = { begin_fn, run_fn, end_fn },			\
		.least = refusals,					\
	}

OPERATION(of_a_new_cgroup, CHILD, begin_nothing, run_mkdir, end_mkdir, 2);
OPERATION(of_the_end_of_a_cgroup, CHILD, begin_rmdir, run_rmdir, end_rmdir, 0);
OPERATION(of_open, PSI_IO, begin_nothing, run_open, end_open, 1);
OPERATION(of_open_of_a_cgroup, GROUP "/io.pressure", begin_nothing, run_open, end_open, 1);
OPERATION(of_read, PSI_CPU, begin_open, run_read, end_close, 0);
OPERATION(of_read_of_a_cgroup, GROUP "/cpu.pressure", begin_open, run_read, end_close, 0);
OPERATION(of_arming_cpu, PSI_CPU, begin_open, run_arm, end_arm, 2);
OPERATION(of_arming_memory, PSI_MEMORY, begin_open, run_arm, end_arm, 2);
OPERATION(of_arming_io, PSI_IO, begin_open, run_arm, end_arm, 2);
OPERATION(of_arming_io_as_a_user, PSI_IO, begin_open_user, run_arm, end_arm, 2);
OPERATION(of_arming_cpu_of_a_cgroup, GROUP "/cpu.pressure", begin_open, run_arm, end_arm, 2);
OPERATION(of_arming_memory_of_a_cgroup, GROUP "/memory.pressure", begin_open, run_arm, end_arm, 2);
OPERATION(of_arming_io_of_a_cgroup, GROUP "/io.pressure", begin_open, run_arm, end_arm, 2);
OPERATION(of_arming_io_of_a_cgroup_as_a_user, GROUP "/io.pressure", begin_open_user,
	  run_arm, end_arm, 2);
OPERATION(of_arming_io_of_the_root, CGROUP_ROOT "/io.pressure", begin_open, run_arm, end_arm, 2);
OPERATION(of_arming_beside_another, PSI_IO, begin_open_beside, run_arm, end_arm_beside, 1);
OPERATION(of_arming_beside_another_of_a_cgroup, GROUP "/io.pressure", begin_open_beside,
	  run_arm, end_arm_beside, 1);
/* The accounts, the pointers to what CPUs have, and what is read. */
OPERATION(of_reading_statistics, GROUP CGROUP_STAT, begin_stat, run_read_stat, end_close, 3);
OPERATION(of_reading_statistics_where_it_was_in_use, GROUP CGROUP_STAT, begin_stat_used,
	  run_read_stat, end_close, 4);
OPERATION(of_arming_exact_pressure, GROUP CGROUP_STAT, begin_stat, run_arm, end_arm, 4);
OPERATION(of_arming_exact_pressure_where_it_was_in_use, GROUP CGROUP_STAT, begin_stat_used,
	  run_arm, end_arm, 5);
OPERATION(of_arming_twice, PSI_IO, begin_armed, run_arm_again, end_arm_again, 0);
OPERATION(of_arming_twice_of_a_cgroup, GROUP "/io.pressure", begin_armed, run_arm_again,
	  end_arm_again, 0);
OPERATION(of_epoll, PSI_IO, begin_armed, run_epoll, end_close, 1);
OPERATION(of_epoll_of_a_cgroup, GROUP "/io.pressure", begin_armed, run_epoll, end_close, 1);
OPERATION(of_switching_off, GROUP "/io.pressure", begin_armed, run_switch_off, end_switch_off, 0);
OPERATION(of_switching_on, GROUP, begin_switched_off, run_switch_on, end_switch_on, 0);
FIXTURE_SETUP(fault)
{
	self->op = variant->op;
	cgroup_create(GROUP, "+io");
	faults_begin();
}

FIXTURE_TEARDOWN(fault)
{
	close(fail_nth_fd);
	cgroup_remove(GROUP);
}

TEST_F_TIMEOUT(fault, is_survived, 600)
{
	unsigned int n = 1, refused = 0, left = 0;

	for (; n < MOST && !left; n++) {
		int fd = self->op.begin(variant->path), error;

		fail_nth(n);
		error = self->op.run(variant->path, fd);
		left = fail_nth_end();
		refused += !!error;
		/* inc_ucount() does not tell its two reasons apart. */
		if (error && !(error == ENOSPC && self->op.begin == begin_open_user))
			EXPECT_EQ(ENOMEM, error);
		if (left)
			EXPECT_EQ(0, error);
		EXPECT_TRUE(self->op.end(variant->path, fd, !error)) {
			TH_LOG("after fault %u, which gave error %d", n, error);
		}
		/* With memory, the operation works. */
		fd = self->op.begin(variant->path);
		EXPECT_EQ(0, self->op.run(variant->path, fd));
		EXPECT_TRUE(self->op.end(variant->path, fd, true));
	}
	ksft_print_msg("%u faults, %u refused\n", n - 2, refused);
	EXPECT_NE(0, left);
	EXPECT_LE(variant->least, refused);
}

/* ---- No memory at all ---- */

#define ROUNDS		10
#define STALL		(200 * NSEC_PER_MSEC)

static const char * const switches[] = {
	DEBUG "failslab/probability", DEBUG "fail_page_alloc/probability",
};

/**
 * struct famine - allocations fail for everybody, apart from pages of programs
 * @fds: of @switches, open before there is no memory
 * @spinners: two tasks that share a CPU, or are stopped
 */
struct famine {
	int fds[ARRAY_SIZE(switches)];
	pid_t spinners[2];
};

static void famine_set(const struct famine *famine, const char *probability)
{
	for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
		if (write(famine->fds[i], probability, strlen(probability)) < 0)
			psi_die("%s: %s", switches[i], strerror(errno));
}

static void spinners_send(const struct famine *famine, int signal)
{
	for (int i = 0; i < 2; i++)
		if (kill(famine->spinners[i], signal))
			psi_die("kill: %s", strerror(errno));
}

FIXTURE(famine) {
	struct famine famine;
};

FIXTURE_SETUP(famine)
{
	static const char * const faults[] = { DEBUG "failslab/", DEBUG "fail_page_alloc/" };
	char path[128];

	cgroup_create(GROUP, "+io");
	faults_begin();
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		snprintf(path, sizeof(path), "%stimes", faults[i]);
		write_file(path, "-1");
		snprintf(path, sizeof(path), "%stask-filter", faults[i]);
		write_file(path, "N");
		self->famine.fds[i] = open_file(switches[i], O_RDWR);
	}
	write_file(DEBUG "fail_page_alloc/ignore-gfp-highmem", "Y");
	spin_pair_start(self->famine.spinners, GROUP);
	spinners_send(&self->famine, SIGSTOP);
	ASSERT_EQ(0, mlockall(MCL_CURRENT | MCL_FUTURE));
	set_policy(0, SCHED_FIFO, 50);
}

FIXTURE_TEARDOWN(famine)
{
	famine_set(&self->famine, "0");
	set_policy(0, SCHED_OTHER, 0);
	munlockall();
	spin_pair_stop(self->famine.spinners);
	for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
		close(self->famine.fds[i]);
	write_file(DEBUG "failslab/task-filter", "Y");
	write_file(DEBUG "fail_page_alloc/task-filter", "Y");
	close(fail_nth_fd);
	cgroup_remove(GROUP);
}

/* From a stall to its event nothing allocates. */
TEST_F_TIMEOUT(famine, keeps_back_no_event, 150)
{
	const struct {
		const char *path, *text;
		bool user;
	} files[] = {
		{ PSI_CPU, "some 150000 500000" },
		{ GROUP "/cpu.pressure", "some 150000 500000" },
		{ GROUP CGROUP_STAT, "cpu.exact.some 150000 500000" },
		{ GROUP CGROUP_STAT, "cpu.shortage.some 150000 500000" },
		{ PSI_CPU, "some 150000 2000000", true },
	};
	int fds[ARRAY_SIZE(files)], events[ARRAY_SIZE(files)] = {}, refused = 0, fd;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		fds[i] = trigger_arm_as(files[i].user, files[i].path, "%s", files[i].text);
	sleep_for(5 * NSEC_PER_SEC);
	for (int round = 0; round < ROUNDS; round++) {
		famine_set(&self->famine, "100");
		spinners_send(&self->famine, SIGCONT);
		sleep_for(STALL);
		spinners_send(&self->famine, SIGSTOP);
		/* A look of each, in windows of 2 s every 200 ms. */
		sleep_for(STALL + 50 * NSEC_PER_MSEC);
		fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
		refused += fd < 0;
		for (size_t i = 0; i < ARRAY_SIZE(files); i++)
			events[i] += poll_fd(fds[i], POLLPRI, 0) == POLLPRI;
		famine_set(&self->famine, "0");
		if (fd >= 0)
			close(fd);
		sleep_for(3 * NSEC_PER_SEC);
		/* One that came late is of no use for the next round. */
		for (size_t i = 0; i < ARRAY_SIZE(files); i++)
			poll_fd(fds[i], POLLPRI, 0);
	}
	EXPECT_EQ(ROUNDS, refused);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		EXPECT_EQ(ROUNDS, events[i]) {
			TH_LOG("%s: %s", files[i].path, files[i].text);
		}
		close(fds[i]);
	}
}

/* ---- Nothing is lost ---- */

FIXTURE(kmemleak) {
};

FIXTURE_SETUP(kmemleak)
{
}

FIXTURE_TEARDOWN(kmemleak)
{
}

/* This must be the last test. */
TEST_F_TIMEOUT(kmemleak, finds_nothing, 600)
{
	char buf[8192];

	/* kmemleak reports memory older than 5 s, after a second scan. */
	for (int i = 0; i < 2; i++) {
		sleep_for(6 * NSEC_PER_SEC);
		write_file(DEBUG "kmemleak", "scan");
	}
	ASSERT_LE(0, read_file(DEBUG "kmemleak", buf, sizeof(buf)));
	EXPECT_EQ(0, strlen(buf)) {
		TH_LOG("%s", buf);
	}
}

int main(int argc, char **argv)
{
	if (access(DEBUG "kmemleak", F_OK) || access("/proc/self/fail-nth", F_OK))
		ksft_exit_skip("needs CONFIG_FAULT_INJECTION and CONFIG_DEBUG_KMEMLEAK\n");
	/* Forget leaks from before the test. */
	write_file(DEBUG "kmemleak", "scan=off");
	sleep_for(6 * NSEC_PER_SEC);
	write_file(DEBUG "kmemleak", "scan");
	write_file(DEBUG "kmemleak", "clear");
	return test_harness_run(argc, argv);
}
