"""A flow that applies snapshots: writes each as one commit, in order, until no snapshot is left."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.snapshot_versions import Begun
from headrace.delta_log.tables import TableVersion, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.model.type_changes import schema_change
from headrace.runtime.ports import Canceled, Completed, Failed, Growth, Report
from headrace.spark.delta.conform import conform
from headrace.spark.execution.hooks import Hooks
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.queries.snapshots import Snapshot, asked, check_order, version_of_update
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord, write_record


class SnapshotFlowExecution:
    """The snapshots of one attempt of a flow.

    What is begun is stored before it is written, so that after a crash the table's transactions tell what was taken.

    Args:
        context: what the flows of the update share.
        preparation: prepares inputs.
        flow: compares snapshots.
        attempt: its number within the update, from 1.
        hooks: reports to the attempt.
    """

    def __init__(
        self, context: UpdateContext, preparation: Preparation, flow: ResolvedFlow, attempt: int, hooks: Hooks
    ) -> None:
        self._context = context
        self._preparation = preparation
        self._flow = flow
        self._hooks = hooks
        self._work_group = context.work_group(flow.name)
        self._target, self._comparing = WriterFactory(context, attempt).comparing(flow, context.state.progress_of(flow))

    @property
    def progressed(self) -> bool:
        """Whether a snapshot was written."""
        return self._target.batches > 0

    def run(self) -> Report:
        """Write the snapshots that there are; raises whatever made it fail."""
        with self._preparation.loading:
            inputs = self._preparation.register_inputs(self._flow)
        self._hooks.started()
        report = self._written(self._context.state.progress_of(self._flow), inputs)
        if self.progressed:
            self._hooks.compact()
        return report

    def _written(self, record: FlowRecord, inputs: dict[str, TableVersion]) -> Report:
        context, flow = self._context, self._flow
        began_at = context.now()
        record = self._counted(record)
        before = context.state.snapshot_taken(flow)
        while True:
            snapshot = self._next(before)
            if snapshot is None:
                break
            grown = self._growth(snapshot.rows)
            if grown is not None:
                return grown
            record = self._take(record, snapshot, before)
            before = snapshot.version
            if not self._flow.asks:
                break
            if self._hooks.is_stopping():
                return Canceled(flow.name)
        table = table_state(context.table_path(flow.target))
        done = replace(
            _without_abandoned(record),
            fingerprint=flow.analysis.fingerprint,
            started_at=began_at,
            inputs=inputs,
            running=False,
            made_with=flow.made_with,
            target_id=table.table_id if table else "",
            left=context.state.stores(flow).left(),
        )
        context.fence()
        write_record(context.state.record_file(flow), done)
        return Completed(flow.name)

    @property
    def _feed(self) -> ChangeFeed:
        feed = self._flow.analysis.feed
        assert feed is not None  # noqa: S101 - what flows that compare snapshots have
        return feed

    def _counted(self, record: FlowRecord) -> FlowRecord:
        """Count a snapshot that is in the table, but perhaps not in the event log, after a crash."""
        context, flow, begun = self._context, self._flow, record.snapshot
        if begun is None or not record.running or not context.state.has_committed(flow, record, begun.number):
            return record
        # A dataset may have other rows by now.
        snapshot = self._again(begun) if flow.asks else None
        if snapshot is not None:
            self._target.write(conform(snapshot.rows, Schema.from_json(self._feed.source_json)), begun.number)
        else:
            self._target.tell_committed(begun.number)
        counted = replace(record, running=False)
        context.fence()
        write_record(context.state.record_file(flow), counted)
        return counted

    def _again(self, begun: Begun) -> Snapshot | None:
        """A snapshot that was taken before, if its function still gives it."""
        try:
            snapshot = self._next(begun.before)
        except Exception:  # noqa: BLE001 - whatever it raises, the snapshot is in the table
            return None
        return snapshot if snapshot is not None and snapshot.version == begun.version else None

    def _next(self, before: object) -> Snapshot | None:
        context, flow = self._context, self._flow
        with self._preparation.loading, with_confs(context.session, flow.flow.spark_conf):
            if self._flow.asks:
                reads: set[QualifiedName] = set()
                found = asked(flow.flow, context.catalog, before, reads)
                self._check_reads(reads)
            else:
                found = Snapshot(self._preparation.frame(flow), version_of_update(context.now()))
                check_order(flow.flow, found.version, before)
            if found is None:
                return None
            self._check_keys(found.rows)
            return Snapshot(on_clone(found.rows, self._work_group), found.version)

    def _check_keys(self, rows: DataFrame) -> None:
        """A snapshot without keys would look like one without rows."""
        known = {name.casefold() for name in rows.columns}
        gone = [name for name in self._feed.shape.keys if name.casefold() not in known]
        if gone:
            flow, names = self._flow, ", ".join(f'"{name}"' for name in gone)
            reason = f"the snapshot has no column {names}"
            raise PipelineError(
                "CDC.BAD_ARGUMENT", location=flow.flow.location, flow=flow.name, argument="keys", reason=reason
            )

    def _check_reads(self, reads: set[QualifiedName]) -> None:
        """What the function did not read when the project was resolved is not there to be read now."""
        flow = self._flow
        unseen = sorted(str(name) for name in reads - {given.name for given in flow.analysis.inputs})
        if unseen:
            raise PipelineError("CDC.UNSEEN_INPUT", location=flow.flow.location, flow=flow.name, table=unseen[0])

    def _growth(self, rows: DataFrame) -> Failed | None:
        """The report that has the flow resolved again, where a snapshot has what the ones before did not."""
        flow = self._flow
        change = schema_change(
            Schema.from_json(self._feed.source_json).nullable, Schema.from_json(rows.schema.json()).nullable
        )
        news = [str(field) for field in (*change.added, *change.widened, *change.refused)]
        if not news:
            return None
        fields = ", ".join(f'"{name}"' for name in news)
        problem = PipelineError("CDC.SNAPSHOT_GREW", location=flow.flow.location, flow=flow.name, fields=fields)
        growth = Growth("CDC.SNAPSHOT_GREW", f"the next snapshot has other columns than the one before: {fields}")
        return Failed(flow.name, problem, condition=problem.code, progressed=self._target.batches > 0, growth=growth)

    def _take(self, record: FlowRecord, snapshot: Snapshot, before: object) -> FlowRecord:
        context, flow = self._context, self._flow
        last = record.snapshot
        # One that was begun and is not in the table gives its number to the next, which clears what it has set aside.
        number = 0 if last is None else last.number + (not record.running)
        begun = replace(
            record, snapshot=Begun(number, snapshot.version, before), running=True, made_with=flow.made_with
        )
        context.fence()
        write_record(context.state.record_file(flow), begun)
        self._comparing.version = snapshot.version
        self._target.write(conform(snapshot.rows, Schema.from_json(self._feed.source_json)), number)
        done = replace(begun, running=False)
        context.fence()
        write_record(context.state.record_file(flow), done)
        return done


def _without_abandoned(record: FlowRecord) -> FlowRecord:
    """The record without a snapshot that was begun, is not in the table, and is not given any more."""
    begun = record.snapshot
    if begun is None or not record.running:
        return record
    return replace(record, snapshot=None if begun.before is None else Begun(begun.number - 1, begun.before))
