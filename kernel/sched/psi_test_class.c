// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: limit and shortage. The walk is tested with
 * the model, see psi_test_model.c.
 */

/* What a contributor shows follows from the tasks below, and the classes from what it shows. */
static void psi_test_class_exhaustive(struct kunit *test)
{
	enum { NR = 3, KINDS = 3 * 3 * 3 * 2 };
	unsigned int code;

	for (code = 0; code < KINDS * KINDS * KINDS; code++) {
		unsigned int c = code, attrs = 0, states, limit, only, shortage;
		struct psi_test_task tasks[NR];
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
			attrs |= psi_test_attrs(&tasks[i]);
		}
		if (oncpu > 1)
			continue;
		states = psi_states_of(attrs);
		limit = psi_limit_states_of(attrs, states, &only);
		shortage = psi_test_class_states(tasks, NR, false);
		KUNIT_EXPECT_EQ_MSG(test, states, psi_test_states(tasks, NR), "set %u", code);
		KUNIT_EXPECT_EQ_MSG(test, states, psi_states[psi_plain_attrs(attrs)],
				    "set %u", code);
		KUNIT_EXPECT_EQ_MSG(test, limit, psi_test_class_states(tasks, NR, true),
				    "set %u", code);
		KUNIT_EXPECT_EQ_MSG(test, only, limit & ~shortage, "set %u", code);
	}
}

/* The part of a change that is about limits is found whatever else changes with it. */
static void psi_test_class_fields(struct kunit *test)
{
	static const unsigned int sets[] = {
		0, PSI_IOWAIT, PSI_MEMSTALL, PSI_LIMIT_WAITING, PSI_LIMIT_IOWAIT,
		PSI_LIMIT_MEMSTALL, PSI_LIMIT_WAITING | PSI_LIMIT_MEMSTALL,
		PSI_LIMIT_IOWAIT | PSI_MEMSTALL, PSI_LIMIT_ATTRS | PSI_IOWAIT | PSI_MEMSTALL,
	};
	const int nr = ARRAY_SIZE(sets);
	int code, l;

	/* Two tasks at once, as on a context switch. */
	for (code = 0; code < nr * nr * nr * nr; code++) {
		unsigned int old = sets[code % nr], new = sets[code / nr % nr];
		unsigned int old2 = sets[code / nr / nr % nr], new2 = sets[code / nr / nr / nr];
		struct psi_counts diff = psi_counts_add(psi_counts_diff(old, new),
							psi_counts_diff(old2, new2));
		struct psi_counts rest = psi_counts_add(psi_counts_diff(old & ~PSI_LIMIT_ATTRS,
									new & ~PSI_LIMIT_ATTRS),
							psi_counts_diff(old2 & ~PSI_LIMIT_ATTRS,
									new2 & ~PSI_LIMIT_ATTRS));

		struct psi_limit_cpu lc = { .nr = { 2, 2, 2 } };
		unsigned int shown = PSI_LIMIT_ATTRS;
		u32 fields = psi_limit_split(&diff.stall);

		KUNIT_EXPECT_EQ(test, diff.stall, rest.stall);
		if (fields)
			shown = psi_limit_count(&lc, fields);
		for (l = 0; l < PSI_NR_LIMITS; l++) {
			unsigned int bit = PSI_LIMIT_WAITING << l;

			KUNIT_EXPECT_EQ(test, lc.nr[l], 2 + !!(new & bit) - !!(old & bit) +
					!!(new2 & bit) - !!(old2 & bit));
			KUNIT_EXPECT_EQ(test, !!(shown & bit), !!lc.nr[l]);
		}
	}
}

/* Have a group begin on a CPU that has @nr pieces in reserve; return where it is counted. */
static struct psi_group *psi_test_begin(struct kunit *test, struct psi_group *group, int cpu,
					int nr)
{
	struct psi_reserve reserve = { };
	union psi_memory *memory;
	struct psi_group *home;
	struct rq_flags rf;

	while (reserve.nr < nr && (memory = psi_memory_alloc(cpu))) {
		memory->next = reserve.free;
		reserve.free = memory;
		reserve.nr++;
	}
	KUNIT_EXPECT_EQ(test, reserve.nr, nr);
	rq_lock_irqsave(cpu_rq(cpu), &rf);
	swap(*per_cpu_ptr(&psi_reserves, cpu), reserve);
	home = psi_group_extend(group, cpu);
	swap(*per_cpu_ptr(&psi_reserves, cpu), reserve);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	psi_test_model_free(reserve.free);
	return home;
}

