// SPDX-License-Identifier: GPL-2.0
/*
 * pressure why --cpu: what had the CPUs while tasks of a cgroup waited for one.
 *
 * The events of the scheduler come as text, through an instance of tracefs of
 * our own:
 *
 *	sched_switch prev=a (R) next=b	a is runnable, b runs on this CPU
 *	sched_switch prev=a (S) next=b	a sleeps, b runs
 *	sched_wakeup a target_cpu=1	a is runnable on CPU 1
 *
 * While tasks of the cgroup wait on a CPU, the time is held against the thread
 * that this CPU runs.  As exact pressure does, U / sum(w) makes time of CPUs a
 * part of the time that passed: U is the time in which any CPU was in use by the
 * cgroup, w that of each CPU.
 *
 * No event says that cpu.max holds a task.  How long it did is in the totals,
 * and comes off the time in which the CPU was idle, then off what programs of
 * other cgroups had, in proportion.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pressure.h"

#define ROWS		10
#define PID_LIMIT	4194304	/* of the kernel */
#define DRAIN		0.1	/* s; in which a CPU fills no buffer of events */

static const struct column holder_columns[] = {
	{ "program", "program", FMT_NAME, 0 },
	{ "cgroup", "cgroup", FMT_TEXT, 0 },
	{ "held_s", "s", FMT_SECONDS, 0 },
	{ "held_pct", "%", FMT_PERCENT, 0 },
};

static const char *const events[] = { "sched/sched_switch", "sched/sched_wakeup",
	"sched/sched_wakeup_new", "sched/sched_migrate_task", "sched/sched_process_fork" };

enum state { SLEEPS, RUNNABLE, RUNS };

/**
 * struct thread - a thread; the idle ones of all CPUs are one
 * @name: of its program
 * @group: path of its cgroup; NULL where that is not known
 * @inside: that is the cgroup in question, or one below
 * @state: now
 * @cpu: where it runs, or is runnable
 * @held: s for which it had a CPU that tasks of the cgroup waited for
 * @next: the thread that was seen before
 */
struct thread {
	char name[32];
	char *group;
	bool inside;
	enum state state;
	int cpu;
	double held;
	struct thread *next;
};

/**
 * struct cpu - a CPU
 * @runs: the thread that it runs; NULL until its first event tells
 * @waiting: threads of the cgroup that are runnable here and do not run
 * @before: s until then in which there was one of these, and more
 */
struct cpu {
	struct thread *runs;
	int waiting;
	double before[2];
};

/**
 * struct trace - what the events said so far
 * @group: path of the cgroup, or "" for all
 * @from: where the time in question begins, in s
 * @to: where it ends
 * @at: time of the last event
 * @used: s in which any CPU was in use by the cgroup
 * @all_used: the same, added up over CPUs
 * @unknown: s that some thread held, but which is not known
 * @lost: events that are
 * @cpu: the CPUs
 * @nr_cpus: how many
 * @threads: all that were seen
 * @by_tid: the same
 */
struct trace {
	const char *group;
	double from;
	double to;
	double at;
	double used;
	double all_used;
	double unknown;
	long lost;
	struct cpu *cpu;
	int nr_cpus;
	struct thread *threads;
	struct thread **by_tid;
};

static volatile sig_atomic_t over;

static void end(int unused)
{
	(void)unused;
	over = 1;
}

/* Threads and CPUs */

static struct cpu *cpu_of(struct trace *trace, int cpu)
{
	for (; trace->nr_cpus <= cpu; trace->nr_cpus++)
		trace->cpu = grow(trace->cpu, trace->nr_cpus, sizeof(*trace->cpu));
	return &trace->cpu[cpu < 0 ? 0 : cpu];
}

static void put_thread(struct trace *trace, struct thread *thread, enum state state, int cpu)
{
	if (thread->inside && thread->state == RUNNABLE)
		cpu_of(trace, thread->cpu)->waiting--;
	if (thread->inside && state == RUNNABLE)
		cpu_of(trace, cpu)->waiting++;
	thread->state = state;
	thread->cpu = cpu;
}

