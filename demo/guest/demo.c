// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's half of the demo: directs the phases, starts the loads, samples
 * the pressure files, the load average and vmpressure. It states facts and
 * judges nothing; the host does.
 *
 * cgroup2 is without the memory controller; that is of cgroup v1 and mounted on
 * MEMORY, because only there is vmpressure.
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
 *
 * A load is processes that are pinned to a CPU each. Two clocks tell one how long it
 * was kept from its work: the wall clock, and the time that it spent on a
 * CPU. Around an operation that may stall, wall time is the most that the
 * stall can have lasted; wall time minus CPU time, the time asleep, is the
 * least. The truth lies between: a reclaiming process stalls while it runs, a
 * reading one runs for a moment before it sleeps. Of the pages of a working set the
 * kernel's own count is needed besides: a wait for one that it did not know is no
 * stall. The pressure files are not consulted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../bench/guest/bench.h"

#define MS 1000000ull
#define PAGE 4096ul

#define MAX_PROCESSES 64

#define SAMPLE_EVERY (500 * MS)
#define QUIET (5 * SECOND)		/* more than the 2 s after which averages are due */
#define CPU_LOAD (16 * SECOND)
#define CPU_PERIOD 70000		/* us; samples come now in its busy part, now in the other */
#define CPU_QUOTA 14000		/* of it for each CPU */
#define IO_LOAD (20 * SECOND)	/* the second half with work in the background */
#define MEMORY_LOAD (18 * SECOND)
#define FILL_AT_MOST (60 * SECOND)

#define READS_PER_SECOND 20		/* of all processes */
#define SWAP_INS_PER_SECOND 40	/* of each process */
#define DISK "/dev/vda"		/* to read from */
#define SWAP "/dev/vdb"
#define MEMORY "/tmp/memory"
#define FIT "8M"		/* the limit of each process, 2048 pages */
#define CACHE 1280		/* pages of which are file cache */
#define WORKING_SET 1088
#define WORK 10000		/* between two pages, in rounds of calculation */
#define SWEEPS 2

/* What one process of a load knows about itself, times in ns. */
struct account {
	pid_t pid;
	uint64_t runnable;	/* since when; written by the director */
	uint64_t end;		/* of the load */
	uint64_t inside;	/* wall clock inside the operation that may stall */
	uint64_t inside_run;	/* of which on the CPU */
	uint64_t alone;		/* part of inside before company arrived */
	uint64_t alone_run;
};

/* Shared with the processes of a load. */
static struct board {
	struct account account[MAX_PROCESSES];
	atomic_int ready;		/* processes that have their working set */
	uint64_t until;			/* set before the gate opens */
} *board;

static int processes;			/* of the load */
static uint64_t zero;			/* guest time at the start */

/* vmpressure: an event of a level is one for the lower ones, too. */
static const char * const levels[] = { "low", "medium", "critical" };
static int level_fd[3];
static uint64_t level_events[3];

static uint64_t cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

static double seconds(uint64_t ns)
{
	return (double)ns / SECOND;
}

/* Prints " LINE=AVG10,TOTAL" for each line of a pressure file, but for causes, which only /proc/pressure/stat has. */
static void sample_file(const char *path, const char *prefix)
{
	FILE *file = fopen(path, "r");
	unsigned long long total;
	double avg10;
	char key[32];

	if (!file)
		return;
	while (fscanf(file, "%31s avg10=%lf avg60=%*f avg300=%*f total=%llu", key, &avg10, &total) == 3)
		if (*prefix || strstr(key, ".limit.") || strstr(key, ".shortage."))
			printf(" %s%s=%.2f,%llu", prefix, key, avg10, total);
	fclose(file);
}

/* The events since the last sample are added up: they are read once. */
static void sample(uint64_t t)
{
	uint64_t more;
	double load;

	for (int i = 0; i < 3; i++)
		if (read(level_fd[i], &more, sizeof(more)) == sizeof(more))
			level_events[i] += more;
	if (getloadavg(&load, 1) != 1)
		die("no load average");
	printf("# sample t=%.6f load=%.2f vmpressure=%lu,%lu,%lu", seconds(t - zero), load, level_events[0],
	       level_events[1], level_events[2]);
	sample_file("/proc/pressure/cpu", "cpu.");
	sample_file("/proc/pressure/memory", "memory.");
	sample_file("/proc/pressure/io", "io.");
	sample_file("/proc/pressure/irq", "irq.");
	sample_file("/proc/pressure/stat", "");
	putchar('\n');
}

