"""Models of dependence as plans need them: at any number of records."""

import math

import numpy as np

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent, check_correlation

#: Records up to which copies of groups are made; beyond, exponents are scaled.
_COPIED = 20_000


class _Continued:
    """More records of the structure of a model that is tied to ``model.n_records`` of them.

    Independent copies: exponents and effective numbers add up, leakage of a record stays. Exact
    for whole copies, between them an interpolation, which is for planning only.
    """

    n_records = None
    is_componentwise = True
    is_independent = False

    def __init__(self, model):
        self.model, self.size, self._known = model, model.n_records, {}

    def __getattr__(self, name):
        return getattr(self.model, name)  # what does not depend on the number of records

    def check_n(self, n):
        return n  # of any size

    def describe(self):
        return f"{self.model.describe()}, continued with the same structure"

    def largest_component(self, n):
        return self.model.largest_component(self.size)

    def units(self, n):
        count, name = self.model.units(self.size)
        return max(1, math.floor(count * n / self.size)), name

    def effective_n(self, n):
        return self.model.effective_n(self.size) * n / self.size

    def _copies(self, n):
        """Return copies that come near ``n`` records, and their number: limits are not additive."""
        if not isinstance(self.model, Groups | DependencyGraph):
            return self.model, self.size
        times = max(1, min(math.ceil(n / self.size), _COPIED // self.size))
        if times not in self._known:
            parts = np.asarray(self.model.components(self.size))
            copies = np.add.outer(np.arange(times) * (parts.max() + 1), parts)
            self._known[times] = Groups(copies.ravel())
        return self._known[times], times * self.size

    def mean_lower_limit(self, values, log_failure, n, *, binary=False):
        model, size = self._copies(n)
        return model.mean_lower_limit(values, np.asarray(log_failure) * (size / n), size)

    def sequential_information(self, dp_epsilon, n):
        return self.model.sequential_information(dp_epsilon, self.size) * n / self.size

    def posterior_bias(self, dp_epsilon, n):
        return self.model.posterior_bias(dp_epsilon, self.size)

    def dp_epsilon(self, bdp_epsilon, n, *, method="tight"):
        return self.model.dp_epsilon(bdp_epsilon, self.size, method=method)


def plain_model(correlation, *, searched=False):
    """Return the model of an argument; refuse one that assumes nothing, unless ``searched``."""
    model = check_correlation(correlation)
    if model.is_time_ordered and not searched:
        raise ValueError(
            "correlation='time' assumes nothing about dependence, which the arguments behind these "
            "plans need. Declare a chain, or use plan_search(correlation='time')."
        )
    return model


def any_size(model):
    """Return the model, or its continuation if it is tied to a number of records."""
    if model.n_records is None:
        return model
    return Independent() if model.is_independent else _Continued(model)


def continued(correlation, *, searched=False):
    """Return the model of an argument at any size; refuse one that no number of records helps.

    One component of unlimited dependence counts as one record however large it is. ``searched``:
    the records are those that a search holds out.
    """
    model = plain_model(correlation, searched=searched)
    n = model.n_records
    if searched and n is not None and not model.is_sequential and model.holds_given_rest:
        # A search verifies on a quarter of the nodes. Of five random quarters the middle one: what
        # they are worth varies where edges are strong.
        parts = [model.given_rest(model.split(n, 0.25, random_state=k).holdout) for k in range(5)]
        model = sorted(parts, key=lambda part: part.effective_n(part.n_records))[2]
        n = model.n_records
    if n is not None and n > 1 and not model.effective_n(n) > 1.0 + 1e-9:
        raise ValueError(
            f"correlation must have more than one component to plan with, got {model.describe()}. "
            "Without a limit on their dependence, these records together count as one, and no "
            "holdout among them is large enough. Use MarkovNetwork(graph) (a "
            "connected graph is then split by nodes), or "
            "hold out whole graphs or groups and plan with correlation=None, counting those."
        )
    return any_size(model)
