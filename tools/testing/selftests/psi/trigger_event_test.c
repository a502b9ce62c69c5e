// SPDX-License-Identifier: GPL-2.0
/*
 * Triggers: how an event reaches its waiters
 *
 * Invariant: an event stays pending from when it happens until a poll of the
 * open file collects it, whatever events that poll asks for. The event belongs
 * to the open file: all copies of the descriptor share it, and only the first
 * poll gets it. Once no event can come any more, every waiter wakes up at once,
 * and every later poll returns at once.
 *
 * Bugs it would find: an event that reaches only a sleeping waiter; a queue of
 * events instead of one; a file that is released while a waiter sleeps on it; a
 * group that ends without waking its waiters, or hands its triggers to the next
 * group of that name; a monitor that waits for the mutex of cgroups.
 *
 * An event is a read of 100 ms from a slow disk, with a threshold of 50 ms in
 * 500 ms. The reader is in a cgroup. Every test runs with a file of the system
 * and with one of that cgroup. PSI checks every 50 ms; LATE_MS is a generous
 * limit for that.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_stat.h"
#include "psi_swap.h"
#include "psi_trigger.h"
#include "psi_uring.h"
#include "psi_work.h"

#define GROUP		CGROUP_ROOT "/psi_trigger_event"
#define GROUP_IO	GROUP "/io.pressure"
#define TRIGGER		"some 50000 500000"
#define WINDOW_MS	500
#define LATE_MS		100
/* Removing a cgroup takes 25 ms if an instruction takes 64 ns. */
#define AT_ONCE		(50 * NSEC_PER_MSEC)
/* What poll() reports for a file without a poll function. */
#define DEFAULT_MASK	(POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM)

/* ---- Across exec ---- */

/*
 * If the test program is executed with this variable, it polls that descriptor
 * and exits with the events.
 */
#define POLL_VARIABLE	"PSI_TEST_POLL_FD"

static void __attribute__((constructor)) poll_and_exit(void)
{
	const char *fd = getenv(POLL_VARIABLE);

	if (fd)
		_exit(poll_fd(atoi(fd), POLLPRI, WINDOW_MS));
}

/* ---- Fixture ---- */

FIXTURE(event) {
	struct stalls stalls;
	int fd;
};

FIXTURE_VARIANT(event) {
	const char *path;
};

FIXTURE_VARIANT_ADD(event, of_the_system) { .path = PSI_IO };
FIXTURE_VARIANT_ADD(event, of_a_cgroup) { .path = GROUP_IO };

FIXTURE_SETUP(event)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	stalls_create(&self->stalls, "psi_event", 100 * NSEC_PER_MSEC);
	group_enter(GROUP);
	self->fd = trigger_arm(variant->path, TRIGGER);
}

FIXTURE_TEARDOWN(event)
{
	close(self->fd);
	group_leave();
	cgroup_remove(GROUP);
	stalls_remove(&self->stalls);
	cpus_use(cpus_possible());
}

/* Returns with one event pending. */
static void make_event(const struct stalls *stalls)
{
	stall(stalls);
	sleep_for(LATE_MS * NSEC_PER_MSEC);
}

/* Returns when the next event can happen. */
static void quiet_time(void)
{
	sleep_for((WINDOW_MS + LATE_MS) * NSEC_PER_MSEC);
}

/* ---- Pending ---- */

TEST_F(event, needs_a_stall)
{
	EXPECT_EQ(0, poll_fd(self->fd, POLLPRI, 3000));
}

TEST_F(event, is_pollpri_and_nothing_else)
{
	make_event(&self->stalls);
	EXPECT_EQ(POLLPRI, poll_fd(self->fd, POLLPRI, 0));
}

TEST_F_TIMEOUT(event, is_pending_until_it_is_collected, 120)
{
	make_event(&self->stalls);
	sleep_for(60 * NSEC_PER_SEC);
	EXPECT_TRUE(trigger_fired(self->fd, 0));
	EXPECT_FALSE(trigger_fired(self->fd, 0));
	EXPECT_FALSE(trigger_fired(self->fd, 2000));
}

TEST_F(event, is_one_after_several_stalls)
{
	for (int i = 0; i < 5; i++) {
		make_event(&self->stalls);
		quiet_time();
	}
	EXPECT_TRUE(trigger_fired(self->fd, 0));
	EXPECT_FALSE(trigger_fired(self->fd, 2000));
}

TEST_F(event, repeats_with_each_stall)
{
	for (int i = 0; i < 5; i++) {
		make_event(&self->stalls);
		EXPECT_TRUE(trigger_fired(self->fd, 0));
		EXPECT_FALSE(trigger_fired(self->fd, 0));
		quiet_time();
	}
}

TEST_F(event, is_collected_by_a_poll_that_asks_for_nothing)
{
	make_event(&self->stalls);
	poll_fd(self->fd, 0, 0);
	EXPECT_FALSE(trigger_fired(self->fd, 0));
}

