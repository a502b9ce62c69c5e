// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information: the causes of memory stalls
 */
#ifdef CONFIG_PSI_CAUSES

static u64 psi_test_cause_count(const struct psi_stalls *cell)
{
	u64 count = 0;
	int i;

	for (i = 0; i < PSI_CAUSE_BUCKETS; i++)
		count += atomic64_read(&cell->hist[i]);
	return count;
}

/*
 * How often tasks of the system stalled because of @cause. Nothing but tests
 * has some causes.
 */
static u64 psi_test_causes(enum psi_cause cause)
{
	return psi_test_cause_count(&psi_system.causes[cause]);
}

static const struct psi_test_cause_length {
	const char *desc;
	u64 ns;
	unsigned int bucket;
} psi_test_cause_lengths[] = {
	{ "no time is in the first bucket", 0, 0 },
	{ "999 ns are in the first bucket", 999, 0 },
	{ "1 us is in the first bucket", 1000, 0 },
	{ "1.999 us are in the first bucket", 1999, 0 },
	{ "2 us are in the second one", 2000, 1 },
	{ "3.999 us are in the second one", 3999, 1 },
	{ "4 us are in the third one", 4000, 2 },
	{ "1 ms is in that of 512 us", NSEC_PER_MSEC, 9 },
	{ "1 ms and 24 us are in the next one", 1024 * NSEC_PER_USEC, 10 },
	{ "1 s is in the last but one", NSEC_PER_SEC, 19 },
	{ "2^20 us are in the last one", (1ULL << 20) * NSEC_PER_USEC, 20 },
	{ "a minute is in the last one", 60ULL * NSEC_PER_SEC, 20 },
	{ "so are 500 years", S64_MAX, 20 },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_cause_lengths, psi_test_cause_lengths, desc);

static void psi_test_cause_length(struct kunit *test)
{
	const struct psi_test_cause_length *row = test->param_value;
	struct psi_stalls *cell = kunit_kzalloc(test, sizeof(*cell), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, cell);
	psi_cause_add(cell, row->ns);
	KUNIT_EXPECT_EQ(test, atomic64_read(&cell->hist[row->bucket]), 1);
	KUNIT_EXPECT_EQ(test, psi_test_cause_count(cell), 1);
	KUNIT_EXPECT_EQ(test, atomic64_read(&cell->total), row->ns);
	KUNIT_EXPECT_EQ(test, atomic64_read(&cell->max), row->ns);
}

/* Sum, longest and number are those of all stalls, whatever their order. */
static void psi_test_causes_sum(struct kunit *test)
{
	struct psi_stalls *cell = kunit_kzalloc(test, sizeof(*cell), GFP_KERNEL);
	u64 total = 0, longest = 0;
	struct rnd_state rnd;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, cell);
	prandom_seed_state(&rnd, 4711);
	for (i = 0; i < 1000; i++) {
		u64 ns = prandom_u32_state(&rnd) >> prandom_u32_state(&rnd) % 32;

		psi_cause_add(cell, ns);
		total += ns;
		longest = max(longest, ns);
	}
	KUNIT_EXPECT_EQ(test, atomic64_read(&cell->total), total);
	KUNIT_EXPECT_EQ(test, atomic64_read(&cell->max), longest);
	KUNIT_EXPECT_EQ(test, psi_test_cause_count(cell), 1000);
}

static void psi_test_causes_exit(void *data)
{
	kfree(((struct psi_group *)data)->causes);
}

/* A group below another one, with the cells that its stalls may get. */
static struct psi_group *psi_test_causes_group(struct kunit *test, struct psi_group *parent)
{
	struct psi_group *group = psi_test_group(test);

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, psi_test_causes_exit, group), 0);
	if (parent)
		psi_group_init(group, parent, 1);
	return group;
}

static u64 psi_test_causes_total(struct psi_group *group, enum psi_cause cause)
{
	return group->causes ? atomic64_read(&group->causes[cause].total) : 0;
}

static void psi_test_causes_stall(struct psi_group *group, enum psi_cause cause, u64 ns)
{
	psi_cause_record(group, cause, ns);
}

/*
 * A stall is in the lines of its group and of those above, except where they
 * are switched off, and of no other cause. A group without stalls has no cells.
 */
static void psi_test_causes_tree(struct kunit *test)
{
	struct psi_group *top = psi_test_causes_group(test, NULL);
	struct psi_group *mid = psi_test_causes_group(test, top);
	struct psi_group *leaf = psi_test_causes_group(test, mid);
	int c;

	psi_test_causes_stall(mid, PSI_CAUSE_REFAULT, 10);
	KUNIT_EXPECT_NULL(test, leaf->causes);
	psi_test_causes_stall(leaf, PSI_CAUSE_REFAULT, 3);
	KUNIT_EXPECT_EQ(test, psi_test_causes_total(leaf, PSI_CAUSE_REFAULT), 3);
	KUNIT_EXPECT_EQ(test, psi_test_causes_total(mid, PSI_CAUSE_REFAULT), 13);
	KUNIT_EXPECT_EQ(test, psi_test_causes_total(top, PSI_CAUSE_REFAULT), 13);

	mid->switches = 1;
	psi_test_causes_stall(leaf, PSI_CAUSE_REFAULT, 100);
	KUNIT_EXPECT_EQ(test, psi_test_causes_total(leaf, PSI_CAUSE_REFAULT), 103);
	KUNIT_EXPECT_EQ(test, psi_test_causes_total(mid, PSI_CAUSE_REFAULT), 13);
	KUNIT_EXPECT_EQ(test, psi_test_causes_total(top, PSI_CAUSE_REFAULT), 113);
	mid->switches = 0;

	for (c = 0; c < PSI_NR_CAUSES; c++)
		if (c != PSI_CAUSE_REFAULT)
			KUNIT_EXPECT_EQ(test, psi_test_causes_total(top, c), 0);
}

