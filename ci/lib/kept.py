# SPDX-License-Identifier: GPL-2.0
"""The tables that slow verbs keep below build/, where a row stays until it is run again, and those of docs/."""
import hashlib
import json
import pathlib
import re
import subprocess
import sys

from . import codehash
from .guest import ROOT
from kernels import KERNEL


def markdown(header, rows):
    """A table of these cells."""
    def line(cells):
        return f"| {' | '.join(map(str, cells)).lstrip()} |\n"
    return line(header) + "|---" * len(header) + "|\n" + "".join(map(line, rows))


class Table:
    """A file with an introduction and a Markdown table, whose first cells name a row."""

    def __init__(self, path, introduction, header, names=1):
        self.path, self.introduction, self.header, self.names = path, introduction, header, names

    def key(self, cells):
        return tuple(map(str, cells[:self.names]))

    def rows(self):
        """{names: cells} of the file as it is."""
        text = self.path.read_text() if self.path.is_file() else ""
        rows = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")]
        return {self.key(cells): cells for cells in rows[1:]}

    def keep(self, rows, order):
        """Replace these rows; all are written in this order of their names, those that never ran too."""
        known = self.rows() | {self.key(cells): cells for cells in rows}
        missing = ["not run yet", *["-"] * (len(self.header) - self.names - 1)]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.introduction + "\n" +
                             markdown(self.header, [known.get(names, [*names, *missing]) for names in order]))

    def work(self, rows, order, done=None):
        """Run ROWS and end the program: (name, key, function); that returns (passed, failed, skipped) and the cells.

        The file DONE has what passed, by its key: it is not run again, so an interrupted run goes on where it was.
        Without an ORDER the table is only printed.
        """
        known = json.loads(done.read_text()) if done and done.is_file() else {}
        results, sums, all_good = [], (0, 0, 0), True
        for number, (name, key, function) in enumerate(rows, 1):
            print(f"{number}/{len(rows)} {name} ...", flush=True)
            counts, cells = known[key] if key in known else function()
            good = counts[0] and not counts[1]
            print(f"{number}/{len(rows)} {name} {'ok' if good else 'FAILED'}{', earlier' if key in known else ''}: "
                  f"{'; '.join(map(str, cells[1:]))}", flush=True)
            if done and good:
                known[key] = counts, cells
                done.write_text(json.dumps(known))
            results.append(cells)
            sums = tuple(map(sum, zip(sums, counts)))
            all_good = all_good and good
            if order:
                self.keep(results, order)
        print("\n" + markdown(self.header, results))
        print("{} passed, {} failed, {} skipped".format(*sums))
        sys.exit(not all_good)


def choose(parser, rows):
    """Of ROWS those whose name holds a word of the command line; and the other arguments."""
    parser.add_argument("--list", action="store_true", help="print their names")
    parser.add_argument("word", nargs="*")
    args = parser.parse_args()
    chosen = [row for row in rows if not args.word or any(word in row.name for word in args.word)]
    if not chosen:
        parser.error(f"no row has such a name: {' '.join(args.word)}")
    if args.list:
        print("\n".join(row.name for row in chosen))
        sys.exit()
    return chosen, args


def record(page, name, change):
    """Put CHANGE(what is there) between "<!-- made by NAME, KERNEL -->" and "<!-- end -->" of a page of docs/."""
    page, name = ROOT / "docs" / page, f"{name}, {KERNEL}"
    place = re.compile(rf"(?<=<!-- made by {re.escape(name)} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    text, count = place.subn(lambda found: change(found[0]), page.read_text(encoding="utf-8"))
    if count != 1:
        sys.exit(f"{page} has no place for a table made by {name}")
    page.write_text(text, encoding="utf-8")


def key(*parts):
    """A short name for what something is made of: texts, and the content of files."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.read_bytes() if isinstance(part, pathlib.Path) else part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def commit(root):
    """Which code this is, for a table."""
    def git(*words):
        return subprocess.run(["git", "-C", root, *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + (" and changes" if git("status", "--porcelain", "--", *codehash.PATHS)
                                                  else "")
