"""Puts the small files of a table together once there are many.

Delta's own auto compaction is off: it rewrites every table at its first commit in each process, because it counts small
files in memory from there on (``AutoCompactPartitionStats``), and a stream waits for it.
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
from headrace.spark.update.context import UpdateContext

SMALL_FILE_BYTES = 32 * 1024 * 1024
# So many small files make a table due; each is rewritten about once, since what comes out is not small.
COMPACT_ABOVE_FILES = 256
_LOOK_EVERY_S = 0.2
_TARGET_FILE_BYTES = 4 * SMALL_FILE_BYTES
# A file of any size of which more rows are deleted is rewritten then, too.
_DELETED_SHARE = 0.2


class Compaction:
    """Compacts the tables of one update, one after the other, in a thread of its own.

    No flow waits for it, but those that merge changes into the table. No row changes, and streams that read the tables
    see nothing new.
    """

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._wanted: queue.SimpleQueue[QualifiedName | None] = queue.SimpleQueue()
        self._waiting: set[QualifiedName] = set()
        self._asking = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._group = f"headrace {context.update_id} maintenance"

    def ask(self, name: QualifiedName) -> None:
        """Look at a table soon; returns at once. A table that is waiting already is looked at once."""
        dataset = self._context.graph.by_name[name]
        properties = dataset.dataset.properties
        if (
            not dataset.kind.stored
            or self._stopping.is_set()
            or properties.get(MANAGED_KEY, "true").strip().casefold() == "false"
        ):
            return
        with self._asking:
            if name not in self._waiting:
                self._waiting.add(name)
                self._wanted.put(name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="headrace-maintenance", daemon=True)
                self._thread.start()

    def close(self, in_haste: Callable[[], bool]) -> None:
        """Return once nothing is being rewritten: after all that was asked for, or broken off when there is haste."""
        if self._thread is None:
            return
        self._wanted.put(None)
        while self._thread.is_alive():
            if in_haste():
                self.break_off()
            self._thread.join(_LOOK_EVERY_S)

    def break_off(self) -> None:
        """Rewrite nothing any more: a flow that waits for its turn may be one that is to stop."""
        if not self._stopping.is_set():
            self._stopping.set()
            cancel_group(self._context, self._group)

    def _work(self) -> None:
        context = self._context
        context.session.sparkContext.setJobGroup(self._group, self._group, interruptOnCancel=True)
        while (name := self._wanted.get()) is not None and not self._stopping.is_set():
            self._waiting.discard(name)
            layout, naming = context.layout, context.naming
            for path in (context.table_path(name), layout.quarantine(naming, name), layout.memory(naming, name)):
                # Tidying is a favour to readers: whatever goes wrong, the next update tries again. It would go wrong
                # with each batch of changes that is merged meanwhile.
                with context.turns[name].lock, suppress(Exception):
                    self._compact_if_due(path)

    def _compact_if_due(self, path: str) -> None:
        if small_files(path) <= COMPACT_ABOVE_FILES:
            return
        session = self._context.session
        java_session: Any = session._jsparkSession.cloneSession()  # noqa: SLF001 - settings for this work alone
        java_session.conf().set("spark.databricks.delta.optimize.minFileSize", str(SMALL_FILE_BYTES))
        java_session.conf().set("spark.databricks.delta.optimize.maxFileSize", str(_TARGET_FILE_BYTES))
        java_session.conf().set("spark.databricks.delta.optimize.maxDeletedRowsRatio", str(_DELETED_SHARE))
        self._context.fence()
        jvm: Any = session._jvm  # noqa: SLF001 - Delta's builder; its Python wheel would add nothing
        jvm.io.delta.tables.DeltaTable.forPath(java_session, path).optimize().executeCompaction()


def small_files(path: str) -> int:
    """How many files of a table are small, by its log; 0 when there is no table."""
    table = open_table(path)
    if table is None:
        return 0
    sizes = pa.table(table.get_add_actions()).column("size_bytes")
    return int(pc.sum(pc.less(sizes, SMALL_FILE_BYTES)).as_py() or 0)


def cancel_group(context: UpdateContext, group: str) -> None:
    """Break off what a work group runs, and what it would run next."""
    spark: Any = context.session.sparkContext
    # Spark's own exceptions say nothing here that the reports of flows do not.
    with suppress(Exception):
        spark._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001 - Python has the half of it
