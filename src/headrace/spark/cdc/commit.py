"""The commit of what a batch does to its target: by rows that are taken out and added, or by Delta's MERGE."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from headrace.cdc.merge_commit import Merged, WritePath
from headrace.delta_log.tables import rewritten_since
from headrace.spark.cdc.merge_plan import Merge
from headrace.spark.cdc.row_replacement import replaced, write_path
from headrace.spark.delta.conflicts import Outdated, tried_again
from headrace.spark.delta.transaction import delta_transaction
from headrace.spark.session.active_session import make_active
from headrace.spark.session.scoped_confs import with_confs

_TRANSACTION, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Delta's own copy of a source that does not change.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True)
class Commit:
    """What a batch does to its target, to be done at most once.

    Args:
        merge: what it does.
        table: where the target lies.
        fence: returns while this update may commit.
        transaction: under which the flow's batches are committed, and the number of the batch; None for a change that
            is no batch.
        merged: what the commit says of the batch.
        since: the version of the table at which the change was computed; None where others cannot change it.
    """

    merge: Merge
    table: str
    fence: Callable[[], None]
    transaction: tuple[str, int] | None
    merged: Merged | None = None
    since: int | None = None

    def make(self) -> None:
        """Change the table; nothing happens where it has this version of the transaction already, or a later one.

        Raises:
            Outdated: others have changed the table since the change was computed; nothing happened.
        """
        self.fence()
        tried_again(self._make, self.fence)

    def _make(self) -> None:
        path = write_path(self.merge, self.table)
        if path is WritePath.REPLACED and self._replaced():
            return
        self._merged(WritePath.DOUBLED if path is WritePath.REPLACED else path)

    def _replaced(self) -> bool:
        """False, and nothing happened, where only a MERGE can do it."""
        session = self.merge.source.sparkSession
        # Delta asks the active session for settings, and this one has them.
        make_active(session)
        opened = delta_transaction(session, self.table)
        # Whoever has taken over may count on what is in the table now.
        self.fence()
        with self._said(WritePath.REPLACED):
            if self.transaction is not None and opened.newest_of(self.transaction[0]) >= self.transaction[1]:
                return True
            # What others change after the transaction was opened makes it fail.
            self._look()
            return replaced(self.merge, opened, self.transaction)

    def _merged(self, path: WritePath) -> None:
        confs = {_MATERIALIZE: "none"}
        if self.transaction is not None:
            confs |= {_TRANSACTION: self.transaction[0], _VERSION: str(self.transaction[1])}
        with self._said(path), with_confs(self.merge.source.sparkSession, confs):
            merge = self.merge.narrowed().on(self.table)
            self._look()
            merge.execute()

    def _look(self) -> None:
        # Small files of the table may be put together meanwhile; its rows are the same.
        if self.since is not None and rewritten_since(self.table, self.since):
            raise Outdated

    def _said(self, path: WritePath) -> AbstractContextManager[None]:
        """What the commit says of the batch."""
        if self.merged is None:
            return nullcontext()
        session = self.merge.source.sparkSession
        text = replace(self.merged, written=path).to_text(session.conf.get(_METADATA, None))
        return with_confs(session, {_METADATA: text})
