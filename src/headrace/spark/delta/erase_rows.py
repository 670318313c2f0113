"""Erases rows from a Delta table in a commit that readers of its stream do not see.

The commit replaces each file that has such a row by one with its other rows, and marks both as no change of data, as
OPTIMIZE does. So streams and change feeds over the table pass over it, and tables that only allow appends accept it.
A row that a deletion vector hides is still in its file, so such files are replaced as well.

Source: ``DeltaSource`` and ``CDCReader`` of Delta 4.4, which skip actions without ``dataChange``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.errors import InternalError
from headrace.spark.delta.conflicts import retry_commit
from headrace.spark.delta.tables import delta_table
from headrace.spark.delta.transaction import DeltaTransaction, delta_transaction
from headrace.spark.session.scoped_confs import with_confs

# Stored in the commit, so that its reader can tell it from compaction.
_METADATA = {"spark.databricks.delta.commitInfo.userMetadata": "headrace erase"}
_VECTOR = "deletionVector"


@dataclass(frozen=True)
class FoundRows:
    """The rows of a table that match a condition.

    Attributes:
        rows: their number.
        files: the number of files that have them, those included in which a deletion vector hides them.
    """

    rows: int = 0
    files: int = 0


def find_rows(session: SparkSession, path: str, condition: Column) -> FoundRows:
    """Count the rows of the table at a path that match a condition."""
    files = _matching_files(delta_transaction(session, path), condition)
    return FoundRows(sum(rows for _, rows in files), len(files))


def erase_rows(session: SparkSession, path: str, condition: Column, fence: Callable[[], None]) -> FoundRows:
    """Erase the rows of the table at a path that match a condition; makes no commit if there are none.

    Args:
        session: the session.
        path: of the table.
        condition: over its columns; where it is NULL, it does not match.
        fence: returns while this process may commit.
    """
    found = FoundRows()

    def erase() -> None:
        nonlocal found
        transaction = delta_transaction(session, path)
        files = _matching_files(transaction, condition)
        found = FoundRows(sum(rows for _, rows in files), len(files))
        if files:
            with with_confs(session, _METADATA):
                _replace(transaction, [file for file, _ in files], found.rows, ~_matches(condition), fence)

    retry_commit(erase, fence)
    return found


def write_checkpoint(session: SparkSession, path: str) -> None:
    """Write a checkpoint of the newest version of the table at a path.

    Unlike Delta's own method for that, it removes no commits past their retention: a stream that starts again may read
    those of its last batch once more.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's log has no other form in Python
    none = jvm.scala.Option.empty()
    log = _delta(session).DeltaLog.forTable(_java(session), path)
    info = log.writeCheckpointFiles(log.update(False, none, none), none)  # noqa: FBT003 - Scala's
    log.writeLastCheckpointFile(log, info, _delta(session).LastCheckpointInfo.checksumEnabled(_java(session)))


def forget_log(session: SparkSession, path: str) -> None:
    """Make the session read the log of the table at a path anew, because files of the log were rewritten."""
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's cache has no other form in Python
    _delta(session).DeltaLog.invalidateCache(_java(session), jvm.org.apache.hadoop.fs.Path(path))


def _matching_files(transaction: DeltaTransaction, condition: Column) -> list[tuple[dict[str, Any], int]]:
    """The files with matching rows, as the log describes them, and the number of rows that are not deleted yet."""
    rows = _rows_by_file(transaction.rows(), condition)
    files = _files(transaction)
    # Read without their vectors, these files show the rows that are deleted, but still there.
    hidden = [{name: value for name, value in file.items() if name != _VECTOR} for file in files if file.get(_VECTOR)]
    also = _rows_by_file(_rows_of(transaction, hidden), condition) if hidden else {}
    matching = rows.keys() | also.keys()
    by_path = {_absolute(transaction.path, file["path"]): file for file in files}
    if not matching <= by_path.keys():
        raise InternalError(f"{transaction.path} has rows in files that its log does not name")
    return [(by_path[name], rows.get(name, 0)) for name in sorted(matching)]


