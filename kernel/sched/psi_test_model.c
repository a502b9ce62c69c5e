// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: the walk, against a model that
 * recounts everything from scratch after each of many random events.
 */

#define PSI_TEST_GROUPS		9
#define PSI_TEST_TASKS		24
#define PSI_TEST_CPUS		64
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

struct psi_test_model;

/**
 * struct psi_test_looker - looks at a model between its events
 * @pass: before @len ns pass in which nothing changes
 * @look: after event number @event; false if the test has failed
 */
struct psi_test_looker {
	void (*pass)(struct psi_test_model *m, u64 len);
	bool (*look)(struct psi_test_model *m, int event);
};

struct psi_test_model {
	struct kunit *test;
	const struct psi_test_looker *looker;	/* or NULL */
	void *looks;				/* what it knows */
	struct rnd_state rnd;
	u64 now;
	int cpus[PSI_TEST_CPUS];
	int nr_cpus;
	struct psi_group groups[PSI_TEST_GROUPS];
	struct psi_test_model_task tasks[PSI_TEST_TASKS];
	int nr;			/* tasks that take part */
	struct psi_test_model_task *alone; /* only this one runs */
	int events;		/* for so many events: groups delegate */
	int delegated;
	int direct;		/* changes of tasks in groups that delegate */
	int counted;
	/*
	 * memory for groups on CPUs: in place of the reserve of a CPU, and what
	 * is added later
	 */
	struct psi_reserve reserve;
	struct psi_group_cpu *spare;
	int above;		/* tasks counted above their home */
	int asks;		/* how often a group began to be asked */
	/*
	 * the oracle: states by definition, and their times; while it is asked,
	 * the union's
	 */
	unsigned int states[PSI_TEST_GROUPS][PSI_TEST_CPUS];
	/* whether a task shows anything that is counted in a group */
	bool shows[PSI_TEST_GROUPS][PSI_TEST_CPUS];
	u64 times[PSI_TEST_GROUPS][PSI_TEST_CPUS][PSI_NR_STATES];
	u64 used[PSI_TEST_GROUPS];
	/* the same of limits, and of limits where there is no shortage */
	unsigned int limit[PSI_TEST_GROUPS][PSI_TEST_CPUS];
	unsigned int shortage[PSI_TEST_GROUPS][PSI_TEST_CPUS];
	u64 held_times[PSI_TEST_GROUPS][PSI_TEST_CPUS][PSI_NR_HELD];
	int held;		/* how often a limit held somebody */
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

static void psi_test_model_free(struct psi_group_cpu *list)
{
	struct psi_group_cpu *memory;

	while ((memory = list)) {
		list = memory->up;
		kfree(memory);
	}
}

static void psi_test_model_exit(void *data)
{
	struct psi_test_model *m = data;
	int g;

	for (g = 0; g < PSI_TEST_GROUPS; g++)
		psi_test_group_free(&m->groups[g]);
	psi_test_model_free(m->reserve.free);
	psi_test_model_free(m->spare);
}

/* A model of @cpus CPUs, or as many as there can be. */
static struct psi_test_model *psi_test_model_init(struct kunit *test, u64 start, int cpus)
{
	struct psi_test_model *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	int g, t, i, cpu;

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->test = test;
	m->now = start;
	prandom_seed_state(&m->rnd, 4711);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, psi_test_model_exit, m), 0);

	for_each_possible_cpu(cpu) {
		if (m->nr_cpus == cpus)
			break;
		m->cpus[m->nr_cpus++] = cpu;
	}
	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		struct psi_group *group = &m->groups[g];
		struct psi_group *parent = g ? &m->groups[psi_test_parent[g]] : NULL;

		KUNIT_ASSERT_TRUE(test, psi_test_group_init(group, parent, psi_test_level(g)));
		/*
		 * As the system, the top has memory on each CPU. The others
		 * come to need it.
		 */
		KUNIT_ASSERT_TRUE(test, g || psi_test_group_extend(group));
	}
	for (i = 0; i < (PSI_TEST_GROUPS - 1) * m->nr_cpus; i++) {
		struct psi_group_cpu *memory = psi_test_cell();

		KUNIT_ASSERT_NOT_NULL(test, memory);
		memory->up = m->spare;
		m->spare = memory;
	}
	for (t = 0; t < PSI_TEST_TASKS; t++) {
		m->tasks[t].group = prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS;
		m->tasks[t].psi.group = &m->groups[m->tasks[t].group];
		m->tasks[t].cpu = t % m->nr_cpus;
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

/* Take the real lock of a CPU, with the reserve of the model there. */
static void psi_test_model_lock(struct psi_test_model *m, int c, struct rq_flags *rf)
{
	rq_lock_irqsave(cpu_rq(m->cpus[c]), rf);
	swap(*per_cpu_ptr(&psi_reserves, m->cpus[c]), m->reserve);
}

static void psi_test_model_unlock(struct psi_test_model *m, int c, struct rq_flags *rf)
{
	swap(*per_cpu_ptr(&psi_reserves, m->cpus[c]), m->reserve);
	rq_unlock_irqrestore(cpu_rq(m->cpus[c]), rf);
}

/* A group on a CPU, NULL before it has memory there. */
static struct psi_group_cpu *psi_test_model_on(struct psi_test_model *m, int g, int c)
{
	return m->groups[g].cpus[m->cpus[c]];
}

/* The first group from @g up that has memory on a CPU. */
static int psi_test_model_first(struct psi_test_model *m, int g, int c)
{
	while (g > 0 && !psi_test_model_on(m, g, c))
		g = psi_test_parent[g];
	return g;
}

static struct psi_asked *psi_test_model_asked(struct psi_test_model *m, int g)
{
	return rcu_access_pointer(m->groups[g].asked);
}

/* Whether a cell delegates. */
static bool psi_test_delegates(const struct psi_group_cpu *gc)
{
	return psi_delegate_of(gc);
}

/* Count a task as @attrs, with the real lock and write section of the CPU. */
static void psi_test_model_change(struct psi_test_model *m, struct psi_test_model_task *t,
				  unsigned int attrs)
{
	struct psi_group *group = t->psi.group;
	struct psi_group_cpu *gc = group->cpus[m->cpus[t->cpu]];
	struct rq *rq = cpu_rq(m->cpus[t->cpu]);
	struct rq_flags rf;

	m->direct += t->psi.attrs != attrs && gc && psi_test_delegates(gc);
	psi_test_model_lock(m, t->cpu, &rf);
	psi_change(&t->psi, attrs, rq, m->now);
	psi_test_model_unlock(m, t->cpu, &rf);
	m->above += t->psi.group != group;
}

static void psi_test_model_set(struct psi_test_model *m, struct psi_test_model_task *t)
{
	psi_test_model_change(m, t, psi_test_attrs(&t->is));
}

/* Count a task in another group. */
static void psi_test_model_regroup(struct psi_test_model *m, struct psi_test_model_task *t, int to)
{
	struct rq *rq = cpu_rq(m->cpus[t->cpu]);
	struct rq_flags rf;

	psi_test_model_lock(m, t->cpu, &rf);
	psi_regroup(&t->psi, &m->groups[to], rq, m->now);
	psi_test_model_unlock(m, t->cpu, &rf);
	m->above += t->psi.group != &m->groups[to];
}

/* Have a group be counted in its parent on a CPU. */
static void psi_test_model_adopt(struct psi_test_model *m, int g, int c)
{
	struct psi_group_cpu *gc = psi_test_model_on(m, g, c);
	struct rq_flags rf;

	if (!gc)
		return;
	psi_test_model_lock(m, c, &rf);
	psi_adopt(gc, m->cpus[c], m->now);
	psi_test_model_unlock(m, c, &rf);
}

/*
 * Switch to @next, or to idle. @where is the state of the previous task from
 * now on.
 */
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
	psi_test_model_lock(m, cpu, &rf);
	psi_change_two(&prev->psi, psi_test_attrs(&prev->is),
		       &next->psi, psi_test_attrs(&next->is), rq, m->now);
	psi_test_model_unlock(m, cpu, &rf);
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

/* @nr more pieces of memory come: what had none is counted where it belongs. */
static void psi_test_model_settle(struct psi_test_model *m, int nr)
{
	struct psi_group_cpu *memory;
	int g, c, t;

	for (; nr && m->spare; nr--) {
		memory = m->spare;
		m->spare = memory->up;
		memory->up = m->reserve.free;
		m->reserve.free = memory;
		m->reserve.nr++;
	}
	for (g = 1; g < PSI_TEST_GROUPS; g++) {
		for (c = 0; c < m->nr_cpus; c++)
			psi_test_model_adopt(m, g, c);
	}
	for (t = 0; t < m->nr; t++) {
		int to = m->tasks[t].group;

		if (m->tasks[t].psi.group != &m->groups[to])
			psi_test_model_regroup(m, &m->tasks[t], to);
	}
}

/*
 * Take a group off the list on a CPU, as the fold does: only if it is idle
 * there.
 */
static void psi_test_model_unlist(struct psi_test_model *m, int g, int c)
{
	struct psi_group_cpu *gc = psi_test_model_on(m, g, c);
	bool idle = !m->shows[g][c];
	int try;

	if (!gc)
		return;
	/* A window ended just now. */
	memcpy(gc->slots[psi_last_slot(&m->groups[g])], m->times[g][c], sizeof(gc->slots[0]));
	/* The running system may hold the lock of that CPU. */
	for (try = 0; try < (idle ? 1000 : 1) && psi_listed(gc, m->cpus[c]); try++)
		psi_unlist(&m->groups[g], psi_test_model_asked(m, g), m->cpus[c]);
	if (!idle)
		return;
	KUNIT_EXPECT_FALSE(m->test, psi_listed(gc, m->cpus[c]));
	KUNIT_EXPECT_FALSE(m->test, psi_test_delegates(gc));
	KUNIT_EXPECT_EQ(m->test, gc->slow, PSI_ALL_STATES);
	KUNIT_EXPECT_MEMEQ(m->test, gc->slots[0], gc->slots[1], sizeof(gc->slots[0]));
}

/* Somebody begins to ask about a group. */
static void psi_test_model_ask(struct psi_test_model *m, int g)
{
	if (psi_test_model_asked(m, g))
		return;
	KUNIT_ASSERT_NOT_NULL(m->test, psi_test_ask(&m->groups[g], m->now));
	m->asks++;
	m->used[g] = 0;
	memset(m->held_times[g], 0, sizeof(m->held_times[g]));
}

/*
 * Somebody begins to ask about a group, or nobody does any more. A looker asks
 * for good.
 */
static void psi_test_model_ask_or_not(struct psi_test_model *m, int g)
{
	if (!psi_test_model_asked(m, g))
		psi_test_model_ask(m, g);
	else if (!m->looker)
		psi_test_unask(&m->groups[g], m->now);
}

/* A limit holds most tasks of a group, or those below, or none any more. */
static void psi_test_model_throttle(struct psi_test_model *m, int group, int c)
{
	bool on = prandom_u32_state(&m->rnd) % 2;
	int i;

	for (i = 0; i < m->nr; i++) {
		struct psi_test_model_task *t = &m->tasks[i];

		/*
		 * A task that runs may be held, too: it runs until the switch.
		 */
		if (t->cpu != c || !psi_test_below(t->group, group) ||
		    (on && prandom_u32_state(&m->rnd) % 8 == 0))
			continue;
		t->is.held = on;
		m->held += on && t->is.where == PSI_QUEUED;
		psi_test_model_set(m, t);
	}
}

/*
 * All tasks of a CPU sleep but one, which no limit holds: the groups above it
 * delegate. At times, others go on waiting for io: groups that have such a task
 * do not delegate.
 */
static void psi_test_model_quiet(struct psi_test_model *m, struct psi_test_model_task *alone)
{
	bool keep = prandom_u32_state(&m->rnd) % 4 == 0;
	int i;

	for (i = 0; i < m->nr; i++) {
		struct psi_test_model_task *t = &m->tasks[i];

		if (t->cpu != alone->cpu || (keep && t != alone && t->is.where == PSI_ASLEEP &&
					     t->is.iowait && !t->is.io_held))
			continue;
		t->is = (struct psi_test_task){ .where = PSI_ASLEEP };
		psi_test_model_set(m, t);
	}
	m->alone = alone;
	m->events = 4 * PSI_STREAK;
}

/*
 * The first group above the one whose task ran alone that delegates, -1 for
 * none.
 */
static int psi_test_model_delegating(struct psi_test_model *m)
{
	int g = m->alone->psi.group - m->groups, c = m->alone->cpu;
	struct psi_group_cpu *gc;

	do {
		g = psi_test_parent[g];
		gc = g >= 0 ? psi_test_model_on(m, g, c) : NULL;
	} while (g >= 0 && !(gc && psi_test_delegates(gc)));
	return g;
}

/* A task wakes up in a group that delegates to the one whose task ran alone. */
static void psi_test_model_above(struct psi_test_model *m, int g)
{
	int cpu = m->alone->cpu, i;

	for (i = 0; i < m->nr; i++) {
		struct psi_test_model_task *t = &m->tasks[i];

		if (t->cpu != cpu || psi_test_attrs(&t->is))
			continue;
		t->group = g;
		psi_test_model_regroup(m, t, g);
		t->is.where = PSI_QUEUED;
		psi_test_model_set(m, t);
		return;
	}
}

/* Something happens to a group that delegates, now that one task ran alone. */
static void psi_test_model_quiet_ends(struct psi_test_model *m)
{
	int g = psi_test_model_delegating(m);

	if (g < 0)
		return;
	if (prandom_u32_state(&m->rnd) % 4 == 0)
		psi_test_model_ask_or_not(m, g);
	psi_test_model_above(m, g);
}

/* A random legal event happens to a task. */
static void psi_test_model_event(struct psi_test_model *m)
{
	struct psi_test_model_task *t = &m->tasks[prandom_u32_state(&m->rnd) % m->nr];
	u32 what = prandom_u32_state(&m->rnd) % 8;

	if (!m->events && prandom_u32_state(&m->rnd) % 512 == 0)
		psi_test_model_quiet(m, t);
	if (m->events && !--m->events) {
		psi_test_model_quiet_ends(m);
		return;
	}
	if (m->events) {
		t = m->alone;
		what = 4 + what % 2;
	}
	if (what == 0 && prandom_u32_state(&m->rnd) % 16 == 0) {
		/* It moves to another cgroup, in any state. */
		t->group = prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS;
		psi_test_model_regroup(m, t, t->group);
		return;
	}
	if (what == 1 && t->is.where != PSI_RUNS && prandom_u32_state(&m->rnd) % 16 == 0) {
		/* It migrates, asleep or queued. */
		psi_test_model_change(m, t, 0);
		t->cpu = (t->cpu + prandom_u32_state(&m->rnd) % m->nr_cpus) % m->nr_cpus;
		psi_test_model_set(m, t);
		return;
	}
	/* Where it looks on, the fold takes groups off the list. */
	if (what == 3 && !m->looker && prandom_u32_state(&m->rnd) % 8 == 0) {
		psi_test_model_unlist(m, prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS, t->cpu);
		return;
	}
	if (what == 4 && prandom_u32_state(&m->rnd) % (m->looker ? 2048 : 32) == 0) {
		psi_test_model_ask_or_not(m, prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS);
		return;
	}
	if (what == 5 && !m->events && prandom_u32_state(&m->rnd) % 4 == 0) {
		psi_test_model_throttle(m, prandom_u32_state(&m->rnd) % PSI_TEST_GROUPS, t->cpu);
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
			t->is.stall_held = what & 1;
			psi_test_model_set(m, t);
			break;
		}
		t->is.iowait = what & 1;
		t->is.io_held = what & 2;
		psi_test_model_switch(m, t->cpu, psi_test_model_queued(m, t->cpu), PSI_ASLEEP);
		break;
	}
}

