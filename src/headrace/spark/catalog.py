"""The pipeline's tables in the session's catalog: empty stand-ins while resolving, then Delta tables by path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from pyspark.sql import DataFrame, SparkSession

from headrace.checkpoints.offsets import local_path
from headrace.errors import PipelineError
from headrace.events.views import event_log_expectations, event_log_flows, event_log_updates
from headrace.graph.resolved import ResolvedDataset
from headrace.model.names import InvalidName, Naming, QualifiedName, quoted, split_name, sql_text
from headrace.model.schema import Schema
from headrace.settings.storage import StorageLayout
from headrace.spark.delta_tables import build_table, struct_type
from headrace.sql.lexer import Kind, lex
from headrace.sql.rewrite import rewrite_names

EVENT_VIEWS = {
    "event_log_updates": event_log_updates,
    "event_log_flows": event_log_flows,
    "event_log_expectations": event_log_expectations,
}


@dataclass(frozen=True)
class SessionName:
    """How the session's own catalog knows a dataset; views have no database."""

    database: str | None
    table: str

    @property
    def text(self) -> str:
        """The name as SQL spells it."""
        return quoted(self.table) if self.database is None else quoted(self.database, self.table)

    @property
    def key(self) -> str:
        """What equality in the catalog goes by."""
        return f"{self.database or ''}.{self.table}".casefold()


