# SPDX-License-Identifier: GPL-2.0
"""Owns what the benches mean: which boots measure what, the table, the targets.

A figure has a name and a value for each flavour.  Most are numbers of
instructions; what PSI costs is the value less that of the kernel without PSI.
"""
import dataclasses
import fnmatch
import itertools

FLAVOURS = ("none", "stock", "psi")
CONFIGS = ("bench", "latency", "nocauses")      # of configs/list
DEPTHS = (1, 2, 4, 8, 16)
MANY = 64       # possible CPUs
ONLINE = 4      # CPUs that are there
CPUS = (1, 4, 16, 64)   # for what grows with them
READERS = 15    # at once
# What the plugin counts of cache lines, of which the latter are different lines in a part.
LINES_COUNTS = ("moved", "taken", "touched", "dirtied", "spun", "locked")
LINES_DIFFERENT = ("touched", "dirtied")


@dataclasses.dataclass
class Boot:
    """One boot: a workload, and how its results are to be called."""
    workload: str
    patterns: tuple = ()        # of what it is to measure; all without any
    prefix: str = ""            # in front of the names of its figures
    append: str = ""            # kernel parameters
    options: tuple = ()         # of vm/run
    cpus: int = 1               # possible ones
    plugin: str = None          # what that of QEMU counts: instructions ("plugin"), the kernel's ("kernel"), or cache lines ("lines")
    busy: str = None            # the same where the kernel does not tell how long a CPU idled
    config: str = "bench"       # of configs/list

    def called(self):
        """What asks for it on a command line."""
        return {self.workload, self.plugin} - {None}

    def name(self):
        return "-".join(filter(None, (self.workload, self.prefix.strip("/").replace("=", "").replace("/", "-"))))


# A disk whose requests take most of a second, so a task that reads it stalls and leaves the CPU idle.
STALLING = "null_blk.irqmode=2 null_blk.completion_nsec=300000000 null_blk.gb=1 null_blk.nr_devices=1"

# One that is done at once.
AT_ONCE = "null_blk.irqmode=0 null_blk.gb=4 null_blk.nr_devices=1"

# A stalling one, for longer than a workload takes between two wake-ups.
WAITING = STALLING.replace("300000000", "10000000000")

TOGETHER = (2, 16, 64)          # CPUs that wake at once, and share a cache


def sharing(cpus, threads):
    """Options of vm/run: so many CPUs share a cache. For these kernels siblings do, which QEMU gives Intel's CPUs."""
    return ("--smp", f"{cpus}", "--qemu=-smp", f"--qemu={cpus},threads={threads}",
            "--qemu=-cpu", "--qemu=max,cx16=off,vendor=GenuineIntel")


