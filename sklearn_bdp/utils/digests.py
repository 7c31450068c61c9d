"""Digests of texts and bytes. Objects and data are digested in :mod:`sklearn_bdp.utils.hashing`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable


def bytes_digest(chunks: Iterable[bytes]) -> str:
    """Return the SHA-256 of joined bytes."""
    state = hashlib.sha256()
    for chunk in chunks:
        state.update(chunk)
    return state.hexdigest()


def text_digest(*texts: str) -> str:
    """Return the SHA-256 of texts, each preceded by its length so that none can run over."""
    if all(map(str.isascii, texts)):  # as all texts of this package: a character is a byte
        joined = "".join([f"{len(text)}:{text}" for text in texts]).encode("ascii")
    else:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        joined = b"".join([b"%d:%b" % (len(data), data) for data in encoded])
    return hashlib.sha256(joined).hexdigest()


def keyed_digest(key: bytes, text: str) -> str:
    """Return the HMAC-SHA-256 of a text."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def text_code(text: str) -> int:
    """Return 64 bits of the SHA-256 of a text as an integer."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
