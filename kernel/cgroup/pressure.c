// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure files of cgroups
 *
 * cpu.pressure, memory.pressure, io.pressure and irq.pressure show the pressure
 * of a cgroup with all its descendants, and a write to them arms a trigger.
 * cgroup.pressure.stat shows more lines, for the same tasks. cgroup.pressure
 * switches all these files on and off. kernel/sched/psi*.c does the work. The
 * root cgroup is the system: its files show the numbers of /proc/pressure, and
 * its cgroup.pressure stops them.
 */
#include <linux/poll.h>
#include <linux/psi_cgroup.h>

#include "cgroup-internal.h"

static int pressure_show(struct seq_file *m, void *v)
{
	return psi_show(m, cgroup_psi(seq_css(m)->cgroup), seq_cft(m)->private);
}

static ssize_t pressure_write(struct kernfs_open_file *of, char *buf, size_t nbytes, loff_t off)
{
	struct cgroup_file_ctx *ctx = of->priv;

	/* kernfs drains the file before the cgroup is freed: both stay. */
	return psi_arm(&ctx->trigger, cgroup_psi(of_css(of)->cgroup), of_cft(of)->private, buf,
		       of->file, &of->poll) ?: nbytes;
}

static __poll_t pressure_poll(struct kernfs_open_file *of, poll_table *wait)
{
	struct cgroup_file_ctx *ctx = of->priv;

	return psi_poll(&ctx->trigger, of->file, &of->poll, wait);
}

static void pressure_release(struct kernfs_open_file *of)
{
	struct cgroup_file_ctx *ctx = of->priv;

	psi_disarm(ctx->trigger);
}

/* Hiding the files of a cgroup drains open ones: they stay dead. */
static void pressure_show_files(struct cgroup *cgrp, bool show)
{
	struct kernfs_node *kn;
	struct cftype *cft;

	for (cft = cgroup_pressure_files; cft->name[0]; cft++) {
		if (cft->seq_show != pressure_show)
			continue;
		kn = kernfs_find_and_get(cgrp->kn, cft->name);
		if (kn) {
			kernfs_show(kn, show);
			kernfs_put(kn);
		}
	}
}

static int pressure_switch_show(struct seq_file *m, void *v)
{
	seq_printf(m, "%d\n", !psi_is_off(cgroup_psi(seq_css(m)->cgroup)));
	return 0;
}

static ssize_t pressure_switch_write(struct kernfs_open_file *of, char *buf, size_t nbytes,
				     loff_t off)
{
	struct cgroup *cgrp;
	int ret, on;

	ret = kstrtoint(strstrip(buf), 0, &on);
	if (ret)
		return ret;
	if (on < 0 || on > 1)
		return -ERANGE;

	cgrp = cgroup_kn_lock_live(of->kn, false);
	if (!cgrp)
		return -ENOENT;
	if (on == psi_is_off(cgroup_psi(cgrp))) {
		psi_switch(cgroup_psi(cgrp), on);
		pressure_show_files(cgrp, on);
	}
	cgroup_kn_unlock(of->kn);
	return nbytes;
}

#define PRESSURE_FILE(_name, _id) {		\
	.name		= _name,		\
	.private	= _id,			\
	.flags		= CFTYPE_NS_DELEGATABLE, \
	.seq_show	= pressure_show,	\
	.write		= pressure_write,	\
	.poll		= pressure_poll,	\
	.release	= pressure_release,	\
}

struct cftype cgroup_pressure_files[] = {
	PRESSURE_FILE("cpu.pressure", PSI_CPU),
	PRESSURE_FILE("memory.pressure", PSI_MEMORY),
	PRESSURE_FILE("io.pressure", PSI_IO),
#ifdef CONFIG_IRQ_TIME_ACCOUNTING
	PRESSURE_FILE("irq.pressure", PSI_IRQ),
#endif
#ifdef CONFIG_PSI_STAT
	PRESSURE_FILE("cgroup.pressure.stat", PSI_STAT),
#endif
	{
		.name		= "cgroup.pressure",
		.seq_show	= pressure_switch_show,
		.write		= pressure_switch_write,
	},
	{ }
};
