// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information
 *
 * Tables for what can be said in a sentence; a second, dumber implementation
 * for what cannot: the states of a set of tasks counted task by task, the
 * times of a tree of groups integrated event by event.
 *
 * All times are arguments, and groups and tasks are the tests' own, but for the cases
 * under "Live", at the end.
 */
/*
 * States of a group, from the tasks in it
 */

struct psi_test_task {
	enum psi_where where;
	bool iowait;
	bool stall;
};

/* The definitions of the states, on tasks instead of attributes. */
static unsigned int psi_test_states(const struct psi_test_task *tasks, int nr)
{
	int iowait = 0, memstall = 0, running = 0, running_stall = 0;
	bool oncpu = false, oncpu_stall = false;
	unsigned int states = 0;
	int i;

	for (i = 0; i < nr; i++) {
		const struct psi_test_task *t = &tasks[i];

		memstall += t->stall;
		if (t->where == PSI_ASLEEP) {
			iowait += t->iowait;
			continue;
		}
		running++;
		running_stall += t->stall;
		if (t->where == PSI_RUNS) {
			oncpu = true;
			oncpu_stall = t->stall;
		}
	}

	if (iowait || memstall || running)
		states |= BIT(PSI_NONIDLE);
	if (running > oncpu)
		states |= BIT(PSI_CPU_SOME);
	if (running && !oncpu)
		states |= BIT(PSI_CPU_FULL);
	if (oncpu && IS_ENABLED(CONFIG_IRQ_TIME_ACCOUNTING))
		states |= BIT(PSI_IRQ_FULL);
	if (iowait)
		states |= BIT(PSI_IO_SOME);
	if (iowait && !running)
		states |= BIT(PSI_IO_FULL);
	if (memstall)
		states |= BIT(PSI_MEM_SOME);
	if (memstall && (running == running_stall || oncpu_stall))
		states |= BIT(PSI_MEM_FULL);
	return states;
}

static unsigned int psi_test_attrs(const struct psi_test_task *t)
{
	return psi_attrs_for(t->where, t->iowait * PSI_IOWAIT + t->stall * PSI_MEMSTALL, t->stall);
}

static struct psi_counts psi_test_counts(const struct psi_test_task *tasks, int nr)
{
	struct psi_counts sum = { };
	int i;

	for (i = 0; i < nr; i++)
		sum = psi_counts_add(sum, psi_counts_of(psi_test_attrs(&tasks[i])));
	return sum;
}

static unsigned int psi_test_attrs_of(struct psi_counts counts)
{
	return psi_sched_attrs_of(counts.sched) | psi_stall_attrs_of(counts.stall);
}

#define PSI_TEST_IRQ	(IS_ENABLED(CONFIG_IRQ_TIME_ACCOUNTING) << PSI_IRQ_FULL)

static const struct psi_test_states_row {
	const char *desc;
	struct psi_test_task tasks[3];
	int nr;
	unsigned int states;
} psi_test_states_rows[] = {
	{ "nobody: idle", { }, 0, 0 },
	{ "a sleeper is idle", { { PSI_ASLEEP } }, 1, 0 },
	{ "a task alone on the CPU stalls on nothing", { { PSI_RUNS } }, 1,
	  BIT(PSI_NONIDLE) | PSI_TEST_IRQ },
	{ "one on the CPU, one behind it: cpu some", { { PSI_RUNS }, { PSI_QUEUED } }, 2,
	  BIT(PSI_NONIDLE) | BIT(PSI_CPU_SOME) | PSI_TEST_IRQ },
	{ "waiting while others have the CPU: cpu full", { { PSI_QUEUED } }, 1,
	  BIT(PSI_NONIDLE) | BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL) },
	{ "everybody waits for io: io full", { { PSI_ASLEEP, .iowait = true } }, 1,
	  BIT(PSI_NONIDLE) | BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL) },
	{ "one waits for io, one runs: io some",
	  { { PSI_ASLEEP, .iowait = true }, { PSI_RUNS } }, 2,
	  BIT(PSI_NONIDLE) | BIT(PSI_IO_SOME) | PSI_TEST_IRQ },
	{ "one waits for io, one for the CPU: io some, cpu full",
	  { { PSI_ASLEEP, .iowait = true }, { PSI_QUEUED } }, 2,
	  BIT(PSI_NONIDLE) | BIT(PSI_IO_SOME) | BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL) },
	{ "in_iowait of a task that runs is not io", { { PSI_RUNS, .iowait = true } }, 1,
	  BIT(PSI_NONIDLE) | PSI_TEST_IRQ },
	{ "asleep in a memory stall, alone: mem full", { { PSI_ASLEEP, .stall = true } }, 1,
	  BIT(PSI_NONIDLE) | BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL) },
	{ "swapping in counts as io and memory",
	  { { PSI_ASLEEP, .iowait = true, .stall = true } }, 1,
	  BIT(PSI_NONIDLE) | BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL) |
	  BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL) },
	{ "asleep in a memory stall, another works: mem some",
	  { { PSI_ASLEEP, .stall = true }, { PSI_RUNS } }, 2,
	  BIT(PSI_NONIDLE) | BIT(PSI_MEM_SOME) | PSI_TEST_IRQ },
	{ "the CPU reclaims: mem full", { { PSI_RUNS, .stall = true } }, 1,
	  BIT(PSI_NONIDLE) | BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL) | PSI_TEST_IRQ },
	{ "the CPU reclaims, a productive task waits: mem full, cpu some",
	  { { PSI_RUNS, .stall = true }, { PSI_QUEUED } }, 2,
	  BIT(PSI_NONIDLE) | BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL) | BIT(PSI_CPU_SOME) |
	  PSI_TEST_IRQ },
	{ "a reclaimer waits, the CPU works: mem some, cpu some",
	  { { PSI_QUEUED, .stall = true }, { PSI_RUNS } }, 2,
	  BIT(PSI_NONIDLE) | BIT(PSI_MEM_SOME) | BIT(PSI_CPU_SOME) | PSI_TEST_IRQ },
	{ "a reclaimer and a worker wait, the CPU is elsewhere: mem some, cpu full",
	  { { PSI_QUEUED, .stall = true }, { PSI_QUEUED } }, 2,
	  BIT(PSI_NONIDLE) | BIT(PSI_MEM_SOME) | BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL) },
	{ "only reclaimers wait: mem full, cpu full",
	  { { PSI_QUEUED, .stall = true }, { PSI_QUEUED, .stall = true } }, 2,
	  BIT(PSI_NONIDLE) | BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL) |
	  BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL) },
	{ "three kinds of trouble at once",
	  { { PSI_ASLEEP, .iowait = true }, { PSI_QUEUED, .stall = true }, { PSI_RUNS } }, 3,
	  BIT(PSI_NONIDLE) | BIT(PSI_IO_SOME) | BIT(PSI_MEM_SOME) | BIT(PSI_CPU_SOME) |
	  PSI_TEST_IRQ },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_states_rows, psi_test_states_rows, desc);

static void psi_test_states_table(struct kunit *test)
{
	const struct psi_test_states_row *row = test->param_value;
	unsigned int attrs = psi_test_attrs_of(psi_test_counts(row->tasks, row->nr));

	KUNIT_EXPECT_EQ(test, psi_test_states(row->tasks, row->nr), row->states);
	KUNIT_EXPECT_EQ(test, psi_states[attrs], row->states);
}

/* Every set of up to four tasks of which at most one is on the CPU. */
static void psi_test_states_exhaustive(struct kunit *test)
{
	enum { NR = 4, KINDS = 3 * 2 * 2 };
	unsigned int code, last = KINDS * KINDS * KINDS * KINDS;

	for (code = 0; code < last; code++) {
		struct psi_test_task tasks[NR];
		unsigned int c = code, attrs;
		int i, oncpu = 0;

		cond_resched();
		for (i = 0; i < NR; i++, c /= KINDS) {
			tasks[i].where = c % 3;
			tasks[i].iowait = c % KINDS / 3 & 1;
			tasks[i].stall = c % KINDS / 6;
			oncpu += tasks[i].where == PSI_RUNS;
		}
		if (oncpu > 1)
			continue;
		attrs = psi_test_attrs_of(psi_test_counts(tasks, NR));
		if (psi_states[attrs] != psi_test_states(tasks, NR)) {
			KUNIT_FAIL(test, "set %u: states %#x, by definition %#x", code,
				   psi_states[attrs], psi_test_states(tasks, NR));
			return;
		}
	}
}

static void psi_test_full_implies_some(struct kunit *test)
{
	unsigned int attrs;

	for (attrs = 0; attrs < PSI_NR_ATTR_SETS; attrs++) {
		unsigned int s = psi_states[attrs];

		KUNIT_EXPECT_LE(test, s >> PSI_CPU_FULL & 1, s >> PSI_CPU_SOME & 1);
		KUNIT_EXPECT_LE(test, s >> PSI_IO_FULL & 1, s >> PSI_IO_SOME & 1);
		KUNIT_EXPECT_LE(test, s >> PSI_MEM_FULL & 1, s >> PSI_MEM_SOME & 1);
		KUNIT_EXPECT_EQ(test, s >> PSI_NONIDLE & 1, !!attrs &&
				attrs != PSI_PRODUCTIVE && attrs != PSI_ONCPU_STALL &&
				attrs != (PSI_PRODUCTIVE | PSI_ONCPU_STALL));
	}
}

