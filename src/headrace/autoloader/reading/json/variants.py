"""Encode JSON values as Spark's VARIANT: two binary values, the value and the metadata with its names.

Source: the specification "Variant Binary Encoding" of Parquet. Numbers get the same type as in Spark's ``parse_json``:
the smallest integer type, a decimal if it has a decimal point and few enough digits, otherwise double.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.json_scan import Members, Number

# Spark's maximum size (VariantUtil.SIZE_LIMIT).
_MOST_BYTES = 128 * 1024 * 1024
_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE, _DOUBLE, _TEXT = 0, 1, 2, 7, 16
_WHOLE = ((3, 1), (4, 2), (5, 4), (6, 8))
_DECIMALS = ((8, 9, 4), (9, 18, 8), (10, 38, 16))
_SHORTEST_LONG = 64
_FEW = 256


def encode_variant(value: Any) -> Mapping[str, bytes]:
    """Encode a value of ``read_json`` as a variant.

    Raises:
        TypeMismatch: an object has a repeated name, or the variant exceeds Spark's maximum size.
    """
    names = _Names()
    encoded = _value(value, names)
    metadata = names.encode_metadata()
    if max(len(encoded), len(metadata)) > _MOST_BYTES:
        raise TypeMismatch("a variant of more than 128 MB")
    return {"value": encoded, "metadata": metadata}


class _Names:
    """The field names of a variant, each with its id."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def encode_metadata(self) -> bytes:
        texts = [name.encode() for name in self._numbers]
        width = _width(max(sum(map(len, texts)), len(texts)))
        header = 1 | (width - 1) << 6
        return bytes([header]) + _number(len(texts), width) + _offsets(texts, width) + b"".join(texts)


def _value(value: Any, names: _Names) -> bytes:
    if isinstance(value, Members):
        return _object(value, names)
    if isinstance(value, list):
        return _array([_value(inner, names) for inner in value])
    if isinstance(value, Number):
        return _numeric(value)
    if isinstance(value, str):
        return _text(value)
    return _primitive(_NULL if value is None else _TRUE if value else _FALSE)


def _object(members: Members, names: _Names) -> bytes:
    found = {name: (names.number(name), _value(inner, names)) for name, inner in members}
    if len(found) < len(members):
        raise TypeMismatch("an object with a name twice")
    entries = [found[name] for name in sorted(found)]
    width = _width(sum(len(encoded) for _, encoded in entries))
    id_width = _width(max((number for number, _ in entries), default=0))
    large = len(entries) >= _FEW
    header = _OBJECT | (width - 1) << 2 | (id_width - 1) << 4 | large << 6
    ids = b"".join(_number(number, id_width) for number, _ in entries)
    inner = [encoded for _, encoded in entries]
    return bytes([header]) + _number(len(entries), 4 if large else 1) + ids + _offsets(inner, width) + b"".join(inner)


def _array(inner: Sequence[bytes]) -> bytes:
    width = _width(sum(map(len, inner)))
    large = len(inner) >= _FEW
    header = _ARRAY | (width - 1) << 2 | large << 4
    return bytes([header]) + _number(len(inner), 4 if large else 1) + _offsets(inner, width) + b"".join(inner)


def _numeric(number: Number) -> bytes:
    if number.is_whole and len(number) <= 40:
        value = int(number)
        for kind, size in _WHOLE:
            if -(2 ** (8 * size - 1)) <= value < 2 ** (8 * size - 1):
                return _primitive(kind) + value.to_bytes(size, "little", signed=True)
    if "e" not in number.casefold() and number.lstrip("-").replace(".", "", 1).isdecimal():
        encoded = _decimal(Decimal(number))
        if encoded is not None:
            return encoded
    return _primitive(_DOUBLE) + struct.pack("<d", float(number.replace("INF", "inf")))


def _decimal(value: Decimal) -> bytes | None:
    scale = max(-int(value.as_tuple().exponent), 0)
    unscaled = int(value.scaleb(scale)) if len(value.as_tuple().digits) <= 28 else _unscaled(value)
    digits = len(str(abs(unscaled)))
    for kind, most, size in _DECIMALS:
        if digits <= most and scale <= most:
            return _primitive(kind) + bytes([scale]) + unscaled.to_bytes(size, "little", signed=True)
    return None


def _unscaled(value: Decimal) -> int:
    """All digits of a decimal as an integer, regardless of the context's precision."""
    sign, digits, _ = value.as_tuple()
    return (-1 if sign else 1) * int("".join(map(str, digits)))


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) < _SHORTEST_LONG:
        return bytes([_SHORT_TEXT | len(encoded) << 2]) + encoded
    return _primitive(_TEXT) + _number(len(encoded), 4) + encoded


def _primitive(kind: int) -> bytes:
    return bytes([_PRIMITIVE | kind << 2])


def _offsets(parts: Sequence[bytes], width: int) -> bytes:
    at, found = 0, [_number(0, width)]
    for part in parts:
        at += len(part)
        found.append(_number(at, width))
    return b"".join(found)


def _width(most: int) -> int:
    return max((most.bit_length() + 7) // 8, 1)


def _number(value: int, width: int) -> bytes:
    return value.to_bytes(width, "little")
