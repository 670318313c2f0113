"""What a batch does to its target without Delta's MERGE: rows that change are taken out, and added as they are now.

Of the target's rows only those are moved that change, or that lie in one file with them; none where the table may have
deletion vectors.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.cdc.change_feed import FEED_PROPERTY
from headrace.cdc.merge_commit import WritePath
from headrace.delta_log.tables import table_state
from headrace.model.names import quoted
from headrace.model.properties import switched_on
from headrace.spark.cdc.batch_cache import Kept, kept_rows
from headrace.spark.cdc.difference import DELETE, INSERT, UPDATE
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, TARGET_ALIAS, Merge
from headrace.spark.delta.transaction import DeltaTransaction, is_known

_TRACKED = "delta.enableRowTracking"


def write_path(merge: Merge, table: str) -> WritePath:
    """How a batch is written to its table, as far as it can be known before."""
    session = merge.source.sparkSession
    state = table_state(table)
    assert state is not None  # noqa: S101 - flows have a table
    if not is_known(session):
        return WritePath.UNKNOWN
    if not merge.small:
        return WritePath.LARGE
    if switched_on(state.properties, FEED_PROPERTY):
        return WritePath.FEED
    if switched_on(state.properties, _TRACKED):
        return WritePath.TRACKED
    return WritePath.REPLACED if _sets_all(merge, session.read.format("delta").load(table)) else WritePath.COLUMNS


def replaced(merge: Merge, opened: DeltaTransaction, transaction: tuple[str, int] | None) -> bool:
    """Change the table, of which a transaction is open, by what a batch does.

    Args:
        merge: what it does; :func:`write_path` has said so.
        opened: the transaction, which is committed.
        transaction: the streaming transaction that it is, with the version; None for a change that is no batch.

    Returns:
        False, and nothing happened, where the rows of the table are not those that the source tells of, one for one:
        several have the identity of one of the source, or none has.
    """
    with kept_rows() as kept:
        steps = _exact_steps(merge) if merge.exact else _steps(merge, opened, kept)
        action = F.col("action")
        facts = steps.agg(
            *[F.count_if(action == one).alias(one) for one in (INSERT, UPDATE, DELETE)],
            F.count_distinct(F.when(action.isin(UPDATE, DELETE), F.col("identity"))).alias("taken"),
            F.count("*").alias("rows"),
        ).collect()[0]
        if facts["taken"] != facts[UPDATE] + facts[DELETE]:
            return False
        if facts["taken"]:
            taken = steps.filter(action.isin(UPDATE, DELETE)).select("identity.*")
            within = merge.keys.holds(lambda name: F.col(quoted(name))) if merge.keys.bounds else None
            if opened.take_out(taken, tuple(merge.identity), within) != facts["taken"]:
                return False
        if facts[INSERT] or facts[UPDATE]:
            # Few rows, which are one file.
            opened.add(steps.filter(action.isin(INSERT, UPDATE)).select("added.*").coalesce(1))
        metrics = {"operationNumSourceRows": facts["rows"], "numTargetRowsInserted": facts[INSERT]}
        metrics |= {"numTargetRowsUpdated": facts[UPDATE], "numTargetRowsDeleted": facts[DELETE]}
        opened.commit(transaction, metrics)
    return True


def _exact_steps(merge: Merge) -> DataFrame:
    """What becomes of the rows of the source.

    ``action``, the ``identity`` as the target has it, and the row that may be ``added``.
    """
    action = _when(merge).when(_or_never(merge.inserts), INSERT)
    return merge.source.alias(SOURCE_ALIAS).select(action.alias("action"), _identity(merge), _added(merge))


def _steps(merge: Merge, opened: DeltaTransaction, kept: Kept) -> DataFrame:
    """The same, where rows of the target decide; more than one for a row of the source that several belong to."""
    target = opened.rows().alias(TARGET_ALIAS)
    met = target.join(merge.sent, merge.matches)
    met = kept.settled(met.select(_identity(merge), _when(merge).alias("done"), F.lit(True).alias("met")))
    source = merge.source.alias(SOURCE_ALIAS).select(
        _identity(merge), _added(merge), _or_never(merge.inserts).alias("new")
    )
    action = F.when(F.col("met"), F.col("done")).when(F.col("new"), INSERT)
    found = source.join(F.broadcast(met), "identity", "left")
    return kept.settled(found.select(action.alias("action"), "identity", "added"))


def _when(merge: Merge) -> Column:
    """What becomes of a row of the source that one of the target belongs to."""
    return F.when(_or_never(merge.deletes), DELETE).when(_or_never(merge.updates), UPDATE)


def _or_never(condition: Column | None) -> Column:
    return F.lit(False) if condition is None else condition


def _identity(merge: Merge) -> Column:
    return F.struct(*[value.alias(name) for name, value in merge.identity.items()]).alias("identity")


def _added(merge: Merge) -> Column:
    return F.struct(*[value.alias(name) for name, value in merge.values.items()]).alias("added")


def _sets_all(merge: Merge, target: DataFrame) -> bool:
    """Whether the values are those of all columns of a table."""
    row = merge.source.alias(SOURCE_ALIAS).select(_added(merge)).schema["added"].dataType
    assert isinstance(row, StructType)  # noqa: S101 - it is made so above
    kinds = {field.name.casefold(): field.dataType.simpleString() for field in row.fields}
    return kinds == {field.name.casefold(): field.dataType.simpleString() for field in target.schema.fields}
