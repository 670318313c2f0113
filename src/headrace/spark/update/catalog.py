"""The pipeline's tables in the session's catalog: empty stubs during resolution, then Delta tables by path."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from threading import RLock

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headrace.delta_log.tables import table_exists
from headrace.graph.new_tables import with_default_properties
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.session_names import SessionName
from headrace.model.names import Naming, QualifiedName, quoted
from headrace.model.schema import Schema
from headrace.settings.staged_layout import outer_root
from headrace.settings.storage import StorageLayout
from headrace.spark.delta.clear import clear_table
from headrace.spark.delta.fencing import fencing_options
from headrace.spark.delta.first_commit import NewTable, make_plain_table
from headrace.spark.delta.tables import build_table, make_stub, struct_type
from headrace.spark.session import catalog_entries
from headrace.spark.session.own_tables import keep_apart, registering
from headrace.spark.update.dataset_names import Names
from headrace.stores.paths import StoragePath, storage_path

_DEFAULTS = "spark.databricks.delta.properties.defaults."


class Catalog:
    """Tables of one pipeline in one session. Methods may be called from any thread."""

    def __init__(self, session: SparkSession, layout: StorageLayout, naming: Naming, stubs: StoragePath) -> None:
        self.session = session
        self._layout = layout
        self._naming = naming
        self.stubs = stubs
        self.names = Names(layout, naming)
        self._registered: dict[str, str] = {}
        # Datasets that the update clears, and flows whose schemas were inferred again since then.
        self.cleared: frozenset[QualifiedName] = frozenset()
        self.inferred = set[str]()
        # Datasets that disable column mapping.
        self.unmapped: frozenset[QualifiedName] = frozenset()
        self._lock = RLock()
        keep_apart(session, stubs)
        self._make_database(naming.schema)
        session.catalog.setCurrentDatabase(naming.schema)

    def register_names(self, names: Iterable[QualifiedName], views: Iterable[QualifiedName]) -> None:
        """Register the pipeline's names, so that every spelling finds its dataset and nothing else.

        Drops temporary views of the session with the name of one of the *views*: otherwise a query that reads the
        pipeline's view before it is resolved would read the other one.
        """
        views = tuple(views)
        self.names.add(names, views)
        taken = {self.names.of(name).table.casefold() for name in views}
        for view in catalog_entries.temporary_views(self.session):
            if view.casefold() in taken:
                self.session.catalog.dropTempView(view)
        for database in self.names.databases:
            self._make_database(database)

    def auto_loader_folder(self, dataset: QualifiedName, flow: str) -> StoragePath:
        """The folder in which a flow or a view stores its Auto Loader state."""
        return storage_path(self._layout.auto_loader(self._naming, dataset, flow))

    def register_stub(self, name: QualifiedName, schema: Schema) -> None:
        """Register an empty Parquet table of this schema, which batch and streaming reads can resolve."""
        with self._registering():
            session_name = self.names.of(name)
            create = partial(make_stub, self.session, session_name.text, struct_type(schema), self.stubs)
            try:
                create()
            except AnalysisException as error:
                # Checking first would cost as much as creating it.
                if not (error.getCondition() or "").endswith("ALREADY_EXISTS"):
                    raise
                self._drop(session_name)
                create()
            self._record_registration(session_name, str(self.stubs))

    def register_view(self, name: QualifiedName, frame: DataFrame) -> None:
        """Register a temporary view over a frame."""
        with self._registering():
            session_name = self.names.of(name)
            frame.createOrReplaceTempView(session_name.table)
            catalog_entries.register(self.session, session_name)

    def register_table(self, dataset: ResolvedDataset) -> None:
        """Register the dataset's Delta table. Create it as declared if it does not exist."""
        with self._registering():
            path = self._layout.table(self._naming, dataset.name)
            dataset = with_default_properties(dataset, self.default_properties)
            if table_exists(path) or self._create_plain_table(dataset, path):
                self.register_path(dataset.name, path)
            else:
                session_name = self.names.of(dataset.name)
                self._drop(session_name)
                build_table(self.session, "createIfNotExists", session_name.text, dataset, path)
                self._record_registration(session_name, path)

    def _create_plain_table(self, dataset: ResolvedDataset, path: str) -> bool:
        """Create the table without Spark if possible; True if it was."""
        table = NewTable.of(dataset, self.default_properties)
        return make_plain_table(path, table, int(time.time() * 1000), str(uuid.uuid4()))

    @cached_property
    def default_properties(self) -> dict[str, str]:
        """Default properties of the session for new tables."""
        confs = self.session.conf.getAll
        return {f"delta.{k[len(_DEFAULTS) :]}": v for k, v in confs.items() if k.startswith(_DEFAULTS)}

    def replace_table(self, dataset: ResolvedDataset, fencing_token: int | None) -> None:
        """Replace the dataset's table by an empty version as declared (schema, properties, layout), in one commit.

        Does nothing if a holder of the lease with a higher *fencing_token* has done it.
        """
        with self._registering():
            path = self._layout.table(self._naming, dataset.name)
            if not table_exists(path):
                self.register_table(dataset)
                return
            # Delta replaces a table that the catalog has under the name, but keeps one that it only finds at the path.
            self.register_path(dataset.name, path)
            made = with_default_properties(dataset, self.default_properties)
            clear_table(
                self.session, self.names.of(dataset.name).text, made, path, fencing_options(fencing_token, "clearing")
            )

    def unregister(self, names: Iterable[QualifiedName]) -> None:
        """Remove names from the catalog and from the registered names. The data stays."""
        with self._registering():
            for name in names:
                self._drop(self.names.of(name))
                self.names.remove(name)

    def register_path(self, name: QualifiedName, path: str) -> None:
        """Register an existing Delta table under a name, whether or not it is a dataset of the pipeline."""
        with self._registering():
            session_name = self.names.of(name)
            if session_name.database not in (None, *self.names.databases):
                self._make_database(str(session_name.database))
            if self._registered.get(session_name.key) == path:
                return
            self._drop(session_name)
            self.session.catalog.createTable(session_name.text, path=path, source="delta")
            self._record_registration(session_name, path)

    def _record_registration(self, name: SessionName, path: str) -> None:
        self._registered[name.key] = path
        catalog_entries.register(self.session, name, path)

    def _drop(self, name: SessionName) -> None:
        catalog_entries.drop(self.session, name, (storage_path(outer_root(self._layout)), self.stubs))
        self._registered.pop(name.key, None)

    def _make_database(self, database: str) -> None:
        if not self.session.catalog.databaseExists(database):
            with registering(self.session):
                self.session.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")

    @contextmanager
    def _registering(self) -> Iterator[None]:
        with self._lock, registering(self.session):
            yield
