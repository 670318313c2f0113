"""One batch to several places: one that fails does not make the others take it again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from headrace.delivery.identity import writer_of
from headrace.storage.deliveries import last_delivered, note_delivered

_DIGEST_LENGTH = 16


def deliver_to_all(
    batch: DataFrame,
    batch_id: int,
    places: Mapping[str, Callable[[DataFrame, int], object]],
    notes: str | Path,
    *,
    name: str | None = None,
) -> None:
    """Hand a batch to several functions, from one computation; which of them have taken it is noted.

    All are called, whichever fails. A batch that comes again goes to those alone that have not taken it; one that took
    it and could not be noted before a crash takes it again.

    Args:
        batch: the rows.
        batch_id: the number that the function got.
        places: what takes the batch and its number, by a name that stays the same.
        notes: a folder on the driver's disk that lives as long as the query's checkpoint.
        name: tells this write of the batch from others; a call that no streaming query makes needs one.

    Raises:
        Exception: what the first function that failed has raised, once all were called.
    """
    digest = hashlib.sha256(writer_of(batch, "\n".join(sorted(places)), name).encode()).hexdigest()[:_DIGEST_LENGTH]
    folder = Path(notes) / digest
    taken = last_delivered(folder, 0)
    first: Exception | None = None
    rows = batch.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        for place, deliver in places.items():
            if taken.get(place, -1) >= batch_id:
                continue
            try:
                deliver(rows, batch_id)
            except Exception as error:  # noqa: BLE001 - raised below, once the others are called
                first = first or error
                continue
            taken[place] = batch_id
            note_delivered(folder, 0, taken)
    finally:
        rows.unpersist()
    if first is not None:
        raise first
