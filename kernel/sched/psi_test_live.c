// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of pressure stall information with tasks, samplers and groups of
 * the running system. The list of all tests is at the end.
 */

#ifdef CONFIG_X86_TSC
#include <asm/tsc.h>
#endif

/* A worker takes a break after PSI_BREAK_NS, and that is no work. */
static void psi_test_break(struct kunit *test)
{
	struct psi_worker *worker = kunit_kzalloc(test, sizeof(*worker), GFP_KERNEL);
	u64 now = psi_read_clock(), began = now - PSI_BREAK_NS;

	KUNIT_ASSERT_NOT_NULL(test, worker);
	worker->began = began;
	worker->rested = now - PSI_BREAK_NS / 2;
	KUNIT_EXPECT_EQ(test, psi_worker_break(worker, now), now);
	KUNIT_EXPECT_EQ(test, worker->rested, now - PSI_BREAK_NS / 2);
	KUNIT_EXPECT_EQ(test, worker->began, began);
	worker->rested = began;
	if (hrtimer_resolution > PSI_BREAK_NS)
		kunit_skip(test, "sleeps end at ticks");
	KUNIT_EXPECT_EQ(test, psi_worker_break(worker, now), worker->rested);
	KUNIT_EXPECT_GE(test, worker->rested, now + PSI_BREAK_NS);
	KUNIT_EXPECT_EQ(test, worker->began - began, worker->rested - now);
}

/* A sampler notes when it took long to add up a sample. */
static void psi_test_sample_late(struct kunit *test)
{
	struct psi_sampler *sampler;
	u64 early = 1, late;
	int i;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	sampler = psi_test_sampler(test, psi_test_watch(test, &psi_system), PSI_PLAIN,
				   PSI_IO_SOME, PSI_TEST_WINDOW);
	/* A host may hold up a virtual machine, but not each time. */
	for (i = 0; i < 100 && early; i++) {
		psi_sampler_update(sampler, local_clock());
		early = sampler->late;
	}
	psi_sampler_update(sampler, local_clock() - 2 * PSI_SAMPLE_NS);
	late = sampler->late;
	psi_sampler_free(sampler);
	KUNIT_EXPECT_EQ(test, early, 0);
	KUNIT_EXPECT_GE(test, late, 2 * PSI_SAMPLE_NS);
}

/*
 * If it takes longer than a step to look at all triggers, the monitor serves
 * other samplers before it comes back.
 */
static void psi_test_check_long(struct kunit *test)
{
	struct psi_watch *watch = psi_test_watch(test, &psi_system);
	const u64 step = 10 * NSEC_PER_USEC;
	const int nr = 5000;
	struct psi_sampler *sampler;
	struct psi_trigger *triggers;
	bool ahead = false;
	int i, late = 0;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	triggers = kunit_kcalloc(test, nr, sizeof(*triggers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, triggers);
	sampler = psi_test_sampler(test, watch, PSI_PLAIN, PSI_NONIDLE, step * PSI_STEPS);
	psi_sampler_queue(sampler, 0);
	for (i = 0; i < nr; i++) {
		triggers[i].threshold = PSI_NEVER;
		list_add(&triggers[i].node, &sampler->triggers);
	}

	/*
	 * A host may hold up a virtual machine right after it, but not each
	 * time.
	 */
	mutex_lock(&watch->lock);
	for (i = 0; i < 10000 && late < 100 && !ahead; i++) {
		u64 begin = local_clock(), end;

		sampler->mark = begin;
		sampler->next = 0;
		psi_sampler_check(sampler);
		end = local_clock();
		/* A clock that counts ticks may stand still meanwhile. */
		if (end <= begin + 2 * step)
			continue;
		ahead = sampler->due.expires + step > end;
		late += !ahead;
	}
	mutex_unlock(&watch->lock);
	psi_sampler_free(sampler);
	KUNIT_EXPECT_TRUE(test, ahead);
}

/*
 * Two tasks arm a trigger in one open file at once: one succeeds, the other
 * gets -EBUSY. f_pos_lock prevents that for write(), but io_uring does not take
 * it.
 */
struct psi_test_race {
	struct psi_trigger *slot;
	struct file file;
	wait_queue_head_t pollers;
	int rounds;
	atomic_t here, armed, refused;
};

/* Return when both tasks are here for the @nr'th time. */
static void psi_test_meet(struct psi_test_race *race, int nr)
{
	atomic_inc_return_release(&race->here);
	while (atomic_read_acquire(&race->here) < 2 * nr) {
		cpu_relax();
		cond_resched();
	}
}

static void psi_test_arm(struct psi_test_race *race)
{
	static const char text[] = "some 150000 1000000";
	u32 late = get_random_u32_below(1 << get_random_u32_below(16));
	int ret;

	/*
	 * Delay one of the two by a random time. CPUs may run in parallel, or
	 * be virtual ones that take long turns. No cpu_relax(): it would end
	 * such a turn.
	 */
	while (late--)
		barrier();
	ret = psi_arm(&race->slot, &psi_system, PSI_MEMORY, text, &race->file, &race->pollers);
	if (ret == -EBUSY)
		atomic_inc(&race->refused);
	else if (!ret)
		atomic_inc(&race->armed);
}

static int psi_test_arm_often(void *arg)
{
	struct psi_test_race *race = arg;
	int i;

	for (i = 0; i < race->rounds; i++) {
		psi_test_meet(race, 2 * i + 1);
		psi_test_arm(race);
		psi_test_meet(race, 2 * i + 2);
	}
	return 0;
}

static void psi_test_arm_race(struct kunit *test)
{
	struct psi_test_race race = { .file.f_cred = current_cred() };
	struct task_struct *other;
	int i;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	init_waitqueue_head(&race.pollers);
	/* With one CPU, the tick switches between the two. */
	race.rounds = num_online_cpus() > 1 ? 4000 : 500;
	other = kthread_create(psi_test_arm_often, &race, "psi_test_arm");
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	get_task_struct(other);
	wake_up_process(other);
	for (i = 0; i < race.rounds; i++) {
		psi_test_meet(&race, 2 * i + 1);
		psi_test_arm(&race);
		psi_test_meet(&race, 2 * i + 2);
		if (race.slot)
			psi_disarm(race.slot);
		race.slot = NULL;
	}
	kthread_stop_put(other);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.armed), race.rounds);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.refused), race.rounds);
}

