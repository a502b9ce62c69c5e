// SPDX-License-Identifier: GPL-2.0
/* What the tests of pressure stall information share: see psi_util.h. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "psi_util.h"

void psi_die(const char *fmt, ...)
{
	va_list args;

	fputs("# ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	_exit(KSFT_FAIL);
}

void report_row(const char *row, const char *fmt, ...)
{
	va_list args;

	printf("# row: %s: ", row);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

/* ---- Pressure files ---- */

/*
 * A cursor over the text. Each of the take_*() functions advances over what
 * it accepts, and leaves the cursor alone when it returns false.
 */
struct cursor {
	const char *pos;
	const char *end;
};

static bool take_word(struct cursor *c, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(c->end - c->pos) < len || memcmp(c->pos, word, len))
		return false;
	c->pos += len;
	return true;
}

static bool at_digit(const struct cursor *c)
{
	return c->pos < c->end && *c->pos >= '0' && *c->pos <= '9';
}

/* A decimal number as the kernel prints it: no sign, no leading zero. */
static bool take_number(struct cursor *c, __u64 *value)
{
	const char *start = c->pos;
	__u64 sum = 0;

	while (at_digit(c)) {
		unsigned int digit = *c->pos - '0';

		if (sum > (ULLONG_MAX - digit) / 10)
			goto rewind;
		sum = sum * 10 + digit;
		c->pos++;
	}
	if (c->pos == start || (*start == '0' && c->pos - start > 1))
		goto rewind;
	*value = sum;
	return true;
rewind:
	c->pos = start;
	return false;
}

/* A percentage with exactly two decimals, not above 100. */
static bool take_percent(struct cursor *c, unsigned int *hundredths)
{
	const char *start = c->pos;
	__u64 whole;

	if (!take_number(c, &whole) || !take_word(c, "."))
		goto rewind;
	if (!at_digit(c))
		goto rewind;
	*hundredths = whole * 100 + (*c->pos++ - '0') * 10;
	if (!at_digit(c))
		goto rewind;
	*hundredths += *c->pos++ - '0';
	if (whole > 100 || *hundredths > 10000)
		goto rewind;
	return true;
rewind:
	c->pos = start;
	return false;
}

static const char *take_line(struct cursor *c, struct psi_line *line)
{
	static const char * const names[NR_AVGS] = { " avg10=", " avg60=", " avg300=" };

	for (int i = 0; i < NR_AVGS; i++) {
		if (!take_word(c, names[i]))
			return "an average is missing or misplaced";
		if (!take_percent(c, &line->avg[i]))
			return "an average is no percentage with two decimals";
	}
	if (!take_word(c, " total="))
		return "the total is missing or misplaced";
	if (!take_number(c, &line->total))
		return "the total is no plain number";
	if (!take_word(c, "\n"))
		return "a line does not end after its total";
	line->present = true;
	return NULL;
}

const char *psi_parse(const char *text, size_t len, struct psi *psi)
{
	struct cursor c = { .pos = text, .end = text + len };
	const char *error = NULL;

	memset(psi, 0, sizeof(*psi));
	if (take_word(&c, "some"))
		error = take_line(&c, &psi->some);
	if (error)
		return error;
	if (!take_word(&c, "full"))
		return "the line \"full\" is missing";
	error = take_line(&c, &psi->full);
	if (error)
		return error;
	return c.pos == c.end ? NULL : "there is text after the last line";
}

void psi_read(const char *path, struct psi *psi)
{
	const char *error;
	char buf[512];
	ssize_t len;

	len = read_file(path, buf, sizeof(buf));
	if (len < 0)
		psi_die("%s: %s", path, strerror(errno));
	error = psi_parse(buf, len, psi);
	if (error)
		psi_die("%s: %s: \"%s\"", path, error, buf);
}

__u64 psi_some_ns(const char *path)
{
	struct psi psi;

	psi_read(path, &psi);
	return psi.some.total * NSEC_PER_USEC;
}

__u64 psi_full_ns(const char *path)
{
	struct psi psi;

	psi_read(path, &psi);
	return psi.full.total * NSEC_PER_USEC;
}

