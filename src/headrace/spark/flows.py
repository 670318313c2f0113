"""Runs the flows of an update, each in a thread of its own: the Spark side of the runtime's port."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.checkpoints.delta_log import table_state
from headrace.checkpoints.freshness import StoredState, transaction_id
from headrace.checkpoints.records import FlowRecord, write_record
from headrace.errors import PipelineError
from headrace.events.types import BatchDone
from headrace.expectations.apply import kept
from headrace.expectations.compile import Rules, judged
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow, ResolvedGraph
from headrace.model.expectations import Action
from headrace.model.names import Naming, QualifiedName
from headrace.model.outcome import FlowCounts
from headrace.plan.steps import FlowStep, TableChange, TableStep
from headrace.runtime.ports import Canceled, Completed, Emit, Failed, NothingNew, Report, Started
from headrace.settings.storage import StorageLayout
from headrace.spark.catalog import Catalog
from headrace.spark.commits import stream_commits
from headrace.spark.confs import CHECKPOINT_CONFS
from headrace.spark.failures import failed
from headrace.spark.queries import call
from headrace.spark.target import Target, TargetPlace, make_quarantine

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Surroundings:
    """What all flows of an update share."""

    update_id: str
    pipeline_id: str
    graph: ResolvedGraph
    catalog: Catalog
    state: StoredState
    layout: StorageLayout
    naming: Naming
    root: Path
    emit: Emit
    known_counts: Callable[[str, int, int], FlowCounts | None]
    now: Callable[[], float]
    redact: Callable[[str], str]
    # Where the whole traces of failures go.
    traces: Path
    grace_s: float = 10.0

    @property
    def session(self) -> SparkSession:
        """The pipeline's session."""
        return self.catalog.session

    def table_path(self, name: QualifiedName) -> str:
        """Where a dataset's table lies."""
        return self.layout.table(self.naming, name)


