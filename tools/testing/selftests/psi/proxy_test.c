// SPDX-License-Identifier: GPL-2.0
/*
 * Proxy execution: a task that waits for a mutex lends its turn to the owner
 *
 * With CONFIG_SCHED_PROXY_EXEC a task that blocks on a mutex of the kernel
 * stays on a runqueue while the owner can run, that of the owner's CPU: it is a
 * donor. When the scheduler picks the donor, the owner runs.
 *
 * Invariant: a donor is asleep. It does not wait for the CPU, and it is not on
 * it, also while its owner runs in its place. That holds from when it blocks
 * until the mutex is its own or a signal wakes it up, wherever it is queued.
 * The owner runs or waits as if there were no donor.
 *
 *     CPU 1, hog     |      |#############################|
 *     CPU 1, owner   |holds the mutex    |waits           |runs
 *     CPU 0, donor   |              |blocks and migrates  |comes back
 *     owner, some                        |################|
 *     donor, some
 *
 * Bugs it would find: a donor that counts as waiting from when it is queued on
 * the owner's CPU, when its priority, its CPUs or its cgroup change, or when it
 * is taken off the runqueue because its owner sleeps; a donor that counts as
 * running while its owner does; a donor that is woken where it is queued, and
 * goes on counting as asleep.
 *
 * A mutex that is held for long: of the position of a file, while its owner
 * reads zeros; the same, of a file of /proc, and one of /dev/kmsg, while a slow
 * disk fills the page that the owner reads to, and a hog keeps the owner from
 * its CPU after that.
 *
 * Tolerance: SLACK, and 3 % of the time for which a donor was blocked. The
 * tasks take that time themselves. Schedstat is no oracle: it has a donor wait
 * while it is queued on another CPU.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_tree.h"

#define NO_PROXY	"no task lends its turn: needs CONFIG_SCHED_PROXY_EXEC"
#define PART		1048576UL
#define MOST_PARTS	1000
#define LATENCY		(200 * MSEC)
/* A page of a disk that the kernel does not look at by itself. */
#define SLOW_PAGE	(16 << 20)

/* ---- Tasks that read one file ---- */

/**
 * struct caller - a load that reads a file once, and what it measured
 * @cpu: it is bound to it
 * @fd: the file
 * @begin: when it reads
 * @zeros: reads so many ns of zeros first
 * @node: a disk that fills the page that it reads to; NULL: the page is there
 * @apart: by pread(), which leaves the position of the file alone
 * @spin: then it spins until here, before all others; 0: it sleeps
 * @pid: the task
 * @began: it entered the kernel
 * @ended: it returned
 * @error: of the call, or 0
 * @back_on: CPU on which it returned
 */
struct caller {
	int cpu;
	int fd;
	__u64 begin;
	__u64 zeros;
	const char *node;
	bool apart;
	__u64 spin;
	pid_t pid;
	__u64 began;
	__u64 ended;
	int error;
	int back_on;
};

/* Parts that take @ns to read. */
static int parts_of(const struct caller *c, const struct iovec *parts, __u64 ns)
{
	__u64 begin = now_ns();
	int nr;

	if (preadv(c->fd, parts, 16, 0) != 16 * PART)
		psi_die("zeros: %s", strerror(errno));
	nr = 16 * ns / (now_ns() - begin);
	return nr < MOST_PARTS ? nr : MOST_PARTS;
}

static void *page_of_disk(const char *node)
{
	int fd = open_file(node, O_RDONLY);
	void *page = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, SLOW_PAGE);

	if (page == MAP_FAILED || madvise(page, BLOCK, MADV_RANDOM))
		psi_die("%s: %s", node, strerror(errno));
	close(fd);
	return page;
}

static void interrupted(int sig)
{
}

