"""URLs of ledgers on a server; texts without the password that they may contain."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

SCHEMA = "sklearn_bdp"  # where the tables are, whatever the search_path of a role is
_SCHEMES = ("postgresql", "postgres")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OWN_NAMES = ("holdout", "schema")  # the rest of a URL is libpq's
#: ``user:password@`` of any URL up to its last @, and ``password=`` among its parameters.
_USER_INFO = re.compile(r"(\b\w[\w+.-]*://[^\s:/?#]*):\S*@")
_PASSWORD_PARAMETER = re.compile(r"(\w*password\w*\s*=)\s*[^&\s]+", re.IGNORECASE)


def is_url(location: Any) -> bool:
    """Return whether a ledger is at the URL of a PostgreSQL database."""
    return isinstance(location, str) and location.partition("://")[0] in _SCHEMES


def without_passwords(text: Any) -> str:
    """Return a text, for instance a command line, without passwords of URLs."""
    return _PASSWORD_PARAMETER.sub(r"\1***", _USER_INFO.sub(r"\1@", str(text)))


class LedgerURL(str):
    """``postgresql://user@host/database?holdout=name``: a text without the password, if it had one.

    ``schema=`` names another schema than ``sklearn_bdp``. The password stays in the process; copies
    in other processes read it as libpq does, from ``PGPASSWORD`` or a password file.
    """

    holdout: str
    schema: str
    connection: str  # for libpq, password included

    def __new__(cls, text: str) -> LedgerURL:
        if isinstance(text, cls):
            return text
        parts = urlsplit(text)
        _check_hosts(parts)
        parameters = parse_qsl(parts.query, keep_blank_values=True)
        public = [(name, value) for name, value in parameters if "password" not in name]
        user, at, hosts = parts.netloc.rpartition("@")
        netloc = user.partition(":")[0] + at + hosts
        public_parts = parts._replace(netloc=netloc, query=urlencode(public), fragment="")
        self = super().__new__(cls, urlunsplit(public_parts))
        self.holdout = self._only_value("holdout", parameters)
        self.schema = self._only_value("schema", parameters, default=SCHEMA)
        if not _SCHEMA_NAME.fullmatch(self.schema):
            raise ValueError(
                "schema= of a ledger must be a lower-case name of letters, digits and _, got "
                f"{self.schema!r}."
            )
        libpq = urlencode([pair for pair in parameters if pair[0] not in _OWN_NAMES])
        self.connection = urlunsplit(parts._replace(query=libpq, fragment=""))
        return self

    def _only_value(self, name, parameters, *, default=None):
        values = [value for key, value in parameters if key == name]
        if not values and default is not None:
            return default
        if len(values) != 1 or not values[0]:
            raise ValueError(
                f"ledger must have one {name}=, as in "
                f"postgresql://user@host/database?holdout=name, got ledger={str(self)!r}."
            )
        return values[0]

    def with_holdout(self, name: str) -> LedgerURL:
        """Return the URL of another ledger of the same database, with the same password."""
        parts = urlsplit(self.connection)
        parameters = [*parse_qsl(parts.query, keep_blank_values=True), ("holdout", name)]
        if self.schema != SCHEMA:
            parameters.append(("schema", self.schema))
        return LedgerURL(urlunsplit(parts._replace(query=urlencode(parameters))))

    def secrets(self) -> list[str]:
        """Return the passwords of this URL, as they are written and decoded."""
        parts = urlsplit(self.connection)
        raw = [parts.netloc.rpartition("@")[0].partition(":")[2]]
        raw += [value for name, value in parse_qsl(parts.query) if "password" in name]
        return sorted({text for value in raw for text in (value, unquote(value)) if text}, key=len)

    def hide_secrets(self, text: str) -> str:
        """Return a message of the server or of libpq without the passwords of this URL."""
        for secret in reversed(self.secrets()):
            text = text.replace(secret, "***")
        return text

    def __deepcopy__(self, memo: Any = None) -> LedgerURL:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        return LedgerURL, (str(self),)


def _check_hosts(parts: SplitResult) -> None:
    """Raise where a password with reserved characters would be taken for a host or a path."""
    hosts = parts.netloc.rpartition("@")[2]
    ports = [re.sub(r"\[.*\]", "", host).partition(":")[2] for host in hosts.split(",")]
    has_stray_at = "@" in parts.path + parts.fragment or "@" in parts.query.partition("&")[0]
    if has_stray_at or not all(port.isdecimal() for port in ports if port):
        raise ValueError(
            "ledger is not a URL that can be read: a port is not a number, or the password "
            "contains a reserved character. Write such characters percent-encoded (@ as %40, "
            "/ as %2F, : as %3A, # as %23, ? as %3F), or put the password into PGPASSWORD."
        )