/* An inner memory stall does not end the outer one. */
static void psi_test_memstall_nests(struct kunit *test)
{
	unsigned long outer, inner;
	bool still;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	psi_memstall_enter(&outer, PSI_CAUSE_THROTTLE);
	psi_memstall_enter(&inner, PSI_CAUSE_RECLAIM);
	psi_memstall_leave(&inner);
	still = current->psi.mode & PSI_IN_STALL;
	psi_memstall_leave(&outer);
	KUNIT_EXPECT_TRUE(test, still);
	KUNIT_EXPECT_FALSE(test, current->psi.mode & PSI_IN_STALL);
}

/*
 * A stall has the class of its outermost cause, and takes it along when it
 * ends.
 */
static void psi_test_memstall_class(struct kunit *test)
{
	unsigned long outer, inner;
	unsigned int during, asleep, mode;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");

	psi_memstall_enter(&outer, PSI_CAUSE_REFAULT | PSI_BY_LIMIT);
	psi_memstall_enter(&inner, PSI_CAUSE_RECLAIM);
	during = current->psi.attrs;
	psi_memstall_leave(&inner);
	psi_memstall_leave(&outer);
	asleep = current->psi.asleep;
	mode = current->psi.mode;
	KUNIT_EXPECT_EQ(test, during, PSI_ONCPU | PSI_ONCPU_STALL | PSI_LIMIT_MEMSTALL);
	KUNIT_EXPECT_EQ(test, asleep, 0);
	KUNIT_EXPECT_EQ(test, mode, 0);

	psi_memstall_enter(&outer, PSI_CAUSE_RECLAIM);
	during = current->psi.attrs;
	psi_memstall_leave(&outer);
	KUNIT_EXPECT_EQ(test, during, PSI_ONCPU | PSI_ONCPU_STALL | PSI_MEMSTALL);
}

static void psi_test_wait_plain(void)
{
	schedule();
}

static void psi_test_wait_section(void)
{
	int token = psi_iowait_begin();

	schedule();
	psi_iowait_end(token);
}

static void psi_test_wait_section_ended(void)
{
	int outer = psi_iowait_begin();
	int inner = psi_iowait_begin();

	psi_iowait_end(inner);
	psi_iowait_end(outer);
	schedule();
}

static void psi_test_wait_section_nested(void)
{
	int outer = psi_iowait_begin();
	int inner = psi_iowait_begin();

	psi_iowait_end(inner);
	schedule();
	psi_iowait_end(outer);
}

static void psi_test_wait_timeout(void)
{
	io_schedule_timeout(MAX_SCHEDULE_TIMEOUT);
}

static void psi_test_wait_timeout_section(void)
{
	int token = psi_iowait_begin();

	io_schedule_timeout(MAX_SCHEDULE_TIMEOUT);
	psi_iowait_end(token);
}

static void psi_test_wait_prepared(void)
{
	int token = io_schedule_prepare();

	schedule();
	io_schedule_finish(token);
}

static const struct psi_test_wait {
	const char *desc;
	void (*wait)(void);
	/*
	 * Whether PSI takes it for io, and whether /proc/stat and cpufreq do.
	 */
	bool psi;
	bool stat;
} psi_test_waits[] = {
	{ "schedule() is no io", psi_test_wait_plain, false, false },
	{ "io_schedule() is io", io_schedule, true, true },
	{ "a wait between prepare and finish is io", psi_test_wait_prepared, true, true },
	{ "io_schedule_timeout() is io for /proc/stat only", psi_test_wait_timeout, false, true },
	{ "io_schedule_timeout() in a section is io", psi_test_wait_timeout_section, true, true },
	{ "schedule() in a section is io for PSI only", psi_test_wait_section, true, false },
	{ "the end of an inner section leaves the outer one", psi_test_wait_section_nested, true,
	  false },
	{ "a section that has ended is no io", psi_test_wait_section_ended, false, false },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_waits, psi_test_waits, desc);

static int psi_test_sleeper(void *arg)
{
	const struct psi_test_wait *how = arg;

	set_current_state(TASK_UNINTERRUPTIBLE);
	/* Not if it was stopped already. */
	if (!kthread_should_stop())
		how->wait();
	__set_current_state(TASK_RUNNING);
	return current->in_iowait || current->psi_iowait;
}

/*
 * A task in each kind of wait: what it counts as while it sleeps, and that
 * nothing is left.
 */
