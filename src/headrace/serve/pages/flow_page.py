"""A flow: its state, its lag and its watermark, and where the time of its batches went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.events.types import FlowDefined
from headrace.metrics import catalogue
from headrace.metrics.metric import Metric
from headrace.model.stream_progress import PHASES
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.serve.charts import stacked_bars, value_bars
from headrace.serve.formats import iso
from headrace.serve.pages.batch_facts import REST, batch_facts
from headrace.serve.pages.facts import error_facts, flow_definition, flow_facts, flow_values, operator_facts
from headrace.serve.pages.flow_history import flow_history
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page

_BATCHES = 60
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
    batches, history = batch_facts(reports)[:_BATCHES], flow_history(reports)
    timed = [batch for batch in batches if batch["duration_ms"] is not None]
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
        "history": history,
    }
    measures = [value_bars([point["value"] for point in one["points"]]) for one in history]
    return Page("flow.html", name, document, {"batches": stacked_bars(timed, phases), "history": measures})


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
