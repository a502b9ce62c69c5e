// SPDX-License-Identifier: GPL-2.0
/*
 * The verdict: which resource is short, where, by which limit or why.
 *
 * Pressure says how much was lost; what it was lost for, evidence.c tells.
 */
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

#define CULPRITS	3	/* that are named */

/* Share of a stall from which on the rest does not matter. */
#define MOST		0.8

const char * const whose_places[] = {
	[WHOSE_MACHINE] = "on the machine",
	[WHOSE_HOST] = "on the host of this container",
	[WHOSE_CONTAINER] = "in this container",
	[WHOSE_OTHER] = "as /proc/pressure says",
};

const char * const whose_names[] = {
	[WHOSE_MACHINE] = "the machine",
	[WHOSE_HOST] = "the host of this container",
	[WHOSE_CONTAINER] = "this container",
	[WHOSE_OTHER] = "what is mounted over /proc/pressure",
};

static bool is_below(const char *name, const char *top)
{
	size_t length = strcmp(top, "/") ? strlen(top) : 0;

	return strlen(name) > length + 1 && name[length] == '/' && !strncmp(name, top, length);
}

/* Whether a cgroup's stall is that of one cgroup below it. */
static bool explained(const struct loads *loads, const struct load *load, int resource)
{
	for (int i = 0; i < loads->count; i++)
		if (is_below(loads->load[i].name, load->name) &&
		    main_percent(&loads->load[i], resource) >= MOST * main_percent(load, resource))
			return true;
	return false;
}

/* What /proc/pressure shows is a host's: in a record, "/" is all that tells. */
static bool may_be_host(const struct load *first)
{
	enum whose whose = whose_pressure();

	return whose == WHOSE_HOST || (whose == WHOSE_MACHINE && !strcmp(first->name, "/"));
}

/* Whose pressure the first of @loads is, if that is the system. */
enum whose whose_loads(const struct loads *loads)
{
	enum whose whose = whose_pressure();

	if (whose == WHOSE_MACHINE && loads->count > 1 && may_be_host(&loads->load[1]))
		return WHOSE_HOST;
	return whose;
}

/* To judge by: all together, unless one of the cgroups is much worse. */
static const struct load *worst_load(const struct loads *loads)
{
	const struct load *all = &loads->load[0], *worst;

	/* What a container sees of its host is not its own. */
	if (!*all->name && loads->count > 1 && may_be_host(&all[1]))
		all++;
	worst = all;
	for (const struct load *load = all; load < loads->load + loads->count; load++)
		if (worst_percent(load) > worst_percent(worst))
			worst = load;
	/* All speak for each, unless they are well. */
	if (strlen(all->name) < 2 && worst_percent(all) >= MOST * worst_percent(worst))
		return all;
	return worst;
}

/**
 * find_culprits() - cgroups with much of a stall, none of them below another one
 * @loads: of all cgroups
 * @resource: the resource
 * @culprits: the result, worst first
 * @room: how many to look for
 *
 * Return: how many there are
 */
int find_culprits(const struct loads *loads, int resource, const struct load **culprits, int room)
{
	const struct load **rank;
	int count = loads_rank(loads, &rank), found = 0;
	double most = 0;

	for (int i = 0; i < count; i++)
		most = fmax(most, main_percent(rank[i], resource));
	for (int i = 0; i < count && found < room; i++)
		if (main_percent(rank[i], resource) >= fmax(most / 2, NOTHING) &&
		    !explained(loads, rank[i], resource))
			culprits[found++] = rank[i];
	free(rank);
	return found;
}

/* Cgroups in @load with much of its stall, worst first; itself where there are none. */
static int culprits_in(const struct loads *loads, const struct load *load, int resource,
		       const struct load **culprits)
{
	int all = find_culprits(loads, resource, culprits, CULPRITS), count = 0;

	for (int i = 0; i < all; i++)
		if (!*load->name || is_below(culprits[i]->name, load->name))
			culprits[count++] = culprits[i];
	if (!count)
		culprits[count++] = load;
	return count;
}

/**
 * find_worst() - what is slow
 * @loads: of all cgroups, the system first
 *
 * Return: the finding
 */
struct finding find_worst(const struct loads *loads)
{
	const struct load *culprits[CULPRITS];
	struct finding finding = { .loads = loads, .load = worst_load(loads) };

