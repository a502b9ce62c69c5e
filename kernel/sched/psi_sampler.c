// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: samplers, which slide a window over a group
 *
 * Samples
 *
 *   Triggers with the same window and priority in a group look at the same numbers. A
 *   sampler takes them, PSI_STEPS times per window, at multiples of the step on
 *   local_clock(): when it looks does not depend on which triggers there are. Times on a
 *   CPU grow for ever, and the sampler remembers what it saw of each. At a sample it adds
 *   up the weighted mean that psi_avgs.c explains, of the step that ends.
 *
 *   A CPU weighs what it does in the window of the fold. Weights of the step itself would
 *   depend on whether the sampler rested before, and so on other triggers. A step that
 *   the fold splits has two parts, each with the weights of its window. If several folds
 *   fall into the step of a late sampler, all stall before the last fold has the weights
 *   of the window that this fold ended:
 *
 *			   the fold
 *	_____|________________|_______|________ times of a CPU
 *	     |<--- before --->|<after>|
 *	   sample		   sample
 *	 window 7 ----------->|<------- window 8
 *
 *   Exact pressure has no weights that matter for longer than the step: where a step is
 *   shorter, what it adds is nearer to the truth. So a sample of it may come at any time,
 *   and a step is the share of its CPU time that was stalled, as psi_exact.c has it.
 *
 * The window slides
 *
 *   A sampler keeps the samples of a window in a ring. At a sample at t, the stall in the
 *   window that ends there is at least
 *
 *	total(t) - total(t_i) - max(0, (t - window) - t_i)
 *
 *   for any earlier sample t_i: the stall since, less what of it can have been before the
 *   window. And where t - t_i is n windows or less, the stall since is spread over n of
 *   them: one has an n-th. So a trigger never fires below its threshold, however late
 *   samples are or how long a pause is. On time it misses no more than one step. A late
 *   sampler takes one sample, skips the marks that have passed, and misses only what its
 *   samples cannot attribute to a window. If a sample takes
 *   over PSI_SAMPLE_NS to add up, it contains stall of after it began: the window then
 *   ends where the sample was done. Where the whole ring has less stall than the lowest
 *   threshold, no trigger is looked at: many cost what one does, until something happens.
 *
 * Rest
 *
 *	     armed	   state begins: alarm		   first mark
 *	  ------------> RESTING ----------------> RESUMED ------------> AT WORK --+
 *			   ^						  ^	  | each mark:
 *			   |	a step without stall, nothing owed	  +-------+ a sample
 *			   +------------------------------------------------------+
 *
 *   While nothing stalls in the states that its triggers wait for, a sampler rests: it is
 *   in no queue, psi_group.watched has its states, and psi_alarm.states too. When one of
 *   them begins, the walk raises the alarm, with the time. The monitor then has the
 *   sampler resume. Its samples are still true of these states, as there was no stall
 *   meanwhile. At work it raises no alarm. It rests after one step without stall: sooner
 *   would thrash on bursts, later would wake an idle CPU.
 */

#define PSI_STEPS		10

/* A window and one sample: the oldest has to be from before the window begins. */
#define PSI_RING		(PSI_STEPS + 2)

/*
 * A stall that lasts for all of the window may come out shorter by what is
 * rounded off, less than 2 ns for each sample and CPU, and by the time it takes
 * to read a few CPUs' clocks.
 */
#define PSI_SLACK_NS		(NSEC_PER_USEC + 2ULL * PSI_RING * nr_cpu_ids)

/* How much of a threshold may be missing. Less than all of it, or silence would fire. */
static u64 psi_slack(u64 threshold)
{
	return min(PSI_SLACK_NS, threshold / 1024);
}

/**
 * struct psi_alarm - tells a monitor that a watched state began in a group
 * @link: in the inbox of the monitor
 * @queued: the alarm is raised, and was not answered yet
 * @begun: states that began, a bit mask
 * @since: time of the state that set @queued, ns of rq_clock()
 * @states: states that resting samplers wait for, a bit mask
 *
 * Raised under the lock of a CPU's runqueue, or with interrupts disabled. The side that
 * sets @queued writes @since, then adds @link; the monitor reads both before it clears
 * @queued. @states changes under the lock of the watch.
 */
