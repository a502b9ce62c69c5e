// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: exact pressure, limit and
 * shortage. Exact pressure is tested against the integral of s / n taken tick
 * by tick; the walk with the model, see psi_test_model.c.
 */

/*
 * What a contributor shows follows from the tasks below, and the classes from
 * what it shows.
 */
static void psi_test_class_exhaustive(struct kunit *test)
{
	enum { NR = 3, KINDS = 3 * 3 * 3 * 2 };
	unsigned int code;

	for (code = 0; code < KINDS * KINDS * KINDS; code++) {
		unsigned int c = code, limit, shortage;
		struct psi_test_task tasks[NR];
		struct psi_group_cpu gc = { };
		int i, oncpu = 0;

		cond_resched();
		for (i = 0; i < NR; i++, c /= KINDS) {
			tasks[i].where = c % 3;
			tasks[i].iowait = c / 3 % 3;
			tasks[i].io_held = c / 3 % 3 == 2;
			tasks[i].stall = c / 9 % 3;
			tasks[i].stall_held = c / 9 % 3 == 2;
			tasks[i].held = c / 27 % 2;
			oncpu += tasks[i].where == PSI_RUNS;
			gc.attrs |= psi_test_attrs(&tasks[i]);
		}
		if (oncpu > 1)
			continue;
		gc.states = psi_states[gc.attrs];
		limit = psi_test_class_states(tasks, NR, true);
		shortage = psi_test_class_states(tasks, NR, false);
		KUNIT_EXPECT_EQ_MSG(test, gc.states, psi_test_states(tasks, NR), "set %u", code);
		KUNIT_EXPECT_EQ_MSG(test, psi_held_of(&gc), psi_test_held(limit, shortage),
				    "set %u", code);
	}
}

#define PSI_TEST_TICK		(100 * NSEC_PER_USEC)
#define PSI_TEST_TICKS		20000
#define PSI_TEST_MOST_CPUS	64
#define PSI_TEST_BLOCKS		8

/* What a CPU does in a tick. */
enum psi_test_doing { PSI_DOES_NOTHING, PSI_DOES_WORK, PSI_DOES_STALL };

/*
 * One task at a time stalls for 86 % of each of its visits, of @arg ticks, to a
 * CPU.
 */
static enum psi_test_doing psi_test_moves(struct rnd_state *rnd, int cpus, int cpu, int tick,
					  int arg)
{
	if (tick / arg % cpus != cpu)
		return PSI_DOES_NOTHING;
	return tick * 7 % 50 < 43 ? PSI_DOES_STALL : PSI_DOES_WORK;
}

/*
 * Each CPU is in use for @arg % of the time, at random, and stalled for half of
 * that.
 */
static enum psi_test_doing psi_test_random(struct rnd_state *rnd, int cpus, int cpu, int tick,
					   int arg)
{
	if (prandom_u32_state(rnd) % 100 >= arg)
		return PSI_DOES_NOTHING;
	return prandom_u32_state(rnd) % 2 ? PSI_DOES_STALL : PSI_DOES_WORK;
}

/* All CPUs stall at the same moments, for @arg % of the time, and work else. */
static enum psi_test_doing psi_test_together(struct rnd_state *rnd, int cpus, int cpu, int tick,
					     int arg)
{
	return tick % 100 < arg ? PSI_DOES_STALL : PSI_DOES_WORK;
}

/*
 * Each CPU is in use for @arg % of the time, at random, and stalled all of it.
 */
static enum psi_test_doing psi_test_stalled(struct rnd_state *rnd, int cpus, int cpu, int tick,
					    int arg)
{
	return prandom_u32_state(rnd) % 100 < arg ? PSI_DOES_STALL : PSI_DOES_NOTHING;
}

/* All CPUs work for half of the window, then one alone stalls. */
static enum psi_test_doing psi_test_mixed(struct rnd_state *rnd, int cpus, int cpu, int tick,
					  int arg)
{
	if (tick < PSI_TEST_TICKS / 2)
		return PSI_DOES_WORK;
	return cpu ? PSI_DOES_NOTHING : PSI_DOES_STALL;
}

/* @least, @most: exact pressure less the integral, in 1/10 % of the window */
static const struct psi_test_exact_row {
	const char *desc;
	enum psi_test_doing (*does)(struct rnd_state *rnd, int cpus, int cpu, int tick, int arg);
	int cpus, arg, least, most;
} psi_test_exact_rows[] = {
	{ "one task on one CPU", psi_test_moves, 1, 10, 0, 0 },
	{ "one task on 8 CPUs, another each ms", psi_test_moves, 8, 10, 0, 0 },
	{ "one task on 64 CPUs, another each ms", psi_test_moves, 64, 10, 0, 0 },
	{ "one task on 64 CPUs, another each second", psi_test_moves, 64, 10000, 0, 0 },
	{ "2 CPUs at random, in use for 5 %", psi_test_random, 2, 5, -20, 20 },
	{ "8 CPUs at random, in use for 5 %", psi_test_random, 8, 5, -20, 20 },
	{ "64 CPUs at random, in use for 5 %", psi_test_random, 64, 5, -20, 20 },
	{ "64 CPUs at random, in use for 80 %", psi_test_random, 64, 80, -20, 20 },
	{ "2 CPUs at the same moments", psi_test_together, 2, 50, 0, 0 },
	{ "64 CPUs at the same moments", psi_test_together, 64, 30, 0, 0 },
	{ "64 CPUs, in use for 5 %, always stalled", psi_test_stalled, 64, 5, -1, 1 },
	/* What psi.rst says cannot be told: 50 % comes out as 1.5 %. */
	{ "64 CPUs work, then one stalls", psi_test_mixed, 64, 0, -485, -484 },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_exact_rows, psi_test_exact_rows, desc);

/**
 * struct psi_test_exact - a machine, tick by tick
 * @asked: has its union, kept without blocks of CPUs and with them
 * @times: per CPU
 * @does: per CPU, in the last tick
 * @now: ns
 * @integral: of s / n so far, in ns
 * @used: time in which a CPU was in use, in ns
 */
struct psi_test_exact {
	struct psi_asked *asked[2];
	u64 times[PSI_TEST_MOST_CPUS][PSI_NR_STATES];
	enum psi_test_doing does[PSI_TEST_MOST_CPUS];
	u64 now, integral, used;
};

static void psi_test_exact_exit(void *asked)
{
	kvfree(asked);
}

