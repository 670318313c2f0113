"""Where a streaming query of a script keeps its progress when it does not say: the same place in the next run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from threading import Lock
from typing import Any

from headrace.errors import PipelineError
from headrace.model.local_path import local_path
from headrace.settings.storage import StorageLayout, path_safe
from headrace.spark.data_sources.cloud_files import SOURCE_OPTION
from headrace.spark.jvm.plan_nodes import node_kind

_RECORD = "query.json"
# Options that say what a source reads; their values tell one stream from another.
_READS = (
    "path",
    "paths",
    "table",
    "subscribe",
    "subscribepattern",
    "assign",
    "topic",
    "streamname",
    "streamarn",
    "dbtable",
)


@dataclass(frozen=True)
class Identity:
    """What a streaming query reads and writes, as far as its checkpoint depends on it.

    Attributes:
        target: a table, a path, a topic, or the user's function.
        sources: what its streams read.
        fingerprint: what it makes of that; it may be another in the next run, when somebody has worked on the script.
    """

    target: str
    sources: tuple[str, ...]
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """The record beside a checkpoint."""
        return {"target": self.target, "sources": list(self.sources), "fingerprint": self.fingerprint}


@dataclass
class _Taken:
    """A checkpoint that a query of this run has, and what it was of before."""

    fingerprint: str
    before: str | None
    query: Any = None

    @property
    def runs(self) -> bool:
        return self.query is not None and bool(self.query.isActive)


class Checkpoints:
    """Checkpoints of queries that name none, below ``<storage>/checkpoints/_scripts/<script>``.

    A query has the name that it was given, or that of its target; that of another line with the same one has ``~2``
    behind it. Where one line starts several that differ in what they read or do, as in a loop, the second has ``.2``
    behind that, and so on. In the next run each finds its own by what it reads and does; where a line has started one
    alone, that one may have changed.
    """

    def __init__(self, layout: StorageLayout, script: str) -> None:
        self._folder = Path(layout.root) / "checkpoints" / "_scripts" / path_safe(script)
        self._script = path_safe(script)
        self._unnamed = Path(layout.root) / "unnamed" / path_safe(script)
        self._places: dict[str, list[tuple[str, int]]] = {}
        self._taken: dict[Path, _Taken] = {}
        self._lock = Lock()

    def of(self, name: str | None, identity: Identity, place: tuple[str, int], root: str | None = None) -> Path:
        """The checkpoint of a query that is about to start.

        Args:
            name: the query's own, if it has one.
            identity: what it reads and writes.
            place: the line that starts it.
            root: the folder of checkpoints that the session's settings name.

        Raises:
            PipelineError: SCRIPT.CHECKPOINT_OF_ANOTHER: what is there is the progress of another query;
                SCRIPT.CHECKPOINT_IN_DOUBT: it may be.
        """
        called = name or identity.target
        with self._lock:
            first = self._base(name, root) / self._key(called, place)
            there = [first, *(first.with_name(f"{first.name}.{number}") for number in _numbers_behind(first))]
            folder = self._found(there, identity.fingerprint, called)
            before = _recorded(folder)
            _check(before, folder, called, identity)
            taken = self._taken.get(folder)
            known = before.get("fingerprint") if taken is None else taken.before
            self._taken[folder] = _Taken(identity.fingerprint, known)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _RECORD).write_text(json.dumps(identity.to_json()), encoding="utf-8")
        return folder

    def started(self, folder: Path, query: Any) -> None:
        """Note that the query of a checkpoint runs."""
        self._taken[folder].query = query

    def unnamed_target(self, checkpoint: str) -> Path:
        """Where the rows of a stream go that names no target, given the name of its checkpoint's folder."""
        return self._unnamed / checkpoint

    def _base(self, name: str | None, root: str | None) -> Path:
        """The folder of checkpoints: where settings name one, Spark has named queries there, and others at random."""
        if root is None:
            return self._folder
        return Path(root) if name else Path(root) / self._script

    def _key(self, called: str, place: tuple[str, int]) -> str:
        key = path_safe(called)
        places = self._places.setdefault(key, [])
        if place not in places:
            places.append(place)
        number = places.index(place)
        return key if number == 0 else f"{key}~{number + 1}"

    def _found(self, there: Sequence[Path], fingerprint: str, called: str) -> Path:
        """Of the checkpoints of one line: that of the same rows and functions, or a free one that is no other's."""
        for folder in there:
            taken = self._taken.get(folder)
            if taken is None:
                if _recorded(folder).get("fingerprint") == fingerprint:
                    return folder
            elif taken.fingerprint == fingerprint:
                if not taken.runs:
                    return folder
            elif taken.before == fingerprint:
                # Another has gone on with it, because this line had started no more than one.
                raise PipelineError("SCRIPT.CHECKPOINT_IN_DOUBT", name=called, folder=folder)
        free = [folder for folder in there if folder not in self._taken]
        begun = [folder for folder in free if _has_begun(folder)]
        if begun and len(there) > 1:
            raise PipelineError("SCRIPT.CHECKPOINT_IN_DOUBT", name=called, folder=begun[0])
        return free[0] if free else there[0].with_name(f"{there[0].name}.{len(there) + 1}")


