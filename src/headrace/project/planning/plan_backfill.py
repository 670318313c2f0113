"""Plans a backfill: the range of its sources over which a stream's query runs as a batch, and whether it may."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from headrace.checkpoints.initial_offsets import DeltaPosition, FilesPosition
from headrace.errors import PipelineError, Problems, problems_of, raise_all
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import AppendFlow, ResolvedFlow, StoredFlow
from headrace.graph.starts import EARLIEST, Start, StartKind, parse_start
from headrace.model.datasets import Kind
from headrace.model.names import InvalidName, Naming
from headrace.options.nearest import did_you_mean
from headrace.plan.backfills import Backfill, BackfillRequest, FilesRange, SourceRange, TableRange, no_backfill_reason
from headrace.plan.source_retention import SourceStart
from headrace.plan.steps import Decision, FlowStep, Plan
from headrace.storage.backfills import Coverage, added_files, next_number, overlap, stored_backfills
from headrace.storage.change_detection import StoredState
from headrace.storage.history import StoredHistory
from headrace.storage.source_retention import modified_at
from headrace.storage.start_positions import describe_source


def with_backfill(
    plan: Plan, request: BackfillRequest, state: StoredState, past: StoredHistory, naming: Naming
) -> Plan:
    """The plan with one flow that backfills a range, and nothing else.

    Raises:
        Problems: the flow cannot be loaded so, or the range is wrong.
    """
    flow = _flow(plan.graph, request.name, naming)
    if (error := plan.step_for(flow.name).error) is not None:
        raise error
    backfill = _backfill(flow, request, state, past, naming)
    own = FlowStep(flow, Decision.START, backfill.describe(), backfill=backfill, streams=False)
    steps = tuple(own if step.flow is flow else _excluded(step) for step in plan.flows)
    return replace(plan, flows=steps, tables=tuple(table for table in plan.tables if table.dataset == flow.target))


def _excluded(step: FlowStep) -> FlowStep:
    return FlowStep(step.flow, Decision.EXCLUDE, "not part of the backfill")


def _flow(graph: ResolvedGraph, text: str, naming: Naming) -> StoredFlow:
    found = next((flow for flow in graph.stored_flows if flow.name == text), None)
    if found is None:
        try:
            target = naming.canonical(text)
        except InvalidName:
            target = None
        into = [flow for flow in graph.stored_flows if flow.target == target]
        streams = [flow for flow in into if isinstance(flow, AppendFlow)] or into
        if len(streams) > 1:
            names = ", ".join(f'"{flow.name}"' for flow in streams)
            raise PipelineError("BACKFILL.WHICH_FLOW", name=text, flows=names)
        if not streams:
            known = [flow.name for flow in graph.stored_flows]
            raise PipelineError("BACKFILL.UNKNOWN", name=text, suggestion=did_you_mean(text, known))
        found = streams[0]
    problem = no_backfill_reason(found)
    if problem is not None:
        raise problem
    location = found.flow.location
    if graph.by_name[found.target].kind is Kind.SINK:
        raise PipelineError("BACKFILL.SINK", location=location, flow=found.name, name=found.target)
    for source in found.analysis.sources:
        if source.kind in (SourceKind.OTHER, SourceKind.AUTO_LOADER):
            raise PipelineError("BACKFILL.SOURCE", location=location, flow=found.name, source=describe_source(source))
    return found


def _backfill(
    flow: ResolvedFlow, request: BackfillRequest, state: StoredState, past: StoredHistory, naming: Naming
) -> Backfill:
    folder = state.record_file(flow).parent
    before = stored_backfills(folder, naming.canonical)
    pending = next((backfill for backfill in before if backfill.pending), None)
    if request.abandon:
        return _abandoned(flow, pending, state)
    if pending is not None:
        return pending
    ranges = _ranges(flow, request, past, naming)
    _check_added(flow, ranges, state)
    record = state.progress_of(flow)
    covered = [Coverage(state.checkpoint(flow, epoch)) for epoch in range(record.first_epoch, record.epoch + 1)]
    current = covered[-1]
    starts_at_range = all(current.starts_at_range(number, found) for number, found in enumerate(ranges))
    if starts_at_range:
        ranges = tuple(_behind(current, number, found) for number, found in enumerate(ranges))
    # A fence that the stream has not passed moves on with the backfill.
    streams = covered[:-1] if starts_at_range else covered
    new = not any(coverage.has_read for coverage in covered) and not current.is_unread
    if new and _start(request.start, "--from") != EARLIEST:
        raise PipelineError("BACKFILL.GAP", flow=flow.name, start=request.start, reset=f"{flow.name}={request.start}")
    if not request.again:
        _check_overlap(flow, ranges, streams, before)
    # With `again`, the backfill adds the rows a second time: a new stream still starts after the range.
    return Backfill(next_number(before), ranges, starts_at_range or new)


def _behind(current: Coverage, number: int, found: SourceRange) -> SourceRange:
    """A range of files that starts after the files that the stream already skips."""
    if isinstance(found, TableRange):
        return found
    return replace(found, before=tuple((path, _time_of(path)) for path in sorted(current.skipped_files(number))))


def _time_of(path: str) -> int:
    try:
        return round(modified_at(path) * 1000)
    except OSError:
        # It was archived since, and will not be listed.
        return 0


def _abandoned(flow: ResolvedFlow, pending: Backfill | None, state: StoredState) -> Backfill:
    if pending is None:
        raise PipelineError("BACKFILL.NOT_PENDING", flow=flow.name)
    if state.is_backfill_committed(flow, pending):
        raise PipelineError("BACKFILL.IN_TABLE", flow=flow.name, name=flow.name)
    return replace(pending, retired=True)


def _ranges(
    flow: ResolvedFlow, request: BackfillRequest, past: StoredHistory, naming: Naming
) -> tuple[SourceRange, ...]:
    start, end = _start(request.start, "--from"), _start(request.end, "--to")
    if end.kind is StartKind.EARLIEST:
        raise PipelineError("BACKFILL.EMPTY", flow=flow.name, range=f"{start} to {end}")
    begins = _positions(flow, start, past, "--from")
    ends = _positions(flow, end, past, "--to")
    positions = zip(flow.analysis.sources, begins, ends, strict=True)
    ranges = tuple(_range(source, a.position, b.position, naming, start) for source, a, b in positions)
    if any(_is_empty(found) for found in ranges):
        raise PipelineError("BACKFILL.EMPTY", flow=flow.name, range=f"{start} to {end}")
    return ranges


def _positions(flow: ResolvedFlow, start: Start, past: StoredHistory, option: str) -> tuple[SourceStart, ...]:
    try:
        return past.start_positions(flow, start, frozenset())
    except (PipelineError, Problems) as error:
        problems = problems_of(error)
        if option == "--to" and start.kind is StartKind.TIMESTAMP and start.timestamp_s > past.last_input_commit(flow):
            return past.start_positions(flow, Start(StartKind.LATEST), frozenset())
        reasons = [(problem.params.get("range"), problem.params.get("reason")) for problem in problems]
        places = [f"the log has {range_}" if range_ else str(reason) for range_, reason in reasons]
        raise PipelineError(
            "BACKFILL.NO_SUCH_POSITION", flow=flow.name, option=option, value=start, reason="; ".join(places)
        ) from error


def _range(source: Source, begin: object, end: object, naming: Naming, start: Start) -> SourceRange:
    whole = start == EARLIEST
    if isinstance(end, DeltaPosition):
        first = 0 if not isinstance(begin, DeltaPosition) else begin.version
        return TableRange(naming.canonical(source.detail), end.table_id, first, end.version - 1, whole)
    before = begin.seen if isinstance(begin, FilesPosition) else ()
    left_out = frozenset(path for path, _ in before)
    seen = end.seen if isinstance(end, FilesPosition) else ()
    files = tuple(file for file in seen if file[0] not in left_out)
    return FilesRange(describe_source(source), tuple(json.loads(source.detail)["paths"]), files, before)


def _is_empty(found: SourceRange) -> bool:
    return found.first > found.last if isinstance(found, TableRange) else not found.files


def _start(text: str, option: str) -> Start:
    found = parse_start(text)
    if found is None:
        raise PipelineError("BACKFILL.BAD_POSITION", option=option, value=text)
    return found


def _check_added(flow: ResolvedFlow, ranges: Sequence[SourceRange], state: StoredState) -> None:
    for found in ranges:
        if isinstance(found, TableRange) and not found.whole:
            table = state.table(found.dataset)
            assert table is not None  # noqa: S101 - its versions were looked up a moment ago
            try:
                added_files(table, found)
            except LookupError as error:
                location, range_ = flow.flow.location, found.describe()
                raise PipelineError(
                    "BACKFILL.NOT_ADDED", location=location, flow=flow.name, range=range_, reason=error
                ) from error


def _check_overlap(
    flow: ResolvedFlow, ranges: Sequence[SourceRange], streams: Sequence[Coverage], before: Sequence[Backfill]
) -> None:
    problems: list[PipelineError] = []
    for number, found in enumerate(ranges):
        if any(coverage.reaches(number, found) for coverage in streams):
            reader = "the stream itself"
        elif any(
            overlap(found, backfill.ranges[number]) for backfill in _in_table(before) if number < len(backfill.ranges)
        ):
            reader = "an earlier backfill"
        else:
            continue
        problems.append(
            PipelineError(
                "BACKFILL.OVERLAP", location=flow.flow.location, flow=flow.name, range=found.describe(), reader=reader
            )
        )
    raise_all(problems)


def _in_table(backfills: Sequence[Backfill]) -> list[Backfill]:
    """The backfills whose rows are still there."""
    return [backfill for backfill in backfills if not backfill.retired]