/*
 * Whether a group has anything to count: its tasks, and those of its
 * contributors.
 */
static bool psi_test_model_shows(struct psi_test_model *m, int g, int c)
{
	int t, group;

	for (t = 0; t < PSI_TEST_TASKS; t++) {
		if (m->tasks[t].cpu != c || !psi_test_attrs(&m->tasks[t].is))
			continue;
		for (group = m->tasks[t].psi.group - m->groups; group >= 0 && group != g;)
			group = psi_test_model_first(m, psi_test_parent[group], c);
		if (group == g)
			return true;
	}
	return false;
}

/* Compute the states from scratch, by definition. */
static void psi_test_model_recount(struct psi_test_model *m, int g, int c)
{
	struct psi_test_task tasks[PSI_TEST_TASKS];
	int t, nr = 0;

	/*
	 * Without memory a group counts nothing, and those above do in its
	 * place.
	 */
	for (t = 0; psi_test_model_on(m, g, c) && t < PSI_TEST_TASKS; t++)
		if (m->tasks[t].cpu == c && psi_test_below(m->tasks[t].psi.group - m->groups, g))
			tasks[nr++] = m->tasks[t].is;
	m->states[g][c] = psi_test_states(tasks, nr);
	m->shows[g][c] = psi_test_model_shows(m, g, c);
	m->limit[g][c] = psi_test_class_states(tasks, nr, true) & m->states[g][c];
	m->shortage[g][c] = psi_test_class_states(tasks, nr, false) & m->states[g][c];
}

