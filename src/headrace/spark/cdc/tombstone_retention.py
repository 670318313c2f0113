"""What is remembered beside a target and nobody should need any more, found and taken out by one commit.

Law: forgetting changes no row. Rows follow from the set of events as long as no event comes later than the window after
one of its key, or a truncate, that is newer; one that does may be judged without what was forgotten.

An event is forgotten once it and all older ones of its key were remembered for the window, and the target tells enough:

- Type 1, where rows tell their sequences: any event.
- Type 1 otherwise: deletes, and events after which others have set all that they set. The events that a row consists of
  stay, because nothing else tells how old it is: so an old event does not replace a newer row, however late it comes.
- Type 2, where events set every column: all but the newest before one that stays, which tells what the row was then.
- Type 2 otherwise: all events of a key at once.
- Truncates. What is not newer than a truncate goes at once, for the truncate says all that it could say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import ScdType
from headrace.spark.cdc.batch_cache import kept_rows
from headrace.spark.cdc.commit import Commit
from headrace.spark.cdc.fold import is_set
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, TARGET_ALIAS, Merge
from headrace.spark.cdc.retained_events import IS_EVENT, IS_MARK, RetainedEvents
from headrace.spark.delta.fencing import of_term, written_once

# Events that rows consist of are looked through when there are so many for each value that one could tell of.
_WORTH_LOOKING = 2


@dataclass(frozen=True)
class Known:
    """What a look at a memory shows.

    Args:
        truncated: an event that takes all rows away is remembered.
        forgot: something is forgotten that an event could come too late for.
        due: something may be there to forget.
    """

    truncated: bool = False
    forgot: bool = False
    due: bool = False


def look(session: SparkSession, memory: RetainedEvents, feed: ChangeFeed, until: float) -> Known:
    """What is remembered, by one pass over it; ``due`` is about what was remembered *until* then (since 1970)."""
    found = memory.rows(session)
    if found is None:
        return Known()
    old = F.col("remembered_at") <= _timestamp(until)
    leaves = F.lit(True) if _any_leaves(feed) else F.col("deleted") | F.col("truncates")
    stays = old & F.expr(IS_EVENT) & ~leaves
    facts = found.agg(
        F.count_if("truncates").alias("truncates"),
        F.count_if(F.expr(IS_MARK)).alias("marks"),
        F.count_if(old & F.expr(IS_EVENT) & leaves).alias("leaving"),
        F.count_if(stays).alias("staying"),
        F.approx_count_distinct(F.when(stays, F.col("key"))).alias("keys"),
    ).collect()[0]
    each = 1 if feed.shape.whole_rows else len(feed.shape.columns)
    superseded = facts["staying"] > _WORTH_LOOKING * each * facts["keys"]
    return Known(facts["truncates"] > 0, facts["marks"] > 0, facts["leaving"] > 0 or superseded)


def forget(
    session: SparkSession, memory: RetainedEvents, feed: ChangeFeed, until: float, term: int, fence: Callable[[], None]
) -> bool:
    """Take out what may be forgotten of what was remembered until then; True when there was something.

    It is one commit, after which an event more or less changes nothing; a holder of the lease that another has taken
    over from cannot make it.
    """
    found = memory.rows(session)
    if found is None:
        return False
    with kept_rows() as kept:
        leaving = kept.settled(_leaving(found, feed, until))
        if leaving.filter("NOT newest").isEmpty():
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
            source=leaving,
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

        def write(term: int | None) -> None:
            writer = of_term(term, "forgetting")
            transaction = (str(writer["txnAppId"]), int(writer["txnVersion"])) if writer else None
            Commit(merge, memory.path, fence, transaction).make()

        written_once(memory.path, term, fence, write)
    return True


def _any_leaves(feed: ChangeFeed) -> bool:
    return feed.shape.scd_type is ScdType.TWO or feed.told_by_rows


def _leaving(found: DataFrame, feed: ChangeFeed, until: float) -> DataFrame:
    """``truncates``, ``key`` and ``sequence`` of what may be taken out.

    One more row, which is ``newest`` and has no key, has the greatest sequence of all that was ever forgotten.
    """
    judged = _judged(_sequences(found.filter(IS_EVENT), feed), feed, until)
    gone = judged.filter("spent OR leaves")
    columns = ("truncates", "key", "sequence")
    told = (F.col("truncates") | F.col("deleted")) if feed.shape.scd_type is ScdType.ONE else F.lit(True)
    marks = found.filter(IS_MARK).select("sequence")
    greatest = (
        gone.filter(~F.col("spent") & told).select("sequence").unionByName(marks).agg(F.max("sequence").alias("m"))
    )
    no_key = F.lit(None).cast(found.schema["key"].dataType).alias("key")
    outdated = marks.distinct().crossJoin(F.broadcast(greatest)).filter("sequence < m")
    return (
        gone.select(*columns, F.lit(False).alias("newest"))
        .unionByName(outdated.select(F.lit(False).alias("truncates"), no_key, "sequence", F.lit(False).alias("newest")))
        .unionByName(
            greatest.filter("m IS NOT NULL").select(
                F.lit(False).alias("truncates"), no_key, F.col("m").alias("sequence"), F.lit(True).alias("newest")
            )
        )
    )


def _sequences(events: DataFrame, feed: ChangeFeed) -> DataFrame:
    """The events by key and sequence: ``at``, when the last of them was remembered, and what they do together.

    Beside ``deleted`` (all of them are deletes, so that whichever counts is one) those are, for rows that several
    events make, ``s`` and ``all`` with a number: whether one of the events sets a column, and whether all of them do.
    """
    row = events.schema["row"].dataType
    assert isinstance(row, StructType)  # noqa: S101 - what was remembered as such
    given = {field.name.casefold() for field in row.fields}
    said = []
    if not _any_leaves(feed) and not feed.shape.whole_rows:
        for number, name in enumerate(feed.shape.columns):
            value = is_set(name, feed.shape) if name.casefold() in given else F.lit(False)
            value = F.coalesce(value, F.lit(False))
            said += [F.max(value).alias(f"s{number}"), F.min(value).alias(f"all{number}")]
    return events.groupBy("truncates", _key("").alias("key"), "sequence").agg(
        F.max("remembered_at").alias("at"), F.min("deleted").alias("deleted"), *said
    )


def _judged(sequences: DataFrame, feed: ChangeFeed, until: float) -> DataFrame:
    """The sequences of keys with ``spent`` (it says nothing any more) and ``leaves`` (its time is over)."""
    shape = feed.shape
    by_key = Window.partitionBy("truncates", "key").orderBy("sequence")
    until_now = by_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    after = by_key.rowsBetween(1, Window.unboundedFollowing)
    rows = sequences.withColumn("old", F.max("at").over(until_now) <= _timestamp(until))
    follows = F.lead("old").over(by_key)
    if shape.scd_type is ScdType.TWO and shape.whole_rows:
        leaves = F.col("old") & F.coalesce(follows, F.lit(True))
    elif shape.scd_type is ScdType.TWO:
        leaves = F.min("old").over(Window.partitionBy("truncates", "key"))
    elif feed.told_by_rows:
        leaves = F.col("old")
    elif shape.whole_rows:
        leaves = F.col("old") & (F.col("deleted") | follows.isNotNull())
    else:
        ended = F.coalesce(F.max("deleted").over(after), F.lit(False))
        set_since = [
            ~F.col(f"s{number}") | F.coalesce(F.max(f"all{number}").over(after), F.lit(False))
            for number in range(len(shape.columns))
        ]
        leaves = F.col("old") & (F.col("deleted") | ended | reduce(Column.__and__, set_since))
    rows = rows.withColumn("leaves", F.when(F.col("truncates"), F.col("at") <= _timestamp(until)).otherwise(leaves))
    if shape.scd_type is ScdType.TWO:
        return rows.withColumn("spent", F.lit(False))
    cut = sequences.filter("truncates").agg(F.max("sequence").alias("cut"))
    older = F.col("sequence") < F.col("cut")
    spent = older | (~F.col("truncates") & (F.col("sequence") == F.col("cut")))
    return rows.crossJoin(F.broadcast(cut)).withColumn("spent", F.coalesce(spent, F.lit(False)))


def _key(of: str) -> Column:
    """The key of an event that has one."""
    return F.when(~F.col(f"{of}truncates"), F.col(f"{of}key"))


def _timestamp(seconds: float) -> Column:
    return F.lit(seconds).cast("timestamp")
