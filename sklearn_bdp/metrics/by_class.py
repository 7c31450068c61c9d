"""Metrics that weigh records by their class: ROC AUC, balanced accuracy, recall, specificity.

None of them is a mean over records, so that their proofs need independent records or independent
groups. The holdout's mechanism releases class proportions before the scores (theory G20). Classes
come from training labels or from the model, never from holdout labels.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.stats import rankdata

from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.intervals.jackknife import Statistic
from sklearn_bdp.intervals.left_out import auc_left_out, divide, of_sums
from sklearn_bdp.metrics import proofs
from sklearn_bdp.metrics.base import (
    BoundedMetric,
    Evaluation,
    ScoreShape,
    as_labels,
    register_metric,
    respond,
)
from sklearn_bdp.metrics.means import label_positions
from sklearn_bdp.metrics.ratios import RatioOfCounts
from sklearn_bdp.metrics.statistics import class_outcomes, confusion_outcomes


@dataclasses.dataclass(frozen=True, eq=False)
class ClassScores:
    """A model's score or response for each record, and the record's class.

    Only the mechanism may read those of holdout records.
    """

    shape: ScoreShape
    #: Responses for ROC AUC, else scores in [0, 1] such as 1 for a correct prediction. NaN for
    #: records that the model failed on. Shape (n_records,).
    record_values: np.ndarray
    #: Position of the class in which each record counts, shape (n_records,).
    class_index: np.ndarray

    def __repr__(self) -> str:
        return f"<{len(self.record_values)} raw scores>"

    def min_class_counts(self, n_classes: int, slices: np.ndarray | None = None) -> np.ndarray:
        """Return for each class its smallest number of records among the slices.

        Parameters
        ----------
        n_classes : int
            Number of classes.
        slices : ndarray of shape (n_slices, n_units), optional
            Positions of the records of each slice. By default all records are one slice.

        Returns
        -------
        ndarray of int, shape (n_classes,)
            For holdout records, only the mechanism may read it.
        """
        class_index = self.class_index[np.newaxis] if slices is None else self.class_index[slices]
        return np.array([(class_index == label).sum(axis=1).min() for label in range(n_classes)])

    def value(self, class_floors: tuple, slices: np.ndarray | None = None) -> float:
        r"""Return the score, averaged over slices.

        Parameters
        ----------
        class_floors : tuple of int
            Lower bounds :math:`f_c` of the counts :math:`n_c` of all classes. If a class has fewer
            records, each missing one counts as one half, so that :meth:`sensitivity` is valid on
            every dataset.
        slices : ndarray of shape (n_slices, n_units), optional
            Positions of the records of each slice. By default all records are one slice.

        Returns
        -------
        float
            In [0, 1]. For holdout records, only the mechanism may read it.
        """
        selection = np.newaxis if slices is None else slices
        record_values = self.record_values[selection]
        class_index = self.class_index[selection]
        floors = np.maximum(class_floors, 1)
        if self.shape.kind == "pairs":
            return float(_auc(record_values, class_index == 1, floors).mean())
        counted_classes = (
            range(len(floors)) if self.shape.counted_classes is None else self.shape.counted_classes
        )
        record_scores = np.nan_to_num(record_values)
        class_means = []  # an array of shape (n_slices,) for each class
        for position in counted_classes:
            in_class = class_index == position
            n_in_class = in_class.sum(axis=1)
            floor = floors[position]
            n_missing = np.maximum(floor - n_in_class, 0)
            score_sums = (record_scores * in_class).sum(axis=1) + 0.5 * n_missing
            class_means.append(score_sums / np.maximum(n_in_class, floor))
        return float(np.mean(class_means))

    def sensitivity(self, class_floors: tuple) -> float:
        r"""Return a bound on the change of :meth:`value` if one record is replaced by another.

        Parameters
        ----------
        class_floors : tuple of int
            Lower bounds :math:`f_c` of the numbers of records of all classes, as in :meth:`value`.

        Returns
        -------
        float
            For ROC AUC :math:`1/f_1 + 1/f_0`. For a mean over ``K`` classes, the sum of the two
            largest :math:`1/f_c` of these classes (of one if ``K`` is 1), divided by ``K``. The
            bound is at most 1.
        """
        floors = np.maximum(class_floors, 1)
        if self.shape.counted_classes is not None and self.shape.kind != "pairs":
            floors = floors[list(self.shape.counted_classes)]
        sensitivity = float(np.sum(1.0 / np.sort(floors)[:2]))
        if self.shape.kind != "pairs":
            sensitivity /= len(floors)
        return min(1.0, sensitivity)


def _auc(scores_by_slice, is_positive, class_floors):
    """Return the AUC of each slice, shape (n_slices,).

    ``scores_by_slice`` and ``is_positive`` have the shape (n_slices, n_units). A record that the
    model failed on (NaN) gets the worst rank for its class. Pairs with missing records, up to the
    floors of both classes, count one half.
    """
    n_positive = is_positive.sum(axis=1)
    n_negative = is_positive.shape[1] - n_positive
    worst_scores = np.where(is_positive, -np.inf, np.inf)
    ranks = rankdata(np.where(np.isnan(scores_by_slice), worst_scores, scores_by_slice), axis=1)
    n_wins = np.sum(ranks * is_positive, axis=1) - n_positive * (n_positive + 1) / 2.0
    n_pairs = np.maximum(n_positive, class_floors[1]) * np.maximum(n_negative, class_floors[0])
    return (n_wins + 0.5 * (n_pairs - n_positive * n_negative)) / n_pairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassMetric(BoundedMetric):
    """Base of metrics that weigh records by their class.

    ``classes`` are those of the training labels or of the model, never of the holdout.
    ``class_counts`` are the numbers of training records of each class, which predict those of the
    holdout. With groups, all groups weigh equally in them. ``within_group_fractions`` has for each
    class the fraction of its proportion's variance that lies within groups (patients), None for
    independent records. Scores of records outside [0, 1] are clipped. Responses that are only
    ranked may be any numbers.

    A record with an unknown label counts as a failure of the first class; for recall, it counts in
    another class. A verified score, its cross-validated score and its interval are about this
    score. A mean over classes differs from scikit-learn's if new records have a class that the
    training labels lack, because class names of the holdout would reveal its labels. A report that
    reads records without noise has limits of scikit-learn's score (`for_report`).
    """

    classes: tuple | None = None
    class_counts: tuple | None = dataclasses.field(default=None, compare=False, repr=False)
    within_group_fractions: tuple | None = dataclasses.field(
        default=None, compare=False, repr=False
    )

    uses_predictions_only: ClassVar[bool] = True
    target_types: ClassVar[tuple[str, ...]] = ("binary", "multiclass")
    #: Whether the metric is for two classes only.
    _is_binary_only: ClassVar[bool] = False
    #: Kind of the score, as in `ScoreShape`.
    _kind: ClassVar[str] = "class_means"

    @classmethod
    def build(cls, name, *, classes, y, options):
        if cls._is_binary_only and y is not None and len(np.unique(as_labels(y))) != 2:
            raise UnboundedMetricError(
                f"{name} is available for two classes only. Use 'balanced_accuracy' or "
                "'neg_brier_score'."
            )
        public_classes = None
        if y is None and classes is not None:
            public_classes = tuple(np.asarray(classes).tolist())
        metric = cls._with_classes(name, public_classes, options).with_training_targets(y)
        if metric.classes:
            metric.expected_shape(1)  # raises if an option does not fit, before any query
        return metric

    @classmethod
    def _with_classes(cls, name, classes, options):
        """Return the metric with these classes (None if unknown) and options."""
        lower, upper = cls.score_range
        return cls(name=name, lower=lower, upper=upper, classes=classes)

    def proof(self, dependence, *, is_difference=False, in_subgroup=False, is_private=False):
        if is_difference or in_subgroup:
            return ""
        return proofs.BY_CLASS.get(dependence, "")

    def planned_shape(self, n, class_counts):
        planned_metric = dataclasses.replace(
            self, classes=(0, 1), class_counts=class_counts, within_group_fractions=None
        )
        return planned_metric.expected_shape(n)

    def with_training_targets(self, y, groups=None):
        """Return the metric with classes, class counts and within-group fractions from ``y``.

        It is unchanged without ``y``, and if it has class counts and ``groups`` is None.
        """
        if y is None or (self.class_counts is not None and groups is None):
            return self
        classes, class_index = np.unique(as_labels(y), return_inverse=True)
        # Proportion of each class in each sampling unit, shape (n_units, n_classes).
        unit_proportions = np.eye(len(classes))[class_index]
        n_training_records = len(class_index)
        within_group_fractions = None
        if groups is not None:  # a slice has one record of each group (theory G19)
            _, group_codes, group_sizes = np.unique(groups, return_inverse=True, return_counts=True)
            record_weights = 1.0 / group_sizes[group_codes]
            weighted_indicators = unit_proportions * record_weights[:, np.newaxis]
            unit_proportions = np.zeros((len(group_sizes), len(classes)))
            np.add.at(unit_proportions, group_codes, weighted_indicators)
            proportions = unit_proportions.mean(axis=0)
            within_variance = np.mean(unit_proportions * (1.0 - unit_proportions), axis=0)
            total_variance = np.maximum(proportions * (1.0 - proportions), 1e-12)
            within_group_fractions = tuple(
                np.clip(within_variance / total_variance, 0.0, 1.0).tolist()
            )
        expected_counts = n_training_records * unit_proportions.mean(axis=0)
        class_counts = np.maximum(np.rint(expected_counts), 1).astype(int)
        return dataclasses.replace(
            self,
            classes=tuple(classes.tolist()),
            class_counts=tuple(class_counts.tolist()),
            within_group_fractions=within_group_fractions,
        )

    def expected_shape(self, n):
        return self._shape(self.classes or ())

    def _shape(self, classes):
        """Return the `ScoreShape` that determines the limits, for all classes in this order."""
        return ScoreShape(
            self._kind,
            classes=tuple(map(repr, classes)),  # "1" and 1 are not the same class
            class_counts=self.class_counts,
            counted_classes=self.counted_classes(classes),
            within_group_fractions=self.within_group_fractions,
        )

    def counted_classes(self, classes: Sequence[Any]) -> tuple[int, ...] | None:
        """Return the positions of the classes that count in the score, or None for all.

        Parameters
        ----------
        classes : sequence
            Classes of the training labels, or of the model.

        Returns
        -------
        tuple of int or None
            Positions in ``classes``.
        """
        return None

    def _known_classes(self, estimator):
        """Return the classes of the training labels, or else of the model.

        Raises ValueError without either.
        """
        classes = self.classes
        if classes is None and getattr(estimator, "classes_", None) is not None:
            classes = tuple(np.asarray(estimator.classes_).tolist())
        if classes is None:
            problem = (
                "these predictions do not show them. Pass all classes to the holdout, as in "
                "from_targets(y, training_targets=[1, 2]). For a model without classes_, pass "
                f"get_metric({self.name!r}, y=y_train)."
            )
            if hasattr(estimator, "fit"):
                problem = (
                    f"{type(estimator).__name__} has no classes_: fit it first. If a fitted model "
                    f"has none, pass get_metric({self.name!r}, y=y_train)."
                )
            raise ValueError(
                f"{self.name} needs the classes, and {problem} The holdout was not queried."
            )
        return classes

    def check_input(self, estimator, X, y):
        """Return the position of each record's class among the classes, -1 for an unknown class."""
        labels = super().check_input(estimator, X, y)
        return label_positions(labels, np.array(self._known_classes(estimator), dtype=object))

    def for_report(self, estimator: Any, y: Any) -> tuple[BoundedMetric, Any]:
        """Return the metric and the targets that a final report evaluates for proven limits.

        A report reads its records without noise. Its limits are about the same score as its value
        even if the records have classes that are not known.

        Parameters
        ----------
        estimator : estimator
            Model that is scored.
        y : ndarray of shape (n,)
            Targets of the records that the report closes.

        Returns
        -------
        metric : BoundedMetric
            The metric, with all classes that its value counts.
        y : ndarray of shape (n,)
            The targets, with the class in which each record counts.
        """
        return self, y

    def _evaluated(self, estimator, record_values, class_index):
        """Return the evaluation of the scores or responses of records, of shape (n,).

        ``class_index`` has the positions of their classes, -1 for an unknown label.
        """
        shape = self._shape(self._known_classes(estimator))
        type_name = f"{type(estimator).__module__}.{type(estimator).__name__}"
        if (
            type_name == "sklearn.dummy.DummyClassifier"
            and estimator.strategy in ("most_frequent", "prior", "constant")
            and shape.counted_classes is None
        ):  # the score is constant by construction
            score = 0.5 if self._kind == "pairs" else 1.0 / len(shape.classes)
            constant_shape = ScoreShape("known", constant_score=score)
            return Evaluation(None, value=score, sensitivity=1.0, shape=constant_shape)
        # A record with an unknown label counts as a failure of the first class, or of the first one
        # that the score does not count: recall is about records of its class, as in scikit-learn.
        uncounted_classes = set(range(len(shape.classes))).difference(shape.counted_classes or ())
        class_of_unknown = min(uncounted_classes, default=0)
        record_values = np.where(class_index < 0, np.nan, record_values)
        if self._kind != "pairs":  # limits of a mean are valid for scores in [0, 1] only
            record_values = np.clip(record_values, 0.0, 1.0)
        class_scores = ClassScores(
            shape, record_values, np.where(class_index < 0, class_of_unknown, class_index)
        )
        # The mechanism computes value and sensitivity again with floors of the class counts.
        return Evaluation(
            per_record=None,
            value=class_scores.value((1,) * len(shape.classes)),
            sensitivity=1.0,
            shape=shape,
            score_inputs=class_scores,
        )

    def record_scores(self, estimator, X, class_index):
        predictions = respond(estimator, X, self.methods)
        if predictions.shape != class_index.shape:
            raise ValueError("The model did not give one prediction per record.")
        predicted = label_positions(
            predictions, np.array(self._known_classes(estimator), dtype=object)
        )
        return (predicted == class_index).astype(float)


