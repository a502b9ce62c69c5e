// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: folds, readers and samplers, between the
 * random events of psi_test_model.c, on a clock that the test sets.
 *
 * From the times of the model each window is computed anew. Exact pressure has a second
 * oracle, its definition: the integral of s / n. A sampler that takes a sample after each
 * event has to agree with that, as nothing changes between two events.
 */

/* Those with a clock of their own cannot be foretold; the time in use is no pressure. */
#define PSI_TEST_LOOKED		(PSI_ALL_STATES & ~(BIT(PSI_NONIDLE) | BIT(PSI_IRQ_FULL)))

/**
 * struct psi_test_window - the running window of a group, and those before
 * @begun: times of the CPUs when it began
 * @used: the time in use on any CPU when it began
 * @total: per state, of the windows before
 * @shown: per state, the most that a reader saw
 */
struct psi_test_window {
	u64 begun[PSI_TEST_CPUS][PSI_NR_STATES];
	u64 used;
	u64 total[PSI_NR_STATES];
	u64 shown[PSI_NR_STATES];
};

/**
 * struct psi_test_look - what is known of a group
 * @window: of plain and of exact pressure
 * @ended: how many windows ended
 * @sampler: of exact pressure, once somebody asked for that
 * @integral: per state, of s / n since then
 * @steps: samples since then
 */
struct psi_test_look {
	struct psi_test_window window[2];
	int ended;
	struct psi_sampler *sampler;
	u64 integral[PSI_NR_STATES];
	int steps;
};

static u64 psi_test_clock(void)
{
	struct psi_test_model *m = kunit_get_current_test()->priv;

	return m->now;
}

static u64 psi_test_cpu_clock(int cpu)
{
	return psi_test_clock();
}

/* The integral goes on for @len ns in which no state changes. */
static void psi_test_look_pass(struct psi_test_model *m, u64 len)
{
	struct psi_test_look *looks = m->looks;
	int g, c, s;

	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		u64 in_use = 0, stalled[PSI_NR_STATES] = { };

		for (c = 0; c < m->nr_cpus; c++) {
			in_use += !!(m->states[g][c] & BIT(PSI_NONIDLE));
			psi_for_each_state(s, m->states[g][c])
				stalled[s]++;
		}
		for (s = 0; looks[g].sampler && in_use && s < PSI_NR_STATES; s++)
			looks[g].integral[s] += div64_u64(len * stalled[s], in_use);
	}
}

/* A window begins. */
static void psi_test_look_begin(struct psi_test_model *m, int g, struct psi_test_window *window)
{
	memcpy(window->begun, m->times[g], sizeof(window->begun));
	window->used = m->used[g];
}

/* What the running window has of plain pressure. */
static u64 psi_test_look_plain(struct psi_test_model *m, int g, enum psi_state state)
{
	const struct psi_test_look *looks = m->looks;
	const struct psi_test_window *window = &looks[g].window[PSI_PLAIN];
	u64 weight = 0, sum = 0;
	int c;

	for (c = 0; c < m->nr_cpus; c++)
		weight += m->times[g][c][PSI_NONIDLE] - window->begun[c][PSI_NONIDLE];
	for (c = 0; weight && c < m->nr_cpus; c++)
		sum += mul_u64_u64_div_u64(m->times[g][c][state] - window->begun[c][state],
					   m->times[g][c][PSI_NONIDLE] -
					   window->begun[c][PSI_NONIDLE], weight);
	return sum;
}

/* The same of exact pressure. */
static u64 psi_test_look_exact(struct psi_test_model *m, int g, enum psi_state state)
{
	const struct psi_test_look *looks = m->looks;
	const struct psi_test_window *window = &looks[g].window[PSI_EXACT];
	u64 weight = 0, sum = 0;
	int c;

	for (c = 0; c < m->nr_cpus; c++) {
		weight += m->times[g][c][PSI_NONIDLE] - window->begun[c][PSI_NONIDLE];
		sum += m->times[g][c][state] - window->begun[c][state];
	}
	return weight ? mul_u64_u64_div_u64(sum, m->used[g] - window->used, weight) : 0;
}

static u64 psi_test_look_window(struct psi_test_model *m, int g, enum psi_kind kind,
				enum psi_state state)
{
	return kind == PSI_EXACT ? psi_test_look_exact(m, g, state) :
				   psi_test_look_plain(m, g, state);
}

/* Rounding: of a CPU in a window less than 2 ns in the oracle, and less than 2 in the fold. */
static bool psi_test_look_near(struct psi_test_model *m, int event, int g, const char *what,
			       enum psi_state state, u64 is, u64 want)
{
	const struct psi_test_look *looks = m->looks;
	u64 most = 4 * (looks[g].ended + 1) * m->nr_cpus;

	if (abs_diff(is, want) <= most)
		return true;
	KUNIT_FAIL(m->test, "event %d, group %d, state %d: %s %llu ns, not %llu", event, g, state,
		   what, is, want);
	return false;
}

