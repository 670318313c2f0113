"""Connections to databases through SQLAlchemy, from the URLs that people have: Spark's and SQLAlchemy's own.

SQLAlchemy and the drivers are extras; they are imported where they are used, and a missing one is an error that says
what to install.
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
# By the name in a JDBC URL: SQLAlchemy's name, and the drivers that do, each with what installs it.
_DRIVERS: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "postgresql": ("postgresql", (("psycopg", "psycopg"), ("psycopg2", "psycopg2"), ("pg8000", "pg8000"))),
    "mysql": ("mysql", (("pymysql", "pymysql"),)),
    "mariadb": ("mariadb", (("pymysql", "pymysql"),)),
    "sqlite": ("sqlite", ()),
}
_LONGEST_TEXT = 300
# Classes of SQLSTATE that pass by themselves (PostgreSQL, appendix A): a lost connection, a transaction that gives way,
# such as on a replica, lack of room, and somebody who ended the server, or what it did.
_PASSING_STATES = frozenset({"08", "40", "53", "57"})
# The classes that MySQL's own numbers have elsewhere: who is not let in, what is not there, and locks.
_MYSQL_STATES = {1044: "28000", 1045: "28000", 1049: "3D000", 1205: "40001", 1213: "40001"}
# What PostgreSQL says, before it gives a state, to whom it will not let in later either.
_FATAL, _NOT_LET_IN = "FATAL:", "28000"
_REFUSING_TEXTS = ("authentication failed", "does not exist", "pg_hba.conf", "not permitted to log in")
# What ``pg8000.dbapi.convert_paramstyle`` leaves alone, and what it does not.
_QUOTED_OR_PERCENT = re.compile(r"""E'(?:[^'\\]|\\.)*'|'(?:[^']|'')*'|"[^"]*"|--[^\n]*|\$\$.*?\$\$|%""", re.DOTALL)


@dataclass(frozen=True)
class Database:
    """Where a database is and who asks, and for which format; the whole URL is secret, because any part may be."""

    url: str = field(repr=False)
    needed_by: str = "jdbc"

    @cached_property
    def _parsed(self) -> sa.URL:
        from sqlalchemy.engine import make_url  # noqa: PLC0415 - an extra

        return make_url(self.url)

    @property
    def description(self) -> str:
        """Which database, without who asks."""
        parsed = self._parsed
        place = parsed.host or ""
        if parsed.port:
            place += f":{parsed.port}"
        return f"{parsed.get_backend_name()}://{place}/{parsed.database or ''}"

    @property
    def backend(self) -> str:
        """The kind of database, such as ``postgresql``."""
        return str(self._parsed.get_backend_name())

    def as_taken(self, query: str) -> str:
        """A person's query as the driver takes it; pg8000 reads each ``%`` that is in no quotes as one of its own."""
        if self._parsed.get_driver_name() != "pg8000":
            return query
        return _QUOTED_OR_PERCENT.sub(lambda found: "%%" if found.group() == "%" else found.group(), query)

    def engine(self) -> sa.Engine:
        """An engine that keeps one connection, and asks whether it is still there, until it is disposed of.

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
            raise PipelineError("SOURCE.PACKAGE_MISSING", format=self.needed_by, package=name, install=name) from None
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
            raise PipelineError("JDBC.URL", reason=self._masked(str(error))) from None

    @contextmanager
    def connected(self, engine: sa.Engine, otherwise: str = "JDBC.READ") -> Iterator[sa.Connection]:
        """A connection in a transaction of its own.

        Raises:
            PipelineError: ``JDBC.UNREACHABLE``, ``JDBC.BROKEN_OFF``, or *otherwise*: what is said, without secrets.
        """
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        reached = False
        try:
            with engine.connect() as connection:
                reached = True
                yield connection
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise self._problem(error, otherwise, reached=reached) from None
        except TypeError as error:
            if reached:
                raise
            # A parameter of the URL that the driver's function does not have.
            raise PipelineError(
                "JDBC.URL", reason=self._masked(f"Its parameters are not the driver's: {error}")
            ) from None
        except Exception as error:
            # A driver's own error, which SQLAlchemy wraps in some places only.
            if not type(error).__module__.startswith(("pg8000", "psycopg", "pymysql", "scramp", "sqlite3")):
                raise
            raise self._problem(error, otherwise, reached=reached) from None

    def _problem(self, error: BaseException, otherwise: str, *, reached: bool) -> PipelineError:
        code, state = _code(error, otherwise, reached=reached), _state(error)
        told: dict[str, Any] = {"state": state} if state else {}
        return PipelineError(code, database=self.description, reason=self._said(error), **told)

    def _said(self, error: BaseException) -> str:
        """What the driver says; SQLAlchemy's own text has the statement and its values in it too."""
        original = getattr(error, "orig", None) or error
        first = original.args[0] if original.args else original
        text = str(first.get("M", first)) if isinstance(first, dict) else str(original)
        return self._masked(text.strip().splitlines()[0] if text.strip() else type(original).__name__)

    def _masked(self, text: str) -> str:
        parsed = self._parsed
        secrets = [str(parsed.password or ""), *(str(value) for value in parsed.query.values())]
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text[:_LONGEST_TEXT].rstrip(".")


