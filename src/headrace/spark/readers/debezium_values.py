"""Values of Debezium's messages as those of a table's columns, whichever way the connector writes them.

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

# Microseconds since 1970 that a time of Spark's can be, with room to spare.
_MOST_MICROS = 900_000_000_000_000_000
_UNITS = ("millis", "micros", "nanos", "text")
_DECIMALS = ("bytes", "text")
_MILLIS, _NANOS = 1000, 1000
_NUMBER = r"^-?\d{1,19}$"
# An unscaled value of 16 bytes in hexadecimal digits; Spark has no larger decimals.
_HEX, _HALF, _MOST_DIGITS = 32, 16, 39


class Values:
    """How the values of a row are written.

    Args:
        row: the columns that the user wants.
        timestamps: what numbers in columns of times mean.
        decimals: what texts in columns of decimals mean.
        needed: messages do not say themselves of which type a value is.

    Raises:
        PipelineError: DEBEZIUM.ARGUMENT.
    """

    def __init__(
        self, row: StructType, timestamps: str | Mapping[str, str] | None, decimals: str | None, *, needed: bool
    ) -> None:
        self._times = {field.name: _unit(field.name, timestamps) for field in row.fields if _is_time(field.dataType)}
        self._decimals = decimals
        for field in row.fields:
            if _has_inside(field.dataType):
                kind = field.dataType.simpleString()
                wrong = "nested dates, times and decimals are not converted; use the type in the message"
                raise refused("row", f'"{field.name}" is {kind}: {wrong}')
        unsaid = [name for name, unit in self._times.items() if unit is None]
        if needed and unsaid:
            said = "the unit of its numbers is unknown (see time.precision.mode of the connector)"
            ways = "set millis, micros or nanos, or text if it has no numbers"
            raise refused("timestamps", f'"{unsaid[0]}" is a time, and {said}; {ways}')
        if decimals not in (None, *_DECIMALS):
            raise refused("decimals", f"it must be bytes or text, not {decimals!r}")
        fixed = [field.name for field in row.fields if isinstance(field.dataType, DecimalType)]
        if needed and fixed and decimals is None:
            ways = 'set "bytes" for decimal.handling.mode precise, or "text" for string and double'
            raise refused("decimals", f'"{fixed[0]}" is a decimal, which Debezium encodes in two ways; {ways}')

    def converted(self, value: Column, given: DataType, field: StructField) -> Column:
        """A value in the type of its column; NULL where it is none."""
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
    """The types in which the columns of a row are read from JSON: as text what JSON has no type for."""
    special = (DateType, TimestampType, TimestampNTZType, DecimalType)
    return StructType(
        [StructField(f.name, StringType() if isinstance(f.dataType, special) else f.dataType) for f in row.fields]
    )


def refused(argument: str, reason: str) -> PipelineError:
    """The problem of an argument."""
    return PipelineError("DEBEZIUM.ARGUMENT", argument=argument, reason=reason)


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, (TimestampType, TimestampNTZType))


def _unit(name: str, timestamps: str | Mapping[str, str] | None) -> str | None:
    unit = timestamps.get(name) if isinstance(timestamps, Mapping) else timestamps
    if unit not in (None, *_UNITS):
        raise refused("timestamps", f'the unit of "{name}" must be one of {", ".join(_UNITS)}, not {unit!r}')
    return unit


def _has_inside(kind: DataType) -> bool:
    """True for a type with values inside that are written in another form than they are read."""
    inner: list[DataType] = []
    if isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    special = (DateType, TimestampType, TimestampNTZType, DecimalType)
    return any(isinstance(found, special) or _has_inside(found) for found in inner)


def _date(value: Column, given: DataType) -> Column:
    """Days since 1970, or ISO 8601."""
    if isinstance(given, (TimestampType, TimestampNTZType)):
        return value.try_cast("date")
    text = value.cast("string")
    iso = F.regexp_replace(text, "Z$", "").try_cast("date")
    return F.when(text.rlike(_NUMBER), F.date_from_unix_date(text.try_cast("int"))).otherwise(iso)


def _time(value: Column, unit: str | None, wanted: DataType) -> Column:
    """A number since 1970, or ISO 8601, which has a zone where the database knows one."""
    text = value.cast("string")
    number = text.try_cast("bigint")
    micros = {
        "millis": F.try_multiply(number, F.lit(_MILLIS)),
        "micros": number,
        "nanos": F.call_function("div", F.try_subtract(number, F.pmod(number, F.lit(_NANOS))), F.lit(_NANOS)),
    }.get(unit or "", F.lit(None).cast("bigint"))
    known = F.when(micros.between(-_MOST_MICROS, _MOST_MICROS), micros)
    if isinstance(wanted, TimestampNTZType):
        seconds = (known.cast(DecimalType(20, 0)) * F.lit(Decimal("0.000001"))).cast(DecimalType(18, 6))
        zero = F.lit(0)
        moment = F.to_timestamp_ntz(F.lit("1970-01-01 00:00:00")) + F.make_dt_interval(zero, zero, zero, seconds)
    else:
        moment = F.timestamp_micros(known)
    return F.when(text.rlike(_NUMBER), moment).otherwise(text.try_cast(wanted))


def _decimal(value: Column, wanted: DecimalType) -> Column:
    """The unscaled value as bytes in base64, the highest first, as Kafka Connect's Decimal is written."""
    digits = F.hex(F.try_to_binary(value, F.lit("base64")))
    negative = F.substring(digits, 1, 1).isin(*"89ABCDEF")
    padded = F.when(negative, F.lpad(digits, _HEX, "F")).otherwise(F.lpad(digits, _HEX, "0"))
    high = F.conv(F.substring(padded, 1, _HALF), 16, -10).cast(DecimalType(20, 0))
    low = F.conv(F.substring(padded, _HALF + 1, _HALF), 16, 10).cast(DecimalType(20, 0))
    unscaled = F.try_add(F.try_multiply(high, F.lit(Decimal(1 << 64))), low)
    plain = F.lpad(F.abs(unscaled).cast("string"), _MOST_DIGITS, "0")
    whole = _MOST_DIGITS - wanted.scale
    text = F.concat(F.substring(plain, 1, whole), F.lit("."), F.substring(plain, whole + 1, wanted.scale))
    signed = F.concat(F.when(unscaled < 0, "-").otherwise(""), text)
    return F.when(F.length(digits).between(1, _HEX), signed.try_cast(wanted))
