// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: the fold and samplers, on a group
 * whose times the test writes itself.
 */

static void psi_test_group_exit(void *data)
{
	psi_test_group_free(data);
}

static struct psi_group *psi_test_group(struct kunit *test)
{
	struct psi_group *group = kunit_kzalloc(test, sizeof(*group), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, group);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, psi_test_group_exit, group), 0);
	KUNIT_ASSERT_TRUE(test, psi_test_group_init(group, NULL, 0));
	KUNIT_ASSERT_TRUE(test, psi_test_group_extend(group));
	return group;
}

static void psi_test_end_window(struct psi_group *group)
{
	psi_fold_group(group, psi_read_clock());
}

/*
 * A group was in use on a CPU for @nonidle ns, and stalled on io for @io of
 * these.
 */
static void psi_test_use(struct psi_group *group, int cpu, u64 nonidle, u64 io)
{
	struct psi_group_cpu *gc = group->cpus[cpu];

	if (!cpumask_test_and_set_cpu(cpu, group->cpumask) && rcu_access_pointer(group->asked))
		psi_asked_listed(gc, cpu, 0);
	gc->times[PSI_NONIDLE] += nonidle;
	gc->times[PSI_IO_SOME] += io;
}

static u64 psi_test_io_total(struct psi_group *group)
{
	struct psi_account reading;

	psi_read(group, 1, BIT(PSI_IO_SOME), &reading);
	return reading.total[PSI_IO_SOME];
}

/* A reader sees the same right before and right after the end of a window. */
static void psi_test_fold(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask), i;
	u64 before;

	for (i = 1; i <= 5; i++) {
		psi_test_use(group, cpu, 3000 * i, 1000 * i);
		before = psi_test_io_total(group);
		psi_test_end_window(group);
		KUNIT_EXPECT_EQ(test, before, 500 * i * (i + 1));
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], before);
		KUNIT_EXPECT_EQ(test, psi_test_io_total(group), before);
	}
}

/*
 * Some is no less than full, also where another reader has shown more of full
 * meanwhile.
 */
static void psi_test_fold_some_and_full(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct psi_account reading;

	psi_test_use(group, cpumask_first(cpu_possible_mask), 1000, 500);
	atomic64_set(&group->plain.shown[PSI_IO_FULL], 700);
	psi_read(group, 1, BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL), &reading);
	KUNIT_EXPECT_EQ(test, reading.total[PSI_IO_FULL], 700);
	KUNIT_EXPECT_EQ(test, reading.total[PSI_IO_SOME], 700);
}

/*
 * Clocks of CPUs differ a little: a stall may be seen before the time in use
 * is.
 */
static void psi_test_fold_without_weight(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);

	psi_test_use(group, cpu, 1000, 0);
	psi_test_end_window(group);
	psi_test_use(group, cpu, 0, 700);
	psi_test_end_window(group);
	KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 0);
	psi_test_use(group, cpu, 1000, 0);
	psi_test_end_window(group);
	KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 700);
}

/*
 * A CPU that was at work since the window ended stays on the list. The running
 * system may hold its lock: then it stays, too.
 */
static void psi_test_fold_at_work(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask), i;
	struct psi_group_cpu *gc = group->cpus[cpu];

	psi_test_use(group, cpu, 1000, 400);
	psi_test_end_window(group);
	psi_test_use(group, cpu, 1, 1);
	for (i = 0; i < 10; i++)
		psi_unlist(group, NULL, cpu);
	KUNIT_EXPECT_TRUE(test, psi_listed(gc, cpu));
	psi_test_end_window(group);
	for (i = 0; i < 1000 && psi_listed(gc, cpu); i++)
		psi_unlist(group, NULL, cpu);
	KUNIT_EXPECT_FALSE(test, psi_listed(gc, cpu));
	KUNIT_EXPECT_EQ(test, psi_test_io_total(group), 401);
}

/*
 * A group that was idle on a CPU for a window leaves the list there, and not
 * before.
 */
