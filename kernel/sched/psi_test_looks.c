// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: folds, readers and samplers,
 * between the random events of psi_test_model.c, on a clock that the test sets.
 *
 * From the times of the model each window is computed anew. What samplers of
 * exact pressure, limit and shortage see has a second oracle, the definition:
 * the integral of s / n. A sampler that takes a sample after each event has to
 * agree with that, as nothing changes between two events.
 */

/*
 * Those with a clock of their own cannot be foretold; the time in use is no
 * pressure.
 */
#define PSI_TEST_LOOKED		(PSI_ALL_STATES & ~(BIT(PSI_NONIDLE) | BIT(PSI_IRQ_FULL)))

/**
 * struct psi_test_window - where the running window of a group began
 * @times: times of the CPUs
 * @held: of these, what limits held
 * @used: the time in use on any CPU
 */
struct psi_test_window {
	u64 times[PSI_TEST_CPUS][PSI_NR_STATES];
	u64 held[PSI_TEST_CPUS][PSI_NR_HELD];
	u64 used;
};

/**
 * struct psi_test_look - what is known of a group
 * @plain: the running window
 * @more: the same of what is asked, from the first fold on
 * @begun: @more began
 * @total: per kind and state, of the windows before
 * @shown: per kind and state, the most that a reader saw
 * @readings: the last one, by kind
 * @ended: how many windows ended
 * @state: the state that samplers wait for
 * @sampler: of each kind but the plain one, once somebody asked
 * @integral: what they should have
 * @steps: samples since then
 */
struct psi_test_look {
	struct psi_test_window plain, more;
	bool begun;
	u64 total[PSI_NR_KINDS][PSI_NR_STATES];
	u64 shown[PSI_NR_KINDS][PSI_NR_STATES];
	struct psi_account readings[PSI_NR_KINDS];
	int ended;
	enum psi_state state;
	struct psi_sampler *sampler[PSI_NR_KINDS];
	u64 integral[PSI_NR_KINDS];
	int steps;
};

static const char * const psi_test_kinds[PSI_NR_KINDS] = { "plain", "exact", "limit", "shortage" };

static struct psi_test_look *psi_test_look_of(struct psi_test_model *m, int g)
{
	return &((struct psi_test_look *)m->looks)[g];
}

static u64 psi_test_clock(void)
{
	struct psi_test_model *m = kunit_get_current_test()->priv;

	return m->now;
}

static u64 psi_test_cpu_clock(int cpu)
{
	return psi_test_clock();
}

/* In how many CPUs a kind of pressure has a state. */
static void psi_test_look_count(struct psi_test_model *m, int g, int c, enum psi_state state,
				u64 *nr)
{
	unsigned int limit = m->limit[g][c], shortage = m->shortage[g][c];

	nr[PSI_PLAIN] += m->states[g][c] & BIT(PSI_NONIDLE) ? 1 : 0;
	nr[PSI_EXACT] += m->states[g][c] >> state & 1;
	nr[PSI_LIMIT] += limit >> state & 1;
	nr[PSI_SHORTAGE] += shortage >> state & 1;
}

/* The integrals go on for @len ns in which no state changes. */
static void psi_test_look_pass(struct psi_test_model *m, u64 len)
{
	enum psi_kind kind;
	int g, c;

	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		struct psi_test_look *look = psi_test_look_of(m, g);
		u64 nr[PSI_NR_KINDS] = { };

		for (c = 0; c < m->nr_cpus; c++)
			psi_test_look_count(m, g, c, look->state, nr);
		for (kind = PSI_EXACT; kind < PSI_NR_KINDS; kind++) {
			if (look->sampler[kind] && nr[PSI_PLAIN])
				look->integral[kind] += div64_u64(len * nr[kind], nr[PSI_PLAIN]);
		}
	}
}

/* A window begins. */
static void psi_test_look_begin(struct psi_test_model *m, int g, struct psi_test_window *window)
{
	memcpy(window->times, m->times[g], sizeof(window->times));
	memcpy(window->held, m->held_times[g], sizeof(window->held));
	window->used = m->used[g];
}

