# SPDX-License-Identifier: GPL-2.0
"""Owns the virtio disks: how they are described, and what QEMU makes of it."""

import ctypes
import json
import os
from dataclasses import dataclass, field

from ending import Misuse

IO_URING_SETUP = 425
REQUESTS = ("read", "write", "flush")


@dataclass
class Disk:
    """A virtio disk: its size, what fails on it."""

    megabytes: int
    serial: str = ""
    errors: list = field(default_factory=list)

    @classmethod
    def parse(cls, text):
        """SIZE_MB[:err=read|write|flush]..."""
        size, *options = text.split(":")
        if not size.isdecimal() or int(size) == 0 or not set(options) <= {f"err={each}" for each in REQUESTS}:
            raise Misuse(f"--disk {text}: the size is a number of megabytes; err=read|write|flush may follow")
        return cls(int(size), errors=[option.removeprefix("err=") for option in options])

    def arguments(self, name, fd, virtual):
        """QEMU's options for this disk, with its data in the file fd.

        In virtual time a guest that waits for a disk is idle, and an idle
        guest jumps to its next timer, be it a minute away.  So a request
        should be over before the guest's CPU goes on: handed over by that CPU
        itself (no ioeventfd) and, where the host has io_uring, done at once
        when it reads what the host has in memory.
        """
        top = f"{name}-file"
        aio = "io_uring" if virtual and have_io_uring() else "threads"
        argv = blockdev("file", top, filename=f"/proc/self/fd/{fd}", locking="off", aio=aio)
        if self.errors:
            rules = [{"event": "none", "iotype": kind, "errno": 5, "once": False} for kind in self.errors]
            argv += blockdev("blkdebug", f"{name}-bad", image=top, **{"inject-error": rules})
            top = f"{name}-bad"
        device = f"serial={self.serial or name},ioeventfd={'off' if virtual else 'on'}"
        return [*argv, "-device", f"virtio-blk-pci,drive={top},{device}"]


def blockdev(driver, node, **options):
    return ["-blockdev", json.dumps({"driver": driver, "node-name": node, **options})]


def have_io_uring():
    """Whether this host lets us have an io_uring; containers often do not."""
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(120)  # struct io_uring_params
    ring = libc.syscall(IO_URING_SETUP, 1, parameters)
    if ring >= 0:
        os.close(ring)
    return ring >= 0