static struct psi_test_exact *psi_test_exact_init(struct kunit *test)
{
	struct psi_test_exact *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, e);
	for (i = 0; i < 2; i++) {
		e->asked[i] = kvzalloc(struct_size(e->asked[i], blocks, i * PSI_TEST_BLOCKS),
				       GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, e->asked[i]);
		KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, psi_test_exact_exit,
								   e->asked[i]));
	}
	/* Where what is kept of the clock wraps soon. */
	e->now = (1ULL << (64 - PSI_UNION_BITS)) - 5000 * PSI_TEST_TICK;
	return e;
}

/* With blocks of CPUs, and without. */
static void psi_test_exact_count(struct psi_test_exact *e, int cpu, bool begins)
{
	psi_union_count(e->asked[true], &e->asked[true]->blocks[cpu % PSI_TEST_BLOCKS].cpus,
			begins, e->now);
	psi_union_count(e->asked[false], NULL, begins, e->now);
}

static void psi_test_exact_tick(struct psi_test_exact *e, int cpus)
{
	u64 stalled = 0, in_use = 0;
	int cpu;

	for (cpu = 0; cpu < cpus; cpu++) {
		bool stalls = e->does[cpu] == PSI_DOES_STALL;

		if (e->does[cpu] == PSI_DOES_NOTHING)
			continue;
		in_use++;
		stalled += stalls;
		e->times[cpu][PSI_NONIDLE] += PSI_TEST_TICK;
		e->times[cpu][PSI_IO_SOME] += stalls * PSI_TEST_TICK;
	}
	e->now += PSI_TEST_TICK;
	if (!in_use)
		return;
	e->used += PSI_TEST_TICK;
	e->integral += div64_u64(stalled * PSI_TEST_TICK, in_use);
}

static void psi_test_exact(struct kunit *test)
{
	const struct psi_test_exact_row *row = test->param_value;
	const s64 unit = PSI_TEST_TICKS * PSI_TEST_TICK / 1000;
	struct psi_test_exact *e = psi_test_exact_init(test);
	struct psi_look look = { .states = BIT(PSI_IO_SOME) };
	const struct psi_asked_cpu none = { };
	struct rnd_state rnd;
	u64 used, exact;
	int tick, cpu;

	prandom_seed_state(&rnd, 4711);
	for (tick = 0; tick < PSI_TEST_TICKS; tick++) {
		for (cpu = 0; cpu < row->cpus; cpu++) {
			enum psi_test_doing does = row->does(&rnd, row->cpus, cpu, tick, row->arg);

			if (!does != !e->does[cpu])
				psi_test_exact_count(e, cpu, does);
			e->does[cpu] = does;
		}
		psi_test_exact_tick(e, row->cpus);
	}

	used = psi_union_since(psi_union_read(e->asked[true], e->now), 0);
	KUNIT_EXPECT_EQ(test, used, e->used);
	used = psi_union_since(psi_union_read(e->asked[false], e->now), 0);
	KUNIT_EXPECT_EQ(test, used, e->used);
	for (cpu = 0; cpu < row->cpus; cpu++) {
		psi_mean_add(&look, e->times[cpu], 0);
		psi_sums_add(&look, &none, e->times[cpu], none.times);
	}
	exact = psi_sums_share(&look, look.sum[PSI_IO_SOME], used);
	/* The integral is rounded down in each tick. */
	KUNIT_EXPECT_GE(test, (s64)(exact - e->integral), row->least * unit);
	KUNIT_EXPECT_LE(test, (s64)(exact - e->integral), row->most * unit + PSI_TEST_TICKS);
}

/*
 * Have a group begin on a CPU that has @nr pieces in reserve; return where it
 * is counted, and how many are @left.
 */
static struct psi_group *psi_test_begin(struct kunit *test, struct psi_group *group, int cpu,
					int nr, int *left)
{
	struct psi_reserve reserve = { };
	struct psi_group_cpu *memory;
	struct psi_group *home;
	struct rq_flags rf;

	while (reserve.nr < nr && (memory = psi_test_cell())) {
		memory->up = reserve.free;
		reserve.free = memory;
		reserve.nr++;
	}
	KUNIT_EXPECT_EQ(test, reserve.nr, nr);
	rq_lock_irqsave(cpu_rq(cpu), &rf);
	swap(*per_cpu_ptr(&psi_reserves, cpu), reserve);
	home = psi_group_extend(group, cpu, NULL);
	swap(*per_cpu_ptr(&psi_reserves, cpu), reserve);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	*left = reserve.nr;
	psi_test_model_free(reserve.free);
	return home;
}

/* A group takes one piece of memory on a CPU, also while it is asked. */
static void psi_test_asked_memory(struct kunit *test)
{
	struct psi_group *above = psi_test_group(test);
	struct psi_group *group = kunit_kzalloc(test, sizeof(*group), GFP_KERNEL);
	int cpu = cpumask_first(cpu_possible_mask), other = cpumask_last(cpu_possible_mask), left;
	struct psi_asked *asked;

	KUNIT_ASSERT_NOT_NULL(test, group);
	KUNIT_ASSERT_TRUE(test, psi_test_group_init(group, above, 1));
	KUNIT_EXPECT_PTR_EQ(test, psi_test_begin(test, group, cpu, 0, &left), above);
	KUNIT_EXPECT_PTR_EQ(test, psi_test_begin(test, group, cpu, 1, &left), group);
	KUNIT_EXPECT_EQ(test, left, 0);
	asked = psi_test_ask(group, PSI_TEST_START);
	KUNIT_EXPECT_NOT_NULL(test, asked);
	if (asked && other != cpu) {
		KUNIT_EXPECT_PTR_EQ(test, psi_test_begin(test, group, other, 0, &left), above);
		KUNIT_EXPECT_PTR_EQ(test, psi_test_begin(test, group, other, 2, &left), group);
		KUNIT_EXPECT_EQ(test, left, 1);
	}
	psi_test_group_free(group);
}

/* How long a group was in use on any CPU, since somebody asks. */
static u64 psi_test_used(const struct psi_asked *asked, u64 now)
{
	return psi_union_since(psi_union_read(asked, now), 0);
}

/* Count a task as @attrs at @now. */
static void psi_test_change(struct psi_task *task, unsigned int attrs, int cpu, u64 now)
{
	struct rq_flags rf;

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(task, attrs, cpu_rq(cpu), now);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
}

/*
 * A task that is alone in its group wakes up, runs and falls asleep: of the
 * time of interrupts it has what passed meanwhile.
 */
