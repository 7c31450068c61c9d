"""The chain of digests that runs through a ledger, plain or keyed."""

import hashlib
import hmac
import os

from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.ledger._records import digest

KEY_VARIABLE = "SKLEARN_BDP_LEDGER_KEY"
_SHORTEST_KEY = 16


class Chain:
    """Digests of links, each over the one before.

    Without a key anybody can compute them, so an edited file whose links were computed anew
    verifies; with one (HMAC-SHA256) only its owner can.
    """

    def __init__(self, key=None):
        self._key = key

    @property
    def kind(self):
        """What the header of a ledger says of its chain."""
        return "sha256" if self._key is None else "hmac-sha256"

    def start(self, header):
        """Return the digest that the chain starts with."""
        return self._keyed(digest("header", header))

    def link(self, previous, kind, content, answers, commitment):
        """Return the digest of one entry: the link before, what it says, what it seals."""
        return self._keyed(digest(previous, kind, content, answers, commitment))

    def __repr__(self):
        return f"Chain({self.kind})"  # never the key

    def _keyed(self, text):
        if self._key is None:
            return text
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def chain_from_environment():
    """Return the chain under the key in the environment, plain where there is none."""
    key = os.environ.get(KEY_VARIABLE, "")
    if key and len(key) < _SHORTEST_KEY:
        raise LedgerError(
            f"{KEY_VARIABLE} must have at least {_SHORTEST_KEY} characters, got {len(key)}; "
            "nothing was answered."
        )
    return Chain(key.encode("utf-8", "surrogateescape") if key else None)