struct psi_alarm {
	struct llist_node	link;
	atomic_t		queued;
	atomic_t		begun;
	u64			since;
	u8			states;
};

/**
 * struct psi_watch - the samplers of a group that one monitor serves
 * @group: the group
 * @prio: which monitor
 * @lock: protects @samplers to @due, @alarm.states, what the samplers hold and their triggers
 * @samplers: all of them, apart from those in @unaware
 * @unaware: samplers that the monitor has not told of the alarm yet which it answers
 * @begun: the states of that alarm
 * @since: its time
 * @waiting: per state, how many samplers have it in their ->states
 * @asking: per state, how many of these are ->asking
 * @due: those at work, by the time they are due
 * @at_work: whether there are any, or may be once @unaware is empty
 * @alarm: wakes those that rest
 * @queued: in the queue of the monitor, by when that is to come by: the first sampler is due,
 *	    or an alarm is to be answered, and the pause is over
 * @in_queue: whether it is there: the monitor's, which then holds a reference to @group
 * @pause: the monitor does not come by before, ns of local_clock(); the monitor's
 * @alarmed: the monitor took the alarm from its inbox; the monitor's
 * @wanted: the monitor found @lock taken, and will try again
 *
 * Allocated with the first trigger, freed with the group.
 */
struct psi_watch {
	struct psi_group	*group;
	enum psi_prio		prio;
	struct mutex		lock;	/* of samplers and triggers */
	struct list_head	samplers;
	struct list_head	unaware;
	unsigned int		begun;
	u64			since;
	unsigned int		waiting[PSI_NR_STATES];
	unsigned int		asking[PSI_NR_STATES];
	struct timerqueue_head	due;
	bool			at_work;
	struct psi_alarm	alarm;
	struct timerqueue_node	queued;
	bool			in_queue;
	u64			pause;
	bool			alarmed;
	bool			wanted;
};

/**
 * struct psi_sample - what had stalled until when
 * @at: ns of local_clock()
 * @total: per state, ns
 */
struct psi_sample {
	u64			at;
	u64			total[PSI_NR_STATES];
};

/**
 * struct psi_sampler - slides windows of one length over a group
 * @watch: the samplers of its group and priority, whose lock protects all that follows
 * @node: in psi_watch.samplers or .unaware
 * @kind: of which pressure
 * @window: length in ns
 * @mark: when the running step ends
 * @resting: not in psi_watch.due
 * @asking: it wants an alarm when one of @states begins: it rests or is about to
 * @states: states that triggers wait for, a bit mask
 * @waiting: per state, how many triggers wait for it
 * @triggers: the triggers
 * @users: how many
 * @todo: those of them that have not looked at @sample yet
 * @looking: the monitor has triggers look at @sample
 * @step: a step ended with @sample
 * @rest: it had no stall, and the alarm was asked for
 * @next: when the first trigger that looked is owed an event
 * @sample: what they look at
 * @owing: at least one of them is owed an event
 * @least: per state, no threshold in @triggers is lower
 * @last: the last sample
 * @late: how long it took to add it up if that was long, else 0, in ns
 * @ring: the samples before, the newest at @head
 * @head: see @ring
 * @due: in psi_watch.due
 * @seen: the times that are in @last already, or will never be; of @states and %PSI_NONIDLE
 * @missing: without memory, @seen lacks CPUs that the group is in use on
 * @used: for exact pressure, the time in use on any CPU at @last
 */
