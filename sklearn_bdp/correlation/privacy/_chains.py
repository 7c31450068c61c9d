"""What a Markov chain leaks of a record: its past, its future, and Zhao's lemmas (theory B2-B7)."""

from __future__ import annotations

import math

import numpy as np

from sklearn_bdp._bisection import doubled, last_accepted
from sklearn_bdp.correlation._chain import MarkovChain
from sklearn_bdp.correlation._transition import block_spread, is_reversible, reversed_kernel
from sklearn_bdp.correlation.privacy._calibration import Calibration, calibrate
from sklearn_bdp.correlation.privacy._kernels import (
    contracted_sides,
    iterate_leakage,
    kernel_update,
)
from sklearn_bdp.correlation.privacy._quilts import (
    MOST_STATES,
    blanket_influence,
    both_sides,
    bridge_sides,
    chain_influences,
    combine,
    quilt_leakage,
    spectral_dp_epsilon,
    spectral_smallest_n,
)


def block_information(dp_epsilon, extra, n):
    """Return the least sum of squared block leakages / 8 on a chain, in nats (theory G1, B7).

    ``extra`` is what the records after a block add to the leakage of its own.
    """
    return dp_epsilon**2 * block_spread(extra / dp_epsilon, n) / 8.0


@calibrate.register(MarkovChain)
class ChainCalibration(Calibration):
    """Leakage of the records of one chain, by both sides of a record."""

    def check_method(self, n, method):
        chain, other = self.model, "method='tight' applies (theory B5)."
        if method == "tight":
            return
        if method == "spectral":
            self._check_spectral(n, other)
        elif method == "blanket" and n > 1 and math.isinf(chain.diameter_):
            raise ValueError(
                "method='blanket' needs positive transition probabilities (a neighbor that rules "
                "a value out has infinite influence); method='quilt' uses neighbors further away."
            )

    def _check_spectral(self, n, other):
        chain = self.model
        mixes = chain.spectral_gap_ > 0 and is_reversible(chain.transition, chain.stationary_)
        if not mixes or (not chain.observed and math.isinf(chain.diameter_)):
            raise ValueError(
                "method='spectral' needs an irreducible, aperiodic and reversible chain, with "
                "positive transition probabilities unless its states are the records "
                f"(observed=True); {other}"
            )
        least = spectral_smallest_n(chain.spectral_gap_, float(chain.stationary_.min()))
        if not n >= least:
            raise ValueError(
                f"method='spectral' needs n >= 2d, here at least {least} records, got n={n}; "
                f"{other}"
            )

    def leakage(self, dp_epsilon, n, method):
        if method == "tight":
            return self._tight(dp_epsilon, n)
        if method == "spectral":
            value = self._spectral_leakage(dp_epsilon, n)
        elif method == "quilt":
            value = self._quilted(dp_epsilon, n, factor=4.0)
        else:
            # Theory B3; Zhao 2017, Lemma 3.
            value = dp_epsilon + 4.0 * blanket_influence(self.reverse, self.model.transition, n)
        # The lemmas of the paper are about chains whose states are the records.
        return value if self.model.observed else max(value, self._tight(dp_epsilon, n))

    def _spectral(self, bdp_epsilon, n):
        chain = self.model
        smallest = float(chain.stationary_.min())
        return spectral_dp_epsilon(float(bdp_epsilon), chain.spectral_gap_, smallest, n)

    def _spectral_leakage(self, dp_epsilon, n):
        """Smallest level whose ``h`` reaches ``dp_epsilon`` (h increases with the level)."""
        enough = lambda x: self._spectral(x, n) >= dp_epsilon  # noqa: E731
        return last_accepted(enough, *doubled(enough, float(dp_epsilon)))  # h jumps with d

    def inverse(self, bdp_epsilon, n, method):
        if method == "spectral":
            level = self._spectral(bdp_epsilon, n)
            if not self.model.observed:
                level = min(level, self.model.dp_epsilon(bdp_epsilon, n))
            return level
        return super().inverse(bdp_epsilon, n, method)

    # -- the two sides of a record ----------------------------------------------------------

    def _contracted(self, dp_epsilon, n):
        """Leakage of a side to an adversary who knows any of it (theory B5)."""
        return contracted_sides(self.model.diameter_, dp_epsilon, n - 1)

    def forward(self, dp_epsilon, n):
        """Leakage of the future to an adversary who knows none of it (theory B7)."""
        return self._unknown_side("forward", self.model.transition, dp_epsilon, n)

    def backward(self, dp_epsilon, n):
        """Leakage of the past to an adversary who knows none of it."""
        return self._unknown_side("backward", self.reverse, dp_epsilon, n)

    @property
    def reverse(self):
        """Transition matrix of the stationary chain run backwards."""
        chain = self.model
        return chain._remember(
            "reverse", lambda: reversed_kernel(chain.transition, chain.stationary_)
        )

    def _unknown_side(self, name, kernel, dp_epsilon, n):
        width = 2 if len(kernel) == 2 else 1
        return self.model._remember(
            (name, dp_epsilon, n),
            lambda: iterate_leakage(kernel_update(kernel), dp_epsilon, n - 1, width=width),
        )

    def _bridged(self, matrix, far, unknown, dp_epsilon, n):
        """Leakage of a side of an observed chain: something known on it, or nothing (B5′)."""
        known = bridge_sides(matrix, dp_epsilon, n - 1, far=far)
        contracted = self._contracted(dp_epsilon, n)
        if known is None:
            return contracted
        return combine(np.minimum, contracted, combine(np.maximum, known, unknown))

    def _tight(self, dp_epsilon, n):
        chain, left = self.model, self._contracted(dp_epsilon, n)
        right, k = left, len(chain.transition)
        if chain.observed and k <= MOST_STATES:
            after, before = self.forward(dp_epsilon, n), self.backward(dp_epsilon, n)
            right = self._bridged(chain.transition, np.ones(k), after, dp_epsilon, n)
            left = self._bridged(chain.transition.T, chain.stationary_, before, dp_epsilon, n)
        best = min(dp_epsilon + both_sides(left, right, n), n * dp_epsilon)
        if chain.observed and k > 2:
            best = min(best, self._quilted(dp_epsilon, n, factor=2.0))
        return best

    def _quilted(self, dp_epsilon, n, *, factor):
        # Tables reach until one record more cannot pay; rounded so that searches reuse them.
        enough = 2.0 ** math.floor(math.log2(dp_epsilon / factor))
        sides = (
            self.model._remember(
                ("influences", side, n, enough),
                lambda kernel=kernel: chain_influences(kernel, n - 1, enough),
            )
            for side, kernel in (("past", self.reverse), ("future", self.model.transition))
        )
        return quilt_leakage(*sides, dp_epsilon, n, factor=factor)

    def _extra(self, dp_epsilon, n):
        """Return what follows a record in the better order of time (theory B7)."""
        orders = self.forward(dp_epsilon, n), self.backward(dp_epsilon, n)
        return min(float(order[-1].max()) for order in orders)

    def sequential_information(self, dp_epsilon, n):
        return block_information(dp_epsilon, self._extra(dp_epsilon, n), n)

    def posterior_bias(self, dp_epsilon, n):
        after, before = self.forward(dp_epsilon, n), self.backward(dp_epsilon, n)
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