/* Recount a group from its tasks and from the attributes of its children. */
static struct psi_counts psi_test_model_counts(struct psi_test_model *m, int g, int c)
{
	struct psi_counts sum = { };
	unsigned int attrs;
	int i;

	for (i = 0; i < PSI_TEST_TASKS; i++) {
		attrs = psi_test_attrs(&m->tasks[i].is);
		if (m->tasks[i].cpu == c && m->tasks[i].psi.group == &m->groups[g])
			sum = psi_counts_add(sum, psi_counts_of(attrs));
	}
	for (i = 0; i < PSI_TEST_GROUPS; i++) {
		struct psi_group_cpu *gc = psi_test_model_on(m, i, c);

		if (gc && psi_test_model_first(m, psi_test_parent[i], c) == g)
			sum = psi_counts_add(sum, psi_counts_of(psi_chain_end(gc)->attrs));
	}
	return sum;
}

/* Limits of a cell that is asked, by definition. */
static bool psi_test_model_held(struct psi_test_model *m, int event, int g, int c,
				struct psi_asked_cpu *more)
{
	unsigned int held = psi_test_held(m->limit[g][c], m->shortage[g][c]);
	const u64 *want = m->held_times[g][c];
	u64 times[PSI_NR_HELD];
	int i;

	if (more->held != held) {
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: limits %#x, not %#x", event, g, c,
			   more->held, held);
		return false;
	}
	psi_held_read(more, m->now, times);
	for (i = 0; i < PSI_NR_HELD; i++) {
		if (times[i] == want[i])
			continue;
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d, time %d of limits: %llu, not %llu",
			   event, g, c, i, times[i], want[i]);
		return false;
	}
	return true;
}