TEST_F(event, is_collected_by_a_poll_that_asks_for_something_else)
{
	make_event(&self->stalls);
	poll_fd(self->fd, POLLIN, 0);
	EXPECT_FALSE(trigger_fired(self->fd, 0));
}

TEST_F(event, is_not_collected_by_reading)
{
	struct psi psi;
	char buf[512];
	ssize_t len;

	for (int i = 0; i < 3; i++) {
		len = pread(self->fd, buf, sizeof(buf), 0);
		ASSERT_LT(0, len);
		EXPECT_EQ(NULL, psi_parse(buf, len, &psi));
		EXPECT_FALSE(trigger_fired(self->fd, 0));
	}
	make_event(&self->stalls);
	for (int i = 0; i < 3; i++) {
		len = pread(self->fd, buf, sizeof(buf), 0);
		ASSERT_LT(0, len);
		EXPECT_EQ(NULL, psi_parse(buf, len, &psi));
	}
	EXPECT_LE(100 * NSEC_PER_MSEC * 99 / 100, psi.some.total * NSEC_PER_USEC);
	EXPECT_TRUE(trigger_fired(self->fd, 0));
	EXPECT_FALSE(trigger_fired(self->fd, 0));
}

TEST_F(event, is_not_collected_by_a_second_write)
{
	make_event(&self->stalls);
	EXPECT_EQ(EBUSY, trigger_set(self->fd, TRIGGER));
	EXPECT_TRUE(trigger_fired(self->fd, 0));
}

/* ---- Asleep when it comes ---- */

/**
 * struct waiter - a thread that waits for an event
 * @wait: how it waits; returns true for the expected event
 * @fd: its descriptor
 * @thread: the thread
 * @got: the result of @wait
 * @woken: when @wait returned
 */
struct waiter {
	bool (*wait)(int fd);
	int fd;
	pthread_t thread;
	bool got;
	__u64 woken;
};

static void *waiter_run(void *arg)
{
	struct waiter *waiter = arg;

	waiter->got = waiter->wait(waiter->fd);
	waiter->woken = now_ns();
	return NULL;
}

static void waiter_start(struct waiter *waiter)
{
	if (pthread_create(&waiter->thread, NULL, waiter_run, waiter))
		psi_die("pthread_create: %s", strerror(errno));
	await_sleep_of_threads();
}

static bool waiter_end(struct waiter *waiter)
{
	if (pthread_join(waiter->thread, NULL))
		psi_die("pthread_join: %s", strerror(errno));
	return waiter->got;
}

/* Longer than any waiter has to wait. */
#define LONG_MS		5000

static bool wait_poll(int fd)
{
	return poll_fd(fd, POLLPRI, LONG_MS) == POLLPRI;
}

static bool wait_select(int fd)
{
	struct timeval time = { .tv_sec = LONG_MS / 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, NULL, NULL, &set, &time) == 1 && FD_ISSET(fd, &set);
}

static int epoll_on(int fd, __u32 events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		psi_die("epoll: %s", strerror(errno));
	return epoll;
}

/* Returns the events, 0 if there are none. */
static __u32 epoll_events(int epoll, int ms)
{
	struct epoll_event event;
	int nr = epoll_wait(epoll, &event, 1, ms);

	if (nr < 0)
		psi_die("epoll_wait: %s", strerror(errno));
	return nr ? event.events : 0;
}

static bool wait_epoll(int fd)
{
	int epoll = epoll_on(fd, EPOLLPRI);
	bool got = epoll_events(epoll, LONG_MS) == EPOLLPRI;

	close(epoll);
	return got;
}

static void check_waiter(struct __test_metadata *_metadata, const struct stalls *stalls, int fd,
			 bool (*wait)(int fd))
{
	struct waiter waiter = { .wait = wait, .fd = fd };
	__u64 start;

	waiter_start(&waiter);
	start = now_ns();
	stall(stalls);
	EXPECT_TRUE(waiter_end(&waiter));
	/* The stall reaches the threshold after 50 ms. */
	EXPECT_LE(start + 50 * NSEC_PER_MSEC, waiter.woken);
	EXPECT_GE(start + 50 * NSEC_PER_MSEC + LATE_MS * NSEC_PER_MSEC, waiter.woken);
	EXPECT_FALSE(trigger_fired(fd, 0));
}

TEST_F(event, wakes_a_poll)
{
	check_waiter(_metadata, &self->stalls, self->fd, wait_poll);
}

TEST_F(event, wakes_a_select_for_exceptions)
{
	check_waiter(_metadata, &self->stalls, self->fd, wait_select);
}

TEST_F(event, wakes_an_epoll)
{
	check_waiter(_metadata, &self->stalls, self->fd, wait_epoll);
}

