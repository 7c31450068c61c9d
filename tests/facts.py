"""Facts that tests expect in messages. Wording is tested in ``test_messages.py`` alone."""

import re
import sys

import numpy as np
import pytest

#: Three words in a row are wording, not a parameter, a class, a metric, a remedy's name, a value.
WORDING = re.compile(r"[A-Za-z]{2,} [a-z]+ [a-z]{2,}")


def refused(error_class, *facts):
    """Expect an exception of this kind (or one of these kinds) that carries each fact."""
    return pytest.raises(error_class, match=carrying(facts))


def warned(category, *facts):
    """Expect a warning of this category that carries each fact; all others stay unexpected."""
    return pytest.warns(category, match=carrying(facts))


def carrying(facts):
    """Return a pattern of the messages that contain each fact by itself, in any order."""
    texts = [fact.__name__ if isinstance(fact, type) else str(fact) for fact in facts]
    assert not any(map(WORDING.search, texts)), f"{texts}: facts are names and values"
    return "(?s)" + "".join(f"(?=.*{standing_by_itself(text)})" for text in texts)


def standing_by_itself(text):
    """Return a pattern of the text that is not part of a longer name or number."""
    left_boundary, right_boundary = (
        r"\b" if re.match(r"\w", end) else "" for end in (text[0], text[-1])
    )
    return left_boundary + re.escape(text) + right_boundary


def scheme_of(model, n=None):
    """Return the sampling scheme of a model of ``n`` records, by default those it is tied to."""
    return model.sampling_scheme(model.n_records if n is None else n)


def units_of(holdout):
    """Return the number and the name of the sampling units of a holdout."""
    scheme = scheme_of(holdout.dependence, holdout.n)
    return scheme.n_units, scheme.unit_name


def resubstitution(n):
    """Return one fold that tests a model on the ``n`` records that it is fitted on."""
    records = np.arange(n)
    return [(records, records)]


def count_calls(function):
    """Return how many functions a call runs, in Python or C: its work on a machine of any load."""
    n_calls = 0

    def count(frame, event, function):
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    profiler = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(profiler)
    return n_calls