def _recall_terms(y, predictions):
    """Yield the mask of each class in ``y``, followed by that of its correct predictions."""
    for label in np.unique(y):
        yield from (y == label, (y == label) & (predictions == label))


def _mean_recall(_, *sums):
    """Return the mean recall of all classes from sums of the masks of `_recall_terms`."""
    recalls = [divide(hits, actual) for actual, hits in zip(sums[::2], sums[1::2], strict=True)]
    return np.mean(recalls, axis=0)


@register_metric("balanced_accuracy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancedAccuracy(ClassMetric):
    r"""Mean of the recall of all classes.

    **Sensitivity.** With ``K`` classes of at least :math:`f_k` records the score is
    :math:`\frac1K \sum_k \frac1{n_k} \sum_{i: y_i = k} 1[\hat y_i = k]`. If a record of class ``k``
    is replaced by another one of its class, the score changes by at most :math:`1/(K f_k)`. If it
    is replaced by one of class ``l``, the score changes by at most :math:`1/(K f_k) + 1/(K f_l)`.
    """

    reads_labels: ClassVar[bool] = True
    unit_statistic: ClassVar[Statistic] = Statistic(
        "labels",
        of_sums(_recall_terms, _mean_recall),
        "unit",
        confusion_outcomes,
        min_tested_alphas=(0.005, 0.002),
    )

    @property
    def n_predicted_classes(self) -> int | None:
        """Number of classes that count as predicted for each record: the predicted one."""
        return 1

    def for_report(self, estimator, y):
        # Limits are valid given the labels, so that classes may follow from them.
        known_classes = self._known_classes(estimator)
        new_classes = [label for label in np.unique(y).tolist() if label not in known_classes]
        if not new_classes:
            return self, y
        classes = (*known_classes, *new_classes)
        metric = dataclasses.replace(
            self, classes=classes, class_counts=None, within_group_fractions=None
        )
        return metric, y

    def proof(self, dependence, *, is_difference=False, in_subgroup=False, is_private=False):
        if (is_difference or in_subgroup) and not is_private:
            return proofs.BY_RECALL.get(dependence, "")
        return super().proof(dependence, is_difference=is_difference, in_subgroup=in_subgroup)


@register_metric("recall")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Recall(RatioOfCounts, ClassMetric):
    r"""Share of the records of class ``pos_label`` that are predicted as that class.

    **Sensitivity.** At most :math:`1/f` if the class has at least :math:`f` records.
    """

    pos_label: object = 1

    options: ClassVar[tuple[str, ...]] = ("pos_label",)
    reads_labels: ClassVar[bool] = True
    has_fixed_denominator: ClassVar[bool] = True

    @property
    def n_predicted_classes(self) -> int | None:
        """Number of classes that count as predicted for each record: the predicted one."""
        return 1

    @staticmethod
    def counts(actual, predicted):
        return actual & predicted, actual

    def proof(self, dependence, *, is_difference=False, in_subgroup=False, is_private=False):
        family = ClassMetric if is_private else RatioOfCounts
        return family.proof(self, dependence, is_difference=is_difference, in_subgroup=in_subgroup)

    @classmethod
    def _with_classes(cls, name, classes, options):
        metric = super()._with_classes(name, classes, options)
        return dataclasses.replace(metric, pos_label=options.get("pos_label", 1))

    def planned_shape(self, n, class_counts):
        return super(Recall, dataclasses.replace(self, pos_label=1)).planned_shape(n, class_counts)

    def counted_classes(self, classes):
        return (self._position(list(classes)),)  # raises ValueError if it is none of them

    def _position(self, classes):
        """Return the position of the positive class in a list of classes, or raise ValueError."""
        is_wrong_number = self._is_binary_only and len(classes) != 2
        if self.pos_label not in classes or is_wrong_number:
            requirement = "two classes, and " if self._is_binary_only else ""
            raise ValueError(
                f"scoring={self.name!r} needs {requirement}pos_label among the classes {classes}, "
                f"got pos_label={self.pos_label!r}. Set scoring=get_metric({self.name!r}, "
                f"pos_label={classes[-1] if classes else 1!r}). The holdout was not queried."
            )
        return classes.index(self.pos_label)


@register_metric("specificity")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Specificity(Recall):
    """Recall of the negative class: of the two classes the one that is not ``pos_label``.

    Records of other labels do not count, as in ``recall_score(labels=[neg_label])``.
    """

    _is_binary_only: ClassVar[bool] = True

    @property
    def counts_negatives(self) -> bool:
        """Whether the score is a share of the other class of two: it is."""
        return True

    @staticmethod
    def counts(actual, predicted):
        return ~actual & ~predicted, ~actual

    @staticmethod
    def expected_denominator(prevalence):
        return 1.0 - prevalence

    def counted_classes(self, classes):
        return (1 - self._position(list(classes)),)


@register_metric("roc_auc")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RocAuc(ClassMetric):
    r"""Probability that a positive record is ranked above a negative one, ties counting half.

    **Sensitivity.** With counts :math:`n_1, n_0` the score is
    :math:`\frac1{n_1 n_0} \sum_{i \in +} \sum_{j \in -} h(s_i, s_j)` with
    :math:`h \in \{0, \tfrac12, 1\}`. A positive record occurs in :math:`n_0` of the terms. If it is
    replaced by another positive one, the score changes by at most :math:`1/n_1`. For two negative
    records, the change is at most :math:`1/n_0`, for a positive and a negative one the sum of both.
    A record on which the model fails is ranked below all others if it is positive, above all others
    if it is negative. This is its smallest contribution, and the bound is the same.
    """

    _is_binary_only: ClassVar[bool] = True
    _kind: ClassVar[str] = "pairs"
    methods: ClassVar[tuple[str, ...]] = ("decision_function", "predict_proba")
    unit_statistic: ClassVar[Statistic] = Statistic(
        "scores", auc_left_out, "unit", class_outcomes, min_tested_alphas=(0.001, 0.001)
    )

    @property
    def n_predicted_classes(self) -> int | None:
        """Number of classes that count as predicted for each record: the predicted one."""
        return 1

    def for_report(self, estimator, y):
        # Every record that is not positive counts as negative, as in the value.
        negative, positive = self._known_classes(estimator)
        return self, np.array([positive if label == positive else negative for label in y.tolist()])

    def proof(self, dependence, *, is_difference=False, in_subgroup=False, is_private=False):
        if is_difference or (in_subgroup and is_private):
            return ""
        return proofs.BY_CLASS.get(dependence, "")

    def record_scores(self, estimator, X, class_index):
        scores = respond(estimator, X, self.methods).astype(float)
        if scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1]
        return scores

    def _known_classes(self, estimator):
        classes = super()._known_classes(estimator)
        model_classes = list(getattr(estimator, "classes_", classes))
        if model_classes != list(classes) or len(classes) != 2:
            raise ValueError(
                f"roc_auc needs two classes, and a model of the same two: training labels have "
                f"{list(classes)}, the model has {model_classes}. The holdout was not queried."
            )
        return classes
