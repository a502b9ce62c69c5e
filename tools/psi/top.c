// SPDX-License-Identifier: GPL-2.0
/* pressure top: cgroups live, worst first. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "pressure.h"

#define HISTORY		10	/* points of the sparkline */
#define ROWS_PLAIN	16	/* without a terminal, or where its size is not known */
#define AROUND		8	/* lines of the screen that are no rows */

static const struct column columns[] = {
	{ "cgroup", "cgroup", FMT_NAME, 0 },
	{ "cpu_some_pct", "cpu %", FMT_PERCENT, 0 },
	{ "memory_some_pct", "mem %", FMT_PERCENT, 0 },
	{ "io_some_pct", "io %", FMT_PERCENT, 0 },
	{ "worst", "worst", FMT_TEXT, 4 },
	{ "own_pct", "own %", FMT_PERCENT, 3 },
	{ "others_pct", "others %", FMT_PERCENT, 3 },
	{ "limit_pct", "limit %", FMT_PERCENT, 3 },
	{ "history", "history", FMT_SPARK, 2 },
};

struct history {
	char *name;
	double percent[HISTORY];
};

struct histories {
	struct history *history;
	int count;
};

static struct termios saved;
static volatile sig_atomic_t over, stopped;

static void note_signal(int signal)
{
	*(signal == SIGTSTP ? &stopped : &over) = 1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct history *)a)->name, ((const struct history *)b)->name);
}

static const struct history *find(const struct histories *all, const char *name)
{
	struct history key = { .name = (char *)name };

	return all->count ? bsearch(&key, all->history, all->count, sizeof(key), by_name) : NULL;
}

/* Loads are sorted by name, and so are histories. */
static void remember(struct histories *all, const struct loads *loads)
{
	struct histories next = { 0 };

	for (int i = 0; i < loads->count; i++) {
		const struct history *old = find(all, loads->load[i].name);
		struct history *new;

		next.history = grow(next.history, next.count, sizeof(*new));
		new = &next.history[next.count++];
		new->name = text_of("%s", loads->load[i].name);
		if (old)
			memcpy(new->percent, old->percent + 1, (HISTORY - 1) * sizeof(double));
		new->percent[HISTORY - 1] = worst_percent(&loads->load[i]);
	}
	for (int i = 0; i < all->count; i++)
		free(all->history[i].name);
	free(all->history);
	*all = next;
}

static double at_least_0(double value)
{
	return value > 0 ? value : 0;
}

/*
 * Where the stall of the worst resource comes from.  A task that waits for a
 * CPU while another one of its cgroup runs waits for its own; full is when
 * none of it runs: then others have the CPU, or a limit holds it.  Of memory
 * and io, what is no limit is a shortage, to which all contribute.
 */
static void split(struct cell *own, const struct load *load)
{
	int resource = worst_resource(load);
	const double (*percent)[PSI_KINDS] = load->percent[resource];
	double some = percent_of(load, resource, PSI_SOME);
	double full = percent_of(load, resource, PSI_FULL);
	double limit = percent[PSI_LIMIT][PSI_SOME];

	if (resource == PSI_CPU) {
		own[0].number = at_least_0(some - fmax(full, isnan(limit) ? 0 : limit));
		own[1].number = at_least_0(some - own[0].number - (isnan(limit) ? 0 : limit));
	} else if (resource != PSI_IRQ) {
		own[1].number = percent[PSI_SHORTAGE][PSI_SOME];
	}
	own[2].number = limit;
}

static void fill(struct table *table, const struct loads *loads,
		 const struct histories *histories, int rows)
{
	const struct load **rank;
	int count = loads_rank(loads, &rank);

	for (int i = 0; i < count && (!rows || i < rows); i++) {
		struct cell *cell = table_row(table);

		cell[0].text = text_of("%s", rank[i]->name);
		for (int resource = 0; resource < PSI_IRQ; resource++)
			cell[1 + resource].number = percent_of(rank[i], resource, PSI_SOME);
		cell[4].text = text_of("%s", worst_percent(rank[i]) < 0.05 ? "" :
				       psi_resource_name(worst_resource(rank[i])));
		split(&cell[5], rank[i]);
		cell[8].text = spark(find(histories, rank[i]->name)->percent, HISTORY);
	}
	free(rank);
}

