"""Keeps some of the rows that break rules which count or drop them, for whoever wants to see one."""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.events.types import RowsSampled
from headrace.expectations.compile import Rules
from headrace.model.expectations import Action
from headrace.model.names import quoted
from headrace.model.outcome import FlowCounts
from headrace.runtime.ports import Emit
from headrace.spark.update.batch_target import BatchTarget

# Rows that are looked at for all rules of a batch.
_LOOKED_AT = 200


class SampleWriter:
    """Of one flow in one update: each rule is sampled once, in the first batch in which a row breaks it.

    Args:
        place: the flow and its table.
        rules: the expectations of the table.
        emit: gets the samples.
        most: rows of each rule.
    """

    def __init__(self, place: BatchTarget, rules: Rules, emit: Emit, most: int) -> None:
        self._place = place
        self._rules = rules
        self._emit = emit
        self._most = most
        self._sampled: set[str] = set()

    def look(self, judged: DataFrame, batch_id: int, counts: FlowCounts) -> None:
        """Look at judged rows of a batch with these counts; they are computed again as far as it takes.

        What a query remembers between batches cannot be asked again: such a flow has no samples.
        """
        broken = {count.name for count in counts.expectations if count.failed} - self._sampled
        wanted = [e for e in self._rules.expectations if e.action in (Action.WARN, Action.DROP) and e.name in broken]
        if not self._most or not wanted or self._place.stateful:
            return
        columns = [F.col(quoted(name)) for name in judged.columns if name not in self._rules.own_columns]
        names = [F.when(self._rules.broken(e), F.lit(e.name)) for e in wanted]
        rows = judged.where(self._rules.any_broken(wanted)).select(
            F.to_json(F.struct(*columns)).alias("row"), F.array_compact(F.array(*names)).alias("broken")
        )
        # The rows are written and counted: that some cannot be had again is no reason to fail.
        with suppress(PySparkException, Py4JJavaError):
            found = rows.limit(_LOOKED_AT).collect()
            for e in wanted:
                texts = tuple(row["row"] for row in found if e.name in row["broken"])[: self._most]
                if texts:
                    self._sampled.add(e.name)
                    place = self._place
                    self._emit(RowsSampled(place.flow, place.dataset, place.epoch, batch_id, e.name, texts))