TEST_F(event, is_collected_by_a_select_for_exceptions)
{
	struct timeval time = {};
	fd_set set;

	make_event(&self->stalls);
	FD_ZERO(&set);
	FD_SET(self->fd, &set);
	EXPECT_EQ(1, select(self->fd + 1, NULL, NULL, &set, &time));
	FD_SET(self->fd, &set);
	EXPECT_EQ(0, select(self->fd + 1, NULL, NULL, &set, &time));
}

/* ---- epoll ---- */

static void expect_one_report(struct __test_metadata *_metadata, const struct stalls *stalls,
			      int fd, __u32 events)
{
	int epoll = epoll_on(fd, events);

	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, epoll_events(epoll, 0));
		make_event(stalls);
		EXPECT_EQ(EPOLLPRI, epoll_events(epoll, 0));
		EXPECT_EQ(0, epoll_events(epoll, 0));
		quiet_time();
	}
	EXPECT_EQ(0, close(epoll));
}

TEST_F(event, is_reported_once_by_a_level_triggered_epoll)
{
	expect_one_report(_metadata, &self->stalls, self->fd, EPOLLPRI);
}

TEST_F(event, is_reported_once_by_an_edge_triggered_epoll)
{
	expect_one_report(_metadata, &self->stalls, self->fd, EPOLLPRI | EPOLLET);
}

TEST_F(event, is_reported_by_a_oneshot_epoll_until_it_is_asked_for_again)
{
	struct epoll_event again = { .events = EPOLLPRI | EPOLLONESHOT };
	int epoll = epoll_on(self->fd, EPOLLPRI | EPOLLONESHOT);

	make_event(&self->stalls);
	EXPECT_EQ(EPOLLPRI, epoll_events(epoll, 0));
	quiet_time();
	make_event(&self->stalls);
	EXPECT_EQ(0, epoll_events(epoll, 0));
	EXPECT_TRUE(trigger_fired(self->fd, 0));
	quiet_time();
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_MOD, self->fd, &again));
	make_event(&self->stalls);
	EXPECT_EQ(EPOLLPRI, epoll_events(epoll, 0));
	EXPECT_EQ(0, close(epoll));
}

/* Waiting on the inner epoll polls the file, which collects the event. */
TEST_F(event, reaches_an_epoll_of_epolls)
{
	int inner = epoll_on(self->fd, EPOLLPRI);
	int outer = epoll_on(inner, EPOLLIN);

	make_event(&self->stalls);
	EXPECT_EQ(EPOLLIN, epoll_events(outer, 0));
	epoll_events(inner, 0);
	EXPECT_EQ(0, epoll_events(outer, 0));
	EXPECT_EQ(0, close(outer));
	EXPECT_EQ(0, close(inner));
}

/* A descriptor without a trigger is always ready, so a wake-up reports it. */
TEST_F(event, does_not_wake_who_polls_another_descriptor)
{
	int other = open(variant->path, O_RDWR | O_CLOEXEC), epoll;

	ASSERT_GE(other, 0);
	epoll = epoll_on(other, EPOLLPRI | EPOLLET);
	EXPECT_EQ(EPOLLPRI | EPOLLERR, epoll_events(epoll, 0));
	EXPECT_EQ(0, epoll_events(epoll, 0));
	make_event(&self->stalls);
	EXPECT_EQ(0, epoll_events(epoll, 0));
	EXPECT_TRUE(trigger_fired(self->fd, 0));
	EXPECT_EQ(0, close(epoll));
	EXPECT_EQ(0, close(other));
}

#define MANY 40

TEST_F(event, of_each_of_many_triggers_is_reported_by_one_epoll)
{
	struct epoll_event event = { .events = EPOLLPRI }, events[MANY + 1];
	int fds[MANY], epoll = epoll_create1(EPOLL_CLOEXEC);

	ASSERT_GE(epoll, 0);
	for (int i = 0; i < MANY; i++) {
		fds[i] = trigger_arm(variant->path, TRIGGER);
		event.data.fd = fds[i];
		ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event));
	}
	make_event(&self->stalls);
	EXPECT_EQ(MANY, epoll_wait(epoll, events, MANY + 1, 0));
	EXPECT_EQ(0, epoll_wait(epoll, events, MANY + 1, 0));
	for (int i = 0; i < MANY; i++)
		EXPECT_EQ(0, close(fds[i]));
	EXPECT_EQ(0, close(epoll));
}

/* ---- Several have the descriptor ---- */

#define WAITERS 3

TEST_F(event, goes_to_one_of_several_waiters)
{
	struct waiter waiter[WAITERS];
	int got = 0;

	for (int i = 0; i < WAITERS; i++) {
		waiter[i] = (struct waiter){ .wait = wait_poll, .fd = self->fd };
		waiter_start(&waiter[i]);
	}
	make_event(&self->stalls);
	for (int i = 0; i < WAITERS; i++)
		got += waiter_end(&waiter[i]);
	EXPECT_EQ(1, got);
	EXPECT_FALSE(trigger_fired(self->fd, 0));
}

