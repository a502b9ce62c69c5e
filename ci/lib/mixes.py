# SPDX-License-Identifier: GPL-2.0
"""Random mixes of loads: each runs beside neighbours, and alone, and pressure run says how long it would have taken alone.

Alone is the same command under the same limits, without the neighbours.  It may run alone twice: what a command does not take
the same time for twice, nobody can say beforehand.
"""
import dataclasses
import random
import re
import typing

from .guest import MAKE_DISK

# A device that answers requests at the same time, and one that answers one after the other.
DEVICES = {"parallel": 64, "serial": 1}
LATENCY = 0.002         # s
# Of the machine: an instruction takes 2^SHIFT ns. What it takes to switch between tasks counts as work of the one that
# comes, so the slower the machine, the more errors. Real ones are faster.
SHIFT = 2
LOOPS = 332.8 / 2**SHIFT        # a us

# Linux 7.3 hands a CPU over every 0.7 ms, 6.12 at ticks of 4 ms. On so slow a machine a switch takes 3 % of 0.7 ms.
BY_TICKS = "echo NO_HRTICK >/sys/kernel/debug/sched/features\n"
SETUP = BY_TICKS + MAKE_DISK + r"""
PATH=/payload:$PATH
make_disk parallel 8 2000000 memory_backed=1 hw_queue_depth=64
make_disk serial 8 2000000 memory_backed=1 hw_queue_depth=1
make_disk swap 256 200000 memory_backed=1 hw_queue_depth=64
mkswap /dev/swap >/dev/null
swapon /dev/swap
groups=/sys/fs/cgroup
echo '+cpu +memory +io' >$groups/cgroup.subtree_control
number() { echo $((0x$(stat -c %t /dev/$1))):$((0x$(stat -c %T /dev/$1))); }
# measure NUMBER WAY COMMAND: in cgroup v; limits and neighbours have been made
measure() {
	sh -c "echo 0 >$groups/v/cgroup.procs; exec pressure run --json --output /tmp/report -- $3" >/dev/null
	sed -n 's/.*"status": \([0-9]*\), "seconds": \([0-9.]*\),.* "alone_s": \([0-9.a-z]*\), "alone_guess": "\([a-z]*\)".*/\1 \2 \3 \4/p' \
		/tmp/report | sed "s/^/# mix $1 $2 /"
	sed -n "s/.*\"seconds\": \([0-9.]*\),.* \"alone_s\": \([0-9.]*\).*/\1 \2/p" /tmp/report >/tmp/$2
	sed -n "s/^.*\"lost\": \[\(.*\)\].*/# of $1 $2: \1/p" /tmp/report
	for group in v n; do
		[ ! -d $groups/$group ] || echo 1 >$groups/$group/cgroup.kill
		while [ -d $groups/$group ]; do rmdir $groups/$group; done 2>/dev/null
	done
}
# within PERCENT: what it said beside neighbours is the time alone
within() {
	paste /tmp/beside /tmp/alone | awk "{ good = \$2 / \$3 < 1 + $1 / 100 && \$2 / \$3 > 1 - $1 / 100 } END { exit !good }"
}
limit() { # FILE VALUE
	echo "$2" >$groups/v/$1 || echo "# cannot set $1"
}
neighbour() { # DELAY COMMAND
	mkdir -p $groups/n
	sh -c "echo 0 >$groups/n/cgroup.procs; sleep $1; exec $2" >/dev/null &
}
"""


@dataclasses.dataclass(eq=False)
class Mix:
    """One of them: what the command does, the limits of its cgroup, and its neighbours."""
    number: int
    cpus: int
    command: str
    limits: list        # file, value
    neighbours: list    # delay, command

    def __str__(self):
        return " ".join([f"{self.cpus} CPU, {self.command}", *(f"{file}={value}" for file, value in self.limits), "|",
                         "; ".join(f"{delay} s: {command}" for delay, command in self.neighbours)])

    def has(self, limit):
        return any(file == limit for file, _ in self.limits)

    def script(self, again):
        """What the guest does; AGAIN: alone twice."""
        limits = [f'limit {file} "{value}"' for file, value in self.limits]
        neighbours = [f"neighbour {delay} '{command}'" for delay, command in self.neighbours]
        for way, others in (("beside", neighbours), ("alone", []), *([("again", [])] if again else [])):
            yield from ("mkdir $groups/v", *limits, *others, f"measure {self.number} {way} '{self.command}'")


def work(rng, cpus, low, high):
    """A step that computes.  CPUs that take turns do not get the same done in the same time: there work is CPU time."""
    ms = round(low * (high / low) ** rng.random())
    return (f"cpu={ms}" if cpus > 1 else f"loop={round(ms * 1000 * LOOPS)}"), ms / 1e3


