# SPDX-License-Identifier: GPL-2.0
"""Owns what counts as the same code: what runs on one tree holds for another."""
import hashlib
import re
import subprocess

PATHS = ("kernel", "include", "tools", "patches/*.patch")
TESTS = re.compile(r"tools/|.*/psi_test")


def code(root, tests=True):
    """
    A hash of the kernel's code, and its TESTS unless these are left out, as they are there, committed or not.
    What the mails of the series say about it is none of it, only their hunks.
    """
    names = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--",
                            *PATHS], check=True, stdout=subprocess.PIPE, text=True)
    found = hashlib.sha1()
    for name in sorted(set(names.stdout.split("\0")) - {""}):
        if not (root / name).is_file() or not tests and TESTS.match(name):
            continue
        text = (root / name).read_bytes()
        if name.startswith("patches/"):
            text = b"".join((b"\n" + text).partition(b"\ndiff --git ")[1:])
        found.update(b"%s %d\n" % (name.encode(), len(text)) + text)
    return found.hexdigest()
