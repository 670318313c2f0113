"""Measures how late the rows of a table arrived, from its log and its event time column alone."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.delta_log.tables import commit_actions
from headrace.errors import PipelineError
from headrace.model.lateness import Lateness
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import StoragePath, readable_file, storage_path

_TIMES = ("timestamp", "timestamp_ntz", "date")
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def measure_lateness(path: str, table: str, column: str, commits: int, dropped_share: float, now_s: float) -> Lateness:
    """How far rows were behind the newest event time of the commits before their own, in a table's last commits.

    Rows of the first commit that is read are never late. A commit that removes or changes rows does not show when they
    arrived, nor does one whose files are gone.

    Args:
        path: the path of the table.
        table: its name.
        column: the event time column, at the top level.
        commits: the most commits to read.
        dropped_share: the share of rows that a watermark may drop.
        now_s: the time, in seconds since 1970.

    Raises:
        PipelineError: LATENESS.NO_TIME.
    """
    opened = open_delta(path)
    partitions = opened.metadata().partition_columns
    times = {field.name: field for field in opened.schema().fields if getattr(field.type, "type", "") in _TIMES}
    field = next((times[name] for name in times if name.casefold() == column.casefold()), None)
    if field is None or field.name in partitions:
        known = ", ".join(name for name in times if name not in partitions) or "none"
        raise PipelineError("LATENESS.NO_TIME", name=table, column=column, known=known)
    stored = str(field.metadata.get(_PHYSICAL_NAME, field.name))
    newest: int | None = None
    late: Counter[float] = Counter()
    commits_read = commits_skipped = rows = without_time = compared = 0
    for version in range(max(opened.version() - commits + 1, 0), opened.version() + 1):
        files = _added(storage_path(path), version)
        if files == []:
            continue
        if files is None:
            commits_skipped += 1
            newest = _newest(newest, _newest_in_log(path, version, stored))
            continue
        commits_read += 1
        compared += newest is not None
        before = newest
        for file in files:
            times_in_file, missing = _millis(file, stored)
            rows += len(times_in_file)
            without_time += missing
            if before is not None:
                _count_late(before - times_in_file, late)
            newest = _newest(newest, int(times_in_file.max()) if len(times_in_file) else None)
    ahead_s = max(newest / 1000 - now_s, 0.0) if newest is not None else 0.0
    return Lateness(
        table,
        field.name,
        commits_read,
        commits_skipped,
        rows,
        without_time,
        dict(late),
        dropped_share,
        compared,
        ahead_s,
    )


def _newest(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _newest_in_log(path: str, version: int, column: str) -> int | None:
    """The newest time that a commit added, in milliseconds, from its statistics; None if they lack it."""
    found = None
    for action in commit_actions(path, version) or ():
        stats = json.loads((action.get("add") or {}).get("stats") or "{}")
        text = stats.get("maxValues", {}).get(column)
        if isinstance(text, str):
            with suppress(ValueError):
                at = datetime.fromisoformat(text)
                at = at if at.tzinfo else at.replace(tzinfo=UTC)
                found = _newest(found, int(at.timestamp() * 1000))
    return found


def _added(table: StoragePath, version: int) -> list[StoragePath] | None:
    """The files that a commit added with new rows; None if it removed rows, or if files or log are gone."""
    actions = commit_actions(str(table), version)
    if actions is None:
        return None
    if any("remove" in action and action["remove"].get("dataChange", True) for action in actions):
        return None
    added = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]
    files = [table / unquote(add["path"]) for add in added]
    return files if all(file.is_file() for file in files) else None


def _millis(file: StoragePath, column: str) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
    """The times in a file in milliseconds since 1970, and the number of rows without one."""
    # Spark's INT96 timestamps cover years that nanoseconds cannot represent.
    found = pq.ParquetFile(readable_file(file), coerce_int96_timestamp_unit="us")
    if column not in found.schema_arrow.names:
        return np.empty(0, np.int64), found.metadata.num_rows
    values = found.read(columns=[column]).column(0)
    times = values.drop_null().cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_numpy()
    return times // 1000, values.null_count


def _count_late(behind: np.ndarray[Any, np.dtype[np.int64]], late: Counter[float]) -> None:
    """Count rows by how many milliseconds they are behind; rounded up to two digits, so that no delay is too short."""
    behind = behind[behind > 0]
    unit = 10.0 ** np.maximum(np.floor(np.log10(np.maximum(behind, 1))) - 1, 0)
    values, counts = np.unique(np.ceil(behind / unit) * unit, return_counts=True)
    for millis, count in zip(values.tolist(), counts.tolist(), strict=True):
        late[millis / 1000] += count
