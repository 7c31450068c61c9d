import itertools
import linecache
import logging
import math
import pickle
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score

from sklearn_bdp.exceptions import UnboundedMetricError
from sklearn_bdp.metrics import PerRecordScore, get_metric
from sklearn_bdp.metrics.base import Evaluation, suppress_output
from tests.facts import refused, warned

METRICS = {
    "accuracy": {},
    "neg_zero_one_loss": {},
    "neg_log_loss": {"clip": 0.02},
    "neg_brier_score": {"n_classes": 3},
    "neg_mean_absolute_error": {"bounds": (-2, 6)},
    "neg_mean_squared_error": {"bounds": (-2, 6)},
    "balanced_accuracy": {},
    "roc_auc": {},
}
RAISES = 1
GIVES_NAN = 2


class Stub(BaseEstimator):
    """Predicts its first column; the second one marks rows on which it fails."""

    classes_ = np.array([0, 1])

    def __init__(self, calls=None, error=RuntimeError):
        self.calls = calls
        self.error = error

    def predict(self, X):
        if self.calls is not None:
            self.calls.append(len(X))
        if (X[:, 1] == RAISES).any():
            raise self.error("secret row")
        return np.where(X[:, 1] == GIVES_NAN, np.nan, X[:, 0])

    def decision_function(self, X):
        return self.predict(X)

    def __deepcopy__(self, memo):  # copies count with the original
        return type(self)(self.calls, self.error)


def records(n, marks=()):
    """Predictions alternate 0, 1; every target is 1."""
    X = np.zeros((n, 2))
    X[:, 0] = np.arange(n) % 2
    for row, failure in marks:
        X[row, 1] = failure
    return X, np.ones(n)


# -- Units -----------------------------------------------------------------------------------------


def test_units_accept_arrays_clip_scores_and_keep_nan():
    metric = get_metric("neg_mean_absolute_error", bounds=(0, 10))
    np.testing.assert_allclose(metric.to_unit(np.array([-20.0, -5.0, 1.0])), [0, 0.5, 1])
    assert math.isnan(metric.to_unit(math.nan))
    assert type(metric.to_unit(-5.0)) is float


# -- Failures --------------------------------------------------------------------------------------


@given(st.data())
def test_exactly_the_failing_rows_get_the_worst_score(data):
    n = data.draw(st.integers(1, 40))
    failures = st.sampled_from([RAISES, GIVES_NAN])
    marks = data.draw(st.lists(st.tuples(st.integers(0, n - 1), failures), max_size=9))
    X, y = records(n, marks)
    metric = get_metric("neg_mean_absolute_error", bounds=(0, 2))
    evaluation = metric.evaluate(Stub(), X, y)
    expected = np.where(X[:, 1] > 0, 0.0, 1.0 - np.abs(X[:, 0] - 1.0) / 2.0)
    np.testing.assert_array_equal(evaluation.per_record, expected)
    assert evaluation.value == pytest.approx(expected.mean())


def test_a_model_that_always_fails_gets_zero_everywhere():
    X, y = records(33, [(row, RAISES) for row in range(33)])
    assert get_metric("accuracy").evaluate(Stub(), X, y).value == 0.0


def test_one_bad_row_costs_a_logarithm_of_calls_and_the_order_is_fixed():
    X, y = records(1024, [(700, RAISES)])
    calls = []
    repeated_calls = []
    get_metric("accuracy").evaluate(Stub(calls), X, y)
    get_metric("accuracy").evaluate(Stub(repeated_calls), X, y)
    assert calls == repeated_calls
    assert len(calls) == 1 + 2 * 10


def test_a_model_without_failures_predicts_once():
    calls = []
    get_metric("accuracy").evaluate(Stub(calls), *records(100))
    assert calls == [100]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_propagate(error):
    X, y = records(8, [(3, RAISES)])
    with pytest.raises(error):
        get_metric("accuracy").evaluate(Stub(error=error), X, y)


def test_a_dropped_row_is_a_failure_and_not_a_shift():
    class Drops(Stub):
        def predict(self, X):
            return X[X[:, 1] == 0, 0]

    X, y = records(16, [(5, GIVES_NAN)])
    rows = get_metric("accuracy").evaluate(Drops(), X, y).per_record
    np.testing.assert_array_equal(rows, np.where(np.arange(16) == 5, 0.0, X[:, 0] == 1))


