# SPDX-License-Identifier: GPL-2.0
"""The tests of PSI: how the selftests are built, and which boot of a kernel runs each, and the unit tests.

What ci/kunit, ci/selftests and the verbs of ci/slow have in common.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from . import acpi, guest
from .guest import BUILD, Row

# Every boot: its name, the test program with its arguments, options of vm/run.
# With one CPU virtual time is exact and a run can be repeated.  The shift is how
# long an instruction takes: a reader at 10 kHz, and pressures of a few hundredths
# of a percent need a faster machine than the others.
VIRTUAL = (
    ("format", "format_test"),
    ("stat", "stat_test", "--smp", "2", "--shift", "2"),
    ("cpu", "cpu_test"),
    ("io", "io_test"),
    ("moving", "moving_test", "--smp", "8", "--shift", "2"),
    ("io-async", "io_async_test", "--shift", "2"),
    ("irq", "irq_test"),
    ("memory", "memory_test"),
    ("reclaim", "reclaim_test"),
    ("causes", "causes_test", "--shift", "2"),
    # Spinners on a fast machine: 415 s of the CPU of an idle host.
    ("limit", "limit_test", "--smp", "2", "--shift", "1", "--timeout", "1800"),
    ("class", "class_test", "--shift", "2"),
    ("damon", "damon_test"),
    ("watch", "watch_test"),
    ("averages", "averages_test"),
    # Ticks keep the clocks of CPUs near each other, as on a machine whose TSC is no good.
    ("averages-unstable", "averages_test", "--append", "tsc=unstable"),
    ("cgroup-files", "cgroup_files_test"),
    ("cgroup-files-switch", "cgroup_switch_test"),
    ("cgroup-state", "cgroup_state_test"),
    ("cgroup-move", "cgroup_move_test"),
    ("cgroup-move-often", "cgroup_wander_test"),
    ("cgroup-toggle", "cgroup_toggle_test"),
    ("reserve", "reserve_test -f reserve", "--shift", "2"),
    ("reserve-offline", "reserve_test -f offline", "--smp", "2", "--shift", "2"),
    ("exact-fast", "exact_test -f permanent_stall", "--shift", "2"),
    ("exact-steady", "steady_test -f steady", "--shift", "4"),
    ("exact-idle", "steady_test -f idle_machine", "--shift", "2"),
    ("exact", "exact_test -f starvation"),
    ("trigger", "trigger_test"),
    ("trigger-event", "trigger_event_test"),
    ("trigger-exact", "trigger_exact_test"),
    ("trigger-exact-fast", "trigger_neighbour_test -f neighbour", "--shift", "2"),
    ("trigger-reader", "trigger_neighbour_test -f reader", "--shift", "2"),
    ("trigger-oracle", "trigger_oracle_test", "--shift", "4"),
    ("hostile", "hostile_test -f user -f bytes", "--shift", "2"),
    ("hostile-delay", "hostile_test -f delay", "--shift", "0"),
    ("hostile-neighbour", "hostile_test -f neighbour", "--shift", "3"),
    ("hostile-charge", "hostile_test -f global", "--smp", "4"),
    ("deadline", "deadline_test -f offline", "--smp", "2"),
    ("isolation", "isolation_test", "--smp", "4", "--append", "isolcpus=1"),
    ("fuzz", "fuzz_test -r 5"),
    ("kill", "kill_test", "--shift", "2"),
    ("lmkd", "lmkd_test", "--shift", "2"),
)
# Several busy CPUs need real time: in virtual time QEMU lets one starve the others.
# They also need a kernel that leaves its text alone: see configs/nojumplabel.config.
REAL = (
    ("weight", "weight_test", "--smp", "2"),
    ("state", "state_test", "--smp", "2"),
    ("storm", "storm_test", "--smp", "4"),
    ("trigger-race", "hostile_test -f race", "--smp", "2"),
    ("cgroup-storm", "cgroup_storm_test", "--smp", "4"),
)
# Two nodes of memory, the CPU at the first.
NODES = [word for node in (0, 1) for word in (
    "--qemu=-object", f"--qemu=memory-backend-ram,id=node{node},size=256M",
    "--qemu=-numa", f"--qemu=node,nodeid={node},memdev=node{node}" + (",cpus=0" if node == 0 else ""))]
# Here the kernel that checks itself sees more, or has what they need: memory of several nodes.
CHECKED = (
    ("trace", "trace_test"),
    ("reserve-checked", "reserve_test -f reserve", "--shift", "2"),
    ("node", "node_test", "--shift", "2", "--mem", "512", *NODES),
    ("class-stacked", "class_stacked_test", "--shift", "2", "--mem", "512"),
)
# When a test says this, StoppedRow stops the machine.
ASKS_FOR_STOP = "now stop the machine for"
# These need many file systems, CONFIG=checked: a boot for each variant of waits_test, in the order of docs/waits.md.
WAITS = tuple((f"waits-{name}", f"waits_test {which} {name}", "--shift", "2", "--mem", "768") for which, name in (
    *(("-v", variant) for variant in (
        "ext4", "xfs", "btrfs", "f2fs", "overlay", "loop", "loop_direct", "linear", "crypt", "raid1", "fuse", "fuse_direct", "p9", "p9_cached", "nfs")),
    ("-f", "swap"), ("-f", "global")))
# Tasks that lend their turn need CONFIG=proxyexec, which only 7.3 has.
PROXY = (("proxy", "proxy_test", "--smp", "2", "--shift", "2"),)
# Allocations that fail need CONFIG=faults: make faults.
FAULTS = (("fault", "fault_test", "--shift", "3"),)
# A machine of its own: see ci/slow/storms.
ELSEWHERE = {"coresched_test"}
# Programs that a test runs, and file systems that it mounts.
BESIDE = {"watch_test": ("psi_watch",), "class_stacked_test": ("ext4.blocks",),
          "waits_test": ("ext4.blocks", "xfs.blocks", "btrfs.blocks", "f2fs.blocks")}
# How each of these is made, and how many MB the file system has: as small as its mkfs allows.
FILE_SYSTEMS = {
    "ext4": (64, ["mke2fs", "-q", "-F", "-t", "ext4", "-J", "size=4"]),
    "xfs": (64, ["mkfs.xfs", "-q", "--unsupported"]),
    "btrfs": (128, ["mkfs.btrfs", "-q"]),
    "f2fs": (128, ["mkfs.f2fs", "-q"]),
}
BLOCK = 4096
# The kernel runs its unit tests while it boots; debugfs keeps the results.
SHOW_KUNIT = "cat /sys/kernel/debug/kunit/psi*/results\n"
# Quick tests, one of which starts a program that is none; the sum of all that has run is then more than two. The shell
# is busybox'. The runner opens /dev/stdout, which has to be there and a pipe.
RUN_KSELFTEST = """\
ln -s /proc/self/fd/1 /dev/stdout
mkdir /tmp/kselftest && cd /tmp/kselftest && tar xzf /payload/kselftest.tar.gz || exit
./run_kselftest.sh -t psi:format_test -t psi:watch_test | tee /tmp/said
printf 'TAP version 13\\n1..2\\n'
for number in 1 2; do
	grep -q "^ok $number selftests: psi: " /tmp/said || printf 'not '
	echo "ok $number the runner ran test $number"
