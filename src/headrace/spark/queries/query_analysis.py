"""The analysis of a query's result: its columns, inputs and state, and how a view of it can be refreshed."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.graph.analysis import Analysis
from headrace.graph.declared_refresh import declared_obstacle
from headrace.model.datasets import Dataset, Flow, Kind
from headrace.model.refresh import Obstacle, RefreshPolicy, RefreshRule
from headrace.model.schema import Schema
from headrace.spark.analysis.plans import needs_complete_mode, read_plan
from headrace.spark.analysis.query_identity import QueryIdentities
from headrace.spark.analysis.refresh_rules import refresh_rule
from headrace.spark.analysis.state_operators import stateful_operators
from headrace.spark.jvm.plan_nodes import node_kind
from headrace.spark.readers.input_file import check_input_file
from headrace.spark.update.catalog import Catalog


def analysis_of(flow: Flow, frame: DataFrame, catalog: Catalog, identities: QueryIdentities) -> Analysis:
    """The analysis of a flow's query.

    Args:
        flow: the flow.
        frame: the result of its query on stubs.
        catalog: knows the names of the pipeline.
        identities: those of the project's queries.
    """
    check_input_file(frame)
    reading = read_plan(frame, catalog.names.dataset_of)
    streaming = frame.isStreaming
    identity = identities.of(flow, frame, reading)
    complete = streaming and not (flow.once or flow.updates) and needs_complete_mode(frame)
    keeps_state = streaming and reading.keeps_state
    return Analysis(
        schema=Schema.from_json(frame.schema.json()).nullable,
        streaming=streaming,
        inputs=reading.as_inputs,
        sources=tuple(reading.sources) if streaming else (),
        external=tuple(reading.external),
        external_datasets=tuple(reading.external_datasets),
        columns=reading.columns,
        external_tables=() if streaming else tuple(reading.tables),
        complete=complete,
        operators=stateful_operators(frame, complete=complete) if keeps_state else (),
        fingerprint=identity.now,
        former_fingerprint=identity.former,
        unrepeatable=reading.unrepeatable,
    )


def with_refresh_rule(found: Analysis, dataset: Dataset | None, flow: Flow, frame: DataFrame) -> Analysis:
    """The analysis with the rule by which the view that the flow computes is refreshed; unchanged for other datasets.

    Args:
        found: the analysis.
        dataset: the target of the flow, if it is declared.
        flow: the flow.
        frame: the result of its query on stubs.

    Raises:
        PipelineError: REFRESH.NOT_INCREMENTAL, REFRESH.STREAM: the declared policy does not suit the query.
    """
    if dataset is None or dataset.kind not in (Kind.TABLE, Kind.MATERIALIZED_VIEW) or flow.once:
        return found
    policy = dataset.refresh_policy
    if found.streaming:
        if policy is not RefreshPolicy.AUTO:
            raise PipelineError("REFRESH.STREAM", location=flow.location, name=flow.target, policy=policy.value)
        return found
    rule = _rule(found, dataset, frame)
    obstacle = rule.obstacle
    if policy is RefreshPolicy.INCREMENTAL_STRICT and obstacle is not None:
        raise PipelineError(
            "REFRESH.NOT_INCREMENTAL",
            location=flow.location,
            name=flow.target,
            operator=obstacle.operator,
            reason=obstacle.reason,
            rewrite=obstacle.rewrite or "Declare another policy",
        )
    return replace(found, refresh=rule)


def _rule(found: Analysis, dataset: Dataset, frame: DataFrame) -> RefreshRule:
    obstacle = declared_obstacle(dataset)
    if obstacle is not None:
        return RefreshRule(obstacle=obstacle)
    outside = next((name for name in found.external if name not in found.external_tables), None)
    if outside is not None:
        reason = "only Delta tables record their changes"
        return RefreshRule(obstacle=Obstacle(f'input "{outside}"', reason, "Load it into a table of the pipeline"))
    # The stubs of tables are files.
    return refresh_rule(frame, lambda leaf: node_kind(leaf) == "LogicalRelation")
