// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the time in which a group is in use on any CPU
 *
 *   Exact pressure (psi_exact.c) needs to know for how long a group was in use anywhere:
 *   the union of the times in use on its CPUs. These times themselves do not tell: two
 *   CPUs in use for a second each may have been so together, or one after the other.
 *
 *   So a word per group counts the CPUs in use, and has the time. The time is stored as
 *   those of states are, see "Time" in psi.c: x while no CPU is in use, t - x while one is.
 *   It shares 64 bits with the count, so that one cmpxchg changes both; what is left for the
 *   time wraps after 13 days. Readers take differences, of less than half of that.
 *
 *   All CPUs write the line of that word whenever they begin or end to be in use. So where
 *   CPUs have several caches, or are very many, there are two levels. CPUs that share a cache
 *   count themselves in a block. The first of a block to begin and the last to end go on to
 *   the word, which then counts blocks:
 *
 *	CPU 0	CPU 1		CPU 8	CPU 9
 *	    \	/		    \	/
 *	   block 0		   block 1	CPUs in use
 *		\		   /
 *		   \		/
 *		      the word		blocks in use, time
 *
 *   A CPU that is in use alone then changes two lines, not one. A CPU beside another one of
 *   its block changes one line, by an atomic add that never has to retry.
 *
 *   No CPU waits for another one. The first CPU of a block to begin may be held up before it
 *   gets to the word: until then the word has one block too few. No other CPU takes that
 *   block off the word, as the block counts the first CPU. The last CPU to end may be
 *   overtaken by one that begins anew: then the word has one block too many for that moment,
 *   and the time goes on as it should.
 *
 *   A group has a union only after a program asked for its exact pressure. If neither a group
 *   nor any that delegates to it has one, an event finds no PSI_USE_TELL and does nothing
 *   more.
 *
 * The invariant: with the runqueue locked, after an event, a group with PSI_USE_JOINED on the
 * CPU has PSI_USE_COUNTED there exactly if what it shows there is nonidle. The counter of a
 * block is the number of its CPUs with PSI_USE_COUNTED, and the word counts the blocks whose
 * counter is above zero; without blocks, it counts the CPUs.
 */

/* Room for as many CPUs as there can be: no machine has 2^14. */
#define PSI_UNION_BITS		14
#define PSI_UNION_COUNT		(BIT_ULL(PSI_UNION_BITS) - 1)
/* No more CPUs than that count themselves in the word. */
#define PSI_UNION_FEW		16

/* The block of each CPU. Without this all CPUs are in one, which is right but slower. */
static DEFINE_PER_CPU_READ_MOSTLY(unsigned int, psi_block);
static unsigned int psi_nr_blocks __ro_after_init;
/* There are blocks. */
static DEFINE_STATIC_KEY_FALSE(psi_blocks_used);

/* What @word means at @now: the time in use, modulo what fits. */
static u64 psi_union_at(u64 word, u64 now)
{
	u64 time = word >> PSI_UNION_BITS;

	return word & PSI_UNION_COUNT ? now - time : time;
}

/**
 * psi_union_read - how long a group was in use on any CPU
 * @use: the union of the group
 * @now: the time, in ns
 *
 * Context: Any.
 * Return: in ns. Only differences mean something, see psi_union_since().
 */
static u64 psi_union_read(const struct psi_union *use, u64 now)
{
	return psi_union_at(atomic64_read(&use->word), now);
}

/* A time as far as the word of a union holds it. */
static u64 psi_union_wrapped(u64 time)
{
	return time << PSI_UNION_BITS >> PSI_UNION_BITS;
}

/* How much @now is above @then, both of psi_union_read(). */
static u64 psi_union_since(u64 now, u64 then)
{
	s64 since = (now - then) << PSI_UNION_BITS;

	/* Clocks of CPUs differ a little. */
	return since > 0 ? since >> PSI_UNION_BITS : 0;
}

