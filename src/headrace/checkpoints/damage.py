"""Finds damaged files in a checkpoint, such as empty ones after a power loss, and moves those that can be spared.

Two kinds can be removed without data loss. A damaged commit file: the batch is computed again, and its transaction
prevents duplicate rows. A damaged offset file of a batch that no other store knows: the batch is planned again. Any
other damaged file holds information that exists nowhere else.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass

from headrace.checkpoints.offsets import newest_batches
from headrace.stores.paths import StoragePath, move_file

# A checksum file of Hadoop's: a magic number, the number of bytes per checksum, the checksums.
_MAGIC, _NUMBER_BYTES = b"crc\0", 4


@dataclass(frozen=True)
class Damage:
    """A damaged file of a checkpoint.

    Attributes:
        file: its path.
        reason: what is wrong with it.
        is_repairable: whether it can be removed without data loss.
    """

    file: StoragePath
    reason: str
    is_repairable: bool


def find_damage(checkpoint: StoragePath, known: int) -> Damage | None:
    """The first damage of a checkpoint that keeps its stream from continuing, or None.

    Args:
        checkpoint: the checkpoint, which may not exist.
        known: the newest batch that a table, a sink or the event log has; -1 for none.
    """
    metadata = checkpoint / "metadata"
    if metadata.is_file() and (reason := _corruption(metadata, 0)):
        return Damage(metadata, reason, is_repairable=False)
    planned, done = newest_batches(checkpoint)
    if done is not None and (reason := _corruption(checkpoint / "commits" / str(done))):
        return Damage(checkpoint / "commits" / str(done), reason, is_repairable=done == planned)
    if planned is None:
        return None
    newest = checkpoint / "offsets" / str(planned)
    if reason := _corruption(newest):
        return Damage(newest, reason, is_repairable=planned > max(known, -1 if done is None else done))
    # Spark also reads the offsets at which the newest batch started.
    before = checkpoint / "offsets" / str(planned - 1)
    if planned > 0 and (reason := _corruption(before)):
        return Damage(before, reason, is_repairable=False)
    return None


def move_damaged_file(damage: Damage, folder: StoragePath) -> StoragePath:
    """Move a damaged file and its checksum file out of its checkpoint; returns its new path.

    The checksum file is moved first: without it, the file is still recognised as damaged.

    Args:
        damage: the damaged file.
        folder: where to move it; created if missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    checksums = _checksum_file(damage.file)
    name = f"{damage.file.parent.name}-{damage.file.name}"
    if checksums.exists():
        move_file(checksums, folder / f"{name}.crc")
    return move_file(damage.file, folder / name)


def _corruption(file: StoragePath, header_lines: int = 1) -> str | None:
    """What is wrong with a file of *header_lines* lines followed by lines of JSON; None when it is intact."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return "the file is missing"
    if not content:
        return "the file is empty"
    try:
        lines = content.decode().split("\n")
        if header_lines and not lines[0].startswith("v"):
            return "the first line is not a version"
        if not lines[header_lines:]:
            return "it has only its first line"
        for line in lines[header_lines:]:
            if line not in ("-", ""):
                json.loads(line)
    except ValueError as error:
        return str(error)
    return _checksum_mismatch(file, content)


def _checksum_mismatch(file: StoragePath, content: bytes) -> str | None:
    try:
        checksums = _checksum_file(file).read_bytes()
    except FileNotFoundError:
        return None
    size = int.from_bytes(checksums[len(_MAGIC) : len(_MAGIC) + _NUMBER_BYTES], "big")
    if not checksums.startswith(_MAGIC) or size < 1:
        return f"its checksum file {_checksum_file(file).name} is damaged"
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    expected = b"".join(zlib.crc32(part).to_bytes(_NUMBER_BYTES, "big") for part in parts)
    return None if checksums[len(_MAGIC) + _NUMBER_BYTES :] == expected else "its content does not match its checksum"


def _checksum_file(file: StoragePath) -> StoragePath:
    return file.with_name(f".{file.name}.crc")