/* A billion tasks in one lane leave the lanes beside it alone. */
static void psi_test_lanes_hold_all_tasks(struct kunit *test)
{
	unsigned int lane;

	for (lane = 0; lane < 6; lane++) {
		struct psi_counts one = psi_counts_of(BIT(lane)), many;
		u64 nr = BIT(lane) & (PSI_ONCPU | PSI_ONCPU_STALL) ? 1 : (1ULL << 30) - 1;

		many.sched = one.sched * nr;
		many.stall = one.stall * nr;
		KUNIT_EXPECT_EQ(test, psi_test_attrs_of(many), BIT(lane));
	}
	KUNIT_EXPECT_EQ(test, psi_test_attrs_of(psi_counts_of(PSI_NR_ATTR_SETS - 1)),
			PSI_NR_ATTR_SETS - 1);
}

/*
 * Averages
 */

#define PSI_TEST_START		(7 * PSI_PERIOD)

/* An average in parts per billion. */
static u64 psi_test_ppb(u32 avg)
{
	return ((u64)avg * NSEC_PER_SEC) >> PSI_AVG_SHIFT;
}

static struct psi_avgs *psi_test_avgs(struct kunit *test, u64 start)
{
	struct psi_avgs *avgs = kunit_kzalloc(test, sizeof(*avgs), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, avgs);
	psi_avgs_init(avgs, start);
	return avgs;
}

/* Advance by @len ns of which @stall were spent in every state. */
static void psi_test_advance(struct psi_avgs *avgs, u64 len, u64 stall)
{
	u64 window[PSI_NR_STATES];
	int s;

	for (s = 0; s < PSI_NR_STATES; s++)
		window[s] = stall;
	psi_avgs_advance(avgs, avgs->at + len, window);
}

/*
 * share * (1 - e^on) * e^off in double precision, e = exp(-2 / tau), in ppb
 */
static const struct psi_test_avgs_row {
	const char *desc;
	u32 share_ppm;
	u32 on;
	u32 off;
	u32 want[PSI_NR_HORIZONS];
} psi_test_avgs_rows[] = {
	{ "one full period", 1000000, 1, 0,
	  { 181269247, 32783900, 6644494 } },
	{ "ten seconds of full stall", 1000000, 5, 0,
	  { 632120559, 153518275, 32783900 } },
	{ "a minute at a half", 500000, 30, 0,
	  { 498760624, 316060279, 90634623 } },
	{ "a steady 0.05 %", 500, 3000, 0,
	  { 500000, 500000, 500000 } },
	{ "a steady 0.485 %", 4850, 3000, 0,
	  { 4850000, 4850000, 4850000 } },
	{ "a steady 33.3333 %", 333333, 3000, 0,
	  { 333333000, 333333000, 333332999 } },
	{ "full stall for good", 1000000, 3000, 0,
	  { 1000000000, 1000000000, 999999998 } },
	{ "full stall, then ten idle seconds", 1000000, 3000, 5,
	  { 367879441, 846481725, 967216098 } },
	{ "full stall, then an idle minute", 1000000, 3000, 30,
	  { 2478752, 367879441, 818730751 } },
	{ "full stall, then five idle minutes", 1000000, 3000, 150,
	  { 0, 6737947, 367879440 } },
	{ "full stall, then two idle hours", 1000000, 3000, 3600,
	  { 0, 0, 0 } },
	{ "0.05 %, then a period", 500, 3000, 1,
	  { 409365, 483608, 496678 } },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_avgs_rows, psi_test_avgs_rows, desc);

static void psi_test_avgs_oracle(struct kunit *test)
{
	const struct psi_test_avgs_row *row = test->param_value;
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	u32 i;
	int h;

	for (i = 0; i < row->on; i++)
		psi_test_advance(avgs, PSI_PERIOD, row->share_ppm * 2000ULL);
	for (i = 0; i < row->off; i++)
		psi_test_advance(avgs, PSI_PERIOD, 0);

	/* 100 ppb is 0.00001 %, 2000 times less than what users are promised */
	for (h = 0; h < PSI_NR_HORIZONS; h++)
		KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_IO_SOME][h]),
					       (u64)row->want[h]), 100);
}

/* After a stall averages come to zero, period by period; those cost nothing. */
static void psi_test_avgs_end(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	int i;

	psi_test_advance(avgs, PSI_PERIOD, PSI_PERIOD);
	for (i = 0; i < 4000; i++)
		psi_test_advance(avgs, PSI_PERIOD, 0);
	KUNIT_EXPECT_TRUE(test, psi_avgs_zero(avgs, PSI_CPU_SOME, 0));
}

/* What a group stalled since it joined the clock's list is none of the idle time before. */
static void psi_test_avgs_joined(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	u64 stall[PSI_NR_STATES] = { [PSI_CPU_SOME] = PSI_PERIOD / 2 };
	u64 joined = PSI_TEST_START + 10 * PSI_PERIOD;

	/* (1 - exp(-2 / 10)) / 2 */
	psi_avgs_update(avgs, joined, joined + PSI_PERIOD, stall);
	KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_CPU_SOME][PSI_10S]),
				       90634623ULL), 200);

	/* It did not leave since: when it joined says nothing about the second window. */
	psi_avgs_update(avgs, joined, joined + 2 * PSI_PERIOD, stall);
	KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_CPU_SOME][PSI_10S]),
				       164839977ULL), 200);
}

/* Idle periods in closed form, against one by one. */
static void psi_test_avgs_idle_gap(struct kunit *test)
{
	struct psi_avgs *one = psi_test_avgs(test, PSI_TEST_START);
	struct psi_avgs *all = psi_test_avgs(test, PSI_TEST_START);
	int i, h;

	for (i = 0; i < 100; i++) {
		psi_test_advance(one, PSI_PERIOD, PSI_PERIOD);
		psi_test_advance(all, PSI_PERIOD, PSI_PERIOD);
	}
	for (i = 0; i < 77; i++)
		psi_test_advance(one, PSI_PERIOD, 0);
	psi_avgs_advance(all, all->at + 77 * PSI_PERIOD, NULL);

	KUNIT_EXPECT_EQ(test, one->mark, all->mark);
	for (h = 0; h < PSI_NR_HORIZONS; h++)
		KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(one->avg[PSI_CPU_SOME][h]),
					       psi_test_ppb(all->avg[PSI_CPU_SOME][h])), 200);
}

/* A fold that is a minute late, against folds on time. */
static void psi_test_avgs_late_fold(struct kunit *test)
{
	struct psi_avgs *late = psi_test_avgs(test, PSI_TEST_START + PSI_PERIOD / 3);
	struct psi_avgs *time = psi_test_avgs(test, PSI_TEST_START + PSI_PERIOD / 3);
	int i, h;

	for (i = 0; i < 30; i++)
		psi_test_advance(time, PSI_PERIOD, PSI_PERIOD / 4);
	psi_test_advance(late, 30 * PSI_PERIOD, 30 * PSI_PERIOD / 4);

	KUNIT_EXPECT_EQ(test, time->mark, late->mark);
	KUNIT_EXPECT_EQ(test, time->pending[PSI_IO_FULL], late->pending[PSI_IO_FULL]);
	for (h = 0; h < PSI_NR_HORIZONS; h++)
		KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(time->avg[PSI_IO_FULL][h]),
					       psi_test_ppb(late->avg[PSI_IO_FULL][h])), 200);
}

/* Folds up to 60 ms late do not move the average of a steady pressure. */
static void psi_test_avgs_jitter(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	const u32 *avg = &avgs->avg[PSI_IO_SOME][PSI_10S];
	struct rnd_state rnd;
	int i, h;

	prandom_seed_state(&rnd, 2026);
	for (i = 0; i < 2000; i++) {
		u64 at = avgs->mark + prandom_u32_state(&rnd) % (60 * NSEC_PER_MSEC);
		u64 len = at - avgs->at;

		psi_test_advance(avgs, len, div_u64(len * 57, 100));
		if (i > 100)
			KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(*avg), 570000000ULL), 200);
	}
	for (h = 0; h < PSI_NR_HORIZONS; h++)
		KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_IO_SOME][h]),
					       570000000ULL), 2000);
}

/* More stall than fits a period is kept for the next ones, to the last ns. */
static void psi_test_avgs_carry(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	u32 *avg = avgs->avg[PSI_MEM_SOME];
	u32 full;

	psi_test_advance(avgs, PSI_PERIOD, 2 * PSI_PERIOD + PSI_PERIOD / 2);
	full = avg[PSI_10S];
	KUNIT_EXPECT_EQ(test, avgs->pending[PSI_MEM_SOME], PSI_PERIOD + PSI_PERIOD / 2);

	psi_test_advance(avgs, PSI_PERIOD, 0);
	KUNIT_EXPECT_GT(test, avg[PSI_10S], full);
	KUNIT_EXPECT_EQ(test, avgs->pending[PSI_MEM_SOME], PSI_PERIOD / 2);

	psi_test_advance(avgs, PSI_PERIOD, 0);
	KUNIT_EXPECT_EQ(test, avgs->pending[PSI_MEM_SOME], 0);

	full = avg[PSI_10S];
	psi_test_advance(avgs, PSI_PERIOD, 0);
	KUNIT_EXPECT_LT(test, avg[PSI_10S], full);
}

/* Within a period stall is collected, whatever the number of windows. */
static void psi_test_avgs_collect(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	int i;

	for (i = 0; i < 999; i++)
		psi_test_advance(avgs, PSI_PERIOD / 1000, PSI_PERIOD / 3000);
	KUNIT_EXPECT_EQ(test, avgs->avg[PSI_CPU_SOME][PSI_10S], 0);
	KUNIT_EXPECT_EQ(test, avgs->pending[PSI_CPU_SOME], 999 * (PSI_PERIOD / 3000));
}

