// SPDX-License-Identifier: GPL-2.0
/* pressure run: time(1) for stalls. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pressure.h"

#define POINTS		512	/* of the chart: more than it has pixels for */
#define STEP		0.1	/* s; between points, until they are too many */
#define PERIOD		2.1	/* s; after which older kernels have added everything up */
#define IN_SCOPE	"PRESSURE_IN_SCOPE"

static const struct column lost_columns[] = {
	{ "resource", "", FMT_TEXT, 0 },
	{ "some_s", "some s", FMT_SECONDS, 0 },
	{ "full_s", "full s", FMT_SECONDS, 0 },
	{ "some_pct", "% of time", FMT_PERCENT, 0 },
	{ "exact_some_s", "exact s", FMT_SECONDS, 2 },
	{ "limit_some_s", "limit s", FMT_SECONDS, 1 },
	{ "shortage_some_s", "shortage s", FMT_SECONDS, 1 },
};

static double lost(const struct group *from, const struct group *to, int resource, int class,
		   int kind)
{
	const struct totals *old = &from->totals[resource], *new = &to->totals[resource];

	if (!new->known[class][kind])
		return NAN;
	return ((double)new->us[class][kind] - (double)old->us[class][kind]) / 1e6;
}

static double lost_most(const struct group *from, const struct group *to, int resource)
{
	double exact = lost(from, to, resource, PSI_EXACT, PSI_SOME);

	return isnan(exact) ? lost(from, to, resource, PSI_PLAIN, PSI_SOME) : exact;
}

static void say_lost(struct report *report, const struct group *from, const struct group *to,
		     double seconds)
{
	char *text = text_of("%s", "");
	int named = 0;

	for (int resource = 0; resource < PSI_IRQ; resource++) {
		double some = lost_most(from, to, resource);
		char *longer;

		if (isnan(some) || some < 0.01 || some < seconds / 1000)
			continue;
		longer = text_of("%s%s%.2f s (%.0f %%) waiting for %s", text,
				 named++ ? ", " : "", some, 100 * some / seconds,
				 psi_resource_name(resource));
		free(text);
		text = longer;
	}
	if (named)
		report_say(report, "Of %.2f s, it lost %s.", seconds, text);
	else
		report_say(report,
			   "Of %.2f s, it lost nothing by waiting for cpu, memory or io.",
			   seconds);
	free(text);
}

/**
 * lost_report() - what was lost between two times
 * @report: where it is added
 * @from: totals at the beginning
 * @to: totals at the end
 * @seconds: between them, without what pressure itself waited
 */
void lost_report(struct report *report, const struct group *from, const struct group *to,
		 double seconds)
{
	struct table *table;

	say_lost(report, from, to, seconds);
	report_fact(report, "seconds", FMT_SECONDS, seconds);
	table = report_table(report, "lost", NULL, lost_columns, ARRAY_SIZE(lost_columns));
	for (int resource = 0; resource < PSI_IRQ; resource++) {
		struct cell *cell = table_row(table);

		cell[0].text = text_of("%s", psi_resource_name(resource));
		cell[1].number = lost(from, to, resource, PSI_PLAIN, PSI_SOME);
		cell[2].number = lost(from, to, resource, PSI_PLAIN, PSI_FULL);
		cell[3].number = 100 * lost_most(from, to, resource) / seconds;
		cell[4].number = lost(from, to, resource, PSI_EXACT, PSI_SOME);
		cell[5].number = lost(from, to, resource, PSI_LIMIT, PSI_SOME);
		cell[6].number = lost(from, to, resource, PSI_SHORTAGE, PSI_SOME);
	}
}

/* Twice the step: two points become one. */
static void halve(struct series *series)
{
	for (int i = 0; i < POINTS / 2; i++)
		for (int resource = 0; resource < PSI_RESOURCES; resource++)
			series->percent[i][resource] = (series->percent[2 * i][resource] +
							series->percent[2 * i + 1][resource]) / 2;
	series->count = POINTS / 2;
	series->step *= 2;
}

static void add_point(struct series *series, struct group *last, const char *cgroup)
{
	struct group group = { 0 };
	struct load load;

	if (!read_group(&group, cgroup))
		return;
	load_make(&load, last, &group);
	*last = group;
	if (series->count == POINTS)
		halve(series);
	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		series->percent[series->count][resource] = main_percent(&load, resource);
	series->count++;
}

