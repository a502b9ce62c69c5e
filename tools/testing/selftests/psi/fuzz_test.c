// SPDX-License-Identifier: GPL-2.0
/*
 * The pressure files against a model, at random
 *
 *	fuzz_test [-c] [-s SEED] [-r SEEDS] [-n OPERATIONS] [texts|sequence]
 *
 * Invariant: for every text that is written to a pressure file, and every order
 * of operations on files, cgroups and tasks, each call returns what the
 * specification says. At the end nothing is left.
 *
 *  - texts: a grammar that is a little too wide makes triggers, and mutations
 *    change their bytes. A judge, written in another way than the kernel's
 *    parser, predicts the result of each write. The test watches some of the
 *    triggers: they must not fire below the threshold that the judge read, and
 *    must fire above it.
 *  - sequence: cgroups are created, removed and switched; tasks run in them,
 *    move and are killed; files are opened, read, armed, polled, duplicated,
 *    and inherited by children that die. psi_fuzz_model.c has the model.
 *
 * Bugs it would find: a parser that accepts more or less than the
 * specification; an error path that leaves half a trigger; a descriptor that
 * outlives its cgroup; a total that jumps when accounting is switched on; a
 * count that stays in a cgroup that no longer exists.
 *
 * With -c, on a kernel with CONFIG_KCOV, the test keeps texts that reach new
 * code. Every other text is then a mutation of one of these.
 *
 * A seed always makes the same operations, and in virtual time the same run. A
 * run that fails prints its last operations.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "psi_fuzz.h"
#include "psi_stat.h"

#define PAGE	4096

/* ---- Where texts are written to ---- */

static const struct {
	const char *path;
	bool cgroup;
	enum fuzz_resource resource;
	bool stat;
} files[] = {
	{ PSI_CPU, false, FUZZ_CPU },
	{ PSI_MEMORY, false, FUZZ_MEMORY },
	{ PSI_IO, false, FUZZ_IO },
	{ PSI_IRQ, false, FUZZ_IRQ },
	{ FUZZ_TOP "/cpu.pressure", true, FUZZ_CPU },
	{ FUZZ_TOP "/memory.pressure", true, FUZZ_MEMORY },
	{ FUZZ_TOP "/io.pressure", true, FUZZ_IO },
	{ FUZZ_TOP "/irq.pressure", true, FUZZ_IRQ },
	{ CGROUP_ROOT "/io.pressure", true, FUZZ_IO },
	{ PSI_STAT, .stat = true },
	{ PSI_STAT, .stat = true },
	{ FUZZ_TOP CGROUP_STAT, true, .stat = true },
	{ FUZZ_TOP CGROUP_STAT, true, .stat = true },
	{ CGROUP_ROOT CGROUP_STAT, true, .stat = true },
};

static int open_as(const char *path, int flags, bool privileged)
{
	int fd;

	if (!privileged)
		set_cap_sys_resource(false, true);
	fd = open(path, flags | O_CLOEXEC);
	if (!privileged)
		set_cap_sys_resource(true, true);
	if (fd < 0)
		psi_die("%s: %s", path, strerror(errno));
	return fd;
}

/* Memory of TEXT_MAX bytes with an unmapped page behind it. */
static char *guarded_memory(void)
{
	char *mem = mmap(NULL, TEXT_MAX + PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED || munmap(mem + TEXT_MAX, PAGE))
		psi_die("mmap: %s", strerror(errno));
	return mem;
}

/* Places a text in @mem, often across two pages, or at its very end. */
static char *place(char *mem, const struct fuzz_text *text)
{
	char *at = mem;

	if (text->len <= PAGE) {
		switch (fuzz_below(4)) {
		case 0:
			at = mem + TEXT_MAX - text->len;
			break;
		case 1:
			at = mem + PAGE - fuzz_below(text->len + 1);
			break;
		}
	}
	memcpy(at, text->bytes, text->len);
	return at;
}

/* ---- One text ---- */

static void expect_write(const struct target *target, int fd, const char *bytes, size_t len,
			 size_t mapped, const char *path)
{
	unsigned int expected = write_expected(target, bytes, len, mapped);
	ssize_t ret = write(fd, bytes, len);
	int error = errno;

	if (write_result(ret, error, len) & expected)
		return;
	fuzz_fail("%s, %s: write of %zu bytes (%zu mapped) \"%s\" gives %zd (%s), allowed is %#x",
		  path, target->privileged ? "privileged" : "ordinary", len, mapped,
		  text_quote(bytes, mapped < len ? mapped : len), ret,
		  ret < 0 ? strerror(error) : "ok", expected);
}