static void psi_test_iowait(struct kunit *test)
{
	const struct psi_test_wait *how = test->param_value;
	bool asleep, stat;
	struct task_struct *p;
	unsigned int attrs;
	struct rq_flags rf;
	struct rq *rq;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	p = kthread_run(psi_test_sleeper, (void *)how, "psi_test_sleeper");
	KUNIT_ASSERT_FALSE(test, IS_ERR(p));
	do {
		schedule_timeout_uninterruptible(1);
		rq = task_rq_lock(p, &rf);
		asleep = READ_ONCE(p->__state) == TASK_UNINTERRUPTIBLE && !task_current(rq, p);
		attrs = p->psi.attrs;
		stat = p->in_iowait;
		task_rq_unlock(rq, p, &rf);
	} while (!asleep);
	KUNIT_EXPECT_EQ(test, attrs, how->psi ? PSI_IOWAIT : 0);
	KUNIT_EXPECT_EQ(test, stat, how->stat);
	KUNIT_EXPECT_EQ(test, kthread_stop(p), 0);
}

/* A task that dies in a stall leaves no count behind. */
static int psi_test_die(void *arg)
{
	unsigned long flags;

	psi_memstall_enter(&flags, PSI_CAUSE_THROTTLE);
	current->in_iowait = 1;
	current->psi_iowait = 1;
	current->psi.asleep = PSI_IOWAIT;
	return 0;
}

static void psi_test_exit(struct kunit *test)
{
	u64 stalls = psi_test_causes(PSI_CAUSE_THROTTLE);
	struct task_struct *p;
	unsigned int attrs;
	struct rq_flags rf;
	struct rq *rq;
	bool dead;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	p = kthread_create(psi_test_die, NULL, "psi_test_die");
	KUNIT_ASSERT_FALSE(test, IS_ERR(p));
	get_task_struct(p);
	wake_up_process(p);
	do {
		schedule_timeout_uninterruptible(1);
		rq = task_rq_lock(p, &rf);
		dead = READ_ONCE(p->__state) == TASK_DEAD && !task_current(rq, p);
		attrs = p->psi.attrs;
		task_rq_unlock(rq, p, &rf);
	} while (!dead);
	KUNIT_EXPECT_EQ(test, attrs, 0);
	KUNIT_EXPECT_FALSE(test, p->in_iowait);
	KUNIT_EXPECT_FALSE(test, p->psi_iowait);
	if (IS_ENABLED(CONFIG_PSI_CAUSES))
		KUNIT_EXPECT_EQ(test, psi_test_causes(PSI_CAUSE_THROTTLE), stalls + 1);
	put_task_struct(p);
}

/*
 * A task that one of PSI's own threads preempts still counts as running, also
 * when that thread changes its priority or affinity.
 */
struct psi_test_held {
	struct task_struct *spinner;
	bool pinned, found, over;
	unsigned int before, after, late;
};

static int psi_test_spin(void *arg)
{
	struct psi_test_held *held = arg;

	while (!READ_ONCE(held->over)) {
		/*
		 * A task that cannot migrate is pinned while it is switched
		 * from.
		 */
		if (held->pinned)
			migrate_disable();
		cond_resched();
		if (held->pinned)
			migrate_enable();
	}
	return 0;
}

static unsigned int psi_test_counted_as(struct task_struct *p)
{
	unsigned int attrs;
	struct rq_flags rf;
	struct rq *rq;

	rq = task_rq_lock(p, &rf);
	attrs = p->psi.attrs;
	task_rq_unlock(rq, p, &rf);
	return attrs;
}

/*
 * A writer that pauses waits for a tag meanwhile, and later for something else
 * in a ring.
 */
static void psi_test_paced(struct kunit *test)
{
	int outer = psi_iowait_begin_paced(), inner = psi_iowait_begin();
	struct psi_async_wait wait;
	struct psi_async async;

	KUNIT_EXPECT_EQ(test, current->psi.paced, psi_enabled());
	psi_iowait_end(inner);
	KUNIT_EXPECT_EQ(test, current->psi.paced, psi_enabled());
	psi_iowait_end(outer);

	psi_async_init(&async);
	__psi_async_wait(&async, &wait);
	KUNIT_EXPECT_FALSE(test, current->psi.paced);
	__psi_async_done(&async, &wait);
	psi_async_exit(&async);
}

/* Where PSI is off, a wait for io leaves nothing behind. */
static void psi_test_off(struct kunit *test)
{
	int token = psi_iowait_begin();
	struct psi_io_limit limit = { };

	KUNIT_EXPECT_EQ(test, !!current->psi_iowait, psi_enabled());
	psi_iowait_end(token);
	psi_io_limit_init(&limit);
	psi_io_hold(&limit, true);
	KUNIT_EXPECT_EQ(test, atomic_read(&limit.held), psi_enabled());
	psi_io_hold(&limit, false);
}

/*
 * What DAMON reads stays what it was when the system was switched off and on.
 */
static void psi_test_some_memory(struct kunit *test)
{
	unsigned long flags;
	u64 before, after;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	before = psi_some_memory_us();
	psi_switch(&psi_system, false);
	psi_memstall_enter(&flags, PSI_CAUSE_RECLAIM);
	schedule_timeout_uninterruptible(max(HZ / 100, 2));
	psi_memstall_leave(&flags);
	psi_switch(&psi_system, true);
	after = psi_some_memory_us();
	KUNIT_EXPECT_GE(test, after, before);
	KUNIT_EXPECT_LT(test, after - before, USEC_PER_SEC);
}

