// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: triggers
 *
 * Contract
 *   A program that writes "<some|full> <stall us> <window us>" to a pressure
 *   file arms a trigger. In the statistics file a key stands in place of "some"
 *   or "full", such as "cpu.limit.some" (psi_stat.c). poll() reports POLLPRI
 *   when the stall in any window of that length reaches the threshold, but at
 *   most once per window: what reaches it sooner is reported when a window has
 *   passed. Stall from before arming, or of an event, never counts again.
 *
 * Monitors
 *   A monitor is a thread that looks at the samplers that are due
 *   (psi_sampler.c). Triggers whose opener has CAP_SYS_RESOURCE have a
 *   real-time one: they fire when CPUs are contended. Others have an ordinary
 *   one, with its own samplers: nobody can buy real-time work by opening files.
 *
 *	walk: a state begins ---> alarm ---> inbox of the monitor
 *						      |
 *	  timerqueue of groups, by when one is due      <--+
 *	  timerqueue of samplers of a group, by their mark
 *
 *   A monitor serves groups in turns of PSI_TURN_NS (500 us). After a turn of d
 *   of CPU time a group pauses for (PSI_SHARE - 1) * d. So it gets an eighth of
 *   a monitor, and late samples if it needs more. It delays another group by
 *   one turn, one sample and a break of the monitor.
 *
 *   All samplers of a window are due at the same moments, and a user may have
 *   1,024 of them. So a monitor serves a sampler up to PSI_DELAY_MAX (100) ms
 *   after it is due: 1 ms for each PSI_DELAY_TRIGGERS (16) triggers that the
 *   user had when he armed the first one there. At any time fewer than 16 * n
 *   of his triggers have a delay below n ms: when he armed the last of them, he
 *   had the others. So others wait for 16 looks of his at most, and for the
 *   answers to his alarms. Where users share a sampler, the least delay counts.
 *
 * Lifetime
 *   An open file owns its trigger: the slot is filled once, under a cmpxchg,
 *   and the trigger goes with the file (or with the files of the cgroup, when
 *   kernfs drains them). A sampler goes with its last trigger.
 *
 * Locking
 *   psi_watch.lock protects the samplers of a group and priority, and their
 *   triggers. A monitor holds it while a sample visits every CPU in use. An
 *   opener holds it for moments, with preemption disabled: otherwise cpu.max
 *   could stop the holder up to a second, and with it what others armed. So a
 *   monitor waits for the lock, and an opener that finds it taken comes back
 *   after PSI_RETRY_US.
 */

#define PSI_WINDOW_MIN_US	500000
#define PSI_WINDOW_MAX_US	10000000
/* Whole periods of the fold, for an opener without CAP_SYS_RESOURCE. */
#define PSI_WINDOW_UNIT_US	((u32)div_u64(PSI_PERIOD, NSEC_PER_USEC))

/*
 * One per cent of the shortest step (50 ms): the turn of a group must not make
 * samples of others late.
 */
#define PSI_TURN_NS		(500 * NSEC_PER_USEC)

#define PSI_SHARE		8

/*
 * The initial value of user.max_psi_triggers: enough for each service of a
 * session. A monitor can look at so many within a turn, even if all share a
 * sampler. In a user namespace a trigger counts for its owner, too.
 */
#define PSI_USER_TRIGGERS	1024

/* So many triggers of a user are served at once: a tenth of a millisecond. */
#define PSI_DELAY_TRIGGERS	16

/* In ms: half a step of the shortest window without CAP_SYS_RESOURCE. */
#define PSI_DELAY_MAX		100

/*
 * An event wakes all pollers of an open file, with interrupts off: one or two,
 * in a pool of processes that share a descriptor some tens.
 */
#define PSI_POLLERS_MAX		64

/*
 * An opener may have a higher priority than the monitor that holds the lock: if
 * it came back sooner, it could starve that on a slow machine.
 */
#define PSI_RETRY_US		1000

/* Groups with samplers at work, by when they are due; for monitors only. */
static struct timerqueue_head psi_monitor_queues[PSI_NR_PRIOS];

/* What is written to a pressure file; threshold and window are in us. */
struct psi_request {
	enum psi_kind		kind;
	enum psi_state		state;
	u32			stall;
	u32			window;
};

