// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: exact pressure, limit and shortage
 *
 * Exact pressure
 *   The formula of the plain files (psi_avgs.c) is right while each CPU is in
 *   use throughout the window. A stall that moves between N CPUs comes out N
 *   times too small. Exact pressure is defined moment by moment, with n(t) CPUs
 *   in use, s(t) of them in the state:
 *	exact T_s = integral of s(t) / n(t)
 *
 *   A window is computed as the share of the CPU time in use that was in the
 *   state, times the time U in which any CPU was in use:
 *	exact T_s = U * sum_c(t_s[c]) / sum_c(w[c])
 *
 *	CPU 0	 ===-------		=== stalled, --- at work: U 20, w 10 and
 *	CPU 1		   ===-------	10, t 3 and 3. Exact 6; the mean says 3
 *
 *   That is the integral if s / n stays the same throughout the window: sums do
 *   not tell that 64 CPUs were at work before one alone stalled.
 *
 * Limit and shortage
 *   Per cell, for cpu, io and memory (psi_limit.c says which limits there are):
 *	limit some	a limit holds at least one stalled task
 *	limit full	limit some, and the plain full of the resource holds
 *	only some	limit some, and no task stalls for a shortage
 *	only full	only some, and the plain full of the resource holds
 *
 *   Per cell, the states of "only" are among those of limit, and these among
 *   the plain ones. Shortage is exact less only, so with one formula for all:
 *	max(limit, shortage) <= exact <= limit + shortage
 *
 * Asked
 *   This is computed only while a trigger on such a line is armed, or the file
 *   was read within five minutes; otherwise totals stand still. Memory is for
 *   all possible CPUs, as nothing can be allocated where the group comes to be
 *   in use. Cells learn of it in psi_asked_sync(), those off the list when they
 *   join. It begins with the next window, at once off the list. The fold ends
 *   it, see psi_asked_expire(). While a cell shows attributes of limits, it
 *   does not delegate: the states of limits depend on each change.
 *
 * The union
 *   The times in use of CPUs do not tell whether that was together or in turn.
 *   So a word per group counts the CPUs in use, and has the time, stored as in
 *   "Time" in psi.c. Both are in 64 bits: one cmpxchg changes them; the time
 *   wraps after 13 days. Readers take differences below half of that.
 *
 *   All CPUs write that word whenever they begin or end to be in use. So where
 *   CPUs have several caches, or are very many, those that share a cache count
 *   themselves in a block, and the word counts blocks:
 *	CPU 0	CPU 1		CPU 8	CPU 9
 *	    \	/		    \	/
 *	   block 0		   block 1	CPUs in use
 *		\		   /
 *		      the word		blocks in use, time
 *
 *   Only the first CPU of a block to begin and the last to end go on to the
 *   word. Nobody waits: a first one that is held up leaves the word one short,
 *   and no other takes that block off, as the block counts it. A last one that
 *   is overtaken leaves it one too high for that moment.
 *
 *   The invariants: with the runqueue locked, after an event, a cell with
 *   PSI_ASKED is counted exactly if its states have PSI_NONIDLE. If it is on
 *   the list, psi_group.asked is what it joined: psi_asked_end() visits the
 *   cells before it clears that pointer.
 */

/* No machine has 2^14 CPUs. */
#define PSI_UNION_BITS		14
#define PSI_UNION_COUNT		(BIT_ULL(PSI_UNION_BITS) - 1)
/* No more CPUs than that count themselves in the word. */
#define PSI_UNION_FEW		16

/* A program that reads at least that often asks all the time, in seconds. */
#define PSI_ASKED_FOR		(5 * 60)

/*
 * What exact pressure, limit and shortage of a group need
 * @used: the time in use on any CPU when the last window ended
 * @held: sum over the CPUs on the list of what limits held by then
 * @begun: a fold came after @known: a part of a window does not count; or no
 *	   CPU was in use at first
 * @known: the cells in use know that the group is asked
 * @users: triggers, readers, and psi_asked_expire()
 * @read: when the file was last read, ktime_get_seconds()
 * @word: the union: how many blocks (CPUs, where there are no blocks) are in
 *	  use in the low bits, and the time in ns above them
 * @blocks: how many CPUs of each block are in use
 *
 * The fold writes @used and @held, and @begun unless psi_asked_begin() did.
 */
