# SPDX-License-Identifier: GPL-2.0
"""Owns the directory a run leaves its logs in, and that no two share one."""

import fcntl
import os

from misuse import Misuse


class Logs:
    """A locked directory.  The lock ends with the process."""

    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        self.result = os.path.join(self.directory, "result.tap")
        self.console = os.path.join(self.directory, "console.log")
        self.qemu = os.path.join(self.directory, "qemu.log")
        self.command = os.path.join(self.directory, "command")
        self.verdict = os.path.join(self.directory, "verdict")
        try:
            os.makedirs(self.directory, exist_ok=True)
            self._lock = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise Misuse(f"log directory {directory}: {error.strerror}") from None

    def take(self):
        """Lock it and empty its files; False when another run has it."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            return False
        try:
            for path in (self.result, self.console, self.qemu, self.command, self.verdict):
                with open(path, "w", encoding="utf-8"):
                    pass
        except OSError as error:
            raise Misuse(f"log file {error.filename}: {error.strerror}") from None
        return True


def take(directory):
    """The logs in this very directory."""
    logs = Logs(directory)
    if not logs.take():
        raise Misuse(f"log directory {directory}: another run is writing to it")
    return logs


def take_any(directory):
    """The logs in this directory, or in DIRECTORY.2, ... while others run."""
    number = 1
    while True:
        logs = Logs(directory if number == 1 else f"{directory}.{number}")
        if logs.take():
            return logs
        number += 1


def read(path):
    """A log as text, whatever bytes the guest wrote."""
    with open(path, encoding="utf-8", errors="replace", newline="") as log:
        return log.read().replace("\r", "")
