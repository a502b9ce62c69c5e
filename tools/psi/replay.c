// SPDX-License-Identifier: GPL-2.0
/* What pressure record wrote: read it, and show it as it went. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

#define SLOW		1	/* percent */
#define ROWS		20	/* of the table, unless --step says */

/**
 * struct record - a file of pressure record
 * @path: of the file
 * @data: all of it
 * @size: its bytes
 * @segment: heads of the segments that are valid, oldest first
 * @nr_segments: how many
 * @reading: the segment that is read
 * @at: offset of the next frame in @data; 0 when the next segment is to be read
 * @us: time of the last look that was read, since 1970
 * @boot: increases with each boot
 * @now: cgroups at that look
 */
struct record {
	const char *path;
	unsigned char *data;
	size_t size;
	const struct ring_head *segment[SEGMENTS];
	int nr_segments;
	int reading;
	size_t at;
	uint64_t us;
	int boot;
	struct snapshot now;
};

struct cursor {
	const unsigned char *at, *end;
	bool bad;
};

static int by_number(const void *a, const void *b)
{
	const struct ring_head *x = *(const struct ring_head * const *)a,
			       *y = *(const struct ring_head * const *)b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static void find_segments(struct record *record)
{
	/* A record's is a multiple of 8: no other file is read where numbers are not aligned. */
	size_t size = record->size / SEGMENTS & ~(size_t)7;

	for (int i = 0; i < SEGMENTS; i++) {
		const struct ring_head *head = (const void *)(record->data + i * size);

		if (size > sizeof(*head) && head->size == size &&
		    !memcmp(head->magic, RING_MAGIC, sizeof(head->magic)) &&
		    head->sum == ring_sum(0, head, offsetof(struct ring_head, sum)))
			record->segment[record->nr_segments++] = head;
	}
	qsort(record->segment, record->nr_segments, sizeof(*record->segment), by_number);
}

static void open_record(struct record *record, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	ssize_t got = 1;

	*record = (struct record){ .path = path };
	if (fd < 0 || fstat(fd, &status))
		die("%s: %s%s", path, strerror(errno), errno == EACCES ? ": run as root" :
		    errno == ENOENT ? "; 'pressure record' writes one" : "");
	if (!S_ISREG(status.st_mode) || !status.st_size)
		die("%s: this is no record", path);
	record->data = checked(malloc(status.st_size));
	while (got > 0 && record->size < (size_t)status.st_size) {
		got = read(fd, record->data + record->size, status.st_size - record->size);
		record->size += got > 0 ? got : 0;
	}
	close(fd);
	find_segments(record);
	if (!record->nr_segments)
		die("%s: this is no record, or one of another kind of machine", path);
}

static void close_record(struct record *record)
{
	snapshot_free(&record->now);
	free(record->data);
}

static uint64_t take(struct cursor *cursor)
{
	uint64_t number = 0;

	for (int shift = 0; shift < 64; shift += 7) {
		if (cursor->at >= cursor->end)
			break;
		number |= (uint64_t)(*cursor->at & 0x7f) << shift;
		if (!(*cursor->at++ & 0x80))
			return number;
	}
	cursor->bad = true;
	return 0;
}

static void take_new(struct cursor *cursor, struct snapshot *now, int place)
{
	struct group group = { 0 };
	size_t length = take(cursor);
	uint32_t mask;
	bool *known;

	if (length > (size_t)(cursor->end - cursor->at)) {
		cursor->bad = true;
		return;
	}
	group.name = text_of("%.*s", (int)length, cursor->at);
	cursor->at += length;
	/* Names are sorted: they are looked up. */
	cursor->bad |= (place && strcmp(now->groups[place - 1].name, group.name) >= 0) ||
		       (place < now->count && strcmp(now->groups[place].name, group.name) <= 0);
	mask = take(cursor);
	for (int bit = 0; bit < RING_BITS; bit++) {
		unsigned long long *us = ring_total(group.totals, bit, &known);

		*known = mask & 1u << bit;
		*us = *known ? take(cursor) : 0;
	}
	evidence_none(&group.evidence);
	now->groups = grow(now->groups, now->count, sizeof(group));
	memmove(&now->groups[place + 1], &now->groups[place],
		(now->count++ - place) * sizeof(group));
	now->groups[place] = group;
}

static void take_growth(struct cursor *cursor, struct group *group)
{
	uint32_t mask = take(cursor);
	bool *known;

	for (int bit = 0; bit < RING_BITS; bit++)
		if (mask & 1u << bit)
			*ring_total(group->totals, bit, &known) += take(cursor);
}

static void drop(struct snapshot *now, int place)
{
	free(now->groups[place].name);
	memmove(&now->groups[place], &now->groups[place + 1],
		(--now->count - place) * sizeof(*now->groups));
}

static void take_changes(struct cursor *cursor, struct snapshot *now)
{
	int place = 0;

	while (!cursor->bad) {
		enum ring_change change;

		place += take(cursor);
		change = take(cursor);
		if (change == RING_END)
			return;
		if (place < 0 || place > now->count || (change != RING_NEW && place == now->count))
			cursor->bad = true;
		else if (change == RING_NEW)
			take_new(cursor, now, place++);
		else if (change == RING_GREW)
			take_growth(cursor, &now->groups[place++]);
		else
			drop(now, place);
	}
}

/* A frame whose sum is right; false at the end of the segment. */
static bool take_frame(struct record *record, const struct ring_head *head)
{
	size_t begin = (const unsigned char *)head - record->data;
	bool key = record->at == begin + sizeof(*head);
	struct ring_frame frame;
	struct cursor cursor;

	if (record->at + sizeof(frame) > begin + head->size)
		return false;
	memcpy(&frame, record->data + record->at, sizeof(frame));
	record->at += sizeof(frame);
	if (!frame.length || frame.length > begin + head->size - record->at)
		return false;
	cursor = (struct cursor){ record->data + record->at,
				  record->data + record->at + frame.length, false };
	if (frame.sum != (uint32_t)ring_sum(head->number, cursor.at, frame.length))
		return false;
	record->at += frame.length;
	if (key)
		snapshot_free(&record->now);
	record->us = take(&cursor) + (key ? 0 : record->us);
	take_changes(&cursor, &record->now);
	if (cursor.bad)
		die("%s: this is no record of this version", record->path);
	return true;
}

/* The next look; false when there is none. */
static bool next_look(struct record *record)
{
	for (; record->reading < record->nr_segments; record->reading++, record->at = 0) {
		const struct ring_head *head = record->segment[record->reading];

		if (!record->at) {
			record->at = (const unsigned char *)head - record->data + sizeof(*head);
			if (record->reading &&
			    strncmp(head->boot, record->segment[record->reading - 1]->boot,
				    sizeof(head->boot)))
				record->boot++;
		}
		if (take_frame(record, head))
			return true;
	}
	return false;
}

/* Copy what is known now. */
static void keep(const struct record *record, struct snapshot *snapshot)
{
	snapshot_free(snapshot);
	snapshot->groups = checked(calloc(record->now.count + 1, sizeof(struct group)));
	snapshot->count = record->now.count;
	/* Also where there is none. */
	snapshot->groups[0].time = record->us / 1e6;
	for (int i = 0; i < snapshot->count; i++) {
		snapshot->groups[i] = record->now.groups[i];
		snapshot->groups[i].name = text_of("%s", record->now.groups[i].name);
		snapshot->groups[i].time = record->us / 1e6;
		snapshot->stat |= snapshot->groups[i].totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME];
	}
}

