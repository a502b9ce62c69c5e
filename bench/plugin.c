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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The part of qemu-plugin.h that is used here; Debian does not package it.
 * Version 1 is that of QEMU 6.0 to 8.1.
 */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
typedef uint64_t qemu_plugin_id_t;

enum { QEMU_PLUGIN_CB_NO_REGS };
enum { QEMU_PLUGIN_INLINE_ADD_U64 };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

typedef void (*tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_cb_t)(unsigned int vcpu, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *ptr, uint64_t immediate);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_cb_t cb, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

/* nopl NUMBER(%rax), with the magic in the upper half of the number. */
static const unsigned char mark[] = { 0x0f, 0x1f, 0x80 };
enum { MAGIC = 0x5053, BEGIN = 1, END = 2 };

/* One for each translation; a block may be translated more than once. */
static struct count {
	struct count *next;
	uint64_t address, instructions;
} *counts;

static FILE *out;

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
		const unsigned char *data = qemu_plugin_insn_data(insn);
		uint32_t number;

		if (qemu_plugin_insn_size(insn) != 7 || memcmp(data, mark, sizeof(mark)))
			continue;
		memcpy(&number, data + sizeof(mark), sizeof(number));
		if (number >> 16 == MAGIC)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)(number & 0xffff));
	}
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4))
		return -1;
	out = fopen(argv[0] + 4, "w");
	if (!out)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
