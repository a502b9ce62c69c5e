// SPDX-License-Identifier: GPL-2.0
/* Statistics files: see psi_stat.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "psi_causes.h"
#include "psi_stat.h"

static const char * const resource_names[NR_RESOURCES] = { "cpu", "memory", "io" };
static const char * const kind_keys[NR_KINDS] = { "", "exact.", "limit.", "shortage." };

bool psi_has_stat(void)
{
	return !access(PSI_STAT, F_OK);
}

/* Numbers with a word before each. */
static bool take_numbers(struct psi_cursor *c, const char * const *words, int nr)
{
	__u64 number;

	for (int i = 0; i < nr; i++)
		if (!psi_take_word(c, words[i]) || !psi_take_number(c, &number))
			return false;
	return true;
}

static const char *take_cause(struct psi_cursor *c, const char *name)
{
	static const char * const words[] = { " count=", " total=", " max=", " hist=" };
	static const char * const next[] = { "," };

	if (!psi_take_word(c, "memory.cause.") || !psi_take_word(c, name))
		return "a cause is missing or misplaced";
	if (!take_numbers(c, words, ARRAY_SIZE(words)))
		return "a cause has no number where one has to be";
	for (int i = 1; i < CAUSE_BUCKETS; i++)
		if (!take_numbers(c, next, 1))
			return "a histogram is too short";
	return psi_take_word(c, "\n") ? NULL : "a cause does not end after its histogram";
}

/* "some" and "full" of one kind about a resource. */
static const char *take_pair(struct psi_cursor *c, const char *key, struct psi *psi)
{
	struct psi_line *lines[] = { &psi->some, &psi->full };
	static const char * const names[] = { "some", "full" };
	const char *error = NULL;

	for (int i = 0; !error && i < 2; i++) {
		if (!psi_take_word(c, key) || !psi_take_word(c, names[i]))
			return "a line is missing or misplaced";
		error = psi_take_line(c, lines[i]);
	}
	return error;
}

const char *psi_stat_parse(const char *text, size_t len, struct psi_stat *stat)
{
	struct psi_cursor c = { .pos = text, .end = text + len };
	const char *error = NULL;
	char key[32];

	memset(stat, 0, sizeof(*stat));
	for (int r = 0; r < NR_RESOURCES; r++) {
		for (int k = 0; !error && k < NR_KINDS; k++) {
			snprintf(key, sizeof(key), "%s.%s", resource_names[r], kind_keys[k]);
			error = take_pair(&c, key, &stat->of[r][k]);
		}
	}
	if (!error && psi_take_word(&c, "irq.full"))
		error = psi_take_line(&c, &stat->irq);
	/* All or, on a kernel that tells none, none. */
	for (int i = 0; !error && i < NR_CAUSES && (i || c.pos < c.end); i++)
		error = take_cause(&c, cause_names[i]);
	if (!error && c.pos < c.end)
		error = "there is text after the last line";
	return error;
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
	struct psi_cursor c = { .pos = buf };

	c.end = buf + read_text(path, buf, sizeof(buf));
	while (c.pos < c.end && !psi_take_word(&c, key))
		c.pos = memchr(c.pos, '\n', c.end - c.pos) ? strchr(c.pos, '\n') + 1 : c.end;
	if (c.pos < c.end)
		error = psi_take_line(&c, line);
	if (error)
		psi_die("%s: \"%s\": %s: \"%s\"", path, key, error, buf);
}

__u64 psi_stat_total(const char *path, const char *key)
{
	struct psi_line line;

	psi_stat_line(path, key, &line);
	return line.total;
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

/* ---- Limit or shortage ---- */

#define CLASS_WINDOW	(2 * NSEC_PER_SEC)
#define CLASS_THRESHOLD	(CLASS_WINDOW / 20)

static void class_triggers_arm(const char *cgroup, const char *resource, int fd[2])
{
	static const char * const lines[] = { "limit.some", "shortage.some" };
	char path[128];

	snprintf(path, sizeof(path), cgroup ? "%s" CGROUP_STAT : "%s/stat", cgroup ?: PSI_DIR);
	for (int i = 0; i < 2; i++)
		fd[i] = trigger_arm(path, "%s.%s %llu %llu", resource, lines[i],
				    CLASS_THRESHOLD / NSEC_PER_USEC, CLASS_WINDOW / NSEC_PER_USEC);
}

void classes_measure(const char * const groups[NR_CLASS_GROUPS], const char *resource, __u64 ns,
		     struct classes c[NR_CLASS_GROUPS])
{
	int fd[NR_CLASS_GROUPS][2];
	__u64 begin;

	for (int i = 0; i < NR_CLASS_GROUPS; i++) {
		classes_read(groups[i], resource, &c[i]);
		class_triggers_arm(groups[i], resource, fd[i]);
	}
	begin = now_ns();
	sleep_for(ns);
	for (int i = 0; i < NR_CLASS_GROUPS; i++) {
		classes_since(groups[i], resource, now_ns() - begin, &c[i]);
		for (int j = 0; j < 2; j++) {
			c[i].fired[j] = trigger_fired(fd[i][j], 0);
			close(fd[i][j]);
		}
	}
}

/* In us: totals are rounded, at the begin and at the end. */
#define CLASS_ROUNDING	4

const char *classes_contradiction(const struct classes *c, __u64 ns)
{
	static const char * const silent[] = {
		"a trigger on limits is silent", "a trigger on shortages is silent"
	};
	static const char * const fired[] = {
		"a trigger on limits fired", "a trigger on shortages fired"
	};
	const double least = 100.0 * CLASS_THRESHOLD / ns, enough = 10;
	const double grown[2] = { c->limit[0], c->shortage[0] };
	const double rounding = 1e5 * CLASS_ROUNDING / ns;

	for (int i = 0; i < 2; i++) {
		double more = c->limit[i] > c->shortage[i] ? c->limit[i] : c->shortage[i];

		if (more > c->exact[i] + rounding)
			return "a class has more than the exact pressure";
		if (c->exact[i] > c->limit[i] + c->shortage[i] + rounding)
			return "the classes have less than the exact pressure";
		if (!c->fired[i] && grown[i] >= enough)
			return silent[i];
		if (c->fired[i] && grown[i] < least)
			return fired[i];
	}
	return NULL;
}
