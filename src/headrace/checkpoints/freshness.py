"""Whether a flow has anything to do, found without starting it (D9)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from headrace.checkpoints.delta_log import TableState, committed_transaction, data_changed, table_state
from headrace.checkpoints.layouts import TableLayout, table_layout
from headrace.checkpoints.offsets import Progress, files_seen, local_path, newest_listing, read_progress
from headrace.checkpoints.records import FlowRecord, read_record
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph, Source, SourceKind
from headrace.model.names import Naming, QualifiedName
from headrace.plan.build import News
from headrace.settings.storage import StorageLayout

# A resting flow is started once in a while so that its offset does not age out of its source's log.
LONGEST_REST_S = 7 * 24 * 3600.0

# Operators whose timers may fire although nothing new came in.
_TIMERS = frozenset({"applyInPandasWithState", "transformWithState"})


def transaction_id(pipeline_id: str, flow: str, epoch: int) -> str:
    """The application id of a flow's commits; carries the epoch, so that a new checkpoint skips nothing."""
    return f"headrace:{pipeline_id}:{flow}:{epoch}"


class StoredState:
    """Deployed tables and flow records of one pipeline on a local disk.

    Args:
        layout: where things lie.
        naming: how names are spelled in full.
        pipeline_id: whose transactions the flows commit under.
        now: the time.
        known_epoch: the newest epoch in which the event log has batches of a flow into a dataset, or None.
    """

    def __init__(
        self,
        layout: StorageLayout,
        naming: Naming,
        pipeline_id: str,
        now: Callable[[], float],
        known_epoch: Callable[[str, str], int | None],
    ) -> None:
        self._layout = layout
        self._naming = naming
        self._pipeline_id = pipeline_id
        self._now = now
        self._known_epoch = known_epoch

    def table(self, name: QualifiedName) -> TableState | None:
        """A stored dataset's table as it is now, or None."""
        return table_state(self._layout.table(self._naming, name))

    def layout(self, name: QualifiedName) -> TableLayout:
        """How a stored dataset's table is laid out."""
        return table_layout(self._layout.table(self._naming, name))

    def record_file(self, flow: ResolvedFlow) -> Path:
        """Where a flow's record lies."""
        return Path(self._layout.flow_state(self._naming, flow.target, flow.name))

    def record(self, flow: ResolvedFlow) -> FlowRecord | None:
        """A flow's record, or None when it never ran."""
        return read_record(self.record_file(flow))

    def progress_of(self, flow: ResolvedFlow) -> FlowRecord:
        """A flow's record, or a fresh one; in the epoch that the event log knows when the record was lost."""
        return self.record(flow) or FlowRecord(epoch=self._known_epoch(flow.name, str(flow.target)) or 0)

    def checkpoint(self, flow: ResolvedFlow, epoch: int) -> Path:
        """Where a flow's checkpoint of an epoch lies."""
        return Path(self._layout.checkpoint(self._naming, flow.target, flow.name, epoch))

    def resetting(self, flow: ResolvedFlow) -> bool:
        """True when a crash interrupted a reset of the flow."""
        record = self.record(flow)
        return record is not None and record.resetting

    def ran(self, flow: ResolvedFlow) -> bool:
        """True when the flow has progress: it was run before."""
        record = self.record(flow)
        if record is None:
            return self._known_epoch(flow.name, str(flow.target)) is not None
        return record.started_at > 0

    def lost_checkpoint(self, flow: ResolvedFlow) -> str | None:
        """Where the checkpoint of a stream that ran before is missing, or None when it is there.

        A flow without rules commits under an id that lies in its checkpoint, so its record, or else the event log,
        tells that it ran. One with rules has left its transactions in the table, even if both are gone.
        """
        if flow.mode not in (Mode.APPEND, Mode.COMPLETE):
            return None
        epoch = self.progress_of(flow).epoch
        checkpoint = self.checkpoint(flow, epoch)
        if (checkpoint / "metadata").is_file():
            return None
        path = self._layout.table(self._naming, flow.target)
        app_id = transaction_id(self._pipeline_id, flow.name, epoch)
        has_run = self.ran(flow) or committed_transaction(path, app_id) is not None
        return str(checkpoint) if has_run else None

    def news(self, graph: ResolvedGraph, flow: ResolvedFlow) -> News:
        """Whether the flow has something to do, given the tables as they are now."""
        record = self.record(flow)
        if record is None or not record.started_at:
            return News(started=True, reason="first run")
        if flow.mode is Mode.ONCE:
            return self._news_of_once(flow, record)
        if record.fingerprint != flow.analysis.fingerprint:
            return News(started=True, reason="its code or settings changed")
        if flow.mode is Mode.REPLACE:
            return self._news_of_view(graph, flow, record)
        return self._news_of_stream(flow, record)

    def _news_of_once(self, flow: ResolvedFlow, record: FlowRecord) -> News:
        path = self._layout.table(self._naming, flow.target)
        app_id = transaction_id(self._pipeline_id, flow.name, record.epoch)
        if committed_transaction(path, app_id) is None:
            return News(started=True, reason="runs once and has not yet")
        return News(started=False, reason="ran once")

    def _news_of_view(self, graph: ResolvedGraph, flow: ResolvedFlow, record: FlowRecord) -> News:
        if flow.analysis.unrepeatable:
            return News(started=True, reason=f"recomputed each time: {flow.analysis.unrepeatable}")
        target = self.table(flow.target)
        if target is None or target.table_id != record.target_id:
            return News(started=True, reason="its table is not the one that it wrote")
        for given in graph.stored_inputs(flow):
            table = self.table(given.name)
            known = record.inputs.get(str(given.name))
            if table is None or known is None:
                return News(started=True, reason=f'"{given.name}" is new to it')
            if table.table_id != known.table_id or table.version < known.version:
                return News(started=True, reason=f'"{given.name}" is another table')
            if data_changed(table.path, known.version + 1, table.version):
                return News(started=True, reason=f'"{given.name}" changed')
        return News(started=False, reason="inputs, code and settings are unchanged")

    def _news_of_stream(self, flow: ResolvedFlow, record: FlowRecord) -> News:
        if self._now() - record.started_at > LONGEST_REST_S:
            return News(started=True, reason="started at least weekly")
        if _TIMERS & set(flow.analysis.stateful):
            return News(started=True, reason="its state may have timers")
        checkpoint = self.checkpoint(flow, record.epoch)
        progress = read_progress(checkpoint)
        pending = _pending(flow, progress)
        if pending:
            return News(started=True, reason=pending)
        # Where nothing was ever planned, only a source that can be looked at tells whether something came since.
        offsets = (None,) * len(record.sources) if progress is None else progress.offsets
        sources = flow.analysis.sources
        if record.sources != tuple(source.digest for source in sources) or len(offsets) != len(sources):
            return News(started=True, reason="its sources changed")
        for number, (source, offset) in enumerate(zip(sources, offsets, strict=True)):
            reason = self._news_of_source(source, offset, checkpoint, number)
            if reason:
                return News(started=True, reason=reason)
        if record.running:
            return News(started=True, reason="its last run was interrupted")
        return News(started=False, reason="nothing new in its sources")

    def _news_of_source(self, source: Source, offset: Any, checkpoint: Path, number: int) -> str | None:
        if source.kind is SourceKind.DATASET:
            return _news_of_table(source, self.table(self._naming.canonical(source.detail)), offset)
        if source.kind is SourceKind.FILES:
            return _news_of_files(source.detail, offset, checkpoint, number)
        return f"{source.detail} cannot be compared without starting"


