# SPDX-License-Identifier: GPL-2.0
"""Owns what the terminal shows while the demo runs.

On a terminal that is wide enough: a table, redrawn in place at every sample.
Anywhere else: a line for each second of guest time.
"""

import os
import shutil

from record import RESOURCES

BAR = 24
WIDTH = 79
EVERY = 1.0  # s of guest time between two plain lines


def share(record, name):
    intervals = record.intervals(name)
    return 100 * intervals[-1][2] if intervals else 0.0


def rows(record):
    """The pressure files as they are now."""
    sample, phase = record.samples[-1], record.phases[-1]
    yield f"guest time {sample.t:6.1f} s    {phase.name}: {phase.text}"
    yield ""
    yield f"{'':<14}{'stalled since the last sample':<{BAR + 12}}{'avg10':>9}{'total':>13}"
    for resource in RESOURCES:
        for name in record.names(resource):
            avg10, total = sample.values[name]
            percent = share(record, name)
            bar = "█" * round(BAR * min(percent, 100) / 100)
            yield (f"{resource:<8}{name.split('.')[1]:<6}{bar:·<{BAR}}{percent:8.1f} %  "
                   f"{avg10:7.2f} %{total:11.3f} s")


class Screen:
    """Shows the last sample of a record on OUT."""

    def __init__(self, out):
        self._out = out
        self._redraws = (out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
                         and "utf" in (out.encoding or "").lower() and shutil.get_terminal_size().columns >= WIDTH)
        self._up = ""  # to the first row of the last table
        self._last = -EVERY

    def sample(self, record):
        sample = record.samples[-1]
        if self._redraws:
            found = list(rows(record))
            self._out.write(self._up + "".join(f"\r{row}\x1b[K\n" for row in found))
            self._up = f"\x1b[{len(found)}A"
        elif sample.t - self._last > EVERY - 0.1:
            some = "  ".join(f"{each} {share(record, f'{each}.some'):5.1f} %" for each in RESOURCES
                             if f"{each}.some" in sample.values)
            self._out.write(f"{sample.t:6.1f} s  {record.phases[-1].name:<10}some: {some}\n")
            self._last = sample.t
        self._out.flush()
