// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that wake up, begin, end, or are throttled.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static void fork_wait(unsigned int nr)
{
	pid_t pid;

	while (nr--) {
		pid = vfork();
		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			die("fork");
	}
}

/* Fork a child that exits at once, and wait for it. */
void forks(const char *kind, unsigned int depth)
{
	cgroup_enter(cgroup_leaf(kind, depth), getpid());
	fork_wait(50);
	result(measure(NULL, fork_wait, 5, 101));
}

/*
 * ns: many times what a cycle takes, and out of step with the tick. One of 1 ms, whose
 * wake-ups happen to meet the tick, counts a tick with each fourth of them.
 */
enum { PERIOD = 1001000 };

static void cycles(unsigned int nr)
{
	uint64_t time = now();

	while (nr--)
		sleep_until(time += PERIOD);
}

static void sleep_and_wake(const char *leaf)
{
	enum { CYCLES = 10000 };

	pin(0, 0);
	cgroup_enter(leaf, getpid());
	cycles(100);
	look_twice();
	profile_begin();
	cycles(CYCLES);
	profile_end(CYCLES);
	result(look_again() * PERIOD / SECOND);
}

/*
 * A task sleeps on a CPU that has nothing else to do, and is woken by its timer.
 *
 * A cycle is a wake-up, a switch from the idle task and a switch back.  The
 * idling itself is not counted.
 */
void idle(const char *kind, unsigned int depth)
{
	sleep_and_wake(cgroup_leaf(kind, depth));
}

/* The same while another CPU, which idles too, is in use by the group: a task that ran there waits for a disk. */
void beside(const char *kind, unsigned int depth)
{
	const char *leaf = cgroup_leaf(kind, depth);

	disk_reader(leaf, 1);
	sleep_and_wake(leaf);
}

static struct {
	int round;
	int done;		/* the last round that is over */
	int left;		/* tasks that are not done with the round */
} *shared;

