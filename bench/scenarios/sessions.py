"""Sessions of a stream: ``headrace.patterns.sessionize`` against applyInPandasWithState.

Run by hand with `python bench/scenarios/sessions.py CONTESTANT FOLDER_OF_THE_DATA`, in an empty folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from by_hand import session
from data import SCHEMA, write_events
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from scenario import Contestant, Scenario, Step

from headrace.patterns import sessionize

_OURS, _PANDAS = "sessionize", "applyInPandasWithState"
_EVENTS, _GAP_S = 10, 1800
# Spark calls the Python function once per device in a batch: few devices with many events, or many with few.
_DEVICES = (1_000, 20_000)
_RESULT = "device INT, session_start TIMESTAMP, session_end TIMESTAMP, events_in_session BIGINT"


def _by_state(key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The common pattern: the state holds the open session of a key, and an event-time timeout closes it."""
    if state.hasTimedOut:
        start, end, count = state.get
        state.remove()
        yield _session(key, start, end, count)
        return
    start, end, count = state.get if state.exists else (None, None, 0)
    closed = []
    for at in sorted(pd.concat(parts)["at"].astype("int64") // 1000):
        if end is not None and at - end > _GAP_S * 1_000_000:
            closed.append(_session(key, start, end, count))
            start, count = None, 0
        start, end, count = (at if start is None else start), at, count + 1
    state.update((start, end, count))
    state.setTimeoutTimestamp(max(end // 1000 + _GAP_S * 1000, state.getCurrentWatermarkMs() + 1))
    yield from closed


def _session(key: tuple[Any, ...], start: int, end: int, count: int) -> pd.DataFrame:
    times = [pd.Timestamp(moment, unit="us") for moment in (start, end)]
    return pd.DataFrame(
        {"device": [key[0]], "session_start": times[:1], "session_end": times[1:], "events_in_session": [count]}
    )


def _sessions(rows: DataFrame, contestant: str) -> DataFrame:
    if contestant == _OURS:
        return sessionize(rows, "device", "at", f"{_GAP_S} seconds")
    groups = rows.select("device", "at").groupBy("device")
    state = "start BIGINT, end BIGINT, count BIGINT"
    return groups.applyInPandasWithState(_by_state, _RESULT, state, "append", GroupStateTimeout.EventTimeTimeout)


def _run(contestant: str, data: str) -> None:
    spark = session(tuned=True)
    for name, devices, most in (("warm", _DEVICES[0], 8), *((f"of_{devices}", devices, 1) for devices in _DEVICES)):
        began = time.monotonic()
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", most).json(data)
        rows = rows.selectExpr(f"CAST(id % {devices} AS INT) AS device", _at(devices)).withWatermark("at", "10 minutes")
        writer = _sessions(rows, contestant).writeStream.format("delta").option("checkpointLocation", f"c/{name}")
        writer.trigger(availableNow=True).start(f"tables/{name}").awaitTermination()
        if name != "warm":
            print(f"measured {time.monotonic() - began} {devices:,} devices")
    spark.stop()


def _at(devices: int) -> str:
    """Ten events per device, a second apart, then two hours without events."""
    return f"timestamp_seconds(1767225600 + id div {devices * _EVENTS} * 7200 + id div {devices} % {_EVENTS}) AS at"


def _contestant(name: str) -> Contestant:
    def steps(_work: Path, data: Path) -> Sequence[Step]:
        return (Step("", (sys.executable, __file__, name, str(data)), cold=False),)

    def rows(work: Path) -> int:
        return sum(int(DeltaTable(str(work / "tables" / f"of_{devices}")).count()) for devices in _DEVICES)

    return Contestant(name, lambda _work, _data: None, steps, rows)


SCENARIO = Scenario(
    about="sessions of 1,000 devices, then of 20,000, from a JSON stream of eight batches, into Delta",
    rows=1_000_000,
    make_data=write_events,
    # The last session of each device stays open.
    expected_rows=lambda rows: len(_DEVICES) * (rows // _EVENTS) - sum(_DEVICES),
    contestants=(_contestant(_OURS), _contestant(_PANDAS)),
    base=_OURS,
)

if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2])
