"""Univariate screening: tens of thousands of attributes in one batch."""

from __future__ import annotations

import datetime
import math
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri_exp
from scipy.stats import false_discovery_control
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._typing import Correlation, RandomState
from sklearn_bdp.diagnostics.scores import warn_undeclared_dependence
from sklearn_bdp.evaluation.fit_data import FitData
from sklearn_bdp.evaluation.open_holdout import open_holdout
from sklearn_bdp.evaluation.scoring import plain_certificate
from sklearn_bdp.feature_selection._base import HoldoutSelectorBase
from sklearn_bdp.feature_selection._rankings import column_blocks, text_columns
from sklearn_bdp.feature_selection._report import AssociationReport, screening_report
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.metrics.base import Evaluation
from sklearn_bdp.report.preregistered import (
    preregister,
    preregistered_code_length,
    report_preregistered,
)
from sklearn_bdp.utils.hashing import query_key
from sklearn_bdp.utils.sklearn_compat import is_frame, num_samples, safe_indexing
from sklearn_bdp.utils.validation import (
    check_option,
    check_probability,
    check_real,
    strip_traceback_frames,
)

#: Permutations that reach the critical value of an interval by chance; a few, where more would take
#: so many multiplications; and where even they would take so many, nothing is proved.
_DEPTH, _SHALLOW, _WORK, _MOST = 20.0, 4.0, 1e11, 1e12
_LEAST = 20_000  # permutations that are always drawn
_CHUNK = 2_000_000  # numbers of a block of permutations
_ROUNDED = 1e-4  # how far a statistic may be off: it counts against a claim
#: Of cells, in standard deviations on the holdout: at most, at least, and how far a useless
#: attribute gets in one case of ten.
WIDEST, LEAST, USELESS = 2.0, 0.5, 1.3