static void psi_test_irq_alone(struct kunit *test)
{
	static const enum psi_where where[] = { PSI_QUEUED, PSI_RUNS, PSI_ASLEEP };
	int cpu = cpumask_first(cpu_possible_mask), i;
	struct psi_group *group = psi_test_group(test);
	struct psi_task task = { .group = group };
	u64 begin = irq_time_read(cpu);

	for (i = 0; i < ARRAY_SIZE(where); i++) {
		struct psi_test_task is = { .where = where[i] };

		psi_test_change(&task, psi_test_attrs(&is), cpu, PSI_TEST_START + i);
	}
	KUNIT_EXPECT_LE(test, group->cpus[cpu]->times[PSI_IRQ_FULL], irq_time_read(cpu) - begin);
}

/* A group below another one, on a CPU that neither is in use on. */
static struct psi_group *psi_test_below_group(struct kunit *test, struct psi_group *above)
{
	struct psi_group *group = psi_test_group(test);

	group->parent = above;
	group->level = above->level + 1;
	return group;
}

/*
 * A CPU that begins to use a group which is asked counts once in its union,
 * also after a rest.
 */
static void psi_test_asked_joins(struct kunit *test)
{
	struct psi_group *above = psi_test_group(test), *group = psi_test_below_group(test, above);
	int cpu = cpumask_first(cpu_possible_mask), round, i;
	struct psi_task task = { .group = group };
	u64 now = PSI_TEST_START, used = 0;
	struct psi_asked *asked[2];

	asked[0] = psi_test_ask(group, now);
	asked[1] = psi_test_ask(above, now);
	KUNIT_ASSERT_NOT_NULL(test, asked[0]);
	KUNIT_ASSERT_NOT_NULL(test, asked[1]);
	for (round = 1; round <= 3; round++) {
		psi_test_change(&task, PSI_ONCPU | PSI_PRODUCTIVE, cpu, now);
		now += 100;
		psi_test_change(&task, 0, cpu, now);
		used += 100;
		now += 1000;
		KUNIT_EXPECT_EQ(test, psi_test_used(asked[0], now), used);
		KUNIT_EXPECT_EQ(test, psi_test_used(asked[1], now), 100 * round);
		for (i = 0; i < 2; i++)
			KUNIT_EXPECT_EQ(test, 0, atomic64_read(&asked[i]->word) &
					PSI_UNION_COUNT);
		/*
		 * The fold comes by after an idle window. Somebody may have
		 * locked the runqueue.
		 */
		for (i = 0; i < 1000 && cpumask_test_cpu(cpu, group->cpumask); i++)
			psi_test_end_window(group);
		for (i = 0; i < 1000 && cpumask_test_cpu(cpu, above->cpumask); i++)
			psi_test_end_window(above);
	}
}

/*
 * Two groups delegate to a third one, and the upper one is asked. Now a limit
 * holds a task of the one between: the upper one knows of that.
 */
static void psi_test_asked_between(struct kunit *test)
{
	struct psi_group *top = psi_test_group(test), *mid = psi_test_below_group(test, top);
	struct psi_group *low = psi_test_below_group(test, mid);
	struct psi_task task = { .group = low }, held = { .group = mid, .mode = PSI_HELD };
	int cpu = cpumask_first(cpu_possible_mask), i;
	struct psi_group_cpu *gc = mid->cpus[cpu];
	u64 now = PSI_TEST_START;
	struct psi_asked *asked;

	for (i = 0; i < 4 * PSI_STREAK; i++)
		psi_test_change(&task, i % 2 ? 0 : PSI_ONCPU | PSI_PRODUCTIVE, cpu, ++now);
	psi_test_change(&task, PSI_ONCPU | PSI_PRODUCTIVE, cpu, ++now);
	KUNIT_EXPECT_TRUE(test, psi_test_delegates(top->cpus[cpu]));
	KUNIT_EXPECT_TRUE(test, psi_test_delegates(gc));
	asked = psi_test_ask(top, now);
	KUNIT_ASSERT_NOT_NULL(test, asked);
	KUNIT_EXPECT_EQ(test, low->cpus[cpu]->asked, PSI_ASKED_ABOVE);

	psi_test_change(&held, psi_attrs_for(PSI_QUEUED, 0, PSI_HELD), cpu, ++now);
	KUNIT_EXPECT_FALSE(test, psi_test_delegates(top->cpus[cpu]));
	KUNIT_EXPECT_EQ(test, per_cpu_ptr(asked->cpus, cpu)->held,
			psi_test_held(BIT(PSI_CPU_SOME), 0));
	KUNIT_EXPECT_EQ(test, gc->asked, 0);
	KUNIT_EXPECT_EQ(test, low->cpus[cpu]->asked, 0);
	psi_test_change(&held, 0, cpu, now + 70);
	KUNIT_EXPECT_EQ(test, per_cpu_ptr(asked->cpus, cpu)->held, 0);
	KUNIT_EXPECT_EQ(test, per_cpu_ptr(asked->cpus, cpu)->times[PSI_LIMIT_AT(PSI_CPU_SOME)], 70);
	psi_test_change(&task, 0, cpu, now + 70);
}

/*
 * Nobody asks any more while a cell delegates which had the mark of one that is
 * asked above: it has no mark when it stands for itself again.
 */
static void psi_test_asked_ends_above(struct kunit *test)
{
	struct psi_group *top = psi_test_group(test), *mid = psi_test_below_group(test, top);
	struct psi_group *low = psi_test_below_group(test, mid);
	struct psi_task task = { .group = low }, beside = { .group = mid };
	int cpu = cpumask_first(cpu_possible_mask), i;
	struct psi_group_cpu *gc = mid->cpus[cpu];
	u64 now = PSI_TEST_START;

	KUNIT_ASSERT_NOT_NULL(test, psi_test_ask(top, now));
	for (i = 0; i < 4 * PSI_STREAK; i++)
		psi_test_change(&beside, i % 2 ? 0 : PSI_ONCPU | PSI_PRODUCTIVE, cpu, ++now);
	KUNIT_EXPECT_TRUE(test, psi_test_delegates(top->cpus[cpu]));
	KUNIT_EXPECT_EQ(test, gc->asked, PSI_ASKED_ABOVE);
	for (i = 0; i < 4 * PSI_STREAK; i++)
		psi_test_change(&task, i % 2 ? 0 : PSI_ONCPU | PSI_PRODUCTIVE, cpu, ++now);
	KUNIT_EXPECT_TRUE(test, psi_test_delegates(gc));
	KUNIT_EXPECT_EQ(test, low->cpus[cpu]->asked, PSI_ASKED_ABOVE);

	psi_test_unask(top, now);
	KUNIT_EXPECT_EQ(test, low->cpus[cpu]->asked, 0);
	psi_test_change(&beside, PSI_ONCPU | PSI_PRODUCTIVE, cpu, ++now);
	KUNIT_EXPECT_FALSE(test, psi_test_delegates(gc));
	KUNIT_EXPECT_EQ(test, gc->asked, 0);
	KUNIT_EXPECT_EQ(test, low->cpus[cpu]->asked, 0);
	psi_test_change(&beside, 0, cpu, ++now);
}

