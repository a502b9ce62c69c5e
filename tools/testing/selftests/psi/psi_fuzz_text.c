// SPDX-License-Identifier: GPL-2.0
/*
 * Random texts, and what the specification says about them: see psi_fuzz.h
 *
 * The judge takes a text apart from its ends. The first NUL ends it, and blanks
 * and newlines may come before that. The rest must be three fields with blanks
 * between them, and nothing before them. In the statistics file the first one is a
 * key: resource, kind and line.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "psi_fuzz.h"

#define PAGE	4096

/* ---- Random numbers ---- */

static __u64 random_state;

void fuzz_seed(unsigned int seed)
{
	random_state = 88172645463325252ULL ^ (seed * 0x9e3779b97f4a7c15ULL);
	for (int i = 0; i < 10; i++)
		fuzz_below(2);
}

__u64 fuzz_below(__u64 limit)
{
	return (random_u64(&random_state) >> 11) % limit;
}

/* ---- The log ---- */

#define LINES		20
#define LINE_SIZE	200

struct oplog {
	unsigned int nr;
	char line[LINES][LINE_SIZE];
};

static struct oplog *oplog;

void oplog_begin(void)
{
	if (!oplog)
		oplog = shared_memory(sizeof(*oplog));
	oplog->nr = 0;
}

void oplog_add(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(oplog->line[oplog->nr % LINES], LINE_SIZE, fmt, args);
	va_end(args);
	oplog->nr++;
}

unsigned int oplog_length(void)
{
	return oplog->nr;
}

void oplog_print(void)
{
	unsigned int i = oplog->nr > LINES ? oplog->nr - LINES : 0;

	for (; i < oplog->nr; i++)
		ksft_print_msg("%u: %s\n", i + 1, oplog->line[i % LINES]);
}

void fuzz_fail(const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ksft_print_msg("after %u operations: %s\n", oplog->nr, text);
	_exit(KSFT_FAIL);
}

/* ---- A grammar that is a little too wide ---- */

static void add_bytes(struct fuzz_text *text, const char *bytes, size_t len)
{
	if (len > TEXT_MAX - text->len)
		len = TEXT_MAX - text->len;
	memcpy(text->bytes + text->len, bytes, len);
	text->len += len;
}

static void add(struct fuzz_text *text, const char *string)
{
	add_bytes(text, string, strlen(string));
}

#define one_of(array)	((array)[fuzz_below(ARRAY_SIZE(array))])

static void add_word(struct fuzz_text *text)
{
	static const char * const others[] = {
		"", "som", "somef", "Some", "FULL", "ful", "fulls", "none", "s", "somefull", "avg10"
	};

	add(text, fuzz_below(12) ? (fuzz_below(2) ? "some" : "full") : one_of(others));
}

static const char * const resources[NR_FUZZ_RESOURCES] = { "cpu.", "memory.", "io.", "irq." };
static const char * const kinds[NR_FUZZ_KINDS] = { "", "exact.", "limit.", "shortage." };

static void add_blanks(struct fuzz_text *text)
{
	static const char * const others[] = {
		"", "\n", "\r", "\v", "\f", ",", "\302\240", "\240", "\t\n ", "=", ":"
	};
	int nr;

	if (!fuzz_below(16)) {
		add(text, one_of(others));
		return;
	}
	nr = fuzz_below(4) ? 1 : fuzz_below(12);
	for (int i = 0; i < nr; i++)
		add(text, fuzz_below(5) ? " " : "\t");
}

static __u64 stall_value(void)
{
	static const __u64 edges[] = {
		0, 1, 2, 9, 10, 499999, 500000, 500001, 999999, 1000000, 1999999, 2000000,
		10000000, 10000001, 0x7fffffff, 0x80000000, 0xffffffff
	};

	return fuzz_below(3) ? fuzz_below(1 << (1 + fuzz_below(22))) : one_of(edges);
}

