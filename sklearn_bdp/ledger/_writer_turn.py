"""Queue of the processes that write to a file: first come, first served.

SQLite's lock has no queue, so one of several busy processes can wait for seconds. Here each waiting
writer draws a number and locks the byte of that number in a file beside the ledger. It is first
when no smaller number is locked. The kernel drops the locks of a process that ends. The queue
decides only which writer tries first. The lock of SQLite keeps writers apart.
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

#: Whether there are locks of an open file description, which also keep threads apart and end when
#: the file is closed. Locks of a process do neither.
_IS_SUPPORTED = sys.platform == "linux" and sys.maxsize > 2**32 and hasattr(fcntl, "F_OFD_SETLK")
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, process
_NUMBER = struct.Struct("<q")  # number of the next writer, at the beginning of the file
_FIRST_BYTE = 16  # byte that the writer with number 0 locks; byte 0 is locked to draw a number
_N_TRIES = 100  # to draw a number, with 1 ms between two tries


class WriterTurn:
    """Place of one writer in the queue of a ledger file.

    If no number can be drawn, as on systems other than Linux, the writer is always first.
    """

    def __init__(self, ledger_path: Path) -> None:
        self._path = queue_path(ledger_path)
        self._permissions = 0o600
        self._file: Any = None
        self._number: int | None = None
        if _IS_SUPPORTED:
            try:
                # The queue file gets the rights of the ledger.
                self._permissions = os.stat(ledger_path).st_mode & 0o666
                self._draw_number()
            except OSError:  # a read-only folder, or a file system without such locks
                self.close()

    def _draw_number(self) -> None:
        """Draw the next number from the queue file, lock its byte, and set ``self._number``.

        The number stays None if another process keeps the file or this byte locked.
        """
        is_new = not self._path.exists()
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._permissions)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        if is_new:
            os.chmod(self._path, self._permissions)  # the umask may have removed rights
        for _ in range(_N_TRIES):
            if self._set_lock(fcntl.F_WRLCK, 0):
                break
            time.sleep(0.001)
        else:
            return  # another process was stopped while it drew a number
        number_bytes = os.pread(descriptor, _NUMBER.size, 0)
        number = 0
        if len(number_bytes) == _NUMBER.size:
            (stored_number,) = _NUMBER.unpack(number_bytes)
            number = stored_number if 0 <= stored_number < 2**60 else 0
        os.pwrite(descriptor, _NUMBER.pack(number + 1), 0)
        if self._set_lock(fcntl.F_WRLCK, _FIRST_BYTE + number):
            self._number = number
        self._set_lock(fcntl.F_UNLCK, 0)

    def is_first(self) -> bool:
        """Return whether no writer with a smaller number is waiting or writing.

        True if no number was drawn.
        """
        if not self._number:
            return True
        # The kernel replies with a lock on one of the bytes of smaller numbers, or with F_UNLCK.
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _FIRST_BYTE, self._number, 0)
        reply = fcntl.fcntl(self._file.fileno(), fcntl.F_OFD_GETLK, request)
        lock_type, *_ = struct.unpack(_FLOCK, reply)
        return bool(lock_type == fcntl.F_UNLCK)

    def close(self) -> None:
        """Leave the queue: close the queue file, which unlocks its bytes."""
        file = self._file
        self._file = None
        self._number = None
        if file is not None:
            file.close()

    def _set_lock(self, lock_type: int, byte_offset: int) -> bool:
        """Lock or unlock one byte of the queue file; return False if another writer locked it.

        ``lock_type``: ``F_WRLCK`` or ``F_UNLCK`` of the module ``fcntl``.
        """
        request = struct.pack(_FLOCK, lock_type, os.SEEK_SET, byte_offset, 1, 0)
        try:
            fcntl.fcntl(self._file.fileno(), fcntl.F_OFD_SETLK, request)
        except (BlockingIOError, PermissionError):
            return False
        return True


def queue_path(ledger_path: Path) -> Path:
    """Return the path of the queue file of a ledger file."""
    return ledger_path.with_name(f"{ledger_path.name}-queue")
