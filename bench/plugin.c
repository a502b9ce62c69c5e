// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU that counts between two marks of the guest: profile_begin() in guest/bench.h.
 *
 *	-plugin FILE.so,out=PATH[,lines=on]
 *
 * Each time a count ends, a line "count" is written.  A line "ADDRESS INSTRUCTIONS" follows for
 * each block of code that ran; or with lines=on, what happened to cache lines:
 *
 *	moved NUMBER	a CPU touches a line that it does not hold, which another CPU was the last to write
 *	taken NUMBER	a CPU writes to a line that it holds, and another too
 *	touched NUMBER	different lines that were touched: so many misses if nothing is in the cache
 *	dirtied NUMBER	different lines that were written to: so many to be written back
 *	spun NUMBER	a CPU executes PAUSE in the kernel, as it waits for another
 *	locked NUMBER	locked instructions (LOCK, XCHG of memory) and full barriers (MFENCE)
 *
 * Every CPU has a cache that holds all lines of 64 bytes it ever touched, until
 * another CPU writes to them.  All of it counts on any CPU.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The part of qemu-plugin.h that is used here; Debian does not package it.
 * Version 1 is that of QEMU 6.0 to 8.1.
 */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_info_t;
typedef uint64_t qemu_plugin_id_t;

enum { QEMU_PLUGIN_CB_NO_REGS };
enum { QEMU_PLUGIN_INLINE_ADD_U64 };
enum { QEMU_PLUGIN_MEM_RW = 3 };

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int qemu_plugin_version = 1;

typedef void (*tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_cb_t)(unsigned int vcpu, void *data);
typedef uint32_t qemu_plugin_meminfo_t;
typedef void (*mem_cb_t)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *ptr, uint64_t immediate);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_cb_t cb, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb_t cb, int flags, int rw, void *data);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr);

static FILE *out;
static bool of_lines;

/* One for each translation; a block may be translated more than once. */
static struct block {
	struct block *next;
	uint64_t address, instructions;
} *blocks;

enum { NOBODY = -1, LINES = 64 /* in a page */, CPUS = 64 };

struct line {
	uint64_t holders;		/* mask of CPUs */
	uint32_t touched, dirtied;	/* in which count, the last time */
	int writer;			/* the last one */
};

/* By physical address. */
static struct line *pages[1 << 20];
static uint32_t count;
static struct { unsigned long moved, taken, touched, dirtied, spun, locked; } found;

static void *zeroed(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		abort();
	return memory;
}

static struct line *line_at(uint64_t address)
{
	struct line **page = &pages[address >> 12];
	int i;

	if (address >> 32)
		abort();
	if (!*page) {
		*page = zeroed(LINES * sizeof(**page));
		for (i = 0; i < LINES; i++)
			(*page)[i].writer = NOBODY;
	}
	return &(*page)[(address >> 6) % LINES];
}

static void accessed(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	uint64_t self = 1ull << (vcpu % CPUS);
	struct qemu_plugin_hwaddr *where;
	struct line *line;

	(void)data;
	/* Nobody asked yet: a boot is fast. */
	if (!count)
		return;
	where = qemu_plugin_get_hwaddr(info, vaddr);
	if (!where || qemu_plugin_hwaddr_is_io(where))
		return;
	line = line_at(qemu_plugin_hwaddr_phys_addr(where));
	found.touched += line->touched != count;
	line->touched = count;
	if (!(line->holders & self))
		found.moved += line->writer != NOBODY && line->writer != (int)vcpu;
	else if (qemu_plugin_mem_is_store(info))
		found.taken += line->holders != self;
	line->holders |= self;
	if (!qemu_plugin_mem_is_store(info))
		return;
	line->holders = self;
	line->writer = vcpu;
	found.dirtied += line->dirtied != count;
	line->dirtied = count;
}

static void plus_one(unsigned int vcpu, void *number)
{
	(void)vcpu;
	++*(unsigned long *)number;
}

static bool is_pause(const struct qemu_plugin_insn *insn)
{
	return qemu_plugin_insn_size(insn) == 2 && !memcmp(qemu_plugin_insn_data(insn), "\xf3\x90", 2);
}

static bool is_locked(const struct qemu_plugin_insn *insn)
{
	static const unsigned char prefixes[] = "\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x67";
	const unsigned char *data = qemu_plugin_insn_data(insn), *end = data + qemu_plugin_insn_size(insn);

	while (data < end && memchr(prefixes, *data, sizeof(prefixes) - 1))
		data++;
	if (data < end && *data == 0xf0)
		return true;
	data += data < end && (*data & 0xf0) == 0x40;	/* REX */
	/* XCHG of two registers needs no lock. */
	if (end - data >= 2 && (*data & 0xfe) == 0x86)
		return data[1] < 0xc0;
	return end - data == 3 && !memcmp(data, "\x0f\xae\xf0", 3);
}

enum { BEGIN = 1, END = 2 };

/* nopl NUMBER(%rax), with a magic in the upper half of the number. */
static uint32_t mark_of(const struct qemu_plugin_insn *insn)
{
	const unsigned char *data = qemu_plugin_insn_data(insn);

	if (qemu_plugin_insn_size(insn) != 7 || memcmp(data, "\x0f\x1f\x80", 3) || memcmp(data + 5, "\x53\x50", 2))
		return 0;
	return data[3];
}

static void marked(unsigned int vcpu, void *mark)
{
	struct block *block;

	(void)vcpu;
	if ((uintptr_t)mark == END) {
		fprintf(out, "count\n");
		if (of_lines)
			fprintf(out, "moved %lu\ntaken %lu\ntouched %lu\ndirtied %lu\nspun %lu\nlocked %lu\n", found.moved,
				found.taken, found.touched, found.dirtied, found.spun, found.locked);
		for (block = blocks; block; block = block->next)
			if (block->instructions)
				fprintf(out, "%" PRIx64 " %" PRIu64 "\n", block->address, block->instructions);
		fflush(out);
	}
	for (block = blocks; block; block = block->next)
		block->instructions = 0;
	memset(&found, 0, sizeof(found));
	count++;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, nr = qemu_plugin_tb_n_insns(tb);
	struct block *block;

	(void)id;
	if (!of_lines) {
		block = zeroed(sizeof(*block));
		block->address = qemu_plugin_tb_vaddr(tb);
		block->next = blocks;
		blocks = block;
		qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &block->instructions, nr);
	}
	for (i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uintptr_t mark = mark_of(insn);

		if (of_lines)
			qemu_plugin_register_vcpu_mem_cb(insn, accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
		if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, QEMU_PLUGIN_CB_NO_REGS, (void *)mark);
		if (of_lines && is_pause(insn) && qemu_plugin_tb_vaddr(tb) >> 63)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, plus_one, QEMU_PLUGIN_CB_NO_REGS, &found.spun);
		if (of_lines && is_locked(insn))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, plus_one, QEMU_PLUGIN_CB_NO_REGS, &found.locked);
	}
}

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	if (argc && !strncmp(argv[0], "out=", 4))
		out = fopen(argv[0] + 4, "w");
	of_lines = argc == 2 && !strcmp(argv[1], "lines=on");
	if (!out)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