static int psi_test_preempt(void *arg)
{
	struct psi_test_held *held = arg;
	ktime_t pause = ms_to_ktime(1);
	int i;

	sched_set_fifo(current);
	for (i = 0; i < 100 && !held->found; i++) {
		/*
		 * With PREEMPT_RT, a thread serves most timers: it would
		 * preempt the spinner.
		 */
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&pause, HRTIMER_MODE_REL);
		held->found = this_cpu_read(psi_preempted) == held->spinner;
	}
	held->before = psi_test_counted_as(held->spinner);
	set_user_nice(held->spinner, 1);
	held->after = psi_test_counted_as(held->spinner);
	psi_count_preempted();
	held->late = psi_test_counted_as(held->spinner);
	WRITE_ONCE(held->over, true);
	return 0;
}

static void psi_test_hold(struct kunit *test, bool pinned)
{
	struct psi_test_held held = { .pinned = pinned };
	struct task_struct *own;
	unsigned int cpu = raw_smp_processor_id();

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	held.spinner = kthread_create_on_cpu(psi_test_spin, &held, cpu, "psi_test_spin");
	KUNIT_ASSERT_FALSE(test, IS_ERR(held.spinner));
	get_task_struct(held.spinner);
	own = kthread_create_on_cpu(psi_test_preempt, &held, cpu, "psi_test_own");
	if (!IS_ERR(own)) {
		get_task_struct(own);
		psi_ignore_thread(own);
		wake_up_process(held.spinner);
		wake_up_process(own);
		while (!READ_ONCE(held.over))
			schedule_timeout_uninterruptible(1);
		kthread_stop_put(own);
	}
	kthread_stop_put(held.spinner);

	KUNIT_ASSERT_FALSE(test, IS_ERR(own));
	KUNIT_EXPECT_TRUE(test, held.found);
	KUNIT_EXPECT_EQ(test, held.before, PSI_ONCPU | PSI_PRODUCTIVE);
	KUNIT_EXPECT_EQ(test, held.after, PSI_ONCPU | PSI_PRODUCTIVE);
	KUNIT_EXPECT_EQ(test, held.late, PSI_WAITING | PSI_PRODUCTIVE);
}

static void psi_test_requeue_held(struct kunit *test)
{
	psi_test_hold(test, false);
}

static void psi_test_requeue_held_pinned(struct kunit *test)
{
	psi_test_hold(test, true);
}

#ifdef CONFIG_CGROUPS
static int psi_test_said;

/* No strays. Note whether somebody says that contributors move. */
static struct llist_node *psi_test_no_strays(void)
{
	psi_test_said = atomic_read(&psi_moves);
	return NULL;
}

/*
 * Strays are on their list until psi_moves says that they move: else they look
 * as if they were counted in a wrong group.
 */
static void psi_test_strays_move(struct kunit *test)
{
	psi_test_said = 0;
	kunit_activate_static_stub(test, psi_strays_take, psi_test_no_strays);
	psi_strays_work(NULL);
	KUNIT_EXPECT_GT(test, psi_test_said, 0);
}
#endif

#ifdef CONFIG_PSI_DEBUG
struct psi_test_fault {
	const char *name;
	void (*plant)(struct psi_group_cpu *gc);
	const char *want;
};

static void psi_test_plant_count(struct psi_group_cpu *gc)
{
	gc->sched += psi_sched_counts[PSI_WAITING];
}

static void psi_test_plant_stall(struct psi_group_cpu *gc)
{
	gc->stall -= psi_stall_counts_of(PSI_MEMSTALL);
}

static void psi_test_plant_limit(struct psi_group_cpu *gc)
{
	gc->limit += psi_limit_counts_of(PSI_LIMIT_IOWAIT);
}

static void psi_test_plant_attr(struct psi_group_cpu *gc)
{
	gc->attrs ^= PSI_MEMSTALL;
}

static void psi_test_plant_state(struct psi_group_cpu *gc)
{
	gc->states ^= BIT(PSI_MEM_SOME);
}

static void psi_test_plant_task(struct psi_group_cpu *gc)
{
	current->psi.attrs = PSI_WAITING | PSI_PRODUCTIVE;
}

static void psi_test_plant_lost_task(struct psi_group_cpu *gc)
{
	current->psi.attrs = 0;
	psi_debug_note(current, raw_smp_processor_id());
}

static void psi_test_plant_held(struct psi_group_cpu *gc)
{
	current->psi.mode |= PSI_HELD;
}

static void psi_test_plant_up(struct psi_group_cpu *gc)
{
	gc->up = gc;
}

static void psi_test_plant_above(struct psi_group_cpu *gc)
{
	gc->asked ^= PSI_ASKED_ABOVE;
}

static void psi_test_plant_asked(struct psi_group_cpu *gc)
{
	gc->asked |= PSI_ASKED;
}

static void psi_test_plant_unlisted(struct psi_group_cpu *gc)
{
	gc->slow = 0;
	cpumask_clear_cpu(raw_smp_processor_id(), gc->group->cpumask);
}

/* No state can have held for longer than since the last check. */
static void psi_test_plant_window(struct psi_group_cpu *gc)
{
	gc->times[PSI_NONIDLE] -= 3600ULL * NSEC_PER_SEC;
}

static void psi_test_plant_full(struct psi_group_cpu *gc)
{
	gc->times[PSI_IO_FULL] += NSEC_PER_MSEC;
}