static void rewind_record(struct record *record)
{
	record->reading = 0;
	record->at = 0;
	record->boot = 0;
}

static double end_of(struct record *record)
{
	double last;

	/* A power loss may have left a segment without any. */
	for (int i = record->nr_segments - 1; i >= 0 && !record->us; i--) {
		record->reading = i;
		record->at = 0;
		while (next_look(record))
			;
	}
	if (!record->us)
		die("%s: no look at the cgroups is in it", record->path);
	last = record->us / 1e6;
	rewind_record(record);
	return last;
}

bool span_given(const struct span *span)
{
	return span->path || span->since >= 0 || span->until >= 0;
}

static char *time_text(double seconds, bool ms)
{
	time_t time = seconds;
	char text[32];

	strftime(text, sizeof(text), "%F %T", localtime(&time));
	return ms ? text_of("%s.%03d", text, (int)((seconds - time) * 1000)) : text_of("%s", text);
}

/* When the last look was that is not after @time. */
static double last_before(struct record *record, double time)
{
	double last = 0;

	while (next_look(record) && record->us / 1e6 <= time + 0.001)
		last = record->us / 1e6;
	if (!last)
		die("%s begins at %s, after that time", record->path,
		    time_text(record->us / 1e6, false));
	rewind_record(record);
	return last;
}

