// SPDX-License-Identifier: GPL-2.0
/*
 * Thousands of busy cgroups on many CPUs: is every file right?
 *
 * On each CPU, by the mark at which averages move (+0.2 s):
 *
 *                    waits: 30 s, this 3 times in 2 s       all: 10 s   half: 10 s
 *	hog           |########|_______________________  ...   |         |
 *	30 sleepers   |  wwwwwww#  (a wake-up each)      ...   |  w#     |
 *	spinner       |                                  ...   |#w#w#w#w#|#########
 *	spinner       |                                  ...   |w#w#w#w#w| odd CPUs: gone
 *
 * Everyone has a cgroup of his own, but the spinners of a CPU, who share one. The hog is
 * a real-time task, so what wakes up while it runs waits for its end. One sleeper in 16
 * roams: it goes on to the next CPU after each turn.
 *
 * The oracle is what the scheduler says that each task waited (schedstat). The task of a
 * sleeper's cgroup is the only one there, so its wait is some and full of cpu. Between two
 * readings it stayed on one CPU, so weights do not matter; of one that roams the line
 * "exact some" is compared, for which CPUs do not matter either. Two spinners on each CPU
 * are 100 % of the system, and two on every other CPU, beside one, are 50 %.
 *
 * Tolerances
 *
 *   a sleeper's total	1 ms and 1 % of its wait. A file has whole us. PSI does not count
 *			what a task waits for PSI's own threads, up to 2 ms at a time; the
 *			fold meets a task of a CPU now and then
 *   exact some	0.2 points: of exact pressure psi.rst promises 2
 *   its average	0.02 points, as psi.rst promises, and 1 % for those of the total; the
 *			oracle is its wait in each period, which the hog of its CPU notes
 *			while all sleep, by the definition of averages
 *   the system		2 %: CPUs begin and end a few ms after each other
 *
 * In virtual time CPUs take turns. Who spins here uses PAUSE, which ends a turn: else
 * each CPU would stand still for ms while the clock goes on.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "psi_leak.h"

#define TOP		CGROUP_ROOT "/scale"
#define PERIOD		(2 * NSEC_PER_SEC)
#define AFTER		(200 * NSEC_PER_MSEC)	/* after a mark */
#define TURN		(500 * NSEC_PER_MSEC)
#define HOG		(100 * NSEC_PER_MSEC)
#define WAKE		(125 * NSEC_PER_MSEC)	/* sleepers wake up in this part of a turn */
#define FIRST		(2 * NSEC_PER_MSEC)
#define WORK		(50 * NSEC_PER_USEC)
#define ROAMERS		16
#define LATE		(100 * NSEC_PER_MSEC)	/* what the witness of averages may be */

enum kind { HOGS, SPINNERS, SLEEPERS };
enum phase { WAITS, ALL, HALF, NR_PHASES };

#define NR_PERIODS	15

static const __u64 length[NR_PHASES] = { NR_PERIODS * PERIOD, 5 * PERIOD, 5 * PERIOD };

/**
 * struct member - a task, or both spinners of a CPU
 * @pid: its pids
 * @nr: how many
 * @cpu: the one it is on, to begin with
 * @wakes: when a sleeper wakes up in a turn, in ns
 * @roams: a sleeper that does
 * @path: its cgroup
 * @wait: by the scheduler's clock, in ns, so far, then in the phase
 * @before: its totals before the phase
 * @exact: its line "exact some" before the phase, in us
 * @waits: of a sleeper, so far, right after each mark of the phase with turns
 * @avg10: of cpu some at the end of the phase
 */
struct member {
	enum kind kind;
	pid_t pid[2];
	int nr;
	int cpu;
	__u64 wakes;
	bool roams;
	char path[48];
	__u64 wait;
	__u64 waits[NR_PERIODS];
	struct pressure before;
	__u64 exact;
	double avg10;
};

/**
 * struct plan - what all tasks share
 * @begin: of each phase
 * @moved: when the average moved that the witness watches
 * @nr: how often it did
 */
struct plan {
	__u64 begin[NR_PHASES];
	__u64 moved[64];
	int nr;
};