BOOTS = (
    Boot("pingpong"),
    Boot("pingpong", ("leaf/0", "batch/leaf/0", "leaf/8", "batch/leaf/8"), "psi=0/", "psi=0"),
    Boot("many"),
    Boot("idle", busy="plugin"),
    Boot("beside", append=WAITING, options=("--smp", "2")),
    Boot("remote", options=("--smp", "2")),
    Boot("remote", prefix="cache/", options=sharing(2, 2)),
    *(Boot("together", prefix=f"cpus={cpus}/", options=("--mem", "1024", *sharing(cpus, cpus)), plugin="plugin")
      for cpus in TOGETHER),
    Boot("fork"),
    Boot("memstall", append=AT_ONCE),
    Boot("memstall", prefix="nocauses/", append=AT_ONCE, config="nocauses"),
    Boot("limits"),
    Boot("throttle", busy="kernel"),
    Boot("read"),
    Boot("read", ("system", "unused", "used", "stalled/at-once"), f"cpus={MANY}/", cpus=MANY),
    Boot("read", ("unused", "used"), f"online={ONLINE}/", options=("--smp", f"{ONLINE}")),
    Boot("million"),
    Boot("upkeep", busy="plugin"),
    Boot("upkeep", ("groups/500",), f"cpus={MANY}/", cpus=MANY, busy="plugin"),
    Boot("trigger", busy="plugin"),
    Boot("memory", options=("--mem", "1024")),
    Boot("memory", prefix=f"cpus={MANY}/", cpus=MANY, options=("--mem", "1024")),
    Boot("memory", ("used",), f"online={ONLINE}/", options=("--mem", "1024", "--smp", f"{ONLINE}")),
    Boot("threads"),
    Boot("pingpong", ("leaf/0", "leaf/1", "leaf/8", "siblings/1"), "lines/", plugin="lines"),
    Boot("remote", prefix="lines/", options=("--smp", "2"), plugin="lines"),
    Boot("remote", prefix="lines/cache/", options=sharing(2, 2), plugin="lines"),
    Boot("lines", options=("--smp", f"{ONLINE}"), plugin="lines"),
    Boot("lines", ("readers",), f"cpus={READERS + 1}/", options=("--smp", f"{READERS + 1}"), plugin="lines"),
    *(Boot("latency", prefix=f"cpus={cpus}/", append=STALLING, options=("--smp", f"{cpus}", "--mem", "1024"), config="latency")
      for cpus in CPUS),
    # 20 s of work: at 64 ns an instruction they are cheap.
    Boot("isolated", append="isolcpus=1", options=("--smp", "2", "--shift", "6")),
)


class Missing(Exception):
    """A value was not measured."""


@dataclasses.dataclass
class Values:
    """The figures of one flavour."""
    figures: dict
    flavour: str

    def plain(self, name, flavour=None):
        """A value as it is."""
        try:
            return self.figures[name][flavour or self.flavour]
        except KeyError:
            raise Missing(name) from None

    def extra(self, name):
        """What it is over no PSI."""
        return self.plain(name) - self.plain(name, "none")


@dataclasses.dataclass
class Line:
    """A line of the table, and what we are after."""
    words: str
    value: object               # function of Values
    form: str = "{:+,.0f}"
    base: str = None            # the figure whose value without PSI is shown
    most: float = None
    least: float = None
    target: str = ""            # in place of the limit's number
    of_stock: float = None      # at most this part of what stock adds

    def met(self, value, stock):
        return ((self.most is None or value <= self.most) and (self.least is None or value >= self.least)
                and (self.of_stock is None or stock is None or value <= self.of_stock * stock))

    def text(self, figures):
        """The line; '' when our value is missing."""
        cells = [f"{figures[self.base]['none']:,.0f}" if "none" in figures.get(self.base, {}) else "-"]
        values = []
        for flavour in ("stock", "psi"):
            try:
                values.append(self.value(Values(figures, flavour)))
            except Missing:
                values.append(None)
        if values[1] is None:
            return ""
        cells += ["-" if value is None else self.form.format(value) for value in values]
        cells.append(f"{values[1] / values[0]:.2f}" if values[0] else "-")
        return f"| {' | '.join([self.words, *cells, self.goal(*reversed(values))])} |"

    def goal(self, value, stock):
        target = self.target
        if self.of_stock is not None:
            target = "≤ stock" if self.of_stock == 1 else f"≤ {self.of_stock} × stock"
        for sign, limit in (("≤", self.most), ("≥", self.least)):
            if not target and limit is not None:
                target = f"{sign} {self.form.replace('+', '').format(limit)}"
        return target if self.met(value, stock) else f"{target} **missed**"


def over(words, figure, *choices, **options):
    """Lines for instructions over no PSI: one for each combination of choices, for the words and the figure."""
    for choice in itertools.product(*choices):
        name = figure.format(*choice)
        yield Line(words.format(*choice), lambda values, name=name: values.extra(name), base=name, **options)


def plain(words, figure, *choices, **options):
    """Lines for something that a kernel without PSI does not have."""
    for choice in itertools.product(*choices):
        name = figure.format(*choice)
        yield Line(words.format(*choice), lambda values, name=name: values.plain(name), "{:,.0f}", **options)


