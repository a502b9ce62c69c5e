// SPDX-License-Identifier: GPL-2.0
// btrfs: the section that the readahead helper may open and its caller closes.

@helper@
identifier f, memstall =~ "^memstall$", pflags =~ "^pflags$";
parameter list[n] ps;
parameter list qs;
@@
 f(ps
-  , int *memstall, unsigned long *pflags
   , qs
  )
 { ... }

@lasthelper@
identifier f, memstall =~ "^memstall$", pflags =~ "^pflags$";
parameter list[n] ps;
@@
 f(ps
-  , int *memstall, unsigned long *pflags
  )
 { ... }

@@
symbol memstall;
expression E;
@@
- if (!*memstall && E) { *memstall = 1; }

@@
symbol memstall, pflags;
identifier f;
@@
 f(...,
-  &memstall, &pflags,
   ...)

@@
symbol memstall;
@@
 {
 ...
- int memstall = 0;
 ... when != memstall
     when any
 }
