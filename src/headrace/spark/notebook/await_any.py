"""``spark.streams.awaitAnyTermination``: a stream that is restarted after a failure has not terminated."""

from __future__ import annotations

import time
from functools import wraps
from typing import Any

from pyspark.errors import StreamingQueryException

from headrace.spark.notebook.notebook_session import notebook_for
from headrace.spark.notebook.stream_retry import RetriedQuery


def awaiting(original: Any) -> Any:
    """Wrap Spark's method, which does not know about restarts of a stream."""

    @wraps(original)
    def wait(self: Any, timeout: float | None = None) -> Any:
        notebook = notebook_for(None)
        queries = [] if notebook is None else [started.query for started in notebook.queries]
        runs = {query: query.runs for query in queries if isinstance(query, RetriedQuery) and query.isActive}
        ended = [query for query in queries if not query.isActive]
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                found = original(self, remaining)
            except StreamingQueryException:
                failed = [query for query, run in runs.items() if query.runs > run or not query.is_running]
                if not failed or not all(query.wait_until_decided(deadline) for query in failed):
                    raise
                if any(not query.isActive for query in queries if query not in ended):
                    raise
                runs.update({query: query.runs for query in failed})
                self.resetTerminated()
            else:
                # So that the caller finds the stream that terminated.
                for query in runs:
                    query.wait_until_decided(deadline)
                return found

    return wait