static struct member *members;
static struct plan *plan;
static int nr_members, cpus;
/* Everyone reads from it until the plan is made. */
static int start[2];

/* ---- What members do ---- */

static void spin_politely(__u64 end)
{
	while (now_ns() < end)
		asm volatile("pause" ::: "memory");
}

/*
 * What the sleepers of a CPU waited until the mark. They note nothing themselves: who
 * has noted its wait may be preempted, and wait again before the mark.
 */
static void note_waits(int cpu, int period, __u64 at)
{
	sleep_until(at);
	for (int i = 2 * cpus + cpu; i < nr_members; i += cpus)
		members[i].waits[period] = task_wait_ns(members[i].pid[0]);
}

static void take_turns(struct member *m, enum phase phase)
{
	__u64 begin = plan->begin[phase], at;
	int cpu = m->cpu, turn = 0;

	for (at = begin; at < begin + length[phase]; at += TURN, turn++) {
		sleep_until(at + m->wakes);
		/* Nobody works in the last turn of a period, so none waits at a mark. */
		if (turn % (PERIOD / TURN) == PERIOD / TURN - 1) {
			if (m->kind == HOGS)
				note_waits(m->cpu, turn / (PERIOD / TURN), at + TURN - AFTER / 2);
			continue;
		}
		spin_politely(m->kind == HOGS ? at + HOG : now_ns() + WORK);
		if (!m->roams)
			continue;
		cpu = (cpu + 1) % cpus;
		pin_to(cpu);
	}
}

static void live(struct member *m, int nr)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to(m->cpu);
	set_policy(0, m->kind == HOGS ? SCHED_FIFO : SCHED_OTHER, m->kind == HOGS ? 10 : 0);
	/* A first fault may wait for another task's, which is io. */
	sleep_until(0);
	spin_politely(0);
	task_wait_ns(getpid());
	close(start[1]);
	if (read(start[0], &byte, 1))
		psi_die("the test has not begun");
	if (m->kind != SPINNERS)
		take_turns(m, WAITS);
	if (m->kind == SLEEPERS)
		take_turns(m, ALL);
	for (int phase = ALL; m->kind == SPINNERS && phase <= HALF; phase++) {
		if (phase == HALF && nr && m->cpu % 2)
			break;
		sleep_until(plan->begin[phase]);
		spin_politely(plan->begin[phase] + length[phase]);
	}
	sleep_forever();
}

static void member_start(struct member *m)
{
	if (mkdir(m->path, 0755))
		psi_die("%s: %s", m->path, strerror(errno));
	for (int i = 0; i < m->nr; i++) {
		pid_t pid;

		fflush(stdout);
		pid = cgroup_fork(m->path);
		if (pid < 0)
			psi_die("%s: clone3: %s", m->path, strerror(errno));
		if (!pid)
			live(m, i);
		m->pid[i] = pid;
	}
}

static void members_start(void)
{
	int each = nr_members / cpus - 2;

	cgroup_create(TOP, "");
	if (pipe(start))
		psi_die("pipe: %s", strerror(errno));
	for (int i = 0; i < nr_members; i++) {
		struct member *m = &members[i];
		int row = i / cpus;

		m->kind = row < 2 ? row : SLEEPERS;
		m->nr = m->kind == SPINNERS ? 2 : 1;
		m->cpu = i % cpus;
		m->wakes = row < 2 ? 0 : FIRST + WAKE * (row - 2) / each;
		m->roams = row >= 2 && i % ROAMERS == row % ROAMERS;
		snprintf(m->path, sizeof(m->path), TOP "/%d", i);
		member_start(m);
		if (i % 500 == 499)
			ksft_print_msg("%d cgroups, each with a task\n", i + 1);
	}
}

/* ---- Where averages move, and when ---- */

static void watch(void *arg)
{
	const char *path = arg;
	double last = psi_avg(path, AVG10), now;

	for (;;) {
		sleep_for(10 * NSEC_PER_MSEC);
		now = psi_avg(path, AVG10);
		if (now == last)
			continue;
		last = now;
		plan->moved[plan->nr++ % ARRAY_SIZE(plan->moved)] = now_ns();
	}
}

