"""The ledger of a file stream in an object store: numbered segments, and snapshots of all segments up to a number.

A segment has the rows that changed since the one before, whose id it names. It is written only if its number is free,
so that of two writers one fails. A snapshot has all rows. What it replaces is deleted once it is written.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headrace.autoloader.ledger.connection import damaged_error
from headrace.errors import PipelineError
from headrace.stores.object_path import ObjectPath
from headrace.stores.object_store import ObjectMeta
from headrace.stores.parallel import in_parallel

FORMAT = 1
_NAME = re.compile(r"(segment|snapshot)-(\d{12})\.json\.gz")


@dataclass(frozen=True)
class Segment:
    """A segment, or a snapshot of all segments up to a number.

    Attributes:
        ledger: the id of the ledger.
        number: from 1; of a snapshot, the number of its last segment.
        id: unique; of a snapshot, the id of its last segment.
        after: the id of the segment before; empty for the first one.
        last_number: the highest number that the ledger has given to a file.
        rows: for each table, the rows that are new or changed; of a snapshot, all rows.
        removed: for each table, the keys of rows that were deleted.
        format: the version of this format.
    """

    ledger: str
    number: int
    id: str
    after: str
    last_number: int
    rows: Mapping[str, Sequence[Sequence[Any]]]
    removed: Mapping[str, Sequence[Any]]
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        """The content of the object."""
        return gzip.compress(json.dumps(asdict(self), separators=(",", ":")).encode(), mtime=0)

    @staticmethod
    def of(content: bytes) -> Segment:
        """The inverse of :meth:`to_bytes`.

        Raises:
            OSError, EOFError, ValueError, TypeError: the content is not a segment.
        """
        document = json.loads(gzip.decompress(content))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}, which this version reads")
        return Segment(**document)


@dataclass(frozen=True)
class StoredSegments:
    """What a ledger has in the store.

    Attributes:
        snapshot: the newest snapshot; None without one.
        segments: the objects of all segments by their numbers.
        older: the keys of what the snapshot replaces.
        snapshot_number: the number of the snapshot, 0 without one.
    """

    snapshot: ObjectMeta | None
    segments: Mapping[int, ObjectMeta]
    older: tuple[str, ...]
    snapshot_number: int

    @property
    def last(self) -> int:
        """The number of the newest segment, also if only a snapshot has it."""
        return max(self.snapshot_number, *self.segments, 0)

    @property
    def exists(self) -> bool:
        """Whether the store has a segment or a snapshot."""
        return self.last > 0

    def tag(self, number: int) -> str | None:
        """The tag of a segment; None if it is not in the store."""
        found = self.segments.get(number)
        return found.tag if found is not None else None


class SegmentLog:
    """The segments of one ledger. All methods raise OSError if the store does not answer."""

    def __init__(self, folder: ObjectPath, ledger_id: str) -> None:
        self.folder = folder
        self._ledger_id = ledger_id

    def listing(self) -> StoredSegments:
        """The segments and the snapshot that the store has now."""
        found: dict[str, dict[int, ObjectMeta]] = {"segment": {}, "snapshot": {}}
        for meta in self.folder.store.list_folder(self.folder.key).objects:
            name = _NAME.fullmatch(meta.name)
            if name is not None:
                found[name[1]][int(name[2])] = meta
        newest = max(found["snapshot"], default=0)
        older = [meta.key for number, meta in found["segment"].items() if number < newest]
        older += [meta.key for number, meta in found["snapshot"].items() if number < newest]
        segments = {number: meta for number, meta in found["segment"].items() if number >= newest}
        return StoredSegments(found["snapshot"].get(newest), segments, tuple(older), newest)

    def append(self, segment: Segment) -> str | None:
        """Write the next segment; returns its tag, or None if the number is taken.

        Law: of all writers of one number, exactly one gets a tag, also if the segment was replaced by a snapshot since.
        """
        tag = self.folder.store.put_if_absent(self._key("segment", segment.number), segment.to_bytes())
        # Behind a snapshot, numbers are free again.
        return tag if tag is not None and self.listing().snapshot_number < segment.number else None

    def write_snapshot(self, snapshot: Segment) -> None:
        """Write a snapshot, and delete what it replaces."""
        self.folder.store.put_if_absent(self._key("snapshot", snapshot.number), snapshot.to_bytes())
        self.folder.store.delete(*self.listing().older)

    def read_after(self, number: int, segment_id: str, stored: StoredSegments) -> list[Segment]:
        """The segments after a number, in order; from 0, the snapshot comes first.

        Args:
            number: the number of the last segment that is known.
            segment_id: its id; empty for number 0.
            stored: what the store has.

        Raises:
            PipelineError: ``AUTO_LOADER.LEDGER_DAMAGED``: a segment is missing, unreadable, or follows another one;
                ``AUTO_LOADER.LEDGER_OF_ANOTHER``: it is of another ledger.
            FileNotFoundError: a segment was replaced by a snapshot meanwhile.
        """
        wanted = [stored.snapshot] if not number and stored.snapshot is not None else []
        first = max(number, stored.snapshot_number if not number else 0) + 1
        for one in range(first, stored.last + 1):
            if one not in stored.segments:
                raise self._damaged(f"segment {one} of {stored.last} is missing")
            wanted.append(stored.segments[one])
        read = in_parallel(self._read, wanted)
        for segment in read:
            is_next = segment.after == segment_id if segment.number == number + 1 else not number
            if not is_next:
                raise self._damaged(f"segment {segment.number} does not follow the segment before it")
            number, segment_id = segment.number, segment.id
        return read

    def delete(self) -> None:
        """Delete the ledger."""
        self.folder.store.delete_below(self.folder.key)

    def _read(self, meta: ObjectMeta) -> Segment:
        content, _ = self.folder.store.get(meta.key)
        try:
            segment = Segment.of(content)
        except (OSError, EOFError, ValueError, TypeError) as error:
            raise self._damaged(f'"{meta.name}" cannot be read: {error}') from error
        if segment.ledger != self._ledger_id:
            raise PipelineError("AUTO_LOADER.LEDGER_OF_ANOTHER", file=self.folder, ledger=segment.ledger)
        return segment

    def _damaged(self, reason: str) -> PipelineError:
        return damaged_error(self.folder, reason)

    def _key(self, kind: str, number: int) -> str:
        return f"{self.folder.key}/{kind}-{number:012}.json.gz"
