// SPDX-License-Identifier: GPL-2.0
// btrfs: the section that the readahead helper may open and its caller closes.

@helper@
identifier f, memstall =~ "^memstall$", pflags =~ "^pflags$";
parameter list[n] ps;
@@
 f(ps
-  , int *memstall, unsigned long *pflags
  )
 { ... }

@@
symbol memstall;
identifier helper.f;
@@
 f(...)
 {
 <...
- if (!*memstall && ...) { *memstall = 1; }
 ...>
 }

@@
symbol memstall, pflags;
identifier helper.f;
expression list es;
@@
 f(es
-  , &memstall, &pflags
  )

@@
symbol memstall;
@@
 {
 ...
- int memstall = 0;
 ... when != memstall
     when any
 }
