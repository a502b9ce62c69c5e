// SPDX-License-Identifier: GPL-2.0
/* pressure top: cgroups live, worst first or as asked for. */
#define _GNU_SOURCE
#include <ctype.h>
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
#define INDENT_MAX	8	/* of a tree; what is deeper needs the room for its name */
#define KEYS		"keys: w(orst) c(pu) m(emory) i(o) o(wn, others) l(imit) n(ame) sort, " \
			"t: tree, /: filter, Escape: no filter, h: this line, q: quit"

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
	{ "limit_from", "", FMT_JSON, 0 },
};

struct history {
	char *name;
	double percent[HISTORY];
};

struct histories {
	struct history *history;
	int count;
};

/* The first letter of an order is its key. */
enum { BY_WORST, BY_CPU, BY_MEMORY, BY_IO, BY_OWN, BY_OTHERS, BY_LIMIT, BY_NAME, ORDERS };
static const char * const orders[] = {
	"worst", "cpu", "memory", "io", "own", "others", "limit", "name"
};

/* What is shown, and how; while it is typed, keys are those of the filter. */
static struct {
	int order;
	char filter[PATH_MAX];
	bool tree, typing, help;
} view;

enum part { OWN, OTHERS, LIMIT, PARTS };

/* A cgroup, to be ranked; in a tree, below the nearest ancestor that is there. */
struct row {
	const struct load *load;
	struct judgement judgement;
	double part[PARTS];
	bool inferred;
	struct row *parent;
	int depth;
	bool shown;
	double key;
};

/* A look: loads and histories are both by name. */
struct top {
	struct loads loads;
	struct histories histories;
	bool stat, screen, inferred;
	const struct snapshot *recorded;
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
static void split(struct row *row, const struct loads *loads)
{
	int resource = row->judgement.resource;
	const struct load *load = row->load;
	double some = percent_of(load, resource, PSI_SOME);
	double full = percent_of(load, resource, PSI_FULL), *part = row->part;
	double limit = limit_percent(loads, load, resource, &row->inferred);

	part[OWN] = NAN;
	part[OTHERS] = NAN;
	part[LIMIT] = row->judgement.sure ? limit : NAN;
	if (resource == PSI_CPU && !isnan(full)) {
		part[OWN] = at_least_0(some - fmax(full, isnan(limit) ? 0 : limit));
		part[OTHERS] = at_least_0(some - part[OWN] - (isnan(limit) ? 0 : limit));
	} else if ((resource == PSI_MEMORY || resource == PSI_IO) && row->judgement.sure) {
		part[OTHERS] = row->inferred ? at_least_0(some - limit) :
			       load->percent[resource][PSI_SHORTAGE][PSI_SOME];
	}
}

static struct row *parent_of(const struct top *top, struct row *rows, const char *name)
{
	char *path = text_of("%s", name), *end;
	const struct history *found = NULL;

