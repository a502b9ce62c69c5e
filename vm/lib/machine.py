# SPDX-License-Identifier: GPL-2.0
"""Owns the machine: QEMU's command line, and its process from start to end.

Nothing it makes has a name on disk: the initramfs and the disks are files
without a directory entry, which QEMU opens through /proc/self/fd.  And QEMU
dies with the runner, however that dies.  So no end leaves anything behind.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass

import initramfs
import jumplabel
import registers
import tsc
from ending import Misuse

TCG = ["-accel", "tcg"]
KVM = ["-accel", "kvm", "-cpu", "host"]
ALWAYS = "panic_on_warn=1 oops=panic panic=-1"


@dataclass(frozen=True)
class Kind:
    """What kind of machine a kernel is for: told by a magic number in its image."""

    qemu: str
    package: str
    offset: int
    magic: bytes
    machine: str
    cpu: str    # where QEMU emulates it
    console: str


PC = Kind("qemu-system-x86_64", "qemu-system-x86", 0x202, b"HdrS", "q35", "max,cx16=off", "ttyS0")
ARM64 = Kind("qemu-system-aarch64", "qemu-system-arm", 56, b"ARM\x64", "virt", "cortex-a57", "ttyAMA0")


def kind_of(path):
    """The Kind of a kernel image."""
    with open(path, "rb") as image:
        head = image.read(1024)
    for kind in (PC, ARM64):
        if head[kind.offset:kind.offset + 4] == kind.magic:
            return kind
    raise Misuse(f"kernel {path} is not a bootable x86 image (bzImage), nor one for arm64")


class Machine:
    """What to boot, and on what."""

    def __init__(self, args, disks, virtual, shift=0):
        """As the options say; refuse what cannot work, before anything is made."""
        self.args, self.disks, self.virtual, self.shift = args, disks, virtual, shift
        self.kind = kind_of(args.kernel)
        if not shutil.which(self.kind.qemu):
            raise Misuse(f"{self.kind.qemu} is missing: install {self.kind.package} (make deps)")
        parallel = args.smp > 1 or "-smp" in args.qemu
        # arm64 writes a new instruction at once, without a breakpoint.
        if parallel and self.kind is PC and not (virtual or self.kvm()) and jumplabel.patches_text(args.kernel):
            raise Misuse(
                f"kernel {args.kernel} patches its text, which several CPUs in real time do not survive"
                " in QEMU: use CONFIG=storm or another one of configs/list with nojumplabel, or --smp 1"
            )

    def kvm(self):
        return self.kind is PC and not self.virtual and os.environ.get("PSI_KVM") == "1"

    def clock(self):
        """Kernel parameters that make the time stamp counter a good clock, and let the first timer be late."""
        if self.kind is not PC:
            return []
        rate = 1_000_000 if self.virtual else tsc.khz()
        patience = [] if self.virtual else ["no_timer_check"]
        return ["tsc=reliable", *([f"tsc_early_khz={rate}"] if rate else []), *patience]

    def arguments(self, initrd_fd, disk_fds, init_environment):
        """QEMU's command line, except for where its streams go."""
        cmdline = [f"console={self.kind.console}", "printk.time=1", "loglevel=5", *self.clock()]
        cmdline += [f"{key}={value}" for key, value in init_environment.items()]
        cmdline += [*self.args.append, ALWAYS]
        argv = [self.kind.qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
        argv += ["-machine", self.kind.machine]
        argv += KVM if self.kvm() else [*TCG, "-cpu", self.kind.cpu]
        if self.virtual:
            argv += ["-icount", f"shift={self.shift},sleep=off"]
            argv += ["-rtc", "base=2024-01-01T00:00:00,clock=vm", "-seed", "1"]
        argv += ["-smp", str(self.args.smp), "-m", str(self.args.mem)]
        argv += ["-kernel", self.args.kernel, "-initrd", f"/proc/self/fd/{initrd_fd}"]
        argv += ["-append", " ".join(filter(None, cmdline))]
        for number, (disk, fd) in enumerate(zip(self.disks, disk_fds)):
            argv += disk.arguments(f"disk{number}", fd, self.virtual)
        return argv + self.args.qemu


def result_port(path):
    """A port whose bytes are in the file before the guest's write returns.

    Without ioeventfd the virtual CPU itself hands them over; else QEMU's main
    loop does it later, at a moment that differs from run to run, and perhaps
    after the guest has switched off.
    """
    return [
        "-device", "virtio-serial-pci,ioeventfd=off",
        "-chardev", f"file,id=result,path={quoted(path)}",
        "-device", "virtserialport,chardev=result,name=psi.result",
    ]


def console_file(path):
    return ["-serial", f"file:{quoted(path)}"]


def quoted(path):
    """A path as part of one of QEMU's comma-separated options."""
    return path.replace(",", ",,")


class Process:
    """A running QEMU.  Use with "with": the end of the block is its end."""

    def __init__(self, machine, payload, streams, init_environment, **popen):
        with contextlib.ExitStack() as files:
            initrd = files.enter_context(tempfile.TemporaryFile())
            initramfs.write(initrd, payload, machine.args.busybox)
            initrd.flush()
            disks = [files.enter_context(tempfile.TemporaryFile()) for _ in machine.disks]
            for disk, file in zip(machine.disks, disks):
                file.truncate(disk.megabytes << 20)
            fds = [file.fileno() for file in (initrd, *disks)]
            self.argv = machine.arguments(fds[0], fds[1:], init_environment) + streams
            self._monitor, theirs = map(files.enter_context, socket.socketpair())
            monitor = ["-chardev", f"socket,id=monitor,fd={theirs.fileno()}", "-mon", "monitor"]
            self._popen = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *self.argv, *monitor],
                                           pass_fds=[*fds, theirs.fileno()], **popen)
            self._files = files.pop_all()

    def wait(self, seconds=None):
        """The exit status, or None when it still runs after so long."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def cpu_seconds(self):
        """The CPU time of QEMU so far; that of one that has ended does not matter."""
        try:
            with open(f"/proc/{self._popen.pid}/stat", encoding="utf-8") as file:
                ticks = file.read().rpartition(")")[2].split()[11:13]
        except OSError:
            return 0
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def registers(self):
        """What the registers of its CPUs are, a text."""
        return registers.ask(self._monitor)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._popen.kill()
        # Popen.wait() would wait for its own lock, if a signal came right after it took that.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._popen.pid, 0)
        self._files.close()