struct psi_sampler {
	struct psi_watch	*watch;
	struct list_head	node;
	enum psi_kind		kind;
	u64			window;
	u64			mark;
	bool			resting;
	bool			asking;
	unsigned int		states;
	unsigned int		waiting[PSI_NR_STATES];
	struct list_head	triggers;
	unsigned int		users;
	struct list_head	todo;
	bool			looking;
	bool			step;
	bool			rest;
	u64			next;
	struct psi_sample	sample;
	bool			owing;
	u64			least[PSI_NR_STATES];
	struct psi_sample	last;
	u64			late;
	struct psi_sample	ring[PSI_RING];
	unsigned int		head;
	struct timerqueue_node	due;
	struct psi_seen		*seen;
	bool			missing;
	u64			used;
};

/**
 * struct psi_trigger - what one open file waits for
 * @node: in psi_sampler.triggers, if it can fire
 * @sampler: where it looks
 * @threshold: ns
 * @stall: in the window that reached it, or in the last one, ns
 * @state: the state it waits for, %PSI_NR_STATES for one that never holds
 * @file: the kind of file it was armed by
 * @owed: the threshold was reached, and the event waits for @quiet
 * @event: to be collected by poll()
 * @since: begin of what counts
 * @base: total at @since, or more
 * @quiet: no event before, ns of local_clock()
 * @kn: the file of a cgroup, %NULL for one of /proc
 * @wait: pollers of a file of /proc, %NULL for one of a cgroup
 */
struct psi_trigger {
	struct list_head	node;
	struct psi_sampler	*sampler;
	u64			threshold;
	u64			stall;
	u8			state;
	u8			file;
	bool			owed;
	atomic_t		event;
	u64			since;
	u64			base;
	u64			quiet;
	struct kernfs_node	*kn;
	wait_queue_head_t	*wait;
};

/*
 * Windows: no clock, no locks, all inputs are arguments
 */

/*
 * A window up to @now had at least this much stall, if the total grew by @grown or more since
 * @since: the window that ends at @now, or the fullest of those that @grown is spread over.
 */
static u64 psi_window_stall(u64 since, s64 grown, u64 now, u64 window)
{
	/* @since may be from a CPU whose clock is ahead. */
	u64 elapsed = now > since ? now - since : 0;

	if (grown <= 0 || elapsed <= window)
		return max(grown, 0);
	return max(grown - (s64)(elapsed - window),
		   (s64)div64_u64(grown, div64_u64(elapsed - 1, window) + 1));
}

/* Whether the window that ends with the last sample has enough stall for @t; note how much. */
static bool psi_trigger_reached(struct psi_trigger *t, const struct psi_sampler *sampler,
				const struct psi_sample *now)
{
	u64 total = now->total[t->state], end = now->at + sampler->late;
	u64 stall = psi_window_stall(t->since, total - t->base, end, sampler->window);
	int i;

	for (i = 0; i < PSI_RING; i++) {
		const struct psi_sample *old = &sampler->ring[i];

		if (old->at > t->since)
			stall = max(stall, psi_window_stall(old->at, total - old->total[t->state],
							    end, sampler->window));
	}
	t->stall = stall;
	return stall + psi_slack(t->threshold) >= t->threshold;
}

/* No stall up to @now counts, a sample with totals that may be too high. */
static void psi_trigger_restart(struct psi_trigger *t, const struct psi_sample *now)
{
	t->since = now->at;
	t->base = now->total[t->state];
}

/* Look at a new sample. */
static void psi_trigger_look(struct psi_trigger *t, const struct psi_sampler *sampler,
			     const struct psi_sample *now)
{
	t->owed = t->owed || psi_trigger_reached(t, sampler, now);
}

/* Report what is owed, unless the last event is too young. */
static bool psi_trigger_report(struct psi_trigger *t, u64 window, const struct psi_sample *now)
{
	if (!t->owed || now->at < t->quiet)
		return false;
	t->owed = false;
	t->quiet = now->at + window;
	psi_trigger_restart(t, now);
	atomic_set(&t->event, 1);
	return true;
}

/*
 * Samplers
 */

