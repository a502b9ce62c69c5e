// SPDX-License-Identifier: GPL-2.0
// erofs: the flag that says whether the section is open.

@@
symbol memstall;
expression E;
@@
(
- if (memstall) { memstall = 0; }
|
- if (unlikely(E) && !memstall) { memstall = 1; }
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
