"""The format in which a checkpoint keeps state, read from Spark's files, for a checkpoint that was not made here.

Spark restores the state store provider of a checkpoint, but not its format version, and cannot read state of another
version (``STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED``, ``CANNOT_WRITE_STATE_STORE``). Source:
``OffsetSeqMetadata.relevantSQLConfs``; ``CommitLog``, whose files start with their version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from headrace.checkpoints.offsets import newest_batches
from headrace.settings.vendor_confs import ROCKSDB, STATE_PROVIDER
from headrace.stores.paths import StoragePath

_HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_PROVIDERS = {ROCKSDB: "RocksDB", _HDFS: "HDFS-backed"}
_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def format_of(checkpoint: StoragePath) -> Mapping[str, str]:
    """The settings under which a checkpoint opens; empty if no batch of it was ever completed."""
    planned, done = newest_batches(checkpoint)
    if done is None:
        return {}
    offsets = "" if planned is None else (checkpoint / "offsets" / str(planned)).read_text(encoding="utf-8")
    return format_in(offsets, (checkpoint / "commits" / str(done)).read_text(encoding="utf-8"))


def format_in(offsets: str, commits: str) -> Mapping[str, str]:
    """The same, from the texts of its newest offset file and its newest commit file."""
    version = commits.partition("\n")[0].strip().removeprefix("v")
    found = {_VERSION: version} if version.isdigit() else {}
    _, _, rest = offsets.partition("\n")
    try:
        provider = json.loads(rest.partition("\n")[0])["conf"].get(STATE_PROVIDER)
    except (ValueError, KeyError, TypeError):
        # A crash, or a full disk, may leave an empty file.
        provider = None
    return found if provider is None else {STATE_PROVIDER: str(provider), **found}


def format_text(confs: Mapping[str, str]) -> str:
    """A state format in words, such as ``RocksDB, version 2``."""
    provider = confs.get(STATE_PROVIDER, "")
    name = _PROVIDERS.get(provider, provider.rpartition(".")[2] or "unknown provider")
    return f"{name}, version {confs[_VERSION]}" if _VERSION in confs else name


def format_for_new(confs: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a new checkpoint, with a format version that their state store provider can write.

    Source: ``HDFSBackedStateStoreProvider`` accepts only version 1; other providers are assumed to do the same.
    """
    return confs if confs.get(STATE_PROVIDER, ROCKSDB) == ROCKSDB else {**confs, _VERSION: "1"}
