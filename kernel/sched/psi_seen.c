// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: tables of what was seen of CPUs
 *
 *   Times on a CPU grow for ever. The fold and each sampler remember what they saw, and
 *   what came since is the difference. Their tables have an entry for each CPU that the
 *   group was ever in use on, by ascending number, and grow when a CPU joins. One pass over
 *   the CPUs of a group finds all entries without a search.
 */

static size_t psi_seen_stride(unsigned int slots)
{
	return struct_size_t(struct psi_seen_cpu, slot, slots);
}

static struct psi_seen_cpu *psi_seen_at(struct psi_seen *seen, unsigned int i)
{
	return (void *)seen->entries + i * psi_seen_stride(seen->slots);
}

/* The first entry at @from or later whose CPU is @cpu or a higher one. */
static unsigned int psi_seen_search(struct psi_seen *seen, unsigned int from, int cpu)
{
	unsigned int to = seen->nr;

	/* Mostly it is the next one. */
	if (from < to && psi_seen_at(seen, from)->cpu >= cpu)
		return from;
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
static struct psi_seen_cpu *psi_seen_find(struct psi_seen *seen, unsigned int *at, int cpu)
{
	struct psi_seen_cpu *entry;

	if (!seen)
		return NULL;
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

static struct psi_seen *psi_seen_alloc(unsigned int slots, unsigned int nr)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
	struct psi_seen *seen = kvzalloc(sizeof(*seen) + nr * psi_seen_stride(slots), gfp);

	if (seen)
		seen->slots = slots;
	return seen;
}

/**
 * psi_seen_grow - make room for more CPUs
 * @seen: what was seen so far
 * @cpus: the CPUs, more of which may come meanwhile
 *
 * Context: Process context, may sleep, but not for long: under pressure it fails.
 * Return: @seen when nothing is missing, or a larger copy, or NULL without memory.
 */
static struct psi_seen *psi_seen_grow(struct psi_seen *seen, const struct cpumask *cpus)
{
	unsigned int room = psi_seen_missing(seen, cpus), old = 0;
	struct psi_seen_cpu *from, *to;
	struct psi_seen *grown;
	int cpu;

	if (!room)
		return seen;
	grown = psi_seen_alloc(seen->slots, seen->nr + room);
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
			memcpy(to, from, psi_seen_stride(seen->slots));
			old++;
		} else {
			to->cpu = cpu;
			cpu = psi_mask_next(cpus, cpu);
			room--;
		}
	}
	return grown;
}

/**
 * psi_window_since - what a CPU did in the running window so far
 * @group: the group
 * @entry: what the fold saw of the CPU, %NULL if it never was there
 * @cpu: the CPU
 * @states: the states that matter
 * @since: filled in for @states, ns
 */
static __always_inline void psi_window_since(struct psi_group *group,
					     const struct psi_seen_cpu *entry, int cpu,
					     unsigned int states, u64 *since)
{
	static const u64 none[PSI_NR_STATES];
	const u64 *last = entry ? entry->slot[psi_last_slot(group)].times : none;
	unsigned long s;

	psi_peek_cpu(group->cpus[cpu], cpu, states, since);
	psi_for_each_state(s, states)
		since[s] = psi_since(since[s], last[s]);
}
