// SPDX-License-Identifier: GPL-2.0
/*
 * pressure why: causes of memory stalls, and the programs that stall.
 *
 * Causes are from cgroup.pressure.stat.  Of each thread, waiting for a CPU is
 * from schedstat, waiting for storage from delay accounting, and memory stalls
 * from the tracepoint psi:psi_stall, which a histogram of tracefs adds up by
 * thread.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pressure.h"

#define ROWS		10
#define HIST		"hist:keys=common_pid:vals=ns"

static const struct column cause_columns[] = {
	{ "cause", "cause", FMT_NAME, 0 },
	{ "stalls", "stalls", FMT_COUNT, 0 },
	{ "total_s", "task s", FMT_SECONDS, 0 },
	{ "mean_ms", "mean ms", FMT_PERCENT, 1 },
	{ "p99_ms", "99 % below ms", FMT_PERCENT, 2 },
};

static const struct column program_columns[] = {
	{ "program", "program", FMT_NAME, 0 },
	{ "pid", "pid", FMT_COUNT, 0 },
	{ "cpu_s", "cpu s", FMT_SECONDS, 0 },
	{ "io_s", "io s", FMT_SECONDS, 0 },
	{ "memory_s", "memory s", FMT_SECONDS, 0 },
};

enum wait { WAIT_CPU, WAIT_IO, WAIT_MEMORY, WAITS };

/**
 * struct task - a thread, then a process
 * @tid: the thread
 * @pid: its process
 * @name: of that
 * @accounted: the kernel adds up what it waits for storage, so 0 is none
 * @wait: s that it waited
 */
struct task {
	int tid;
	int pid;
	char name[32];
	bool accounted;
	double wait[WAITS];
};

struct tasks {
	struct task *task;
	int count;
};

/*
 * The bound in ms that 99 of 100 stalls stayed below; powers of two from 1 us.
 * The last number has no bound but the longest stall, where the kernel tells that.
 */
static double quantile(const struct psi_cause *cause, const struct psi_cause *old)
{
	unsigned long long all = 0, seen = 0;

	for (unsigned int i = 0; i < cause->nr_hist; i++)
		all += cause->hist[i] - old->hist[i];
	for (unsigned int i = 0; i < cause->nr_hist; i++) {
		seen += cause->hist[i] - old->hist[i];
		if (all && seen * 100 >= all * 99 && i + 1 < cause->nr_hist)
			return ldexp(1, i + 1) / 1000;
	}
	return all && cause->max ? cause->max / 1e3 : NAN;
}

static const struct psi_cause *find_cause(const struct psi_pressure *pressure, const char *name)
{
	static const struct psi_cause none;
	const struct psi_cause *cause;

	for (unsigned int i = 0; pressure && (cause = psi_cause(pressure, i)); i++)
		if (!strcmp(cause->name, name))
			return cause;
	return &none;
}

/**
 * read_causes() - read the causes of memory stalls
 * @cgroup: directory, or NULL for the system
 *
 * Return: for psi_free(); NULL when the kernel does not tell them
 */
struct psi_pressure *read_causes(const char *cgroup)
{
	struct psi_pressure *pressure = psi_new();

	if (pressure && !psi_read_all(cgroup, pressure) && psi_cause(pressure, 0))
		return pressure;
	psi_free(pressure);
	return NULL;
}

/**
 * causes_report() - causes of memory stalls in a cgroup
 * @report: where they are added; null if the kernel does not tell them
 * @cgroup: its directory, or NULL for the system
 * @from: what is to be taken off, or NULL
 */
void causes_report(struct report *report, const char *cgroup, const struct psi_pressure *from)
{
	struct psi_pressure *pressure = read_causes(cgroup);
	const struct psi_cause *cause;
	struct table *table;

	if (!pressure) {
		report_fact(report, "causes", FMT_COUNT, NAN);
		return;
	}
	table = report_table(report, "causes", "Causes of memory stalls:", cause_columns,
			     ARRAY_SIZE(cause_columns));
	for (unsigned int i = 0; (cause = psi_cause(pressure, i)); i++) {
		const struct psi_cause *old = find_cause(from, cause->name);
		double count = (double)cause->count - (double)old->count;
		double us = (double)cause->total - (double)old->total;
		struct cell *cell;

		if (count <= 0)
			continue;
		cell = table_row(table);
		cell[0].text = text_of("%s", cause->name);
		cell[1].number = count;
		cell[2].number = us / 1e6;
		cell[3].number = us / 1e3 / count;
		cell[4].number = quantile(cause, old);
	}
	psi_free(pressure);
}

