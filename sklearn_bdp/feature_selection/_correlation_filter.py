"""Univariate screening of tens of thousands of attributes in one batch of queries."""

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
from sklearn_bdp.evaluation.scoring import certificate_with_assumptions
from sklearn_bdp.feature_selection._base import HoldoutSelectorBase
from sklearn_bdp.feature_selection._rankings import column_blocks, text_columns
from sklearn_bdp.feature_selection._report import AssociationReport, screening_report
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.metrics.base import Evaluation
from sklearn_bdp.report.preregistered import (
    preregister,
    preregistered_code_length,
    report_preregistered,
)
from sklearn_bdp.utils.hashing import query_key
from sklearn_bdp.utils.sklearn_compat import holds_numbers, is_frame, num_samples, safe_indexing
from sklearn_bdp.utils.validation import (
    check_option,
    check_probability,
    check_real,
    strip_traceback_frames,
)

#: Expected number of permutations that reach the critical value of an interval by chance, which
#: determines the number of permutations.
_N_EXCEEDING = 20.0
#: The same if the number of multiplications would be larger than ``_MAX_WORK``.
_MIN_N_EXCEEDING = 4.0
_MAX_WORK = 1e11
#: Number of multiplications above which only ``_MIN_PERMUTATIONS`` are drawn. They may be too few
#: to prove anything.
_MAX_MULTIPLICATIONS = 1e12
_MIN_PERMUTATIONS = 20_000
_MAX_BLOCK_SIZE = 2_000_000  # numbers in a block of permutations
_ROUNDING_ERROR = 1e-4  # of a statistic; it always counts against a claim
#: Largest and smallest half-width of a cell around a training association, in standard deviations
#: of the association on the holdout.
_MAX_CELL_HALF_WIDTH, _MIN_CELL_HALF_WIDTH = 2.0, 0.5
#: Value in these standard deviations that a useless attribute exceeds in one of ten cases.
_USELESS_QUANTILE = 1.3


