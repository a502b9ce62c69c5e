// SPDX-License-Identifier: GPL-2.0
/*
 * Triggers against an oracle: known stalls determine the events
 *
 * A reader stalls by a random plan. Many triggers with random thresholds and
 * windows are armed on these stalls at random times. Afterwards the judge
 * compares each event, and each time without an event, with the stalls.
 *
 * Invariants, for a trigger of @threshold in @window:
 *
 * (a) No false event: before an event there is a window of that length with
 *     that much stall. It begins after the trigger was armed and after its last
 *     event.
 * (b) No missed event: when the stall within nine tenths of a window reaches
 *     the threshold, an event comes within a tenth of a window, or when the
 *     quiet time ends. (Checks are a tenth of a window apart. So the first
 *     check after those nine tenths sees all of them in its window.)
 * (c) At most one event in a window.
 * (d) An event uses up the stall that it reports: stall before an event does
 *     not count for the next one. (a) and (b) have that, as they start again
 *     after each event.
 *
 *      stall      ##  ####            ##        ####  ##
 *      event            |               |              |
 *      quiet            |<- window ->|  |<- window ->|
 *
 * The clocks: let b be the reader's time before a read, e its time after, and L
 * the latency of the disk. The reader falls asleep after b and wakes up before
 * e. The disk's timer starts after b, so the sleep lasts until b + L at least.
 * It starts before e - L, so the sleep begins before e - L + SUBMIT. So a stall
 * is at most [b, e] and at least [e - L + SUBMIT, b + L]. (a) uses the former
 * and (b) the latter, and the stall needs no other tolerance. The reader has
 * the highest priority, so the two differ by little more than the reader's own
 * work.
 *
 * The test notes an event up to SEEN after it happened. A kernel timer may be
 * late by the rounding of its wheel: LATE.
 *
 * Models of the kernel show that the judge can fail: the judge accepts a model
 * that is right, and rejects models with one fault each.
 *
 * PSI_SEED=N in the environment makes other plans.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_trigger.h"

#define GROUP		CGROUP_ROOT "/psi_oracle"
#define OTHER_GROUP	CGROUP_ROOT "/psi_oracle_other"
#define SUBMIT		(200 * NSEC_PER_USEC)
#define SEEN		(2 * NSEC_PER_MSEC)
#define LATE(window)	(10 * NSEC_PER_MSEC + (window) / 100)

#define MAX_STALLS	4000
#define MAX_EVENTS	500
#define NR_TRIGGERS	128
#define ARMING		(20 * NSEC_PER_SEC)
#define DURATION	(200 * NSEC_PER_SEC)

/* ---- Random numbers ---- */

static __u64 random_state;

static __u64 seed(void)
{
	const char *text = getenv("PSI_SEED");

	return text ? strtoull(text, NULL, 0) : 1;
}

static void random_start(__u64 more)
{
	random_state = (seed() + 1) * 0x9e3779b97f4a7c15ULL ^ (more + 1) * 0xd1342543de82ef95ULL;
}

static __u64 random_below(__u64 limit)
{
	return random_u64(&random_state) % limit;
}

static __u64 random_between(__u64 low, __u64 high)
{
	return low + random_below(high - low + 1);
}

/* ---- Stalls ---- */

/**
 * struct interval - an interval of stall
 * @begin: its begin
 * @end: its end
 * @before: sum of stall before it
 */
struct interval {
	__u64 begin;
	__u64 end;
	__u64 before;
};

/* Ordered intervals that do not overlap. */
struct intervals {
	int nr;
	struct interval at[MAX_STALLS];
};

static void intervals_add(struct intervals *list, __u64 begin, __u64 end)
{
	struct interval *last = list->nr ? &list->at[list->nr - 1] : NULL;

	if (begin >= end)
		return;
	if (list->nr == MAX_STALLS)
		psi_die("too many stalls");
	list->at[list->nr++] = (struct interval){
		.begin = begin,
		.end = end,
		.before = last ? last->before + last->end - last->begin : 0,
	};
}

