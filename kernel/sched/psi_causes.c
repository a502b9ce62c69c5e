// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the causes of memory stalls
 *
 * Contract
 *
 *   cgroup.pressure.stat has a line for each enum psi_cause: how often tasks of
 *   the group stalled because of it, for how long in all and at most, in us of
 *   task time, and how many of these stalls had which length. The lengths are
 *   powers of two: the first number counts stalls below 2 us, the second those
 *   below 4 us, and so on; the last one counts all of 1.05 s (2^20 us) and
 *   more.
 *
 *	memory.cause.refault count=3 total=5210 max=4100 hist=0,0,0,0,0,...
 *
 *   A cause is no pressure state: two tasks that stall for a second each are
 *   two seconds here, and memory "some" has one to two of them. The sum of all
 *   lines is exactly the time that tasks spent in memory-stall sections, of
 *   those that have ended.
 *
 * Recording
 *
 *   A stall begins and ends with the outermost section, whose cause counts:
 *
 *	psi_memstall_enter()  refault |---------------------------|
 *	psi_memstall_enter()  reclaim        |--------|
 *	recorded				      a refault --^
 *
 *   The task remembers cause and begin. Begin and end are the rq_clock() at
 *   which the states of the task's groups change, so a task that stalls alone
 *   on a CPU has the same time here and in memory "some". If the task changed
 *   its CPU and the clocks of the two differ, a length below zero counts as
 *   zero.
 *
 *   A task that changes its cgroup during a stall has it recorded where it is
 *   in the end. The stall of a task that dies ends with the task.
 *
 *   Nothing is recorded before the end: an event of the scheduler does no work
 *   for causes, and psi_group_cpu has nothing of them.
 *
 * Where
 *
 *   A stall is added to the group of the task and to each group above, as
 *   memory.events does with events of limits. So a line includes all
 *   descendants, removed ones too, a reader looks at one group and sees numbers
 *   that only grow, and nothing has to be handed over when a cgroup goes. A
 *   group that is switched off records nothing.
 *
 *   The alternative is to record in the group of the task alone, and to add up
 *   at each read. A reader would then visit all descendants. It would have to
 *   exclude the removal of cgroups meanwhile. Otherwise it misses, or counts
 *   twice, what a removed cgroup hands over to its parent.
 *
 *   The price: CPUs that stall at the same moments pass one or two cache lines
 *   for each level around. But a stall takes the lock of the runqueue twice as
 *   well, and most stalls also charge pages to all these levels.
 *
 * Memory
 *
 *   This takes 2 kB, so a group has nothing of it before its first stall
 *   ends. Here nothing may wait for memory. If there is none at once, the stall
 *   is missing in this group, not in those above, and the next stall tries
 *   again. The system has it from the beginning.
 */

/* The last bucket has 2^20 us and more. All that a group has fits into 2 kB. */
#define PSI_CAUSE_BUCKETS	21

/**
 * struct psi_stalls - the stalls of a group that have one cause
 * @total: how long they took, in ns
 * @max: the longest, in ns
 * @hist: how many, by length
 */
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

/* The bucket of a stall of @ns. */
static unsigned int psi_cause_bucket(u64 ns)
{
	u64 us = div_u64(ns, NSEC_PER_USEC);

	return us ? min(ilog2(us), PSI_CAUSE_BUCKETS - 1) : 0;
}

static void psi_cause_add(struct psi_stalls *stalls, u64 ns)
{
	s64 max = atomic64_read(&stalls->max);

	atomic64_inc(&stalls->hist[psi_cause_bucket(ns)]);
	atomic64_add(ns, &stalls->total);
	while ((s64)ns > max && !atomic64_try_cmpxchg(&stalls->max, &max, ns))
		;
}

/* What a group has by cause, NULL if that is nothing and there is no memory. */
static struct psi_stalls *psi_causes_get(struct psi_group *group)
{
	struct psi_stalls *causes = READ_ONCE(group->causes), *made;

	if (causes)
		return causes;
	/*
	 * PREEMPT_RT: a task that dies in a stall is past the point where it
	 * could.
	 */
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && !preemptible())
		return NULL;
	made = kcalloc(PSI_NR_CAUSES, sizeof(*made), GFP_NOWAIT);
	if (!made)
		return NULL;
	causes = cmpxchg(&group->causes, NULL, made);
	if (!causes)
		return made;
	kfree(made);
	return causes;
}

/* Record a stall in a group and all above. */
static void psi_cause_record(struct psi_group *group, enum psi_cause cause, u64 ns)
{
	for (; group; group = READ_ONCE(group->parent)) {
		/* One that is off records nothing. */
		struct psi_stalls *causes = psi_switches(group) & 1 ? NULL : psi_causes_get(group);

		if (causes)
			psi_cause_add(&causes[cause], ns);
	}
}

/* The current task begins a memory stall: remember why, and when. */
static void psi_cause_begin(enum psi_cause cause, u64 now)
{
	current->psi.cause = cause;
	current->psi.stall_since = now;
}

/**
 * psi_cause_end - record the memory stall of the current task, which has ended
 * @now: when it ended, ns of rq_clock()
 * @held: because of a limit
 *
 * The task may change its cgroup meanwhile, and the cgroup may be removed. It
 * is freed, and before that leaves its parents, after a grace period of RCU.
 *
 * Context: Process context.
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
	seq_put_decimal_ull(m, " total=", div_u64(atomic64_read(&stalls->total), NSEC_PER_USEC));
	seq_put_decimal_ull(m, " max=", div_u64(atomic64_read(&stalls->max), NSEC_PER_USEC));
	for (i = 0; i < PSI_CAUSE_BUCKETS; i++)
		seq_put_decimal_ull(m, i ? "," : " hist=", hist[i]);
	seq_putc(m, '\n');
}

/**
 * psi_show_causes - print a line for each cause of memory stalls
 * @m: the file to print to
 * @group: the group whose stalls these are
 *
 * Context: Any. The group stays meanwhile.
 */
static void psi_show_causes(struct seq_file *m, struct psi_group *group)
{
	static const struct psi_stalls none;
	const struct psi_stalls *causes = READ_ONCE(group->causes);
	int c;

	for (c = 0; c < PSI_NR_CAUSES; c++)
		psi_show_cause(m, psi_cause_names[c], causes ? &causes[c] : &none);
}