double psi_avg(const char *path, enum psi_avg avg)
{
	struct psi psi;

	psi_read(path, &psi);
	return psi.some.avg[avg] / 100.0;
}

bool psi_irq_accounted(void)
{
	char buf[512];

	return read_file(PSI_IRQ, buf, sizeof(buf)) >= 0;
}

/* ---- Time ---- */

__u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

void sleep_until(__u64 ns)
{
	struct timespec ts = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

void sleep_for(__u64 ns)
{
	sleep_until(now_ns() + ns);
}

__u64 storm_time(__u64 ns)
{
	const char *seconds = getenv("PSI_STORM_SECONDS");

	return seconds ? atoi(seconds) * NSEC_PER_SEC : ns;
}

/* ---- Run queue wait ---- */

__u64 task_wait_ns(pid_t pid)
{
	unsigned long long run, wait;
	char path[64], buf[128];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	if (read_file(path, buf, sizeof(buf)) < 0)
		psi_die("%s: %s (needs CONFIG_SCHEDSTATS)", path, strerror(errno));
	if (sscanf(buf, "%llu %llu", &run, &wait) != 2)
		psi_die("%s: cannot parse \"%s\"", path, buf);
	return wait;
}

int kernel_threads(const char *pattern, pid_t *pids, int most)
{
	char comm[64];
	glob_t found;
	int nr = 0;

	if (glob("/proc/[0-9]*/comm", 0, NULL, &found))
		psi_die("/proc: no tasks");
	for (size_t i = 0; i < found.gl_pathc && nr < most; i++) {
		pid_t pid = atoi(found.gl_pathv[i] + strlen("/proc/"));

		if (read_file(found.gl_pathv[i], comm, sizeof(comm)) <= 0)
			continue;
		comm[strcspn(comm, "\n")] = '\0';
		if (!fnmatch(pattern, comm, 0) && getpgid(pid) == 0)
			pids[nr++] = pid;
	}
	globfree(&found);
	return nr;
}

__u64 psi_threads_wait_ns(void)
{
	static const char * const patterns[] = { "psi", "psi_watch*" };
	pid_t pids[8];
	__u64 sum = 0;

	for (int p = 0; p < 2; p++)
		for (int nr = kernel_threads(patterns[p], pids, 8); nr; nr--)
			sum += task_wait_ns(pids[nr - 1]);
	return sum;
}

void cpu_clock_read(int cpu, struct cpu_clock *cc)
{
	unsigned long long run, wait;
	char line[512];
	FILE *file;
	int nr;

	cc->run = 0;
	cc->wait = 0;
	file = fopen("/proc/schedstat", "re");
	if (!file)
		psi_die("/proc/schedstat: %s (needs CONFIG_SCHEDSTATS)", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "cpu%d %*u %*u %*u %*u %*u %*u %llu %llu", &nr, &run, &wait) != 3)
			continue;
		if (cpu >= 0 && cpu != nr)
			continue;
		cc->run += run;
		cc->wait += wait;
	}
	fclose(file);
}

/* ---- Loads ---- */

static void load_child(const struct load *load, int ready)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		psi_die("prctl: %s", strerror(errno));
	if (getppid() == 1)
		_exit(KSFT_FAIL);
	if (load->cgroup)
		cgroup_write(load->cgroup, "cgroup.procs", "0");
	if (load->cpu >= 0)
		pin_to(load->cpu);
	set_policy(0, load->policy, load->prio);
	if (write(ready, "", 1) != 1)
		psi_die("load: %s", strerror(errno));
	close(ready);
	load->fn(load->arg);
	_exit(KSFT_PASS);
}

pid_t load_start(const struct load *load)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe2(ready, O_CLOEXEC))
		psi_die("pipe: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		psi_die("fork: %s", strerror(errno));
	if (!pid) {
		close(ready[0]);
		load_child(load, ready[1]);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		psi_die("a load failed to start");
	close(ready[0]);
	return pid;
}

void load_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	if (waitpid(pid, NULL, 0) != pid)
		psi_die("waitpid %d: %s", pid, strerror(errno));
}

