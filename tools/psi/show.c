// SPDX-License-Identifier: GPL-2.0
/* pressure: what is slow here, and why. */
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

#define ROWS		8	/* cgroups in the table */
#define ROWS_JSON	512
#define CULPRITS	3	/* and in the verdict */

/* Percent: below, nothing is worth a word; a cgroup is only named from LOCAL on. */
#define NOTHING		1
#define LOCAL		10
/* Share of the stall in a cgroup from which on the others do not matter. */
#define MOST		0.8

static const struct column resource_columns[] = {
	{ "resource", "", FMT_TEXT, 0 },
	{ "some_pct", "some %", FMT_PERCENT, 0 },
	{ "full_pct", "full %", FMT_PERCENT, 0 },
	{ "exact_some_pct", "exact %", FMT_PERCENT, 2 },
	{ "limit_some_pct", "limit %", FMT_PERCENT, 1 },
	{ "shortage_some_pct", "shortage %", FMT_PERCENT, 1 },
};

static const struct column cgroup_columns[] = {
	{ "cgroup", "cgroup", FMT_NAME, 0 },
	{ "cpu_some_pct", "cpu %", FMT_PERCENT, 0 },
	{ "memory_some_pct", "memory %", FMT_PERCENT, 0 },
	{ "io_some_pct", "io %", FMT_PERCENT, 0 },
	{ "irq_full_pct", "irq %", FMT_PERCENT, 2 },
	{ "limit_pct", "by limit %", FMT_PERCENT, 1 },
};

/* Whether a cgroup's stall is that of one cgroup below it. */
static bool explained(const struct loads *loads, const struct load *load, int resource)
{
	size_t length = strcmp(load->name, "/") ? strlen(load->name) : 0;

	for (int i = 0; i < loads->count; i++) {
		const char *name = loads->load[i].name;

		if (strlen(name) > length + 1 && name[length] == '/' &&
		    !strncmp(name, load->name, length) &&
		    main_percent(&loads->load[i], resource) >= MOST * main_percent(load, resource))
			return true;
	}
	return false;
}

static const struct load *worst_load(const struct loads *loads)
{
	const struct load *worst = &loads->load[0];

	for (int i = 1; i < loads->count; i++)
		if (worst_percent(&loads->load[i]) > worst_percent(worst))
			worst = &loads->load[i];
	/* The system speaks for all, unless it is well. */
	if (!*loads->load[0].name && worst_percent(&loads->load[0]) >= MOST * worst_percent(worst))
		return &loads->load[0];
	return worst;
}

static const char *class_of(const struct load *load, int resource)
{
	double limit = load->percent[resource][PSI_LIMIT][PSI_SOME];
	double shortage = load->percent[resource][PSI_SHORTAGE][PSI_SOME];

	if (isnan(limit) || isnan(shortage))
		return "unknown";
	if (limit >= MOST * (limit + shortage))
		return "limit";
	return shortage >= MOST * (limit + shortage) ? "shortage" : "both";
}

static void say_class(struct report *report, const struct load *load, int resource)
{
	static const char *const limits[] = { "cpu.max", "memory.high and memory.max", "io.max",
					      "" };
	static const char * const shortages[] = {
		"more runs than there are CPUs", "memory is too small for what is in use",
		"the storage is too slow for what is asked of it", "",
	};
	const char *class = class_of(load, resource);

	report_fact_text(report, "class", class);
	if (!strcmp(class, "limit"))
		report_say(report, "A limit holds them: look at %s of the cgroups below.",
			   limits[resource]);
	else if (!strcmp(class, "shortage"))
		report_say(report, "It is a shortage, no limit: %s.", shortages[resource]);
	else if (!strcmp(class, "both"))
		report_say(report, "Partly a limit (%s, %.0f %%), partly a shortage (%.0f %%).",
			   limits[resource], load->percent[resource][PSI_LIMIT][PSI_SOME],
			   load->percent[resource][PSI_SHORTAGE][PSI_SOME]);
}

static void say_where(struct report *report, const struct loads *loads, int resource)
{
	const struct load *rank[64];
	int count = loads_rank(loads, rank, ARRAY_SIZE(rank)), named = 0;
	char *text = text_of("%s", "");
	double most = 0;

	for (int i = 0; i < count && named < CULPRITS; i++) {
		double percent = main_percent(rank[i], resource);
		char *longer;

		if (worst_resource(rank[i]) != (unsigned int)resource || percent < NOTHING ||
		    percent < most / 2 || explained(loads, rank[i], resource))
			continue;
		most = percent > most ? percent : most;
		longer = text_of("%s%s%s (%.0f %%)", text, named++ ? ", " : "", rank[i]->name,
				 percent);
		free(text);
		text = longer;
	}
	if (named)
		report_say(report, "Most of it is in: %s.", text);
	free(text);
}