def given_back(prefix):
    """Which part of the groups' cost goes away with cgroup.pressure=0."""
    def share(values):
        root, leaf, off = (values.extra(f"pingpong/{prefix}{name}") for name in ("leaf/0", "leaf/8", "pressure=0/8"))
        if leaf - root < 50:    # there is nothing to give back
            return 100 if off - root < 50 else 0
        return 100 * (leaf - off) / (leaf - root)
    return share


def part(figure):
    """Percent over no PSI."""
    return lambda values: 100 * values.extra(figure) / values.plain(figure, "none")


def further(value, more, less, nr):
    """For each of NR: what one figure is more than another one."""
    return lambda values: (getattr(values, value)(more) - getattr(values, value)(less)) / nr


def slope(value, workload, name):
    """For each further possible CPU."""
    return further(value, f"{workload}/cpus={MANY}/{name}", f"{workload}/{name}", MANY - 1)


def used_on(value, workload):
    """For each further CPU that a group was used on."""
    return further(value, f"{workload}/online={ONLINE}/used", f"{workload}/used", ONLINE - 1)


def fixed(name):
    """Bytes of a group that no CPU is to blame for."""
    return lambda values: values.extra(f"memory/{name}") - slope("extra", "memory", name)(values)


# How many instructions a round trip may cost at most.
ROUND_TRIP = {"leaf": 340, "siblings": 640, "disjoint": 640}


def pingpong():
    """The targets are for the default policy, with which they were found."""
    for prefix, words in (("", "ping-pong"), ("batch/", "the same, batch tasks")):
        def aim(number, prefix=prefix):
            return None if prefix else number
        yield from over(f"{words}, root", f"pingpong/{prefix}leaf/0", most=aim(340))
        for shape, place in (("leaf", "one leaf, depth"), ("siblings", "siblings below depth"),
                             ("disjoint", "disjoint branches of depth")):
            yield from over(f"{words}, {place} {{}}", f"pingpong/{prefix}{shape}/{{}}", DEPTHS,
                            most=aim(ROUND_TRIP[shape]))
        yield from over(f"{words}, one leaf, depth 8, `cgroup.pressure=0`", f"pingpong/{prefix}pressure=0/8")
        yield Line(f"{words}: of the groups' cost that gives back", given_back(prefix), "{:.0f} %", least=aim(90))
        yield from over(f"{words}, one leaf, depth 8, with a trigger", f"pingpong/{prefix}armed/8")
        for depth, place in ((0, "root"), (8, "one leaf, depth 8")):
            figure = f"pingpong/psi=0/{prefix}leaf/{depth}"
            yield Line(f"{words}, {place}, `psi=0`", part(figure), "{:+.2f} %", figure, most=0.1, target="≤ 0.1 %")


# Wake-ups that may happen where exact pressure was asked for, or not: the figure, what it is, the depths if not.
WAKE_UPS = (("idle/{}/{{}}", "a timer wakes a task on an idle CPU", (0, 1, 4, 8)),
            ("beside/{}/{{}}", "a timer wakes a task on an idle CPU while another CPU is in use by its groups", (0, 8)),
            ("remote/{}/{{}}", "ping-pong of two CPUs that idle in between", (0, 1, 8)),
            ("remote/cache/{}/{{}}", "ping-pong of two CPUs that idle in between and share a cache", (0, 1, 8)),
            *((f"together/cpus={cpus}/{{}}/{{{{}}}}", f"{cpus} CPUs that wake together: a task", (0, 8))
              for cpus in TOGETHER))


