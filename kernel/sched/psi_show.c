// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the files
 *
 * Contract
 *
 *   /proc/pressure/{cpu,memory,io,irq}, a line for "some" and one for "full":
 *
 *	some avg10=1.35 avg60=0.58 avg300=0.14 total=3817024
 *
 *   Averages in percent, total in microseconds. Programs parse this byte for
 *   byte; nothing may be added. irq has only "full": a task that an interrupt
 *   holds up is on the CPU, so none of the group can run there meanwhile.
 *
 *   For the system, "full" of cpu is undefined and shown as zero: a CPU that
 *   has nothing to run of a cgroup may run others, but there is nothing beside
 *   the system.
 */

/**
 * struct psi_resource - one kind of file
 * @name: its name below /proc/pressure
 * @some: the state its first line shows, or %PSI_NR_STATES for no such line
 * @full: the state its second line shows
 */
struct psi_resource {
	const char		*name;
	enum psi_state		some;
	enum psi_state		full;
};

static const struct psi_resource psi_resources[] = {
	{ "cpu",	PSI_CPU_SOME,	PSI_CPU_FULL },
	{ "memory",	PSI_MEM_SOME,	PSI_MEM_FULL },
	{ "io",		PSI_IO_SOME,	PSI_IO_FULL },
#ifdef CONFIG_IRQ_TIME_ACCOUNTING
	{ "irq",	PSI_NR_STATES,	PSI_IRQ_FULL },
#endif
};

static void psi_show_line(struct seq_file *m, const char *name, const u32 *avg, u64 total)
{
	static const char * const horizons[PSI_NR_HORIZONS] = { "avg10", "avg60", "avg300" };
	int h;

	seq_puts(m, name);
	for (h = 0; h < PSI_NR_HORIZONS; h++) {
		unsigned int bp = psi_avg_basis_points(avg[h]);

		seq_printf(m, " %s=%u.%02u", horizons[h], bp / 100, bp % 100);
	}
	seq_printf(m, " total=%llu\n", div_u64(total, NSEC_PER_USEC));
}

/* Whether this machine can tell interrupt time from the rest. */
static bool psi_resource_available(const struct psi_resource *res)
{
	return res->full != PSI_IRQ_FULL || irqtime_accounted();
}

static int psi_show(struct seq_file *m, struct psi_group *group, const struct psi_resource *res)
{
	u64 total[PSI_NR_STATES];
	struct psi_avgs avgs;

	if (!psi_resource_available(res))
		return -EOPNOTSUPP;

	psi_read(group, total, &avgs);
	if (group == &psi_system) {
		total[PSI_CPU_FULL] = 0;
		memset(avgs.avg[PSI_CPU_FULL], 0, sizeof(avgs.avg[PSI_CPU_FULL]));
	}
	if (res->some != PSI_NR_STATES)
		psi_show_line(m, "some", avgs.avg[res->some], total[res->some]);
	psi_show_line(m, "full", avgs.avg[res->full], total[res->full]);
	return 0;
}

static int psi_proc_show(struct seq_file *m, void *v)
{
	return psi_show(m, &psi_system, m->private);
}

static int psi_proc_open(struct inode *inode, struct file *file)
{
	return single_open(file, psi_proc_show, pde_data(inode));
}

/* Triggers are armed by writing; there are none yet. */
static ssize_t psi_proc_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	return -EOPNOTSUPP;
}

static const struct proc_ops psi_proc_ops = {
	.proc_open	= psi_proc_open,
	.proc_read_iter	= seq_read_iter,
	.proc_write	= psi_proc_write,
	.proc_lseek	= seq_lseek,
	.proc_release	= single_release,
};

static int __init psi_proc_init(void)
{
	struct proc_dir_entry *dir;
	int i;

	if (static_branch_likely(&psi_disabled))
		return 0;

	dir = proc_mkdir("pressure", NULL);
	if (!dir)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(psi_resources); i++)
		proc_create_data(psi_resources[i].name, 0666, dir, &psi_proc_ops,
				 (void *)&psi_resources[i]);
	return 0;
}
module_init(psi_proc_init);
