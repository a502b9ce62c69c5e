// SPDX-License-Identifier: GPL-2.0
/* pressure on: a program at each event, or when a level is entered and left. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pressure.h"

#define LEVEL_WINDOW	2	/* s; as in libpsi */

struct look {
	double time;
	double total;
};

/**
 * struct handler - what happens at an event
 * @what: the trigger, or the file of the service manager
 * @command: to run; its first word may be NULL
 * @out: where events are printed; NULL for nowhere
 * @resource: the resource
 * @trigger: the trigger; its window is 0 if the service manager did not tell it
 * @service: what is watched is the file of the service manager
 * @directory: of the cgroup, or NULL for the system
 * @level: events are those of a level
 * @event: number of the last event
 * @recorded: events are those of a record
 * @total: of the trigger's line at the last event or the beginning of the record, in us
 * @time: when that was
 * @whose: pressure it is, where it is of no cgroup; else WHOSE_MACHINE
 * @look: looks at the trigger's line in it, since its totals began
 * @looks: how many
 */
struct handler {
	const char *what;
	char **command;
	FILE *out;
	enum psi_resource resource;
	struct psi_trigger trigger;
	bool service;
	const char *directory;
	bool level;
	long event;
	bool recorded;
	double total;
	double time;
	enum whose whose;
	struct look *look;
	int looks;
};

static void set_number(const char *name, double number)
{
	char *text = text_of("%.0f", number);

	setenv(name, text, 1);
	free(text);
}

static void set_variables(const struct handler *handler, const char *state, const char *when,
			  double us, double seconds)
{
	static const char * const optional[] = {
		"PRESSURE_TRIGGER", "PRESSURE_THRESHOLD_US", "PRESSURE_WINDOW_US",
		"PRESSURE_AMOUNT_US", "PRESSURE_OVER_US",
	};

	set_number("PRESSURE_EVENT", handler->event);
	setenv("PRESSURE_STATE", state, 1);
	setenv("PRESSURE_TIME", when, 1);
	setenv("PRESSURE_RESOURCE", psi_resource_name(handler->resource), 1);
	/* Of the event before, or of another pressure on that runs this one. */
	for (size_t i = 0; i < ARRAY_SIZE(optional); i++)
		unsetenv(optional[i]);
	if (!handler->trigger.window_us)
		return;
	if (!handler->service)
		setenv("PRESSURE_TRIGGER", handler->what, 1);
	set_number("PRESSURE_THRESHOLD_US", handler->trigger.stall_us);
	set_number("PRESSURE_WINDOW_US", handler->trigger.window_us);
	if (isnan(us))
		return;
	set_number("PRESSURE_AMOUNT_US", us);
	set_number("PRESSURE_OVER_US", seconds * 1e6);
}

static void run_command(char **command)
{
	pid_t pid = run_program(command, NULL);
	int status = NOT_RUN;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	status = status_of(status);
	if (status == 126 || status == 127)
		exit(status);
}

/* @us: what stalled in @seconds, NAN if that is not known; @at: when the event was */
static void handle(struct handler *handler, const char *state, double us, double seconds,
		   double at)
{
	char *when = time_text(handler->recorded ? at : time(NULL), handler->recorded);
	struct report report = { 0 };

	handler->event++;
	if (*handler->command) {
		set_variables(handler, state, when, us, seconds);
		run_command(handler->command);
	}
	report_say(&report, "Event %ld: %s%s%s%s%s%s%s", handler->event, handler->what,
		   handler->level ? ", " : "", handler->level ? state : "",
		   handler->whose ? ", " : "", handler->whose ? whose_places[handler->whose] : "",
		   handler->recorded ? ", at " : "", handler->recorded ? when : "");
	report_fact(&report, "event", FMT_COUNT, handler->event);
	report_fact_text(&report, "what", handler->what);
	report_fact_text(&report, "state", state);
	report_fact(&report, "amount_s", FMT_SECONDS, us / 1e6);
	report_fact(&report, "over_s", FMT_SECONDS, seconds);
	report_fact_text(&report, "time", when);
	if (handler->out)
		report_print(handler->out, &report);
	report_free(&report);
	free(when);
}

