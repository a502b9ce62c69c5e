// SPDX-License-Identifier: GPL-2.0
/* pressure export: totals for Prometheus. */
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

/*
 * Labels are escaped like JSON strings as far as cgroups' names go: quote and
 * backslash.  sane() has replaced control characters, which are not.
 */
static void print_label(const char *name, const char *value)
{
	char *clean = sane(value);

	printf("%s=", name);
	json_string(stdout, clean);
	free(clean);
}

static void print_prometheus(const struct table *table)
{
	printf("# HELP psi_stall_seconds_total Time tasks stalled; cgroup=\"\" is the machine.\n"
	       "# TYPE psi_stall_seconds_total counter\n");
	for (int row = 0; row < table->nr_rows; row++) {
		const struct cell *cell = table->cells + row * table->nr_columns;

		for (int i = 0; i < 4; i++) {
			fputs(i ? "," : "psi_stall_seconds_total{", stdout);
			print_label(columns[i].key, cell[i].text);
		}
		printf("} %.6f\n", cell[4].number);
	}
}

int verb_export(int argc, char **argv)
{
	const char *cgroup = NULL;
	const struct opt opts[] = {
		{ "cgroup", OPT_TEXT, &cgroup, "CGROUP", "only this one, and those below" },
		{ 0 }
	};
	struct snapshot snapshot;
	struct report report = { 0 };
	char directory[PATH_MAX];
	struct table *table;
	if (*parse_options(argc, argv, opts, "export [--cgroup CGROUP]"))
		die("export takes no arguments; 'pressure export --help' shows how to use it");
	if (cgroup)
		cgroup_find_or_die(directory, cgroup);
	snapshot_take(&snapshot, cgroup ? directory : NULL, !cgroup, false);
	if (!snapshot.count)
		die("no pressure can be read: %s", explain(snapshot.error));
	table = report_table(&report, "totals", NULL, columns, ARRAY_SIZE(columns));
	for (int i = 0; i < snapshot.count; i++)
		for (int resource = 0; resource < PSI_RESOURCES; resource++)
			add_rows(table, &snapshot.groups[i], resource);
	if (opt_json)
		report_print(stdout, &report);
	else
		print_prometheus(table);
	if (fflush(stdout) || ferror(stdout))
		die("cannot write the result: is the disk full?");
	report_free(&report);
	snapshot_free(&snapshot);
	return STATUS_OK;
}