struct psi_asked {
	u64			used;
	u64			held[PSI_NR_HELD];
	bool			begun;
	bool			known;
	struct psi_asked_cpu __percpu *cpus;
	refcount_t		users;
	long			read;
	struct psi_group	*group;
	struct llist_node	node;
	struct rcu_head		rcu;
	atomic64_t		word ____cacheline_aligned;
	struct {
		atomic_t	cpus;
	} ____cacheline_aligned	blocks[];
};

static DEFINE_PER_CPU_READ_MOSTLY(unsigned int, psi_block);
/* How many blocks there are, 0 if CPUs count themselves in the word. */
static unsigned int psi_nr_blocks __ro_after_init;

/* Time in use on any CPU, in ns, at @now. Only differences mean something. */
static u64 psi_union_read(const struct psi_asked *asked, u64 now)
{
	u64 word = asked ? atomic64_read(&asked->word) : 0, time = word >> PSI_UNION_BITS;

	/* It goes by rq_clock(). */
	return word & PSI_UNION_COUNT ? now - atomic64_read(&psi_slept) - time : time;
}

static u64 psi_union_since(u64 now, u64 then)
{
	s64 since = (now - then) << PSI_UNION_BITS;

	/* Clocks of CPUs differ a little. */
	return since > 0 ? since >> PSI_UNION_BITS : 0;
}

/*
 * What psi_union_read() said @ago ns before it said @now, but nothing older
 * than @then. Unlike in psi_union_since() any time may have passed.
 */
static u64 psi_union_before(u64 now, u64 then, u64 ago)
{
	return now - min(ago, (now - then) << PSI_UNION_BITS >> PSI_UNION_BITS);
}

static __always_inline u64 psi_union_next(u64 word, bool begins, u64 now)
{
	/* First or last: the time changes its sign, the count is 0 or 1. */
	if ((word & PSI_UNION_COUNT) == !begins)
		return (now << PSI_UNION_BITS) - word + 1;
	return begins ? word + 1 : word - 1;
}

/* @cpus: of a block, %NULL without blocks. */
static __always_inline void psi_union_count(struct psi_asked *asked, atomic_t *cpus, bool begins,
					    u64 now)
{
	s64 word;

	if (cpus && atomic_fetch_add(begins ? 1 : -1, cpus) != !begins)
		return;
	word = atomic64_read(&asked->word);
	while (!atomic64_try_cmpxchg(&asked->word, &word, psi_union_next(word, begins, now)))
		;
}

static __always_inline void psi_union_flip(struct psi_asked *asked, bool begins, int cpu, u64 now)
{
#ifdef CONFIG_PSI_DEBUG
	per_cpu_ptr(asked->cpus, cpu)->counted += begins ? 1 : -1;
#endif
	psi_union_count(asked, psi_nr_blocks ? &asked->blocks[per_cpu(psi_block, cpu)].cpus : NULL,
			begins, now);
}

/* CPUs that come later join the first block: right, but slower. */
static int __init psi_union_init(void)
{
	unsigned int block, nr = 0;
	int cpu, first;

	for_each_online_cpu(cpu) {
		for_each_online_cpu(first) {
			if (cpus_share_cache(first, cpu))
				break;
		}
		block = first == cpu ? nr++ : per_cpu(psi_block, first);
		per_cpu(psi_block, cpu) = block;
	}
	/* A block of one CPU would cost a line and save nothing. */
	if (nr < num_online_cpus() && (nr > 1 || num_online_cpus() > PSI_UNION_FEW))
		psi_nr_blocks = nr;
	return 0;
}
core_initcall(psi_union_init);

