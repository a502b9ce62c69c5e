// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's half of the demo: directs the phases, starts the loads, samples
 * the pressure files, the load average and vmpressure. It states facts and
 * judges nothing; the host does.
 *
 * usage: demo READ_DEVICE SWAP_DEVICE CGROUPS MEMORY
 *
 * CGROUPS is cgroup2 without the memory controller; that is of cgroup v1 and
 * mounted on MEMORY, because only there is vmpressure.
 *
 * What it prints, one line each; t is guest time in seconds since the start:
 *
 *	# phase t=T name=NAME text=TEXT		a phase begins; "end" is the last
 *	# sample t=T load=L vmpressure=A,B,C R.L=AVG10,TOTAL ...
 *		the load average of a minute; events so far of the level low, medium
 *		and critical; resource R, line L (as in limit.some); total in us
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
#include <sys/eventfd.h>
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
#define CPU_PERIOD 70000		/* us; samples come now in its busy part, now in the other */
#define CPU_QUOTA 14000		/* of it for each CPU */
#define IO_LOAD (20 * SEC)	/* the second half with work in the background */
#define MEMORY_LOAD (18 * SEC)
#define FILL_AT_MOST (60 * SEC)

#define READS_PER_SECOND 20		/* of all processes */
#define SWAP_INS_PER_SECOND 40	/* of each process */
#define FIT "8M"		/* the limit of each process, 2048 pages */
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

/* vmpressure: an event of a level is one for the lower ones, too. */
static const char * const levels[] = { "low", "medium", "critical" };
static int level_fd[3];
static uint64_t level_events[3];

/* One write per line: lines of different processes never mix. */
static void say(const char *format, ...)
{
	char line[2048];
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

/* Appends " R.L=AVG10,TOTAL" for each line of a plain file. */
static int sample_resource(char *out, size_t size, const char *resource)
{
	unsigned long long total;
	char path[64], kind[8];
	size_t used = 0;
	double avg10;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/pressure/%s", resource);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (fscanf(file, "%7s avg10=%lf avg60=%*f avg300=%*f total=%llu",
		      kind, &avg10, &total) == 3)
		used += snprintf(out + used, size - used, " %s.%s=%.2f,%llu", resource, kind,
				 avg10, total);
	fclose(file);
	return used;
}

/* The same for limit and shortage: " R.CLASS.L=AVG10,TOTAL". The causes come last. */
static int sample_classes(char *out, size_t size)
{
	FILE *file = fopen("/proc/pressure/stat", "r");
	unsigned long long total;
	size_t used = 0;
	char key[32];
	double avg10;

	if (!file)
		return 0;
	while (fscanf(file, "%31s avg10=%lf avg60=%*f avg300=%*f total=%llu",
		      key, &avg10, &total) == 3)
		if (strstr(key, ".limit.") || strstr(key, ".shortage."))
			used += snprintf(out + used, size - used, " %s=%.2f,%llu", key, avg10,
					 total);
	fclose(file);
	return used;
}

/* The events since the last sample are added up: they are read once. */
static int sample_predecessors(char *out, size_t size)
{
	double load[3];
	uint64_t more;

	for (int i = 0; i < 3; i++)
		if (read(level_fd[i], &more, sizeof(more)) == sizeof(more))
			level_events[i] += more;
	if (getloadavg(load, 3) != 3)
		give_up("no load average");
	return snprintf(out, size, " load=%.2f vmpressure=%lu,%lu,%lu", load[0],
			level_events[0], level_events[1], level_events[2]);
}

