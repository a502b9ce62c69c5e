// SPDX-License-Identifier: GPL-2.0
// The local variable that kept the state of a memory-stall section: nothing uses it any more.

@@
symbol pflags;
@@
{
...
- unsigned long pflags;
... when != pflags
    when any
}