#define POLLERS 64

/* Not a copy of the event for each, but each may be the one that takes it. */
TEST_F(event, goes_to_one_of_64_pollers_and_the_next_is_refused)
{
	int epoll[POLLERS], last, got = 0;

	for (int i = 0; i < POLLERS; i++)
		epoll[i] = epoll_on(self->fd, EPOLLPRI);
	EXPECT_EQ(POLLERR, poll_fd(self->fd, POLLPRI, LONG_MS));
	last = epoll_on(self->fd, EPOLLPRI);
	EXPECT_EQ(EPOLLERR, epoll_events(last, LONG_MS));
	EXPECT_EQ(0, close(last));
	make_event(&self->stalls);
	for (int i = POLLERS; i--;)
		got += epoll_events(epoll[i], 0) == EPOLLPRI;
	EXPECT_EQ(1, got);
	/* One leaves, so there is room for another one. */
	EXPECT_EQ(0, close(epoll[0]));
	epoll[0] = epoll_on(self->fd, EPOLLPRI);
	EXPECT_EQ(0, epoll_events(epoll[0], 0));
	quiet_time();
	make_event(&self->stalls);
	EXPECT_EQ(EPOLLPRI, epoll_events(epoll[0], 0));
	for (int i = 0; i < POLLERS; i++)
		EXPECT_EQ(0, close(epoll[i]));
}

TEST_F(event, goes_to_each_open_file)
{
	int other = trigger_arm(variant->path, TRIGGER);
	int higher = trigger_arm(variant->path, "some 200000 500000");

	make_event(&self->stalls);
	EXPECT_TRUE(trigger_fired(other, 0));
	EXPECT_TRUE(trigger_fired(self->fd, 0));
	EXPECT_FALSE(trigger_fired(higher, 0));
	EXPECT_EQ(0, close(other));
	EXPECT_EQ(0, close(higher));
}

/* Waits for an event of @fd as an exclusive waiter of the file's queue. */
static void uring_poll_exclusive(struct uring *uring, int fd)
{
	struct io_uring_sqe *sqe = uring_prepare(uring, IORING_OP_POLL_ADD, fd);

	sqe->poll32_events = POLLPRI | EPOLLEXCLUSIVE;
	sqe->user_data = fd;
	uring_submit(uring);
}

/* The descriptor whose event came first, or -1. */
static int uring_reported(struct uring *uring)
{
	if (poll_fd(uring->fd, POLLIN, LATE_MS) != POLLIN || uring_reap(uring) != 1 ||
	    uring->last.res != POLLPRI)
		return -1;
	return uring->last.user_data;
}

/*
 * The first exclusive waiter has another trigger, without an event. The wake-up
 * must reach the second one.
 */
TEST_F(event, reaches_an_exclusive_waiter_behind_one_of_another_trigger)
{
	struct uring uring;
	int other;

	if (!uring_create(&uring, 0))
		SKIP(return, "io_uring: %s", strerror(errno));
	other = trigger_arm(variant->path, "some 500000 500000");
	uring_poll_exclusive(&uring, other);
	uring_poll_exclusive(&uring, self->fd);
	EXPECT_EQ(-1, uring_reported(&uring));
	make_event(&self->stalls);
	EXPECT_EQ(self->fd, uring_reported(&uring));
	uring_destroy(&uring);
	EXPECT_EQ(0, close(other));
}

TEST_F(event, is_shared_by_a_dup)
{
	int copy = dup(self->fd);

	ASSERT_GE(copy, 0);
	EXPECT_EQ(EBUSY, trigger_set(copy, TRIGGER));
	make_event(&self->stalls);
	EXPECT_TRUE(trigger_fired(copy, 0));
	EXPECT_FALSE(trigger_fired(self->fd, 0));
	quiet_time();
	EXPECT_EQ(0, close(copy));
	make_event(&self->stalls);
	EXPECT_TRUE(trigger_fired(self->fd, 0));
}

/*
 * What poll() reports in a child that is forked after the event, or in a
 * program that this child executes.
 */
static int poll_in_a_child(int fd, bool exec)
{
	static char * const argv[] = { "psi", NULL };
	char variable[64];
	char * const env[] = { variable, NULL };
	pid_t pid;

	snprintf(variable, sizeof(variable), POLL_VARIABLE "=%d", fd);
	pid = fork_or_die();
	if (!pid) {
		if (!exec)
			_exit(poll_fd(fd, POLLPRI, WINDOW_MS));
		fcntl(fd, F_SETFD, 0);
		execve("/proc/self/exe", argv, env);
		psi_die("exec: %s", strerror(errno));
	}
	return reap_exit(pid);
}

TEST_F(event, is_shared_by_a_child)
{
	make_event(&self->stalls);
	EXPECT_EQ(POLLPRI, poll_in_a_child(self->fd, false));
	EXPECT_FALSE(trigger_fired(self->fd, 0));
	EXPECT_EQ(0, poll_in_a_child(self->fd, false));
}

