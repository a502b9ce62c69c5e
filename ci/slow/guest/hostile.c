// SPDX-License-Identifier: GPL-2.0
/*
 * What a hostile user costs others
 *
 * Invariant: whatever an unprivileged user does with cgroups, limits, triggers,
 * rings and pressure files, PSI makes no task of another user wait for more
 * than a millisecond, and takes no CPU time from it. PSI's own threads hardly
 * run. lib/hostile.py has the bounds. It compares with the same run on a kernel
 * without PSI.
 *
 * The hostile user does one thing after the other, then all at once. Each time
 * there are two parts:
 *
 *	           hostile user     victim
 *	  latency  the attack       wakes up by a timer every 2 ms
 *	                            makes and removes a cgroup every 5 ms
 *	                            stalls for 100 ms every 700 ms, with a trigger
 *	  share    the attack,      spins: both have the same weight
 *	           and spins        This part takes half the time of the other.
 *
 * In the first part nothing but the attack competes for the CPU: what the
 * victim waits for is what the kernel cannot interrupt, and mutexes.
 *
 * There are no pressure files without PSI. In place of what writes to
 * cgroup.pressure, which takes the mutex of cgroups, the user makes and removes
 * cgroups there; in place of what reads files and arms triggers, it spins.
 *
 *	hostile SIZE GROUPS SECONDS
 *
 * So many tasks, cgroups of others with a sleeper in each, and seconds for the
 * first part.
 */
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "psi_stat.h"
#include "psi_storm.h"
#include "psi_trigger.h"
#include "psi_uring.h"

#define HOSTILE		CGROUP_ROOT "/psi_hostile"
#define SELF		HOSTILE "/self"
#define CROWD		CGROUP_ROOT "/psi_crowd"
#define VICTIM		CGROUP_ROOT "/psi_victim"
#define SPINNER		CGROUP_ROOT "/psi_spinner"
#define STALL		(100 * NSEC_PER_MSEC)
#define STALL_PERIOD	(700 * NSEC_PER_MSEC)
#define WAKE_PERIOD	(2 * NSEC_PER_MSEC)
#define MKDIR_PERIOD	(5 * NSEC_PER_MSEC)
#define SHARE_TIME	(150 * NSEC_PER_MSEC)
#define DEPTH		150

/* A call that must not fail; its value. */
#define MUST(call) ({							\
	__auto_type __value = (call);					\
									\
	if (__value == (typeof(__value))-1)				\
		psi_die("%s: %s", #call, strerror(errno));		\
	__value;							\
})

static bool psi;
static int size;		/* number of tasks */
static int groups;		/* number of cgroups of others */
static const char *disk;	/* anybody may read it */

/**
 * struct waits - how long something took
 * @nr: how often
 * @sum: in ns
 * @most: in ns
 * @over_ms: how often that was over a millisecond
 */
struct waits {
	unsigned long nr;
	__u64 sum;
	__u64 most;
	unsigned long over_ms;
};

/* What is measured, by all processes. */
struct measured {
	struct waits wake;
	struct waits make;
	struct waits event;
	unsigned long lost;
	unsigned long attacks;
};

/* All processes share it. */
static struct {
	struct measured now;
	int ready;
	bool mixed;
} *shared;

static void add(struct waits *waits, __u64 ns)
{
	waits->nr++;
	waits->sum += ns;
	waits->over_ms += ns > NSEC_PER_MSEC;
	if (ns > waits->most)
		waits->most = ns;
}

/* ---- The victim ---- */

static void wake_up(void *arg)
{
	__u64 next = now_ns();

	set_policy(0, SCHED_FIFO, 50);
	for (;;) {
		next += WAKE_PERIOD;
		sleep_until(next);
		add(&shared->now.wake, now_ns() - next);
		if (now_ns() > next + WAKE_PERIOD)
			next = now_ns();
	}
}

static void make_groups(void *arg)
{
	__u64 begin;

	set_policy(0, SCHED_FIFO, 49);
	for (;;) {
		sleep_for(MKDIR_PERIOD);
		begin = now_ns();
		MUST(mkdir(VICTIM "/x", 0755));
		MUST(rmdir(VICTIM "/x"));
		add(&shared->now.make, now_ns() - begin);
	}
}

/*
 * The stalls begin at multiples of the time between two checks of a trigger, so
 * an event is as late each time.
 */
static void stall_and_wait(void *arg)
{
	const struct stalls *stalls = arg;
	int fd = trigger_arm(VICTIM "/io.pressure", "some 90000 500000");

	set_policy(0, SCHED_FIFO, 51);
	for (;;) {
		__u64 begin = (now_ns() / STALL_PERIOD + 1) * STALL_PERIOD;

		sleep_until(begin);
		stall(stalls);
		if (trigger_fired(fd, 300))
			add(&shared->now.event, now_ns() - begin - STALL);
		else
			shared->now.lost++;
	}
}

