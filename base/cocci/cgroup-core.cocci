// SPDX-License-Identifier: GPL-2.0
// cgroup: accounting object, files, and the move of a task. What unifdef leaves are
// only the users outside of #ifdef CONFIG_PSI.

@move@
expression T, C;
@@
- cgroup_move_task(T, C);
+ rcu_assign_pointer(T->cgroups, C);

@@
expression R, C;
identifier label;
@@
- R = psi_cgroup_alloc(C);
- if (R) goto label;

@@
expression C;
@@
- psi_cgroup_free(C);

@@
statement S;
@@
- if (cgroup_psi_enabled()) S

@@
symbol cgroup_psi_files;
@@
- BUG_ON(cgroup_init_cftypes(NULL, cgroup_psi_files));

@@
type T;
identifier f =~ "^cgroup_psi_enabled$";
@@
- T f(...) { ... }
