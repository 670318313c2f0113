"""The pipeline's tables in the session's catalog: empty stand-ins while resolving, then Delta tables by path."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from threading import RLock

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headrace.delta_log.tables import is_made
from headrace.events.views import VIEWS
from headrace.graph.new_tables import as_made
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.session_names import SessionName
from headrace.model.names import Naming, QualifiedName, quoted
from headrace.model.schema import Schema
from headrace.settings.storage import StorageLayout
from headrace.spark.delta.clear import clear_table
from headrace.spark.delta.fencing import of_term
from headrace.spark.delta.first_commit import make_plain_table, plain
from headrace.spark.delta.tables import build_table, clear_drafts, make_stub, struct_type
from headrace.spark.session import catalog_entries
from headrace.spark.update.dataset_names import Names

_DEFAULTS = "spark.databricks.delta.properties.defaults."


class Catalog:
    """Tables of one pipeline in one session. Methods may be called from any thread."""

    def __init__(self, session: SparkSession, layout: StorageLayout, naming: Naming, stubs: Path) -> None:
        self.session = session
        self._layout = layout
        self._naming = naming
        self.stubs = stubs
        self.names = Names(layout, naming)
        self._registered: dict[str, str] = {}
        # Datasets that the update clears, and flows whose schemas were inferred anew since.
        self.cleared: frozenset[QualifiedName] = frozenset()
        self.inferred = set[str]()
        # Datasets whose tables say that they map no names of columns.
        self.unmapped: frozenset[QualifiedName] = frozenset()
        self._lock = RLock()
        self._make_database(naming.schema)
        session.catalog.setCurrentDatabase(naming.schema)

    def know(self, names: Iterable[QualifiedName], views: Iterable[QualifiedName]) -> None:
        """Make the pipeline's names known, so that every spelling finds them and nothing else.

        A temporary view that the session has under the name of one of the *views* is taken out: a query that reads the
        pipeline's before it is resolved would be resolved with the other one.
        """
        views = tuple(views)
        self.names.know(names, views)
        taken = {self.names.of(name).table.casefold() for name in views}
        for view in catalog_entries.temporary_views(self.session):
            if view.casefold() in taken:
                self.session.catalog.dropTempView(view)
        for database in self.names.databases:
            self._make_database(database)

    def auto_loader_folder(self, dataset: QualifiedName, flow: str) -> Path:
        """Where a flow, or a view, keeps what it knows of the files that it reads."""
        return Path(self._layout.auto_loader(self._naming, dataset, flow))

    def register_stub(self, name: QualifiedName, schema: Schema) -> None:
        """An empty Parquet table of this schema under the dataset's name; both batch and streaming reads resolve."""
        with self._lock:
            session_name = self.names.of(name)
            create = partial(make_stub, self.session, session_name.text, struct_type(schema), self.stubs)
            try:
                create()
            except AnalysisException as error:
                # Asking first would cost as much as making it.
                if not (error.getCondition() or "").endswith("ALREADY_EXISTS"):
                    raise
                self._drop(session_name)
                create()
            self._note(session_name, str(self.stubs))

    def register_view(self, name: QualifiedName, frame: DataFrame) -> None:
        """A temporary view over a frame."""
        with self._lock:
            session_name = self.names.of(name)
            frame.createOrReplaceTempView(session_name.table)
            catalog_entries.note(self.session, session_name)

    def register_table(self, dataset: ResolvedDataset) -> None:
        """The dataset's Delta table under its name; made as declared when it is not there."""
        with self._lock:
            path = self._layout.table(self._naming, dataset.name)
            dataset = as_made(dataset, self._defaults)
            if is_made(path) or self._made_plain(dataset, path):
                self.register_path(dataset.name, path)
            else:
                session_name = self.names.of(dataset.name)
                self._drop(session_name)
                build_table(self.session, "createIfNotExists", session_name.text, dataset, path)
                self._note(session_name, path)

    def _made_plain(self, dataset: ResolvedDataset, path: str) -> bool:
        """True when the table was made without Spark; what lies in its way is for Delta to name."""
        clear_drafts(path)
        folder = Path(path)
        if (folder.is_dir() and any(folder.iterdir())) or not plain(dataset, self._defaults):
            return False
        return make_plain_table(path, dataset, self._defaults, int(time.time() * 1000), str(uuid.uuid4()))

    @cached_property
    def _defaults(self) -> dict[str, str]:
        """Properties that the session gives to new tables."""
        confs = self.session.conf.getAll
        return {f"delta.{k[len(_DEFAULTS) :]}": v for k, v in confs.items() if k.startswith(_DEFAULTS)}

    def replace_table(self, dataset: ResolvedDataset, term: int | None) -> None:
        """A new, empty version of the dataset's table: schema, properties and layout as declared now, one commit.

        Nothing is done once a holder of the lease with a number above *term* has done it.
        """
        with self._lock:
            path = self._layout.table(self._naming, dataset.name)
            if not is_made(path):
                self.register_table(dataset)
                return
            # Delta replaces what the catalog has under the name; what it only finds at the path, it keeps.
            self.register_path(dataset.name, path)
            made = as_made(dataset, self._defaults)
            clear_table(self.session, self.names.of(dataset.name).text, made, path, of_term(term, "clearing"))

    def forget(self, names: Iterable[QualifiedName]) -> None:
        """Take names out of the catalog, and out of what is known; the data stays."""
        with self._lock:
            for name in names:
                self._drop(self.names.of(name))
                self.names.forget(name)

    def register_event_views(self, path: str) -> None:
        """The event log as a table ``event_log``, and flat views over it."""
        if not (Path(path) / "_delta_log").is_dir():
            return
        name = SessionName(self._naming.schema, "event_log")
        with self._lock:
            self._drop(name)
            self.session.catalog.createTable(name.text, path=path, source="delta")
            self._note(name, path)
            for view, text in VIEWS.items():
                self.session.sql(text(name.text)).createOrReplaceTempView(view)
                catalog_entries.note(self.session, SessionName(None, view))

    def register_path(self, name: QualifiedName, path: str) -> None:
        """A Delta table that is there, under its name, be it a dataset of the pipeline or not."""
        with self._lock:
            session_name = self.names.of(name)
            if session_name.database not in (None, *self.names.databases):
                self._make_database(str(session_name.database))
            if self._registered.get(session_name.key) == path:
                return
            self._drop(session_name)
            self.session.catalog.createTable(session_name.text, path=path, source="delta")
            self._note(session_name, path)

    def _note(self, name: SessionName, path: str) -> None:
        self._registered[name.key] = path
        catalog_entries.note(self.session, name, path)

    def _drop(self, name: SessionName) -> None:
        catalog_entries.drop(self.session, name, (Path(self._layout.root), self.stubs))
        self._registered.pop(name.key, None)

    def _make_database(self, database: str) -> None:
        if not self.session.catalog.databaseExists(database):
            self.session.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