/* ---- The hostile user ---- */

static void become_user(void)
{
	const struct rlimit limit = { 100000, 100000 };

	MUST(setrlimit(RLIMIT_NOFILE, &limit));
	MUST(setrlimit(RLIMIT_NPROC, &limit));
	MUST(setresgid(USER, USER, USER));
	MUST(setresuid(USER, USER, USER));
}

static void ready(void)
{
	__atomic_fetch_add(&shared->ready, 1, __ATOMIC_RELAXED);
}

static void enter(const char *cgroup)
{
	cgroup_write(cgroup, "cgroup.procs", "0");
}

/* In place of what a kernel without PSI does not have. */
static void spin_ready(void)
{
	shared->now.attacks = 1;
	ready();
	spin(NULL);
}

/* Of all at once, each does with fewer tasks. */
static int many(void)
{
	return shared->mixed ? size / 4 : size;
}

/* So many tasks in a cgroup, which wait until the pipe is closed. */
static int fork_waiting(const char *cgroup, int nr)
{
	int go[2];
	char byte;

	mkdir(cgroup, 0755);
	enter(cgroup);
	MUST(pipe(go));
	for (int i = 0; i < nr; i++) {
		if (fork_or_die())
			continue;
		close(go[1]);
		if (read(go[0], &byte, 1))
			_exit(1);
		spin(NULL);
	}
	close(go[0]);
	enter(SELF);
	return go[1];
}

/* Thousands of spinners in a group that cpu.max stops and lets go on all the time. */
static void attack_throttled(void)
{
	int go = fork_waiting(HOSTILE "/t", many());

	cgroup_write(HOSTILE "/t", "cpu.max", "1000 2000");
	close(go);
	sleep_for(20 * NSEC_PER_MSEC);
	ready();
	sleep_forever();
}

/* A task wakes up at the bottom of cgroups that are new on this CPU. */
static void attack_chains(void)
{
	char path[DEPTH * 2 + 64] = HOSTILE "/c";
	int top = strlen(path);

	mkdir(path, 0755);
	ready();
	for (;; shared->now.attacks++) {
		for (int i = 0; i < DEPTH; i++) {
			strcat(path, "/d");
			MUST(mkdir(path, 0755));
		}
		enter(path);
		sleep_for(NSEC_PER_MSEC);
		enter(SELF);
		for (; (int)strlen(path) > top; *strrchr(path, '/') = 0)
			MUST(rmdir(path));
	}
}

static void attack_toggle(void)
{
	fork_waiting(HOSTILE "/s", many());
	ready();
	for (;; shared->now.attacks++) {
		if (psi) {
			cgroup_write(HOSTILE "/s", "cgroup.pressure", "0");
			cgroup_write(HOSTILE "/s", "cgroup.pressure", "1");
		} else {
			MUST(mkdir(SELF "/x", 0755));
			MUST(rmdir(SELF "/x"));
		}
	}
}

/* So long that no waiter wakes up: each waits for as many completions. */
#define COMPLETIONS	32768

static void ring_create(struct uring *uring)
{
	struct io_uring_params *p = &uring->params;

	p->flags = IORING_SETUP_CQSIZE;
	p->cq_entries = COMPLETIONS;
	uring->fd = MUST(syscall(SYS_io_uring_setup, URING_ENTRIES, p));
	uring->rings = MUST(mmap(NULL, p->cq_off.cqes + COMPLETIONS * sizeof(struct io_uring_cqe),
				 PROT_READ | PROT_WRITE, MAP_SHARED, uring->fd, IORING_OFF_SQ_RING));
	uring->sqes = MUST(mmap(NULL, p->sq_entries * sizeof(*uring->sqes), PROT_READ | PROT_WRITE,
				MAP_SHARED, uring->fd, IORING_OFF_SQES));
}

static void *wait_in_ring(void *arg)
{
	for (;;)
		syscall(SYS_io_uring_enter, ((struct uring *)arg)->fd, 0, COMPLETIONS,
			IORING_ENTER_GETEVENTS, NULL, 0);
	return NULL;
}

/*
 * Reads of a disk, whose block is in the page cache, through a ring in which
 * thousands of threads wait.
 */