static void call(void *arg)
{
	struct caller *c = arg;
	const struct sigaction action = { .sa_handler = interrupted };
	static struct iovec parts[MOST_PARTS + 1];
	void *buf = private_memory(PART);
	ssize_t got;
	int nr = 0;

	memset(buf, 1, PART);
	if (sigaction(SIGUSR1, &action, NULL))
		psi_die("sigaction: %s", strerror(errno));
	for (int i = 0; i < MOST_PARTS; i++)
		parts[i] = (struct iovec){ buf, PART };
	if (c->zeros)
		nr = parts_of(c, parts, c->zeros);
	parts[nr++] = (struct iovec){ c->node ? page_of_disk(c->node) : buf, BLOCK };
	sleep_until(c->begin);
	c->began = now_ns();
	got = c->apart ? preadv(c->fd, parts, nr, 0) : readv(c->fd, parts, nr);
	c->ended = now_ns();
	c->error = got < 0 ? errno : 0;
	c->back_on = sched_getcpu();
	if (c->spin)
		set_policy(0, SCHED_FIFO, 20);
	spin_until(c->spin);
	sleep_forever();
}

static void start(struct caller *c, enum group g)
{
	const struct load load = { .cpu = c->cpu, .cgroup = tree_path[g], .fn = call, .arg = c };

	c->pid = load_start(&load);
}

/* ---- Where a task is ---- */

#define FIRST_FIELD	3
#define CPU_FIELD	39

/* The CPU of its runqueue; @state as /proc has it. */
static int cpu_of(pid_t pid, char *state)
{
	char path[64], text[512], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	read_text(path, text, sizeof(text));
	at = strrchr(text, ')') + 2;
	*state = *at;
	for (int field = FIRST_FIELD; field < CPU_FIELD; field++)
		at = strchr(at, ' ') + 1;
	return atoi(at);
}

/* Donors count, as they are on a runqueue; the caller counts, too. */
static int queued_tasks(void)
{
	return file_number("/proc/stat", "\nprocs_running");
}

/* ---- The stage ---- */

#define OWNER	AY
#define DONOR	AX
#define DONOR_2	AXD

FIXTURE(proxy) {
	struct timetable t;
	struct caller *owner;
	struct caller *donor;
	struct caller *donor2;
};

static void set_up(struct timetable *t)
{
	cpus_use(2);
	pin_to(0);
	rt_limits_lift(&t->limits);
	set_policy(0, SCHED_FIFO, 50);
	tree_make();
	timetable_disk(t, LATENCY);
}

FIXTURE_SETUP(proxy)
{
	set_up(&self->t);
	self->owner = shared_memory(3 * sizeof(*self->owner));
	self->donor = self->owner + 1;
	self->donor2 = self->owner + 2;
}

FIXTURE_TEARDOWN(proxy)
{
	timetable_tear_down(&self->t);
}

/* It was blocked from its call on, and until the call returned. */
static bool asleep_while_blocked(const struct view *view, enum group g, const struct caller *c)
{
	double blocked = c->ended - c->began;

	ksft_print_msg("blocked for %.6f s, its cgroup had %.6f s\n", blocked / 1e9,
		       view->p[g].some[RES_CPU] / 1e9);
	return value_is("some", g, RES_CPU, 0, blocked * 0.03, view->p[g].some[RES_CPU]) &&
	       value_is("full", g, RES_CPU, 0, blocked * 0.03, view->p[g].full[RES_CPU]) &&
	       stall_is(view, g, RES_IO, 0, 0, 0) && stall_is(view, g, RES_MEMORY, 0, 0, 0);
}

/* ---- On the CPU of the owner ---- */

/* A file of holes. One of memfd_create() has no lock of its position. */
static int zeros(void)
{
	static const char path[] = "/tmp/psi_zeros";
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || unlink(path) || ftruncate(fd, (MOST_PARTS + 1) * PART))
		psi_die("%s: %s", path, strerror(errno));
	return fd;
}

/*
 *     owner   |holds the mutex           |spins, real-time     |
 *     donor     |blocks                  |has the mutex, waits |
 *     some                               |#####################|
 *
 * Once it is blocked its weight is next to nothing, so it is not picked before
 * the owner is a real-time task.
 */
