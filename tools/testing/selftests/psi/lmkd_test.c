// SPDX-License-Identifier: GPL-2.0
/*
 * Triggers as Android's low memory killer daemon (lmkd) uses them
 *
 * lmkd opens /proc/pressure/memory three times, write-only and close-on-exec.
 * To each descriptor it writes a trigger with its NUL, and it waits for all of
 * them in one epoll set:
 *
 *      low         some  70 ms in 1 s
 *      medium      some 100 ms in 1 s
 *      critical    full  70 ms in 1 s
 *
 * For a window after each event it wakes up every 10 ms and reads what memory
 * there is. After it killed a task it closes its monitors and arms them anew.
 *
 * Invariants:
 *
 * (a) No false event: since the monitor was armed, since its last event and
 *     within its window, there was as much stall as its threshold.
 * (b) No missed event: a stall that reaches the threshold gives an event within
 *     a tenth of the window, or when the quiet time ends.
 * (c) At most one event in a window, as long as the monitor is armed.
 * (d) A monitor that is armed anew begins anew: stall from before does not
 *     count, and no quiet time is left.
 *
 * Bugs it would find: a trigger that a write-only descriptor does not arm; a
 * text that is refused for its NUL; monitors with one window and different
 * thresholds that share a state; polls or reads that use up an event; a close
 * in an epoll set that leaves the trigger.
 *
 * A stall is a number of reads of one page that belongs to the working set. The
 * page is evicted before each read, and the timer of the disk makes a read take
 * 10 ms. No other task uses memory, so the reader's own times are the stalls.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_switches.h"
#include "psi_trigger.h"
#include "psi_work.h"

#define GROUP		CGROUP_ROOT "/psi_lmkd"
#define DISK_MB		16
#define LIMIT		"4194304"
#define PAGES		(5 << 20 >> 12)		/* of the working set */
#define LATENCY		(10 * NSEC_PER_MSEC)
#define LEARN		(100 * NSEC_PER_SEC)

#define WINDOW		NSEC_PER_SEC
#define POLL_MS		10
/* A check is late by the rounding of the timer; lmkd sees it a little later. */
#define LATE		(20 * NSEC_PER_MSEC)
#define SEEN		(2 * NSEC_PER_MSEC)

/* ---- Stalls ---- */

#define MAX_STALLS	32

/**
 * struct refault - a load that stalls on memory by a timetable
 * @node: the disk that has its working set
 * @nr: number of stalls
 * @at: when each stall begins
 * @reads: how many reads each one takes
 * @begin: when it began
 * @end: when it ended, or 0
 * @thrash: time that the task's own delay accounting has for all of them
 */
struct refault {
	const char *node;
	int nr;
	__u64 at[MAX_STALLS];
	int reads[MAX_STALLS];
	__u64 begin[MAX_STALLS];
	__u64 end[MAX_STALLS];
	__u64 thrash;
};

static void read_page(int fd, int page)
{
	char byte;

	if (pread(fd, &byte, 1, (off_t)page * BLOCK) != 1)
		psi_die("read: %s", strerror(errno));
}

/* Only pages that are mapped can be paged out one by one. */
static void refault(int fd, char *mem, int page)
{
	asm volatile("" : : "r" (*(volatile char *)(mem + (size_t)page * BLOCK)));
	if (madvise(mem + (size_t)page * BLOCK, BLOCK, MADV_PAGEOUT))
		psi_die("madvise: %s", strerror(errno));
	read_page(fd, page);
}

static __u64 thrash_ns(void)
{
	struct task_clock tc;

	task_clock_read(getpid(), &tc);
	return tc.thrash;
}

/* In random order, some pages come back soon after the kernel evicted them. */
static void learn(int fd)
{
	__u64 state = 1;

	for (int i = 0; i < 4 * PAGES; i++)
		read_page(fd, random_u64(&state) % PAGES);
}

/* A page that counts as working set whenever it comes back. */
static int page_of_working_set(int fd, char *mem)
{
	for (int page = 0; page < PAGES; page++) {
		__u64 before = thrash_ns();

		refault(fd, mem, page);
		refault(fd, mem, page);
		if (thrash_ns() - before > 2 * LATENCY * 9 / 10)
			return page;
	}
	psi_die("no page came back to the working set");
}

