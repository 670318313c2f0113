"""Resolves a project's files into a graph, with its session."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import SparkSession

from headrace.cdc.snapshot_versions import SnapshotState
from headrace.errors import PipelineError, Problems
from headrace.graph.build import build
from headrace.graph.new_tables import maps_names
from headrace.graph.resolve import StoredSchema, resolve
from headrace.graph.resolved import ResolvedGraph
from headrace.model.datasets import Definitions, Flow, Kind, SqlQuery
from headrace.model.hooks import EventHook
from headrace.model.names import QualifiedName
from headrace.model.views import ViewDefinition
from headrace.project.files import load_files
from headrace.project.load_result import LoadResult
from headrace.project.scratch import scratch
from headrace.project.test_harness import Harness
from headrace.project.worker_modules import ship_modules, source_modules
from headrace.settings.dbutils import DbUtils
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.settings.sources import source_files
from headrace.settings.vendor_confs import to_open_source_confs
from headrace.spark.analyzer import StubAnalyzer
from headrace.spark.notebook.notebook_session import release_tables
from headrace.spark.readers import auto_loader
from headrace.spark.session.catalog_entries import clear
from headrace.spark.session.listeners import remove_listeners
from headrace.spark.startup.open_session import open_session
from headrace.spark.update.catalog import Catalog
from headrace.storage.inventory import foreign_tables

# Finds the datasets of a project that lose their rows.
Cleared: TypeAlias = Callable[[Definitions], "frozenset[QualifiedName]"]


@dataclass(frozen=True)
class Resolved:
    """A resolved project: its session, names and graph.

    ``notices`` are reported once per update, each with its code; ``hooks`` receive its events.
    """

    catalog: Catalog
    graph: ResolvedGraph
    notices: tuple[tuple[str, str], ...] = ()
    hooks: tuple[EventHook, ...] = ()


@dataclass(frozen=True)
class ResolveRequest:
    """A request to resolve a project.

    Attributes:
        kept_schema: finds the schemas of tables that keep their rows.
        cleared: finds the datasets that lose their rows, so that the schemas of their inputs are inferred again.
        known: known problems, reported together with new ones.
        skip_unavailable: skip flows whose sources are unavailable, instead of raising.
        snapshot_state: finds the snapshots that flows have processed.
    """

    kept_schema: StoredSchema
    cleared: Cleared = lambda _definitions: frozenset()
    known: tuple[PipelineError, ...] = ()
    skip_unavailable: bool = False
    snapshot_state: Callable[[Flow], SnapshotState] = lambda _flow: SnapshotState()


class Resolver:
    """Opens the session of a project and resolves its files, from scratch each time."""

    def __init__(self, settings: Settings, secrets: Secrets, environ: Mapping[str, str], harness: Harness) -> None:
        self._settings = settings
        self._harness = harness
        self._secrets = secrets
        self._environ = environ

    def catalog(self) -> Catalog:
        """The session's catalog, without entries of other projects."""
        settings = self._settings
        confs = dict(settings.resolved_spark_conf(self._secrets, self._environ))
        if settings.master:
            confs["spark.master"] = settings.master
        configuration = settings.resolved_configuration(self._secrets, self._environ)
        confs |= {key: value for key, value in configuration.items() if not key.startswith("pipelines.")}
        confs = to_open_source_confs(confs)
        confs[auto_loader.PATHS] = json.dumps(dict(settings.paths))
        session = open_session(
            name=f"headrace {settings.name}",
            connectors=settings.connectors,
            confs=confs,
            log_folder=self._log_folder,
            environ=self._environ,
            folder=settings.root,
            redact=self._secrets.redact,
        )
        release_tables()
        catalog = Catalog(session, settings.layout, settings.naming, scratch("stubs"))
        clear(session)
        remove_listeners()
        return catalog

    def resolve(self, request: ResolveRequest) -> Resolved:
        """The graph, resolved on empty stand-in tables that are registered in the catalog.

        Raises:
            Problems: all problems of the project.
        """
        files = source_files(self._settings)
        catalog = self.catalog()
        return self._resolved(catalog, self._loaded(catalog.session, files), request)

    def _loaded(self, session: SparkSession, files: tuple[Path, ...]) -> LoadResult:
        settings = self._settings
        # First, because a UDF captures the list of shipped modules when a query first calls it.
        ship_modules(session, settings.root_path, scratch("modules"))
        return load_files(
            files,
            root=settings.root,
            import_root=settings.root_path,
            naming=settings.naming,
            configuration=settings.resolved_configuration(self._secrets, self._environ),
            globals_={"spark": session, "dbutils": DbUtils(self._secrets)},
            parameters=settings.resolved_parameters(self._secrets, self._environ),
            needed=settings.dependencies,
        )

    def _resolved(self, catalog: Catalog, loaded: LoadResult, request: ResolveRequest) -> Resolved:
        settings = self._settings
        definitions = self._harness.rewrite(loaded.definitions)
        graph, graph_problems = build(definitions, settings.naming)
        graph_problems += tuple(
            PipelineError("GRAPH.RESERVED_NAME", location=dataset.location, name=dataset.name)
            for dataset in graph.datasets.values()
            if dataset.name == settings.event_log
        )
        graph_problems += _stored_secrets(definitions, self._secrets)
        views = [dataset.name for dataset in definitions.datasets if dataset.kind.is_view]
        catalog.cleared = request.cleared(definitions)
        catalog.unmapped = frozenset(d.name for d in definitions.datasets if maps_names(d.properties) is False)
        catalog.register_names([dataset.name for dataset in definitions.datasets], views)
        for name, path in foreign_tables(settings.layout, settings.naming):
            # Do not replace a table that the session itself has under this name.
            exists = catalog.session.catalog.tableExists(catalog.names.of(name).text)
            if name not in graph.datasets and not exists:
                catalog.register_path(name, path)
        modules = sorted({*source_modules(settings.root_path), *loaded.notebooks})
        analyzer = StubAnalyzer(
            catalog, definitions, settings.root, modules, self._parameters(), request.snapshot_state
        )
        try:
            resolved = resolve(
                graph,
                analyzer,
                self._path_of,
                problems=(*request.known, *loaded.problems, *graph_problems),
                only=self._harness.only,
                stored_schema=request.kept_schema,
                skip_unavailable=request.skip_unavailable,
            )
        except Problems as found:
            raise Problems([self._redacted(error) for error in found]) from None
        unavailable = tuple(
            replace(unavailable, error=self._redacted(unavailable.error)) for unavailable in resolved.unavailable
        )
        return Resolved(catalog, replace(resolved, unavailable=unavailable), loaded.notices, loaded.hooks)

    def _parameters(self) -> str:
        """A digest of the values that queries can read or that affect their results, including secrets."""
        settings = self._settings
        configuration = settings.resolved_configuration(self._secrets, self._environ)
        return parameters_digest(configuration, settings.resolved_spark_conf(self._secrets, self._environ))

    @property
    def _log_folder(self) -> Path:
        """The storage's log folder, if the storage exists; a verb that only reads does not create it."""
        logs = Path(self._settings.layout.logs)
        return logs if Path(self._settings.storage).is_dir() else scratch("logs")

    def _path_of(self, name: QualifiedName) -> str:
        return self._settings.layout.table(self._settings.naming, name)

    def _redacted(self, error: PipelineError) -> PipelineError:
        params = {key: self._secrets.redact(value) for key, value in error.params.items()}
        return PipelineError(error.code, location=error.location, **params)