/* A group with limits has memory for them on each CPU that it is in use on, and on no other. */
static void psi_test_class_memory(struct kunit *test)
{
	struct psi_group *above = psi_test_group(test);
	struct psi_group *group = kunit_kzalloc(test, sizeof(*group), GFP_KERNEL);
	int cpu = cpumask_first(cpu_possible_mask), other = cpumask_last(cpu_possible_mask);

	KUNIT_ASSERT_NOT_NULL(test, group);
	KUNIT_ASSERT_TRUE(test, psi_test_group_init(group, above, 1));
	/* Without limits one piece is enough. */
	KUNIT_EXPECT_PTR_EQ(test, psi_test_begin(test, group, cpu, 0), above);
	KUNIT_EXPECT_PTR_EQ(test, psi_test_begin(test, group, cpu, 1), group);
	KUNIT_EXPECT_TRUE(test, psi_limits_alloc(above));
	KUNIT_EXPECT_TRUE(test, psi_limits_alloc(group));
	KUNIT_EXPECT_NOT_NULL(test, group->limits->cpus[cpu]);
	if (other != cpu) {
		KUNIT_EXPECT_NULL(test, group->limits->cpus[other]);
		KUNIT_EXPECT_PTR_EQ(test, psi_test_begin(test, group, other, 1), above);
		KUNIT_EXPECT_NULL(test, group->limits->cpus[other]);
		KUNIT_EXPECT_PTR_EQ(test, psi_test_begin(test, group, other, 2), group);
		KUNIT_EXPECT_NOT_NULL(test, group->limits->cpus[other]);
	}
	psi_test_group_free(group);
}

/* CPUs that begin to be used while the memory for limits is allocated are not forgotten. */
static void psi_test_class_memory_late(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct psi_limits *limits = kunit_kzalloc(test, sizeof(*limits), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, limits);
	KUNIT_EXPECT_EQ(test, group->nr_cpus, num_possible_cpus());
	KUNIT_EXPECT_FALSE(test, psi_limits_set(group, limits, group->nr_cpus - 1));
	KUNIT_EXPECT_NULL(test, group->limits);
	KUNIT_EXPECT_TRUE(test, psi_limits_set(group, limits, group->nr_cpus));
	KUNIT_EXPECT_PTR_EQ(test, group->limits, limits);
	group->limits = NULL;
}

/* A task that a limit holds moves to a group that has no memory for limits, and back. */
static void psi_test_class_regroup(struct kunit *test)
{
	struct psi_group *from = psi_test_group(test), *to = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_group_cpu *gc = from->cpus[cpu];
	struct psi_task task = { .group = from, .mode = PSI_HELD };
	struct psi_limit_cpu *lc;
	struct rq_flags rf;

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(from));
	lc = from->limits->cpus[cpu];
	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&task, psi_attrs_for(PSI_QUEUED, 0, task.mode), cpu_rq(cpu), PSI_TEST_START);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	KUNIT_EXPECT_EQ(test, lc->nr[PSI_LIMIT_CPU], 1);
	KUNIT_EXPECT_EQ(test, lc->only, BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL));

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_regroup(&task, to, cpu_rq(cpu), PSI_TEST_START);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	KUNIT_EXPECT_EQ(test, task.attrs, PSI_WAITING | PSI_PRODUCTIVE);
	KUNIT_EXPECT_EQ(test, task.mode, 0);
	KUNIT_EXPECT_EQ(test, lc->nr[PSI_LIMIT_CPU], 0);
	KUNIT_EXPECT_EQ(test, lc->limit, 0);
	KUNIT_EXPECT_EQ(test, gc->states, 0);
	KUNIT_EXPECT_EQ(test, to->cpus[cpu]->attrs, task.attrs);

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&task, 0, cpu_rq(cpu), PSI_TEST_START);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
}

/*
 * A group is switched off while a limit holds its task, which stays behind, as dying tasks do,
 * and on again: time with the switch off is in no total.
 */
static void psi_test_class_switch(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test), *above = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_task task = { .group = group, .mode = PSI_HELD };
	struct psi_group_cpu *gc = group->cpus[cpu];
	struct psi_limit_times times;
	struct psi_limit_cpu *lc;
	struct rq_flags rf;

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(above));
	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	lc = group->limits->cpus[cpu];
	group->parent = above;
	gc->parent = above->cpus[cpu];
	gc->up = gc->parent;

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&task, psi_attrs_for(PSI_QUEUED, 0, task.mode), cpu_rq(cpu), PSI_TEST_START);
	group->off = true;
	psi_measure(gc, cpu, PSI_TEST_START + 100);
	KUNIT_EXPECT_EQ(test, gc->states, 0);
	KUNIT_EXPECT_EQ(test, lc->limit, 0);
	KUNIT_EXPECT_EQ(test, lc->only, 0);
	group->off = false;
	psi_measure(gc, cpu, PSI_TEST_START + 1000);
	KUNIT_EXPECT_EQ(test, lc->limit, BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL));
	psi_limit_times(gc, cpu, PSI_TEST_START + 1010, &times);
	KUNIT_EXPECT_EQ(test, times.limit[PSI_CPU_SOME], 110);
	KUNIT_EXPECT_EQ(test, times.only[PSI_CPU_SOME], 110);
	psi_change(&task, 0, cpu_rq(cpu), PSI_TEST_START + 1010);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
}

