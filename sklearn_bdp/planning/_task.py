"""What is to be certified, and the numbers of one certificate before any text."""

import math
from dataclasses import dataclass

from sklearn_bdp._checks import check_beta, check_integer, check_real
from sklearn_bdp.correlation import SeenStates, check_correlation


@dataclass(frozen=True)
class Task:
    """What is to be certified: records, model and promise."""

    n: int
    model: object
    n_queries: int
    budget: int
    beta: float
    c: float | None  # budget honesty; None: not promised

    def check_independent(self, who):
        """Raise ValueError unless the records are independent, as ``who`` needs."""
        if not self.model.is_independent:
            raise ValueError(f"{who} independent records only, got {self.model.describe()}.")

    @property
    def n_effective(self):
        """Effective number of records in Hoeffding's exponent."""
        return float(self.model.effective_n(self.n))

    @property
    def sensitivity(self):
        """1/n, and the step of the fine grid that Thresholdout rounds values to."""
        return 1.0 / self.n + 2.0**-44


@dataclass(frozen=True)
class Design:
    """One division: scales, margins and the error they certify (theory C1)."""

    tau: float
    sampling: float
    below_margin: float = 0.0
    honesty_margin: float = 0.0
    answer_margin: float = 0.0
    threshold: float = 0.0
    threshold_scale: float = 0.0
    query_scale: float = 0.0
    answer_scale: float = 0.0
    resolution: float = 0.0
    dp_epsilon: float = math.inf


def remaining_failure(beta, model):
    """Return what an estimated model leaves of the failure probability ``beta``."""
    left = check_beta(beta) - model.misspecification
    if not left > 0.0:
        raise ValueError(
            f"beta must exceed {model.misspecification:.3g}, the probability that the correlation "
            f"was estimated wrongly, got beta={beta!r}."
        )
    return left


def plain_model(correlation):
    """Return the model of an argument, refusing one that weighs records by public states."""
    model = check_correlation(correlation)
    if isinstance(model, SeenStates):
        raise ValueError(
            "correlation=MarkovChain(P, states=...) cannot be planned with: how records are "
            "weighted is known only with the states of the holdout. Plan with correlation=None, "
            f"which is close when states are visited as often as the chain says, for about "
            f"{model.effective_n(model.n_records):.0f} of {model.n_records} records here."
        )
    return model


def checked_task(n, model, *, n_queries, budget, beta, c):
    """Check the arguments that every planner shares and return a `Task`."""
    return Task(
        n=model.check_n(n),
        model=model,
        n_queries=check_integer("n_queries", n_queries, low=1),
        budget=check_integer("budget", budget, low=1),
        beta=remaining_failure(beta, model),
        c=None if c is None else check_real("c", c, low=0.0, high=1.0, closed="left"),
    )
