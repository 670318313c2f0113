"""Builds a :class:`Graph` from definitions. Each check that needs no schema is a rule of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from headrace.errors import PipelineError
from headrace.events.log_tables import LOG_TABLES
from headrace.graph.change_sources import with_feed_readers
from headrace.graph.dataset_properties import property_problems
from headrace.graph.flow_targets import by_target
from headrace.graph.session_names import session_name
from headrace.graph.table_rules import table_rule_problems
from headrace.model.datasets import Dataset, Definitions, Flow, Kind
from headrace.model.dead_letter_policy import (
    FAILING_ROWS_KEY,
    FAILING_ROWS_KEYS,
    NO_DEAD_LETTERS,
    InvalidDeadLetterPolicy,
)
from headrace.model.expectations import Action
from headrace.model.flow_confs import wrong_flow_confs
from headrace.model.names import (
    MAX_PART_LENGTH,
    QUARANTINE_SUFFIX,
    InvalidName,
    Naming,
    QualifiedName,
    check_in_catalog,
)
from headrace.model.pipeline_keys import KeyScope, invalid_keys
from headrace.model.tombstone_retention import RETENTION_KEYS, is_seconds
from headrace.model.triggers import INTERVAL_KEY, TRIGGER_KEY, InvalidInterval, TriggerKind, parse_interval_s
from headrace.options.nearest import did_you_mean
from headrace.settings.storage import StorageLayout
from headrace.sinks.checks import options_of, sink_problems
from headrace.sinks.formats import KAFKA, NO_FALLBACK, format_of

# Names of the event log and of the tables of its events in `headrace sql`.
EVENT_LOG_NAMES = frozenset({"event_log", *LOG_TABLES})
# Triggers of the vendor and of Spark that a Delta table cannot support yet.
_UNSUPPORTED_TRIGGERS = frozenset({"continuous"})
# Spark's ``spark.sql.streaming.realTimeMode.minBatchDuration``.
_MIN_REAL_TIME_BATCH_S = 5.0
# A flow's default name is that of its dataset, which may have three parts.
_FLOW_NAME = re.compile(r"\w(?:[\w .\-]*\w)?")


@dataclass(frozen=True)
class Graph:
    """Datasets and flows with matching names and kinds. Their inputs are not known yet."""

    definitions: Definitions
    naming: Naming

    @cached_property
    def datasets(self) -> dict[QualifiedName, Dataset]:
        """Datasets by name, in order of declaration."""
        return {dataset.name: dataset for dataset in self.definitions.datasets}

    def flows_into(self, name: QualifiedName) -> tuple[Flow, ...]:
        """The flows that feed a dataset, in order of declaration."""
        return self._by_target.get(name, ())

    @cached_property
    def _by_target(self) -> dict[QualifiedName, tuple[Flow, ...]]:
        return by_target(self.definitions.flows)


Rule = Callable[[Graph], Iterator[PipelineError]]


def build(definitions: Definitions, naming: Naming) -> tuple[Graph, tuple[PipelineError, ...]]:
    """The graph and its problems so far. If there are problems, resolve it only to find more."""
    graph = Graph(with_feed_readers(definitions), naming)
    problems = tuple(problem for rule in RULES for problem in rule(graph))
    return Graph(_valid_definitions(graph), naming), problems


def _valid_definitions(graph: Graph) -> Definitions:
    """The definitions without those reported as invalid, so that resolving them causes no follow-up problems."""
    flows: list[Flow] = []
    fed: set[QualifiedName] = set()
    for flow in graph.definitions.flows:
        own = not flow.append
        # If two datasets have the same name, the first is resolved.
        if (
            (own and flow.target in fed)
            or (flow.append and _is_invalid_target(graph, flow))
            or _is_invalid_delivery(graph, flow)
        ):
            continue
        fed |= {flow.target} if own else set()
        flows.append(flow)
    first = {dataset.name: dataset for dataset in reversed(graph.definitions.datasets)}
    datasets = tuple(d for d in graph.definitions.datasets if first[d.name] is d and not _invalid_name_reason(d))
    named = {dataset.name for dataset in datasets}
    return Definitions(datasets, tuple(flow for flow in flows if flow.target in named))


def _is_invalid_delivery(graph: Graph, flow: Flow) -> bool:
    """True for a flow that merges changes into a sink, or sends updates to anything but a sink."""
    target = graph.datasets.get(flow.target)
    is_sink = target is not None and target.kind is Kind.SINK
    return _merges(flow) if is_sink else flow.updates


def _is_invalid_target(graph: Graph, flow: Flow) -> bool:
    target = graph.datasets.get(flow.target)
    return target is None or target.kind is Kind.MATERIALIZED_VIEW or target.kind.is_view


def _datasets_exist(graph: Graph) -> Iterator[PipelineError]:
    if not graph.definitions.datasets:
        yield PipelineError("GRAPH.EMPTY")


def _names_are_unique(graph: Graph) -> Iterator[PipelineError]:
    first: dict[QualifiedName, Dataset] = {}
    for dataset in graph.definitions.datasets:
        if dataset.name in first:
            yield PipelineError(
                "GRAPH.DUPLICATE_DATASET",
                location=dataset.location,
                name=dataset.name,
                first=first[dataset.name].location,
            )
        first.setdefault(dataset.name, dataset)


def _flow_names_are_unique(graph: Graph) -> Iterator[PipelineError]:
    first: dict[str, Flow] = {}
    duplicate_datasets = len(graph.datasets) < len(graph.definitions.datasets)
    for flow in graph.definitions.flows:
        known = first.setdefault(flow.name.casefold(), flow)
        # Two datasets of one name have two flows of one name; that is reported once, as the dataset's problem. If a
        # table has its own query and a flow merges into it, the name is not the problem.
        together = known.target == flow.target
        is_reported = together and ((duplicate_datasets and not flow.append) or (_merges(flow) and not _merges(known)))
        if known is not flow and not is_reported:
            yield PipelineError("GRAPH.DUPLICATE_FLOW", location=flow.location, name=flow.name, first=known.location)


def _merges(flow: Flow) -> bool:
    return flow.changes is not None or flow.snapshots is not None


def _names_are_not_reserved(graph: Graph) -> Iterator[PipelineError]:
    for dataset in graph.definitions.datasets:
        name = dataset.name.name.casefold()
        if name.endswith(QUARANTINE_SUFFIX) or name in EVENT_LOG_NAMES:
            yield PipelineError("GRAPH.RESERVED_NAME", location=dataset.location, name=dataset.name)


def _names_fit_the_catalog(graph: Graph) -> Iterator[PipelineError]:
    for dataset in graph.definitions.datasets:
        reason = _invalid_name_reason(dataset)
        if reason:
            yield PipelineError("NAME.INVALID", location=dataset.location, name=dataset.name, reason=reason)


def _invalid_name_reason(dataset: Dataset) -> str:
    """Why Spark's catalog cannot hold the name of a dataset; empty if it can. Sinks are not in the catalog."""
    try:
        for part in () if dataset.kind is Kind.SINK else dataset.name.parts:
            check_in_catalog(part)
    except InvalidName as invalid:
        return str(invalid)
    return ""


