// SPDX-License-Identifier: GPL-2.0
/*
 * A working set that does not fit, and that the kernel knows as one.
 *
 * A process waiting for a page counts as stalled on memory only when the page
 * was part of the working set: when it was in use before it was evicted, and
 * came back soon. Soon is: while it was away, no more pages aged than its cgroup
 * keeps in the cache (mm/workingset.c). To make that true of every page, and of
 * none by luck:
 *
 *  - The set is swept in a circle, so that each page is away for as long as any.
 *  - Beside it is a cache of file pages, read often. At the swappiness that
 *    `run` sets, reclaim leaves it alone; it is the yardstick for "soon".
 *  - Each page goes round twice before the load proper begins.
 *
 * And so that reclaim cannot run dry, each page of the set is written to the
 * swap disk once, before there is a limit, and only read from then on.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "load.h"

static void fill_cache(const struct set *set, const char *device)
{
	size_t bytes = set->cache * PAGE;
	char *buffer = malloc(bytes);
	int fd = open(device, O_RDONLY);

	if (!buffer || fd < 0)
		err(1, "%s", device);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);	/* these and no others */
	for (int i = 0; i < 3; i++)
		if (pread(fd, buffer, bytes, set->cache_at * PAGE) != (ssize_t)bytes)
			err(1, "read %s", device);
	free(buffer);
	/* The file stays open: the cache of a device goes with its last user. */
}

/* One line of memory.stat of a cgroup, or of /proc/vmstat. */
static unsigned long statistic(const char *directory, const char *file, const char *wanted)
{
	unsigned long value, found = 0;
	char path[128], name[64];
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	stream = fopen(path, "r");
	if (!stream)
		err(1, "%s", path);
	while (fscanf(stream, "%63s %lu", name, &value) == 2)
		if (!strcmp(name, wanted))
			found = value;
	fclose(stream);
	return found;
}

void set_fill(struct set *set, const char *cached, const char *cgroup)
{
	fill_cache(set, cached);

	set->pages = mmap(NULL, set->number * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (set->pages == MAP_FAILED)
		err(1, "working set");
	for (unsigned long i = 0; i < set->number; i++)
		set->pages[i * PAGE] = 1;
	if (madvise(set->pages, set->number * PAGE, MADV_PAGEOUT))
		err(1, "swap out");
	while (statistic(cgroup, "memory.stat", "writeback"))
		sleep_until(now() + 10 * MS);
}

/* The page that has been away longest. */
static void touch(struct set *set)
{
	set->next = (set->next + 1) % set->number;
	(void)*(volatile unsigned char *)(set->pages + set->next * PAGE);
}

/*
 * Unthrottled, on a disk that takes no virtual time. Reclaim steers by statistics
 * that by themselves come up to date every two seconds, far too late here; a
 * reader of memory.stat is never served old ones, and so brings them up to date.
 */
void set_sweep(struct set *set, int sweeps, const char *cgroup)
{
	for (unsigned long i = 0; i < sweeps * set->number; i++) {
		touch(set);
		if (i % 16 == 0)
			statistic(cgroup, "memory.stat", "rss");
	}
}

/*
 * A page that stayed away too long after all is waited for, but not as one of
 * the working set. Which of them did is not known here, how many did is.
 * memory.stat of cgroup v1 has no such line: this is of all processes, and only
 * right while none of them uses its set.
 */
void count_pages(struct pages *pages)
{
	int fd = open("/proc/sys/vm/stat_refresh", O_WRONLY);

	if (fd < 0 || write(fd, "1", 1) != 1)
		err(1, "stat_refresh");
	close(fd);
	pages->returned = statistic("/proc", "vmstat", "workingset_refault_anon");
	pages->known = statistic("/proc", "vmstat", "workingset_restore_anon");
}

void set_use(struct account *own, struct set *set, uint64_t until)
{
	uint64_t begun, run;

	do {
		begun = now();
		run = cpu_time();
		touch(set);
		run = cpu_time() - run;
		own->end = now();

		own->inside += own->end - begun;
		own->inside_run += run;
		calculate(set->work);
	} while (own->end < until);
}
