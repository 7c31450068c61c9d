"""The reusable holdout: data, mechanism, ledger and certificate in one object."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import type_of_target

from sklearn_bdp._version import __version__
from sklearn_bdp.correlation.components import check_row_order
from sklearn_bdp.correlation.declaration import check_correlation
from sklearn_bdp.diagnostics.overlap import TrainingData, targets_digest
from sklearn_bdp.diagnostics.tables import check_time_sorted
from sklearn_bdp.exceptions import LedgerError, ProcessBoundaryError, UnboundedMetricError
from sklearn_bdp.holdout.config import HoldoutConfig, check_ledger, document_config_parameters
from sklearn_bdp.ledger.ledger import Fact
from sklearn_bdp.ledger.records import AnswerRecord, History, HoldoutAnswers
from sklearn_bdp.metrics.approximate import OF_DATES, ApproximateMetric
from sklearn_bdp.metrics.base import as_labels
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
from sklearn_bdp.report.plan import out_of_fold_errors
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

    Every query compares a training value with the mean of per-record scores on the
    holdout. Thresholdout answers it; the answer is recorded in a ledger, and only then released,
    with an interval for its expectation. With probability at least ``confidence_level``
    the intervals of *all* answers are correct together, however the queries were chosen.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n, n_features)
        Features of the holdout records. They are copied.
    y : array-like of shape (n,) or (n, n_outputs)
        Targets.
    correlation : object, default=None
        How the holdout records are correlated, anything
        :func:`~sklearn_bdp.correlation.check_correlation` takes. ``None``: independent.
    random_state : int or None, default=None
        ``None``: cryptographic randomness. Use an int only in tests: anyone with the seed can
        subtract the noise, and the certificate reports it.
    gap : int, pair of int or None, default=None
        Records dropped between the training data and this holdout (before it, after it) if both
        were cut from one sequence. ``None``: not cut from the same sequence.
    notes : dict or None, default=None
        Facts that a new ledger starts with, names and JSON content (for instance how the data
        were split); :meth:`notes` and :func:`sklearn_bdp.ledger.read_notes` find them again. An
        existing ledger keeps its own.
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
        All settings, as given.
    ledger : Path or None
        The file.
    confidence_level : float
    on_exhausted : str
    allow_shared_rows : bool
        As given.
    information_spent : float
        Nats that the answers so far have revealed.
    next_code_length : float
        Code length of the next query in nats: the information spent and the weight of its batch.
    remaining_budget : int or None
        Corrected answers left.

    Raises
    ------
    TypeError, ValueError
        If an argument breaks its rule.
    LedgerError
        One of its subclasses, if the ledger cannot be used or belongs to another holdout.

    See Also
    --------
    ReusableHoldoutSearchCV : Splits a holdout off and searches.
    HoldoutScorer : Queries a holdout wherever scikit-learn takes ``scoring``.
    plan_search : How many records a holdout needs.

    Notes
    -----
    A batch is checked, decided, recorded and only then released. An error before the recording
    leaves everything as it was; an interruption after it leaves the answers in the ledger, where
    the same keys find them for free.

    When the budget runs out inside a batch, the queries before that point are answered,
    recorded, listed by :meth:`history` and free to ask again by key. For the rest, and for
    all later queries, ``"raise"`` raises :class:`~sklearn_bdp.exceptions.BudgetExhaustedError`
    (when nothing new could be answered: before anything is recorded); ``"nan"`` gives NaN for the
    value and the interval; ``"cv"`` gives the cross-validated score with the interval
    [0, 1], without any guarantee. These queries are not ``answered``, cost
    nothing and are not recorded. Only new records add budget.

    A copy, deep copy or clone is the same object, in this process also an unpickled one. In another
    process a holdout with a ledger reopens its file, and one without raises
    :class:`~sklearn_bdp.exceptions.ProcessBoundaryError` when asked.

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
        names = [field.name for field in dataclasses.fields(HoldoutConfig)[1:]]
        unknown_names = sorted(parameters.keys() - set(names))
        if unknown_names:
            raise TypeError(
                f"{unknown_names[0]!r} is not a parameter of ReusableHoldout. Its parameters are "
                f"X, y, correlation, random_state, gap, notes, {', '.join(names)}."
            )
        config = HoldoutConfig(**parameters)
        self._open(config, X, y, correlation, gap, random_state, notes)

    @classmethod
    @strip_traceback_frames
    def from_targets(
        cls, y: ArrayLike, *, training_targets: ArrayLike | None = None, **parameters: Any
    ) -> ReusableHoldout:
        """Return a holdout without features, which is asked by predictions.

        Parameters
        ----------
        y : array-like of shape (n,)
            Targets of the holdout records.
        training_targets : array-like, default=None
            Targets that are public anyway, as those of the training set. They give the classes,
            in the order of columns of probabilities, and the range of errors of a regression.
            ``None``: predictions from 0 to 1 of whole-number targets are of the classes 0 and 1.
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
            public = np.asarray(training_targets)
            if public.dtype.kind in "iu" and type_of_target(holdout.y) == "continuous":
                public = public.astype(float)  # a range, not two classes
            holdout.update_context(dry_run_sample=(np.empty((len(public), 0)), public))
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
            Checked when it was made; ``test_size`` has no meaning here.
        X, y, correlation, gap, random_state, notes : object
            As for the class.
        context : HoldoutContext or None, default=None
            Public records that accompany the holdout.

        Returns
        -------
        ReusableHoldout
            A new holdout, or one that continues from the state in the ledger.
        """
        holdout = cls.__new__(cls)
        holdout._open(config, X, y, correlation, gap, random_state, notes, context)
        return holdout

    def _open(self, config, X, y, correlation, gap, random_state, notes, context=None):
        """Check the records, compute the settings, and open the ledger."""
        self.config = config
        self.ledger = check_ledger(config.ledger)
        self.confidence_level: float = config.confidence_level
        self.on_exhausted: str = config.on_exhausted
        self.allow_shared_rows: bool = bool(config.allow_shared_rows)
        seed = random_state
        seed = None if seed is None else check_integer("random_state", seed, low=0)
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
        columns = column_names(self.X)
        header = {
            "made_by": f"sklearn_bdp {__version__}",
            "data": records_digest(self.X, self.y),
            "columns": columns if columns is None else data_digest(columns),
            "correlation": self.dependence.fingerprint(),
            "described": self.dependence.describe(),
            **settings.header(),
        }
        notes = dict(notes or {})
        if config.allow_shared_rows:
            notes[Fact.SHARED_ROWS] = True
        target_digests = {notes.get(Fact.TARGETS), targets_digest(self.X, self.y)} - {None}
        holdout_data = TrainingData(((self.X, self.y),))
        self.account = HoldoutAccountant(
            self.ledger,
            header,
            dependence=self.dependence,
            seed=seed,
            timeout=config.ledger_timeout,
            both_parts_given=self._context.both_parts_given,
            older_data=lambda: data_digest(self.X, self.y),
            notes=notes,
            target_digests=target_digests,
            row_digests=lambda: holdout_data.rows[0],
        )
        LIVE_HOLDOUTS[self.account.token] = self
        self.is_small = warn_if_vacuous(self.account.settings, self.dependence)

    def close(self) -> None:
        """Close the ledger's file or connection in this process; the next query opens it again."""
        self.account.close()

    def __enter__(self) -> ReusableHoldout:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def context(self) -> HoldoutContext:
        """Public records that accompany the holdout in this process."""
        return self._context

    def update_context(self, **changes: Any) -> None:
        """Replace fields of :attr:`context`, as when another search uses the holdout.

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
        cv_scores : array-like of shape (m,)
            Training-side values, in [0, 1]: any numbers computed without the holdout, ideally
            the best guess of the score.
        per_record_scores : array-like of shape (m, n)
            Score of each query on each holdout record, in [0, 1].
        n_train : float or array-like of shape (m,), default=None
            Records behind each training value; by default as many as the holdout has.
        keys : list of (str or None), default=None
            Identifiers of queries. A repeated query with the same key gets the recorded answer and
            costs nothing.
        relaxed_to : float or array-like of shape (m,), default=None
            Least threshold of each query if ``threshold="auto"``. A candidate that is far
            behind needs no answer more precise than about two thirds of its distance from the
            leader, and a relaxed interval saves budget. Public, like all that sets a threshold.
        training_variance : float or array-like of shape (m,), default=None
            Variance of a record's score on the training set, in squared units of [0, 1], at most
            1/4; NaN: unknown. Scores other than 0 and 1 often vary far less than the worst case
            (errors of a regression); if records are independent, the holdout is then asked how
            much the leader's scores vary, and its interval is that much narrower (theory G15).

        Returns
        -------
        HoldoutAnswers
            Arrays ``values, lower, upper, corrected, answered`` of shape (m,).

        Raises
        ------
        TypeError, ValueError
            If an input breaks its rule; nothing is spent.
        BudgetExhaustedError
            If the budget is used up and ``on_exhausted="raise"``.
        ProcessBoundaryError
            If another process queries a holdout without a ledger.
        LedgerError
            One of its subclasses, if the ledger cannot be used; nothing is released.
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
        """Answer one batch of queries given as evaluations by a bounded metric.

        Parameters
        ----------
        cv_scores : array-like of shape (m,)
            Training-side values, in [0, 1].
        evaluations : sequence of Evaluation
            From ``BoundedMetric.evaluate`` on this holdout. Metrics that are not means over records
            are admitted for independent records or groups.
        n_train, keys, relaxed_to : object
            As for :meth:`answer`.
        secondary : array-like of bool, shape (m,), default=None
            Queries that decide nothing, as further metrics of the same models: they come after
            the others and are asked coarsely, so that those keep their narrow intervals.
        training_variance : object
            As for :meth:`answer`.
        training_kurtosis : float or array-like of shape (m,), default=None
            Kurtosis of the same scores, 3 for normal ones; NaN: unknown. The variance of scores
            with a large kurtosis is allowed to be larger on the holdout.
        fixed_half_widths : array-like of shape (m,), default=None
            For queries that have nothing in common, as associations of attributes: each is asked
            once and by itself, with a cell of this half-width around its training value.
            The answer to one query then moves no other answer. Under a fixed threshold that
            threshold is used.
        ranks : array-like of shape (m,), default=None
            Public ranks by which the caller selects one of the queries, the best one first, unless
            the holdout corrects another one to a higher value. The interval of the selected query
            is narrow. If None, the caller selects the highest released value.
        about : sequence of tuple, default=None
            The metric of each query, the model in words, and the submitter, if any. The
            ledger then names them, and :meth:`history` is in units of the metrics.

        Returns
        -------
        HoldoutAnswers
            As for :meth:`answer`.
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
        """Answer how well a fitted estimator does on the holdout.

        Parameters
        ----------
        estimator : estimator
            Fitted without the holdout.
        cv_score : float, default=None
            Its training value, for instance its cross-validated score, in the units of ``scoring``.
            ``None``: the score of out-of-fold predictions of ``training``.
        scoring : str, BoundedMetric, scorer or None, default=None
            A metric. ``None``: the estimator's own score. A regression error has a proven interval
            with declared bounds, ``get_metric("neg_mean_absolute_error", bounds=(low, high))``:
            taken from the holdout's own targets they would give them away.
        training : tuple (X, y) or (X, y, groups), default=None
            Records that the estimator was fitted on. A metric without a proven bound needs them:
            clones of the estimator are cross-validated on them, in five folds, and the spread of
            their predictions gives the interval. ``None``: those of the latest search on this
            holdout, if there was one in this process.
        n_train : float, default=None
            Records behind ``cv_score``; by default those of ``training``, else as many as the
            holdout has.
        training_variance : float, default=None
            Variance of a record's cross-validated score, in squared units of [0, 1]; see
            :meth:`answer`.
        key : str or None, default=None
            Query key. Without one, submitting the same model again spends information again.

        Returns
        -------
        AnswerRecord
            Released score and interval, in the units of ``scoring``; ``float()`` gives the score.

        Raises
        ------
        UnboundedMetricError
            If no guarantee covers the metric; nothing is spent.
        SharedRecordsError
            If the model keeps holdout records among those it was fitted on (:meth:`check_model`),
            or if ``training`` holds such records.
        Exception
            Whatever :meth:`answer` raises.
        """
        self.account.check_process()
        check_fitted(estimator, self.X)
        records = self._training_records(training)
        # Bounds and classes never come from the holdout's own targets: they would be disclosed.
        metric = self._scored_metric(
            scoring, estimator, training_targets=None if records is None else records.y
        )
        reference = None
        if isinstance(metric, ApproximateMetric):
            metric, reference = self._cross_validated(metric, estimator, records)
            expected = self._expected_score(metric, cv_score, reference.score)
        elif cv_score is None:
            raise TypeError(
                f"cv_score is missing: pass the cross-validated {metric.name} of the model. The "
                "holdout was not queried."
            )
        else:
            expected = check_cv_score(metric, cv_score)
        if training is not None:
            self.check_training_rows(*training[:2])
            n_train = num_samples(training[1]) if n_train is None else n_train
        self.check_model(estimator)  # last: it may be charged
        clipped_metric = clip_errors_in_time(
            self, metric, lambda: out_of_fold_errors(estimator, records)
        )
        if clipped_metric is not metric:
            expected = clipped_metric.to_unit(metric.from_unit(expected))
            metric = clipped_metric
        answers = self.answer_evaluations(
            [expected],
            [self._evaluate(metric, estimator, reference=reference)],
            n_train=n_train,
            keys=[key],
            training_variance=training_variance,
            about=[(metric, type(estimator).__name__)],
        )
        return answers[0].in_units()

    def _training_records(self, training):
        """Return training records that a caller passed, or those of the latest search."""
        if training is None:
            return self._context.cv_data
        lengths = [num_samples(part) for part in training] if isinstance(training, tuple) else []
        if len(lengths) not in (2, 3) or len(set(lengths)) != 1:
            raise ValueError(
                "training must be (X, y) or (X, y, groups) of the same training records, got a "
                f"{type(training).__name__} with lengths {lengths}. The holdout was not queried."
            )
        return CVData(*training)

    def _scored_metric(self, scoring, estimator, *, training_targets, declared_targets=None):
        """Return the proven metric of ``scoring``, else an approximate one with its spread.

        ``declared_targets``: public targets whose range bounds errors; ``training_targets``:
        targets of the records from which the spread of a metric without a proven bound is
        estimated.
        """
        proof_needed_for = self.config.proof_needed_for(self.dependence, self.n)
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
                proof_needed_for=proof_needed_for,
                has_class_bounds=False,
                has_dates=scheme.calendar is not None,
            )
        except ValueError as error:
            if training_targets is not None:
                return scorer_metric(
                    scoring,
                    estimator=estimator,
                    y=training_targets,
                    proof_needed_for=proof_needed_for,
                    has_class_bounds=has_class_bounds,
                    has_dates=scheme.calendar is not None,
                )
            if not isinstance(error, UnboundedMetricError) or proof_needed_for:
                raise
            raise UnboundedMetricError(
                f"{error} An approximate interval needs out-of-fold predictions of training "
                "records: pass training=(X, y) to score, or training_predictions=(y, y_pred) to "
                "answer_predictions. The holdout was not queried."
            ) from None

    def _holdout_facts(self, groups):
        """Return the facts about the holdout that the spread of a training set is compared with."""
        scheme = self.dependence.sampling_scheme(self.n)
        rule_out = ""
        if scheme.calendar is not None:
            rule_out = OF_DATES
        elif not scheme.has_independent_records and groups is None:
            rule_out = "the groups of the training records are not declared"
        return {
            "n_holdout_units": scheme.n_units,
            "n_holdout_records": self.n,
            "are_alike": scheme.has_alike_records,
            "rule_out": rule_out,
        }

    def _cross_validated(self, metric, estimator, records):
        """Return the metric with its range, and its reference from cross-validation."""
        rows = slice(None) if records.rows is None else records.rows
        X = safe_indexing(records.X, rows)
        y = safe_indexing(records.y, rows)
        groups = None if records.groups is None else np.asarray(records.groups)
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
                    folds=records.folds,
                    **self._holdout_facts(groups),
                )
        except Exception as error:  # from the model: the records are public
            raise ValueError(
                f"scoring={metric.name!r} has no proven bound, and {type(estimator).__name__} "
                f"could not be cross-validated on the training records: {error} The holdout was "
                "not queried."
            ) from error

    @staticmethod
    def _expected_score(metric, cv_score, out_of_fold):
        """Return the cross-validated score of an approximate metric in [0, 1]."""
        if cv_score is not None:
            return check_cv_score(metric, cv_score)
        if not np.isfinite(out_of_fold):
            raise ValueError(
                f"{metric.name} is undefined on out-of-fold predictions of the training records. "
                "The holdout was not queried."
            )
        return metric.to_unit(out_of_fold)

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
        """Answer how good predictions of the holdout records are; the model stays at home.

        The same predictions submitted again get the recorded answer and cost nothing.

        Parameters
        ----------
        y_pred : array-like of shape (n,), (n, n_classes) or (n, n_outputs)
            Labels, numbers, or a column of probabilities for each class, in the order of the
            holdout records. Of several outputs, a column for each: labels, scores of labels, or
            numbers.
        scoring : str, BoundedMetric, scorer or None, default=None
            A metric that asks a model for predictions only; ``None``: accuracy. Public targets
            (:meth:`from_targets`) say which classes there are, and bound regression errors.
        cv_score : float, default=None
            Expected score, in the units of ``scoring``. ``None``: the score of
            ``training_predictions``, the last score that was released to this submitter for the
            metric, or else the middle of its range.
        training_predictions : tuple (y, y_pred) or (y, y_pred, groups), default=None
            Targets of training records and the model's out-of-fold predictions of them, in the
            form of the first argument. A metric without a proven bound needs them: their spread
            gives its interval. Predictions of records that the model was fitted on have a spread
            that is too small, which no check can find. Use
            :func:`~sklearn.model_selection.cross_val_predict`.
        name, submitter : str or None, default=None
            The submission and its submitter; :meth:`history` shows both.

        Returns
        -------
        AnswerRecord
            Released score and interval, in the units of ``scoring``; ``float()`` gives the score.

        Raises
        ------
        TypeError, ValueError
            If predictions are not as a model gives them; nothing is spent, and none is quoted.
        Exception
            Whatever :meth:`answer` raises.
        """
        self.account.check_process()
        public = None if self._context.dry_run_sample is None else self._context.dry_run_sample[1]
        y_pred = align_predictions("y_pred", y_pred, self)
        model = check_predictions(y_pred, self.y, public, name=name, submitter=submitter)
        trained = self._checked_training_predictions(training_predictions, public)
        # The model names its classes: counts of public targets are not those of a training set.
        names_classes = hasattr(model, "classes_") and as_labels(self.y).ndim == 1
        bounds = None if names_classes else public
        metric = self._scored_metric(
            scoring or "accuracy",
            model,
            declared_targets=bounds,
            training_targets=None if trained is None else trained[0],
        )
        # Predictions that a caller passes set no clip: those of records that a model was fitted on
        # would cut off too much.
        metric = clip_errors_in_time(self, metric, lambda: None)
        metric, reference, expected = self._expected_from(metric, trained, cv_score, submitter)
        try:
            metric.check_estimator(model)
        except TypeError:
            raise model.unsupported_error(metric.name, metric.methods) from None
        if not metric.uses_predictions_only:
            raise ValueError(
                f"scoring={metric.name!r} asks a model for more than predictions. Use a metric by "
                "name, such as 'accuracy'. The holdout was not queried."
            )
        classes = [str(label) for label in getattr(model, "classes_", ())]
        positions = np.arange(self.n)[:, None]
        answers = self.answer_evaluations(
            [0.5 if expected is None else expected],
            [self._evaluate(metric, model, positions, reference=reference)],
            keys=[content_key("predictions", metric_key(metric), model.values, classes)],
            about=[(metric, name, submitter)],
        )
        return answers[0].in_units()

    def _expected_from(self, metric, trained, cv_score, submitter):
        """Return the metric with its public range, its reference or None, and the expected score.

        ``trained``: checked training predictions, or None. The expected score is in [0, 1], None if
        nothing is known.
        """
        if isinstance(metric, ApproximateMetric):
            if trained is None:
                raise UnboundedMetricError(
                    f"scoring={metric.name!r} has no proven bound, and its approximate interval "
                    "needs out-of-fold predictions of training records: pass "
                    "training_predictions=(y, y_pred). The holdout was not queried."
                )
            metric, reference = self._reference_of(metric, *trained)
            return metric, reference, self._expected_score(metric, cv_score, reference.score)
        if cv_score is not None:
            return metric, None, check_cv_score(metric, cv_score)
        with self.account.read_transaction() as book:
            return metric, None, book.last_value(submitter, metric_key(metric))

    def _checked_training_predictions(self, training_predictions, public):
        """Return training targets, checked predictions of them, and groups or None."""
        if training_predictions is None:
            return None
        parts = training_predictions if isinstance(training_predictions, tuple) else ()
        lengths = [num_samples(part) for part in parts]
        if len(lengths) not in (2, 3) or len(set(lengths)) != 1:
            raise ValueError(
                "training_predictions must be (y, y_pred) or (y, y_pred, groups) of the same "
                f"training records, got a {type(training_predictions).__name__} with lengths "
                f"{lengths}. The holdout was not queried."
            )
        y = as_labels(parts[0])
        groups = np.asarray(parts[2]) if len(parts) == 3 else None
        return y, check_predictions(parts[1], y, y if public is None else public), groups

    def _reference_of(self, metric, y, predicted, groups):
        """Return the metric with its range, and its reference from training predictions."""
        unit_codes = None
        scheme = self.dependence.sampling_scheme(self.n)
        if not scheme.has_independent_records and groups is not None:
            unit_codes = np.unique(groups, return_inverse=True)[1]
        positions = np.arange(len(y))[:, None]
        try:
            predictions = metric.predictions(predicted, positions, y)
        except AttributeError:
            methods = np.atleast_1d(metric.scorer._response_method)
            raise predicted.unsupported_error(metric.name, methods) from None
        return reference_of_predictions(
            metric,
            dataclasses.replace(predictions, from_caller=True),
            unit_codes=unit_codes,
            **self._holdout_facts(groups),
        )

    def _evaluate(self, metric, estimator, X=None, *, reference=None):
        """Return raw scores, for the mechanism only; ``X``: positions, for predictions."""
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
        scoring: str | BoundedMetric | None = None,
        prevalence: float | None = None,
        training_variance: float = np.nan,
    ) -> Preview:
        """Preview the next batch before any query is made; nothing is spent.

        Parameters
        ----------
        n_queries : int, default=1
            Queries of the batch.
        score : float, default=0.5
            Approximate expected score, in [0, 1]: the nearer to 0 or 1, the narrower.
        n_train : float, default=None
            Records behind each training value; by default as many as the holdout has.
        scoring : str or BoundedMetric, default=None
            The metric, accuracy by default. Scores by class (ROC AUC) have wider intervals.
        prevalence : float, default=None
            For scores of two classes: share of positive records. By default the share that
            was queried before, else 1/2. The text of the preview reports which.
        training_variance : float, default=nan
            For means over records: variance of a record's score on the training set, in squared
            units of [0, 1]; see :meth:`answer`. NaN: unknown, and widths are those of the worst
            case.

        Returns
        -------
        Preview
            Half-widths of the leader and of others, and the nats expected to be spent.
        """
        count = check_integer("n_queries", n_queries, low=1)
        expected = check_real("score", score, low=0.0, high=1.0)
        size = check_real("n_train", self.n if n_train is None else n_train, low=1.0)
        self.account.check_process()
        metric = forecast_metric(scoring)
        if prevalence is not None:
            prevalence = check_probability("prevalence", prevalence)
        if not np.isnan(training_variance):
            training_variance = check_real(
                "training_variance", training_variance, low=0.0, high=0.25
            )
        with self.account.read_transaction() as book:
            return preview_batch(
                self.account,
                book,
                score=expected,
                n_train=size,
                n_queries=count,
                metric=metric,
                prevalence=prevalence,
                training_variance=training_variance,
            )

    # -- the end ------------------------------------------------------------------------------

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

        Nothing is asked afterwards, so the report gets all the failure probability that is left
        (``spending="final"`` reserves 90% of it). Everything is checked first: arguments, metrics,
        models, and one run of each on blank records. Then the ledger records that the report is
        begun, all rows are computed, and one record closes the holdout and holds them. From then on
        every new query is rejected; the same call returns the report again, :attr:`report_` shows
        it, and recorded answers remain free. A report that does not finish (an interrupt, an error,
        the death of the process) leaves the holdout open. How it ended could depend on the holdout,
        so that it is charged: about 4 nats the first time.

        Rows have up to two intervals. *Proven* ones hold jointly with all earlier intervals.
        *Approximate* ones, at a level of their own, exist for any metric: they leave out units
        (records, groups, blocks of time) one by one or in at most 200 blocks of a secret order.

        Parameters
        ----------
        estimators : estimator, predictions, list or dict
            Fitted without the holdout, or their predictions of the holdout's records in its order:
            labels, numbers, or a column of probabilities for each class. A dict gives names.
        cv_scores : float or array-like of shape (n_models,), default=None
            Training-side scores of the models, for the first metric. By default the middle of the
            range. They change little.
        scoring : str, BoundedMetric, scorer, None, a list or a dict of them, default=None
            Metrics; a dict names them. ``None``: the usual one for the estimator. Scorers of
            scikit-learn and functions ``(estimator, X, y)`` without a proven interval get an
            approximate row. ``"calibration_slope"``, ``"calibration_intercept"`` and
            ``"net_benefit_0.2"`` are for reports only. The class that counts is ``pos_label`` as in
            scikit-learn.
        compare : bool, str, estimator or array-like, default=None
            Report the difference of each model to a baseline, too: ``True`` (the first model), the
            name of a model, another estimator or its predictions. It is known better than either
            score. In time also ``"naive"`` and ``"seasonal-7"``: the last known target, and that of
            seven dates before.
        by : str, int or dict, default=None
            A column of ``X``, or ``{name: labels}``: a row for each subgroup, and the gap between
            the two, or between each and the rest. Fix subgroups without looking at outcomes.
            Proven gaps rest on both subgroups, each at half the level.
        per : {"record", None}, default=None
            Elements that scores average over. ``None``: units, a random visit of a random patient;
            records under a level of privacy, whose noise is added to means over records.
        training : tuple (X, y) or (X, y, groups), default=None
            Training records. They give the range of targets and classes, and how much scores and
            differences vary (models are cross-validated on them), which makes proven intervals
            narrower.

        joint : bool, default=True
            Whether the intervals of a family hold together. If False, each holds by itself at the
            confidence level, and is narrower if there are several; a row that is chosen after
            reading, such as the best one, then has no guarantee.

        Returns
        -------
        FinalReport
            Rows, text, HTML card and pictures.

        Raises
        ------
        HoldoutClosedError
            If there was another final report before.
        UnfinishedReportError, KeyboardInterrupt
            If the report did not finish. The holdout stays open.
        BudgetExhaustedError
            If a declared budget does not suffice for all rows.
        TypeError, ValueError
            If something cannot be reported. The holdout stays open.
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
        """The final report that closed the holdout, from the ledger."""
        with self.account.read_transaction() as book:
            is_closed = book.last.closed
            record = book.latest_record
        if not is_closed:
            raise AttributeError("This holdout has not given a final report yet.")
        if "statements" in record.cells:
            raise AttributeError("A filter closed this holdout: its final_report() shows it again.")
        return load_report(self, record)

    # -- checks -------------------------------------------------------------------------------

    def check_training_rows(self, X: Any, y: Any | None = None) -> None:
        """Refuse training records that are records of this holdout.

        They are compared by value: another order, type of number or container does not hide them,
        nor do permuted columns if both sides have names. Matches that chance explains are accepted,
        judged by how often training records equal one another.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training records, or those behind a training value.
        y : array-like of shape (n_samples,), default=None
            Their targets; without them records are compared by their features alone.

        Raises
        ------
        SharedRecordsError
            If more records are equal than chance explains and the holdout was not made with
            ``allow_shared_rows=True``. If it was, the certificate reports it.

        Notes
        -----
        The check reads the holdout, so that its result is recorded and charged, also when it finds
        nothing (theory G21). Rows that are known to be training rows cost nothing, and the same
        rows are compared once. Under a numeric ``epsilon`` or ``calibration="zhao2017"`` nothing is
        compared, because an exact word has no finite level of privacy.
        """
        side = TrainingData(((X, y),))
        if not self.allow_shared_rows:
            check_overlap(self, side, explicit=True)

    def check_model(self, estimator: Any) -> None:
        """Refuse a model that keeps records of this holdout among those it was fitted on.

        Nearest neighbors, support vector machines and Gaussian processes keep their training rows
        unchanged. The training rows of other models cannot be seen.

        Parameters
        ----------
        estimator : object
            Fitted; steps of pipelines and wrapped estimators are looked at, too.

        Raises
        ------
        SharedRecordsError
            As :meth:`check_training_rows`.
        """
        stored_rows = self.account.training_rows.stored_training_rows(estimator, self.X)
        if stored_rows.tables and not self.allow_shared_rows:
            check_overlap(self, stored_rows, explicit=True)

    # -- records ------------------------------------------------------------------------------

    def find_answers(self, keys: list[str]) -> dict[str, Any]:
        """Return recorded answers; this spends nothing.

        Parameters
        ----------
        keys : list of str
            Keys of queries.

        Returns
        -------
        dict
            :class:`AnswerRecord` of each key that has one.
        """
        queries = [(key, None, None) for key in check_keys(keys) if key is not None]
        with self.account.read_transaction() as book:
            return {query[0]: answer for query, answer in book.match(queries).items()}

    def add_note(self, name: str, content: Any) -> None:
        """Record a fact with the holdout, as durably as its answers and in their order.

        Parameters
        ----------
        name : str
            Name to pass to :meth:`notes`.
        content : object
            Any JSON-serializable object; nothing computed from holdout scores, except released
            values.
        """
        with self.account.write_transaction() as book:
            try:
                book.note(name, content)
            except TypeError as error:
                raise TypeError(f"name must be a text and content JSON: {error}.") from None

    def notes(self, name: str) -> list[Any]:
        """Return the facts recorded under a name.

        Parameters
        ----------
        name : str
            As given to :meth:`add_note`.

        Returns
        -------
        list
            Their contents, oldest first.
        """
        with self.account.read_transaction() as book:
            return book.notes(name)

    @property
    def information_spent(self) -> float:
        """Nats that all answers so far have revealed: 0 before the first one."""
        with self.account.read_transaction() as book:
            return float(information_spent(book.last, self.account.settings)[0])

    @property
    def next_code_length(self) -> float:
        """Code length of the next query in nats, which determines the width of its interval.

        It is the information spent and the weight of the next batch: the failure probability is
        spread over all batches, and most of it is reserved for the final report. The rank of a
        query in its batch is not included.
        """
        with self.account.read_transaction() as book:
            return float(next_code_length(book.last, self.account.settings)[0])

    @property
    def remaining_budget(self) -> int | None:
        """Number of corrected answers left; ``None`` if there is no maximum."""
        budget = self.account.settings.budget
        if budget is None:
            return None
        with self.account.read_transaction() as book:
            return budget - book.last.n_rounds

    def certificate(self) -> HoldoutCertificate:
        """Return the current guarantee.

        Returns
        -------
        HoldoutCertificate
            ``tau`` is the largest distance between an answer and an end of its interval: among
            all answers so far, and for the next query if its score is near 1/2.
        """
        with self.account.read_transaction() as book:
            return holdout_certificate(self.account, book)

    def history(self) -> History:
        """Return everything released so far, oldest first.

        Returns
        -------
        History
            A sequence of :class:`AnswerRecord`, in the units of their metrics; ``to_frame()`` makes
            a table.
        """
        with self.account.read_transaction() as book:
            return book.history()

    def _content_for_keys(self):
        """Return the identity of a holdout for keys of models that contain it, without answers."""
        return self.account.identity

    def __repr__(self) -> str:
        summary = ", ".join(f"{label}: {text}" for label, text in self._summary().items())
        return f"<ReusableHoldout: {summary}>"

    def _repr_html_(self):
        return Card(type(self).__name__, sections=[("", self._summary().items())]).html()

    def _summary(self):
        """Return ``{label: text}``: shape, guarantee and information spent; never a score."""
        settings = self.account.settings
        summary = {
            "records": f"{self.n:,} (in pickles, too)",
            "correlation": self.dependence.describe(),
            "confidence": f"{100 * self.confidence_level:g}%",
            "ledger": str(self.ledger) if self.ledger else "in memory",
        }
        try:
            with self.account.read_transaction() as ledger_state:
                last = ledger_state.last
            summary["answered"] = f"{last.n_answered:,}"
            summary["of these from the holdout"] = f"{last.n_above:,}"
            summary["information spent"] = f"{information_spent(last, settings)[0]:.3g} nats"
            if settings.budget is not None:
                summary["budget left"] = f"{settings.budget - last.n_rounds}"
        except (LedgerError, ProcessBoundaryError) as error:
            summary["unavailable"] = type(error).__name__
        return summary

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    __sklearn_clone__ = __copy__

    def __getstate__(self):
        raise TypeError(
            "a ReusableHoldout can be written by pickle and joblib, which find its account again; "
            "any other copy of its state would duplicate the budget. To give a fitted search away, "
            "write search.without_holdout()."
        )

    def __reduce__(self):
        return _restore, (type(self), vars(self) | {"_context": self._context.for_pickle()})

    def _set_state(self, state):
        """Set the attributes that a pickle holds."""
        vars(self).update(state)


def _restore(cls, state):
    """Return the holdout of this process, or a new one with the unpickled account."""
    token = state["account"].token
    holdout = LIVE_HOLDOUTS.get(token)
    if holdout is None:
        holdout = cls.__new__(cls)
        LIVE_HOLDOUTS[token] = holdout
        holdout._set_state(state)
    return holdout
