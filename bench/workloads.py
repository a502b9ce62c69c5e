# SPDX-License-Identifier: GPL-2.0
"""Owns the way from a boot to its values: the images, the program, the run."""
import pathlib
import re
import subprocess
import sys

import figures
import guest

HERE = pathlib.Path(__file__).resolve().parent
OUT = guest.ROOT / "build" / "bench"
VALUE = re.compile(r"# value (\S+) (\S+)$", re.MULTILINE)


def add_images(parser):
    parser.add_argument("--image", action="append", default=[], metavar="FLAVOUR=BZIMAGE",
                        help="boot this; default: build it")


def images(words, flavours):
    """{flavour: image}, as the command line says or as they are built."""
    given = dict(word.partition("=")[::2] for word in words)
    for flavour in given:
        if flavour not in figures.FLAVOURS:
            sys.exit(f"bench: there is no flavour {flavour}")
    return {flavour: given.get(flavour) or guest.image(flavour) for flavour in flavours}


def build():
    """The program with all workloads."""
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / "bench"
    sources = sorted((HERE / "guest").glob("*.c"))
    if subprocess.run([guest.ROOT / "vm" / "cc", "-std=gnu11", *sources, "-o", program], check=False).returncode:
        sys.exit("bench: the workloads do not compile")
    return program


def row(boot, flavour, image, program):
    append = boot.append if flavour != "none" else ""
    options = ["--shift", "0", *boot.options, *(["--append", append] if append else [])]
    command = " ".join(f"'{word}'" for word in (boot.workload, *boot.patterns))
    return guest.Row(f"bench-{boot.name()}-{flavour}", image, f"exec ./bench {command}\n", (program,), tuple(options),
                     timeout=1800)


def measure(boot, machine):
    """({figure: value}, all output) of one boot."""
    if machine.boot()[1]:
        sys.exit(f"bench: see {guest.LOGS / machine.name / 'log'}")
    text = (guest.LOGS / machine.name / "log" / "result.tap").read_text(errors="replace")
    return {f"{boot.workload}/{boot.prefix}{name}": float(value) for name, value in VALUE.findall(text)}, text
