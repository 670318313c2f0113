"""What the checkpoint of another program's query says: its query, its batches, its sources, its state.

The files are Spark's. What Databricks alone writes is recognised, because open-source Spark cannot read it. Source:
the public documentation of Databricks for the offsets of Auto Loader (``seqNum``, ``lastBackfillStartTimeMs``), for its
folder ``rocksdb`` in ``sources`` and for the class of its state store; no checkpoint of Databricks was at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.checkpoints.offsets import batch_metadata, newest_batches, query_id_of, read_progress
from headrace.checkpoints.state_stores import state_operators
from headrace.errors import PipelineError
from headrace.settings.vendor_confs import STATE_PROVIDER
from headrace.stores.paths import StoragePath

_NONE = -1
_VENDOR_PACKAGE = "com.databricks."
_OFFSETS_VERSION = "v1"


class OffsetKind(str, Enum):
    """The kind of a source, as its offset shows it; the value is the word for it."""

    DELTA = "Delta table"
    FILES = "files"
    KAFKA = "Kafka topics"
    AUTO_LOADER = "Auto Loader"
    VENDOR_AUTO_LOADER = "Auto Loader of Databricks"
    NOTHING = "a source that has read nothing"
    OTHER = "another source"


@dataclass(frozen=True)
class ForeignSource:
    """A source of a query, as its newest offset shows it."""

    kind: OffsetKind
    offset: Any


@dataclass(frozen=True)
class ForeignCheckpoint:
    """The checkpoint of a query that did not run here.

    Attributes:
        path: its folder.
        query_id: the id of the query, under which Delta's sink commits.
        planned: the newest planned batch; -1 for none.
        done: the newest completed batch; -1 for none.
        sources: the sources in the order of their offsets; empty before the first batch.
        operators: what each stateful operator does, in Spark's order.
        provider: the class of its state stores; empty if unknown.
        metadata: what Spark stored with the newest offsets: watermark, time and confs.
    """

    path: StoragePath
    query_id: str
    planned: int
    done: int
    sources: tuple[ForeignSource, ...]
    operators: tuple[str, ...] = ()
    provider: str = ""
    metadata: Mapping[str, Any] | None = None

    @property
    def vendor_parts(self) -> tuple[str, ...]:
        """What only Databricks can read of it, in words; empty for a checkpoint of open-source Spark."""
        found = [
            f'source {number} is Auto Loader of Databricks ("cloudFiles")'
            for number, source in enumerate(self.sources)
            if source.kind is OffsetKind.VENDOR_AUTO_LOADER
        ]
        if self.provider.startswith(_VENDOR_PACKAGE) and self.operators:
            found.append(f"its state is in {self.provider}")
        return tuple(found)


def read_foreign(checkpoint: StoragePath) -> ForeignCheckpoint:
    """Read a checkpoint.

    Raises:
        PipelineError: ADOPT.NOT_A_CHECKPOINT, ADOPT.CHECKPOINT_DAMAGED.
    """
    query_id = query_id_of(checkpoint)
    if query_id is None:
        reason = "it has no file metadata with the id of a query"
        raise PipelineError("ADOPT.NOT_A_CHECKPOINT", path=checkpoint, reason=reason)
    planned, done = newest_batches(checkpoint)
    progress = read_progress(checkpoint)
    if planned is None or progress is None:
        return ForeignCheckpoint(checkpoint, query_id, _NONE, _NONE, ())
    _check_version(checkpoint, planned)
    if not progress.offsets:
        file = checkpoint / "offsets" / str(planned)
        raise PipelineError("ADOPT.CHECKPOINT_DAMAGED", path=checkpoint, reason=f"{file} is not whole")
    metadata = batch_metadata(checkpoint, planned)
    sources = tuple(
        ForeignSource(_kind_of(checkpoint, number, offset), offset) for number, offset in enumerate(progress.offsets)
    )
    conf = metadata.get("conf", {})
    return ForeignCheckpoint(
        checkpoint,
        query_id,
        planned,
        # A batch is planned once the one before it is done, whether or not its file is left.
        max(_NONE if done is None else done, planned - 1),
        sources,
        tuple(operator.name for operator in state_operators(checkpoint)),
        str(conf.get(STATE_PROVIDER, "")) if isinstance(conf, Mapping) else "",
        metadata,
    )


def _check_version(checkpoint: StoragePath, batch: int) -> None:
    file = checkpoint / "offsets" / str(batch)
    version = file.read_text(encoding="utf-8").partition("\n")[0].strip()
    if version and version != _OFFSETS_VERSION:
        reason = f"{file} has the format {version[:20]}, and only {_OFFSETS_VERSION} is known"
        raise PipelineError("ADOPT.CHECKPOINT_DAMAGED", path=checkpoint, reason=reason)


def _kind_of(checkpoint: StoragePath, number: int, offset: Any) -> OffsetKind:
    source = checkpoint / "sources" / str(number)
    if (source / "rocksdb").exists():
        return OffsetKind.VENDOR_AUTO_LOADER
    if offset is None:
        return OffsetKind.NOTHING
    if not isinstance(offset, Mapping):
        return OffsetKind.OTHER
    if "seqNum" in offset and "reservoirId" not in offset:
        return OffsetKind.VENDOR_AUTO_LOADER
    if "reservoirId" in offset:
        return OffsetKind.DELTA
    if "logOffset" in offset:
        return OffsetKind.FILES
    if {"ledger", "number"} <= offset.keys():
        return OffsetKind.AUTO_LOADER
    if offset and all(isinstance(partitions, Mapping) for partitions in offset.values()):
        return OffsetKind.KAFKA
    return OffsetKind.OTHER
