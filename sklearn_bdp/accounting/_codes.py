"""Information spent by the answers given so far, in nats.

Code lengths obey Kraft's inequality, so they are the weights of a union bound over everything the
analyst could have asked (theory G2′). All functions are pure; nothing here sees data.
"""

from __future__ import annotations

import math

from sklearn_bdp._checks import check_integer, check_probability, check_real

# a of the weights of batches. A larger one takes from the first batch and gives to later ones:
# with 3 the first pays ln 4 and the tenth ln 52, with 1 they would pay ln 2 and ln 110.
_LEVEL = 3.0
# Prior of a complaint among checks (theory G21): 20 silent checks cost .18 nats in all, a first
# complaint about 3 and the log of the number of words. A larger prior makes silence dearer.
_COMPLAINT, _CHECKS = 0.05, 1.05


def code_length(*, released: float, batch_index: int) -> float:
    r"""Code length of the queries of the next batch, in nats; their places come on top (G2′, G7).

    .. math:: \ell = -\ln P(\text{everything released before}) + \ln\omega_t^{-1},
       \quad \omega_t = \frac{a}{(t+a-1)(t+a)}, \quad a = 3,

    for batch :math:`t = 1, 2, \dots` With the lengths of the places in the batch
    (:func:`place_lengths`), the weights :math:`e^{-\ell}` of all queries that could ever be asked
    sum to at most 1. ``released`` is the code length of what earlier batches released
    (:class:`PredictiveCode`).
    """
    spent = check_real("released", released, low=0.0)
    t = check_integer("batch_index", batch_index, low=1)
    return spent + math.log((t + _LEVEL - 1.0) * (t + _LEVEL) / _LEVEL)


def check_length(*, n_checks: int, n_complaints: int, complaint: bool, n_words: int) -> float:
    r"""Code length of what one check of the holdout says, in nats (G21).

    After ``j`` complaints in ``i`` checks the next one complains with
    :math:`p = (j + .05)/(i + 1.05)` and says one of ``W`` words: :math:`-\ln p + \ln W`, or
    :math:`-\ln(1 - p)` for silence.
    """
    chance = (n_complaints + _COMPLAINT) / (n_checks + _CHECKS)
    return math.log(n_words) - math.log(chance) if complaint else -math.log1p(-chance)


def leakage_code_length(*, information: float, failure: float, batch_index: int) -> float:
    r"""Code length of the queries of a batch when a lifetime leakage is fixed, in nats (G1, G9).

    For a holdout whose noise meets one DP level for its whole life the answers given so far need
    not be coded at all: the length depends on the batch only,

    .. math:: \ell = (\sqrt K + \sqrt{\ln(1/\beta)})^2 - \ln(1/\beta) + \ln\omega_t^{-1},

    with :math:`\beta` the failure probability of sampling and K, in nats,
    ``model.sequential_information(dp_epsilon, n)`` at the lifetime level. Places come on top, as
    for :func:`code_length`.
    """
    known = check_real("information", information, low=0.0)
    surprise = -math.log(check_probability("failure", failure))
    # (√K + √s)² − s, expanded: no cancellation.
    leaked = known + 2.0 * math.sqrt(known * surprise)
    return code_length(released=leaked, batch_index=batch_index)
