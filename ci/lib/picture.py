# SPDX-License-Identifier: GPL-2.0
"""The style of all pictures, and how one is saved: the same figures give the same bytes, but for another matplotlib."""
INK, FAINT = "#222222", "#8a8a8a"
# Okabe and Ito's colours, which colour-blind eyes tell apart.
STOCK, OURS = "#d55e00", "#0072b2"
# The line of what should be.
WANTED = {"color": INK, "linewidth": 1.3, "linestyle": (0, (4, 2.5))}
STYLE = {
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


def save(path, draw):
    """Save the figure that DRAW makes with pyplot; ImportError when matplotlib is missing."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(STYLE):
        figure = draw(plt)
        figure.savefig(path, dpi=160, metadata={"Software": None})
        plt.close(figure)
    return path