/* Add to @cpus all that a group was ever in use on. */
static void psi_group_cpus(struct psi_group *group, struct cpumask *cpus)
{
	struct psi_seen *seen;
	unsigned int i;
	int cpu;

	psi_for_each_cpu(cpu, group)
		cpumask_set_cpu(cpu, cpus);
	/* The fold gives a CPU an entry before it takes it off the list. */
	smp_rmb();
	rcu_read_lock();
	seen = rcu_dereference(group->seen);
	for (i = 0; seen && i < seen->nr; i++)
		cpumask_set_cpu(psi_seen_at(seen, i)->cpu, cpus);
	rcu_read_unlock();
}

static void psi_sampler_free(struct psi_sampler *sampler)
{
	kvfree(sampler->seen);
	kfree(sampler);
}

static struct psi_sampler *psi_sampler_alloc(struct psi_watch *watch, enum psi_kind kind,
					     u64 window)
{
	struct psi_sampler *sampler = kzalloc(sizeof(*sampler), GFP_KERNEL_ACCOUNT);
	const struct psi_seen none = { .slots = 1 };

	if (!sampler)
		return NULL;
	sampler->seen = psi_seen_alloc(&none, 0, BIT(PSI_NONIDLE));
	if (!sampler->seen) {
		kfree(sampler);
		return NULL;
	}
	sampler->watch = watch;
	sampler->kind = kind;
	sampler->window = window;
	sampler->resting = true;
	sampler->asking = true;
	sampler->last.at = psi_read_clock();
	memset(sampler->least, 0xff, sizeof(sampler->least));
	INIT_LIST_HEAD(&sampler->triggers);
	INIT_LIST_HEAD(&sampler->todo);
	timerqueue_init(&sampler->due);
	return sampler;
}

static struct psi_sampler *psi_sampler_find_in(struct list_head *samplers, enum psi_kind kind,
					       u64 window)
{
	struct psi_sampler *sampler;

	list_for_each_entry(sampler, samplers, node) {
		if (sampler->kind == kind && sampler->window == window)
			return sampler;
	}
	return NULL;
}

static struct psi_sampler *psi_sampler_find(struct psi_watch *watch, enum psi_kind kind,
					    u64 window)
{
	return psi_sampler_find_in(&watch->samplers, kind, window) ?:
	       psi_sampler_find_in(&watch->unaware, kind, window);
}

/* Triggers of a sampler begin or cease to wait for a state. */
static void psi_sampler_want(struct psi_sampler *sampler, enum psi_state state, bool want)
{
	struct psi_watch *watch = sampler->watch;
	int change = want ? 1 : -1;

	sampler->states ^= BIT(state);
	watch->waiting[state] += change;
	if (sampler->asking)
		watch->asking[state] += change;
}

/* A sampler begins or ceases to ask for the alarm. */
static void psi_sampler_ask(struct psi_sampler *sampler, bool ask)
{
	int s;

	if (sampler->asking == ask)
		return;
	sampler->asking = ask;
	psi_for_each_state(s, sampler->states)
		sampler->watch->asking[s] += ask ? 1 : -1;
}

/* The samplers at work have changed; see psi_sampling(). */
static void psi_watch_set_at_work(struct psi_watch *watch)
{
	WRITE_ONCE(watch->at_work,
		   timerqueue_getnext(&watch->due) || !list_empty(&watch->unaware));
}

static void psi_sampler_queue(struct psi_sampler *sampler, u64 due)
{
	sampler->due.expires = due;
	timerqueue_add(&sampler->watch->due, &sampler->due);
}

/* A trigger lets go of a sampler, which goes with the last of them. */
static void psi_sampler_put(struct psi_sampler *sampler)
{
	if (--sampler->users)
		return;
	if (!sampler->resting)
		timerqueue_del(&sampler->watch->due, &sampler->due);
	list_del(&sampler->node);
	psi_watch_set_at_work(sampler->watch);
	psi_sampler_free(sampler);
}

/**
 * struct psi_step - the stall of a step
 * @before: in the window that the last fold ended
 * @after: in the running window
 */