static void refault_by_plan(void *arg)
{
	struct refault *r = arg;
	int fd = open_file(r->node, O_RDONLY), page;
	char *mem = mmap(NULL, PAGES * BLOCK, PROT_READ, MAP_SHARED, fd, 0);

	if (mem == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	learn(fd);
	page = page_of_working_set(fd, mem);
	if (now_ns() > r->at[0])
		psi_die("the working set was learned too late");
	r->thrash = thrash_ns();
	for (int i = 0; i < r->nr; i++) {
		sleep_until(r->at[i]);
		r->begin[i] = now_ns();
		for (int read = 0; read < r->reads[i]; read++)
			refault(fd, mem, page);
		r->end[i] = now_ns();
	}
	r->thrash = thrash_ns() - r->thrash;
	sleep_forever();
}

/* The most stall that there can have been. */
static __u64 stall_between(const struct refault *r, __u64 from, __u64 to)
{
	__u64 sum = 0;

	for (int i = 0; i < r->nr && r->begin[i]; i++) {
		__u64 begin = r->begin[i] > from ? r->begin[i] : from;
		__u64 end = r->end[i] && r->end[i] < to ? r->end[i] : to;

		sum += end > begin ? end - begin : 0;
	}
	return sum;
}

/* ---- lmkd ---- */

enum level { LOW, MEDIUM, CRITICAL, NR_LEVELS };

static const struct {
	const char *line;
	int threshold_ms;
} levels[NR_LEVELS] = {
	[LOW] = { "some", 70 },
	[MEDIUM] = { "some", 100 },
	[CRITICAL] = { "full", 70 },
};

/**
 * struct monitor - one of the three
 * @level: which one
 * @fd: its descriptor
 * @armed: when it was armed last
 * @last: when its last event came, or when it was armed
 * @events: number of its events
 * @wrong: number of those that should not have come
 * @slowest: the longest time to an event, from @last or the first stall
 */
struct monitor {
	enum level level;
	int fd;
	__u64 armed;
	__u64 last;
	int events;
	int wrong;
	__u64 slowest;
};

/**
 * struct lmkd - the daemon
 * @stalls: what it judges events by
 * @rearms: it arms its monitors anew after each event
 * @armed_anew: how often it did
 * @epoll: its epoll set
 * @file: what it reads while it polls
 * @polls_until: end of the window in which it polls
 * @polls: number of its polls
 * @monitor: its monitors
 */
struct lmkd {
	const struct refault *stalls;
	bool rearms;
	int armed_anew;
	int epoll;
	int file;
	__u64 polls_until;
	int polls;
	struct monitor monitor[NR_LEVELS];
};

static void monitor_arm(struct lmkd *d, struct monitor *m)
{
	struct epoll_event event = { .events = EPOLLPRI, .data.ptr = m };
	char text[64];
	int len;

	m->fd = open_file(PSI_MEMORY, O_WRONLY);
	len = snprintf(text, sizeof(text), "%s %d %llu", levels[m->level].line,
		       levels[m->level].threshold_ms * 1000, WINDOW / NSEC_PER_USEC);
	m->armed = now_ns();
	m->last = m->armed;
	if (trigger_write(m->fd, text, len + 1))
		psi_die("cannot arm \"%s\"", text);
	if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, m->fd, &event))
		psi_die("epoll_ctl: %s", strerror(errno));
}

static void monitors_arm(struct lmkd *d)
{
	for (int i = 0; i < NR_LEVELS; i++)
		monitor_arm(d, &d->monitor[i]);
}

static void monitors_close(struct lmkd *d)
{
	for (int i = 0; i < NR_LEVELS; i++) {
		if (epoll_ctl(d->epoll, EPOLL_CTL_DEL, d->monitor[i].fd, NULL) ||
		    close(d->monitor[i].fd))
			psi_die("cannot close a monitor: %s", strerror(errno));
	}
}

