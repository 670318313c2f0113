"""Says what a running query keeps in state, and what its watermark does to events."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.events.types import FlowKeeps, Level, Warned
from headrace.graph.resolved import ResolvedFlow
from headrace.model.lateness import duration
from headrace.model.outcome import KeptState
from headrace.spark.monitoring.computed_batches import ComputedBatches
from headrace.spark.update.context import UpdateContext

_SAY_EVERY_S = 10.0
# Of so many batches each has brought newer events, and none has moved the watermark.
_STUCK_BATCHES = 10
# An event that is further ahead of the clock than that is taken for a mistake.
_AHEAD_S = 86_400.0


class StateReporter:
    """Looks at each batch of a query that keeps state; nothing is stopped by what it finds.

    Source: Spark's ``StateOperatorProgress`` and ``StreamingQueryProgress.eventTime``. Rows that are dropped are
    counted as they come to an operator: of an aggregation these are sums of parts of a batch, each of one row or more.
    """

    def __init__(self, context: UpdateContext, flow: ResolvedFlow, query: StreamingQuery) -> None:
        self._context = context
        self._flow = flow
        self._batches = ComputedBatches(query)
        self._newest_batch: Any = None
        self._updated: Counter[int] = Counter()
        self._duplicates: Counter[int] = Counter()
        self._said_at = float("-inf")
        self._said: FlowKeeps | None = None
        self._watermark, self._newest, self._held = "", "", 0
        self._warned: set[str] = set()

    def tell(self, *, last: bool = False) -> None:
        """Tell of the batches since the last call."""
        if not self._flow.analysis.operators:
            return
        for batch in self._batches.new():
            self._newest_batch = batch
            self._look_at(batch)
        now = self._context.now()
        if self._newest_batch is not None and (last or now - self._said_at >= _SAY_EVERY_S):
            self._said_at = now
            self._say(self._newest_batch)

    def _look_at(self, batch: Any) -> None:
        for number, operator in enumerate(batch["stateOperators"]):
            self._updated[number] += int(operator["numRowsUpdated"])
            self._duplicates[number] += int(operator["customMetrics"].get("numDroppedDuplicateRows", 0))
            dropped = int(operator["numRowsDroppedByWatermark"])
            if dropped:
                rows = f"{dropped} row{'' if dropped == 1 else 's'}, or sums of several,"
                self._warn(
                    "FLOW.ROWS_TOO_LATE",
                    f"{rows} of batch {batch['batchId']} came behind the watermark {_watermark(batch)} of "
                    f"{operator['operatorName']} and are in no result; set late rows aside before with dp.on_time, or "
                    "give it a longer delay",
                    Level.ERROR,
                )
        newest = (batch.get("eventTime") or {}).get("max")
        if newest is not None:
            # The watermark stays ahead for long after the batch that has moved it.
            self._look_ahead(max(newest, _watermark(batch), key=_seconds))
            self._look_at_watermark(_watermark(batch), newest)

    def _look_ahead(self, newest: str) -> None:
        ahead_s = _seconds(newest) - self._context.now()
        if ahead_s > _AHEAD_S and self._once("FLOW.TIME_AHEAD"):
            self._warn(
                "FLOW.TIME_AHEAD",
                f"events have times up to {newest}, which is {duration(round(ahead_s))} ahead; the watermark follows "
                "them, and what comes after is too late: set such rows aside before with "
                'dp.on_time(..., ahead="1 hour")',
            )

    def _look_at_watermark(self, watermark: str, newest: str) -> None:
        """Notice where events go on and the watermark does not, which only one of several inputs can hold back."""
        moves = watermark != self._watermark
        self._held = 0 if moves else self._held + (newest > self._newest and _seconds(newest) > _seconds(watermark))
        self._watermark, self._newest = watermark, max(newest, self._newest)
        if moves:
            self._warned.discard("FLOW.WATERMARK_STUCK")
        elif self._held >= _STUCK_BATCHES and self._once("FLOW.WATERMARK_STUCK"):
            self._warn(
                "FLOW.WATERMARK_STUCK",
                f"the watermark stays at {watermark} while events up to {newest} come, because one of the inputs "
                "brings none, or only old ones; nothing is closed and the state grows until it does, or, where rows "
                "that come late may be dropped, with spark.sql.streaming.multipleWatermarkPolicy at max",
            )

    def _once(self, code: str) -> bool:
        fresh = code not in self._warned
        self._warned.add(code)
        return fresh

    def _warn(self, code: str, said: str, level: Level = Level.WARN) -> None:
        flow = self._flow
        self._context.emit(Warned(code, f'flow "{flow.name}": {said}', flow.name, str(flow.target), level))

    def _say(self, batch: Any) -> None:
        kept = tuple(
            KeptState(
                operator=str(operator["operatorName"]),
                rows_updated=self._updated[number],
                duplicates_removed=self._duplicates[number],
                memory_bytes=int(operator["memoryUsedBytes"]),
            )
            for number, operator in enumerate(batch["stateOperators"])
        )
        says = FlowKeeps(self._flow.name, str(self._flow.target), kept, _watermark(batch))
        if kept and says != self._said:
            self._said = says
            self._context.emit(says)


def _watermark(batch: Any) -> str:
    return str((batch.get("eventTime") or {}).get("watermark", ""))


def _seconds(text: str) -> float:
    """Seconds since 1970 of a time as Spark's progress has it."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        # Beyond the year 9999 there is a sign before it.
        return float("inf") if text.startswith("+") else 0.0