def others():
    yield from over("10 tasks write to 10 others, a message, {0[1]}", "many/{0[0]}",
                    (("leaf/0", "root"), ("leaf/1", "one leaf, depth 1"), ("leaf/8", "one leaf, depth 8"),
                     ("siblings/1", "a leaf each below depth 1"), ("siblings/8", "a leaf each below depth 8")))
    yield from over("hackbench, groups: {1}; a message, depth {0}", "many/hackbench/{1}/{0}",
                    (0, 4, 8), (1, 2, 4, 8, 16, 32), of_stock=0.34)
    for figure, words, depths in WAKE_UPS:
        yield from over(f"{words}, depth {{}}", figure.format("leaf"), depths)
        yield from over("the same where exact pressure of each group was asked for, depth {}", figure.format("exact"),
                        (0, 8))
    yield from over("a timer wakes a task on an idle CPU, more than five minutes after somebody asked for that, depth {}",
                    "idle/forgotten/{}", (0, 8))
    yield from over("fork, exit and wait, depth {}", "fork/leaf/{}", (0, 1, 8))
    for depth in (1, 4, 8):
        yield from over(f"a section of memory stall, and what leads to it, depth {depth}", f"memstall/leaf/{depth}",
                        of_stock=2)
        yield from over(f"the same without `CONFIG_PSI_CAUSES`, depth {depth}", f"memstall/nocauses/leaf/{depth}")
    yield from over("ping-pong, one leaf, depth 8, with a trigger on `limit some`", "limits/armed/8")
    yield from over("ping-pong, one leaf that was throttled before, depth {}", "limits/held/{}", (1, 8))
    yield from over("a group of {} tasks is throttled and unthrottled", "throttle/tasks/{}", (1,))
    yield from over("a group of {} tasks is throttled and unthrottled", "throttle/tasks/{}", (10,), of_stock=2)
    yield from reading()
    yield from plain("open, arm and close a trigger of an idle group", "trigger/arm", of_stock=1)
    for groups in (10, 100, 500, 2000):
        yield from over(f"{groups} groups, a task each that wakes once a second: a wake-up", f"upkeep/groups/{groups}",
                        most=950 if groups == 500 else None)
    yield from over(f"the same with 500 groups and {MANY} possible CPUs", f"upkeep/cpus={MANY}/groups/500", most=950)
    yield from over("stalls, {} triggers of the system: a second", "trigger/system/{}", (0, 1, 10, 100, 500, 2000))
    yield from over("stalls in {} groups with a trigger each: a second", "trigger/groups/{}", (1, 32, 500))
    yield from latency()
    yield from lines()
    yield from memory()
    yield from plain("kernel threads for 32 groups with a privileged trigger each", "threads/groups/32", most=1)
    yield from over("an isolated CPU in 20 s of stall: runs of its workqueues", "isolated/works", most=0)
    yield from over("an isolated CPU in 20 s of stall: timers", "isolated/timers", most=10, target="0 ± 10")


# What is done while preemption is measured, and how long a stretch without may be at most.
STRETCHES = (("read", "a read of a file", 3000), ("trigger", "arming and closing a trigger", 3000),
             ("off-on", "`cgroup.pressure` 0 and 1", None), ("rmdir", "rmdir", None),
             ("fold", "the fold", None), ("fold/groups", "the fold of 30 groups", None),
             ("sampler", "a sampler", None), ("sampler/triggers", "samplers of 500 triggers", None),
             ("read/triggers", "a read, 500 triggers", 3000), ("trigger/triggers", "one more trigger than 500", 3000))
FLAT = {"form": "{:+,.1f}", "most": 5, "target": "0"}     # 5 instructions for each further CPU are none


def latency():
    """The longest stretches with preemption or interrupts off, on few and on many CPUs."""
    few, many = f"latency/cpus={CPUS[0]}", f"latency/cpus={CPUS[-1]}"
    longest = "longest stretch without preemption, CPUs:"
    for name, words, most in STRETCHES:
        for cpus in (CPUS[0], CPUS[-1]):
            yield from plain(f"{longest} {cpus}, {words}", f"latency/cpus={cpus}/{name}",
                             base=f"latency/cpus={cpus}/nothing", most=most)
        yield Line("the same, for each further CPU",
                   further("plain", f"{many}/{name}", f"{few}/{name}", CPUS[-1] - CPUS[0]), **FLAT)
    yield Line(f"{longest} {CPUS[0]}, a sampler, for each further trigger",
               further("plain", f"{few}/sampler/triggers", f"{few}/sampler", 499), **FLAT)
    yield Line(f"{longest} {CPUS[0]}, the fold, for each further group",
               further("plain", f"{few}/fold/groups", f"{few}/fold", 29), **FLAT)


