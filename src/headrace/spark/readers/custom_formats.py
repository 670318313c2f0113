"""``format("synthetic")`` and the other formats of ``headrace.sources``, for the session's readers.

The driver checks the options, Spark's workers read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from headrace.errors import PipelineError, Problems
from headrace.model.ddl import InvalidDdl, JsonType, nullable, parse_struct
from headrace.sources.jdbc_incremental import prepare_jdbc
from headrace.sources.kinesis_options import prepare_kinesis
from headrace.sources.stream_source import PreparedSource, ReadContext
from headrace.sources.synthetic import prepare_synthetic
from headrace.spark.data_sources import python_sources
from headrace.spark.readers.auto_loader import GIVEN_FORMAT, GIVEN_OPTIONS, GIVEN_SCHEMA
from headrace.spark.session.active_session import while_active
from headrace.spark.session.query_context import query_context


@dataclass(frozen=True)
class _Format:
    prepare: Callable[[Mapping[str, Any], JsonType | None, ReadContext], PreparedSource]
    source: type[python_sources.PythonSource]


_FORMATS: Mapping[str, _Format] = {
    "synthetic": _Format(prepare_synthetic, python_sources.Synthetic),
    "jdbc_incremental": _Format(prepare_jdbc, python_sources.JdbcIncremental),
    "kinesis": _Format(prepare_kinesis, python_sources.Kinesis),
}


def wrap_load(load: Any) -> Any:
    """Wrap a reader's ``load``: handles the formats of ``headrace.sources``."""

    @wraps(load)
    def wrapper(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002 - Spark's name
        attributes = vars(self)
        custom_format = _FORMATS.get((format or attributes.get(GIVEN_FORMAT, "")).casefold())
        if custom_format is None:
            return load(self, path, format, schema, **options)
        given = {**attributes.get(GIVEN_OPTIONS, {}), **options, **({} if path is None else {"path": path})}
        schema = schema if schema is not None else attributes.get(GIVEN_SCHEMA)
        return _frame(self, custom_format, given, schema)

    return wrapper


def _frame(reader: Any, custom_format: _Format, given: Mapping[str, Any], schema: Any) -> Any:
    session: SparkSession = reader._spark  # noqa: SLF001 - has no public form
    streams = isinstance(reader, DataStreamReader)
    read_context = ReadContext(
        is_streaming=streams,
        time_zone=str(session.conf.get("spark.sql.session.timeZone", "UTC")),
        parallelism=session.sparkContext.defaultParallelism,
        schema_only=query_context().is_resolving,
    )
    prepared = custom_format.prepare(given, _struct(custom_format, schema), read_context)
    if not (streams and query_context().of_pipeline):
        # For the streams of a pipeline, each update warns.
        for name, why in prepared.without_effect:
            warnings.warn(f'option "{name}" has no effect: {why}', stacklevel=2)
    with while_active(session):
        session.dataSource.register(custom_format.source)
        # The same kind of reader: for a stream or for a batch.
        reader_copy = (
            type(reader)(session).format(custom_format.source.name()).schema(StructType.fromJson(prepared.columns))
        )
        return reader_copy.options(**{python_sources.SOURCE_OPTION: prepared.to_json(), **prepared.secrets}).load()


def _struct(custom_format: _Format, schema: Any) -> JsonType | None:
    if schema is None:
        return None
    if isinstance(schema, str):
        try:
            return nullable(parse_struct(schema))
        except InvalidDdl as error:
            name = custom_format.source.kind
            problem = PipelineError("SOURCE.SCHEMA", format=name, reason=str(error))
            raise Problems([problem]) from error
    return nullable(schema.jsonValue())