static void lmkd_start(struct lmkd *d, const struct refault *stalls, bool rearms)
{
	memset(d, 0, sizeof(*d));
	d->stalls = stalls;
	d->rearms = rearms;
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->file = open_file(PSI_MEMORY, O_RDONLY);
	for (int i = 0; i < NR_LEVELS; i++)
		d->monitor[i].level = i;
	monitors_arm(d);
}

/* (a) and (c) */
static bool event_is_due(const struct lmkd *d, const struct monitor *m, __u64 now)
{
	__u64 since = m->last == m->armed ? m->armed : m->last - SEEN;
	__u64 begin = now > WINDOW + since ? now - WINDOW - SEEN : since;

	if (m->last != m->armed && now + SEEN < m->last + WINDOW)
		return false;
	return stall_between(d->stalls, begin, now) >=
	       levels[m->level].threshold_ms * NSEC_PER_MSEC;
}

static void take_event(struct lmkd *d, const struct epoll_event *event)
{
	struct monitor *m = event->data.ptr;
	__u64 now = now_ns(), since;

	if (event->events != EPOLLPRI)
		psi_die("epoll reports %#x", event->events);
	since = m->last > d->stalls->begin[0] ? m->last : d->stalls->begin[0];
	m->events++;
	m->wrong += !event_is_due(d, m, now);
	if (now - since > m->slowest)
		m->slowest = now - since;
	m->last = now;
	d->polls_until = now + WINDOW;
}

/* lmkd looks at what there is, through a descriptor that it keeps. */
static void poll_memory(struct lmkd *d)
{
	struct psi psi;
	char text[512];
	ssize_t len = pread(d->file, text, sizeof(text) - 1, 0);

	if (len <= 0 || psi_parse(text, len, &psi))
		psi_die("cannot read %s", PSI_MEMORY);
	d->polls++;
}

static void serve_until(struct lmkd *d, __u64 end)
{
	struct epoll_event events[NR_LEVELS];
	__u64 now;
	int nr;

	while ((now = now_ns()) < end) {
		bool polls = now < d->polls_until;

		nr = epoll_wait(d->epoll, events, NR_LEVELS,
				polls ? POLL_MS : (end - now) / NSEC_PER_MSEC + 1);
		if (nr < 0)
			psi_die("epoll_wait: %s", strerror(errno));
		for (int i = 0; i < nr; i++)
			take_event(d, &events[i]);
		if (polls)
			poll_memory(d);
		if (nr && d->rearms) {
			monitors_close(d);
			monitors_arm(d);
			d->armed_anew++;
		}
	}
}

/* ---- The scene ---- */

/**
 * struct scene - what each test needs
 * @disk: the disk of the working set
 * @stalls: the plan of the reader, and what came of it
 * @reader: the task that stalls
 * @start: when the plan may begin
 * @d: the daemon
 */
struct scene {
	struct slow_disk disk;
	struct refault *stalls;
	pid_t reader;
	__u64 start;
	struct lmkd d;
};

static void scene_create(struct scene *s)
{
	cpus_use(1);
	task_delays_on();
	slow_disk_create(&s->disk, "psi_lmkd", LATENCY, DISK_MB);
	cgroup_create(GROUP, "+memory");
	cgroup_write(GROUP, "memory.max", LIMIT);
	s->stalls = shared_memory(sizeof(*s->stalls));
	s->stalls->node = s->disk.node;
	s->start = now_ns() + LEARN;
}

static void scene_remove(struct scene *s)
{
	cgroup_remove(GROUP);
	reap(s->reader);
	slow_disk_remove(&s->disk);
	munmap(s->stalls, sizeof(*s->stalls));
	set_policy(0, SCHED_OTHER, 0);
	cpus_use(cpus_possible());
}

/* A stall of @ms, @after_ms after the start. */
static void plan_stall(struct scene *s, int after_ms, int ms)
{
	int i = s->stalls->nr++;

	s->stalls->at[i] = s->start + after_ms * NSEC_PER_MSEC;
	s->stalls->reads[i] = ms * NSEC_PER_MSEC / LATENCY;
}

static void plan_stalls(struct scene *s, int nr, int ms, int period_ms)
{
	for (int i = 0; i < nr; i++)
		plan_stall(s, i * period_ms, ms);
}