/* A clock of another CPU may be behind: nothing is lost, time stands still. */
static void psi_test_avgs_clock_behind(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	u64 window[PSI_NR_STATES] = { [PSI_IO_SOME] = 5 };

	psi_avgs_advance(avgs, PSI_TEST_START - 1000, window);
	KUNIT_EXPECT_EQ(test, avgs->at, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, avgs->pending[PSI_IO_SOME], 5);
}

static void psi_test_avgs_years_of_uptime(struct kunit *test)
{
	u64 years = 30ULL * 365 * 24 * 3600 * NSEC_PER_SEC;
	struct psi_avgs *avgs = psi_test_avgs(test, years);

	KUNIT_EXPECT_EQ(test, avgs->mark, years + PSI_PERIOD);
	psi_test_advance(avgs, 1000 * PSI_PERIOD, 500 * PSI_PERIOD);
	KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_IO_SOME][PSI_10S]),
				       500000000ULL), 100);
	psi_avgs_advance(avgs, avgs->at + years, NULL);
	KUNIT_EXPECT_EQ(test, avgs->avg[PSI_IO_SOME][PSI_300S], 0);
}

static const struct psi_test_print_row {
	const char *desc;
	u32 avg;
	unsigned int want;
} psi_test_print_rows[] = {
	{ "nothing is 0.00", 0, 0 },
	{ "all is 100.00", PSI_AVG_ONE, 10000 },
	{ "a half is 50.00", PSI_AVG_ONE / 2, 5000 },
	{ "0.004 % is 0.00", 85899, 0 },
	{ "0.005 % is 0.01", 107375, 1 },
	{ "99.994 % is 99.99", 2147354799U, 9999 },
	{ "99.996 % is 100.00", 2147397748U, 10000 },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_print_rows, psi_test_print_rows, desc);

static void psi_test_print(struct kunit *test)
{
	const struct psi_test_print_row *row = test->param_value;

	KUNIT_EXPECT_EQ(test, psi_avg_basis_points(row->avg), row->want);
}

/*
 * Pressure of a window
 */

#define PSI_TEST_SEC	((u64)NSEC_PER_SEC)

static const struct psi_test_window_row {
	const char *desc;
	struct { u64 stall, weight; } cpu[4];
	u64 want;
} psi_test_window_rows[] = {
	{ "no CPU in use: none", { }, 0 },
	{ "one CPU: its own time", { { 500, 1000 } }, 500 },
	{ "an idle CPU does not dilute", { { 500, 1000 }, { 0, 0 } }, 500 },
	{ "a busy CPU dilutes by its weight",
	  { { 2 * PSI_TEST_SEC, 2 * PSI_TEST_SEC }, { 0, PSI_TEST_SEC } }, 1333333333 },
	{ "equal CPUs: the mean",
	  { { 100, 1000 }, { 200, 1000 }, { 300, 1000 }, { 400, 1000 } }, 250 },
	{ "a minute without a fold",
	  { { 60 * PSI_TEST_SEC, 60 * PSI_TEST_SEC }, { 30 * PSI_TEST_SEC, 60 * PSI_TEST_SEC } },
	  45 * PSI_TEST_SEC },
	{ "ten days without a fold",
	  { { 864000 * PSI_TEST_SEC, 864000 * PSI_TEST_SEC }, { 0, 864000 * PSI_TEST_SEC } },
	  432000 * PSI_TEST_SEC },
	{ "1 us next to a minute is not lost",
	  { { 0, 60 * PSI_TEST_SEC }, { 1000, 60 * PSI_TEST_SEC } }, 500 },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_window_rows, psi_test_window_rows, desc);

static u64 psi_test_window_sum(const struct psi_test_window_row *row, int first, int step)
{
	u64 stall[PSI_NR_STATES] = { }, weight = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(row->cpu); i++, first += step) {
		u64 times[PSI_NR_STATES] = {
			[PSI_NONIDLE]	= row->cpu[first].weight,
			[PSI_MEM_FULL]	= row->cpu[first].stall,
		};

		psi_add_cpu(stall, &weight, times);
	}
	return stall[PSI_MEM_FULL];
}

/* Each of four CPUs rounds down by less than 2 ns. */
static void psi_test_window(struct kunit *test)
{
	const struct psi_test_window_row *row = test->param_value;
	u64 up = psi_test_window_sum(row, 0, 1);
	u64 down = psi_test_window_sum(row, ARRAY_SIZE(row->cpu) - 1, -1);

	KUNIT_EXPECT_LE(test, up, row->want);
	KUNIT_EXPECT_LE(test, row->want - up, 8);
	KUNIT_EXPECT_LE(test, down, row->want);
	KUNIT_EXPECT_LE(test, row->want - down, 8);
}

/* 4096 CPUs, each a minute in the state. PSI_SLACK_NS is made of what may be lost. */
static void psi_test_window_many_cpus(struct kunit *test)
{
	u64 stall[PSI_NR_STATES] = { }, weight = 0, times[PSI_NR_STATES];
	u64 want = 60 * PSI_TEST_SEC;
	int i;

	for (i = 0; i < PSI_NR_STATES; i++)
		times[i] = want;
	for (i = 0; i < 4096; i++)
		psi_add_cpu(stall, &weight, times);
	KUNIT_EXPECT_EQ(test, weight, 4096 * want);
	KUNIT_EXPECT_LE(test, stall[PSI_IO_SOME], want);
	KUNIT_EXPECT_LE(test, want - stall[PSI_IO_SOME], 2 * 4096);
}

/*
 * The model: a tree of groups on two CPUs, tasks that do whatever tasks may
 * do, and after each event a recount from scratch.
 */

#define PSI_TEST_GROUPS		9
#define PSI_TEST_TASKS		24
#define PSI_TEST_CPUS		2
#define PSI_TEST_EVENTS		20000

/*
 *	    0
 *	  /   \
 *	 1     2
 *	/ \    |
 *     3   4   5
 *     |       |
 *     6       7 - 8 (8 below 7)
 */
static const int psi_test_parent[PSI_TEST_GROUPS] = { -1, 0, 0, 1, 1, 2, 3, 5, 7 };

struct psi_test_model_task {
	struct psi_task psi;
	struct psi_test_task is;
	int cpu;
	int group;
};

struct psi_test_model {
	struct kunit *test;
	struct rnd_state rnd;
	u64 now;
	int cpus[PSI_TEST_CPUS];
	struct psi_group groups[PSI_TEST_GROUPS];
	struct psi_test_model_task tasks[PSI_TEST_TASKS];
	bool off[PSI_TEST_GROUPS];
	int parent[PSI_TEST_GROUPS];	/* the next above that is not off */
	int nr;			/* tasks that do something */
	int delegated;
	/* what the oracle knows: states by definition, and their times */
	unsigned int states[PSI_TEST_GROUPS][PSI_TEST_CPUS];
	u64 times[PSI_TEST_GROUPS][PSI_TEST_CPUS][PSI_NR_STATES];
};

static bool psi_test_below(int group, int ancestor)
{
	while (group >= 0 && group != ancestor)
		group = psi_test_parent[group];
	return group == ancestor;
}

static int psi_test_level(int group)
{
	int level;

	for (level = 0; psi_test_parent[group] >= 0; level++)
		group = psi_test_parent[group];
	return level;
}

static void psi_test_model_exit(void *data)
{
	struct psi_test_model *m = data;
	int g;

	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		free_percpu(m->groups[g].cpus);
		free_cpumask_var(m->groups[g].cpumask);
	}
}

static struct psi_test_model *psi_test_model_init(struct kunit *test, u64 start)
{
	struct psi_test_model *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	int g, c, t, cpu = -1;

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->test = test;
	m->now = start;
	prandom_seed_state(&m->rnd, 4711);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, psi_test_model_exit, m), 0);

	/* On one CPU the two are the same, and nothing migrates. */
	for (c = 0; c < PSI_TEST_CPUS; c++) {
		int next = cpumask_next(cpu, cpu_possible_mask);

		if (next < nr_cpu_ids)
			cpu = next;
		m->cpus[c] = cpu;
	}
	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		struct psi_group *group = &m->groups[g];

		group->cpus = alloc_percpu(struct psi_cpu);
		KUNIT_ASSERT_NOT_NULL(test, (void __force *)group->cpus);
		KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&group->cpumask, GFP_KERNEL));
		psi_group_init(group, g ? &m->groups[psi_test_parent[g]] : NULL,
			       psi_test_level(g));
		m->parent[g] = psi_test_parent[g];
		/* the clock of the system is not to see these */
		atomic_set(&group->listed, 1);
	}
	for (t = 0; t < PSI_TEST_TASKS; t++) {
		m->tasks[t].group = prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS;
		m->tasks[t].psi.group = &m->groups[m->tasks[t].group];
	}
	return m;
}

static struct psi_test_model_task *psi_test_model_running(struct psi_test_model *m, int cpu)
{
	int t;

	for (t = 0; t < PSI_TEST_TASKS; t++)
		if (m->tasks[t].cpu == cpu && m->tasks[t].is.where == PSI_RUNS)
			return &m->tasks[t];
	return NULL;
}

/* Count a task as @attrs. The write section of the CPU is a real one, and its lock too. */
static void psi_test_model_change(struct psi_test_model *m, struct psi_test_model_task *t,
				  unsigned int attrs)
{
	int cpu = m->cpus[t->cpu];
	struct rq_flags rf;

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&t->psi, attrs, cpu, m->now);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
}

static void psi_test_model_set(struct psi_test_model *m, struct psi_test_model_task *t)
{
	psi_test_model_change(m, t, psi_test_attrs(&t->is));
}