void load_wait(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		psi_die("waitpid %d: %s", pid, strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		psi_die("a load failed: wait status %#x", status);
}

void spin(void *arg)
{
	for (;;)
		asm volatile("" ::: "memory");
}

pid_t spin_on(int cpu)
{
	const struct load load = { .cpu = cpu, .fn = spin };

	return load_start(&load);
}

pid_t spin_idle_on(int cpu)
{
	const struct load load = { .cpu = cpu, .policy = SCHED_IDLE, .fn = spin };

	return load_start(&load);
}

void spin_until(__u64 ns)
{
	while (now_ns() < ns)
		;
}

void *shared_memory(size_t size)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
	return mem;
}

/* ---- The machine ---- */

void write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text);
	int fd;

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		psi_die("%s: %s", path, strerror(errno));
	if (write(fd, text, len) != len)
		psi_die("%s: cannot write \"%s\": %s", path, text, strerror(errno));
	close(fd);
}

ssize_t read_file(const char *path, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t got;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while ((got = read(fd, buf + len, size - 1 - len)) > 0)
		len += got;
	close(fd);
	if (got < 0)
		return -1;
	buf[len] = '\0';
	return len;
}

void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		psi_die("cannot run on CPU %d: %s", cpu, strerror(errno));
}

void set_policy(pid_t pid, int policy, int prio)
{
	bool rt = policy == SCHED_FIFO || policy == SCHED_RR;
	struct sched_param param = { .sched_priority = rt ? prio : 0 };

	if (sched_setscheduler(pid, policy, &param))
		psi_die("sched_setscheduler: %s", strerror(errno));
	if (!rt && setpriority(PRIO_PROCESS, pid, prio))
		psi_die("setpriority: %s", strerror(errno));
}

int cpus_possible(void)
{
	return sysconf(_SC_NPROCESSORS_CONF);
}

static int cpus_used(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN);
}

void cpu_online(int cpu, bool on)
{
	char path[64], state[8];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	if (read_file(path, state, sizeof(state)) < 0) {
		/* The boot CPU has no such file. */
		if (on && errno == ENOENT)
			return;
		psi_die("%s: %s (needs CONFIG_HOTPLUG_CPU)", path, strerror(errno));
	}
	if ((state[0] == '1') != on)
		write_file(path, on ? "1" : "0");
}

/*
 * Two housekeepers wake up all the time, and each wake-up waits for its CPU a little:
 * kcompactd every 500 ms for proactive compaction, and the statistics of memory every
 * second. In virtual time, where instructions are slow, that is 0.05 % cpu some. A
 * kernel for one CPU has no such statistics.
 */
static void calm_down(void)
{
	const char *interval = "/proc/sys/vm/stat_interval";

	write_file("/proc/sys/vm/compaction_proactiveness", "0");
	if (!access(interval, F_OK))
		write_file(interval, "3600");
}

bool kernel_is_preempt_rt(void)
{
	struct utsname name;

	return !uname(&name) && strstr(name.version, "PREEMPT_RT");
}

/*
 * With PREEMPT_RT, threads serve timers and what devices complete. They come before the
 * tasks of tests: who is starved of the CPU still is woken in time.
 */
static void threads_come_first(void)
{
	static const char * const names[] = { "ktimers/", "ksoftirqd/", "irq/" };
	char name[32];
	glob_t found;

	if (!kernel_is_preempt_rt())
		return;
	if (glob("/proc/[0-9]*/comm", 0, NULL, &found))
		psi_die("no tasks in /proc");
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (read_file(found.gl_pathv[i], name, sizeof(name)) < 0)
			continue;
		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			if (!strncmp(name, names[j], strlen(names[j])))
				set_policy(atoi(found.gl_pathv[i] + strlen("/proc/")), SCHED_FIFO,
					   98);
	}
	globfree(&found);
}

void cpus_use(int nr)
{
	int possible = cpus_possible();

	calm_down();
	threads_come_first();
	if (nr > possible)
		psi_die("the test wants %d CPUs, the machine has %d", nr, possible);
	for (int cpu = 0; cpu < possible; cpu++)
		cpu_online(cpu, cpu < nr);
}

