"""Columns of texts as columns of other types, all at once where all texts are in the common form."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.arrow_types import arrow_type, decimal_of
from headrace.autoloader.reading.times import NotVectorised, days, moments, within_precision

_WHOLE = r"^-?[0-9]{1,18}$"
_FLOATING = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_FIXED = r"^-?[0-9]+(\.[0-9]+)?$"
_BOOLEAN = r"^(?i:true|false)$"


def typed(texts: pa.Array, kind: str, zone: str) -> pa.Array:
    """The texts in another type.

    Raises:
        NotVectorised: a text is in another form, or no value of the type, and is to be looked at by itself.
    """
    if kind == "string":
        return texts
    if kind == "date":
        return days(texts)
    if kind in ("timestamp", "timestamp_ntz"):
        return moments(texts, zone if kind == "timestamp" else None)
    form = {"boolean": _BOOLEAN, "float": _FLOATING, "double": _FLOATING}.get(
        kind, _FIXED if decimal_of(kind) else _WHOLE
    )
    if not all_match(texts, form):
        raise NotVectorised
    try:
        return within_precision((pc.utf8_lower(texts) if kind == "boolean" else texts).cast(arrow_type(kind)))
    except pa.ArrowInvalid as error:
        raise NotVectorised from error


def all_match(texts: pa.Array, form: str) -> bool:
    """Whether all texts that are not null are in a form."""
    return bool(pc.all(pc.match_substring_regex(texts, form), skip_nulls=True, min_count=0).as_py())


def type_of(texts: pa.Array) -> str:
    """The type that Spark infers for a column of CSV; ``null`` where there is nothing to tell it from.

    After ``CSVInferSchema``: whole numbers are int, long or decimal, then come double, date, timestamp and boolean.
    """
    if texts.null_count == len(texts):
        return "null"
    if all_match(texts, r"^[+-]?[0-9]+$"):
        digits = pc.max(pc.utf8_length(pc.utf8_ltrim(texts, "+-"))).as_py()
        if digits <= 18:
            values = pc.max(pc.abs(pc.utf8_ltrim(texts, "+-").cast(pa.int64()))).as_py()
            return "integer" if values < 2**31 else "long"
        return f"decimal({digits},0)" if digits <= 38 else "double"
    if all_match(texts, r"^[ ]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ ]*$"):
        return "double"
    if all_match(texts, r"^\d{4}-\d{2}-\d{2}$"):
        return "date"
    if all_match(texts, r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"):
        return "timestamp"
    return "boolean" if all_match(texts, _BOOLEAN) else "string"