static unsigned int psi_held_of(const struct psi_group_cpu *gc)
{
	static const struct {
		u16		limit, shortage;
		u8		states;
	} resources[] = {
		{ PSI_LIMIT_WAITING, PSI_WAITING, BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL) },
		{ PSI_LIMIT_IOWAIT, PSI_IOWAIT, BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL) },
		{ PSI_LIMIT_MEMSTALL, PSI_MEMSTALL, BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL) },
	};
	unsigned int limit = 0, only = 0, i;

	for (i = 0; i < ARRAY_SIZE(resources); i++) {
		if (!(gc->attrs & resources[i].limit))
			continue;
		limit |= gc->states & resources[i].states;
		if (!(gc->attrs & resources[i].shortage))
			only |= gc->states & resources[i].states;
	}
	/* As PSI_LIMIT_AT() and PSI_ONLY_AT() say. */
	return limit >> (PSI_NONIDLE + 1) | only >> (PSI_NONIDLE + 1) << PSI_NR_HELD / 2;
}

/* Have the states of limits follow what a cell shows, see "Time" in psi.c. */
static void psi_held_enter(struct psi_group_cpu *gc, struct psi_asked_cpu *more, u64 now)
{
	unsigned int held = psi_held_of(gc);
	int i;

	psi_for_each_state(i, more->held ^ held)
		more->times[i] = now - more->times[i];
	more->held = held;
}

/*
 * NULL unless the cell has PSI_ASKED. A reader without the runqueue lock may
 * find what the cell had a moment before.
 */
static __always_inline struct psi_asked_cpu *psi_asked_cpu(struct psi_asked *asked,
							   struct psi_group_cpu *gc, int cpu)
{
	return asked && READ_ONCE(gc->asked) & PSI_ASKED ? per_cpu_ptr(asked->cpus, cpu) : NULL;
}

/* The runqueue lock is held: psi_asked_end() takes it before it frees. */
static __always_inline struct psi_asked *psi_asked_of(struct psi_group_cpu *gc)
{
	return rcu_dereference_raw(gc->group->asked);
}

/* A cell that is asked, or delegated to by one, changed; @before: states. */
static void psi_asked_event(struct psi_group_cpu *gc, u8 before, int cpu, u64 now)
{
	bool begins = gc->states & BIT(PSI_NONIDLE);
	struct psi_group_cpu *child, *p = gc;
	struct psi_asked_cpu *more;

	if ((before ^ gc->states) & BIT(PSI_NONIDLE)) {
		/* psi_delegator() would cost more at each level. */
		do {
			if (p->asked & PSI_ASKED)
				psi_union_flip(psi_asked_of(p), begins, cpu, now);
			child = p;
			p = p->parent;
		} while (p && psi_delegate_of(p) == child);
	}
	if (!(gc->asked & PSI_ASKED))
		return;
	more = per_cpu_ptr(psi_asked_of(gc)->cpus, cpu);
	if (gc->attrs & PSI_LIMIT_ATTRS || more->held)
		psi_held_enter(gc, more, now);
}

static void psi_asked_join(struct psi_group_cpu *gc, struct psi_asked *asked, int cpu, u64 now)
{
	struct psi_group_cpu *d = psi_chain_end(gc);

	gc->asked |= PSI_ASKED;
	if (d->states & BIT(PSI_NONIDLE))
		psi_union_flip(asked, true, cpu, now);
	if (d->attrs & PSI_LIMIT_ATTRS) {
		psi_undelegate(gc);
		psi_held_enter(gc, per_cpu_ptr(asked->cpus, cpu), now);
	}
}

/*
 * Have a cell follow psi_group.asked, in a write section of psi_seq. Off the
 * list it shows nothing: an old PSI_ASKED is all to change.
 */
static void psi_asked_sync(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_asked *asked = psi_asked_of(gc);
	struct psi_group_cpu *d;

	if (!asked || !refcount_read(&asked->users))
		gc->asked &= ~PSI_ASKED;
	else if (!(gc->asked & PSI_ASKED))
		psi_asked_join(gc, asked, cpu, now);
	d = psi_chain_end(gc);
	d->asked = psi_asked_above(d);
}

/* A group joins the list on a CPU: what limits did there before is over. */
static void psi_asked_listed(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_asked_cpu *more;

	psi_asked_sync(gc, cpu, now);
	more = psi_asked_cpu(psi_asked_of(gc), gc, cpu);
	if (more)
		memcpy(more->base, more->times, sizeof(more->base));
}

