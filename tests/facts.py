"""What a test holds of a message: its facts. Wording is in ``test_messages.py`` alone."""

import re

import pytest

#: Two plain words in a row: wording, not the name of a parameter, a class, a remedy, or a value.
WORDING = re.compile(r"[a-z]{2,}[,;:.]? [A-Za-z]{2,}")


def refused(kind, *facts):
    """Expect an exception of this kind (or one of these kinds) that carries each fact."""
    return pytest.raises(kind, match=carrying(facts))


def warned(category, *facts):
    """Expect a warning of this category that carries each fact; all others stay unexpected."""
    return pytest.warns(category, match=carrying(facts))


def carrying(facts):
    """Return a pattern of the messages in which each fact stands by itself, in any order."""
    texts = [fact.__name__ if isinstance(fact, type) else str(fact) for fact in facts]
    assert not any(map(WORDING.search, texts)), f"{texts}: facts are names and values"
    return "(?s)" + "".join(rf"(?=.*(?<!\w){re.escape(text)}(?!\w))" for text in texts)
