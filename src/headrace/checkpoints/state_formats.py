"""In which format a checkpoint keeps state: read from what Spark has written, for a checkpoint that was not made here.

Spark applies the provider of a checkpoint again by itself, and not the version of its format, under which state of
another version is not read (``STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED``, ``CANNOT_WRITE_STATE_STORE``). Source:
``OffsetSeqMetadata.relevantSQLConfs``; ``CommitLog``, whose files begin with their version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from headrace.checkpoints.offsets import newest_batches
from headrace.settings.vendor_confs import ROCKSDB, STATE_PROVIDER

_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def format_of(checkpoint: Path) -> Mapping[str, str]:
    """The settings under which a checkpoint opens; nothing where no batch of it was ever done."""
    planned, done = newest_batches(checkpoint)
    if done is None:
        return {}
    offsets = "" if planned is None else (checkpoint / "offsets" / str(planned)).read_text(encoding="utf-8")
    return format_in(offsets, (checkpoint / "commits" / str(done)).read_text(encoding="utf-8"))


def format_in(offsets: str, commits: str) -> Mapping[str, str]:
    """The same, from the texts of the newest file of its offsets and of the newest one of its commits."""
    version = commits.partition("\n")[0].strip().removeprefix("v")
    found = {_VERSION: version} if version.isdigit() else {}
    _, _, rest = offsets.partition("\n")
    try:
        provider = json.loads(rest.partition("\n")[0])["conf"].get(STATE_PROVIDER)
    except (ValueError, KeyError, TypeError):
        # A crash, or a full disk, may leave an empty file.
        provider = None
    return found if provider is None else {STATE_PROVIDER: str(provider), **found}


def format_for_new(confs: Mapping[str, str]) -> Mapping[str, str]:
    """Settings of a new checkpoint, with the version of the format that their provider of state can write.

    Source: ``HDFSBackedStateStoreProvider`` refuses any but the first; so do those that nobody has asked.
    """
    return confs if confs.get(STATE_PROVIDER, ROCKSDB) == ROCKSDB else {**confs, _VERSION: "1"}
