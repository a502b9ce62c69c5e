// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's half of the demo: directs the phases, starts the loads, samples
 * the pressure files. It states facts and judges nothing; the host does.
 *
 * usage: demo READ_DEVICE READ_CGROUP SWAP_DEVICE MEMORY_CGROUP
 *
 * What it prints, one line each; t is guest time in seconds since the start:
 *
 *	# phase t=T name=NAME text=TEXT		a phase begins; "end" is the last
 *	# sample t=T R.L=AVG10,TOTAL ...	resource R, line L; total in us
 *	# own load=NAME R.L=LOW,HIGH		the load's account, in us
 *	ok N - / not ok N -			a load ran to its end or did not
 *
 * It runs at real-time priority so that samples are taken on time next to busy
 * processes; the loads fall back to ordinary priority.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

#define MAX_PROCESSES 64

#define SAMPLE_EVERY (500 * MS)
#define QUIET (5 * SEC)		/* more than the 2 s after which averages are due */
#define CPU_LOAD (16 * SEC)
#define IO_LOAD (20 * SEC)	/* the second half with work in the background */
#define MEMORY_LOAD (18 * SEC)
#define FILL_AT_MOST (60 * SEC)

#define READS_PER_SECOND 20		/* of all processes */
#define SWAP_INS_PER_SECOND 40	/* of each process */
#define FIT "8M"		/* memory.max of each process, 2048 pages */
#define CACHE 1280		/* pages of which are file cache */
#define WORKING_SET 1088
#define WORK 10000		/* between two pages, in rounds of calculation */
#define SWEEPS 2

/* Shared with the processes of a load. */
struct board {
	struct account account[MAX_PROCESSES];
	atomic_int ready;		/* processes that have their working set */
	uint64_t until;			/* set before the gate opens */
};

struct load {
	const char *name;
	int processes;
	pid_t pid[MAX_PROCESSES];
};

static struct board *board;
static uint64_t zero;			/* guest time at the start */
static int cpus;

static const char * const resources[] = { "cpu", "memory", "io", "irq" };

/* One write per line: lines of different processes never mix. */
static void say(const char *format, ...)
{
	char line[1024];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[length++] = '\n';
	if (write(STDOUT_FILENO, line, length) != length)
		err(1, "result channel");
}

/* Gives up, on the result channel, where the reason is seen. */
#define give_up(format, ...)					\
	do {							\
		say("Bail out! " format, ##__VA_ARGS__);	\
		exit(1);					\
	} while (0)

static double seconds(uint64_t ns)
{
	return (double)ns / SEC;
}

/* Appends " R.L=AVG10,TOTAL" for each line of one pressure file. */
static int sample_resource(char *out, size_t size, const char *resource)
{
	char path[64], kind[8];
	unsigned long long total;
	size_t used = 0;
	double avg10;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/pressure/%s", resource);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (fscanf(file, "%7s avg10=%lf avg60=%*f avg300=%*f total=%llu",
		      kind, &avg10, &total) == 3)
		used += snprintf(out + used, size - used, " %s.%s=%.2f,%llu",
				 resource, kind, avg10, total);
	fclose(file);
	return used;
}

static void sample(uint64_t t)
{
	char line[768];
	int used = 0;

	for (size_t i = 0; i < sizeof(resources) / sizeof(*resources); i++)
		used += sample_resource(line + used, sizeof(line) - used, resources[i]);
	if (!used)
		give_up("this kernel has no /proc/pressure");
	say("# sample t=%.6f%s", seconds(t - zero), line);
}

static void phase(const char *name, const char *text)
{
	uint64_t t = now();

	say("# phase t=%.6f name=%s text=%s", seconds(t - zero), name, text);
	sample(t);
}

static void sample_at(uint64_t t)
{
	sleep_until(t);
	sample(now());
}

static void sample_until(uint64_t end)
{
	for (uint64_t t = now() + SAMPLE_EVERY; t <= end; t += SAMPLE_EVERY)
		sample_at(t);
	sleep_until(end);
}

static void quiet(void)
{
	phase("quiet", "nothing runs");
	sample_until(now() + QUIET);
}

