# SPDX-License-Identifier: GPL-2.0
"""A test program in TAP: one function per test, named by a sentence.

    @test("a hunk that needs fuzz is an error")
    def _(): ...

    tap.main()

A test fails by raising; check() and equal() do.  Arguments of the program choose tests by a part of their sentence.
The closing line is "N passed, N failed, N skipped"; the exit status is 1 when a test failed or none ran.  The functions
are those of tools/psi, which has to do without this directory.
"""
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/psi/test"))

import tap
from tap import check, equal, test

__all__ = ("check", "equal", "good", "main", "test")


def good(*command, **options):
    """What a command says on stdout; it has to succeed."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, errors="replace", check=False,
                          **options)
    check(done.returncode == 0, f"{' '.join(map(str, command))} failed")
    return done.stdout.strip()


def main():
    sys.exit(tap.main(sys.argv[1:]))
