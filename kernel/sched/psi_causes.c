// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the causes of memory stalls
 *
 * Contract
 *   cgroup.pressure.stat has a line for each enum psi_cause: how often tasks of
 *   the group stalled because of it, for how long in all and at most, in us of
 *   task time, and how many stalls had which length: below 2 us, below 4 us,
 *   and so on; the last number counts all of 1.05 s (2^20 us) and more.
 *
 *	memory.cause.refault count=3 total=5210 max=4100 hist=0,0,0,0,0,...
 *
 *   A cause is no pressure state: two tasks that stall for a second each are
 *   two seconds here. The sum of all lines is exactly the time that tasks spent
 *   in memory-stall sections that have ended.
 *
 * Recording
 *   A stall begins and ends with the outermost section, whose cause counts:
 *	psi_memstall_enter()  refault |---------------------------|
 *	psi_memstall_enter()  reclaim        |--------|
 *	recorded				      a refault --^
 *
 *   The task remembers cause and begin, and records the stall at its end, in
 *   the cgroup it is in then. Begin and end are the rq_clock() at which the
 *   states of its groups change: a task that stalls alone on a CPU has the same
 *   time here and in memory "some". A negative length (clocks differ) is zero.
 *
 * Where
 *   A stall is added to the group of the task and to each above, as
 *   memory.events does: a reader looks at one group, its numbers only grow, and
 *   nothing is handed over when a cgroup goes. It costs one or two shared cache
 *   lines a level, beside two runqueue locks. A group that is off has none.
 *   The 2 kB of a group come with the end of its first stall, where nothing may
 *   wait. Without memory the stall is missing in this group only, and the next
 *   one tries again. The system has them from the beginning.
 */

/* The last bucket has 2^20 us and more. */
#define PSI_CAUSE_BUCKETS	21

/* Stalls of a group that have one cause, in ns. @hist: how many, by length. */
struct psi_stalls {
	atomic64_t		total;
	atomic64_t		max;
	atomic64_t		hist[PSI_CAUSE_BUCKETS];
};

static struct psi_stalls psi_system_causes[PSI_NR_CAUSES];

static const char * const psi_cause_names[PSI_NR_CAUSES] = {
	[PSI_CAUSE_RECLAIM]		= "reclaim",
	[PSI_CAUSE_RECLAIM_LIMIT]	= "reclaim_limit",
	[PSI_CAUSE_HIGH]		= "high",
	[PSI_CAUSE_COMPACT]		= "compact",
	[PSI_CAUSE_REFAULT]		= "refault",
	[PSI_CAUSE_SWAPIN]		= "swapin",
	[PSI_CAUSE_READAHEAD]		= "readahead",
	[PSI_CAUSE_NODE_RECLAIM]	= "node_reclaim",
	[PSI_CAUSE_KSWAPD]		= "kswapd",
	[PSI_CAUSE_KCOMPACTD]		= "kcompactd",
	[PSI_CAUSE_THROTTLE]		= "throttle",
};

static void psi_cause_add(struct psi_stalls *stalls, u64 ns)
{
	/* Each bucket ends at twice the length, the first one at 2 us. */
	int bucket = fls64(div_u64(ns, 2 * NSEC_PER_USEC));

	atomic64_inc(&stalls->hist[min(bucket, PSI_CAUSE_BUCKETS - 1)]);
	atomic64_add(ns, &stalls->total);
	psi_raise(&stalls->max, ns);
}

/* The stalls of a group by cause, NULL without memory. */
static struct psi_stalls *psi_causes_get(struct psi_group *group)
{
	struct psi_stalls *causes = READ_ONCE(group->causes), *made;

	if (causes)
		return causes;
	/* PREEMPT_RT: a task that dies in a stall may not allocate any more. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && !preemptible())
		return NULL;
	/* At a limit, where tasks stall, the memory is charged beyond it. */
	made = kcalloc(PSI_NR_CAUSES, sizeof(*made),
		       GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOWARN);
	if (!made)
		return NULL;
	causes = cmpxchg(&group->causes, NULL, made);
	if (!causes)
		return made;
	kfree(made);
	return causes;
}

static void psi_cause_record(struct psi_group *group, enum psi_cause cause,
			     u64 ns)
{
	for (; group; group = READ_ONCE(group->parent)) {
		struct psi_stalls *causes = psi_switches(group) & 1 ? NULL : psi_causes_get(group);

		if (causes)
			psi_cause_add(&causes[cause], ns);
	}
}

static void psi_cause_begin(enum psi_cause cause, u64 now)
{
	current->psi.cause = cause;
	current->psi.stall_since = now;
}

/*
 * The task may change its cgroup meanwhile, and that may be removed. A group
 * leaves its parents, and is freed, a grace period later.
 */
static void psi_cause_end(u64 now, bool held)
{
	const struct psi_task *t = &current->psi;
	u64 ns = psi_since(now, t->stall_since);
	struct psi_group *group;

	guard(rcu)();
	group = READ_ONCE(t->group);
	/* PSI's own threads have no group. */
	if (!group)
		return;
	psi_cause_record(group, t->cause, ns);
	trace_psi_stall(group->id, psi_cause_names[t->cause], held ? "limit" : "shortage", ns);
}

static void psi_show_cause(struct seq_file *m, const char *name,
			   const struct psi_stalls *stalls)
{
	u64 hist[PSI_CAUSE_BUCKETS], count = 0;
	int i;

	for (i = 0; i < PSI_CAUSE_BUCKETS; i++) {
		hist[i] = atomic64_read(&stalls->hist[i]);
		count += hist[i];
	}
	seq_puts(m, "memory.cause.");
	seq_puts(m, name);
	/* Mostly nothing, and some read thousands of files a second. */
	if (!count) {
		static_assert(PSI_CAUSE_BUCKETS == 21);
		seq_puts(m, " count=0 total=0 max=0 hist=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n");
		return;
	}
	seq_put_decimal_ull(m, " count=", count);
	seq_put_decimal_ull(m, " total=",
			    div_u64(atomic64_read(&stalls->total), NSEC_PER_USEC));
	seq_put_decimal_ull(m, " max=",
			    div_u64(atomic64_read(&stalls->max), NSEC_PER_USEC));
	for (i = 0; i < PSI_CAUSE_BUCKETS; i++)
		seq_put_decimal_ull(m, i ? "," : " hist=", hist[i]);
	seq_putc(m, '\n');
}

static void psi_show_causes(struct seq_file *m, struct psi_group *group)
{
	static const struct psi_stalls none;
	const struct psi_stalls *causes = READ_ONCE(group->causes);
	int c;

	for (c = 0; c < PSI_NR_CAUSES; c++)
		psi_show_cause(m, psi_cause_names[c],
			       causes ? &causes[c] : &none);
}
