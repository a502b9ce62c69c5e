/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The causes of memory stalls: the lines of a statistics file that have a histogram
 */
#ifndef PSI_CAUSES_H
#define PSI_CAUSES_H

#include <stdbool.h>
#include <linux/types.h>

#define CAUSE_BUCKETS	21

enum cause {
	RECLAIM, RECLAIM_LIMIT, HIGH, COMPACT, REFAULT, SWAPIN, READAHEAD, NODE_RECLAIM,
	KSWAPD, KCOMPACTD, THROTTLE, NR_CAUSES
};

extern const char * const cause_names[NR_CAUSES];

/**
 * struct cause_line - the stalls that have one cause
 * @count: how many
 * @total: how long they took, in ns; the file has us, so it may be 999 ns more
 * @max: the longest so far, in ns
 * @hist: how many, by length
 */
struct cause_line {
	__u64 count;
	__u64 total;
	__u64 max;
	__u64 hist[CAUSE_BUCKETS];
};

/**
 * struct causes - the stalls of a group
 * @line: by cause
 * @total: of all lines, in ns
 */
struct causes {
	struct cause_line line[NR_CAUSES];
	__u64 total;
};

/* Whether this kernel tells causes. */
bool causes_known(void);
/* Reads a statistics file. A line that is missing or misplaced ends the test. */
void causes_read(const char *path, struct causes *causes);
/*
 * The first line whose total, longest and histogram cannot belong to the same
 * stalls, or NULL. For lines that were read while nothing stalled.
 */
const char *causes_contradiction(const struct causes *causes);
/* What came after @before; @max stays what it is. */
struct causes causes_since(const char *path, const struct causes *before);
/* Prints the lines that are not zero. */
void causes_print(const struct causes *causes);

#endif
