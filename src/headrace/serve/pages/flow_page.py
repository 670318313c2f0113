"""A flow: its state, its lag, its checkpoint, and where the time of its batches went, with what happened meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.errors import PipelineError
from headrace.events.envelope import id_floor, seq_no_at
from headrace.events.recorded import Recorded
from headrace.events.types import BatchDone, FlowDefined, StreamProgress
from headrace.events.update_events import failed_attempts, query_digests
from headrace.metrics import catalogue
from headrace.metrics.metric import Metric
from headrace.model.stream_progress import PHASES, BatchTiming
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.diagnosis.careful_reading import reading_carefully
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.serve.charts import marker_lanes, stacked_bars, value_bars
from headrace.serve.formats import iso
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.checkpoint_facts import checkpoint_facts
from headrace.serve.pages.facts import error_facts, flow_facts, flow_values
from headrace.serve.pages.flow_history import flow_history
from headrace.serve.pages.flow_markers import FlowMarker, MarkerKind, code_changes, flow_markers
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page

_BATCHES = 60
_FAILURES = 100
# Of so many updates with other code, it is said whether the query of the flow changed.
_CODE_CHANGES = 10
# The time of a batch that Spark does not count to any phase, and of batches that are no stream's.
_REST = "rest"
_ORDER = (*PHASES.values(), _REST)
_OF_BATCH = (
    *("started_at", "recorded_at", "duration_ms", "rows_read", "rows_written", "rows_dropped", "rows_quarantined"),
    *("version", "update_id"),
)
_LAGS: Mapping[str, Metric] = {
    "seconds": catalogue.LAG_SECONDS,
    "rows": catalogue.LAG_ROWS,
    "files": catalogue.LAG_FILES,
    "bytes": catalogue.LAG_BYTES,
    "commits": catalogue.LAG_COMMITS,
    "records": catalogue.LAG_OFFSETS,
}


def flow_page(pipeline: ServedPipeline, name: str) -> Page:
    """The page of a flow.

    Raises:
        PipelineError: SERVE.NO_PAGE, EVENTS.NOT_READABLE.
    """
    view = pipeline.view()
    defined = view.logged.flows.get(name)
    if defined is None:
        raise PipelineError("SERVE.NO_PAGE", what=f'flow "{name}"', suggestion=did_you_mean(name, [*view.logged.flows]))
    reports = pipeline.reports([name])
    known, history = _batches(reports), flow_history(reports)
    batches = known[:_BATCHES]
    timed = [batch for batch in batches if batch["duration_ms"] is not None]
    since = _shown_since(timed, view, is_whole=len(known) == len(batches))
    with reading_carefully(pipeline.settings.layout) as reading:
        markers = reading.read("failures of the flow", lambda: _markers(pipeline, view, name, timed, since), [])
        checkpoint = checkpoint_facts(pipeline, defined, reports, reading) if defined.mode != "VIEW" else None
    used = {phase for batch in timed for phase in batch["phases_ms"]}
    phases = [phase for phase in _ORDER if phase in used]
    failure = view.logged.failures.get(name)
    outcome = next((one for one in view.outcome.flows if one.flow == name), None) if view.outcome is not None else None
    document = {
        **flow_facts(view, name, flow_values(view)),
        "as_of": iso(view.as_of),
        **_definition(defined),
        "reason": None if outcome is None else outcome.reason,
        "attempts": None if outcome is None else outcome.attempts,
        "running_batch": None if outcome is None or outcome.batch is None else outcome.batch.to_json(),
        "lag": _lag(view, name),
        "state_of_operators": _operators(view, name),
        "error": None if failure is None else error_facts(failure.error),
        "is_final_error": failure is not None and failure.is_final,
        "phases": phases,
        "batches": batches,
        "untimed_batches": len(batches) - len(timed),
        "markers": [one.to_json() for one in reversed(markers)],
        "history": history,
        "checkpoint": checkpoint,
        "unread": unread_facts(reading.unread),
    }
    measures = [value_bars([point["value"] for point in one["points"]]) for one in history]
    pictures = {"batches": stacked_bars(timed, phases), "history": measures, "markers": _lanes(markers, len(timed))}
    return Page("flow.html", name, document, pictures)


def _shown_since(timed: Sequence[Mapping[str, Any]], view: PipelineView, *, is_whole: bool) -> datetime | None:
    """From when on the picture shows what happened; None for always.

    Args:
        timed: the batches in the picture, the newest first.
        view: with the newest updates.
        is_whole: there are no earlier batches, so that the update of the first one is shown, too.
    """
    if not timed:
        return None
    first = timed[-1]
    began = next((one.started_at for one in view.updates if one.update_id == first["update_id"]), None)
    started = datetime.fromisoformat(first["started_at"] or first["recorded_at"])
    return min(began, started) if is_whole and began is not None else started


def _markers(
    pipeline: ServedPipeline,
    view: PipelineView,
    flow: str,
    timed: Sequence[Mapping[str, Any]],
    since: datetime | None,
) -> list[FlowMarker]:
    """What happened between the batches in the picture."""
    reader, first_id = pipeline.events(), "" if since is None else id_floor(seq_no_at(since))
    changes = code_changes(view.updates, since)[-_CODE_CHANGES:]
    compared = {one.update_id: one for change in changes for one in (change.before, change.after)}
    oldest_id = min((id_floor(seq_no_at(one.started_at)) for one in compared.values()), default="")
    digests = query_digests(reader, flow, compared, oldest_id)
    failures = failed_attempts(reader, flow, first_id, _FAILURES)
    return flow_markers(timed[::-1], view.updates, since, changes, failures, digests)


def _lanes(markers: Iterable[FlowMarker], bars: int) -> dict[str, Any]:
    return marker_lanes([(one.kind.value, one.place) for one in markers], [kind.value for kind in MarkerKind], bars)


def _definition(defined: FlowDefined) -> dict[str, Any]:
    return {
        "mode": defined.mode,
        "language": defined.language,
        "is_once": defined.once,
        "comment": defined.comment,
        "trigger": defined.trigger,
        "inputs": list(defined.inputs),
        "external_inputs": [{"kind": one.kind, "name": one.name} for one in defined.external_inputs],
    }


def _lag(view: PipelineView, flow: str) -> list[dict[str, Any]]:
    """By source, what the flow has not read, in every unit that is known."""
    found: dict[str, dict[str, float]] = {}
    for unit, metric in _LAGS.items():
        for (name, source), value in view.samples.of(metric).items():
            if name == flow:
                found.setdefault(source, {})[unit] = value
    return [{"source": source, **dict.fromkeys(_LAGS), **values} for source, values in found.items()]


def _operators(view: PipelineView, flow: str) -> list[dict[str, Any]]:
    rows = view.samples.of(catalogue.STATE_ROWS)
    return [
        {"operator": operator, "bytes": value, "rows": rows.get((name, operator))}
        for (name, operator), value in view.samples.of(catalogue.STATE_BYTES).items()
        if name == flow
    ]


def _batches(reports: Iterable[Recorded]) -> list[dict[str, Any]]:
    """The batches that were recorded or reported, the newest first; each once, with what is known of it."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for one in reports:
        match one.event:
            case BatchDone(epoch=epoch, batch_id=batch_id):
                entry = found.setdefault((epoch, batch_id), _entry(epoch, batch_id))
                if entry["recorded_at"] is None:
                    entry |= _recorded(one, one.event)
            case StreamProgress(epoch=epoch, progress=progress):
                for timing in progress.each:
                    entry = found.setdefault((epoch, timing.batch_id), _entry(epoch, timing.batch_id))
                    entry |= {**_timed(timing), "update_id": entry["update_id"] or one.update_id}
            case _:
                pass
    # What was recorded and reported at once begins with what was recorded.
    newest = sorted(found.values(), key=lambda one: (one["started_at"] or one["recorded_at"], one["batch_id"]))
    return newest[::-1]


def _entry(epoch: int, batch_id: int) -> dict[str, Any]:
    return {"epoch": epoch, "batch_id": batch_id, **dict.fromkeys(_OF_BATCH), "phases_ms": {}}


def _recorded(one: Recorded, done: BatchDone) -> dict[str, Any]:
    counts = done.counts
    known = {
        "recorded_at": iso(one.at),
        "update_id": one.update_id,
        "rows_written": counts.rows_written,
        "rows_dropped": counts.rows_dropped,
        "rows_quarantined": counts.rows_quarantined,
        "version": None if done.commit is None else done.commit.version,
    }
    if done.duration_ms is None:
        return known
    return {**known, "duration_ms": done.duration_ms, "phases_ms": {_REST: done.duration_ms}}


def _timed(timing: BatchTiming) -> dict[str, Any]:
    rest_ms = timing.duration_ms - sum(timing.phases_ms.values())
    return {
        "started_at": iso(timing.started_at),
        "duration_ms": timing.duration_ms,
        "phases_ms": {**timing.phases_ms, **({_REST: rest_ms} if rest_ms > 0 else {})},
        "rows_read": timing.input_rows,
    }
