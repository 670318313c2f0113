"""Computes one dataset from the current tables, without writing to the storage."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row

from headrace.errors import PipelineError
from headrace.expectations.compile import evaluate
from headrace.expectations.split import accepted_rows, counters, counts_from
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ChangeFlow, CompleteFlow, ResolvedFlow, SnapshotFlow
from headrace.model.names import QualifiedName
from headrace.model.outcome import FlowCounts
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.model.schema import Schema
from headrace.settings.settings import Settings
from headrace.spark.delta.conform import conform
from headrace.spark.errors.spark_errors import failure_report
from headrace.spark.queries.flow_frames import flow_frame, register_views, single_batch_rules
from headrace.spark.queries.snapshots import next_snapshot, version_of_update
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.tables.sample_table import BatchRules, SampleTable
from headrace.spark.update.catalog import Catalog
from headrace.storage.change_detection import StoredState

# The minimum number of rows to read per flow: enough to show the effect of expectations, and fast.
SAMPLE_ROWS = 1000


class Previewer:
    """Computes datasets of one resolved graph in memory, with a temporary folder for intermediate tables.

    Args:
        graph: the project.
        catalog: of its session; receives the names of tables.
        state: the stored state.
        settings: of the project.
        redact: removes secrets from error messages.
    """

    def __init__(
        self,
        graph: ResolvedGraph,
        catalog: Catalog,
        state: StoredState,
        settings: Settings,
        redact: Callable[[str], str],
    ) -> None:
        self._graph = graph
        self._catalog = catalog
        self._state = state
        self._settings = settings
        self._redact = redact
        self._numbers = count()
        self._sampled: dict[QualifiedName, str] = {}

    def preview(self, name: QualifiedName, limit: int) -> Preview:
        """At most *limit* rows that the dataset's flows would write now, about equally many per flow.

        Of a table that changes are merged into: its rows after the first changes of its flows, as if it were empty
        before. So they do not depend on what the table has, and a change that the table has already is shown too.

        Raises:
            PipelineError: a flow fails, as it would in an update.
        """
        dataset = self._graph.by_name[name]
        flows = self._graph.flows_into(name)
        is_merged = any(isinstance(flow, ChangeFlow) for flow in flows)
        with tempfile.TemporaryDirectory(prefix="headrace-preview-") as scratch:
            target = self._new_target(name, Path(scratch)) if is_merged else None
            samples = [self._take_sample(flow, Path(scratch), limit, target) for flow in flows]
            rows = _fair_share([found.rows for found in samples], limit) if target is None else target.rows(limit)
        names = dataset.schema.names
        values = tuple(tuple(row.asDict(recursive=False)[name] for name in names) for row in rows)
        counts = FlowCounts()
        for found in samples:
            counts = counts.plus(found.counts)
        sampled_names = tuple(str(sampled_name) for sampled_name in self._sampled)
        partial = any(found.partial for found in samples)
        return Preview(Rows(names, values), counts, partial, sampled_names, merged=is_merged)

    def _take_sample(self, flow: ResolvedFlow, scratch: Path, limit: int, target: SampleTable | None) -> _Sample:
        sample = self._new_sample(flow, limit, target)
        self._compute(flow, scratch, sample)
        return sample

    def _new_sample(self, flow: ResolvedFlow, limit: int, target: SampleTable | None) -> _Sample:
        if isinstance(flow, ChangeFlow):
            assert target is not None  # noqa: S101 - changes are merged into a table
            merging = target.merging(flow)
            return _Sample(merging.rules, limit, merging.merge, merging.events, merging.begin)
        rules = single_batch_rules(self._graph.by_name[flow.target], self._catalog)
        return _Sample(rules, limit, None if target is None else target.append)

    def _new_target(self, name: QualifiedName, scratch: Path) -> SampleTable:
        path = scratch / f"table{next(self._numbers)}"
        return SampleTable(self._catalog.session, self._graph.by_name[name], path, self._settings)

    def _compute(self, flow: ResolvedFlow, scratch: Path, sample: _Sample) -> None:
        """Add the flow's rows to *sample*, batch by batch, until it has enough."""
        for given in self._graph.stored_inputs(flow):
            self._ensure_table(given.name, scratch)
        register_views(self._graph, flow, self._catalog)
        try:
            with with_confs(self._catalog.session, flow.flow.spark_conf):
                frame = self._frame(flow, sample)
                if frame is None:
                    return
                if frame.isStreaming:
                    checkpoint = scratch / f"checkpoint{next(self._numbers)}"
                    _stream(frame, sample, checkpoint, complete=isinstance(flow, CompleteFlow))
                else:
                    sample.take(frame)
        except Exception as error:
            rules = self._graph.by_name[flow.target].dataset.expectations
            problem = failure_report(flow.flow, sample.error or error, self._settings.root, rules).error
            params = {key: self._redact(value) for key, value in problem.params.items()}
            raise PipelineError(problem.code, location=problem.location, **params) from error

    def _frame(self, flow: ResolvedFlow, sample: _Sample) -> DataFrame | None:
        """The rows of a flow; of snapshots, those of the first one. None if there is no snapshot yet."""
        if not isinstance(flow, SnapshotFlow):
            return flow_frame(self._graph, flow, self._catalog)
        if not flow.calls_function:
            sample.begin(version_of_update(time.time()))
            return flow_frame(self._graph, flow, self._catalog)
        found = next_snapshot(flow.flow, self._catalog, None)
        if found is None:
            return None
        sample.begin(found.version)
        return conform(found.rows, Schema.from_json(flow.feed.source_json))

    def _ensure_table(self, name: QualifiedName, scratch: Path) -> None:
        """Register a table: the stored one, or a temporary one with some of the rows that it would have."""
        table = self._state.table(name)
        if table is not None:
            self._catalog.register_path(name, table.path)
        elif name not in self._sampled:
            target = self._new_target(name, scratch)
            self._sampled[name] = target.path
            for flow in self._graph.flows_into(name):
                self._compute(flow, scratch, self._new_sample(flow, 0, target))
            self._catalog.register_path(name, target.path)


