"""The check that reads the holdout, recorded and charged like a batch (theory G21)."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp.accounting import check_length
from sklearn_bdp.guards import ANEW, MIXED, WORDS


@sealed_errors
def compare(holdout: Any, side: Any, *, known: Any, explicit: bool = False) -> str:
    """Compare a training side with a holdout; return what has to be true besides, or nothing.

    ``known``: its :class:`KnownRows`. ``explicit``: rows beyond those of a drawn split are compared
    in place of being refused. What is known costs nothing; a word is charged, recorded, then said.
    """
    if known.mixes(side) and not explicit:
        raise MIXED.error()
    if known.mixes_groups(side):
        WORDS["groups"].warn()
        return ANEW
    if known.covers(side):
        return ""
    word = _recorded_word(holdout, side)
    if word is None:
        known.add(side)
        return ""
    guard = WORDS[word]
    if word in ("rows", "labels"):
        raise guard.error()
    known.add(side)
    guard.warn()
    return ANEW if word == "groups" else ""


def _recorded_word(holdout, side):
    """Return the word of a check: recorded before, or found and charged now."""
    settings, of = holdout._settings, side.digest()
    if settings.information is not None or settings.tau is not None:
        return None  # an exact word has no finite level of privacy: the check is not made
    with holdout._writing() as transaction:
        last, before = transaction.last, transaction.checks()
        if last.closed:  # nothing is asked any more
            return None
        for check in before:
            if check["of"] == of:
                return check["word"]
        word = side.word(holdout.X, holdout.y, holdout.model, rows=not holdout.allow_shared_rows)
        transaction.append(_account(last, before, {"of": of, "word": word}))
    return word


def _account(last, before, check):
    """Return the account after a check; no finite level of privacy holds from then on."""
    length = check_length(
        n_checks=len(before),
        n_complaints=sum(each["word"] is not None for each in before),
        complaint=check["word"] is not None,
        n_words=len(WORDS),
    )
    return dataclasses.replace(
        last,
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
        size=0,
        released=last.released + length,
        dp_epsilon=None,
        checks=check,
    )