static void attack_ring(void)
{
	static struct uring uring;
	pthread_attr_t attr;
	char block[512];
	int fd = open_file(disk, O_RDONLY);

	ring_create(&uring);
	if (read(fd, block, sizeof(block)) != sizeof(block))
		psi_die("%s: %s", disk, strerror(errno));
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (int i = 0; i < 2 * many(); i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attr, wait_in_ring, &uring))
			psi_die("thread %d: %s", i, strerror(errno));
	}
	sleep_for(100 * NSEC_PER_MSEC);
	ready();
	for (;; shared->now.attacks++) {
		uring_prepare_read(&uring, fd, block, sizeof(block), 0);
		uring_submit(&uring);
		uring_reap(&uring);
	}
}

/* The first limit of each group. */
static void attack_limits(void)
{
	ready();
	for (;; shared->now.attacks++) {
		MUST(mkdir(HOSTILE "/l", 0755));
		cgroup_write(HOSTILE "/l", "cpu.max", "1000 10000");
		MUST(rmdir(HOSTILE "/l"));
	}
}

/* All triggers that the user may have, and one more again and again. */
static void attack_triggers(void)
{
	int fd, error = 0;

	if (!psi)
		spin_ready();
	while (!error)
		error = trigger_set(open_file(PSI_CPU, O_RDWR), "some 1 2000000");
	if (error != ENOSPC)
		psi_die("the last trigger: %s", strerror(error));
	ready();
	for (;; shared->now.attacks++) {
		fd = open_file(PSI_STAT, O_RDWR);
		trigger_set(fd, "cpu.exact.some 1 2000000");
		close(fd);
	}
}

/* Reads all pressure files of all groups, forever. */
static void attack_readers(void)
{
	static const char * const names[] = { "cpu.pressure", "cgroup.pressure.stat" };
	char path[256], buf[8192];
	int fd;

	if (!psi)
		spin_ready();
	ready();
	for (int i = 0;; i++, shared->now.attacks++) {
		snprintf(path, sizeof(path), CROWD "/g%d/%s", i / 2 % groups, names[i % 2]);
		fd = open_file(path, O_RDONLY);
		MUST(read(fd, buf, sizeof(buf)));
		close(fd);
	}
}

static const struct attack {
	const char *name;
	void (*fn)(void);
} attacks[] = {
	{ "throttled", attack_throttled },
	{ "chains", attack_chains },
	{ "toggle", attack_toggle },
	{ "ring", attack_ring },
	{ "limits", attack_limits },
	{ "triggers", attack_triggers },
	{ "readers", attack_readers },
};

#define NR_ATTACKS	((int)ARRAY_SIZE(attacks))

static void run_attack(void *arg)
{
	const struct attack *attack = arg;

	become_user();
	attack->fn();
}

/* ---- The run ---- */

