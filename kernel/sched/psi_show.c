// SPDX-License-Identifier: GPL-2.0
/* Pressure stall information: the files; psi_line.c has their lines */

/**
 * psi_switch - switch a group off or on
 * @group: the group
 * @on: whether its totals grow from now on
 *
 * The group goes on measuring; its triggers and causes see no stall. While it
 * is off, readers see the largest total that any reader saw. Readers that began
 * before may still raise it. Later readers skip what came meanwhile:
 *	total		10 .. 25  off  25 .. 40  on  40 .. 60
 *	skip		    0		     0	       15
 *	readers see	10 .. 25	    25	     25 .. 45
 *
 * Context: Process context. The caller prevents other switches, with a lock:
 *	    that orders what one switch writes before what the next one does.
 */
void psi_switch(struct psi_group *group, bool on)
{
	static struct psi_account readings[PSI_NR_KINDS];
	int kind, s;

	/* Of kinds that nobody asked about nothing is read. */
	memset(readings, 0, sizeof(readings));
	psi_read(group, PSI_NR_KINDS, PSI_ALL_STATES, readings);
	for (kind = PSI_PLAIN; on && kind < (group->accounts ? PSI_NR_KINDS : 1); kind++) {
		u64 *skip = psi_account_of(group, kind)->skip;
		u64 *total = readings[kind].total;

		for (s = PSI_NONIDLE + 1; s < PSI_NR_STATES; s++)
			WRITE_ONCE(skip[s], skip[s] - total[s] +
				   atomic64_read(&readings[kind].shown[s]));
	}
	/* A reader that sees it sees @skip. Pairs with psi_switches(). */
	smp_store_release(&group->switches, group->switches + 1);
}

/**
 * psi_is_off - whether psi_switch() switched a group off
 * @group: the group
 * Return: whether it did
 */
bool psi_is_off(const struct psi_group *group)
{
	return psi_switches(group) & 1;
}

/**
 * psi_show - print a pressure file
 * @m: the file to print to
 * @group: the group whose pressure it shows
 * @id: which of the group's files
 * Context: Process context.
 * Return: 0, -ENOMEM, or -EOPNOTSUPP for irq without accounting of its time
 */
int psi_show(struct seq_file *m, struct psi_group *group, enum psi_file_id id)
{
	const struct psi_file *file = &psi_files[id];
	struct psi_account reading __uninitialized;

	if (!psi_file_available(id))
		return -EOPNOTSUPP;
	if (id == PSI_STAT)
		return psi_show_stat(m, group);
	psi_read(group, 1, file->states, &reading);
	psi_show_lines(m, file, PSI_PLAIN, &reading, false);
	return 0;
}

/**
 * psi_some_memory_us - the "some" total of /proc/pressure/memory
 *
 * Context: Process context.
 * Return: stall since boot in us, which never shrinks; 0 while PSI is off
 */
u64 psi_some_memory_us(void)
{
	struct psi_account reading;

	if (!psi_enabled())
		return 0;

	psi_read(&psi_system, 1, BIT(PSI_MEM_SOME), &reading);
	return div_u64(reading.total[PSI_MEM_SOME], NSEC_PER_USEC);
}

/* An open file of /proc/pressure. Pollers may come before the trigger. */
struct psi_open {
	enum psi_file_id	id;
	struct psi_trigger	*trigger;
	wait_queue_head_t	wait;
};

static struct psi_open *psi_open_of(struct file *file)
{
	return ((struct seq_file *)file->private_data)->private;
}

static int psi_proc_show(struct seq_file *m, void *v)
{
	struct psi_open *open = m->private;

	return psi_show(m, &psi_system, open->id);
}

static int psi_proc_open(struct inode *inode, struct file *file)
{
	struct psi_open *open = kzalloc(sizeof(*open), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!open)
		return -ENOMEM;
	open->id = (uintptr_t)pde_data(inode);
	init_waitqueue_head(&open->wait);
	ret = single_open(file, psi_proc_show, open);
	if (ret)
		kfree(open);
	return ret;
}

static int psi_proc_release(struct inode *inode, struct file *file)
{
	struct psi_open *open = psi_open_of(file);

	psi_disarm(open->trigger);
	kfree(open);
	return single_release(inode, file);
}

static ssize_t psi_proc_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	char *text __free(kfree) = NULL;
	struct psi_open *open = psi_open_of(file);

	if (len > PAGE_SIZE)
		return -EINVAL;
	text = memdup_user_nul(buf, len);
	if (IS_ERR(text))
		return PTR_ERR(text);
	return psi_arm(&open->trigger, &psi_system, open->id, text, file, &open->wait) ?: len;
}

static __poll_t psi_proc_poll(struct file *file, poll_table *wait)
{
	struct psi_open *open = psi_open_of(file);

	return psi_poll(&open->trigger, file, &open->wait, wait);
}

static const struct proc_ops psi_proc_ops = {
	.proc_open	= psi_proc_open,
	.proc_read_iter	= seq_read_iter,
	.proc_write	= psi_proc_write,
	.proc_poll	= psi_proc_poll,
	.proc_lseek	= seq_lseek,
	.proc_release	= psi_proc_release,
};

static int __init psi_proc_init(void)
{
	struct proc_dir_entry *dir;
	uintptr_t id;

	if (!psi_enabled())
		return 0;

	dir = proc_mkdir("pressure", NULL);
	if (!dir)
		return -ENOMEM;
	for (id = 0; id < PSI_NR_FILES; id++) {
		if (psi_files[id].name)
			proc_create_data(psi_files[id].name, 0666, dir, &psi_proc_ops, (void *)id);
	}
	return 0;
}
module_init(psi_proc_init);
