/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pressure stall information: its events
 *
 * All fields are values, for histograms. The id of a cgroup is the inode number
 * of its directory, on 32 bit in the low half. The system is 1, the root.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM psi

#if !defined(_TRACE_PSI_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_PSI_H

#include <linux/string.h>
#include <linux/tracepoint.h>

/* Length of a name, with the NUL. */
#define PSI_TRACE_NAME 16

#ifdef CONFIG_PSI_CAUSES
/**
 * psi_stall - a memory stall of the current task ended
 * @cgroup: the id of the cgroup that the task is counted in
 * @cause: why it stalled: the NAME of a line memory.cause.NAME
 * @class: "limit" or "shortage"
 * @ns: how long it stalled
 */
TRACE_EVENT(psi_stall,

	TP_PROTO(u64 cgroup, const char *cause, const char *class, u64 ns),

	TP_ARGS(cgroup, cause, class, ns),

	TP_STRUCT__entry(
		__field(u64, cgroup)
		__array(char, cause, PSI_TRACE_NAME)
		__array(char, class, PSI_TRACE_NAME)
		__field(u64, ns)
	),

	TP_fast_assign(
		__entry->cgroup = cgroup;
		strscpy_pad(__entry->cause, cause, PSI_TRACE_NAME);
		strscpy_pad(__entry->class, class, PSI_TRACE_NAME);
		__entry->ns = ns;
	),

	TP_printk("cgroup=%llu cause=%s class=%s ns=%llu",
		  __entry->cgroup, __entry->cause, __entry->class, __entry->ns)
);
#endif /* CONFIG_PSI_CAUSES */

/**
 * psi_trigger - poll() is about to report the event of a trigger
 * @cgroup: the id of the cgroup whose file the trigger was armed in
 * @resource: what the file is about: "cpu", "memory", "io" or "irq"
 * @line: "some", "full", or as in a key: "exact.some" and so on
 * @threshold: us
 * @window: us
 * @stall: in the window that reached the threshold, us
 */
TRACE_EVENT(psi_trigger,

	TP_PROTO(u64 cgroup, const char *resource, const char *line, u64 threshold, u64 window,
		 u64 stall),

	TP_ARGS(cgroup, resource, line, threshold, window, stall),

	TP_STRUCT__entry(
		__field(u64, cgroup)
		__array(char, resource, PSI_TRACE_NAME)
		__array(char, line, PSI_TRACE_NAME)
		__field(u64, threshold)
		__field(u64, window)
		__field(u64, stall)
	),

	TP_fast_assign(
		__entry->cgroup = cgroup;
		strscpy_pad(__entry->resource, resource, PSI_TRACE_NAME);
		strscpy_pad(__entry->line, line, PSI_TRACE_NAME);
		__entry->threshold = threshold;
		__entry->window = window;
		__entry->stall = stall;
	),

	TP_printk("cgroup=%llu resource=%s line='%s' threshold=%llu window=%llu stall=%llu",
		  __entry->cgroup, __entry->resource, __entry->line, __entry->threshold,
		  __entry->window, __entry->stall)
);

/**
 * psi_update - averages of a pressure file moved
 * @cgroup: the id of the cgroup
 * @resource: as in psi_trigger
 * @some_total: us
 * @full_total: us
 * @some_avg10: hundredths of a percent
 * @full_avg10: hundredths of a percent
 */
TRACE_EVENT(psi_update,

	TP_PROTO(u64 cgroup, const char *resource, u64 some_total, u64 full_total,
		 unsigned int some_avg10, unsigned int full_avg10),

	TP_ARGS(cgroup, resource, some_total, full_total, some_avg10, full_avg10),

	TP_STRUCT__entry(
		__field(u64, cgroup)
		__array(char, resource, PSI_TRACE_NAME)
		__field(u64, some_total)
		__field(u64, full_total)
		__field(unsigned int, some_avg10)
		__field(unsigned int, full_avg10)
	),

	TP_fast_assign(
		__entry->cgroup = cgroup;
		strscpy_pad(__entry->resource, resource, PSI_TRACE_NAME);
		__entry->some_total = some_total;
		__entry->full_total = full_total;
		__entry->some_avg10 = some_avg10;
		__entry->full_avg10 = full_avg10;
	),

	TP_printk("cgroup=%llu resource=%s some_total=%llu full_total=%llu some_avg10=%u full_avg10=%u",
		  __entry->cgroup, __entry->resource, __entry->some_total, __entry->full_total,
		  __entry->some_avg10, __entry->full_avg10)
);

#endif /* _TRACE_PSI_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
