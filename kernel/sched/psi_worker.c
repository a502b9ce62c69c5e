// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the threads, and what wakes them
 *
 *   Three threads do the periodic work of PSI: one folds times, two serve
 *   triggers. A worker has an inbox. The scheduler adds to it under a runqueue
 *   lock and kicks the worker by an irq_work, as no wake-up is possible there:
 *	walk, runqueue locked		irq_work		worker
 *	llist_add(inbox)
 *	psi_kick() ------------------>	wake_up_process() --->	work(), sleeps
 *								until due, or a
 *								kick
 *
 *   With an empty inbox and nothing due a worker sleeps without a timer, so an
 *   idle machine runs nothing. Workers are not counted: they would be the
 *   activity that keeps them running. So their timers expire in hard interrupt
 *   context on PREEMPT_RT too, not in a thread that is counted.
 *   Workers, their timers and kicks stay on housekeeping CPUs. A worker that
 *   wakes up on a CPU that is isolated by now leaves it.
 */

#define PSI_NEVER		U64_MAX

/*
 * A thread and what it has to do; times are ns of psi_read_clock()
 * @work: does what is due; returns when to call it again, or PSI_NEVER
 * @realtime: run at the lowest real-time priority
 * @prompt: a kick ends any sleep, not only one without a timer
 * @began: when it last woke up; later by its breaks
 * @rested: when that was, or the end of its last break
 * @inbox: work that others add
 * @idle: 1 while the thread sleeps so that a kick has to wake it: always, if
 *	  @prompt, else only without a timer
 * @again: it calls @work once more before it sleeps
 * @cpus: where the thread may run, as of when it last left a CPU
 */
struct psi_worker {
	const char		*name;
	u64			(*work)(struct psi_worker *worker);
	bool			realtime;
	bool			prompt;
	u64			began;
	u64			rested;
	struct llist_head	inbox;
	struct task_struct	*thread;
	atomic_t		idle;
	atomic_t		again;
	struct irq_work		kick;
	struct cpumask		cpus;
};

/* Folds; its inbox has groups that join the list. */
static struct psi_worker psi_folder = { .name = "psi" };

/* Serve triggers; their inboxes have alarms. */
static struct psi_worker psi_monitors[PSI_NR_PRIOS] = {
	[PSI_NORMAL] = { .name = "psi_watch", .prompt = true },
	[PSI_REALTIME] = { .name = "psi_watch_rt", .prompt = true, .realtime = true },
};

/* Where one of the workers woke up last. */
static int psi_worker_cpu;

/* In an RCU read section, or IRQs off: partitions replace the mask. */
static bool psi_worker_may_run(int cpu)
{
	return housekeeping_test_cpu(cpu, HK_TYPE_KTHREAD) && !cpu_is_isolated(cpu);
}

static void psi_worker_wake(struct irq_work *work)
{
	wake_up_process(container_of(work, struct psi_worker, kick)->thread);
}

/*
 * Run an irq_work (hard, also on PREEMPT_RT) on a CPU that may. With interrupts
 * off no other CPU finishes going offline; this one, on its way down, has
 * already served its last.
 */
static void psi_kick_by(struct irq_work *kick)
{
	int cpu = smp_processor_id();

	if (!psi_worker_may_run(cpu) || !cpu_online(cpu))
		cpu = READ_ONCE(psi_worker_cpu);
	if (!cpu_online(cpu))
		cpu = cpumask_any(cpu_online_mask);
	irq_work_queue_on(kick, cpu);
}

/* Wake a worker after adding to its inbox. Interrupts are disabled. */
static void psi_kick(struct psi_worker *worker)
{
	/* llist_add() was a full barrier, see psi_worker_sleep(). */
	if (atomic_read(&worker->idle) && atomic_xchg(&worker->idle, 0))
		psi_kick_by(&worker->kick);
}

/* Have a worker call its work soon, even if it is about to sleep. */
static void psi_worker_again(struct psi_worker *worker)
{
	atomic_set(&worker->again, 1);
	wake_up_process(worker->thread);
}