def _news_of_table(source: Source, table: TableState | None, offset: Any) -> str | None:
    if table is None:
        return f'"{source.detail}" is not there yet'
    if offset is None:
        return f'"{source.detail}" has rows' if data_changed(table.path, 0, table.version) else None
    if offset.get("reservoirId") != table.table_id or offset.get("index") != -1:
        return f'"{source.detail}" has more'
    changed = data_changed(table.path, int(offset["reservoirVersion"]), table.version)
    return f'"{source.detail}" has new rows' if changed else None


def _pending(flow: ResolvedFlow, progress: Progress | None) -> str | None:
    """What Spark has still to do for batches that are planned, whether or not something is new."""
    if progress is None:
        return None
    if not progress.completed:
        return f"batch {progress.batch_id} is unfinished"
    if progress.watermark_moved and flow.analysis.stateful:
        return "its watermark has closed results"
    return None


def _news_of_files(detail: str, offset: Any, checkpoint: Path, number: int) -> str | None:
    processed = -1 if offset is None else offset.get("logOffset")
    if processed != newest_listing(checkpoint, number):
        return "listed files are unprocessed"
    try:
        fresh = _listed(detail) - files_seen(checkpoint, number)
    except OSError as error:
        return f'"{error.filename}" cannot be listed'
    return f"{len(fresh)} new file{'s' if len(fresh) > 1 else ''}" if fresh else None


def _listed(detail: str) -> frozenset[str]:
    """The files that Spark's file source would list (``InMemoryFileIndex.allFiles``).

    Those directly below the paths; in folders below only when asked to look there, or when they are partitions.

    Raises:
        OSError: a path leads nowhere, or to a folder that may not be read or is a link, which Spark follows without
            end if it leads upwards.
    """
    said = json.loads(detail)
    found: set[str] = set()
    for pattern in said["paths"]:
        roots = _matches(local_path(pattern))
        if not roots:
            raise FileNotFoundError(0, "no such path", pattern)
        for root in roots:
            if root.is_dir():
                found.update(_files_below(str(root), recursive=said["recursive"]))
            elif not _hidden(root.name):
                found.add(str(root))
    return frozenset(found)


def _matches(pattern: str) -> list[Path]:
    """What a pattern of ``*`` and ``?`` matches; unlike Python's, Hadoop's also match names that begin with a dot."""
    roots = [Path("/")]
    for part in Path(pattern).parts[1:]:
        if "*" in part or "?" in part:
            folders = [root for root in roots if root.is_dir()]
            roots = [entry for folder in folders for entry in folder.iterdir() if fnmatchcase(entry.name, part)]
        else:
            roots = [root / part for root in roots if (root / part).exists()]
    return roots


def _files_below(root: str, *, recursive: bool) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise error

    for folder, folders, files in os.walk(root, onerror=refuse):
        yield from (f"{folder}/{name}" for name in files if not _hidden(name))
        folders[:] = [name for name in folders if not _hidden(name) and (recursive or "=" in name)]
        for name in folders:
            if Path(folder, name).is_symlink():
                raise OSError(0, "is a link", f"{folder}/{name}")


def _hidden(name: str) -> bool:
    """Spark's rule for names that it does not list (``HadoopFSUtils.shouldFilterOutPathName``)."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