static __u64 window_value(void)
{
	static const __u64 edges[] = {
		0, 1, 499999, 500000, 500001, 1000000, 1999999, 2000000, 2000001, 3000000,
		4000000, 6000000, 8000000, 9999999, 10000000, 10000001, 12000000, 0x7fffffff,
		0x80000000, 0xffffffff
	};

	if (!fuzz_below(3))
		return one_of(edges);
	return fuzz_below(2) ? (1 + fuzz_below(5)) * 2000000 : 400000 + fuzz_below(10000000);
}

/* A number: plain, past 32 or 64 bits, in another base, or with extra bytes. */
static void add_number(struct fuzz_text *text, __u64 value)
{
	static const char * const formats[] = {
		"%llu", "0%llu", "00000000000000000000%llu", "+%llu", "-%llu", "%llu.0", "%lluus",
		"0x%llx", "%llx", "0%llo", "%llue0", "%llu,000", "18446744073%.9llu", "\"%llu\""
	};
	char number[64];

	switch (fuzz_below(12)) {
	case 0:
		snprintf(number, sizeof(number), one_of(formats), (unsigned long long)value);
		break;
	case 1:
		value += (1 + fuzz_below(3)) << 32;
		snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
		break;
	case 2:
		/* 2^64 + @value */
		snprintf(number, sizeof(number), "1844674407%llu",
			 3709551616ULL + (unsigned long long)value);
		break;
	default:
		snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
	}
	add(text, number);
}

static void add_end(struct fuzz_text *text)
{
	static const char * const others[] = {
		" ", "\t", "\n\n", "\t\n", "\r\n", " 5", "\n5", "us", "x", ".", "-",
		"\nsome 1 500000\n"
	};

	if (!fuzz_below(12))
		add(text, one_of(others));
	if (fuzz_below(2))
		add(text, "\n");
	if (fuzz_below(2))
		add_bytes(text, "", 1);
	if (!fuzz_below(30))
		add_bytes(text, "", 1);
	if (!fuzz_below(30))
		add_bytes(text, "\0 5\n", 4);
}

/* Resource and kind of pressure, for the statistics file. */
static void add_key(struct fuzz_text *text)
{
	static const char * const others[] = {
		"plain.", "exac.", "exactly.", "Limit.", "limit..", "short.", "some.", "full.", ".",
		"limit.limit.", "exact.limit.", "exact.shortage.", "memory.", "cause.", "exact "
	};

	if (fuzz_below(12))
		add(text, one_of(resources));
	add(text, fuzz_below(8) ? one_of(kinds) : one_of(others));
}

static void add_trigger(struct fuzz_text *text)
{
	if (!fuzz_below(3))
		add_key(text);
	add_word(text);
	add_blanks(text);
	add_number(text, stall_value());
	add_blanks(text);
	add_number(text, window_value());
	add_end(text);
}

/* ---- Mutations ---- */

static void insert(struct fuzz_text *text, size_t at, const char *bytes, size_t len)
{
	if (len > TEXT_MAX - text->len)
		return;
	memmove(text->bytes + at + len, text->bytes + at, text->len - at);
	memcpy(text->bytes + at, bytes, len);
	text->len += len;
}

static char random_byte(void)
{
	static const char bytes[] = "somefull0123456789 0123456789 \t\n\r\v\f-+x.,";

	return fuzz_below(4) ? bytes[fuzz_below(sizeof(bytes))] : (char)fuzz_below(256);
}

/*
 * Replaces a blank by many, up to about the end of a page. The meaning stays.
 */
static void stretch(struct fuzz_text *text)
{
	static char blanks[TEXT_MAX];
	char *blank = memchr(text->bytes, ' ', text->len);
	size_t len = PAGE - 2 + fuzz_below(5);

	memset(blanks, ' ', sizeof(blanks));
	if (!fuzz_below(6))
		len += PAGE;
	if (blank && len > text->len)
		insert(text, blank - text->bytes, blanks, len - text->len);
}