/* What the running window has of plain pressure. */
static u64 psi_test_look_plain(struct psi_test_model *m, int g, enum psi_state state)
{
	const struct psi_test_window *window = &psi_test_look_of(m, g)->plain;
	u64 weight = 0, sum = 0;
	int c;

	for (c = 0; c < m->nr_cpus; c++)
		weight += m->times[g][c][PSI_NONIDLE] - window->times[c][PSI_NONIDLE];
	for (c = 0; weight && c < m->nr_cpus; c++)
		sum += mul_u64_u64_div_u64(m->times[g][c][state] - window->times[c][state],
					   m->times[g][c][PSI_NONIDLE] -
					   window->times[c][PSI_NONIDLE], weight);
	return sum;
}

/* The same of the other kinds. */
static u64 psi_test_look_more(struct psi_test_model *m, int g, enum psi_kind kind,
			      enum psi_state state)
{
	const struct psi_test_window *window = &psi_test_look_of(m, g)->more;
	u64 weight = 0, exact = 0, limit = 0, only = 0;
	int c, i = PSI_LIMIT_AT(state), j = PSI_ONLY_AT(state);

	for (c = 0; c < m->nr_cpus; c++) {
		const u64 *held = m->held_times[g][c];

		weight += m->times[g][c][PSI_NONIDLE] - window->times[c][PSI_NONIDLE];
		exact += m->times[g][c][state] - window->times[c][state];
		limit += held[i] - window->held[c][i];
		only += held[j] - window->held[c][j];
	}
	exact = kind == PSI_EXACT ? exact : kind == PSI_LIMIT ? limit : exact - only;
	return weight ? mul_u64_u64_div_u64(exact, m->used[g] - window->used, weight) : 0;
}

static u64 psi_test_look_window(struct psi_test_model *m, int g, enum psi_kind kind,
				enum psi_state state)
{
	if (kind == PSI_PLAIN)
		return psi_test_look_plain(m, g, state);
	return psi_test_look_of(m, g)->begun ? psi_test_look_more(m, g, kind, state) : 0;
}

/*
 * Rounding: of a CPU in a window less than 2 ns in the oracle, and less than 2
 * in the fold.
 */
static bool psi_test_look_near(struct psi_test_model *m, int event, int g, const char *what,
			       enum psi_kind kind, enum psi_state state, u64 is, u64 want)
{
	u64 most = 4 * (psi_test_look_of(m, g)->ended + 1) * m->nr_cpus;

	if (abs_diff(is, want) <= most)
		return true;
	KUNIT_FAIL(m->test, "event %d, group %d, state %d: %s %s %llu ns, not %llu", event, g,
		   state, psi_test_kinds[kind], what, is, want);
	return false;
}

/* The kinds that there are of a group. */
static enum psi_kind psi_test_look_kinds(struct psi_test_model *m, int g)
{
	return psi_test_model_asked(m, g) ? PSI_NR_KINDS : PSI_EXACT;
}

static struct psi_account *psi_test_account(struct psi_test_model *m, int g, enum psi_kind kind)
{
	return kind == PSI_PLAIN ? &m->groups[g].plain :
				   &m->groups[g].accounts[kind];
}

/* Whatever is rounded: max(limit, shortage) <= exact <= limit + shortage. */
static bool psi_test_look_sum(struct psi_test_model *m, int event, int g, enum psi_state state,
			      u64 exact, u64 limit, u64 shortage)
{
	if (max(limit, shortage) <= exact && exact <= limit + shortage)
		return true;
	KUNIT_FAIL(m->test, "event %d, group %d, state %d: limit %llu, shortage %llu, exact %llu",
		   event, g, state, limit, shortage, exact);
	return false;
}

