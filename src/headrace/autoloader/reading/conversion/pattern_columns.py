"""Convert columns of text to dates and times by a pattern, vectorised."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.datetime_patterns import MONTHS, DatePattern

_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]
_DAY_MICROS = 86_400_000_000
_YEARS = (1, 9999)
_FIRST_MICROS = int(np.datetime64("0001-01-01", "us").astype(np.int64))
_LAST_MICROS = int(np.datetime64("9999-12-31T23:59:59.999999", "us").astype(np.int64))
_MOST_OFFSET_HOURS = 14


class PatternColumn:
    """The times of texts in a pattern.

    Attributes:
        fits: which texts have been parsed. The others may be invalid, or valid in a rare form.
        micros: the local times, in microseconds since 1970.
        has_offset: which of them name an offset from UTC.
        offsets: these offsets, in microseconds.
    """

    def __init__(self, texts: pa.Array, pattern: DatePattern) -> None:
        found = pc.extract_regex(texts, f"(?i)^(?:{pattern.form})$")
        self.fits: _Flags = found.is_valid().to_numpy(zero_copy_only=False)
        count = len(texts)
        self.has_offset: _Flags = np.zeros(count, dtype=np.bool_)
        self.offsets: _Numbers = np.zeros(count, dtype=np.int64)
        numbers: dict[str, _Numbers] = {}
        for place, piece in enumerate(pattern.pieces):
            # Rows without a match, and parts that are missing, are empty.
            written = pc.fill_null(found.field(place), "")
            if piece.field == "zone":
                self._read_offsets(written)
            else:
                numbers[piece.field] = self._read(piece.field, piece.form, written)
        self.micros: _Numbers = self._micros(numbers)

    def _read(self, field: str, form: str, written: pa.Array) -> _Numbers:
        if field == "S":
            written = pc.utf8_rpad(pc.utf8_slice_codeunits(written, 0, 6), 6, "0")
        elif field == "a":
            written = pc.if_else(pc.equal(pc.utf8_lower(written), "pm"), "1", "0")
        elif form.startswith(MONTHS[0][:3]):
            months = pa.array([name[:3].lower() for name in MONTHS])
            place = pc.index_in(pc.utf8_slice_codeunits(pc.utf8_lower(written), 0, 3), months)
            # No month has the number 0.
            written = pc.if_else(pc.equal(written, ""), "", pc.fill_null(pc.add(place, 1), 0).cast(pa.string()))
        missing = pc.equal(written, "")
        numbers: _Numbers = pc.if_else(missing, "0", written).cast(pa.int64()).to_numpy(zero_copy_only=False)
        first = {"y": 1970, "M": 1, "d": 1, "D": 1, "k": 24}.get(field, 0)
        century = 2000 if field == "y" and form == r"\d\d" else 0
        return np.where(missing.to_numpy(zero_copy_only=False), first, numbers + century)

    def _read_offsets(self, written: pa.Array) -> None:
        plain = pc.replace_substring(written, ":", "")
        self.has_offset = pc.not_equal(written, "").to_numpy(zero_copy_only=False)
        is_utc = pc.equal(pc.utf8_upper(plain), "Z").to_numpy(zero_copy_only=False)

        def part(begin: int) -> _Numbers:
            text = pc.utf8_slice_codeunits(plain, begin, begin + 2)
            digits = pc.if_else(pc.match_substring_regex(text, r"^\d\d$"), text, "0").cast(pa.int64())
            found: _Numbers = digits.to_numpy(zero_copy_only=False)
            return found

        sign = np.where(pc.starts_with(written, "-").to_numpy(zero_copy_only=False), -1, 1)
        hours, minutes, seconds = part(1), part(3), part(5)
        self.fits &= is_utc | ~self.has_offset | ((hours < _MOST_OFFSET_HOURS) & (minutes < 60) & (seconds == 0))
        self.offsets = np.where(is_utc, 0, sign * (hours * 3600 + minutes * 60) * 1_000_000)

    def _micros(self, numbers: Mapping[str, _Numbers]) -> _Numbers:
        count = len(self.fits)

        def of(field: str, first: int = 0) -> _Numbers:
            return numbers.get(field, np.full(count, first, dtype=np.int64))

        year, month, day = of("y", 1970), of("M", 1), of("d", 1)
        self._check(year, *_YEARS)
        self._check(month, 1, 12)
        first = (np.where(self.fits, year, 1970) - 1970).astype("M8[Y]").astype("M8[M]")
        first = first + np.where(self.fits, month, 1) - 1
        begin = first.astype("M8[D]").astype(np.int64)
        self.fits &= (day >= 1) & (day <= (first + 1).astype("M8[D]").astype(np.int64) - begin)
        days = begin + day - 1
        if "D" in numbers:
            # Of the year; with a month or day too, the other parser decides.
            self.fits &= (month == 1) & (day == 1)
            next_year = (np.where(self.fits, year, 1970) - 1969).astype("M8[Y]").astype("M8[D]").astype(np.int64)
            self.fits &= (numbers["D"] >= 1) & (days + numbers["D"] - 1 < next_year)
            days = days + numbers["D"] - 1
        hour, minute, second = self._hour(numbers, count), of("m"), of("s")
        self._check(minute, 0, 59)
        self._check(second, 0, 59)
        clock = ((hour * 60 + minute) * 60 + second) * 1_000_000 + of("S")
        return np.where(self.fits, days * _DAY_MICROS + clock, 0)

    def _hour(self, numbers: Mapping[str, _Numbers], count: int) -> _Numbers:
        for field, least, most in (("H", 0, 23), ("k", 1, 24), ("h", 1, 12), ("K", 0, 11)):
            if field in numbers:
                self._check(numbers[field], least, most)
        half = numbers.get("h", numbers.get("K"))
        if half is not None:
            return half % 12 + 12 * numbers.get("a", np.zeros(count, dtype=np.int64))
        return numbers.get("H", numbers.get("k", np.zeros(count, dtype=np.int64)) % 24)

    def _check(self, numbers: _Numbers, least: int, most: int) -> None:
        self.fits &= (numbers >= least) & (numbers <= most)

    def dates(self) -> pa.Array:
        """The dates; NULL for texts that do not fit."""
        return pa.array((self.micros // _DAY_MICROS).astype(np.int32), mask=~self.fits).cast(pa.date32())

    def local_times(self) -> pa.Array:
        """The local times; NULL for texts that do not fit, or that name an offset."""
        self.fits &= ~self.has_offset
        return pa.array(self.micros, mask=~self.fits).cast(pa.timestamp("us"))

    def instants(self) -> pa.Array:
        """The times in UTC, of texts that name an offset; NULL for the others."""
        micros = self.micros - self.offsets
        self.fits &= ~self.has_offset | ((micros >= _FIRST_MICROS) & (micros <= _LAST_MICROS))
        return pa.array(micros, mask=~(self.fits & self.has_offset)).cast(pa.timestamp("us", tz="UTC"))


def can_vectorise(pattern: DatePattern) -> bool:
    """Whether texts in a pattern can be parsed as a column.

    Not if it has a zone's name, a part twice, or an hour of half a day that can be missing.
    """
    fields = [piece.field for piece in pattern.pieces]
    is_optional = ")?" in pattern.form and not {"h", "K"}.isdisjoint(fields)
    names_zone = any("A-Za-z" in piece.form for piece in pattern.pieces)
    return len(set(fields)) == len(fields) and not (is_optional or names_zone)