#ifdef CONFIG_CGROUPS
/* When a cgroup is removed, those above keep its stalls. */
static void psi_test_causes_removed(struct kunit *test)
{
	struct psi_group *top = psi_test_causes_group(test, NULL);
	struct cgroup *dirs = kunit_kcalloc(test, 2, sizeof(*dirs), GFP_KERNEL);
	struct kernfs_node *kn = kunit_kzalloc(test, sizeof(*kn), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dirs);
	KUNIT_ASSERT_NOT_NULL(test, kn);
	if (!psi_enabled() || !cgroup_psi_enabled())
		kunit_skip(test, "cgroups have no pressure");
	dirs[0].psi = top;
	dirs[1].self.parent = &dirs[0].self;
	dirs[1].level = 1;
	dirs[1].kn = kn;
	KUNIT_ASSERT_EQ(test, psi_cgroup_alloc(&dirs[1]), 0);
	psi_test_causes_stall(dirs[1].psi, PSI_CAUSE_HIGH, 7000);
	psi_cgroup_free(&dirs[1]);
	KUNIT_EXPECT_EQ(test, psi_test_causes_total(top, PSI_CAUSE_HIGH), 7000);
	KUNIT_EXPECT_EQ(test, psi_test_cause_count(&top->causes[PSI_CAUSE_HIGH]), 1);
}
#endif

#define PSI_TEST_NO_STALL " count=0 total=0 max=0 hist=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"

static const char psi_test_causes_text[] =
	"memory.cause.reclaim" PSI_TEST_NO_STALL
	"memory.cause.reclaim_limit" PSI_TEST_NO_STALL
	"memory.cause.high" PSI_TEST_NO_STALL
	"memory.cause.compact" PSI_TEST_NO_STALL
	"memory.cause.refault count=3 total=5211 max=4100 hist=0,0,0,0,0,0,0,0,1,1,0,0,1,0,0,0,0,0,0,0,0\n"
	"memory.cause.swapin" PSI_TEST_NO_STALL
	"memory.cause.readahead" PSI_TEST_NO_STALL
	"memory.cause.node_reclaim" PSI_TEST_NO_STALL
	"memory.cause.kswapd" PSI_TEST_NO_STALL
	"memory.cause.kcompactd" PSI_TEST_NO_STALL
	"memory.cause.throttle" PSI_TEST_NO_STALL;

/* One line for each cause, in the same order, with or without stalls. */
static void psi_test_causes_show(struct kunit *test)
{
	struct psi_group *group = psi_test_causes_group(test, NULL);
	struct seq_file m = { .size = 4096 };

	m.buf = kunit_kzalloc(test, m.size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m.buf);
	psi_test_causes_stall(group, PSI_CAUSE_REFAULT, 600 * NSEC_PER_USEC);
	psi_test_causes_stall(group, PSI_CAUSE_REFAULT, 510 * NSEC_PER_USEC + 999);
	psi_test_causes_stall(group, PSI_CAUSE_REFAULT, 4100 * NSEC_PER_USEC + 1);
	psi_show_causes(&m, group);
	m.buf[m.count] = 0;
	KUNIT_EXPECT_STREQ(test, m.buf, psi_test_causes_text);
}

/*
 * A nested section belongs to the outermost one: one stall, of its cause and as
 * long as it.
 */
static void psi_test_causes_nest(struct kunit *test)
{
	struct psi_stalls *cells = psi_system.causes;
	u64 outer_stalls = psi_test_causes(PSI_CAUSE_THROTTLE);
	u64 inner_stalls = psi_test_causes(PSI_CAUSE_NODE_RECLAIM);
	u64 total = atomic64_read(&cells[PSI_CAUSE_THROTTLE].total);
	unsigned long outer, inner;
	u64 begin[2], end[2];

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	begin[0] = local_clock();
	psi_memstall_enter(&outer, PSI_CAUSE_THROTTLE);
	begin[1] = local_clock();
	psi_memstall_enter(&inner, PSI_CAUSE_NODE_RECLAIM);
	psi_memstall_leave(&inner);
	end[0] = local_clock();
	psi_memstall_leave(&outer);
	end[1] = local_clock();

	total = atomic64_read(&cells[PSI_CAUSE_THROTTLE].total) - total;
	KUNIT_EXPECT_EQ(test, psi_test_causes(PSI_CAUSE_THROTTLE), outer_stalls + 1);
	KUNIT_EXPECT_EQ(test, psi_test_causes(PSI_CAUSE_NODE_RECLAIM), inner_stalls);
	KUNIT_EXPECT_GE(test, total, end[0] - begin[1]);
	KUNIT_EXPECT_LE(test, total, end[1] - begin[0]);
}

#else /* CONFIG_PSI_CAUSES */

static u64 psi_test_causes(enum psi_cause cause)
{
	return 0;
}

#endif /* CONFIG_PSI_CAUSES */
