// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information
 *
 * Arithmetic is tested by tables with a sentence for each row, and against a
 * second, naive implementation: double precision for averages, the stalls
 * themselves for triggers. All times are arguments.
 *
 * psi_test_model.c has the model of tasks and groups, psi_test_live.c the tests
 * that need the running system.
 */

/*
 * A group and its place for memory, but without memory on any CPU; false
 * without memory.
 */
static bool psi_test_group_init(struct psi_group *group, struct psi_group *parent, int level)
{
	group->cpus = kvcalloc(nr_cpu_ids, sizeof(*group->cpus), GFP_KERNEL);
	if (!group->cpus || !zalloc_cpumask_var(&group->cpumask, GFP_KERNEL))
		return false;
	psi_group_init(group, parent, level);
	/*
	 * The running system must not visit it: neither the fold nor
	 * psi_strays_work().
	 */
	atomic_set(&group->listed, 1);
	atomic_set(&group->stray, 1);
	return true;
}

static struct psi_group_cpu *psi_test_cell(void)
{
	return kmem_cache_zalloc(psi_cpu_cache, GFP_KERNEL);
}

/* Give a group memory on each CPU, as if it had been in use there. */
static bool psi_test_group_extend(struct psi_group *group)
{
	struct psi_group_cpu *memory;
	int cpu;

	for_each_possible_cpu(cpu) {
		memory = psi_test_cell();
		if (!memory)
			return false;
		psi_group_install(group, cpu, memory);
	}
	return true;
}

/*
 * Have the cells of a group follow psi_group.asked, as psi_asked_visit() does.
 */
static void psi_test_ask_sync(struct psi_group *group, u64 now)
{
	struct rq_flags rf;
	int cpu;

	psi_for_each_cpu(cpu, group) {
		rq_lock_irqsave(cpu_rq(cpu), &rf);
		raw_write_seqcount_begin(&cpu_rq(cpu)->psi_seq);
		psi_asked_sync(group->cpus[cpu], cpu, now);
		raw_write_seqcount_end(&cpu_rq(cpu)->psi_seq);
		rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	}
}

/*
 * Somebody begins to ask about a group, until psi_test_unask(). NULL without
 * memory.
 */
static struct psi_asked *psi_test_ask(struct psi_group *group, u64 now)
{
	struct psi_asked *asked = psi_asked_alloc(group);

	if (!asked)
		return NULL;
	refcount_set(&asked->users, 1);
	rcu_assign_pointer(group->asked, asked);
	psi_test_ask_sync(group, now);
	asked->known = true;
	return asked;
}

static void psi_test_unask(struct psi_group *group, u64 now)
{
	struct psi_asked *asked = rcu_access_pointer(group->asked);

	RCU_INIT_POINTER(group->asked, NULL);
	psi_test_ask_sync(group, now);
	call_rcu(&asked->rcu, psi_asked_free);
}

static void psi_test_group_free(struct psi_group *group)
{
	struct psi_asked *asked = rcu_access_pointer(group->asked);
	int cpu;

	if (asked)
		call_rcu(&asked->rcu, psi_asked_free);
	free_cpumask_var(group->cpumask);
	kfree(group->accounts);
	for (cpu = 0; group->cpus && cpu < nr_cpu_ids; cpu++)
		kfree(group->cpus[cpu]);
	kvfree(group->cpus);
}

/*
 * States of a group, from the tasks in it
 */

struct psi_test_task {
	enum psi_where where;
	bool iowait;
	bool stall;
	/* by a limit: queued, waiting for io, in a memory stall */
	bool held;
	bool io_held;
	bool stall_held;
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

/*
 * States in which a task stalls that a limit holds, or one that no limit holds.
 */
static unsigned int psi_test_class_states(const struct psi_test_task *tasks, int nr, bool limit)
{
	unsigned int states = psi_test_states(tasks, nr), mine = 0;
	int i;

	for (i = 0; i < nr; i++) {
		const struct psi_test_task *t = &tasks[i];

		if (t->where == PSI_QUEUED && t->held == limit)
			mine |= BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL);
		if (t->where == PSI_ASLEEP && t->iowait && t->io_held == limit)
			mine |= BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL);
		if (t->stall && t->stall_held == limit)
			mine |= BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL);
	}
	return states & mine;
}

