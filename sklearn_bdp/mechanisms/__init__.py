"""Mechanisms: state machines that stand between an analyst and the holdout.

They see numbers only, no data and no files; see ``doc/mechanisms.md``.
"""

from sklearn_bdp.mechanisms._answers import Answers
from sklearn_bdp.mechanisms._costs import thresholdout_epsilon
from sklearn_bdp.mechanisms._grid import cell_midpoints, n_cells, to_cell
from sklearn_bdp.mechanisms._thresholdout import Thresholdout

__all__ = [
    "Answers",
    "Thresholdout",
    "cell_midpoints",
    "n_cells",
    "thresholdout_epsilon",
    "to_cell",
]