struct psi_step {
	struct psi_mean		before;
	struct psi_mean		after;
};

/*
 * Add what a CPU did since @seen, up to the last fold and after it, in @states, of which
 * PSI_NONIDLE is none. What has no weight stays unseen, so that a later step has it.
 */
static void psi_step_add(struct psi_step *step, u64 *seen, const struct psi_slot *folded,
			 const u64 *times, unsigned int states)
{
	u64 before[PSI_NR_STATES], after[PSI_NR_STATES];
	bool grown = false;
	int s;

	psi_for_each_state(s, states | BIT(PSI_NONIDLE)) {
		u64 since = psi_since(times[s], seen[s]);

		/* Whatever @folded is, the two parts are all there is. */
		before[s] = min(psi_since(folded->times[s], seen[s]), since);
		after[s] = since - before[s];
		grown |= s != PSI_NONIDLE && before[s];
	}
	/* Stall, though the last window was idle: it is from before that window. */
	if (folded->weight || !grown)
		before[PSI_NONIDLE] = folded->weight;
	after[PSI_NONIDLE] = psi_since(times[PSI_NONIDLE], folded->times[PSI_NONIDLE]);

	psi_mean_add(&step->before, before, states);
	psi_mean_add(&step->after, after, states);
	psi_for_each_state(s, states) {
		if (before[PSI_NONIDLE])
			seen[s] += before[s];
		if (after[PSI_NONIDLE])
			seen[s] += after[s];
	}
	seen[PSI_NONIDLE] = times[PSI_NONIDLE];
}

/*
 * What the fold has in a slot of a CPU, nothing before its first visit. A sampler that is
 * held up for a window may find what the fold writes there; psi_step_add() can take that.
 */
static struct psi_slot psi_folded(struct psi_group *group, enum psi_kind kind, unsigned int slot,
				  unsigned int *at, int cpu)
{
	struct psi_slot copy = { };
	struct psi_seen_cpu *entry;
	struct psi_seen *seen;

	rcu_read_lock();
	seen = rcu_dereference(group->seen);
	entry = psi_seen_find(seen, at, cpu);
	if (entry)
		/* As said above, the fold may write it. */
		copy = data_race(psi_seen_get(seen, psi_seen_slot(seen, entry, slot)));
	rcu_read_unlock();
	if (kind >= PSI_LIMIT)
		psi_class_folded(group, kind, slot, cpu, &copy);
	return copy;
}

/* Add up the step that ends now. A fold that comes meanwhile is for the next one. */
static void psi_step_sum(struct psi_sampler *sampler, struct psi_step *step)
{
	struct psi_group *group = sampler->watch->group;
	unsigned int states = sampler->states, at = 0, fold_at = 0, slot;
	struct psi_seen *table = sampler->seen;
	struct psi_slot folded, seen;
	u64 times[PSI_NR_STATES];
	struct psi_seen_cpu *entry;
	u64 *words;
	int cpu;

	/* Before what is in the slot. Pairs with psi_fold_group(). */
	slot = smp_load_acquire(&group->folds) % 2;
	memset(step, 0, sizeof(*step));
	psi_for_each_cpu(cpu, group) {
		/* One that came since is for the next sample. */
		entry = psi_seen_find(table, &at, cpu);
		if (!entry)
			continue;
		words = psi_seen_slot(table, entry, 0);
		seen = psi_seen_get(table, words);
		folded = psi_folded(group, sampler->kind, slot, &fold_at, cpu);
		psi_peek_kind(group, cpu, sampler->kind, states | BIT(PSI_NONIDLE), times);
		psi_step_add(step, seen.times, &folded, times, states);
		psi_seen_put(table, words, &seen);
	}
}

/*
 * How much a time grew since it was @seen, but no more than @most. Of the rest, @ahead ns may
 * be from after the step, which ended that long ago: the next step has these. It is unknown
 * when the others were, so they never count.
 */
