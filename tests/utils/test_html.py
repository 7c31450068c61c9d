"""Results in words and pictures: never narrower than the proven intervals."""

import html
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldout, ReusableHoldoutSearchCV, certify
from sklearn_bdp.exceptions import UninformativeIntervalWarning
from sklearn_bdp.feature_selection import SelectionReport
from sklearn_bdp.release.certificate import SelectedScore
from tests.facts import warned


def certificate_of(score, lower, upper, baseline=None, **fields):
    """Return a certificate of a selected score and its interval."""
    certificate = ReusableHoldout(np.zeros((10_000, 1)), np.zeros(10_000)).certificate()
    selected = SelectedScore(
        description="score",
        score=score,
        lower=lower,
        upper=upper,
        interval="proven",
        baseline=baseline,
    )
    return replace(certificate, selected=selected, **fields)


@pytest.mark.parametrize("score", [0.12345, 0.99999, -0.00012, -17.4321, 1234.567])
def test_limits_are_rounded_outward(score):
    headline = str(certificate_of(score, score, score)).splitlines()[0]
    lower, upper = (
        float(limit)
        for limit in re.search(r"new records like these: (\S+) to (\S+)\. ", headline).groups()
    )
    assert lower <= score <= upper
    assert upper - lower <= 1e-3 * max(1.0, 10.0 * abs(score))


def test_a_picture_names_the_limits_that_it_draws():
    card = certificate_of(0.9, 0.81234, 0.95678, baseline=0.63)._repr_html_()
    assert "aria-label='0.900, between 0.812 and 0.957'" in card
    assert "0.630: baseline" in card
    assert "<svg" not in certificate_of(math.nan, 0.0, 1.0)._repr_html_()
    assert "<svg" not in certificate_of(0.5, 0.5, 0.5)._repr_html_()


def test_only_answers_with_an_interval_count_in_the_coverage():
    certificate = certificate_of(0.5, 0.4, 0.6)
    answers = replace(certificate.answers, n_answers=5, n_without_interval=2)
    assert "of all 3 intervals so far" in str(replace(certificate, answers=answers))


def test_names_are_escaped_in_html():
    report = SelectionReport("<h>", ("<i>",), {"<x>": ["<v>"]})
    certificate = certificate_of(0.5, 0.4, 0.6, notes=("<s>",), assumptions=("<u>",))
    for result, tags in ((report, ("<h>", "<i>", "<x>", "<v>")), (certificate, ("<s>", "<u>"))):
        for tag in tags:
            assert tag not in result._repr_html_()
            assert html.escape(tag) in result._repr_html_()
            assert tag in str(result)


def test_the_first_three_lines_of_a_search_are_plain():
    """The result, its confidence and basis, and the next query: in words of ``GridSearchCV``."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 900)
    X = rng.normal(size=(900, 3)) + y[:, None]
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, correlation="groups", random_state=0
    )
    with warned(UninformativeIntervalWarning, 75):
        search.fit(X, y, groups=np.arange(900) // 3)
    result_line, confidence_line, forecast_line = str(search.certificate_).splitlines()[:3]
    low, high = search.best_interval_
    score, lower, upper = map(float, re.findall(r"\d\.\d+", result_line)[:3])
    assert [score, lower, upper] == pytest.approx([search.best_score_, low, high], abs=1.1e-3)
    assert lower <= low <= high <= upper
    assert "at least 95%" in confidence_line
    assert "75 independent groups" in confidence_line
    assert result_line.index("confidence interval") < result_line.index("A final report now")
    assert "more holdout groups" in forecast_line
    assert not re.search(
        r"epsilon|leak|nats|BDP|G\d", result_line + confidence_line + forecast_line
    )
    card = search.certificate_._repr_html_()
    assert card.index("<svg") < card.index("<details")
    for representation in (search._repr_html_(), search._repr_mimebundle_()["text/html"]):
        assert representation.startswith(card)
        assert "sk-container" in representation
    unfitted = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]})
    assert "<svg" not in unfitted._repr_html_()


def test_a_plan_states_the_number_of_queries_and_the_effect_of_more_records():
    lines = str(certify(10_000, n_queries=100, budget=1)).splitlines()[:3]
    assert "all 100" in lines[1]
    assert "more records give" in lines[2]