/*
 * Classes of a group, by definition; and what has to be true of them whatever
 * happens.
 */
static bool psi_test_model_classes(struct psi_test_model *m, int event, int g, int c)
{
	const unsigned int all = PSI_ALL_STATES & ~(BIT(PSI_NONIDLE) | BIT(PSI_IRQ_FULL));
	struct psi_asked *asked = psi_test_model_asked(m, g);
	struct psi_group_cpu *gc = psi_test_model_on(m, g, c);
	struct psi_asked_cpu *more = gc ? psi_asked_cpu(asked, gc, m->cpus[c]) : NULL;
	unsigned int limit = m->limit[g][c], shortage = m->shortage[g][c];

	if ((limit | shortage) != (m->states[g][c] & all)) {
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: %#x and %#x are not %#x",
			   event, g, c, limit, shortage, m->states[g][c]);
		return false;
	}
	if (more)
		return psi_test_model_held(m, event, g, c, more);
	/* It joins with the list. */
	if (asked && psi_listed(gc, m->cpus[c])) {
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: not joined", event, g, c);
		return false;
	}
	return true;
}

/* The flags of what is asked, where a group is in use. */
static bool psi_test_model_flags(struct psi_test_model *m, int event, int g, int c)
{
	struct psi_group_cpu *gc = psi_test_model_on(m, g, c), *child = gc, *p;
	bool asked = psi_test_model_asked(m, g), above = false;

	if (!psi_listed(gc, m->cpus[c]))
		return true;
	for (p = gc->parent; p && psi_delegate_of(p) == child; p = p->parent) {
		above |= rcu_access_pointer(p->group->asked) && psi_listed(p, m->cpus[c]);
		child = p;
	}
	if (asked == !!(gc->asked & PSI_ASKED) &&
	    (psi_test_delegates(gc) || above == !!(gc->asked & PSI_ASKED_ABOVE)) &&
	    !(psi_test_delegates(gc) && asked && psi_chain_end(gc)->attrs & PSI_LIMIT_ATTRS))
		return true;
	KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: asked %d, above %d, has %#x, delegates %d",
		   event, g, c, asked, above, gc->asked, psi_test_delegates(gc));
	return false;
}

