// Scheduler: the empty stubs that unifdef leaves in stats.h.

@@
identifier f =~ "^psi_";
@@
- static inline void f(...) {}