static void phase(const char *name, const char *text)
{
	uint64_t t = now();

	printf("# phase t=%.6f name=%s text=%s\n", seconds(t - zero), name, text);
	sample(t);
}

static void sample_until(uint64_t end)
{
	for (uint64_t t = now() + SAMPLE_EVERY; t <= end; t += SAMPLE_EVERY) {
		sleep_until(t);
		sample(now());
	}
	sleep_until(end);
}

static void quiet(void)
{
	phase("quiet", "nothing runs");
	sample_until(now() + QUIET);
}

/* vmpressure of the whole machine: what no cgroup listens to goes up to the root. */
static void listen_to_vmpressure(void)
{
	int pressure_fd = open_file(MEMORY "/memory.pressure_level");
	char text[64];

	for (int i = 0; i < 3; i++) {
		level_fd[i] = eventfd(0, EFD_NONBLOCK);
		snprintf(text, sizeof(text), "%d %d %s", level_fd[i], pressure_fd, levels[i]);
		write_file(MEMORY "/cgroup.event_control", text);
	}
	close(pressure_fd);
}

/* Throttled in the guest, by its clock, so that virtual time changes nothing. */
static void limit_reads(const char *cgroup, const char *device, int per_second)
{
	char text[64];
	struct stat st;

	if (stat(device, &st))
		die("%s", device);
	snprintf(text, sizeof(text), "%u:%u riops=%d", major(st.st_rdev), minor(st.st_rdev), per_second);
	cgroup_write(cgroup, "io.max", text);
}

/* Returns in the child, on its CPU, with an account of its own. */
static struct account *start(int cpu, const char *cgroup)
{
	struct account *own = &board->account[processes++];
	pid_t pid;

	memset(own, 0, sizeof(*own));
	pid = fork_or_die();
	if (pid) {
		own->pid = pid;
		own->runnable = now();
		return NULL;
	}

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(0, cpu);
	cgroup_enter(cgroup, 0);
	return own;
}

/* True when every process of the load ended well. */
static int finish(int number, const char *name)
{
	int status, good = 1;

	while (processes) {
		if (waitpid(board->account[--processes].pid, &status, 0) < 0)
			die("waitpid");
		good &= !status;
	}
	printf("%s %d - the %s load ran to its end\n", good ? "ok" : "not ok", number, name);
	return good;
}

/* The mean over the CPUs: right where no CPU of the load is ever idle. */
static unsigned long mean_us(uint64_t sum)
{
	return sum / cpus() / 1000;
}

/*
 * In virtual time the CPUs of the machine take turns, and a pause ends a turn.
 * Without it one CPU would stand still while the other calculates for a whole
 * tick; on real hardware it costs nothing.
 */
static void calculate(unsigned long rounds)
{
	volatile unsigned long sink = 0;

	for (; rounds; rounds--) {
		sink += rounds;
		if (rounds % 256 == 0)
			__builtin_ia32_pause();
	}
}

static void spin(struct account *own, uint64_t until)
{
	do
		calculate(256);
	while ((own->end = now()) < until);
}

/* So many spinners on each CPU. */
static void spin_all(unsigned int each, const char *cgroup)
{
	uint64_t until = now() + CPU_LOAD;

	for (unsigned int i = 0; i < each * cpus(); i++) {
		struct account *own = start(i % cpus(), cgroup);

		if (own) {
			spin(own, until);
			own->inside_run = cpu_time();
			_exit(0);
		}
	}
	sample_until(until);
}

/*
 * Two spinners on each CPU: from the moment there are two until the first one
 * ends, one of them waits.
 */