/*
 * A task that a limit holds moves to a group that nobody asks about, and back.
 */
static void psi_test_class_regroup(struct kunit *test)
{
	struct psi_group *from = psi_test_group(test), *to = psi_test_group(test);
	const u64 one = psi_limit_counts_of(PSI_LIMIT_WAITING);
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_group_cpu *gc = from->cpus[cpu];
	struct psi_task task = { .group = from, .mode = PSI_HELD };
	unsigned int held = psi_attrs_for(PSI_QUEUED, 0, PSI_HELD);
	struct psi_asked *asked;
	struct rq_flags rf;

	psi_test_change(&task, held, cpu, PSI_TEST_START);
	asked = psi_test_ask(from, PSI_TEST_START);
	KUNIT_ASSERT_NOT_NULL(test, asked);
	KUNIT_EXPECT_EQ(test, gc->limit, one);
	KUNIT_EXPECT_EQ(test, per_cpu_ptr(asked->cpus, cpu)->held,
			psi_test_held(BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL), 0));

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_regroup(&task, to, cpu_rq(cpu), PSI_TEST_START);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	KUNIT_EXPECT_EQ(test, task.attrs, held);
	KUNIT_EXPECT_EQ(test, gc->limit, 0);
	KUNIT_EXPECT_EQ(test, per_cpu_ptr(asked->cpus, cpu)->held, 0);
	KUNIT_EXPECT_EQ(test, gc->states, 0);
	KUNIT_EXPECT_EQ(test, to->cpus[cpu]->attrs, held);
	KUNIT_EXPECT_EQ(test, to->cpus[cpu]->limit, one);

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_regroup(&task, from, cpu_rq(cpu), PSI_TEST_START);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	KUNIT_EXPECT_EQ(test, to->cpus[cpu]->limit, 0);
	KUNIT_EXPECT_EQ(test, per_cpu_ptr(asked->cpus, cpu)->held,
			psi_test_held(BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL), 0));
	psi_test_change(&task, 0, cpu, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, gc->limit, 0);
}

/*
 * Of the time in which a group is stalled on io, a limit holds a task for
 * @limit ns.
 */
static void psi_test_limit(struct psi_group *group, int cpu, u64 limit, u64 only)
{
	struct psi_asked *asked = rcu_access_pointer(group->asked);

	per_cpu_ptr(asked->cpus, cpu)->times[PSI_LIMIT_AT(PSI_IO_SOME)] += limit;
	per_cpu_ptr(asked->cpus, cpu)->times[PSI_ONLY_AT(PSI_IO_SOME)] += only;
}

/* What a group has of a kind of io pressure, "some", for a reader. */
static u64 psi_test_total(struct kunit *test, struct psi_group *group, enum psi_kind kind)
{
	struct psi_account *readings;

	readings = kunit_kcalloc(test, PSI_NR_KINDS, sizeof(*readings), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, readings);
	psi_read(group, PSI_NR_KINDS, PSI_ALL_STATES, readings);
	return readings[kind].total[PSI_IO_SOME];
}

static void psi_test_expect(struct kunit *test, struct psi_group *group, u64 exact, u64 limit,
			    u64 shortage)
{
	KUNIT_EXPECT_EQ(test, psi_test_total(test, group, PSI_EXACT), exact);
	KUNIT_EXPECT_EQ(test, psi_test_total(test, group, PSI_LIMIT), limit);
	KUNIT_EXPECT_EQ(test, psi_test_total(test, group, PSI_SHORTAGE), shortage);
}

#ifdef CONFIG_CGROUPS
/* What the files of a group say about "some" of io. */
static void psi_test_shows(struct kunit *test, struct psi_group *group, u64 plain, u64 limit)
{
	struct psi_account *readings;

	readings = kunit_kcalloc(test, PSI_NR_KINDS, sizeof(*readings), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, readings);
	psi_read(group, PSI_NR_KINDS, PSI_ALL_STATES, readings);
	psi_mask_classes(readings);
	KUNIT_EXPECT_EQ(test, readings[PSI_PLAIN].total[PSI_IO_SOME], plain);
	KUNIT_EXPECT_EQ(test, readings[PSI_LIMIT].total[PSI_IO_SOME], limit);
}

/*
 * While a group is off, its totals stand still. Then they go on from there, at
 * once and after the next window.
 */
static void psi_test_switched(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask), round;
	struct psi_group *group = psi_test_group(test);
	struct psi_asked *asked = psi_test_ask(group, PSI_TEST_START);

	KUNIT_ASSERT_NOT_NULL(test, asked);
	asked->begun = true;
	for (round = 0; round < 3; round++) {
		psi_test_shows(test, group, 500 * round, 100 * round);
		psi_test_use(group, cpu, 1000, 400);
		psi_test_limit(group, cpu, 70, 70);
		psi_test_end_window(group);
		psi_test_use(group, cpu, 1000, 100);
		psi_test_limit(group, cpu, 30, 30);
		psi_switch(group, false);
		psi_test_shows(test, group, 500 * (round + 1), 100 * (round + 1));
		psi_test_use(group, cpu, 1000, 333);
		psi_test_limit(group, cpu, 222, 222);
		psi_test_shows(test, group, 500 * (round + 1), 100 * (round + 1));
		psi_test_end_window(group);
		psi_test_use(group, cpu, 1000, 111);
		psi_test_limit(group, cpu, 11, 11);
		psi_test_shows(test, group, 500 * (round + 1), 100 * (round + 1));
		psi_switch(group, true);
		psi_test_shows(test, group, 500 * (round + 1), 100 * (round + 1));
		psi_test_end_window(group);
	}
}

/*
 * No class has more than exact pressure has, which is no more than their sum.
 */
static void psi_test_agrees(struct kunit *test, struct psi_group *group)
{
	u64 total[PSI_NR_KINDS];
	struct psi_account *readings;
	enum psi_kind kind;

	readings = kunit_kcalloc(test, PSI_NR_KINDS, sizeof(*readings), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, readings);
	psi_read(group, PSI_NR_KINDS, PSI_ALL_STATES, readings);
	psi_mask_classes(readings);
	for (kind = PSI_PLAIN; kind < PSI_NR_KINDS; kind++)
		total[kind] = readings[kind].total[PSI_IO_SOME];
	KUNIT_EXPECT_LE(test, total[PSI_LIMIT], total[PSI_EXACT]);
	KUNIT_EXPECT_LE(test, total[PSI_SHORTAGE], total[PSI_EXACT]);
	KUNIT_EXPECT_LE(test, total[PSI_EXACT], total[PSI_LIMIT] + total[PSI_SHORTAGE]);
	KUNIT_EXPECT_GT(test, total[PSI_EXACT], 0);
}

