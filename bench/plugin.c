// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU that counts instructions where they are executed.
 *
 *	-plugin FILE.so,out=PATH
 *
 * The guest says when: see profile_begin() in guest/bench.h.  Each time a count
 * ends, a line "count" is written, and a line "ADDRESS INSTRUCTIONS" for each
 * block of code that ran.
 */
#include "plugin.h"

/* One for each translation; a block may be translated more than once. */
static struct count {
	struct count *next;
	uint64_t address, instructions;
} *counts;

static void marked(unsigned int vcpu, void *data)
{
	struct count *count;

	(void)vcpu;
	if ((uintptr_t)data == BEGIN) {
		for (count = counts; count; count = count->next)
			count->instructions = 0;
		return;
	}
	fprintf(out, "count\n");
	for (count = counts; count; count = count->next)
		if (count->instructions)
			fprintf(out, "%" PRIx64 " %" PRIu64 "\n", count->address, count->instructions);
	fflush(out);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, nr = qemu_plugin_tb_n_insns(tb);
	struct count *count = calloc(1, sizeof(*count));

	(void)id;
	if (!count)
		abort();
	count->address = qemu_plugin_tb_vaddr(tb);
	count->next = counts;
	counts = count;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &count->instructions, nr);
	for (i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uintptr_t number = mark_of(insn);

		if (number)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, QEMU_PLUGIN_CB_NO_REGS, (void *)number);
	}
}
