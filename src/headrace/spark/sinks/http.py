"""A server that takes JSON over HTTP as a sink; the driver sends what Spark has computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.runtime.failpoints import Failpoint
from headrace.sinks.http import HttpSender
from headrace.spark.deadletter.json_rows import as_json, whole_row
from headrace.spark.sinks.sink import Batch, Guard

_BODY, _LANE, _WHOLE = "headrace_body", "headrace_lane", "headrace_whole"


@dataclass(frozen=True)
class HttpSink:
    """A server.

    Attributes:
        sender: of requests.
        guard: what is done around it.
        lanes: how many requests are under way at a time.
        rows: of a request.
        keys: columns; rows that are equal in these are sent in their order.
        order_by: columns that this order goes by.
    """

    sender: HttpSender
    guard: Guard
    lanes: int
    rows: int
    keys: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Send a batch; in the same order, and so in the same requests, however often it comes."""
        body = F.to_json(F.struct(*(F.col(quoted(name)) for name in rows.columns)), {"ignoreNullFields": "false"})
        lane = F.pmod(F.xxhash64(*map(quoted, self.keys)), F.lit(self.lanes)) if self.keys else F.lit(0)
        order = [F.col(quoted(name)).alias(f"headrace_order_{n}") for n, name in enumerate(self.order_by)]
        whole = as_json(whole_row(rows)).alias(_WHOLE)
        found = rows.select(body.alias(_BODY), whole, lane.cast("int").alias(_LANE), *order)
        found = found.sort(*(f"headrace_order_{n}" for n in range(len(order))), _BODY)
        self.guard.before(Failpoint.TO_WRITE)
        count = self.sender.send(f"{batch.transaction}:{batch.number}", self._numbered(found), batch.refusals)
        if batch.refusals is not None:
            refused = batch.refusals.bodies()
            if refused:
                among = found.where(F.col(_BODY).isin(refused)).select(_BODY, _WHOLE).collect()
                batch.refusals.told_as({row[_BODY]: row[_WHOLE] for row in among})
            batch.refusals.settle(count)
        self.guard.at(Failpoint.WRITTEN)
        return count

    def _numbered(self, rows: DataFrame) -> Iterator[tuple[int, str]]:
        """Each row with the number of its lane; without keys, request by request."""
        for place, row in enumerate(rows.select(_BODY, _LANE).toLocalIterator(prefetchPartitions=True)):
            yield (row[_LANE] if self.keys else place // self.rows), row[_BODY]
