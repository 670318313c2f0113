"""What a flow reads outside of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.dataset_id import DatasetId


@dataclass(frozen=True)
class ExternalInput:
    """Something outside of the pipeline that a flow reads: files, topics, tables; its *name* has no secrets.

    *kind* is ``auto loader``, ``files`` or ``stream`` for streams, and ``batch`` for what is read at once. *datasets*
    are the names that other systems have for it; empty in logs of older versions.
    """

    kind: str
    name: str
    datasets: tuple[DatasetId, ...] = ()
