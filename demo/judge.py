# SPDX-License-Identifier: GPL-2.0
"""Owns the demo's verdict: holds a record against the answers the loads know."""

import math
import typing

from record import BadRecord

RESOURCES = ("cpu", "io", "memory")
LOADS = ("cpu", "cpu-limit", "io", "memory")

# How far a total may be from the answer of the load, as a share of the load's
# length.
TOLERANCE = {
    # The spinners are forked and reaped one after the other.
    "cpu": 0.01,
    # Interrupts take no CPU time of the spinner, and are no stall. In virtual time
    # with two CPUs they look long.
    "cpu-limit": 0.015,
    # A reader that is woken is no longer in io wait, but not on the CPU yet.
    "io": 0.01,
    # The same for the process whose page has come.
    "memory": 0.01,
}

# An average is due every 2 s; a load may begin and end anywhere in between.
AVERAGE_PERIOD = 2.0
AVERAGE_SLACK = 3.0  # points: the share is not quite steady

# A load that was hardly kept from its work proves nothing.
LEAST = 0.5

# What a load may show on the resources that it does not use, as a share of its
# length: forks, interrupts, samples, and the background work being preempted.
STRAY = 0.05
# Swapping is reading from a disk: a memory load is an io load as well.
FOLLOWS = {"memory": "io"}

# What a class may show of a load of the other one, as a share of its length. Forks
# and samples keep a limited process from its CPU, and that is a shortage.
OTHER_CLASS = 0.01
CLASSES = ("limit", "shortage")

# The kernel moves the load average every 5 s, by the tasks of that moment.
LOAD_PERIOD = 5.0
LOAD_SLACK = 0.05

# Between the loads, when the averages have had their 2 s.
QUIET = 0.01


class Check(typing.NamedTuple):
    load: str
    name: str
    good: bool
    expected: str
    measured: str
    allowed: str


def resource_of(load):
    return load.split("-", maxsplit=1)[0]


def totals(record, load):
    begin, end, after = record.load_span(load)
    allowed = TOLERANCE[load] * (end - begin)
    for name, (low, high) in record.own[load].items():
        if name not in record.samples[0].values:
            yield Check(load, name.replace(".", " "), False, "a line", "none", "none")
            continue
        # To the end of the quiet phase: a total may be 2 s late.
        measured = record.grown(name, begin, after)
        slack = allowed if high else 0
        if not high and name.split(".")[1] in CLASSES:
            slack = OTHER_CLASS * (end - begin)
        good = low - slack <= measured <= high + slack
        expected = f"{low:.2f}..{high:.2f} s" if high - low >= 0.01 else f"{high:.2f} s"
        yield Check(load, name.replace(".", " "), good, expected, f"{measured:.2f} s",
                    f"{slack:.2f} s" if slack else "none")


def heavy(record, load):
    begin, end, _ = record.load_span(load)
    share = record.own[load][f"{resource_of(load)}.some"][0] / (end - begin)
    return Check(load, "stalled, by its own clock", share >= LEAST, f"over {100 * LEAST:.0f} %",
                 f"{100 * share:.1f} %", "none")


def average(record, load):
    """After t s of a steady share p, avg10 is p + (what it was before - p) * e^(-t/10)."""
    begin, end, after = record.load_span(load)
    name = f"{resource_of(load)}.some"
    share = 100 * sum(record.own[load][name]) / 2 / (end - begin)
    # At the begin an average may be due that knows nothing of the load.
    before = [s.values[name][0] for s in record.samples if begin <= s.t <= begin + AVERAGE_PERIOD]
    low, *_, high = sorted(share + (was - share) * math.exp(-(end - begin + late) / 10)
                           for late in (-AVERAGE_PERIOD, AVERAGE_PERIOD) for was in before)
    peak = max(s.values[name][0] for s in record.samples if begin <= s.t <= after)
    good = low - AVERAGE_SLACK <= peak <= high + AVERAGE_SLACK
    return Check(load, f"{resource_of(load)} some avg10", good, f"{low:.0f}..{high:.0f} %", f"{peak:.2f} %",
                 f"{AVERAGE_SLACK:.0f} points")