static struct psi_watch *follow_service(struct handler *handler, bool anywhere)
{
	static const char * const variables[][2] = {
		{ "CPU_PRESSURE_WATCH", "CPU_PRESSURE_WRITE" },
		{ "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE" },
		{ "IO_PRESSURE_WATCH", "IO_PRESSURE_WRITE" },
	};
	const char * const *names = variables[handler->resource], *path = getenv(names[0]);
	struct psi_watch *watch;
	/* The command is told the amount. */
	int error = psi_watch_service(&watch, handler->resource, PSI_WATCH_AMOUNT |
				      (anywhere ? PSI_WATCH_ANYWHERE : 0));

	if (error == -ENOENT && (!path || !*path))
		die("no trigger, and the service manager set no variable: write\n"
		    "  pressure on 'memory some 150ms/2s' -- COMMAND");
	if (error == -ECANCELED)
		die("the service manager wants no pressure to be watched (/dev/null)");
	if (error == -EXDEV)
		die("%s is of another cgroup, so it was inherited: unset it, or say --anywhere",
		    path);
	if (error == -EBADMSG)
		die("the variable with what to write is no Base64 of a trigger");
	if (error)
		die("%s: %s", path, explain(error));
	handler->what = text_of("%s", path);
	handler->service = true;
	/* What is read here, the command shall not take away.  Each may watch a file. */
	for (int i = 0; i < 2 && psi_watch_events(watch) == POLLIN; i++)
		unsetenv(names[i]);
	if (!psi_watch_threshold(watch, &handler->trigger, sizeof(handler->trigger)))
		handler->resource = handler->trigger.resource;
	return watch;
}

static void parse_trigger(struct handler *handler, double leave)
{
	struct psi_trigger *trigger = &handler->trigger;

	if (psi_trigger_parse(handler->what, trigger, sizeof(*trigger)))
		die("'%s' is no trigger: write it as 'memory some 150ms/2s'", handler->what);
	if (trigger->resource == PSI_IRQ && (trigger->klass || trigger->kind == PSI_SOME))
		die("'%s': irq has only full, and no class: write it as 'irq full 100ms/2s'",
		    handler->what);
	handler->resource = trigger->resource;
	handler->level = leave >= 0;
	if (leave * 1e6 >= trigger->stall_us)
		die("--leave: it must be less than the threshold of '%s'", handler->what);
}

static bool is_off(const char *directory)
{
	char *path = text_of("%s/cgroup.pressure", directory), text[16];

	read_text(path, text, sizeof(text));
	free(path);
	return *text == '0';
}

/* Why there is no file to arm the trigger in. */
static void explain_missing(const struct handler *handler)
{
	const char *directory = handler->directory;
	char path[PATH_MAX];

	if (directory && is_off(directory))
		die("'%s': pressure of this cgroup is switched off: write 1 to %s/cgroup.pressure",
		    handler->what, directory);
	/* Where the plain file is missing, too, it is not for want of classes. */
	if (handler->trigger.klass != PSI_PLAIN &&
	    !psi_path(path, sizeof(path), directory, handler->resource) && !access(path, F_OK))
		die("this kernel has no %s: leave out '%s'",
		    directory ? "cgroup.pressure.stat" : "/proc/pressure/stat",
		    psi_class_name(handler->trigger.klass));
}

static void warn_of_undefined(const struct handler *handler, enum whose whose)
{
	if (is_undefined(&handler->trigger, handler->directory, whose))
		complain("'%s': full of cpu is undefined for the machine, so events mean nothing "
			 "and may never come: write some, or add --cgroup", handler->what);
}

static struct psi_watch *arm(const struct handler *handler)
{
	const char *text = handler->what;
	struct psi_watch *watch;
	int error;