static void add_task(struct tasks *tasks, int pid, int tid)
{
	struct task task = { .pid = pid, .tid = tid };
	char path[64], text[4096];
	unsigned long long ns = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	if (read_text(path, text, sizeof(text)) > 0)
		sscanf(text, "%*u %llu", &ns);
	task.wait[WAIT_CPU] = ns / 1e9;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	if (read_text(path, text, sizeof(text)) <= 0)
		return;
	task.wait[WAIT_IO] = strtod(stat_field(text, 42, task.name, sizeof(task.name)), NULL) /
			     sysconf(_SC_CLK_TCK);
	/* 0 of threads that are older than the sysctl, whatever they wait. */
	task.accounted = task.wait[WAIT_IO] > 0;
	tasks->task = grow(tasks->task, tasks->count, sizeof(task));
	tasks->task[tasks->count++] = task;
}

/* @below: "" for all, or the path of a cgroup. */
static bool in_cgroup(int pid, const char *below)
{
	size_t length = strlen(below);
	char path[64], *own;
	bool is;

	if (!length)
		return true;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	own = cgroup_of(path);
	is = own && !strncmp(own, below, length) && strchr("/", own[length]);
	free(own);
	return is;
}

struct scan {
	struct tasks *tasks;
	const char *below;
};

static void scan_thread(void *data, int pid, int tid)
{
	add_task(((struct scan *)data)->tasks, pid, tid);
}

static void scan_process(void *data, int unused, int pid)
{
	char path[64];

	(void)unused;
	if (!in_cgroup(pid, ((struct scan *)data)->below))
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	for_numbers(path, scan_thread, data, pid);
}

static int by_tid(const void *a, const void *b)
{
	return ((const struct task *)a)->tid - ((const struct task *)b)->tid;
}

static struct tasks scan_tasks(const char *below)
{
	struct tasks tasks = { 0 };
	struct scan scan = { &tasks, below };

	for_numbers("/proc", scan_process, &scan, 0);
	if (tasks.count)
		qsort(tasks.task, tasks.count, sizeof(*tasks.task), by_tid);
	return tasks;
}

static struct task *find_task(const struct tasks *tasks, int tid)
{
	struct task key = { .tid = tid };

	return tasks->count ? bsearch(&key, tasks->task, tasks->count, sizeof(key), by_tid) : NULL;
}

/* A histogram in a tracing instance of our own; false when it cannot be had. */
static bool trace_begin(char *instance, size_t size)
{
	snprintf(instance, size, TRACING "/instances/pressure-why-%d", getpid());
	if (!exists(TRACING "/events/psi/psi_stall") || mkdir(instance, 0700))
		return false;
	end_by_signals();
	if (!cgroup_write(instance, "events/psi/psi_stall/trigger", HIST))
		return true;
	rmdir(instance);
	return false;
}

static void trace_end(const char *instance, const struct tasks *tasks)
{
	char *name = text_of("%s/events/psi/psi_stall/hist", instance), line[512];
	FILE *file = fopen(name, "re");
	int tid;

	while (file && fgets(line, sizeof(line), file)) {
		const char *ns = strstr(line, "} hitcount:");
		struct task *task;

		if (!ns || sscanf(line, "{ common_pid: %d", &tid) != 1)
			continue;
		ns = strstr(ns, " ns:");
		task = find_task(tasks, tid);
		if (ns && task)
			task->wait[WAIT_MEMORY] = strtod(ns + 4, NULL) / 1e9;
	}
	if (file)
		fclose(file);
	free(name);
	rmdir(instance);
}

static int by_pid(const void *a, const void *b)
{
	const struct task *x = a, *y = b;

	return x->pid != y->pid ? x->pid - y->pid : x->tid - y->tid;
}

