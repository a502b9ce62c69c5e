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
#include <sys/prctl.h>
#include <sys/wait.h>

#include "psi_stat.h"
#include "scale.h"

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
 * struct member - a task, or both spinners of a CPU; its cgroup has its number
 * @pid: its pids
 * @nr: how many
 * @cpu: the one it is on, to begin with
 * @wakes: when a sleeper wakes up in a turn, in ns
 * @roams: a sleeper that does
 * @wait: by the scheduler's clock, in ns, so far, then in the phase
 * @before: its totals before the phase
 * @exact: its line "exact some" before the phase, in ns
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
	__u64 wait;
	__u64 waits[NR_PERIODS];
	struct pressure before;
	__u64 exact;
	double avg10;
};

/**
 * struct plan - what all tasks share
 * @mark: averages move at it, and each two seconds before and after
 * @begin: of each phase
 * @moved: in how many periods the average moved that the witness watches
 * @late: how far from a mark it did at most, in ns
 */
struct plan {
	__u64 mark;
	__u64 begin[NR_PHASES];
	int moved;
	double late;
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
		group_make(i);
		for (int nr = 0; nr < m->nr; nr++) {
			pid_t pid = group_fork(i);

			if (!pid)
				live(m, nr);
			m->pid[nr] = pid;
		}
		if (i % 500 == 499)
			ksft_print_msg("%d cgroups, each with a task\n", i + 1);
	}
}

/* ---- Where averages move, and when ---- */

static double avg10_of(const char *path)
{
	struct psi psi;

	psi_read(path, &psi);
	return psi.some.avg[AVG10] / 100.0;
}

/* A reader sees it move at the mark, and again when the fold has the last us. */
static void watch(void *arg)
{
	double last = avg10_of(arg), now;
	__u64 period = 0, since;

	for (;;) {
		sleep_for(10 * NSEC_PER_MSEC);
		now = avg10_of(arg);
		if (now == last)
			continue;
		last = now;
		since = now_ns() - plan->mark + PERIOD / 2;
		plan->late = fmax(plan->late, fabs((double)(since % PERIOD) - PERIOD / 2));
		plan->moved += since / PERIOD != period;
		period = since / PERIOD;
	}
}

static void find_mark(void)
{
	pid_t pair[2];
	double first;

	spin_pair_start(pair, NULL);
	sleep_for(PERIOD + PERIOD / 2);
	first = avg10_of(PSI_CPU);
	while (avg10_of(PSI_CPU) == first)
		sleep_for(NSEC_PER_MSEC);
	plan->mark = now_ns();
	spin_pair_stop(pair);
}

/* ---- Reading ---- */

/* The totals of a cgroup, or of the system, looked over. */
static void read_group(const char *path, struct pressure *p)
{
	pressure_read(path, p);
	for (int r = 0; r < NR_RESOURCES; r++)
		expect(p->some[r] <= now_ns() && p->full[r] <= p->some[r] + NSEC_PER_USEC,
		       "%s: full %llu, some %llu, elapsed %llu ns", path ?: "system", p->full[r],
		       p->some[r], now_ns());
}

static __u64 member_wait(const struct member *m)
{
	return task_wait_ns(m->pid[0]) + (m->nr > 1 ? task_wait_ns(m->pid[1]) : 0);
}

static __u64 member_exact(int i)
{
	return psi_stat_total(path_of(i, "cgroup.pressure.stat"), "cpu.exact.some") * NSEC_PER_USEC;
}

static struct {
	struct pressure p;
	__u64 exact;
} before;	/* of the system */

static void read_before(void)
{
	for (int i = 0; i < nr_members; i++) {
		struct member *m = &members[i];

		read_group(path_of(i, ""), &m->before);
		if (m->roams)
			m->exact = member_exact(i);
		m->wait = member_wait(m);
	}
	read_group(NULL, &before.p);
	before.exact = psi_stat_total(PSI_STAT, "cpu.exact.some");
}

/* At the end of a phase: averages as they are before the next mark. */
static void read_averages(enum phase phase)
{
	__u64 end = plan->begin[phase] + length[phase];

	sleep_until(end);
	for (int i = 0; i < nr_members; i++)
		members[i].avg10 = avg10_of(path_of(i, "cpu.pressure"));
	if (now_ns() >= end - AFTER + PERIOD)
		psi_die("the machine is too slow to read all averages in a period");
}

/* The fold has all of a phase. */
static void sleep_after(enum phase phase)
{
	sleep_until(plan->begin[phase] + length[phase] + PERIOD + NSEC_PER_SEC);
}

/* ---- Checks ---- */

