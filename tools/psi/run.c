// SPDX-License-Identifier: GPL-2.0
/* pressure run: time(1) for stalls. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pressure.h"

#define POINTS		512	/* of the chart: more than it has pixels for */
#define STEP		0.1	/* s; between points, until they are too many */
#define LEAST		0.01	/* s; from one look to the next */
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

/* At most all of the time: totals may be read later than its end. */
static double lost_in(const struct group *from, const struct group *to, int resource, int class,
		      int kind, double seconds)
{
	double value = lost(from, to, resource, class, kind);

	return value > seconds ? seconds : value;
}

static double lost_most(const struct group *from, const struct group *to, int resource,
			double seconds)
{
	double exact = lost_in(from, to, resource, PSI_EXACT, PSI_SOME, seconds);

	return isnan(exact) ? lost_in(from, to, resource, PSI_PLAIN, PSI_SOME, seconds) : exact;
}

static void say_lost(struct report *report, const struct group *from, const struct group *to,
		     double seconds)
{
	char *text = text_of("%s", "");
	int named = 0, digits = seconds < 1 ? 3 : 2;

	for (int resource = 0; resource < PSI_IRQ; resource++) {
		double some = lost_most(from, to, resource, seconds);
		char *longer;

		if (isnan(some) || some < fmin(0.01, seconds / 100) || some < seconds / 1000)
			continue;
		longer = text_of("%s%s%.*f s (%.0f %%) waiting for %s", text,
				 named++ ? ", " : "", digits, some, 100 * some / seconds,
				 psi_resource_name(resource));
		free(text);
		text = longer;
	}
	if (named)
		report_say(report, "Of %.*f s, it lost %s.", digits, seconds, text);
	else
		report_say(report,
			   "Of %.*f s, it lost nothing by waiting for cpu, memory or io.",
			   digits, seconds);
	free(text);
}

/* What a limit held of @some, in s, as other files tell; NAN where these do not, either. */
static double infer_limit(const struct loads *loads, int resource, double some, double seconds)
{
	double share;

	/* The last one is the cgroup itself. */
	if (!loads || !loads->count)
		return NAN;
	free(find_limit(loads, &loads->load[loads->count - 1], resource, &share));
	return isnan(share) ? NAN : fmin(share * seconds, some);
}

/**
 * lost_report() - what was lost between two times
 * @report: where it is added
 * @from: totals at the beginning
 * @to: totals at the end
 * @seconds: between them, without what pressure itself waited
 * @limits: of a cgroup and all that contain it, to infer limits from; or NULL
 */
void lost_report(struct report *report, const struct group *from, const struct group *to,
		 double seconds, const struct loads *limits)
{
	bool told = to->totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME], inferred = false;
	struct table *table;

	say_lost(report, from, to, seconds);
	report_fact(report, "seconds", FMT_SECONDS, seconds);
	table = report_table(report, "lost", NULL, lost_columns, ARRAY_SIZE(lost_columns));
	for (int resource = 0; resource < PSI_IRQ; resource++) {
		struct cell *cell = table_row(table);

		cell[0].text = text_of("%s", psi_resource_name(resource));
		cell[1].number = lost_in(from, to, resource, PSI_PLAIN, PSI_SOME, seconds);
		cell[2].number = lost_in(from, to, resource, PSI_PLAIN, PSI_FULL, seconds);
		cell[3].number = 100 * lost_most(from, to, resource, seconds) / seconds;
		cell[4].number = lost_in(from, to, resource, PSI_EXACT, PSI_SOME, seconds);
		cell[5].number = lost_in(from, to, resource, PSI_LIMIT, PSI_SOME, seconds);
		cell[6].number = lost_in(from, to, resource, PSI_SHORTAGE, PSI_SOME, seconds);
		if (told)
			continue;
		cell[5].number = infer_limit(limits, resource, cell[1].number, seconds);
		cell[6].number = cell[1].number - cell[5].number;
		inferred |= !isnan(cell[5].number);
	}
	if (told || inferred)
		report_fact_text(report, "limit_from", told ? "kernel" : "inferred");
	else
		report_fact(report, "limit_from", FMT_COUNT, NAN);
	if (inferred)
		note_inferred(report, "cpu.stat, memory.events and io.stat");
}

/* Twice the step: two points become one. */
static void halve(struct series *series)
{
	for (int i = 0; i < series->count / 2; i++) {
		const struct point *a = &series->point[2 * i], *b = a + 1;
		struct point *to = &series->point[i];

		for (int of = 0; of < PSI_RESOURCES; of++) {
			to->some[of] = (a->some[of] + b->some[of]) / 2;
			to->limit[of] = (a->limit[of] + b->limit[of]) / 2;
			to->shortage[of] = (a->shortage[of] + b->shortage[of]) / 2;
		}
	}
	series->count /= 2;
	series->step *= 2;
}

static void draw(struct series *series, const struct group *from, const struct group *to)
{
	struct point *point = &series->point[series->count++];
	struct load load;

	load_make(&load, from, to);
	for (int resource = 0; resource < PSI_RESOURCES; resource++) {
		point->some[resource] = main_percent(&load, resource);
		point->limit[resource] = load.percent[resource][PSI_LIMIT][PSI_SOME];
		point->shortage[resource] = load.percent[resource][PSI_SHORTAGE][PSI_SOME];
	}
}

/* The last step is not a whole one; older kernels add up what belongs to it afterwards. */
static void draw_end(struct series *series, struct group last, double end)
{
	series->seconds = end - series->begin;
	last.time = end;
	if (last.time > series->last.time)
		draw(series, &series->last, &last);
}