static LLIST_HEAD(psi_asked_groups);

static void psi_asked_free(struct rcu_head *rcu)
{
	struct psi_asked *asked = container_of(rcu, struct psi_asked, rcu);

	free_percpu(asked->cpus);
	kvfree(asked);
}

/* NULL if nobody asks. In an RCU read section. */
static struct psi_asked *psi_asked_get(struct psi_group *group)
{
	struct psi_asked *asked = rcu_dereference(group->asked);

	return asked && refcount_read(&asked->users) ? asked : NULL;
}

/* Accounts stay until the group goes: totals go on when it is asked again. */
static struct psi_asked *psi_asked_alloc(struct psi_group *group)
{
	struct psi_account *accounts = NULL;
	u64 now = psi_read_clock();
	struct psi_asked *asked;
	int kind;

	asked = kvzalloc(struct_size(asked, blocks, psi_nr_blocks), GFP_KERNEL_ACCOUNT);
	if (!asked)
		return NULL;
	asked->cpus = alloc_percpu_gfp(struct psi_asked_cpu, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!READ_ONCE(group->accounts))
		accounts = kcalloc(PSI_NR_KINDS, sizeof(*accounts), GFP_KERNEL_ACCOUNT);
	for (kind = PSI_EXACT; accounts && kind < PSI_NR_KINDS; kind++)
		accounts[kind].avgs.at = now;
	if (accounts && cmpxchg(&group->accounts, NULL, accounts))
		kfree(accounts);
	if (!asked->cpus || !READ_ONCE(group->accounts)) {
		psi_asked_free(&asked->rcu);
		return NULL;
	}
	asked->group = group;
	asked->read = ktime_get_seconds() - PSI_ASKED_FOR - 1;
	return asked;
}

static void psi_asked_visit(struct psi_group *group)
{
	int cpu;

	KUNIT_STATIC_STUB_REDIRECT(psi_asked_visit, group);
	/* Pairs with psi_fold_join(): a CPU that joins later looks itself. */
	smp_mb();
	psi_for_each_cpu(cpu, group) {
		struct rq *rq = cpu_rq(cpu);

		guard(rq_lock_irqsave)(rq);
		update_rq_clock(rq);
		raw_write_seqcount_begin(&rq->psi_seq);
		if (psi_listed(group->cpus[cpu], cpu))
			psi_asked_sync(group->cpus[cpu], cpu, rq_clock(rq));
		raw_write_seqcount_end(&rq->psi_seq);
	}
}

static void psi_asked_end(struct psi_asked *asked)
{
	struct psi_group *group = asked->group;

	/* First, so that a cell with PSI_ASKED finds what it joined. */
	psi_asked_visit(group);
	RCU_INIT_POINTER(group->asked, NULL);
	call_rcu(&asked->rcu, psi_asked_free);
	psi_group_put(group);
}

/* Not the last user: that is psi_asked_expire(). */
static void psi_unask(struct psi_asked *asked)
{
	refcount_dec(&asked->users);
}

static struct llist_node *psi_asked_all(void)
{
	return llist_del_all(&psi_asked_groups);
}

/*
 * End the first of @list if nobody asks about it any more. Each fold does this
 * for all. While it rests, nothing costs more for being asked. Return the next.
 */
static struct llist_node *psi_asked_expire(struct llist_node *list)
{
	struct psi_asked *asked = llist_entry(list, struct psi_asked, node);
	bool old = ktime_get_seconds() - READ_ONCE(asked->read) > PSI_ASKED_FOR;
	struct llist_node *next = list->next;

	if ((READ_ONCE(asked->group->removed) || old) &&
	    refcount_dec_if_one(&asked->users))
		psi_asked_end(asked);
	else
		llist_add(list, &psi_asked_groups);
	return next;
}

static struct psi_asked *psi_asked_begin(struct psi_group *group)
{
	struct psi_asked *asked = psi_asked_alloc(group);

