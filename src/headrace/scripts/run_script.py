"""Runs a script or a notebook in a notebook session, until its streaming queries end."""

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
from headrace.project.loading.worker_modules import ship_modules
from headrace.project.scratch import scratch
from headrace.scripts.failures import query_problem, script_problem, user_traceback
from headrace.scripts.literals import literals_of
from headrace.scripts.namespace import Namespace
from headrace.scripts.notebook import run_steps, trees_of
from headrace.scripts.script_storage import ScriptStorage, script_storage_of
from headrace.scripts.session import open_notebook_session
from headrace.scripts.source import Source, read_source
from headrace.scripts.stop_streams import Limits, QueryStopper, Stopped
from headrace.spark.notebook.confs import starting_confs
from headrace.spark.notebook.notebook_session import NotebookSession, StartedQuery, activated, release_tables

_NONE: Mapping[str, str] = MappingProxyType({})
# Name prefixes of threads that Python itself stops.
_POOL_THREADS = ("ThreadPoolExecutor", "asyncio_")
_POLL_INTERVAL_S = 0.1


@dataclass(frozen=True)
class QueryResult:
    """The result of a streaming query."""

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
class ScriptResult:
    """The result of a script.

    Attributes:
        file: the script.
        queries: the streaming queries that it started, in order.
        error: the error that ended the script, or the first query failure that the script did not see.
        trace: the user's part of the traceback of the error that ended the script.
        exit_code: the argument of ``sys.exit``, or None.
        interrupted: a person or the system ended it.
    """

    file: str
    queries: tuple[QueryResult, ...]
    error: PipelineError | None = None
    trace: str = ""
    exit_code: int | None = None
    interrupted: bool = False

    def redacted(self, redact: Callable[[str], str]) -> ScriptResult:
        """The same result without the values of secrets."""
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
) -> ScriptResult:
    """Run a script as ``python FILE ARGUMENTS`` would, with ``spark``, ``dbutils`` and ``display`` defined.

    Args:
        file: a Python file, a notebook, or SQL statements.
        arguments: the script's ``sys.argv``.
        limits: when to stop streaming queries.
        say: prints a notice.
        directory: where to look for a project (default: the working directory, then the script's folder).
        profile: of the project's settings.
        paths: path prefixes and their targets.
        widgets: values of ``dbutils.widgets`` by name.
        connectors: required connectors besides those found in the text.
        storage: the folder of tables and checkpoints, outside of a project.

    Raises:
        PipelineError, Problems: the script cannot be read, or the settings of the project are wrong.
    """
    file = file.absolute()
    source = read_source(file)
    literals = literals_of(list(trees_of(source)), file.parent)
    if literals.pipeline_line:
        raise PipelineError("SCRIPT.IS_PIPELINE", location=Location(str(file), literals.pipeline_line), file=file.name)
    storage_setup = _find_storage(file, directory, profile, storage)
    redact = storage_setup.secrets.redact
    confs, notices = starting_confs(literals.confs)
    for notice in notices:
        say(redact(notice))
    notebook_session = open_notebook_session(
        storage_setup,
        script=storage_setup.script_name(file),
        say=lambda text: say(redact(text)),
        connectors={*connectors, *literals.connectors},
        confs=confs,
        paths=paths,
    )
    if literals.local_modules:
        ship_modules(notebook_session.session, file.parent, scratch("modules"))
    notebook_session.ignores_trigger_intervals = limits.until_idle
    stopper = QueryStopper(notebook_session, limits)
    names = Namespace(notebook_session, storage_setup.secrets).of(file, widgets)
    with activated(notebook_session), _as_main_module(file, arguments, names) as module, _signals():
        stopper.watch()
        try:
            return _run(source, module, notebook_session, stopper, redact).redacted(redact)
        finally:
            release_tables()


def _find_storage(file: Path, directory: Path | None, profile: str | None, storage: str | None) -> ScriptStorage:
    """The project of *directory*, else that of the working directory, else that of the script, else none."""
    folders = [directory] if directory is not None else [Path.cwd(), file.parent]
    found = [script_storage_of(folder, os.environ, profile=profile, storage=storage) for folder in folders]
    return next((storage_setup for storage_setup in found if storage_setup.in_project), found[0])


def _run(
    source: Source,
    module: types.ModuleType,
    notebook_session: NotebookSession,
    stopper: QueryStopper,
    redact: Callable[[str], str],
) -> ScriptResult:
    error: BaseException | None = None
    code: int | None = None
    interrupted = False
    threads_before = set(threading.enumerate())
    try:
        run_steps(source, module, notebook_session)
        _await_threads(set(threading.enumerate()) - threads_before, stopper)
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        if not isinstance(exit_.code, int | None):
            sys.stderr.write(f"{redact(str(exit_.code))}\n")
    except KeyboardInterrupt as interrupt:
        interrupted = _is_interruption(interrupt, stopper)
        stopper.stop_all()
    except Exception as raised:  # noqa: BLE001 - whatever the user's code raises is what ended it
        error = raised
    stopper.note_script_end()
    try:
        if error is not None or code or interrupted:
            stopper.stop_all()
        else:
            stopper.wait()
    except KeyboardInterrupt as interrupt:
        interrupted = _is_interruption(interrupt, stopper)
        stopper.stop_all()
    queries = tuple(_query_result(started, source.file.parent) for started in notebook_session.queries)
    if error is not None:
        known = next(
            (
                q.error
                for q, s in zip(queries, notebook_session.queries, strict=True)
                if q.error and s.has_raised(error)
            ),
            None,
        )
        problem = known or script_problem(error, source.code_names)
        return ScriptResult(str(source.file), queries, problem, user_traceback(error, source.file.parent), 1)
    unseen = (q.error for q, s in zip(queries, notebook_session.queries, strict=True) if not s.query.failure_seen)
    return ScriptResult(
        str(source.file), queries, next(filter(None, unseen), None), exit_code=code, interrupted=interrupted
    )


def _await_threads(threads: Iterable[threading.Thread], stopper: QueryStopper) -> None:
    """Wait for threads that the script started, as Python does at exit; threads of pools never end."""
    for thread in threads:
        while not (thread.daemon or stopper.has_stopped or thread.name.startswith(_POOL_THREADS)) and thread.is_alive():
            thread.join(_POLL_INTERVAL_S)


def _redacted(error: PipelineError | None, redact: Callable[[str], str]) -> PipelineError | None:
    if error is None:
        return None
    params = {key: redact(value) for key, value in error.params.items()}
    return PipelineError(error.code, location=error.location, **params)


def _is_interruption(interrupt: KeyboardInterrupt, stopper: QueryStopper) -> bool:
    """True if the script was interrupted early; SIGTERM for endless streams is an orderly stop."""
    return not stopper.has_stopped and not (isinstance(interrupt, Stopped) and stopper.is_running)


def _query_result(started: StartedQuery, root: Path) -> QueryResult:
    progress = [found for found in started.query.recentProgress if found["durationMs"].get("addBatch") is not None]
    failure = started.query.failure()
    return QueryResult(
        name=started.name,
        batches=len({found["batchId"] for found in progress}),
        rows_read=sum(found["numInputRows"] for found in progress),
        error=None if failure is None else query_problem(started, failure, root),
    )


@contextmanager
def _as_main_module(file: Path, arguments: Sequence[str], names: Mapping[str, Any]) -> Iterator[types.ModuleType]:
    """Make a module that replaces ``__main__``, for the script to run in."""
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
    """Let signals interrupt Python only; PySpark's SIGINT handler would cancel running batches."""
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