static double all_waits(const struct task *task)
{
	return task->wait[WAIT_CPU] + task->wait[WAIT_IO] + task->wait[WAIT_MEMORY];
}

/* What programs are sorted by: that for which the cgroup waited most. */
static enum wait sort_by;

static int by_wait(const void *a, const void *b)
{
	const struct task *x = a, *y = b;
	double difference = y->wait[sort_by] - x->wait[sort_by];

	if (!difference)
		difference = all_waits(y) - all_waits(x);
	return difference > 0 ? 1 : difference < 0 ? -1 : by_pid(a, b);
}

/* What each thread waited since @old; then one entry for each process. */
static void add_up(const struct tasks *old, struct tasks *tasks)
{
	int count = 0;

	for (int i = 0; i < tasks->count; i++) {
		const struct task *before = find_task(old, tasks->task[i].tid);

		for (int wait = 0; before && wait < WAIT_MEMORY; wait++)
			tasks->task[i].wait[wait] -= before->wait[wait];
	}
	if (tasks->count)
		qsort(tasks->task, tasks->count, sizeof(*tasks->task), by_pid);
	for (int i = 0; i < tasks->count; i++) {
		struct task *last = count ? &tasks->task[count - 1] : NULL;

		if (!last || last->pid != tasks->task[i].pid) {
			tasks->task[count++] = tasks->task[i];
			continue;
		}
		last->accounted &= tasks->task[i].accounted;
		for (int wait = 0; wait < WAITS; wait++)
			last->wait[wait] += tasks->task[i].wait[wait];
	}
	tasks->count = count;
}

/*
 * Why waits for one resource cannot be seen, and what to do; NULL when they
 * can.  Only programs that were started since are accounted.
 */
static const char *blind(enum wait wait, bool traced)
{
	char text[16];

	if (wait == WAIT_CPU && !exists("/proc/self/schedstat"))
		return "this kernel does not tell which programs wait for a CPU "
		       "(CONFIG_SCHED_INFO)";
	if (wait == WAIT_IO &&
	    (!read_line("/proc/sys/kernel/task_delayacct", text, sizeof(text)) || *text == '0'))
		return "which programs wait for storage is not known: run as root: "
		       "sysctl kernel.task_delayacct=1, and start the programs again";
	if (wait == WAIT_MEMORY && !traced)
		return "which programs wait for memory is not known: that takes root, tracefs, and "
		       "a kernel with the tracepoint psi:psi_stall";
	return NULL;
}

static void fill_programs(struct report *report, struct tasks *tasks, bool traced)
{
	struct table *table = report_table(report, "programs",
					   "Programs that waited, threads added up, worst first:",
					   program_columns, ARRAY_SIZE(program_columns));
	bool known[WAITS];

	for (enum wait wait = 0; wait < WAITS; wait++)
		known[wait] = !blind(wait, traced);
	if (tasks->count)
		qsort(tasks->task, tasks->count, sizeof(*tasks->task), by_wait);
	for (int i = 0;
	     i < tasks->count && (opt_json || i < ROWS) && all_waits(&tasks->task[i]) >= 0.005;
	     i++) {
		const struct task *task = &tasks->task[i];
		struct cell *cell = table_row(table);

		cell[0].text = text_of("%s", task->name);
		cell[1].number = task->pid;
		for (enum wait wait = 0; wait < WAITS; wait++)
			cell[2 + wait].number = known[wait] ? task->wait[wait] : NAN;
		if (!task->accounted && !task->wait[WAIT_IO])
			cell[2 + WAIT_IO].number = NAN;
	}
}

/*
 * Programs that ended are not seen, nor are some others.  But all together waited
 * for @least s, as pressure says.  What is missing from that, one of them may have
 * waited.
 */