class Catalog:
    """Names and tables of one pipeline in one session. Methods may be called from any thread."""

    def __init__(self, session: SparkSession, layout: StorageLayout, naming: Naming, stubs: Path) -> None:
        self.session = session
        self._layout = layout
        self._naming = naming
        self.stubs = stubs
        self._names: dict[QualifiedName, SessionName] = {}
        self._registered: dict[str, str] = {}
        self._lock = RLock()
        self._use_default_database()

    def know(self, names: Iterable[QualifiedName], views: Iterable[QualifiedName]) -> None:
        """Make the pipeline's names known, so that every spelling finds them."""
        without_database = set(views)
        for name in names:
            self._names[name] = self._session_name(name, view=name in without_database)

    def name_behind(self, session_text: str) -> QualifiedName | None:
        """The dataset that the session spells so (one or two parts), or None."""
        try:
            parts = split_name(session_text)
        except InvalidName:
            return None
        if len(parts) > 2:
            parts = parts[-2:]
        wanted = {".".join(("", *parts)[-2:]).casefold()}
        if len(parts) == 1:
            wanted.add(f"{self._naming.schema}.{parts[0]}".casefold())
        return next((name for name, session in self._names.items() if session.key in wanted), None)

    def spelled(self, text: str, naming: Naming) -> str:
        """A user's spelling of a table as the session's; unknown names are left as they are."""
        try:
            name = naming.canonical(text)
        except InvalidName:
            return text
        known = self._names.get(name)
        return known.text if known else text

    def spelled_query(self, text: str, naming: Naming) -> str:
        """A query with every spelling of the pipeline's names as the session's."""

        def session_text(name: QualifiedName) -> str | None:
            known = self._names.get(name)
            return known.text if known else None

        for token in lex(text).tokens:
            if token.kind is Kind.QUOTED and "/" in token.text:
                self.refuse_own(token.text.strip("`"))
        return rewrite_names(text, naming, session_text)

    def refuse_own(self, path: str) -> None:
        """Nothing, unless a path leads into a table of the pipeline.

        Raises:
            PipelineError: GRAPH.OWN_TABLE_BY_PATH.
        """
        place = Path(local_path(path)).resolve()
        for name in self._names:
            if place.is_relative_to(Path(self._layout.table(self._naming, name)).resolve()):
                raise PipelineError("GRAPH.OWN_TABLE_BY_PATH", name=name, path=path)

    def register_stub(self, name: QualifiedName, schema: Schema) -> None:
        """An empty Parquet table of this schema under the dataset's name; both batch and streaming reads resolve."""
        with self._lock:
            session_name = self._names[name]
            self._drop(session_name)
            self.stubs.mkdir(parents=True, exist_ok=True)
            self.session.catalog.createTable(
                session_name.text, path=str(self.stubs), source="parquet", schema=struct_type(schema)
            )
            self._registered[session_name.key] = "stub"

    def register_view(self, name: QualifiedName, frame: DataFrame) -> None:
        """A temporary view over a frame."""
        with self._lock:
            frame.createOrReplaceTempView(self._names[name].table)

    def register_table(self, dataset: ResolvedDataset) -> None:
        """The dataset's Delta table under its name; made as declared when it is not there."""
        with self._lock:
            path = self._layout.table(self._naming, dataset.name)
            if (Path(path) / "_delta_log").is_dir():
                self.register_path(dataset.name, path)
            else:
                session_name = self._names[dataset.name]
                self._drop(session_name)
                build_table(self.session, "createIfNotExists", session_name.text, dataset, path)
                self._registered[session_name.key] = path

    def replace_table(self, dataset: ResolvedDataset) -> None:
        """A new, empty version of the dataset's table: schema, properties and layout as declared now, one commit."""
        with self._lock:
            path = self._layout.table(self._naming, dataset.name)
            # Delta replaces what the catalog has under the name; what it only finds at the path, it keeps.
            self.register_path(dataset.name, path)
            build_table(self.session, "createOrReplace", self._names[dataset.name].text, dataset, path)

    def clear(self) -> None:
        """Take every name out of the session's catalog, if the catalog is in memory and so holds nothing else."""
        session = self.session
        if session.conf.get("spark.sql.catalogImplementation") != "in-memory":
            return
        for database in session.catalog.listDatabases():
            for table in session.catalog.listTables(database.name):
                if table.isTemporary:
                    session.catalog.dropTempView(table.name)
                else:
                    # Tables are external: the name goes, the data stays.
                    session.sql(f"DROP TABLE IF EXISTS {quoted(database.name, table.name)}")

    def describe_table(self, name: QualifiedName, properties: Iterable[tuple[str, str]], comment: str | None) -> None:
        """Set properties and the comment of a registered table."""
        text = self._names[name].text
        listed = ", ".join(f"{sql_text(key)} = {sql_text(value)}" for key, value in properties)
        if listed:
            self.session.sql(f"ALTER TABLE {text} SET TBLPROPERTIES ({listed})")
        if comment is not None:
            self.session.sql(f"COMMENT ON TABLE {text} IS {sql_text(comment)}")

    def register_event_views(self, path: str) -> None:
        """The event log as a table ``event_log``, and flat views over it."""
        if not (Path(path) / "_delta_log").is_dir():
            return
        name = SessionName(self._naming.schema, "event_log")
        with self._lock:
            self._drop(name)
            self.session.catalog.createTable(name.text, path=path, source="delta")
            for view, text in EVENT_VIEWS.items():
                self.session.sql(text(name.text)).createOrReplaceTempView(view)

    def register_path(self, name: QualifiedName, path: str) -> None:
        """A Delta table that is there, under the dataset's name."""
        with self._lock:
            session_name = self._names[name]
            if self._registered.get(session_name.key) == path:
                return
            self._drop(session_name)
            self.session.catalog.createTable(session_name.text, path=path, source="delta")
            self._registered[session_name.key] = path

    def _drop(self, name: SessionName) -> None:
        if name.key in self._registered or self.session.catalog.tableExists(name.text):
            # An external table: dropping it takes the name away and leaves the data.
            self.session.sql(f"DROP TABLE IF EXISTS {name.text}")
            self._registered.pop(name.key, None)

    def _session_name(self, name: QualifiedName, *, view: bool) -> SessionName:
        if view:
            return SessionName(None, str(name).replace(".", "__"))
        schema = name.schema or self._naming.schema
        database = schema if name.catalog is None else f"{name.catalog}__{schema}"
        self._make_database(database)
        return SessionName(database, name.name)

    def _use_default_database(self) -> None:
        self._make_database(self._naming.schema)
        self.session.catalog.setCurrentDatabase(self._naming.schema)

    def _make_database(self, database: str) -> None:
        if not self.session.catalog.databaseExists(database):
            self.session.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
