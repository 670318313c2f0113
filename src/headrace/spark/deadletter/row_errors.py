"""Which errors of a query its rows may be the reason of, and what is said of those."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.checkpoints.offsets import first_offsets
from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved import ResolvedFlow
from headrace.model.failing_rows import MOST_OF_A_WHOLE_BATCH
from headrace.runtime.ports import Failed
from headrace.runtime.retry import retryable
from headrace.spark.errors.spark_errors import failed
from headrace.spark.update.context import UpdateContext

# The problems of a query that a row of its own may cause.
_OF_ROWS = frozenset({"FLOW.FAILED", "FLOW.USER_CODE", "CONFLUENT.PAYLOAD"})


@dataclass(frozen=True)
class RowErrors:
    """What a query raises that some of its rows may be the reason of, and what is said of it."""

    context: UpdateContext
    flow: ResolvedFlow

    def report(self, error: BaseException) -> Failed:
        """The report of a flow that ended with an error."""
        return failed(self.flow.flow, error, self.context.root)

    def may_be_a_row(self, error: BaseException) -> bool:
        """False for what passes by itself, and for what our own code says, but for a payload that is none."""
        report = self.report(error)
        if report.growth is not None or report.error.code not in _OF_ROWS:
            return False
        # What carries no condition may be anything, a row that is not Avro among it.
        return report.condition is None or not retryable(report)

    def of_rows(self, error: Exception | None) -> Exception | None:
        """What computing rows has raised, if they may be why; anything else says nothing of them, and is raised."""
        if error is None or self.may_be_a_row(error):
            return error
        raise error

    def reason(self, error: BaseException) -> str:
        """What an error says."""
        first = self.report(error).error
        return self.context.redact(str(first.params.get("reason", first.message)))

    def warning(self, batch_id: int, found: Mapping[int, Exception]) -> Warned:
        """That rows were set aside."""
        flow = self.flow
        count = f"{len(found)} row{'' if len(found) == 1 else 's'} of batch {batch_id}"
        reason = self.reason(next(iter(found.values())))
        message = f'flow "{flow.name}": its query fails with {count}, set aside: {reason}'
        return Warned("ROWS.SET_ASIDE", message, flow.name, str(flow.target))

    def batch_warning(self, batch_id: int, count: int, error: Exception) -> Warned:
        """That a whole batch was set aside."""
        flow, rows = self.flow, f"{count} row{'' if count == 1 else 's'}"
        message = f'flow "{flow.name}": its query fails with batch {batch_id}, set aside with all of its {rows}: '
        return Warned("ROWS.BATCH_SET_ASIDE", message + self.reason(error), flow.name, str(flow.target))

    def too_many_batches(self, count: str, error: Exception) -> PipelineError:
        """That one batch after the other fails."""
        location, flow = self.report(error).error.location, self.flow.name
        return PipelineError("ROWS.BATCHES_FAIL", location=location, flow=flow, count=count, reason=self.reason(error))

    def too_large(self, batch_id: int, count: int, error: Exception) -> PipelineError:
        """That a batch has more rows than are set aside at a time."""
        location, most = self.report(error).error.location, MOST_OF_A_WHOLE_BATCH
        flow, reason = self.flow.name, self.reason(error)
        return PipelineError(
            "ROWS.BATCH_TOO_LARGE", location=location, flow=flow, batch=batch_id, count=count, most=most, reason=reason
        )

    def too_many(self, count: int, allowed: int, aside: int, error: Exception) -> PipelineError:
        """That more rows fail than may be set aside."""
        location, allowed = self.report(error).error.location, max(allowed, 0)
        flow, reason = self.flow.name, self.reason(error)
        return PipelineError(
            "ROWS.TOO_MANY_FAIL", location=location, flow=flow, allowed=allowed, count=count, aside=aside, reason=reason
        )

    def stateful(self, epoch: int, batch_id: int, error: Exception) -> PipelineError:
        """That a flow cannot do without a row, and between which offsets it is."""
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
