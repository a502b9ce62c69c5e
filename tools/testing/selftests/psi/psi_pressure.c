// SPDX-License-Identifier: GPL-2.0
/* Pressure files: see psi_pressure.h. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "psi_util.h"

static const char * const resource_names[NR_RESOURCES] = { "cpu", "memory", "io" };
static const char * const kind_keys[NR_KINDS] = { "", "exact.", "limit.", "shortage." };

/* ---- The parser ---- */

/*
 * A cursor over the text. Each take_*() function advances the cursor past what
 * it accepts. When it returns false, the cursor is where it was.
 */
struct cursor {
	const char *pos;
	const char *end;
};

static bool take_word(struct cursor *c, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(c->end - c->pos) < len || memcmp(c->pos, word, len))
		return false;
	c->pos += len;
	return true;
}

static bool at_digit(const struct cursor *c)
{
	return c->pos < c->end && *c->pos >= '0' && *c->pos <= '9';
}

/* A decimal number as the kernel prints it: no sign, no leading zero. */
static bool take_number(struct cursor *c, __u64 *value)
{
	const char *start = c->pos;
	__u64 sum = 0;

	while (at_digit(c)) {
		unsigned int digit = *c->pos - '0';

		if (sum > (ULLONG_MAX - digit) / 10)
			goto rewind;
		sum = sum * 10 + digit;
		c->pos++;
	}
	if (c->pos == start || (*start == '0' && c->pos - start > 1))
		goto rewind;
	*value = sum;
	return true;
rewind:
	c->pos = start;
	return false;
}

/* A percentage with exactly two decimals, not above 100. */
static bool take_percent(struct cursor *c, unsigned int *hundredths)
{
	const char *start = c->pos;
	__u64 whole;

	if (!take_number(c, &whole) || !take_word(c, "."))
		goto rewind;
	if (!at_digit(c))
		goto rewind;
	*hundredths = whole * 100 + (*c->pos++ - '0') * 10;
	if (!at_digit(c))
		goto rewind;
	*hundredths += *c->pos++ - '0';
	if (whole > 100 || *hundredths > 10000)
		goto rewind;
	return true;
rewind:
	c->pos = start;
	return false;
}

static const char *take_line(struct cursor *c, struct psi_line *line)
{
	static const char * const names[NR_AVGS] = { " avg10=", " avg60=", " avg300=" };

	for (int i = 0; i < NR_AVGS; i++) {
		if (!take_word(c, names[i]))
			return "an average is missing or misplaced";
		if (!take_percent(c, &line->avg[i]))
			return "an average is no percentage with two decimals";
	}
	if (!take_word(c, " total="))
		return "the total is missing or misplaced";
	if (!take_number(c, &line->total))
		return "the total is no plain number";
	if (!take_word(c, "\n"))
		return "a line does not end after its total";
	line->present = true;
	return NULL;
}

const char *psi_parse(const char *text, size_t len, struct psi *psi)
{
	struct cursor c = { .pos = text, .end = text + len };
	const char *error = NULL;

	memset(psi, 0, sizeof(*psi));
	if (take_word(&c, "some"))
		error = take_line(&c, &psi->some);
	if (error)
		return error;
	if (!take_word(&c, "full"))
		return "the line \"full\" is missing";
	error = take_line(&c, &psi->full);
	if (error)
		return error;
	return c.pos == c.end ? NULL : "there is text after the last line";
}

/* Numbers with a word before each. */
static bool take_numbers(struct cursor *c, const char * const *words, int nr)
{
	__u64 number;

	for (int i = 0; i < nr; i++)
		if (!take_word(c, words[i]) || !take_number(c, &number))
			return false;
	return true;
}

static const char *take_cause(struct cursor *c)
{
	static const char * const words[] = { " count=", " total=", " max=", " hist=" };
	static const char * const next[] = { "," };

	if (!take_word(c, "memory.cause."))
		return "there is text that is no cause after the last line";
	while (c->pos < c->end && (islower(*c->pos) || *c->pos == '_'))
		c->pos++;
	if (!take_numbers(c, words, ARRAY_SIZE(words)))
		return "a cause has no number where one has to be";
	while (take_numbers(c, next, 1))
		;
	return take_word(c, "\n") ? NULL : "a cause does not end after its histogram";
}

/* "some" and "full" of one kind about a resource. */
static const char *take_pair(struct cursor *c, const char *key, struct psi *psi)
{
	struct psi_line *lines[] = { &psi->some, &psi->full };
	static const char * const names[] = { "some", "full" };
	const char *error = NULL;

	for (int i = 0; !error && i < 2; i++) {
		if (!take_word(c, key) || !take_word(c, names[i]))
			return "a line is missing or misplaced";
		error = take_line(c, lines[i]);
	}
	return error;
}