static void psi_test_plant_negative(struct psi_group_cpu *gc)
{
	gc->times[PSI_MEM_FULL] -= NSEC_PER_MSEC;
}

static const struct psi_test_fault psi_test_faults[] = {
	{ "a wake-up twice", psi_test_plant_count, "cgroup 1 counts" },
	{ "a stall that began unseen", psi_test_plant_stall, "cgroup 1 counts" },
	{ "a limit that never ends", psi_test_plant_limit, "cgroup 1 counts" },
	{ "an attribute nobody has", psi_test_plant_attr, "cgroup 1 shows" },
	{ "a state that does not hold", psi_test_plant_state, "cgroup 1 shows" },
	{ "a switch not seen", psi_test_plant_task, "kunit_try_catch" },
	{ "a task not seen", psi_test_plant_lost_task, "kunit_try_catch" },
	{ "a limit that the scheduler does not know", psi_test_plant_held, "held by a limit" },
	{ "a walk that goes in circles", psi_test_plant_up, "cgroup 1 of level 0 goes on to" },
	{ "nobody above is asked", psi_test_plant_above, "cgroup 1 has asked" },
	{ "nobody asks", psi_test_plant_asked, "cgroup 1 is not asked" },
	{ "a group the fold forgot", psi_test_plant_unlisted, "not on the list of the fold" },
	{ "more time than there was", psi_test_plant_window, "cgroup 1 has times" },
	{ "more full than some", psi_test_plant_full, "cgroup 1 has times" },
	{ "less than no time", psi_test_plant_negative, "cgroup 1 has times" },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_faults, psi_test_faults, name);

/**
 * struct psi_test_saved - what a planted fault may change
 * @cell: the cell, apart from its slots: these belong to the fold
 * @attrs: of the current task
 * @mode: of the current task
 */
struct psi_test_saved {
	struct psi_group_cpu cell;
	u16 attrs;
	u16 mode;
};

static void psi_test_save(struct psi_test_saved *saved, const struct psi_group_cpu *gc)
{
	saved->cell = *gc;
	saved->attrs = current->psi.attrs;
	saved->mode = current->psi.mode;
}

static void psi_test_restore(const struct psi_test_saved *saved, struct psi_group_cpu *gc)
{
	memcpy(gc, &saved->cell, offsetof(struct psi_group_cpu, slots));
	memcpy(gc->checked, saved->cell.checked, sizeof(gc->checked));
	gc->checked_at = saved->cell.checked_at;
	cpumask_set_cpu(raw_smp_processor_id(), gc->group->cpumask);
	current->psi.attrs = saved->attrs;
	current->psi.mode = saved->mode;
	psi_debug_note(current, raw_smp_processor_id());
}

/*
 * Plant a fault: it is found. That is over before the runqueue is unlocked, and
 * in a write section, so the system never sees it.
 */
static void psi_test_debug(struct kunit *test)
{
	struct psi_test_saved *saved = kunit_kzalloc(test, sizeof(*saved), GFP_KERNEL);
	const struct psi_test_fault *fault = test->param_value;
	char *text = kunit_kzalloc(test, 2048, GFP_KERNEL);
	unsigned int before, found, left;
	struct psi_group_cpu *gc;
	struct seq_buf says;
	struct rq_flags rf;
	struct rq *rq;

	KUNIT_ASSERT_NOT_NULL(test, saved);
	KUNIT_ASSERT_NOT_NULL(test, text);
	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	seq_buf_init(&says, text, 2048);

	rcu_read_lock();
	rq = this_rq_lock_irq(&rf);
	update_rq_clock(rq);
	gc = psi_system.cpus[cpu_of(rq)];
	before = psi_debug_cpu(rq, true, false, &says);
	raw_write_seqcount_begin(&rq->psi_seq);
	psi_test_save(saved, gc);
	fault->plant(gc);
	found = psi_debug_cpu(rq, true, false, &says);
	psi_test_restore(saved, gc);
	raw_write_seqcount_end(&rq->psi_seq);
	left = psi_debug_cpu(rq, true, false, &says);
	rq_unlock_irq(rq, &rf);
	rcu_read_unlock();

	KUNIT_EXPECT_EQ_MSG(test, before, 0, "%s", text);
	KUNIT_EXPECT_GE(test, found, 1);
	KUNIT_EXPECT_EQ_MSG(test, left, 0, "%s", text);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, fault->want), "%s", text);
}

static void psi_test_plant_union(struct psi_group_cpu *gc, struct psi_asked_cpu *more)
{
	more->counted++;
}

static void psi_test_plant_limits(struct psi_group_cpu *gc, struct psi_asked_cpu *more)
{
	more->held ^= BIT(PSI_LIMIT_AT(PSI_CPU_FULL));
}

static void psi_test_plant_limit_time(struct psi_group_cpu *gc, struct psi_asked_cpu *more)
{
	more->times[PSI_LIMIT_AT(PSI_CPU_SOME)] -= NSEC_PER_MSEC;
}

static void psi_test_plant_only_time(struct psi_group_cpu *gc, struct psi_asked_cpu *more)
{
	more->times[PSI_ONLY_AT(PSI_IO_SOME)]++;
}