@pytest.mark.parametrize(
    ("name", "score_with_two_failures"),
    [
        ("balanced_accuracy", 5 / 6),
        # Pairs lost: the failed positive against 6, the failed negative against 6, one twice.
        ("roc_auc", 1 - 11 / 36),
    ],
)
def test_failed_predictions_contribute_the_worst_value_to_scores_by_class(
    name, score_with_two_failures
):
    X, y = records(12)
    X[:, 0] = y = np.arange(12) % 2
    assert get_metric(name).evaluate(Stub(), X, y).value == 1.0
    X[[2, 3], 1] = RAISES
    value = get_metric(name).evaluate(Stub(), X, y).value
    assert value == pytest.approx(score_with_two_failures)
    X[:, 1] = RAISES
    assert get_metric(name).evaluate(Stub(), X, y).value == 0.0


def test_errors_propagate_on_the_training_side():
    X, y = records(8, [(3, RAISES)])
    with refused(RuntimeError, "secret"):
        get_metric("accuracy").training_score(Stub(), X, y)


@pytest.mark.parametrize("convert", [np.array, pd.DataFrame, scipy.sparse.csr_array])
def test_models_that_work_in_place_do_not_change_the_records(convert):
    class InPlace(Stub):
        def predict(self, X):
            predictions = super().predict(np.array(X.toarray() if scipy.sparse.issparse(X) else X))
            if scipy.sparse.issparse(X):
                X.data *= 7
            else:
                X *= 7
            return predictions

    X, y = records(16, [(5, RAISES)])
    frame = convert(X)
    rows = [get_metric("accuracy").evaluate(InPlace(), frame, y).per_record for _ in range(2)]
    np.testing.assert_array_equal(*rows)
    records_after = frame.toarray() if scipy.sparse.issparse(frame) else np.asarray(frame)
    np.testing.assert_array_equal(records_after, X)


# -- Silence ---------------------------------------------------------------------------------------


class PrintingModel(Stub):
    def predict(self, X):
        warnings.warn("row 3 looks like nothing in training", UserWarning, stacklevel=1)
        return X[:, 0]


def test_warnings_of_the_model_stay_inside_on_the_holdout_only():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluation = get_metric("accuracy").evaluate(PrintingModel(), *records(8))
    assert evaluation.value == 0.5  # silenced, so the warning did not become an error either
    with warned(UserWarning, "row 3"):
        get_metric("accuracy").training_score(PrintingModel(), *records(8))


class InterruptLine:
    """Raises KeyboardInterrupt at one of the lines of a file that are run."""

    def __init__(self, file, at):
        self.file = file
        self.left = at

    def __call__(self, frame, event, arg):
        return self.line if frame.f_code.co_filename == self.file else None

    def line(self, frame, event, arg):
        # Python takes no signal between the last line of a block and the release of its lock.
        text = linecache.getline(self.file, frame.f_lineno).strip()
        if event == "line" and text != "with _lock:":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.line


def shown_by_process():
    """Return the streams, warning filters and logging level that control the output."""
    return sys.stdout, sys.stderr, list(warnings.filters), logging.root.manager.disable


def test_an_interrupt_at_any_line_leaves_streams_filters_and_logging_as_they_were():
    state_before = shown_by_process()
    n_lines = 0
    is_finished = False
    while not is_finished:
        n_lines += 1
        trace = sys.gettrace()
        sys.settrace(InterruptLine(suppress_output.__wrapped__.__code__.co_filename, n_lines))
        try:
            with suppress_output():
                print("hidden")
            is_finished = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(trace)
        assert shown_by_process() == state_before, n_lines
    assert n_lines > 20  # it went through all of them


def test_overlapping_threads_stay_silent_and_restore_the_filters():
    filters_before = list(warnings.filters)
    is_silenced = threading.Event()
    may_leave = threading.Event()

    def hold_silence():
        with suppress_output():
            is_silenced.set()
            may_leave.wait(300)

    thread = threading.Thread(target=hold_silence)
    with suppress_output():
        thread.start()
        assert is_silenced.wait(300)
    assert warnings.filters[0][0] == "ignore"  # the other thread still needs it
    may_leave.set()
    thread.join()
    assert list(warnings.filters) == filters_before


def test_the_record_of_an_evaluation_hides_its_numbers():
    evaluation = Evaluation(per_record=np.array([0.123456]), value=0.123456, sensitivity=0.25)
    assert "123456" not in repr(evaluation)
    assert "0.25" in str(evaluation)


# -- Inputs ----------------------------------------------------------------------------------------


