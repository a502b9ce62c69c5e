// SPDX-License-Identifier: GPL-2.0
/* Pressure files: see psi_pressure.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "psi_util.h"

static const char * const resource_names[NR_RESOURCES] = { "cpu", "memory", "io" };

/* ---- The parser ---- */

bool psi_take_word(struct psi_cursor *c, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(c->end - c->pos) < len || memcmp(c->pos, word, len))
		return false;
	c->pos += len;
	return true;
}

static bool at_digit(const struct psi_cursor *c)
{
	return c->pos < c->end && *c->pos >= '0' && *c->pos <= '9';
}

bool psi_take_number(struct psi_cursor *c, __u64 *value)
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
static bool take_percent(struct psi_cursor *c, unsigned int *hundredths)
{
	const char *start = c->pos;
	__u64 whole;

	if (!psi_take_number(c, &whole) || !psi_take_word(c, "."))
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

const char *psi_take_line(struct psi_cursor *c, struct psi_line *line)
{
	static const char * const names[NR_AVGS] = { " avg10=", " avg60=", " avg300=" };

	for (int i = 0; i < NR_AVGS; i++) {
		if (!psi_take_word(c, names[i]))
			return "an average is missing or misplaced";
		if (!take_percent(c, &line->avg[i]))
			return "an average is no percentage with two decimals";
	}
	if (!psi_take_word(c, " total="))
		return "the total is missing or misplaced";
	if (!psi_take_number(c, &line->total))
		return "the total is no plain number";
	if (!psi_take_word(c, "\n"))
		return "a line does not end after its total";
	line->present = true;
	return NULL;
}

const char *psi_parse(const char *text, size_t len, struct psi *psi)
{
	struct psi_cursor c = { .pos = text, .end = text + len };
	const char *error = NULL;

	memset(psi, 0, sizeof(*psi));
	if (psi_take_word(&c, "some"))
		error = psi_take_line(&c, &psi->some);
	if (error)
		return error;
	if (!psi_take_word(&c, "full"))
		return "the line \"full\" is missing";
	error = psi_take_line(&c, &psi->full);
	if (error)
		return error;
	return c.pos == c.end ? NULL : "there is text after the last line";
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

bool psi_file_is_dead(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLPRI };
	char buf[512];

	if (pread(fd, buf, sizeof(buf), 0) != -1 || errno != ENODEV)
		return false;
	if (write(fd, "some 200000 2000000", 20) != -1 || errno != ENODEV)
		return false;
	return poll(&pollfd, 1, 0) == 1 && pollfd.revents == (POLLERR | POLLPRI);
}

bool psi_has_known_defects(void)
{
	return access(PSI_DIR "/stat", F_OK);
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
