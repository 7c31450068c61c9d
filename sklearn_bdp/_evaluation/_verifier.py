"""Put subsets and gains to the holdout: what is recorded is free, what is new is one batch."""

import math
import warnings
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.parallel import Parallel, delayed

from sklearn_bdp._checks import caller_level
from sklearn_bdp._evaluation._opening import CONTEST
from sklearn_bdp._evaluation._subsets import evaluate_subset, fit_subset, paired_gain
from sklearn_bdp._sealed import sealed_errors
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.holdout import query_key

__all__ = ["Assessment", "Gain", "Verifier"]


@dataclass(frozen=True)
class Assessment:
    """A subset and what is known of it in public, in units of [0, 1].

    Attributes
    ----------
    columns : tuple of int
        The subset.
    training : float
        Cross-validated score.
    released, lower, upper : float
        The holdout's answer and its interval; NaN where it was not asked or gave none.
    source : {"training", "holdout", "unanswered"}
        Where the answer came from.
    outcome : Outcome
        What the workers returned. It holds raw scores: never kept beyond ``fit``.
    """

    columns: tuple
    training: float
    released: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    source: str = "unanswered"
    key: str | None = None
    outcome: object = field(default=None, repr=False)

    @property
    def rank(self):
        """Return what candidates are ranked by: the smaller of both scores.

        Of thousands of candidates some are lucky on the holdout by chance, and they would win if
        its answers alone counted; bad luck and overfitting may only lower a score.
        """
        return min(self.training, self.released) if math.isfinite(self.released) else math.nan


@dataclass(frozen=True)
class Gain:
    """A released gain of one subset over another, in units of [0, 1].

    Attributes
    ----------
    released, lower, upper : float
        The holdout's answer and an interval that holds with all others.
    floor : float
        What noise and grid can explain.
    """

    released: float
    lower: float
    upper: float
    floor: float