/*
 * What was shown of some kinds is ahead of the window: just so, by another
 * reader, or while the group is off. Then they grow less than others once it is
 * on again.
 */
static void psi_test_switched_ahead(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask), ahead, kind;

	for (ahead = 0; ahead < BIT(PSI_NR_KINDS); ahead++) {
		struct psi_group *group = psi_test_group(test);
		struct psi_asked *asked = psi_test_ask(group, PSI_TEST_START);

		KUNIT_ASSERT_NOT_NULL(test, asked);
		asked->begun = true;
		psi_test_use(group, cpu, 3000, 1500);
		psi_test_limit(group, cpu, 900, 600);
		psi_test_agrees(test, group);
		if (ahead & BIT(PSI_PLAIN))
			psi_switch(group, false);
		for (kind = PSI_EXACT; kind < PSI_NR_KINDS; kind++)
			if (ahead & BIT(kind))
				atomic64_add(1000, &group->accounts[kind].shown[PSI_IO_SOME]);
		psi_test_agrees(test, group);
		if (ahead & BIT(PSI_PLAIN))
			psi_switch(group, true);
		psi_test_agrees(test, group);
		psi_test_use(group, cpu, 2000, 900);
		psi_test_limit(group, cpu, 700, 100);
		psi_test_agrees(test, group);
		psi_test_end_window(group);
		psi_test_agrees(test, group);
		psi_switch(group, false);
		psi_test_agrees(test, group);
	}
}

/*
 * A CPU works after a group was switched on: the stall in the window is less
 * than it was then.
 */
static void psi_test_switched_behind(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);

	psi_switch(group, false);
	psi_test_use(group, cpumask_first(cpu_possible_mask), 1000, 1000);
	psi_switch(group, true);
	psi_test_use(group, cpumask_last(cpu_possible_mask), 9000, 0);
	KUNIT_EXPECT_EQ(test, psi_test_io_total(group), 0);
	psi_test_end_window(group);
	KUNIT_EXPECT_EQ(test, psi_test_io_total(group), 0);
}

/* The first look at this clock switches a group off and on. */
static struct psi_group *psi_test_switching;

static u64 psi_test_switching_clock(void)
{
	struct psi_group *group = psi_test_switching;

	psi_test_switching = NULL;
	if (group) {
		psi_switch(group, false);
		psi_test_use(group, cpumask_first(cpu_possible_mask), 1000, 900);
		psi_switch(group, true);
	}
	return PSI_TEST_START;
}

/*
 * Somebody switches a group off and on while it is read: the reader sees
 * nothing of the time in between.
 */
static void psi_test_switched_in_read(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_account reading = { };

	psi_test_use(group, cpu, 1000, 400);
	psi_test_switching = group;
	kunit_activate_static_stub(test, psi_read_clock, psi_test_switching_clock);
	psi_read(group, 1, PSI_ALL_STATES, &reading);
	kunit_deactivate_static_stub(test, psi_read_clock);
	KUNIT_EXPECT_NULL(test, psi_test_switching);
	KUNIT_EXPECT_EQ(test, reading.total[PSI_IO_SOME], 400);
}
#endif

/*
 * To ask about a group or to arm a trigger takes no lock of a CPU where the
 * group is off the list: that would hang here.
 */
static void psi_test_asked_visits(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct rq *rq = cpu_rq(cpumask_last(cpu_possible_mask));
	unsigned int hold;
	struct rq_flags rf;

	rq_lock_irqsave(rq, &rf);
	psi_asked_visit(group);
	hold = psi_watch_cells(group, PSI_ALL_STATES);
	rq_unlock_irqrestore(rq, &rf);
	KUNIT_EXPECT_EQ(test, hold, 0);
}

/*
 * Stall from before somebody asks does not count, nor does the window that is
 * under way, nor one that ends before all CPUs know it. In a group that was not
 * in use, all that comes does.
 */
static void psi_test_asked_begins(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask), i, unused;

	for (unused = 0; unused <= 1; unused++) {
		struct psi_group *group = psi_test_group(test);
		u64 more = unused ? 500 : 0;
		struct psi_asked *asked;

		if (!unused) {
			psi_test_use(group, cpu, 500, 500);
			psi_test_end_window(group);
			psi_test_use(group, cpu, 1000, 400);
		}
		asked = psi_test_ask(group, PSI_TEST_START);
		KUNIT_ASSERT_NOT_NULL(test, asked);
		asked->begun = unused;
		if (!unused) {
			asked->known = false;
			psi_test_use(group, cpu, 1000, 0);
			psi_test_end_window(group);
			asked->known = true;
		}
		psi_test_expect(test, group, 0, 0, 0);
		psi_test_use(group, cpu, 2000, 500);
		psi_test_limit(group, cpu, 100, 50);
		psi_test_expect(test, group, more, more / 5, more - more / 10);
		psi_test_end_window(group);
		psi_test_expect(test, group, more, more / 5, more - more / 10);

		psi_test_use(group, cpu, 2000, 300);
		psi_test_limit(group, cpu, 250, 200);
		/* In the window, at its end, and in the next one. */
		for (i = 0; i < 3; i++) {
			psi_test_expect(test, group, more + 300, more / 5 + 250,
					more - more / 10 + 100);
			KUNIT_EXPECT_EQ(test, psi_test_io_total(group), unused ? 800 : 1700);
			psi_test_end_window(group);
			/*
			 * A reader would not see less than before, whatever
			 * this is.
			 */
			KUNIT_EXPECT_EQ(test, more - more / 10 + 100,
					group->accounts[PSI_SHORTAGE].total[PSI_IO_SOME]);
		}
	}
}

/*
 * The time in use is between the longest on one CPU and that of all, whatever
 * the union says.
 */
static void psi_test_exact_bounds(struct kunit *test)
{
	const u64 used[] = { 0, 700, 5000 }, want[] = { 300, 350, 500 };
	int i;

	for (i = 0; i < ARRAY_SIZE(used); i++) {
		const u64 one[PSI_NR_STATES] = { [PSI_NONIDLE] = 600, [PSI_IO_SOME] = 100 };
		const u64 two[PSI_NR_STATES] = { [PSI_NONIDLE] = 400, [PSI_IO_SOME] = 999 };
		struct psi_look look = { .states = BIT(PSI_IO_SOME), .weight = 1000 };
		const struct psi_asked_cpu none = { };

		psi_sums_add(&look, &none, one, none.times);
		psi_sums_add(&look, &none, two, none.times);
		KUNIT_EXPECT_EQ(test, want[i],
				psi_sums_share(&look, look.sum[PSI_IO_SOME], used[i]));
	}
}

