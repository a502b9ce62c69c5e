// SPDX-License-Identifier: GPL-2.0
/*
 * Triggers of a hostile user
 *
 * Invariant: any user may open a pressure file, and arm as many triggers as
 * user.max_psi_triggers allows. The memory is charged to the user's cgroup, and
 * other users notice nothing: their events and totals stay the same. So is what a
 * cgroup takes on each CPU that it uses.
 *
 * Bugs it would find: memory that is not charged, or stays after the last
 * close; a check that takes longer the more triggers there are, and delays
 * privileged triggers; an error path that frees an armed trigger; a race in
 * which two writers arm one file, or in which a writer meets the end of the
 * cgroup.
 *
 * The victim has two triggers, one privileged and one of an ordinary user. They
 * are on a cgroup of its own that stalls for 100 ms every second.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_fuzz.h"
#include "psi_leak.h"
#include "psi_stat.h"
#include "psi_storm.h"
#include "psi_switches.h"

#define HOSTILE		CGROUP_ROOT "/psi_hostile"
#define VICTIM		CGROUP_ROOT "/psi_victim"
#define VICTIM_IO	VICTIM "/io.pressure"
#define UNIT		(100 * NSEC_PER_MSEC)

static __u64 random_state = 88172645463325252ULL;

static __u64 random_below(__u64 limit)
{
	return random_u64(&random_state) % limit;
}

/* ---- Many ---- */

enum step { OPEN, ARM, COUNT, CLOSE };

/**
 * struct owner - a process with many descriptors
 * @text: that it arms them with, NULL: random texts
 * @nr: number of descriptors
 * @todo: a pipe: each byte is a step to do
 * @done: a pipe: a byte for each step that is done
 * @count: of the last step: descriptors armed, or descriptors with an event
 * @pid: the process
 */
struct owner {
	const char *text;
	int nr;
	int todo[2];
	int done[2];
	int count;
	pid_t pid;
};

static const char * const system_files[] = {
	PSI_IO, PSI_MEMORY, PSI_CPU, PSI_STAT, PSI_STAT, PSI_STAT
};

#define NR_FILES	((int)ARRAY_SIZE(system_files))

/* What a text for the statistics file begins with. */
static const char * const keys[] = {
	"cpu.", "io.exact.", "memory.exact.", "cpu.limit.", "io.limit.", "memory.shortage.",
	"io.shortage.",
};

#define NR_KEYS		((int)ARRAY_SIZE(keys))

/* The second half are statistics files, which this kernel may not have. */
static int nr_files(void)
{
	return psi_has_stat() ? NR_FILES : NR_FILES / 2;
}

static void owner_open(const struct owner *owner, int *fds)
{
	for (int i = 0; i < owner->nr; i++) {
		fds[i] = open(system_files[owner->text ? 0 : i % nr_files()], O_RDWR | O_CLOEXEC);
		if (fds[i] < 0)
			psi_die("descriptor %d: %s", i, strerror(errno));
	}
}

static int owner_arm(const struct owner *owner, const int *fds)
{
	char text[64];
	int nr = 0;

	for (int i = 0; i < owner->nr; i++) {
		__u64 window = (1 + random_below(5)) * 2000000;
		bool stat = i % nr_files() >= NR_FILES / 2;

		snprintf(text, sizeof(text), "%s%s %llu %llu",
			 stat ? keys[random_below(NR_KEYS)] : "",
			 random_below(2) ? "some" : "full", 1 + random_below(window), window);
		nr += !trigger_write(fds[i], owner->text ?: text,
				     strlen(owner->text ?: text) + 1);
	}
	return nr;
}

static int owner_events(const struct owner *owner, const int *fds)
{
	int nr = 0;

	for (int i = 0; i < owner->nr; i++)
		nr += poll_fd(fds[i], POLLPRI, 0) == POLLPRI;
	return nr;
}

static void owner_run(void *arg)
{
	struct owner *owner = arg;
	const struct rlimit limit = { owner->nr + 100, owner->nr + 100 };
	int *fds = calloc(owner->nr, sizeof(*fds));
	char step;

	if (!fds || setrlimit(RLIMIT_NOFILE, &limit) || setresuid(USER, USER, USER))
		psi_die("owner: %s", strerror(errno));
	while (read(owner->todo[0], &step, 1) == 1) {
		switch (step) {
		case OPEN:
			owner_open(owner, fds);
			break;
		case ARM:
			owner->count = owner_arm(owner, fds);
			break;
		case COUNT:
			owner->count = owner_events(owner, fds);
			break;
		case CLOSE:
			for (int i = 0; i < owner->nr; i++)
				close(fds[i]);
			break;
		}
		if (write(owner->done[1], &step, 1) != 1)
			psi_die("owner: %s", strerror(errno));
	}
}

#define PROCESSES	10
#define TRIGGERS_OF_USER	"/proc/sys/user/max_psi_triggers"

/* Lets each user have so many triggers. */
static void allow_triggers(int nr)
{
	char max[32];

	snprintf(max, sizeof(max), "%d", nr);
	write_file(TRIGGERS_OF_USER, max);
}

/* Starts all processes. They share the structs with the test. */
static struct owner *owners_start(int nr, const char *text)
{
	struct owner *owners = shared_memory(PROCESSES * sizeof(*owners));
	struct load load = { .cpu = -1, .cgroup = HOSTILE, .fn = owner_run };
	char max[32];

	snprintf(max, sizeof(max), "%d", nr + 10000);
	write_file("/proc/sys/fs/file-max", max);
	for (int i = 0; i < PROCESSES; i++) {
		struct owner *owner = &owners[i];

		owner->text = text;
		owner->nr = nr / PROCESSES;
		if (pipe(owner->todo) || pipe(owner->done))
			psi_die("pipe: %s", strerror(errno));
		load.arg = owner;
		owner->pid = load_start(&load);
	}
	return owners;
}

/* Makes all processes do one step. Returns the sum of their counts. */
static int owners_do(struct owner *owners, enum step step)
{
	char byte = step;
	int sum = 0;

	for (int i = 0; i < PROCESSES; i++)
		if (write(owners[i].todo[1], &byte, 1) != 1)
			psi_die("owner %d: %s", i, strerror(errno));
	for (int i = 0; i < PROCESSES; i++) {
		if (read(owners[i].done[0], &byte, 1) != 1)
			psi_die("owner %d is dead", i);
		sum += owners[i].count;
	}
	return sum;
}

static void owners_stop(struct owner *owners)
{
	for (int i = 0; i < PROCESSES; i++) {
		load_stop(owners[i].pid);
		close(owners[i].todo[0]);
		close(owners[i].todo[1]);
		close(owners[i].done[0]);
		close(owners[i].done[1]);
	}
	munmap(owners, PROCESSES * sizeof(*owners));
}

/* Bytes of kernel memory charged to the hostile cgroup. */
static long long charged(void)
{
	/* Charges are cached per CPU, and flushed every 2 s. */
	sleep_for(5 * NSEC_PER_SEC);
	return file_number(HOSTILE "/memory.stat", "\nkernel ");
}

/* ---- The victim ---- */

/**
 * struct victim - what the victim observed
 * @privileged: events of its privileged trigger
 * @user: events of its other trigger
 * @total: growth of io some, in ns
 * @late: longest time from the end of a stall to the privileged event
 */
struct victim {
	int privileged;
	int user;
	__u64 total;
	__u64 late;
};

#define VICTIM_SECONDS	20

/* A stall reaches the threshold shortly before its end, once in each window. */
static struct victim victim_watch(const struct stalls *stalls)
{
	int fd = trigger_arm(VICTIM_IO, "some 90000 500000");
	int user = trigger_arm_user(VICTIM_IO, "some 90000 2000000");
	struct victim victim = {};
	__u64 next = now_ns();

	victim.total = psi_some_ns(VICTIM_IO);
	for (int i = 0; i < VICTIM_SECONDS; i++) {
		__u64 end, late;

		stall(stalls);
		end = now_ns();
		if (trigger_fired(fd, 500)) {
			victim.privileged++;
			late = now_ns() - end;
			victim.late = late > victim.late ? late : victim.late;
		}
		next += NSEC_PER_SEC;
		victim.user += trigger_count(user, next);
	}
	victim.total = psi_some_ns(VICTIM_IO) - victim.total;
	victim.user += trigger_fired(user, 2500);
	close(fd);
	close(user);
	return victim;
}

FIXTURE(user) {
	struct stalls stalls;
	int allowed;
	struct victim alone;
};

