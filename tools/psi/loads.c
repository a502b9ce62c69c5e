// SPDX-License-Identifier: GPL-2.0
/* Pressure between two times, of all cgroups. */
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

/* Groups by name, for qsort() and bsearch(). */
int by_group(const void *a, const void *b)
{
	return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

/**
 * lost() - how much a total grew
 * @from: totals of a group
 * @to: the same later
 * @resource: enum psi_resource
 * @class: enum psi_class
 * @kind: enum psi_kind
 *
 * Return: in s; NAN where the kernel does not tell
 */
double lost(const struct group *from, const struct group *to, int resource, int class, int kind)
{
	const struct totals *old = &from->totals[resource], *new = &to->totals[resource];

	if (!new->known[class][kind])
		return NAN;
	return ((double)new->us[class][kind] - (double)old->us[class][kind]) / 1e6;
}

static double share(const struct totals *from, const struct totals *to, int class, int kind,
		    double seconds)
{
	double percent;

	if (!from->known[class][kind] || !to->known[class][kind] || seconds <= 0)
		return NAN;
	percent = ((double)to->us[class][kind] - (double)from->us[class][kind]) / 1e4 / seconds;
	return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

/* Pressure of one group between two times. */
void load_make(struct load *load, const struct group *from, const struct group *to)
{
	load->name = to->name;
	load->from = from;
	load->to = to;
	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		for (int class = 0; class < PSI_CLASSES; class++)
			for (int kind = 0; kind < PSI_KINDS; kind++)
				load->percent[resource][class][kind] =
					share(&from->totals[resource], &to->totals[resource],
					      class, kind, to->time - from->time);
}

/* Totals only grow: these are of another cgroup, which has that name now. */
bool is_other(const struct group *from, const struct group *to)
{
	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		if (to->totals[resource].us[PSI_PLAIN][PSI_SOME] <
		    from->totals[resource].us[PSI_PLAIN][PSI_SOME])
			return to->totals[resource].known[PSI_PLAIN][PSI_SOME];
	return false;
}

/**
 * loads_make() - pressure of the groups that are in both snapshots
 * @loads: the result; the caller frees @loads->load
 * @from: the older one
 * @to: the newer one, which has the names
 */
void loads_make(struct loads *loads, const struct snapshot *from, const struct snapshot *to)
{
	*loads = (struct loads){ 0 };
	for (int i = 0; i < to->count && from->count; i++) {
		const struct group *old = bsearch(&to->groups[i], from->groups, from->count,
						  sizeof(*old), by_group);

		if (!old || (*old->name && is_other(old, &to->groups[i])))
			continue;
		loads->load = grow(loads->load, loads->count, sizeof(*loads->load));
		load_make(&loads->load[loads->count++], old, &to->groups[i]);
	}
}

/*
 * By exact pressure where there is some: the plain mean divides a stall that moves.
 * So it is never less than that, unless began_late().
 */
double percent_of(const struct load *load, enum psi_resource resource, enum psi_kind kind)
{
	return fmax(load->percent[resource][PSI_EXACT][kind],
		    load->percent[resource][PSI_PLAIN][kind]);
}

/* The kernel began to tell classes only meanwhile, as nobody had asked before. */
bool began_late(const struct load *load)
{
	for (int resource = 0; resource < PSI_IRQ; resource++)
		if (load->percent[resource][PSI_EXACT][PSI_SOME] <
		    0.9 * load->percent[resource][PSI_PLAIN][PSI_SOME] - 1)
			return true;
	return false;
}

/* The figure that ranks a resource: some, or full where that is all there is; 0 if unknown. */
double main_percent(const struct load *load, enum psi_resource resource)
{
	double percent = percent_of(load, resource, resource == PSI_IRQ ? PSI_FULL : PSI_SOME);

	return isnan(percent) ? 0 : percent;
}

enum psi_resource worst_resource(const struct load *load)
{
	int worst = PSI_CPU;

	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		if (main_percent(load, resource) > main_percent(load, worst))
			worst = resource;
	return worst;
}

double worst_percent(const struct load *load)
{
	return main_percent(load, worst_resource(load));
}

static int by_percent(const void *a, const void *b)
{
	const struct load *x = *(const struct load *const *)a,
			  *y = *(const struct load *const *)b;
	double difference = worst_percent(y) - worst_percent(x);

	return difference > 0 ? 1 : difference < 0 ? -1 : strcmp(x->name, y->name);
}

/**
 * loads_rank() - cgroups, worst first
 * @loads: the loads
 * @rank: the result, which the caller frees
 *
 * Return: how many it has; the system is none of them
 */
int loads_rank(const struct loads *loads, const struct load ***rank)
{
	int count = 0;

	*rank = NULL;
	for (int i = 0; i < loads->count; i++) {
		if (!*loads->load[i].name)
			continue;
		*rank = grow(*rank, count, sizeof(**rank));
		(*rank)[count++] = &loads->load[i];
	}
	if (count)
		qsort(*rank, count, sizeof(**rank), by_percent);
	return count;
}
