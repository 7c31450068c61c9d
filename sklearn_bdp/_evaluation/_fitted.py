"""What a fitted search or selector says of its choice, gives away without records, and logs."""

from __future__ import annotations

import contextlib
import copy
import math
import sys
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sklearn_bdp._evaluation._candidates import Candidate, cross_validated
from sklearn_bdp._evaluation._opening import assumed
from sklearn_bdp._sklearn_compat import num_samples
from sklearn_bdp.accounting import Certificate
from sklearn_bdp.guards import ALL, share_of
from sklearn_bdp.holdout import History, ReusableHoldout, as_last_seen

_GOALS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@as_last_seen()  # the batch was written just now
def certified(holdout, division, metric, *, of, score, interval, notes=(), assumptions=()):
    """Return the certificate of a holdout, led by the score of what was chosen.

    ``of``: what was chosen, in words; ``score`` and ``interval`` in score units.
    """
    certificate = holdout.certificate().in_units(metric.measured, metric.lower, metric.upper)
    caveat = (metric.caveat,) if metric.caveat else ()
    return replace(
        certificate,
        chosen=(f"{metric.measured} of {of}", score, *interval),
        assumptions=(*certificate.assumptions, *assumed(holdout, division), *assumptions),
        notes=(*certificate.notes, *caveat, *notes),
        baseline=_learned_nothing(metric, division.y),
        **outlook(
            certificate, holdout, metric, score, interval, training_size=num_samples(division.X)
        ),
    )


def _learned_nothing(metric, y):
    """Return the score of a model that has learned nothing, from training labels; None: unknown."""
    if metric.name == "roc_auc":
        return 0.5
    if metric.name not in ("accuracy", "balanced_accuracy"):
        return None
    counts = np.unique(np.asarray(y), return_counts=True)[1]
    return float(counts.max() / counts.sum() if metric.name == "accuracy" else 1 / counts.size)


def outlook(certificate, holdout, metric, score, interval, *, training_size):
    """Return the fields of a certificate that speak of one more question."""
    if certificate.next_error is None:
        return {}
    asked = {"scoring": metric, "training_size": training_size}
    fields = {}
    if not metric.is_mean:
        # The holdout speaks of means over records, which are known better than scores by class.
        width = holdout.preview(**asked).half_width
        fields = {"next_error": width, "tau": max(certificate.tau, width), "advice": ()}
    if not math.isfinite(score):
        return fields
    seen = holdout.preview(score=metric.to_unit(score), **asked)
    width, span = seen.half_width, metric.upper - metric.lower
    half = 0.5 * (interval[1] - interval[0]) / span
    fields |= {
        "final_error": min(seen.half_width_final, half),
        "parts": holdout.width_parts(metric.to_unit(score), half, scoring=metric),
    }
    if metric.is_mean and share_of(metric, interval) < ALL:
        # It may be known how little scores vary (theory G15).
        width = min(width, 0.5 * share_of(metric, interval))
    goals, advice = [goal for goal in _GOALS if goal <= 0.8 * width], ""
    # All parts of an interval shrink like 1 / sqrt(n), unless it ends where the range does.
    if goals and certificate.advice and 2.0 * width < ALL:
        count, name = holdout.model.units(holdout.n)
        more = math.ceil(count * (width / goals[0]) ** 2) - count
        advice = f"about {more:,} more {name} give ±{goals[0] * span:.3g}"
    return fields | {"outlook": (width, advice)}


def clipping_of(setting, columns):
    """Return what clipping changes on the folds for a model of some columns; None where none is.

    Nothing is fitted for a metric that does not clip.
    """
    if not setting.metric.caveat or not len(columns):
        return None
    with warnings.catch_warnings(), contextlib.suppress(Exception):  # told when it was scored
        warnings.simplefilter("ignore")
        return cross_validated(setting, Candidate(columns=tuple(map(int, columns))))[1]
    return None


