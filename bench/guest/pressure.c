// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure files, triggers, memory stalls, and what they need of memory and threads.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"

static int file;

static void read_files(unsigned int nr)
{
	while (nr--)
		read_file(file);
}

static uint64_t next, interval;

static void wait_for_next(void)
{
	sleep_until(next += interval);
}

/* As a monitor does it: open, read and close the file of each of many groups. */
static void scrape(unsigned int groups)
{
	unsigned int i;

	for (i = 0; i < groups; i++)
		read_once(cgroup_file(cgroup_numbered(i), "cpu.pressure"));
}

/* Reads of cpu.pressure: of the system, of a group in some state, of a group with a stall that goes on. */
void reads(const char *kind, unsigned int groups)
{
	static const struct {
		const char *name;
		uint64_t interval;
	} rates[] = {
		{ "stalled/10kHz", 100000 },
		{ "stalled/1kHz", 1000000 },
		{ "stalled/100Hz", 10000000 },
	};
	unsigned int i;
	pid_t waits;

	/* Without PSI there is nothing to read. */
	if (!has_psi())
		return;
	if (!strcmp(kind, "scrape")) {
		for (i = 0; i < groups; i++)
			cgroup_make(cgroup_numbered(i));
		result(measure(NULL, scrape, groups, 5));
		return;
	}
	cgroup_make("/a");
	file = open_file(strcmp(kind, "system") ? cgroup_file("/a", "cpu.pressure") : "/proc/pressure/cpu");
	if (!strcmp(kind, "used")) {
		cgroup_visit_cpus("/a");
		/* A stall of 300 us: totals have as many digits on all machines. Each costs instructions. */
		waits = spinner("/a");
		for (next = now() + 300000; now() < next; )
			;
		kill(waits, SIGKILL);
	}
	if (!strncmp(kind, "stalled/", 8))
		spinner("/a");
	for (i = 0; i < ARRAY_SIZE(rates); i++)
		if (!strcmp(kind, rates[i].name))
			interval = rates[i].interval;
	read_file(file);
	next = now();
	result(measure(interval ? wait_for_next : NULL, read_files, 1, 51));
}

static void arm_and_close(unsigned int nr)
{
	while (nr--)
		close(trigger_arm(cgroup_file("/a", "cpu.pressure"), "some 900000 1000000"));
}

/* Triggers, of the system or of a group each, while tasks stall: everything the CPU does in a second. */
static void armed(bool apart, unsigned int nr)
{
	const struct crowd crowd = {
		.groups = apart ? nr : 20,
		.tasks = 2,
		.work = apart ? 50000 : 1000000,
	};
	unsigned int i;

	crowd_start(&crowd);
	for (i = 0; has_psi() && i < nr; i++)
		trigger_arm_one(apart ? cgroup_file(cgroup_numbered(i), "cpu.pressure") : "/proc/pressure/cpu", i);
	result(busy_for(10));
}

void triggers(const char *kind, unsigned int nr)
{
	const struct rlimit files = { .rlim_cur = 4096, .rlim_max = 4096 };

	if (setrlimit(RLIMIT_NOFILE, &files))
		die("setrlimit");
	if (strcmp(kind, "arm")) {
		armed(!strcmp(kind, "groups"), nr);
	} else if (has_psi()) {
		cgroup_make("/a");
		result(measure(NULL, arm_and_close, 1, 51));
	}
}

/* But for those of the workqueues, which come and go. */
static uint64_t is_kernel_thread(const char *name, const char *status)
{
	return strncmp(name, "kworker/", 8) && number_in(status, "Kthread:");
}

/* Kernel threads for groups with a privileged trigger each. */
void threads(const char *kind, unsigned int groups)
{
	uint64_t before = sum_of_tasks(is_kernel_thread);
	unsigned int i;

	(void)kind;
	for (i = 0; i < groups; i++) {
		cgroup_make(cgroup_numbered(i));
		if (has_psi())
			trigger_arm(cgroup_file(cgroup_numbered(i), "cpu.pressure"), "some 500000 1000000");
	}
	result(sum_of_tasks(is_kernel_thread) - before);
}

static double bytes(void)
{
	return 1024.0 * (number_in("/proc/meminfo", "Slab:") + number_in("/proc/meminfo", "Percpu:") +
			 number_in("/proc/meminfo", "VmallocUsed:"));
}

/*
 * Bytes for each group that ACT is applied to: the slope of a straight line through what there is
 * after each STEP groups. Per-CPU memory comes in pages for all CPUs, and when the last one came
 * is chance; the line does not depend on that as the last figure does.
 */
static double each(void (*act)(const char *cgroup))
{
	enum {
		TWO_FOLDS = 5,		/* seconds in which stock and ours look at each group in use */
		WARM_UP = 200,		/* groups that fill what is partly free */
		GROUPS = 12000,
		STEP = 500,
	};
	double n = 0, x = 0, y = 0, xx = 0, xy = 0, now;
	int i;

	for (i = 0; i <= WARM_UP + GROUPS; i++) {
		if (i >= WARM_UP && (i - WARM_UP) % STEP == 0) {
			sleep(TWO_FOLDS);
			now = bytes();
			n++;
			x += i;
			y += now;
			xx += (double)i * i;
			xy += i * now;
		}
		if (i < WARM_UP + GROUPS)
			act(cgroup_numbered(i));
	}
	return (n * xy - x * y) / (n * xx - x * x);
}

/* Memory of a group, from the kernel's own allocators. */
void memory(const char *kind, unsigned int number)
{
	double unused = each(cgroup_make);

	(void)kind;
	(void)number;
	result_named("unused", unused);
	result_named("used", unused + each(cgroup_visit_cpus));
}

enum {
	LIMIT = 8 << 20,
	PIECE = 128 << 10,	/* what the kernel reads ahead at most */
};

static void read_ahead(unsigned int nr)
{
	static off_t offset;

	for (; nr--; offset += PIECE)
		if (posix_fadvise(file, offset, PIECE, POSIX_FADV_WILLNEED))
			die("posix_fadvise");
}

/*
 * Memory stalls that do not sleep: a task reads ahead in a group that is full.
 *
 * The disk is a null_blk that is done at once.  Time and again the
 * group has to reclaim some pages: one section of memory stall, which
 * memory.events counts.  The figure is for a section and the reads between two.
 */
void memstall(const char *kind, unsigned int depth)
{
	enum { PIECES = 20, BATCHES = 101 };
	const char *leaf = cgroup_leaf(kind, depth);
	uint64_t sections;
	char limit[32];
	double piece;

	file = open_file("/dev/nullb0");
	cgroup_controller(leaf, "+memory");
	snprintf(limit, sizeof(limit), "%d", LIMIT);
	cgroup_write(leaf, "memory.max", limit);
	cgroup_enter(leaf, getpid());
	read_ahead(2 * LIMIT / PIECE);
	sections = number_in(cgroup_file(leaf, "memory.events"), "max");
	piece = measure(NULL, read_ahead, PIECES, BATCHES);
	sections = number_in(cgroup_file(leaf, "memory.events"), "max") - sections;
	profile.times = sections;
	if (sections < BATCHES * PIECES / 4)
		die("%lu sections in %d pieces", sections, BATCHES * PIECES);
	result(piece * PIECES * BATCHES / sections);
}
