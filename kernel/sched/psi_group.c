// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: groups and their cells
 *
 * Lifetime
 *
 *   A group comes with its cgroup and is freed when the last list, sampler or
 *   reader lets go of it. While it exists, it may be watched, and be asked.
 *   Both visit the group CPU by CPU, under the runqueue lock where the group is
 *   in use.
 *
 * Reserve
 *
 *   A group has a cell on each CPU that it was ever in use on, and a NULL
 *   pointer for each other one: ten thousand cgroups on 512 CPUs run on a few
 *   CPUs each. The first task of a group that is counted on a CPU needs a cell,
 *   with the runqueue locked, where nothing can be allocated. So each CPU has
 *   some in reserve, and a work fills it up:
 *
 *	enqueue, runqueue locked	irq_work	work
 *	take from the reserve
 *	half of it is left ---------->	queue_work --->	allocate, lock the
 *							runqueue, add
 *
 *   A task that waits for io is counted on the CPU where it fell asleep, even
 *   if that goes offline. So the work fills the reserves that ran low, also
 *   those of CPUs that are offline. The change that a task makes goes up, and
 *   each group that it reaches joins the list on that CPU. Then the next group
 *   above needs a cell there, too. A group that is asked takes two pieces, see
 *   psi_asked.c.
 *
 *   If the reserve is empty, the task, or the group that joins, is counted in
 *   the next group above that has a cell on the CPU. The system has one on
 *   each. For that group and all above this is exact. The groups in between do
 *   not see the contributor until psi_strays_work() moves it to its home:
 *
 *	  A		  A		  A
 *	  |		  | \		  |
 *	 (B) no cell	 (B) t	--->	  B	after the work
 *	  |				  |
 *	  t wakes up			  t
 *
 *   No cgroup pays for a reserve. The next fold of a group that took a cell has
 *   its memory cgroup pay.
 *
 *   The invariants: the pointer to a cell changes once, under the lock of the
 *   runqueue. A contributor with attributes is counted in a group that has a
 *   cell on its CPU. If that is not its home, its group is in psi_strays,
 *   psi_moves is above zero, or it is a dying task.
 */

/*
 * The work is asked for when half is left. Until it has run, the other half
 * serves some containers of some levels each. More would be memory for nothing
 * on CPUs with few groups.
 */
#define PSI_RESERVE		64

/* The work tries again that long after it found too little memory. */
#define PSI_RESERVE_RETRY	HZ

/**
 * struct psi_reserve - memory for cells on one CPU
 * @free: the pieces, linked by @up
 * @nr: how many there are
 * @wanted: there may be too few, so the work has to look
 *
 * Changes under the lock of the CPU's runqueue.
 */
struct psi_reserve {
	struct psi_group_cpu	*free;
	unsigned int		nr;
	bool			wanted;
};

static DEFINE_PER_CPU(struct psi_reserve, psi_reserves);
static struct kmem_cache *psi_cpu_cache;

/*
 * Groups that are counted above their parent, or that have a task or a child
 * which is counted above them.
 */
static LLIST_HEAD(psi_strays);

/*
 * Some CPU has too little. A hint, so that not every stray has all CPUs looked
 * at: the work does not depend on it.
 */
static bool psi_reserve_asked;

static void psi_reserve_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(psi_reserve_worker, psi_reserve_work);

/* It waits for cgroup_mutex. Meanwhile the other one fills reserves. */
static DECLARE_WORK(psi_strays_worker, psi_strays_work);

/*
 * Its threads run on housekeeping CPUs, and at high priority: the tasks that
 * used up a reserve must not delay the work that fills it. That work does not
 * grow with what others have.
 */
static struct workqueue_struct *psi_wq;

static void psi_reserve_kick(struct irq_work *work)
{
	/* Unit tests also run where PSI is off. */
	if (psi_wq)
		queue_delayed_work(psi_wq, &psi_reserve_worker, 0);
}