static void futex(int *word, int op, int value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void wait_until(int *word, int value)
{
	int found;

	while ((found = __atomic_load_n(word, __ATOMIC_SEQ_CST)) < value)
		futex(word, FUTEX_WAIT, found);
}

static void set(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	futex(word, FUTEX_WAKE, INT_MAX);
}

static void follow(unsigned int cpu)
{
	int round;

	pin(0, cpu);
	for (round = 1; ; round++) {
		wait_until(&shared->round, round);
		if (!__atomic_sub_fetch(&shared->left, 1, __ATOMIC_SEQ_CST))
			set(&shared->done, round);
	}
}

/* So many wake-ups, of all others each time. */
static void rounds(unsigned int nr)
{
	unsigned int others;

	for (; nr; nr -= others) {
		others = cpus() - 1;
		shared->left = others;
		set(&shared->round, shared->round + 1);
		wait_until(&shared->done, shared->round);
	}
}

/*
 * All CPUs idle. When the scheduler finds no idle core once, each CPU that begins
 * to idle looks at all others, 200 instructions on 16, until all of them idle.
 */
static void pause_all(void)
{
	sleep_until(now() + 1000000);
}

/*
 * A task on each CPU: one wakes all others at once, the last of them wakes it.
 *
 * The CPUs take turns, so the clock counts the instructions of all. It also counts moments in
 * which all of them idle, until one is told of work: so a plugin counts for the table.
 */
void together(const char *kind, unsigned int depth)
{
	enum { WARM_UP = 100 /* until groups delegate */, BATCH = 5, BATCHES = 9 };
	unsigned int i, nr = cpus();

	shared = shared_memory(sizeof(*shared));
	pin(0, 0);
	cgroup_enter(cgroup_leaf(kind, depth), getpid());
	for (i = 1; i < nr; i++)
		if (!fork_or_die())
			follow(i);
	rounds(WARM_UP * (nr - 1));
	result(measure(pause_all, rounds, BATCH * (nr - 1), BATCHES));
}

/*
 * Groups with a task each that wakes up once a second.
 *
 * The figure is everything the CPU does, for one wake-up: the wake-up itself,
 * and what it costs later to keep the averages.
 */
void upkeep(const char *kind, unsigned int groups)
{
	enum { WINDOW = 10 };	/* s */
	const struct crowd crowd = { .groups = groups, .tasks = 1 };
	double done;

	(void)kind;
	crowd_start(&crowd);
	done = busy_for(WINDOW);
	profile.times = groups * WINDOW;
	if (crowd_wakeups < groups * WINDOW)
		die("%lu wake-ups", crowd_wakeups);
	result(done / groups);
}

/* The tasks count what they do: rounds of two instructions. */
static uint64_t work(volatile const uint64_t *counts, unsigned int tasks)
{
	uint64_t sum = 0;

	while (tasks--)
		sum += 2 * counts[tasks];
	return sum;
}

/*
 * Tasks that work all the time in a group that may use a tenth of the CPU.
 *
 * The figure is what the CPU does for each time that the group is throttled, and
 * unthrottled again, but the work.
 */
void throttle(const char *kind, unsigned int tasks)
{
	enum { WINDOW = 5 };	/* s */
	uint64_t *counts = shared_memory(tasks * sizeof(*counts)), begin;
	const char *group = cgroup_leaf(kind, 1);
	double done, begun, held, busy, seconds;
	unsigned int i;
	pid_t pid;

	cgroup_controller(group, "+cpu");
	/* No multiple of a tick, so that ticks come at all phases. */
	cgroup_write(group, "cpu.max", "1000 10300");
	for (i = 0; i < tasks; i++) {
		pid = fork_or_die();
		if (!pid)
			__asm__ volatile("1: incq %0; jmp 1b" : "+m"(counts[i]));
		cgroup_enter(group, pid);
	}
	sleep_until(now() + 3 * SECOND);
	look_twice();
	begin = now();
	begun = work(counts, tasks);
	held = number_in(cgroup_file(group, "cpu.stat"), "nr_throttled");
	profile_begin();
	sleep_until(begin + WINDOW * SECOND);
	profile_end(WINDOW);
	seconds = (now() - begin) / 1e9;
	done = (work(counts, tasks) - begun) / seconds;
	held = number_in(cgroup_file(group, "cpu.stat"), "nr_throttled") - held;
	profile.times = held;
	held /= seconds;
	busy = look_again();
	if (held < 50)
		die("throttled %.0f times a second", held);
	result((busy - done) / held);
}

/* Times that a thread of the workqueues of CPU 1 slept, so far. */
static uint64_t works(const char *name, const char *status)
{
	return strncmp(name, "kworker/1:", 10) ? 0 : number_in(status, "voluntary_ctxt_switches:");
}

static uint64_t timers(void)
{
	unsigned long first, second;
	char line[256];
	FILE *file;

	file = fopen("/proc/softirqs", "re");
	if (!file)
		die("/proc/softirqs");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " TIMER: %lu %lu", &first, &second) == 2) {
			fclose(file);
			return second;
		}
	}
	die("/proc/softirqs has no timers");
}

/*
 * What a stall on an isolated CPU makes that CPU do for others.
 *
 * Two tasks work on CPU 1 all the time, in a group of depth 4 with a trigger.
 * Counted are the runs of the CPU's workqueue threads, and how often it had
 * timers to run.  Some are there without PSI, too.
 */
void isolated(const char *kind, unsigned int number)
{
	uint64_t works_before, timers_before;
	const char *leaf = cgroup_leaf(kind, 4);

	if (has_psi())
		trigger_arm(cgroup_file(leaf, "cpu.pressure"), "some 500000 1000000");
	for (number = 0; number < 2; number++) {
		/* All it does to its group happens on the isolated CPU, which never idles: others would run its timers. */
		if (fork_or_die())
			continue;
		pin(0, 1);
		cgroup_enter(leaf, getpid());
		for (;;)
			;
	}
	sleep(4);
	works_before = sum_of_tasks(works);
	timers_before = timers();
	sleep(20);
	result_named("timers", timers() - timers_before);
	result_named("works", sum_of_tasks(works) - works_before);
}
