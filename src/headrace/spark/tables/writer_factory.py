"""From a flow to what writes its batches into its table."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pyspark.sql import DataFrame, SparkSession

from headrace.cdc.feed import Feed
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
from headrace.spark.cdc.change_writer import Merging
from headrace.spark.cdc.event_rules import rules_of, snapshot_rules
from headrace.spark.cdc.sequence_conflicts import TIED_COLUMN, tie_rule
from headrace.spark.cdc.snapshot_writer import Comparing
from headrace.spark.delta.rescued_rows import rescued_column
from headrace.spark.expectations.evaluation import Judging
from headrace.spark.expectations.table_rules import TableRules
from headrace.spark.tables.table_writer import Target
from headrace.spark.update.batch_target import TargetPlace
from headrace.spark.update.context import Surroundings
from headrace.storage.flow_record import FlowRecord


class Targets:
    """Makes the targets of one attempt.

    Args:
        around: what the flows of the update share.
        attempt: the how manieth try of this update.
    """

    def __init__(self, around: Surroundings, attempt: int) -> None:
        self._around = around
        self._attempt = attempt

    def _place(self, flow: ResolvedFlow, record: FlowRecord, *, replaces: bool, repeats: bool = True) -> TargetPlace:
        around = self._around
        resolved = around.graph.by_name[flow.target]
        dataset = resolved.dataset
        required = tuple(c.name for c in resolved.in_code.columns if not c.nullable) if replaces else ()
        return TargetPlace(
            flow=flow.name,
            dataset=str(flow.target),
            table=around.table_path(flow.target),
            quarantine=around.layout.quarantine(around.naming, flow.target),
            transaction=around.state.transaction(record),
            epoch=record.epoch,
            identity=record.identity,
            update_id=around.update_id,
            term=around.term,
            attempt=self._attempt,
            query_id=query_id_of(around.state.checkpoint(flow, record.epoch)) or "",
            stateful=bool(flow.analysis.operators),
            replaces=replaces,
            repeats=repeats,
            partition_by=dataset.partition_by,
            cluster_by=dataset.cluster_by,
            required=required,
            rescued_column=rescued_column(flow),
        )

    def comparing(self, flow: ResolvedFlow, record: FlowRecord) -> tuple[Target, Comparing]:
        """What takes the snapshots of a flow, and what compares them with its table."""
        around, feed = self._around, flow.analysis.feed
        assert feed is not None  # noqa: S101 - what flows that compare snapshots have
        declared = around.graph.by_name[flow.target].dataset.expectations
        place, rules = self._place(flow, record, replaces=False), Rules(snapshot_rules(flow.flow, feed, declared))
        sets_aside = any(rule.action in (Action.DROP, Action.QUARANTINE) for rule in declared)
        comparing = Comparing(
            flow=flow.flow,
            feed=feed,
            table=place.table,
            transaction=place.transaction,
            at=around.at,
            fence=around.fence,
            turn=around.turns[flow.target],
            sets_aside=sets_aside,
        )
        return Target(
            place, Judging(rules), around.emit, around.known_counts, around.at, around.fence, comparing
        ), comparing

    def table(
        self, flow: ResolvedFlow, record: FlowRecord, *, replaces: bool, repeats: bool = True, judged: bool = True
    ) -> Target:
        """What takes the batches of a flow into its table.

        Args:
            flow: whose batches.
            record: in which epoch it is.
            replaces: a batch takes the place of all rows.
            repeats: an attempt before may have left rows of the next batch in quarantine.
            judged: the rules of the table hold.
        """
        around = self._around
        dataset = around.graph.by_name[flow.target].dataset
        place = self._place(flow, record, replaces=replaces, repeats=repeats)
        if flow.analysis.feed is not None:
            return self._merging(flow, flow.analysis.feed, place, dataset.expectations if judged else ())
        judging, turn = _judging(around, dataset, place, judged=judged)
        samples = _samples(around, flow)
        return Target(
            place, judging, around.emit, around.known_counts, around.at, around.fence, turn=turn, samples=samples
        )

    def _merging(self, flow: ResolvedFlow, feed: Feed, place: TargetPlace, declared: tuple[Expectation, ...]) -> Target:
        around = self._around
        dataset = around.graph.by_name[flow.target].dataset
        on_tie = around.on_tie.with_confs(dataset.properties)
        rules = Rules(rules_of(flow.flow, feed, declared))
        if on_tie is OnTie.QUARANTINE:
            rules = Rules((*rules.expectations, tie_rule(flow.flow)), looks_at=(TIED_COLUMN,))
        merging = Merging(
            flow=flow.flow,
            feed=feed,
            table=place.table,
            memory=around.layout.memory(around.naming, flow.target),
            transaction=place.transaction,
            at=around.at,
            fence=around.fence,
            turn=around.turns[flow.target],
            retention=around.retention.with_confs(dataset.properties),
            now=around.now,
            term=around.term,
            on_tie=on_tie,
        )
        return Target(place, Judging(rules), around.emit, around.known_counts, around.at, around.fence, merging)


def _judging(
    around: Surroundings, dataset: Dataset, place: TargetPlace, *, judged: bool
) -> tuple[Judging, AbstractContextManager[object] | None]:
    """The rules of a table, or none of them, and what its flows hold in turns."""

    def reads(session: SparkSession, name: QualifiedName) -> DataFrame:
        return session.read.format("delta").load(around.table_path(name))

    if not table_rules_of(dataset):
        return Judging(Rules(dataset.expectations if judged else ())), None
    beyond = TableRules(dataset.expectations, reads, place.table, replaces=place.replaces)
    # What is let through unjudged decides about the rows of other flows all the same.
    turn = around.turns[dataset.name].lock if beyond.takes_turns else None
    return (Judging(beyond.rules, beyond) if judged else Judging(Rules(()))), turn


def _samples(around: Surroundings, flow: ResolvedFlow) -> int:
    """How many rows of each rule are kept to be looked at: what the flow says, else the pipeline."""
    said = flow.flow.spark_conf.get(SAMPLES_KEY, around.session.conf.get(SAMPLES_KEY, None))
    try:
        return samples_of(said)
    except InvalidSamples as invalid:
        raise PipelineError(
            "ROWS.BAD_CONF", location=flow.flow.location, flow=flow.name, key=SAMPLES_KEY, reason=invalid
        ) from invalid
