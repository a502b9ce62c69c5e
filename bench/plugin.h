/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the plugins of QEMU share: the part of its interface, and the marks of
 * the guest, see profile_begin() in guest/bench.h.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

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
enum { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

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

/* nopl NUMBER(%rax), with the magic in the upper half of the number. */
enum { MAGIC = 0x5053, BEGIN = 1, END = 2 };

static inline uint32_t mark_of(const struct qemu_plugin_insn *insn)
{
	static const unsigned char nopl[] = { 0x0f, 0x1f, 0x80 };
	const unsigned char *data = qemu_plugin_insn_data(insn);
	uint32_t number;

	if (qemu_plugin_insn_size(insn) != 7 || memcmp(data, nopl, sizeof(nopl)))
		return 0;
	memcpy(&number, data + sizeof(nopl), sizeof(number));
	return number >> 16 == MAGIC ? number & 0xffff : 0;
}

static FILE *out;

/* The plugin's own: called for each translation. */
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

/* The only argument is out=PATH. */
EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	if (argc == 1 && !strncmp(argv[0], "out=", 4))
		out = fopen(argv[0] + 4, "w");
	if (!out)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}

#endif /* PLUGIN_H */