const char *psi_stat_parse(const char *text, size_t len, struct psi_stat *stat)
{
	struct cursor c = { .pos = text, .end = text + len };
	const char *error = NULL;
	char key[32];

	memset(stat, 0, sizeof(*stat));
	for (int r = 0; r < NR_RESOURCES; r++) {
		for (int k = 0; !error && k < NR_KINDS; k++) {
			snprintf(key, sizeof(key), "%s.%s", resource_names[r], kind_keys[k]);
			error = take_pair(&c, key, &stat->of[r][k]);
		}
	}
	if (!error && take_word(&c, "irq.full"))
		error = take_line(&c, &stat->irq);
	while (!error && c.pos < c.end)
		error = take_cause(&c);
	return error;
}

/* ---- Reading ---- */

void psi_read(const char *path, struct psi *psi)
{
	const char *error;
	char buf[512];
	size_t len;

	len = read_text(path, buf, sizeof(buf));
	error = psi_parse(buf, len, psi);
	if (error)
		psi_die("%s: %s: \"%s\"", path, error, buf);
}

__u64 psi_some_ns(const char *path)
{
	struct psi psi;

	psi_read(path, &psi);
	return psi.some.total * NSEC_PER_USEC;
}

__u64 psi_full_ns(const char *path)
{
	struct psi psi;

	psi_read(path, &psi);
	return psi.full.total * NSEC_PER_USEC;
}

double psi_avg(const char *path, enum psi_avg avg)
{
	struct psi psi;

	psi_read(path, &psi);
	return psi.some.avg[avg] / 100.0;
}

void psi_stat_read(const char *path, struct psi_stat *stat)
{
	const char *error;
	char buf[PSI_STAT_MAX];
	size_t len;

	len = read_text(path, buf, sizeof(buf));
	error = psi_stat_parse(buf, len, stat);
	if (error)
		psi_die("%s: %s: \"%s\"", path, error, buf);
}

/*
 * Totals and averages are rounded down, each on its own. Averages of a period of
 * more than 100 % carry that on, so there is a step more.
 */
static bool above(const struct psi_line *a, const struct psi_line *b, const struct psi_line *c)
{
	if (a->total > b->total + (c ? c->total : 0) + !!c)
		return true;
	for (int i = 0; i < NR_AVGS; i++)
		if (a->avg[i] > b->avg[i] + (c ? c->avg[i] : 0) + 1)
			return true;
	return false;
}

const char *psi_stat_contradiction(const struct psi_stat *stat)
{
	for (int r = 0; r < NR_RESOURCES; r++) {
		const struct psi *of = stat->of[r];
		const struct psi_line *exact = &of[KIND_EXACT].some, *limit = &of[KIND_LIMIT].some,
				      *shortage = &of[KIND_SHORTAGE].some;

		for (int k = 0; k < NR_KINDS; k++)
			if (above(&of[k].full, &of[k].some, NULL))
				return "full is above some";
		for (int i = 0; i < 2; i++) {
			if (above(limit, exact, NULL) || above(shortage, exact, NULL))
				return "a class is above exact pressure";
			if (above(exact, limit, shortage))
				return "exact pressure is above limit and shortage";
			exact = &of[KIND_EXACT].full;
			limit = &of[KIND_LIMIT].full;
			shortage = &of[KIND_SHORTAGE].full;
		}
	}
	return NULL;
}

void psi_stat_ask(const char *path)
{
	struct psi_stat stat;

	psi_stat_read(path, &stat);
	sleep_for(ASKED_SOON);
}

void psi_stat_line(const char *path, const char *key, struct psi_line *line)
{
	const char *error = "the line is missing";
	char buf[PSI_STAT_MAX];
	struct cursor c = { .pos = buf };

	c.end = buf + read_text(path, buf, sizeof(buf));
	while (c.pos < c.end && !take_word(&c, key))
		c.pos = memchr(c.pos, '\n', c.end - c.pos) ? strchr(c.pos, '\n') + 1 : c.end;
	if (c.pos < c.end)
		error = take_line(&c, line);
	if (error)
		psi_die("%s: \"%s\": %s: \"%s\"", path, key, error, buf);
}

__u64 psi_stat_total(const char *path, const char *key)
{
	struct psi_line line;

	psi_stat_line(path, key, &line);
	return line.total;
}

