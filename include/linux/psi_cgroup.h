/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PSI_CGROUP_H
#define _LINUX_PSI_CGROUP_H

#include <linux/cgroup-defs.h>
#include <linux/psi.h>

/* Pressure stall information of cgroups, for kernel/sched and kernel/cgroup. */

#ifdef CONFIG_CGROUPS
#ifdef CONFIG_PSI

bool cgroup_psi_enabled(void);
int psi_cgroup_alloc(struct cgroup *cgrp);
void psi_cgroup_free(struct cgroup *cgrp);
void cgroup_move_task(struct task_struct *p, struct css_set *to);

/**
 * cgroup_psi - the group that counts the tasks of a cgroup, and its files show
 * @cgrp: the cgroup
 * Return: the cgroup's own group; the system's for a root, on cgroup v1, and
 *	   where cgroups have no pressure files.
 */
static inline struct psi_group *cgroup_psi(struct cgroup *cgrp)
{
	return cgrp->psi ?: &psi_system;
}

#else /* CONFIG_PSI */

static inline bool cgroup_psi_enabled(void) { return false; }
static inline void psi_cgroup_free(struct cgroup *cgrp) { }
static inline int psi_cgroup_alloc(struct cgroup *cgrp) { return 0; }

static inline void cgroup_move_task(struct task_struct *p, struct css_set *to)
{
	rcu_assign_pointer(p->cgroups, to);
}

#endif /* CONFIG_PSI */
#endif /* CONFIG_CGROUPS */

#endif /* _LINUX_PSI_CGROUP_H */