static u64 psi_step_part(u64 *seen, u64 time, u64 most, u64 ahead)
{
	u64 since = psi_since(time, *seen), part = min(since, most);

	*seen += since - min(since - part, ahead);
	return part;
}

/*
 * The step of exact pressure that ends @now. No CPU was in use for longer than the union of
 * all. That bounds what a CPU adds which the sampler has not looked at before.
 */
static void psi_step_exact(struct psi_sampler *sampler, u64 now, struct psi_mean *sum)
{
	struct psi_group *group = sampler->watch->group;
	u64 times[PSI_NR_STATES], part[PSI_NR_STATES], *words, ahead;
	u64 total = psi_union_read(&group->exact->use, now);
	u64 used = psi_union_since(total, sampler->used);
	unsigned int states = sampler->states, at = 0;
	struct psi_seen *table = sampler->seen;
	struct psi_seen_cpu *entry;
	struct psi_slot seen;
	int cpu, s;

	memset(sum, 0, sizeof(*sum));
	psi_for_each_cpu(cpu, group) {
		entry = psi_seen_find(table, &at, cpu);
		if (!entry)
			continue;
		psi_peek_cpu(group->cpus[cpu], cpu, states | BIT(PSI_NONIDLE), times);
		ahead = psi_since(psi_read_clock(), now);
		words = psi_seen_slot(table, entry, 0);
		seen = psi_seen_get(table, words);
		part[PSI_NONIDLE] = psi_step_part(&seen.times[PSI_NONIDLE], times[PSI_NONIDLE],
						  used, ahead);
		psi_for_each_state(s, states)
			part[s] = psi_step_part(&seen.times[s], times[s], part[PSI_NONIDLE],
						ahead);
		psi_seen_put(table, words, &seen);
		psi_sum_add(sum, part, states);
	}
	psi_sum_share(sum, states, used);
	sampler->used = total;
}

/*
 * A state began at @since. Leave out the time in use before, which would outweigh what comes.
 * The CPUs that are in use now are taken to be in use since then.
 */
static void psi_step_begin(struct psi_sampler *sampler, u64 since)
{
	struct psi_group *group = sampler->watch->group;
	u64 now = psi_read_clock(), ago = psi_since(now, since), times[PSI_NR_STATES];
	u64 total = psi_union_read(&group->exact->use, now);
	unsigned int i;

	for (i = 0; i < sampler->seen->nr; i++) {
		struct psi_seen_cpu *entry = psi_seen_at(sampler->seen, i);
		u64 *words = psi_seen_slot(sampler->seen, entry, 0);
		u64 *seen = psi_seen_time(sampler->seen, words, PSI_NONIDLE);

		psi_peek_cpu(group->cpus[entry->cpu], entry->cpu, BIT(PSI_NONIDLE), times);
		*seen += psi_since(psi_since(times[PSI_NONIDLE], *seen), ago);
	}
	/* After a rest of any length, so this is no psi_union_since(). */
	sampler->used = total - min(ago, psi_union_wrapped(total - sampler->used));
}

/* Make room for CPUs and states; false without memory. A CPU without an entry is not looked at. */
static bool psi_sampler_cover(struct psi_sampler *sampler, const struct cpumask *cpus,
			      unsigned int states)
{
	struct psi_seen *grown = psi_seen_grow(sampler->seen, cpus, states);

	if (!grown)
		return false;
	if (grown != sampler->seen)
		kvfree(sampler->seen);
	sampler->seen = grown;
	return true;
}

/*
 * Leave out what a state stalled up to now. The first trigger that waits for it must not count
 * that, and the last sample may be from long ago. psi_trigger_start() has the state watched
 * before: when it begins anew, an alarm is raised.
 */
