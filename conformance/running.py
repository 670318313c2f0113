"""Runs one block: its preparation, its text, its feed, and its checks."""

from __future__ import annotations

import io
import linecache
import re
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from conformance.claims import Check, Claim, DocumentClaims, Kind
from conformance.extract import Block
from conformance.queries import Queries, run_until_idle, tracked_queries
from conformance.sessions import SessionRunner
from conformance.surroundings import Here, Places, Servers
from conformance.wording import as_run, replacement_proofs

_LONGEST = 1500
# Stands for the folder of the block in a query.
_ROOT = "{root}"
_THREADS_END_S = 30.0


@dataclass
class Scene:
    """The environment of the blocks of one document in one session.

    Attributes:
        runner: the session.
        servers: the test servers.
        base: the folder that holds the folders of the blocks.
        edition: the digest of the document's mapping and of the program.
        names: the global names of the current block.
        folder: the folder of the current block.
    """

    runner: SessionRunner
    servers: Servers
    base: Path
    edition: str
    names: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    def prepare(self, name: str, *, goes_on: bool = False) -> Places:
        """Prepare a new folder without tables, or continue in the folder and with the names of the previous block."""
        if not goes_on:
            self.folder = self.base / name
            self.folder.mkdir(parents=True)
            self.names.clear()
        self.names.update(self.runner.names(self.folder, fresh=not goes_on))
        self.names["here"] = Here(self.runner.session, self.servers, self.folder)
        return Places(self.servers, self.folder, self.names)


@dataclass(frozen=True)
class Verdict:
    """The result of a block; without faults it reached its kind.

    Attributes:
        name: the name of the block.
        edition: the digest of the mapping and of the program.
        faults: the reasons why it did not reach its kind.
        seconds: the duration.
    """

    name: str
    edition: str
    faults: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The verdict as stored."""
        return {
            "name": self.name,
            "edition": self.edition,
            "faults": list(self.faults),
            "seconds": round(self.seconds, 1),
        }


def run_block(block: Block, claim: Claim, mapping: DocumentClaims, scene: Scene) -> Verdict:
    """Run a block, and check whether it reaches its claimed kind."""
    began = time.monotonic()
    try:
        faults = _replacement_faults(block, claim, mapping, scene) if claim.kind is Kind.REPLACED else []
        faults += _faults(block, claim, mapping, scene)
    except Exception as error:  # noqa: BLE001 - any error is the verdict
        faults = [error_text(error, mapping)]
    return Verdict(block.name, scene.edition, tuple(faults), time.monotonic() - began)


def _faults(block: Block, claim: Claim, mapping: DocumentClaims, scene: Scene) -> list[str]:
    places = scene.prepare(block.name, goes_on=bool(claim.goes_on))
    printed = io.StringIO()
    with scene.runner.settings(), tracked_queries(scene.runner.session) as queries:
        execute(mapping.prelude, f"<{mapping.document} prelude>", scene.names)
        execute(claim.given, f"<{block.name} given>", scene.names)
        faults = [
            f"{question(check)} was answered before the block ran"
            for check in claim.checks
            if not check.printed and passes(check, scene.names, scene.runner, "")
        ]
        text = as_run(block, claim, mapping, places)
        run_and_wait(claim, text, scene, queries, printed, "python" if claim.code else block.language)
        faults += _unexpected(claim, queries.failures())
        faults += failed_checks(claim.checks, scene.names, scene.runner, printed.getvalue())
    return list(dict.fromkeys(fault[:_LONGEST] for fault in faults))


def _replacement_faults(block: Block, claim: Claim, mapping: DocumentClaims, scene: Scene) -> list[str]:
    """Faults, unless the block fails as claimed without its replacement."""
    found = []
    for way, pattern, text in replacement_proofs(block, claim, mapping):
        places = scene.prepare(f"{block.name}-{way.replace(' ', '-')}", goes_on=bool(claim.goes_on))
        failures = _failures(block, claim, mapping, scene, partial(text, places))
        if not any(re.search(pattern, failure) for failure in failures):
            found.append(f"{way} it should fail with {pattern!r}, and {failures or 'runs'}"[:_LONGEST])
    return found


def _failures(block: Block, claim: Claim, mapping: DocumentClaims, scene: Scene, text: Callable[[], str]) -> list[str]:
    """The errors of a text that runs in place of the block, and of its queries."""
    with scene.runner.settings(), tracked_queries(scene.runner.session) as queries:
        try:
            execute(mapping.prelude, f"<{mapping.document} prelude>", scene.names)
            execute(claim.given, f"<{block.name} given>", scene.names)
            run_and_wait(claim, text(), scene, queries, io.StringIO(), block.language)
        except Exception as error:  # noqa: BLE001 - the expected result
            return [f"{type(error).__name__}: {error}"]
        return queries.failures()


def run_and_wait(
    claim: Claim,
    text: str,
    scene: Scene,
    queries: Queries,
    printed: io.StringIO,
    language: str,
) -> None:
    """Run a text in the scene's names, until its queries are idle and its threads end.

    Afterwards the name ``triggers`` holds the triggers of its named queries, and ``ended_for_it`` the queries that ran
    until they were stopped here.
    """
    own = scene.names
    file = f"<{claim.name}>"
    before = set(threading.enumerate())

    # Lets a mapping run a block a second time, like a user who restarts it.
    own["again"] = partial(_in_language, language, text, file, own, scene)

    def run() -> None:
        own["again"]()
        execute(claim.then, f"<{claim.name} then>", own)
        _show(claim, own)

    def feed() -> None:
        execute(claim.feed, f"<{claim.name} feed>", own)

    def is_done() -> bool:
        return not claim.until or bool(eval(claim.until, {**own, "printed": printed.getvalue()}))  # noqa: S307 - our own

    with redirect_stdout(printed):
        run_until_idle(run, feed, is_done, queries, file, claim.limit_s)
        for thread in set(threading.enumerate()) - before:
            if not thread.daemon:
                thread.join(_THREADS_END_S)
    own["triggers"], own["ended_for_it"] = queries.triggers_by_name(), sorted(queries.stopped)


def failed_checks(checks: Sequence[Check], names: Mapping[str, Any], runner: SessionRunner, printed: str) -> list[str]:
    """The failed checks, as texts."""
    found = []
    for check in checks:
        try:
            if not passes(check, names, runner, printed):
                found.append(
                    f"{question(check)} is {_answer_of(check, names, runner, printed)!r}, not {check.answer!r}"
                )
        except Exception as error:  # noqa: BLE001 - an error is a failed check
            found.append(f"{question(check)}: {type(error).__name__}: {str(error).splitlines()[0]}")
    return found


def passes(check: Check, names: Mapping[str, Any], runner: SessionRunner, printed: str) -> bool:
    """Whether a check finds its answer; False if it raises."""
    with suppress(Exception):
        answer = _answer_of(check, names, runner, printed)
        if check.printed:
            return re.search(check.printed, printed) is not None
        return bool(answer == (in_order(check.answer) if check.rows_of else check.answer))
    return False


def question(check: Check) -> str:
    """The question of a check, on one line."""
    return " ".join((check.rows_of or check.value or f"printed {check.printed}").split())


def in_order(rows: Iterable[Any]) -> list[Any]:
    """The rows in a stable order."""
    return sorted((list(row) for row in rows), key=repr)


def plain(value: Any) -> Any:
    """A value in the form that a mapping can express."""
    if isinstance(value, bool | int | float | str):
        return value
    if value is None:
        return "null"
    if isinstance(value, datetime | date | Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    return repr(value)


def error_text(error: BaseException, mapping: DocumentClaims) -> str:
    """An error, with the lines of blocks in its stack trace."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(f"<{mapping.document}")
    ]
    where = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__}: {error}"[:_LONGEST] + (f" at {where}" if where else "")