/* A mark: averages move at it, and each two seconds before and after. */
static __u64 find_mark(void)
{
	const struct load load = { .cpu = 1, .policy = SCHED_FIFO, .prio = 20, .fn = watch,
				   .arg = PSI_CPU };
	pid_t watcher = load_start(&load), pair[2];
	__u64 mark;

	spin_pair_start(pair, NULL);
	sleep_for(2 * PERIOD + PERIOD / 2);
	load_stop(watcher);
	spin_pair_stop(pair);
	if (!plan->nr)
		psi_die("the averages of the system do not move");
	mark = plan->moved[0];
	plan->nr = 0;
	return mark;
}

/* Whether they moved in each period since @mark, and never between two marks. */
static bool moved_in_time(__u64 mark, __u64 begin, int periods)
{
	__u64 period, last = 0;
	int seen = 0;

	for (int i = 0; i < plan->nr; i++) {
		__u64 late = (plan->moved[i] - mark + PERIOD / 2) % PERIOD;

		if (plan->moved[i] < begin)
			continue;
		/* A reader sees it move at the mark, and again when the fold has the last us. */
		period = (plan->moved[i] - mark + PERIOD / 2) / PERIOD;
		seen += period != last;
		last = period;
		if (late < PERIOD / 2 - LATE || late > PERIOD / 2 + LATE)
			ksft_print_msg("an average moved %.3f s after a mark\n",
				       (double)late / NSEC_PER_SEC - 1);
		else
			continue;
		return false;
	}
	ksft_print_msg("averages moved in %d of %d periods\n", seen, periods);
	return seen == periods;
}

/* ---- Reading ---- */

static bool ordered;

/* A group's totals, looked over. */
static void read_group(const char *path, struct pressure *p)
{
	__u64 elapsed;

	pressure_read(path, p);
	elapsed = now_ns();
	for (int r = 0; r < NR_RESOURCES; r++) {
		if (p->some[r] <= elapsed && p->full[r] <= p->some[r] + NSEC_PER_USEC)
			continue;
		ksft_print_msg("%s: full %llu, some %llu, elapsed %llu ns\n", path ?: "system",
			       p->full[r], p->some[r], elapsed);
		ordered = false;
	}
}

static __u64 member_wait(const struct member *m)
{
	return task_wait_ns(m->pid[0]) + (m->nr > 1 ? task_wait_ns(m->pid[1]) : 0);
}

static void member_stat(const struct member *m, __u64 *exact)
{
	char path[80];

	snprintf(path, sizeof(path), "%s/cgroup.pressure.stat", m->path);
	*exact = psi_stat_total(path, "cpu.exact.some");
}

static void read_before(void)
{
	for (int i = 0; i < nr_members; i++) {
		struct member *m = &members[i];

		read_group(m->path, &m->before);
		if (m->roams)
			member_stat(m, &m->exact);
		m->wait = member_wait(m);
	}
}

/* Averages as they are, before the next mark. */
static void read_averages(__u64 next)
{
	char path[80];

	for (int i = 0; i < nr_members; i++) {
		snprintf(path, sizeof(path), "%s/cpu.pressure", members[i].path);
		members[i].avg10 = psi_avg(path, AVG10);
	}
	if (now_ns() >= next)
		psi_die("the machine is too slow to read all averages in a period");
}

/* ---- Checks ---- */

/* How often a check failed: the first few say why. */
static int wrong;

static void __printf(2, 3) expect(bool right, const char *fmt, ...)
{
	char text[256];
	va_list args;

	if (right || wrong++ >= 10)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ksft_print_msg("%s\n", text);
}

static bool all_right(void)
{
	bool right = !wrong;

	if (wrong > 10)
		ksft_print_msg("and so on: %d\n", wrong);
	wrong = 0;
	return right;
}

static bool near(double value, double oracle, double share, double least)
{
	return fabs(value - oracle) <= oracle * share + least;
}

