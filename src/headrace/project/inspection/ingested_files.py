"""The files that Auto Loader has seen for a table, from its ledgers; needs no session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from headrace.autoloader.ledger.file_states import FileState, committed_number, file_states
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.ledger.places import LEDGER_POINTER, LEDGERS
from headrace.autoloader.ledger.stored_ledgers import has_ledger, open_ledger
from headrace.checkpoints.offsets import read_progress
from headrace.errors import PipelineError
from headrace.model.names import InvalidName, Naming, QualifiedName
from headrace.model.outcome import FilesBacklog
from headrace.model.rows import Rows
from headrace.options.nearest import did_you_mean
from headrace.settings.storage import StorageLayout
from headrace.storage.inventory import StoredFlow, flows_of, stored_tables
from headrace.stores.paths import StoragePath, storage_path

# The columns of the vendor's cloud_files_state.
COLUMNS = (
    *("path", "size", "modification_time", "discovery_time", "commit_time", "archive_time", "archive_mode"),
    *("move_location", "source_id", "flow_name", "ingestion_state"),
)
_INGESTED, _PROCESSING = "INGESTED", "PROCESSING"


def seen_files(layout: StorageLayout, naming: Naming, text: str) -> Rows:
    """All files that the flows of a dataset have seen, in reading order.

    A file is ``INGESTED`` once its batch is done, ``PROCESSING`` while its batch is planned, and has no state before.

    Raises:
        PipelineError: FILES.NONE if no flow of the dataset has read files with Auto Loader.
    """
    try:
        name = naming.canonical(text)
    except InvalidName:
        name = None
    flows = flows_of(layout, naming, name) if name is not None else ()
    rows = [row for flow in flows for row in _rows(layout, flow)]
    if not rows and (name is None or not _reads_files(layout, naming, name)):
        known = [str(table) for table, _ in stored_tables(layout, naming) if _reads_files(layout, naming, table)]
        raise PipelineError("FILES.NONE", name=text, suggestion=did_you_mean(text, known))
    return Rows(COLUMNS, tuple(rows))


def files_to_read(layout: StorageLayout, naming: Naming, text: str) -> tuple[FilesBacklog, ...]:
    """For each flow of a dataset that reads files, the files found whose batch is not done."""
    try:
        flows = flows_of(layout, naming, naming.canonical(text))
    except InvalidName:
        return ()
    return tuple(found for flow in flows for found in _backlogs(layout, flow))


def _reads_files(layout: StorageLayout, naming: Naming, table: QualifiedName) -> bool:
    return any(True for flow in flows_of(layout, naming, table) for _ in _ledgers(layout, flow))


def _backlogs(layout: StorageLayout, flow: StoredFlow) -> Iterator[FilesBacklog]:
    for _, ledger, upto, completed in _ledgers(layout, flow):
        try:
            remaining = ledger.backlog(upto if completed else committed_number(ledger))
        finally:
            ledger.close()
        yield FilesBacklog(flow.name, remaining.files, remaining.size)


def _rows(layout: StorageLayout, flow: StoredFlow) -> Iterator[tuple[object, ...]]:
    for source, ledger, upto, completed in _ledgers(layout, flow):
        try:
            for number, state in file_states(ledger):
                if number <= ledger.first_number:
                    yield _row(flow, source, state, None)
                    continue
                done = state.committed_ms is not None or (number <= upto and completed)
                planned = _PROCESSING if number <= upto else None
                yield _row(flow, source, state, _INGESTED if done else planned)
        finally:
            ledger.close()


def _row(flow: StoredFlow, source: int, state: FileState, ingestion: str | None) -> tuple[object, ...]:
    mode = None if state.cleaned_ms is None else "MOVE" if state.moved_to else "DELETE"
    times = (_moment(ms) for ms in (state.mtime_ms, state.found_ms, state.committed_ms, state.cleaned_ms))
    return (state.path, state.size, *times, mode, state.moved_to, str(source), flow.name, ingestion)


def _ledgers(layout: StorageLayout, flow: StoredFlow) -> Iterator[tuple[int, Ledger, int, bool]]:
    """For each source with a ledger: its index, its ledger, the last planned file, and whether that batch is done."""
    progress = read_progress(flow.file.parent / str(flow.record.epoch))
    for index, offset in enumerate(progress.offsets if progress else ()):
        if isinstance(offset, dict) and "ledger" in offset:
            for root in _roots(layout):
                if has_ledger(root, offset["ledger"]):
                    ledger = open_ledger(root, offset["ledger"], read_only=True)
                    yield index, ledger, int(offset["number"]), bool(progress and progress.completed)
                    break


def _roots(layout: StorageLayout) -> Iterator[StoragePath]:
    checkpoints = storage_path(layout.root) / "checkpoints"
    for depth in ("*/*/*", "*/*/*/*"):
        yield from checkpoints.glob(f"{depth}/auto_loader/*/{LEDGERS}")
        for pointer in checkpoints.glob(f"{depth}/auto_loader/*/{LEDGER_POINTER}"):
            yield storage_path(pointer.read_text(encoding="utf-8"))


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