/* Stall in @states may have begun: have the monitor look. IRQs are off. */
static void psi_raise_alarm(struct psi_watch *watch, unsigned int states, u64 now)
{
	struct psi_worker *worker = &psi_monitors[watch->prio];

	if (!(states & READ_ONCE(watch->alarm_states)))
		return;
	/* Many CPUs may write that line at once: look before. */
	if (!(states & ~atomic_read(&watch->alarm_begun)) ||
	    atomic_fetch_or(states, &watch->alarm_begun))
		return;
	refcount_inc(&watch->group->refs);
	watch->alarm_since = now;
	llist_add(&watch->alarm, &worker->inbox);
	psi_kick(worker);
}

static void psi_raise_alarms(struct psi_group *group, unsigned int states, u64 now)
{
	int prio;

	/* Pairs with psi_watch_cells() and psi_watch_answer(). */
	smp_mb();
	for (prio = 0; prio < PSI_NR_PRIOS; prio++) {
		struct psi_watch *watch = READ_ONCE(group->watch[prio]);

		if (watch)
			psi_raise_alarm(watch, states, now);
	}
}

/* Whether a sampler is at work or will be at once: CPUs must stay listed. */
static bool psi_sampling(const struct psi_group *group)
{
	int prio;

	for (prio = 0; prio < PSI_NR_PRIOS; prio++) {
		struct psi_watch *watch = READ_ONCE(group->watch[prio]);

		/* psi_watch_answer() writes them in the opposite order. */
		if (watch && (atomic_read_acquire(&watch->alarm_begun) ||
			      READ_ONCE(watch->at_work)))
			return true;
	}
	return false;
}

/* Sleep until @next or a kick. An early wake-up does no harm. */
static void psi_worker_sleep(struct psi_worker *worker, u64 next)
{
	u64 now = psi_read_clock();
	ktime_t timeout;

	set_current_state(TASK_IDLE);
	if (next == PSI_NEVER || worker->prompt) {
		/*
		 * Pairs with psi_kick(): it looks at ->idle after llist_add(),
		 * which is a full barrier. One of the two sees the other.
		 */
		atomic_xchg(&worker->idle, 1);
		if (!llist_empty(&worker->inbox))
			next = now;
	}
	/* Pairs with psi_worker_again(), which looks at the state. */
	if (atomic_xchg(&worker->again, 0))
		next = now;
	if (next == PSI_NEVER) {
		schedule();
	} else if (next > now) {
		timeout = ns_to_ktime(next - now);
		schedule_hrtimeout(&timeout, HRTIMER_MODE_REL_PINNED_HARD);
	}
	__set_current_state(TASK_RUNNING);
	atomic_set(&worker->idle, 0);
}

/* Leave a CPU where workers may not run, unless there is no other. */
static void psi_worker_settle(struct psi_worker *worker)
{
	bool leave;
	int cpu;

	rcu_read_lock();
	leave = !psi_worker_may_run(raw_smp_processor_id());
	if (unlikely(leave)) {
		for_each_possible_cpu(cpu)
			__assign_bit(cpu, cpumask_bits(&worker->cpus),
				     psi_worker_may_run(cpu));
	}
	rcu_read_unlock();
	if (unlikely(leave))
		set_cpus_allowed_ptr(current, &worker->cpus);
	WRITE_ONCE(psi_worker_cpu, raw_smp_processor_id());
}

/* A thread that was made just now is asleep, and counted as nothing. */
static void psi_ignore_thread(struct task_struct *thread)
{
	wait_task_inactive(thread, TASK_UNINTERRUPTIBLE);
	guard(task_rq_lock)(thread);
	psi_ignore(thread);
	thread->psi.worker = true;
}

static int psi_worker_run(void *arg)
{
	struct psi_worker *worker = arg;

	for (;;) {
		psi_worker_settle(worker);
		worker->began = psi_read_clock();
		worker->rested = worker->began;
		psi_worker_sleep(worker, worker->work(worker));
		cond_resched();
	}
	return 0;
}

static void __init psi_worker_start(struct psi_worker *worker,
				    u64 (*work)(struct psi_worker *worker))
{
	worker->work = work;
	worker->kick = IRQ_WORK_INIT_HARD(psi_worker_wake);
	worker->thread = kthread_create(psi_worker_run, worker, "%s", worker->name);
	if (IS_ERR(worker->thread))
		panic("psi: no thread %s", worker->name);
	psi_ignore_thread(worker->thread);
	if (worker->realtime)
		sched_set_fifo_low(worker->thread);
	wake_up_process(worker->thread);
}