/*
 * max(limit, shortage) <= exact <= limit + shortage, to the ns, whatever is
 * rounded.
 */
static void psi_test_class_identity(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct psi_asked *asked = psi_test_ask(group, PSI_TEST_START);
	u64 want = 0, now = PSI_TEST_START, union_at = now;
	struct rnd_state rnd;
	int cpu, window;

	KUNIT_ASSERT_NOT_NULL(test, asked);
	psi_test_clock_is(test, &now);
	asked->begun = true;
	asked->used = psi_union_read(asked, now);
	prandom_seed_state(&rnd, 4711);
	for (window = 1; window <= 200; window++) {
		u64 sum = 0, weights = 0, most = 0, used, exact, limit, shortage;

		for_each_possible_cpu(cpu) {
			u32 nonidle = prandom_u32_state(&rnd) >> (1 + prandom_u32_state(&rnd) % 31);
			u32 io = prandom_u32_state(&rnd) % (nonidle + 1);
			u32 held = prandom_u32_state(&rnd) % (io + 1);

			if (prandom_u32_state(&rnd) % 3 == 0)
				continue;
			psi_test_use(group, cpu, nonidle, io);
			psi_test_limit(group, cpu, held, prandom_u32_state(&rnd) % (held + 1));
			sum += held;
			weights += nonidle;
			most = max_t(u64, most, nonidle);
		}
		/* On any CPU it was in use for a time between the two. */
		used = most + div_u64(weights - most, 3);
		psi_union_count(asked, NULL, true, union_at);
		union_at += used;
		now = union_at;
		psi_union_count(asked, NULL, false, union_at);
		if (weights)
			want += mul_u64_u64_div_u64(sum, used, weights);
		psi_test_end_window(group);
		exact = asked->group->accounts[PSI_EXACT].total[PSI_IO_SOME];
		limit = asked->group->accounts[PSI_LIMIT].total[PSI_IO_SOME];
		shortage = asked->group->accounts[PSI_SHORTAGE].total[PSI_IO_SOME];
		KUNIT_EXPECT_LE(test, max(limit, shortage), exact);
		KUNIT_EXPECT_LE(test, exact, limit + shortage);
		KUNIT_EXPECT_EQ(test, limit, want);
	}
	kunit_deactivate_static_stub(test, psi_read_clock);
}

/* A clock that is ahead: a limit has no more than the group. */
static void psi_test_class_clocks(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_asked *asked;

	asked = psi_test_ask(group, PSI_TEST_START);
	KUNIT_ASSERT_NOT_NULL(test, asked);
	asked->begun = true;
	psi_test_use(group, cpu, 1000, 300);
	psi_test_limit(group, cpu, 310, 310);
	psi_test_expect(test, group, 300, 300, 0);
	psi_test_end_window(group);
	psi_test_use(group, cpu, 1000, 100);
	psi_test_end_window(group);
	psi_test_expect(test, group, 400, 300, 100);
}

/*
 * A CPU that the fold does not visit for some windows has no more than it had.
 * The system leaves at the end of a window in which it was in use.
 */
static void psi_test_class_unlisted(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask), other = cpumask_last(cpu_possible_mask), i;
	struct psi_group *group = psi_test_group(test);
	struct psi_asked *asked;
	int try;

	asked = psi_test_ask(group, PSI_TEST_START);
	KUNIT_ASSERT_NOT_NULL(test, asked);
	asked->begun = true;
	psi_test_use(group, cpu, 1000, 300);
	psi_test_limit(group, cpu, 200, 100);
	psi_test_end_window(group);
	/* The running system may hold the lock of that CPU. */
	for (i = 0; i < 1000 && cpumask_test_cpu(cpu, group->cpumask); i++)
		psi_unlist_idle(group, asked, true);
	KUNIT_ASSERT_FALSE(test, cpumask_test_cpu(cpu, group->cpumask));
	/* Another CPU has limits meanwhile. */
	if (other != cpu) {
		psi_test_use(group, other, 1000, 10);
		psi_test_limit(group, other, 10, 10);
		psi_test_end_window(group);
		psi_test_expect(test, group, 310, 210, 200);
	}
	for (i = 0; i < 3; i++) {
		psi_test_end_window(group);
		psi_test_use(group, cpu, 0, 0);
		psi_test_expect(test, group, other != cpu ? 310 : 300, other != cpu ? 210 : 200,
				200);
		psi_test_end_window(group);
		psi_test_expect(test, group, other != cpu ? 310 : 300, other != cpu ? 210 : 200,
				200);
		for (try = 0; try < 1000 && cpumask_test_cpu(cpu, group->cpumask); try++)
			psi_unlist_idle(group, asked, true);
	}
	psi_test_use(group, cpu, 1000, 300);
	psi_test_limit(group, cpu, 50, 20);
	psi_test_expect(test, group, other != cpu ? 610 : 600, other != cpu ? 260 : 250, 480);
}

/*
 * A task that a limit holds gets in beside one that runs. A state begins that a
 * sampler waits for, whether somebody asks for classes or not.
 */
static void psi_test_class_alarm(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct psi_watch *watch = psi_test_watch(test, group);
	struct psi_task runs = { .group = group }, held = { .group = group, .mode = PSI_HELD };
	int cpu = cpumask_first(cpu_possible_mask);

	group->watch[PSI_NORMAL] = watch;
	group->watched[PSI_NORMAL] = BIT(PSI_CPU_SOME);
	watch->alarm_states = BIT(PSI_CPU_SOME);
	/* The monitor is not to come by. */
	atomic_set(&watch->alarm_begun, BIT(PSI_MEM_FULL));

	psi_test_change(&runs, psi_attrs_for(PSI_RUNS, 0, 0), cpu, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, atomic_read(&watch->alarm_begun), BIT(PSI_MEM_FULL));
	psi_test_change(&held, psi_attrs_for(PSI_QUEUED, 0, PSI_HELD), cpu, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, atomic_read(&watch->alarm_begun),
			BIT(PSI_CPU_SOME) | BIT(PSI_MEM_FULL));

	psi_test_change(&held, 0, cpu, PSI_TEST_START);
	psi_test_change(&runs, 0, cpu, PSI_TEST_START);
	group->watch[PSI_NORMAL] = NULL;
}

