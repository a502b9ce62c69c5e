# SPDX-License-Identifier: GPL-2.0
"""The small bugs of ci/lists/mutants, which say what each changes and who should find it.

A bug names a function, and the tokens in it that change: where the function stands, how its lines are broken and
what its comments say does not matter.
"""
import dataclasses
import functools
import json
import re
import subprocess
import sys

from . import exempt

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*")', re.S)
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|\w+|->|<<=|>>=|<<|>>|&&|\|\||\+\+|--|[-+*/%&|^!=<>]=|\S')


def tokens(text):
    """[(token, where it begins, where it ends)], without comments."""
    bare = COMMENT.sub(lambda match: match[1] or " " * len(match[0]), text)
    return [(match[0], match.start(), match.end()) for match in TOKEN.finditer(bare)]


@functools.cache
def functions(tree):
    """{name: [(file, first line, last line)]} of the files that the series touches in TREE."""
    def output(*command):
        return subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout
    names = output("git", "-c", "safe.directory=*", "diff", "--name-only", "--diff-filter=AM", "refs/psi/base", "HEAD", "--",
                   "*.c", "*.h", ":!tools").split()
    found = {}
    for line in output("ctags", "--output-format=json", "--languages=C", "--langmap=C:.c.h", "--fields=+ne", "--kinds-C=f",
                       "-f", "-", *names).splitlines():
        tag = json.loads(line)
        found.setdefault(tag["name"], []).append((tag["path"], tag["line"], tag.get("end", tag["line"])))
    return found


@dataclasses.dataclass
class Mutant:
    """One bug: where it is, and which checks look for it."""
    name: str
    place: str          # a function, or a file for what is in no function
    checks: list
    edit: str = ""      # the tokens that are there => what comes in their place

    def places(self, tree):
        """Where it can be made: [(file, begin, end)]; and why it cannot, if these are not one."""
        if "/" in self.place:
            parts = [(self.place, 1, 10 ** 9)] * (tree / self.place).is_file()
        else:
            parts = functions(tree).get(self.place, [])
        if not parts:
            return [], f"{self.name}: no such {'file' if '/' in self.place else 'function'}: {self.place}"
        wanted, found = [token for token, _, _ in tokens(self.edit.partition("=>")[0])], []
        for path, first, last in parts:
            lines = (tree / path).read_text().splitlines(keepends=True)
            start = sum(map(len, lines[:first - 1]))
            there = tokens("".join(lines[first - 1:last]))
            words = [token for token, _, _ in there]
            found += [(path, start + there[number][1], start + there[number + len(wanted) - 1][2])
                      for number in range(len(words)) if words[number:number + len(wanted)] == wanted]
        return found, None if wanted and len(found) == 1 else \
            f"{self.name}: {self.place} has these tokens {len(found)} times: {' '.join(wanted)}"

    def problem(self, tree):
        """Why it cannot be made in the kernel TREE, or None."""
        return self.places(tree)[1]

    def apply(self, tree):
        found, problem = self.places(tree)
        if problem:
            sys.exit(f"mutations: {problem}")
        (name, begin, end), = found
        text = (tree / name).read_text()
        (tree / name).write_text(text[:begin] + self.edit.partition("=>")[2].strip() + text[end:])


def read(root, name="mutants"):
    """The bugs of ci/lists/mutants, or of another list, and those that only KERNEL has."""
    mutants, checks = [], []
    for line in "".join(path.read_text() for path in exempt.files(name, root)).splitlines():
        if line.startswith("["):
            checks = [check.split() for check in line[1:-1].split("; ")]
        elif line.startswith("\t"):
            mutants[-1].edit += line[1:] + "\n"
        elif line and not line.startswith("#"):
            place, _, name = line.partition(": ")
            mutants.append(Mutant(name, place, checks))
    return mutants
