"""How far the influence of a record reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bdp._checks import check_integer
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.correlation.privacy import influence_over_distance
from sklearn_bdp.inspection._style import LINES, Display, finish, name_level, whole_numbers


@dataclass(kw_only=True, eq=False, repr=False)
class LeakageDisplay(Display):
    r"""Influence of a record on others, over their distance.

    Make it with :meth:`from_correlation`. The influence is the largest change of a log-probability
    of one record that another record can cause, in nats; distance counts records in time or edges
    in a graph. Zero means independent; where a model puts no limit (groups, a graph without
    strengths) the display says "no limit".

    Parameters
    ----------
    distance : ndarray of shape (n_distances,)
        Distances 1, 2, ...
    influence : dict of str to ndarray of shape (n_distances,)
        Influence for each model, in nats; infinite where nothing limits it.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    lines_ : list of matplotlib Line2D
        One line for each model.

    References
    ----------
    Song, Wang, Chaudhuri (2017), *Pufferfish privacy mechanisms for correlated data*, SIGMOD'17
    (max-influence).

    Examples
    --------
    >>> from sklearn_bdp.inspection import LeakageDisplay
    >>> display = LeakageDisplay.from_correlation([[0.9, 0.1], [0.2, 0.8]], max_distance=3)
    >>> display.influence["model"].round(3).tolist()  # ln .8/.1, ln .66/.17, ...
    [2.079, 1.356, 0.942]
    """

    distance: Array
    influence: dict[str, Array]

    @classmethod
    def from_correlation(
        cls,
        correlation: Any,
        *,
        groups: ArrayLike | None = None,
        max_distance: int = 20,
        ax: Any = None,
    ) -> LeakageDisplay:
        """Draw influence over distance for one or several correlations.

        Parameters
        ----------
        correlation : correlation or dict of str to correlation
            Whatever ``correlation=`` takes, or several of them with names.
        groups : array-like of shape (n_records,), default=None
            Needed for ``"groups"``.
        max_distance : int, default=20
            Largest distance.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        LeakageDisplay
            Drawn; ``ax_`` and ``figure_`` say where.

        Raises
        ------
        TypeError
            If a model has no notion of distance.
        """
        max_distance = check_integer("max_distance", max_distance, low=1)
        models = correlation if isinstance(correlation, dict) else {"model": correlation}
        influence = {}
        for name, value in models.items():
            model = check_correlation(value, groups=groups)
            for label, part in _parts(name, model):
                influence[label] = influence_over_distance(part, max_distance)
        return cls(distance=np.arange(1, max_distance + 1), influence=influence).plot(ax=ax)

    def _draw(self, ax):
        """Draw one line for each model."""
        everything = np.concatenate(list(self.influence.values()))
        finite = everything[np.isfinite(everything)]
        largest = finite.max() if finite.size and finite.max() > 0 else 1.0
        ceiling = 1.25 * largest
        self.lines_ = []
        for index, (name, values) in enumerate(self.influence.items()):
            style = LINES[index % len(LINES)]
            heights = np.where(np.isinf(values), ceiling, values)
            self.lines_ += ax.plot(self.distance, heights, label=name, ms=5, **style)
        if not np.isfinite(everything).all():
            ax.axhline(ceiling, color="black", lw=0.8, ls=(0, (1, 3)))
            name_level(ax, ceiling, "no limit")
        ax.set_ylim(-0.03 * largest, 1.15 * ceiling)
        whole_numbers(ax.xaxis)
        finish(
            ax,
            legend=len(self.influence) > 1,
            xlabel="distance (records in time, edges in a graph)",
            ylabel="influence on the other record (nats)",
        )


def _parts(name, model):
    """Return the models behind a list of models, each with a name; a single model as it is."""
    parts = model.alternatives
    if len(parts) == 1:
        return [(name, parts[0])]
    return [(f"{name} {number}", part) for number, part in enumerate(parts, start=1)]