class Verifier:
    """Ask the holdout about subsets of columns.

    Parameters
    ----------
    setting : Setting
        Data, metric, folds.
    holdout : ReusableHoldout
        Answers.
    recipe : str or None
        Digest of all that a fitted model depends on besides its columns; ``None`` where fitting
        may vary, and keys are made from fitted models.
    verify : "all" or int
        How many of the candidates of a step the holdout sees.
    n_jobs, pre_dispatch : object
        For joblib.
    verbose : int
        Messages from 1 on, those of joblib from 2 on.
    """

    def __init__(self, setting, holdout, *, recipe, verify, n_jobs, pre_dispatch, verbose):
        self.setting = setting
        self.holdout = holdout
        self.recipe = recipe
        self.verify = verify
        self.verbose = verbose
        self._parallel = {
            "n_jobs": n_jobs,
            "pre_dispatch": pre_dispatch,
            "verbose": max(0, verbose - 1),
        }
        self._training_size = num_samples(setting.X)

    def assess(self, subsets):
        """Return an :class:`Assessment` of each subset, from one batch of queries."""
        keys = {columns: self._key(columns) for columns in subsets}
        recorded = self.holdout.recorded([key for key in keys.values() if key is not None])
        known = {columns for columns in subsets if keys[columns] in recorded}
        everything = self.verify == "all"
        outcomes = self._work(
            (columns, True, everything and columns not in known) for columns in subsets
        )
        _warn_failures(outcomes)
        if not everything:
            outcomes = self._look_at_leaders(outcomes, known)
        asked = [o for o in outcomes if o.evaluation is not None and math.isfinite(o.training)]
        asked_keys = [keys[o.columns] or o.key for o in asked]
        found = {o.columns: o for o in outcomes}
        result = {
            columns: self._recorded(found[columns], keys[columns], recorded) for columns in known
        }
        if asked:
            values = np.array([outcome.training for outcome in asked])
            answers = self.holdout.answer_evaluations(
                values,
                [outcome.evaluation for outcome in asked],
                training_size=self._training_size,
                keys=asked_keys,
                slack=CONTEST * (values.max() - values),
            )
            for place, (outcome, key) in enumerate(zip(asked, asked_keys, strict=True)):
                result[outcome.columns] = _answered(outcome, key, answers, place)
        self.n_recorded = len(known)
        return [result.get(o.columns) or Assessment(o.columns, o.training) for o in outcomes]

    def _work(self, tasks):
        """Evaluate subsets, given as (columns, training side?, holdout?)."""
        return Parallel(**self._parallel)(
            delayed(evaluate_subset)(self.setting, columns, training=training, holdout=holdout)
            for columns, training, holdout in tasks
        )

    def _look_at_leaders(self, outcomes, known):
        """Score the best candidates on the holdout, by their training side."""
        finite = [outcome for outcome in outcomes if math.isfinite(outcome.training)]
        leaders = sorted(finite, key=lambda outcome: -outcome.training)[: self.verify]
        chosen = [outcome.columns for outcome in leaders if outcome.columns not in known]
        seen = {o.columns: o for o in self._work((columns, False, True) for columns in chosen)}
        _warn_failures(seen.values())
        merged = []
        for outcome in outcomes:
            other = seen.get(outcome.columns)
            merged.append(outcome if other is None else _with_holdout(outcome, other))
        return merged

    def _recorded(self, outcome, key, recorded):
        """Return the assessment of a subset whose answer was recorded before."""
        record = recorded[key]
        return Assessment(
            outcome.columns,
            outcome.training,
            record.value,
            record.lower,
            record.upper,
            "holdout" if record.above else "training",
            key,
            outcome,
        )

    def paired(self, first, second):
        """Return the :class:`PairedGain` of two assessments; it costs nothing."""
        return paired_gain(
            first.outcome.scores,
            second.outcome.scores,
            is_mean=self.setting.metric.is_mean,
            n_effective=self.setting.n_effective,
        )

    @sealed_errors  # the differences below are raw scores
    def gain(self, first, second, paired):
        """Return the :class:`Gain` that the holdout confirms.

        For a mean over records it is asked as two queries, what is won and what is lost: both
        are small numbers, whose intervals are far narrower than those of the two scores.
        """
        if not self.setting.metric.is_mean:
            return Gain(
                released=first.released - second.released,
                lower=first.lower - second.upper,
                upper=first.upper - second.lower,
                floor=self._grid(("holdout" in (first.source, second.source)) * 1),
            )
        keys = None
        if first.key and second.key:
            keys = [query_key("gain", side, first.key, second.key) for side in ("won", "lost")]
        known = self.holdout.recorded(keys or [])
        if keys and all(key in known for key in keys):
            won, lost = (known[key] for key in keys)
            above = int(won.above) + int(lost.above)
            value = won.value - lost.value
            return Gain(value, won.lower - lost.upper, won.upper - lost.lower, self._grid(above))
        difference = self._per_record(first) - self._per_record(second)
        answers = self.holdout.answer(
            [paired.wins, paired.losses],
            np.stack([np.maximum(difference, 0.0), np.maximum(-difference, 0.0)]),
            training_size=self._training_size,
            keys=keys,
        )
        return Gain(
            released=float(answers.values[0] - answers.values[1]),
            lower=float(answers.lower[0] - answers.upper[1]),
            upper=float(answers.upper[0] - answers.lower[1]),
            floor=self._grid(int(answers.above.sum())),
        )

    def model(self, assessment):
        """Return the verified model of a subset, fitted on the training part."""
        model = assessment.outcome.model
        return fit_subset(self.setting, assessment.columns) if model is None else model

    def _key(self, columns):
        """Return the key of a subset before it is fitted, or None."""
        return None if self.recipe is None else query_key("subset", self.recipe, columns)

    def _per_record(self, assessment):
        """Return holdout scores of a subset; of one answered before they are computed now."""
        evaluation = assessment.outcome.evaluation
        if evaluation is None:
            (outcome,) = self._work([(assessment.columns, False, True)])
            evaluation = outcome.evaluation
        return evaluation.per_record

    def _grid(self, n_above):
        """Return what rounding and noise can explain: about half a cell each per answer."""
        return n_above * float(self.holdout.certificate().resolution)


def _answered(outcome, key, answers, place):
    """Return the assessment for one answer of a batch."""
    source = "unanswered"
    if answers.answered[place]:
        source = "holdout" if answers.above[place] else "training"
    return Assessment(
        outcome.columns,
        outcome.training,
        float(answers.values[place]),
        float(answers.lower[place]),
        float(answers.upper[place]),
        source,
        key,
        outcome,
    )


def _with_holdout(outcome, other):
    """Return the training side of one outcome with the holdout side of another."""
    return type(outcome)(
        outcome.columns,
        outcome.training if not other.error else math.nan,
        outcome.scores,
        other.evaluation,
        other.key,
        other.model,
        other.error,
    )


def _warn_failures(outcomes):
    """Warn once about subsets on which the estimator could not be fitted."""
    errors = [outcome.error for outcome in outcomes if outcome.error]
    if errors:
        warnings.warn(
            f"{len(errors)} of {len(outcomes)} subsets could not be fitted on the training part; "
            f"they were not shown to the holdout. The last one said:\n{errors[-1]}",
            FitFailedWarning,
            stacklevel=caller_level(),
        )
