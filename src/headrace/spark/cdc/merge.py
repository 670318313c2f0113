"""One MERGE of Delta, as one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from headrace.model.names import quoted
from headrace.spark.cdc.memory import delta_table
from headrace.spark.session import with_confs

# Expressions of the user are looked up beside them; no column should be called so.
TARGET_ALIAS, SOURCE_ALIAS = "__headrace_target", "__headrace_source"
_CONFLICT_TRIES = 5
_TRANSACTION, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


@dataclass(frozen=True)
class Merge:
    """What a batch does to its target, a table with the alias ``TARGET_ALIAS``.

    Args:
        source: rows with the alias ``SOURCE_ALIAS``, no two of which match one row of the target; they do not change
            when they are read again (``Kept.settled``).
        matches: which rows of the source and the target belong together.
        deletes: which matched rows are taken out.
        updates: which other matched rows get new values.
        inserts: which rows of the source that match none are added.
        values: of the target's columns, for updates and inserts.
    """

    source: DataFrame
    matches: Column
    deletes: Column | None
    updates: Column
    inserts: Column
    values: Mapping[str, Column]

    def commit(self, table: str, transaction: str, batch_id: int) -> None:
        """Change the table; nothing happens where the batch's transaction, or a later one, is in it already."""
        session = self.source.sparkSession
        values = _java_map(session, {quoted(name): value for name, value in self.values.items()})
        confs = {_TRANSACTION: transaction, _VERSION: str(batch_id), _MATERIALIZE: "none"}
        for attempt in range(1, _CONFLICT_TRIES + 1):
            target = getattr(delta_table(session, table), "as")(TARGET_ALIAS)
            builder = target.merge(_java(self.source.alias(SOURCE_ALIAS)), _java(self.matches))
            if self.deletes is not None:
                builder = builder.whenMatched(_java(self.deletes)).delete()
            builder = builder.whenMatched(_java(self.updates)).update(values)
            builder = builder.whenNotMatched(_java(self.inserts)).insert(values)
            try:
                with with_confs(session, confs):
                    builder.execute()
            except PySparkException as error:
                # Small files of the table may have been put together meanwhile; its rows are the same.
                conflict = (error.getCondition() or "").startswith("DELTA_CONCURRENT")
                if not conflict or attempt == _CONFLICT_TRIES:
                    raise
            else:
                return


def _java(of: DataFrame | Column) -> Any:
    return of._jdf if isinstance(of, DataFrame) else of._jc  # noqa: SLF001 - Delta's API for columns is Java's


def _java_map(session: SparkSession, values: Mapping[str, Column]) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    made = jvm.java.util.HashMap()
    for name, value in values.items():
        made.put(name, _java(value))
    return made
