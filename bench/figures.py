# SPDX-License-Identifier: GPL-2.0
"""Owns what the benches mean: which boots measure what, the table, the targets.

A figure is a name and a value for each flavour; what PSI costs is the value
less that of the kernel without PSI.
"""
import dataclasses

FLAVOURS = ("none", "stock", "psi")


@dataclasses.dataclass
class Boot:
    """One boot: a workload, and how its results are to be called."""
    workload: str
    patterns: tuple = ()        # of what it is to measure; all without any
    prefix: str = ""            # in front of the names of its figures
    append: str = ""            # kernel parameters, not for the kernel without PSI
    options: tuple = ()         # of vm/run

    def name(self):
        return "-".join(filter(None, (self.workload, self.prefix.strip("/").replace("=", ""))))


BOOTS = (
    Boot("pingpong"),
    Boot("pingpong", ("leaf/0", "batch/leaf/0", "leaf/8", "batch/leaf/8"), "psi=0/", "psi=0"),
)


@dataclasses.dataclass
class Line:
    """A line of the table: a figure, and what we are after."""
    figure: str
    words: str
    most: float = None          # instructions over the kernel without PSI
    share: float = None         # the same as a part of what that needs


def pingpong_lines():
    """Targets are for the default policy: TARGETS was measured so."""
    for prefix, words in (("", "ping-pong"), ("batch/", "ping-pong of batch tasks")):
        aim = (lambda number: number) if not prefix else (lambda number: None)
        yield Line(f"pingpong/{prefix}leaf/0", f"{words}, root", aim(450))
        for depth in (1, 2, 4, 8, 16):
            yield Line(f"pingpong/{prefix}leaf/{depth}", f"{words}, one leaf, depth {depth}", aim(600))
        for depth in (1, 2, 4, 8, 16):
            yield Line(f"pingpong/{prefix}siblings/{depth}", f"{words}, siblings below depth {depth}", aim(800))
        for depth in (1, 2, 4, 8, 16):
            yield Line(f"pingpong/{prefix}disjoint/{depth}", f"{words}, disjoint branches of depth {depth}", aim(1500))
        yield Line(f"pingpong/{prefix}pressure=0/8", f"{words}, one leaf, depth 8, cgroup.pressure=0")
        for depth in (0, 8):
            yield Line(f"pingpong/psi=0/{prefix}leaf/{depth}", f"{words}, depth {depth}, psi=0", share=0.005)


LINES = tuple(pingpong_lines())


def extra(values, flavour):
    """What a flavour costs over no PSI."""
    return values[flavour] - values["none"]


def given_back(figures, flavour, prefix=""):
    """Which part of the groups' cost goes away with cgroup.pressure=0."""
    root, leaf, off = (extra(figures[f"pingpong/{prefix}{name}"], flavour) for name in ("leaf/0", "leaf/8", "pressure=0/8"))
    return (leaf - off) / (leaf - root) if leaf != root else 1.0


def number(value):
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}"


def table(figures):
    """The lines of the table whose figures are there."""
    out = ["| what | no PSI | stock | ours | ours/stock | target |", "|---|---|---|---|---|---|"]
    for line in LINES:
        values = figures.get(line.figure)
        if values and all(flavour in values for flavour in FLAVOURS):
            out.append(row(line, values))
    for prefix in ("", "batch/"):
        if all(f"pingpong/{prefix}{name}" in figures for name in ("leaf/0", "leaf/8", "pressure=0/8")):
            shares = " | ".join(f"{100 * given_back(figures, flavour, prefix):.0f} %" for flavour in ("stock", "psi"))
            words = "ping-pong of batch tasks" if prefix else "ping-pong"
            out.append(f"| {words}, depth 8: share of the groups' cost that cgroup.pressure=0 gives back | - | {shares} | - "
                       f"| {'≥ 90 %' if not prefix else ''} |")
    return "\n".join(out)


def row(line, values):
    none, (stock, ours) = values["none"], (extra(values, flavour) for flavour in ("stock", "psi"))
    ratio = f"{ours / stock:.2f}" if stock > 0.001 * none else "-"
    target = ""
    if line.most is not None:
        target = f"≤ {number(line.most)}{'' if ours <= line.most else ' **missed**'}"
    elif line.share is not None:
        target = f"within {100 * line.share:.1f} %{'' if abs(ours) <= line.share * none else ' **missed**'}"
    return f"| {line.words} | {number(none)} | {stock:+,.0f} | {ours:+,.0f} | {ratio} | {target} |"
