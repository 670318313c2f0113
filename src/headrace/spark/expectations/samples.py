"""Samples rows that violate expectations with the action warn or drop."""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.events.types import RowsSampled
from headrace.expectations.compile import Rules
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.expectations import Action
from headrace.model.names import quoted
from headrace.model.outcome import FlowCounts
from headrace.model.samples import SAMPLES_KEY, InvalidSamples, samples_of
from headrace.runtime.ports import Emit
from headrace.spark.update.batch_target import BatchTarget
from headrace.spark.update.context import UpdateContext

# Rows that are collected for all expectations of a batch.
_MAX_COLLECTED = 200


class SampleWriter:
    """Samples the batches of one flow in one update: each expectation once, in the first batch that violates it.

    Args:
        target: the flow and its table.
        rules: the expectations of the table.
        emit: receives the samples.
        max_rows: how many rows to sample per expectation.
    """

    def __init__(self, target: BatchTarget, rules: Rules, emit: Emit, max_rows: int) -> None:
        self._target = target
        self._rules = rules
        self._emit = emit
        self._max_rows = max_rows
        self._sampled: set[str] = set()

    def sample(self, evaluated: DataFrame, batch_id: int, counts: FlowCounts) -> None:
        """Sample the evaluated rows of a batch with these counts; the rows are recomputed as far as necessary.

        A stateful flow has no samples, because its rows cannot be recomputed.
        """
        violated = {count.name for count in counts.expectations if count.failed} - self._sampled
        wanted = [e for e in self._rules.expectations if e.action in (Action.WARN, Action.DROP) and e.name in violated]
        if not self._max_rows or not wanted or self._target.stateful:
            return
        columns = [F.col(quoted(name)) for name in evaluated.columns if name not in self._rules.internal_columns]
        names = [F.when(self._rules.violated(e), F.lit(e.name)) for e in wanted]
        rows = evaluated.where(self._rules.any_violated(wanted)).select(
            F.to_json(F.struct(*columns)).alias("row"), F.array_compact(F.array(*names)).alias("broken")
        )
        # The rows are written and counted already, so a failure to read them again is no reason to fail.
        with suppress(PySparkException, Py4JJavaError):
            found = rows.limit(_MAX_COLLECTED).collect()
            for e in wanted:
                texts = tuple(row["row"] for row in found if e.name in row["broken"])[: self._max_rows]
                if texts:
                    self._sampled.add(e.name)
                    target = self._target
                    self._emit(RowsSampled(target.flow, target.dataset, target.epoch, batch_id, e.name, texts))


def samples_per_rule(context: UpdateContext, flow: ResolvedFlow) -> int:
    """How many rows to sample per expectation: from the flow's confs, else from the pipeline's.

    Raises:
        PipelineError: ``ROWS.BAD_CONF``: the conf is not a valid number.
    """
    value = flow.flow.spark_conf.get(SAMPLES_KEY, context.defaults.samples)
    try:
        return samples_of(value)
    except InvalidSamples as invalid:
        raise PipelineError(
            "ROWS.BAD_CONF", location=flow.flow.location, flow=flow.name, key=SAMPLES_KEY, reason=invalid
        ) from invalid