static void say_verdict(struct report *report, const struct loads *loads, double seconds)
{
	static const char * const what[] = { "a CPU", "memory", "storage", "interrupts to end" };
	const struct load *worst = worst_load(loads);
	int resource = worst_resource(worst);
	double some = main_percent(worst, resource);
	double full = worst->percent[resource][PSI_PLAIN][PSI_FULL];

	report_fact_text(report, "worst", some < NOTHING ? "none" : psi_resource_name(resource));
	report_fact_text(report, "where", *worst->name ? worst->name : "system");
	if (some < NOTHING || (*worst->name && some < LOCAL)) {
		report_say(report, "Nothing is slow: in the last %.1f s, tasks waited for %s most, "
			   "%.1f %% of the time.", seconds, what[resource], some);
		return;
	}
	report_say(report, "%s: %s %s, tasks waited for %s %.0f %% of the last %.1f s.",
		   psi_resource_name(resource), *worst->name ? "in" : "on",
		   *worst->name ? worst->name : "the machine", what[resource], some, seconds);
	if (resource != PSI_IRQ && full >= NOTHING)
		report_say(report, "For %.0f %% of the time none of them got on (full).", full);
	say_class(report, worst, resource);
	say_where(report, loads, resource);
	for (int other = 0; other < PSI_RESOURCES; other++)
		if (other != resource && main_percent(worst, other) >= LOCAL)
			report_say(report, "Also: %s, %.0f %%.", psi_resource_name(other),
				   main_percent(worst, other));
}

static void fill_resources(struct report *report, const struct load *load)
{
	const char *title = *load->name ? load->name :
			    "The machine (some: a task waits; full: and none gets on):";
	struct table *table = report_table(report, "resources", title, resource_columns,
					   ARRAY_SIZE(resource_columns));

	for (int resource = 0; resource < PSI_RESOURCES; resource++) {
		const double (*percent)[PSI_KINDS] = load->percent[resource];
		struct cell *cell;

		if (isnan(percent[PSI_PLAIN][PSI_FULL]))
			continue;
		cell = table_row(table);
		cell[0].text = text_of("%s", psi_resource_name(resource));
		cell[1].number = percent[PSI_PLAIN][PSI_SOME];
		cell[2].number = percent[PSI_PLAIN][PSI_FULL];
		cell[3].number = percent[PSI_EXACT][PSI_SOME];
		cell[4].number = percent[PSI_LIMIT][PSI_SOME];
		cell[5].number = percent[PSI_SHORTAGE][PSI_SOME];
	}
}

static void fill_cgroups(struct report *report, const struct loads *loads)
{
	const struct load *rank[ROWS_JSON];
	int count = loads_rank(loads, rank, opt_json ? ROWS_JSON : ROWS);
	struct table *table = report_table(report, "cgroups",
					   "Cgroups, worst first:", cgroup_columns,
					   ARRAY_SIZE(cgroup_columns));

	for (int i = 0; i < count && (opt_json || worst_percent(rank[i]) >= NOTHING); i++) {
		struct cell *cell = table_row(table);

		cell[0].text = text_of("%s", rank[i]->name);
		for (int resource = 0; resource < PSI_IRQ; resource++)
			cell[1 + resource].number = rank[i]->percent[resource][PSI_PLAIN][PSI_SOME];
		cell[4].number = rank[i]->percent[PSI_IRQ][PSI_PLAIN][PSI_FULL];
		cell[5].number = rank[i]->percent[worst_resource(rank[i])][PSI_LIMIT][PSI_SOME];
	}
}

static void make_report(struct report *report, const struct loads *loads,
			const struct snapshot *snapshot, double seconds)
{
	report_fact(report, "seconds", FMT_SECONDS, seconds);
	say_verdict(report, loads, seconds);
	fill_resources(report, &loads->load[0]);
	fill_cgroups(report, loads);
	if (snapshot->error)
		report_note(report, "/proc/pressure cannot be read (%s): only cgroups are shown",
			    explain(snapshot->error));
	note_missing(report, snapshot->stat);
}

int verb_show(int argc, char **argv)
{
	double seconds = 2;
	const struct opt opts[] = {
		{ "time", OPT_TIME, &seconds, "TIME", "how long to measure (2s)" },
		{ 0 }
	};
	char **rest = parse_options(argc, argv, opts, "[--time TIME]");
	struct snapshot from, to;
	struct report report = { 0 };
	struct loads loads;

	if (*rest)
		die("there is no verb '%s'; 'pressure help' lists them", *rest);
	snapshot_take(&from, NULL, true);
	if (!from.count)
		die("/proc/pressure/cpu: %s", explain(from.error));
	sleep_with_progress(seconds, "measuring");
	snapshot_take(&to, NULL, true);
	loads_make(&loads, &from, &to);
	if (!loads.count)
		die("the pressure files vanished while they were measured: was PSI switched off?");
	make_report(&report, &loads, &to, to.groups[0].time - from.groups[0].time);
	report_print(stdout, &report);
	report_free(&report);
	free(loads.load);
	snapshot_free(&from);
	snapshot_free(&to);
	return STATUS_OK;
}