TEST_F(event, is_shared_by_a_program_that_is_executed)
{
	make_event(&self->stalls);
	EXPECT_EQ(POLLPRI, poll_in_a_child(self->fd, true));
	EXPECT_FALSE(trigger_fired(self->fd, 0));
	EXPECT_EQ(0, poll_in_a_child(self->fd, true));
}

static void wait_or_die(void *arg)
{
	if (!wait_poll(*(int *)arg))
		psi_die("no event");
}

/* The trigger lives as long as any copy of the descriptor. */
TEST_F(event, reaches_a_child_after_all_others_closed_the_file)
{
	const struct load load = { .fn = wait_or_die, .arg = &self->fd };
	pid_t pid = load_start(&load);

	EXPECT_EQ(0, close(self->fd));
	stall(&self->stalls);
	load_wait(pid);
	self->fd = -1;
}

TEST_F(event, outlives_a_waiter_that_is_killed)
{
	const struct load load = { .fn = wait_or_die, .arg = &self->fd };
	pid_t pid = load_start(&load);

	sleep_for(20 * NSEC_PER_MSEC);
	load_stop(pid);
	make_event(&self->stalls);
	EXPECT_TRUE(trigger_fired(self->fd, 0));
}

static bool wait_poll_invalid(int fd)
{
	return poll_fd(fd, POLLPRI, LONG_MS) == POLLNVAL;
}

/*
 * The waiter's poll keeps the file open. When it wakes up, the descriptor is
 * closed.
 */
TEST_F(event, wakes_a_waiter_whose_descriptor_is_closed)
{
	struct waiter waiter = { .wait = wait_poll_invalid, .fd = self->fd };
	__u64 start;

	waiter_start(&waiter);
	EXPECT_EQ(0, close(self->fd));
	start = now_ns();
	make_event(&self->stalls);
	EXPECT_TRUE(waiter_end(&waiter));
	EXPECT_GT(start + NSEC_PER_SEC, waiter.woken);
	self->fd = -1;
}

TEST_F(event, does_not_come_from_a_file_that_was_closed_under_an_epoll)
{
	int epoll = epoll_on(self->fd, EPOLLPRI);

	EXPECT_EQ(0, close(self->fd));
	make_event(&self->stalls);
	EXPECT_EQ(0, epoll_events(epoll, 1000));
	EXPECT_EQ(0, close(epoll));
	self->fd = -1;
}

static void ignore_signal(int sig)
{
}

TEST_F(event, outlives_a_signal)
{
	const struct sigaction action = { .sa_handler = ignore_signal };
	struct pollfd pfd = { .fd = self->fd, .events = POLLPRI };
	struct itimerval timer = { .it_value.tv_usec = 30000 };

	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &timer, NULL));
	EXPECT_EQ(-1, poll(&pfd, 1, 1000));
	EXPECT_EQ(EINTR, errno);
	make_event(&self->stalls);
	EXPECT_TRUE(trigger_fired(self->fd, 0));
}

/* ---- No trigger ---- */

FIXTURE(unarmed) {
};

FIXTURE_VARIANT(unarmed) {
	const char *path;
	const char *text;
};

FIXTURE_VARIANT_ADD(unarmed, file_of_the_system) { .path = PSI_IO };
FIXTURE_VARIANT_ADD(unarmed, file_of_a_cgroup) { .path = GROUP_IO };

FIXTURE_VARIANT_ADD(unarmed, file_of_the_system_after_a_write_that_was_rejected) {
	.path = PSI_IO,
	.text = "some 50000 1\n",
};

FIXTURE_VARIANT_ADD(unarmed, file_of_a_cgroup_after_a_write_that_was_rejected) {
	.path = GROUP_IO,
	.text = "junk",
};

FIXTURE_SETUP(unarmed)
{
	cgroup_create(GROUP, "+io");
}

FIXTURE_TEARDOWN(unarmed)
{
	cgroup_remove(GROUP);
}

TEST_F(unarmed, reports_an_error_to_every_waiter)
{
	int epoll, fd = trigger_open(variant->path);
	struct timeval time = { .tv_sec = 10 };
	__u64 start = now_ns();
	fd_set set;

	if (variant->text)
		EXPECT_EQ(EINVAL, trigger_set(fd, variant->text));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(NO_TRIGGER, poll_fd(fd, POLLPRI, 10000));
		EXPECT_EQ(NO_TRIGGER | DEFAULT_MASK, poll_fd(fd, POLLPRI | DEFAULT_MASK, 10000));
		EXPECT_EQ(POLLERR, poll_fd(fd, 0, 10000));
	}
	FD_ZERO(&set);
	FD_SET(fd, &set);
	EXPECT_EQ(1, select(fd + 1, NULL, NULL, &set, &time));
	epoll = epoll_on(fd, EPOLLPRI);
	EXPECT_EQ(EPOLLERR | EPOLLPRI, epoll_events(epoll, 10000));
	EXPECT_EQ(EPOLLERR | EPOLLPRI, epoll_events(epoll, 10000));
	EXPECT_GT(start + NSEC_PER_SEC, now_ns());
	EXPECT_EQ(0, close(epoll));
	EXPECT_EQ(0, close(fd));
}

