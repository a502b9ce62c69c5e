// SPDX-License-Identifier: GPL-2.0
// Memory-stall sections: the two calls, and a condition under which there was nothing else.

@@
expression C, E;
@@
(
- if (C) psi_memstall_enter(E);
|
- if (C) psi_memstall_leave(E);
)

@@
expression E;
@@
(
- psi_memstall_enter(E);
|
- psi_memstall_leave(E);
)