/* See "The list" in psi_fold.c. */
static bool psi_test_model_list(struct psi_test_model *m, int event, int g, int c)
{
	struct psi_group_cpu *gc = psi_test_model_on(m, g, c), *parent = NULL;
	bool delegated = gc->parent && psi_delegate_of(gc->parent) == gc;
	bool delegates = gc->streak == PSI_DELEGATES;

	if (delegates != psi_test_delegates(gc)) {
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: delegates to nobody", event, g, c);
		return false;
	}
	if (!psi_listed(gc, m->cpus[c])) {
		if (!m->shows[g][c] && !gc->attrs && !psi_test_delegates(gc) && !delegated &&
		    gc->slow == PSI_ALL_STATES)
			return true;
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: unlisted, shows %#x, slow %#x",
			   event, g, c, gc->attrs, gc->slow);
		return false;
	}
	if (g)
		parent = psi_test_model_on(m, psi_test_model_first(m, psi_test_parent[g], c), c);
	if (gc->parent == parent)
		return true;
	KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: parent level %d", event, g, c,
		   gc->parent ? gc->parent->group->level : -1);
	return false;
}

static bool psi_test_model_agrees(struct psi_test_model *m, int event, int g, int c)
{
	struct psi_group_cpu *gc = psi_test_model_on(m, g, c);
	struct psi_counts counts = psi_test_model_counts(m, g, c);
	u64 times[PSI_NR_STATES];
	unsigned int states;
	int s;

	/*
	 * No task is counted there, then: the states of those above would lack
	 * it.
	 */
	if (!gc)
		return true;
	psi_times(gc, psi_chain_end(gc), PSI_ALL_STATES, m->now, 0, times);
	states = psi_chain_end(gc)->states;
	m->delegated += psi_test_delegates(gc);
	if (!psi_test_delegates(gc) &&
	    (gc->sched != counts.sched || gc->stall != counts.stall || gc->limit != counts.limit ||
	     gc->attrs != psi_test_attrs_of(counts))) {
		KUNIT_FAIL(m->test, "event %d, group %d, %d: %llx %llx %llx, not %llx %llx %llx",
			   event, g, c, gc->sched, gc->stall, gc->limit,
			   counts.sched, counts.stall, counts.limit);
		return false;
	}
	if (states != m->states[g][c]) {
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d: states %#x, recounted %#x",
			   event, g, c, states, m->states[g][c]);
		return false;
	}
	if (!psi_test_model_list(m, event, g, c) || !psi_test_model_flags(m, event, g, c))
		return false;
	for (s = 0; s < PSI_NR_STATES; s++) {
		/* the interrupt clock runs on its own */
		if (s == PSI_IRQ_FULL || times[s] == m->times[g][c][s])
			continue;
		KUNIT_FAIL(m->test, "event %d, group %d, cpu %d, state %d: %llu ns, recounted %llu",
			   event, g, c, s, times[s], m->times[g][c][s]);
		return false;
	}
	return psi_test_model_classes(m, event, g, c);
}

