"""One batch, decided: what the mechanism says, what it costs, which intervals follow.

A function of the queries, the account before them and the mechanism; it touches no file. The
raw holdout values come in, go to the mechanism, and are not in anything that goes out.
"""

import dataclasses
import functools

import numpy as np

from sklearn_bdp.accounting import (
    DecisionCode,
    answer_intervals,
    answer_margin,
    auto_threshold,
    code_length,
    noise_margin,
    noise_share,
    value_code,
)
from sklearn_bdp.exceptions import BudgetExhaustedError
from sklearn_bdp.ledger import AnswerRecord, BatchRecord

__all__ = ["Queries", "margins", "decide", "exhausted_error", "next_code_length"]

_AHEAD = 8192  # queries compared in one go: an "above" moves the predictions of the rest


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Queries:
    """A batch of ``m`` queries, checked.

    Attributes
    ----------
    training_values : ndarray of shape (m,)
        Training-side values, in [0, 1].
    values : ndarray of shape (m,)
        Values on the holdout, in [0, 1]: for the mechanism only.
    is_mean : ndarray of bool, shape (m,)
        Whether each is a mean over records, which has a sharper tail of its own.
    sensitivities : ndarray of shape (m,)
        Sensitivity in units of ``1/n``, at least 1: what noise is scaled by.
    rms_sensitivities : ndarray of shape (m,)
        Root mean square over records of what each can do, in units of ``1/n``: what the score
        varies by.
    training_sizes : ndarray of shape (m,)
        Records behind each training-side value.
    slacks : ndarray of shape (m,)
        Least threshold of each query where thresholds are chosen automatically.
    keys : list of str or None
        The keys, ``None`` for queries that cannot be asked again for free.
    """

    training_values: np.ndarray
    values: np.ndarray = dataclasses.field(repr=False)
    is_mean: np.ndarray
    sensitivities: np.ndarray
    rms_sensitivities: np.ndarray
    training_sizes: np.ndarray
    slacks: np.ndarray
    keys: list

    def __len__(self):
        return len(self.keys)

    def take(self, positions):
        """Return the queries at these positions."""
        return Queries(
            training_values=self.training_values[positions],
            values=self.values[positions],
            is_mean=self.is_mean[positions],
            sensitivities=self.sensitivities[positions],
            rms_sensitivities=self.rms_sensitivities[positions],
            training_sizes=self.training_sizes[positions],
            slacks=self.slacks[positions],
            keys=[self.keys[position] for position in positions],
        )


def next_code_length(last, *, size=1):
    """Return the code length of the next batch after the account ``last``, in nats."""
    return code_length(
        n_answered=last.n_answered,
        n_above=last.n_above,
        value_nats=last.released,
        batch_size=size,
        batch_index=last.number + 1,
        decisions=DecisionCode(**last.code).nats,
    )


@functools.lru_cache(maxsize=4096)
def margins(settings, n_above):
    """Return the noise margins of "below" and "above" answers after ``n_above`` rounds.

    Half of the round's share of failure goes to its threshold, half to its answer.
    """
    share = noise_share(settings.noise_failure, n_above) / 2.0
    below = noise_margin(
        failure=share,
        threshold_scale=settings.threshold_scale,
        query_scale=settings.query_scale,
    )
    return below, answer_margin(failure=share, answer_scale=settings.answer_scale)


def thresholds_for(settings, predictions, training_sizes, slacks, spreads):
    """Return the threshold of each query and whether its slack set it; both are public."""
    if settings.threshold is not None:
        return np.full(predictions.shape, settings.threshold), np.zeros(predictions.shape, bool)
    thresholds = np.empty(predictions.shape)
    for spread in np.unique(spreads):
        chosen = spreads == spread
        # A sum of terms c_i varies by Σ c_i² p(1−p) = (spread²/n) p(1−p).
        thresholds[chosen] = auto_threshold(
            predictions[chosen], settings.n_effective / spread**2, training_sizes[chosen]
        )
    return np.maximum(thresholds, slacks), slacks > thresholds


def decide(queries, *, last, predictor, mechanism, settings, model, time, seeded):
    """Answer a batch of new queries.

    Parameters
    ----------
    queries : Queries
        At least one, all new.
    last : BatchRecord
        The account before the batch.
    predictor : OffsetPredictor
        What the released answers teach; it is advanced.
    mechanism : Thresholdout
        In the state after the batch before; it is advanced.
    settings : Settings
        What the holdout was made with.
    model : CorrelationModel
        How the records are correlated.
    time : str
        For the record.
    seeded : bool
        Whether the noise comes from a fixed seed.

    Returns
    -------
    record : BatchRecord or None
        The account after the batch; ``None`` if the budget was used up before it.
    answers : list of AnswerRecord
        The answered queries, a prefix of the batch.
    """
    length = next_code_length(last, size=len(queries))
    run = _Run(queries, last=last, predictor=predictor, mechanism=mechanism, settings=settings)
    run.play()
    if run.done == 0:
        return None, []
    number = last.number + 1
    lower, upper = _intervals(run, length=length, settings=settings, model=model)
    values = run.values[: run.done]
    answers = [
        AnswerRecord(
            batch=number,
            position=position,
            key=queries.keys[position],
            time=time,
            code_length=length,
            training_value=float(queries.training_values[position]) + 0.0,
            value=float(values[position]) + 0.0,  # -0.0 has no text of its own in SQLite
            lower=float(lower[position]) + 0.0,
            upper=float(upper[position]) + 0.0,
            above=bool(run.above[position]),
        )
        for position in range(run.done)
    ]
    relaxed = run.relaxed[: run.done]
    widest = float(np.max(np.maximum(values - lower, upper - values)[~relaxed], initial=0.0))
    n_above = int(run.above.sum()) + last.n_above
    record = BatchRecord(
        number=number,
        time=time,
        size=len(queries),
        code_length=length,
        n_answered=run.done + last.n_answered,
        n_above=n_above,
        released=run.value_nats,
        code=run.decisions.state(),
        cells={},
        widest=max(widest, last.widest),
        n_relaxed=int(relaxed.sum()) + last.n_relaxed,
        dp_epsilon=_finite(mechanism.dp_epsilon_used(1.0 / settings.n)),
        seeded=bool(seeded or last.seeded),
    )
    return record, answers


