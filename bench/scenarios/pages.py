"""The web pages of a pipeline of 1,000 datasets: the layout of its graph, and the time of the server for each page.

The application is called in process, as a browser that is signed in would. The first page reads the pipeline. The
others use what it read, as they do within the seconds after it.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scenario import BENCH, Contestant, Scenario, Step

DATASETS = 1_000
_BATCHES = 5
_REPEATS = 5
_HOST = "127.0.0.1:8741"
_PAGES = (
    *("/p/bench", "/p/bench/graph", "/p/bench/graph?focus=d700&hops=2", "/p/bench/d/d700", "/p/bench/f/d700", "/"),
    *("/p/bench/alerts", "/p/bench/quarantine", "/p/bench/changes", "/p/bench/schedules", "/p/bench/savepoints"),
    *("/p/bench/maintenance", "/help"),
)


def _graph(datasets: int) -> dict[str, tuple[str, ...]]:
    """The inputs of each dataset: a twentieth reads sources, the others up to three datasets before them."""
    draw, names = random.Random(1), [f"d{number}" for number in range(datasets)]
    first = max(datasets // 20, 1)
    return {
        name: ()
        if number < first
        else tuple({names[draw.randrange(max(0, number - 60), number)] for _ in range(draw.choice((1, 1, 1, 2, 3)))})
        for number, name in enumerate(names)
    }


def _write(path: str, datasets: int) -> None:
    # The processes that only measure need none of this.
    import pyarrow as pa  # noqa: PLC0415
    from deltalake import write_deltalake  # noqa: PLC0415

    from headrace.events import log as event_log  # noqa: PLC0415
    from headrace.events import types  # noqa: PLC0415
    from headrace.events.envelope import Origin, Stamp, seq_no_at, to_row  # noqa: PLC0415
    from headrace.events.schema import SCHEMA  # noqa: PLC0415
    from headrace.model.datasets import Kind  # noqa: PLC0415
    from headrace.model.outcome import FlowCounts, FlowState, UpdateState  # noqa: PLC0415

    graph = _graph(datasets)
    events: list[types.Event] = [types.UpdateCreated("SCHEDULE", user="ops", version="0.1.0")]
    events += [types.DatasetDefined(name, Kind.STREAMING_TABLE, f"/{name}") for name in graph]
    events += [types.FlowDefined(name, name, inputs) for name, inputs in graph.items()]
    events += [types.UpdateStateChanged(UpdateState.RUNNING)]
    for name in graph:
        events += [types.FlowStateChanged(name, name, FlowState.STARTING, attempt=1)]
        events += [types.BatchDone(name, name, 0, number, FlowCounts(100), 900) for number in range(_BATCHES)]
        events += [types.FlowStateChanged(name, name, FlowState.COMPLETED, attempt=1, duration_s=5.0)]
    events += [types.UpdateStateChanged(UpdateState.COMPLETED)]
    begin, origin = datetime.now(tz=UTC) - timedelta(hours=1), Origin(str(uuid.uuid4()), "bench", str(uuid.uuid4()))
    rows = []
    for number, event in enumerate(events):
        moment = begin + timedelta(milliseconds=100 * number)
        stamp = Stamp(seq_no_at(moment), moment, "bulk", str(uuid.uuid4()))
        rows.append(to_row(event, origin=origin, stamp=stamp))
    how = {"configuration": event_log.TABLE_PROPERTIES, "writer_properties": event_log.COMPACTED}
    write_deltalake(path, pa.Table.from_pylist(rows, SCHEMA), **how)


def _measure(project: Path, datasets: int) -> None:
    from headrace.graph.drawing import draw  # noqa: PLC0415
    from headrace.serve.addresses import addresses  # noqa: PLC0415
    from headrace.serve.app import Server, create_app  # noqa: PLC0415
    from headrace.serve.pipelines import served_pipelines  # noqa: PLC0415
    from headrace.serve.tokens import TokenFile  # noqa: PLC0415

    graph = _graph(datasets)
    edges = [(given, name) for name, inputs in graph.items() for given in inputs]
    for _ in range(_REPEATS):
        _timed("s to lay out the graph", lambda: draw(graph, edges))
    tokens = TokenFile(Path(tempfile.mkdtemp()) / "serve.json")
    token = tokens.create(time.time()) or ""
    pipelines = served_pipelines([project], None, {}, time.time, time.monotonic)
    app = create_app(Server(addresses(_HOST), pipelines, tokens.read, time.time, time.monotonic))
    _timed("s to read the pipeline", pipelines["bench"].view)
    for path in _PAGES:
        for _ in range(_REPEATS):
            pipelines["bench"].view()
            _timed(f"s for {path}", lambda path=path: _get(app, path, token))
    print(f"measured {len(_get(app, '/p/bench/graph', token)) / 1e6:.2f} MB of the page of the graph")


def _get(app: Callable[..., object], path: str, token: str) -> bytes:
    sent: list[dict[str, object]] = []
    plain, _, query = path.partition("?")
    headers = [(b"host", _HOST.encode()), (b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": plain, "raw_path": plain.encode()}
    scope |= {"query_string": query.encode(), "headers": headers, "client": ("127.0.0.1", 1), "root_path": ""}
    scope |= {"server": ("127.0.0.1", 8741), "http_version": "1.1", "asgi": {"version": "3.0"}}

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    if sent[0]["status"] != 200:
        raise SystemExit(f"{path}: {sent[0]['status']}")
    return b"".join(message["body"] for message in sent[1:])  # type: ignore[misc]


def _timed(name: str, work: Callable[[], object]) -> None:
    began, busy = time.perf_counter(), time.process_time()
    work()
    print(f"measured {time.perf_counter() - began:.3f} {name}")
    print(f"measured {time.process_time() - busy:.3f} {name} (CPU)")


def _prepare(work: Path, data: Path) -> None:
    (work / "pipeline.yml").write_text("name: bench\n", encoding="utf-8")
    (work / "rows").write_text((data / "rows").read_text(), encoding="utf-8")


def _steps(work: Path, data: Path) -> Sequence[Step]:
    own = (sys.executable, str(BENCH / "scenarios" / "pages.py"))
    datasets = (data / "rows").read_text()
    return [
        Step("", (*own, "write", str(work / "storage" / "system" / "events"), datasets), cold=False),
        Step("", (*own, "measure", str(work), datasets), cold=False),
    ]


def _make_data(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows").write_text(str(rows), encoding="utf-8")


def _datasets(work: Path) -> int:
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415

    table = DeltaTable(str(work / "storage" / "system" / "events"))
    query = "SELECT count(*) FROM events WHERE event_type = 'dataset_definition'"
    return int(QueryBuilder().register("events", table).execute(query).read_all().column(0)[0].as_py())


SCENARIO = Scenario(
    about="web pages of a pipeline of many datasets",
    rows=DATASETS,
    make_data=_make_data,
    expected_rows=lambda rows: rows,
    contestants=(Contestant("headrace", _prepare, _steps, _datasets),),
)

if __name__ == "__main__":
    if sys.argv[1] == "write":
        _write(sys.argv[2], int(sys.argv[3]))
    else:
        _measure(Path(sys.argv[2]), int(sys.argv[3]))
