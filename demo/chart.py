# SPDX-License-Identifier: GPL-2.0
"""Owns the demo's picture: the pressure of the three resources over time, and its predecessors.

The same record gives the same bytes, but for another release of matplotlib.
"""
from ci.lib import picture
from ci.lib.picture import FAINT, INK, WANTED as CLOCK

PANELS = (("cpu", "CPU"), ("io", "I/O"), ("memory", "Memory"))

# Okabe and Ito's colours, which colour-blind eyes tell apart; some is light and
# full is dark, so that they differ in grey as well.
CLASSES = {"shortage": ("#9ecbec", "#0072b2"), "limit": ("#f6d488", "#e08f00")}
UNKNOWN = ("#c9c9c9", "#8f8f8f")    # of a kernel without classes
AVG10, BAND = "#a3195b", "#f3f1ec"

LEVELS = ("low", "medium", "critical")
LEVEL_COLOURS = ("#e3a6c2", AVG10, "#000000")

TITLES = {"cpu": "4 spinners,\n2 CPUs", "cpu-limit": "2 spinners,\ncpu.max 20 %", "io": "reads,\nio.max",
          "io+work": "reads\n+ work", "fill": "warm-\nup", "memory": "working set,\nmemory limit"}

# Processes for each CPU that want to go on.
WANTED = {"cpu": 2, "cpu-limit": 1, "io": 1, "io+work": 2, "memory": 1}


def steps(intervals):
    """Edges and heights, in percent, for a stepped area."""
    edges = [intervals[0][0]] + [end for _, end, _ in intervals]
    return edges, [100 * share for _, _, share in intervals]


def draw_panel(axes, record, resource):
    colours = {f".{name}": both for name, both in CLASSES.items()
               if f"{resource}.{name}.some" in record.samples[0].values} or {"": UNKNOWN}
    for line in (0, 1):
        for name, both in colours.items():
            edges, heights = steps(record.intervals(f"{resource}{name}.{('some', 'full')[line]}"))
            axes.stairs(heights, edges, fill=True, color=both[line], linewidth=0)
    axes.step([s.t for s in record.samples],
              [s.values[f"{resource}.some"][0] for s in record.samples],
              where="post", color=AVG10, linewidth=1.6)
    axes.set_ylim(0, 107)
    axes.set_yticks((0, 50, 100))
    axes.set_yticklabels(("0", "50", "100 %"))


def draw_answers(axes, record, resource):
    """What each load knows: a line across its phase."""
    for load, own in record.own.items():
        if load.split("-")[0] == resource:
            begin, end, _ = record.load_span(load)
            axes.hlines(50 * sum(own[f"{resource}.some"]) / (end - begin), begin, end, **CLOCK)


def draw_load(axes, record):
    """The load average, which the kernel moves every five seconds."""
    times, loads = [s.t for s in record.samples], [s.load for s in record.samples]
    axes.step(times, loads, where="post", color=INK, linewidth=1.6)
    for phase in record.phases:
        if phase.name in WANTED:
            axes.hlines(WANTED[phase.name] * record.cpus, phase.begin, phase.end, **CLOCK)
    axes.set_ylim(0, 4.4)
    axes.set_yticks((0, 2, 4))


def draw_events(axes, record):
    """A mark for each event since the sample before; an event of a level is one of the lower ones, too."""
    for level, colour in enumerate(LEVEL_COLOURS):
        for last, sample in zip(record.samples, record.samples[1:]):
            more = sample.events[level] - last.events[level]
            axes.eventplot([last.t + (sample.t - last.t) * (i + 0.5) / more for i in range(more)],
                           lineoffsets=level, linelengths=0.7, linewidths=1.6, colors=colour)
    axes.set_ylim(-0.6, 2.6)
    axes.set_yticks(range(3))
    axes.set_yticklabels(LEVELS)


def draw_phases(figure_axes, record):
    for axes in figure_axes:
        for phase in record.phases:
            if phase.name != "quiet":
                axes.axvspan(phase.begin, phase.end, color=BAND, linewidth=0, zorder=0)
            if "+" in phase.name:
                axes.axvline(phase.begin, color=FAINT, linewidth=0.8, linestyle=":")
    top = figure_axes[0]
    for phase in record.phases:
        if phase.name != "quiet":
            top.annotate(TITLES[phase.name], ((phase.begin + phase.end) / 2, 1.04),
                         xycoords=("data", "axes fraction"), ha="center", va="bottom",
                         fontsize=9, annotation_clip=False)


def draw_legend(figure):
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries = [(Patch(color=both[line]), f"{name}, {('some', 'full')[line]}")
               for name, both in CLASSES.items() for line in (0, 1)]
    entries += [(Line2D([], [], color=AVG10, linewidth=1.6), "some avg10"),
                (Line2D([], [], **CLOCK), "what the load itself knows")]
    figure.legend(*zip(*entries), loc="upper left", bbox_to_anchor=(0.099, 0.962), ncol=6, frameon=False,
                  fontsize=9.5, handlelength=1.6, columnspacing=1.5, borderaxespad=0.3)


def draw(record, plt):
    figure, figure_axes = plt.subplots(5, 1, sharex=True, figsize=(10.5, 8.4),
                                       height_ratios=(1, 1, 1, 0.8, 0.55))
    figure.subplots_adjust(left=0.105, right=0.985, top=0.868, bottom=0.062, hspace=0.17)
    draw_phases(figure_axes, record)
    for axes, (resource, title) in zip(figure_axes, PANELS):
        draw_panel(axes, record, resource)
        draw_answers(axes, record, resource)
        axes.set_ylabel(title, fontsize=11, fontweight="bold")
    load, events = figure_axes[len(PANELS):]
    draw_load(load, record)
    draw_events(events, record)
    for axes, title in ((load, "Load average\nof a minute"), (events, "Events of\nvmpressure")):
        axes.set_ylabel(title, fontsize=9, color="#555555")
    for axes in figure_axes:
        axes.grid(axis="y", color="#d9d9d9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=3)
    figure.align_ylabels()
    events.set_xlim(0, record.phases[-1].end)
    events.set_xlabel("guest time [s]")
    figure.text(0.105, 0.967, "A shortage, three limits, and what came before PSI",
                fontsize=14, fontweight="bold")
    draw_legend(figure)
    return figure


def save(record, path):
    picture.save(path, lambda plt: draw(record, plt))