static void psi_test_fold_idle(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask), i;

	for (i = 0; i < 3; i++) {
		psi_test_use(group, cpu, 1000, 0);
		psi_test_end_window(group);
		KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(cpu, group->cpumask));
	}
	/* Somebody may have locked the runqueue. */
	for (i = 0; i < 1000 && cpumask_test_cpu(cpu, group->cpumask); i++)
		psi_test_end_window(group);
	KUNIT_EXPECT_FALSE(test, cpumask_test_cpu(cpu, group->cpumask));
}

/* Each window has the weights of that window, by the definition. */
static void psi_test_fold_weights(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct rnd_state rnd;
	u64 want = 0, most = 0;
	int cpu, window;

	prandom_seed_state(&rnd, 4711);
	for (window = 1; window <= 50; window++) {
		u64 products = 0, weights = 0;

		for_each_possible_cpu(cpu) {
			u32 nonidle = prandom_u32_state(&rnd) % (1 << 20);
			u32 io = prandom_u32_state(&rnd) % (nonidle + 1);

			/* A third of the CPUs is idle. */
			if (prandom_u32_state(&rnd) % 3 == 0)
				continue;
			psi_test_use(group, cpu, nonidle, io);
			products += (u64)nonidle * io;
			weights += nonidle;
		}
		if (weights)
			want += div64_u64(products, weights);
		psi_test_end_window(group);
		/* Each CPU rounds by less than 2 ns. */
		most += 2 * num_possible_cpus();
		KUNIT_EXPECT_LE(test, abs_diff(group->plain.total[PSI_IO_SOME], want), most);
	}
}

/*
 * A group that has been folded stalls on a second resource, itself or a group
 * that stands for it: the window has that.
 */
static void psi_test_fold_states(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask), delegates;

	for (delegates = 0; delegates <= 1; delegates++) {
		struct psi_group *group = psi_test_group(test), *child = psi_test_group(test);
		struct psi_group_cpu *gc = group->cpus[cpu];

		if (delegates) {
			gc->last = child->cpus[cpu];
			gc->streak = PSI_DELEGATES;
			gc = gc->last;
		}
		gc->times[PSI_NONIDLE] = 1000;
		gc->times[PSI_IO_SOME] = 300;
		cpumask_set_cpu(cpu, group->cpumask);
		psi_test_end_window(group);

		gc->times[PSI_NONIDLE] += 1000;
		gc->times[PSI_IO_SOME] += 100;
		gc->times[PSI_MEM_SOME] += 200;
		psi_test_end_window(group);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 400);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_MEM_SOME], 200);

		gc->times[PSI_NONIDLE] += 1000;
		gc->times[PSI_MEM_SOME] += 50;
		psi_test_end_window(group);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 400);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_MEM_SOME], 250);
		group->cpus[cpu]->streak = PSI_STREAK;
	}
}

/*
 * Where a CPU leaves the list and comes back, no stall is lost and none counts
 * twice.
 */
static void psi_test_fold_comes_back(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask), i, round;
	struct psi_group *group = psi_test_group(test);
	struct psi_group_cpu *gc = group->cpus[cpu];

	for (round = 1; round <= 4; round++) {
		psi_test_use(group, cpu, 1000, 300);
		KUNIT_EXPECT_EQ(test, psi_test_io_total(group), 300 * round);
		/* Somebody may have locked the runqueue. */
		for (i = 0; i < 1000 && cpumask_test_cpu(cpu, group->cpumask); i++) {
			psi_test_end_window(group);
			KUNIT_EXPECT_EQ(test, psi_test_io_total(group), 300 * round);
		}
		KUNIT_EXPECT_FALSE(test, cpumask_test_cpu(cpu, group->cpumask));
		KUNIT_EXPECT_MEMEQ(test, gc->slots[0], gc->slots[1], sizeof(gc->slots[0]));
		/* The slots change their parts meanwhile. */
		for (i = 0; i < round; i++)
			psi_test_end_window(group);
	}
	KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 1200);
}

/*
 * The clock after a look that took long: meanwhile the group stalled for 100 ns
 * more.
 */
static u64 psi_test_fold_late_clock(void)
{
	struct psi_group *group = kunit_get_current_test()->priv;
	int cpu = cpumask_first(cpu_possible_mask);

	if (group->cpus[cpu]->times[PSI_IO_SOME] == 300)
		psi_test_use(group, cpu, 100, 100);
	return PSI_TEST_START + 2 * PSI_SAMPLE_NS;
}

