// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: samplers, which slide a window over a group
 *
 * Samples
 *   A sampler serves all triggers of a group that wait for the same state of
 *   the same kind, with the same window and priority. It takes a sample
 *   PSI_STEPS times per window, at multiples of the step on psi_read_clock().
 *   It remembers of each CPU the times in use and in the state. At a sample it
 *   adds up the step that ends, by the formula of psi_avgs.c or psi_asked.c.
 *
 * The window slides
 *   A sampler keeps the samples of a window in a ring. At a sample at t, the
 *   stall in the window that ends there is at least
 *
 *	total(t) - total(t_i) - max(0, (t - window) - t_i)
 *
 *   for any earlier sample t_i: the stall since, less what of it can have been
 *   before the window. And where t - t_i is n windows or less, one of them has
 *   an n-th. So a trigger does not fire below its threshold, however late
 *   samples are. On time it misses no more than one step. A late sampler takes
 *   one sample and skips the marks that have passed. A sample contains stall of
 *   after it began. If it took over PSI_SAMPLE_NS (1 ms), the window ends where
 *   it was done. Else a trigger takes that stall for one of the window.
 *
 * Rest
 *
 *				     armed |
 *		     state begins: alarm   v	first mark
 *		RESTING -------------> RESUMED -------> AT WORK <--+
 *		   ^					   |	   | each mark:
 *		   |	no stall in a step, none owed	   +-------+ a sample
 *		   +---------------------------------------+
 *
 *   While nothing stalls in its state, a sampler rests: it is in no queue, and
 *   psi_group.watched and psi_watch.alarm_states have the state. When that
 *   begins, the walk raises the alarm, with the time, and the monitor has the
 *   sampler resume: no stall came since its last sample. It rests after a step
 *   without stall: sooner would thrash on bursts, later would wake an idle CPU.
 */

#define PSI_STEPS		10

/* A window and one sample: the oldest is from before the window begins. */
#define PSI_RING		(PSI_STEPS + 2)

/*
 * A stall of a whole window may come out shorter: by less than 2 ns for each
 * sample and CPU, and by the time it takes to read a few CPUs' clocks.
 */
#define PSI_SLACK_NS		(NSEC_PER_USEC + 2ULL * PSI_RING * nr_cpu_ids)

/* How much of a threshold may be missing; not all, or silence would fire. */
static u64 psi_slack(u64 threshold)
{
	return min(PSI_SLACK_NS, threshold / 1024);
}

/* What had stalled until when, in ns; @at is of psi_read_clock(). */
struct psi_sample {
	u64			at;
	u64			total;
};

/* What a sampler saw of a CPU: the times in use and in the state, in ns. */
struct psi_sampled {
	u64			nonidle;
	u64			stall;
};

/*
 * Slides a window over a state of a group. The lock of @watch, the samplers of
 * its group and priority, protects all that follows; see psi_sampler_bound().
 * @asked: what the group has while it is asked, NULL for plain pressure
 * @window: length in ns
 * @mark: when the running step ends
 * @since: when the alarm was raised that ended its rest, 0 once it resumed
 * @delay: how much later than due the monitor looks, in ns
 * @next: when a trigger is owed an event first, PSI_NEVER for none
 * @least: no threshold in @triggers is lower
 * @late: how long it took to add @last up if that was long, else 0, in ns
 * @ring: the samples before @last, the newest at @head
 * @due: in psi_watch.due, unless the sampler rests
 * @used: the time in use on any CPU at @last, unless the kind is plain
 * @switches: psi_switches() when the running step began
 * @cpus: per CPU, up to where its times are in @last, or left out for good
 */
struct psi_sampler {
	struct psi_watch	*watch;
	struct list_head	node;
	enum psi_kind		kind;
	enum psi_state		state;
	struct psi_asked	*asked;
	u64			window;
	u64			mark;
	u64			since;
	struct list_head	triggers;
	unsigned int		users;
	unsigned int		delay;
	u64			next;
	u64			least;
	struct psi_sample	last;
	u64			late;
	struct psi_sample	ring[PSI_RING];
	unsigned int		head;
	struct timerqueue_node	due;
	u64			used;
	unsigned int		switches;
	struct psi_sampled	cpus[];
};

