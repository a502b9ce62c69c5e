// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: the fold and samplers, on a group whose times
 * the test writes itself.
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

/* A group was in use on a CPU for @nonidle ns, and stalled on io for @io of these. */
static void psi_test_use(struct psi_group *group, int cpu, u64 nonidle, u64 io)
{
	struct psi_group_cpu *gc = group->cpus[cpu];

	gc->times[PSI_NONIDLE] += nonidle;
	gc->times[PSI_IO_SOME] += io;
	cpumask_set_cpu(cpu, group->cpumask);
}

static u64 psi_test_io_total(struct psi_group *group)
{
	struct psi_reading reading;

	psi_read(group, PSI_PLAIN, BIT(PSI_IO_SOME), &reading);
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

/* Some is no less than full, also where another reader has shown more of full meanwhile. */
static void psi_test_fold_some_and_full(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	struct psi_reading reading;

	psi_test_use(group, cpumask_first(cpu_possible_mask), 1000, 500);
	atomic64_set(&group->plain.shown[PSI_IO_FULL], 700);
	psi_read(group, PSI_PLAIN, BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL), &reading);
	KUNIT_EXPECT_EQ(test, reading.total[PSI_IO_FULL], 700);
	KUNIT_EXPECT_EQ(test, reading.total[PSI_IO_SOME], 700);
}

/* Clocks of CPUs differ a little: a stall may be seen before the time in use is. */
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

/* A group that was idle on a CPU for a window leaves the list there, and not before. */
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
 * Where threads share the list of the fold, a window ends in each group once, and the list
 * stays as it is. The twin of each group is folded by one thread: the two have the same totals.
 */
#define PSI_TEST_SHARED		150
#define PSI_TEST_HELPERS	3

struct psi_test_share {
	struct psi_folder folder;
	struct psi_group *group[PSI_TEST_SHARED];
	struct psi_group *twin[PSI_TEST_SHARED];
};

static void psi_test_share_init(struct kunit *test, struct psi_test_share *share)
{
	struct psi_folder *folder = &share->folder;
	int i;

	INIT_LIST_HEAD(&folder->groups);
	spin_lock_init(&folder->lock);
	folder->next = &folder->groups;
	init_waitqueue_head(&folder->ask);
	init_waitqueue_head(&folder->done);
	for (i = 0; i < PSI_TEST_SHARED; i++) {
		share->group[i] = psi_test_group(test);
		share->twin[i] = psi_test_group(test);
		list_add_tail(&share->group[i]->active, &folder->groups);
	}
}

/* What both groups of a pair do in a window. */
static void psi_test_share_use(struct psi_test_share *share, struct rnd_state *rnd)
{
	int i, cpu;

	for (i = 0; i < PSI_TEST_SHARED; i++) {
		for_each_online_cpu(cpu) {
			u32 nonidle = 1 + prandom_u32_state(rnd) % (1 << 20);
			u32 io = prandom_u32_state(rnd) % nonidle;

			psi_test_use(share->group[i], cpu, nonidle, io);
			psi_test_use(share->twin[i], cpu, nonidle, io);
		}
	}
}

/* Whether @window windows ended in each group, and in each twin after that, with the same. */
static bool psi_test_share_folded(struct kunit *test, struct psi_test_share *share,
				  unsigned int window)
{
	struct psi_group *group;
	int i = 0;

	list_for_each_entry(group, &share->folder.groups, active) {
		struct psi_group *twin = share->twin[i];
		unsigned int folds = READ_ONCE(group->folds);

		if (group != share->group[i] || folds != window) {
			KUNIT_FAIL(test, "window %u, group %d: %u windows ended", window, i, folds);
			return false;
		}
		psi_test_end_window(twin);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME],
				twin->plain.total[PSI_IO_SOME]);
		i++;
	}
	KUNIT_EXPECT_EQ(test, i, PSI_TEST_SHARED);
	return i == PSI_TEST_SHARED;
}