def _flows_have_targets(graph: Graph) -> Iterator[PipelineError]:
    for flow in graph.definitions.flows:
        target = graph.datasets.get(flow.target)
        if target is None:
            yield PipelineError(
                "FLOW.UNKNOWN_TARGET",
                location=flow.location,
                flow=flow.name,
                target=flow.target,
                suggestion=suggestion(flow.target, graph),
            )
        elif flow.append and _is_invalid_target(graph, flow):
            yield PipelineError(
                "FLOW.TARGET_NOT_STREAMING",
                location=flow.location,
                flow=flow.name,
                target=flow.target,
                kind=target.kind.label,
            )


def _flows_fit_sinks(graph: Graph) -> Iterator[PipelineError]:
    for flow in graph.definitions.flows:
        target = graph.datasets.get(flow.target)
        if target is None or not _is_invalid_delivery(graph, flow):
            continue
        code = "SINK.NO_UPDATES_THERE" if flow.updates else "SINK.NO_CHANGES"
        yield PipelineError(
            code, location=flow.location, flow=flow.name, name=flow.target, kind=target.kind.label, format="table"
        )


def _sinks_fit(graph: Graph) -> Iterator[PipelineError]:
    for dataset in graph.definitions.datasets:
        yield from sink_problems(dataset, (d.name for d in graph.definitions.datasets if d.kind is not Kind.SINK))
        for member in dataset.sink.members if dataset.sink is not None else ():
            yield from _member_problems(graph, dataset, member)