# The events of which dirty lines that move are counted; the target for the sum is about the first ones.
EVENTS = (*((f"remote/lines/leaf/{depth}", f"ping-pong of two CPUs, depth {depth}") for depth in (0, 1, 8)),
          ("lines/read", f"a read, of a group in use on {ONLINE} CPUs"),
          ("lines/upkeep", f"100 groups, a task each on {ONLINE} CPUs that wakes once a second: a wake-up and its upkeep"))
MOVES = (*EVENTS,
         ("lines/readers", f"a read, while {ONLINE - 1} CPUs read"),
         (f"lines/cpus={READERS + 1}/readers", f"a read, while {READERS} CPUs read"),
         ("lines/trigger", f"arming and closing a trigger, of a group in use on {ONLINE} CPUs"))


def lines():
    """What the plugin counts of cache lines."""
    def more(*args, **options):
        return over(*args, form="{:+,.1f}", **options)
    yield from more("dirty lines that move, {0[1]}", "{0[0]}/moved", MOVES, of_stock=1)
    yield Line("the same, sum but for several readers and triggers",
               lambda values: sum(values.extra(f"{figure}/moved") for figure, _ in EVENTS), "{:+,.1f}", of_stock=0.5)
    yield from more("shared lines taken away, {0[1]}", "{0[0]}/taken", MOVES)
    yield from more("{3[1]}, ping-pong of two CPUs{0[1]}, depth {1}, {2[1]} asked for exact pressure",
                    "remote/lines/{0[0]}{2[0]}/{1}/{3[0]}",
                    (("", ""), ("cache/", " that share a cache")), (0, 8), (("leaf", "nobody"), ("exact", "somebody")),
                    (("moved", "dirty lines that move"), ("dirtied", "different lines dirtied")))
    yield from more("locked instructions and full barriers, ping-pong of two CPUs, depth {1}, {0[1]} asked for exact pressure",
                    "remote/lines/{0[0]}/{1}/locked", (("leaf", "nobody"), ("exact", "somebody")), (0, 8))
    yield from more("waits for another CPU, a read, while {0[1]} CPUs read", "lines/{0[0]}readers/spun",
                    (("", ONLINE - 1), (f"cpus={READERS + 1}/", READERS)), most=0.05, target="0")
    # Two switches, to which a second leaf and the group above it are new.
    yield Line("lines of PSI that a switch dirties, for each group it visits",
               further("extra", "pingpong/lines/siblings/1/dirtied", "pingpong/lines/leaf/1/dirtied", 2),
               "{:,.1f}", most=1)
    yield from more("different lines {0}, ping-pong, {1[1]}", "pingpong/lines/{1[0]}/{0}", ("touched", "dirtied"),
                    (("leaf/0", "root"), ("leaf/1", "one leaf"), ("siblings/1", "two siblings")))


def reading():
    yield from plain("read a file {0[1]}", "read/{0[0]}",
                     (("system", "of the system"), ("unused", "of a group never used"),
                      ("used", "of a group that was used"), ("stalled/at-once", "of a stalled group"),
                      ("stalled/10kHz", "of a stalled group, at 10 kHz"),
                      ("stalled/1kHz", "of a stalled group, at 1 kHz"),
                      ("stalled/100Hz", "of a stalled group, at 100 Hz")))
    yield from plain("a million reads of all files, while two tasks play ping-pong: a read", "million/read",
                     of_stock=0.5)
    yield from over("the same: a round trip", "million/load", of_stock=1)
    for name, words in (("unused", "never used"), ("used", "that was used")):
        yield Line(f"read a file of a group {words}: for each possible CPU", slope("plain", "read", name), "{:,.1f}",
                   most=0.5, target="0")
    yield Line("read a file of a group: for each CPU that it was used on", used_on("plain", "read"), "{:,.1f}",
               most=200)
    yield from plain("open, read and close a file, of {} groups in turn", "read/scrape/{}", (1, 10, 100, 500, 2000))


