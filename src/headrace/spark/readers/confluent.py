"""``from_confluent``: decodes topic values in the registry's wire format into columns.

Python workers decode the rows with fastavro, over Arrow. Spark's own ``from_avro`` needs one writer schema for a whole
column, but the schema ids of a batch are known only once it is read. A UDF decodes each row by its own id, and resolves
it to the reader schema by Avro's rules.
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

from headrace.autoloader.reading.avro.schema_walker import UnsupportedAvroSchema
from headrace.errors import PipelineError
from headrace.sources.confluent import BadPayload, decoder, shared_registry
from headrace.sources.confluent_schema import converter, spark_type
from headrace.sources.worker_errors import relay_problems
from headrace.spark.session.query_context import query_context


class OnError(str, Enum):
    """What to do with a payload that cannot be decoded."""

    FAIL = "fail"
    NULL = "null"
    REPORT = "report"

    @classmethod
    def _missing_(cls, value: object) -> OnError | None:
        # The name in version 0.1.
        return cls.REPORT if value == "tell" else None


def from_confluent(
    column: Column | str,
    subject: str,
    registry: str | Mapping[str, Any],
    *,
    version: int | None = None,
    on_error: str = "fail",
) -> Column:
    """Decode payloads in Confluent's wire format, to a struct or whatever type the subject's schema has.

    Records are decoded with their writer schemas, and resolved to the latest schema of the subject at the time of this
    call: fields that were added later have their defaults, removed fields are left out.

    Args:
        column: bytes, such as ``value`` of a topic.
        subject: the subject of the schema, usually ``<topic>-value``.
        registry: its URL, or the settings of Confluent's client, such as ``url`` and ``basic.auth.user.info``.
        version: of the subject's schema, instead of the latest.
        on_error: ``fail`` fails the query; ``null`` returns NULL; ``report`` returns a struct of ``value`` and
            ``error``, one of which is NULL. If the registry does not answer, the query always fails.

    Raises:
        PipelineError: CONFLUENT.*.
    """
    try:
        action = OnError(on_error)
    except ValueError:
        raise PipelineError("CONFLUENT.ON_ERROR", given=on_error) from None
    settings = json.dumps({"url": registry} if isinstance(registry, str) else dict(registry), sort_keys=True)
    # The schema must be that of the table's columns, which the update has found. And other flows wait for this start.
    reader = shared_registry(settings).reader_schema(subject, version, refresh=not query_context().is_starting)
    try:
        type_ = spark_type(reader)
    except UnsupportedAvroSchema as error:
        raise PipelineError("CONFLUENT.SCHEMA", subject=subject, reason=str(error)) from None
    value_type: DataType = _parse_datatype_json_value(type_)
    result: DataType = value_type
    if action is OnError.REPORT:
        result = StructType([StructField("value", value_type), StructField("error", StringType())])
    # PySpark reads the parameters from the function's annotations; its type stubs do not include that form.
    make_udf: Any = arrow_udf
    decode = make_udf(_payload_decoder(settings, json.dumps(reader), type_, result, action), result)
    decoded: Column = decode(column)
    return decoded


def _payload_decoder(
    settings: str, reader_text: str, type_: Any, result: DataType, on_error: OnError
) -> Callable[[pa.Array], pa.Array]:
    @relay_problems
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
            found.append({"value": value, "error": error} if on_error is OnError.REPORT else value)
        return pa.array(found, type=to_arrow_type(result))

    return from_confluent