FIXTURE_SETUP(user)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	stalls_create(&self->stalls, "psi_hostile", UNIT);
	cgroup_create(HOSTILE, "+io +memory");
	self->allowed = file_number(TRIGGERS_OF_USER, "");
	group_enter(VICTIM);
	self->alone = victim_watch(&self->stalls);
}

FIXTURE_TEARDOWN(user)
{
	group_leave();
	cgroup_remove(VICTIM);
	cgroup_remove(HOSTILE);
	allow_triggers(self->allowed);
	stalls_remove(&self->stalls);
	cpus_use(cpus_possible());
}

static void expect_unharmed(struct __test_metadata *_metadata, const struct victim *alone,
			    const struct victim *now)
{
	ksft_print_msg("victim alone: %d and %d events, %.6f s, late %.6f s\n", alone->privileged,
		       alone->user, alone->total / 1e9, alone->late / 1e9);
	ksft_print_msg("victim now:   %d and %d events, %.6f s, late %.6f s\n", now->privileged,
		       now->user, now->total / 1e9, now->late / 1e9);
	EXPECT_EQ(VICTIM_SECONDS, alone->privileged);
	EXPECT_EQ(alone->privileged, now->privileged);
	/* The quiet time of 2 s may end just before or just after a stall. */
	EXPECT_LE(alone->user - 1, now->user);
	EXPECT_GE(alone->user + 1, now->user);
	EXPECT_GE(alone->total + alone->total / 100, now->total);
	EXPECT_LE(alone->total - alone->total / 100, now->total);
	/* Checks are 50 ms apart. */
	EXPECT_GE(60 * NSEC_PER_MSEC, now->late);
}

/* ---- Ten thousand ---- */

#define MANY	10000
#define MOST	100000

TEST_F_TIMEOUT(user, with_10_000_triggers_pays_for_them, 600)
{
	struct owner *owners = owners_start(MANY, "some 50000 2000000");
	long long empty, open, armed, closed;

	empty = charged();
	allow_triggers(MANY);
	owners_do(owners, OPEN);
	open = charged();
	EXPECT_EQ(MANY, owners_do(owners, ARM));
	armed = charged();
	owners_do(owners, CLOSE);
	closed = charged();
	ksft_print_msg("kernel memory: %lld empty, %lld open, %lld armed, %lld closed\n", empty,
		       open, armed, closed);
	report_row("memory of a trigger charged to its owner, bytes", "%lld",
		   (armed - open) / MANY);
	EXPECT_LE(MANY * 64, armed - open);
	/*
	 * Slab caches keep some pages, and the processes their descriptor
	 * tables.
	 */
	EXPECT_GE(empty + (armed - empty) / 4, closed);
	owners_stop(owners);
}

TEST_F_TIMEOUT(user, with_10_000_triggers_gets_all_events, 600)
{
	struct owner *owners = owners_start(MANY, "some 50000 2000000");

	allow_triggers(MANY);
	owners_do(owners, OPEN);
	EXPECT_EQ(MANY, owners_do(owners, ARM));
	EXPECT_EQ(0, owners_do(owners, COUNT));
	for (int i = 0; i < 3; i++) {
		stall(&self->stalls);
		sleep_for(3 * NSEC_PER_SEC);
		EXPECT_EQ(MANY, owners_do(owners, COUNT));
		EXPECT_EQ(0, owners_do(owners, COUNT));
	}
	owners_stop(owners);
}

TEST_F_TIMEOUT(user, with_100_000_triggers_harms_nobody, 150)
{
	struct owner *owners = owners_start(MOST, NULL);
	struct victim victim;
	int armed;

	allow_triggers(MOST + 1);
	owners_do(owners, OPEN);
	armed = owners_do(owners, ARM);
	EXPECT_EQ(MOST, armed);
	victim = victim_watch(&self->stalls);
	expect_unharmed(_metadata, &self->alone, &victim);
	owners_stop(owners);
}

/* ---- As many as a user may have ---- */

#define OTHER_USER	(USER - 1)
#define USER_WINDOW	(2 * NSEC_PER_SEC)
#define ROUNDS_LATE	20

static int trigger_open_other(const char *path)
{
	int fd;

	if (seteuid(OTHER_USER))
		psi_die("seteuid: %s", strerror(errno));
	fd = open_file(path, O_RDWR | O_NONBLOCK);
	if (seteuid(0))
		psi_die("seteuid: %s", strerror(errno));
	return fd;
}

static int trigger_set_other(const char *path)
{
	int fd = trigger_open_other(path), error = trigger_set(fd, "some 90000 2000000");

	close(fd);
	return error;
}

/* The limit is for each user, whatever file: others may go on, and root. */
TEST_F_TIMEOUT(user, has_its_number_of_triggers_and_others_have_theirs, 150)
{
	struct owner *owners = owners_start(MANY, NULL);
	int fd = trigger_open_user(VICTIM_IO);

	owners_do(owners, OPEN);
	EXPECT_EQ(self->allowed, owners_do(owners, ARM));
	EXPECT_EQ(ENOSPC, trigger_set(fd, "some 90000 2000000"));
	EXPECT_EQ(0, trigger_set_other(PSI_IO));
	close(trigger_arm(PSI_IO, "some 90000 2000000"));
	/* What is refused is not counted, and the next write may be right. */
	allow_triggers(self->allowed + 1);
	EXPECT_EQ(EINVAL, trigger_set(fd, "some 2000001 2000000"));
	EXPECT_EQ(0, trigger_set(fd, "some 90000 2000000"));
	EXPECT_EQ(EBUSY, trigger_set(fd, "some 90000 2000000"));
	close(fd);
	owners_do(owners, CLOSE);
	allow_triggers(1);
	for (int i = 0; i < 3; i++)
		close(trigger_arm_user(PSI_IO, "some 90000 2000000"));
	owners_stop(owners);
}

/* A process of the user in a user namespace, as another user of it. */
struct inside {
	int ready[2];
	int go[2];
	int error;
};

static void arm_inside(void *arg)
{
	struct inside *inside = arg;
	char byte = 0;

	if (setresuid(USER, USER, USER) || unshare(CLONE_NEWUSER) ||
	    write(inside->ready[1], &byte, 1) != 1 || read(inside->go[0], &byte, 1) != 1 ||
	    setresuid(1, 1, 1))
		psi_die("user namespace: %s", strerror(errno));
	inside->error = trigger_set(open_file(PSI_IO, O_RDWR), "some 90000 2000000");
}

/* Returns the error of that process when it arms a trigger. */
static int error_inside(void)
{
	struct inside *inside = shared_memory(sizeof(*inside));
	const struct load load = { .cpu = -1, .fn = arm_inside, .arg = inside };
	char path[64], byte = 0;
	pid_t pid;
	int error;

	if (pipe(inside->ready) || pipe(inside->go))
		psi_die("pipe: %s", strerror(errno));
	pid = load_start(&load);
	if (read(inside->ready[0], &byte, 1) != 1)
		psi_die("no user namespace");
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	write_file(path, "0 65534 1\n1 1000 1\n");
	if (write(inside->go[1], &byte, 1) != 1)
		psi_die("pipe: %s", strerror(errno));
	load_wait(pid);
	error = inside->error;
	for (int i = 0; i < 2; i++) {
		close(inside->ready[i]);
		close(inside->go[i]);
	}
	munmap(inside, sizeof(*inside));
	return error;
}

/* Else each ID that the user may map there would have as many again. */
TEST_F_TIMEOUT(user, counts_for_itself_in_its_user_namespace, 150)
{
	int fd = trigger_arm_user(PSI_IO, "some 90000 2000000");

	allow_triggers(1);
	EXPECT_EQ(ENOSPC, error_inside());
	close(fd);
	EXPECT_EQ(0, error_inside());
}

/* ---- Whoever stops in the middle ---- */

#define MAKER		CGROUP_ROOT "/psi_maker"

static void make_and_remove(void *arg)
{
	(void)arg;
	for (;;) {
		mkdir(MAKER "/x", 0755);
		rmdir(MAKER "/x");
	}
}

/*
 * The bandwidth of a task runs out while it makes a cgroup: for most of a second
 * it keeps what it has locked. No event waits for that.
 */
TEST_F_TIMEOUT(user, who_stops_in_mkdir_delays_no_event, 150)
{
	const struct load load = { .cpu = 0, .cgroup = MAKER, .fn = make_and_remove };
	struct victim victim;
	pid_t pid;

	cgroup_create(MAKER, "+cpu");
	write_file(MAKER "/cpu.max", "1000 1000000");
	pid = load_start(&load);
	sleep_for(3 * NSEC_PER_SEC);
	victim = victim_watch(&self->stalls);
	expect_unharmed(_metadata, &self->alone, &victim);
	write_file(MAKER "/cpu.max", "max");
	load_stop(pid);
	cgroup_remove(MAKER);
}

