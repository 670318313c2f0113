"""The server as a process: the first pages of 1,000 datasets, and what 50 readers cost it and an update beside them.

A reader is what a browser with an open page is: it listens for events, and reads the page again when one came, at most
every 3.3 seconds. Windows with and without readers follow each other in turns while one continuous update runs; the
ratio of a pair is the median batch with readers, divided by that without. The readers run on the same machine, in the
process that measures, so that the ratio has their cost, too. `--contestants pages` measures without a JVM.
"""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Self

from scenario import BENCH, Contestant, Scenario, Step, environment, program

DATASETS = 1_000
READERS = 50
PAIRS = 4
_PAGES, _READERS = "pages", "readers"
_PAGES_EACH = 6
_WINDOW_S, _SETTLE_S = 8.0, 2.0
# Batches of the update before the first window; they load classes and compile.
_WARM_UP = 20
# As the script of the pages does.
_LEAST_PAUSE_S = 3.3
_WAIT_S = 240.0
_PIPELINE = """\
from headrace import pipelines as dp


@dp.table(spark_conf={"pipelines.trigger.interval": "0 seconds"})
def events():
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000)
    return reader.option("numPartitions", 1).load()
"""


class Service:
    """The server process, and requests to it as somebody who is signed in."""

    def __init__(self, folders: Sequence[Path], config: Path) -> None:
        import psutil  # noqa: PLC0415 - for the process that measures alone

        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        first, *others = folders
        also = [word for folder in others for word in ("--also", str(folder))]
        self._process = subprocess.Popen(
            [program("headrace"), "serve", "--listen", f"127.0.0.1:{self.port}", *also],
            cwd=first,
            env={**environment(), "XDG_CONFIG_HOME": str(config)},
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        assert self._process.stdout
        found_token = next(filter(None, (re.search(r"token=(\S+)", line) for line in self._process.stdout)))
        self._headers = {"Authorization": f"Bearer {found_token[1]}"}
        self._as_process = psutil.Process(self._process.pid)

    def connect(self) -> http.client.HTTPConnection:
        """A connection of a browser."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=_WAIT_S)

    def get(self, connection: http.client.HTTPConnection, path: str) -> None:
        """Read a page."""
        connection.request("GET", path, headers=self._headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}")

    def listen(self, connection: http.client.HTTPConnection, slug: str) -> http.client.HTTPResponse:
        """Open the stream of events."""
        headers = {**self._headers, "Accept": "text/event-stream"}
        connection.request("GET", f"/api/v1/pipelines/{slug}/events", headers=headers)
        return connection.getresponse()

    def busy_s(self) -> float:
        """Seconds of processor time that it has taken."""
        times = self._as_process.cpu_times()
        return float(times.user + times.system)

    def is_up(self) -> bool:
        """Whether it answers."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()


class Readers:
    """Browsers with an open page; they stop at the end of the block."""

    def __init__(self, service: Service, slug: str) -> None:
        self._service, self._slug = service, slug
        self._streams = [service.connect() for _ in range(READERS)]
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(one,), daemon=True) for one in self._streams]
        self.pages = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for stream in self._streams:
            if stream.sock is not None:
                with suppress(OSError):
                    stream.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _read(self, stream: http.client.HTTPConnection) -> None:
        page, path, read_at = self._service.connect(), f"/p/{self._slug}", 0.0
        with suppress(OSError, http.client.HTTPException, ValueError):
            self._service.get(page, path)
            for line in self._service.listen(stream, self._slug):
                if self._is_over.is_set():
                    break
                if line.startswith(b"data:") and time.monotonic() > read_at + _LEAST_PAUSE_S:
                    read_at = time.monotonic()
                    self._service.get(page, path)
                    self.pages += 1
        page.close()


@contextmanager
def _update(folder: Path) -> Iterator[None]:
    """A continuous update of the small pipeline."""
    command = [program("headrace"), "run", "--continuous"]
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _batches(folder: Path, since: float, until: float) -> list[float]:
    """The seconds of the batches that began and ended within a time."""
    from headrace.events.reader import EventReader  # noqa: PLC0415 - for the process that measures alone
    from headrace.events.recorded import recorded_rows  # noqa: PLC0415 - the same
    from headrace.events.types import BatchDone  # noqa: PLC0415 - the same

    reader = EventReader(str(folder / "storage" / "system" / "events"))
    found = []
    for row in recorded_rows(reader, f"event_type = '{BatchDone.event_type}'") if reader.exists else []:
        if isinstance(row.event, BatchDone) and row.event.duration_ms is not None:
            took_s = row.event.duration_ms / 1000
            if since <= row.at.timestamp() - took_s and row.at.timestamp() <= until:
                found.append(took_s)
    return found


