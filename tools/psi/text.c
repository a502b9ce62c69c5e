// SPDX-License-Identifier: GPL-2.0
/* Reports as text: wrapped sentences, and tables that fit the width. */
#define _GNU_SOURCE
#include <ctype.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "pressure.h"

#define COLUMNS_MAX	16
#define NAME_MIN	12	/* of a column that takes what is left */
#define GAP		2	/* between columns */

#define PLAIN	"\033[0m"
#define BOLD	"\033[1m"
#define RED	"\033[31m"
#define GREEN	"\033[32m"
#define YELLOW	"\033[33m"

/* From here on a share of lost time is worth a look, and an alarm. */
#define PERCENT_LOOK	10
#define PERCENT_ALARM	40

bool use_utf8(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

static bool use_colour(FILE *out)
{
	return obeys(fileno(out)) && !getenv("NO_COLOR");
}

/* Bytes of the next character, which is valid or a byte, and the columns that it takes. */
static int next_character(const char *text, int *width)
{
	int length = use_utf8() ? utf8_length(text) : 0;
	wchar_t character;

	*width = 1;
	if (length && mbtowc(&character, text, length) == length)
		*width = wcwidth(character);
	if (*width < 0)
		*width = 1;
	return length ? length : 1;
}

/* Columns on the screen: two for wide characters, none for those that combine. */
int text_width(const char *text)
{
	int all = 0, width;

	while (*text) {
		text += next_character(text, &width);
		all += width;
	}
	return all;
}

/*
 * What a terminal obeys: C0, DEL and, as one character of UTF-8, C1; and what turns the
 * order of the text around, U+202A to U+202E and U+2066 to U+2069.
 */
bool is_control(const char *text, int length)
{
	const unsigned char *byte = (const unsigned char *)text;

	if (length == 2)
		return *byte == 0xc2 && byte[1] < 0xa0;
	if (length == 3 && *byte == 0xe2)
		return (byte[1] == 0x80 && byte[2] >= 0xaa && byte[2] <= 0xae) ||
		       (byte[1] == 0x81 && byte[2] >= 0xa6 && byte[2] <= 0xa9);
	return iscntrl(*byte);
}

/* Text of others, without what a terminal would obey. */
char *sane(const char *text)
{
	char *copy = text_of("%s", text), *end = copy;

	while (*text) {
		int length = utf8_length(text);

		if (!length || is_control(text, length) || (length > 1 && !use_utf8()))
			*end++ = '?';
		else
			end = mempcpy(end, text, length);
		text += length ? length : 1;
	}
	*end = 0;
	return copy;
}

char *spark(const double *percent, int count)
{
	static const char * const blocks[] = {
		"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"
	};
	static const char * const marks[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
	char *text = text_of("%*s", count * 3 + 1, "");
	int end = 0;

	for (int i = 0; i < count; i++) {
		int level = isnan(percent[i]) ? 0 : percent[i] * ARRAY_SIZE(blocks) / 100;

		if (level >= (int)ARRAY_SIZE(blocks))
			level = ARRAY_SIZE(blocks) - 1;
		end += sprintf(text + end, "%s", (use_utf8() ? blocks : marks)[level]);
	}
	return text;
}

/* Bytes of the next word, or of as much of it as fits @room columns. */
static int next_word(const char *text, int room)
{
	int length = 0, all = 0, width;

	while (text[length] && text[length] != ' ') {
		int more = next_character(text + length, &width);

		all += width;
		if (all > room && length)
			break;
		length += more;
	}
	return length;
}

/* Words from @column on; further lines begin at @indent. */
static void print_wrapped(FILE *out, const char *text, int width, int column, int indent)
{
	int gap = 0;

	while (*text) {
		int length = next_word(text, width - indent);
		char *word = text_of("%.*s", length, text);

		if (column > indent && column + gap + text_width(word) > width)
			column = fprintf(out, "\n%*s", indent, "") - 1;
		else
			column += fprintf(out, "%*s", gap, "");
		fputs(word, out);
		column += text_width(word);
		free(word);
		text += length;
		gap = strspn(text, " ") > 0;
		text += strspn(text, " ");
	}
	putc('\n', out);
}

/* Digits after the point. */
int places_of(enum format format)
{
	if (format == FMT_PERCENT)
		return 1;
	return format == FMT_SECONDS ? 2 : 0;
}

static char *cell_text(const struct column *column, const struct cell *cell)
{
	if (cell->text)
		return sane(cell->text);
	if (!isfinite(cell->number))
		return text_of("-");
	return text_of("%.*f", places_of(column->format), cell->number);
}

static bool is_left(const struct column *column)
{
	return column->format != FMT_PERCENT && column->format != FMT_SECONDS &&
	       column->format != FMT_COUNT;
}

/* Of a long name the end says most; its beginning goes. */
static char *cut(char *text, int width, bool keep_end)
{
	const char *dots = use_utf8() ? "…" : ".", *from = text;
	int end = 0, all = 0, one;
	char *result;

	if (text_width(text) <= width)
		return text;
	if (keep_end) {
		while (text_width(from) > width - 1)
			from += next_character(from, &one);
		result = text_of("%s%s", dots, from);
	} else {
		for (;;) {
			int more = next_character(text + end, &one);

			if (all + one > width - 1)
				break;
			all += one;
			end += more;
		}
		result = text_of("%.*s%s", end, text, dots);
	}
	free(text);
	return result;
}

static const char *colour_of(const struct column *column, const struct cell *cell)
{
	if (column->format == FMT_MARK)
		return !strcmp(cell->text, "ok") ? GREEN : !strcmp(cell->text, "no") ? RED : YELLOW;
	if (column->format != FMT_PERCENT || isnan(cell->number) || cell->number < PERCENT_LOOK)
		return "";
	return cell->number < PERCENT_ALARM ? YELLOW : RED;
}

/* What a column takes; nothing if it may be left out and no row knows it. */
static int measure(const struct table *table, int i)
{
	int widest = text_width(table->columns[i].title);
	bool known = !table->columns[i].drop;

	if (table->columns[i].format == FMT_JSON)
		return 0;
	for (int row = 0; row < table->nr_rows; row++) {
		const struct cell *cell = &table->cells[row * table->nr_columns + i];
		char *text = cell_text(&table->columns[i], cell);

		known |= cell->text || !isnan(cell->number);
		if (text_width(text) > widest)
			widest = text_width(text);
		free(text);
	}
	return known ? widest : 0;
}

/* What goes first where room is short; -1 when nothing may. */
static int find_drop(const struct table *table, const int *widths)
{
	int drop = -1;

	for (int i = 0; i < table->nr_columns; i++)
		if (widths[i] && table->columns[i].drop &&
		    (drop < 0 || table->columns[i].drop > table->columns[drop].drop))
			drop = i;
	return drop;
}

static int sum(const int *widths, int count)
{
	int all = -GAP;

	for (int i = 0; i < count; i++)
		all += widths[i] ? widths[i] + GAP : 0;
	return all;
}

/* Widths of the columns, so that a line fits; 0 for a column that is left out. */
static void fit(const struct table *table, int *widths, int width)
{
	int elastic = -1, over, drop;

	for (int i = 0; i < table->nr_columns; i++) {
		widths[i] = measure(table, i);
		if (table->columns[i].format == FMT_NAME || table->columns[i].format == FMT_WRAP)
			elastic = i;
	}
	while ((over = sum(widths, table->nr_columns) - width) > 0) {
		if (elastic >= 0 && widths[elastic] - over >= NAME_MIN) {
			widths[elastic] -= over;
			return;
		}
		drop = find_drop(table, widths);
		if (drop < 0)
			break;
		widths[drop] = 0;
	}
	/* Better a name that says little than a line that is broken. */
	if (over > 0 && elastic >= 0)
		widths[elastic] = widths[elastic] > over ? widths[elastic] - over : 1;
}

static void print_cell(FILE *out, char *text, int width, bool left, bool last, const char *colour)
{
	int pad = width - text_width(text);

	if (!left)
		fprintf(out, "%*s", pad, "");
	fprintf(out, "%s%s%s", colour, text, *colour ? PLAIN : "");
	if (!last)
		fprintf(out, "%*s", (left ? pad : 0) + GAP, "");
	free(text);
}

static void print_row(FILE *out, const struct table *table, const int *widths, int row)
{
	const struct cell *cells = table->cells + row * table->nr_columns;
	int last = table->nr_columns - 1, at = 0;

	while (last > 0 && !widths[last])
		last--;
	for (int i = 0; i <= last; i++) {
		const struct column *column = &table->columns[i];
		const char *colour = "";
		char *text;

		if (!widths[i])
			continue;
		text = row < 0 ? text_of("%s", column->title) : cell_text(column, &cells[i]);
		if (column->format == FMT_WRAP && i == last) {
			print_wrapped(out, text, at + widths[i], at, at);
			free(text);
			return;
		}
		text = cut(text, widths[i], column->format == FMT_NAME && strchr(text, '/'));
		if (use_colour(out))
			colour = row < 0 ? BOLD : colour_of(column, &cells[i]);
		print_cell(out, text, widths[i], is_left(column), i == last, colour);
		at += widths[i] + GAP;
	}
	putc('\n', out);
}

static void print_table(FILE *out, const struct table *table, int width)
{
	int widths[COLUMNS_MAX];

	if (!table->nr_rows)
		return;
	fit(table, widths, width);
	putc('\n', out);
	if (table->title) {
		char *clean = sane(table->title);

		print_wrapped(out, clean, width, 0, 0);
		free(clean);
	}
	for (int row = -1; row < table->nr_rows; row++)
		print_row(out, table, widths, row);
}

static void print_note(FILE *out, const char *note, int width)
{
	char *line, *clean = sane(note);

	line = text_of("note: %s", clean);
	print_wrapped(out, line, width, 0, 6);
	free(clean);
	free(line);
}

/**
 * report_text() - print a report for people
 * @out: where
 * @report: the report
 * @width: columns that a line may have
 */
void report_text(FILE *out, const struct report *report, int width)
{
	for (int i = 0; i < report->nr_says; i++) {
		bool bold = !i && use_colour(out);
		char *clean = sane(report->says[i]);

		fputs(bold ? BOLD : "", out);
		print_wrapped(out, clean, width, 0, 2);
		fputs(bold ? PLAIN : "", out);
		free(clean);
	}
	for (const struct table *table = report->tables; table; table = table->next)
		print_table(out, table, width);
	if (report->nr_notes)
		putc('\n', out);
	for (int i = 0; i < report->nr_notes; i++)
		print_note(out, report->notes[i], width);
}
