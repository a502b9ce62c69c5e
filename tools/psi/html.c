// SPDX-License-Identifier: GPL-2.0
/* A report as one page: charts and tables, no script, nothing from elsewhere. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "pressure.h"

#define CHART_WIDTH	720
#define CHART_HEIGHT	160
#define MARGIN		40

static const char head[] =
	"<meta charset=\"utf-8\"/>\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
	"<style>\n"
	":root { --back: #fff; --ink: #1a1a1a; --grey: #767676; --line: #ddd;\n"
	"  --cpu: #1f6fb4; --memory: #b3382c; --io: #2b7d3a; }\n"
	"@media (prefers-color-scheme: dark) { :root { --back: #16181c; --ink: #e8e8e8;\n"
	"  --grey: #a0a0a0; --line: #3a3d44; --cpu: #6bb1ee; --memory: #f08a7d;\n"
	"  --io: #7ccf8a; } }\n"
	"body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto;\n"
	"  padding: 0 1rem; color: var(--ink); background: var(--back); }\n"
	"h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 1.5rem 0 .3rem; }\n"
	".verdict { font-size: 1.15rem; font-weight: 600; }\n"
	"svg { width: 100%; height: auto; } text { font-size: 12px; fill: var(--grey); }\n"
	".grid { stroke: var(--line); } .note, .unit { color: var(--grey); }\n"
	"table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }\n"
	"th, td { padding: .25rem .5rem; text-align: right;\n"
	"  border-bottom: 1px solid var(--line); }\n"
	"th:first-child, td:first-child { text-align: left; }\n"
	".wide { overflow-x: auto; }\n"
	"@media print { body { margin: 0; max-width: none; } svg, table { break-inside: avoid; } }\n"
	"</style>\n";

/* Text of others: valid UTF-8 without markup or control characters. */
static void print_escaped(FILE *out, const char *text)
{
	char *clean = sane(text);

	for (const char *p = clean; *p; p++) {
		switch (*p) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			putc(*p, out);
		}
	}
	free(clean);
}

static void print_element(FILE *out, const char *element, const char *class, const char *text)
{
	fprintf(out, class ? "<%s class=\"%s\">" : "<%s>", element, class);
	print_escaped(out, text);
	fprintf(out, "</%s>\n", element);
}

/* Of the beginning of a step; the last one ends where the program did. */
static double x_of(const struct series *series, int i)
{
	double time = i * series->step < series->seconds ? i * series->step : series->seconds;

	return MARGIN + (CHART_WIDTH - MARGIN) * time / series->seconds;
}

/* What is not known is drawn as nothing. */
static double y_of(double percent)
{
	if (isnan(percent))
		percent = 0;
	return 10 + CHART_HEIGHT * (100 - percent) / 100;
}

static void print_axes(FILE *out, const struct series *series)
{
	static const char * const anchors[] = { "start", "middle", "middle", "middle", "end" };

	for (int percent = 0; percent <= 100; percent += 50)
		fprintf(out,
			"<path class=\"grid\" d=\"M%d %.0fH%d\"/>"
			"<text x=\"0\" y=\"%.0f\">%d %%</text>\n",
			MARGIN, y_of(percent), CHART_WIDTH, y_of(percent) + 4, percent);
	for (int i = 0; i <= 4; i++)
		fprintf(out, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"%s\">%.1f s</text>\n",
			MARGIN + (CHART_WIDTH - MARGIN) * i / 4.0, CHART_HEIGHT + 28, anchors[i],
			series->seconds * i / 4);
}

/*
 * Bands of a chart, stacked: a limit below, a shortage on top of it.  Both ends of
 * the stack are right: while a limit holds one task and another one lacks the
 * resource, the bands overlap.
 */
enum band { ALL, LIMIT, SHORTAGE, BANDS };

static const struct {
	const char *name;
	const char *opacity;
} bands[BANDS] = {
	[ALL] = { "", "0" },
	[LIMIT] = { ": a limit", ".6" },
	[SHORTAGE] = { ": a shortage", ".3" },
};

static double top_of(const struct point *point, int resource, enum band band)
{
	return band == LIMIT ? point->limit[resource] : point->some[resource];
}

static double bottom_of(const struct point *point, int resource, enum band band)
{
	double shortage = point->shortage[resource];

	if (band != SHORTAGE)
		return 0;
	return fmax(0, point->some[resource] - (isnan(shortage) ? 0 : shortage));
}

