"""From a flow to what writes its batches into its table."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pyspark.sql import DataFrame, SparkSession

from headrace.cdc.feed import ChangeFeed
from headrace.checkpoints.offsets import query_id_of
from headrace.errors import PipelineError
from headrace.expectations.compile import Rules
from headrace.graph.resolved import ResolvedFlow
from headrace.graph.table_rules import table_rules_of
from headrace.model.datasets import Dataset
from headrace.model.expectations import Action, Expectation
from headrace.model.names import QualifiedName
from headrace.model.samples import SAMPLES_KEY, InvalidSamples, samples_of
from headrace.model.sequence_conflicts import OnTie
from headrace.spark.cdc.change_writer import ChangeWriter
from headrace.spark.cdc.event_rules import rules_of, snapshot_rules
from headrace.spark.cdc.sequence_conflicts import TIED_COLUMN, tie_rule
from headrace.spark.cdc.snapshot_writer import SnapshotWriter
from headrace.spark.delta.rescued_rows import rescued_column
from headrace.spark.expectations.evaluation import Evaluation
from headrace.spark.expectations.table_rules import TableRules
from headrace.spark.tables.table_writer import TableWriter
from headrace.spark.update.batch_target import BatchTarget
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord


class WriterFactory:
    """Makes the targets of one attempt.

    Args:
        context: what the flows of the update share.
        attempt: the how manieth try of this update.
    """

    def __init__(self, context: UpdateContext, attempt: int) -> None:
        self._context = context
        self._attempt = attempt

    def _place(self, flow: ResolvedFlow, record: FlowRecord, *, replaces: bool, repeats: bool = True) -> BatchTarget:
        context = self._context
        resolved = context.graph.by_name[flow.target]
        dataset = resolved.dataset
        required = tuple(c.name for c in resolved.in_code.columns if not c.nullable) if replaces else ()
        return BatchTarget(
            flow=flow.name,
            dataset=str(flow.target),
            table=context.table_path(flow.target),
            quarantine=context.layout.quarantine(context.naming, flow.target),
            transaction=context.state.transaction(record),
            epoch=record.epoch,
            identity=record.identity,
            update_id=context.update_id,
            term=context.term,
            attempt=self._attempt,
            query_id=query_id_of(context.state.checkpoint(flow, record.epoch)) or "",
            stateful=bool(flow.analysis.operators),
            replaces=replaces,
            repeats=repeats,
            partition_by=dataset.partition_by,
            cluster_by=dataset.cluster_by,
            required=required,
            rescued_column=rescued_column(flow),
        )

    def comparing(self, flow: ResolvedFlow, record: FlowRecord) -> tuple[TableWriter, SnapshotWriter]:
        """What takes the snapshots of a flow, and what compares them with its table."""
        context, feed = self._context, flow.analysis.feed
        assert feed is not None  # noqa: S101 - what flows that compare snapshots have
        declared = context.graph.by_name[flow.target].dataset.expectations
        place, rules = self._place(flow, record, replaces=False), Rules(snapshot_rules(flow.flow, feed, declared))
        sets_aside = any(rule.action in (Action.DROP, Action.QUARANTINE) for rule in declared)
        comparing = SnapshotWriter(
            flow=flow.flow,
            feed=feed,
            table=place.table,
            transaction=place.transaction,
            at=context.at,
            fence=context.fence,
            turn=context.turns[flow.target],
            sets_aside=sets_aside,
        )
        return TableWriter(
            place, Evaluation(rules), context.emit, context.known_counts, context.at, context.fence, comparing
        ), comparing

    def table(
        self, flow: ResolvedFlow, record: FlowRecord, *, replaces: bool, repeats: bool = True, judged: bool = True
    ) -> TableWriter:
        """What takes the batches of a flow into its table.

        Args:
            flow: whose batches.
            record: in which epoch it is.
            replaces: a batch takes the place of all rows.
            repeats: an attempt before may have left rows of the next batch in quarantine.
            judged: the rules of the table hold.
        """
        context = self._context
        dataset = context.graph.by_name[flow.target].dataset
        place = self._place(flow, record, replaces=replaces, repeats=repeats)
        if flow.analysis.feed is not None:
            return self._merging(flow, flow.analysis.feed, place, dataset.expectations if judged else ())
        judging, turn = _judging(context, dataset, place, judged=judged)
        samples = _samples(context, flow)
        return TableWriter(
            place, judging, context.emit, context.known_counts, context.at, context.fence, turn=turn, samples=samples
        )

    def _merging(
        self, flow: ResolvedFlow, feed: ChangeFeed, place: BatchTarget, declared: tuple[Expectation, ...]
    ) -> TableWriter:
        context = self._context
        dataset = context.graph.by_name[flow.target].dataset
        on_tie = context.on_tie.with_confs(dataset.properties)
        rules = Rules(rules_of(flow.flow, feed, declared))
        if on_tie is OnTie.QUARANTINE:
            rules = Rules((*rules.expectations, tie_rule(flow.flow)), looks_at=(TIED_COLUMN,))
        merging = ChangeWriter(
            flow=flow.flow,
            feed=feed,
            table=place.table,
            memory=context.layout.memory(context.naming, flow.target),
            transaction=place.transaction,
            at=context.at,
            fence=context.fence,
            turn=context.turns[flow.target],
            retention=context.retention.with_confs(dataset.properties),
            now=context.now,
            term=context.term,
            on_tie=on_tie,
        )
        return TableWriter(
            place, Evaluation(rules), context.emit, context.known_counts, context.at, context.fence, merging
        )


def _judging(
    context: UpdateContext, dataset: Dataset, place: BatchTarget, *, judged: bool
) -> tuple[Evaluation, AbstractContextManager[object] | None]:
    """The rules of a table, or none of them, and what its flows hold in turns."""

    def reads(session: SparkSession, name: QualifiedName) -> DataFrame:
        return session.read.format("delta").load(context.table_path(name))

    if not table_rules_of(dataset):
        return Evaluation(Rules(dataset.expectations if judged else ())), None
    beyond = TableRules(dataset.expectations, reads, place.table, replaces=place.replaces)
    # What is let through unjudged decides about the rows of other flows all the same.
    turn = context.turns[dataset.name].lock if beyond.takes_turns else None
    return (Evaluation(beyond.rules, beyond) if judged else Evaluation(Rules(()))), turn


def _samples(context: UpdateContext, flow: ResolvedFlow) -> int:
    """How many rows of each rule are kept to be looked at: what the flow says, else the pipeline."""
    said = flow.flow.spark_conf.get(SAMPLES_KEY, context.samples)
    try:
        return samples_of(said)
    except InvalidSamples as invalid:
        raise PipelineError(
            "ROWS.BAD_CONF", location=flow.flow.location, flow=flow.name, key=SAMPLES_KEY, reason=invalid
        ) from invalid
