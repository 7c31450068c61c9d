"""Univariate screening: tens of thousands of attributes in one batch."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._checks import caller_level, check_option, check_probability, check_real
from sklearn_bdp._docs import described_by
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
from sklearn_bdp.holdout import ReusableHoldout, query_key


@described_by(ReusableHoldout)
class HoldoutCorrelationFilter(HoldoutSelectorBase):
    r"""Keep attributes whose association with the target is confirmed by the holdout.

    For each attribute one bounded query is put to the holdout, all in one batch:

    - ``query="sign"``: how often do attribute and target lie on the same side of their middle
      (median of the attribute, mean of the target's signs)?
    - ``query="correlation"``: the mean product of both standard scores, each clipped at ``clip``
      standard deviations. Its range is wide for what it usually measures, so that it needs a
      larger holdout than signs do.

    Centres, units and, for more than two classes, the class that an attribute is compared with
    come from the training part. An attribute is kept if it passes there (Benjamini-Hochberg at
    ``alpha``) and the verified association has the same sign and is large enough to have passed
    there, too.

    Parameters
    ----------
    query : {"sign", "correlation"}, default="sign"
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
        share that disagree, for correlations in units of ``clip``. Clear-cut only where the
        training side passes: for the others the holdout was asked coarsely.
    lower_, upper_ : ndarray of shape (n_features,)
        Intervals of the verified associations; they hold all at once.
    pvalues_ : ndarray of shape (n_features,)
        Of the training part.
    confirmed_ : bool
        Whether any attribute was confirmed; ``False`` under ``on_empty="keep_best"`` says that the
        one attribute in ``support_`` is a stopgap.
    holdout_, certificate_, train_indices_, holdout_indices_, n_features_in_, feature_names_in_
        As in :class:`HoldoutFeatureSelector`.

    See Also
    --------
    HoldoutFeatureSelector : Stepwise selection; share one holdout with it in a pipeline.

    Notes
    -----
    Dwork et al. [1]_ keep attributes whose correlations on both sides agree in sign and exceed
    :math:`1/\sqrt n`. A third of all useless attributes pass that on the training side; here the
    cut follows from the number of attributes.

    Attributes that fail on the training side cannot be kept, whatever the holdout says. They are
    asked with a threshold of six standard errors, so that thousands of them do not use up the
    holdout by exceeding an ordinary one by chance.

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
    500
    """

    def __init__(
        self,
        *,
        query: Literal["sign", "correlation"] = "sign",
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
        queries = HoldoutQueries(by_columns(division.X_holdout), scores(division.y_holdout), found)
        holdout = open_holdout(self, division, split=split)
        self.pvalues_ = found.p_values()
        level = critical_level(self.pvalues_, self.alpha)
        candidates = self.pvalues_ <= level
        self._tell(f"{candidates.sum():,} pass on the training side; asking the holdout")
        answers = holdout.answer_evaluations(
            np.clip((1.0 + np.abs(found.effect)) / 2.0, 0.0, 1.0),
            queries,
            training_size=num_samples(division.X),
            keys=found.keys(self._what(scores), self._names()),
            slack=np.where(candidates, 0.0, _far(division, holdout)),
        )
        self._decide(found, candidates, found.smallest(level), answers)
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

    def _decide(self, found, candidates, smallest, answers):
        """Set what was learned, from released values only."""
        direction = np.where(found.effect < 0, -1.0, 1.0)
        agreement = 2.0 * answers.values - 1.0  # positive: the sign of the training side
        ends = direction * (2.0 * np.stack([answers.lower, answers.upper]) - 1.0)
        self.training_associations_ = found.effect
        self.verified_associations_ = direction * agreement
        self.lower_, self.upper_ = ends.min(axis=0), ends.max(axis=0)
        self.support_ = candidates & (agreement >= smallest)
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


def _far(division, holdout):
    """Return the deviation up to which attributes that cannot be kept are left alone.

    They are many, and one in a thousand would exceed an ordinary threshold by chance and be
    charged; none of them exceeds six standard errors.
    """
    n_holdout = division.model.effective_n(holdout.n)
    n_training = HoldoutSelectorBase._training_n_effective(division)
    return min(1.0, 6.0 * 0.5 * float(np.sqrt(1.0 / n_holdout + 1.0 / n_training)))
