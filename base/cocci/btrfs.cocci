// SPDX-License-Identifier: GPL-2.0
// btrfs: the flag and the section state that the readahead helper handed back to its caller.

@@
symbol memstall, pflags;
identifier f, p1, p2;
@@
f(...,
- int *p1, unsigned long *p2
  )
{
<...
- if (!*p1 && ...) { *p1 = 1; }
...>
}
