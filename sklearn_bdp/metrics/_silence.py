"""Silence a model's warnings while it sees holdout records, in threads too."""

import contextlib
import threading
import warnings

_lock = threading.Lock()
_depth = 0
_saved = None


@contextlib.contextmanager
def silenced():
    """Ignore all warnings inside the block.

    ``warnings.catch_warnings`` alone would not do: filters are global, and when blocks of several
    threads overlap the first one to leave would switch the warnings of the others back on. Here
    the first block to enter saves the filters and the last one to leave restores them.
    """
    global _depth, _saved
    with _lock:
        if _depth == 0:
            _saved = warnings.catch_warnings()
            _saved.__enter__()
            warnings.simplefilter("ignore")
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _saved.__exit__(None, None, None)
