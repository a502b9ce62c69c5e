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

/* Accepts nothing but the format. Returns NULL, or what is wrong with @text. */
const char *psi_parse(const char *text, size_t len, struct psi *psi);

/*
 * The parts of that: a cursor over the text. Each function advances the cursor
 * past what it accepts. When it returns false, the cursor is where it was.
 */
struct psi_cursor {
	const char *pos;
	const char *end;
};

bool psi_take_word(struct psi_cursor *c, const char *word);
/* A decimal number as the kernel prints it: no sign, no leading zero. */
bool psi_take_number(struct psi_cursor *c, __u64 *value);
/* A line after its name. Returns NULL, or what is wrong. */
const char *psi_take_line(struct psi_cursor *c, struct psi_line *line);

void psi_read(const char *path, struct psi *psi);

/* The total of the line "some", in ns. */
__u64 psi_some_ns(const char *path);

/*
 * Reads an open file again, after a seek or by pread(). Returns whether its
 * totals are between those of fresh descriptors before and after.
 */
bool psi_reread(const char *path, int fd, bool seek, struct psi *psi);

/* Reads a file byte by byte, 1 ms apart. Returns what is wrong, or NULL. */
const char *psi_read_bytewise(const char *path);

/*
 * Whether a descriptor answers as one whose file is gone: ENODEV to a read and
 * to a write, POLLERR and POLLPRI to a poll.
 */
bool psi_file_is_dead(int fd);

/* Whether this kernel accounts interrupt time, which the file irq needs. */
bool psi_irq_accounted(void);

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

#endif