/* Count a task in another group. */
static void psi_test_model_regroup(struct psi_test_model *m, struct psi_test_model_task *t, int to)
{
	int cpu = m->cpus[t->cpu];
	struct rq_flags rf;

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_regroup(&t->psi, &m->groups[to], cpu, m->now);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
}

/* The CPU goes on to @next, or to idle; @where says what becomes of the current task. */
static void psi_test_model_switch(struct psi_test_model *m, int cpu,
				  struct psi_test_model_task *next, enum psi_where where)
{
	struct psi_test_model_task *prev = psi_test_model_running(m, cpu);
	struct rq *rq = cpu_rq(m->cpus[cpu]);
	struct rq_flags rf;

	if (prev)
		prev->is.where = where;
	if (next)
		next->is.where = PSI_RUNS;
	if (!prev || !next) {
		if (prev || next)
			psi_test_model_set(m, prev ?: next);
		return;
	}
	rq_lock_irqsave(rq, &rf);
	psi_change_two(&prev->psi, psi_test_attrs(&prev->is),
		       &next->psi, psi_test_attrs(&next->is), m->cpus[cpu], m->now);
	rq_unlock_irqrestore(rq, &rf);
}

static struct psi_test_model_task *psi_test_model_queued(struct psi_test_model *m, int cpu)
{
	int first = prandom_u32_state(&m->rnd) % PSI_TEST_TASKS, i;

	for (i = 0; i < PSI_TEST_TASKS; i++) {
		struct psi_test_model_task *t = &m->tasks[(first + i) % PSI_TEST_TASKS];

		if (t->cpu == cpu && t->is.where == PSI_QUEUED)
			return t;
	}
	return NULL;
}

/* Where what belongs to a group is counted. */
static int psi_test_model_home(struct psi_test_model *m, int g)
{
	while (g && m->off[g])
		g = psi_test_parent[g];
	return g;
}

/* A group is switched off, or on again. */
static void psi_test_model_toggle(struct psi_test_model *m, int group)
{
	int cpus = m->cpus[0] == m->cpus[1] ? 1 : PSI_TEST_CPUS;
	int g, c, t;

	m->off[group] = !m->off[group];
	for (c = 0; c < cpus; c++)
		psi_keep(per_cpu_ptr(m->groups[group].cpus, m->cpus[c]), !m->off[group],
			 m->cpus[c], m->now);
	for (g = 1; g < PSI_TEST_GROUPS; g++) {
		int to = psi_test_model_home(m, psi_test_parent[g]);

		if (m->parent[g] == to)
			continue;
		m->parent[g] = to;
		for (c = 0; c < cpus; c++) {
			struct rq *rq = cpu_rq(m->cpus[c]);
			struct rq_flags rf;

			rq_lock_irqsave(rq, &rf);
			psi_adopt(per_cpu_ptr(m->groups[g].cpus, m->cpus[c]),
				  per_cpu_ptr(m->groups[to].cpus, m->cpus[c]), m->cpus[c], m->now);
			rq_unlock_irqrestore(rq, &rf);
		}
	}
	for (t = 0; t < PSI_TEST_TASKS; t++) {
		struct psi_test_model_task *task = &m->tasks[t];
		int to = psi_test_model_home(m, task->group);

		/* Now and then one stays behind, as if it were dying. */
		if (task->psi.group != &m->groups[to] && prandom_u32_state(&m->rnd) % 8)
			psi_test_model_regroup(m, task, to);
	}
}

/* The clock visits a group on a CPU, if that is on its list. */
static void psi_test_model_fold(struct psi_test_model *m, int g, int c)
{
	struct psi_cpu *pc = per_cpu_ptr(m->groups[g].cpus, m->cpus[c]);
	u64 times[PSI_NR_STATES];
	int s;

	if (!psi_listed(pc, m->cpus[c]))
		return;
	psi_take(pc, m->cpus[c], m->now, irq_time_read(m->cpus[c]), times);
	for (s = 0; s < PSI_NR_STATES; s++) {
		if (s != PSI_IRQ_FULL)
			KUNIT_EXPECT_EQ(m->test, times[s], m->times[g][c][s]);
		m->times[g][c][s] = 0;
	}
}

/* Something that may happen to a task happens. */
static void psi_test_model_event(struct psi_test_model *m)
{
	struct psi_test_model_task *t = &m->tasks[prandom_u32_state(&m->rnd) % m->nr];
	u32 what = prandom_u32_state(&m->rnd) % 8;

	if (what == 0 && prandom_u32_state(&m->rnd) % 16 == 0) {
		/* It moves to another cgroup, in whatever state it is. */
		t->group = prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS;
		psi_test_model_regroup(m, t, psi_test_model_home(m, t->group));
		return;
	}
	if (what == 1 && t->is.where != PSI_RUNS && prandom_u32_state(&m->rnd) % 16 == 0) {
		/* It migrates, asleep or queued. */
		psi_test_model_change(m, t, 0);
		if (m->cpus[0] != m->cpus[1])
			t->cpu = !t->cpu;
		psi_test_model_set(m, t);
		return;
	}
	if (what == 3 && prandom_u32_state(&m->rnd) % 8 == 0) {
		psi_test_model_fold(m, prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS, t->cpu);
		return;
	}
	if (what == 2 && prandom_u32_state(&m->rnd) % 64 == 0) {
		psi_test_model_toggle(m, prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS);
		return;
	}
	switch (t->is.where) {
	case PSI_ASLEEP:
		t->is.where = PSI_QUEUED;
		psi_test_model_set(m, t);
		break;
	case PSI_QUEUED:
		psi_test_model_switch(m, t->cpu, t, PSI_QUEUED);
		break;
	case PSI_RUNS:
		if (what < 4) {
			t->is.stall = !t->is.stall;
			psi_test_model_set(m, t);
			break;
		}
		t->is.iowait = what & 1;
		psi_test_model_switch(m, t->cpu, psi_test_model_queued(m, t->cpu), PSI_ASLEEP);
		break;
	}
}

/* What holds from now on, by definition and from scratch. */
static void psi_test_model_recount(struct psi_test_model *m, int g, int c)
{
	struct psi_test_task tasks[PSI_TEST_TASKS];
	int t, nr = 0;

	for (t = 0; t < PSI_TEST_TASKS; t++)
		if (m->tasks[t].cpu == c && psi_test_below(m->tasks[t].psi.group - m->groups, g))
			tasks[nr++] = m->tasks[t].is;
	m->states[g][c] = m->off[g] ? 0 : psi_test_states(tasks, nr);
}

/* The counts of a group, from its own tasks and from what its children show. */
static struct psi_counts psi_test_model_counts(struct psi_test_model *m, int g, int c)
{
	struct psi_counts sum = { };
	int i;

	for (i = 0; i < PSI_TEST_TASKS; i++)
		if (m->tasks[i].cpu == c && m->tasks[i].psi.group == &m->groups[g])
			sum = psi_counts_add(sum, psi_counts_of(psi_test_attrs(&m->tasks[i].is)));
	for (i = 0; i < PSI_TEST_GROUPS; i++) {
		struct psi_cpu *pc = per_cpu_ptr(m->groups[i].cpus, m->cpus[c]);

		if (m->parent[i] == g)
			sum = psi_counts_add(sum, psi_counts_of(psi_delegate_of(pc)->attrs));
	}
	return sum;
}

static bool psi_test_model_agrees(struct psi_test_model *m, int event, int g, int c)
{
	struct psi_cpu *pc = per_cpu_ptr(m->groups[g].cpus, m->cpus[c]);
	struct psi_counts counts = psi_test_model_counts(m, g, c);
	u64 times[PSI_NR_STATES];
	unsigned int states;
	int s;

	states = psi_times(pc, m->now, 0, times)->states;
	m->delegated += !!pc->delegate;
	if (!pc->delegate &&
	    (pc->counts.sched != counts.sched || pc->counts.stall != counts.stall)) {
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: counts %llx %llx, not %llx %llx",
			   event, g, c, pc->counts.sched, pc->counts.stall,
			   counts.sched, counts.stall);
		return false;
	}
	if (states != m->states[g][c]) {
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: states %#x, recounted %#x",
			   event, g, c, states, m->states[g][c]);
		return false;
	}
	if (states && !psi_listed(pc, m->cpus[c])) {
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: active, but no fold will come",
			   event, g, c);
		return false;
	}
	for (s = 0; s < PSI_NR_STATES; s++) {
		/* the interrupt clock is the machine's */
		if (s == PSI_IRQ_FULL || times[s] == m->times[g][c][s])
			continue;
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d, state %d: %llu ns, recounted %llu",
			   event, g, c, s, times[s], m->times[g][c][s]);
		return false;
	}
	return true;
}

static void psi_test_model_run(struct kunit *test, u64 start, int nr)
{
	struct psi_test_model *m = psi_test_model_init(test, start);
	int cpus = m->cpus[0] == m->cpus[1] ? 1 : PSI_TEST_CPUS;
	int event, g, c, s;

	m->nr = nr;
	for (event = 0; event < PSI_TEST_EVENTS; event++) {
		u64 len = prandom_u32_state(&m->rnd) >> (prandom_u32_state(&m->rnd) % 32);

		cond_resched();
		m->now += len;
		for (g = 0; g < PSI_TEST_GROUPS; g++)
			for (c = 0; c < cpus; c++)
				for (s = 0; s < PSI_NR_STATES; s++)
					if (m->states[g][c] & BIT(s))
						m->times[g][c][s] += len;

		psi_test_model_event(m);

		for (g = 0; g < PSI_TEST_GROUPS; g++) {
			for (c = 0; c < cpus; c++) {
				psi_test_model_recount(m, g, c);
				if (!psi_test_model_agrees(m, event, g, c))
					return;
			}
		}
	}

	KUNIT_EXPECT_GT(test, m->delegated, 100);

	/* Everybody leaves: nothing is left behind. */
	for (c = 0; c < PSI_TEST_TASKS; c++)
		psi_test_model_change(m, &m->tasks[c], 0);
	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		for (c = 0; c < cpus; c++) {
			struct psi_cpu *pc = per_cpu_ptr(m->groups[g].cpus, m->cpus[c]);

			KUNIT_EXPECT_TRUE(test, pc->delegate || psi_counts_zero(pc->counts));
			KUNIT_EXPECT_EQ(test, psi_delegate_of(pc)->states, 0);
		}
	}
}

