"""Metrics that weigh records by their class: balanced accuracy and ROC AUC.

Neither is a mean over records, so only models whose records (or whole components) are independent
admit them. Neighbours replace a record by another one of the same class. How many records of each
class the holdout has is never used for anything that is released: what is public are the classes
and their counts in the training data.
"""

import dataclasses
import functools
import itertools
import math
from typing import ClassVar

import numpy as np
from scipy.special import bdtr, betaincinv
from scipy.stats import rankdata

from sklearn_bdp._bisection import last_whole
from sklearn_bdp.metrics._base import BoundedMetric, ScoreShape
from sklearn_bdp.metrics._classification import class_index
from sklearn_bdp.metrics._rows import as_labels, equal, respond

# Log probability that a class of the holdout is smaller than twice its floor: part of every limit
# (accounting.PairsTail counts it), so rare that it costs nothing.
_RARE = -40.0


@functools.lru_cache(maxsize=64)
def class_floors(counts, n):
    """Return counts that classes of ``n`` records, drawn like the training data, do not miss.

    At least 1: half of what independent records miss with probability about e^-40. Whole groups of
    records vary more, and their limits are not to end at a constant.
    """
    total, rare, floors = sum(counts), math.exp(_RARE), []
    for count in counts:
        share = float(betaincinv(count, total - count + 1, rare))
        seldom = lambda k, share=share: bdtr(k - 1, n, share) <= rare  # noqa: E731
        least = last_whole(seldom, 1, n + 1)
        floors.append(max(1, least // 2))
    return tuple(floors)


def coarse_sizes(counts, n):
    """Return lower bounds of class counts on a coarse grid, and the nats that they give away.

    A class may be ``1.15**-(j+1)`` of an equal share of the records, ``j = 0, 1, ...``. Sizes are
    given in rising order, not class by class: the smallest has the prior ``1 / ((j+1)(j+2))``, each
    larger one is at step 0 or anywhere up to the step before it, half and half. Equal classes
    cost ``ln 2`` in all.
    """
    equal, steps = n / len(counts), []
    for count in counts:
        step = 0
        while math.floor(equal / 1.15 ** (step + 1)) > count:
            step += 1
        steps.append(step)
    steps.sort(reverse=True)
    price = math.log((steps[0] + 1) * (steps[0] + 2))
    for before, step in itertools.pairwise(steps):
        price -= math.log(0.5 * (step == 0) + 0.5 / (before + 1))
    return tuple(math.floor(equal / 1.15 ** (step + 1)) for step in steps), price


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassMetric(BoundedMetric):
    """What both share: classes, by default those of the model or of the records, and their counts.

    Public counts are those of the training data. Without them the holdout's own counts are used,
    coarsely, and paid for.
    """

    classes: tuple | None = None
    class_counts: tuple | None = dataclasses.field(default=None, compare=False, repr=False)

    is_mean: ClassVar[bool] = False
    by_predictions: ClassVar[bool] = True
    _kind: ClassVar[str]

    def informed(self, y):
        if self.class_counts is not None or y is None:
            return self
        classes, counts = np.unique(as_labels(y), return_counts=True)
        return dataclasses.replace(
            self, classes=tuple(classes.tolist()), class_counts=tuple(counts.tolist())
        )

    def _shape(self, y):
        counts = self.class_counts
        if counts is not None:
            floors = class_floors(counts, len(y))
            return ScoreShape(self._kind, class_counts=counts, class_floors=floors)
        sizes, price = coarse_sizes(self._counts(y), len(y))
        names = () if self.classes is None else tuple(map(str, self.classes))
        return ScoreShape(self._kind, class_sizes=sizes, price=price, classes=names)

    def _counts(self, y):
        """Return how many of the records each class has."""
        classes = np.unique(y) if self.classes is None else np.array(self.classes, dtype=object)
        index = class_index(y, classes)
        return np.bincount(index[index >= 0], minlength=len(classes))

    def _sizes(self, y):
        """Return the sizes that bound what a record of each class can do."""
        if self.class_counts is not None:
            return np.array(class_floors(self.class_counts, len(y)), float)
        return np.maximum(self._counts(as_labels(y)), 1).astype(float)

    def sensitivity(self, y):
        return self._moved(self._sizes(y), len(y))[0]

    def rms_sensitivity(self, y):
        return self._moved(self._sizes(y), len(y))[1]

    def _moved(self, sizes, n):
        """Return how far one record moves the score at most, and in root mean square."""
        part = 1.0 if self._kind == "pairs" else 1.0 / len(sizes)
        largest = part / float(sizes.min())
        return largest, min(largest, part * float(np.sqrt((1.0 / sizes).sum() / n)))

    def _public_sensitivities(self, y):
        shape = self._shape(y)
        if shape.class_sizes is None:
            return super()._public_sensitivities(y)
        return self._moved(np.maximum(np.array(shape.class_sizes, float), 1.0), len(y))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancedAccuracy(ClassMetric):
    r"""Mean over the classes of their recall.

    **Sensitivity.** With ``K`` classes of counts :math:`n_k` the score is
    :math:`\frac1K \sum_k \frac1{n_k} \sum_{i: y_i = k} 1[\hat y_i = k]`. A record of class ``k``
    sits in one term only, with weight :math:`1/(K n_k)` and a factor in [0, 1]; replacing it by
    another record of its class moves the score by at most :math:`c_i = 1/(K n_k)`. Hence
    :math:`\Delta = 1/(K \min_k n_k)`, attained, and :math:`\sum_i c_i^2 = K^{-2} \sum_k 1/n_k`.
    With public class counts the floors :math:`f_k` take the place of :math:`n_k`: the recall of a
    class with fewer records, one that is missing for instance, is set to 1/2. Records of classes
    that the training data lack are not counted.
    """

    _kind: ClassVar[str] = "class_means"

    def _rows(self, estimator, X, y):
        return equal(respond(estimator, X, self._methods), y).astype(float)

    def _combine(self, rows, y):
        classes = np.unique(y) if self.classes is None else np.array(self.classes, dtype=object)
        index = class_index(y, classes)
        known = index >= 0
        counts = np.bincount(index[known], minlength=len(classes))
        hits = np.bincount(index[known], weights=np.nan_to_num(rows)[known], minlength=len(classes))
        floors = 1 if self.class_counts is None else class_floors(self.class_counts, len(y))
        recalls = np.where(counts >= floors, hits / np.maximum(counts, 1), 0.5)
        return None, float(recalls.mean())


@dataclasses.dataclass(frozen=True, kw_only=True)
class RocAuc(ClassMetric):
    r"""Probability that a positive record is ranked above a negative one, ties counting half.

    **Sensitivity.** With counts :math:`n_1, n_0` the score is
    :math:`\frac1{n_1 n_0} \sum_{i \in +} \sum_{j \in -} h(s_i, s_j)` with
    :math:`h \in \{0, \tfrac12, 1\}`. A positive record sits in :math:`n_0` of the terms; replacing
    it by another positive one moves the score by at most
    :math:`c_i = n_0 / (n_1 n_0) = 1/n_1`, a negative one by :math:`1/n_0`. Hence
    :math:`\Delta = 1/\min(n_1, n_0)`, attained, and :math:`\sum_i c_i^2 = 1/n_1 + 1/n_0`.
    With public class counts the floors take the place of the counts: the score of records with
    fewer in a class, or none, is 1/2.
    A record on which the model fails is ranked last among the positives, first among the
    negatives, which is the worst it can contribute; the bound is unchanged.
    """

    _kind: ClassVar[str] = "pairs"
    _methods: ClassVar[tuple[str, ...]] = ("decision_function", "predict_proba")

    def _rows(self, estimator, X, y):
        scores = respond(estimator, X, self._methods).astype(float)
        if scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1]
        return scores

    def _combine(self, rows, y):
        n_positive = int(y.sum())
        n_negative = len(y) - n_positive
        floors = (1, 1)
        if self.class_counts is not None:
            floors = class_floors(self.class_counts, len(y))
        if min(n_positive, n_negative) < min(floors):
            return None, 0.5
        worst = np.where(y == 1, -np.inf, np.inf)
        ranks = rankdata(np.where(np.isnan(rows), worst, rows))
        wins = ranks[y == 1].sum() - n_positive * (n_positive + 1) / 2.0
        return None, float(wins / (n_positive * n_negative))

    def _counts(self, y):
        counts = np.unique(y, return_counts=True)[1]
        return np.r_[counts, 0] if len(counts) == 1 else counts

    def _check(self, estimator, X, y):
        """Return 1 for the positive class and 0 for the other one."""
        y = super()._check(estimator, X, y)
        known = self.classes
        if known is None:
            known = tuple(np.asarray(getattr(estimator, "classes_", np.unique(y))).tolist())
        of_model = getattr(estimator, "classes_", known)
        index = class_index(y, np.array(known, dtype=object))
        if list(of_model) != list(known) or index.min() < 0:
            raise ValueError(
                f"roc_auc needs a model of the classes in y, got one of {list(of_model)}."
            )
        if len(known) > 2:
            raise ValueError(f"roc_auc needs two classes, got {len(known)}.")
        return index
