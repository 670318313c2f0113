"""Convert columns of text to other types, vectorised if all texts are in the common form; infer their types."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import arrow_type, decimal_of
from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.datetime_columns import (
    NotVectorised,
    check_precision,
    parse_dates,
    parse_timestamps,
)
from headrace.autoloader.reading.conversion.values import TypeMismatch

WHOLE = r"^-?[0-9]{1,18}$"
FLOATING = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_FIXED = r"^-?[0-9]+(\.[0-9]+)?$"
BOOLEAN = r"^(?i:true|false)$"
_DAY = r"^\d{4}-\d{2}-\d{2}$"
_MOMENT = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
# Digits of the longest long, and of the longest decimal.
_LONG_DIGITS, _MAX_DIGITS = 19, 38


def convert_texts(texts: pa.Array, kind: str, zone: str) -> pa.Array:
    """Convert texts to another type.

    Raises:
        NotVectorised: a text is in another form, or invalid, so the values must be converted one by one.
    """
    if kind == "string":
        return texts
    if kind == "date":
        return parse_dates(texts)
    if kind in ("timestamp", "timestamp_ntz"):
        return parse_timestamps(texts, zone if kind == "timestamp" else None)
    form = {"boolean": BOOLEAN, "float": FLOATING, "double": FLOATING}.get(kind, _FIXED if decimal_of(kind) else WHOLE)
    if not all_match(texts, form):
        raise NotVectorised
    try:
        return check_precision((pc.utf8_lower(texts) if kind == "boolean" else texts).cast(arrow_type(kind)))
    except pa.ArrowInvalid as error:
        raise NotVectorised from error


def all_match(texts: pa.Array, form: str) -> bool:
    """Whether all non-null texts match a pattern."""
    return bool(pc.all(pc.match_substring_regex(texts, form), skip_nulls=True, min_count=0).as_py())


@dataclass(frozen=True)
class CsvTypeInference:
    """Infers types of columns of text, as Spark's ``CSVInferSchema``.

    Attributes:
        times: the patterns of dates and times, if there are any.
        dates: whether days are inferred as dates, not as timestamps.
    """

    times: Times | None = None
    dates: bool = True

    def infer(self, texts: pa.Array) -> str:
        """Infer the type of a column; ``null`` if it has no values.

        The first that fits: int, long or decimal for whole numbers, double, date, timestamp, boolean, string.
        """
        if texts.null_count == len(texts):
            return "null"
        if all_match(texts, r"^[+-]?[0-9]+$"):
            return _whole_type(texts)
        if all_match(texts, r"^[ ]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ ]*$"):
            return "double"
        if self.dates and self._all_are(texts, "date", _DAY):
            return "date"
        if self._all_are(texts, "timestamp", _MOMENT):
            return "timestamp"
        return "boolean" if all_match(texts, BOOLEAN) else "string"

    def _all_are(self, texts: pa.Array, kind: str, form: str) -> bool:
        pattern = self.times.patterns.get(kind) if self.times else None
        if pattern is None:
            return all_match(texts, form)
        try:
            for text in pc.unique(texts.drop_null()).to_pylist():
                pattern.read(text)
        except TypeMismatch:
            return False
        return True


def infer_text_type(texts: pa.Array) -> str:
    """Infer the type of a column with default options."""
    return CsvTypeInference().infer(texts)


def _whole_type(texts: pa.Array) -> str:
    digits = pc.utf8_ltrim(pc.utf8_ltrim(texts, "+-"), "0")
    longest = pc.max(pc.utf8_length(digits)).as_py()
    if longest > _MAX_DIGITS:
        return "double"
    if longest > _LONG_DIGITS:
        return f"decimal({longest},0)"
    values = pc.utf8_ltrim(texts, "+").cast(pa.decimal128(_LONG_DIGITS, 0))
    least, most = pc.min(values).as_py(), pc.max(values).as_py()
    if least >= -(2**31) and most < 2**31:
        return "integer"
    return "long" if least >= -(2**63) and most < 2**63 else f"decimal({longest},0)"