def _member_problems(graph: Graph, dataset: Dataset, member: QualifiedName) -> Iterator[PipelineError]:
    flow = graph.flows_into(dataset.name)[0]
    found = graph.datasets.get(member)
    if found is None:
        near = suggestion(member, graph)
        yield PipelineError(
            "FLOW.UNKNOWN_TARGET", location=flow.location, flow=flow.name, target=member, suggestion=near
        )
    elif found.sink is None:
        kind = found.kind.label
        yield PipelineError("SINK.TABLE_AMONG_TARGETS", location=flow.location, flow=flow.name, name=member, kind=kind)


def _sinks_accept_updates(graph: Graph) -> Iterator[PipelineError]:
    for flow in graph.definitions.flows:
        target = graph.datasets.get(flow.target)
        sink = target.sink if target is not None else None
        if not flow.updates or sink is None:
            continue
        for name in sink.members or (flow.target,):
            found = graph.datasets.get(name)
            known = format_of(found.sink.format) if found is not None and found.sink is not None else None
            if known is not None and not known.accepts_updates:
                yield PipelineError(
                    "SINK.NO_UPDATES_THERE",
                    location=flow.location,
                    flow=flow.name,
                    name=name,
                    kind="sink",
                    format=known.name,
                )


def _flow_names_are_allowed(graph: Graph) -> Iterator[PipelineError]:
    for flow in graph.definitions.flows:
        if flow.append and len(flow.name) > MAX_PART_LENGTH:
            reason = f"it has more than {MAX_PART_LENGTH} characters"
        elif not _FLOW_NAME.fullmatch(flow.name):
            reason = 'it contains characters other than letters, digits and "_" (inside also "-", "." and spaces)'
        else:
            continue
        yield PipelineError("FLOW.INVALID_NAME", location=flow.location, flow=flow.name, reason=reason)


def _datasets_have_flows(graph: Graph) -> Iterator[PipelineError]:
    members = {name for d in graph.definitions.datasets if d.sink is not None for name in d.sink.members}
    for dataset in graph.definitions.datasets:
        # A sink without a flow does no harm; it gets a notice (``plan/notices.py``).
        unfed = not graph.flows_into(dataset.name) and dataset.name not in members
        if unfed and dataset.kind is not Kind.SINK:
            yield PipelineError("GRAPH.NO_FLOW", location=dataset.location, name=dataset.name)


def _expectations_fit(graph: Graph) -> Iterator[PipelineError]:
    for dataset in graph.definitions.datasets:
        seen: set[str] = set()
        for expectation in dataset.expectations:
            if expectation.name in seen:
                yield PipelineError(
                    "EXPECTATION.DUPLICATE",
                    location=expectation.location,
                    name=expectation.name,
                    dataset=dataset.name,
                )
            seen.add(expectation.name)
            if dataset.kind is Kind.SINK:
                yield PipelineError(
                    "EXPECTATION.SINK",
                    location=expectation.location,
                    name=expectation.name,
                    dataset=dataset.name,
                )
            if dataset.kind is Kind.PERSISTED_VIEW:
                yield PipelineError(
                    "EXPECTATION.PERSISTED_VIEW",
                    location=expectation.location,
                    name=expectation.name,
                    dataset=dataset.name,
                )
            if dataset.kind is Kind.TEMPORARY_VIEW and expectation.action is Action.QUARANTINE:
                yield PipelineError(
                    "EXPECTATION.VIEW_QUARANTINE",
                    location=expectation.location,
                    name=expectation.name,
                    dataset=dataset.name,
                )


