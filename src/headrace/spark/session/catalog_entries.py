"""What pipelines have put into the catalog of this process's session, which outlives projects and is not theirs alone.

A notebook that runs updates has views and tables of its own, managed ones too, whose rows go when their names are
dropped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.errors import PipelineError
from headrace.graph.session_names import SessionName
from headrace.model.local_path import local_path

# By application: another session of this process starts with an empty catalog, in which no name is a pipeline's. What a
# pipeline has put under a name: the place of a table, or which view it is.
_ENTRIES: dict[str, dict[SessionName, str]] = {}
# The functions that a pipeline's files have registered: where their code stands.
_FUNCTIONS: dict[str, dict[str, str]] = {}


def note(session: SparkSession, name: SessionName, path: str | None = None) -> None:
    """A name is a pipeline's from now on; *path* is where its table lies, and nothing for a view."""
    _of(session)[name] = _identity(session, name) if path is None else path


def drop(session: SparkSession, name: SessionName, ours: tuple[Path, Path]) -> None:
    """Take a table's name out of the catalog, if it is there; the data stays.

    Args:
        session: whose catalog.
        name: a table's.
        ours: the storage and the folder of stand-ins, by which what an earlier process has left in a catalog that
            lasts is known.

    Raises:
        PipelineError: CATALOG.NAME_TAKEN, when the table is not a pipeline's.
    """
    if not _is_there(session, name):
        _of(session).pop(name, None)
        return
    noted = _of(session).get(name)
    if not _lies_in(_place(session, name), ours, noted):
        raise PipelineError("CATALOG.NAME_TAKEN", name=name.text.replace("`", ""))
    session.sql(f"DROP TABLE IF EXISTS {name.text}")
    _of(session).pop(name, None)


def clear(session: SparkSession) -> None:
    """Take out all that pipelines have put in, if the catalog is one in memory.

    What somebody else has put under such a name meanwhile stays.
    """
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python cannot drop functions
    for function in _FUNCTIONS.pop(_application(session), {}):
        catalog.dropTempFunction(function, True)  # noqa: FBT003 - Scala's
    if session.conf.get("spark.sql.catalogImplementation") != "in-memory":
        return
    for name, noted in tuple(_of(session).items()):
        if name.database is None:
            if _identity(session, name) == noted:
                session.catalog.dropTempView(name.table)
        elif _is_there(session, name) and _lies_in(_place(session, name), None, noted):
            session.sql(f"DROP TABLE IF EXISTS {name.text}")
    _of(session).clear()


def note_function(session: SparkSession, name: str, place: str) -> str | None:
    """A function is a pipeline's from now on, unless the session had it; where another one of the name stands."""
    functions = _FUNCTIONS.setdefault(_application(session), {})
    known = functions.get(name.casefold())
    if known is None and not session.catalog.functionExists(name):
        functions[name.casefold()] = place
    return known if known != place else None


def _application(session: SparkSession) -> str:
    return str(session.sparkContext.applicationId)


def _of(session: SparkSession) -> dict[SessionName, str]:
    return _ENTRIES.setdefault(_application(session), {})


def _identity(session: SparkSession, name: SessionName) -> str:
    """Which view there is under a name; nothing when there is none."""
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python shows names alone
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    found = catalog.getRawTempView(name.table)
    return str(jvm.System.identityHashCode(found.get())) if found.isDefined() else ""


def _is_there(session: SparkSession, name: SessionName) -> bool:
    """Whether the catalog has a table of this name, be its data there or not."""
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python's own asks Delta for the data
    return bool(catalog.tableExists(_identifier(session, name)))


def _place(session: SparkSession, name: SessionName) -> Path | None:
    """Where a table lies whose rows stay when its name is dropped; None for any other."""
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python has no location
    found = catalog.getTableMetadata(_identifier(session, name))
    return Path(local_path(str(found.location()))) if str(found.tableType().name()) == "EXTERNAL" else None


def _identifier(session: SparkSession, name: SessionName) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - Scala's, which Python has no form of
    return jvm.org.apache.spark.sql.catalyst.TableIdentifier(name.table, jvm.scala.Option.apply(name.database))


def _lies_in(place: Path | None, folders: tuple[Path, Path] | None, noted: str | None) -> bool:
    """Whether a place is a pipeline's: the noted one, or below the folders."""
    if place is None:
        return False
    if noted is not None and place == Path(noted):
        return True
    if folders is None:
        return False
    storage, stubs = folders
    # Each process has a folder of stand-ins of its own, with the same beginning.
    return place.is_relative_to(storage) or place.name.startswith(stubs.name.rpartition("-")[0])


def temporary_views(session: SparkSession) -> frozenset[str]:
    """The names of the session's temporary views, whoever made them."""
    names: Any = session._jsparkSession.sessionState().catalog().getTempViewNames()  # noqa: SLF001 - all at once
    return frozenset(str(names.mkString("\n")).split("\n")) - {""}