/* Returns 2 s before the first stall, with lmkd's monitors armed. */
static void scene_start(struct scene *s, bool rearms)
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = refault_by_plan,
				   .arg = s->stalls };

	s->reader = load_start(&load);
	set_policy(0, SCHED_FIFO, 50);
	sleep_until(s->start - 2 * NSEC_PER_SEC);
	lmkd_start(&s->d, s->stalls, rearms);
}

/* Serves until the last stall is over, and 3 s longer. */
static void scene_serve(struct scene *s)
{
	int last = s->stalls->nr - 1;

	serve_until(&s->d, s->stalls->at[last] + s->stalls->reads[last] * LATENCY * 102 / 100 +
		    3 * NSEC_PER_SEC);
}

/* The stalls took as long as planned, apart from the reader's own work. */
static void expect_plan(struct __test_metadata *_metadata, const struct refault *stalls)
{
	__u64 planned = 0, real = 0;

	for (int i = 0; i < stalls->nr; i++) {
		ASSERT_NE(0, stalls->end[i]);
		planned += stalls->reads[i] * LATENCY;
		real += stalls->end[i] - stalls->begin[i];
	}
	ksft_print_msg("stalls: planned %.6f s, took %.6f s, thrashed %.6f s\n", planned / 1e9,
		       real / 1e9, stalls->thrash / 1e9);
	ASSERT_LE(planned, real);
	ASSERT_GE(planned * 102 / 100, real);
	ASSERT_LE(planned * 99 / 100, stalls->thrash);
}

static void expect_events(struct __test_metadata *_metadata, const struct lmkd *d,
			  enum level level, int least, int most)
{
	const struct monitor *m = &d->monitor[level];

	ksft_print_msg("%s %d ms: %d events (%d to %d), the slowest after %.6f s\n",
		       levels[level].line, levels[level].threshold_ms, m->events, least, most,
		       m->slowest / 1e9);
	EXPECT_LE(least, m->events);
	EXPECT_GE(most, m->events);
	EXPECT_EQ(0, m->wrong);
}

/* ---- Single stalls, further apart than a window ---- */

#define STALLS	10

FIXTURE(single) {
	struct scene scene;
};

FIXTURE_VARIANT(single) {
	int stall_ms;
	bool productive;
	int events[NR_LEVELS];
};

FIXTURE_VARIANT_ADD(single, stalls_of_60_ms) {
	.stall_ms = 60,
	.events = { 0, 0, 0 },
};

FIXTURE_VARIANT_ADD(single, stalls_of_80_ms) {
	.stall_ms = 80,
	.events = { STALLS, 0, STALLS },
};

FIXTURE_VARIANT_ADD(single, stalls_of_120_ms) {
	.stall_ms = 120,
	.events = { STALLS, STALLS, STALLS },
};

FIXTURE_VARIANT_ADD(single, stalls_of_120_ms_beside_a_productive_task) {
	.stall_ms = 120,
	.productive = true,
	.events = { STALLS, STALLS, 0 },
};

FIXTURE_SETUP(single)
{
	scene_create(&self->scene);
}

FIXTURE_TEARDOWN(single)
{
	scene_remove(&self->scene);
}

TEST_F_TIMEOUT(single, is_one_event_at_each_level_that_it_reaches, 300)
{
	struct scene *s = &self->scene;
	pid_t spinner = 0;

	plan_stalls(s, STALLS, variant->stall_ms, 3000);
	scene_start(s, false);
	if (variant->productive)
		spinner = spin_idle_on(0);
	scene_serve(s);
	if (spinner)
		load_stop(spinner);
	expect_plan(_metadata, s->stalls);
	for (int i = 0; i < NR_LEVELS; i++)
		expect_events(_metadata, &s->d, i, variant->events[i], variant->events[i]);
	/*
	 * lmkd polled for a window after the last event of each stall, which is
	 * at most one check later than the first.
	 */
	EXPECT_LE(variant->events[LOW] * 90, s->d.polls);
	EXPECT_GE(variant->events[LOW] * 112, s->d.polls);
}

/* ---- Stalls in a row ---- */

#define LONG_MS		10000

FIXTURE(row) {
	struct scene scene;
};

