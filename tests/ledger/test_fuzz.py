"""Any input gives an answer or a documented error, and an error is not charged."""

import contextlib
import math
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sklearn_bdp import exceptions
from sklearn_bdp.holdout import ExpertSettings, ReusableHoldout
from sklearn_bdp.utils.hashing import query_key
from tests.holdout.planted import fitted

# Whatever is passed may deserve a warning, and many accounts answer about the same targets.
pytestmark = pytest.mark.filterwarnings("ignore")

DOCUMENTED = (
    TypeError,
    ValueError,
    exceptions.BudgetExhaustedError,
    exceptions.LedgerError,
    exceptions.ProcessBoundaryError,
)
N = 60
X = np.arange(2.0 * N).reshape(N, 2)
Y = np.arange(N) % 2
FUZZ_SETTINGS = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "25")),  # more, for a long night
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

arbitrary_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**70),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.just(np.float32(0.3)),
    st.just(np.array([])),
    st.just(object()),
    st.just(1j),
    st.lists(st.floats(), max_size=3),
    st.just({"a": 1}),
)
unit_interval = st.floats(0, 1)
valid_options = st.fixed_dictionaries(
    {},
    optional={
        "correlation": st.sampled_from([[[0.9, 0.1], [0.5, 0.5]], [[0.3, 0.7], [0.9, 0.1]]]),
        "confidence_level": unit_interval,
        "epsilon": st.just("auto") | st.floats(1e-6, 1e6),
        "calibration": st.sampled_from(["tight", "tight", "zhao2017"]),
        "budget": st.none() | st.integers(1, 5),
        "expert": st.builds(
            ExpertSettings,
            n_queries=st.none() | st.integers(1, 100),
            threshold=st.floats(1e-9, 1) | st.just("auto"),
            resolution=st.floats(1e-6, 1) | st.just("auto"),
            ledger_timeout=st.floats(0, 10),
        ),
        "on_exhausted": st.sampled_from(["raise", "nan", "cv"]),
        "random_state": st.none() | st.integers(0, 10),
        "gap": st.integers(0, 50) | st.tuples(st.integers(0, 50), st.none()),
    },
)
option_names = ["correlation", "confidence_level", "epsilon", "calibration", "budget"]
option_names += ["expert", "on_exhausted", "random_state", "gap"]
one_arbitrary_option = st.just({}) | st.dictionaries(
    st.sampled_from(option_names), arbitrary_values, min_size=1, max_size=1
)
options = st.builds(lambda good, bad: {**good, **bad}, valid_options, one_arbitrary_option)


def check_consistency(holdout):
    """The account is whole and every interval contains its answer."""
    history = holdout.history()
    certificate = holdout.certificate()
    assert all(0.0 <= record.lower <= record.value <= record.upper <= 1.0 for record in history)
    assert 0.0 < certificate.half_width <= 1.0
    assert math.isfinite(holdout.information_spent)
    assert repr(holdout)
    assert holdout._repr_html_()
    assert str(certificate)
    remaining_budget = holdout.remaining_budget
    assert remaining_budget is None or remaining_budget >= 0
    return len(history)


@FUZZ_SETTINGS
@given(options=options)
@example(options={"budget": 2**53 + 1})
def test_any_parameters_give_a_holdout_or_a_documented_error(options):
    try:
        holdout = ReusableHoldout(X, Y, **options)
    except DOCUMENTED:
        return
    assert check_consistency(holdout) == 0
    try:
        holdout.answer([0.5, 0.9], np.ones((2, N)))
    except exceptions.BudgetExhaustedError:
        assert holdout.remaining_budget == 0
    check_consistency(holdout)


@FUZZ_SETTINGS
@given(
    X=arbitrary_values | st.just(X),
    y=arbitrary_values | st.just(Y),
    ledger=st.none() | st.integers() | st.just(b"x"),
)
def test_any_data_give_a_holdout_or_a_documented_error(X, y, ledger):
    with contextlib.suppress(*DOCUMENTED):
        ReusableHoldout(X, y, ledger=ledger)


