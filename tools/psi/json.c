// SPDX-License-Identifier: GPL-2.0
/* Reports as JSON, one object a line. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

/* Bytes of the UTF-8 sequence that begins here; 0 when there is none. */
int utf8_length(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	int length = 1;

	if (*p >= 0x80) {
		if (*p < 0xc2 || *p > 0xf4)
			return 0;
		length = *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
	}
	for (int i = 1; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Surrogates, overlong forms, and what is past the end of Unicode. */
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return length;
}

/* U+FFFD, for what is no UTF-8. */
static const char replacement[] = "\xef\xbf\xbd";

/**
 * valid_name() - a name as UTF-8, so that two that differ stay different
 * @name: any bytes
 *
 * What is no UTF-8 becomes U+FFFD and its hexadecimal number; and so does each
 * byte of a U+FFFD that was there.
 *
 * Return: the name, allocated
 */
char *valid_name(const char *name)
{
	char *text = checked(malloc(5 * strlen(name) + 1)), *end = text;

	while (*name) {
		int length = utf8_length(name);

		if (length && strncmp(name, replacement, strlen(replacement))) {
			end = mempcpy(end, name, length);
			name += length;
			continue;
		}
		do
			end += sprintf(end, "%s%02X", replacement, (unsigned char)*name++);
		while (--length > 0);
	}
	*end = 0;
	return text;
}

void json_string(FILE *out, const char *text)
{
	char *valid = valid_name(text);

	putc('"', out);
	for (const char *p = valid; *p;) {
		int length = utf8_length(p);

		if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (is_control(p, length))
			fprintf(out, "\\u%04x",
				length == 1 ? *p :
				length == 2 ? (p[0] & 0x1f) << 6 | (p[1] & 0x3f) :
				(p[0] & 0xf) << 12 | (p[1] & 0x3f) << 6 | (p[2] & 0x3f));
		else
			fwrite(p, length, 1, out);
		p += length;
	}
	putc('"', out);
	free(valid);
}

static void print_key(FILE *out, const char *key, bool *first)
{
	if (!*first)
		fputs(", ", out);
	*first = false;
	json_string(out, key);
	fputs(": ", out);
}

static void print_cell(FILE *out, const struct column *column, const struct cell *cell)
{
	if (cell->text)
		json_string(out, cell->text);
	else if (!isfinite(cell->number))
		fputs("null", out);
	else if (column->format == FMT_COUNT)
		fprintf(out, "%.0f", cell->number);
	else
		fprintf(out, column->format == FMT_SECONDS ? "%.6f" : "%.2f", cell->number);
}

static void print_texts(FILE *out, char **texts, int count)
{
	putc('[', out);
	for (int i = 0; i < count; i++) {
		if (i)
			fputs(", ", out);
		json_string(out, texts[i]);
	}
	putc(']', out);
}

static void print_row(FILE *out, const struct table *table, const struct cell *cells)
{
	bool first = true;

	putc('{', out);
	for (int i = 0; i < table->nr_columns; i++) {
		if (table->columns[i].format == FMT_SPARK)
			continue;
		print_key(out, table->columns[i].key, &first);
		print_cell(out, &table->columns[i], &cells[i]);
	}
	putc('}', out);
}

static void print_table(FILE *out, const struct table *table)
{
	putc('[', out);
	for (int i = 0; i < table->nr_rows; i++) {
		if (i)
			fputs(", ", out);
		print_row(out, table, table->cells + i * table->nr_columns);
	}
	putc(']', out);
}

void report_json(FILE *out, const struct report *report)
{
	bool first = true;

	putc('{', out);
	print_key(out, "verdict", &first);
	print_texts(out, report->says, report->nr_says);
	for (int i = 0; i < report->nr_facts; i++) {
		print_key(out, report->facts[i].column.key, &first);
		print_cell(out, &report->facts[i].column, &report->facts[i].cell);
	}
	for (const struct table *table = report->tables; table; table = table->next) {
		print_key(out, table->key, &first);
		print_table(out, table);
	}
	print_key(out, "notes", &first);
	print_texts(out, report->notes, report->nr_notes);
	fputs("}\n", out);
}