def _table_rules_fit(graph: Graph) -> Iterator[PipelineError]:
    yield from table_rule_problems(graph.datasets, graph.flows_into, lambda name: suggestion(name, graph))


def _layout_fits(graph: Graph) -> Iterator[PipelineError]:
    for dataset in graph.definitions.datasets:
        if dataset.partition_by and dataset.cluster_by:
            yield PipelineError("DATASET.PARTITION_AND_CLUSTER", location=dataset.location, name=dataset.name)


def _pipeline_keys_are_known(graph: Graph) -> Iterator[PipelineError]:
    for dataset in graph.definitions.datasets:
        for key, reason, fix in invalid_keys(dataset.properties, KeyScope.TABLE):
            what = f'dataset "{dataset.name}"'
            yield PipelineError(
                "PIPELINE_KEY.MISFIT", location=dataset.location, what=what, key=key, reason=reason, instead=fix
            )
    for flow in graph.definitions.flows:
        for key, reason, fix in invalid_keys(flow.spark_conf, KeyScope.FLOW):
            what = f'flow "{flow.name}"'
            yield PipelineError(
                "PIPELINE_KEY.MISFIT", location=flow.location, what=what, key=key, reason=reason, instead=fix
            )


def _triggers_are_known(graph: Graph) -> Iterator[PipelineError]:
    settings = [(dataset.properties, dataset.location, f'"{dataset.name}"') for dataset in graph.definitions.datasets]
    settings += [(flow.spark_conf, flow.location, f'flow "{flow.name}"') for flow in graph.definitions.flows]
    for confs, location, what in settings:
        if INTERVAL_KEY in confs:
            try:
                parse_interval_s(confs[INTERVAL_KEY])
            except InvalidInterval as invalid:
                yield PipelineError(
                    "TRIGGER.BAD_INTERVAL", location=location, what=what, value=confs[INTERVAL_KEY], reason=invalid
                )
        if TRIGGER_KEY in confs and TriggerKind.of(confs[TRIGGER_KEY]) is None:
            kind = confs[TRIGGER_KEY].strip()
            code = "TRIGGER.UNSUPPORTED" if kind.casefold() in _UNSUPPORTED_TRIGGERS else "TRIGGER.UNKNOWN"
            yield PipelineError(code, location=location, what=what, value=kind)


def _real_time_is_possible(graph: Graph) -> Iterator[PipelineError]:
    for dataset in graph.definitions.datasets:
        if _requests_real_time(dataset.properties):
            what, reason = f'"{dataset.name}"', "it writes to a table, in batches"
            yield PipelineError("TRIGGER.REAL_TIME", location=dataset.location, what=what, reason=reason)
    for flow in graph.definitions.flows:
        reason = _why_not_real_time(graph, flow) if _requests_real_time(flow.spark_conf) else ""
        if reason:
            what = f'flow "{flow.name}"'
            yield PipelineError("TRIGGER.REAL_TIME", location=flow.location, what=what, reason=reason)


def _requests_real_time(confs: Mapping[str, str]) -> bool:
    return TriggerKind.of(confs.get(TRIGGER_KEY, "")) is TriggerKind.REAL_TIME


def _why_not_real_time(graph: Graph, flow: Flow) -> str:
    """The reason, or an empty text if real-time mode is possible."""
    target = graph.datasets.get(flow.target)
    sink = target.sink if target is not None else None
    if not flow.updates:
        return "it is not an update flow"
    if sink is None or sink.format.casefold() != KAFKA:
        return "its target is not a single Kafka sink"
    if FAILING_ROWS_KEY in flow.spark_conf:
        return "it has no batches, so failing rows cannot become dead letters"
    if options_of(sink).get("fallback", NO_FALLBACK) != NO_FALLBACK:
        return "its sink has a fallback, which stores whole batches"
    try:
        interval_s = parse_interval_s(flow.spark_conf.get(INTERVAL_KEY, "5 minutes"))
    except InvalidInterval:
        # Reported as a separate problem.
        return ""
    return f"its batches last {interval_s:g} s, and the minimum is 5 s" if interval_s < _MIN_REAL_TIME_BATCH_S else ""


