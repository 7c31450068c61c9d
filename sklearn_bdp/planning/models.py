"""Models of dependence that planning uses for any number of records."""

import dataclasses
import math

import numpy as np

from sklearn_bdp.correlation import DependencyGraph, Groups, Independent, check_correlation
from sklearn_bdp.correlation.components import largest_component, n_independent_units
from sklearn_bdp.correlation.cutting import gap_failure_probability, required_gap
from sklearn_bdp.correlation.declaration import declares_dates
from sklearn_bdp.correlation.levels import posterior_bias, sequential_information

#: Largest number of records for which groups are copied. Beyond it, exponents are scaled.
_MAX_COPIED_RECORDS = 20_000


class _Continued:
    """CorrelationModel for any number of records, from a ``model`` of a fixed number of records.

    Additional records are independent copies of all records of ``model``. Between whole copies,
    effective numbers are interpolated, and confidence limits are approximate.
    """

    n_records = None  # as of a model that describes any number of records

    def __init__(self, model):
        self.model = model
        self.size = model.n_records  # number of records of one copy
        self._copied_groups = {}  # Groups by number of copies

    def __getattr__(self, name):
        return getattr(self.model, name)  # for attributes that do not depend on the number

    def check_n(self, n):
        return n

    def describe(self):
        return f"{self.model.describe()}, continued with the same structure"

    def sampling_scheme(self, n):
        scheme = self.model.sampling_scheme(self.size)
        n_units = self.continued_count(scheme.n_units, n)
        return dataclasses.replace(
            scheme, n_records=n, n_units=n_units, weights=None, block_codes=None
        )

    def continued_count(self, count, n):
        """Return the number among ``n`` records if there are ``count`` among those of ``model``."""
        return max(1, math.floor(count * n / self.size))

    def effective_n(self, n):
        return self.model.effective_n(self.size) * n / self.size

    def _copies(self, n):
        """Return a model of whole copies of all records, and its number of records.

        For groups and graphs (with their components as groups) there are as many copies as ``n``
        records need, but at most 20,000 records or one copy. Other models are not copied.
        """
        if not isinstance(self.model, Groups | DependencyGraph):
            return self.model, self.size
        n_copies = max(1, min(math.ceil(n / self.size), _MAX_COPIED_RECORDS // self.size))
        if n_copies not in self._copied_groups:
            codes = np.asarray(self.model.components(self.size))
            n_components = codes.max() + 1
            copied_codes = np.add.outer(np.arange(n_copies) * n_components, codes)
            self._copied_groups[n_copies] = Groups(copied_codes.ravel())
        return self._copied_groups[n_copies], n_copies * self.size

    def mean_lower_limit(self, values, log_failure, n, *, binary=False):
        model, size = self._copies(n)
        return model.mean_lower_limit(values, np.asarray(log_failure) * (size / n), size)

    def dp_epsilon(self, bdp_epsilon, n, *, method="tight"):
        return self.model.dp_epsilon(bdp_epsilon, self.size, method=method)


@gap_failure_probability.register
def _gap_failure_of_continuation(model: _Continued, gap: int) -> float:
    return gap_failure_probability(model.model, gap)


@required_gap.register
def _required_gap_of_continuation(model: _Continued, failure: float) -> int:
    return required_gap(model.model, failure)


@sequential_information.register
def _information_of_continuation(model: _Continued, dp_epsilon: float, n: int) -> float:
    return sequential_information(model.model, dp_epsilon, model.size) * n / model.size


@posterior_bias.register
def _bias_of_continuation(model: _Continued, dp_epsilon: float, n: int) -> float:
    return posterior_bias(model.model, dp_epsilon, model.size)


@largest_component.register
def _largest_component_of_continuation(model: _Continued, n: int) -> int:
    return largest_component(model.model, model.size)


@n_independent_units.register
def _n_independent_units_of_continuation(model: _Continued, n: int) -> int:
    return model.continued_count(n_independent_units(model.model, model.size), n)


def model_of_plan(correlation, *, searched=False):
    """Return the CorrelationModel of the argument ``correlation``.

    ``searched``: whether a search is planned. If not, ValueError is raised for ``"time"``.
    """
    model = check_correlation(correlation)
    if declares_dates(model) and not searched:
        raise ValueError(
            "correlation='time' assumes nothing about dependence, which the arguments behind these "
            "plans need. Declare a chain, or use plan_search(correlation='time')."
        )
    return model


def any_size(model):
    """Return a CorrelationModel for any number of records that continues ``model``.

    It is ``model`` if that has no fixed number of records, and :class:`Independent` if its records
    are independent.
    """
    if model.n_records is None:
        return model
    scheme = model.sampling_scheme(model.n_records)
    return Independent() if scheme.has_independent_records else _Continued(model)


def continued(correlation, *, searched=False):
    """Return a CorrelationModel of the argument ``correlation``, for any number of records.

    ``searched``: whether a search is planned. For a network that is split by nodes, the model is
    then that of a random quarter of the nodes. Raises ValueError if all records together count as
    one, and as :func:`model_of_plan`.
    """
    model = model_of_plan(correlation, searched=searched)
    n = model.n_records
    if searched and n is not None and model.sampling_scheme(n).bounds_hold_given_rest:
        # A search verifies on a quarter of the nodes. Their effective number varies if edges are
        # strong: the median of five random quarters is used.
        quarter_models = [
            model.conditional_on_rest(model.split(n, 0.25, random_state=seed).holdout)
            for seed in range(5)
        ]
        quarter_models.sort(key=lambda quarter: quarter.effective_n(quarter.n_records))
        model = quarter_models[2]
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
