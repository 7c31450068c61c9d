"""Conversion of the argument ``correlation`` to a model, and the model of a list of models."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sklearn_bdp._typing import Array, Correlation, Seed
from sklearn_bdp.correlation.base import CorrelationModel, Folds, Split
from sklearn_bdp.correlation.chain import SPLIT_FAILURE, MarkovChain
from sklearn_bdp.correlation.components import (
    Groups,
    Independent,
    component_sizes,
    n_independent_units,
    unnamed_groups,
)
from sklearn_bdp.correlation.cutting import gap_failure_probability, required_gap
from sklearn_bdp.correlation.graph import DependencyGraph
from sklearn_bdp.correlation.graph_input import is_networkx
from sklearn_bdp.correlation.scheme import ConcentrationBound, SamplingScheme
from sklearn_bdp.correlation.sequences import ChainSequences
from sklearn_bdp.correlation.time_order import TimeOrdered


def _common_size(models):
    """Return the number of records that models are tied to, None if none is tied to a number.

    Raises ValueError if the numbers differ.
    """
    sizes = sorted({model.n_records for model in models if model.n_records is not None})
    if len(sizes) > 1:
        raise ValueError(f"models must describe one number of records, got {sizes}.")
    return sizes[0] if sizes else None


class WorstOf(CorrelationModel):
    """List of models of which at least one is true (Song, Wang, Chaudhuri 2017: the class Theta).

    Every bound is the weakest of those of the models.

    Parameters
    ----------
    models : list of CorrelationModel
        At least one; those tied to a number of records must agree on it.

    Raises
    ------
    ValueError
        If the list is empty, has other objects or ``correlation="time"``, or if the numbers of
        records differ.

    See Also
    --------
    check_correlation : Make this model from a list.

    Examples
    --------
    >>> from sklearn_bdp.correlation import Groups, Independent, check_correlation
    >>> check_correlation([Independent(), Groups([0, 0, 1])]).bdp_epsilon(0.1, 3)
    0.2
    """

    fingerprint_name = "WorstOf"

    def __init__(self, models: Sequence[CorrelationModel]) -> None:
        models = tuple(models) if np.iterable(models) else (models,)
        if not models or not all(isinstance(model, CorrelationModel) for model in models):
            raise ValueError(f"models must be correlation models, one or more, got {models!r:.60}.")
        if any(isinstance(model, TimeOrdered) for model in models):
            raise ValueError(
                "models must not hold correlation='time': use it alone, or a list of chains."
            )
        self.models = models
        self.n_records = _common_size(models)
        self.caveats = tuple(dict.fromkeys(line for model in models for line in model.caveats))
        self._freeze(*sorted(model.fingerprint() for model in models))

    def __repr__(self) -> str:
        return f"WorstOf([{', '.join(repr(model) for model in self.models)}])"

    def describe(self) -> str:
        return "the worst of: " + "; ".join(model.describe() for model in self.models)

    def sampling_scheme(self, n: int) -> SamplingScheme:
        n = self.check_n(n)
        schemes = [model.sampling_scheme(n) for model in self.models]
        in_time_order = any(scheme.in_time_order for scheme in schemes)
        # Bounds for components and for chains are valid for independent records, too.
        bounds = {scheme.bound for scheme in schemes if not scheme.has_independent_records}
        bound = ConcentrationBound.EFFECTIVE_NUMBER
        if not bounds:
            bound = ConcentrationBound.INDEPENDENT
        elif len(bounds) == 1:
            bound = bounds.pop()
        return SamplingScheme(
            n_records=n,
            n_units=n,
            unit_name="records",
            bound=bound,
            target="later records of the same process" if in_time_order else "new records",
            exchangeable=all(scheme.exchangeable for scheme in schemes),
            in_time_order=in_time_order,
        )

    def components(self, n: int) -> Array:
        # Records are joined by the groups of any of the models.
        graph = sparse.csr_array((n, n))
        for model in self.models:
            codes = model.components(n)
            _, first_records = np.unique(codes, return_index=True)
            # An edge joins each record with the first one of its component.
            edges = np.arange(n), first_records[codes]
            graph = graph + sparse.csr_array((np.ones(n), edges), shape=(n, n))
        return connected_components(graph, directed=False)[1]

    def _variance_proxy(self, n, is_mean):
        return max(model._variance_proxy(n, is_mean) for model in self.models)

    def _lower_limit(self, values, log_failures, n, binary):
        return np.min(
            [model._lower_limit(values, log_failures, n, binary) for model in self.models], axis=0
        )

    def _splitting_model(self, n):
        """Return a model whose splits of ``n`` records are valid under every model of the list.

        Raises ValueError if there is none.
        """
        dependent_models = []
        schemes = []  # of the dependent models
        for model in self.models:
            scheme = model.sampling_scheme(n)
            if not scheme.has_independent_records:
                dependent_models.append(model)
                schemes.append(scheme)
        if not dependent_models:
            return self.models[0]
        if any(scheme.bounds_hold_given_rest for scheme in schemes):
            raise ValueError(
                "correlation must not be a list with a network that is split by nodes: declare one "
                "with the largest influences, or join graphs by networkx.disjoint_union_all."
            )
        if all(scheme.has_independent_units for scheme in schemes):
            return unnamed_groups(self.components(dependent_models[0].n_records))
        if all(scheme.in_time_order for scheme in schemes):
            # Of chains, the one that needs the longest gap.
            return max(dependent_models, key=lambda model: required_gap(model, SPLIT_FAILURE))
        raise ValueError(
            "a list of chains and graphs does not say where to cut: pass X_val and y_val."
        )

    def split(self, n: int, holdout: float, *, random_state: Seed = None) -> Split:
        n = self.check_n(n)
        return self._splitting_model(n).split(n, holdout, random_state=random_state)

    def folds(self, n: int, n_splits: int, *, random_state: Seed = None) -> Folds:
        n = self.check_n(n)
        return self._splitting_model(n).folds(n, n_splits, random_state=random_state)

    def subset(self, indices: ArrayLike) -> CorrelationModel:
        return WorstOf([model.subset(indices) for model in self.models])


@gap_failure_probability.register
def _largest_gap_failure(model: WorstOf, gap: int) -> float:
    return max(gap_failure_probability(listed_model, gap) for listed_model in model.models)


@required_gap.register
def _largest_required_gap(model: WorstOf, failure: float) -> int:
    return max(required_gap(listed_model, failure) for listed_model in model.models)


@n_independent_units.register
def _n_components_of_list(model: WorstOf, n: int) -> int:
    scheme = model.sampling_scheme(n)
    if scheme.has_independent_records or not scheme.has_independent_units:
        return scheme.n_units
    _, n_components_per_size = component_sizes(model, n)
    return int(n_components_per_size.sum())


def check_correlation(
    correlation: Correlation, *, groups: ArrayLike | None = None
) -> CorrelationModel:
    """Return the correlation model that an argument declares.

    Parameters
    ----------
    correlation : None, array-like, scipy.sparse, networkx graph, model, list, "groups" or "time"
        ``None``: independent records. A dense square array: the transition matrix of a Markov
        chain. A sparse matrix or networkx graph: :class:`DependencyGraph` of its edges. A model:
        itself. A list of any of these but ``"time"``: a model with the weakest bounds of all.
        ``"groups"``: :class:`Groups`. ``"time"``: :class:`TimeOrdered`.
    groups : array-like of shape (n,), optional
        One label per record, for ``"groups"``. With a single chain, label of the sequence of each
        record: the chain runs in each sequence independently. Ignored in all other cases.

    Returns
    -------
    CorrelationModel
        The declared model.

    Raises
    ------
    ValueError, TypeError
        If the argument is not one of these, or is malformed.

    See Also
    --------
    CorrelationModel : Base class of the returned models.

    Examples
    --------
    >>> from sklearn_bdp.correlation import check_correlation
    >>> check_correlation(None)
    Independent()
    >>> check_correlation("groups", groups=["a", "a", "b"])
    Groups(<3 records in 2 groups>)
    """
    if correlation is None:
        return Independent()
    if isinstance(correlation, CorrelationModel):
        return _in_sequences(correlation, groups)
    check_declared(correlation)
    if isinstance(correlation, str):
        return _model_of_keyword(correlation, groups)
    if sparse.issparse(correlation) or is_networkx(correlation):
        return DependencyGraph(correlation)
    if isinstance(correlation, list | tuple) and not _is_matrix(correlation):
        return WorstOf(
            [
                check_correlation(item, groups=groups if isinstance(item, str) else None)
                for item in correlation
            ]
        )
    return _in_sequences(_chain_of_matrix(correlation), groups)


def _model_of_keyword(keyword, groups):
    """Return the model of the text ``"time"`` or ``"groups"``.

    Raises ValueError for ``"groups"`` if ``groups`` is None.
    """
    if keyword == "time":
        return TimeOrdered()
    if groups is None:
        raise ValueError(
            "correlation='groups' needs groups=, one label per record, got None. Call "
            "fit(X, y, groups=labels)."
        )
    return Groups(groups)


def _chain_of_matrix(correlation):
    """Return the :class:`MarkovChain` of an array-like transition matrix.

    Raises TypeError or ValueError for other objects.
    """
    if isinstance(correlation, type) and issubclass(correlation, CorrelationModel):
        name = correlation.__name__
        raise TypeError(f"correlation must be an instance, got the class {name}. Pass {name}().")
    try:
        matrix = np.asarray(correlation, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{_RULE}, got {type(correlation).__name__}.") from error
    if matrix.ndim != 2:
        raise ValueError(f"{_RULE}, got an array of shape {matrix.shape}.")
    return MarkovChain(matrix)


def _in_sequences(model, groups):
    """Return a chain as :class:`ChainSequences` if ``groups`` are given; other models unchanged."""
    if groups is None or not isinstance(model, MarkovChain):
        return model
    return ChainSequences(model, groups)


_RULE = (
    "correlation must be None, 'groups', 'time', a square transition matrix, a graph, a "
    "correlation model or a list of these"
)


def check_declared(correlation: object) -> None:
    """Raise ValueError for a number, a list with "time", and text except "groups" and "time"."""
    if isinstance(correlation, numbers.Real) and not isinstance(correlation, bool):
        raise ValueError(
            f"{_RULE}, got the number {correlation!r}. If this is an autocorrelation time in "
            f"records, set correlation=MarkovChain.from_autocorrelation_time({correlation!r})."
        )
    if isinstance(correlation, list | tuple) and any(
        isinstance(item, str) and item == "time" for item in correlation
    ):
        raise ValueError(
            f"correlation='time' cannot be part of a list, got correlation={correlation!r}. Set "
            "correlation='time' alone. In a list, use MarkovChain.from_autocorrelation_time(5) if "
            "5 records is yours."
        )
    if isinstance(correlation, str) and correlation not in ("groups", "time"):
        similar_words = difflib.get_close_matches(correlation.lower(), ("groups", "time"), n=1)
        suggestion = f" Did you mean {similar_words[0]!r}?" if similar_words else ""
        raise ValueError(f"{_RULE}, got correlation={correlation!r}.{suggestion}")


def declares_time_order(correlation: object) -> bool:
    """Return whether an argument is ``"time"``, or a model of records in one time order.

    False for a transition matrix, which is not a model.
    """
    if isinstance(correlation, CorrelationModel):
        return correlation.sampling_scheme(correlation.n_records or 1).in_time_order
    return isinstance(correlation, str) and correlation == "time"


def declares_dates(correlation: object) -> bool:
    """Return whether an argument is ``"time"``, or a model of dates given their past (G26)."""
    if isinstance(correlation, CorrelationModel):
        return correlation.sampling_scheme(correlation.n_records or 1).calendar is not None
    return isinstance(correlation, str) and correlation == "time"


def _is_matrix(items):
    """Return whether a list consists of rows of scalars, as a matrix does, and is not empty."""
    rows = [row for row in items if isinstance(row, list | tuple | np.ndarray)]
    return len(rows) == len(items) > 0 and all(
        len(row) > 0 and all(np.isscalar(entry) for entry in row) for row in rows
    )
