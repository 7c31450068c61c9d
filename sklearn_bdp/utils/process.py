"""State of this process that belongs to no object and is kept between calls.

Besides it, ``suppress_output`` counts the blocks that keep the streams of the process quiet.
"""

from __future__ import annotations

import getpass
import os
import socket
import weakref
from typing import Any

#: Holdouts by token. A copy or pickle that comes back is the same holdout, never a second budget.
LIVE_HOLDOUTS: Any = weakref.WeakValueDictionary()
#: Ledgers in memory by token, of holdouts that were pickled: the pickle may come back after them.
PICKLED_LEDGERS: dict[str, Any] = {}
#: Digests of targets that were answered about, and of the rows (hashed when another holdout comes):
#: one in memory of the same targets, or of some of the rows, knows nothing of these answers.
ANSWERED_TARGETS: dict[str, Any] = {}


#: Environment variable that names the user of this process in ledgers.
USER_VARIABLE = "SKLEARN_BDP_USER"
_LONGEST_USER = 100  # characters


def process_user():
    """Return the user of this process: ``SKLEARN_BDP_USER`` if set, else the user's login name."""
    user = os.environ.get(USER_VARIABLE, "").strip()
    if not user:
        try:
            user = getpass.getuser()
        except (KeyError, OSError, ImportError):  # a user without an entry, as in some containers
            user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    printable = "".join(character for character in user if character.isprintable())
    return printable.encode("utf-8", "replace").decode()[:_LONGEST_USER]


def host_name():
    """Return the name of this machine."""
    return socket.gethostname() or "unknown host"
