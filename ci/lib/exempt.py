# SPDX-License-Identifier: GPL-2.0
"""Lists of what a check may say, in ci/lists: lines "PATTERN... -- reason".  A line that nothing needs is an error.

What only one kernel needs is in ci/lists/KERNEL.
"""
import fnmatch

from .guest import ROOT     # which also knows where the next one is
from kernels import KERNEL
from .tap import check


def files(name, root=ROOT):
    """A list, and what only this kernel has of it."""
    lists = root / "ci" / "lists"
    return [path for path in (lists / name, lists / KERNEL / name) if path.is_file()]


class Exemptions:
    """A list whose lines have so many patterns; the last one may have blanks."""

    def __init__(self, name, fields=1):
        lines = [line for path in files(name) for line in path.read_text().splitlines() if line and not line.startswith("#")]
        self.patterns = {tuple(line.partition(" -- ")[0].split(" ", fields - 1)) for line in lines if " -- " in line}
        self.used = set()
        check(len(self.patterns) == len(lines) and {len(each) for each in self.patterns} <= {fields},
              f"ci/lists/{name}: a line is not {'PATTERN ' * fields}-- reason, or is there twice")

    def left(self, complaints):
        """Of some (words, text) the texts of those that no line covers."""
        left = []
        for words, text in complaints:
            covering = {each for each in self.patterns if all(map(fnmatch.fnmatchcase, words, each))}
            self.used |= covering
            if not covering:
                left.append(text)
        return left

    def check(self, complaints):
        """Nothing is left, and every line was needed."""
        left = self.left(complaints)
        check(not left, "\n".join(left))
        self.check_used()

    def check_used(self):
        check(self.used == self.patterns, "\n".join(map(" ".join, sorted(self.patterns - self.used))))
