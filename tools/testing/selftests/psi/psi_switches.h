/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How often threads of the kernel run
 */
#ifndef PSI_SWITCHES_H
#define PSI_SWITCHES_H

#include "psi_util.h"

/*
 * How often kernel threads were switched to so far: all of them, those that
 * serve triggers, and the real-time one of the latter.
 */
__u64 kthread_switches(void);
__u64 monitor_switches(void);
__u64 rt_monitor_switches(void);
/* CPU time of the real-time one so far, in ns. */
__u64 rt_monitor_ran_ns(void);

#endif
