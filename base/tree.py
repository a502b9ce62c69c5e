# SPDX-License-Identifier: GPL-2.0
"""What is in a tree: its version, its files, how two differ; and what decides how the base comes out."""

import hashlib
import os
import pathlib
import re

# Not part of the source: version control of whoever keeps it there.
NOT_SOURCE = {".git", ".pc", ".hg", ".svn"}


def version(tree):
    """('6.12', '6.12.117') out of the top Makefile; None when there is no such thing."""
    try:
        head = (pathlib.Path(tree) / "Makefile").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"^VERSION = (\d+)\nPATCHLEVEL = (\d+)\nSUBLEVEL = (\d+)$", head, re.M)
    return (".".join(found.groups()[:2]), ".".join(found.groups())) if found else None


def inventory(tree):
    """{path: kind and hash} of all files and symbolic links: what git would store of them."""
    found = {}
    for directory, names, leaves in os.walk(tree, onerror=raise_it):
        if directory == str(tree):
            names[:] = set(names) - NOT_SOURCE
            leaves = set(leaves) - NOT_SOURCE
        for path in (pathlib.Path(directory) / name for name in [*names, *leaves]):
            if path.is_symlink():
                kind, data = "link", os.fsencode(os.readlink(path))
            elif path.is_file():
                kind, data = "exec" if path.stat().st_mode & 0o100 else "file", path.read_bytes()
            elif path.is_dir():
                continue
            else:
                raise OSError(f"{path} is neither a file nor a symbolic link")
            found[str(path.relative_to(tree))] = f"{kind} {hashlib.sha256(data).hexdigest()}"
    return dict(sorted(found.items()))


def raise_it(error):
    raise error


def differences(old, new):
    """Maps each path that differs to M (modified), D (deleted) or A (added)."""
    olds, news = inventory(old), inventory(new)
    return {path: "A" if path not in olds else "D" if path not in news else "M"
            for path in olds | news if olds.get(path) != news.get(path)}


def rules_key(base, series):
    """Hash of the programs and tables below base/ that decide what comes out."""
    found = inventory(base)
    used = {path: found[path] for path in found if not path.endswith(".md") and not path.startswith("test/") and
            (not path[0].isdigit() or path.startswith(f"{series}/"))}
    return hashlib.sha256(repr(used).encode()).hexdigest()