/* Of the time in which a group is stalled on io, a limit holds a task for @limit ns. */
static void psi_test_limit(struct psi_group *group, int cpu, u64 limit, u64 only)
{
	struct psi_limit_cpu *lc = group->limits->cpus[cpu];

	lc->limit_times[PSI_HELD_AT(PSI_IO_SOME)] += limit;
	lc->only_times[PSI_HELD_AT(PSI_IO_SOME)] += only;
}

static u64 psi_test_class_total(struct psi_group *group, enum psi_kind kind)
{
	struct psi_reading reading;

	psi_read(group, kind, BIT(PSI_IO_SOME), &reading);
	return reading.total[PSI_IO_SOME];
}

/* Before a limit holds anybody all is shortage; then shortage goes on from there. */
static void psi_test_class_begins(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask), i;

	psi_test_use(group, cpu, 1000, 400);
	psi_test_end_window(group);
	psi_test_use(group, cpu, 1000, 100);
	KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_LIMIT), 0);
	KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_SHORTAGE), 500);
	KUNIT_EXPECT_NULL(test, group->limits);

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_LIMIT), 0);
	KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_SHORTAGE), 500);
	psi_test_use(group, cpu, 1000, 300);
	psi_test_limit(group, cpu, 250, 200);
	/* In the window, at its end, and in the next one. */
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_LIMIT), 250);
		KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_SHORTAGE), 600);
		KUNIT_EXPECT_EQ(test, psi_test_io_total(group), 800);
		psi_test_end_window(group);
		/* A reader would not see less than before, whatever this is. */
		KUNIT_EXPECT_EQ(test, group->limits->shortage.total[PSI_IO_SOME], 600);
	}
}

/* To the nanosecond, in each window, whatever is rounded. */
static void psi_test_class_identity(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct rnd_state rnd;
	u64 want = 0, most = 0;
	int cpu, window;

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	prandom_seed_state(&rnd, 4711);
	for (window = 1; window <= 200; window++) {
		u64 products = 0, weights = 0, plain, limit, shortage;

		for_each_possible_cpu(cpu) {
			u32 nonidle = prandom_u32_state(&rnd) >> (prandom_u32_state(&rnd) % 32);
			u32 io = prandom_u32_state(&rnd) % (nonidle + 1);
			u32 held = prandom_u32_state(&rnd) % (io + 1);

			if (prandom_u32_state(&rnd) % 3 == 0)
				continue;
			psi_test_use(group, cpu, nonidle, io);
			psi_test_limit(group, cpu, held, prandom_u32_state(&rnd) % (held + 1));
			products += (u64)nonidle * held;
			weights += nonidle;
		}
		if (weights)
			want += div64_u64(products, weights);
		psi_test_end_window(group);
		plain = group->plain.total[PSI_IO_SOME];
		limit = group->limits->limit.total[PSI_IO_SOME];
		shortage = group->limits->shortage.total[PSI_IO_SOME];
		KUNIT_EXPECT_LE(test, max(limit, shortage), plain);
		KUNIT_EXPECT_LE(test, plain, limit + shortage);
		/* Each CPU rounds by less than 2 ns. */
		most += 2 * num_possible_cpus();
		KUNIT_EXPECT_LE(test, abs_diff(limit, want), most);
	}
}

/* A clock that is ahead: what a limit has more than the group is for the next window. */
static void psi_test_class_clocks(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	psi_test_use(group, cpu, 1000, 300);
	psi_test_limit(group, cpu, 310, 310);
	psi_test_end_window(group);
	KUNIT_EXPECT_EQ(test, group->limits->limit.total[PSI_IO_SOME], 300);
	KUNIT_EXPECT_EQ(test, group->limits->shortage.total[PSI_IO_SOME], 0);
	psi_test_use(group, cpu, 1000, 100);
	psi_test_end_window(group);
	KUNIT_EXPECT_EQ(test, group->limits->limit.total[PSI_IO_SOME], 310);
	KUNIT_EXPECT_EQ(test, group->limits->shortage.total[PSI_IO_SOME], 90);
}

