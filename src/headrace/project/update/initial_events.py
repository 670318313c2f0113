"""The first events of an update: settings, warnings and definitions."""

from __future__ import annotations

import json
import platform
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version

from headrace.events.types import (
    DatasetDefined,
    Event,
    FlowDefined,
    FreshnessTarget,
    SinkDefined,
    UpdateCreated,
    Warned,
)
from headrace.graph.analysis import Analysis, SourceKind
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import CompleteFlow, Mode, ViewFlow
from headrace.graph.select import Selection
from headrace.model.datasets import is_private
from headrace.model.external_input import ExternalInput
from headrace.model.outcome import UpdateCause
from headrace.model.table_rules import Fresh
from headrace.options.nearest import nearest
from headrace.plan.notices import without_effect
from headrace.plan.steps import Decision, Plan
from headrace.plan.triggers import partial_inputs
from headrace.project.update.code_version import git_commit
from headrace.settings.alert_settings import AlertSettings
from headrace.settings.memory import driver_memory_bytes
from headrace.settings.settings import Settings
from headrace.sinks.checks import redacted_options

_STREAM_KINDS = {SourceKind.AUTO_LOADER: "auto loader", SourceKind.FILES: "files"}
# In an address, what stands before the host, and after the path.
_URL_SECRETS = re.compile(r"(://)[^/\s@]*@|(?<=[^\s?])\?[^\s,?]*=[^\s,]*")
_FLOW_TYPES = {
    Mode.APPEND: "APPEND",
    Mode.COMPLETE: "COMPLETE",
    Mode.UPDATE: "UPDATE",
    Mode.MERGE: "CHANGE",
    Mode.SNAPSHOT: "SNAPSHOT_CHANGE",
    Mode.ONCE: "APPEND",
    Mode.REPLACE: "MATERIALIZED_VIEW",
    Mode.VIEW: "VIEW",
}


def created_event(
    settings: Settings, selection: Selection, cause: UpdateCause, user: str | None, *, continuous: bool
) -> UpdateCreated:
    """The first event of an update: why and by whom it was started, and what it runs.

    Args:
        settings: the pipeline's.
        selection: what is updated.
        cause: why.
        user: the name of the user; None if unknown.
        continuous: it runs until it is stopped.
    """
    return UpdateCreated(
        cause.value,
        recorded_settings(settings, continuous=continuous),
        recorded_selection(selection),
        user=user,
        version=version("headrace"),
        git_commit=git_commit(settings.root),
    )


def recorded_settings(settings: Settings, *, continuous: bool) -> dict[str, object]:
    """The settings that an update records, and whether it is continuous."""
    return {
        "name": settings.name,
        "storage": settings.storage,
        "schema": settings.schema,
        "profile": settings.profile,
        "development": settings.development,
        "continuous": continuous,
        "driver_memory_bytes": driver_memory_bytes(settings),
        "python": platform.python_version(),
    }


def recorded_selection(selection: Selection) -> dict[str, object]:
    """The selection that an update records."""
    return {
        "refresh": list(selection.refresh),
        "full_refresh": list(selection.full_refresh),
        "full_refresh_all": selection.full_refresh_all,
        "reset_checkpoint": list(selection.reset_checkpoint),
        "accept_data_loss": selection.accept_data_loss,
        **({"selects_nothing": True} if selection.selects_nothing else {}),
    }


def settings_warnings(settings: Settings) -> Iterator[Warned]:
    """Warnings about settings without effect."""
    for key, why in settings.notices:
        yield Warned("SETTINGS.WITHOUT_EFFECT", f'setting "{key}" has no effect: {why}')


def alert_warnings(alerts: AlertSettings, graph: ResolvedGraph) -> Iterator[Warned]:
    """Warnings about limits of datasets that the pipeline does not have."""
    names = [str(dataset.name) for dataset in graph.datasets]
    for name in dict.fromkeys([*alerts.lag_limits_s, *alerts.freshness_s]):
        if name not in names:
            close = nearest(name, names)
            hint = f'; did you mean "{close}"?' if close else ""
            message = f'setting "alerts.datasets.{name}" has no effect: the pipeline has no such dataset{hint}'
            yield Warned("SETTINGS.WITHOUT_EFFECT", message)


def graph_warnings(graph: ResolvedGraph) -> Iterator[Warned]:
    """Warnings about the code: declarations without effect, uncounted rules, replaced tables, undefined order."""
    for notice in without_effect(graph):
        yield Warned("DATASET.WITHOUT_EFFECT", notice.message, notice.flow, notice.dataset)
    for flow, reason in graph.warnings:
        yield Warned("CDC.ORDERED_BY_CHANCE", f'flow "{flow.name}": {reason}', flow.name, str(flow.target))
    for flow in graph.flows:
        if isinstance(flow, CompleteFlow):
            message = f'flow "{flow.name}" aggregates a stream without a watermark: each batch replaces the table'
            yield Warned("FLOW.COMPLETE_MODE", message, flow.name, str(flow.target))
        if isinstance(flow, ViewFlow) and graph.by_name[flow.target].dataset.expectations:
            message = f'expectations of temporary view "{flow.target}" are applied but not counted'
            yield Warned("EXPECTATION.VIEW_NOT_COUNTED", message, flow.name, str(flow.target))


