"""Replays the source records of quarantined rows: reads them again, and runs today's query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.names import quoted
from headrace.plan.backfills import Replay
from headrace.spark.deadletter.batch_plan import BatchPlan
from headrace.spark.expectations.quarantine_table import matches_replay
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.readers.kafka_reader import KAFKA
from headrace.spark.replay.replay_query import plan_of
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord

_POSITION = ("topic", "partition", "offset")
# Plan nodes that return at most one row per input row.
_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "CollectMetrics"})
# Prefixes of options that define the records, not which of them are read, or how fast.
_OF_RECORDS = ("kafka.", "includeheaders")


def frame_from_source(
    context: UpdateContext,
    preparation: Preparation,
    flow: ResolvedFlow,
    record: FlowRecord,
    replay: Replay,
    *,
    written: bool,
) -> DataFrame:
    """The query's result over the source records of quarantined rows, each read once.

    Args:
        context: the pipeline.
        preparation: prepares the inputs of the query.
        flow: the flow.
        record: of the flow.
        replay: selects the rows.
        written: an earlier attempt has written the result to the table.

    Raises:
        PipelineError: REPLAY.NOT_FROM_SOURCE: the source record of a row is unknown, the query may return several rows
            per record, the table has other rows of a record, or records are gone.
    """
    plan = plan_of(context, preparation, flow)
    if len(flow.analysis.sources) != 1 or not plan.consists_of(_ROW_BY_ROW):
        raise _not_possible(flow, "its query may return several rows per record, or combine records")
    path = context.layout.quarantine(context.naming, flow.target)
    stored = context.session.read.format("delta").option("versionAsOf", replay.version).load(path)
    wanted = stored.where(matches_replay(record, replay)).select(
        *(F.col(f"source.{name}").alias(name) for name in _POSITION)
    )
    unknown = wanted.where(" OR ".join(f"{name} IS NULL" for name in _POSITION)).count()
    if unknown:
        raise _not_possible(flow, f"{unknown} of its rows lack topic, partition or offset")
    wanted = wanted.distinct()
    if not written:
        _check_others(context, flow, wanted)
    # Read once, so that the written records are those counted, even if the topic deletes some meanwhile.
    records = _records(context, plan, flow, wanted).join(wanted, list(_POSITION), "left_semi").localCheckpoint()
    requested, found = wanted.count(), records.count()
    if found < requested:
        raise _not_possible(flow, f"{requested - found} of {requested} records are gone")
    if found > requested:
        raise _not_possible(flow, f"{found} records were read for {requested}, so some are duplicates")
    names = [quoted(name) for name in plan.schemas()[0].names]
    rows = plan.over(lambda _number: plan.stand_in(0, records.select(*names)))
    skipped = requested - rows.count()
    if skipped > 0:
        message = f'flow "{flow.name}": its query skips {skipped} of the {requested} records that were read again'
        context.reporting.emit(Warned("REPLAY.LEFT_OUT", message, flow.name, str(flow.target)))
    return rows


def _check_others(context: UpdateContext, flow: ResolvedFlow, wanted: DataFrame) -> None:
    """Check that the table has no row from a wanted record: an earlier query may have returned several per record.

    Raises:
        PipelineError: REPLAY.NOT_FROM_SOURCE.
    """
    table = context.session.read.format("delta").load(context.table_path(flow.target))
    if not {name.casefold() for name in table.columns}.issuperset(_POSITION):
        raise _not_possible(flow, "its table lacks the columns topic, partition and offset")
    duplicated = table.join(wanted, list(_POSITION), "left_semi").select(*_POSITION).distinct().count()
    if duplicated:
        raise _not_possible(flow, f"the table already has other rows from {duplicated} of the records")


def _records(context: UpdateContext, plan: BatchPlan, flow: ResolvedFlow, wanted: DataFrame) -> DataFrame:
    """The source of a flow as a batch, or the part of it with the wanted records."""
    source, session = flow.analysis.sources[0], plan.session
    names = set(plan.schemas()[0].names)
    if not names.issuperset(_POSITION):
        raise _not_possible(flow, "its source lacks the columns topic, partition and offset")
    if source.kind is SourceKind.DATASET:
        return session.read.format("delta").load(context.table_path(context.naming.canonical(source.detail)))
    options = plan.options_of(0, KAFKA)
    if options is None:
        raise _not_possible(flow, "its source is neither a table of the pipeline nor Kafka")
    record_options = {key: value for key, value in options.items() if key.casefold().startswith(_OF_RECORDS)}
    ranges = wanted.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset")).collect()
    assigned: dict[str, list[int]] = {}
    first: dict[str, dict[str, int]] = {}
    last: dict[str, dict[str, int]] = {}
    for topic, partition, lowest, highest in ranges:
        assigned.setdefault(topic, []).append(partition)
        first.setdefault(topic, {})[str(partition)] = lowest
        last.setdefault(topic, {})[str(partition)] = highest + 1
    params: Mapping[str, Any] = {"assign": assigned, "startingOffsets": first, "endingOffsets": last}
    reader = session.read.format(KAFKA).options(**{**record_options, "failOnDataLoss": "false"})
    return reader.options(**{key: json.dumps(value) for key, value in params.items()}).load()


def _not_possible(flow: ResolvedFlow, reason: str) -> PipelineError:
    location, name = flow.flow.location, flow.target
    return PipelineError("REPLAY.NOT_FROM_SOURCE", location=location, flow=flow.name, name=name, reason=reason)
