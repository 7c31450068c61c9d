"""The holdout that can be asked again and again."""

from __future__ import annotations

import datetime
import math
import secrets
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bdp._checks import caller_level, check_integer, check_option, check_real
from sklearn_bdp._digests import data_digest, freeze_data, is_content_key, query_key
from sklearn_bdp._sealed import sealed_errors
from sklearn_bdp._version import __version__
from sklearn_bdp.accounting import PredictiveCode
from sklearn_bdp.correlation import check_correlation
from sklearn_bdp.exceptions import VacuousGuaranteeWarning
from sklearn_bdp.holdout._batch import decide, exhausted_error
from sklearn_bdp.holdout._certificate import first_width
from sklearn_bdp.holdout._identity import LedgerHandle
from sklearn_bdp.holdout._inputs import (
    check_data,
    check_evaluations,
    check_path,
    check_queries,
    check_training_value,
    first_askings,
    scored_means,
)
from sklearn_bdp.holdout._report import (
    FinalReport,
    check_open,
    close,
    preview_batch,
)
from sklearn_bdp.holdout._settings import (
    ON_EXHAUSTED,
    Settings,
    check_parameters,
    restored_mechanism,
)
from sklearn_bdp.ledger import HoldoutAnswers, HoldoutScore, canonical
from sklearn_bdp.metrics import get_metric

if TYPE_CHECKING:
    from sklearn_bdp.holdout._report import Preview
    from sklearn_bdp.metrics import BoundedMetric, Evaluation

__all__ = ["ReusableHoldout"]


