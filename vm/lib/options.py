# SPDX-License-Identifier: GPL-2.0
"""Owns the command-line options that every way to boot has in common."""

import argparse
import os
import subprocess

import initramfs
from disk import Disk
from ending import Misuse
from machine import Machine

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Parser(argparse.ArgumentParser):
    """An argparse that refuses as everything here does."""

    def error(self, message):
        raise Misuse(message)


def add_machine(parser):
    """Options that describe the machine."""
    add = parser.add_argument
    add("--kernel", metavar="BZIMAGE", help="default: build the one of FLAVOUR and CONFIG")
    add("--busybox", default=initramfs.BUSYBOX, metavar="PROGRAM", help="another one, for a kernel of another machine")
    add("--smp", type=positive, default=1, metavar="N")
    add("--mem", type=positive, default=512, metavar="MB")
    add("--append", action="append", default=[], metavar="STR", help="more kernel parameters")
    add("--qemu", action="append", default=[], metavar="ARG", help="one more argument of QEMU; may be repeated")
    add("--disk", action="append", default=[], type=Disk.parse,
        metavar="MB[:err=KIND]", help="an empty virtio disk; err: read, write or flush fails")
    add("--swap", type=Disk.parse, metavar="MB[:...]", help="a virtio disk that the guest swaps on")


def built_kernel():
    """The kernel of this project, built when need be."""
    build = subprocess.run([os.path.join(ROOT, "scripts", "kernel")], stdout=subprocess.PIPE, text=True, check=False)
    if build.returncode:
        raise Misuse("the kernel could not be built; --kernel BZIMAGE takes another one")
    return build.stdout.strip()


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no positive number")
    return int(text)


def machine(args, **more):
    """The machine that the options describe, if it can be."""
    disks = list(args.disk)
    if args.swap:
        args.swap.serial = "swap"
        disks.append(args.swap)
    args.kernel = args.kernel or built_kernel()
    return Machine(args, disks, **more)
