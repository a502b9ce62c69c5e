// SPDX-License-Identifier: GPL-2.0
/* pressure wait: a gate; pressure on: a program at each event. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pressure.h"

#define STEP		0.5	/* s; between looks at totals */
#define STEP_OLD	2	/* where the kernel only adds them up every 2 s */

static void find_or_die(char *path, const char *name)
{
	int error = cgroup_find(path, PATH_MAX, name);

	if (error)
		die("there is no cgroup '%s' (%s); systemd-cgls lists them", name, explain(error));
}

/* "memory some 10%", whose first part is that of a trigger. */
static double parse_threshold(const char *text, struct psi_trigger *trigger)
{
	const char *last = text ? strrchr(text, ' ') : NULL;
	char *end = NULL, *start = last ? text_of("%.*s 1s/1s", (int)(last - text), text) : NULL;
	double percent = last ? strtod(last, &end) : 0;
	bool bad = !last || end == last || strcmp(end, "%") || !(percent > 0 && percent <= 100) ||
		   psi_trigger_parse(start, trigger);

	free(start);
	if (bad)
		die("--below: write it as 'memory some 10%%' or 'io shortage full 0.5%%'");
	return percent;
}

static double pressure_since(struct group *old, const char *directory,
			     const struct psi_trigger *which)
{
	struct group new;
	struct load load;
	double percent;

	if (!read_group(&new, directory))
		die("%s pressure: the files vanished; was the cgroup removed or PSI switched off?",
		    psi_resource_names[which->resource]);
	new.name = NULL;
	load_make(&load, old, &new);
	*old = new;
	percent = load.percent[which->resource][which->klass][which->kind];
	if (isnan(percent))
		die("this kernel does not tell '%s %s %s' here; 'pressure doctor' lists what it has",
		    psi_resource_names[which->resource], psi_class_names[which->klass],
		    psi_kind_names[which->kind]);
	return percent;
}

static int report_wait(bool reached, double percent, double seconds)
{
	struct report report = { 0 };

	report_say(&report, reached ? "Reached after %.1f s: pressure is %.1f %%." :
		   "Not reached in %.1f s: pressure is %.1f %%.", seconds, percent);
	report_fact_text(&report, "result", reached ? "reached" : "timeout");
	report_fact(&report, "pressure_pct", FMT_PERCENT, percent);
	report_fact(&report, "seconds", FMT_SECONDS, seconds);
	report_print(stdout, &report);
	report_free(&report);
	return reached ? STATUS_OK : STATUS_NO;
}

static int wait_below(const char *directory, const struct psi_trigger *which, double limit,
		      double hold, double timeout)
{
	double begin = now(), below = 0, percent, step, before;
	struct group group = { 0 };

	if (!read_group(&group, directory))
		die("no pressure can be read here; 'pressure doctor' tells why");
	step = group.totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME] ? STEP : STEP_OLD;
	do {
		before = group.time;
		if (timeout > 0 && begin + timeout - before < step)
			step = begin + timeout - before;
		if (sleep_with_progress(step, "waiting"))
			die("interrupted");
		percent = pressure_since(&group, directory, which);
		below = percent < limit ? below + group.time - before : 0;
		if (percent < limit && below >= hold)
			return report_wait(true, percent, now() - begin);
	} while (timeout <= 0 || now() < begin + timeout);
	return report_wait(false, percent, now() - begin);
}

int verb_wait(int argc, char **argv)
{
	const char *below = NULL, *cgroup = NULL;
	double hold = 0, timeout = 0, limit;
	struct psi_trigger which;
	char directory[PATH_MAX];
	const struct opt opts[] = {
		{ "below", OPT_TEXT, &below, "WHAT", "such as 'memory some 10%'" },
		{ "for", OPT_TIME, &hold, "TIME", "how long it must stay below (one look)" },
		{ "timeout", OPT_TIME, &timeout, "TIME", "give up, with exit status 1 (never)" },
		{ "cgroup", OPT_TEXT, &cgroup, "CGROUP", "of this cgroup; . is the own one" },
		{ 0 }
	};

	if (*parse_options(argc, argv, opts,
			   "wait --below 'memory some 10%' [--for 5s] [--timeout 1m]"))
		die("wait takes no arguments; 'pressure wait --help' shows how to use it");
	limit = parse_threshold(below, &which);
	if (cgroup)
		find_or_die(directory, cgroup);
	return wait_below(cgroup ? directory : NULL, &which, limit, hold, timeout);
}

static void run_at_event(char **command, const char *what, long event)
{
	struct report report = { 0 };
	int status;
	pid_t pid;
	char *text = text_of("%ld", event);

	setenv("PRESSURE_EVENT", text, 1);
	free(text);
	if (*command) {
		pid = run_program(command, NULL);
		waitpid(pid, &status, 0);
		status = status_of(status);
		if (status == 126 || status == 127)
			exit(status);
	}
	if (!*command || opt_json) {
		report_say(&report, "Event %ld: %s", event, what);
		report_fact(&report, "event", FMT_COUNT, event);
		report_fact_text(&report, "what", what);
		report_print(stdout, &report);
		report_free(&report);
	}
}