static void arm_and_stop(void *arg)
{
	(void)arg;
	if (setresuid(USER, USER, USER))
		psi_die("setresuid: %s", strerror(errno));
	for (;;)
		close(trigger_arm(PSI_IO, "some 90000 2000000"));
}

/*
 * The bandwidth of a user runs out while it arms a trigger or closes one, where
 * the kernel can be preempted. For most of a second it would keep what it has
 * locked. Others arm at once, and their events come.
 */
TEST_F_TIMEOUT(user, who_stops_while_arming_delays_nobody, 150)
{
	const struct load load = { .cpu = 0, .cgroup = MAKER, .fn = arm_and_stop };
	int fd = trigger_open_other(PSI_IO);
	__u64 begin, took, most = 0;
	int events = 0;
	pid_t pid;

	cgroup_create(MAKER, "+cpu");
	write_file(MAKER "/cpu.max", "1000 1000000");
	pid = load_start(&load);
	EXPECT_EQ(0, trigger_set(fd, "some 90000 2000000"));
	for (int i = 0; i < VICTIM_SECONDS; i++) {
		sleep_for(137 * NSEC_PER_MSEC);
		begin = now_ns();
		EXPECT_EQ(0, trigger_set_other(PSI_IO));
		took = now_ns() - begin;
		most = took > most ? took : most;
		if (i % 4)
			continue;
		/* After the quiet time of the last event. */
		sleep_for(2 * NSEC_PER_SEC);
		stall(&self->stalls);
		begin = now_ns();
		events += trigger_fired(fd, 2000);
		took = now_ns() - begin;
		most = took > most ? took : most;
	}
	ksft_print_msg("%d events; armed, or woken up, after %.6f s at most\n", events,
		       most / 1e9);
	EXPECT_EQ(VICTIM_SECONDS / 4, events);
	/* Checks are 200 ms apart. */
	EXPECT_GE(210 * NSEC_PER_MSEC, most);
	write_file(MAKER "/cpu.max", "max");
	load_stop(pid);
	cgroup_remove(MAKER);
	close(fd);
}

/* ---- How late is an event beside all triggers that another user may have? ---- */

FIXTURE(delay) {
	struct stalls stalls;
};

FIXTURE_SETUP(delay)
{
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	stalls_create(&self->stalls, "psi_hostile", UNIT);
	cgroup_create(HOSTILE, "+io");
	group_enter(VICTIM);
}

FIXTURE_TEARDOWN(delay)
{
	group_leave();
	cgroup_remove(VICTIM);
	cgroup_remove(HOSTILE);
	stalls_remove(&self->stalls);
	cpus_use(cpus_possible());
}

static int by_size(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

/*
 * How long after a multiple of a step the victim learns of its events. Its
 * trigger is of another user, on a file that the hostile user may arm too. Now
 * and then something else has the CPU for a millisecond, with these triggers or
 * without: the two latest events do not count.
 */
static __u64 victim_phase(const struct stalls *stalls, const char *path, __u64 origin)
{
	int fd = trigger_open_other(path);
	__u64 phases[ROUNDS_LATE], next;

	if (trigger_set(fd, "some 90000 2000000"))
		psi_die("the victim cannot arm");
	next = now_ns();
	for (int i = 0; i < ROUNDS_LATE; i++) {
		stall(stalls);
		if (!trigger_fired(fd, 500))
			psi_die("stall %d: no event", i);
		phases[i] = (now_ns() - origin) % (USER_WINDOW / 10);
		next += USER_WINDOW + 313 * NSEC_PER_MSEC;
		sleep_until(next);
	}
	close(fd);
	qsort(phases, ROUNDS_LATE, sizeof(phases[0]), by_size);
	return phases[ROUNDS_LATE - 3];
}

/* On a machine that takes 1 ns for an instruction. */
TEST_F_TIMEOUT(delay, by_all_triggers_of_another_user_is_below_a_millisecond, 600)
{
	__u64 origin, alone, late;
	struct owner *owners;

	origin = victim_phase(&self->stalls, PSI_IO, 0) - 5 * NSEC_PER_MSEC;
	alone = victim_phase(&self->stalls, PSI_IO, origin);
	owners = owners_start(MANY, "some 1 2000000");
	owners_do(owners, OPEN);
	owners_do(owners, ARM);
	late = victim_phase(&self->stalls, PSI_IO, origin);
	owners_stop(owners);
	late = late > alone ? late - alone : 0;
	report_row("delay by all triggers of another user, us", "%.0f", late / 1e3);
	EXPECT_GE(NSEC_PER_MSEC, late);
}

#define NR_POLLERS	20000

/* An epoll takes each copy of a descriptor for another one. */
static void poll_many_times(void *arg)
{
	const struct rlimit limit = { NR_POLLERS + 100, NR_POLLERS + 100 };
	struct epoll_event event = { .events = EPOLLPRI };
	int epoll = epoll_create1(EPOLL_CLOEXEC), fd;
	bool *ready = arg;

	if (epoll < 0 || setrlimit(RLIMIT_NOFILE, &limit) || setresuid(USER, USER, USER))
		psi_die("pollers: %s", strerror(errno));
	/* As that of the victim. */
	fd = trigger_arm(PSI_IO, "some 90000 2000000");
	for (int i = 0; i < NR_POLLERS; i++)
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, dup(fd), &event))
			psi_die("poller %d: %s", i, strerror(errno));
	__atomic_store_n(ready, true, __ATOMIC_RELAXED);
	while (epoll_wait(epoll, &event, 1, -1) >= 0)
		;
}

/*
 * Red without a bound: an event of the user wakes all pollers before it is the
 * victim's turn.
 */
TEST_F_TIMEOUT(delay, by_all_pollers_of_another_user_is_below_a_millisecond, 600)
{
	bool *ready = shared_memory(sizeof(*ready));
	const struct load load = { .cgroup = HOSTILE, .fn = poll_many_times, .arg = ready };
	__u64 origin, alone, late;
	pid_t pid;

	origin = victim_phase(&self->stalls, PSI_IO, 0) - 5 * NSEC_PER_MSEC;
	alone = victim_phase(&self->stalls, PSI_IO, origin);
	pid = load_start(&load);
	while (!__atomic_load_n(ready, __ATOMIC_RELAXED))
		sleep_for(10 * NSEC_PER_MSEC);
	late = victim_phase(&self->stalls, PSI_IO, origin);
	load_stop(pid);
	late = late > alone ? late - alone : 0;
	report_row("delay by 20,000 pollers of another user, us", "%.0f", late / 1e3);
	EXPECT_GE(NSEC_PER_MSEC / 10, late);
}

/* A task at the bottom of each chain stalls all cgroups of it. */
#define CHAINS		32
#define DEPTH		32

/**
 * struct chain - a task that reads at the bottom of nested cgroups
 * @path: the cgroup
 * @disk: which answers after some time
 * @origin: it begins a read when the clock says this, and so many periods more;
 *	    0: when the last read is over
 */
struct chain {
	char path[256];
	const struct slow_disk *disk;
	__u64 origin;
};

/* The cgroup rests between two reads. */
#define CHAIN_PERIOD	(3 * USER_WINDOW / 10)

static void read_in_chain(void *arg)
{
	const struct chain *chain = arg;
	int fd = open(chain->disk->node, O_RDONLY | O_DIRECT | O_CLOEXEC);
	void *buf = aligned_alloc(4096, 4096);

	for (;;) {
		__u64 now = now_ns();

		if (chain->origin)
			sleep_until(now + CHAIN_PERIOD - (now - chain->origin) % CHAIN_PERIOD);
		if (!buf || pread(fd, buf, 4096, 0) != 4096)
			psi_die("%s: %s", chain->path, strerror(errno));
	}
}

/* Arms a trigger of the user in each cgroup, if @fds. */
static void chain_create(struct chain *chain, int nr, int *fds)
{
	char *end = chain->path + sprintf(chain->path, HOSTILE "/%d", nr), file[300];

	for (int i = 0; i < DEPTH; i++) {
		end = stpcpy(end, i ? "/d" : "");
		cgroup_create(chain->path, "");
		snprintf(file, sizeof(file), "%s/io.pressure", chain->path);
		if (chown(file, USER, USER))
			psi_die("%s: %s", file, strerror(errno));
		if (fds)
			fds[i] = trigger_arm_user(file, "some 1 2000000");
	}
}

/*
 * The victim's phase beside these tasks, and triggers in their cgroups if
 * @armed. They begin to stall @early before the victim learns of its event, or
 * stall all the time.
 */
