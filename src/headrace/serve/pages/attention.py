"""What needs attention, the worst first, as sentences with the command to begin with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.alerts.alert import Alert, AlertState
from headrace.events.levels import Level
from headrace.metrics import catalogue
from headrace.metrics.bottleneck import WAITING
from headrace.metrics.dataset_health import Health, Signal
from headrace.model.outcome import UpdateState
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.serve.formats import duration, iso, plural
from headrace.serve.pages.facts import error_facts, flow_facts, flow_values, healths, mark_of

_BAD, _WARN, _INFO = "bad", "warn", "info"
_ORDER = (_BAD, _WARN, _INFO)
_QUIET_S = 30.0
_FLOW_FAILED, _UPDATE_FAILED = "flow_failed", "update_failed"
_NEW_S = 5.0


def attention(view: PipelineView) -> list[dict[str, Any]]:
    """What needs attention.

    Alerts, errors of flows, streams that are behind with where their time goes, unhealthy datasets that no alert names,
    warnings of the latest update, and what could not be read.
    """
    found = [*_alerts(view), *_quiet(view), *_slow_flows(view)]
    named = {name for item in found for name in (item["flow"], item["dataset"]) if name}
    found += [*_unhealthy(view, named), *_warnings(view), *_unread(view)]
    return sorted(found, key=lambda item: _ORDER.index(item["severity"]))


def _item(severity: str, text: str, **more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("first_step", "flow", "dataset", "since", "code", "cause", "hint"))
    return {"severity": severity, "sentence": sentence(text), **empty, **more}


def sentence(text: str) -> str:
    """A text as a sentence: with a capital letter, and an end."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _alerts(view: PipelineView) -> Iterator[dict[str, Any]]:
    datasets = {name: flow.dataset for name, flow in view.logged.flows.items()}
    shown = [alert for alert in view.alerts if alert.state is not AlertState.RESOLVED and not alert.is_hidden]
    has_failed_flow = any(alert.rule_id == _FLOW_FAILED for alert in shown)
    for alert in shown:
        if alert.rule_id == _UPDATE_FAILED and has_failed_flow:
            # The flow that failed it has an alert of its own.
            continue
        flow = alert.labels.get("flow")
        quiet = alert.acknowledged_by is not None or alert.silenced_until > view.as_of
        yield _item(
            _INFO if quiet else alert.severity.value,
            _alert_text(alert, view.as_of),
            first_step=alert.first_step,
            flow=flow,
            dataset=alert.labels.get("dataset") or datasets.get(flow or ""),
            since=iso(alert.since) if is_recorded(alert, view.as_of) else None,
            **_error(view, alert),
        )


def is_recorded(alert: Alert, now: float) -> bool:
    """Whether a check has recorded an alert; one that was found only now has no beginning."""
    return now - alert.since > _NEW_S


def _alert_text(alert: Alert, now: float) -> str:
    text = alert.message
    if alert.state is AlertState.PENDING:
        text += " (not yet for long enough to be an alert)"
    if alert.acknowledged_by is not None:
        text += f" ({alert.acknowledged_by} knows of it)"
    if alert.silenced_until > now:
        text += " (silenced)"
    return text


def _error(view: PipelineView, alert: Alert) -> Mapping[str, Any]:
    """The error behind an alert about a failure."""
    error: Mapping[str, Any] | None = None
    if alert.rule_id == _FLOW_FAILED:
        failure = view.logged.failures.get(alert.labels.get("flow", ""))
        error = None if failure is None else failure.error
    elif alert.rule_id == _UPDATE_FAILED and view.outcome is not None:
        error = view.outcome.error
    found = error_facts(error)
    if found is None:
        return {"code": alert.labels.get("code")}
    texts = (str(found["message"] or ""), str(found["detail"] or "").partition("\n")[0])
    # The message of many an error says no more than the alert.
    cause = ": ".join(text for text in texts if text and text != alert.message)
    return {"code": found["code"], "cause": cause or None, "hint": found["hint"]}


def _quiet(view: PipelineView) -> Iterator[dict[str, Any]]:
    newest = view.samples.of(catalogue.NEWEST_EVENT).get(())
    is_running = view.outcome is not None and view.outcome.state is UpdateState.RUNNING
    if is_running and newest is not None and view.as_of - newest > _QUIET_S:
        age = duration(view.as_of - newest)
        text = f"an update runs, but the newest event is {age} old: a long batch, or a stream without new input"
        yield _item(_INFO, text, first_step="headrace status")


def _slow_flows(view: PipelineView) -> Iterator[dict[str, Any]]:
    """Running streams that are behind, the most behind first, with where their time goes."""
    values = flow_values(view)
    flows = [flow_facts(view, flow, values) for flow in view.logged.flows]
    behind = [flow for flow in flows if flow["is_active"] and (flow["lag_s"] or 0) >= 1 and flow["bottleneck"]]
    for flow in sorted(behind, key=lambda flow: -flow["lag_s"]):
        if flow["bottleneck"] == WAITING:
            continue
        text = f'flow "{flow["flow"]}" is {duration(flow["lag_s"])} behind; most of its last 10 minutes went to '
        text += {"source": "finding out what is new in its source"}.get(flow["bottleneck"], flow["bottleneck"])
        yield _item(_INFO, text, flow=flow["flow"], dataset=flow["dataset"])


def _unhealthy(view: PipelineView, named: set[str]) -> Iterator[dict[str, Any]]:
    for dataset, found in healths(view.samples).items():
        if found["health"] not in (Health.BAD.value, Health.WARN.value) or dataset in named:
            continue
        quoted = shlex.quote(dataset)
        text, step = f'dataset "{dataset}" is not healthy: {", ".join(found["signals"])}', f"headrace doctor {quoted}"
        if found["signals"] == [Signal.QUARANTINE.value]:
            rows = int(view.samples.of(catalogue.QUARANTINED).get((dataset,), 0))
            text = f'{plural(rows, "row")} of "{dataset}" wait{"s" if rows == 1 else ""} in quarantine'
            step = f"headrace quarantine show {quoted}"
        elif found["signals"] == [Signal.FLOW.value]:
            text = f'dataset "{dataset}" is not up to date: {", ".join(_states(view, dataset))}'
        yield _item(found["health"], text, dataset=dataset, first_step=step)


def _states(view: PipelineView, dataset: str) -> Iterator[str]:
    """The states of the flows of a dataset that are not as they should be, with the reasons."""
    reasons = {} if view.outcome is None else {flow.flow: flow.reason for flow in view.outcome.flows}
    for flow, target, state in view.samples.of(catalogue.FLOW_STATE):
        if target == dataset and mark_of(state) in (Health.BAD.value, Health.WARN.value):
            reason = f" ({reasons[flow]})" if reasons.get(flow) else ""
            yield f'flow "{flow}" is {state}{reason}'


def _warnings(view: PipelineView) -> Iterator[dict[str, Any]]:
    for warning in view.logged.warnings:
        event = warning.event
        if warning.in_latest_update:
            severity = _BAD if event.level is Level.ERROR else _INFO
            yield _item(severity, event.message, flow=event.flow, dataset=event.dataset, code=event.code)


def _unread(view: PipelineView) -> Iterator[dict[str, Any]]:
    for part, reason, place in dict.fromkeys((one.part, one.reason, one.path) for one in view.unread):
        where = f" ({place})" if place else ""
        yield _item(_WARN, f"{part} could not be read{where}: {reason}", first_step="headrace doctor")
