"""Removes what the folder of a table keeps of rows that are no longer in it: unused files, and values in the log.

Delta keeps the files of old versions, and statistics in the log, with the least and greatest values of a file. Both
show rows that were deleted. A commit file that is rewritten here keeps its actions, so streams that read the table
continue; only statistics of unused files, which are optional, and conditions of past operations change.

Source: PROTOCOL.md of Delta, "Per-file Statistics", "Commit Provenance Information", "Version Checksum File".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.atomic_write import replace_file
from headrace.delta_log.deletion_vectors import live_files
from headrace.delta_log.tables import newest_version

# Delta's own limit for files that no commit names: a running write may commit them later.
UNNAMED_FILE_AGE_S = 7 * 24 * 3600.0
_VALUES = ("minValues", "maxValues")
_CHANGE_DATA = "_change_data"
# They hold positions of rows, not values.
_VECTORS = re.compile(r"deletion_vector_.*\.bin")
_NUMBERED = re.compile(r"(\d{20})\.")
_ERASED = "(erased)"


@dataclass(frozen=True)
class RemovedFiles:
    """The files that were deleted, their bytes, and the files that no commit names and that may belong to a write."""

    files: int = 0
    size_bytes: int = 0
    unnamed: int = 0


def unused_files(path: str, now_s: float) -> tuple[list[Path], int]:
    """The files of a table that its newest version does not use, and the number of files that may belong to a write.

    Args:
        path: of the table.
        now_s: the time, in seconds since 1970.
    """
    table = Path(path)
    live = {unquote(name) for name in live_files(path, newest_version(path))}
    named = set(_named_files(table))
    found, unnamed = [], 0
    for file in _data_files(table):
        name = file.relative_to(table).as_posix()
        if name in live or _VECTORS.fullmatch(file.name):
            continue
        if name in named or file.stat().st_mtime < now_s - UNNAMED_FILE_AGE_S:
            found.append(file)
        else:
            unnamed += 1
    return found, unnamed


def remove_unused_files(path: str, now_s: float) -> RemovedFiles:
    """Delete the files of a table that its newest version does not use, and folders of partitions that become empty.

    Queries over older versions fail from now on.
    """
    found, unnamed = unused_files(path, now_s)
    size_bytes = 0
    for file in found:
        size_bytes += file.stat().st_size
        file.unlink()
        _checksum_of(file).unlink(missing_ok=True)
    _remove_empty_folders({file.parent for file in found}, Path(path))
    return RemovedFiles(len(found), size_bytes, unnamed)


def remove_old_values(path: str, texts: Collection[str]) -> int:
    """Remove values of unused files from the log of a table; returns the number of log files that changed.

    Args:
        path: of the table.
        texts: conditions of past operations that contain one of these are removed too.
    """
    log = Path(path) / "_delta_log"
    newest = newest_version(path)
    live = live_files(path, newest)
    changed = 0
    for file in sorted(log.glob("*.json")):
        changed += _rewrite_actions(file, live, texts)
    for file in (*sorted(log.glob("*.checkpoint*.parquet")), *sorted((log / "_sidecars").glob("*.parquet"))):
        changed += _rewrite_checkpoint(file, live)
    # Checksum files are optional, and may list the files of their version with statistics.
    for file in log.glob("*.crc"):
        match = _NUMBERED.match(file.name)
        if match and int(match[1]) < newest:
            file.unlink()
            _checksum_of(file).unlink(missing_ok=True)
            changed += 1
    return changed


def log_mentions(path: str, texts: Collection[str]) -> bool:
    """Whether a commit of a table still contains one of these texts, for example as the name of a partition."""
    return any(contains(file.read_text(encoding="utf-8"), texts) for file in (Path(path) / "_delta_log").glob("*.json"))


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


def _rewrite_actions(file: Path, live: Mapping[str, int], texts: Collection[str]) -> int:
    lines = file.read_text(encoding="utf-8").split("\n")
    changed = [_without_values(line, live, texts) for line in lines]
    if changed == lines:
        return 0
    before = file.stat()
    replace_file(file, "\n".join(changed))
    # The time of a commit without a timestamp of its own.
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    _checksum_of(file).unlink(missing_ok=True)
    return 1


def _without_values(line: str, live: Mapping[str, int], texts: Collection[str]) -> str:
    if not line.strip():
        return line
    action = json.loads(line)
    before = json.dumps(action)
    for kind in ("add", "remove"):
        file = action.get(kind) or {}
        if file and file["path"] not in live and file.get("stats"):
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


def _rewrite_checkpoint(file: Path, live: Mapping[str, int]) -> int:
    table = pq.read_table(file)
    changed = table
    for kind in ("add", "remove"):
        if kind in table.column_names:
            position = table.column_names.index(kind)
            column = _without_struct_values(table.column(position).combine_chunks(), live)
            changed = changed.set_column(position, table.schema.field(position), column)
    if changed.equals(table):
        return 0
    draft = file.with_name(f".{file.name}.tmp")
    pq.write_table(changed, draft)
    with draft.open("rb") as stream:
        os.fsync(stream.fileno())
    draft.replace(file)
    _checksum_of(file).unlink(missing_ok=True)
    return 1


def _without_struct_values(column: pa.StructArray, live: Mapping[str, int]) -> pa.StructArray:
    fields = list(column.type)
    # Not flattened, which would put nulls into fields that must not be null.
    children = {field.name: column.field(field.name) for field in fields}
    unused = [path is not None and path not in live for path in children["path"].to_pylist()]
    if "stats" in children:
        texts = children["stats"].to_pylist()
        bare = [_bare_statistics(text) if off and text else text for off, text in zip(unused, texts, strict=True)]
        children["stats"] = pa.array(bare, children["stats"].type)
    if "stats_parsed" in children:
        parsed = children["stats_parsed"]
        kept = [None if off else index for index, off in enumerate(unused)]
        children["stats_parsed"] = parsed.take(pa.array(kept, pa.int64()))
    return pa.StructArray.from_arrays(list(children.values()), fields=fields, mask=column.is_null())


def _named_files(table: Path) -> Iterator[str]:
    """The files that commits of a table name."""
    for file in (table / "_delta_log").glob("*.json"):
        for line in file.read_text(encoding="utf-8").split("\n"):
            action = json.loads(line) if line.strip() else {}
            for kind in ("add", "remove", "cdc"):
                if action.get(kind):
                    yield unquote(action[kind]["path"])


def _data_files(table: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(table):
        folders[:] = [name for name in folders if name == _CHANGE_DATA or "=" in name or name[0] not in "._"]
        yield from (Path(folder) / name for name in names if name[0] not in "._")


def _remove_empty_folders(folders: Iterable[Path], table: Path) -> None:
    for changed in folders:
        folder = changed
        while folder != table and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def _checksum_of(file: Path) -> Path:
    """The file in which Hadoop keeps the checksum of another; without it, nothing is compared."""
    return file.with_name(f".{file.name}.crc")
