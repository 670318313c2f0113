"""Computes one dataset from the current tables, without writing to the storage."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, Row

from headrace.errors import PipelineError
from headrace.expectations.compile import evaluate
from headrace.expectations.split import accepted_rows, counters, counts_from
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ChangeFlow, CompleteFlow, ResolvedFlow
from headrace.model.names import QualifiedName
from headrace.model.outcome import FlowCounts
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.spark.delta.tables import empty_frame
from headrace.spark.errors.spark_errors import failure_report
from headrace.spark.expectations.table_rules import TableRules
from headrace.spark.queries.flow_frames import flow_frame, register_views, single_batch_rules
from headrace.spark.session.scoped_confs import with_confs
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
        root: the project's folder, to find the user's line in a failure.
        redact: removes secrets from error messages.
    """

    def __init__(
        self, graph: ResolvedGraph, catalog: Catalog, state: StoredState, root: Path, redact: Callable[[str], str]
    ) -> None:
        self._graph = graph
        self._catalog = catalog
        self._state = state
        self._root = root
        self._redact = redact
        self._numbers = count()
        self._sampled: dict[QualifiedName, str] = {}

    def preview(self, name: QualifiedName, limit: int) -> Preview:
        """At most *limit* rows that the dataset's flows would write now, about equally many per flow.

        Raises:
            PipelineError: a flow fails, as it would in an update.
        """
        dataset = self._graph.by_name[name]
        with tempfile.TemporaryDirectory(prefix="headrace-preview-") as scratch:
            samples = [self._take_sample(flow, Path(scratch), limit) for flow in self._graph.flows_into(name)]
        rows = _fair_share([found.rows for found in samples], limit)
        names = dataset.schema.names
        values = tuple(tuple(row.asDict(recursive=False)[name] for name in names) for row in rows)
        counts = FlowCounts()
        for found in samples:
            counts = counts.plus(found.counts)
        sampled_names = tuple(str(sampled_name) for sampled_name in self._sampled)
        return Preview(Rows(names, values), counts, any(found.partial for found in samples), sampled_names)

    def _take_sample(self, flow: ResolvedFlow, scratch: Path, limit: int) -> _Sample:
        dataset = self._graph.by_name[flow.target]
        sample = _Sample(single_batch_rules(dataset, self._catalog), limit)
        self._compute(flow, scratch, sample)
        return sample

    def _compute(self, flow: ResolvedFlow, scratch: Path, sample: _Sample) -> None:
        """Add the flow's rows to *sample*, batch by batch, until it has enough."""
        if isinstance(flow, ChangeFlow):
            raise PipelineError("CDC.NO_PREVIEW", location=flow.flow.location, dataset=flow.target)
        for given in self._graph.stored_inputs(flow):
            self._ensure_table(given.name, scratch)
        register_views(self._graph, flow, self._catalog)
        try:
            with with_confs(self._catalog.session, flow.flow.spark_conf):
                frame = flow_frame(self._graph, flow, self._catalog)
                if frame.isStreaming:
                    checkpoint = scratch / f"checkpoint{next(self._numbers)}"
                    _stream(frame, sample, checkpoint, complete=isinstance(flow, CompleteFlow))
                else:
                    sample.take(frame)
        except Exception as error:
            rules = self._graph.by_name[flow.target].dataset.expectations
            problem = failure_report(flow.flow, sample.error or error, self._root, rules).error
            params = {key: self._redact(value) for key, value in problem.params.items()}
            raise PipelineError(problem.code, location=problem.location, **params) from error

    def _ensure_table(self, name: QualifiedName, scratch: Path) -> None:
        """Register a table: the stored one, or a temporary one with some of the rows that it would have."""
        table = self._state.table(name)
        if table is not None:
            self._catalog.register_path(name, table.path)
        elif name not in self._sampled:
            path = str(scratch / f"table{next(self._numbers)}")
            dataset = self._graph.by_name[name]
            empty = empty_frame(self._catalog.session, dataset.schema.nullable)
            empty.write.format("delta").save(path)
            self._sampled[name] = path
            for flow in self._graph.flows_into(name):
                self._compute(flow, scratch, _Sample(single_batch_rules(dataset, self._catalog), 0, path))
            self._catalog.register_path(name, path)


@dataclass
class _Sample:
    """The sample of one flow: rows up to a limit, or all rows read, written to a table."""

    rules: TableRules
    limit: int
    target_path: str | None = None
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
        if self.target_path is None:
            self.rows += passing.limit(self.limit - len(self.rows)).collect()
        else:
            passing.write.format("delta").mode("append").save(self.target_path)
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
