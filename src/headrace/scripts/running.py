"""Runs a script or a notebook with a ready session, to the end of its streaming queries."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.project.scratch import scratch
from headrace.project.worker_modules import ship_modules
from headrace.scripts.ending import Ending, Limits, Stopped
from headrace.scripts.failures import query_problem, script_problem, user_traceback
from headrace.scripts.literals import literals_of
from headrace.scripts.namespace import Namespace
from headrace.scripts.notebook import run_steps, trees_of
from headrace.scripts.script_storage import ScriptStorage, script_storage_of
from headrace.scripts.session import make_ready
from headrace.scripts.source import Source, read_source
from headrace.spark.notebook.confs import starting_confs
from headrace.spark.notebook.notebook_session import NotebookSession, StartedQuery, let_go, serving

_NONE: Mapping[str, str] = MappingProxyType({})
# Beginnings of the names of threads that Python itself tells to end.
_OF_POOLS = ("ThreadPoolExecutor", "asyncio_")
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class QueryEnd:
    """What became of a streaming query."""

    name: str
    batches: int
    rows_read: int
    error: PipelineError | None

    def to_json(self) -> dict[str, Any]:
        """The query as JSON."""
        state = "COMPLETED" if self.error is None else "FAILED"
        error = None if self.error is None else self.error.to_json()
        return {
            "query": self.name,
            "state": state,
            "batches": self.batches,
            "rows_read": self.rows_read,
            "error": error,
        }


@dataclass(frozen=True)
class ScriptEnd:
    """What became of a script.

    Attributes:
        file: the script.
        queries: the streaming queries that it has started, in that order.
        error: what ended the script, or the first query that failed unseen.
        trace: the user's part of the traceback of what ended the script.
        exit_code: what the script gave to ``sys.exit``, or None.
        interrupted: a person, or the system, ended it.
    """

    file: str
    queries: tuple[QueryEnd, ...]
    error: PipelineError | None = None
    trace: str = ""
    exit_code: int | None = None
    interrupted: bool = False

    def redacted(self, redact: Callable[[str], str]) -> ScriptEnd:
        """The same without the values of secrets."""
        queries = tuple(replace(query, error=_redacted(query.error, redact)) for query in self.queries)
        return replace(self, queries=queries, error=_redacted(self.error, redact), trace=redact(self.trace))

    def to_json(self) -> dict[str, Any]:
        """The whole as JSON."""
        state = "CANCELED" if self.interrupted else "COMPLETED" if self.error is None else "FAILED"
        return {
            "script": self.file,
            "state": state,
            "queries": [query.to_json() for query in self.queries],
            "error": None if self.error is None else self.error.to_json(),
        }


def run_script(
    file: Path,
    arguments: Sequence[str],
    limits: Limits,
    *,
    say: Callable[[str], None],
    directory: Path | None = None,
    profile: str | None = None,
    paths: Mapping[str, str] = _NONE,
    widgets: Mapping[str, str] = _NONE,
    connectors: Sequence[str] = (),
    storage: str | None = None,
) -> ScriptEnd:
    """Run a script as ``python FILE ARGUMENTS`` would, with ``spark``, ``dbutils`` and ``display`` there.

    Args:
        file: a Python file, a notebook, or statements of SQL.
        arguments: what the script finds in ``sys.argv``.
        limits: when streaming queries are told to end.
        say: tells the person a remark.
        directory: where to look for a project (default: the working directory, then the script's folder).
        profile: of the project's settings.
        paths: beginnings of paths to what they stand for.
        widgets: values of ``dbutils.widgets`` by name.
        connectors: whose jars are needed besides those that the text shows.
        storage: where tables and checkpoints are, outside of a project.

    Raises:
        PipelineError, Problems: the script cannot be read, or the settings of the project are wrong.
    """
    file = file.absolute()
    source = read_source(file)
    said = literals_of(list(trees_of(source)), file.parent)
    if said.pipeline_line:
        raise PipelineError("SCRIPT.IS_PIPELINE", location=Location(str(file), said.pipeline_line), file=file.name)
    around = _around(file, directory, profile, storage)
    redact = around.secrets.redact
    confs, remarks = starting_confs(said.confs)
    for remark in remarks:
        say(redact(remark))
    ready = make_ready(
        around,
        script=around.script_name(file),
        say=lambda text: say(redact(text)),
        connectors={*connectors, *said.connectors},
        confs=confs,
        paths=paths,
    )
    if said.local_modules:
        ship_modules(ready.session, file.parent, scratch("modules"))
    ready.hurries = limits.until_idle
    ending = Ending(ready, limits)
    names = Namespace(ready, around.secrets).of(file, widgets)
    with serving(ready), _as_program(file, arguments, names) as module, _signals():
        ending.watch()
        try:
            return _run(source, module, ready, ending, redact).redacted(redact)
        finally:
            let_go()


def _around(file: Path, directory: Path | None, profile: str | None, storage: str | None) -> ScriptStorage:
    """The project of *directory*, else that of the working directory, else that of the script, else none."""
    places = [directory] if directory is not None else [Path.cwd(), file.parent]
    found = [script_storage_of(place, os.environ, profile=profile, storage=storage) for place in places]
    return next((around for around in found if around.in_project), found[0])


def _run(
    source: Source, module: types.ModuleType, ready: NotebookSession, ending: Ending, redact: Callable[[str], str]
) -> ScriptEnd:
    error: BaseException | None = None
    code: int | None = None
    interrupted = False
    others = set(threading.enumerate())
    try:
        run_steps(source, module, ready)
        _await_threads(set(threading.enumerate()) - others, ending)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if not isinstance(left.code, int | None):
            sys.stderr.write(f"{redact(str(left.code))}\n")
    except KeyboardInterrupt as asked:
        interrupted = _interrupts(asked, ending)
        ending.stop_all()
    except Exception as raised:  # noqa: BLE001 - whatever the user's code raises is what ended it
        error = raised
    ending.script_ended()
    try:
        if error is not None or code or interrupted:
            ending.stop_all()
        else:
            ending.wait()
    except KeyboardInterrupt as asked:
        interrupted = _interrupts(asked, ending)
        ending.stop_all()
    queries = tuple(_ended(started, source.file.parent) for started in ready.queries)
    if error is not None:
        known = next(
            (q.error for q, s in zip(queries, ready.queries, strict=True) if q.error and s.raised(error)), None
        )
        problem = known or script_problem(error, source.places)
        return ScriptEnd(str(source.file), queries, problem, user_traceback(error, source.file.parent), 1)
    unseen = (q.error for q, s in zip(queries, ready.queries, strict=True) if not s.query.seen)
    return ScriptEnd(
        str(source.file), queries, next(filter(None, unseen), None), exit_code=code, interrupted=interrupted
    )


def _await_threads(threads: Iterable[threading.Thread], ending: Ending) -> None:
    """Wait for threads that the script has started, as Python does at its end; those of pools never end."""
    for thread in threads:
        while not (thread.daemon or ending.ended or thread.name.startswith(_OF_POOLS)) and thread.is_alive():
            thread.join(_LOOK_EVERY_S)


def _redacted(error: PipelineError | None, redact: Callable[[str], str]) -> PipelineError | None:
    if error is None:
        return None
    params = {key: redact(value) for key, value in error.params.items()}
    return PipelineError(error.code, location=error.location, **params)


def _interrupts(asked: KeyboardInterrupt, ending: Ending) -> bool:
    """True when a script is ended before its time, and not streams without end in an orderly way."""
    return not ending.ended and not (isinstance(asked, Stopped) and ending.goes_on)


def _ended(started: StartedQuery, root: Path) -> QueryEnd:
    progress = [found for found in started.query.recentProgress if found["durationMs"].get("addBatch") is not None]
    failure = started.query.failure()
    return QueryEnd(
        name=started.name,
        batches=len({found["batchId"] for found in progress}),
        rows_read=sum(found["numInputRows"] for found in progress),
        error=None if failure is None else query_problem(started, failure, root),
    )


@contextmanager
def _as_program(file: Path, arguments: Sequence[str], names: Mapping[str, Any]) -> Iterator[types.ModuleType]:
    """The module that the script runs in: it is the program, as with Python itself."""
    module = types.ModuleType("__main__")
    module.__dict__.update({"__file__": str(file), "__builtins__": builtins, **names})
    before = sys.modules["__main__"], sys.argv, list(sys.path)
    sys.modules["__main__"] = module
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.parent))
    try:
        yield module
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before


@contextmanager
def _signals() -> Iterator[None]:
    """Signals interrupt Python alone; PySpark's own handler of SIGINT would cancel the batches that run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _stop}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stopped
