"""Takes Delta tables back to earlier versions, and says in their logs which batches they have then.

Delta keeps the transactions of a table when it is restored. So flows go on in new epochs, whose transactions are new,
and the commit that restores a table records the batches that its rows are from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.delta_log.table_files import live_files
from headrace.delta_log.tables import newest_version
from headrace.spark.delta.contents import Contents, set_contents
from headrace.spark.delta.tables import delta_table
from headrace.spark.delta.transaction import delta_transaction
from headrace.spark.session.scoped_confs import with_confs

# Of the files in a table's log.
_FILES_PER_PARTITION = 20_000


@dataclass(frozen=True)
class TableToRestore:
    """A table, and what to restore of it.

    Attributes:
        path: of the table.
        version: the version that becomes its content; all of its files exist.
        batches: the newest batch that it has then, by transaction id.
    """

    path: str
    version: int
    batches: Mapping[str, int]


def restore_tables(session: SparkSession, tables: Sequence[TableToRestore], before: Callable[[str], None]) -> None:
    """Make earlier versions the contents of tables: a commit each, which can be repeated after a crash.

    Args:
        session: the session.
        tables: the tables.
        before: called before each commit, with what it does; may raise to stop.
    """
    if not tables:
        return
    files = max(len(live_files(table.path, table.version)) for table in tables)
    # Delta reads a log with a task for each of these partitions: 200 of them take seconds for two files.
    partitions = 1 + files // _FILES_PER_PARTITION
    with with_confs(session, {"spark.sql.shuffle.partitions": str(partitions)}):
        for table in tables:
            _restore(session, table, before)


def empty_table(session: SparkSession, path: str) -> None:
    """Delete all rows of a table, in one commit; its older versions stay. Can be repeated."""
    delta_table(session, path).delete()


def _restore(session: SparkSession, table: TableToRestore, before: Callable[[str], None]) -> None:
    if newest_version(table.path) != table.version:
        before("restoring a table")
        set_contents(session, table.path, Contents(table.path, table.version, table.batches))
    elif table.batches:
        before("recording batches")
        delta_transaction(session, table.path).record(table.batches)
