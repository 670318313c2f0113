"""Streams that cannot continue because an input is rebuilt, and the one command that starts them again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from headrace.graph.dependencies import readers_below, with_readers
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ResolvedFlow, StoredFlow, StreamingFlow
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.plan.restarts import reset_command, resume_start
from headrace.plan.steps import Decision, FlowStep, PlanNotice, TableChange, TableStep


def start_over_command(graph: ResolvedGraph, flow: ResolvedFlow) -> str:
    """The command after which a stream whose input was rebuilt runs again, and with it all streams below."""
    if not _is_resettable(graph, flow.target):
        return _reset(flow)
    return _full_refresh(graph, [flow.target])


def streamed(graph: ResolvedGraph, flow: ResolvedFlow) -> list[QualifiedName]:
    """The tables that a flow reads as streams."""
    return [given.name for given in graph.stored_inputs(flow) if given.streaming]


def clears_table(step: TableStep | None) -> bool:
    """True if the step replaces a table by an empty one."""
    return step is not None and step.change is TableChange.RESET


def failing_below(
    graph: ResolvedGraph,
    tables: Mapping[QualifiedName, TableStep],
    steps: Sequence[FlowStep],
    has_run: Callable[[ResolvedFlow], bool],
) -> tuple[PlanNotice, ...]:
    """The notice of all streams that fail at their next start, because an update clears tables that they read.

    Args:
        graph: the datasets and their flows.
        tables: the steps of the tables of the update.
        steps: those of all flows.
        has_run: whether a flow has progress; others start from the beginning anyway.
    """
    cleared = {name for name, step in tables.items() if clears_table(step)}
    failing = [step.flow for step in steps if cleared and _cannot_continue(graph, step, cleared) and has_run(step.flow)]
    if not failing:
        return ()
    rebuilt = [name for name in tables if name in cleared and any(name in streamed(graph, flow) for flow in failing)]
    one = len(failing) == 1
    command = _full_refresh(graph, {step.flow.target for step in steps if step.reset} | cleared)
    message = (
        f"{_listed(rebuilt)} {'is' if len(rebuilt) == 1 else 'are'} rebuilt, so {'a stream' if one else 'streams'} "
        f"below will fail at {'its' if one else 'their'} next start: {_listed(flow.name for flow in failing)}; "
        f"to rebuild {'it' if one else 'them'} too, run instead: {command}"
    )
    protected = [flow for flow in (*failing, *_protected(graph, cleared)) if not _is_resettable(graph, flow.target)]
    for flow in {flow.name: flow for flow in protected}.values():
        message += f'; the table of "{flow.name}" does not allow a full refresh: {_reset(flow)}'
    facts = {"rebuilt": list(map(str, rebuilt)), "flows": [flow.name for flow in failing], "command": command}
    return (PlanNotice("FLOW.INPUT_CLEARED", message, facts),)


def _cannot_continue(graph: ResolvedGraph, step: FlowStep, cleared: Collection[QualifiedName]) -> bool:
    """True if the checkpoint of a stream belongs to a table that the update replaces."""
    starts_over = step.reset or step.restart is not None or step.decision is Decision.FAIL
    return (
        isinstance(step.flow, StreamingFlow)
        and not starts_over
        and any(name in cleared for name in streamed(graph, step.flow))
    )


def _full_refresh(graph: ResolvedGraph, names: Iterable[QualifiedName]) -> str:
    """The command that clears these datasets, and the tables of all streams below that would fail afterwards."""
    roots, rebuilt = frozenset(names), _rebuilt_with(graph, names)
    return f"headrace run --full-refresh {shlex.quote(','.join(_selection(graph, roots, rebuilt)))}"


def _rebuilt_with(graph: ResolvedGraph, names: Iterable[QualifiedName]) -> frozenset[QualifiedName]:
    """Datasets, and those of all streams below them, as far as they allow a full refresh."""
    rebuilt = set(names)
    for flow in graph.stored_flows:
        if _streams_from(graph, flow, rebuilt) and _is_resettable(graph, flow.target):
            rebuilt.add(flow.target)
    return frozenset(rebuilt)


def _protected(graph: ResolvedGraph, names: Iterable[QualifiedName]) -> list[StoredFlow]:
    """The streams below datasets whose tables do not allow a full refresh."""
    rebuilt = _rebuilt_with(graph, names)
    return [flow for flow in graph.stored_flows if _streams_from(graph, flow, rebuilt) and flow.target not in rebuilt]


def _streams_from(graph: ResolvedGraph, flow: StoredFlow, names: Collection[QualifiedName]) -> bool:
    return isinstance(flow, StreamingFlow) and any(name in names for name in streamed(graph, flow))


def _selection(
    graph: ResolvedGraph, roots: frozenset[QualifiedName], rebuilt: frozenset[QualifiedName]
) -> tuple[str, ...]:
    """What selects exactly these datasets, in the order of the graph: ``orders+``, or else one name after the other."""
    below = [graph.by_name[name] for name in with_readers(graph, roots) if graph.flows_into(name)]
    # Materialized views are computed again in any case, and views store nothing.
    by_plus = {dataset.name for dataset in below if dataset.kind in (Kind.STREAMING_TABLE, Kind.SINK)}
    needed = {name for name in rebuilt if graph.by_name[name].kind is not Kind.MATERIALIZED_VIEW}
    names = [dataset.name for dataset in graph.datasets if dataset.name in rebuilt]
    if rebuilt == roots or by_plus != needed or not all(_is_resettable(graph, dataset.name) for dataset in below):
        return tuple(map(str, names))
    inner = readers_below(graph, roots)
    return tuple(f"{name}+" for name in names if name in roots - inner)


def _is_resettable(graph: ResolvedGraph, name: QualifiedName) -> bool:
    return graph.by_name[name].dataset.resettable


def _reset(flow: ResolvedFlow) -> str:
    """The command that lets a stream go on whose table keeps its rows."""
    start = resume_start(flow)
    if start is None:
        return f"headrace run --full-refresh {shlex.quote(str(flow.target))}"
    return reset_command(flow.name, start.value)


def _listed(names: Iterable[object]) -> str:
    return ", ".join(f'"{name}"' for name in names)
