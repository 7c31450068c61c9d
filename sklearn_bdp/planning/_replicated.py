"""A correlation model tied to its records, seen at another size: more of the same."""

import math

import numpy as np

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent
from sklearn_bdp.planning._task import plain_model

#: Records up to which copies of groups are made; beyond, exponents are scaled.
_COPIED = 20_000


class _Replicated:
    """``n`` records made of independent copies of a model of ``n0`` records.

    Everything that adds over independent parts scales with ``n / n0``; per-record leakage stays.
    Exact for whole copies; between them an interpolation, used for planning only.
    """

    def __init__(self, model):
        self.model = model
        self.size = model.n_records
        self.misspecification = model.misspecification
        self.caveats = model.caveats
        self._known = {}

    n_records = None
    is_componentwise = True

    @property
    def is_independent(self):
        return self.model.is_independent

    def check_n(self, n):
        return n  # of any size

    def largest_component(self, n):
        return self.model.largest_component(self.size)

    def describe(self):
        return f"{self.model.describe()}, continued with the same structure"

    def effective_n(self, n):
        return self.model.effective_n(self.size) * n / self.size

    def _copies(self, n):
        """Return as many independent copies as ``n`` records need, their number, and its share.

        Copies of components are components; exponents of independent parts add up.
        """
        if not isinstance(self.model, Groups | DependencyGraph):
            return None
        times = max(1, min(math.ceil(n / self.size), _COPIED // self.size))
        if times not in self._known:
            parts = np.asarray(self.model.components(self.size))
            labels = np.arange(times)[:, None] * (parts.max() + 1) + parts
            self._known[times] = Groups(labels.ravel())
        return self._known[times], times * self.size, n / (times * self.size)

    def log_tail_above(self, mean, value, n):
        copies = self._copies(n)
        if copies is not None:
            model, size, share = copies
            return model.log_tail_above(mean, value, size) * share
        # Hoeffding's form at the effective number of records.
        excess = np.maximum(np.asarray(value) - np.asarray(mean), 0.0)
        return -2.0 * self.effective_n(n) * excess**2

    def mean_lower_limit(self, values, log_failure, n, *, binary=False):
        copies, level = self._copies(n), np.asarray(log_failure, dtype=float)
        if copies is not None:
            model, size, share = copies
            return model.mean_lower_limit(values, level / share, size)
        reach = np.sqrt(-level / (2.0 * self.effective_n(n)))
        return np.maximum(np.asarray(values, dtype=float) - reach, 0.0)

    def sequential_information(self, dp_epsilon, n):
        return self.model.sequential_information(dp_epsilon, self.size) * n / self.size

    def posterior_bias(self, dp_epsilon, n):
        return self.model.posterior_bias(dp_epsilon, self.size)

    def bdp_epsilon(self, dp_epsilon, n, *, method="tight"):
        return self.model.bdp_epsilon(dp_epsilon, self.size, method=method)

    def dp_epsilon(self, bdp_epsilon, n, *, method="tight"):
        return self.model.dp_epsilon(bdp_epsilon, self.size, method=method)

    def gap_for(self, failure):
        return self.model.gap_for(failure)


def sized(model):
    """Return the model, or its continuation when it is tied to a number of records."""
    if model.n_records is None:
        return model
    return Independent() if model.is_independent else _Replicated(model)


def continued(correlation):
    """Return the model of an argument at any size, for plans; refuse what no size helps.

    One component of unlimited dependence counts as one record however large it is.
    """
    model = plain_model(correlation)
    n = model.n_records
    if n is not None and n > 1 and not model.effective_n(n) > 1.0 + 1e-9:
        raise ValueError(
            f"correlation must have more than one component to plan with, got {model.describe()}: "
            "nothing limits how its records depend on each other, so together they count as one "
            "and no holdout among them is large enough. Give the strength of the edges, "
            "MarkovNetwork(graph, influence=0.1) (a connected graph is then split by nodes), or "
            "hold out whole graphs or groups: with correlation=None the answer counts those."
        )
    return sized(model)
