"""What a Markov chain leaks of a record: its past, its future, and Zhao's lemmas (theory B2-B7)."""

from __future__ import annotations

import math

import numpy as np

from sklearn_bdp._bisection import doubled, last_accepted
from sklearn_bdp._typing import Array
from sklearn_bdp.correlation._chains._blocks import block_information, both_sides, combine
from sklearn_bdp.correlation._chains._bridges import MOST_STATES, bridge_sides, started_side
from sklearn_bdp.correlation._chains._quilts import (
    blanket_influence,
    chain_influences,
    quilt_leakage,
)
from sklearn_bdp.correlation._chains._spectral import spectral_dp_epsilon, spectral_smallest_n
from sklearn_bdp.correlation._chains._time import TimeModel
from sklearn_bdp.correlation._shared._leakage import (
    contracted_sides,
    iterate_leakage,
    kernel_update,
)
from sklearn_bdp.correlation._shared._transition import is_reversible, reversed_kernel


class ChainLeakage(TimeModel):
    """Leakage of the records of one chain, by both sides of a record.

    Subclasses set ``transition, observed, start, stationary_, diameter_`` and ``spectral_gap_``.
    """

    transition: Array
    observed: bool
    start: str | Array
    stationary_: Array | None
    diameter_: float
    spectral_gap_: float

    @property
    def _stationary(self):
        return isinstance(self.start, str) and self.start == "stationary"

    def _check_method(self, n, method):
        if method == "tight":
            return
        other = "method='tight' applies (theory B5)."
        if method != "spectral":
            if not self._stationary:
                raise ValueError(
                    f"method={method!r} needs a stationary chain, got start={self.start!r}; {other}"
                )
            if method == "blanket" and n > 1 and math.isinf(self.diameter_):
                raise ValueError(
                    "method='blanket' needs positive transition probabilities (a neighbour that "
                    "rules a value out has infinite influence); method='quilt' uses neighbours "
                    "further away."
                )
            return
        if not self._stationary or not self.spectral_gap_ > 0:
            raise ValueError(
                "method='spectral' needs a stationary, irreducible and aperiodic chain, got "
                f"spectral_gap_={self.spectral_gap_:g}; {other}"
            )
        if not is_reversible(self.transition, self.stationary_):
            raise ValueError(
                "method='spectral' needs a reversible chain (detailed balance), and this one is "
                f"not; {other}"
            )
        if not self.observed and math.isinf(self.diameter_):
            raise ValueError(
                "method='spectral' needs the states to be the records when a transition is "
                "impossible (records behind hidden states may keep the chain from mixing): pass "
                "observed=True if they are."
            )
        least = spectral_smallest_n(self.spectral_gap_, float(self.stationary_.min()))
        if not n >= least:
            raise ValueError(
                f"method='spectral' needs n >= 2d, here at least {least} records, got n={n}; "
                f"{other}"
            )

    def _leakage(self, dp_epsilon, n, method):
        if method == "tight":
            return self._tight(dp_epsilon, n)
        if method == "spectral":
            value = self._spectral_leakage(dp_epsilon, n)
        elif method == "quilt":
            value = self._quilted(dp_epsilon, n, factor=4.0)
        else:
            # Theory B3; Zhao 2017, Lemma 3.
            value = dp_epsilon + 4.0 * blanket_influence(self._reverse, self.transition, n)
        # The lemmas of the paper are about chains whose states are the records.
        return value if self.observed else max(value, self._tight(dp_epsilon, n))

    def _spectral_leakage(self, dp_epsilon, n):
        """Smallest level whose ``h`` reaches ``dp_epsilon`` (h increases with the level)."""
        gap, smallest = self.spectral_gap_, float(self.stationary_.min())
        enough = lambda x: spectral_dp_epsilon(float(x), gap, smallest, n) >= dp_epsilon  # noqa: E731
        return last_accepted(enough, *doubled(enough, float(dp_epsilon)))  # h jumps with d

    def _inverse(self, bdp_epsilon, n, method):
        if method == "spectral" and bdp_epsilon > 0:
            gap, smallest = self.spectral_gap_, float(self.stationary_.min())
            level = spectral_dp_epsilon(bdp_epsilon, gap, smallest, n)
            if not self.observed:
                level = min(level, self.dp_epsilon(bdp_epsilon, n))
            return level
        return super()._inverse(bdp_epsilon, n, method)

    # -- the two sides of a record ----------------------------------------------------------

    def _contracted(self, dp_epsilon, n):
        """Leakage of a side to an adversary who knows any of it (theory B5)."""
        return contracted_sides(self.diameter_, dp_epsilon, n - 1)

    def _forward(self, dp_epsilon, n):
        """Leakage of the future to an adversary who knows none of it (theory B7)."""
        return self._unknown_side("forward", self.transition, dp_epsilon, n)

    def _backward(self, dp_epsilon, n):
        """Leakage of the past to an adversary who knows none of it."""
        if self._stationary:
            return self._unknown_side("backward", self._reverse, dp_epsilon, n)
        side = self._contracted(dp_epsilon, n)  # any distribution of the first state
        if isinstance(self.start, np.ndarray) and self.stationary_ is not None:
            given = started_side(
                self.transition, self.start, dp_epsilon, n - 1, stationary=self.stationary_
            )
            side = side if given is None else combine(np.minimum, side, given)
        return side

    @property
    def _reverse(self):
        return self._remember("reverse", lambda: reversed_kernel(self.transition, self.stationary_))

    def _unknown_side(self, name, kernel, dp_epsilon, n):
        width = 2 if len(kernel) == 2 else 1
        return self._remember(
            (name, dp_epsilon, n),
            lambda: iterate_leakage(kernel_update(kernel), dp_epsilon, n - 1, width=width),
        )

    def _bridged(self, matrix, far, unknown, dp_epsilon, n):
        """Leakage of a side of an observed chain: something known on it, or nothing (B5′)."""
        known = bridge_sides(matrix, dp_epsilon, n - 1, far=far)
        return None if known is None else combine(np.maximum, known, unknown)

    def _tight(self, dp_epsilon, n):
        left = right = self._contracted(dp_epsilon, n)
        k = len(self.transition)
        if self.observed and self.stationary_ is not None and k <= MOST_STATES:
            after, before = self._forward(dp_epsilon, n), self._backward(dp_epsilon, n)
            bridged = self._bridged(self.transition, np.ones(k), after, dp_epsilon, n)
            right = right if bridged is None else combine(np.minimum, right, bridged)
            bridged = self._bridged(self.transition.T, self.stationary_, before, dp_epsilon, n)
            left = left if bridged is None else combine(np.minimum, left, bridged)
        best = min(dp_epsilon + both_sides(left, right, n), n * dp_epsilon)
        if self.observed and self._stationary and k > 2:
            best = min(best, self._quilted(dp_epsilon, n, factor=2.0))
        return best

    def _quilted(self, dp_epsilon, n, *, factor):
        # Tables reach until one record more cannot pay; rounded so that searches reuse them.
        enough = 2.0 ** math.floor(math.log2(dp_epsilon / factor))
        sides = (
            self._remember(
                ("influences", side, n, enough),
                lambda kernel=kernel: chain_influences(kernel, n - 1, enough),
            )
            for side, kernel in (("past", self._reverse), ("future", self.transition))
        )
        return quilt_leakage(*sides, dp_epsilon, n, factor=factor)

    def _orders(self, dp_epsilon, n):
        """Leakage sequences of the orders of time that may be used (theory B7)."""
        orders = [self._forward(dp_epsilon, n)]
        if self._stationary:
            orders.append(self._backward(dp_epsilon, n))
        return orders

    def _sequential_epsilon(self, dp_epsilon, n):
        return dp_epsilon + min(float(order[-1].max()) for order in self._orders(dp_epsilon, n))

    def _sequential_information(self, dp_epsilon, n):
        extra = min(float(order[-1].max()) for order in self._orders(dp_epsilon, n))
        return block_information(dp_epsilon, extra, n)

    def _posterior_bias(self, dp_epsilon, n):
        after, before = self._forward(dp_epsilon, n), self._backward(dp_epsilon, n)
        length = max(len(after), len(before))
        if n <= 4 * length:
            records, weights = np.arange(n), np.ones(n)
        else:  # the middle is all alike: one representative stands for it
            records = np.r_[np.arange(length), length, np.arange(n - length, n)]
            weights = np.ones(len(records))
            weights[length] = n - 2 * length
        leakage = after[np.minimum(n - 1 - records, len(after) - 1)]
        leakage = dp_epsilon + leakage + before[np.minimum(records, len(before) - 1)]
        leakage = np.minimum(leakage.max(axis=1), n * dp_epsilon)
        return float(weights @ np.tanh(leakage / 4.0) / n)  # theory G6