class _Run:
    """The walk through one batch, from "above" to "above"."""

    def __init__(self, queries, *, last, predictor, mechanism, settings):
        self.queries = queries
        self.settings = settings
        self.mechanism = mechanism
        self.predictor = predictor
        self.decisions = DecisionCode(**last.code)
        self.value_nats = last.released
        self.n_above = last.n_above
        self.done = 0
        self.values = np.full(len(queries), np.nan)
        self.above = np.zeros(len(queries), dtype=bool)
        self.relaxed = np.zeros(len(queries), dtype=bool)  # left wide on purpose
        self.reach = np.zeros(len(queries))  # distance from the answer to q(X), at most

    def play(self):
        """Answer until the batch or the budget ends."""
        while self.done < len(self.queries) and self._stretch():
            pass

    def _stretch(self):
        """Answer up to the next "above"; return whether the budget goes on."""
        asked = slice(self.done, min(self.done + _AHEAD, len(self.queries)))
        training = self.queries.training_values[asked]
        scales = self.queries.sensitivities[asked]
        predictions = self.predictor.predict(training) if self.settings.learned else training
        thresholds, slackened = thresholds_for(
            self.settings,
            predictions,
            self.queries.training_sizes[asked],
            self.queries.slacks[asked],
            self.queries.rms_sensitivities[asked],
        )
        # Units in which every query has sensitivity 1/n, which the noise is made for.
        run = self.mechanism.answer_run(
            predictions / scales,
            self.queries.values[asked] / scales,
            thresholds=thresholds / scales,
        )
        count = int(np.count_nonzero(run.answered))
        if count == 0:
            return False
        above = np.array(run.above[:count], dtype=bool)
        stretch = slice(self.done, self.done + count)
        self.values[stretch] = np.clip(np.asarray(run.values[:count]) * scales[:count], 0.0, 1.0)
        self.values[stretch][~above] = predictions[:count][~above]
        self.above[stretch] = above
        z_below, z_above = margins(self.settings, self.n_above)
        self.reach[stretch] = np.where(
            above,
            (z_above + self.settings.resolution / 2.0) * scales[:count],
            thresholds[:count] + z_below * scales[:count],
        )
        self.relaxed[stretch] = slackened[:count] & ~above
        self.decisions.update(above)
        self.done += count
        if above[-1]:
            # Theory G4: a released value is coded by its distance from the prediction.
            self.value_nats += value_code(
                predictions[count - 1] / scales[count - 1],
                float(run.values[count - 1]),
                resolution=self.settings.resolution,
                scale=thresholds[count - 1] / scales[count - 1],
            )
            self.n_above += 1
            if self.settings.learned:
                self.predictor.update(training[count - 1], self.values[self.done - 1])
        return True


def _intervals(run, *, length, settings, model):
    """Return the ends of the intervals of the answered prefix."""
    lower, upper = np.full((2, run.done), np.nan)
    queries, answered = run.queries, slice(run.done)
    # Theory, section 5, row 1: unequal c_i enter by their squares where records are independent
    # (McDiarmid); groups need the largest.
    units = queries.rms_sensitivities if model.is_independent else queries.sensitivities
    units = np.where(queries.is_mean, 0.0, units)[answered]
    for unit in np.unique(units):
        chosen = units == unit
        lower[chosen], upper[chosen] = answer_intervals(
            run.values[answered][chosen],
            run.reach[answered][chosen],
            code_length=length,
            failure=settings.sampling_failure,
            model=model,
            n=settings.n,
            sensitivity=float(unit) / settings.n if unit > 0 else None,
        )
    return lower, upper


def _finite(epsilon):
    return float(epsilon) if np.isfinite(epsilon) else None


def exhausted_error(settings, last, *, answered=0, unanswered):
    """Return the error that says what was spent and what can still be done.

    Parameters
    ----------
    settings : Settings
        They hold the budget.
    last : BatchRecord
        The account.
    answered, unanswered : int
        New queries of this batch before and after the budget ran out.

    Returns
    -------
    BudgetExhaustedError
        To be raised.
    """
    n_above, n_answered = last.n_above, last.n_answered
    done = "Nothing was recorded for this batch. "
    if answered:
        done = (
            f"The {answered} query(s) before were answered and recorded: they are in history() "
            "and free to ask again by key. "
        )
    return BudgetExhaustedError(
        f"budget={settings.budget} is used up: {n_above} answer(s) came from the holdout, "
        f"{n_answered} query(s) were answered in all; {unanswered} query(s) of this batch "
        f"were not. {done}Recorded answers stay free; on_exhausted='nan' or 'training' goes on "
        "without the holdout; only new data buys more."
    )
