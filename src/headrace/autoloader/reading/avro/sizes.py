"""The minimum size of values of an Avro schema, and a limit for values that take no bytes.

A file of a few bytes can claim any number of records or array items that take no bytes: nulls, or records without
fields. The number of all other values is limited by the bytes in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import local
from typing import Any

from fastavro.read import LOGICAL_READERS

Wire = Any

# Maximum number of empty values, in addition to one per byte.
MAX_EMPTY_VALUES = 100_000
_EMPTY_ITEM = "headrace-nothing"
_MIN_BYTES: Mapping[str, int] = {"null": 0, "float": 4, "double": 8}
_buffered = local()


class TooManyEmptyItems(ValueError):
    """A block claims more empty items than allowed."""


def min_bytes(wire: Wire) -> int:
    """A lower bound of a value's bytes: exact for numbers of a fixed size, 1 for other non-empty types."""
    if isinstance(wire, str):
        return _MIN_BYTES.get(wire, 1)
    if isinstance(wire, list):
        return 1
    kind = wire["type"]
    if kind == "record":
        return sum(min_bytes(field["type"]) for field in wire["fields"])
    return int(wire["size"]) if kind == "fixed" else min_bytes(kind)


def counting_empty_items(wire: Wire) -> Wire:
    """Mark array items that take no bytes in a schema, so that the decoder counts them."""
    if isinstance(wire, list):
        return [counting_empty_items(branch) for branch in wire]
    if not isinstance(wire, dict):
        return wire
    if wire["type"] == "record":
        return {**wire, "fields": [{**field, "type": counting_empty_items(field["type"])} for field in wire["fields"]]}
    if wire["type"] == "map":
        return {**wire, "values": counting_empty_items(wire["values"])}
    if wire["type"] != "array":
        return wire
    items = counting_empty_items(wire["items"])
    if min_bytes(items) == 0:
        items = {**(items if isinstance(items, dict) else {"type": items}), "logicalType": _EMPTY_ITEM}
    return {**wire, "items": items}


def start_block(size: int) -> None:
    """Reset the count of empty items for a block of *size* bytes."""
    _buffered.count = size + MAX_EMPTY_VALUES


def _counted(value: Any, *_: Any) -> Any:
    _buffered.count -= 1
    if _buffered.count < 0:
        raise TooManyEmptyItems("a block claims an implausible number of empty entries")
    return value


for _kind in ("null", "record", "fixed"):
    LOGICAL_READERS[f"{_kind}-{_EMPTY_ITEM}"] = _counted