static void psi_test_model_pass_on(struct psi_test_model *m, int g, int c, u64 len)
{
	unsigned int limit = m->limit[g][c], only = limit & ~m->shortage[g][c];
	int s;

	for (s = 0; s < PSI_NR_STATES; s++) {
		if (m->states[g][c] & BIT(s))
			m->times[g][c][s] += len;
		if (limit & BIT(s))
			m->held_times[g][c][PSI_LIMIT_AT(s)] += len;
		if (only & BIT(s))
			m->held_times[g][c][PSI_ONLY_AT(s)] += len;
	}
}

/* The union of a group that is asked has the time in which a CPU was in use. */
static bool psi_test_model_union(struct psi_test_model *m, int event, int g)
{
	const struct psi_asked *asked = psi_test_model_asked(m, g);
	u64 used;

	if (!asked)
		return true;
	m->counted++;
	used = psi_union_since(psi_union_read(asked, m->now), 0);
	if (used != m->used[g])
		KUNIT_FAIL(m->test, "event %d, group %d: in use for %llu ns, recounted %llu",
			   event, g, used, m->used[g]);
	return used == m->used[g];
}

/* @len ns pass. */
static void psi_test_model_pass(struct psi_test_model *m, u64 len)
{
	int g, c;

	if (m->looker)
		m->looker->pass(m, len);
	m->now += len;
	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		bool used = false;

		for (c = 0; c < m->nr_cpus; c++) {
			used |= m->states[g][c] & BIT(PSI_NONIDLE);
			psi_test_model_pass_on(m, g, c, len);
		}
		if (used && psi_test_model_asked(m, g))
			m->used[g] += len;
	}
}