static void watch_or_die(struct psi_watch *watch, enum psi_resource resource, bool anywhere)
{
	int error = psi_watch_open(resource, anywhere ? PSI_WATCH_ANYWHERE : 0, watch);

	if (error == -ENOENT && !*watch->path)
		die("no trigger, and the service manager set no variable: write\n"
		    "  pressure on 'memory some 150ms/2s' -- COMMAND");
	if (error == -ECANCELED)
		die("the service manager wants no pressure to be watched (/dev/null)");
	if (error == -EXDEV)
		die("%s is of another cgroup, so it was inherited: unset it, or say --anywhere",
		    watch->path);
	if (error == -EBADMSG)
		die("the variable with what to write is no Base64 of a trigger");
	if (error)
		die("%s: %s", watch->path, explain(error));
}

static void arm_or_die(struct psi_watch *watch, const char *text, const char *cgroup)
{
	struct psi_trigger trigger;
	char directory[PATH_MAX];

	if (psi_trigger_parse(text, &trigger))
		die("'%s' is no trigger: write it as 'memory some 150ms/2s'", text);
	if (cgroup)
		find_or_die(directory, cgroup);
	watch->fd = psi_trigger_arm(&trigger, cgroup ? directory : NULL);
	if (watch->fd == -EINVAL)
		die("the kernel refuses '%s': a window has 0.5s to 10s; without "
		    "CAP_SYS_RESOURCE it is a multiple of 2s",
		    text);
	if (watch->fd == -ENOENT && trigger.klass != PSI_PLAIN)
		die("this kernel has no .pressure.stat files: leave out '%s'",
		    psi_class_names[trigger.klass]);
	if (watch->fd < 0)
		die("'%s': %s", text, explain(watch->fd));
	watch->type = PSI_WATCH_FILE;
	watch->events = POLLPRI;
}

static int wait_events(struct psi_watch *watch, const char *what, long count, double timeout,
		       char **command)
{
	double end = now() + timeout;
	int result;

	for (long event = 1; !count || event <= count; event++) {
		double left = end - now();

		result = psi_watch_wait(watch, timeout > 0 ? left > 0 ? left * 1000 : 0 : -1);
		if (!result)
			return STATUS_NO;
		if (result < 0)
			die("%s: no more events: %s", what, explain(result));
		run_at_event(command, what, event);
	}
	return STATUS_OK;
}

static enum psi_resource resource_or_die(const char *name)
{
	for (int resource = 0; resource < PSI_IRQ; resource++)
		if (!strcmp(name, psi_resource_names[resource]))
			return resource;
	die("--resource: '%s' is none of cpu, memory and io", name);
}

int verb_on(int argc, char **argv)
{
	const char *trigger = NULL, *cgroup = NULL, *resource = NULL;
	double timeout = 0;
	bool anywhere = false;
	long count = 0;
	struct psi_watch watch;
	const struct opt opts[] = { { "cgroup", OPT_TEXT, &cgroup, "CGROUP",
				      "of this cgroup; . is the own one" },
				    { "count", OPT_NUMBER, &count, "N", "end after N events" },
				    { "timeout", OPT_TIME, &timeout, "TIME",
				      "end after this time, with exit status 1" },
				    { "resource", OPT_TEXT, &resource, "NAME",
				      "without a trigger: cpu, memory or io" },
				    { "anywhere", OPT_FLAG, &anywhere, NULL,
				      "without a trigger: files of other cgroups, too" },
				    { 0 } };
	char **command;

	/* The trigger may come first. */
	if (argc > 1 && argv[1][0] != '-') {
		trigger = argv[1];
		argv[1] = argv[0];
		argc--, argv++;
	}
	command = parse_options(argc, argv, opts,
				"on ['memory some 150ms/2s'] [--cgroup CGROUP] [-- COMMAND]");
	if (!trigger && *command && strcmp(command[-1], "--"))
		trigger = *command++;
	if (*command && !strcmp(*command, "--"))
		command++;
	if (trigger && (resource || anywhere))
		die("--resource and --anywhere say which variable of the service manager to "
		    "follow: leave them out, or leave out the trigger");
	if (!trigger && cgroup)
		die("--cgroup wants a trigger: pressure on 'memory some 150ms/2s' --cgroup %s", cgroup);
	if (trigger)
		arm_or_die(&watch, trigger, cgroup);
	else
		watch_or_die(&watch, resource ? resource_or_die(resource) : PSI_MEMORY, anywhere);
	return wait_events(&watch, trigger ? trigger : watch.path, count, timeout, command);
}
