/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What pressure record writes: totals of all cgroups over time, in a file of
 * bounded size.
 *
 *	file	 | segment | segment | ...		as many as SEGMENTS
 *	segment	 | head | key frame | frame | frame | ...
 *	frame	 | length | sum | time, changes		one for each look
 *
 * A key frame has all cgroups, the frames after it what changed since.  Evidence, of
 * what other files than PSI's count, is that of looks with much of a stall: it is counted
 * from 0 on, and EVIDENCE_STALL says of how much of the stall it is.  After a
 * segment that is full, or of the boot before, comes the next one in the file,
 * which loses what it had.
 * So the file needs no index, and a reader no recovery: segments go by their
 * number, and a segment ends at the first frame whose sum is wrong.  That is
 * one that a power loss cut, or one of the segment that was there before, as
 * the sum covers the number of the segment.
 */
#ifndef _PRESSURE_RING_H
#define _PRESSURE_RING_H

#include <stdint.h>
#include <string.h>

#include "pressure.h"

#define SEGMENTS	16
#define RING_MAGIC	"PSIRING4"	/* other bytes, or their other order, are no ring */
#define RING_OLDEST	'2'		/* has no evidence, and 3 no EVIDENCE_IO_MAX */

/**
 * struct ring_head - begins a segment
 * @magic: RING_MAGIC
 * @number: of the segment, since the file was made; 0 for an empty one
 * @size: bytes of a segment
 * @boot: id of the boot: totals begin anew with each
 * @kernel: its release
 * @host: name of the machine
 * @sum: of all before
 */
struct ring_head {
	char magic[8];
	uint64_t number;
	uint64_t size;
	char boot[40];
	char kernel[64];
	char host[64];
	uint64_t sum;
};

struct ring_frame {
	uint32_t length;
	uint32_t sum;
};

/* What a change is, in a list of cgroups that is sorted by name. */
enum ring_change {
	RING_END,
	RING_GREW,	/* a mask, and what is added to each total or count */
	RING_GONE,
	RING_NEW	/* comes before: its name, a mask, totals and counts */
};

uint64_t ring_sum(uint64_t sum, const void *data, size_t length);

/* A mask has totals first, then what is counted as evidence. */
#define RING_TOTALS	(PSI_RESOURCES * PSI_CLASSES * PSI_KINDS)
#define RING_BITS	(RING_TOTALS + EVIDENCE_COUNTS)

static inline bool ring_known_magic(const struct ring_head *head)
{
	int last = sizeof(head->magic) - 1;

	return !memcmp(head->magic, RING_MAGIC, last) && head->magic[last] >= RING_OLDEST &&
	       head->magic[last] <= RING_MAGIC[last];
}

/* The total that a bit of a mask stands for, and whether it is known. */
static inline unsigned long long *ring_total(struct totals *totals, int bit, bool **known)
{
	struct totals *one = &totals[bit / (PSI_CLASSES * PSI_KINDS)];
	int class = bit / PSI_KINDS % PSI_CLASSES, kind = bit % PSI_KINDS;

	*known = &one->known[class][kind];
	return &one->us[class][kind];
}

/* What a bit of a mask stands for; 0 where that is not known. */
static inline uint64_t ring_get(struct totals *totals, const double *count, int bit)
{
	bool *known;

	if (bit < RING_TOTALS)
		return *ring_total(totals, bit, &known);
	return isnan(count[bit - RING_TOTALS]) ? 0 : count[bit - RING_TOTALS];
}

static inline void ring_set(struct totals *totals, double *count, int bit, uint64_t value)
{
	unsigned long long *total;
	bool *known;

	if (bit >= RING_TOTALS) {
		count[bit - RING_TOTALS] = value;
		return;
	}
	total = ring_total(totals, bit, &known);
	*known = true;
	*total = value;
}

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
 * @shift: us, by segment; what is before a clock was set back goes back with it
 * @boot: increases when totals begin anew: with each boot, and with each shift
 * @boot_end: when the last look was, in s since 1970, by @boot
 * @looks: how many were read
 * @now: cgroups at that look
 * @begin: of the part that is asked for, in s since 1970
 * @end: of it
 */
struct record {
	const char *path;
	unsigned char *data;
	size_t size;
	const struct ring_head *segment[SEGMENTS];
	int nr_segments;
	int reading;
	size_t at;
	int64_t us;
	int64_t shift[SEGMENTS];
	int boot;
	double boot_end[SEGMENTS];
	long looks;
	struct snapshot now;
	double begin;
	double end;
};

struct record *record_open(const struct span *span);
bool record_next(struct record *record);
bool record_frame(struct record *record, const struct ring_head *head);
void record_close(struct record *record);

#endif /* _PRESSURE_RING_H */
