// SPDX-License-Identifier: GPL-2.0
/* pressure export: totals for Prometheus. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

static const struct column columns[] = {
	{ "cgroup", "", FMT_NAME, 0 },
	{ "resource", "", FMT_TEXT, 0 },
	{ "class", "", FMT_TEXT, 0 },
	{ "kind", "", FMT_TEXT, 0 },
	{ "total_s", "", FMT_SECONDS, 0 },
};

static void add_rows(struct table *table, const struct group *group, int resource)
{
	const struct totals *totals = &group->totals[resource];

	for (int class = 0; class < PSI_CLASSES; class++) {
		for (int kind = 0; kind < PSI_KINDS; kind++) {
			struct cell *cell;

			if (!totals->known[class][kind])
				continue;
			cell = table_row(table);
			cell[0].text = text_of("%s", group->name);
			cell[1].text = text_of("%s", psi_resource_name(resource));
			cell[2].text = text_of("%s", psi_class_name(class));
			cell[3].text = text_of("%s", psi_kind_name(kind));
			cell[4].number = totals->us[class][kind] / 1e6;
		}
	}
}

/* Escaped as Prometheus wants it; names that differ stay different. */
static void print_label(const char *name, const char *value)
{
	char *valid = valid_name(value);

	printf("%s=\"", name);
	for (const char *p = valid; *p; p++) {
		if (*p == '"' || *p == '\\')
			putchar('\\');
		if (*p == '\n')
			fputs("\\n", stdout);
		else
			putchar(*p);
	}
	putchar('"');
	free(valid);
}

/* One metric: its samples have to follow each other. */
static void print_metric(const struct snapshot *snapshot, const char *prefix, int resource,
			 int kind)
{
	const char *what = kind ? "stalled" : "waiting", *short_of = psi_resource_name(resource);
	bool node = !strcmp(prefix, "node"), told = false;

	for (int i = 0; i < snapshot->count; i++) {
		const struct group *group = &snapshot->groups[i];
		const struct totals *totals = &group->totals[resource];
		const char *name = *group->name ? group->name : "/";

		/* cAdvisor calls the machine "/"; in a container, that is its root. */
		if ((node && *group->name) || !totals->known[PSI_PLAIN][kind] ||
		    (!node && !*group->name && i + 1 < snapshot->count &&
		     !strcmp(snapshot->groups[i + 1].name, "/")))
			continue;
		if (!told)
			printf("# HELP %s_pressure_%s_%s_seconds_total Time in which %s.\n"
			       "# TYPE %s_pressure_%s_%s_seconds_total counter\n",
			       prefix, short_of, what,
			       kind ? "tasks stalled and none got on" : "some task stalled",
			       prefix, short_of, what);
		told = true;
		printf("%s_pressure_%s_%s_seconds_total", prefix, short_of, what);
		if (!node) {
			putchar('{');
			print_label("id", name);
			putchar('}');
		}
		printf(" %.6f\n", totals->us[PSI_PLAIN][kind] / 1e6);
	}
}

/* Classes, which nobody else exports. */
static void print_classes(const struct snapshot *snapshot)
{
	printf("# HELP pressure_stall_seconds_total Time in which tasks stalled, by class; "
	       "id=\"\" is the machine.\n"
	       "# TYPE pressure_stall_seconds_total counter\n");
	for (int i = 0; i < snapshot->count; i++) {
		for (int bit = 0; bit < PSI_RESOURCES * PSI_CLASSES * PSI_KINDS; bit++) {
			int resource = bit / (PSI_CLASSES * PSI_KINDS);
			int class = bit / PSI_KINDS % PSI_CLASSES, kind = bit % PSI_KINDS;
			const struct totals *totals = &snapshot->groups[i].totals[resource];

			if (class == PSI_PLAIN || !totals->known[class][kind])
				continue;
			fputs("pressure_stall_seconds_total{", stdout);
			print_label("id", snapshot->groups[i].name);
			printf(",resource=\"%s\",class=\"%s\",kind=\"%s\"} %.6f\n",
			       psi_resource_name(resource), psi_class_name(class),
			       psi_kind_name(kind), totals->us[class][kind] / 1e6);
		}
	}
}

