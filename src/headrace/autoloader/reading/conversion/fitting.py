"""Convert columns of text: the values that fit at once, and which are left to be converted one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import arrow_type, decimal_of
from headrace.autoloader.reading.conversion.datetime_columns import CLOCK_FACE, DAY, ZONED, NotVectorised, assume_zone
from headrace.autoloader.reading.conversion.datetime_patterns import DatePattern
from headrace.autoloader.reading.conversion.pattern_columns import PatternColumn
from headrace.autoloader.reading.conversion.text_columns import BOOLEAN, FLOATING, WHOLE, convert_texts

Positions = npt.NDArray[np.int64]
NONE: Positions = np.empty(0, dtype=np.int64)
# If a value of so few does not fit, all of them are left to be converted one by one.
_FEW = 64
_FORMS: Mapping[str, tuple[str, ...]] = {
    "date": (DAY,),
    "timestamp": (ZONED, CLOCK_FACE),
    "timestamp_ntz": (CLOCK_FACE,),
    "boolean": (BOOLEAN,),
    "float": (FLOATING,),
    "double": (FLOATING,),
}


class TextConverter:
    """Converts columns of text to a type.

    Args:
        kind: the type; not a nested one.
        zone: the time zone of times without one.
        pattern: the pattern of dates or times, if there is one; one of :func:`can_vectorise`.
    """

    def __init__(self, kind: str, zone: str, pattern: DatePattern | None = None) -> None:
        self._kind = kind
        self._zone = zone
        self._pattern = pattern

    def convert(self, texts: pa.Array) -> tuple[pa.Array, Positions]:
        """Convert texts. Returns the values, and the positions of texts that may not fit, or fit in another form."""
        if self._pattern is not None:
            return self._by_pattern(texts, self._pattern)
        try:
            return convert_texts(texts, self._kind, self._zone), NONE
        except NotVectorised:
            return self._by_forms(texts)

    def _by_forms(self, texts: pa.Array) -> tuple[pa.Array, Positions]:
        values = pa.nulls(len(texts), arrow_type(self._kind))
        others, unfit = texts, []
        for form in self._forms():
            fits = pc.fill_null(pc.match_substring_regex(others, form), fill_value=False)
            nothing = pa.scalar(None, texts.type)
            found, left = convert_parts(
                pc.if_else(fits, others, nothing), lambda part: convert_texts(part, self._kind, self._zone)
            )
            values = pc.coalesce(values, found)
            others = pc.if_else(fits, nothing, others)
            unfit.append(left)
        return values, np.concatenate([*unfit, _places(others)])

    def _forms(self) -> tuple[str, ...]:
        digits = decimal_of(self._kind)
        if digits:
            whole, scale = digits[0] - digits[1], digits[1]
            return (
                rf"^-?0*[0-9]{{1,{whole}}}(\.[0-9]{{1,{scale}}})?$" if whole and scale else r"^-?[0-9]+(\.[0-9]+)?$",
            )
        return _FORMS.get(self._kind, (WHOLE,))

    def _by_pattern(self, texts: pa.Array, pattern: DatePattern) -> tuple[pa.Array, Positions]:
        column = PatternColumn(texts, pattern)
        left = NONE
        if self._kind == "date":
            values = column.dates()
        elif self._kind == "timestamp_ntz":
            values = column.local_times()
        else:
            instants = column.instants()
            local = pa.array(column.micros, mask=~column.fits | column.has_offset).cast(pa.timestamp("us"))
            in_zone, left = convert_parts(local, lambda part: assume_zone(part, self._zone))
            values = pc.coalesce(instants, in_zone)
        is_text = texts.is_valid().to_numpy(zero_copy_only=False)
        return values, np.concatenate([left, np.flatnonzero(is_text & ~column.fits)])


def convert_parts(values: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, Positions]:
    """Convert values that nearly all fit: at once, else by halves.

    Args:
        values: the values.
        convert: raises :class:`NotVectorised` if one of them does not fit.

    Returns:
        The converted values, and the positions of those that are left.
    """
    try:
        return convert(values), NONE
    except NotVectorised:
        pass
    if len(values) <= _FEW:
        return pa.nulls(len(values), convert(values.slice(0, 0)).type), _places(values)
    middle = len(values) // 2
    (first, first_left), (second, second_left) = (
        convert_parts(half, convert) for half in (values.slice(0, middle), values.slice(middle))
    )
    return pa.concat_arrays([first, second]), np.concatenate([first_left, second_left + middle])


def _places(values: pa.Array) -> Positions:
    """The positions of values that are not null."""
    return np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