TEST_F(proxy, donor_on_the_cpu_of_its_owner_sleeps_until_it_is_woken)
{
	struct caller *owner = self->owner, *donor = self->donor;
	struct timetable *t = &self->t;
	__u64 end = t->begin + 1200 * MSEC;
	double waited, blocked, slack;
	int queued;
	char state;

	*owner = (struct caller){ .fd = zeros(), .begin = t->begin, .zeros = 600 * MSEC,
				  .spin = end };
	*donor = (struct caller){ .fd = owner->fd, .begin = t->begin + 50 * MSEC };
	start(owner, OWNER);
	start(donor, DONOR);
	timetable_begin(t);
	sleep_until(t->begin + 150 * MSEC);
	set_policy(donor->pid, SCHED_IDLE, 0);
	cpu_of(donor->pid, &state);
	queued = queued_tasks();
	timetable_end(t, end);
	ASSERT_EQ('D', state);
	if (queued < 3)
		SKIP(return, NO_PROXY);
	ASSERT_LT(donor->began + 200 * MSEC, owner->ended);
	ASSERT_LT(owner->ended + 200 * MSEC, donor->ended);
	blocked = owner->ended - donor->began;
	waited = donor->ended - owner->ended;
	slack = SLACK + blocked * 0.03;
	ksft_print_msg("blocked for %.6f s, then waited for %.6f s\n", blocked / 1e9, waited / 1e9);
	EXPECT_TRUE(stall_is(&t->view, DONOR, RES_CPU, waited, waited, slack));
	EXPECT_TRUE(stall_is(&t->view, OWNER, RES_CPU, 0, 0, slack));
	EXPECT_TRUE(stall_is(&t->view, A, RES_CPU, waited, 0, slack));
	EXPECT_TRUE(tree_is_quiet());
}

/* The owner reads from a disk at the end: nobody can lend it anything then. */
TEST_F(proxy, donor_whose_owner_falls_asleep_leaves_the_runqueue)
{
	struct caller *owner = self->owner, *donor = self->donor;
	struct timetable *t = &self->t;
	int lends, queued;
	char state;

	*owner = (struct caller){ .fd = zeros(), .begin = t->begin, .zeros = 400 * MSEC,
				  .node = t->disk.node };
	*donor = (struct caller){ .fd = owner->fd, .begin = t->begin + 50 * MSEC };
	start(owner, OWNER);
	start(donor, DONOR);
	timetable_begin(t);
	sleep_until(t->begin + 100 * MSEC);
	lends = queued_tasks();
	do {
		sleep_for(10 * MSEC);
		cpu_of(owner->pid, &state);
	} while (state == 'R');
	sleep_for(LATENCY / 2);
	queued = queued_tasks();
	timetable_end(t, t->begin + 1200 * MSEC);
	if (lends < 3)
		SKIP(return, NO_PROXY);
	EXPECT_EQ(1, queued);
	ASSERT_LT(donor->began + LATENCY + 100 * MSEC, donor->ended);
	EXPECT_TRUE(asleep_while_blocked(&t->view, DONOR, donor));
	EXPECT_TRUE(stall_is(&t->view, OWNER, RES_IO, LATENCY, LATENCY, SLACK));
	EXPECT_TRUE(value_is("some", OWNER, RES_CPU, 0, 20 * MSEC,
			     t->view.p[OWNER].some[RES_CPU]));
	EXPECT_TRUE(tree_is_quiet());
}

/* ---- On another CPU ---- */

/*
 * Times after the begin of a timetable. The disk answers before the donor
 * reads.
 */
#define STARVE		(50 * MSEC)
#define BLOCK_AT	(300 * MSEC)
#define CHANGE		(1500 * MSEC)
#define LOOK		(1700 * MSEC)
#define RELEASE		(2100 * MSEC)

/*
 * As spin_span(). A virtual CPU that pauses lets the other one go on; else that
 * would be late, and its tasks would wait for so long.
 */
