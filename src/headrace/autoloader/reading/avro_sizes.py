"""How many bytes the values of an Avro schema take at least, and a bound for those that take none.

A file of a few bytes can claim any number of records, or of entries of an array, that take no bytes: nulls, or records
without fields. What holds none of these is bounded by the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import local
from typing import Any

from fastavro.read import LOGICAL_READERS

Wire = Any

# What takes no bytes may come so often, beside once for each byte that is there.
MOST_WITHOUT_BYTES = 100_000
_NOTHING = "headrace-nothing"
_LEAST: Mapping[str, int] = {"null": 0, "float": 4, "double": 8}
_left = local()


class TooManyOfNothing(ValueError):
    """A block claims more entries without bytes than it can mean."""


def least_bytes(wire: Wire) -> int:
    """The bytes that a value takes at least; 1 for all that take any, but for numbers of a fixed size."""
    if isinstance(wire, str):
        return _LEAST.get(wire, 1)
    if isinstance(wire, list):
        return 1
    kind = wire["type"]
    if kind == "record":
        return sum(least_bytes(field["type"]) for field in wire["fields"])
    return int(wire["size"]) if kind == "fixed" else least_bytes(kind)


def counting(wire: Wire) -> Wire:
    """The schema, with entries of arrays that take no bytes counted while they are decoded."""
    if isinstance(wire, list):
        return [counting(branch) for branch in wire]
    if not isinstance(wire, dict):
        return wire
    if wire["type"] == "record":
        return {**wire, "fields": [{**field, "type": counting(field["type"])} for field in wire["fields"]]}
    if wire["type"] == "map":
        return {**wire, "values": counting(wire["values"])}
    if wire["type"] != "array":
        return wire
    items = counting(wire["items"])
    if least_bytes(items) == 0:
        items = {**(items if isinstance(items, dict) else {"type": items}), "logicalType": _NOTHING}
    return {**wire, "items": items}


def begin_block(size: int) -> None:
    """Begin to count: of what takes no bytes, a block of so many bytes may hold some for each of them."""
    _left.count = size + MOST_WITHOUT_BYTES


def _counted(value: Any, *_: Any) -> Any:
    _left.count -= 1
    if _left.count < 0:
        raise TooManyOfNothing("a block of it claims more entries without bytes than it can mean")
    return value


for _kind in ("null", "record", "fixed"):
    LOGICAL_READERS[f"{_kind}-{_NOTHING}"] = _counted