static void set_group(struct thread *thread, char *group, const struct trace *trace)
{
	size_t length = strlen(trace->group);

	thread->group = group;
	thread->inside = !length || (group && !strncmp(group, trace->group, length) &&
				     strchr("/", group[length]));
}

/* What ended too early to be looked at has the cgroup of what forked it. */
static struct thread *add_thread(struct trace *trace, int pid, int tid)
{
	struct thread *thread = grow(NULL, 0, sizeof(*thread));
	char *path = text_of("%s/proc/%d/task/%d", psi_root(), pid, tid), text[4096];
	char *file = text_of("%s/stat", path);

	thread->next = trace->threads;
	trace->threads = thread;
	trace->by_tid[tid] = thread;
	if (tid)
		set_group(thread, cgroup_of(path), trace);
	else
		snprintf(thread->name, sizeof(thread->name), "(idle)");
	if (tid && read_text(file, text, sizeof(text)) > 0) {
		int cpu = atoi(stat_field(text, 39, thread->name, sizeof(thread->name)));

		if (*stat_field(text, 3, thread->name, sizeof(thread->name)) == 'R' && !trace->at)
			put_thread(trace, thread, RUNNABLE, cpu);
	}
	free(file);
	free(path);
	return thread;
}

static struct thread *thread_of(struct trace *trace, int tid)
{
	tid = tid < 0 || tid >= PID_LIMIT ? 0 : tid;
	return trace->by_tid[tid] ? trace->by_tid[tid] : add_thread(trace, tid, tid);
}

static void scan_thread(void *trace, int pid, int tid)
{
	if (tid < PID_LIMIT)
		add_thread(trace, pid, tid);
}

static void scan_process(void *trace, int unused, int pid)
{
	char *path = text_of("%s/proc/%d/task", psi_root(), pid);

	(void)unused;
	for_numbers(path, scan_thread, trace, pid);
	free(path);
}

static void trace_begin(struct trace *trace, const char *group)
{
	char *path = text_of("%s/proc", psi_root());

	*trace = (struct trace){ .group = group, .from = INFINITY, .to = INFINITY };
	trace->by_tid = checked(calloc(PID_LIMIT, sizeof(*trace->by_tid)));
	for_numbers(path, scan_process, trace, 0);
	free(path);
}

static void trace_end(struct trace *trace)
{
	struct thread *next;

	for (struct thread *thread = trace->threads; thread; thread = next) {
		next = thread->next;
		free(thread->group);
		free(thread);
	}
	free(trace->cpu);
	free(trace->by_tid);
}

/* What a second of a CPU is of the time that passed. */
static double share_of(const struct trace *trace)
{
	return trace->all_used > 0 ? trace->used / trace->all_used : 0;
}

/* Events */

/* After the last "key=": names of programs come before, and may hold anything. */
static const char *value(const char *text, const char *key)
{
	const char *found = NULL;

	while ((text = strstr(text, key)))
		found = text += strlen(key);
	return found ? found : "-1";
}

static struct thread *find_thread(struct trace *trace, const char *text, const char *key)
{
	return thread_of(trace, atoi(value(text, key)));
}

/* Another thread gets the number of one that ended. */
static void forget_thread(struct trace *trace, int tid)
{
	struct thread *thread = tid > 0 && tid < PID_LIMIT ? trace->by_tid[tid] : NULL;

	if (!thread)
		return;
	put_thread(trace, thread, SLEEPS, thread->cpu);
	trace->by_tid[tid] = NULL;
}

/* The same where a name that follows @end may hold anything, too: what is from there on goes. */
static struct thread *find_before(struct trace *trace, char *text, const char *end, const char *key)
{
	char *last = NULL;

