// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: triggers
 *
 * Contract
 *
 *   Who writes "<some|full> <stall us> <window us>" to a pressure file arms a
 *   trigger: poll() on that descriptor reports POLLPRI when the stall within any
 *   window of that length reaches the threshold. At most one event per window:
 *   what reaches the threshold sooner is reported when a window has passed.
 *   Stall from before arming, or that made an event, never counts again.
 *
 * Samplers
 *
 *   Triggers with the same window in a group look at the same numbers. A sampler
 *   takes them, PSI_STEPS times per window, at multiples of the step on
 *   local_clock(): when it looks does not depend on which triggers there are.
 *   At a sample it adds up, for the step that ends, the weighted mean of per-CPU
 *   times that psi_avgs.c explains. It does so for itself, from what it has
 *   seen of each CPU; the estimate that readers get of a window of the fold may
 *   move with the weights of CPUs while nothing stalls. A CPU weighs what it does in
 *   the window of the fold, so far: weights of the step would depend on whether the
 *   sampler had rested at its begin, so on other triggers. Where the fold takes the
 *   times away, a step is split.
 *
 * The window slides
 *
 *   A sampler keeps the samples of a window in a ring. At a sample at t, the
 *   stall in the window that ends there is at least
 *
 *	total(t) - total(t_i) - max(0, (t - window) - t_i)
 *
 *   for any earlier sample t_i: the stall since, less what of it can have been
 *   before the window. And where t - t_i is n windows or less, the stall since is
 *   spread over n of them: one has an n-th. So a trigger does not fire on less,
 *   however late samples are or how long a pause is; on time, it misses no more than
 *   one step, and late, no more than can be told. If it takes
 *   over PSI_SAMPLE_NS to add up total(t), the window ends where that was done, as
 *   there is stall of later in it; up to that, it may be so much less. Where all of
 *   the ring has not enough stall for the lowest threshold, no trigger is looked at:
 *   many of them cost what one does, until something happens.
 *
 * Monitors
 *
 *   While nothing stalls in the states its triggers wait for, a sampler rests: it
 *   is nowhere but in its group, and psi_cpu.watched has the states. When one of
 *   them begins, the walk raises an alarm of the group, with the time, and kicks
 *   the monitor: a worker that looks at the samplers which are due. A sampler rests
 *   again after a step without any such stall. Nothing is forgotten by that: its
 *   samples stay true of these states (for others see psi_sampler_begin()). Not sooner,
 *   as stalls often come in a row; and not later, as looking wakes the CPU, and
 *   what else runs then may stall. One at work raises no alarm.
 *
 *   Triggers whose opener has CAP_SYS_RESOURCE are served by a monitor of real-time
 *   priority, so that they fire when the CPUs are contended. The others have one
 *   of their own, of ordinary priority, and samplers of their own: nobody can buy
 *   real-time work by opening many files.
 *
 * Lifetime
 *
 *   An open file owns its trigger: the slot is filled once, under a cmpxchg, and the
 *   trigger goes with the file (or with the files of the cgroup, when kernfs
 *   drains them, and wakes their pollers). A group has samplers while these have
 *   triggers. The monitor owns the queue of samplers at work, so it alone frees
 *   one that is there.
 *
 * Locking
 *
 *   psi_group.lock protects the samplers of a group, and their triggers. It is
 *   dropped every few triggers, so that it is held for a bounded time however many
 *   there are (but all who wait for one open file are woken in one go, as for any
 *   file). It is not between samplers: who is privileged, and has a trigger for
 *   each of a thousand windows, pays for that with everybody else who reads the group.
 */

#define PSI_STEPS		10
#define PSI_WINDOW_MIN_US	500000
#define PSI_WINDOW_MAX_US	10000000
/* Whole periods of the clock, for who may not ask for more. */
#define PSI_WINDOW_UNIT_US	((u32)div_u64(PSI_PERIOD, NSEC_PER_USEC))

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

/* That many triggers are looked at before others may have the group. */
#define PSI_BATCH		64

