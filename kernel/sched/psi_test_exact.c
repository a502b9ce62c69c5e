// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: exact pressure, against the integral of s / n
 * taken tick by tick.
 */

#define PSI_TEST_TICK		(100 * NSEC_PER_USEC)
#define PSI_TEST_TICKS		20000
#define PSI_TEST_MOST_CPUS	64
#define PSI_TEST_BLOCKS		8

/* What a CPU does in a tick. */
enum psi_test_doing { PSI_DOES_NOTHING, PSI_DOES_WORK, PSI_DOES_STALL };

/* One task at a time stalls for 86 % of each of its visits, of @arg ticks, to a CPU. */
static enum psi_test_doing psi_test_moves(struct rnd_state *rnd, int cpus, int cpu, int tick,
					  int arg)
{
	if (tick / arg % cpus != cpu)
		return PSI_DOES_NOTHING;
	return tick * 7 % 50 < 43 ? PSI_DOES_STALL : PSI_DOES_WORK;
}

/* Each CPU is in use for @arg % of the time, at random, and stalled for half of that. */
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

/* Each CPU is in use for @arg % of the time, at random, and stalled all of it. */
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
 * @use: its union, kept without blocks of CPUs and with them
 * @times: per CPU
 * @does: per CPU, in the last tick
 * @now: ns
 * @integral: of s / n so far, in ns
 * @used: time in which a CPU was in use, in ns
 */
struct psi_test_exact {
	struct psi_union *use[2];
	u64 times[PSI_TEST_MOST_CPUS][PSI_NR_STATES];
	enum psi_test_doing does[PSI_TEST_MOST_CPUS];
	u64 now, integral, used;
};

static void psi_test_exact_exit(void *use)
{
	kvfree(use);
}

static struct psi_test_exact *psi_test_exact_init(struct kunit *test)
{
	struct psi_test_exact *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, e);
	for (i = 0; i < 2; i++) {
		e->use[i] = kvzalloc(struct_size(e->use[i], blocks, i * PSI_TEST_BLOCKS),
				     GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, e->use[i]);
		KUNIT_ASSERT_EQ(test, 0,
				kunit_add_action_or_reset(test, psi_test_exact_exit, e->use[i]));
	}
	/* Where what is kept of the clock wraps soon. */
	e->now = (1ULL << (64 - PSI_UNION_BITS)) - 5000 * PSI_TEST_TICK;
	return e;
}

/* With blocks of CPUs, and without. */
static void psi_test_exact_count(struct psi_test_exact *e, int cpu, bool begins)
{
	psi_union_count(e->use[true], true, cpu % PSI_TEST_BLOCKS, begins, e->now);
	psi_union_count(e->use[false], false, 0, begins, e->now);
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
	struct psi_mean sum = { };
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

	used = psi_union_since(psi_union_read(e->use[true], e->now), 0);
	KUNIT_EXPECT_EQ(test, used, e->used);
	used = psi_union_since(psi_union_read(e->use[false], e->now), 0);
	KUNIT_EXPECT_EQ(test, used, e->used);
	for (cpu = 0; cpu < row->cpus; cpu++)
		psi_sum_add(&sum, e->times[cpu], BIT(PSI_IO_SOME));
	psi_sum_share(&sum, BIT(PSI_IO_SOME), used);
	exact = sum.stall[PSI_IO_SOME];
	/* The integral is rounded down in each tick. */
	KUNIT_EXPECT_GE(test, (s64)(exact - e->integral), row->least * unit);
	KUNIT_EXPECT_LE(test, (s64)(exact - e->integral), row->most * unit + PSI_TEST_TICKS);
}

/* What @group has of exact io pressure, "some". */
static u64 psi_test_exact_total(struct psi_group *group)
{
	struct psi_reading reading;

	psi_read(group, PSI_EXACT, BIT(PSI_IO_SOME), &reading);
	return reading.total[PSI_IO_SOME];
}

/* Stall from before somebody asks does not count, and later windows have no such part. */
static void psi_test_exact_begins(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);

	psi_test_use(group, cpu, 500, 500);
	psi_test_end_window(group);
	psi_test_use(group, cpu, 1000, 400);
	KUNIT_ASSERT_EQ(test, psi_exact_enable(group), 0);
	KUNIT_EXPECT_EQ(test, psi_test_exact_total(group), 0);
	psi_test_use(group, cpu, 2000, 500);
	KUNIT_EXPECT_EQ(test, psi_test_exact_total(group), 500);
	psi_test_end_window(group);
	KUNIT_EXPECT_EQ(test, psi_test_exact_total(group), 500);
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(group->exact->before));
	psi_test_use(group, cpu, 2000, 100);
	KUNIT_EXPECT_EQ(test, psi_test_exact_total(group), 600);
	psi_test_end_window(group);
	KUNIT_EXPECT_EQ(test, psi_test_exact_total(group), 600);
}

