"""The event log of a stream after 100,000 batches: its size, and how long readers take.

A continuous update makes a batch a second, with three expectations, and reports progress and lag with every tenth. The
newest batches are recorded as in production, one by one, with maintenance in the background; the older ones are written
in files of the size that compaction leaves. As batches follow each other without a wait, the time for which replaced
files are kept is shortened in the same proportion.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from scenario import BENCH, Contestant, Scenario, Step, program

BATCHES = 100_000
_SINGLY = 2_000
_KEPT_S = 600
_ROWS_A_FILE = 20_000
_FLOW = "orders"
# Of each verb and each query in one round.
_REPEATS = 3
_VERBS = ("--version", "--help", "status", "events --limit 20", "metrics", "alerts list")
_PROGRESS, _STREAMS = "system.streaming.query_progress", "system.streaming.queries"
_QUERIES = {
    "the newest 20 reports of a query": (
        "SELECT query_id, batch_id, input_rows, processed_rows_per_second, batch_duration_ms "
        f"FROM {_PROGRESS} WHERE query_id = '{{query_id}}' ORDER BY batch_id DESC LIMIT 20"
    ),
    "slow reports": (
        f"SELECT query_name, timestamp, processed_rows_per_second, slowest_phase FROM {_PROGRESS} "
        "WHERE processed_rows_per_second < 2101 ORDER BY timestamp DESC"
    ),
    "sums over all reports": (
        "SELECT query_name, sum(input_rows), avg(batch_duration_ms), max(batch_id) "
        f"FROM {_PROGRESS} GROUP BY query_name"
    ),
    "active queries": f"SELECT id, name, status FROM {_STREAMS} WHERE status = 'ACTIVE'",
    "queries joined with their reports": (
        f"SELECT q.name, q.status, max(p.batch_id), sum(p.input_rows) FROM {_STREAMS} q JOIN {_PROGRESS} p "
        "ON p.query_id = q.id AND p.run_id = q.run_id GROUP BY q.name, q.status"
    ),
    "event_log_updates": "SELECT * FROM event_log_updates",
    "event_log_flows": "SELECT * FROM event_log_flows",
    "sums over event_log_expectations": (
        "SELECT expectation, sum(passed), sum(failed) FROM event_log_expectations GROUP BY expectation"
    ),
}


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
    from headrace.events.outcome import TOTALS_AFTER_EVENTS, OutcomeBuilder  # noqa: PLC0415
    from headrace.events.types import (  # noqa: PLC0415
        BatchDone,
        FlowDefined,
        FlowLagMetrics,
        FlowStateChanged,
        StreamProgress,
        UpdateCreated,
        UpdateStateChanged,
    )
    from headrace.model.executor_time import ExecutorTime  # noqa: PLC0415
    from headrace.model.expectations import Action, ExpectationCount  # noqa: PLC0415
    from headrace.model.outcome import FlowCounts, FlowState, PartitionLag, UpdateState  # noqa: PLC0415
    from headrace.model.stream_progress import (  # noqa: PLC0415
        PHASES,
        BatchTiming,
        OperatorProgress,
        SourceProgress,
        StreamBatches,
    )

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
        # A tenth of the batches has two reports.
        if number % (TOTALS_AFTER_EVENTS * 10 // 12) == 0:
            yield builder.total()
        if number % 10:
            continue
        at = begin + timedelta(seconds=number)
        phases = {name: 10 + number * (place + 3) % 90 for place, name in enumerate(PHASES.values())}
        operators = (OperatorProgress("dedupe", "deduplication", None, rows, 0, 0, number % 5, 1 << 20, 40),)
        progress = StreamBatches(
            number, 10, at, 4000 + number % 999, phases, 10 * rows, 990.5 + number % 99, 2100.25 + number % 99, at, at,
            operators, (SourceProgress("KafkaV2[Subscribe[orders]]", 10 * rows),),
            tuple(
                BatchTiming(max(number - 9 + one, 0), at + timedelta(seconds=one - 9), 400 + one, phases, rows)
                for one in range(10)
            ),
            ExecutorTime(8000 + number % 999, 3000 + number % 499),
        )  # fmt: skip
        yield StreamProgress(_FLOW, _FLOW, 0, query, run, progress)
        yield FlowLagMetrics(
            _FLOW,
            _FLOW,
            tuple(PartitionLag("orders", one, 1000 * number, 1000 * number + number % 77) for one in range(4)),
        )


def _read(project: str) -> None:
    from headrace.events.log import maintain  # noqa: PLC0415
    from headrace.project.open import Project  # noqa: PLC0415

    began = time.perf_counter()
    opened = Project.open(project)
    opened.sql("SELECT 1")
    print(f"measured {time.perf_counter() - began:.2f} s to start a session")
    jvm = next(one for one in psutil.Process().children(recursive=True) if one.name() == "java")
    query_id = opened.sql(f"SELECT max(query_id) FROM {_PROGRESS}").rows[0][0]
    queries = {name: text.format(query_id=query_id) for name, text in _QUERIES.items()}
    for state in ("many small files", "compacted"):
        for name, query in queries.items():
            for _ in range(_REPEATS):
                _measure(f"s for {name}, {state}", lambda query=query: opened.sql(query), jvm)
        maintain(opened.settings.layout.events, True)  # noqa: FBT003 - it compacts


def _measure(name: str, work: Callable[[], object], jvm: psutil.Process) -> None:
    """Measure time, and the time of processors, which other work on the machine does not change as much."""
    processes = (psutil.Process(), jvm)
    began, busy = time.perf_counter(), sum(sum(one.cpu_times()[:2]) for one in processes)
    work()
    print(f"measured {time.perf_counter() - began:.2f} {name}")
    print(f"measured {sum(sum(one.cpu_times()[:2]) for one in processes) - busy:.2f} {name} (CPU)")


def _call_verbs() -> None:
    """Run verbs in processes of their own, and in turn a process that only imports pyarrow, to compare machines."""
    for _ in range(_REPEATS):
        _run("import pyarrow", [sys.executable, "-c", "import pyarrow"])
        for verb in _VERBS:
            _run(f"headrace {verb}", [program("headrace"), *verb.split()])


def _run(name: str, command: Sequence[str]) -> None:
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    seconds, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"measured {seconds:.3f} s for {name}")
    print(f"measured {cpu:.3f} s for {name} (CPU)")


def _prepare(work: Path, _data: Path) -> None:
    (work / "pipeline.yml").write_text("name: bench\n", encoding="utf-8")
    (work / "rows").write_text((_data / "rows").read_text(), encoding="utf-8")


def _steps(work: Path, data: Path) -> list[Step]:
    path, batches = str(work / "storage" / "system" / "events"), (data / "rows").read_text()
    own = (sys.executable, str(BENCH / "scenarios" / "event_log.py"))
    return [
        Step("", (*own, "write", path, batches), cold=False),
        # The first one folds the whole log.
        Step("s for the first headrace metrics", (program("headrace"), "metrics")),
        Step("", (*own, "verbs"), cold=False),
        Step("", (*own, "read", str(work)), cold=False),
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
    elif sys.argv[1] == "verbs":
        _call_verbs()
    else:
        _read(sys.argv[2])