	for (char *found = text; (found = strstr(found, end)); found++)
		last = found;
	if (last)
		*last = 0;
	return find_thread(trace, text, key);
}

static void pass_time(struct trace *trace, double time)
{
	double passed = fmin(time, trace->to) - fmax(trace->at, trace->from);
	int in_use = 0;

	trace->at = fmax(time, trace->at);
	for (int i = 0; passed > 0 && i < trace->nr_cpus; i++) {
		struct cpu *cpu = &trace->cpu[i];

		if (cpu->waiting && cpu->runs)
			cpu->runs->held += passed;
		else if (cpu->waiting)
			cpu->before[cpu->waiting > 1] += passed;
		in_use += cpu->waiting || (cpu->runs && cpu->runs->inside);
	}
	if (in_use) {
		trace->used += passed;
		trace->all_used += in_use * passed;
	}
}

/* A thread that ran all the time was no reason for itself to wait. */
static void first_event(struct trace *trace, struct cpu *cpu, struct thread *thread, int number)
{
	bool own = thread->inside && thread->state == RUNNABLE;

	put_thread(trace, thread, RUNS, number);
	cpu->runs = thread;
	thread->held += cpu->before[1] + (own ? 0 : cpu->before[0]);
	cpu->before[0] = 0;
	cpu->before[1] = 0;
}

static void do_switch(struct trace *trace, char *text, int cpu)
{
	struct thread *after = find_thread(trace, text, " next_pid="), *before;
	const char *name = value(text, " next_comm=");
	int length = value(text, " next_pid=") - strlen(" next_pid=") - name;

	if (length > 0 && length < (int)sizeof(after->name) && after != trace->by_tid[0])
		snprintf(after->name, sizeof(after->name), "%.*s", length, name);
	before = find_before(trace, text, " ==> next_comm=", " prev_pid=");
	put_thread(trace, before, *value(text, " prev_state=") == 'R' ? RUNNABLE : SLEEPS, cpu);
	put_thread(trace, after, RUNS, cpu);
	cpu_of(trace, cpu)->runs = after;
}

static void do_event(struct trace *trace, const char *event, char *text, int cpu)
{
	struct thread *thread = find_thread(trace, text, " pid="), *child;

	if (!strcmp(event, "sched_process_fork")) {
		forget_thread(trace, atoi(value(text, " child_pid=")));
		child = find_thread(trace, text, " child_pid=");
		thread = find_before(trace, text, " child_comm=", " pid=");
		if (!child->group && thread->group)
			set_group(child, text_of("%s", thread->group), trace);
		if (!*child->name)
			memcpy(child->name, thread->name, sizeof(child->name));
	} else if (!strcmp(event, "sched_switch")) {
		do_switch(trace, text, cpu);
	} else if (!strncmp(event, "sched_wakeup", 12) && thread->state == SLEEPS) {
		put_thread(trace, thread, RUNNABLE, atoi(value(text, " target_cpu=")));
	} else if (!strcmp(event, "sched_migrate_task") && thread->state == RUNNABLE) {
		put_thread(trace, thread, RUNNABLE, atoi(value(text, " dest_cpu=")));
	}
}

/**
 * struct event - an event of the scheduler
 * @tid: the thread that ran
 * @cpu: where
 * @time: in s
 * @name: of the event; "" for none
 * @text: what follows; names of programs in it may have newlines
 */
struct event {
	int tid;
	int cpu;
	double time;
	char name[32];
	char text[1024];
};

/*
 * "            name-pid     [cpu] flags seconds: event: ..."; the name has 16 columns,
 * and what is after a newline in it fewer.  No name is long enough to look like that.
 *
 * Return: columns of the name, after which an event begins; -1 where none does
 */