/* psi_asked_cpu.held of a cell with these states of limits and shortages. */
static unsigned int psi_test_held(unsigned int limit, unsigned int shortage)
{
	unsigned int held = 0;
	int s;

	psi_for_each_state(s, limit)
		held |= BIT(PSI_LIMIT_AT(s)) | !(shortage & BIT(s)) << PSI_ONLY_AT(s);
	return held;
}

static unsigned int psi_test_attrs(const struct psi_test_task *t)
{
	unsigned int iowait = t->io_held ? PSI_LIMIT_IOWAIT : PSI_IOWAIT;
	unsigned int memstall = t->stall_held ? PSI_LIMIT_MEMSTALL : PSI_MEMSTALL;

	return psi_attrs_for(t->where, t->iowait * iowait,
			     t->stall * (PSI_IN_STALL | memstall) | t->held * PSI_HELD);
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
	return psi_sched_attrs_of(counts.sched) | psi_stall_attrs_of(counts.stall) |
	       psi_limit_attrs_of(counts.limit);
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
		unsigned int nothing = PSI_PRODUCTIVE | PSI_ONCPU_STALL;
		unsigned int s = psi_states_of(attrs);

		KUNIT_EXPECT_LE(test, s >> PSI_CPU_FULL & 1, s >> PSI_CPU_SOME & 1);
		KUNIT_EXPECT_LE(test, s >> PSI_IO_FULL & 1, s >> PSI_IO_SOME & 1);
		KUNIT_EXPECT_LE(test, s >> PSI_MEM_FULL & 1, s >> PSI_MEM_SOME & 1);
		KUNIT_EXPECT_EQ(test, s >> PSI_NONIDLE & 1, !!(attrs & ~nothing));
	}
}

/* The most contributors that there may be in the lane of an attribute. */
static u64 psi_test_lane_max(unsigned int attr)
{
	if (attr & (PSI_ONCPU | PSI_ONCPU_STALL))
		return 1;
	if (!(attr & PSI_LIMIT_ATTRS))
		return PSI_LANE_MAX;
	return attr == PSI_LIMIT_WAITING ? BIT(22) - 1 : BIT(21) - 1;
}

/* As many tasks as there may be in one lane leave the lanes beside it alone. */
static void psi_test_lanes_hold_all_tasks(struct kunit *test)
{
	struct psi_counts all = { };
	unsigned int attr;

	for (attr = 1; attr < PSI_NR_ATTR_SETS; attr <<= 1) {
		struct psi_counts one = psi_counts_of(attr), many;
		u64 nr = psi_test_lane_max(attr);

		many.sched = one.sched * nr;
		many.stall = one.stall * nr;
		many.limit = one.limit * nr;
		KUNIT_EXPECT_EQ(test, psi_test_attrs_of(one), attr);
		KUNIT_EXPECT_EQ(test, psi_test_attrs_of(many), attr);
		all = psi_counts_add(all, many);
		/* The highest bit alone. */
		nr = (nr + 1) / 2;
		many.sched = one.sched * nr;
		many.stall = one.stall * nr;
		many.limit = one.limit * nr;
		KUNIT_EXPECT_EQ(test, psi_test_attrs_of(many), attr);
	}
	KUNIT_EXPECT_EQ(test, psi_test_attrs_of(all), PSI_NR_ATTR_SETS - 1);
	/* No lane shares a bit with another one. */
	KUNIT_EXPECT_EQ(test, all.limit, U64_MAX);
	KUNIT_EXPECT_EQ(test, psi_test_attrs_of(psi_counts_of(PSI_NR_ATTR_SETS - 1)),
			PSI_NR_ATTR_SETS - 1);
}

/*
 * A change from any set of attributes to any other is the difference of what
 * they count.
 */