/* The time in use is between the longest on one CPU and that of all, whatever the union says. */
static void psi_test_exact_bounds(struct kunit *test)
{
	const u64 used[] = { 0, 700, 5000 }, want[] = { 300, 350, 500 };
	int i;

	for (i = 0; i < ARRAY_SIZE(used); i++) {
		const u64 one[PSI_NR_STATES] = { [PSI_NONIDLE] = 600, [PSI_IO_SOME] = 100 };
		const u64 two[PSI_NR_STATES] = { [PSI_NONIDLE] = 400, [PSI_IO_SOME] = 999 };
		struct psi_mean sum = { };

		psi_sum_add(&sum, one, BIT(PSI_IO_SOME));
		psi_sum_add(&sum, two, BIT(PSI_IO_SOME));
		psi_sum_share(&sum, BIT(PSI_IO_SOME), used[i]);
		KUNIT_EXPECT_EQ(test, sum.stall[PSI_IO_SOME], want[i]);
	}
}

/*
 * A sampler of exact pressure rests for long while the group is in use. When it begins
 * again, that does not outweigh the stall, whether it knows the CPUs or not.
 */
static void psi_test_exact_rest(struct kunit *test)
{
	const u64 hour = 3600ULL * NSEC_PER_SEC, second = NSEC_PER_SEC;
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask), known;

	for (known = 0; known < 2; known++) {
		struct psi_group *group = psi_test_group(test);
		struct psi_sampler *sampler;
		u64 begin, least, stall;

		KUNIT_ASSERT_EQ(test, psi_exact_enable(group), 0);
		sampler = psi_test_sampler(test, psi_test_watch(test, group), PSI_EXACT,
					   PSI_TEST_WINDOW);
		sampler->states = BIT(PSI_IO_SOME);
		psi_test_use(group, one, hour, 0);
		psi_test_use(group, two, hour, 0);
		if (known)
			KUNIT_ASSERT_TRUE(test, psi_sampler_cover_all(sampler, BIT(PSI_IO_SOME)));
		begin = local_clock();
		psi_step_begin(sampler, begin);
		psi_union_count(&group->exact->use, false, 0, true, begin);
		/* One works, then the other stalls: half of the time is stall. */
		psi_test_use(group, one, second, 0);
		psi_test_use(group, two, second, second);
		psi_sampler_update(sampler, begin + 2 * second);
		stall = sampler->last.total[PSI_IO_SOME];
		least = known ? second * 9 / 10 : second * 4 / 10;
		KUNIT_EXPECT_GE(test, stall, least);
		KUNIT_EXPECT_LE(test, stall, second + NSEC_PER_MSEC);
		psi_sampler_free(sampler);
	}
}

/*
 * The group was in use on two CPUs while the sampler rested, and it knows one of them. When
 * that one stalls while the other works, half of the time is stall.
 */
static void psi_test_exact_rest_beside(struct kunit *test)
{
	const u64 hour = 3600ULL * NSEC_PER_SEC, length = 2ULL * NSEC_PER_SEC;
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler;
	u64 begin;

	/* It takes another CPU. */
	if (one == two)
		return;
	KUNIT_ASSERT_EQ(test, psi_exact_enable(group), 0);
	sampler = psi_test_sampler(test, psi_test_watch(test, group), PSI_EXACT,
				   PSI_TEST_WINDOW);
	sampler->states = BIT(PSI_IO_SOME);
	psi_test_use(group, one, hour, 0);
	KUNIT_ASSERT_TRUE(test, psi_sampler_cover_all(sampler, BIT(PSI_IO_SOME)));
	psi_test_use(group, two, hour, 0);
	begin = local_clock();
	psi_union_count(&group->exact->use, false, 0, true, begin - hour);
	psi_step_begin(sampler, begin);

	psi_test_use(group, one, length, length);
	psi_test_use(group, two, length, 0);
	psi_sampler_update(sampler, begin + length);
	KUNIT_EXPECT_GE(test, sampler->last.total[PSI_IO_SOME], length / 2 - NSEC_PER_MSEC);
	KUNIT_EXPECT_LE(test, sampler->last.total[PSI_IO_SOME], length / 2 + NSEC_PER_MSEC);
	psi_sampler_free(sampler);
}

/* What is read after the step is for the next one, once. What nobody knows the time of is lost. */
static void psi_test_exact_part(struct kunit *test)
{
	u64 seen = 1000;

	KUNIT_EXPECT_EQ(test, psi_step_part(&seen, 1500, 600, 0), 500);
	KUNIT_EXPECT_EQ(test, psi_step_part(&seen, 2110, 600, 20), 600);
	KUNIT_EXPECT_EQ(test, seen, 2100);
	KUNIT_EXPECT_EQ(test, psi_step_part(&seen, 2110, 600, 0), 10);
	KUNIT_EXPECT_EQ(test, psi_step_part(&seen, 2100, 600, 0), 0);
	KUNIT_EXPECT_EQ(test, seen, 2110);
	KUNIT_EXPECT_EQ(test, psi_step_part(&seen, 99999, 600, 20), 600);
	KUNIT_EXPECT_EQ(test, psi_step_part(&seen, 99999, 600, 0), 20);
}