static void write_to(const char *directory, const char *file, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		give_up("write %s to %s: %m", text, path);
	close(fd);
}

/* Throttled in the guest, by its clock, so that virtual time changes nothing. */
static void limit_reads(const char *cgroup, const char *device, int per_second)
{
	char text[64];
	struct stat st;

	if (stat(device, &st) || !S_ISBLK(st.st_mode))
		give_up("%s is not a block device", device);
	snprintf(text, sizeof(text), "%u:%u riops=%d",
		 major(st.st_rdev), minor(st.st_rdev), per_second);
	write_to(cgroup, "io.max", text);
}

/* Returns in the child, on its CPU, with an account of its own. */
static struct account *start(struct load *load, int cpu, const char *cgroup)
{
	struct account *own = &board->account[load->processes];
	cpu_set_t set;
	pid_t pid;

	memset(own, 0, sizeof(*own));
	own->cpu = cpu;
	pid = fork();
	if (pid < 0)
		give_up("fork: %m");
	if (pid) {
		own->runnable = now();
		load->pid[load->processes++] = pid;
		return NULL;
	}

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		give_up("cpu %d: %m", cpu);
	if (cgroup)
		write_to(cgroup, "cgroup.procs", "0");
	return own;
}

/* True when every process of the load ended well. */
static int finish(struct load *load)
{
	int status, good = 1;

	for (int i = 0; i < load->processes; i++) {
		if (waitpid(load->pid[i], &status, 0) < 0)
			give_up("waitpid: %m");
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			good = 0;
	}
	return good;
}

static void report(int number, struct load *load, int good)
{
	say("%s %d - the %s load ran to its end", good ? "ok" : "not ok", number, load->name);
}

/* The mean over the CPUs: right where no CPU of the load is ever idle. */
static unsigned long mean_us(uint64_t sum)
{
	return sum / cpus / 1000;
}

/*
 * Two spinners on each CPU: from the moment there are two until the first one
 * ends, one of them waits.
 */
static void cpu_load(int number)
{
	struct load load = { .name = "cpu" };
	uint64_t until, sum = 0;
	int good;

	phase("cpu", "two spinners on each CPU");
	until = now() + CPU_LOAD;
	for (int i = 0; i < 2 * cpus; i++) {
		struct account *own = start(&load, i % cpus, NULL);

		if (own) {
			spin(own, until);
			_exit(0);
		}
	}
	sample_until(until);
	good = finish(&load);

	for (int i = 0; i < cpus; i++) {
		struct account *a = &board->account[i], *b = &board->account[i + cpus];

		sum += (a->end < b->end ? a->end : b->end) -
		       (a->runnable > b->runnable ? a->runnable : b->runnable);
	}
	say("# own load=cpu cpu.some=%lu,%lu cpu.full=0,0", mean_us(sum), mean_us(sum));
	report(number, &load, good);
}

/* Work that yields to anything else: sleeps until `begin`, then calculates. */
static void company(struct account *own, uint64_t begin, uint64_t until)
{
	struct sched_param lowest = { 0 };

	if (sched_setscheduler(0, SCHED_IDLE, &lowest))
		give_up("SCHED_IDLE: %m");
	sleep_until(begin);
	spin(own, until);
}

/*
 * One reader on each CPU, asleep nearly all the time. In the second half
 * something else calculates meanwhile: io some goes on, io full does not.
 */
static void io_load(int number, const char *device, const char *cgroup)
{
	struct load load = { .name = "io" };
	uint64_t half, until, wall = 0, run = 0, alone = 0, alone_run = 0;
	int good;

	limit_reads(cgroup, device, READS_PER_SECOND);
	phase("io", "random reads from a slow disk");
	half = now() + IO_LOAD / 2;
	until = now() + IO_LOAD;
	for (int i = 0; i < 2 * cpus; i++) {
		struct account *own = start(&load, i % cpus, i < cpus ? cgroup : NULL);

		if (!own)
			continue;
		if (i < cpus)
			read_disk(own, device, half, until);
		else
			company(own, half, until);
		_exit(0);
	}
	sample_until(half);
	phase("io+work", "the same, work beside");
	sample_until(until);
	good = finish(&load);

	for (int i = 0; i < cpus; i++) {
		wall += board->account[i].inside;
		run += board->account[i].inside_run;
		alone += board->account[i].alone;
		alone_run += board->account[i].alone_run;
	}
	say("# own load=io io.some=%lu,%lu io.full=%lu,%lu",
	    mean_us(wall - run), mean_us(wall), mean_us(alone - alone_run), mean_us(alone));
	report(number, &load, good);
}

