"""The entries of pipelines in the session's catalog, which outlives projects and is shared with other code.

A notebook that runs updates has views and tables of its own, also managed ones, whose rows are deleted when they are
dropped.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headrace.errors import PipelineError
from headrace.graph.session_names import SessionName
from headrace.model.local_path import local_path
from headrace.spark.session.own_tables import registering
from headrace.stores.paths import StoragePath, is_below, storage_path

# By application, because another session of this process starts with an empty catalog. The value of an entry is the
# path of a table, or the identity of a view.
_ENTRIES: dict[str, dict[SessionName, str]] = {}
# The functions that a pipeline's files have registered, with the locations of their code.
_FUNCTIONS: dict[str, dict[str, str]] = {}


def register(session: SparkSession, name: SessionName, path: str | None = None) -> None:
    """Record that a name belongs to a pipeline; *path* is that of its table, None for a view."""
    _of(session)[name] = _identity(session, name) if path is None else path


def drop(session: SparkSession, name: SessionName, own_folders: tuple[StoragePath, StoragePath]) -> None:
    """Drop a table's name from the catalog, if it exists; the data stays.

    Args:
        session: the session of the catalog.
        name: the table's name.
        own_folders: the storage and the folder of stand-ins, to recognise what an earlier process left in a
            persistent catalog.

    Raises:
        PipelineError: CATALOG.NAME_TAKEN, if the table does not belong to a pipeline.
    """
    if not _exists(session, name):
        _of(session).pop(name, None)
        return
    recorded = _of(session).get(name)
    if not _belongs_to(_external_location(session, name), own_folders, recorded):
        raise PipelineError("CATALOG.NAME_TAKEN", name=name.text.replace("`", ""))
    session.sql(f"DROP TABLE IF EXISTS {name.text}")
    _of(session).pop(name, None)


def clear(session: SparkSession) -> None:
    """Drop all entries of pipelines.

    Entries that other code has replaced meanwhile stay.
    """
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python cannot drop functions
    for function in _FUNCTIONS.pop(_application(session), {}):
        catalog.dropTempFunction(function, True)  # noqa: FBT003 - Scala's
    with registering(session):
        for name, recorded in tuple(_of(session).items()):
            if name.database is None:
                if _identity(session, name) == recorded:
                    session.catalog.dropTempView(name.table)
            elif _exists(session, name) and _belongs_to(_external_location(session, name), None, recorded):
                session.sql(f"DROP TABLE IF EXISTS {name.text}")
    _of(session).clear()


def register_function(session: SparkSession, name: str, location: str) -> str | None:
    """Record a pipeline's function, unless the session had it; returns the location of another one with the name."""
    functions = _FUNCTIONS.setdefault(_application(session), {})
    known = functions.get(name.casefold())
    if known is None and not session.catalog.functionExists(name):
        functions[name.casefold()] = location
    return known if known != location else None


def _application(session: SparkSession) -> str:
    return str(session.sparkContext.applicationId)


def _of(session: SparkSession) -> dict[SessionName, str]:
    return _ENTRIES.setdefault(_application(session), {})


def _identity(session: SparkSession, name: SessionName) -> str:
    """The identity of the view with a name; empty if there is none."""
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python shows names alone
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    found = catalog.getRawTempView(name.table)
    return str(jvm.System.identityHashCode(found.get())) if found.isDefined() else ""


def _exists(session: SparkSession, name: SessionName) -> bool:
    """Whether the catalog has a table of this name, whether or not its data exists."""
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python's own asks Delta for the data
    return bool(catalog.tableExists(_identifier(session, name)))


def _external_location(session: SparkSession, name: SessionName) -> StoragePath | None:
    """The location of an external table, whose rows stay when it is dropped; None for any other table."""
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python has no location
    found = catalog.getTableMetadata(_identifier(session, name))
    return storage_path(local_path(str(found.location()))) if str(found.tableType().name()) == "EXTERNAL" else None


def _identifier(session: SparkSession, name: SessionName) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - Scala's, which Python has no form of
    return jvm.org.apache.spark.sql.catalyst.TableIdentifier(name.table, jvm.scala.Option.apply(name.database))


def _belongs_to(
    location: StoragePath | None, folders: tuple[StoragePath, StoragePath] | None, recorded: str | None
) -> bool:
    """Whether a location belongs to a pipeline: it is the recorded one, or below the folders."""
    if location is None:
        return False
    if recorded is not None and str(location) == str(storage_path(recorded)):
        return True
    if folders is None:
        return False
    storage, stubs = folders
    # Each process has its own folder of stand-ins, with the same prefix.
    return is_below(location, storage) or location.name.startswith(stubs.name.rpartition("-")[0])


def temporary_views(session: SparkSession) -> frozenset[str]:
    """The names of all temporary views of the session."""
    names: Any = session._jsparkSession.sessionState().catalog().getTempViewNames()  # noqa: SLF001 - all at once
    return frozenset(str(names.mkString("\n")).split("\n")) - {""}