/* To add up the CPUs takes less, unless the thread is held up or they are very many. */
#define PSI_SAMPLE_NS		NSEC_PER_MSEC

/**
 * struct psi_file - one kind of file
 * @name: its name below /proc/pressure
 * @some: the state its first line shows, or %PSI_NR_STATES for no such line
 * @full: the state its second line shows
 */
struct psi_file {
	const char		*name;
	enum psi_state		some;
	enum psi_state		full;
};

static const struct psi_file psi_files[PSI_NR_FILES] = {
	[PSI_CPU]	= { "cpu",	PSI_CPU_SOME,	PSI_CPU_FULL },
	[PSI_MEMORY]	= { "memory",	PSI_MEM_SOME,	PSI_MEM_FULL },
	[PSI_IO]	= { "io",	PSI_IO_SOME,	PSI_IO_FULL },
#ifdef CONFIG_IRQ_TIME_ACCOUNTING
	[PSI_IRQ]	= { "irq",	PSI_NR_STATES,	PSI_IRQ_FULL },
#endif
};

/* Whether this machine can tell interrupt time from the rest. */
static bool psi_file_available(const struct psi_file *kind)
{
	return kind->full != PSI_IRQ_FULL || irqtime_accounted();
}

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
 * @group: the group, one reference
 * @node: in psi_group.samplers
 * @class: the monitor that serves it
 * @window: length in ns
 * @mark: when the running step ends
 * @resting: not in the queue of the monitor
 * @told: rests or is about to: the monitor is told when one of @states begins
 * @states: states that triggers wait for, a bit mask
 * @waiting: per state, how many triggers wait for it
 * @triggers: the triggers
 * @nr: how many
 * @owing: at least one of them is owed an event
 * @least: per state, no threshold in @triggers is lower
 * @last: the last sample
 * @late: how long it took to add it up if that was long, else 0, in ns
 * @ring: the samples before, the newest at @head
 * @head: see @ring
 * @queued: in the queue of the monitor
 * @stall: per state, weighted mean over the CPUs added so far, in ns
 * @weight: sum of their weights, in ns
 * @folded: per state, what a fold took out of the running step, in ns
 * @seen: per CPU, what is in @last already of the times since the last fold, or will
 *	  never be
 */
struct psi_sampler {
	struct psi_group	*group;
	struct list_head	node;
	enum psi_class		class;
	u64			window;
	u64			mark;
	bool			resting;
	bool			told;
	unsigned int		states;
	unsigned int		waiting[PSI_NR_STATES];
	struct list_head	triggers;
	unsigned int		nr;
	bool			owing;
	u64			least[PSI_NR_STATES];
	struct psi_sample	last;
	u64			late;
	struct psi_sample	ring[PSI_RING];
	unsigned int		head;
	struct timerqueue_node	queued;
	u64			stall[PSI_NR_STATES];
	u64			weight;
	u64			folded[PSI_NR_STATES];
	u64			seen[][PSI_NR_STATES];
};

/**
 * struct psi_trigger - what one open file waits for
 * @node: in psi_sampler.triggers, if it can fire
 * @sampler: where it looks
 * @threshold: ns
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

/**
 * struct psi_monitor - serves the samplers of one class
 * @worker: its thread; the inbox has alarms
 * @queue: samplers at work, by the time they are due; the thread's alone
 */
struct psi_monitor {
	struct psi_worker	worker;
	struct timerqueue_head	queue;
};

static u64 psi_monitor_work(struct psi_worker *worker);

static struct psi_monitor psi_monitors[PSI_NR_CLASSES] = {
	[PSI_ORDINARY] = {
		.worker = { .name = "psi_watch", .work = psi_monitor_work, .prompt = true },
	},
	[PSI_REALTIME] = {
		.worker = { .name = "psi_watch_rt", .work = psi_monitor_work, .prompt = true,
			    .realtime = true },
	},
};

/*
 * Parsing and windows: no clock, no locks, all inputs are arguments
 */