done
"""
HANGS = 3600        # seconds; a boot in real time that takes longer hangs, on a busy host, too
KUNIT_PARAMETERS = "kunit.enable=1 kunit.filter_glob=psi*"

# Kernels with checkers execute several times the instructions: they need a faster machine.
SLOW = ("--shift", "3")
SLOWER = ("--shift", "2")
# Of all data races, those between functions of PSI: of others the kernel has plenty. In virtual time CPUs take turns
# that are longer than an access is watched, so hardly a race is seen there.
RACES_OF_PSI = """\
races=/sys/kernel/debug/kcsan
echo whitelist >$races || exit 1
sed -n 's/.* [tT] \\(_*psi_.*\\|pressure_.*\\)/!\\1/p' /proc/kallsyms | while read -r function; do
	echo "$function" >$races || echo "Bail out! $races does not take $function"
done
echo on >$races || exit 1
"""
RACES_WATCHED = """\
status=$?
echo off >$races
grep -v '^!' $races | sed 's/^/# /'
printf 'TAP version 13\\n1..1\\n'
[ "$(sed -n 's/^setup_watchpoints: //p' $races)" -gt 10000 ] || printf 'not '
echo 'ok 1 accesses were watched'
exit $status
"""
# Memory that the test left behind: what was allocated a moment ago is never reported, so both scans wait.
LEAKS = """\
status=$?
sleep 6
echo scan >/sys/kernel/debug/kmemleak
sleep 6
echo scan >/sys/kernel/debug/kmemleak
cat /sys/kernel/debug/kmemleak >/tmp/leaks || echo 'kmemleak cannot be read' >/tmp/leaks
sed 's/^/# /' /tmp/leaks
printf 'TAP version 13\\n1..1\\n'
[ -s /tmp/leaks ] && printf 'not '
echo 'ok 1 no memory was lost'
exit $status
"""
# A scheduler that is loaded as a program of BPF has all tasks of ordinary priority while the test runs. When a CPU
# comes or goes it is loaded again.
WAIT_FOR_SCHEDULER = """\
for try in 1 2 3 4 5 6 7 8 9 10; do
	grep -q enabled /sys/kernel/sched_ext/state && break
	sleep 1