static __u64 phase_beside_chains(const struct stalls *stalls, const struct slow_disk *disk,
				 __u64 origin, __u64 early, bool armed)
{
	const struct rlimit limit = { CHAINS * DEPTH + 200, CHAINS * DEPTH + 200 };
	struct chain *chains = shared_memory(CHAINS * sizeof(*chains));
	int *fds = calloc(CHAINS * DEPTH, sizeof(*fds));
	__u64 phase;

	if (!fds || setrlimit(RLIMIT_NOFILE, &limit))
		psi_die("chains: %s", strerror(errno));
	for (int i = 0; i < CHAINS; i++) {
		struct load load = {
			.cgroup = chains[i].path, .fn = read_in_chain, .arg = &chains[i],
		};

		chains[i].disk = disk;
		chains[i].origin = early ? origin + 5 * NSEC_PER_MSEC - early : 0;
		chain_create(&chains[i], i, armed ? fds + i * DEPTH : NULL);
		load_start(&load);
	}
	phase = victim_phase(stalls, VICTIM_IO, origin);
	for (int i = 0; armed && i < CHAINS * DEPTH; i++)
		close(fds[i]);
	free(fds);
	cgroup_remove(HOSTILE);
	while (waitpid(-1, NULL, 0) > 0)
		;
	cgroup_create(HOSTILE, "");
	munmap(chains, CHAINS * sizeof(*chains));
	return phase;
}

static __u64 delay_by_chains(const struct stalls *stalls, const struct slow_disk *disk,
			     __u64 early)
{
	__u64 origin, alone, late;

	if (chmod(VICTIM_IO, 0666))
		psi_die("%s: %s", VICTIM_IO, strerror(errno));
	origin = victim_phase(stalls, VICTIM_IO, 0) - 5 * NSEC_PER_MSEC;
	alone = phase_beside_chains(stalls, disk, origin, early, false);
	late = phase_beside_chains(stalls, disk, origin, early, true);
	ksft_print_msg("alone %.6f s, with triggers %.6f s\n", alone / 1e9, late / 1e9);
	return late > alone ? late - alone : 0;
}

/* Red without a bound: they all are due at the same moment as the victim's. */
TEST_F_TIMEOUT(delay, by_a_trigger_in_each_of_1024_cgroups_is_below_a_millisecond, 600)
{
	struct slow_disk disk;
	__u64 late;

	slow_disk_create(&disk, "psi_chains", 2 * NSEC_PER_SEC, 64);
	late = delay_by_chains(&self->stalls, &disk, 0);
	slow_disk_remove(&disk);
	report_row("delay by a trigger in each of 1,024 cgroups, us", "%.0f", late / 1e3);
	EXPECT_GE(NSEC_PER_MSEC, late);
}

/* Red without a bound: all alarms come just before the victim's is due. */
TEST_F_TIMEOUT(delay, by_1024_cgroups_that_begin_to_stall_at_once_is_below_a_millisecond, 600)
{
	__u64 late = delay_by_chains(&self->stalls, &self->stalls.disk, 4 * NSEC_PER_MSEC);

	report_row("delay by 1,024 cgroups that begin to stall at once, us", "%.0f", late / 1e3);
	EXPECT_GE(NSEC_PER_MSEC, late);
}

/* ---- Again and again ---- */

#define ROUNDS		5000

static void arm_and_close(void *arg)
{
	(void)arg;
	if (setresuid(USER, USER, USER))
		psi_die("setresuid: %s", strerror(errno));
	for (int i = 0; i < ROUNDS; i++)
		close(trigger_arm(PSI_CPU, "some 1999999 2000000"));
}

/*
 * The stall never ends, and the monitor checks the privileged trigger every 200
 * ms.
 */
TEST_F_TIMEOUT(user, who_arms_and_closes_does_not_wake_the_real_time_monitor, 150)
{
	const struct load load = { .cpu = 0, .fn = arm_and_close };
	pid_t spinners[2];
	int fd = trigger_arm(PSI_CPU, "some 1999999 2000000");
	__u64 begin, switches;
	double looks;

	spin_pair_start(spinners, NULL);
	sleep_for(5 * NSEC_PER_SEC);
	begin = now_ns();
	switches = rt_monitor_switches();
	load_wait(load_start(&load));
	switches = rt_monitor_switches() - switches;
	looks = (now_ns() - begin) / (200.0 * NSEC_PER_MSEC);
	ksft_print_msg("%llu switches of the real-time monitor, %.1f times it was due\n", switches,
		       looks);
	/* The interval may cut off the first and the last check. */
	EXPECT_LE(looks - 2, switches);
	EXPECT_GE(looks + 2, switches);
	close(fd);
	spin_pair_stop(spinners);
}

#define CROWD		CGROUP_ROOT "/psi_crowd"

/* The end of the cgroup wakes each waiter once, not once for each trigger. */
TEST_F_TIMEOUT(user, cgroup_with_10_000_waiters_is_removed_at_once, 150)
{
	const struct rlimit limit = { MANY + 100, MANY + 100 };
	struct epoll_event event = { .events = EPOLLPRI };
	int epoll = epoll_create1(EPOLL_CLOEXEC), nr = 0;
	int *fds = calloc(MANY, sizeof(*fds));
	__u64 gone;

	ASSERT_NE(NULL, fds);
	ASSERT_LE(0, epoll);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	cgroup_create(CROWD, "");
	for (int i = 0; i < MANY; i++) {
		fds[i] = trigger_arm(CROWD "/io.pressure", "some 90000 2000000");
		ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event));
	}
	ASSERT_EQ(0, epoll_wait(epoll, &event, 1, 0));
	gone = now_ns();
	cgroup_remove(CROWD);
	gone = now_ns() - gone;
	for (; epoll_wait(epoll, &event, 1, 0) == 1 && nr < MANY; nr++)
		EXPECT_EQ(EPOLLERR | EPOLLPRI, event.events);
	ksft_print_msg("removed in %.6f s, epoll reported %d descriptors\n", gone / 1e9, nr);
	EXPECT_EQ(MANY, nr);
	EXPECT_GE(NSEC_PER_SEC / 2, gone);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	close(epoll);
	free(fds);
}

/* ---- Many windows ---- */

/*
 * Each window has a sampler of its own, and all of them have work to do: the
 * cgroup that they watch stalls, rests, and stalls again. Its share of the
 * real-time monitor is an eighth, and it keeps the monitor for 0.5 ms and one
 * sample at most, before others have their turn.
 *
 *	crowd	stall 100 ms, pause 150 ms, stall 100 ms, ...
 *	victim	stall 100 ms every second, sampled every 50 ms
 *
 * A sample of the victim is due at a multiple of 50 ms on the clock of the
 * kernel. So its events show how late samples are, next to those of the same
 * victim alone.
 */
#define WINDOWS		5000
#define TURN		(500 * NSEC_PER_USEC)
/* A sample, the victim's own look, and its way to the victim. */
#define GO		(100 * NSEC_PER_USEC)
#define STEP		(50 * NSEC_PER_MSEC)
#define EVENTS		40

static void stall_and_pause(void *arg)
{
	for (;;) {
		stall(arg);
		sleep_for(150 * NSEC_PER_MSEC);
	}
}

/*
 * When the victim learns of each event, within a step from @origin; 0 for an
 * event that comes before the end of its stall.
 */
static void victim_times(const struct stalls *stalls, __u64 origin, __u64 *times)
{
	int fd = trigger_arm(VICTIM_IO, "some 90000 500000");
	__u64 next = now_ns();

	for (int i = 0; i < EVENTS; i++) {
		stall(stalls);
		times[i] = 0;
		if (!trigger_fired(fd, 0)) {
			if (!trigger_fired(fd, 500))
				psi_die("stall %d: no event", i);
			times[i] = (now_ns() - origin) % STEP;
		}
		/* No stall begins at the same point of a step, or of the crowd. */
		next += NSEC_PER_SEC + 7 * NSEC_PER_MSEC;
		sleep_until(next);
	}
	close(fd);
}

static __u64 most_of(const __u64 *times)
{
	__u64 most = 0;

	for (int i = 0; i < EVENTS; i++)
		most = times[i] > most ? times[i] : most;
	return most;
}

