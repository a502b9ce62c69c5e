// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the time in which a group is in use on any CPU
 *
 *   Exact pressure (psi_exact.c) needs to know for how long a group was in use anywhere:
 *   the union of the times in use on its CPUs. These times themselves do not tell: two
 *   CPUs in use for a second each may have been so together, or one after the other.
 *
 *   A counter of the CPUs in use would tell, but all CPUs would write its cache line
 *   whenever they begin or end to be in use. So there are two levels. CPUs that share a
 *   cache count themselves in a block. The first of a block to begin and the last to end
 *   go on to the word of the group, which counts blocks, and has the time:
 *
 *	CPU 0	CPU 1		CPU 8	CPU 9
 *	    \	/		    \	/
 *	   block 0		   block 1	CPUs in use
 *		\		   /
 *		   \		/
 *		      the word		blocks in use, time
 *
 *   The time is stored as those of states are, see "Time" in psi.c: x while no block is in
 *   use, t - x while one is. It shares 64 bits with the count, so that one cmpxchg changes
 *   both; what is left for the time wraps after 13 days. Readers take differences, of
 *   less than half of that.
 *
 *   No CPU waits for another one. A CPU that counts itself first may be held up before it
 *   gets to the word. Until then the block is in use, so no other CPU of the block takes it
 *   off the word: the count never falls below what is due. A CPU that ends the use of a
 *   block may be overtaken by one that begins it anew: the count is one too high for that
 *   moment, and the time goes on as it should.
 *
 *   Only groups that somebody asked exact pressure of have a union. Where a group has none,
 *   nor any that delegates to it, an event finds no PSI_USE_TELL and does nothing more.
 *
 * The invariant: with the runqueue locked, after an event, a group with a union has
 * PSI_USE_COUNTED on the CPU exactly if what it shows there is nonidle; the counter of a
 * block is the number of its CPUs with PSI_USE_COUNTED, and the word counts the blocks
 * whose counter is above zero.
 */

/* Room for as many blocks as there can be: no machine has 2^14 CPUs. */
#define PSI_UNION_BITS		14
#define PSI_UNION_BLOCKS	(BIT_ULL(PSI_UNION_BITS) - 1)

/**
 * struct psi_block - the CPUs that share a cache
 * @cpus: how many of them are in use by the group
 */
struct psi_block {
	atomic_t		cpus;
} ____cacheline_aligned;

/**
 * struct psi_union - the time in which a group is in use on any CPU
 * @word: how many blocks have CPUs in use in the low bits, and the time in ns above them
 * @blocks: per block
 */
struct psi_union {
	atomic64_t		word;
	struct psi_block	blocks[];
};

/* The union of a group, NULL for none. */
static struct psi_union *psi_group_union(const struct psi_group *group)
{
	/* Pairs with psi_exact_enable(). */
	const struct psi_exact *exact = smp_load_acquire(&group->exact);

	return exact ? exact->use : NULL;
}

/* The block of each CPU. Without this all CPUs are in one, which is right but slower. */
static DEFINE_PER_CPU_READ_MOSTLY(unsigned int, psi_block);
static unsigned int psi_nr_blocks __ro_after_init = 1;

/* What @word means at @now: the time in use, modulo what fits. */
static u64 psi_union_at(u64 word, u64 now)
{
	u64 time = word >> PSI_UNION_BITS;

	return word & PSI_UNION_BLOCKS ? now - time : time;
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

/* A block begins (@blocks 1) or ends (-1) to be in use. */
static void psi_union_change(struct psi_union *use, int blocks, u64 now)
{
	s64 old = atomic64_read(&use->word), new;
	u64 nr;

	do {
		nr = (old & PSI_UNION_BLOCKS) + blocks;
		new = old;
		/* The first or the last. */
		if (!nr || nr == blocks)
			new = (now << PSI_UNION_BITS) - (old & ~PSI_UNION_BLOCKS);
		new = (new & ~PSI_UNION_BLOCKS) | nr;
	} while (!atomic64_try_cmpxchg(&use->word, &old, new));
}

/* A CPU of a block begins or ends to be in use. */
static void psi_union_count(struct psi_union *use, unsigned int block, bool in_use, u64 now)
{
	atomic_t *cpus = &use->blocks[block].cpus;

	if (in_use && atomic_inc_return(cpus) == 1)
		psi_union_change(use, 1, now);
	else if (!in_use && atomic_dec_and_test(cpus))
		psi_union_change(use, -1, now);
}

/* Have the union of the group of @gc know whether the group is in use on the CPU. */
static void psi_union_set(struct psi_group_cpu *gc, struct psi_union *use, bool in_use, int cpu,
			  u64 now)
{
	if (in_use == !!(gc->use & PSI_USE_COUNTED))
		return;
	gc->use ^= PSI_USE_COUNTED;
	psi_union_count(use, per_cpu(psi_block, cpu), in_use, now);
}

/**
 * psi_union_update - a group begins or ends to be in use on a CPU
 * @gc: the group on that CPU
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * With it do the groups that delegate to it.
 *
 * Context: The runqueue lock of the CPU is held.
 */
void psi_union_update(struct psi_group_cpu *gc, int cpu, u64 now)
{
	bool in_use = gc->states & BIT(PSI_NONIDLE);
	struct psi_group_cpu *child;

	do {
		struct psi_union *use = psi_group_union(gc->group);

		if (use)
			psi_union_set(gc, use, in_use, cpu, now);
		child = gc;
		gc = gc->parent;
	} while (gc && gc->delegate == child);
}

/**
 * psi_union_join - a CPU is to be counted in the union of a group
 * @gc: the group on that CPU
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * Does nothing for a group without a union.
 *
 * Context: The runqueue lock of the CPU is held.
 */
void psi_union_join(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_union *use = psi_group_union(gc->group);
	struct psi_group_cpu *d = psi_delegate_of(gc);

	if (!use)
		return;
	d->use |= PSI_USE_TELL;
	gc->use |= PSI_USE_JOINED;
	psi_union_set(gc, use, d->states & BIT(PSI_NONIDLE), cpu, now);
}

/* A union for a group, NULL without memory. */
static struct psi_union *psi_union_alloc(unsigned int blocks)
{
	struct psi_union *use;

	return kvzalloc(struct_size(use, blocks, blocks), GFP_KERNEL_ACCOUNT);
}

/* CPUs that share a cache by now have one block. One that comes later joins the first. */
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
	psi_nr_blocks = nr;
	return 0;
}
core_initcall(psi_union_init);