static int begin_event(struct event *event, const char *line)
{
	for (int i = 0, begin; i <= 16 && line[i]; i++) {
		begin = 0;
		if (line[i] != '-' ||
		    sscanf(line + i, "-%d [%d] %*s %lf: %31[^:]:%n", &event->tid, &event->cpu,
			   &event->time, event->name, &begin) != 4 || !begin)
			continue;
		for (size_t j = 0; j < ARRAY_SIZE(events); j++)
			if (!strcmp(event->name, strchr(events[j], '/') + 1)) {
				snprintf(event->text, sizeof(event->text), "%s", line + i + begin);
				return i;
			}
	}
	return -1;
}

static void end_event(struct trace *trace, struct event *event)
{
	if (!*event->name)
		return;
	pass_time(trace, event->time);
	if (!cpu_of(trace, event->cpu)->runs)
		first_event(trace, cpu_of(trace, event->cpu), thread_of(trace, event->tid),
			    event->cpu);
	do_event(trace, event->name, event->text, event->cpu);
}

/* An event ends where the next one begins: with what of its name is before a newline. */
static void do_line(struct trace *trace, struct event *event, const char *line)
{
	size_t length = strlen(event->text);
	struct event next;
	int columns = begin_event(&next, line);
	long lost;

	if (columns < 0 && sscanf(line, "CPU:%*d [LOST %ld", &lost) == 1) {
		trace->lost += lost;
	} else if (columns < 0 && *event->name) {
		snprintf(event->text + length, sizeof(event->text) - length, "%s", line);
	} else if (columns >= 0) {
		if (columns < 16 && length >= 16u - columns)
			event->text[length - (16 - columns)] = 0;
		end_event(trace, event);
		*event = next;
	}
}

/* Report */

/* First the idle threads, then programs of other cgroups, then the cgroup's own. */
static int take_order(const struct trace *trace, const struct thread *thread)
{
	return thread == trace->by_tid[0] ? 0 : 1 + thread->inside;
}

/*
 * Make time of CPUs a part of the time that passed, and take off what a limit
 * held.  A kernel without classes says nothing of shortage: it is the rest.
 */
static void settle(struct trace *trace, double *shortage, double *limit)
{
	double share = share_of(trace), all[3] = { 0 }, sum = 0, off;

	for (int i = 0; i < trace->nr_cpus; i++)
		sum += trace->cpu[i].before[1] * share;
	for (struct thread *thread = trace->threads; thread; thread = thread->next)
		all[take_order(trace, thread)] += thread->held *= share;
	sum += all[0] + all[1] + all[2];
	if (isnan(*shortage)) {
		*limit = fmin(*limit, sum);
		*shortage = sum - *limit;
	}
	off = fmin(*limit, fmax(0, sum - *shortage));
	trace->unknown = *shortage;
	for (int order = 0; order < 3; order++) {
		double left = all[order] > off ? 1 - off / all[order] : 0;

		off = fmax(0, off - all[order]);
		for (struct thread *thread = trace->threads; thread; thread = thread->next)
			if (take_order(trace, thread) == order)
				trace->unknown -= thread->held *= left;
	}
	trace->unknown = fmax(0, trace->unknown);
}