TEST_F_TIMEOUT(user, with_5_000_windows_delays_others_for_a_turn, 150)
{
	const struct load load = { .cgroup = CROWD, .fn = stall_and_pause, .arg = &self->stalls };
	const struct rlimit limit = { WINDOWS + 100, WINDOWS + 100 };
	__u64 times[EVENTS], origin, alone, late, begin, ran;
	int *fds = calloc(WINDOWS, sizeof(*fds));
	double share;
	pid_t pid;

	ASSERT_NE(NULL, fds);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	/* Any event of the victim alone, less a margin, is the origin. */
	victim_times(&self->stalls, 0, times);
	origin = most_of(times) + STEP - 5 * NSEC_PER_MSEC;
	victim_times(&self->stalls, origin, times);
	alone = most_of(times);

	cgroup_create(CROWD, "");
	for (int i = 0; i < WINDOWS; i++)
		fds[i] = trigger_arm(CROWD "/io.pressure", "some 50000 %d", 500000 + i);
	pid = load_start(&load);
	begin = now_ns();
	ran = rt_monitor_ran_ns();
	victim_times(&self->stalls, origin, times);
	ran = rt_monitor_ran_ns() - ran;
	share = 100.0 * ran / (now_ns() - begin);
	late = most_of(times);
	late = late > alone ? late - alone : 0;
	ksft_print_msg("the monitor ran for %.2f %% of the time\n", share);
	report_row("delay by 5,000 windows of another cgroup, us", "%.0f", late / 1e3);
	load_stop(pid);
	for (int i = 0; i < WINDOWS; i++)
		close(fds[i]);
	free(fds);
	cgroup_remove(CROWD);

	EXPECT_GE(TURN + GO, late);
	/* The victim has a little. */
	EXPECT_GE(13.0, share);
}

/* ---- No memory ---- */

#define WITHOUT_MEMORY	2000

/**
 * struct oom_writer - a process that arms in a cgroup without free memory
 * @killable: the OOM killer may take it
 * @armed: number of writes that succeeded
 * @refused: number of writes that failed with ENOMEM
 * @other: another error
 * @later: of the refused ones, how many succeeded once there was memory
 */
struct oom_writer {
	bool killable;
	int armed;
	int refused;
	int other;
	int later;
};

static void arm_without_memory(void *arg)
{
	const struct rlimit limit = { WITHOUT_MEMORY + 100, WITHOUT_MEMORY + 100 };
	static bool refused[WITHOUT_MEMORY];
	static int fds[WITHOUT_MEMORY];
	struct oom_writer *writer = arg;
	char now[32];
	int limit_fd;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		psi_die("setrlimit: %s", strerror(errno));
	if (!writer->killable)
		write_file("/proc/self/oom_score_adj", "-1000");
	for (int i = 0; i < WITHOUT_MEMORY; i++)
		fds[i] = trigger_open(PSI_IO);
	/* Lock all pages, so that only the write can need memory. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		psi_die("mlockall: %s", strerror(errno));
	read_text(HOSTILE "/memory.current", now, sizeof(now));
	limit_fd = open(HOSTILE "/memory.max", O_WRONLY | O_CLOEXEC);
	if (limit_fd < 0 || write(limit_fd, now, strlen(now)) < 0)
		psi_die("memory.max: %s", strerror(errno));
	for (int i = 0; i < WITHOUT_MEMORY; i++) {
		int error = trigger_set(fds[i], "some 50000 2000000\n");

		refused[i] = error == ENOMEM;
		writer->armed += !error;
		writer->refused += error == ENOMEM;
		if (error && error != ENOMEM)
			writer->other = error;
		if (refused[i] && writer->refused == 20)
			break;
	}
	if (write(limit_fd, "max", 3) != 3)
		psi_die("memory.max: %s", strerror(errno));
	for (int i = 0; i < writer->armed + writer->refused; i++)
		if (refused[i])
			writer->later += !trigger_set(fds[i], "some 50000 2000000\n");
}

static void check_writer(struct __test_metadata *_metadata, const struct stalls *stalls,
			 const struct victim *alone, struct oom_writer *writer)
{
	const struct load load = { .cgroup = HOSTILE, .fn = arm_without_memory, .arg = writer };
	struct victim victim;
	int status;
	pid_t pid;

	pid = load_start(&load);
	victim = victim_watch(stalls);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ksft_print_msg("%d armed, %d refused, %d armed later; wait status %#x\n", writer->armed,
		       writer->refused, writer->later, status);
	if (!writer->killable || !WIFSIGNALED(status)) {
		EXPECT_EQ(0, status);
		EXPECT_LT(0, writer->refused);
		EXPECT_EQ(writer->refused, writer->later);
	} else {
		EXPECT_EQ(SIGKILL, WTERMSIG(status));
	}
	EXPECT_EQ(0, writer->other);
	expect_unharmed(_metadata, alone, &victim);
}

/* A writer without memory gets ENOMEM, or its cgroup's OOM killer. */
TEST_F_TIMEOUT(user, without_memory_is_refused_or_killed, 150)
{
	struct oom_writer *writer = shared_memory(sizeof(*writer));

	writer->killable = true;
	check_writer(_metadata, &self->stalls, &self->alone, writer);
}

TEST_F_TIMEOUT(user, without_memory_gets_enomem_if_it_cannot_be_killed, 150)
{
	struct oom_writer *writer = shared_memory(sizeof(*writer));

	check_writer(_metadata, &self->stalls, &self->alone, writer);
}

/* ---- Bytes at random ---- */

/* @size leaves room for insertions. */
static size_t random_text(char *text, size_t size, bool stat)
{
	static const char bytes[] = "somefull0123456789 0123456789 \t\n\r-+x.";
	size_t len;

	if (!random_below(4)) {
		len = random_below(size);
		for (size_t i = 0; i < len; i++)
			text[i] = random_below(2) ? (char)random_below(256) :
				  bytes[random_below(sizeof(bytes))];
		return len;
	}
	/* A good text, with some bytes changed, inserted or removed. */
	len = snprintf(text, size, "%s%s %llu %llu", stat ? keys[random_below(NR_KEYS)] : "",
		       random_below(2) ? "some" : "full", random_below(600000),
		       400000 + random_below(10000000));
	len += random_below(2);
	for (int changes = random_below(3); changes; changes--) {
		size_t at = random_below(len);

		switch (random_below(3)) {
		case 0:
			text[at] = bytes[random_below(sizeof(bytes))];
			break;
		case 1:
			memmove(text + at + 1, text + at, len - at);
			text[at] = bytes[random_below(sizeof(bytes))];
			len++;
			break;
		default:
			memmove(text + at, text + at + 1, len - at - 1);
			len--;
		}
	}
	return len;
}

FIXTURE(bytes) {
};

FIXTURE_VARIANT(bytes) {
	bool stat;
	const char *paths[2];
};

FIXTURE_VARIANT_ADD(bytes, at_random) {
	.paths = { PSI_IO, HOSTILE "/io.pressure" },
};

FIXTURE_VARIANT_ADD(bytes, at_random_with_keys) {
	.stat = true,
	.paths = { PSI_STAT, HOSTILE CGROUP_STAT },
};

FIXTURE_SETUP(bytes)
{
	if (variant->stat && !psi_has_stat())
		SKIP(return, NO_STAT);
	cgroup_create(HOSTILE, "+io");
}

FIXTURE_TEARDOWN(bytes)
{
	cgroup_remove(HOSTILE);
}

TEST_F_TIMEOUT(bytes, arm_only_when_well_formed, 600)
{
	int armed = 0, refused = 0, wrong = 0;
	char text[200];

	for (int i = 0; i < 10000; i++) {
		size_t len = random_text(text, sizeof(text) - 10, variant->stat);
		struct meaning meaning;
		bool good = text_means(text, len, variant->stat, &meaning);
		int fd = trigger_open(variant->paths[i % 2]);
		ssize_t done = write(fd, text, len);
		bool alive = !(poll_fd(fd, POLLPRI, 0) & POLLERR);

		if (len && done != (ssize_t)len && (done != -1 || errno != EINVAL))
			wrong++;
		if (len && alive != !(done < 0))
			wrong++;
		if (len && alive != good && ++wrong < 10)
			ksft_print_msg("\"%s\" (%zu bytes) is %s\n", text_quote(text, len), len,
				       alive ? "armed" : "refused");
		if (alive)
			armed++;
		else
			refused++;
		close(fd);
	}
	ksft_print_msg("%d armed, %d refused\n", armed, refused);
	EXPECT_EQ(0, wrong);
	EXPECT_LT(100, armed);
	EXPECT_LT(100, refused);
}

/* ---- Signals ---- */

static void do_nothing(int sig)
{
}

/* Signals hit every system call of the loop sooner or later. */
static void arm_under_signals(void *arg)
{
	const struct sigaction action = { .sa_handler = do_nothing };
	const struct itimerval timer = { { 0, 1000 }, { 0, 1000 } };

	if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &timer, NULL))
		psi_die("signals: %s", strerror(errno));
	for (;;) {
		int fd = open(PSI_IO, O_RDWR | O_CLOEXEC);
		struct pollfd pfd = { .fd = fd, .events = POLLPRI };
		int error;

		if (fd < 0)
			continue;
		error = trigger_set(fd, "some 1000 2000000");
		if (error && error != EINTR)
			psi_die("write: %s", strerror(error));
		if (!error && poll(&pfd, 1, random_below(10)) >= 0 && (pfd.revents & POLLERR))
			psi_die("an armed trigger is gone");
		close(fd);
	}
}

