# SPDX-License-Identifier: GPL-2.0
"""Owns which lines of a console log are complaints of the kernel.

Only what the kernel itself says counts, so a line must carry printk's time
stamp (the runner boots with printk.time=1), wherever in the line it is: a
program may have left half a line on the console before it.  A program that
writes "BUG: " to its standard error is no splat.
"""

import re

STAMP = r"\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? "

SPLATS = (
    # WARN(), lockdep ("possible circular locking", "inconsistent lock
    # state", "suspicious RCU usage" all begin so), and their kin.
    r"WARNING: ",
    r"(?:watchdog: )?BUG: ",  # KASAN, KCSAN, oops, atomic sleep, soft lockup
    r"kernel BUG at ",
    r"Oops: ",
    r"general protection fault",
    r"Kernel panic - not syncing",
    r"UBSAN: ",
    r".*\b(?:possible (?:circular|recursive) locking|inconsistent lock state|suspicious RCU usage)",
    r"INFO: (?:task|possible|inconsistent|trying to register non-static key)",  # hung task, lockdep
    r"(?:rcu: )?INFO: rcu\w* (?:self-)?detected (?:expedited )?stalls?",
    r"rcu: .*\b(?:kthread starved|kthread timer wakeup didn't happen)",
    r"watchdog: .*\b(?:hard LOCKUP|soft lockup)",
    r"kmemleak: \d+ new suspected memory leaks",
    r"(?:list_add|list_del) corruption",
    r"refcount_t: ",
    # Clocks that do not work: no number of such a run means anything.
    r"APIC timer disabled due to verification failure",
    r"tsc: Marking TSC unstable",
)

# PSI's own complaints.  The runner boots with loglevel=5, so that of PSI's
# lines only warnings and errors reach the console; the line that tells at
# boot whether PSI is on, which is none, does so when a caller asks for more.
PSI = r"psi: (?!(?:enabled|disabled|on|off|initiali[sz]ed|using)\b(?!.*\b(?:inconsisten|fail|bug)))"

PATTERN = re.compile(STAMP + "(?:" + "|".join((*SPLATS, PSI)) + ")", re.IGNORECASE)


def find(text):
    """The first complaint in a console log, or None."""
    for line in text.splitlines():
        if match := PATTERN.search(line):
            return line[match.start():].rstrip()
    return None