static int by_held(const void *a, const void *b)
{
	double x = (*(struct thread *const *)a)->held, y = (*(struct thread *const *)b)->held;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Threads of the same program and cgroup are one; returns how many there are. */
static int find_holders(struct trace *trace, struct thread ***holders)
{
	int count = 0, i;

	*holders = NULL;
	for (struct thread *thread = trace->threads; thread; thread = thread->next) {
		for (i = 0; i < count; i++)
			if (!strcmp((*holders)[i]->name, thread->name) &&
			    !strcmp((*holders)[i]->group ?: "", thread->group ?: ""))
				break;
		if (i < count) {
			(*holders)[i]->held += thread->held;
		} else if (thread->held > 0) {
			*holders = grow(*holders, count, sizeof(struct thread *));
			(*holders)[count++] = thread;
		}
	}
	if (count)
		qsort(*holders, count, sizeof(struct thread *), by_held);
	return count;
}

static void add_row(struct table *table, const char *program, const char *group, double held,
		    double all)
{
	struct cell *cell;

	if (held < 0.0005)
		return;
	cell = table_row(table);
	cell[0].text = text_of("%s", program);
	cell[1].text = text_of("%s", group ?: "");
	cell[2].number = held;
	cell[3].number = 100 * held / all;
}

static void fill_holders(struct report *report, struct trace *trace, double shortage, double limit)
{
	struct table *table = report_table(report, "holders", "What had the CPU meanwhile:",
					   holder_columns, ARRAY_SIZE(holder_columns));
	struct thread **holders;
	int count = find_holders(trace, &holders), i;
	double others = 0;

	for (i = 0; i < count && (opt_json || i < ROWS); i++)
		add_row(table, holders[i]->name, holders[i]->group, holders[i]->held, shortage);
	for (; i < count; i++)
		others += holders[i]->held;
	add_row(table, "(others)", "", others, shortage);
	add_row(table, "(not known)", "", trace->unknown, shortage);
	add_row(table, "(held by a limit)", "", limit, NAN);
	if (count && holders[0]->held >= 0.005)
		report_say(report, "%s of %s had it most: %.2f s.", holders[0]->name,
			   holders[0]->group ?: "no cgroup", holders[0]->held);
	free(holders);
}

/* @shortage: s in which tasks waited that no limit held, or NAN; @limit: s in which one did */
static void fill_report(struct report *report, struct trace *trace, double shortage, double limit)
{
	double seconds = trace->to - trace->from;

	settle(trace, &shortage, &limit);
	report_fact(report, "seconds", FMT_SECONDS, seconds);
	report_fact_text(report, "cgroup", *trace->group ? trace->group : "system");
	report_fact(report, "shortage_s", FMT_SECONDS, shortage);
	report_fact(report, "limit_s", FMT_SECONDS, limit);
	report_fact(report, "unknown_s", FMT_SECONDS, trace->unknown);
	report_say(report, "cpu: tasks of %s waited %.2f of the last %.1f s for a CPU that "
		   "something else had.", *trace->group ? trace->group : "the machine", shortage,
		   seconds);
	fill_holders(report, trace, shortage, limit);
	if (trace->lost)
		report_note(report, "%ld events were lost, with what they say", trace->lost);
}

/* Measure */

/* A tracing instance of our own, and its events. */
static char *instance;
static FILE *lines;

/* With its events on, it would slow the machine down for ever. */
static void close_trace(void)
{
	if (lines)
		fclose(lines);
	lines = NULL;
	rmdir(instance);
}

/* A signal ends the measurement and not the program, which removes its instance. */
void end_by_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		sigaction(ending[i], &(struct sigaction){ .sa_handler = end }, NULL);
}

static void open_trace(void)
{
	int error;

	end_by_signals();
	instance = text_of(TRACING "/instances/pressure-why-%d", getpid());
	error = mkdir(instance, 0700) ? -errno : 0;
	atexit(close_trace);
	for (size_t i = 0; !error && i < ARRAY_SIZE(events); i++) {
		char *file = text_of("events/%s/enable", events[i]);

		error = cgroup_write(instance, file, "1");
		free(file);
	}
	error = error ?: cgroup_write(instance, "trace_clock", "mono");
	if (!error) {
		char *name = text_of("%s/trace_pipe", instance);

		lines = fdopen(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK), "r");
		error = lines ? 0 : -errno;
		free(name);
	}
	if (error)
		die("--cpu takes root, and the events of the scheduler in tracefs (mount -t "
		    "tracefs none " TRACING "): %s", strerror(-error));
}

/* Those until a time; there may always be more. */
static void drain(struct trace *trace, FILE *file, double until)
{
	struct event event = { .name = "" };
	static char *line;
	static size_t room;

	while (trace->at <= until && getline(&line, &room, file) > 0)
		do_line(trace, &event, line);
	end_event(trace, &event);
	clearerr(file);
}

