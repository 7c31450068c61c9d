"""Every metric holds the contract, and equals scikit-learn's score of the same name."""

import numpy as np
from sklearn import metrics as sk

from sklearn_bdp.metrics import PerRecordScore, available_metrics

from .contract import MetricContract


class OfClasses(MetricContract):
    classes = (0, 1, 2)

    def targets(self):
        return np.arange(24) % 3

    def replies(self, rng):
        return np.where(rng.random(24) < 0.6, self.targets(), rng.integers(0, 3, 24))


class OfProbabilities(OfClasses):
    method = "predict_proba"

    def replies(self, rng):
        return rng.dirichlet([2.0, 2.0, 2.0], 24)


class OfNumbers(MetricContract):
    options = {"bounds": (-10.0, 10.0)}

    def targets(self):
        return np.linspace(-3.0, 5.0, 24)

    def replies(self, rng):
        return self.targets() + rng.normal(size=24)


class TestAccuracy(OfClasses):
    scoring = "accuracy"

    def expected(self, y, replies):
        return sk.accuracy_score(y, replies)


class TestAccuracyOfLabelSets(MetricContract):
    scoring = "accuracy"

    def targets(self):
        return np.random.default_rng(1).integers(0, 2, (24, 3))

    def replies(self, rng):
        return np.abs(self.targets() - (rng.random((24, 3)) < 0.2))

    def expected(self, y, replies):
        return sk.accuracy_score(y, replies)


class TestZeroOneLoss(OfClasses):
    scoring = "neg_zero_one_loss"

    def expected(self, y, replies):
        return -sk.zero_one_loss(y, replies)


class TestHammingLoss(TestAccuracyOfLabelSets):
    scoring = "neg_hamming_loss"

    def expected(self, y, replies):
        return -sk.hamming_loss(y, replies)


class TestHammingLossOfClasses(OfClasses):
    scoring = "neg_hamming_loss"

    def expected(self, y, replies):
        return -sk.hamming_loss(y, replies)


class TestTopKAccuracy(OfProbabilities):
    scoring = "top_k_accuracy"

    def expected(self, y, replies):
        return sk.top_k_accuracy_score(y, replies)


class TestBrierScore(OfProbabilities):
    scoring = "neg_brier_score"

    def expected(self, y, replies):
        return -np.mean(((replies - np.eye(3)[y]) ** 2).sum(axis=1))


class TestLogLoss(OfProbabilities):
    scoring = "neg_log_loss"
    options = {"clip": 1e-9}

    def expected(self, y, replies):
        return -sk.log_loss(y, replies)


class TestAbsoluteError(OfNumbers):
    scoring = "neg_mean_absolute_error"

    def expected(self, y, replies):
        return -sk.mean_absolute_error(y, replies)


class TestSquaredError(OfNumbers):
    scoring = "neg_mean_squared_error"

    def expected(self, y, replies):
        return -sk.mean_squared_error(y, replies)


class OfSeveralOutputs(OfNumbers):
    options = {"bounds": ([-10.0, -20.0], [10.0, 20.0])}

    def targets(self):
        return np.column_stack([np.linspace(-3.0, 5.0, 24), np.linspace(9.0, -9.0, 24)])

    def replies(self, rng):
        return self.targets() + rng.normal(size=(24, 2))


class TestAbsoluteErrorOfSeveralOutputs(OfSeveralOutputs, TestAbsoluteError):
    pass


class TestSquaredErrorOfSeveralOutputs(OfSeveralOutputs, TestSquaredError):
    pass


class TestPinballLoss(OfNumbers):
    scoring = "neg_mean_pinball_loss"
    options = {"bounds": (-10.0, 10.0), "alpha": 0.9}

    def expected(self, y, replies):
        return -sk.mean_pinball_loss(y, replies, alpha=0.9)


class TestPinballLossOfSeveralOutputs(OfSeveralOutputs, TestPinballLoss):
    options = {"bounds": ([-10.0, -20.0], [10.0, 20.0]), "alpha": 0.9}


class TestBalancedAccuracy(OfClasses):
    scoring = "balanced_accuracy"

    def targets(self):
        return np.repeat([0, 1, 2], [10, 8, 6])

    def expected(self, y, replies):
        return sk.balanced_accuracy_score(y, replies)


class TestRecall(TestBalancedAccuracy):
    scoring = "recall"
    options = {"pos_label": 2}

    def expected(self, y, replies):
        return sk.recall_score(y == 2, replies == 2)


class TestSpecificity(TestBalancedAccuracy):
    scoring = "specificity"
    classes = (0, 1)

    def targets(self):
        return np.repeat([0, 1], [14, 10])

    def replies(self, rng):
        return np.where(rng.random(24) < 0.6, self.targets(), rng.integers(0, 2, 24))

    def expected(self, y, replies):
        return sk.recall_score(y, replies, pos_label=0)


class TestRocAuc(MetricContract):
    scoring = "roc_auc"
    method = "decision_function"
    classes = (0, 1)

    def targets(self):
        return (np.arange(24) % 3 == 0).astype(int)

    def replies(self, rng):
        return self.targets() + np.round(rng.normal(size=24), 1)

    def expected(self, y, replies):
        return sk.roc_auc_score(y, replies)


def share_of_outputs(estimator, X, y):
    return (estimator.predict(X) == y).mean(axis=1)


class TestPerRecordScore(MetricContract):
    scoring = PerRecordScore(share_of_outputs)

    def targets(self):
        return np.random.default_rng(1).integers(0, 4, (24, 2))

    def replies(self, rng):
        return np.where(rng.random((24, 2)) < 0.7, self.targets(), 9)

    def expected(self, y, replies):
        return np.mean(replies == y)


def test_every_metric_has_its_contract():
    tested_metrics = set()
    pending = list(MetricContract.__subclasses__())
    while pending:
        case = pending.pop()
        pending += case.__subclasses__()
        if hasattr(case, "scoring"):
            tested_metrics.add(case.scoring)
    assert set(available_metrics()) - {"zero_one_loss"} <= tested_metrics