/*
 * What one open file waits for; times are in ns
 * @sampler: where it looks, NULL for one that never fires
 * @user: whom it counts for, NULL if the opener has CAP_SYS_RESOURCE
 * @stall: in the window that reached @threshold, or in the last one
 * @owed: the threshold was reached, and the event waits for @quiet
 * @event: to be collected by poll()
 * @base: no stall up to it counts; its total may be too high
 * @quiet: no event before, on psi_read_clock()
 */
struct psi_trigger {
	struct list_head	node;
	struct psi_sampler	*sampler;
	struct ucounts		*user;
	u64			threshold;
	u64			stall;
	bool			owed;
	atomic_t		event;
	struct psi_sample	base;
	u64			quiet;
	wait_queue_head_t	*wait;
};

/* Windows: no clock, no locks, all inputs are arguments */

/*
 * The least stall of a window up to @now, if the total grew by @grown since
 * @since: of the window that ends at @now, or of the fullest of equal parts.
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

/* Look if the window that ends with @now has enough stall; note how much. */
static void psi_trigger_look(struct psi_trigger *t, const struct psi_sampler *sampler,
			     const struct psi_sample *now)
{
	u64 end = now->at + sampler->late, stall;
	int i;

	if (t->owed)
		return;
	stall = psi_window_stall(t->base.at, now->total - t->base.total, end, sampler->window);
	for (i = 0; i < PSI_RING; i++) {
		const struct psi_sample *old = &sampler->ring[i];

		if (old->at > t->base.at)
			stall = max(stall, psi_window_stall(old->at, now->total - old->total, end,
							    sampler->window));
	}
	t->stall = stall;
	t->owed = stall + psi_slack(t->threshold) >= t->threshold;
}

/* Take what is owed; false if the last event is too young. */
static bool psi_trigger_take(struct psi_trigger *t, u64 window, const struct psi_sample *now)
{
	if (!t->owed || now->at < t->quiet)
		return false;
	t->owed = false;
	t->quiet = now->at + window;
	t->base = *now;
	return true;
}

static void psi_sampler_free(struct psi_sampler *sampler)
{
	if (sampler && sampler->asked)
		psi_unask(sampler->asked);
	kvfree(sampler);
}

static struct psi_sampler *psi_sampler_alloc(struct psi_watch *watch, enum psi_kind kind,
					     enum psi_state state, u64 window)
{
	struct psi_sampler *sampler __free(kvfree) = NULL;

	if (!watch)
		return NULL;
	sampler = kvzalloc(struct_size(sampler, cpus, nr_cpu_ids), GFP_KERNEL_ACCOUNT);
	if (!sampler)
		return NULL;
	if (kind != PSI_PLAIN) {
		sampler->asked = psi_ask(watch->group);
		if (!sampler->asked)
			return NULL;
	}
	sampler->watch = watch;
	sampler->kind = kind;
	sampler->state = state;
	sampler->window = window;
	sampler->next = PSI_NEVER;
	sampler->least = U64_MAX;
	INIT_LIST_HEAD(&sampler->triggers);
	timerqueue_init(&sampler->due);
	return_ptr(sampler);
}

static void psi_sampler_count(struct psi_sampler *sampler, int more)
{
	struct psi_watch *watch = sampler->watch;
	u8 *watched = &watch->group->watched[watch->prio], bit = BIT(sampler->state);

	watch->waiting[sampler->state] += more;
	WRITE_ONCE(*watched, watch->waiting[sampler->state] ? *watched | bit : *watched & ~bit);
}

/* Have the state raise an alarm when it next begins; one more is harmless. */
static void psi_sampler_ask(struct psi_sampler *sampler)
{
	struct psi_watch *watch = sampler->watch;

	WRITE_ONCE(watch->alarm_states, watch->alarm_states | BIT(sampler->state));
}

static void psi_watch_set_at_work(struct psi_watch *watch)
{
	WRITE_ONCE(watch->at_work, !!timerqueue_getnext(&watch->due));
}