/* Parsing: no clock, no locks, all inputs are arguments */

/* Blanks, then a number below 2^32. @p moves past what is parsed. */
static bool psi_parse_number(const char **p, u32 *number)
{
	const char *begin = *p + strspn(*p, " \t");
	u64 n = 0;

	if (begin == *p)
		return false;
	for (*p = begin; isdigit(**p); ++*p) {
		n = n * 10 + **p - '0';
		if (n > U32_MAX)
			return false;
	}
	*number = n;
	return *p > begin;
}

/* The key of a line (psi_stat.c); @id becomes the resource's plain file. */
static bool psi_parse_key(const char **p, enum psi_file_id *id,
			  enum psi_kind *kind)
{
	for (*id = 0; *id < PSI_STAT; ++*id) {
		if (psi_file_available(*id) && psi_skip_word(p, psi_files[*id].name))
			break;
	}
	if (*id == PSI_STAT || !psi_skip_word(p, "."))
		return false;
	for (*kind = PSI_NR_KINDS - 1; *kind > PSI_PLAIN; --*kind) {
		if (*id != PSI_IRQ && psi_skip_word(p, psi_kinds[*kind]))
			break;
	}
	return true;
}

static bool psi_parse(const char *p, enum psi_file_id id,
		      struct psi_request *request)
{
	request->kind = PSI_PLAIN;
	if (id == PSI_STAT && !psi_parse_key(&p, &id, &request->kind))
		return false;
	if (!psi_parse_state(&p, &psi_files[id], &request->state) ||
	    !psi_parse_number(&p, &request->stall) || !psi_parse_number(&p, &request->window))
		return false;

	p += strspn(p, " \t\n");
	return !*p && request->stall && request->stall <= request->window &&
	       request->window >= PSI_WINDOW_MIN_US &&
	       request->window <= PSI_WINDOW_MAX_US;
}

static void psi_trace_trigger(const struct psi_trigger *t)
{
	const struct psi_sampler *sampler = t->sampler;
	char line[PSI_TRACE_NAME];
	int id = 0;

	if (!trace_psi_trigger_enabled())
		return;
	while (!(psi_files[id].states & BIT(sampler->state)))
		id++;
	snprintf(line, sizeof(line), "%s%s", psi_kinds[sampler->kind],
		 psi_line_name(sampler->state));
	trace_psi_trigger(sampler->watch->group->id, psi_files[id].name, line,
			  div_u64(t->threshold, NSEC_PER_USEC),
			  div_u64(sampler->window, NSEC_PER_USEC),
			  div_u64(t->stall, NSEC_PER_USEC));
}

/* Have the triggers look at a sample (@step: at a mark), and report. */
static void psi_sampler_report(struct psi_sampler *sampler,
			       const struct psi_sample *sample, bool step)
{
	struct psi_trigger *t;

	sampler->least = U64_MAX;
	list_for_each_entry(t, &sampler->triggers, node) {
		sampler->least = min(sampler->least, t->threshold);
		if (step)
			psi_trigger_look(t, sampler, sample);
		if (psi_trigger_take(t, sampler->window, sample)) {
			if (!atomic_xchg(&t->event, 1))
				psi_trace_trigger(t);
			/* No barrier: a task that looks for it is queued. */
			wake_up_interruptible(t->wait);
		}
		if (t->owed)
			sampler->next = min(sampler->next, t->quiet);
		psi_worker_relax(psi_monitors[sampler->watch->prio].began, psi_read_clock());
	}
}

static void psi_sampler_check(struct psi_sampler *sampler)
{
	bool step = psi_read_clock() >= sampler->mark, owing = sampler->next != PSI_NEVER;
	struct psi_sample sample;
	bool rest = false;

	if (sampler->since)
		return psi_sampler_resume(sampler);
	sampler->next = PSI_NEVER;
	if (step) {
		psi_sampler_push(sampler);
		rest = !psi_sampler_update(sampler, psi_read_clock()) &&
		       psi_sampler_may_rest(sampler);
		sample = sampler->last;
	} else {
		psi_sampler_bound(sampler, &sample);
	}
	if (owing || (step && psi_sampler_may_fire(sampler)))
		psi_sampler_report(sampler, &sample, step);
	/* By now: a slow sampler must not be due again at once. */
	if (step)
		sampler->mark = psi_sampler_next_mark(sampler, psi_read_clock());
	/* An event that is owed comes without any stall: no rest. */
	rest = rest && sampler->next == PSI_NEVER;
	psi_sampler_queue(sampler, rest ? PSI_NEVER : min(sampler->next, sampler->mark));
}

