# SPDX-License-Identifier: GPL-2.0
"""Runs tests in virtual machines and adds their verdicts up.

A Row is one boot: a payload directory, a kernel, options of vm/run.  Rows in
virtual time do not feel how busy the host is: as many as it has CPUs run at
once.  Rows in real time run alone, after them.
"""
import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from kernels import BUILD, ROOT  # noqa: E402

LOGS = BUILD / "check"
# For a script of a Row: a disk that answers after some time of the guest's own timer.
MAKE_DISK = """\
mount -t configfs none /sys/kernel/config
make_disk() { # NAME MB NANOSECONDS [SETTING=VALUE...]
	disk=/sys/kernel/config/nullb/$1 settings="size=$2 completion_nsec=$3 irqmode=2"
	mkdir $disk
	shift 3
	for setting in $settings "$@" power=1; do
		echo "${setting#*=}" >"$disk/${setting%=*}"
	done
}
"""
VERDICT = re.compile(r"(\w+) \S+: (\d+) passed, (\d+) failed, (\d+) skipped$")


def tree(up_to="", said=None):
    """Path of the kernel's source, up to the end of a set of patches/series; None when that failed."""
    done = subprocess.run([ROOT / "scripts" / "tree", *(["--set", up_to] if up_to else [])], stdout=subprocess.PIPE,
                          stderr=said, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def build(flavour="psi", config="default", said=None, up_to=""):
    """Path of the kernel to boot, built if need be, of the series up to the end of a set; None when that failed.

    What there is to say goes to SAID, a file.
    """
    source = tree(up_to, said) if up_to else ""
    if source is None:
        return None
    command = [ROOT / "scripts" / "kernel", "--flavour", flavour, "--config", config]
    done = subprocess.run([*command, *(["--source", source] if source else [])], stdout=subprocess.PIPE, stderr=said,
                          text=True, check=False)
    return None if done.returncode else done.stdout.strip()


@functools.cache
def image(flavour="psi", config="default"):
    """The same, and the end of the program when it failed."""
    return build(flavour, config) or sys.exit(1)     # it said why


@dataclasses.dataclass
class Row:
    """One boot, and what /payload/run does in it."""
    name: str
    kernel: str
    script: str                     # /payload/run, after its first line
    files: tuple = ()               # programs copied to the payload
    options: tuple = ()             # of vm/run
    real_time: bool = False
    timeout: int = 600              # seconds of the host's CPU; in real time, of its clock
    expected_skips: str = ""        # in the words of vm/run
    may_be_empty: bool = False      # all its tests may be expected skips
    logs: pathlib.Path = LOGS

    def payload(self):
        """The payload directory, made afresh."""
        directory = self.logs / self.name / "payload"
        shutil.rmtree(directory.parent, ignore_errors=True)
        directory.mkdir(parents=True)
        for file in self.files:
            shutil.copy(file, directory)
        (directory / "run").write_text(f"#!/bin/sh\n{self.script}")
        (directory / "run").chmod(0o755)
        (directory / "expected-skips").write_text(self.expected_skips)
        return directory

    def boot(self, said=None, show=True):
        """(passed, failed, skipped); anything but a clean PASS counts as one failure at least.

        What vm/run says of failures goes to SAID, a file; what it prints, is printed if SHOW.
        """
        command = [ROOT / "vm" / "run", "--name", self.name, "--kernel", self.kernel, "--timeout", str(self.timeout),
                   "--log", self.logs / self.name / "log", "--time", "real" if self.real_time else "virtual",
                   *self.options, self.payload()]
        line = ""
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=said, text=True) as process:
            for line in process.stdout:     # the verdict is the last; with --live the others are what the guest says
                line = line.rstrip("\n")
                if show:
                    print(line, flush=True)
        status = process.returncode
        if not line:
            print(f"{self.name}: vm/run ended with status {status} and no verdict", flush=True)
        found = VERDICT.match(line)
        if not found:
            return 0, 1, 0
        passed, failed, skipped = map(int, found.groups()[1:])
        if (status or found[1] != "PASS") and not (self.may_be_empty and found[1] == "EMPTY" and skipped):
            failed = max(failed, 1)
        return passed, failed, skipped


    def result(self):
        """What the guest said, in TAP; nothing if it did not come so far."""
        result = self.logs / self.name / "log" / "result.tap"
        return result.read_text(errors="replace") if result.is_file() else ""


def boot_all(rows, said=None):
    """(passed, failed, skipped) of some rows together."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = list(pool.map(lambda row: row.boot(said), [row for row in rows if not row.real_time]))
    counts += [row.boot(said) for row in rows if row.real_time]
    return tuple(map(sum, zip(*counts))) if counts else (0, 0, 0)


def run(rows, words=()):
    """Boot the rows whose name holds one of WORDS; print the closing line and end the program."""
    finish(*boot_all([row for row in rows if not words or any(word in row.name for word in words)]))


def finish(passed, failed, skipped):
    """The closing line, and the end of the program."""
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(bool(failed or not passed))


def libraries(program):
    """The shared libraries of a program of this system, its loader too."""
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


def tool(*more):
    """pressure(1) and the loads of its tests, and MORE of what make builds there, linked statically."""
    out, top = BUILD / "psi-tool-guest", ROOT / "tools" / "psi"
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run(["make", "-s", "-C", top, f"O={out}", "LDFLAGS=-static"], check=True, stdout=sys.stderr)
    subprocess.run([ROOT / "vm" / "cc", top / "test" / "load.c", "-o", out / "load"], check=True)
    return [out / name for name in ("pressure", "load", *more)]
