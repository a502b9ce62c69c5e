// SPDX-License-Identifier: GPL-2.0
/*
 * How long a program would have taken alone: under the same limits, without others
 *
 * Time goes on in steps.  In each of them
 *
 *	alone = max(seconds - what others took, what the limits ask for)
 *
 * Others took a CPU while all tasks that want it there wait (full), as far as no
 * limit held them; and CPUs on which none of our tasks was, while some waited for
 * each other.  Requests of ours that went on meanwhile are no loss: alone, we would
 * have waited for them.  Others took a device while it served their requests and
 * ours waited: our own requests take it as long as one request takes, times their
 * number.
 *
 * A limit asks for time that is not lost: a task that may run for 20 ms in 100 ms
 * loses nothing when others run in the other 80.  So what was used is divided by
 * what is allowed.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pressure.h"

#define STEP		0.5	/* s; a few periods of cpu.max */
#define STEP_OLD	10	/* s; older kernels add totals up every 2 s */
#define HELD		0.05	/* of the time that it waited for devices: io.max held it */
#define ALL		0.99	/* of the requests of a device: it was not shared */
#define QUEUE		1.1	/* requests in a device at the same time: more than one */
#define MEMORY		0.03	/* of the time: waits for memory make the answer a guess */
#define MEMORY_LIMIT	0.003	/* the same at a limit of memory */
#define PAUSES		0.03	/* of the time: what may be no loss makes it a guess */
#define RAN		0.02	/* of the time: the thread works, so it counts where it may */
#define IO		0.03	/* of the time: waits for storage are worth a note */
#define COLD		0.5	/* of what storage moved was read into the cache */

/* A number that may be "max", after a key; NAN for none. */
static double limit_after(const char *text, const char *key)
{
	const char *found = strstr(text, key);

	if (!found || !strncmp(found + strlen(key), "max", 3))
		return NAN;
	return strtod(found + strlen(key), NULL);
}

/* Call for a cgroup and all above it, as long as that says false. */
static bool climb(const char *cgroup, bool (*call)(const char *directory, void *arg), void *arg)
{
	char mount[PATH_MAX], path[PATH_MAX];
	bool done = false;

	if (psi_cgroup_mount(mount, sizeof(mount)))
		return false;
	snprintf(path, sizeof(path), "%s", cgroup);
	while (!done && strlen(path) > strlen(mount)) {
		done = call(path, arg);
		*strrchr(path, '/') = 0;
	}
	/* The root of a container is a cgroup with limits, too. */
	if (!done && exists("%s/cgroup.type", mount))
		done = call(mount, arg);
	return done;
}

static const struct device *device_of(const struct use *use, const char *number)
{
	for (int i = 0; i < use->devices; i++)
		if (!strcmp(use->device[i].number, number))
			return &use->device[i];
	return NULL;
}

/* What the nearest cgroup counts of storage: that is nothing yet where the file is empty. */
static bool read_own(const char *directory, void *arg)
{
	struct use *use = arg;
	char text[EVIDENCE_TEXT], *line, *rest = text;

	evidence_text(text, directory, "io.stat");
	while ((line = strsep(&rest, "\n")) && *line && use->devices < DEVICES) {
		struct device *device = &use->device[use->devices];

		if (sscanf(line, "%15s", device->number) == 1 && strstr(line, "rios=")) {
			evidence_io(device->own, line);
			use->devices++;
		}
	}
	return exists("%s/io.stat", directory);
}

static void read_devices(struct use *use)
{
	char *path = text_of("%s/proc", psi_root()), text[EVIDENCE_TEXT], *line, *rest = text;

	evidence_text(text, path, "diskstats");
	free(path);
	while ((line = strsep(&rest, "\n")) && *line) {
		double reads, merged, read_ms, writes, write_merged, write_ms, busy_ms;
		char name[32], number[16];
		int major, minor;
		struct device *device;

		if (sscanf(line, "%d %d %31s %lf %lf %*s %lf %lf %lf %*s %lf %*s %lf", &major,
			   &minor, name, &reads, &merged, &read_ms, &writes, &write_merged,
			   &write_ms, &busy_ms) != 10)
			continue;
		snprintf(number, sizeof(number), "%d:%d", major, minor);
		device = (struct device *)device_of(use, number);
		if (!device)
			continue;
		device->all = reads + merged + writes + write_merged;
		device->queued = (read_ms + write_ms) / 1e3;
		device->busy = busy_ms / 1e3;
		device->rotates = exists("%s/sys/block/%s", psi_root(), name);
		if (device->rotates) {
			path = text_of("%s/sys/block/%s/queue", psi_root(), name);
			evidence_text(text, path, "rotational");
			device->rotates = *text == '1';
			free(path);
		}
	}
}