static void psi_test_fold_shared(struct kunit *test)
{
	struct psi_test_share *share = kunit_kzalloc(test, sizeof(*share), GFP_KERNEL);
	struct task_struct *helper[PSI_TEST_HELPERS];
	struct rnd_state rnd;
	u64 helped = 0;
	int i, window;

	KUNIT_ASSERT_NOT_NULL(test, share);
	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	psi_test_share_init(test, share);
	for (i = 0; i < PSI_TEST_HELPERS; i++) {
		helper[i] = kthread_create(psi_helper_run, &share->folder, "psi_test_fold");
		KUNIT_ASSERT_FALSE(test, IS_ERR(helper[i]));
		get_task_struct(helper[i]);
		wake_up_process(helper[i]);
	}
	prandom_seed_state(&rnd, 4711);
	for (window = 1; window <= 200; window++) {
		psi_test_share_use(share, &rnd);
		share->folder.worker.began = local_clock();
		psi_fold_together(&share->folder, share->folder.groups.next, PSI_TEST_HELPERS);
		if (!psi_test_share_folded(test, share, window))
			break;
	}
	for (i = 0; i < PSI_TEST_HELPERS; i++) {
		helped += helper[i]->nvcsw + helper[i]->nivcsw;
		kthread_stop_put(helper[i]);
	}
	KUNIT_EXPECT_GT(test, helped, PSI_TEST_HELPERS);
	KUNIT_EXPECT_EQ(test, share->folder.busy, 0);
	KUNIT_EXPECT_FALSE(test, psi_fold_left(&share->folder));
}

/* Helpers are wanted for the time that the last fold took, but not more than there are CPUs. */
static void psi_test_helpers_wanted(struct kunit *test)
{
	unsigned int cpus = cpumask_weight_and(&psi_worker_cpus, cpu_online_mask), n;
	struct psi_folder *folder = kunit_kzalloc(test, sizeof(*folder), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, folder);
	/* Each fold is shared, or PSI is off. */
	if (!PSI_FOLD_NS || !cpus)
		return;
	folder->took = PSI_FOLD_NS - 1;
	KUNIT_EXPECT_EQ(test, psi_helpers_wanted(folder), 0);
	for (n = 1; n < 100; n++) {
		folder->took = n * PSI_FOLD_NS;
		KUNIT_EXPECT_EQ(test, psi_helpers_wanted(folder), min3(n, cpus - 1, PSI_HELPERS));
	}
}

/* Whether a slot of an entry has what psi_test_seen_put() put there, for @states of these. */
static bool psi_test_seen_has(struct psi_seen *seen, struct psi_seen_cpu *entry,
			      unsigned int states)
{
	u64 *words = psi_seen_slot(seen, entry, 1);
	struct psi_slot slot = psi_seen_get(seen, words);
	int s;

	psi_for_each_state(s, states) {
		if (slot.times[s] != entry->cpu * 10 + s)
			return false;
	}
	psi_for_each_state(s, seen->states) {
		if (*psi_seen_time(seen, words, s) != slot.times[s])
			return false;
	}
	return *psi_seen_weight(seen, words) == entry->cpu + 1;
}

static void psi_test_seen_put(struct psi_seen *seen, struct psi_seen_cpu *entry)
{
	struct psi_slot slot = { .weight = entry->cpu + 1 };
	int s;

	for (s = 0; s < PSI_NR_STATES; s++)
		slot.times[s] = entry->cpu * 10 + s;
	psi_seen_put(seen, psi_seen_slot(seen, entry, 1), &slot);
}

/*
 * The table has an entry for each CPU that was ever in use, with each state that ever was
 * wanted, and keeps what is in them.
 */
