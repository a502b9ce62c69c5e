# SPDX-License-Identifier: GPL-2.0
"""What is in a kernel tree: its version, its files, and how two trees differ."""

import hashlib
import os
import re
import stat

# Not part of the source: version control of whoever keeps it there.
NOT_SOURCE = {".git", ".pc", ".hg", ".svn"}


def version(tree):
    """('6.12', '6.12.117') out of the top Makefile; None when there is no such thing."""
    try:
        with open(os.path.join(tree, "Makefile"), encoding="utf-8", errors="replace") as file:
            head = file.read(4096)
    except OSError:
        return None
    number = []
    for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL"):
        match = re.search(r"^%s\s*=\s*(\d+)\s*$" % name, head, re.M)
        if not match:
            return None
        number.append(match.group(1))
    return ".".join(number[:2]), ".".join(number)


def files(tree):
    """All files and symbolic links of a tree, as sorted relative paths."""
    found = []
    for directory, names, leaves in os.walk(tree, onerror=raise_it):
        if directory == tree:
            names[:] = [name for name in names if name not in NOT_SOURCE]
            leaves = [name for name in leaves if name not in NOT_SOURCE]
        links = [name for name in names if os.path.islink(os.path.join(directory, name))]
        for name in leaves + links:
            found.append(os.path.relpath(os.path.join(directory, name), tree))
    return sorted(found)


def raise_it(error):
    raise error


def content(tree, path):
    """What git would store of a file: its kind and its bytes."""
    full = os.path.join(tree, path)
    mode = os.lstat(full).st_mode
    if stat.S_ISLNK(mode):
        return b"link", os.fsencode(os.readlink(full))
    if not stat.S_ISREG(mode):
        raise OSError("%s is neither a file nor a symbolic link" % full)
    with open(full, "rb") as file:
        return (b"exec" if mode & 0o100 else b"file"), file.read()


def fingerprint(tree):
    """A hash over names, kinds and contents of all files."""
    total = hashlib.sha256()
    for path in files(tree):
        kind, data = content(tree, path)
        total.update(b"%s %s %s\n" % (kind, os.fsencode(path),
                                      hashlib.sha256(data).hexdigest().encode()))
    return total.hexdigest()


def differences(old, new):
    """Maps each path that differs to M (modified), D (deleted) or A (added)."""
    changed = {}
    olds, news = files(old), set(files(new))
    for path in olds:
        if path not in news:
            changed[path] = "D"
        elif content(old, path) != content(new, path):
            changed[path] = "M"
    for path in news.difference(olds):
        changed[path] = "A"
    return changed