def memory():
    for name, words in (("unused", ""), ("used", " that was used on a CPU")):
        yield Line(f"memory of a group{words}, bytes: for each possible CPU", slope("extra", "memory", name), "{:,.1f}",
                   most=8)
        yield Line(f"memory of a group{words}, bytes: fixed", fixed(name), "{:,.0f}", most=1700)
    yield Line("memory of a group, bytes: for each CPU that it was used on", used_on("extra", "memory"), "{:,.0f}",
               most=300)


LINES = (*pingpong(), *others())


def table(figures):
    """The lines of the table that can be filled in."""
    head = ["| what | no PSI | stock | ours | ours/stock | target |", "|---|---|---|---|---|---|"]
    return "\n".join(head + list(filter(None, (line.text(figures) for line in LINES))))


# A machine that does not fit into a virtual one, see README.md.
PAPER_CPUS, PAPER_GROUPS = 256, 10000


def paper(figures):
    """A table: what PSI would cost on a large machine, from what units of it cost here."""
    def column(flavour):
        values = Values(figures, flavour)
        scrape, read = values.plain("read/scrape/2000"), slope("plain", "read", "used")(values)
        yield PAPER_GROUPS * (values.extra("upkeep/groups/2000")
                              + (PAPER_CPUS - 1) * slope("extra", "upkeep", "groups/500")(values)) / 1e6
        yield PAPER_GROUPS * (scrape + (PAPER_CPUS - 1) * read) / 1e6
        yield PAPER_GROUPS * (scrape + (PAPER_CPUS - 1) * max(used_on("plain", "read")(values), read)) / 1e6
        yield PAPER_GROUPS * (fixed("used")(values) + PAPER_CPUS * slope("extra", "memory", "used")(values)) / 1e6

    words = ("wake-ups and upkeep, a second, million instructions",
             "a file of each group opened, read and closed; used on one CPU each, million instructions",
             "the same; used on all CPUs, million instructions",
             "memory, MB")
    rows = [f"| {PAPER_GROUPS:,} groups, {PAPER_CPUS} CPUs | stock | ours |", "|---|---|---|"]
    rows += [f"| {word} | {stock:,.0f} | {ours:,.0f} |" for word, stock, ours in zip(words, column("stock"), column("psi"))]
    return "\n".join(rows)


def cost(values):
    """What a figure says about ours: over no PSI if that has it, too."""
    return values["psi"] - values.get("none", 0)


# Differences without a reason, as a part of what the kernel without PSI needs:
# which task preempts which depends on when exactly the ticks come.
NOISE = {"isolated": 0.3, "lines": 0.02, "many": 0.01, "memstall": 0.0002, "trigger": 0.0002}
SOME_NOISE = 0.001
# An interrupt more or less, by which the tracer announces a longer stretch.
INTERRUPT = {"latency": 400}
# Which reads are cut where, what a kernel thread does meanwhile, and how often idle CPUs look for tasks to pull: targets or
# nothing, but no comparison.
CHANCE = ("lines/*readers/*", "lines/upkeep/*", "latency/*/rmdir")


def worse(recorded, found, share=0.03):
    """[(figure, recorded cost, found cost)] of what got worse by more than a share."""
    out = []
    for name in sorted(recorded.keys() & found.keys()):
        if "psi" not in recorded[name] or "psi" not in found[name] or any(fnmatch.fnmatch(name, chance) for chance in CHANCE):
            continue
        workload = name.split("/")[0]
        before, after = cost(recorded[name]), cost(found[name])
        noise = NOISE.get(workload, SOME_NOISE) * found[name].get("none", 0) + INTERRUPT.get(workload, 0)
        if after > before + max(share * abs(before), noise):
            out.append((name, before, after))
    return out
