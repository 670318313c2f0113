"""Runs SQL over a pipeline's tables, stored views and event log, without loading its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.model.names import InvalidName, QualifiedName, quoted
from headrace.model.rows import Rows
from headrace.model.views import ViewDefinition
from headrace.project.inspection.log_names import log_names, log_paths
from headrace.project.inspection.monitored_pipelines import monitored_pipelines
from headrace.project.inspection.plain_query import rows_without_session
from headrace.project.inspection.private_tables import hidden_tables
from headrace.project.inspection.query_rows import query_rows, reason_of
from headrace.settings.settings import Settings
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.catalog import Catalog
from headrace.spark.update.event_views import register_event_views
from headrace.sql.mentions import mentioned_names
from headrace.sql.readonly import check_readonly
from headrace.storage.inventory import stored_tables
from headrace.storage.view_definitions import stored_views
from headrace.stores.delta_tables import is_delta


def run_statement(
    query: str,
    catalog: Callable[[], Catalog],
    settings: Settings,
    *,
    write: bool,
    private: bool,
    limit: int | None,
    also: Sequence[str],
    environ: Mapping[str, str],
    redact: Callable[[str], str],
    restricted: bool = False,
    timeout_s: float | None = None,
) -> Rows:
    """The rows of a statement, which reads only unless *write* is true.

    Args:
        query: one statement.
        catalog: opens a session's empty catalog; called for a statement that is allowed.
        settings: the pipeline's.
        write: allow statements that change data.
        private: include private tables.
        limit: the maximum number of rows; None for all.
        also: folders of other projects, or folders whose subfolders are projects, for ``system.lakeflow.*``.
        environ: the environment variables.
        redact: removes secrets from error messages.
        restricted: accept nothing but a query over the pipeline's tables.
        timeout_s: stop the query after so long; None for no limit. The start of Java does not count.

    Raises:
        PipelineError: SQL.NOT_READ_ONLY, SQL.RESTRICTED, SQL.PRIVATE, SQL.FAILED, SQL.TIMEOUT; VIEW.UNUSABLE;
            STORAGE.*.
    """
    if not write:
        check_readonly(query)
        rows = rows_without_session(query, settings, environ, log_names(settings), private=private, limit=limit)
        if rows is not None:
            return rows
    try:
        with TemporaryDirectory(prefix="headrace-sql-") as extracts:
            return run_query(
                query,
                catalog(),
                settings,
                write=write,
                private=private,
                limit=limit,
                pipelines=monitored_pipelines(settings, also, environ, time.time),
                redact=redact,
                extracts=Path(extracts),
                restricted=restricted,
                timeout_s=timeout_s,
            )
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError("SQL.FAILED", reason=redact(reason_of(error))) from error


def run_query(
    query: str,
    catalog: Catalog,
    settings: Settings,
    *,
    write: bool,
    private: bool,
    limit: int | None,
    pipelines: Sequence[MonitoredPipeline],
    redact: Callable[[str], str],
    extracts: Path,
    restricted: bool = False,
    timeout_s: float | None = None,
) -> Rows:
    """The rows of a query, with the tables, views and event log that it mentions; private tables only on request.

    Args:
        query: one statement.
        catalog: a session's empty catalog.
        settings: the pipeline's.
        write: the statement may change tables that it does not mention.
        private: include private tables.
        limit: the maximum number of rows; None for all.
        pipelines: what ``system.lakeflow.*`` covers, first this pipeline.
        redact: removes secrets from error messages.
        extracts: a folder for copies of events that the query reads.
        restricted: accept nothing but a query over the pipeline's tables.
        timeout_s: stop the query after so long; None for no limit.

    Raises:
        PipelineError: SQL.RESTRICTED, SQL.TIMEOUT, SQL.PRIVATE, VIEW.UNUSABLE; STORAGE.* if the storage cannot be read.
        PySparkException: Spark refuses the query.
    """
    tables = dict(stored_tables(settings.layout, settings.naming))
    views = {view.name: view for view in stored_views(settings.layout, settings.naming)}
    hidden = frozenset() if private else hidden_tables(tables)
    names = {*tables, *views, *log_names(settings)}
    queries = {name: view.query for name, view in views.items()}
    wanted = mentioned_names(query, names, queries)
    if write:
        wanted |= {*tables, *views}
    _register_tables(catalog, tables, views, wanted)
    register_event_views(catalog, settings.layout.events, pipelines, wanted, extracts)
    _register_logs(catalog, settings, wanted - tables.keys() - views.keys())
    unusable = _register_views(catalog, settings, {name: view for name, view in views.items() if name in wanted})
    # Views reference their inputs, so private tables can be removed once the views are registered.
    catalog.unregister(hidden - views.keys())
    try:
        text = catalog.names.to_session_query(query, settings.naming)
        return query_rows(catalog, text, limit=limit, restricted=restricted, timeout_s=timeout_s)
    except AnalysisException as error:
        missing = _missing(error, settings)
        if missing in unusable:
            raise PipelineError("VIEW.UNUSABLE", name=missing, reason=redact(unusable[missing])) from error
        if missing in hidden:
            raise PipelineError("SQL.PRIVATE", name=missing) from error
        raise


def _register_tables(
    catalog: Catalog,
    tables: Mapping[QualifiedName, str],
    views: Mapping[QualifiedName, ViewDefinition],
    wanted: Collection[QualifiedName],
) -> None:
    catalog.register_names([*tables, *views], views)
    for name, path in tables.items():
        # An earlier table may have the name of a current view.
        if name not in views and name in wanted:
            catalog.register_path(name, path)


def _register_logs(catalog: Catalog, settings: Settings, wanted: Collection[QualifiedName]) -> None:
    for log, path in log_paths(settings).items():
        if log in wanted and is_delta(path):
            catalog.register_names([log], ())
            catalog.register_path(log, path)


def _register_views(
    catalog: Catalog, settings: Settings, views: Mapping[QualifiedName, ViewDefinition]
) -> dict[QualifiedName, str]:
    """Register each view after its inputs; returns those that cannot be registered, and why."""
    pending = dict(views)
    while True:
        unusable: dict[QualifiedName, str] = {}
        for name, view in pending.items():
            try:
                _register_view(catalog, settings, view)
            except (PipelineError, PySparkException) as error:
                text = error.params.get("reason", error.message) if isinstance(error, PipelineError) else str(error)
                unusable[name] = text.strip().splitlines()[0].rstrip(".")
        if len(unusable) in (0, len(pending)):
            return unusable
        pending = {name: view for name, view in pending.items() if name in unusable}


def _register_view(catalog: Catalog, settings: Settings, view: ViewDefinition) -> None:
    # The storage is not trusted: someone else may have written the definition.
    check_readonly(view.query)
    with with_confs(catalog.session, view.confs):
        frame = catalog.session.sql(catalog.names.to_session_query(view.query, view.naming(settings.naming)))
    comments = {column.casefold(): text for column, text in view.column_comments.items()}
    if comments:
        frame = frame.select(
            *(
                F.col(quoted(name)).alias(name, metadata={"comment": comments[name.casefold()]})
                if name.casefold() in comments
                else F.col(quoted(name))
                for name in frame.columns
            )
        )
    catalog.register_view(view.name, frame)


def _missing(error: AnalysisException, settings: Settings) -> QualifiedName | None:
    """The table that Spark did not find, or None for another error."""
    if not (error.getCondition() or "").startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return None
    try:
        return settings.naming.canonical((error.getMessageParameters() or {}).get("relationName", ""))
    except InvalidName:
        return None