static void hog(void *arg)
{
	const struct span *span = arg;

	sleep_until(span->begin);
	while (now_ns() < span->end)
#if __has_builtin(__builtin_ia32_pause)
		__builtin_ia32_pause();
#else
		;
#endif
	sleep_forever();
}

static void start_hog_on(int cpu, const struct span *span)
{
	const struct load load = {
		.cpu = cpu,
		.policy = SCHED_FIFO,
		.prio = 20,
		.cgroup = STRANGER,
		.fn = hog,
		.arg = (void *)span,
	};

	load_start(&load);
}

/* From when the disk has answered, the owner waits for the hog. */
static bool owner_waits(const struct view *view, double end)
{
	double waited = end - LATENCY, slack = waited * 0.03;

	/* And nobody else does, nor runs: else there is less of full. */
	return stall_is(view, OWNER, RES_CPU, waited, waited, slack) &&
	       stall_is(view, A, RES_CPU, waited, waited, slack) &&
	       stall_is(view, OWNER, RES_IO, LATENCY, LATENCY, SLACK);
}

FIXTURE(away) {
	struct timetable t;
	struct caller *owner;
	struct caller *donor;
};

/* What happens to the donor while it is queued on the owner's CPU. */
FIXTURE_VARIANT(away) {
	void (*change)(pid_t donor);
	const char *path;
	int error;
};

static void nothing(pid_t donor)
{
}

static void renice(pid_t donor)
{
	set_policy(donor, SCHED_BATCH, 10);
}

/* Its CPU is not that of the owner: it goes there, and lends its turn again. */
static void repin(pid_t donor)
{
	int error = try_pin(donor, 0);

	if (error)
		psi_die("the donor cannot be bound: %s", strerror(error));
}

static void move(pid_t donor)
{
	cgroup_move(tree_path[DONOR_2], donor);
}

static void interrupt(pid_t donor)
{
	if (kill(donor, SIGUSR1))
		psi_die("kill: %s", strerror(errno));
}

FIXTURE_VARIANT_ADD(away, until_the_unlock) { nothing, "/proc/uptime" };
FIXTURE_VARIANT_ADD(away, with_another_priority) { renice, "/proc/uptime" };
FIXTURE_VARIANT_ADD(away, moved_to_its_own_cpu_and_away_again) { repin, "/proc/uptime" };
FIXTURE_VARIANT_ADD(away, in_another_cgroup) { move, "/proc/uptime" };
FIXTURE_VARIANT_ADD(away, until_a_signal) { interrupt, "/dev/kmsg", EINTR };

FIXTURE_SETUP(away)
{
	set_up(&self->t);
	self->owner = shared_memory(2 * sizeof(*self->owner));
	self->donor = self->owner + 1;
}

FIXTURE_TEARDOWN(away)
{
	timetable_tear_down(&self->t);
}

TEST_F(away, donor_migrates_to_its_owner_and_comes_back_asleep)
{
	struct caller *owner = self->owner, *donor = self->donor;
	struct timetable *t = &self->t;
	struct span away = { t->begin + STARVE, t->begin + RELEASE };
	__u64 until = t->begin + (variant->error ? CHANGE : RELEASE);
	int queued_on, looked_on;
	char state, state_then;

	*owner = (struct caller){ .cpu = 1, .fd = open_file(variant->path, O_RDONLY),
				  .begin = t->begin, .node = t->disk.node };
	*donor = (struct caller){ .fd = owner->fd, .begin = t->begin + BLOCK_AT };
	start(owner, OWNER);
	start(donor, DONOR);
	start_hog_on(1, &away);
	timetable_begin(t);
	sleep_until(t->begin + CHANGE);
	queued_on = cpu_of(donor->pid, &state);
	variant->change(donor->pid);
	sleep_until(t->begin + LOOK);
	looked_on = cpu_of(donor->pid, &state_then);
	timetable_end(t, away.end);
	if (queued_on == 0)
		SKIP(return, NO_PROXY);
	EXPECT_EQ(variant->error ? 'S' : 'D', state);
	if (variant->error)
		EXPECT_EQ(0, looked_on);
	EXPECT_EQ(variant->error, donor->error);
	EXPECT_EQ(0, donor->back_on);
	EXPECT_LE(until, donor->ended);
	EXPECT_GE(until + SLACK, donor->ended);
	EXPECT_TRUE(asleep_while_blocked(&t->view, DONOR, donor));
	EXPECT_TRUE(asleep_while_blocked(&t->view, DONOR_2, donor));
	EXPECT_TRUE(owner_waits(&t->view, RELEASE));
	EXPECT_TRUE(tree_is_quiet());
}

