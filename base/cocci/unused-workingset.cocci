// SPDX-License-Identifier: GPL-2.0
// A local variable that was only there to decide whether to enter a memory-stall section.

@@
symbol workingset;
expression E;
@@
{
...
- bool workingset = folio_test_workingset(E);
... when != workingset
    when any
}
