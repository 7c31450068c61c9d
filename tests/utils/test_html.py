"""Results in words and pictures: never narrower than the proven intervals."""

import html
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_bdp import ReusableHoldoutSearchCV, certify
from sklearn_bdp.exceptions import UninformativeIntervalWarning
from sklearn_bdp.feature_selection import SelectionReport
from tests.facts import warned


def chosen(score, lower, upper, **facts):
    """Return a certificate of a chosen score and its interval."""
    certificate = certify(10_000, n_queries=100, budget=1)
    return replace(certificate, chosen=("score", score, lower, upper), **facts)


@pytest.mark.parametrize("score", [0.12345, 0.99999, -0.00012, -17.4321, 1234.567])
def test_ends_round_outward(score):
    first = str(chosen(score, score, score)).splitlines()[0]
    lower, upper = (float(end) for end in re.search(r"between (\S+) and (\S+) ", first).groups())
    assert lower <= score <= upper
    assert upper - lower <= 1e-3 * max(1.0, 10.0 * abs(score))


def test_a_picture_names_the_ends_it_draws():
    card = chosen(0.9, 0.81234, 0.95678, baseline=0.63)._repr_html_()
    assert "aria-label='0.900, between 0.812 and 0.957'" in card
    assert "0.630: baseline" in card
    assert "<svg" not in chosen(math.nan, 0.0, 1.0)._repr_html_()
    assert "<svg" not in chosen(0.5, 0.5, 0.5)._repr_html_()


def test_what_is_named_cannot_become_html():
    report = SelectionReport("<h>", ("<i>",), {"<x>": ["<v>"]})
    certificate = chosen(0.5, 0.4, 0.6, notes=("<s>",), assumptions=("<u>",))
    for shown, tags in ((report, ("<h>", "<i>", "<x>", "<v>")), (certificate, ("<s>", "<u>"))):
        for tag in tags:
            assert tag not in shown._repr_html_()
            assert html.escape(tag) in shown._repr_html_()
            assert tag in str(shown)


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