@dataclass(frozen=True)
class DetachedHoldout:
    """What a holdout has released, without its records; it can be read and not be asked.

    Parameters
    ----------
    n : int
        Number of records.
    beta : float
        Probability that any of the intervals is wrong.
    information_spent : float
        Nats.
    remaining_budget : int or None
        "Above" answers that were left.
    """

    n: int
    beta: float
    information_spent: float
    remaining_budget: int | None
    _certificate: Certificate = field(repr=False)
    _records: tuple = field(repr=False)

    def certificate(self):
        """Return the guarantee as it stood.

        Returns
        -------
        Certificate
            As :meth:`ReusableHoldout.certificate <sklearn_bdp.ReusableHoldout.certificate>`.
        """
        return self._certificate

    def history(self):
        """Return everything that had been released, oldest first.

        Returns
        -------
        History
            A sequence of :class:`~sklearn_bdp.holdout.AnswerRecord`.
        """
        return History(self._records)


def _detached(holdout):
    """Return what can be read of a holdout."""
    return DetachedHoldout(
        n=holdout.n,
        beta=holdout.beta,
        information_spent=holdout.information_spent,
        remaining_budget=holdout.remaining_budget,
        _certificate=holdout.certificate(),
        _records=tuple(holdout.history()),
    )


class Savable:
    """Mixin of fitted estimators with a ``holdout_``."""

    def without_holdout(self) -> Any:
        """Return a copy of the fitted object that carries no holdout record.

        A fitted search carries its holdout, so that the next search can go on with it: whoever
        gets the pickle gets the records. The copy predicts and shows everything that was released
        (``cv_results_``, ``certificate_``, ``holdout_.history()``); it cannot ask, and fitting
        it again needs ``set_params(holdout=...)``.

        Returns
        -------
        object
            A copy with a ``holdout_`` that can be read and not be asked.
        """
        if not isinstance(getattr(self, "holdout_", None), ReusableHoldout):
            raise ValueError(
                f"without_holdout needs a fitted {type(self).__name__} with a holdout, got one "
                "that has none."
            )
        twin: Any = copy.copy(self)
        twin.holdout_ = _detached(twin.holdout_)
        if isinstance(twin.holdout, ReusableHoldout):
            twin.holdout = twin.holdout_
        vars(twin).pop("_unfinished", None)
        return twin

    # A notebook shows score and interval above scikit-learn's diagram.

    def _card(self):
        certificate = getattr(self, "certificate_", None)
        return "" if certificate is None else certificate._repr_html_()

    def _repr_html_inner(self):
        return self._card() + super()._repr_html_inner()

    def _repr_mimebundle_(self, **kwargs):
        shown = super()._repr_mimebundle_(**kwargs)
        return {k: self._card() + v if k == "text/html" else v for k, v in shown.items()}


#: Candidates with a run of their own, the best first; the number that MLflow uses for searches.
_CHILDREN = 5


@contextlib.contextmanager
def autologged(search):
    """Log a search that is fitted in this block, where MLflow's autologging is switched on.

    MLflow patches ``fit`` of scikit-learn's own classes. Left alone it would log the parameters of
    the first candidate as those of the run, and a run for each of the others.
    """
    tools = sys.modules.get("mlflow.utils.autologging_utils")
    if tools is None or tools.autologging_is_disabled("sklearn"):
        yield
        return
    with tools.disable_autologging():
        yield
    if hasattr(search, "best_params_"):
        _log(search, sys.modules["mlflow"])


def _log(search, mlflow):
    """Log best parameters and released scores; a child run for each of the best candidates."""
    inside = mlflow.active_run() is not None
    with contextlib.nullcontext() if inside else mlflow.start_run():
        mlflow.set_tag("estimator_name", type(search).__name__)
        mlflow.log_params({f"best_{name}": value for name, value in search.best_params_.items()})
        mlflow.log_metrics(_released(search.cv_results_, search.best_index_, prefix="best_"))
        mlflow.log_text(str(search.certificate_), "certificate.txt")
        ranked = np.argsort(search.cv_results_["rank_holdout_score"], kind="stable")
        for place in ranked[:_CHILDREN]:
            with mlflow.start_run(nested=True):
                mlflow.log_params(search.cv_results_["params"][place])
                mlflow.log_metrics(_released(search.cv_results_, place))


def _released(results, place, *, prefix=""):
    """Return the cross-validated and the released numbers of one candidate."""
    return {
        prefix + name: float(column[place])
        for name, column in results.items()
        if name.startswith(("mean_test", "holdout_"))
        and isinstance(column[place], float)
        and math.isfinite(column[place])
    }
