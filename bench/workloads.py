# SPDX-License-Identifier: GPL-2.0
"""Owns the way from a boot to its values: the images, the program, the run."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import figures
from ci.lib import acpi, guest
from kernels import KERNEL, OTHER

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / (f"results-{KERNEL}.json" if OTHER else "results.json")
OUT = guest.BUILD / "bench"
VALUE = re.compile(r"# value (\S+) (\S+)$", re.MULTILINE)
# What a plugin counted for a value: in how many parts, how many times in all.
PROFILED = re.compile(r"# profile (\d+) (\d+)\n# value (\S+) ", re.MULTILINE)


def add_images(parser):
    parser.add_argument("--image", action="append", default=[], metavar="FLAVOUR[-CONFIG]=BZIMAGE",
                        help="boot this; default: build it")


def images(words, flavours, configs=("bench",)):
    """{(flavour, config): image}, as the command line says or as they are built."""
    known = [(flavour, config) for flavour in figures.FLAVOURS for config in figures.CONFIGS]
    given = {}
    for word in words:
        name, _, image = word.partition("=")
        flavour, _, config = name.partition("-")
        if (flavour, config or "bench") not in known:
            sys.exit(f"bench: there is no flavour {name}")
        given[flavour, config or "bench"] = image
    return {key: given.get(key) or guest.image(*key) for key in known if key[0] in flavours and key[1] in configs}


def build():
    """The program with all workloads, and the plugin of QEMU."""
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / "bench"
    plugin = ["gcc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden", HERE / "plugin.c"]
    for command in ([guest.ROOT / "vm" / "cc", "-std=gnu11", *sorted((HERE / "guest").glob("*.c")), "-o", program],
                    [*plugin, "-o", OUT / "plugin.so"]):
        if subprocess.run(command, check=False).returncode:
            sys.exit("bench: a program does not compile")
    return program


def counts_of(boot, flavour):
    """Where a plugin writes."""
    return OUT / f"{boot.name()}-{flavour}.{boot.plugin}"


def row(boot, flavour, image, program):
    """The boot of one flavour, as ci/lib/guest.py wants it."""
    options = ["--shift", "0", *boot.options]
    if boot.append:
        options += ["--append", boot.append]
    if boot.cpus > 1:
        options += acpi.options(boot.cpus, OUT / f"madt-{boot.cpus}")
    if boot.plugin:
        lines = ",lines=on" if boot.plugin == "lines" else ""
        options += ["--qemu=-plugin", f"--qemu={OUT / 'plugin.so'},out={counts_of(boot, flavour)}{lines}"]
    command = " ".join(f"'{word}'" for word in (boot.workload, *boot.patterns))
    return guest.Row(f"bench-{boot.name()}-{flavour}", image, f"exec ./bench {command}\n", (program,), tuple(options),
                     timeout=1800)


def is_counted(plugin, word, key):
    """Whether what the plugin says of KEY, a count of cache lines or the address of code, is in a figure."""
    return int(key, 16) >> 63 if plugin == "kernel" else word in ("", key)


def counted(text, profiled, plugin):
    """{figure: number} of what the plugin counted, each time: the median of the parts.

    What it counted of cache lines has names; what it counted of blocks of code is added up.
    """
    parts = [[line.split() for line in part.splitlines()] for part in text.split("count\n")[1:]]
    words = figures.LINES_COUNTS if "moved" in text else ("",)
    values = {}
    for nr, times, name in profiled:
        nr, times = int(nr), int(times)
        mine, parts = parts[:nr], parts[nr:]
        if len(mine) != nr:
            sys.exit(f"bench: the plugin counted too little for {name}")
        for word in words:
            numbers = [sum(int(number) for key, number in part if is_counted(plugin, word, key)) for part in mine]
            each = 1 if word in figures.LINES_DIFFERENT else times / nr
            values[f"{name}/{word}".rstrip("/")] = statistics.median(numbers) / each
    if parts:
        sys.exit("bench: the plugin counted what the guest does not know of")
    return values


def measure(boot, flavour, machine):
    """({figure: value}, all output) of one boot."""
    if machine.boot()[1]:
        sys.exit(f"bench: see {guest.LOGS / machine.name / 'log'}")
    text = (guest.LOGS / machine.name / "log" / "result.tap").read_text(errors="replace")
    values = dict(VALUE.findall(text))
    if boot.plugin:
        values = counted(counts_of(boot, flavour).read_text(), PROFILED.findall(text), boot.plugin)
    return {f"{boot.workload}/{boot.prefix}{name}": float(value) for name, value in values.items()}, text


def measure_all(words, flavours, names):
    """{figure: {flavour: value}} of all workloads, or of those of these names, with the images of these words."""
    for name in set(names) - {name for boot in figures.BOOTS for name in boot.called()}:
        sys.exit(f"bench: there is no workload {name}")
    boots = [boot for boot in figures.BOOTS if not names or boot.called() & set(names)]
    if OTHER:
        boots = [dataclasses.replace(boot, plugin=boot.plugin or boot.busy) for boot in boots]
    found = images(words, flavours, {boot.config for boot in boots})
    program = build()
    os.nice(10)
    jobs = [(boot, flavour, row(boot, flavour, found[flavour, boot.config], program)) for boot in boots for flavour in flavours]
    results = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for flavour, values in pool.map(lambda job: (job[1], measure(*job)[0]), jobs):
            for name, value in values.items():
                results.setdefault(name, {})[flavour] = value
    return results


def save(path, results):
    """A line for each figure."""
    lines = [f"{json.dumps(name)}: {json.dumps(values, sort_keys=True)}" for name, values in sorted(results.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def load(path):
    return json.loads(path.read_text()) if path.exists() else {}