/*
 * A CPU that the fold does not visit for some windows has no more than it had. The system
 * leaves at the end of a window in which it was in use.
 */
static void psi_test_class_unlisted(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask), i;

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	/* Another one has room in the tables, too. */
	psi_test_use(group, cpumask_last(cpu_possible_mask), 0, 0);
	psi_test_use(group, cpu, 1000, 300);
	psi_test_limit(group, cpu, 200, 100);
	psi_test_end_window(group);
	/* The running system may hold the lock of that CPU. */
	for (i = 0; i < 1000 && cpumask_test_cpu(cpu, group->cpumask); i++)
		psi_unlist_idle(group, true);
	KUNIT_ASSERT_FALSE(test, cpumask_test_cpu(cpu, group->cpumask));
	for (i = 0; i < 3; i++) {
		psi_test_end_window(group);
		psi_test_use(group, cpu, 0, 0);
		KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_LIMIT), 200);
		KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_SHORTAGE), 200);
		psi_test_end_window(group);
		KUNIT_EXPECT_EQ(test, group->limits->limit.total[PSI_IO_SOME], 200);
		KUNIT_EXPECT_EQ(test, group->limits->shortage.total[PSI_IO_SOME], 200);
		cpumask_clear_cpu(cpu, group->cpumask);
	}
	psi_test_use(group, cpu, 1000, 300);
	psi_test_limit(group, cpu, 50, 20);
	KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_LIMIT), 250);
	KUNIT_EXPECT_EQ(test, psi_test_class_total(group, PSI_SHORTAGE), 480);
}

/*
 * A task that a limit holds gets in beside one that runs. Nothing else that the group shows
 * changes, but a state begins that a sampler waits for.
 */
static void psi_test_class_alarm(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct psi_watch *watch = psi_test_watch(test, group);
	struct psi_task runs = { .group = group }, held = { .group = group, .mode = PSI_HELD };
	int cpu = cpumask_first(cpu_possible_mask);
	struct rq_flags rf;

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	group->watch[PSI_NORMAL] = watch;
	group->watched[PSI_NORMAL] = BIT(PSI_CPU_SOME);
	watch->alarm.states = BIT(PSI_CPU_SOME);
	/* The monitor is not to come by. */
	atomic_set(&watch->alarm.queued, 1);

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&runs, psi_attrs_for(PSI_RUNS, 0, 0), cpu_rq(cpu), PSI_TEST_START);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	KUNIT_EXPECT_EQ(test, atomic_read(&watch->alarm.begun), 0);

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&held, psi_attrs_for(PSI_QUEUED, 0, PSI_HELD), cpu_rq(cpu), PSI_TEST_START);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	KUNIT_EXPECT_EQ(test, atomic_read(&watch->alarm.begun), BIT(PSI_CPU_SOME));

	rq_lock_irqsave(cpu_rq(cpu), &rf);
	psi_change(&held, 0, cpu_rq(cpu), PSI_TEST_START);
	psi_change(&runs, 0, cpu_rq(cpu), PSI_TEST_START);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	group->watch[PSI_NORMAL] = NULL;
}

/* A CPU joins while the fold is at work, so nothing was prepared for its limits. */
static void psi_test_class_joins(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	u64 since[PSI_NR_STATES] = { [PSI_NONIDLE] = 1000, [PSI_IO_SOME] = 300 };
	struct psi_class_window window = { };
	int cpu = cpumask_first(cpu_possible_mask);

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	psi_test_limit(group, cpu, 200, 200);
	psi_class_fold(group, group->limits, cpu, PSI_ALL_STATES, since, &window);
	/* It weighs what it does in the plain mean, and has no limit yet. */
	KUNIT_EXPECT_EQ(test, window.limit.weight, 1000);
	KUNIT_EXPECT_EQ(test, window.only.weight, 1000);
	KUNIT_EXPECT_EQ(test, window.only.stall[PSI_IO_SOME], 0);
}

/* On the clock of psi_test_class_looks(): a limit holds a task from the first look on. */
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
 * A CPU that joins while the fold is at work has both its stall and its limits, or neither;
 * also one that was away while the group got limits.
 */