static void process_cgroup(char *path, size_t size, const char *cgroup, int process)
{
	snprintf(path, size, "%s/%d", cgroup, process);
}

/*
 * One process on each CPU uses a working set that does not fit. set.c says why
 * there is a phase before the load in which the kernel gets to know it.
 */
static void memory_load(int number, const char *cached, const char *device,
			const char *cgroup)
{
	struct load load = { .name = "memory" };
	uint64_t low = 0, high = 0, until;
	int good, gate[2];
	char path[128];

	if (pipe(gate))
		give_up("pipe: %m");
	phase("fill", "the working set is built");
	for (int i = 0; i < cpus; i++) {
		struct account *own;
		struct set set = { .number = WORKING_SET, .cache = CACHE,
				   .cache_at = i * CACHE, .work = WORK };
		char byte;

		/* One each: in one for all, the first to lose a page loses them all. */
		process_cgroup(path, sizeof(path), cgroup, i);
		own = start(&load, i, path);

		if (!own)
			continue;
		close(gate[1]);
		set_fill(&set, cached, path);
		write_to(path, "memory.max", FIT);
		set_sweep(&set, SWEEPS, path);
		atomic_fetch_add(&board->ready, 1);
		if (read(gate[0], &byte, 1) != 1)
			_exit(1);
		set_use(own, &set, board->until, path);
		_exit(0);
	}
	until = now() + FILL_AT_MOST;
	while (atomic_load(&board->ready) < cpus) {
		sample_at(now() + SAMPLE_EVERY);
		if (waitpid(-1, NULL, WNOHANG) > 0)
			give_up("a process of the memory load ended before it began");
		if (now() > until)
			give_up("no working set after %.0f s", seconds(FILL_AT_MOST));
	}
	quiet();

	for (int i = 0; i < cpus; i++) {
		process_cgroup(path, sizeof(path), cgroup, i);
		limit_reads(path, device, SWAP_INS_PER_SECOND);
	}
	phase("memory", "a working set larger than its limit");
	board->until = now() + MEMORY_LOAD;
	if (write(gate[1], load.pid, cpus) != cpus)
		give_up("gate: %m");
	sample_until(board->until);
	good = finish(&load);

	for (int i = 0; i < cpus; i++) {
		struct account *own = &board->account[i];
		uint64_t asleep = own->inside - own->inside_run;

		/* Who failed kept no account; report() says that he did. */
		if (!good)
			continue;
		if (!own->returned || own->known > own->returned)
			give_up("%lu pages came back, %lu of them known", own->returned, own->known);
		asleep = asleep * own->known / own->returned;
		low += asleep;
		high += asleep + own->inside_run;
	}
	say("# own load=memory memory.some=%lu,%lu memory.full=%lu,%lu",
	    mean_us(low), mean_us(high), mean_us(low), mean_us(high));
	report(number, &load, good);
}

int main(int argc, char **argv)
{
	struct sched_param priority = { .sched_priority = 50 };

	if (argc != 5)
		errx(64, "usage: demo READ_DEVICE READ_CGROUP SWAP_DEVICE MEMORY_CGROUP");
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus < 1 || 2 * cpus > MAX_PROCESSES)
		give_up("made for 1 to %d CPUs, this machine has %d", MAX_PROCESSES / 2, cpus);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		give_up("shared memory: %m");
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority))
		give_up("real-time priority: %m");

	zero = now();
	say("TAP version 13");
	say("1..3");
	say("# setup cpus=%d", cpus);
	quiet();
	cpu_load(1);
	quiet();
	io_load(2, argv[1], argv[2]);
	quiet();
	memory_load(3, argv[1], argv[3], argv[4]);
	quiet();
	phase("end", "-");
	return 0;
}
