"""Files of a checkpoint that are not what Spark wrote, such as empty ones after a loss of power; and what mends them.

Two kinds can be mended without a loss. A file that says that a batch is done can go: the batch is computed once more,
and its transaction keeps its rows from coming twice. One that says what a batch is to read can go while nothing knows
the batch: it is planned anew. Whatever else is torn holds something that nothing else knows.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from headrace.checkpoints.offsets import newest_batches

# Hadoop's sums: a magic number, how many bytes each sum is of, the sums.
_MAGIC, _NUMBER_BYTES = b"crc\0", 4


@dataclass(frozen=True)
class Damage:
    """A file that cannot be used.

    Attributes:
        file: which.
        reason: what is wrong with it.
        mendable: whether it can be set aside without a loss.
    """

    file: Path
    reason: str
    mendable: bool


def damage_of(checkpoint: Path, known: int) -> Damage | None:
    """The first damage of a checkpoint that keeps its stream from going on, or None.

    Args:
        checkpoint: which may not be there.
        known: the newest batch that a table, a sink or the event log knows; -1 for none.
    """
    metadata = checkpoint / "metadata"
    if metadata.is_file() and (reason := _torn(metadata, 0)):
        return Damage(metadata, reason, mendable=False)
    planned, done = newest_batches(checkpoint)
    if done is not None and (reason := _torn(checkpoint / "commits" / str(done))):
        return Damage(checkpoint / "commits" / str(done), reason, mendable=done == planned)
    if planned is None:
        return None
    newest = checkpoint / "offsets" / str(planned)
    if reason := _torn(newest):
        return Damage(newest, reason, mendable=planned > max(known, -1 if done is None else done))
    # Spark asks the sources for what the newest batch began at.
    before = checkpoint / "offsets" / str(planned - 1)
    if planned > 0 and (reason := _torn(before)):
        return Damage(before, reason, mendable=False)
    return None


def set_aside(damage: Damage, aside: Path) -> Path:
    """Move a damaged file, and the sums of it, out of its checkpoint; where it is now.

    The sums go first: without them the file is as damaged as before.

    Args:
        damage: of which file.
        aside: a folder, which is made.
    """
    aside.mkdir(parents=True, exist_ok=True)
    sums = _sums(damage.file)
    name = f"{damage.file.parent.name}-{damage.file.name}"
    if sums.exists():
        sums.replace(aside / f"{name}.crc")
    return damage.file.replace(aside / name)


def _torn(file: Path, headed: int = 1) -> str | None:
    """What is wrong with a file that has *headed* lines in front of lines of JSON; None when it is whole."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return "the file is missing"
    if not content:
        return "the file is empty"
    try:
        lines = content.decode().split("\n")
        if headed and not lines[0].startswith("v"):
            return "the first line is not a version"
        if not lines[headed:]:
            return "it has only its first line"
        for line in lines[headed:]:
            if line not in ("-", ""):
                json.loads(line)
    except ValueError as error:
        return str(error)
    return _sums_that_differ(file, content)


def _sums_that_differ(file: Path, content: bytes) -> str | None:
    try:
        sums = _sums(file).read_bytes()
    except FileNotFoundError:
        return None
    size = int.from_bytes(sums[len(_MAGIC) : len(_MAGIC) + _NUMBER_BYTES], "big")
    if not sums.startswith(_MAGIC) or size < 1:
        return f"its checksum file {_sums(file).name} is damaged"
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    expected = b"".join(zlib.crc32(part).to_bytes(_NUMBER_BYTES, "big") for part in parts)
    return None if sums[len(_MAGIC) + _NUMBER_BYTES :] == expected else "its content does not match its checksum"


def _sums(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")
