# SPDX-License-Identifier: GPL-2.0
"""Owns the question where the CPUs of a machine are: one that hangs may not say a word."""

import bisect
import pathlib
import re

PLACE = re.compile(r"CPU#(\d+).*?\b(?:RIP|PC)=([0-9a-f]+)", re.DOTALL)
ANSWER = b"VM status: "


def ask(monitor, seconds=10):
    """What QEMU's monitor, a socket, says of the registers of all CPUs; what came so far if it takes longer."""
    said = b""
    monitor.settimeout(seconds)
    try:
        monitor.sendall(b"info registers -a\ninfo status\n")
        while ANSWER not in said:
            said += monitor.recv(1 << 16) or ANSWER
    except OSError:     # it takes too long, or QEMU is gone
        pass
    return said.decode(errors="replace").replace("\r", "")


def symbols(kernel):
    """[(address, name)] of the kernel that was built there; nothing of an image from elsewhere."""
    for directory in pathlib.Path(kernel).resolve().parents:
        if (directory / "System.map").is_file():
            lines = (directory / "System.map").read_text(encoding="utf-8").splitlines()
            return sorted((int(address, 16), name) for address, _, name in map(str.split, lines))
    return []


def places(said, kernel):
    """A line for each CPU: in which function it is."""
    names = symbols(kernel)
    for cpu, address in PLACE.findall(said):
        at = bisect.bisect(names, (int(address, 16), "\x7f")) - 1
        in_kernel = at >= 0 and int(address, 16) >> 63
        yield f"CPU {cpu} is in {names[at][1] if in_kernel else 'an unknown function or a program'}, at {address}"
