"""A flow: its state, its lag, its checkpoint, and where the time of its batches went, with what happened meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.events.envelope import id_floor, seq_no_at
from headrace.events.types import FlowDefined
from headrace.events.update_events import failed_attempts, query_digests
from headrace.metrics import catalogue
from headrace.metrics.metric import Metric
from headrace.model.stream_progress import PHASES
from headrace.project.inspection.diagnosis.careful_reading import reading_carefully
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.serve.charts import marker_lanes, stacked_bars, value_bars
from headrace.serve.formats import iso
from headrace.serve.pages.batch_facts import REST, batch_facts
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.checkpoint_facts import checkpoint_facts
from headrace.serve.pages.facts import error_facts, flow_definition, flow_facts, flow_values, operator_facts
from headrace.serve.pages.flow_history import flow_history
from headrace.serve.pages.flow_markers import FlowMarker, MarkerKind, code_changes, flow_markers
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page

_BATCHES = 60
_FAILURES = 100
# Of so many updates with other code, it is said whether the query of the flow changed.
_CODE_CHANGES = 10
_ORDER = (*PHASES.values(), REST)
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
    defined = flow_definition(view, name)
    reports = pipeline.reports([name])
    known, history = batch_facts(reports), flow_history(reports)
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
        "state_of_operators": operator_facts(view.samples, name),
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
