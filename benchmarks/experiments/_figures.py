"""Draw the results: training, holdout and fresh accuracy over the number of attributes."""

import numpy as np

from benchmarks.experiments._analyst import COLUMNS
from benchmarks.experiments._runner import moments

# Okabe-Ito colors with distinct lightness; marker and dash tell the lines apart in gray print.
LINES = (
    ("training", "training", "#0072B2", "o", "-"),
    ("holdout", "holdout, as reported", "#D55E00", "s", "--"),
    ("fresh", "fresh", "#000000", "^", ":"),
)


def draw(path, panels, sizes, title):
    """Save a figure: mean and standard deviation over the repetitions, and proven limits in gray.

    Parameters
    ----------
    path : pathlib.Path
        PNG to write.
    panels : list of (str, ndarray of shape (repetitions, n_sizes, n_columns))
        Headings and results of one analyst each.
    sizes : sequence of int
        Numbers of attributes.
    title : str
        Heading of the figure.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.8 + 4.1 * len(panels), 4.0), layout="constrained", dpi=150)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    tops = []
    bottoms = [0.48]
    for ax, (heading, results) in zip(axes, panels, strict=True):
        mean, spread = moments(results)
        for name, label, color, marker, dash in LINES:
            column = COLUMNS.index(name)
            center = mean[:, column]
            width = spread[:, column]
            ax.fill_between(sizes, center - width, center + width, color=color, alpha=0.2, lw=0)
            ax.plot(sizes, center, dash, color=color, marker=marker, ms=4, lw=1.5, label=label)
            tops.append(np.nanmax(center + width) + 0.02)
            bottoms.append(np.nanmin(center) - 0.01)
        lower, upper = (mean[:, COLUMNS.index(end)] for end in ("lower", "upper"))
        if np.isfinite(lower[1:]).any():
            ax.fill_between(
                sizes[1:], lower[1:], upper[1:], color="0.5", alpha=0.15, lw=0,
                label="promised limits",
            )  # fmt: skip
            tops.append(np.nanmax(upper) + 0.02)
            bottoms.append(np.nanmin(lower) - 0.02)
        ax.set_title(heading, fontsize=10)
        ax.set_xlabel("number of attributes used")
        ax.grid(alpha=0.3, lw=0.5)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.locator_params(axis="x", nbins=6)
    axes[0].set_ylabel("accuracy")
    axes[0].set_ylim(min(bottoms), max(tops))
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False, fontsize=8)  # fmt: skip
    figure.suptitle(title, fontsize=11)
    figure.savefig(path)