static void psi_test_class_looks(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask), known;

	for (known = 0; known <= 1; known++) {
		struct psi_group *group = psi_test_group(test);

		if (known) {
			psi_test_use(group, cpu, 0, 0);
			psi_test_end_window(group);
			cpumask_clear_cpu(cpu, group->cpumask);
		}
		KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
		test->priv = group;
		kunit_activate_static_stub(test, psi_read_clock, psi_test_class_clock);
		psi_test_end_window(group);
		kunit_deactivate_static_stub(test, psi_read_clock);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 300);
		KUNIT_EXPECT_EQ(test, group->limits->limit.total[PSI_IO_SOME], 300);
		KUNIT_EXPECT_EQ(test, group->limits->shortage.total[PSI_IO_SOME], 0);
	}
}

/* A limit holds a task of a group that waits for io first, and then for memory. */
static void psi_test_class_second(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask), i;
	struct psi_limit_cpu *lc;

	psi_test_use(group, cpu, 1000, 300);
	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	psi_test_limit(group, cpu, 200, 100);
	psi_test_end_window(group);
	lc = group->limits->cpus[cpu];
	for (i = 1; i <= 3; i++) {
		psi_test_use(group, cpu, 1000, 100);
		psi_test_limit(group, cpu, 100, 100);
		group->cpus[cpu]->times[PSI_MEM_SOME] += 500;
		lc->limit_times[PSI_HELD_AT(PSI_MEM_SOME)] += 400;
		psi_test_end_window(group);
		KUNIT_EXPECT_EQ(test, group->limits->limit.total[PSI_IO_SOME], 200 + i * 100);
		KUNIT_EXPECT_EQ(test, group->limits->shortage.total[PSI_IO_SOME], 200);
		KUNIT_EXPECT_EQ(test, group->limits->limit.total[PSI_MEM_SOME], i * 400);
		KUNIT_EXPECT_EQ(test, group->limits->shortage.total[PSI_MEM_SOME], i * 500);
	}
}

/* A state for which the fold has no room, for want of memory, waits: nothing counts twice. */
static void psi_test_class_no_room(struct kunit *test)
{
	u64 since[PSI_NR_STATES] = { [PSI_NONIDLE] = 1000, [PSI_IO_SOME] = 300 };
	const unsigned int states = BIT(PSI_NONIDLE) | BIT(PSI_IO_SOME);
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_class_window window = { };

	KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
	psi_test_use(group, cpu, 0, 0);
	KUNIT_ASSERT_TRUE(test, psi_fold_grow(group, group->limits, BIT(PSI_NONIDLE)));
	psi_test_limit(group, cpu, 200, 100);
	KUNIT_EXPECT_FALSE(test, psi_class_fold(group, group->limits, cpu, states, since,
						&window));
	KUNIT_EXPECT_EQ(test, window.limit.stall[PSI_IO_SOME], 0);
	KUNIT_EXPECT_EQ(test, window.only.stall[PSI_IO_SOME], 0);
	KUNIT_EXPECT_EQ(test, window.limit.weight, 1000);

	KUNIT_ASSERT_TRUE(test, psi_fold_grow(group, group->limits, states));
	memset(&window, 0, sizeof(window));
	KUNIT_EXPECT_TRUE(test, psi_class_fold(group, group->limits, cpu, states, since,
					       &window));
	KUNIT_EXPECT_EQ(test, window.limit.stall[PSI_IO_SOME], 200);
	KUNIT_EXPECT_EQ(test, window.only.stall[PSI_IO_SOME], 100);
}

/* Samplers of each class see their own, before and after a fold. */
static void psi_test_class_samplers(struct kunit *test)
{
	static const enum psi_kind kinds[] = { PSI_LIMIT, PSI_SHORTAGE };
	static const u64 want[] = { 600, 500 };
	int cpu = cpumask_first(cpu_possible_mask), i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct psi_group *group = psi_test_group(test);
		struct psi_sampler *sampler;

		sampler = psi_test_sampler(test, psi_test_watch(test, group), kinds[i],
					   PSI_TEST_WINDOW);
		sampler->states = BIT(PSI_IO_SOME);
		psi_test_use(group, cpu, 0, 0);
		psi_sampler_update(sampler, local_clock());
		/* 100 of shortage, 600 of limit, of which 500 only. */
		psi_test_use(group, cpu, 300, 100);
		KUNIT_ASSERT_TRUE(test, psi_limits_alloc(group));
		psi_test_use(group, cpu, 1000, 700);
		psi_test_limit(group, cpu, 400, 300);
		psi_test_end_window(group);
		psi_test_use(group, cpu, 1000, 200);
		psi_test_limit(group, cpu, 200, 200);
		psi_sampler_update(sampler, local_clock());
		KUNIT_EXPECT_EQ(test, sampler->last.total[PSI_IO_SOME], want[i]);
		psi_sampler_free(sampler);
	}
}
