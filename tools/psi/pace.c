// SPDX-License-Identifier: GPL-2.0
/*
 * pressure pace: a jobserver of GNU make whose tokens follow pressure.
 *
 * A jobserver is a pipe with a byte, the token, for each job beyond the first.
 * make, cargo or ninja takes one to start a job and puts it back at its end.
 * So whoever takes tokens away slows all of a build down, however many
 * programs it has:
 *
 *	jobs = 1 + in the pipe + in use by the build + held here
 *
 * Pressure above a level takes tokens, pressure of less than half of it gives
 * some back, and in between nothing changes.  A job has not shown yet what it
 * needs when the next one starts, so a build begins with one job, and gets more
 * only once it uses all it has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pressure.h"

#define TOKEN		'+'
#define JOBS_MAX	4096	/* a pipe holds so many tokens at least */
#define JOBS_PER_CPU	4
#define URGENT		(-10)	/* nice: a build must not win the race for a token */
#define PLACES		2	/* the machine, and the own cgroup */

/**
 * struct pace - a jobserver
 * @directory: of the FIFO; NULL for a pipe
 * @path: of the FIFO
 * @where: what make is told of the FIFO or pipe
 * @tokens: the FIFO or pipe, with a description of its own
 * @jobs: how many there are at most
 * @allowed: how many there may be now
 * @held: tokens that were taken away
 * @braked: pressure was above a level once
 * @level: percent from which on tokens are taken, by resource
 * @place: whose pressure is followed: directory of a cgroup, or "" for the system
 * @nr_places: how many
 * @group: totals at the last look, by place
 * @step: s; between looks
 * @looked: when the last look was
 * @seconds: from the first look to the last one
 * @held_by: how long a resource was above its level, in s
 * @job_seconds: time that jobs took, added up
 */
struct pace {
	char *directory;
	char *path;
	char *where;
	int tokens;
	long jobs;
	long allowed;
	long held;
	bool braked;
	long level[PSI_IRQ];
	char place[PLACES][PATH_MAX];
	int nr_places;
	struct group group[PLACES];
	double step;
	double looked;
	double seconds;
	double held_by[PSI_IRQ];
	double job_seconds;
};

static long unused_tokens(const struct pace *pace)
{
	int count = 0;

	ioctl(pace->tokens, FIONREAD, &count);
	return count;
}

static long running_jobs(const struct pace *pace)
{
	return pace->jobs - pace->held - unused_tokens(pace);
}

static void give_tokens(struct pace *pace)
{
	char token = TOKEN;

	while (pace->held > pace->jobs - pace->allowed && write(pace->tokens, &token, 1) == 1)
		pace->held--;
}

static void take_tokens(struct pace *pace)
{
	char token;

	while (pace->held < pace->jobs - pace->allowed && read(pace->tokens, &token, 1) == 1)
		pace->held++;
}

static void remove_tokens(struct pace *pace)
{
	if (pace->directory) {
		unlink(pace->path);
		rmdir(pace->directory);
	}
	free(pace->path);
	free(pace->directory);
	free(pace->where);
}