static void psi_test_model_from_boot(struct kunit *test)
{
	psi_test_model_run(test, 0, PSI_TEST_TASKS);
}

/* Groups have one child in use, mostly. */
static void psi_test_model_few_tasks(struct kunit *test)
{
	psi_test_model_run(test, NSEC_PER_SEC, 4);
}

static void psi_test_model_one_task(struct kunit *test)
{
	psi_test_model_run(test, NSEC_PER_SEC, 1);
}

static void psi_test_model_across_the_sign_bit(struct kunit *test)
{
	psi_test_model_run(test, S64_MAX - 1000, 3);
}

static void psi_test_model_across_the_wrap(struct kunit *test)
{
	psi_test_model_run(test, U64_MAX - 1000, 6);
}

/*
 * Triggers
 */

static const struct psi_test_parse_row {
	const char *desc;
	const char *text;
	size_t len;		/* 0: up to the NUL */
	u32 stall, window;	/* 0: to be refused */
	bool full;
} psi_test_parse_rows[] = {
	{ "some", "some 150000 1000000", 0, 150000, 1000000 },
	{ "full", "full 50000 500000", 0, 50000, 500000, true },
	{ "a newline", "some 150000 1000000\n", 0, 150000, 1000000 },
	{ "a NUL", "some 150000 1000000", 20, 150000, 1000000 },
	{ "a newline and a NUL", "some 150000 1000000\n", 21, 150000, 1000000 },
	{ "many blanks", "some  \t150000 \t 1000000", 0, 150000, 1000000 },
	{ "leading zeros", "some 000000000150000 01000000", 0, 150000, 1000000 },
	{ "the smallest", "some 1 500000", 0, 1, 500000 },
	{ "the largest", "full 10000000 10000000", 0, 10000000, 10000000, true },
	{ "cut off by its length", "some 150000 1000000000", 19, 150000, 1000000 },
	{ "nothing", "\0", 1 },
	{ "three letters", "som", 3 },
	{ "a word only", "some" },
	{ "one number", "some 150000" },
	{ "one number and a blank", "some 150000 " },
	{ "no blank", "some150000 1000000" },
	{ "another word", "most 150000 1000000" },
	{ "capitals", "SOME 150000 1000000" },
	{ "a longer word", "something 150000 1000000" },
	{ "a blank before", " some 150000 1000000" },
	{ "a blank after", "some 150000 1000000 " },
	{ "junk after", "some 150000 1000000xyz" },
	{ "junk after the newline", "some 150000 1000000\nx" },
	{ "two newlines", "some 150000 1000000\n\n" },
	{ "two NULs", "some 150000 1000000\0", 21 },
	{ "a NUL before the newline", "some 150000 1000000\0\n", 21 },
	{ "a NUL between", "some 150000\0 1000000", 20 },
	{ "a third number", "some 150000 1000000 1" },
	{ "a second line", "some 150000 1000000\nfull 150000 1000000\n" },
	{ "a newline between", "some 150000\n1000000" },
	{ "a plus", "some +150000 1000000" },
	{ "a minus", "some -150000 1000000" },
	{ "hex", "some 0x150 1000000" },
	{ "a point", "some 150000.0 1000000" },
	{ "a stall of 0", "some 0 1000000" },
	{ "a stall longer than the window", "some 1000001 1000000" },
	{ "a window just too short", "some 1 499999" },
	{ "a window just too long", "some 1 10000001" },
	{ "a window of 2^32 + 2 s", "some 150000 4296967296" },
	{ "a stall of 2^32 + 1 us", "some 4294967297 1000000" },
	{ "a window of 2^64 + 2 s", "some 150000 18446744073711551616" },
	{ "digits of another alphabet", "some \xb2\xb3 1000000" },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_parse_rows, psi_test_parse_rows, desc);

static void psi_test_parse(struct kunit *test)
{
	const struct psi_test_parse_row *row = test->param_value;
	u32 stall = 0, window = 0;
	bool full = false, good;

	good = psi_parse(row->text, row->len ?: strlen(row->text), &full, &stall, &window);
	KUNIT_ASSERT_EQ(test, good, row->window != 0);
	if (!good)
		return;
	KUNIT_EXPECT_EQ(test, stall, row->stall);
	KUNIT_EXPECT_EQ(test, window, row->window);
	KUNIT_EXPECT_EQ(test, full, row->full);
}

/*
 * Stalls at random times, samples that are now and then late, and what a trigger
 * makes of them, against the stalls themselves.
 */
#define PSI_TEST_STALLS		24
#define PSI_TEST_WINDOW		(500 * NSEC_PER_MSEC)

struct psi_test_stalls {
	int nr;
	u64 begin[PSI_TEST_STALLS], end[PSI_TEST_STALLS];
};

/* The stall between two times. */
static u64 psi_test_stall(const struct psi_test_stalls *stalls, u64 from, u64 to)
{
	u64 sum = 0;
	int i;

	for (i = 0; i < stalls->nr; i++) {
		u64 begin = max(from, stalls->begin[i]), end = min(to, stalls->end[i]);

		if (begin < end)
			sum += end - begin;
	}
	return sum;
}

/*
 * The most stall in any window between two times. The best window begins where a
 * stall begins, ends where one ends, or touches one of the limits.
 */
static u64 psi_test_most(const struct psi_test_stalls *stalls, u64 from, u64 to)
{
	u64 most = psi_test_stall(stalls, from, min(from + PSI_TEST_WINDOW, to));
	int i;

	if (to > from + PSI_TEST_WINDOW)
		most = max(most, psi_test_stall(stalls, to - PSI_TEST_WINDOW, to));
	for (i = 0; i < stalls->nr; i++) {
		u64 begin = max(from, stalls->begin[i]), end = min(to, stalls->end[i]);

		if (begin >= end)
			continue;
		most = max(most, psi_test_stall(stalls, begin, min(begin + PSI_TEST_WINDOW, to)));
		most = max(most, psi_test_stall(stalls, end > from + PSI_TEST_WINDOW ?
						end - PSI_TEST_WINDOW : from, end));
	}
	return most;
}

static void psi_test_trigger_case(struct kunit *test, struct psi_sampler *sampler,
				  struct rnd_state *rnd, bool late)
{
	u64 step = PSI_TEST_WINDOW / PSI_STEPS, now = PSI_TEST_START, since = now, last = 0;
	u64 looked = now;
	struct psi_trigger t = { .state = PSI_IO_SOME, .since = now };
	struct psi_test_stalls *stalls;
	u32 busy = 1 + prandom_u32_state(rnd) % 100;
	int i;

	stalls = kunit_kzalloc(test, sizeof(*stalls), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, stalls);
	while (stalls->nr < PSI_TEST_STALLS) {
		u64 len = prandom_u32_state(rnd) % (u32)PSI_TEST_WINDOW;

		now += prandom_u32_state(rnd) % 8 ? len * (101 - busy) / 100 : len * 20;
		stalls->begin[stalls->nr] = now;
		now += 1 + len * busy / 100;
		stalls->end[stalls->nr++] = now;
	}

	memset(sampler, 0, sizeof(*sampler));
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START;
	t.threshold = 1 + prandom_u32_state(rnd) % (u32)PSI_TEST_WINDOW;

	now = PSI_TEST_START;
	for (i = 0; i < 150; i++) {
		u64 most, gap;
		bool was_owed = t.owed;

		now += step;
		if (late && prandom_u32_state(rnd) % 4 == 0)
			now += prandom_u32_state(rnd) % (u32)(3 * step);
		if (late && prandom_u32_state(rnd) % 16 == 0)
			now += prandom_u32_state(rnd) % (u32)(4 * PSI_TEST_WINDOW);
		psi_sampler_push(sampler);
		sampler->last.at = now;
		sampler->last.total[t.state] = psi_test_stall(stalls, PSI_TEST_START, now);
		psi_trigger_look(&t, sampler, &sampler->last);

		/* No false one, and none missed by more than a step. */
		most = psi_test_most(stalls, since, now);
		if (t.owed && !was_owed)
			KUNIT_ASSERT_GE(test, most + psi_slack(t.threshold), t.threshold);
		else if (!t.owed && !late)
			KUNIT_ASSERT_LT(test, most, t.threshold + step);
		/* However late, it knows what there was since the last look. */
		gap = DIV_ROUND_UP_ULL(now - looked, PSI_TEST_WINDOW) * t.threshold;
		if (!t.owed)
			KUNIT_ASSERT_LT(test, psi_test_stall(stalls, looked, now), gap);
		looked = now;

		/* At most one per window, and at once when it may be. */
		if (psi_trigger_report(&t, PSI_TEST_WINDOW, &sampler->last)) {
			KUNIT_ASSERT_TRUE(test, !last || now >= last + PSI_TEST_WINDOW);
			KUNIT_ASSERT_TRUE(test, psi_collect(&t));
			last = now;
			since = now;
		}
		KUNIT_ASSERT_FALSE(test, t.owed && (!last || now >= last + PSI_TEST_WINDOW));
		KUNIT_ASSERT_FALSE(test, psi_collect(&t));
	}
	kunit_kfree(test, stalls);
}