/* Follow a process to its end; its wait status. Without a chart nothing is read meanwhile. */
static int follow(pid_t pid, const char *cgroup, struct group first, struct series *series)
{
	struct pollfd end = { .fd = syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	int status;

	while (series && end.fd >= 0) {
		double left = first.time + series->step - now();

		if (poll(&end, 1, left > 0 ? left * 1000 + 1 : 0) > 0)
			break;
		if (now() >= first.time + series->step)
			add_point(series, &first, cgroup);
	}
	if (end.fd >= 0)
		close(end.fd);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("cannot wait for the program: %s", strerror(errno));
	return status;
}

static void push(const char ***words, size_t *count, const char *word)
{
	*words = grow(*words, *count, sizeof(**words));
	(*words)[(*count)++] = word;
}

/* Start again, in a cgroup that systemd delegates. */
static void run_in_scope(char **argv)
{
	static const char * const start[] = {
		"systemd-run", "--quiet", "--user", "--scope", "-p", "Delegate=yes", "--"
	};
	const char **words = NULL, *runtime = getenv("XDG_RUNTIME_DIR");
	char self[PATH_MAX];
	size_t count = 0;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (getenv(IN_SCOPE) || !geteuid() || length < 0 || !runtime || !exists("%s/bus", runtime))
		return;
	self[length] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(start); i++)
		push(&words, &count, start[i]);
	push(&words, &count, self);
	while (*argv)
		push(&words, &count, *argv++);
	push(&words, &count, NULL);
	setenv(IN_SCOPE, "1", 1);
	execvp(words[0], (char **)words);
	free(words);
}

static void make_cgroup(char *cgroup, char **argv)
{
	int error = cgroup_make(cgroup, PATH_MAX, "pressure-run");

	if (error == -EACCES || error == -EPERM || error == -EROFS)
		run_in_scope(argv);
	if (error)
		die("cannot make a cgroup (%s): run as root, or log in by systemd",
		    explain(error));
}

static void write_report(const struct report *report, const char *path)
{
	FILE *out = path ? fopen(path, "we") : stderr;

	if (!out)
		die("%s: %s", path, strerror(errno));
	report_print(out, report);
	if (path && fclose(out))
		die("%s: %s", path, strerror(errno));
}

/* What a run was too short for: one point, its mean. */
static void draw_mean(struct series *series, const struct group *first, struct group last,
		      double seconds)
{
	struct load load;

	last.time = first->time + seconds;
	load_make(&load, first, &last);
	for (int resource = 0; resource < PSI_RESOURCES; resource++)
		series->percent[0][resource] = main_percent(&load, resource);
	series->count = 1;
	series->step = seconds;
}

static void finish(struct report *report, const char *cgroup, const struct group *first,
		   double begin, struct series *series)
{
	double end = now();
	struct group last = { 0 };
	bool stat = first->totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME];

	if (!stat)
		sleep_with_progress(PERIOD, "waiting for the kernel's totals");
	if (!read_group(&last, cgroup))
		die("%s has no pressure files; 'pressure doctor' tells why", cgroup);
	lost_report(report, first, &last, end - begin);
	if (!series->count)
		draw_mean(series, first, last, end - begin);
	causes_report(report, cgroup, NULL);
	note_missing(report, stat);
}

int verb_run(int argc, char **argv)
{
	const char *html = NULL, *output = NULL;
	const struct opt opts[] = {
		{ "html", OPT_TEXT, &html, "FILE", "draw it: one page that needs nothing else" },
		{ "output", OPT_TEXT, &output, "FILE", "write the report there, not to stderr" },
		{ 0 }
	};
	char **command =
		parse_options(argc, argv, opts, "run [--html FILE] [--output FILE] -- COMMAND");
	struct series series = { .percent = calloc(POINTS, sizeof(*series.percent)) };
	struct report report = { 0 };
	struct group first = { 0 };
	char cgroup[PATH_MAX];
	double begin;
	int status;
	pid_t pid;

	if (!*command)
		die("run what? For instance: pressure run -- make");
	if (!series.percent)
		die("out of memory");
	make_cgroup(cgroup, argv);
	if (!read_group(&first, cgroup)) {
		cgroup_remove(cgroup, false);
		die("cgroups have no pressure files; 'pressure doctor' tells why");
	}
	series.step = first.totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME] ? STEP : PERIOD;
	begin = now();
	pid = run_program(command, cgroup);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	status = status_of(follow(pid, cgroup, first, html ? &series : NULL));
	report_fact_text(&report, "command", *command);
	report_fact(&report, "status", FMT_COUNT, status);
	finish(&report, cgroup, &first, begin, &series);
	cgroup_remove(cgroup, false);
	write_report(&report, output);
	if (html && report_html(html, &report, *command, &series))
		die("%s: %s", html, strerror(errno));
	report_free(&report);
	free(series.percent);
	return status;
}
