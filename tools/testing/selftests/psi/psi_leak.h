/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Nothing leaked: what every storm must leave behind
 *
 * PSI counts the tasks in each state, per CPU. An event that is lost or taken twice leaves
 * a count wrong for good, and a wrong count shows in one of two ways:
 *
 *  - above the truth: a machine on which only this test sleeps has pressure, and the
 *    total grows by the whole time;
 *  - below the truth: the next load with a known answer is not seen on that CPU.
 *
 * So first nothing may grow while the machine is idle, of the system and of every cgroup
 * there is. Then every CPU gets two spinners, which are 100 % cpu some, and a reader of a
 * disk, which is io some as long as it sleeps. While those stall the kernel's threads that
 * serve triggers would wake up if there were any left. And no total may be more than the
 * time that the machine is up.
 *
 * All of these return NULL, or what is wrong.
 */
#ifndef PSI_LEAK_H
#define PSI_LEAK_H

#include "psi_util.h"

#define MAX_CPUS	64

/**
 * struct probe - a load with a known answer: on every CPU two spinners, and a reader
 * @cgroup: where all of them are, %NULL for the cgroup of the test
 * @disk: what the readers read
 * @cpus: how many CPUs there are
 * @spinner: by CPU
 * @reader: by CPU
 * @says: by CPU, what the reader says
 */
struct probe {
	const char *cgroup;
	const char *disk;
	int cpus;
	pid_t spinner[MAX_CPUS][2];
	pid_t reader[MAX_CPUS];
	struct reader *says;
};

/* The spinners spin from here on. */
void probe_start(struct probe *probe, const char *cgroup, const char *disk);
void probe_stop(struct probe *probe);
/* Lets the readers read for @ns; returns what one of them slept, on average. */
__u64 probe_read(struct probe *probe, __u64 ns);
/*
 * What a reader saw of a window while it was open may be more than there was in the end.
 * Totals never go backwards: they stand still until that much has come. Lets the readers read
 * until the totals of these cgroups grow, for up to two windows: more cannot be missing.
 */
void probe_catch_up(struct probe *probe, const char *const *path, int nr);

/* Everything; the load is in the cgroup, or in that of the test when it is NULL. */
const char *find_leak_in(const char *cgroup, const char *disk);
const char *find_leak(const char *disk);

/* A file with full > some, or some > the time, of the system or of any cgroup. */
const char *find_excess(void);
/* The same of one file that was read, the name of which is @path. */
const char *find_excess_in(const char *path, const struct psi *psi);

/* A trigger that is left on a resource on which somebody stalls all the time. */
const char *find_trigger(void);

#endif