@st.composite
def batches(draw):
    """A batch that is right, or wrong in one or two places."""
    n_queries = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 5)))
    batch = {
        "cv_scores": np.array(
            draw(st.lists(unit_interval, min_size=n_queries, max_size=n_queries))
        ),
        "per_record_scores": rng.integers(0, 2, size=(n_queries, N)) * draw(unit_interval),
        "n_train": draw(st.none() | st.floats(1, 1e9)),
        "keys": draw(
            st.none()
            | st.lists(
                st.none() | st.text("ab", min_size=1), min_size=n_queries, max_size=n_queries
            )
        ),
    }
    field = draw(st.sampled_from([None, None, *batch]))
    if field is not None:
        batch[field] = draw(arbitrary_values)
    if draw(st.integers(0, 5)) == 0 and isinstance(batch["per_record_scores"], np.ndarray):
        invalid_score = draw(st.sampled_from([math.nan, math.inf, -1.0, 2.0]))
        batch["per_record_scores"] = np.where(
            rng.random(batch["per_record_scores"].shape) < 0.1,
            invalid_score,
            batch["per_record_scores"],
        )
    return batch


@FUZZ_SETTINGS
@given(
    query_batches=st.lists(batches(), max_size=5),
    on_exhausted=st.sampled_from(["raise", "nan", "cv"]),
    budget=st.none() | st.integers(1, 3),
)
def test_any_queries_are_answered_or_cost_nothing(query_batches, on_exhausted, budget):
    holdout = ReusableHoldout(X, Y, on_exhausted=on_exhausted, budget=budget)
    for batch in query_batches:
        state_before = (holdout.history(), holdout.information_spent)
        try:
            answers = holdout.answer(**batch)
        except exceptions.BudgetExhaustedError:
            assert on_exhausted == "raise"
            assert holdout.remaining_budget == 0
        except DOCUMENTED:
            assert (holdout.history(), holdout.information_spent) == state_before
        else:
            answered = answers.answered
            assert np.all((answers.lower <= answers.values)[answered])
            assert np.all((answers.values <= answers.upper)[answered])
        check_consistency(holdout)


@FUZZ_SETTINGS
@given(
    model=arbitrary_values | st.just(fitted()) | st.just(fitted(fails=True)),
    cv_score=arbitrary_values | unit_interval,
    scoring=arbitrary_values
    | st.sampled_from(["accuracy", "balanced_accuracy", "roc_auc", "f1", "r2", "top"]),
    evaluations=arbitrary_values | st.lists(arbitrary_values, max_size=2),
    n_train=st.none() | arbitrary_values,
    key=st.none() | arbitrary_values,
)
def test_any_model_is_scored_or_costs_nothing(model, cv_score, scoring, evaluations, n_train, key):
    holdout = ReusableHoldout(X, Y)
    try:
        holdout.score(model, cv_score, scoring=scoring, n_train=n_train, key=key)
    except DOCUMENTED:
        assert check_consistency(holdout) == 0
    else:
        assert check_consistency(holdout) == 1
    n_answers = len(holdout.history())
    with pytest.raises((TypeError, ValueError)):
        holdout.answer_evaluations([0.5], evaluations)
    with contextlib.suppress(*DOCUMENTED):
        holdout.find_answers(evaluations)
    assert check_consistency(holdout) == n_answers


@FUZZ_SETTINGS
@given(parts=st.lists(arbitrary_values, max_size=3))
def test_any_parts_make_a_key_or_a_type_error(parts):
    try:
        key = query_key(*parts)
    except TypeError:
        return
    assert len(key) == 64
    assert key == query_key(*parts)


@FUZZ_SETTINGS
@given(data=st.binary(max_size=300))
def test_the_command_line_survives_any_file(command_line, tmp_path, data):
    path = tmp_path / "some file"
    path.write_bytes(data)
    assert command_line("ledger", "show", path) == 1


@FUZZ_SETTINGS
@given(data=st.binary(min_size=1, max_size=300))
def test_a_holdout_survives_any_file(tmp_path, data):
    path = tmp_path / "some file"
    path.write_bytes(data)
    with pytest.raises(exceptions.LedgerError):
        ReusableHoldout(X, Y, ledger=path)
    assert path.read_bytes() == data