static void psi_sampler_begin(struct psi_sampler *sampler, enum psi_state state)
{
	struct psi_group *group = sampler->watch->group;
	u64 times[PSI_NR_STATES];
	unsigned int i;

	for (i = 0; i < sampler->seen->nr; i++) {
		struct psi_seen_cpu *entry = psi_seen_at(sampler->seen, i);
		u64 *words = psi_seen_slot(sampler->seen, entry, 0);
		u64 *seen = psi_seen_time(sampler->seen, words, state);

		psi_peek_kind(group, entry->cpu, sampler->kind, BIT(state), times);
		*seen += psi_since(times[state], *seen);
	}
}

/*
 * Bring the totals of a sampler to @now. Stall after @now, while they are added up, is in
 * them too. If a window begins with this sample, that misses some stall; if a window ends with
 * it, @late makes the window longer.
 */
static void psi_sampler_update(struct psi_sampler *sampler, u64 now)
{
	struct psi_step step = { };
	bool missing = sampler->missing;
	u64 done;
	int s;

	sampler->missing = !psi_sampler_cover(sampler, sampler->watch->group->cpumask,
					      sampler->states);
	/* CPUs come late: nobody knows in which step they stalled, so this one has nothing. */
	if (missing && !sampler->missing) {
		psi_for_each_state(s, sampler->states)
			psi_sampler_begin(sampler, s);
	}
	if (sampler->kind == PSI_EXACT)
		psi_step_exact(sampler, now, &step.after);
	else
		psi_step_sum(sampler, &step);
	for (s = 0; s < PSI_NR_STATES; s++)
		sampler->last.total[s] += step.before.stall[s] + step.after.stall[s];
	sampler->last.at = now;
	done = psi_read_clock();
	/* A step of exact pressure ends at @now whatever happens. */
	sampler->late = sampler->kind != PSI_EXACT && done > now + PSI_SAMPLE_NS ? done - now : 0;
}

/* The largest part of any CPU, before the last fold and after it. */
static void psi_sampler_most(const struct psi_sampler *sampler, unsigned int slot, u64 *before,
			     u64 *after)
{
	struct psi_group *group = sampler->watch->group;
	struct psi_seen *table = sampler->seen;
	unsigned int at = 0, fold_at = 0;
	u64 times[PSI_NR_STATES];
	int cpu, s;

	memset(before, 0, sizeof(times));
	memset(after, 0, sizeof(times));
	psi_for_each_cpu(cpu, group) {
		struct psi_seen_cpu *entry = psi_seen_find(table, &at, cpu);
		struct psi_slot folded = psi_folded(group, sampler->kind, slot, &fold_at, cpu);
		struct psi_slot seen = { };

		if (entry)
			seen = psi_seen_get(table, psi_seen_slot(table, entry, 0));
		psi_peek_kind(group, cpu, sampler->kind, sampler->states, times);
		psi_for_each_state(s, sampler->states) {
			u64 since = psi_since(times[s], seen.times[s]);
			u64 last = min(since, psi_since(times[s], folded.times[s]));

			before[s] = max(before[s], since - last);
			after[s] = max(after[s], last);
		}
	}
}

/*
 * A sample in the middle of a step. Of exact pressure it ends the step. Otherwise it changes
 * nothing, and is an upper bound: what the step will add for stall up to now depends on
 * weights to come. But a mean is never above the largest of its parts, and the step has two
 * means: before the last fold and after it.
 */
static void psi_sampler_bound(struct psi_sampler *sampler, struct psi_sample *now)
{
	struct psi_group *group = sampler->watch->group;
	u64 before[PSI_NR_STATES], after[PSI_NR_STATES];
	unsigned int folds;
	int s;

	if (sampler->kind == PSI_EXACT) {
		/* The rest may have ended at a time that is not known here: take now. */
		if (sampler->resting)
			psi_step_begin(sampler, psi_read_clock());
		psi_sampler_update(sampler, psi_read_clock());
		*now = sampler->last;
		return;
	}
	do {
		/* Before what is in the slot. Pairs with psi_fold_group(). */
		folds = smp_load_acquire(&group->folds);
		now->at = psi_read_clock();
		psi_sampler_most(sampler, folds % 2, before, after);
	} while (READ_ONCE(group->folds) != folds);
	for (s = 0; s < PSI_NR_STATES; s++)
		now->total[s] = sampler->last.total[s] + before[s] + after[s];
}

