// SPDX-License-Identifier: GPL-2.0
/* Write a page as pressure run --html does, of names that are markup. */
#include "../pressure.h"

int main(int argc, char **argv)
{
	static const struct column columns[] = {
		{ "program", "program", FMT_NAME, 0 },
		{ "percent", "% of time", FMT_PERCENT, 0 },
	};
	/*
	 * In the second step, the classes of memory are not known, and for 20 % of
	 * it tasks wait for cpu by a limit and for want of it.
	 */
	struct point points[] = { { { 0, 50, 100, 0 }, { 0, 10, 100, 0 }, { 0, 40, 0, 0 } },
				  { { 100, 60, 0, 0 }, { 30, NAN, 0, 0 }, { 90, NAN, 0, 0 } } };
	const struct series series = { .count = 2, .step = 0.1, .seconds = 0.15, .point = points };
	FILE *out = argc == 2 ? fopen(argv[1], "w") : NULL;
	struct report report = { 0 };
	struct table *table;

	if (!out)
		return 2;
	report_say(&report, "Of 1.00 s, it lost nothing </p><img src=x>");
	report_note(&report, "a note with & and \033[31m");
	table = report_table(&report, "programs", "A <title>", columns, ARRAY_SIZE(columns));
	table_row(table)[0].text = text_of("<b onclick='x'>\xff");
	report_html(out, &report, "<script>&\"x", &series);
	return !!fclose(out);
}
