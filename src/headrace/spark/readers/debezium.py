"""Unpacks Debezium messages: the columns of the row, the operation, and the sequence of its events.

Source: Debezium's documentation of its connectors, "Data change events", for the envelope and each connector's source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from headrace.cdc.envelope import DELETE, ENVELOPE, ERROR, OP, OPERATIONS, SEQUENCE, SETS, TRUNCATE, UNAVAILABLE, VALUE
from headrace.spark.errors.spark_errors import first_line
from headrace.spark.readers.confluent import from_confluent
from headrace.spark.readers.debezium_values import Values, invalid_argument, wire_type

_MESSAGE, _UNPACKED, _MALFORMED = "__headrace_message", "__headrace_opened", "__headrace_broken"
_PAYLOAD = "payload"
# Fields of the connectors' ``source``: PostgreSQL; MySQL and MariaDB; SQL Server and Db2; all connectors.
_SOURCE = ("lsn", "file", "pos", "row", "commit_lsn", "change_lsn", "event_serial_no", "ts_ms")
# The number of digits of 64-bit numbers, so that texts have the order of the numbers.
_DIGITS, _FEWER_DIGITS = 20, 10
_NO_CHANGE_LSN = "00000000:00000000:0000"
_UNAVAILABLE_BYTES = UNAVAILABLE.encode()


@dataclass(frozen=True)
class _Envelopes:
    """Parsed messages.

    ``envelope`` is the envelope's struct of type ``kind``. ``malformed`` says why there is none, and ``text`` is the
    message then.
    """

    rows: DataFrame
    envelope: Column
    kind: StructType
    malformed: Column
    text: Column


def unpack_messages(
    messages: DataFrame,
    row: str | StructType | None,
    *,
    timestamps: str | Mapping[str, str] | None,
    decimals: str | None,
    subject: str | None,
    registry: str | Mapping[str, Any] | None,
) -> DataFrame:
    """Implements ``headrace.pipelines.debezium``."""
    if "value" not in messages.columns:
        raise invalid_argument("messages", 'they have no column "value"')
    if (subject is None) != (registry is None):
        raise invalid_argument("subject", "subject and registry must be set together")
    wanted = _row_type(row)
    if wanted is not None and ENVELOPE in wanted.names:
        raise invalid_argument("row", f'debezium() adds the column "{ENVELOPE}" itself')
    present = messages.filter(F.col("value").isNotNull())
    if subject is not None and registry is not None:
        found = _from_avro(present, subject, registry)
        row_kind = _struct(found.kind, "after", subject)
        wanted = wanted if wanted is not None else row_kind
        values = Values(wanted, timestamps, decimals, requires_units=False)
    else:
        if wanted is None:
            raise invalid_argument("row", "JSON does not describe its columns; pass them as DDL")
        values = Values(wanted, timestamps, decimals, requires_units=True)
        found = _from_json(present, wire_type(wanted))
        row_kind = wire_type(wanted)
    unknown = [name for name in wanted.names if name not in row_kind.names]
    if unknown:
        raise invalid_argument(
            "row", f'"{unknown[0]}" is not a column of the subject, which has {", ".join(row_kind.names)}'
        )
    return _flat(found, row_kind, wanted, values)


def _flat(found: _Envelopes, wire_row: StructType, wanted: StructType, values: Values) -> DataFrame:
    """The columns of the row, and the column with the envelope's metadata."""
    envelope = found.envelope
    op = envelope.getField(OP)
    image = F.when(op == DELETE, envelope.getField("before")).otherwise(envelope.getField("after"))
    read = {field.name: image.getField(field.name) for field in wanted.fields}
    converted = {
        field.name: values.convert(read[field.name], wire_row[field.name].dataType, field) for field in wanted.fields
    }
    unreadable = [
        F.when(
            read[field.name].isNotNull() & converted[field.name].isNull(),
            F.lit(f'column "{field.name}" has no readable {field.dataType.simpleString()} value'),
        )
        for field in wanted.fields
        if wire_row[field.name].dataType != field.dataType
    ]
    unknown = op.isNull() | ~op.isin(*OPERATIONS)
    malformed = F.coalesce(
        found.malformed,
        F.when(unknown, F.lit("it is not a change event: its operation is missing or unknown")),
        F.when((op == DELETE) & image.isNull(), F.lit("it is a delete without the row before the change")),
        F.when((op != TRUNCATE) & image.isNull(), F.lit("it is a change without the row after the change")),
        *unreadable,
    )
    is_valid = F.col(_MALFORMED).isNull()
    metadata = F.struct(
        F.when(is_valid, op).alias(OP),
        F.when(is_valid, _sequence(found)).alias(SEQUENCE),
        F.when(is_valid, _set_columns(wanted, wire_row, read)).alias(SETS),
        F.col(_MALFORMED).alias(ERROR),
        F.when(~is_valid, found.text).alias(VALUE),
    )
    columns = [F.when(is_valid, value).alias(name) for name, value in converted.items()]
    return found.rows.withColumn(_MALFORMED, malformed).select(*columns, metadata.alias(ENVELOPE))


