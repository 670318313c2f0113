"""Tables and schemas of a ready session: every spelling finds them, and they are the same ones in the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.delta_log.tables import is_made
from headrace.errors import PipelineError
from headrace.graph.session_names import session_name
from headrace.model.names import Naming, QualifiedName, quoted, split_name, sql_text
from headrace.settings.storage import StorageLayout
from headrace.spark.notebook.identifiers import NOT_OURS, Spelling
from headrace.spark.notebook.managed_tables import register_managed, tables_below, unregister
from headrace.spark.session import catalog_entries
from headrace.sql.rewrite import rewrite_names
from headrace.storage.inventory import flows_of, stored_flows, stored_tables


class TableLookup:
    """The tables below one storage, by name.

    A schema is made when something is written to it; a table that is in the storage is found by its name, whoever
    made it and whenever.
    """

    def __init__(self, session: SparkSession, layout: StorageLayout, naming: Naming) -> None:
        self._session = session
        self._layout = layout
        self._defaults = naming
        self._spelling = Spelling(naming)
        # Schemas whose tables are known to be made in the storage.
        self._made: set[str] = set()

    def register_all(self) -> None:
        """Put every table of the storage into the session's catalog, and let new ones be made in the storage."""
        self._make_schema(self._spelling.in_schema())
        for name, path in stored_tables(self._layout, self._defaults):
            self._register(name, path)

    def forget(self) -> None:
        """Take the tables of the storage out of the session's catalog; they stay where they are."""
        for name in tables_below(self._session, self._layout.root):
            unregister(self._session, name)

    def use(self, *, catalog: str | None = None, schema: str | None = None) -> None:
        """Read names without a catalog or a schema in other ones."""
        self._spelling.use(catalog=catalog, schema=schema)
        _catalog(self._session).setCurrentDatabase(self._make_schema(self._spelling.in_schema()))

    def use_schema(self, text: str) -> None:
        """Read names without a schema in this one, of one or two parts."""
        parts = split_name(text)
        self.use(catalog=parts[-2] if len(parts) > 1 else None, schema=parts[-1])

    def reading(self, text: str) -> str:
        """The session's spelling of a table that is read."""
        name = self._spelling.table(text)
        if name is None:
            return text
        self._find(name)
        parts = len(split_name(text))
        return text if parts == 1 or (parts == 2 and name.catalog is None) else self._spelling.text(name)

    def writing(self, text: str) -> str:
        """The session's spelling of a table that is written, whose schema is there from now on.

        Raises:
            PipelineError: SCRIPT.PIPELINES_TABLE, where the pipeline writes it.
        """
        name = self._spelling.table(text)
        if name is None:
            return text
        if flows_of(self._layout, self._defaults, name):
            raise PipelineError("SCRIPT.PIPELINES_TABLE", name=name)
        self._make_schema(name)
        return self.reading(text)

    def reading_query(self, text: str) -> str:
        """A statement with every spelling of tables that are there as the session's."""

        def known(name: QualifiedName) -> str | None:
            here = self._spelling.at_home(name)
            if name.catalog is None:
                # Spark knows the name, once the table is registered.
                self._is_stored(here)
                return None
            return self._spelling.text(here) if self._find(here) else None

        return rewrite_names(text, self._spelling.naming, known)

    def schema_text(self, text: str) -> str:
        """The session's spelling of a schema of one or two parts."""
        return quoted(self._spelling.schema(self._spelling.in_schema(text)))

    def make_schema(self, text: str) -> bool:
        """Let a schema be there; False when it was there already."""
        some = self._spelling.in_schema(text)
        if _catalog(self._session).databaseExists(self._spelling.schema(some)):
            return False
        self._make_schema(some)
        return True

    def dropping_schema(self, text: str) -> None:
        """Forget that a schema is there.

        Raises:
            PipelineError: SCRIPT.PIPELINES_TABLE, where the pipeline writes one of its tables.
        """
        schema = self._spelling.schema(self._spelling.in_schema(text))
        for flow in stored_flows(self._layout, self._defaults):
            if self._spelling.schema(flow.dataset).casefold() == schema.casefold():
                raise PipelineError("SCRIPT.PIPELINES_TABLE", name=flow.dataset)
        self._made.discard(schema)

    def _find(self, name: QualifiedName) -> bool:
        """True when there is such a table or view, in the session or only in the storage; it is in both then."""
        return _catalog(self._session).tableExists(self._spelling.text(name)) or self._is_stored(name)

    def _is_stored(self, name: QualifiedName) -> bool:
        """True when the storage has such a table, which is in the session then."""
        path = self._layout.table(self._defaults, name)
        if not is_made(path):
            return False
        self._register(name, path)
        return True

    def _make_schema(self, name: QualifiedName) -> str:
        """Let the schema of a table be there, with its place in the storage; returns the session's name of it."""
        schema = self._spelling.schema(name)
        if schema.casefold() in NOT_OURS or schema in self._made:
            return schema
        place = sql_text(str(Path(self._layout.table(self._defaults, name)).parent))
        there = _catalog(self._session).databaseExists(schema)
        text = (
            f"ALTER DATABASE {quoted(schema)} SET LOCATION" if there else f"CREATE DATABASE {quoted(schema)} LOCATION"
        )
        self._session._jsparkSession.sql(f"{text} {place}")  # noqa: SLF001 - Python's own is one of our patches
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
            catalog_entries.note(self._session, known, path)


def _catalog(session: SparkSession) -> Any:
    # Python's own methods are among our patches.
    return session._jsparkSession.catalog()  # noqa: SLF001 - see above
