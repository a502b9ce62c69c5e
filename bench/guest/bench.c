// SPDX-License-Identifier: GPL-2.0
/*
 * Run one workload and state what it cost.
 *
 *	bench WORKLOAD [PATTERN...]
 *
 * The output is TAP.  A line "# value NAME NUMBER" is a result.  With patterns,
 * only what one of them matches is measured.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

static const struct workload {
	const char *name;
	void (*run)(void);
} workloads[] = {
	{ "fork", forks },
	{ "beside", beside },
	{ "idle", idle },
	{ "isolated", isolated },
	{ "latency", latency },
	{ "limits", limits },
	{ "lines", lines },
	{ "many", many },
	{ "memory", memory },
	{ "memstall", memstall },
	{ "million", million },
	{ "pingpong", pingpong },
	{ "read", reads },
	{ "remote", remote },
	{ "threads", threads },
	{ "throttle", throttle },
	{ "together", together },
	{ "trigger", triggers },
	{ "upkeep", upkeep },
};

struct profile profile;
static char **patterns;

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
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

bool wanted(const char *name)
{
	char **pattern;

	for (pattern = patterns; *pattern; pattern++)
		if (!fnmatch(*pattern, name, 0))
			return true;
	return !*patterns;
}

void result(double value, const char *format, ...)
{
	va_list args;

	if (profile.parts)
		printf("# profile %lu %lu\n", profile.parts, profile.times);
	memset(&profile, 0, sizeof(profile));
	printf("# value ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" %.9g\n", value);
	fflush(stdout);
}

void batches_init(struct batches *batches, unsigned int room)
{
	batches->nr = 0;
	batches->room = room;
	/* Touched here: the first use must not fault in the middle of the work. */
	batches->times = malloc(room * sizeof(*batches->times));
	if (!batches->times)
		die("no memory");
	memset(batches->times, 1, room * sizeof(*batches->times));
}

void batches_add(struct batches *batches, uint64_t time)
{
	if (batches->nr == batches->room)
		die("more batches than announced");
	batches->times[batches->nr++] = time;
}

void sleep_until(uint64_t time)
{
	const struct timespec until = { .tv_sec = time / 1000000000, .tv_nsec = time % 1000000000 };

	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		die("clock_nanosleep");
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

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Between two of them, in order of size. */
static double batches_between(struct batches *batches, unsigned int low, unsigned int high)
{
	double value;

	if (!batches->nr)
		die("a median of nothing");
	qsort(batches->times, batches->nr, sizeof(*batches->times), compare);
	value = (batches->times[low] + batches->times[high]) / 2.0;
	free(batches->times);
	return value;
}

double batches_median(struct batches *batches)
{
	return batches_between(batches, (batches->nr - 1) / 2, batches->nr / 2);
}

double batches_upper(struct batches *batches)
{
	return batches_between(batches, 3 * batches->nr / 4, 3 * batches->nr / 4);
}

void write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text);
	int fd;

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		die("open %s", path);
	if (write(fd, text, len) != len)
		die("write %s to %s", text, path);
	close(fd);
}

static void cgroup_path(char *path, size_t size, const char *cgroup, const char *file)
{
	if ((size_t)snprintf(path, size, "%s/%s/%s", CGROUPS, cgroup, file) >= size)
		die("%s is too long a path", cgroup);
}

void cgroup_make(const char *cgroup)
{
	char path[512];

	cgroup_path(path, sizeof(path), cgroup, "");
	if (mkdir(path, 0755))
		die("mkdir %s", path);
}

void cgroup_remove(const char *cgroup)
{
	char path[512];
	int i;

	cgroup_path(path, sizeof(path), cgroup, "");
	/* The last steps of a dead task come after its parent was told. */
	for (i = 0; rmdir(path); i++) {
		if (errno != EBUSY || i == 1000)
			die("rmdir %s", path);
		usleep(1000);
	}
}

bool cgroup_has(const char *cgroup, const char *file)
{
	char path[512];

	cgroup_path(path, sizeof(path), cgroup, file);
	return !access(path, F_OK);
}

void cgroup_write(const char *cgroup, const char *file, const char *text)
{
	char path[512];

	cgroup_path(path, sizeof(path), cgroup, file);
	write_file(path, text);
}

int cgroup_open(const char *cgroup, const char *file)
{
	char path[512];
	int fd;

	cgroup_path(path, sizeof(path), cgroup, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
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

void cgroup_enter(const char *cgroup, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	cgroup_write(cgroup, "cgroup.procs", text);
}

const char *cgroup_chain(const char *parent, const char *name, unsigned int depth, char *path, size_t size)
{
	size_t len = snprintf(path, size, "%s", parent);

	while (depth--) {
		len += snprintf(path + len, size - len, "/%s", name);
		if (len >= size)
			die("%s is too long a path", path);
		cgroup_make(path);
	}
	return path;
}

void cgroup_remove_chain(const char *parent, const char *name, unsigned int depth)
{
	char path[512];
	size_t len = snprintf(path, sizeof(path), "%s", parent);
	unsigned int i;

	for (i = 0; i < depth; i++)
		len += snprintf(path + len, sizeof(path) - len, "/%s", name);
	while (depth--) {
		cgroup_remove(path);
		*strrchr(path, '/') = 0;
	}
}

void cgroup_ask_exact(const char *path)
{
	char group[256];
	size_t len;
	int fd;

	fd = open("/proc/pressure/stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	read_file(fd);
	close(fd);
	snprintf(group, sizeof(group), "%s", path);
	for (len = strlen(group); len; len = strrchr(group, '/') ? strrchr(group, '/') - group : 0) {
		group[len] = 0;
		fd = cgroup_open(group, "cgroup.pressure.stat");
		read_file(fd);
		close(fd);
	}
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

unsigned int cpus(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN);
}

void pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("cannot run on CPU %u", cpu);
}

pid_t disk_reader(const char *cgroup, int cpu)
{
	char *block = aligned_alloc(4096, 4096);
	pid_t pid = fork_or_die();
	int fd;

	if (pid) {
		free(block);
		cgroup_enter(cgroup, pid);
		return pid;
	}
	if (cpu >= 0)
		pin(cpu);
	fd = open("/dev/nullb0", O_RDONLY | O_DIRECT);
	while (fd >= 0 && pread(fd, block, 4096, 0) == 4096)
		;
	_exit(1);
}

void cgroup_visit_cpus(const char *cgroup)
{
	unsigned int cpu;

	cgroup_enter(cgroup, getpid());
	for (cpu = cpus(); cpu--; ) {
		pin(cpu);
		usleep(1000);
	}
	cgroup_enter("", getpid());
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

int cgroup_arm(const char *cgroup, const char *file, const char *text)
{
	char path[512];

	cgroup_path(path, sizeof(path), cgroup, file);
	return trigger_arm(path, text);
}

int trigger_arm(const char *path, const char *text)
{
	int fd;

	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text) + 1) < 0)
		die("a trigger of %s", path);
	return fd;
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

void pipe_or_die(int fds[2])
{
	if (pipe(fds))
		die("pipe");
}

int main(int argc, char **argv)
{
	size_t i;

	patterns = argv + 2;
	for (i = 0; argc > 1 && i < ARRAY_SIZE(workloads); i++) {
		if (strcmp(argv[1], workloads[i].name))
			continue;
		printf("1..1\n");
		workloads[i].run();
		printf("ok 1 %s\n", workloads[i].name);
		return 0;
	}
	fprintf(stderr, "usage: bench WORKLOAD [PATTERN...]\n");
	return 64;
}
