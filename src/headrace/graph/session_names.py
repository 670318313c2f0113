"""The names of a pipeline's datasets in the session's catalog, which has two parts at most."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.names import Naming, QualifiedName, quoted


@dataclass(frozen=True)
class SessionName:
    """The name of a dataset in the session's catalog. Views have no database."""

    database: str | None
    table: str

    @property
    def text(self) -> str:
        """The quoted name for SQL."""
        return quoted(self.table) if self.database is None else quoted(self.database, self.table)

    @property
    def key(self) -> str:
        """The key by which the catalog compares names."""
        return f"{self.database or ''}.{self.table}".casefold()


def session_name(naming: Naming, name: QualifiedName, *, view: bool) -> SessionName:
    """The session's name of a dataset; two datasets of a valid graph never share one."""
    if view:
        return SessionName(None, str(name).replace(".", "__"))
    schema = name.schema or naming.schema
    return SessionName(schema if name.catalog is None else f"{name.catalog}__{schema}", name.name)