/* What the average of a sleeper's group has after the first phase. */
static double average_of(const struct member *m)
{
	const double keep = exp(-0.2);
	__u64 wait = m->wait;
	double avg = 0;

	for (int i = 0; i < NR_PERIODS; i++) {
		avg = avg * keep + 100.0 * (m->waits[i] - wait) / PERIOD * (1 - keep);
		wait = m->waits[i];
	}
	return avg;
}

/* 100 % for @length, where the first period is shorter. */
static double average_full(__u64 length)
{
	const double keep = exp(-0.2);
	double avg = 100 * (1 - keep) * (1 - (double)AFTER / PERIOD);

	for (__u64 at = PERIOD; at < length; at += PERIOD)
		avg = avg * keep + 100 * (1 - keep);
	return avg;
}

/* Turns that were @length long: all groups of a kind, by their tasks' clocks. */
static bool waits_are_right(enum kind kind, bool roams, __u64 length)
{
	double most = 0, worst = 0, sum = 0;
	int nr = 0;

	for (int i = 0; i < nr_members; i++) {
		struct member *m = &members[i];
		double wait, some, full, least;
		struct pressure p;
		__u64 exact;

		if (m->kind != kind || m->roams != roams)
			continue;
		read_group(m->path, &p);
		wait = member_wait(m) - m->wait;
		some = p.some[RES_CPU] - m->before.some[RES_CPU];
		full = p.full[RES_CPU] - m->before.full[RES_CPU];
		if (roams) {
			expect(some <= wait + NSEC_PER_MSEC,
			       "%s: plain some %.6f s, its task waited %.6f s", m->path,
			       some / 1e9, wait / 1e9);
			member_stat(m, &exact);
			some = full = (exact - m->exact) * NSEC_PER_USEC;
		}
		least = roams ? length / 500 : NSEC_PER_MSEC;
		expect(near(some, wait, 0.01, least) && near(full, wait, 0.01, least),
		       "%s: some %.6f s, full %.6f s, its task waited %.6f s", m->path, some / 1e9,
		       full / 1e9, wait / 1e9);
		for (int r = RES_MEMORY; r < NR_RESOURCES; r++)
			expect(p.some[r] == m->before.some[r], "%s: there is %s pressure", m->path,
			       r == RES_IO ? "io" : "memory");
		nr++;
		sum += wait;
		most = fmax(most, wait);
		worst = fmax(worst, fabs(some - wait));
	}
	ksft_print_msg("figures: %d tasks waited %.1f s in all, %.3f s at most; some is %.0f us off at most\n",
		       nr, sum / 1e9, most / 1e9, worst / 1e3);
	expect(nr && most > length / 1000, "the load is no load");
	return all_right();
}

static bool averages_are_right(enum kind kind, __u64 length)
{
	double worst = 0;

	for (int i = 0; i < nr_members; i++) {
		struct member *m = &members[i];
		double oracle = kind == SPINNERS ? average_full(length) : average_of(m);

		if (m->kind != kind || m->roams)
			continue;
		expect(near(m->avg10, oracle, 0.01, 0.02),
		       "%s: avg10 is %.2f, must be %.2f", m->path, m->avg10, oracle);
		worst = fmax(worst, fabs(m->avg10 - oracle));
	}
	ksft_print_msg("figures: averages are %.3f points off at most\n", worst);
	return all_right();
}

/* Two spinners are 100 %. Both wait while others run, for as long as those say. */
static bool spinners_are_right(__u64 length)
{
	for (int i = 0; i < nr_members; i++) {
		struct member *m = &members[i];
		double some, full, wait;
		struct pressure p;

		if (m->kind != SPINNERS)
			continue;
		read_group(m->path, &p);
		wait = member_wait(m) - m->wait;
		some = p.some[RES_CPU] - m->before.some[RES_CPU];
		full = p.full[RES_CPU] - m->before.full[RES_CPU];
		expect(near(some, length, 0.02, 0), "%s: some %.6f s, must be %.6f s", m->path,
		       some / 1e9, length / 1e9);
		expect(near(some + full, wait, 0.01, NSEC_PER_MSEC),
		       "%s: some %.6f s, full %.6f s, both tasks waited %.6f s", m->path,
		       some / 1e9, full / 1e9, wait / 1e9);
	}
	return all_right();
}

