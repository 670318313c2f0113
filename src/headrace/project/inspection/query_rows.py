"""Runs a query in a session whose catalog has the tables that it may read."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.model.names import quoted
from headrace.model.rows import Rows
from headrace.spark.analysis.restricted_query import PARSED_AS_WRITTEN, check_restricted
from headrace.spark.errors.spark_errors import innermost
from headrace.spark.jvm.causes import chain
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.session.time_limit import time_limit
from headrace.spark.update.catalog import Catalog


def query_rows(catalog: Catalog, query: str, *, limit: int | None, restricted: bool, timeout_s: float | None) -> Rows:
    """The rows of a query.

    Args:
        catalog: has the tables.
        query: with the names of the session.
        limit: the maximum number of rows; None for all.
        restricted: accept nothing but a query over tables of the catalog.
        timeout_s: stop it after so long; None for no limit.

    Raises:
        PipelineError: SQL.RESTRICTED, SQL.TIMEOUT.
        PySparkException, Py4JJavaError: Spark refuses the query, or fails.
    """

    def is_table(parts: Sequence[str]) -> bool:
        return catalog.names.dataset_of(quoted(*parts)) is not None

    session = catalog.session
    with time_limit(session, timeout_s), with_confs(session, PARSED_AS_WRITTEN if restricted else {}):
        if restricted:
            check_restricted(session, query, is_table)
        frame = session.sql(query)
        rows = (frame if limit is None else frame.limit(limit)).collect()
    return Rows(tuple(frame.columns), tuple(tuple(row) for row in rows))


def reason_of(error: PySparkException | Py4JJavaError) -> str:
    """Why a query has failed, in one line."""
    # PySpark converts only some Java exceptions.
    message = str(error) if isinstance(error, PySparkException) else innermost(tuple(chain(error))).message
    return message.strip().splitlines()[0]