	if (!asked)
		return NULL;
	/* Before others see it: psi_asked_expire(), and the caller. */
	refcount_set(&asked->users, 2);
	if (cmpxchg((struct psi_asked **)&group->asked, NULL, asked)) {
		psi_asked_free(&asked->rcu);
		return ERR_PTR(-EAGAIN);
	}
	/*
	 * Off the list all that comes counts: a CPU that joins knows. cmpxchg()
	 * pairs with psi_fold_join().
	 */
	if (psi_next_cpu(group, -1) >= nr_cpu_ids)
		WRITE_ONCE(asked->begun, true);
	refcount_inc(&group->refs);
	llist_add(&asked->node, &psi_asked_groups);
	return asked;
}

/*
 * Somebody wants exact pressure, limit and shortage, until psi_unask(). NULL:
 * no memory, or the task has to die. May sleep, and takes runqueue locks.
 */
static struct psi_asked *psi_ask(struct psi_group *group)
{
	struct psi_asked *asked;

	do {
		rcu_read_lock();
		asked = rcu_dereference(group->asked);
		if (asked && !refcount_inc_not_zero(&asked->users))
			asked = ERR_PTR(-EAGAIN);
		rcu_read_unlock();
		if (!asked)
			asked = psi_asked_begin(group);
		/* Another asks first, or psi_asked_end() is under way. */
		if (IS_ERR(asked) && fatal_signal_pending(current))
			return NULL;
		if (IS_ERR(asked))
			schedule_timeout_killable(1);
	} while (IS_ERR(asked));
	if (!asked)
		return NULL;
	/*
	 * The first to ask may be held up here: others do not wait. All cells
	 * that are read after this know that they are asked.
	 */
	if (!smp_load_acquire(&asked->known)) {
		psi_asked_visit(group);
		/* Pairs with the load above, and with that of the fold. */
		smp_store_release(&asked->known, true);
	}
	return asked;
}

static u64 psi_held_since(const struct psi_look *look, int i, u64 most)
{
	return min(psi_since(look->held[i], look->asked->held[i]), most);
}

/* Pressure of each kind but the plain one; none if nobody asks. */
static void psi_sums_pressure(const struct psi_look *look, u64 stall[][PSI_NR_STATES])
{
	u64 used;
	int s;

	memset(stall, 0, PSI_NR_KINDS * sizeof(stall[0]));
	if (!look->asked || !look->asked->begun)
		return;
	used = psi_union_since(look->used, look->asked->used);
	psi_for_each_state(s, PSI_ALL_STATES & ~BIT(PSI_NONIDLE)) {
		u64 limit = psi_held_since(look, PSI_LIMIT_AT(s), look->sum[s]);
		u64 only = psi_held_since(look, PSI_ONLY_AT(s), limit);

		stall[PSI_EXACT][s] = psi_sums_share(look, look->sum[s], used);
		stall[PSI_LIMIT][s] = psi_sums_share(look, limit, used);
		stall[PSI_SHORTAGE][s] = stall[PSI_EXACT][s] - psi_sums_share(look, only, used);
	}
}

/* The fold leaves an idle CPU alone. In a write section of psi_group.seq. */
static void psi_asked_unlisted(struct psi_asked *asked, struct psi_group_cpu *gc, int cpu)
{
	struct psi_asked_cpu *more = psi_asked_cpu(asked, gc, cpu);
	int i;

	if (!more)
		return;
	for (i = 0; i < PSI_NR_HELD; i++)
		asked->held[i] -= more->times[i] - more->base[i];
}

static void psi_asked_fold(u64 idle, const struct psi_look *look)
{
	u64 stall[PSI_NR_KINDS][PSI_NR_STATES];
	struct psi_asked *asked = look->asked;
	int kind;

	psi_sums_pressure(look, stall);
	for (kind = PSI_EXACT; kind < PSI_NR_KINDS; kind++)
		psi_account_add(&asked->group->accounts[kind], idle, look->now, stall[kind]);
	asked->used = look->used;
	memcpy(asked->held, look->held, sizeof(asked->held));
	/* Pairs with psi_ask(). */
	if (smp_load_acquire(&asked->known))
		WRITE_ONCE(asked->begun, true);
}