static struct irq_work psi_reserve_kicker = IRQ_WORK_INIT_HARD(psi_reserve_kick);

/* Memory for a CPU, zeroed, NULL without. May sleep. */
static void *psi_memory_alloc(int cpu, gfp_t gfp)
{
	return kmem_cache_alloc_node(psi_cpu_cache, gfp | __GFP_ZERO | __GFP_NOWARN,
				     cpu_to_node(cpu));
}

static void psi_memory_free(void *memory)
{
	if (memory)
		kmem_cache_free(psi_cpu_cache, memory);
}

/* A piece of a reserve, which has one. The runqueue is locked. */
static struct psi_group_cpu *psi_reserve_take(struct psi_reserve *reserve)
{
	struct psi_group_cpu *memory = reserve->free;

	reserve->free = memory->up;
	WRITE_ONCE(reserve->nr, reserve->nr - 1);
	memory->up = NULL;
	return memory;
}

/* Let a group be in use on a CPU, with zeroed memory. */
static void psi_group_install(struct psi_group *group, int cpu, struct psi_group_cpu *gc)
{
	gc->group = group;
	gc->slow = PSI_ALL_STATES;
	gc->streak = PSI_STREAK;
	/* Readers find it by the bit that psi_fold_join() sets. */
	WRITE_ONCE(group->cpus[cpu], gc);
}

/*
 * Let a group be in use on a CPU, with memory from the reserve of the CPU.
 * Return false if that has too little.
 */
static bool psi_group_begin(struct psi_group *group, int cpu)
{
	struct psi_reserve *reserve = per_cpu_ptr(&psi_reserves, cpu);
	/* One for the cell, and one in case somebody asks by now. */
	bool enough = reserve->nr > 1;

	if (enough) {
		psi_group_install(group, cpu, psi_reserve_take(reserve));
		/*
		 * Pairs with psi_asked_fill(): it sees the cell, or this sees
		 * what it wants. And with psi_cgroup_charge(): it sees the
		 * cell, or the group owes.
		 */
		smp_mb();
		WRITE_ONCE(group->owes, true);
		if (psi_asked_wants(group, cpu))
			psi_asked_give(group, cpu, psi_reserve_take(reserve));
	}
	if (reserve->nr <= PSI_RESERVE / 2) {
		WRITE_ONCE(reserve->wanted, true);
		if (!READ_ONCE(psi_reserve_asked))
			WRITE_ONCE(psi_reserve_asked, true);
		psi_kick_by(&psi_reserve_kicker);
	}
	return enough;
}

/**
 * psi_group_extend - have a group be able to count on a CPU
 * @group: the group
 * @cpu: the CPU
 * @child: the contributor that it is to count, %NULL for a task
 *
 * Context: The runqueue lock of the CPU is held.
 * Return: the group from @group up that can count there now: @group, if there
 *	   was memory
 */
struct psi_group *psi_group_extend(struct psi_group *group, int cpu, struct psi_group *child)
{
	struct psi_group *to = group, *stray = child ?: group;

	while (!to->cpus[cpu] && !psi_group_begin(to, cpu))
		to = READ_ONCE(to->parent) ?: &psi_system;
	if (unlikely(to != group) && !atomic_xchg(&stray->stray, 1)) {
		refcount_inc(&stray->refs);
		llist_add(&stray->strays, &psi_strays);
	}
	return to;
}

/* Add a piece to a reserve. The runqueue is locked. */
static void psi_reserve_put(struct psi_reserve *reserve, struct psi_group_cpu *memory)
{
	memory->up = reserve->free;
	reserve->free = memory;
	WRITE_ONCE(reserve->nr, reserve->nr + 1);
	if (reserve->nr > PSI_RESERVE / 2)
		WRITE_ONCE(reserve->wanted, false);
}