def test_frames_sparse_matrices_and_lists_are_records_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 2, 60)
    model = LogisticRegression().fit(X, y)
    expected = get_metric("accuracy").evaluate(model, X, y).per_record
    for X_converted in (scipy.sparse.csr_matrix(X), scipy.sparse.coo_array(X), X.tolist()):
        rows = get_metric("accuracy").evaluate(model, X_converted, y.tolist()).per_record
        np.testing.assert_array_equal(rows, expected)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = LogisticRegression().fit(frame, y)
    rows = get_metric("accuracy").evaluate(model, frame, pd.Series(y)).per_record
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize(
    "convert", [lambda X: X, pd.DataFrame, scipy.sparse.coo_array, lambda X: X.tolist()]
)
def test_bisection_slices_every_container(convert):
    class AnyContainer(Stub):
        def predict(self, X):
            X = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
            return super().predict(X)

    X, y = records(10, [(7, RAISES)])
    rows = get_metric("accuracy").evaluate(AnyContainer(), convert(X), y).per_record
    np.testing.assert_array_equal(rows, (X[:, 0] == 1) & (X[:, 1] == 0))


def test_a_column_of_targets_is_a_vector():
    X, y = records(6)
    metric = get_metric("neg_mean_absolute_error", bounds=(0, 2))
    np.testing.assert_array_equal(
        metric.evaluate(Stub(), X, y[:, None]).per_record, metric.evaluate(Stub(), X, y).per_record
    )


@pytest.mark.parametrize("dtype", [object, "Int64", "float64", "boolean"])
def test_numbers_in_any_column_are_numbers(dtype):
    X, _ = records(6)
    y = pd.Series([True, True, False, True, True, False]).astype(dtype)
    metric = get_metric("neg_mean_absolute_error", y=y)
    np.testing.assert_array_equal(metric.evaluate(Stub(), X, y).per_record, [0, 1, 1, 1, 0, 0])
    assert get_metric("roc_auc", y=y).evaluate(Stub(), X, y).value == 0.5


@pytest.mark.parametrize("shapes", [((5, 2), (4,)), ((0, 2), (0,))])
def test_lengths_must_agree_and_not_be_zero(shapes):
    with refused(ValueError, "X and y"):
        get_metric("accuracy").evaluate(Stub(), np.zeros(shapes[0]), np.zeros(shapes[1]))


@pytest.mark.parametrize("name", ["balanced_accuracy", "neg_log_loss", "roc_auc"])
def test_several_outputs_are_rejected_where_not_supported(name):
    with refused((ValueError, TypeError), name):
        get_metric(name, **METRICS[name]).evaluate(Stub(), np.zeros((4, 2)), np.zeros((4, 2)))


# -- Sensitivity -----------------------------------------------------------------------------------


def by_class(name, records, **options):
    """Return the by-class parts of a score of records (label, prediction or None for a failure)."""
    labels, predictions = zip(*records, strict=True)
    X = np.array(
        [(prediction or 0, GIVES_NAN * (prediction is None)) for prediction in predictions],
        dtype=float,
    )
    return get_metric(name, **options).evaluate(Stub(), X, np.array(labels)).score_inputs


@pytest.mark.parametrize("name", ["roc_auc", "balanced_accuracy", "recall", "specificity"])
def test_no_neighbor_is_further_than_the_sensitivity_on_any_dataset(name):
    """G20, exactly: all datasets of four records, each replaced by all others, labels too."""
    record_types = list(itertools.product([0, 1], [0, 1, None]))
    unordered_datasets = itertools.combinations_with_replacement(range(len(record_types)), 4)
    scores_by_dataset = {
        dataset: by_class(name, [record_types[index] for index in dataset])
        for dataset in unordered_datasets
    }
    datasets = list(itertools.product(range(len(record_types)), repeat=4))
    for floors in ((1, 1), (1, 2), (2, 2), (3, 1)):
        values_by_dataset = {
            dataset: score.value(floors) for dataset, score in scores_by_dataset.items()
        }
        values = np.array([values_by_dataset[tuple(sorted(dataset))] for dataset in datasets])
        values = values.reshape((len(record_types),) * 4)
        assert 0.0 <= values.min() <= values.max() <= 1.0
        largest = max(np.ptp(values, axis=record).max() for record in range(4))
        assert largest <= scores_by_dataset[0, 0, 0, 0].sensitivity(floors) + 1e-12
        if name in ("recall", "specificity"):
            n_counted = floors[int(name == "recall")]
            assert scores_by_dataset[0, 0, 0, 0].sensitivity(floors) == pytest.approx(1 / n_counted)
            assert largest >= 0.5 / n_counted