static void psi_test_trigger(struct kunit *test)
{
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);
	struct rnd_state rnd;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	prandom_seed_state(&rnd, 4711);
	for (i = 0; i < 60; i++) {
		psi_test_trigger_case(test, sampler, &rnd, i & 1);
		cond_resched();
	}
}

/* An event that is due while the trigger is quiet comes later, however late. */
static void psi_test_trigger_owed(struct kunit *test)
{
	static const struct { u64 at, total; bool event; } looks[] = {
		{ 100, 100, true },
		{ 200, 200, false },
		{ 2000, 200, true },
		{ 2100, 200, false },
	};
	struct psi_trigger t = { .state = PSI_IO_SOME, .since = PSI_TEST_START };
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START;
	t.threshold = 90 * NSEC_PER_MSEC;
	for (i = 0; i < ARRAY_SIZE(looks); i++) {
		psi_sampler_push(sampler);
		sampler->last.at = PSI_TEST_START + looks[i].at * NSEC_PER_MSEC;
		sampler->last.total[t.state] = looks[i].total * NSEC_PER_MSEC;
		psi_trigger_look(&t, sampler, &sampler->last);
		KUNIT_EXPECT_EQ_MSG(test, psi_trigger_report(&t, PSI_TEST_WINDOW, &sampler->last),
				    looks[i].event, "at %llu ms", looks[i].at);
	}
}

/* 95 ms in a window that ends with the sample, which has 20 ms of what comes after. */
static void psi_test_trigger_late(struct kunit *test)
{
	struct psi_trigger t = { .state = PSI_IO_SOME, .since = PSI_TEST_START };
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START + PSI_TEST_WINDOW;
	sampler->last.total[t.state] = 95 * NSEC_PER_MSEC;
	t.threshold = 90 * NSEC_PER_MSEC;
	sampler->late = 20 * NSEC_PER_MSEC;
	KUNIT_EXPECT_FALSE(test, psi_trigger_reached(&t, sampler, &sampler->last));
	sampler->late = 0;
	KUNIT_EXPECT_TRUE(test, psi_trigger_reached(&t, sampler, &sampler->last));
}

/* Nobody looked for 900 ms, which had 360 ms of stall: 180 ms were in one of two windows. */
static void psi_test_trigger_gap(struct kunit *test)
{
	struct psi_trigger t = { .state = PSI_IO_SOME, .since = PSI_TEST_START };
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START + 900 * NSEC_PER_MSEC;
	sampler->last.total[t.state] = 360 * NSEC_PER_MSEC;
	t.threshold = 180 * NSEC_PER_MSEC;
	KUNIT_EXPECT_TRUE(test, psi_trigger_reached(&t, sampler, &sampler->last));
	t.threshold += 2 * PSI_SLACK_NS;
	KUNIT_EXPECT_FALSE(test, psi_trigger_reached(&t, sampler, &sampler->last));
}

/* The least threshold there is: a stall of that length reaches it, silence does not. */
static void psi_test_trigger_least(struct kunit *test)
{
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);
	struct psi_trigger t = { .state = PSI_IO_SOME, .since = PSI_TEST_START };
	int i;

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	t.threshold = NSEC_PER_USEC;
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START;
	sampler->states = BIT(t.state);
	sampler->least[t.state] = t.threshold;
	for (i = 1; i <= 4 * PSI_RING; i++) {
		psi_sampler_push(sampler);
		sampler->last.at += PSI_TEST_WINDOW / PSI_STEPS;
		if (i == 2 * PSI_RING)
			sampler->last.total[t.state] += t.threshold;
		psi_trigger_look(&t, sampler, &sampler->last);
		KUNIT_EXPECT_EQ_MSG(test, psi_trigger_report(&t, PSI_TEST_WINDOW, &sampler->last),
				    i == 2 * PSI_RING, "step %d", i);
		/* There was some as long as the oldest sample is from before it. */
		KUNIT_EXPECT_EQ_MSG(test, psi_sampler_may_fire(sampler),
				    i >= 2 * PSI_RING && i < 3 * PSI_RING, "step %d", i);
	}
}

/*
 * CPU 0 is busy, CPU 1 stalls for a moment in each third step. Who looks at each step
 * and who rests where there is no stall see the same.
 */
static void psi_test_sampler_rests(struct kunit *test)
{
	const u64 step = PSI_TEST_WINDOW / PSI_STEPS, stall = NSEC_PER_MSEC;
	u64 times[2][PSI_NR_STATES] = { }, total[2][PSI_NR_STATES] = { };
	struct psi_sampler *sampler[2];
	int i, who, cpu;

	for (who = 0; who < 2; who++) {
		sampler[who] = kunit_kzalloc(test, struct_size(sampler[who], seen, 2), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, sampler[who]);
	}
	for (i = 1; i <= 9; i++) {
		times[0][PSI_NONIDLE] += step;
		if (i % 3 == 0) {
			times[1][PSI_NONIDLE] += stall;
			times[1][PSI_IO_SOME] += stall;
		}
		for (who = 0; who < 2; who++) {
			if (who && i % 3)
				continue;
			for (cpu = 0; cpu < 2; cpu++)
				psi_sampler_add_cpu(sampler[who], cpu, times[cpu]);
			psi_sampler_add_up(sampler[who], total[who]);
		}
	}
	KUNIT_EXPECT_GT(test, total[0][PSI_IO_SOME], 0);
	KUNIT_EXPECT_EQ(test, total[0][PSI_IO_SOME], total[1][PSI_IO_SOME]);
}

/* A stall, an hour of silence, a stall: not within one window. */
static void psi_test_trigger_pause(struct kunit *test)
{
	const u64 hour = 3600ULL * NSEC_PER_SEC, window = 2ULL * NSEC_PER_SEC;
	const u64 stall = 100 * NSEC_PER_MSEC;

	KUNIT_EXPECT_EQ(test, psi_window_stall(PSI_TEST_START, 2 * stall,
					       PSI_TEST_START + hour, window),
			div64_u64(2 * stall, div64_u64(hour, window)));
	KUNIT_EXPECT_EQ(test, psi_window_stall(PSI_TEST_START, 2 * stall,
					       PSI_TEST_START + window, window), 2 * stall);
	KUNIT_EXPECT_EQ(test, psi_window_stall(PSI_TEST_START, 2 * stall,
					       PSI_TEST_START + window + stall, window), stall);
	/* Armed on a CPU whose clock is ahead. */
	KUNIT_EXPECT_EQ(test, psi_window_stall(PSI_TEST_START, stall, PSI_TEST_START - 1, window),
			stall);
}

/* A task that runs and sleeps in a group, often enough that all above it delegate. */
static void psi_test_chain_settle(struct psi_test_task *is, struct psi_task *task, int cpu,
				  u64 *now)
{
	struct rq_flags rf;
	int i;

	for (i = 0; i < 4 * PSI_STREAK; i++) {
		is->where = i % 2 ? PSI_ASLEEP : PSI_RUNS;
		*now += 1000;
		rq_lock_irqsave(cpu_rq(cpu), &rf);
		psi_change(task, psi_test_attrs(is), cpu, *now);
		rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	}
}

struct psi_test_chain {
	struct psi_group groups[4 * PSI_CHAIN];
};

static void psi_test_chain_exit(void *data)
{
	struct psi_test_chain *chain = data;
	int g;

	for (g = 0; g < ARRAY_SIZE(chain->groups); g++) {
		free_percpu(chain->groups[g].cpus);
		free_cpumask_var(chain->groups[g].cpumask);
	}
}

/* Groups one below the other, the task goes down and down: no chain gets too long. */
static void psi_test_chain(struct kunit *test)
{
	struct psi_test_chain *chain = kunit_kzalloc(test, sizeof(*chain), GFP_KERNEL);
	const int deep = ARRAY_SIZE(chain->groups), begin = 2 * PSI_CHAIN;
	int cpu = cpumask_first(cpu_possible_mask), g, at;
	struct psi_test_task is = { .where = PSI_ASLEEP };
	struct psi_task task = { };
	u64 times[PSI_NR_STATES], now = PSI_TEST_START;

	KUNIT_ASSERT_NOT_NULL(test, chain);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, psi_test_chain_exit, chain), 0);
	for (g = 0; g < deep; g++) {
		struct psi_group *group = &chain->groups[g];

		group->cpus = alloc_percpu(struct psi_cpu);
		KUNIT_ASSERT_NOT_NULL(test, (void __force *)group->cpus);
		KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&group->cpumask, GFP_KERNEL));
		psi_group_init(group, g ? group - 1 : NULL, g);
		/* the clock of the system is not to see these */
		atomic_set(&group->listed, 1);
	}
	for (at = begin; at < deep; at++) {
		int delegating = 0;

		task.group = &chain->groups[at];
		psi_test_chain_settle(&is, &task, cpu, &now);
		for (g = 0; g < deep; g++) {
			struct psi_cpu *pc = per_cpu_ptr(chain->groups[g].cpus, cpu);

			delegating += !!pc->delegate;
			KUNIT_EXPECT_LE(test, psi_chain(pc), PSI_CHAIN);
		}
		/* All but one in each chain, and maybe some between two of them. */
		KUNIT_EXPECT_GT(test, delegating, at * 3 / 4);
	}
	/* It ran half of the time. */
	for (g = 0; g <= begin; g++) {
		psi_peek_cpu(per_cpu_ptr(chain->groups[g].cpus, cpu), cpu, times);
		KUNIT_EXPECT_EQ(test, times[PSI_NONIDLE], (now - PSI_TEST_START) / 2);
	}
}