	error = psi_watch_trigger(&watch, text, handler->directory);
	if (error == -EINVAL)
		die("the kernel refuses '%s': a window has 0.5s to 10s; without "
		    "CAP_SYS_RESOURCE it is a multiple of 2s",
		    text);
	if (error == -ENOENT)
		explain_missing(handler);
	if (error)
		die("'%s': %s", text, explain(error));
	return watch;
}

static int wait_events(struct handler *handler, struct psi_watch *watch, long count, double timeout)
{
	double end = now() + timeout;

	while (!count || handler->event < count) {
		double left = end - now();
		unsigned long long stall, over;
		int result;
		bool known;

		/* Also if the next event came while the command ran. */
		if (timeout > 0 && left <= 0)
			return STATUS_NO;
		result = psi_watch_wait(watch, timeout > 0 ? poll_ms(left) : -1);
		if (!result || result == -EINTR)
			continue;
		if (result < 0)
			die("%s: no more events: %s", handler->what, explain(result));
		known = !psi_watch_amount(watch, &stall, &over);
		handle(handler, result == PSI_LEFT ? "left" : handler->level ? "entered" : "event",
		       known ? stall : NAN, known ? over / 1e6 : NAN, now());
	}
	return STATUS_OK;
}

/* What was recorded */

/*
 * What grew in the time before the last look, in us.  Between two looks it grew evenly:
 * in some window of that time it grew so much at least.
 */
static double grown(const struct handler *handler, double seconds)
{
	const struct look *last = &handler->look[handler->looks - 1], *look = last;
	double time = last->time - seconds, part;

	while (look > handler->look && look->time > time)
		look--;
	if (look == last || look->time >= time)
		return last->total - look->total;
	part = (time - look->time) / (look[1].time - look->time);
	return last->total - look->total - part * (look[1].total - look->total);
}

static double total_of(const struct handler *handler, const struct group *group)
{
	const struct psi_trigger *trigger = &handler->trigger;
	const struct totals *totals = &group->totals[trigger->resource];

	if (!totals->known[trigger->klass][trigger->kind])
		die("'%s': this was not recorded, or the kernel did not tell it", handler->what);
	return totals->us[trigger->klass][trigger->kind];
}

/* What comes of the last look: as the kernel tells it, and psi_watch_level(); or NULL. */
static const char *event_of(const struct handler *handler, double leave, bool entered)
{
	double window = handler->trigger.window_us / 1e6, level = fmax(window, LEVEL_WINDOW);
	double passed = handler->look[handler->looks - 1].time - handler->time;

	if (entered)
		return passed >= level && grown(handler, level) <= leave * 1e6 ? "left" : NULL;
	/* It is quiet for one window, and a look may come a little early. */
	if ((handler->event && !handler->level && passed < 0.95 * window) ||
	    grown(handler, window) < handler->trigger.stall_us)
		return NULL;
	return handler->level ? "entered" : "event";
}

static int replay_events(struct handler *handler, struct samples *samples, double leave,
			 long count, double timeout)
{
	struct look *look = NULL;
	const char *state;
	bool entered = false;
	struct group group;
	double end = 0;

	while ((!count || handler->event < count) && samples_next(samples, &group, INFINITY)) {
		if (!look) {
			end = group.time + timeout;
			handler->whose = *samples->name ? WHOSE_MACHINE : samples->whose;
		}
		if (timeout > 0 && group.time > end)
			return STATUS_NO;
		if (samples->anew)
			handler->looks = 0;
		handler->look = grow(handler->look, handler->looks, sizeof(*look));
		look = &handler->look[handler->looks++];
		*look = (struct look){ group.time, total_of(handler, &group) };
		if (samples->anew) {
			handler->total = look->total;
			handler->time = look->time;
			continue;
		}
		state = event_of(handler, leave, entered);
		if (!state)
			continue;
		entered = !strcmp(state, "entered");
		handle(handler, state, look->total - handler->total, look->time - handler->time,
		       look->time);
		handler->total = look->total;
		handler->time = look->time;
	}
	free(handler->look);
	return count && handler->event < count ? STATUS_NO : STATUS_OK;
}

