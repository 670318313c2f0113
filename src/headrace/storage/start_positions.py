"""Finds the position of a source that corresponds to a start, such as a timestamp."""

from __future__ import annotations

import shlex

from headrace.autoloader.source import Source as LoaderSource
from headrace.autoloader.start_position import existing_files
from headrace.checkpoints.initial_offsets import DeltaPosition, FilesPosition, UnreadFiles
from headrace.delta_log.tables import TableState
from headrace.errors import PipelineError, raise_all
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.graph.starts import Start, StartKind, format_timestamp
from headrace.model.names import Naming, QualifiedName
from headrace.plan.source_retention import SourceStart
from headrace.storage.change_detection import StoredState
from headrace.storage.file_listing import listed_files, paths_text
from headrace.storage.source_retention import committed_at, modified_at
from headrace.stores.paths import storage_path


def resolve_start(
    flow: ResolvedFlow, source: Source, start: Start, table: TableState | None, *, cleared: bool, now_s: float
) -> SourceStart:
    """The position at which a flow starts to read a source.

    Args:
        flow: the flow that reads it.
        source: the source.
        start: the start that the user requested.
        table: the current state of the source, if it is a table of the pipeline.
        cleared: the same update clears that table.
        now_s: the time, in seconds since 1970.

    Raises:
        PipelineError: RESET.CANNOT_START, RESET.OUT_OF_RANGE.
    """
    name = describe_source(source)
    if start.kind is StartKind.EARLIEST:
        return SourceStart(name, _earliest(source, table))
    if source.kind is SourceKind.DATASET:
        if cleared:
            raise _cannot_start(flow, start, name, "the same update clears it, so its versions end here")
        if table is None:
            raise _cannot_start(flow, start, name, "it does not exist yet")
        return _start_of_table(flow, name, start, table)
    if source.kind is SourceKind.FILES:
        return _start_of_files(flow, name, start, source)
    if source.kind is SourceKind.AUTO_LOADER:
        return _start_of_auto_loader(flow, name, start, source, now_s)
    raise _cannot_start(flow, start, name, "Headrace cannot interpret the positions of this source")


def describe_source(source: Source) -> str:
    """A source in messages; its own description is not used because it may contain a secret."""
    if source.kind is SourceKind.DATASET:
        return f'table "{source.detail}"'
    if source.kind is SourceKind.FILES:
        return f"the files in {paths_text(source.detail)}"
    if source.kind is SourceKind.AUTO_LOADER:
        return f"the files in {LoaderSource.from_json(source.detail).path}"
    return f"source {source.detail.split()[0] if source.detail.split() else 'of an unknown kind'}"


def _earliest(source: Source, table: TableState | None) -> str:
    if source.kind is SourceKind.DATASET:
        held = "" if table is None else f" at version {table.version}"
        return f"all rows{held}, then new ones"
    if source.kind in (SourceKind.FILES, SourceKind.AUTO_LOADER):
        return "all existing files, then new ones"
    return "the start position that the query sets"


def _start_of_table(flow: ResolvedFlow, name: str, start: Start, table: TableState) -> SourceStart:
    logged = _logged(table)
    oldest = logged[0]
    if start.kind is StartKind.LATEST:
        version = table.version + 1
        text = f"versions after {table.version}"
    elif start.kind is StartKind.VERSION:
        version = start.version
        if not oldest <= version <= table.version + 1:
            range_ = f"version {oldest} to {table.version + 1} (the next one)"
            raise _out_of_range(flow, start, name, range_)
        text = f"version {version} and later"
    else:
        version = _version_at(flow, name, start, table, logged)
        text = f"version {version} of {format_timestamp(committed_at(table.path, version))} and later"
    return SourceStart(name, text, DeltaPosition(table.table_id, version))


def _version_at(flow: ResolvedFlow, name: str, start: Start, table: TableState, logged: range) -> int:
    """The first version committed at the moment or later, as Delta resolves ``startingTimestamp``."""
    first, last = (committed_at(table.path, version) for version in (logged[0], table.version))
    # A moment before the table's creation loses nothing, unless the log has been cleaned up since.
    if start.timestamp_s > last or (start.timestamp_s < first and logged[0] > 0):
        raise _out_of_range(flow, start, name, f"{format_timestamp(first)} to {format_timestamp(last)}")
    return next(version for version in logged if committed_at(table.path, version) >= start.timestamp_s)


def _logged(table: TableState) -> range:
    """The newest contiguous versions whose commits are still in the log."""
    folder = storage_path(table.path) / "_delta_log"
    first = table.version
    while first > 0 and (folder / f"{first - 1:020d}.json").is_file():
        first -= 1
    return range(first, table.version + 1)


def _start_of_files(flow: ResolvedFlow, name: str, start: Start, source: Source) -> SourceStart:
    if start.kind is StartKind.VERSION:
        raise _cannot_start(flow, start, name, "files have no versions")
    try:
        existing = sorted((path, modified_at(path)) for path in listed_files(source.detail))
    except OSError as error:
        raise _cannot_start(flow, start, name, f'"{error.filename}" cannot be listed') from error
    seen = [(path, at) for path, at in existing if start.kind is StartKind.LATEST or at < start.timestamp_s]
    position = FilesPosition(tuple((path, round(at * 1000)) for path, at in seen))
    return SourceStart(name, _skipped_text(start, len(seen)), position)


def _start_of_auto_loader(flow: ResolvedFlow, name: str, start: Start, source: Source, now_s: float) -> SourceStart:
    if start.kind is StartKind.VERSION:
        raise _cannot_start(flow, start, name, "files have no versions")
    loader, now_ns = LoaderSource.from_json(source.detail), int(now_s * 1e9)
    before_ns = None if start.kind is StartKind.LATEST else int(start.timestamp_s * 1e9)
    seen = existing_files(loader, before_ns, now_ns)
    return SourceStart(name, _skipped_text(start, len(seen)), UnreadFiles(source.detail, seen))


def _skipped_text(start: Start, files: int) -> str:
    latest = start.kind is StartKind.LATEST
    what = "new files only" if latest else f"files changed at {format_timestamp(start.timestamp_s)} or later"
    return f"{what}, {files} file{'' if files == 1 else 's'} skipped"


def _cannot_start(flow: ResolvedFlow, start: Start, name: str, reason: str) -> PipelineError:
    return PipelineError(
        "RESET.CANNOT_START",
        location=flow.flow.location,
        flow=flow.name,
        start=start,
        source=name,
        reason=reason,
        command=f"headrace run --reset-checkpoint {shlex.quote(f'{flow.name}=earliest')}",
    )


def _out_of_range(flow: ResolvedFlow, start: Start, name: str, range_: str) -> PipelineError:
    return PipelineError(
        "RESET.OUT_OF_RANGE", location=flow.flow.location, flow=flow.name, start=start, source=name, range=range_
    )


def start_positions(
    flow: ResolvedFlow,
    start: Start,
    cleared: frozenset[QualifiedName],
    state: StoredState,
    naming: Naming,
) -> tuple[SourceStart, ...]:
    """The position at which a flow starts to read each source.

    Raises:
        Problems: sources cannot be read from there.
    """
    found: list[SourceStart] = []
    problems: list[PipelineError] = []
    for source in flow.analysis.sources:
        name = naming.canonical(source.detail) if source.kind is SourceKind.DATASET else None
        table = state.table(name) if name is not None else None
        try:
            found.append(resolve_start(flow, source, start, table, cleared=name in cleared, now_s=state.now()))
        except PipelineError as error:
            problems.append(error)
    raise_all(problems)
    return tuple(found)