def _numbers_behind(first: Path) -> Iterator[int]:
    """Those of the further checkpoints of a line, which are there one behind the other."""
    return takewhile(lambda number: first.with_name(f"{first.name}.{number}").is_dir(), count(2))


def _has_begun(folder: Path) -> bool:
    """Whether a query has come so far that the progress is its own."""
    return any((folder / "offsets").glob("*"))


def check_beginning(checkpoint: str) -> None:
    """Refuse a checkpoint that was deleted under a running stream, which has written further batches into it since.

    Args:
        checkpoint: its folder; one that is on no local disk is not looked at.

    Raises:
        PipelineError: SCRIPT.CHECKPOINT_CUT. Spark would go on as another query, at positions of the deleted one.
    """
    folder = Path(local_path(checkpoint))
    if checkpoint and _has_begun(folder) and not (folder / "metadata").is_file():
        raise PipelineError("SCRIPT.CHECKPOINT_CUT", folder=folder)


def _recorded(folder: Path) -> dict[str, Any]:
    """What the query of a checkpoint reads and writes; nothing when none has begun, or nobody has noted it."""
    if not _has_begun(folder):
        return {}
    try:
        found = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _check(found: dict[str, Any], folder: Path, name: str, identity: Identity) -> None:
    for what, now in identity.to_json().items():
        if what != "fingerprint" and found.get(what, now) != now:
            raise PipelineError(
                "SCRIPT.CHECKPOINT_OF_ANOTHER", name=name, folder=folder, what=_said(found.get(what)), now=_said(now)
            )


def _said(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def sources_of(frame: Any) -> tuple[str, ...]:
    """What the streams of a frame read, as texts without secrets: formats, and the places that options name."""
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - Python has no plans
    leaves = plan.collectLeaves()
    found = [_source(leaves.apply(number)) for number in range(leaves.length()) if leaves.apply(number).isStreaming()]
    return tuple(found)


def _source(leaf: Any) -> str:
    kind = node_kind(leaf)
    if kind == "StreamingRelation":
        source = leaf.dataSource()
        return _described(str(source.className()), "", source.options())
    if kind == "StreamingRelationV2":
        return _described(str(leaf.sourceName()), str(leaf.table().name()), leaf.extraOptions())
    return kind


def _described(kind: str, table: str, options: Any) -> str:
    said = [text for key in _READS if (text := _option(options, key)) is not None]
    source = _option(options, SOURCE_OPTION) or ""
    if source.startswith("{"):
        # One of ours, whose table says nothing more.
        said.append(str(json.loads(source).get("path", "")))
    elif table and not said:
        said.append(table)
    return " ".join(filter(None, (kind.rpartition(".")[2], *said)))


def _option(options: Any, key: str) -> str | None:
    """An option of a map of Java, or of Scala, which answers with an Option."""
    value = options.get(key)
    if hasattr(value, "isDefined"):
        value = value.get() if value.isDefined() else None
    return None if value is None else str(value).replace("file:/", "/").replace("///", "/")