bool psi_reread(const char *path, int fd, bool seek, struct psi *psi)
{
	struct psi before, after;
	char buf[512];
	ssize_t len;

	psi_read(path, &before);
	if (seek && lseek(fd, 0, SEEK_SET))
		psi_die("%s: lseek: %s", path, strerror(errno));
	len = seek ? read(fd, buf, sizeof(buf)) : pread(fd, buf, sizeof(buf), 0);
	psi_read(path, &after);
	return len > 0 && !psi_parse(buf, len, psi) &&
	       before.some.total <= psi->some.total && psi->some.total <= after.some.total &&
	       before.full.total <= psi->full.total && psi->full.total <= after.full.total;
}

const char *psi_read_bytewise(const char *path)
{
	int fd = open_file(path, O_RDONLY);
	struct psi psi;
	size_t len = 0;
	char buf[512];
	ssize_t got;

	while (len < sizeof(buf) && (got = read(fd, buf + len, 1)) == 1) {
		len++;
		sleep_for(NSEC_PER_MSEC);
	}
	close(fd);
	return len == sizeof(buf) || got ? "it does not end" : psi_parse(buf, len, &psi);
}

bool psi_irq_accounted(void)
{
	char buf[512];

	return read_file(PSI_IRQ, buf, sizeof(buf)) >= 0;
}

void pressure_read(const char *path, struct pressure *p)
{
	char name[512];
	struct psi psi;

	for (int i = 0; i < NR_RESOURCES; i++) {
		if (path)
			snprintf(name, sizeof(name), "%s/%s.pressure", path, resource_names[i]);
		else
			snprintf(name, sizeof(name), PSI_DIR "/%s", resource_names[i]);
		psi_read(name, &psi);
		p->some[i] = psi.some.total * NSEC_PER_USEC;
		p->full[i] = psi.full.total * NSEC_PER_USEC;
	}
}

struct pressure pressure_since(const char *path, const struct pressure *before)
{
	struct pressure p;

	pressure_read(path, &p);
	for (int i = 0; i < NR_RESOURCES; i++) {
		p.some[i] -= before->some[i];
		p.full[i] -= before->full[i];
	}
	return p;
}

void idle_growth_measure(struct idle_growth *growth, __u64 ns)
{
	struct pressure before, grown;
	struct cpu_clock begin, end;

	pressure_read(NULL, &before);
	cpu_clock_read(-1, &begin);
	sleep_for(ns);
	cpu_clock_read(-1, &end);
	grown = pressure_since(NULL, &before);
	growth->cpu_wait = end.wait - begin.wait;
	growth->memory = grown.some[RES_MEMORY];
	growth->io = grown.some[RES_IO];
	growth->cpu = grown.some[RES_CPU];
}

/* ---- Limit or shortage ---- */

static void stat_path(const char *cgroup, char *path, size_t size)
{
	snprintf(path, size, cgroup ? "%s" CGROUP_STAT : "%s/stat", cgroup ?: PSI_DIR);
}

void classes_ask(const char * const *cgroups, int nr)
{
	struct psi_stat stat;
	char path[128];

	for (int i = 0; i < nr; i++) {
		stat_path(cgroups[i], path, sizeof(path));
		psi_stat_read(path, &stat);
	}
	sleep_for(ASKED_SOON);
}

void classes_read(const char *cgroup, const char *resource, struct classes *c)
{
	struct psi_stat stat;
	const struct psi *of;
	char path[128];
	int r = 0;

	while (strcmp(resource, resource_names[r]))
		r++;
	stat_path(cgroup, path, sizeof(path));
	psi_stat_read(path, &stat);
	of = stat.of[r];
	c->plain[0] = of[KIND_PLAIN].some.total;
	c->plain[1] = of[KIND_PLAIN].full.total;
	c->exact[0] = of[KIND_EXACT].some.total;
	c->exact[1] = of[KIND_EXACT].full.total;
	c->limit[0] = of[KIND_LIMIT].some.total;
	c->limit[1] = of[KIND_LIMIT].full.total;
	c->shortage[0] = of[KIND_SHORTAGE].some.total;
	c->shortage[1] = of[KIND_SHORTAGE].full.total;
}

void classes_since(const char *cgroup, const char *resource, __u64 ns, struct classes *c)
{
	struct classes now;

	classes_read(cgroup, resource, &now);
	for (int i = 0; i < 2; i++) {
		c->plain[i] = 1e5 * (now.plain[i] - c->plain[i]) / ns;
		c->exact[i] = 1e5 * (now.exact[i] - c->exact[i]) / ns;
		c->limit[i] = 1e5 * (now.limit[i] - c->limit[i]) / ns;
		c->shortage[i] = 1e5 * (now.shortage[i] - c->shortage[i]) / ns;
	}
}