	culprits_in(loads, finding.load, worst_resource(finding.load), culprits);
	finding.culprit = culprits[0];
	finding.judgement = judge_all(loads, finding.load, finding.culprit);
	return finding;
}

/**
 * limit_percent() - for how much of the time a limit held a cgroup
 * @loads: of all cgroups, with evidence
 * @load: of the cgroup
 * @resource: the resource
 * @inferred: the result is inferred, as the kernel does not tell it
 *
 * Return: in percent; NAN where nothing tells
 */
double limit_percent(const struct loads *loads, const struct load *load, int resource,
		     bool *inferred)
{
	double limit = load->percent[resource][PSI_LIMIT][PSI_SOME], share;

	*inferred = false;
	if (!isnan(limit) || worst_percent(load) < NOTHING)
		return limit;
	free(find_limit(loads, load, resource, &share));
	*inferred = !isnan(share);
	return *inferred ? fmin(100 * share, main_percent(load, resource)) : NAN;
}

void note_inferred(struct report *report, const char *files)
{
	report_note(report, "limit or shortage is inferred from %s: this kernel does not "
		    "tell them apart", files);
}

static const char *class_by(double limit, double shortage)
{
	if (limit >= MOST * (limit + shortage))
		return "limit";
	return shortage >= MOST * (limit + shortage) ? "shortage" : "both";
}

static void say_limit(struct report *report, const char *limit, int resource)
{
	static const char *const limits[] = { "cpu.max", "memory.high and memory.max", "io.max",
					      "" };

	if (limit)
		report_say(report, "A limit holds them: %s.", limit);
	else
		report_say(report, "A limit holds them: look at %s of the cgroups below.",
			   limits[resource]);
}

static void say_shortage(struct report *report, const struct finding *finding)
{
	static const char * const shortages[] = {
		"more runs than there are CPUs", "memory is too small for what is in use",
		"the storage is too slow for what is asked of it", "",
	};
	int resource = finding->judgement.resource;
	char *cpuset = find_cpuset(finding->culprit, resource);

	if (cpuset && resource == PSI_CPU)
		report_say(report, "They may not use all CPUs: %s, and more runs there.", cpuset);
	else if (cpuset)
		report_say(report, "They may not use the memory of all nodes: %s, and memory is "
			   "too small there.", cpuset);
	else
		report_say(report, "It is a shortage, no limit: %s.", shortages[resource]);
	free(cpuset);
}

/**
 * struct class - limit or shortage
 * @limit: percent of the time in which a limit held a task; NAN if not known
 * @shortage: the same without a limit
 * @text: the limit that held most, allocated; NULL for none
 */
struct class {
	double limit;
	double shortage;
	char *text;
};

/* As the files of the cgroups with most of the stall tell: each has limits of its own. */
static struct class infer_class(const struct finding *finding)
{
	const struct load *culprits[CULPRITS];
	int resource = finding->judgement.resource;
	int count = culprits_in(finding->loads, finding->load, finding->judgement.seen, culprits);
	struct class class = { NAN, NAN, NULL };

	for (int i = 0; i < count; i++) {
		double some = main_percent(culprits[i], resource), share, held;
		char *text = find_limit(finding->loads, culprits[i], resource, &share);

		held = 100 * share > some ? some : 100 * share;
		if (text && !(held <= class.limit)) {
			free(class.text);
			class.text = text;
		} else {
			free(text);
		}
		if (isnan(held))
			continue;
		class.limit = fmax(class.limit, held);
		class.shortage = fmax(class.shortage, some - held);
	}
	/* And as much as no limit explains. */
	if (!isnan(class.limit))
		class.shortage = fmax(class.shortage, main_percent(finding->load, resource) -
				      class.limit);
	return class;
}

static void class_facts(struct report *report, const char *name, const char *from,
			const char *limit)
{
	report_fact_text(report, "class", name);
	report_fact_text(report, "class_from", from);
	report_fact_text(report, "limit", limit ?: "");
}