/* Add memory to the reserve of a CPU; false if there is not enough. */
static bool psi_reserve_fill(int cpu)
{
	struct psi_reserve *reserve = per_cpu_ptr(&psi_reserves, cpu);

	while (READ_ONCE(reserve->nr) < PSI_RESERVE) {
		struct psi_group_cpu *memory = psi_memory_alloc(cpu, GFP_KERNEL);

		if (!memory)
			return false;
		guard(rq_lock_irqsave)(cpu_rq(cpu));
		psi_reserve_put(reserve, memory);
	}
	return true;
}

/*
 * Fill up the reserve of each CPU that wants it, false if one of them got too
 * little.
 */
static bool psi_reserve_refill(void)
{
	bool filled = true;
	int cpu;

	WRITE_ONCE(psi_reserve_asked, false);
	for_each_possible_cpu(cpu) {
		if (!READ_ONCE(per_cpu(psi_reserves.wanted, cpu)))
			continue;
		filled &= psi_reserve_fill(cpu);
		cond_resched();
	}
	return filled;
}

static void psi_reserve_work(struct work_struct *work)
{
	bool filled = psi_reserve_refill();

	/*
	 * psi_group_extend() says that there is too little, then adds a stray;
	 * here it is the other way round.
	 */
	smp_rmb();
	if (!filled)
		queue_delayed_work(psi_wq, &psi_reserve_worker, PSI_RESERVE_RETRY);
	else if (!llist_empty(&psi_strays))
		queue_work(psi_wq, &psi_strays_worker);
}

/* Free the cells of a group that is not in use any more, and their place. */
static void psi_group_free_cpus(struct psi_group *group)
{
	int cpu;

	if (!group->cpus)
		return;
	for_each_possible_cpu(cpu)
		psi_memory_free(group->cpus[cpu]);
	kvfree(group->cpus);
}

static void psi_group_init(struct psi_group *group, struct psi_group *parent, int level)
{
	refcount_set(&group->refs, 1);
	group->parent = parent;
	group->level = level;
	seqcount_init(&group->seq);
	psi_avgs_init(&group->plain.avgs, psi_read_clock());
}

static void psi_group_free(struct rcu_head *rcu)
{
	struct psi_group *group = container_of(rcu, struct psi_group, rcu);
	int prio;

	psi_group_free_cpus(group);
	free_cpumask_var(group->cpumask);
	kfree(rcu_access_pointer(group->off));
	kfree(group->accounts);
	psi_causes_free(group);
	for (prio = 0; prio < PSI_NR_PRIOS; prio++)
		kfree(group->watch[prio]);
	kfree(group);
}

/* Readers may still be looking through the delegation of a parent. */
void psi_group_put(struct psi_group *group)
{
	if (refcount_dec_and_test(&group->refs))
		call_rcu(&group->rcu, psi_group_free);
}

/**
 * psi_watch - have psi_take_watched() called when a state begins
 * @group: the group, with the states in its ->watched
 * @states: the states
 *
 * A CPU that is not on the list of the fold calls it at its next activity in
 * any case, so only the others are visited. This takes the runqueue lock only
 * where the cell delegates, or lacks one of @states in ->slow. It is safe not
 * to: psi_take_watched() and psi_delegate() write what is read here, and then
 * read ->watched.
 *
 * Context: Process context.
 * Return: the states that hold somewhere: nothing will be reported of these.
 */
static unsigned int psi_watch(struct psi_group *group, unsigned int states)
{
	unsigned int hold = 0;
	int cpu;

	/* Pairs with psi_take_watched() and psi_delegate(). */
	smp_mb();
	psi_for_each_cpu(cpu, group) {
		struct psi_group_cpu *gc = group->cpus[cpu];
		seqcount_t *seq = &cpu_rq(cpu)->psi_seq;
		/* Before ->states: what is asked for here has not begun. */
		unsigned int slow = smp_load_acquire(&gc->slow);

		if (READ_ONCE(gc->streak) != PSI_DELEGATES && !(states & ~slow)) {
			hold |= READ_ONCE(gc->states) & states;
			continue;
		}
		guard(rq_lock_irqsave)(cpu_rq(cpu));
		raw_write_seqcount_begin(seq);
		psi_undelegate(gc);
		raw_write_seqcount_end(seq);
		gc->slow |= states;
		hold |= gc->states & states;
	}
	return hold;
}

