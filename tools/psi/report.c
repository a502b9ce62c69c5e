// SPDX-License-Identifier: GPL-2.0
/* What a verb found out: sentences, facts, tables and notes. */
#include <stdarg.h>
#include <stdlib.h>

#include "pressure.h"

void report_say(struct report *report, const char *format, ...)
{
	va_list arguments;

	report->says = grow(report->says, report->nr_says, sizeof(*report->says));
	va_start(arguments, format);
	report->says[report->nr_says++] = vtext_of(format, arguments);
	va_end(arguments);
}

void report_note(struct report *report, const char *format, ...)
{
	va_list arguments;

	report->notes = grow(report->notes, report->nr_notes, sizeof(*report->notes));
	va_start(arguments, format);
	report->notes[report->nr_notes++] = vtext_of(format, arguments);
	va_end(arguments);
}

static struct fact *add_fact(struct report *report, const char *key, enum format format)
{
	struct fact *fact;

	report->facts = grow(report->facts, report->nr_facts, sizeof(*report->facts));
	fact = &report->facts[report->nr_facts++];
	fact->column = (struct column){ key, NULL, format, 0 };
	return fact;
}

void report_fact(struct report *report, const char *key, enum format format, double number)
{
	add_fact(report, key, format)->cell.number = number;
}

void report_fact_text(struct report *report, const char *key, const char *text)
{
	struct cell *cell = &add_fact(report, key, FMT_TEXT)->cell;

	cell->text = text ? text_of("%s", text) : NULL;
	cell->number = NAN;
}

struct table *report_table(struct report *report, const char *key, const char *title,
			   const struct column *columns, int nr_columns)
{
	struct table *table = grow(NULL, 0, sizeof(*table)), **end = &report->tables;

	*table = (struct table){ key, title, columns, nr_columns, NULL, 0, NULL };
	while (*end)
		end = &(*end)->next;
	*end = table;
	return table;
}

/* The cells of a new row, which are not known yet. */
struct cell *table_row(struct table *table)
{
	size_t row = table->nr_columns * sizeof(struct cell);
	struct cell *cells;

	table->cells = grow(table->cells, table->nr_rows, row);
	cells = table->cells + table->nr_rows++ * table->nr_columns;
	for (int i = 0; i < table->nr_columns; i++)
		cells[i].number = NAN;
	return cells;
}

static void free_texts(char **texts, int count)
{
	for (int i = 0; i < count; i++)
		free(texts[i]);
	free(texts);
}

void report_free(struct report *report)
{
	struct table *table, *next;

	free_texts(report->says, report->nr_says);
	free_texts(report->notes, report->nr_notes);
	for (int i = 0; i < report->nr_facts; i++)
		free(report->facts[i].cell.text);
	free(report->facts);
	for (table = report->tables; table; table = next) {
		next = table->next;
		for (int i = 0; i < table->nr_rows * table->nr_columns; i++)
			free(table->cells[i].text);
		free(table->cells);
		free(table);
	}
	*report = (struct report){ 0 };
}

void report_write(FILE *out, const struct report *report)
{
	if (opt_json)
		report_json(out, report);
	else
		report_text(out, report, screen_width());
}

void report_print(FILE *out, const struct report *report)
{
	report_write(out, report);
	if (fflush(out) || ferror(out))
		die("cannot write the result: is the disk full?");
}
