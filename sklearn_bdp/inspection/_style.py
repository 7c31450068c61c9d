"""What the displays share: matplotlib when it is needed, colours, labels."""

from __future__ import annotations

from typing import Any, Self

#: Colours of Okabe and Ito: told apart without colour vision.
BLUE, RED = "#0072B2", "#D55E00"
GREY = "#767676"


class Display:
    """Base of the displays."""

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw what was computed.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **kwargs : dict
            Passed to ``plot`` of the main line.

        Returns
        -------
        Display
            Itself; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError(
                    f"{type(self).__name__}.plot needs matplotlib, which is not installed. It "
                    "comes with the `plot` extra: pip install 'sklearn-bdp[plot]'."
                ) from error
            _, ax = plt.subplots(layout="constrained")
        self.figure_, self.ax_ = ax.figure, ax
        self._draw(ax, kwargs)
        return self

    def _draw(self, ax, kwargs):
        raise NotImplementedError


def ink(ax):
    """Return ``(ink, paper)``: the colours of text and background, on light and dark pages."""
    from matplotlib import rcParams

    return rcParams["text.color"], ax.get_facecolor()


def finish(ax, *, above=False, **labels):
    """Set labels, a faint grid and a frameless legend, ``above`` the axes where it would cover."""
    ax.set(**labels)
    ax.grid(alpha=0.3, linewidth=0.5)
    ax.set_axisbelow(True)
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2} if above else {}
    ax.legend(frameon=False, fontsize="small", **place)


def whole_numbers(axis):
    """Let an axis have ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