TEST_F_TIMEOUT(user, who_is_interrupted_all_the_time_harms_nobody, 600)
{
	const struct load load = { .cgroup = HOSTILE, .fn = arm_under_signals };
	pid_t pid[4];
	struct victim victim;

	for (int i = 0; i < 4; i++)
		pid[i] = load_start(&load);
	victim = victim_watch(&self->stalls);
	expect_unharmed(_metadata, &self->alone, &victim);
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(0, waitpid(pid[i], NULL, WNOHANG));
		load_stop(pid[i]);
	}
}

/* ---- Races: on CPUs that run in parallel ---- */

#define RACE_TIME	(2 * NSEC_PER_SEC)
/* A race goes on longer where a busy host has it do less. */
#define RACE_ROUNDS	20

/**
 * struct race - two threads that operate on a file at the same time
 * @fn: the operation; @nr is the number of the thread
 * @path: of the file
 * @fd: the descriptor of this round
 * @rounds: number of rounds so far
 * @result: of each thread
 * @barrier: both threads wait here before and after the operation
 * @over: the second thread ends
 */
struct race {
	int (*fn)(struct race *race, int nr);
	const char *path;
	int fd;
	int rounds;
	int result[2];
	pthread_barrier_t barrier;
	bool over;
};

static void *race_second(void *arg)
{
	struct race *race = arg;

	for (;;) {
		pthread_barrier_wait(&race->barrier);
		if (race->over)
			return NULL;
		race->result[1] = race->fn(race, 1);
		pthread_barrier_wait(&race->barrier);
	}
}

/* @judge sees the result of every round; false ends the race. */
static void race_run(struct race *race, bool (*judge)(struct race *race))
{
	__u64 end = now_ns() + storm_time(RACE_TIME);
	pthread_t second;
	bool good = true;

	pthread_barrier_init(&race->barrier, NULL, 2);
	if (pthread_create(&second, NULL, race_second, race))
		psi_die("pthread_create: %s", strerror(errno));
	while (good && (now_ns() < end || race->rounds < RACE_ROUNDS)) {
		race->fd = trigger_open(race->path);
		pthread_barrier_wait(&race->barrier);
		race->result[0] = race->fn(race, 0);
		pthread_barrier_wait(&race->barrier);
		good = judge(race);
		race->rounds += good;
		close(race->fd);
	}
	race->over = true;
	pthread_barrier_wait(&race->barrier);
	pthread_join(second, NULL);
	pthread_barrier_destroy(&race->barrier);
}

FIXTURE(race) {
	pid_t spinner[2];
};

FIXTURE_VARIANT(race) {
	const char *path;
};

FIXTURE_VARIANT_ADD(race, on_a_file_of_the_system) { .path = PSI_CPU };
FIXTURE_VARIANT_ADD(race, on_a_file_of_a_cgroup) { .path = HOSTILE "/cpu.pressure" };

FIXTURE_SETUP(race)
{
	cpus_use(cpus_possible());
	cgroup_create(HOSTILE, "+io");
	/* The spinners stall, and the threads of the race have priority. */
	set_policy(0, SCHED_FIFO, 40);
	spin_pair_start(self->spinner, HOSTILE);
}

/* The checks need the stalls of the spinners. */
FIXTURE_TEARDOWN(race)
{
	EXPECT_EQ(NULL, find_trigger());
	EXPECT_EQ(NULL, find_excess());
	spin_pair_stop(self->spinner);
	cgroup_remove(HOSTILE);
}

static int race_arm(struct race *race, int nr)
{
	return trigger_set(race->fd, nr ? "some 50000 1000000\n" : "full 1 500000\n");
}

static bool one_won(struct race *race)
{
	return (race->result[0] == 0 && race->result[1] == EBUSY) ||
	       (race->result[1] == 0 && race->result[0] == EBUSY);
}

TEST_F_TIMEOUT(race, of_two_writers_has_one_winner, STORM_TIMEOUT)
{
	struct race race = { .fn = race_arm, .path = variant->path };

	race_run(&race, one_won);
	ksft_print_msg("%d rounds; %d and %d in the last one\n", race.rounds, race.result[0],
		       race.result[1]);
	EXPECT_TRUE(one_won(&race));
}

static int race_arm_and_poll(struct race *race, int nr)
{
	short revents;

	if (nr)
		return trigger_set(race->fd, "some 1 500000\n");
	revents = poll_fd(race->fd, POLLPRI, 0);
	/* The poll came before the write, or after it. */
	return revents == (POLLERR | POLLPRI) || revents == POLLPRI || !revents ? 0 : revents;
}

static bool both_won(struct race *race)
{
	return !race->result[0] && !race->result[1];
}

TEST_F_TIMEOUT(race, of_a_writer_and_a_poller_breaks_nothing, STORM_TIMEOUT)
{
	struct race race = { .fn = race_arm_and_poll, .path = variant->path };

	race_run(&race, both_won);
	ksft_print_msg("%d rounds\n", race.rounds);
	EXPECT_TRUE(both_won(&race));
}

#define DYING	HOSTILE "/dying"

/**
 * struct arming - threads that use a file while its cgroup comes and goes
 * @over: they end
 * @wrong: an error that no call may return
 * @armed: number of writes that succeeded
 * @backwards: number of totals that were less than an earlier one
 */
struct arming {
	bool over;
	int wrong;
	int armed;
	int backwards;
};

static void *arm_while_it_ends(void *arg)
{
	struct arming *arming = arg;
	char buf[512];

	/* The test, which creates and removes the cgroup, has priority. */
	set_policy(0, SCHED_OTHER, 0);
	while (!__atomic_load_n(&arming->over, __ATOMIC_RELAXED)) {
		int error, fd = open(DYING "/cpu.pressure", O_RDWR | O_CLOEXEC);

		if (fd < 0) {
			if (errno != ENOENT && errno != ENODEV)
				arming->wrong = errno;
			continue;
		}
		error = trigger_set(fd, "some 1 500000\n");
		if (error && error != ENODEV)
			arming->wrong = error;
		__atomic_fetch_add(&arming->armed, !error, __ATOMIC_RELAXED);
		if (pread(fd, buf, sizeof(buf), 0) < 0 && errno != ENODEV)
			arming->wrong = errno;
		poll_fd(fd, POLLPRI, random_below(3));
		/*
		 * The file has a trigger, or is dead, and a dead file stays
		 * dead.
		 */
		for (int i = random_below(100); i; i--) {
			bool dead = error == ENODEV;

			poll_fd(fd, POLLPRI, 0);
			error = trigger_set(fd, "some 1 500000\n");
			if (error != ENODEV && (dead || error != EBUSY))
				arming->wrong = error ?: -1;
		}
		close(fd);
	}
	return NULL;
}

