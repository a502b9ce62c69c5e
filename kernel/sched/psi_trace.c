// SPDX-License-Identifier: GPL-2.0
/* Pressure stall information: the events of tracefs, see trace/events/psi.h */
#define CREATE_TRACE_POINTS
#include <trace/events/psi.h>

/* @before: the averages before the window ended. */
static void psi_trace_update(const struct psi_group *group,
			     const struct psi_avgs *before)
{
	const struct psi_account *plain = &group->plain;
	int id, s;

	for (id = 0; id < PSI_NR_FILES; id++) {
		const struct psi_file *file = &psi_files[id];
		/* Of "full", then "some". */
		unsigned int avg[2] = { };
		u64 total[2] = { };
		bool moved = false;

		psi_for_each_state(s, file->states) {
			bool some = PSI_SOME_STATES & BIT(s);
			u64 ns = psi_since(plain->total[s],
					   READ_ONCE(plain->skip[s]));

			moved |= memcmp(before->avg[s], plain->avgs.avg[s],
					sizeof(before->avg[s]));
			total[some] = div_u64(ns, NSEC_PER_USEC);
			avg[some] = psi_avg_basis_points(plain->avgs.avg[s][PSI_10S]);
		}
		if (moved)
			trace_psi_update(group->id, file->name, total[true], total[false],
					 avg[true], avg[false]);
	}
}