/* ---- The cgroup goes away ---- */

static bool wait_poll_error(int fd)
{
	return poll_fd(fd, POLLPRI, LONG_MS) == NO_TRIGGER;
}

static bool wait_epoll_error(int fd)
{
	int epoll = epoll_on(fd, EPOLLPRI);
	bool got = epoll_events(epoll, LONG_MS) == (EPOLLERR | EPOLLPRI);

	close(epoll);
	return got;
}

/* Each must wake up beside other exclusive waiters. */
static bool wait_epoll_exclusive(int fd)
{
	int epoll = epoll_on(fd, EPOLLERR | EPOLLEXCLUSIVE);
	bool got = epoll_events(epoll, LONG_MS) == EPOLLERR;

	close(epoll);
	return got;
}

#define NR_ENDING	5

/* @end: ends the triggers of the cgroup; @removed: by removing the cgroup */
FIXTURE(ending) {
	struct stalls stalls;
	struct waiter waiter[NR_ENDING];
	int fd[NR_ENDING];
	int other;
};

FIXTURE_VARIANT(ending) {
	void (*end)(void);
	bool removed;
};

static void end_by_removal(void)
{
	group_leave();
	if (rmdir(GROUP))
		psi_die("rmdir: %s", strerror(errno));
}

static void end_by_switch(void)
{
	cgroup_write(GROUP, "cgroup.pressure", "0");
}

FIXTURE_VARIANT_ADD(ending, by_removal_of_the_cgroup) { .end = end_by_removal, .removed = true };
FIXTURE_VARIANT_ADD(ending, by_the_switch_of_the_cgroup) { .end = end_by_switch };

FIXTURE_SETUP(ending)
{
	bool (*wait[NR_ENDING])(int fd) = {
		wait_poll_error, wait_select, wait_epoll_error,
		wait_epoll_exclusive, wait_epoll_exclusive
	};

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	stalls_create(&self->stalls, "psi_event", 100 * NSEC_PER_MSEC);
	group_enter(GROUP);
	/*
	 * All of these must end: privileged or not, some or full, near their
	 * threshold or not.
	 */
	self->fd[0] = trigger_arm(GROUP_IO, TRIGGER);
	self->fd[1] = trigger_arm_user(GROUP_IO, "full 2000000 2000000");
	self->fd[2] = trigger_arm(GROUP "/memory.pressure", "some 10000 10000000");
	self->fd[3] = trigger_arm(GROUP_IO, TRIGGER);
	/* Two exclusive waiters on one open file. */
	self->fd[4] = fcntl(self->fd[3], F_DUPFD_CLOEXEC, 0);
	ASSERT_LE(0, self->fd[4]);
	self->other = trigger_arm(PSI_IO, TRIGGER);
	for (int i = 0; i < NR_ENDING; i++) {
		self->waiter[i] = (struct waiter){ .wait = wait[i], .fd = self->fd[i] };
		waiter_start(&self->waiter[i]);
	}
}

