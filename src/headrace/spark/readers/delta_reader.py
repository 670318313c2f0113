"""``format("delta")`` of the session's readers: Delta's own source, with checked option names."""

from __future__ import annotations

from functools import wraps
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.cdc.delta_change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from headrace.sources.delta_options import NAME, check_delta_options
from headrace.spark.readers.auto_loader import GIVEN_FORMAT, GIVEN_OPTIONS
from headrace.spark.session.query_context import query_context

_FEED_TYPES = {CHANGE_TYPE: "string", COMMIT_VERSION: "bigint", COMMIT_TIMESTAMP: "timestamp"}


def with_feed_columns(frame: DataFrame) -> DataFrame:
    """The frame with the columns of a change feed, if it lacks them."""
    known = {column.casefold() for column in frame.columns}
    return frame.withColumns({name: F.lit(None).cast(t) for name, t in _FEED_TYPES.items() if name not in known})


def wrap_delta_load(load: Any) -> Any:
    """Wrap a reader's ``load``: in a query function, refuses options that Delta does not know."""

    @wraps(load)
    def wrapper(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002 - Spark's name
        attributes = vars(self)
        if query_context().of_pipeline and (format or attributes.get(GIVEN_FORMAT, "")).casefold() == NAME:
            check_delta_options({**attributes.get(GIVEN_OPTIONS, {}), **options})
        return load(self, path, format, schema, **options)

    return wrapper
