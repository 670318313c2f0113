"""One MERGE of Delta, as one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.cdc.merged import Merged
from headrace.checkpoints.delta_log import rewritten_since
from headrace.model.names import quoted
from headrace.spark.conflicts import Outdated, tried_again
from headrace.spark.delta_tables import delta_table
from headrace.spark.session import with_confs

# Expressions of the user are looked up beside them; no column should be called so.
TARGET_ALIAS, SOURCE_ALIAS = "__headrace_target", "__headrace_source"
_TRANSACTION, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True)
class Merge:
    """What a batch does to its target, a table with the alias ``TARGET_ALIAS``.

    Args:
        source: rows with the alias ``SOURCE_ALIAS``, no two of which match one row of the target; they do not change
            when they are read again (``Kept.settled``).
        matches: which rows of the source and the target belong together.
        deletes: which matched rows are taken out.
        updates: which other matched rows get new values; None for none.
        inserts: which rows of the source that match none are added.
        values: of the target's columns, for updates and inserts.
    """

    source: DataFrame
    matches: Column
    deletes: Column | None
    updates: Column | None
    inserts: Column
    values: Mapping[str, Column]

    def commit(
        self,
        table: str,
        fence: Callable[[], None],
        transaction: str | None,
        version: int,
        merged: Merged | None = None,
        since: int | None = None,
    ) -> None:
        """Change the table; nothing happens where this version of the transaction, or a later one, is in it already.

        Args:
            table: where the target lies.
            fence: returns while this update may commit.
            transaction: under which the flow's batches are committed; None for a change that is no batch.
            version: of the batch.
            merged: what the commit says of the batch.
            since: the version of the table at which the change was computed; None where others cannot change it.

        Raises:
            Outdated: others have changed the table since then; nothing happened.
        """
        session = self.source.sparkSession
        confs = {_MATERIALIZE: "none"}
        if transaction is not None:
            confs |= {_TRANSACTION: transaction, _VERSION: str(version)}
        if merged is not None:
            confs[_METADATA] = merged.to_text(session.conf.get(_METADATA, None))
        fence()
        with with_confs(session, confs):
            tried_again(lambda: self._execute(session, table, since), fence)

    def _execute(self, session: SparkSession, table: str, since: int | None) -> None:
        merge = self._on(session, table)
        # Small files of the table may be put together meanwhile; its rows are the same.
        if since is not None and rewritten_since(table, since):
            raise Outdated
        merge.execute()

    def _on(self, session: SparkSession, table: str) -> Any:
        """Delta's own form of the MERGE."""
        values = _java_map(session, {quoted(name): value for name, value in self.values.items()})
        target = getattr(delta_table(session, table), "as")(TARGET_ALIAS)
        builder = target.merge(_java(self.source.alias(SOURCE_ALIAS)), _java(self.matches))
        if self.deletes is not None:
            builder = builder.whenMatched(_java(self.deletes)).delete()
        if self.updates is not None:
            builder = builder.whenMatched(_java(self.updates)).update(values)
        return builder.whenNotMatched(_java(self.inserts)).insert(values)


def target_column(name: str) -> Column:
    """A column of the target."""
    return F.col(f"{TARGET_ALIAS}.{quoted(name)}")


def _java(of: DataFrame | Column) -> Any:
    return of._jdf if isinstance(of, DataFrame) else of._jc  # noqa: SLF001 - Delta's API for columns is Java's


def _java_map(session: SparkSession, values: Mapping[str, Column]) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    made = jvm.java.util.HashMap()
    for name, value in values.items():
        made.put(name, _java(value))
    return made