/* A fold that was held up looks again, and says what the clock said then. */
static void psi_test_fold_late(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	u64 now;

	psi_test_use(group, cpumask_first(cpu_possible_mask), 1000, 300);
	psi_test_end_window(group);
	psi_test_use(group, cpumask_first(cpu_possible_mask), 1000, 0);
	test->priv = group;
	kunit_activate_static_stub(test, psi_read_clock, psi_test_fold_late_clock);
	now = psi_fold_group(group, PSI_TEST_START);
	kunit_deactivate_static_stub(test, psi_read_clock);
	KUNIT_EXPECT_EQ(test, now, PSI_TEST_START + 2 * PSI_SAMPLE_NS);
	KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 400);
}

/* A watch of a group that no file has, so that no monitor knows it. */
static struct psi_watch *psi_test_watch(struct kunit *test, struct psi_group *group)
{
	struct psi_watch *watch = kunit_kzalloc(test, sizeof(*watch), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, watch);
	watch->group = group;
	mutex_init(&watch->lock);
	INIT_LIST_HEAD(&watch->samplers);
	timerqueue_init_head(&watch->due);
	return watch;
}

static struct psi_sampler *psi_test_sampler(struct kunit *test, struct psi_watch *watch,
					    enum psi_kind kind, enum psi_state state, u64 window)
{
	struct psi_sampler *sampler = psi_sampler_alloc(watch, kind, state, window);

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	list_add(&sampler->node, &watch->samplers);
	/* Not psi_group.watched: groups are to delegate. */
	watch->waiting[state]++;
	return sampler;
}

static struct psi_sampler *psi_test_io_sampler(struct kunit *test, struct psi_group *group,
					       enum psi_kind kind)
{
	return psi_test_sampler(test, psi_test_watch(test, group), kind, PSI_IO_SOME,
				PSI_TEST_WINDOW);
}

/* A clock that the test sets. */
static u64 psi_test_set_clock(void)
{
	return *(u64 *)kunit_get_current_test()->priv;
}

static void psi_test_clock_is(struct kunit *test, u64 *now)
{
	test->priv = now;
	kunit_activate_static_stub(test, psi_read_clock, psi_test_set_clock);
}

/*
 * What was before a sampler begins does not count, also on CPUs that left the
 * list.
 */
static void psi_test_sampler_begins(struct kunit *test)
{
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler = psi_test_io_sampler(test, group, PSI_PLAIN);
	struct psi_sample bound;

	psi_test_use(group, one, 1000, 0);
	psi_test_use(group, two, 5000, 5000);
	psi_test_end_window(group);
	psi_test_end_window(group);
	/* As when the fold took the CPU off its list. */
	cpumask_clear_cpu(two, group->cpumask);

	psi_sampler_begin(sampler);
	psi_sampler_bound(sampler, &bound);
	KUNIT_EXPECT_EQ(test, bound.total, 0);
	psi_test_use(group, two, 100, 100);
	psi_sampler_update(sampler, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, sampler->last.total, 100);
	psi_sampler_free(sampler);
}

/*
 * A trigger that finds a sampler at work counts nothing of before, and what
 * comes is left to the sampler.
 */
static void psi_test_sampler_joined(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler = psi_test_io_sampler(test, group, PSI_PLAIN);
	struct psi_trigger t = { .threshold = NSEC_PER_USEC };
	u64 now = PSI_TEST_START;

	psi_test_clock_is(test, &now);
	psi_sampler_begin(sampler);
	psi_test_use(group, cpu, 200, 200);
	now += 1000;

	t.sampler = psi_sampler_alloc(sampler->watch, PSI_PLAIN, PSI_IO_SOME, PSI_TEST_WINDOW);
	KUNIT_ASSERT_NOT_NULL(test, t.sampler);
	psi_trigger_arm(&t);
	KUNIT_EXPECT_PTR_EQ(test, t.sampler, sampler);
	KUNIT_EXPECT_EQ(test, sampler->users, 1);
	KUNIT_EXPECT_EQ(test, sampler->watch->waiting[PSI_IO_SOME], 1);
	KUNIT_EXPECT_EQ(test, t.base.at, now);
	KUNIT_EXPECT_EQ(test, t.base.total, 200);

	psi_test_use(group, cpu, 100, 100);
	now += 500;
	psi_sampler_update(sampler, now);
	KUNIT_EXPECT_EQ(test, sampler->last.total, 300);
	list_del(&t.node);
	psi_sampler_free(psi_sampler_put(sampler));
}

