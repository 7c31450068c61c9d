"""Optuna studies whose values come from a reusable holdout (needs the ``optuna`` extra)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optuna
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import indexable

from sklearn_bdp._checks import caller_level, check_integer, sealed_errors
from sklearn_bdp._digests import KnownModel
from sklearn_bdp._sklearn_compat import num_samples, safe_split
from sklearn_bdp.accounting import RELAXED_PART
from sklearn_bdp.correlation import Independent
from sklearn_bdp.exceptions import InnerFoldsWarning
from sklearn_bdp.guards import TrainingRecords, warn_clipped
from sklearn_bdp.holdout import ReusableHoldout, check_overlap
from sklearn_bdp.metrics import check_scoring, get_metric

__all__ = ["HoldoutObjective"]


@dataclass(frozen=True)
class _Prepared:
    """A trial with its training side done and its model fitted; the holdout has not been asked."""

    trial: optuna.Trial
    training: float  # in [0, 1]
    variance: float  # of a record's training-side score; NaN where the score is no mean
    metric: object
    model: object = field(repr=False)


class HoldoutObjective:
    """Optuna objective whose value is the verified score of a trial's model.

    Each trial is cross-validated on the training records, fold by fold, so that pruners can end
    it; a pruned trial never queries the holdout and costs nothing. The model is then fitted on all
    training records and compared with the holdout through the cross-validated score. The trial's
    value is the released score; interval and source are its user attributes ``training_score``,
    ``holdout_score``, ``holdout_lower``, ``holdout_upper`` and ``answered_from``.

    Parameters
    ----------
    build : callable
        ``build(trial)`` returns an unfitted estimator with the parameters that the trial suggests.
    X : array-like of shape (n_samples, n_features)
        Training records; never holdout records.
    y : array-like of shape (n_samples,)
        Their targets.
    holdout : ReusableHoldout
        Answers. Give it a ledger when several processes share a study.
    scoring : str, callable or None, default=None
        A bounded metric (see :mod:`sklearn_bdp.metrics`); studies must maximize it.
    cv : int, splitter or None, default=None
        Folds of the training set. For correlated records give a splitter that respects it.

    Attributes
    ----------
    best_estimator_ : estimator
        The model of the best value that this object has verified, fitted on the training records.

    See Also
    --------
    sklearn_bdp.ReusableHoldoutSearchCV : Grids and random search, one batch for all candidates.

    Notes
    -----
    Add trials that are suggested before any of their answers is seen inside one batch: it pays for
    adaptivity once. :meth:`optimize` gives the startup phase of the sampler as one batch, and
    every later trial is a query of its own, because it depends on the answers before.

    Examples
    --------
    >>> import optuna
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from sklearn_bdp import ReusableHoldout
    >>> from sklearn_bdp.integrations.optuna import HoldoutObjective
    >>> X, X_holdout, y, y_holdout = train_test_split(*load_digits(return_X_y=True), random_state=0)
    >>> def build(trial):
    ...     depth = trial.suggest_int("max_depth", 1, 12)
    ...     return DecisionTreeClassifier(max_depth=depth, random_state=0)
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> sampler = optuna.samplers.TPESampler(seed=0)
    >>> study = optuna.create_study(direction="maximize", sampler=sampler)
    >>> holdout = ReusableHoldout(X_holdout, y_holdout, random_state=0)
    >>> objective = HoldoutObjective(build, X, y, holdout=holdout, cv=3)
    >>> objective.optimize(study, n_trials=6, n_startup_trials=4)
    >>> len(study.trials), len({record.batch for record in holdout.history()}) <= 3
    (6, True)
    >>> attributes = study.best_trial.user_attrs
    >>> attributes["holdout_lower"] < study.best_value < attributes["holdout_upper"]
    True
    """

    def __init__(
        self,
        build: Callable[..., Any],
        X: Any,
        y: ArrayLike,
        *,
        holdout: ReusableHoldout,
        scoring: str | Callable[..., Any] | None = None,
        cv: Any = None,
    ) -> None:
        if not callable(build):
            raise TypeError(f"build must be a callable of a trial, got {type(build).__name__}.")
        if not isinstance(holdout, ReusableHoldout):
            raise TypeError(f"holdout must be a ReusableHoldout, got {type(holdout).__name__}.")
        check_scoring(scoring)
        self.build = build
        self.X, self.y = indexable(X, y)
        check_overlap(holdout, TrainingRecords(((self.X, self.y),)))
        self.holdout = holdout
        self.scoring = scoring
        self.cv = cv
        self._best, self._told = -math.inf, False
        self._finished = False  # whether the sampler has nothing left to suggest
        self._leader = 0.0  # best training-side value so far: public
        if not (isinstance(holdout.model, Independent) or hasattr(cv, "split")):
            warnings.warn(
                "the records of this holdout are correlated; if the training records are, too, "
                f"random folds score them too well: give cv= a splitter, got cv={cv!r}.",
                InnerFoldsWarning,
                stacklevel=caller_level(),
            )

    def __call__(self, trial: Any) -> float:
        """Return the verified score of one trial.

        Parameters
        ----------
        trial : optuna.Trial
            Suggests the parameters.

        Returns
        -------
        float
            The released score, in score units.

        Raises
        ------
        optuna.TrialPruned
            When a pruner ends the trial on the training side, or the holdout gives no answer
            (``on_exhausted="nan"``).
        BudgetExhaustedError
            When the holdout's budget is used up and ``on_exhausted="raise"``.
        """
        self._check(trial.study)
        (value,) = self._verify([self._prepare(trial)])
        if math.isnan(value):
            raise optuna.TrialPruned("The holdout's budget is used up.")
        return value

    def run_batch(self, study: Any, n_trials: int) -> None:
        """Ask for several trials at once, and put them to the holdout as one batch.

        Parameters
        ----------
        study : optuna.Study
            Suggests the trials before any of their values is known.
        n_trials : int
            How many.
        """
        self._check(study)
        n_trials = check_integer("n_trials", n_trials, low=1)
        running = [study.ask() for _ in range(n_trials)]
        prepared, pruned = [], []
        try:
            for trial in running:
                try:
                    prepared.append(self._prepare(trial))
                except optuna.TrialPruned:
                    pruned.append(trial)
            values = self._verify(prepared)
        except BaseException:
            for trial in running:
                self._tell(study, trial, state=optuna.trial.TrialState.FAIL)
            raise
        answered = {p.trial.number: value for p, value in zip(prepared, values, strict=True)}
        for trial in running:
            value = answered.get(trial.number, math.nan)
            if trial in pruned or math.isnan(value):
                self._tell(study, trial, state=optuna.trial.TrialState.PRUNED)
            else:
                self._tell(study, trial, value)

    def optimize(
        self, study: Any, n_trials: int, *, n_startup_trials: int = 10, **options: Any
    ) -> None:
        """Run a study: its startup phase as one batch, the other trials one by one.

        Parameters
        ----------
        study : optuna.Study
            To be maximized.
        n_trials : int
            Trials in all.
        n_startup_trials : int, default=10
            Trials that the sampler draws before it looks at values (``n_startup_trials`` of
            :class:`optuna.samplers.TPESampler`).
        **options : dict
            Passed to ``study.optimize``.
        """
        n_trials = check_integer("n_trials", n_trials, low=1)
        first = min(n_trials, check_integer("n_startup_trials", n_startup_trials, low=0))
        if first:
            self.run_batch(study, first)
        callbacks = [*options.pop("callbacks", ()), self.callback]
        if n_trials > first and not self._finished and self.holdout.remaining_budget != 0:
            study.optimize(self, n_trials - first, callbacks=callbacks, **options)

    def callback(self, study: Any, trial: Any) -> None:
        """Keep the account of the holdout with the study; stop when its budget is used up.

        Parameters
        ----------
        study : optuna.Study
            Gets the user attributes ``information_spent`` (nats) and ``remaining_budget``.
        trial : optuna.trial.FrozenTrial
            The trial that ended.
        """
        remaining = self.holdout.remaining_budget
        study.set_user_attr("information_spent", self.holdout.information_spent)
        study.set_user_attr("remaining_budget", remaining)
        if remaining == 0 and self.holdout.on_exhausted == "raise":
            study.stop()

    def _tell(self, study, trial, value=None, state=None):
        """Tell a study about a trial of a batch, and remember whether its sampler stops it."""
        try:
            study.tell(trial, value, state=state)
        except RuntimeError:
            # Samplers of finite spaces stop a study once all is tried; only optimize can stop.
            if not study.trials[trial.number].state.is_finished():
                raise
            self._finished = True

    def _check(self, study):
        """Refuse studies that cannot be served, before anything is computed."""
        self.holdout.account.check_home()
        if [direction.name for direction in study.directions] != ["MAXIMIZE"]:
            raise ValueError(
                "study must have direction='maximize' and one objective: greater scores are "
                f"better, got directions={[d.name.lower() for d in study.directions]}."
            )

    def _prepare(self, trial):
        """Cross-validate what a trial suggests, let pruners end it, and fit the model."""
        estimator = self.build(trial)
        if not hasattr(estimator, "fit"):
            raise TypeError(f"build must return an estimator, got {type(estimator).__name__}.")
        metric = get_metric(self.scoring, estimator=estimator, y=self.y)
        folds = check_cv(self.cv, self.y, classifier=is_classifier(estimator))
        values, rows, clipping = [], [], None
        for step, (train, test) in enumerate(folds.split(self.X, self.y)):
            model = clone(estimator).fit(*safe_split(estimator, self.X, self.y, train))
            part = safe_split(estimator, self.X, self.y, test, train)
            per_record, value = metric.training_scores(model, *part)
            values.append(value)
            rows.append(per_record)
            found = metric.clipping(model, *part, per_record)
            clipping = clipping if found is None else found + clipping
            trial.report(float(metric.from_unit(np.mean(values))), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        if not self._told:
            self._told = warn_clipped(metric, clipping, f"the {type(model).__name__} of a trial")
        model = clone(estimator).fit(self.X, self.y)
        # How little scores vary narrows intervals where it is known (theory G15).
        variance = min(float(np.var(np.concatenate(rows))), 0.25) if metric.is_mean else math.nan
        return _Prepared(trial, float(np.mean(values)), variance, metric, model)

    @sealed_errors  # the evaluations below are raw
    def _verify(self, prepared):
        """Ask the holdout about fitted models, in one batch; return released scores."""
        if not prepared:
            return []
        training = np.array([p.training for p in prepared])
        self._leader = max(self._leader, training.max())
        # Made before the models see the holdout: what they may keep of it must not get into a key.
        keys = [KnownModel(p.model).key(p.metric, self.X) for p in prepared]
        answers = self.holdout.answer_evaluations(
            training,
            [p.metric.evaluate(p.model, self.holdout.X, self.holdout.y) for p in prepared],
            training_size=num_samples(self.X),
            training_variance=[p.variance for p in prepared],
            keys=keys,
            relaxed_to=RELAXED_PART * (self._leader - training),  # far behind: wide, for free
            about=[(p.metric, f"trial {p.trial.number}") for p in prepared],
        )
        values = []
        for p, answer in zip(prepared, answers, strict=True):
            found = answer.in_units()
            p.trial.set_user_attr("training_score", float(p.metric.from_unit(p.training)))
            p.trial.set_user_attr("holdout_score", found.value)
            p.trial.set_user_attr("holdout_lower", found.lower)
            p.trial.set_user_attr("holdout_upper", found.upper)
            p.trial.set_user_attr("answered_from", found.source)
            values.append(found.value)
            if found.value > self._best:
                self._best, self.best_estimator_ = found.value, p.model
        return values

    def final_report(self, **options: Any) -> Any:
        """Report the final score of ``best_estimator_`` and close the holdout.

        Parameters
        ----------
        **options : object
            Those of :meth:`sklearn_bdp.ReusableHoldout.final_report`; by default the metric of the
            trials.

        Returns
        -------
        FinalReport
            As there.
        """
        if not hasattr(self, "best_estimator_"):
            raise ValueError("final_report() needs a verified trial, got none.")
        metric = get_metric(self.scoring, estimator=self.best_estimator_, y=self.y)
        return self.holdout.final_report(self.best_estimator_, **{"scoring": metric} | options)
