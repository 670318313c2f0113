"""Commits the changes of a batch to its target, by replacing rows or by Delta's MERGE."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from headrace.cdc.merge_commit import MergeSummary, WritePath
from headrace.delta_log.tables import is_rewritten_since
from headrace.spark.cdc.merge_plan import Merge
from headrace.spark.cdc.row_replacement import replace_rows, write_path
from headrace.spark.delta.conflicts import Outdated, retry_commit
from headrace.spark.delta.transaction import delta_transaction
from headrace.spark.session.active_session import make_active
from headrace.spark.session.scoped_confs import with_confs

_TRANSACTION, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Whether Delta materializes the source; ours does not change.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True)
class Commit:
    """The commit of a batch to its target, made at most once.

    Args:
        merge: the changes.
        table: path of the target.
        fence: raises once another process holds the lease.
        transaction: transaction id of the flow and number of the batch; None if the change is not a batch.
        summary: what the commit records about the batch.
        read_version: version of the table from which the changes were computed; None if no other writer exists.
    """

    merge: Merge
    table: str
    fence: Callable[[], None]
    transaction: tuple[str, int] | None
    summary: MergeSummary | None = None
    read_version: int | None = None

    def execute(self) -> None:
        """Change the table; does nothing if it already has this or a later version of the transaction.

        Raises:
            Outdated: another writer has changed the table since ``read_version``; nothing was written.
        """
        self.fence()
        retry_commit(self._execute, self.fence)

    def _execute(self) -> None:
        path = write_path(self.merge, self.table)
        if path is WritePath.REPLACED and self._replace_rows():
            return
        self._run_merge(WritePath.DOUBLED if path is WritePath.REPLACED else path)

    def _replace_rows(self) -> bool:
        """False if only a MERGE can write the changes; nothing was written then."""
        session = self.merge.source.sparkSession
        # Delta reads settings from the active session, so the one that has them is made active.
        make_active(session)
        opened = delta_transaction(session, self.table)
        # A process that has taken over may rely on the current rows.
        self.fence()
        with self._metadata(WritePath.REPLACED):
            if self.transaction is not None and opened.newest_of(self.transaction[0]) >= self.transaction[1]:
                return True
            # Changes of other writers after the transaction was opened make it fail.
            self._check_read_version()
            return replace_rows(self.merge, opened, self.transaction)

    def _run_merge(self, path: WritePath) -> None:
        confs = {_MATERIALIZE: "none"}
        if self.transaction is not None:
            confs |= {_TRANSACTION: self.transaction[0], _VERSION: str(self.transaction[1])}
        with self._metadata(path), with_confs(self.merge.source.sparkSession, confs):
            merge = self.merge.without_unused_clauses().builder(self.table)
            self._check_read_version()
            merge.execute()

    def _check_read_version(self) -> None:
        # Compaction may have rewritten files since; it does not change rows.
        if self.read_version is not None and is_rewritten_since(self.table, self.read_version):
            raise Outdated

    def _metadata(self, path: WritePath) -> AbstractContextManager[None]:
        """Sets the user metadata of the commit."""
        if self.summary is None:
            return nullcontext()
        session = self.merge.source.sparkSession
        text = replace(self.summary, write_path=path).to_text(session.conf.get(_METADATA, None))
        return with_confs(session, {_METADATA: text})