/* The fold comes by. */
static bool psi_test_look_fold(struct psi_test_model *m, int event, int g)
{
	struct psi_test_look *look = psi_test_look_of(m, g);
	enum psi_kind kind, kinds = psi_test_look_kinds(m, g);
	struct psi_account *accounts;
	int s;

	psi_test_end_window(&m->groups[g]);
	for (kind = PSI_PLAIN; kind < kinds; kind++) {
		psi_for_each_state(s, PSI_TEST_LOOKED) {
			look->total[kind][s] += psi_test_look_window(m, g, kind, s);
			if (!psi_test_look_near(m, event, g, "fold", kind, s,
						psi_test_account(m, g, kind)->total[s],
						look->total[kind][s]))
				return false;
		}
	}
	look->ended++;
	psi_test_look_begin(m, g, &look->plain);
	psi_test_look_begin(m, g, &look->more);
	if (!psi_test_model_asked(m, g))
		return true;
	look->begun = true;
	accounts = m->groups[g].accounts;
	psi_for_each_state(s, PSI_TEST_LOOKED) {
		if (!psi_test_look_sum(m, event, g, s, accounts[PSI_EXACT].total[s],
				       accounts[PSI_LIMIT].total[s],
				       accounts[PSI_SHORTAGE].total[s]))
			return false;
	}
	return true;
}

/* What a reader saw of one kind. It never gets less. */
static bool psi_test_look_shown(struct psi_test_model *m, int event, int g, enum psi_kind kind)
{
	struct psi_test_look *look = psi_test_look_of(m, g);
	int s;

	psi_for_each_state(s, PSI_TEST_LOOKED) {
		u64 *shown = &look->shown[kind][s];

		*shown = max(*shown,
			     look->total[kind][s] + psi_test_look_window(m, g, kind, s));
		if (!psi_test_look_near(m, event, g, "read", kind, s,
					look->readings[kind].total[s], *shown))
			return false;
	}
	return true;
}

/* A program reads a plain file. */
static bool psi_test_look_read(struct psi_test_model *m, int event, int g)
{
	psi_read(&m->groups[g], 1, PSI_TEST_LOOKED, psi_test_look_of(m, g)->readings);
	return psi_test_look_shown(m, event, g, PSI_PLAIN);
}

/* A program reads the statistics file. */
static bool psi_test_look_read_stat(struct psi_test_model *m, int event, int g)
{
	struct psi_account *readings = psi_test_look_of(m, g)->readings;
	enum psi_kind kind;
	int s;

	psi_read(&m->groups[g], PSI_NR_KINDS, PSI_ALL_STATES, readings);
	for (kind = PSI_PLAIN; kind < PSI_NR_KINDS; kind++)
		if (!psi_test_look_shown(m, event, g, kind))
			return false;
	psi_for_each_state(s, PSI_TEST_LOOKED) {
		if (!psi_test_look_sum(m, event, g, s, readings[PSI_EXACT].total[s],
				       readings[PSI_LIMIT].total[s],
				       readings[PSI_SHORTAGE].total[s]))
			return false;
	}
	return true;
}

/* If somebody asked: samplers and integrals begin. */
static void psi_test_look_asked(struct psi_test_model *m, int g)
{
	struct psi_test_look *look = psi_test_look_of(m, g);
	struct psi_watch *watch;
	enum psi_kind kind;

	if (!psi_test_model_asked(m, g) || look->sampler[PSI_EXACT])
		return;
	watch = psi_test_watch(m->test, &m->groups[g]);
	for (kind = PSI_EXACT; kind < PSI_NR_KINDS; kind++) {
		look->sampler[kind] = psi_test_sampler(m->test, watch, kind, look->state,
						       PSI_TEST_WINDOW);
		psi_sampler_begin(look->sampler[kind]);
	}
}

/* Samplers take a sample. Each step is rounded, here and there. */
static bool psi_test_look_sample(struct psi_test_model *m, int event, int g)
{
	struct psi_test_look *look = psi_test_look_of(m, g);
	enum psi_kind kind;

	look->steps++;
	for (kind = PSI_EXACT; kind < PSI_NR_KINDS; kind++) {
		struct psi_sampler *sampler = look->sampler[kind];

		psi_sampler_update(sampler, m->now);
		if (abs_diff(sampler->last.total, look->integral[kind]) <= look->steps)
			continue;
		KUNIT_FAIL(m->test, "event %d, group %d, state %d: %s %llu ns, integral %llu",
			   event, g, look->state, psi_test_kinds[kind], sampler->last.total,
			   look->integral[kind]);
		return false;
	}
	return true;
}