def plan_warnings(plan: Plan) -> Iterator[Warned]:
    """Warnings about the plan: its selection, renames, inactive, cleared or reclustered tables, dropped progress."""
    yield from (Warned(notice.code, notice.message, facts=dict(notice.facts)) for notice in plan.notices)
    for rename in plan.renames:
        message = f'{rename.kind.value} "{rename.old}" is renamed to "{rename.new}" and keeps its data and state'
        yield Warned(f"{rename.kind.name}.RENAMED", message, None, str(rename.dataset))
    yield from (Warned(notice.code, notice.message, notice.flow, notice.dataset) for notice in plan.inactive)
    for loss in plan.losses:
        read = "".join(f"; {source.describe()}" for source in loss.sources)
        yield Warned(
            "TABLE.CLEARED", f'full refresh of "{loss.dataset}" clears {loss.cleared()}{read}', None, str(loss.dataset)
        )
    for step, name in partial_inputs(plan) if plan.continuous else ():
        message = f'flow "{step.flow.name}" reads "{name}" once, when it starts, and then ends; "{name}" keeps changing'
        yield Warned("FLOW.PARTIAL_INPUT", message, step.flow.name, str(step.flow.target))
    for table in plan.tables:
        if table.cluster_by is not None:
            by = ", ".join(f'"{column}"' for column in table.cluster_by) or "nothing"
            message = (
                f'table "{table.dataset}" is now clustered by {by}; to cluster its existing rows, run: '
                f'headrace sql --write "OPTIMIZE {table.dataset} FULL"'
            )
            yield Warned("TABLE.CLUSTERING_CHANGED", message, None, str(table.dataset))
    yield from _forgetting(plan)
    for step in plan.flows:
        if step.restart is not None:
            read = "; ".join(source.describe() for source in step.restart.sources)
            message = f'checkpoint of flow "{step.flow.name}" is reset; it reads {read}'
            yield Warned("FLOW.RESET", message, step.flow.name, str(step.flow.target))
        if step.backfill is not None and step.backfill.is_resumed and not step.backfill.retired:
            rest = "" if step.streams else "; to backfill the range that you requested, run the command again"
            replays = step.backfill.replay is not None
            what, code = ("replay", "FLOW.REPLAY_RESUMED") if replays else ("backfill", "FLOW.BACKFILL_RESUMED")
            message = f'flow "{step.flow.name}" finishes an interrupted {what}: {step.backfill.describe()}{rest}'
            yield Warned(code, message, step.flow.name, str(step.flow.target))


def _forgetting(plan: Plan) -> Iterator[Warned]:
    """Warnings about flows whose sources, such as sockets, cannot be read again."""
    also = "" if plan.continuous else "; a triggered update ends before it reads a line"
    for step in plan.flows:
        for source in step.flow.analysis.sources:
            if source.lacks_retention and step.decision is Decision.START:
                message = (
                    f'flow "{step.flow.name}" reads {source.detail}, which cannot be read again: rows are lost if a '
                    f"batch fails and while no update runs{also}; before the next update, reset the flow: "
                    f"headrace run --continuous --reset-checkpoint {shlex.quote(step.flow.name)}"
                )
                yield Warned("FLOW.FORGETFUL_SOURCE", message, step.flow.name, str(step.flow.target))


def definition_events(graph: ResolvedGraph, plan: Plan) -> Iterator[Event]:
    """The definition events of the datasets and flows of an update."""
    triggers = {step.flow.name: step.trigger.describe() for step in plan.flows}
    for dataset in graph.datasets:
        sink = dataset.dataset.sink
        if sink is not None:
            members = {"targets": ", ".join(map(str, sink.members))} if sink.members else {}
            yield SinkDefined(str(dataset.name), sink.format, {**redacted_options(sink), **members})
            continue
        names = tuple(expectation.name for expectation in dataset.dataset.expectations)
        yield DatasetDefined(
            str(dataset.name),
            dataset.kind,
            dataset.path,
            names,
            schema=json.loads(dataset.schema.to_json()),
            comment=dataset.dataset.comment,
            private=is_private(dataset.dataset.properties),
            partition_by=dataset.dataset.partition_by,
            cluster_by=dataset.dataset.cluster_by,
            freshness=tuple(
                FreshnessTarget(rule.column, rule.within_s)
                for rule in (expectation.predicate for expectation in dataset.dataset.expectations)
                if isinstance(rule, Fresh)
            ),
            schedule=dataset.dataset.schedule,
        )
    for flow in graph.flows:
        yield FlowDefined(
            flow=flow.name,
            dataset=str(flow.target),
            inputs=tuple(str(given.name) for given in flow.analysis.inputs),
            language=flow.flow.query.language,
            mode=_FLOW_TYPES[flow.mode],
            once=flow.flow.once,
            comment=flow.flow.comment,
            external_inputs=external_inputs(flow.analysis),
            trigger=triggers.get(flow.name),
            query_digest=flow.analysis.fingerprint or None,
            columns=flow.analysis.columns,
        )


def external_inputs(analysis: Analysis) -> tuple[ExternalInput, ...]:
    """What a flow reads outside of the pipeline, without what addresses may hold: users, passwords and signatures."""
    streams = {source.name: _STREAM_KINDS.get(source.kind, "stream") for source in analysis.sources}
    return tuple(
        ExternalInput(
            streams.get(text, "batch"),
            _URL_SECRETS.sub(r"\1", text),
            tuple(dict.fromkeys(dataset for place, dataset in analysis.external_datasets if place == text)),
        )
        for text in dict.fromkeys(analysis.external)
    )
