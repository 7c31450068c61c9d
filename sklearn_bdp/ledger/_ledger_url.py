"""URLs of ledgers in a PostgreSQL database, and removal of passwords from texts."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

SCHEMA = "sklearn_bdp"  # default schema of the tables
_SCHEMES = ("postgresql", "postgres")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_LEDGER_PARAMETERS = ("holdout", "schema")  # libpq reads the other parameters of a URL
#: ``user:password@`` of any URL up to its last @, and ``password=`` among its parameters.
_USER_INFO = re.compile(r"(\b\w[\w+.-]*://[^\s:/?#]*):\S*@")
_PASSWORD_PARAMETER = re.compile(r"(\w*password\w*\s*=)\s*[^&\s]+", re.IGNORECASE)


def is_url(location: Any) -> bool:
    """Return whether the location of a ledger is the URL of a PostgreSQL database."""
    return isinstance(location, str) and location.partition("://")[0] in _SCHEMES


def without_passwords(text: Any) -> str:
    """Return a text, for instance a command line, without the passwords of its URLs."""
    return _PASSWORD_PARAMETER.sub(r"\1***", _USER_INFO.sub(r"\1@", str(text)))


class LedgerURL(str):
    """URL of a ledger, as a text without a password.

    For instance ``postgresql://user@host/database?holdout=name``. The parameter ``schema=`` names
    another schema than ``sklearn_bdp``. A pickled URL has no password. A process that loads it
    reads the password as libpq does: from ``PGPASSWORD`` or a password file.
    """

    holdout: str  # name of the holdout
    schema: str  # schema of the tables
    connection_url: str  # URL for libpq, with the password

    def __new__(cls, text: str) -> LedgerURL:
        if isinstance(text, cls):
            return text
        url_parts = urlsplit(text)
        _check_hosts(url_parts)
        parameters = parse_qsl(url_parts.query, keep_blank_values=True)
        public_parameters = [(name, value) for name, value in parameters if "password" not in name]
        user_info, at_sign, hosts = url_parts.netloc.rpartition("@")
        user = user_info.partition(":")[0]
        public_url_parts = url_parts._replace(
            netloc=user + at_sign + hosts, query=urlencode(public_parameters), fragment=""
        )
        self = super().__new__(cls, urlunsplit(public_url_parts))
        self.holdout = self._only_value("holdout", parameters)
        self.schema = self._only_value("schema", parameters, default=SCHEMA)
        if not _SCHEMA_NAME.fullmatch(self.schema):
            raise ValueError(
                "schema= of a ledger must be a lower-case name of letters, digits and _, got "
                f"{self.schema!r}."
            )
        libpq_parameters = [
            (name, value) for name, value in parameters if name not in _LEDGER_PARAMETERS
        ]
        self.connection_url = urlunsplit(
            url_parts._replace(query=urlencode(libpq_parameters), fragment="")
        )
        return self

    def _only_value(self, name, parameters, *, default=None):
        """Return the only value of a URL parameter, or ``default`` if the parameter is missing.

        Raise ValueError if the parameter has several values, if its value is empty, and if it is
        missing while ``default`` is None. ``parameters``: pairs of name and value.
        """
        values = [value for parameter, value in parameters if parameter == name]
        if not values and default is not None:
            return default
        if len(values) != 1 or not values[0]:
            other_parameters = [
                (parameter, value)
                for parameter, value in parse_qsl(urlsplit(self).query)
                if parameter != name
            ]
            query = urlencode([*other_parameters, (name, "name")])
            example = urlunsplit(urlsplit(self)._replace(query=query))
            raise ValueError(
                f"ledger must have one {name}=, got ledger={str(self)!r}. A database can keep "
                f"several holdouts. Name yours, as in ledger={example!r}."
            )
        return values[0]

    def with_holdout(self, name: str) -> LedgerURL:
        """Return the URL of another holdout in the same database, with the same password."""
        url_parts = urlsplit(self.connection_url)
        parameters = [*parse_qsl(url_parts.query, keep_blank_values=True), ("holdout", name)]
        if self.schema != SCHEMA:
            parameters.append(("schema", self.schema))
        return LedgerURL(urlunsplit(url_parts._replace(query=urlencode(parameters))))

    def secrets(self) -> list[str]:
        """Return the passwords of this URL, also percent-decoded, shortest text first."""
        url_parts = urlsplit(self.connection_url)
        user_info = url_parts.netloc.rpartition("@")[0]
        passwords = [user_info.partition(":")[2]]
        passwords += [value for name, value in parse_qsl(url_parts.query) if "password" in name]
        decoded_passwords = [unquote(password) for password in passwords]
        texts = {text for text in passwords + decoded_passwords if text}
        return sorted(texts, key=len)

    def hide_secrets(self, text: str) -> str:
        """Return a text with ``***`` in place of the passwords of this URL."""
        for secret in reversed(self.secrets()):
            text = text.replace(secret, "***")
        return text

    def __deepcopy__(self, memo: Any = None) -> LedgerURL:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        return LedgerURL, (str(self),)


def _check_hosts(url_parts: SplitResult) -> None:
    """Raise ValueError if a port is not a number or an @ is in a wrong part of the URL.

    Wrong parts are the path, the fragment and the first parameter. A reserved character in a
    password that is not percent-encoded has this effect.
    """
    hosts = url_parts.netloc.rpartition("@")[2]
    # Without IPv6 addresses, which are in brackets and contain colons.
    ports = [re.sub(r"\[.*\]", "", host).partition(":")[2] for host in hosts.split(",")]
    first_parameter = url_parts.query.partition("&")[0]
    has_stray_at_sign = "@" in url_parts.path + url_parts.fragment or "@" in first_parameter
    if has_stray_at_sign or not all(port.isdecimal() for port in ports if port):
        raise ValueError(
            "ledger is not a URL that can be read: a port is not a number, or the password "
            "contains a reserved character. Write such characters percent-encoded (@ as %40, "
            "/ as %2F, : as %3A, # as %23, ? as %3F), or put the password into PGPASSWORD."
        )
