// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: the lines of the files
 *
 *   /proc/pressure/{cpu,memory,io,irq}, a line for "some" and one for "full":
 *	some avg10=1.35 avg60=0.58 avg300=0.14 total=3817024
 *
 *   Averages are in percent, the total in microseconds. Programs parse this
 *   byte by byte, so nothing may be added: psi_stat.c has more. irq has only
 *   "full": no task of a group can run where an interrupt holds one up. "full"
 *   of cpu is zero for the system: no task is outside it.
 */

/* The lines about a resource. @states: a bit mask of "some", then "full". */
struct psi_file {
	const char		*name;
	unsigned int		states;
};

static const struct psi_file psi_files[PSI_NR_FILES] = {
	[PSI_CPU]	= { "cpu",	BIT(PSI_CPU_SOME) | BIT(PSI_CPU_FULL) },
	[PSI_MEMORY]	= { "memory",	BIT(PSI_MEM_SOME) | BIT(PSI_MEM_FULL) },
	[PSI_IO]	= { "io",	BIT(PSI_IO_SOME) | BIT(PSI_IO_FULL) },
#ifdef CONFIG_PSI_STAT
	[PSI_STAT]	= { "stat" },
#endif
#ifdef CONFIG_IRQ_TIME_ACCOUNTING
	[PSI_IRQ]	= { "irq",	BIT(PSI_IRQ_FULL) },
#endif
};

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

static const char *psi_line_name(enum psi_state state)
{
	return PSI_SOME_STATES & BIT(state) ? "some" : "full";
}

static bool psi_parse_state(const char **p, const struct psi_file *file, enum psi_state *state)
{
	psi_for_each_state(*state, file->states) {
		if (psi_skip_word(p, psi_line_name(*state)))
			return true;
	}
	return false;
}

/* A name, three averages of up to 100.00, a total of up to 20 digits. */
#define PSI_LINE_MAX	(sizeof("some avg10= avg60= avg300= total=\n") + 3 * 6 + 20)

/*
 * Write a line of up to PSI_LINE_MAX bytes; return its length. Monitors read
 * many of these files: seq_put_decimal_ull() would double what a read costs.
 */
static size_t psi_put_line(char *line, const char *name, const u32 *avg, u64 ns)
{
	static const char horizons[PSI_NR_HORIZONS][9] = {
		" avg10=", " avg60=", " avg300="
	};
	char *at = line;

	memcpy(at, name, 4);
	at += 4;
	for (int h = 0; h < PSI_NR_HORIZONS; h++) {
		unsigned int nr = psi_avg_basis_points(avg[h]);

		memcpy(at, horizons[h], 8);
		at += h == PSI_300S ? 8 : 7;
		at += num_to_str(at, 3, nr / 100, 0);
		*at++ = '.';
		*at++ = '0' + nr / 10 % 10;
		*at++ = '0' + nr % 10;
	}
	memcpy(at, " total=", 7);
	at += 7;
	at += num_to_str(at, 20, div_u64(ns, NSEC_PER_USEC), 0);
	*at++ = '\n';
	return at - line;
}

/* The lines about a resource. @key: with keys of the statistics file. */
static void psi_show_lines(struct seq_file *m, const struct psi_file *file,
			   enum psi_kind kind,
			   const struct psi_account *reading, bool key)
{
	char line[PSI_LINE_MAX];
	int s;

	psi_for_each_state(s, file->states) {
		if (key) {
			seq_puts(m, file->name);
			seq_putc(m, '.');
			seq_puts(m, psi_kinds[kind]);
		}
		seq_write(m, line, psi_put_line(line, psi_line_name(s), reading->avgs.avg[s],
						reading->total[s]));
	}
}
