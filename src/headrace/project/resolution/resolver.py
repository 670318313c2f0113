"""Resolves a project's files into a graph, with its session."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from headrace.catalogs.published_names import with_published_names
from headrace.errors import PipelineError, Problems
from headrace.graph.build import build
from headrace.graph.new_tables import maps_names
from headrace.graph.resolve import resolve
from headrace.model.names import QualifiedName
from headrace.project.loading.load_project import load_project
from headrace.project.loading.load_result import LoadResult
from headrace.project.loading.worker_modules import source_modules
from headrace.project.resolution.definition_problems import definition_problems
from headrace.project.resolution.open_catalog import open_catalog
from headrace.project.resolution.resolve_request import Resolved, ResolveRequest
from headrace.project.test_harness import Harness
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.settings.source_files import source_files
from headrace.spark.analyzer import StubAnalyzer
from headrace.spark.update.catalog import Catalog
from headrace.storage.adopted_tables import AdoptedTables
from headrace.storage.inventory import foreign_tables


class Resolver:
    """Opens the session of a project and resolves its files, from scratch each time."""

    def __init__(self, settings: Settings, secrets: Secrets, environ: Mapping[str, str], harness: Harness) -> None:
        self._settings = settings
        self._harness = harness
        self._secrets = secrets
        self._environ = environ

    def catalog(self) -> Catalog:
        """The session's catalog, without entries of other projects."""
        return open_catalog(self._settings, self._secrets, self._environ)

    def resolve(self, request: ResolveRequest) -> Resolved:
        """The graph, resolved on empty stand-in tables that are registered in the catalog.

        Raises:
            Problems: all problems of the project.
        """
        files = source_files(self._settings)
        catalog = self.catalog()
        return self._resolved(
            catalog, load_project(catalog.session, files, self._settings, self._secrets, self._environ), request
        )

    def _resolved(self, catalog: Catalog, loaded: LoadResult, request: ResolveRequest) -> Resolved:
        settings = self._settings
        definitions = self._harness.rewrite(loaded.definitions)
        graph, graph_problems = build(definitions, settings.naming)
        graph_problems += tuple(definition_problems(definitions, graph, settings, self._secrets))
        views = [dataset.name for dataset in definitions.datasets if dataset.kind.is_view]
        catalog.cleared = request.cleared(definitions)
        catalog.unmapped = frozenset(d.name for d in definitions.datasets if maps_names(d.properties) is False)
        catalog.register_names([dataset.name for dataset in definitions.datasets], views)
        for name, path in foreign_tables(settings.production_layout, settings.naming):
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
        # What a stage computes is nobody's business yet.
        hooks = loaded.hooks if settings.production is None else ()
        datasets = with_published_names(resolved.datasets, settings.catalogs, settings.naming)
        return Resolved(catalog, replace(resolved, datasets=datasets, unavailable=unavailable), loaded.notices, hooks)

    def _parameters(self) -> str:
        """A digest of the values that queries can read or that affect their results, including secrets."""
        settings = self._settings
        configuration = settings.resolved_configuration(self._secrets, self._environ)
        return parameters_digest(configuration, settings.resolved_spark_conf(self._secrets, self._environ))

    def _path_of(self, name: QualifiedName) -> str:
        path = self._settings.layout.table(self._settings.naming, name)
        adopted = AdoptedTables(self._settings.layout).at(path)
        return path if adopted is None else adopted.location

    def _redacted(self, error: PipelineError) -> PipelineError:
        params = {key: self._secrets.redact(value) for key, value in error.params.items()}
        return PipelineError(error.code, location=error.location, **params)


def parameters_digest(configuration: Mapping[str, str], spark_conf: Mapping[str, str]) -> str:
    """A digest of resolved settings for fingerprints: changes if a value changes that may affect results.

    Spark's own confs outside ``spark.sql`` affect how a query runs, not what it returns.
    """
    mattering = {
        key: value for key, value in spark_conf.items() if key.startswith("spark.sql.") or not key.startswith("spark.")
    }
    text = json.dumps([sorted(configuration.items()), sorted(mattering.items())])
    return hashlib.sha256(text.encode()).hexdigest()
