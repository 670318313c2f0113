"""``format("synthetic")`` and the others of ``headrace.sources``: the driver checks options, Spark's workers read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from headrace.autoloader.ddl import InvalidDdl, JsonType, nullable, parse_struct
from headrace.errors import PipelineError, Problems
from headrace.sources.jdbc_incremental import prepare_jdbc
from headrace.sources.kinesis_options import prepare_kinesis
from headrace.sources.stream_source import Prepared, Session
from headrace.sources.synthetic import prepare_synthetic
from headrace.spark.data_sources import python_sources
from headrace.spark.readers.auto_loader import GIVEN, NOTED_FORMAT, NOTED_SCHEMA
from headrace.spark.session.active_session import while_active
from headrace.spark.session.query_context import query_context


@dataclass(frozen=True)
class _Format:
    prepare: Callable[[Mapping[str, Any], JsonType | None, Session], Prepared]
    source: type[python_sources.PythonSource]


_FORMATS: Mapping[str, _Format] = {
    "synthetic": _Format(prepare_synthetic, python_sources.Synthetic),
    "jdbc_incremental": _Format(prepare_jdbc, python_sources.JdbcIncremental),
    "kinesis": _Format(prepare_kinesis, python_sources.Kinesis),
}


def reading(load: Any) -> Any:
    """Of a reader's ``load``: that of the formats of ``headrace.sources`` is ours."""

    @wraps(load)
    def loading(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002 - Spark's name
        noted = vars(self)
        found = _FORMATS.get((format or noted.get(NOTED_FORMAT, "")).casefold())
        if found is None:
            return load(self, path, format, schema, **options)
        given = {**noted.get(GIVEN, {}), **options, **({} if path is None else {"path": path})}
        schema = schema if schema is not None else noted.get(NOTED_SCHEMA)
        return _frame(self, found, given, schema)

    return loading


def _frame(reader: Any, found: _Format, given: Mapping[str, Any], schema: Any) -> Any:
    session: SparkSession = reader._spark  # noqa: SLF001 - has no public form
    streams = isinstance(reader, DataStreamReader)
    place = Session(
        streams=streams,
        time_zone=str(session.conf.get("spark.sql.session.timeZone", "UTC")),
        parallelism=session.sparkContext.defaultParallelism,
        resolves=query_context().resolving,
    )
    prepared = found.prepare(given, _struct(found, schema), place)
    if not (streams and query_context().of_pipeline):
        # Of the streams of a pipeline, each update says it.
        for name, why in prepared.without_effect:
            warnings.warn(f'option "{name}" has no effect: {why}', stacklevel=2)
    with while_active(session):
        session.dataSource.register(found.source)
        # The kind of the reader that was asked: a stream, or what is there.
        fresh = type(reader)(session).format(found.source.name()).schema(StructType.fromJson(prepared.columns))
        return fresh.options(**{python_sources.SOURCE_OPTION: prepared.to_json(), **prepared.secrets}).load()


def _struct(found: _Format, schema: Any) -> JsonType | None:
    if schema is None:
        return None
    if isinstance(schema, str):
        try:
            return nullable(parse_struct(schema))
        except InvalidDdl as error:
            name = found.source.kind
            problem = PipelineError("SOURCE.SCHEMA", format=name, reason=str(error))
            raise Problems([problem]) from error
    return nullable(schema.jsonValue())