/* How long cpu.max of this cgroup held tasks, and in how many of its periods. */
static bool add_throttled(const char *directory, void *arg)
{
	struct use *use = arg;
	char text[EVIDENCE_TEXT];
	double throttled;

	throttled = evidence_number(evidence_text(text, directory, "cpu.stat"), "throttled_usec");
	if (throttled > 0)
		use->throttled += throttled / 1e6;
	if (use->levels < LEVELS) {
		use->periods[use->levels] = evidence_number(text, "nr_periods");
		use->full_periods[use->levels++] = evidence_number(text, "nr_throttled");
	}
	return false;
}

static bool add_hits(const char *directory, void *arg)
{
	struct use *use = arg;
	char text[EVIDENCE_TEXT];

	if (*evidence_text(text, directory, "memory.events.local"))
		use->hits += evidence_number(text, "high") + evidence_number(text, "max");
	return false;
}

static int add_workers(const char *cgroup, void *arg)
{
	struct watch *watch = arg;
	char threads[EVIDENCE_TEXT], text[EVIDENCE_TEXT], *line, *rest = threads;

	evidence_text(threads, cgroup, "cgroup.threads");
	while ((line = strsep(&rest, "\n")) && *line && watch->workers < WORKERS) {
		struct worker *worker = &watch->worker[watch->workers];
		char *path = text_of("%s/proc/%s", psi_root(), line);

		evidence_text(text, path, "schedstat");
		free(path);
		worker->id = atoi(line);
		if (sscanf(text, "%lf %lf", &worker->run, &worker->delay) == 2)
			watch->workers++;
	}
	return 0;
}

static void watch(struct watch *watch, const char *cgroup)
{
	const struct watch last = *watch;
	double time = now(), seconds = time - last.time;
	cpu_set_t all, cpus;

	watch->workers = 0;
	cgroup_for_tree(cgroup, add_workers, watch);
	CPU_ZERO(&all);
	for (int i = 0; i < watch->workers; i++) {
		const struct worker *old = NULL, *new = &watch->worker[i];
		double run = new->run;

		for (int j = 0; j < last.workers && !old; j++)
			old = last.worker[j].id == new->id ? &last.worker[j] : NULL;
		if (old)
			run -= old->run;
		if (run > RAN * 1e9 * seconds && !sched_getaffinity(new->id, sizeof(cpus), &cpus))
			CPU_OR(&all, &all, &cpus);
		/* One that did nothing waits for the others, as a shell does. */
		if (old && run > 0) {
			watch->worked += seconds;
			watch->wait += (new->delay - old->delay) / 1e9;
		}
	}
	watch->cpus = CPU_COUNT(&all) ?: watch->cpus;
	/* Of threads that are new nothing is known. */
	watch->seconds += watch->worked > last.worked ? seconds : 0;
	watch->time = time;
}

/* What all of the machine used of its CPUs. */
static double cpu_of_all(void)
{
	char *path = text_of("%s/proc", psi_root()), text[EVIDENCE_TEXT];
	double ticks[8] = { 0 };

	evidence_text(text, path, "stat");
	free(path);
	/* user, nice, system, idle, iowait, irq, softirq, steal */
	if (sscanf(text, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", ticks, ticks + 1, ticks + 2,
		   ticks + 3, ticks + 4, ticks + 5, ticks + 6, ticks + 7) < 7)
		return NAN;
	return (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7]) /
	       sysconf(_SC_CLK_TCK);
}