static void psi_sampler_queue(struct psi_sampler *sampler, u64 due)
{
	if (timerqueue_node_queued(&sampler->due))
		timerqueue_del(&sampler->watch->due, &sampler->due);
	sampler->due.expires = due + sampler->delay;
	if (due != PSI_NEVER)
		timerqueue_add(&sampler->watch->due, &sampler->due);
	psi_watch_set_at_work(sampler->watch);
}

/* A new sampler begins a step, and rests if nothing stalls in that. */
static void psi_sampler_start(struct psi_sampler *sampler)
{
	sampler->since = sampler->last.at;
	psi_sampler_queue(sampler, 0);
	psi_sampler_ask(sampler);
	guard(irqsave)();
	psi_raise_alarm(sampler->watch, BIT(sampler->state), sampler->since);
}

/* Add a sampler, unless there is one for the same; return the one there is. */
static struct psi_sampler *psi_sampler_add(struct psi_sampler *made)
{
	struct psi_watch *watch = made->watch;
	struct psi_sampler *sampler;

	list_for_each_entry(sampler, &watch->samplers, node) {
		if (sampler->kind == made->kind && sampler->state == made->state &&
		    sampler->window == made->window) {
			psi_sampler_count(made, -1);
			return sampler;
		}
	}
	list_add(&made->node, &watch->samplers);
	return made;
}

/* Let go of a sampler for a trigger. Return it, to be freed, if unused now. */
static struct psi_sampler *psi_sampler_put(struct psi_sampler *sampler)
{
	if (--sampler->users)
		return NULL;
	psi_sampler_queue(sampler, PSI_NEVER);
	list_del(&sampler->node);
	psi_sampler_count(sampler, -1);
	return sampler;
}

static void psi_sampler_peek(struct psi_sampler *sampler, int cpu, struct psi_sampled *now)
{
	struct psi_group_cpu *gc = sampler->watch->group->cpus[cpu];
	struct psi_asked_cpu *more = psi_asked_cpu(sampler->asked, gc, cpu);
	u64 times[PSI_NR_STATES], held[PSI_NR_HELD] = { };
	enum psi_state s = sampler->state;

	psi_peek_more(gc, cpu, BIT(PSI_NONIDLE) | BIT(s), times, more, held);
	now->nonidle = times[PSI_NONIDLE];
	now->stall = sampler->kind == PSI_LIMIT ? held[PSI_LIMIT_AT(s)] : times[s];
	if (sampler->kind == PSI_SHORTAGE)
		now->stall -= held[PSI_ONLY_AT(s)];
}

/*
 * A state began at @since. Leave out the time in use before, which would
 * outweigh what comes. A CPU that was in use after the last sample is taken to
 * be in use since then: so a trigger rather misses some than fires too soon.
 */
static void psi_sampler_skip(struct psi_sampler *sampler, u64 since)
{
	u64 now = psi_read_clock(), ago = psi_since(now, since);
	u64 used = psi_union_read(sampler->asked, now);
	struct psi_sampled times;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct psi_sampled *seen = &sampler->cpus[cpu];

		if (!READ_ONCE(sampler->watch->group->cpus[cpu]))
			continue;
		psi_sampler_peek(sampler, cpu, &times);
		/* It left the list since psi_sampler_begin(). */
		if (!cpumask_test_cpu(cpu, sampler->watch->group->cpumask))
			*seen = times;
		else
			seen->nonidle += psi_since(psi_since(times.nonidle, seen->nonidle), ago);
	}
	sampler->used = psi_union_before(used, sampler->used, ago);
}

/* Leave out all up to now. A state that begins anew raises an alarm. */
static void psi_sampler_begin(struct psi_sampler *sampler)
{
	int cpu;

	sampler->switches = psi_switches(sampler->watch->group);
	sampler->last.at = psi_read_clock();
	sampler->used = psi_union_read(sampler->asked, sampler->last.at);
	for_each_possible_cpu(cpu) {
		if (READ_ONCE(sampler->watch->group->cpus[cpu]))
			psi_sampler_peek(sampler, cpu, &sampler->cpus[cpu]);
	}
}

