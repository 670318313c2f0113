"""Tables and schemas of a notebook session, found under every spelling and again in the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.delta_log.tables import table_exists
from headrace.errors import PipelineError
from headrace.graph.session_names import session_name
from headrace.model.names import Naming, QualifiedName, quoted, split_name, sql_text
from headrace.settings.storage import StorageLayout
from headrace.spark.notebook.identifiers import RESERVED_SCHEMAS, Identifiers
from headrace.spark.notebook.managed_tables import register_managed, tables_below, unregister
from headrace.spark.session import catalog_entries
from headrace.sql.rewrite import rewrite_names
from headrace.storage.inventory import flows_of, stored_flows, stored_tables


class TableLookup:
    """The tables of one storage, by name.

    A schema is created when something is written to it. A table in the storage is found by its name, whatever created
    it.
    """

    def __init__(self, session: SparkSession, layout: StorageLayout, naming: Naming) -> None:
        self._session = session
        self._layout = layout
        self._defaults = naming
        self._identifiers = Identifiers(naming)
        # Schemas that are known to have their location in the storage.
        self._made: set[str] = set()

    def register_all(self) -> None:
        """Register every table of the storage in the session's catalog, and create new ones in the storage."""
        self._make_schema(self._identifiers.in_schema())
        for name, path in stored_tables(self._layout, self._defaults):
            self._register(name, path)

    def unregister_all(self) -> None:
        """Remove the storage's tables from the session's catalog, without deleting them."""
        for name in tables_below(self._session, self._layout.root):
            unregister(self._session, name)

    def use(self, *, catalog: str | None = None, schema: str | None = None) -> None:
        """Set the current catalog or schema."""
        self._identifiers.use(catalog=catalog, schema=schema)
        _catalog(self._session).setCurrentDatabase(self._make_schema(self._identifiers.in_schema()))

    def use_schema(self, text: str) -> None:
        """Set the current schema, given in one or two parts."""
        parts = split_name(text)
        self.use(catalog=parts[-2] if len(parts) > 1 else None, schema=parts[-1])

    def resolve_for_read(self, text: str) -> str:
        """The name in the session's catalog of a table to read."""
        name = self._identifiers.table(text)
        if name is None:
            return text
        self._find(name)
        parts = len(split_name(text))
        return text if parts == 1 or (parts == 2 and name.catalog is None) else self._identifiers.text(name)

    def resolve_for_write(self, text: str) -> str:
        """The name in the session's catalog of a table to write; creates its schema.

        Raises:
            PipelineError: SCRIPT.PIPELINES_TABLE, if the pipeline writes it.
        """
        name = self._identifiers.table(text)
        if name is None:
            return text
        if flows_of(self._layout, self._defaults, name):
            raise PipelineError("SCRIPT.PIPELINES_TABLE", name=name)
        self._make_schema(name)
        return self.resolve_for_read(text)

    def resolve_query(self, text: str) -> str:
        """A statement with the names of existing tables resolved to those in the session's catalog."""

        def known(name: QualifiedName) -> str | None:
            here = self._identifiers.in_default_catalog(name)
            if name.catalog is None:
                # Spark resolves the name itself once the table is registered.
                self._is_stored(here)
                return None
            return self._identifiers.text(here) if self._find(here) else None

        return rewrite_names(text, self._identifiers.naming, known)

    def schema_text(self, text: str) -> str:
        """The name in the session's catalog of a schema given in one or two parts."""
        return quoted(self._identifiers.schema(self._identifiers.in_schema(text)))

    def make_schema(self, text: str) -> bool:
        """Create a schema; False if it exists."""
        some = self._identifiers.in_schema(text)
        if _catalog(self._session).databaseExists(self._identifiers.schema(some)):
            return False
        self._make_schema(some)
        return True

    def unregister_schema(self, text: str) -> None:
        """Prepare for a schema to be dropped.

        Raises:
            PipelineError: SCRIPT.PIPELINES_TABLE, if the pipeline writes one of its tables.
        """
        schema = self._identifiers.schema(self._identifiers.in_schema(text))
        for flow in stored_flows(self._layout, self._defaults):
            if self._identifiers.schema(flow.dataset).casefold() == schema.casefold():
                raise PipelineError("SCRIPT.PIPELINES_TABLE", name=flow.dataset)
        self._made.discard(schema)

    def _find(self, name: QualifiedName) -> bool:
        """True when a table or view exists, in the session or in the storage; registers it in the session."""
        return _catalog(self._session).tableExists(self._identifiers.text(name)) or self._is_stored(name)

    def _is_stored(self, name: QualifiedName) -> bool:
        """True when the storage has a table; registers it in the session."""
        path = self._layout.table(self._defaults, name)
        if not table_exists(path):
            return False
        self._register(name, path)
        return True

    def _make_schema(self, name: QualifiedName) -> str:
        """Create the schema of a table with its location in the storage; returns its name in the session's catalog."""
        schema = self._identifiers.schema(name)
        if schema.casefold() in RESERVED_SCHEMAS or schema in self._made:
            return schema
        location = sql_text(str(Path(self._layout.table(self._defaults, name)).parent))
        exists = _catalog(self._session).databaseExists(schema)
        text = (
            f"ALTER DATABASE {quoted(schema)} SET LOCATION" if exists else f"CREATE DATABASE {quoted(schema)} LOCATION"
        )
        self._session._jsparkSession.sql(f"{text} {location}")  # noqa: SLF001 - Python's own is one of our patches
        self._made.add(schema)
        return schema

    def _register(self, name: QualifiedName, path: str) -> None:
        known = session_name(self._defaults, name, view=False)
        self._make_schema(name)
        if _catalog(self._session).tableExists(known.text):
            return
        owned = bool(flows_of(self._layout, self._defaults, name))
        register_managed(self._session, known, path, managed=not owned)
        if owned:
            catalog_entries.register(self._session, known, path)


def _catalog(session: SparkSession) -> Any:
    # Python's own methods are among our patches.
    return session._jsparkSession.catalog()  # noqa: SLF001 - see above