static void psi_test_lanes_diff(struct kunit *test)
{
	unsigned int old, new;

	for (old = 0; old < PSI_NR_ATTR_SETS; old++) {
		cond_resched();
		for (new = 0; new < PSI_NR_ATTR_SETS; new++) {
			struct psi_counts sum = psi_counts_add(psi_counts_of(old),
							       psi_counts_diff(old, new));
			struct psi_counts want = psi_counts_of(new);

			if (!memcmp(&sum, &want, sizeof(sum)))
				continue;
			KUNIT_FAIL(test, "from %#x to %#x", old, new);
			return;
		}
	}
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
	avgs->at = start;
	return avgs;
}

/* Advance by @len ns of which @stall were spent in every state. */
static void psi_test_advance(struct psi_avgs *avgs, u64 len, u64 stall)
{
	u64 window[PSI_NR_STATES];
	int s;

	for (s = 0; s < PSI_NR_STATES; s++)
		window[s] = stall;
	psi_avgs_advance(avgs, PSI_ALL_STATES, avgs->at + len, window);
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

	/*
	 * 100 ppb is 0.00001 %: 2000 times less than the 0.02 points that psi
	 * must meet
	 */
	for (h = 0; h < PSI_NR_HORIZONS; h++)
		KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_IO_SOME][h]),
					       (u64)row->want[h]), 100);
}

/* After a stall averages decay to exactly zero, and zero averages stay zero. */
static void psi_test_avgs_end(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	int i;

	psi_test_advance(avgs, PSI_PERIOD, PSI_PERIOD);
	for (i = 0; i < 4000; i++)
		psi_test_advance(avgs, PSI_PERIOD, 0);
	KUNIT_EXPECT_TRUE(test, psi_avgs_zero(avgs, PSI_CPU_SOME, 0));
}

/*
 * The stall since a group joined the list of the fold is not spread over the
 * idle time before.
 */
static void psi_test_avgs_joined(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	u64 stall[PSI_NR_STATES] = { [PSI_CPU_SOME] = PSI_PERIOD / 2 };
	u64 joined = PSI_TEST_START + 10 * PSI_PERIOD;

	/* (1 - exp(-2 / 10)) / 2 */
	psi_avgs_update(avgs, PSI_ALL_STATES, joined, joined + PSI_PERIOD, stall);
	KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_CPU_SOME][PSI_10S]),
				       90634623ULL), 200);

	/*
	 * The group has not left the list, so the second window has no idle
	 * part.
	 */
	psi_avgs_update(avgs, PSI_ALL_STATES, joined, joined + 2 * PSI_PERIOD, stall);
	KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_CPU_SOME][PSI_10S]),
				       164839977ULL), 200);
}

/* No group was idle until before its last fold, whenever it joined the list. */
static void psi_test_avgs_folded(struct kunit *test)
{
	struct psi_group *group = kunit_kzalloc(test, sizeof(*group), GFP_KERNEL);
	u64 folded = psi_read_clock() + PSI_PERIOD;

	KUNIT_ASSERT_NOT_NULL(test, group);
	atomic64_set(&group->joined, 1);
	KUNIT_EXPECT_EQ(test, psi_idle_until(group, folded), folded);
}

static void psi_test_avgs_agree(struct kunit *test, const struct psi_avgs *a,
				const struct psi_avgs *b, int s)
{
	int h;

	KUNIT_EXPECT_EQ(test, a->at, b->at);
	KUNIT_EXPECT_EQ(test, a->pending[s], b->pending[s]);
	for (h = 0; h < PSI_NR_HORIZONS; h++)
		KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(a->avg[s][h]),
					       psi_test_ppb(b->avg[s][h])), 200);
}

/* Idle periods in closed form equal idle periods one by one. */
static void psi_test_avgs_idle_gap(struct kunit *test)
{
	struct psi_avgs *one = psi_test_avgs(test, PSI_TEST_START);
	struct psi_avgs *all = psi_test_avgs(test, PSI_TEST_START);
	int i;

	for (i = 0; i < 100; i++) {
		psi_test_advance(one, PSI_PERIOD, PSI_PERIOD);
		psi_test_advance(all, PSI_PERIOD, PSI_PERIOD);
	}
	for (i = 0; i < 77; i++)
		psi_test_advance(one, PSI_PERIOD, 0);
	psi_avgs_advance(all, PSI_ALL_STATES, all->at + 77 * PSI_PERIOD, psi_no_stall);

	psi_test_avgs_agree(test, one, all, PSI_CPU_SOME);
}

