#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Owns the demo's picture: the pressure of the three resources over time.

usage: chart.py LOG DIRECTORY      writes DIRECTORY/demo.svg and DIRECTORY/demo.png

The same log gives the same bytes, but for another release of matplotlib.
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from record import BadRecord, Record

PANELS = (("cpu", "CPU"), ("io", "I/O"), ("memory", "Memory"))

# Okabe and Ito's colours, which colour-blind eyes tell apart; some is light and
# full is dark, so that they differ in grey as well.
SOME, FULL, AVG10 = "#9ecbec", "#0072b2", "#d55e00"
INK, FAINT, BAND = "#222222", "#8a8a8a", "#f1efe9"

TITLES = {"cpu": "cpu load", "io": "reads", "io+work": "reads + work",
          "fill": "warm-up", "memory": "memory load"}

STYLE = {
    "svg.hashsalt": "psi demo",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def steps(intervals):
    """Edges and heights, in percent, for a stepped area."""
    edges = [intervals[0][0]] + [end for _, end, _ in intervals]
    return edges, [100 * share for _, _, share in intervals]


def draw_panel(axes, record, resource):
    for name, colour in ((f"{resource}.some", SOME), (f"{resource}.full", FULL)):
        edges, heights = steps(record.intervals(name))
        axes.stairs(heights, edges, fill=True, color=colour, linewidth=0)
    axes.step([s.t for s in record.samples],
              [s.values[f"{resource}.some"][0] for s in record.samples],
              where="post", color=AVG10, linewidth=1.8)


def draw_answer(axes, record, resource):
    """What the load knows: a line across its phase."""
    if resource not in record.own:
        return
    begin, end, _ = record.load_span(resource)
    low, high = record.own[resource][f"{resource}.some"]
    axes.hlines(100 * (low + high) / 2 / (end - begin), begin, end, color=INK, linewidth=1.3,
                linestyle=(0, (4, 2.5)))


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
            top.annotate(TITLES[phase.name], ((phase.begin + phase.end) / 2, 1.03),
                         xycoords=("data", "axes fraction"), ha="center", va="bottom",
                         fontsize=9.5, annotation_clip=False)


def draw(record, plt):
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, figure_axes = plt.subplots(3, 1, sharex=True, figsize=(10, 6.4))
    figure.subplots_adjust(left=0.085, right=0.985, top=0.85, bottom=0.085, hspace=0.16)
    draw_phases(figure_axes, record)
    for axes, (resource, title) in zip(figure_axes, PANELS):
        draw_panel(axes, record, resource)
        draw_answer(axes, record, resource)
        axes.set_ylim(0, 105)
        axes.set_yticks((0, 50, 100))
        axes.set_yticklabels(("0", "50", "100 %"))
        axes.grid(axis="y", color="#d9d9d9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_ylabel(title, fontsize=11, fontweight="bold")
        axes.tick_params(length=3)
    figure_axes[-1].set_xlim(0, record.phases[-1].end)
    figure_axes[-1].set_xlabel("guest time [s]")

    figure.text(0.085, 0.952, "Pressure while three loads run, one after the other",
                fontsize=14, fontweight="bold")
    figure.legend(
        handles=[Patch(color=SOME), Patch(color=FULL), Line2D([], [], color=AVG10, linewidth=1.8),
                 Line2D([], [], color=INK, linewidth=1.3, linestyle=(0, (4, 2.5)))],
        labels=["some: stalled share of the time, from total", "full, likewise",
                "some avg10",
                "some, by the load's own clock"],
        loc="upper left", bbox_to_anchor=(0.079, 0.945), ncol=4, frameon=False, fontsize=9.5,
        handlelength=1.6, columnspacing=1.5, borderaxespad=0.3)
    return figure


def save(record, directory):
    """Writes both pictures; ImportError when matplotlib is missing."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(STYLE):
        figure = draw(record, plt)
        paths = []
        for suffix, metadata in (("svg", {"Date": None, "Creator": None}),
                                 ("png", {"Software": None})):
            path = os.path.join(directory, f"demo.{suffix}")
            figure.savefig(path, dpi=160, metadata=metadata)
            paths.append(path)
        plt.close(figure)
    return paths


def main():
    parser = argparse.ArgumentParser(description="draw the record of a demo run")
    parser.add_argument("log", help="the result channel of a run, as saved by vm/run")
    parser.add_argument("directory", help="where demo.svg and demo.png go")
    args = parser.parse_args()
    try:
        with open(args.log, encoding="utf-8", errors="replace") as lines:
            record = Record(lines)
        if not record.complete:
            raise BadRecord("the record ends in the middle of the run")
        save(record, args.directory)
    except ImportError:
        print("chart: no matplotlib for /usr/bin/python3: install python3-matplotlib (make deps)",
              file=sys.stderr)
        return 1
    except (OSError, BadRecord) as error:
        where = getattr(error, "filename", None) or args.log
        why = error.strerror if isinstance(error, OSError) else error
        print(f"chart: {where}: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
