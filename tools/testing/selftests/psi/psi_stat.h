/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Statistics files: exact pressure, limit and shortage, and triggers on them
 */
#ifndef PSI_STAT_H
#define PSI_STAT_H

#include "psi_trigger.h"

#define PSI_STAT	PSI_DIR "/stat"
/* The same of a cgroup, after its path. */
#define CGROUP_STAT	"/cgroup.pressure.stat"
/* Room for all of a statistics file. */
#define PSI_STAT_MAX	8192
/*
 * After that time at most, what the first read of a statistics file asks for is
 * measured: the window of 2 s that was under way has ended, and was collected.
 */
#define ASKED_SOON	(2200 * NSEC_PER_MSEC)

/* Without it, a kernel has plain pressure alone (CONFIG_PSI_STAT). */
#define NO_STAT		"this kernel has no statistics file"
bool psi_has_stat(void);

enum psi_kind { KIND_PLAIN, KIND_EXACT, KIND_LIMIT, KIND_SHORTAGE, NR_KINDS };

/**
 * struct psi_stat - a statistics file, up to its causes
 * @of: the lines some and full, by resource and kind
 * @irq: the line irq.full, where there is one
 */
struct psi_stat {
	struct psi of[NR_RESOURCES][NR_KINDS];
	struct psi_line irq;
};

/* As psi_parse() and psi_read(), for a statistics file. */
const char *psi_stat_parse(const char *text, size_t len, struct psi_stat *stat);
void psi_stat_read(const char *path, struct psi_stat *stat);
/*
 * What one reading says that cannot be true of one moment: a class above exact
 * pressure, both together below it, or full above some. NULL if nothing does.
 */
const char *psi_stat_contradiction(const struct psi_stat *stat);
/* Asks for what is measured only while a program asks, and waits until it is. */
void psi_stat_ask(const char *path);
/* The line of a statistics file with @key, such as "io.exact.some"; its total, in us. */
void psi_stat_line(const char *path, const char *key, struct psi_line *line);
__u64 psi_stat_total(const char *path, const char *key);

/* ---- Limit or shortage ---- */

/**
 * struct classes - growth of totals of one resource in one group, in percent of the time
 * @plain: some and full
 * @exact: the same, moment by moment
 * @limit: held by a limit
 * @shortage: not
 * @fired: a trigger on limit.some, on shortage.some had an event: see classes_measure()
 */
struct classes {
	double plain[2], exact[2], limit[2], shortage[2];
	bool fired[2];
};

/* Asks for the classes of each cgroup, NULL for the system, and waits until they are measured. */
void classes_ask(const char * const *cgroups, int nr);
/* The totals so far; of the system if there is no @cgroup. */
void classes_read(const char *cgroup, const char *resource, struct classes *c);
/* What they grew by in @ns, since @c was read. */
void classes_since(const char *cgroup, const char *resource, __u64 ns, struct classes *c);

/* ---- Limit or shortage, by totals and by triggers ---- */

#define NR_CLASS_GROUPS	3

/**
 * classes_measure - what the totals of classes grow by from now on, and which triggers fire
 * @groups: cgroups; NULL: the system
 * @resource: "cpu", "memory" or "io"
 * @ns: for so long
 * @c: the result, for each group
 */
void classes_measure(const char * const groups[NR_CLASS_GROUPS], const char *resource, __u64 ns,
		     struct classes c[NR_CLASS_GROUPS]);
/*
 * What is wrong with a result of @ns: the classes do not add up to the exact pressure, or a
 * trigger fired for what its line does not have. NULL if nothing is.
 */
const char *classes_contradiction(const struct classes *c, __u64 ns);

#endif