/* A group joins in the middle of a period: its averages fell until then. */
static void psi_test_avgs_joins(struct kunit *test)
{
	struct psi_avgs *time = psi_test_avgs(test, PSI_TEST_START);
	struct psi_avgs *late = psi_test_avgs(test, PSI_TEST_START);
	const u64 part = PSI_PERIOD / 4, idle = PSI_TEST_START + 7 * PSI_PERIOD + part;
	u64 stall[PSI_NR_STATES] = { [PSI_IO_FULL] = part };
	int i;

	for (i = 0; i < 5; i++) {
		psi_test_advance(time, PSI_PERIOD, PSI_PERIOD);
		psi_test_advance(late, PSI_PERIOD, PSI_PERIOD);
	}
	for (i = 5; i < 7; i++)
		psi_test_advance(time, PSI_PERIOD, 0);
	psi_test_advance(time, part, 0);
	psi_test_advance(time, 2 * part, part);
	psi_avgs_update(late, BIT(PSI_IO_FULL), idle, idle + 2 * part, stall);

	psi_test_avgs_agree(test, time, late, PSI_IO_FULL);
}

/* A fold that is a minute late gives what folds on time give. */
static void psi_test_avgs_late_fold(struct kunit *test)
{
	struct psi_avgs *late = psi_test_avgs(test, PSI_TEST_START + PSI_PERIOD / 3);
	struct psi_avgs *time = psi_test_avgs(test, PSI_TEST_START + PSI_PERIOD / 3);
	int i;

	for (i = 0; i < 30; i++)
		psi_test_advance(time, PSI_PERIOD, PSI_PERIOD / 4);
	psi_test_advance(late, 30 * PSI_PERIOD, 30 * PSI_PERIOD / 4);

	psi_test_avgs_agree(test, time, late, PSI_IO_FULL);
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
		u64 mark = psi_next_mark(avgs->at, PSI_PERIOD);
		u64 at = mark + prandom_u32_state(&rnd) % (60 * NSEC_PER_MSEC);
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

/*
 * If the clock of another CPU is behind, nothing is lost and time stands still.
 */
static void psi_test_avgs_clock_behind(struct kunit *test)
{
	struct psi_avgs *avgs = psi_test_avgs(test, PSI_TEST_START);
	u64 window[PSI_NR_STATES] = { [PSI_IO_SOME] = 5 };

	psi_avgs_advance(avgs, PSI_ALL_STATES, PSI_TEST_START - 1000, window);
	KUNIT_EXPECT_EQ(test, avgs->at, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, avgs->pending[PSI_IO_SOME], 5);
}

static void psi_test_avgs_years_of_uptime(struct kunit *test)
{
	u64 years = 30ULL * 365 * 24 * 3600 * NSEC_PER_SEC;
	struct psi_avgs *avgs = psi_test_avgs(test, years);

	KUNIT_EXPECT_EQ(test, psi_next_mark(avgs->at, PSI_PERIOD), years + PSI_PERIOD);
	psi_test_advance(avgs, 1000 * PSI_PERIOD, 500 * PSI_PERIOD);
	KUNIT_EXPECT_LE(test, abs_diff(psi_test_ppb(avgs->avg[PSI_IO_SOME][PSI_10S]),
				       500000000ULL), 100);
	psi_avgs_advance(avgs, PSI_ALL_STATES, avgs->at + years, psi_no_stall);
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

/* The lines are what printf() makes of them. */
static void psi_test_line(struct kunit *test)
{
	static const u64 totals[] = { 0, 999, 1000, 9999, 10000, U32_MAX, U64_MAX };
	static const struct psi_file file = { "io", BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL) };
	struct psi_account reading = { };
	char lines[256], numbers[128], want[256];
	unsigned int percent, bp, i;
	const char *key;

	for (percent = 0; percent <= 100; percent++) {
		key = percent % 2 ? "io.exact." : "";
		for (i = 0; i < PSI_NR_HORIZONS; i++) {
			bp = min(100 * percent + percent * (i + 1) % 100, 10000U);
			bp = div_u64((u64)PSI_AVG_ONE * bp + 9999, 10000);
			reading.avgs.avg[PSI_IO_SOME][i] = bp;
			reading.avgs.avg[PSI_IO_FULL][i] = bp;
		}
		for (i = 0; i < ARRAY_SIZE(totals); i++) {
			struct seq_file m = { .buf = lines, .size = sizeof(lines) };
			u64 total = totals[i] - percent * !!totals[i];

			reading.total[PSI_IO_SOME] = total;
			reading.total[PSI_IO_FULL] = total;
			psi_show_lines(&m, &file, PSI_EXACT, &reading, percent % 2);
			KUNIT_ASSERT_LT(test, m.count, m.size);
			KUNIT_EXPECT_LE(test, m.count / 2, strlen(key) + PSI_LINE_MAX);
			lines[m.count] = 0;
			scnprintf(numbers, sizeof(numbers),
				  " avg10=%u.%02u avg60=%u.%02u avg300=%u.%02u total=%llu\n",
				  percent, percent % 100, percent, 2 * percent % 100,
				  percent, 3 * percent % 100, div_u64(total, 1000));
			scnprintf(want, sizeof(want), "%ssome%s%sfull%s", key, numbers,
				  key, numbers);
			KUNIT_EXPECT_STREQ(test, lines, want);
		}
	}
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
	struct psi_look mean = { };
	int i;

	for (i = 0; i < ARRAY_SIZE(row->cpu); i++, first += step) {
		u64 times[PSI_NR_STATES] = {
			[PSI_NONIDLE]	= row->cpu[first].weight,
			[PSI_MEM_FULL]	= row->cpu[first].stall,
		};

		psi_mean_add(&mean, times, PSI_ALL_STATES);
	}
	return mean.stall[PSI_MEM_FULL];
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

/*
 * 4096 CPUs, each a minute in the state. PSI_SLACK_NS allows for what rounding
 * loses.
 */
static void psi_test_window_many_cpus(struct kunit *test)
{
	u64 times[PSI_NR_STATES], want = 60 * PSI_TEST_SEC;
	struct psi_look mean = { };
	int i;

	for (i = 0; i < PSI_NR_STATES; i++)
		times[i] = want;
	for (i = 0; i < 4096; i++)
		psi_mean_add(&mean, times, PSI_ALL_STATES);
	KUNIT_EXPECT_EQ(test, mean.weight, 4096 * want);
	KUNIT_EXPECT_LE(test, mean.stall[PSI_IO_SOME], want);
	KUNIT_EXPECT_LE(test, want - mean.stall[PSI_IO_SOME], 2 * 4096);
}

/*
 * Triggers
 */

static const struct psi_test_parse_row {
	const char *desc;
	const char *text;
	u32 stall, window;	/* 0: to be refused */
	enum psi_state state;
	enum psi_file_id file;
	enum psi_kind kind;
} psi_test_parse_rows[] = {
	{ "some", "some 150000 1000000", 150000, 1000000, PSI_CPU_SOME },
	{ "full", "full 50000 500000", 50000, 500000, PSI_CPU_FULL },
	{ "a newline", "some 150000 1000000\n", 150000, 1000000, PSI_CPU_SOME },
	{ "a blank after", "some 150000 1000000 ", 150000, 1000000, PSI_CPU_SOME },
	{ "two newlines", "some 150000 1000000\n\n", 150000, 1000000, PSI_CPU_SOME },
	{ "blanks and newlines after", "some 150000 1000000 \t\n\n ", 150000, 1000000,
	  PSI_CPU_SOME },
	{ "anything after a NUL", "some 150000 1000000\0 is not read", 150000, 1000000,
	  PSI_CPU_SOME },
	{ "anything after a newline and a NUL", "some 150000 1000000\n\0x", 150000, 1000000,
	  PSI_CPU_SOME },
	{ "many blanks", "some  \t150000 \t 1000000", 150000, 1000000, PSI_CPU_SOME },
	{ "leading zeros", "some 000000000150000 01000000", 150000, 1000000, PSI_CPU_SOME },
	{ "the smallest", "some 1 500000", 1, 500000, PSI_CPU_SOME },
	{ "the largest", "full 10000000 10000000", 10000000, 10000000, PSI_CPU_FULL },
	{ "nothing", "" },
	{ "a newline only", "\n" },
	{ "three letters", "som" },
	{ "a word only", "some" },
	{ "one number", "some 150000" },
	{ "one number and a blank", "some 150000 " },
	{ "no blank", "some150000 1000000" },
	{ "another word", "most 150000 1000000" },
	{ "capitals", "SOME 150000 1000000" },
	{ "a longer word", "something 150000 1000000" },
	{ "a blank before", " some 150000 1000000" },
	{ "junk after", "some 150000 1000000xyz" },
	{ "junk after the newline", "some 150000 1000000\nx" },
	{ "a NUL between", "some 150000\0 1000000" },
	{ "a newline before", "\nsome 150000 1000000" },
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
	{ "a line of the plain files", "cpu.some 150000 1000000", 150000, 1000000,
	  PSI_CPU_SOME, PSI_STAT },
	{ "another resource", "memory.full 1 500000\n", 1, 500000, PSI_MEM_FULL, PSI_STAT },
	{ "a kind", "io.exact.some 150000 1000000", 150000, 1000000, PSI_IO_SOME, PSI_STAT,
	  PSI_EXACT },
	{ "a limit", "memory.limit.full 1 500000", 1, 500000, PSI_MEM_FULL, PSI_STAT,
	  PSI_LIMIT },
	{ "a shortage", "cpu.shortage.some \t 150000  2000000", 150000, 2000000, PSI_CPU_SOME,
	  PSI_STAT, PSI_SHORTAGE },
	{ "no resource", "some 150000 1000000", .file = PSI_STAT },
	{ "a kind, but no resource", "exact.some 150000 1000000", .file = PSI_STAT },
	{ "another one", "disk.some 150000 1000000", .file = PSI_STAT },
	{ "the name of the file", "stat.some 150000 1000000", .file = PSI_STAT },
	{ "no point", "iosome 150000 1000000", .file = PSI_STAT },
	{ "a blank for a point", "io some 150000 1000000", .file = PSI_STAT },
	{ "two points", "io..some 150000 1000000", .file = PSI_STAT },
	{ "a resource only", "io 150000 1000000", .file = PSI_STAT },
	{ "a kind only", "io.exact 150000 1000000", .file = PSI_STAT },
	{ "two kinds", "io.exact.limit.some 150000 1000000", .file = PSI_STAT },
	{ "the same kind twice", "io.exact.exact.some 150000 1000000", .file = PSI_STAT },
	{ "another kind", "io.exactly.some 150000 1000000", .file = PSI_STAT },
	{ "a cause", "memory.cause.reclaim 150000 1000000", .file = PSI_STAT },
	{ "some of irq", "irq.some 150000 1000000", .file = PSI_STAT },
	{ "a kind of irq", "irq.exact.full 150000 1000000", .file = PSI_STAT },
	{ "a key in a plain file", "cpu.some 150000 1000000" },
	{ "a kind in a plain file", "exact.some 150000 1000000" },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_parse_rows, psi_test_parse_rows, desc);

static void psi_test_parse(struct kunit *test)
{
	const struct psi_test_parse_row *row = test->param_value;
	struct psi_request request;
	bool good = psi_parse(row->text, row->file, &request);

	KUNIT_ASSERT_EQ(test, good, row->window != 0);
	if (!good)
		return;
	KUNIT_EXPECT_EQ(test, request.kind, row->kind);
	KUNIT_EXPECT_EQ(test, request.state, row->state);
	KUNIT_EXPECT_EQ(test, request.stall, row->stall);
	KUNIT_EXPECT_EQ(test, request.window, row->window);
}

/*
 * Random stalls, samples of which some are late: compare the events of a
 * trigger with the stalls themselves.
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
 * The most stall in any window between two times. The best window begins where
 * a stall begins, ends where one ends, or touches one of the limits.
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
	struct psi_trigger t = { .base.at = now };
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
		sampler->last.total = psi_test_stall(stalls, PSI_TEST_START, now);
		psi_trigger_look(&t, sampler, &sampler->last);

		/* No false event, and no window missed by more than a step. */
		most = psi_test_most(stalls, since, now);
		if (t.owed && !was_owed)
			KUNIT_ASSERT_GE(test, most + psi_slack(t.threshold), t.threshold);
		else if (!t.owed && !late)
			KUNIT_ASSERT_LT(test, most, t.threshold + step);
		/* A late sample still has all stall since the last one. */
		gap = DIV_ROUND_UP_ULL(now - looked, PSI_TEST_WINDOW) * t.threshold;
		if (!t.owed)
			KUNIT_ASSERT_LT(test, psi_test_stall(stalls, looked, now), gap);
		looked = now;

		/*
		 * At most one event per window, and at once after the quiet
		 * time.
		 */
		if (psi_trigger_take(&t, PSI_TEST_WINDOW, &sampler->last)) {
			KUNIT_ASSERT_TRUE(test, !last || now >= last + PSI_TEST_WINDOW);
			last = now;
			since = now;
		}
		KUNIT_ASSERT_FALSE(test, t.owed && (!last || now >= last + PSI_TEST_WINDOW));
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

/* An event that is due in the quiet time comes when that ends, however late. */
static void psi_test_trigger_owed(struct kunit *test)
{
	static const struct { u64 at, total; bool event; } looks[] = {
		{ 100, 100, true },
		{ 200, 200, false },
		{ 2000, 200, true },
		{ 2100, 200, false },
	};
	struct psi_trigger t = { .base.at = PSI_TEST_START };
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START;
	t.threshold = 90 * NSEC_PER_MSEC;
	for (i = 0; i < ARRAY_SIZE(looks); i++) {
		psi_sampler_push(sampler);
		sampler->last.at = PSI_TEST_START + looks[i].at * NSEC_PER_MSEC;
		sampler->last.total = looks[i].total * NSEC_PER_MSEC;
		psi_trigger_look(&t, sampler, &sampler->last);
		KUNIT_EXPECT_EQ_MSG(test, psi_trigger_take(&t, PSI_TEST_WINDOW, &sampler->last),
				    looks[i].event, "at %llu ms", looks[i].at);
	}
}

static bool psi_test_reached(struct psi_trigger *t, const struct psi_sampler *sampler)
{
	t->owed = false;
	psi_trigger_look(t, sampler, &sampler->last);
	return t->owed;
}

/*
 * 95 ms in a window that ends with the sample. The sample has 20 ms of later
 * stall.
 */
static void psi_test_trigger_late(struct kunit *test)
{
	struct psi_trigger t = { .base.at = PSI_TEST_START };
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START + PSI_TEST_WINDOW;
	sampler->last.total = 95 * NSEC_PER_MSEC;
	t.threshold = 90 * NSEC_PER_MSEC;
	sampler->late = 20 * NSEC_PER_MSEC;
	KUNIT_EXPECT_FALSE(test, psi_test_reached(&t, sampler));
	sampler->late = 0;
	KUNIT_EXPECT_TRUE(test, psi_test_reached(&t, sampler));
}

/* No sample for 900 ms with 360 ms of stall: one of two windows has 180 ms. */
static void psi_test_trigger_gap(struct kunit *test)
{
	struct psi_trigger t = { .base.at = PSI_TEST_START };
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START + 900 * NSEC_PER_MSEC;
	sampler->last.total = 360 * NSEC_PER_MSEC;
	t.threshold = 180 * NSEC_PER_MSEC;
	KUNIT_EXPECT_TRUE(test, psi_test_reached(&t, sampler));
	t.threshold += 2 * PSI_SLACK_NS;
	KUNIT_EXPECT_FALSE(test, psi_test_reached(&t, sampler));
}

/*
 * The least threshold there is: a stall of that length reaches it, silence does
 * not.
 */
static void psi_test_trigger_least(struct kunit *test)
{
	struct psi_sampler *sampler = kunit_kzalloc(test, sizeof(*sampler), GFP_KERNEL);
	struct psi_trigger t = { .base.at = PSI_TEST_START };
	int i;

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	t.threshold = NSEC_PER_USEC;
	sampler->window = PSI_TEST_WINDOW;
	sampler->last.at = PSI_TEST_START;
	sampler->least = t.threshold;
	for (i = 1; i <= 4 * PSI_RING; i++) {
		psi_sampler_push(sampler);
		sampler->last.at += PSI_TEST_WINDOW / PSI_STEPS;
		if (i == 2 * PSI_RING)
			sampler->last.total += t.threshold;
		psi_trigger_look(&t, sampler, &sampler->last);
		KUNIT_EXPECT_EQ_MSG(test, psi_trigger_take(&t, PSI_TEST_WINDOW, &sampler->last),
				    i == 2 * PSI_RING, "step %d", i);
		/*
		 * There was some as long as the oldest sample is from before
		 * it.
		 */
		KUNIT_EXPECT_EQ_MSG(test, psi_sampler_may_fire(sampler),
				    i >= 2 * PSI_RING && i < 3 * PSI_RING, "step %d", i);
	}
}

/* What a step adds up, by the formulas of the plain files and of the others. */
static const struct psi_test_step_row {
	const char *desc;
	struct psi_sampled cpu[2][2];	/* seen before, now */
	u64 mean, sum, weight, most;
} psi_test_step_rows[] = {
	{ "one CPU", { { { 1000, 100 }, { 2000, 400 } } }, 300, 300, 1000, 1000 },
	{ "an idle CPU does not dilute", { { { 0 }, { 1000, 400 } }, { { 7, 3 }, { 7, 3 } } },
	  400, 400, 1000, 1000 },
	{ "a busy CPU dilutes by its weight", { { { 0 }, { 200, 200 } }, { { 0 }, { 600 } } },
	  50, 200, 800, 600 },
	{ "a clock that went back", { { { 1000, 100 }, { 900, 90 } } } },
	{ "more stall than time in use", { { { 0 }, { 100, 150 } } }, 100, 100, 100, 100 },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_step_rows, psi_test_step_rows, desc);

static void psi_test_step(struct kunit *test)
{
	const struct psi_test_step_row *row = test->param_value;
	struct psi_sampled seen[2] = { row->cpu[0][0], row->cpu[1][0] };
	struct psi_look step = { };
	int i;

	for (i = 0; i < 2; i++)
		psi_sum_add(&step, PSI_IO_SOME, &seen[i], &row->cpu[i][1]);
	KUNIT_EXPECT_EQ(test, step.stall[PSI_IO_SOME], row->mean);
	KUNIT_EXPECT_EQ(test, step.sum[PSI_IO_SOME], row->sum);
	KUNIT_EXPECT_EQ(test, step.weight, row->weight);
	KUNIT_EXPECT_EQ(test, step.most, row->most);
}

/*
 * Stall that comes before its time in use is for a later step, none counts
 * twice.
 */
static void psi_test_step_remainder(struct kunit *test)
{
	struct psi_sampled seen = { }, now = { 0, 70 };
	struct psi_look step = { };

	psi_sum_add(&step, PSI_IO_SOME, &seen, &now);
	KUNIT_EXPECT_EQ(test, step.sum[PSI_IO_SOME], 0);
	now = (struct psi_sampled){ 50, 70 };
	psi_sum_add(&step, PSI_IO_SOME, &seen, &now);
	KUNIT_EXPECT_EQ(test, step.sum[PSI_IO_SOME], 50);
	now = (struct psi_sampled){ 100, 70 };
	psi_sum_add(&step, PSI_IO_SOME, &seen, &now);
	KUNIT_EXPECT_EQ(test, step.sum[PSI_IO_SOME], 70);
	KUNIT_EXPECT_EQ(test, seen.stall, 70);
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
