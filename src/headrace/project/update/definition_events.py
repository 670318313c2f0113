"""The events of what an update's graph defines: datasets, sinks and flows."""

from __future__ import annotations

import json
from collections.abc import Iterator

from headrace.events.types import DatasetDefined, Event, FlowDefined, FreshnessTarget, SinkDefined
from headrace.graph.analysis import Analysis, SourceKind
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import Mode
from headrace.model.addresses import without_secrets
from headrace.model.datasets import is_private
from headrace.model.external_input import ExternalInput
from headrace.model.table_rules import Fresh
from headrace.plan.steps import Plan
from headrace.project.update.expectation_facts import expectation_facts
from headrace.settings.settings import Settings
from headrace.sinks.checks import redacted_options
from headrace.sinks.dataset_ids import sink_datasets

_STREAM_KINDS = {SourceKind.AUTO_LOADER: "auto loader", SourceKind.FILES: "files"}
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


def definition_events(graph: ResolvedGraph, plan: Plan, settings: Settings) -> Iterator[Event]:
    """The definition events of the datasets and flows of an update."""
    triggers = {step.flow.name: step.trigger.describe() for step in plan.flows}
    for dataset in graph.datasets:
        sink = dataset.dataset.sink
        if sink is not None:
            members = {"targets": ", ".join(map(str, sink.members))} if sink.members else {}
            datasets = sink_datasets(sink, settings.root, settings.paths)
            yield SinkDefined(str(dataset.name), sink.format, {**redacted_options(sink), **members}, datasets)
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
            facts=tuple(map(expectation_facts, dataset.dataset.expectations)),
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
            location=flow.flow.location,
        )


def external_inputs(analysis: Analysis) -> tuple[ExternalInput, ...]:
    """What a flow reads outside of the pipeline, without what addresses may hold: users, passwords and signatures."""
    streams = {source.name: _STREAM_KINDS.get(source.kind, "stream") for source in analysis.sources}
    return tuple(
        ExternalInput(
            streams.get(text, "batch"),
            without_secrets(text),
            tuple(dict.fromkeys(dataset for place, dataset in analysis.external_datasets if place == text)),
        )
        for text in dict.fromkeys(analysis.external)
    )
