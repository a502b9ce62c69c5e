// SPDX-License-Identifier: GPL-2.0
/* Write a page as pressure run --html does, of names that are markup. */
#include "../pressure.h"

int main(int argc, char **argv)
{
	static const struct column columns[] = {
		{ "program", "program", FMT_NAME, 0 },
		{ "percent", "% of time", FMT_PERCENT, 0 },
	};
	double percent[][PSI_RESOURCES] = { { 0, 50, 100, 0 }, { 100, NAN, 0, 0 } };
	const struct series series = { 2, 0.1, percent };
	struct report report = { 0 };
	struct table *table;

	if (argc != 2)
		return 2;
	report_say(&report, "Of 1.00 s, it lost nothing </p><img src=x>");
	report_note(&report, "a note with & and \033[31m");
	table = report_table(&report, "programs", "A <title>", columns, ARRAY_SIZE(columns));
	table_row(table)[0].text = text_of("<b onclick='x'>\xff");
	return !!report_html(argv[1], &report, "<script>&\"x", &series);
}