def steps_of(rng, cpus):
    """(steps, seconds that they take, device, MB)"""
    steps, seconds, device, size = [], 0, None, 0
    # What one of two CPUs that take turns gets written in a time is not the same each time.
    kinds = rng.choice(["c", "c", "r", "cr", "cr", "cr", "crs", "cs"] + (["m", "mc"] if cpus == 1 else []))
    if "c" in kinds:
        step, time = work(rng, cpus, 5, 300)
        steps.append(step)
        seconds += time
    if "r" in kinds:
        device, count = rng.choice(list(DEVICES)), rng.choice([1, 2, 5, 10, 20, 50, 100])
        steps.append(f"read=/dev/{device}:{count}")
        seconds += count * LATENCY
    if "m" in kinds:
        size = rng.randrange(10, 40)
        steps.append(f"touch={size}")
        seconds += size / 500
    if "s" in kinds:
        ms = rng.choice([2, 10, 50])
        steps.append(f"sleep={ms}")
        seconds += ms / 1e3
    return steps, seconds, device, size


def limits_of(rng, cpus, device, size, workers):
    if rng.random() < 0.35:
        yield "cpu.max", f"{rng.randrange(20, 80 * cpus) * 1000} 100000"
    if device and rng.random() < 0.35:
        yield "io.max", f"$(number {device}) riops={rng.randrange(30, 300)}"
    if size and rng.random() < 0.8:
        yield "memory.high", f"{round(size * workers * (0.6 + 0.3 * rng.random())) + 6}M"


def neighbours_of(rng, cpus, device):
    kinds = rng.choice(["c", "c", "b", "r", "cr", "br", "rr"])
    for kind in kinds:
        workers, delay = rng.choice([1, 1, 2]), rng.choice([0, 0, round(2 * rng.random(), 1)])
        if kind == "c":
            yield delay, f"load mix {workers} 1000000 cpu=100"
        elif kind == "b":
            yield delay, f"load mix {workers} 1000000 cpu={rng.randrange(2, 30)} sleep={rng.randrange(2, 30)}"
        else:
            pause = rng.choice(["", "", " sleep=2", " sleep=20"])
            yield delay, f"load mix {workers} 1000000 read=/dev/{device or 'serial'}:5{pause}"


def mixes(count, seed):
    """So many of them; the first ones do not depend on COUNT."""
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        cpus, workers = rng.choice([1, 2]), rng.choice([1, 1, 2])
        steps, seconds, device, size = steps_of(rng, cpus)
        rounds = max(4, round((1.5 + 1.5 * rng.random()) / seconds * workers))
        yield Mix(number, cpus, f"load mix {workers} {rounds} {' '.join(steps)}",
                  list(limits_of(rng, cpus, device, size, workers)), list(neighbours_of(rng, cpus, device)))


def script(some, bound=None, again=False):
    """/payload/run for mixes with the same number of CPUs; BOUND is the largest error in percent that passes."""
    lines = [f"echo 1..{len(some)}"]
    for i, mix in enumerate(some, 1):
        lines += [*mix.script(again), *([f"within {bound} || echo -n 'not '"] if bound else []), f'echo "ok {i} - mix {mix.number}: measured"']
    return SETUP + "\n".join(lines) + "\n"


def options(cpus):
    """Of vm/run.  Interrupt time is not right with CPUs that take turns: see vm/README.md."""
    return "--shift", str(SHIFT), "--smp", str(cpus), *(("--append", "tsc=noirqtime") if cpus > 1 else ())


class Result(typing.NamedTuple):
    """Of a mix, in s: how long it took, and what the report said of the time alone, beside neighbours and alone."""
    failed: bool
    beside: float
    said: float
    guess: str          # of what it said: no, devices, memory, pauses, short
    alone: float
    itself: float
    again: float        # alone a second time


def results(text):
    """{number: Result}"""
    found = {(int(number), way): (int(status), float(seconds), float(said.replace("null", "nan")), guess)
             for number, way, status, seconds, said, guess
             in re.findall(r"^# mix (\d+) (\w+) (\d+) ([\d.]+) ([\d.a-z]+) (\w+)$", text, re.MULTILINE)}
    return {number: Result(any(found[number, way][0] for way in ("beside", "alone", "again")), *found[number, "beside"][1:],
                           *found[number, "alone"][1:3], found[number, "again"][1])
            for number, way in found if way == "again" and (number, "beside") in found and (number, "alone") in found}
