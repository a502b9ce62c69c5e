// SPDX-License-Identifier: GPL-2.0
/*
 * Memory stalls that do not sleep: a task reads ahead in a group that is full.
 *
 * The disk is a null_blk that is done at once.  Time and again the
 * group has to reclaim some pages: one section of memory stall, which
 * memory.events counts.  The figure is for a section and the reads between two.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum {
	LIMIT = 8 << 20,
	PIECE = 128 << 10,	/* what the kernel reads ahead at most */
	PIECES = 20,
	BATCHES = 101,
};

static uint64_t sections(const char *cgroup)
{
	char path[512];

	snprintf(path, sizeof(path), "%s%s/memory.events", CGROUPS, cgroup);
	return number_in(path, "max");
}

static void read_ahead(int disk, unsigned int nr)
{
	static off_t offset;

	for (; nr--; offset += PIECE)
		if (posix_fadvise(disk, offset, PIECE, POSIX_FADV_WILLNEED))
			die("posix_fadvise");
}

static void measure(const char *name, int disk, unsigned int depth)
{
	struct batches batches;
	char path[256], limit[32];
	uint64_t begin, before;
	unsigned int i;

	if (!wanted(name))
		return;
	cgroup_chain("", "a", depth, path, sizeof(path));
	cgroup_controller(path, "+memory");
	snprintf(limit, sizeof(limit), "%d", LIMIT);
	cgroup_write(path, "memory.max", limit);
	cgroup_enter(path, getpid());
	read_ahead(disk, 2 * LIMIT / PIECE);
	batches_init(&batches, BATCHES);
	before = sections(path);
	profile_begin();
	for (i = 0; i < BATCHES; i++) {
		begin = now();
		read_ahead(disk, PIECES);
		batches_add(&batches, now() - begin);
	}
	before = sections(path) - before;
	profile_end(before);
	if (before < BATCHES * PIECES / 4)
		die("%s: %lu sections in %d pieces", name, before, BATCHES * PIECES);
	result(batches_median(&batches) * BATCHES / before, "%s", name);
	cgroup_enter("", getpid());
	cgroup_remove_chain("", "a", depth);
}

void memstall(void)
{
	int disk;

	disk = open("/dev/nullb0", O_RDONLY | O_CLOEXEC);
	if (disk < 0)
		die("/dev/nullb0");
	measure("leaf/1", disk, 1);
	measure("leaf/4", disk, 4);
	measure("leaf/8", disk, 8);
	close(disk);
}
