/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pressure files: their text, and how much their totals grow
 */
#ifndef PSI_PRESSURE_H
#define PSI_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#define PSI_DIR		"/proc/pressure"
#define PSI_CPU		PSI_DIR "/cpu"
#define PSI_MEMORY	PSI_DIR "/memory"
#define PSI_IO		PSI_DIR "/io"
#define PSI_IRQ		PSI_DIR "/irq"
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

enum psi_avg { AVG10, AVG60, AVG300, NR_AVGS };

/**
 * struct psi_line - one line of a pressure file
 * @present: the file has this line
 * @avg: the three averages, in hundredths of a percent
 * @total: stall time since boot, in us
 */
struct psi_line {
	bool present;
	unsigned int avg[NR_AVGS];
	__u64 total;
};

struct psi {
	struct psi_line some;
	struct psi_line full;
};

enum psi_resource { RES_CPU, RES_MEMORY, RES_IO, NR_RESOURCES };
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

/* Accepts nothing but the format. Returns NULL, or what is wrong with @text. */
const char *psi_parse(const char *text, size_t len, struct psi *psi);

void psi_read(const char *path, struct psi *psi);

/* The two totals, in ns; the average of the line "some", in percent. */
__u64 psi_some_ns(const char *path);
__u64 psi_full_ns(const char *path);
double psi_avg(const char *path, enum psi_avg avg);

/* The same for a statistics file. */
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

/*
 * Reads an open file again, after a seek or by pread(). Returns whether its
 * totals are between those of fresh descriptors before and after.
 */
bool psi_reread(const char *path, int fd, bool seek, struct psi *psi);

/* Reads a file byte by byte, 1 ms apart. Returns what is wrong, or NULL. */
const char *psi_read_bytewise(const char *path);

/* Whether this kernel accounts interrupt time, which the file irq needs. */
bool psi_irq_accounted(void);

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

/* ---- The totals of a cgroup, or of the system ---- */

/**
 * struct pressure - stall time so far, in ns
 * @some: by resource
 * @full: by resource
 */
struct pressure {
	__u64 some[NR_RESOURCES];
	__u64 full[NR_RESOURCES];
};

/* A @path of NULL means the system: /proc/pressure. */
void pressure_read(const char *path, struct pressure *p);
struct pressure pressure_since(const char *path, const struct pressure *before);

/**
 * struct idle_growth - growth of the system's totals while the test sleeps
 * @cpu: of cpu some, in ns, like all of these
 * @io: of io some
 * @memory: of memory some
 * @cpu_wait: by the run queues' own clocks, tasks waited this long for a CPU
 *
 * A lost event that left a count above zero makes its total grow by the whole
 * time. The test and kernel threads wait a little for a CPU when they wake up,
 * so @cpu may reach @cpu_wait.
 */
struct idle_growth {
	__u64 cpu;
	__u64 io;
	__u64 memory;
	__u64 cpu_wait;
};

void idle_growth_measure(struct idle_growth *growth, __u64 ns);

#endif