/* Limit or shortage: as the kernel tells it, or inferred. */
static void say_class(struct report *report, const struct finding *finding)
{
	int resource = finding->judgement.resource;
	const double (*percent)[PSI_KINDS] = finding->load->percent[resource];
	double limit = percent[PSI_LIMIT][PSI_SOME], shortage = percent[PSI_SHORTAGE][PSI_SOME];
	/* Both are 0 as long as the kernel has not begun to tell them. */
	bool inferred = !(limit + shortage > 0);
	struct class class = infer_class(finding);
	const char *name;

	if (inferred) {
		limit = class.limit;
		shortage = class.shortage;
	}
	if (isnan(shortage)) {
		class_facts(report, "unknown", NULL, NULL);
		free(class.text);
		return;
	}
	name = class_by(limit, shortage);
	class_facts(report, name, inferred ? "inferred" : "kernel", class.text);
	if (!strcmp(name, "limit"))
		say_limit(report, class.text, resource);
	else if (!strcmp(name, "shortage"))
		say_shortage(report, finding);
	else
		report_say(report, "Partly a limit (%s; %.0f %%), partly a shortage (%.0f %%).",
			   class.text ?: "see the cgroups below", limit, shortage);
	if (inferred)
		note_inferred(report, resource == PSI_CPU ? "cpu.stat" :
			      resource == PSI_MEMORY ? "memory.events" : "io.max and io.stat");
	free(class.text);
}

static void say_where(struct report *report, const struct finding *finding)
{
	const struct load *culprits[CULPRITS];
	int seen = finding->judgement.seen;
	int count = find_culprits(finding->loads, seen, culprits, CULPRITS);
	char *text = NULL;

	for (int i = 0; i < count; i++) {
		char *longer = text_of("%s%s%s (%.0f %%)", text ? text : "", text ? ", " : "",
				       culprits[i]->name, main_percent(culprits[i], seen));

		free(text);
		text = longer;
	}
	if (text && (count > 1 || culprits[0] != finding->load))
		report_say(report, "Most of it is in: %s.", text);
	free(text);
}

/* Where a load is, for people; allocated. */
char *place_of(const struct load *load)
{
	if (!*load->name)
		return text_of("%s", whose_places[whose_pressure()]);
	if (!strcmp(load->name, "/") && may_be_host(load))
		return text_of("in this container");
	return text_of("in %s", load->name);
}

/**
 * verdict() - say what is slow, and why
 * @report: where it is said
 * @loads: of the system and all cgroups, with evidence
 * @seconds: over which time
 */
void verdict(struct report *report, const struct loads *loads, double seconds)
{
	static const char * const what[] = { "a CPU", "memory", "storage", "interrupts to end" };
	struct finding finding = find_worst(loads);
	const struct judgement *judgement = &finding.judgement;
	const struct load *load = finding.load;
	int seen = judgement->seen;
	double some = main_percent(load, seen), full = percent_of(load, seen, PSI_FULL);
	char *place = place_of(load);

	report_fact_text(report, "worst", some < NOTHING ? "none" : judged_name(judgement));
	report_fact_text(report, "where", *load->name ? load->name : "system");
	if (some < LOCAL) {
		report_say(report, "%s is slow: in the last %.1f s, tasks waited for %s most, "
			   "%.1f %% of the time.", some < NOTHING ? "Nothing" : "Hardly anything",
			   seconds, what[seen], some);
		class_facts(report, "none", NULL, NULL);
		free(place);
		return;
	}
	report_say(report, "%s: %s, tasks waited for %s %.0f %% of the last %.1f s.",
		   judged_name(judgement), place, what[seen], some, seconds);
	free(place);
	if (!judgement->sure)
		report_say(report, "It is storage that is too slow, or memory that is too small: "
			   "whether what they read had been pushed out of memory is not known.");
	else if ((int)judgement->resource != seen)
		report_say(report, "What they read back had been pushed out of memory.");
	if (seen != PSI_IRQ && full >= NOTHING)
		report_say(report, "For %.0f %% of the time none of them got on (full).", full);
	if (seen != PSI_IRQ && judgement->sure)
		say_class(report, &finding);
	else
		class_facts(report, "unknown", NULL, NULL);
	say_where(report, &finding);
	for (int other = 0; other < PSI_RESOURCES; other++)
		if (other != seen && other != (int)judgement->resource &&
		    main_percent(load, other) >= LOCAL)
			report_say(report, "Also: %s, %.0f %%.", psi_resource_name(other),
				   main_percent(load, other));
}
