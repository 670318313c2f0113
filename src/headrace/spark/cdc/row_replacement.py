"""Writes the changes of a batch without Delta's MERGE: deletes changed rows and adds their new values.

Only files with changed rows are rewritten; none if the table may have deletion vectors.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.cdc.delta_change_feed import FEED_PROPERTY
from headrace.cdc.merge_commit import WritePath
from headrace.delta_log.tables import table_state
from headrace.model.names import quoted
from headrace.model.properties import switched_on
from headrace.spark.cdc.batch_cache import BatchCache, cached_frames
from headrace.spark.cdc.difference import DELETE, INSERT, UPDATE
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, TARGET_ALIAS, Merge
from headrace.spark.delta.transaction import DeltaTransaction, is_supported

_TRACKED = "delta.enableRowTracking"


def write_path(merge: Merge, table: str) -> WritePath:
    """How a batch is written to its table, as far as this is known in advance."""
    session = merge.source.sparkSession
    state = table_state(table)
    assert state is not None  # noqa: S101 - flows have a table
    if not is_supported(session):
        return WritePath.UNKNOWN
    if not merge.is_small:
        return WritePath.LARGE
    if switched_on(state.properties, FEED_PROPERTY):
        return WritePath.FEED
    if switched_on(state.properties, _TRACKED):
        return WritePath.TRACKED
    return WritePath.REPLACED if _sets_all_columns(merge, _read(session, table)) else WritePath.COLUMNS


def replace_rows(merge: Merge, opened: DeltaTransaction, transaction: tuple[str, int] | None) -> bool:
    """Write the changes of a batch in an open transaction, and commit it.

    Args:
        merge: the changes; :func:`write_path` has allowed this way.
        opened: the open Delta transaction.
        transaction: id and version of the streaming transaction; None if the change is not a batch.

    Returns:
        False if rows of source and table do not match one to one: several rows of the table have the identity of one
        source row, or none has. Nothing was written then.
    """
    with cached_frames() as cache:
        actions = _exact_actions(merge) if merge.is_exact else _actions(merge, opened, cache)
        action = F.col("action")
        facts = actions.agg(
            *[F.count_if(action == one).alias(one) for one in (INSERT, UPDATE, DELETE)],
            F.count_distinct(F.when(action.isin(UPDATE, DELETE), F.col("identity"))).alias("taken"),
            F.count("*").alias("rows"),
        ).collect()[0]
        if facts["taken"] != facts[UPDATE] + facts[DELETE]:
            return False
        if facts["taken"]:
            taken = actions.filter(action.isin(UPDATE, DELETE)).select("identity.*")
            within = merge.keys.contains(lambda name: F.col(quoted(name))) if merge.keys.bounds else None
            if opened.delete_matching(taken, tuple(merge.identity), within) != facts["taken"]:
                return False
        if facts[INSERT] or facts[UPDATE]:
            # Few rows: one file.
            opened.add(actions.filter(action.isin(INSERT, UPDATE)).select("added.*").coalesce(1))
        metrics = {"operationNumSourceRows": facts["rows"], "numTargetRowsInserted": facts[INSERT]}
        metrics |= {"numTargetRowsUpdated": facts[UPDATE], "numTargetRowsDeleted": facts[DELETE]}
        opened.commit(transaction, metrics)
    return True


def _exact_actions(merge: Merge) -> DataFrame:
    """The ``action`` for each row of the source, its ``identity`` in the target and the row that may be ``added``."""
    action = _matched_action(merge).when(_or_never(merge.inserts), INSERT)
    return merge.source.alias(SOURCE_ALIAS).select(action.alias("action"), _identity(merge), _added(merge))


def _actions(merge: Merge, opened: DeltaTransaction, cache: BatchCache) -> DataFrame:
    """The same if rows of the target determine the action; several rows for a source row with several matches."""
    target = opened.rows().alias(TARGET_ALIAS)
    matched = target.join(merge.aliased_source, merge.matches)
    columns = _identity(merge), _matched_action(merge).alias("done"), F.lit(True).alias("met")
    matched = cache.eager(matched.select(*columns))
    source = merge.source.alias(SOURCE_ALIAS).select(
        _identity(merge), _added(merge), _or_never(merge.inserts).alias("new")
    )
    action = F.when(F.col("met"), F.col("done")).when(F.col("new"), INSERT)
    found = source.join(F.broadcast(matched), "identity", "left")
    return cache.eager(found.select(action.alias("action"), "identity", "added"))


def _matched_action(merge: Merge) -> Column:
    """The action for a row of the source that matches one of the target."""
    return F.when(_or_never(merge.deletes), DELETE).when(_or_never(merge.updates), UPDATE)


def _or_never(condition: Column | None) -> Column:
    return F.lit(False) if condition is None else condition


def _identity(merge: Merge) -> Column:
    return F.struct(*[value.alias(name) for name, value in merge.identity.items()]).alias("identity")


def _added(merge: Merge) -> Column:
    return F.struct(*[value.alias(name) for name, value in merge.values.items()]).alias("added")


def _read(session: SparkSession, table: str) -> DataFrame:
    return session.read.format("delta").load(table)


def _sets_all_columns(merge: Merge, target: DataFrame) -> bool:
    """True if the merge sets all columns of a table, with the same types."""
    row = merge.source.alias(SOURCE_ALIAS).select(_added(merge)).schema["added"].dataType
    assert isinstance(row, StructType)  # noqa: S101 - built as a struct above
    kinds = {field.name.casefold(): field.dataType.simpleString() for field in row.fields}
    return kinds == {field.name.casefold(): field.dataType.simpleString() for field in target.schema.fields}
