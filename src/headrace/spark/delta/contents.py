"""Makes the contents of a Delta table those of a version of it, or of another table, in one commit.

Delta's RESTORE does this for the table itself. It takes seconds for a table of any size, because it compares the files
in several jobs; it refuses versions older than ``delta.deletedFileRetentionDuration``, even if all files exist; and it
cannot record in the same commit which batches the table has then.

Source: what ``RestoreTableCommand`` of Delta 4.4 commits; this module takes the same steps through the same classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headrace.delta_log.table_files import added_files, missing_files
from headrace.errors import PipelineError
from headrace.spark.delta.tables import delta_table
from headrace.spark.delta.transaction import delta_transaction, is_supported, scala_object
from headrace.spark.session.scoped_confs import with_confs

# They number rows. Only Delta's own commands see to it that no number is used twice.
_NUMBERING = {"RowTrackingFeature$": "rowTracking", "IdentityColumnsTableFeature$": "identityColumns"}
_DOMAIN = "delta.clustering"
_RETENTION = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"


@dataclass(frozen=True)
class Contents:
    """What a table gets.

    Attributes:
        source: the path of the Delta table with the rows.
        version: its version.
        batches: the newest batch that the table has then, by transaction id.
    """

    source: str
    version: int
    batches: Mapping[str, int]


def set_contents(session: SparkSession, path: str, contents: Contents) -> None:
    """Make the rows, columns, properties and clustering of a table those of a version of a table, in one commit.

    The id of the table, its history and its other transactions stay, and so do table features that the source does not
    have. A concurrent commit makes this one fail. That all files that the table gets exist is checked right before the
    commit: a VACUUM by somebody else knows nothing of the lease, and may have deleted files that were there before.

    Args:
        session: the session.
        path: the table that changes. Below it are all data files and deletion vectors of the source, under the same
            relative names.
        contents: what it gets.

    Raises:
        PipelineError: STORAGE.CONTENTS_NOT_REPLACED, if the source is another table and one of the two numbers its
            rows; STORAGE.FILES_MISSING.
    """
    is_itself = contents.source == path
    if is_itself and not is_supported(session):
        _restore(session, path, contents)
        return
    transaction = delta_transaction(session, path)
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's classes have no other form in Python
    delta = jvm.org.apache.spark.sql.delta
    java: Any = session._jsparkSession  # noqa: SLF001 - the same
    log = transaction.log if is_itself else delta.DeltaLog.forTable(java, contents.source)
    none = jvm.scala.Option.empty()
    wanted, now = log.getSnapshotAt(contents.version, none, none, False), transaction.opened.snapshot()  # noqa: FBT003 - Scala's
    protocol = wanted.protocol().merge(jvm.org.apache.spark.api.python.PythonUtils.toSeq([now.protocol()]))
    numbering = [name for one, name in _NUMBERING.items() if protocol.isFeatureSupported(scala_object(delta, one))]
    if is_itself and numbering:
        _restore(session, path, contents)
        return
    if numbering:
        raise PipelineError("STORAGE.CONTENTS_NOT_REPLACED", path=path, features=", ".join(numbering))
    if not protocol.equals(now.protocol()):
        transaction.opened.updateProtocol(protocol)
    before, after = now.metadata(), wanted.metadata()
    # Before the metadata is changed: afterwards, Delta takes the new columns for those of the files of now.
    files, files_now = dict(_files(wanted)), dict(_files(now))
    transaction.opened.updateMetadata(_with_id(after, before.id()), True)  # noqa: FBT003 - Scala's
    to_action = scala_object(delta.actions, "Action$").fromJson
    ended_ms = transaction.log.clock().getTimeMillis()
    removed = [files_now[one] for one in files_now if one not in files]
    added = [json.loads(files[one].json()) for one in files if one not in files_now]
    transaction.add_actions([to_action(_as_change(document)) for document in added])
    transaction.add_actions([file.removeWithTimestamp(ended_ms, True) for file in removed])  # noqa: FBT003 - Scala's
    transaction.add_actions([to_action(action) for action in _clustering(jvm, wanted, now)])
    transaction.add_batches(contents.batches)
    operation = getattr(delta, "DeltaOperations$Clone")(contents.source, contents.version)
    if is_itself and after.partitionColumns().equals(before.partitionColumns()):
        # Delta does not let it change the partitioning.
        operation = getattr(delta, "DeltaOperations$Restore")(jvm.scala.Option.apply(contents.version), none)
    _check_files(path, contents.version, [document["add"] for document in added])
    transaction.end(operation)


def _clustering(jvm: Any, wanted: Any, now: Any) -> Iterator[str]:
    """The action that gives a table the clustering of a version.

    That of Delta's own RESTORE removes it, if the table of now was never clustered, or no longer is.
    """
    before, after = (
        [
            one
            for one in jvm.scala.jdk.javaapi.CollectionConverters.asJava(snapshot.domainMetadata())
            if one.domain() == _DOMAIN
        ]
        for snapshot in (now, wanted)
    )
    if after:
        yield from (one.json() for one in after)
    else:
        yield from (one.copy(_DOMAIN, one.configuration(), True).json() for one in before)  # noqa: FBT003 - Scala's


def _check_files(path: str, version: int, adds: Iterable[Mapping[str, Any]]) -> None:
    missing = missing_files(path, [name for add in adds for name in added_files(add, path)])
    if missing:
        raise PipelineError("STORAGE.FILES_MISSING", path=path, version=version, file=missing[0], number=len(missing))


def _files(snapshot: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """The files of a version, by path and deletion vector."""
    for file in snapshot.allFiles().collectAsList():
        yield (file.path(), file.getDeletionVectorUniqueId().toString()), file


def _as_change(document: Mapping[str, Any]) -> str:
    """A file to add, as one that changes rows for those who read the table as a stream."""
    return json.dumps({**document, "add": {**document["add"], "dataChange": True}})


def _with_id(metadata: Any, table_id: str) -> Any:
    return metadata.copy(
        table_id,
        metadata.name(),
        metadata.description(),
        metadata.format(),
        metadata.schemaString(),
        metadata.partitionColumns(),
        metadata.configuration(),
        metadata.createdTime(),
    )


def _restore(session: SparkSession, path: str, contents: Contents) -> None:
    with with_confs(session, {_RETENTION: "false"}):
        delta_table(session, path).restoreToVersion(contents.version)
    if contents.batches:
        delta_transaction(session, path).record(contents.batches)
