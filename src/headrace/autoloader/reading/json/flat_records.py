"""Put each record of a JSON text over several lines on a line of its own, without parsing it."""

from __future__ import annotations

import re

import numpy as np

from headrace.autoloader.reading.json.structure import (
    CLOSES_OBJECT,
    DEPTH_STEPS,
    OPENS_ARRAY,
    OPENS_OBJECT,
    SPACES,
    Bytes,
    JsonMarks,
)
from headrace.autoloader.reading.lines import parts

_PART_BYTES = 1024 * 1024
# Not in a longer line, because of the memory.
_MOST_BYTES = 8 * _PART_BYTES
_SPACE, _LINE_END = 0x20, 0x0A
# The tokens outside of records: one array of them, or one after the other, with any number of commas.
_ARRAY = re.compile(rb"\[(?:\{\}(?:,\{\})*)?\]")
_SEQUENCE = re.compile(rb"(?:\{\},*)*")


def flat_records(text: bytes) -> bytes | None:
    """The records of a text, which is one array of objects or objects one after the other, each on one line.

    Only spaces between tokens change. None if the text is something else, its strings or brackets are not closed, or a
    line is too long. If a text is not valid JSON, nor is the result.
    """
    letters: Bytes = np.frombuffer(text, dtype=np.uint8).copy()
    outside, ends = [], []
    depth, base, begin = 0, -1, 0
    for part in parts(text, _PART_BYTES):
        marks = JsonMarks(part) if len(part) <= _MOST_BYTES else None
        if marks is None or not marks.has_closed_strings.all():
            return None
        if base < 0 and len(marks.kinds):
            base = int(marks.kinds[0] == OPENS_ARRAY)
        steps = DEPTH_STEPS[marks.kinds]
        after = np.cumsum(steps, dtype=np.int64) + depth
        depth = int(after[-1]) if len(after) else depth
        at_base = np.flatnonzero(np.minimum(after, after - steps) <= base)
        places, kinds = marks.positions[at_base] + begin, marks.kinds[at_base]
        outside.append(kinds.tobytes())
        ends.append(places[kinds == CLOSES_OBJECT] + 1)
        within = letters[begin : begin + len(part)]
        within[within == _LINE_END] = _SPACE
        letters[places[(kinds != OPENS_OBJECT) & (kinds != CLOSES_OBJECT)]] = _SPACE
        begin += len(part)
    if depth or not (_ARRAY if base == 1 else _SEQUENCE).fullmatch(b"".join(outside)):
        return None
    after_records = np.concatenate([np.empty(0, dtype=np.int64), *ends])
    after_records = after_records[after_records < len(letters)]
    if not SPACES[letters[after_records]].all():
        return None
    letters[after_records] = _LINE_END
    return letters.tobytes().rstrip()
