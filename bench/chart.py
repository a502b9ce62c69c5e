# SPDX-License-Identifier: GPL-2.0
"""Owns the pictures: what a round trip costs against the depth of the groups, and
for how long preemption is off against the number of CPUs.

A picture whose figures are not there is not drawn.
"""
import os

import figures
from ci.lib import picture
from ci.lib.picture import WANTED

PANELS = (("leaf", "both in one leaf"), ("siblings", "in two sibling leaves below"), ("disjoint", "in two branches"))
CPU_PANELS = (("read", "a read"), ("trigger", "a trigger armed and closed"), ("fold", "the fold"), ("sampler", "a sampler"))
KERNELS = (("stock", "stock", picture.STOCK, "s"), ("psi", "ours", picture.OURS, "o"))


def points(results, shape, flavour):
    """Depths and costs of one curve; depth 0 is the root."""
    names = {depth: f"pingpong/{shape}/{depth}" for depth in figures.DEPTHS}
    names[0] = "pingpong/leaf/0"
    found = [(depth, results[name][flavour] - results[name]["none"]) for depth, name in sorted(names.items())
             if {flavour, "none"} <= results.get(name, {}).keys()]
    return zip(*found)


def frame(plt, nr, title):
    """A row of panels below a title and a legend."""
    from matplotlib.lines import Line2D

    figure, panels = plt.subplots(1, nr, sharex=True, sharey=True, figsize=(10, 4.2))
    figure.subplots_adjust(left=0.1, right=0.985, top=0.78, bottom=0.125, wspace=0.08)
    for axes in panels:
        axes.grid(axis="y", color="#d9d9d9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=3)
    figure.text(0.1, 0.935, title, fontsize=13, fontweight="bold")
    figure.legend(
        handles=[Line2D([], [], color=colour, marker=marker, markersize=4.5, linewidth=1.8)
                 for _, _, colour, marker in KERNELS] + [Line2D([], [], **WANTED)],
        labels=[name for _, name, _, _ in KERNELS] + ["target"],
        loc="upper left", bbox_to_anchor=(0.094, 0.93), ncol=3, frameon=False, fontsize=9.5, borderaxespad=0.3)
    return figure, panels


def curves(axes, title, most, points_of):
    """Stock, ours and the target."""
    for flavour, _, colour, marker in KERNELS:
        axes.plot(*points_of(flavour), color=colour, marker=marker, markersize=4.5, linewidth=1.8)
    if most:
        axes.axhline(most, **WANTED)
    axes.set_title(title, fontsize=10.5)


def draw_depth(results, plt):
    none = results["pingpong/leaf/0"]["none"]
    figure, panels = frame(plt, len(PANELS), f"Two tasks wake each other through pipes: what PSI adds to {none:,.0f} instructions")
    for axes, (shape, title) in zip(panels, PANELS):
        curves(axes, title, figures.ROUND_TRIP[shape], lambda flavour, shape=shape: points(results, shape, flavour))
        axes.set_xticks((0, *figures.DEPTHS[1:]))
        axes.set_xlabel("depth of the cgroups")
    panels[0].set_ylim(0)
    panels[0].set_xlim(-0.4, figures.DEPTHS[-1] + 0.4)
    panels[0].set_ylabel("extra instructions a round trip")
    return figure


def draw_cpus(results, plt):
    def stretches(name, flavour):
        found = [(cpus, results.get(f"latency/cpus={cpus}/{name}", {}).get(flavour)) for cpus in figures.CPUS]
        return zip(*(point for point in found if point[1] is not None))

    figure, panels = frame(plt, len(CPU_PANELS), "The longest stretch with preemption or interrupts off")
    targets = {name: most for name, _, most in figures.STRETCHES}
    for axes, (name, title) in zip(panels, CPU_PANELS):
        curves(axes, title, targets[name], lambda flavour, name=name: stretches(name, flavour))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(figures.CPUS, [str(cpus) for cpus in figures.CPUS])
        axes.set_xlabel("CPUs in use")
        axes.minorticks_off()
    panels[0].set_yticks((300, 1000, 3000, 10000, 30000, 100000), ("300", "1,000", "3,000", "10,000", "30,000", "100,000"))
    panels[0].set_ylabel("instructions")
    return figure


# Name, the figure without which there is none, how to draw it.
PICTURES = (("depth", f"pingpong/leaf/{figures.DEPTHS[-1]}", draw_depth),
            ("cpus", f"latency/cpus={figures.CPUS[-1]}/read", draw_cpus))


def save(results, directory):
    """Writes the pictures; ImportError when matplotlib is missing."""
    wanted = [(name, draw) for name, needed, draw in PICTURES if set(figures.FLAVOURS[1:]) <= results.get(needed, {}).keys()]
    for name, draw in wanted:
        picture.save(os.path.join(directory, f"{name}.png"), lambda plt, draw=draw: draw(results, plt))
