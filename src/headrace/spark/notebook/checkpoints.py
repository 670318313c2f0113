"""Default checkpoints of a script's streaming queries, which a query finds again in the next run."""

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
# Options that identify the input of a source; their values distinguish streams.
_INPUT_OPTIONS = (
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
    """The identity of a streaming query, as far as its checkpoint depends on it.

    Attributes:
        target: a table, a path, a topic, or the user's function.
        sources: the inputs of its streams.
        fingerprint: the fingerprint of its query, which changes when the script is edited.
    """

    target: str
    sources: tuple[str, ...]
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """The record next to a checkpoint, as JSON."""
        return {"target": self.target, "sources": list(self.sources), "fingerprint": self.fingerprint}


@dataclass
class _CheckpointInUse:
    """A checkpoint that a query of this run uses, with its fingerprint of the run before."""

    fingerprint: str
    before: str | None
    query: Any = None

    @property
    def is_running(self) -> bool:
        return self.query is not None and bool(self.query.isActive)


class Checkpoints:
    """The checkpoints of queries that name none, below ``<storage>/checkpoints/_scripts/<script>``.

    A checkpoint has the name of the query or of its target. A query on another line with the same name gets the suffix
    ``~2``. If one line starts several different queries, as in a loop, the second gets the suffix ``.2``, and so on. In
    the next run each query finds its checkpoint by its identity; the only query of a line may have changed.
    """

    def __init__(self, layout: StorageLayout, script: str) -> None:
        self._folder = Path(layout.root) / "checkpoints" / "_scripts" / path_safe(script)
        self._script = path_safe(script)
        self._unnamed = Path(layout.root) / "unnamed" / path_safe(script)
        self._origins: dict[str, list[tuple[str, int]]] = {}
        self._in_use: dict[Path, _CheckpointInUse] = {}
        self._lock = Lock()

    def of(self, name: str | None, identity: Identity, origin: tuple[str, int], root: str | None = None) -> Path:
        """The checkpoint of a query that is about to start.

        Args:
            name: the query's name, if it has one.
            identity: the query's identity.
            origin: the file and line that start it.
            root: the checkpoint folder from the session's settings.

        Raises:
            PipelineError: SCRIPT.CHECKPOINT_OF_ANOTHER: the checkpoint is that of another query;
                SCRIPT.CHECKPOINT_IN_DOUBT: it may be that of another query.
        """
        called = name or identity.target
        with self._lock:
            first = self._base(name, root) / self._key(called, origin)
            candidates = [first, *(first.with_name(f"{first.name}.{number}") for number in _further_numbers(first))]
            folder = self._found(candidates, identity.fingerprint, called)
            before = _recorded(folder)
            _check(before, folder, called, identity)
            in_use = self._in_use.get(folder)
            known = before.get("fingerprint") if in_use is None else in_use.before
            self._in_use[folder] = _CheckpointInUse(identity.fingerprint, known)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _RECORD).write_text(json.dumps(identity.to_json()), encoding="utf-8")
        return folder

    def started(self, folder: Path, query: Any) -> None:
        """Record that the query of a checkpoint runs."""
        self._in_use[folder].query = query

    def unnamed_target(self, checkpoint: str) -> Path:
        """The path for the rows of a stream without a target, by the name of its checkpoint's folder."""
        return self._unnamed / checkpoint

    def _base(self, name: str | None, root: str | None) -> Path:
        """The folder of checkpoints; in a folder from the settings, unnamed queries get a subfolder per script."""
        if root is None:
            return self._folder
        return Path(root) if name else Path(root) / self._script

    def _key(self, called: str, origin: tuple[str, int]) -> str:
        key = path_safe(called)
        origins = self._origins.setdefault(key, [])
        if origin not in origins:
            origins.append(origin)
        number = origins.index(origin)
        return key if number == 0 else f"{key}~{number + 1}"

    def _found(self, candidates: Sequence[Path], fingerprint: str, called: str) -> Path:
        """The checkpoint of one line with the same fingerprint, or else an unused one."""
        for folder in candidates:
            in_use = self._in_use.get(folder)
            if in_use is None:
                if _recorded(folder).get("fingerprint") == fingerprint:
                    return folder
            elif in_use.fingerprint == fingerprint:
                if not in_use.is_running:
                    return folder
            elif in_use.before == fingerprint:
                # Another query has continued it, because this line had started only one.
                raise PipelineError("SCRIPT.CHECKPOINT_IN_DOUBT", name=called, folder=folder)
        free = [folder for folder in candidates if folder not in self._in_use]
        started = [folder for folder in free if _has_batches(folder)]
        if started and len(candidates) > 1:
            raise PipelineError("SCRIPT.CHECKPOINT_IN_DOUBT", name=called, folder=started[0])
        return free[0] if free else candidates[0].with_name(f"{candidates[0].name}.{len(candidates) + 1}")


def _further_numbers(first: Path) -> Iterator[int]:
    """The numbers of the further checkpoints of a line, which are consecutive."""
    return takewhile(lambda number: first.with_name(f"{first.name}.{number}").is_dir(), count(2))


def _has_batches(folder: Path) -> bool:
    """Whether a query has planned a batch in this checkpoint."""
    return any((folder / "offsets").glob("*"))


def check_beginning(checkpoint: str) -> None:
    """Refuse a checkpoint that was deleted under a running stream, which has written more batches into it since.

    Args:
        checkpoint: its folder; skipped if it is not on a local disk.

    Raises:
        PipelineError: SCRIPT.CHECKPOINT_CUT. Spark would continue as another query, at offsets of the deleted one.
    """
    folder = Path(local_path(checkpoint))
    if checkpoint and _has_batches(folder) and not (folder / "metadata").is_file():
        raise PipelineError("SCRIPT.CHECKPOINT_CUT", folder=folder)


def _recorded(folder: Path) -> dict[str, Any]:
    """The recorded identity of a checkpoint's query; empty if no query has started, or if there is no record."""
    if not _has_batches(folder):
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
                "SCRIPT.CHECKPOINT_OF_ANOTHER",
                name=name,
                folder=folder,
                what=_as_text(found.get(what)),
                now=_as_text(now),
            )


def _as_text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def sources_of(frame: Any) -> tuple[str, ...]:
    """The inputs of a frame's streams, as texts without secrets: formats, and locations from options."""
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
    parts = [text for key in _INPUT_OPTIONS if (text := _option(options, key)) is not None]
    source = _option(options, SOURCE_OPTION) or ""
    if source.startswith("{"):
        # One of our own sources, whose table name adds nothing.
        parts.append(str(json.loads(source).get("path", "")))
    elif table and not parts:
        parts.append(table)
    return " ".join(filter(None, (kind.rpartition(".")[2], *parts)))


def _option(options: Any, key: str) -> str | None:
    """An option from a Java map, or from a Scala map, which returns an Option."""
    value = options.get(key)
    if hasattr(value, "isDefined"):
        value = value.get() if value.isDefined() else None
    return None if value is None else str(value).replace("file:/", "/").replace("///", "/")