/* The first interval that ends after @time. */
static int interval_after(const struct intervals *list, __u64 time)
{
	int low = 0, high = list->nr;

	while (low < high) {
		int mid = (low + high) / 2;

		if (list->at[mid].end > time)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* Stall before @time. */
static __u64 stall_before(const struct intervals *list, __u64 time)
{
	int i = interval_after(list, time);
	const struct interval *at;

	if (i == list->nr) {
		at = &list->at[list->nr - 1];
		return list->nr ? at->before + at->end - at->begin : 0;
	}
	at = &list->at[i];
	return at->before + (time > at->begin ? time - at->begin : 0);
}

static __u64 stall_between(const struct intervals *list, __u64 from, __u64 to)
{
	return from < to ? stall_before(list, to) - stall_before(list, from) : 0;
}

/*
 * The most stall in any window between @from and @to. One of the best windows
 * begins with @from or a stall, or ends with a stall or @to.
 */
static __u64 most_stall(const struct intervals *list, __u64 window, __u64 from, __u64 to)
{
	__u64 most = 0;

	for (int i = interval_after(list, from); i <= list->nr; i++) {
		bool inside = i < list->nr && list->at[i].begin < to;
		__u64 end = inside && list->at[i].end < to ? list->at[i].end : to;
		__u64 begin = end > from + window ? end - window : from;
		__u64 sum = stall_between(list, begin, end);

		most = sum > most ? sum : most;
		if (!inside)
			break;
		begin = list->at[i].begin > from ? list->at[i].begin : from;
		end = begin + window < to ? begin + window : to;
		sum = stall_between(list, begin, end);
		most = sum > most ? sum : most;
	}
	return most;
}

/*
 * The first time at which the stall within @window reaches @threshold, without
 * stall from before @from; 0 if never. Within an interval the sum only grows.
 */
static __u64 threshold_reached(const struct intervals *list, __u64 window, __u64 threshold,
			       __u64 from)
{
	for (int i = interval_after(list, from); i < list->nr; i++) {
		__u64 low = list->at[i].begin > from ? list->at[i].begin : from;
		__u64 high = list->at[i].end;

		if (most_stall(list, window, high > from + window ? high - window : from,
			       high) < threshold)
			continue;
		while (low < high) {
			__u64 mid = (low + high) / 2;
			__u64 begin = mid > from + window ? mid - window : from;

			if (stall_between(list, begin, mid) >= threshold)
				high = mid;
			else
				low = mid + 1;
		}
		return high;
	}
	return 0;
}

/* ---- Triggers and the judge ---- */

/**
 * struct trigger - a trigger and its events
 * @path: its file
 * @full: it waits for full
 * @user: it belongs to an ordinary user
 * @never: nothing stalls in its group
 * @threshold: in ns
 * @window: in ns
 * @arm_at: planned time of arming, after the start
 * @arm_begin: time before it was armed
 * @arm_end: time after it was armed
 * @fd: its descriptor
 * @nr: number of events
 * @event: when the test collected them
 */
struct trigger {
	const char *path;
	bool full;
	bool user;
	bool never;
	__u64 threshold;
	__u64 window;
	__u64 arm_at;
	__u64 arm_begin;
	__u64 arm_end;
	int fd;
	int nr;
	__u64 event[MAX_EVENTS];
};

/**
 * struct stall_log - the stalls that there were
 * @most: upper bounds
 * @least: lower bounds
 * @start: origin of printed times
 * @end: the test waited for events until then
 */
struct stall_log {
	struct intervals most;
	struct intervals least;
	__u64 start;
	__u64 end;
};

enum fault { FALSE_EVENT, MISSED_EVENT, EVENT_TOO_EARLY, NR_FAULTS };

static const char * const fault_names[NR_FAULTS] = {
	"false event", "missed event", "second event within a window",
};

/* Of each fault. */
#define MAX_REPORTS 5

struct judge {
	const struct stall_log *log;
	int faults[NR_FAULTS];
	bool silent;
};

/* @due: when the stall reached the threshold of a missed event, or 0 */
static void found_fault(struct judge *judge, enum fault fault, const struct trigger *trigger,
			__u64 from, __u64 at, __u64 due)
{
	const struct stall_log *log = judge->log;
	int i;

	if (++judge->faults[fault] > MAX_REPORTS || judge->silent)
		return;
	ksft_print_msg("%s: %s %s, %s: %llu us in %llu us, armed at %.6f\n", fault_names[fault],
		       trigger->path, trigger->full ? "full" : "some",
		       trigger->user ? "user" : "privileged",
		       trigger->threshold / NSEC_PER_USEC, trigger->window / NSEC_PER_USEC,
		       (trigger->arm_begin - log->start) / 1e9);
	ksft_print_msg("  %s at %.6f, counted from %.6f (seed %llu); most in a window: %.6f\n",
		       due ? "reached" : "came", ((due ?: at) - log->start) / 1e9,
		       (from - log->start) / 1e9, seed(),
		       most_stall(&log->most, trigger->window, from, at) / 1e9);
	if (due)
		ksft_print_msg("  nothing came before %.6f\n", (at - log->start) / 1e9);
	from = at > from + 2 * trigger->window ? at - 2 * trigger->window : from;
	for (i = interval_after(&log->most, from);
	     i < log->most.nr && log->most.at[i].begin < at; i++)
		ksft_print_msg("  stall %.6f to %.6f\n",
			       (log->most.at[i].begin - log->start) / 1e9,
			       (log->most.at[i].end - log->start) / 1e9);
}

/* (a) */
static void judge_event(struct judge *judge, const struct trigger *trigger, __u64 from, __u64 at)
{
	if (trigger->never || most_stall(&judge->log->most, trigger->window, from, at) <
	    trigger->threshold)
		found_fault(judge, FALSE_EVENT, trigger, from, at, 0);
}

/* (b): no event from @from, when counting began, to @at. */
static void judge_silence(struct judge *judge, const struct trigger *trigger, __u64 from,
			  __u64 quiet_until, __u64 at)
{
	__u64 window = trigger->window;
	__u64 due;

	if (trigger->never)
		return;
	due = threshold_reached(&judge->log->least, window - window / 10, trigger->threshold,
				from);
	if (!due)
		return;
	due += window / 10;
	if ((due > quiet_until ? due : quiet_until) + LATE(window) < at)
		found_fault(judge, MISSED_EVENT, trigger, from, at, due - window / 10);
}

static void judge_trigger(struct judge *judge, const struct trigger *trigger)
{
	__u64 least = trigger->arm_end, most = trigger->arm_begin, quiet = 0;

	for (int i = 0; i < trigger->nr; i++) {
		__u64 at = trigger->event[i];

		if (i && at + SEEN < quiet)
			found_fault(judge, EVENT_TOO_EARLY, trigger, most, at, 0);
		judge_event(judge, trigger, most, at);
		judge_silence(judge, trigger, least, quiet, at);
		least = at;
		most = at - SEEN;
		quiet = at + trigger->window;
	}
	judge_silence(judge, trigger, least, quiet, judge->log->end);
}

/* ---- Plans ---- */

/* A stall is a read of a disk with one of these latencies. */
static const __u64 latencies[] = {
	8 * NSEC_PER_MSEC, 30 * NSEC_PER_MSEC, 110 * NSEC_PER_MSEC, 450 * NSEC_PER_MSEC,
	1300 * NSEC_PER_MSEC,
};

#define NR_DISKS	((int)ARRAY_SIZE(latencies))

/**
 * struct plan - planned reads, and their times
 * @start: its begin; @read.at is relative to it
 * @nr: number of reads
 * @read: the reads
 * @read.at: earliest begin; a read starts after the one before
 * @read.disk: the disk
 * @read.begin: time before the read
 * @read.end: time after the read
 */
struct plan {
	__u64 start;
	int nr;
	struct {
		__u64 at;
		int disk;
		__u64 begin;
		__u64 end;
	} read[MAX_STALLS];
};

/* Adds a read; returns when it ends. */
static __u64 plan_read(struct plan *plan, __u64 at, int disk)
{
	if (plan->nr == MAX_STALLS)
		psi_die("the plan is too long");
	plan->read[plan->nr].at = at;
	plan->read[plan->nr++].disk = disk;
	return at + latencies[disk];
}

/* Single stalls, seconds apart. */
static __u64 plan_sparse(struct plan *plan, __u64 at)
{
	at += random_between(200, 6000) * NSEC_PER_MSEC;
	return plan_read(plan, at, random_below(NR_DISKS));
}

/* Several short stalls, then idle time. */
static __u64 plan_bursts(struct plan *plan, __u64 at)
{
	int reads = random_between(2, 12);

	at += random_between(500, 15000) * NSEC_PER_MSEC;
	while (reads--)
		at = plan_read(plan, at + random_between(1, 150) * NSEC_PER_MSEC, random_below(3));
	return at;
}

/* Stalls most of the time. */
static __u64 plan_heavy(struct plan *plan, __u64 at)
{
	at += random_below(8) ? random_below(40) * NSEC_PER_MSEC : random_below(NSEC_PER_SEC);
	return plan_read(plan, at, random_between(1, NR_DISKS - 1));
}

/* Equal stalls, so windows are just below or just above a threshold. */
static __u64 plan_steady(struct plan *plan, __u64 at)
{
	at = plan_read(plan, at + 890 * NSEC_PER_MSEC, 2);
	return random_below(20) ? at : plan_read(plan, at, 3);
}

/* So rare that the monitor sleeps in between. */
static __u64 plan_rare(struct plan *plan, __u64 at)
{
	at += random_between(8000, 25000) * NSEC_PER_MSEC;
	return plan_read(plan, plan_read(plan, at, random_below(NR_DISKS)), random_below(3));
}

static void plan_make(struct plan *plan, __u64 (*style)(struct plan *plan, __u64 at))
{
	__u64 at = 0;

	plan->nr = 0;
	while (at < DURATION)
		at = style(plan, at);
}

/* The stalls as planned. */
static void plan_intervals(const struct plan *plan, struct intervals *list)
{
	__u64 last = 0;

	list->nr = 0;
	for (int i = 0; i < plan->nr; i++) {
		__u64 begin = plan->read[i].at > last ? plan->read[i].at : last;

		last = begin + latencies[plan->read[i].disk];
		intervals_add(list, begin, last);
	}
}

/* The bounds of the stalls that there were. */
static void plan_log(const struct plan *plan, struct stall_log *log)
{
	log->start = plan->start;
	log->most.nr = 0;
	log->least.nr = 0;
	for (int i = 0; i < plan->nr; i++) {
		__u64 begin = plan->read[i].begin, end = plan->read[i].end;
		__u64 latency = latencies[plan->read[i].disk];

		intervals_add(&log->most, begin, end);
		intervals_add(&log->least, end - latency + SUBMIT, begin + latency);
	}
}

static __u64 random_window(bool user)
{
	if (user)
		return random_between(1, 5) * 2 * NSEC_PER_SEC;
	if (random_below(2))
		return random_between(1, 20) * 500 * NSEC_PER_MSEC;
	return random_between(500000, 10000000) * NSEC_PER_USEC;
}

/* Near the stall of some window, or any value. */
static __u64 random_threshold(const struct intervals *list, __u64 window)
{
	__u64 begin = random_below(DURATION);
	__u64 sum = stall_between(list, begin, begin + window) * random_between(80, 120) / 100;
	__u64 any = window * random_between(1, 1000) / 1000;

	if (!sum || !random_below(3))
		sum = any;
	if (sum > window)
		sum = window;
	sum -= sum % NSEC_PER_USEC;
	return sum ?: NSEC_PER_USEC;
}

static int by_time_of_arming(const void *a, const void *b)
{
	const struct trigger *one = a, *two = b;

	return one->arm_at < two->arm_at ? -1 : one->arm_at > two->arm_at;
}

static void triggers_make(struct trigger *triggers, const struct intervals *planned)
{
	for (int i = 0; i < NR_TRIGGERS; i++) {
		struct trigger *trigger = &triggers[i];

		memset(trigger, 0, sizeof(*trigger));
		trigger->path = PSI_IO;
		if (i % 2) {
			trigger->path = GROUP "/io.pressure";
			trigger->full = i % 4 == 1;
		}
		if (i % 16 == 15) {
			trigger->path = OTHER_GROUP "/io.pressure";
			trigger->never = true;
		}
		trigger->user = random_below(3) == 0;
		trigger->window = random_window(trigger->user);
		trigger->threshold = random_threshold(planned, trigger->window);
		trigger->arm_at = random_below(ARMING);
	}
	qsort(triggers, NR_TRIGGERS, sizeof(*triggers), by_time_of_arming);
}

/* ---- The judge can fail ---- */

/**
 * struct model - a kernel, perhaps with a fault
 * @threshold: that it uses, in percent of the right one
 * @window: that it uses, in percent of the right one
 * @checks: number of checks in a window
 * @loses_quiet: it drops stall of the quiet time
 * @no_quiet: it has no quiet time
 * @long_quiet: its quiet time is a check longer
 * @keeps: it does not start again after an event
 * @looks_back: it counts stall from before the arming
 * @stops_in_silence: its clock stops while nothing stalls for longer than a
 *     window
 */
struct model {
	unsigned int threshold;
	unsigned int window;
	unsigned int checks;
	bool loses_quiet;
	bool no_quiet;
	bool long_quiet;
	bool keeps;
	bool looks_back;
	bool stops_in_silence;
};

/* Begin of the window that ends at @now. */
static __u64 model_window(const struct model *model, const struct intervals *stalls,
			  __u64 window, __u64 now)
{
	__u64 begin = now > window ? now - window : 0;

	if (model->stops_in_silence) {
		int i = interval_after(stalls, begin);

		/*
		 * It takes the stall before the idle time for one just before
		 * this stall.
		 */
		if (i && i < stalls->nr && stalls->at[i].begin > begin)
			begin = stalls->at[i - 1].begin;
	}
	return begin;
}

static void model_run(const struct model *model, struct trigger *trigger,
		      const struct intervals *stalls, __u64 end)
{
	__u64 window = trigger->window * model->window / 100;
	__u64 threshold = trigger->threshold * model->threshold / 100;
	__u64 period = trigger->window / model->checks;
	__u64 from = model->looks_back ? 0 : trigger->arm_at;
	__u64 last = 0, now = trigger->arm_at + random_below(period);
	bool due = false;

	trigger->nr = 0;
	trigger->arm_begin = trigger->arm_at;
	trigger->arm_end = trigger->arm_at;
	for (; now < end; now += period) {
		__u64 begin = model_window(model, stalls, window, now);
		bool quiet = last && now - model->long_quiet < last + trigger->window &&
			     !model->no_quiet;

		if (model->loses_quiet && quiet)
			from = now;
		if (stall_between(stalls, begin > from ? begin : from, now) >= threshold)
			due = true;
		if (!due || quiet || trigger->nr == MAX_EVENTS)
			continue;
		trigger->event[trigger->nr++] = now;
		due = false;
		last = now;
		if (!model->keeps)
			from = now;
	}
}

static const struct {
	const char *name;
	__u64 (*fn)(struct plan *plan, __u64 at);
} styles[] = {
	{ "sparse", plan_sparse },
	{ "bursts", plan_bursts },
	{ "heavy", plan_heavy },
	{ "steady", plan_steady },
	{ "rare", plan_rare },
};

FIXTURE(model) {
	struct plan *plan;
	struct stall_log *log;
	struct trigger *triggers;
};

FIXTURE_VARIANT(model) {
	struct model model;
	bool right;
	enum fault fault;
};

FIXTURE_VARIANT_ADD(model, that_is_right) {
	.model = { .threshold = 100, .window = 100, .checks = 10 },
	.right = true,
};

FIXTURE_VARIANT_ADD(model, that_fires_at_less) {
	.model = { .threshold = 95, .window = 100, .checks = 10 },
	.fault = FALSE_EVENT,
};

FIXTURE_VARIANT_ADD(model, that_fires_at_more) {
	.model = { .threshold = 105, .window = 100, .checks = 10 },
	.fault = MISSED_EVENT,
};

FIXTURE_VARIANT_ADD(model, whose_window_is_too_long) {
	.model = { .threshold = 100, .window = 110, .checks = 10 },
	.fault = FALSE_EVENT,
};

FIXTURE_VARIANT_ADD(model, whose_window_is_too_short) {
	.model = { .threshold = 100, .window = 75, .checks = 10 },
	.fault = MISSED_EVENT,
};

FIXTURE_VARIANT_ADD(model, that_checks_too_rarely) {
	.model = { .threshold = 100, .window = 100, .checks = 4 },
	.fault = MISSED_EVENT,
};

FIXTURE_VARIANT_ADD(model, that_forgets_stall_of_the_quiet_time) {
	.model = { .threshold = 100, .window = 100, .checks = 10, .loses_quiet = true },
	.fault = MISSED_EVENT,
};

FIXTURE_VARIANT_ADD(model, that_has_no_quiet_time) {
	.model = { .threshold = 100, .window = 100, .checks = 10, .no_quiet = true },
	.fault = EVENT_TOO_EARLY,
};

FIXTURE_VARIANT_ADD(model, that_is_quiet_for_too_long) {
	.model = { .threshold = 100, .window = 100, .checks = 10, .long_quiet = true },
	.fault = MISSED_EVENT,
};

FIXTURE_VARIANT_ADD(model, that_reports_a_stall_twice) {
	.model = { .threshold = 100, .window = 100, .checks = 10, .keeps = true },
	.fault = FALSE_EVENT,
};

FIXTURE_VARIANT_ADD(model, that_counts_stall_before_it_was_armed) {
	.model = { .threshold = 100, .window = 100, .checks = 10, .looks_back = true },
	.fault = FALSE_EVENT,
};

FIXTURE_VARIANT_ADD(model, that_leaves_idle_time_out_of_its_window) {
	.model = { .threshold = 100, .window = 100, .checks = 10, .stops_in_silence = true },
	.fault = FALSE_EVENT,
};

FIXTURE_SETUP(model)
{
	self->plan = shared_memory(sizeof(*self->plan));
	self->log = shared_memory(sizeof(*self->log));
	self->triggers = shared_memory(NR_TRIGGERS * sizeof(*self->triggers));
}

FIXTURE_TEARDOWN(model)
{
}

TEST_F(model, gets_the_right_verdict)
{
	struct judge judge = { .log = self->log, .silent = !variant->right };

	for (size_t i = 0; i < ARRAY_SIZE(styles); i++) {
		random_start(i);
		plan_make(self->plan, styles[i].fn);
		plan_intervals(self->plan, &self->log->most);
		self->log->least = self->log->most;
		self->log->end = DURATION;
		triggers_make(self->triggers, &self->log->most);
		for (int nr = 0; nr < NR_TRIGGERS; nr += 2) {
			struct trigger *trigger = &self->triggers[nr];

			trigger->never = false;
			model_run(&variant->model, trigger, &self->log->most, DURATION);
			judge_trigger(&judge, trigger);
		}
	}
	for (int fault = 0; fault < NR_FAULTS; fault++) {
		if (variant->right)
			EXPECT_EQ(0, judge.faults[fault]);
	}
	if (!variant->right)
		EXPECT_LT(0, judge.faults[variant->fault]);
}

/* ---- The kernel ---- */

FIXTURE(plan) {
	struct plan *plan;
	struct stall_log *log;
	struct trigger *triggers;
	struct stalls disk[ARRAY_SIZE(latencies)];
	pid_t reader;
};

FIXTURE_VARIANT(plan) {
	int style;
};

FIXTURE_VARIANT_ADD(plan, of_single_stalls) { .style = 0 };
FIXTURE_VARIANT_ADD(plan, of_bursts) { .style = 1 };
FIXTURE_VARIANT_ADD(plan, of_stalls_most_of_the_time) { .style = 2 };
FIXTURE_VARIANT_ADD(plan, of_equal_stalls) { .style = 3 };
FIXTURE_VARIANT_ADD(plan, of_rare_stalls) { .style = 4 };

struct reading {
	struct plan *plan;
	const struct stalls *disk;
};

static void read_as_planned(void *arg)
{
	const struct reading *reading = arg;
	struct plan *plan = reading->plan;

	prctl(PR_SET_TIMERSLACK, 1);
	for (int i = 0; i < plan->nr; i++) {
		sleep_until(plan->start + plan->read[i].at);
		plan->read[i].begin = now_ns();
		stall(&reading->disk[plan->read[i].disk]);
		plan->read[i].end = now_ns();
	}
}

FIXTURE_SETUP(plan)
{
	struct reading reading;
	const struct load load = {
		.policy = SCHED_FIFO,
		.prio = 60,
		.cgroup = GROUP,
		.fn = read_as_planned,
		.arg = &reading,
	};
	char name[32];

	self->plan = shared_memory(sizeof(*self->plan));
	self->log = shared_memory(sizeof(*self->log));
	self->triggers = shared_memory(NR_TRIGGERS * sizeof(*self->triggers));
	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	cgroup_create(GROUP, "+io");
	cgroup_create(OTHER_GROUP, "+io");
	for (int i = 0; i < NR_DISKS; i++) {
		snprintf(name, sizeof(name), "psi_oracle%d", i);
		stalls_create(&self->disk[i], name, latencies[i]);
	}
	random_start(variant->style);
	plan_make(self->plan, styles[variant->style].fn);
	plan_intervals(self->plan, &self->log->most);
	triggers_make(self->triggers, &self->log->most);
	reading.plan = self->plan;
	reading.disk = self->disk;
	self->plan->start = now_ns() + NSEC_PER_SEC;
	self->reader = load_start(&load);
}

FIXTURE_TEARDOWN(plan)
{
	cgroup_remove(GROUP);
	cgroup_remove(OTHER_GROUP);
	for (int i = 0; i < NR_DISKS; i++)
		stalls_remove(&self->disk[i]);
	cpus_use(cpus_possible());
}

static void trigger_start(struct trigger *trigger, int epoll)
{
	struct epoll_event event = { .events = EPOLLPRI, .data.ptr = trigger };
	char text[64];

	snprintf(text, sizeof(text), "%s %llu %llu", trigger->full ? "full" : "some",
		 trigger->threshold / NSEC_PER_USEC, trigger->window / NSEC_PER_USEC);
	trigger->fd = trigger_open_as(trigger->user, trigger->path);
	trigger->arm_begin = now_ns();
	if (trigger_write(trigger->fd, text, strlen(text) + 1))
		psi_die("%s: cannot arm \"%s\"", trigger->path, text);
	trigger->arm_end = now_ns();
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, trigger->fd, &event))
		psi_die("epoll_ctl: %s", strerror(errno));
}