/* Add one CPU to a step. Without weight it stays for a later one. */
static void psi_sum_add(struct psi_look *step, enum psi_state state,
			struct psi_sampled *seen,
			const struct psi_sampled *now)
{
	u64 w = psi_since(now->nonidle, seen->nonidle);
	u64 stall = min(psi_since(now->stall, seen->stall), w);

	if (!w)
		return;
	step->stall[state] = psi_mean_with(step->stall[state], step->weight, stall, w);
	step->sum[state] += stall;
	step->weight += w;
	step->most = max(step->most, w);
	seen->nonidle += w;
	seen->stall += stall;
}

/*
 * Bring the total to @now, return whether it grew. It gets stall of after @now,
 * too: a window from here on misses some, @late makes one up to here longer.
 */
static bool psi_sampler_update(struct psi_sampler *sampler, u64 now)
{
	u64 total = psi_union_read(sampler->asked, now), used, stall = 0, done;
	enum psi_state state = sampler->state;
	struct psi_look step = { };
	struct psi_sampled times;
	unsigned int switches;
	int cpu;

	psi_for_each_cpu(cpu, sampler->watch->group) {
		psi_sampler_peek(sampler, cpu, &times);
		psi_sum_add(&step, state, &sampler->cpus[cpu], &times);
	}
	used = psi_union_since(total, sampler->used);
	sampler->used = total;
	switches = psi_switches(sampler->watch->group);
	/*
	 * A step in which the group was off, if only for a part, does not
	 * count. (Triggers of /proc stay then; those of a cgroup end.)
	 */
	if (likely(!(switches & 1) && switches == sampler->switches))
		stall = sampler->kind == PSI_PLAIN ? step.stall[state] :
			psi_sums_share(&step, step.sum[state], used);
	sampler->last.total += stall;
	sampler->switches = switches;
	sampler->last.at = now;
	done = psi_read_clock();
	sampler->late = done > now + PSI_SAMPLE_NS ? done - now : 0;
	return stall;
}

/*
 * A sample within a step, which changes nothing. Its total is an upper bound:
 * the step will add a mean over CPUs, which is at most their sum, and at most
 * the time that passed. A caller without the lock checks that no sample came.
 */
static void psi_sampler_bound(struct psi_sampler *sampler, struct psi_sample *now)
{
	struct psi_sampled times;
	u64 sum = 0;
	int cpu;

	now->at = psi_read_clock();
	psi_for_each_cpu(cpu, sampler->watch->group) {
		psi_sampler_peek(sampler, cpu, &times);
		sum += psi_since(times.stall, READ_ONCE(sampler->cpus[cpu].stall));
	}
	now->total = READ_ONCE(sampler->last.total) +
		     min(sum, psi_since(psi_read_clock(), READ_ONCE(sampler->last.at)));
}

static void psi_sampler_push(struct psi_sampler *sampler)
{
	sampler->head = (sampler->head + 1) % PSI_RING;
	sampler->ring[sampler->head] = sampler->last;
}

static u64 psi_sampler_next_mark(const struct psi_sampler *sampler, u64 now)
{
	return psi_next_mark(now, div_u64(sampler->window, PSI_STEPS));
}

/*
 * A state began at @since, after a rest. Nothing stalled before, so the last
 * totals are right for @since, too, but for differences of clocks.
 */
static void psi_sampler_resume(struct psi_sampler *sampler)
{
	sampler->last.at = max(sampler->since, sampler->last.at);
	psi_sampler_skip(sampler, sampler->since);
	/* The delay is over: a mark since then must not wait again. */
	sampler->mark = psi_sampler_next_mark(sampler, sampler->since);
	sampler->since = 0;
	sampler->switches = psi_switches(sampler->watch->group);
	psi_sampler_queue(sampler, sampler->mark);
}

/* No window that ends now has more stall than came since the oldest sample. */
static bool psi_sampler_may_fire(const struct psi_sampler *sampler)
{
	const struct psi_sample *oldest = &sampler->ring[(sampler->head + 1) % PSI_RING];
	u64 most = sampler->last.total - oldest->total;

	return most + 2 * psi_slack(sampler->least) >= sampler->least;
}

/* Ask for the alarm, then look again: one of them sees what begins. */
static bool psi_sampler_may_rest(struct psi_sampler *sampler)
{
	psi_sampler_ask(sampler);
	return !psi_watch_cells(sampler->watch->group, BIT(sampler->state)) &&
	       !psi_sampler_update(sampler, psi_read_clock());
}