/* What holds after each event. */
static bool psi_test_model_holds(struct psi_test_model *m, int event)
{
	int g, c;

	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		for (c = 0; c < m->nr_cpus; c++) {
			psi_test_model_recount(m, g, c);
			if (!psi_test_model_agrees(m, event, g, c))
				return false;
		}
		if (!psi_test_model_union(m, event, g))
			return false;
	}
	return !m->looker || m->looker->look(m, event);
}

/* All tasks leave: no count may be left. */
static void psi_test_model_end(struct psi_test_model *m)
{
	int t, g, c;

	for (t = 0; t < PSI_TEST_TASKS; t++)
		psi_test_model_change(m, &m->tasks[t], 0);
	for (g = 0; g < PSI_TEST_GROUPS; g++) {
		for (c = 0; c < m->nr_cpus; c++) {
			struct psi_group_cpu *gc = psi_test_model_on(m, g, c);

			if (!gc)
				continue;
			KUNIT_EXPECT_TRUE(m->test, psi_test_delegates(gc) ||
					  !(gc->sched | gc->stall | gc->limit));
			KUNIT_EXPECT_EQ(m->test, psi_chain_end(gc)->states, 0);
		}
	}
}

/*
 * @events random events of the first @nr tasks. Return false if the test has
 * failed.
 */
static bool psi_test_model_events(struct psi_test_model *m, int nr, int events)
{
	int event;

	m->nr = nr;
	for (event = 0; event < events; event++) {
		u64 len = prandom_u32_state(&m->rnd) >> (prandom_u32_state(&m->rnd) % 32);

		cond_resched();
		psi_test_model_pass(m, len);
		if (m->spare && event % 128 == 127)
			psi_test_model_settle(m, m->nr_cpus);
		psi_test_model_event(m);
		if (!psi_test_model_holds(m, event))
			return false;
	}
	return true;
}

static void psi_test_model_run(struct kunit *test, u64 start, int nr)
{
	struct psi_test_model *m = psi_test_model_init(test, start, 2);

	if (!psi_test_model_events(m, nr, PSI_TEST_EVENTS))
		return;
	KUNIT_EXPECT_GT(test, m->delegated, 100);
	if (nr > 1)
		KUNIT_EXPECT_GT(test, m->direct, 0);
	KUNIT_EXPECT_GT(test, m->counted, 1000);
	KUNIT_EXPECT_GT(test, m->held, 5);
	KUNIT_EXPECT_GT(test, m->asks, 20);
	if (nr > 1)
		KUNIT_EXPECT_GT(test, m->above, 5);
	psi_test_model_end(m);
}

static void psi_test_model_from_boot(struct kunit *test)
{
	psi_test_model_run(test, 0, PSI_TEST_TASKS);
}

/*
 * A group leaves the list while the one above it has no memory. By the time it
 * joins again, that one has.
 */