/* Collects events until @end. */
static void events_collect(int epoll, __u64 end)
{
	struct epoll_event events[NR_TRIGGERS];
	__u64 now = now_ns();

	while (now < end) {
		int nr = epoll_wait(epoll, events, NR_TRIGGERS, (end - now) / NSEC_PER_MSEC + 1);

		if (nr < 0)
			psi_die("epoll_wait: %s", strerror(errno));
		now = now_ns();
		for (int i = 0; i < nr; i++) {
			struct trigger *trigger = events[i].data.ptr;

			if (events[i].events != EPOLLPRI)
				psi_die("%s: events %#x", trigger->path, events[i].events);
			if (trigger->nr == MAX_EVENTS)
				psi_die("%s: too many events", trigger->path);
			trigger->event[trigger->nr++] = now;
		}
	}
}

TEST_F_TIMEOUT(plan, has_the_events_that_follow_from_it, 400)
{
	struct trigger *trigger, *end = self->triggers + NR_TRIGGERS;
	struct judge judge = { .log = self->log };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int events = 0;

	ASSERT_GE(epoll, 0);
	for (trigger = self->triggers; trigger < end; trigger++) {
		events_collect(epoll, self->plan->start + trigger->arm_at);
		trigger_start(trigger, epoll);
	}
	self->log->end = self->plan->start + DURATION + 15 * NSEC_PER_SEC;
	events_collect(epoll, self->log->end);
	load_wait(self->reader);

	plan_log(self->plan, self->log);
	for (trigger = self->triggers; trigger < end; trigger++) {
		judge_trigger(&judge, trigger);
		events += trigger->nr;
		EXPECT_EQ(0, close(trigger->fd));
	}
	ksft_print_msg("seed %llu: %d triggers, %d stalls, %d events\n", seed(), NR_TRIGGERS,
		       self->plan->nr, events);
	ksft_print_msg("%.6f s of stall at most, %.6f s at least\n",
		       stall_before(&self->log->most, self->log->end) / 1e9,
		       stall_before(&self->log->least, self->log->end) / 1e9);
	EXPECT_EQ(0, judge.faults[FALSE_EVENT]);
	EXPECT_EQ(0, judge.faults[MISSED_EVENT]);
	EXPECT_EQ(0, judge.faults[EVENT_TOO_EARLY]);
	EXPECT_LT(0, events);
}

TEST_HARNESS_MAIN
