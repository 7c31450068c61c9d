"""`ReusableHoldout`: records, mechanism and ledger of a holdout in one object."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._version import __version__
from sklearn_bdp.correlation.components import check_row_order, n_independent_units
from sklearn_bdp.correlation.declaration import check_correlation
from sklearn_bdp.diagnostics.overlap import TrainingData, targets_digest
from sklearn_bdp.diagnostics.tables import check_time_sorted
from sklearn_bdp.exceptions import LedgerError, ProcessBoundaryError, UnboundedMetricError
from sklearn_bdp.holdout.config import HoldoutConfig, check_ledger, document_config_parameters
from sklearn_bdp.ledger.ledger import SystemNote
from sklearn_bdp.ledger.records import AnswerRecord, History, HoldoutAnswers
from sklearn_bdp.metrics.approximate import OF_DATES, ApproximateMetric
from sklearn_bdp.metrics.base import as_labels
from sklearn_bdp.metrics.per_record import PerRecordScore
from sklearn_bdp.metrics.scorers import (
    cross_validated_reference,
    reference_of_predictions,
    scorer_metric,
)
from sklearn_bdp.metrics.scoring import forecast_metric, get_metric
from sklearn_bdp.release.accountant import HoldoutAccountant
from sklearn_bdp.release.batch_context import information_spent, next_code_length
from sklearn_bdp.release.calibration import Calibration
from sklearn_bdp.release.context import CVData, HoldoutContext
from sklearn_bdp.release.guarantee import holdout_certificate, warn_if_vacuous
from sklearn_bdp.release.overlap_check import check_overlap
from sklearn_bdp.release.preview import preview_batch
from sklearn_bdp.release.query_batch import (
    check_cv_score,
    check_data,
    check_keys,
    freeze_data,
    make_query_batch,
    metric_key,
)
from sklearn_bdp.report.final import load_report, report_and_close
from sklearn_bdp.report.in_time import align_predictions, clip_errors_in_time
from sklearn_bdp.report.measures import check_fitted, check_predictions
from sklearn_bdp.report.plan import out_of_fold_errors, training_targets_of
from sklearn_bdp.utils.hashing import column_names, content_key, data_digest, records_digest
from sklearn_bdp.utils.html import Card
from sklearn_bdp.utils.process import LIVE_HOLDOUTS
from sklearn_bdp.utils.sklearn_compat import num_samples, safe_indexing
from sklearn_bdp.utils.validation import (
    as_frame,
    check_integer,
    check_probability,
    check_real,
    strip_traceback_frames,
)

if TYPE_CHECKING:
    from sklearn_bdp.metrics.base import BoundedMetric, Evaluation
    from sklearn_bdp.release.certificate import HoldoutCertificate
    from sklearn_bdp.release.preview import Preview
    from sklearn_bdp.report.final_report import FinalReport


@document_config_parameters
class ReusableHoldout:
    r"""Holdout set with valid intervals for adaptively chosen queries.

    A query compares a cross-validated score with the score on the holdout. Thresholdout answers it.
    The answer is first recorded in a ledger and then released, with an interval for the expected
    score. With probability at least ``confidence_level`` *all* proven intervals contain their
    expected scores, also if queries were chosen by earlier answers.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n, n_features)
        Features of the holdout records. They are copied.
    y : array-like of shape (n,) or (n, n_outputs)
        Targets.
    correlation : object, default=None
        Correlation of the holdout records, as for
        :func:`~sklearn_bdp.correlation.check_correlation`. ``None``: independent.
    random_state : int or None, default=None
        ``None``: cryptographic randomness. Use an int only in tests: anyone with the seed can
        subtract the noise, and the certificate reports it.
    gap : int, pair of int or None, default=None
        Number of records dropped between the training data and this holdout if both were cut from
        one sequence; a pair for training data before and after it. ``None``: not cut from the same
        sequence.
    notes : dict or None, default=None
        Notes of a new ledger: JSON contents by name, for instance how the data were split.
        :meth:`notes` and :func:`sklearn_bdp.ledger.read_notes` return them. An existing ledger
        keeps its notes.
    {config_parameters}

    Attributes
    ----------
    X, y : array-like
        The holdout records.
    n : int
        Number of records.
    dependence : CorrelationModel
        The declared correlation.
    config : HoldoutConfig
        All settings.
    ledger : Path, LedgerURL, Backend or None
        Location of the ledger. ``None``: the memory of this process.
    confidence_level : float
    on_exhausted : str
    allow_shared_rows : bool
        As in ``config``.
    information_spent : float
        Information spent so far by answers, checks and unfinished reports, in nats.
    next_code_length : float
        Code length of the next query in nats, without its rank. It includes the information spent
        and the weight of its batch.
    remaining_budget : int or None
        Number of corrections by the holdout that are left; ``None`` without a budget.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.
    LedgerError
        One of its subclasses, if the ledger cannot be used or belongs to another holdout.

    See Also
    --------
    ReusableHoldoutSearchCV : Splits a holdout off and searches.
    HoldoutScorer : Queries a holdout wherever scikit-learn takes ``scoring``.
    plan_search : How many records a holdout needs.

    Notes
    -----
    A batch is checked, decided, recorded and then released. An error before a batch is recorded
    leaves the holdout unchanged. After an interruption the recorded answers are in the ledger, and
    queries with the same keys are free.

    If the budget is exhausted inside a batch, the queries before that point are answered and
    recorded, and are free by key. For the other queries, and for new ones later, ``"raise"``
    raises :class:`~sklearn_bdp.exceptions.BudgetExhaustedError` (before anything is recorded if no
    query can be answered), ``"nan"`` returns NaN for the value and the interval, and ``"cv"``
    returns the cross-validated score with the interval [0, 1], without any guarantee. These
    queries are not ``answered``, spend no information and are not recorded. Only new records add
    budget.

    A copy, deep copy or clone is the same object; in this process, so is an unpickled one while the
    holdout exists. In another process a holdout with a ledger opens it, and one without a ledger
    raises :class:`~sklearn_bdp.exceptions.ProcessBoundaryError` when it is queried.

    References
    ----------
    .. [1] J. Zhao, "Adaptive statistical learning with Bayesian differential privacy", WPES 2017.
    .. [2] C. Dwork et al., "Guilt-free data reuse", Communications of the ACM 60, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bdp.holdout import ReusableHoldout
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(1000, 3)), rng.integers(0, 2, size=1000)
    >>> holdout = ReusableHoldout(X, y, random_state=0)
    >>> hits = (X[:, :2] > 0).T == y  # two classifiers, one score per record
    >>> answers = holdout.answer([0.5, 0.9], hits)
    >>> answers.corrected.tolist()
    [False, True]
    >>> bool(np.all((answers.lower < 0.5) & (0.5 < answers.upper)))
    True
    >>> len(holdout.history())
    2
    """

    @strip_traceback_frames  # the ledger may be a URL with a password
    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        correlation: Any = None,
        random_state: int | None = None,
        gap: int | tuple[int, int] | None = None,
        notes: dict[str, Any] | None = None,
        **parameters: Any,
    ) -> None:
        config_names = [field.name for field in dataclasses.fields(HoldoutConfig)[1:]]
        unknown_names = sorted(parameters.keys() - set(config_names))
        if unknown_names:
            raise TypeError(
                f"{unknown_names[0]!r} is not a parameter of ReusableHoldout. Its parameters are "
                f"X, y, correlation, random_state, gap, notes, {', '.join(config_names)}."
            )
        config = HoldoutConfig(**parameters)
        self._open(config, X, y, correlation, gap, random_state, notes)

    @classmethod
    @strip_traceback_frames
    def from_targets(
        cls, y: ArrayLike, *, training_targets: ArrayLike | None = None, **parameters: Any
    ) -> ReusableHoldout:
        """Return a holdout without features, which is queried with predictions.

        Parameters
        ----------
        y : array-like of shape (n,)
            Targets of the holdout records.
        training_targets : array-like, default=None
            Public targets, such as those of the training set. They determine the classes, in the
            order of columns of probabilities, and the range of errors of a regression. ``None``:
            probabilities are of the classes 0 and 1, and an error is raised if targets are others.
        **parameters : object
            As for :class:`~sklearn_bdp.ReusableHoldout`.

        Returns
        -------
        ReusableHoldout
            For :meth:`answer_predictions` and a :meth:`final_report` of predictions.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_bdp import ReusableHoldout
        >>> y = np.arange(500) % 2
        >>> holdout = ReusableHoldout.from_targets(y, training_targets=[0, 1], random_state=0)
        >>> holdout.answer_predictions(np.zeros(500, int), name="zeros", submitter="ann").corrected
        False
        """
        holdout = cls(np.empty((np.shape(y)[0], 0)), y, **parameters)
        if training_targets is not None:
            public_targets = np.asarray(training_targets)
            are_integers = public_targets.dtype.kind in "iu"
            if are_integers and type_of_target(holdout.y) == "continuous":
                public_targets = public_targets.astype(float)  # a range, not two classes
            X_without_columns = np.empty((len(public_targets), 0))
            holdout.update_context(dry_run_sample=(X_without_columns, public_targets))
        return holdout

    @classmethod
    def from_config(
        cls,
        config: HoldoutConfig,
        X: Any,
        y: ArrayLike,
        *,
        correlation: Any = None,
        gap: int | tuple[int, int] | None = None,
        random_state: int | None = None,
        notes: dict[Any, Any] | None = None,
        context: HoldoutContext | None = None,
    ) -> ReusableHoldout:
        """Return a holdout with the settings of a configuration.

        Parameters
        ----------
        config : HoldoutConfig
            Settings of the holdout; ``test_size`` is ignored.
        X, y, correlation, gap, random_state, notes : object
            As for the class.
        context : HoldoutContext or None, default=None
            Public records of the search or selector that creates the holdout.

        Returns
        -------
        ReusableHoldout
            A new holdout, or one that continues from the state in the ledger.
        """
        holdout = cls.__new__(cls)
        holdout._open(config, X, y, correlation, gap, random_state, notes, context)
        return holdout

    def _open(self, config, X, y, correlation, gap, random_state, notes, context=None):
        """Check the records, calibrate the noise, open the ledger and set the attributes.

        ``config``: HoldoutConfig. ``context``: HoldoutContext, or None for an empty one. Other
        arguments are those of the class.
        """
        self.config = config
        self.ledger = check_ledger(config.ledger)
        self.confidence_level: float = config.confidence_level
        self.on_exhausted: str = config.on_exhausted
        self.allow_shared_rows: bool = bool(config.allow_shared_rows)
        noise_seed = None
        if random_state is not None:
            noise_seed = check_integer("random_state", random_state, low=0)
        X = as_frame(X)
        y = as_frame(y)
        self.n = check_data(X, y)
        self.dependence = check_correlation(correlation)
        self.dependence.check_n(self.n)
        check_row_order("correlation", self.dependence, X)
        scheme = self.dependence.sampling_scheme(self.n)
        if scheme.in_time_order and self.dependence.n_records is None:
            check_time_sorted(X)
        self.X = freeze_data(X)
        self.y = freeze_data(y)
        self._context = context or HoldoutContext()
        settings = Calibration.from_config(config, gap, model=self.dependence, n=self.n)
        feature_names = column_names(self.X)  # None without names
        header = {
            "made_by": f"sklearn_bdp {__version__}",
            "data": records_digest(self.X, self.y),
            "columns": None if feature_names is None else data_digest(feature_names),
            "correlation": self.dependence.fingerprint(),
            "described": self.dependence.describe(),
            **settings.header(),
        }
        notes = dict(notes or {})
        if config.allow_shared_rows:
            notes[SystemNote.SHARED_ROWS] = True
        target_digests = {notes.get(SystemNote.TARGETS), targets_digest(self.X, self.y)} - {None}
        holdout_data = TrainingData(((self.X, self.y),))
        self.account = HoldoutAccountant(
            self.ledger,
            header,
            dependence=self.dependence,
            seed=noise_seed,
            timeout=config.ledger_timeout,
            both_parts_given=self._context.both_parts_given,
            older_data=lambda: data_digest(self.X, self.y),
            notes=notes,
            target_digests=target_digests,
            get_row_digests=lambda: holdout_data.row_digest_pairs[0],
        )
        LIVE_HOLDOUTS[self.account.token] = self
        self.is_small = warn_if_vacuous(self.account.settings, self.dependence)

    def close(self) -> None:
        """Close the ledger's file or connection in this process; the next access opens it again."""
        self.account.close()

    def __enter__(self) -> ReusableHoldout:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def context(self) -> HoldoutContext:
        """Public records that accompany the holdout, such as those of its latest search."""
        return self._context

    def update_context(self, **changes: Any) -> None:
        """Replace fields of :attr:`context`, for instance if another search uses the holdout.

        Parameters
        ----------
        **changes : object
            Fields of the context and their new values.
        """
        self._context = dataclasses.replace(self._context, **changes)

    # -- queries ------------------------------------------------------------------------------

    @strip_traceback_frames
    def answer(
        self,
        cv_scores: ArrayLike,
        per_record_scores: ArrayLike,
        *,
        n_train: ArrayLike | None = None,
        keys: list[str | None] | None = None,
        relaxed_to: ArrayLike | None = None,
        training_variance: ArrayLike | None = None,
    ) -> HoldoutAnswers:
        """Answer one batch of queries that were fixed before any of its answers is seen.

        Parameters
        ----------
        cv_scores : array-like of shape (n_queries,)
            Predictions of the scores, in [0, 1]: numbers computed without the holdout, such as
            cross-validated scores.
        per_record_scores : array-like of shape (n_queries, n)
            Score of each query on each holdout record, in [0, 1].
        n_train : float or array-like of shape (n_queries,), default=None
            Number of training records behind each cross-validated score; by default the number of
            holdout records.
        keys : list of (str or None), default=None
            Identifiers of queries. A repeated query with the same key and the same cross-validated
            score gets the recorded answer, which is free.
        relaxed_to : float or array-like of shape (n_queries,), default=None
            Smallest threshold of each query if ``threshold="auto"``, in units of [0, 1]. It must
            be computed without the holdout. For a candidate far behind the best one, a precision of
            about two thirds of its distance suffices, and a relaxed interval costs less.
        training_variance : float or array-like of shape (n_queries,), default=None
            Variance of the scores of training records, in squared units of [0, 1], at most 1/4;
            NaN: unknown. Scores other than 0 and 1, such as errors of a regression, often vary far
            less than the worst case. For independent records or groups, and for dates, the holdout
            may then be queried for the variances of the best candidates' scores too, unless every
            query is compared once (see ``ExpertSettings``). Small variances make their intervals
            narrower (theory G15).

        Returns
        -------
        HoldoutAnswers
            Arrays ``values, lower, upper, corrected, answered`` of shape (n_queries,).

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid; no information is spent.
        BudgetExhaustedError
            If the budget is exhausted and ``on_exhausted="raise"``.
        ProcessBoundaryError
            If another process queries a holdout without a ledger.
        LedgerError
            One of its subclasses, if the ledger cannot be used; nothing is released.
        HoldoutClosedError
            If a final report closed the holdout, for queries without a recorded answer.
        """
        batch = make_query_batch(
            self.n,
            self.dependence,
            cv_scores,
            scores=per_record_scores,
            n_train=n_train,
            keys=keys,
            relaxed_to=relaxed_to,
            training_variance=training_variance,
        )
        return self.account.answer(batch, on_exhausted=self.on_exhausted)

    @strip_traceback_frames
    def answer_evaluations(
        self,
        cv_scores: ArrayLike,
        evaluations: Sequence[Evaluation],
        *,
        n_train: Any = None,
        keys: Any = None,
        relaxed_to: Any = None,
        secondary: ArrayLike | None = None,
        training_variance: Any = None,
        training_kurtosis: Any = None,
        fixed_half_widths: ArrayLike | None = None,
        ranks: ArrayLike | None = None,
        about: Sequence[tuple[Any, ...]] | None = None,
    ) -> HoldoutAnswers:
        """Answer one batch of queries from evaluations of models by bounded metrics.

        Parameters
        ----------
        cv_scores : array-like of shape (n_queries,)
            Cross-validated scores, in [0, 1].
        evaluations : sequence of Evaluation
            Results of ``BoundedMetric.evaluate`` on this holdout. Metrics that are not means over
            records are admitted for independent records or groups. Those without a proven bound are
            also admitted for nodes given all others and, without an interval, for dates.
        n_train, keys, relaxed_to : object
            As for :meth:`answer`.
        secondary : array-like of bool, shape (n_queries,), default=None
            Queries that do not select a model, such as other metrics of the same models. Unless
            every query is compared once, they come after the others and get coarse answers, so that
            the others keep narrow intervals.
        training_variance : object
            As for :meth:`answer`.
        training_kurtosis : float or array-like of shape (n_queries,), default=None
            Kurtosis of the scores of training records, 3 for a normal distribution; NaN: unknown.
            The variance of scores with a large kurtosis may be larger on the holdout.
        fixed_half_widths : array-like of shape (n_queries,), default=None
            For unrelated queries, such as associations of attributes: each is compared once, with a
            cell of this half-width around its cross-validated score, in units of [0, 1]. This cell
            then does not depend on the answers to other queries. Without effect if the parameters
            of the holdout compare every query once, at a threshold of their own.
        ranks : array-like of shape (n_queries,), default=None
            Public ranks by which the caller selects one of the queries, the smallest for the best
            one, unless the holdout corrects another one to a higher value. If None, the caller
            selects the highest released value.
        about : sequence of tuple, default=None
            For each query: its metric, a description of the model, and the submitter, if any. The
            ledger records them, and :meth:`history` is in score units of the metrics.

        Returns
        -------
        HoldoutAnswers
            As for :meth:`answer`.

        Raises
        ------
        Exception
            Errors of :meth:`answer`.
        """
        batch = make_query_batch(
            self.n,
            self.dependence,
            cv_scores,
            evaluations=evaluations,
            n_train=n_train,
            keys=keys,
            relaxed_to=relaxed_to,
            secondary=secondary,
            training_variance=training_variance,
            training_kurtosis=training_kurtosis,
            fixed_half_widths=fixed_half_widths,
            ranks=ranks,
            about=about,
        )
        return self.account.answer(batch, on_exhausted=self.on_exhausted)

    @strip_traceback_frames
    def score(
        self,
        estimator: Any,
        cv_score: float | None = None,
        *,
        scoring: Any = None,
        training: tuple[Any, ...] | None = None,
        n_train: float | None = None,
        training_variance: float | None = None,
        key: str | None = None,
    ) -> AnswerRecord:
        """Return the verified score of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted without the holdout.
        cv_score : float, default=None
            Cross-validated score of the estimator, in the units of ``scoring``. A metric with a
            proven bound needs it. ``None``: for other metrics, the score of out-of-fold predictions
            of ``training``.
        scoring : str, BoundedMetric, scorer or None, default=None
            A metric. ``None``: the estimator's own score. A regression error has a proven interval
            if its bounds are declared, ``get_metric("neg_mean_absolute_error", bounds=(low,
            high))``. Bounds from the holdout targets would reveal these.
        training : tuple (X, y) or (X, y, groups), default=None
            Records that the estimator was fitted on. A metric without a proven bound needs them:
            clones of the estimator are cross-validated on them, in five folds, and the variation
            of their predictions determines the interval. ``None``: those of the latest search on
            this holdout, with its folds, if there was one in this process.
        n_train : float, default=None
            Number of training records behind ``cv_score``; by default that of ``training`` if this
            is passed, otherwise the number of holdout records.
        training_variance : float, default=None
            Variance of the cross-validated scores of training records, in squared units of [0, 1];
            see :meth:`answer`. ``None``: unknown.
        key : str or None, default=None
            Query key. Without one, another query of the same model spends information again.

        Returns
        -------
        AnswerRecord
            Verified score and interval, in the units of ``scoring``; ``float()`` returns the score.

        Raises
        ------
        UnboundedMetricError
            If no guarantee covers the metric; no information is spent.
        TypeError
            If ``cv_score`` is None and the metric has a proven bound; no information is spent.
        ValueError
            If the estimator is not fitted, or another argument is invalid.
        SharedRecordsError
            If the model contains holdout records among those it was fitted on
            (:meth:`check_model`), or if ``training`` contains holdout records.
        Exception
            Errors of :meth:`answer`.
        """
        self.account.check_process()
        check_fitted(estimator, self.X)
        cv_data = self._training_data(training)
        # Bounds and classes never come from holdout targets, which they would reveal.
        training_targets = None if cv_data is None else cv_data.y
        metric = self._make_metric(scoring, estimator, training_targets=training_targets)
        reference = None
        if isinstance(metric, ApproximateMetric):
            metric, reference = self._cross_validated_reference(metric, estimator, cv_data)
            unit_cv_score = self._unit_cv_score(metric, cv_score, reference.score)
        elif cv_score is None:
            raise TypeError(
                f"cv_score is missing: pass the cross-validated {metric.name} of the model. The "
                "holdout was not queried."
            )
        else:
            unit_cv_score = check_cv_score(metric, cv_score)
        if training is not None:
            training_X, training_y, *_ = training
            self.check_training_rows(training_X, training_y)
            n_train = num_samples(training_y) if n_train is None else n_train
        self.check_model(estimator)  # late, because it may spend information
        clipped_metric = clip_errors_in_time(
            self, metric, lambda: out_of_fold_errors(estimator, cv_data)
        )
        if clipped_metric is not metric:
            unit_cv_score = clipped_metric.to_unit(metric.from_unit(unit_cv_score))
            metric = clipped_metric
        answers = self.answer_evaluations(
            [unit_cv_score],
            [self._evaluate(metric, estimator, reference=reference)],
            n_train=n_train,
            keys=[key],
            training_variance=training_variance,
            about=[(metric, type(estimator).__name__)],
        )
        return answers[0].in_units()

    def _training_data(self, training):
        """Return ``training`` as CVData; for None, that of the latest search, or None.

        ``training``: tuple ``(X, y)`` or ``(X, y, groups)``, or None. Raise ValueError or TypeError
        for another object, or for arrays of different lengths.
        """
        if training is None:
            return self._context.cv_data
        lengths = [num_samples(array) for array in training] if isinstance(training, tuple) else []
        if len(lengths) not in (2, 3) or len(set(lengths)) != 1:
            raise ValueError(
                "training must be (X, y) or (X, y, groups) of the same training records, got a "
                f"{type(training).__name__} with lengths {lengths}. The holdout was not queried."
            )
        return CVData(*training)

    def _make_metric(self, scoring, estimator, *, training_targets, declared_targets=None):
        """Return the metric for ``scoring``: with a proven bound if there is one, else without.

        Raise ValueError or its subclass UnboundedMetricError if there is no such metric.
        ``declared_targets``: public targets that determine classes and bound errors, or None.
        ``training_targets``: of training records, which a metric without a proven bound needs, or
        None.
        """
        # Setting or correlation that requires a proven bound, as text; empty if none does.
        proof_reason = self.config.proof_needed_for(self.dependence, self.n)
        scheme = self.dependence.sampling_scheme(self.n)
        has_class_bounds = scheme.exchangeable
        try:
            metric = get_metric(scoring, estimator=estimator, y=declared_targets)
            if metric.is_mean or has_class_bounds:
                return metric
            return scorer_metric(
                scoring,
                estimator=estimator,
                y=training_targets,
                proof_needed_for=proof_reason,
                has_class_bounds=False,
                has_dates=scheme.calendar is not None,
            )
        except ValueError as error:
            if training_targets is not None:
                return scorer_metric(
                    scoring,
                    estimator=estimator,
                    y=training_targets,
                    proof_needed_for=proof_reason,
                    has_class_bounds=has_class_bounds,
                    has_dates=scheme.calendar is not None,
                )
            if not isinstance(error, UnboundedMetricError) or proof_reason:
                raise
            raise UnboundedMetricError(
                f"{error} An approximate interval needs out-of-fold predictions of training "
                "records: pass training=(X, y) to score, or training_predictions=(y, y_pred) to "
                "answer_predictions. The holdout was not queried."
            ) from None

    def _reference_arguments(self, groups):
        """Return keyword arguments, by name, of functions that make a TrainingReference.

        They are numbers of holdout units and records, whether records are i.i.d., and the reason
        for no approximate interval, or "". ``groups``: of the training records, or None.
        """
        scheme = self.dependence.sampling_scheme(self.n)
        reason_for_no_interval = ""
        if scheme.calendar is not None:
            reason_for_no_interval = OF_DATES
        elif not scheme.has_independent_records and groups is None:
            reason_for_no_interval = "the groups of the training records are not declared"
        return {
            "n_holdout_units": n_independent_units(self.dependence, self.n),
            "n_holdout_records": self.n,
            "are_iid": scheme.has_iid_records,
            "no_interval_reason": reason_for_no_interval,
        }

    def _cross_validated_reference(self, metric, estimator, cv_data):
        """Return the metric with its public range, and its TrainingReference by cross-validation.

        ``metric``: ApproximateMetric. ``cv_data``: CVData of the training records. Raise ValueError
        if the model cannot be cross-validated on them.
        """
        rows = slice(None) if cv_data.rows is None else cv_data.rows
        X = safe_indexing(cv_data.X, rows)
        y = safe_indexing(cv_data.y, rows)
        groups = None if cv_data.groups is None else np.asarray(cv_data.groups)
        scheme = self.dependence.sampling_scheme(self.n)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return cross_validated_reference(
                    metric,
                    estimator,
                    X,
                    y,
                    groups=None if scheme.has_independent_records else groups,
                    folds=cv_data.folds,
                    **self._reference_arguments(groups),
                )
        except Exception as error:  # of the model; training records may be shown
            raise ValueError(
                f"scoring={metric.name!r} has no proven bound, and {type(estimator).__name__} "
                f"could not be cross-validated on the training records: {error} The holdout was "
                "not queried."
            ) from error

    @staticmethod
    def _unit_cv_score(metric, cv_score, out_of_fold_score):
        """Return a cross-validated score in [0, 1] for a metric without a proven bound.

        It is ``cv_score``, or ``out_of_fold_score`` if ``cv_score`` is None; both arguments are in
        score units. Raise TypeError or ValueError if the score is invalid or undefined.
        """
        if cv_score is not None:
            return check_cv_score(metric, cv_score)
        if not np.isfinite(out_of_fold_score):
            raise ValueError(
                f"{metric.name} is undefined on out-of-fold predictions of the training records. "
                "The holdout was not queried."
            )
        return metric.to_unit(out_of_fold_score)

    @strip_traceback_frames
    def answer_predictions(
        self,
        y_pred: ArrayLike,
        *,
        scoring: Any = None,
        cv_score: float | None = None,
        training_predictions: tuple[Any, ...] | None = None,
        name: str | None = None,
        submitter: str | None = None,
    ) -> AnswerRecord:
        """Return the verified score of predictions of the holdout records, without their model.

        The same predictions submitted again for the same metric get the recorded answer, which is
        free.

        Parameters
        ----------
        y_pred : array-like of shape (n,), (n, n_classes) or (n, n_outputs)
            Labels, numbers, or a column of probabilities for each class, in the order of the
            holdout records. Columns are the sorted classes of the training targets, as in
            ``classes_``. Without training targets, they are 0 and 1. For several outputs, a column
            for each: labels, scores of labels, or numbers.
        scoring : str, BoundedMetric, scorer or None, default=None
            A metric that needs predictions only; ``None``: accuracy. Public targets
            (:meth:`from_targets`) determine the classes, and bound regression errors.
        cv_score : float, default=None
            Expected score, in the units of ``scoring``. ``None``: the last score that was released
            to this submitter for the metric, or the middle of its range without one. For a metric
            without a proven bound, it is the score of ``training_predictions`` instead.
        training_predictions : tuple (y, y_pred) or (y, y_pred, groups), default=None
            Targets of training records and out-of-fold predictions of them, in the form of
            ``y_pred`` above. A metric without a proven bound needs them: their variation determines
            its interval. Predictions of records that the model was fitted on vary too little, which
            no check can find. Use :func:`~sklearn.model_selection.cross_val_predict`.
        name, submitter : str or None, default=None
            Name of the submission and of its submitter; :meth:`history` shows both.

        Returns
        -------
        AnswerRecord
            Verified score and interval, in the units of ``scoring``; ``float()`` returns the score.

        Raises
        ------
        TypeError, ValueError
            If predictions are invalid. No information is spent, and the message shows no
            prediction.
        UnboundedMetricError
            If no guarantee covers the metric, or if it needs ``training_predictions``. No
            information is spent.
        Exception
            Errors of :meth:`answer`.
        """
        self.account.check_process()
        public_targets = None
        if self._context.dry_run_sample is not None:
            _, public_targets = self._context.dry_run_sample
        y_pred = align_predictions("y_pred", y_pred, self)
        training_targets = None
        checked_predictions = self._check_training_predictions(training_predictions, public_targets)
        if checked_predictions is not None:
            training_targets, *_ = checked_predictions
        class_targets = training_targets_of(self, None)
        # Returns the predictions of ``y_pred`` at positions of records, as a model does.
        predictor = check_predictions(
            y_pred,
            self.y,
            public_targets,
            class_targets=training_targets if class_targets is None else class_targets,
            name=name,
            submitter=submitter,
        )
        # If the predictor has classes, public targets are not needed. Their class counts are not
        # those of a training set.
        has_classes = hasattr(predictor, "classes_") and as_labels(self.y).ndim == 1
        metric = self._make_metric(
            scoring or "accuracy",
            predictor,
            declared_targets=None if has_classes else public_targets,
            training_targets=training_targets,
        )
        # Predictions that a user passes determine no clip. If the model was fitted on their
        # records, the clip would be too small.
        metric = clip_errors_in_time(self, metric, lambda: None)
        metric, reference, unit_cv_score = self._metric_and_expected_score(
            metric, checked_predictions, cv_score, submitter
        )
        try:
            metric.check_estimator(predictor)
        except TypeError:
            raise predictor.unsupported_error(metric.name, metric.methods) from None
        if not metric.uses_predictions_only:
            raise ValueError(
                f"scoring={metric.name!r} asks a model for more than predictions. Use a metric by "
                "name, such as 'accuracy'. The holdout was not queried."
            )
        classes = [str(label) for label in getattr(predictor, "classes_", ())]
        positions = np.arange(self.n)[:, None]  # in place of features
        answers = self.answer_evaluations(
            [0.5 if unit_cv_score is None else unit_cv_score],
            [self._evaluate(metric, predictor, positions, reference=reference)],
            keys=[content_key("predictions", metric_key(metric), predictor.values, classes)],
            about=[(metric, name, submitter)],
        )
        return answers[0].in_units()

    def _metric_and_expected_score(self, metric, checked_predictions, cv_score, submitter):
        """Return the metric, its TrainingReference or None, and an expected score or None.

        The expected score, in [0, 1], is ``cv_score``. If this is None, it is the score of
        ``checked_predictions`` for a metric without a proven bound, and the latest verified score
        of the submitter, or None, for another one. ``checked_predictions``: targets, predictor and
        groups of training records, or None.
        """
        if isinstance(metric, ApproximateMetric):
            if checked_predictions is None:
                raise UnboundedMetricError(
                    f"scoring={metric.name!r} has no proven bound, and its approximate interval "
                    "needs out-of-fold predictions of training records: pass "
                    "training_predictions=(y, y_pred). The holdout was not queried."
                )
            metric, reference = self._reference_of_predictions(metric, *checked_predictions)
            return metric, reference, self._unit_cv_score(metric, cv_score, reference.score)
        if cv_score is not None:
            return metric, None, check_cv_score(metric, cv_score)
        with self.account.read_transaction() as ledger_state:
            return metric, None, ledger_state.latest_score(submitter, metric_key(metric))

    def _check_training_predictions(self, training_predictions, public_targets):
        """Return training targets, an object that predicts as given, and groups or None.

        ``training_predictions``: tuple ``(y, y_pred)`` or ``(y, y_pred, groups)``; for None, the
        result is None. ``public_targets``: determine the classes; None: the training targets do.
        Raise TypeError or ValueError for invalid predictions.
        """
        if training_predictions is None:
            return None
        arrays = training_predictions if isinstance(training_predictions, tuple) else ()
        lengths = [num_samples(array) for array in arrays]
        if len(lengths) not in (2, 3) or len(set(lengths)) != 1:
            raise ValueError(
                "training_predictions must be (y, y_pred) or (y, y_pred, groups) of the same "
                f"training records, got a {type(training_predictions).__name__} with lengths "
                f"{lengths}. The holdout was not queried."
            )
        training_targets, y_pred, *groups = arrays
        y = as_labels(training_targets)
        if public_targets is None:
            public_targets = y
        class_targets = training_targets_of(self, None)
        predictor = check_predictions(y_pred, y, public_targets, class_targets=class_targets)
        return y, predictor, np.asarray(groups[0]) if groups else None

    def _reference_of_predictions(self, metric, y, predictor, groups):
        """Return the metric, and its TrainingReference from predictions of training records.

        ``metric``: ApproximateMetric. ``y``: targets of these records. ``predictor``: object that
        returns the predictions at positions of records. ``groups``: of the records, or None.
        """
        unit_codes = None
        scheme = self.dependence.sampling_scheme(self.n)
        if not scheme.has_independent_records and groups is not None:
            _, unit_codes = np.unique(groups, return_inverse=True)
        positions = np.arange(len(y))[:, None]
        try:
            predictions = metric.predictions(predictor, positions, y)
        except AttributeError:
            methods = np.atleast_1d(metric.scorer._response_method)
            raise predictor.unsupported_error(metric.name, methods) from None
        return reference_of_predictions(
            metric,
            dataclasses.replace(predictions, from_caller=True),
            unit_codes=unit_codes,
            **self._reference_arguments(groups),
        )

    def _evaluate(self, metric, estimator, X=None, *, reference=None):
        """Return the Evaluation of an estimator on the holdout, which contains raw scores.

        ``X``: input of the estimator, by default the features of the holdout; for an object that
        returns given predictions, the positions of holdout records. ``reference``:
        TrainingReference of an ApproximateMetric, None for other metrics.
        """
        with warnings.catch_warnings():  # warnings of a metric may depend on holdout records
            warnings.simplefilter("ignore")
            evaluation = metric.evaluate(estimator, self.X if X is None else X, self.y)
            return evaluation if reference is None else metric.finish(evaluation, reference)

    def preview(
        self,
        n_queries: int = 1,
        *,
        score: float = 0.5,
        n_train: float | None = None,
        scoring: str | PerRecordScore | BoundedMetric | None = None,
        prevalence: float | None = None,
        training_variance: float = np.nan,
    ) -> Preview:
        """Preview the intervals of the next batch; no information is spent.

        Parameters
        ----------
        n_queries : int, default=1
            Number of queries in the batch.
        score : float, default=0.5
            Approximate expected score, in [0, 1]. Intervals are usually narrower near 0 and 1.
        n_train : float, default=None
            Number of training records behind each cross-validated score; by default the number of
            holdout records.
        scoring : str, PerRecordScore or BoundedMetric, default=None
            The metric, accuracy by default. Scores by class (ROC AUC) usually have wider intervals.
        prevalence : float, default=None
            For metrics whose intervals depend on class counts: proportion of positive records, of
            two classes. By default the metric's training labels determine it, else a proportion
            that the holdout released before, else 1/2. The text of the preview states a released or
            assumed proportion.
        training_variance : float, default=nan
            For means over records: variance of the scores of training records, in squared units of
            [0, 1]; see :meth:`answer`. NaN: unknown, and widths are those of the worst case.

        Returns
        -------
        Preview
            Half-widths for the best candidate and for the others, and the expected information
            spent, in nats.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid, or the metric has no proven bound.
        ProcessBoundaryError
            If another process previews a holdout without a ledger.
        HoldoutClosedError
            If a final report closed the holdout.
        """
        n_queries = check_integer("n_queries", n_queries, low=1)
        score = check_real("score", score, low=0.0, high=1.0)
        n_train = check_real("n_train", self.n if n_train is None else n_train, low=1.0)
        self.account.check_process()
        metric = forecast_metric(scoring)
        if prevalence is not None:
            prevalence = check_probability("prevalence", prevalence)
        if not np.isnan(training_variance):
            training_variance = check_real(
                "training_variance", training_variance, low=0.0, high=0.25
            )
        with self.account.read_transaction() as ledger_state:
            return preview_batch(
                self.account,
                ledger_state,
                score=score,
                n_train=n_train,
                n_queries=n_queries,
                metric=metric,
                prevalence=prevalence,
                training_variance=training_variance,
            )

    # -- final report -------------------------------------------------------------------------

    @strip_traceback_frames
    def final_report(
        self,
        estimators: Any,
        cv_scores: ArrayLike | None = None,
        *,
        scoring: Any = None,
        compare: Any = None,
        by: Any = None,
        per: Literal["record"] | None = None,
        training: tuple[Any, ...] | None = None,
        joint: bool = True,
    ) -> FinalReport:
        """Report final scores with narrow intervals and close the holdout.

        No query follows, so the report uses all the failure probability that is left
        (``spending="final"`` reserves 90% of the total). First, arguments, metrics and models are
        checked, and models are run on a few training records or blank ones. Then the ledger records
        that the report was begun, all rows are computed, and one record with the rows closes the
        holdout. After that, every new query is rejected. The same call and :attr:`report_` return
        the report again, and recorded answers remain free. If a report does not finish (because of
        an interrupt, an error or the end of the process), the holdout stays open. Whether it
        finishes could depend on the holdout, so information is spent: about 4 nats the first time.

        Rows have up to two intervals. *Proven* intervals contain their expected scores at the same
        time as all earlier proven intervals, with the confidence level (see ``joint``).
        *Approximate* intervals have a separate level and need no proven bound. Most of them leave
        out units (records, groups, blocks of time) one by one, or in at most 200 blocks of a secret
        order.

        Parameters
        ----------
        estimators : estimator, predictions, list or dict
            Estimators that were fitted without the holdout, or their predictions of the holdout
            records in order: labels, numbers, or a column of probabilities for each class. The keys
            of a dict are their names.
        cv_scores : float or array-like of shape (n_models,), default=None
            Cross-validated scores of the models, for the first metric. By default the middle of the
            range. They have a small effect on the intervals.
        scoring : str, BoundedMetric, scorer, None, a list or a dict of them, default=None
            Metrics; a dict names them. ``None``: the default metric of the estimator. Scorers of
            scikit-learn and functions ``(estimator, X, y)`` without a proven interval get an
            approximate row. ``"calibration_slope"``, ``"calibration_intercept"`` and
            ``"net_benefit_0.2"`` are for reports only. The positive class is ``pos_label`` as in
            scikit-learn.
        compare : bool, str, estimator or array-like, default=None
            Baseline whose difference to each model is reported, too: ``True`` (the first model),
            the name of a model, another estimator or its predictions. The interval of a difference
            is often narrower than that of either score. In time also ``"naive"`` and
            ``"seasonal-7"``: the last known target, and that of seven dates before.
        by : str, int or dict, default=None
            A column of ``X``, or ``{name: labels}``: a row for each subgroup, and the gap between
            the two, or between each and the rest. Fix subgroups without looking at outcomes.
            Proven gaps use the intervals of both subgroups, each with half the failure probability.
        per : {"record", None}, default=None
            Elements over which scores are averaged. ``None``: units, such as a random visit of a
            random patient; records under a level of privacy, because its noise is added to means
            over records.
        training : tuple (X, y) or (X, y, groups), default=None
            Training records. They determine the range of targets and the classes, which are the
            columns of probabilities in sorted order. Estimators are cross-validated on them to
            estimate the variance of scores and differences, which can make proven intervals
            narrower.
        joint : bool, default=True
            Whether the intervals of a family contain their expected scores at the same time. If
            False, the confidence level is that of each interval alone, and several intervals are
            narrower. A row that is selected after reading, such as the best one, then has no
            guarantee.

        Returns
        -------
        FinalReport
            Rows, text, HTML card and plots.

        Raises
        ------
        HoldoutClosedError
            If another final report closed the holdout.
        UnfinishedReportError, KeyboardInterrupt
            If the report did not finish. The holdout stays open.
        BudgetExhaustedError
            If a declared budget does not suffice for all rows.
        TypeError, ValueError
            If a row cannot be reported. The holdout stays open.
        """
        return report_and_close(
            self,
            estimators,
            cv_scores,
            scoring=scoring,
            compare=compare,
            by=by,
            per=per,
            training=training,
            joint=joint,
        )

    @property
    def report_(self) -> FinalReport:
        """Final report that closed the holdout, from the ledger.

        Raises AttributeError if the holdout is open, or if the report of a filter closed it.
        """
        with self.account.read_transaction() as ledger_state:
            is_closed = ledger_state.totals.closed
            record = ledger_state.latest_record
        if not is_closed:
            raise AttributeError("This holdout has not given a final report yet.")
        if "statements" in record.cells:
            raise AttributeError("A filter closed this holdout: its final_report() shows it again.")
        return load_report(self, record)

    # -- checks -------------------------------------------------------------------------------

    def check_training_rows(self, X: Any, y: Any | None = None) -> None:
        """Raise an error if training records are records of this holdout.

        Records are compared by value. Another order of rows, another type of number or container,
        and permuted columns (if both have names) make no difference. Matches that chance explains
        are accepted, judged by the frequency of equal records in the training data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training records, or those of a cross-validated score.
        y : array-like of shape (n_samples,), default=None
            Their targets; without them records are compared by their features alone.

        Raises
        ------
        SharedRecordsError
            If more records are equal than chance explains. With ``allow_shared_rows=True`` no
            records are compared, and the certificate reports this setting.

        Notes
        -----
        The check reads the holdout, so its result is recorded and spends information, also if no
        record is shared (theory G21). Rows that are known to be training rows spend none, and the
        same rows are compared once. After the final report no rows are compared. With a numeric
        ``epsilon`` or ``calibration="zhao2017"`` no rows are compared, because an exact result has
        no finite level of privacy.
        """
        training_data = TrainingData(((X, y),))
        if not self.allow_shared_rows:
            check_overlap(self, training_data, allows_mixed_tables=True)

    def check_model(self, estimator: Any) -> None:
        """Raise an error if a fitted model contains records of this holdout.

        Nearest neighbors, support vector machines and Gaussian processes contain their training
        rows unchanged. The training rows of other models are unknown.

        Parameters
        ----------
        estimator : object
            A fitted model. Steps of pipelines and wrapped estimators are checked, too.

        Raises
        ------
        SharedRecordsError
            As for :meth:`check_training_rows`.
        """
        stored_rows = self.account.training_rows.stored_training_rows(estimator, self.X)
        if stored_rows.tables and not self.allow_shared_rows:
            check_overlap(self, stored_rows, allows_mixed_tables=True)

    # -- records ------------------------------------------------------------------------------

    def find_answers(self, keys: list[str]) -> dict[str, Any]:
        """Return recorded answers by query key; no information is spent.

        Parameters
        ----------
        keys : list of str
            Query keys.

        Returns
        -------
        dict
            Latest :class:`AnswerRecord` by key, with scores in [0, 1]. Keys without an answer are
            missing.
        """
        queries = [(key, None, None) for key in check_keys(keys) if key is not None]
        with self.account.read_transaction() as ledger_state:
            return {
                key: answer for (key, _, _), answer in ledger_state.find_answers(queries).items()
            }

    def add_note(self, name: str, content: Any) -> None:
        """Record a note in the ledger, in order with the answers.

        Parameters
        ----------
        name : str
            Name to pass to :meth:`notes`.
        content : object
            A JSON-serializable object. It must not contain anything that was computed from holdout
            scores, except released values.

        Raises
        ------
        TypeError
            If the name is not a text, or the content cannot be written as JSON.
        ValueError
            If the content contains NaN or infinity, which JSON does not have.
        """
        if not isinstance(name, str | SystemNote):
            raise TypeError(
                f"name must be a text, got {type(name).__name__}. Nothing was recorded."
            )
        with self.account.write_transaction() as ledger_state:
            try:
                ledger_state.note(name, content)
            except TypeError as error:
                raise TypeError(
                    f"content must be JSON: {error}. Pass text, numbers, lists or dicts, such as "
                    "str(content). Nothing was recorded."
                ) from None

    def notes(self, name: str) -> list[Any]:
        """Return the notes of a name.

        Parameters
        ----------
        name : str
            As passed to :meth:`add_note`.

        Returns
        -------
        list
            Their contents, oldest first; empty without such a note.
        """
        with self.account.read_transaction() as ledger_state:
            return ledger_state.notes(name)

    @property
    def information_spent(self) -> float:
        """Information spent so far by answers, checks and unfinished reports, in nats."""
        with self.account.read_transaction() as ledger_state:
            spent_nats, _ = information_spent(ledger_state.totals, self.account.settings)
        return float(spent_nats)

    @property
    def next_code_length(self) -> float:
        """Code length of the next query in nats, which determines the width of its interval.

        It includes the information spent and the weight of the next batch, because the failure
        probability is divided between all batches and the final report. The rank of a query in its
        batch is not included.
        """
        with self.account.read_transaction() as ledger_state:
            length, _ = next_code_length(ledger_state.totals, self.account.settings)
        return float(length)

    @property
    def remaining_budget(self) -> int | None:
        """Number of corrections by the holdout that are left; ``None`` without a budget.

        All corrections count, also those of class proportions and denominators.
        """
        budget = self.account.settings.budget
        if budget is None:
            return None
        with self.account.read_transaction() as ledger_state:
            return budget - ledger_state.totals.n_rounds

    def certificate(self) -> HoldoutCertificate:
        """Return the current guarantee.

        Returns
        -------
        HoldoutCertificate
            Its ``half_width`` is the largest distance between an answer and an end of its interval:
            among all answers so far that are not relaxed, and for a next single query with a score
            near 1/2. It is a fraction of the range of scores.
        """
        with self.account.read_transaction() as ledger_state:
            return holdout_certificate(self.account, ledger_state)

    def history(self) -> History:
        """Return all released answers, oldest first.

        Returns
        -------
        History
            A sequence of :class:`AnswerRecord`, in score units of their metrics, or in [0, 1] for
            queries without one; ``to_frame()`` returns a table.
        """
        with self.account.read_transaction() as ledger_state:
            return ledger_state.history()

    def _content_for_keys(self):
        """Return the content that query keys depend on: the identity, without answers."""
        return self.account.identity

    def __repr__(self) -> str:
        texts = [f"{label}: {text}" for label, text in self._texts_by_label().items()]
        return f"<ReusableHoldout: {', '.join(texts)}>"

    def _repr_html_(self):
        return Card(type(self).__name__, sections=[("", self._texts_by_label().items())]).html()

    def _texts_by_label(self):
        """Return texts on records, guarantee and information spent, by label.

        If the ledger cannot be read, the name of the error replaces the texts from it.
        """
        settings = self.account.settings
        texts = {
            "records": f"{self.n:,} (in pickles, too)",
            "correlation": self.dependence.describe(),
            "confidence": f"{100 * self.confidence_level:g}%",
            "ledger": str(self.ledger) if self.ledger else "in memory",
        }
        try:
            with self.account.read_transaction() as ledger_state:
                totals = ledger_state.totals
            spent_nats, _ = information_spent(totals, settings)
            texts["answered"] = f"{totals.n_answered:,}"
            texts["of these from the holdout"] = f"{totals.n_above:,}"
            texts["information spent"] = f"{spent_nats:.3g} nats"
            if settings.budget is not None:
                texts["budget left"] = f"{settings.budget - totals.n_rounds}"
        except (LedgerError, ProcessBoundaryError) as error:
            texts["unavailable"] = type(error).__name__
        return texts

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    __sklearn_clone__ = __copy__

    def __getstate__(self):
        raise TypeError(
            "a ReusableHoldout can be written by pickle and joblib, which find its account again. "
            "Any other copy of its state would duplicate the budget. To give a fitted search away, "
            "write search.without_holdout()."
        )

    def __reduce__(self):
        return _restore, (type(self), vars(self) | {"_context": self._context.for_pickle()})

    def _set_state(self, state):
        """Set the attributes that a pickle contains."""
        vars(self).update(state)


def _restore(cls, state):
    """Return the holdout of this process with the same token, or a new one from a pickle."""
    token = state["account"].token
    holdout = LIVE_HOLDOUTS.get(token)
    if holdout is None:
        holdout = cls.__new__(cls)
        LIVE_HOLDOUTS[token] = holdout
        holdout._set_state(state)
    return holdout
