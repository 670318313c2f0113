"""Removes expired events from the retained events of a target, in one commit.

Law: expiring changes no row. Rows follow from the set of events as long as no event arrives later than the retention
window after a newer event of its key or a newer truncate; a later one may be merged without the expired events.

An event expires once it and all older events of its key were retained for the window, and the target is sufficient:

- Type 1, if the sequence is derivable from rows: any event.
- Type 1 otherwise: deletes, and events whose columns later events have all set. The events that make up a row stay,
  because only they have its sequence: so an old event does not replace a newer row, however late it arrives.
- Type 2, if events are full rows: all but the newest one before an event that stays, which holds the row at that time.
- Type 2 otherwise: all events of a key together.
- Truncates. Events that are not newer than a truncate expire at once, because the truncate supersedes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.cdc.feed import ChangeFeed
from headrace.spark.cdc.batch_cache import cached_frames
from headrace.spark.cdc.commit import Commit
from headrace.spark.cdc.fold import is_set
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, TARGET_ALIAS, Merge
from headrace.spark.cdc.retained_events import IS_EVENT, IS_MARK, RetainedEvents
from headrace.spark.delta.fencing import fencing_options, write_fenced

# Events that make up rows are searched once there are so many per value that they could set.
_WORTH_SEARCHING = 2


@dataclass(frozen=True)
class RetainedSummary:
    """A summary of the retained events.

    Args:
        has_truncates: a truncate is retained.
        has_expired: some events have expired, so that later events may be too late.
        may_expire: some events may expire now.
    """

    has_truncates: bool = False
    has_expired: bool = False
    may_expire: bool = False


def summarize(session: SparkSession, retained: RetainedEvents, feed: ChangeFeed, until: float) -> RetainedSummary:
    """Summarize the retained events in one pass; ``may_expire`` covers those retained *until* then (since 1970)."""
    found = retained.rows(session)
    if found is None:
        return RetainedSummary()
    old = F.col("remembered_at") <= _timestamp(until)
    expires = F.lit(True) if _any_event_expires(feed) else F.col("deleted") | F.col("truncates")
    stays = old & F.expr(IS_EVENT) & ~expires
    facts = found.agg(
        F.count_if("truncates").alias("truncates"),
        F.count_if(F.expr(IS_MARK)).alias("marks"),
        F.count_if(old & F.expr(IS_EVENT) & expires).alias("expiring"),
        F.count_if(stays).alias("staying"),
        F.approx_count_distinct(F.when(stays, F.col("key"))).alias("keys"),
    ).collect()[0]
    each = 1 if feed.spec.events_are_full_rows else len(feed.spec.columns)
    superseded = facts["staying"] > _WORTH_SEARCHING * each * facts["keys"]
    return RetainedSummary(facts["truncates"] > 0, facts["marks"] > 0, facts["expiring"] > 0 or superseded)


def expire(
    session: SparkSession,
    retained: RetainedEvents,
    feed: ChangeFeed,
    until: float,
    fencing_token: int,
    fence: Callable[[], None],
) -> bool:
    """Delete the events that expire among those retained until then; True if there were any.

    This is one commit. A process that has lost the lease to another one cannot make it.
    """
    found = retained.rows(session)
    if found is None:
        return False
    with cached_frames() as cache:
        expiring = cache.eager(_expiring(found, feed, until))
        if expiring.filter("NOT newest").isEmpty():
            return False
        known = {name: F.col(f"{SOURCE_ALIAS}.{name}") for name in ("key", "sequence")}
        known |= {"truncates": F.lit(False), "transaction": F.lit(""), "batch_id": F.lit(-1)}
        values = {
            field.name: known.get(field.name, F.lit(None)).cast(field.dataType)
            for field in found.schema.fields
            if field.name != "remembered_at"
        }
        newest = F.col(f"{SOURCE_ALIAS}.newest")
        merge = Merge(
            source=expiring,
            matches=reduce(
                Column.__and__,
                [
                    F.col(f"{TARGET_ALIAS}.truncates") == F.col(f"{SOURCE_ALIAS}.truncates"),
                    _key(f"{TARGET_ALIAS}.").eqNullSafe(F.col(f"{SOURCE_ALIAS}.key")),
                    F.col(f"{TARGET_ALIAS}.sequence").eqNullSafe(F.col(f"{SOURCE_ALIAS}.sequence")),
                ],
            ),
            deletes=~newest,
            updates=None,
            inserts=newest,
            values={**values, "remembered_at": _timestamp(until)},
        )

        def write(fencing_token: int | None) -> None:
            options = fencing_options(fencing_token, "forgetting")
            transaction = (str(options["txnAppId"]), int(options["txnVersion"])) if options else None
            Commit(merge, retained.path, fence, transaction).execute()

        write_fenced(retained.path, fencing_token, fence, write)
    return True


def _any_event_expires(feed: ChangeFeed) -> bool:
    return feed.spec.keeps_versions or feed.derivable_from_rows


def _expiring(found: DataFrame, feed: ChangeFeed, until: float) -> DataFrame:
    """``truncates``, ``key`` and ``sequence`` of the events to delete.

    One more row, which is ``newest`` and has no key, has the greatest sequence of all events that ever expired.
    """
    expiring = _with_expiry(_sequences(found.filter(IS_EVENT), feed), feed, until).filter("superseded OR expires")
    columns = ("truncates", "key", "sequence")
    marked = (F.col("truncates") | F.col("deleted")) if not feed.spec.keeps_versions else F.lit(True)
    marks = found.filter(IS_MARK).select("sequence")
    lost = expiring.filter(~F.col("superseded") & marked).select("sequence")
    greatest = lost.unionByName(marks).agg(F.max("sequence").alias("m"))
    no_key = F.lit(None).cast(found.schema["key"].dataType).alias("key")
    outdated = marks.distinct().crossJoin(F.broadcast(greatest)).filter("sequence < m")
    return (
        expiring.select(*columns, F.lit(False).alias("newest"))
        .unionByName(outdated.select(F.lit(False).alias("truncates"), no_key, "sequence", F.lit(False).alias("newest")))
        .unionByName(
            greatest.filter("m IS NOT NULL").select(
                F.lit(False).alias("truncates"), no_key, F.col("m").alias("sequence"), F.lit(True).alias("newest")
            )
        )
    )


def _sequences(events: DataFrame, feed: ChangeFeed) -> DataFrame:
    """The events grouped by key and sequence: ``at``, when the last of them was retained, and their joint effect.

    The effect is ``deleted`` (all are deletes, so whichever wins is one) and, if several events make up a row, ``s``
    and ``all`` with a number: whether any event sets the column, and whether all do.
    """
    row = events.schema["row"].dataType
    assert isinstance(row, StructType)  # noqa: S101 - stored as a struct
    given = {field.name.casefold() for field in row.fields}
    set_columns = []
    if not _any_event_expires(feed) and not feed.spec.events_are_full_rows:
        for number, name in enumerate(feed.spec.columns):
            value = is_set(name, feed.spec) if name.casefold() in given else F.lit(False)
            value = F.coalesce(value, F.lit(False))
            set_columns += [F.max(value).alias(f"s{number}"), F.min(value).alias(f"all{number}")]
    return events.groupBy("truncates", _key("").alias("key"), "sequence").agg(
        F.max("remembered_at").alias("at"), F.min("deleted").alias("deleted"), *set_columns
    )


def _with_expiry(sequences: DataFrame, feed: ChangeFeed, until: float) -> DataFrame:
    """The sequences with ``superseded`` (a truncate replaces it) and ``expires`` (its window has passed)."""
    spec = feed.spec
    by_key = Window.partitionBy("truncates", "key").orderBy("sequence")
    until_now = by_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    after = by_key.rowsBetween(1, Window.unboundedFollowing)
    rows = sequences.withColumn("old", F.max("at").over(until_now) <= _timestamp(until))
    follows = F.lead("old").over(by_key)
    if spec.keeps_versions and spec.events_are_full_rows:
        expires = F.col("old") & F.coalesce(follows, F.lit(True))
    elif spec.keeps_versions:
        expires = F.min("old").over(Window.partitionBy("truncates", "key"))
    elif feed.derivable_from_rows:
        expires = F.col("old")
    elif spec.events_are_full_rows:
        expires = F.col("old") & (F.col("deleted") | follows.isNotNull())
    else:
        ended = F.coalesce(F.max("deleted").over(after), F.lit(False))
        set_since = [
            ~F.col(f"s{number}") | F.coalesce(F.max(f"all{number}").over(after), F.lit(False))
            for number in range(len(spec.columns))
        ]
        expires = F.col("old") & (F.col("deleted") | ended | reduce(Column.__and__, set_since))
    rows = rows.withColumn("expires", F.when(F.col("truncates"), F.col("at") <= _timestamp(until)).otherwise(expires))
    if spec.keeps_versions:
        return rows.withColumn("superseded", F.lit(False))
    truncate = sequences.filter("truncates").agg(F.max("sequence").alias("cut"))
    older = F.col("sequence") < F.col("cut")
    superseded = older | (~F.col("truncates") & (F.col("sequence") == F.col("cut")))
    return rows.crossJoin(F.broadcast(truncate)).withColumn("superseded", F.coalesce(superseded, F.lit(False)))


def _key(of: str) -> Column:
    """The key of an event; NULL for truncates."""
    return F.when(~F.col(f"{of}truncates"), F.col(f"{of}key"))


def _timestamp(seconds: float) -> Column:
    return F.lit(seconds).cast("timestamp")
