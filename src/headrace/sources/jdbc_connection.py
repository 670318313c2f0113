"""Database connections through SQLAlchemy, from JDBC URLs and SQLAlchemy URLs.

SQLAlchemy and the drivers are extras, imported where they are used. If one is missing, the error says what to install.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headrace.errors import PipelineError

if TYPE_CHECKING:
    import sqlalchemy as sa

UNREACHABLE = "JDBC.UNREACHABLE"
_INSTALL = "headrace[database]"
# By the name in a JDBC URL: SQLAlchemy's name, and the supported drivers, each with the package that installs it.
_DRIVERS: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "postgresql": ("postgresql", (("psycopg", "psycopg"), ("psycopg2", "psycopg2"), ("pg8000", "pg8000"))),
    "mysql": ("mysql", (("pymysql", "pymysql"),)),
    "mariadb": ("mariadb", (("pymysql", "pymysql"),)),
    "sqlite": ("sqlite", ()),
}
_MAX_TEXT_LENGTH = 300
# Transient SQLSTATE classes (PostgreSQL, appendix A): connection exceptions, transaction rollbacks (such as conflicts
# on a replica), insufficient resources, and operator intervention.
_TRANSIENT_STATES = frozenset({"08", "40", "53", "57"})
# SQLSTATEs for MySQL's own error numbers: access denied, unknown database, and locks.
_MYSQL_STATES = {1044: "28000", 1045: "28000", 1049: "3D000", 1205: "40001", 1213: "40001"}
# PostgreSQL's messages for permanent connection failures, which come without a SQLSTATE.
_FATAL, _ACCESS_DENIED = "FATAL:", "28000"
_ACCESS_DENIED_TEXTS = ("authentication failed", "does not exist", "pg_hba.conf", "not permitted to log in")
# Quoted texts, which ``pg8000.dbapi.convert_paramstyle`` leaves unchanged, or a percent sign.
_QUOTED_OR_PERCENT = re.compile(r"""E'(?:[^'\\]|\\.)*'|'(?:[^']|'')*'|"[^"]*"|--[^\n]*|\$\$.*?\$\$|%""", re.DOTALL)


@dataclass(frozen=True)
class Database:
    """A database, its credentials, and the format that needs it. The whole URL is secret, because any part may be."""

    url: str = field(repr=False)
    required_by: str = "jdbc"

    @cached_property
    def _parsed(self) -> sa.URL:
        from sqlalchemy.engine import make_url  # noqa: PLC0415 - an extra

        return make_url(self.url)

    @property
    def description(self) -> str:
        """The database for people, without credentials."""
        parsed = self._parsed
        address = parsed.host or ""
        if parsed.port:
            address += f":{parsed.port}"
        return f"{parsed.get_backend_name()}://{address}/{parsed.database or ''}"

    @property
    def backend(self) -> str:
        """The kind of database, such as ``postgresql``."""
        return str(self._parsed.get_backend_name())

    def escape_for_driver(self, query: str) -> str:
        """A user's query, escaped for the driver: pg8000 interprets each ``%`` outside of quotes."""
        if self._parsed.get_driver_name() != "pg8000":
            return query
        return _QUOTED_OR_PERCENT.sub(lambda found: "%%" if found.group() == "%" else found.group(), query)

    def engine(self) -> sa.Engine:
        """An engine with one connection, which it checks before each use. The caller disposes of it.

        Raises:
            PipelineError: ``SOURCE.PACKAGE_MISSING``, ``JDBC.URL``.
        """
        import sqlalchemy as sa  # noqa: PLC0415 - an extra
        from sqlalchemy.pool import QueuePool  # noqa: PLC0415 - an extra

        url, arguments = self._parsed, dict[str, Any]()
        if url.get_driver_name() == "pg8000":
            url, arguments = _with_ssl(url)
        try:
            return sa.create_engine(url, poolclass=QueuePool, pool_size=1, pool_pre_ping=True, connect_args=arguments)
        except ModuleNotFoundError as error:
            name = error.name or "of the database's driver"
            raise PipelineError("SOURCE.PACKAGE_MISSING", format=self.required_by, package=name, install=name) from None
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
            raise PipelineError("JDBC.URL", reason=self._redacted(str(error))) from None

    @contextmanager
    def connect(self, engine: sa.Engine, error_code: str = "JDBC.READ") -> Iterator[sa.Connection]:
        """A connection in its own transaction.

        Raises:
            PipelineError: ``JDBC.UNREACHABLE``, ``JDBC.BROKEN_OFF``, or *error_code*, with the driver's message but
                without secrets.
        """
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        is_connected = False
        try:
            with engine.connect() as connection:
                is_connected = True
                yield connection
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise self._problem(error, error_code, is_connected=is_connected) from None
        except TypeError as error:
            if is_connected:
                raise
            # The URL has a parameter that the driver's function does not have.
            raise PipelineError(
                "JDBC.URL", reason=self._redacted(f"The driver does not accept the URL's parameters: {error}")
            ) from None
        except Exception as error:
            # A driver's own error, which SQLAlchemy wraps only in some places.
            if not type(error).__module__.startswith(("pg8000", "psycopg", "pymysql", "scramp", "sqlite3")):
                raise
            raise self._problem(error, error_code, is_connected=is_connected) from None

    def _problem(self, error: BaseException, error_code: str, *, is_connected: bool) -> PipelineError:
        code, state = _error_code(error, error_code, is_connected=is_connected), _sqlstate(error)
        sqlstate: dict[str, Any] = {"state": state} if state else {}
        return PipelineError(code, database=self.description, reason=self._driver_message(error), **sqlstate)

    def _driver_message(self, error: BaseException) -> str:
        """The driver's message. SQLAlchemy's text also contains the statement and its values."""
        original = getattr(error, "orig", None) or error
        first = original.args[0] if original.args else original
        text = str(first.get("M", first)) if isinstance(first, dict) else str(original)
        return self._redacted(text.strip().splitlines()[0] if text.strip() else type(original).__name__)

    def _redacted(self, text: str) -> str:
        parsed = self._parsed
        secrets = [str(parsed.password or ""), *(str(value) for value in parsed.query.values())]
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text[:_MAX_TEXT_LENGTH].rstrip(".")