static const struct psi_test_asked_fault {
	const char *name;
	void (*plant)(struct psi_group_cpu *gc, struct psi_asked_cpu *more);
	const char *want;
} psi_test_asked_faults[] = {
	{ "a CPU twice in the union", psi_test_plant_union, "counts 2 times in its union" },
	{ "a limit that ended unseen", psi_test_plant_limits, "has states of limits" },
	{ "more time of limits than of stalls", psi_test_plant_limit_time, "ns of limits, only" },
	{ "more of only than of limits", psi_test_plant_only_time, "ns of limits, only" },
};

KUNIT_ARRAY_PARAM_DESC(psi_test_asked_faults, psi_test_asked_faults, name);

/*
 * The same in a group that is asked, and in which a limit holds the only task.
 */
static void psi_test_debug_asked(struct kunit *test)
{
	const struct psi_test_asked_fault *fault = test->param_value;
	unsigned int held = psi_attrs_for(PSI_QUEUED, 0, PSI_HELD);
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_group_cpu *gc = group->cpus[cpu];
	char *text = kunit_kzalloc(test, 2048, GFP_KERNEL);
	struct psi_debug d = { .cpu = cpu, .now = PSI_TEST_START + 1000 };
	struct psi_task task = { .group = group };
	struct psi_asked *asked;
	struct seq_buf says;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, text);
	seq_buf_init(&says, text, 2048);
	d.says = &says;
	asked = psi_test_ask(group, PSI_TEST_START);
	KUNIT_ASSERT_NOT_NULL(test, asked);
	psi_test_change(&task, held, cpu, PSI_TEST_START);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ_MSG(test, d.found, 0, "%s", text);
		if (i)
			fault->plant(gc, per_cpu_ptr(asked->cpus, cpu));
		gc->recount = psi_counts_of(held);
		psi_debug_group(gc, &d);
		d.now += 1000;
	}
	KUNIT_EXPECT_GE_MSG(test, d.found, 1, "%s", text);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, fault->want), "%s", text);
}

/* A cell that is off the list has slots that differ. */
static void psi_test_debug_slots(struct kunit *test)
{
	struct psi_group *group = psi_test_group(test);
	int cpu = cpumask_first(cpu_possible_mask);
	struct psi_group_cpu *gc = group->cpus[cpu];
	char *text = kunit_kzalloc(test, 2048, GFP_KERNEL);
	struct psi_debug d = { .cpu = cpu, .now = PSI_TEST_START };
	struct seq_buf says;

	KUNIT_ASSERT_NOT_NULL(test, text);
	seq_buf_init(&says, text, 2048);
	d.says = &says;
	psi_debug_group(gc, &d);
	KUNIT_EXPECT_EQ_MSG(test, d.found, 0, "%s", text);
	gc->slots[0][PSI_CPU_SOME]++;
	psi_debug_group(gc, &d);
	KUNIT_EXPECT_EQ_MSG(test, d.found, 1, "%s", text);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, "nor as new"), "%s", text);
}

#ifdef CONFIG_CGROUPS
/* The same for a task that is counted in a cgroup of which it is no member. */
static void psi_test_debug_home(struct kunit *test)
{
	char *text = kunit_kzalloc(test, 2048, GFP_KERNEL);
	struct cgroup *stray = kunit_kzalloc(test, sizeof(*stray), GFP_KERNEL);
	struct kernfs_node *kn = kunit_kzalloc(test, sizeof(*kn), GFP_KERNEL);
	unsigned int before, found, left;
	struct psi_group *home;
	char want[96];
	struct seq_buf says;
	struct rq_flags rf;
	struct rq *rq;

	KUNIT_ASSERT_NOT_NULL(test, text);
	KUNIT_ASSERT_NOT_NULL(test, stray);
	KUNIT_ASSERT_NOT_NULL(test, kn);
	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	if (!cgroup_psi_enabled())
		kunit_skip(test, "the command line says that cgroups have no pressure");
	seq_buf_init(&says, text, 2048);
	stray->self.parent = &cgrp_dfl_root.cgrp.self;
	stray->level = 1;
	stray->kn = kn;
	KUNIT_ASSERT_EQ(test, psi_cgroup_alloc(stray), 0);

	cgroup_lock();
	rcu_read_lock();
	spin_lock_irq(&css_set_lock);
	rq = task_rq_lock(current, &rf);
	update_rq_clock(rq);
	home = current->psi.group;
	before = psi_debug_cpu(rq, true, true, &says);
	psi_regroup(&current->psi, cgroup_psi(stray), rq, rq_clock(rq));
	found = psi_debug_cpu(rq, true, true, &says);
	psi_regroup(&current->psi, home, rq, rq_clock(rq));
	left = psi_debug_cpu(rq, true, true, &says);
	task_rq_unlock(rq, current, &rf);
	spin_unlock_irq(&css_set_lock);
	rcu_read_unlock();
	cgroup_unlock();
	psi_cgroup_free(stray);

	KUNIT_EXPECT_EQ_MSG(test, before, 0, "%s", text);
	/* The system misses the task, too: the other cgroup is in no list. */
	KUNIT_EXPECT_GE(test, found, 1);
	KUNIT_EXPECT_EQ_MSG(test, left, 0, "%s", text);
	snprintf(want, sizeof(want), "%s[%d] belongs to level %u, but is counted in level 1",
		 current->comm, task_pid_nr(current), home->level);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, want), "%s", text);
}
#endif
#endif /* CONFIG_PSI_DEBUG */

