// SPDX-License-Identifier: GPL-2.0
// Readahead: the section that readahead_expand() and the readers share through
// struct readahead_control.

@@
struct readahead_control *rac;
expression E;
symbol true, false;
@@
(
- if (unlikely(E) && !rac->_workingset) { rac->_workingset = true; }
|
- rac->_workingset = false;
|
- rac->_workingset |= E;
)
