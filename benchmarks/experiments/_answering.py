"""Reusable holdouts that answer the analyst: a preset without proof, a theorem, our default.

A correlation is the mean over records of label times attribute, clipped to ±6: bounded, so that a
record has a sensitivity, and at six standard deviations the clip does not change a number here.
"""

from dataclasses import dataclass

import numpy as np

from sklearn_bdp import ReusableHoldout
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.mechanisms import Thresholdout

CLIP = 6.0


@dataclass(frozen=True)
class Practical:
    """Dwork et al. 2017, Section 4.1: T = 4/√n and σ = 1/√n, Gaussian; no proof.

    Parameters
    ----------
    noise : {"script", "paper"}
        ``"script"``: σ in the comparison and σ in the answer, as in the authors' published script:
        this reproduces the published figures. ``"paper"``: the ratios of Fig. 1 (threshold 2σ,
        query 4σ, answer σ), as the text says.
    """

    noise: str = "script"

    def begin(self, n, rng):
        """Return a holdout that answers one repetition."""
        if self.noise not in ("script", "paper"):
            raise ValueError(f"noise must be 'paper' or 'script', got noise={self.noise!r}.")
        return _PracticalHoldout(4.0 / np.sqrt(n), 1.0 / np.sqrt(n), self.noise, rng)


class _PracticalHoldout:
    def __init__(self, threshold, sigma, noise, rng):
        self.threshold = threshold
        self.sigma = sigma
        self.noise = noise
        self.rng = rng

    def correlations(self, training, holdout, sample):
        """Return answers in units of the correlation, and how many are corrected."""
        return self._answers(training, holdout, low=-1.0)

    def accuracies(self, training, holdout, sample, weights):
        """Return reported accuracies, limits (NaN: not proven), and how many are corrected."""
        values, above = self._answers(training, holdout, low=0.0)
        return values, np.full((2, len(values)), np.nan), above

    def _answers(self, training, holdout, *, low):
        """Return answers in [low, 1] and how many are corrected; the mechanism works in [0, 1]."""
        width = 1.0 - low
        threshold = self.threshold / width
        sigma = self.sigma / width
        if self.noise == "paper":
            mechanism = Thresholdout.dwork2017_practical(
                threshold=threshold, sigma=sigma, random_state=self.rng
            )
        else:
            mechanism = Thresholdout(
                threshold, threshold_scale=0.0, query_scale=sigma, answer_scale=sigma,
                noise="gaussian", random_state=self.rng,
            )  # fmt: skip
        answers = mechanism.answer((training - low) / width, (holdout - low) / width)
        return low + width * np.asarray(answers.values), int(np.sum(answers.above))


@dataclass(frozen=True)
class Algorithm1:
    """Zhao 2017, Algorithm 1 with the parameters of Theorem 2: Laplace noises σ, 2σ and 4σ.

    Parameters
    ----------
    tau, beta, c : float
        Accuracy, failure probability, honesty.
    n_queries, budget : int
        m and B.
    """

    tau: float
    beta: float
    n_queries: int
    budget: int
    c: float

    def begin(self, n, rng):
        """Return a holdout that answers one repetition."""
        mechanism = Thresholdout.zhao2017(
            self.tau, self.beta, self.n_queries, self.budget, self.c, random_state=rng
        )
        return _Algorithm1Holdout(mechanism, self.tau)


class _Algorithm1Holdout:
    """One mechanism and one budget for correlations and accuracies; NaN once it is spent."""

    def __init__(self, mechanism, tau):
        self.mechanism = mechanism
        self.tau = tau

    def correlations(self, training, holdout, sample):
        """Return answers in units of the correlation, and how many are corrected."""
        answers = self.mechanism.answer(to_unit(training), to_unit(holdout))
        return from_unit(answers.values), int(answers.above.sum())

    def accuracies(self, training, holdout, sample, weights):
        """Return reported accuracies, their limits, and how many are corrected."""
        answers = self.mechanism.answer(training, holdout)
        limits = np.array([answers.values - self.tau, answers.values + self.tau])
        return answers.values, np.clip(limits, 0.0, 1.0), int(answers.above.sum())


@dataclass(frozen=True)
class Default:
    """`ReusableHoldout` with its defaults and the declared chain; it needs all records.

    Parameters
    ----------
    stay : float
        Probability that label and mood keep their value.
    beta : float
        Failure probability.
    """

    stay: float
    beta: float = 0.05

    def begin(self, n, rng):
        """Return a holdout that answers one repetition."""
        return _DefaultHoldout(sign_chain(self.stay), self.beta, n, rng)


class _DefaultHoldout:
    def __init__(self, chain, beta, n, rng):
        seed = int(rng.integers(2**31))  # noise for a test: the certificate says so
        self.holdout = ReusableHoldout(
            np.zeros((n, 1)),
            np.zeros(n),
            correlation=chain,
            confidence_level=1 - beta,
            random_state=seed,
        )

    def correlations(self, training, holdout, sample):
        """Return answers in units of the correlation, and how many are corrected."""
        answers = self.holdout.answer(to_unit(training), to_unit(sample.products()))
        return from_unit(answers.values), int(answers.corrected.sum())

    def accuracies(self, training, holdout, sample, weights):
        """Return reported accuracies, their limits, and how many are corrected."""
        answers = self.holdout.answer(training, sample.hits(weights))
        return (
            answers.values,
            np.array([answers.lower, answers.upper]),
            int(answers.corrected.sum()),
        )


def to_unit(values):
    """Return clipped products, or their means, moved to [0, 1]."""
    return (np.clip(values, -CLIP, CLIP) + CLIP) / (2.0 * CLIP)


def from_unit(values):
    """Return answers in units of the correlation."""
    return 2.0 * CLIP * np.asarray(values) - CLIP


def sign_chain(stay):
    """Return the declared chain: label and mood, two independent two-state chains, four states."""
    step = np.array([[stay, 1.0 - stay], [1.0 - stay, stay]])
    return MarkovChain(np.kron(step, step))
