"""Univariate screening: tens of thousands of attributes in one batch."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._checks import caller_level, check_option, check_probability, check_real
from sklearn_bdp._evaluation import open_holdout
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp._typing import Correlation, RandomState
from sklearn_bdp.exceptions import NothingConfirmedWarning
from sklearn_bdp.feature_selection._base import HoldoutSelectorBase
from sklearn_bdp.feature_selection._report import screening_report
from sklearn_bdp.feature_selection._screening import (
    HoldoutQueries,
    associate,
    by_columns,
    critical_level,
    target_scores,
)
from sklearn_bdp.guards import warn_of
from sklearn_bdp.holdout import query_key


class HoldoutCorrelationFilter(HoldoutSelectorBase):
    r"""Keep attributes whose association with the target is confirmed by the holdout.

    The training part proposes: an attribute is a candidate if it passes there (Benjamini-Hochberg
    at ``alpha``). Each candidate is then put to the holdout as one bounded query, all in one batch:

    - ``query="correlation"``: the mean product of both standard scores, each clipped at ``clip``
      standard deviations;
    - ``query="sign"``: how often do attribute and target lie on the same side of their middle
      (median of the attribute, mean of the target's signs)? For attributes with heavy tails; among
      normal ones it sees less.

    Centers, units and, for more than two classes, the class that an attribute is compared with
    come from the training part. Each candidate is answered by itself, with a cell of at most two
    standard deviations of its own around its training association. It is kept if the holdout's
    value lies in that cell or beyond it, further from 0. The cell ends where a useless candidate
    gets in about one case of ten. All other attributes are not verified.

    Parameters
    ----------
    query : {"correlation", "sign"}, default="correlation"
        What is asked.
    alpha : float, default=0.05
        False discovery rate on the training part.
    clip : float, default=2.0
        Standard deviations at which scores are clipped, for ``query="correlation"``.
    on_empty : {"raise", "keep_best"}, default="raise"
        What happens if no attribute is confirmed. ``"raise"``: ``fit`` warns, and ``transform``
        raises an error that says what was found; ``"keep_best"``: the attribute with the
        smallest training-side p-value is kept, and the report says that it is not confirmed.
    verbose : int, default=0
        Progress from 1 on. Only training-side counts and released values are printed.
    random_state : None, int or RandomState, default=None
        Seeds split and noise. An integer is meant for tests: the certificate says so.
    holdout : float, splitter or ReusableHoldout, default=0.25
        A fraction of the records, a splitter with one split, or an existing holdout; the data
        given to ``fit`` are then all training data.
    correlation : None, array, sparse array, graph, model, list or "groups", default=None
        How *records* depend on one another; see
        :func:`~sklearn_bdp.correlation.check_correlation`.
    beta, epsilon, calibration, threshold, budget, n_queries, on_exhausted, ledger : object
        As for :class:`~sklearn_bdp.ReusableHoldout`.

    Attributes
    ----------
    support_ : ndarray of bool, shape (n_features,)
        Which attributes are kept.
    training_associations_, verified_associations_ : ndarray of shape (n_features,)
        Association on each side, in [-1, 1]: for signs the share of records that agree minus the
        share that disagree, for correlations in units of ``clip`` squared. NaN where an attribute
        was not verified, because it does not pass on the training side.
    lower_, upper_ : ndarray of shape (n_features,)
        Intervals of the verified associations; they hold all at once. [-1, 1] for the others.
    pvalues_ : ndarray of shape (n_features,)
        Of the training part.
    confirmed_ : bool
        Whether any attribute was confirmed; ``False`` under ``on_empty="keep_best"`` says that the
        one attribute in ``support_`` is a stopgap.
    holdout_, certificate_, train_indices_, holdout_indices_, n_features_in_, feature_names_in_
        As in :class:`HoldoutFeatureSelector`.

    See Also
    --------
    HoldoutFeatureSelector : Selects subsets; share one holdout with it in a pipeline.

    Notes
    -----
    Dwork et al. [1]_ keep attributes whose correlations on both sides agree in sign and exceed
    :math:`1/\sqrt n`. A third of all useless attributes pass that on the training side; here the
    cut follows from the number of attributes.

    What is proved are the intervals. That a kept attribute is useful is proved where its interval
    excludes 0. Each candidate costs information: about a quarter of a nat if the holdout agrees,
    about three if it does not.

    References
    ----------
    .. [1] C. Dwork et al., "Guilt-free data reuse", Communications of the ACM 60, 2017, Section 4.
    .. [2] Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", Journal of the Royal
       Statistical Society B 57, 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.feature_selection import HoldoutCorrelationFilter
    >>> rng = np.random.default_rng(1)
    >>> y = rng.integers(0, 2, 2000)
    >>> X = rng.normal(size=(2000, 500))
    >>> X[:, :3] += y[:, None]
    >>> screen = HoldoutCorrelationFilter(random_state=0).fit(X, y)
    >>> screen.get_support(indices=True).tolist()
    [0, 1, 2]
    >>> len(screen.holdout_.history())
    3
    """

    def __init__(
        self,
        *,
        query: Literal["correlation", "sign"] = "correlation",
        alpha: float = 0.05,
        clip: float = 2.0,
        on_empty: Literal["raise", "keep_best"] = "raise",
        verbose: int = 0,
        random_state: RandomState = None,
        holdout: Any = 0.25,
        correlation: Correlation | None = None,
        beta: Any = 0.05,
        epsilon: Any = "auto",
        calibration: Any = "tight",
        threshold: Any = "auto",
        budget: Any = None,
        n_queries: Any = None,
        on_exhausted: Any = "raise",
        ledger: Any = None,
    ) -> None:
        self.query = query
        self.alpha = alpha
        self.clip = clip
        self.on_empty = on_empty
        self.verbose = verbose
        self.random_state = random_state
        self.holdout = holdout
        self.correlation = correlation
        self.beta = beta
        self.epsilon = epsilon
        self.calibration = calibration
        self.threshold = threshold
        self.budget = budget
        self.n_queries = n_queries
        self.on_exhausted = on_exhausted
        self.ledger = ledger

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Screen the attributes.

        Parameters
        ----------
        X, y, X_val, y_val, groups : array-like
            As for :meth:`HoldoutFeatureSelector.fit`; targets are classes or numbers.

        Returns
        -------
        HoldoutCorrelationFilter
            The fitted filter.

        Raises
        ------
        ValueError, TypeError
            For arguments that break a rule; nothing has been asked of the holdout then.
        BudgetExhaustedError
            When the holdout has spent its budget and ``on_exhausted="raise"``.
        """
        self._check_options()
        X, y = self._check_data(X, y, X_val, y_val, groups=groups)
        classification = _is_classification(y)
        stand_in = DummyClassifier() if classification else DummyRegressor()
        division, split = self._divide(stand_in, X, y, X_val=X_val, y_val=y_val, groups=groups)
        warn_of(division)
        clip = self.clip if self.query == "correlation" else None
        scores = target_scores(np.asarray(division.y), classification=classification, clip=clip)
        found = associate(
            by_columns(division.X),
            scores(division.y),
            clip=clip,
            n_effective=self._training_n_effective(division),
            tell=self._progress(),
        )
        holdout = open_holdout(self, division, split=split)
        self.pvalues_ = found.p_values()
        candidates = np.flatnonzero(self.pvalues_ <= critical_level(self.pvalues_, self.alpha))
        self._tell(f"{candidates.size:,} pass on the training side; asking the holdout")
        cells = found.cells(candidates, self._deviations(found, division, holdout)[candidates])
        answers = self._ask(holdout, division, found, candidates, cells, scores)
        self._decide(found, candidates, cells, answers)
        self._keep_holdout(holdout, division, ("association", -1.0, 1.0))
        return self

    def _check_options(self):
        """Check what can be checked before any work."""
        check_option("query", self.query, ("sign", "correlation"))
        check_probability("alpha", self.alpha)
        check_real("clip", self.clip, low=0.0, closed="neither")
        self._check_common_options()

    def _progress(self):
        """Return what prints about ten lines on the way through the training part, or None."""
        if not self.verbose:
            return None
        total, tenth = self.n_features_in_, -(-self.n_features_in_ // 10)
        told = 0

        def tell(done):
            nonlocal told
            if done == total or done - told >= tenth:
                told = done
                self._tell(f"{done:,} of {total:,} attributes on the training side")

        return tell

    def _names(self):
        """Return what attributes are called in keys: their names, or their places."""
        return getattr(self, "feature_names_in_", range(self.n_features_in_))

    def _what(self, scores):
        """Return the part of the keys that all attributes share."""
        classes = None if scores.classes is None else scores.classes.tolist()
        target = (scores.center, scores.scale, scores.means, self.query, self.clip)
        return query_key("association", target, classes)

    @staticmethod
    def _deviations(found, division, holdout):
        """Return the standard deviation of each association on the holdout, from training data."""
        n_training = HoldoutSelectorBase._training_n_effective(division)
        return found.error * np.sqrt(n_training / division.model.effective_n(holdout.n))

    def _ask(self, holdout, division, found, candidates, cells, scores):
        """Return the holdout's answers about the candidates; None without any."""
        if not candidates.size:
            return None
        return holdout.answer_evaluations(
            np.clip((1.0 + np.abs(found.effect[candidates])) / 2.0, 0.0, 1.0),
            HoldoutQueries(division.X_holdout, scores(division.y_holdout), found, candidates),
            training_size=num_samples(division.X),
            keys=found.keys(self._what(scores), self._names(), candidates),
            training_variance=found.variances[candidates] / 4.0,
            own_cells=cells / 2.0,
        )

    def _decide(self, found, candidates, cells, answers):
        """Set what was learned, from released values only."""
        p = found.effect.size
        self.training_associations_, self.support_ = found.effect, np.zeros(p, dtype=bool)
        self.verified_associations_ = np.full(p, np.nan)
        self.lower_, self.upper_ = np.full(p, -1.0), np.ones(p)
        if answers is not None:
            direction = np.where(found.effect[candidates] < 0, -1.0, 1.0)
            agreement = 2.0 * answers.values - 1.0  # positive: the sign of the training side
            ends = direction * (2.0 * np.stack([answers.lower, answers.upper]) - 1.0)
            self.verified_associations_[candidates] = direction * agreement
            self.lower_[candidates], self.upper_[candidates] = ends.min(axis=0), ends.max(axis=0)
            least = np.abs(found.effect[candidates]) - (1.0 + 1e-9) * cells
            self.support_[candidates] = agreement >= least
        self.confirmed_ = bool(self.support_.any())
        if self.confirmed_:
            return
        if self.on_empty == "keep_best":
            self.support_[int(np.argmin(self.pvalues_))] = True
        warnings.warn(self._what_was_found(), NothingConfirmedWarning, stacklevel=caller_level())

    def _what_was_found(self):
        """Return one sentence about a screening that confirmed nothing."""
        return (
            f"No attribute was kept: none of {self.n_features_in_:,} has an association that both "
            f"sides confirm (smallest p-value on the training side: {self.pvalues_.min():.2g})."
        )

    def _report(self):
        return screening_report(self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _is_classification(y):
    """Return whether targets are classes; integers with many values are numbers."""
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind == "multiclass" and np.asarray(y).dtype.kind in "iuf":
        return np.unique(y).size <= 20
    return kind in ("binary", "multiclass")