def _stored_secrets(definitions: Definitions, secrets: Secrets) -> tuple[PipelineError, ...]:
    """Problems for persisted views whose definitions contain the value of a secret, which would be stored."""
    datasets = {dataset.name: dataset for dataset in definitions.datasets if dataset.kind is Kind.PERSISTED_VIEW}
    views = [
        ViewDefinition.of(datasets[flow.target], flow.query, flow.spark_conf)
        for flow in definitions.flows
        if flow.target in datasets and isinstance(flow.query, SqlQuery)
    ]
    return tuple(
        PipelineError("VIEW.HOLDS_SECRET", location=datasets[view.name].location, name=view.name)
        for view in views
        if any(secrets.redact(text) != text for text in view.texts)
    )


def parameters_digest(configuration: Mapping[str, str], spark_conf: Mapping[str, str]) -> str:
    """A digest of resolved settings for fingerprints: changes if a value changes that may affect results.

    Spark's own confs outside ``spark.sql`` affect how a query runs, not what it returns.
    """
    mattering = {
        key: value for key, value in spark_conf.items() if key.startswith("spark.sql.") or not key.startswith("spark.")
    }
    text = json.dumps([sorted(configuration.items()), sorted(mattering.items())])
    return hashlib.sha256(text.encode()).hexdigest()
