// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: groups and their cells
 *
 * Lifetime
 *   A group comes with its cgroup and is freed when the cgroup, the fold, the
 *   strays, the monitors and psi_asked have let go of it.
 *
 * Reserve
 *   A group has a cell on each CPU that it was ever in use on: of ten thousand
 *   cgroups on 512 CPUs each runs on a few. The first task of a group on a CPU
 *   needs a cell with the runqueue locked, where nothing can be allocated. So
 *   each CPU has some in reserve, and a work fills it up:
 *	enqueue, runqueue locked	irq_work	work
 *	take from the reserve
 *	half of it is left ---------->	queue_work --->	allocate, lock the
 *							runqueue, add
 *
 *   A task that waits for io is counted on the CPU where it fell asleep, even
 *   if that goes offline. So the work fills those of offline CPUs, too. Each
 *   group that the change of a task reaches joins the list, and then the next
 *   above needs a cell there. If the reserve is empty, the next above with a
 *   cell there counts the task, or the group that joins; the system has one on
 *   each CPU. For that group and all above this is exact. Those in between do
 *   not see the contributor until psi_strays_work() moves it home:
 *	  A		  A		  A
 *	  |		  | \		  |
 *	 (B) no cell	 (B) t	--->	  B	after the work
 *	  |				  |
 *	  t wakes up			  t
 *
 *   No cgroup pays for a reserve. A cell is paid for from the next fold on.
 *   The invariants: the pointer to a cell changes once, under the lock of the
 *   runqueue. A contributor with attributes is counted in a group that has a
 *   cell on its CPU. If that is not its home, its group is in psi_strays,
 *   psi_moves is above zero, or it is a dying task.
 */

static DEFINE_PER_CPU(struct psi_group_cpu, psi_system_cpus);
struct psi_group psi_system = {
	.id = 1,
#ifdef CONFIG_PSI_CAUSES
	.causes = psi_system_causes,
#endif
};

/* Half is left when the work is asked for: enough for some containers. */
#define PSI_RESERVE		64

/* The work waits so long after it found too little memory. */
#define PSI_RESERVE_RETRY	HZ

/*
 * The reserve of a CPU: memory for cells, linked by @up. Changes under the lock
 * of the runqueue. @wanted: there may be too little, so the work has to look.
 */
struct psi_reserve {
	struct psi_group_cpu	*free;
	unsigned int		nr;
	bool			wanted;
};

static DEFINE_PER_CPU(struct psi_reserve, psi_reserves);
static struct kmem_cache *psi_cpu_cache;
static struct kmem_cache *psi_group_cache;

/* Groups counted above their parent, or with a task or child counted above. */
static LLIST_HEAD(psi_strays);

static void psi_reserve_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(psi_reserve_worker, psi_reserve_work);

/* Moves strays (psi_cgroup.c), and may wait for cgroup_mutex meanwhile. */
static struct work_struct psi_strays_worker;

/*
 * That of reserves runs at high priority: the tasks that used one up must not
 * delay the work that fills it, which does not grow with what others have.
 */
static struct workqueue_struct *psi_reserve_wq;
static struct workqueue_struct *psi_wq;

static void psi_reserve_kick(struct irq_work *work)
{
	/* Unit tests also run where PSI is off. */
	if (psi_reserve_wq)
		queue_delayed_work(psi_reserve_wq, &psi_reserve_worker, 0);
}

static struct irq_work psi_reserve_kicker = IRQ_WORK_INIT_HARD(psi_reserve_kick);

static bool psi_reserve_fill(int cpu)
{
	struct psi_reserve *reserve = per_cpu_ptr(&psi_reserves, cpu);
	gfp_t flags = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN;

	while (READ_ONCE(reserve->nr) < PSI_RESERVE) {
		struct psi_group_cpu *memory =
			kmem_cache_alloc_node(psi_cpu_cache, flags, cpu_to_node(cpu));

		if (!memory)
			return false;
		guard(rq_lock_irqsave)(cpu_rq(cpu));
		memory->up = reserve->free;
		reserve->free = memory;
		WRITE_ONCE(reserve->nr, reserve->nr + 1);
		if (reserve->nr > PSI_RESERVE / 2)
			WRITE_ONCE(reserve->wanted, false);
	}
	return true;
}

