// SPDX-License-Identifier: GPL-2.0
/*
 * What the workloads, and the demo, share: see bench.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

struct profile profile;
char case_name[64];

void die(const char *format, ...)
{
	int error = errno;
	va_list args;

	printf("Bail out! ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" (%s)\n", strerror(error));
	fflush(stdout);
	_exit(1);
}

uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

void sleep_until(uint64_t time)
{
	const struct timespec until = { .tv_sec = time / SECOND, .tv_nsec = time % SECOND };

	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		die("clock_nanosleep");
}

void result_named(const char *figure, double value)
{
	if (profile.parts)
		printf("# profile %lu %lu\n", profile.parts, profile.times);
	memset(&profile, 0, sizeof(profile));
	printf("# value %s %.9g\n", figure, value);
	fflush(stdout);
}

void result(double value)
{
	result_named(case_name, value);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

double quartile(uint64_t *values, unsigned int nr, unsigned int quarters)
{
	qsort(values, nr, sizeof(*values), compare);
	return values[quarters * nr / 4];
}

double measure(void (*prepare)(void), void (*work)(unsigned int nr), unsigned int batch, unsigned int batches)
{
	uint64_t times[batches], begin;
	unsigned int i;

	/* Touched here: the first use must not fault in the middle of the work. */
	memset(times, 1, sizeof(times));
	for (i = 0; i < batches; i++) {
		if (prepare)
			prepare();
		begin = now();
		profile_begin();
		work(batch);
		profile_end(batch);
		times[i] = now() - begin;
	}
	return quartile(times, batches, 2) / batch;
}

const char *cgroup_file(const char *cgroup, const char *file)
{
	static char path[512];

	if ((size_t)snprintf(path, sizeof(path), CGROUPS "%s/%s", cgroup, file) >= sizeof(path))
		die("%s is too long a path", cgroup);
	return path;
}

bool cgroup_has(const char *cgroup, const char *file)
{
	return !access(cgroup_file(cgroup, file), F_OK);
}

void cgroup_write(const char *cgroup, const char *file, const char *text)
{
	write_file(cgroup_file(cgroup, file), text);
}

void cgroup_make(const char *cgroup)
{
	if (mkdir(cgroup_file(cgroup, ""), 0755))
		die("mkdir %s", cgroup);
}

void directory_remove(const char *path)
{
	int i;

	/* The last steps of a dead task come after its parent was told. */
	for (i = 0; rmdir(path); i++) {
		if (errno != EBUSY || i == 1000)
			die("rmdir %s", path);
		usleep(1000);
	}
}

void cgroup_remove(const char *cgroup)
{
	directory_remove(cgroup_file(cgroup, ""));
}

void cgroup_enter(const char *cgroup, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	cgroup_write(cgroup, "cgroup.procs", text);
}

const char *cgroup_chain(const char *parent, const char *name, unsigned int depth)
{
	char path[512];
	size_t len = snprintf(path, sizeof(path), "%s", parent);

	while (depth--) {
		len += snprintf(path + len, sizeof(path) - len, "/%s", name);
		cgroup_make(path);
	}
	return strdup(path);
}

const char *cgroup_leaf(const char *kind, unsigned int depth)
{
	const char *leaf = cgroup_chain("", "a", depth);
	bool forgotten = !strcmp(kind, "forgotten");
	char path[512];

	if ((strcmp(kind, "exact") && !forgotten) || access("/proc/pressure/stat", F_OK))
		return leaf;
	read_once("/proc/pressure/stat");
	for (strcpy(path, leaf); *path; *strrchr(path, '/') = 0)
		read_once(cgroup_file(path, "cgroup.pressure.stat"));
	/* The kernel looks every 20 s who still asks, if something else wakes it up. */
	if (forgotten)
		sleep_until(now() + 330 * SECOND);
	return leaf;
}

void cgroup_controller(const char *cgroup, const char *controller)
{
	char path[256];
	const char *end;

	for (end = strchr(cgroup, '/'); end; end = strchr(end + 1, '/')) {
		snprintf(path, sizeof(path), "%.*s", (int)(end - cgroup), cgroup);
		cgroup_write(path, "cgroup.subtree_control", controller);
	}
}

const char *cgroup_numbered(unsigned int number)
{
	static char path[16];

	snprintf(path, sizeof(path), "/g%04u", number);
	return path;
}

void cgroup_visit_cpus(const char *cgroup)
{
	unsigned int cpu;

	cgroup_enter(cgroup, getpid());
	for (cpu = cpus(); cpu--; ) {
		pin(0, cpu);
		usleep(1000);
	}
	cgroup_enter("", getpid());
}

unsigned int cpus(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN);
}

void pin(pid_t pid, unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pid, sizeof(set), &set))
		die("cannot run on CPU %u", cpu);
}

pid_t fork_or_die(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	return pid;
}

void wait_or_die(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		die("a task failed");
}

pid_t spinner(const char *cgroup)
{
	pid_t pid = fork_or_die();

	while (!pid)
		;
	cgroup_enter(cgroup, pid);
	return pid;
}

void disk_reader(const char *cgroup, int cpu)
{
	char *block = aligned_alloc(4096, 4096);
	pid_t pid = fork_or_die();
	int fd;

	if (pid) {
		cgroup_enter(cgroup, pid);
		return;
	}
	if (cpu >= 0)
		pin(0, cpu);
	fd = open("/dev/nullb0", O_RDONLY | O_DIRECT);
	while (fd >= 0 && pread(fd, block, 4096, 0) == 4096)
		;
	_exit(1);
}

