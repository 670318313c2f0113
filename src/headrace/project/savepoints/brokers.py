"""Asks brokers whether they still have what flows read again after a restore; the code has the options of sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.errors import PipelineError, Problems, problems_of
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.project.planning.plan_update import Planning
from headrace.project.resolution.resolve_request import Resolved
from headrace.project.resolution.resolver import Resolver
from headrace.project.savepoints.topics import BrokerAnswers, SavedTopics, unasked
from headrace.spark.queries.flow_frames import flow_frame, register_views
from headrace.spark.readers.kafka_topics import TopicSource, lost_records, topic_sources
from headrace.spark.session.scoped_confs import with_confs


def ask_brokers(resolver: Resolver, planning: Planning, topics: Sequence[SavedTopics]) -> BrokerAnswers:
    """What the brokers of flows no longer have; a note for each flow whose broker cannot be asked, which stops nothing.

    Args:
        resolver: resolves the project, whose code has the options of the sources.
        planning: knows the tables of the storage.
        topics: of the flows.
    """
    if not topics:
        return BrokerAnswers()
    try:
        resolved = resolver.resolve(replace(planning.tables.graph_request(), skip_unavailable=True))
    except (PipelineError, Problems) as error:
        reason = f"the code has a problem: {problems_of(error)[0].message}"
        return BrokerAnswers(notes=tuple(unasked(flow, reason) for flow in _names(topics)))
    losses: list[str] = []
    notes: list[str] = []
    for name in _names(topics):
        flow = resolved.graph.by_flow.get(name)
        if flow is None:
            away = next((one for one in resolved.graph.unavailable if one.name == name), None)
            notes.append(unasked(name, "the code does not have the flow" if away is None else away.error.message))
            continue
        try:
            losses += _losses(resolved, flow, [one for one in topics if one.flow == name])
        except (PipelineError, Problems) as error:
            notes.append(unasked(name, problems_of(error)[0].message))
    return BrokerAnswers(tuple(losses), tuple(notes))


def _names(topics: Sequence[SavedTopics]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.flow for one in topics))


def _losses(resolved: Resolved, flow: ResolvedFlow, topics: Sequence[SavedTopics]) -> Iterator[str]:
    sources = {source.number: source for source in _sources(resolved, flow)}
    for saved in topics:
        # With another source in its place, the next update starts over or fails, and reports that.
        if saved.source in sources:
            for lost in lost_records(resolved.catalog.session, sources[saved.source], flow, saved.read):
                yield f'flow "{flow.name}" cannot read {lost.text} again'


def _sources(resolved: Resolved, flow: ResolvedFlow) -> tuple[TopicSource, ...]:
    with with_confs(resolved.catalog.session, flow.flow.spark_conf):
        register_views(resolved.graph, flow, resolved.catalog)
        return topic_sources(flow_frame(resolved.graph, flow, resolved.catalog))