#ifdef CONFIG_X86_TSC
static int psi_test_long_stall(void *arg)
{
	unsigned long flags;

	psi_memstall_enter(&flags, PSI_CAUSE_THROTTLE);
	set_current_state(TASK_IDLE);
	/* Not if it was stopped already. */
	if (!kthread_should_stop())
		schedule();
	__set_current_state(TASK_RUNNING);
	psi_memstall_leave(&flags);
	return 0;
}

/* What the system shows of memory some and irq full, and the time, in ns. */
struct psi_test_shown {
	u64 stall, irq, at;
};

static void psi_test_show(struct psi_test_shown *shown)
{
	struct psi_account reading = { };

	psi_read(&psi_system, 1, BIT(PSI_MEM_SOME) | BIT(PSI_IRQ_FULL), &reading);
	shown->at = ktime_get_ns();
	shown->stall = reading.total[PSI_MEM_SOME];
	shown->irq = reading.total[PSI_IRQ_FULL];
}

/*
 * The clock of the CPUs turns out to be no good. That is for good, too: so this
 * is a suite of its own, which runs alone. What measures now goes on: a stall
 * that holds neither stops nor jumps, and interrupt time stands still from then
 * on.
 *
 * Another CPU that is busy takes its share of the stall: a quarter is left for
 * that.
 */
static void psi_test_clock_unstable(struct kunit *test)
{
	u64 before, after, slack = 5 * TICK_NSEC;
	struct psi_test_shown shown[3];
	struct task_struct *p;
	int i;

	if (!psi_enabled())
		kunit_skip(test, "PSI is off");
	p = kthread_run(psi_test_long_stall, NULL, "psi_test_stall");
	KUNIT_ASSERT_FALSE(test, IS_ERR(p));
	msleep(100);
	psi_test_show(&shown[0]);
	msleep(100);
	before = psi_read_clock();
	mark_tsc_unstable("a test of psi");
	/* A work does the rest. */
	for (i = 0; i < 100 && (sched_clock_stable() || irqtime_enabled()); i++)
		msleep(20);
	after = psi_read_clock();
	msleep(100);
	psi_test_show(&shown[1]);
	msleep(500);
	psi_test_show(&shown[2]);
	kthread_stop(p);
	KUNIT_EXPECT_FALSE(test, sched_clock_stable());
	KUNIT_EXPECT_LE(test, before, after);
	KUNIT_EXPECT_LT(test, after - before, 2 * NSEC_PER_SEC);
	KUNIT_EXPECT_FALSE(test, irqtime_enabled());
	for (i = 1; i < 3; i++) {
		u64 time = shown[i].at - shown[i - 1].at;
		u64 stall = shown[i].stall - shown[i - 1].stall;

		KUNIT_EXPECT_GE_MSG(test, stall + slack, time / 4 * 3, "span %d", i);
		KUNIT_EXPECT_LE_MSG(test, stall, time + slack, "span %d", i);
	}
	KUNIT_EXPECT_LE(test, shown[1].irq - shown[0].irq, shown[1].at - shown[0].at);
	KUNIT_EXPECT_EQ(test, shown[2].irq, shown[1].irq);
}

static struct kunit_case psi_test_clock_cases[] = {
	KUNIT_CASE(psi_test_clock_unstable),
	{ }
};

static struct kunit_suite psi_test_clock_suite = {
	.name		= "clock_of_psi",
	.test_cases	= psi_test_clock_cases,
};
#endif