/* ---- The test ---- */

struct system {
	struct pressure p;
	__u64 exact;
};

static void read_system(struct system *s)
{
	read_group(NULL, &s->p);
	s->exact = psi_stat_total(PSI_STAT, "cpu.exact.some");
}

/* @percent of the time since @before, in a phase. */
static bool system_is(const struct system *before, enum phase phase, double percent)
{
	double oracle = percent / 100 * length[phase], some, exact;
	struct system now;

	read_system(&now);
	some = now.p.some[RES_CPU] - before->p.some[RES_CPU];
	exact = (now.exact - before->exact) * NSEC_PER_USEC;
	ksft_print_msg("figures: system: some grew by %.4f s, exact some by %.4f s, must be %.4f s\n",
		       some / 1e9, exact / 1e9, oracle / 1e9);
	return near(some, oracle, 0.02, 0) && near(exact, oracle, 0.02, 0) &&
	       !now.p.full[RES_CPU];
}

static bool nothing_grows(void)
{
	struct idle_growth g;

	for (int i = 0; i < nr_members; i++)
		read_group(members[i].path, &members[i].before);
	idle_growth_measure(&g, 5 * NSEC_PER_SEC);
	for (int i = 0; i < nr_members; i++) {
		struct pressure p = pressure_since(members[i].path, &members[i].before);

		for (int r = 0; r < NR_RESOURCES; r++)
			expect(!p.some[r] && !p.full[r], "%s: some grew by %llu ns",
			       members[i].path, p.some[r]);
	}
	ksft_print_msg("idle for 5 s: the system's cpu some grew by %.6f s, io by %.6f s, memory by %.6f s\n",
		       g.cpu / 1e9, g.io / 1e9, g.memory / 1e9);
	expect(!g.io && !g.memory && g.cpu < 50 * NSEC_PER_MSEC, "the system's totals grow");
	return all_right();
}

/* What the thread that folds did so far. */
struct folder {
	unsigned long long wakes;
	__u64 run;
};

static void folder_read(struct folder *folder)
{
	static char status[64], schedstat[64];
	pid_t pid;

	if (!status[0] && kernel_threads("psi", &pid, 1) == 1) {
		snprintf(status, sizeof(status), "/proc/%d/status", pid);
		snprintf(schedstat, sizeof(schedstat), "/proc/%d/schedstat", pid);
	}
	folder->wakes = file_number(status, "\nvoluntary_ctxt_switches:");
	folder->run = file_number(schedstat, "");
}

static bool folds_in_time(const struct folder *before, __u64 periods)
{
	struct folder now;

	folder_read(&now);
	ksft_print_msg("figures: the fold ran %llu times in %llu periods, for %.3f ms each\n",
		       now.wakes - before->wakes, periods,
		       (double)(now.run - before->run) / periods / NSEC_PER_MSEC);
	/* Its clock and the timer's differ: it may wake up early once, and sleep again. */
	return now.wakes - before->wakes >= periods && now.wakes - before->wakes <= 2 * periods;
}

/* Begins after a mark, @later than now at least. */
static __u64 phase_begins(__u64 mark, __u64 later)
{
	__u64 at = now_ns() + later;

	return at + PERIOD - (at - mark) % PERIOD + AFTER;
}