static void psi_watch_answer(struct psi_watch *watch)
{
	struct psi_sampler *sampler;
	u64 since = watch->alarm_since;
	unsigned int begun;

	watch->alarmed = false;
	/* Before the alarm is off: psi_sampling() sees one or the other. */
	WRITE_ONCE(watch->at_work, true);
	/* A full barrier, see psi_raise_alarms(). */
	begun = atomic_xchg(&watch->alarm_begun, 0);
	list_for_each_entry(sampler, &watch->samplers, node) {
		if (BIT(sampler->state) & begun && !timerqueue_node_queued(&sampler->due)) {
			sampler->since = since;
			psi_sampler_queue(sampler, since);
		}
	}
	psi_watch_set_at_work(watch);
	WRITE_ONCE(watch->alarm_states, watch->alarm_states & ~begun);
}

static u64 psi_watch_due(struct psi_watch *watch)
{
	struct timerqueue_node *node = timerqueue_getnext(&watch->due);

	if (watch->alarmed)
		return 0;
	return node ? node->expires : PSI_NEVER;
}

/* Serve a group, for a turn at most. Return when it is due again. */
static u64 psi_watch_check(struct psi_watch *watch)
{
	u64 now = psi_read_clock(), end = now + PSI_TURN_NS, due;

	guard(mutex)(&watch->lock);
	for (due = psi_watch_due(watch); due <= now && now < end; due = psi_watch_due(watch)) {
		if (watch->alarmed)
			psi_watch_answer(watch);
		else
			psi_sampler_check(container_of(timerqueue_getnext(&watch->due),
						       struct psi_sampler, due));
		now = psi_read_clock();
	}
	return due;
}

static void psi_monitor_collect(struct psi_worker *worker, struct timerqueue_head *queue)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(&worker->inbox));
	struct psi_watch *watch, *next;

	llist_for_each_entry_safe(watch, next, list, alarm) {
		u64 due = max(watch->pause, psi_read_clock());

		watch->alarmed = true;
		if (timerqueue_node_queued(&watch->queued)) {
			/* If it waits for its turn, it keeps its place. */
			due = min_t(u64, due, watch->queued.expires);
			timerqueue_del(queue, &watch->queued);
			psi_group_put(watch->group);
		}
		watch->queued.expires = due;
		timerqueue_add(queue, &watch->queued);
	}
}

static u64 psi_monitor_work(struct psi_worker *worker)
{
	struct timerqueue_head *queue = &psi_monitor_queues[worker - psi_monitors];

	for (;;) {
		struct timerqueue_node *node;
		struct psi_watch *watch;
		u64 due, ran;

		psi_monitor_collect(worker, queue);
		node = timerqueue_getnext(queue);
		if (!node || node->expires > psi_read_clock())
			return node ? node->expires : PSI_NEVER;

		timerqueue_del(queue, node);
		watch = container_of(node, struct psi_watch, queued);
		ran = task_sched_runtime(current);
		due = psi_watch_check(watch);
		ran = task_sched_runtime(current) - ran;
		watch->pause = psi_read_clock() + (PSI_SHARE - 1) * ran;
		if (due != PSI_NEVER) {
			node->expires = max(due, watch->pause);
			timerqueue_add(queue, node);
		} else {
			psi_group_put(watch->group);
		}
		psi_worker_break(worker, psi_read_clock());
	}
}

static int __init psi_monitors_start(void)
{
	int prio;

	if (!psi_enabled())
		return 0;
	init_user_ns.ucount_max[UCOUNT_PSI_TRIGGERS] = PSI_USER_TRIGGERS;
	for (prio = 0; prio < PSI_NR_PRIOS; prio++) {
		timerqueue_init_head(&psi_monitor_queues[prio]);
		psi_worker_start(&psi_monitors[prio], psi_monitor_work);
	}
	return 0;
}
subsys_initcall(psi_monitors_start);

