// SPDX-License-Identifier: GPL-2.0
/* Pressure stall information: the events of tracefs, see trace/events/psi.h */
#define CREATE_TRACE_POINTS
#include <trace/events/psi.h>

/* @before: the averages before the window ended. */
static void psi_trace_update(const struct psi_group *group, const struct psi_avgs *before)
{
	const struct psi_account *plain = &group->plain;
	int id, s;

	for (id = 0; id < PSI_NR_FILES; id++) {
		const struct psi_file *file = &psi_files[id];
		u64 total[PSI_NR_STATES + 1] = { };
		unsigned int avg[PSI_NR_STATES + 1] = { };
		bool moved = false;

		if (!file->name || id == PSI_STAT)
			continue;
		/* PSI_NR_STATES is the state of a line that is not there. */
		psi_for_each_state(s, (BIT(file->some) | BIT(file->full)) & PSI_ALL_STATES) {
			moved |= memcmp(before->avg[s], plain->avgs.avg[s], sizeof(before->avg[s]));
			if (group == &psi_system && s == PSI_CPU_FULL)
				continue;
			total[s] = psi_since(plain->total[s], READ_ONCE(plain->skip[s]));
			total[s] = div_u64(total[s], NSEC_PER_USEC);
			avg[s] = psi_avg_basis_points(plain->avgs.avg[s][PSI_10S]);
		}
		if (moved)
			trace_psi_update(group->id, file->name, total[file->some],
					 total[file->full], avg[file->some], avg[file->full]);
	}
}
