"""Converts values in Debezium messages to the table's column types, for every encoding of the connectors.

Source: Debezium's documentation of its connectors, "Data type mappings": ``time.precision.mode`` and
``decimal.handling.mode``.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.errors import PipelineError

# A limit within Spark's range of timestamps, in microseconds since 1970.
_MAX_MICROS = 900_000_000_000_000_000
_UNITS = ("millis", "micros", "nanos", "text")
_DECIMALS = ("bytes", "text")
_MILLIS, _NANOS = 1000, 1000
_NUMBER = r"^-?\d{1,19}$"
# The hexadecimal digits of a 16-byte unscaled value, the largest that Spark's decimals have.
_HEX, _HALF, _MAX_DECIMAL_DIGITS = 32, 16, 39


class Values:
    """Converts the values of a row.

    Args:
        row: the columns that the user wants.
        timestamps: the unit of numbers in timestamp columns.
        decimals: the encoding of texts in decimal columns.
        requires_units: the messages do not describe the types of values.

    Raises:
        PipelineError: DEBEZIUM.ARGUMENT.
    """

    def __init__(
        self, row: StructType, timestamps: str | Mapping[str, str] | None, decimals: str | None, *, requires_units: bool
    ) -> None:
        self._times = {field.name: _unit(field.name, timestamps) for field in row.fields if _is_time(field.dataType)}
        self._decimals = decimals
        for field in row.fields:
            if _has_nested_special(field.dataType):
                kind = field.dataType.simpleString()
                wrong = "nested dates, times and decimals are not converted; use the type in the message"
                raise invalid_argument("row", f'"{field.name}" is {kind}: {wrong}')
        without_unit = [name for name, unit in self._times.items() if unit is None]
        if requires_units and without_unit:
            problem = "the unit of its numbers is unknown (see time.precision.mode of the connector)"
            choices = "set millis, micros or nanos, or text if it has no numbers"
            raise invalid_argument("timestamps", f'"{without_unit[0]}" is a time, and {problem}; {choices}')
        if decimals not in (None, *_DECIMALS):
            raise invalid_argument("decimals", f"it must be bytes or text, not {decimals!r}")
        fixed = [field.name for field in row.fields if isinstance(field.dataType, DecimalType)]
        if requires_units and fixed and decimals is None:
            choices = 'set "bytes" for decimal.handling.mode precise, or "text" for string and double'
            raise invalid_argument(
                "decimals", f'"{fixed[0]}" is a decimal, which Debezium encodes in two ways; {choices}'
            )

    def convert(self, value: Column, given: DataType, field: StructField) -> Column:
        """A value in its column's type; NULL if it is invalid."""
        wanted = field.dataType
        if given == wanted:
            return value
        if isinstance(wanted, DateType):
            return _date(value, given)
        if isinstance(wanted, (TimestampType, TimestampNTZType)) and not isinstance(given, (TimestampType, DateType)):
            return _time(value, self._times.get(field.name), wanted)
        if isinstance(wanted, DecimalType) and isinstance(given, StringType) and self._decimals == "bytes":
            return _decimal(value, wanted)
        return value.try_cast(wanted)


def wire_type(row: StructType) -> StructType:
    """The types in which the columns are read from JSON; types that JSON lacks are text."""
    special = (DateType, TimestampType, TimestampNTZType, DecimalType)
    return StructType(
        [StructField(f.name, StringType() if isinstance(f.dataType, special) else f.dataType) for f in row.fields]
    )


def invalid_argument(argument: str, reason: str) -> PipelineError:
    """The error for an invalid argument."""
    return PipelineError("DEBEZIUM.ARGUMENT", argument=argument, reason=reason)


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, (TimestampType, TimestampNTZType))


def _unit(name: str, timestamps: str | Mapping[str, str] | None) -> str | None:
    unit = timestamps.get(name) if isinstance(timestamps, Mapping) else timestamps
    if unit not in (None, *_UNITS):
        raise invalid_argument("timestamps", f'the unit of "{name}" must be one of {", ".join(_UNITS)}, not {unit!r}')
    return unit


def _has_nested_special(kind: DataType) -> bool:
    """True for a type with nested values whose encoding differs from their type."""
    inner: list[DataType] = []
    if isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    special = (DateType, TimestampType, TimestampNTZType, DecimalType)
    return any(isinstance(found, special) or _has_nested_special(found) for found in inner)


def _date(value: Column, given: DataType) -> Column:
    """A date from days since 1970, or ISO 8601."""
    if isinstance(given, (TimestampType, TimestampNTZType)):
        return value.try_cast("date")
    text = value.cast("string")
    iso = F.regexp_replace(text, "Z$", "").try_cast("date")
    return F.when(text.rlike(_NUMBER), F.date_from_unix_date(text.try_cast("int"))).otherwise(iso)


def _time(value: Column, unit: str | None, wanted: DataType) -> Column:
    """A timestamp from a number since 1970, or ISO 8601, with a zone if the database has one."""
    text = value.cast("string")
    number = text.try_cast("bigint")
    micros = {
        "millis": F.try_multiply(number, F.lit(_MILLIS)),
        "micros": number,
        "nanos": F.call_function("div", F.try_subtract(number, F.pmod(number, F.lit(_NANOS))), F.lit(_NANOS)),
    }.get(unit or "", F.lit(None).cast("bigint"))
    known = F.when(micros.between(-_MAX_MICROS, _MAX_MICROS), micros)
    if isinstance(wanted, TimestampNTZType):
        seconds = (known.cast(DecimalType(20, 0)) * F.lit(Decimal("0.000001"))).cast(DecimalType(18, 6))
        zero = F.lit(0)
        moment = F.to_timestamp_ntz(F.lit("1970-01-01 00:00:00")) + F.make_dt_interval(zero, zero, zero, seconds)
    else:
        moment = F.timestamp_micros(known)
    return F.when(text.rlike(_NUMBER), moment).otherwise(text.try_cast(wanted))


def _decimal(value: Column, wanted: DecimalType) -> Column:
    """A decimal from its unscaled value as big-endian bytes in base64, the encoding of Kafka Connect's Decimal."""
    digits = F.hex(F.try_to_binary(value, F.lit("base64")))
    negative = F.substring(digits, 1, 1).isin(*"89ABCDEF")
    padded = F.when(negative, F.lpad(digits, _HEX, "F")).otherwise(F.lpad(digits, _HEX, "0"))
    high = F.conv(F.substring(padded, 1, _HALF), 16, -10).cast(DecimalType(20, 0))
    low = F.conv(F.substring(padded, _HALF + 1, _HALF), 16, 10).cast(DecimalType(20, 0))
    unscaled = F.try_add(F.try_multiply(high, F.lit(Decimal(1 << 64))), low)
    plain = F.lpad(F.abs(unscaled).cast("string"), _MAX_DECIMAL_DIGITS, "0")
    whole = _MAX_DECIMAL_DIGITS - wanted.scale
    text = F.concat(F.substring(plain, 1, whole), F.lit("."), F.substring(plain, whole + 1, wanted.scale))
    signed = F.concat(F.when(unscaled < 0, "-").otherwise(""), text)
    return F.when(F.length(digits).between(1, _HEX), signed.try_cast(wanted))