def _code(error: BaseException, otherwise: str, *, reached: bool) -> str:
    """What has happened: the database did not answer, did not go on, or does not do what it was asked."""
    if not reached:
        return UNREACHABLE
    lost = isinstance(error, OSError) or getattr(error, "connection_invalidated", False)
    return "JDBC.BROKEN_OFF" if lost or _state(error)[:2] in _PASSING_STATES else otherwise


def _state(error: BaseException) -> str:
    """The SQLSTATE of what a driver raises; empty where it tells none."""
    original = getattr(error, "orig", None) or error
    first = original.args[0] if original.args else None
    told = first.get("C") if isinstance(first, dict) else None
    # psycopg and psycopg2 have it by these names, but for what a server says before it lets anybody in.
    told = told or getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if told is None and isinstance(first, int):
        told = _MYSQL_STATES.get(first)
    if told is None and _FATAL in str(original) and any(text in str(original) for text in _REFUSING_TEXTS):
        told = _NOT_LET_IN
    return str(told or "")


def database_of(url: str, user: str | None, password: str | None, needed_by: str = "jdbc") -> Database:
    """The database that a URL names: ``jdbc:postgresql://host/db?user=...``, or one of SQLAlchemy.

    Args:
        url: as people have it.
        user: who asks, unless the URL says so.
        password: the same.
        needed_by: the format that reads or writes, for what is missing.

    Raises:
        PipelineError: ``SOURCE.PACKAGE_MISSING``; ``JDBC.URL``: it cannot be read, or is of a database that is not
            known by it. The URL itself is not shown, because it may hold a password.
    """
    if find_spec("sqlalchemy") is None:
        raise PipelineError("SOURCE.PACKAGE_MISSING", format=needed_by, package="SQLAlchemy", install=_INSTALL)
    from sqlalchemy.engine import make_url  # noqa: PLC0415 - an extra
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415 - an extra

    text = url.strip()
    if text[:5].casefold() == "jdbc:":
        text = _without_jdbc(text[5:])
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        raise PipelineError("JDBC.URL", reason="It cannot be read as kind://host:port/database") from None
    query = dict(parsed.query)
    is_jdbc = url.strip()[:5].casefold() == "jdbc:"
    # Where JDBC has them.
    inside = [str(query.pop(name)) if is_jdbc and name in query else None for name in ("user", "password")]
    named, secret = (own if given is None else given for own, given in zip(inside, (user, password), strict=True))
    if named is not None:
        parsed = parsed.set(username=named)
    if secret is not None:
        parsed = parsed.set(password=secret)
    parsed = parsed.set(query=query)
    if "+" not in parsed.drivername:
        parsed = parsed.set(drivername=_with_driver(parsed.drivername, needed_by))
    return Database(parsed.render_as_string(hide_password=False), needed_by)


def _with_ssl(url: sa.URL) -> tuple[sa.URL, dict[str, Any]]:
    """What pg8000 is to be told for PostgreSQL's own words about TLS, ``sslmode`` and ``sslrootcert``."""
    query = dict(url.query)
    mode, trusted = str(query.pop("sslmode", "prefer")), query.pop("sslrootcert", None)
    url = url.set(query=query)
    if mode == "disable":
        return url, {"ssl_context": False}
    if mode in ("allow", "prefer"):
        return url, {}
    if mode not in ("require", "verify-ca", "verify-full"):
        raise PipelineError("JDBC.URL", reason=f'sslmode "{mode}" is none of disable, require, verify-ca, verify-full')
    try:
        context = ssl.create_default_context(cafile=None if trusted is None else str(trusted))
    except (OSError, ssl.SSLError):
        raise PipelineError("JDBC.URL", reason="The file that sslrootcert names holds no certificates") from None
    if mode != "verify-full":
        context.check_hostname = False
    if mode == "require":
        # As libpq has it: encrypted, to whomever.
        context.verify_mode = ssl.CERT_NONE
    return url, {"ssl_context": context}


def _without_jdbc(text: str) -> str:
    kind, _, rest = text.partition(":")
    if kind.casefold() not in _DRIVERS:
        known = ", ".join(_DRIVERS)
        reason = (
            f'jdbc:{kind} is not translated, only {known}; give a URL of SQLAlchemy, such as "kind+driver://host/db"'
        )
        raise PipelineError("JDBC.URL", reason=reason)
    name = _DRIVERS[kind.casefold()][0]
    if name == "sqlite":
        return f"sqlite:///{rest}"
    if not rest.startswith("//"):
        # PostgreSQL's own short form: jdbc:postgresql:database.
        rest = f"//localhost/{rest}"
    return f"{name}:{rest}"


def _with_driver(kind: str, needed_by: str) -> str:
    drivers = _DRIVERS.get(kind, ("", ()))[1]
    if not drivers:
        return kind
    found = next((driver for driver, _ in drivers if find_spec(driver) is not None), None)
    if found is None:
        names = " or ".join(name for name, _ in drivers)
        raise PipelineError("SOURCE.PACKAGE_MISSING", format=needed_by, package=names, install=drivers[-1][1])
    return f"{kind}+{found}"
