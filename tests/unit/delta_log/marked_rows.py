"""Deletion vectors, which delta-rs does not write.

Source: PROTOCOL.md of Delta, "Deletion Vectors"; the portable format of Roaring bitmaps.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from pathlib import Path
from typing import Any

from headrace.delta_log.table_files import live_adds

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_FEATURES = ["deletionVectors"]
_PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _FEATURES, "writerFeatures": _FEATURES}


def mark_deleted(path: str, rows: list[int], version: int, *, in_file: bool) -> None:
    """Commit a version in which the only file of a table has deleted rows, by their numbers in the file."""
    (add,) = live_adds(path, version - 1)
    data = _bitmap(rows)
    vector: dict[str, Any] = {"storageType": "i", "pathOrInlineDv": _z85(data)}
    if in_file:
        number = uuid.UUID(int=7)
        file = Path(path, "ab", f"deletion_vector_{number}.bin")
        file.parent.mkdir()
        file.write_bytes(b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data)))
        vector = {"storageType": "u", "pathOrInlineDv": f"ab{_z85(number.bytes)}", "offset": 1}
    vector |= {"sizeInBytes": len(data), "cardinality": len(rows)}
    stored = {name: value for name, value in add.items() if value is not None}
    actions = [
        {"protocol": _PROTOCOL},
        {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**stored, "dataChange": True, "modificationTime": 1, "deletionVector": vector}},
    ]
    commit = Path(path, "_delta_log", f"{version:020d}.json")
    commit.write_text("\n".join(map(json.dumps, actions)))


def _bitmap(rows: list[int]) -> bytes:
    numbers = sorted(rows)
    one = struct.pack("<IIHHI", 12346, 1, 0, len(numbers) - 1, 16) + struct.pack(f"<{len(numbers)}H", *numbers)
    return struct.pack("<IQI", 1681511377, 1, 0) + one


def _z85(data: bytes) -> str:
    data += b"\0" * (-len(data) % 4)
    words = [int.from_bytes(data[start : start + 4], "big") for start in range(0, len(data), 4)]
    return "".join(_LETTERS[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))
