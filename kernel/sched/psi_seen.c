// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: tables of what was seen of CPUs
 *
 *   Times on a CPU grow for ever. The fold and each sampler remember what they saw, and
 *   what came since is the difference. Their tables have an entry for each CPU that the
 *   group was ever in use on, by ascending number, and grow when a CPU joins. One pass over
 *   the CPUs of a group finds all entries without a search.
 *
 *   Most groups never stall on memory, and a sampler looks at the states of its triggers. So
 *   a table has room for some states, and grows as well when another one matters. The fold,
 *   which has two slots for each CPU, may have this after two windows:
 *
 *	states: nonidle, cpu some, cpu full; weighed
 *
 *	CPUs | 2 | 7 |
 *	the first slots	  | 900  50  50  300 | 400  20  10  100 |   a slot: times up to the end of
 *	the second slots  | 600  40  40  600 | 300  10  10  300 |   a window, weight in it
 *
 *   A reader looks at the slots of one window. So they lie side by side, and what the fold
 *   writes meanwhile is in other cache lines.
 */

static size_t psi_seen_size(const struct psi_seen *seen)
{
	return ALIGN(struct_size(seen, cpus, seen->room), sizeof(u64)) +
	       seen->slots * seen->room * seen->words * sizeof(u64);
}

static struct psi_seen_cpu *psi_seen_at(struct psi_seen *seen, unsigned int i)
{
	return &seen->cpus[i];
}

/* A slot: the times of psi_seen.states in their order, then the weight. */
static u64 *psi_seen_slot(const struct psi_seen *seen, const struct psi_seen_cpu *entry,
			  unsigned int slot)
{
	u64 *slots = (void *)seen + ALIGN(struct_size(seen, cpus, seen->room), sizeof(u64));

	return &slots[(slot * seen->room + (entry - seen->cpus)) * seen->words];
}

/* Where a slot has the time of a state in psi_seen.states. */
static u64 *psi_seen_time(const struct psi_seen *seen, u64 *slot, enum psi_state state)
{
	return &slot[hweight8(seen->states & (BIT(state) - 1))];
}

/* Where a slot has the weight, in a table that has it. */
static u64 *psi_seen_weight(const struct psi_seen *seen, u64 *slot)
{
	return &slot[seen->words - 1];
}

/* What a slot has, zero for what it has no room for. */
static struct psi_slot psi_seen_get(const struct psi_seen *seen, const u64 *slot)
{
	struct psi_slot got = { };
	unsigned long s;

	psi_for_each_state(s, seen->states)
		got.times[s] = *slot++;
	if (seen->weighed)
		got.weight = *slot;
	return got;
}

/* Put in a slot what it has room for. */
static void psi_seen_put(const struct psi_seen *seen, u64 *slot, const struct psi_slot *put)
{
	unsigned long s;

	psi_for_each_state(s, seen->states) {
		*slot = put->times[s];
		slot++;
	}
	if (seen->weighed)
		*slot = put->weight;
}