static bool near(double value, double oracle, double share, double least)
{
	return fabs(value - oracle) <= oracle * share + least;
}

/* What a group has of cpu, and its tasks' wait, since read_before(), in ns. */
struct growth {
	double some, full, wait;
};

static struct growth growth_of(int i)
{
	const struct member *m = &members[i];
	struct growth g;
	struct pressure p;

	read_group(path_of(i, ""), &p);
	g.wait = member_wait(m) - m->wait;
	g.some = p.some[RES_CPU] - m->before.some[RES_CPU];
	g.full = p.full[RES_CPU] - m->before.full[RES_CPU];
	expect(p.some[RES_MEMORY] == m->before.some[RES_MEMORY], "%d: memory pressure", i);
	expect(p.some[RES_IO] == m->before.some[RES_IO], "%d: io pressure", i);
	return g;
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

/* All groups of sleepers that roam, or do not, by their tasks' clocks. */
static void test_waits(bool roams, __u64 length, const char *sentence)
{
	double most = 0, worst = 0, sum = 0, least = roams ? length / 500 : NSEC_PER_MSEC;
	int nr = 0;

	for (int i = 0; i < nr_members; i++) {
		struct member *m = &members[i];
		struct growth g;

		if (m->kind != SLEEPERS || m->roams != roams)
			continue;
		g = growth_of(i);
		if (roams) {
			expect(g.some <= g.wait + NSEC_PER_MSEC,
			       "%d: plain some %.6f s, its task waited %.6f s", i, g.some / 1e9,
			       g.wait / 1e9);
			g.some = member_exact(i) - m->exact;
			g.full = g.some;
		}
		expect(near(g.some, g.wait, 0.01, least) && near(g.full, g.wait, 0.01, least),
		       "%d: some %.6f s, full %.6f s, its task waited %.6f s", i, g.some / 1e9,
		       g.full / 1e9, g.wait / 1e9);
		nr++;
		sum += g.wait;
		most = fmax(most, g.wait);
		worst = fmax(worst, fabs(g.some - g.wait));
	}
	ksft_print_msg("figures: %d tasks waited %.1f s in all, %.3f s at most; some is %.0f us off at most\n",
		       nr, sum / 1e9, most / 1e9, worst / 1e3);
	expect(nr && most > length / 1000, "the load is no load");
	test_result(sentence);
}

static void test_averages(enum kind kind, __u64 length, const char *sentence)
{
	double worst = 0;

	for (int i = 0; i < nr_members; i++) {
		struct member *m = &members[i];
		double oracle = kind == SPINNERS ? average_full(length) : average_of(m);

		if (m->kind != kind || m->roams)
			continue;
		expect(near(m->avg10, oracle, 0.01, 0.02),
		       "%d: avg10 is %.2f, must be %.2f", i, m->avg10, oracle);
		worst = fmax(worst, fabs(m->avg10 - oracle));
	}
	ksft_print_msg("figures: averages are %.3f points off at most\n", worst);
	test_result(sentence);
}

/* Two spinners are 100 %. Both wait while others run, for as long as those say. */
static void test_spinners(__u64 length)
{
	for (int i = cpus; i < 2 * cpus; i++) {
		struct growth g = growth_of(i);

		expect(near(g.some, length, 0.02, 0), "%d: some %.6f s, must be %.6f s", i,
		       g.some / 1e9, length / 1e9);
		expect(near(g.some + g.full, g.wait, 0.01, NSEC_PER_MSEC),
		       "%d: some %.6f s, full %.6f s, both tasks waited %.6f s", i,
		       g.some / 1e9, g.full / 1e9, g.wait / 1e9);
	}
	test_result("and 100 % of their cgroups");
}

/* @percent of a phase, since read_before(). */
static void test_system(enum phase phase, double percent, const char *sentence)
{
	double oracle = percent / 100 * length[phase], some, exact;
	struct pressure p;

	read_group(NULL, &p);
	some = p.some[RES_CPU] - before.p.some[RES_CPU];
	exact = (psi_stat_total(PSI_STAT, "cpu.exact.some") - before.exact) * NSEC_PER_USEC;
	ksft_print_msg("figures: system: some grew by %.4f s, exact some by %.4f s, must be %.4f s\n",
		       some / 1e9, exact / 1e9, oracle / 1e9);
	expect(near(some, oracle, 0.02, 0) && near(exact, oracle, 0.02, 0), "over 2 %% off");
	expect(!p.full[RES_CPU], "the system has full of cpu");
	test_result(sentence);
}

/* What the thread that folds did so far: how often it ran, and for how long. */
static void folder_read(__u64 *wakes, __u64 *run)
{
	char path[64];
	pid_t pid;

	if (kernel_threads("psi", &pid, 1) != 1)
		psi_die("there is no thread that folds, or more than one");
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	*wakes = file_number(path, "\nvoluntary_ctxt_switches:");
	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	*run = file_number(path, "");
}

/* Sleeps through the first phase. */
static void test_fold(const struct load *witness)
{
	__u64 periods = length[WAITS] / PERIOD, wakes, now_wakes, run, now_run;
	pid_t watcher;

	sleep_until(plan->begin[WAITS] - AFTER / 2);
	watcher = load_start(witness);
	folder_read(&wakes, &run);
	sleep_until(plan->begin[WAITS] + length[WAITS] - AFTER / 2);
	folder_read(&now_wakes, &now_run);
	load_stop(watcher);
	wakes = now_wakes - wakes;
	ksft_print_msg("figures: the fold ran %llu times in %llu periods, for %.3f ms each\n",
		       wakes, periods, (double)(now_run - run) / periods / NSEC_PER_MSEC);
	/* Its clock and the timer's differ: it may wake up early once, and sleep again. */
	expect(wakes >= periods && wakes <= 2 * periods, "it ran %llu times", wakes);
	test_result("the fold keeps its period");
	ksft_print_msg("averages moved in %d periods, at most %.3f s off\n", plan->moved,
		       plan->late / 1e9);
	expect(plan->moved == (int)periods && plan->late <= LATE, "not in each, or not at a mark");
	test_result("averages move every 2 s and at no other time");
}

/* Begins after a mark, @later than now at least. */
static __u64 phase_begins(__u64 later)
{
	__u64 at = now_ns() + later;

	return at + PERIOD - (at - plan->mark) % PERIOD + AFTER;
}

/* Lets the members begin, when it is known when phases do. */
static void make_plan(void)
{
	/* Averages forget how all began. */
	plan->begin[WAITS] = phase_begins(15 * PERIOD);
	plan->begin[ALL] = plan->begin[WAITS] + length[WAITS] + 10 * PERIOD;
	plan->begin[HALF] = plan->begin[ALL] + length[ALL] + 10 * PERIOD;
	close(start[0]);
	close(start[1]);
}

static void test_idle(void)
{
	cgroup_write(TOP, "cgroup.kill", "1");
	while (wait(NULL) > 0)
		;
	sleep_for(PERIOD + NSEC_PER_SEC);
	expect_idle(nr_members, 5 * NSEC_PER_SEC, 50 * NSEC_PER_MSEC);
	test_result("after all tasks ended nothing grows");
}

int main(int argc, char **argv)
{
	struct load witness = { .policy = SCHED_FIFO, .prio = 20, .fn = watch };

	nr_members = scale_begin(argc, argv, 13, 4, 100000);
	cpus = cpus_possible();
	members = shared_memory(nr_members * sizeof(*members));
	plan = shared_memory(sizeof(*plan));
	pin_to(0);
	set_policy(0, SCHED_FIFO, 50);
	find_mark();
	members_start();

	make_plan();
	/* A group whose task waits long. */
	witness.cpu = cpus - 1;
	witness.arg = strdup(path_of(2 * cpus, "cpu.pressure"));
	sleep_for(PERIOD);
	read_before();
	if (now_ns() > plan->begin[WAITS] - PERIOD)
		psi_die("the machine is too slow to read all files");
	ksft_print_msg("%d tasks wake up twice a second\n", nr_members);
	test_fold(&witness);
	read_averages(WAITS);
	sleep_after(WAITS);
	test_waits(false, length[WAITS], "some and full of each cgroup are what its task waited");
	test_waits(true, length[WAITS],
		   "exact some of each cgroup whose task roams is what it waited");
	test_averages(SLEEPERS, length[WAITS], "avg10 of each cgroup is what its task waited");

	read_before();
	ksft_print_msg("two tasks spin on each CPU\n");
	read_averages(ALL);
	sleep_after(ALL);
	test_system(ALL, 100, "two tasks on each CPU are 100 % of the system");
	test_spinners(length[ALL]);
	test_averages(SPINNERS, length[ALL], "avg10 of these is right");
	test_waits(false, length[ALL],
		   "some and full of each other cgroup are what its task waited");
	test_waits(true, length[ALL], "exact some is right where a task roams between them");

	read_before();
	ksft_print_msg("two tasks spin on each even CPU, one on each odd one\n");
	sleep_after(HALF);
	test_system(HALF, 50, "two tasks on every other CPU are 50 % of the system");

	test_idle();
	cgroup_remove(TOP);
	test_no_trigger();
	ksft_finished();
}