/* With @recorded, what is shown is not of now. */
static void show(const struct loads *loads, const struct histories *histories, bool stat,
		 bool screen, const struct snapshot *recorded)
{
	struct winsize size = { 0 };
	struct report report = { 0 };
	struct table *table;
	int rows = ROWS_PLAIN;

	/* A serial console has 0 by 0. */
	if (screen && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row)
		rows = size.ws_row > AROUND + 1 ? size.ws_row - AROUND : 1;
	if (loads->count && !*loads->load[0].name)
		report_say(&report,
			   "The machine: cpu %.1f %%, memory %.1f %%, io %.1f %%%s",
			   main_percent(&loads->load[0], PSI_CPU),
			   main_percent(&loads->load[0], PSI_MEMORY),
			   main_percent(&loads->load[0], PSI_IO), screen ? "  (q quits)" : "");
	table = report_table(&report, "cgroups",
			     "own, others, limit: where the worst resource's stall comes from",
			     columns, ARRAY_SIZE(columns));
	fill(table, loads, histories, opt_json ? 0 : rows);
	if (recorded)
		note_record(&report, recorded);
	else if (!screen || opt_json)
		note_missing(&report, stat);
	else if (!stat)
		report_note(&report, "limits are not known to this kernel: they count as others");
	if (screen)
		printf("\033[H\033[J");
	report_print(stdout, &report);
	report_free(&report);
}

static void leave_screen(void)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	printf("\033[?1049l\033[?25h");
	fflush(stdout);
}

static void draw_screen(void)
{
	struct termios raw = saved;

	raw.c_lflag &= ~(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	printf("\033[?1049h\033[?25l\033[H\033[Jmeasuring...");
	fflush(stdout);
}

static void enter_screen(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGTSTP };

	if (tcgetattr(STDIN_FILENO, &saved))
		return;
	atexit(leave_screen);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &(struct sigaction){ .sa_handler = note_signal }, NULL);
	draw_screen();
}

/* ^Z: the shell gets its screen, and fg brings ours back. */
static void stop(void)
{
	leave_screen();
	raise(SIGSTOP);
	stopped = 0;
	draw_screen();
}

/* Wait; true when somebody wants to quit. */
static bool pause_for(double seconds, bool screen)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	double end = now() + seconds, left;
	char key = 0;

	if (!screen)
		return sleep_with_progress(seconds, "measuring");
	while (!over && (left = end - now()) > 0) {
		if (poll(&input, 1, left * 1000 + 1) > 0 &&
		    (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q'))
			return true;
		if (stopped)
			stop();
	}
	return over;
}

int verb_top(int argc, char **argv)
{
	double interval = 0;
	struct span span = SPAN_NONE;
	long count = 0;
	const struct opt opts[] = {
		{ "interval", OPT_DURATION, &interval, "TIME", "from one look to the next (2s)" },
		{ "count", OPT_NUMBER, &count, "N", "end after N looks (1 without a terminal)" },
		SPAN_OPTS(span),
		{ 0 }
	};
	bool screen;
	struct histories histories = { 0 };
	struct snapshot from, to;

	if (*parse_options(argc, argv, opts, "top [OPTIONS]"))
		die("top takes no arguments; 'pressure top --help' shows how to use it");
	if (span_given(&span) && (interval || count))
		die("--%s: of a record, --since and --until choose the time",
		    interval ? "interval" : "count");
	if (span_given(&span)) {
		struct loads loads;

		span_read(&span, &from, &to);
		loads_make(&loads, &from, &to);
		remember(&histories, &loads);
		show(&loads, &histories, to.stat, false, &to);
		return STATUS_OK;
	}
	screen = !opt_json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	snapshot_take(&from, NULL, true, false);
	if (!from.count)
		die("/proc/pressure/cpu: %s", explain(from.error));
	if (screen)
		enter_screen();
	for (long i = 0; (!count && (screen || opt_json || !i)) || i < count; i++) {
		struct loads loads;

		if (pause_for(measurable(interval ?: 2, from.stat), screen))
			break;
		snapshot_take(&to, NULL, true, false);
		loads_make(&loads, &from, &to);
		remember(&histories, &loads);
		show(&loads, &histories, to.stat, screen, NULL);
		free(loads.load);
		snapshot_free(&from);
		from = to;
	}
	return STATUS_OK;
}
