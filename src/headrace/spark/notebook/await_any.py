"""``spark.streams.awaitAnyTermination``: a stream that is started again after a failure has not ended."""

from __future__ import annotations

import time
from functools import wraps
from typing import Any

from pyspark.errors import StreamingQueryException

from headrace.spark.notebook.notebook_session import ready_for
from headrace.spark.notebook.stream_retry import RetriedQuery


def awaiting(original: Any) -> Any:
    """The same as Spark's method, which does not know of a stream's next run."""

    @wraps(original)
    def wait(self: Any, timeout: float | None = None) -> Any:
        ready = ready_for(None)
        queries = [] if ready is None else [started.query for started in ready.queries]
        runs = {query: query.runs for query in queries if isinstance(query, RetriedQuery) and query.isActive}
        ended = [query for query in queries if not query.isActive]
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                found = original(self, left)
            except StreamingQueryException:
                failed = [query for query, run in runs.items() if query.runs > run or not query.runs_now]
                if not failed or not all(query.decided(deadline) for query in failed):
                    raise
                if any(not query.isActive for query in queries if query not in ended):
                    raise
                runs.update({query: query.runs for query in failed})
                self.resetTerminated()
            else:
                # Whoever looks which one it was finds it ended.
                for query in runs:
                    query.decided(deadline)
                return found

    return wait
