/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pressure(1): what its files share
 *
 *   main.c       verbs                    report.c   what a verb found out
 *   options.c    command lines            text.c     ... for people
 *   sample.c     totals of all cgroups    json.c     ... for programs
 *   loads.c      their pressure           html.c     ... as a page
 *   cgroup.c     cgroups of our own       record.c, replay.c, ring.h   a record
 *   util.c       errors, time, progress   alone.c    a program without others
 *
 * A verb fills a report and ends with report_print(); text, JSON and HTML come
 * from the same report.
 */
#ifndef _PRESSURE_H
#define _PRESSURE_H

#include <math.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>

#include "libpsi.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define PRINTF(f, a)	__attribute__((format(printf, f, a)))

/* Exit status where a verb has no other meaning for it. */
enum { STATUS_OK = 0, STATUS_NO = 1, STATUS_ERROR = 2 };

/* Verbs */
int verb_show(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_top(int argc, char **argv);
int verb_wait(int argc, char **argv);
int verb_on(int argc, char **argv);
int verb_record(int argc, char **argv);
int verb_replay(int argc, char **argv);
int verb_pace(int argc, char **argv);
int verb_why(int argc, char **argv);
int verb_simulate(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_export(int argc, char **argv);

/* Options */
enum opt_type { OPT_FLAG, OPT_TEXT, OPT_TIME, OPT_DURATION, OPT_NUMBER };

/**
 * struct opt - an option of a verb; a table ends with one without a name
 * @name: long name
 * @type: how its argument is read; a duration is a time of more than 0, and a
 *	number is 1 at least
 * @value: bool, const char *, double (s), or long; by @type
 * @argument: what the help calls the argument
 * @help: one line
 */
struct opt {
	const char *name;
	enum opt_type type;
	void *value;
	const char *argument;
	const char *help;
};

extern bool opt_json;

char **parse_options(int argc, char **argv, const struct opt *opts, const char *synopsis);

/* Util */
void die(const char *format, ...) __attribute__((noreturn)) PRINTF(1, 2);
void complain(const char *format, ...) PRINTF(1, 2);
const char *explain(int error);
void *checked(void *memory);
void *grow(void *array, size_t count, size_t size);
char *vtext_of(const char *format, va_list arguments);
char *text_of(const char *format, ...) PRINTF(1, 2);
double now(void);
int sleep_until(double end);
int pid_fd(pid_t pid);
int poll_ms(double seconds);
bool obeys(int fd);
int sleep_with_progress(double seconds, const char *what);
void progress(const char *format, ...) PRINTF(1, 2);
void progress_end(void);
int read_text(const char *path, char *text, size_t size);
bool read_line(const char *file, char *line, size_t size);
int write_file(const char *path, const char *text);
bool exists(const char *format, ...) PRINTF(1, 2);
#define NOT_RUN	(126 << 8)	/* a wait status */
pid_t run_program(char **argv, const char *cgroup);
int status_of(int wait_status);
int take_signals(bool interrupt);
void give_signals(void);
FILE *open_or_die(const char *path);
void close_file(FILE *file, const char *path);

/* Reports */
enum format {
	FMT_NAME,
	FMT_WRAP,
	FMT_TEXT,
	FMT_PERCENT,
	FMT_SECONDS,
	FMT_COUNT,
	FMT_SPARK,
	FMT_MARK,
	FMT_JSON
};

/**
 * struct column - a column of a table, or a fact
 * @key: name in JSON; its end tells the unit: _pct, _s
 * @title: for people
 * @format: how a cell is shown; FMT_NAME takes the room that is left and is cut,
 *	FMT_WRAP, which is the last column, goes on in the next line; FMT_JSON is not for
 *	people
 * @drop: where room is short, columns with the highest number go first; those
 *	with 0 stay, even if nothing is known
 */
struct column {
	const char *key;
	const char *title;
	enum format format;
	int drop;
};

/**
 * struct cell - text, or a number
 * @text: allocated, or NULL
 * @number: NAN when it is not known
 */
struct cell {
	char *text;
	double number;
};

struct table {
	const char *key;
	const char *title;
	const struct column *columns;
	int nr_columns;
	struct cell *cells;
	int nr_rows;
	struct table *next;
};

struct fact {
	struct column column;
	struct cell cell;
};

/**
 * struct report - what a verb found out
 * @says: sentences, the verdict first
 * @nr_says: how many
 * @facts: single values, for JSON and HTML; text has them in its sentences
 * @nr_facts: how many
 * @tables: in order
 * @notes: what is missing, and what to do about it
 * @nr_notes: how many
 */
struct report {
	char **says;
	int nr_says;
	struct fact *facts;
	int nr_facts;
	struct table *tables;
	char **notes;
	int nr_notes;
};

void report_say(struct report *report, const char *format, ...) PRINTF(2, 3);
void report_note(struct report *report, const char *format, ...) PRINTF(2, 3);
void report_fact(struct report *report, const char *key, enum format format, double number);
void report_fact_text(struct report *report, const char *key, const char *text);
struct table *report_table(struct report *report, const char *key, const char *title,
			   const struct column *columns, int nr_columns);
struct cell *table_row(struct table *table);
void report_free(struct report *report);
void report_write(FILE *out, const struct report *report);
void report_print(FILE *out, const struct report *report);
void report_text(FILE *out, const struct report *report, int width);
void report_json(FILE *out, const struct report *report);

/* Text */
int screen_width(void);
bool use_utf8(void);
int text_width(const char *text);
char *spark(const double *percent, int count);
char *sane(const char *text);
int places_of(enum format format);

/* JSON */
int utf8_length(const char *text);
bool is_control(const char *text, int length);
char *valid_name(const char *name);
void json_string(FILE *out, const char *text);

/* Samples */
#define ASKED	2.2	/* s; in which a kernel begins to tell classes */

struct totals {
	bool known[PSI_CLASSES][PSI_KINDS];
	unsigned long long us[PSI_CLASSES][PSI_KINDS];
};

#define EVIDENCE_IO	4	/* bytes read and written, requests */

/* Of cpu, and of memory and io. */
enum evidence_kind { EVIDENCE_CPU, EVIDENCE_MEMORY, EVIDENCE_KINDS };
#define EVIDENCE_ALL	3	/* bits of them */

enum evidence_count {
	EVIDENCE_STALL,		/* of each kind: the stall while a record counted it, in us */
	EVIDENCE_THROTTLED = EVIDENCE_KINDS,	/* cpu.max held tasks, in us, all CPUs together */
	EVIDENCE_HIGH,		/* memory.high was hit, times */
	EVIDENCE_MAX,		/* memory.max was hit, times */
	EVIDENCE_REFAULTS,	/* bytes that were pushed out of memory and came back */
	EVIDENCE_READ,		/* bytes read from storage */
	EVIDENCE_IO_MAX,	/* a record: what io.max lets through only in so long, in us */
	EVIDENCE_COUNTS
};

static inline enum evidence_kind evidence_kind_of(int count)
{
	return count < EVIDENCE_KINDS ? (enum evidence_kind)count :
	       count == EVIDENCE_THROTTLED ? EVIDENCE_CPU : EVIDENCE_MEMORY;
}

/**
 * struct evidence - what other files count
 * @count: all of it; NAN for what is not known
 * @io_stat: the text, allocated, "" for none; NULL where nobody looked
 */
struct evidence {
	double count[EVIDENCE_COUNTS];
	char *io_stat;
};

/**
 * struct group - totals of a cgroup, or of the system, at one time
 * @name: path below the mount; "/" for the root; "" for the system
 * @time: when, in s
 * @totals: by resource
 * @evidence: if asked for
 * @since: of a record: at which look it came, or took the place of another one
 */
struct group {
	char *name;
	double time;
	struct totals totals[PSI_RESOURCES];
	struct evidence evidence;
	long since;
};

/* HTML */

/**
 * struct point - pressure in one step of a chart, in percent
 * @some: by resource
 * @limit: what of it a limit held; NAN where it is not known
 * @shortage: what of it no limit held; NAN where it is not known
 */
struct point {
	double some[PSI_RESOURCES];
	double limit[PSI_RESOURCES];
	double shortage[PSI_RESOURCES];
};

/**
 * struct series - pressure over time, for charts
 * @count: points
 * @step: seconds from one to the next; the last one may be shorter
 * @seconds: all together
 * @begin: when it began
 * @last: totals at the last point
 * @point: the points
 */
struct series {
	int count;
	double step;
	double seconds;
	double begin;
	struct group last;
	struct point *point;
};

void report_html(FILE *out, const struct report *report, const char *command,
		 const struct series *series);

/**
 * struct snapshot - groups, sorted by name
 * @groups: the system first, if wanted
 * @count: how many
 * @error: why the system could not be read, or 0
 * @stat: some file had classes
 * @evidence: read what other files count, too
 * @before: only of what stalled since then; NULL for all
 */
struct snapshot {
	struct group *groups;
	int count;
	int error;
	bool stat;
	bool evidence;
	const struct snapshot *before;
};

/**
 * struct load - pressure of a group between two snapshots
 * @name: as in struct group
 * @from: the older snapshot's
 * @to: the newer one's
 * @percent: of the time; NAN where it is not known
 */
struct load {
	const char *name;
	const struct group *from;
	const struct group *to;
	double percent[PSI_RESOURCES][PSI_CLASSES][PSI_KINDS];
};

struct loads {
	struct load *load;
	int count;
};

void take_totals(struct totals *totals, const struct psi_pressure *pressure, int resource);
bool read_group(struct group *group, const char *directory);
void visit_cgroups(char *path, size_t top,
		   void (*visit)(void *arg, const char *directory, const char *name), void *arg);
void snapshot_take(struct snapshot *snapshot, const char *top, bool system, bool evidence,
		   const struct snapshot *before);
void snapshot_climb(struct snapshot *snapshot, const char *directory);
void snapshot_free(struct snapshot *snapshot);
void loads_make(struct loads *loads, const struct snapshot *from, const struct snapshot *to);
void load_make(struct load *load, const struct group *from, const struct group *to);
double percent_of(const struct load *load, enum psi_resource resource, enum psi_kind kind);
double main_percent(const struct load *load, enum psi_resource resource);
bool began_late(const struct load *load);
bool is_other(const struct group *from, const struct group *to);
int by_group(const void *a, const void *b);
double lost(const struct group *from, const struct group *to, int resource, int class, int kind);
enum psi_resource worst_resource(const struct load *load);
double worst_percent(const struct load *load);
int loads_rank(const struct loads *loads, const struct load ***rank);
void note_missing(struct report *report, bool stat);
double measurable(double seconds, bool stat);
#define LOOK	0.5	/* s; the least that look_every() returns */
double look_every(const struct group *group);

/* Whose pressure /proc/pressure shows */
enum whose { WHOSE_MACHINE, WHOSE_HOST, WHOSE_CONTAINER, WHOSE_OTHER };
enum whose whose_pressure(void);
enum whose whose_loads(const struct loads *loads);
bool is_undefined(const struct psi_trigger *figure, const char *directory, enum whose whose);
extern const char * const whose_places[];
extern const char * const whose_names[];

/* What pressure record wrote */
#define RECORD_DIRECTORY	"/var/lib/pressure"
#define RECORD			RECORD_DIRECTORY "/record"

/**
 * struct span - a part of a record
 * @path: of the file; NULL for the usual one
 * @since: how long before the end of the record it begins, in s; negative for all
 * @until: how long before that it ends; negative for the end
 */
struct span {
	const char *path;
	double since;
	double until;
};

#define SPAN_NONE	((struct span){ NULL, -1, -1 })
#define SPAN_OPTS(span)								\
	{ "record", OPT_TEXT, &(span).path, "FILE", "what 'pressure record' wrote there" },	\
	{ "since", OPT_TIME, &(span).since, "TIME", "begin so long before the record's end" },	\
	{ "until", OPT_TIME, &(span).until, "TIME", "end so long before the record's end" }

bool span_given(const struct span *span);
bool span_try(const struct span *span, struct snapshot *from, struct snapshot *to);
void span_read(const struct span *span, struct snapshot *from, struct snapshot *to);
void die_of_span(const struct span *span) __attribute__((noreturn));
void note_record(struct report *report, double until);
char *time_text(double seconds, bool ms);

/**
 * struct samples - looks at one group: as it is now, or as a record has it
 * @directory: of the cgroup; NULL for the machine
 * @step: s from one look to the next; 0 before the first
 * @record: what is read, or NULL; then @directory and @step do not count
 * @name: of the group in the record
 * @boot: of the record, at the last look
 * @whose: pressure it is, where @name or @directory is that of the machine
 * @last: the last look at the record
 * @anew: there is nothing to compare the last look with: it is the first one, or the
 *	first after a boot, or of another cgroup of that name
 */
struct samples {
	char *directory;
	double step;
	struct record *record;
	char *name;
	int boot;
	enum whose whose;
	struct group last;
	bool anew;
};

void samples_open(struct samples *samples, const struct span *span, const char *cgroup);
bool samples_next(struct samples *samples, struct group *group, double until);
void samples_close(struct samples *samples);

/* What other files say */
#define EVIDENCE_TEXT	65536	/* a machine may have hundreds of disks */

const char *evidence_text(char *text, const char *directory, const char *file);
double evidence_number(const char *text, const char *key);
void evidence_io(double *io, const char *text);
void evidence_none(struct evidence *evidence);
void evidence_read(struct evidence *evidence, const char *directory, unsigned int kinds);
double io_max_asks(const char *directory, const char *from, const char *to);
char *find_limit(const struct loads *loads, const struct load *load, int resource, double *share);
char *find_cpuset(const struct load *load, int resource);

/* The verdict */
#define NOTHING		1	/* percent; below, nothing is worth a word */
#define LOCAL		10	/* percent; below, nothing is judged */

/**
 * struct judgement - what a stall is a matter of
 * @seen: the resource whose pressure is highest
 * @resource: the same; memory, where storage is read for lack of memory
 * @sure: false where nothing tells whether it is read for lack of memory
 */
struct judgement {
	enum psi_resource seen;
	enum psi_resource resource;
	bool sure;
};

/**
 * struct finding - what the verdict is about
 * @loads: of all cgroups, the system first
 * @load: what is slow: the system, or a cgroup
 * @culprit: the cgroup with most of it; @load if there is none
 * @judgement: of what
 */
struct finding {
	const struct loads *loads;
	const struct load *load;
	const struct load *culprit;
	struct judgement judgement;
};

struct judgement judge(const struct loads *loads, const struct load *load);
struct judgement judge_all(const struct loads *loads, const struct load *load,
			   const struct load *culprit);
const char *judged_name(const struct judgement *judgement);
struct finding find_worst(const struct loads *loads);
double limit_percent(const struct loads *loads, const struct load *load, int resource,
		     bool *inferred);
int find_culprits(const struct loads *loads, int resource, const struct load **culprits, int room);
char *place_of(const struct load *load);
void note_inferred(struct report *report, const char *files);
void verdict(struct report *report, const struct loads *loads, double seconds);

/* What a program lost */
void lost_report(struct report *report, const struct group *from, const struct group *to,
		 double seconds, const struct loads *limits);
struct psi_pressure *read_causes(const char *cgroup);
void causes_report(struct report *report, const char *cgroup, const struct psi_pressure *from);

/* How long a program would have taken alone */
#define DEVICES		16

/**
 * struct device - a disk that a program uses
 * @number: major:minor
 * @own: bytes read and written and requests, of the program
 * @all: requests of everybody
 * @queued: how long these took, in s, added up
 * @busy: how long there was one at least, in s
 * @rotates: it has one head, and so serves one request at a time
 */
struct device {
	char number[16];
	double own[EVIDENCE_IO];
	double all;
	double queued;
	double busy;
	bool rotates;
};

/**
 * struct worker - a thread of a program
 * @id: as in cgroup.threads
 * @run: CPU time, in ns
 * @delay: how long it waited for a CPU, in ns
 */
struct worker {
	int id;
	double run;
	double delay;
};

#define WORKERS		64	/* of a program; more are not looked at */

/**
 * struct watch - how long the threads of a program waited for CPUs in a step
 * @worker: those that were there when it looked last
 * @workers: how many
 * @time: when that was
 * @seconds: of the step, in which it knew threads that worked
 * @cpus: that threads which worked may use; 0 if not known
 * @worked: as many of these seconds as each thread that worked was there
 * @wait: how long these waited
 */
struct watch {
	struct worker worker[WORKERS];
	int workers;
	double time;
	int cpus;
	double seconds;
	double worked;
	double wait;
};

#define LEVELS		16	/* of cgroups; what is above is not looked at */

/**
 * struct use - what a program used up to a time
 * @time: when, in s
 * @cpu: CPU time of its own
 * @cpu_all: CPU time of everybody
 * @self: CPU time of this program, which looks
 * @throttled: how long cpu.max held it, added up over CPUs
 * @periods: of cpu.max of its cgroup and those above
 * @full_periods: in which it used up the quota
 * @levels: how many of these there are
 * @device: its disks
 * @devices: how many
 * @hits: of memory.high and memory.max, its own and those above
 * @own: what the disks did is counted for its cgroup alone
 * @file: bytes of files in memory, as far as they were read; NAN if not known
 */
struct use {
	double time;
	double cpu;
	double cpu_all;
	double self;
	double throttled;
	double periods[LEVELS];
	double full_periods[LEVELS];
	int levels;
	struct device device[DEVICES];
	int devices;
	double hits;
	bool own;
	double file;
};

/**
 * struct alone - a program that runs
 * @cgroup: its directory
 * @begin: when it began
 * @step: s from one look to the next
 * @watch: of its threads, more often than that
 * @start: up to its beginning
 * @use: up to the last step
 * @end: up to its end
 * @first: its pressure when it began
 * @last: its pressure up to the last step
 * @next: its pressure up to the step that ends now
 * @seconds: that it would have taken alone, up to the last step
 * @cpu: that others had its CPUs
 * @io: that others had its devices
 * @paused: of @cpu, what may be no loss, as tasks paused meanwhile
 * @guessed: a device served others at the same time
 */
struct alone {
	const char *cgroup;
	double begin;
	double step;
	struct watch watch;
	struct use start;
	struct use use;
	struct use end;
	struct group first;
	struct group last;
	struct group next;
	double seconds;
	double cpu;
	double io;
	double paused;
	bool guessed;
};

void alone_begin(struct alone *alone, const char *cgroup, const struct group *first);
double alone_step(struct alone *alone);
void alone_end(struct alone *alone);
void alone_report(struct alone *alone, struct report *report, const struct group *last);

/* Programs */
#define TRACING		"/sys/kernel/tracing"

const char *stat_field(const char *text, int field, char *name, size_t size);
void for_numbers(const char *path, void (*call)(void *data, int pid, int number), void *data,
		 int pid);
void end_by_signals(void);
void why_cpu(const char *name, double seconds);

/* Cgroups */
char *cgroup_of(const char *directory);
void cgroup_find_or_die(char *path, const char *name);
char *cgroup_name_or_die(const char *name);
int cgroup_make(char *path, size_t size, const char *name);
void cgroup_remove(const char *path, bool kill);
bool cgroup_populated(const char *path);
int cgroup_enter(const char *path);
int cgroup_for_tree(const char *path, int (*call)(const char *path, void *arg), void *arg);
int cgroup_signal(const char *path, int signal);
int cgroup_write(const char *path, const char *file, const char *text);

#endif /* _PRESSURE_H */