def test_scores_by_class_are_plain_where_the_counts_reach_the_floors():
    """G20: records that a class lacks below its floor count one half, never the worst score."""
    rows = by_class("balanced_accuracy", [(0, 0), (0, 1), (0, 0), (1, 1), (1, 0)])
    assert rows.value((3, 2)) == rows.value((1, 1)) == pytest.approx(0.5 * (2 / 3 + 1 / 2))
    assert rows.value((3, 4)) == pytest.approx(0.5 * (2 / 3 + (1 + 0.5 * 2) / 4))
    assert rows.min_class_counts(2).tolist() == [3, 2]
    slices = np.array([[0, 1, 3], [0, 2, 4]])
    assert rows.min_class_counts(2, slices).tolist() == [2, 1]
    assert rows.value((2, 1), slices) == pytest.approx(0.5 * (0.75 + 0.5))
    one_class_scores = by_class("roc_auc", [(1, 1), (1, 0)])
    assert one_class_scores.value((0, 0)) == 0.5


def test_labels_that_training_lacks_are_failures_of_the_first_class():
    """G21: no error reveals that the holdout has them."""
    with_known_label = by_class("balanced_accuracy", [(0, 0), (1, 1), (0, 1), (1, 0)])
    with_unknown_label = by_class("balanced_accuracy", [(0, 0), (1, 1), (7, 0), (1, 0)])
    assert with_known_label.value((1, 1)) == with_unknown_label.value((1, 1)) == 0.5


@pytest.mark.parametrize("pos_label", [0, 1])
def test_labels_that_training_lacks_do_not_change_a_recall(pos_label):
    """They count in the other class: recall is that of scikit-learn."""
    records_with_unknown_label = [(0, 0), (1, 1), (7, 0), (7, 1), (1, 0), (0, 0)]
    score = by_class("recall", records_with_unknown_label, pos_label=pos_label)
    y, predicted = np.transpose(records_with_unknown_label)
    expected = recall_score(y, predicted, labels=[pos_label], average="macro")
    assert score.value((1, 1)) == expected
    assert score.min_class_counts(2).tolist() == [[2, 4], [4, 2]][pos_label]


def test_classes_come_from_training_labels_or_the_model_never_from_the_holdout():
    class Nameless(Stub):
        classes_ = None

    X, y = records(6)
    for name in ("roc_auc", "balanced_accuracy", "recall"):
        with refused(ValueError, "classes_", "y=y_train"):
            get_metric(name).evaluate(Nameless(), X, y)
        shape = get_metric(name, y=[0, 0, 1]).evaluate(Stub(), X, y).shape
        assert (shape.classes, shape.class_counts) == (("0", "1"), (2, 1))
        assert get_metric(name).evaluate(Stub(), X, y).shape.class_counts is None


def test_constant_predictions_are_known_by_construction():
    """G20: a DummyClassifier is known to be constant; other models have to predict all records."""
    X, y = records(12)
    y[:7] = 0
    for strategy in ("prior", "most_frequent"):
        dummy = DummyClassifier(strategy=strategy).fit(X, y)
        auc = get_metric("roc_auc").evaluate(dummy, X, y)
        balanced = get_metric("balanced_accuracy").evaluate(dummy, X, y)
        assert (auc.shape.kind, auc.value, balanced.value) == ("known", 0.5, 0.5)
        assert get_metric("recall").evaluate(dummy, X, y).shape.kind == "class_means"
    random_dummy = DummyClassifier(strategy="stratified", random_state=0).fit(X, y)
    assert get_metric("roc_auc").evaluate(random_dummy, X, y).shape.kind == "pairs"
    X[:, 0] = 1.0
    assert get_metric("roc_auc").evaluate(Stub(), X, y).shape.kind == "pairs"


def test_recall_names_its_class():
    for name, y in (("recall", ["a", "b"]), ("specificity", ["a", "b"])):
        with refused(ValueError, "pos_label=1", "pos_label='b'"):
            get_metric(name, y=y)
        assert get_metric(name, y=y, pos_label="b").classes == ("a", "b")
    assert get_metric("recall", y=[1, 2, 3], pos_label=3).expected_shape(9).counted_classes == (2,)
    assert get_metric("specificity", y=[0, 1]).expected_shape(9).counted_classes == (0,)
    with refused(UnboundedMetricError, "specificity", "'balanced_accuracy'"):
        get_metric("specificity", y=[0, 1, 2])


def test_custom_scores_are_pickled_by_reference():
    metric = get_metric(PerRecordScore(np.hypot, 0, 3))
    assert pickle.loads(pickle.dumps(metric)) == metric
