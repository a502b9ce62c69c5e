// SPDX-License-Identifier: GPL-2.0
/* pressure wait: a gate. */
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

/**
 * struct goal - what is waited for
 * @trigger: of which resource, class and kind
 * @limit: percent that pressure is to be below
 * @hold: for how long, in s
 * @place: of which cgroup, for people
 */
struct goal {
	struct psi_trigger trigger;
	double limit;
	double hold;
	const char *place;
};

/* "memory some 10%", whose first part is that of a trigger. */
static double parse_threshold(const char *text, struct psi_trigger *trigger)
{
	const char *last = text ? strrchr(text, ' ') : NULL;
	char *end = NULL, *start = last ? text_of("%.*s 1s/1s", (int)(last - text), text) : NULL;
	double percent = last ? strtod(last, &end) : 0;
	bool bad = !last || end == last || strcmp(end, "%") ||
		   psi_trigger_parse(start, trigger, sizeof(*trigger));

	free(start);
	if (bad)
		die("--below: write it as 'memory some 10%%' or 'io shortage full 0.5%%'");
	if (!(percent > 0 && percent <= 100))
		die("--below: '%s': more than 0 and at most 100 %%", text);
	if (trigger->resource == PSI_IRQ && trigger->kind == PSI_SOME)
		die("--below: '%s': irq has only full", text);
	return percent;
}

static char *name_of(const struct psi_trigger *which)
{
	bool plain = which->klass == PSI_PLAIN;

	return text_of("%s%s%s %s", psi_resource_name(which->resource), plain ? "" : " ",
		       plain ? "" : psi_class_name(which->klass), psi_kind_name(which->kind));
}

static double pressure_since(struct group *old, const char *directory,
			     const struct psi_trigger *which, bool *late)
{
	struct group new;
	struct load load;
	double percent;

	if (!read_group(&new, directory))
		die("%s pressure: the files vanished; was the cgroup removed or PSI switched off?",
		    psi_resource_name(which->resource));
	new.name = NULL;
	load_make(&load, old, &new);
	*old = new;
	*late = began_late(&load);
	percent = which->klass == PSI_PLAIN ? percent_of(&load, which->resource, which->kind) :
		  load.percent[which->resource][which->klass][which->kind];
	if (isnan(percent))
		die("this kernel does not tell '%s' here: 'pressure doctor' shows more",
		    name_of(which));
	return percent;
}

static int report_wait(const struct goal *goal, bool reached, double percent, double below,
		       double seconds)
{
	struct report report = { 0 };
	char *name = name_of(&goal->trigger);

	report_say(&report, "%s %.1f s: %s of %s is %.1f %%.",
		   reached ? "Reached after" : "Not reached in", seconds, name, goal->place,
		   percent);
	if (!reached && goal->hold)
		report_say(&report, "It was below %g %% for the last %.1f of %g s.", goal->limit,
			   below, goal->hold);
	free(name);
	report_fact_text(&report, "result", reached ? "reached" : "timeout");
	report_fact(&report, "pressure_pct", FMT_PERCENT, percent);
	report_fact(&report, "seconds", FMT_SECONDS, seconds);
	report_fact(&report, "below_s", FMT_SECONDS, below);
	report_print(stdout, &report);
	report_free(&report);
	return reached ? STATUS_OK : STATUS_NO;
}

static int wait_below(const char *directory, const struct goal *goal, double timeout)
{
	double begin = now(), below = 0, percent, step, before;
	struct group group = { 0 };
	bool late;

	if (!read_group(&group, directory))
		die("no pressure can be read here; 'pressure doctor' tells why");
	step = look_every(&group);
	do {
		before = group.time;
		if (timeout > 0 && begin + timeout - before < step)
			step = begin + timeout - before;
		if (sleep_with_progress(step, "waiting"))
			die("interrupted");
		percent = pressure_since(&group, directory, &goal->trigger, &late);
		below = percent < goal->limit && !late ? below + group.time - before : 0;
		if (below > 0 && below >= goal->hold)
			return report_wait(goal, true, percent, below, now() - begin);
	} while (timeout <= 0 || now() < begin + timeout);
	return report_wait(goal, false, percent, below, now() - begin);
}

int verb_wait(int argc, char **argv)
{
	const char *below = NULL, *cgroup = NULL;
	struct goal goal = { .place = "the machine" };
	double timeout = 0;
	char directory[PATH_MAX];
	const struct opt opts[] = {
		{ "below", OPT_TEXT, &below, "WHAT", "wait for less than this: 'memory some 10%'" },
		{ "for", OPT_TIME, &goal.hold, "TIME",
		  "it must stay below for so long (one look)" },
		{ "timeout", OPT_DURATION, &timeout, "TIME",
		  "give up, with exit status 1 (never)" },
		{ "cgroup", OPT_TEXT, &cgroup, "CGROUP", "of this cgroup; . is your own" },
		{ 0 }
	};

	if (*parse_options(argc, argv, opts,
			   "wait --below 'memory some 10%' [--for 5s] [--timeout 1m]"))
		die("wait takes no arguments; 'pressure wait --help' shows how to use it");
	goal.limit = parse_threshold(below, &goal.trigger);
	if (timeout && timeout < goal.hold)
		die("--timeout: it ends before --for has passed");
	if (cgroup) {
		cgroup_find_or_die(directory, cgroup);
		goal.place = strcmp(cgroup, ".") ? cgroup : "the own cgroup";
	}
	return wait_below(cgroup ? directory : NULL, &goal, timeout);
}
