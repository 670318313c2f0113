"""The one ready session of this process, and what its patched methods know of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from headrace.model.location import Location
from headrace.spark.notebook.call_origin import by_user
from headrace.spark.notebook.checkpoints import Checkpoints
from headrace.spark.notebook.notices import Notices
from headrace.spark.notebook.path_mapping import Places
from headrace.spark.notebook.stream_fingerprint import StreamFingerprints
from headrace.spark.notebook.table_lookup import TableLookup
from headrace.spark.session.query_context import query_context


@dataclass(frozen=True)
class StartedQuery:
    """A streaming query that a script has started.

    Attributes:
        query: as the script got it.
        name: what it is called in texts: its name, or what it writes to.
        location: the line that started it.
    """

    query: Any
    name: str
    location: Location

    def raised(self, error: BaseException) -> bool:
        """True when it is this query's failure that the script was told."""
        return self.query.told is error


@dataclass
class NotebookSession:
    """What makes a session ready for scripts.

    Attributes:
        session: which one.
        names: tables and schemas by every spelling.
        places: what paths stand for.
        checkpoints: of queries that name none.
        remarks: to the person.
        queries: the streaming queries that the script has started.
        fingerprints: what tells streams apart that one line starts.
    """

    session: SparkSession
    names: TableLookup
    places: Places
    checkpoints: Checkpoints
    remarks: Notices
    queries: list[StartedQuery] = field(default_factory=list)
    fingerprints: StreamFingerprints = field(default_factory=StreamFingerprints)
    # A query without end takes what is there in batches that follow each other at once.
    hurries: bool = False

    def once(self, text: str) -> None:
        """Tell a remark that was not told yet."""
        self.remarks.once(text)


_serving: list[NotebookSession] = []


def serve(ready: NotebookSession) -> None:
    """Let the session be ready from now on, in the place of the one that was."""
    _serving[:] = [ready]


@contextmanager
def serving(ready: NotebookSession | None) -> Iterator[None]:
    """Let the session be ready inside the block; what is made ready there, also without *ready*, ends with it."""
    before = list(_serving)
    if ready is not None:
        serve(ready)
    try:
        yield
    finally:
        _serving[:] = before


def served() -> NotebookSession | None:
    """What was made ready last, if anything."""
    return _serving[-1] if _serving else None


def ready_for(session: Any) -> NotebookSession | None:
    """What the session is ready with, when the user's own code asks; None in a pipeline, and for code of ours."""
    ready = served()
    if ready is None or query_context().of_pipeline or not by_user():
        return None
    return ready if session is None or session.sparkContext is ready.session.sparkContext else None


def let_go() -> None:
    """Take the tables of scripts out of the session's catalog, for a pipeline that puts in its own.

    Scripts find theirs again when they name them.
    """
    ready = served()
    if ready is not None and ready.session.sparkContext._jsc is not None:  # noqa: SLF001 - None once it was stopped
        ready.names.forget()
