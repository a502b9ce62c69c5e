// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: memory of groups on CPUs
 *
 *   A group has a struct psi_group_cpu on each CPU that it was ever in use on, and a pointer
 *   for each other one: ten thousand cgroups on 512 CPUs run on a few CPUs each. The first
 *   task of a group that is counted on a CPU needs that memory, with the runqueue locked,
 *   where nothing can be allocated. So each CPU has some in reserve, and a work fills it up:
 *
 *	enqueue, runqueue locked	irq_work	work
 *	take from the reserve
 *	half of it is left ---------->	queue_work --->	allocate, lock the runqueue, add
 *
 *   A task that waits for io is counted on the CPU where it fell asleep, even if that goes
 *   offline. So the work fills the reserves that ran low, also those of CPUs that are offline.
 *
 *   The change that the task makes goes up, and each group that it reaches joins the list of
 *   the fold on that CPU. Then the next group above needs memory there, too.
 *
 *   A group with limits (psi_limit.c) takes two pieces: one is for the part about limits.
 *
 *   If the reserve is empty, the task, or the group that joins, is counted in the next group
 *   above that has memory on the CPU. The system has it on each. For that group and all above
 *   this is exact. The groups in between do not see the task until the work has allocated
 *   memory. Then psi_cgroup_rehome_all() moves what was counted above:
 *
 *	  A		  A		  A
 *	  |		  | \		  |
 *	 (B) no memory	 (B) t	--->	  B	after the work
 *	  |				  |
 *	  t wakes up			  t
 *
 * The invariants: the pointer of a group on a CPU changes once in its life, under the lock of
 * the runqueue and psi_group.lock. Once a group has limits, it has memory for these on each CPU
 * that it has memory on: both come at once under psi_group.lock. A contributor with attributes
 * is counted in a group that has memory on its CPU. If that is not the one it belongs to,
 * psi_reserve_short is set, psi_cgroup_rehome_all() is under way, or it is a dying task.
 */

/*
 * The work is asked for when half is left. Until it has run, the other half serves some
 * containers of some levels each. More would be memory for nothing on CPUs with few groups.
 */
#define PSI_RESERVE		64

/* That long after there was no memory the work tries again. */
#define PSI_RESERVE_RETRY	HZ

/**
 * struct psi_reserve - memory for groups on one CPU
 * @free: the pieces
 * @nr: how many there are
 * @wanted: there may be too few, so the work has to look
 *
 * Changes under the lock of the CPU's runqueue.
 */
struct psi_reserve {
	union psi_memory	*free;
	unsigned int		nr;
	bool			wanted;
};

static DEFINE_PER_CPU(struct psi_reserve, psi_reserves);
static struct kmem_cache *psi_cpu_cache;

/* A task is counted above the group it belongs to, as a reserve was empty. */
static atomic_t psi_reserve_short;

/* Some CPU has too little. A hint: the work does not depend on it. */
static bool psi_reserve_asked;

static void psi_reserve_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(psi_reserve_worker, psi_reserve_work);

/* It waits for cgroup_mutex. Meanwhile the other one fills reserves. */
static void psi_rehome_work(struct work_struct *work);
static DECLARE_WORK(psi_rehome_worker, psi_rehome_work);

/*
 * Its threads run on housekeeping CPUs, and at high priority: the tasks that used up the
 * reserve must not delay it.
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
static union psi_memory *psi_memory_alloc(int cpu)
{
	return kmem_cache_alloc_node(psi_cpu_cache, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN,
				     cpu_to_node(cpu));
}

static void psi_memory_free(void *memory)
{
	if (memory)
		kmem_cache_free(psi_cpu_cache, memory);
}

/* A piece of a reserve, which has one. The runqueue is locked. */
static union psi_memory *psi_reserve_take(struct psi_reserve *reserve)
{
	union psi_memory *memory = reserve->free;

	reserve->free = memory->next;
	WRITE_ONCE(reserve->nr, reserve->nr - 1);
	memory->next = NULL;
	return memory;
}

/* Let a group be in use on a CPU, with zeroed memory. Its lock is held, if others see it. */
static void psi_group_install(struct psi_group *group, int cpu, struct psi_group_cpu *gc)
{
	gc->group = group;
	gc->enabled = PSI_ALL_STATES;
	gc->slow = PSI_ALL_STATES;
	gc->level = group->level;
	/* Readers find it by the bit that psi_fold_join() sets. */
	WRITE_ONCE(group->cpus[cpu], gc);
	/* Pairs with psi_limits_alloc(). */
	smp_store_release(&group->nr_cpus, group->nr_cpus + 1);
}

