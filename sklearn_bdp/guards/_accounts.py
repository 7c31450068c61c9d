"""Accounts that have answered about the same records in this process.

An account in memory knows nothing of others: whoever makes a new one of records that were asked
about starts from nothing, and its intervals with it. Records are known here by their targets, in
their order, which stay when features are added, chosen or transformed.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import multiprocessing
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from sklearn_bdp._digests import row_digests
from sklearn_bdp._sklearn_compat import inside_validation
from sklearn_bdp.exceptions import AnotherAccountWarning
from sklearn_bdp.guards._guard import TOLD, Guard

ANOTHER = Guard(
    "another account",
    "arguments",
    "when a holdout in memory is made",
    "Queries about these targets were answered before in this process, by another account. A new "
    "account in memory does not know them, so the intervals of both are not valid together. Pass "
    "holdout=search.holdout_ on, with X[search.train_indices_], or give both one ledger.",
    AnotherAccountWarning,
)
#: Targets below which equal ones may well be those of other records.
_FEWEST = 20
#: Digests of targets that an account has answered about, and the notebook cell that asked.
_ANSWERED: dict[str, tuple[str, int] | None] = {}
_INSIDE: contextvars.ContextVar[bool] = contextvars.ContextVar("inside a candidate", default=False)


def forget_accounts() -> None:
    """Forget what was answered, as a new process would."""
    _ANSWERED.clear()
    TOLD.clear()


def targets_digest(X: Any, y: Any) -> str | None:
    """Return what targets are known by; None where they say too little.

    Targets that are sorted (or all the same) may be those of any table of that size: there the
    features count, too.
    """
    try:
        codes = row_digests(y)
        if codes.size < _FEWEST:
            return None
        runs = 1 + int(np.count_nonzero(codes[1:] != codes[:-1]))
        if runs == np.unique(codes).size < codes.size:
            codes = row_digests(X, y)
    except (TypeError, ValueError):  # cells without values
        return None
    return hashlib.sha256(codes.tobytes()).hexdigest()


def open_account(about: list[str | None]) -> bool:
    """Return whether another account has answered about some of these targets; say so once."""
    if _is_repeated():
        return False
    cell = _cell()
    known = {one for one in about if one in _ANSWERED and not _run_again(_ANSWERED[one], cell)}
    if known:
        ANOTHER.warn_once(min(known))
    return bool(known)


def note_answers(about: list[str | None]) -> None:
    """Remember that an account has answered about these targets."""
    new = {digest for digest in about if digest is not None} - _ANSWERED.keys()
    if new and not _is_repeated():  # looking at the callers takes longer than an answer should
        _ANSWERED.update(dict.fromkeys(new, _cell()))


@contextlib.contextmanager
def fitting_a_candidate() -> Iterator[None]:
    """Say nothing of accounts in this block: what is fitted has a test of its own outside."""
    token = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(token)


def _cell():
    """Return text and number of the notebook cell that is running; None outside of notebooks."""
    frame = sys._getframe()
    while frame is not None:
        cells = frame.f_globals.get("In")
        if isinstance(cells, list) and cells:
            return cells[-1], len(cells)
        frame = frame.f_back
    return None


def _run_again(first, now):
    """Return whether a notebook cell asks what it asked when it was run before."""
    return None not in (first, now) and first[0] == now[0] and first[1] != now[1]


def _is_repeated():
    """Return whether this is a worker, or a fit of a search or cross-validation with its test."""
    worker = multiprocessing.parent_process() is not None
    return worker or _INSIDE.get() or inside_validation()