static void cpu_load(int number)
{
	uint64_t sum = 0;

	phase("cpu", "two spinners on each CPU");
	spin_all(2, "");
	finish(number, "cpu");

	for (unsigned int i = 0; i < cpus(); i++) {
		struct account *a = &board->account[i], *b = &board->account[i + cpus()];

		sum += (a->end < b->end ? a->end : b->end) -
		       (a->runnable > b->runnable ? a->runnable : b->runnable);
	}
	sum = mean_us(sum);
	printf("# own load=cpu cpu.some=%lu,%lu cpu.full=0,0 cpu.shortage.some=%lu,%lu cpu.limit.some=0,0\n",
	       sum, sum, sum, sum);
}

/* One spinner on each CPU, which nobody else wants: it has what cpu.max allows. */
static void cpu_limit_load(int number)
{
	uint64_t sum = 0;
	char quota[32];

	snprintf(quota, sizeof(quota), "%d %d", cpus() * CPU_QUOTA, CPU_PERIOD);
	cgroup_write("/cpu", "cpu.max", quota);
	phase("cpu-limit", "a spinner on each CPU, with a limit");
	spin_all(1, "/cpu");
	finish(number, "cpu-limit");

	for (unsigned int i = 0; i < cpus(); i++) {
		struct account *own = &board->account[i];

		sum += own->end - own->runnable - own->inside_run;
	}
	sum = mean_us(sum);
	printf("# own load=cpu-limit cpu.some=%lu,%lu cpu.full=0,0 cpu.limit.some=%lu,%lu cpu.shortage.some=0,0\n",
	       sum, sum, sum, sum);
}

/* xorshift64: the same addresses in every run. */
static uint64_t draw(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/*
 * O_DIRECT: each read goes to the disk. Until `company` the readers have the
 * machine for themselves; the director then starts background work beside them.
 */
static void read_disk(struct account *own, uint64_t company, uint64_t until)
{
	uint64_t seed = 88172645463325252ull + (own - board->account);
	int fd = open(DISK, O_RDONLY | O_DIRECT);
	void *buffer = aligned_alloc(PAGE, PAGE);
	uint64_t size, begun, run;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size))
		die(DISK);
	do {
		begun = now();
		run = cpu_time();
		if (pread(fd, buffer, PAGE, draw(&seed) % (size / PAGE) * PAGE) != (ssize_t)PAGE)
			die("read " DISK);
		run = cpu_time() - run;
		own->end = now();

		own->inside += own->end - begun;
		own->inside_run += run;
		if (begun < company) {
			own->alone += (own->end < company ? own->end : company) - begun;
			own->alone_run += run;
		}
	} while (own->end < until);
}

/* Work that yields to anything else: sleeps until `begin`, then calculates. */
static void company(struct account *own, uint64_t begin, uint64_t until)
{
	struct sched_param lowest = { 0 };

	if (sched_setscheduler(0, SCHED_IDLE, &lowest))
		die("SCHED_IDLE");
	sleep_until(begin);
	spin(own, until);
}

/*
 * One reader on each CPU, asleep nearly all the time. In the second half
 * something else calculates meanwhile: io some goes on, io full does not.
 */
static void io_load(int number)
{
	uint64_t half, until, wall = 0, run = 0, alone = 0, alone_run = 0;

	limit_reads("/io", DISK, READS_PER_SECOND);
	phase("io", "random reads from a slow disk");
	half = now() + IO_LOAD / 2;
	until = now() + IO_LOAD;
	for (unsigned int i = 0; i < 2 * cpus(); i++) {
		struct account *own = start(i % cpus(), i < cpus() ? "/io" : "");

		if (!own)
			continue;
		if (i < cpus())
			read_disk(own, half, until);
		else
			company(own, half, until);
		_exit(0);
	}
	sample_until(half);
	phase("io+work", "the same, work beside");
	sample_until(until);
	finish(number, "io");

	for (unsigned int i = 0; i < cpus(); i++) {
		wall += board->account[i].inside;
		run += board->account[i].inside_run;
		alone += board->account[i].alone;
		alone_run += board->account[i].alone_run;
	}
	printf("# own load=io io.some=%lu,%lu io.full=%lu,%lu io.limit.some=%lu,%lu io.shortage.some=0,0\n",
	       mean_us(wall - run), mean_us(wall), mean_us(alone - alone_run), mean_us(alone),
	       mean_us(wall - run), mean_us(wall));
}