def _ignore(version: Any) -> None:
    """Only snapshots have versions."""
    del version


@dataclass
class _Sample:
    """The sample of one flow: rows up to a limit, or all rows read, written to a table."""

    rules: BatchRules
    limit: int
    # Gets the rows that passed, and all rows.
    write: Callable[[DataFrame, DataFrame], None] | None = None
    # Makes rows of a batch what is written: events of changes.
    events: Callable[[DataFrame], DataFrame] | None = None
    # Gets the version of a snapshot before its rows.
    begin: Callable[[Any], None] = _ignore
    rows: list[Row] = field(default_factory=list)
    counts: FlowCounts = field(default_factory=FlowCounts)
    partial: bool = False
    error: BaseException | None = None

    @property
    def seen_rows(self) -> int:
        """The number of rows read from the flow so far."""
        return self.counts.rows_read

    def take(self, frame: DataFrame) -> None:
        """Add the first rows of a batch."""
        room = max(SAMPLE_ROWS, self.limit) - self.seen_rows
        frame = frame if self.events is None else self.events(frame)
        # One extra row shows whether there are more.
        first = frame.limit(room + 1).persist()
        try:
            more = first.count() > room
            self.partial = self.partial or more
            self._evaluate(first.limit(room) if more else first)
        finally:
            first.unpersist()

    def _evaluate(self, frame: DataFrame) -> None:
        rules = self.rules.rules
        has_rules = bool(rules.expectations)
        rows = (
            evaluate(self.rules.with_rule_columns(frame), rules, frame.sparkSession).persist() if has_rules else frame
        )
        self.counts = self.counts.plus(counts_from(rows.agg(*counters(rules)).collect()[0].asDict(), rules))
        passing = accepted_rows(rows, rules)
        if self.write is None:
            self.rows += passing.limit(self.limit - len(self.rows)).collect()
        else:
            self.write(passing, rows)
        rows.unpersist()

    def reset(self) -> None:
        """Clear the sample: the next batch has the whole result."""
        self.rows.clear()
        self.counts = FlowCounts()
        self.partial = False


def _stream(frame: DataFrame, sample: _Sample, checkpoint: Path, *, complete: bool) -> None:
    """Run a stream from its start, with a temporary checkpoint."""

    def take(batch: DataFrame, _batch_id: int) -> None:
        try:
            if complete:
                sample.reset()
            if not sample.partial:
                sample.take(batch)
        except BaseException as error:
            # py4j loses the original exception.
            sample.error = error
            raise

    writer = frame.writeStream.foreachBatch(take).outputMode("complete" if complete else "append")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        while not query.awaitTermination(1):
            if sample.partial and not complete:
                break
    finally:
        query.stop()


def _fair_share(found: list[list[Row]], limit: int) -> list[Row]:
    """At most *limit* rows, equally many from each list if possible; in the order of the lists."""
    quotas = [0] * len(found)
    for position in range(max(map(len, found), default=0)):
        for number, rows in enumerate(found):
            if position < len(rows) and sum(quotas) < limit:
                quotas[number] += 1
    return [row for rows, quota in zip(found, quotas, strict=True) for row in rows[:quota]]
