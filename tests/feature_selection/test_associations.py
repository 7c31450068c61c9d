"""Proofs of a filter on a closed holdout: exact p-values, intervals that agree, the charges."""

import itertools
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.feature_selection import f_classif
from sklearn.naive_bayes import GaussianNB

from sklearn_bdp import HoldoutConfig, ReusableHoldout
from sklearn_bdp.correlation import MarkovChain
from sklearn_bdp.exceptions import HoldoutClosedError
from sklearn_bdp.feature_selection import (
    HoldoutCorrelationFilter,
    _correlation_filter,
    permutation_statistics,
    permutation_tests,
)
from sklearn_bdp.report.preregistered import preregistered_code_length
from tests.facts import refused

DISTRIBUTIONS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "log-normal": lambda rng, shape: np.exp(1.5 * rng.standard_normal(shape)),
    "rare": lambda rng, shape: (rng.random(shape) < 0.05).astype(float),
    "counts": lambda rng, shape: rng.poisson(0.5, shape).astype(float),
}


def make_planted(n=600, n_features=300, *, n_true=8, shift=0.7, seed=0, positive_fraction=0.5):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < positive_fraction).astype(int)
    X = rng.standard_normal((n, n_features))
    X[:, :n_true] += shift * (y[:, None] - 0.5)
    return X, y


