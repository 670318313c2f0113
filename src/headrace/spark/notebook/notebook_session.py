"""The notebook session of this process, and the state that PySpark's patched methods use."""

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
from headrace.spark.notebook.path_mapping import PathMapping
from headrace.spark.notebook.stream_fingerprint import StreamFingerprints
from headrace.spark.notebook.table_lookup import TableLookup
from headrace.spark.session.query_context import query_context


@dataclass(frozen=True)
class StartedQuery:
    """A streaming query that a script has started.

    Attributes:
        query: the query as the script got it.
        name: its name in messages: the query name, or else its target.
        location: the line that started it.
    """

    query: Any
    name: str
    location: Location

    def has_raised(self, error: BaseException) -> bool:
        """True when the script got this error from this query."""
        return self.query.reported_error is error


@dataclass
class NotebookSession:
    """The state of a notebook session.

    Attributes:
        session: the Spark session.
        names: resolves table and schema names.
        paths: maps paths.
        checkpoints: the checkpoints of queries that name none.
        notices: notices to the user.
        queries: the streaming queries that the script has started.
        fingerprints: distinguish streams that the same line starts.
    """

    session: SparkSession
    names: TableLookup
    paths: PathMapping
    checkpoints: Checkpoints
    notices: Notices
    queries: list[StartedQuery] = field(default_factory=list)
    fingerprints: StreamFingerprints = field(default_factory=StreamFingerprints)
    # Streams ignore trigger intervals and process the available data without pauses.
    ignores_trigger_intervals: bool = False

    def once(self, text: str) -> None:
        """Show a notice, unless it was shown before."""
        self.notices.once(text)


_active: list[NotebookSession] = []


def activate(notebook: NotebookSession) -> None:
    """Make a notebook session the active one from now on."""
    _active[:] = [notebook]


@contextmanager
def activated(notebook: NotebookSession | None) -> Iterator[None]:
    """Make a notebook session, if given, the active one inside the block; restores the former one afterwards."""
    before = list(_active)
    if notebook is not None:
        activate(notebook)
    try:
        yield
    finally:
        _active[:] = before


def active_notebook() -> NotebookSession | None:
    """The active notebook session, or None."""
    return _active[-1] if _active else None


def notebook_for(session: Any) -> NotebookSession | None:
    """The notebook session of a Spark session, for calls from user code; None in a pipeline and for our own code."""
    notebook = active_notebook()
    if notebook is None or query_context().of_pipeline or not by_user():
        return None
    return notebook if session is None or session.sparkContext is notebook.session.sparkContext else None


def release_tables() -> None:
    """Remove the tables of scripts from the session's catalog, before a pipeline registers its own.

    They are registered again when a script uses them.
    """
    notebook = active_notebook()
    if notebook is not None and notebook.session.sparkContext._jsc is not None:  # noqa: SLF001 - None once it was stopped
        notebook.names.unregister_all()