/*
 * On the clock of psi_test_class_looks(): a limit holds a task from the first
 * look on.
 */
static u64 psi_test_class_clock(void)
{
	struct psi_group *group = kunit_get_current_test()->priv;
	int cpu = cpumask_first(cpu_possible_mask);

	if (!cpumask_test_cpu(cpu, group->cpumask)) {
		psi_test_use(group, cpu, 1000, 300);
		psi_test_limit(group, cpu, 300, 300);
	}
	return local_clock();
}

/*
 * A CPU that joins while the fold is at work has both its stall and its limits,
 * or neither.
 */
static void psi_test_class_looks(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct psi_asked *asked = psi_test_ask(group, PSI_TEST_START);

	KUNIT_ASSERT_NOT_NULL(test, asked);
	asked->begun = true;
	test->priv = group;
	kunit_activate_static_stub(test, psi_read_clock, psi_test_class_clock);
	psi_fold_group(group, local_clock());
	kunit_deactivate_static_stub(test, psi_read_clock);
	psi_fold_group(group, local_clock());
	KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 300);
	KUNIT_EXPECT_EQ(test, asked->group->accounts[PSI_EXACT].total[PSI_IO_SOME], 300);
	KUNIT_EXPECT_EQ(test, asked->group->accounts[PSI_LIMIT].total[PSI_IO_SOME], 300);
	KUNIT_EXPECT_EQ(test, asked->group->accounts[PSI_SHORTAGE].total[PSI_IO_SOME], 0);
}

/*
 * A limit holds a task of a group that waits for io first, and then for memory.
 */
static void psi_test_class_second(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask), i;
	struct psi_account *limit, *shortage;
	struct psi_asked *asked;

	psi_test_use(group, cpu, 1000, 300);
	asked = psi_test_ask(group, PSI_TEST_START);
	KUNIT_ASSERT_NOT_NULL(test, asked);
	limit = &asked->group->accounts[PSI_LIMIT];
	shortage = &asked->group->accounts[PSI_SHORTAGE];
	asked->begun = true;
	psi_test_limit(group, cpu, 200, 100);
	psi_test_end_window(group);
	for (i = 1; i <= 3; i++) {
		psi_test_use(group, cpu, 1000, 100);
		psi_test_limit(group, cpu, 100, 100);
		group->cpus[cpu]->times[PSI_MEM_SOME] += 500;
		per_cpu_ptr(asked->cpus, cpu)->times[PSI_LIMIT_AT(PSI_MEM_SOME)] += 400;
		psi_test_end_window(group);
		KUNIT_EXPECT_EQ(test, limit->total[PSI_IO_SOME], 200 + i * 100);
		KUNIT_EXPECT_EQ(test, shortage->total[PSI_IO_SOME], 200);
		KUNIT_EXPECT_EQ(test, limit->total[PSI_MEM_SOME], i * 400);
		KUNIT_EXPECT_EQ(test, shortage->total[PSI_MEM_SOME], i * 500);
	}
}

/* Samplers of each class see their own, before and after a fold. */
static void psi_test_class_samplers(struct kunit *test)
{
	static const u64 want[PSI_NR_KINDS] = {
		[PSI_EXACT] = 1000, [PSI_LIMIT] = 600, [PSI_SHORTAGE] = 500,
	};
	int cpu = cpumask_first(cpu_possible_mask);
	enum psi_kind kind;

	for (kind = PSI_EXACT; kind < PSI_NR_KINDS; kind++) {
		struct psi_group *group = psi_test_group(test);
		struct psi_sampler *sampler;

		KUNIT_ASSERT_NOT_NULL(test, psi_test_ask(group, PSI_TEST_START));
		sampler = psi_test_io_sampler(test, group, kind);
		psi_test_use(group, cpu, 0, 0);
		psi_test_limit(group, cpu, 0, 0);
		psi_sampler_update(sampler, local_clock());
		/* 100 of shortage, 600 of limit, of which 500 only. */
		psi_test_use(group, cpu, 300, 100);
		psi_test_use(group, cpu, 1000, 700);
		psi_test_limit(group, cpu, 400, 300);
		psi_test_end_window(group);
		psi_test_use(group, cpu, 1000, 200);
		psi_test_limit(group, cpu, 200, 200);
		psi_sampler_update(sampler, local_clock());
		KUNIT_EXPECT_EQ(test, sampler->last.total, want[kind]);
		psi_sampler_free(sampler);
	}
}

/*
 * Tasks that wait for io of a cgroup are looked at while a limit holds a bio of
 * it, and for five minutes after.
 */
static void psi_test_limit_used(struct kunit *test)
{
	struct psi_io_limit limit = { };

	psi_io_limit_init(&limit);
	KUNIT_EXPECT_FALSE(test, psi_io_limit_used(&limit));
	__psi_io_hold(&limit, true);
	KUNIT_EXPECT_TRUE(test, psi_io_limit_used(&limit));
	__psi_io_hold(&limit, false);
	KUNIT_EXPECT_TRUE(test, psi_io_limit_used(&limit));
	limit.released = jiffies - 299 * HZ;
	KUNIT_EXPECT_TRUE(test, psi_io_limit_used(&limit));
	limit.released = jiffies - 300 * HZ;
	KUNIT_EXPECT_FALSE(test, psi_io_limit_used(&limit));
	__psi_io_hold(&limit, true);
	KUNIT_EXPECT_TRUE(test, psi_io_limit_used(&limit));
	__psi_io_hold(&limit, false);
}

/* A task that sleeps on the list of a limit: for io, or in a ring for none. */
static struct task_struct *psi_test_waiter(struct kunit *test, struct psi_io_limit *limit,
					   bool iowait)
{
	struct task_struct *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	raw_spin_lock_init(&p->pi_lock);
	p->__state = TASK_UNINTERRUPTIBLE;
	p->psi.io_limit = limit;
	p->psi_iowait = iowait;
	list_add_tail(&p->psi.io_link, &limit->waiters);
	return p;
}

/*
 * A limit looks at a task that waits for io, although more tasks wait in rings
 * for no io than it looks at.
 */
static void psi_test_limit_idle_rings(struct kunit *test)
{
	struct psi_io_limit limit = { };
	struct task_struct *p = NULL;
	int i;

	psi_io_limit_init(&limit);
	for (i = 0; i <= PSI_WAITERS_MAX; i++)
		p = psi_test_waiter(test, &limit, i == PSI_WAITERS_MAX);
	__psi_io_hold(&limit, true);
	KUNIT_EXPECT_EQ(test, p->psi.asleep, 0);
	__psi_io_hold(&limit, false);
	__psi_io_hold(&limit, true);
	KUNIT_EXPECT_EQ(test, p->psi.asleep, PSI_IOWAIT | PSI_LIMIT_IOWAIT);
	__psi_io_hold(&limit, false);
	KUNIT_EXPECT_EQ(test, p->psi.asleep, 0);
}