FIXTURE_SETUP(row)
{
	scene_create(&self->scene);
}

FIXTURE_TEARDOWN(row)
{
	scene_remove(&self->scene);
}

/*
 * The first event comes with a check after the threshold, the others a window
 * apart. When the stall has ended, one more may report what is left.
 */
TEST_F_TIMEOUT(row, of_10_s_is_one_event_in_each_window, 300)
{
	struct scene *s = &self->scene;
	__u64 longest = WINDOW + WINDOW / 10 + LATE;

	plan_stall(s, 0, LONG_MS);
	scene_start(s, false);
	scene_serve(s);
	expect_plan(_metadata, s->stalls);
	for (int i = 0; i < NR_LEVELS; i++) {
		expect_events(_metadata, &s->d, i, LONG_MS * NSEC_PER_MSEC / longest,
			      LONG_MS / 1000 + 1);
		EXPECT_GE(longest, s->d.monitor[i].slowest);
	}
}

/*
 * (d) No quiet time is left, and each event needs a whole threshold of stall.
 * Two monitors reach theirs at the same moment. Where the daemon preempts the
 * thread that wakes it up, it sees one event and arms both anew.
 */
TEST_F_TIMEOUT(row, of_10_s_is_an_event_for_each_time_of_arming, 300)
{
	__u64 least = levels[LOW].threshold_ms * NSEC_PER_MSEC;
	__u64 most = least + WINDOW / 10 + LATE;
	struct scene *s = &self->scene;

	plan_stall(s, 0, LONG_MS);
	scene_start(s, true);
	scene_serve(s);
	expect_plan(_metadata, s->stalls);
	ksft_print_msg("armed anew %d times\n", s->d.armed_anew);
	EXPECT_LE(LONG_MS * NSEC_PER_MSEC / most, s->d.armed_anew);
	EXPECT_GE(LONG_MS * NSEC_PER_MSEC / least, s->d.armed_anew);
	for (int i = 0; i < NR_LEVELS; i++) {
		expect_events(_metadata, &s->d, i, 0, s->d.armed_anew);
		EXPECT_GE(most, s->d.monitor[i].slowest);
	}
}

/* Two stalls of 60 ms in a window: together they reach every threshold. */
static void serve_two(struct scene *s, bool rearm_between)
{
	plan_stalls(s, 2, 60, 300);
	scene_start(s, false);
	serve_until(&s->d, s->stalls->at[1] - 100 * NSEC_PER_MSEC);
	if (rearm_between) {
		monitors_close(&s->d);
		monitors_arm(&s->d);
	}
	scene_serve(s);
}

TEST_F_TIMEOUT(row, of_two_is_an_event_at_each_level, 300)
{
	struct scene *s = &self->scene;

	serve_two(s, false);
	expect_plan(_metadata, s->stalls);
	for (int i = 0; i < NR_LEVELS; i++)
		expect_events(_metadata, &s->d, i, 1, 1);
}

TEST_F_TIMEOUT(row, of_two_is_no_event_for_monitors_that_were_armed_in_between, 300)
{
	struct scene *s = &self->scene;

	serve_two(s, true);
	expect_plan(_metadata, s->stalls);
	for (int i = 0; i < NR_LEVELS; i++)
		expect_events(_metadata, &s->d, i, 0, 0);
}

/* The kernel checks only what somebody waits for. */
TEST_F_TIMEOUT(row, is_not_checked_after_the_monitors_are_closed, 300)
{
	struct scene *s = &self->scene;
	__u64 open, closed;

	plan_stalls(s, 6, 80, 3000);
	scene_start(s, false);
	open = monitor_switches();
	serve_until(&s->d, s->stalls->at[3] - NSEC_PER_SEC);
	open = monitor_switches() - open;
	monitors_close(&s->d);
	closed = monitor_switches();
	sleep_until(s->stalls->at[5] + NSEC_PER_SEC);
	closed = monitor_switches() - closed;
	expect_plan(_metadata, s->stalls);
	expect_events(_metadata, &s->d, LOW, 3, 3);
	EXPECT_LT(0, open);
	EXPECT_EQ(0, closed);
}

TEST_HARNESS_MAIN
