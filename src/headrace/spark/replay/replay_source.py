"""Records whose rows were set aside, read once more from where they came from, and through the query of today."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved import ResolvedFlow, SourceKind
from headrace.model.names import quoted
from headrace.plan.backfills import Replay
from headrace.spark.deadletter.batch_plan import BatchPlan
from headrace.spark.expectations.quarantine_table import meant
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.readers.kafka_reader import KAFKA
from headrace.spark.replay.replay_query import plan_of
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord

_POSITION = ("topic", "partition", "offset")
# Each of these gives at most one row for each that it gets.
_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "CollectMetrics"})
# What decides what a record is, and not which ones are read, or how fast.
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
    """What the query returns over the records that rows in quarantine came from, each read once.

    Args:
        context: the pipeline.
        preparation: makes what the query reads readable.
        flow: whose query.
        record: of the flow.
        replay: which rows are meant.
        written: a try before has put what came of it into the table.

    Raises:
        PipelineError: REPLAY.NOT_FROM_SOURCE: rows do not say which record they came from, the query makes several rows
            of one, an earlier query has made other rows of one, or records are gone.
    """
    plan = plan_of(context, preparation, flow)
    if len(flow.analysis.sources) != 1 or not plan.is_made_of(_ROW_BY_ROW):
        raise _refused(flow, "its query may return several rows per record, or combine records")
    path = context.layout.quarantine(context.naming, flow.target)
    stored = context.session.read.format("delta").option("versionAsOf", replay.version).load(path)
    wanted = stored.where(meant(record, replay)).select(*(F.col(f"source.{name}").alias(name) for name in _POSITION))
    unknown = wanted.where(" OR ".join(f"{name} IS NULL" for name in _POSITION)).count()
    if unknown:
        raise _refused(flow, f"{unknown} of its rows lack topic, partition or offset")
    wanted = wanted.distinct()
    if not written:
        _check_others(context, flow, wanted)
    # Read once: what is counted is what is written, whatever the topic forgets meanwhile.
    records = _records(context, plan, flow, wanted).join(wanted, list(_POSITION), "left_semi").localCheckpoint()
    asked, found = wanted.count(), records.count()
    if found < asked:
        raise _refused(flow, f"{asked - found} of {asked} records are gone")
    if found > asked:
        raise _refused(flow, f"{found} records were read for {asked}, so some are duplicates")
    names = [quoted(name) for name in plan.schemas()[0].names]
    rows = plan.over(lambda _number: plan.standing_in(0, records.select(*names)))
    left_out = asked - rows.count()
    if left_out > 0:
        message = f'flow "{flow.name}": its query skips {left_out} of the {asked} records that were read again'
        context.emit(Warned("REPLAY.LEFT_OUT", message, flow.name, str(flow.target)))
    return rows


def _check_others(context: UpdateContext, flow: ResolvedFlow, wanted: DataFrame) -> None:
    """See that no row of the table came of a wanted record: the query of another day may have made several of one.

    Raises:
        PipelineError: REPLAY.NOT_FROM_SOURCE.
    """
    table = context.session.read.format("delta").load(context.table_path(flow.target))
    if not {name.casefold() for name in table.columns}.issuperset(_POSITION):
        raise _refused(flow, "its table lacks the columns topic, partition and offset")
    there = table.join(wanted, list(_POSITION), "left_semi").select(*_POSITION).distinct().count()
    if there:
        raise _refused(flow, f"the table already has other rows from {there} of the records")


def _records(context: UpdateContext, plan: BatchPlan, flow: ResolvedFlow, wanted: DataFrame) -> DataFrame:
    """What the source of a flow has, as a batch, or the part of it in which the wanted records lie."""
    source, session = flow.analysis.sources[0], plan.session
    names = set(plan.schemas()[0].names)
    if not names.issuperset(_POSITION):
        raise _refused(flow, "its source lacks the columns topic, partition and offset")
    if source.kind is SourceKind.DATASET:
        return session.read.format("delta").load(context.table_path(context.naming.canonical(source.detail)))
    options = plan.options_of(0, KAFKA)
    if options is None:
        raise _refused(flow, "its source is neither a table of the pipeline nor Kafka")
    kept = {key: value for key, value in options.items() if key.casefold().startswith(_OF_RECORDS)}
    ranges = wanted.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset")).collect()
    assigned: dict[str, list[int]] = {}
    first: dict[str, dict[str, int]] = {}
    last: dict[str, dict[str, int]] = {}
    for topic, partition, lowest, highest in ranges:
        assigned.setdefault(topic, []).append(partition)
        first.setdefault(topic, {})[str(partition)] = lowest
        last.setdefault(topic, {})[str(partition)] = highest + 1
    said: Mapping[str, Any] = {"assign": assigned, "startingOffsets": first, "endingOffsets": last}
    reader = session.read.format(KAFKA).options(**{**kept, "failOnDataLoss": "false"})
    return reader.options(**{key: json.dumps(value) for key, value in said.items()}).load()


def _refused(flow: ResolvedFlow, reason: str) -> PipelineError:
    place, name = flow.flow.location, flow.target
    return PipelineError("REPLAY.NOT_FROM_SOURCE", location=place, flow=flow.name, name=name, reason=reason)