/*
 * A trigger is armed while an alarm about another state waits for the monitor:
 * its sampler begins when it was armed, not when that state began. When it is
 * disarmed, nobody waits for the state any more.
 */
static void psi_test_armed_beside_alarm(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct psi_watch *watch = psi_test_watch(test, group);
	u64 now = PSI_TEST_START;
	struct psi_trigger t = {
		.sampler = psi_sampler_alloc(watch, PSI_PLAIN, PSI_IO_SOME, PSI_TEST_WINDOW),
		.threshold = NSEC_PER_USEC,
	};

	KUNIT_ASSERT_NOT_NULL(test, t.sampler);
	psi_test_clock_is(test, &now);
	watch->alarm_since = now + NSEC_PER_SEC;
	atomic_set(&watch->alarm_begun, BIT(PSI_MEM_FULL));
	psi_trigger_arm(&t);
	KUNIT_EXPECT_EQ(test, t.sampler->since, now);
	KUNIT_EXPECT_EQ(test, t.sampler->due.expires, 0);
	KUNIT_EXPECT_TRUE(test, watch->at_work);
	KUNIT_EXPECT_EQ(test, group->watched[PSI_NORMAL], BIT(PSI_IO_SOME));

	list_del(&t.node);
	psi_sampler_free(psi_sampler_put(t.sampler));
	KUNIT_EXPECT_EQ(test, group->watched[PSI_NORMAL], 0);
	KUNIT_EXPECT_FALSE(test, watch->at_work);
}

/* A group gets a cell on a CPU while a sampler is at work. */
static void psi_test_sampler_new_cpu(struct kunit *test)
{
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler = psi_test_io_sampler(test, group, PSI_PLAIN);
	struct psi_group_cpu *gc = group->cpus[two];

	group->cpus[two] = NULL;
	psi_sampler_begin(sampler);
	psi_sampler_skip(sampler, psi_read_clock());
	if (one != two)
		psi_test_use(group, one, 300, 0);
	group->cpus[two] = gc;
	psi_test_use(group, two, 300, 300);
	psi_sampler_update(sampler, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, sampler->last.total, one != two ? 150 : 300);
	psi_sampler_free(sampler);
}

/* Its delay makes the first sample after a rest late, and makes it so once. */
static void psi_test_sampler_delayed(struct kunit *test)
{
	struct psi_sampler *sampler = psi_test_io_sampler(test, psi_test_group(test), PSI_PLAIN);
	u64 step = div_u64(sampler->window, PSI_STEPS), since = psi_read_clock() - 2 * step;

	sampler->delay = step;
	psi_sampler_begin(sampler);
	sampler->since = since;
	psi_sampler_resume(sampler);
	KUNIT_EXPECT_GT(test, sampler->due.expires, since + step);
	KUNIT_EXPECT_LE(test, sampler->due.expires, since + 2 * step);
	psi_sampler_queue(sampler, PSI_NEVER);
	psi_sampler_free(sampler);
}

/* A group that was switched off in a rest is on in the step after it. */
static void psi_test_sampler_switched(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler = psi_test_io_sampler(test, group, PSI_PLAIN);

	psi_sampler_begin(sampler);
	psi_switch(group, false);
	psi_switch(group, true);
	sampler->since = psi_read_clock();
	psi_sampler_resume(sampler);
	psi_test_use(group, cpu, 300, 300);
	psi_sampler_update(sampler, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, sampler->last.total, 300);
	/* In that step it was off. */
	psi_switch(group, false);
	psi_switch(group, true);
	psi_test_use(group, cpu, 300, 300);
	psi_sampler_update(sampler, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, sampler->last.total, 300);
	psi_sampler_queue(sampler, PSI_NEVER);
	psi_sampler_free(sampler);
}