/*
 * Live: tasks and groups of the running system
 */

/* A sampler knows when it took long to add up a sample. */
static void psi_test_sample_late(struct kunit *test)
{
	struct psi_sampler *sampler;
	u64 early = 1, late;
	int i;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	sampler = kunit_kzalloc(test, struct_size(sampler, seen, nr_cpu_ids), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, sampler);
	sampler->group = &psi_system;

	spin_lock(&psi_system.lock);
	/* A machine that is itself virtual may be held up, but not each time. */
	for (i = 0; i < 100 && early; i++) {
		psi_sampler_update(sampler, local_clock());
		early = sampler->late;
	}
	psi_sampler_update(sampler, local_clock() - 2 * PSI_SAMPLE_NS);
	late = sampler->late;
	spin_unlock(&psi_system.lock);
	KUNIT_EXPECT_EQ(test, early, 0);
	KUNIT_EXPECT_GE(test, late, 2 * PSI_SAMPLE_NS);
}

/*
 * It takes longer than a step to look at all triggers. What else the monitor has to do
 * comes before the next time.
 */
static void psi_test_check_long(struct kunit *test)
{
	const u64 step = 10 * NSEC_PER_USEC;
	const int nr = 5000;
	struct psi_sampler *sampler;
	struct psi_trigger *triggers;
	bool ahead = false;
	int i, late = 0;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	triggers = kunit_kcalloc(test, nr, sizeof(*triggers), GFP_KERNEL);
	sampler = kunit_kzalloc(test, struct_size(sampler, seen, nr_cpu_ids), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, triggers);
	KUNIT_ASSERT_NOT_NULL(test, sampler);
	sampler->group = &psi_system;
	sampler->window = step * PSI_STEPS;
	sampler->states = BIT(PSI_NONIDLE);
	sampler->nr = nr;
	INIT_LIST_HEAD(&sampler->triggers);
	for (i = 0; i < nr; i++) {
		triggers[i].state = PSI_NONIDLE;
		triggers[i].threshold = PSI_NEVER;
		list_add(&triggers[i].node, &sampler->triggers);
	}

	/* A machine that is itself virtual may be held up after it, but not each time. */
	for (i = 0; i < 10000 && late < 100 && !ahead; i++) {
		u64 begin = local_clock(), due, end;

		sampler->mark = begin;
		sampler->owing = true;
		due = psi_sampler_check(sampler);
		end = local_clock();
		/* A clock that counts ticks mostly stands still meanwhile. */
		if (end <= begin + 2 * step)
			continue;
		ahead = due + step > end;
		late += !ahead;
	}
	KUNIT_EXPECT_TRUE(test, ahead);
}

/*
 * Two arm in one open file at once: one does, the other is told. f_pos_lock keeps
 * write() from that, but io_uring does not take it.
 */
struct psi_test_race {
	struct psi_trigger *slot;
	struct file file;
	wait_queue_head_t pollers;
	int rounds;
	atomic_t here, armed, refused;
};

/* Go on when both are here, for the @nr'th time. */
static void psi_test_meet(struct psi_test_race *race, int nr)
{
	atomic_inc_return_release(&race->here);
	while (atomic_read_acquire(&race->here) < 2 * nr) {
		cpu_relax();
		cond_resched();
	}
}

static void psi_test_arm(struct psi_test_race *race)
{
	static const char text[] = "some 150000 1000000";
	u32 late = get_random_u32_below(1 << get_random_u32_below(16));
	int ret;

	/*
	 * Nobody or a little too late, as CPUs may run side by side, or be those of a
	 * virtual machine, which take long turns. cpu_relax() would end such a turn.
	 */
	while (late--)
		barrier();
	ret = psi_arm(&race->slot, &psi_system, PSI_MEMORY, text, strlen(text), &race->file,
		      NULL, &race->pollers);
	if (ret == -EBUSY)
		atomic_inc(&race->refused);
	else if (!ret)
		atomic_inc(&race->armed);
}

static int psi_test_arm_often(void *arg)
{
	struct psi_test_race *race = arg;
	int i;

	for (i = 0; i < race->rounds; i++) {
		psi_test_meet(race, 2 * i + 1);
		psi_test_arm(race);
		psi_test_meet(race, 2 * i + 2);
	}
	return 0;
}

static void psi_test_arm_race(struct kunit *test)
{
	struct psi_test_race race = { .file.f_cred = current_cred() };
	struct task_struct *other;
	int i;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	init_waitqueue_head(&race.pollers);
	/* With one CPU, they take turns by the tick. */
	race.rounds = num_online_cpus() > 1 ? 4000 : 500;
	other = kthread_create(psi_test_arm_often, &race, "psi_test_arm");
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	get_task_struct(other);
	wake_up_process(other);
	for (i = 0; i < race.rounds; i++) {
		psi_test_meet(&race, 2 * i + 1);
		psi_test_arm(&race);
		psi_test_meet(&race, 2 * i + 2);
		if (race.slot)
			psi_disarm(race.slot);
		race.slot = NULL;
	}
	kthread_stop_put(other);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.armed), race.rounds);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.refused), race.rounds);
}

/* An inner memory stall does not end the outer one. */
static void psi_test_memstall_nests(struct kunit *test)
{
	unsigned long outer, inner;
	bool still;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	psi_memstall_enter(&outer);
	psi_memstall_enter(&inner);
	psi_memstall_leave(&inner);
	still = current->psi.in_stall;
	psi_memstall_leave(&outer);
	KUNIT_EXPECT_TRUE(test, still);
	KUNIT_EXPECT_FALSE(test, current->psi.in_stall);
}

/* Who dies where it stands takes along what it is counted as. */
static int psi_test_die(void *arg)
{
	unsigned long flags;

	psi_memstall_enter(&flags);
	current->in_iowait = 1;
	current->psi.asleep |= PSI_IOWAIT;
	return 0;
}

static void psi_test_exit(struct kunit *test)
{
	struct task_struct *p;
	unsigned int attrs;
	struct rq_flags rf;
	struct rq *rq;
	bool dead;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	p = kthread_create(psi_test_die, NULL, "psi_test_die");
	KUNIT_ASSERT_FALSE(test, IS_ERR(p));
	get_task_struct(p);
	wake_up_process(p);
	do {
		schedule_timeout_uninterruptible(1);
		rq = task_rq_lock(p, &rf);
		dead = READ_ONCE(p->__state) == TASK_DEAD && !task_current(rq, p);
		attrs = p->psi.attrs;
		task_rq_unlock(rq, p, &rf);
	} while (!dead);
	KUNIT_EXPECT_EQ(test, attrs, 0);
	put_task_struct(p);
}

/*
 * Who is preempted by one of PSI's own threads goes on running, for PSI, also
 * when that thread changes it.
 */
struct psi_test_held {
	struct task_struct *spinner;
	bool pinned, found, over;
	unsigned int before, after;
};

static int psi_test_spin(void *arg)
{
	struct psi_test_held *held = arg;

	while (!READ_ONCE(held->over)) {
		/* Who cannot migrate is changed while it is being switched from. */
		if (held->pinned)
			migrate_disable();
		cond_resched();
		if (held->pinned)
			migrate_enable();
	}
	return 0;
}

static unsigned int psi_test_counted_as(struct task_struct *p)
{
	unsigned int attrs;
	struct rq_flags rf;
	struct rq *rq;

	rq = task_rq_lock(p, &rf);
	attrs = p->psi.attrs;
	task_rq_unlock(rq, p, &rf);
	return attrs;
}

static int psi_test_preempt(void *arg)
{
	struct psi_test_held *held = arg;
	ktime_t pause = ms_to_ktime(1);
	int i;

	psi_ignore_current();
	sched_set_fifo(current);
	for (i = 0; i < 100 && !held->found; i++) {
		/* With PREEMPT_RT, a thread serves most timers: it would preempt the spinner. */
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&pause, HRTIMER_MODE_REL);
		held->found = this_cpu_read(psi_held) == held->spinner;
	}
	held->before = psi_test_counted_as(held->spinner);
	set_user_nice(held->spinner, 1);
	held->after = psi_test_counted_as(held->spinner);
	WRITE_ONCE(held->over, true);
	return 0;
}

static void psi_test_hold(struct kunit *test, bool pinned)
{
	struct psi_test_held held = { .pinned = pinned };
	struct task_struct *own;
	unsigned int cpu = raw_smp_processor_id();

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	held.spinner = kthread_create_on_cpu(psi_test_spin, &held, cpu, "psi_test_spin");
	KUNIT_ASSERT_FALSE(test, IS_ERR(held.spinner));
	get_task_struct(held.spinner);
	own = kthread_create_on_cpu(psi_test_preempt, &held, cpu, "psi_test_own");
	if (!IS_ERR(own)) {
		get_task_struct(own);
		wake_up_process(held.spinner);
		wake_up_process(own);
		while (!READ_ONCE(held.over))
			schedule_timeout_uninterruptible(1);
		kthread_stop_put(own);
	}
	kthread_stop_put(held.spinner);

	KUNIT_ASSERT_FALSE(test, IS_ERR(own));
	KUNIT_EXPECT_TRUE(test, held.found);
	KUNIT_EXPECT_EQ(test, held.before, PSI_ONCPU | PSI_PRODUCTIVE);
	KUNIT_EXPECT_EQ(test, held.after, PSI_ONCPU | PSI_PRODUCTIVE);
}

