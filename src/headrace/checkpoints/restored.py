"""Copies of a checkpoint in which a query goes on, as another query and from other offsets of some sources.

The id of the query must be new: Delta's tables keep the ids of the batches that they have, also after a restore, and
would take new batches for the old ones.

Offsets are moved in the last two planned batches. When a query continues, Spark asks each source for the last batch
again (``MicroBatchExecution.populateStartOffsets``): from the end of the batch before it to its own end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from headrace.checkpoints.initial_offsets import DeltaPosition
from headrace.checkpoints.offsets import newest_batches, read_progress
from headrace.delta_log.tables import TableVersion
from headrace.stores.copies import copy_tree, sync_folder
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, remove_tree

_METADATA, _OFFSETS = "metadata", "offsets"
# The lines before the first source: the version, and the metadata of the batch.
_HEADER_LINES = 2


def copy_behind(source: StoragePath, checkpoint: StoragePath, versions: Mapping[str, TableVersion]) -> None:
    """Copy a checkpoint, with positions in some tables moved behind versions; nothing happens without a checkpoint.

    Args:
        source: the checkpoint, whose newest batch is completed.
        checkpoint: the path of the copy; nothing happens if it exists.
        versions: by the id that positions in a table have, the table and the version behind which reading goes on.
    """
    if not (source / _METADATA).is_file():
        return
    progress = read_progress(source)
    moved = {
        number: DeltaPosition(table.table_id, table.version + 1).offset()
        for number, offset in enumerate(progress.offsets if progress is not None else ())
        if isinstance(offset, Mapping) and (table := versions.get(str(offset.get("reservoirId")))) is not None
    }
    copy_checkpoint(source, checkpoint, str(uuid4()), moved)


def copy_checkpoint(
    source: StoragePath, checkpoint: StoragePath, query_id: str, moved: Mapping[int, Mapping[str, Any]]
) -> None:
    """Copy a checkpoint whose newest batch is completed; the copy appears whole. Nothing happens if it exists.

    Args:
        source: the checkpoint, which does not change.
        checkpoint: the path of the copy.
        query_id: the id of the query that continues from it, a unique UUID.
        moved: new offsets as Spark stores them, by the number of the source.
    """
    if (checkpoint / _METADATA).is_file():
        return
    # In an object store, the file of metadata is written last: without it, a crash has left the rest.
    in_store = isinstance(checkpoint, ObjectPath)
    draft = checkpoint if in_store else checkpoint.with_name(f".{checkpoint.name}.{os.getpid()}")
    remove_tree(draft)
    copy_tree(source, draft, without=_METADATA)
    (draft / f".{_METADATA}.crc").unlink(missing_ok=True)
    newest, _ = newest_batches(source)
    if newest is not None and moved:
        for batch in (newest - 1, newest):
            _move(draft / _OFFSETS / str(batch), moved)
    _write(draft / _METADATA, json.dumps({"id": query_id}))
    if isinstance(draft, Path) and isinstance(checkpoint, Path):
        remove_tree(checkpoint)
        draft.rename(checkpoint)
        sync_folder(checkpoint.parent)


def _move(offsets: StoragePath, moved: Mapping[int, Mapping[str, Any]]) -> None:
    try:
        lines = offsets.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        # There is no batch before the first one.
        return
    for number, offset in moved.items():
        lines[_HEADER_LINES + number] = json.dumps(offset)
    offsets.with_name(f".{offsets.name}.crc").unlink(missing_ok=True)
    _write(offsets, "\n".join(lines))


def _write(file: StoragePath, text: str) -> None:
    """Write a file; one that is there may be a link to another's, which must not change."""
    if isinstance(file, ObjectPath):
        file.write_bytes(text.encode())
        return
    file.unlink(missing_ok=True)
    with file.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
