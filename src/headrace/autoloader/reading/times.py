"""Columns of dates and times from columns of text, all at once where all are in the common form."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

_MOST_DIGITS = 38
_DAY = r"^\d{4}-\d{2}-\d{2}$"
_CLOCK_FACE = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
_ZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:?\d{2})$"


class NotVectorised(ValueError):
    """A text is in another form, or no date at all, and is to be looked at by itself."""


def days(texts: pa.Array) -> pa.Array:
    """Dates from ``yyyy-mm-dd``.

    Raises:
        NotVectorised: a text is something else.
    """
    _check(texts, _DAY)
    return _cast(texts, pa.date32())


def moments(texts: pa.Array, zone: str | None) -> pa.Array:
    """Times from ISO 8601; those of no zone are in *zone*, and where that is None none may have one.

    Raises:
        NotVectorised: a text is something else, or falls into the hours at which a zone's clocks are changed.
    """
    plain = pa.timestamp("us")
    if zone is None:
        _check(texts, _CLOCK_FACE)
        return _cast(texts, plain)
    if _all(texts, _ZONED):
        return _cast(texts, pa.timestamp("us", tz="UTC"))
    _check(texts, _CLOCK_FACE)
    try:
        local = pc.assume_timezone(_cast(texts, plain), zone, ambiguous="raise", nonexistent="raise")
    except pa.ArrowException as error:
        raise NotVectorised from error
    return local.cast(pa.timestamp("us", tz="UTC"))


def _all(texts: pa.Array, form: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, form), skip_nulls=True, min_count=0).as_py())


def _check(texts: pa.Array, form: str) -> None:
    if not _all(texts, form):
        raise NotVectorised


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:
        raise NotVectorised from error


def within_precision(values: pa.Array) -> pa.Array:
    """The same values; Arrow reads more digits into a decimal than its type has.

    Raises:
        NotVectorised: a decimal has more digits than its type.
    """
    kind = values.type
    if pa.types.is_decimal(kind) and kind.precision < _MOST_DIGITS:
        wide = values.cast(pa.decimal256(_MOST_DIGITS + kind.scale, kind.scale))
        limit = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide.type)
        if pc.any(pc.greater_equal(pc.abs(wide), limit), skip_nulls=True, min_count=0).as_py():
            raise NotVectorised
    return values