def _from_json(messages: DataFrame, row: StructType) -> _Envelopes:
    """Messages of the JSON converter, with or without schemas."""
    source = StructType([StructField(name, StringType()) for name in _SOURCE])
    kind = StructType(
        [
            StructField("before", row),
            StructField("after", row),
            StructField("source", source),
            StructField(OP, StringType()),
            StructField("ts_ms", StringType()),
        ]
    )
    message_type = StructType([StructField(_PAYLOAD, kind), *kind.fields, StructField(_MALFORMED, StringType())])
    text = F.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _MALFORMED}
    parsed = messages.withColumn(_MESSAGE, F.from_json(text, message_type, options))
    message = F.col(_MESSAGE)
    bare = F.struct(*[message.getField(name).alias(name) for name in kind.names])
    payload = message.getField(_PAYLOAD)
    rows = parsed.withColumn(_UNPACKED, F.when(payload.isNotNull(), payload).otherwise(bare))
    readable = message.isNotNull() & message.getField(_MALFORMED).isNull()
    malformed = F.when(~readable, F.lit("it is not JSON with values of the column types"))
    return _Envelopes(rows, F.col(_UNPACKED), kind, malformed, text)


def _from_avro(messages: DataFrame, subject: str, registry: str | Mapping[str, Any]) -> _Envelopes:
    """Messages of the Avro converter, in the wire format of Confluent's registry."""
    rows = messages.withColumn(_MESSAGE, from_confluent("value", subject, registry, on_error="report"))
    message = F.col(_MESSAGE)
    payload_type = rows.schema[_MESSAGE].dataType
    kind = payload_type["value"].dataType if isinstance(payload_type, StructType) else payload_type
    if not isinstance(kind, StructType) or not {"before", "after", "source", OP} <= set(kind.names):
        raise invalid_argument(
            "subject", f'the schema of "{subject}" is not a Debezium envelope (before, after, source, op)'
        )
    malformed = message.getField("error")
    return _Envelopes(rows, message.getField("value"), kind, malformed, F.base64(F.col("value")))


def _sequence(found: _Envelopes) -> Column:
    source = found.kind["source"].dataType
    names = source.names if isinstance(source, StructType) else []

    def of(name: str) -> Column:
        value = found.envelope.getField("source").getField(name) if name in names else F.lit(None)
        return value.cast("string")

    clock = found.envelope.getField("ts_ms").cast("string") if "ts_ms" in found.kind.names else F.lit(None)
    parts = [
        _position(of).alias("position"),
        F.coalesce(of("ts_ms"), clock).try_cast("bigint").alias("ts_ms"),
    ]
    if "offset" in found.rows.columns:
        parts.append(F.col("offset").try_cast("bigint").alias("offset"))
    return F.struct(*parts)


def _position(of: Any) -> Column:
    """An event's position in the database log, as a text with the order of the log; NULL if unknown."""

    def number(value: Column, digits: int = _DIGITS) -> Column:
        return F.lpad(F.coalesce(value, F.lit("0")), digits, "0")

    file = F.regexp_extract(of("file"), r"(\d+)$", 1)
    binlog = F.concat_ws(":", number(file), number(of("pos")), number(of("row"), _FEWER_DIGITS))
    changed = F.coalesce(of("change_lsn"), F.lit(_NO_CHANGE_LSN))
    serial = number(of("event_serial_no"), _FEWER_DIGITS)
    return F.coalesce(
        F.when(of("lsn").isNotNull(), number(of("lsn"))),
        F.when(of("file").isNotNull(), binlog),
        F.when(of("commit_lsn").isNotNull(), F.concat_ws(":", of("commit_lsn"), changed, serial)),
    )


def _set_columns(wanted: StructType, wire_row: StructType, read: Mapping[str, Column]) -> Column:
    """The columns that an event sets; NULL means all, unless the log lacks some."""
    placeholders: dict[DataType, str | bytes] = {StringType(): UNAVAILABLE, BinaryType(): _UNAVAILABLE_BYTES}
    is_held = {
        name: ~read[name].eqNullSafe(F.lit(placeholders[wire_row[name].dataType]))
        for name in wanted.names
        if wire_row[name].dataType in placeholders
    }
    if not is_held:
        return F.lit(None).cast("array<string>")
    names = F.array(*[F.when(is_held[n], F.lit(n)) if n in is_held else F.lit(n) for n in wanted.names])
    return F.when(~reduce(Column.__and__, is_held.values()), F.array_compact(names))


def _struct(envelope: StructType, name: str, subject: str) -> StructType:
    found: DataType = envelope[name].dataType
    if not isinstance(found, StructType):
        raise invalid_argument("subject", f'"{name}" in the schema of "{subject}" is not a record')
    return found


def _row_type(row: str | StructType | None) -> StructType | None:
    if row is None or isinstance(row, StructType):
        return row
    try:
        parsed = StructType.fromDDL(row)
    except PySparkException as error:
        raise invalid_argument("row", first_line(str(error))) from error
    if not isinstance(parsed, StructType):
        raise invalid_argument("row", "it is not a list of columns and types")
    return parsed