def others(record, load):
    """The resource that moved most of those the load leaves alone."""
    begin, end, _ = record.load_span(load)
    length = end - begin
    silent = [r for r in RESOURCES if r not in (resource_of(load), FOLLOWS.get(load))]
    most, name = max((record.grown(f"{r}.some", begin, end) / length, r) for r in silent)
    return Check(load, " and ".join(silent) + " quiet", most <= STRAY, "0 %",
                 f"{100 * most:.1f} % ({name})", f"{100 * STRAY:.0f} %")


def load_average(record, load):
    """It lags: N tasks move it to N * (1 - e^(-t/60)) in t s, and it hardly falls in the next five."""
    begin, end, after = record.load_span(load)
    tasks = 2 * record.cpus
    before = record.at(begin).load
    low, high = (tasks + (before - tasks) * math.exp(-(end - begin + late) / 60)
                 for late in (-LOAD_PERIOD, LOAD_PERIOD))
    reached = max(s.load for s in record.samples if begin <= s.t <= after)
    yield Check(load, "load average has not followed", low - LOAD_SLACK <= reached <= high + LOAD_SLACK,
                f"{low:.2f}..{high:.2f} of {tasks}", f"{reached:.2f}", f"{LOAD_SLACK}")
    least = reached * math.exp(-(after - end + LOAD_PERIOD) / 60)
    left = record.at(after).load
    yield Check(load, f"load average {after - end:.0f} s later", left >= least - LOAD_SLACK,
                f"over {least:.2f}", f"{left:.2f}", f"{LOAD_SLACK}")


def vmpressure(record, load):
    """It counts pages that reclaim looks at, not time: most events come where hardly anybody waits."""
    begin, end, after = record.load_span(load)
    warm = next(p for p in record.phases if p.name == "fill")
    fill, use = ((record.at(b).events[0] - record.at(a).events[0]) / (b - a)
                 for a, b in ((warm.begin, warm.end), (begin, end)))
    all_of_it = record.at(after).events[0]
    elsewhere = record.at(warm.begin).events[0]
    yield Check(load, "vmpressure, events elsewhere", not elsewhere and all_of_it, "0",
                f"{elsewhere} of {all_of_it}", "none")
    yield Check(load, "vmpressure, events in 10 s", fill > use, f"below {10 * fill:.0f} (warm-up)", f"{10 * use:.1f}",
                "none")


def quiet(record):
    most = (0.0, "")
    for phase in record.phases:
        if phase.name != "quiet":
            continue
        begin = max(phase.begin, phase.end - AVERAGE_PERIOD)
        for resource in RESOURCES:
            grown = record.grown(f"{resource}.some", begin, phase.end)
            most = max(most, (grown / (phase.end - begin), resource))
    share, name = most
    return Check("quiet", "all quiet between", share <= QUIET, "0 %",
                 f"{100 * share:.2f} %" + (f" ({name})" if name else ""), f"{100 * QUIET:.0f} %")


def judge(record):
    """All checks of a complete record."""
    if not record.complete:
        raise BadRecord("the record ends in the middle of the run")
    for resource in RESOURCES:
        if not record.names(resource):
            raise BadRecord(f"the kernel has no /proc/pressure/{resource}")
    checks = []
    for load in LOADS:
        if load not in record.own or load not in record.results:
            raise BadRecord(f"the record has no account of the {load} load")
        ran = record.results[load]
        checks.append(Check(load, "ran to its end", ran, "yes", "yes" if ran else "no", "none"))
        checks.append(heavy(record, load))
        checks += totals(record, load)
        checks.append(average(record, load))
        checks.append(others(record, load))
    checks += load_average(record, "cpu")
    checks += vmpressure(record, "memory")
    checks.append(quiet(record))
    return checks


def show(checks):
    """The table."""
    rows = [f"{'load':<11}{'what':<30}{'expected':>18}{'measured':>16}{'tolerance':>11}"]
    for last, check in zip([None, *checks], checks):
        load = "" if last and last.load == check.load else check.load
        rows.append(f"{load:<11}{check.name:<30}{check.expected:>18}{check.measured:>16}{check.allowed:>11}"
                    f"  {'ok' if check.good else 'NOT OK'}")
    return "\n".join(rows)


def verdict(checks):
    """The closing line, and the exit status."""
    failed = sum(not check.good for check in checks)
    return f"{len(checks) - failed} passed, {failed} failed, 0 skipped", int(failed > 0)
