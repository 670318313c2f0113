"""The third project of the campaign: stateful streams, each with a view of the same query over a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

# Stateful flows; each has a view that computes the same over a batch.
STATEFUL_FLOWS = ("windows", "sessions", "visits", "spells", "once", "pairs", "sums")
# Nothing outside these flows knows whether a timer is due, so every update starts them.
TIMED = ("visits", "spells")
# The user of the last events, whose results are never complete.
END = "end"
LATE_MINUTES = 10
EVENTS = 24

_USERS = ("a", "b", "c")
PIPELINE = '''\
import json

import pandas as pd
from headrace import pipelines as dp
from headrace.patterns import deduplicate, sessionize, windowed
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

GAP_S = 1200
SCHEMA = "id BIGINT, user STRING, at TIMESTAMP, kind STRING"
SESSION = "user STRING, begins_s BIGINT, ends_s BIGINT, n BIGINT"


# Which events are late depends on the batches before, and on nothing else.
@dp.table
@dp.expect_or_quarantine("on time", dp.on_time("at", within="10 minutes"))
def timely():
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json({events!r})


def watched():
    return spark.readStream.option("maxFilesPerTrigger", 1).table("timely").withWatermark("at", "10 minutes")


def kept(name, query):
    """A stream with state, and the same over a batch."""
    dp.table(name=name)(lambda: query(watched()))
    dp.materialized_view(name=f"{{name}}_by_batch")(lambda: query(spark.read.table("timely")))


def with_clicks(rows):
    """Views with the clicks that follow them, and views without any."""
    clicks = rows.where("kind = 'click'").selectExpr("user AS clicker", "id AS click", "at AS clicked_at")
    on = F.expr("user = clicker AND clicked_at BETWEEN at AND at + INTERVAL 15 MINUTES")
    return rows.where("kind = 'view'").join(clicks, on, "left").select("user", "id", "click")


COUNTS = (F.count("*").alias("n"), F.sum("id").alias("ids"))
kept("windows", lambda rows: windowed(rows, "user", "at", "30 minutes", *COUNTS, slide="10 minutes"))
kept("sessions", lambda rows: sessionize(rows, "user", "at", "20 minutes"))
kept("once", lambda rows: deduplicate(rows, "id", at="at", within="10 minutes"))
kept("pairs", with_clicks)
kept("sums", lambda rows: rows.groupBy("user").agg(*COUNTS))


def sessions_of(times_s):
    """The sessions among moments: when each begins and ends, and how many moments it has."""
    found = []
    for moment in sorted(times_s):
        if found and moment - found[-1][1] <= GAP_S:
            found[-1] = (found[-1][0], moment, found[-1][2] + 1)
        else:
            found.append((moment, moment, 1))
    return found


class Visits(StatefulProcessor):
    """The same in a state of its own: a timer ends what is quiet for long enough."""

    def init(self, handle):
        self.handle = handle
        self.times = handle.getListState("times", StructType([StructField("at_s", LongType())]))

    def handleInputRows(self, key, rows, timerValues):
        self.times.appendList([(row.at_s,) for row in rows])
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer((max(at_s for at_s, in self.times.get()) + GAP_S) * 1000 + 1)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        for found in sessions_of(at_s for at_s, in self.times.get()):
            yield Row(user=key[0], **dict(zip(("begins_s", "ends_s", "n"), found)))
        self.times.clear()


def spells_of(key, parts, state):
    """The same again, in the older form of such a state."""
    times = json.loads(state.get[0]) if state.exists else []
    if state.hasTimedOut:
        state.remove()
        columns = ["user", "begins_s", "ends_s", "n"]
        yield pd.DataFrame([(key[0], *found) for found in sessions_of(times)], columns=columns)
        return
    for part in parts:
        times += [int(at_s) for at_s in part["at_s"]]
    state.update((json.dumps(times),))
    state.setTimeoutTimestamp(max((max(times) + GAP_S) * 1000 + 1, state.getCurrentWatermarkMs() + 1))


def seconds(rows):
    return rows.select("user", "at", F.unix_seconds("at").alias("at_s"))


@dp.table
def visits():
    return seconds(watched()).groupBy("user").transformWithState(Visits(), SESSION, "Append", "EventTime")


@dp.table
def spells():
    state = "times STRING"
    users = seconds(watched()).groupBy("user")
    return users.applyInPandasWithState(spells_of, SESSION, state, "append", GroupStateTimeout.EventTimeTimeout)


@dp.materialized_view
def visits_by_batch():
    begins, ends = F.unix_seconds("session_start").alias("begins_s"), F.unix_seconds("session_end").alias("ends_s")
    return spark.read.table("sessions_by_batch").select("user", begins, ends, F.col("events_in_session").alias("n"))


@dp.materialized_view
def spells_by_batch():
    return spark.read.table("visits_by_batch")
'''


def differing(
    rows_of: Callable[[str], Iterable[Mapping[str, Any]]],
) -> Iterator[tuple[str, Sequence[Any], Sequence[Any]]]:
    """The flows whose table differs from the batch result: name, rows of the table, rows of the batch.

    Args:
        rows_of: returns the rows of a table, in a stable order. They must include events of the user ``end``, so that
            the results of all other users are complete.
    """
    for name in STATEFUL_FLOWS:
        found, expected = (
            [row for row in rows_of(table) if row["user"] != END] for table in (name, f"{name}_by_batch")
        )
        if found != expected:
            yield name, found, expected


def rows_of_slice(number: int) -> Iterator[dict[str, object]]:
    """The events of one file: unordered, some repeated, and none late."""
    for position in range(EVENTS):
        row = number * EVENTS + position - (position % 11 == 10) * 5
        # The oldest event of a file is at most eight minutes older than the newest event of the files before.
        moment_s = (number * 25 - 8 + row * 7919 % 33) * 60 + row % 60
        yield _event(row, _USERS[row * 31 % len(_USERS)], moment_s, "click" if row % 3 == 2 else "view")


def closing_rows(number: int) -> Iterator[dict[str, object]]:
    """One event, days after all events and all closing rows with a smaller number."""
    yield _event(-number, END, number * 7 * 86400, "view")


def _event(number: int, user: str, moment_s: int, kind: str) -> dict[str, object]:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(seconds=moment_s)
    return {"id": number, "user": user, "at": at.isoformat(), "kind": kind}
