// SPDX-License-Identifier: GPL-2.0
/* pressure: what is slow here, and why. */
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

#define ROWS		8	/* cgroups in the table */

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

static void fill_resources(struct report *report, const struct loads *loads)
{
	static const char * const titles[] = {
		[WHOSE_MACHINE] = "The machine (some: a task waits; full: and none gets on):",
		[WHOSE_HOST] = "The host of this container, all of it:",
		[WHOSE_CONTAINER] = "This container (some: a task waits; full: and none gets on):",
		[WHOSE_OTHER] = "What is mounted over /proc/pressure:",
	};
	const struct load *load = &loads->load[0];
	const char *title = *load->name ? load->name : titles[whose_loads(loads)];
	struct table *table = report_table(report, "resources", title, resource_columns,
					   ARRAY_SIZE(resource_columns));

	/* Where nothing is known of the machine or the container, a cgroup is the first one. */
	for (int resource = 0; resource < PSI_RESOURCES && strlen(load->name) < 2; resource++) {
		const double (*percent)[PSI_KINDS] = load->percent[resource];
		struct cell *cell;

		if (isnan(percent[PSI_PLAIN][PSI_SOME]) && isnan(percent[PSI_PLAIN][PSI_FULL]))
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
	const struct load **rank;
	int count = loads_rank(loads, &rank);
	struct table *table = report_table(report, "cgroups",
					   "Cgroups, worst first:", cgroup_columns,
					   ARRAY_SIZE(cgroup_columns));

	for (int i = 0; i < count && (opt_json || (i < ROWS && worst_percent(rank[i]) >= 1)); i++) {
		struct cell *cell = table_row(table);

		cell[0].text = text_of("%s", rank[i]->name);
		for (int resource = 0; resource < PSI_IRQ; resource++)
			cell[1 + resource].number = percent_of(rank[i], resource, PSI_SOME);
		cell[4].number = rank[i]->percent[PSI_IRQ][PSI_PLAIN][PSI_FULL];
		cell[5].number = rank[i]->percent[judge(loads, rank[i]).resource][PSI_LIMIT]
						 [PSI_SOME];
	}
	free(rank);
}

static void make_report(struct report *report, const struct loads *loads,
			const struct snapshot *snapshot, bool recorded, double seconds)
{
	report_fact(report, "seconds", FMT_SECONDS, seconds);
	verdict(report, loads, seconds);
	fill_resources(report, loads);
	fill_cgroups(report, loads);
	if (whose_pressure() == WHOSE_HOST)
		report_note(report, "/proc/pressure of a container shows its host; \"/\" is the "
			    "container");
	if (snapshot->error)
		report_note(report, "/proc/pressure cannot be read (%s): only cgroups are shown",
			    explain(snapshot->error));
	if (recorded)
		note_record(report, snapshot->groups[0].time);
	else
		note_missing(report, snapshot->stat);
}

/* Of what is worst. */
static bool is_late(const struct snapshot *from, const struct snapshot *to)
{
	struct loads loads;
	int worst = 0;
	bool late;

	loads_make(&loads, from, to);
	for (int i = 1; i < loads.count; i++)
		if (worst_percent(&loads.load[i]) > worst_percent(&loads.load[worst]))
			worst = i;
	late = loads.count && began_late(&loads.load[worst]);
	free(loads.load);
	return late;
}

static void measure(struct snapshot *from, struct snapshot *to, double seconds, bool again)
{
	snapshot_take(from, NULL, true, true, NULL);
	if (!from->count)
		die("/proc/pressure/cpu: %s", explain(from->error));
	sleep_with_progress(measurable(seconds, from->stat), "measuring");
	snapshot_take(to, NULL, true, true, NULL);
	if (again || !is_late(from, to))
		return;
	sleep_with_progress(from->groups[0].time + ASKED - now(),
			    "the kernel begins to tell limit from shortage");
	snapshot_free(from);
	snapshot_free(to);
	measure(from, to, seconds, true);
}

int verb_show(int argc, char **argv)
{
	double seconds = 0;
	struct span span = SPAN_NONE;
	const struct opt opts[] = {
		{ "time", OPT_DURATION, &seconds, "TIME", "how long to measure (2s)" },
		SPAN_OPTS(span),
		{ 0 }
	};
	char **rest = parse_options(argc, argv, opts, "[OPTIONS]");
	struct snapshot from, to;
	struct report report = { 0 };
	struct loads loads;

	if (*rest)
		die("'%s' is too much: a verb goes before all options, and show takes no arguments",
		    *rest);
	if (seconds && span_given(&span))
		die("--time: of a record, --since and --until choose the time");
	if (span_given(&span))
		span_read(&span, &from, &to);
	else
		measure(&from, &to, seconds ?: 2, false);
	loads_make(&loads, &from, &to);
	if (!loads.count && span_given(&span))
		die_of_span(&span);
	if (!loads.count)
		die("the pressure files vanished while they were measured: was PSI switched off?");
	seconds = to.groups[0].time - from.groups[0].time;
	make_report(&report, &loads, &to, span_given(&span), seconds);
	report_print(stdout, &report);
	report_free(&report);
	free(loads.load);
	snapshot_free(&from);
	snapshot_free(&to);
	return STATUS_OK;
}