def _rows_by_file(frame: DataFrame, condition: Column) -> dict[str, int]:
    file = frame.metadataColumn("_metadata").getField("file_path").alias("file")
    counted = frame.filter(condition).select(file).groupBy("file").count()
    return {_plain(name): int(count) for name, count in counted.collect()}


def _files(transaction: DeltaTransaction) -> list[dict[str, Any]]:
    listed = DataFrame(transaction.opened.snapshot().allFiles().toJSON().toDF(), transaction.session)
    return [json.loads(text) for (text,) in listed.collect()]


def _rows_of(transaction: DeltaTransaction, files: Iterable[dict[str, Any]]) -> DataFrame:
    added = _actions(transaction.session, ({"add": file} for file in files))
    none = transaction.session._jvm.scala.Option.empty()  # type: ignore[union-attr]  # noqa: SLF001 - the same
    frame = transaction.log.createDataFrame(transaction.opened.snapshot(), added, False, none)  # noqa: FBT003 - Scala's
    return DataFrame(frame, transaction.session)


def _replace(
    transaction: DeltaTransaction,
    files: list[dict[str, Any]],
    rows: int,
    others: Column,
    fence: Callable[[], None],
) -> None:
    """Replace files by their rows that match a condition; *rows* is the number of the others."""
    session = transaction.session
    now = int(transaction.log.clock().getTimeMillis())
    rest = _rows_of(transaction, files).filter(others)
    written = transaction.opened.writeFiles(rest._jdf)  # noqa: SLF001 - the same
    actions = [json.loads(written.apply(index).json()) for index in range(written.length())]
    if any("add" not in action for action in actions):
        raise InternalError("Delta wrote more than files of rows")
    added = ({"add": {**action["add"], "dataChange": False}} for action in actions)
    removed = ({"remove": _removal(file, now)} for file in files)
    _register_metrics(transaction, rows, len(files))
    # Without its condition, which contains the values.
    delete = getattr(_delta(session), "DeltaOperations$Delete")(_sequence(session, []))
    fence()
    transaction.opened.commit(_actions(session, (*removed, *added)), delete)
    changed = delta_table(session, transaction.path).toDF().queryExecution().analyzed()
    _java(session).sharedState().cacheManager().recacheByPlan(_java(session), changed)


def _register_metrics(transaction: DeltaTransaction, rows: int, files: int) -> None:
    """Register the operation metrics that Delta requires of a DELETE."""
    java, jvm = _java(transaction.session), transaction.session._jvm  # noqa: SLF001 - the same
    spark: Any = jvm.org.apache.spark  # type: ignore[union-attr]
    counted: Any = jvm.java.util.HashMap()  # type: ignore[union-attr]
    for name, value in {"numDeletedRows": rows, "numRemovedFiles": files}.items():
        metric = spark.sql.execution.metric.SQLMetrics.createMetric(java.sparkContext(), name)
        metric.set(value)
        counted.put(name, metric)
    transaction.opened.registerSQLMetrics(java, spark.api.python.PythonUtils.toScalaMap(counted))


def _removal(file: dict[str, Any], now: int) -> dict[str, Any]:
    kept = ("path", "partitionValues", "size", "tags", _VECTOR, "baseRowId", "defaultRowCommitVersion")
    described = {name: file[name] for name in kept if file.get(name) is not None}
    return {**described, "deletionTimestamp": now, "dataChange": False, "extendedFileMetadata": True}


def _matches(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))  # noqa: FBT003 - a value


def _absolute(table: str, name: str) -> str:
    return _plain(name) if urlsplit(name).scheme else f"{table.rstrip('/')}/{unquote(name)}"


def _plain(uri: str) -> str:
    """The path of a file on a disk, or the URI of an object, without escapes."""
    parts = urlsplit(uri)
    return (
        unquote(parts.path) if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"
    )


def _actions(session: SparkSession, described: Iterable[dict[str, Any]]) -> Any:
    parse = _delta(session).actions.Action.fromJson
    return _sequence(session, [parse(json.dumps(action)) for action in described])


def _sequence(session: SparkSession, items: list[Any]) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(items).toList()


def _delta(session: SparkSession) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    return jvm.org.apache.spark.sql.delta


def _java(session: SparkSession) -> Any:
    return session._jsparkSession  # noqa: SLF001 - the same
