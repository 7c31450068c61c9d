"""Information spent by the answers given so far, in nats.

Code lengths obey Kraft's inequality, so they are the weights of a union bound over everything the
analyst could have asked (theory G2′). All functions are pure; nothing here sees data.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from sklearn_bdp._checks import check_integer, check_option, check_probability, check_real

# a of the weights of batches. A larger one takes from the first batch and gives to later ones:
# with 3 the first pays ln 4 and the tenth ln 52, with 1 they would pay ln 2 and ln 110.
_LEVEL = 3.0
# Prior of a complaint among checks (theory G21): 20 silent checks cost .18 nats in all, a first
# complaint about 3 and the log of the number of words. A larger prior makes silence dearer.
_COMPLAINT, _CHECKS = 0.05, 1.05
# Part of the failure probability that only a final report may use: widths of reports are flat
# between .3 and .7 (theory G17), and everything before pays ln 2 nats for it.
_RESERVE = 0.5


@dataclasses.dataclass(frozen=True)
class Spending:
    """How a holdout spreads its failure probability over its life (theory G16).

    ``"final"`` reserves half of it for the final report and asks coarsely on the way, as
    O'Brien-Fleming boundaries of sequential trials do; ``"even"`` treats all batches alike, as
    Pocock boundaries do. ``n_searches``, how many batches are expected, is a hint: whatever it is,
    the weights of all batches and of a report sum to at most 1.

    Examples
    --------
    >>> Spending("final").of_batch(1), Spending("final").of_report(0)
    (0.125, 1.0)
    """

    name: Literal["final", "even"] = "final"
    n_searches: int | None = None

    def __post_init__(self) -> None:
        check_option("spending", self.name, ("final", "even"))
        if self.n_searches is not None:
            check_integer("n_searches", self.n_searches, low=1)

    @property
    def _level(self):
        return max(_LEVEL, float(self.n_searches or 0))

    @property
    def reserve(self) -> float:
        """Weight that batches leave to the final report."""
        return _RESERVE if self.name == "final" else 0.0

    def of_batch(self, t: int) -> float:
        """Return the weight of batch ``t = 1, 2, ...``; see :func:`code_length`."""
        level = self._level
        return (1.0 - self.reserve) * level / ((t + level - 1.0) * (t + level))

    def recorded(self, weight: float) -> dict[str, str | float]:
        """Return what the account of a batch keeps: the name and what was spent of the whole."""
        return {"name": self.name, "weight": weight}

    def of_report(self, n_batches: int) -> float:
        """Return the weight of a final report after so many batches: all that they left.

        A path holds one report at most, so this and the weights of the batches before it sum to 1.
        """
        # The weights of batches telescope: a / (T + a) is what those after T would have had.
        return self.reserve + (1.0 - self.reserve) * self._level / (n_batches + self._level)

    def describe(self) -> str:
        """Return the way of spending in words."""
        if self.name == "final":
            return (
                "final: half of the failure probability is reserved for the final report, as with "
                "O'Brien-Fleming boundaries in sequential trials"
            )
        return "even: all batches alike, as with Pocock boundaries in sequential trials"


def code_length(*, released: float, batch_index: int, spending: Spending = Spending()) -> float:
    r"""Code length of the queries of the next batch, in nats; their places come on top (G2′, G7).

    .. math:: \ell = -\ln P(\text{everything released before}) + \ln\omega_t^{-1},
       \quad \omega_t = (1 - \rho) \frac{a}{(t+a-1)(t+a)}, \quad a = 3,

    for batch :math:`t = 1, 2, \dots`, with :math:`\rho` what ``spending`` reserves for the final
    report. With the lengths of the places in the batch
    (:func:`place_lengths`), the weights :math:`e^{-\ell}` of all queries that could ever be asked
    sum to at most 1. ``released`` is the code length of what earlier batches released
    (:class:`PredictiveCode`).
    """
    spent = check_real("released", released, low=0.0)
    return spent - math.log(spending.of_batch(check_integer("batch_index", batch_index, low=1)))


def check_length(*, n_checks: int, n_complaints: int, complaint: bool, n_words: int) -> float:
    r"""Code length of what one check of the holdout says, in nats (G21).

    After ``j`` complaints in ``i`` checks the next one complains with
    :math:`p = (j + .05)/(i + 1.05)` and says one of ``W`` words: :math:`-\ln p + \ln W`, or
    :math:`-\ln(1 - p)` for silence.
    """
    chance = (n_complaints + _COMPLAINT) / (n_checks + _CHECKS)
    return math.log(n_words) - math.log(chance) if complaint else -math.log1p(-chance)


def final_code_length(
    *,
    released: float,
    n_batches: int,
    spending: Spending = Spending(),
) -> float:
    """Return the code length of a final report after ``n_batches``, in nats (theory G16).

    The statements of a report share it: their parts come on top, as places in a batch do.
    """
    spent = check_real("released", released, low=0.0)
    return spent - math.log(spending.of_report(check_integer("n_batches", n_batches, low=0)))


def leaked_length(*, information: float, failure: float) -> float:
    r"""Nats that stand for everything released when a lifetime leakage is fixed (G1, G9).

    For a holdout whose noise meets one DP level for its whole life the answers given so far need
    not be coded at all: they count as

    .. math:: (\sqrt K + \sqrt{\ln(1/\beta)})^2 - \ln(1/\beta)

    in :func:`code_length` and :func:`final_code_length`, with :math:`\beta` the failure
    probability of sampling and K, in nats, ``model.sequential_information(dp_epsilon, n)`` at the
    lifetime level.
    """
    known = check_real("information", information, low=0.0)
    surprise = -math.log(check_probability("failure", failure))
    # (√K + √s)² − s, expanded: no cancellation.
    return known + 2.0 * math.sqrt(known * surprise)