/* An area of steps: each point is the mean of its step. */
static void print_area(FILE *out, const struct series *series, int resource, enum band band,
		       const char *opacity)
{
	const char *name = psi_resource_name(resource);

	fprintf(out, "<path style=\"fill: var(--%s); stroke: var(--%s)\" fill-opacity=\"%s\""
		" d=\"M%d %.1f", name, name, opacity, MARGIN, y_of(0));
	for (int i = 0; i < series->count; i++)
		fprintf(out, "V%.1fH%.1f", y_of(top_of(&series->point[i], resource, band)),
			i + 1 == series->count ? CHART_WIDTH : x_of(series, i + 1));
	for (int i = series->count - 1; i >= 0; i--)
		fprintf(out, "V%.1fH%.1f", y_of(bottom_of(&series->point[i], resource, band)),
			x_of(series, i));
	fprintf(out, "Z\"><title>%s%s</title></path>\n", name, bands[band].name);
}

static bool knows_limits(const struct series *series)
{
	for (int i = 0; i < series->count; i++)
		if (!isnan(series->point[i].limit[PSI_CPU]))
			return true;
	return false;
}

static void print_chart(FILE *out, const struct series *series, int resource)
{
	bool limits = knows_limits(series);

	fprintf(out, "<h2>%s <span class=\"unit\">some task waited, %% of the time%s</span></h2>\n",
		psi_resource_name(resource),
		limits ? "; dark: limit, light: shortage, darkest: both" : "");
	fprintf(out,
		"<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s pressure over time\">\n",
		CHART_WIDTH, CHART_HEIGHT + 36, psi_resource_name(resource));
	print_axes(out, series);
	if (!limits)
		print_area(out, series, resource, ALL, bands[SHORTAGE].opacity);
	for (int band = ALL; limits && band < BANDS; band++)
		print_area(out, series, resource, band, bands[band].opacity);
	fputs("</svg>\n", out);
}

static void print_number(FILE *out, const struct column *column, const struct cell *cell)
{
	if (cell->text)
		print_escaped(out, cell->text);
	else if (!isfinite(cell->number))
		fputs("–", out);
	else
		fprintf(out, "%.*f", places_of(column->format), cell->number);
}

static void print_table(FILE *out, const struct table *table)
{
	if (!table->nr_rows)
		return;
	if (table->title)
		print_element(out, "h2", NULL, table->title);
	fputs("<div class=\"wide\"><table><thead><tr>", out);
	for (int i = 0; i < table->nr_columns; i++)
		print_element(out, "th", NULL, table->columns[i].title);
	fputs("</tr></thead><tbody>\n", out);
	for (int row = 0; row < table->nr_rows; row++) {
		fputs("<tr>", out);
		for (int i = 0; i < table->nr_columns; i++) {
			fputs("<td>", out);
			print_number(out, &table->columns[i],
				     &table->cells[row * table->nr_columns + i]);
			fputs("</td>", out);
		}
		fputs("</tr>\n", out);
	}
	fputs("</tbody></table></div>\n", out);
}

/* Where and when it ran; allocated. */
static char *origin(void)
{
	struct utsname name;
	char date[64];
	time_t now = time(NULL);

	uname(&name);
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S %Z", localtime(&now));
	return text_of("on %s, %s, Linux %s", name.nodename, date, name.release);
}

/**
 * report_html() - write a report as a page
 * @out: the file, which the caller checks
 * @report: the report
 * @command: the command
 * @series: what is drawn
 */
void report_html(FILE *out, const struct report *report, const char *command,
		 const struct series *series)
{
	char *heading = text_of("pressure run: %s", command), *where = origin();
	char *title = text_of("%s, %s", heading, where);

	fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>\n",
	      out);
	fputs(head, out);
	print_element(out, "title", NULL, title);
	fputs("</head><body>\n", out);
	print_element(out, "h1", NULL, heading);
	print_element(out, "p", "note", where);
	for (int i = 0; i < report->nr_says; i++)
		print_element(out, "p", i ? NULL : "verdict", report->says[i]);
	for (int resource = 0; resource < PSI_IRQ && series->count; resource++)
		print_chart(out, series, resource);
	for (const struct table *table = report->tables; table; table = table->next)
		print_table(out, table);
	for (int i = 0; i < report->nr_notes; i++)
		print_element(out, "p", "note", report->notes[i]);
	fputs("</body></html>\n", out);
	free(title);
	free(where);
	free(heading);
}