static void psi_test_seen(struct kunit *test)
{
	struct psi_seen none = { .slots = 2, .weighed = true }, *seen = &none, *grown;
	struct psi_group *group = psi_test_group(test);
	unsigned int at, i, had, wanted = 0;
	struct psi_seen_cpu *entry;
	int cpu, round;

	for (round = 0; round < 100; round++) {
		cpumask_clear(group->cpumask);
		for (i = 0; i < (round < 99 ? 3 : nr_cpu_ids); i++)
			cpumask_set_cpu(round < 99 ? get_random_u32_below(nr_cpu_ids) : i,
					group->cpumask);
		had = wanted;
		wanted |= BIT(get_random_u32_below(PSI_NR_STATES));
		grown = psi_seen_grow(seen, group->cpumask, wanted);
		KUNIT_ASSERT_NOT_NULL(test, grown);
		KUNIT_EXPECT_EQ(test, grown->states, wanted);
		if (grown != seen && seen != &none)
			kvfree(seen);
		seen = grown;
		at = 0;
		psi_for_each_cpu(cpu, group) {
			entry = psi_seen_find(seen, &at, cpu);
			KUNIT_ASSERT_NOT_NULL(test, entry);
			KUNIT_ASSERT_EQ(test, entry->cpu, cpu);
			if (!*psi_seen_weight(seen, psi_seen_slot(seen, entry, 1)))
				psi_test_seen_put(seen, entry);
		}
		for (i = 0; i < seen->nr; i++) {
			entry = psi_seen_at(seen, i);
			KUNIT_EXPECT_TRUE(test, psi_test_seen_has(seen, entry, had));
			psi_test_seen_put(seen, entry);
			if (i)
				KUNIT_EXPECT_GT(test, entry->cpu, psi_seen_at(seen, i - 1)->cpu);
		}
		KUNIT_EXPECT_LE(test, seen->nr, nr_cpu_ids);
	}
	KUNIT_EXPECT_EQ(test, seen->nr, nr_cpu_ids);
	kvfree(seen);
}

/*
 * A group that has been folded stalls on a second resource, itself or a group that stands for
 * it: the window has that, and the table has room for it from then on.
 */
static void psi_test_fold_states(struct kunit *test)
{
	int cpu = cpumask_first(cpu_possible_mask), delegates;

	for (delegates = 0; delegates <= 1; delegates++) {
		struct psi_group *group = psi_test_group(test), *child = psi_test_group(test);
		struct psi_group_cpu *gc = group->cpus[cpu];
		unsigned int states = PSI_SCHED_STATES | BIT(PSI_IO_SOME);
		struct psi_seen *seen;

		if (delegates) {
			gc->delegate = child->cpus[cpu];
			gc = gc->delegate;
		}
		gc->times[PSI_NONIDLE] = 1000;
		gc->times[PSI_IO_SOME] = 300;
		cpumask_set_cpu(cpu, group->cpumask);
		psi_test_end_window(group);
		seen = rcu_dereference_protected(group->seen, true);
		KUNIT_EXPECT_EQ(test, seen->states, states);

		gc->times[PSI_NONIDLE] += 1000;
		gc->times[PSI_IO_SOME] += 100;
		gc->times[PSI_MEM_SOME] += 200;
		psi_test_end_window(group);
		seen = rcu_dereference_protected(group->seen, true);
		KUNIT_EXPECT_EQ(test, seen->states, states | BIT(PSI_MEM_SOME));
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 400);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_MEM_SOME], 200);

		gc->times[PSI_NONIDLE] += 1000;
		gc->times[PSI_MEM_SOME] += 50;
		psi_test_end_window(group);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_IO_SOME], 400);
		KUNIT_EXPECT_EQ(test, group->plain.total[PSI_MEM_SOME], 250);
		group->cpus[cpu]->delegate = NULL;
	}
}

/* The clock after a look that took long: meanwhile the group stalled for 100 ns more. */
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
	INIT_LIST_HEAD(&watch->unaware);
	timerqueue_init_head(&watch->due);
	return watch;
}

static struct psi_sampler *psi_test_sampler(struct kunit *test, struct psi_watch *watch,
					    enum psi_kind kind, u64 window)
{
	struct psi_sampler *sampler = psi_sampler_alloc(watch, kind, window);

	KUNIT_ASSERT_NOT_NULL(test, sampler);
	list_add(&sampler->node, &watch->samplers);
	return sampler;
}

/*
 * A sampler rests while the group is in use on a second CPU, and stalls there in a state
 * that no trigger waits for. Then one does: that stall does not count.
 */
