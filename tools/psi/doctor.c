// SPDX-License-Identifier: GPL-2.0
/* pressure doctor: is PSI here, on and visible; whose pressure is shown; what it costs. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ring.h"

#define UNKNOWN	"not known without /proc/pressure"
#define READS	200	/* for the time of one */

static const struct column columns[] = {
	{ "check", "check", FMT_TEXT, 0 },
	{ "result", "", FMT_MARK, 0 },
	{ "detail", "detail", FMT_WRAP, 0 },
};

/* Marks: ok, no for what PSI cannot do without, and - for what is nice to have. */
static void add(struct table *table, const char *check, const char *mark, const char *format, ...)
	PRINTF(4, 5);

static void add(struct table *table, const char *check, const char *mark, const char *format, ...)
{
	struct cell *cell = table_row(table);
	va_list arguments;

	cell[0].text = text_of("%s", check);
	cell[1].text = text_of("%s", mark);
	va_start(arguments, format);
	cell[2].text = vtext_of(format, arguments);
	va_end(arguments);
}

/* The last word "psi=..." of the kernel's command line, which counts; or "". */
static void boot_parameter(char *word, size_t size)
{
	char line[4096], *rest = line, *next;

	*word = 0;
	if (!read_line("/proc/cmdline", line, sizeof(line)))
		return;
	while ((next = strsep(&rest, " ")))
		if (!strncmp(next, "psi=", 4))
			snprintf(word, size, "%s", next);
}

static void check_kernel(struct table *table)
{
	char release[256], word[32];

	if (read_line("/proc/sys/kernel/osrelease", release, sizeof(release)))
		add(table, "kernel", "ok", "%s", release);
	else
		add(table, "kernel", "-", "not recorded");
	boot_parameter(word, sizeof(word));
	if (*word)
		add(table, "boot parameter", "-", "%s", word);
}

static int read_file(enum psi_resource resource, struct psi_pressure *pressure)
{
	char path[PATH_MAX];
	int error = psi_path(path, sizeof(path), NULL, resource);

	return error ? error : psi_read(path, resource, pressure);
}

/* Whether "psi=..." is on, as the kernel reads a bool. */
static bool is_on(const char *word)
{
	return !strncasecmp(word, "psi=on", 6) || (strlen(word) > 4 && strchr("1yYtT", word[4]));
}

/* What is wrong with a file, and what to do about it. */
static const char *explain_file(int error)
{
	char word[32], text[16];
	bool on;

	boot_parameter(word, sizeof(word));
	on = is_on(word);
	if (error == -ENOENT)
		return on ? "not there, though psi=1 is set: the kernel lacks CONFIG_PSI" :
		       "not there: boot with psi=1; if that does not help, the kernel lacks "
		       "CONFIG_PSI";
	if (error != -EOPNOTSUPP)
		return explain(error);
	if (read_line("/proc/sys/kernel/psi", text, sizeof(text)) && *text == '0')
		return "PSI is switched off: sysctl kernel.psi=1";
	return on ? "PSI is switched off, though psi=1 is set" :
	       "PSI is switched off: boot with psi=1";
}

/* True when the pressure of memory can be read; the first file that cannot is named. */
static bool check_system(struct table *table, struct psi_pressure *pressure)
{
	static const enum psi_resource order[] = { PSI_MEMORY, PSI_CPU, PSI_IO };

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		const char *name = psi_resource_name(order[i]);
		int error = read_file(order[i], pressure);

		if (!error)
			continue;
		/* One of them is missing: not for want of psi=1. */
		if (i)
			add(table, "/proc/pressure", "-", "of memory readable; %s: %s", name,
			    strerror(-error));
		else
			add(table, "/proc/pressure", "no", "%s: %s", name, explain_file(error));
		return i;
	}
	add(table, "/proc/pressure", "ok", "readable");
	return true;
}

static void check_irq(struct table *table, struct psi_pressure *pressure, bool works)
{
	if (!works)
		add(table, "irq", "-", UNKNOWN);
	else if (read_file(PSI_IRQ, pressure))
		add(table, "irq", "-", "interrupt time is not accounted on this machine");
	else
		add(table, "irq", "ok", "interrupt time is accounted");
}