class HoldoutCorrelationFilter(HoldoutSelectorBase):
    r"""Filter that keeps attributes whose association with the target the holdout confirms.

    An attribute is a candidate if it passes a test on the training set (Benjamini-Hochberg at
    ``alpha``). The holdout is queried about the associations of all candidates in one batch. An
    association is the mean product of scores of attribute and target in [-1, 1]. Attributes and
    numeric targets are standardized, clipped at ``clip`` standard deviations and divided by
    ``clip``. A class is coded as 1, and others as -1. Target scores are centered.

    Means, standard deviations and, for more than two classes, the class that an attribute is
    compared with come from the training set. Each candidate has a cell, an interval around its
    training association whose half-width is at most two standard deviations of this association on
    the holdout. A candidate is kept if its verified association lies in its cell, or beyond it,
    further from 0. A useless candidate usually reaches its cell in at most one of ten cases.
    The other attributes are not verified.

    Parameters
    ----------
    alpha : float, default=0.05
        False discovery rate on the training set.
    clip : float, default=2.0
        Number of standard deviations at which values are clipped.
    on_empty : {"raise", "keep_best"}, default="raise"
        Behavior if no attribute is confirmed, of which ``fit`` warns. ``"raise"``: ``transform``
        raises an error with the results. ``"keep_best"``: the attribute with the smallest p-value
        on the training set is kept, and the report labels it as not confirmed.
    random_state : None, int or RandomState, default=None
        Seeds split, noise and permutations. An integer is meant for tests: the certificate reports
        it.
    holdout : float, HoldoutConfig, splitter, ReusableHoldout or None, default=0.25
        As for :class:`HoldoutFeatureSelector`. ``None``: attributes that pass among all
        records are kept, and nothing is verified.
    correlation : None, array, sparse array, graph, model, list or "groups", default=None
        How *records* depend on one another; see
        :func:`~sklearn_bdp.correlation.check_correlation`.

    Attributes
    ----------
    support_ : ndarray of bool, shape (n_features,)
        Mask of the attributes that are kept.
    training_associations_ : ndarray of shape (n_features,)
        Associations on the training set, in [-1, 1].
    verified_associations_ : ndarray of shape (n_features,)
        Verified associations, in the same units. NaN for attributes that are not verified, such as
        those that do not pass on the training set, and those without an answer because the budget
        of the holdout is exhausted.
    lower_, upper_ : ndarray of shape (n_features,)
        Ends of simultaneous confidence intervals for the associations. [-1, 1] for unverified
        attributes.
    pvalues_ : ndarray of shape (n_features,)
        p-values on the training set.
    confirmed_ : bool
        Whether any attribute was confirmed (without a holdout: whether any passed). If not, and
        ``on_empty="keep_best"``, the one attribute in ``support_`` is not confirmed.
    holdout_, certificate_, train_indices_, holdout_indices_, n_features_in_, feature_names_in_
        As in :class:`HoldoutFeatureSelector`.

    See Also
    --------
    HoldoutFeatureSelector : Selects subsets; share one holdout with it in a pipeline.

    Notes
    -----
    Dwork et al. [1]_ keep attributes whose correlations on training set and holdout agree in sign
    and exceed :math:`1/\sqrt n`. A third of all useless attributes exceed that on the training set.
    Here the threshold follows from the number of attributes.

    The intervals are proved. A kept attribute is proved to be useful if its interval excludes 0.
    Each candidate spends information: about 0.25 nats if the holdout agrees with the training set,
    about 3 nats if it does not.

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
        """Screen the attributes on a training set, and verify the candidates on the holdout.

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
            For invalid arguments. The holdout was not queried.
        BudgetExhaustedError
            If the budget of the holdout is exhausted and ``on_exhausted="raise"``.
        """
        self._check_parameters()
        X, y = self._check_data(X, y, X_val, y_val, groups=groups)
        _check_numeric(X)
        has_classes = _has_classes(y)
        # Only whether targets are classes matters here.
        estimator = DummyClassifier() if has_classes else DummyRegressor()
        holdout_split = self._split(estimator, FitData(X, y, X_val, y_val, groups))
        warn_undeclared_dependence(holdout_split)
        n_effective = self._training_n_effective(holdout_split)
        self._fixed_attributes = None
        associations = TrainingAssociations.from_data(
            holdout_split.X, holdout_split.y, has_classes, self.clip, n_effective
        )
        n_features = associations.values.size
        self.pvalues_ = associations.p_values()
        candidates = np.flatnonzero(false_discovery_control(self.pvalues_) <= self.alpha)
        self.training_associations_ = associations.values
        self.support_ = np.zeros(n_features, dtype=bool)
        self.verified_associations_ = np.full(n_features, np.nan)
        self.lower_ = -np.ones(n_features)
        self.upper_ = np.ones(n_features)
        holdout = None
        if self.holdout is None:
            self.support_[candidates] = True
        else:
            holdout = open_holdout(self, holdout_split)
            sample_size_ratio = n_effective / holdout_split.model.effective_n(holdout.n)
            # Standard errors of the candidates' associations on the holdout.
            holdout_errors = associations.standard_errors[candidates] * np.sqrt(sample_size_ratio)
            if candidates.size:
                cell_half_widths = _cell_half_widths(
                    associations.values[candidates], holdout_errors
                )
                self._verify(holdout, holdout_split, associations, candidates, cell_half_widths)
        self.confirmed_ = bool(self.support_.any())
        if not self.confirmed_ and self.on_empty == "keep_best":
            self.support_[int(np.argmin(self.pvalues_))] = True
        self._set_holdout(holdout, holdout_split)
        if holdout is not None:
            self.certificate_ = self._make_certificate(holdout, holdout_split, holdout_errors)
        self._summary, self._report = screening_report(self, n_passed=candidates.size)
        if not self.confirmed_:
            self._warn_unconfirmed()
        return self

    def _check_parameters(self):
        """Raise ValueError or TypeError for an invalid parameter, before the data are read."""
        check_probability("alpha", self.alpha)
        check_real("clip", self.clip, low=0.0, closed="neither")
        check_option("on_empty", self.on_empty, ("raise", "keep_best"))

    def _make_certificate(self, holdout, holdout_split, holdout_errors):
        """Return the certificate, in units of associations.

        ``holdout_errors``: expected standard errors on the holdout of the candidates' associations.
        """
        with holdout.account.read_transaction(latest=False) as ledger_state:
            certificate = certificate_with_assumptions(holdout, holdout_split, ledger_state)
            statement_notes = ledger_state.notes(SystemNote.STATEMENTS)
        forecast = certificate.forecast
        if forecast.final_report is not None:
            half_width = self._report_half_width(holdout, holdout_errors, statement_notes)
            forecast = replace(forecast, final_report=half_width)
        certificate = replace(certificate, forecast=forecast)
        return certificate.in_units("association", -1.0, 1.0)

    def _report_half_width(self, holdout, holdout_errors, statement_notes):
        """Return half of the expected median half-width of a final report; None without candidates.

        Half, because associations have the range 2. ``holdout_errors``: expected standard errors on
        the holdout of the candidates' associations; ``statement_notes``: notes of
        :func:`preregister` in the ledger.
        """
        if self._fixed_attributes is None or not holdout_errors.size:
            return None
        statement_key, *_ = self._fixed_attributes
        code_length = preregistered_code_length(statement_notes, statement_key)
        beta = holdout.account.settings.beta
        # Of one end of one interval.
        log_alpha_one_sided = math.log(beta / (2.0 * holdout_errors.size)) - code_length
        return 0.5 * float(-ndtri_exp(log_alpha_one_sided) * np.median(holdout_errors))

    @strip_traceback_frames  # the frames hold raw holdout scores
    def _verify(self, holdout, holdout_split, associations, candidates, cell_half_widths):
        """Verify candidates; set their verified associations, intervals and items of ``support_``.

        ``candidates``: positions of columns; ``cell_half_widths``: half-widths of the intervals
        around training associations in which the holdout confirms them, in units of associations
        in [-1, 1].
        """
        default_names = [f"x{position}" for position in range(self.n_features_in_)]
        all_names = getattr(self, "feature_names_in_", default_names)
        names = [str(all_names[position]) for position in candidates]
        keys = associations.query_keys(names, candidates)
        # Noted before the first query about these attributes, so that the answers cannot have
        # influenced their choice.
        statement_key = query_key("associations", keys)
        self._fixed_attributes = statement_key, names, candidates, associations
        preregister(holdout, statement_key)
        # Associations are multiplied by their signs in the training set.
        signs = np.where(associations.values[candidates] < 0, -1.0, 1.0)
        candidate_columns = safe_indexing(holdout_split.X_holdout, candidates, axis=1)
        attribute_scores = associations.attribute_scores(candidate_columns, candidates)
        target_scores = associations.target.scores(holdout_split.y_holdout)
        products = attribute_scores * signs  # (n_holdout, n_candidates)
        products *= target_scores[:, associations.target_columns[candidates]]
        training_values = np.abs(associations.values[candidates])
        answers = holdout.answer_evaluations(
            np.clip((1.0 + training_values) / 2.0, 0.0, 1.0),
            [
                Evaluation(
                    per_record=record_scores,
                    value=float(record_scores.mean()),
                    sensitivity=1 / record_scores.size,
                )
                for record_scores in np.clip((1.0 + products.T) / 2.0, 0.0, 1.0)
            ],
            n_train=num_samples(holdout_split.X),
            keys=keys,
            training_variance=associations.variances[candidates] / 4.0,
            fixed_half_widths=cell_half_widths / 2.0,
        )
        verified_values = 2.0 * answers.values - 1.0
        # Ends of the intervals of associations: (2, n_candidates), unordered for negative signs.
        interval_ends = signs * (2.0 * np.stack([answers.lower, answers.upper]) - 1.0)
        # Lower end of each cell, but for rounding.
        min_confirmed_values = training_values - (1.0 + 1e-9) * cell_half_widths
        is_confirmed = verified_values >= min_confirmed_values
        # Other candidates have no answer, because the budget is exhausted, and are not verified.
        answered_positions = candidates[answers.answered]
        verified_associations = signs * verified_values
        self.verified_associations_[answered_positions] = verified_associations[answers.answered]
        self.lower_[answered_positions] = interval_ends.min(axis=0)[answers.answered]
        self.upper_[answered_positions] = interval_ends.max(axis=0)[answers.answered]
        self.support_[answered_positions] = is_confirmed[answers.answered]

    @strip_traceback_frames  # the frames hold records of the holdout
    def final_report(self) -> AssociationReport:
        """Test associations of the attributes that passed on the training set; close the holdout.

        The attributes were fixed before the holdout was queried about them. Their number and
        earlier answers widen the intervals, answers since then do not (theory G30). Each attribute
        gets its association on the holdout, an interval, and p-values from permutations, adjusted
        by Holm, by Benjamini and Hochberg, and by Benjamini and Yekutieli.

        Returns
        -------
        AssociationReport
            ``str``, an HTML card, ``to_frame()`` with ``attribute, value, lower, upper, p, q``, and
            a volcano plot. A repeated call returns the same report. If no attribute passed on the
            training set, it is empty, and the holdout stays open.

        Raises
        ------
        ValueError
            If there is no holdout, if its records or groups are not independent draws from one
            distribution (group means are permuted), or if a level of privacy was declared.
        HoldoutClosedError
            If another final report closed the holdout.
        """
        holdout = self._holdout_to_close()
        if self._fixed_attributes is None:
            return AssociationReport.from_content(
                {"rows": []},
                confidence_level=holdout.confidence_level,
                n_screened=self.n_features_in_,
                units_text="",
            )
        dependence = holdout.dependence
        n = holdout.n
        if not dependence.sampling_scheme(n).exchangeable:
            raise ValueError(
                "final_report() of a filter permutes targets, which needs independent records or "
                f"groups, got {dependence.describe()}. The holdout was not queried."
            )
        _, group_codes, group_sizes = np.unique(
            dependence.components(n), return_inverse=True, return_counts=True
        )
        statement_key, names, candidates, associations = self._fixed_attributes
        # Everything that may fail is computed before the holdout is closed.
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        attribute_scores, target_scores = self._holdout_scores(holdout, associations, candidates)
        # Scores of independent units: means over the records of each group.
        unit_attribute_scores = _group_means(attribute_scores, group_codes, group_sizes)
        unit_target_scores = _group_means(target_scores, group_codes, group_sizes)

        def compute_content(code_length):
            """Return the content of the report, for JSON.

            ``code_length``: result of :func:`preregistered_code_length`, in nats.
            """
            table, n_permutations = permutation_tests(
                unit_attribute_scores,
                unit_target_scores,
                associations.target_columns[candidates],
                beta=holdout.account.settings.beta,
                code_length=code_length,
                rng=rng,
            )
            associations_on_holdout, _, _, p_values, _, _ = table.T
            # Smallest p-value first, then largest absolute association.
            order = np.lexsort((-np.abs(associations_on_holdout), p_values))
            return {
                "rows": [[names[index], *table[index].tolist()] for index in order],
                "permutations": n_permutations,
                "nats": code_length,
                "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            }

        content = report_preregistered(holdout, statement_key, compute_content)
        units_text = f"{n:,} holdout records"
        if len(group_sizes) < n:
            units_text += f" in {len(group_sizes):,} groups"
        return AssociationReport.from_content(
            content,
            confidence_level=holdout.confidence_level,
            n_screened=self.n_features_in_,
            units_text=units_text,
        )

    def _holdout_scores(self, holdout, associations, positions):
        """Return scores of the attributes at some positions, and of the targets, in [-1, 1].

        They have a row for each holdout record. ``associations``: :class:`TrainingAssociations`.
        """
        selector = positions
        if is_frame(holdout.X) and hasattr(self, "feature_names_in_"):
            selector = self.feature_names_in_[positions]
        columns = safe_indexing(holdout.X, selector, axis=1)
        attribute_scores = associations.attribute_scores(columns, positions)
        return attribute_scores, associations.target.scores(holdout.y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _group_means(scores, group_codes, group_sizes):
    """Return the means of scores over the records of each group: (n_groups, n_columns).

    ``scores``: (n, n_columns); ``group_codes``: (n,), index of each record's group;
    ``group_sizes``: (n_groups,), numbers of records.
    """
    group_sums = [np.bincount(group_codes, column) for column in scores.T]
    return np.stack([sums / group_sizes for sums in group_sums], axis=1)


def _check_numeric(X):
    """Raise ValueError if a frame has columns that cannot be converted to numbers."""
    text_column_names = text_columns(X)
    if text_column_names:
        raise ValueError(
            f"X has columns that are not numbers: {text_column_names[:5]}. Encode them as "
            "numbers, or leave them out. The holdout was not queried."
        )


def _has_classes(y):
    """Return whether targets are classes: labels, or whole numbers of at most 20 values."""
    target_type = type_of_target(y, input_name="y", raise_unknown=True)
    if target_type == "multiclass" and np.asarray(y).dtype.kind in "iuf":
        return np.unique(y).size <= 20
    return target_type in ("binary", "multiclass")


def _cell_half_widths(training_values, holdout_errors):
    """Return the half-widths of intervals (cells) around training associations.

    ``training_values``: associations in [-1, 1]; ``holdout_errors``: expected standard errors of
    the associations on the holdout. A half-width is the absolute training association minus the 90%
    quantile of a useless attribute, but at least half of the standard error, and at most twice.
    """
    distances = np.abs(training_values) - _USELESS_QUANTILE * holdout_errors
    return np.clip(
        distances, _MIN_CELL_HALF_WIDTH * holdout_errors, _MAX_CELL_HALF_WIDTH * holdout_errors
    )


@dataclass(frozen=True)
class Target:
    """Transformation of targets to scores in [-1, 1] with mean 0 on the training set.

    With this mean, the association of an attribute that is independent of the target is about 0,
    also if the classes are unbalanced.
    """

    #: Classes with a column of scores each, or the second of two classes. None: numbers.
    classes: np.ndarray | None
    center: float  # mean of numeric targets on the training set; 0 for classes
    scale: float  # standard deviation of numeric targets on the training set; 1 for classes
    clip: float  # standard deviations at which numbers are clipped
    means: np.ndarray = field(repr=False)  # (n_columns,): of uncentered scores on the training set

    @classmethod
    def from_targets(cls, y, has_classes, clip):
        """Return the transformation estimated from training targets.

        ``has_classes``: whether targets are classes; ``clip``: number of standard deviations at
        which numeric targets are clipped.
        """
        classes = None
        center = 0.0
        scale = 1.0
        if has_classes:
            classes = np.unique(y)
            classes = classes[1:] if classes.size == 2 else classes
        else:
            mean, standard_deviation = _mean_and_deviation(np.asarray(y, dtype=float))
            center = float(mean)
            scale = float(standard_deviation)
        uncentered = cls(classes, center, scale, clip, np.zeros(1))
        return replace(uncentered, means=uncentered._uncentered_scores(y).mean(axis=0))

    def _uncentered_scores(self, y):
        """Return scores of shape (n, n_columns) in [-1, 1], before ``means`` are subtracted."""
        y = np.asarray(y)
        if self.classes is not None:
            return np.where(y[:, None] == self.classes[None, :], 1.0, -1.0)
        return _clip_scores(y.astype(float) - self.center, self.scale, self.clip)[:, None]

    def scores(self, y):
        """Return target scores of shape (n, n_columns) in [-1, 1], with mean 0 on the training set.

        ``y``: targets of any records.
        """
        return (self._uncentered_scores(y) - self.means) / (1.0 + np.abs(self.means))


@dataclass(frozen=True)
class TrainingAssociations:
    """Associations of the attributes on the training set; arrays of shape (n_features,)."""

    target: Target
    values: np.ndarray  # means of products of attribute and target scores, in [-1, 1]
    variances: np.ndarray  # of these products on the training set, plus 1/n
    standard_errors: np.ndarray  # of ``values``
    #: Column of the target scores that an attribute is compared with. For more than two classes it
    #: is the one with the largest association relative to its standard error.
    target_columns: np.ndarray
    centers: np.ndarray  # means of the attributes on the training set
    scales: np.ndarray  # their standard deviations; 1 for a constant or missing attribute

    @classmethod
    def from_data(cls, X, y, has_classes, clip, n_effective):
        """Return the associations of the columns of ``X`` with the targets of training records.

        ``has_classes``: whether targets are classes; ``clip``: number of standard deviations at
        which scores are clipped; ``n_effective``: effective number of training records.
        """
        target = Target.from_targets(y, has_classes, clip)
        target_scores = target.scores(y)
        n = len(y)
        fields_by_block = []  # arrays for the columns of each block, in the order of the fields
        # A frame of numbers becomes an array, because names are not needed.
        X = X.tocsc() if scipy.sparse.issparse(X) else _to_dense(X)
        for block in column_blocks(X):
            values = _to_dense(X[:, block])
            centers, scales = _mean_and_deviation(values)
            attribute_scores = _clip_scores(values - centers, scales, clip)
            # For each attribute and column of target scores: (n_block, n_target_columns).
            means = attribute_scores.T @ target_scores / n
            variances = (attribute_scores**2).T @ target_scores**2 / n - means**2 + 1.0 / n
            standard_errors = np.sqrt(variances / min(n, n_effective))
            target_columns = np.argmax(np.abs(means) / standard_errors, axis=1)
            attributes = np.arange(len(target_columns))
            fields_by_block.append(
                (
                    means[attributes, target_columns],
                    variances[attributes, target_columns],
                    standard_errors[attributes, target_columns],
                    target_columns,
                    centers,
                    scales,
                )
            )
        fields = (np.concatenate(arrays) for arrays in zip(*fields_by_block, strict=True))
        return cls(target, *fields)

    def p_values(self):
        """Return two-sided p-values of the attributes, shape (n_features,).

        They are multiplied by the number of columns of target scores (Bonferroni), and at most 1.
        """
        p_values = 2.0 * ndtr(-np.abs(self.values) / self.standard_errors)
        return np.minimum(1.0, p_values * self.target.means.size)

    def attribute_scores(self, columns, positions):
        """Return standard scores, clipped and divided by ``clip``: (n_records, n_positions).

        ``columns``: values of the columns at these ``positions`` of ``X`` only, for any records.
        """
        deviations = _to_dense(columns) - self.centers[positions]
        return _clip_scores(deviations, self.scales[positions], self.target.clip)

    def query_keys(self, names, positions):
        """Return a list of query keys of the attributes with these names and positions."""
        attribute_parameters = (  # arrays with a value for each attribute
            self.centers,
            self.scales,
            self.target_columns,
            self.values < 0,
        )
        target_parameters = astuple(self.target)
        return [
            query_key(
                "association",
                target_parameters,
                name,
                *(float(values[position]) for values in attribute_parameters),
            )
            for position, name in zip(positions, names, strict=True)
        ]


def _to_dense(columns):
    """Return columns as a dense float array. Missing values of nullable columns are NaN."""
    if is_frame(columns) and not holds_numbers(columns):
        column_list = [safe_indexing(columns, i, axis=1) for i in range(columns.shape[1])]
        # Contiguous columns, as in frames of numbers: sums are rounded alike.
        return np.array([np.asarray(column, dtype=float) for column in column_list]).T
    return np.asarray(columns.toarray() if scipy.sparse.issparse(columns) else columns, dtype=float)


def _mean_and_deviation(columns):
    """Return mean and standard deviation of each column (or of a 1D array), ignoring NaN.

    A standard deviation of 0, or of a column of NaN, is replaced by 1.
    """
    standard_deviations = np.nanstd(columns, axis=0)
    standard_deviations = np.where(standard_deviations > 0, standard_deviations, 1.0)
    return np.nanmean(columns, axis=0), standard_deviations


def _clip_scores(deviations, scale, clip):
    """Return standard scores clipped at ``clip``, and divided by it; 0 for missing values.

    ``deviations``: values minus means; ``scale``: standard deviations.
    """
    return np.nan_to_num(np.clip(deviations / (scale * clip), -1.0, 1.0), copy=False)


# -- proofs on a closed holdout: permutation tests, and intervals that agree with them ------------


def permutation_statistics(attribute_scores, target_scores, target_columns, *, alpha, rng):
    r"""Return covariances, p-values and half-widths of intervals from permutations of the targets.

    Theory G30. For an attribute with scores :math:`b_i` and targets with scores :math:`s_i` the
    statistic is :math:`t = \operatorname{cov}(b, s) / \operatorname{se}`, with the larger of two
    standard errors: that of the mean of :math:`(b_i - \bar b)(s_i - \bar s)`, and that of a
    correlation without association. (The former is too small for a rare attribute that is absent
    in a rare class.) If targets are independent of the attribute, all permutations of the targets
    are equally likely. Of ``B`` permutations and the data themselves each is as likely to have
    the largest ``|t|`` (Phipson and Smyth 2010), so that

    .. math:: p = (1 + \#\{|t^*| \ge |t|\}) / (B + 1)

    is valid for all distributions. The half-width is ``se`` times the quantile ``1 - alpha`` of
    ``|t*|``. Up to rounding, it is below :math:`|\operatorname{cov}|` exactly if ``p <= alpha``.
    Because the statistic is studentized, the interval also covers covariances other than 0, with
    the same approximation as a t interval (Janssen 1997; Chung and Romano 2013).

    Parameters
    ----------
    attribute_scores : ndarray of shape (n, n_attributes)
        Scores of the attributes in [-1, 1], for records or means over groups.
    target_scores : ndarray of shape (n, n_columns)
        Scores of the targets in [-1, 1], likewise.
    target_columns : ndarray of int, shape (n_attributes,)
        Column of the target scores that each attribute is compared with.
    alpha : float
        Failure probability of a two-sided interval.
    rng : numpy.random.Generator
        Draws the permutations, which are the same for all attributes.

    Returns
    -------
    tuple
        Covariance, p-value and half-width of each attribute, and the number of permutations. A
        half-width is infinite if there are too few permutations for ``alpha``, or if the covariance
        is 0, as for a constant attribute.
    """
    n, n_attributes = attribute_scores.shape
    b = (attribute_scores - attribute_scores.mean(axis=0)).astype(np.float32)  # (n, n_attributes)
    s = (target_scores - target_scores.mean(axis=0)).astype(np.float32)  # (n, n_columns)
    n_affordable = max(_MIN_N_EXCEEDING / alpha, _MAX_WORK / (n * n_attributes))
    n_permutations = math.ceil(min(_N_EXCEEDING / alpha, n_affordable))
    if n * max(n_attributes, 500) * n_permutations > _MAX_MULTIPLICATIONS:
        n_permutations = 0
    n_permutations = max(_MIN_PERMUTATIONS, n_permutations)
    # Largest number of permutations with a larger |t| for which p is at most alpha.
    max_exceeding = math.floor(alpha * (n_permutations + 1) + 1e-9) - 1

    def statistics(permutations):
        """Return covariances and t statistics, both of shape (n_attributes, n_permutations).

        They are of the centered attribute scores ``b`` with the permuted centered target scores
        ``s``. ``permutations``: permutations of the positions of the ``n`` rows of scores, shape
        (n_permutations, n).
        """
        cov, t = np.zeros((2, n_attributes, len(permutations)), dtype=np.float32)
        for target_column in np.unique(target_columns):
            attributes = np.flatnonzero(target_columns == target_column)
            permuted_s = s[permutations, target_column].T  # (n, n_permutations)
            squared_b = b[:, attributes] ** 2
            cov[attributes] = b[:, attributes].T @ permuted_s / n
            mean_squared_s = (s[:, target_column] ** 2).mean()
            null_variances = (squared_b.mean(axis=0) * mean_squared_s)[:, None]
            variances = squared_b.T @ permuted_s**2 / n - cov[attributes] ** 2
            variances = np.maximum(np.maximum(variances, null_variances), 1e-12)
            t[attributes] = cov[attributes] / np.sqrt(variances / n)
        return cov, t

    cov, t = (values[:, 0] for values in statistics(np.arange(n)[None, :]))  # of the data
    standard_errors = np.divide(
        np.abs(cov), np.abs(t), out=np.zeros(n_attributes, np.float32), where=t != 0
    )
    n_exceeding = np.zeros(n_attributes)
    largest_t = np.zeros((n_attributes, 0), dtype=np.float32)  # at most max_exceeding + 1 columns
    block_size = max(1, _MAX_BLOCK_SIZE // max(n, n_attributes))
    for start in range(0, n_permutations, block_size):
        identities = np.tile(np.arange(n), (min(block_size, n_permutations - start), 1))
        _, permuted_t = statistics(rng.permuted(identities, axis=1))
        permuted_t = np.abs(permuted_t)
        n_exceeding += (permuted_t >= (np.abs(t) - _ROUNDING_ERROR)[:, None]).sum(axis=1)
        largest_t = _largest_values(
            np.concatenate([largest_t, permuted_t], axis=1), max_exceeding + 1
        )
    critical_t = np.full(n_attributes, np.inf)
    if max_exceeding >= 0:
        critical_t = largest_t.min(axis=1) + _ROUNDING_ERROR
    half_widths = np.where(standard_errors > 0, critical_t * standard_errors, np.inf)
    p_values = (1.0 + n_exceeding) / (n_permutations + 1.0)
    return cov.astype(float), p_values, half_widths.astype(float), n_permutations


def _largest_values(values, n):
    """Return the ``n`` largest values of each row, in any order; all if there are fewer."""
    n_smaller = values.shape[1] - n
    if n_smaller <= 0:
        return values
    return np.partition(values, n_smaller - 1, axis=1)[:, n_smaller:]


def permutation_tests(attribute_scores, target_scores, target_columns, *, beta, code_length, rng):
    """Return a table of tests of the attributes, and the number of permutations.

    The table has the shape (n_attributes, 6). Its columns are the association, both ends of its
    interval, and p-values adjusted by Holm, by Benjamini and Hochberg, and by Benjamini and
    Yekutieli. All p-values are multiplied by ``exp(code_length)``, and at most 1. An interval
    excludes 0 exactly if Holm's p-value is at most ``beta``. If the half-width of such an interval
    would not exclude 0, it ends at the floating-point number next to 0.

    ``attribute_scores``: (n, n_attributes), in [-1, 1]; ``target_scores``: (n, n_columns), in
    [-1, 1], both for records or means over groups; ``target_columns``: (n_attributes,), column of
    target scores that each attribute is compared with; ``beta``: failure probability of all
    intervals together; ``code_length``: result of :func:`preregistered_code_length`, in nats.
    """
    leakage_factor = math.exp(code_length)
    n_attributes = len(target_columns)
    values, p_values, half_widths, n_permutations = permutation_statistics(
        attribute_scores,
        target_scores,
        target_columns,
        alpha=beta / leakage_factor / n_attributes,
        rng=rng,
    )
    lower = np.maximum(values - half_widths, -1.0)
    upper = np.minimum(values + half_widths, 1.0)
    order = np.argsort(p_values, kind="stable")
    holm_p_values = np.empty(n_attributes)  # Holm (1979)
    multipliers = n_attributes - np.arange(n_attributes)
    holm_p_values[order] = np.maximum.accumulate(p_values[order] * multipliers)
    holm_p_values = np.minimum(leakage_factor * holm_p_values, 1.0)
    proves_only_sign = (holm_p_values <= beta) & (lower <= 0.0) & (upper >= 0.0)
    lower = np.where(proves_only_sign & (values > 0.0), np.nextafter(0.0, 1.0), lower)
    upper = np.where(proves_only_sign & (values < 0.0), np.nextafter(0.0, -1.0), upper)
    q_values = [
        leakage_factor * false_discovery_control(p_values, method=method) for method in ("bh", "by")
    ]
    table = np.column_stack([values, lower, upper, holm_p_values, *np.minimum(q_values, 1.0)])
    return table, n_permutations