def _error_code(error: BaseException, error_code: str, *, is_connected: bool) -> str:
    """The error condition: the database did not answer, the connection broke, or the statement failed."""
    if not is_connected:
        return UNREACHABLE
    lost = isinstance(error, OSError) or getattr(error, "connection_invalidated", False)
    return "JDBC.BROKEN_OFF" if lost or _sqlstate(error)[:2] in _TRANSIENT_STATES else error_code


def _sqlstate(error: BaseException) -> str:
    """The SQLSTATE of a driver's error; empty if it has none."""
    original = getattr(error, "orig", None) or error
    first = original.args[0] if original.args else None
    sqlstate = first.get("C") if isinstance(first, dict) else None
    # psycopg and psycopg2 have it under these names, except for errors before the login.
    sqlstate = sqlstate or getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if sqlstate is None and isinstance(first, int):
        sqlstate = _MYSQL_STATES.get(first)
    if sqlstate is None and _FATAL in str(original) and any(text in str(original) for text in _ACCESS_DENIED_TEXTS):
        sqlstate = _ACCESS_DENIED
    return str(sqlstate or "")


def database_of(url: str, user: str | None, password: str | None, required_by: str = "jdbc") -> Database:
    """The database of a URL: ``jdbc:postgresql://host/db?user=...``, or a SQLAlchemy URL.

    Args:
        url: as the user has written it.
        user: overrides the user in the URL.
        password: overrides the password in the URL.
        required_by: the format that reads or writes, for the error about a missing package.

    Raises:
        PipelineError: ``SOURCE.PACKAGE_MISSING``; ``JDBC.URL``: it cannot be parsed, or names an unknown kind of
            database. The error does not show the URL, because it may contain a password.
    """
    if find_spec("sqlalchemy") is None:
        raise PipelineError("SOURCE.PACKAGE_MISSING", format=required_by, package="SQLAlchemy", install=_INSTALL)
    from sqlalchemy.engine import make_url  # noqa: PLC0415 - an extra
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415 - an extra

    text = url.strip()
    if text[:5].casefold() == "jdbc:":
        text = _without_jdbc(text[5:])
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        raise PipelineError("JDBC.URL", reason="It does not have the form kind://host:port/database") from None
    query = dict(parsed.query)
    is_jdbc = url.strip()[:5].casefold() == "jdbc:"
    # JDBC has them among the parameters.
    inside = [str(query.pop(name)) if is_jdbc and name in query else None for name in ("user", "password")]
    named, secret = (own if given is None else given for own, given in zip(inside, (user, password), strict=True))
    if named is not None:
        parsed = parsed.set(username=named)
    if secret is not None:
        parsed = parsed.set(password=secret)
    parsed = parsed.set(query=query)
    if "+" not in parsed.drivername:
        parsed = parsed.set(drivername=_with_driver(parsed.drivername, required_by))
    return Database(parsed.render_as_string(hide_password=False), required_by)


def _with_ssl(url: sa.URL) -> tuple[sa.URL, dict[str, Any]]:
    """The URL without PostgreSQL's ``sslmode`` and ``sslrootcert``, and pg8000's arguments for them."""
    query = dict(url.query)
    mode, trusted = str(query.pop("sslmode", "prefer")), query.pop("sslrootcert", None)
    url = url.set(query=query)
    if mode == "disable":
        return url, {"ssl_context": False}
    if mode in ("allow", "prefer"):
        return url, {}
    if mode not in ("require", "verify-ca", "verify-full"):
        reason = f'the value "{mode}" of sslmode is not one of disable, require, verify-ca, verify-full'
        raise PipelineError("JDBC.URL", reason=reason)
    try:
        context = ssl.create_default_context(cafile=None if trusted is None else str(trusted))
    except (OSError, ssl.SSLError):
        reason = "the file in sslrootcert is missing or contains no certificates"
        raise PipelineError("JDBC.URL", reason=reason) from None
    if mode != "verify-full":
        context.check_hostname = False
    if mode == "require":
        # As in libpq: encrypted, without verification.
        context.verify_mode = ssl.CERT_NONE
    return url, {"ssl_context": context}


def _without_jdbc(text: str) -> str:
    kind, _, rest = text.partition(":")
    if kind.casefold() not in _DRIVERS:
        known = ", ".join(_DRIVERS)
        reason = f'jdbc:{kind} is not supported, only {known}; use a SQLAlchemy URL such as "kind+driver://host/db"'
        raise PipelineError("JDBC.URL", reason=reason)
    name = _DRIVERS[kind.casefold()][0]
    if name == "sqlite":
        return f"sqlite:///{rest}"
    if not rest.startswith("//"):
        # PostgreSQL's own short form: jdbc:postgresql:database.
        rest = f"//localhost/{rest}"
    return f"{name}:{rest}"


def _with_driver(kind: str, required_by: str) -> str:
    drivers = _DRIVERS.get(kind, ("", ()))[1]
    if not drivers:
        return kind
    found = next((driver for driver, _ in drivers if find_spec(driver) is not None), None)
    if found is None:
        names = " or ".join(name for name, _ in drivers)
        raise PipelineError("SOURCE.PACKAGE_MISSING", format=required_by, package=names, install=drivers[-1][1])
    return f"{kind}+{found}"
