"""Properties of every bounded metric; a new metric inherits them in ``test_contract.py``."""

import dataclasses
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from sklearn_bdp.correlation import Groups, Independent
from sklearn_bdp.intervals.concentration import score_tail
from sklearn_bdp.metrics import BoundedMetric, get_metric
from tests.facts import refused


class Replies(BaseEstimator):
    """A model with fixed replies: row ``i`` of ``X`` is the number of a reply."""

    def __init__(self, replies=None, method="predict", classes=None, fails=()):
        self.replies = replies
        self.method = method
        self.fails = fails
        if classes is not None:
            self.classes_ = np.asarray(classes)
        setattr(self, method, self._reply)

    def _reply(self, X):
        rows = np.asarray(X)[:, 0].astype(int)
        if np.isin(rows, self.fails).any():
            raise RuntimeError("secret row")
        return np.asarray(self.replies)[rows]


class MetricContract:
    """Subclasses name a metric and give records; every property below is inherited.

    Attributes
    ----------
    scoring : str or PerRecordScore
        Metric, as an argument of `get_metric`.
    options : dict
        Its options.
    method : str
        Method of the model that the metric calls.
    classes : list or None
        Classes of the model.
    """

    scoring: object
    options: dict = {}
    method = "predict"
    classes = None

    def targets(self):
        """Return targets of 24 records, all classes among them."""
        raise NotImplementedError

    def replies(self, rng):
        """Return replies of a model to the 24 records, none of them perfect."""
        raise NotImplementedError

    def expected(self, y, replies):
        """Return scikit-learn's score of the same replies."""
        raise NotImplementedError

    @property
    def metric(self):
        return get_metric(self.scoring, y=self.targets(), **self.options)

    def model(self, replies, fails=()):
        return Replies(replies, self.method, self.classes, fails)

    def evaluate(self, replies, fails=(), **kwargs):
        y = self.targets()
        X = np.arange(len(y))[:, None]
        return self.metric.evaluate(self.model(replies, fails), X, y, **kwargs)

    def draws(self, count=6):
        rng = np.random.default_rng(0)
        return [self.replies(rng) for _ in range(count)]

    def test_scores_are_scikit_learns_and_bounded(self):
        y = self.targets()
        for replies in self.draws():
            evaluation = self.evaluate(replies)
            assert self.metric.from_unit(evaluation.value) == pytest.approx(
                self.expected(y, replies), abs=1e-9
            )
            assert 0.0 <= evaluation.value <= 1.0
            training_score = self.metric.training_score(
                self.model(replies), np.arange(len(y))[:, None], y
            )
            assert training_score == evaluation.value
            if self.metric.is_mean:
                assert ((evaluation.per_record >= 0.0) & (evaluation.per_record <= 1.0)).all()
                assert evaluation.value == pytest.approx(evaluation.per_record.mean())
                if evaluation.shape.binary:
                    assert np.isin(evaluation.per_record, (0.0, 1.0)).all()
            else:
                assert evaluation.per_record is None

    def test_units_are_linear_increasing_and_inverse(self):
        metric = self.metric
        units = np.linspace(0.0, 1.0, 11)
        scores = metric.from_unit(units)
        assert scores[0] == metric.lower
        assert scores[-1] == pytest.approx(metric.upper)
        np.testing.assert_allclose(np.diff(scores), (metric.upper - metric.lower) / 10)
        np.testing.assert_allclose(metric.to_unit(scores), units, atol=1e-12)

    def test_no_record_moves_the_score_by_more_than_its_sensitivity(self):
        first_replies, second_replies = self.draws(2)
        evaluation = self.evaluate(first_replies)
        value = evaluation.value
        sensitivity = evaluation.sensitivity
        if evaluation.score_inputs is not None:
            counts = evaluation.score_inputs.min_class_counts(len(evaluation.shape.classes))
            sensitivity = evaluation.score_inputs.sensitivity(tuple(counts))
        for row in range(len(first_replies)):
            changed = np.array(first_replies)
            changed[row] = np.asarray(second_replies)[row]
            for changed_evaluation in (
                self.evaluate(changed),
                self.evaluate(first_replies, fails=[row]),
            ):
                assert abs(changed_evaluation.value - value) <= sensitivity * (1 + 1e-9)

    def test_a_failing_record_gets_the_worst_score(self):
        (replies,) = self.draws(1)
        for row in (0, 7, 23):
            failed = self.evaluate(replies, fails=[row])
            assert failed.value <= self.evaluate(replies).value + 1e-12
            if self.metric.is_mean:
                assert failed.per_record[row] == 0.0

    def test_the_shape_makes_a_tail_of_public_quantities_only(self):
        first_shape, second_shape = (self.evaluate(replies).shape for replies in self.draws(2))
        assert first_shape == second_shape
        assert hash(first_shape) == hash(second_shape)
        assert first_shape.is_mean == self.metric.is_mean
        for model in (Independent(), Groups(np.arange(24) // 2)):
            tail = score_tail(model, 24, **dataclasses.asdict(first_shape))
            assert 0.0 <= tail.lower_limit([0.9], -3.0)[0] <= 0.9
            assert tail.standard_deviation(0.9) > 0.0

    def test_a_model_without_the_method_is_an_error(self):
        y = self.targets()
        if isinstance(self.scoring, str):  # a declared function has its own requirements
            with refused(TypeError, "object"):
                self.metric.evaluate(object(), np.arange(24)[:, None], y)

    def test_it_is_a_value(self):
        metric = self.metric
        equal_metric = self.metric
        assert isinstance(metric, BoundedMetric)
        assert (metric, repr(metric)) == (equal_metric, repr(equal_metric))
        assert hash(metric) == hash(equal_metric)
        assert pickle.loads(pickle.dumps(metric)) == metric
        with pytest.raises(AttributeError):
            metric.lower = 0.5
