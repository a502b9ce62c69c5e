/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of fuzz_test share: random numbers, a log, texts, the judge */
#ifndef PSI_FUZZ_H
#define PSI_FUZZ_H

#include "psi_util.h"

#define CGROUP_ROOT	"/sys/fs/cgroup"
#define FUZZ_TOP	CGROUP_ROOT "/psi_fuzz"

/* ---- Random numbers: a seed always gives the same run ---- */

void fuzz_seed(unsigned int seed);
/* A number below @limit. */
__u64 fuzz_below(__u64 limit);

/* ---- A log of the latest operations ---- */

/* The log is in shared memory: the parent prints it if the child fails. */
void oplog_begin(void);
void __printf(1, 2) oplog_add(const char *fmt, ...);
unsigned int oplog_length(void);
void oplog_print(void);
/* A result contradicts the specification. Ends the process. */
void __noreturn __printf(1, 2) fuzz_fail(const char *fmt, ...);

/* ---- Texts ---- */

#define TEXT_MAX	(3 * 4096)

/**
 * struct fuzz_text - a text for a pressure file
 * @bytes: any bytes
 * @len: their number
 */
struct fuzz_text {
	char bytes[TEXT_MAX];
	size_t len;
};

/* In plain files, and in keys of the statistics file. */
enum fuzz_resource { FUZZ_CPU, FUZZ_MEMORY, FUZZ_IO, FUZZ_IRQ, NR_FUZZ_RESOURCES };

/* Kinds of pressure, in keys of the statistics file. */
enum fuzz_kind { FUZZ_PLAIN, FUZZ_EXACT, FUZZ_LIMIT, FUZZ_SHORTAGE, NR_FUZZ_KINDS };

/**
 * struct meaning - the trigger that a text describes
 * @resource: of which, in the statistics file
 * @kind: on which line
 * @full: it waits for "full"
 * @stall: its threshold in us
 * @window: in us
 */
struct meaning {
	enum fuzz_resource resource;
	enum fuzz_kind kind;
	bool full;
	__u64 stall;
	__u64 window;
};

/* A random text: a trigger, one with small changes, or no trigger at all. */
void text_random(struct fuzz_text *text);
/* Mutates some bytes. */
void text_change(struct fuzz_text *text);
/* A well-formed trigger, for the statistics file if @stat; any user may arm an @ordinary one. */
void text_good(struct fuzz_text *text, bool ordinary, bool stat);
/* The first bytes, escaped as in C; valid until the next call. */
const char *text_quote(const char *bytes, size_t len);
/* Whether the specification accepts a text, in a plain or in the statistics file, and as what. */
bool text_means(const char *bytes, size_t len, bool stat, struct meaning *meaning);

/* ---- What a write may return ---- */

/**
 * struct target - the properties of an open file that decide about a write
 * @cgroup: it belongs to a cgroup, not to /proc
 * @resource: which file, if it is a plain one
 * @stat: it is the statistics file
 * @writable: it is open for writing
 * @privileged: its opener had CAP_SYS_RESOURCE
 * @dead: its cgroup was removed, or switched off
 * @armed: it has a trigger
 */
struct target {
	bool cgroup;
	enum fuzz_resource resource;
	bool stat;
	bool writable;
	bool privileged;
	bool dead;
	bool armed;
};

/*
 * Results of a write, a bit each: success that arms, success without effect,
 * errors.
 */
enum {
	WRITE_ARMS		= 0x001,
	WRITE_NOTHING		= 0x002,
	WRITE_E2BIG		= 0x004,
	WRITE_EBADF		= 0x008,
	WRITE_EBUSY		= 0x010,
	WRITE_EFAULT		= 0x020,
	WRITE_EINVAL		= 0x040,
	WRITE_ENODEV		= 0x080,
	WRITE_EOPNOTSUPP	= 0x100,
	WRITE_OTHER		= 0x200,
};

/*
 * The results allowed for a write of @len bytes, of which @mapped are readable.
 */
unsigned int write_expected(const struct target *target, const char *bytes, size_t len,
			    size_t mapped);
/* The result that a write had. */
unsigned int write_result(ssize_t ret, int error, size_t len);

/* ---- Coverage, for a kernel with CONFIG_KCOV ---- */

/* From here on, records the kernel code that this process executes. */
void cover_begin(void);
/* Whether code was new since the last call; false without cover_begin(). */
bool cover_new(void);
/* Number of places in the kernel's code that were reached so far. */
unsigned int cover_places(void);

/* ---- The parts ---- */

/* Each runs @ops operations. A failure ends the process. */
void fuzz_texts(unsigned int ops);
void fuzz_sequence(unsigned int ops);

#endif
