// SPDX-License-Identifier: GPL-2.0
/*
 * Thousands of triggers in as many cgroups that come and go
 *
 * A trigger in each cgroup, all in one epoll. Then for each cgroup, by its number:
 *
 *	0 mod 20	a task stalls for longer than the threshold: one event
 *	10 mod 20	a task stalls for less: none
 *	the others	nothing happens: none
 *
 * And cgroups come and go, in rounds: of a number at random, a third are removed with
 * their trigger armed (the waiter is told: POLLERR), a third have their trigger closed,
 * all are made and armed again, and some of them stall at once.
 *
 * A stall is a read from a disk that takes 5 ms: a timer of the guest makes that time, so
 * it is exact. The task that reads is alone on its CPU, and is in its cgroup from the fork
 * on. So the schedule of stalls is known, and with it each event: no tolerance but for the
 * time in which an event must come, two steps of a tenth of a window.
 */
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "psi_switches.h"
#include "scale.h"

#define LATENCY		(5 * NSEC_PER_MSEC)
#define WINDOW		(NSEC_PER_SEC)
#define THRESHOLD	(50 * NSEC_PER_MSEC)
#define ENOUGH		12	/* reads: 60 ms */
#define TOO_FEW		4
#define EVERY		20
#define ROUNDS		10
#define IN_TIME		(2 * WINDOW / 10)
#define TOGETHER	24	/* tasks that stall at a time */
#define MAX_CGROUPS	20000

/**
 * struct watched - a cgroup with its trigger, in shared memory
 * @fd: the trigger
 * @due: how many events must come
 * @stalled: for how long a task stalled there at most, in ns; it writes it
 * @reached: when the stall reached the threshold, in ns; its task writes it
 * @events: that came
 * @gone: the waiter was told that its cgroup is gone
 */
struct watched {
	int fd;
	unsigned int due;
	__u64 stalled;
	__u64 reached;
	unsigned int events;
	bool gone;
};

static struct watched *watched;
static int nr_watched, epoll, cpus;
static struct stalls stalls;
/* Of all incarnations of all cgroups. */
static long due, came, unexpected, undecided, armed, told, not_told;
/* How late an event came at most; the longest stall without one. */
static __u64 latest, silent;

/* Those that stall wait for io, the others for this and that. */
static void arm(int nr)
{
	static const char * const files[] = { "cpu.pressure", "memory.pressure", "io.pressure" };
	struct epoll_event event = { .events = EPOLLPRI | EPOLLET, .data.u32 = nr };
	const char *file = files[nr % (EVERY / 2) ? nr % 3 : RES_IO];

	watched[nr] = (struct watched){
		.fd = trigger_arm(path_of(nr, file), "some %llu %llu", THRESHOLD / NSEC_PER_USEC,
				  WINDOW / NSEC_PER_USEC),
	};
	armed++;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, watched[nr].fd, &event))
		psi_die("epoll_ctl: %s", strerror(errno));
}

static void make(int nr)
{
	group_make(nr);
	arm(nr);
}

/* No more events of this trigger: were there as many as due? */
static void disarm(int nr)
{
	struct watched *w = &watched[nr];

	close(w->fd);
	if (!w->due && w->stalled >= THRESHOLD) {
		undecided++;
		return;
	}
	if (!w->due && w->stalled > silent)
		silent = w->stalled;
	if (w->events != w->due)
		ksft_print_msg("cgroup %d: %u events, %u due, stalled for %.3f ms\n", nr, w->events,
			       w->due, (double)w->stalled / NSEC_PER_MSEC);
	unexpected += w->events > w->due ? w->events - w->due : 0;
	due += w->due;
	came += w->events;
}

static void take_event(const struct epoll_event *event)
{
	struct watched *w = &watched[event->data.u32];
	__u64 reached = __atomic_load_n(&w->reached, __ATOMIC_RELAXED), now = now_ns();

	if (event->events & EPOLLERR) {
		w->gone = true;
		told++;
		return;
	}
	w->events++;
	if (reached && now - reached > latest)
		latest = now - reached;
}

/* Takes what is there, and what comes for so long. */
static void collect(__u64 ns)
{
	struct epoll_event events[64];
	__u64 end = now_ns() + ns, now;
	int nr;

	do {
		now = now_ns();
		nr = epoll_wait(epoll, events, ARRAY_SIZE(events),
				now < end ? (end - now) / NSEC_PER_MSEC + 1 : 0);
		if (nr < 0)
			psi_die("epoll_wait: %s", strerror(errno));
		for (int i = 0; i < nr; i++)
			take_event(&events[i]);
	} while (nr == ARRAY_SIZE(events) || now_ns() < end);
}

/* A task in the cgroup reads so often. */
static void stall_in(int nr, int reads)
{
	watched[nr].due += reads == ENOUGH;
	if (group_fork(nr))
		return;
	/* The test is on CPU 0. */
	pin_to(1 + nr / EVERY % (cpus - 1));
	for (int i = 0; i < reads; i++) {
		__u64 begin = now_ns();

		stall(&stalls);
		watched[nr].stalled += now_ns() - begin;
		if (reads == ENOUGH && i == (THRESHOLD - 1) / LATENCY)
			__atomic_store_n(&watched[nr].reached, now_ns(), __ATOMIC_RELAXED);
	}
	_exit(0);
}