static bool psi_reserve_refill(void)
{
	bool filled = true;
	int cpu;

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
		queue_delayed_work(psi_reserve_wq, &psi_reserve_worker, PSI_RESERVE_RETRY);
	else if (!llist_empty(&psi_strays))
		queue_work(psi_wq, &psi_strays_worker);
}

static void psi_group_init(struct psi_group *group, struct psi_group *parent, int level)
{
	refcount_set(&group->refs, 1);
	group->parent = parent;
	group->level = level;
	seqcount_init(&group->seq);
	group->plain.avgs.at = psi_read_clock();
}

static void psi_group_free(struct rcu_head *rcu)
{
	struct psi_group *group = container_of(rcu, struct psi_group, rcu);
	int cpu, prio;

	for (cpu = 0; group->cpus && cpu < nr_cpu_ids; cpu++)
		kfree(group->cpus[cpu]);
	kvfree(group->cpus);
	free_cpumask_var(group->cpumask);
	kfree(group->accounts);
	kfree(group->causes);
	for (prio = 0; prio < PSI_NR_PRIOS; prio++)
		kfree(group->watch[prio]);
	kfree(group);
}

/* Readers may still be looking through the delegation of a parent. */
static void psi_group_put(struct psi_group *group)
{
	if (refcount_dec_and_test(&group->refs))
		call_rcu(&group->rcu, psi_group_free);
}

/*
 * Have psi_take_watched() called when a state of @states, which are in
 * ->watched, begins. Return those that hold somewhere: they are not reported.
 * A CPU off the list calls it anyway at its next activity. Where another CPU
 * may be about to write what is read here, this takes its runqueue lock.
 */
static unsigned int psi_watch_cells(struct psi_group *group, unsigned int states)
{
	unsigned int hold = 0;
	int cpu;

	/*
	 * Pairs with psi_take_watched() and psi_delegate(). Also with
	 * psi_raise_alarms(): a CPU that begins a state then looks at
	 * psi_watch.alarm_states. One of the two sees the other.
	 */
	smp_mb();
	psi_for_each_cpu(cpu, group) {
		struct psi_group_cpu *gc = group->cpus[cpu];
		/* Before ->states: what is asked for here has not begun. */
		unsigned int slow = smp_load_acquire(&gc->slow);

		if (READ_ONCE(gc->streak) != PSI_DELEGATES && !(states & ~slow)) {
			hold |= READ_ONCE(gc->states) & states;
			continue;
		}
		guard(rq_lock_irqsave)(cpu_rq(cpu));
		psi_stop_delegating(gc, cpu);
		WRITE_ONCE(gc->slow, gc->slow | states);
		hold |= gc->states & states;
	}
	return hold;
}

/* Without memory, the first task of a group there asks for some. */
static int psi_reserve_prepare(unsigned int cpu)
{
	psi_reserve_fill(cpu);
	return 0;
}

static int __init psi_reserve_init(void)
{
	psi_cpu_cache = KMEM_CACHE(psi_group_cpu, SLAB_HWCACHE_ALIGN | SLAB_PANIC);
	psi_group_cache = KMEM_CACHE(psi_group, SLAB_PANIC);
	if (!psi_enabled())
		return 0;
	psi_reserve_wq = alloc_workqueue("psi_reserve",
					 WQ_UNBOUND | WQ_HIGHPRI, 0);
	psi_wq = alloc_workqueue("psi", WQ_UNBOUND, 0);
	if (!psi_reserve_wq || !psi_wq)
		panic("psi: no memory for a workqueue");
	if (!IS_ENABLED(CONFIG_CGROUPS))
		return 0;
	cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, "sched/psi:prepare", psi_reserve_prepare, NULL);
	return 0;
}
core_initcall(psi_reserve_init);