/* It makes no difference to a sampler when in a step the fold comes by. */
static void psi_test_sampler_fold(struct kunit *test)
{
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask), part;

	for (part = 0; part < 3; part++) {
		struct psi_group *group = psi_test_group(test);
		struct psi_sampler *sampler = psi_test_io_sampler(test, group, PSI_PLAIN);

		psi_test_use(group, one, 200, 200);
		if (part == 1)
			psi_test_end_window(group);
		psi_test_use(group, two, 400, 100);
		if (part == 2)
			psi_test_end_window(group);
		psi_sampler_update(sampler, PSI_TEST_START);
		/*
		 * (200 * 200 + 100 * 400) / 600, and each CPU rounds by less
		 * than 2 ns
		 */
		if (one != two) {
			KUNIT_EXPECT_LE(test, sampler->last.total, 133);
			KUNIT_EXPECT_GE(test, sampler->last.total, 130);
		} else {
			KUNIT_EXPECT_EQ(test, sampler->last.total, 300);
		}
		psi_sampler_free(sampler);
	}
}

/*
 * Whatever weights are to come, a step has no more than the bound in the middle
 * of it.
 */
static void psi_test_sampler_bound(struct kunit *test)
{
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler = psi_test_io_sampler(test, group, PSI_PLAIN);
	u64 now = PSI_TEST_START;
	struct psi_sample bound;

	psi_test_clock_is(test, &now);
	psi_test_use(group, one, 200, 200);
	psi_test_use(group, two, 400, 400);
	psi_sampler_bound(sampler, &bound);
	KUNIT_EXPECT_EQ(test, bound.at, now);
	KUNIT_EXPECT_EQ(test, bound.total, 600);
	/* Nothing changes by that. */
	KUNIT_EXPECT_EQ(test, sampler->last.total, 0);
	psi_sampler_update(sampler, now);
	KUNIT_EXPECT_LE(test, sampler->last.total, bound.total);
	KUNIT_EXPECT_GE(test, sampler->last.total, 330);

	/* No more than the time that passed. */
	psi_test_use(group, one, 200, 200);
	psi_test_use(group, two, 400, 400);
	now += 250;
	psi_sampler_bound(sampler, &bound);
	KUNIT_EXPECT_EQ(test, bound.total, sampler->last.total + 250);
	psi_sampler_free(sampler);
}

/*
 * A sampler rests for long while the group is in use on two CPUs. When it
 * resumes, that does not outweigh the stall, whether the alarm is answered at
 * once or late.
 */
static void psi_test_sampler_rest(struct kunit *test)
{
	const u64 hour = 3600ULL * NSEC_PER_SEC, second = NSEC_PER_SEC;
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask);
	enum psi_kind kind;
	u64 late;

	for (kind = PSI_PLAIN; kind <= PSI_EXACT; kind++) {
		for (late = 0; late <= second; late += second / 2) {
			struct psi_group *group = psi_test_group(test);
			u64 begin = PSI_TEST_START + hour, now = begin + late, want;
			struct psi_sampler *sampler;
			struct psi_asked *asked;

			psi_test_clock_is(test, &now);
			asked = psi_test_ask(group, PSI_TEST_START);
			KUNIT_ASSERT_NOT_NULL(test, asked);
			sampler = psi_test_io_sampler(test, group, kind);
			psi_union_count(asked, NULL, true, PSI_TEST_START);
			/* Which CPU worked before does not matter. */
			psi_test_use(group, one, hour, 0);
			/*
			 * From the alarm on, one stalls while the other works.
			 */
			psi_test_use(group, one, late, late);
			psi_test_use(group, two, late, 0);
			sampler->since = begin;
			psi_sampler_resume(sampler);
			psi_test_use(group, one, 2 * second - late, 2 * second - late);
			psi_test_use(group, two, 2 * second - late, 0);
			now = begin + 2 * second;
			psi_sampler_update(sampler, now);
			/*
			 * On one CPU, the test has both there: that is no less.
			 */
			want = second;
			if (one != two)
				KUNIT_EXPECT_LE(test, sampler->last.total, want + 10);
			KUNIT_EXPECT_GE(test, sampler->last.total, want - 10);
			psi_sampler_queue(sampler, PSI_NEVER);
			psi_sampler_free(sampler);
			kunit_deactivate_static_stub(test, psi_read_clock);
		}
	}
}
