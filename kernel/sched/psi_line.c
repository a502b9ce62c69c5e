// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the lines of the files
 *
 * Contract
 *
 *   /proc/pressure/{cpu,memory,io,irq}, a line for "some" and one for "full":
 *
 *	some avg10=1.35 avg60=0.58 avg300=0.14 total=3817024
 *
 *   Averages are in percent, the total in microseconds. Programs parse this
 *   byte by byte, so nothing may be added: more is in the statistics file
 *   (psi_stat.c). irq has only "full": no task of a group can run where an
 *   interrupt holds one up. For the system, "full" of cpu is zero: no task is
 *   outside it.
 */

/**
 * struct psi_file - the lines about a resource
 * @name: of the resource, and of its plain file below /proc/pressure
 * @some: the state its first line shows, or %PSI_NR_STATES for no such line
 * @full: the state its second line shows
 */
struct psi_file {
	const char		*name;
	enum psi_state		some;
	enum psi_state		full;
};

static const struct psi_file psi_files[PSI_NR_FILES] = {
	[PSI_CPU]	= { "cpu",	PSI_CPU_SOME,	PSI_CPU_FULL },
	[PSI_MEMORY]	= { "memory",	PSI_MEM_SOME,	PSI_MEM_FULL },
	[PSI_IO]	= { "io",	PSI_IO_SOME,	PSI_IO_FULL },
#ifdef CONFIG_PSI_STAT
	[PSI_STAT]	= { "stat",	PSI_NR_STATES,	PSI_NR_STATES },
#endif
#ifdef CONFIG_IRQ_TIME_ACCOUNTING
	[PSI_IRQ]	= { "irq",	PSI_NR_STATES,	PSI_IRQ_FULL },
#endif
};

/* The kinds of pressure in keys of the statistics file. */
static const char * const psi_kinds[PSI_NR_KINDS] = { "", "exact.", "limit.", "shortage." };

static bool psi_file_available(enum psi_file_id id)
{
	return psi_files[id].name && (id != PSI_IRQ || irqtime_enabled());
}

static bool psi_skip_word(const char **p, const char *word)
{
	size_t len = str_has_prefix(*p, word);

	*p += len;
	return len;
}

static bool psi_parse_state(const char **p, const struct psi_file *file, enum psi_state *state)
{
	if (psi_skip_word(p, "some"))
		*state = file->some;
	else if (psi_skip_word(p, "full"))
		*state = file->full;
	else
		return false;
	return *state != PSI_NR_STATES;
}

/*
 * The lines about a resource, each with its key as in the statistics file, or
 * without. Monitors read many of these files: seq_printf() is slow.
 */
static void psi_show_lines(struct seq_file *m, const struct psi_file *file, enum psi_kind kind,
			   const struct psi_account *reading, bool key)
{
	static const char * const horizons[PSI_NR_HORIZONS] = {
		" avg10=", " avg60=", " avg300="
	};
	int s, h;

	psi_for_each_state(s, (BIT(file->some) | BIT(file->full)) & PSI_ALL_STATES) {
		if (key) {
			seq_puts(m, file->name);
			seq_putc(m, '.');
			seq_puts(m, psi_kinds[kind]);
		}
		seq_puts(m, s == file->full ? "full" : "some");
		for (h = 0; h < PSI_NR_HORIZONS; h++) {
			unsigned int avg = psi_avg_basis_points(reading->avgs.avg[s][h]);

			seq_put_decimal_ull(m, horizons[h], avg / 100);
			seq_put_decimal_ull(m, ".", avg / 10 % 10);
			seq_put_decimal_ull(m, "", avg % 10);
		}
		seq_put_decimal_ull(m, " total=", div_u64(reading->total[s], NSEC_PER_USEC));
		seq_putc(m, '\n');
	}
}

/*
 * Make totals agree as "Limit or shortage" in psi.rst says. What readers saw of
 * a window that goes on may be ahead, by another amount for each kind. That
 * stays if the group is switched then, and other readers may show more of some.
 */
static void psi_mask_classes(struct psi_account *readings)
{
	u64 *exact = readings[PSI_EXACT].total, *limit = readings[PSI_LIMIT].total;
	u64 *shortage = readings[PSI_SHORTAGE].total;
	int s;

	for (s = PSI_NONIDLE + 1; s < PSI_NR_STATES; s++) {
		exact[s] = min(exact[s], limit[s] + shortage[s]);
		limit[s] = min(limit[s], exact[s]);
		shortage[s] = min(shortage[s], exact[s]);
	}
}
