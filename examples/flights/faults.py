"""What goes wrong between an airport and a data lake, in small seeded shares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

MAX_LATENESS_HOURS = 24
"""No record lands later than this after its hour; the pipeline's watermarks are wider, so they lose nothing."""


class Fault(Enum):
    """One way in which a record of the feed goes wrong; the value is how the ledger calls it."""

    LATE = "landed late"
    DUPLICATE = "landed twice"
    TRUNCATED = "cut off"
    WRONG_TYPE = "wrong type"
    JUNK = "binary junk"
    NO_DISTANCE = "flew nowhere"
    TIME_TRAVEL = "arrived a day early"
    NEGATIVE_AIR_TIME = "negative air time"
    NO_CARRIER = "no carrier"


MISPLACED = (Fault.LATE, Fault.DUPLICATE)
"""The record itself is fine; only where and how often it lands is not."""
MALFORMED = (Fault.TRUNCATED, Fault.WRONG_TYPE, Fault.JUNK)
"""The line is not a flight in JSON."""
IMPOSSIBLE = (Fault.NO_DISTANCE, Fault.TIME_TRAVEL, Fault.NEGATIVE_AIR_TIME, Fault.NO_CARRIER)
"""The line reads well and cannot be true."""

SHARES: Mapping[Fault, float] = {
    Fault.LATE: 0.005,
    Fault.DUPLICATE: 0.003,
    Fault.TRUNCATED: 0.0006,
    Fault.WRONG_TYPE: 0.0006,
    Fault.JUNK: 0.0003,
    Fault.NO_DISTANCE: 0.0007,
    Fault.TIME_TRAVEL: 0.0004,
    Fault.NEGATIVE_AIR_TIME: 0.0004,
    Fault.NO_CARRIER: 0.0010,
}

_WRONG_TYPES: tuple[Mapping[str, Any], ...] = (
    {"dep_delay": "abc"},
    {"distance": {"miles": 733}},
    {"air_time": "two hours"},
    {"flight": 15.45},
    {"time_hour": "yesterday"},
)


def draw(
    size: int, shares: Mapping[Fault, float], random: np.random.Generator
) -> np.ndarray[Any, np.dtype[np.object_]]:
    """At most one fault for each of *size* records (None: none), in the given shares."""
    choices = np.array([*shares, None], dtype=object)
    return random.choice(choices, size, p=[*shares.values(), 1 - sum(shares.values())])


def spoil(line: bytes, fault: Fault, random: np.random.Generator) -> bytes:
    """The JSON line (newline included) as it lands when *fault* befalls it; always one line, and never an empty one."""
    if fault in MISPLACED:
        return line
    if fault is Fault.TRUNCATED:
        return line[: random.integers(1, len(line) - 1)] + b"\n"
    if fault is Fault.JUNK:
        # Above 13, so that no byte of it ends the line.
        return b"\xff\xfe" + random.integers(14, 256, size=40, dtype=np.uint8).tobytes() + b"\n"
    record = json.loads(line)
    return json.dumps({**record, **_spoilt_fields(record, fault, random)}, separators=(",", ":")).encode() + b"\n"


def _spoilt_fields(record: Mapping[str, Any], fault: Fault, random: np.random.Generator) -> Mapping[str, Any]:
    match fault:
        case Fault.WRONG_TYPE:
            return _WRONG_TYPES[random.integers(len(_WRONG_TYPES))]
        case Fault.NO_DISTANCE:
            return {"distance": int(random.choice([0, -1, -record["distance"]]))}
        case Fault.TIME_TRAVEL:
            return {"arr_delay": (record["arr_delay"] or 0) - 24 * 60}
        case Fault.NEGATIVE_AIR_TIME:
            return {"air_time": -int(random.integers(1, 300))}
        case Fault.NO_CARRIER:
            return {"carrier": None}
        case _:
            raise ValueError(f"{fault} does not change a record")