static void expect_armed(const struct target *target, int fd, const char *path)
{
	bool armed = !(poll_fd(fd, POLLPRI, 0) & POLLERR);

	if (armed != target->armed)
		fuzz_fail("%s: %s is armed", path, armed ? "something" : "nothing");
}

static void try_text(char *mem, const struct fuzz_text *text)
{
	size_t nr = fuzz_below(ARRAY_SIZE(files));
	const char *good = files[nr].stat ? "io.limit.full 100000 2000000\n" :
					    "full 100000 2000000\n";
	const char *path = files[nr].path, *bytes;
	struct target target = {
		.cgroup = files[nr].cgroup,
		.resource = files[nr].resource,
		.stat = files[nr].stat,
		.writable = true,
		.privileged = fuzz_below(3),
	};
	bool armable = target.stat || target.resource != FUZZ_IRQ || psi_irq_accounted();
	int fd = open_as(path, fuzz_below(8) ? O_RDWR : O_WRONLY, target.privileged);
	size_t len = text->len, mapped;

	bytes = place(mem, text);
	mapped = mem + TEXT_MAX - bytes;
	/* Ask for more bytes than are mapped. */
	if (mapped == len && !fuzz_below(8))
		len += 1 + fuzz_below(100);
	oplog_add("%s \"%s\"", path, text_quote(bytes, text->len));
	expect_write(&target, fd, bytes, len, mapped, path);
	target.armed = write_expected(&target, bytes, len, mapped) == WRITE_ARMS;
	expect_armed(&target, fd, path);
	/*
	 * Then a good text, and the first one again: a file takes one trigger.
	 */
	expect_write(&target, fd, good, strlen(good), strlen(good), path);
	target.armed = armable;
	expect_armed(&target, fd, path);
	expect_write(&target, fd, bytes, len, mapped, path);
	expect_armed(&target, fd, path);
	if (close(fd))
		fuzz_fail("%s: close: %s", path, strerror(errno));
}

/* ---- Texts that reached something new ---- */

#define KEPT	64

static struct {
	struct fuzz_text text[KEPT];
	unsigned int nr;
} kept;

static void next_text(struct fuzz_text *text)
{
	if (kept.nr && fuzz_below(2)) {
		*text = kept.text[fuzz_below(kept.nr)];
		text_change(text);
	} else {
		text_random(text);
	}
}

/* When all places are in use, a new text replaces a random one. */
static void keep_text(const struct fuzz_text *text)
{
	kept.text[kept.nr < KEPT ? kept.nr++ : fuzz_below(KEPT)] = *text;
}

/* ---- What an accepted text means ---- */

#define LATENCY		(50 * NSEC_PER_MSEC)
#define LATENCY_US	(LATENCY / NSEC_PER_USEC)

/*
 * Compares a trigger with what the judge says that its text means. The caller
 * stalls on io, in steps of LATENCY. A spinner beside it makes progress, so
 * these stalls are not full. No limit holds it, and on one CPU exact pressure
 * is no other. Returns true if the text was fit for that.
 */