/*
 * It looks at each once: the three would be in another order after
 * PSI_WAITERS_MAX looks.
 */
static void psi_test_limit_idle_once(struct kunit *test)
{
	struct psi_io_limit limit = { };
	struct task_struct *p[3];
	struct psi_task *t;
	int i;

	psi_io_limit_init(&limit);
	for (i = 0; i < ARRAY_SIZE(p); i++)
		p[i] = psi_test_waiter(test, &limit, false);
	__psi_io_hold(&limit, true);
	i = 0;
	list_for_each_entry(t, &limit.waiters, io_link)
		KUNIT_EXPECT_PTR_EQ(test, t, &p[i++]->psi);
	KUNIT_EXPECT_EQ(test, i, ARRAY_SIZE(p));
	__psi_io_hold(&limit, false);
}

#ifdef CONFIG_CGROUPS
/* Look which groups nobody asks about any more, as the fold does. */
static void psi_test_expire(void)
{
	struct llist_node *list = psi_asked_all();

	while (list)
		list = psi_asked_expire(list);
}

/* That, as if nobody had read this one for long. */
static void psi_test_expire_old(struct psi_asked *asked)
{
	WRITE_ONCE(asked->read, ktime_get_seconds() - PSI_ASKED_FOR - 1);
	psi_test_expire();
}

/* Not PSI_NEVER: with groups in its inbox the thread would not sleep. */
static u64 psi_test_no_fold(struct psi_worker *worker)
{
	return psi_read_clock() + NSEC_PER_SEC;
}

/* From now on the fold does this. If it runs, it did so before. */
static void psi_test_fold_does(u64 (*work)(struct psi_worker *worker))
{
	WRITE_ONCE(psi_folder.work, work);
	psi_worker_again(&psi_folder);
	while (!wait_task_inactive(psi_folder.thread, TASK_IDLE) ||
	       atomic_read(&psi_folder.again))
		cond_resched();
}

/* What a group had when its cells were visited last, which were none. */
static struct psi_asked *psi_test_visited;

static void psi_test_visit(struct psi_group *group)
{
	psi_test_visited = rcu_access_pointer(group->asked);
}

static int psi_test_visits;

/* Another task asks while the first one has not visited the cells yet. */
static void psi_test_visit_late(struct psi_group *group)
{
	if (!psi_test_visits++)
		psi_unask(psi_ask(group));
}

/*
 * A group is asked until five minutes after the last read, and while a trigger
 * is armed. Until its cells know that it ended, they find what they joined.
 */
static void psi_test_asked_expires(struct kunit *test)
{
	struct cgroup *cgrp = kunit_kzalloc(test, sizeof(*cgrp), GFP_KERNEL);
	struct kernfs_node *kn = kunit_kzalloc(test, sizeof(*kn), GFP_KERNEL);
	struct psi_asked *trigger, *read;
	struct psi_group *group;

	KUNIT_ASSERT_NOT_NULL(test, cgrp);
	KUNIT_ASSERT_NOT_NULL(test, kn);
	if (!psi_enabled() || !cgroup_psi_enabled())
		kunit_skip(test, "cgroups have no pressure");
	cgrp->self.parent = &cgrp_dfl_root.cgrp.self;
	cgrp->level = 1;
	cgrp->kn = kn;
	KUNIT_ASSERT_EQ(test, psi_cgroup_alloc(cgrp), 0);
	group = cgrp->psi;
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(group->asked));
	psi_test_fold_does(psi_test_no_fold);

	/* A reader, and an armed trigger, share what there is. */
	trigger = psi_ask(group);
	read = psi_ask(group);
	KUNIT_EXPECT_NOT_NULL(test, read);
	KUNIT_EXPECT_PTR_EQ(test, read, trigger);
	if (!read || read != trigger)
		goto out;
	KUNIT_EXPECT_TRUE(test, read->begun);
	psi_unask(read);
	psi_test_expire_old(trigger);
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(group->asked), trigger);
	psi_unask(trigger);
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(group->asked), trigger);

	/* A read less than five minutes ago. */
	read = psi_ask(group);
	KUNIT_EXPECT_PTR_EQ(test, read, trigger);
	WRITE_ONCE(read->read, ktime_get_seconds());
	psi_unask(read);
	psi_test_expire();
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(group->asked), read);
	kunit_activate_static_stub(test, psi_asked_visit, psi_test_visit);
	psi_test_expire_old(read);
	kunit_deactivate_static_stub(test, psi_asked_visit);
	KUNIT_EXPECT_PTR_EQ(test, psi_test_visited, read);
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(group->asked));

	/* It begins anew. Two ask before the cells know it, and one later. */
	psi_test_visits = 0;
	kunit_activate_static_stub(test, psi_asked_visit, psi_test_visit_late);
	read = psi_ask(group);
	psi_unask(psi_ask(group));
	kunit_deactivate_static_stub(test, psi_asked_visit);
	KUNIT_EXPECT_EQ(test, psi_test_visits, 2);
	KUNIT_EXPECT_NOT_NULL(test, read);
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(group->asked), read);
	if (read)
		psi_unask(read);

	/* Nobody read it this time: it ends with the last trigger. */
	psi_test_expire();
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(group->asked));

	/* A CPU is in use: the window that is under way does not count. */
	cpumask_set_cpu(0, group->cpumask);
	kunit_activate_static_stub(test, psi_asked_visit, psi_test_visit);
	read = psi_ask(group);
	kunit_deactivate_static_stub(test, psi_asked_visit);
	cpumask_clear_cpu(0, group->cpumask);
	KUNIT_EXPECT_NOT_NULL(test, read);
	if (!read)
		goto out;
	KUNIT_EXPECT_FALSE(test, read->begun);
	psi_unask(read);
	psi_test_expire();
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(group->asked));

	/* It was read just now, and its cgroup is gone. */
	read = psi_ask(group);
	KUNIT_EXPECT_NOT_NULL(test, read);
	if (!read)
		goto out;
	WRITE_ONCE(read->read, ktime_get_seconds());
	psi_unask(read);
	WRITE_ONCE(group->removed, true);
	psi_test_expire();
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(group->asked));
out:
	psi_test_fold_does(psi_fold_work);
	psi_cgroup_free(cgrp);
}
#endif