class HoldoutCorrelationFilter(HoldoutSelectorBase):
    r"""Filter that keeps attributes whose association with the target the holdout confirms.

    The training set proposes: an attribute is a candidate if it passes there (Benjamini-Hochberg
    at ``alpha``). Each candidate is then put to the holdout as one bounded query, all in one batch:
    the mean product of both standard scores, each clipped at ``clip`` standard deviations.

    Centers, units and, for more than two classes, the class that an attribute is compared with
    come from the training set. Each candidate is answered by itself, with a cell of at most two
    standard deviations of its own around its training association. It is kept if the holdout's
    value lies in that cell or beyond it, further from 0. The cell ends where a useless candidate
    gets in about one case of ten. All other attributes are not verified.

    Parameters
    ----------
    alpha : float, default=0.05
        False discovery rate on the training set.
    clip : float, default=2.0
        Standard deviations at which scores are clipped.
    on_empty : {"raise", "keep_best"}, default="raise"
        Behavior if no attribute is confirmed. ``"raise"``: ``fit`` warns, and ``transform``
        raises an error with the results; ``"keep_best"``: the attribute with the
        smallest p-value in the training set is kept, and the report labels it as not confirmed.
    random_state : None, int or RandomState, default=None
        Seeds split and noise. An integer is meant for tests: the certificate reports it.
    holdout : float, HoldoutConfig, splitter, ReusableHoldout or None, default=0.25
        As for :class:`HoldoutFeatureSelector`. ``None``: attributes that pass among all
        records are kept, and nothing is verified.
    correlation : None, array, sparse array, graph, model, list or "groups", default=None
        How *records* depend on one another; see
        :func:`~sklearn_bdp.correlation.check_correlation`.

    Attributes
    ----------
    support_ : ndarray of bool, shape (n_features,)
        Which attributes are kept.
    training_associations_, verified_associations_ : ndarray of shape (n_features,)
        Association on each side, in [-1, 1], in units of ``clip`` squared. NaN for
        unverified attributes, which do not pass on the training set.
    lower_, upper_ : ndarray of shape (n_features,)
        Intervals of the verified associations; they hold all at once. [-1, 1] for the others.
    pvalues_ : ndarray of shape (n_features,)
        Of the training set.
    confirmed_ : bool
        Whether any attribute was confirmed; ``False`` under ``on_empty="keep_best"`` means
        that the one attribute in ``support_`` is a stopgap.
    holdout_, certificate_, train_indices_, holdout_indices_, n_features_in_, feature_names_in_
        As in :class:`HoldoutFeatureSelector`.

    See Also
    --------
    HoldoutFeatureSelector : Selects subsets; share one holdout with it in a pipeline.

    Notes
    -----
    Dwork et al. [1]_ keep attributes whose correlations on both sides agree in sign and exceed
    :math:`1/\sqrt n`. A third of all useless attributes pass that on the training set; here the
    cut follows from the number of attributes.

    The intervals are proved. That a kept attribute is useful is proved if its interval
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
        alpha: float = 0.05,
        clip: float = 2.0,
        on_empty: Literal["raise", "keep_best"] = "raise",
        random_state: RandomState = None,
        holdout: Any = 0.25,
        correlation: Correlation | None = None,
    ) -> None:
        self.alpha, self.clip, self.on_empty = alpha, clip, on_empty
        self.random_state, self.holdout, self.correlation = random_state, holdout, correlation

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
        check_probability("alpha", self.alpha)
        check_real("clip", self.clip, low=0.0, closed="neither")
        check_option("on_empty", self.on_empty, ("raise", "keep_best"))
        X, y = self._check_data(X, y, X_val, y_val, groups=groups)
        if text := text_columns(X):
            raise ValueError(
                f"X has columns that are not numbers: {text[:5]}. Encode them as numbers, or leave "
                "them out. The holdout was not queried."
            )
        has_classes = _has_classes(y)
        stand_in = DummyClassifier() if has_classes else DummyRegressor()
        division = self._divide(stand_in, FitData(X, y, X_val, y_val, groups))
        warn_undeclared_dependence(division)
        n_effective = self._training_n_effective(division)
        self._statements = None
        associations = Associations.of(division.X, division.y, has_classes, self.clip, n_effective)
        self.pvalues_ = associations.p_values()
        candidates = np.flatnonzero(false_discovery_control(self.pvalues_) <= self.alpha)
        self.training_associations_ = associations.effect
        self.support_ = np.zeros(associations.effect.size, dtype=bool)
        self.verified_associations_ = np.full(associations.effect.size, np.nan)
        self.lower_ = -np.ones(associations.effect.size)
        self.upper_ = np.ones(associations.effect.size)
        holdout = None
        if self.holdout is None:
            self.support_[candidates] = True
        else:
            holdout = open_holdout(self, division)
            ratio = n_effective / division.model.effective_n(holdout.n)
            deviations = associations.error[candidates] * np.sqrt(ratio)
            if candidates.size:
                cells = _cell_half_widths(associations.effect[candidates], deviations)
                self._ask(holdout, division, associations, candidates, cells)
        self.confirmed_ = bool(self.support_.any())
        if not self.confirmed_ and self.on_empty == "keep_best":
            self.support_[int(np.argmin(self.pvalues_))] = True
        self._keep_sides(holdout, division)
        if holdout is not None:
            self.certificate_ = self._make_certificate(holdout, division, deviations)
        self._summary = screening_report(self)
        if not self.confirmed_:
            self._warn_unconfirmed()
        return self

    def _make_certificate(self, holdout, division, deviations):
        """Return the certificate with the width of a final report on the attributes.

        ``deviations``: of the associations that were queried.
        """
        with holdout.account.read_transaction(latest=False) as book:
            certificate = plain_certificate(holdout, division, book)
            notes = book.notes(Fact.STATEMENTS)
        forecast = certificate.forecast
        if forecast.final_report is not None:
            half_width = self._report_half_width(holdout, deviations, notes)
            forecast = replace(forecast, final_report=half_width)
        certificate = replace(certificate, forecast=forecast)
        return certificate.in_units("association", -1.0, 1.0)

    def _report_half_width(self, holdout, deviations, notes):
        """Return the median half-width of a final report, as a fraction of the range.

        None if the report has no rows. ``deviations``: of the associations that were queried.
        """
        if self._statements is None or not deviations.size:
            return None
        length = preregistered_code_length(notes, self._statements[0])
        log_one_sided = math.log(holdout.account.settings.beta / (2.0 * deviations.size)) - length
        return 0.5 * float(-ndtri_exp(log_one_sided) * np.median(deviations))

    @strip_traceback_frames  # the evaluations are raw
    def _ask(self, holdout, division, associations, candidates, cells):
        """Verify the candidates; set their verified associations and the support."""
        named = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        names = [str(named[j]) for j in candidates]
        parameters = (
            associations.center,
            associations.scale,
            associations.column,
            associations.effect < 0,
        )
        target = astuple(associations.target)
        keys = [
            query_key("association", target, name, *(float(values[j]) for values in parameters))
            for j, name in zip(candidates, names, strict=True)
        ]
        # Fixed before the first query about them, so that the answers cannot have chosen them.
        self._statements = query_key("associations", keys), names, candidates, associations
        preregister(holdout, self._statements[0])
        direction = np.where(associations.effect[candidates] < 0, -1.0, 1.0)
        values = safe_indexing(division.X_holdout, candidates, axis=1)
        products = associations.bounded(values, candidates) * direction
        products *= associations.target.scores(division.y_holdout)[
            :, associations.column[candidates]
        ]
        effect = np.abs(associations.effect[candidates])
        answers = holdout.answer_evaluations(
            np.clip((1.0 + effect) / 2.0, 0.0, 1.0),
            [
                Evaluation(per_record=row, value=float(row.mean()), sensitivity=1 / row.size)
                for row in np.clip((1.0 + products.T) / 2.0, 0.0, 1.0)
            ],
            n_train=num_samples(division.X),
            keys=keys,
            training_variance=associations.variance[candidates] / 4.0,
            fixed_half_widths=cells / 2.0,
        )
        agreement = 2.0 * answers.values - 1.0  # positive: the sign in the training set
        ends = direction * (2.0 * np.stack([answers.lower, answers.upper]) - 1.0)
        self.verified_associations_[candidates] = direction * agreement
        self.lower_[candidates] = ends.min(axis=0)
        self.upper_[candidates] = ends.max(axis=0)
        self.support_[candidates] = agreement >= effect - (1.0 + 1e-9) * cells

    @strip_traceback_frames  # the frames hold records of the holdout
    def final_report(self) -> AssociationReport:
        """Prove associations of the attributes that passed in the training set; close the holdout.

        The attributes were fixed before the holdout was asked about them, so that their number is
        all that is paid for (theory G30). Each gets its association on the raw holdout, an
        interval, and p-values adjusted by Holm and by Benjamini and Hochberg, from permutations.

        Returns
        -------
        AssociationReport
            ``str``, an HTML card, ``to_frame()`` with ``attribute, value, lower, upper, p, q``, and
            a volcano plot. The same report asked again is returned again. If no attribute passed in
            the training set, it is empty, and the holdout stays open.

        Raises
        ------
        ValueError
            If there is no holdout, its records depend on one another other than in groups (whose
            targets can be permuted as a whole), or a level of privacy was declared.
        HoldoutClosedError
            If the holdout gave another final report.
        """
        holdout = self._closing()
        if self._statements is None:
            return AssociationReport.from_content(
                {"rows": []},
                confidence_level=holdout.confidence_level,
                asked=self.n_features_in_,
                unit="",
            )
        model = holdout.dependence
        n = holdout.n
        if not model.sampling_scheme(n).exchangeable:
            raise ValueError(
                "final_report() of a filter permutes targets, which needs independent records or "
                f"groups, got {model.describe()}. The holdout was not queried."
            )
        _, groups, sizes = np.unique(model.components(n), return_inverse=True, return_counts=True)
        key, names, candidates, associations = self._statements
        # Compute everything that may fail before the holdout is closed.
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        columns = candidates
        if is_frame(holdout.X) and hasattr(self, "feature_names_in_"):
            columns = self.feature_names_in_[candidates]
        values = safe_indexing(holdout.X, columns, axis=1)
        bounded = associations.bounded(values, candidates)
        target_scores = associations.target.scores(holdout.y)
        group_means = [
            np.stack([np.bincount(groups, column) / sizes for column in scores.T], axis=1)
            for scores in (bounded, target_scores)
        ]  # each group is one unit

        def compute(length):
            """Return rows from the closed holdout, whose records are shared by all."""
            rows, count = permutation_tests(
                *group_means,
                associations.column[candidates],
                beta=holdout.account.settings.beta,
                length=length,
                rng=rng,
            )
            order = np.lexsort((-np.abs(rows[:, 0]), rows[:, 3]))
            return {
                "rows": [[names[index], *rows[index].tolist()] for index in order],
                "permutations": count,
                "nats": length,
                "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            }

        content = report_preregistered(holdout, key, compute)
        unit = f"{n:,} holdout records" + f" in {len(sizes):,} groups" * (len(sizes) < n)
        return AssociationReport.from_content(
            content, confidence_level=holdout.confidence_level, asked=self.n_features_in_, unit=unit
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _has_classes(y):
    """Return whether targets are classes; integers with more than 20 values are numbers."""
    target_type = type_of_target(y, input_name="y", raise_unknown=True)
    if target_type == "multiclass" and np.asarray(y).dtype.kind in "iuf":
        return np.unique(y).size <= 20
    return target_type in ("binary", "multiclass")


def _cell_half_widths(effects, deviations):
    """Return the half-widths of cells around training associations.

    At most two standard deviations on the holdout, and so narrow that the association of a useless
    attribute is outside in nine cases of ten: a value in the cell means that the association
    replicates.
    """
    max_half_widths = np.abs(effects) - USELESS * deviations
    return np.clip(max_half_widths, LEAST * deviations, WIDEST * deviations)


@dataclass(frozen=True)
class Target:
    """Transformation of targets to numbers in [-1, 1] with mean 0 on the training set.

    Centring makes a query answer 1/2 for an attribute that is independent of the target, however
    unbalanced the classes are.
    """

    #: Classes with a column each; one column for two classes. ``None``: numbers.
    classes: np.ndarray | None
    center: float  # subtracted from numbers, which are then divided by ``scale``
    scale: float
    clip: float  # standard deviations at which numbers are clipped
    means: np.ndarray = field(repr=False)  # (n_columns,): of the raw scores on the training part

    @classmethod
    def of(cls, y, classification, clip):
        """Return the transformation estimated from training targets."""
        classes = None
        center = 0.0
        scale = 1.0
        if classification:
            classes = np.unique(y)
            classes = classes[1:] if classes.size == 2 else classes
        else:
            mean, deviation = _center_and_scale(np.asarray(y, dtype=float))
            center = float(mean)
            scale = float(deviation)
        uncentered = cls(classes, center, scale, clip, np.zeros(1))
        return replace(uncentered, means=uncentered._raw(y).mean(axis=0))

    def _raw(self, y):
        """Return scores before centring, of shape (n, n_columns)."""
        y = np.asarray(y)
        if self.classes is not None:
            return np.where(y[:, None] == self.classes[None, :], 1.0, -1.0)
        return _bounded(y.astype(float) - self.center, self.scale, self.clip)[:, None]

    def scores(self, y):
        """Return scores of shape (n, n_columns), in [-1, 1]."""
        return (self._raw(y) - self.means) / (1.0 + np.abs(self.means))


@dataclass(frozen=True)
class Associations:
    """Associations of the attributes in the training set; arrays of shape (n_features,)."""

    target: Target
    effect: np.ndarray  # mean of the product of the scores of attribute and target, in [-1, 1]
    variance: np.ndarray  # of the products
    error: np.ndarray  # the standard error of their mean
    #: Column of the target's scores that the association is with: for more than two classes the
    #: one with the clearest association.
    column: np.ndarray
    center: np.ndarray  # subtracted from an attribute
    scale: np.ndarray  # its unit

    @classmethod
    def of(cls, X, y, classification, clip, n_effective):
        """Return the associations of each column of ``X`` with the targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Training records.
        y : array-like of shape (n,)
            Training targets.
        classification : bool
            Whether the targets are classes.
        clip : float
            Standard deviations at which numbers are clipped.
        n_effective : float
            Effective number of independent training records.
        """
        target = Target.of(y, classification, clip)
        target_scores = target.scores(y)
        n = len(y)
        # Frames of numbers become arrays (names are no longer needed), sparse rows columns.
        X = X.tocsc() if scipy.sparse.issparse(X) else np.asarray(X, dtype=float)
        blocks = [
            _block_associations(_dense(X[:, block]), target_scores, clip, min(n, n_effective))
            for block in column_blocks(X)
        ]
        columns_of_fields = zip(*blocks, strict=True)
        return cls(target, *(np.concatenate(columns) for columns in columns_of_fields))

    def p_values(self):
        """Return two-sided p-values, corrected for the choice of a class."""
        p_values = 2.0 * ndtr(-np.abs(self.effect) / self.error)
        return np.minimum(1.0, p_values * self.target.means.size)

    def bounded(self, values, columns):
        """Return the scores of some columns, in [-1, 1]; ``values`` are those columns."""
        deviation = _dense(values) - self.center[columns]
        return _bounded(deviation, self.scale[columns], self.target.clip)


def _block_associations(values, target_scores, clip, n_effective):
    """Return the associations of some attributes, in the order of the fields of `Associations`.

    Each is an array of shape (n_block_features,). ``values`` are the attributes, of shape (n,
    n_block_features); ``target_scores`` have shape (n, n_columns).
    """
    n = len(values)
    center, scale = _center_and_scale(values)
    bounded = _bounded(values - center, scale, clip)
    # Of each attribute with each column of the target's scores.
    effects = bounded.T @ target_scores / n
    variances = (bounded**2).T @ target_scores**2 / n - effects**2 + 1.0 / n
    errors = np.sqrt(variances / n_effective)
    clearest_column = np.argmax(np.abs(effects) / errors, axis=1)
    features = np.arange(len(clearest_column))
    return (
        effects[features, clearest_column],
        variances[features, clearest_column],
        errors[features, clearest_column],
        clearest_column,
        center,
        scale,
    )


def _dense(columns):
    """Return columns as a dense float array."""
    return np.asarray(columns.toarray() if scipy.sparse.issparse(columns) else columns, dtype=float)


def _center_and_scale(values):
    """Return the mean and the standard deviation of each column, without missing values."""
    scale = np.nanstd(values, axis=0)
    return np.nanmean(values, axis=0), np.where(scale > 0, scale, 1.0)


def _bounded(deviation, scale, clip):
    """Return clipped standard scores divided by ``clip``; 0 for missing values."""
    return np.nan_to_num(np.clip(deviation / (scale * clip), -1.0, 1.0), copy=False)


# -- proofs on a closed holdout: permutation tests, and intervals that agree with them ------------


def permutation_statistics(bounded, scores, column, *, alpha, rng):
    r"""Return covariances, standard errors, p-values and the half-widths of intervals.

    Theory G30. For attribute ``j`` with scores ``b`` and targets with scores ``s`` the statistic is
    :math:`t = \operatorname{cov}(b, s) / \operatorname{se}`, with the larger of two standard
    errors: of the mean of :math:`(b_i - \bar b)(s_i - \bar s)`, and of a correlation without
    association (a rare attribute that a rare class lacks seems to vary too little). If targets are
    independent of the attribute, permuted ones are as likely: of ``B`` permutations and the data
    themselves each is as likely to have the largest ``|t|`` (Phipson and Smyth 2010),

    .. math:: p = (1 + \#\{|t^*| \ge |t|\}) / (B + 1),

    for any distributions. The half-width is ``se`` times the ``|t*|`` that leaves out the
    share ``alpha``: it is below :math:`|\operatorname{cov}|` exactly if ``p <= alpha``. Because
    the statistic is studentized it covers other covariances than 0, too, as nearly as a t interval
    does (Janssen 1997; Chung and Romano 2013).

    Parameters
    ----------
    bounded : ndarray of shape (n, m)
        Scores of the attributes, in [-1, 1].
    scores : ndarray of shape (n, n_columns)
        Scores of the targets, in [-1, 1].
    column : ndarray of shape (m,)
        Which of them an attribute is compared with.
    alpha : float
        Level of a two-sided interval.
    rng : numpy.random.Generator
        Draws the permutations, the same ones for all attributes.

    Returns
    -------
    tuple
        Covariance, p-value and half-width of each attribute, and the number of permutations.
    """
    n, m = bounded.shape
    b = (bounded - bounded.mean(axis=0)).astype(np.float32)
    s = (scores - scores.mean(axis=0)).astype(np.float32)
    count = math.ceil(min(_DEPTH / alpha, max(_SHALLOW / alpha, _WORK / (n * m))))
    count = max(_LEAST, count if n * max(m, 500) * count <= _MOST else 0)
    allowed = math.floor(alpha * (count + 1) + 1e-9) - 1  # exceedances at which p is at alpha

    def statistics(rows):
        """Return covariance and t of each attribute (rows of the result) under permutations."""
        cov, t = np.zeros((2, m, len(rows)), dtype=np.float32)
        for target in np.unique(column):
            attributes = np.flatnonzero(column == target)
            permuted = s[rows, target].T
            squares = b[:, attributes] ** 2
            cov[attributes] = b[:, attributes].T @ permuted / n
            null_variance = (squares.mean(axis=0) * (s[:, target] ** 2).mean())[:, None]
            variance = squares.T @ permuted**2 / n - cov[attributes] ** 2
            variance = np.maximum(np.maximum(variance, null_variance), 1e-12)
            t[attributes] = cov[attributes] / np.sqrt(variance / n)
        return cov, t

    cov, t = (statistic[:, 0] for statistic in statistics(np.arange(n)[None, :]))
    error = np.divide(np.abs(cov), np.abs(t), out=np.zeros(m, np.float32), where=t != 0)
    reached = np.zeros(m)
    largest = np.zeros((m, 0), dtype=np.float32)
    block = max(1, _CHUNK // max(n, m))
    for start in range(0, count, block):
        rows = np.tile(np.arange(n), (min(block, count - start), 1))
        _, permuted_t = statistics(rng.permuted(rows, axis=1))
        permuted_t = np.abs(permuted_t)
        reached += (permuted_t >= (np.abs(t) - _ROUNDED)[:, None]).sum(axis=1)
        largest = np.concatenate([largest, permuted_t], axis=1)
        if largest.shape[1] > allowed + 1:
            largest = np.partition(largest, -allowed - 1, axis=1)[:, -allowed - 1 :]
    critical = largest.min(axis=1) + _ROUNDED if allowed >= 0 else np.full(m, np.inf)
    half = np.where(error > 0, critical * error, np.inf)
    return cov.astype(float), (1.0 + reached) / (count + 1.0), half.astype(float), count


def permutation_tests(bounded, scores, column, *, beta, length, rng):
    """Return the row of each attribute for a report: value, ends, p, q, q under any dependence.

    P-values are adjusted by Holm, by Benjamini and Hochberg, and by Benjamini and Yekutieli, and
    multiplied by ``exp(length)``, for the answers released before the attributes were fixed.
    An interval excludes 0 exactly if ``p`` is at most ``beta``: Holm proves a few more
    attributes than intervals at equal levels do, and of these only the sign.
    """
    price = math.exp(length)
    m = len(column)
    value, p, half, count = permutation_statistics(
        bounded, scores, column, alpha=beta / price / m, rng=rng
    )
    lower = np.maximum(value - half, -1.0)
    upper = np.minimum(value + half, 1.0)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(m)  # Holm (1979): valid together
    adjusted[order] = np.maximum.accumulate(p[order] * (m - np.arange(m)))
    adjusted = np.minimum(price * adjusted, 1.0)
    only_sign = (adjusted <= beta) & (lower <= 0.0) & (upper >= 0.0)
    lower = np.where(only_sign & (value > 0.0), np.nextafter(0.0, 1.0), lower)
    upper = np.where(only_sign & (value < 0.0), np.nextafter(0.0, -1.0), upper)
    rates = [price * false_discovery_control(p, method=method) for method in ("bh", "by")]
    return np.column_stack([value, lower, upper, adjusted, *np.minimum(rates, 1.0)]), count