/* Whether one or more blanks are at @p; go past them. */
static bool psi_skip_blanks(const char **p, const char *end)
{
	const char *begin = *p;

	while (*p < end && (**p == ' ' || **p == '\t'))
		++*p;
	return *p > begin;
}

/* Whether digits are at @p, of a number below 2^32; go past them. */
static bool psi_parse_number(const char **p, const char *end, u32 *number)
{
	const char *begin = *p;
	u64 n = 0;

	for (; *p < end && isdigit(**p); ++*p) {
		n = n * 10 + **p - '0';
		if (n > U32_MAX)
			return false;
	}
	*number = n;
	return *p > begin;
}

/**
 * psi_parse - understand what is written to a pressure file
 * @text: what is written, any bytes
 * @len: how many
 * @full: filled in, whether the trigger waits for "full"
 * @stall: filled in, the threshold in us
 * @window: filled in, the window in us
 *
 * Return: whether @text is a trigger that can be.
 */
static bool psi_parse(const char *text, size_t len, bool *full, u32 *stall, u32 *window)
{
	const char *p = text, *end = text + len;

	if (len < 4)
		return false;
	*full = !memcmp(p, "full", 4);
	if (!*full && memcmp(p, "some", 4))
		return false;
	p += 4;
	if (!psi_skip_blanks(&p, end) || !psi_parse_number(&p, end, stall) ||
	    !psi_skip_blanks(&p, end) || !psi_parse_number(&p, end, window))
		return false;

	if (p < end && *p == '\n')
		p++;
	if (p < end && *p == '\0')
		p++;
	return p == end && *window >= PSI_WINDOW_MIN_US && *window <= PSI_WINDOW_MAX_US &&
	       *stall && *stall <= *window;
}

/*
 * The least stall that was in some window up to @now, where @grown is the growth of
 * the total since @since, or less: in the window that ends at @now, or in the fullest
 * of those that @grown is spread over.
 */
static u64 psi_window_stall(u64 since, s64 grown, u64 now, u64 window)
{
	/* Whoever noted @since may have been on a CPU whose clock is ahead. */
	u64 elapsed = now > since ? now - since : 0;

	if (grown <= 0 || elapsed <= window)
		return max(grown, 0);
	return max(grown - (s64)(elapsed - window),
		   (s64)div64_u64(grown, div64_u64(elapsed - 1, window) + 1));
}

