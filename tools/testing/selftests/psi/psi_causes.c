// SPDX-License-Identifier: GPL-2.0
/* The causes of memory stalls: see psi_causes.h. */
#include <stdio.h>
#include <string.h>

#include "psi_causes.h"
#include "psi_stat.h"

const char * const cause_names[NR_CAUSES] = {
	"reclaim", "reclaim_limit", "high", "compact", "refault", "swapin", "readahead",
	"node_reclaim", "kswapd", "kcompactd", "throttle",
};

/* Where the lines begin: below all lines of pressure. NULL without any. */
static const char *find_lines(const char *text)
{
	const char *lines = strstr(text, "\nmemory.cause.reclaim ");

	return lines ? lines + 1 : NULL;
}

bool causes_known(void)
{
	char text[PSI_STAT_MAX];

	return read_file(PSI_STAT, text, sizeof(text)) > 0 && find_lines(text);
}

/* Reads one line, which must be that of @name. Returns where the next one begins. */
static const char *read_line(const char *text, const char *name, struct cause_line *line)
{
	unsigned long long count, total, max, value, sum = 0;
	int len = 0;
	char format[96];

	snprintf(format, sizeof(format),
		 "memory.cause.%s count=%%llu total=%%llu max=%%llu hist=%%n", name);
	if (sscanf(text, format, &count, &total, &max, &len) != 3 || !len)
		psi_die("no line for %s at: %.60s", name, text);
	text += len;
	for (int i = 0; i < CAUSE_BUCKETS; i++) {
		char end = 0;

		if (sscanf(text, "%llu%c%n", &value, &end, &len) != 2 ||
		    end != (i < CAUSE_BUCKETS - 1 ? ',' : '\n'))
			psi_die("%s: number %d of the histogram is wrong: %.60s", name, i, text);
		text += len;
		line->hist[i] = value;
		sum += value;
	}
	if (sum != count)
		psi_die("%s: %llu stalls, %llu in the histogram", name, count, sum);
	line->count = count;
	line->total = total * NSEC_PER_USEC;
	line->max = max * NSEC_PER_USEC;
	return text;
}

void causes_read(const char *path, struct causes *causes)
{
	const char *at;
	char text[PSI_STAT_MAX];

	read_text(path, text, sizeof(text));
	at = find_lines(text);
	if (!at)
		psi_die("%s has no causes", path);
	causes->total = 0;
	for (int c = 0; c < NR_CAUSES; c++) {
		at = read_line(at, cause_names[c], &causes->line[c]);
		causes->total += causes->line[c].total;
	}
	if (*at)
		psi_die("%s goes on after the causes: %.60s", path, at);
}

/* The shortest stall of a bucket, in ns. */
static __u64 shortest(int bucket)
{
	return bucket ? (1ULL << bucket) * NSEC_PER_USEC : 0;
}

static bool line_is_sane(const struct cause_line *line)
{
	__u64 least = 0;
	int last = -1;

	for (int i = 0; i < CAUSE_BUCKETS; i++) {
		least += line->hist[i] * shortest(i);
		if (line->hist[i])
			last = i;
	}
	if (last < 0)
		return !line->total && !line->max;
	return line->total >= least && line->total >= line->max &&
	       line->total <= line->count * (line->max + NSEC_PER_USEC) &&
	       line->max >= shortest(last) &&
	       (last == CAUSE_BUCKETS - 1 || line->max < shortest(last + 1));
}

const char *causes_contradiction(const struct causes *causes)
{
	for (int c = 0; c < NR_CAUSES; c++)
		if (!line_is_sane(&causes->line[c]))
			return cause_names[c];
	return NULL;
}

struct causes causes_since(const char *path, const struct causes *before)
{
	struct causes now;

	causes_read(path, &now);
	for (int c = 0; c < NR_CAUSES; c++) {
		now.line[c].count -= before->line[c].count;
		now.line[c].total -= before->line[c].total;
		for (int i = 0; i < CAUSE_BUCKETS; i++)
			now.line[c].hist[i] -= before->line[c].hist[i];
	}
	now.total -= before->total;
	return now;
}

void causes_print(const struct causes *causes)
{
	for (int c = 0; c < NR_CAUSES; c++) {
		const struct cause_line *line = &causes->line[c];

		if (line->count)
			ksft_print_msg("%s: %llu stalls, %.6f s, at most %.6f s\n", cause_names[c],
				       (unsigned long long)line->count, line->total / 1e9,
				       line->max / 1e9);
	}
}