static struct psi_watch *psi_watch_get(struct psi_group *group, int prio)
{
	/* Pairs with the cmpxchg below. */
	struct psi_watch *watch = smp_load_acquire(&group->watch[prio]), *old;

	if (watch)
		return watch;
	watch = kzalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);
	if (!watch)
		return NULL;
	watch->group = group;
	watch->prio = prio;
	mutex_init(&watch->lock);
	INIT_LIST_HEAD(&watch->samplers);
	timerqueue_init_head(&watch->due);
	timerqueue_init(&watch->queued);
	old = cmpxchg_release(&group->watch[prio], NULL, watch);
	if (!old)
		return watch;
	kfree(watch);
	return old;
}

/* Nothing stops the holder: see "Locking". */
static void psi_watch_lock(struct psi_watch *watch)
{
	preempt_disable();
	while (!mutex_trylock(&watch->lock)) {
		preempt_enable();
		fsleep(PSI_RETRY_US);
		preempt_disable();
	}
}

static void psi_watch_unlock(struct psi_watch *watch)
{
	mutex_unlock(&watch->lock);
	preempt_enable();
}

/* How much later than due the monitor looks for a new trigger, in ns. */
static unsigned int psi_trigger_delay(const struct psi_trigger *t)
{
	long nr = 0;

	for (struct ucounts *user = t->user; user; user = user->ns->ucounts)
		nr = atomic_long_read(&user->ucount[UCOUNT_PSI_TRIGGERS]);
	return min(nr / PSI_DELAY_TRIGGERS, PSI_DELAY_MAX) * NSEC_PER_MSEC;
}

/* With its own sampler, or an older one. No visit of CPUs holds the lock. */
static void psi_trigger_arm(struct psi_trigger *t)
{
	struct psi_sampler *made = t->sampler, *sampler;
	struct psi_watch *watch = made->watch;
	unsigned int delay = psi_trigger_delay(t);
	u64 sampled;

	/* Watch the state first, then leave out its past. */
	psi_watch_lock(watch);
	psi_sampler_count(made, 1);
	psi_watch_unlock(watch);
	psi_watch_cells(watch->group, BIT(made->state));
	psi_sampler_begin(made);

	psi_watch_lock(watch);
	made->delay = delay;
	sampler = psi_sampler_add(made);
	sampler->delay = min(sampler->delay, delay);
	sampler->users++;
	t->base = made->last;
	while (sampler != made) {
		sampled = sampler->last.at;
		psi_watch_unlock(watch);
		psi_sampler_bound(sampler, &t->base);
		psi_watch_lock(watch);
		/* It took no sample meanwhile. */
		if (sampler->last.at == sampled)
			break;
	}
	t->sampler = sampler;
	sampler->least = min(sampler->least, t->threshold);
	list_add_tail(&t->node, &sampler->triggers);
	/* Its state may hold, or may have begun and ended since. */
	if (sampler == made)
		psi_sampler_start(made);
	psi_watch_unlock(watch);
	if (sampler != made)
		psi_sampler_free(made);
}

static void psi_trigger_free(struct psi_trigger *t)
{
	psi_sampler_free(t->sampler);
	if (t->user)
		dec_ucount(t->user, UCOUNT_PSI_TRIGGERS);
	kfree(t);
}

static struct psi_trigger *psi_trigger_alloc(const struct file *file, int prio)
{
	const struct cred *cred = file->f_cred;
	struct psi_trigger *t __free(kfree) = kzalloc(sizeof(*t),
						      GFP_KERNEL_ACCOUNT);

	if (!t)
		return ERR_PTR(-ENOMEM);
	if (prio == PSI_NORMAL) {
		t->user = inc_ucount(cred->user_ns, cred->euid, UCOUNT_PSI_TRIGGERS);
		if (!t->user)
			return ERR_PTR(-ENOSPC);
	}
	return_ptr(t);
}