/*
 * A working set that does not fit, used in a circle, and that the kernel knows as one.
 *
 * A process waiting for a page counts as stalled on memory only when the page
 * was part of the working set: when it was in use before it was evicted, and
 * came back soon. Soon is: while it was away, no more pages aged than its cgroup
 * keeps in the cache (mm/workingset.c). To make that true of every page, and of
 * none by luck:
 *
 *  - The set is swept in a circle, so that each page is away for as long as any.
 *  - Beside it is a cache of file pages, read often. At the swappiness that
 *    set_up() sets, reclaim leaves it alone; it is the yardstick for "soon".
 *  - Each page goes round twice before the load proper begins.
 *
 * And so that reclaim cannot run dry, each page of the set is written to the
 * swap disk once, before there is a limit, and only read from then on.
 */
static volatile unsigned char *set;

static void fill_cache(int cpu)
{
	size_t bytes = CACHE * PAGE;
	char *buffer = malloc(bytes);
	int fd = open_file(DISK);

	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);	/* these and no others */
	for (int i = 0; i < 3; i++)
		if (pread(fd, buffer, bytes, cpu * bytes) != (ssize_t)bytes)
			die("read " DISK);
	free(buffer);
	/* The file stays open: the cache of a device goes with its last user. */
}

/* A file of the cgroup of the process on this CPU, where the memory controller is; until the next call. */
static const char *memory_file(int cpu, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), MEMORY "/%d/%s", cpu, file);
	return path;
}

static void set_fill(int cpu)
{
	size_t bytes = WORKING_SET * PAGE;
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		die("working set");
	set = pages;
	for (unsigned long i = 0; i < WORKING_SET; i++)
		set[i * PAGE] = 1;
	if (madvise(pages, bytes, MADV_PAGEOUT))
		die("swap out");
	while (number_in(memory_file(cpu, "memory.stat"), "writeback"))
		sleep_until(now() + 10 * MS);
}

/* The page that has been away longest. */
static void touch(void)
{
	static unsigned long next;

	next = (next + 1) % WORKING_SET;
	(void)set[next * PAGE];
}

/*
 * Unthrottled, on a disk that takes no virtual time. Reclaim steers by statistics
 * that by themselves come up to date every two seconds, far too late here; a
 * reader of memory.stat is never served old ones, and so brings them up to date.
 */
static void set_sweep(int cpu)
{
	for (unsigned long i = 0; i < SWEEPS * WORKING_SET; i++) {
		touch();
		if (i % 16 == 0)
			number_in(memory_file(cpu, "memory.stat"), "rss");
	}
}

static void set_use(struct account *own, uint64_t until)
{
	uint64_t begun, run;

	do {
		begun = now();
		run = cpu_time();
		touch();
		run = cpu_time() - run;
		own->end = now();

		own->inside += own->end - begun;
		own->inside_run += run;
		calculate(WORK);
	} while (own->end < until);
}

/* What the kernel counted since the boot. */
struct pages {
	unsigned long returned;	/* read back from swap */
	unsigned long known;	/* of which it knew as part of a working set */
};

/*
 * A page that stayed away too long after all is waited for, but not as one of
 * the working set. Which of them did is not known here, how many did is.
 * memory.stat of cgroup v1 has no such line: this is of all processes, and only
 * right while none of them uses its set.
 */
static struct pages count_pages(void)
{
	write_file("/proc/sys/vm/stat_refresh", "1");
	return (struct pages){
		.returned = number_in("/proc/vmstat", "workingset_refault_anon"),
		.known = number_in("/proc/vmstat", "workingset_restore_anon"),
	};
}

/* Has its set in the end, and uses it when the gate opens. */
static void use_memory(struct account *own, int cpu, int gate)
{
	char byte;

	write_file(memory_file(cpu, "cgroup.procs"), "0");
	fill_cache(cpu);
	set_fill(cpu);
	write_file(memory_file(cpu, "memory.limit_in_bytes"), FIT);
	set_sweep(cpu);
	atomic_fetch_add(&board->ready, 1);
	if (read(gate, &byte, 1) != 1)
		_exit(1);
	set_use(own, board->until);
	_exit(0);
}

