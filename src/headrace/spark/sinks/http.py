"""An HTTP server as a sink for JSON; the driver sends the computed rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.runtime.failpoints import Failpoint
from headrace.sinks.http import HttpSender
from headrace.spark.deadletter.json_rows import as_json, whole_row
from headrace.spark.sinks.sink import Batch
from headrace.spark.update.guard import Guard

_BODY, _LANE, _WHOLE_ROW = "headrace_body", "headrace_lane", "headrace_whole"


@dataclass(frozen=True)
class HttpSink:
    """An HTTP server.

    Attributes:
        sender: sends the requests.
        guard: failpoints and fencing.
        lanes: the maximum number of parallel requests.
        rows: the maximum number of rows per request.
        keys: columns; rows with equal values are sent in order.
        order_by: columns that define this order.
    """

    sender: HttpSender
    guard: Guard
    lanes: int
    rows: int
    keys: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Send a batch. A repeated batch has the same order, and so the same requests."""
        body = F.to_json(F.struct(*(F.col(quoted(name)) for name in rows.columns)), {"ignoreNullFields": "false"})
        lane = F.pmod(F.xxhash64(*map(quoted, self.keys)), F.lit(self.lanes)) if self.keys else F.lit(0)
        order = [F.col(quoted(name)).alias(f"headrace_order_{n}") for n, name in enumerate(self.order_by)]
        whole_column = as_json(whole_row(rows)).alias(_WHOLE_ROW)
        found = rows.select(body.alias(_BODY), whole_column, lane.cast("int").alias(_LANE), *order)
        found = found.sort(*(f"headrace_order_{n}" for n in range(len(order))), _BODY)
        self.guard.before(Failpoint.BEFORE_WRITE)
        count = self.sender.send(f"{batch.transaction}:{batch.number}", self._numbered(found), batch.rejected_rows)
        if batch.rejected_rows is not None:
            rejected = batch.rejected_rows.texts()
            if rejected:
                matching = found.where(F.col(_BODY).isin(rejected)).select(_BODY, _WHOLE_ROW).collect()
                batch.rejected_rows.replace_texts({row[_BODY]: row[_WHOLE_ROW] for row in matching})
            batch.rejected_rows.store(count)
        self.guard.failpoint(Failpoint.WRITTEN)
        return count

    def _numbered(self, rows: DataFrame) -> Iterator[tuple[int, str]]:
        """Each row with the number of its lane; without keys, lanes take turns by request."""
        for index, row in enumerate(rows.select(_BODY, _LANE).toLocalIterator(prefetchPartitions=True)):
            yield (row[_LANE] if self.keys else index // self.rows), row[_BODY]