class ThreadedFlows:
    """Fills the runtime's FlowStarter port. :meth:`ask_to_stop` may be called from a signal handler."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        # Confs and temporary views belong to the session, so flows are loaded and started one at a time (D4).
        self._loading = threading.RLock()
        self._prepared: set[QualifiedName] = set()
        self._stop_asked = threading.Event()
        self._stop = threading.Event()

    def begin(self, step: FlowStep, table: TableStep | None, attempt: int) -> None:
        """Start a flow in a thread of its own."""
        name = f"flow {step.flow.name} #{attempt}"
        threading.Thread(target=self._run, args=(step, table), name=name, daemon=True).start()

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Reports since the last call; blocks until there is one, the time is up, or a stop is asked for."""
        found: list[Report] = []
        try:
            first = self._reports.get(timeout=timeout_s)
            found += [first] if first is not None else []
            while True:
                more = self._reports.get_nowait()
                found += [more] if more is not None else []
        except queue.Empty:
            return found

    def ask_to_stop(self) -> None:
        """Ask for the update to end early; wakes up :meth:`wait`."""
        self._stop_asked.set()
        self._reports.put(None)

    @property
    def stopping(self) -> bool:
        """True once somebody asked for a stop."""
        return self._stop_asked.is_set()

    def stop(self) -> None:
        """Let running batches end within the grace time, interrupt the others."""
        self._stop.set()

    def _run(self, step: FlowStep, table: TableStep | None) -> None:
        flow = step.flow
        try:
            self._reports.put(self._report(step, table))
        except BaseException as error:  # noqa: BLE001 - whatever a flow raises is that flow's failure
            self._keep_trace(flow, error)
            self._reports.put(self._redacted(failed(flow.flow, error, self._around.root)))

    def _keep_trace(self, flow: ResolvedFlow, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        with suppress(OSError), self._around.traces.open("a", encoding="utf-8") as stream:
            stream.write(f"flow {flow.name}\n{self._around.redact(text)}\n")

    def _redacted(self, report: Failed) -> Failed:
        params = {key: self._around.redact(value) for key, value in report.error.params.items()}
        error = PipelineError(report.error.code, location=report.error.location, **params)
        return replace(report, error=error)

    def _report(self, step: FlowStep, table: TableStep | None) -> Report:
        around, flow = self._around, step.flow
        if step.conditional:
            news = around.state.news(around.graph, flow)
            if not news.started:
                return NothingNew(flow.name, news.reason)
        self._prepare(flow, table)
        if flow.mode in (Mode.APPEND, Mode.COMPLETE):
            return self._stream(flow)
        return self._batch(flow)

    def _prepare(self, flow: ResolvedFlow, table: TableStep | None) -> None:
        """Bring the target to where the plan wants it, once for all flows that feed it."""
        around = self._around
        dataset = around.graph.by_name[flow.target]
        with self._loading:
            if flow.target not in self._prepared:
                if table is not None and table.change is TableChange.RESET:
                    self._reset(dataset)
                around.catalog.register_table(dataset)
                if table is not None and table.change is TableChange.EVOLVE:
                    empty = around.catalog.empty(dataset.schema.nullable)
                    path = around.table_path(dataset.name)
                    empty.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
                self._prepare_quarantine(dataset)
                self._prepared.add(flow.target)

    def _prepare_quarantine(self, dataset: ResolvedDataset) -> None:
        around = self._around
        if Rules(dataset.dataset.expectations).with_action(Action.QUARANTINE):
            path = around.layout.quarantine(around.naming, dataset.name)
            if not (Path(path) / "_delta_log").is_dir():
                make_quarantine(around.session, path, around.catalog.empty(dataset.schema.nullable))

    def _reset(self, dataset: ResolvedDataset) -> None:
        """Clear a table and begin a new epoch of every flow that feeds it; safe to repeat after a crash."""
        around = self._around
        flows = around.graph.flows_into(dataset.name)
        records = {flow.name: around.state.record(flow) or FlowRecord() for flow in flows}
        for flow in flows:
            write_record(around.state.record_file(flow), replace(records[flow.name], resetting=True))
        quarantine = around.layout.quarantine(around.naming, dataset.name)
        if (Path(quarantine) / "_delta_log").is_dir():
            make_quarantine(around.session, quarantine, around.catalog.empty(dataset.schema.nullable))
        around.catalog.replace_table(dataset)
        for flow in flows:
            fresh = FlowRecord(epoch=records[flow.name].epoch + 1)
            write_record(around.state.record_file(flow), fresh)

    def _batch(self, flow: ResolvedFlow) -> Report:
        """A materialized view, or a flow that runs once."""
        around = self._around
        record = around.state.record(flow) or FlowRecord()
        began_at = around.now()
        replaces = flow.mode is Mode.REPLACE
        with self._loading:
            inputs = self._register_inputs(flow)
            with self._confs(flow.flow.spark_conf):
                frame = self._frame(flow)
        self._reports.put(Started(flow.name))
        target = self._target(flow, record.epoch, replaces=replaces)
        state = table_state(around.table_path(flow.target))
        target.write(frame, state.version + 1 if replaces and state else 0)
        done = replace(
            record, fingerprint=flow.analysis.fingerprint, started_at=began_at, inputs=inputs, resetting=False
        )
        write_record(around.state.record_file(flow), done)
        return Completed(flow.name, target.counts)

    def _stream(self, flow: ResolvedFlow) -> Report:
        around = self._around
        began_at = around.now()
        record = around.state.record(flow) or FlowRecord()
        checkpoint = around.state.checkpoint(flow, record.epoch)
        if not record.confs:
            # A checkpoint that is there without a record was not made here, and opens with what it was made with.
            record = replace(record, confs={} if (checkpoint / "offsets").is_dir() else dict(CHECKPOINT_CONFS))
            write_record(around.state.record_file(flow), record)
        dataset = around.graph.by_name[flow.target]
        target = None
        with self._loading:
            self._register_inputs(flow)
            with self._confs({**record.confs, **flow.flow.spark_conf}):
                writer = self._frame(flow).writeStream.queryName(flow.name).trigger(availableNow=True)
                writer = writer.option("checkpointLocation", str(checkpoint))
                if dataset.dataset.expectations:
                    target = self._target(flow, record.epoch, replaces=flow.mode is Mode.COMPLETE)
                    mode = "complete" if flow.mode is Mode.COMPLETE else "append"
                    query = writer.foreachBatch(target.batch).outputMode(mode).start()
                else:
                    mode = "complete" if flow.mode is Mode.COMPLETE else "append"
                    path = around.table_path(flow.target)
                    query = writer.format("delta").outputMode(mode).start(path)
        self._reports.put(Started(flow.name))
        counter = None if target is not None else _CommitCounter(around, flow, record, query.id)
        finished = self._await(query, target, counter)
        counted_version = record.counted_version
        if counter is not None:
            counter.count()
            counted_version = counter.counted_version
        counts = target.counts if target is not None else counter.counts if counter is not None else FlowCounts()
        if not finished:
            return Canceled(flow.name, counts)
        done = replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            sources=flow.analysis.sources,
            started_at=began_at,
            counted_version=counted_version,
        )
        write_record(around.state.record_file(flow), done)
        return Completed(flow.name, counts)

    def _await(self, query: StreamingQuery, target: Target | None, counter: _CommitCounter | None) -> bool:
        """True when the query took everything, False when it was stopped; raises what made it fail."""
        deadline = None
        last_batch = None
        try:
            while not query.awaitTermination(_LOOK_EVERY_S):  # type: ignore[arg-type]  # takes parts of a second too
                if counter is not None:
                    counter.count()
                if not self._stop.is_set():
                    continue
                progress = query.lastProgress
                batch = progress["batchId"] if progress else None
                if deadline is None:
                    deadline, last_batch = self._around.now() + self._around.grace_s, batch
                if batch != last_batch or self._around.now() >= deadline:
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
        )
        return Target(place, Rules(dataset.expectations), around.emit, around.known_counts)

    def _frame(self, flow: ResolvedFlow) -> DataFrame:
        dataset = self._around.graph.by_name[flow.target]
        columns = dataset.schema.names if dataset.dataset.schema is not None else ()
        return call(flow.flow, self._around.catalog, columns=columns)

    def _register_inputs(self, flow: ResolvedFlow) -> dict[str, int]:
        """Make what a flow reads readable as it is now; the versions of the tables."""
        around = self._around
        versions = {}
        for given in around.graph.stored_inputs(flow):
            around.catalog.register_table(around.graph.by_name[given.name])
            state = table_state(around.table_path(given.name))
            versions[str(given.name)] = state.version if state else -1
        for view in around.graph.views_below(flow):
            dataset = around.graph.by_name[view.target].dataset
            frame = self._frame(view)
            if dataset.expectations:
                rules = Rules(dataset.expectations)
                frame = kept(judged(frame, rules, around.session), rules)
            around.catalog.register_view(view.target, frame)
        return versions

    @contextmanager
    def _confs(self, confs: Mapping[str, str]) -> Iterator[None]:
        """Settings for the queries that are started inside the block; each keeps a copy of its own."""
        session = self._around.session
        before: dict[str, str | None] = {key: session.conf.get(key, None) for key in confs}
        for key, wanted in confs.items():
            session.conf.set(key, wanted)
        try:
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    session.conf.unset(key)
                else:
                    session.conf.set(key, value)


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
        self.counts = FlowCounts()

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
            self.counts = self.counts.plus(counts)
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
