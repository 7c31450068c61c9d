"""State of this process that several objects share, and names of its user and machine."""

from __future__ import annotations

import getpass
import os
import socket
import weakref
from typing import Any

#: Holdouts by token. A copy, or a pickle that is loaded again, is the same holdout, never a second
#: budget.
LIVE_HOLDOUTS: Any = weakref.WeakValueDictionary()
#: Ledgers in memory by token, of holdouts that were pickled: the pickle may be loaded after the
#: holdout is gone.
PICKLED_LEDGERS: dict[str, Any] = {}
#: Targets about which a holdout has given answers, by digest, with the digests of their rows
#: (computed when another holdout is made). A second holdout in memory with the same targets, or
#: with some of the rows, does not include these answers in its account.
ANSWERED_TARGETS: dict[str, Any] = {}

#: Environment variable that names the user of this process in ledgers.
USER_VARIABLE = "SKLEARN_BDP_USER"
_MAX_USER_LENGTH = 100  # characters


def process_user():
    """Return the user of this process: ``SKLEARN_BDP_USER`` if set, else the user's login name.

    Without a login name it is the user's id or "unknown". Only printable characters are kept, and
    100 of them at most.
    """
    user = os.environ.get(USER_VARIABLE, "").strip()
    if not user:
        try:
            user = getpass.getuser()
        except (KeyError, OSError, ImportError):  # a user without an entry, as in some containers
            user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    printable = "".join(character for character in user if character.isprintable())
    return printable.encode("utf-8", "replace").decode()[:_MAX_USER_LENGTH]


def host_name():
    """Return the name of this machine."""
    return socket.gethostname() or "unknown host"
