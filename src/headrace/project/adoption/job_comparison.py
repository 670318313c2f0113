"""Compares a flow with the checkpoint of the job that it takes over: sources, state, and the batch that comes next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.checkpoints.foreign import ForeignCheckpoint, ForeignSource, OffsetKind, read_foreign
from headrace.checkpoints.offsets import files_seen, open_batch_planned_at
from headrace.delta_log.tables import TableState, committed_transaction, table_version_or_none
from headrace.errors import PipelineError
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved_flows import CompleteFlow, ResolvedFlow
from headrace.model.local_path import local_path
from headrace.plan.adoption import (
    JobProgress,
    Refused,
    committed_batch,
    files_mismatch,
    state_mismatch,
    topics_mismatch,
)
from headrace.plan.agreement import NONE
from headrace.stores.paths import storage_path

# A checkpoint that changed this recently may still be written to.
_RECENT_S = 120.0
_OTHER_FORMAT = "delta "


@dataclass(frozen=True)
class FlowAdoption:
    """What a flow takes over.

    Attributes:
        flow: the flow.
        job: the checkpoint of the job; None without one.
        committed: the newest batch of the job that the table has; -1 for none.
    """

    flow: ResolvedFlow
    job: ForeignCheckpoint | None
    committed: int = NONE

    @property
    def next_batch(self) -> int:
        """The number of the batch that the flow writes next."""
        return self.committed + 1


def compare(
    flow: ResolvedFlow, checkpoint: str, table: TableState, table_id: Callable[[str], str | None]
) -> tuple[FlowAdoption, list[PipelineError]]:
    """What a flow takes over from a job, and why it must not.

    Args:
        flow: the flow.
        checkpoint: the job's; empty without one.
        table: the table that the job fills.
        table_id: finds the id of the table of a dataset; None without one.

    Raises:
        PipelineError: ADOPT.NOT_LOCAL, ADOPT.NOT_A_CHECKPOINT, ADOPT.CHECKPOINT_DAMAGED, ADOPT.DATABRICKS.
    """
    if not checkpoint:
        problems = [_no_start(flow)] if isinstance(flow, CompleteFlow) else []
        return FlowAdoption(flow, None), problems
    if "://" in checkpoint.removeprefix("file://"):
        raise PipelineError("ADOPT.NOT_LOCAL", name=flow.target, folder=checkpoint)
    job = read_foreign(storage_path(os.path.realpath(local_path(checkpoint))))
    location, params = flow.flow.location, {"flow": flow.name, "name": flow.target, "checkpoint": job.path}
    if job.vendor_parts:
        raise PipelineError("ADOPT.DATABRICKS", location=location, parts="; ".join(job.vendor_parts), **params)
    problems = [
        PipelineError("ADOPT.OTHER_SOURCES", location=location, reason=reason, **params)
        for reason in _source_mismatches(flow, job, table_id)
    ]
    reason = state_mismatch(job.operators, [operator.kind for operator in flow.analysis.operators])
    if reason and job.done != NONE:
        problems.append(PipelineError("ADOPT.OTHER_STATE", location=location, reason=reason, **params))
    transaction = committed_transaction(table.path, job.query_id)
    committed = committed_batch(JobProgress(job.planned, job.done, transaction))
    if isinstance(committed, Refused):
        problems.append(PipelineError(committed.code, location=location, reason=committed.reason, **params))
        committed = NONE
    return FlowAdoption(flow, job, committed), problems


def _no_start(flow: ResolvedFlow) -> PipelineError:
    """The problem of a flow that starts with a full refresh alone, which would clear the table."""
    reason = f'flow "{flow.name}" replaces all of its rows in each batch, and cannot start without a checkpoint'
    return PipelineError("ADOPT.KIND", location=flow.flow.location, name=flow.target, reason=reason)


def _source_mismatches(
    flow: ResolvedFlow, job: ForeignCheckpoint, table_id: Callable[[str], str | None]
) -> Iterator[str]:
    """Why the sources of a job are not those of a flow, a reason for each."""
    sources = flow.analysis.sources
    if job.planned == NONE:
        return
    if len(job.sources) != len(sources):
        yield f"the checkpoint has {_count(len(job.sources))}, and the flow reads {_count(len(sources))}"
        return
    for number, (source, known) in enumerate(zip(sources, job.sources, strict=True)):
        reason = _source_mismatch(number, source, known, job, table_id)
        if reason:
            yield f"source {number} of the checkpoint is {known.kind.value}, the flow reads {source.name}: {reason}"


def _source_mismatch(
    number: int,
    source: Source,
    known: ForeignSource,
    job: ForeignCheckpoint,
    table_id: Callable[[str], str | None],
) -> str:
    if known.kind is OffsetKind.NOTHING:
        return ""
    match source.kind, known.kind:
        case SourceKind.DATASET, OffsetKind.DELTA:
            return _table_mismatch(table_id(source.detail), known.offset)
        case SourceKind.OTHER, OffsetKind.DELTA if source.detail.startswith(_OTHER_FORMAT):
            version = table_version_or_none(local_path(source.detail.removeprefix(_OTHER_FORMAT)))
            return _table_mismatch(None if version is None else version.table_id, known.offset)
        case SourceKind.FILES, OffsetKind.FILES:
            patterns = map(local_path, json.loads(source.detail)["paths"])
            return files_mismatch(files_seen(job.path, number), patterns)
        case SourceKind.OTHER, OffsetKind.KAFKA if source.detail.partition(" ")[0].casefold() == "kafka":
            return topics_mismatch(known.offset, source.detail)
        case SourceKind.AUTO_LOADER, OffsetKind.FILES:
            return "Auto Loader cannot continue a listing of Spark's own file source; use spark.readStream.json(...)"
        case _:
            return "it cannot be known whether they are the same"


def _table_mismatch(table_id: str | None, offset: Mapping[str, object]) -> str:
    read = offset.get("reservoirId")
    if table_id is None:
        return "that table does not exist"
    return "" if read == table_id else f"it has read the table with the id {read}, and this one has {table_id}"


def notes_on(taken: FlowAdoption, table: TableState, now_s: float) -> Iterator[str]:
    """What the user should know of a job that is taken over, in sentences."""
    flow, job = taken.flow, taken.job
    if job is None:
        yield (
            f'flow "{flow.name}" has no checkpoint, and does not run before you say where it starts: '
            f"headrace run --reset-checkpoint {flow.name}=START"
        )
        return
    if job.planned > taken.committed:
        yield f'flow "{flow.name}" writes batch {job.planned} again: the job has planned it and not written it'
    elif job.planned > job.done:
        yield f'flow "{flow.name}" skips batch {job.planned}: the job was stopped after the table had it'
    if committed_transaction(table.path, job.query_id) is None and job.planned != NONE:
        yield (
            "the table has no transaction of the job, as of one that writes with foreachBatch: "
            "that its batches are in the table is known from the checkpoint alone"
        )
    written_at = _newest_write(job)
    if written_at is not None and now_s - written_at < _RECENT_S:
        yield f"the checkpoint was written {max(now_s - written_at, 0):.0f} s ago: make sure that the job is stopped"


def _newest_write(job: ForeignCheckpoint) -> float | None:
    """When the checkpoint was written last; None if that is unknown."""
    opened = open_batch_planned_at(job.path)
    if opened is not None:
        return opened
    try:
        return (job.path / "commits" / str(job.done)).stat().st_mtime if job.done != NONE else None
    except OSError:
        return None


def _count(sources: int) -> str:
    return f"{sources} source{'' if sources == 1 else 's'}"


def is_running(before: Iterable[FlowAdoption]) -> str:
    """Why a job is still running, by what its checkpoint has now; empty if nothing has changed since it was read."""
    for taken in before:
        if taken.job is None:
            continue
        now = read_foreign(taken.job.path)
        if (now.planned, now.done) != (taken.job.planned, taken.job.done):
            return (
                f'the checkpoint of flow "{taken.flow.name}" was at batch {taken.job.planned}, and is at {now.planned}'
            )
    return ""