/* Reads a file until it is dead, and another one. */
static void *read_while_it_ends(void *arg)
{
	struct arming *arming = arg;
	struct psi psi, last;
	char buf[512];
	ssize_t len;
	int fd;

	set_policy(0, SCHED_OTHER, 0);
	while (!__atomic_load_n(&arming->over, __ATOMIC_RELAXED)) {
		fd = open(DYING "/cpu.pressure", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		memset(&last, 0, sizeof(last));
		for (;;) {
			len = pread(fd, buf, sizeof(buf), 0);
			if (len < 0 || __atomic_load_n(&arming->over, __ATOMIC_RELAXED))
				break;
			if (psi_parse(buf, len, &psi))
				arming->wrong = -1;
			arming->backwards += psi.some.total < last.some.total ||
					     psi.full.total < last.full.total;
			last = psi;
		}
		close(fd);
	}
	return NULL;
}

static void move_to(const char *cgroup, const pid_t *pid)
{
	for (int i = 0; i < 2; i++)
		cgroup_move(cgroup, pid[i]);
}

/*
 * Creates and removes the cgroup, or switches it off and on, while it stalls.
 */
static void end_and_renew(bool remove, const pid_t *pid)
{
	if (remove) {
		if (mkdir(DYING, 0755))
			psi_die("mkdir: %s", strerror(errno));
		move_to(DYING, pid);
		sleep_for(2 * NSEC_PER_MSEC);
		move_to(HOSTILE, pid);
		if (rmdir(DYING))
			psi_die("rmdir: %s", strerror(errno));
		return;
	}
	cgroup_write(DYING, "cgroup.pressure", "0");
	/*
	 * In half of the rounds the cgroup is on again before any thread has
	 * seen it off.
	 */
	sleep_for(random_below(2) * NSEC_PER_MSEC);
	cgroup_write(DYING, "cgroup.pressure", "1");
	sleep_for(NSEC_PER_MSEC);
}

static void check_dying(struct __test_metadata *_metadata, bool remove, const pid_t *pid)
{
	struct arming arming = {};
	__u64 end = now_ns() + storm_time(RACE_TIME);
	pthread_t thread[4];
	int rounds = 0, armed;

	if (!remove) {
		cgroup_create(DYING, "");
		move_to(DYING, pid);
	}
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, arm_while_it_ends, &arming));
	ASSERT_EQ(0, pthread_create(&thread[3], NULL, read_while_it_ends, &arming));
	do {
		end_and_renew(remove, pid);
		armed = __atomic_load_n(&arming.armed, __ATOMIC_RELAXED);
		rounds++;
	} while (now_ns() < end || rounds < RACE_ROUNDS || armed < RACE_ROUNDS);
	__atomic_store_n(&arming.over, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	if (!remove) {
		move_to(HOSTILE, pid);
		cgroup_remove(DYING);
	}
	ksft_print_msg("%d rounds, %d armed\n", rounds, arming.armed);
	EXPECT_EQ(0, arming.wrong);
	EXPECT_EQ(0, arming.backwards);
}

TEST_F_TIMEOUT(race, with_the_removal_of_the_cgroup_breaks_nothing, STORM_TIMEOUT)
{
	check_dying(_metadata, true, self->spinner);
}

TEST_F_TIMEOUT(race, with_the_switch_of_the_cgroup_breaks_nothing, STORM_TIMEOUT)
{
	check_dying(_metadata, false, self->spinner);
}

/* ---- A neighbour that does all of this at once ---- */

/*
 * Invariant: whatever a neighbour does with cgroups, limits, triggers and files
 * of his, the victim's events come, its cgroups are made in time, it wakes up in
 * time and has its share of the CPU.
 */
#define NEIGHBOUR	CGROUP_ROOT "/psi_neighbour"
#define SPINNER		CGROUP_ROOT "/psi_spinner"
#define LIMITED		NEIGHBOUR "/limited"
#define NEST		NEIGHBOUR "/nest"
#define NR_LIMITED	200
#define NR_NESTED	20
#define LATE_MKDIR	(100 * NSEC_PER_MSEC)

static void run_always(void *arg)
{
	(void)arg;
	for (;;)
		;
}

/*
 * They run out of bandwidth every 2 ms. They begin together: else the first ones
 * leave no time to fork the others.
 */
static void run_limited(void *arg)
{
	__u64 begin = now_ns() + 3 * NSEC_PER_SEC;

	cgroup_write(LIMITED, "cpu.max", "1000 2000");
	for (int i = 1; i < NR_LIMITED; i++)
		if (!fork_or_die())
			break;
	sleep_until(begin);
	run_always(arg);
}

static void run_toggle(void *arg)
{
	(void)arg;
	for (int i = 0;; i++) {
		cgroup_write(LIMITED, "cgroup.pressure", i % 2 ? "1" : "0");
		sleep_for(20 * NSEC_PER_MSEC);
	}
}

/* A task wakes up at the bottom of cgroups that are new on this CPU. */
static void run_nest(void *arg)
{
	char path[NR_NESTED + 1][256] = { NEST };
	char pid[16];

	(void)arg;
	snprintf(pid, sizeof(pid), "%d", getpid());
	for (;;) {
		for (int i = 1; i <= NR_NESTED; i++) {
			snprintf(path[i], sizeof(path[i]), "%s/%d", path[i - 1], i);
			mkdir(path[i], 0755);
		}
		cgroup_write(path[NR_NESTED], "cgroup.procs", pid);
		sleep_for(5 * NSEC_PER_MSEC);
		cgroup_write(NEST, "cgroup.procs", pid);
		for (int i = NR_NESTED; i; i--)
			rmdir(path[i]);
	}
}

/* All triggers that a user may have, which fire; one more again and again. */
static void run_triggers(void *arg)
{
	const struct rlimit limit = { MANY, MANY };
	int fd, error = 0;

	(void)arg;
	if (setrlimit(RLIMIT_NOFILE, &limit) || setresuid(USER, USER, USER))
		psi_die("triggers: %s", strerror(errno));
	while (!error)
		error = trigger_set(open_file(PSI_CPU, O_RDWR), "some 1 2000000");
	for (;;) {
		fd = open_file(PSI_STAT, O_RDWR);
		trigger_set(fd, "cpu.exact.some 1 2000000");
		close(fd);
	}
}

static void run_readers(void *arg)
{
	static const char * const names[] = {
		PSI_STAT, LIMITED CGROUP_STAT, NEIGHBOUR CGROUP_STAT, LIMITED "/cpu.pressure",
	};
	char buf[8192];

	(void)arg;
	for (int i = 0;; i++) {
		int fd = open(names[i % ARRAY_SIZE(names)], O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue;
		if (read(fd, buf, sizeof(buf)) < 0 && errno != ENODEV)
			psi_die("%s: %s", names[i % ARRAY_SIZE(names)], strerror(errno));
		close(fd);
	}
}

static const struct load neighbours[] = {
	{ .cpu = 0, .cgroup = LIMITED, .fn = run_limited },
	{ .cpu = 0, .cgroup = NEIGHBOUR "/other", .fn = run_toggle },
	{ .cpu = 0, .cgroup = NEST, .fn = run_nest },
	{ .cpu = 0, .cgroup = NEIGHBOUR "/other", .fn = run_triggers },
	{ .cpu = 0, .cgroup = NEIGHBOUR "/other", .fn = run_readers },
};

/**
 * struct service - what a victim gets
 * @events: of its trigger, of @stalls
 * @stalls: how often it stalled
 * @wakeup: the longest time from a timer to its wake-up, ns
 * @made: cgroups that it made and removed
 * @mkdir: the mean time of that, ns
 * @mkdir_most: the longest
 * @mkdir_late: how many took longer than LATE_MKDIR
 * @share: of the CPU that its spinner got, in percent
 */
struct service {
	int events;
	int stalls;
	__u64 wakeup;
	int made;
	__u64 mkdir;
	__u64 mkdir_most;
	int mkdir_late;
	double share;
};

FIXTURE(neighbour) {
	struct stalls stalls;
	pid_t spinner;
};

FIXTURE_SETUP(neighbour)
{
	const struct load load = { .cpu = 0, .cgroup = SPINNER, .fn = run_always };

	cpus_use(1);
	stalls_create(&self->stalls, "psi_neighbour", UNIT);
	group_enter(VICTIM);
	cgroup_create(SPINNER, "+cpu");
	self->spinner = load_start(&load);
	set_policy(0, SCHED_FIFO, 50);
}

FIXTURE_TEARDOWN(neighbour)
{
	set_policy(0, SCHED_OTHER, 0);
	load_stop(self->spinner);
	group_leave();
	cgroup_remove(SPINNER);
	cgroup_remove(VICTIM);
	stalls_remove(&self->stalls);
	cpus_use(cpus_possible());
}

static struct service serve(const struct stalls *stalls, __u64 length)
{
	int fd = trigger_arm(VICTIM_IO, "some 90000 500000");
	__u64 begin = now_ns(), used, next = begin, late;
	struct service got = {};

	used = file_number(SPINNER "/cpu.stat", "usage_usec ");
	while (now_ns() < begin + length) {
		stall(stalls);
		got.stalls++;
		got.events += trigger_fired(fd, 60);
		for (int i = 0; i < 40; i++) {
			next = now_ns() + 10 * NSEC_PER_MSEC;
			sleep_until(next);
			late = now_ns() - next;
			got.wakeup = late > got.wakeup ? late : got.wakeup;
		}
		for (int i = 0; i < 10; i++, got.made++) {
			sleep_for(20 * NSEC_PER_MSEC);
			late = now_ns();
			if (mkdir(VICTIM "/x", 0755) || rmdir(VICTIM "/x"))
				psi_die("mkdir: %s", strerror(errno));
			late = now_ns() - late;
			got.mkdir += late;
			got.mkdir_most = late > got.mkdir_most ? late : got.mkdir_most;
			got.mkdir_late += late > LATE_MKDIR;
		}
	}
	got.mkdir /= got.made;
	used = file_number(SPINNER "/cpu.stat", "usage_usec ") - used;
	got.share = used * 100.0 * NSEC_PER_USEC / (now_ns() - begin);
	close(fd);
	return got;
}

static void service_print(const char *when, const struct service *got)
{
	ksft_print_msg("%s: %d of %d events, wake-up %.6f s, %.1f %% of the CPU\n", when,
		       got->events, got->stalls, got->wakeup / 1e9, got->share);
	ksft_print_msg("%s: mkdir %.6f s, at most %.6f s, late %d of %d times\n", when,
		       got->mkdir / 1e9, got->mkdir_most / 1e9, got->mkdir_late, got->made);
}

TEST_F_TIMEOUT(neighbour, harms_nobody, STORM_TIMEOUT)
{
	pid_t pids[ARRAY_SIZE(neighbours)];
	struct service alone, now;

	alone = serve(&self->stalls, 10 * NSEC_PER_SEC);
	service_print("alone", &alone);
	cgroup_create(NEIGHBOUR, "+cpu");
	cgroup_write(NEIGHBOUR, "cgroup.subtree_control", "+cpu");
	cgroup_create(LIMITED, "");
	cgroup_create(NEST, "");
	cgroup_create(NEIGHBOUR "/other", "");
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = load_start(&neighbours[i]);
	sleep_for(5 * NSEC_PER_SEC);
	now = serve(&self->stalls, storm_time(20 * NSEC_PER_SEC));
	service_print("beside a neighbour", &now);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		load_stop(pids[i]);
	cgroup_remove(NEIGHBOUR);

	EXPECT_EQ(alone.stalls, alone.events);
	EXPECT_EQ(now.stalls, now.events);
	EXPECT_GE(alone.wakeup + NSEC_PER_MSEC, now.wakeup);
	/*
	 * The tasks of one that holds cgroup_mutex wait for their slice. The
	 * longest of 250 waits is chance: it is six times the mean or so, and
	 * each mean more makes it 2.7 times as rare.
	 */
	EXPECT_GE(alone.mkdir + 20 * NSEC_PER_MSEC, now.mkdir);
	EXPECT_GE(now.made / 100, now.mkdir_late);
	EXPECT_GE(alone.mkdir_most + 200 * NSEC_PER_MSEC, now.mkdir_most);
	/* Two groups of the same weight, and kernel threads. */
	EXPECT_LE(45.0, now.share);
}

/* ---- Monitors ---- */

/* The lowest real-time priority: a program with a higher one comes first. */
TEST(monitors_have_their_priorities)
{
	static const struct {
		const char *name;
		int policy, priority;
	} threads[] = {
		{ "psi", SCHED_OTHER, 0 },
		{ "psi_watch", SCHED_OTHER, 0 },
		{ "psi_watch_rt", SCHED_FIFO, 1 },
	};
	struct sched_param param;
	pid_t pid;

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, kernel_threads(threads[i].name, &pid, 1));
		EXPECT_EQ(threads[i].policy, sched_getscheduler(pid));
		ASSERT_EQ(0, sched_getparam(pid, &param));
		EXPECT_EQ(threads[i].priority, param.sched_priority);
	}
}

