"""Mechanisms: state machines that stand between an analyst and the holdout.

They see numbers only, no data and no files; see ``doc/mechanisms.md``. In ``__all__`` stands what
users may compute with; the other names are the parts that are tested by themselves.
"""

from sklearn_bdp.mechanisms._noise import (
    Exponentials,
    Pool,
    bit_sources,
    fine_step,
    grid_gaussian,
    grid_laplace,
    scaled_exp,
    to_grid,
)
from sklearn_bdp.mechanisms._thresholdout import (
    Answers,
    Thresholdout,
    n_cells,
    released_value,
    thresholdout_epsilon,
    to_cell,
)

__all__ = ["Answers", "Thresholdout", "n_cells", "thresholdout_epsilon", "to_cell"]
