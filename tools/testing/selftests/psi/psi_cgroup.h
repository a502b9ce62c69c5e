/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cgroups: creating and removing them, their tasks, their files
 */
#ifndef PSI_CGROUP_H
#define PSI_CGROUP_H

#include <stdbool.h>
#include <sys/types.h>

#include "psi_pressure.h"

#define CGROUP_ROOT	"/sys/fs/cgroup"

/**
 * cgroup_create - create a cgroup, in place of one that an earlier test left
 * @path: its directory; the parent exists
 * @controllers: enabled in all its ancestors, e.g. "+memory +io"; may be empty
 */
void cgroup_create(const char *path, const char *controllers);
/* Kills all tasks in the cgroup and below it, and removes the whole subtree. */
void cgroup_remove(const char *path);

/*
 * Moving a task waits for a grace period of RCU, unless the hierarchy is
 * mounted with favordynmods.
 */
void cgroup_moves_are_fast(void);
/* Moves a process with all its threads. */
void cgroup_move(const char *path, pid_t pid);
/* The caller joins a new cgroup that has the io controller. */
void group_enter(const char *path);
/* The caller goes back to the root. */
void group_leave(void);
void cgroup_write(const char *path, const char *file, const char *text);
/* Returns 0, or the error. */
int cgroup_try_write(const char *path, const char *file, const char *text);
bool cgroup_has(const char *path, const char *file);

/* Reads one pressure file of a cgroup, e.g. "cpu.pressure". */
void cgroup_psi_read(const char *path, const char *file, struct psi *psi);

#endif
