"""A project's files and session become a resolved graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import SparkSession

from headrace.cdc.snapshot_versions import Taken
from headrace.errors import PipelineError, Problems
from headrace.graph.build import build
from headrace.graph.new_tables import maps_names
from headrace.graph.resolve import Kept, resolve
from headrace.graph.resolved import ResolvedGraph
from headrace.model.datasets import Definitions, Flow, Kind, SqlQuery
from headrace.model.hooks import EventHook
from headrace.model.names import QualifiedName
from headrace.model.views import ViewDefinition
from headrace.project.files import load_files
from headrace.project.load_result import Loaded
from headrace.project.scratch import scratch
from headrace.project.test_harness import Harness
from headrace.project.worker_modules import ship_modules, source_modules
from headrace.settings.dbutils import DbUtils
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.settings.sources import source_files
from headrace.settings.vendor_confs import in_open_words
from headrace.spark.analyzer import StubAnalyzer
from headrace.spark.notebook.notebook_session import let_go
from headrace.spark.readers import auto_loader
from headrace.spark.session.catalog_entries import clear
from headrace.spark.session.listeners import remove_listeners
from headrace.spark.startup.open_session import open_session
from headrace.spark.update.catalog import Catalog
from headrace.storage.inventory import tables_of_others

# Which datasets of a project lose their rows.
Cleared: TypeAlias = Callable[[Definitions], "frozenset[QualifiedName]"]


@dataclass(frozen=True)
class Resolved:
    """A project that was loaded: its session, names and graph.

    ``notices`` are said once per update, each with its code; ``hooks`` are told what happens in it.
    """

    catalog: Catalog
    graph: ResolvedGraph
    notices: tuple[tuple[str, str], ...] = ()
    hooks: tuple[EventHook, ...] = ()


@dataclass(frozen=True)
class Resolving:
    """What there is to resolve a project for.

    Attributes:
        kept: the columns of tables that keep their rows.
        cleared: which datasets lose their rows, so that schemas of what they read are inferred anew.
        known: what is already known to be wrong, reported together with what is found.
        taken: what flows have taken of snapshots.
        leaves_out: leave out flows whose sources are away, instead of raising that.
    """

    kept: Kept
    cleared: Cleared = lambda _definitions: frozenset()
    known: tuple[PipelineError, ...] = ()
    leaves_out: bool = False
    taken: Callable[[Flow], Taken] = lambda _flow: Taken()


class Resolver:
    """Opens the session of a project and resolves its files, each time anew."""

    def __init__(self, settings: Settings, secrets: Secrets, environ: Mapping[str, str], rehearsal: Harness) -> None:
        self._settings = settings
        self._rehearsal = rehearsal
        self._secrets = secrets
        self._environ = environ

    def catalog(self) -> Catalog:
        """The session's catalog with nothing of another project in it."""
        settings = self._settings
        confs = dict(settings.resolved_spark_conf(self._secrets, self._environ))
        if settings.master:
            confs["spark.master"] = settings.master
        configuration = settings.resolved_configuration(self._secrets, self._environ)
        confs |= {key: value for key, value in configuration.items() if not key.startswith("pipelines.")}
        confs = in_open_words(confs)
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
        let_go()
        catalog = Catalog(session, settings.layout, settings.naming, scratch("stubs"))
        clear(session)
        remove_listeners()
        return catalog

    def resolve(self, wanted: Resolving) -> Resolved:
        """The graph, resolved on empty stand-ins that are registered in the catalog now.

        Raises:
            Problems: everything that is wrong with the project.
        """
        files = source_files(self._settings)
        catalog = self.catalog()
        return self._resolved(catalog, self._loaded(catalog.session, files), wanted)

    def _loaded(self, session: SparkSession, files: tuple[Path, ...]) -> Loaded:
        settings = self._settings
        # First, because a UDF takes the list of shipped modules along when a query calls it for the first time.
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

    def _resolved(self, catalog: Catalog, loaded: Loaded, wanted: Resolving) -> Resolved:
        settings = self._settings
        definitions = self._rehearsal.rewrite(loaded.definitions)
        graph, more = build(definitions, settings.naming)
        more += tuple(
            PipelineError("GRAPH.RESERVED_NAME", location=dataset.location, name=dataset.name)
            for dataset in graph.datasets.values()
            if dataset.name == settings.event_log
        )
        more += _stored_secrets(definitions, self._secrets)
        views = [dataset.name for dataset in definitions.datasets if dataset.kind.is_view]
        catalog.cleared = wanted.cleared(definitions)
        catalog.unmapped = frozenset(d.name for d in definitions.datasets if maps_names(d.properties) is False)
        catalog.know([dataset.name for dataset in definitions.datasets], views)
        for name, path in tables_of_others(settings.layout, settings.naming):
            # A table that the session has under the name is not ours to take out.
            there = catalog.session.catalog.tableExists(catalog.names.of(name).text)
            if name not in graph.datasets and not there:
                catalog.register_path(name, path)
        modules = sorted({*source_modules(settings.root_path), *loaded.notebooks})
        analyzer = StubAnalyzer(catalog, definitions, settings.root, modules, self._parameters(), wanted.taken)
        try:
            resolved = resolve(
                graph,
                analyzer,
                self._path_of,
                problems=(*wanted.known, *loaded.problems, *more),
                only=self._rehearsal.only,
                kept=wanted.kept,
                leaves_out=wanted.leaves_out,
            )
        except Problems as found:
            raise Problems([self._redacted(error) for error in found]) from None
        away = tuple(replace(away, error=self._redacted(away.error)) for away in resolved.away)
        return Resolved(catalog, replace(resolved, away=away), loaded.notices, loaded.hooks)

    def _parameters(self) -> str:
        """A digest of the values that queries can read or that change what they return; secrets are among them."""
        settings = self._settings
        configuration = settings.resolved_configuration(self._secrets, self._environ)
        return parameters_digest(configuration, settings.resolved_spark_conf(self._secrets, self._environ))

    @property
    def _log_folder(self) -> Path:
        """The storage's log folder once there is a storage; a verb that only reads makes none."""
        logs = Path(self._settings.layout.logs)
        return logs if Path(self._settings.storage).is_dir() else scratch("logs")

    def _path_of(self, name: QualifiedName) -> str:
        return self._settings.layout.table(self._settings.naming, name)

    def _redacted(self, error: PipelineError) -> PipelineError:
        params = {key: self._secrets.redact(value) for key, value in error.params.items()}
        return PipelineError(error.code, location=error.location, **params)


def _stored_secrets(definitions: Definitions, secrets: Secrets) -> tuple[PipelineError, ...]:
    """Persisted views whose definitions hold the value of a secret: they would be stored as they are."""
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
    """Stands for resolved settings in fingerprints: differs when a value does that results may depend on.

    Spark's own confs outside of ``spark.sql`` say where and with what a query runs, not what it returns.
    """
    mattering = {
        key: value for key, value in spark_conf.items() if key.startswith("spark.sql.") or not key.startswith("spark.")
    }
    text = json.dumps([sorted(configuration.items()), sorted(mattering.items())])
    return hashlib.sha256(text.encode()).hexdigest()