static void sample(uint64_t t)
{
	char line[1536];
	int used = sample_predecessors(line, sizeof(line)), before = used;

	for (size_t i = 0; i < sizeof(resources) / sizeof(*resources); i++)
		used += sample_resource(line + used, sizeof(line) - used, resources[i]);
	used += sample_classes(line + used, sizeof(line) - used);
	if (used == before)
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

/* vmpressure of the whole machine: what no cgroup listens to goes up to the root. */
static void listen_to_vmpressure(const char *memory)
{
	char text[64], path[128];
	int pressure_fd;

	snprintf(path, sizeof(path), "%s/memory.pressure_level", memory);
	pressure_fd = open(path, O_RDONLY);
	for (int i = 0; i < 3; i++) {
		level_fd[i] = eventfd(0, EFD_NONBLOCK);
		if (pressure_fd < 0 || level_fd[i] < 0)
			give_up("%s: %m", path);
		snprintf(text, sizeof(text), "%d %d %s", level_fd[i], pressure_fd, levels[i]);
		write_to(memory, "cgroup.event_control", text);
	}
	close(pressure_fd);
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
	say("# own load=cpu cpu.some=%lu,%lu cpu.full=0,0 cpu.shortage.some=%lu,%lu cpu.limit.some=0,0",
	    mean_us(sum), mean_us(sum), mean_us(sum), mean_us(sum));
	report(number, &load, good);
}

/* One spinner on each CPU, which nobody else wants: it has what cpu.max allows. */
static void cpu_limit_load(int number, const char *cgroup)
{
	struct load load = { .name = "cpu-limit" };
	uint64_t until, sum = 0;
	char quota[32];
	int good;

	snprintf(quota, sizeof(quota), "%d %d", cpus * CPU_QUOTA, CPU_PERIOD);
	write_to(cgroup, "cpu.max", quota);
	phase("cpu-limit", "a spinner on each CPU, with a limit");
	until = now() + CPU_LOAD;
	for (int i = 0; i < cpus; i++) {
		struct account *own = start(&load, i, cgroup);

		if (own) {
			spin(own, until);
			own->inside_run = cpu_time();
			_exit(0);
		}
	}
	sample_until(until);
	good = finish(&load);

	for (int i = 0; i < cpus; i++) {
		struct account *own = &board->account[i];

		sum += own->end - own->runnable - own->inside_run;
	}
	say("# own load=cpu-limit cpu.some=%lu,%lu cpu.full=0,0 cpu.limit.some=%lu,%lu cpu.shortage.some=0,0",
	    mean_us(sum), mean_us(sum), mean_us(sum), mean_us(sum));
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
	say("# own load=io io.some=%lu,%lu io.full=%lu,%lu io.limit.some=%lu,%lu io.shortage.some=0,0",
	    mean_us(wall - run), mean_us(wall), mean_us(alone - alone_run), mean_us(alone),
	    mean_us(wall - run), mean_us(wall));
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
			const char *cgroup, const char *memory)
{
	struct load load = { .name = "memory" };
	uint64_t low = 0, high = 0, until;
	int good, gate[2];
	struct pages before, after;
	char path[128], of_io[128];

	if (pipe(gate))
		give_up("pipe: %m");
	phase("fill", "the working set is built");
	for (int i = 0; i < cpus; i++) {
		struct account *own;
		struct set set = { .number = WORKING_SET, .cache = CACHE,
				   .cache_at = i * CACHE, .work = WORK };
		char byte;

		/* One each: in one for all, the first to lose a page loses them all. */
		process_cgroup(path, sizeof(path), memory, i);
		process_cgroup(of_io, sizeof(of_io), cgroup, i);
		own = start(&load, i, path);

		if (!own)
			continue;
		close(gate[1]);
		write_to(of_io, "cgroup.procs", "0");
		set_fill(&set, cached, path);
		write_to(path, "memory.limit_in_bytes", FIT);
		set_sweep(&set, SWEEPS, path);
		atomic_fetch_add(&board->ready, 1);
		if (read(gate[0], &byte, 1) != 1)
			_exit(1);
		set_use(own, &set, board->until);
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
		process_cgroup(of_io, sizeof(of_io), cgroup, i);
		limit_reads(of_io, device, SWAP_INS_PER_SECOND);
	}
	count_pages(&before);
	phase("memory", "a working set larger than its limit");
	board->until = now() + MEMORY_LOAD;
	if (write(gate[1], load.pid, cpus) != cpus)
		give_up("gate: %m");
	sample_until(board->until);
	good = finish(&load);

	count_pages(&after);
	after.returned -= before.returned;
	after.known -= before.known;
	if (good && (!after.returned || after.known > after.returned))
		give_up("%lu pages came back, %lu of them known", after.returned, after.known);
	for (int i = 0; i < cpus; i++) {
		struct account *own = &board->account[i];
		uint64_t asleep = own->inside - own->inside_run;

		/* Who failed kept no account; report() says that he did. */
		if (!good)
			continue;
		asleep = asleep * after.known / after.returned;
		low += asleep;
		high += asleep + own->inside_run;
	}
	say("# own load=memory memory.some=%lu,%lu memory.full=%lu,%lu "
	    "memory.limit.some=%lu,%lu memory.shortage.some=0,0",
	    mean_us(low), mean_us(high), mean_us(low), mean_us(high), mean_us(low), mean_us(high));
	report(number, &load, good);
}

int main(int argc, char **argv)
{
	struct sched_param priority = { .sched_priority = 50 };

	if (argc != 5)
		errx(64, "usage: demo READ_DEVICE SWAP_DEVICE CGROUPS MEMORY");
	if (chdir(argv[3]))
		err(1, "%s", argv[3]);
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus < 1 || 2 * cpus > MAX_PROCESSES)
		give_up("made for 1 to %d CPUs, this machine has %d", MAX_PROCESSES / 2, cpus);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		give_up("shared memory: %m");
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority))
		give_up("real-time priority: %m");

	listen_to_vmpressure(argv[4]);

	zero = now();
	say("TAP version 13");
	say("1..4");
	say("# setup cpus=%d", cpus);
	quiet();
	cpu_load(1);
	quiet();
	cpu_limit_load(2, "cpu");
	quiet();
	io_load(3, argv[1], "io");
	quiet();
	memory_load(4, argv[1], argv[2], "memory", argv[4]);
	quiet();
	phase("end", "-");
	return 0;
}
