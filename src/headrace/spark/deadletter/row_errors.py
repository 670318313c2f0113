"""Recognizes errors of a query that its rows may cause, and describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.checkpoints.offsets import first_offsets
from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.dead_letter_policy import MAX_ROWS_OF_DEAD_BATCH
from headrace.runtime.ports import Failed
from headrace.runtime.retry import retryable
from headrace.spark.errors.spark_errors import failure_report
from headrace.spark.update.context import UpdateContext

# Problems of a query that one of its rows may cause.
_ROW_ERROR_CODES = frozenset({"FLOW.FAILED", "FLOW.USER_CODE", "CONFLUENT.PAYLOAD"})


@dataclass(frozen=True)
class RowErrors:
    """Recognizes and describes the errors of a flow that its rows may cause."""

    context: UpdateContext
    flow: ResolvedFlow

    def report(self, error: BaseException) -> Failed:
        """The report of a flow that ended with an error."""
        return failure_report(self.flow.flow, error, self.context.root)

    def may_be_caused_by_row(self, error: BaseException) -> bool:
        """False for transient errors, and for problems of our own code except undecodable payloads."""
        report = self.report(error)
        if report.schema_evolution is not None or report.error.code not in _ROW_ERROR_CODES:
            return False
        # An error without a condition may be anything, including a row that is not Avro.
        return report.condition is None or not retryable(report)

    def row_error(self, error: Exception | None) -> Exception | None:
        """The error of computing rows, if they may have caused it; any other error is raised."""
        if error is None or self.may_be_caused_by_row(error):
            return error
        raise error

    def reason(self, error: BaseException) -> str:
        """The text of an error, without secrets."""
        first = self.report(error).error
        return self.context.reporting.redact(str(first.params.get("reason", first.message)))

    def warning(self, batch_id: int, found: Mapping[int, Exception]) -> Warned:
        """The warning that rows became dead letters."""
        flow = self.flow
        count = f"{len(found)} row{'' if len(found) == 1 else 's'} of batch {batch_id}"
        reason = self.reason(next(iter(found.values())))
        message = f'flow "{flow.name}": its query fails on {count}, moved to dead letters: {reason}'
        return Warned("ROWS.SET_ASIDE", message, flow.name, str(flow.target))

    def batch_warning(self, batch_id: int, count: int, error: Exception) -> Warned:
        """The warning that a whole batch became dead letters."""
        flow, rows = self.flow, f"{count} row{'' if count == 1 else 's'}"
        message = f'flow "{flow.name}": its query fails on batch {batch_id}'
        warning = f"{message}, moved to dead letters as a whole ({rows}): {self.reason(error)}"
        return Warned("ROWS.BATCH_SET_ASIDE", warning, flow.name, str(flow.target))

    def failing_batches_error(self, count: str, error: Exception) -> PipelineError:
        """The error that too many batches in a row fail."""
        location, flow = self.report(error).error.location, self.flow.name
        return PipelineError("ROWS.BATCHES_FAIL", location=location, flow=flow, count=count, reason=self.reason(error))

    def batch_too_large_error(self, batch_id: int, count: int, error: Exception) -> PipelineError:
        """The error that a batch has too many rows for dead letters."""
        location, most = self.report(error).error.location, MAX_ROWS_OF_DEAD_BATCH
        flow, reason = self.flow.name, self.reason(error)
        return PipelineError(
            "ROWS.BATCH_TOO_LARGE", location=location, flow=flow, batch=batch_id, count=count, most=most, reason=reason
        )

    def too_many_rows_error(self, count: int, allowed: int, dead_letters: int, error: Exception) -> PipelineError:
        """The error that more rows fail than may become dead letters."""
        location, allowed = self.report(error).error.location, max(allowed, 0)
        flow, reason = self.flow.name, self.reason(error)
        return PipelineError(
            "ROWS.TOO_MANY_FAIL",
            location=location,
            flow=flow,
            allowed=allowed,
            count=count,
            dead_letters=dead_letters,
            reason=reason,
        )

    def stateful_flow_error(self, epoch: int, batch_id: int, error: Exception) -> PipelineError:
        """The error that a stateful flow cannot skip a row, with the offsets between which it is."""
        flow = self.flow
        checkpoint = self.context.state.checkpoint(flow, epoch)
        kinds = ", ".join(dict.fromkeys(operator.kind for operator in flow.analysis.operators))
        return PipelineError(
            "ROWS.STATEFUL",
            location=self.report(error).error.location,
            flow=flow.name,
            batch=batch_id,
            operators=kinds,
            before=_positions(first_offsets(checkpoint, batch_id - 1)) or "nothing",
            after=_positions(first_offsets(checkpoint, batch_id)),
            reason=self.reason(error),
        )


def _positions(offsets: Sequence[Any]) -> str:
    return ", ".join(json.dumps(offset, sort_keys=True) for offset in offsets)
