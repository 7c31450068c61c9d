"""A chain as plain numbers and words, for a ledger: a later search goes on with the same one."""

from __future__ import annotations

from typing import Any

from sklearn_bdp.correlation._base import CorrelationModel
from sklearn_bdp.correlation._chains._chain import MarkovChain


def chain_record(model: CorrelationModel) -> dict[str, Any] | None:
    """Return what a chain is made of, as JSON can say it; None for any other model."""
    if type(model) is not MarkovChain or not isinstance(model.start, str):
        return None
    return {
        "transition": model.transition.tolist(),
        "observed": model.observed,
        "start": model.start,
        "words": model._words,
        "caveats": list(model._caveats),
    }


def recorded_chain(record: dict[str, Any]) -> MarkovChain:
    """Return the chain that :func:`chain_record` wrote down."""
    chain = MarkovChain(record["transition"], observed=record["observed"], start=record["start"])
    return chain._declared(record["words"], record["caveats"]) if record["words"] else chain