/* The fold comes by. */
static bool psi_test_look_fold(struct psi_test_model *m, int event, int g)
{
	struct psi_test_look *looks = m->looks;
	struct psi_group *group = &m->groups[g];
	enum psi_kind kind;
	int s;

	psi_test_end_window(group);
	for (kind = PSI_PLAIN; kind <= (group->exact ? PSI_EXACT : PSI_PLAIN); kind++) {
		struct psi_test_window *window = &looks[g].window[kind];

		psi_for_each_state(s, PSI_TEST_LOOKED) {
			window->total[s] += psi_test_look_window(m, g, kind, s);
			if (!psi_test_look_near(m, event, g, kind == PSI_EXACT ? "exact" : "plain",
						s, psi_account(group, kind)->total[s],
						window->total[s]))
				return false;
		}
		psi_test_look_begin(m, g, window);
	}
	looks[g].ended++;
	return true;
}

/* Somebody reads. What is shown never gets less. */
static bool psi_test_look_read(struct psi_test_model *m, int event, int g, enum psi_kind kind)
{
	struct psi_test_look *looks = m->looks;
	struct psi_test_window *window = &looks[g].window[kind];
	struct psi_reading reading;
	int s;

	psi_read(&m->groups[g], kind, PSI_TEST_LOOKED, &reading);
	psi_for_each_state(s, PSI_TEST_LOOKED) {
		window->shown[s] = max(window->shown[s], window->total[s] +
				       psi_test_look_window(m, g, kind, s));
		if (!psi_test_look_near(m, event, g, kind == PSI_EXACT ? "exact read" : "read", s,
					reading.total[s], window->shown[s]))
			return false;
	}
	return true;
}

/* If somebody has asked for exact pressure: windows, the integral and a sampler begin. */
static void psi_test_look_asked(struct psi_test_model *m, int g)
{
	struct psi_test_look *look = &((struct psi_test_look *)m->looks)[g];
	struct psi_watch *watch;
	int s;

	if (!m->groups[g].exact || look->sampler)
		return;
	watch = psi_test_watch(m->test, &m->groups[g]);
	psi_test_look_begin(m, g, &look->window[PSI_EXACT]);
	look->sampler = psi_test_sampler(m->test, watch, PSI_EXACT, PSI_TEST_WINDOW);
	look->sampler->states = PSI_TEST_LOOKED;
	KUNIT_EXPECT_TRUE(m->test, psi_sampler_cover_all(look->sampler, PSI_TEST_LOOKED));
	psi_for_each_state(s, PSI_TEST_LOOKED)
		psi_sampler_begin(look->sampler, s);
	psi_step_begin(look->sampler, m->now);
}

/* The sampler takes a sample. Each step is rounded, here and there. */
static bool psi_test_look_sample(struct psi_test_model *m, int event, int g)
{
	struct psi_test_look *look = &((struct psi_test_look *)m->looks)[g];
	int s;

	psi_sampler_update(look->sampler, m->now);
	look->steps++;
	psi_for_each_state(s, PSI_TEST_LOOKED) {
		if (abs_diff(look->sampler->last.total[s], look->integral[s]) <= look->steps)
			continue;
		KUNIT_FAIL(m->test, "event %d, group %d, state %d: sample %llu ns, integral %llu",
			   event, g, s, look->sampler->last.total[s], look->integral[s]);
		return false;
	}
	return true;
}

static bool psi_test_look(struct psi_test_model *m, int event)
{
	struct psi_test_look *looks = m->looks;
	int g;

	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		u32 what = prandom_u32_state(&m->rnd) % 64;

		psi_test_look_asked(m, g);
		if (looks[g].sampler && !psi_test_look_sample(m, event, g))
			return false;
		if (what < 4 && !psi_test_look_read(m, event, g, PSI_PLAIN))
			return false;
		if (what < 8 && looks[g].sampler && !psi_test_look_read(m, event, g, PSI_EXACT))
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
	struct psi_test_look *looks = m->looks;
	int g;

	for (g = 0; g < PSI_TEST_GROUPS; g++)
		if (looks[g].sampler)
			psi_sampler_free(looks[g].sampler);
	kvfree(looks);
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

static void psi_test_looks(struct kunit *test)
{
	const struct psi_test_looks_row *row = test->param_value;
	struct psi_test_model *m = psi_test_model_init(test, NSEC_PER_SEC, row->cpus);
	struct psi_test_look *looks;
	int g;

	looks = kvcalloc(PSI_TEST_GROUPS, sizeof(*looks), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, looks);
	m->looks = looks;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, psi_test_looks_free, m), 0);
	m->looker = &psi_test_looker;
	test->priv = m;
	kunit_activate_static_stub(test, psi_read_clock, psi_test_clock);
	kunit_activate_static_stub(test, psi_read_cpu_clock, psi_test_cpu_clock);
	if (!psi_test_model_events(m, row->tasks, row->events / 4))
		return;
	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		psi_test_model_exact(m, g);
		psi_test_look_asked(m, g);
	}
	if (!psi_test_model_events(m, row->tasks, row->events))
		return;
	for (g = 0; g < PSI_TEST_GROUPS; g++)
		KUNIT_EXPECT_GT(test, looks[g].ended, 50);
	KUNIT_EXPECT_GT(test, looks[0].integral[PSI_CPU_SOME], NSEC_PER_SEC);
	psi_test_model_end(m);
}
