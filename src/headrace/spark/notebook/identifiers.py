"""What the names of a script mean, and how the session's catalog, which knows two parts at most, spells them."""

from __future__ import annotations

from headrace.graph.session_names import session_name
from headrace.model.names import InvalidName, Naming, QualifiedName, check_part, quoted, split_name

# The vendor's name for the catalog that a workspace has of itself.
_LEGACY_CATALOG = "hive_metastore"
# Schemas that no script makes, and formats that stand in front of a path.
NOT_OURS = frozenset(("global_temp", "information_schema", "system", "delta", "parquet"))


class Spelling:
    """The names of a script, by a default catalog and schema, and those that USE has put in force."""

    def __init__(self, defaults: Naming) -> None:
        self._defaults = defaults
        self.naming = defaults

    def use(self, *, catalog: str | None, schema: str | None) -> None:
        """Read names without a catalog, or without a schema, in these; None keeps what is in force."""
        if catalog is not None and catalog.casefold() == _LEGACY_CATALOG:
            catalog = "spark_catalog"
        # Another catalog has a schema of its own.
        naming = self.naming if catalog is None else self._defaults
        self.naming = naming.use(catalog=catalog, schema=schema)

    def table(self, text: str) -> QualifiedName | None:
        """The table behind a spelling; None for a path and what else is no name of a table."""
        try:
            name = self.at_home(self.naming.canonical(text))
        except InvalidName:
            return None
        return None if (name.schema or "").casefold() in NOT_OURS else name

    def at_home(self, name: QualifiedName) -> QualifiedName:
        """The table of the own catalog behind one of the vendor's legacy catalog; any other as it is."""
        if (name.catalog or "").casefold() != _LEGACY_CATALOG:
            return name
        return self._defaults.canonical(quoted(name.schema or self._defaults.schema, name.name))

    def in_schema(self, text: str | None = None) -> QualifiedName:
        """Some table of a schema of one or two parts, or of the one in force, for the schema's sake.

        Raises:
            InvalidName: the text is no name.
        """
        parts = split_name(text) if text is not None else ()
        for part in parts:
            check_part(part)
        kept = parts[1:] if len(parts) == 2 and parts[0].casefold() == _LEGACY_CATALOG else parts
        return self.naming.canonical(".".join((*map(quoted, kept), "x")))

    def text(self, name: QualifiedName) -> str:
        """The session's spelling of a table."""
        return session_name(self._defaults, name, view=False).text

    def schema(self, name: QualifiedName) -> str:
        """The session's name of the schema that a table is in."""
        return str(session_name(self._defaults, name, view=False).database)