/* It was asleep until it came back, and waits for a hog from then on. */
TEST_F(proxy, donor_that_comes_back_waits_for_its_own_cpu)
{
	struct caller *owner = self->owner, *donor = self->donor;
	struct timetable *t = &self->t;
	struct span away = { t->begin + STARVE, t->begin + RELEASE };
	struct span home = { away.end - 100 * MSEC, away.end + 400 * MSEC };
	double waited, slack;
	int queued_on;
	char state;

	*owner = (struct caller){ .cpu = 1, .fd = open_file("/proc/uptime", O_RDONLY),
				  .begin = t->begin, .node = t->disk.node };
	*donor = (struct caller){ .fd = owner->fd, .begin = t->begin + BLOCK_AT };
	start(owner, OWNER);
	start(donor, DONOR);
	start_hog_on(1, &away);
	start_hog_on(0, &home);
	timetable_begin(t);
	sleep_until(t->begin + LOOK);
	queued_on = cpu_of(donor->pid, &state);
	timetable_end(t, home.end);
	if (queued_on == 0)
		SKIP(return, NO_PROXY);
	ASSERT_LE(home.end, donor->ended);
	waited = donor->ended - owner->ended;
	slack = SLACK + 0.03 * (owner->ended - donor->began);
	EXPECT_TRUE(stall_is(&t->view, DONOR, RES_CPU, waited, waited, slack));
	EXPECT_TRUE(tree_is_quiet());
}

/*
 * The second donor waits for the position of the file. The first has it, and
 * waits for the lock of the text, which the owner has.
 */
TEST_F(proxy, donor_of_a_donor_sleeps)
{
	struct caller *owner = self->owner, *donor = self->donor, *donor2 = self->donor2;
	struct timetable *t = &self->t;
	struct span away = { t->begin + STARVE, t->begin + RELEASE };
	char state[2];
	int cpu[2];

	*owner = (struct caller){ .cpu = 1, .fd = open_file("/proc/uptime", O_RDONLY),
				  .begin = t->begin, .node = t->disk.node, .apart = true };
	*donor = (struct caller){ .fd = owner->fd, .begin = t->begin + BLOCK_AT };
	*donor2 = (struct caller){ .fd = owner->fd, .begin = t->begin + BLOCK_AT + 100 * MSEC };
	start(owner, OWNER);
	start(donor, DONOR);
	start(donor2, DONOR_2);
	start_hog_on(1, &away);
	timetable_begin(t);
	sleep_until(t->begin + LOOK);
	cpu[0] = cpu_of(donor->pid, &state[0]);
	cpu[1] = cpu_of(donor2->pid, &state[1]);
	timetable_end(t, away.end);
	if (cpu[0] == 0)
		SKIP(return, NO_PROXY);
	EXPECT_EQ('D', state[0]);
	EXPECT_EQ('D', state[1]);
	EXPECT_EQ(1, cpu[1]);
	EXPECT_LE(away.end, donor->ended);
	EXPECT_LE(away.end, donor2->ended);
	EXPECT_EQ(0, donor->back_on);
	EXPECT_EQ(0, donor2->back_on);
	EXPECT_TRUE(asleep_while_blocked(&t->view, DONOR, donor));
	EXPECT_TRUE(asleep_while_blocked(&t->view, DONOR_2, donor2));
	EXPECT_TRUE(owner_waits(&t->view, RELEASE));
	EXPECT_TRUE(tree_is_quiet());
}

TEST_HARNESS_MAIN
