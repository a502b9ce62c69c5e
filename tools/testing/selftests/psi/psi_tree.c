// SPDX-License-Identifier: GPL-2.0
/* A tree of cgroups, a timetable, and checks: see psi_tree.h. */
#include <sys/wait.h>

#include "psi_tree.h"

#define TOP_PATH	CGROUP_ROOT "/psi_tree"

const char * const tree_path[NR_GROUPS] = {
	[TOP] = TOP_PATH,
	[A] = TOP_PATH "/a",
	[AX] = TOP_PATH "/a/x",
	[AXD] = TOP_PATH "/a/x/d",
	[AY] = TOP_PATH "/a/y",
	[B] = TOP_PATH "/b",
	[ROOT] = CGROUP_ROOT,
	[SYSTEM] = NULL,
};

void tree_make(void)
{
	/* A timetable has no time for a grace period. */
	cgroup_moves_are_fast();
	for (int i = 0; i < NR_MADE; i++)
		cgroup_create(tree_path[i], "");
	cgroup_create(STRANGER, "");
}

void tree_remove(void)
{
	cgroup_remove(tree_path[TOP]);
	cgroup_remove(STRANGER);
	while (wait(NULL) > 0)
		;
}

void tree_controllers(const char *which)
{
	cgroup_write(CGROUP_ROOT, "cgroup.subtree_control", which);
	cgroup_write(tree_path[TOP], "cgroup.subtree_control", which);
	cgroup_write(tree_path[A], "cgroup.subtree_control", which);
}

pid_t load_in(enum group g, void (*fn)(void *arg), void *arg)
{
	const struct load load = { .cgroup = tree_path[g], .fn = fn, .arg = arg };

	return load_start(&load);
}

void start_hog(const struct span *span)
{
	const struct load load = {
		.policy = SCHED_FIFO,
		.prio = 20,
		.cgroup = STRANGER,
		.fn = spin_span,
		.arg = (void *)span,
	};

	load_start(&load);
}

void view_begin(struct view *view)
{
	for (int i = 0; i < NR_GROUPS; i++)
		pressure_read(tree_path[i], &view->p[i]);
	cpu_clock_read(0, &view->cpu);
}

void view_end(struct view *view)
{
	struct cpu_clock now;

	cpu_clock_read(0, &now);
	view->cpu.run = now.run - view->cpu.run;
	view->cpu.wait = now.wait - view->cpu.wait;
	for (int i = 0; i < NR_GROUPS; i++)
		view->p[i] = pressure_since(tree_path[i], &view->p[i]);
}

/* ---- A timetable ---- */

void timetable_set_up(struct timetable *t)
{
	cpus_use(1);
	rt_limits_lift(&t->limits);
	set_policy(0, SCHED_FIFO, 50);
	tree_make();
	t->begin = now_ns() + SEC;
}

void timetable_tear_down(struct timetable *t)
{
	tree_remove();
	if (t->disk.node[0])
		slow_disk_remove(&t->disk);
	rt_limits_restore(&t->limits);
	cpus_use(cpus_possible());
}

void timetable_disk(struct timetable *t, __u64 latency)
{
	slow_disk_create(&t->disk, "psi_tree", latency, 64);
	t->begin = now_ns() + SEC;
}

void timetable_begin(struct timetable *t)
{
	sleep_until(t->begin - 200 * MSEC);
	view_begin(&t->view);
	if (now_ns() > t->begin)
		psi_die("the machine is too slow for the timetable");
}

void timetable_end(struct timetable *t, __u64 end)
{
	sleep_until(end + 200 * MSEC);
	view_end(&t->view);
}

struct throttled *start_throttled(const struct timetable *t, enum group g, pid_t *pid)
{
	struct throttled *task = shared_memory(sizeof(*task));

	tree_controllers("+memory");
	cgroup_write(tree_path[g], "memory.high", "4194304");
	task->size = 8 << 20;
	task->begin = t->begin;
	*pid = load_in(g, take_memory, task);
	return task;
}

/* ---- Checks ---- */

bool value_is(const char *what, enum group g, enum psi_resource r, double least, double most,
	      __u64 value)
{
	static const char * const name[NR_RESOURCES] = { "cpu", "memory", "io" };

	if (value >= least && value <= most)
		return true;
	ksft_print_msg("%s: %s %s is %.6f s, must be from %.6f to %.6f s\n",
		       tree_path[g] ?: "the system", name[r], what, value / 1e9, least / 1e9,
		       most / 1e9);
	return false;
}

bool stall_is(const struct view *view, enum group g, enum psi_resource r, double some, double full,
	      double slack)
{
	const struct pressure *p = &view->p[g];
	bool right;

	right = value_is("some", g, r, some - slack, some + slack, p->some[r]);
	return value_is("full", g, r, full - slack, full + slack, p->full[r]) && right;
}

bool nothing_in(const struct view *view, enum group g)
{
	bool right = true;

	for (int r = 0; r < NR_RESOURCES; r++)
		right = stall_is(view, g, r, 0, 0, 0) && right;
	return right;
}

bool throttled_is(const struct view *view, enum group g, __u64 elapsed, __u64 awake)
{
	const struct pressure *p = &view->p[g];
	double least = elapsed - awake - SLACK;
	double most = elapsed + SLACK;

	return value_is("some", g, RES_MEMORY, least, most, p->some[RES_MEMORY]) &&
	       value_is("full", g, RES_MEMORY, least, most, p->full[RES_MEMORY]);
}

bool root_is_system(const struct view *view)
{
	const struct pressure *top = &view->p[TOP], *system = &view->p[SYSTEM];
	bool right = !system->full[RES_CPU];

	for (int r = 0; r < NR_RESOURCES; r++) {
		/* Kernel threads may wait between the readings. */
		double slack = r == RES_CPU ? 10 * MSEC : 0;

		right = stall_is(view, ROOT, r, system->some[r], system->full[r], slack) && right;
		right = value_is("some", SYSTEM, r, (double)top->some[r] - 10 * MSEC, 1e18,
				 system->some[r]) && right;
	}
	return right;
}

bool tree_is_quiet(void)
{
	static struct view view;
	bool right = true;

	/* Let the sampling window of the last stall end. */
	sleep_for(2500 * MSEC);
	view_begin(&view);
	sleep_for(2500 * MSEC);
	view_end(&view);
	for (int i = 0; i < NR_MADE; i++)
		right = nothing_in(&view, i) && right;
	return right;
}
