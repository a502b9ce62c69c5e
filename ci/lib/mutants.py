# SPDX-License-Identifier: GPL-2.0
"""The small bugs of ci/lists/mutants, which say what each changes and who should find it."""
import dataclasses
import sys


@dataclasses.dataclass
class Mutant:
    """One bug: where it is, and which checks look for it."""
    name: str
    file: str = ""
    checks: list = dataclasses.field(default_factory=list)
    old: str = ""
    new: str = ""

    def problem(self, root):
        """Why it cannot be made in the project at @root, or None."""
        path = root / self.file
        times = path.read_text().count(self.old) if path.is_file() else 0
        return None if self.old and times == 1 else f"{self.name}: {self.file} has its lines {times} times"

    def apply(self, root):
        problem = self.problem(root)
        if problem:
            sys.exit(f"mutations: {problem}")
        path = root / self.file
        path.write_text(path.read_text().replace(self.old, self.new))


def read(root):
    """The bugs of ci/lists/mutants."""
    mutants = []
    for number, line in enumerate((root / "ci" / "lists" / "mutants").read_text().splitlines(), 1):
        mark, rest = line[:1], line[1:]
        if mark in ("", "#"):
            continue
        if mark == "=":
            mutants.append(Mutant(rest.strip()))
        elif mark == "@":
            mutants[-1].file = rest.strip()
        elif mark == "?":
            mutants[-1].checks.append(rest.split())
        elif mark == "-":
            mutants[-1].old += rest + "\n"
        elif mark == "+":
            mutants[-1].new += rest + "\n"
        else:
            sys.exit(f"mutations: ci/lists/mutants:{number}: what is that?")
    return mutants
