"""Positions in a hub, as the vendor's connector writes them, and as Spark's Kafka source takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.sources.kafka_options import milliseconds

# How Spark's Kafka source writes the ends of a partition among offsets.
_EDGES = {"latest": -1, "earliest": -2}
_SHAPE = 'it is a JSON object like {"offset": "-1", "seqNo": -1, "enqueuedTime": null}'
_IN_USE = "exactly one of offset, seqNo and enqueuedTime is in use; the others are null, and seqNo is -1"


class Edge(str, Enum):
    """The ends of a partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class Position:
    """Where to begin or end: at an end of the partition, at a sequence number, or at a time."""

    edge: Edge | None = None
    sequence: int | None = None
    time_ms: int | None = None

    @staticmethod
    def start_or_end(side: str) -> Position:
        """The vendor's default: the start of the stream, and its end for a batch."""
        return Position(Edge.EARLIEST if side == "starting" else Edge.LATEST)


def read_position(given: Any, time_zone: str) -> Position:
    """A position from its JSON.

    Raises:
        ValueError: it is none, or an offset in bytes, which the Kafka surface does not have.
    """
    if not isinstance(given, Mapping):
        raise ValueError(_SHAPE)  # noqa: TRY004 - a value of an option, not an argument
    known = {"offset", "seqno", "enqueuedtime", "isinclusive"}
    found = {str(name).casefold(): value for name, value in given.items()}
    if set(found) - known:
        raise ValueError(f"it has {', '.join(sorted(set(found) - known))}, which no position has")
    offset, moment = found.get("offset"), found.get("enqueuedtime")
    sequence = found.get("seqno")
    sequence = None if sequence in (-1, None) else sequence
    if sum(part is not None for part in (offset, moment, sequence)) != 1:
        raise ValueError(_IN_USE)
    inclusive = found.get("isinclusive", True) is not False
    if offset is not None:
        return Position(_edge(str(offset)))
    if moment is not None:
        return Position(time_ms=milliseconds(str(moment), time_zone) + (0 if inclusive else 1))
    if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 0:
        raise ValueError("seqNo is a whole number")
    return Position(sequence=sequence + (0 if inclusive else 1))


def read_positions(given: Any, hub: str, time_zone: str) -> dict[int, Position]:
    """Positions by partition; each key is JSON of the hub's name and the partition's number.

    Raises:
        ValueError: a key or a position is none.
    """
    if not isinstance(given, Mapping):
        raise ValueError("it is a JSON object of positions")  # noqa: TRY004 - the same
    found = {}
    for key, position in given.items():
        try:
            place = json.loads(key)
            named, number = place.get("ehName", hub), int(place["partitionId"])
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError('a key is JSON like {"ehName": "hub", "partitionId": 0}') from None
        if named != hub:
            raise ValueError("a key names another hub than the connection string")
        found[number] = read_position(position, time_zone)
    return found


def positions_as_options(
    side: str, hub: str, everywhere: Position, partitions: Mapping[int, Position] | None = None
) -> dict[str, str]:
    """Spark's options for where to begin (*side* ``starting``) or end (``ending``).

    Raises:
        ValueError: times and sequence numbers are mixed, or a number is given for partitions that are not known.
    """
    if partitions is None and everywhere.sequence is None:
        if everywhere.edge is not None:
            return {f"{side}Offsets": everywhere.edge.value}
        return {f"{side}Timestamp": str(everywhere.time_ms), **_late(side)}
    if partitions is None:
        raise ValueError("a sequence number is one partition's: give it with eventhubs." + f"{side}Positions")
    if all(position.time_ms is not None for position in partitions.values()):
        times = {str(number): position.time_ms for number, position in sorted(partitions.items())}
        return {f"{side}OffsetsByTimestamp": json.dumps({hub: times}), **_late(side)}
    if any(position.time_ms is not None for position in partitions.values()):
        raise ValueError("Kafka's source takes times for all partitions or for none")
    offsets = {
        str(number): position.sequence if position.edge is None else _EDGES[position.edge.value]
        for number, position in sorted(partitions.items())
    }
    return {f"{side}Offsets": json.dumps({hub: offsets})}


def _late(side: str) -> dict[str, str]:
    # The vendor's connector waits at the end where no event is so late; an end is the latest one anyway.
    return {"startingOffsetsByTimestampStrategy": "latest"} if side == "starting" else {}


def _edge(offset: str) -> Edge:
    if offset == "-1":
        return Edge.EARLIEST
    if offset == "@latest":
        return Edge.LATEST
    raise ValueError('an offset in bytes has no meaning for Kafka: use seqNo, enqueuedTime, "-1" or "@latest"')