static void mutate(struct fuzz_text *text)
{
	size_t at = text->len ? fuzz_below(text->len) : 0;
	size_t len = 1 + fuzz_below(8);
	char byte = random_byte();
	char copy[8];

	if (!text->len) {
		insert(text, 0, &byte, 1);
		return;
	}
	if (len > text->len - at)
		len = text->len - at;
	switch (fuzz_below(7)) {
	case 0:
		insert(text, fuzz_below(text->len + 1), &byte, 1);
		break;
	case 1:
		memmove(text->bytes + at, text->bytes + at + len, text->len - at - len);
		text->len -= len;
		break;
	case 2:
		memcpy(copy, text->bytes + at, len);
		insert(text, at, copy, len);
		break;
	case 3:
		text->bytes[at] = byte;
		break;
	case 4:
		text->bytes[at] ^= 1 << fuzz_below(8);
		break;
	case 5:
		text->len = at;
		break;
	default:
		text->bytes[at] = '\0';
	}
}

void text_change(struct fuzz_text *text)
{
	for (int nr = 1 + fuzz_below(3); nr; nr--)
		mutate(text);
}

void text_random(struct fuzz_text *text)
{
	bool change = !fuzz_below(2);

	text->len = 0;
	if (!fuzz_below(40)) {
		for (size_t len = fuzz_below(64); len; len--)
			add_bytes(text, &(char){ random_byte() }, 1);
		return;
	}
	add_trigger(text);
	if (!fuzz_below(20))
		stretch(text);
	if (change)
		text_change(text);
	if (!fuzz_below(200))
		while (text->len < TEXT_MAX)
			add_trigger(text);
}

void text_good(struct fuzz_text *text, bool ordinary, bool stat)
{
	const char *resource = stat ? resources[fuzz_below(FUZZ_IRQ)] : "";
	const char *kind = stat ? one_of(kinds) : "";
	__u64 window = ordinary ? (1 + fuzz_below(5)) * 2000000 : 500000 + fuzz_below(9500001);

	text->len = snprintf(text->bytes, TEXT_MAX, "%s%s%s %llu %llu\n", resource, kind,
			     fuzz_below(2) ? "some" : "full",
			     (unsigned long long)(1 + fuzz_below(window)),
			     (unsigned long long)window);
}

const char *text_quote(const char *bytes, size_t len)
{
	static char quoted[120];
	size_t at = 0;

	for (size_t i = 0; i < len && at < sizeof(quoted) - 8; i++) {
		unsigned char byte = bytes[i];

		if (byte >= ' ' && byte < 127 && byte != '\\' && byte != '"')
			quoted[at++] = byte;
		else
			at += snprintf(quoted + at, 5, "\\%03o", byte);
	}
	quoted[at] = '\0';
	return quoted;
}

/* ---- The judge ---- */

static bool is_blank(char byte)
{
	return byte == ' ' || byte == '\t';
}

/* Accepts decimal digits only, and a number below 2^32. */
static bool number_of(const char *digits, size_t len, __u64 *value)
{
	char copy[16] = "";

	for (size_t i = 0; i < len; i++)
		if (digits[i] < '0' || digits[i] > '9')
			return false;
	if (!len)
		return false;
	while (len > 1 && *digits == '0') {
		digits++;
		len--;
	}
	if (len > 10)
		return false;
	memcpy(copy, digits, len);
	*value = strtoull(copy, NULL, 10);
	return *value <= 0xffffffffULL;
}

/* Whether a key of @len bytes is @resource, @kind, and "some" or "full". */
static bool key_is(const char *key, size_t len, const char *resource, const char *kind)
{
	char good[64];

	snprintf(good, sizeof(good), "%s%ssome", resource, kind);
	if (len == strlen(good) && !memcmp(key, good, len))
		return true;
	snprintf(good, sizeof(good), "%s%sfull", resource, kind);
	return len == strlen(good) && !memcmp(key, good, len);
}

