# SPDX-License-Identifier: GPL-2.0
"""Owns the record of one demo run: what the guest's lines mean.

The guest (guest/demo.c says which lines it prints) states facts on the result
channel. A Record takes them line by line, so that the live table can follow,
and answers the questions that table, judge and chart ask.
"""

import re
import types
import typing

RESOURCES = ("cpu", "memory", "io", "irq")
LINES = ("some", "full")

# An interval shorter than this says nothing about a share.
SHORTEST = 0.1


class BadRecord(Exception):
    """The lines are not what a demo run prints."""


class Phase(types.SimpleNamespace):
    """A stretch of guest time with a name, a text, a begin and an end, which is None while it lasts."""


class Sample(typing.NamedTuple):
    """All at guest time t: values["cpu.some"] = (avg10 in percent, total in s), likewise
    values["cpu.limit.some"]; the load average; events of vmpressure so far, by level."""
    t: float
    load: float
    events: tuple
    values: dict


def fields(text):
    """{name: value} of words NAME=VALUE."""
    return dict(word.split("=", 1) for word in text.split())


def pairs(values, unit):
    """{name: (first / unit, second in s)} of values FIRST,SECOND, the second in us."""
    return {name: (float(first) / unit, int(second) / 1e6)
            for name, (first, second) in ((name, value.split(",")) for name, value in values.items())}


class Record:
    def __init__(self, lines=()):
        self.cpus = 0
        self.phases = []
        self.samples = []
        self.own = {}  # own["io"]["io.some"] = (low, high) in s: the load's account
        self.gave_up = None  # why the guest did, if so
        self.results = {}  # results["io"] = True when the load ran to its end
        for line in lines:
            self.add(line)

    def add(self, line):
        """Takes one line; returns the word for what it was, None for anything else."""
        line = line.rstrip("\r\n")
        match = re.match(r"(not ok|ok) \d+ - the ([\w-]+) load ran to its end", line)
        if match:
            self.results[match[2]] = match[1] == "ok"
            return "result"
        if line.startswith("Bail out! "):
            self.gave_up = line.removeprefix("Bail out! ")
            return "end"
        match = re.match(r"# (setup|phase|sample|own) (.*)", line)
        if not match:
            return None
        try:
            getattr(self, "_" + match[1])(match[2])
        except (ValueError, KeyError) as error:
            raise BadRecord(f"cannot make sense of {line!r}") from error
        return match[1]

    def _setup(self, rest):
        self.cpus = int(fields(rest)["cpus"])

    def _phase(self, rest):
        rest, text = rest.split(" text=", 1)
        found = fields(rest)
        begin = float(found["t"])
        if self.phases:
            self.phases[-1].end = begin
        if found["name"] != "end":
            self.phases.append(Phase(name=found["name"], text=text, begin=begin, end=None))

    def _sample(self, rest):
        found = fields(rest)
        t, load = float(found.pop("t")), float(found.pop("load"))
        events = tuple(map(int, found.pop("vmpressure").split(",")))
        self.samples.append(Sample(t, load, events, pairs(found, 1)))

    def _own(self, rest):
        found = fields(rest)
        load = found.pop("load")
        self.own[load] = pairs(found, 1e6)

    @property
    def complete(self):
        return bool(self.phases) and self.phases[-1].end is not None

    def names(self, resource):
        """The lines of a resource in this record: ["cpu.some", "cpu.full"], or [] without the file."""
        first = self.samples[0].values if self.samples else {}
        return [f"{resource}.{line}" for line in LINES if f"{resource}.{line}" in first]

    def at(self, t):
        """The last sample not after t."""
        return max((s for s in self.samples if s.t <= t + 1e-3), key=lambda s: s.t)

    def grown(self, name, begin, end):
        """Seconds that the total of `name` grew from begin to end."""
        return self.at(end).values[name][1] - self.at(begin).values[name][1]

    def intervals(self, name):
        """(begin, end, share of the time stalled), sample by sample."""
        shares = []
        last = None
        for sample in self.samples:
            if last and sample.t - last.t < SHORTEST:
                continue
            if last:
                stalled = sample.values[name][1] - last.values[name][1]
                shares.append((last.t, sample.t, stalled / (sample.t - last.t)))
            last = sample
        return shares

    def load_span(self, load):
        """(begin, end, end of the quiet phase after it) of a load, company included."""
        own = [i for i, p in enumerate(self.phases) if p.name.split("+")[0] == load]
        if not own or own[-1] + 1 >= len(self.phases) or self.phases[own[-1] + 1].end is None:
            raise BadRecord(f"the record has no complete {load} load")
        return self.phases[own[0]].begin, self.phases[own[-1]].end, self.phases[own[-1] + 1].end