static void say_worst(struct report *report, const struct tasks *tasks, double least)
{
	static const char * const unseen[] = {
		[WAIT_CPU] = "are held by cpu.max (Linux 7 does not add that up), "
			     "or are not in this /proc",
		[WAIT_IO] = "are not in this /proc, wait for a journal, or were started before "
			    "kernel.task_delayacct=1: start them again",
		[WAIT_MEMORY] = "or are not in this /proc",
	};
	const struct task *task = tasks->task;
	double worst = tasks->count ? task->wait[sort_by] : 0, all = 0;

	for (int i = 0; i < tasks->count; i++)
		all += task[i].wait[sort_by];
	if (worst < least - all)
		report_say(report, "But which programs waited most is not known: those that are "
			   "seen waited for %.2f of at least %.2f s. Others ended meanwhile, still "
			   "wait, %s.", all, least, unseen[sort_by]);
	else if (worst >= 0.005)
		report_say(report, "%s (pid %d) waited most for it: %.2f s, its threads added up.",
			   task->name, task->pid, worst);
}

/*
 * The resource first, as PSI tells it; a program only where its waits are seen.
 * Those are of @watched s.
 */
static void say_programs(struct report *report, const struct tasks *tasks, const struct load *load,
			 const struct judgement *judgement, bool traced, double watched)
{
	static const char * const names[] = { "a CPU", "memory", "storage" };
	const char *missing = blind(sort_by, traced);
	double percent = main_percent(load, judgement->seen);
	double seconds = load->to->time - load->from->time;
	char *place = place_of(load);

	report_fact_text(report, "worst", percent < NOTHING ? "none" : judged_name(judgement));
	if (percent < NOTHING)
		report_say(report, "Nothing is slow: in the last %.1f s, tasks waited for %s most "
			   "%s, %.1f %% of the time.", seconds, names[judgement->seen], place,
			   percent);
	else
		report_say(report, "%s: %s, tasks waited for %s %.0f %% of the last %.1f s%s.",
			   judged_name(judgement), place, names[judgement->seen], percent,
			   seconds, !judgement->sure ?
			   ", and whether what they read had been in memory before is not known" :
			   judgement->resource == judgement->seen ? "" :
			   ", to read back what had been pushed out of memory");
	free(place);
	if (percent < NOTHING)
		return;
	if (missing)
		report_say(report, "But %s.", missing);
	else
		say_worst(report, tasks, percent / 100 * watched);
}

static void note_sources(struct report *report, const char *cgroup, bool traced)
{
	char path[PATH_MAX];

	for (enum wait wait = 0; wait < WAITS; wait++)
		if (wait != sort_by && blind(wait, traced))
			report_note(report, "%s", blind(wait, traced));
	if (psi_stat_path(path, sizeof(path), cgroup) || !exists("%s", path))
		report_note(report,
			    "this kernel has no cgroup.pressure.stat: causes are not known");
}

static void why_recorded(const struct span *span, const char *cgroup)
{
	struct judgement judgement;
	struct report report = { 0 };
	struct samples samples;
	struct group from = { 0 }, to;
	struct snapshot first, last;
	struct loads above = { 0 };
	struct load load;
	double worst;

	samples_open(&samples, span, cgroup);
	while (samples_next(&samples, &to, INFINITY))
		if (samples.anew)
			from = to;
	/* The last look is left. */
	to = samples.last;
	if (to.time <= from.time)
		die("only one look in that time has %s", *to.name ? to.name : "the machine");
	report_say(&report, "How long %s waited is recorded; which programs did, and the causes of "
		   "memory stalls, are not.", *to.name ? to.name : whose_names[samples.whose]);
	load_make(&load, &from, &to);
	/* What is above it counts up to the end of that time; it may have gone before. */
	if (span_try(span, &first, &last) && last.groups[0].time == to.time)
		loads_make(&above, &first, &last);
	judgement = judge(&above, &load);
	worst = main_percent(&load, judgement.seen);
	report_fact_text(&report, "worst", worst < NOTHING ? "none" : judged_name(&judgement));
	lost_report(&report, &from, &to, to.time - from.time, NULL);
	if (worst >= LOCAL && !judgement.sure)
		report_say(&report, "It is storage that is too slow, or memory that is too small: "
			   "whether what it read had been pushed out of memory is not recorded.");
	else if (worst >= NOTHING && judgement.resource != judgement.seen)
		report_say(&report, "It waited for storage to read back what had been pushed out "
			   "of memory: memory is short.");
	report_fact(&report, "causes", FMT_COUNT, NAN);
	report_fact(&report, "programs", FMT_COUNT, NAN);
	note_record(&report, to.time);
	report_print(stdout, &report);
	report_free(&report);
	samples_close(&samples);
	free(above.load);
	snapshot_free(&first);
	snapshot_free(&last);
}