/* Those of some cgroups that are made for it stall, a few at a time. */
static void stall_all(const int *nr, int count)
{
	int tasks = 0;

	for (int i = 0; i < count; i++) {
		if (nr[i] % (EVERY / 2))
			continue;
		stall_in(nr[i], nr[i] % EVERY ? TOO_FEW : ENOUGH);
		tasks++;
		while (tasks % TOGETHER == 0 && waitpid(-1, NULL, WNOHANG) >= 0)
			collect(5 * NSEC_PER_MSEC);
	}
	while (waitpid(-1, NULL, WNOHANG) >= 0)
		collect(5 * NSEC_PER_MSEC);
	collect(2 * IN_TIME);
}

/* Puts that many at random before the others. */
static void choose(int *nr, int count)
{
	static __u64 state = 88172645463325252ULL;

	for (int i = 0; i < count; i++) {
		int other = i + random_u64(&state) % (nr_watched - i), one = nr[other];

		nr[other] = nr[i];
		nr[i] = one;
	}
}

static void come_and_go(const int *nr, int count)
{
	for (int i = 0; i < count; i++) {
		if (i % 3)
			disarm(nr[i]);
		if (i % 3 != 1 && rmdir(path_of(nr[i], "")))
			psi_die("%s: %s", path_of(nr[i], ""), strerror(errno));
	}
	collect(10 * NSEC_PER_MSEC);
	for (int i = 0; i < count; i++) {
		if (i % 3 == 1) {
			arm(nr[i]);
			continue;
		}
		if (i % 3 == 0) {
			not_told += !watched[nr[i]].gone;
			disarm(nr[i]);
		}
		make(nr[i]);
	}
}

/* The threads that serve triggers do not wake up while nothing happens. */
static void expect_silence(void)
{
	__u64 before;

	collect(3 * WINDOW);
	before = monitor_switches();
	sleep_for(3 * WINDOW);
	before = monitor_switches() - before;
	expect(!before, "the threads that serve triggers woke up %llu times in 3 s", before);
}

static void set_up(void)
{
	struct rlimit files = { .rlim_cur = MAX_CGROUPS + 100, .rlim_max = MAX_CGROUPS + 100 };

	if (setrlimit(RLIMIT_NOFILE, &files))
		psi_die("setrlimit: %s", strerror(errno));
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		psi_die("epoll: %s", strerror(errno));
	cpus = cpus_possible();
	cpus_use(cpus);
	pin_to(0);
	watched = shared_memory(MAX_CGROUPS * sizeof(*watched));
	stalls_create(&stalls, "psi_scale", LATENCY);
	cgroup_create(TOP, "");
}

int main(int argc, char **argv)
{
	static int nr[MAX_CGROUPS];
	int count;

	nr_watched = scale_begin(argc, argv, 8, EVERY, MAX_CGROUPS);
	count = nr_watched / ROUNDS;
	set_up();
	for (int i = 0; i < nr_watched; i++) {
		nr[i] = i;
		make(i);
		if (i % 2000 == 1999)
			ksft_print_msg("%d cgroups, each with a trigger\n", i + 1);
	}
	expect_silence();
	test_result("triggers that have nothing to tell cost nothing");

	ksft_print_msg("one in %d stalls for long enough, one in %d for too short\n", EVERY, EVERY);
	stall_all(nr, nr_watched);
	for (int round = 1; round <= ROUNDS; round++) {
		choose(nr, count);
		come_and_go(nr, count);
		stall_all(nr, count);
		ksft_print_msg("round %d of %d: %d cgroups came and went\n", round, ROUNDS, count);
	}
	expect_silence();
	test_result("when all stalls are over the threads that serve triggers sleep");
	for (int i = 0; i < nr_watched; i++)
		disarm(i);
	ksft_print_msg("figures: %ld triggers armed, %ld events, %ld due, the latest after %.1f ms\n",
		       armed, came, due, (double)latest / NSEC_PER_MSEC);
	ksft_print_msg("figures: the longest stall without one %.1f ms, %ld too near to tell\n",
		       (double)silent / NSEC_PER_MSEC, undecided);
	ksft_print_msg("figures: %ld waiters told that their cgroup is gone\n", told);
	expect(due > nr_watched / EVERY && came - unexpected == due, "%ld were due", due);
	test_result("each event that is due comes");
	expect(!unexpected && undecided < due / 10, "%ld came", unexpected);
	test_result("no other event comes");
	expect(latest && latest <= IN_TIME, "the latest came after %llu ns", latest);
	test_result("each comes within two tenths of its window");
	expect(!not_told && told == ROUNDS * ((count + 2) / 3), "%ld were not", not_told);
	test_result("each waiter is told when its cgroup is removed");
	test_no_trigger();
	cgroup_remove(TOP);
	stalls_remove(&stalls);
	test_no_leak();
	ksft_finished();
}
