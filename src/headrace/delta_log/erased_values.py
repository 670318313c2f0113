"""Removes what the folder of a table keeps of rows that are no longer in it: unused files, and values in the log.

Delta keeps the files of old versions, and statistics in the log, with the least and greatest values of a file. Both
show rows that were deleted. A commit file that is rewritten here keeps its actions, so streams that read the table
continue; only statistics of unused files, which are optional, and conditions of past operations change. Checkpoints
with sidecars state the sizes of these, so old ones are deleted instead.

Source: PROTOCOL.md of Delta, "Per-file Statistics", "Commit Provenance Information", "Version Checksum File".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.atomic_write import replace_bytes, replace_file
from headrace.delta_log.deletion_vectors import live_files
from headrace.delta_log.log_files import CHECKPOINT, newest_checkpoint, read_actions
from headrace.delta_log.tables import newest_version
from headrace.model.local_path import local_path
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, readable_file, relative_path, sorted_paths, storage_path
from headrace.stores.uris import is_store_uri

# Delta's own limit for files that no commit names: a running write may commit them later.
UNNAMED_FILE_AGE_S = 7 * 24 * 3600.0
_VALUES = ("minValues", "maxValues")
_CHANGE_DATA = "_change_data"
_SIDECARS = "_sidecars"
# They hold positions of rows, not values.
_VECTORS = re.compile(r"deletion_vector_.*\.bin")
_NUMBERED = re.compile(r"(\d{20})\.")
_ERASED = "(erased)"

_IsUnused: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True)
class UnusedFiles:
    """The files of a table that its newest version does not use.

    Attributes:
        files: those that can be deleted.
        unnamed: the number of files that no commit names, and that may belong to a running write.
        unnamed_until_s: when the last of them is old enough to be deleted, in seconds since 1970; 0 if there is none.
        kept_for: why no file can be deleted; empty if they can.
    """

    files: tuple[StoragePath, ...] = ()
    unnamed: int = 0
    unnamed_until_s: float = 0.0
    kept_for: str = ""


def unused_files(path: str, now_s: float) -> UnusedFiles:
    """The files of a table that its newest version does not use.

    Law: no file of a version that is committed during the call is among them, unless a later version does not use it.

    Args:
        path: of the table.
        now_s: the time, in seconds since 1970.
    """
    table, located = storage_path(path), _locator(path)
    # Named files come first: a file of a commit between the two is then unnamed and young.
    named = {located(_decoded(name)) for name in _named_files(table)}
    live = {located(_decoded(name)) for name in live_files(path, newest_version(path))}
    root = f"{path.rstrip('/') if is_store_uri(path) else os.path.realpath(path)}/"
    elsewhere = sorted(name for name in live if not name.startswith(root))
    if elsewhere:
        return UnusedFiles(kept_for=f"its log names files outside of its folder, such as {elsewhere[0]}")
    found, until_s = [], []
    for file in _data_files(table):
        name = located(relative_path(file, table).as_posix())
        if name in live or _VECTORS.fullmatch(file.name):
            continue
        with suppress(FileNotFoundError):
            old_at_s = file.stat().st_mtime + UNNAMED_FILE_AGE_S
            if name in named or old_at_s < now_s:
                found.append(file)
            else:
                until_s.append(old_at_s)
    return UnusedFiles(tuple(found), len(until_s), max(until_s, default=0.0))


def remove_unused_files(path: str, now_s: float) -> UnusedFiles:
    """Delete the files of a table that its newest version does not use, and folders of partitions that become empty.

    Queries over older versions fail from now on. Returns the files that were deleted.
    """
    unused = unused_files(path, now_s)
    for file in unused.files:
        file.unlink(missing_ok=True)
        _checksum_of(file).unlink(missing_ok=True)
    _remove_empty_folders({file.parent for file in unused.files if isinstance(file, Path)}, Path(path))
    return unused


def remove_old_values(path: str, texts: Collection[str]) -> int:
    """Remove values of unused files from the log of a table; returns the number of log files that changed.

    Args:
        path: of the table.
        texts: conditions of past operations that contain one of these are removed too.
    """
    log = storage_path(path) / "_delta_log"
    newest = newest_version(path)
    located = _locator(path)
    live = frozenset(located(_decoded(name)) for name in live_files(path, newest))

    def is_unused(name: str) -> bool:
        return located(_decoded(name)) not in live

    changed = _remove_old_checkpoints(log, newest) if has_v2_checkpoints(path) else 0
    for file in _commits(log):
        changed += _rewrite_actions(file, is_unused, texts)
    for file in sorted_paths(log.glob("*.checkpoint*.parquet")):
        if not _is_v2(file):
            changed += _rewrite_checkpoint(file, is_unused)
    # Checksum files are optional, and may list the files of their version with statistics.
    for file in log.glob("*.crc"):
        match = _NUMBERED.match(file.name)
        if match and int(match[1]) < newest:
            file.unlink(missing_ok=True)
            _checksum_of(file).unlink(missing_ok=True)
            changed += 1
    return changed


def has_v2_checkpoints(path: str) -> bool:
    """Whether the log of a table has v2 checkpoints, which are not rewritten: a newer one has to replace them."""
    log = storage_path(path) / "_delta_log"
    return (log / _SIDECARS).is_dir() or any(log.glob("*.checkpoint.*.json"))


def log_mentions(path: str, texts: Collection[str]) -> bool:
    """Whether a commit of a table still contains one of these texts, for example as the name of a partition."""
    return any(
        contains(file.read_text(encoding="utf-8"), texts) for file in _commits(storage_path(path) / "_delta_log")
    )


def contains(content: str, texts: Collection[str]) -> bool:
    """Whether a text contains one of some others as a whole: 42 is not in 420, nor ann@x.org in jo.ann@x.org."""
    decoded = unquote(content)
    return any(_whole(text).search(one) for text in texts for one in (content, decoded))


def without_texts(content: str, texts: Iterable[str], replacement: str = _ERASED) -> str:
    """A text without some others, which :func:`contains` would find."""
    for text in sorted(texts, key=len, reverse=True):
        content = _whole(text).sub(lambda _match: replacement, content)
    return content


def _whole(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?<!\w[.+@-]){re.escape(text)}(?![.+@-]?\w)")


def _commits(log: StoragePath) -> list[StoragePath]:
    """The commits of a log, and compacted ones; not checkpoints in JSON, whose sizes are stated elsewhere."""
    return sorted_paths(file for file in log.glob("*.json") if not CHECKPOINT.fullmatch(file.name))


def _remove_old_checkpoints(log: StoragePath, newest: int) -> int:
    """Remove the checkpoints with sidecars that are older than the newest complete one; returns their number."""
    version, parts = newest_checkpoint(log, newest)
    kept = {name for part in parts for name in _sidecars(part)}
    if not all((log / _SIDECARS / name).is_file() for name in kept):
        return 0
    removed = 0
    for file in sorted_paths(log.glob("*.checkpoint*")):
        match = CHECKPOINT.fullmatch(file.name)
        if match and int(match[1]) < version and _is_v2(file):
            # Sidecars first: after a crash, the checkpoint still names those that are left.
            for sidecar in [log / _SIDECARS / name for name in _sidecars(file) if name not in kept]:
                sidecar.unlink(missing_ok=True)
                _checksum_of(sidecar).unlink(missing_ok=True)
            file.unlink(missing_ok=True)
            _checksum_of(file).unlink(missing_ok=True)
            removed += 1
    return removed


def _sidecars(checkpoint: StoragePath) -> list[str]:
    """The names of the sidecars of a checkpoint file."""
    if checkpoint.suffix == ".json":
        actions = read_actions(checkpoint)
    elif "sidecar" in pq.read_schema(readable_file(checkpoint)).names:
        actions = pq.read_table(readable_file(checkpoint), columns=["sidecar"]).to_pylist()
    else:
        actions = []
    return [unquote(action["sidecar"]["path"]) for action in actions if action.get("sidecar")]


def _is_v2(checkpoint: StoragePath) -> bool:
    """Whether a checkpoint file is in the format that can have sidecars, and uses it."""
    return checkpoint.suffix == ".json" or bool(_sidecars(checkpoint))


def _rewrite_actions(file: StoragePath, is_unused: _IsUnused, texts: Collection[str]) -> int:
    lines = file.read_text(encoding="utf-8").split("\n")
    changed = [_without_values(line, is_unused, texts) for line in lines]
    if changed == lines:
        return 0
    before = file.stat()
    # First: after a crash, an old checksum of a new file would make it unreadable.
    _checksum_of(file).unlink(missing_ok=True)
    replace_file(file, "\n".join(changed))
    if isinstance(before, os.stat_result):
        # The time of a commit without a timestamp of its own; that of an object cannot be set.
        os.utime(str(file), ns=(before.st_atime_ns, before.st_mtime_ns))
    return 1


def _without_values(line: str, is_unused: _IsUnused, texts: Collection[str]) -> str:
    if not line.strip():
        return line
    action = json.loads(line)
    before = json.dumps(action)
    for kind in ("add", "remove"):
        file = action.get(kind) or {}
        if file and file.get("stats") and is_unused(file["path"]):
            file["stats"] = _bare_statistics(file["stats"])
    parameters = (action.get("commitInfo") or {}).get("operationParameters") or {}
    for name, value in parameters.items():
        if name.casefold().endswith(("predicate", "predicates")) and contains(str(value), texts):
            parameters[name] = _ERASED
    return line if json.dumps(action) == before else json.dumps(action, separators=(",", ":"), ensure_ascii=False)


def _bare_statistics(text: str) -> str:
    stats = json.loads(text)
    if not any(name in stats for name in _VALUES):
        return text
    return json.dumps({name: value for name, value in stats.items() if name not in _VALUES}, separators=(",", ":"))


def _rewrite_checkpoint(file: StoragePath, is_unused: _IsUnused) -> int:
    table = pq.read_table(readable_file(file))
    changed = table
    for kind in ("add", "remove"):
        if kind in table.column_names:
            position = table.column_names.index(kind)
            column = _without_struct_values(table.column(position).combine_chunks(), is_unused)
            changed = changed.set_column(position, table.schema.field(position), column)
    if changed.equals(table):
        return 0
    written = BytesIO()
    pq.write_table(changed, written)
    _checksum_of(file).unlink(missing_ok=True)
    replace_bytes(file, written.getvalue())
    return 1


def _without_struct_values(column: pa.StructArray, is_unused: _IsUnused) -> pa.StructArray:
    fields = list(column.type)
    # Not flattened, which would put nulls into fields that must not be null.
    children = {field.name: column.field(field.name) for field in fields}
    unused = [path is not None and is_unused(path) for path in children["path"].to_pylist()]
    if "stats" in children:
        texts = children["stats"].to_pylist()
        bare = [_bare_statistics(text) if off and text else text for off, text in zip(unused, texts, strict=True)]
        children["stats"] = pa.array(bare, children["stats"].type)
    if "stats_parsed" in children:
        parsed = children["stats_parsed"]
        kept = [None if off else index for index, off in enumerate(unused)]
        children["stats_parsed"] = parsed.take(pa.array(kept, pa.int64()))
    return pa.StructArray.from_arrays(list(children.values()), fields=fields, mask=column.is_null())


def _named_files(table: StoragePath) -> Iterator[str]:
    """The files that commits of a table name, as they name them."""
    for file in _commits(table / "_delta_log"):
        for action in read_actions(file):
            yield from (action[kind]["path"] for kind in ("add", "remove", "cdc") if action.get(kind))


def _decoded(name: str) -> str:
    """The path of a file that a log names, relative or absolute; other URIs than of local files stay as they are."""
    return local_path(name) if name.startswith("file:") else unquote(name)


def _locator(table: str) -> Callable[[str], str]:
    """A function that returns the absolute path, without symbolic links, of a path in the log of a table."""
    if is_store_uri(table):
        return lambda path: path if "://" in path else f"{table.rstrip('/')}/{path}"
    real = cache(os.path.realpath)

    def located(path: str) -> str:
        if "://" in path:
            return path
        file = Path(table, path)
        # Of the folder alone, which many files share.
        return f"{real(file.parent)}/{file.name}"

    return located


def _data_files(table: StoragePath) -> Iterator[StoragePath]:
    if isinstance(table, ObjectPath):
        yield from _data_objects(table)
        return
    for folder, folders, names in os.walk(table):
        if folder != str(table) and "_delta_log" in folders:
            # Another table.
            folders.clear()
            continue
        folders[:] = [name for name in folders if name == _CHANGE_DATA or "=" in name or name[0] not in "._"]
        yield from (Path(folder) / name for name in names if name[0] not in "._")


def _data_objects(table: ObjectPath) -> Iterator[ObjectPath]:
    found = [(relative_path(file, table).parts, file) for file in table.rglob("*")]
    others = {parts[: parts.index("_delta_log")] for parts, _ in found if "_delta_log" in parts[1:]}
    for parts, file in found:
        is_hidden = any(part[0] in "._" and part != _CHANGE_DATA and "=" not in part for part in parts[:-1])
        if not is_hidden and parts[-1][0] not in "._" and not any(parts[: len(other)] == other for other in others):
            yield file


def _remove_empty_folders(folders: Iterable[Path], table: Path) -> None:
    for changed in folders:
        folder = changed
        # A folder that is not empty, or just got a file, stays.
        with suppress(OSError):
            while folder != table:
                folder.rmdir()
                folder = folder.parent


def _checksum_of(file: StoragePath) -> StoragePath:
    """The file in which Hadoop keeps the checksum of another; without it, nothing is compared."""
    return file.with_name(f".{file.name}.crc")