def execute(text: str, file: str, names: dict[str, Any]) -> None:
    """Run a text in names, with its own lines in stack traces.

    The name ``were`` holds, for each name, all values that the text assigned to it, in order.
    """
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    # As a whole, like a script.
    exec(compile(text, file, "exec"), names, _RecordingNames(names))  # noqa: S102 - what this package is for


class _RecordingNames(dict[str, Any]):
    """A namespace over *names* that also records every assigned value."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__()
        self._names = names
        self._were: dict[str, list[Any]] = names.setdefault("were", {})

    def __missing__(self, name: str) -> Any:
        return self._names[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._names[name] = value
        self._were.setdefault(name, []).append(value)

    def __delitem__(self, name: str) -> None:
        del self._names[name]


def _answer_of(check: Check, names: Mapping[str, Any], runner: SessionRunner, printed: str) -> Any:
    if check.printed:
        return printed
    if check.rows_of:
        return in_order(
            plain(row) for row in runner.session.sql(check.rows_of.replace(_ROOT, str(names["here"].folder))).collect()
        )
    return plain(eval(check.value, {**names, "printed": printed}))  # noqa: S307 - the mapping's own expression


def _in_language(language: str, text: str, file: str, names: dict[str, Any], scene: Scene) -> None:
    match language:
        case "sql":
            names["answers"] = [scene.runner.session.sql(one).collect() for one in text.split(";") if one.strip()]
        case "bash":
            subprocess.run(["bash", "-ec", text], check=True, capture_output=True, cwd=scene.folder)  # noqa: S607 - any
        case "json":
            (scene.folder / "pipeline.json").write_text(text, encoding="utf-8")
        case _:
            execute(text, file, names)


def _show(claim: Claim, names: Mapping[str, Any]) -> None:
    """Start the streams that the block creates but does not start."""
    for view, text in claim.streams.items():
        name, _, number = text.partition("#")
        stream = names["were"][name][int(number) - 1] if number else names[name]
        writer = stream if hasattr(stream, "queryName") else stream.writeStream.outputMode(claim.mode)
        names["here"].shown[view] = writer.format("memory").queryName(view).start()


def _unexpected(claim: Claim, failures: Sequence[str]) -> list[str]:
    """The failures that the claim does not expect, and an expected failure that did not happen."""
    if not claim.fails:
        return list(failures)
    expected = [failure for failure in failures if re.search(claim.fails, failure)]
    missing = [] if expected else [f"a query should fail with {claim.fails!r}"]
    return [failure for failure in failures if failure not in expected] + missing
