"""The order in which processes write to a file: first come, first served.

SQLite's lock has no queue: a process that asks at the right moment gets it, and one of several busy
processes can wait for seconds. Here each waiting writer draws a number and holds a lock on the byte
of that number in a file beside the ledger; it is first when no smaller number is locked. The kernel
drops the locks of a process that ends. The order is a courtesy: only SQLite's lock keeps writers
apart, and a writer whose predecessors do not move tries without waiting for them.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Locks of an open file, not of a process: threads queue like processes, and closing ends them.
_IS_SUPPORTED = sys.platform == "linux" and sys.maxsize > 2**32 and hasattr(fcntl, "F_OFD_SETLK")
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, process
_NUMBER = struct.Struct("<q")  # the next number, at the beginning of the file
_FIRST_BYTE = 16  # locked by the writer with number 0; byte 0 while a number is drawn
_TRIES = 100  # to draw a number, one millisecond each


class WriterTurn:
    """One writer's number in the queue beside a ledger file; without a queue it is always first."""

    def __init__(self, ledger: Path) -> None:
        self._path = queue_path(ledger)
        self._mode = 0o600
        self._file: Any = None
        self._number: int | None = None
        if _IS_SUPPORTED:
            try:
                # All users with write access to the ledger may queue.
                self._mode = os.stat(ledger).st_mode & 0o666
                self._draw()
            except OSError:  # a folder that is read-only, or a file system without such locks
                self.close()

    def _draw(self) -> None:
        is_new = not self._path.exists()
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._mode)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        if is_new:
            os.chmod(self._path, self._mode)  # whatever the umask is
        for _ in range(_TRIES):
            if self._set_lock(fcntl.F_WRLCK, 0):
                break
            time.sleep(0.001)
        else:
            return  # a process that was stopped while it drew
        content = os.pread(descriptor, _NUMBER.size, 0)
        number = _NUMBER.unpack(content)[0] if len(content) == _NUMBER.size else 0
        number = number if 0 <= number < 2**60 else 0
        os.pwrite(descriptor, _NUMBER.pack(number + 1), 0)
        if self._set_lock(fcntl.F_WRLCK, _FIRST_BYTE + number):
            self._number = number
        self._set_lock(fcntl.F_UNLCK, 0)

    def is_first(self) -> bool:
        """Return whether no writer with a smaller number is waiting or writing."""
        if not self._number:
            return True
        query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _FIRST_BYTE, self._number, 0)
        reply = fcntl.fcntl(self._file.fileno(), fcntl.F_OFD_GETLK, query)
        return bool(struct.unpack(_FLOCK, reply)[0] == fcntl.F_UNLCK)

    def close(self) -> None:
        """Leave the queue."""
        file, self._file, self._number = self._file, None, None
        if file is not None:
            file.close()

    def _set_lock(self, lock_type: int, byte: int) -> bool:
        request = struct.pack(_FLOCK, lock_type, os.SEEK_SET, byte, 1, 0)
        try:
            fcntl.fcntl(self._file.fileno(), fcntl.F_OFD_SETLK, request)
        except (BlockingIOError, PermissionError):
            return False
        return True


def queue_path(ledger: Path) -> Path:
    """Return the file of the queue of a ledger; it holds one number, and may be deleted."""
    return ledger.with_name(f"{ledger.name}-queue")
