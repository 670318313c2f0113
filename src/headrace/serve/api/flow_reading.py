"""What the API has of one flow: its batches, its checkpoint, and how much state it keeps. It starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from headrace.errors import PipelineError
from headrace.events.envelope import seq_no_at
from headrace.events.recorded import Stretch, batches_of_flows, stream_reports
from headrace.events.types import BatchDone
from headrace.project.inspection.flow_checkpoint import FlowCheckpoint
from headrace.project.inspection.stored_project import StoredProject
from headrace.serve.api.dataset_reading import earlier_of
from headrace.serve.api.query_values import Values, limit_of, stretch_of
from headrace.serve.api.routes import BATCHES
from headrace.serve.formats import iso
from headrace.serve.pages.batch_facts import batch_facts
from headrace.serve.pages.facts import flow_definition, flow_facts, flow_values, operator_facts
from headrace.serve.pages.flow_history import flow_history
from headrace.serve.pipelines import ServedPipeline
from headrace.storage.listed_storage import reading_storage

# A stream reports several batches at once, before or after they are recorded.
_EARLIER, _LATER = timedelta(minutes=1), timedelta(minutes=10)
_MOST_REPORTS = 2000
_STATE = ("Rows of state", "Memory of state", "Watermark delay")
_UNKNOWN = "CHECKPOINTS.UNKNOWN"


def batches(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """The batches of a flow in a part of the event log, the newest first.

    Raises:
        PipelineError: SERVE.NO_PAGE, API.FIELD, EVENTS.NOT_READABLE.
    """
    view, name = pipeline.view(), values["flow"]
    flow_definition(view, name)
    newest, stretch = limit_of(values, BATCHES), stretch_of(values)
    reader = pipeline.events()
    found = batches_of_flows(reader, [name], newest, stretch)
    known = {(one.event.epoch, one.event.batch_id) for one in found if isinstance(one.event, BatchDone)}
    facts: list[dict[str, Any]] = []
    if found:
        near = Stretch(seq_no_at(found[0].at - _EARLIER), seq_no_at(found[-1].at + _LATER))
        reports = stream_reports(reader, name, _MOST_REPORTS, near)
        facts = batch_facts(sorted((*found, *reports), key=lambda one: one.row_id))
    return {
        "flow": name,
        "as_of": iso(view.as_of),
        "batches": [one for one in facts if (one["epoch"], one["batch_id"]) in known],
        "earlier": earlier_of(found, newest),
    }


def checkpoint(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """The checkpoint of a flow.

    Raises:
        PipelineError: SERVE.NO_PAGE, CHECKPOINTS.UNKNOWN: it has not run; EVENTS.NOT_READABLE, STORAGE.*.
    """
    flow_definition(pipeline.view(), values["flow"])
    return _checkpoint(pipeline, values["flow"]).to_json()


def state(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    """The stateful operators of a flow: their stores after the newest batch, and what the flow reported of them.

    Raises:
        PipelineError: SERVE.NO_PAGE, EVENTS.NOT_READABLE, STORAGE.*.
    """
    view, name = pipeline.view(), values["flow"]
    flow_definition(view, name)
    try:
        found: Mapping[str, Any] = _checkpoint(pipeline, name).to_json()
    except PipelineError as error:
        # A flow that has not run keeps no state.
        if error.code != _UNKNOWN:
            raise
        found = {}
    measured = [one for one in flow_history(pipeline.reports([name])) if one["name"] in _STATE]
    return {
        "flow": name,
        "as_of": iso(view.as_of),
        "epoch": found.get("epoch"),
        "batch": found.get("done"),
        "watermark": found.get("watermark"),
        "watermark_delay_s": flow_facts(view, name, flow_values(view))["watermark_delay_s"],
        "format": found.get("format"),
        "operators": found.get("state_operators", []),
        "reported": operator_facts(view.samples, name),
        "history": measured,
    }


def _checkpoint(pipeline: ServedPipeline, flow: str) -> FlowCheckpoint:
    with reading_storage(pipeline.settings.layout):
        found = StoredProject(pipeline.settings, pipeline.environ).checkpoints().show(flow)
    # The name may also be that of a dataset.
    if found.health.stored.name != flow:
        raise PipelineError(_UNKNOWN, flow=flow, suggestion="")
    return found
