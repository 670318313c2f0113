"""Runs a flow of snapshots: writes each as one commit, in order, until there is no next one."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from headrace.cdc.snapshot_versions import SnapshotProgress
from headrace.delta_log.tables import TableVersion, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved_flows import SnapshotFlow
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.model.type_changes import schema_change
from headrace.runtime.ports import Canceled, Completed, Failed, Report, SchemaEvolution
from headrace.spark.delta.conform import conform
from headrace.spark.execution.attempt_hooks import Hooks
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.queries.snapshots import Snapshot, check_order, next_snapshot, version_of_update
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord, write_record


class SnapshotFlowExecution:
    """One attempt of a snapshot flow.

    The record stores a snapshot's number before it is written. After a crash, the table's transactions show whether it
    was written.

    Args:
        context: shared by the flows of the update.
        preparation: prepares inputs.
        flow: compares snapshots.
        attempt: its number within the update, from 1.
        hooks: reports to the attempt.
    """

    def __init__(
        self, context: UpdateContext, preparation: Preparation, flow: SnapshotFlow, attempt: int, hooks: Hooks
    ) -> None:
        self._context = context
        self._preparation = preparation
        self._flow = flow
        self._hooks = hooks
        self._work_group = context.work_group(flow.name)
        self._target, self._comparison = WriterFactory(context, attempt).snapshot_writers(
            flow, context.state.progress_of(flow)
        )

    @property
    def progressed(self) -> bool:
        """Whether a snapshot was written."""
        return self._target.batches > 0

    def run(self) -> Report:
        """Write all available snapshots; raises whatever made it fail."""
        with self._preparation.session_lock:
            inputs = self._preparation.register_inputs(self._flow)
        self._hooks.on_start()
        report = self._apply_all(self._context.state.progress_of(self._flow), inputs)
        if self.progressed:
            self._hooks.compact()
        return report

    def _apply_all(self, record: FlowRecord, inputs: dict[str, TableVersion]) -> Report:
        context, flow = self._context, self._flow
        began_at = context.reporting.now()
        record = self._count_committed(record)
        before = context.state.last_snapshot_version(flow)
        while True:
            snapshot = self._next(before)
            if snapshot is None:
                break
            evolved = self._schema_change(snapshot.rows)
            if evolved is not None:
                return evolved
            record = self._apply(record, snapshot, before)
            before = snapshot.version
            if not flow.calls_function:
                break
            if self._hooks.is_stopping():
                return Canceled(flow.name)
        table = table_state(context.table_path(flow.target))
        done = replace(
            _without_abandoned(record),
            fingerprint=flow.analysis.fingerprint,
            code=context.code_digest,
            started_at=began_at,
            inputs=inputs,
            running=False,
            state_signature=flow.state_signature,
            target_id=table.table_id if table else "",
            table_versions=context.state.stores(flow).table_versions(),
        )
        context.guard.fence()
        write_record(context.state.record_file(flow), done)
        return Completed(flow.name)

    def _count_committed(self, record: FlowRecord) -> FlowRecord:
        """After a crash, count a snapshot that is in the table but perhaps not in the event log."""
        context, flow, started = self._context, self._flow, record.snapshot
        if started is None or not record.running or not context.state.has_committed(flow, record, started.number):
            return record
        # A dataset may have changed since then.
        snapshot = self._repeat(started) if flow.calls_function else None
        if snapshot is not None:
            self._target.write(conform(snapshot.rows, Schema.from_json(self._flow.feed.source_json)), started.number)
        else:
            self._target.count_committed(started.number)
        counted = replace(record, running=False)
        context.guard.fence()
        write_record(context.state.record_file(flow), counted)
        return counted

    def _repeat(self, started: SnapshotProgress) -> Snapshot | None:
        """An earlier snapshot, if its function still returns it."""
        try:
            snapshot = self._next(started.previous)
        except Exception:  # noqa: BLE001 - whatever it raises, the snapshot is in the table
            return None
        return snapshot if snapshot is not None and snapshot.version == started.version else None

    def _next(self, before: object) -> Snapshot | None:
        context, flow = self._context, self._flow
        with self._preparation.session_lock, with_confs(context.session, flow.flow.spark_conf):
            if flow.calls_function:
                reads: set[QualifiedName] = set()
                found = next_snapshot(flow.flow, context.catalog, before, reads)
                self._check_reads(reads)
            else:
                found = Snapshot(self._preparation.frame(flow), version_of_update(context.reporting.now()))
                check_order(flow.flow, found.version, before)
            if found is None:
                return None
            self._check_keys(found.rows)
            return Snapshot(on_clone(found.rows, self._work_group), found.version)

    def _check_keys(self, rows: DataFrame) -> None:
        """Refuse a snapshot without key columns: it would look like one without rows."""
        known = {name.casefold() for name in rows.columns}
        missing = [name for name in self._flow.feed.spec.keys if name.casefold() not in known]
        if missing:
            flow, names = self._flow, ", ".join(f'"{name}"' for name in missing)
            reason = f"the snapshot has no column {names}"
            raise PipelineError(
                "CDC.BAD_ARGUMENT", location=flow.flow.location, flow=flow.name, argument="keys", reason=reason
            )

    def _check_reads(self, reads: set[QualifiedName]) -> None:
        """Refuse tables that the function did not read during resolution: they are not registered now."""
        flow = self._flow
        unseen = sorted(str(name) for name in reads - {given.name for given in flow.analysis.inputs})
        if unseen:
            raise PipelineError("CDC.UNSEEN_INPUT", location=flow.flow.location, flow=flow.name, table=unseen[0])

    def _schema_change(self, rows: DataFrame) -> Failed | None:
        """The report that makes the runtime resolve the flow again, if a snapshot has new columns or types."""
        flow = self._flow
        change = schema_change(
            Schema.from_json(self._flow.feed.source_json).nullable, Schema.from_json(rows.schema.json()).nullable
        )
        changes = [str(field) for field in (*change.added, *change.widened, *change.refused)]
        if not changes:
            return None
        fields = ", ".join(f'"{name}"' for name in changes)
        problem = PipelineError("CDC.SNAPSHOT_GREW", location=flow.flow.location, flow=flow.name, fields=fields)
        schema_evolution = SchemaEvolution(
            "CDC.SNAPSHOT_GREW", f"the next snapshot has other columns than the one before: {fields}"
        )
        return Failed(
            flow.name,
            problem,
            condition=problem.code,
            progressed=self._target.batches > 0,
            schema_evolution=schema_evolution,
        )

    def _apply(self, record: FlowRecord, snapshot: Snapshot, before: object) -> FlowRecord:
        context, flow = self._context, self._flow
        last = record.snapshot
        # A started snapshot that is not in the table passes its number to the next, which clears its quarantined rows.
        number = 0 if last is None else last.number + (not record.running)
        started = replace(
            record,
            snapshot=SnapshotProgress(number, snapshot.version, before),
            running=True,
            state_signature=flow.state_signature,
        )
        context.guard.fence()
        write_record(context.state.record_file(flow), started)
        self._comparison.version = snapshot.version
        self._target.write(conform(snapshot.rows, Schema.from_json(self._flow.feed.source_json)), number)
        done = replace(started, running=False)
        context.guard.fence()
        write_record(context.state.record_file(flow), done)
        return done


def _without_abandoned(record: FlowRecord) -> FlowRecord:
    """The record without a started snapshot that is not in the table and no longer available."""
    started = record.snapshot
    if started is None or not record.running:
        return record
    return replace(
        record, snapshot=None if started.previous is None else SnapshotProgress(started.number - 1, started.previous)
    )