static void check_stat(struct table *table, struct psi_pressure *pressure)
{
	unsigned int causes = 0;

	psi_read_all(NULL, pressure);
	if (psi_line(pressure, PSI_CPU, PSI_LIMIT, PSI_SOME))
		add(table, "classes", "ok", "limit, shortage and exact pressure");
	else
		add(table, "classes", "-",
		    "no /proc/pressure/stat: limit, shortage and exact pressure are not known");
	while (psi_cause(pressure, causes))
		causes++;
	if (causes)
		add(table, "causes", "ok", "%u causes of memory stalls", causes);
	else
		add(table, "causes", "-", "causes of memory stalls are not known");
	if (exists("%s/sys/kernel/tracing/events/psi", psi_root()))
		add(table, "tracepoints", "ok", "why names programs that stall for memory");
	else
		add(table, "tracepoints", "-",
		    "no psi events in /sys/kernel/tracing (or you are not root)");
}

static void check_cgroup(struct table *table, bool works)
{
	char mount[PATH_MAX], own[PATH_MAX];
	bool root;

	if (psi_cgroup_mount(mount, sizeof(mount))) {
		add(table, "cgroup v2", "-", "not mounted: mount -t cgroup2 none /sys/fs/cgroup");
		return;
	}
	add(table, "cgroup v2", "ok", "at %s", mount);
	if (psi_cgroup_own(own, sizeof(own))) {
		add(table, "own cgroup", "-", "not visible here");
		return;
	}
	root = !strcmp(own, mount);
	add(table, "own cgroup", "ok", "%s", root ? "/" : own + strlen(mount));
	if (exists("%s/cpu.pressure", own))
		add(table, "its pressure", "ok", "in %s", own);
	else if (!works)
		add(table, "its pressure", "-", UNKNOWN);
	else
		add(table, "its pressure", "-",
		    "no pressure files in %s: cgroup.pressure is 0, or the kernel "
		    "was booted with cgroup_disable=pressure",
		    own);
	if (!access(own, W_OK))
		add(table, "pressure run", "ok", "can make cgroups in %s", own);
	else if (errno == EROFS)
		add(table, "pressure run", "-", "%s: %s", own, explain(-EROFS));
	else
		add(table, "pressure run", "-",
		    "%s is not delegated to you: pressure run asks systemd for one", own);
}

static void check_whose(struct table *table, bool works)
{
	static const char * const whose[] = {
		[WHOSE_MACHINE] = "the whole machine, also in a container",
		[WHOSE_HOST] = "the host of this container; that of the container is in its cgroup",
		[WHOSE_CONTAINER] = "the container (/proc is mounted with pressure=cgroup)",
		[WHOSE_OTHER] = "what another file system (lxcfs?) puts over /proc/pressure",
	};

	if (works)
		add(table, "whose pressure", "ok", "%s", whose[whose_pressure()]);
	else
		add(table, "whose pressure", "-", UNKNOWN);
}

static void check_trigger(struct table *table, bool works)
{
	const char *windows = "windows of 0.5 to 10 s";
	struct psi_watch *watch;
	int error;

	/* Arming one writes to the file. */
	if (!works || *psi_root()) {
		add(table, "triggers", "-", "%s", works ? "not tried on a recording" : UNKNOWN);
		return;
	}
	error = psi_watch_trigger(&watch, "memory some 1s/1s", NULL);
	if (error == -EINVAL) {
		windows = "windows of 2, 4, 6, 8 or 10 s (others need CAP_SYS_RESOURCE)";
		error = psi_watch_trigger(&watch, "memory some 1s/2s", NULL);
	}
	add(table, "triggers", error ? "no" : "ok", "%s", error ? explain(error) : windows);
	psi_watch_close(watch);
}

static void check_switches(struct table *table)
{
	char text[16];

	if (read_line("/proc/sys/kernel/psi", text, sizeof(text)))
		add(table, "kernel.psi", "ok", "%s; PSI can be switched while the machine runs",
		    text);
	if (read_line("/proc/sys/kernel/psi_window_min_ms", text, sizeof(text)))
		add(table, "shortest window", "ok", "%s ms with CAP_SYS_RESOURCE", text);
}