void cgroup_write(const char *path, const char *file, const char *text)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	write_file(name, text);
}

void cgroup_create(const char *path, const char *controllers)
{
	write_file("/sys/fs/cgroup/cgroup.subtree_control", controllers);
	if (mkdir(path, 0755) && errno != EEXIST)
		psi_die("%s: %s", path, strerror(errno));
}

static bool cgroup_populated(const char *path)
{
	char name[256], buf[256];

	snprintf(name, sizeof(name), "%s/cgroup.events", path);
	if (read_file(name, buf, sizeof(buf)) < 0)
		psi_die("%s: %s", name, strerror(errno));
	return strstr(buf, "populated 1");
}

void cgroup_remove(const char *path)
{
	cgroup_write(path, "cgroup.kill", "1");
	while (cgroup_populated(path))
		sleep_for(NSEC_PER_MSEC);
	if (rmdir(path))
		psi_die("%s: %s", path, strerror(errno));
}

#define RT_RUNTIME	"/proc/sys/kernel/sched_rt_runtime_us"
#define FAIR_SERVER	"/sys/kernel/debug/sched/fair_server"
#define RCU_SILENT	"/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress"

static void fair_server_path(char *path, size_t size, int cpu)
{
	snprintf(path, size, FAIR_SERVER "/cpu%d/runtime", cpu);
}

void rt_free_begin(struct rt_free *rt)
{
	int cpus = cpus_used();
	char path[128];

	if (read_file(RT_RUNTIME, rt->runtime, sizeof(rt->runtime)) < 0)
		psi_die(RT_RUNTIME ": %s", strerror(errno));
	write_file(RT_RUNTIME, "-1");
	/* A kernel for one CPU may have no such thing. */
	if (read_file(RCU_SILENT, rt->rcu_silent, sizeof(rt->rcu_silent)) < 0)
		*rt->rcu_silent = '\0';
	else
		write_file(RCU_SILENT, "1");
	for (int cpu = 0; cpu < cpus && cpu < (int)ARRAY_SIZE(rt->fair_server); cpu++) {
		fair_server_path(path, sizeof(path), cpu);
		if (read_file(path, rt->fair_server[cpu], sizeof(rt->fair_server[cpu])) < 0)
			psi_die("%s: %s (needs debugfs)", path, strerror(errno));
		write_file(path, "0");
	}
}

void rt_free_end(const struct rt_free *rt)
{
	int cpus = cpus_used();
	char path[128];

	for (int cpu = 0; cpu < cpus && cpu < (int)ARRAY_SIZE(rt->fair_server); cpu++) {
		fair_server_path(path, sizeof(path), cpu);
		write_file(path, rt->fair_server[cpu]);
	}
	if (*rt->rcu_silent)
		write_file(RCU_SILENT, rt->rcu_silent);
	write_file(RT_RUNTIME, rt->runtime);
}

#define CONFIGFS	"/sys/kernel/config"

static void slow_disk_set(const struct slow_disk *disk, const char *key, unsigned long long value)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "%s/%s", disk->config, key);
	snprintf(text, sizeof(text), "%llu", value);
	write_file(path, text);
}

void slow_disk_remove(const struct slow_disk *disk)
{
	slow_disk_set(disk, "power", 0);
	if (rmdir(disk->config))
		psi_die("%s: %s", disk->config, strerror(errno));
}

void slow_disk_create(struct slow_disk *disk, const char *name, __u64 latency, int size_mb)
{
	if (access(CONFIGFS "/nullb", F_OK) && mount("none", CONFIGFS, "configfs", 0, NULL))
		psi_die(CONFIGFS ": %s", strerror(errno));
	snprintf(disk->config, sizeof(disk->config), CONFIGFS "/nullb/%s", name);
	snprintf(disk->node, sizeof(disk->node), "/dev/%s", name);
	/* A test that was killed may have left its device. */
	if (!access(disk->config, F_OK))
		slow_disk_remove(disk);
	if (mkdir(disk->config, 0755))
		psi_die("%s: %s (needs CONFIG_BLK_DEV_NULL_BLK)", disk->config, strerror(errno));
	slow_disk_set(disk, "size", size_mb);
	slow_disk_set(disk, "memory_backed", 1);
	slow_disk_set(disk, "irqmode", 2);
	slow_disk_set(disk, "completion_nsec", latency);
	slow_disk_set(disk, "power", 1);
	if (access(disk->node, R_OK | W_OK))
		psi_die("%s: %s (needs devtmpfs)", disk->node, strerror(errno));
}

