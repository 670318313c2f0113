"""Converts positions in a hub from the vendor's JSON to options of Spark's Kafka source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.options.values import time_ms

# The ends of a partition as offsets of Spark's Kafka source.
_EDGES = {"latest": -1, "earliest": -2}
# The ends of a partition as times: no event is before the first, and none at or after the last.
_EDGE_TIMES = {"latest": 253_402_300_799_000, "earliest": 0}
_SHAPE = 'use a JSON object such as {"offset": "-1", "seqNo": -1, "enqueuedTime": null}'
_IN_USE = "set exactly one of offset, seqNo and enqueuedTime; set the others to null, or seqNo to -1"


class Edge(str, Enum):
    """The ends of a partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class Position:
    """The start or end of a read: an end of the partition, a sequence number, or a time."""

    edge: Edge | None = None
    sequence: int | None = None
    time_ms: int | None = None

    @staticmethod
    def start_or_end(side: str) -> Position:
        """The vendor's default: from the start of the stream, and up to its end for a batch."""
        return Position(Edge.EARLIEST if side == "starting" else Edge.LATEST)


def read_position(given: Any, time_zone: str, *, is_end: bool = False) -> Position:
    """A position from its JSON. The end of a batch (*is_end*) is before the event with its number.

    Raises:
        ValueError: it is invalid, or an offset in bytes, which the Kafka endpoint does not have.

    Source for the end of a batch: the connector's ``EventHubsClient.translate``, which ignores ``isInclusive`` of a
    sequence number, and ``OffsetRange``, whose end is exclusive.
    """
    if not isinstance(given, Mapping):
        raise ValueError(_SHAPE)  # noqa: TRY004 - a value of an option, not an argument
    known = {"offset", "seqno", "enqueuedtime", "isinclusive"}
    found = {str(name).casefold(): value for name, value in given.items()}
    if set(found) - known:
        raise ValueError(f"unknown field in a position: {', '.join(sorted(set(found) - known))}")
    offset, moment = found.get("offset"), found.get("enqueuedtime")
    sequence = found.get("seqno")
    sequence = None if sequence in (-1, None) else sequence
    if sum(part is not None for part in (offset, moment, sequence)) != 1:
        raise ValueError(_IN_USE)
    inclusive = found.get("isinclusive", True)
    if not isinstance(inclusive, bool):
        raise ValueError("isInclusive must be true or false")  # noqa: TRY004 - a value of an option, not an argument
    if offset is not None:
        return Position(_edge(str(offset)))
    if moment is not None:
        return Position(time_ms=time_ms(str(moment), time_zone) + (0 if inclusive else 1))
    if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 0:
        raise ValueError("seqNo must be a whole number")
    return Position(sequence=sequence + (0 if inclusive or is_end else 1))


def read_positions(given: Any, hub: str | None, time_zone: str, *, is_end: bool = False) -> dict[int, Position]:
    """Positions by partition; each key is JSON with the hub's name and the partition's number.

    Without *hub*, the names are not checked.

    Raises:
        ValueError: a key or a position is invalid.
    """
    if not isinstance(given, Mapping):
        raise ValueError("use a JSON object of positions")  # noqa: TRY004 - the same
    found = {}
    for key, position in given.items():
        try:
            partition = json.loads(key)
            hub_name, number = partition.get("ehName", hub), int(partition["partitionId"])
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError('write each key as JSON such as {"ehName": "hub", "partitionId": 0}') from None
        if hub is not None and hub_name != hub:
            raise ValueError("a key names a different event hub than the connection string")
        found[number] = read_position(position, time_zone, is_end=is_end)
    return found


def positions_as_options(
    side: str, hub: str, default: Position, partitions: Mapping[int, Position] | None = None
) -> dict[str, str]:
    """Spark's options for the start (*side* ``starting``) or the end (``ending``) of a read.

    Raises:
        ValueError: times are mixed with sequence numbers, or a number is set without known partitions.
    """
    if partitions is None and default.sequence is None:
        if default.edge is not None:
            return {f"{side}Offsets": default.edge.value}
        return {f"{side}Timestamp": str(default.time_ms), **_missing_time_strategy(side)}
    if partitions is None:
        raise ValueError(f"a sequence number applies to one partition only; use eventhubs.{side}Positions")
    ordered = sorted(partitions.items())
    if not any(position.time_ms is not None for position in partitions.values()):
        offsets = {str(number): _offset_of(position) for number, position in ordered}
        return {f"{side}Offsets": json.dumps({hub: offsets})}
    if any(position.sequence is not None for position in partitions.values()):
        raise ValueError("times and sequence numbers cannot be combined")
    times = {str(number): _time_of(position) for number, position in ordered}
    return {f"{side}OffsetsByTimestamp": json.dumps({hub: times}), **_missing_time_strategy(side)}


def _offset_of(position: Position) -> int | None:
    return position.sequence if position.edge is None else _EDGES[position.edge.value]


def _time_of(position: Position) -> int | None:
    return position.time_ms if position.edge is None else _EDGE_TIMES[position.edge.value]


def _missing_time_strategy(side: str) -> dict[str, str]:
    # If no event is so late, the vendor's connector starts at the end. The end of a batch is the latest anyway.
    return {"startingOffsetsByTimestampStrategy": "latest"} if side == "starting" else {}


def _edge(offset: str) -> Edge:
    if offset == "-1":
        return Edge.EARLIEST
    if offset == "@latest":
        return Edge.LATEST
    raise ValueError('Kafka has no byte offsets: use seqNo, enqueuedTime, "-1" or "@latest"')