/* The standard output, for events only: what the command prints goes to the standard error. */
static FILE *own_output(void)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		die("cannot write to the standard output: %s", strerror(errno));
	return out;
}

static enum psi_resource resource_or_die(const char *name)
{
	for (int resource = 0; resource < PSI_IRQ; resource++)
		if (!strcmp(name, psi_resource_name(resource)))
			return resource;
	die("--resource: '%s' is none of cpu, memory and io", name);
}

int verb_on(int argc, char **argv)
{
	const char *cgroup = NULL, *resource = NULL, *output = NULL;
	struct span span = SPAN_NONE;
	double timeout = 0, leave = -1;
	bool anywhere = false;
	long count = 0;
	struct handler handler = { .resource = PSI_MEMORY };
	const struct opt opts[] = {
		{ "cgroup", OPT_TEXT, &cgroup, "CGROUP", "watch this cgroup; . is your own" },
		{ "leave", OPT_TIME, &leave, "TIME",
		  "also run when a window has no more than TIME" },
		{ "count", OPT_NUMBER, &count, "N", "end after N events" },
		{ "timeout", OPT_DURATION, &timeout, "TIME",
		  "give up after this time, with status 1" },
		{ "resource", OPT_TEXT, &resource, "NAME",
		  "cpu, memory or io, where there is no trigger" },
		{ "anywhere", OPT_FLAG, &anywhere, NULL,
		  "also the file of a cgroup that is not yours" },
		{ "output", OPT_TEXT, &output, "FILE",
		  "write the events there, not to the standard output" },
		SPAN_OPTS(span),
		{ 0 }
	};
	char directory[PATH_MAX];
	struct samples samples;
	struct psi_watch *watch;
	int status;

	/* The trigger may come first. */
	if (argc > 1 && argv[1][0] != '-') {
		handler.what = argv[1];
		argv[1] = argv[0];
		argc--, argv++;
	}
	handler.command = parse_options(argc, argv, opts,
					"on ['memory some 150ms/2s'] [OPTIONS] [-- COMMAND]");
	if (!handler.what && *handler.command && strcmp(handler.command[-1], "--"))
		handler.what = *handler.command++;
	if (*handler.command && !strcmp(*handler.command, "--"))
		handler.command++;
	if (handler.what && (resource || anywhere))
		die("--resource and --anywhere say which variable of the service manager to "
		    "follow: leave them out, or leave out the trigger");
	if (!handler.what && (cgroup || leave >= 0 || span_given(&span)))
		die("--%s wants a trigger: pressure on 'memory some 150ms/2s'",
		    cgroup ? "cgroup" : leave >= 0 ? "leave" : "record");
	if (resource)
		handler.resource = resource_or_die(resource);
	if (handler.what)
		parse_trigger(&handler, leave);
	handler.out = output ? open_or_die(output) : !*handler.command ? stdout :
		      opt_json ? own_output() : NULL;
	if (span_given(&span)) {
		handler.recorded = true;
		samples_open(&samples, &span, cgroup);
		if (!cgroup)
			warn_of_undefined(&handler, samples.whose);
		status = replay_events(&handler, &samples, leave, count, timeout);
		samples_close(&samples);
		return status;
	}
	if (cgroup) {
		cgroup_find_or_die(directory, cgroup);
		handler.directory = directory;
	}
	if (handler.what && !cgroup)
		handler.whose = whose_pressure();
	if (handler.what)
		warn_of_undefined(&handler, handler.whose);
	watch = handler.what ? arm(&handler) : follow_service(&handler, anywhere);
	/* Only its own sentences say whose it is. */
	if (!handler.out && handler.whose)
		complain("'%s' is pressure %s", handler.what, whose_places[handler.whose]);
	if (handler.level)
		psi_watch_level(watch, leave * 1e6);
	return wait_events(&handler, watch, count, timeout);
}