static void open_span(struct record *record, const struct span *span, double *begin, double *end)
{
	double last;

	open_record(record, span->path ? span->path : RECORD);
	last = end_of(record);
	*begin = span->since >= 0 ? last - span->since : 0;
	*end = span->until >= 0 ? last - span->until : last;
	if (span->since >= 0 && *end <= *begin)
		die("--since must be longer ago than --until");
	if (span->until >= 0)
		*end = last_before(record, *end);
	if (*end < *begin - 0.001)
		die("%s: no look is in that time", record->path);
	/* What the files of this machine say now is another matter. */
	psi_set_root("/dev/null");
}

/* Read on to the first look that is not before @time; false when there is none. */
static bool read_to(struct record *record, double time)
{
	bool more;

	while ((more = next_look(record)) && record->us / 1e6 < time - 0.001)
		;
	return more;
}

/**
 * span_read() - totals at both ends of a part of a record
 * @span: the part
 * @from: the result; of its begin, or of the last boot in it; NULL if not wanted
 * @to: the result; of its end
 */
void span_read(const struct span *span, struct snapshot *from, struct snapshot *to)
{
	struct record record;
	double begin, end;
	int boot;

	open_span(&record, span, &begin, &end);
	if (from)
		*from = (struct snapshot){ 0 };
	*to = (struct snapshot){ 0 };
	if (!read_to(&record, begin))
		die("%s: it ends before that time", record.path);
	boot = record.boot;
	if (from)
		keep(&record, from);
	keep(&record, to);
	while (next_look(&record) && record.us / 1e6 <= end + 0.001) {
		if (from && record.boot != boot)
			keep(&record, from);
		boot = record.boot;
		keep(&record, to);
	}
	if (from && from->groups[0].time >= to->groups[0].time)
		die("%s: only one look is in that time", record.path);
	close_record(&record);
}

void note_record(struct report *report, const struct snapshot *to)
{
	char *time = time_text(to->groups[0].time, false);

	report_note(report, "this is what was recorded until %s", time);
	free(time);
}

static const struct column columns[] = {
	{ "until", "until", FMT_TEXT, 0 },
	{ "cpu_some_pct", "cpu %", FMT_PERCENT, 0 },
	{ "memory_some_pct", "memory %", FMT_PERCENT, 0 },
	{ "io_some_pct", "io %", FMT_PERCENT, 0 },
	{ "worst", "worst", FMT_TEXT, 2 },
	{ "worst_pct", "%", FMT_PERCENT, 2 },
	{ "cgroup", "in", FMT_NAME, 0 },
};