/* What this program used: it measures a command that is alone, too. */
static double cpu_of_this(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/**
 * alone_look() - read what a program used up to now
 * @use: the result
 * @cgroup: that the program runs in
 */
static void alone_look(struct use *use, const char *cgroup)
{
	char text[EVIDENCE_TEXT];

	*use = (struct use){ 0 };
	use->time = now();
	evidence_text(text, cgroup, "cpu.stat");
	use->cpu = evidence_number(text, "usage_usec") / 1e6;
	use->cpu_all = cpu_of_all();
	use->self = cpu_of_this();
	climb(cgroup, add_throttled, use);
	climb(cgroup, read_own, use);
	climb(cgroup, add_hits, use);
	use->own = exists("%s/io.stat", cgroup);
	read_devices(use);
	/* What was read: tmpfs is none of it, nor is what was written and is not on disk yet. */
	evidence_text(text, cgroup, "memory.stat");
	use->file = evidence_number(text, "file") - evidence_number(text, "shmem") -
		    evidence_number(text, "file_dirty") - evidence_number(text, "file_writeback");
}

struct asked {
	const struct use *from, *to;
	double seconds;
	double slack;
};

/* What io.max of one cgroup asks for, in s. */
static bool ask_io(const char *directory, void *arg)
{
	static const char * const keys[EVIDENCE_IO] = { "rbps=", "wbps=", "riops=", "wiops=" };
	struct asked *asked = arg;
	char text[EVIDENCE_TEXT], *line, *rest = text;

	evidence_text(text, directory, "io.max");
	while ((line = strsep(&rest, "\n")) && *line) {
		char number[16];
		const struct device *old, *new;

		if (sscanf(line, "%15s", number) != 1)
			continue;
		old = device_of(asked->from, number);
		new = device_of(asked->to, number);
		for (int i = 0; new && i < EVIDENCE_IO; i++) {
			double wants = (new->own[i] - (old ? old->own[i] : 0)) /
				       limit_after(line, keys[i]);

			if (wants > asked->seconds) {
				asked->seconds = wants;
				asked->slack = 0;
			}
		}
	}
	return false;
}

/* What the limits of one cgroup ask for. */
static bool ask_limits(const char *directory, void *arg)
{
	struct asked *asked = arg;
	char text[EVIDENCE_TEXT];
	double quota, period;

	evidence_text(text, directory, "cpu.max");
	if (sscanf(text, "%lf %lf", &quota, &period) == 2 && quota > 0) {
		double share = quota / period, wants = (asked->to->cpu - asked->from->cpu) / share;

		if (wants > asked->seconds) {
			asked->seconds = wants;
			asked->slack = fmax(0, 1 - share) * period / 2e6;
		}
	}
	return ask_io(directory, arg);
}

/**
 * struct requests - what devices did for the program
 * @seconds: how long its requests took, added up
 * @shared: others had requests in the same devices
 * @guessed: and these were served at the same time
 */
struct requests {
	double seconds;
	bool shared;
	bool guessed;
};

static struct requests requests_of(const struct use *from, const struct use *to)
{
	struct requests requests = { 0 };

	for (int i = 0; i < to->devices; i++) {
		const struct device *new = &to->device[i],
				    *old = device_of(from, new->number);
		struct device none = { 0 };
		double own, all, queued, busy;

		old = old ?: &none;
		own = new->own[2] + new->own[3] - old->own[2] - old->own[3];
		all = new->all - old->all;
		queued = new->queued - old->queued;
		busy = new->busy - old->busy;
		if (own <= 0 || all <= 0)
			continue;
		if (own > ALL * all) {
			requests.seconds += queued;
			continue;
		}
		requests.shared = true;
		if (queued > QUEUE * busy) {
			if (new->rotates)
				queued = busy;
			else
				requests.guessed = true;
		}
		requests.seconds += own * queued / all;
	}
	return requests;
}

/* CPUs that those threads of the command may use that work; at first those of this program. */
static int cpus_allowed(const struct alone *alone)
{
	cpu_set_t set;

	if (alone->watch.cpus)
		return alone->watch.cpus;
	return sched_getaffinity(0, sizeof(set), &set) ? sysconf(_SC_NPROCESSORS_ONLN) :
							 CPU_COUNT(&set);
}

/*
 * What others took of the CPUs, in s.  Exact pressure is a share of the CPUs that
 * the command uses, and so of its speed.
 */
static double cpu_taken(struct alone *alone, const struct use *from, const struct use *to)
{
	const struct group *old = &alone->last, *new = &alone->next;
	bool exact = new->totals[PSI_CPU].known[PSI_EXACT][PSI_FULL];
	double seconds = to->time - from->time, cpu = to->cpu - from->cpu;
	double full = lost(old, new, PSI_CPU, exact ? PSI_EXACT : PSI_PLAIN, PSI_FULL);
	double some = lost(old, new, PSI_CPU, exact ? PSI_EXACT : PSI_PLAIN, PSI_SOME);
	double limit = lost(old, new, PSI_CPU, PSI_LIMIT, PSI_FULL);
	double self = to->self - from->self, used, others, gain;

	if (isnan(full))
		return NAN;
	/* How many CPUs it was on, as a mean. */
	used = fmax(1, cpu / fmax(seconds - full, cpu / cpus_allowed(alone)));
	if (isnan(limit))
		limit = (to->throttled - from->throttled) / used;
	/* This program had a CPU that the command wanted for as long. */
	full = fmin(fmax(0, full - limit - self * fmin(1, (cpu + some) / seconds)), seconds);
	others = to->cpu_all - from->cpu_all - cpu - self - full * used;
	if (isnan(others))
		return full;
	gain = fmin(fmin(others, (some - full - limit) * used) / seconds,
		    cpus_allowed(alone) - used);
	if (!(gain > 0))
		return full;
	return seconds - (seconds - full) * used / (used + gain);
}

/*
 * Of what others took of the CPUs, how much may be no loss, in s.  While no task is on a
 * CPU, some wait for one and others pause.  If these wait for the former, all lose;
 * if they wait for something else, they lose nothing.  Nothing tells.
 *
 * A task that waits while another one runs is no loss; it is one at least.
 */
static double cpu_paused(const struct alone *alone, double seconds, double taken)
{
	const struct group *old = &alone->last, *new = &alone->next;
	bool exact = new->totals[PSI_CPU].known[PSI_EXACT][PSI_FULL];
	double full = lost(old, new, PSI_CPU, exact ? PSI_EXACT : PSI_PLAIN, PSI_FULL);
	double some = lost(old, new, PSI_CPU, exact ? PSI_EXACT : PSI_PLAIN, PSI_SOME);
	const struct watch *watch = &alone->watch;
	double threads = watch->worked / watch->seconds, wait;

	if (!(threads > 1 && full > 0))
		return 0;
	wait = watch->wait * seconds / watch->seconds - fmax(0, some - full);
	return taken * (1 - fmin(1, fmax(0, wait) / (threads * full)));
}

/*
 * How long requests went on while others had the CPUs, in s.  Of the time in which
 * one task waited for a device and another one ran or waited for a CPU, that is the
 * share in which it waited.
 */
static double io_hidden(struct alone *alone, const struct use *from, const struct use *to,
			const struct requests *requests, double taken)
{
	const struct group *old = &alone->last, *new = &alone->next;
	int class = new->totals[PSI_IO].known[PSI_EXACT][PSI_SOME] ? PSI_EXACT : PSI_PLAIN;
	double some = lost(old, new, PSI_IO, class, PSI_SOME);
	double full = lost(old, new, PSI_IO, class, PSI_FULL);
	double seconds = to->time - from->time, run;

	if (!(some > full && taken > 0))
		return 0;
	run = fmax(seconds - taken - full, (to->cpu - from->cpu) / cpus_allowed(alone));
	/* As many requests at a time as there were take that part of the time. */
	return fmin(taken, (some - full) * taken / (taken + run) /
		    fmax(1, requests->seconds / some));
}

/*
 * What others took of the devices, in s.  While one task waits for a device and
 * another one for a CPU, the CPU is what is missing: that is no time of devices.
 * It is at least as long as both together are longer than no task ran.
 */
static double io_taken(struct alone *alone, const struct use *from, const struct use *to,
		       const struct requests *requests)
{
	const struct group *old = &alone->last, *new = &alone->next;
	bool exact = new->totals[PSI_CPU].known[PSI_EXACT][PSI_FULL];
	int class = new->totals[PSI_IO].known[PSI_SHORTAGE][PSI_SOME] ? PSI_SHORTAGE : PSI_PLAIN;
	double some = lost(old, new, PSI_IO, class, PSI_SOME);
	double full = lost(old, new, PSI_IO, class, PSI_FULL);
	double limit = lost(old, new, PSI_IO, PSI_LIMIT, PSI_FULL);
	double cpu = lost(old, new, PSI_CPU, exact ? PSI_EXACT : PSI_PLAIN, PSI_FULL);
	double held = lost(old, new, PSI_IO, PSI_LIMIT, PSI_SOME), stopped, both, taken;
	struct asked asked = { .from = from, .to = to };

	if (!(full > 0 && requests->shared))
		return 0;
	alone->guessed |= requests->guessed;
	stopped = to->time - from->time - (to->cpu - from->cpu) / cpus_allowed(alone);
	both = cpu + full + fmax(0, limit) - stopped;
	taken = (full - fmax(0, fmin(both, cpu))) * (1 - fmin(1, requests->seconds / some));
	/* Where io.max held it as well, it would have held it instead of others. */
	if (isnan(limit) || limit > HELD * full)
		climb(alone->cgroup, ask_io, &asked);
	if (asked.seconds > 0)
		taken = fmin(taken, full + fmax(0, limit) - asked.seconds);
	/*
	 * The timer that ends the wait for io.max is coarser than the limit.  So of
	 * the time above the limit, as much is the limit's as it held requests.
	 */
	if (held > 0)
		taken *= some / (some + held);
	return fmax(0, taken);
}

/**
 * alone_begin() - a program begins
 * @alone: of it
 * @cgroup: that it will run in
 * @first: totals of the cgroup
 */
void alone_begin(struct alone *alone, const char *cgroup, const struct group *first)
{
	*alone = (struct alone){ .cgroup = cgroup, .first = *first, .last = *first };
	alone_look(&alone->use, cgroup);
	/* The look itself takes time, too, and belongs to no command. */
	alone->use.time = now();
	alone->watch.time = alone->use.time;
	alone->begin = alone->use.time;
	alone->start = alone->use;
	alone->step = first->totals[PSI_CPU].known[PSI_LIMIT][PSI_SOME] ? STEP : STEP_OLD;
}

/* Of the limit that held it most. */
static double share_of_periods(const struct use *from, const struct use *to)
{
	double share = 0;

	for (int i = 0; i < to->levels && i < from->levels; i++) {
		double periods = to->periods[i] - from->periods[i];
		double full = to->full_periods[i] - from->full_periods[i];

		if (periods > 0)
			share = fmax(share, full / periods);
	}
	return fmin(1, share);
}

/* A step ends: what was used, and pressure, which older kernels have later. */
static void add_step(struct alone *alone, const struct use *use, const struct group *group,
		     bool last)
{
	struct asked asked = { .from = &alone->use, .to = use };
	struct requests requests = requests_of(&alone->use, use);
	double cpu, io, seconds, hidden, least;

	alone->next = *group;
	cpu = cpu_taken(alone, &alone->use, use);
	hidden = io_hidden(alone, &alone->use, use, &requests, cpu);
	seconds = use->time - alone->use.time;
	alone->paused += fmax(0, cpu_paused(alone, seconds, cpu) - hidden);
	alone->watch.seconds = 0;
	alone->watch.worked = 0;
	alone->watch.wait = 0;
	cpu -= hidden;
	io = io_taken(alone, &alone->use, use, &requests);
	asked.seconds = fmax(0, seconds - cpu - io);
	/* A period whose quota was used up lasts as long alone. */
	asked.seconds = fmax(asked.seconds, seconds * share_of_periods(&alone->use, use) - io);
	least = asked.seconds;
	climb(alone->cgroup, ask_limits, &asked);
	/* A period that was not used to its end: not more than the limit added. */
	alone->seconds += fmax(least, asked.seconds - (last ? asked.slack : 0));
	alone->cpu += cpu;
	alone->io += io;
	alone->use = *use;
	alone->last = *group;
}

/**
 * alone_step() - look at a program that runs
 * @alone: of it
 *
 * Does nothing when it is too early.
 *
 * Return: when the next step is due
 */
double alone_step(struct alone *alone)
{
	struct group group = { 0 };
	struct use use;

	if (now() >= alone->watch.time + STEP)
		watch(&alone->watch, alone->cgroup);
	if (now() >= alone->use.time + alone->step && read_group(&group, alone->cgroup)) {
		alone_look(&use, alone->cgroup);
		add_step(alone, &use, &group, false);
	}
	return fmin(alone->use.time + alone->step, alone->watch.time + STEP);
}

/**
 * alone_end() - the program has ended
 * @alone: of it
 *
 * What is counted now is its own; totals of pressure may come later.
 */
void alone_end(struct alone *alone)
{
	alone_look(&alone->end, alone->cgroup);
}

/*
 * Bytes of files that it read from devices and that are in memory now, NAN where that
 * is not known; and the share that they are of all that it read and wrote.
 */
static double cached(struct alone *alone, double *share)
{
	double read = 0, written = 0, bytes;

	for (int i = 0; i < alone->end.devices; i++) {
		const struct device *new = &alone->end.device[i],
				    *old = device_of(&alone->start, new->number);

		read += new->own[0] - (old ? old->own[0] : 0);
		written += new->own[1] - (old ? old->own[1] : 0);
	}
	/* What it wrote to disks is in memory, too. */
	bytes = alone->end.file - alone->start.file - written;
	if (isnan(bytes) || !alone->end.devices || !alone->end.own)
		return *share = NAN;
	bytes = fmax(0, fmin(read, bytes));
	*share = read + written > 0 ? bytes / (read + written) : 0;
	return bytes;
}

static void note_cache(struct report *report, double io, double share)
{
	if (!(io > IO))
		return;
	if (share > COLD)
		report_note(report,
			    "It read files into memory: how long a second run takes is not known.");
	if (isnan(share))
		report_note(report,
			    "If it read files into memory, a second run may take less time.");
}

/**
 * alone_report() - how long it would have taken
 * @alone: of the program
 * @report: where it is added
 * @last: totals of its cgroup at the end
 */
void alone_report(struct alone *alone, struct report *report, const struct group *last)
{
	double seconds = alone->end.time - alone->begin;
	double memory = lost(&alone->first, last, PSI_MEMORY, PSI_PLAIN, PSI_SOME);
	double io = fmax(lost(&alone->first, last, PSI_IO, PSI_PLAIN, PSI_SOME),
			 lost(&alone->first, last, PSI_IO, PSI_EXACT, PSI_SOME)), share;
	double least = alone->end.hits > alone->start.hits ? MEMORY_LIMIT : MEMORY;
	bool swaps = memory > least * seconds, pauses, blind = !alone->end.own && io > IO * seconds;

	add_step(alone, &alone->end, last, true);
	pauses = alone->paused > PAUSES * seconds;
	/* Others never made it faster.  What is not known stays so. */
	alone->seconds = isnan(alone->cpu) ? NAN : fmin(alone->seconds, seconds);
	report_fact(report, "alone_s", FMT_SECONDS, alone->seconds);
	report_fact_text(report, "alone_guess",
			 isnan(alone->seconds) ? NULL : swaps ? "memory" : pauses ? "pauses" :
			 alone->guessed || blind ? "devices" : seconds < STEP ? "short" : "no");
	report_fact(report, "others_cpu_s", FMT_SECONDS, alone->cpu);
	report_fact(report, "others_io_s", FMT_SECONDS, blind ? NAN : alone->io);
	report_fact(report, "cached_bytes", FMT_COUNT, cached(alone, &share));
	note_cache(report, io / seconds, share);
	if (blind)
		report_note(report, "Its cgroup has no io.stat, so what others had of its devices "
			    "is not known: the time alone is a guess.");
	if (isnan(alone->seconds))
		report_note(report, "This kernel does not tell when all tasks waited for a CPU, so "
			    "how long it would have taken alone is not known.");
	if (!(alone->cpu + alone->io >= fmax(0.01, seconds / 1000)))
		return;
	report_say(report,
		   "Others had its CPUs for %.2f s and its devices for %.2f s: without them "
		   "it would have taken about %.2f s.",
		   alone->cpu, alone->io, alone->seconds);
	if (swaps)
		report_note(report, "It waited for memory for %.2f s.  How much that slows a "
			    "program down differs from run to run: the time alone is a guess.",
			    fmin(memory, seconds));
	if (pauses)
		report_note(report, "Some of its processes paused while others had its CPUs.  If "
			    "they wait for nothing else, it lost up to %.2f s less: the time "
			    "alone is a guess.", alone->paused);
	if (seconds < STEP)
		report_note(report, "It took less than %g s: turns of the scheduler and periods of "
			    "limits are not much shorter, so the time alone is a guess.", STEP);
	if (alone->guessed)
		report_note(report, "Devices served it and others at the same time.  That they "
			    "answer as fast alone is a guess.");
}
