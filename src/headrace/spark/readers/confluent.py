"""``from_confluent``: values of a topic in the registry's wire format as columns.

Rows are read in Python workers, with fastavro, over Arrow. Spark's own ``from_avro`` takes one writer's schema for a
whole column, and which ids a batch holds is known only once it is read; a UDF takes each row by its own id, and
resolves it to the reader's schema as Avro says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType, _parse_datatype_json_value

from headrace.errors import PipelineError
from headrace.sources.confluent import BadPayload, decoder, shared_registry
from headrace.sources.confluent_schema import UnsupportedSchema, converter, spark_type
from headrace.sources.worker_errors import telling
from headrace.spark.session.query_context import query_context


class OnError(str, Enum):
    """What becomes of a payload that cannot be read."""

    FAIL = "fail"
    NULL = "null"
    TELL = "tell"


def from_confluent(
    column: Column | str,
    subject: str,
    registry: str | Mapping[str, Any],
    *,
    version: int | None = None,
    on_error: str = "fail",
) -> Column:
    """A payload of Confluent's wire format as a struct, or what else the subject's schema says.

    Records are read with the schema that they were written with, and resolved to the subject's latest one, as it is
    when the query is called: fields that were added later have their defaults, ones that were removed are left out.

    Args:
        column: bytes, such as ``value`` of a topic.
        subject: whose schema gives the columns, usually ``<topic>-value``.
        registry: its address, or the settings of Confluent's client, such as ``url`` and ``basic.auth.user.info``.
        version: of the subject's schema, instead of the latest.
        on_error: ``fail`` ends the query; ``null`` gives NULL; ``tell`` gives a struct of ``value`` and ``error``, one
            of which is NULL. A registry that does not answer always ends the query.

    Raises:
        PipelineError: CONFLUENT.*.
    """
    if on_error not in set(OnError):
        raise PipelineError("CONFLUENT.ON_ERROR", given=on_error)
    settings = json.dumps({"url": registry} if isinstance(registry, str) else dict(registry), sort_keys=True)
    # The table has the columns that the update has found; and others wait while a flow is started.
    reader = shared_registry(settings).reader(subject, version, again=not query_context().runs)
    try:
        type_ = spark_type(reader)
    except UnsupportedSchema as error:
        raise PipelineError("CONFLUENT.SCHEMA", subject=subject, reason=str(error)) from None
    value_type: DataType = _parse_datatype_json_value(type_)
    result: DataType = value_type
    if OnError(on_error) is OnError.TELL:
        result = StructType([StructField("value", value_type), StructField("error", StringType())])
    # PySpark finds out by the function's annotations what it takes; its own declarations do not know that form.
    made: Any = arrow_udf
    reads = made(_reading(settings, json.dumps(reader), type_, result, OnError(on_error)), result)
    decoded: Column = reads(column)
    return decoded


def _reading(
    settings: str, reader_text: str, type_: Any, result: DataType, on_error: OnError
) -> Callable[[pa.Array], pa.Array]:
    @telling
    def from_confluent(payloads: pa.Array) -> pa.Array:
        decode = decoder(shared_registry(settings), json.loads(reader_text))
        convert = converter(type_)
        found = []
        for payload in payloads:
            bytes_ = payload.as_py()
            value, error = None, None
            try:
                value = decode(bytes_) if bytes_ is not None else None
            except BadPayload as bad:
                if on_error is OnError.FAIL:
                    raise
                error = bad.reason
            value = convert(value) if convert and value is not None else value
            found.append({"value": value, "error": error} if on_error is OnError.TELL else value)
        return pa.array(found, type=to_arrow_type(result))

    return from_confluent