/* The cgroup with most of it, as far down as that is; NULL where none has any. */
static const struct load *most_of(const struct loads *loads, enum psi_resource resource)
{
	const struct load *most = NULL;

	for (int i = 0; i < loads->count; i++) {
		const struct load *load = &loads->load[i];

		if (*load->name && (!most || main_percent(load, resource) >=
				    0.95 * main_percent(most, resource)))
			most = load;
	}
	return most && main_percent(most, resource) >= SLOW ? most : NULL;
}

static void add_row(struct table *table, const struct snapshot *from, const struct snapshot *to,
		    bool ms)
{
	struct cell *cell = table_row(table);
	const struct load *most, *system;
	struct loads loads;

	loads_make(&loads, from, to);
	system = loads.load;
	cell[0].text = time_text(to->groups[0].time, ms);
	if (!loads.count)
		return;
	for (int resource = 0; resource < PSI_IRQ; resource++)
		cell[1 + resource].number = percent_of(system, resource, PSI_SOME);
	if (worst_percent(system) >= SLOW) {
		most = most_of(&loads, worst_resource(system));
		cell[4].text = text_of("%s", psi_resource_name(worst_resource(system)));
		cell[5].number = worst_percent(system);
		cell[6].text = text_of("%s", most ? most->name : "system");
	}
	free(loads.load);
}

static void fill(struct report *report, struct record *record, double begin, double end,
		 double step)
{
	struct table *table = report_table(report, "steps", NULL, columns, ARRAY_SIZE(columns));
	struct snapshot from = { 0 }, to = { 0 };
	const struct cell *worst = NULL;
	char *first, *last;
	bool ms;
	int boot;

	if (!read_to(record, begin))
		die("%s: it ends before that time", record->path);
	begin = record->us / 1e6;
	if (!step)
		step = fmax(1, ceil((end - begin) / ROWS));
	/* Several rows are in a second. */
	ms = step < 1;
	keep(record, &from);
	boot = record->boot;
	for (double next = begin + step; read_to(record, fmin(next, end));) {
		keep(record, &to);
		/* Totals began anew: so does this. */
		if (record->boot == boot)
			add_row(table, &from, &to, ms);
		boot = record->boot;
		keep(record, &from);
		if (record->us / 1e6 >= end - 0.001)
			break;
		next = fmax(next + step, record->us / 1e6);
	}
	if (!table->nr_rows)
		die("%s: only one look is in that time", record->path);
	for (int row = 0; row < table->nr_rows; row++) {
		const struct cell *cell = &table->cells[row * ARRAY_SIZE(columns)];

		if (cell[5].number > (worst ? worst[5].number : 0))
			worst = cell;
	}
	first = time_text(begin, ms);
	last = time_text(end, ms);
	if (worst)
		report_say(report, "%s: worst until %s, %.0f %%, %s%s.", worst[4].text,
			   worst[0].text, worst[5].number,
			   *worst[6].text == '/' ? "in " : "on the ",
			   *worst[6].text == '/' ? worst[6].text : "machine");
	else
		report_say(report, "Nothing was slow.");
	report_say(report, "From %s to %s.", first, last);
	report_fact_text(report, "from", first);
	report_fact_text(report, "to", last);
	free(first);
	free(last);
	snapshot_free(&from);
	snapshot_free(&to);
}

int verb_replay(int argc, char **argv)
{
	struct span span = SPAN_NONE;
	double step = 0, begin, end;
	const struct opt opts[] = {
		SPAN_OPTS(span),
		{ "step", OPT_DURATION, &step, "TIME",
		  "one row for each TIME (a twentieth of all)" },
		{ 0 }
	};
	struct report report = { 0 };
	struct record record;

	if (*parse_options(argc, argv, opts, "replay [OPTIONS]"))
		die("replay takes no arguments; 'pressure replay --help' shows how to use it");
	open_span(&record, &span, &begin, &end);
	fill(&report, &record, begin, end, step);
	report_print(stdout, &report);
	report_free(&report);
	close_record(&record);
	return STATUS_OK;
}