	while (!found && (end = strrchr(path, '/')) && end[1]) {
		end[end == path] = 0;
		found = find(&top->histories, path);
	}
	free(path);
	return found ? &rows[found - top->histories.history] : NULL;
}

/* What ranks it, the largest first; among equals the worst. */
static double key_of(const struct row *row)
{
	double key = 0;

	if (view.order == BY_NAME)
		return 0;
	if (view.order >= BY_OWN)
		key = row->part[view.order - BY_OWN];
	else if (view.order >= BY_CPU)
		key = percent_of(row->load, view.order - BY_CPU, PSI_SOME);
	/* Totals, in microseconds, resolve less than that. */
	return (isnan(key) ? -1 : key) + worst_percent(row->load) / 1e9;
}

/*
 * In a tree, ancestors that are siblings decide; a cgroup comes before those below
 * it.  Rows are stored by name, which decides among equals.
 */
static int by_order(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;

	for (; x->depth > y->depth; x = x->parent)
		if (x->parent == y)
			return 1;
	for (; y->depth > x->depth; y = y->parent)
		if (y->parent == x)
			return -1;
	for (; x->parent != y->parent; x = x->parent)
		y = y->parent;
	return x->key == y->key ? (x > y) - (x < y) : x->key < y->key ? 1 : -1;
}

/* Those that are shown, in order; returns how many. */
static int rank(const struct top *top, struct row *rows, struct row **ranked)
{
	const struct load *load = top->loads.load;
	int count = 0;

	for (int i = 0; i < top->loads.count; i++) {
		const char *name = load[i].name;
		struct row *row = &rows[i];

		row->load = &load[i];
		row->judgement = judge(&top->loads, row->load);
		split(row, &top->loads);
		row->key = key_of(row);
		row->parent = view.tree ? parent_of(top, rows, name) : NULL;
		row->depth = row->parent ? row->parent->depth + 1 : 0;
		/* The first one is the system. */
		if (!*name || !strcasestr(name, view.filter))
			continue;
		for (; row && !row->shown; row = row->parent) {
			row->shown = true;
			ranked[count++] = row;
		}
	}
	qsort(ranked, count, sizeof(*ranked), by_order);
	return count;
}

/* Returns how many there are without the limit. */
static int fill(struct table *table, struct top *top, int limit)
{
	struct row *rows = checked(calloc(top->loads.count + 1, sizeof(*rows)));
	struct row **ranked = checked(calloc(top->loads.count + 1, sizeof(*ranked)));
	int count = top->loads.count ? rank(top, rows, ranked) : 0;

	for (int i = 0; i < count && (!limit || i < limit); i++) {
		const struct load *load = ranked[i]->load;
		struct cell *cell = table_row(table);
		int depth = ranked[i]->depth;

		cell[0].text = text_of("%*s%s", depth < INDENT_MAX ? depth : INDENT_MAX, "",
				       depth ? strrchr(load->name, '/') + 1 : load->name);
		for (int resource = 0; resource < PSI_IRQ; resource++)
			cell[1 + resource].number = percent_of(load, resource, PSI_SOME);
		cell[4].text = text_of("%s", worst_percent(load) < 0.05 ? "" :
				       judged_name(&ranked[i]->judgement));
		for (int part = 0; part < PARTS; part++)
			cell[5 + part].number = ranked[i]->part[part];
		cell[8].text = spark(top->histories.history[ranked[i] - rows].percent, HISTORY);
		top->inferred |= ranked[i]->inferred;
		if (!isnan(ranked[i]->part[LIMIT]))
			cell[9].text = text_of("%s", ranked[i]->inferred ? "inferred" : "kernel");
	}
	free(ranked);
	free(rows);
	return count;
}

/* The last sentence.  The table has @rows of @count. */
static void say_view(struct report *report, bool screen, int rows, int count)
{
	char part[64] = "";
	const char *filter = view.filter;

	if (rows < count)
		snprintf(part, sizeof(part), ", %d of %d cgroups", rows, count);
	if (view.typing)
		report_say(report, "filter: %s_ (Enter: done, Escape: none)", filter);
	else
		report_say(report, "by %s%s%s%s%s%s%s%s", orders[view.order],
			   view.tree ? ", as a tree" : "", *filter ? ", names with '" : "", filter,
			   *filter ? "'" : "", *filter && !rows ? ": none" : "", part,
			   screen ? " (h: keys, q: quit)" : *part ? " (--json: all)" : "");
}

static int lines_of(const struct report *report)
{
	int lines = 0;
	size_t length;
	char *text;
	FILE *memory = checked(open_memstream(&text, &length));

	report_text(memory, report, screen_width());
	if (fclose(memory))
		die("out of memory");
	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	free(text);
	return lines;
}

/* Without the last rows of @count where a screen of @height lines has no room; 0: not known. */
static void print_fitting(struct report *report, int height, int count)
{
	int *shown = &report->tables->nr_rows, rows = *shown, excess;

	while (height && *shown > 1 && (excess = lines_of(report) + 1 - height) > 0) {
		*shown = *shown > excess ? *shown - excess : 1;
		/* It says how many, and may need a line more. */
		free(report->says[--report->nr_says]);
		say_view(report, true, *shown, count);
	}
	printf("\033[H\033[J");
	report_print(stdout, report);
	*shown = rows;
}

static void say_all(struct report *report, const struct loads *loads)
{
	const char *name;

	if (!loads->count || *loads->load[0].name)
		return;
	name = whose_names[whose_loads(loads)];
	report_say(report, "%c%s: cpu %.1f %%, memory %.1f %%, io %.1f %%", toupper(*name),
		   name + 1, main_percent(&loads->load[0], PSI_CPU),
		   main_percent(&loads->load[0], PSI_MEMORY),
		   main_percent(&loads->load[0], PSI_IO));
}

static void show(struct top *top)
{
	const struct loads *loads = &top->loads;
	struct winsize size = { 0 };
	struct report report = { 0 };
	struct table *table;
	int count;

	/* A serial console has 0 by 0. */
	if (top->screen)
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	say_all(&report, loads);
	table = report_table(&report, "cgroups",
			     "own, others, limit: where the worst resource's stall comes from",
			     columns, ARRAY_SIZE(columns));
	count = fill(table, top, opt_json ? 0 : size.ws_row ?: ROWS_PLAIN);
	if (top->screen && view.help)
		report_say(&report, KEYS);
	if (!opt_json)
		say_view(&report, top->screen, table->nr_rows, count);
	if (top->inferred)
		note_inferred(&report, "cpu.stat, memory.events and io.stat");
	if (top->recorded)
		note_record(&report, top->recorded->groups[0].time);
	else if (!top->screen)
		note_missing(&report, top->stat);
	else if (!top->stat && !top->inferred)
		report_note(&report, "limits are not known to this kernel: they count as others");
	if (top->screen)
		print_fitting(&report, size.ws_row, count);
	else
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

/* Obey a key; true for the one that quits. */
static bool press(unsigned char key)
{
	size_t end = strlen(view.filter);

	if (key == '\033') {
		*view.filter = 0;
		view.typing = false;
	} else if (!view.typing) {
		view.typing = key == '/';
		view.tree ^= key == 't';
		view.help ^= key == 'h' || key == '?';
		/* The next one that begins so. */
		for (int i = ORDERS, old = view.order; i > 0; i--)
			if (*orders[(old + i) % ORDERS] == key)
				view.order = (old + i) % ORDERS;
		return key == 'q';
	} else if (key == '\n' || key == '\r') {
		view.typing = false;
	} else if (key == '\b' || key == 0x7f) {
		/* A character of UTF-8 goes with all its bytes. */
		while (end && (view.filter[--end] & 0xc0) == 0x80)
			;
		view.filter[end] = 0;
	} else if (key >= ' ' && end + 1 < sizeof(view.filter)) {
		view.filter[end] = key;
		view.filter[end + 1] = 0;
	}
	return false;
}

/* True when somebody wants to quit. */
static bool read_keys(void)
{
	char keys[256];
	ssize_t count = read(STDIN_FILENO, keys, sizeof(keys) - 1);

	keys[count > 0 ? count : 0] = 0;
	for (ssize_t i = 0; i < count; i++) {
		/* An arrow, or the like, is no Escape. */
		if (keys[i] == '\033' && keys[i + 1] && strchr("[O", keys[i + 1]))
			for (i += 2; keys[i] && keys[i] < '@'; i++)
				;
		else if (press(keys[i]))
			return true;
	}
	return count <= 0;
}

/* Wait; true when somebody wants to quit. */
static bool pause_for(struct top *top, double seconds)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	double end = now() + seconds, left;

	if (!top->screen)
		return sleep_with_progress(seconds, "measuring");
	while (!over && (left = end - now()) > 0) {
		bool typed = poll(&input, 1, poll_ms(left)) > 0;

		if (typed && read_keys())
			return true;
		typed |= stopped;
		if (stopped)
			stop();
		if (typed && top->loads.count)
			show(top);
	}
	return over;
}

/* Takes the place of the look before. */
static void look(struct top *top, const struct snapshot *from, const struct snapshot *to)
{
	free(top->loads.load);
	loads_make(&top->loads, from, to);
	remember(&top->histories, &top->loads);
	top->stat = to->stat;
	top->inferred = false;
	show(top);
}

int verb_top(int argc, char **argv)
{
	double interval = 0;
	struct span span = SPAN_NONE;
	const char *sort = "worst", *filter = "";
	long count = 0;
	const struct opt opts[] = {
		{ "interval", OPT_DURATION, &interval, "TIME", "from one look to the next (2s)" },
		{ "count", OPT_NUMBER, &count, "N", "end after N looks (1 without a terminal)" },
		{ "sort", OPT_TEXT, &sort, "COLUMN",
		  "worst, cpu, memory, io, own, others, limit or name" },
		{ "filter", OPT_TEXT, &filter, "TEXT", "only cgroups with TEXT in their path" },
		{ "tree", OPT_FLAG, &view.tree, NULL, "children below their parent" },
		SPAN_OPTS(span),
		{ 0 }
	};
	struct top top = { 0 };
	struct snapshot from, to;

	if (*parse_options(argc, argv, opts, "top [OPTIONS]"))
		die("top takes no arguments; 'pressure top --help' shows how to use it");
	if (span_given(&span) && (interval || count))
		die("--%s: of a record, --since and --until choose the time",
		    interval ? "interval" : "count");
	if (view.tree && opt_json)
		die("--tree: not with --json, which has the whole path of each cgroup");
	while (view.order < ORDERS && strcmp(orders[view.order], sort))
		view.order++;
	if (view.order == ORDERS)
		die("--sort: '%s' is no column to sort by; 'pressure top --help' lists them", sort);
	/* No path is longer. */
	snprintf(view.filter, sizeof(view.filter), "%s", filter);
	if (span_given(&span)) {
		span_read(&span, &from, &to);
		top.recorded = &to;
		loads_make(&top.loads, &from, &to);
		if (!top.loads.count)
			die_of_span(&span);
		look(&top, &from, &to);
		return STATUS_OK;
	}
	top.screen = !opt_json && isatty(STDIN_FILENO) && obeys(STDOUT_FILENO);
	snapshot_take(&from, NULL, true, true, NULL);
	if (!from.count)
		die("/proc/pressure/cpu: %s", explain(from.error));
	top.stat = from.stat;
	if (top.screen)
		enter_screen();
	for (long i = 0; (!count && (top.screen || opt_json || !i)) || i < count; i++) {
		if (pause_for(&top, measurable(interval ?: 2, top.stat)))
			break;
		snapshot_take(&to, NULL, true, true, &from);
		look(&top, &from, &to);
		/* What is shown again after a key has the names of @to. */
		snapshot_free(&from);
		from = to;
	}
	return STATUS_OK;
}