def fit_filter(X, y, *, random_state=0, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HoldoutCorrelationFilter(random_state=random_state, **params).fit(X, y)


def columns(report):
    return np.array([int(row.attribute[1:]) for row in report.rows])


def clipped(X):
    scale = X.std(axis=0)
    return np.clip((X - X.mean(axis=0)) / (2 * np.where(scale > 0, scale, 1.0)), -1, 1)


def test_p_values_are_those_of_all_permutations():
    """G30: seven records, 5,040 permutations, counted by hand."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (7, 3))
    signs = np.array([1.0, 1, 1, -1, -1, -1, -1])[:, None]
    _, p_values, _, count = permutation_statistics(
        features, signs, np.zeros(3, int), alpha=0.002, rng=rng
    )

    def statistic(signed_targets):
        product = (features - features.mean(axis=0)) * (signed_targets - signs.mean())
        product_of_variances = features.var(axis=0) * signs.var()
        return np.abs(product.mean(axis=0)) / np.sqrt(
            np.maximum(product.var(axis=0), product_of_variances)
        )

    permuted_statistics = np.array(
        [statistic(signs[list(order)]) for order in itertools.permutations(range(7))]
    )
    exact_p_values = (permuted_statistics >= statistic(signs) - 1e-6).mean(axis=0)
    assert count >= 5_000
    np.testing.assert_allclose(p_values, exact_p_values, atol=4 * np.sqrt(0.25 / count))


@pytest.mark.parametrize(
    ("distribution", "positive_fraction"),
    [
        ("normal", 0.1),
        ("rare", 0.5),
        *(pytest.param(k, s, marks=pytest.mark.slow) for k in DISTRIBUTIONS for s in (0.5, 0.1)),
    ],
)
def test_p_values_of_useless_attributes_are_valid(distribution, positive_fraction):
    """G30: for any distribution of attributes that are independent of the target."""
    rng = np.random.default_rng(2)
    p_values_of_tables = []
    for _ in range(4):
        features = clipped(DISTRIBUTIONS[distribution](rng, (100, 200)))
        signs = np.where(rng.random(100) < positive_fraction, 1.0, -1.0)[:, None]
        value, p, half_width, _ = permutation_statistics(
            features, signs, np.zeros(200, int), alpha=0.01, rng=rng
        )
        np.testing.assert_array_equal(np.abs(value) > half_width, p <= 0.01)
        p_values_of_tables.append(p)
    for level in (0.2, 0.05, 0.01):
        # Attributes that share the same targets: the margin is that of half as many.
        assert (
            np.mean(np.concatenate(p_values_of_tables) <= level)
            <= stats.binom(400, level).ppf(0.999) / 400
        )


def test_a_claim_agrees_with_its_interval_and_the_rates_are_scipys():
    stepped = fewer = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 120)
        b = clipped(rng.standard_normal((120, 12)) + np.linspace(0, 1.2, 12) * y[:, None])
        args = b, 2.0 * y[:, None] - 1, np.zeros(12, int)
        rows, _ = permutation_tests(*args, beta=0.05, code_length=0.0, rng=np.random.default_rng(0))
        _, lower, upper, p, q, q_any = rows.T
        np.testing.assert_array_equal((lower > 0) | (upper < 0), p <= 0.05)
        raw = permutation_statistics(*args, alpha=0.05 / 12, rng=np.random.default_rng(0))[1]
        stepped += ((raw > 0.05 / 12) & (p <= 0.05)).sum()  # further proofs by Holm's steps
        np.testing.assert_allclose(q, stats.false_discovery_control(raw))
        np.testing.assert_allclose(q_any, stats.false_discovery_control(raw, method="by"))
        steps = np.sort(raw) * (12 - np.arange(12))
        np.testing.assert_allclose(np.sort(p), np.minimum(np.maximum.accumulate(steps), 1.0))
        rng = np.random.default_rng(0)
        dearer, _ = permutation_tests(*args, beta=0.05, code_length=2.0, rng=rng)
        assert (dearer[:, 3] >= 0.5 * p).all()
        fewer += (p <= 0.05).sum() - ((dearer[:, 1] > 0) | (dearer[:, 2] < 0)).sum()
    assert stepped > 0
    assert fewer > 0


@pytest.mark.parametrize("n", [600, pytest.param(1000, marks=pytest.mark.slow)])
def test_reports_prove_nearly_as_much_as_a_direct_test_on_the_holdout(n):
    """At least .9 of Bonferroni's, and of Benjamini and Hochberg's, on the same candidates."""
    counts = np.zeros(5)
    for seed in range(3):
        X, y = make_planted(n, 1500, n_true=30, shift=0.5, seed=seed)
        screen = fit_filter(X, y, random_state=seed)
        queried = np.flatnonzero(np.isfinite(screen.verified_associations_))
        holdout_rows = screen.holdout_indices_
        p = f_classif(X[holdout_rows][:, queried], y[holdout_rows])[1]
        report = screen.final_report()
        frame = report.to_frame()
        is_true = columns(report) < 30
        counts += [
            (queried[p <= 0.05 / p.size] < 30).sum(),
            (is_true & (frame.p <= 0.05)).sum(),
            (queried[stats.false_discovery_control(p) <= 0.05] < 30).sum(),
            (is_true & (frame.q <= 0.05)).sum(),
            (~is_true & (frame.p <= 0.05)).sum(),
        ]
    assert counts[1] >= 0.9 * counts[0] > 0
    assert counts[3] >= 0.9 * counts[2] > 0
    assert counts[4] == 0


@pytest.mark.parametrize("n_seeds", [6, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("alpha", [0.05, 0.99])
def test_useless_skewed_attributes_are_rarely_claimed(alpha, n_seeds):
    """Classes 1:9. With alpha=.99 every attribute is a statement: claims in one of twenty sets.

    Six sets pass claims in 30% of them with chance .93 and in 80% with .10; forty pass 15% with
    chance .76 and 30% with .06. With alpha=.05 none may claim: six pass 10% with chance .53 and 40%
    with .05, forty pass 2% with .45 and 10% with .01.
    """
    n_claims = 0
    max_claims = stats.binom(n_seeds, 0.05).ppf(0.999) if alpha > 0.5 else 0
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        y = rng.random(400) < 0.1
        X = np.exp(1.5 * rng.standard_normal((400, 60)))
        report = fit_filter(X, y, alpha=alpha, random_state=seed).final_report()
        n_claims += any(row.p <= 0.05 for row in report.rows)
    assert n_claims <= max_claims


@pytest.mark.parametrize("n_seeds", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_intervals_cover_associations_together(n_seeds):
    """Eight sets pass a failure rate of 25% (of 5%) with chance .89 and of 70% with chance .06;
    forty pass 12% with chance .90 and 30% with .06.
    """
    n_missed = 0
    for seed in range(n_seeds):
        X, y = make_planted(seed=seed)
        X_new, y_new = make_planted(40_000, 8, seed=1000 + seed)
        screen = fit_filter(X, y, random_state=seed)
        training_data = X[screen.train_indices_][:, :8], 2 * y[screen.train_indices_] - 1
        scores_new = np.clip(
            (X_new - training_data[0].mean(axis=0)) / (2 * training_data[0].std(axis=0)), -1, 1
        )
        signed_new = (2 * y_new - 1) / (1 + abs(training_data[1].mean()))
        expected_associations = np.mean(
            (scores_new - scores_new.mean(axis=0)) * (signed_new - signed_new.mean())[:, None],
            axis=0,
        )
        rows = [row for row in screen.final_report().rows if int(row.attribute[1:]) < 8]
        targets = [expected_associations[int(row.attribute[1:])] for row in rows]
        n_missed += any(
            not report_row.lower - 0.005 <= target <= report_row.upper + 0.005
            for report_row, target in zip(rows, targets, strict=True)
        )
    assert n_missed <= stats.binom(n_seeds, 0.05).ppf(0.999)


def test_the_report_closes_the_holdout_and_can_be_repeated(tmp_path):
    X, y = make_planted()
    frame = pd.DataFrame(X).add_prefix("<g").add_suffix(">")
    config = HoldoutConfig(ledger=tmp_path / "ledger.sqlite")
    screen = fit_filter(frame, y, holdout=config)
    report = screen.final_report()
    assert screen.final_report() == report
    reopened = fit_filter(frame, y, holdout=config)  # a script run twice, in another process
    assert pickle.loads(pickle.dumps(reopened)).final_report() == report
    with pytest.raises(HoldoutClosedError):
        screen.holdout_.score(GaussianNB().fit(X, y), 0.5)
    with refused(AttributeError, "filter"):
        _ = screen.holdout_.report_
    assert list(report.to_frame()) == ["attribute", "value", "lower", "upper", "p", "q"]
    assert (report.to_frame("any").q >= report.to_frame().q).all()
    n_proved = sum(row.p <= 0.05 for row in report.rows)
    assert n_proved >= 5
    assert report.title.startswith(f"{n_proved} of {len(report.rows)} attributes proved")
    assert f"Holm): {n_proved} of" in str(report)
    assert "<g0>" in str(report)
    assert "&lt;g0&gt;" in report._repr_html_()
    assert len(pickle.dumps(report)) < 10_000  # no record of the holdout


def test_a_volcano_is_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    report = fit_filter(*make_planted()).final_report()
    ax = report.plot()
    assert sum(len(points.get_offsets()) for points in ax.collections) == len(report.rows)
    pyplot.close(ax.figure)


def test_weights_of_successively_registered_lists_sum_to_one():
    """G30: along any path the lists' levels sum to at most beta."""
    notes = [{"key": str(position), "released": 0.0} for position in range(30)]
    weights = [np.exp(-preregistered_code_length(notes, str(position))) for position in range(30)]
    assert sum(weights) == pytest.approx(1.0)
    assert weights[0] == pytest.approx(0.9)
    notes[1]["released"] = 2.5
    assert preregistered_code_length(notes, "1") == pytest.approx(2.5 - np.log(0.09))


def test_only_answers_before_the_registered_list_are_charged():
    X, y = make_planted(1200, shift=0.3)
    early_query_holdout, late_query_holdout = (
        ReusableHoldout(X[800:], y[800:], random_state=0) for _ in range(2)
    )
    surprise = np.random.default_rng(0).random((1, 400))
    late_query_holdout.answer([0.4], surprise)  # off by .1
    screens = [
        fit_filter(X[:800], y[:800], holdout=holdout)
        for holdout in (early_query_holdout, late_query_holdout)
    ]
    early_query_holdout.answer([0.4], surprise)
    report, late_report = (screen.final_report() for screen in screens)
    assert {row.attribute for row in report.rows} == {row.attribute for row in late_report.rows}
    charge, late_charge = (
        float(re.search(r"before cost ([\d.]+) nats", str(stated_report)).group(1))
        for stated_report in (report, late_report)
    )
    assert 0.11 <= charge < 0.3 < late_charge
    assert sum(row.p for row in report.rows) < sum(row.p for row in late_report.rows)


def test_groups_are_permuted_as_a_whole():
    """Copies of a patient's row are no further evidence.

    Five sets find gross failures only: they pass claims in 40% of them (of 5%) with chance .91 and
    in 90% with chance .08. Copies that are permuted one by one claim in four of five, and fail.
    """
    claims = []
    for seed in range(5):
        X, y = make_planted(160, 40, n_true=0, seed=seed)
        X = np.repeat(X, 8, axis=0)
        y = np.repeat(y, 8)
        groups = np.repeat(np.arange(160), 8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            screen = HoldoutCorrelationFilter(correlation="groups", alpha=0.99, random_state=seed)
            report = screen.fit(X, y, groups=groups).final_report()
        assert "in 40 groups" in str(report)
        claims.append(any(row.p <= 0.05 for row in report.rows))
    assert sum(claims) <= stats.binom(5, 0.05).ppf(0.999)


def test_without_a_candidate_nothing_is_read_and_the_holdout_stays_open():
    screen = fit_filter(*make_planted(n_true=0, seed=1))
    report = screen.final_report()
    assert report.rows == ()
    assert len(report.to_frame()) == 0
    assert "not read" in str(report)
    screen.holdout_.answer([0.5], np.full((1, screen.holdout_.n), 0.5))


@pytest.mark.parametrize(
    "options",
    [
        {"correlation": MarkovChain([[0.6, 0.4], [0.4, 0.6]])},
        {"holdout": HoldoutConfig(epsilon=0.5)},
        {"holdout": None},
    ],
    ids=["chain", "epsilon", "none"],
)
def test_reports_without_a_permutation_test_raise_and_leave_the_holdout_open(options):
    screen = fit_filter(*make_planted(1500, 30), **options)
    with refused(ValueError, "final_report()"):
        screen.final_report()
    if screen.holdout_ is not None:
        screen.holdout_.answer([0.5], np.full((1, screen.holdout_.n), 0.5))


# two holdouts of the same records
@pytest.mark.filterwarnings("ignore::sklearn_bdp.exceptions.SecondHoldoutWarning")
def test_an_invalid_parameter_of_a_report_leaves_the_holdout_open():
    X, y = make_planted(n_features=40)
    frame = pd.DataFrame(X[300:]).add_prefix("f")
    for rows in (frame, X[300:]):
        holdout = ReusableHoldout(rows, y[300:], allow_shared_rows=True, random_state=0)
        screen = fit_filter(X[:300], y[:300], holdout=holdout)
        with refused(ValueError):
            screen.set_params(random_state=-1).final_report()
        assert len(screen.set_params(random_state=0).final_report().rows)


def test_half_widths_are_infinite_if_the_permutations_are_too_few(monkeypatch):
    monkeypatch.setattr(_correlation_filter, "_MAX_MULTIPLICATIONS", 0)
    rng = np.random.default_rng(0)
    scores = rng.uniform(-1.0, 1.0, (20, 3))
    target_columns = np.zeros(3, dtype=int)
    targets = rng.uniform(-1.0, 1.0, (20, 1))
    _, p_values, half_widths, n_permutations = permutation_statistics(
        scores, targets, target_columns, alpha=1e-6, rng=rng
    )
    assert n_permutations == 20_000
    assert (p_values >= 1.0 / 20_001.0).all()
    assert np.isinf(half_widths).all()