static void make_fifo(struct pace *pace)
{
	const char *top = getenv("TMPDIR");

	/* What reads MAKEFLAGS takes its words apart, each in a way of its own. */
	if (!top || top[strcspn(top, " \t\n\\$#'\"")])
		top = "/tmp";
	pace->directory = text_of("%s/pressure-pace.XXXXXX", top);
	if (!mkdtemp(pace->directory))
		die("%s: %s", pace->directory, strerror(errno));
	pace->path = text_of("%s/jobs", pace->directory);
	pace->tokens = mkfifo(pace->path, 0600) ? -1 :
		       open(pace->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (pace->tokens < 0)
		die("%s: %s", pace->path, strerror(errno));
	pace->where = text_of("fifo:%s", pace->path);
}

static void make_pipe(struct pace *pace)
{
	char *path;
	int ends[2];

	/* The command inherits both ends. */
	if (pipe2(ends, 0))
		die("cannot make a pipe: %s", strerror(errno));
	/* make changes whether the description of its end blocks: have another one. */
	path = text_of("/proc/self/fd/%d", ends[0]);
	pace->tokens = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (pace->tokens < 0)
		die("%s: %s", path, strerror(errno));
	free(path);
	pace->where = text_of("%d,%d", ends[0], ends[1]);
}

/* make 4.4 is the first one that opens a FIFO; those before get descriptors. */
static bool make_is_old(void)
{
	FILE *version = popen("make --version 2>/dev/null", "re");
	int major = 0, minor = 0;

	if (!version)
		return false;
	if (fscanf(version, "GNU Make %d.%d", &major, &minor) != 2)
		major = INT_MAX;
	while (fgetc(version) != EOF)
		;
	pclose(version);
	return major < 4 || (major == 4 && minor < 4);
}

static bool is_ninja(const char *command)
{
	return !strcmp(basename(command), "ninja");
}

/* ninja follows a FIFO only. */
static void make_tokens(struct pace *pace, const char *style, const char *command)
{
	if (style ? !strcmp(style, "fifo") : is_ninja(command) || !make_is_old())
		make_fifo(pace);
	else
		make_pipe(pace);
}

/* Tell make, and what follows its protocol, where the tokens are. */
static void set_flags(const struct pace *pace)
{
	const char *old = getenv("MAKEFLAGS") ?: "", *variables = strstr(old, " -- ");
	char *flags = text_of("%.*s -j%ld --jobserver-auth=%s%s",
			      (int)(variables ? variables - old : (ptrdiff_t)strlen(old)), old,
			      pace->jobs, pace->where, variables ?: "");

	setenv("MAKEFLAGS", flags, 1);
	setenv("CARGO_MAKEFLAGS", flags, 1);
	free(flags);
}

/*
 * True for -j and --jobs, also in a cluster of letters such as -kj4. What follows
 * one of the letters @with_argument is the argument of that.
 */
static bool sets_jobs(const char *word, const char *with_argument)
{
	if (word[0] != '-')
		return false;
	if (word[1] == '-')
		return !strcmp(word, "--jobs") || !strncmp(word, "--jobs=", 7);
	for (word++; *word && *word != 'j'; word++)
		if (strchr(with_argument, *word))
			return false;
	return *word;
}

/* With -j of its own, make or ninja is its own jobserver. */
static void refuse_jobs(char **command)
{
	const char *name = basename(*command);
	bool ninja = is_ninja(*command);

	if (strcmp(name, "make") && strcmp(name, "gmake") && !ninja)
		return;
	while (*++command)
		if (sets_jobs(*command, ninja ? "Cdfkltw" : "CEIOWflo"))
			die("leave out %s, with which %s paces itself; --jobs says how many "
			    "there are at most", *command, name);
}

static void look(struct pace *pace, double percent[PSI_IRQ])
{
	for (int i = 0; i < pace->nr_places; i++) {
		struct group new = { 0 };
		struct load load;

		/* A cgroup that is gone has no pressure. */
		if (!read_group(&new, *pace->place[i] ? pace->place[i] : NULL))
			continue;
		load_make(&load, &pace->group[i], &new);
		pace->group[i] = new;
		for (int resource = 0; resource < PSI_IRQ; resource++)
			percent[resource] = fmax(percent[resource], main_percent(&load, resource));
	}
}

/* Fewer jobs: memory that is short gets shorter with each of them. */
static void brake(struct pace *pace, bool memory)
{
	long running = running_jobs(pace);

	if (running < pace->allowed)
		pace->allowed = running;
	pace->allowed -= memory ? (pace->allowed + 1) / 2 : pace->allowed / 4 + 1;
	if (pace->allowed < 1)
		pace->allowed = 1;
	pace->braked = true;
}

static void take_step(struct pace *pace)
{
	double percent[PSI_IRQ] = { 0 }, passed = now() - pace->looked;
	bool over = false, under = true;

	look(pace, percent);
	pace->looked += passed;
	pace->seconds += passed;
	pace->job_seconds += passed * running_jobs(pace);
	for (int resource = 0; resource < PSI_IRQ; resource++) {
		bool above = percent[resource] >= pace->level[resource];

		pace->held_by[resource] += above ? passed : 0;
		over |= above;
		under &= percent[resource] < pace->level[resource] / 2.0;
	}
	if (over)
		brake(pace, percent[PSI_MEMORY] >= pace->level[PSI_MEMORY]);
	else if (under && pace->allowed < pace->jobs && !unused_tokens(pace))
		pace->allowed += pace->braked ? 1 : pace->allowed / 4 + 1;
	if (pace->allowed > pace->jobs)
		pace->allowed = pace->jobs;
	give_tokens(pace);
	take_tokens(pace);
	progress("%ld tokens of %ld in use; cpu %.0f %%, memory %.0f %%, io %.0f %%",
		 running_jobs(pace) - 1, pace->allowed - 1, percent[PSI_CPU], percent[PSI_MEMORY],
		 percent[PSI_IO]);
}

static int serve(struct pace *pace, pid_t pid, int signals)
{
	struct pollfd fds[3] = { { .fd = pid_fd(pid), .events = POLLIN },
				 { .fd = signals, .events = POLLIN },
				 { .events = POLLIN } };
	double next = pace->looked + pace->step, left;
	struct signalfd_siginfo info;
	int status = NOT_RUN;

	while (fds[0].fd >= 0 && !fds[0].revents) {
		left = next - now();
		/* Tokens that jobs put back, as long as there are too many jobs. */
		fds[2].fd = pace->held < pace->jobs - pace->allowed ? pace->tokens : -1;
		if (poll(fds, 3, poll_ms(left)) < 0)
			continue;
		if (fds[1].revents && read(signals, &info, sizeof(info)) == sizeof(info))
			kill(pid, info.ssi_signo);
		take_tokens(pace);
		if (now() >= next) {
			take_step(pace);
			next = now() + pace->step;
		}
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	progress_end();
	return status_of(status);
}

static void fill_report(struct report *report, const struct pace *pace, double seconds, int status)
{
	/* They are the same where no look found a token in use. */
	double mean = pace->job_seconds > pace->seconds ? pace->job_seconds / pace->seconds : NAN;

	if (isnan(mean))
		report_say(report, "In %.1f s no token was seen in use: it ran one job at a time, "
			   "or it is not paced, as it has a -j of its own or knows no jobserver "
			   "(ninja before 1.13).", seconds);
	else
		report_say(report, "In %.1f s it had %.1f jobs on average, of %ld.", seconds, mean,
			   pace->jobs);
	report_fact(report, "status", FMT_COUNT, status);
	report_fact(report, "seconds", FMT_SECONDS, seconds);
	report_fact(report, "jobs", FMT_COUNT, pace->jobs);
	report_fact(report, "jobs_mean", FMT_PERCENT, mean);
	for (int resource = 0; resource < PSI_IRQ; resource++) {
		const char *name = psi_resource_name(resource);
		char *key = text_of("%s_above_s", name);

		if (pace->held_by[resource] > 0)
			report_say(report, "Pressure of %s was above %ld %% for %.1f s.", name,
				   pace->level[resource], pace->held_by[resource]);
		/* It keeps the pointer. */
		report_fact(report, key, FMT_SECONDS, pace->held_by[resource]);
	}
}

static void choose_places(struct pace *pace, const char *cgroup)
{
	char mount[PATH_MAX];

	if (cgroup) {
		cgroup_find_or_die(pace->place[pace->nr_places++], cgroup);
	} else {
		*pace->place[pace->nr_places++] = 0;
		if (!psi_cgroup_own(pace->place[1], PATH_MAX) &&
		    !psi_cgroup_mount(mount, sizeof(mount)) && strcmp(pace->place[1], mount))
			pace->nr_places++;
	}
	for (int i = 0; i < pace->nr_places; i++)
		if (!read_group(&pace->group[i], *pace->place[i] ? pace->place[i] : NULL) && !i)
			die("no pressure can be read here; 'pressure doctor' tells why");
	pace->step = look_every(&pace->group[0]);
}

static long default_jobs(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) ? sysconf(_SC_NPROCESSORS_ONLN) :
	       JOBS_PER_CPU * CPU_COUNT(&cpus);
}

int verb_pace(int argc, char **argv)
{
	const char *cgroup = NULL, *output = NULL, *style = NULL;
	struct pace pace = { .allowed = 1, .level = { 50, 10, 50 } };
	const struct opt opts[] = {
		{ "jobs", OPT_NUMBER, &pace.jobs, "N", "run at most so many (4 for each CPU)" },
		{ "cpu", OPT_NUMBER, &pace.level[PSI_CPU], "PERCENT",
		  "run fewer at this cpu pressure (50)" },
		{ "memory", OPT_NUMBER, &pace.level[PSI_MEMORY], "PERCENT",
		  "the same for memory (10)" },
		{ "io", OPT_NUMBER, &pace.level[PSI_IO], "PERCENT", "the same for io (50)" },
		{ "cgroup", OPT_TEXT, &cgroup, "CGROUP", "of this cgroup, not of the own one" },
		{ "style", OPT_TEXT, &style, "NAME",
		  "of the jobserver: fifo or pipe (what the build knows)" },
		{ "output", OPT_TEXT, &output, "FILE",
		  "write the report there, not to the standard error" },
		{ 0 }
	};
	char **command = parse_options(argc, argv, opts, "pace [OPTIONS] -- COMMAND");
	struct report report = { 0 };
	double begin;
	FILE *out;
	pid_t pid;
	int status, signals;

	if (!*command)
		die("pace what? For instance: pressure pace -- make");
	if (!pace.jobs)
		pace.jobs = default_jobs();
	if (pace.jobs > JOBS_MAX)
		die("--jobs: at most %d", JOBS_MAX);
	if (style && strcmp(style, "fifo") && strcmp(style, "pipe"))
		die("--style: '%s' is neither fifo nor pipe", style);
	refuse_jobs(command);
	choose_places(&pace, cgroup);
	out = open_or_die(output);
	signals = take_signals(false);
	make_tokens(&pace, style, *command);
	pace.held = pace.jobs - 1;
	set_flags(&pace);
	begin = now();
	pace.looked = begin;
	pid = run_program(command, NULL);
	/* A user may not. */
	setpriority(PRIO_PROCESS, 0, URGENT);
	status = serve(&pace, pid, signals);
	remove_tokens(&pace);
	fill_report(&report, &pace, now() - begin, status);
	report_write(out ? out : stderr, &report);
	if (out)
		close_file(out, output);
	report_free(&report);
	return status;
}