def _window(service: Service, readers: Readers | None) -> tuple[float, float, float, int]:
    """Begin and end of a window, the processor time of the server in it, and the pages that were read in it."""
    time.sleep(_SETTLE_S)
    busy, began, pages = service.busy_s(), time.time(), readers.pages if readers else 0
    time.sleep(_WINDOW_S)
    return began, time.time(), service.busy_s() - busy, (readers.pages if readers else 0) - pages


def _measure_pages(service: Service) -> None:
    connection = service.connect()
    first = ("/p/wide", "s for the first overview, cold")
    later = [(path, f"s for {path}") for path in ("/p/wide", "/p/wide/graph") for _ in range(_PAGES_EACH)]
    for path, name in (first, *later):
        busy, began = service.busy_s(), time.perf_counter()
        service.get(connection, path)
        print(f"measured {time.perf_counter() - began:.3f} {name}")
        print(f"measured {service.busy_s() - busy:.3f} {name} (CPU of the server)")
        # What was read is used again for a few seconds; then a page reads again what has changed.
        time.sleep(1)


def _measure_readers(service: Service, live: Path) -> None:
    with _update(live):
        _until(lambda: len(_batches(live, 0, time.time())) > _WARM_UP)
        windows: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for number in range(PAIRS):
            for is_read in (True, False) if number % 2 else (False, True):
                if is_read:
                    with Readers(service, "live") as readers:
                        began, ended, busy, pages = _window(service, readers)
                    print(f"measured {1000 * busy / READERS / _WINDOW_S:.2f} ms of the server's CPU a reader, second")
                    print(f"measured {pages / _WINDOW_S:.1f} pages a second by {READERS} readers")
                else:
                    began, ended, busy, _ = _window(service, None)
                    print(f"measured {1000 * busy / _WINDOW_S:.2f} ms of the server's CPU a second without readers")
                windows[is_read].append((began, ended))
        # The last batches may not be recorded yet.
        last = windows[True][-1][1], windows[False][-1][1]
        _until(lambda: bool(_batches(live, max(last), time.time())))
        for with_readers, without in zip(windows[True], windows[False], strict=True):
            busy_batch, free_batch = median(_batches(live, *with_readers)), median(_batches(live, *without))
            print(f"measured {free_batch:.4f} s for a batch without readers, median of a window")
            print(f"measured {busy_batch:.4f} s for a batch with {READERS} readers, median of a window")
            print(f"measured {busy_batch / free_batch:.4f} batch with readers by batch without, of a pair")


def _measure(name: str, work: Path) -> None:
    folders = [work / "wide", work / "live"]
    service = Service(folders, work / "config")
    try:
        _until(service.is_up)
        if name == _PAGES:
            _measure_pages(service)
        else:
            _measure_readers(service, folders[1])
    finally:
        service.stop()


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_WAIT_S:g} s")
        time.sleep(0.1)


def _prepare(work: Path, data: Path) -> None:
    for name in ("wide", "live"):
        (work / name).mkdir()
        (work / name / "pipeline.yml").write_text(f"name: {name}\n", encoding="utf-8")
    (work / "live" / "transformations").mkdir()
    (work / "live" / "transformations" / "events.py").write_text(_PIPELINE, encoding="utf-8")
    (work / "rows").write_text((data / "rows").read_text(), encoding="utf-8")


def _steps(name: str) -> Callable[[Path, Path], Sequence[Step]]:
    def steps(work: Path, data: Path) -> Sequence[Step]:
        events = str(work / "wide" / "storage" / "system" / "events")
        pages, own = (str(BENCH / "scenarios" / file) for file in ("pages.py", "serve.py"))
        return [
            Step("", (sys.executable, pages, "write", events, (data / "rows").read_text()), cold=False),
            Step("", (sys.executable, own, name, str(work)), cold=False),
        ]

    return steps


def _make_data(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows").write_text(str(rows), encoding="utf-8")


def _datasets(work: Path) -> int:
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415 - measured processes import this module too

    table = DeltaTable(str(work / "wide" / "storage" / "system" / "events"))
    query = "SELECT count(*) FROM events WHERE event_type = 'dataset_definition'"
    return int(QueryBuilder().register("events", table).execute(query).read_all().column(0)[0].as_py())


SCENARIO = Scenario(
    about=f"the server with a pipeline of many datasets, and {READERS} readers beside a continuous update",
    rows=DATASETS,
    make_data=_make_data,
    expected_rows=lambda rows: rows,
    contestants=tuple(Contestant(name, _prepare, _steps(name), _datasets) for name in (_PAGES, _READERS)),
    repeats=1,
)

if __name__ == "__main__":
    _measure(sys.argv[1], Path(sys.argv[2]))