done
"""
LOAD_SCHEDULER = f"""\
./ld-linux-x86-64.so.2 --library-path . ./scx_simple >/tmp/scheduler 2>&1 &
{WAIT_FOR_SCHEDULER}"""
SCHEDULER_LOADED = f"""\
status=$?
{WAIT_FOR_SCHEDULER}
tail -n 5 /tmp/scheduler | sed 's/^/# /'
printf 'TAP version 13\\n1..1\\n'
grep -q enabled /sys/kernel/sched_ext/state || printf 'not '
echo 'ok 1 the loaded scheduler was there at the end'
exit $status
"""
# Configurations with a checker, or with a loaded scheduler: options of vm/run, what /payload/run does before the test, and after.
CHECKERS = {
    "schedext": ((), LOAD_SCHEDULER, SCHEDULER_LOADED),
    "kasan": (SLOW, "", ""),
    "kcsan": (SLOWER, RACES_OF_PSI, RACES_WATCHED),
    "lockdep": (SLOW, "", ""),
    "kmemleak": (SLOW, "", LEAKS),
}

# The programs for each machine: how the kernel calls it, and what the names of its tools begin with.
MACHINES = {"x86_64": ("x86_64", ""), "i386": ("x86", "i686-linux-gnu-"), "arm64": ("arm64", "aarch64-linux-gnu-")}


def place(machine="x86_64", default_off=False, up_to=""):
    """The directory of what is built for a machine."""
    name = "-".join(["selftests"] + [machine] * (machine != "x86_64") + ["off"] * default_off + [up_to] * bool(up_to))
    return BUILD / name


def programs(machine="x86_64", default_off=False, up_to=""):
    """The directory of the test programs for a machine."""
    return place(machine, default_off, up_to) / "installed" / "psi"


def make_selftests(source, out, target, machine="x86_64", *options):
    """Selftests of the kernel SOURCE, as its own makefiles install them below OUT, linked statically; and a tarball."""
    shutil.rmtree(out / "installed", ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    arch, cross = MACHINES[machine]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    make = ["make", "-s", f"O={out}/kernel", f"ARCH={arch}", *([f"CROSS_COMPILE={cross}"] if cross else [])]
    with open(out / "build.log", "wb") as log:
        for command in (
                [*make, "-C", source, "headers"],
                [*make, "-C", f"{source}/tools/testing/selftests", f"TARGETS={target}", "FORCE_TARGETS=1",
                 "USERLDFLAGS=-static", *options, f"INSTALL_PATH={out}/installed", "gen_tar"]):
            if subprocess.run(command, stdout=log, stderr=log, env=clean, check=False).returncode:
                sys.exit(f"selftests: {' '.join(command)} failed: see {out}/build.log")


def build(machine="x86_64", default_off=False, up_to=""):
    """The test programs, and the file systems that they mount.

    With DEFAULT_OFF they expect a kernel where PSI is off unless asked for. UP_TO is a set of patches/series: only
    the programs that the series has at the end of it.
    """
    source = guest.tree(up_to) or sys.exit(1)       # it said why
    out = place(machine, default_off, up_to)
    make_selftests(source, out, "psi", machine, *(["USERCFLAGS=-DPSI_DEFAULT=false"] if default_off else []))
    if "warning:" in (out / "build.log").read_text(errors="replace"):
        sys.exit(f"selftests: the compiler warns: see {out}/build.log")
    build_file_systems(out)
    sources = {path.stem for path in pathlib.Path(source, "tools/testing/selftests/psi").glob("*_test.c")}
    listed = {line.removeprefix("psi:") for line in (out / "installed/kselftest-list.txt").read_text().split()}
    used = {row[1].split()[0] for row in VIRTUAL + CHECKED + WAITS + PROXY + FAULTS + REAL}
    used |= {"boot_test", "kexec_test", "suspend_test"} | ELSEWHERE
    used &= sources if up_to else used
    for name in sorted(sources ^ used | sources ^ listed):
        sys.exit(f"selftests: ci/lib/suite.py, tools/testing/selftests/psi and what it installs disagree about {name}")


def build_file_systems(out):
    """Empty file systems for psi_fs.c, beside the test programs. Only the blocks are kept that are not zero."""
    for kind, (size, command) in FILE_SYSTEMS.items():
        blocks, image = out / f"{kind}.blocks", out / f"{kind}.img"
        if not blocks.exists():
            make_blocks(blocks, image, size, command)
        shutil.copy(blocks, out / "installed" / "psi")


def make_blocks(blocks, image, size, command):
    """One of them, in the file BLOCKS."""
    with open(image, "wb") as file:
        file.truncate(size << 20)
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    done = subprocess.run([*command, image], stdout=subprocess.DEVNULL, env=environment, check=False)
    if done.returncode:
        sys.exit(f"selftests: {' '.join(command)} failed")
    data = image.read_bytes()
    kept = b"".join(position.to_bytes(8, "little") + data[position:position + BLOCK]
                    for position in range(0, len(data), BLOCK) if any(data[position:position + BLOCK]))
    image.unlink()
    partial = blocks.with_suffix(".new")
    partial.write_bytes(str(size).encode().ljust(BLOCK, b"\0") + kept)
    partial.rename(blocks)


def compile_beside(source, program):
    """A program that is no selftest, with the library of the selftests: after build()."""
    headers = BUILD / "tree" / "tools" / "testing" / "selftests" / "psi"
    built = place() / "kernel"
    subprocess.run(["gcc", "-Wall", "-O2", "-static", "-D_GNU_SOURCE=", f"-I{headers}", f"-isystem{built}/usr/include",
                    source, built / "kselftest/psi/libpsi.a", "-lm", "-lpthread", "-o", program], check=True)


def boot_name(line):
    """What to call a boot with this on the command line."""
    return "boot-" + (line.replace(" ", "-").replace("=", "-") or "plain")


def row(kernel, name, command, *options, real_time=False, directory=None):
    """The boot that runs one test program, of those in DIRECTORY."""
    program = command.split()[0]
    files = [(directory or programs()) / file for file in (program, *BESIDE.get(program, ()))]
    return Row(f"selftests-{name}", kernel, f"exec ./{command} 2>&1\n", files, options, real_time=real_time,
               timeout=HANGS if real_time else Row.timeout)


def clock_row(kernel):
    """The boot in which the clock of the CPUs turns out to be no good: then as with tsc=unstable."""
    boot = row(kernel, "averages-clock", "averages_test", "--append", "kunit.enable=1 kunit.filter_glob=clock_of_psi")
    boot.script = f"{SHOW_KUNIT.replace('psi', 'clock_of_psi')}cat /proc/pressure/irq && exit 1\n{boot.script}"
    return boot


def suspend_row(kernel):
    """The boot that is suspended to RAM. It tells by a UART: on 7.3 a port of virtio-serial is dead after that.

    QEMU wakes up by its own clock, and its q35 cannot be switched off after it slept.
    """
    boot = row(kernel, "suspend", "suspend_test -f suspend", real_time=True)
    boot.script = f"""\
