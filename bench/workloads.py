# SPDX-License-Identifier: GPL-2.0
"""Owns the way from a boot to its values: the images, the program, the run."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import acpi
import figures
import guest

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = "bench"    # of configs/list
RECORD = HERE / "results.json"
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
    return {flavour: given.get(flavour) or guest.image(flavour, CONFIG) for flavour in flavours}


def build():
    """The program with all workloads."""
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / "bench"
    sources = sorted((HERE / "guest").glob("*.c"))
    if subprocess.run([guest.ROOT / "vm" / "cc", "-std=gnu11", *sources, "-o", program], check=False).returncode:
        sys.exit("bench: the workloads do not compile")
    return program


def row(boot, flavour, image, program):
    """The boot of one flavour, as ci/guest.py wants it."""
    options = ["--shift", "0", *boot.options]
    if boot.append:
        options += ["--append", boot.append]
    if boot.cpus > 1:
        options += acpi.options(boot.cpus, OUT / f"madt-{boot.cpus}")
    command = " ".join(f"'{word}'" for word in (boot.workload, *boot.patterns))
    return guest.Row(f"bench-{boot.name()}-{flavour}", image, f"exec ./bench {command}\n", (program,), tuple(options),
                     timeout=1800)


def measure(boot, machine):
    """({figure: value}, all output) of one boot."""
    if machine.boot()[1]:
        sys.exit(f"bench: see {guest.LOGS / machine.name / 'log'}")
    text = (guest.LOGS / machine.name / "log" / "result.tap").read_text(errors="replace")
    return {f"{boot.workload}/{boot.prefix}{name}": float(value) for name, value in VALUE.findall(text)}, text


def measure_all(images_, names):
    """{figure: {flavour: value}} of all workloads, or of those of these names."""
    for name in set(names) - {boot.workload for boot in figures.BOOTS}:
        sys.exit(f"bench: there is no workload {name}")
    program = build()
    os.nice(10)
    jobs = [(flavour, boot, row(boot, flavour, image, program))
            for boot in figures.BOOTS if not names or boot.workload in names for flavour, image in images_.items()]
    results = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for flavour, values in pool.map(lambda job: (job[0], measure(*job[1:])[0]), jobs):
            for name, value in values.items():
                results.setdefault(name, {})[flavour] = value
    return results


def save(path, results):
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def load(path):
    return json.loads(path.read_text()) if path.exists() else {}
