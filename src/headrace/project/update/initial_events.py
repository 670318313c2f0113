"""The first events of an update: settings, warnings and definitions."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Iterator
from importlib.metadata import version

from headrace.events.types import (
    Event,
    UpdateCreated,
    Warned,
)
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import CompleteFlow, ViewFlow
from headrace.graph.select import Selection
from headrace.lineage.lost_updates import RECORDED_AS
from headrace.model.outcome import UpdateCause
from headrace.options.nearest import nearest
from headrace.plan.notices import without_effect
from headrace.plan.steps import Decision, Plan
from headrace.plan.triggers import partial_inputs
from headrace.project.update.code_version import git_commit
from headrace.project.update.definition_events import definition_events
from headrace.settings.alert_settings import AlertSettings
from headrace.settings.memory import driver_memory_bytes
from headrace.settings.settings import Settings


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
        **_recorded_lineage(settings),
    }


def _recorded_lineage(settings: Settings) -> dict[str, object]:
    """What the next update needs if this one is lost: whether runs are reported, and in which namespace."""
    lineage = settings.lineage
    return {RECORDED_AS: {"namespace": lineage.namespace_of(settings.id)}} if lineage.transports else {}


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


def initial_events(
    settings: Settings, graph: ResolvedGraph, plan: Plan, notices: Iterable[tuple[str, str]]
) -> Iterator[Event]:
    """The events that follow the first one: warnings, and what is defined.

    Args:
        settings: the pipeline's.
        graph: the project.
        plan: of the update.
        notices: of the resolution, each with its code.
    """
    yield from settings_warnings(settings)
    yield from alert_warnings(settings.alerts, graph)
    yield from graph_warnings(graph)
    yield from (Warned(code, message) for code, message in notices)
    yield from plan_warnings(plan)
    yield from definition_events(graph, plan, settings)