/**
 * psi_adopt - count a group in its parent that was counted above, if possible
 * @gc: its cell on a CPU
 * @cpu: the CPU
 * @now: ns of rq_clock()
 *
 * Context: The runqueue lock of the CPU is held.
 */
static void psi_adopt(struct psi_group_cpu *gc, int cpu, u64 now)
{
	struct psi_group_cpu *from = gc->parent, *d = psi_chain_end(gc), *to;
	unsigned int attrs = d->attrs;

	/* A CPU that is not on the list learns it when it joins. */
	if (!psi_listed(gc, cpu))
		return;
	to = psi_group_extend(gc->group->parent, cpu, gc->group)->cpus[cpu];
	if (from == to)
		return;
	raw_write_seqcount_begin(&cpu_rq(cpu)->psi_seq);
	psi_undelegate_parent(gc);
	raw_write_seqcount_end(&cpu_rq(cpu)->psi_seq);
	psi_walk(from, psi_counts_diff(attrs, 0), to, psi_counts_of(attrs), cpu_rq(cpu), now);
	gc->parent = to;
	d->up = to;
}

static int __init psi_setup(char *str)
{
	return kstrtobool(str, &psi_enable) == 0;
}
__setup("psi=", psi_setup);

/* Before the first task is queued. */
void __init psi_init(void)
{
	unsigned int attrs;
	int cpu;

	/* A switch stays within the first line of a group on a CPU. */
	BUILD_BUG_ON(offsetof(struct psi_group_cpu, times[PSI_IO_SOME]) > 64);

	for (attrs = 0; attrs < PSI_NR_ATTR_SETS; attrs++) {
		psi_sched_counts[attrs] = psi_sched_counts_of(attrs);
		psi_states[attrs] = psi_states_of(attrs);
	}

	for_each_possible_cpu(cpu)
		seqcount_init(&cpu_rq(cpu)->psi_seq);

	if (!psi_enable) {
		static_branch_enable(&psi_disabled);
		return;
	}
	psi_system.cpus = kcalloc(nr_cpu_ids, sizeof(*psi_system.cpus), GFP_NOWAIT);
	if (!zalloc_cpumask_var(&psi_system.cpumask, GFP_NOWAIT) || !psi_system.cpus)
		panic("psi: no memory for the system");
	psi_group_init(&psi_system, NULL, 0);
	for_each_possible_cpu(cpu)
		psi_group_install(&psi_system, cpu, per_cpu_ptr(&psi_system_cpus, cpu));
}

/*
 * A CPU comes. Without memory, the first task of a group there asks for some.
 */
static int psi_reserve_prepare(unsigned int cpu)
{
	psi_reserve_fill(cpu);
	return 0;
}

static int __init psi_reserve_init(void)
{
	psi_cpu_cache = kmem_cache_create("psi_group_cpu", sizeof(struct psi_group_cpu),
					  __alignof__(struct psi_group_cpu),
					  SLAB_HWCACHE_ALIGN | SLAB_PANIC, NULL);
	if (static_branch_likely(&psi_disabled))
		return 0;
	psi_wq = alloc_workqueue("psi", WQ_UNBOUND | WQ_HIGHPRI, 0);
	if (!psi_wq)
		panic("psi: no memory for a workqueue");
	/* The system has memory on each CPU. */
	if (!IS_ENABLED(CONFIG_CGROUPS))
		return 0;
	cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, "sched/psi:prepare", psi_reserve_prepare, NULL);
	return 0;
}
core_initcall(psi_reserve_init);