/* The same with memory from the reserve of the CPU, false if that has too little. */
static bool psi_group_begin(struct psi_group *group, int cpu)
{
	struct psi_reserve *reserve = per_cpu_ptr(&psi_reserves, cpu);
	struct psi_limits *limits;
	bool enough;

	raw_spin_lock(&group->lock);
	limits = group->limits;
	enough = reserve->nr >= (limits ? 2 : 1);
	if (enough) {
		if (limits)
			limits->cpus[cpu] = &psi_reserve_take(reserve)->limit_cpu;
		psi_group_install(group, cpu, &psi_reserve_take(reserve)->group_cpu);
	}
	raw_spin_unlock(&group->lock);
	/* Before the work is asked for, which looks at it. */
	if (!enough)
		atomic_set(&psi_reserve_short, 1);
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
 *
 * Context: The runqueue lock of the CPU is held.
 * Return: the group from @group up that can count there now: @group, if there was memory
 */
static struct psi_group *psi_group_extend(struct psi_group *group, int cpu)
{
	while (!group->cpus[cpu] && !psi_group_begin(group, cpu))
		group = READ_ONCE(group->parent) ?: &psi_system;
	return group;
}

/* Add memory to the reserve of a CPU; false if there is not enough. */
static bool psi_reserve_fill(int cpu)
{
	struct psi_reserve *reserve = per_cpu_ptr(&psi_reserves, cpu);
	union psi_memory *memory, *first = NULL, *last = NULL;
	unsigned int nr = READ_ONCE(reserve->nr), added;
	struct rq_flags rf;

	for (added = 0; nr + added < PSI_RESERVE; added++) {
		memory = psi_memory_alloc(cpu);
		if (!memory)
			break;
		memory->next = first;
		first = memory;
		last = last ?: memory;
	}
	if (!first)
		return nr >= PSI_RESERVE;
	rq_lock_irqsave(cpu_rq(cpu), &rf);
	last->next = reserve->free;
	reserve->free = first;
	WRITE_ONCE(reserve->nr, reserve->nr + added);
	WRITE_ONCE(reserve->wanted, reserve->nr <= PSI_RESERVE / 2);
	rq_unlock_irqrestore(cpu_rq(cpu), &rf);
	return nr + added == PSI_RESERVE;
}

/* Fill up the reserve of each CPU that wants it, false if one of them got too little. */
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
	if (!psi_reserve_refill())
		queue_delayed_work(psi_wq, &psi_reserve_worker, PSI_RESERVE_RETRY);
	else if (atomic_read(&psi_reserve_short))
		queue_work(psi_wq, &psi_rehome_worker);
}

static void psi_rehome_work(struct work_struct *work)
{
	psi_cgroup_rehome_all();
}

/**
 * psi_group_alloc_cpus - give a group a place for its memory on each CPU
 * @group: the group, without any
 * @gfp: how to allocate
 *
 * Return: false without memory.
 */
bool psi_group_alloc_cpus(struct psi_group *group, gfp_t gfp)
{
	group->cpus = kvcalloc(nr_cpu_ids, sizeof(*group->cpus), gfp);
	return group->cpus;
}

/* The same backwards, with the memory itself. Nobody uses the group any more. */
void psi_group_free_cpus(struct psi_group *group)
{
	int cpu;

	if (!group->cpus)
		return;
	for_each_possible_cpu(cpu)
		psi_memory_free(group->cpus[cpu]);
	kvfree(group->cpus);
}

/* A CPU comes. Without memory, the first task of a group there asks for some. */
static int psi_reserve_prepare(unsigned int cpu)
{
	psi_reserve_fill(cpu);
	return 0;
}

static int __init psi_reserve_init(void)
{
	/* What is about limits must not make a piece larger than the two lines of a group. */
	BUILD_BUG_ON(IS_ENABLED(CONFIG_64BIT) && !IS_ENABLED(CONFIG_PSI_DEBUG) &&
		     sizeof(struct psi_limit_cpu) > 128);
	psi_cpu_cache = kmem_cache_create("psi_group_cpu", sizeof(union psi_memory),
					  __alignof__(union psi_memory),
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
