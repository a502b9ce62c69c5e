// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the statistics file
 *
 *   /proc/pressure/stat, or cgroup.pressure.stat, has all of one moment, in
 *   lines as in psi_line.c with a key of resource, kind and line, such as
 *   "cpu.exact.some". Those without a kind repeat the plain files. The causes
 *   of memory stalls follow, read a moment later (psi_causes.c).
 */

/*
 * Make totals agree as "Limit or shortage" in psi.rst says. What readers saw of
 * a window that goes on may be ahead, by another amount for each kind. That
 * stays if the group is switched then, and other readers may show more of some.
 */
static void psi_mask_classes(struct psi_account *readings)
{
	u64 *exact = readings[PSI_EXACT].total;
	u64 *limit = readings[PSI_LIMIT].total;
	u64 *shortage = readings[PSI_SHORTAGE].total;
	int s;

	for (s = PSI_NONIDLE + 1; s < PSI_NR_STATES; s++) {
		exact[s] = min(exact[s], limit[s] + shortage[s]);
		limit[s] = min(limit[s], exact[s]);
		shortage[s] = min(shortage[s], exact[s]);
	}
}

static int psi_show_stat(struct seq_file *m, struct psi_group *group)
{
	struct psi_account *readings __free(kfree) =
		kmalloc_array(PSI_NR_KINDS, sizeof(*readings), GFP_KERNEL);
	struct psi_asked *asked;
	enum psi_file_id id;
	int kind;

	asked = readings ? psi_ask(group) : NULL;
	if (!asked)
		return -ENOMEM;
	WRITE_ONCE(asked->read, ktime_get_seconds());
	psi_read(group, PSI_NR_KINDS, PSI_ALL_STATES, readings);
	psi_mask_classes(readings);
	psi_unask(asked);
	for (id = 0; id < PSI_STAT; id++) {
		for (kind = 0; kind < PSI_NR_KINDS && psi_file_available(id); kind++) {
			if (kind == PSI_PLAIN || id != PSI_IRQ)
				psi_show_lines(m, &psi_files[id], kind, &readings[kind], true);
		}
	}
	psi_show_causes(m, group);
	return 0;
}