static void add_point(struct series *series, const char *cgroup)
{
	struct group group = { 0 };

	if (!read_group(&group, cgroup))
		return;
	/* One stays free for the end, and one as pairs become points. */
	if (series->count >= POINTS - 2)
		halve(series);
	draw(series, &series->last, &group);
	series->last = group;
}

/* What ends this program shall end the command: hand it on to all of it. */
static void pass_signal(int signals, pid_t pid, const char *cgroup)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (!cgroup_signal(cgroup, info.ssi_signo))
		kill(pid, info.ssi_signo);
}

/*
 * Follow a process to its end; its wait status.  Looks keep limit and shortage
 * computed, too.
 */
static int follow(pid_t pid, int signals, struct alone *alone, struct series *series, bool chart)
{
	struct pollfd fds[2] = { { .fd = pid_fd(pid), .events = POLLIN },
				 { .fd = signals, .events = POLLIN } };
	double next = series->begin + series->step;
	int status = NOT_RUN;

	while (fds[0].fd >= 0) {
		double due = alone_step(alone), left = (chart ? fmin(due, next) : due) - now();

		/* Files that are gone stay due. */
		if (poll(fds, 2, poll_ms(fmax(left, LEAST))) < 0 && errno != EINTR)
			break;
		if (fds[0].revents)
			break;
		if (fds[1].revents)
			pass_signal(signals, pid, alone->cgroup);
		else if (chart && now() >= next)
			add_point(series, alone->cgroup);
		next = series->last.time + series->step;
	}
	if (fds[0].fd >= 0)
		close(fds[0].fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
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
	give_signals();
	execvp(words[0], (char **)words);
	free(words);
}

static void make_cgroup(char *cgroup, char **argv)
{
	int error = cgroup_make(cgroup, PATH_MAX, "pressure-run");

	if (error == -EACCES || error == -EPERM || error == -EROFS)
		run_in_scope(argv);
	if (error == -EACCES || error == -EPERM)
		die("cannot make a cgroup (%s): run as root, or log in by systemd",
		    strerror(-error));
	if (error)
		die("cannot make a cgroup: %s", explain(error));
}

static void finish(struct report *report, struct alone *alone, const struct group *first,
		   struct series *series, const struct snapshot *from)
{
	const char *cgroup = alone->cgroup;
	struct group last = { 0 };
	struct snapshot to = { 0 };
	struct loads limits;
	bool stat = first->totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME], left;
	double end;

	alone_end(alone);
	end = alone->end.time;
	left = cgroup_populated(cgroup);
	if (!stat) {
		snapshot_climb(&to, cgroup);
		sleep_with_progress(PERIOD, "waiting for the kernel's totals");
	}
	loads_make(&limits, from, &to);
	if (!read_group(&last, cgroup)) {
		complain("what the command lost is not known: %s has no pressure files any more",
			 cgroup);
		return;
	}
	lost_report(report, first, &last, end - series->begin, &limits);
	free(limits.load);
	snapshot_free(&to);
	alone_report(alone, report, &last);
	draw_end(series, last, end);
	causes_report(report, cgroup, NULL);
	note_missing(report, stat);
	if (left && !stat)
		report_note(report, "it left processes: what they lost in the next %.1f s counts",
			    PERIOD);
}

static char *join(char **words)
{
	char *text = text_of("%s", *words);

	while (*++words) {
		char *longer = text_of("%s %s", text, *words);

		free(text);
		text = longer;
	}
	return text;
}

int verb_run(int argc, char **argv)
{
	const char *html = NULL, *output = NULL;
	const struct opt opts[] = {
		{ "html", OPT_TEXT, &html, "FILE", "also draw the report: one page for a browser" },
		{ "output", OPT_TEXT, &output, "FILE",
		  "write the report there, not to the standard error" },
		{ 0 }
	};
	char **command =
		parse_options(argc, argv, opts, "run [--html FILE] [--output FILE] -- COMMAND");
	struct series series = { .step = STEP };
	struct report report = { 0 };
	struct group first = { 0 };
	struct snapshot from = { 0 };
	struct alone alone;
	FILE *page, *out;
	char cgroup[PATH_MAX], *title;
	int status, signals;
	pid_t pid;

	if (!*command)
		die("run what? For instance: pressure run -- make");
	page = open_or_die(html);
	out = open_or_die(output);
	series.point = checked(calloc(POINTS, sizeof(*series.point)));
	signals = take_signals(false);
	make_cgroup(cgroup, argv);
	/* The command may start another one, elsewhere. */
	unsetenv(IN_SCOPE);
	if (!read_group(&first, cgroup)) {
		cgroup_remove(cgroup, false);
		die("cgroups have no pressure files; 'pressure doctor' tells why");
	}
	if (!first.totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME]) {
		series.step = PERIOD;
		snapshot_climb(&from, cgroup);
	}
	series.last = first;
	alone_begin(&alone, cgroup, &first);
	series.begin = alone.begin;
	pid = run_program(command, cgroup);
	status = status_of(follow(pid, signals, &alone, &series, html));
	title = join(command);
	report_fact_text(&report, "command", title);
	report_fact(&report, "status", FMT_COUNT, status);
	finish(&report, &alone, &first, &series, &from);
	snapshot_free(&from);
	/* A reader of the report may be slow. */
	cgroup_remove(cgroup, false);
	report_write(out ? out : stderr, &report);
	if (out)
		close_file(out, output);
	if (page) {
		report_html(page, &report, title, &series);
		close_file(page, html);
	}
	free(title);
	report_free(&report);
	free(series.point);
	return status;
}