def _failing_row_confs_are_valid(graph: Graph) -> Iterator[PipelineError]:
    for flow in graph.definitions.flows:
        for key in sorted(FAILING_ROWS_KEYS & flow.spark_conf.keys()):
            try:
                NO_DEAD_LETTERS.with_confs({key: flow.spark_conf[key]})
            except InvalidDeadLetterPolicy as invalid:
                yield PipelineError("ROWS.BAD_CONF", location=flow.location, flow=flow.name, key=key, reason=invalid)


def _flow_confs_are_valid(graph: Graph) -> Iterator[PipelineError]:
    for flow in graph.definitions.flows:
        for wrong in wrong_flow_confs(flow.spark_conf):
            yield PipelineError(wrong.code, location=flow.location, flow=flow.name, reason=wrong.reason)


def _retention_is_in_seconds(graph: Graph) -> Iterator[PipelineError]:
    for dataset in graph.definitions.datasets:
        for key in sorted(RETENTION_KEYS & dataset.properties.keys()):
            if not is_seconds(dataset.properties[key]):
                yield PipelineError(
                    "CDC.BAD_RETENTION",
                    location=dataset.location,
                    name=dataset.name,
                    key=key,
                    value=dataset.properties[key],
                )


def _session_names_are_unique(graph: Graph) -> Iterator[PipelineError]:
    known: dict[str, Dataset] = {}
    for dataset in graph.datasets.values():
        view = dataset.kind.is_view
        name = session_name(graph.naming, dataset.name, view=view)
        # In a plan, a table of the default schema may have a name of one part, like a view.
        key = f"{graph.naming.schema}{name.key}".casefold() if view else name.key
        first = known.setdefault(key, dataset)
        if first is not dataset:
            yield PipelineError(
                "GRAPH.NAMES_MEET",
                location=dataset.location,
                first=first.name,
                second=dataset.name,
                place=first.location,
            )


def _tables_do_not_nest(graph: Graph) -> Iterator[PipelineError]:
    layout = StorageLayout("")
    folders = {
        PurePosixPath(layout.table(graph.naming, dataset.name).casefold()): dataset
        for dataset in graph.datasets.values()
        if dataset.kind.stored
    }
    for folder, inner in folders.items():
        for outer in (folders[parent] for parent in folder.parents if parent in folders):
            yield PipelineError(
                "GRAPH.NESTED_TABLES",
                location=inner.location,
                inner=inner.name,
                outer=outer.name,
                place=outer.location,
            )


def _properties_are_known(graph: Graph) -> Iterator[PipelineError]:
    yield from property_problems(graph.definitions.datasets)


RULES: tuple[Rule, ...] = (
    _datasets_exist,
    _names_are_unique,
    _flow_names_are_unique,
    _flow_names_are_allowed,
    _names_are_not_reserved,
    _names_fit_the_catalog,
    _flows_have_targets,
    _flows_fit_sinks,
    _sinks_fit,
    _sinks_accept_updates,
    _datasets_have_flows,
    _expectations_fit,
    _table_rules_fit,
    _layout_fits,
    _properties_are_known,
    _pipeline_keys_are_known,
    _triggers_are_known,
    _real_time_is_possible,
    _failing_row_confs_are_valid,
    _flow_confs_are_valid,
    _retention_is_in_seconds,
    _session_names_are_unique,
    _tables_do_not_nest,
)


def suggestion(name: QualifiedName | str, graph: Graph) -> str:
    """``Did you mean "x"?`` or the defined datasets, as a full sentence for a hint."""
    return did_you_mean(str(name), [str(known) for known in graph.datasets])