static void psi_test_sampler_new_state(struct kunit *test)
{
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler;
	struct psi_sample bound;

	psi_test_use(group, one, 1000, 0);
	sampler = psi_test_sampler(test, psi_test_watch(test, group), PSI_PLAIN,
				   PSI_TEST_WINDOW);
	KUNIT_ASSERT_TRUE(test, psi_sampler_cover_all(sampler, BIT(PSI_CPU_SOME)));
	sampler->states = BIT(PSI_CPU_SOME);
	psi_sampler_begin(sampler, PSI_CPU_SOME);

	psi_test_use(group, two, 5000, 5000);
	psi_test_end_window(group);
	psi_test_end_window(group);
	/* As when the fold took the CPU off its list. */
	cpumask_clear_cpu(two, group->cpumask);

	KUNIT_ASSERT_TRUE(test, psi_sampler_cover_all(sampler, BIT(PSI_IO_SOME)));
	sampler->states |= BIT(PSI_IO_SOME);
	psi_sampler_begin(sampler, PSI_IO_SOME);
	psi_sampler_bound(sampler, &bound);
	KUNIT_EXPECT_EQ(test, bound.total[PSI_IO_SOME], 0);
	psi_test_use(group, two, 100, 100);
	psi_sampler_update(sampler, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, sampler->last.total[PSI_IO_SOME], 100);
	psi_sampler_free(sampler);
}

/* For many steps there was no memory to look at a CPU: what it stalled is of no step. */
static void psi_test_sampler_late_memory(struct kunit *test)
{
	int one = cpumask_first(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler;

	sampler = psi_test_sampler(test, psi_test_watch(test, group), PSI_PLAIN,
				   PSI_TEST_WINDOW);
	sampler->states = BIT(PSI_IO_SOME);
	sampler->missing = true;
	psi_test_use(group, one, 5000, 5000);
	psi_sampler_update(sampler, PSI_TEST_START);
	KUNIT_EXPECT_FALSE(test, sampler->missing);
	KUNIT_EXPECT_EQ(test, sampler->last.total[PSI_IO_SOME], 0);
	psi_test_use(group, one, 100, 100);
	psi_sampler_update(sampler, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, sampler->last.total[PSI_IO_SOME], 100);
	psi_sampler_free(sampler);
}

/* One CPU stalls before the fold comes by, another one after it: the step will have both. */
static void psi_test_sampler_bound(struct kunit *test)
{
	int one = cpumask_first(cpu_possible_mask), two = cpumask_last(cpu_possible_mask);
	struct psi_group *group = psi_test_group(test);
	struct psi_sampler *sampler;
	struct psi_sample bound;

	sampler = psi_test_sampler(test, psi_test_watch(test, group), PSI_PLAIN,
				   PSI_TEST_WINDOW);
	sampler->states = BIT(PSI_IO_SOME);
	psi_test_use(group, one, 200, 200);
	psi_test_end_window(group);
	psi_test_use(group, one, 0, 0);
	psi_test_use(group, two, 400, 400);
	psi_sampler_bound(sampler, &bound);
	psi_sampler_update(sampler, PSI_TEST_START);
	KUNIT_EXPECT_EQ(test, sampler->last.total[PSI_IO_SOME], 600);
	KUNIT_EXPECT_GE(test, bound.total[PSI_IO_SOME], sampler->last.total[PSI_IO_SOME]);
	psi_sampler_free(sampler);
}

/* A CPU that was idle in the last window weighs nothing there, however long the rest was. */
static void psi_test_sampler_long_rest(struct kunit *test)
{
	const u64 hour = 3600ULL * NSEC_PER_SEC;
	u64 seen[2][PSI_NR_STATES] = { }, times[2][PSI_NR_STATES] = { };
	struct psi_slot folded[2] = { };
	struct psi_step step = { };

	/* CPU 0 stalls for 80 ns up to the fold; CPU 1 was busy for an hour before. */
	folded[0].weight = 1000;
	folded[0].times[PSI_NONIDLE] = 1000;
	folded[0].times[PSI_IO_SOME] = 80;
	memcpy(times[0], folded[0].times, sizeof(times[0]));
	folded[1].times[PSI_NONIDLE] = hour;
	memcpy(times[1], folded[1].times, sizeof(times[1]));
	psi_step_add(&step, seen[0], &folded[0], times[0], BIT(PSI_IO_SOME));
	psi_step_add(&step, seen[1], &folded[1], times[1], BIT(PSI_IO_SOME));
	KUNIT_EXPECT_EQ(test, step.before.stall[PSI_IO_SOME], 80);
	KUNIT_EXPECT_EQ(test, step.after.stall[PSI_IO_SOME], 0);
}
