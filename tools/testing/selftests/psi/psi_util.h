/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The helpers that every test of pressure stall information needs
 *
 * Method: a test compares a pressure file with an oracle. The oracle is what
 * the tasks of the test did by their own clocks: CLOCK_MONOTONIC, the run
 * queue wait of schedstat, the delays of taskstats. These clocks count in
 * nanoseconds and know nothing of PSI.
 *
 * The tests own the machine. They pin tasks, take CPUs offline and account
 * for every stall, so any other load shows up in their numbers. Run them in a
 * virtual machine that does nothing else.
 *
 * A helper that fails prints one line that says why and ends the test. A test
 * never goes on with half of its set-up.
 *
 * The rooms, one header and one source file each; libpsi.a holds all of them,
 * and some more:
 *
 *   psi_util      errors, time, memory, files            this header
 *   psi_pressure  the text of a pressure file, totals    included at its end
 *   psi_task      what tasks and CPUs did, by their own clocks      same
 *   psi_machine   CPUs, scheduling policy, limits                   same
 *   psi_load      child processes that make pressure                same
 *   psi_disk      slow disks, stalls on them, swap                  same
 *   psi_cgroup    cgroups and their files                           same
 *   psi_trigger   triggers: arm, poll, count events
 *   psi_tree      a tree of cgroups with a timetable
 */
#ifndef PSI_UTIL_H
#define PSI_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <sys/types.h>

#include "../kselftest.h"

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_USEC	1000ULL

/* Prints a line and ends the process as a failed test. */
void __noreturn __printf(1, 2) psi_die(const char *fmt, ...);

/* Prints one row of a table of measured values: "# row: ROW: VALUE". */
void __printf(2, 3) report_row(const char *row, const char *fmt, ...);

/* ---- Known defects ---- */

/* Whether this PSI has them: it is the one without a statistics file. */
bool psi_has_known_defects(void);

/*
 * Unless @right, a test on such a kernel failed as expected, and the function
 * returns. The first reason is reported.
 */
#define XFAIL_UNLESS(right, fmt, ...) do {					\
	if (!(right) && __test_passed(_metadata) && psi_has_known_defects()) {	\
		if (_metadata->exit_code != KSFT_XFAIL)				\
			snprintf(_metadata->results->reason,			\
				 sizeof(_metadata->results->reason), fmt, ##__VA_ARGS__); \
		_metadata->exit_code = KSFT_XFAIL;				\
		return;								\
	}									\
} while (0)

/* ---- Time ---- */

__u64 now_ns(void);
void sleep_until(__u64 ns);
void sleep_for(__u64 ns);
void spin_until(__u64 ns);
void __noreturn sleep_forever(void);

/* ---- Memory ---- */

/* Zeroed memory that a test shares with its child processes. */
void *shared_memory(size_t size);

/* Memory of this process; the first write to a page allocates it. */
void *private_memory(size_t size);

/* The next number of a xorshift generator. */
__u64 random_u64(__u64 *state);

/* ---- Files ---- */

/* open() with O_CLOEXEC that ends the test on an error. */
int open_file(const char *path, int flags);

#define BLOCK		4096
/* Opens a device for reading, and allocates a block fit for direct I/O. */
int open_blocks(const char *path, int flags, void **buf);

void write_file(const char *path, const char *text);

/*
 * Reads a file into @buf and terminates it with a NUL. Returns the length, or
 * -1 with errno.
 */
ssize_t read_file(const char *path, char *buf, size_t size);

/* The same; an error, or no text, ends the test. */
size_t read_text(const char *path, char *buf, size_t size);

/* The first number after @key in a file, e.g. "\nctxt" in /proc/stat. */
unsigned long long file_number(const char *path, const char *key);

#include "psi_pressure.h"
#include "psi_task.h"
#include "psi_machine.h"
#include "psi_load.h"
#include "psi_disk.h"
#include "psi_cgroup.h"

#endif