int main(int argc, char **argv)
{
	struct load witness = { .policy = SCHED_FIFO, .prio = 20, .fn = watch };
	struct folder folder;
	struct system before;
	const char *found;
	char watched[80];
	pid_t watcher;
	__u64 mark, end;

	if (argc < 2)
		psi_die("how many cgroups?");
	ksft_print_header();
	ksft_set_plan(14);
	ordered = true;
	cpus = cpus_possible();
	nr_members = atoi(argv[1]);
	members = shared_memory(nr_members * sizeof(*members));
	plan = shared_memory(sizeof(*plan));
	pin_to(0);
	set_policy(0, SCHED_FIFO, 50);
	mark = find_mark();
	members_start();

	/* ---- Turns ---- */
	for (int phase = 0; phase < NR_PHASES; phase++)
		plan->begin[phase] = ~0ULL >> 1;
	/* Averages forget how all began. */
	plan->begin[WAITS] = phase_begins(mark, 15 * PERIOD);
	plan->begin[ALL] = plan->begin[WAITS] + length[WAITS] + 10 * PERIOD;
	plan->begin[HALF] = plan->begin[ALL] + length[ALL] + 10 * PERIOD;
	read_system(&before);
	/* A group whose task waits long. */
	witness.cpu = cpus - 1;
	witness.arg = watched;
	snprintf(watched, sizeof(watched), "%s/cpu.pressure", members[2 * cpus].path);
	close(start[0]);
	close(start[1]);
	watcher = load_start(&witness);
	sleep_for(PERIOD);
	read_before();
	if (now_ns() > plan->begin[WAITS] - PERIOD)
		psi_die("the machine is too slow to read all files");
	ksft_print_msg("%d tasks wake up twice a second\n", nr_members);
	sleep_until(plan->begin[WAITS] - AFTER / 2);
	folder_read(&folder);
	end = plan->begin[WAITS] + length[WAITS];
	sleep_until(end - AFTER / 2);
	ksft_test_result(folds_in_time(&folder, length[WAITS] / PERIOD),
			 "the fold keeps its period\n");
	sleep_until(end);
	read_averages(end - AFTER + PERIOD);
	load_stop(watcher);
	sleep_until(end + PERIOD + NSEC_PER_SEC);
	ksft_test_result(moved_in_time(mark, plan->begin[WAITS], length[WAITS] / PERIOD),
			 "averages move every 2 s and at no other time\n");
	ksft_test_result(waits_are_right(SLEEPERS, false, length[WAITS]),
			 "some and full of each cgroup are what its task waited\n");
	ksft_test_result(waits_are_right(SLEEPERS, true, length[WAITS]),
			 "exact some of each cgroup whose task roams is what it waited\n");
	ksft_test_result(averages_are_right(SLEEPERS, length[WAITS]),
			 "avg10 of each cgroup is what its task waited\n");

	/* ---- Two spinners on every CPU ---- */
	read_before();
	read_system(&before);
	ksft_print_msg("two tasks spin on each CPU\n");
	end = plan->begin[ALL] + length[ALL];
	sleep_until(end);
	read_averages(end - AFTER + PERIOD);
	sleep_until(end + PERIOD + NSEC_PER_SEC);
	ksft_test_result(system_is(&before, ALL, 100),
			 "two tasks on each CPU are 100 %% of the system\n");
	ksft_test_result(spinners_are_right(length[ALL]), "and 100 %% of their cgroups\n");
	ksft_test_result(averages_are_right(SPINNERS, length[ALL]), "avg10 of these is right\n");
	ksft_test_result(waits_are_right(SLEEPERS, false, length[ALL]),
			 "some and full of each other cgroup are what its task waited\n");
	ksft_test_result(waits_are_right(SLEEPERS, true, length[ALL]),
			 "exact some is right where a task roams between them\n");

	/* ---- On every other CPU one ---- */
	read_before();
	read_system(&before);
	ksft_print_msg("two tasks spin on each even CPU, one on each odd one\n");
	sleep_until(plan->begin[HALF] + length[HALF] + PERIOD + NSEC_PER_SEC);
	ksft_test_result(system_is(&before, HALF, 50),
			 "two tasks on every other CPU are 50 %% of the system\n");

	/* ---- The end ---- */
	cgroup_write(TOP, "cgroup.kill", "1");
	while (wait(NULL) > 0)
		;
	sleep_for(PERIOD + NSEC_PER_SEC);
	ksft_test_result(nothing_grows(), "after all tasks ended nothing grows\n");
	ksft_test_result(ordered, "full <= some <= elapsed in every file, each time\n");
	cgroup_remove(TOP);
	found = find_trigger();
	if (found)
		ksft_print_msg("%s\n", found);
	ksft_test_result(!found, "no thread that serves triggers has work\n");
	ksft_finished();
}