static bool try_meaning(const struct stalls *stalls, const struct fuzz_text *text)
{
	const struct load load = { .cpu = 0, .policy = SCHED_IDLE, .cgroup = FUZZ_TOP, .fn = spin };
	struct meaning meaning;
	bool stat = text_means(text->bytes, text->len, true, &meaning);
	pid_t spinner = 0;
	int fd, steps;
	bool due;

	if (text->len > PAGE ||
	    (!stat && !text_means(text->bytes, text->len, false, &meaning)) ||
	    (stat && meaning.resource != FUZZ_IO))
		return false;
	/*
	 * Thresholds near a multiple of the step depend on rounding, and on the
	 * time between reads.
	 */
	steps = meaning.stall / LATENCY_US;
	if (meaning.stall % LATENCY_US < LATENCY_US / 5 ||
	    meaning.stall % LATENCY_US > LATENCY_US * 4 / 5 || steps > 20 ||
	    (steps + 1) * LATENCY_US > meaning.window * 7 / 10)
		return false;
	oplog_add("watch \"%s\"", text_quote(text->bytes, text->len));
	fd = open_as(stat ? FUZZ_TOP CGROUP_STAT : FUZZ_TOP "/io.pressure",
		     O_RDWR, true);
	if (write(fd, text->bytes, text->len) != (ssize_t)text->len)
		fuzz_fail("the text is refused: %s", strerror(errno));
	if (!fuzz_below(4))
		spinner = load_start(&load);
	for (int i = 0; i < steps; i++)
		stall(stalls);
	if (trigger_fired(fd, 0))
		fuzz_fail("the trigger fired after %d stalls of 50 ms", steps);
	stall(stalls);
	due = meaning.kind != FUZZ_LIMIT && !(meaning.full && spinner);
	if (trigger_fired(fd, meaning.window / 8000) != due)
		fuzz_fail("wrong events after %d stalls of 50 ms, %s beside a spinner",
			  steps + 1, spinner ? "" : "not");
	if (spinner)
		load_stop(spinner);
	close(fd);
	return true;
}

#define MEANINGS	16

void fuzz_texts(unsigned int ops)
{
	char *mem = guarded_memory();
	struct fuzz_text text;
	struct stalls stalls;
	unsigned int found = 0;

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	stalls_create(&stalls, "psi_fuzz", LATENCY);
	group_enter(FUZZ_TOP);
	for (unsigned int i = 0; i < ops; i++) {
		next_text(&text);
		try_text(mem, &text);
		if (cover_new())
			keep_text(&text);
		if (found < MEANINGS && found < ops / 50)
			found += try_meaning(&stalls, &text);
	}
	group_leave();
	cgroup_remove(FUZZ_TOP);
	stalls_remove(&stalls);
}

/* ---- The program ---- */

static const struct part {
	const char *name;
	void (*run)(unsigned int ops);
	unsigned int ops;
} parts[] = {
	{ "texts", fuzz_texts, 4000 },
	{ "sequence", fuzz_sequence, 2000 },
};

/* Runs one seed in a child, as a failure ends the process. */
static void run_seed(const struct part *part, unsigned int seed, unsigned int ops, bool cover)
{
	__u64 start = now_ns();
	int status;
	pid_t pid;

	oplog_begin();
	pid = fork_or_die();
	if (!pid) {
		fuzz_seed(seed);
		if (cover)
			cover_begin();
		part->run(ops);
		cover_new();
		if (cover)
			ksft_print_msg("%u places reached, %u texts kept\n", cover_places(),
				       kept.nr);
		fflush(stdout);
		_exit(KSFT_PASS);
	}
	status = reap(pid);
	if (status) {
		oplog_print();
		ksft_print_msg("again: fuzz_test -s %u -n %u %s\n", seed, ops, part->name);
		cgroup_write(CGROUP_ROOT, "cgroup.pressure", "1");
		if (!access(FUZZ_TOP, F_OK))
			cgroup_remove(FUZZ_TOP);
	}
	ksft_test_result(!status, "%s, seed %u: %u operations in %.1f s\n", part->name, seed,
			 oplog_length(), (now_ns() - start) / 1e9);
}

int main(int argc, char **argv)
{
	unsigned int seed = 1, seeds = 1, ops = 0;
	const char *only = NULL;
	bool cover = false;
	int option;

	while ((option = getopt(argc, argv, "cs:r:n:")) != -1) {
		switch (option) {
		case 'c':
			cover = true;
			break;
		case 's':
			seed = strtoul(optarg, NULL, 0);
			break;
		case 'r':
			seeds = strtoul(optarg, NULL, 0);
			break;
		case 'n':
			ops = strtoul(optarg, NULL, 0);
			break;
		default:
			psi_die("fuzz_test [-c] [-s SEED] [-r SEEDS] [-n OPS] [texts|sequence]");
		}
	}
	if (optind < argc)
		only = argv[optind];
	ksft_print_header();
	ksft_set_plan(seeds * (only ? 1 : ARRAY_SIZE(parts)));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (unsigned int j = 0; j < seeds; j++)
			if (!only || !strcmp(only, parts[i].name))
				run_seed(&parts[i], seed + j, ops ?: parts[i].ops, cover);
	ksft_finished();
}