/* What becomes of the word when a CPU or a block begins or ends to be in use. */
static __always_inline u64 psi_union_next(u64 word, bool begins, u64 now)
{
	/* The first or the last: the time changes its sign, the count is 0 or 1. */
	if ((word & PSI_UNION_COUNT) == !begins)
		return (now << PSI_UNION_BITS) - word + 1;
	return begins ? word + 1 : word - 1;
}

/* A CPU begins or ends to be in use. @blocks, a constant: CPUs are counted in blocks. */
static __always_inline void psi_union_count(struct psi_union *use, bool blocks,
					    unsigned int block, bool begins, u64 now)
{
	s64 word;

	if (blocks && atomic_fetch_add(begins ? 1 : -1, &use->blocks[block].cpus) != !begins)
		return;
	word = atomic64_read(&use->word);
	while (!atomic64_try_cmpxchg(&use->word, &word, psi_union_next(word, begins, now)))
		;
}

/*
 * A group, and with it those that delegate to it, begins or ends to be in use on a CPU.
 * @blocks and @begins are constants.
 */
static __always_inline void psi_union_chain(struct psi_group_cpu *gc, bool blocks,
					    unsigned int block, bool begins, u64 now)
{
	const u8 before = PSI_USE_JOINED | (begins ? 0 : PSI_USE_COUNTED);
	struct psi_group_cpu *child;

	do {
		if ((gc->use & (PSI_USE_JOINED | PSI_USE_COUNTED)) == before) {
			gc->use ^= PSI_USE_COUNTED;
			psi_union_count(&gc->group->exact->use, blocks, block, begins, now);
		}
		child = gc;
		gc = gc->parent;
	} while (gc && gc->delegate == child);
}

/**
 * psi_union_tell - a group begins or ends to be in use on a CPU
 * @gc: the group on that CPU
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * With it do the groups that delegate to it.
 *
 * Context: The runqueue lock of the CPU is held.
 */
static __always_inline void psi_union_tell(struct psi_group_cpu *gc, int cpu, u64 now)
{
	bool begins = gc->states & BIT(PSI_NONIDLE);

	if (static_branch_unlikely(&psi_blocks_used)) {
		unsigned int block = per_cpu(psi_block, cpu);

		if (begins)
			psi_union_chain(gc, true, block, true, now);
		else
			psi_union_chain(gc, true, block, false, now);
	} else if (begins) {
		psi_union_chain(gc, false, 0, true, now);
	} else {
		psi_union_chain(gc, false, 0, false, now);
	}
}

static noinline void psi_union_update(struct psi_group_cpu *gc, int cpu, u64 now)
{
	psi_union_tell(gc, cpu, now);
}

/**
 * psi_union_join - count a CPU in the union of a group from now on
 * @gc: the group on that CPU
 * @d: what stands for it
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * Does nothing for a group without a union.
 *
 * Context: The runqueue lock of the CPU is held.
 */
static void psi_union_join(struct psi_group_cpu *gc, struct psi_group_cpu *d, int cpu, u64 now)
{
	/* Pairs with psi_exact_enable(). */
	struct psi_exact *exact = smp_load_acquire(&gc->group->exact);
	bool in_use = d->states & BIT(PSI_NONIDLE);

	if (!exact)
		return;
	d->use |= PSI_USE_TELL;
	gc->use |= PSI_USE_JOINED;
	if (in_use == !!(gc->use & PSI_USE_COUNTED))
		return;
	gc->use ^= PSI_USE_COUNTED;
	if (static_branch_unlikely(&psi_blocks_used))
		psi_union_count(&exact->use, true, per_cpu(psi_block, cpu), in_use, now);
	else
		psi_union_count(&exact->use, false, 0, in_use, now);
}

/* CPUs that share a cache by now have one block. One that comes later joins the first block. */
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
	if (nr < num_online_cpus() && (nr > 1 || num_online_cpus() > PSI_UNION_FEW)) {
		psi_nr_blocks = nr;
		static_branch_enable(&psi_blocks_used);
	}
	return 0;
}
core_initcall(psi_union_init);
