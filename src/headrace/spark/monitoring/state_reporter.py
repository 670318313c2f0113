"""Reports the state of a running query, and the effect of its watermark on events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.events.levels import Level
from headrace.events.types import FlowStateMetrics, Warned
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.lateness import duration
from headrace.model.outcome import OperatorState
from headrace.spark.update.context import UpdateContext

_REPORT_INTERVAL_S = 10.0
# After so many batches with newer events that did not advance the watermark, it counts as stuck.
_STUCK_BATCHES = 10
# An event that is further ahead of the clock is considered a mistake.
_AHEAD_S = 86_400.0


class StateReporter:
    """Checks each batch of a stateful query, and only warns.

    Source: Spark's ``StateOperatorProgress`` and ``StreamingQueryProgress.eventTime``. Dropped rows are counted as they
    reach an operator: for an aggregation these are partial aggregates of one or more rows.
    """

    def __init__(self, context: UpdateContext, flow: ResolvedFlow) -> None:
        self._context = context
        self._flow = flow
        self._newest_batch: Any = None
        self._updated: Counter[int] = Counter()
        self._duplicates: Counter[int] = Counter()
        self._reported_at = float("-inf")
        self._reported: FlowStateMetrics | None = None
        self._watermark, self._newest, self._stuck_batches = "", "", 0
        self._warned: set[str] = set()

    def report(self, batches: Sequence[Any], *, last: bool = False) -> None:
        """Check the batches since the last call, and report the state."""
        if not self._flow.analysis.operators:
            return
        for batch in batches:
            self._newest_batch = batch
            self._check_batch(batch)
        now = self._context.reporting.now()
        if self._newest_batch is not None and (last or now - self._reported_at >= _REPORT_INTERVAL_S):
            self._reported_at = now
            self._emit_state(self._newest_batch)

    def _check_batch(self, batch: Any) -> None:
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
            # The watermark stays ahead long after the batch that advanced it.
            self._check_future_times(max(newest, _watermark(batch), key=_seconds))
            self._check_watermark(_watermark(batch), newest)

    def _check_future_times(self, newest: str) -> None:
        ahead_s = _seconds(newest) - self._context.reporting.now()
        if ahead_s > _AHEAD_S and self._once("FLOW.TIME_AHEAD"):
            self._warn(
                "FLOW.TIME_AHEAD",
                f"events have times up to {newest}, which is {duration(round(ahead_s))} ahead; the watermark follows "
                "them, and what comes after is too late: set such rows aside before with "
                'dp.on_time(..., ahead="1 hour")',
            )

    def _check_watermark(self, watermark: str, newest: str) -> None:
        """Warn if events advance and the watermark does not, which only one of several inputs can cause."""
        moves = watermark != self._watermark
        self._stuck_batches = (
            0 if moves else self._stuck_batches + (newest > self._newest and _seconds(newest) > _seconds(watermark))
        )
        self._watermark, self._newest = watermark, max(newest, self._newest)
        if moves:
            self._warned.discard("FLOW.WATERMARK_STUCK")
        elif self._stuck_batches >= _STUCK_BATCHES and self._once("FLOW.WATERMARK_STUCK"):
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

    def _warn(self, code: str, message: str, level: Level = Level.WARN) -> None:
        flow = self._flow
        self._context.reporting.emit(Warned(code, f'flow "{flow.name}": {message}', flow.name, str(flow.target), level))

    def _emit_state(self, batch: Any) -> None:
        kept = tuple(
            OperatorState(
                operator=str(operator["operatorName"]),
                rows_updated=self._updated[number],
                duplicates_removed=self._duplicates[number],
                memory_bytes=int(operator["memoryUsedBytes"]),
            )
            for number, operator in enumerate(batch["stateOperators"])
        )
        state = FlowStateMetrics(self._flow.name, str(self._flow.target), kept, _watermark(batch))
        if kept and state != self._reported:
            self._reported = state
            self._context.reporting.emit(state)


def _watermark(batch: Any) -> str:
    return str((batch.get("eventTime") or {}).get("watermark", ""))


def _seconds(text: str) -> float:
    """A time from Spark's progress in seconds since 1970."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        # Years after 9999 have a sign.
        return float("inf") if text.startswith("+") else 0.0