stty -F /dev/ttyS1 raw
exec >/dev/ttyS1
{boot.script.removeprefix("exec ")}printf '\\n# vm: end, exit status %d\\n' $?
poweroff -f
"""
    result = boot.logs / boot.name / "log" / "result.tap"
    boot.options = [f"--qemu={word}" for word in ("-machine", "pc", "-device", "isa-serial,chardev=uart",
                                                  "-chardev", f"file,id=uart,path={result}")]
    return boot


class StoppedRow(Row):
    """A boot in which QEMU stops the machine for 10 s, each time that the test asks for it."""

    def boot(self, said=None, show=True):
        with tempfile.TemporaryDirectory() as directory:
            monitor = pathlib.Path(directory) / "monitor"
            self.options = ("--qemu=-monitor", f"--qemu=unix:{monitor},server=on,wait=off")
            ended = threading.Event()
            stopper = threading.Thread(target=self.stop, args=(monitor, ended))
            stopper.start()
            counts = super().boot(said, show)
            ended.set()
            stopper.join()
        return counts

    def stop(self, monitor, ended):
        """Do as the test says, until the boot has ended."""
        times = 0
        while not ended.wait(0.2):
            # QEMU makes the monitor: until then there is what an earlier boot said.
            if monitor.exists() and self.result().count(ASKS_FOR_STOP) > times:
                times += 1
                with socket.socket(socket.AF_UNIX) as control:
                    control.connect(str(monitor))
                    control.sendall(b"stop\n")
                    ended.wait(10)
                    control.sendall(b"cont\n")
                    ended.wait(1)       # QEMU reads the line before it learns that nobody is there


def stopped_row(kernel):
    """The boot of a machine that is stopped now and then."""
    return StoppedRow(**vars(row(kernel, "stopped", "suspend_test -f stopped", real_time=True)))


def kexec_row(kernel):
    """The boot of a kernel that starts itself again, under pressure: what the second one says is the result."""
    image = pathlib.Path(kernel)
    boot = row(kernel, "kexec", f"kexec_test {image.name} /sys/firmware/initrd", "--smp", "2", "--append", "retain_initrd",
               real_time=True)
    boot.files.append(image)
    return boot


def kselftest_row(kernel):
    """The boot that does what other projects do with selftests: unpack the tarball, and start its runner."""
    return Row("selftests-kselftest", kernel, RUN_KSELFTEST, (place() / "installed/kselftest-packages/kselftest.tar.gz",))


def kunit_row(kernel, cpus, *options):
    """The boot that runs the unit tests."""
    return Row(f"kunit-{cpus}-cpu", kernel, SHOW_KUNIT, options=("--smp", cpus, "--append", KUNIT_PARAMETERS, *options))


def kunit_many_row(kernel, cpus=64):
    """The same on a machine that could have so many CPUs, and has one: the model has them all."""
    place().mkdir(parents=True, exist_ok=True)
    boot = kunit_row(kernel, "1", *acpi.options(cpus, place() / f"madt-{cpus}"))
    boot.name = f"kunit-{cpus}-possible-cpus"
    return boot


def loaded_scheduler(kernel):
    """The files of a scheduler for sched_ext, one of the examples of the kernel in this image."""
    out = place() / "scheduler"
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "build.log", "wb") as log:
        if subprocess.run(["make", "-s", "-C", BUILD / "tree/tools/sched_ext", f"O={out}", "scx_simple", "CLANG=clang-16",
                           f"VMLINUX_BTF={pathlib.Path(kernel).parents[3] / 'vmlinux'}"],
                          stdout=log, stderr=log, check=False).returncode:
            sys.exit(f"selftests: the scheduler cannot be built: see {out}/build.log")
    program = out / "build/bin/scx_simple"
    return program, *guest.libraries(program)


def checked(rows, config):
    """ROWS, with what the checker of this configuration needs."""
    options, before, after = CHECKERS.get(config, ((), "", ""))
    more = loaded_scheduler(rows[0].kernel) if config == "schedext" else ()
    for each in rows:
        each.options = (*options, *each.options)
        each.files = (*each.files, *more)
        # Unit tests run while the kernel boots: there is nothing that could come before.
        if after and not (before and each.script == SHOW_KUNIT):
            each.script = before + each.script.replace("exec ", "", 1) + after
    return rows