FIXTURE_TEARDOWN(ending)
{
	stalls_remove(&self->stalls);
	group_leave();
	if (!access(GROUP, F_OK))
		cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

TEST_F(ending, wakes_present_and_later_waiters)
{
	__u64 start = now_ns();
	char buf[512];

	variant->end();
	for (int i = 0; i < NR_ENDING; i++) {
		EXPECT_TRUE(waiter_end(&self->waiter[i]));
		EXPECT_GT(start + AT_ONCE, self->waiter[i].woken) {
			TH_LOG("waiter %d woke up after %.3f s", i,
			       (self->waiter[i].woken - start) / 1e9);
		}
		for (int round = 0; round < 2; round++) {
			EXPECT_EQ(NO_TRIGGER, poll_fd(self->fd[i], POLLPRI, LONG_MS));
			EXPECT_EQ(NO_TRIGGER | DEFAULT_MASK,
				  poll_fd(self->fd[i], POLLPRI | DEFAULT_MASK, LONG_MS));
		}
		EXPECT_EQ(-1, pread(self->fd[i], buf, sizeof(buf), 0));
		EXPECT_EQ(ENODEV, errno);
		EXPECT_EQ(ENODEV, trigger_set(self->fd[i], TRIGGER));
		EXPECT_EQ(0, close(self->fd[i]));
	}
}

/* A trigger of the system goes on. */
TEST_F(ending, leaves_other_triggers_alone)
{
	variant->end();
	for (int i = 0; i < NR_ENDING; i++)
		EXPECT_TRUE(waiter_end(&self->waiter[i]));
	EXPECT_FALSE(trigger_fired(self->other, 0));
	make_event(&self->stalls);
	EXPECT_TRUE(trigger_fired(self->other, 0));
}

TEST_F(ending, is_final)
{
	int fresh;

	variant->end();
	for (int i = 0; i < NR_ENDING; i++)
		EXPECT_TRUE(waiter_end(&self->waiter[i]));
	if (variant->removed) {
		group_enter(GROUP);
	} else {
		EXPECT_EQ(-1, open(GROUP_IO, O_RDONLY | O_CLOEXEC));
		EXPECT_EQ(ENOENT, errno);
		cgroup_write(GROUP, "cgroup.pressure", "1");
	}
	fresh = trigger_arm(GROUP_IO, TRIGGER);
	make_event(&self->stalls);
	EXPECT_TRUE(trigger_fired(fresh, 0));
	for (int i = 0; i < NR_ENDING; i++) {
		EXPECT_EQ(NO_TRIGGER, poll_fd(self->fd[i], POLLPRI, 0));
		EXPECT_EQ(ENODEV, trigger_set(self->fd[i], TRIGGER));
	}
	EXPECT_EQ(0, close(fresh));
}

TEST_F(ending, does_not_wait_for_the_end_of_a_stall)
{
	int fd = trigger_arm(GROUP "/cpu.pressure", "some 10000 500000");
	pid_t spinner[2];

	spin_pair_start(spinner, GROUP);
	EXPECT_TRUE(trigger_fired(fd, 1000));
	spin_pair_stop(spinner);
	variant->end();
	EXPECT_EQ(NO_TRIGGER, poll_fd(fd, POLLPRI, 0));
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(waiter_end(&self->waiter[i]));
	EXPECT_EQ(0, close(fd));
}

/* Switching off a parent does not switch off its children. */
/* Pressure files have a queue of waiters for each open file, and others do not. */
TEST(other_files_of_cgroups_wake_an_exclusive_waiter)
{
	const struct load load = { .cpu = -1, .cgroup = GROUP, .fn = spin };
	struct waiter waiter = { .wait = wait_epoll_exclusive };
	char text[64];
	pid_t pid;

	cgroup_create(GROUP, "");
	waiter.fd = open_file(GROUP "/cgroup.events", O_RDONLY);
	ASSERT_LT(0, pread(waiter.fd, text, sizeof(text), 0));
	waiter_start(&waiter);
	/* It is populated from now on. */
	pid = load_start(&load);
	EXPECT_TRUE(waiter_end(&waiter));
	load_stop(pid);
	close(waiter.fd);
	cgroup_remove(GROUP);
}

TEST(switch_of_a_parent_leaves_its_children_alone)
{
	static const char child[] = GROUP "/child";
	struct stalls stalls;
	int fd;

	cpus_use(1);
	stalls_create(&stalls, "psi_event", 100 * NSEC_PER_MSEC);
	cgroup_create(GROUP, "+io");
	cgroup_create(child, "");
	cgroup_write(child, "cgroup.procs", "0");
	fd = trigger_arm(GROUP "/child/io.pressure", TRIGGER);
	cgroup_write(GROUP, "cgroup.pressure", "0");
	EXPECT_EQ(0, poll_fd(fd, POLLPRI, 0));
	make_event(&stalls);
	EXPECT_TRUE(trigger_fired(fd, 0));
	EXPECT_EQ(0, close(fd));
	group_leave();
	cgroup_remove(child);
	cgroup_remove(GROUP);
	stalls_remove(&stalls);
}

/* ---- While a hung disk keeps the mutex of cgroups ---- */

#define BUSY		CGROUP_ROOT "/psi_trigger_busy"
#define BUSY_CHILD	CGROUP_ROOT "/psi_trigger_child"
/* null_blk gives a request up after 5 s. */
#define HUNG		(4 * NSEC_PER_SEC)
/* On top of the tenth of a window between two checks. */
#define BUSY_LATE	(20 * NSEC_PER_MSEC)

static char first_limit[64];

static void read_hung_disk(void *arg)
{
	stall(arg);
}

static void write_first_limit(void *arg)
{
	cgroup_write(BUSY, "io.max", first_limit);
}

static void remove_busy(void *arg)
{
	if (rmdir(BUSY))
		psi_die(BUSY ": %s", strerror(errno));
}

static void make_child(void *arg)
{
	if (mkdir(BUSY_CHILD, 0755))
		psi_die(BUSY_CHILD ": %s", strerror(errno));
}

/*
 *	reads	a request is in flight for 4 s
 *	writes	the first limit of the disk waits until none is in flight, and
 *		meanwhile its file is in use
 *	removes	rmdir waits for that file with cgroup_mutex held
 *	makes	mkdir waits for cgroup_mutex
 */
static void (*const hang[])(void *arg) = {
	read_hung_disk, write_first_limit, remove_busy, make_child
};

FIXTURE(held) {
	struct stalls stalls;
	pid_t hung[ARRAY_SIZE(hang)];
	pid_t spinner[2];
};

FIXTURE_SETUP(held)
{
	char dev[32];

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	stalls_create(&self->stalls, "psi_event", HUNG);
	slow_disk_number(&self->stalls.disk, dev, sizeof(dev));
	snprintf(first_limit, sizeof(first_limit), "%s rbps=1000000", dev);
	cgroup_create(GROUP, "+io");
	cgroup_create(BUSY, "+io");
	/* They run: the group has what it needs on this CPU. */
	spin_pair_start(self->spinner, GROUP);
	sleep_for(100 * NSEC_PER_MSEC);
	for (int i = 0; i < 2; i++)
		kill(self->spinner[i], SIGSTOP);
}

FIXTURE_TEARDOWN(held)
{
	spin_pair_stop(self->spinner);
	cgroup_remove(BUSY_CHILD);
	cgroup_remove(GROUP);
	stalls_remove(&self->stalls);
	cpus_use(cpus_possible());
}

TEST_F_TIMEOUT(held, delays_no_event, 120)
{
	const struct {
		const char *path, *text;
		__u64 window;
		bool user;
	} files[] = {
		{ PSI_CPU, "some", 500 * NSEC_PER_MSEC },
		{ GROUP "/cpu.pressure", "some", 500 * NSEC_PER_MSEC },
		{ GROUP "/cpu.pressure", "some", 2 * NSEC_PER_SEC, true },
		{ GROUP CGROUP_STAT, "cpu.exact.some", 500 * NSEC_PER_MSEC },
		{ GROUP CGROUP_STAT, "cpu.shortage.some", 500 * NSEC_PER_MSEC },
	};
	const size_t nr = ARRAY_SIZE(files) - (psi_has_stat() ? 0 : 2);
	struct pollfd polled[ARRAY_SIZE(files)];
	size_t left = nr;
	__u64 begin, after[ARRAY_SIZE(files)] = {};
	const __u64 threshold = 150 * NSEC_PER_MSEC;

	for (size_t i = 0; i < nr; i++) {
		polled[i].fd = trigger_arm_as(files[i].user, files[i].path, "%s %llu %llu",
					      files[i].text, threshold / NSEC_PER_USEC,
					      files[i].window / NSEC_PER_USEC);
		polled[i].events = POLLPRI;
	}
	sleep_for(5 * NSEC_PER_SEC);
	for (size_t i = 0; i < ARRAY_SIZE(hang); i++) {
		const struct load load = { .policy = SCHED_FIFO, .prio = 40, .fn = hang[i],
					   .arg = &self->stalls };

		self->hung[i] = load_start(&load);
		await_sleep(self->hung[i]);
	}
	/* What they waited for each other is no part of a window any more. */
	sleep_for(600 * NSEC_PER_MSEC);
	begin = now_ns();
	for (int i = 0; i < 2; i++)
		kill(self->spinner[i], SIGCONT);
	while (left && poll(polled, nr, 1000) > 0) {
		for (size_t i = 0; i < nr; i++) {
			if (polled[i].fd < 0 || !polled[i].revents)
				continue;
			EXPECT_EQ(POLLPRI, polled[i].revents);
			after[i] = now_ns() - begin;
			polled[i].fd = -1;
			left--;
		}
	}
	/* All of them still wait. */
	for (size_t i = 0; i < ARRAY_SIZE(hang); i++)
		EXPECT_EQ(0, waitpid(self->hung[i], NULL, WNOHANG));
	for (size_t i = 0; i < nr; i++) {
		ksft_print_msg("%s %s, window %llu ms: event after %.3f ms\n", files[i].path,
			       files[i].text, files[i].window / NSEC_PER_MSEC, after[i] / 1e6);
		EXPECT_LE(threshold, after[i]);
		EXPECT_GE(threshold + files[i].window / 10 + BUSY_LATE, after[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(hang); i++)
		load_wait(self->hung[i]);
}

/* With a NUL and without; to the system and to a cgroup. */
TEST(window_below_the_shortest_is_refused)
{
	int fd = trigger_open(PSI_IO), root = trigger_open(CGROUP_ROOT "/io.pressure");

	EXPECT_EQ(EINVAL, trigger_write(fd, "some 1 499999", 13));
	EXPECT_EQ(EINVAL, trigger_write(fd, "some 1 499999", 14));
	EXPECT_EQ(EINVAL, trigger_write(root, "some 1 499999", 13));
	EXPECT_EQ(EINVAL, trigger_write(root, "some 1 499999", 14));
	EXPECT_EQ(NO_TRIGGER, poll_fd(fd, POLLPRI, 0));
	EXPECT_EQ(0, trigger_write(fd, "some 1 500000", 14));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, close(root));
}

TEST_HARNESS_MAIN