/* The first entry at @from or later whose CPU is @cpu or a higher one. */
static noinline unsigned int psi_seen_search(struct psi_seen *seen, unsigned int from, int cpu)
{
	unsigned int to = seen->nr;

	while (from < to) {
		unsigned int mid = from + (to - from) / 2;

		if (psi_seen_at(seen, mid)->cpu < cpu)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/*
 * The entry of a CPU, NULL without one. @at, where the search for a lower CPU ended, is
 * where this one begins.
 */
static __always_inline struct psi_seen_cpu *psi_seen_find(struct psi_seen *seen,
							  unsigned int *at, int cpu)
{
	struct psi_seen_cpu *entry;

	if (!seen)
		return NULL;
	/* Mostly it is the next one. */
	if (*at >= seen->nr || psi_seen_at(seen, *at)->cpu < cpu)
		*at = psi_seen_search(seen, *at, cpu);
	if (*at == seen->nr)
		return NULL;
	entry = psi_seen_at(seen, *at);
	if (entry->cpu != cpu)
		return NULL;
	++*at;
	return entry;
}

static int psi_mask_next(const struct cpumask *mask, int cpu)
{
	/* A CPU that joins meanwhile may be seen or not. */
	return data_race(cpumask_next(cpu, mask));
}

/* How many CPUs have no entry. */
static unsigned int psi_seen_missing(struct psi_seen *seen, const struct cpumask *cpus)
{
	unsigned int at = 0, nr = 0;
	int cpu;

	for (cpu = psi_mask_next(cpus, -1); cpu < nr_cpu_ids; cpu = psi_mask_next(cpus, cpu))
		nr += !psi_seen_find(seen, &at, cpu);
	return nr;
}

/* An empty table like @like, with room for @nr CPUs and @states. */
static struct psi_seen *psi_seen_alloc(const struct psi_seen *like, unsigned int nr,
				       unsigned int states)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
	struct psi_seen head = {
		.room = nr,
		.states = states,
		.weighed = like->weighed,
		.words = hweight8(states) + like->weighed,
		.slots = like->slots,
	}, *seen = kvzalloc(psi_seen_size(&head), gfp);

	if (seen)
		*seen = head;
	return seen;
}

/* Copy an entry to a table that has more states. */
static void psi_seen_copy(const struct psi_seen *grown, struct psi_seen_cpu *to,
			  const struct psi_seen *seen, struct psi_seen_cpu *from)
{
	unsigned int i;

	to->cpu = from->cpu;
	for (i = 0; i < seen->slots; i++) {
		struct psi_slot slot = psi_seen_get(seen, psi_seen_slot(seen, from, i));

		psi_seen_put(grown, psi_seen_slot(grown, to, i), &slot);
	}
}

/**
 * psi_seen_grow - make room for more CPUs and states
 * @seen: what was seen so far
 * @cpus: the CPUs, more of which may come meanwhile
 * @states: the states, a bit mask
 *
 * Context: Process context, may sleep, but not for long: under pressure it fails.
 * Return: @seen when nothing is missing, or a larger copy, or NULL without memory.
 */
static struct psi_seen *psi_seen_grow(struct psi_seen *seen, const struct cpumask *cpus,
				      unsigned int states)
{
	unsigned int room = psi_seen_missing(seen, cpus), old = 0;
	struct psi_seen_cpu *from, *to;
	struct psi_seen *grown;
	int cpu;

	if (!room && !(states & ~seen->states))
		return seen;
	grown = psi_seen_alloc(seen, seen->nr + room, seen->states | states);
	if (!grown)
		return NULL;
	/* Merge. A CPU that joins meanwhile may be left for the next time. */
	cpu = psi_mask_next(cpus, -1);
	while (old < seen->nr || (cpu < nr_cpu_ids && room)) {
		from = psi_seen_at(seen, old);
		to = psi_seen_at(grown, grown->nr++);
		if (old < seen->nr && (cpu >= nr_cpu_ids || !room || from->cpu <= cpu)) {
			if (cpu == from->cpu)
				cpu = psi_mask_next(cpus, cpu);
			psi_seen_copy(grown, to, seen, from);
			old++;
		} else {
			to->cpu = cpu;
			cpu = psi_mask_next(cpus, cpu);
			room--;
		}
	}
	return grown;
}

/*
 * Make the times of a CPU, in @states, those of the running window: take off what the fold
 * saw. It has no @entry if it never was there.
 */
static __always_inline void psi_window_since(const struct psi_group *group,
					     const struct psi_seen *seen,
					     struct psi_seen_cpu *entry, unsigned int states,
					     u64 *times)
{
	unsigned int seen_states = entry ? seen->states : 0;
	unsigned long s;
	u64 *last;

	if (entry)
		last = psi_seen_slot(seen, entry, psi_last_slot(group));
	psi_for_each_state(s, seen_states) {
		if (states & BIT(s))
			times[s] = psi_since(times[s], *last);
		last++;
	}
	psi_for_each_state(s, states & ~seen_states)
		times[s] = psi_since(times[s], 0);
}
