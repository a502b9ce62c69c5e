// SPDX-License-Identifier: GPL-2.0
// Readahead: the two fields of struct readahead_control behind it.

@@ @@
 struct readahead_control {
 ...
- bool _workingset;
- unsigned long _pflags;
 };
