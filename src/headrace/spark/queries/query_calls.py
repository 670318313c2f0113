"""Calls the user's query functions; no other module does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from headrace.cdc.delta_change_feed import FEED_OPTION
from headrace.errors import PipelineError
from headrace.model.datasets import Flow, PythonQuery, SqlQuery
from headrace.model.names import QualifiedName
from headrace.pipelines.registry import reading_with
from headrace.spark.analysis.distinct_counts import with_distinct_counts
from headrace.spark.readers.auto_loader import folders_below
from headrace.spark.readers.debezium import unpack_messages
from headrace.spark.session.active_session import make_current
from headrace.spark.session.guards import Code, guarded
from headrace.spark.session.query_context import in_query_context, query_context
from headrace.spark.update.catalog import Catalog


@dataclass(frozen=True)
class TableReader:
    """The reader that functions of ``dp`` use inside a query function; the patches rewrite the names."""

    catalog: Catalog

    def read(self, name: str) -> Any:
        """The dataset as a batch DataFrame."""
        return self.catalog.session.read.table(name)

    def read_stream(self, name: str) -> Any:
        """The dataset as a streaming DataFrame."""
        return self.catalog.session.readStream.table(name)

    def opened(self, messages: Any, row: Any, **options: Any) -> Any:
        """Debezium messages as change events."""
        return unpack_messages(messages, row, **options)


def call(flow: Flow, catalog: Catalog, *, is_resolving: bool = False, columns: tuple[str, ...] = ()) -> DataFrame:
    """The DataFrame of a flow's query over the tables registered in the catalog.

    Args:
        flow: the flow whose query to call.
        catalog: resolves every spelling of the pipeline's names.
        is_resolving: refuse actions, because the registered tables are empty stand-ins.
        columns: the target's columns, for INSERTs that map by position.

    Raises:
        PipelineError: FLOW.NO_FRAME when the function returns something else; any error of the query.
    """
    query = flow.query
    changes = flow.changes
    with calling(flow, catalog, is_resolving=is_resolving):
        if changes is not None and changes.source is not None and changes.reads_feed:
            frame = catalog.session.readStream.option(FEED_OPTION, "true").table(changes.source)
        else:
            frame = query.function() if isinstance(query, PythonQuery) else catalog.session.sql(query.text)
    if not isinstance(frame, DataFrame):
        raise PipelineError("FLOW.NO_FRAME", location=flow.location, flow=flow.name, type=type(frame).__name__)
    frame = with_distinct_counts(frame)
    return _with_target_names(frame, query, columns, flow) if isinstance(query, SqlQuery) else frame


@contextmanager
def calling(
    flow: Flow, catalog: Catalog, *, is_resolving: bool, reads: set[QualifiedName] | None = None
) -> Iterator[None]:
    """Set up the context in which a flow's query is called inside the block.

    Args:
        flow: the flow whose query is called.
        catalog: resolves every spelling of the pipeline's names.
        is_resolving: refuse actions, because the registered tables are empty stand-ins.
        reads: receives the names of the pipeline's datasets that the query uses.
    """
    query = flow.query
    make_current(catalog.session)
    # The texts of SQL files were checked when they were read.
    queries_only = isinstance(query, PythonQuery) or not query.checked
    names = catalog.names if reads is None else catalog.names.recording(reads)
    context = replace(
        query_context(),
        is_resolving=is_resolving,
        queries_only=queries_only,
        rewrite_name=partial(names.to_session_name, naming=query.naming),
        rewrite_query=partial(names.to_session_query, naming=query.naming),
        check_path=catalog.names.refuse_own_path,
        schema_folders=folders_below(catalog.auto_loader_folder(flow.target, flow.name)),
        infers_again=flow.target in catalog.cleared and flow.name not in catalog.inferred,
        plain_names=flow.target in catalog.unmapped,
        input_file_in_metadata=False,
    )
    with in_query_context(context), reading_with(TableReader(catalog)), guarded(Code.QUERY):
        yield


def _with_target_names(frame: DataFrame, query: SqlQuery, columns: tuple[str, ...], flow: Flow) -> DataFrame:
    """The columns of an INSERT, renamed to those of the target."""
    names = query.columns or (() if query.by_name else columns)
    if not names:
        return frame
    if len(names) != len(frame.columns):
        raise PipelineError(
            "FLOW.INSERT_COLUMNS",
            location=flow.location,
            flow=flow.name,
            given=len(frame.columns),
            wanted=", ".join(names),
        )
    return frame.toDF(*names)