void *shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("no memory");
	return memory;
}

void pipe_or_die(int fds[2])
{
	if (pipe(fds))
		die("pipe");
}

int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die("open %s", path);
	return fd;
}

void read_file(int fd)
{
	char text[512];

	if (pread(fd, text, sizeof(text), 0) <= 0)
		die("a file cannot be read");
}

void read_once(const char *path)
{
	int fd = open_file(path);

	read_file(fd);
	close(fd);
}

void write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, len) != len)
		die("write %s to %s", text, path);
	close(fd);
}

uint64_t number_in(const char *path, const char *word)
{
	size_t len = strlen(word);
	uint64_t number;
	char line[256];
	FILE *file;

	file = fopen(path, "re");
	if (!file)
		die("%s", path);
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, word, len) && sscanf(line + len, " %" SCNu64, &number) == 1) {
			fclose(file);
			return number;
		}
	}
	die("%s has no %s", path, word);
}

bool has_psi(void)
{
	return !access("/proc/pressure/cpu", F_OK);
}

int trigger_arm(const char *path, const char *text)
{
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text) + 1) < 0)
		die("a trigger of %s", path);
	return fd;
}

int trigger_arm_one(const char *path, unsigned int number)
{
	char text[64];

	snprintf(text, sizeof(text), "some %u 1000000", 900000 + number);
	return trigger_arm(path, text);
}

uint64_t sum_of_tasks(task_value_t *value)
{
	char path[300], name[32];
	struct dirent *entry;
	uint64_t sum = 0;
	FILE *file;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		die("/proc");
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (!fgets(name, sizeof(name), file))
			*name = 0;
		fclose(file);
		snprintf(path, sizeof(path), "/proc/%s/status", entry->d_name);
		sum += value(name, path);
	}
	closedir(dir);
	return sum;
}

struct interval {
	uint64_t elapsed, busy;
};

/* Since the last look, on the first CPU. Others that idle say so only when they cease to. */
static struct interval look(void)
{
	static uint64_t last_now, last_idle;
	uint64_t value, now = 0, idle = 0;
	struct interval interval;
	char line[256];
	FILE *file;

	file = fopen("/proc/timer_list", "re");
	if (!file)
		die("/proc/timer_list");
	while (fgets(line, sizeof(line), file) && strcmp(line, "cpu: 1\n")) {
		if (sscanf(line, "now at %" SCNu64, &value) == 1)
			now = value;
		/* What waits for I/O is apart. */
		else if (sscanf(line, " .idle_sleeptime : %" SCNu64, &value) == 1 ||
			 sscanf(line, " .iowait_sleeptime: %" SCNu64, &value) == 1)
			idle += value;
	}
	fclose(file);
	if (!now)
		die("/proc/timer_list has no time");
	interval.elapsed = now - last_now;
	interval.busy = interval.elapsed - (idle - last_idle);
	last_now = now;
	last_idle = idle;
	return interval;
}

static struct interval one_look;

void look_twice(void)
{
	look();
	one_look = look();
}

double look_again(void)
{
	struct interval interval = look();

	return 1e9 * (interval.busy - one_look.busy) / (interval.elapsed - one_look.elapsed);
}

double busy_for(unsigned int seconds)
{
	uint64_t time = now() + 4 * SECOND;
	double done;

	sleep_until(time);
	look_twice();
	profile_begin();
	sleep_until(time + seconds * SECOND);
	done = look_again();
	profile_end(seconds);
	return done;
}

struct member {
	const struct crowd *crowd;
	uint64_t first;		/* when it wakes up first */
	unsigned int cpu;	/* if they are spread */
};

volatile unsigned long crowd_wakeups;

static int live(void *arg)
{
	const struct member *member = arg;
	uint64_t i, time;

	if (member->crowd->spread)
		pin(0, member->cpu);
	for (time = member->first; ; time += SECOND) {
		sleep_until(time);
		crowd_wakeups++;
		for (i = member->crowd->work / 2; i; i--)
			__asm__ volatile("");
	}
	return 0;
}

/* The members share the memory, for there are too many of them. */
void crowd_start(const struct crowd *crowd)
{
	enum { STACK = 4096 };
	unsigned int i, nr = crowd->groups * crowd->tasks;
	struct member *members = calloc(nr, sizeof(*members));
	char *stacks = malloc((size_t)nr * STACK);
	uint64_t start = now() + 5 * SECOND;
	pid_t pid;

	/*
	 * Every second or so the kernel folds its counters of memory, and some
	 * time gives back lists of free pages.  Whether that comes while we
	 * measure is chance, and as dear as hundreds of wake-ups: not now.
	 */
	write_file("/proc/sys/vm/stat_interval", "3600");
	if (!members || !stacks)
		die("no memory");
	for (i = 0; i < nr; i++) {
		struct member *member = &members[i];
		const char *group = cgroup_numbered(i / crowd->tasks);

		if (!(i % crowd->tasks))
			cgroup_make(group);
		member->crowd = crowd;
		member->first = start + SECOND / crowd->groups * (i / crowd->tasks);
		member->cpu = i % crowd->tasks;
		if (crowd->spread)
			member->first += SECOND / nr * member->cpu;
		pid = clone(live, stacks + (i + 1) * STACK, CLONE_VM | SIGCHLD, member);
		if (pid < 0)
			die("clone");
		cgroup_enter(group, pid);
	}
	if (now() > start)
		die("5 seconds are not enough to start");
	sleep_until(start);
}
