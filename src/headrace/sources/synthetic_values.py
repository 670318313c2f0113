"""Values of synthetic rows as Arrow arrays. Each depends only on the seed, the column and the row's number.

A value is derived from a 64-bit code, and the code from a counter by the finaliser of SplitMix64 (Steele, Lea and
Flood, "Fast splittable pseudorandom number generators", 2014), so any row can be generated without those before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import NoArrowType, arrow_type, decimal_of
from headrace.model.ddl import JsonType

Codes = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LETTERS = 8
_MAX_ELEMENTS = 4
_DAY_US = 86_400_000_000
# Types with few values: a map with such keys has one entry at most, so that no key repeats.
_FEW_VALUED_KEYS = ("boolean", "byte")
_LIMITS: Mapping[str, tuple[int, Any]] = {
    "byte": (100, np.int8),
    "short": (10_000, np.int16),
    "integer": (1_000_000, np.int32),
    "long": (1_000_000_000, np.int64),
}


def codes_of(numbers: Codes, salt: int) -> Codes:
    """A code for each number; codes of different salts are independent."""
    with np.errstate(over="ignore"):
        mixed: Codes = numbers * _GOLDEN + np.uint64(salt)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        return mixed


def salt_of(*names: object) -> int:
    """The salt of a purpose, such as a seed and a column's name."""
    digest = hashlib.sha256("\x00".join(map(str, names)).encode())
    return int.from_bytes(digest.digest()[:8], "little")


def uniform(codes: Codes) -> npt.NDArray[np.float64]:
    """Numbers from 0 to below 1."""
    return np.asarray((codes >> np.uint64(11)) * 2.0**-53)


def zipf_ranks(codes: Codes, count: int, exponent: float) -> npt.NDArray[np.int64]:
    """Ranks from 0 to below *count*, rank k in proportion to (k + 1) ** -exponent."""
    shares = uniform(codes)
    if not exponent:
        return np.minimum((shares * count).astype(np.int64), count - 1)
    return np.minimum(np.searchsorted(_cumulated(count, exponent), shares, side="right"), count - 1)


@lru_cache(maxsize=4)
def _cumulated(count: int, exponent: float) -> npt.NDArray[np.float64]:
    sums = np.cumsum(np.arange(1, count + 1, dtype=np.float64) ** -exponent)
    return np.asarray(sums / sums[-1])


def values_of(kind: JsonType, codes: Codes, start_us: int) -> pa.Array:
    """A value of a Spark type for each code; dates and times are within a year from *start_us*.

    Raises:
        NoArrowType: the type is not supported.
    """
    if isinstance(kind, str):
        return _plain(kind, codes, start_us)
    if kind["type"] == "struct":
        fields = kind["fields"]
        children = [values_of(field["type"], codes_of(codes, salt_of(field["name"])), start_us) for field in fields]
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)))
    has_few_values = kind["type"] == "map" and kind["keyType"] in _FEW_VALUED_KEYS
    lengths = (codes % np.uint64(2 if has_few_values else _MAX_ELEMENTS)).astype(np.int64)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    inner = _elements(codes, lengths)
    if kind["type"] == "array":
        return pa.ListArray.from_arrays(offsets, values_of(kind["elementType"], inner, start_us), type=arrow_type(kind))
    keys = values_of(kind["keyType"], codes_of(inner, salt_of("key")), start_us)
    items = values_of(kind["valueType"], codes_of(inner, salt_of("value")), start_us)
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(kind))


def _elements(codes: Codes, lengths: npt.NDArray[np.int64]) -> Codes:
    firsts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    positions = (np.arange(lengths.sum()) - firsts).astype(np.uint64)
    with np.errstate(over="ignore"):
        return codes_of(np.repeat(codes, lengths) + positions, salt_of("element"))


def _plain(kind: str, codes: Codes, start_us: int) -> pa.Array:
    digits = decimal_of(kind)
    if digits is not None:
        return _decimals(codes, *digits)
    if kind in _LIMITS:
        limit, number = _LIMITS[kind]
        return pa.array((codes % np.uint64(limit)).astype(number))
    if kind == "boolean":
        return pa.array((codes & np.uint64(1)).astype(bool))
    if kind in ("float", "double"):
        cents = (codes % np.uint64(100_000)).astype(np.float64) / 100
        return pa.array(cents.astype(np.float32 if kind == "float" else np.float64))
    if kind == "string":
        return letters(codes)
    if kind == "binary":
        return _fixed(codes.astype("<u8").tobytes(), len(codes), 8, pa.binary())
    if kind == "date":
        days = start_us // _DAY_US + (codes % np.uint64(365)).astype(np.int64)
        return pa.array(days.astype(np.int32)).cast(pa.date32())
    if kind in ("timestamp", "timestamp_ntz"):
        moments = start_us + (codes % np.uint64(365 * _DAY_US)).astype(np.int64)
        return pa.array(moments).cast(arrow_type(kind))
    if kind == "variant":
        raise NoArrowType("VARIANT values are not supported")
    return pa.nulls(len(codes), arrow_type(kind))


def letters(codes: Codes) -> pa.Array:
    """A text of eight letters for each code."""
    powers = np.uint64(26) ** np.arange(_LETTERS, dtype=np.uint64)
    positions = (codes[:, None] // powers) % np.uint64(26)
    return _fixed((positions + np.uint64(ord("a"))).astype(np.uint8).tobytes(), len(codes), _LETTERS, pa.string())


def with_nulls(values: pa.Array, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    """The values, with NULL where *is_null* is true."""
    if not is_null.any():
        return values
    return values.take(pa.array(np.arange(len(values)), mask=is_null))


def texts_with_number(prefix: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Texts such as ``key-17``."""
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def _decimals(codes: Codes, precision: int, scale: int) -> pa.Array:
    # Two words of 64 bits each, the lower one first; the upper one is 0.
    words = np.zeros((len(codes), 2), dtype="<u8")
    words[:, 0] = codes % np.uint64(10 ** min(precision, 18))
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(codes), [None, pa.py_buffer(words.tobytes())])


def _fixed(data: bytes, count: int, width: int, kind: pa.DataType) -> pa.Array:
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)])
