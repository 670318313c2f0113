"""Calls the user's query functions; the only place that does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from headrace.cdc.change_feed import FEED_OPTION
from headrace.errors import PipelineError
from headrace.model.datasets import Flow, PythonQuery, SqlQuery
from headrace.model.names import QualifiedName
from headrace.pipelines.registry import reading_with
from headrace.spark.analysis.distinct_counts import counting_distinct
from headrace.spark.readers.auto_loader import folders_below
from headrace.spark.readers.debezium import opened
from headrace.spark.session.active_session import make_current
from headrace.spark.session.guards import Code, running
from headrace.spark.session.query_context import in_query_context, query_context
from headrace.spark.update.catalog import Catalog


@dataclass(frozen=True)
class TableReader:
    """What functions of ``dp`` use inside of a query function; names are spelled by the patches."""

    catalog: Catalog

    def read(self, name: str) -> Any:
        """The dataset as a batch DataFrame."""
        return self.catalog.session.read.table(name)

    def read_stream(self, name: str) -> Any:
        """The dataset as a streaming DataFrame."""
        return self.catalog.session.readStream.table(name)

    def opened(self, messages: Any, row: Any, **options: Any) -> Any:
        """Messages of Debezium as change events."""
        return opened(messages, row, **options)


def call(flow: Flow, catalog: Catalog, *, resolving: bool = False, columns: tuple[str, ...] = ()) -> DataFrame:
    """The DataFrame of a flow's query over what the catalog has registered now.

    Args:
        flow: whose query to call.
        catalog: finds every spelling of the pipeline's names.
        resolving: refuse actions, because what is registered are empty stand-ins.
        columns: of the target, for INSERTs that map by position.

    Raises:
        PipelineError: FLOW.NO_FRAME when the function returns something else; whatever the query raises.
    """
    query = flow.query
    changes = flow.changes
    with calling(flow, catalog, resolving=resolving):
        if changes is not None and changes.source is not None and changes.reads_feed:
            frame = catalog.session.readStream.option(FEED_OPTION, "true").table(changes.source)
        else:
            frame = query.function() if isinstance(query, PythonQuery) else catalog.session.sql(query.text)
    if not isinstance(frame, DataFrame):
        raise PipelineError("FLOW.NO_FRAME", location=flow.location, flow=flow.name, type=type(frame).__name__)
    frame = counting_distinct(frame)
    return _placed(frame, query, columns, flow) if isinstance(query, SqlQuery) else frame


@contextmanager
def calling(
    flow: Flow, catalog: Catalog, *, resolving: bool, reads: set[QualifiedName] | None = None
) -> Iterator[None]:
    """Let the query of a flow be called inside the block.

    Args:
        flow: whose query it is.
        catalog: finds every spelling of the pipeline's names.
        resolving: refuse actions, because what is registered are empty stand-ins.
        reads: gets the names of the pipeline's datasets that are spelled inside.
    """
    query = flow.query
    make_current(catalog.session)
    # The texts of SQL files were checked when they were read.
    queries_only = isinstance(query, PythonQuery) or not query.checked
    names = catalog.names if reads is None else catalog.names.noting(reads)
    context = replace(
        query_context(),
        resolving=resolving,
        queries_only=queries_only,
        spell_name=partial(names.spelled, naming=query.naming),
        spell_query=partial(names.spelled_query, naming=query.naming),
        check_path=catalog.names.refuse_own,
        schema_folders=folders_below(catalog.auto_loader_folder(flow.target, flow.name)),
        infers_again=flow.target in catalog.cleared and flow.name not in catalog.inferred,
        plain_names=flow.target in catalog.unmapped,
        input_file_in_metadata=False,
    )
    with in_query_context(context), reading_with(TableReader(catalog)), running(Code.QUERY):
        yield


def _placed(frame: DataFrame, query: SqlQuery, columns: tuple[str, ...], flow: Flow) -> DataFrame:
    """The columns of an INSERT under the names of the target."""
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
