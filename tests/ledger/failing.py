"""A backend that fails on request."""

from sklearn_bdp.ledger import Backend
from sklearn_bdp.ledger.ledger import backend_at


class FailingBackend(Backend):
    """A file, or memory, whose ``error`` is raised instead of writing, or ``after`` it."""

    def __init__(self, location):
        self.inner = backend_at(location)
        self.error = None
        self.after = False

    def create(self, header, header_digest, rows=()):
        return self.inner.create(header, header_digest, rows)

    def read(self, last_number, limit=None):
        return self.inner.read(last_number, limit)

    def lock(self, timeout):
        return self.inner.lock(timeout)

    def append(self, expected_head, row):
        if self.error is not None and not self.after:
            raise self.error
        self.inner.append(expected_head, row)
        if self.error is not None:
            raise self.error