static void check_cost(struct table *table, struct psi_pressure *pressure)
{
	struct snapshot snapshot;
	double begin = now(), reads;

	for (int i = 0; i < READS; i++)
		read_file(PSI_CPU, pressure);
	reads = (now() - begin) / READS;
	begin = now();
	snapshot_take(&snapshot, NULL, true, false, NULL);
	add(table, "cost", "ok", "a read %.0f us; all of %d cgroups %.0f ms", reads * 1e6,
	    snapshot.count - 1, (now() - begin) * 1e3);
	snapshot_free(&snapshot);
}

static bool check_machine(struct table *table, struct psi_pressure *pressure)
{
	bool works;

	check_kernel(table);
	works = check_system(table, pressure);
	check_whose(table, works);
	check_irq(table, pressure, works);
	check_trigger(table, works);
	check_stat(table, pressure);
	check_switches(table);
	check_cgroup(table, works);
	if (works)
		check_cost(table, pressure);
	return works;
}

static bool check_record(struct table *table, const struct span *span)
{
	struct record *record = record_open(span);
	char *begin = NULL, *end = time_text(record->end, false);
	struct totals totals[PSI_RESOURCES] = { 0 };
	const struct ring_head *head = NULL;
	int boot = 0, boots = 0, cgroups = 0;
	bool works = false;
	long looks = 0;

	/* A look after that time may be read, too. */
	for (; record_next(record); looks++) {
		const struct snapshot *now = &record->now;

		begin = begin ?: time_text(record->us / 1e6, false);
		head = record->segment[record->reading];
		boots += looks && record->boot != boot;
		boot = record->boot;
		cgroups = now->count - (now->count && !*now->groups->name);
		if (now->count)
			memcpy(totals, now->groups->totals, sizeof(totals));
	}
	add(table, "kernel", *head->kernel ? "ok" : "-", "%.64s of %.64s",
	    *head->kernel ? head->kernel : "not recorded", *head->host ? head->host : "?");
	add(table, "looks", "ok", "%ld, from %s to %s", looks, begin, end);
	add(table, "boots", "ok", "totals begin anew %d times", boots);
	add(table, "cgroups", "ok", "%d", cgroups);
	for (int resource = 0; resource < PSI_RESOURCES; resource++) {
		const bool (*known)[PSI_KINDS] = totals[resource].known;
		bool plain = known[PSI_PLAIN][PSI_SOME] || known[PSI_PLAIN][PSI_FULL];

		works |= plain;
		add(table, psi_resource_name(resource), plain ? "ok" : "-", !plain ?
		    "not recorded" : known[PSI_LIMIT][PSI_SOME] ?
		    "recorded, with limit, shortage and exact pressure" : "recorded");
	}
	add(table, "programs", "-", "not recorded, and neither are causes");
	free(begin);
	free(end);
	record_close(record);
	return works;
}

int verb_doctor(int argc, char **argv)
{
	struct span span = SPAN_NONE;
	const struct opt opts[] = { SPAN_OPTS(span), { 0 } };
	struct psi_pressure *pressure = psi_new();
	struct report report = { 0 };
	struct table *table;
	bool works;

	if (*parse_options(argc, argv, opts, "doctor [OPTIONS]"))
		die("doctor takes no arguments; 'pressure doctor --help' shows how to use it");
	if (!pressure)
		die("out of memory");
	table = report_table(&report, "checks", NULL, columns, ARRAY_SIZE(columns));
	works = span_given(&span) ? check_record(table, &span) : check_machine(table, pressure);
	psi_free(pressure);
	report_say(&report, "PSI %s %s.", !span_given(&span) ? works ? "works" : "does not work" :
		   works ? "worked" : "did not work",
		   span_given(&span) ? "when this was recorded" : "here");
	report_fact_text(&report, "psi", works ? "works" : "does not work");
	report_print(stdout, &report);
	report_free(&report);
	return works ? STATUS_OK : STATUS_NO;
}
