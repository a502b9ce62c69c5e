# SPDX-License-Identifier: GPL-2.0
"""Owns the pictures: what a round trip costs against the depth of the groups, and
for how long preemption is off against the number of CPUs.

A picture whose figures are not there is not drawn.
"""
import os

import figures
from ci.lib import picture
from ci.lib.picture import WANTED

SHAPES = (("leaf", "both in one leaf"), ("siblings", "in two sibling leaves below"), ("disjoint", "in two branches"))
ACTIONS = (("read", "a read"), ("trigger", "a trigger armed and closed"), ("fold", "the fold"),
           ("sampler", "a sampler"))
KERNELS = (("stock", "stock", picture.STOCK, "s"), ("psi", "ours", picture.OURS, "o"))


def draw(plt, title, panels, point, places):
    """(figure, axes) of a row of panels below a title and a legend.

    PANELS are (name, title, target); POINT(NAME, PLACE, FLAVOUR) is a value of a curve.
    """
    from matplotlib.lines import Line2D

    figure, row = plt.subplots(1, len(panels), sharex=True, sharey=True, figsize=(10, 4.2))
    figure.subplots_adjust(left=0.1, right=0.985, top=0.78, bottom=0.125, wspace=0.08)
    for axes, (name, words, most) in zip(row, panels):
        axes.grid(axis="y", color="#d9d9d9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=3)
        for flavour, _, colour, marker in KERNELS:
            values = [(place, point(name, place, flavour)) for place in places]
            axes.plot(*zip(*(pair for pair in values if pair[1] is not None)),
                      color=colour, marker=marker, markersize=4.5, linewidth=1.8)
        if most:
            axes.axhline(most, **WANTED)
        axes.set_title(words, fontsize=10.5)
    figure.text(0.1, 0.935, title, fontsize=13, fontweight="bold")
    figure.legend(
        handles=[Line2D([], [], color=colour, marker=marker, markersize=4.5, linewidth=1.8)
                 for _, _, colour, marker in KERNELS] + [Line2D([], [], **WANTED)],
        labels=[name for _, name, _, _ in KERNELS] + ["target"],
        loc="upper left", bbox_to_anchor=(0.094, 0.93), ncol=3, frameon=False, fontsize=9.5, borderaxespad=0.3)
    return figure, row


def draw_depth(results, plt):
    def point(shape, depth, flavour):
        values = results.get(f"pingpong/{shape if depth else 'leaf'}/{depth}", {})
        return values[flavour] - values["none"] if {flavour, "none"} <= values.keys() else None

    none = results["pingpong/leaf/0"]["none"]
    figure, row = draw(plt, f"Two tasks wake each other through pipes: what PSI adds to {none:,.0f} instructions",
                       [(name, words, figures.ROUND_TRIP[name]) for name, words in SHAPES],
                       point, (0, *figures.DEPTHS))
    for axes in row:
        axes.set_xticks((0, *figures.DEPTHS[1:]))
        axes.set_xlabel("depth of the cgroups")
    row[0].set_ylim(0)
    row[0].set_xlim(-0.4, figures.DEPTHS[-1] + 0.4)
    row[0].set_ylabel("extra instructions a round trip")
    return figure


def draw_cpus(results, plt):
    def point(name, cpus, flavour):
        return results.get(f"latency/cpus={cpus}/{name}", {}).get(flavour)

    targets = {name: most for name, _, most in figures.STRETCHES}
    figure, row = draw(plt, "The longest stretch with preemption or interrupts off",
                       [(name, words, targets[name]) for name, words in ACTIONS], point, figures.CPUS)
    for axes in row:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(figures.CPUS, [str(cpus) for cpus in figures.CPUS])
        axes.set_xlabel("CPUs in use")
        axes.minorticks_off()
    ticks = (300, 1000, 3000, 10000, 30000, 100000)
    row[0].set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    row[0].set_ylabel("instructions")
    return figure


# Name, the figure without which there is none, how to draw it.
PICTURES = (("depth", f"pingpong/leaf/{figures.DEPTHS[-1]}", draw_depth),
            ("cpus", f"latency/cpus={figures.CPUS[-1]}/read", draw_cpus))


def save(results, directory):
    """Writes the pictures."""
    for name, needed, how in PICTURES:
        if set(figures.FLAVOURS[1:]) <= results.get(needed, {}).keys():
            picture.save(os.path.join(directory, f"{name}.png"), lambda plt, how=how: how(results, plt))