/* The cgroup that lost most until now, and lost it itself; "" for the machine. */
static char *find_group(void)
{
	struct snapshot from, to;
	const struct load *load;
	struct loads loads;
	char *group;

	snapshot_take(&from, NULL, true, false, NULL);
	sleep_with_progress(ASKED, "looking for the cgroup");
	snapshot_take(&to, NULL, true, false, NULL);
	loads_make(&loads, &from, &to);
	group = text_of("%s", find_culprits(&loads, PSI_CPU, &load, 1) ? load->name : "");
	free(loads.load);
	snapshot_free(&from);
	snapshot_free(&to);
	return group;
}

static void look(struct group *group, const char *directory, const char *name)
{
	struct evidence one;
	char *path;

	if (!read_group(group, *name ? directory : NULL))
		die("the pressure of %s cannot be read", *name ? name : "the machine");
	/* Each of those that contain it may have a limit. */
	group->evidence.count[EVIDENCE_THROTTLED] = 0;
	for (path = text_of("%s", directory); strlen(path) > strlen(directory) - strlen(name);
	     *strrchr(path, '/') = 0) {
		evidence_read(&one, path, 1 << EVIDENCE_CPU);
		if (!isnan(one.count[EVIDENCE_THROTTLED]))
			group->evidence.count[EVIDENCE_THROTTLED] += one.count[EVIDENCE_THROTTLED];
	}
	free(path);
}

static double grown(const struct group *from, const struct group *to, int class)
{
	const struct totals *old = &from->totals[PSI_CPU], *new = &to->totals[PSI_CPU];

	return new->known[class][PSI_SOME] ?
	       (new->us[class][PSI_SOME] - old->us[class][PSI_SOME]) / 1e6 : NAN;
}

static void measure(struct trace *trace, struct group *from, struct group *to,
		    const char *directory, double seconds)
{
	double until;

	look(from, directory, trace->group);
	trace->from = from->time;
	until = from->time + measurable(seconds, from->totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME]);
	while (!over && now() < until) {
		progress("measuring: %.1f of %.1f s", now() - trace->from, until - trace->from);
		drain(trace, lines, now());
		sleep_until(fmin(now() + DRAIN, until));
	}
	progress_end();
	look(to, directory, trace->group);
	trace->to = to->time;
	cgroup_write(instance, "tracing_on", "0");
	drain(trace, lines, trace->to);
	pass_time(trace, trace->to);
	/* A reader of the report that is gone ends this program at once. */
	close_trace();
}

/**
 * why_cpu() - what had the CPUs while tasks of a cgroup waited for one
 * @name: path of the cgroup below the mount; NULL for that which lost most
 * @seconds: how long to measure
 */
void why_cpu(const char *name, double seconds)
{
	char directory[PATH_MAX], *group = name ? text_of("%s", name) : find_group();
	struct report report = { 0 };
	struct group from, to;
	struct trace trace;
	double limit;

	cgroup_find_or_die(directory, group);
	look(&from, directory, group);
	if (name && from.totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME])
		sleep_with_progress(ASKED, "the kernel begins to tell limit from shortage");
	open_trace();
	trace_begin(&trace, group);
	measure(&trace, &from, &to, directory, seconds);
	if (*group && is_other(&from, &to))
		die("%s began anew while it was measured: try again", group);
	limit = grown(&from, &to, PSI_LIMIT);
	if (isnan(limit))
		limit = (to.evidence.count[EVIDENCE_THROTTLED] -
			 from.evidence.count[EVIDENCE_THROTTLED]) / 1e6 * share_of(&trace);
	fill_report(&report, &trace, grown(&from, &to, PSI_SHORTAGE), limit);
	note_missing(&report, from.totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME]);
	report_print(stdout, &report);
	report_free(&report);
	trace_end(&trace);
	free(group);
}
