"""Statements fixed in the training set before the holdout was asked about them (theory G30)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

from sklearn_bdp._checks import sealed_errors
from sklearn_bdp.holdout._report import check_open
from sklearn_bdp.ledger import Fact, canonical

#: Weight of the first list of statements on a holdout, and what each further list gets of the rest.
FIRST, NEXT = 0.9, 0.9


def fix_statements(holdout: Any, key: str) -> None:
    """Record that statements are fixed now, with what the holdout has released so far.

    ``key`` is known by all that they say; the same statements are recorded once.
    """
    with holdout.account.writing() as transaction:
        if all(one["key"] != key for one in transaction.notes(Fact.STATEMENTS)):
            content = {"key": key, "released": transaction.last.released}
            transaction.note(Fact.STATEMENTS, content)


def fixed_length(notes: list[dict[str, Any]], key: str) -> float:
    r"""Return the code length of statements that were fixed before, in nats (theory G30).

    .. math:: \ell = -\ln P(\text{everything released before they were fixed}) - \ln w_k,
       \quad w_k = .9 \cdot .1^{k-1}

    for the list that was fixed as number :math:`k` on this holdout: what was released afterwards
    cannot have changed it.
    """
    place = [one["key"] for one in notes].index(key)
    return float(notes[place]["released"]) - math.log(FIRST) - place * math.log1p(-NEXT)


@sealed_errors  # the frames hold raw scores
def report_statements(holdout: Any, key: str, compute: Callable[[float], Any]) -> Any:
    """Report on statements that were fixed, and close the holdout.

    ``compute`` takes their code length and returns what JSON can say. It reads the raw holdout: not
    under a level of privacy. The same report asked again is returned again.
    """
    account, asked = holdout.account, {"statements": key}
    account.check_home()
    if account.settings.information is not None or account.settings.tau is not None:
        raise ValueError(
            "final_report() of a filter reads the closed holdout without noise, which ends its "
            "privacy. A numeric epsilon and calibration='zhao2017' forbid it. The holdout was "
            "not queried."
        )
    with account.writing() as transaction:
        last, begun = transaction.last, transaction.notes(Fact.CLOSING)
        if last.closed and begun[0]["asked"] == asked:
            return last.cells["statements"]
        check_open(transaction, asked)
        length = fixed_length(transaction.notes(Fact.STATEMENTS), key)
        if not begun:
            account.note_closing(transaction, Fact.CLOSING, {"asked": asked})
    content = json.loads(canonical(compute(length)))
    with account.writing() as transaction:
        terms = account.terms(transaction, fine=True)
        record = dataclasses.replace(
            terms.last,
            number=terms.last.number + 1,
            time=terms.time,
            size=0,
            code_length=length,
            code=terms.code.state(after=len(terms.code.pairs)),
            cells={"statements": content},
            closed=True,
            dp_epsilon=None,
        )
        transaction.append(record)
    return content
