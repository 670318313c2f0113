"""Resolves the names of a script, and their forms in the session's catalog, which supports at most two parts."""

from __future__ import annotations

from headrace.graph.session_names import session_name
from headrace.model.names import InvalidName, Naming, QualifiedName, check_part, quoted, split_name

# The vendor's name for a workspace's own catalog.
_LEGACY_CATALOG = "hive_metastore"
# Schemas that no script creates, and formats that precede a path.
RESERVED_SCHEMAS = frozenset(("global_temp", "information_schema", "system", "delta", "parquet"))


class Identifiers:
    """Resolves the names of a script with a default catalog and schema, or those set by USE."""

    def __init__(self, defaults: Naming) -> None:
        self._defaults = defaults
        self.naming = defaults

    def use(self, *, catalog: str | None, schema: str | None) -> None:
        """Set the current catalog and schema; None keeps the current one."""
        if catalog is not None and catalog.casefold() == _LEGACY_CATALOG:
            catalog = "spark_catalog"
        # Another catalog has its own default schema.
        naming = self.naming if catalog is None else self._defaults
        self.naming = naming.use(catalog=catalog, schema=schema)

    def table(self, text: str) -> QualifiedName | None:
        """The table that a text names; None for a path or anything else that is not a table name."""
        try:
            name = self.in_default_catalog(self.naming.canonical(text))
        except InvalidName:
            return None
        return None if (name.schema or "").casefold() in RESERVED_SCHEMAS else name

    def in_default_catalog(self, name: QualifiedName) -> QualifiedName:
        """A table of the vendor's legacy catalog, moved to the default catalog; any other unchanged."""
        if (name.catalog or "").casefold() != _LEGACY_CATALOG:
            return name
        return self._defaults.canonical(quoted(name.schema or self._defaults.schema, name.name))

    def in_schema(self, text: str | None = None) -> QualifiedName:
        """A placeholder table in a schema of one or two parts, or in the current one.

        Raises:
            InvalidName: the text is not a name.
        """
        parts = split_name(text) if text is not None else ()
        for part in parts:
            check_part(part)
        kept = parts[1:] if len(parts) == 2 and parts[0].casefold() == _LEGACY_CATALOG else parts
        return self.naming.canonical(".".join((*map(quoted, kept), "x")))

    def text(self, name: QualifiedName) -> str:
        """The name of a table in the session's catalog."""
        return session_name(self._defaults, name, view=False).text

    def schema(self, name: QualifiedName) -> str:
        """The name of a table's schema in the session's catalog."""
        return str(session_name(self._defaults, name, view=False).database)