static void psi_test_requeue_held(struct kunit *test)
{
	psi_test_hold(test, false);
}

static void psi_test_requeue_held_pinned(struct kunit *test)
{
	psi_test_hold(test, true);
}

#ifdef CONFIG_PSI_DEBUG
struct psi_test_fault {
	const char *name;
	void (*plant)(struct psi_cpu *pc);
	const char *want;
};

static void psi_test_plant_count(struct psi_cpu *pc)
{
	pc->counts.sched += psi_sched_counts[PSI_WAITING];
}

static void psi_test_plant_stall(struct psi_cpu *pc)
{
	pc->counts.stall -= psi_stall_counts[PSI_MEMSTALL];
}

static void psi_test_plant_attr(struct psi_cpu *pc)
{
	pc->attrs ^= PSI_MEMSTALL;
}

static void psi_test_plant_state(struct psi_cpu *pc)
{
	pc->states ^= BIT(PSI_MEM_SOME);
}

static void psi_test_plant_task(struct psi_cpu *pc)
{
	current->psi.attrs = PSI_WAITING | PSI_PRODUCTIVE;
}

static void psi_test_plant_lost_task(struct psi_cpu *pc)
{
	current->psi.attrs = 0;
	psi_debug_note(current, raw_smp_processor_id());
}

static void psi_test_plant_up(struct psi_cpu *pc)
{
	pc->up = pc;
}

static void psi_test_plant_unlisted(struct psi_cpu *pc)
{
	pc->tell = 0;
	cpumask_clear_cpu(raw_smp_processor_id(), pc->group->cpumask);
}

/* It can have been no longer than since the fold took the times. */
static void psi_test_plant_window(struct psi_cpu *pc)
{
	pc->times[PSI_NONIDLE] -= 3600ULL * NSEC_PER_SEC;
}

static void psi_test_plant_full(struct psi_cpu *pc)
{
	pc->times[PSI_IO_FULL] = pc->times[PSI_IO_SOME] + NSEC_PER_MSEC;
}

static void psi_test_plant_negative(struct psi_cpu *pc)
{
	pc->times[PSI_MEM_FULL] = -NSEC_PER_MSEC;
}

static const struct psi_test_fault psi_test_faults[] = {
	{ "a wake-up twice", psi_test_plant_count, "cgroup 0 counts" },
	{ "a stall that began unseen", psi_test_plant_stall, "cgroup 0 counts" },
	{ "an attribute nobody has", psi_test_plant_attr, "cgroup 0 shows" },
	{ "a state that does not hold", psi_test_plant_state, "cgroup 0 shows" },
	{ "a switch not seen", psi_test_plant_task, "kunit_try_catch" },
	{ "a task not seen", psi_test_plant_lost_task, "kunit_try_catch" },
	{ "a walk that goes in circles", psi_test_plant_up, "cgroup 0 of level 0 goes on to" },
	{ "a group the clock forgot", psi_test_plant_unlisted, "not on the clock's list" },
	{ "more time than there was", psi_test_plant_window, "cgroup 0 has times" },
	{ "more full than some", psi_test_plant_full, "cgroup 0 has times" },
	{ "less than no time", psi_test_plant_negative, "cgroup 0 has times" },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_faults, psi_test_faults, name);

/* What is planted is found and mended, all under one lock: nobody else sees it. */
static void psi_test_debug(struct kunit *test)
{
	const struct psi_test_fault *fault = test->param_value;
	char *text = kunit_kzalloc(test, 2048, GFP_KERNEL);
	unsigned int before, found, left;
	struct seq_buf says;
	struct rq_flags rf;
	struct rq *rq;

	KUNIT_ASSERT_NOT_NULL(test, text);
	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	seq_buf_init(&says, text, 2048);

	rcu_read_lock();
	rq = this_rq_lock_irq(&rf);
	update_rq_clock(rq);
	before = psi_debug_cpu(rq, true, &says);
	fault->plant(per_cpu_ptr(psi_system.cpus, cpu_of(rq)));
	found = psi_debug_cpu(rq, true, &says);
	left = psi_debug_cpu(rq, true, &says);
	rq_unlock_irq(rq, &rf);
	rcu_read_unlock();

	KUNIT_EXPECT_EQ_MSG(test, before, 0, "%s", text);
	KUNIT_EXPECT_GE(test, found, 1);
	KUNIT_EXPECT_EQ_MSG(test, left, 0, "%s", text);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, fault->want), "%s", text);
}

#ifdef CONFIG_CGROUPS
/* The same for a task that is counted where it is no member. */
static void psi_test_debug_home(struct kunit *test)
{
	char *text = kunit_kzalloc(test, 2048, GFP_KERNEL);
	struct cgroup *stray = kunit_kzalloc(test, sizeof(*stray), GFP_KERNEL);
	unsigned int before, found, left;
	struct psi_group *home, *after;
	struct seq_buf says;
	struct rq_flags rf;
	struct rq *rq;

	KUNIT_ASSERT_NOT_NULL(test, text);
	KUNIT_ASSERT_NOT_NULL(test, stray);
	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	if (!cgroup_psi_enabled())
		kunit_skip(test, "the command line says that cgroups have no pressure");
	seq_buf_init(&says, text, 2048);
	stray->self.parent = &cgrp_dfl_root.cgrp.self;
	stray->level = 1;
	KUNIT_ASSERT_EQ(test, psi_cgroup_alloc(stray), 0);

	cgroup_lock();
	rcu_read_lock();
	spin_lock_irq(&css_set_lock);
	rq = task_rq_lock(current, &rf);
	update_rq_clock(rq);
	home = current->psi.group;
	before = psi_debug_homes(rq, &says);
	psi_regroup(&current->psi, cgroup_psi(stray), cpu_of(rq), rq_clock(rq));
	found = psi_debug_homes(rq, &says);
	left = psi_debug_homes(rq, &says) + psi_debug_cpu(rq, true, &says);
	after = current->psi.group;
	psi_regroup(&current->psi, home, cpu_of(rq), rq_clock(rq));
	task_rq_unlock(rq, current, &rf);
	spin_unlock_irq(&css_set_lock);
	rcu_read_unlock();
	cgroup_unlock();
	psi_cgroup_free(stray);

	KUNIT_EXPECT_EQ_MSG(test, before, 0, "%s", text);
	KUNIT_EXPECT_EQ(test, found, 1);
	KUNIT_EXPECT_EQ_MSG(test, left, 0, "%s", text);
	KUNIT_EXPECT_PTR_EQ(test, after, home);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, "kunit_try_catch"), "%s", text);
}
#endif
#endif /* CONFIG_PSI_DEBUG */

static struct kunit_case psi_test_cases[] = {
	KUNIT_CASE_PARAM(psi_test_states_table, psi_test_states_rows_gen_params),
	KUNIT_CASE(psi_test_states_exhaustive),
	KUNIT_CASE(psi_test_full_implies_some),
	KUNIT_CASE(psi_test_lanes_hold_all_tasks),
	KUNIT_CASE_PARAM(psi_test_avgs_oracle, psi_test_avgs_rows_gen_params),
	KUNIT_CASE(psi_test_avgs_idle_gap),
	KUNIT_CASE(psi_test_avgs_joined),
	KUNIT_CASE(psi_test_avgs_end),
	KUNIT_CASE(psi_test_avgs_late_fold),
	KUNIT_CASE(psi_test_avgs_jitter),
	KUNIT_CASE(psi_test_avgs_carry),
	KUNIT_CASE(psi_test_avgs_collect),
	KUNIT_CASE(psi_test_avgs_clock_behind),
	KUNIT_CASE(psi_test_avgs_years_of_uptime),
	KUNIT_CASE_PARAM(psi_test_print, psi_test_print_rows_gen_params),
	KUNIT_CASE_PARAM(psi_test_window, psi_test_window_rows_gen_params),
	KUNIT_CASE(psi_test_window_many_cpus),
	KUNIT_CASE_PARAM(psi_test_parse, psi_test_parse_rows_gen_params),
	KUNIT_CASE_SLOW(psi_test_trigger),
	KUNIT_CASE(psi_test_trigger_owed),
	KUNIT_CASE(psi_test_trigger_late),
	KUNIT_CASE(psi_test_trigger_gap),
	KUNIT_CASE(psi_test_trigger_least),
	KUNIT_CASE(psi_test_sampler_rests),
	KUNIT_CASE(psi_test_trigger_pause),
	KUNIT_CASE_SLOW(psi_test_model_from_boot),
	KUNIT_CASE_SLOW(psi_test_model_few_tasks),
	KUNIT_CASE_SLOW(psi_test_model_one_task),
	KUNIT_CASE_SLOW(psi_test_model_across_the_sign_bit),
	KUNIT_CASE_SLOW(psi_test_model_across_the_wrap),
	KUNIT_CASE(psi_test_chain),
	KUNIT_CASE(psi_test_sample_late),
	KUNIT_CASE(psi_test_check_long),
	KUNIT_CASE_SLOW(psi_test_arm_race),
	KUNIT_CASE(psi_test_memstall_nests),
	KUNIT_CASE(psi_test_exit),
	KUNIT_CASE(psi_test_requeue_held),
	KUNIT_CASE(psi_test_requeue_held_pinned),
#ifdef CONFIG_PSI_DEBUG
	KUNIT_CASE_PARAM(psi_test_debug, psi_test_faults_gen_params),
#ifdef CONFIG_CGROUPS
	KUNIT_CASE(psi_test_debug_home),
#endif
#endif
	{ }
};

static struct kunit_suite psi_test_suite = {
	.name		= "psi",
	.test_cases	= psi_test_cases,
};

kunit_test_suite(psi_test_suite);