static struct kunit_case psi_test_cases[] = {
	KUNIT_CASE_PARAM(psi_test_states_table, psi_test_states_rows_gen_params),
	KUNIT_CASE(psi_test_states_exhaustive),
	KUNIT_CASE(psi_test_full_implies_some),
	KUNIT_CASE(psi_test_lanes_hold_all_tasks),
	KUNIT_CASE_SLOW(psi_test_lanes_diff),
	KUNIT_CASE_PARAM(psi_test_avgs_oracle, psi_test_avgs_rows_gen_params),
	KUNIT_CASE(psi_test_avgs_idle_gap),
	KUNIT_CASE(psi_test_avgs_joined),
	KUNIT_CASE(psi_test_avgs_folded),
	KUNIT_CASE(psi_test_avgs_end),
	KUNIT_CASE(psi_test_avgs_joins),
	KUNIT_CASE(psi_test_avgs_late_fold),
	KUNIT_CASE(psi_test_avgs_jitter),
	KUNIT_CASE(psi_test_avgs_carry),
	KUNIT_CASE(psi_test_avgs_collect),
	KUNIT_CASE(psi_test_avgs_clock_behind),
	KUNIT_CASE(psi_test_avgs_years_of_uptime),
	KUNIT_CASE_PARAM(psi_test_print, psi_test_print_rows_gen_params),
	KUNIT_CASE(psi_test_line),
	KUNIT_CASE_PARAM(psi_test_window, psi_test_window_rows_gen_params),
	KUNIT_CASE(psi_test_window_many_cpus),
	KUNIT_CASE_PARAM(psi_test_parse, psi_test_parse_rows_gen_params),
	KUNIT_CASE_SLOW(psi_test_trigger),
	KUNIT_CASE(psi_test_trigger_owed),
	KUNIT_CASE(psi_test_trigger_late),
	KUNIT_CASE(psi_test_trigger_gap),
	KUNIT_CASE(psi_test_trigger_least),
	KUNIT_CASE(psi_test_trigger_pause),
	KUNIT_CASE_PARAM(psi_test_step, psi_test_step_rows_gen_params),
	KUNIT_CASE(psi_test_step_remainder),
	KUNIT_CASE_SLOW(psi_test_model_from_boot),
	KUNIT_CASE_SLOW(psi_test_model_few_tasks),
	KUNIT_CASE_SLOW(psi_test_model_one_task),
	KUNIT_CASE_SLOW(psi_test_model_across_the_sign_bit),
	KUNIT_CASE_SLOW(psi_test_model_across_the_wrap),
	KUNIT_CASE(psi_test_model_joins),
	KUNIT_CASE_PARAM_ATTR(psi_test_looks, psi_test_looks_rows_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE(psi_test_chain),
	KUNIT_CASE(psi_test_fold),
	KUNIT_CASE(psi_test_fold_some_and_full),
	KUNIT_CASE(psi_test_fold_without_weight),
	KUNIT_CASE(psi_test_fold_at_work),
	KUNIT_CASE(psi_test_fold_idle),
	KUNIT_CASE(psi_test_fold_weights),
	KUNIT_CASE(psi_test_fold_states),
	KUNIT_CASE(psi_test_fold_comes_back),
	KUNIT_CASE(psi_test_fold_late),
	KUNIT_CASE(psi_test_sampler_begins),
	KUNIT_CASE(psi_test_sampler_joined),
	KUNIT_CASE(psi_test_armed_beside_alarm),
	KUNIT_CASE(psi_test_sampler_new_cpu),
	KUNIT_CASE(psi_test_sampler_delayed),
	KUNIT_CASE(psi_test_sampler_switched),
	KUNIT_CASE(psi_test_sampler_fold),
	KUNIT_CASE(psi_test_sampler_bound),
	KUNIT_CASE(psi_test_sampler_rest),
	KUNIT_CASE(psi_test_sample_late),
	KUNIT_CASE_PARAM_ATTR(psi_test_exact, psi_test_exact_rows_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE(psi_test_exact_bounds),
	KUNIT_CASE(psi_test_asked_memory),
	KUNIT_CASE(psi_test_asked_joins),
	KUNIT_CASE(psi_test_asked_between),
	KUNIT_CASE(psi_test_asked_ends_above),
	KUNIT_CASE(psi_test_irq_alone),
	KUNIT_CASE(psi_test_asked_visits),
	KUNIT_CASE(psi_test_asked_begins),
#ifdef CONFIG_CGROUPS
	KUNIT_CASE(psi_test_asked_expires),
#endif
	KUNIT_CASE_SLOW(psi_test_class_exhaustive),
	KUNIT_CASE(psi_test_class_regroup),
#ifdef CONFIG_CGROUPS
	KUNIT_CASE(psi_test_switched),
	KUNIT_CASE(psi_test_switched_ahead),
	KUNIT_CASE(psi_test_switched_behind),
	KUNIT_CASE(psi_test_switched_in_read),
#endif
	KUNIT_CASE(psi_test_class_identity),
	KUNIT_CASE(psi_test_class_clocks),
	KUNIT_CASE(psi_test_class_unlisted),
	KUNIT_CASE(psi_test_class_alarm),
	KUNIT_CASE(psi_test_class_looks),
	KUNIT_CASE(psi_test_class_second),
	KUNIT_CASE(psi_test_class_samplers),
	KUNIT_CASE(psi_test_limit_used),
	KUNIT_CASE(psi_test_limit_idle_rings),
	KUNIT_CASE(psi_test_limit_idle_once),
	KUNIT_CASE(psi_test_paced),
	KUNIT_CASE(psi_test_off),
	KUNIT_CASE(psi_test_some_memory),
	KUNIT_CASE(psi_test_break),
	KUNIT_CASE(psi_test_check_long),
	KUNIT_CASE_SLOW(psi_test_arm_race),
	KUNIT_CASE(psi_test_memstall_nests),
	KUNIT_CASE(psi_test_memstall_class),
	KUNIT_CASE_PARAM(psi_test_iowait, psi_test_waits_gen_params),
	KUNIT_CASE(psi_test_exit),
#ifdef CONFIG_CGROUPS
	KUNIT_CASE(psi_test_strays_move),
#endif
#ifdef CONFIG_PSI_CAUSES
	KUNIT_CASE_PARAM(psi_test_cause_length, psi_test_cause_lengths_gen_params),
	KUNIT_CASE(psi_test_causes_sum),
	KUNIT_CASE(psi_test_causes_tree),
	KUNIT_CASE(psi_test_causes_show),
	KUNIT_CASE(psi_test_causes_nest),
#ifdef CONFIG_CGROUPS
	KUNIT_CASE(psi_test_causes_removed),
#endif
#endif
	KUNIT_CASE(psi_test_requeue_held),
	KUNIT_CASE(psi_test_requeue_held_pinned),
#ifdef CONFIG_PSI_DEBUG
	KUNIT_CASE_PARAM(psi_test_debug, psi_test_faults_gen_params),
	KUNIT_CASE_PARAM(psi_test_debug_asked, psi_test_asked_faults_gen_params),
	KUNIT_CASE(psi_test_debug_slots),
#ifdef CONFIG_CGROUPS
	KUNIT_CASE(psi_test_debug_home),
#endif
#endif
	{ }
};

static struct kunit_suite psi_test_suite = {
	.name		= "psi",
	.test_cases	= psi_test_cases,
};

kunit_test_suite(psi_test_suite);
#ifdef CONFIG_X86_TSC
kunit_test_suite(psi_test_clock_suite);
#endif
