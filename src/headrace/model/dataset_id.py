"""Names of datasets that other systems use too: a namespace for what stores them, and a name within it.

Source: OpenLineage's naming conventions for datasets. Users, passwords and query strings of addresses are in neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

_LOCAL = "file"
# Schemes by which Hadoop and others reach the same store.
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs"}
_BUCKETS = frozenset({"s3", "gs", "abfss", "wasbs"})
# The container of a store on Azure stands where other addresses have a user.
_WITH_CONTAINER = frozenset({"abfss", "wasbs"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
# A signature; a question mark alone is a wildcard.
_PORT = re.compile(r"[^/]*:\d+(?:/|$)")
_QUERY = re.compile(r"\?[^/?]*=.*", re.DOTALL)
_DRIVER = re.compile(r"\+.*")
_PORTS = {"postgres": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521, "db2": 50000, "trino": 8080}
_DATABASES = {"postgresql": "postgres", "mariadb": "mysql", "sqlserver": "mssql"}
# Schemas that tables are in if the statement names none.
_SCHEMAS = {"postgres": "public", "mssql": "dbo"}
_ORACLE = re.compile(
    r"oracle:\w+:@/{0,2}(?P<host>[^:/@?;()]+)(?::(?P<port>\d+))?[:/](?P<service>[^?;]+)", re.IGNORECASE
)
_PROPERTY = re.compile(r"databaseName=([^;]*)", re.IGNORECASE)
_IDENTIFIER = r"""(?:[^\s.()'"`;,\[\]]+|"[^"]+"|`[^`]+`|\[[^\]]+\])"""
_TABLE = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER}){{0,2}}")
_UNKNOWN = ("database", "", "", "")
_SERVER = re.compile(r"(?:\w+://)?(?:[^@/?#]*@)?(?P<host>[\w.-]+|\[[\da-fA-F:]+\])(?P<port>:\d+)?/?")
_KAFKA_PORT = ":9092"


@dataclass(frozen=True, order=True)
class DatasetId:
    """A dataset outside of the pipeline, or a table of it by its place."""

    namespace: str
    name: str


def of_place(place: str) -> DatasetId:
    """The id of a path of a disk, or of a URI of a store."""
    found = _SCHEME.match(place)
    if found is None:
        return DatasetId(_LOCAL, _without_last_slash(place))
    scheme = found[1].casefold()
    rest = _QUERY.sub("", place[found.end() :])
    if not rest.startswith("//"):
        return DatasetId(scheme, _without_last_slash(rest))
    scheme = _SAME_STORE.get(scheme, scheme)
    authority, slash, path = _without_login(rest[2:], has_port=scheme not in _BUCKETS).partition("/")
    user, at, host = authority.rpartition("@")
    container = user.partition(":")[0] if scheme in _WITH_CONTAINER else ""
    namespace = f"{scheme}://{container}{at if container else ''}{host}" if host else scheme
    if scheme in _BUCKETS:
        return DatasetId(namespace, path.strip("/") or "/")
    return DatasetId(namespace, _without_last_slash(slash + path))


def of_topic(servers: str, topic: str) -> DatasetId:
    """The id of a topic; the first of the servers stands for all of them. What is no address is left out."""
    found = _SERVER.fullmatch(servers.split(",", maxsplit=1)[0].strip())
    host = f"{found['host']}{found['port'] or _KAFKA_PORT}" if found is not None else ""
    return DatasetId(f"kafka://{host}", topic)


def of_table(url: str, table: str) -> DatasetId:
    """The id of a table of a database, or of the database if *table* is a query.

    Args:
        url: of JDBC or SQLAlchemy.
        table: with or without its schema.
    """
    url = url.strip().removeprefix("jdbc:")
    kind, host, port, database = _oracle(url) or _database(url)
    if kind == "sqlite":
        return DatasetId(_LOCAL, f"{database}.{table}" if _TABLE.fullmatch(table.strip()) else database)
    port = port or str(_PORTS.get(kind, ""))
    namespace = f"{kind}://{host}{f':{port}' if port else ''}"
    names = [part.strip('"`[]') for part in re.findall(_IDENTIFIER, table)] if _TABLE.fullmatch(table.strip()) else []
    if len(names) == 1 and kind in _SCHEMAS:
        names = [_SCHEMAS[kind], *names]
    # A query may contain values, and is no name.
    parts = names if len(names) > 2 or not database else [database, *names]
    return DatasetId(namespace, ".".join(parts) or "/")


def _oracle(url: str) -> tuple[str, str, str, str] | None:
    found = _ORACLE.match(url)
    return None if found is None else ("oracle", found["host"], found["port"] or "", found["service"])


def _database(url: str) -> tuple[str, str, str, str]:
    """The kind, the host, the port and the database of a URL."""
    named = _PROPERTY.search(url)
    # SQL Server's properties follow a semicolon, with user and password among them.
    address = url.partition(";")[0]
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", str(parts.port or "")
    except ValueError:
        return _UNKNOWN
    if "@" in f"{parts.path}{parts.fragment}" or ("@" in parts.query and ":" in parts.netloc and not parts.path):
        # A password with characters that end a host.
        return _UNKNOWN
    kind = _DRIVER.sub("", parts.scheme.casefold())
    if kind == "sqlite":
        # Three slashes begin a path that may be relative.
        return kind, "", "", parts.path.removeprefix("/") if address.startswith("sqlite:///") else parts.path
    database = named[1] if named else unquote(parts.path).removeprefix("/")
    return (_DATABASES.get(kind, kind), host, port, database) if kind else _UNKNOWN


def _without_login(address: str, *, has_port: bool) -> str:
    """An address without user and password; secret keys may contain slashes."""
    login, at, rest = address.partition("@")
    is_login = at and ":" in login and not (has_port and _PORT.match(login))
    return rest if is_login else address


def _without_last_slash(path: str) -> str:
    return path.rstrip("/") or "/"