/* Accepts a key of the statistics file: there is one line of irq. */
static bool key_means(const char *key, size_t len, struct meaning *meaning)
{
	for (int r = 0; r < FUZZ_IRQ; r++) {
		for (int k = 0; k < NR_FUZZ_KINDS; k++) {
			if (!key_is(key, len, resources[r], kinds[k]))
				continue;
			meaning->resource = r;
			meaning->kind = k;
			return true;
		}
	}
	meaning->resource = FUZZ_IRQ;
	return len == strlen("irq.full") && !memcmp(key, "irq.full", len);
}

bool text_means(const char *bytes, size_t len, bool stat, struct meaning *meaning)
{
	const char *fields[3];
	size_t lengths[3];
	int nr = 0;

	len = strnlen(bytes, len);
	while (len && (is_blank(bytes[len - 1]) || bytes[len - 1] == '\n'))
		len--;
	if (!len || is_blank(bytes[0]))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (is_blank(bytes[i]))
			continue;
		if (!i || is_blank(bytes[i - 1])) {
			if (nr == 3)
				return false;
			fields[nr] = bytes + i;
			lengths[nr++] = 0;
		}
		lengths[nr - 1]++;
	}
	meaning->kind = FUZZ_PLAIN;
	if (nr != 3 || lengths[0] < 4)
		return false;
	meaning->full = !memcmp(fields[0] + lengths[0] - 4, "full", 4);
	if (stat ? !key_means(fields[0], lengths[0], meaning) :
		   !key_is(fields[0], lengths[0], "", ""))
		return false;
	return number_of(fields[1], lengths[1], &meaning->stall) &&
	       number_of(fields[2], lengths[2], &meaning->window) &&
	       meaning->stall && meaning->stall <= meaning->window &&
	       meaning->window >= 500000 && meaning->window <= 10000000;
}

/* ---- What a write may return ---- */

/* The answer of PSI, once the write gets that far. */
static unsigned int file_expected(const struct target *target, const char *bytes, size_t len)
{
	static int accounted = -1;
	struct meaning meaning;
	bool good;

	if (accounted < 0)
		accounted = psi_irq_accounted();
	if (!target->stat && target->resource == FUZZ_IRQ && !accounted)
		return WRITE_EOPNOTSUPP;
	if (target->armed)
		return WRITE_EBUSY;
	good = text_means(bytes, len, target->stat, &meaning);
	if (good && target->stat && meaning.resource == FUZZ_IRQ && !accounted)
		good = false;
	if (good && !target->stat && !meaning.full && target->resource == FUZZ_IRQ)
		good = false;
	if (good && !target->privileged && meaning.window % 2000000)
		good = false;
	return good ? WRITE_ARMS : WRITE_EINVAL;
}

unsigned int write_expected(const struct target *target, const char *bytes, size_t len,
			    size_t mapped)
{
	if (!target->writable)
		return WRITE_EBADF;
	/* Kernfs refuses texts longer than a page. */
	if (len > PAGE)
		return target->cgroup ? WRITE_E2BIG : WRITE_EINVAL;
	if (mapped < len)
		return WRITE_EFAULT;
	if (target->dead)
		return WRITE_ENODEV;
	if (target->cgroup && !len)
		return WRITE_NOTHING;
	return file_expected(target, bytes, len);
}

unsigned int write_result(ssize_t ret, int error, size_t len)
{
	if (ret >= 0 && (size_t)ret == len)
		return len ? WRITE_ARMS : WRITE_NOTHING;
	if (ret != -1)
		return WRITE_OTHER;
	switch (error) {
	case E2BIG:
		return WRITE_E2BIG;
	case EBADF:
		return WRITE_EBADF;
	case EBUSY:
		return WRITE_EBUSY;
	case EFAULT:
		return WRITE_EFAULT;
	case EINVAL:
		return WRITE_EINVAL;
	case ENODEV:
		return WRITE_ENODEV;
	case EOPNOTSUPP:
		return WRITE_EOPNOTSUPP;
	}
	return WRITE_OTHER;
}
