# SPDX-License-Identifier: GPL-2.0
"""Which kernel the programs work on: what KERNEL= says, and what it has of its own.

The kernel that the series is developed on is DEFAULT. For another one, what the
programs make is in build/KERNEL, and these come before what is for all:

    BASE.KERNEL             the source package, in place of BASE
    configs/KERNEL/         fragments, in place of those with the same name
    patches/KERNEL/         hunks: of a file that is in patches/KERNEL/NAME.patch, those
                            there count, and the ones in patches/NAME.patch do not. A
                            line "diff --git" without hunks: that kernel needs none
"""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULT = "6.12"
KERNEL = os.environ.get("KERNEL") or DEFAULT
OTHER = KERNEL != DEFAULT
BASE = ROOT / (f"BASE.{KERNEL}" if OTHER else "BASE")
BUILD = ROOT / "build" / KERNEL if OTHER else ROOT / "build"


def in_place_of(path):
    """PATH, or what this kernel has in its place."""
    own = path.parent / KERNEL / path.name
    return own if OTHER and own.is_file() else path


def sections(diff):
    """The hunks of each file that a diff changes, as {path: text}."""
    found = re.findall(rb"^diff --git a/(\S+) b/\S+\n(?:(?!diff --git ).*\n)*", diff, re.M)
    texts = re.findall(rb"^diff --git .*\n(?:(?!diff --git ).*\n)*", diff, re.M)
    return dict(zip(found, texts, strict=True))


def own_text(path):
    """What is before the hunks of patches/KERNEL/NAME.patch, and these."""
    data = path.read_bytes() if OTHER and path.is_file() else b""
    start = re.search(rb"^diff --git ", data, re.M)
    cut = start.start() if start else len(data)
    return data[:cut], data[cut:]


def overridden(diff, own):
    """DIFF with the files of OWN in place of its own."""
    texts = sections(diff) | sections(own)
    return b"".join(texts[path] for path in sorted(texts) if b"\n@@ " in texts[path])


def difference(diff, wanted, same):
    """The hunks that make WANTED of DIFF; SAME says whether two texts say the same."""
    before, after = sections(diff), sections(wanted)
    empty = {path: b"diff --git a/%b b/%b\n" % (path, path) for path in before.keys() - after.keys()}
    own = empty | {path: text for path, text in after.items() if not same(before.get(path, b""), text)}
    return b"".join(own[path] for path in sorted(own))