class ReusableHoldout(LedgerHandle):
    r"""A holdout set that answers adaptively chosen queries and stays a holdout.

    Every query compares a training-side value with the mean of per-record scores on the
    holdout. Thresholdout answers it; the answer is recorded in a ledger, and only then released,
    with an interval for its expectation. With probability at least ``1 - beta`` the intervals of
    *all* answers ever given hold at once, whatever made the analyst ask.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n, n_features)
        Features of the holdout records. They are copied.
    y : array-like of shape (n,) or (n, n_outputs)
        Targets.
    correlation : object, default=None
        How the holdout records are correlated, anything
        :func:`~sklearn_bdp.correlation.check_correlation` takes. ``None``: independent.
    beta : float, default=0.05
        Probability that any of the intervals is wrong.
    epsilon : float or "auto", default="auto"
        A Bayesian differential privacy level (nats) for the whole life of the holdout, or as much
        noise as widens intervals by at most a tenth; the level reached is then reported.
    calibration : {"tight", "zhao2017"}, default="tight"
        ``"zhao2017"``: Theorem 2 of [1]_ to the letter, with ``n_queries`` and ``budget``.
    threshold : float or "auto", default="auto"
        Deviation from which a query is answered from the holdout. ``"auto"``: for each query, from
        public quantities only. A batch is then a race: whoever leads by prediction is compared
        at a fine threshold (:class:`~sklearn_bdp.accounting.Pace` says how fine), the others at
        a coarse one, :math:`5.5 \sqrt{\tilde v(1-\tilde v)(1/n_\mathrm{eff} + 1/n_D)}` with
        :math:`\tilde v` the prediction, drawn slightly towards 1/2, and :math:`n_D` the
        ``training_size``; whoever then leads is asked again, finely. Where a ``budget``, a
        numeric ``epsilon`` or a ``resolution`` is given, every query is asked once, in order, at
        :func:`~sklearn_bdp.accounting.auto_threshold`.
    budget : int or None, default=None
        Number of answers from the holdout ("above"). ``None``: no cap, or 10 with a numeric
        ``epsilon``.
    n_queries : int or None, default=None
        Number of queries that Theorem 2 is calibrated to; other calibrations need none.
    resolution : float or "auto", default="auto"
        Grid step of released answers, at least 1e-6. ``"auto"``: in a race, cells around each
        prediction, as wide as the query's fine threshold on either side; else a fraction of the
        Hoeffding half-width :math:`\sqrt{\ln(2/\beta)/(2 n_\mathrm{eff})}` of one fixed query
        (:func:`~sklearn_bdp.accounting.auto_resolution`).
    ledger : str, Path or None, default=None
        SQLite file that keeps the records and is shared by all processes; it is created if it
        does not exist. ``None`` keeps them in the memory of this process.
    on_exhausted : {"raise", "nan", "training"}, default="raise"
        What happens to queries once the budget is used up; see Notes.
    random_state : int or None, default=None
        ``None``: cryptographic randomness. A seed is for tests: whoever knows it can subtract the
        noise, and the certificate says so.
    gap : int, pair of int or None, default=None
        Records dropped between the training data and this holdout (before it, after it) where both
        were cut from one sequence. ``None``: not cut from the same sequence.
    ledger_timeout : float, default=60.0
        Longest wait for other threads and processes, in seconds.
    notes : dict or None, default=None
        Facts that a new ledger starts with, names and JSON content (for instance how the data
        were split); :meth:`notes` and :func:`sklearn_bdp.ledger.read_notes` find them again. An
        existing ledger keeps its own.
    allow_shared_rows : bool, default=False
        Whether training records may equal holdout records in greater number than chance explains
        (:meth:`check_training_rows`), as in a population with equal records. The certificate says
        so once it happens. By default they are refused.

    Attributes
    ----------
    X, y : array-like
        The holdout records.
    n : int
        Number of records.
    model : CorrelationModel
        The declared correlation.
    beta : float
        As given.
    ledger : Path or None
        The file.
    on_exhausted : str
        As given.
    information_spent : float
        Information spent so far, in nats.
    remaining_budget : int or None
        "Above" answers left.

    Raises
    ------
    TypeError, ValueError
        If an argument breaks its rule.
    LedgerError
        One of its subclasses, if the ledger cannot be used or belongs to another holdout.

    Notes
    -----
    A batch is checked, decided, recorded and only then released. An error before the recording
    leaves everything as it was; an interruption after it leaves the answers in the ledger, where
    the same keys find them for free.

    When the budget runs out inside a batch, the queries before that point are answered,
    recorded, listed by :meth:`history` and free to ask again by key. For the rest, and for
    all later queries, ``"raise"`` raises :class:`~sklearn_bdp.exceptions.BudgetExhaustedError`
    (when nothing new could be answered: before anything is recorded); ``"nan"`` gives NaN for the
    value and the interval; ``"training"`` gives the training-side value with the interval
    [0, 1], which says that nothing is promised. These queries are not ``answered``, cost
    nothing and are not recorded. Only new data buys more.

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
    >>> answers.above.tolist()
    [False, True]
    >>> bool(np.all((answers.lower < 0.5) & (0.5 < answers.upper)))
    True
    >>> len(holdout.history())
    2
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        correlation: Any = None,
        beta: float = 0.05,
        epsilon: float | Literal["auto"] = "auto",
        calibration: Literal["tight", "zhao2017"] = "tight",
        threshold: float | Literal["auto"] = "auto",
        budget: int | None = None,
        n_queries: int | None = None,
        resolution: float | Literal["auto"] = "auto",
        ledger: str | Path | None = None,
        on_exhausted: Literal["raise", "nan", "training"] = "raise",
        random_state: int | None = None,
        gap: int | tuple[int, int] | None = None,
        ledger_timeout: float = 60.0,
        notes: dict[str, Any] | None = None,
        allow_shared_rows: bool = False,
    ) -> None:
        parameters = check_parameters(
            beta=beta, epsilon=epsilon, calibration=calibration, threshold=threshold, budget=budget,
            n_queries=n_queries, resolution=resolution, gap=gap,
        )  # fmt: skip
        self.on_exhausted = check_option("on_exhausted", on_exhausted, ON_EXHAUSTED)
        seed = random_state
        if seed is not None:
            seed = check_integer("random_state", seed, low=0)
        timeout = check_real("ledger_timeout", ledger_timeout, low=0.0, high=1e6)
        if not isinstance(allow_shared_rows, bool | np.bool_):
            raise TypeError(f"allow_shared_rows must be True or False, got {allow_shared_rows!r}.")
        self._allow_shared = bool(allow_shared_rows)
        self.ledger = check_path(ledger)
        self.n = check_data(X, y)
        self.model = check_correlation(correlation)
        self.model.check_n(self.n)
        self.beta = parameters["beta"]
        self.X, self.y = freeze_data(X), freeze_data(y)
        settings = Settings.made(parameters, model=self.model, n=self.n)
        header = {
            "made_by": f"sklearn_bdp {__version__}",
            "data": data_digest(self.X, self.y),
            "correlation": self.model.fingerprint(),
            "described": self.model.describe(),
            **settings.header(),
        }
        self._attach(header, seed=seed, timeout=timeout, notes=notes)
        self._warn_if_vacuous()

    # -- queries ------------------------------------------------------------------------------

    @sealed_errors
    def answer(
        self,
        training_values: ArrayLike,
        per_record_scores: ArrayLike,
        *,
        training_size: ArrayLike | None = None,
        keys: list[str | None] | None = None,
        slack: ArrayLike | None = None,
        training_variance: ArrayLike | None = None,
    ) -> HoldoutAnswers:
        """Answer one batch of queries that were fixed before any of its answers is seen.

        Parameters
        ----------
        training_values : array-like of shape (m,)
            Training-side values, in [0, 1]: any numbers computed without the holdout, ideally
            the best guess of the score.
        per_record_scores : array-like of shape (m, n)
            Score of each query on each holdout record, in [0, 1].
        training_size : float or array-like of shape (m,), default=None
            Records behind each training-side value; by default as many as the holdout has.
        keys : list of (str or None), default=None
            What each query is known by; see :func:`query_key`. A query asked again
            under its key gets the recorded answer and costs nothing.
        slack : float or array-like of shape (m,), default=None
            Least threshold of each query where ``threshold="auto"``. A candidate that is far
            behind needs no answer more precise than about half its distance from the leader, and
            leaving it alone saves budget. Public, like everything that sets a threshold.
        training_variance : float or array-like of shape (m,), default=None
            Variance of a record's score on the training side, in squared units of [0, 1], at most
            1/4; NaN: unknown. Scores other than 0 and 1 often vary far less than the worst case
            (errors of a regression); where records are independent, the holdout is then asked how
            much the leader's scores vary, and its interval is that much narrower (theory G15).

        Returns
        -------
        HoldoutAnswers
            Arrays ``values, lower, upper, above, answered`` of shape (m,).

        Raises
        ------
        TypeError, ValueError
            If an input breaks its rule; nothing is spent.
        BudgetExhaustedError
            If the budget is used up and ``on_exhausted="raise"``.
        ProcessBoundaryError
            If another process asks a holdout without a ledger.
        LedgerError
            One of its subclasses, if the ledger cannot be used; nothing is released.
        """
        scored = scored_means(per_record_scores, self.n, self.model)
        return self._ask(
            training_values, scored, training_size, keys, slack, variances=training_variance
        )

    @sealed_errors
    def answer_evaluations(
        self,
        training_values: ArrayLike,
        evaluations: Sequence[Evaluation],
        *,
        training_size: Any = None,
        keys: Any = None,
        slack: Any = None,
        beside: ArrayLike | None = None,
        training_variance: Any = None,
    ) -> HoldoutAnswers:
        """Answer one batch of queries given as evaluations by a bounded metric.

        Parameters
        ----------
        training_values : array-like of shape (m,)
            Training-side values, in [0, 1].
        evaluations : sequence of Evaluation
            From ``BoundedMetric.evaluate`` on this holdout. Metrics that are no mean over records
            are admitted for independent records or groups.
        training_size, keys, slack, training_variance : object
            As for :meth:`answer`.
        beside : array-like of bool, shape (m,), default=None
            Queries that decide nothing, as further metrics of the same models: they come after
            the others and are asked coarsely, so that those keep their narrow intervals.

        Returns
        -------
        HoldoutAnswers
            As for :meth:`answer`.
        """
        scored = check_evaluations(evaluations, self.n, self.model)
        return self._ask(
            training_values,
            scored,
            training_size,
            keys,
            slack,
            beside=beside,
            variances=training_variance,
        )

    @sealed_errors
    def score(
        self,
        estimator: Any,
        training_value: float,
        *,
        scoring: str | BoundedMetric | None = None,
        training_size: float | None = None,
        training_variance: float | None = None,
        key: str | None = None,
    ) -> HoldoutScore:
        """Answer how well a fitted estimator does on the holdout.

        Parameters
        ----------
        estimator : estimator
            Fitted without the holdout.
        training_value : float
            Its training-side score, for instance cross-validated, in the units of ``scoring``.
        scoring : str, BoundedMetric or None, default=None
            A bounded metric; ``None``: the usual one for the estimator. A regression error needs
            declared bounds, ``get_metric("neg_mean_absolute_error", bounds=(low, high))``: taken
            from the holdout's own targets they would give them away.
        training_size : float, default=None
            Records behind ``training_value``; by default as many as the holdout has.
        training_variance : float, default=None
            Variance of a record's training-side score, in squared units of [0, 1]; see
            :meth:`answer`.
        key : str or None, default=None
            What the query is known by.

        Returns
        -------
        HoldoutScore
            Released score and interval, in the units of ``scoring``; ``float()`` gives the score.

        Raises
        ------
        UnboundedMetricError
            If no guarantee covers the metric; nothing is spent.
        Exception
            Whatever :meth:`answer` raises.
        """
        self._require_home()
        if isinstance(estimator, BaseEstimator):
            check_is_fitted(estimator)
        # Never bounds or classes from the holdout's own targets: they would be given away.
        metric = get_metric(scoring, estimator=estimator)
        value = check_training_value(metric, training_value)
        scored = check_evaluations([self._evaluate(metric, estimator)], self.n, self.model)
        asked = f"{metric.name} {query_key(repr(metric))[:16]}"
        answers = self._ask(
            [value],
            scored,
            training_size,
            [key],
            None,
            metric=asked,
            variances=training_variance,
        )
        worst = bool(answers.above[0] and answers.lower[0] == 0.0)
        # What is said follows from the release and from blank records: it gives nothing away.
        if worst and metric.fails_on_blanks(estimator, self.X, self.y):
            raise ValueError(
                "the model seems to fail on every record: its released score is at the bottom of "
                "the range, and it fails on blank records of the same form. The answer is recorded."
            )
        return HoldoutScore(
            value=float(metric.from_unit(answers.values[0])),
            lower=float(metric.from_unit(answers.lower[0])),
            upper=float(metric.from_unit(answers.upper[0])),
            above=bool(answers.above[0]),
            answered=bool(answers.answered[0]),
        )

    def preview(
        self, n_queries: int = 1, *, score: float = 0.5, training_size: float | None = None
    ) -> Preview:
        """Work out what the next batch would get, before anything is asked; nothing is spent.

        Parameters
        ----------
        n_queries : int, default=1
            Queries of the batch.
        score : float, default=0.5
            About what score is expected, in [0, 1]: the nearer to 0 or 1, the narrower.
        training_size : float, default=None
            Records behind each training-side value; by default as many as the holdout has.

        Returns
        -------
        Preview
            Half-widths of the leader and of others, and the nats expected to be spent.
        """
        count = check_integer("n_queries", n_queries, low=1)
        expected = check_real("score", score, low=0.0, high=1.0)
        size = check_real(
            "training_size", self.n if training_size is None else training_size, low=1.0
        )
        self._require_home()
        with self._reading() as transaction:
            last = transaction.last
            code = self._code(transaction)
        check_open(last)
        return preview_batch(
            last,
            code,
            n_queries=count,
            score=expected,
            training_size=size,
            settings=self._settings,
            model=self.model,
        )

    @sealed_errors
    def final_report(
        self,
        estimator: Any,
        training_value: float | None = None,
        *,
        scoring: str | BoundedMetric | None = None,
        training_variance: float | None = None,
        name: str | None = None,
    ) -> FinalReport:
        """Speak the last word: the verified score of one model, finely, and close the holdout.

        Nothing is asked after it, so the release costs later answers nothing and may be as fine
        as noise allows. The ledger records that the holdout is closed; every new query is refused
        from then on. Recorded answers stay free.

        Parameters
        ----------
        estimator : estimator
            Fitted without the holdout.
        training_value : float, default=None
            Its training-side score, for the record; by default the middle of the range.
        scoring : str, BoundedMetric or None, default=None
            A bounded metric; ``None``: the usual one for the estimator.
        training_variance : float, default=None
            Variance of a record's training-side score, in squared units of [0, 1]; see
            :meth:`answer`.
        name : str, default=None
            What the report calls the model; by default its class.

        Returns
        -------
        FinalReport
            A card with the score, its interval, what was asked before and what has to be true;
            ``str`` and HTML.

        Raises
        ------
        HoldoutClosedError
            If there was a final report before.
        BudgetExhaustedError
            If a budget was declared and is used up: the last word looks at the holdout, too.
        """
        self._require_home()
        if isinstance(estimator, BaseEstimator):
            check_is_fitted(estimator)
        metric = get_metric(scoring, estimator=estimator)
        expected = 0.5
        if training_value is not None:
            expected = check_training_value(metric, training_value)
        with self._reading() as transaction:
            check_open(transaction.last)
        scored = check_evaluations([self._evaluate(metric, estimator)], self.n, self.model)
        queries = check_queries(
            [expected],
            scored,
            model=self.model,
            n=self.n,
            training_size=None,
            keys=None,
            variances=training_variance,
        )
        before, answer = self._close(queries)
        certificate = self.certificate()
        return FinalReport(
            name=type(estimator).__name__ if name is None else str(name),
            scoring=metric.name,
            value=float(metric.from_unit(answer.value)),
            lower=float(metric.from_unit(answer.lower)),
            upper=float(metric.from_unit(answer.upper)),
            beta=self.beta,
            n=self.n,
            n_answered=before.n_answered,
            n_above=before.n_above,
            information_spent=answer.code_length,
            assumptions=certificate.assumptions,
            time=answer.time,
        )

    def _close(self, queries):
        """Record the last word; return the account before it and the answer."""
        with self._writing() as transaction:
            last = transaction.last
            check_open(last)
            budget = self._settings.budget
            if budget is not None and last.n_above >= budget:
                raise exhausted_error(self._settings, last, unanswered=1)
            mechanism = self._mechanism(transaction.sealed(), last.number + 1, fine=True)
            record, answer = close(
                queries,
                last=last,
                code=self._code(transaction),
                mechanism=mechanism,
                settings=self._settings,
                time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
                seeded=self._seed is not None,
            )
            sealed = {"mechanism": mechanism.state(), "salt": secrets.token_hex(16)}
            transaction.append(record, sealed=canonical(sealed), answers=[answer])
        return last, answer

    def _evaluate(self, metric, estimator):
        with warnings.catch_warnings():  # what a metric warns about may tell of the holdout
            warnings.simplefilter("ignore")
            return metric.evaluate(estimator, self.X, self.y)

    def _ask(
        self,
        training_values,
        scored,
        training_size,
        keys,
        slack,
        *,
        metric=None,
        beside=None,
        variances=None,
    ):
        """Check, look up, decide, record; then release."""
        self._require_home()
        queries = check_queries(
            training_values,
            scored,
            model=self.model,
            n=self.n,
            training_size=training_size,
            keys=keys,
            slack=slack,
            beside=beside,
            variances=variances,
        )
        # A caller's key is known together with what it was asked with: under another training-side
        # value or metric it is another query, and must not get the old number.
        names = [
            None if key is None else (key, None if is_content_key(key) else float(value), metric)
            for key, value in zip(queries.keys, queries.training_values, strict=True)
        ]
        wanted = [name for name in names if name is not None]
        if len(wanted) == len(queries):
            with self._reading() as transaction:
                known = transaction.match(wanted)
            if all(name in known for name in wanted):
                return self._release(queries, [known[name] for name in names])
        with self._writing() as transaction:
            known = transaction.match(wanted)
            new = first_askings(names, known)
            answers, exhausted = [], False
            if new:
                answers, exhausted = self._decide(queries.take(new), transaction, metric)
            if exhausted and not answers and self.on_exhausted == "raise":
                raise exhausted_error(self._settings, transaction.last, unanswered=len(new))
            last = transaction.last
        if exhausted and self.on_exhausted == "raise":
            raise exhausted_error(
                self._settings, last, answered=len(answers), unanswered=len(new) - len(answers)
            )
        fresh = dict(zip(new, answers, strict=False))
        known.update((names[position], answer) for position, answer in fresh.items())
        return self._release(
            queries,
            [
                fresh.get(position) if name is None else known.get(name)
                for position, name in enumerate(names)
            ],
        )

    def _decide(self, queries, transaction, metric):
        """Run the mechanism on new queries and write the batch; not durable yet."""
        last = transaction.last
        check_open(last)
        number = last.number + 1
        mechanism = self._mechanism(transaction.sealed(), number)
        record, answers = decide(
            queries,
            last=last,
            code=self._code(transaction),
            mechanism=mechanism,
            settings=self._settings,
            model=self.model,
            time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            seeded=self._seed is not None,
            metric=metric,
        )
        if record is not None:
            # The salt keeps the commitment to the noise from being searched.
            sealed = {"mechanism": mechanism.state(), "salt": secrets.token_hex(16)}
            transaction.append(record, sealed=canonical(sealed), answers=answers)
        return answers, len(answers) < len(queries)

    def _mechanism(self, sealed, number, *, fine=False):
        """Return Thresholdout after the last batch, with noise of its own for this one.

        ``fine``: without the grid of released answers, for the last word.
        """
        noise = None
        if self._seed is not None:
            # Seed and batch number: the same in every process, never the same twice.
            noise = np.random.default_rng(np.random.SeedSequence([self._seed, number]))
        if sealed is None:
            mechanism = self._settings.mechanism(random_state=noise)
        else:
            if noise is not None:
                noise.integers(0, 2**32, size=8)  # a seed gives the noise that it always gave
            mechanism = restored_mechanism(sealed, self._settings, random_state=noise)
        if fine:
            state = mechanism.state() | {"resolution": 0.0}
            mechanism = type(mechanism).from_state(state, random_state=noise)
        return mechanism

    def _code(self, transaction):
        """Return the predictive code after every recorded batch."""
        number, known = self._learned or (0, PredictiveCode())
        for account in transaction.accounts(after=number):
            known.follow(account.code)
        self._learned = (transaction.head[0], known)
        return known.copy()

    def _release(self, queries, answers):
        """Return the arrays of a batch from its recorded answers, ``None`` for those not given."""
        count = len(queries)
        training = self.on_exhausted == "training"
        values = queries.training_values.copy() if training else np.full(count, math.nan)
        lower = np.full(count, 0.0 if training else math.nan)
        upper = np.full(count, 1.0 if training else math.nan)
        above, answered = np.zeros((2, count), dtype=bool)
        answered[:] = [answer is not None for answer in answers]
        given = [answer for answer in answers if answer is not None]
        if given:
            released = np.array([(one.value, one.lower, one.upper, one.above) for one in given])
            values[answered], lower[answered], upper[answered], above[answered] = released.T
        return HoldoutAnswers(values, lower, upper, above, answered)

    def _warn_if_vacuous(self):
        width = first_width(self._settings, self.model)
        if width < 0.5:
            return
        enough, (count, name) = "", self.model.units(self.n)
        if math.isfinite(width):  # intervals shrink with the root of n
            enough = f"About {math.ceil(count * (2 * width) ** 2):,} {name} would do. "
        warnings.warn(
            f"the holdout of {count} {name} is too small for what is asked of it: a first answer "
            f"near 1/2 is only known to ±{min(width, 1.0):.2g}. {enough}plan_holdout tells how "
            "many a goal needs.",
            VacuousGuaranteeWarning,
            stacklevel=caller_level(),
        )
