"""The context of a query function's call: what its readers store, how names are rewritten, and what is refused.

One value per call, which PySpark's patched methods read. Spark's workers import this module: keep its imports few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from headrace.stores.paths import StoragePath

NameRewrite = Callable[[str], str]


@dataclass(frozen=True)
class BatchReads:
    """How a query reads while it is called as a batch.

    Args:
        reader: makes the replacement of ``spark.readStream`` from a session.
        view_of: returns the view with the part of a table to read; None means the table itself.
    """

    reader: Callable[[Any], Any]
    view_of: Callable[[str], str | None]


@dataclass(frozen=True)
class QueryContext:
    """The context of one call of a query function; the default applies outside of such calls.

    Args:
        is_resolving: the inputs are empty stand-ins, so that actions are refused and sources are not read.
        is_starting: the query is about to run, so that readers store the schemas that they infer.
        queries_only: ``spark.sql`` accepts only queries, no statements.
        rewrite_name: turns the name of a dataset into its name in the session's catalog.
        rewrite_query: does the same for the names in a query's text.
        check_path: raises for the path of one of the pipeline's own tables.
        batch: how streams are read as batches, if they are.
        reads_commits: whether a stream that is about to start reads the table of that name from its first commit.
        schema_folders: the folders of schemas and ledgers, one for each Auto Loader reader of a pipeline; None in a
            script, whose options name the folder.
        infers_again: Auto Loader infers its schemas again, because the flow's table was cleared.
        plain_names: the flow's table cannot map column names, so that special characters in names are refused.
        input_file_in_metadata: the last files read have the hidden column for ``input_file_name()``.
    """

    is_resolving: bool = False
    is_starting: bool = False
    queries_only: bool = False
    rewrite_name: NameRewrite | None = None
    rewrite_query: NameRewrite | None = None
    check_path: Callable[[str], None] | None = None
    batch: BatchReads | None = None
    reads_commits: Callable[[str], bool] | None = None
    schema_folders: Iterator[StoragePath] | None = None
    infers_again: bool = False
    plain_names: bool = False
    input_file_in_metadata: bool = False

    @property
    def of_pipeline(self) -> bool:
        """Whether a pipeline is calling one of its query functions; false in a script."""
        return self.schema_folders is not None


_CONTEXT: ContextVar[QueryContext] = ContextVar("headrace_query_context")
_OUTSIDE = QueryContext()


def query_context() -> QueryContext:
    """The context of the current call in this thread."""
    return _CONTEXT.get(_OUTSIDE)


def set_query_context(context: QueryContext) -> None:
    """Replace the context until the enclosing block ends."""
    _CONTEXT.set(context)


@contextmanager
def in_query_context(context: QueryContext) -> Iterator[None]:
    """Call query functions in this context inside the block."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)
