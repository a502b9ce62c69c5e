# SPDX-License-Identifier: GPL-2.0
"""Owns what the terminal shows while the demo runs.

On a terminal that is wide enough: a table, redrawn in place at every sample.
Anywhere else: a line for each phase, and a line for each second of guest time.
"""

import os
import shutil

from record import LINES, RESOURCES

BAR = 24
WIDTH = 79
EVERY = 1.0  # s of guest time between two plain lines


def shares(record, name):
    intervals = record.intervals(name)
    return 100 * intervals[-1][2] if intervals else 0.0


class Plain:
    """One line after the other, for logs and narrow terminals."""

    def __init__(self, out):
        self._out = out
        self._last = None

    def phase(self, record):
        phase = record.phases[-1]
        if phase.end is None:
            self._out.write(f"{phase.begin:6.1f} s  {phase.name}: {phase.text}\n")

    def sample(self, record):
        sample = record.samples[-1]
        if self._last is not None and sample.t - self._last < EVERY - 0.1:
            return
        self._last = sample.t
        some = "  ".join(f"{r} {shares(record, f'{r}.some'):5.1f} %"
                         for r in RESOURCES if f"{r}.some" in sample.values)
        self._out.write(f"{sample.t:6.1f} s  some: {some}\n")
        self._out.flush()

    def close(self):
        pass


class Table:
    """The pressure files as they are now, in place."""

    def __init__(self, out):
        self._out = out
        self._rows = 0
        self._out.write("\x1b[?25l")  # no cursor

    def phase(self, record):
        pass  # its sample follows at once

    def sample(self, record):
        sample, phase = record.samples[-1], record.phases[-1]
        rows = [f"guest time {sample.t:6.1f} s    {phase.name}: {phase.text}", "",
                f"{'':<14}{'stalled since the last sample':<{BAR + 12}}{'avg10':>9}{'total':>13}"]
        for resource in RESOURCES:
            for line in LINES:
                name = f"{resource}.{line}"
                if name not in sample.values:
                    continue
                avg10, total = sample.values[name]
                share = shares(record, name)
                bar = "█" * round(BAR * min(share, 100) / 100)
                rows.append(f"{resource:<8}{line:<6}{bar:·<{BAR}}{share:8.1f} %  "
                            f"{avg10:7.2f} %{total:11.3f} s")
        up = f"\x1b[{self._rows}A" if self._rows else ""
        self._out.write(up + "".join(f"\r{row}\x1b[K\n" for row in rows))
        self._out.flush()
        self._rows = len(rows)

    def close(self):
        self._out.write("\x1b[?25h")
        self._out.flush()


def choose(out):
    """A Table where it can be redrawn, else Plain."""
    able = (out.isatty() and os.environ.get("TERM", "dumb") != "dumb" and "utf" in (out.encoding or "").lower()
            and shutil.get_terminal_size().columns >= WIDTH)
    return Table(out) if able else Plain(out)