/* The cgroup of the process on this CPU, where the io controller is; until the next call. */
static const char *swapping(int cpu)
{
	static char cgroup[32];

	snprintf(cgroup, sizeof(cgroup), "/memory/%d", cpu);
	return cgroup;
}

/*
 * One process on each CPU uses a working set that does not fit, after
 * a phase in which the kernel gets to know it.
 */
static void memory_load(int number)
{
	uint64_t low = 0, high = 0, until;
	struct pages before, after;
	int good, nr = cpus(), gate[2];
	char go[MAX_PROCESSES] = "";

	pipe_or_die(gate);
	phase("fill", "the working set is built");
	for (int i = 0; i < nr; i++) {
		/* A cgroup each: in one for all, the first to lose a page loses them all. */
		struct account *own = start(i, swapping(i));

		if (own) {
			close(gate[1]);
			use_memory(own, i, gate[0]);
		}
	}
	until = now() + FILL_AT_MOST;
	while (atomic_load(&board->ready) < nr) {
		sample_until(now() + SAMPLE_EVERY);
		if (waitpid(-1, NULL, WNOHANG) > 0)
			die("a process of the memory load ended before it began");
		if (now() > until)
			die("no working set after %.0f s", seconds(FILL_AT_MOST));
	}
	quiet();

	for (int i = 0; i < nr; i++)
		limit_reads(swapping(i), SWAP, SWAP_INS_PER_SECOND);
	before = count_pages();
	phase("memory", "a working set larger than its limit");
	board->until = now() + MEMORY_LOAD;
	if (write(gate[1], go, nr) != nr)
		die("gate");
	sample_until(board->until);
	good = finish(number, "memory");

	after = count_pages();
	after.returned -= before.returned;
	after.known -= before.known;
	if (good && (!after.returned || after.known > after.returned))
		die("%lu pages came back, %lu of them known", after.returned, after.known);
	/* Who failed kept no account; the result says that he did. */
	for (int i = 0; good && i < nr; i++) {
		struct account *own = &board->account[i];
		uint64_t asleep = own->inside - own->inside_run;

		asleep = asleep * after.known / after.returned;
		low += asleep;
		high += asleep + own->inside_run;
	}
	low = mean_us(low);
	high = mean_us(high);
	printf("# own load=memory memory.some=%lu,%lu memory.full=%lu,%lu memory.limit.some=%lu,%lu "
	       "memory.shortage.some=0,0\n", low, high, low, high, low, high);
}

static void set_up(void)
{
	/* One page per swap-in: each page that comes back is one that was asked for. */
	write_file("/proc/sys/vm/page-cluster", "0");
	/* Reclaim takes pages that can be swapped, not the file cache beside them. The cgroups below inherit it. */
	write_file("/proc/sys/vm/swappiness", "200");
	if (mkdir(MEMORY, 0755) || mount("memory", MEMORY, "cgroup", 0, "memory"))
		die(MEMORY);
	cgroup_write("", "cgroup.subtree_control", "+cpu +io");
	cgroup_make("/cpu");
	cgroup_make("/io");
	cgroup_make("/memory");
	cgroup_write("/memory", "cgroup.subtree_control", "+io");
	for (unsigned int i = 0; i < cpus(); i++) {
		cgroup_make(swapping(i));
		if (mkdir(memory_file(i, ""), 0755))
			die(MEMORY);
	}
}

int main(void)
{
	struct sched_param priority = { .sched_priority = 50 };

	/* One write per line: lines of different processes never mix. */
	setvbuf(stdout, NULL, _IOLBF, 4096);
	if (!has_psi())
		die("this kernel has no /proc/pressure");
	board = shared_memory(sizeof(*board));
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority))
		die("real-time priority");
	set_up();
	listen_to_vmpressure();

	zero = now();
	printf("TAP version 13\n1..4\n# setup cpus=%d\n", cpus());
	quiet();
	cpu_load(1);
	quiet();
	cpu_limit_load(2);
	quiet();
	io_load(3);
	quiet();
	memory_load(4);
	quiet();
	phase("end", "-");
	return 0;
}
