"""What pipelines have put into the catalog of this process's session, which outlives projects and is not theirs alone.

A notebook that runs updates has views and tables of its own, managed ones too, whose rows go when their names are
dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.checkpoints.offsets import local_path
from headrace.errors import PipelineError
from headrace.graph.session_names import SessionName

# By application: another session of this process starts with an empty catalog, in which no name is a pipeline's.
_ENTRIES: dict[str, set[SessionName]] = {}


def note(session: SparkSession, name: SessionName) -> None:
    """A name is a pipeline's from now on."""
    _of(session).add(name)


def drop(session: SparkSession, name: SessionName, ours: tuple[Path, Path]) -> None:
    """Take a name out of the catalog, if it is there; the data stays.

    Args:
        session: whose catalog.
        name: a table's.
        ours: the storage and the folder of stand-ins, by which what an earlier process has left in a catalog that
            lasts is known.

    Raises:
        PipelineError: CATALOG.NAME_TAKEN, when the table is not a pipeline's.
    """
    if name not in _of(session):
        if not session.catalog.tableExists(name.text):
            return
        if not _lies_in(session, name, ours):
            raise PipelineError("CATALOG.NAME_TAKEN", name=name.text.replace("`", ""))
    session.sql(f"DROP TABLE IF EXISTS {name.text}")
    _of(session).discard(name)


def clear(session: SparkSession) -> None:
    """Take out all that pipelines have put in, if the catalog is one in memory."""
    if session.conf.get("spark.sql.catalogImplementation") != "in-memory":
        return
    for name in tuple(_of(session)):
        if name.database is None:
            session.catalog.dropTempView(name.table)
        else:
            session.sql(f"DROP TABLE IF EXISTS {name.text}")
    _of(session).clear()


@contextmanager
def adopting_views(session: SparkSession) -> Iterator[None]:
    """Count the temporary views that a pipeline's code makes inside the block as the pipeline's."""
    before = temporary_views(session)
    try:
        yield
    finally:
        _of(session).update(SessionName(None, view) for view in temporary_views(session) - before)


def _of(session: SparkSession) -> set[SessionName]:
    return _ENTRIES.setdefault(str(session.sparkContext.applicationId), set())


def _lies_in(session: SparkSession, name: SessionName, folders: tuple[Path, Path]) -> bool:
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python has no location
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier
    found = catalog.getTableMetadata(identifier(name.table, jvm.scala.Option.apply(name.database)))
    if str(found.tableType().name()) != "EXTERNAL":
        return False
    place = Path(local_path(str(found.location())))
    storage, stubs = folders
    # Each process has a folder of stand-ins of its own, with the same beginning.
    return place.is_relative_to(storage) or place.name.startswith(stubs.name.rpartition("-")[0])


def temporary_views(session: SparkSession) -> frozenset[str]:
    """The names of the session's temporary views, whoever made them."""
    names: Any = session._jsparkSession.sessionState().catalog().getTempViewNames()  # noqa: SLF001 - all at once
    return frozenset(str(names.mkString("\n")).split("\n")) - {""}
