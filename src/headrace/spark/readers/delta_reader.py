"""``format("delta")`` of the session's readers: Delta's own source, the names of its options checked."""

from __future__ import annotations

from functools import wraps
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.cdc.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from headrace.sources.delta_options import NAME, check_delta_options
from headrace.spark.readers.auto_loader import GIVEN, NOTED_FORMAT
from headrace.spark.session.query_context import query_context

_FEED_TYPES = {CHANGE_TYPE: "string", COMMIT_VERSION: "bigint", COMMIT_TIMESTAMP: "timestamp"}


def with_feed_columns(frame: DataFrame) -> DataFrame:
    """The frame with the columns of a change feed, where it lacks them."""
    known = {column.casefold() for column in frame.columns}
    return frame.withColumns({name: F.lit(None).cast(t) for name, t in _FEED_TYPES.items() if name not in known})


def reading_delta(load: Any) -> Any:
    """Of a reader's ``load``: in a query function, options that Delta does not know are refused."""

    @wraps(load)
    def loading(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002 - Spark's name
        noted = vars(self)
        if query_context().of_pipeline and (format or noted.get(NOTED_FORMAT, "")).casefold() == NAME:
            check_delta_options({**noted.get(GIVEN, {}), **options})
        return load(self, path, format, schema, **options)

    return loading