/* node_exporter has no cpu stalled, which is always 0 for a machine; cAdvisor no irq. */
static void print_prometheus(const struct snapshot *snapshot, const char *beside)
{
	for (int resource = 0; resource < PSI_RESOURCES; resource++) {
		for (int kind = 0; kind < PSI_KINDS; kind++) {
			if (strcmp(beside, "node_exporter") && (resource || !kind))
				print_metric(snapshot, "node", resource, kind);
			if (strcmp(beside, "cadvisor") && resource != PSI_IRQ)
				print_metric(snapshot, "container", resource, kind);
		}
	}
	if (snapshot->stat)
		print_classes(snapshot);
}

/* Leave out the cgroups whose name does not match.  The root of a container is its machine. */
static void keep_matching(struct snapshot *snapshot, const char *pattern)
{
	int kept = 0;

	for (int i = 0; i < snapshot->count; i++) {
		struct group group = snapshot->groups[i];

		if (strlen(group.name) < 2 || !fnmatch(pattern, group.name, 0))
			snapshot->groups[kept++] = group;
		else
			free(group.name);
	}
	snapshot->count = kept;
	if (!kept || strlen(snapshot->groups[kept - 1].name) < 2)
		complain("--match: no cgroup has a path like '%s'", pattern);
}

int verb_export(int argc, char **argv)
{
	const char *cgroup = NULL, *pattern = NULL, *beside = "";
	struct span span = SPAN_NONE;
	const struct opt opts[] = {
		{ "cgroup", OPT_TEXT, &cgroup, "CGROUP", "only this one and those below it" },
		{ "match", OPT_TEXT, &pattern, "PATTERN",
		  "the machine, and cgroups like '*.service'" },
		{ "beside", OPT_TEXT, &beside, "NAME",
		  "leave out what it has: node_exporter or cadvisor" },
		SPAN_OPTS(span),
		{ 0 }
	};
	struct snapshot snapshot;
	struct report report = { 0 };
	char directory[PATH_MAX], mount[PATH_MAX];
	struct table *table;

	if (*parse_options(argc, argv, opts, "export [OPTIONS]"))
		die("export takes no arguments; 'pressure export --help' shows how to use it");
	if (*beside && strcmp(beside, "node_exporter") && strcmp(beside, "cadvisor"))
		die("--beside: '%s' is none of node_exporter and cadvisor", beside);
	if (cgroup && span_given(&span))
		die("--cgroup: of a record, --match chooses cgroups");
	if (cgroup)
		cgroup_find_or_die(directory, cgroup);
	if (cgroup && !psi_cgroup_mount(mount, sizeof(mount)) && !strcmp(directory, mount))
		cgroup = NULL;
	if (span_given(&span))
		span_read(&span, NULL, &snapshot);
	else
		snapshot_take(&snapshot, cgroup ? directory : NULL, !cgroup, false, NULL);
	if (!snapshot.count && span_given(&span))
		die("%s: nothing was there at its end; --until chooses another time",
		    span.path ? span.path : RECORD);
	if (!snapshot.count)
		die("no pressure can be read: %s", explain(snapshot.error ?: -ENOENT));
	if (pattern)
		keep_matching(&snapshot, pattern);
	table = report_table(&report, "totals", NULL, columns, ARRAY_SIZE(columns));
	for (int i = 0; i < snapshot.count && opt_json; i++)
		for (int resource = 0; resource < PSI_RESOURCES; resource++)
			add_rows(table, &snapshot.groups[i], resource);
	if (opt_json)
		report_print(stdout, &report);
	else
		print_prometheus(&snapshot, beside);
	if (fflush(stdout) || ferror(stdout))
		die("cannot write the result: is the disk full?");
	report_free(&report);
	snapshot_free(&snapshot);
	return STATUS_OK;
}