static void psi_test_model_joins(struct kunit *test)
{
	struct psi_test_model *m = psi_test_model_init(test, 0, 1);
	int below = 3, above = psi_test_parent[below], i;

	for (i = 0; i < 3; i++) {
		struct psi_test_model_task *t = &m->tasks[i == 1];

		if (i == 1) {
			m->tasks[0].is.where = PSI_ASLEEP;
			psi_test_model_set(m, &m->tasks[0]);
			psi_test_model_unlist(m, below, 0);
		}
		psi_test_model_settle(m, i < 2);
		psi_test_model_regroup(m, t, i == 1 ? above : below);
		t->is.where = PSI_QUEUED;
		psi_test_model_set(m, t);
		KUNIT_EXPECT_TRUE(test, psi_test_model_holds(m, i));
		KUNIT_EXPECT_EQ(test, psi_test_model_first(m, above, 0), i ? above : 0);
	}
}

/* A tree in which most groups have one child in use. */
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

/* Run and sleep in a group so often that all groups above it delegate. */
static void psi_test_chain_settle(struct psi_test_task *is, struct psi_task *task, int cpu,
				  u64 *now)
{
	struct rq_flags rf;
	int i;

	for (i = 0; i < 4 * PSI_STREAK; i++) {
		is->where = i % 2 ? PSI_ASLEEP : PSI_RUNS;
		*now += 1000;
		rq_lock_irqsave(cpu_rq(cpu), &rf);
		psi_change(task, psi_test_attrs(is), cpu_rq(cpu), *now);
		rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	}
}

/*
 * A task wakes up in the group above the one of @below: this does not delegate
 * any more.
 */
static void psi_test_chain_beside(struct kunit *test, struct psi_task *below, int cpu, u64 now)
{
	struct psi_test_task is = { .where = PSI_QUEUED };
	struct psi_task task = { .group = below->group->parent };
	struct psi_group_cpu *gc = task.group->cpus[cpu];
	struct rq_flags rf;

	KUNIT_EXPECT_TRUE(test, psi_test_delegates(gc));
	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&task, psi_test_attrs(&is), cpu_rq(cpu), now);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	KUNIT_EXPECT_FALSE(test, psi_test_delegates(gc));
	KUNIT_EXPECT_EQ(test, gc->states, psi_test_states(&is, 1));

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&task, 0, cpu_rq(cpu), now);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	KUNIT_EXPECT_EQ(test, gc->states, 0);
}

struct psi_test_chain {
	struct psi_group groups[4 * PSI_CHAIN];
};

static void psi_test_chain_exit(void *data)
{
	struct psi_test_chain *chain = data;
	int g;

	for (g = 0; g < ARRAY_SIZE(chain->groups); g++)
		psi_test_group_free(&chain->groups[g]);
}

/*
 * Groups one below the other; the task moves down and down. No chain gets too
 * long.
 */
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

		KUNIT_ASSERT_TRUE(test, psi_test_group_init(group, g ? group - 1 : NULL, g));
		KUNIT_ASSERT_TRUE(test, psi_test_group_extend(group));
	}
	for (at = begin; at < deep; at++) {
		int delegating = 0;

		task.group = &chain->groups[at];
		psi_test_chain_settle(&is, &task, cpu, &now);
		for (g = 0; g < deep; g++) {
			struct psi_group_cpu *gc = chain->groups[g].cpus[cpu];

			delegating += psi_test_delegates(gc);
			KUNIT_EXPECT_LE(test, psi_chain(gc), PSI_CHAIN);
		}
		/*
		 * All groups but the end of each chain, and maybe some between
		 * two chains.
		 */
		KUNIT_EXPECT_GT(test, delegating, at * 3 / 4);
	}
	psi_test_chain_beside(test, &task, cpu, now);
	/* The task ran half of the time. */
	for (g = 0; g <= begin; g++) {
		psi_peek_more(chain->groups[g].cpus[cpu], cpu, PSI_ALL_STATES,
			      times, NULL, NULL);
		KUNIT_EXPECT_EQ(test, times[PSI_NONIDLE], (now - PSI_TEST_START) / 2);
	}
}
