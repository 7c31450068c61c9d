"""Per-record scores of classifiers."""

import dataclasses
import math
from typing import ClassVar

import numpy as np

from sklearn_bdp.metrics._base import MeanMetric
from sklearn_bdp.metrics._clipping import ClippedMetric
from sklearn_bdp.metrics._rows import class_probabilities, equal, respond


def class_index(y, classes):
    """Return the position of each label among the classes, -1 for labels unknown to the model."""
    position = {label: index for index, label in enumerate(classes.tolist())}
    return np.array([position.get(label, -1) for label in y.tolist()], dtype=np.intp)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accuracy(MeanMetric):
    """One where the prediction equals the target (in all outputs), zero elsewhere."""

    _binary: ClassVar[bool] = True
    _multioutput: ClassVar[bool] = True

    def _rows(self, estimator, X, y):
        same = equal(respond(estimator, X, self._methods), y)
        return same.reshape(len(y), -1).all(axis=1).astype(float)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HammingScore(Accuracy):
    """The share of outputs whose prediction equals the target."""

    _binary: ClassVar[bool] = False

    def _rows(self, estimator, X, y):
        same = equal(respond(estimator, X, self._methods), y)
        return same.reshape(len(y), -1).mean(axis=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopKAccuracy(MeanMetric):
    """One where the target is among the ``k`` classes with the highest scores.

    Ties go to the class that comes later, as in scikit-learn.
    """

    _methods: ClassVar[tuple[str, ...]] = ("decision_function", "predict_proba")
    _binary: ClassVar[bool] = True

    k: int = 2

    def _rows(self, estimator, X, y):
        scores = respond(estimator, X, self._methods).astype(float)
        target = class_index(y, np.asarray(estimator.classes_))
        cut = 0.0 if hasattr(estimator, "decision_function") else 0.5
        if scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1]
        if scores.ndim == 1:
            scores = np.column_stack([np.full(len(scores), cut), scores])
            # At the cut the first class wins, against the order of ties below.
            scores[:, 1] = np.where(scores[:, 1] == cut, -np.inf, scores[:, 1])
        if scores.shape[1] != len(estimator.classes_):
            raise ValueError(f"{self.name} needs one score per class, got shape {scores.shape}.")
        best = np.argsort(scores, axis=1, kind="stable")[:, ::-1][:, : self.k]
        hits = (best == target[:, None]).any(axis=1).astype(float)
        return np.where(np.isnan(scores).any(axis=1), np.nan, hits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrierScore(MeanMetric):
    r"""One minus half the squared distance of the probabilities from the truth.

    :math:`\tfrac12 \sum_k (p_k - 1[y = k])^2 \in [0, 1]`; a label the model does not know counts
    as a class with probability zero.
    """

    _methods: ClassVar[tuple[str, ...]] = ("predict_proba",)

    def _rows(self, estimator, X, y):
        classes, probabilities = class_probabilities(estimator, X)
        target = class_index(y, classes)
        known = target >= 0
        of_target = np.where(known, probabilities[np.arange(len(y)), target], 0.0)
        distance = (probabilities**2).sum(axis=1) - 2.0 * of_target + 1.0
        return 1.0 - 0.5 * distance


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogLoss(ClippedMetric):
    r"""Logarithm of the target's probability, clipped below at ``clip``.

    Score :math:`\ln \max(p_y, clip) \in [\ln clip, 0]`; a label the model does not know has
    probability zero and gets the worst score.
    """

    _methods: ClassVar[tuple[str, ...]] = ("predict_proba",)

    clip: float = 0.01
    labels: tuple | None = None

    @property
    def limit(self):
        return f"a probability of {self.clip:g}"

    @property
    def remedy(self):
        return (
            f"scoring=get_metric('neg_log_loss', clip={self.clip / 100:.0g}) moves the limit "
            "(intervals widen with it), and 'neg_brier_score' needs none"
        )

    def _raw(self, estimator, X, y):
        classes, probabilities = class_probabilities(estimator, X)
        target = class_index(y, classes)
        return np.where(target >= 0, probabilities[np.arange(len(y)), target], 0.0)

    def _unit(self, raw, clipped):
        # scikit-learn's own log loss is clipped, too: at the precision of a double.
        least = self.clip if clipped else min(self.clip, np.finfo(float).eps)
        return 1.0 - np.log(np.maximum(raw, least)) / math.log(self.clip)

    def _check_estimator(self, estimator):
        super()._check_estimator(estimator)
        classes = np.asarray(estimator.classes_).tolist()
        if self.labels is not None and sorted(classes) != list(self.labels):
            raise ValueError(
                f"labels must be the classes of the model, {classes}, got labels={self.labels}."
            )
