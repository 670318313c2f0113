"""Computes one dataset on the tables as they are, without writing into the storage."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, Row

from headrace.errors import PipelineError
from headrace.expectations.compile import judged
from headrace.expectations.split import counters, counts_from, kept
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph
from headrace.model.names import QualifiedName
from headrace.model.outcome import FlowCounts
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.spark.delta.tables import empty_frame
from headrace.spark.errors.spark_errors import failed
from headrace.spark.expectations.table_rules import TableRules
from headrace.spark.queries.flow_frames import alone, flow_frame, register_views
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.catalog import Catalog
from headrace.storage.change_detection import StoredState

# How many rows of each flow are looked at, at least: enough to see what expectations do, and soon done.
LOOKED_AT = 1000


class Previewer:
    """Computes datasets of one resolved graph in memory; what it has to put somewhere goes to a scratch folder.

    Args:
        graph: the project.
        catalog: of its session; names of tables are registered in it.
        state: where tables are.
        root: the project's folder, to find the user's line in a failure.
        redact: takes secrets out of what a failure says.
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
        """At most *limit* rows that the dataset's flows would write now, of each flow about as many.

        Raises:
            PipelineError: a flow fails, as it would in an update.
        """
        dataset = self._graph.by_name[name]
        with tempfile.TemporaryDirectory(prefix="headrace-preview-") as scratch:
            taken = [self._taken(flow, Path(scratch), limit) for flow in self._graph.flows_into(name)]
        rows = _shared([found.rows for found in taken], limit)
        names = dataset.schema.names
        values = tuple(tuple(row.asDict(recursive=False)[name] for name in names) for row in rows)
        counts = FlowCounts()
        for found in taken:
            counts = counts.plus(found.counts)
        sampled = tuple(str(sampled) for sampled in self._sampled)
        return Preview(Rows(names, values), counts, any(found.partial for found in taken), sampled)

    def _taken(self, flow: ResolvedFlow, scratch: Path, limit: int) -> _Taken:
        dataset = self._graph.by_name[flow.target]
        taken = _Taken(alone(dataset, self._catalog), limit)
        self._compute(flow, scratch, taken)
        return taken

    def _compute(self, flow: ResolvedFlow, scratch: Path, taken: _Taken) -> None:
        """Give the flow's rows to *taken*, batch by batch, until it has enough."""
        if flow.merges:
            raise PipelineError("CDC.NO_PREVIEW", location=flow.flow.location, dataset=flow.target)
        for given in self._graph.stored_inputs(flow):
            self._provide(given.name, scratch)
        register_views(self._graph, flow, self._catalog)
        try:
            with with_confs(self._catalog.session, flow.flow.spark_conf):
                frame = flow_frame(self._graph, flow, self._catalog)
                if frame.isStreaming:
                    checkpoint = scratch / f"checkpoint{next(self._numbers)}"
                    _stream(frame, taken, checkpoint, complete=flow.mode is Mode.COMPLETE)
                else:
                    taken.take(frame)
        except Exception as error:
            rules = self._graph.by_name[flow.target].dataset.expectations
            problem = failed(flow.flow, taken.error or error, self._root, rules).error
            params = {key: self._redact(value) for key, value in problem.params.items()}
            raise PipelineError(problem.code, location=problem.location, **params) from error

    def _provide(self, name: QualifiedName, scratch: Path) -> None:
        """Make a table readable: the one in the storage, or some rows of the one that there would be."""
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
                self._compute(flow, scratch, _Taken(alone(dataset, self._catalog), 0, path))
            self._catalog.register_path(name, path)


@dataclass
class _Taken:
    """What was taken of one flow: rows up to a limit, or all that was looked at, into a table."""

    rules: TableRules
    limit: int
    into: str | None = None
    rows: list[Row] = field(default_factory=list)
    counts: FlowCounts = field(default_factory=FlowCounts)
    partial: bool = False
    error: BaseException | None = None

    @property
    def looked_at(self) -> int:
        """How many rows the flow has brought so far."""
        return self.counts.rows_read

    def take(self, frame: DataFrame) -> None:
        """Look at the first rows of a batch."""
        room = max(LOOKED_AT, self.limit) - self.looked_at
        # One row more tells whether there are more.
        first = frame.limit(room + 1).persist()
        try:
            more = first.count() > room
            self.partial = self.partial or more
            self._judge(first.limit(room) if more else first)
        finally:
            first.unpersist()

    def _judge(self, frame: DataFrame) -> None:
        rules = self.rules.rules
        judging = bool(rules.expectations)
        rows = judged(self.rules.beside(frame), rules, frame.sparkSession).persist() if judging else frame
        self.counts = self.counts.plus(counts_from(rows.agg(*counters(rules)).collect()[0].asDict(), rules))
        passing = kept(rows, rules)
        if self.into is None:
            self.rows += passing.limit(self.limit - len(self.rows)).collect()
        else:
            passing.write.format("delta").mode("append").save(self.into)
        rows.unpersist()

    def begin_again(self) -> None:
        """Forget what was taken: the next batch has the whole result."""
        self.rows.clear()
        self.counts = FlowCounts()
        self.partial = False


def _stream(frame: DataFrame, taken: _Taken, checkpoint: Path, *, complete: bool) -> None:
    """A stream from its start, through a checkpoint that is thrown away."""

    def take(batch: DataFrame, _batch_id: int) -> None:
        try:
            if complete:
                taken.begin_again()
            if not taken.partial:
                taken.take(batch)
        except BaseException as error:
            # py4j loses what an error is on its way out.
            taken.error = error
            raise

    writer = frame.writeStream.foreachBatch(take).outputMode("complete" if complete else "append")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        while not query.awaitTermination(1):
            if taken.partial and not complete:
                break
    finally:
        query.stop()


def _shared(found: list[list[Row]], limit: int) -> list[Row]:
    """At most *limit* rows, of each list as many as of the others where it has them; in the order of the lists."""
    quotas = [0] * len(found)
    for place in range(max(map(len, found), default=0)):
        for number, rows in enumerate(found):
            if place < len(rows) and sum(quotas) < limit:
                quotas[number] += 1
    return [row for rows, quota in zip(found, quotas, strict=True) for row in rows[:quota]]