/* Whether the window that ends with the last sample has enough stall for @t. */
static bool psi_trigger_reached(const struct psi_trigger *t, const struct psi_sampler *sampler,
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

static struct psi_sampler *psi_sampler_alloc(enum psi_class class, u64 window)
{
	struct psi_sampler *sampler;

	sampler = kvzalloc(struct_size(sampler, seen, nr_cpu_ids), GFP_KERNEL_ACCOUNT);
	if (!sampler)
		return NULL;
	sampler->class = class;
	sampler->window = window;
	sampler->resting = true;
	sampler->told = true;
	memset(sampler->least, 0xff, sizeof(sampler->least));
	INIT_LIST_HEAD(&sampler->triggers);
	timerqueue_init(&sampler->queued);
	return sampler;
}

static void psi_sampler_free(struct psi_sampler *sampler)
{
	psi_group_put(sampler->group);
	kvfree(sampler);
}

/*
 * Unlock the group of a sampler. A sampler without triggers goes; when the monitor
 * has it in its queue, as soon as it comes by.
 */
static void psi_sampler_put_unlock(struct psi_sampler *sampler)
{
	struct psi_group *group = sampler->group;
	bool gone = !sampler->nr && sampler->resting;

	if (!sampler->nr)
		list_del_init(&sampler->node);
	spin_unlock(&group->lock);
	if (gone)
		psi_sampler_free(sampler);
}

static struct psi_sampler *psi_sampler_find(struct psi_group *group, enum psi_class class,
					    u64 window)
{
	struct psi_sampler *sampler;

	list_for_each_entry(sampler, &group->samplers, node) {
		if (sampler->class == class && sampler->window == window)
			return sampler;
	}
	return NULL;
}

/* Add one CPU to the step that ends. Clocks of CPUs are read a little apart. */
static void psi_sampler_add_cpu(struct psi_sampler *sampler, int cpu, const u64 *times)
{
	u64 *seen = sampler->seen[cpu], step[PSI_NR_STATES];
	int s;

	step[PSI_NONIDLE] = times[PSI_NONIDLE];
	for (s = PSI_NONIDLE + 1; s < PSI_NR_STATES; s++) {
		step[s] = times[s] > seen[s] ? times[s] - seen[s] : 0;
		seen[s] += step[s];
	}
	psi_add_cpu(sampler->stall, &sampler->weight, step);
}

/* All CPUs have been added: add the stall to @sum. */
static void psi_sampler_add_up(struct psi_sampler *sampler, u64 *sum)
{
	int s;

	for (s = 0; s < PSI_NR_STATES; s++) {
		sum[s] += sampler->stall[s];
		sampler->stall[s] = 0;
	}
	sampler->weight = 0;
}

/* The fold takes @times away from a CPU, which begins anew. */
static void psi_samplers_fold_cpu(struct psi_group *group, int cpu, const u64 *times)
{
	struct psi_sampler *sampler;

	list_for_each_entry(sampler, &group->samplers, node) {
		psi_sampler_add_cpu(sampler, cpu, times);
		memset(sampler->seen[cpu], 0, sizeof(sampler->seen[cpu]));
	}
}

static void psi_samplers_fold(struct psi_group *group)
{
	struct psi_sampler *sampler;

	list_for_each_entry(sampler, &group->samplers, node)
		psi_sampler_add_up(sampler, sampler->folded);
}

/*
 * Bring the totals of a sampler to @now. They have what stalls until they are added up,
 * too: as the begin of a window a sample is only too careful, but it may end one later.
 */
static void psi_sampler_update(struct psi_sampler *sampler, u64 now)
{
	struct psi_group *group = sampler->group;
	u64 times[PSI_NR_STATES], done;
	int cpu, s;

	psi_for_each_cpu(cpu, group) {
		psi_peek_cpu(per_cpu_ptr(group->cpus, cpu), cpu, times);
		psi_sampler_add_cpu(sampler, cpu, times);
	}
	psi_sampler_add_up(sampler, sampler->folded);
	for (s = 0; s < PSI_NR_STATES; s++) {
		sampler->last.total[s] += sampler->folded[s];
		sampler->folded[s] = 0;
	}
	sampler->last.at = now;
	done = local_clock();
	sampler->late = done > now + PSI_SAMPLE_NS ? done - now : 0;
}

/*
 * A sample in the middle of a step, which changes nothing. What the step will add
 * for stall up to now depends on how the weights of the CPUs go on, but a mean is
 * never above the largest of its parts.
 */
static void psi_sampler_bound(const struct psi_sampler *sampler, struct psi_sample *now)
{
	struct psi_group *group = sampler->group;
	u64 times[PSI_NR_STATES], most[PSI_NR_STATES] = { };
	int cpu, s;

	now->at = local_clock();
	psi_for_each_cpu(cpu, group) {
		const u64 *seen = sampler->seen[cpu];

		psi_peek_cpu(per_cpu_ptr(group->cpus, cpu), cpu, times);
		for (s = 0; s < PSI_NR_STATES; s++)
			if (times[s] > seen[s])
				most[s] = max(most[s], times[s] - seen[s]);
	}
	for (s = 0; s < PSI_NR_STATES; s++)
		now->total[s] = sampler->last.total[s] + sampler->folded[s] + most[s];
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
 * A state began at @since, after a rest. There was no stall up to it, but for what the
 * clocks of two CPUs differ, so the last sample is true of it as well.
 */
static void psi_sampler_resume(struct psi_sampler *sampler, u64 since)
{
	sampler->last.at = max(since, sampler->last.at);
	sampler->resting = false;
	sampler->told = false;
	sampler->mark = psi_sampler_next_mark(sampler, local_clock());
}

/* What the samplers of a class have to be told of. */
static unsigned int psi_group_waiting(struct psi_group *group, enum psi_class class)
{
	struct psi_sampler *sampler;
	unsigned int states = 0;

	list_for_each_entry(sampler, &group->samplers, node) {
		if (sampler->class == class && sampler->told)
			states |= sampler->states;
	}
	return states;
}

/*
 * The samplers of a group, their states or who of them is told have changed: watch
 * what they wait for. Return the states that hold somewhere.
 */
static unsigned int psi_group_watch(struct psi_group *group)
{
	struct psi_sampler *sampler;
	unsigned int states = 0;
	int class;

	list_for_each_entry(sampler, &group->samplers, node)
		states |= sampler->states;
	for (class = 0; class < PSI_NR_CLASSES; class++)
		WRITE_ONCE(group->alarms[class].states, psi_group_waiting(group, class));
	/*
	 * Who begins a state then looks at ->states; psi_watch() has them the other
	 * way round. One of the two sees the other. Pairs with psi_raise_alarms().
	 */
	smp_mb();
	return psi_watch(group, states);
}

/* Files of a cgroup with an event, and a reference to each. */
struct psi_notices {
	struct kernfs_node	*kn[PSI_NR_FILES];
};

static void psi_notice(struct psi_notices *notices, struct psi_trigger *t)
{
	/* No barrier: who looks for the event is in the queue by then. */
	if (!t->kn) {
		wake_up_interruptible(t->wait);
	} else if (!notices->kn[t->file]) {
		kernfs_get(t->kn);
		notices->kn[t->file] = t->kn;
	}
}

/* One call for all pollers of a file: it wakes them all anyway. */
static void psi_notify(struct psi_notices *notices)
{
	int i;

	for (i = 0; i < PSI_NR_FILES; i++) {
		if (notices->kn[i]) {
			kernfs_notify(notices->kn[i]);
			kernfs_put(notices->kn[i]);
		}
	}
}

/*
 * Whether a trigger might fire after a new sample. There was no more stall in any window
 * that ends with it than since the oldest one, from before all of them.
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

/* Others may want the lock of a group, or the CPU. */
static void psi_group_relax(struct psi_group *group)
{
	spin_unlock(&group->lock);
	cond_resched();
	spin_lock(&group->lock);
}

/*
 * Have all triggers look at a new sample, if @step, and report what they owe. Return
 * when the first is owed an event, PSI_NEVER if none is.
 */
static u64 psi_sampler_report(struct psi_sampler *sampler, const struct psi_sample *now,
			      bool step, struct psi_notices *notices)
{
	u64 next = PSI_NEVER;
	LIST_HEAD(todo);
	unsigned int nr = 0;

	/* Found anew; who is armed meanwhile joins in. */
	sampler->owing = false;
	memset(sampler->least, 0xff, sizeof(sampler->least));
	list_splice_init(&sampler->triggers, &todo);
	while (!list_empty(&todo)) {
		struct psi_trigger *t = list_first_entry(&todo, struct psi_trigger, node);

		list_move_tail(&t->node, &sampler->triggers);
		sampler->least[t->state] = min(sampler->least[t->state], t->threshold);
		if (step)
			psi_trigger_look(t, sampler, now);
		if (psi_trigger_report(t, sampler->window, now))
			psi_notice(notices, t);
		if (t->owed) {
			sampler->owing = true;
			next = min(next, t->quiet);
		}
		/* Files may be closed now, and others armed. */
		if (!(++nr % PSI_BATCH))
			psi_group_relax(sampler->group);
	}
	return next;
}

/* Bring the totals to now. Return whether there was stall that a trigger waits for. */
static bool psi_sampler_grown(struct psi_sampler *sampler)
{
	struct psi_sample old = sampler->last;
	int s;

	psi_sampler_update(sampler, local_clock());
	for (s = 0; s < PSI_NR_STATES; s++) {
		if (sampler->states & BIT(s) && sampler->last.total[s] != old.total[s])
			return true;
	}
	return false;
}

/*
 * After a step without stall a sampler may rest. It asks to be told of stall first,
 * and then looks again: what begins in between is seen by one or the other.
 */
static bool psi_sampler_may_rest(struct psi_sampler *sampler)
{
	unsigned int hold;

	sampler->told = true;
	hold = psi_group_watch(sampler->group);
	return !(hold & sampler->states) && !psi_sampler_grown(sampler);
}

/* A sampler is due. Return when it is again, PSI_NEVER when it rests or is gone. */
static u64 psi_sampler_check(struct psi_sampler *sampler)
{
	struct psi_group *group = sampler->group;
	struct psi_notices notices = { };
	struct psi_sample sample;
	bool step, rest = false;
	u64 next = PSI_NEVER;

	spin_lock(&group->lock);
	step = local_clock() >= sampler->mark;
	if (step) {
		psi_sampler_push(sampler);
		rest = !psi_sampler_grown(sampler) && psi_sampler_may_rest(sampler);
		sample = sampler->last;
	} else {
		psi_sampler_bound(sampler, &sample);
	}
	if (sampler->owing || (step && psi_sampler_may_fire(sampler)))
		next = psi_sampler_report(sampler, &sample, step, &notices);
	/* By now: who takes longer than a step must not be due again at once. */
	if (step)
		sampler->mark = psi_sampler_next_mark(sampler, local_clock());

	/* All files may have been closed meanwhile. */
	if (!sampler->nr) {
		spin_unlock(&group->lock);
		psi_notify(&notices);
		psi_sampler_free(sampler);
		return PSI_NEVER;
	}
	/* Somebody is owed an event: the time for it comes without any stall. */
	sampler->resting = rest && next == PSI_NEVER;
	sampler->told = sampler->resting;
	if (!sampler->resting)
		next = min(next, sampler->mark);
	spin_unlock(&group->lock);

	psi_notify(&notices);
	return next;
}

/*
 * Monitors
 */

/*
 * States began in a group, or were found to hold: tell the monitors that wait for
 * them. Interrupts are disabled.
 */
static void psi_raise_alarms(struct psi_group *group, unsigned int states, u64 now)
{
	int class;

	/* Pairs with psi_group_watch(). */
	smp_mb();
	for (class = 0; class < PSI_NR_CLASSES; class++) {
		struct psi_alarm *alarm = &group->alarms[class];
		struct psi_worker *worker = &psi_monitors[class].worker;

		if (!(states & READ_ONCE(alarm->states)))
			continue;
		/* Both are full barriers: psi_monitor_answer() has them the other way round. */
		atomic_fetch_or(states, &alarm->begun);
		if (atomic_xchg(&alarm->queued, 1))
			continue;
		refcount_inc(&group->refs);
		alarm->since = now;
		llist_add(&alarm->link, &worker->inbox);
		psi_kick(worker);
	}
}

/* Put the samplers to work that the alarm is for. */
static void psi_monitor_answer(struct psi_monitor *monitor, struct psi_alarm *alarm)
{
	enum psi_class class = monitor - psi_monitors;
	struct psi_group *group = container_of(alarm - class, struct psi_group, alarms[0]);
	struct psi_sampler *sampler;
	u64 since = alarm->since;
	unsigned int begun;

	atomic_xchg(&alarm->queued, 0);
	begun = atomic_xchg(&alarm->begun, 0);

	spin_lock(&group->lock);
	list_for_each_entry(sampler, &group->samplers, node) {
		if (sampler->class != class || !sampler->resting || !(sampler->states & begun))
			continue;
		psi_sampler_resume(sampler, since);
		sampler->queued.expires = sampler->mark;
		timerqueue_add(&monitor->queue, &sampler->queued);
	}
	WRITE_ONCE(alarm->states, psi_group_waiting(group, class));
	spin_unlock(&group->lock);
	psi_group_put(group);
}

static u64 psi_monitor_work(struct psi_worker *worker)
{
	struct psi_monitor *monitor = container_of(worker, struct psi_monitor, worker);

	for (;;) {
		struct psi_alarm *alarm, *next;
		struct timerqueue_node *node;
		u64 due;

		/* Each time: there may always be somebody who is due. */
		llist_for_each_entry_safe(alarm, next, llist_del_all(&worker->inbox), link)
			psi_monitor_answer(monitor, alarm);
		node = timerqueue_getnext(&monitor->queue);
		if (!node || node->expires > local_clock())
			return node ? node->expires : PSI_NEVER;

		timerqueue_del(&monitor->queue, node);
		due = psi_sampler_check(container_of(node, struct psi_sampler, queued));
		if (due != PSI_NEVER) {
			node->expires = due;
			timerqueue_add(&monitor->queue, node);
		}
		cond_resched();
	}
}

static int __init psi_monitors_start(void)
{
	int class;

	if (static_branch_likely(&psi_disabled))
		return 0;
	for (class = 0; class < PSI_NR_CLASSES; class++) {
		psi_monitors[class].queue.rb_root = RB_ROOT_CACHED;
		psi_worker_start(&psi_monitors[class].worker);
	}
	return 0;
}
subsys_initcall(psi_monitors_start);

/*
 * Triggers
 */

/*
 * Lock the group and return the sampler for a trigger, NULL and unlocked without
 * memory. What was allocated in vain is left in @spare, to be freed unlocked.
 */
static struct psi_sampler *psi_sampler_get(struct psi_group *group, enum psi_class class,
					   u64 window, struct psi_sampler **spare)
{
	struct psi_sampler *sampler;

	spin_lock(&group->lock);
	sampler = psi_sampler_find(group, class, window);
	if (sampler)
		return sampler;
	spin_unlock(&group->lock);

	*spare = psi_sampler_alloc(class, window);
	if (!*spare)
		return NULL;

	spin_lock(&group->lock);
	sampler = psi_sampler_find(group, class, window);
	if (!sampler) {
		sampler = *spare;
		*spare = NULL;
		refcount_inc(&group->refs);
		sampler->group = group;
		list_add(&sampler->node, &group->samplers);
		psi_sampler_update(sampler, local_clock());
	}
	return sampler;
}

/*
 * The first trigger that waits for a state: what stalled in it before, maybe since
 * the last sample long ago, is not to count for anybody. The state is watched by now:
 * when it begins anew, the monitor is told.
 */
static void psi_sampler_begin(struct psi_sampler *sampler, enum psi_state state)
{
	struct psi_group *group = sampler->group;
	u64 times[PSI_NR_STATES];
	int cpu;

	psi_for_each_cpu(cpu, group) {
		u64 *seen = &sampler->seen[cpu][state];

		psi_peek_cpu(per_cpu_ptr(group->cpus, cpu), cpu, times);
		*seen = max(*seen, times[state]);
	}
	sampler->folded[state] = 0;
}

/* Let a trigger see what its sampler sees from now on. Unlocks the group. */
static void psi_trigger_start(struct psi_trigger *t, struct psi_sampler *sampler)
{
	struct psi_group *group = sampler->group;
	struct psi_sample now;
	unsigned int hold = 0;

	t->sampler = sampler;
	/* One that never fires is never looked at: it only keeps the sampler. */
	INIT_LIST_HEAD(&t->node);
	sampler->nr++;
	if (t->state != PSI_NR_STATES) {
		list_add_tail(&t->node, &sampler->triggers);
		sampler->states |= BIT(t->state);
		/* Also when it is at work: it may be about to rest. */
		hold = psi_group_watch(group) & sampler->states;
		if (!sampler->waiting[t->state]++)
			psi_sampler_begin(sampler, t->state);
		psi_sampler_bound(sampler, &now);
		psi_trigger_restart(t, &now);
		sampler->least[t->state] = min(sampler->least[t->state], t->threshold);
	}
	if (hold) {
		local_irq_disable();
		psi_raise_alarms(group, hold, now.at);
		local_irq_enable();
	}
	spin_unlock(&group->lock);
}

/**
 * psi_arm - arm a trigger by a write to a pressure file
 * @slot: the place for the trigger of the open file, %NULL before
 * @group: the group that the file belongs to
 * @id: which of its files
 * @text: what is written
 * @len: length of @text
 * @file: the open file, whose opener needs CAP_SYS_RESOURCE for windows that are
 *	  no multiple of two seconds
 * @kn: the file of a cgroup, %NULL for one of /proc
 * @wait: pollers of the open file of /proc, %NULL for one of a cgroup
 *
 * Context: Process context, may sleep. @kn and @wait stay until psi_disarm().
 * Return: 0, or -EINVAL, -EBUSY (there is a trigger), -ENOMEM, or -EOPNOTSUPP.
 */
int psi_arm(struct psi_trigger **slot, struct psi_group *group, enum psi_file_id id,
	    const char *text, size_t len, struct file *file, struct kernfs_node *kn,
	    wait_queue_head_t *wait)
{
	const struct psi_file *kind = &psi_files[id];
	struct psi_sampler *sampler, *spare = NULL;
	struct psi_trigger *t;
	enum psi_class class;
	u32 stall, window;
	int ret = 0;
	bool full;

	if (!psi_file_available(kind))
		return -EOPNOTSUPP;
	/* Whatever is written; of two writes at once below. */
	if (READ_ONCE(*slot))
		return -EBUSY;
	if (!psi_parse(text, len, &full, &stall, &window))
		return -EINVAL;
	if (!full && kind->some == PSI_NR_STATES)
		return -EINVAL;
	class = file_ns_capable(file, &init_user_ns, CAP_SYS_RESOURCE) ?
		PSI_REALTIME : PSI_ORDINARY;
	if (class == PSI_ORDINARY && window % PSI_WINDOW_UNIT_US)
		return -EINVAL;

	t = kzalloc(sizeof(*t), GFP_KERNEL_ACCOUNT);
	if (!t)
		return -ENOMEM;
	t->state = full ? kind->full : kind->some;
	if (group == &psi_system && t->state == PSI_CPU_FULL)
		t->state = PSI_NR_STATES;
	t->file = id;
	t->threshold = (u64)stall * NSEC_PER_USEC;
	t->kn = kn;
	t->wait = wait;

	sampler = psi_sampler_get(group, class, (u64)window * NSEC_PER_USEC, &spare);
	if (!sampler) {
		ret = -ENOMEM;
	} else if (cmpxchg_release(slot, NULL, t)) {
		psi_sampler_put_unlock(sampler);
		ret = -EBUSY;
	} else {
		/* poll() may look at it by now; it has no event yet. */
		psi_trigger_start(t, sampler);
	}
	if (ret)
		kfree(t);
	kvfree(spare);
	return ret;
}

/**
 * psi_disarm - free the trigger of an open file
 * @t: the trigger
 *
 * Context: Process context. Nobody polls for @t any more, or arms in its slot.
 */
void psi_disarm(struct psi_trigger *t)
{
	struct psi_sampler *sampler = t->sampler;
	struct psi_group *group = sampler->group;

	spin_lock(&group->lock);
	list_del(&t->node);
	sampler->nr--;
	if (t->state != PSI_NR_STATES && !--sampler->waiting[t->state]) {
		sampler->states &= ~BIT(t->state);
		psi_group_watch(group);
	}
	psi_sampler_put_unlock(sampler);
	kfree(t);
}

/**
 * psi_collect - take the event of a trigger
 * @t: the trigger
 *
 * Context: Any. The caller waits on its file already, so that no event is missed.
 * Return: whether there was one. There is none now.
 */
bool psi_collect(struct psi_trigger *t)
{
	return atomic_xchg(&t->event, 0);
}