/* Read back from storage, memory is waited for as both; io is what can be seen without a trace. */
static enum wait wait_for(const struct judgement *judgement, bool traced)
{
	if (judgement->seen == PSI_IO && judgement->resource == PSI_MEMORY && traced)
		return WAIT_MEMORY;
	return judgement->seen == PSI_CPU ? WAIT_CPU :
	       judgement->seen == PSI_IO ? WAIT_IO : WAIT_MEMORY;
}

/* Of a cgroup, or the system, and its evidence; that of all above it, too. */
static bool look(struct group *group, struct snapshot *above, const char *cgroup, char *below)
{
	bool there = read_group(group, cgroup);

	group->name = !cgroup || *below ? below : (char *)"/";
	evidence_read(&group->evidence, cgroup, EVIDENCE_ALL);
	snapshot_climb(above, cgroup);
	/* Nobody hears of interrupts here. */
	memset(&group->totals[PSI_IRQ], 0, sizeof(group->totals[PSI_IRQ]));
	return there;
}

int verb_why(int argc, char **argv)
{
	double seconds = 0, begin, watched;
	struct span span = SPAN_NONE;
	bool cpu = false;
	const struct opt opts[] = {
		{ "time", OPT_DURATION, &seconds, "TIME", "how long to measure (3s)" },
		{ "cpu", OPT_FLAG, &cpu, NULL, "what had the CPUs meanwhile (root, tracefs)" },
		SPAN_OPTS(span),
		{ 0 }
	};
	char **rest = parse_options(argc, argv, opts, "why [OPTIONS] [CGROUP]");
	char directory[PATH_MAX], mount[PATH_MAX] = "", instance[64];
	struct psi_pressure *causes;
	struct report report = { 0 };
	struct group from = { 0 }, to = { 0 };
	struct snapshot first, last;
	struct tasks old, new;
	char *below = "";
	const char *cgroup = *rest ? directory : NULL;
	struct judgement judgement;
	struct loads above;
	struct load load;
	bool traced;

	if (*rest && rest[1])
		die("why takes one cgroup, not '%s' too", rest[1]);
	if (span_given(&span) && (cpu || seconds))
		die(cpu ? "--cpu: what had the CPUs is not recorded" :
		    "--time: of a record, --since and --until choose the time");
	if (span_given(&span)) {
		why_recorded(&span, *rest);
		return STATUS_OK;
	}
	seconds = seconds ?: 3;
	if (*rest)
		cgroup_find_or_die(directory, *rest);
	if (*rest && !psi_cgroup_mount(mount, sizeof(mount)))
		below = directory + strlen(mount);
	/* The real root has no type: it is the machine. */
	if (*rest && !*below && !exists("%s/cgroup.type", directory))
		cgroup = NULL;
	if (cpu) {
		why_cpu(*rest ? below : NULL, seconds);
		return STATUS_OK;
	}
	if (!look(&from, &first, cgroup, below))
		die("no pressure can be read here; 'pressure doctor' tells why");
	traced = trace_begin(instance, sizeof(instance));
	causes = read_causes(cgroup);
	begin = now();
	old = scan_tasks(below);
	sleep_with_progress(measurable(seconds, from.totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME]),
			    "measuring");
	watched = now() - begin;
	new = scan_tasks(below);
	if (traced)
		trace_end(instance, &new);
	if (!look(&to, &last, cgroup, below))
		die("the pressure files vanished while they were measured");
	load_make(&load, &from, &to);
	loads_make(&above, &first, &last);
	judgement = judge(&above, &load);
	sort_by = wait_for(&judgement, traced);
	add_up(&old, &new);
	causes_report(&report, cgroup, causes);
	psi_free(causes);
	fill_programs(&report, &new, traced);
	say_programs(&report, &new, &load, &judgement, traced, watched);
	note_sources(&report, cgroup, traced);
	report_print(stdout, &report);
	report_free(&report);
	free(old.task);
	free(new.task);
	free(above.load);
	snapshot_free(&first);
	snapshot_free(&last);
	return STATUS_OK;
}