/* The user may do in there whatever the kernel lets him. */
static void delegate(const char *path)
{
	char pattern[64];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/*", path);
	MUST(chown(path, USER, USER));
	if (glob(pattern, 0, NULL, &found))
		psi_die("%s: nothing", pattern);
	for (size_t i = 0; i < found.gl_pathc; i++)
		MUST(chown(found.gl_pathv[i], USER, USER));
	globfree(&found);
}

static void hostile_create(void)
{
	cgroup_create(HOSTILE, "+cpu");
	cgroup_write(HOSTILE, "cgroup.subtree_control", "+cpu");
	cgroup_create(SELF, "");
	delegate(HOSTILE);
	delegate(SELF);
}

static void print_waits(const char *phase, const char *name, const struct waits *waits)
{
	unsigned long nr = waits->nr ?: 1;

	printf("# %s %s-mean-us %.1f\n", phase, name, waits->sum / 1e3 / nr);
	printf("# %s %s-most-us %.1f\n", phase, name, waits->most / 1e3);
	printf("# %s %s-long-pct %.1f\n", phase, name, waits->over_ms * 100.0 / nr);
}

/* ---- The threads of PSI ---- */

static pid_t threads[8];
static int nr_threads;

static void threads_find(void)
{
	nr_threads = kernel_threads("psi", threads, 8);
	nr_threads += kernel_threads("psi_watch*", threads + nr_threads, 8 - nr_threads);
	if (psi && nr_threads != 3)
		psi_die("PSI has %d threads", nr_threads);
}

static __u64 threads_run_ns(void)
{
	__u64 sum = 0;

	for (int i = 0; i < nr_threads; i++)
		sum += task_busy_ns(threads[i]) - task_wait_ns(threads[i]);
	return sum;
}

/* ---- A phase ---- */

static int phases;

static void measure(const char *phase, int from, int to, __u64 length)
{
	const struct load spinner = { .cpu = -1, .cgroup = SPINNER, .fn = spin };
	const struct load rival = { .cpu = -1, .cgroup = SELF, .fn = spin };
	pid_t pids[NR_ATTACKS + 1], pid;
	__u64 used, begin, run, run_begin;
	int nr = 0;

	hostile_create();
	shared->ready = 0;
	shared->mixed = to - from > 1;
	for (int i = from; i < to; i++) {
		const struct load load = {
			.cpu = -1, .cgroup = SELF, .fn = run_attack, .arg = (void *)&attacks[i],
		};

		pids[nr++] = load_start(&load);
	}
	while (__atomic_load_n(&shared->ready, __ATOMIC_RELAXED) < nr) {
		for (int i = 0; i < nr; i++)
			if (waitpid(pids[i], NULL, WNOHANG))
				psi_die("an attack ended");
		sleep_for(10 * NSEC_PER_MSEC);
	}
	sleep_for(100 * NSEC_PER_MSEC);
	shared->now = (struct measured){};
	run_begin = now_ns();
	run = threads_run_ns();
	sleep_for(length);
	print_waits(phase, "wake", &shared->now.wake);
	print_waits(phase, "mkdir", &shared->now.make);
	if (psi) {
		print_waits(phase, "event", &shared->now.event);
		printf("# %s lost-events %lu\n", phase, shared->now.lost);
	}
	printf("# %s attacks %lu\n", phase, shared->now.attacks);

	pids[nr++] = load_start(&rival);
	pid = load_start(&spinner);
	sleep_for(200 * NSEC_PER_MSEC);
	shared->now = (struct measured){};
	begin = now_ns();
	used = file_number(SPINNER "/cpu.stat", "usage_usec ");
	/*
	 * Long beside a slice, which is some ms: the share must not depend on who is in one at the
	 * end. While all attack, several are.
	 */
	sleep_for(shared->mixed ? 2 * length : length / 2 > SHARE_TIME ? length / 2 : SHARE_TIME);
	used = file_number(SPINNER "/cpu.stat", "usage_usec ") - used;
	printf("# %s share-pct %.2f\n", phase, used * 1e5 / (now_ns() - begin));
	if (psi)
		printf("# %s threads-pct %.2f\n", phase,
		       (threads_run_ns() - run) * 100.0 / (now_ns() - run_begin));
	printf("# %s spun-wake-most-us %.1f\n", phase, shared->now.wake.most / 1e3);
	load_stop(pid);
	cgroup_remove(HOSTILE);
	while (nr--)
		reap(pids[nr]);
	printf("ok %d - %s\n", ++phases, phase);
	fflush(stdout);
}

static void crowd(void)
{
	char path[256];

	cgroup_create(CROWD, "");
	for (int i = 0; i < groups; i++) {
		snprintf(path, sizeof(path), CROWD "/g%d", i);
		cgroup_create(path, "");
		if (!fork_or_die()) {
			enter(path);
			sleep_forever();
		}
	}
}

int main(int argc, char **argv)
{
	struct load victims[] = {
		{ .cpu = -1, .cgroup = VICTIM, .fn = wake_up },
		{ .cpu = -1, .cgroup = VICTIM, .fn = make_groups },
		{ .cpu = -1, .cgroup = VICTIM, .fn = stall_and_wait },
	};
	struct stalls stalls;
	__u64 length;

	if (argc != 4)
		psi_die("usage: hostile SIZE GROUPS SECONDS");
	size = atoi(argv[1]);
	groups = atoi(argv[2]);
	length = atof(argv[3]) * NSEC_PER_SEC;
	psi = !access(PSI_IO, F_OK);
	threads_find();
	shared = shared_memory(sizeof(*shared));
	write_file("/proc/sys/kernel/pid_max", "100000");
	write_file("/proc/sys/kernel/threads-max", "100000");
	write_file("/proc/sys/vm/max_map_count", "1000000");
	cgroup_moves_are_fast();
	set_policy(0, SCHED_FIFO, 60);
	stalls_create(&stalls, "psi_hostile", STALL);
	victims[2].arg = &stalls;
	disk = stalls.disk.node;
	MUST(chmod(disk, 0444));
	cgroup_create(SPINNER, "+cpu");
	cgroup_create(VICTIM, "");
	printf("TAP version 13\n");
	crowd();
	for (int i = 0; i < 2 + psi; i++)
		load_start(&victims[i]);

	measure("alone", 0, 0, length);
	for (int i = 0; i < NR_ATTACKS; i++)
		measure(attacks[i].name, i, i + 1, length);
	measure("all", 0, NR_ATTACKS, length);
	printf("1..%d\n", phases);
	cgroup_write(VICTIM, "cgroup.kill", "1");
	cgroup_write(CROWD, "cgroup.kill", "1");
	stalls_remove(&stalls);
	return 0;
}
