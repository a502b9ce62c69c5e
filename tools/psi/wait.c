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
 * @place: of which cgroup, for people; NULL for none
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

static double pressure_of(const struct load *load, const struct psi_trigger *which)
{
	double percent = which->klass == PSI_PLAIN ?
			 percent_of(load, which->resource, which->kind) :
			 load->percent[which->resource][which->klass][which->kind];

	if (isnan(percent))
		die("the kernel does not tell '%s' here, or it was not recorded: 'pressure "
		    "doctor' shows more", name_of(which));
	return percent;
}

static int report_wait(const struct goal *goal, bool reached, double percent, double below,
		       double seconds, const char *time, enum whose whose)
{
	struct report report = { 0 };
	char *name = name_of(&goal->trigger);

	report_say(&report, "%s %.1f s%s%s: %s of %s is %.1f %%.",
		   reached ? "Reached after" : "Not reached in", seconds, time ? ", at " : "",
		   time ?: "", name, goal->place ?: whose_names[whose], percent);
	if (!reached && goal->hold)
		report_say(&report, "It was below %g %% for the last %.1f of %g s.", goal->limit,
			   below, goal->hold);
	free(name);
	report_fact_text(&report, "result", reached ? "reached" : "timeout");
	report_fact(&report, "pressure_pct", FMT_PERCENT, percent);
	report_fact(&report, "seconds", FMT_SECONDS, seconds);
	report_fact(&report, "below_s", FMT_SECONDS, below);
	if (time)
		report_fact_text(&report, "time", time);
	report_print(stdout, &report);
	report_free(&report);
	return reached ? STATUS_OK : STATUS_NO;
}

static int wait_below(struct samples *samples, const struct goal *goal, double timeout)
{
	double begin = NAN, end = INFINITY, below = 0, percent = NAN;
	struct group old, new;
	bool reached = false;
	struct load load;

	while (!reached && samples_next(samples, &new, end)) {
		if (isnan(begin))
			begin = new.time;
		if (timeout > 0)
			end = begin + (samples->record ? timeout :
				       measurable(timeout, samples->step < 2));
		if (samples->anew) {
			below = 0;
		} else {
			load_make(&load, &old, &new);
			percent = pressure_of(&load, &goal->trigger);
			below = percent < goal->limit && !began_late(&load) ?
				below + new.time - old.time : 0;
		}
		reached = below > 0 && below >= goal->hold;
		old = new;
		if (new.time >= end)
			break;
	}
	if (isnan(percent))
		die("only one look in that time has %s", *samples->name ? samples->name :
		    "the machine");
	return report_wait(goal, reached, percent, below, new.time - begin,
			   samples->record ? time_text(old.time, true) : NULL,
			   samples->whose);
}

int verb_wait(int argc, char **argv)
{
	const char *below = NULL, *cgroup = NULL;
	struct goal goal = { 0 };
	struct span span = SPAN_NONE;
	struct samples samples;
	double timeout = 0;
	int status;
	const struct opt opts[] = {
		{ "below", OPT_TEXT, &below, "WHAT", "wait for less than this: 'memory some 10%'" },
		{ "for", OPT_TIME, &goal.hold, "TIME",
		  "it must stay below for so long (one look)" },
		{ "timeout", OPT_DURATION, &timeout, "TIME",
		  "give up, with exit status 1; at least 0.5s (never)" },
		{ "cgroup", OPT_TEXT, &cgroup, "CGROUP", "of this cgroup; . is your own" },
		SPAN_OPTS(span),
		{ 0 }
	};

	if (*parse_options(argc, argv, opts,
			   "wait --below 'memory some 10%' [--for 5s] [--timeout 1m]"))
		die("wait takes no arguments; 'pressure wait --help' shows how to use it");
	goal.limit = parse_threshold(below, &goal.trigger);
	if (timeout && timeout < LOOK)
		die("--timeout: at least %gs: pressure is that of some time", LOOK);
	if (timeout && timeout < goal.hold)
		die("--timeout: it ends before --for has passed");
	if (cgroup)
		goal.place = strcmp(cgroup, ".") ? cgroup : "the own cgroup";
	samples_open(&samples, &span, cgroup);
	if ((!samples.record || !cgroup) &&
	    is_undefined(&goal.trigger, samples.directory, samples.whose))
		die("--below: '%s': full of cpu is undefined for the machine: write some, or add "
		    "--cgroup", below);
	status = wait_below(&samples, &goal, timeout);
	samples_close(&samples);
	return status;
}
