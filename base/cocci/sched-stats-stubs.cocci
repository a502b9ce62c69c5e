// SPDX-License-Identifier: GPL-2.0
// Scheduler: the empty stubs that unifdef leaves in stats.h.

@@
identifier f =~ "^psi_";
@@
- static inline void f(...) {}
