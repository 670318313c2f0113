"""Runs one flow from its start to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql.streaming.query import StreamingQuery

from headrace.checkpoints.delta_log import table_state
from headrace.checkpoints.freshness import transaction_id
from headrace.checkpoints.records import FlowRecord, write_record
from headrace.events.types import BatchDone
from headrace.expectations.compile import Rules
from headrace.graph.resolved import Mode, ResolvedFlow
from headrace.model.outcome import FlowCounts
from headrace.runtime.ports import Canceled, Completed, Report
from headrace.runtime.seam import Point
from headrace.spark.commits import stream_commits
from headrace.spark.confs import CHECKPOINT_CONFS
from headrace.spark.preparation import Preparation
from headrace.spark.session import on_clone, with_confs
from headrace.spark.surroundings import Surroundings
from headrace.spark.target import Target, TargetPlace

_LOOK_EVERY_S = 0.5


def work_group(update_id: str, flow: str) -> str:
    """By which the work of a batch flow can be interrupted."""
    return f"headrace {update_id} {flow}"


class Execution:
    """One attempt of one flow.

    Args:
        around: what the flows of the update share.
        preparation: prepares tables and inputs.
        flow: what to run.
        started: called once the query runs.
        patience_s: how long the running batch may still take once the flow should end early, None before that.
    """

    def __init__(
        self,
        around: Surroundings,
        preparation: Preparation,
        flow: ResolvedFlow,
        started: Callable[[], None],
        patience_s: Callable[[], float | None],
    ) -> None:
        self._around = around
        self._preparation = preparation
        self._flow = flow
        self._started = started
        self._patience_s = patience_s

    def run(self) -> Report:
        """Run the flow to its end; raises what made it fail."""
        if self._flow.mode in (Mode.APPEND, Mode.COMPLETE):
            return self._stream(self._flow)
        return self._batch(self._flow)

    def _batch(self, flow: ResolvedFlow) -> Report:
        """A materialized view, or a flow that runs once."""
        around = self._around
        record = around.state.progress_of(flow)
        began_at = around.now()
        replaces = flow.mode is Mode.REPLACE
        with self._preparation.loading:
            inputs = self._preparation.register_inputs(flow)
            with with_confs(around.session, flow.flow.spark_conf):
                frame = on_clone(self._preparation.frame(flow), work_group(around.update_id, flow.name))
        self._started()
        target = self._target(flow, record.epoch, replaces=replaces)
        state = table_state(around.table_path(flow.target))
        target.write(frame, state.version + 1 if replaces and state else 0)
        written = table_state(around.table_path(flow.target))
        done = replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            started_at=began_at,
            inputs=inputs,
            resetting=False,
            target_id=written.table_id if written else "",
        )
        write_record(around.state.record_file(flow), done)
        return Completed(flow.name)

    def _stream(self, flow: ResolvedFlow) -> Report:
        around = self._around
        began_at = around.now()
        record = around.state.progress_of(flow)
        checkpoint = around.state.checkpoint(flow, record.epoch)
        if not record.confs:
            # A checkpoint that is there without a record was not made here, and opens with what it was made with.
            session = around.session
            made_now = {key: str(session.conf.get(key)) for key in CHECKPOINT_CONFS}
            record = replace(record, confs={} if (checkpoint / "offsets").is_dir() else made_now)
        # Whatever happens from here on, the next update starts the flow, which counts what was committed.
        record = replace(record, running=True)
        write_record(around.state.record_file(flow), record)
        dataset = around.graph.by_name[flow.target]
        target = None
        with self._preparation.loading:
            self._preparation.register_inputs(flow)
            with with_confs(around.session, {**record.confs, **flow.flow.spark_conf}):
                writer = self._preparation.frame(flow).writeStream.queryName(flow.name).trigger(availableNow=True)
                writer = writer.option("checkpointLocation", str(checkpoint))
                complete = flow.mode is Mode.COMPLETE
                # Delta's own sink cannot bring a changed schema with the rows, as a whole result does.
                if dataset.dataset.expectations or complete:
                    target = self._target(flow, record.epoch, replaces=complete)
                    query = writer.foreachBatch(target.batch).outputMode("complete" if complete else "append").start()
                else:
                    query = writer.format("delta").outputMode("append").start(around.table_path(flow.target))
        self._started()
        counter = None if target is not None else _CommitCounter(around, flow, record, query.id)
        try:
            finished = self._await(query, target, counter)
        except Exception:
            if counter is not None:
                counter.count()
            raise
        counted_version = record.counted_version
        if counter is not None:
            around.at(Point.WRITTEN)
            counter.count()
            around.at(Point.COUNTED)
            counted_version = counter.counted_version
        if not finished:
            return Canceled(flow.name)
        done = replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            sources=tuple(source.digest for source in flow.analysis.sources),
            started_at=began_at,
            counted_version=counted_version,
            running=False,
        )
        write_record(around.state.record_file(flow), done)
        return Completed(flow.name)

    def _await(self, query: StreamingQuery, target: Target | None, counter: _CommitCounter | None) -> bool:
        """True when the query took everything, False when it was stopped; raises what made it fail."""
        deadline = None
        last_batch = None
        try:
            while not query.awaitTermination(_LOOK_EVERY_S):  # type: ignore[arg-type]  # takes parts of a second too
                if counter is not None:
                    counter.count()
                patience_s = self._patience_s()
                if patience_s is None:
                    continue
                progress = query.lastProgress
                batch = progress["batchId"] if progress else None
                if deadline is None:
                    deadline, last_batch = self._around.now() + patience_s, batch
                if batch != last_batch or patience_s == 0 or self._around.now() >= deadline:
                    query.stop()
                    return False
        except Exception as error:
            if target is not None and target.error is not None:
                raise target.error from error
            raise
        return True

    def _target(self, flow: ResolvedFlow, epoch: int, *, replaces: bool) -> Target:
        around = self._around
        dataset = around.graph.by_name[flow.target].dataset
        place = TargetPlace(
            flow=flow.name,
            dataset=str(flow.target),
            table=around.table_path(flow.target),
            quarantine=around.layout.quarantine(around.naming, flow.target),
            transaction=transaction_id(around.pipeline_id, flow.name, epoch),
            epoch=epoch,
            update_id=around.update_id,
            replaces=replaces,
            partition_by=dataset.partition_by,
            cluster_by=dataset.cluster_by,
        )
        return Target(place, Rules(dataset.expectations), around.emit, around.known_counts, around.at, around.fence)


class _CommitCounter:
    """Counts the batches that Spark's own Delta sink commits, from the table's log."""

    def __init__(self, around: Surroundings, flow: ResolvedFlow, record: FlowRecord, query_id: str) -> None:
        self._around = around
        self._flow = flow
        self._epoch = record.epoch
        self._query_id = query_id
        self._looked_at = time.monotonic()
        self._first = True
        self.counted_version = record.counted_version

    def count(self) -> None:
        """Record the batches that were committed since the last call."""
        path = self._around.table_path(self._flow.target)
        state = table_state(path)
        if state is None or state.version <= self.counted_version:
            return
        commits = stream_commits(path, str(self._query_id), self.counted_version + 1, state.version)
        now = time.monotonic()
        for commit in commits:
            # Before a crash, the last batches may have been recorded without the record of this having been stored.
            if self._first and self._around.known_counts(self._flow.name, self._epoch, commit.batch_id) is not None:
                continue
            counts = FlowCounts(rows_written=commit.rows)
            self._around.emit(
                BatchDone(
                    flow=self._flow.name,
                    dataset=str(self._flow.target),
                    epoch=self._epoch,
                    batch_id=commit.batch_id,
                    counts=counts,
                    duration_ms=int((now - self._looked_at) * 1000),
                )
            )
        self._looked_at = now
        self._first = False
        self.counted_version = state.version
