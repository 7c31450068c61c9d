"""Results in words and pictures: never narrower than what is proved."""

import html
import math
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV, certify
from sklearn_bdp._card import Card, digits, expected, interval_picture
from sklearn_bdp.exceptions import VacuousGuaranteeWarning
from tests.facts import warned


@pytest.mark.parametrize("score", [0.12345, 0.99999, -0.00012, -17.4321, 1234.567])
def test_ends_round_outward(score):
    lower, upper = float(digits(score, math.floor)), float(digits(score, math.ceil))
    assert lower <= score <= upper
    assert upper - lower <= 1e-3 * max(1.0, 10.0 * abs(score))


def test_a_picture_names_the_ends_it_draws():
    picture = interval_picture(0.9, 0.81234, 0.95678, bounds=(0.0, 1.0))
    assert "between 0.812 and 0.957" in picture
    assert "0.812 and 0.957" in expected(0.81234, 0.95678)
    assert "0.630: baseline" in interval_picture(0.9, 0.8, 0.95, baseline=0.63)
    assert interval_picture(math.nan, 0.0, 1.0) == ""
    assert interval_picture(0.5, 0.5, 0.5) == ""


def test_what_is_named_cannot_become_html():
    sections = [("<u>", ["<s>"]), ("", [("<q>", "<w>")]), ("", {"<x>": ["<v>"]})]
    shown = Card("<h>", ["<i>"], sections)
    for tag in ("<h>", "<i>", "<u>", "<s>", "<q>", "<w>", "<x>", "<v>"):
        assert tag not in shown.html()
        assert html.escape(tag) in shown.html()
        assert tag in shown.text()


def test_the_first_three_lines_of_a_search_are_plain():
    """What is known, how surely and on what, what comes next: in words of ``GridSearchCV``."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 900)
    X = rng.normal(size=(900, 3)) + y[:, None]
    search = ReusableHoldoutSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, correlation="groups", random_state=0
    )
    with warned(VacuousGuaranteeWarning, 75):
        search.fit(X, y, groups=np.arange(900) // 3)
    known, surely, coming = str(search.certificate_).splitlines()[:3]
    low, high = search.best_interval_
    told = [float(number) for number in re.findall(r"\d\.\d+", known)]
    assert [told[0], *told[-2:]] == pytest.approx([search.best_score_, low, high], abs=1.1e-3)
    assert told[-2] <= low <= high <= told[-1]
    assert "at least 95%" in surely
    assert "75 independent groups" in surely
    assert known.index("a final report now") < known.index("between")
    assert "more groups" in coming
    assert not re.search(r"epsilon|leak|nats|BDP|G\d", known + surely + coming)
    shown_card = search.certificate_._repr_html_()
    assert shown_card.index("<svg") < shown_card.index("<details")
    for shown in (search._repr_html_(), search._repr_mimebundle_()["text/html"]):
        assert shown.startswith(shown_card)
        assert "sk-container" in shown
    unfitted = ReusableHoldoutSearchCV(LogisticRegression(), {"C": [1.0]})
    assert "<svg" not in unfitted._repr_html_()


def test_a_plan_says_for_how_many_and_what_more_records_give():
    first = str(certify(10_000, n_queries=100, budget=1)).splitlines()[:3]
    assert "all 100" in first[1]
    assert "more records give" in first[2]
