"""The event log of a stream after 100,000 batches: its size, and how long readers take.

A continuous update makes a batch a second, with three expectations, and reports progress and lag with every tenth. The
newest batches are recorded as in production, one by one, with maintenance in the background; the older ones are written
in files of the size that compaction leaves. As batches follow each other without a wait, the time for which replaced
files are kept is shortened in the same proportion.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from scenario import BENCH, Contestant, Scenario, Step, program

BATCHES = 100_000
_SINGLY = 2_000
_KEPT_S = 600
_ROWS_A_FILE = 20_000
_FLOW = "orders"


def _write(path: str, batches: int) -> None:
    # The processes that only measure need none of this.
    import pyarrow as pa  # noqa: PLC0415
    from deltalake import write_deltalake  # noqa: PLC0415

    from headrace.events import log as event_log  # noqa: PLC0415
    from headrace.events.envelope import Origin, Stamp, seq_no_at, to_row  # noqa: PLC0415
    from headrace.events.outcome import OutcomeBuilder  # noqa: PLC0415
    from headrace.events.schema import SCHEMA  # noqa: PLC0415
    from headrace.events.types import BatchDone  # noqa: PLC0415

    begin = datetime.now(tz=UTC) - timedelta(seconds=batches + 1)
    moments = (begin + timedelta(milliseconds=n) for n in range(0, 1000 * 10 * batches, 400))
    origin, builder = Origin(str(uuid.uuid4()), "bench", str(uuid.uuid4())), OutcomeBuilder("bench")
    events = _events(batches, begin, builder)
    rows, written = [], 0
    while written < batches - _SINGLY:
        event = next(events)
        moment = next(moments)
        stamp = Stamp(seq_no_at(moment), moment, "bulk", str(uuid.uuid4()))
        rows.append(to_row(event, origin=origin, stamp=stamp))
        written += isinstance(event, BatchDone)
        if len(rows) == _ROWS_A_FILE or written == batches - _SINGLY:
            table = pa.Table.from_pylist(rows, SCHEMA)
            how = {"configuration": event_log.TABLE_PROPERTIES, "writer_properties": event_log.COMPACTED}
            write_deltalake(path, table, mode="append", **how)
            rows = []

    def open_log() -> event_log.EventLog:
        return event_log.EventLog(path, origin=origin, clock=lambda: next(moments), new_id=lambda: str(uuid.uuid4()))

    def emit(log: event_log.EventLog, count: int) -> float:
        began, batch = time.perf_counter(), 0
        while batch < count:
            event = next(events)
            log.emit(event)
            batch += isinstance(event, BatchDone)
        return time.perf_counter() - began

    with open_log() as log:
        seconds = emit(log, 100) / 100
    kept = f"interval {max(round(_KEPT_S * seconds), 1)} seconds"
    for name in ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration"):
        event_log.TABLE_PROPERTIES[name] = kept
    log = open_log()
    seconds = emit(log, _SINGLY - 100)
    # As an update leaves it that is killed now.
    files = [file for file in Path(path).rglob("*") if file.is_file()]
    print(f"measured {len(files)} files in the log, running")
    print(f"measured {sum(file.stat().st_size for file in files) / 1e6:.1f} MB in the log, running")
    print(f"measured {1000 * seconds / (_SINGLY - 100):.1f} ms for a batch's event")


def _events(batches: int, begin: datetime, builder: object) -> Iterator[object]:
    from headrace.events.outcome import OutcomeBuilder  # noqa: PLC0415
    from headrace.events.types import (  # noqa: PLC0415
        BatchDone,
        FlowDefined,
        FlowLagMetrics,
        FlowStateChanged,
        StreamProgress,
        UpdateCreated,
        UpdateStateChanged,
    )
    from headrace.model.expectations import Action, ExpectationCount  # noqa: PLC0415
    from headrace.model.outcome import FlowCounts, FlowState, PartitionLag, UpdateState  # noqa: PLC0415
    from headrace.model.stream_progress import PHASES, OperatorProgress, SourceProgress, StreamBatches  # noqa: PLC0415

    assert isinstance(builder, OutcomeBuilder)
    yield UpdateCreated("USER_ACTION", {"continuous": True}, {"refresh": []}, "ops", "0.2")
    yield FlowDefined(_FLOW, _FLOW, ("raw",))
    yield UpdateStateChanged(UpdateState.RUNNING)
    yield FlowStateChanged(_FLOW, _FLOW, FlowState.RUNNING, attempt=1)
    query, run = str(uuid.uuid4()), str(uuid.uuid4())
    for number in range(batches):
        rows = 900 + number * 7919 % 200
        rules = tuple(
            ExpectationCount(name, action, rows - number % (3 + place), number % (3 + place))
            for place, (name, action) in enumerate(
                (("id", Action.WARN), ("amount", Action.DROP), ("shop", Action.WARN))
            )
        )
        batch = BatchDone(_FLOW, _FLOW, 0, number, FlowCounts(rows, number % 4, 0, rules), 300 + number * 31 % 400)
        builder.apply(batch, begin)
        yield batch
        if number % 1000 == 999:
            yield builder.total()
        if number % 10:
            continue
        at = begin + timedelta(seconds=number)
        phases = {name: 10 + number * (place + 3) % 90 for place, name in enumerate(PHASES.values())}
        operators = (OperatorProgress("dedupe", "deduplication", None, rows, 0, 0, number % 5, 1 << 20, 40),)
        progress = StreamBatches(
            number, 10, at, 4000 + number % 999, phases, 10 * rows, 990.5 + number % 99, 2100.25 + number % 99, at, at,
            operators, (SourceProgress("KafkaV2[Subscribe[orders]]", 10 * rows),),
        )  # fmt: skip
        yield StreamProgress(_FLOW, _FLOW, 0, query, run, progress)
        yield FlowLagMetrics(
            _FLOW,
            _FLOW,
            tuple(PartitionLag("orders", one, 1000 * number, 1000 * number + number % 77) for one in range(4)),
        )


def _read(path: str) -> None:
    from by_hand import session  # noqa: PLC0415

    from headrace.events.reader import EventReader  # noqa: PLC0415
    from headrace.events.streaming_views import streaming_queries, streaming_query_progress  # noqa: PLC0415
    from headrace.events.views import event_log_flows, event_log_updates  # noqa: PLC0415
    from headrace.model.liveness import Liveness  # noqa: PLC0415

    _measure("s to rebuild the outcome, as status does", lambda: EventReader(path).outcome())
    spark, table, held = session(tuned=True), f"delta.`{path}`", Liveness(is_held=True)
    # The first query of a session loads Delta.
    spark.sql(f"SELECT max(id) FROM {table}").collect()
    jvm = next(one for one in psutil.Process().children(recursive=True) if one.name() == "java")
    progress = f"SELECT * FROM ({streaming_query_progress(table, held)})"
    newest = f"{progress} WHERE query_id = (SELECT max(query_id) FROM ({progress})) ORDER BY batch_id DESC LIMIT 20"
    for name, query in (
        ("query_progress, newest 20", newest),
        ("query_progress, slow ones", f"{progress} WHERE processed_rows_per_second < 2101"),
        ("queries", streaming_queries(table, held)),
        ("event_log_updates", event_log_updates(table, held)),
        ("event_log_flows", event_log_flows(table, held)),
    ):
        _measure(f"s for {name}", lambda query=query: spark.sql(query).collect(), jvm)


def _measure(name: str, work: Callable[[], object], process: psutil.Process | None = None) -> None:
    """Measure time, and the time of processors, which other work on the machine does not change."""
    process = process or psutil.Process()
    began, busy = time.perf_counter(), sum(process.cpu_times()[:2])
    work()
    print(f"measured {time.perf_counter() - began:.2f} {name}")
    print(f"measured {sum(process.cpu_times()[:2]) - busy:.2f} {name} (CPU)")


def _prepare(work: Path, _data: Path) -> None:
    (work / "pipeline.yml").write_text("name: bench\n", encoding="utf-8")
    (work / "rows").write_text((_data / "rows").read_text(), encoding="utf-8")


def _steps(work: Path, data: Path) -> list[Step]:
    path, batches = str(work / "storage" / "system" / "events"), (data / "rows").read_text()
    own = (sys.executable, str(BENCH / "scenarios" / "event_log.py"))
    return [
        Step("", (*own, "write", path, batches), cold=False),
        Step("s for headrace status, cold", ("sh", "-c", f"{program('headrace')} status || true")),
        Step("", (*own, "read", path), cold=False),
    ]


def _make_data(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows").write_text(str(rows), encoding="utf-8")


def _batches(work: Path) -> int:
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415

    table = DeltaTable(str(work / "storage" / "system" / "events"))
    query = "SELECT count(*) FROM events WHERE origin['batch_id'] IS NOT NULL"
    return int(QueryBuilder().register("events", table).execute(query).read_all().column(0)[0].as_py())


SCENARIO = Scenario(
    about="the event log of a stream after many batches",
    rows=BATCHES,
    make_data=_make_data,
    expected_rows=lambda rows: rows,
    contestants=(Contestant("headrace", _prepare, _steps, _batches),),
)

if __name__ == "__main__":
    if sys.argv[1] == "write":
        _write(sys.argv[2], int(sys.argv[3]))
    else:
        _read(sys.argv[2])
