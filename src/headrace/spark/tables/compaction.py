"""Compacts the small files of a table once there are many.

Delta's auto compaction is off: it rewrites every table at its first commit in each process, because it counts small
files in memory (``AutoCompactPartitionStats``), and the stream waits for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.delta_log.tables import open_table
from headrace.model.names import QualifiedName
from headrace.model.pipeline_keys import MANAGED_KEY
from headrace.plan.maintenance import SMALL_FILE_BYTES
from headrace.spark.delta.optimize import compact
from headrace.spark.update.context import UpdateContext
from headrace.storage.adopted_tables import AdoptedTables, Consent, needs_consent

# A table with more small files is compacted; each file is rewritten about once, because the result is not small.
COMPACT_ABOVE_FILES = 256
_POLL_INTERVAL_S = 0.2


class Compaction:
    """Compacts the tables of one update, one after the other, in a separate thread.

    Only flows that merge changes into the table wait for it. Rows do not change, and streams that read the table see
    no new data.
    """

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._requests: queue.SimpleQueue[QualifiedName | None] = queue.SimpleQueue()
        self._pending: set[QualifiedName] = set()
        self._request_lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._group = f"headrace {context.update_id} maintenance"

    def request(self, name: QualifiedName) -> None:
        """Request the compaction of a table; returns at once. Requests for a pending table are ignored."""
        dataset = self._context.graph.by_name[name]
        properties = dataset.dataset.properties
        if (
            not dataset.kind.stored
            or self._stopping.is_set()
            or properties.get(MANAGED_KEY, "true").strip().casefold() == "false"
        ):
            return
        with self._request_lock:
            if name not in self._pending:
                self._pending.add(name)
                self._requests.put(name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="headrace-maintenance", daemon=True)
                self._thread.start()

    def close(self, is_urgent: Callable[[], bool]) -> None:
        """Wait until all requests are done; cancel them once *is_urgent* returns True."""
        if self._thread is None:
            return
        self._requests.put(None)
        while self._thread.is_alive():
            if is_urgent():
                self.cancel()
            self._thread.join(_POLL_INTERVAL_S)

    def cancel(self) -> None:
        """Cancel the compaction and all requests: a flow that has to stop may be waiting for the table lock."""
        if not self._stopping.is_set():
            self._stopping.set()
            cancel_group(self._context, self._group)

    def _work(self) -> None:
        context = self._context
        context.session.sparkContext.setJobGroup(self._group, self._group, interruptOnCancel=True)
        while (name := self._requests.get()) is not None and not self._stopping.is_set():
            self._pending.discard(name)
            layout, naming = context.layout, context.naming
            for path in (context.table_path(name), layout.quarantine(naming, name), layout.cdc_state(naming, name)):
                # Compaction is optional: after an error the next update tries again. Without the lock it would fail
                # with each batch of changes that is merged meanwhile.
                with context.table_locks[name].lock, suppress(Exception):
                    self._compact_if_needed(path)

    def _compact_if_needed(self, path: str) -> None:
        if count_small_files(path) <= COMPACT_ABOVE_FILES:
            return
        if needs_consent(AdoptedTables(self._context.layout).at(path), Consent.MAINTAIN):
            return
        self._context.guard.fence()
        compact(self._context.session, path)


def count_small_files(path: str) -> int:
    """The number of small files of a table, from its log; 0 if it does not exist."""
    table = open_table(path)
    if table is None:
        return 0
    sizes = pa.table(table.get_add_actions()).column("size_bytes")
    return int(pc.sum(pc.less(sizes, SMALL_FILE_BYTES)).as_py() or 0)


def cancel_group(context: UpdateContext, group: str) -> None:
    """Cancel the running and the future Spark jobs of a job group."""
    spark: Any = context.session.sparkContext
    # Spark's exceptions add nothing to the reports of flows.
    with suppress(Exception):
        spark._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001 - PySpark cannot cancel future jobs
