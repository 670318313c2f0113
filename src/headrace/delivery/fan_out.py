"""Delivers a batch to several targets. If one fails, the others do not get the batch again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from headrace.delivery.identity import writer_of
from headrace.storage.deliveries import last_delivered, record_delivered

_DIGEST_LENGTH = 16


def deliver_to_all(
    batch: DataFrame,
    batch_id: int,
    places: Mapping[str, Callable[[DataFrame, int], object]],
    notes: str | Path,
    *,
    name: str | None = None,
) -> None:
    """Deliver a batch with several functions, computed once, and record which of them succeeded.

    All functions are called, even if one fails. A repeated batch goes only to those that have not succeeded, and to one
    that succeeded if a crash came before the record.

    Args:
        batch: the rows.
        batch_id: the batch number that the function got.
        places: functions of the batch and its number, by stable names.
        notes: a folder for the record, on the driver's disk. Keep it as long as the query's checkpoint.
        name: identifies this write of the batch; a call outside of a streaming query needs one.

    Raises:
        Exception: the first function's error, after all were called.
    """
    digest = hashlib.sha256(writer_of(batch, "\n".join(sorted(places)), name).encode()).hexdigest()[:_DIGEST_LENGTH]
    folder = Path(notes) / digest
    delivered = last_delivered(folder, 0)
    first: Exception | None = None
    rows = batch.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        for target_name, deliver in places.items():
            if delivered.get(target_name, -1) >= batch_id:
                continue
            try:
                deliver(rows, batch_id)
            except Exception as error:  # noqa: BLE001 - raised below, after the others are called
                first = first or error
                continue
            delivered[target_name] = batch_id
            record_delivered(folder, 0, delivered)
    finally:
        rows.unpersist()
    if first is not None:
        raise first