void slow_disk_queue(const struct slow_disk *disk, int depth)
{
	slow_disk_set(disk, "power", 0);
	/* A scheduler has requests of its own. */
	slow_disk_set(disk, "no_sched", 1);
	slow_disk_set(disk, "hw_queue_depth", depth);
	slow_disk_set(disk, "power", 1);
}

void slow_disk_fail(const struct slow_disk *disk, unsigned long first, unsigned long last, bool on)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), "%s/badblocks", disk->config);
	snprintf(text, sizeof(text), "%c%lu-%lu", on ? '+' : '-', first, last);
	write_file(path, text);
}

#define BLOCK		4096

void swap_on(const char *node, int size_mb)
{
	static char page[BLOCK];
	__u32 *header = (__u32 *)(page + 1024);
	int fd;

	header[0] = 1;
	header[1] = (size_mb << 20) / BLOCK - 1;
	memcpy(page + sizeof(page) - 10, "SWAPSPACE2", 10);
	fd = open(node, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, page, sizeof(page), 0) != sizeof(page) || fsync(fd))
		psi_die("%s: %s", node, strerror(errno));
	close(fd);
	if (swapon(node, 0))
		psi_die("swapon %s: %s", node, strerror(errno));
}

#define READ_SPAN	(32 << 20)

/* What the current task spent awake so far. */
static __u64 awake_ns(void)
{
	struct task_clock tc;

	task_clock_read(getpid(), &tc);
	return tc.run + tc.irq + tc.wait;
}

/* Each block is far from the last one: there is no readahead. */
static void read_until(const struct reader *reader, int fd, void *buf, __u64 end)
{
	static off_t pos;

	while (now_ns() < end) {
		if (pread(fd, buf, BLOCK, pos) != BLOCK)
			psi_die("%s: %s", reader->node, strerror(errno));
		pos = (pos + 16 * BLOCK) % READ_SPAN;
	}
}

void read_blocks(void *arg)
{
	struct reader *reader = arg;
	struct psi before, after;
	__u64 start, awake;
	void *buf;
	int fd;

	buf = aligned_alloc(BLOCK, BLOCK);
	fd = open(reader->node, O_RDONLY | O_CLOEXEC | reader->flags);
	if (!buf || fd < 0)
		psi_die("%s: %s", reader->node, strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	read_until(reader, fd, buf, reader->begin);
	/* Its own sleep, for the mutex of taskstats, is not to be in the time between. */
	awake = awake_ns();
	start = now_ns();
	psi_read(PSI_IO, &before);
	read_until(reader, fd, buf, reader->end);
	psi_read(PSI_IO, &after);
	reader->elapsed = now_ns() - start;
	reader->asleep = reader->elapsed - (awake_ns() - awake);
	reader->some = (after.some.total - before.some.total) * NSEC_PER_USEC;
	reader->full = (after.full.total - before.full.total) * NSEC_PER_USEC;
}

/* ---- Nothing leaked ---- */

void quiet_measure(struct quiet *quiet, __u64 ns)
{
	__u64 cpu = psi_some_ns(PSI_CPU);
	__u64 io = psi_some_ns(PSI_IO);
	__u64 memory = psi_some_ns(PSI_MEMORY);
	struct cpu_clock before, after;

	cpu_clock_read(-1, &before);
	sleep_for(ns);
	cpu_clock_read(-1, &after);
	quiet->cpu_wait = after.wait - before.wait;
	quiet->memory = psi_some_ns(PSI_MEMORY) - memory;
	quiet->io = psi_some_ns(PSI_IO) - io;
	quiet->cpu = psi_some_ns(PSI_CPU) - cpu;
}
