// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU that follows cache lines between CPUs.
 *
 *	-plugin FILE.so,out=PATH
 *
 * Every CPU has a cache that holds all lines of 64 bytes it ever touched, until
 * another CPU writes to them.  Each time a count ends, a line is written:
 *
 *	lines MOVED TAKEN TOUCHED DIRTIED SPUN
 *
 * MOVED: a CPU touches a line that it does not hold, which another CPU was the
 * last to write.  TAKEN: a CPU writes to a line that it holds, and another too.
 * TOUCHED and DIRTIED: different lines that were touched and written to, so how
 * many misses there are if nothing is in the cache, and what is to be written
 * back.  SPUN: a CPU executes PAUSE in the kernel, as it waits for another.
 * All of it counts on any CPU.
 */
#include "plugin.h"

enum { NOBODY = -1, LINES = 64 /* in a page */, CPUS = 64 };

struct line {
	uint64_t holders;		/* mask of CPUs */
	uint32_t touched, dirtied;	/* in which count, the last time */
	int writer;			/* the last one */
};

/* By physical address. */
static struct line *pages[1 << 20];
static uint32_t count;
static struct { unsigned long moved, taken, touched, dirtied, spun; } found;

static struct line *line_at(uint64_t address)
{
	struct line **page = &pages[address >> 12];
	int i;

	if (address >> 32)
		abort();
	if (!*page) {
		*page = calloc(LINES, sizeof(**page));
		if (!*page)
			abort();
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

static void marked(unsigned int vcpu, void *data)
{
	(void)vcpu;
	if ((uintptr_t)data == END) {
		fprintf(out, "lines %lu %lu %lu %lu %lu\n", found.moved, found.taken, found.touched, found.dirtied,
			found.spun);
		fflush(out);
	}
	memset(&found, 0, sizeof(found));
	count++;
}

static void spun(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	found.spun++;
}

static bool is_pause(const struct qemu_plugin_insn *insn)
{
	return qemu_plugin_insn_size(insn) == 2 && !memcmp(qemu_plugin_insn_data(insn), "\xf3\x90", 2);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, nr = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uintptr_t number = mark_of(insn);

		qemu_plugin_register_vcpu_mem_cb(insn, accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
		if (number)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, QEMU_PLUGIN_CB_NO_REGS, (void *)number);
		if (is_pause(insn) && qemu_plugin_tb_vaddr(tb) >> 63)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, spun, QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}
