"""What a holdout shows of itself: shape, promise and information spent; never a score."""

from sklearn_bdp._card import card, table
from sklearn_bdp.exceptions import LedgerError, ProcessBoundaryError


def gauge(holdout):
    """Return ``{label: text}`` of public facts about a holdout."""
    facts = {
        "records": f"{holdout.n:,} (in pickles, too)",
        "correlation": holdout.model.describe(),
        "all right with probability": f"{100 * (1 - holdout.beta):g} %",
        "ledger": str(holdout.ledger) if holdout.ledger else "in memory",
    }
    try:
        with holdout._reading() as transaction:
            last = transaction.last
        facts["answered"] = f"{last.n_answered:,}"
        facts["of these from the holdout"] = f"{last.n_above:,}"
        facts["information spent"] = f"{holdout.information_spent:.3g} nats"
        if holdout.remaining_budget is not None:
            facts["budget left"] = f"{holdout.remaining_budget}"
    except (LedgerError, ProcessBoundaryError) as error:
        facts["unavailable"] = type(error).__name__
    return facts


def gauge_text(holdout):
    """Return the facts on one line."""
    return ", ".join(f"{label}: {text}" for label, text in gauge(holdout).items())


def gauge_html(holdout):
    """Return the facts as a card."""
    return card(type(holdout).__name__, (), picture=table(gauge(holdout).items()))
