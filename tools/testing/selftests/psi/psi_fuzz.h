/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of fuzz_test share: chance, texts and what they mean, the story so far
 */
#ifndef PSI_FUZZ_H
#define PSI_FUZZ_H

#include "psi_util.h"

#define CGROUP_ROOT	"/sys/fs/cgroup"
#define FUZZ_TOP	CGROUP_ROOT "/psi_fuzz"

/* ---- Chance: a seed gives the same run, always ---- */

void fuzz_seed(unsigned int seed);
/* A number below @limit. */
__u64 fuzz_below(__u64 limit);

/* ---- The story: what was done last, for whoever has to find out ---- */

/* Shared with whoever tells it, who may outlive the one that wrote it. */
void story_begin(void);
void __printf(1, 2) story_add(const char *fmt, ...);
unsigned int story_length(void);
void story_tell(void);
/* Something is not as the specification says. Ends the process. */
void __noreturn __printf(1, 2) fuzz_fail(const char *fmt, ...);

/* ---- Texts ---- */

#define TEXT_MAX	(3 * 4096)

/**
 * struct fuzz_text - what is written to a pressure file
 * @bytes: any bytes
 * @len: how many
 */
struct fuzz_text {
	char bytes[TEXT_MAX];
	size_t len;
};

/**
 * struct meaning - what a text asks for
 * @full: the trigger waits for "full"
 * @stall: its threshold in us
 * @window: in us
 */
struct meaning {
	bool full;
	__u64 stall;
	__u64 window;
};

/* Something like a trigger: grammatical, or changed a little, or not at all like one. */
void text_random(struct fuzz_text *text);
/* Changes some bytes of it. */
void text_change(struct fuzz_text *text);
/* A trigger, with nothing special about it; one with a window that everyone may have. */
void text_good(struct fuzz_text *text, bool ordinary);
/* The first bytes of it as C has them, good until the next call. */
const char *text_quote(const char *bytes, size_t len);
/* Whether a text is a trigger that can be, as the specification has it. */
bool text_means(const char *bytes, size_t len, struct meaning *meaning);

/* ---- Who may write what ---- */

enum fuzz_resource { FUZZ_CPU, FUZZ_MEMORY, FUZZ_IO, FUZZ_IRQ, NR_FUZZ_RESOURCES };

/**
 * struct target - an open pressure file, as far as a write is concerned
 * @cgroup: it is one of a cgroup
 * @resource: which
 * @writable: open for writing
 * @privileged: its opener had CAP_SYS_RESOURCE
 * @dead: its cgroup was removed, or switched off
 * @armed: it has a trigger
 */
struct target {
	bool cgroup;
	enum fuzz_resource resource;
	bool writable;
	bool privileged;
	bool dead;
	bool armed;
};

/* What a write may give, a bit each: it succeeds and arms, it does nothing, an error. */
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

/* What may come of a write of @len bytes, of which only the first @mapped can be read. */
unsigned int write_expected(const struct target *target, const char *bytes, size_t len,
			    size_t mapped);
/* What came of it. */
unsigned int write_result(ssize_t ret, int error, size_t len);

/* Sets or drops CAP_SYS_RESOURCE for what this process opens from now on. */
void be_privileged(bool privileged);

/* ---- Coverage, for a kernel with CONFIG_KCOV ---- */

/* From here on what this process runs through in the kernel is recorded. */
void cover_begin(void);
/* Whether since the last call there was something new in that; false without cover_begin(). */
bool cover_new(void);
/* How many places were reached so far. */
unsigned int cover_places(void);

/* ---- The parts ---- */

/* Each returns, or ends the process with a story. @ops: how much. */
void fuzz_texts(unsigned int ops);
void fuzz_sequence(unsigned int ops);

#endif