/* ---- Cells ---- */

/* Of the 300 bytes that a cell may take, so many at least. */
#define CELL		200
#define NR_GROUPS	100

/* A cell is taken from a reserve that nobody pays for. */
TEST(charge_of_a_cgroup_is_for_each_cpu_that_it_uses)
{
	int cpus = cpus_possible(), fd[NR_GROUPS];
	char path[64];
	long long was;

	cgroup_create(HOSTILE, "+memory");
	for (int i = 0; i < NR_GROUPS; i++) {
		snprintf(path, sizeof(path), HOSTILE "/g%d", i);
		cgroup_create(path, "");
		strcat(path, "/cgroup.procs");
		/* Now: inodes are charged, too. */
		fd[i] = open_file(path, O_WRONLY);
	}
	was = charged();
	for (int i = 0; i < NR_GROUPS; i++) {
		if (write(fd[i], "0", 1) != 1)
			psi_die("group %d: %s", i, strerror(errno));
		close(fd[i]);
		for (int cpu = 0; cpu < cpus; cpu++) {
			pin_to(cpu);
			sleep_for(NSEC_PER_MSEC);
		}
	}
	group_leave();
	was = charged() - was;
	ksft_print_msg("%lld bytes for %d cgroups on %d CPUs\n", was, NR_GROUPS, cpus);
	EXPECT_LE(NR_GROUPS * cpus * CELL, was);
	cgroup_remove(HOSTILE);
}

/* What a group has for those who ask, and for each CPU of that; and a trigger with its window. */
#define ASKED		6600
#define ASKED_CPU	225
#define TRIGGER		730
#define TRIGGER_CPU	10

TEST(charge_of_a_cgroup_is_for_what_it_asks_about)
{
	int cpus = cpus_possible(), stat[NR_GROUPS], io[NR_GROUPS];
	char path[64], text[32];
	long long was, asked, armed;

	if (!psi_has_stat())
		SKIP(return, "this kernel has no statistics file");
	cgroup_create(HOSTILE, "+memory");
	cgroup_create(HOSTILE "/self", "");
	cgroup_write(HOSTILE "/self", "cgroup.procs", "0");
	for (int i = 0; i < NR_GROUPS; i++) {
		snprintf(path, sizeof(path), HOSTILE "/g%d", i);
		cgroup_create(path, "");
		/* Now: inodes are charged, too. */
		strcat(path, CGROUP_STAT);
		stat[i] = open_file(path, O_RDONLY);
		snprintf(path, sizeof(path), HOSTILE "/g%d/io.pressure", i);
		io[i] = trigger_open(path);
	}
	was = charged();
	for (int i = 0; i < NR_GROUPS; i++)
		ASSERT_LT(0, pread(stat[i], text, sizeof(text), 0));
	asked = charged();
	for (int i = 0; i < NR_GROUPS; i++)
		ASSERT_EQ(0, trigger_set(io[i], "some 100000 2000000"));
	armed = charged();
	ksft_print_msg("%lld bytes to ask about %d cgroups on %d CPUs, %lld for triggers\n",
		       asked - was, NR_GROUPS, cpus, armed - asked);
	EXPECT_LE(NR_GROUPS * (ASKED + cpus * ASKED_CPU), asked - was);
	EXPECT_LE(NR_GROUPS * (TRIGGER + cpus * TRIGGER_CPU), armed - asked);
	for (int i = 0; i < NR_GROUPS; i++) {
		close(stat[i]);
		close(io[i]);
	}
	group_leave();
	cgroup_remove(HOSTILE);
}

/* For eleven causes, 23 numbers each. */
#define CAUSES		2024
#define NR_STALLED	20
/* Above memory.high by so little that no task sleeps for it. */
#define BALLAST		(32 << 20)
#define ABOVE		(512 << 10)

/* The memory comes where the first stall ends. */
TEST(charge_of_a_cgroup_is_for_the_causes_of_its_stalls)
{
	char path[64], text[32], *ballast;
	long long was;

	if (!psi_has_stat())
		SKIP(return, "this kernel knows of no causes");
	cgroup_create(HOSTILE, "+memory");
	pin_to(0);
	/* Their cells and inodes come with the first task. */
	for (int i = 0; i < NR_STALLED; i++) {
		snprintf(path, sizeof(path), HOSTILE "/g%d", i);
		cgroup_create(path, "");
		cgroup_write(path, "cgroup.procs", "0");
		sleep_for(NSEC_PER_MSEC);
	}
	ballast = private_memory(BALLAST + ABOVE);
	memset(ballast, 1, BALLAST);
	was = charged();
	snprintf(text, sizeof(text), "%lld", (long long)file_number(HOSTILE "/memory.current", ""));
	cgroup_write(HOSTILE, "memory.high", text);
	for (int i = 0; i < NR_STALLED; i++) {
		snprintf(path, sizeof(path), HOSTILE "/g%d", i);
		cgroup_write(path, "cgroup.procs", "0");
		memset(ballast + BALLAST, 1, ABOVE);
		madvise(ballast + BALLAST, ABOVE, MADV_DONTNEED);
		strcat(path, CGROUP_STAT);
		EXPECT_LE(1, file_number(path, "\nmemory.cause.high count="));
	}
	cgroup_write(HOSTILE, "memory.high", "max");
	was = charged() - was;
	group_leave();
	ksft_print_msg("%lld bytes for the causes of %d cgroups\n", was, NR_STALLED);
	EXPECT_LE(NR_STALLED * CAUSES, was);
	munmap(ballast, BALLAST + ABOVE);
	cgroup_remove(HOSTILE);
}

TEST_HARNESS_MAIN