static void psi_sampler_push(struct psi_sampler *sampler)
{
	sampler->head = (sampler->head + 1) % PSI_RING;
	sampler->ring[sampler->head] = sampler->last;
}

static u64 psi_sampler_step(const struct psi_sampler *sampler)
{
	return div_u64(sampler->window, PSI_STEPS);
}

static u64 psi_sampler_next_mark(const struct psi_sampler *sampler, u64 now)
{
	u64 step = psi_sampler_step(sampler);

	return (div64_u64(now, step) + 1) * step;
}

/*
 * A state began at @since, after a rest. Up to then there was no stall, apart from what the
 * clocks of two CPUs differ by. So the totals of the last sample are right for @since too.
 */
static void psi_sampler_resume(struct psi_sampler *sampler, u64 since)
{
	sampler->last.at = max(since, sampler->last.at);
	if (sampler->kind == PSI_EXACT)
		psi_step_begin(sampler, since);
	sampler->resting = false;
	psi_sampler_ask(sampler, false);
	sampler->mark = psi_sampler_next_mark(sampler, psi_read_clock());
	psi_sampler_queue(sampler, sampler->mark);
	psi_watch_set_at_work(sampler->watch);
}

/*
 * After a change of the samplers of a group, of their states or of @asking: publish the states
 * that they wait for, and the states that raise the alarm.
 */
static unsigned int psi_watch_states(struct psi_watch *watch)
{
	unsigned int states = 0, asked = 0;
	int s;

	for (s = 0; s < PSI_NR_STATES; s++) {
		if (watch->waiting[s])
			states |= BIT(s);
		if (watch->asking[s])
			asked |= BIT(s);
	}
	WRITE_ONCE(watch->alarm.states, asked);
	WRITE_ONCE(watch->group->watched[watch->prio], states);
	return states;
}

/* Watch what the samplers wait for. Return the states that hold somewhere. */
static unsigned int psi_watch_update(struct psi_watch *watch)
{
	unsigned int states = psi_watch_states(watch);

	/*
	 * A CPU that begins a state then looks at ->alarm.states; psi_watch() has them the
	 * other way round. One of the two sees the other. Pairs with psi_raise_alarms().
	 */
	smp_mb();
	return psi_watch(watch->group, states);
}

/*
 * Whether a trigger might fire after a new sample. The oldest sample is from before all windows
 * that end with the new one, so none of these has more stall than came since.
 */
static bool psi_sampler_may_fire(const struct psi_sampler *sampler)
{
	const struct psi_sample *oldest = &sampler->ring[(sampler->head + 1) % PSI_RING];
	int s;

	for (s = 0; s < PSI_NR_STATES; s++) {
		u64 most = sampler->last.total[s] - oldest->total[s];
		u64 least = sampler->least[s];

		if (sampler->states & BIT(s) && most + 2 * psi_slack(least) >= least)
			return true;
	}
	return false;
}

/* Bring the totals to now. Return whether there was stall that a trigger waits for. */
static bool psi_sampler_grown(struct psi_sampler *sampler)
{
	struct psi_sample old = sampler->last;
	int s;

	psi_sampler_update(sampler, psi_read_clock());
	for (s = 0; s < PSI_NR_STATES; s++) {
		if (sampler->states & BIT(s) && sampler->last.total[s] != old.total[s])
			return true;
	}
	return false;
}

/*
 * After a step without stall a sampler may rest. It asks for the alarm first, and then
 * looks again: what begins in between is seen by one or the other.
 */
static bool psi_sampler_may_rest(struct psi_sampler *sampler)
{
	unsigned int hold;

	psi_sampler_ask(sampler, true);
	hold = psi_watch_update(sampler->watch);
	return !(hold & sampler->states) && !psi_sampler_grown(sampler);
}
