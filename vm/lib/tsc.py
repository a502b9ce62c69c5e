# SPDX-License-Identifier: GPL-2.0
"""Owns the rate of the host's time stamp counter.

In real time the guest's counter is the host's.  Left alone, the guest finds
its rate by counting it against a timer chip in short loops, and when the host
takes the CPU away in the middle of those, all of its clocks run wrong for the
whole run, by a factor of six in the worst case seen.  So the host measures, over a
longer time and between two readings that lie close together.
"""

import ctypes
import mmap
import time

RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl $32,%rdx; or %rdx,%rax; ret
SPAN = 0.05
TRIES = 20


def khz():
    """The rate in kHz, accurate to some parts per million; None where not to be had."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    time_1, count_1 = pair(read)
    time.sleep(SPAN)
    time_2, count_2 = pair(read)
    return round((count_2 - count_1) * 1_000_000 / (time_2 - time_1))


def pair(read):
    """Time in ns and counter at the same moment: the least disturbed try."""
    tries = [(clock(), read(), clock()) for _ in range(TRIES)]
    before, count, after = min(tries, key=lambda each: each[2] - each[0])
    return (before + after) // 2, count


def clock():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