/**
 * psi_arm - arm a trigger by a write to a pressure file
 * @slot: the place for the trigger of the open file, %NULL before
 * @group: the group that the file belongs to
 * @id: which of its files
 * @text: what is written, a string
 * @file: the open file, whose opener needs CAP_SYS_RESOURCE for windows that
 *	  are no multiple of two seconds
 * @wait: the pollers of the open file
 * Context: Process context, may sleep. @wait stays until psi_disarm().
 * Return: 0, or -EINVAL, -EBUSY (there is a trigger), -ENOSPC (the opener has
 *	   too many), -ENOMEM, or -EOPNOTSUPP.
 */
int psi_arm(struct psi_trigger **slot, struct psi_group *group, enum psi_file_id id,
	    const char *text, struct file *file, wait_queue_head_t *wait)
{
	struct psi_request request;
	struct psi_trigger *t;
	int prio, ret = 0;

	if (!psi_file_available(id))
		return -EOPNOTSUPP;
	/* Whatever is written; of two writes at once, one fills it. */
	if (READ_ONCE(*slot))
		return -EBUSY;
	if (!psi_parse(text, id, &request))
		return -EINVAL;
	prio = file_ns_capable(file, &init_user_ns, CAP_SYS_RESOURCE) ?
	       PSI_REALTIME : PSI_NORMAL;
	if (prio == PSI_NORMAL && request.window % PSI_WINDOW_UNIT_US)
		return -EINVAL;

	t = psi_trigger_alloc(file, prio);
	if (IS_ERR(t))
		return PTR_ERR(t);
	t->threshold = (u64)request.stall * NSEC_PER_USEC;
	t->wait = wait;
	/* For the system, "full" of cpu never holds. */
	if (group != &psi_system || request.state != PSI_CPU_FULL) {
		t->sampler = psi_sampler_alloc(psi_watch_get(group, prio), request.kind,
					       request.state, (u64)request.window * NSEC_PER_USEC);
		if (!t->sampler)
			ret = -ENOMEM;
	}
	if (!ret && cmpxchg_release(slot, NULL, t))
		ret = -EBUSY;
	if (ret)
		psi_trigger_free(t);
	else if (t->sampler)
		/* poll() may look at it by now; it has no event yet. */
		psi_trigger_arm(t);
	return ret;
}

/**
 * psi_disarm - free the trigger of an open file
 * @t: the trigger, %NULL for none
 * Context: Process context, may sleep. Nobody polls or arms any more.
 */
void psi_disarm(struct psi_trigger *t)
{
	struct psi_watch *watch;

	if (!t)
		return;
	if (t->sampler) {
		watch = t->sampler->watch;
		psi_watch_lock(watch);
		list_del(&t->node);
		t->sampler = psi_sampler_put(t->sampler);
		psi_watch_unlock(watch);
	}
	psi_trigger_free(t);
}

static bool psi_too_many_poll(wait_queue_head_t *pollers)
{
	guard(spinlock_irqsave)(&pollers->lock);
	return list_count_nodes(&pollers->head) > PSI_POLLERS_MAX;
}

/**
 * psi_poll - poll() of an open file, which takes the event of its trigger
 * @slot: the place for the trigger of the file
 * @file: the open file
 * @pollers: those that wait for it
 * @table: how the caller waits
 *
 * epoll registers once, maybe before there is a trigger. One poller too many
 * registers, too: so epoll, which asks again, reports the error.
 *
 * Context: Process context. @pollers stays as long as the open file.
 * Return: with %EPOLLPRI if there was an event, %EPOLLERR without a trigger or
 *	   with too many pollers
 */
__poll_t psi_poll(struct psi_trigger **slot, struct file *file, wait_queue_head_t *pollers,
		  poll_table *table)
{
	struct psi_trigger *t;

	if (!psi_too_many_poll(pollers))
		poll_wait(file, pollers, table);
	/* Pairs with the release in psi_arm(). */
	t = smp_load_acquire(slot);
	if (!t)
		return DEFAULT_POLLMASK | EPOLLERR | EPOLLPRI;
	if (psi_too_many_poll(pollers))
		return DEFAULT_POLLMASK | EPOLLERR;
	return DEFAULT_POLLMASK | (atomic_xchg(&t->event, 0) ? EPOLLPRI : 0);
}
