# SPDX-License-Identifier: GPL-2.0
"""Owns the directory a run leaves its logs in, and that no two share one."""

import fcntl
import itertools
import os

from ending import Misuse


class Busy(Misuse):
    """Another run writes there."""


class Logs:
    """A locked directory, whose files are empty at first.  The lock ends with the process."""

    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        self.result, self.console, self.qemu, self.command, self.verdict, self.registers = files = [
            os.path.join(self.directory, name)
            for name in ("result.tap", "console.log", "qemu.log", "command", "verdict", "registers")
        ]
        os.makedirs(self.directory, exist_ok=True)
        self._lock = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Busy(f"log directory {directory}: another run is writing to it") from None
        for path in files:
            with open(path, "w", encoding="utf-8"):
                pass


def take_any(directory):
    """The logs in this directory, or in DIRECTORY.2, ... while others run."""
    for number in itertools.count(1):
        try:
            return Logs(directory if number == 1 else f"{directory}.{number}")
        except Busy:
            pass


def read(path):
    """A log as text, whatever bytes the guest wrote."""
    with open(path, encoding="utf-8", errors="replace", newline="") as log:
        return log.read().replace("\r", "")
