# SPDX-License-Identifier: GPL-2.0
"""Owns the guest's file system: busybox, the init script and the payload.

Written straight in cpio's "newc" format: that needs no root for the console's
device node, no staging directory, and the same files give the same bytes.
"""

import os
import stat
import subprocess

from ending import Misuse

BUSYBOX = "/usr/bin/busybox"
GUEST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guest")
DIRECTORIES = ("bin", "dev", "proc", "sys", "tmp", "root", "etc", "payload")


class Archive:
    """A cpio archive in the making."""

    def __init__(self, out):
        self._out = out
        self._inode = 0

    def add(self, name, mode, data=b"", rdev=(0, 0)):
        self._inode += 1
        name = os.fsencode(name) + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *rdev, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % value for value in fields) + name
        self._out.write(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))

    def directory(self, name):
        self.add(name, stat.S_IFDIR | 0o755)

    def file(self, name, path):
        with open(path, "rb") as source:
            mode = os.fstat(source.fileno()).st_mode
            self.add(name, stat.S_IFREG | stat.S_IMODE(mode), source.read())

    def symlink(self, name, target):
        self.add(name, stat.S_IFLNK | 0o777, os.fsencode(target))

    def device(self, name, mode, major, minor):
        self.add(name, mode, rdev=(major, minor))

    def tree(self, name, top):
        """The files below a directory, in a fixed order."""
        for entry in sorted(os.scandir(top), key=lambda e: e.name):
            path = f"{name}/{entry.name}"
            if entry.is_symlink():
                self.symlink(path, os.readlink(entry.path))
            elif entry.is_dir():
                self.directory(path)
                self.tree(path, entry.path)
            else:
                self.file(path, entry.path)

    def end(self):
        self.add("TRAILER!!!", 0)


def require_static(path):
    """The dynamic busybox of the package "busybox" cannot run in the guest."""
    if not os.path.exists(path):
        raise Misuse(f"{path} is missing: install busybox-static (make deps)")
    with open(path, "rb") as program:
        if b"ld-linux-x86-64.so" in program.read(4096):
            raise Misuse(f"{path} is not static: install busybox-static (make deps)")


def write(out, payload=None, busybox=BUSYBOX):
    """Write the initramfs with this payload directory to a binary file.

    Another busybox than the host's, for another machine, cannot tell its names here: they are taken for the same.
    """
    require_static(busybox)
    require_static(BUSYBOX)
    names = subprocess.run([BUSYBOX, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    archive = Archive(out)
    for name in DIRECTORIES:
        archive.directory(name)
    archive.device("dev/console", stat.S_IFCHR | 0o600, 5, 1)
    archive.device("dev/null", stat.S_IFCHR | 0o666, 1, 3)
    archive.file("bin/busybox", busybox)
    for name in sorted({*names} - {"busybox"}):
        archive.symlink(f"bin/{name}", "busybox")
    for name in sorted(os.listdir(GUEST)):
        archive.file(name, os.path.join(GUEST, name))
    if payload:
        archive.tree("payload", payload)
    archive.end()
