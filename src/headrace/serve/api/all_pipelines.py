"""What the API has of all pipelines at once: their alerts, and their metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.alerts.alert import Alert, place_by_urgency
from headrace.errors import PipelineError
from headrace.metrics import catalogue
from headrace.metrics.exposition import prometheus_text_of
from headrace.metrics.samples import Samples
from headrace.project.inspection.pipeline_view import EVENT_LOG, METRICS
from headrace.project.inspection.stored_project import StoredProject
from headrace.serve.formats import iso
from headrace.serve.pipelines import ServedPipeline

# What of a pipeline must be readable for its metrics.
_NEEDED = frozenset({EVENT_LOG, METRICS})


def known_alerts(pipeline: ServedPipeline) -> tuple[Alert, ...]:
    """The alerts of the last check of a pipeline, the most urgent first.

    Raises:
        PipelineError: ALERTS.NOT_READABLE.
    """
    return StoredProject(pipeline.settings, pipeline.environ).alerts().known()


def alert_facts(alert: Alert) -> Mapping[str, Any]:
    """An alert, with its times as text."""
    times = {name: iso(getattr(alert, name)) for name in ("since", "last_true_at", "resolved_at")}
    return {**alert.to_json(), **times, "silenced_until": iso(alert.silenced_until or None)}


def all_alerts(pipelines: Iterable[ServedPipeline]) -> Mapping[str, Any]:
    """The alerts of all pipelines, the most urgent first; and why those of a pipeline cannot be read."""
    found: list[tuple[Alert, ServedPipeline]] = []
    problems = []
    for pipeline in pipelines:
        try:
            found += [(alert, pipeline) for alert in known_alerts(pipeline)]
        except PipelineError as error:
            problems.append({"pipeline": pipeline.slug, **error.to_json()})
    found.sort(key=lambda one: place_by_urgency(one[0]))
    alerts = [
        {"pipeline": pipeline.slug, "pipeline_name": pipeline.name, **alert_facts(alert)} for alert, pipeline in found
    ]
    return {"alerts": alerts, "problems": problems}


def metrics_text(pipelines: Iterable[ServedPipeline]) -> str:
    """The metrics of all pipelines, as Prometheus reads them; a metric says which of them cannot be read.

    The label ``pipeline`` is the name of the pipeline, as for ``headrace metrics``; of several with one name, the later
    ones have their names in URLs.
    """
    found: dict[str, Samples] = {}
    for pipeline in pipelines:
        view = pipeline.view()
        samples = view.samples.copy()
        samples.set(catalogue.READABLE, int(_NEEDED.isdisjoint(one.part for one in view.unread)))
        found[pipeline.slug if pipeline.name in found else pipeline.name] = samples
    return prometheus_text_of(found)