static bool psi_test_look(struct psi_test_model *m, int event)
{
	int g;

	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		u32 what = prandom_u32_state(&m->rnd) % 64;
		bool asked = psi_test_model_asked(m, g);

		psi_test_look_asked(m, g);
		if (asked && !psi_test_look_sample(m, event, g))
			return false;
		if (what < 4 && !psi_test_look_read(m, event, g))
			return false;
		if (what < 8 && asked && !psi_test_look_read_stat(m, event, g))
			return false;
		if (what % 16 == 3 && !psi_test_look_fold(m, event, g))
			return false;
	}
	return true;
}

static const struct psi_test_looker psi_test_looker = {
	.pass = psi_test_look_pass,
	.look = psi_test_look,
};

static void psi_test_looks_free(void *data)
{
	struct psi_test_model *m = data;
	enum psi_kind kind;
	int g;

	for (g = 0; g < PSI_TEST_GROUPS; g++)
		for (kind = PSI_EXACT; kind < PSI_NR_KINDS; kind++)
			psi_sampler_free(psi_test_look_of(m, g)->sampler[kind]);
	kvfree(m->looks);
}

static const struct psi_test_looks_row {
	const char *desc;
	int cpus, tasks, events;
} psi_test_looks_rows[] = {
	{ "one CPU", 1, PSI_TEST_TASKS, 5000 },
	{ "two CPUs", 2, PSI_TEST_TASKS, 5000 },
	{ "two CPUs, few tasks", 2, 4, 5000 },
	{ "8 CPUs, or all there are", 8, PSI_TEST_TASKS, 3000 },
	{ "64 CPUs, or all there are", 64, PSI_TEST_TASKS, 2000 },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_looks_rows, psi_test_looks_rows, desc);

static const enum psi_state psi_test_looked[] = {
	PSI_CPU_SOME, PSI_CPU_FULL, PSI_IO_SOME, PSI_MEM_SOME, PSI_IO_FULL, PSI_MEM_FULL,
};

static void psi_test_looks(struct kunit *test)
{
	const struct psi_test_looks_row *row = test->param_value;
	struct psi_test_model *m = psi_test_model_init(test, NSEC_PER_SEC, row->cpus);
	struct psi_test_look *looks;
	int g;

	looks = kvcalloc(PSI_TEST_GROUPS, sizeof(*looks), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, looks);
	m->looks = looks;
	for (g = 0; g < PSI_TEST_GROUPS; g++)
		looks[g].state = psi_test_looked[g % ARRAY_SIZE(psi_test_looked)];
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, psi_test_looks_free, m), 0);
	m->looker = &psi_test_looker;
	test->priv = m;
	kunit_activate_static_stub(test, psi_read_clock, psi_test_clock);
	kunit_activate_static_stub(test, psi_read_cpu_clock, psi_test_cpu_clock);
	if (!psi_test_model_events(m, row->tasks, row->events / 4))
		return;
	m->delegated = 0;
	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		psi_test_model_ask(m, g);
		psi_test_look_asked(m, g);
	}
	if (!psi_test_model_events(m, row->tasks, row->events))
		return;
	KUNIT_EXPECT_GT(test, m->delegated, 100);
	for (g = 0; g < PSI_TEST_GROUPS; g++)
		KUNIT_EXPECT_GT(test, looks[g].ended, 50);
	/* Its state is cpu some. */
	KUNIT_EXPECT_GT(test, looks[0].integral[PSI_EXACT], NSEC_PER_SEC);
	KUNIT_EXPECT_GT(test, looks[0].integral[PSI_LIMIT], NSEC_PER_SEC / 10);
	KUNIT_EXPECT_GT(test, looks[0].integral[PSI_SHORTAGE], NSEC_PER_SEC / 10);
	psi_test_model_end(m);
}
