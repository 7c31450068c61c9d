"""What is true of this process and belongs to no object: all that is remembered between calls.

Besides it, ``silenced`` counts the blocks that keep the streams of the process quiet.
"""

from __future__ import annotations

import weakref
from typing import Any

#: Holdouts by token. A copy or pickle that comes back is the same holdout, never a second budget.
LIVE_HOLDOUTS: Any = weakref.WeakValueDictionary()
#: Ledgers in memory by token, of holdouts that were pickled: the pickle may come back after them.
PICKLED_LEDGERS: dict[str, Any] = {}
#: Digests of targets that were answered about, and of the rows (hashed when another holdout comes):
#: one in memory of the same targets, or of some of the rows, knows nothing of these answers.
ANSWERED_TARGETS: dict[str, Any] = {}
